//! The runs behind `ralph prove`: all gates with the change, on the base, and with the current tests on the base's sources.

use ralph_core::model::file_change::{FileChange, ViewEdit};
use ralph_core::model::gate::calls::{self, NAMING_VARIABLES};
use ralph_core::model::gate::{Gate, GateReport};
use ralph_core::model::proof::{GateRuns, Proof};
use ralph_core::model::protected;

use crate::checks::gates::environment::GateEnvironment;
use crate::checks::gates_on_views::{ViewedGates, package_scripts, protected_files};
use crate::work_tree::view::ViewKind;

/// The rows, and what they rest on.
pub(crate) struct ProofSeen {
    pub(crate) proof: Proof,
    /// How the views were made.
    pub(crate) kind: ViewKind,
    /// The run with the change, for its failures.
    pub(crate) with: Vec<GateReport>,
}

/// Is told which of the runs begins.
pub(crate) type RunObserver<'a> = &'a dyn Fn(&str);

/// Makes runners name every test.
pub(crate) fn name_all_tests(
    gates: &[Gate],
    environment: &mut GateEnvironment,
    root: &std::path::Path,
) -> Vec<Gate> {
    for (name, value) in NAMING_VARIABLES {
        let known = environment.variables.iter().position(|(other, _)| other == name);
        let before = known.map(|at| environment.variables.remove(at).1).filter(|value| !value.is_empty());
        let mut text = before.unwrap_or_default();
        if !text.is_empty() {
            text.push(" ");
        }
        text.push(value);
        environment.variables.push((name.into(), text));
    }
    let scripts = package_scripts(root);
    let named = |gate: &Gate| {
        let run = calls::naming_all_tests(&gate.run, &scripts).unwrap_or_else(|| gate.run.clone());
        Gate { run, ..gate.clone() }
    };
    gates.iter().map(named).collect()
}

/// Compares the current files with a base that differs by `changes`.
pub(crate) fn prove(
    viewed: ViewedGates<'_>,
    changes: &[FileChange],
    watch: RunObserver<'_>,
) -> Result<ProofSeen, String> {
    let gates = viewed.gates;
    let undone = protected::undo_sources(changes, &protected_files(&viewed.workspace.repo.root, gates));
    let base: Vec<ViewEdit> = changes.iter().map(FileChange::undone).collect();
    let chosen: Vec<bool> = gates.iter().map(|gate| gate.rerun && !gate.advisory).collect();
    if !chosen.contains(&true) {
        return Err("no gate may run again (`rerun: false`)".into());
    }
    let views = viewed.begin()?;
    watch("with the change");
    let (with, kind) = views.run(&[], &chosen)?;
    watch("on the base");
    let (before, _) = views.run(&base, &chosen)?;
    let without = if undone.edits == base {
        before.clone()
    } else {
        watch("the current tests on the base's sources");
        views.run(&undone.edits, &chosen)?.0
    };
    views.require_unchanged()?;
    let runs = with.iter().zip(before.iter().zip(&without));
    let runs = runs.map(|(with, (before, without))| GateRuns { with, before, without });
    let mut proof = Proof::of(runs, &undone.inseparable);
    let left_out = gates.iter().zip(&chosen).filter(|(gate, is)| !**is && !gate.advisory);
    proof
        .notes
        .extend(left_out.map(|(gate, _)| format!("`{}` must not run twice (`rerun: false`)", gate.name)));
    let scripts = package_scripts(views.root());
    for gate in gates.iter().zip(&chosen).filter(|(_, is)| **is).map(|(gate, _)| gate) {
        if let Some(daemon) = scripts.behind(&gate.run).iter().find_map(|command| calls::daemon_in(command)) {
            proof.notes.push(format!("`{}` works through {daemon}, which may not see the view", gate.name));
        }
    }
    Ok(ProofSeen { proof, kind, with })
}
