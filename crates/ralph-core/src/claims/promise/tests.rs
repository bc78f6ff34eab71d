use proptest::prelude::*;

use super::*;

fn promise(text: &str) -> Promise {
    Promise::new(text).expect("a text")
}

fn other(text: &str) -> PromiseSeen {
    PromiseSeen::NearMiss(NearMiss::Other { text: text.into() })
}

/// Messages for the promise `ALL DONE`.
#[test]
fn only_the_tag_alone_on_a_line_gives_the_promise() {
    use PromiseSeen::{Absent, Given};
    const IN_A_SENTENCE: PromiseSeen = PromiseSeen::NearMiss(NearMiss::InASentence);
    const IN_CODE: PromiseSeen = PromiseSeen::NearMiss(NearMiss::InCode);
    const IN_A_QUOTE: PromiseSeen = PromiseSeen::NearMiss(NearMiss::InAQuote);
    const IN_A_COMMENT: PromiseSeen = PromiseSeen::NearMiss(NearMiss::InAComment);
    const BARE_TEXT: PromiseSeen = PromiseSeen::NearMiss(NearMiss::BareText);
    const UNCLOSED: PromiseSeen = PromiseSeen::NearMiss(NearMiss::Unclosed);
    let table = [
        ("<promise>ALL DONE</promise>", Given),
        ("It all works.\n\n<promise>ALL DONE</promise>\n", Given),
        ("It all works.\n<promise>ALL DONE</promise>\nGood night.", Given),
        ("\u{feff}<promise>ALL DONE</promise>\r\n", Given),
        ("   <promise>ALL DONE</promise>  \t", Given),
        ("\u{3000}<promise>ALL\u{3000}DONE</promise>\u{3000}", Given),
        ("<promise>  ALL \t DONE </promise>", Given),
        ("<promise>\nALL DONE\n</promise>", Given),
        ("<promise>\r\n    ALL\r\n    DONE\r\n</promise>", Given),
        ("<promise>ALL\n\nDONE</promise>", Given),
        ("**<promise>ALL DONE</promise>**", Given),
        ("_<promise>ALL DONE</promise>_", Given),
        ("**_<promise>ALL DONE</promise>_**", Given),
        ("**<promise>\nALL DONE\n</promise>**", Given),
        ("<promise>HALF</promise>\n<promise>ALL DONE</promise>", Given),
        ("<promise>ALL DONE</promise>\n<promise>HALF</promise>", Given),
        ("<promise>\n<promise>ALL DONE</promise>", Given),
        ("<promise>ALL DONE</promise>\n</promise>", Given),
        ("I said <promise>ALL DONE</promise> would come, and now:\n<promise>ALL DONE</promise>", Given),
        ("```\n<promise>ALL DONE</promise>\n```\n<promise>ALL DONE</promise>", Given),
        ("```sh\ncargo test\n```\n\n<promise>ALL DONE</promise>", Given),
        ("> all green\n\n<promise>ALL DONE</promise>", Given),
        ("I will output <promise>ALL DONE</promise> once done; 1 task remains.", IN_A_SENTENCE),
        ("<promise>ALL DONE</promise> comes later", IN_A_SENTENCE),
        ("not yet: <promise>ALL DONE</promise>", IN_A_SENTENCE),
        ("<promise>ALL DONE</promise>.", IN_A_SENTENCE),
        ("\"<promise>ALL DONE</promise>\"", IN_A_SENTENCE),
        ("- <promise>ALL DONE</promise>", IN_A_SENTENCE),
        ("* <promise>ALL DONE</promise> *", IN_A_SENTENCE),
        ("1. <promise>ALL DONE</promise>", IN_A_SENTENCE),
        ("# <promise>ALL DONE</promise>", IN_A_SENTENCE),
        ("**<promise>ALL DONE</promise>", IN_A_SENTENCE),
        ("<promise>ALL DONE</promise><promise>ALL DONE</promise>", IN_A_SENTENCE),
        ("<promise>ALL DONE</promise> <promise>HALF</promise>", IN_A_SENTENCE),
        ("I say <promise>\nALL DONE\n</promise>", IN_A_SENTENCE),
        ("<promise>\nALL DONE\n</promise> is next", IN_A_SENTENCE),
        ("<promise>ALL DONE</promise> <!-- yes -->", IN_A_SENTENCE),
        ("`<promise>ALL DONE</promise>`", IN_CODE),
        ("I will say `<promise>ALL DONE</promise>` then", IN_CODE),
        ("``` <promise>ALL DONE</promise> ```", IN_CODE),
        ("```\n<promise>ALL DONE</promise>\n```", IN_CODE),
        ("````md\n```\n```\n<promise>ALL DONE</promise>\n````", IN_CODE),
        ("~~~\n<promise>ALL DONE</promise>", IN_CODE),
        ("    <promise>ALL DONE</promise>", IN_CODE),
        ("For example:\n\t<promise>ALL DONE</promise>", IN_CODE),
        ("> <promise>ALL DONE</promise>", IN_A_QUOTE),
        ("- > you must say <promise>ALL DONE</promise>", IN_A_QUOTE),
        ("<!-- <promise>ALL DONE</promise> -->", IN_A_COMMENT),
        ("<!--\n<promise>ALL DONE</promise>\n-->", IN_A_COMMENT),
        ("Good. <!--\n<promise>ALL DONE</promise>\n-->", IN_A_COMMENT),
        ("<promise>ALL DONE", UNCLOSED),
        ("<promise>\nALL DONE\n", UNCLOSED),
        ("ALL DONE</promise>", UNCLOSED),
        ("<promise>ALL DONE<promise>", UNCLOSED),
        ("<promise>ALL DONE</promis>", UNCLOSED),
        ("<promise>ALL\n```\n```\nDONE</promise>", Absent),
        ("ALL DONE", BARE_TEXT),
        ("Everything passes.\n\n**ALL  DONE**", BARE_TEXT),
        ("- ALL DONE.", BARE_TEXT),
        ("## ✅ ALL DONE!", BARE_TEXT),
        ("`ALL DONE`", BARE_TEXT),
        ("<promise>HALF</promise>", other("HALF")),
        ("<promise>all done</promise>", other("all done")),
        ("<promise>ALL DONE!</promise>", other("ALL DONE!")),
        ("<promise>ALLDONE</promise>", other("ALLDONE")),
        ("<promise>**ALL DONE**</promise>", other("**ALL DONE**")),
        ("<promise></promise>", other("")),
        ("<Promise>ALL DONE</Promise>", other("<Promise>ALL DONE</Promise>")),
        ("<promise>ONE\u{7}</promise> <promise>TWO</promise>", other("ONE")),
        ("a `<promise>` tag follows when ALL DONE", Absent),
        ("It is not ALL DONE yet", Absent),
        ("all done", Absent),
        ("```\nALL DONE\n```\n> ALL DONE", Absent),
        ("```\n<promise>HALF</promise>\n```\n> <promise>ALL DONE", Absent),
        ("<promised>ALL DONE</promised>", Absent),
        ("", Absent),
        // Of several near misses the same one is always reported.
        ("<promise>HALF</promise>\nALL DONE\n<promise>ALL DONE", UNCLOSED),
        ("<promise>HALF</promise>\nALL DONE", BARE_TEXT),
        ("<promise>ALL DONE\n> <promise>ALL DONE</promise>", IN_A_QUOTE),
        ("> <promise>ALL DONE</promise>\n\n`<promise>ALL DONE</promise>`", IN_CODE),
        ("`<promise>ALL DONE</promise>`\nI say <promise>ALL DONE</promise>", IN_A_SENTENCE),
    ];
    for (message, seen) in table {
        assert_eq!(look(&promise("ALL DONE"), message), seen, "{message:?}");
    }
}

#[test]
fn any_text_that_fits_in_a_tag_can_be_promised() {
    let table = [
        ("DONE", Some("DONE")),
        ("  all \t tasks\n done ", Some("all tasks done")),
        ("所有任務完成", Some("所有任務完成")),
        ("it's \"done\": {yes}", Some("it's \"done\": {yes}")),
        ("**done**", Some("**done**")),
        ("> done", Some("> done")),
        ("```", Some("```")),
        ("✅", Some("✅")),
        ("a < b", Some("a < b")),
        ("<promise>DONE</promise>", Some("DONE")),
        (" <promise> DONE </promise> ", Some("DONE")),
        ("", None),
        (" \n ", None),
        ("<promise></promise>", None),
        ("<promise>DONE", None),
        ("say <Promise>", None),
    ];
    for (text, words) in table {
        let promise = Promise::new(text);
        assert_eq!(promise.as_ref().map(Promise::as_str), words, "{text:?}");
        if let Some(promise) = promise {
            assert_eq!(look(&promise, &promise.tag()), PromiseSeen::Given, "{text:?}");
            let seen = look(&promise, promise.as_str());
            assert_ne!(seen, PromiseSeen::Given, "{text:?}");
        }
    }
    assert!(serde_json::from_str::<Promise>("\" \"").is_err());
    assert_eq!(serde_json::to_string(&promise("a  b")).expect("text"), "\"a b\"");
}

#[test]
fn a_near_miss_is_explained_in_one_sentence_and_stored_by_its_name() {
    let table = [
        (NearMiss::InASentence, r#"{"near_miss":"in_a_sentence"}"#, "nothing before or after it"),
        (NearMiss::InCode, r#"{"near_miss":"in_code"}"#, "was inside code"),
        (NearMiss::InAQuote, r#"{"near_miss":"in_a_quote"}"#, "was quoted"),
        (NearMiss::InAComment, r#"{"near_miss":"in_a_comment"}"#, "HTML comment"),
        (
            NearMiss::Unclosed,
            r#"{"near_miss":"unclosed"}"#,
            "opening or closing tag of the promise is missing",
        ),
        (NearMiss::BareText, r#"{"near_miss":"bare_text"}"#, "without its tag"),
        (NearMiss::Other { text: "HALF".into() }, r#"{"near_miss":"other","text":"HALF"}"#, "(HALF)"),
    ];
    let promise = promise("ALL DONE");
    for (miss, written, word) in table {
        assert_eq!(serde_json::to_string(&miss).expect("text"), written);
        assert_eq!(serde_json::from_str::<NearMiss>(written).expect("a near miss"), miss);
        let sentence = explain(&miss, &promise);
        assert!(sentence.contains(word) && sentence.contains("<promise>ALL DONE</promise>"), "{sentence}");
        assert!(
            sentence.ends_with('.') && !sentence.contains(". ") && !sentence.contains('\n'),
            "{sentence}"
        );
        // Repeating the explanation is not a promise.
        assert_ne!(look(&promise, &sentence), PromiseSeen::Given, "{sentence}");
    }
}

#[test]
fn a_different_promise_is_quoted_in_a_hundred_characters() {
    for (length, shown) in [(99, 99), (100, 100), (101, 100), (5000, 100)] {
        let seen = look(&promise("DONE"), &format!("<promise>{}</promise>", "字".repeat(length)));
        let PromiseSeen::NearMiss(NearMiss::Other { text }) = seen else { panic!("{seen:?}") };
        assert_eq!(text.chars().count(), shown);
        assert_eq!(text.ends_with('…'), length > 100);
    }
}

proptest! {
    #[test]
    fn a_promise_inside_a_sentence_is_never_given(
        before in "[a-z][a-z ,]{0,20}", after in "[ ,a-z]{0,20}[a-z]", text in "[A-Z]{1,8}( [A-Z]{1,8}){0,2}",
    ) {
        let promise = promise(&text);
        let tag = promise.tag();
        let in_a_sentence = PromiseSeen::NearMiss(NearMiss::InASentence);
        prop_assert_eq!(look(&promise, &format!("{before} {tag} {after}")), in_a_sentence.clone());
        prop_assert_eq!(look(&promise, &format!("{before} {tag}")), in_a_sentence.clone());
        prop_assert_eq!(look(&promise, &format!("{tag} {after}")), in_a_sentence);
    }

    #[test]
    fn surrounding_prose_does_not_hide_the_promise(
        before in "([a-zA-Z.,:!? \n]|<promise>|</promise>|\\*){0,40}", after in "([-a-zA-Z<>`~.,:!? \n]|<promise>|</promise>){0,40}",
    ) {
        let promise = promise("ALL DONE");
        let message = format!("{before}\n{}\n{after}", promise.tag());
        prop_assert_eq!(look(&promise, &message), PromiseSeen::Given);
    }

    #[test]
    fn no_text_makes_it_panic(
        message in "([-*_`~> \t\r\n字]|<promise>|</promise>|<!--|-->|ALL|DONE|.){0,60}", text in ".{0,20}",
    ) {
        let _seen = look(&promise("ALL DONE"), &message);
        if let Some(promise) = Promise::new(&text) {
            prop_assert_eq!(look(&promise, &promise.tag()), PromiseSeen::Given);
            let _seen = look(&promise, &message);
        }
    }
}
