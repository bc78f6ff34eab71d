//! Tables of config texts, their meaning and their error messages.

use proptest::prelude::*;

use super::*;
use crate::model::budget::{Attempts, OnExhausted};

fn parse(text: &str, layout: Layout) -> Result<Config, ConfigProblem> {
    Config::parse(text, layout, &Defaults::default())
}

fn commands(text: &str) -> Vec<String> {
    let config = parse(text, Layout::Trellis).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    config.gates.into_iter().map(|gate| gate.run).collect()
}

#[test]
fn verify_means_what_yaml_says() {
    let table: [(&str, &[&str]); 17] = [
        ("verify:\n  - pnpm lint\n  - pnpm typecheck\n", &["pnpm lint", "pnpm typecheck"]),
        ("verify:\n  - pnpm lint\n  # - pnpm test\n", &["pnpm lint"]),
        ("verify:\n  - \"pnpm lint\"\n  - 'pnpm test'\n", &["pnpm lint", "pnpm test"]),
        ("verify:\n  - pnpm lint   # fast\n", &["pnpm lint"]),
        ("verify: [pnpm lint, \"pnpm test\"]\n", &["pnpm lint", "pnpm test"]),
        ("verify: pnpm lint\n", &["pnpm lint"]),
        ("verify: \"pnpm lint\"\n", &["pnpm lint"]),
        ("verify:\n  - |\n    set -e\n    make\n", &["set -e\nmake\n"]),
        ("verify: |\n  make\n", &["make\n"]),
        ("verify:\n  - >-\n    one\n    line\n", &["one line"]),
        ("verify:\n  - a\npost_create: # after\n  - rm -rf x\n", &["a"]),
        ("other:\n  verify:\n    - nested\n", &[]),
        ("verify: []\n", &[]),
        ("verify:\n", &[]),
        ("", &[]),
        ("# only a comment\n", &[]),
        ("verify:\n  - true\n  - {run: \"false\", name: n}\n", &["true", "false"]),
    ];
    for (text, expected) in table {
        assert_eq!(commands(text), expected, "{text}");
    }
}

#[test]
fn the_whole_native_form_is_understood() {
    let text = "verify:\n  - pnpm lint\n  - run: pnpm test\n    name: test\n    timeout: 5m\n    advisory: true\n    \
                inputs: [\"src/**\"]\n    retries: 2\n    needs: [pnpm lint]\nguard: [check, \"review-*\"]\n\
                budget: { attempts: 7, errors: 2, on_exhausted: pause, clock: 1h, stale_after: off }\n";
    let config = parse(text, Layout::Native).expect("valid");
    let test = &config.gates[1];
    assert_eq!(config.gates[0].timeout, Duration::from_secs(120));
    assert_eq!((test.name.as_str(), test.timeout, test.advisory), ("test", Duration::from_secs(300), true));
    assert_eq!((test.retries, &test.order), (2, &GateOrder::After(vec![GateName::new("pnpm lint")])));
    assert_eq!(config.budget.attempts, Some(Attempts::AtMost(7)));
    assert_eq!(config.budget.on_exhausted, Some(OnExhausted::Pause));
    assert_eq!(config.budget.clock, Some(Some(Duration::from_secs(3600))));
    assert_eq!(config.budget.stale_after, Some(None));
}

#[test]
fn unlimited_attempts_are_spelled_out() {
    for (text, reports) in [
        ("", None),
        ("reports: repo\n", Some(Reports::Repo)),
        ("reports: home\n", Some(Reports::Home)),
        ("reports: off\n", Some(Reports::Off)),
    ] {
        assert_eq!(parse(text, Layout::Native).expect("valid").reports, reports);
    }
    let config = parse("budget: { attempts: unlimited }\n", Layout::Native).expect("valid");
    assert_eq!(config.budget.attempts, Some(Attempts::Unlimited));
}

#[test]
fn errors_have_a_position_and_a_hint() {
    let table = [
        ("verfy:\n  - a\n", 1, "unknown key `verfy`", "did you mean `verify`?"),
        ("verify:\n  - run: a\n    tiemout: 5m\n", 3, "unknown key `tiemout`", "did you mean `timeout`?"),
        ("verify:\n  - run: a\n    timeout: soon\n", 2, "an invalid `timeout`", "`5m`"),
        ("verify:\n  - run: \"\"\n", 2, "a gate without a command", "npm test"),
        (
            "verify:\n  - {run: a, name: x}\n  - {run: b, name: x}\n",
            3,
            "two gates are named `x`",
            "rename one of them",
        ),
        (
            "verify:\n  - {run: a, name: lint}\n  - {run: b, needs: [lnit]}\n",
            3,
            "needs `lnit`",
            "did you mean `lint`?",
        ),
        ("verify:\n  - {run: a, name: x, needs: [x]}\n", 2, "waits for itself", "`needs`"),
        ("verify:\n  - {run: a, inputs: [\"[\"]}\n", 2, "`inputs`", "src/**"),
        (
            "guard: [check, sesion]\n",
            1,
            "`sesion` looks like a misspelled keyword",
            "did you mean `session`?",
        ),
        ("reports: nowhere\n", 1, "`reports: nowhere` is not a place", "`repo`, `home`, `off`"),
        ("reports: hom\n", 1, "`reports: hom` is not a place", "did you mean `home`?"),
        ("budget: { attempts: 0 }\n", 1, "would allow every stop at once", "at least 1"),
        ("budget: { attempts: many }\n", 1, "is not a number", "`unlimited`"),
        ("trust: true\nverify: [a]\n", 1, "unknown key `trust`", "there are"),
        ("verify:\n  - a\n - b\n", 3, "", ""),
        ("verify: [a\n", 1, "unclosed bracket", ""),
        ("verify: a\nverify: b\n", 2, "", ""),
    ];
    for (text, line, what, hint) in table {
        let problem = parse(text, Layout::Native).expect_err(text);
        assert_eq!(problem.line, line, "{text}: {problem:?}");
        assert!(problem.what.contains(what), "{text}: {problem:?}");
        assert!(problem.hint.contains(hint), "{text}: {problem:?}");
    }
}

#[test]
fn a_malformed_file_is_an_error_in_every_layout_and_never_an_empty_list() {
    for layout in Layout::ALL {
        for text in [
            "verify: [a\n",
            "verify:\n  - \"a\n",
            "\t- a\n",
            "verify: {run\n",
            "- a\n- b\n",
            "verify: [[a]]\n",
        ] {
            assert!(parse(text, layout).is_err(), "{layout:?} {text:?}");
        }
    }
}

#[test]
fn hostile_files_are_refused_quickly() {
    let bomb = format!(
        "a: &a [x,x,x,x,x,x,x,x,x]\n{}",
        (0..30)
            .map(|n| {
                let name = char::from(b'b' + n % 20);
                format!("{name}{n}: &{name}{n} [*a,*a,*a,*a,*a,*a,*a,*a]\n")
            })
            .collect::<String>()
    );
    assert!(parse(&bomb, Layout::Native).is_err());
    assert!(parse(&"[".repeat(100_000), Layout::Native).is_err());
    assert!(parse(&"x".repeat(MAX_CONFIG_BYTES + 1), Layout::Native).is_err());
}

#[test]
fn the_same_command_twice_gets_two_names() {
    let config = parse("verify: [make, make]\n", Layout::Native).expect("valid");
    let names: Vec<_> = config.gates.iter().map(|gate| gate.name.as_str()).collect();
    assert_eq!(names, ["make", "make (2)"]);
}

#[test]
fn the_guard_names_sub_agents_with_and_without_their_plugin() {
    let guard = |text: &str| parse(text, Layout::Native).expect("valid").guard;
    let table = [
        ("", "check", true),
        ("", "plugin:check", true),
        ("", "checker", false),
        ("", "worker", false),
        ("", "check:worker", false),
        ("guard: [\"review-*\"]", "review-api", true),
        ("guard: [\"review-*\"]", "check", false),
        ("guard: check", "check", true),
        ("guard: []", "check", false),
        ("guard: [agent:session]", "session", true),
    ];
    for (text, agent, held) in table {
        assert_eq!(guard(text).guards_agent(agent), held, "{text} {agent}");
    }
}

#[test]
fn an_external_default_timeout_applies_to_gates_without_one() {
    let defaults = Defaults { gate_timeout: Duration::from_secs(7) };
    let config =
        Config::parse("verify: [a, {run: b, timeout: 9s}]", Layout::Native, &defaults).expect("valid");
    let seconds: Vec<_> = config.gates.iter().map(|gate| gate.timeout.as_secs()).collect();
    assert_eq!(seconds, [7, 9]);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,300}") {
        for layout in Layout::ALL {
            let _config = parse(&text, layout);
        }
    }

    #[test]
    fn a_quoted_command_comes_out_as_it_went_in(command in "[ -~]{1,60}") {
        prop_assume!(!command.trim().is_empty());
        let quoted = serde_json::to_string(&command).expect("a string");
        prop_assert_eq!(commands(&format!("verify:\n  - {quoted}\n")), [command]);
    }
}

#[test]
fn an_oversized_config_is_refused_at_once() {
    let many = format!("verify:\n{}", "- a\n".repeat(501));
    let problem = Config::parse(&many, Layout::Native, &Defaults::default()).expect_err("too many");
    assert_eq!((problem.line, problem.what.as_str()), (502, "more than 500 gates"));
    let most = format!("verify:\n{}", "- a\n".repeat(500));
    assert_eq!(Config::parse(&most, Layout::Native, &Defaults::default()).expect("as many").gates.len(), 500);

    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (name, before) in ["b", "c", "d", "e", "f", "g"].into_iter().zip(["a", "b", "c", "d", "e", "f"]) {
        bomb.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", ")));
    }
    bomb.push_str("verify: *g\n");
    for layout in Layout::ALL {
        assert!(Config::parse(&bomb, layout, &Defaults::default()).is_err());
    }
    let lines = "- a\n".repeat(200_000);
    assert!(Config::parse(&format!("verify:\n{lines}"), Layout::Native, &Defaults::default()).is_err());
}

#[test]
fn a_pattern_that_cannot_be_compiled_is_refused() {
    let deep = format!("{}a{}", "{a,".repeat(1000), "}".repeat(1000));
    for text in [format!("guard: [\"{deep}\"]"), format!("verify: [{{run: a, inputs: [\"{deep}\"]}}]")] {
        let problem = parse(&text, Layout::Native).expect_err("too long");
        assert!(problem.what.contains("longer than 300 characters"), "{}", problem.what);
    }
    let deepest = format!("{}check{}", "{a,".repeat(73), "}".repeat(73));
    let config = parse(&format!("guard: [\"{deepest}\"]"), Layout::Native).expect("just short enough");
    assert!(config.guard.guards_agent("check") && !config.guard.guards_agent("b"));
}

#[test]
fn a_key_of_a_million_letters_is_refused_at_once_and_not_shown_whole() {
    let text = format!("? {}\n: 1\n", "a".repeat(1_000_000));
    let problem = parse(&text, Layout::Native).expect_err("no such key");
    assert!(problem.what.len() < 200 && problem.hint.len() < 200, "{} {}", problem.what, problem.hint);
}

#[test]
fn the_session_keyword_and_an_agent_of_that_name_are_distinct() {
    let guard = |text: &str| parse(text, Layout::Native).expect(text).guard;
    let session = guard("guard: [session, check]\n");
    assert!(session.guards_session() && session.guards_agent("check") && !session.guards_agent("session"));
    let agent = guard("guard: [\"agent:session\"]\n");
    assert!(!agent.guards_session() && agent.guards_agent("session"));
    let team = guard("guard: [teammates, tasks]\n");
    assert!(
        team.guards_teammates()
            && team.guards_tasks()
            && !team.guards_agent("tasks")
            && !team.guards_session()
    );
    let named = guard("guard: [\"agent:tasks\"]\n");
    assert!(!named.guards_tasks() && named.guards_agent("tasks"));
    for kept in [session, agent, team, named] {
        let stored = serde_json::to_string(&kept).expect("JSON");
        assert_eq!(serde_json::from_str::<Guard>(&stored).expect("our own words"), kept, "{stored}");
    }
}

/// No key of ours is passed over in another tool's file.
#[test]
fn in_other_tools_files_our_keys_stand_under_ralph() {
    for layout in [Layout::Trellis, Layout::Ideal] {
        let read = |text: &str| Config::parse(text, layout, &Defaults::default());
        let text = "worktree_dir: ../w\ncopy: [.env]\npost_create: [npm ci]\nverify: [a]\nhooks: {x: 1}\nralph:\n  \
                    guard: [session, check]\n  budget: { attempts: 9 }\n  reports: off\n  \
                    worktree: { dir: ../w, copy: .env, post_create: [npm ci] }\n";
        let config = read(text).expect("valid");
        assert!(config.guard.guards_session());
        assert_eq!(config.budget.attempts, Some(Attempts::AtMost(9)));
        assert_eq!(config.reports, Some(Reports::Off));
        let worktree = config.worktree.expect("a worktree");
        assert_eq!(
            (worktree.dir.as_deref(), worktree.copy, worktree.post_create),
            (Some("../w"), vec![".env".into()], vec!["npm ci".into()])
        );
        assert_eq!(config.not_read, ["hooks"]);
        for key in
            ["guard: [session]", "budget: { attempts: 9 }", "reports: off", "worktree: {}", "agents: {}"]
        {
            let problem = read(&format!("verify: [a]\n{key}\n")).expect_err(key);
            assert!(problem.line == 2 && problem.hint.contains("under `ralph:`"), "{key}: {problem:?}");
        }
        for (typo, meant) in [("verfy: [a]", "verify"), ("enable: false", "enabled"), ("ralp: {}", "ralph")] {
            let problem = read(typo).expect_err(typo);
            assert!(problem.hint.contains(meant), "{typo}: {problem:?}");
        }
        assert!(read("ralph: { verify: [a] }\n").is_err());
    }
}

#[test]
fn a_gate_may_be_kept_from_running_twice() {
    let text = "verify:\n  - npm test\n  - {run: npm run e2e, rerun: false}\n";
    let config = Config::parse(text, Layout::Native, &Defaults::default()).expect("valid");
    assert_eq!(config.gates.iter().map(|gate| gate.rerun).collect::<Vec<_>>(), [true, false]);
}
