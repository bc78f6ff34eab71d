//! Unit tests have no overlay (this program is the test harness), so these run in copies; with the overlay the same is tested
//! in `tests/it/prove.rs`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ralph_core::config::Config;

use super::*;
use crate::store::home::Home;
use crate::store::repo::Repo;
use crate::work_tree::fingerprint::TreeReader;

/// A repo whose gate greps `src.txt`; the start is recorded before the change.
struct Scene {
    _dir: tempfile::TempDir,
    root: PathBuf,
    workspace: Workspace,
    start: StartContents,
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(path, text).expect("a file");
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let base = fs::canonicalize(dir.path()).expect("a path");
        let root = base.join("repo");
        write(&root, ".git/HEAD", "ref: refs/heads/main\n");
        for (path, text) in files {
            write(&root, path, text);
        }
        let home = Home::at(base.join("home"));
        let repo = Repo::find(&root, None).expect("readable").expect("a repo");
        let workspace = Workspace::new(&home, repo);
        let tree = TreeReader::new(&root).read().expect("a tree");
        let start = StartContents::record(&workspace.repo_home, &root, &tree).expect("recorded");
        Self { _dir: dir, root, workspace, start }
    }

    fn undo(&self, gates: &[Gate]) -> UndoSeen {
        self.ask(gates, undo)
    }

    fn ask<T>(&self, gates: &[Gate], ask: impl Fn(&UndoRequest<'_>) -> T) -> T {
        let effective = EffectiveGates {
            config: Config { gates: gates.to_vec(), ..Config::default() },
            ..EffectiveGates::nothing()
        };
        let now = TreeReader::new(&self.root).read().expect("a tree");
        let proving: Vec<GateName> = gates.iter().map(|gate| gate.name.clone()).collect();
        let environment = GateEnvironment::new(&[], &self.workspace.repo);
        ask(&UndoRequest {
            workspace: &self.workspace,
            effective: &effective,
            proving: &proving,
            start: &self.start,
            now: &now,
            in_place: &[],
            environment: &environment,
            mark: "undo-test",
            deadline: None,
            stop: &StopRequest::new(),
            logs: &self.workspace.repo_home.dir().join("logs"),
        })
    }
}

fn gate(run: &str) -> Gate {
    Gate { timeout: Duration::from_secs(20), ..Gate::sample("test", run) }
}

fn why(seen: UndoSeen) -> String {
    match seen {
        UndoSeen::NotJudged { why } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_fails_without_the_change_is_red() {
    let scene = Scene::new(&[("src.txt", "old\n"), ("tests/check", "")]);
    write(&scene.root, "src.txt", "new\n");
    let red =
        UndoSeen::Red { gates: vec![GateWithoutChange { gate: GateName::new("test"), failing: Vec::new() }] };
    assert_eq!(scene.undo(&[gate("case $(cat src.txt) in *new*) ;; *) false ;; esac")]), red);
    assert_eq!(fs::read_to_string(scene.root.join("src.txt")).expect("a file"), "new\n");
    // Failing tests are named where the runner does.
    let tap = gate(
        "echo TAP version 13; echo 1..1; case $(cat src.txt) in *new*) ;; *) false ;; esac && echo 'ok 1 - logs in' || { echo 'not ok 1 - logs in'; exit 1; }",
    );
    let UndoSeen::Red { gates } = scene.undo(&[tap]) else { panic!("red") };
    assert_eq!(gates[0].failing, ["logs in"]);
}

#[test]
fn what_passes_without_the_change_is_green() {
    let scene = Scene::new(&[("src.txt", "old\n"), ("tests/check", "old\n")]);
    write(&scene.root, "src.txt", "new\n");
    let green = UndoSeen::Green { gates: vec![GateName::new("test")] };
    assert_eq!(scene.undo(&[gate("test -f src.txt")]), green);
    // Only a test changed: nothing has to run.
    write(&scene.root, "src.txt", "old\n");
    write(&scene.root, "tests/check", "new\n");
    assert_eq!(scene.undo(&[gate("case $(cat tests/check) in *new*) ;; *) false ;; esac")]), green);
}

#[test]
fn new_files_go_and_deleted_ones_come_back() {
    let scene = Scene::new(&[("old/gone.txt", "x"), ("a.txt", "a")]);
    fs::remove_dir_all(scene.root.join("old")).expect("removed");
    write(&scene.root, "new/there.txt", "x");
    let red = gate("test -f new/there.txt && ! test -e old");
    assert!(matches!(scene.undo(&[red]), UndoSeen::Red { .. }));
    let green = gate("! test -e new && test -f old/gone.txt || test -f new/there.txt");
    assert!(matches!(scene.undo(&[green]), UndoSeen::Green { .. }));
}

#[test]
fn what_cannot_be_judged_says_why() {
    let scene = Scene::new(&[("src.txt", "old\n")]);
    write(&scene.root, "src.txt", "new\n");
    let once = Gate { rerun: false, ..gate("case $(cat src.txt) in *new*) ;; *) false ;; esac") };
    assert_eq!(why(scene.undo(&[once])), "`test` must not run twice (`rerun: false`)");
    let control =
        why(scene.undo(&[gate("test -d .git && case $(cat src.txt) in *new*) ;; *) false ;; esac")]));
    assert!(
        control.starts_with(
            "the control run of `test` in a copy of the files (no overlays in unit tests): failed"
        ),
        "{control}"
    );
    let missing =
        why(scene.undo(&[gate("case $(cat src.txt) in *new*) ;; *) false ;; esac || no-such-program")]));
    assert!(missing.starts_with("`test` could not start without the change"), "{missing}");
    let crash =
        why(scene.undo(&[gate("case $(cat src.txt) in *new*) ;; *) false ;; esac || kill -SEGV $$")]));
    assert!(crash.contains("signalled"), "{crash}");
    let inner_crash = why(
        scene.undo(&[gate("case $(cat src.txt) in *new*) ;; *) false ;; esac || sh -c 'kill -SEGV $$'")])
    );
    assert!(inner_crash.contains("crashed without the change (exit code 139)"), "{inner_crash}");
    let slow = Gate {
        timeout: Duration::from_millis(300),
        ..gate("case $(cat src.txt) in *new*) ;; *) false ;; esac || sleep 20")
    };
    assert_eq!(why(scene.undo(&[slow])), "`test` without the change: timed out");
    let daemon = why(scene.undo(&[gate("true docker compose")]));
    assert_eq!(daemon, "`test` works through docker, which does not see the view");
    write(&scene.root, "src/lib.rs", "fn broken( #[cfg(test)] mod tests {}\n");
    let inseparable = why(scene.undo(&[gate("case $(cat src.txt) in *new*) ;; *) false ;; esac")]));
    assert_eq!(inseparable, "the tests and the source in src/lib.rs cannot be separated");
}

#[test]
fn a_gate_that_changes_the_tree_meanwhile_is_not_judged() {
    let scene = Scene::new(&[("src.txt", "old\n")]);
    write(&scene.root, "src.txt", "new\n");
    let outside = scene.root.join("planted.txt");
    let seen = why(scene.undo(&[gate(&format!(
        "touch {}; case $(cat src.txt) in *new*) ;; *) false ;; esac",
        outside.display()
    ))]));
    assert_eq!(seen, "the files changed meanwhile");
}

#[test]
fn gates_before_it_run_where_the_proving_gate_alone_shows_nothing() {
    let scene = Scene::new(&[("src.txt", "old\n"), (".gitignore", "built\n")]);
    write(&scene.root, "src.txt", "new\n");
    let gates = [
        Gate { rerun: true, ..Gate::sample("build", "cp src.txt built") },
        gate("case $(cat built) in *new*) ;; *) false ;; esac"),
    ];
    let proving = [GateName::new("test")];
    let seen = scene.ask(&gates, |request| undo(&UndoRequest { proving: &proving, ..*request }));
    let UndoSeen::Red { gates } = seen else { panic!("{seen:?}") };
    assert_eq!(gates[0].gate, GateName::new("test"));
}

#[test]
fn the_start_is_run_as_it_was_and_in_a_copy_only_with_its_control() {
    let scene = Scene::new(&[("src.txt", "old\n"), ("tests/check", "old\n")]);
    write(&scene.root, "src.txt", "new\n");
    write(&scene.root, "tests/check", "new\n");
    let gates = [gate(
        "case $(cat src.txt) in *old*) ;; *) false ;; esac && case $(cat tests/check) in *old*) ;; *) false ;; esac",
    )];
    let refused = scene.ask(&gates, run_on_start).expect_err("no run in place to agree with");
    assert!(refused.starts_with("the gates do not give the same result in a copy"), "{refused}");
    let in_place = [GateReport {
        gate: GateName::new("test"),
        outcome: GateOutcome::Failed { code: 1 },
        ..crate::checks::gates::passed_report_for_tests()
    }];
    let reports = scene.ask(&gates, |request| run_on_start(&UndoRequest { in_place: &in_place, ..*request }));
    assert_eq!(reports.expect("reports")[0].outcome, GateOutcome::Passed);
}
