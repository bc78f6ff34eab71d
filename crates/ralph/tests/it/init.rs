//! `ralph init`: writes what it shows, loses nothing that is there, takes out exactly what it put in.

use crate::support::Sandbox;

const SETTINGS: &str = ".claude/settings.local.json";

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("Makefile", "lint:\n\ttrue\ntest:\n\ttest ! -e broken\n");
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-qm", "a project"]);
    sandbox
}

#[test]
fn a_dry_run_shows_the_gates_and_writes_nothing() {
    let sandbox = project();
    sandbox.ralph(&["init", "--dry-run"]).success().says("$ make lint").says("$ make test");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    assert_eq!(sandbox.remembered(), Vec::<String>::new());
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_written() {
    let sandbox = project();
    sandbox.ralph(&["init"]).exits(3).says("nobody is there to ask").says("ralph init --yes");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    assert_eq!(sandbox.remembered(), Vec::<String>::new());
}

#[test]
fn set_up_break_held_mend_verified_and_out_again() {
    let sandbox = project();
    sandbox.ralph(&["init", "--yes"]).success().says("passed");
    assert!(
        sandbox.read("ralph.yaml").contains("- { name: test, run: make test }"),
        "{}",
        sandbox.read("ralph.yaml")
    );
    sandbox.file("broken", "");
    let (reason, _) = sandbox.stop("check").answer().held();
    assert!(reason.contains("gate `test` failed"), "{reason}");
    sandbox.remove("broken");
    assert!(sandbox.stop("check").answer().let_go().is_some_and(|told| told.contains("Verification passed")));
    sandbox.ralph(&["init", "--uninstall"]).success();
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_gate_that_cannot_start_is_written_as_a_comment() {
    let sandbox = project();
    sandbox.ralph(&["init", "--yes", "--gate", "nosuchprogram --all", "--gate", "true"]).success();
    let text = sandbox.read("ralph.yaml");
    assert!(text.contains("# - { name: nosuchprogram --all"), "{text}");
    assert_eq!(sandbox.status()["gates"].as_array().expect("gates").len(), 1);
}

#[test]
fn settings_that_are_there_keep_their_order_and_come_back_byte_for_byte() {
    let sandbox = project();
    let before = "{\"permissions\":   {\"allow\": [\"Bash(ls:*)\"]},\n\n\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \
                  \"command\", \"command\": \"say done\"}]}]}, \"model\": \"opus\"}";
    sandbox.file(SETTINGS, before);
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    let with = sandbox.read(SETTINGS);
    assert!(with.starts_with("{\"permissions\":   {\"allow\": [\"Bash(ls:*)\"]},\n\n\"hooks\""), "{with}");
    assert!(with.contains("say done") && with.contains("hook claude --deadline 570"), "{with}");
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    assert_eq!(sandbox.read(SETTINGS), with, "twice is once");
    sandbox.ralph(&["init", "--uninstall"]).success();
    assert_eq!(sandbox.read(SETTINGS), before);
}

#[test]
fn what_somebody_added_since_stays_when_ours_goes() {
    let sandbox = project();
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    let with = sandbox.read(SETTINGS).replacen('{', "{\n  \"model\": \"opus\",", 1);
    sandbox.file(SETTINGS, &with);
    sandbox.file("ralph.yaml", "verify: [mine]\n");
    sandbox.ralph(&["init", "--uninstall"]).success().says("our entries taken out").says("it is yours now");
    let rest: serde_json::Value = serde_json::from_str(&sandbox.read(SETTINGS)).expect("JSON");
    assert_eq!(rest, serde_json::json!({"model": "opus"}));
    assert_eq!(sandbox.read("ralph.yaml"), "verify: [mine]\n");
}

#[test]
fn a_settings_file_that_cannot_be_edited_is_left_alone() {
    let sandbox = project();
    sandbox.file(SETTINGS, "{ \"hooks\": [] }");
    sandbox.ralph(&["init", "--yes"]).exits(2).says("nothing was written");
    assert_eq!(sandbox.read(SETTINGS), "{ \"hooks\": [] }");
    assert!(!sandbox.exists("ralph.yaml"));
}

#[test]
fn a_config_that_is_there_stays_as_it_is() {
    let sandbox = project();
    sandbox.file("ralph.yaml", "verify: [\"true\"] # mine\n");
    // It was in the clone: nobody accepts it without having seen it.
    sandbox.ralph(&["init", "--yes"]).exits(3).says("was not accepted by anybody yet");
    assert!(!sandbox.exists(SETTINGS));
    sandbox.trust();
    sandbox.ralph(&["init", "--yes"]).success();
    assert_eq!(sandbox.read("ralph.yaml"), "verify: [\"true\"] # mine\n");
    sandbox.ralph(&["verify"]).success();
    sandbox.ralph(&["init", "--uninstall"]).success();
    assert_eq!(sandbox.read("ralph.yaml"), "verify: [\"true\"] # mine\n");
}

const COMMANDS: [&str; 4] = ["ralph-loop", "cancel-ralph", "ralph-status", "ralph-help"];

fn command_file(name: &str) -> String {
    format!(".claude/commands/{name}.md")
}

#[test]
fn the_commands_are_written_and_somebody_elses_are_left_alone() {
    for form in [&[][..], &["--shared"]] {
        let sandbox = project();
        sandbox.file(&command_file("cancel-ralph"), "mine\n");
        let ran = sandbox.ralph(&[&["init", "--yes", "--no-try"], form].concat()).success();
        let ran = ran.says(".claude/commands/cancel-ralph.md is somebody else's and stays as it is");
        assert!(!ran.stdout.contains("wrote .claude/commands/cancel-ralph.md"), "{ran:#?}");
        for name in COMMANDS {
            assert_eq!(sandbox.read(&command_file(name)) == "mine\n", name == "cancel-ralph", "{name}");
        }
        // One that a person changed since is theirs, too.
        sandbox.file(&command_file("ralph-help"), "changed\n");
        sandbox
            .ralph(&[&["init", "--yes", "--no-try"], form].concat())
            .success()
            .says(".claude/commands/ralph-help.md is somebody else's");
        sandbox.ralph(&["init", "--uninstall"]).success().says("ralph-help.md: left");
        let left: Vec<&str> =
            COMMANDS.into_iter().filter(|name| sandbox.exists(&command_file(name))).collect();
        assert_eq!(left, ["cancel-ralph", "ralph-help"]);
    }
}

#[test]
fn nothing_at_all_is_left_when_ours_goes() {
    let sandbox = project();
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    assert!(COMMANDS.into_iter().all(|name| sandbox.exists(&command_file(name))));
    sandbox.ralph(&["init", "--uninstall"]).success();
    assert!(!sandbox.exists(".claude"), "the folders went too");
    assert_eq!(sandbox.git(&["status", "--porcelain", "--ignored"]), "");
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_clients_cap_is_raised_unless_the_person_set_one() {
    const CAP: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";
    let set = |cap: &str| format!("{{\"env\":  {{\"{CAP}\": \"{cap}\"}}}}\n");
    // Whatever was there comes back byte for byte; a cap in a file that ours would win over counts as well.
    for (there, before, expected) in [
        (SETTINGS, "{\"env\": {\"A\":   \"b\"}}\n".to_owned(), Some("1000")),
        (SETTINGS, "{ }".to_owned(), Some("1000")),
        (SETTINGS, set("3"), Some("3")),
        (SETTINGS, set("0"), Some("0")),
        (".claude/settings.json", set("20"), None),
    ] {
        let sandbox = project();
        sandbox.file(there, &before);
        for _ in 0..2 {
            sandbox.ralph(&["init", "--yes", "--no-try"]).success();
            assert_eq!(json(&sandbox.read(SETTINGS))["env"][CAP].as_str(), expected, "{before}");
        }
        sandbox.ralph(&["init", "--uninstall"]).success();
        assert_eq!(sandbox.read(there), before);
    }
}

/// An edit between two calls of init does not make our own entries look like the person's.
#[test]
fn an_edit_between_two_inits_does_not_keep_ours_alive() {
    let sandbox = project();
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    let edited = sandbox.read(SETTINGS).replacen('{', "{\n  \"model\": \"opus\",", 1);
    sandbox.file(SETTINGS, &edited);
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    sandbox.ralph(&["init", "--uninstall"]).success();
    assert_eq!(json(&sandbox.read(SETTINGS)), serde_json::json!({"model": "opus"}));
}

#[test]
fn with_the_plugin_nothing_is_written_but_the_config() {
    let sandbox = project();
    sandbox
        .ralph(&["init", "--yes", "--no-try", "--plugin"])
        .success()
        .says("/plugin marketplace add ")
        .says("/plugin install ralph@ralph")
        .says("claude --plugin-dir ");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "?? ralph.yaml\n");
    assert_eq!(sandbox.status()["trust"], "accepted");
    sandbox.ralph(&["init", "--yes", "--plugin", "--shared"]).exits(2);
}

#[test]
fn who_is_held_is_what_was_asked_for_and_nothing_more() {
    for (flags, line, guard) in [
        (&[][..], "\n# guard: [session, check]\n", &["check"][..]),
        (&["--guard", "session,check"], "\nguard: [session, check]\n", &["check", "session"]),
        (&["--guard", "session"], "\nguard: [session]\n", &["session"]),
        (&["--guard", "teammates,tasks"], "\nguard: [teammates, tasks]\n", &["teammates", "tasks"]),
        (&["--guard", "rev*", "--guard", "on"], "\nguard: [\"rev*\", \"on\"]\n", &["rev*", "on"]),
    ] {
        let sandbox = project();
        sandbox.ralph(&[&["init", "--yes", "--no-try"], flags].concat()).success();
        let text = sandbox.read("ralph.yaml");
        assert!(text.contains(line), "{flags:?}: {text}");
        assert_eq!(sandbox.status()["guard"], serde_json::json!(guard), "{flags:?}");
        let holds_check = guard.contains(&"check");
        assert_eq!(sandbox.exists(".claude/agents/check.md"), holds_check, "{flags:?}");
    }
    let sandbox = project();
    sandbox.ralph(&["init", "--yes", "--guard", "sesion"]).exits(2).says("nothing was written");
    sandbox.ralph(&["init", "--yes", "--guard", ""]).exits(2);
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_config_that_is_there_says_who_is_held() {
    let sandbox = Sandbox::gated("verify: [\"true\"]\n");
    sandbox
        .ralph(&["init", "--yes", "--guard", "session,check"])
        .exits(2)
        .says("says who is held")
        .says("guard: [session, check]");
    assert!(!sandbox.exists(SETTINGS));
    sandbox.ralph(&["init", "--yes", "--guard", "check"]).success();
}

#[test]
fn the_official_plugin_beside_ours_is_said() {
    let sandbox = project();
    sandbox.file(".claude/settings.json", "{\"enabledPlugins\": {\"ralph-loop@official\": true}}");
    for form in [&["init", "--dry-run"][..], &["init", "--dry-run", "--plugin"]] {
        sandbox.ralph(form).success().says("`ralph-loop@official` is on and holds sessions too");
    }
}

/// On a terminal init asks, and asks for the guard first.
mod at_a_terminal {
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::fd::OwnedFd;
    use std::process::Stdio;

    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::project;
    use crate::support::Sandbox;

    /// What `ralph init` said to somebody who typed these lines.
    fn init(sandbox: &Sandbox, typed: &str) -> (Option<i32>, String) {
        let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&control).and_then(|()| unlockpt(&control)).expect("a terminal");
        let name = ptsname(&control, Vec::new()).expect("its name");
        let terminal = || -> OwnedFd {
            open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("the other end")
        };
        let mut child = sandbox
            .command(&["init", "--no-try"])
            .stdin(Stdio::from(terminal()))
            .stdout(Stdio::from(terminal()))
            .stderr(Stdio::from(terminal()))
            .spawn()
            .expect("the binary");
        let mut control = File::from(control);
        control.write_all(typed.as_bytes()).expect("typed");
        let said = std::thread::spawn(move || {
            let mut said = Vec::new();
            // The end of a terminal is an error, EIO.
            let _end = control.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        let ended = child.wait().expect("an end");
        (ended.code(), said.join().expect("what was said"))
    }

    #[test]
    fn a_bare_enter_holds_sessions_and_uses_the_settings() {
        let sandbox = project();
        let (code, said) = init(&sandbox, "\n\ny\n");
        assert_eq!(code, Some(0), "{said}");
        let places =
            ["Hold every session", "by the settings of this project", "Write this, and run these gates"]
                .map(|question| said.find(question).unwrap_or_else(|| panic!("{question}: {said}")));
        assert!(places.is_sorted(), "{said}");
        assert_eq!(sandbox.status()["guard"], serde_json::json!(["check", "session"]));
        assert!(sandbox.exists(super::SETTINGS));
    }

    #[test]
    fn a_no_leaves_sessions_alone_and_names_the_plugin() {
        let sandbox = project();
        let (code, said) = init(&sandbox, "n\nn\ny\n");
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("/plugin install ralph@ralph"), "{said}");
        assert_eq!(sandbox.status()["guard"], serde_json::json!(["check"]));
        assert_eq!(sandbox.git(&["status", "--porcelain"]), "?? ralph.yaml\n");
    }

    #[test]
    fn whoever_goes_away_has_said_no() {
        let sandbox = project();
        // Ctrl-D three times: an end of input at each question.
        let (code, said) = init(&sandbox, "\x04\x04\x04");
        assert_eq!(code, Some(3), "{said}");
        assert!(!said.contains("held until they pass: a session"), "{said}");
        assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn a_config_that_is_there_keeps_its_gates() {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    let refused = sandbox.ralph(&["init", "--yes", "--gate", "make check"]).exits(2);
    assert!(refused.stderr.contains("write `- make check` under `verify:`"), "{refused:#?}");
    assert_eq!(sandbox.read("ralph.yaml"), "verify: ['true']\n");
}
