//! Files that a power cut truncated or filled with zeros: the next stop is judged as before, or allowed
//! loudly. They never cause a verified verdict.

use std::fs;
use std::path::PathBuf;

use super::oracle::{Kept, Tail};
use super::saved::{Saved, below};
use ralph_testkit::Sandbox;

fn scene() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file(".trellis/worktree.yaml", "verify:\n  - test -e done.txt\n");
    sandbox.file(".trellis/.current-task", ".trellis/tasks/login\n");
    sandbox.trust();
    // A receipt and a notice, then a loop that blocks.
    sandbox.file("done.txt", "");
    sandbox.ralph(&["verify"]).success();
    sandbox.stop("check").agent("agent-0").answer().allowed();
    sandbox.remove("done.txt");
    sandbox.stop("check").answer().blocked();
    sandbox
}

/// The first bytes, or as many zeros.
fn damages(text: &[u8]) -> Vec<Vec<u8>> {
    let length = text.len();
    let cuts = [0, 1, length / 3, length / 2, length.saturating_sub(1)];
    let mut damages: Vec<Vec<u8>> = cuts.iter().map(|cut| text[..*cut].to_vec()).collect();
    damages.push(vec![0; length]);
    let mut half = text.to_vec();
    half[length / 2..].fill(0);
    damages.push(half);
    damages
}

#[test]
fn law_9_no_torn_file_verifies_anything_or_fails_open_silently() {
    let sandbox = scene();
    let home = sandbox.ralph_home();
    let (saved, shown) = (Saved::of(&home), Saved::of(&sandbox.path(".trellis")));
    let is_kept = |path: &PathBuf| {
        path.is_file()
            && fs::metadata(path).is_ok_and(|meta| meta.len() > 0)
            && path.extension().is_none_or(|end| end != "log")
    };
    let mut files: Vec<PathBuf> = below(&home).into_iter().filter(is_kept).collect();
    files.push(sandbox.path(".trellis/.ralph-state.json"));
    let names: Vec<String> = files.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    for part in [
        "trust.json",
        "export.json",
        "/receipts/",
        "/notices/",
        "tree-cache",
        "/definitions/",
        "ledger",
        "ignore-rules",
    ] {
        assert!(names.iter().any(|name| name.contains(part)), "there is no {part}: {names:?}");
    }
    let mut count = 0;
    for path in &files {
        let text = saved.text(path).or_else(|| shown.text(path)).expect("saved");
        for damage in damages(text) {
            saved.put_back();
            shown.put_back();
            fs::write(path, &damage).expect("damage");
            count += 1;
            let answer = sandbox.stop("check").answer();
            let about = format!("{} of {} bytes: {answer:#?}", path.display(), damage.len());
            assert_eq!(answer.ran.code, Some(0), "{about}");
            let said = answer.ran.json();
            let message = said["systemMessage"].as_str().unwrap_or_default();
            assert!(
                said["decision"] == "block"
                    || message.contains("UNVERIFIED")
                    || message.contains("are not accepted"),
                "{about}"
            );

            sandbox.file("done.txt", "");
            let answer = sandbox.stop("check").answer();
            let passed = answer.ran.stdout.contains("Verification passed");
            assert!(
                passed
                    || answer.ran.stdout.contains("UNVERIFIED")
                    || answer.ran.stdout.contains("are not accepted"),
                "{about}, then {answer:#?}"
            );
            if passed {
                // A stop does not repair a file that it does not read: the damaged file itself may be unchanged.
                let folder = path.parent().expect("a folder").to_string_lossy().into_owned();
                let kept = Kept::look(&home, Tail::Whole);
                assert!(
                    kept.is_ok()
                        || kept
                            .as_ref()
                            .is_err_and(|why| why.contains(&folder) || why.contains("trusted but")),
                    "{about}: {kept:?}"
                );
            }
            sandbox.remove("done.txt");
        }
    }
    ralph_testkit::note(format_args!("faults: {count} damaged files"));
}
