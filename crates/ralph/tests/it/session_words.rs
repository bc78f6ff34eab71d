//! Words by which a person frees a session and holds it again, and where they are words like any other.

use crate::conversation::Conversation;
use crate::support::{Answer, Sandbox};

const GUARDED: &str = "guard: [session]\nverify:\n  - test ! -e broken\n";

/// Said at every stop since it was freed.
const NOT_CHECKED: &str = "this stop was not checked";
const FREED: &str = "The session is free";
const HOLDS_AGAIN: &str = "The gates hold this session again.";

/// The agent changes something, whatever was asked, and stops.
fn breaks_it(talk: &Conversation<'_>, sandbox: &Sandbox, how: &str) -> Answer {
    sandbox.file("broken", how);
    talk.agent_uses("Write").silent();
    talk.agent_stops()
}

#[test]
fn a_word_frees_the_session_until_a_word_holds_it_again() {
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
        let talk = Conversation::new(&sandbox);
        talk.person_says("go").silent();
        breaks_it(&talk, &sandbox, "1").held();
        let answer = talk.person_adds(pause).answered();
        assert!(answer.contains(FREED), "{pause}: {answer}");
        assert!(talk.agent_stops().told().contains(NOT_CHECKED), "{pause}");
        // Free means free, whatever is asked next.
        talk.person_says("something else").silent();
        assert!(breaks_it(&talk, &sandbox, "2").told().contains(NOT_CHECKED), "{pause}");
        assert_eq!(talk.person_says(resume).told(), HOLDS_AGAIN, "{resume}");
        breaks_it(&talk, &sandbox, "3").held();
        // It holds already: now it is a word for the agent.
        talk.person_says(resume).silent();
    }
}

#[test]
fn a_session_is_freed_before_it_was_ever_held() {
    let sandbox = Sandbox::gated(GUARDED);
    let talk = Conversation::new(&sandbox);
    assert!(talk.person_says("pause").answered().contains(FREED));
    talk.person_says("go").silent();
    assert!(breaks_it(&talk, &sandbox, "1").told().contains(NOT_CHECKED));
}

#[test]
fn a_word_frees_this_session_and_no_other() {
    let sandbox = Sandbox::gated(GUARDED);
    let (one, other) = (Conversation::new(&sandbox), Conversation::named(&sandbox, "session-2"));
    for talk in [&one, &other] {
        talk.person_says("go").silent();
    }
    one.person_adds("stop").answered();
    sandbox.file("broken", "1");
    for talk in [&one, &other] {
        talk.agent_uses("Write").silent();
    }
    assert!(one.agent_stops().told().contains(NOT_CHECKED));
    other.agent_stops().held();
}

#[test]
fn a_sentence_with_the_word_in_it_frees_nobody() {
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
    let talk = Conversation::new(&sandbox);
    for (round, sentence) in sentences.into_iter().enumerate() {
        talk.person_says(sentence).silent();
        sandbox.file("broken", &round.to_string());
        talk.agent_uses("Write").silent();
        assert!(!talk.agent_stops().ran.stdout.is_empty(), "{sentence}: this session was not looked at");
        // Each of them finds a tree that passes.
        sandbox.remove("broken");
        sandbox.ralph(&["verify"]).success();
    }
}

#[test]
fn a_machine_that_says_the_word_is_not_the_person() {
    let sandbox = Sandbox::gated(GUARDED);
    let talk = Conversation::new(&sandbox);
    talk.person_says("go").silent();
    breaks_it(&talk, &sandbox, "1").held();
    for prompt in ["<task-notification>stop</task-notification>", "Stop hook feedback:\nstop"] {
        talk.person_says(prompt).silent();
        talk.agent_stops().held();
    }
}

#[test]
fn without_a_loop_and_without_a_guard_they_are_ordinary_words() {
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
        ("taken back", revoked),
    ];
    for (place, sandbox) in places {
        let talk = Conversation::new(&sandbox);
        for word in ["stop", "停", "continue", "繼續", "pausa", "continuar"] {
            let answer = talk.person_says(word);
            assert_eq!(answer.ran.stdout, "", "{place}: {word}");
            answer.silent();
        }
        let kept = sandbox.remembered();
        assert!(!kept.iter().any(|name| name.contains("loops/")), "{place}: {kept:?}");
    }
}

#[test]
fn a_person_at_a_terminal_frees_the_session_and_an_agent_does_not() {
    let mut sandbox = Sandbox::gated(GUARDED);
    {
        let talk = Conversation::new(&sandbox);
        talk.person_says("go").silent();
        breaks_it(&talk, &sandbox, "1").held();
        let mut in_agents_shell = sandbox.command(&["pause"]);
        let refused = in_agents_shell.env("CLAUDECODE", "1").output().expect("the binary");
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("only you can pause"), "{refused:?}");
        talk.agent_stops().held();

        sandbox.ralph(&["pause"]).success().says(FREED);
        assert!(talk.agent_stops().told().contains(NOT_CHECKED));
        sandbox.ralph(&["pause"]).success().says("No active Ralph loop found.");
        sandbox.ralph(&["resume"]).success().says(HOLDS_AGAIN);
        talk.agent_stops().held();
    }
    // What the person reads is in the person's language.
    sandbox.set("RALPH_LANG", "zh-TW");
    let talk = Conversation::new(&sandbox);
    assert_eq!(talk.person_says("暫停").answered(), "此工作階段已放行；說「繼續」後關卡會再次生效。");
    assert_eq!(talk.person_says("繼續").told(), "關卡已對此工作階段再次生效。");
}
