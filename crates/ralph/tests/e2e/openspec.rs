//! A loop over a change made by the real OpenSpec command, in a session of the real client: its tasks, its budget of
//! agent
//! calls, its errors, and its archiving.

use ralph_testkit::{Claude, Finished, Lane, OpenSpec, Sandbox, Script, Turn};
use serde_json::{Value, json};

use crate::session::{ClaudeSession, Seen, bash, ended, life_of, verdicts_of};

const START: &str = "/ralph:ralph-loop --openspec add-foo";
/// The beginning of the loop's id.
const LOOP: &str = "add-foo";
const TASKS: &str = "openspec/changes/add-foo/tasks.md";
const PROMISE: &str = "都做完了。\n\n<promise>所有任務完成</promise>";

const VERIFIED: &str = "verified all_gates_passed";

const PROPOSAL: &str =
    "## Why\n\nPeople look for a foo, and there is none.\n\n## What Changes\n\n- There is a foo.\n";
const DELTA: &str = "## ADDED Requirements\n\n### Requirement: A foo\n\nThe project SHALL have a foo.\n\n\
                     #### Scenario: Looking for it\n\n- **WHEN** somebody looks for a foo\n- **THEN** it is there\n";
const FIVE_TASKS: &str = "## 1. The file (sequential)\n\n- [ ] 1.1 Name it\n- [ ] 1.2 Write it\n\n\
                          ## 2. Around it (sequential, depends: 1)\n\n- [ ] 2.1 Test it\n- [ ] 2.2 Describe it\n- [ ] 2.3 Show it\n";

/// A repo with the change `add-foo`, created by the command and filled in as an agent does.
struct Change<'a> {
    openspec: &'a OpenSpec,
    sandbox: Sandbox,
}

impl<'a> Change<'a> {
    /// Its gates require the file `foo`, and that the command validates the change.
    fn new(openspec: &'a OpenSpec) -> Self {
        let gates = "verify:\n  - test -e foo\n  - openspec validate add-foo --strict --no-interactive\n";
        let change = Self { openspec, sandbox: Sandbox::gated(gates) };
        change.openspec(&["init", "--tools", "none"]).success();
        change.openspec(&["new", "change", "add-foo"]).success();
        change.sandbox.file("openspec/changes/add-foo/proposal.md", PROPOSAL);
        change.sandbox.file("openspec/changes/add-foo/specs/foo/spec.md", DELTA);
        change.sandbox.file(TASKS, FIVE_TASKS);
        change.openspec(&["validate", "add-foo", "--strict", "--no-interactive"]).success();
        change
    }

    fn openspec(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.openspec.run(&self.sandbox.project(), &self.sandbox.home(), arguments))
    }

    fn session(&self, claude: &Claude) -> ClaudeSession<'_> {
        ClaudeSession::new(claude, &self.sandbox)
            .with_our_plugin()
            .with_openspec(self.openspec)
            .env("RALPH_LANG", "zh-TW")
            .prompt(START)
    }

    fn life(&self) -> Vec<String> {
        life_of(&self.sandbox, LOOP)
    }

    /// The changes in the archive, as the command lists them.
    fn archived(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.sandbox.path("openspec/changes/archive")).expect("the archive");
        let folders = entries.flatten().filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

fn programs() -> (Claude, OpenSpec) {
    (Claude::for_test(), OpenSpec::for_test())
}

/// Ticks these tasks.
fn tick(numbers: &[&str]) -> Turn {
    bash(&ticking(numbers))
}

fn ticking(numbers: &[&str]) -> String {
    let edits: Vec<String> =
        numbers.iter().map(|number| format!("-e 's/\\[ \\] {number} /[x] {number} /'")).collect();
    format!("sed {} {TASKS} > ../ticked && cp ../ticked {TASKS}", edits.join(" "))
}

/// A sub-agent that reports nothing about its work.
fn worker() -> Lane {
    Lane::new("sub-agent").when_first_user_contains("SUB-TASK").then_repeat(Turn::say("I did my part."))
}

fn call_worker() -> Turn {
    Turn::agent("worker", "SUB-TASK", false)
}

/// The lines of the one message to the user that contains this.
#[track_caller]
fn banner<'a>(seen: &'a Seen, words: &str) -> Vec<&'a str> {
    let shown = seen.shown_to_user();
    let shown: Vec<&&str> = shown.iter().filter(|text| text.contains(words)).collect();
    assert_eq!(shown.len(), 1, "{words}\n{seen}");
    let prefixes = ["Stop says: ", "UserPromptSubmit says: "];
    let bare =
        |line: &'a str| prefixes.iter().fold(line, |line, prefix| line.strip_prefix(prefix).unwrap_or(line));
    shown[0].lines().map(bare).map(str::trim_end).collect()
}

#[test]
fn a_change_runs_to_completion_and_is_archived_by_the_command_itself() {
    let (claude, openspec) = programs();
    let change = Change::new(&openspec);
    let compared = format!(
        "{} && openspec list --json > ../list.json && ralph status > ../status.txt",
        ticking(&["1.2"])
    );
    let seen = change.session(&claude).prompt(&format!("{START} --archive")).play(Script::new().main(vec![
        tick(&["1.1"]).expecting("0 of 5 tasks are done.\nNext task: 1.1 Name it"),
        Turn::say("The first one is done."),
        bash(&compared).expecting("gate `test -e foo` failed").expecting("1 of 5 tasks are done.\nNext task: 1.2 Write it"),
        bash("touch foo"),
        Turn::say("The file is there."),
        tick(&["2.1", "2.2"]).expecting("2 of 5 tasks are done.\nNext task: 2.1 Test it").expecting("3 of 5 tasks are open"),
        Turn::say(PROMISE),
        tick(&["2.3"])
            .expecting("1 of 5 tasks are open")
            .expecting("4 of 5 tasks are done.\nNext task: 2.3 Show it")
            .expecting("You promised <promise>所有任務完成</promise>, but the work is not done. This was counted as a false promise."),
        Turn::say(PROMISE),
    ]));
    assert_eq!(
        verdicts_of(&change.sandbox, LOOP),
        ["blocked gates_failed", "blocked tasks_open", "blocked tasks_open", VERIFIED],
        "{seen}"
    );
    assert_eq!(change.sandbox.state()["status"], ended("verified"));
    assert_eq!(change.sandbox.state()["false_promises"], 1, "{seen}");

    let list: Value = serde_json::from_str(&change.sandbox.read("../list.json")).expect("JSON");
    let counts = json!({"completedTasks": 2, "totalTasks": 5, "name": "add-foo"});
    for (field, value) in counts.as_object().expect("an object") {
        assert_eq!(&list["changes"][0][field], value, "{list:#}");
    }
    assert!(change.sandbox.read("../status.txt").contains("2/5"), "{}", change.sandbox.read("../status.txt"));

    let archived = change.archived();
    let [name] = archived.as_slice() else { panic!("{archived:?}\n{seen}") };
    let date = name.strip_suffix("-add-foo").unwrap_or_else(|| panic!("{name}"));
    assert!(date.parse::<jiff::civil::Date>().is_ok(), "{name}");
    assert!(!change.sandbox.exists("openspec/changes/add-foo"));
    assert!(!change.sandbox.read(&format!("openspec/changes/archive/{name}/tasks.md")).contains("[ ]"));
    assert!(change.sandbox.read("openspec/specs/foo/spec.md").contains("### Requirement: A foo"));
    assert_eq!(change.openspec(&["list", "--json"]).success().json()["changes"], json!([]));
    assert!(seen.user_saw(&["Stop says", "5/5", &format!("openspec/changes/archive/{name}")]), "{seen}");
}

#[test]
fn the_agent_call_budget_pauses_with_the_banner_and_continue_renews_it() {
    let (claude, openspec) = programs();
    let change = Change::new(&openspec);
    let seen = change
        .session(&claude)
        .prompt(&format!("{START} --max-iterations 2"))
        .then_prompt("「繼續」")
        .play(Script::new().lane(worker()).main(vec![
            tick(&["1.1", "1.2"]),
            call_worker(),
            call_worker(),
            // At the limit no further agent is called.
            call_worker(),
            Turn::say("I stop here.").expecting("the 2 agent calls of this loop are used up"),
            call_worker().expecting("2 of 5 tasks are done.\nNext task: 2.1 Test it").expecting_not("迭代"),
            Turn::say("One more."),
            call_worker().expecting("3 of 4 agent calls"),
            Turn::say("And again."),
        ]));
    let called = ["agent_called worker", "agent_finished worker"];
    let at_limit = "paused gates_failed";
    let expected = [
        &["began", "bound"][..],
        &called,
        &called,
        &[at_limit, "resumed renewed"],
        &called,
        &["blocked gates_failed"],
        &called,
        &[at_limit, "paused session_ended"],
    ];
    assert_eq!(change.life(), expected.concat(), "{seen}");
    assert_eq!(
        banner(&seen, "已達最大迭代次數 (2)"),
        [
            "",
            "╔════════════════════════════════════════════════════════════════╗",
            "║                    ⚠️ Loop 安全閥觸發                          ║",
            "╚════════════════════════════════════════════════════════════════╝",
            "",
            "⚠️ 已達最大迭代次數 (2)",
            "📊 當前進度: 2/5 任務完成",
            "",
            "請確認是否繼續：",
            "- 「繼續」- 再執行 2 次迭代",
            "- 「暫停」- 停止 Loop",
            "",
            "關卡未通過：test -e foo。",
        ],
        "{seen}"
    );
    assert!(seen.user_saw(&["Stop says", "迭代: #3 / 4"]), "{seen}");
    assert!(seen.user_saw(&["已達最大迭代次數 (4)", "「繼續」- 再執行 2 次迭代"]), "{seen}");
    assert_eq!(seen.served.lane("sub-agent").len(), 4, "{seen}");
}

#[test]
fn three_typed_errors_pause_with_the_list_and_continue_resumes_at_the_first_open_task() {
    let (claude, openspec) = programs();
    let change = Change::new(&openspec);
    let unknown_agent = || Turn::agent("nobody", "SUB-TASK", false);
    let seen = change
        .session(&claude)
        .then_prompt("Try again.")
        .then_prompt("Put the list back.")
        .then_prompt("繼續")
        .play(Script::new().main(vec![
            tick(&["1.1"]),
            unknown_agent(),
            Turn::api_error(403, "permission_error", "nope"),
            bash(&format!("touch foo; mv {TASKS} ../taken")).expecting("Try again."),
            Turn::say("The list is gone."),
            bash(&format!("mv ../taken {TASKS}")).expecting("Put the list back."),
            Turn::say("It is back."),
            // After `continue` the next error is the first in a row.
            unknown_agent().expecting("1 of 5 tasks are done.\nNext task: 1.2 Write it"),
            tick(&["1.2", "2.1", "2.2", "2.3"]),
            Turn::say(PROMISE),
        ]));
    let error_seen = "error_seen agent_execution";
    assert_eq!(
        change.life(),
        ["began", "bound", error_seen, error_seen, "paused task_list_gone", "resumed", error_seen, VERIFIED],
        "{seen}"
    );
    let in_a_row: Vec<u64> = change
        .sandbox
        .events_named("error_seen")
        .iter()
        .map(|event| event["in_a_row"].as_u64().expect("a number"))
        .collect();
    assert_eq!(in_a_row, [1, 2, 1], "the third was a stop that could not be judged");

    let lines = banner(&seen, "錯誤中斷");
    assert_eq!(lines[2], "║                    ❌ Loop 錯誤中斷                            ║");
    assert_eq!(lines[5], "⚠️ 連續發生 3 次錯誤");
    let at = lines.iter().position(|line| *line == "錯誤詳情：").expect("the details");
    let details = [
        ("1. [Agent 執行錯誤]: ", "nobody"),
        ("2. [Agent 執行錯誤]: ", "nope"),
        ("3. [找不到任務]: ", TASKS),
    ];
    for ((kind, what), line) in details.into_iter().zip(&lines[at + 1..]) {
        assert!(line.starts_with(kind) && line.contains(what), "{line}\n{seen}");
    }
}
