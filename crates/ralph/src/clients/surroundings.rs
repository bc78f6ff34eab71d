//! The environment we run in: an agent's shell, its session, and which variables came from a client.

use std::ffi::OsStr;

use ralph_core::model::id::SessionId;

use crate::clients::list;
use crate::sys::env;

/// An agent without hook support, and how its shells are recognised.
struct OtherAgent {
    name: &'static str,
    shell_marks: &'static [&'static str],
    prefixes: &'static [&'static str],
}

const OTHER_AGENTS: [OtherAgent; 4] = [
    OtherAgent {
        name: "codex",
        shell_marks: &["CODEX_THREAD_ID", "CODEX_SANDBOX"],
        prefixes: &["CODEX_", "OPENAI_"],
    },
    OtherAgent { name: "gemini", shell_marks: &["GEMINI_CLI"], prefixes: &["GEMINI_", "GOOGLE_GEMINI"] },
    OtherAgent { name: "copilot", shell_marks: &["COPILOT_CLI"], prefixes: &["COPILOT_"] },
    OtherAgent { name: "opencode", shell_marks: &[], prefixes: &["OPENCODE_"] },
];

/// The agent whose shell we run in, according to the environment. `ancestry` also checks the processes.
pub(crate) fn agent_shell() -> Option<&'static str> {
    if env::is_set(env::LOOP) {
        return Some("run by `ralph loop`");
    }
    let clients = list::all().iter().map(|client| (client.name, client.variables.shell_marks));
    let others = OTHER_AGENTS.iter().map(|agent| (agent.name, agent.shell_marks));
    let is_here = |marks: &[&str]| marks.iter().any(|mark| env::is_set(mark));
    clients.chain(others).find(|(_, marks)| is_here(marks)).map(|(name, _)| name)
}

/// The session of the agent whose shell we run in.
pub(crate) fn agent_session() -> Option<SessionId> {
    let variables = list::all().iter().filter_map(|client| client.variables.session);
    variables.into_iter().find_map(env::text).map(SessionId::new)
}

/// The process of the client whose shell we run in, from its own variable.
pub(crate) fn client_process() -> Option<i32> {
    list::all().iter().find_map(|client| client.process())
}

/// Variables that a client sets inside a session; removed for an agent that ralph runs.
pub(crate) fn is_mark_of_a_session(variable: &OsStr) -> bool {
    list::all().iter().any(|client| client.marks_session(variable))
}

/// Whether this variable belongs to an agent client, its model or its keys.
pub(crate) fn is_of_an_agent(variable: &str) -> bool {
    let clients = list::all().iter().map(|client| client.variables.prefixes);
    let mut prefixes = clients.chain(OTHER_AGENTS.iter().map(|agent| agent.prefixes));
    prefixes.any(|prefixes| prefixes.iter().any(|prefix| variable.starts_with(prefix)))
}
