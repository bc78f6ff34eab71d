use proptest::prelude::*;

use super::*;

/// Ticked and total boxes.
#[test]
fn a_box_is_a_list_item_that_begins_with_one() {
    let table = [
        ("- [ ] a", 0, 1),
        ("- [x] a", 1, 1),
        ("- [X] a", 1, 1),
        ("- [ ] a\n- [x] b\n- [X] c\n", 2, 3),
        ("- [ ] a\r\n- [x] b\r\n", 1, 2),
        ("\u{feff}- [x] a", 1, 1),
        ("* [x] a\n+ [ ] b", 1, 2),
        ("1. [x] a\n2) [ ] b\n10. [x] c", 2, 3),
        ("- [x] a\n  - [ ] b\n    - [x] c\n      - [ ] d", 2, 4),
        ("- [x] a\n\t- [ ] b\n\t\t* [x] c", 2, 3),
        ("    - [ ] a", 0, 1),
        ("-   [x]   a", 1, 1),
        ("-\t[ ]\ta", 0, 1),
        ("- [ x ] a\n- [x ] b\n- [\tX] c", 3, 3),
        ("- [] a\n- [  ] b", 0, 2),
        ("- [~] a\n- [-] b\n- [/] c\n- [✓] d", 0, 4),
        ("- [ ]\n- [x]\n- []", 1, 3),
        ("- [x] [a](b.md)", 1, 1),
        ("- [x] (a)", 1, 1),
        ("- [x] a [ ] b", 1, 1),
        ("- [ ] 所有任務\n- [x]完成", 1, 2),
        ("- [ ] a <!-- b -->", 0, 1),
        ("- [x] a <!--\n- [ ] b", 1, 2),
        ("- [x] a | b", 1, 1),
        ("# - [ ] a", 0, 0),
        ("- [text](url)", 0, 0),
        ("- [x](url)", 0, 0),
        ("- [ ](url)", 0, 0),
        ("- [x][ref]", 0, 0),
        ("- [x]: url", 0, 0),
        ("- [ref]: url", 0, 0),
        ("- [a] b\n- [1] c\n- [xx] d\n- [^1] e\n- [x x] f", 0, 0),
        ("- []byte is a slice", 0, 0),
        ("- [x a", 0, 0),
        ("- \\[x] a", 0, 0),
        ("-[x] a\n1.[x] b", 0, 0),
        ("[x] a\n[ ] b", 0, 0),
        ("a - [x] b", 0, 0),
        ("- a [x]", 0, 0),
        ("- **[x]** a", 0, 0),
        ("```\n- [ ] a\n```\n- [x] b", 1, 1),
        ("~~~md\n- [ ] a\n```\n- [ ] b\n~~~\n- [x] c", 1, 1),
        ("````\n```\n- [ ] a\n```\n- [ ] b\n````\n- [x] c", 1, 1),
        ("- [x] a\n  ```\n  - [ ] b\n  ```\n- [x] c", 2, 2),
        ("- [x] a\n```\n- [ ] b", 1, 1),
        ("> - [ ] a\n- > - [ ] b\n- [x] c", 1, 1),
        ("<!-- - [ ] a -->\n- [x] b", 1, 1),
        ("<!--\n- [ ] a\n\n- [ ] b\n-->\n- [x] c", 1, 1),
        ("`- [ ] a`", 0, 0),
        ("Nothing to do.", 0, 0),
        ("", 0, 0),
    ];
    for (text, done, total) in table {
        let list = TaskList::parse(text);
        assert_eq!((list.done(), list.total()), (done, total), "{text:?}");
        assert_eq!(list.open().count(), total - done, "{text:?}");
        assert_eq!(list.next().is_none(), done == total, "{text:?}");
    }
}

#[test]
fn a_task_has_a_number_a_text_and_fields() {
    let task = |number: &str, text: &str| ListedTask {
        number: Some(number.to_owned()).filter(|number| !number.is_empty()),
        text: text.into(),
        line: 1,
        ..ListedTask::default()
    };
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let table = [
        ("1.1 Do it", task("1.1", "Do it")),
        ("1.1. Do it", task("1.1", "Do it")),
        ("1.2.3: Do it", task("1.2.3", "Do it")),
        ("2. Do it", task("2", "Do it")),
        ("2) Do it", task("2", "Do it")),
        ("1.1 建立", task("1.1", "建立")),
        ("1.1建立", task("1.1", "建立")),
        ("1.1", task("1.1", "")),
        ("2 retries", task("", "2 retries")),
        ("1.5x faster", task("", "1.5x faster")),
        ("1..2 range", task("", "1..2 range")),
        (".5 range", task("", ".5 range")),
        ("Do it", task("", "Do it")),
        (") odd", task("", ") odd")),
        ("", task("", "")),
        ("Run `a | b`", task("", "Run `a | b`")),
        ("a: b | c: d", task("", "a: b | c: d")),
        (
            "1.1 Do it | agent: ralph-coder",
            ListedTask { agent: Some("ralph-coder".into()), ..task("1.1", "Do it") },
        ),
        ("1.1 Do it | agent: ", task("1.1", "Do it")),
        (
            "1.1 Run a | b | agent: A | files: src/a.rs, `b c.rs`,, | depends: 1.2, 1.3",
            ListedTask {
                agent: Some("A".into()),
                files: words(&["src/a.rs", "b c.rs"]),
                depends: words(&["1.2", "1.3"]),
                ..task("1.1", "Run a | b")
            },
        ),
        (
            "1.1 Do it|Depends:1.2|size: 3|FILES : a",
            ListedTask { files: words(&["a"]), depends: words(&["1.2"]), ..task("1.1", "Do it") },
        ),
    ];
    for (text, expected) in table {
        assert_eq!(TaskList::parse(&format!("- [ ] {text}")).tasks, [expected], "{text:?}");
    }
}

#[test]
fn a_heading_with_a_number_or_with_tasks_is_a_phase() {
    let table = [
        ("## 1. Setup", Some(1), "Setup", PhaseOrder::Sequential, vec![]),
        ("# 1) Setup", Some(1), "Setup", PhaseOrder::Sequential, vec![]),
        ("###### 12. Setup ##", Some(12), "Setup", PhaseOrder::Sequential, vec![]),
        ("## 1. Setup (sequential)", Some(1), "Setup", PhaseOrder::Sequential, vec![]),
        ("## 2. Core (parallel)", Some(2), "Core", PhaseOrder::Parallel, vec![]),
        ("## 2. Core (Parallel, depends: 1)", Some(2), "Core", PhaseOrder::Parallel, vec![1]),
        (
            "## 3. Core (v2) (sequential, depends: 1, 2)",
            Some(3),
            "Core (v2)",
            PhaseOrder::Sequential,
            vec![1, 2],
        ),
        ("## 3. Core (depends: 1, 2)", Some(3), "Core", PhaseOrder::Sequential, vec![1, 2]),
        ("## 3. Core (parallel, depends: none)", Some(3), "Core", PhaseOrder::Parallel, vec![]),
        (
            "## 3. Core (parallel, files: 1)",
            Some(3),
            "Core (parallel, files: 1)",
            PhaseOrder::Sequential,
            vec![],
        ),
        ("## 3. Core (optional)", Some(3), "Core (optional)", PhaseOrder::Sequential, vec![]),
        ("## 3. Core ()", Some(3), "Core ()", PhaseOrder::Sequential, vec![]),
        ("## 1.環境 (parallel)", Some(1), "環境", PhaseOrder::Parallel, vec![]),
        ("## 99999999999. Far", None, "99999999999. Far", PhaseOrder::Sequential, vec![]),
        ("## Setup (parallel)", None, "Setup", PhaseOrder::Parallel, vec![]),
        ("## . Setup", None, ". Setup", PhaseOrder::Sequential, vec![]),
        ("##", None, "", PhaseOrder::Sequential, vec![]),
    ];
    for (heading, number, name, order, depends) in table {
        let phase = Phase { number, name: name.into(), order, depends };
        let alone = TaskList::parse(heading).phases;
        assert_eq!(alone.first(), Some(&phase).filter(|_| number.is_some()), "{heading:?}");
        assert_eq!(TaskList::parse(&format!("{heading}\n- [ ] a")).phases, [phase], "{heading:?}");
    }
    for no_heading in ["##1. Setup", "####### 1. Setup", "    ## 1. Setup", "> ## 1. Setup", "1. Setup"] {
        let list = TaskList::parse(&format!("{no_heading}\n- [ ] a"));
        assert!(list.phases.is_empty(), "{no_heading:?}");
        assert_eq!(list.tasks[0].phase, None, "{no_heading:?}");
    }
}

#[test]
fn a_task_belongs_to_the_phase_above_it() {
    let list = TaskList::parse(
        "# Tasks\n\n- [ ] a\n## 1. One\n- [x] b\n### Notes\n- [ ] c\n### 1.1 Part\n- [ ] d\n## 2. Two\n## Rest\n- [ ] e\n# End\n",
    );
    let names: Vec<&str> = list.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["Tasks", "One", "Two", "Rest"]);
    let placed: Vec<_> = list.tasks.iter().map(|task| (task.text.as_str(), task.line, task.phase)).collect();
    assert_eq!(
        placed,
        [("a", 3, Some(0)), ("b", 5, Some(1)), ("c", 7, Some(1)), ("d", 9, Some(1)), ("e", 12, Some(3))]
    );
}

#[test]
fn the_next_task_has_no_open_dependencies() {
    let table = [
        ("- [x] a\n- [ ] b\n- [ ] c", Some("b")),
        ("- [ ] 1.1 a | depends: 1.2\n- [ ] 1.2 b", Some("b")),
        ("- [ ] 1.1 a | depends: 1.2\n- [x] 1.2 b", Some("a")),
        ("- [ ] 1.1 a | depends: 1.3 1.2\n- [x] 1.2 b\n- [ ] 1.3 c", Some("c")),
        ("- [ ] 1.1 a | depends: 9.9\n- [ ] 1.2 b", Some("a")),
        ("- [ ] 1.1 a | depends: 1.2\n- [ ] 1.2 b | depends: 1.1", Some("a")),
        ("## 1. A (parallel, depends: 2)\n- [ ] a\n## 2. B\n- [x] b\n- [ ] c", Some("c")),
        ("## 1. A (parallel, depends: 2)\n- [ ] a\n## 2. B\n- [x] b\n- [x] c", Some("a")),
        ("## 1. A (parallel, depends: 1)\n- [x] a\n- [ ] b", Some("b")),
        ("## 1. A (parallel, depends: 3)\n- [ ] a\n## 3. Empty", Some("a")),
        ("- [x] a", None),
        ("", None),
    ];
    for (text, next) in table {
        assert_eq!(TaskList::parse(text).next().map(|task| task.text.as_str()), next, "{text:?}");
    }
}

/// Quadratic time would take minutes here.
#[test]
fn a_huge_list_is_read_at_once() {
    const LENGTH: usize = 1 << 18;
    let pieces = [
        "- [ ] a | depends: b\n",
        "- ",
        "- [ ",
        "| agent: ",
        "|",
        "## 1. a (",
        "1, ",
        "1.",
        "- [x] 1.1 a | depends: 1.1\n## 1. b (parallel, depends: 1, 1, 1)\n",
        "<!-- ",
        "```\n",
        "> ",
        "字",
    ];
    for piece in pieces {
        for head in ["", "- [ ] a | depends: ", "## 1. a (parallel, depends: "] {
            let text = format!("{head}{}", piece.repeat(LENGTH / piece.len()));
            let list = TaskList::parse(&text);
            assert!(list.done() <= list.total());
            assert!(list.next().is_some() || list.open().next().is_none());
        }
    }
}

proptest! {
    #[test]
    fn as_many_boxes_as_were_written_are_counted(
        boxes in prop::collection::vec(
            (0..4_usize, prop::sample::select(vec!["-", "*", "+", "1.", "2)"]), any::<bool>(), "[a-z字 ]{0,9}"), 0..20),
    ) {
        let text: String = boxes
            .iter()
            .map(|(depth, mark, done, text)| {
                format!("{}{mark} [{}] {text}\n", "  ".repeat(*depth), if *done { 'x' } else { ' ' })
            })
            .collect();
        let list = TaskList::parse(&text);
        prop_assert_eq!(list.total(), boxes.len());
        prop_assert_eq!(list.done(), boxes.iter().filter(|(_, _, done, _)| *done).count());
        prop_assert!(list.tasks.iter().map(|task| task.line).eq(1..=boxes.len()));
    }

    #[test]
    fn any_text_is_a_list(
        text in "([-*+>#|.:,() \t\r\n字]|\\[ \\]|\\[x\\]|- |## 1\\. |depends:|files:|```|~~~|<!--|-->|.){0,80}",
    ) {
        let list = TaskList::parse(&text);
        prop_assert!(list.done() <= list.total());
        prop_assert_eq!(list.open().count(), list.total() - list.done());
        prop_assert_eq!(list.next().is_some(), list.done() < list.total());
        for task in &list.tasks {
            prop_assert!(task.phase.is_none_or(|phase| phase < list.phases.len()));
            let line = text.lines().nth(task.line - 1).unwrap_or_default();
            prop_assert!(line.contains(&task.text) && line.contains(']'));
        }
    }
}
