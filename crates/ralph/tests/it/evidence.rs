//! What a verdict is worth: the table of levels with the real binary and driver. The stand-in agents are shell scripts; the
//! gate is a small test runner that prints TAP.

use std::fs;

use ralph_testkit::{Finished, Sandbox, Session};
use serde_json::{Value, json};

/// Each `tests/NAME.test` is a test: a shell script that passes with exit code 0. `run.conf` in the parent folder can turn
/// all of them off, like a runner's own settings.
const RUNNER: &str = r#"# the test runner
n=0; red=0; out=
for file in tests/*.test; do
  test -e "$file" || continue
  test -e ../run.conf && continue
  n=$((n + 1)); name=$(basename "$file" .test)
  if sh "$file"; then out="${out}ok $n - $name
"; else out="${out}not ok $n - $name
"; red=1; fi
done
echo "TAP version 13"; printf '%s' "$out"; echo "1..$n"; exit $red
"#;

const ADD: &str = "echo $(($1 + $2))\n";
const BROKEN: &str = "echo $(($1 - $2))\n";
const TESTS_ADD: &str = "test \"$(sh src/add.sh 2 3)\" = 5\n";

/// A project with a source, one test and a license.
fn project(source: &str) -> Sandbox {
    project_with("verify:\n  - {name: test, run: sh run-tests.sh}\n", source)
}

fn project_with(config: &str, source: &str) -> Sandbox {
    let sandbox = Sandbox::gated(config);
    sandbox.file("run-tests.sh", RUNNER);
    sandbox.file("src/add.sh", source);
    sandbox.file("tests/adds.test", TESTS_ADD);
    sandbox.file("LICENSE", "MIT\n");
    sandbox
}

fn drive(sandbox: &Sandbox, agent: &str, more: &[&str]) -> Finished {
    let agent = format!("command:cat >> ../prompts; {agent}");
    sandbox.ralph(&[&["loop", "add a login page", "--agent", &agent][..], more].concat())
}

fn prompts(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.path("../prompts")).unwrap_or_default()
}

const REQUEST: &str = "Gates pass, but no test fails without your change.";

fn requests(sandbox: &Sandbox) -> usize {
    prompts(sandbox).matches(REQUEST).count()
}

fn judged(sandbox: &Sandbox) -> Value {
    sandbox.events_named("judged").pop().expect("judged")
}

#[test]
fn the_table_of_levels() {
    let fix = "printf 'echo $(($1 + $2))\\n' > src/add.sh";
    let feature = "printf 'echo $(($1 * $2))\\n' > src/times.sh";
    let test = "printf 'test \"$(sh src/times.sh 2 3)\" = 6\\n' > tests/times.test";
    let idle_test = "printf 'true\\n' > tests/idle.test";
    struct Row {
        what: &'static str,
        source: &'static str,
        agent: String,
        more: &'static [&'static str],
        last_line: &'static str,
        code: i32,
        requests: usize,
    }
    let row = |what, source, agent: String, more, last_line, code, requests| Row {
        what,
        source,
        agent,
        more,
        last_line,
        code,
        requests,
    };
    let table = [
        row("a liar", ADD, "echo All done, VERIFIED_DONE".into(), &[], "UNCHANGED", 6, 0),
        row("a word in LICENSE", ADD, "echo x >> LICENSE".into(), &[], "GATES_PASS", 6, 0),
        row("a source and no test", ADD, "echo '# x' >> src/add.sh".into(), &[], "GATES_PASS", 6, 1),
        row("red at the start, fixed", BROKEN, fix.into(), &[], "VERIFIED_DONE", 0, 0),
        row("a feature with its test", ADD, format!("{feature}; {test}"), &[], "VERIFIED_DONE", 0, 0),
        row("a test that proves nothing", ADD, format!("{feature}; {idle_test}"), &[], "GATES_PASS", 6, 1),
        row(
            "no proof asked",
            ADD,
            "echo '# x' >> src/add.sh".into(),
            &["--proof", "off"],
            "GATES_PASS",
            0,
            0,
        ),
        row(
            "a refactoring",
            ADD,
            "printf 'echo $(($2 + $1))\\n' > src/add.sh".into(),
            &["--proof", "behaviour-kept"],
            "VERIFIED_DONE",
            0,
            0,
        ),
        row(
            "a refactoring that drops a test",
            ADD,
            "printf 'echo 5\\n' > src/add.sh; printf 'true\\n' > tests/new.test; rm tests/adds.test".into(),
            &["--proof", "behaviour-kept"],
            "GATES_PASS",
            6,
            0,
        ),
        row("no baseline", BROKEN, fix.into(), &["--no-baseline"], "VERIFIED_DONE", 0, 0),
        row(
            "no test, and why",
            ADD,
            "echo '# x' >> src/add.sh; echo '<no-test>only a comment</no-test>'".into(),
            &[],
            "GATES_PASS",
            6,
            0,
        ),
    ];
    for row in table {
        let sandbox = project(row.source);
        let ran = drive(&sandbox, &row.agent, row.more);
        assert_eq!(ran.code, Some(row.code), "{}: {ran:#?}", row.what);
        assert_eq!(ran.stdout.lines().last(), Some(row.last_line), "{}: {ran:#?}", row.what);
        assert_eq!(requests(&sandbox), row.requests, "{}: {}", row.what, prompts(&sandbox));
        assert_eq!(ran.stdout.contains("VERIFIED_DONE"), row.last_line == "VERIFIED_DONE", "{}", row.what);
    }
}

#[test]
fn what_was_shown_is_in_the_headline_the_json_and_the_report() {
    let sandbox = project(BROKEN);
    let agent = "printf 'echo $(($1 + $2))\\n' > src/add.sh; \
                 printf 'test \"$(sh src/add.sh 1 1)\" = 2\\n' > tests/ones.test";
    let ran = drive(&sandbox, agent, &[]).exits(0);
    let headline = "✓ VERIFIED  1 gate · 1 test red → green · 1 new test fails without the change";
    assert!(ran.stdout.lines().any(|line| line == headline), "{ran:#?}");
    let report = sandbox.ralph(&["report", "--json"]).success().json();
    assert_eq!((&report["level"], &report["status"]), (&json!("verified"), &json!("COMPLETED")));
    let shown = json!([
        {"kind": "tests_fixed", "gate": "test", "tests": ["adds"]},
        {"kind": "new_tests", "gate": "test", "tests": ["ones"]},
    ]);
    assert_eq!(report["shown"], shown);
}

#[test]
fn a_test_that_passes_without_the_change_is_named() {
    let sandbox = project(ADD);
    let agent = "echo '# x' >> src/add.sh; printf 'true\\n' > tests/idle.test";
    let ran = drive(&sandbox, agent, &["--max-iterations", "1"]).exits(6);
    assert!(ran.stdout.contains("without the change they pass, too: idle."), "{ran:#?}");
    let report = sandbox.ralph(&["report"]).success().stdout;
    assert!(report.contains("idle"), "{report}");
    let why = &judged(&sandbox)["reason"]["why"];
    assert_eq!((&why["why_not"], &why["tests"]), (&json!("passes_without_change"), &json!(["idle"])));
}

#[test]
fn the_first_prompt_carries_the_failures_of_the_start() {
    let sandbox = project(BROKEN);
    drive(&sandbox, "true", &["--max-iterations", "1"]).exits(1);
    let prompt = prompts(&sandbox);
    assert!(prompt.contains("At the start of this loop, before any change, these gates fail:"), "{prompt}");
    assert!(prompt.contains("adds"), "{prompt}");
    let baseline = sandbox.events_named("baseline_ran").pop().expect("the baseline");
    assert_eq!(baseline["tests"], json!([{"gate": "test", "names": ["adds"]}]));
}

#[test]
fn tests_that_ran_at_the_start_and_not_now_are_no_pass() {
    let turned_off = "touch ../run.conf; echo '# x' >> src/add.sh";
    let sandbox = project(ADD);
    let ran = drive(&sandbox, turned_off, &["--max-iterations", "1"]).exits(1);
    assert!(ran.stderr.contains("exited 0 without running a test; 1 ran at the start"), "{ran:#?}");
    let allowed = "verify:\n  - {name: test, run: sh run-tests.sh, allow_empty: true}\n";
    drive(&project_with(allowed, ADD), turned_off, &["--max-iterations", "1"]).exits(6);
}

/// Like a `pytest.ini` in the parent folder: the gate turns green, and not by the work.
#[test]
fn a_green_from_outside_the_repo_is_not_verified() {
    let config = "verify:\n  - {name: test, run: sh run-tests.sh, allow_empty: true}\n";
    let sandbox = project_with(config, BROKEN);
    let ran =
        drive(&sandbox, "touch ../run.conf; echo '# x' >> src/add.sh", &["--max-iterations", "1"]).exits(6);
    assert_eq!(ran.stdout.lines().last(), Some("GATES_PASS"), "{ran:#?}");
}

#[test]
fn an_acceptance_command_must_fail_twice_and_then_pass_twice() {
    let makes = "echo hello > src/login.txt";
    let accept = ["--accept", "case $(cat src/login.txt) in *hello*) ;; *) false ;; esac"];
    let ran = drive(&project(ADD), makes, &accept).exits(0);
    assert_eq!(ran.stdout.lines().last(), Some("VERIFIED_DONE"), "{ran:#?}");
    let green = drive(&project(ADD), makes, &["--accept", "true"]).exits(2);
    assert!(green.stderr.contains("passes already, so it cannot show anything: true"), "{green:#?}");
    assert!(!green.stderr.contains("iteration 1"), "an agent was run: {green:#?}");
    drive(&project(ADD), makes, &["--accept", "true", "--accept-green", "--max-iterations", "1"]).exits(6);
    // Every other run passes: refused at the start, and no pass at the end.
    let flaky = "test -e ../flip && rm ../flip || { touch ../flip; false; }";
    drive(&project(ADD), makes, &["--accept", flaky]).exits(2);
    let end = format!("test -e src/login.txt && {{ {flaky}; }}");
    drive(&project(ADD), makes, &["--accept", &end, "--max-iterations", "1"]).exits(1);
}

#[test]
fn a_gate_that_may_stay_red_excuses_what_it_had_and_nothing_new() {
    let config = "verify:\n  - {name: lint, run: '! cat lint.txt', red: keep}\n  - {name: test, run: sh run-tests.sh}\n";
    let red = |sandbox: &Sandbox| sandbox.file("lint.txt", "src/a.c:1:1: error: old\n");
    let fix = "printf 'echo $(($1 + $2))\\n' > src/add.sh";
    let kept = project_with(config, BROKEN);
    red(&kept);
    drive(&kept, fix, &[]).exits(0);
    let worse = project_with(config, BROKEN);
    red(&worse);
    let more = format!("{fix}; echo 'src/a.c:2:1: error: new' >> lint.txt");
    drive(&worse, &more, &["--max-iterations", "1"]).exits(1);
}

#[test]
fn a_blocked_agent_ends_its_loop_for_the_user() {
    for agent in [
        "echo '<blocked>the gate needs a database</blocked>'",
        "\"$RALPH\" blocked the gate needs a database",
    ] {
        let mut sandbox = project(BROKEN);
        sandbox.set("RALPH", crate::RALPH);
        let ran = drive(&sandbox, agent, &[]).exits(3);
        assert!(ran.stdout.contains("the gate needs a database"), "{ran:#?}");
        assert_eq!(judged(&sandbox)["verdict"], "needs_human");
        let report = sandbox.ralph(&["report"]).success().stdout;
        assert!(report.contains("the gate needs a database"), "{report}");
    }
}

#[test]
fn blocked_in_a_session_is_told_to_the_user_and_verifies_nothing() {
    let sandbox = project(BROKEN);
    let talk = Session::looping(&sandbox, "fix it --completion-promise DONE");
    talk.agent_works_with("Bash").stops("Done.").blocked();
    let answer = talk.agent_works_with("Bash").stops("<blocked>no database here</blocked>");
    let banner = answer.shown_to_user();
    assert!(
        banner.contains("Loop ended: needs your review") && banner.contains("no database here"),
        "{banner}"
    );
    assert_eq!(talk.state()["status"], json!({"status": "ended", "verdict": "needs_human"}));
    sandbox.ralph(&["blocked", "no loop is left"]).exits(2).says("nothing was recorded");
}

#[test]
fn a_session_loop_shows_its_level_and_asks_for_nothing_unless_told() {
    let banner = |options: &str, agent: &dyn Fn(&Sandbox)| {
        let sandbox = project(ADD);
        let talk = Session::looping(&sandbox, &format!("fix it {options}"));
        agent(&sandbox);
        let answer = talk.agent_works_with("Bash").stops("Done.");
        (sandbox.ralph(&["report", "--json"]).success().json(), answer)
    };
    let (report, answer) = banner("", &|sandbox| sandbox.file("src/add.sh", "echo $(($2 + $1))\n"));
    assert!(answer.shown_to_user().contains("Loop done: gates pass, task not shown"), "{answer:#?}");
    let status = "COMPLETED (gates pass, task not shown)";
    assert_eq!((&report["status"], &report["level"]), (&json!(status), &json!("passing")));
    let (_, answer) = banner("--proof test", &|sandbox| sandbox.file("src/add.sh", "echo $(($2 + $1))\n"));
    let (_, detail) = answer.blocked();
    assert!(detail.contains(REQUEST), "{detail}");
    let (report, answer) = banner("", &|sandbox| {
        sandbox.file("src/times.sh", "echo $(($1 * $2))\n");
        sandbox.file("tests/times.test", "test \"$(sh src/times.sh 2 3)\" = 6\n");
    });
    assert!(answer.shown_to_user().contains("Loop done, verified"), "{answer:#?}");
    assert_eq!(report["level"], "verified");
}

/// A lint gate that was red before never hides a broken test behind it.
#[test]
fn a_guarded_session_is_blocked_for_what_it_broke_and_not_for_what_was_red() {
    let config = "guard: [session]\nverify:\n  - {name: lint, run: '! cat lint.txt'}\n  - {name: test, run: sh run-tests.sh}\n";
    let sandbox = project_with(config, ADD);
    sandbox.file("lint.txt", "src/a.c:1:1: error: old\n");
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("src/other.sh", "true\n");
    let told = talk.agent_stops().notice();
    assert!(told.contains("Already failing before this prompt, not blocking: lint"), "{told}");
    talk.user_says("and now the sum").silent();
    talk.agent_writes("src/add.sh", BROKEN);
    let (reason, detail) = talk.agent_stops().blocked();
    assert!(reason.contains("test") && detail.contains("adds"), "{reason}\n{detail}");
    talk.agent_writes("src/add.sh", ADD);
    talk.agent_writes("lint.txt", "src/a.c:1:1: error: old\nsrc/a.c:9:1: error: new\n");
    let (reason, _) = talk.agent_stops().blocked();
    assert!(reason.contains("lint"), "{reason}");
}

/// A guarded session is never blocked for want of a proof, but a test that shows nothing is named.
#[test]
fn a_guarded_session_that_adds_tests_is_told_what_they_show() {
    let config = "guard: [session]\nverify:\n  - {name: test, run: sh run-tests.sh}\n";
    for (test, verdict, named) in
        [("test \"$(sh src/sub.sh 3 2)\" = 1\n", "verified", false), ("true\n", "passing", true)]
    {
        let sandbox = project_with(config, ADD);
        let talk = Session::new(&sandbox);
        talk.user_says("add a difference").silent();
        talk.agent_writes("src/sub.sh", "echo $(($1 - $2))\n");
        talk.agent_writes("tests/subtracts.test", test);
        let told = talk.agent_stops().notice();
        assert_eq!(judged(&sandbox)["verdict"], verdict, "{told}");
        assert_eq!(told.contains("without the change they pass, too"), named, "{told}");
    }
}

/// Each transcript of the guide is what the binary prints now; `RALPH_BLESS=1` writes them again.
#[test]
fn the_transcripts_of_the_guide_are_real() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/evidence.md");
    let mut text = fs::read_to_string(guide).expect("the guide");
    let scenes = [
        ("fixed", BROKEN, "printf 'echo $(($1 + $2))\\n' > src/add.sh"),
        ("no test", ADD, "echo '# x' >> src/add.sh"),
        ("unchanged", ADD, "true"),
    ];
    for (name, source, agent) in scenes {
        let sandbox = project(source);
        let ran = drive(&sandbox, agent, &[]);
        let shown: Vec<String> = ran.stdout.lines().map(without_times).collect();
        let real = format!("{}\n$ echo $?\n{}\n", shown.join("\n"), ran.code.expect("a code"));
        let mark = format!("<!-- transcript: {name} -->\n```text\n");
        let from = text.find(&mark).unwrap_or_else(|| panic!("no transcript `{name}`")) + mark.len();
        let to = from + text[from..].find("```").expect("its end");
        if std::env::var_os("RALPH_BLESS").is_some() {
            text.replace_range(from..to, &real);
        }
        assert_eq!(
            &text[from..from + real.len().min(text.len() - from)],
            real,
            "`{name}`: run with RALPH_BLESS=1"
        );
    }
    if std::env::var_os("RALPH_BLESS").is_some() {
        fs::write(guide, text).expect("the guide");
    }
}

/// A line without the time it took and the name of the report.
fn without_times(line: &str) -> String {
    if let Some(path) = line.strip_prefix("report: ") {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        return format!("report: {folder}/…");
    }
    let is_time = |word: &str| {
        let digits = word.trim_end_matches("ms").trim_end_matches('s');
        digits.len() < word.len() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    line.split(" · ").map(|part| if is_time(part) { "1s" } else { part }).collect::<Vec<_>>().join(" · ")
}
