//! `ralph init`: writes what it shows, keeps everything that exists, removes exactly what it added.

use ralph_testkit::{MAKE, Sandbox};

const SETTINGS: &str = ".claude/settings.local.json";

fn project() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.program("make", MAKE);
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
    sandbox.ralph(&["init"]).exits(3).says("no terminal to ask for confirmation").says("ralph init --yes");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    assert_eq!(sandbox.remembered(), Vec::<String>::new());
}

#[test]
fn init_break_blocked_fix_verified_and_remove() {
    let sandbox = project();
    sandbox.ralph(&["init", "--yes"]).success().says("passed");
    assert!(
        sandbox.read("ralph.yaml").contains("- { name: test, run: make test }"),
        "{}",
        sandbox.read("ralph.yaml")
    );
    sandbox.file("broken", "");
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("gate `test` failed"), "{reason}");
    sandbox.remove("broken");
    assert!(
        sandbox
            .stop("check")
            .answer()
            .allowed()
            .is_some_and(|message| message.contains("Verification passed"))
    );
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
fn existing_settings_keep_their_order_and_are_restored_byte_for_byte() {
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
fn later_additions_stay_when_ralph_is_removed() {
    let sandbox = project();
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    let with = sandbox.read(SETTINGS).replacen('{', "{\n  \"model\": \"opus\",", 1);
    sandbox.file(SETTINGS, &with);
    sandbox.file("ralph.yaml", "verify: [mine]\n");
    sandbox
        .ralph(&["init", "--uninstall"])
        .success()
        .says("ralph's entries removed")
        .says("it was changed since ralph wrote it");
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
fn an_existing_config_is_not_changed() {
    let sandbox = project();
    sandbox.file("ralph.yaml", "verify: [\"true\"] # mine\n");
    // It came with the clone: it is not accepted without being shown.
    sandbox.ralph(&["init", "--yes"]).exits(3).says("is not accepted yet");
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
fn the_commands_are_written_and_foreign_ones_are_left_alone() {
    for form in [&[][..], &["--shared"]] {
        let sandbox = project();
        sandbox.file(&command_file("cancel-ralph"), "mine\n");
        let ran = sandbox.ralph(&[&["init", "--yes", "--no-try"], form].concat()).success();
        let ran = ran.says(".claude/commands/cancel-ralph.md already exists and was not written by ralph; it stays unchanged");
        assert!(!ran.stdout.contains("wrote .claude/commands/cancel-ralph.md"), "{ran:#?}");
        for name in COMMANDS {
            assert_eq!(sandbox.read(&command_file(name)) == "mine\n", name == "cancel-ralph", "{name}");
        }
        // A file that the user changed since is theirs, too.
        sandbox.file(&command_file("ralph-help"), "changed\n");
        sandbox
            .ralph(&[&["init", "--yes", "--no-try"], form].concat())
            .success()
            .says(".claude/commands/ralph-help.md already exists and was not written by ralph");
        sandbox.ralph(&["init", "--uninstall"]).success().says("ralph-help.md: kept");
        let left: Vec<&str> =
            COMMANDS.into_iter().filter(|name| sandbox.exists(&command_file(name))).collect();
        assert_eq!(left, ["cancel-ralph", "ralph-help"]);
    }
}

#[test]
fn removal_leaves_nothing_behind() {
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
fn the_client_cap_is_raised_unless_the_user_set_one() {
    const CAP: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";
    let set = |cap: &str| format!("{{\"env\":  {{\"{CAP}\": \"{cap}\"}}}}\n");
    // The previous content is restored byte for byte; a cap in a file that ours would override counts as well.
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

/// An edit between two calls of init does not make our own entries look like the user's.
#[test]
fn an_edit_between_two_inits_does_not_prevent_removal() {
    let sandbox = project();
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    let edited = sandbox.read(SETTINGS).replacen('{', "{\n  \"model\": \"opus\",", 1);
    sandbox.file(SETTINGS, &edited);
    sandbox.ralph(&["init", "--yes", "--no-try"]).success();
    sandbox.ralph(&["init", "--uninstall"]).success();
    assert_eq!(json(&sandbox.read(SETTINGS)), serde_json::json!({"model": "opus"}));
}

#[test]
fn with_the_plugin_only_the_config_is_written() {
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
fn init_guards_exactly_what_was_requested() {
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
fn an_existing_config_decides_what_is_guarded() {
    let sandbox = Sandbox::gated("verify: [\"true\"]\n");
    sandbox
        .ralph(&["init", "--yes", "--guard", "session,check"])
        .exits(2)
        .says("defines the guard")
        .says("guard: [session, check]");
    assert!(!sandbox.exists(SETTINGS));
    sandbox.ralph(&["init", "--yes", "--guard", "check"]).success();
}

#[test]
fn the_official_plugin_beside_ours_is_reported() {
    let sandbox = project();
    sandbox.file(".claude/settings.json", "{\"enabledPlugins\": {\"ralph-loop@official\": true}}");
    for form in [&["init", "--dry-run"][..], &["init", "--dry-run", "--plugin"]] {
        sandbox.ralph(form).success().says("`ralph-loop@official` is enabled and also blocks sessions");
    }
}

/// On a terminal init asks questions, first about the guard.
mod at_a_terminal {
    use ralph_testkit::{Pty, Sandbox};

    use super::project;

    /// The output of `ralph init` after these lines were typed.
    fn init(sandbox: &Sandbox, typed: &str) -> (Option<i32>, String) {
        let mut on_terminal = Pty::open().start(&sandbox.command(&["init", "--no-try"]));
        on_terminal.types(typed);
        let finished = on_terminal.finish();
        (finished.code, finished.stdout)
    }

    #[test]
    fn a_bare_enter_guards_sessions_and_uses_the_settings() {
        let sandbox = project();
        let (code, said) = init(&sandbox, "\n\n\ny\n");
        assert_eq!(code, Some(0), "{said}");
        let questions = [
            "Block every",
            "Guard agent teams, too",
            "hooks in this project's settings",
            "Write this, and run these gates",
        ];
        let places =
            questions.map(|question| said.find(question).unwrap_or_else(|| panic!("{question}: {said}")));
        assert!(places.is_sorted(), "{said}");
        assert_eq!(sandbox.status()["guard"], serde_json::json!(["check", "session"]));
        assert!(sandbox.exists(super::SETTINGS));
    }

    #[test]
    fn agent_teams_are_guarded_if_the_user_says_so() {
        let sandbox = project();
        let (code, said) = init(&sandbox, "\ny\n\ny\n");
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(
            sandbox.status()["guard"],
            serde_json::json!(["check", "session", "teammates", "tasks"]),
            "{said}"
        );
        let settings = sandbox.read(super::SETTINGS);
        assert!(settings.contains("TeammateIdle") && settings.contains("TaskCompleted"), "{settings}");
    }

    #[test]
    fn answering_no_leaves_sessions_unguarded_and_names_the_plugin() {
        let sandbox = project();
        let (code, said) = init(&sandbox, "n\nn\ny\n");
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("/plugin install ralph@ralph"), "{said}");
        assert_eq!(sandbox.status()["guard"], serde_json::json!(["check"]));
        assert_eq!(sandbox.git(&["status", "--porcelain"]), "?? ralph.yaml\n");
    }

    #[test]
    fn end_of_input_means_no() {
        let sandbox = project();
        // Ctrl-D three times: an end of input at each question.
        let (code, said) = init(&sandbox, "\x04\x04\x04");
        assert_eq!(code, Some(3), "{said}");
        assert!(!said.contains("blocked until they pass: a session"), "{said}");
        assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn an_existing_config_keeps_its_gates() {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    let refused = sandbox.ralph(&["init", "--yes", "--gate", "make check"]).exits(2);
    assert!(refused.stderr.contains("add `- make check` under `verify:`"), "{refused:#?}");
    assert_eq!(sandbox.read("ralph.yaml"), "verify: ['true']\n");
}
