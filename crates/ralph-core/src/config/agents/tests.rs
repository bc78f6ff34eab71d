//! Tables of agent entries, their meaning and their error messages.

use proptest::prelude::*;

use crate::clients::list::{built_in, find};
use crate::clients::profile::{Argument, Profile, PromptBy, Value};
use crate::clients::stream::dialect::Dialect;
use crate::config::user::UserFile;
use crate::config::{Config, Defaults};
use crate::model::config_problem::ConfigProblem;
use crate::model::layout::Layout;

fn in_repo(text: &str) -> Result<Vec<Profile>, ConfigProblem> {
    Config::parse(text, Layout::Native, &Defaults::default()).map(|config| config.agents)
}

fn of_user(text: &str) -> Result<Vec<Profile>, ConfigProblem> {
    UserFile::parse(text).map(|file| file.agents)
}

fn row(name: &str) -> Profile {
    find(name, &[]).expect(name)
}

fn literals(words: &[&str]) -> Vec<Argument> {
    words.iter().map(|word| Argument::Literal((*word).to_owned())).collect()
}

fn set_to(profile: &Profile, variable: &str) -> Vec<Value> {
    let rows = profile.environment.iter().filter(|(name, _)| name == variable);
    rows.map(|(_, value)| value.clone()).collect()
}

#[test]
fn a_command_is_an_agent_in_both_files() {
    let text = "agents:\n  mine:\n    command: [\"./agent.sh\", \"--headless\", 3, true]\n    dialect: codex\n    \
                max_iterations: 4\n  other:\n    command: ./agent.sh | tee log\n";
    for agents in [in_repo(text), of_user(text)] {
        let agents = agents.expect("valid");
        let [mine, other] = agents.as_slice() else { panic!("{agents:?}") };
        assert_eq!((mine.name.as_str(), mine.program.as_str()), ("mine", "./agent.sh"));
        assert_eq!(mine.arguments, literals(&["--headless", "3", "true"]));
        assert_eq!((mine.dialect, mine.max_iterations, mine.prompt), (Dialect::Codex, 4, PromptBy::Stdin));
        assert_eq!(
            (other.program.as_str(), &other.arguments),
            ("sh", &literals(&["-c", "./agent.sh | tee log"]))
        );
        assert_eq!((other.dialect, other.max_iterations), (Dialect::Plain, 15));
        assert_eq!(find("mine", &agents).as_ref(), Ok(mine));
    }
    for text in ["agents:\n", "agents: {}\n", ""] {
        assert_eq!((in_repo(text), of_user(text)), (Ok(Vec::new()), Ok(Vec::new())), "{text}");
    }
}

#[test]
fn every_dialect_can_be_named() {
    for dialect in Dialect::ALL {
        let text = format!("agents: {{a: {{command: x, dialect: {}}}}}\n", dialect.name());
        assert_eq!(in_repo(&text).expect(&text)[0].dialect, dialect);
        assert_eq!(serde_json::to_value(dialect).expect("JSON"), dialect.name());
    }
}

#[test]
fn a_user_overrides_fields_of_a_built_in_agent() {
    let text = "agents:\n  glm5:\n    max_iterations: 7\n    model: glm-6\n    environment:\n      \
                ANTHROPIC_BASE_URL: https://example.test/anthropic\n      ANTHROPIC_AUTH_TOKEN: {from: MY_KEY}\n      \
                ANTHROPIC_DEFAULT_HAIKU_MODEL:\n      EXTRA: \"5\"\n";
    let agents = of_user(text).expect("valid");
    let (glm5, before) = (find("glm5", &agents).expect("there"), row("glm5"));
    assert_eq!((glm5.max_iterations, glm5.model.as_deref()), (7, Some("glm-6")));
    assert_eq!(glm5.needs().collect::<Vec<_>>(), ["MY_KEY"]);
    let table = [
        ("ANTHROPIC_BASE_URL", Value::Literal("https://example.test/anthropic".into())),
        ("ANTHROPIC_AUTH_TOKEN", Value::From("MY_KEY".into())),
        ("ANTHROPIC_DEFAULT_HAIKU_MODEL", Value::Unset),
        ("EXTRA", Value::Literal("5".into())),
        // The rest of the profile still applies: the user's own key goes to no other service.
        ("ANTHROPIC_API_KEY", Value::Unset),
    ];
    for (variable, value) in table {
        assert_eq!(set_to(&glm5, variable), [value], "{variable}");
    }
    let same = Profile {
        max_iterations: before.max_iterations,
        model: None,
        environment: before.environment.clone(),
        ..glm5
    };
    assert_eq!(same, before);
}

#[test]
fn a_base_supplies_defaults_and_a_command_replaces_the_program() {
    let text = "agents:\n  boxed:\n    base: claude\n    command: [docker, run, -i, box, claude]\n  \
                named: {base: codex}\n";
    let agents = of_user(text).expect("valid");
    let (boxed, claude) = (find("boxed", &agents).expect("there"), row("claude"));
    assert_eq!(boxed.program, "docker");
    assert_eq!(
        boxed.arguments,
        [literals(&["run", "-i", "box", "claude"]), claude.arguments.clone()].concat()
    );
    assert_eq!((boxed.dialect, boxed.resume), (claude.dialect, claude.resume));
    assert_eq!(find("named", &agents), Ok(Profile { name: "named".into(), ..row("codex") }));
    // A command alone is the whole agent, under any name.
    let own = of_user("agents: {claude: {command: [./mine]}}\n").expect("valid");
    let whole = Profile::of_command("claude", "./mine", [], Dialect::Plain, None);
    assert_eq!(find("claude", &own), Ok(whole));
}

#[test]
fn a_repo_cannot_set_user_only_keys() {
    const THEIRS: &str = "your own `~/.config/ralph/config.yaml`";
    let agent = |rest: &str| format!("agents:\n  mine:\n    command: [x]\n    {rest}\n");
    let table = [
        (agent("environment: {A: b}"), 4, "unknown key `environment`", THEIRS),
        (agent("base: claude"), 4, "unknown key `base`", THEIRS),
        (agent("model: x"), 4, "unknown key `model`", THEIRS),
        ("verify: [a]\nallow: [WebFetch]\n".into(), 2, "unknown key `allow`", THEIRS),
        ("keep_env: [A]\n".into(), 1, "unknown key `keep_env`", THEIRS),
        // The same key elsewhere is only a typo.
        ("verify: [{run: a, model: x}]\n".into(), 1, "unknown key `model`", "there are"),
    ];
    for (text, line, what, hint) in table {
        let problem = in_repo(&text).expect_err(&text);
        assert_eq!(problem.line, line, "{text}: {problem:?}");
        assert!(problem.what.contains(what) && problem.hint.contains(hint), "{text}: {problem:?}");
    }
    for built_in in built_in() {
        let text = format!("agents:\n  {}: {{command: [./mine]}}\n", built_in.name);
        let problem = in_repo(&text).expect_err(&text);
        assert_eq!((problem.line, problem.column), (2, 3), "{problem:?}");
        assert!(problem.what.contains("which a repo cannot change"), "{problem:?}");
    }
}

#[test]
fn errors_have_a_position_and_a_hint() {
    let table = [
        ("agents:\n  mine:\n    comand: [x]\n", 3, "unknown key `comand`", "did you mean `command`?"),
        (
            "agents:\n  mine:\n    command: [x]\n    dialect: cluade\n",
            4,
            "unknown dialect `cluade`",
            "`claude`?",
        ),
        (
            "agents:\n  mine:\n    command: [x]\n    dialect: qqqqqqqqq\n",
            4,
            "unknown dialect",
            "codex, gemini",
        ),
        (
            "agents:\n  mine:\n    base: cluade\n",
            3,
            "unknown built-in agent `cluade`",
            "did you mean `claude`?",
        ),
        (
            "agents:\n  mine:\n    base: other\n  other:\n    command: x\n",
            3,
            "unknown built-in agent `other`",
            "claude",
        ),
        (
            "agents:\n  cluade:\n    max_iterations: 3\n",
            2,
            "has no command",
            "`base:`; built-in agents are claude, glm5",
        ),
        ("agents:\n  a-friend: {dialect: plain}\n", 2, "has no command", "give it a `command:`"),
        ("agents:\n  mine: {command: []}\n", 2, "an agent without a command", "agent.sh"),
        ("agents:\n  mine: {command: [\" \", x]}\n", 2, "an agent without a command", "agent.sh"),
        ("agents:\n  mine: {command: \" \"}\n", 2, "an agent without a command", "agent.sh"),
        ("agents:\n  mine: {command: [\"a\\e[2K\"]}\n", 2, "a hidden or control character", "escapes"),
        (
            "agents:\n  mine:\n    command: x\n    max_iterations: 0\n",
            4,
            "would never run the agent",
            "at least 1",
        ),
        ("agents:\n  mine:\n    command: x\n    max_iterations: many\n", 4, "", ""),
        ("agents:\n  mine: {command: x, model: m}\n", 2, "this agent takes no model", "`command`"),
        ("agents:\n  mine: {base: claude, model: --danger}\n", 2, "not a valid model name", ""),
        ("agents:\n  \"command:x\": {command: x}\n", 2, "is not a valid agent name", "letters"),
        ("agents:\n  -x: {command: x}\n", 2, "is not a valid agent name", "letters"),
        ("agents:\n  \"../x\": {command: x}\n", 2, "is not a valid agent name", "letters"),
        (
            "agents:\n  claude:\n    environment:\n      A-B: x\n",
            4,
            "`A-B` is not a valid variable name",
            "MY_API_KEY",
        ),
        (
            "agents:\n  claude:\n    environment:\n      A: {from: \"$B\"}\n",
            4,
            "`$B` is not a valid variable name",
            "MY_API_KEY",
        ),
        ("agents:\n  claude:\n    environment:\n      A: {form: B}\n", 4, "unknown key `form`", "`from`?"),
        (
            "agents:\n  claude:\n    environment:\n      A: 1.10\n",
            4,
            "a variable must be a string",
            "in quotes",
        ),
        (
            "agents:\n  claude:\n    environment:\n      A: 0x10\n",
            4,
            "a variable must be a string",
            "in quotes",
        ),
        ("agents:\n  claude:\n    environment: {A: true}\n", 3, "a variable must be a string", "in quotes"),
        ("agents:\n  claude:\n    environment: {A: x, A: y}\n", 3, "duplicate", ""),
        ("agents:\n  claude:\n    environment:\n      A: \"a\\0b\"\n", 4, "cannot contain a zero byte", ""),
        ("agents:\n  a: {command: x}\n  a: {command: y}\n", 3, "", ""),
        ("agents: [mine]\n", 1, "", ""),
        ("agents: {mine: x}\n", 1, "", ""),
        ("agents: {mine: }\n", 1, "", ""),
        ("allow: [\"--dangerously-skip-permissions\"]\n", 1, "not a valid rule", "Bash(git commit:*)"),
        ("allow: [WebFetch, \"\"]\n", 1, "not a valid rule", ""),
        ("allow:\n  - WebFetch\n  - \"Bash(x)\\nBash(rm)\"\n", 3, "a hidden or control character", ""),
        ("alow: [WebFetch]\n", 1, "unknown key `alow`", "did you mean `allow`?"),
    ];
    for (text, line, what, hint) in table {
        let problem = UserFile::parse(text).expect_err(text);
        assert_eq!(problem.line, line, "{text}: {problem:?}");
        assert!(problem.what.contains(what), "{text}: {problem:?}");
        assert!(problem.hint.contains(hint), "{text}: {problem:?}");
    }
}

#[test]
fn a_user_adds_permission_rules() {
    let allowed = |text: &str| UserFile::parse(text).expect(text).allow;
    assert_eq!(allowed("allow: [WebFetch, \"Bash(git commit:*)\"]\n"), ["WebFetch", "Bash(git commit:*)"]);
    assert_eq!(allowed("allow: \" WebFetch\"\n"), ["WebFetch"]);
    assert_eq!(allowed("allow:\n"), [""; 0]);
}

#[test]
fn other_tools_files_name_agents_under_our_own_key() {
    for layout in [Layout::Trellis, Layout::Ideal] {
        let read = |text: &str| Config::parse(text, layout, &Defaults::default());
        let problem = read("verify: [a]\nagents: {mine: {command: [x]}}\n").expect_err("at the wrong place");
        assert!(problem.line == 2 && problem.hint.contains("`ralph:`"), "{problem:?}");
        let config = read("verify: [a]\nralph:\n  agents: {mine: {command: [x]}}\n").expect("valid");
        assert_eq!(config.agents.len(), 1);
    }
}

proptest! {
    #[test]
    fn a_quoted_value_reaches_the_variable_as_it_is(value in "[ -~]{0,40}") {
        let quoted = serde_json::to_string(&value).expect("a string");
        let agents = of_user(&format!("agents: {{claude: {{environment: {{A: {quoted}}}}}}}\n")).expect("valid");
        prop_assert_eq!(set_to(&agents[0], "A"), [Value::Literal(value)]);
    }
}
