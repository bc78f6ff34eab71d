//! Words by which the user frees a session and blocks it again, and where they are ordinary words.

use ralph_testkit::{HookAnswer, Sandbox, Session};

const GUARDED: &str = "guard: [session]\nverify:\n  - test ! -e broken\n";

/// Shown at every stop since it was freed.
const NOT_CHECKED: &str = "this stop was not checked";
const FREED: &str = "Checks are off for this session";
const BLOCKS_AGAIN: &str = "Checks are on again for this session.";

/// The agent changes a file, whatever the prompt, and stops.
fn breaks_it(talk: &Session<'_>, sandbox: &Sandbox, how: &str) -> HookAnswer {
    sandbox.file("broken", how);
    talk.agent_uses("Write").silent();
    talk.agent_stops()
}

#[test]
fn stop_frees_the_session_until_continue_blocks_it_again() {
    let pairs = [
        ("stop", "continue"),
        ("Pause.", "resume"),
        ("停", "繼續"),
        ("暫停", "繼續"),
        ("暂停", "继续"),
        ("「中斷」", "持續執行"),
        ("pausa", "continuar"),
        ("  STOP!!\n", "Continue!"),
    ];
    for (pause, resume) in pairs {
        let sandbox = Sandbox::gated(GUARDED);
        let talk = Session::new(&sandbox);
        talk.user_says("go").silent();
        breaks_it(&talk, &sandbox, "1").blocked();
        let answer = talk.user_adds(pause).answered();
        assert!(answer.contains(FREED), "{pause}: {answer}");
        assert!(talk.agent_stops().notice().contains(NOT_CHECKED), "{pause}");
        // It stays free, whatever the next prompt is.
        talk.user_says("something else").silent();
        assert!(breaks_it(&talk, &sandbox, "2").notice().contains(NOT_CHECKED), "{pause}");
        assert_eq!(talk.user_says(resume).notice(), BLOCKS_AGAIN, "{resume}");
        breaks_it(&talk, &sandbox, "3").blocked();
        // It blocks already: now it is an ordinary prompt for the agent.
        talk.user_says(resume).silent();
    }
}

#[test]
fn a_session_can_be_freed_before_it_was_blocked() {
    let sandbox = Sandbox::gated(GUARDED);
    let talk = Session::new(&sandbox);
    assert!(talk.user_says("pause").answered().contains(FREED));
    talk.user_says("go").silent();
    assert!(breaks_it(&talk, &sandbox, "1").notice().contains(NOT_CHECKED));
}

#[test]
fn stop_frees_this_session_and_no_other() {
    let sandbox = Sandbox::gated(GUARDED);
    let (one, other) = (Session::new(&sandbox), Session::named(&sandbox, "session-2"));
    for talk in [&one, &other] {
        talk.user_says("go").silent();
    }
    one.user_adds("stop").answered();
    sandbox.file("broken", "1");
    for talk in [&one, &other] {
        talk.agent_uses("Write").silent();
    }
    assert!(one.agent_stops().notice().contains(NOT_CHECKED));
    other.agent_stops().blocked();
}

#[test]
fn a_sentence_that_contains_the_word_frees_no_session() {
    let sentences = [
        "stop the server",
        "please continue",
        "don't stop",
        "不要停",
        "請繼續做下一步",
        "stop, then continue",
        "sigue con el paso 2",
        "/stop",
    ];
    let sandbox = Sandbox::gated(GUARDED);
    let talk = Session::new(&sandbox);
    for (round, sentence) in sentences.into_iter().enumerate() {
        talk.user_says(sentence).silent();
        sandbox.file("broken", &round.to_string());
        talk.agent_uses("Write").silent();
        assert!(!talk.agent_stops().ran.stdout.is_empty(), "{sentence}: this session was not looked at");
        // Each of them starts with a tree that passes.
        sandbox.remove("broken");
        sandbox.ralph(&["verify"]).success();
    }
}

#[test]
fn a_control_word_from_a_program_is_not_from_the_user() {
    let sandbox = Sandbox::gated(GUARDED);
    let talk = Session::new(&sandbox);
    talk.user_says("go").silent();
    breaks_it(&talk, &sandbox, "1").blocked();
    for prompt in ["<task-notification>stop</task-notification>", "Stop hook feedback:\nstop"] {
        talk.user_says(prompt).silent();
        talk.agent_stops().blocked();
    }
}

#[test]
fn without_a_loop_and_a_guard_control_words_are_ordinary_words() {
    let untrusted = Sandbox::new();
    untrusted.file("ralph.yaml", GUARDED);
    let revoked = Sandbox::gated(GUARDED);
    revoked.ralph(&["trust", "--revoke"]).success();
    let places = [
        ("no git", Sandbox::without_git()),
        ("no config", Sandbox::new()),
        ("untrusted", untrusted),
        ("no guard", Sandbox::gated("verify: ['true']\n")),
        ("switched off", Sandbox::gated(&format!("enabled: false\n{GUARDED}"))),
        ("revoked", revoked),
    ];
    for (place, sandbox) in places {
        let talk = Session::new(&sandbox);
        for word in ["stop", "停", "continue", "繼續", "pausa", "continuar"] {
            let answer = talk.user_says(word);
            assert_eq!(answer.ran.stdout, "", "{place}: {word}");
            answer.silent();
        }
        let kept = sandbox.remembered();
        assert!(!kept.iter().any(|name| name.contains("loops/")), "{place}: {kept:?}");
    }
}

#[test]
fn the_user_at_a_terminal_can_free_the_session_and_an_agent_cannot() {
    let mut sandbox = Sandbox::gated(GUARDED);
    {
        let talk = Session::new(&sandbox);
        talk.user_says("go").silent();
        breaks_it(&talk, &sandbox, "1").blocked();
        let mut in_agents_shell = sandbox.command(&["pause"]);
        let refused = in_agents_shell.env("CLAUDECODE", "1").output().expect("the binary");
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("only you can pause"), "{refused:?}");
        talk.agent_stops().blocked();

        sandbox.ralph(&["pause"]).success().says(FREED);
        assert!(talk.agent_stops().notice().contains(NOT_CHECKED));
        sandbox.ralph(&["pause"]).success().says("No active Ralph loop found.");
        sandbox.ralph(&["resume"]).success().says(BLOCKS_AGAIN);
        talk.agent_stops().blocked();
    }
    // The user reads their own language.
    sandbox.set("RALPH_LANG", "zh-TW");
    let talk = Session::new(&sandbox);
    assert_eq!(talk.user_says("暫停").answered(), "此工作階段已放行；說「繼續」後關卡會再次生效。");
    assert_eq!(talk.user_says("繼續").notice(), "關卡已對此工作階段再次生效。");
}
