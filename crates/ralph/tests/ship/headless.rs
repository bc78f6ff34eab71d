//! `ralph loop --until pr`, `ci` and `merged`, with an agent that commits, or does not.

use ralph_testkit::ScriptedCheck;

use crate::scene::Scene;

const COMMITS: &str = "echo fixed > work.txt; commit 'fix it'";

#[test]
fn until_pr_ends_with_an_open_pull_request_and_does_not_look_at_ci() {
    let scene = Scene::new(COMMITS);
    scene.forge.ci(|_| vec![ScriptedCheck::run("build", "FAILURE")]);
    let ran = scene.drive(&["--until", "pr"]).exits(0);
    assert!(ran.stdout.lines().any(|line| line == "VERIFIED_DONE"), "{ran:#?}");
    let pulls = scene.forge.pulls();
    assert_eq!(pulls.len(), 1, "{pulls:?}");
    assert_eq!((pulls[0].state.as_str(), pulls[0].title.as_str()), ("OPEN", "fix the work"));
    assert!(pulls[0].branch.starts_with("ralph/fix-the-work-"), "{pulls:?}");
    assert_eq!(scene.steps(), ["switched_branch", "pushed", "pull_request"]);
    assert_eq!(scene.forge.merges_and_creates(), (0, 1));
}

#[test]
fn until_ci_waits_and_leaves_the_merge_to_the_user() {
    let scene = Scene::new(COMMITS);
    scene.forge.ci(|question| match question.asked {
        0 | 1 => vec![ScriptedCheck::pending("build")],
        _ => vec![ScriptedCheck::run("build", "SUCCESS")],
    });
    scene.drive(&["--until", "ci"]).exits(0);
    assert_eq!(scene.forge.merges_and_creates(), (0, 1));
    assert_eq!(scene.forge.pulls()[0].state, "OPEN");
    assert_eq!(scene.state()["attempts"], 1, "waiting is no attempt");
    assert_eq!(scene.events("waited"), 2);
    assert_eq!(scene.events("gate_ran"), 1, "a poll runs no gate");
}

#[test]
fn until_merged_goes_all_the_way() {
    let agent = "echo fixed > work.txt\n[ $run = 1 ] || echo 'for CI' > ci.txt\ncommit \"run $run\"";
    let scene = Scene::new(agent);
    scene
        .forge
        .log("2026-01-27T10:00:00.0000000Z src/login.test.js:12  answers a login: expected 500 to be 200\n");
    scene.forge.ci(|question| match (question.push, question.asked) {
        (_, 0 | 1) => vec![ScriptedCheck::pending("build")],
        (0, _) => vec![ScriptedCheck::run("lint", "SUCCESS"), ScriptedCheck::run("build", "FAILURE")],
        _ => vec![ScriptedCheck::run("lint", "SUCCESS"), ScriptedCheck::run("build", "SUCCESS")],
    });
    let ran = scene.drive(&["--until", "merged"]).exits(0);
    assert!(ran.stdout.lines().any(|line| line == "<promise>CI_PASSED</promise>"), "{ran:#?}");
    assert_eq!(scene.forge.merges_and_creates(), (1, 1));
    assert_eq!(scene.runs(), 2);
    assert_eq!(scene.state()["attempts"], 2);
    let prompt = scene.prompt(2);
    assert!(prompt.contains("CI check `build` failed"), "{prompt}");
    assert!(prompt.contains("<untrusted-output>") && prompt.contains("expected 500 to be 200"), "{prompt}");
    assert_eq!(scene.steps(), ["switched_branch", "pushed", "pull_request", "pushed", "merged"]);
    let pull = &scene.forge.pulls()[0];
    assert_eq!(scene.remote("main").trim(), pull.head.as_deref().expect("merged"));
    assert_eq!(scene.remote(&pull.branch), "", "the branch is deleted");
}

#[test]
fn what_the_agent_left_is_committed_without_files_of_ours() {
    let agent = "echo fixed > work.txt; mkdir -p .claude docs/actions/loop
        echo '{}' > .claude/settings.json; echo x > .claude/ralph-loop.local.md; echo x > docs/actions/loop/a.md; echo new > new.txt";
    let scene = Scene::new(agent);
    scene.drive(&["--until", "pr"]).exits(0);
    let branch = &scene.forge.pulls()[0].branch;
    let files = scene.sandbox.git(&["show", "--name-only", "--format=%an", branch]);
    assert!(files.contains("work.txt") && files.contains("new.txt"), "{files}");
    assert!(!files.contains(".claude") && !files.contains("docs/actions"), "{files}");
    assert_eq!(scene.steps(), ["switched_branch", "committed", "pushed", "pull_request"]);
}
