//! The order of gates as a graph, queried step by step.

use crate::model::gate::{Gate, GateOrder};
use crate::model::id::GateName;

/// The gates of one run, each with the gates that must pass before it.
#[derive(Clone, Debug)]
pub struct GatePlan {
    needs: Vec<Vec<usize>>,
}

/// Why a list of gates cannot be ordered; reported when the config is read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("gate `{gate}` needs `{missing}`, which is not in the list")]
    NoSuchGate { gate: GateName, missing: GateName },
    #[error("gate `{gate}` waits for itself through its `needs`")]
    Circle { gate: GateName },
}

/// The progress of one gate in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanProgress {
    Waiting,
    Running,
    Passed,
    /// Failed or could not be evaluated: with fail-fast nothing new starts after it.
    NotPassed,
}

impl GatePlan {
    pub fn new(gates: &[Gate]) -> Result<Self, PlanError> {
        let mut needs = Vec::with_capacity(gates.len());
        // The first gate of the parallel group that the current gate can join.
        let mut group_start = 0;
        for (at, gate) in gates.iter().enumerate() {
            match &gate.order {
                GateOrder::AfterAllAbove => {
                    needs.push((0..at).collect());
                    group_start = at + 1;
                }
                GateOrder::WithNeighbours => needs.push((0..group_start).collect()),
                GateOrder::After(names) => needs.push(positions(gate, names, gates)?),
            }
        }
        let plan = Self { needs };
        match plan.circle() {
            Some(at) => Err(PlanError::Circle { gate: gates[at].name.clone() }),
            None => Ok(plan),
        }
    }

    /// The gates that may start now, in config order.
    pub fn ready(&self, progress: &[PlanProgress], keep_going: bool) -> Vec<usize> {
        let failed = progress.contains(&PlanProgress::NotPassed);
        if failed && !keep_going {
            return Vec::new();
        }
        let settled = |&at: &usize| match progress[at] {
            PlanProgress::Passed => true,
            PlanProgress::NotPassed => keep_going,
            PlanProgress::Waiting | PlanProgress::Running => false,
        };
        (0..self.needs.len())
            .filter(|&at| progress[at] == PlanProgress::Waiting && self.needs[at].iter().all(settled))
            .collect()
    }

    /// Every gate that depends on this one, directly or indirectly.
    pub fn after(&self, at: usize) -> Vec<usize> {
        let mut after: Vec<usize> = Vec::new();
        let mut next = vec![at];
        while let Some(gate) = next.pop() {
            let waiting = (0..self.needs.len()).filter(|other| self.needs[*other].contains(&gate));
            let new: Vec<usize> = waiting.filter(|other| !after.contains(other)).collect();
            after.extend(&new);
            next.extend(new);
        }
        after
    }

    /// The gates that must have passed before this one.
    pub fn before(&self, at: usize) -> &[usize] {
        &self.needs[at]
    }

    fn circle(&self) -> Option<usize> {
        let mut done = vec![false; self.needs.len()];
        loop {
            let next = (0..done.len()).find(|&at| !done[at] && self.needs[at].iter().all(|&need| done[need]));
            match next {
                Some(at) => done[at] = true,
                None => return done.iter().position(|done| !done),
            }
        }
    }
}

fn positions(gate: &Gate, names: &[GateName], gates: &[Gate]) -> Result<Vec<usize>, PlanError> {
    let position = |name: &GateName| {
        gates
            .iter()
            .position(|other| other.name == *name)
            .ok_or_else(|| PlanError::NoSuchGate { gate: gate.name.clone(), missing: name.clone() })
    };
    names.iter().map(position).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gate::DEFAULT_TIMEOUT;

    fn gate(name: &str, order: GateOrder) -> Gate {
        Gate {
            name: GateName::new(name),
            run: name.into(),
            timeout: DEFAULT_TIMEOUT,
            advisory: false,
            inputs: Vec::new(),
            writes: Vec::new(),
            retries: 0,
            results: None,
            rerun: true,
            order,
        }
    }

    /// Runs a plan with every gate passing and returns the waves.
    fn waves(gates: &[Gate]) -> Vec<Vec<String>> {
        let plan = GatePlan::new(gates).expect("a plan");
        let mut progress = vec![PlanProgress::Waiting; gates.len()];
        let mut waves = Vec::new();
        loop {
            let ready = plan.ready(&progress, false);
            if ready.is_empty() {
                return waves;
            }
            for &at in &ready {
                progress[at] = PlanProgress::Passed;
            }
            waves.push(ready.into_iter().map(|at| gates[at].name.to_string()).collect());
        }
    }

    fn after(names: &[&str]) -> GateOrder {
        GateOrder::After(names.iter().copied().map(GateName::new).collect())
    }

    #[test]
    fn a_plain_list_runs_in_order() {
        let gates = [gate("a", GateOrder::AfterAllAbove), gate("b", GateOrder::AfterAllAbove)];
        assert_eq!(waves(&gates), [["a"], ["b"]]);
    }

    #[test]
    fn neighbours_marked_parallel_run_together_between_the_plain_ones() {
        let gates = [
            gate("fmt", GateOrder::AfterAllAbove),
            gate("lint", GateOrder::WithNeighbours),
            gate("types", GateOrder::WithNeighbours),
            gate("test", GateOrder::AfterAllAbove),
        ];
        assert_eq!(waves(&gates), [vec!["fmt"], vec!["lint", "types"], vec!["test"]]);
    }

    #[test]
    fn needs_makes_the_wall_time_the_critical_path() {
        let gates = [
            gate("build", GateOrder::AfterAllAbove),
            gate("unit", after(&["build"])),
            gate("docs", after(&[])),
            gate("e2e", after(&["build"])),
        ];
        assert_eq!(waves(&gates), [vec!["build", "docs"], vec!["unit", "e2e"]]);
    }

    #[test]
    fn the_first_failure_stops_unless_told_to_keep_going() {
        let gates = [gate("a", GateOrder::AfterAllAbove), gate("b", GateOrder::AfterAllAbove)];
        let plan = GatePlan::new(&gates).expect("a plan");
        let progress = [PlanProgress::NotPassed, PlanProgress::Waiting];
        assert!(plan.ready(&progress, false).is_empty());
        assert_eq!(plan.ready(&progress, true), [1]);
    }

    #[test]
    fn indirect_dependents_are_found() {
        let gates = [
            gate("build", GateOrder::AfterAllAbove),
            gate("unit", after(&["build"])),
            gate("report", after(&["unit"])),
            gate("docs", after(&[])),
        ];
        let plan = GatePlan::new(&gates).expect("a plan");
        let mut later = plan.after(0);
        later.sort_unstable();
        assert_eq!(later, [1, 2]);
        assert!(plan.after(3).is_empty());
        assert_eq!(plan.before(2), [1]);
    }

    #[test]
    fn cycles_and_unknown_names_are_refused() {
        let circle = [gate("a", after(&["b"])), gate("b", after(&["a"]))];
        assert!(matches!(GatePlan::new(&circle), Err(PlanError::Circle { .. })));
        let missing = [gate("a", after(&["missing"]))];
        assert!(matches!(GatePlan::new(&missing), Err(PlanError::NoSuchGate { .. })));
    }
}
