//! The whole way with the real Claude Code, a scripted model, the real `gh` and the real git. Needs npm too.

use ralph_testkit::{AgentClient, Script, ScriptedCheck, Turn};

use crate::scene::Scene;

/// The gate wants one file. The audit is written by a script, since the client does not overwrite a file it has not read.
const CONFIG: &str = "verify:\n  - name: test\n    run: \"test -f fixed.txt || { echo 'FAIL fixed.txt is missing'; exit 1; }\"\nship: { poll: 50ms, ci_timeout: 60s, audit: required }\n";

#[test]
fn from_no_audit_to_a_merged_pull_request() {
    let client = AgentClient::claude();
    let mut scene = Scene::of(CONFIG, "");
    scene.sandbox.user_config("allow: ['Bash(sh audit.sh)']\n");
    scene.sandbox.file(
        "audit.sh",
        "mkdir -p docs; printf 'Decision: PASS\\nL1: 0\\nL2: 0\\n' > docs/AUDIT-REPORT.md\n",
    );
    scene.sandbox.git(&["add", "-A"]);
    scene.sandbox.git(&["commit", "-q", "-m", "audit"]);
    scene.sandbox.git(&["push", "-q", "origin", "HEAD:refs/heads/main"]);
    scene.forge.log("2026-01-27T10:00:00.0000000Z src/export.test.js:7  exports: expected 500 to be 200\n");
    scene.forge.ci(|question| match (question.push, question.asked) {
        (0, 0 | 1) => vec![ScriptedCheck::pending("build")],
        (0, _) => vec![ScriptedCheck::run("lint", "SUCCESS"), ScriptedCheck::run("build", "FAILURE")],
        _ => vec![ScriptedCheck::run("lint", "SUCCESS"), ScriptedCheck::run("build", "SUCCESS")],
    });
    let write = |file: &str| client.write(&scene.sandbox.path(file), "yes");
    let audit = || client.shell("sh audit.sh");
    let script = Script::new().main(vec![
        write("feature.txt").expecting("add the export"),
        Turn::say("Done. <promise>CI_PASSED</promise>"),
        audit().expecting("`docs/AUDIT-REPORT.md` is missing"),
        Turn::say("Audited."),
        write("fixed.txt").expecting("fixed.txt is missing"),
        audit(),
        Turn::say("Fixed."),
        write("for-ci.txt").expecting("expected 500 to be 200"),
        audit(),
        client.shell("git add -A"),
        client.shell("git commit -q -m repair"),
        Turn::say("CI is repaired."),
    ]);
    let model = client.model(script).expect("a port on loopback");
    for (name, value) in client.environment(&scene.sandbox.home(), &model) {
        scene.sandbox.set(&name, value.into_string().expect("words"));
    }
    let words = ["loop", "add the export", "--agent", "claude", "--until", "merged", "--max-time", "5m"];
    let ran = scene.sandbox.ralph(&words);
    let served = model.finish();
    assert!(served.problems.is_empty(), "{:#?}\n{ran:#?}", served.problems);
    let ran = ran.exits(0);
    assert!(ran.stdout.lines().any(|line| line == "<promise>CI_PASSED</promise>"), "{ran:#?}");
    assert_eq!(scene.events("iteration_began"), 4, "{ran:#?}");
    assert_eq!(scene.state()["attempts"], 4, "waiting is no attempt");
    assert!(scene.events("waited") >= 2);
    assert_eq!(scene.forge.merges_and_creates(), (1, 1));
    let steps = ["switched_branch", "committed", "pushed", "pull_request", "pushed", "merged"];
    assert_eq!(scene.steps(), steps);
}
