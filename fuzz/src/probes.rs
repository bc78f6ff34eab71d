//! Properties that must hold for any input, one function for each parser of the core. The fuzz targets call these with
//! generated input, the tests with the corpus.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each fuzz target uses one of them")]

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_core::claims::honest_exit::AgentAnswers;
use ralph_core::claims::loop_file::LoopFile;
use ralph_core::claims::promise::{self, Promise};
use ralph_core::claims::results;
use ralph_core::claims::state_file::Exported;
use ralph_core::claims::task_list::TaskList;
use ralph_core::claims::{agent_report, completion_marker as marker};
use ralph_core::clients::claude::hook;
use ralph_core::clients::hook::{HookReply, RenderedReply};
use ralph_core::clients::list;
use ralph_core::clients::stream::dialect::Dialect;
use ralph_core::clients::stream::{AgentEvent, Channel, is_session_id};
use ralph_core::config::user::UserFile;
use ralph_core::config::{Config, Defaults, Guard, bare_agent_name};
use ralph_core::ledger::decide::decide;
use ralph_core::ledger::event::{Event, Subject};
use ralph_core::ledger::facts::{DefinitionStatus, ExportFile, ExportSeen, Facts};
use ralph_core::ledger::line::{self as ledger_line, ChainHead};
use ralph_core::ledger::state::State;
use ralph_core::model::budget::Attempts;
use ralph_core::model::finding::Finding;
use ralph_core::model::gate::plan::{GatePlan, PlanProgress};
use ralph_core::model::id::AgentId;
use ralph_core::model::layout::{self, Layout};
use ralph_core::model::limits::Limits;
use ralph_core::model::money::Micros;
use ralph_core::model::preset::Check;
use ralph_core::model::promise_seen::PromiseSeen;
use ralph_core::model::result_format::ResultFormat;
use ralph_core::model::results::{Results, WholeRun};
use ralph_core::model::secrets::Secrets;
use ralph_core::model::{duration, foreign_text, preset};
use ralph_core::say::excerpt::excerpt;
use ralph_core::say::failures;
use ralph_core::say::feedback;
use serde_json::Value;

#[path = "reader_probes.rs"]
mod reader_probes;
pub use reader_probes::*;

pub type Probe = fn(&[u8]);

/// All probes by the name of their target.
pub const ALL: [(&str, Probe); 12] = [
    ("hook_payload", hook_payload),
    ("config", config),
    ("user_config", user_config),
    ("ledger", ledger),
    ("marker", marker),
    ("promise", promise),
    ("task_list", task_list),
    ("foreign_text", foreign_text_target),
    ("state_file", state_file),
    ("loop_file", loop_file),
    ("stream", stream),
    ("results", results_target),
];

/// Any input is parsed or rejected, and the answer is empty or one line with a JSON object.
pub fn hook_payload(bytes: &[u8]) {
    let Ok(call) = hook::parse(bytes) else { return };
    let text = call.last_message.clone();
    let user = Some(text.clone());
    let replies = [
        HookReply::Silent,
        HookReply::Notify { user: None, agent: Some(text.clone()) },
        HookReply::Notify { user: user.clone(), agent: None },
        HookReply::Notify { user, agent: Some(text.clone()) },
        HookReply::Answer { user: text.clone() },
        HookReply::Deny { reason: text.clone() },
        HookReply::Block { reason: text.clone(), detail: text.clone(), user: Some(text) },
    ];
    for reply in replies {
        let answer = hook::render(&reply, &call.event);
        let answer = match answer {
            RenderedReply { exit_code: 0, stdout, stderr } => {
                assert!(stderr.is_empty(), "stderr is not read");
                stdout
            }
            held => {
                let is_block = matches!(reply, HookReply::Block { .. });
                assert!(is_block && held.exit_code == 2 && held.stdout.is_empty() && !held.stderr.is_empty());
                continue;
            }
        };
        if answer.is_empty() {
            assert!(!matches!(reply, HookReply::Block { .. }));
            continue;
        }
        let value: Value = serde_json::from_slice(&answer).expect("one JSON value");
        assert_eq!(answer.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        let blocks = value["decision"] == "block";
        assert_eq!(blocks, matches!(reply, HookReply::Block { .. }), "only a block blocks");
        let context = &value["hookSpecificOutput"]["additionalContext"];
        assert!(context.as_str().unwrap_or_default().chars().count() <= hook::MOST_CONTEXT);
        assert!(blocks || context.is_null() || hook::reaches_agent(&call.event));
    }
    let name = bare_agent_name(call.agent_type.as_deref().unwrap_or_default());
    assert_eq!(Guard::default().guards_agent(name), name == "check");
}

/// Any text is a config or a problem with a position in it; a parsed config can be planned and run to completion.
pub fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for layout in Layout::ALL {
        let config = match Config::parse(&text, layout, &Defaults::default()) {
            Ok(config) => config,
            Err(problem) => {
                assert!(problem.line >= 1 && problem.column >= 1 && !problem.what.is_empty());
                assert!(!problem.hint.is_empty());
                continue;
            }
        };
        let plan = GatePlan::new(&config.gates).expect("checked when it was read");
        let mut progress = vec![PlanProgress::Waiting; config.gates.len()];
        while progress.contains(&PlanProgress::Waiting) {
            let ready = plan.ready(&progress, false);
            assert!(!ready.is_empty(), "a plan that never ends");
            for at in ready {
                progress[at] = PlanProgress::Passed;
            }
        }
        for (at, gate) in config.gates.iter().enumerate() {
            assert!(!gate.timeout.is_zero() && !gate.run.trim().is_empty());
            assert!(config.gates[..at].iter().all(|other| other.name != gate.name), "duplicate name");
            let _shown = (gate.definition(), duration::show(gate.timeout));
        }
        for agent in &config.agents {
            assert!(agent.max_iterations > 0 && agent.environment.is_empty());
            assert_eq!(list::find(&agent.name, &config.agents).as_ref(), Ok(agent));
            assert!(list::built_in().iter().all(|row| row.name != agent.name), "name of a built-in agent");
        }
        let _held = config.guard.guards_agent("plugin:check");
        assert_ne!(config.budget.attempts, Some(Attempts::AtMost(0)));
        assert_ne!(config.budget.errors, Some(0));
    }
    let _task = layout::normalise_task(&text);
}

pub fn user_config(bytes: &[u8]) {
    match UserFile::parse(&String::from_utf8_lossy(bytes)) {
        Ok(file) => {
            assert_ne!(file.budget.attempts, Some(Attempts::AtMost(0)));
            assert_ne!(file.budget.errors, Some(0));
            let _shown = file.gate_timeout.map(duration::show);
            for agent in &file.agents {
                assert!(agent.max_iterations > 0 && !agent.program.trim().is_empty());
                assert_eq!(list::find(&agent.name, &file.agents).as_ref(), Ok(agent));
                assert!(
                    agent.environment.iter().all(|(name, _)| !name.is_empty() && !name.contains(['=', '\0']))
                );
            }
            assert!(file.allow.iter().all(|rule| !rule.starts_with('-')));
        }
        Err(problem) => assert!(problem.line >= 1 && problem.column >= 1),
    }
}

/// A ledger of any bytes is read up to the first damage; the result can be continued.
pub fn ledger(bytes: &[u8]) {
    let (mut head, mut state) = (ChainHead::origin(), State::default());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Ok(text) = std::str::from_utf8(line) else { break };
        let alone = ledger_line::read_alone(text);
        let Ok(read) = ledger_line::read(&head, text) else { break };
        assert!(alone.is_ok_and(|(line, carries_on)| line == read && carries_on == head.hash));
        state.apply(read.at, &read.event);
        assert_eq!(read.seq, head.seq + 1);
        head = ChainHead { seq: read.seq, hash: read.hash };
    }
    let (text, next) = ledger_line::write(
        &head,
        Timestamp::UNIX_EPOCH,
        &Event::Waited { what: "next".into(), entries: Vec::new(), until: None },
    );
    let read = ledger_line::read(&head, &text).expect("our own line");
    assert_eq!((read.seq, read.hash), (next.seq, next.hash));
    // Any state can be judged.
    let facts = facts(ExportSeen::default());
    let _step = decide(&state, &facts);
}

/// A list of checks, a line of dashes, a message: a marker is missing unless the message states it.
pub fn marker(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (list, message) = text.split_once("\n---\n").unwrap_or((&text, &text));
    let expected = marker::expected(list);
    assert!(expected.iter().all(|name| name.ends_with("_FINISH") && !name.contains(char::is_whitespace)));
    let missing = marker::missing(&expected, message);
    assert!(missing.iter().all(|name| expected.contains(name)));
    for stated in expected.iter().filter(|name| !missing.contains(name)) {
        assert!(message.contains(stated.as_str()) || message.contains(marker::ALL_CHECKS));
    }
}

/// A promise, a line of dashes, a message: a message that gives the promise contains it, and a quote never gives it.
pub fn promise(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (asked, message) = text.split_once("\n---\n").unwrap_or(("DONE", &text));
    let quoted = quoted(message);
    assert_eq!(agent_report::read("x", &quoted), None);
    let _report = agent_report::read("x", message);
    let Some(promise) = Promise::new(asked) else { return };
    assert_eq!(promise::look(&promise, &promise.tag()), PromiseSeen::Given);
    assert_ne!(promise::look(&promise, &quoted), PromiseSeen::Given);
    match promise::look(&promise, message) {
        PromiseSeen::Given => {
            let words = message.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("<promise>") && words.contains(promise.as_str()));
        }
        PromiseSeen::NearMiss(miss) => {
            let told = promise::explain(&miss, &promise);
            assert_ne!(promise::look(&promise, &told), PromiseSeen::Given, "{told}");
        }
        PromiseSeen::Absent => {}
    }
}

/// Any text is a list: each task has its own line and phase, and there is a next one while one is open.
pub fn task_list(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let list = TaskList::parse(&text);
    assert_eq!(list.open().count(), list.total() - list.done());
    assert_eq!(list.next().is_some(), list.done() < list.total());
    assert_eq!(list.total() > list.done(), list.next().is_some());
    assert!(list.tasks.windows(2).all(|pair| pair[0].line < pair[1].line && pair[0].phase <= pair[1].phase));
    let lines = text.lines().count();
    for task in &list.tasks {
        assert!(task.line >= 1 && task.line <= lines);
        assert_eq!(task.phase.is_some(), list.phase_of(task).is_some());
    }
    assert_eq!(TaskList::parse(&quoted(&text)), TaskList::default());
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}\n")).collect()
}

/// Any output becomes text without escape sequences and secrets, within the requested length.
pub fn foreign_text_target(bytes: &[u8]) {
    const SECRET: &str = "s3cr3t/value+42";
    let secrets = Secrets::from_variables([("A_TOKEN", SECRET)]);
    let text = foreign_text::clean_for_agent(bytes, &secrets);
    assert!(text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()), "{text:?}");
    assert!(!text.contains(SECRET) && !text.contains("<promise>") && !text.contains("</system-reminder>"));
    assert_eq!(foreign_text::clean_for_agent(text.as_bytes(), &secrets), text, "clean twice is clean once");
    for limit in [1, 50, 500, 2000] {
        let part = excerpt(&text, limit);
        assert!(part.chars().count() <= limit, "{} > {limit}", part.chars().count());
    }
}

/// Another tool's state file is parsed or rejected; the result can be written, read again and continued.
pub fn state_file(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let zones =
        [TimeZone::UTC, TimeZone::fixed(jiff::tz::offset(14)), TimeZone::fixed(jiff::tz::offset(-12))];
    for zone in zones {
        let Some(exported) = Exported::parse(&text, &zone) else { continue };
        let again = Exported::parse(&exported.render(&zone), &zone);
        let again = again.unwrap_or_else(|| panic!("{exported:?} was written as {}", exported.render(&zone)));
        assert_eq!((&again.task, again.iteration), (&exported.task, exported.iteration));
        let facts = facts(ExportSeen { deletions: 0, file: ExportFile::Foreign(exported) });
        let first = decide(&State::default(), &facts);
        let mut state = State::default();
        for event in &first.events {
            state.apply(facts.now, event);
        }
        let step = decide(&state, &Facts { findings: Some(missing_marker()), ..facts.clone() });
        let _told = feedback::headline(&facts, &step.decision);
    }
}

/// The official plugin's loop file is parsed or rejected; the result round-trips.
pub fn loop_file(bytes: &[u8]) {
    let Some(found) = LoopFile::parse(&String::from_utf8_lossy(bytes)) else { return };
    let text = found.render();
    assert_eq!(LoopFile::parse(&text).as_ref(), Some(&found), "{text}");
    assert_ne!(found.completion_promise.as_deref(), Some(""));
}

/// Any output is parsed in every dialect, wherever it is split; the displayed text is short and has no escape sequences.
pub fn stream(bytes: &[u8]) {
    for dialect in Dialect::ALL {
        let (mut whole, mut events) = (list::stream_reader(dialect, Micros::ZERO), Vec::new());
        whole.feed(Channel::Output, bytes, &mut |event| events.push(event));
        let summary = whole.end(&mut |event| events.push(event));
        let size = 1 + bytes.first().map_or(0, |byte| usize::from(*byte) % 16);
        let mut pieces = list::stream_reader(dialect, Micros::ZERO);
        for piece in bytes.chunks(size) {
            pieces.feed(Channel::Output, piece, &mut |_| {});
        }
        assert_eq!(pieces.end(&mut |_| {}), summary);
        assert_eq!(summary.bytes, bytes.len() as u64);
        assert!(summary.session.as_ref().is_none_or(|id| is_session_id(id.as_str())));
        assert!(summary.last_words.chars().count() <= 2_000);
        let unknown = events.iter().filter(|event| **event == AgentEvent::Unknown).count();
        assert_eq!(summary.unknown, unknown as u64);
        for event in events {
            let text = match event {
                AgentEvent::Said { text } => text,
                AgentEvent::UsedTool { name, about } | AgentEvent::Denied { tool: name, about } => {
                    name + &about
                }
                AgentEvent::Retry { why, .. } | AgentEvent::LimitReached { why, .. } => why,
                AgentEvent::Result(result) => result.text,
                AgentEvent::Session { .. } | AgentEvent::Unknown => continue,
            };
            assert!(text.chars().count() <= 2_000 && !foreign_text::deceives(&text), "{text:?}");
        }
    }
}

fn missing_marker() -> Vec<Finding> {
    vec![Finding::Markers { missing: vec!["A_FINISH".into()] }]
}

fn facts(export: ExportSeen) -> Facts {
    let now = Timestamp::from_second(1_800_000_000).expect("a time");
    let mut limits = Limits::new(&preset::CHECK, Layout::Ideal.data().clocks);
    limits.stale_after.value = Some(Duration::from_secs(1800));
    let task = match &export.file {
        ExportFile::Foreign(found) => found.task.clone(),
        _ => None,
    };
    Facts {
        process: 42,
        rewritten: Vec::new(),
        failed_elsewhere: Vec::new(),
        is_second_look: false,
        gates_ran_now: true,
        at_start: Vec::new(),
        proof: None,
        answers: AgentAnswers::default(),
        arrived: now,
        now,
        subject: Subject::SubAgent { name: "check".into(), id: AgentId::new("a") },
        session: None,
        task,
        layout: Layout::Ideal,
        preset: &ralph_core::model::preset::CHECK,
        limits,
        definition: None,
        definition_status: DefinitionStatus::Accepted,
        checks: vec![Check::MarkersWithoutGates],
        export,
        head: None,
        session_stop: None,
        findings: None,
    }
}

/// Any output is parsed deterministically, in any format; the stored report is small, clean and survives JSON.
pub fn results_target(bytes: &[u8]) {
    let text = foreign_text::clean(bytes, &Secrets::default());
    for format in ResultFormat::ALL {
        let read = results::read_as(*format, &text);
        assert!(read.is_none_or(|read| read.formats == [*format]));
    }
    let read = results::read(&text);
    assert_eq!(read, results::read(&text));
    let Some(read) = read else { return };
    assert!(read.counts.failed >= read.failed_tests().count());
    let kept = read.kept(false, |text| foreign_text::clean_for_agent(text.as_bytes(), &Secrets::default()));
    assert!(kept.failures().len() <= 40);
    for failure in kept.failures() {
        let line = failures::line(&failure);
        assert!(!line.contains('\n') && !foreign_text::deceives(&line), "{line:?}");
        assert!(line.chars().count() < 1_500, "{line:?}");
    }
    let json = serde_json::to_string(&kept).expect("JSON");
    assert!(json.len() < 400_000, "{}", json.len());
    let back: Results = serde_json::from_str(&json).expect("the same");
    // The names of the whole run stay in memory.
    assert_eq!(back, Results { whole: WholeRun::default(), ..kept });
}
