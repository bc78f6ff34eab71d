//! Every language has all texts, translated.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::model::loop_error::ErrorKind;

/// Texts that may equal the English ones.
const SAME_AS_ENGLISH: [(&str, &[Lang]); 3] = [
    ("error_line", &[Lang::ZhTw, Lang::ZhCn, Lang::Es]),
    ("item_separator", &[Lang::Es]),
    ("list_separator", &[Lang::Es]),
];

fn placeholders(text: &str) -> BTreeSet<&str> {
    text.split('{').skip(1).map(|from| from.split_once('}').expect("a closed placeholder").0).collect()
}

#[test]
fn every_text_is_present_and_trimmed() {
    for lang in Lang::ALL {
        for (key, text) in lang.words().all() {
            assert!(!text.trim().is_empty(), "{lang:?} {key}");
            assert!(key.ends_with("_separator") || text.trim() == text, "{lang:?} {key}: {text:?}");
            assert!(!text.contains(['\n', '\t']) && !text.contains("  "), "{lang:?} {key}: {text:?}");
        }
    }
}

#[test]
fn every_language_has_the_same_placeholders() {
    for lang in Lang::ALL {
        for ((key, english), (_, text)) in Lang::En.words().all().into_iter().zip(lang.words().all()) {
            assert_eq!(placeholders(text), placeholders(english), "{lang:?} {key}");
            let well_named = |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase());
            assert!(placeholders(text).iter().all(well_named), "{lang:?} {key}: {text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{lang:?} {key}: {text}");
        }
    }
}

#[test]
fn only_listed_texts_equal_the_english_ones() {
    let mut same = BTreeSet::new();
    for lang in [Lang::ZhTw, Lang::ZhCn, Lang::Es] {
        let pairs = Lang::En.words().all().into_iter().zip(lang.words().all());
        same.extend(pairs.filter(|(english, text)| english == text).map(|((key, _), _)| (key, lang.tag())));
    }
    let meant = SAME_AS_ENGLISH.iter().flat_map(|(key, langs)| langs.iter().map(|lang| (*key, lang.tag())));
    assert_eq!(same, meant.collect());
}

/// Catches a table copied from the other Chinese variant.
#[test]
fn each_chinese_variant_uses_its_own_characters() {
    let written = |lang: Lang| lang.words().all().into_iter().map(|(_, text)| text).collect::<String>();
    let pairs =
        [('進', '进'), ('務', '务'), ('閥', '阀'), ('錯', '错'), ('暫', '暂'), ('繼', '继'), ('驗', '验')];
    for (traditional, simplified) in pairs {
        let (tw, cn) = (written(Lang::ZhTw), written(Lang::ZhCn));
        assert!(tw.contains(traditional) && !tw.contains(simplified), "{traditional}");
        assert!(cn.contains(simplified) && !cn.contains(traditional), "{simplified}");
    }
}

/// A banner must only name control words that the loop accepts.
#[test]
fn control_words_in_texts_are_accepted_by_the_loop() {
    let table = [
        (Lang::En, "\"continue\"", "\"pause\""),
        (Lang::ZhTw, "「繼續」", "「暫停」"),
        (Lang::ZhCn, "“继续”", "“暂停”"),
        (Lang::Es, "«continue»", "«pause»"),
    ];
    for (lang, go_on, pause) in table {
        let words = lang.words();
        for text in
            [words.limit_continue, words.errors_advice_continue, words.paused_saved, words.paused_loop_here]
        {
            assert!(text.contains(go_on), "{text}");
        }
        for text in [words.limit_pause, words.errors_advice_pause, words.guard_blocked] {
            assert!(text.contains(pause), "{text}");
        }
    }
}

#[test]
fn texts_that_other_programs_search_for_are_unchanged() {
    let words = Lang::En.words();
    assert_eq!(fill(words.cancelled_at, &[("n", &7)]), "Cancelled Ralph loop (was at iteration 7)");
    assert_eq!(words.no_active_loop, "No active Ralph loop found.");
}

#[test]
fn tags_and_locales_name_a_language() {
    let table = [
        ("en", Some(Lang::En)),
        ("en_US", Some(Lang::En)),
        ("EN-gb", Some(Lang::En)),
        ("C", Some(Lang::En)),
        ("C.UTF-8", Some(Lang::En)),
        ("POSIX", Some(Lang::En)),
        ("zh_TW.UTF-8", Some(Lang::ZhTw)),
        ("zh-TW", Some(Lang::ZhTw)),
        ("zh_HK", Some(Lang::ZhTw)),
        ("zh_MO", Some(Lang::ZhTw)),
        ("zh-Hant", Some(Lang::ZhTw)),
        ("zh-Hant-CN", Some(Lang::ZhTw)),
        ("zh", Some(Lang::ZhCn)),
        ("zh_CN.GB18030@radical", Some(Lang::ZhCn)),
        ("zh_SG", Some(Lang::ZhCn)),
        ("zh-Hans", Some(Lang::ZhCn)),
        ("zh-Hans-HK", Some(Lang::ZhCn)),
        ("es", Some(Lang::Es)),
        (" es_MX.UTF-8 ", Some(Lang::Es)),
        ("es-419", Some(Lang::Es)),
        ("", None),
        (".UTF-8", None),
        ("fr_FR.UTF-8", None),
        ("est", None),
        ("english", None),
    ];
    for (tag, lang) in table {
        assert_eq!(Lang::from_tag(tag), lang, "{tag:?}");
    }
}

#[test]
fn a_language_is_stored_by_its_tag() {
    for lang in Lang::ALL {
        assert_eq!(Lang::from_tag(lang.tag()), Some(lang));
        assert_eq!(serde_json::to_value(lang).expect("JSON"), lang.tag());
        assert_eq!(serde_json::from_value::<Lang>(lang.tag().into()).expect("a language"), lang);
    }
}

#[test]
fn the_flag_wins_over_ralph_lang_and_the_locale() {
    let table = [
        (Some(Lang::Es), Some("zh-TW"), Some("en_US"), Lang::Es),
        (None, Some("zh-TW"), Some("es_ES"), Lang::ZhTw),
        (None, None, Some("es_ES"), Lang::Es),
        (None, Some(""), Some("es_ES"), Lang::Es),
        (None, Some("fr"), Some("zh_CN"), Lang::ZhCn),
        (None, Some("en"), Some("zh_CN"), Lang::En),
        (None, Some("fr"), Some("de"), Lang::En),
        (None, None, None, Lang::En),
    ];
    for (flag, ralph_lang, lang, picked) in table {
        assert_eq!(Lang::pick(flag, ralph_lang, lang), picked, "{flag:?} {ralph_lang:?} {lang:?}");
    }
}

#[test]
fn only_known_placeholders_are_filled() {
    let table: [(&str, &Placeholders<'_>, &str); 6] = [
        ("#{n} / {most}", &[("n", &3), ("most", &100)], "#3 / 100"),
        ("{a}{a}", &[("a", &"x")], "xx"),
        ("{a} {b}", &[("a", &"{b}"), ("b", &"{a}")], "{b} {a}"),
        ("{n} {unknown}", &[("n", &1)], "1 {unknown}"),
        ("open { and {n}", &[("n", &1)], "open { and 1"),
        ("end {", &[], "end {"),
    ];
    for (template, values, filled) in table {
        assert_eq!(fill(template, values), filled);
    }
}

#[test]
fn an_error_kind_is_stored_by_its_name() {
    let table = [
        (ErrorKind::AgentExecution, "agent_execution", "Agent 執行錯誤"),
        (ErrorKind::TaskNotFound, "task_not_found", "找不到任務"),
        (ErrorKind::FileOperation, "file_operation", "檔案操作失敗"),
        (ErrorKind::CannotTell, "cannot_tell", "無法判定"),
    ];
    for (kind, stored, shown) in table {
        assert_eq!(serde_json::to_value(kind).expect("JSON"), stored);
        assert_eq!(Lang::ZhTw.words().error_kind(kind), shown);
    }
}

proptest! {
    #[test]
    fn a_text_without_known_names_stays_as_it_is(text in ".{0,60}") {
        prop_assert_eq!(fill(&text, &[]), text);
    }

    #[test]
    fn a_value_is_put_in_as_it_is(value in ".{0,40}") {
        prop_assert_eq!(fill("<{v}>", &[("v", &value)]), format!("<{value}>"));
    }

    #[test]
    fn no_tag_makes_it_panic(tag in ".{0,30}") {
        let _ = Lang::from_tag(&tag);
    }
}
