use std::path::{Path, PathBuf};

use super::*;
use crate::clients::profile::{Argument, CommandLine, Context, PromptBy, RunOptions, Value, command_line};
use crate::model::id::SessionId;

const PROMPT: &str = "/home/user/.ralph/prompt 3.md";
const SENTENCE: &str = "Read the file /home/user/.ralph/prompt 3.md and do what it says.";
const SESSION: &str = "00000000-0000-4000-8000-000000000001";

fn gates() -> Vec<Gate> {
    vec![Gate::sample("test", "cargo test")]
}

fn profile(name: &str) -> Profile {
    find(name, &[]).expect(name)
}

/// A first run without options, and a later one with all of them.
fn both(profile: &Profile) -> (CommandLine, CommandLine) {
    let (gates, allow) = (gates(), ["WebFetch".to_owned()]);
    let plain = RunOptions {
        prompt_file: Path::new(PROMPT),
        allowed: allowed_tools(&gates, &[]),
        context: Context::Fresh,
        budget_left: None,
        model: None,
    };
    let full = RunOptions {
        allowed: allowed_tools(&gates, &allow),
        context: Context::Continue(SessionId::new(SESSION)),
        budget_left: Some(Micros::new(2_500_000)),
        model: Some("a-model"),
        ..plain.clone()
    };
    (command_line(profile, &plain), command_line(profile, &full))
}

/// Name, program, arguments of the first and the full run, and whether the prompt is on stdin.
type Call = (&'static str, &'static str, &'static [&'static str], &'static [&'static str], bool);

#[test]
fn every_client_is_called_as_recorded_in_real_runs() {
    const CLAUDE: [&str; 6] =
        ["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"];
    let table: [Call; 8] = [
        (
            "claude",
            "claude",
            &["--allowedTools", "Bash(cargo test:*)"],
            &[
                "--resume",
                SESSION,
                "--model",
                "a-model",
                "--max-budget-usd",
                "2.5",
                "--allowedTools",
                "Bash(cargo test:*)",
                "WebFetch",
            ],
            true,
        ),
        (
            "codex",
            "codex",
            &["exec", "--json", "--skip-git-repo-check", "-s", "workspace-write", "-"],
            &[
                "exec",
                "--json",
                "--skip-git-repo-check",
                "-s",
                "workspace-write",
                "-m",
                "a-model",
                "resume",
                SESSION,
                "-",
            ],
            true,
        ),
        (
            "gemini",
            "gemini",
            &["-o", "stream-json", "-y", "--skip-trust"],
            &["-o", "stream-json", "-y", "--skip-trust", "-m", "a-model", "--resume", SESSION],
            true,
        ),
        (
            "copilot",
            "copilot",
            &["--output-format", "json", "--allow-all", "--no-ask-user"],
            &[
                "--output-format",
                "json",
                "--allow-all",
                "--no-ask-user",
                "--model",
                "a-model",
                "--resume=00000000-0000-4000-8000-000000000001",
            ],
            true,
        ),
        (
            "opencode",
            "opencode",
            &["run", "--format", "json", "--auto"],
            &["run", "--format", "json", "--auto", "-m", "a-model", "-s", SESSION],
            true,
        ),
        ("amp", "amp", &["--stream-json", "-x", SENTENCE], &["--stream-json", "-x", SENTENCE], false),
        (
            "command:./agent.sh --x 'a b'",
            "sh",
            &["-c", "./agent.sh --x 'a b'"],
            &["-c", "./agent.sh --x 'a b'"],
            true,
        ),
        ("command:  cat | agent", "sh", &["-c", "cat | agent"], &["-c", "cat | agent"], true),
    ];
    for (name, program, plain, full, on_stdin) in table {
        let profile = profile(name);
        let before: &[&str] = if name == "claude" { &CLAUDE } else { &[] };
        for (line, expected) in [(both(&profile).0, plain), (both(&profile).1, full)] {
            assert_eq!(line.program, program);
            assert_eq!(line.arguments, [before, expected].concat(), "{name}");
            assert_eq!(line.stdin, on_stdin.then(|| PathBuf::from(PROMPT)), "{name}");
            assert_eq!(line.environment, [], "{name}");
        }
    }
}

#[test]
fn other_services_get_only_their_own_key() {
    for (name, address, key, model) in [
        ("glm5", "https://api.z.ai/api/anthropic", "ZAI_API_KEY", "glm-5"),
        ("minimax", "https://api.minimax.io/anthropic", "MINIMAX_API_KEY", "MiniMax-M2.1"),
    ] {
        let profile = profile(name);
        assert_eq!(both(&profile).0.arguments, both(&self::profile("claude")).0.arguments);
        assert_eq!((profile.max_iterations, profile.program.as_str()), (30, "claude"));
        assert!(profile.note.as_deref().is_some_and(|note| note.contains("not tested against the service")));
        assert_eq!(profile.needs().collect::<Vec<_>>(), [key]);
        let value = |name: &str| {
            let row = profile.environment.iter().find(|(variable, _)| variable == name);
            row.unwrap_or_else(|| panic!("{name}")).1.clone()
        };
        assert_eq!(value("ANTHROPIC_BASE_URL"), Value::Literal(address.into()));
        assert_eq!(value("ANTHROPIC_AUTH_TOKEN"), Value::From(key.into()));
        assert_eq!(value("ANTHROPIC_DEFAULT_OPUS_MODEL"), Value::Literal(model.into()));
        assert_eq!(value("ANTHROPIC_API_KEY"), Value::Unset);
        assert_eq!(value("CLAUDE_CODE_OAUTH_TOKEN"), Value::Unset);
    }
}

#[test]
fn every_profile_is_complete_and_unique() {
    let rows = built_in();
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["claude", "glm5", "minimax", "codex", "gemini", "copilot", "opencode", "amp"]);
    for row in &rows {
        assert!(
            row.max_iterations >= 15 && !row.how_to_get.is_empty() && !row.may.is_empty(),
            "{}",
            row.name
        );
        let has_prompt = row.arguments.contains(&Argument::Prompt);
        assert_eq!(has_prompt, row.prompt == PromptBy::NamedFile, "{}", row.name);
        // A value and its flag must occur together.
        for (place, has_flag) in [
            (Argument::Session, row.resume.is_some()),
            (Argument::Model, row.model_flag.is_some()),
            (Argument::Budget, row.cost_flag.is_some()),
        ] {
            assert_eq!(row.arguments.contains(&place), has_flag, "{} {place:?}", row.name);
        }
        let text = serde_json::to_string(row).expect("plain data");
        assert_eq!(&serde_json::from_str::<Profile>(&text).expect("our own words"), row);
    }
}

#[test]
fn an_agent_is_found_by_name_and_the_users_own_comes_first() {
    let mine = Profile::of_command("claude", "./mine", ["--headless".to_owned()], Dialect::Codex, Some(4));
    let own = [mine.clone(), Profile::of_command("mine", "./x", [], Dialect::Plain, None)];
    assert_eq!(find("claude", &own), Ok(mine));
    assert_eq!(find("mine", &own).map(|profile| profile.max_iterations), Ok(15));
    let hint = |name: &str| find(name, &own).expect_err(name).hint;
    assert_eq!(hint("clade"), "did you mean `claude`?");
    assert!(hint("nothing-like-it").contains("mine, claude, glm5"), "{}", hint("nothing-like-it"));
    assert!(hint("command: ").contains("command:./agent.sh"));
}

#[test]
fn an_invalid_session_id_never_reaches_the_command_line() {
    for id in ["--dangerously-skip-permissions", "-x", "", "a b", "../x"] {
        let gates = gates();
        let wish = RunOptions {
            prompt_file: Path::new(PROMPT),
            allowed: allowed_tools(&gates, &[]),
            context: Context::Continue(SessionId::new(id)),
            budget_left: None,
            model: None,
        };
        let line = command_line(&profile("claude"), &wish);
        assert_eq!(line, both(&profile("claude")).0, "{id}");
    }
}

#[test]
fn a_profiles_model_is_the_default() {
    let profile = Profile { model: Some("its-own".into()), ..profile("codex") };
    let (plain, full) = both(&profile);
    let model = |line: &CommandLine| {
        let flags = line.arguments.windows(2).filter(|pair| pair[0] == "-m");
        flags.map(|pair| pair[1].clone()).collect::<Vec<_>>()
    };
    assert_eq!((model(&plain), model(&full)), (vec!["its-own".to_owned()], vec!["a-model".to_owned()]));
}
