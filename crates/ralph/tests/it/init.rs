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
