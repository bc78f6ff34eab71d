//! Who drives a loop: one process, which can be proven to be there or to be gone.

use ralph_core::ledger::event::Owner;

use crate::sys::proc::{self, Liveness};

/// This process as an owner.
pub(super) fn ours() -> Owner {
    let process = i32::try_from(std::process::id()).unwrap_or_default();
    let unknown = Owner { process, started: 0, boot: String::new(), pid_namespace: None };
    proc::identity(process).unwrap_or(unknown)
}

/// Whether the owner is still there. A number is used again, and after a reboot everybody has a new one.
pub(crate) fn is_held(owner: &Owner) -> bool {
    proc::liveness(owner) == Liveness::Running
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_by_a_living_process_of_this_boot_alone() {
        let ours = ours();
        assert!(is_held(&ours));
        assert!(!is_held(&Owner { boot: "another life of the machine".into(), ..ours.clone() }));
        assert!(!is_held(&Owner { started: ours.started + 1, ..ours.clone() }), "the number was used again");
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let process = i32::try_from(child.id()).expect("a number");
        child.wait().expect("it ends");
        assert!(!is_held(&Owner { process, ..ours }));
    }
}
