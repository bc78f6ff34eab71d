//! A session's loop beyond the gates: the agent commits, pushes and opens; ralph looks, waits and merges.

use ralph_testkit::{ScriptedCheck, Session};
use serde_json::json;

use crate::scene::Scene;

/// A transcript in the guide: what the agent did, and what ralph answered. `RALPH_BLESS=1` rewrites it.
struct Recorded(String);

impl Recorded {
    fn new() -> Self {
        Self("```text\n".into())
    }

    fn blocked(&mut self, did: &str, reason: &str) {
        self.0.push_str(&format!("agent  {did}\nralph  blocks: {reason}\n"));
    }

    fn allowed(&mut self, did: &str, told: &str) {
        let lines: Vec<&str> = told
            .lines()
            .map(|line| line.trim_matches(['║', ' ']))
            .filter(|line| line.contains('✅') || line.starts_with("All gates"))
            .collect();
        self.0.push_str(&format!("agent  {did}\nralph  {}\n", lines.join(" ")));
    }

    fn is_in_the_guide(&self, name: &str) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ship.md");
        let page = std::fs::read_to_string(path).expect("the guide");
        let begin = format!("<!-- transcript {name} -->\n");
        let (before, rest) = page.split_once(&begin).expect("where it begins");
        let (there, after) = rest.split_once("<!-- end of transcript -->").expect("where it ends");
        let played = format!("{}```\n", self.0);
        if std::env::var_os("RALPH_BLESS").is_some() {
            let page = [before, &begin, &played, "<!-- end of transcript -->", after].concat();
            std::fs::write(path, page).expect("written");
            return;
        }
        assert_eq!(there, played, "run it once with RALPH_BLESS=1 and --test-threads 1");
    }
}

const AUDIT: &str = "# Audit\n\nDecision: PASS\nSummary:\n  L1: 0\n  L2: 0\n";

fn gh(scene: &Scene, words: &[&str]) {
    let output = scene.sandbox.isolated("gh").args(words).output().expect("gh");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn open_pull_request(scene: &Scene, branch: &str) {
    scene.sandbox.git(&["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")]);
    gh(
        scene,
        &["api", "repos/o/r/pulls", "-f", "title=t", "-f", &format!("head=o:{branch}"), "-f", "base=main"],
    );
}

/// The five iterations of the document's example for p0. Configuration: the promise requires audit, evidence and gate file;
/// the only gate of ralph's own is the usual one.
#[test]
fn p0_ends_when_the_pull_request_exists_in_five_iterations() {
    let scene = Scene::new("");
    let sandbox = &scene.sandbox;
    scene.forge.ci(|_| vec![ScriptedCheck::run("build", "FAILURE")]);
    sandbox.git(&["switch", "-q", "-c", "feature"]);
    let talk = Session::new(sandbox);
    let words = "\"实现功能，完成质检并创建 PR 后输出 <promise>QUALITY_GATE_PASSED</promise>\" \\\n    --completion-promise \"QUALITY_GATE_PASSED\"\n    # 不设置 --max-iterations = 无限循环";
    let started = talk.command("ralph-loop", words).shown_to_user();
    assert!(started.contains("pull request is open"), "{started}");
    let mut recorded = Recorded::new();
    // 1: code, no audit.
    sandbox.file("work.txt", "fixed\n");
    let (reason, detail) = talk.agent_works_with("Edit").stops("done").blocked();
    recorded.blocked("writes code", &reason);
    assert!(reason.contains("`docs/AUDIT-REPORT.md` is missing"), "{reason}");
    assert!(detail.contains("/ralph:ralph-audit"), "{detail}");
    // 2: an audit that fails.
    sandbox.file("docs/AUDIT-REPORT.md", "Decision: FAIL\nL2: 2\n");
    let (reason, _) = talk.agent_works_with("Write").stops("audited").blocked();
    recorded.blocked("runs the audit", &reason);
    assert!(reason.contains("its decision is FAIL"), "{reason}");
    // 3: fixed and audited again, with evidence; no gate file.
    sandbox.file("docs/AUDIT-REPORT.md", AUDIT);
    sandbox.file(".layer2-evidence.md", "- ran it: ok\n");
    let (reason, _) = talk.agent_works_with("Write").stops("fixed").blocked();
    recorded.blocked("fixes the findings, audits again", &reason);
    assert!(reason.contains("`.quality-gate-passed` is missing"), "{reason}");
    // 4: the gate file; no pull request.
    sandbox.file(".quality-gate-passed", "typecheck: PASS\ntest: PASS\nbuild: PASS\n");
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-q", "-m", "work"]);
    let (reason, detail) = talk.agent_works_with("Bash").stops("gated").blocked();
    recorded.blocked("runs `npm run qa:gate`, commits", &reason);
    assert!(reason.contains("no pull request is open for branch `feature`"), "{reason}");
    assert!(
        detail.contains("gh pr create --repo github.localhost/o/r --head feature --base main"),
        "{detail}"
    );
    // 5: the pull request. CI is not looked at, and no promise is needed.
    open_pull_request(&scene, "feature");
    let told = talk.agent_works_with("Bash").stops("opened").allowed().expect("a banner");
    recorded.allowed("pushes, opens the pull request", &told);
    recorded.is_in_the_guide("p0");
    assert!(told.contains("Pull request open"), "{told}");
    assert_eq!(talk.state()["status"], json!({"status": "ended", "verdict": "verified"}));
    assert_eq!(talk.state()["attempts"], 5);
    assert_eq!(scene.forge.merges_and_creates(), (0, 1));
}

/// The four iterations of the document's example for p1: CI failed and repaired, stale quality files, pending, merged.
#[test]
fn p1_repairs_ci_waits_outside_the_model_and_merges() {
    let scene = Scene::with("ship: { poll: 100ms, ci_timeout: 60s }", "");
    let sandbox = &scene.sandbox;
    sandbox.git(&["switch", "-q", "-c", "feature"]);
    sandbox.file("work.txt", "fixed\n");
    for (file, text) in [
        ("docs/AUDIT-REPORT.md", AUDIT),
        (".layer2-evidence.md", "- ran it\n"),
        (".quality-gate-passed", "test: PASS\n"),
    ] {
        sandbox.file(file, text);
    }
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-q", "-m", "work"]);
    open_pull_request(&scene, "feature");
    scene.forge.ci(|question| match (question.push, question.asked) {
        (0, _) => vec![ScriptedCheck::run("build", "FAILURE")],
        (_, 0 | 1) => vec![ScriptedCheck::pending("build")],
        _ => vec![ScriptedCheck::run("build", "SUCCESS")],
    });
    let talk = Session::new(sandbox);
    let words = "\"修复 PR #1 的 CI 失败，CI 通过并合并后输出 <promise>CI_PASSED</promise>\" --completion-promise \"CI_PASSED\"";
    let started = talk.command("ralph-loop", words).shown_to_user();
    assert!(started.contains("will merge its pull request"), "{started}");
    let mut recorded = Recorded::new();
    // The promise alone ends nothing.
    let (reason, detail) = talk.agent_works_with("Bash").stops("<promise>CI_PASSED</promise>").blocked();
    recorded.blocked("says <promise>CI_PASSED</promise>", &reason);
    assert!(reason.contains("CI failed: build"), "{reason}");
    assert!(detail.contains("CI check `build` failed") && detail.contains("false promise"), "{detail}");
    // Repaired and pushed; the quality files are older than the code.
    sandbox.file("repair.txt", "x\n");
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-q", "-m", "repair"]);
    sandbox.git(&["push", "-q", "origin", "HEAD:refs/heads/feature"]);
    let (reason, _) = talk.agent_works_with("Bash").stops("pushed").blocked();
    recorded.blocked("repairs the code, commits, pushes", &reason);
    assert!(reason.contains("is older than the code"), "{reason}");
    for (file, text) in [
        ("docs/AUDIT-REPORT.md", AUDIT),
        (".layer2-evidence.md", "- ran it again\n"),
        (".quality-gate-passed", "test: PASS\n"),
    ] {
        sandbox.file(file, text);
    }
    sandbox.git(&["commit", "-q", "-a", "-m", "quality"]);
    sandbox.git(&["push", "-q", "origin", "HEAD:refs/heads/feature"]);
    // Pending twice: the hook waits, then merges and asks for the promise once.
    let (reason, _) = talk.agent_works_with("Bash").stops("checked").blocked();
    recorded.blocked(
        "audits, runs `npm run qa:gate`, pushes; CI is pending twice, and ralph waits and merges",
        &reason,
    );
    assert!(reason.contains("promise is missing"), "{reason}");
    assert_eq!(scene.forge.merges_and_creates(), (1, 1));
    let told =
        talk.agent_works_with("Bash").stops("<promise>CI_PASSED</promise>").allowed().expect("a banner");
    recorded.allowed("says <promise>CI_PASSED</promise>", &told);
    recorded.is_in_the_guide("p1");
    assert!(told.contains("Merged") && told.contains("/pull/1"), "{told}");
    assert_eq!(talk.state()["status"], json!({"status": "ended", "verdict": "passing"}));
    assert!(scene.events("waited") >= 2);
}

#[test]
fn at_the_hooks_deadline_the_turn_ends_as_waiting_and_the_next_stop_continues() {
    let scene = Scene::with("ship: { poll: 30s, ci_timeout: 1h }", "");
    let sandbox = &scene.sandbox;
    sandbox.git(&["switch", "-q", "-c", "feature"]);
    scene.forge.ci(|_| vec![ScriptedCheck::pending("build")]);
    let talk = Session::new(sandbox);
    talk.command("ralph-loop", "\"x\" --until ci");
    sandbox.file("work.txt", "fixed\n");
    sandbox.git(&["commit", "-q", "-a", "-m", "work"]);
    open_pull_request(&scene, "feature");
    let told =
        talk.agent_works_with("Bash").stop("waits").deadline("15s").answer().allowed().expect("a banner");
    assert!(told.contains("Loop waiting") && told.contains("build"), "{told}");
    assert_eq!(talk.state()["status"], json!({"status": "running"}));
    assert_eq!(talk.state()["attempts"], 0);
    let deadline = sandbox.events_named("ship_waits")[0]["deadline"].clone();
    scene.forge.ci(|_| vec![ScriptedCheck::run("build", "SUCCESS")]);
    let told = talk.agent_works_with("Bash").stops("again").allowed().expect("a banner");
    assert!(told.contains("CI passed"), "{told}");
    assert_eq!(sandbox.events_named("ship_waits")[0]["deadline"], deadline);
}

/// A repo with a gate file and no gate of ralph's own is never merged by ralph, and nothing is called verified.
#[test]
fn a_forged_gate_file_without_gates_ends_as_a_claim_and_is_not_merged() {
    let scene = Scene::of("verify: []\nship: { poll: 50ms }\n", "");
    let sandbox = &scene.sandbox;
    sandbox.git(&["switch", "-q", "-c", "feature"]);
    let talk = Session::new(sandbox);
    talk.command("ralph-loop", "\"x\" --until merged");
    sandbox.file("work.txt", "not even fixed\n");
    sandbox.file(".quality-gate-passed", "typecheck: PASS\ntest: PASS\nbuild: PASS\n");
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-q", "-m", "work"]);
    open_pull_request(&scene, "feature");
    talk.agent_works_with("Bash").stops("all done").allowed();
    assert_eq!(talk.state()["status"], json!({"status": "ended", "verdict": "claimed"}));
    assert_eq!(scene.forge.merges_and_creates(), (0, 1));
}

#[test]
fn exit_codes_and_the_phase_say_where_the_branch_stands() {
    let scene = Scene::new("");
    let sandbox = &scene.sandbox;
    sandbox.git(&["switch", "-q", "-c", "feature"]);
    let phase = |expected: &str| {
        let ran = sandbox.ralph(&["phase"]).exits(0);
        assert_eq!(ran.stdout.lines().next(), Some(format!("PHASE: {expected}").as_str()), "{ran:#?}");
        assert_eq!(sandbox.ralph(&["phase", "--json"]).exits(0).json()["phase"], expected);
    };
    let ends = |until: &str, code: i32, why: &str| {
        let ran = sandbox.ralph(&["hook", "exit-code", "--until", until]).exits(code);
        assert!(ran.stderr.contains(why), "{ran:#?}");
    };
    phase("p0");
    ends("pr", 2, "AUDIT-REPORT.md` is missing");
    for (file, text) in [
        ("docs/AUDIT-REPORT.md", AUDIT),
        (".layer2-evidence.md", "- ran it\n"),
        (".quality-gate-passed", "test: FAIL\n"),
    ] {
        sandbox.file(file, text);
    }
    ends("pr", 2, "test: fail");
    sandbox.file(".quality-gate-passed", "test: PASS\n");
    ends("pr", 2, "gate `test` failed");
    sandbox.file("work.txt", "fixed\n");
    // The claims were about other code.
    ends("pr", 2, "older than the code");
    for (file, text) in [
        ("docs/AUDIT-REPORT.md", AUDIT),
        (".layer2-evidence.md", "- ran it\n"),
        (".quality-gate-passed", "test: PASS\n"),
    ] {
        sandbox.file(file, text);
    }
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-q", "-m", "work"]);
    ends("pr", 2, "no pull request is open");
    open_pull_request(&scene, "feature");
    scene.forge.ci(|_| vec![ScriptedCheck::pending("build")]);
    ends("pr", 0, "");
    ends("merged", 2, "waiting for CI");
    phase("pending");
    scene.forge.ci(|_| vec![ScriptedCheck::run("build", "FAILURE")]);
    phase("p1");
    ends("merged", 2, "CI failed: build");
    scene.forge.ci(|_| vec![ScriptedCheck::run("build", "SUCCESS")]);
    phase("p2");
    ends("merged", 2, "is not merged");
    assert_eq!(scene.forge.merges_and_creates(), (0, 1), "it only looks");
    let number = scene.forge.pulls()[0].number;
    let head = sandbox.git(&["rev-parse", "HEAD"]);
    gh(
        &scene,
        &[
            "api",
            "-X",
            "PUT",
            &format!("repos/o/r/pulls/{number}/merge"),
            "-f",
            &format!("sha={}", head.trim()),
        ],
    );
    phase("merged");
    ends("merged", 0, "");
    assert_ne!(scene.remote("feature"), "", "it deletes nothing");
    let ran = sandbox.command(&["phase"]).env("PHASE_OVERRIDE", "p1").output().expect("the binary");
    assert!(String::from_utf8_lossy(&ran.stdout).starts_with("PHASE: p1\n"));
    let ran = sandbox.command(&["phase"]).env("PHASE_OVERRIDE", "p9").output().expect("the binary");
    assert_eq!(ran.status.code(), Some(2));
}
