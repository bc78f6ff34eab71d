//! A full disk. It has to be mounted, which not every machine allows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ralph_testkit::{Sandbox, note};

use crate::oracle::{Kept, Tail};

const GATES: &str = "verify:\n  - test -e done.txt\n";

/// A file system of a few pages; None where mounting is not allowed.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _status = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn law_9_a_full_disk_fails_open_loudly_and_verifies_nothing_it_cannot_record() {
    let mut sandbox = Sandbox::new();
    let small = sandbox.home().join("small");
    let disk = SmallDisk::mount(&small, "192k");
    if disk.is_none() {
        note("faults: mounting is not allowed here: only a limit on file sizes is tested, in `it`");
        return;
    }
    sandbox.set("RALPH_HOME", small.to_string_lossy());
    sandbox.file("ralph.yaml", GATES);
    sandbox.trust();
    sandbox.stop("check").answer().blocked();
    let filler = small.join("filler");
    for free_pages in 0..12usize {
        let _gone = fs::remove_file(&filler);
        fill(&filler, free_pages * 4096);
        for done in [false, true] {
            if done {
                sandbox.file("done.txt", "");
            } else if sandbox.exists("done.txt") {
                sandbox.remove("done.txt");
            }
            let answer = sandbox.stop("check").agent(&format!("agent-{free_pages}")).answer();
            let passed = done && answer.ran.stdout.contains("Verification passed");
            assert!(passed || answer.ran.blocks_or_says_unverified(), "{free_pages} pages left: {answer:#?}");
            let kept = Kept::look(&small, Tail::MayBeTorn).expect("sound on a full disk");
            if passed {
                assert!(kept.ledgers.iter().any(|ledger| !ledger.verdicts().is_empty()), "{kept:?}");
            }
        }
    }
    fs::remove_file(&filler).expect("our own");
    sandbox.file("done.txt", "");
    let message = sandbox.stop("check").answer().allowed();
    assert_eq!(message.as_deref(), Some("Verification passed: All verify commands passed"));
    drop(disk);
}

/// Fills the disk, then frees the given space.
fn fill(path: &Path, left: usize) {
    let mut size = 0;
    let mut file = fs::File::create(path).expect("a file");
    while std::io::Write::write(&mut file, &[b'x'; 1024]).is_ok_and(|written| written > 0) {
        size += 1024;
    }
    file.set_len(u64::try_from(size).expect("small").saturating_sub(left as u64)).expect("shorter");
}
