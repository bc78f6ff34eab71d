//! What an agent gets: its prompt, its folder, its environment.

use super::scene::{DONE, Scene, verified};

#[test]
fn the_agent_gets_the_mark_of_the_loop_and_no_variables_of_an_outer_session() {
    let mut scene = Scene::new(DONE, r#"env > "$NOTES/env"; pwd > "$NOTES/pwd"; : > done.txt"#);
    let marks = [
        "CLAUDECODE",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_PID",
        "CLAUDE_PROJECT_DIR",
    ];
    for mark in marks {
        scene.sandbox.set(mark, "outer");
    }
    scene.sandbox.set("MY_OWN_SETTING", "kept");
    verified(scene.drive(&[]));
    let environment = scene.note("env");
    let value = |name: &str| environment.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    let (_, id) = value("RALPH_LOOP").and_then(|mark| mark.split_once('/')).expect("repo and loop");
    assert_eq!(id, scene.loop_id());
    assert_eq!(value("MY_OWN_SETTING"), Some("kept"));
    for mark in marks {
        assert_eq!(value(mark), None, "{mark}");
    }
    assert_eq!(scene.note("pwd").trim(), scene.sandbox.project().to_str().expect("a readable path"));
}

#[test]
fn any_task_text_reaches_the_agent_unchanged() {
    let tasks = [
        "it's \"quoted\" $HOME `date` \\n % ;|&",
        "two\nlines and a tab\t.",
        "-x --help is what it should print",
        "關上門 🚪",
        &"long ".repeat(20_000),
    ];
    for task in tasks {
        let scene = Scene::new(DONE, ": > done.txt");
        let words = ["loop", "--agent", "command:./agent.sh", "--", task];
        verified(scene.sandbox.ralph(&words));
        let prompt = scene.prompt(1);
        assert!(prompt.contains(task.trim()), "{prompt}");
    }
}

#[test]
fn another_service_gets_only_its_own_key() {
    let agent = r#"env > "$NOTES/env"; : > done.txt
echo '{"type":"result","subtype":"success","is_error":false,"result":"Done."}'"#;
    let mut scene = Scene::of_claude(DONE, agent);
    scene.sandbox.set("ZAI_API_KEY", "key-of-the-other");
    scene.sandbox.set("ANTHROPIC_API_KEY", "key-of-the-user");
    verified(scene.sandbox.ralph(&["loop", "shut the door", "--with-glm5"]));
    let environment = scene.note("env");
    assert!(environment.contains("ANTHROPIC_AUTH_TOKEN=key-of-the-other"), "{environment}");
    assert!(!environment.contains("key-of-the-user"), "{environment}");
}

/// A client may warn on stderr in the middle of a long row.
#[test]
fn a_warning_in_the_middle_of_a_row_does_not_break_the_row() {
    let agent = r#": > done.txt
printf '{"type":"result","subtype":"success","is_error":false,"result":"Do'
echo '(node:7) Warning: a deprecated feature' >&2
sleep 0.05
echo 'ne.","total_cost_usd":0.25}'"#;
    let scene = Scene::of_claude(DONE, agent);
    verified(scene.sandbox.ralph(&["loop", "shut the door"]));
    assert_eq!(scene.sandbox.state()["drive"]["cost"], 250_000);
}

#[test]
fn an_agent_of_the_user_is_run_by_its_name() {
    let agent = r#"echo "$@" > "$NOTES/words"; : > done.txt
echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","total_cost_usd":0.25}'"#;
    let scene = Scene::new(DONE, agent);
    scene.sandbox.user_config(
        "agents:\n  mine:\n    command: [./agent.sh, --headless, two words]\n    dialect: claude\n    max_iterations: 3\n",
    );
    verified(scene.sandbox.ralph(&["loop", "shut the door", "--agent", "mine"]));
    assert_eq!(scene.note("words"), "--headless two words\n");
    assert!(scene.prompt(1).starts_with("Iteration 1 of 3."), "{}", scene.prompt(1));
    assert_eq!(scene.sandbox.state()["drive"]["cost"], 250_000);
}
