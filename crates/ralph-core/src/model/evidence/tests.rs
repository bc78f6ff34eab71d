use proptest::prelude::*;

use super::*;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn gate(at_start: Option<GateAtStart>, tests: Option<&[&str]>) -> GateEvidence {
    GateEvidence { gate: GateName::new("test"), at_start, tests: tests.map(names) }
}

fn green(tests: &[&str]) -> Option<GateAtStart> {
    Some(GateAtStart { passed: true, failing_tests: Vec::new(), tests: Some(names(tests)), ran: tests.len() })
}

fn red(failing: &[&str], tests: &[&str]) -> Option<GateAtStart> {
    let tests = (!tests.is_empty()).then(|| names(tests));
    Some(GateAtStart { passed: false, failing_tests: names(failing), tests, ran: failing.len() })
}

fn undo_red(failing: &[&str]) -> Option<UndoSeen> {
    Some(UndoSeen::Red {
        gates: vec![GateWithoutChange { gate: GateName::new("test"), failing: names(failing) }],
    })
}

fn undo_green() -> Option<UndoSeen> {
    Some(UndoSeen::Green { gates: vec![GateName::new("test")] })
}

const SOURCE: ChangedFiles = ChangedFiles { sources: 1, tests: 0, settings: 0, texts: 0 };
const WITH_TEST: ChangedFiles = ChangedFiles { tests: 1, ..SOURCE };

#[test]
fn the_table_of_levels() {
    use Level::{Passing, Unchanged, Verified};
    use Proof::{BehaviourKept, Off, Test};
    let none = ChangedFiles::default();
    let unsure = || Some(UndoSeen::NotJudged { why: "the copy differs".into() });
    let one = || gate(green(&["a"]), Some(&["a"]));
    let table = [
        ("nothing changed", Test, none, one(), None, Unchanged),
        ("nothing changed, nothing asked", Off, none, one(), None, Unchanged),
        (
            "red before, no file changed",
            Test,
            none,
            gate(red(&["a"], &[]), None),
            undo_red(&["a"]),
            Unchanged,
        ),
        ("green before and after", Test, SOURCE, one(), None, Passing),
        (
            "a test was red and is green",
            Test,
            SOURCE,
            gate(red(&["a"], &["a"]), Some(&["a"])),
            undo_red(&["a"]),
            Verified,
        ),
        (
            "the same, from outside the repo",
            Test,
            SOURCE,
            gate(red(&["a"], &["a"]), Some(&["a"])),
            undo_green(),
            Passing,
        ),
        (
            "the same, undo not judged",
            Test,
            SOURCE,
            gate(red(&["a"], &["a"]), Some(&["a"])),
            unsure(),
            Passing,
        ),
        ("the same, undo not run", Test, SOURCE, gate(red(&["a"], &["a"]), Some(&["a"])), None, Passing),
        (
            "another test than the red one fails without it",
            Test,
            SOURCE,
            gate(red(&["a"], &["a", "b"]), Some(&["a", "b"])),
            undo_red(&["b"]),
            Passing,
        ),
        ("a gate without tests was red", Test, SOURCE, gate(red(&[], &[]), None), undo_red(&[]), Verified),
        (
            "a new test fails without the change",
            Test,
            WITH_TEST,
            gate(green(&["a"]), Some(&["a", "b"])),
            undo_red(&["b"]),
            Verified,
        ),
        (
            "a new test does not compile without the change",
            Test,
            WITH_TEST,
            gate(green(&["a"]), Some(&["a", "b"])),
            undo_red(&["E0425"]),
            Verified,
        ),
        (
            "a new test passes without the change",
            Test,
            WITH_TEST,
            gate(green(&["a"]), Some(&["a", "b"])),
            undo_green(),
            Passing,
        ),
        (
            "a changed test fails without the change",
            Test,
            WITH_TEST,
            gate(green(&["a"]), Some(&["a"])),
            undo_red(&["a"]),
            Verified,
        ),
        (
            "only settings changed beside the source",
            Test,
            ChangedFiles { settings: 1, ..SOURCE },
            one(),
            undo_red(&["a"]),
            Passing,
        ),
        ("the start was not seen", Test, SOURCE, gate(None, None), undo_red(&[]), Verified),
        ("the start was not seen, undo green", Test, SOURCE, gate(None, None), undo_green(), Passing),
        ("nothing asked", Off, WITH_TEST, gate(red(&["a"], &["a"]), Some(&["a"])), undo_red(&["a"]), Passing),
        ("a refactoring", BehaviourKept, SOURCE, one(), None, Verified),
        (
            "a refactoring with a new test",
            BehaviourKept,
            SOURCE,
            gate(green(&["a"]), Some(&["a", "b"])),
            None,
            Verified,
        ),
        (
            "a refactoring that drops a test",
            BehaviourKept,
            SOURCE,
            gate(green(&["a", "b"]), Some(&["a"])),
            None,
            Passing,
        ),
        (
            "one of two tests of the same name is gone",
            BehaviourKept,
            SOURCE,
            gate(green(&["a", "a"]), Some(&["a"])),
            None,
            Passing,
        ),
        (
            "a refactoring of red tests",
            BehaviourKept,
            SOURCE,
            gate(red(&["a"], &["a"]), Some(&["a"])),
            None,
            Passing,
        ),
        (
            "a refactoring whose tests are not listed",
            BehaviourKept,
            SOURCE,
            gate(green(&["a"]), None),
            None,
            Passing,
        ),
        (
            "a refactoring whose start was not seen",
            BehaviourKept,
            SOURCE,
            gate(None, Some(&["a"])),
            None,
            Passing,
        ),
    ];
    for (row, proof, changes, gate, undo, expected) in table {
        let facts = EvidenceFacts { changes: Some(changes), gates: vec![gate], undo, no_test: None };
        assert_eq!(level(&facts, proof), expected, "{row}: {facts:?}");
    }
}

#[test]
fn what_is_shown_and_what_is_missing_is_named() {
    let facts =
        |gate, undo| EvidenceFacts { changes: Some(WITH_TEST), gates: vec![gate], undo, no_test: None };
    let name = || GateName::new("test");
    let both = facts(gate(red(&["a"], &["a"]), Some(&["a", "b"])), undo_red(&["a", "b"]));
    assert_eq!(
        evaluate(&both, Proof::Test),
        Evidence::Verified(vec![
            ShownFact::TestsFixed { gate: name(), tests: names(&["a"]) },
            ShownFact::NewTests { gate: name(), tests: names(&["b"]) },
        ])
    );
    let nothing = facts(gate(green(&["a"]), Some(&["a", "b"])), undo_green());
    assert_eq!(
        evaluate(&nothing, Proof::Test),
        Evidence::Passing(NotShown::PassesWithoutChange { gates: vec![name()], tests: names(&["b"]) })
    );
    let told = EvidenceFacts {
        changes: Some(SOURCE),
        no_test: Some("only colours".into()),
        ..facts(gate(green(&["a"]), Some(&["a"])), None)
    };
    let no_test = NotShown::NoTest { reason: "only colours".into() };
    assert_eq!(evaluate(&told, Proof::Test), Evidence::Passing(no_test));
}

#[test]
fn undo_is_asked_of_the_gates_that_can_show_something() {
    let facts = |changes, gate| EvidenceFacts {
        changes: Some(changes),
        gates: vec![gate],
        ..EvidenceFacts::default()
    };
    let table = [
        (facts(ChangedFiles::default(), gate(red(&[], &[]), None)), 0),
        (facts(SOURCE, gate(green(&["a"]), Some(&["a"]))), 0),
        (facts(WITH_TEST, gate(green(&["a"]), None)), 1),
        (facts(SOURCE, gate(green(&["a"]), Some(&["a", "b"]))), 1),
        (facts(SOURCE, gate(red(&[], &[]), None)), 1),
        (facts(SOURCE, gate(None, None)), 1),
    ];
    for (facts, gates) in table {
        assert_eq!(proving_gates(&facts).len(), gates, "{facts:?}");
    }
}

fn some_names() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[a-c]", 0..4)
}

fn some_gate() -> impl Strategy<Value = GateEvidence> {
    let start = (any::<bool>(), some_names(), proptest::option::of(some_names()), 0_usize..3)
        .prop_map(|(passed, failing_tests, tests, ran)| GateAtStart { passed, failing_tests, tests, ran });
    ("[x-z]", proptest::option::of(start), proptest::option::of(some_names()))
        .prop_map(|(name, at_start, tests)| GateEvidence { gate: GateName::new(name), at_start, tests })
}

fn some_undo() -> impl Strategy<Value = UndoSeen> {
    let without = ("[x-z]", some_names())
        .prop_map(|(gate, failing)| GateWithoutChange { gate: GateName::new(gate), failing });
    prop_oneof![
        proptest::collection::vec(without, 1..3).prop_map(|gates| UndoSeen::Red { gates }),
        Just(UndoSeen::Green { gates: vec![GateName::new("x")] }),
        Just(UndoSeen::NotJudged { why: "?".into() }),
    ]
}

prop_compose! {
    fn some_facts()(
        changes in proptest::option::of((0_usize..2, 0_usize..2, 0_usize..2, 0_usize..2)),
        gates in proptest::collection::vec(some_gate(), 0..4),
        undo in proptest::option::of(some_undo()),
        no_test in proptest::option::of(Just("because".to_owned())),
    ) -> EvidenceFacts {
        let changes = changes.map(|(sources, tests, settings, texts)| ChangedFiles { sources, tests, settings, texts });
        EvidenceFacts { changes, gates, undo, no_test }
    }
}

proptest! {
    /// `test` takes a red undo of a gate that was run; `behaviour-kept` takes test names read at the start and now, none
    /// gone; nothing else ever gives *verified*.
    #[test]
    fn never_verified_without_its_evidence(facts in some_facts(), which in 0_usize..3) {
        let proof = Proof::ALL[which];
        let verified = level(&facts, proof) == Level::Verified;
        let undo_is_red = matches!(&facts.undo, Some(UndoSeen::Red { gates })
            if gates.iter().any(|without| facts.gates.iter().any(|gate| gate.gate == without.gate)));
        let kept = facts.gates.iter().all(|gate| gate.at_start.as_ref().is_some_and(|start| {
            start.passed && match (&start.tests, &gate.tests) {
                (Some(before), Some(now)) => before.iter().all(|name| now.contains(name)),
                _ => start.ran == 0,
            }
        }));
        let listed = facts.gates.iter().any(|gate| gate.tests.is_some() && gate.at_start.as_ref().is_some_and(|start| start.tests.is_some()));
        let founded = match proof {
            Proof::Test => undo_is_red,
            Proof::BehaviourKept => kept && listed,
            Proof::Off => false,
        };
        prop_assert!(!verified || founded);
        prop_assert!(!verified || facts.changes.is_none_or(|changes| changes.total() > 0));
    }

    /// Less that was seen never gives a higher level.
    #[test]
    fn without_undo_a_test_proves_nothing(facts in some_facts()) {
        for undo in [None, Some(UndoSeen::NotJudged { why: "?".into() }), Some(UndoSeen::Green { gates: Vec::new() })] {
            let facts = EvidenceFacts { undo, ..facts.clone() };
            prop_assert_ne!(level(&facts, Proof::Test), Level::Verified);
        }
    }
}
