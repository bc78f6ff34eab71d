//! The environment that gates run in: the person's own, less what an agent client brought along and what could turn a
//! failing tool into a passing one. Its digest is part of every receipt's key.

use std::ffi::{OsStr, OsString};

use ralph_core::model::id::Digest;
use ralph_core::model::secrets::Secrets;

use crate::clients::surroundings;
use crate::store::repo::Repo;
use crate::sys::env;

/// Taken out by name: they make a tool skip, preload or wrap what it should do.
const TAKEN_OUT: [&str; 21] = [
    // Another one for each login or service where systemd sets it; a gate gets the mark of its run in its place.
    "INVOCATION_ID",
    "AI_AGENT",
    "BASH_ENV",
    "ENV",
    "LD_PRELOAD",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "NODE_OPTIONS",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "MFLAGS",
    "PERL5OPT",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
];

/// Taken out by their beginning, with those of agent clients: git's own steering, and everything that names ralph: code under
/// test must not learn that it is judged.
const TAKEN_OUT_BEGINNING: [&str; 2] = ["RALPH_", "GIT_"];

/// Differ from shell to shell and steer no tool. Every other variable that a gate gets is part of its receipt's key: there
/// is no end to the names by which a tool can be told to look away.
const SAYS_NOTHING: [&str; 14] = [
    "SHELL",
    "SHLVL",
    "_",
    "PWD",
    "OLDPWD",
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "WINDOWID",
    "LS_COLORS",
    "HISTFILE",
    "TTY",
    "INSIDE_EMACS",
];

const SAYS_NOTHING_BEGINNING: [&str; 8] =
    ["TERM_", "SSH_", "TMUX", "XDG_SESSION", "XDG_RUNTIME", "DBUS_", "VSCODE_", "ITERM_"];

/// Set for every gate: nobody is there to answer, and nothing is a terminal.
const SET: [(&str, &str); 8] = [
    ("CI", "1"),
    // An agent's tools are given another than its hooks, and a gate may be run by it.
    ("SHELL", "/bin/sh"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
];

#[derive(Debug)]
pub(crate) struct GateEnvironment {
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) digest: Digest,
    pub(crate) secrets: Secrets,
}

impl GateEnvironment {
    pub(crate) fn new(keep: &[String], repo: &Repo) -> Self {
        let mut made = Self::from_variables(env::all().collect(), keep);
        // The folder as it is called, not as somebody came there: a shell believes what it is told here.
        made.variables.retain(|(name, _)| name != "PWD" && name != "OLDPWD");
        made.variables.push(("PWD".into(), repo.root.clone().into()));
        made
    }

    fn from_variables(all: Vec<(OsString, OsString)>, keep: &[String]) -> Self {
        let texts: Vec<_> =
            all.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?))).collect();
        let secrets = Secrets::from_variables(texts);
        let kept = |name: &OsStr| keep.iter().any(|keep| name == keep.as_str());
        let mut variables: Vec<_> =
            all.into_iter().filter(|(name, _)| kept(name) || !taken_out(name)).collect();
        let digest = digest(&variables);
        for (name, value) in SET {
            variables.retain(|(other, _)| other != name);
            variables.push((name.into(), value.into()));
        }
        Self { variables, digest, secrets }
    }
}

fn taken_out(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    TAKEN_OUT.contains(&name)
        || TAKEN_OUT_BEGINNING.iter().any(|beginning| name.starts_with(beginning))
        || surroundings::is_of_an_agent(name)
}

fn says_nothing(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    SAYS_NOTHING.contains(&name) || SAYS_NOTHING_BEGINNING.iter().any(|beginning| name.starts_with(beginning))
}

fn digest(variables: &[(OsString, OsString)]) -> Digest {
    let mut steering: Vec<[&[u8]; 2]> = variables
        .iter()
        .filter(|(name, _)| !says_nothing(name))
        .map(|(name, value)| [name.as_encoded_bytes(), value.as_encoded_bytes()])
        .collect();
    steering.sort_unstable();
    Digest::of_parts(steering.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pairs: &[(&str, &str)], keep: &[&str]) -> GateEnvironment {
        let all = pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let keep: Vec<String> = keep.iter().map(ToString::to_string).collect();
        GateEnvironment::from_variables(all, &keep)
    }

    fn has(environment: &GateEnvironment, name: &str) -> bool {
        environment.variables.iter().any(|(other, _)| other == name)
    }

    #[test]
    fn keys_of_models_and_levers_of_tools_are_taken_out_unless_kept() {
        let pairs = [
            ("ANTHROPIC_API_KEY", "k"),
            ("NODE_OPTIONS", "--x"),
            ("GIT_DIR", "/x"),
            ("HOME", "/h"),
            ("CLAUDECODE", "1"),
            ("RALPH_HOME", "/r"),
            ("INVOCATION_ID", "0123456789abcdef0123456789abcdef"),
        ];
        let environment = made(&pairs, &[]);
        for name in
            ["ANTHROPIC_API_KEY", "NODE_OPTIONS", "GIT_DIR", "CLAUDECODE", "RALPH_HOME", "INVOCATION_ID"]
        {
            assert!(!has(&environment, name), "{name}");
        }
        assert!(has(&environment, "HOME") && has(&environment, "CI"));
        assert!(has(&made(&pairs, &["NODE_OPTIONS"]), "NODE_OPTIONS"));
    }

    #[test]
    fn the_digest_follows_what_steers_a_gate_and_nothing_else() {
        let plain = made(&[("PATH", "/bin"), ("SHLVL", "1")], &[]);
        assert_eq!(plain.digest, made(&[("SHLVL", "2"), ("PATH", "/bin"), ("CLAUDECODE", "1")], &[]).digest);
        assert_ne!(plain.digest, made(&[("PATH", "/evil:/bin")], &[]).digest);
        assert_ne!(plain.digest, made(&[("PATH", "/bin"), ("MAKEFILES", "/evil.mk")], &[]).digest);
        let keep = &["NODE_OPTIONS"];
        assert_ne!(made(&[("NODE_OPTIONS", "a")], keep).digest, made(&[("NODE_OPTIONS", "b")], keep).digest);
    }
}
