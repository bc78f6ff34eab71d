//! Snapshots of the banners; the originals are quoted word for word.

use proptest::prelude::*;

use super::*;

const WIDTH: usize = 66;

/// One sample of each kind and variant.
fn samples() -> Vec<(&'static str, Banner<'static>)> {
    let iteration = IterationCount { n: 7, most: Some(100) };
    let unlimited = IterationCount { n: 7, most: None };
    let progress = TaskProgress { done: 12, total: 26 };
    let all = TaskProgress { done: 26, total: 26 };
    let no_list = TaskProgress::default();
    let (task, next) = ("add login", Some("2.1 hash passwords"));
    let promise = Some("所有任務完成");
    let gates: &[GateName] = Vec::leak(vec![GateName::new("lint"), GateName::new("test")]);
    let errors: &[(ErrorKind, String)] = Vec::leak(vec![
        (ErrorKind::AgentExecution, "the agent died".into()),
        (ErrorKind::TaskNotFound, "no boxes in tasks.md".into()),
        (ErrorKind::FileOperation, "the disk is full".into()),
    ]);
    let unclear: &[(ErrorKind, String)] =
        Vec::leak(vec![(ErrorKind::CannotTell, "gate did not start".into())]);
    let first = IterationCount { n: 0, most: Some(100) };
    vec![
        ("started", Banner::Started { task, iteration: first, progress, next, promise, gates }),
        (
            "started, without promise or gates",
            Banner::Started {
                task,
                iteration: IterationCount { n: 0, most: None },
                progress: no_list,
                next: None,
                promise: None,
                gates: &[],
            },
        ),
        (
            "running",
            Banner::Running { iteration, progress, next, failing: gates, promise, false_promises: 2 },
        ),
        (
            "running, without list or limit",
            Banner::Running {
                iteration: unlimited,
                progress: no_list,
                next: None,
                failing: &[],
                promise,
                false_promises: 0,
            },
        ),
        ("resumed", Banner::Resumed { iteration, progress, next }),
        ("limit", Banner::Limit { most: 100, more: 100, progress }),
        ("limit, again, without list", Banner::Limit { most: 200, more: 100, progress: no_list }),
        ("errors", Banner::Errors { errors, iteration, progress }),
        ("errors, without list", Banner::Errors { errors: unclear, iteration, progress: no_list }),
        ("paused", Banner::Paused { iteration, progress }),
        ("paused, without list", Banner::Paused { iteration, progress: no_list }),
        ("done", Banner::Done { proof: DoneBecause::Verified, iteration, progress: all, false_promises: 0 }),
        (
            "done, promise missing",
            Banner::Done {
                proof: DoneBecause::VerifiedWithoutPromise,
                iteration,
                progress: no_list,
                false_promises: 0,
            },
        ),
        (
            "done, claimed",
            Banner::Done {
                proof: DoneBecause::Claimed,
                iteration: unlimited,
                progress: all,
                false_promises: 1,
            },
        ),
        ("stuck", Banner::Stuck { equal: 3, iteration, progress, failing: gates }),
        ("capped", Banner::Capped { cap: 8, iteration, progress: no_list, failing: gates }),
        ("cancelled", Banner::Cancelled { n: 7 }),
    ]
}

#[test]
fn every_banner_in_every_language() {
    for lang in Lang::ALL {
        let banners: Vec<String> = samples()
            .iter()
            .map(|(name, banner)| {
                format!("#### {name}\n{}\n## in one line\n{}\n", boxed(banner, lang), one_line(banner, lang))
            })
            .collect();
        insta::assert_snapshot!(format!("banners_{}", lang.tag()), banners.join("\n"));
    }
}

/// Compares with the original, whose title lines are one cell wider than its box: here they are padded to the box.
fn assert_original(banner: &Banner<'_>, original: &str) {
    let original = original.trim();
    let mut expected: Vec<String> = original.lines().map(str::to_owned).collect();
    expected[1] = expected[1].replacen(" ║", "║", 1);
    assert_eq!(boxed(banner, Lang::ZhTw).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_limit_banner_is_the_original() {
    assert_original(
        &Banner::Limit { most: 100, more: 100, progress: TaskProgress { done: 3, total: 9 } },
        "
╔════════════════════════════════════════════════════════════════╗
║                    ⚠️ Loop 安全閥觸發                           ║
╚════════════════════════════════════════════════════════════════╝

⚠️ 已達最大迭代次數 (100)
📊 當前進度: 3/9 任務完成

請確認是否繼續：
- 「繼續」- 再執行 100 次迭代
- 「暫停」- 停止 Loop
",
    );
}

#[test]
fn the_error_banner_is_the_original() {
    let errors = [
        (ErrorKind::AgentExecution, "甲".to_owned()),
        (ErrorKind::TaskNotFound, "乙".to_owned()),
        (ErrorKind::FileOperation, "丙".to_owned()),
    ];
    let iteration = IterationCount { n: 5, most: Some(100) };
    assert_original(
        &Banner::Errors { errors: &errors, iteration, progress: TaskProgress { done: 3, total: 9 } },
        "
╔════════════════════════════════════════════════════════════════╗
║                    ❌ Loop 錯誤中斷                             ║
╚════════════════════════════════════════════════════════════════╝

⚠️ 連續發生 3 次錯誤
📊 當前進度: 3/9 任務完成

錯誤詳情：
1. [Agent 執行錯誤]: 甲
2. [找不到任務]: 乙
3. [檔案操作失敗]: 丙

建議操作：
- 檢查錯誤原因並修復
- 使用「繼續」重新嘗試
- 使用「暫停」中止 Loop
",
    );
}

#[test]
fn the_paused_banner_is_the_original() {
    let iteration = IterationCount { n: 5, most: Some(100) };
    assert_original(
        &Banner::Paused { iteration, progress: TaskProgress { done: 12, total: 26 } },
        "
╔════════════════════════════════════════════════════════════════╗
║                    ⏸️ Loop 已暫停                               ║
╚════════════════════════════════════════════════════════════════╝

📊 當前進度: 12/26 任務完成 (46%)
[████████████░░░░░░░░░░░░░░] 46%

💾 進度已保存。使用「繼續」或 `/ralph-loop` 恢復執行。
",
    );
}

#[test]
fn a_cancelled_loop_has_the_text_that_other_programs_search_for() {
    let cancelled = Banner::Cancelled { n: 7 };
    assert_eq!(one_line(&cancelled, Lang::En), "Cancelled Ralph loop (was at iteration 7)");
    assert!(boxed(&cancelled, Lang::En).ends_with("\n\nCancelled Ralph loop (was at iteration 7)"));
}

#[test]
fn a_loop_without_promise_and_gates_has_a_warning() {
    let gates = [GateName::new("test")];
    let table: [(Option<&str>, &[GateName], bool); 4] =
        [(None, &[], true), (Some("DONE"), &[], false), (None, &gates, false), (Some("DONE"), &gates, false)];
    for (promise, gates, warns) in table {
        let iteration = IterationCount { n: 0, most: None };
        let progress = TaskProgress::default();
        let started = Banner::Started { task: "x", iteration, progress, next: None, promise, gates };
        assert_eq!(boxed(&started, Lang::En).contains("has neither a promise nor gates"), warns);
    }
}

#[test]
fn signs_and_chinese_are_two_cells_wide() {
    for sign in ["⚠️", "⏸️", "▶️", "☑️", "⏹️", "❌", "✅", "🔁", "🚀", "🛑", "閥", "：", "「"]
    {
        assert_eq!(sign.width(), 2, "{sign}");
    }
}

#[test]
fn the_bar_has_26_cells_and_is_full_only_at_the_end() {
    let table = [
        ((0, 4), 0, "0%"),
        ((1, 4), 7, "25%"),
        ((2, 4), 13, "50%"),
        ((3, 4), 20, "75%"),
        ((4, 4), 26, "100%"),
        ((12, 26), 12, "46%"),
        ((2, 3), 17, "66%"),
        ((199, 200), 25, "99%"),
        ((999, 1000), 25, "99%"),
        ((9, 4), 26, "100%"),
        ((usize::MAX, usize::MAX), 26, "100%"),
    ];
    for ((done, total), full, percent) in table {
        let expected = format!("[{}{}] {percent}", "█".repeat(full), "░".repeat(26 - full));
        assert_eq!(bar(TaskProgress { done, total }), expected, "{done} of {total}");
    }
    assert_eq!(bar(TaskProgress { done: 0, total: 0 }), "");
}

#[test]
fn a_title_begins_at_its_place_if_it_fits_there() {
    let table =
        [("x", 20), ("安全閥", 20), (&"x".repeat(43), 20), (&"x".repeat(44), 10), (&"x".repeat(62), 1)];
    for (title, indent) in table {
        let line = framed(title).lines().nth(1).expect("a title").to_owned();
        let inside = line.trim_matches('║');
        assert_eq!(inside.len() - inside.trim_start().len(), indent, "{title}");
    }
    assert!(framed(&"閥".repeat(50)).contains("閥…"));
}

#[test]
fn what_stands_in_a_field_is_one_line_of_bounded_length() {
    let table = [
        ("two\nlines \t of\r\ntext", "two lines of text"),
        ("\u{1b}[31mred\u{1b}[0m", "red"),
        ("line\u{2028}separator\u{85}", "line separator"),
        ("{n} stays", "{n} stays"),
    ];
    for (text, expected) in table {
        assert_eq!(shown(text), expected);
    }
    assert_eq!(shown(&"閥".repeat(FIELD)), "閥".repeat(FIELD / 2 - 1) + "…");
    assert_eq!(shown(&"a ".repeat(FIELD)), "a ".repeat(FIELD / 2 - 1) + "a…");
    assert_eq!(shown(&"ab ".repeat(FIELD)), "ab ".repeat(FIELD / 3 - 1) + "ab…");
    assert_eq!(shown(&format!("a{}", "\u{301}".repeat(100_000))).chars().count(), 4 * FIELD + 1);
}

fn assert_is_a_box(text: &str) {
    let lines: Vec<&str> = text.lines().take(3).collect();
    for line in &lines {
        assert_eq!(line.width(), WIDTH, "{line}");
    }
    let walls = lines.iter().map(|line| (line.chars().next(), line.chars().next_back()));
    assert!(walls.eq([('╔', '╗'), ('║', '║'), ('╚', '╝')].map(|(l, r)| (Some(l), Some(r)))), "{text}");
}

#[test]
fn every_banner_has_its_box_in_every_language_and_no_placeholder_left() {
    for lang in Lang::ALL {
        for (name, banner) in samples() {
            let text = boxed(&banner, lang);
            assert_is_a_box(&text);
            assert!(!text.contains(['{', '}']), "{name} {lang:?}: {text}");
            assert!(!text.contains("\n\n\n") && !text.ends_with('\n'), "{name} {lang:?}: {text}");
            assert!(!text.lines().any(|line| line.trim_end() != line), "{name} {lang:?}: {text}");
            let whole = lang.words().all();
            let title = text.lines().nth(1).expect("a title");
            assert!(
                whole.iter().any(|(key, text)| key.starts_with("title_") && title.contains(text)),
                "{title}"
            );
        }
    }
}

/// Arbitrary text: long, Chinese, emoji in all forms, control characters, line breaks.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[a-z ]{0,80}",
        "[\u{4e00}-\u{9fff}]{0,60}",
        "[\u{1f300}-\u{1faff}\u{2600}-\u{27bf}\u{fe0f}\u{fe0e}\u{200d}\u{1f1e6}-\u{1f1ff}\u{20e3}0-9#]{0,40}",
        "[\u{0620}-\u{064a}\u{300}-\u{36f}]{0,40}",
        "[\r\n\t\u{1b}\\[\u{85}\u{2028}{}n]{0,10}",
    ];
    proptest::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn any_lang() -> impl Strategy<Value = Lang> {
    proptest::sample::select(Lang::ALL.to_vec())
}

proptest! {
    #[test]
    fn any_title_fits_into_the_box(title in any_text()) {
        assert_is_a_box(&framed(&shown(&title)));
    }

    #[test]
    fn no_text_is_wider_than_it_may_be(text in any_text(), cells in 1_usize..100) {
        prop_assert!(clipped(&text, cells).width() <= cells);
    }

    #[test]
    fn no_field_breaks_a_line_or_speaks_to_the_terminal(
        lang in any_lang(), task in any_text(), next in any_text(), promise in any_text(), gate in any_text(),
        what in any_text(), n: u32, done: usize, total: usize,
    ) {
        let iteration = IterationCount { n, most: Some(n) };
        let progress = TaskProgress { done, total: total.max(1) };
        let gates = [GateName::new(gate)];
        let errors = [(ErrorKind::AgentExecution, what)];
        let (next, promise) = (Some(next.as_str()), Some(promise.as_str()));
        let table = [
            (Banner::Started { task: &task, iteration, progress, next, promise, gates: &gates }, 13),
            (Banner::Running { iteration, progress, next, failing: &gates, promise, false_promises: 1 }, 12),
            (Banner::Errors { errors: &errors, iteration, progress }, 14),
            (Banner::Stuck { equal: n, iteration, progress, failing: &gates }, 11),
        ];
        for (banner, lines) in table {
            let text = boxed(&banner, lang);
            assert_is_a_box(&text);
            prop_assert_eq!(text.split('\n').count(), lines, "{}", text);
            let line = one_line(&banner, lang);
            prop_assert!(!foreign_text::deceives(&text) && !foreign_text::deceives(&line));
            prop_assert!(!line.contains('\n'));
        }
    }

    #[test]
    fn a_bar_never_shrinks_when_a_task_is_ticked(total in 1_usize..500, done in 0_usize..500) {
        let cells = |done| bar(TaskProgress { done, total }).matches('█').count();
        prop_assert!(cells(done) <= cells(done + 1));
        prop_assert_eq!(cells(done) == 26, done >= total);
        prop_assert_eq!(bar(TaskProgress { done, total }).split(' ').next().map(|bar| bar.chars().count()), Some(28));
    }
}

#[test]
fn shipping_has_its_banners_in_every_language() {
    let iteration = IterationCount { n: 2, most: None };
    let mut text = String::new();
    for lang in [Lang::En, Lang::ZhTw, Lang::ZhCn, Lang::Es] {
        let waiting = Banner::Waiting { what: "CI of c0ffee1: build", iteration };
        text.push_str(&format!("{}\n\n", boxed(&waiting, lang)));
        for until in [Until::Pr, Until::Ci, Until::Merged] {
            let reason =
                crate::model::verdict::Reason::Shipped { until, url: Some("https://h/o/r/pull/7".into()) };
            let how = crate::say::words::reason_in(&reason, lang);
            let (progress, false_promises) = (TaskProgress::default(), 0);
            let banner = Banner::Shipped { until, how: &how, iteration, progress, false_promises };
            text.push_str(&format!("{}\n\n", boxed(&banner, lang)));
        }
    }
    insta::assert_snapshot!("ship_banners", text);
}
