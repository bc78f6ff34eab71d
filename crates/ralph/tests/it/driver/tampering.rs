//! Agents that change the gates instead of doing the work.

use serde_json::json;

use super::scene::{DONE, Scene, unverified, verified};

#[test]
fn gates_that_the_agent_wrote_never_verify() {
    let table = [
        ("rewritten", "echo 'verify: [\"true\"]' > ralph.yaml"),
        ("rewritten, and the work is done", "echo 'verify: [\"true\"]' > ralph.yaml; : > done.txt"),
        ("deleted", "rm -f ralph.yaml"),
        ("deleted, and the work is done", "rm -f ralph.yaml; : > done.txt"),
        ("no config any more", "echo '{' > ralph.yaml; : > done.txt"),
        ("emptied", ": > ralph.yaml; : > done.txt"),
        ("switched off", "echo 'enabled: false' >> ralph.yaml; : > done.txt"),
    ];
    for (what, agent) in table {
        let scene = Scene::new(DONE, agent);
        let ran = unverified(scene.drive(&["--max-iterations", "2"]), 5);
        assert_eq!(scene.status(), json!({"status": "ended", "verdict": "tampered"}), "{what}: {ran:#?}");
        let message = scene.prompt(2);
        assert!(message.contains("differs from the accepted one"), "{what}: {message}");
    }
}

#[test]
fn an_agent_that_restores_the_gates_can_be_verified() {
    let agent = r#"
case $run in
1) cp ralph.yaml "$NOTES/kept"; echo 'verify: ["true"]' > ralph.yaml ;;
2) cp "$NOTES/kept" ralph.yaml; : > done.txt ;;
esac"#;
    let scene = Scene::new(DONE, agent);
    verified(scene.drive(&[]));
    scene.has_iterations(2);
}

#[test]
fn an_agent_cannot_accept_its_own_gates() {
    let agent = r#"
echo 'verify: ["true"]' > ralph.yaml
sha=$("$RALPH" trust --show --json) && sha=${sha#*\"sha256\": \"} && sha=${sha%%\"*}
"$RALPH" trust --hash "$sha" > "$NOTES/trust" 2>&1"#;
    let scene = Scene::new(DONE, agent);
    unverified(scene.drive(&["--max-iterations", "2"]), 5);
    scene.ended_as("tampered");
    assert!(scene.note("trust").contains("only you can"), "{}", scene.note("trust"));
    assert_eq!(scene.sandbox.status()["accepted"].as_array().map(Vec::len), Some(1), "nor for later loops");
}

#[test]
fn an_agent_cannot_set_up_its_own_gates() {
    let agent = r#"rm ralph.yaml; "$RALPH" init --yes --no-hooks --gate true > "$NOTES/init" 2>&1"#;
    let scene = Scene::new(DONE, agent);
    unverified(scene.drive(&["--max-iterations", "1"]), 5);
    assert!(scene.note("init").contains("only you can"), "{}", scene.note("init"));
    assert!(!scene.sandbox.exists("ralph.yaml"));
}
