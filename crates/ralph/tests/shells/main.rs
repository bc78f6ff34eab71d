//! Completions in the real shells: bash and zsh on a terminal, with the script that `ralph completions` prints.

#![expect(clippy::disallowed_methods, reason = "a test has an environment of its own to look at")]

use std::path::Path;
use std::process::Command;

use ralph_testkit::{OnTerminal, Pty, Sandbox, wait_until};

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// A repo with two gates and one loop, whose short id is returned.
fn scene() -> (Sandbox, String) {
    let sandbox = Sandbox::gated(
        "verify:\n  - name: unit-tests\n    run: test -e done\n  - name: lint-all\n    run: 'true'\n",
    );
    sandbox
        .ralph(&["loop", "fix the login", "--quiet", "--agent", "command:true", "--max-iterations", "1"])
        .exits(1);
    let list = sandbox.ralph(&["ls", "--json"]).success().json();
    let short = list[0]["short"].as_str().expect("a short id").to_owned();
    (sandbox, short)
}

/// A shell in the project, with ralph in its PATH and the completions loaded.
fn shell(sandbox: &Sandbox, name: &str, arguments: &[&str]) -> OnTerminal {
    let script = sandbox.ralph(&["completions", name]).success().stdout;
    std::fs::write(sandbox.home().join("completions"), script).expect("a file");
    let mut command = Command::new(name);
    command.args(arguments).current_dir(sandbox.project());
    let folder = Path::new(RALPH).parent().expect("a folder").to_str().expect("a readable path");
    command.env("PATH", format!("{folder}:/usr/local/bin:/usr/bin:/bin"));
    command.env("HOME", sandbox.home()).env("TERM", "xterm").env("PS1", "READY> ");
    Pty::open().size(120, 40).start(&command)
}

/// Types a line with TAB in it until the shell shows this, then clears the line.
#[track_caller]
fn completes(shell: &mut OnTerminal, typed: &str, expected: &str) {
    let before = shell.screen().len();
    shell.types(typed);
    shell.types("\t\t");
    wait_until(&format!("`{typed}` completes to `{expected}`"), || {
        shell.screen().get(before..).is_some_and(|new| new.contains(expected))
    });
    shell.types("\u{15}");
}

fn offers_gates_agents_and_loops(mut shell: OnTerminal, short: &str, setup: &str) {
    shell.types(setup);
    wait_until("the shell is ready", || shell.screen().contains("LOADED"));
    completes(&mut shell, "ralph verify uni", "unit-tests");
    completes(&mut shell, "ralph verify ", "lint-all");
    completes(&mut shell, "ralph loop --agent cod", "codex");
    completes(&mut shell, &format!("ralph show {}", &short[..3]), short);
    completes(&mut shell, "ralph res", "resume");
    shell.types("exit\n");
    shell.finish();
}

#[test]
fn bash_offers_gates_agents_and_loops() {
    let (sandbox, short) = scene();
    let shell = shell(&sandbox, "bash", &["--norc", "--noprofile", "-i"]);
    offers_gates_agents_and_loops(shell, &short, "source ~/completions && echo LOA''DED\n");
}

#[test]
fn zsh_offers_gates_agents_and_loops() {
    let (sandbox, short) = scene();
    let shell = shell(&sandbox, "zsh", &["-f", "-i"]);
    let setup = "autoload -Uz compinit && compinit -u -D && source ~/completions && echo LOA''DED\n";
    offers_gates_agents_and_loops(shell, &short, setup);
}
