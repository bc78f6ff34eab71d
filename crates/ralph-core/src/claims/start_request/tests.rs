use std::time::Instant;

use proptest::prelude::*;

use super::*;

fn task(text: &str) -> StartRequest {
    StartRequest { task: Some(text.into()), ..StartRequest::default() }
}

fn openspec(change: Option<&str>) -> StartRequest {
    let list = ListWanted::OpenSpec { change: change.map(str::to_owned) };
    StartRequest { list: Some(list), ..StartRequest::default() }
}

fn file(path: &str) -> StartRequest {
    StartRequest { list: Some(ListWanted::File(path.into())), ..StartRequest::default() }
}

impl StartRequest {
    fn doing(self, text: &str) -> Self {
        Self { task: Some(text.into()), ..self }
    }

    fn promising(self, text: &str) -> Self {
        Self { promise: Some(text.into()), ..self }
    }

    fn at_most(self, most: u32) -> Self {
        Self { max_iterations: Some(Attempts::AtMost(most)), ..self }
    }
}

#[test]
fn lines_are_parsed_as_intended() {
    let unlimited = || StartRequest { max_iterations: Some(Attempts::Unlimited), ..task("x") };
    let table = [
        ("fix it", task("fix it")),
        ("\"fix it\"", task("fix it")),
        ("'fix it'", task("fix it")),
        ("  fix \t it  ", task("fix \t it")),
        ("do it --max-iterations 3", task("do it").at_most(3)),
        ("--max-iterations 3 do it", task("do it").at_most(3)),
        ("do --max-iterations 3 it", task("do it").at_most(3)),
        ("--max-iterations=3 do it", task("do it").at_most(3)),
        ("x --max-iterations 0", unlimited()),
        ("x --max-iterations=4294967295", task("x").at_most(u32::MAX)),
        ("x --completion-promise DONE", task("x").promising("DONE")),
        ("x --promise DONE", task("x").promising("DONE")),
        ("x --completion-promise \"ALL DONE\"", task("x").promising("ALL DONE")),
        ("x --completion-promise 'ALL DONE'", task("x").promising("ALL DONE")),
        ("x --completion-promise=\"ALL DONE\"", task("x").promising("ALL DONE")),
        ("--promise='ALL DONE' x", task("x").promising("ALL DONE")),
        ("x --promise=--done--", task("x").promising("--done--")),
        ("x --promise \" ALL \n DONE \"", task("x").promising("ALL DONE")),
        ("x --promise a=b", task("x").promising("a=b")),
        ("x --promise=a=b", task("x").promising("a=b")),
        ("x --completion-promise 所有任務完成", task("x").promising("所有任務完成")),
        (
            "\"Build it\" --max-iterations 9 --completion-promise OK",
            task("Build it").at_most(9).promising("OK"),
        ),
        ("--openspec", openspec(None)),
        ("--openspec add-login", openspec(Some("add-login"))),
        ("--openspec=add-login", openspec(Some("add-login"))),
        ("--openspec add-login --max-iterations 100", openspec(Some("add-login")).at_most(100)),
        ("--openspec --max-iterations 100", openspec(None).at_most(100)),
        ("--openspec -- add login", openspec(None).doing("add login")),
        ("--openspec \"do all of it\"", openspec(None).doing("do all of it")),
        ("do all --openspec add-login", openspec(Some("add-login")).doing("do all")),
        ("--openspec 新增登入", openspec(Some("新增登入"))),
        ("--openspec x --archive", StartRequest { archive: true, ..openspec(Some("x")) }),
        ("--archive --openspec", StartRequest { archive: true, ..openspec(None) }),
        ("--tasks docs/tasks.md", file("docs/tasks.md")),
        ("--tasks=\"my tasks.md\" go", file("my tasks.md").doing("go")),
        ("x --replace", StartRequest { replace: true, ..task("x") }),
        ("x --lang zh-TW", StartRequest { lang: Some("zh-TW".into()), ..task("x") }),
        ("x --lang=es", StartRequest { lang: Some("es".into()), ..task("x") }),
        ("-- --max-iterations 3", task("--max-iterations 3")),
        ("x -- --replace -- y", task("x --replace -- y")),
        ("a -- b", task("a b")),
        ("\"add a --json flag\"", task("add a --json flag")),
        ("draw a --> b, --- and -5", task("draw a --> b, --- and -5")),
        ("fix it — and test it", task("fix it — and test it")),
        // Literal quotes.
        ("don't stop", task("don't stop")),
        ("'tis fine", task("'tis fine")),
        ("it's Bob's --max-iterations 3", task("it's Bob's").at_most(3)),
        ("'it's fine'", task("it's fine")),
        ("say \"hi\" to 'em all", task("say \"hi\" to 'em all")),
        ("fix the \"login page\" now", task("fix the \"login page\" now")),
        ("\"open ended", task("\"open ended")),
        ("set x=\"a b\" there", task("set x=\"a b\" there")),
        ("\"say \\\"hi\\\" and \\\\ too\"", task("say \"hi\" and \\ too")),
        ("\"a \\n b\"", task("a \\n b")),
        ("'a \\\\ b'", task("a \\\\ b")),
        ("「修好 測試」", task("「修好 測試」")),
        // Text that a shell would run, expand or truncate.
        ("$(rm -rf /)", task("$(rm -rf /)")),
        ("\"$(rm -rf /)\"", task("$(rm -rf /)")),
        ("a`id`b; rm -rf / | sh > x && y", task("a`id`b; rm -rf / | sh > x && y")),
        ("${HOME} $HOME $1 !x * ? ~ # no comment", task("${HOME} $HOME $1 !x * ? ~ # no comment")),
        ("x\nEOF\nrm -rf /", task("x\nEOF\nrm -rf /")),
        ("\"one\n\ntwo\n  three\"", task("one\n\ntwo\n  three")),
        ("do this:\n- a\n- b\n\n--max-iterations 5", task("do this:\n- a\n- b").at_most(5)),
        ("修好登入頁面的測試 --max-iterations 5", task("修好登入頁面的測試").at_most(5)),
        ("修好\u{3000}--max-iterations\u{3000}5", task("修好").at_most(5)),
        ("output <promise>X</promise> when done", task("output <promise>X</promise> when done")),
        // Characters that pasted text may contain.
        ("a\r\nb", task("a\nb")),
        ("\u{1b}[31mred\u{1b}[0m \u{202e}text\u{200b}\u{0}", task("red text")),
    ];
    for (line, meant) in table {
        assert_eq!(read(line), Ok(meant), "{line:?}");
    }
}

#[test]
fn errors_have_a_hint_how_to_fix_them() {
    let table = [
        ("", "the task is missing", "--openspec"),
        ("   \n", "the task is missing", "describe the task"),
        ("\"\"", "the task is missing", "describe the task"),
        ("--", "the task is missing", "describe the task"),
        ("\u{200b}", "the task is missing", "describe the task"),
        ("--max-iterations 3", "the task is missing", "--tasks FILE"),
        ("--replace --promise X", "the task is missing", "describe the task"),
        ("x --max-iterations", "`--max-iterations` needs a value", "--max-iterations 20"),
        ("x --max-iterations=", "`--max-iterations` needs a value", "--max-iterations 20"),
        ("x --max-iterations --replace", "`--max-iterations` needs a value", "--max-iterations 20"),
        ("x --max-iterations many", "`--max-iterations many` is not a number", "0 means unlimited"),
        ("x --max-iterations -5", "`--max-iterations -5` is not a number", "whole number"),
        ("x --max-iterations +5", "is not a number", "whole number"),
        ("x --max-iterations 1.5", "is not a number", "whole number"),
        ("x --max-iterations 4294967296", "is not a number", "up to 4294967295"),
        ("x --max-iterations １０", "is not a number", "whole number"),
        ("x --completion-promise", "`--completion-promise` needs a text", "ALL DONE"),
        ("x --promise", "`--promise` needs a text", "ALL DONE"),
        ("x --completion-promise --replace", "needs a text", "after `=`"),
        ("x --completion-promise \"\"", "needs a text", "ALL DONE"),
        ("x --completion-promise=", "needs a text", "ALL DONE"),
        ("x --completion-promise ' \n '", "needs a text", "ALL DONE"),
        ("--completion-promise -- x", "needs a text", "ALL DONE"),
        ("x --promise '<promise>A</promise>'", "contains the tags", "the text alone"),
        ("x --promise DO\u{200b}NE", "hidden characters: `DONE`", "by hand"),
        ("x --max-iterations 3 --max-iterations 3", "`--max-iterations` is given twice", "leave one"),
        ("x --promise A --completion-promise B", "`--completion-promise` is given twice", "leave one"),
        ("x --replace --replace", "`--replace` is given twice", "leave one"),
        ("--openspec --openspec", "`--openspec` is given twice", "leave one"),
        (
            "--openspec a --tasks b",
            "`--tasks` and `--openspec` both name a task list",
            "leave one of them out",
        ),
        ("--tasks b --openspec", "`--openspec` and `--tasks` both name a task list", "leave one of them out"),
        ("--openspec=", "`--openspec` needs a value", "--openspec add-login"),
        ("--openspec \u{1b}[31m", "control or hidden characters", "by hand"),
        ("x --tasks", "`--tasks` needs a value", "docs/tasks.md"),
        ("x --tasks 'a\nb'", "control or hidden characters", "docs/tasks.md"),
        ("x --until noon", "unknown value `--until noon`", "`ci` or `merged`"),
        ("x --until", "`--until` needs a value", "--until pr"),
        ("x --archive", "`--archive` requires `--openspec`", "archived when all its tasks are done"),
        ("--tasks a --archive", "`--archive` requires `--openspec`", "archived when all its tasks are done"),
        ("--openspec --archive=yes", "`--archive` takes no value, but got `yes`", "write `--archive` alone"),
        ("x --replace=no", "`--replace` takes no value", "write `--replace` alone"),
        ("x --lang", "`--lang` needs a value", "zh-TW"),
        ("x --lang 中文", "`--lang 中文` is not a language", "zh-CN"),
        ("x --max-iteration 3", "unknown flag `--max-iteration`", "did you mean `--max-iterations`?"),
        ("x --max_iterations 3", "unknown flag `--max_iterations`", "did you mean `--max-iterations`?"),
        ("x --open-spec", "unknown flag `--open-spec`", "did you mean `--openspec`?"),
        ("x —max-iterations 3", "unknown flag `—max-iterations`", "did you mean `--max-iterations`?"),
        ("x --frobnicate", "unknown flag `--frobnicate`", "`--completion-promise`, `--promise`"),
        ("x --help", "unknown flag `--help`", "there are: "),
        ("add a --json flag", "unknown flag `--json`", "put the task in quotes or after `--`"),
        ("x --\u{61}\u{1b}[31mb", "unknown flag `--ab`", "there are: "),
    ];
    for (line, what, hint) in table {
        let error = read(line).expect_err(line);
        assert!(error.what.contains(what), "{line:?}: {error}");
        assert!(error.hint.contains(hint), "{line:?}: {error}");
        assert!(!foreign_text::deceives(&error.to_string()), "{line:?}");
    }
}

#[test]
fn every_flag_is_used_as_its_example_says() {
    for (name, flag, example) in FLAGS {
        let beside = match flag {
            Flag::OpenSpec | Flag::Tasks => "x",
            _ => "--openspec=a x",
        };
        let read = read(&format!("{beside} {example}"));
        assert!(read.is_ok(), "{name}: {read:?}");
    }
}

#[test]
fn words_are_split_at_white_space_outside_closed_quotes() {
    let table: [(&str, &[&str]); 16] = [
        ("", &[]),
        (" \n\t", &[]),
        ("a b\nc\u{3000}d", &["a", "b", "c", "d"]),
        ("\"a b\" c", &["a b", "c"]),
        ("'a b' c", &["a b", "c"]),
        ("\"a\nb\"", &["a\nb"]),
        ("don't stop", &["don't", "stop"]),
        ("say \"a b\"!", &["say", "\"a", "b\"!"]),
        ("\"a b", &["\"a", "b"]),
        ("'a \"b c\" d", &["'a", "b c", "d"]),
        ("--x=\"a b\" c", &["--x=a b", "c"]),
        ("--x='a b' c", &["--x=a b", "c"]),
        ("--x=\"a b", &["--x=\"a", "b"]),
        ("\"\" ''", &["", ""]),
        ("\"a\\\"b\\\\c\\d\"", &["a\"b\\c\\d"]),
        ("「a b」", &["「a", "b」"]),
    ];
    for (line, words) in table {
        assert_eq!(split(line), words, "{line:?}");
    }
}

#[test]
fn words_from_a_shell_mean_the_same() {
    let shell = ["fix", "the login", "--completion-promise", "ALL DONE", "--max-iterations=3"];
    let words = shell.map(str::to_owned);
    assert_eq!(parse(&words), Ok(task("fix the login").promising("ALL DONE").at_most(3)));
    let line = "\"do\nit\" --replace";
    assert_eq!(parse(&split(line)), read(line));
    assert_eq!(parse(&["one\ntwo".to_owned()]), Ok(task("one\ntwo")));
    assert_eq!(parse(&[]).expect_err("nothing given").what, "the task is missing");
}

#[test]
fn an_oversized_task_is_refused_quickly() {
    assert_eq!(read(&"字".repeat(LONGEST_TASK)), Ok(task(&"字".repeat(LONGEST_TASK))));
    let error = read(&"字".repeat(LONGEST_TASK + 1)).expect_err("too long");
    assert!(error.what.contains("20000 characters") && error.hint.contains("file"), "{error}");
    let promise = format!("x --promise={}", "a".repeat(LONGEST_VALUE + 1));
    assert!(read(&promise).expect_err("too long").what.contains("longer than 500"));

    #[expect(clippy::disallowed_methods, reason = "a test may look at the clock")]
    let begun = Instant::now();
    for never_closed in ["\"a ", "'a ", "x=\"a 'b "] {
        assert!(split(&never_closed.repeat(20_000)).len() >= 20_000);
    }
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

proptest! {
    #[test]
    fn no_text_panics(line in "(?s).{0,80}|[-\"'= a\\\\\n]{0,40}|( ?--(openspec|promise|tasks|max-iterations)(=|[ x\"'5]{0,3})){0,4}") {
        for request in [read(&line), parse(&split(&line))] {
            match request {
                Ok(request) => {
                    let texts = [request.task, request.promise, request.lang];
                    for text in texts.into_iter().flatten() {
                        prop_assert!(!text.trim().is_empty() && !foreign_text::deceives(&text));
                    }
                }
                Err(error) => prop_assert!(!error.what.is_empty() && !error.hint.is_empty()),
            }
        }
    }

    #[test]
    fn words_without_quotes_survive_being_joined(words in proptest::collection::vec("[^\\s'\"]{1,12}", 0..12)) {
        prop_assert_eq!(split(&words.join(" ")), words);
    }

    #[test]
    fn a_quoted_text_is_one_word_and_arrives_whole(text in "[^\"]{1,60}", flags_first in any::<bool>()) {
        let quoted = format!("\"{}\"", text.replace('\\', "\\\\"));
        prop_assert_eq!(split(&quoted), std::slice::from_ref(&text));
        let line = if flags_first { format!("--replace -- {quoted}") } else { format!("{quoted} --replace") };
        let harmless = !foreign_text::deceives(&text) && !text.trim().is_empty() && as_flag(&text).is_none() && text != "--";
        if harmless {
            prop_assert_eq!(read(&line), Ok(StartRequest { replace: true, ..task(text.trim()) }));
        }
    }

    #[test]
    fn prose_arrives_as_it_was_typed(text in "[a-z0-9$`(){};&|<>*!#「」測試.,\n ]{1,80}") {
        let is_comment = |line: &str| line.trim_start().strip_prefix('#').is_some_and(|rest| !rest.starts_with(|c: char| !c.is_whitespace()));
        prop_assume!(!text.trim().is_empty() && !text.lines().any(is_comment));
        prop_assert_eq!(read(&text), Ok(task(text.trim())));
    }
}

/// What a document has after the command's name, to the task and the promise.
#[test]
fn commands_are_read_as_documents_have_them() {
    let table = [
        // zenithjoy-engine, both start commands.
        (
            "\"实现 <功能描述>，完成质检并创建 PR 后输出 <promise>QUALITY_GATE_PASSED</promise>\" \\\n    \
             --completion-promise \"QUALITY_GATE_PASSED\"\n    # 不设置 --max-iterations = 无限循环",
            "实现 <功能描述>，完成质检并创建 PR 后输出 <promise>QUALITY_GATE_PASSED</promise>",
            Some("QUALITY_GATE_PASSED"),
        ),
        (
            "\"修复 PR #<number> 的 CI 失败，CI 通过并合并后输出 <promise>CI_PASSED</promise>\" \\\r\n    \
             --completion-promise \"CI_PASSED\"\r\n    # 不设置 --max-iterations = 无限循环\r\n",
            "修复 PR #<number> 的 CI 失败，CI 通过并合并后输出 <promise>CI_PASSED</promise>",
            Some("CI_PASSED"),
        ),
        ("\"task\"\\\n--promise DONE", "task", Some("DONE")),
        ("\"task\" \\  \n--promise DONE", "task", Some("DONE")),
        ("\\\n\"task\" --promise DONE", "task", Some("DONE")),
        ("\"task\"\n--promise DONE\n# until --max-iterations 3 \"", "task", Some("DONE")),
        ("\"task\" --promise DONE # not --archive", "task", Some("DONE")),
        ("--promise DONE # why\nfix it", "fix it", Some("DONE")),
        ("--promise DONE \\\n  # a comment between\n  \"task\"", "task", Some("DONE")),
        ("\"task\" --promise=DONE #", "task", Some("DONE")),
        ("\"one\ntwo # three\n# four\"\n--promise \"A\nB\"", "one\ntwo # three\n# four", Some("A B")),
        // Typographic quotes and dashes, as editors and chats make them.
        ("“fix the login” --completion-promise “ALL DONE”", "fix the login", Some("ALL DONE")),
        ("”fix the login” --promise=‘ALL DONE’", "fix the login", Some("ALL DONE")),
        ("‘don’t stop’", "don’t stop", None),
        ("“one\ntwo”", "one\ntwo", None),
        ("fix the “login” page", "fix the “login” page", None),
        // What is no comment.
        ("fix issue #42", "fix issue #42", None),
        ("fix issue # 42 now", "fix issue # 42 now", None),
        ("#42 is broken", "#42 is broken", None),
        ("# Title", "# Title", None),
        ("--promise DONE #42", "#42", Some("DONE")),
        ("fix it\n#42 is next", "fix it\n#42 is next", None),
        ("fix it\n## Phase 1", "fix it\n## Phase 1", None),
        ("in C:\\temp fix\\it", "in C:\\temp fix\\it", None),
        ("fix it \\\n  and that", "fix it and that", None),
    ];
    for (line, task, promise) in table {
        let request = read(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        assert_eq!((request.task.as_deref(), request.promise.as_deref()), (Some(task), promise), "{line:?}");
        assert_eq!((request.max_iterations, request.archive), (None, false), "{line:?}");
    }
}

#[test]
fn a_goal_is_given_or_implied_by_the_promise() {
    let table = [
        ("x", Until::Verified),
        ("x --until pr", Until::Pr),
        ("x --until=ci", Until::Ci),
        ("x --until merged", Until::Merged),
        ("x --completion-promise QUALITY_GATE_PASSED", Until::Pr),
        ("x --completion-promise CI_PASSED", Until::Merged),
        ("x --completion-promise CI_PASSED --until verified", Until::Verified),
        ("x --completion-promise DONE --until ci", Until::Ci),
    ];
    for (line, until) in table {
        assert_eq!(read(line).expect("a request").goal_beyond_gates(), until, "{line}");
    }
}
