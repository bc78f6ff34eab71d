//! Which process drives a loop: one whose existence can be proven.

use ralph_core::ledger::event::Owner;

use crate::sys::proc::{self, Liveness};

/// This process as owner.
pub(super) fn ours() -> Owner {
    let process = i32::try_from(std::process::id()).unwrap_or_default();
    let unknown = Owner { process, started: 0, boot: String::new(), pid_namespace: None };
    proc::identity(process).unwrap_or(unknown)
}

/// Whether the owner still runs. Process ids are reused, also after a reboot.
pub(crate) fn is_held(owner: &Owner) -> bool {
    proc::liveness(owner) == Liveness::Running
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_only_by_a_live_process_of_this_boot() {
        let ours = ours();
        assert!(is_held(&ours));
        assert!(!is_held(&Owner { boot: "another boot".into(), ..ours.clone() }));
        assert!(!is_held(&Owner { started: ours.started + 1, ..ours.clone() }), "the process id was reused");
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let process = i32::try_from(child.id()).expect("a number");
        child.wait().expect("it ends");
        assert!(!is_held(&Owner { process, ..ours }));
    }
}
