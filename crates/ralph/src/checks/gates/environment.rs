//! The environment of gates: the user's own, without variables that an agent client set or that could turn a failing tool
//! into a passing one. Its digest is part of every receipt's key.

use std::ffi::{OsStr, OsString};

use ralph_core::model::id::Digest;
use ralph_core::model::secrets::Secrets;

use crate::clients::surroundings;
use crate::store::repo::Repo;
use crate::sys::env;

/// Removed by name: they make a tool skip, preload or wrap something.
const TAKEN_OUT: [&str; 21] = [
    // systemd sets a new one for each login or service; a gate gets its run's mark instead.
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

/// Removed by prefix, with those of agent clients: git's own variables, and everything named after ralph: code under test
/// must not detect that it is judged.
const TAKEN_OUT_BEGINNING: [&str; 2] = ["RALPH_", "GIT_"];

/// Differ between shells and affect no tool. Every other variable of a gate is part of its receipt's key, because the ways
/// to disable a tool cannot be listed.
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

/// Set for every gate: there is no terminal and no user to answer prompts.
const SET: [(&str, &str); 8] = [
    ("CI", "1"),
    // Clients set another value for tools than for hooks, and an agent may run the gates.
    ("SHELL", "/bin/sh"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
];

#[derive(Clone, Debug)]
pub(crate) struct GateEnvironment {
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) digest: Digest,
    pub(crate) secrets: Secrets,
}

impl GateEnvironment {
    pub(crate) fn new(keep: &[String], repo: &Repo) -> Self {
        let mut made = Self::from_variables(env::all().collect(), keep);
        // The canonical folder, not the path it was entered by: a shell trusts PWD.
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
            all.into_iter().filter(|(name, _)| kept(name) || !is_removed(name)).collect();
        let digest = digest(&variables);
        for (name, value) in SET {
            variables.retain(|(other, _)| other != name);
            variables.push((name.into(), value.into()));
        }
        Self { variables, digest, secrets }
    }
}

fn is_removed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    TAKEN_OUT.contains(&name)
        || TAKEN_OUT_BEGINNING.iter().any(|beginning| name.starts_with(beginning))
        || surroundings::is_of_an_agent(name)
}

fn is_neutral(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    SAYS_NOTHING.contains(&name) || SAYS_NOTHING_BEGINNING.iter().any(|beginning| name.starts_with(beginning))
}

fn digest(variables: &[(OsString, OsString)]) -> Digest {
    let mut relevant: Vec<[&[u8]; 2]> = variables
        .iter()
        .filter(|(name, _)| !is_neutral(name))
        .map(|(name, value)| [name.as_encoded_bytes(), value.as_encoded_bytes()])
        .collect();
    relevant.sort_unstable();
    Digest::of_parts(relevant.into_iter().flatten())
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
    fn api_keys_and_tool_variables_are_removed_unless_kept() {
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
    fn the_digest_covers_only_variables_that_affect_gates() {
        let plain = made(&[("PATH", "/bin"), ("SHLVL", "1")], &[]);
        assert_eq!(plain.digest, made(&[("SHLVL", "2"), ("PATH", "/bin"), ("CLAUDECODE", "1")], &[]).digest);
        assert_ne!(plain.digest, made(&[("PATH", "/evil:/bin")], &[]).digest);
        assert_ne!(plain.digest, made(&[("PATH", "/bin"), ("MAKEFILES", "/evil.mk")], &[]).digest);
        let keep = &["NODE_OPTIONS"];
        assert_ne!(made(&[("NODE_OPTIONS", "a")], keep).digest, made(&[("NODE_OPTIONS", "b")], keep).digest);
    }
}
