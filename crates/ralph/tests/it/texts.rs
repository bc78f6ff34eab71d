//! Every text that people and agents read, as snapshots: a change of words is reviewed in `snapshots/`, not typed again.
//! `just bless` writes them anew.

use ralph_testkit::{Finished, Sandbox, Session};

/// Compares with the snapshot of this name, with what differs from run to run replaced.
fn check(name: &str, sandbox: &Sandbox, text: &str) {
    let text = text
        .replace(&sandbox.ralph_home().to_string_lossy().into_owned(), "[RALPH_HOME]")
        .replace(&sandbox.project().to_string_lossy().into_owned(), "[REPO]")
        .replace(&sandbox.home().to_string_lossy().into_owned(), "[HOME]");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (pattern, replacement) in [
        (r"\b[0-9a-f]{64}\b", "[SHA256]"),
        (r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?Z?", "[TIME]"),
        (r"\b\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}Z", "[TIME]"),
        (r"\b\d{2}-\d{2} \d{2}:\d{2}:\d{2}\b", "[TIME]"),
        (r"\b\d{4}-\d{2}-\d{2} \d{2}:\d{2}\b", "[TIME]"),
        (r"\b\d{8}T\d{6}\.\d{3}-\d+-", "[RUN]-"),
        (r"tree [0-9a-f]{12}\b", "tree [HASH]"),
        (r"-[0-9a-f]{12}\b", "-[ID]"),
        // Short ids have no vowels.
        (r"(?m)^[bcdfghjkmnpqrstvwxz][2-9bcdfghjkmnpqrstvwxz]{3}( |:|$)", "[ID]$1"),
        (
            r"`ralph (log|resume|diff|pause|cancel|show) [bcdfghjkmnpqrstvwxz][2-9bcdfghjkmnpqrstvwxz]{3}\b",
            "`ralph $1 [ID]",
        ),
        (r"\b[0-9a-f]{12}\b", "[HASH]"),
        (r" +\d+(\.\d+)?(ms|s)\b", " [DURATION]"),
        (r"\b\d+(\.\d+)?(ms|s)\b", "[DURATION]"),
        (r"\d+ seconds? ago|just now", "[AGO]"),
        (r"process \d+", "process [PID]"),
        (r"[^ `'\x22]*/debug/ralph\b", "[RALPH]"),
        (r"[^ `'\x22]*/release/ralph\b", "[RALPH]"),
    ] {
        settings.add_filter(pattern, replacement);
    }
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// What a command printed, both streams and the exit code.
fn printed(ran: &Finished) -> String {
    let code = ran.code.map_or("a signal".to_owned(), |code| code.to_string());
    let stream = |name: &str, text: &str| match text {
        "" => String::new(),
        text => format!("--- {name}\n{}\n", text.trim_end()),
    };
    format!("exit code {code}\n{}{}", stream("stdout", &ran.stdout), stream("stderr", &ran.stderr))
}

/// Runs each command and keeps all that they print in one snapshot.
fn commands(name: &str, sandbox: &Sandbox, all: &[&[&str]]) {
    let texts = all.iter().map(|words| {
        let ran = sandbox.ralph(words);
        format!("$ ralph {}\n{}", words.join(" "), printed(&ran))
    });
    check(name, sandbox, &texts.collect::<Vec<_>>().join("\n"));
}

#[test]
fn help() {
    let sandbox = Sandbox::new();
    commands("help", &sandbox, &[&["--help"]]);
    let subcommands = "init verify prove ls show status log loop report diff start state pause resume cancel reset trust doctor \
                       completions man schema hook";
    for command in subcommands.split_whitespace() {
        commands(&format!("help_{command}"), &sandbox, &[&[command, "--help"]]);
    }
}

#[test]
fn errors() {
    commands("errors_outside_a_repo", &Sandbox::without_git(), &[&["status"], &["verify"], &["loop", "x"]]);
    let sandbox = Sandbox::new();
    commands(
        "errors_without_gates",
        &sandbox,
        &[
            &["verify"],
            &["loop", "do it"],
            &["resume"],
            &["cancel"],
            &["pause"],
            &["diff"],
            &["report"],
            &["log"],
        ],
    );
    sandbox.file("ralph.yaml", "verify:\n  - run: npm test\n    timeot: 5m\n");
    commands(
        "errors_broken_config",
        &sandbox,
        &[&["verify"], &["status"], &["trust", "--show"], &["doctor"]],
    );
    sandbox.file("ralph.yaml", "verify: ['true']\n");
    commands(
        "errors_untrusted",
        &sandbox,
        &[&["verify"], &["loop", "do it"], &["status"], &["trust", "--hash", "0123"]],
    );
    sandbox.trust();
    commands(
        "errors_wrong_use",
        &sandbox,
        &[
            &["verify", "nothing"],
            &["loop"],
            &["loop", "do it", "--agent", "nothing"],
            &["loop", "do it", "--max-time", "soon"],
            &["loop", "do it", "--tasks", "missing.md"],
            &["start", "do it", "--tasks", "missing.md"],
            &["reset", "nothing"],
            &["log", "nothing"],
            &["diff", "3"],
            &["schema", "nothing"],
            &["nothing"],
        ],
    );
}

#[test]
fn an_agent_shell_is_refused() {
    let sandbox = Sandbox::gated("verify: ['false']\n");
    Session::looping(&sandbox, "\"Fix the login\" --completion-promise DONE");
    let refused = ["pause", "cancel", "trust", "resume"].map(|command| {
        let ran = sandbox.in_agents_shell(&["ralph", command]);
        format!("$ ralph {command}\n{}", printed(&ran))
    });
    check("errors_in_an_agents_shell", &sandbox, &refused.join("\n"));
}

#[test]
fn trust_init_and_doctor() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "ralph.yaml",
        "verify:\n  - cargo test\n  - {run: cargo clippy, advisory: true, timeout: 5m}\n",
    );
    commands("trust_show", &sandbox, &[&["trust", "--show"]]);
    sandbox.trust();
    sandbox.file("ralph.yaml", "verify:\n  - cargo test --all\n");
    commands(
        "trust_changed",
        &sandbox,
        &[&["trust", "--show"], &["status"], &["verify"], &["trust", "--revoke"], &["status"]],
    );
    let sandbox = Sandbox::new();
    sandbox.file("Makefile", "test:\n\ttrue\n");
    commands("init_dry_run", &sandbox, &[&["init", "--dry-run"]]);
    commands("doctor_before_init", &sandbox, &[&["doctor"]]);
}

/// Four failing stops, the one at the limit, a pass, and what is shown of them afterwards.
#[test]
fn a_blocked_agent_from_the_first_attempt_to_the_last() {
    let sandbox = Sandbox::gated("verify:\n  - {name: test, run: 'cat out.txt; test -e done.txt'}\n");
    sandbox.file("out.txt", "running 1 test\nsrc/login.rs:12: assertion failed: left == right\n");
    let mut texts = Vec::new();
    for attempt in 1..=5 {
        sandbox.file("src/lib.rs", &format!("// attempt {attempt}\n"));
        texts.push(format!("stop {attempt}:\n{}", sandbox.stop("check").answer().ran.stdout));
    }
    check("blocked_agent", &sandbox, &texts.join("\n"));
    commands("after_a_release", &sandbox, &[&["status"], &["log"], &["verify"]]);
    sandbox.file("done.txt", "");
    let passed = sandbox.stop("check").agent("another").answer().ran.stdout;
    check("passed_agent", &sandbox, &passed);
    commands("after_a_pass", &sandbox, &[&["verify"], &["verify", "--fresh"]]);
}

/// A session loop as its user sees it, in each language.
#[test]
fn a_session_loop_in_four_languages() {
    for language in ["en", "es", "zh-CN", "zh-TW"] {
        let mut sandbox = Sandbox::gated("verify: [test -e done.txt]\n");
        sandbox.set("RALPH_LANG", language);
        let session =
            Session::looping(&sandbox, "\"Fix the login\" --completion-promise DONE --max-iterations 3");
        let mut texts = Vec::new();
        let mut add = |what: &str, answer: ralph_testkit::HookAnswer| {
            texts.push(format!("{what}:\n{}", answer.ran.stdout.trim()));
        };
        session.agent_works_with("Edit");
        add("blocked", session.stops("<promise>DONE</promise>"));
        add("paused", session.user_says(if language == "zh-TW" { "暫停" } else { "pause" }));
        add("resumed", session.user_says(if language == "zh-TW" { "繼續" } else { "continue" }));
        session.agent_works_with("Edit");
        sandbox.file("done.txt", "");
        add("verified", session.stops("<promise>DONE</promise>"));
        check(&format!("session_loop_{language}"), &sandbox, &texts.join("\n\n"));
        commands(&format!("after_a_session_loop_{language}"), &sandbox, &[&["status"], &["report"]]);
    }
}
