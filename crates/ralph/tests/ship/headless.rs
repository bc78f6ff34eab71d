//! `ralph loop --until pr`, `ci` and `merged`, with an agent that commits, or does not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

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
fn the_pull_request_says_what_shows_the_task() {
    let scene = Scene::new(COMMITS);
    scene.drive(&["--until", "pr"]).exits(0);
    let body = &scene.forge.pulls()[0].body;
    assert!(body.contains("## Evidence\n\nVerified: `test` red → green."), "{body}");
}

/// The gate passes from the start, so nothing shows the task: the goal is reached all the same, unless the repo requires more.
#[test]
fn a_task_that_nothing_shows_is_shipped_as_passing_or_not_at_all() {
    let gate = "verify:\n  - name: test\n    run: test -e work.txt\n";
    let changes = "echo $run >> code.c; commit \"run $run\"";
    let scene = Scene::of(&format!("{gate}ship: {{ poll: 20ms, no_ci: true }}\n"), changes);
    let ran = scene.drive(&["--until", "merged"]).exits(0);
    assert!(ran.stdout.lines().any(|line| line == "GATES_PASS"), "{ran:#?}");
    assert!(ran.stdout.lines().any(|line| line == "<promise>CI_PASSED</promise>"), "{ran:#?}");
    assert!(!ran.stdout.contains("VERIFIED_DONE"), "{ran:#?}");
    let body = &scene.forge.pulls()[0].body;
    assert!(body.contains("## Evidence\n\nThe gates pass; the task is not shown"), "{body}");

    let scene =
        Scene::of(&format!("{gate}ship: {{ poll: 20ms, no_ci: true, require: verified }}\n"), changes);
    let ran = scene.drive(&["--until", "merged"]).exits(6);
    assert!(ran.stdout.lines().any(|line| line == "GATES_PASS"), "{ran:#?}");
    assert!(!ran.stdout.contains("CI_PASSED"), "{ran:#?}");
    assert_eq!(scene.forge.merges_and_creates(), (0, 0));
    assert_eq!(scene.runs(), 2, "the agent was asked once for a test");
    assert!(!scene.steps().contains(&"pushed".to_owned()), "{:?}", scene.steps());
}

/// The user's own set-up signs every commit, also the one that ralph makes. The signing program is a stand-in.
#[test]
fn a_commit_of_ralph_is_signed_as_the_user_set_it_up() {
    let scene = Scene::new("echo fixed > work.txt");
    let signer = scene.sandbox.home().join("signer.sh");
    let script = "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\n\
                  printf -- '-----BEGIN PGP SIGNATURE-----\\nby the user\\n-----END PGP SIGNATURE-----\\n'\n";
    fs::write(&signer, script).expect("a script");
    fs::set_permissions(&signer, fs::Permissions::from_mode(0o755)).expect("executable");
    scene.sandbox.git(&["config", "commit.gpgSign", "true"]);
    scene.sandbox.git(&["config", "gpg.program", signer.to_str().expect("a readable path")]);
    scene.drive(&["--until", "pr"]).exits(0);
    assert_eq!(scene.steps(), ["switched_branch", "committed", "pushed", "pull_request"]);
    let commit = scene.sandbox.git(&["cat-file", "commit", &scene.forge.pulls()[0].branch]);
    assert!(commit.contains("gpgsig") && commit.contains("by the user"), "{commit}");
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

/// `npm run qa:gate` writes an untracked gate file and a tracked evidence file at every run, before the commit and after it.
#[test]
fn a_gate_that_rewrites_tracked_evidence_settles_and_is_merged() {
    let agent = "echo fixed > work.txt; npm run qa:gate; commit 'with evidence'";
    let mut scene = Scene::of("verify: [npm run qa:gate]\nship: { poll: 20ms }\n", agent);
    scene.sandbox.program(
        "npm",
        "grep -q fixed work.txt || exit 1\ndate +%s%N > .quality-evidence.json\ngit rev-parse HEAD >> .quality-evidence.json\necho 'test: PASS' > .quality-gate-passed",
    );
    scene.sandbox.file(".gitignore", ".quality-gate-passed\n");
    scene.sandbox.file(".quality-evidence.json", "{}\n");
    scene.sandbox.git(&["add", "-A"]);
    scene.sandbox.git(&["commit", "-q", "-m", "evidence"]);
    scene.sandbox.git(&["push", "-q", "origin", "HEAD:refs/heads/main"]);
    scene.drive(&["--until", "merged"]).exits(0);
    assert_eq!(scene.runs(), 1);
    assert_eq!(scene.forge.merges_and_creates(), (1, 1));
    assert_eq!(scene.steps(), ["switched_branch", "pushed", "pull_request", "merged"]);
}

#[test]
fn claims_block_until_they_are_about_this_code_and_good() {
    let agent = r#"case $run in
1) echo fixed > work.txt;;
2) mkdir -p docs; printf 'Decision: FAIL\n' > docs/AUDIT-REPORT.md;;
3) printf 'Decision: PASS\nDecision: FAIL\n' > docs/AUDIT-REPORT.md;;
4) printf '**Decision**: PASS\n| L1 | 0 |\n| L2 | 3 |\n' > docs/AUDIT-REPORT.md;;
5) printf 'Decision: PASS\n' > docs/AUDIT-REPORT.md;;
6) : > .layer2-evidence.md;;
7) echo '- it runs' > .layer2-evidence.md;;
8) echo 'test: FAIL' > .quality-gate-passed;;
9) echo 'test: PASS' > .quality-gate-passed;;
esac
commit "run $run" || true"#;
    let scene = Scene::new(agent);
    scene.drive(&["--completion-promise", "QUALITY_GATE_PASSED"]).exits(0);
    let expected = [
        "AUDIT-REPORT.md` is missing",
        "its decision is FAIL",
        "it states 2 decisions",
        "it counts 3 L2 findings",
        ".layer2-evidence.md` is missing",
        ".layer2-evidence.md` does not pass",
        ".quality-gate-passed` is missing",
        "it says `test: fail`",
    ];
    for (number, why) in (2..).zip(expected) {
        assert!(scene.prompt(number).contains(why), "{number}: {}", scene.prompt(number));
    }
    assert_eq!(scene.runs(), 9);
    assert_eq!(scene.forge.merges_and_creates(), (0, 1));
}

#[test]
fn a_pull_request_that_somebody_merged_meanwhile_is_merged() {
    let scene = Scene::new("echo fixed > work.txt; commit fix; git push -q origin HEAD");
    scene.sandbox.git(&["switch", "-q", "-c", "topic"]);
    scene.sandbox.file("work.txt", "fixed\n");
    scene.sandbox.git(&["commit", "-q", "-a", "-m", "fix"]);
    let head = scene.sandbox.git(&["rev-parse", "HEAD"]);
    scene.sandbox.git(&["push", "-q", "origin", "HEAD:refs/heads/topic"]);
    scene.forge.add_pull("topic", "MERGED", None, Some(head.trim()));
    // The agent has nothing to do.
    std::fs::write(scene.sandbox.home().join("agent.sh"), "#!/bin/sh\ncat > \"$NOTES/prompt.1\"\n")
        .expect("a script");
    scene.drive(&["--until", "merged"]).exits(0);
    assert_eq!(scene.forge.merges_and_creates(), (0, 0));
}
