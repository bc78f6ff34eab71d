//! What must not pass for a merged pull request, a passed CI or an absent pull request.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ralph_testkit::{ForgeFault, ScriptedCheck};

use crate::scene::Scene;

const COMMITS: &str = "echo fixed > work.txt; commit 'fix it'";
/// An agent that changes something in every run.
const KEEPS_TRYING: &str = "echo fixed > work.txt; echo $run > run.txt; commit \"run $run\"";

fn run(name: &str, conclusion: &str) -> ScriptedCheck {
    ScriptedCheck::run(name, conclusion)
}

#[test]
fn a_forge_that_fails_for_a_moment_is_asked_again() {
    let scene = Scene::new(COMMITS);
    for _ in 0..2 {
        scene.forge.fault("look", ForgeFault::Status(502));
    }
    scene.drive(&["--until", "merged"]).exits(0);
    assert_eq!(scene.forge.merges_and_creates(), (1, 1));
}

#[test]
fn an_answer_that_got_lost_is_found_again() {
    let scene = Scene::new(COMMITS);
    scene.forge.fault("create", ForgeFault::LostAnswer);
    scene.forge.fault("merge", ForgeFault::LostAnswer);
    scene.drive(&["--until", "merged"]).exits(0);
    assert_eq!(scene.forge.merges_and_creates(), (1, 1), "none lost, none doubled");
}

#[test]
fn a_missing_or_logged_out_gh_is_said_before_anything_starts() {
    let mut scene = Scene::new(COMMITS);
    scene
        .sandbox
        .program("gh", "echo 'To get started with GitHub CLI, please run:  gh auth login' >&2; exit 4");
    let ran = scene.drive(&["--until", "pr"]).exits(3);
    assert!(ran.stderr.contains("not logged in") && ran.stderr.contains("gh auth login"), "{ran:#?}");
    let ran = scene.sandbox.ralph(&["phase"]).exits(0);
    assert!(ran.stdout.starts_with("PHASE: unknown\n"), "{ran:#?}");
    let empty = scene.sandbox.home().join("empty");
    fs::create_dir(&empty).expect("a folder");
    for program in ["git", "sh", "cat", "grep", "echo", "env"] {
        let _linked = std::os::unix::fs::symlink(format!("/usr/bin/{program}"), empty.join(program));
    }
    scene.sandbox.set("PATH", empty.to_str().expect("a readable path"));
    let ran = scene.drive(&["--until", "pr"]).exits(3);
    assert!(ran.stderr.contains("`gh` is not installed"), "{ran:#?}");
    assert!(scene.sandbox.ralph(&["phase"]).exits(0).stdout.starts_with("PHASE: unknown\n"));
    assert_eq!(scene.runs(), 0);
    assert_eq!(scene.forge.merges_and_creates(), (0, 0));
}

#[test]
fn a_forge_that_keeps_failing_is_no_pull_request_and_no_pass() {
    let scene = Scene::new("echo fixed > work.txt; commit fix; touch \"$NOTES/worked\"");
    let child = scene.start(&["--until", "merged"]);
    ralph_testkit::wait_until("the agent", || scene.sandbox.home().join("notes/worked").exists());
    for _ in 0..40 {
        scene.forge.fault("look", ForgeFault::Status(500));
    }
    let ran = crate::scene::finish(child).exits(3);
    assert!(!ran.stdout.contains("VERIFIED_DONE") && !ran.stdout.contains("CI_PASSED"), "{ran:#?}");
    assert_eq!(scene.forge.merges_and_creates().0, 0);
}

#[test]
fn one_failing_check_among_good_ones_fails() {
    for bad in [
        run("b", "FAILURE"),
        run("b", "CANCELLED"),
        run("b", "TIMED_OUT"),
        ScriptedCheck::status("b", "ERROR"),
    ] {
        let scene = Scene::new(KEEPS_TRYING);
        let first = bad.clone();
        scene.forge.ci(move |question| match question.push {
            0 => vec![run("a", "SUCCESS"), first.clone(), run("c", "SKIPPED")],
            _ => vec![run("a", "SUCCESS"), run("b", "SUCCESS"), run("c", "SKIPPED"), run("d", "NEUTRAL")],
        });
        scene.drive(&["--until", "merged"]).exits(0);
        assert_eq!(scene.runs(), 2, "{bad:?}");
        assert_eq!(scene.forge.merges_and_creates(), (1, 1));
    }
}

#[test]
fn the_second_page_of_checks_counts() {
    let scene = Scene::new(KEEPS_TRYING);
    scene.forge.pages_of(2);
    scene.forge.ci(|question| {
        let last = if question.push == 0 { "FAILURE" } else { "SUCCESS" };
        vec![run("a", "SUCCESS"), run("b", "SUCCESS"), run("c", "SUCCESS"), run("d", last)]
    });
    scene.drive(&["--until", "merged"]).exits(0);
    assert_eq!(scene.runs(), 2);
}

#[test]
fn no_check_at_all_needs_the_user_unless_there_is_no_ci() {
    let scene = Scene::with("ship: { poll: 20ms, ci_timeout: 700ms }", COMMITS);
    scene.forge.ci(|_| Vec::new());
    let ran = scene.drive(&["--until", "merged"]).exits(3);
    assert!(ran.stdout.contains("no check was reported"), "{ran:#?}");
    assert_eq!(scene.forge.merges_and_creates(), (0, 1));

    let scene = Scene::with("ship: { poll: 20ms, no_ci: true }", COMMITS);
    scene.forge.ci(|_| Vec::new());
    scene.drive(&["--until", "merged"]).exits(0);
    assert_eq!(scene.forge.merges_and_creates(), (1, 1));
}

#[test]
fn a_push_after_green_is_not_merged_unseen() {
    // Somebody else pushes to the branch while CI is green for our commit.
    let scene = Scene::with("ship: { poll: 20ms, ci_timeout: 3s }", COMMITS);
    let bare = scene.sandbox.home().join("remote.git");
    scene.forge.ci(move |question| {
        if question.asked == 0 {
            let git = |words: &[&str]| {
                let output = std::process::Command::new("git")
                    .arg(format!("--git-dir={}", bare.display()))
                    .args(["-c", "user.name=x", "-c", "user.email=x@example.com"])
                    .args(words)
                    .output()
                    .expect("git");
                String::from_utf8_lossy(&output.stdout).trim().to_owned()
            };
            let tree = git(&["rev-parse", &format!("{}^{{tree}}", question.commit)]);
            let other = git(&["commit-tree", &tree, "-p", question.commit, "-m", "by somebody"]);
            let refs = git(&["for-each-ref", "--format=%(refname)", "--points-at", question.commit]);
            git(&["update-ref", refs.lines().next().expect("a branch"), &other]);
        }
        vec![run("build", "SUCCESS")]
    });
    let ran = scene.drive(&["--until", "merged", "--max-iterations", "2"]);
    assert_ne!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(scene.forge.merges_and_creates(), (0, 1), "the commit that was never judged is not merged");
}

#[test]
fn a_protected_branch_waits_and_then_needs_the_user() {
    let scene = Scene::with("ship: { poll: 20ms, ci_timeout: 700ms }", COMMITS);
    scene.forge.protect(Some("At least 1 approving review is required by reviewers with write access."));
    let ran = scene.drive(&["--until", "merged"]).exits(3);
    assert!(ran.stdout.contains("approving review is required"), "{ran:#?}");
    assert_eq!(scene.forge.merges_and_creates(), (0, 1));
}

#[test]
fn a_closed_pull_request_needs_the_user_and_a_forks_is_not_ours() {
    let scene = Scene::new(COMMITS);
    scene.sandbox.git(&["switch", "-q", "-c", "topic"]);
    scene.forge.add_pull("topic", "CLOSED", None, Some("0000000"));
    let ran = scene.drive(&["--until", "pr"]).exits(3);
    assert!(ran.stdout.contains("closed without a merge"), "{ran:#?}");

    let scene = Scene::new(COMMITS);
    scene.sandbox.git(&["switch", "-q", "-c", "topic"]);
    scene.forge.add_pull("topic", "OPEN", Some("stranger/r"), Some("0000000"));
    scene.drive(&["--until", "pr"]).exits(0);
    assert_eq!(scene.forge.merges_and_creates(), (0, 1), "the fork's pull request is not this branch's");
    assert_eq!(scene.forge.pulls().len(), 2);
}

#[test]
fn names_that_look_like_options_or_shell_are_only_names() {
    let scene = Scene::with(
        "ship: { poll: 20ms, labels: ['--admin', '$(touch pwned)'], reviewers: ['-x'] }",
        "echo fixed > work.txt; echo x > '--force'; echo x > '$(touch pwned)'",
    );
    scene.sandbox.git(&["switch", "-q", "-c", "a;touch${IFS}pwned;b"]);
    let agent = format!("command:{}", scene.sandbox.home().join("agent.sh").display());
    let words =
        ["loop", "--until", "merged", "--agent", &agent, "--", "--title=x $(touch pwned) `touch pwned`"];
    let ran = scene.sandbox.ralph(&words).exits(0);
    let pull = &scene.forge.pulls()[0];
    assert_eq!(pull.title, "--title=x $(touch pwned) `touch pwned`", "{ran:#?}");
    assert_eq!(pull.labels, ["--admin", "$(touch pwned)"]);
    assert_eq!(pull.branch, "a;touch${IFS}pwned;b");
    assert!(!scene.sandbox.exists("pwned"));
    let files = scene.sandbox.git(&["ls-files", "-z"]);
    assert!(files.contains("--force") && files.contains("$(touch pwned)"), "{files}");
}

#[test]
fn a_planted_hook_or_command_of_git_needs_the_user_and_is_not_run() {
    let planted = [
        "printf '#!/bin/sh\\ntouch \"$NOTES/pwned\"\\n' > .git/hooks/pre-push; chmod +x .git/hooks/pre-push",
        "git config core.sshCommand 'touch pwned;'",
        "git config filter.x.clean 'touch pwned;'; echo '* filter=x' > .gitattributes",
        "git config core.hooksPath .planted; mkdir .planted",
    ];
    for plant in planted {
        let scene = Scene::new(&format!("echo fixed > work.txt; commit fix; {plant}"));
        let ran = scene.drive(&["--until", "pr"]).exits(3);
        assert!(ran.stdout.contains("hooks changed since the loop began"), "{plant}: {ran:#?}");
        assert!(
            !scene.sandbox.home().join("notes/pwned").exists() && !scene.sandbox.exists("pwned"),
            "{plant}"
        );
        assert_eq!(scene.forge.merges_and_creates(), (0, 0), "{plant}");
    }
}

#[test]
fn the_users_own_hooks_run_and_may_refuse() {
    let scene = Scene::new("echo fixed > work.txt; [ $run = 1 ] || echo ok > allowed.txt");
    let hook = scene.sandbox.path(".git/hooks/pre-push");
    fs::write(&hook, "#!/bin/sh\ntest -f allowed.txt || { echo 'allowed.txt is missing' >&2; exit 1; }\n")
        .expect("a hook");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("executable");
    scene.drive(&["--until", "pr"]).exits(0);
    assert_eq!(scene.runs(), 2);
    assert!(scene.prompt(2).contains("allowed.txt is missing"), "{}", scene.prompt(2));
}

#[test]
fn nothing_beyond_verified_is_started_from_an_agents_shell() {
    let mut scene = Scene::new(COMMITS);
    scene.sandbox.set("CLAUDECODE", "1");
    for until in ["pr", "ci", "merged"] {
        let ran = scene.drive(&["--until", until]).exits(3);
        assert!(ran.stderr.contains("refused"), "{ran:#?}");
        let ran = scene.sandbox.ralph(&["start", "fix it", "--until", until]).exits(3);
        assert!(ran.stderr.contains("refused"), "{ran:#?}");
    }
    let ran = scene.drive(&["--completion-promise", "CI_PASSED"]).exits(3);
    assert!(ran.stderr.contains("refused"), "{ran:#?}");
    assert_eq!(scene.forge.requests().len(), 0);
}
