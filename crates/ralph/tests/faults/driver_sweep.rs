//! A kill or an error at the system calls of a running driver: a resume after the fault ends the loop
//! with the same iterations, and finds nothing half done.
//!
//! One short loop makes several hundred of these calls. A default run kills at every call that writes, and samples
//! the rest evenly.

use std::collections::VecDeque;
use std::time::Instant;

use ralph_core::model::verdict::Verdict;

use crate::driven::{Disturbed, DrivenLoop};
use crate::oracle::{Kept, KeptLedger, Tail};
use crate::saved::{Saved, age, unfinished};
use crate::sweep::{
    CALLS, Extent, FAULTS, Fault, Injured, Tally, ensure, extent, is_asked_for, on_two_cores, points,
};
use ralph_testkit::Finished;

/// A repo before its loop begins, restored before each fault.
struct Stage {
    driven: DrivenLoop,
    home: Saved,
    project: Saved,
}

/// Checkpoints are written by git, not by our own calls.
const MORE: [&str; 1] = ["--no-checkpoints"];

impl Stage {
    fn set_up() -> Self {
        let driven =
            DrivenLoop::of(2, "read -r _ number _ && echo $number > work", "test \"$(cat work)\" -ge 2");
        let (home, project) = (Saved::of(&driven.sandbox.ralph_home()), Saved::of(&driven.sandbox.project()));
        Self { driven, home, project }
    }

    /// One point: None if the loop ended before it.
    fn point(&self, calls: &str, fault: Fault, number: u32) -> Option<Result<(), String>> {
        self.home.put_back();
        self.project.put_back();
        let injured =
            Injured::run(&self.driven.begins(&MORE), &self.driven.sandbox, "", (calls, fault, number));
        if !injured.was_hit() {
            return None;
        }
        // A loop that could not judge what shows the task has ended.
        let is_passing = injured.ran.code == Some(6);
        let checked = self
            .after_fault(&injured)
            .and_then(|()| if is_passing { Ok(()) } else { self.after_fault_is_removed(fault) });
        Some(checked.map_err(|why| {
            let hits = injured.hits.join("\n    ");
            format!("{calls} {number}, {fault:?}: {why}\n    {hits}\n    {:?}", injured.ran)
        }))
    }

    fn after_fault(&self, injured: &Injured) -> Result<(), String> {
        let kept = Kept::look(&self.driven.sandbox.ralph_home(), Tail::MayBeTorn)?;
        let Finished { code, stdout, stderr } = &injured.ran;
        let verdicts = kept.loop_named("count").map(KeptLedger::verdicts).unwrap_or_default();
        let verified = verdicts.last() == Some(&Verdict::Verified);
        ensure(verified || !stdout.contains("VERIFIED_DONE"), "said to be verified, and is not")?;
        if injured.killed || injured.never_began() {
            return Ok(());
        }
        ensure(matches!(code, Some(0..=6)), "an unknown exit code")?;
        let is_passing = verdicts.last() == Some(&Verdict::Passing);
        ensure(*code != Some(6) || is_passing, "gates pass, without a verdict in the ledger")?;
        ensure(*code != Some(6) || stdout.contains("GATES_PASS"), "gates pass, without its last line")?;
        ensure(*code != Some(0) || verified, "exit code 0 without a verdict in the ledger")?;
        let deaf = injured.hits.iter().any(|hit| hit.contains("write(2,"));
        ensure(*code == Some(0) || deaf || !stderr.is_empty(), "it stopped without a word")
    }

    fn after_fault_is_removed(&self, fault: Fault) -> Result<(), String> {
        let sandbox = &self.driven.sandbox;
        let left = || [unfinished(&sandbox.ralph_home()), unfinished(&sandbox.project())].concat();
        age(&left());
        let ran = Finished::of(self.driven.resumes(&MORE).output().expect("the binary"));
        ensure(ran.code == Some(0), &format!("it does not go on to its end: {ran:?}"))?;
        let disturbed = if fault == Fault::Kill { Disturbed::ByKills } else { Disturbed::ByErrors };
        self.driven.is_over_and_complete(disturbed)?;
        Kept::look(&sandbox.ralph_home(), Tail::Whole)?;
        ensure(left().is_empty(), &format!("left lying: {:?}", left()))
    }

    fn sweep(&self, calls: &str, fault: Fault, extent: Extent) -> Tally {
        let mut tally = Tally::default();
        for number in points(fault, stride(calls, fault, extent)) {
            match self.point(calls, fault, number) {
                None => break,
                Some(outcome) => tally.count(outcome),
            }
        }
        tally
    }
}

/// One of how many calls of a kind is tried.
fn stride(calls: &str, fault: Fault, extent: Extent) -> usize {
    match (extent, calls, fault) {
        (Extent::Full, ..) => 1,
        (Extent::Usual, "openat", Fault::Kill) => 5,
        (Extent::Usual, "openat", Fault::Error(_)) => 13,
        (Extent::Usual, _, Fault::Kill) => 1,
        (Extent::Usual, _, Fault::Error(_)) => 3,
    }
}

#[test]
fn law_9_a_fault_at_any_system_call_of_the_driver_costs_no_iteration() {
    if !is_asked_for("Driven") {
        return;
    }
    let extent = extent();
    let begun = Instant::now();
    let pairs = FAULTS.into_iter().flat_map(|fault| CALLS.map(|calls| (fault, calls)));
    let mut jobs: VecDeque<(Fault, &str)> =
        pairs.filter(|(fault, calls)| fault.is_worth(calls, extent)).collect();
    // The longest first, so that no worker is left alone with it.
    jobs.make_contiguous().sort_by_key(|(fault, calls)| (*fault != Fault::Kill, *calls != "openat"));
    let tally = on_two_cores(jobs, |(fault, calls)| Stage::set_up().sweep(calls, fault, extent));
    tally.report("a driven loop", begun, 150);
}
