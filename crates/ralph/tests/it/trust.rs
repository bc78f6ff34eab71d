//! Trust: nothing of a repo runs before the user accepted it, and no edit of an agent makes the file inert.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use ralph_testkit::{Sandbox, verify_list};

const PASSED: &str = "Verification passed: All verify commands passed";
const GATE: &str = "verify:\n  - test -e done.txt\n";

/// A repo with a canary gate that is not accepted.
fn fresh_clone(config: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file(config, &verify_list(&[&sandbox.counting("true")]));
    sandbox.file(".trellis/.current-task", "tasks/a\n");
    sandbox
}

#[test]
fn a_fresh_clone_runs_nothing_and_explains_once_what_to_do() {
    for config in ["ralph.yaml", ".trellis/worktree.yaml", ".ideal/worktree.yaml"] {
        let sandbox = fresh_clone(config);
        for _ in 0..2 {
            let message = sandbox.stop("check").answer().allowed().expect("a message");
            assert!(
                message.contains(config)
                    && message.contains("`ralph trust`")
                    && message.contains("was not checked"),
                "{message}"
            );
        }
        sandbox.stop("implement").answer().silent();
        let message = sandbox.session_event("UserPromptSubmit").allowed().expect("a message at the prompt");
        assert_eq!(message.matches("ralph trust").count(), 1, "{message}");
        sandbox.session_event("UserPromptSubmit").silent();
        sandbox.stop("check").answer().allowed();
        sandbox.session_event("UserPromptSubmit").silent();
        sandbox.ralph(&["verify"]).exits(3).says("are not accepted; nothing was run");
        sandbox.ralph(&["verify", "--json"]).exits(3);
        sandbox.ralph(&["status"]).success().says("not accepted");
        assert_eq!(sandbox.runs(), 0, "the canary sings");
    }
}

#[test]
fn without_a_terminal_trust_shows_and_accepts_nothing() {
    let sandbox = fresh_clone("ralph.yaml");
    let ran =
        sandbox.ralph(&["trust"]).exits(3).says("no terminal to ask for confirmation; nothing was accepted");
    assert!(ran.stdout.contains("$ printf x >>") && ran.stderr.contains("ralph trust --hash "), "{ran:#?}");
    assert_eq!(sandbox.status()["trust"], "untrusted");
}

#[test]
fn only_the_exact_content_can_be_accepted_by_its_hash() {
    let sandbox = fresh_clone("ralph.yaml");
    sandbox.ralph(&["trust", "--hash", "nonsense"]).exits(2).says("is not a SHA-256");
    sandbox.ralph(&["trust", "--hash", &"0".repeat(64)]).exits(3).says("nothing was accepted");
    let shown = sandbox.ralph(&["trust", "--show", "--json"]).success().json();
    sandbox.file("ralph.yaml", "verify: [something else]\n");
    sandbox.ralph(&["trust", "--hash", shown["sha256"].as_str().expect("a hash")]).exits(3);
    assert_eq!(sandbox.status()["trust"], "untrusted");
    assert_eq!(sandbox.runs(), 0);
}

#[test]
fn the_source_of_an_acceptance_is_recorded() {
    let mut sandbox = fresh_clone("ralph.yaml");
    sandbox.trust();
    assert_eq!(sandbox.status()["accepted"][0]["by"], json!({"who": "script"}));
    sandbox.ralph(&["status"]).success().says("by a script");
    sandbox.set("CLAUDECODE", "1");
    sandbox.file("ralph.yaml", GATE);
    sandbox.trust();
    assert_eq!(sandbox.status()["accepted"][1]["by"], json!({"who": "agents_shell", "client": "claude"}));
    sandbox.ralph(&["status"]).success().says("by an agent's shell (claude)");
    sandbox.set("CLAUDECODE", "");
    sandbox.file("done.txt", "");
    sandbox.ralph(&["verify"]).success().says("these gates were accepted by");
}

#[test]
fn one_changed_byte_never_ends_verified() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.file("done.txt", "");
    sandbox.file("ralph.yaml", "verify:\n  - test -e d0ne.txt\n");
    for attempt in 1..=4 {
        let (reason, detail) = sandbox.stop("check").answer().blocked();
        assert!(
            reason.starts_with(&format!("Verification failed (iteration {attempt}/5): the gate definition")),
            "{reason}"
        );
        assert!(detail.contains("-  - test -e done.txt\n+  - test -e d0ne.txt"), "{detail}");
        assert!(detail.contains("`ralph trust`"), "{detail}");
    }
    sandbox.ralph(&["verify"]).exits(3).says("+  - test -e d0ne.txt").says("nothing was run");
    sandbox.stop("check").answer().allowed().expect("loud");
    assert_eq!(sandbox.state()["status"]["verdict"], "tampered");
    sandbox.ralph(&["status"]).success().says("tampered, UNVERIFIED").says("differs from the accepted one");

    sandbox.stop("check").answer().blocked();
    sandbox.file("ralph.yaml", GATE);
    assert_eq!(sandbox.stop("check").answer().allowed().as_deref(), Some(PASSED), "put back");
}

#[test]
fn the_accepted_gates_run_whatever_the_file_says_now() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.file("ralph.yaml", "verify: ['true']\nguard: [nobody]\nbudget: {attempts: 1}\nenabled: false\n");
    let (reason, detail) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("gate `test -e done.txt` failed") && reason.contains("1/5"), "{reason}");
    assert!(detail.contains("+enabled: false"), "{detail}");
}

#[test]
fn replacing_the_config_file_frees_no_agent() {
    let nothing = |sandbox: &Sandbox| sandbox.remove("ralph.yaml");
    let folder = |sandbox: &Sandbox| {
        sandbox.remove("ralph.yaml");
        fs::create_dir(sandbox.path("ralph.yaml")).expect("a folder");
    };
    let pipe = |sandbox: &Sandbox| {
        sandbox.remove("ralph.yaml");
        assert!(Command::new("mkfifo").arg(sandbox.path("ralph.yaml")).status().expect("mkfifo").success());
    };
    let endless = |sandbox: &Sandbox| {
        sandbox.remove("ralph.yaml");
        symlink("/dev/zero", sandbox.path("ralph.yaml")).expect("a link");
    };
    let dangling = |sandbox: &Sandbox| {
        sandbox.remove("ralph.yaml");
        symlink("nowhere", sandbox.path("ralph.yaml")).expect("a link");
    };
    let empty = |sandbox: &Sandbox| sandbox.file("ralph.yaml", "");
    type Trick<'a> = (&'a str, &'a dyn Fn(&Sandbox));
    let tricks: [Trick<'_>; 6] = [
        ("nothing", &nothing),
        ("folder", &folder),
        ("pipe", &pipe),
        ("endless", &endless),
        ("dangling", &dangling),
        ("empty", &empty),
    ];
    for (name, trick) in tricks {
        let sandbox = Sandbox::gated(GATE);
        sandbox.file("done.txt", "");
        trick(&sandbox);
        let (reason, _) = sandbox.stop("check").answer().blocked();
        assert!(reason.contains("not the one the user accepted"), "{name}: {reason}");
        let ran = sandbox.ralph(&["verify"]);
        assert_eq!(ran.code, Some(3), "{name}: {ran:#?}");
    }
}

#[test]
fn a_link_to_the_same_content_is_the_same_content() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.remove("ralph.yaml");
    sandbox.file("elsewhere.yaml", GATE);
    symlink("elsewhere.yaml", sandbox.path("ralph.yaml")).expect("a link");
    assert_eq!(sandbox.status()["trust"], "accepted");
    sandbox.file("elsewhere.yaml", "verify: ['true']\n");
    assert_eq!(sandbox.status()["trust"], "changed");
    sandbox.stop("check").answer().blocked();
}

#[test]
fn a_new_config_in_a_subfolder_or_of_another_layout_frees_no_agent() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.file("sub/ralph.yaml", "verify: ['true']\n");
    sandbox.file("sub/.git/HEAD", "ref: refs/heads/main\n");
    let (reason, _) = sandbox.stop("check").with("cwd", json!(sandbox.path("sub"))).answer().blocked();
    assert!(reason.contains("gate `test -e done.txt` failed"), "{reason}");

    let sandbox = Sandbox::trellis(GATE);
    sandbox.file("ralph.yaml", "verify: ['true']\n");
    let (reason, detail) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("gate `test -e done.txt` failed"), "{reason}");
    assert!(detail.contains("+verify: ['true']"), "{detail}");
}

#[test]
fn a_second_accepted_config_needs_no_acceptance_on_its_branch() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.git(&["add", "."]);
    sandbox.git(&["commit", "-qm", "one"]);
    sandbox.git(&["checkout", "-qb", "other"]);
    sandbox.file("ralph.yaml", "verify:\n  - test -e other.txt\n");
    sandbox.trust();
    sandbox.git(&["commit", "-qam", "two"]);
    let blocked_by = |gate: &str| {
        let (reason, _) = sandbox.stop("check").agent(gate).answer().blocked();
        assert!(reason.contains(&format!("gate `test -e {gate}` failed")), "{reason}");
        assert_eq!(sandbox.status()["trust"], "accepted");
    };
    blocked_by("other.txt");
    sandbox.git(&["checkout", "-q", "main"]);
    blocked_by("done.txt");
}

#[test]
fn a_repo_cannot_trust_itself() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", "trust: true\nverify: ['true']\n");
    sandbox.ralph(&["trust"]).exits(2).says("unknown key `trust`").says("ralph.yaml:1:1");
    assert_eq!(sandbox.status()["trust"], "untrusted");
    sandbox.ralph(&["verify"]).exits(2).says("unknown key `trust`");
}

#[test]
fn a_linked_work_tree_shares_the_trust_of_its_repo() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.git(&["add", "."]);
    sandbox.git(&["commit", "-qm", "one"]);
    sandbox.git(&["worktree", "add", "-q", "../linked", "-b", "feature"]);
    let linked = sandbox.project().parent().expect("a parent").join("linked");
    let (reason, _) = sandbox.stop("check").with("cwd", json!(linked)).answer().blocked();
    assert!(reason.contains("gate `test -e done.txt` failed"), "{reason}");
    // Each has its own files.
    fs::write(linked.join("done.txt"), "").expect("a file");
    assert_eq!(sandbox.stop("check").with("cwd", json!(linked)).answer().allowed().as_deref(), Some(PASSED));
    sandbox.stop("check").answer().blocked();
    // The accepted definition applies there too.
    fs::write(linked.join("ralph.yaml"), "verify: ['true']\n").expect("a file");
    sandbox.stop("check").with("cwd", json!(linked)).answer().blocked();
}

#[test]
fn revoked_trust_runs_nothing_and_frees_no_blocked_agent() {
    let sandbox = fresh_clone("ralph.yaml");
    sandbox.file("ralph.yaml", &verify_list(&[&sandbox.counting("false")]));
    sandbox.trust();
    sandbox.stop("check").answer().blocked();
    sandbox.ralph(&["trust", "--revoke"]).success().says("stay blocked");
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(
        reason.contains("(iteration 2/5)") && reason.contains("trust in this repo's gates was revoked"),
        "{reason}"
    );
    assert_eq!(sandbox.runs(), 1);
    let message = sandbox.stop("check").agent("new-agent").answer().allowed().expect("a message");
    assert!(message.contains("trust in the gates") && message.contains("UNVERIFIED"), "{message}");
    sandbox.ralph(&["verify"]).exits(3);
    for _ in 0..2 {
        sandbox.stop("check").answer().blocked();
    }
    sandbox.stop("check").answer().allowed().expect("loud");
    assert_eq!(sandbox.state()["status"]["verdict"], "tampered");
    assert_eq!(sandbox.runs(), 1);
}

#[test]
fn a_changed_remote_frees_no_agent() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.stop("check").answer().blocked();
    sandbox.git(&["remote", "add", "origin", "https://example.com/other.git"]);
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("2/5"), "{reason}");
}

#[test]
fn a_broken_config_is_refused_with_its_line_shown() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", "verify:\n  - run: npm test\n    tiemout: 5m\n");
    let ran = sandbox
        .ralph(&["trust"])
        .exits(2)
        .says("ralph.yaml:3:5")
        .says("    tiemout: 5m")
        .says("did you mean `timeout`?");
    assert!(ran.stderr.contains("^^^^^^^"), "{}", ran.stderr);
    assert_eq!(sandbox.status()["trust"], "untrusted");
}

#[test]
fn the_agents_that_a_repo_names_are_shown_before_they_are_accepted() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", "verify: [a]\nagents: {mine: {command: [./agent.sh, \"a b\", \"it's\"]}}\n");
    sandbox.ralph(&["trust", "--show"]).success().says(r"  agent mine: ./agent.sh 'a b' 'it'\''s'");
    let shown = sandbox.ralph(&["trust", "--show", "--json"]).success().json();
    assert_eq!(shown["agents"][0]["name"], "mine", "{shown}");
}

#[test]
fn a_mistake_in_an_agent_of_the_user_is_reported_with_its_line() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", "verify: [a]\n");
    sandbox.user_config("agents:\n  claude:\n    enviroment: {A: b}\n");
    let message = sandbox.ralph(&["trust", "--show"]);
    message.exits(2).says("config.yaml:3:5: unknown key `enviroment` (hint: did you mean `environment`?)");
}

/// Gates run in the order of the file, so another order is another definition.
#[test]
fn reordered_gates_are_shown_as_a_difference() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", "verify:\n  - 'true'\n  - test -e a\n  - test -e b\n");
    sandbox.trust();
    sandbox.file("ralph.yaml", "verify:\n  - 'true'\n  - test -e b\n  - test -e a\n");
    let shown = sandbox.ralph(&["trust", "--show"]).success().stdout;
    let changed: Vec<&str> = shown.lines().filter(|line| line.starts_with(['-', '+'])).collect();
    assert_eq!(changed, ["+  - test -e b", "-  - test -e b"], "{shown}");
    sandbox.ralph(&["verify"]).exits(3).says("+  - test -e b");
}

#[test]
fn the_accepted_definition_can_be_put_back() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.ralph(&["trust", "--restore"]).success().says("is the accepted definition already");
    sandbox.file("ralph.yaml", "verify: ['true']\n");
    sandbox.ralph(&["verify"]).exits(3).says("`ralph trust --restore`");
    let ran =
        sandbox.ralph(&["trust", "--restore"]).success().says("ralph.yaml is the accepted definition again");
    assert_eq!(sandbox.read("ralph.yaml"), GATE);
    let copy = ran.stdout.trim_end().rsplit(' ').next().expect("a path").to_owned();
    assert_eq!(fs::read_to_string(copy).expect("a copy"), "verify: ['true']\n");
    assert_eq!(sandbox.status()["trust"], "accepted");
    // Also if the file was removed, or is a link out of the repo.
    sandbox.remove("ralph.yaml");
    sandbox.ralph(&["trust", "--restore"]).success();
    assert_eq!(sandbox.read("ralph.yaml"), GATE);
    sandbox.remove("ralph.yaml");
    let outside = sandbox.home().join("outside.yaml");
    fs::write(&outside, "not ours\n").expect("a file");
    symlink(&outside, sandbox.path("ralph.yaml")).expect("a link");
    sandbox.ralph(&["trust", "--restore"]).success();
    assert_eq!(sandbox.read("ralph.yaml"), GATE);
    assert!(!sandbox.path("ralph.yaml").is_symlink());
    assert_eq!(fs::read_to_string(&outside).expect("a file"), "not ours\n");
    Sandbox::new().ralph(&["trust", "--restore"]).exits(2).says("nothing was accepted");
}
