//! Agents that lay hands on the gates instead of the work.

use serde_json::json;

use super::scene::{DONE, Scene, unverified, verified};

#[test]
fn gates_that_the_agent_wrote_never_verify() {
    let table = [
        ("rewritten", "echo 'verify: [\"true\"]' > ralph.yaml"),
        ("rewritten, and the work is done", "echo 'verify: [\"true\"]' > ralph.yaml; : > done"),
        ("deleted", "rm -f ralph.yaml"),
        ("deleted, and the work is done", "rm -f ralph.yaml; : > done"),
        ("no config any more", "echo '{' > ralph.yaml; : > done"),
        ("emptied", ": > ralph.yaml; : > done"),
        ("switched off", "echo 'enabled: false' >> ralph.yaml; : > done"),
    ];
    for (what, agent) in table {
        let scene = Scene::new(DONE, agent);
        let ran = unverified(scene.drive(&["--max-iterations", "2"]), 5);
        assert_eq!(scene.status(), json!({"status": "ended", "verdict": "tampered"}), "{what}: {ran:#?}");
        let told = scene.prompt(2);
        assert!(told.contains("not the accepted one"), "{what}: {told}");
    }
}

#[test]
fn an_agent_that_puts_the_gates_back_is_forgiven() {
    let agent = r#"
case $run in
1) cp ralph.yaml "$NOTES/kept"; echo 'verify: ["true"]' > ralph.yaml ;;
2) cp "$NOTES/kept" ralph.yaml; : > done ;;
esac"#;
    let scene = Scene::new(DONE, agent);
    verified(scene.drive(&[]));
    scene.has_iterations(2);
}

#[test]
fn an_agent_does_not_accept_its_own_gates() {
    let agent = r#"
echo 'verify: ["true"]' > ralph.yaml
sha=$("$RALPH" trust --show --json | sed -n 's/.*"sha256": *"\([0-9a-f]*\)".*/\1/p' | head -1)
"$RALPH" trust --hash "$sha" > "$NOTES/trust" 2>&1"#;
    let scene = Scene::new(DONE, agent);
    unverified(scene.drive(&["--max-iterations", "2"]), 5);
    scene.ended_as("tampered");
    assert!(scene.note("trust").contains("only you can"), "{}", scene.note("trust"));
    assert_eq!(scene.sandbox.status()["accepted"].as_array().map(Vec::len), Some(1), "nor for later loops");
}

#[test]
fn an_agent_does_not_set_up_gates_of_its_own() {
    let agent = r#"rm ralph.yaml; "$RALPH" init --yes --no-hooks --gate true > "$NOTES/init" 2>&1"#;
    let scene = Scene::new(DONE, agent);
    unverified(scene.drive(&["--max-iterations", "1"]), 5);
    assert!(scene.note("init").contains("only you can"), "{}", scene.note("init"));
    assert!(!scene.sandbox.exists("ralph.yaml"));
}
