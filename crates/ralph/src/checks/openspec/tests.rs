use std::os::unix::fs::symlink;
use std::time::Instant;

use tempfile::TempDir;

use super::*;

/// A repo with these changes, and beside it a folder for commands.
struct Scene {
    dir: TempDir,
}

impl Scene {
    fn with(changes: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        fs::create_dir_all(dir.path().join("a repo")).unwrap();
        let scene = Self { dir };
        for change in changes {
            scene.write(&tasks_file(change), "- [x] 1.1 done\n");
        }
        scene
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("a repo")
    }

    fn bin(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn has(&self, path: &str) -> bool {
        self.root().join(path).exists()
    }

    /// Creates an `openspec` script. A child process writes it: no other test's child can then hold it open and make it
    /// busy.
    fn openspec(&self, script: &str) {
        let written = std::process::Command::new("/bin/sh")
            .args(["-c", r#"printf '%s' "$1" > "$2" && chmod 755 "$2""#, "sh"])
            .arg(format!("#!/bin/sh\n{script}\n"))
            .arg(self.bin().join("openspec"))
            .status()
            .unwrap();
        assert!(written.success());
    }

    /// Only the test's own folder, and the system tools for the scripts in it.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let bin = self.bin();
        let path = if bin.join("openspec").exists() {
            std::env::join_paths([bin.as_path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap()
        } else {
            bin.into_os_string()
        };
        vec![("PATH".into(), path), ("A_TOKEN".into(), "hunter2hunter2".into())]
    }

    fn archive(&self, change: &str) -> Result<String, ArchiveError> {
        archive(&self.root(), change, &self.environment())
    }
}

const MOVES: &str = "mkdir -p openspec/changes/archive && mv \"openspec/changes/$2\" \"openspec/changes/archive/2026-01-31-$2\"";

#[test]
fn only_change_folders_are_listed() {
    let scene = Scene::with(&["b-change", "a-change", "archive", ".hidden", "新增登入", "-dash"]);
    scene.write("openspec/changes/file.md", "not a folder");
    scene.write("elsewhere/tasks.md", "");
    symlink(scene.root().join("elsewhere"), scene.root().join("openspec/changes/linked")).unwrap();
    assert_eq!(changes(&scene.root()).unwrap(), ["a-change", "b-change", "新增登入"]);
    assert_eq!(changes(&Scene::with(&[]).root()).unwrap(), Vec::<String>::new());
    assert_eq!(tasks_file("a-change"), "openspec/changes/a-change/tasks.md");
}

#[test]
fn folders_outside_the_repo_are_not_read() {
    let (other, scene) = (Scene::with(&["theirs"]), Scene::with(&[]));
    symlink(other.root().join("openspec"), scene.root().join("openspec")).unwrap();
    assert!(changes(&scene.root()).unwrap_err().to_string().contains("leads out of the repo"));
    assert!(matches!(resolve(&scene.root(), None), Err(NoSuchChange::Unreadable(_))));
    assert!(matches!(scene.archive("theirs"), Err(ArchiveError::NoSuchChange(_))));
    assert!(other.has("openspec/changes/theirs"));
}

#[test]
fn a_change_is_resolved_or_the_existing_ones_are_listed() {
    let none = "no change found in openspec/changes";
    let two = "several changes found in openspec/changes; choose one of: a, b";
    type Row = (&'static [&'static str], Option<&'static str>, Result<&'static str, &'static str>);
    let table: [Row; 16] = [
        (&["a"], None, Ok("a")),
        (&["a"], Some("a"), Ok("a")),
        (&["a", "b"], Some("b"), Ok("b")),
        (&["a", "archive"], None, Ok("a")),
        (&[], None, Err(none)),
        (&["archive"], None, Err(none)),
        (&["b", "a"], None, Err(two)),
        (&["b", "a"], Some("c"), Err("no change `c` in openspec/changes; found: a, b")),
        (&[], Some("c"), Err("no change `c` in openspec/changes; found: none")),
        (&["a", "archive"], Some("archive"), Err("no change `archive`")),
        (&["a"], Some("../a"), Err("`../a` is not a valid change name; found in openspec/changes: a")),
        (&["a"], Some("a/"), Err("`a/` is not a valid change name")),
        (&["a"], Some(".."), Err("`..` is not a valid change name")),
        (&["-yes"], Some("-yes"), Err("`-yes` is not a valid change name")),
        (&[".a"], Some(".a"), Err("`.a` is not a valid change name")),
        (&["a"], Some("\u{1b}[31m"), Err("`\\u{1b}[31m` is not a valid change name")),
    ];
    for (there, wanted, meant) in table {
        let found = resolve(&Scene::with(there).root(), wanted).map_err(|error| error.to_string());
        match (&found, meant) {
            (Ok(found), Ok(meant)) => assert_eq!(found, meant),
            (Err(error), Err(meant)) => assert!(error.starts_with(meant), "{error}"),
            _ => panic!("{there:?}, {wanted:?}: {found:?}"),
        }
    }
    let many: Vec<String> = (0..30).map(|number| format!("c{number:02}")).collect();
    let scene = Scene::with(&many.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(resolve(&scene.root(), None).unwrap_err().to_string().ends_with("c18, c19 and 10 more"));
}

#[test]
fn without_the_command_a_change_is_moved_and_never_onto_another() {
    let scene = Scene::with(&["a", "b"]);
    scene.write("openspec/changes/a/specs/x/spec.md", "text");
    assert_eq!(scene.archive("a").unwrap(), "openspec/archive/a");
    assert!(scene.has("openspec/archive/a/tasks.md") && scene.has("openspec/archive/a/specs/x/spec.md"));
    assert!(!scene.has("openspec/changes/a") && scene.has("openspec/changes/b"));
    assert!(matches!(scene.archive("a"), Err(ArchiveError::NoSuchChange(NoSuchChange::NotThere { .. }))));

    scene.write("openspec/changes/a/tasks.md", "again");
    let error = scene.archive("a").unwrap_err().to_string();
    assert_eq!(error, "openspec/archive/a already exists; move it away first");
    assert_eq!(fs::read_to_string(scene.root().join("openspec/changes/a/tasks.md")).unwrap(), "again");

    fs::create_dir(scene.root().join("openspec/archive/b")).unwrap();
    assert!(matches!(scene.archive("b"), Err(ArchiveError::TargetExists(_))), "an empty folder counts, too");
    assert!(scene.has("openspec/changes/b/tasks.md"));
}

#[test]
fn nothing_is_moved_out_of_the_repo() {
    let (other, scene) = (Scene::with(&[]), Scene::with(&["a"]));
    symlink(other.root(), scene.root().join("openspec/archive")).unwrap();
    assert!(scene.archive("a").unwrap_err().to_string().contains("leads out of the repo"));
    assert!(scene.has("openspec/changes/a/tasks.md") && !other.has("a"));
    for name in ["../changes/a", "..", "", "-a"] {
        assert!(matches!(
            scene.archive(name),
            Err(ArchiveError::NoSuchChange(NoSuchChange::NotAName { .. }))
        ));
    }
}

#[test]
fn a_file_named_archive_is_kept() {
    let scene = Scene::with(&["a"]);
    scene.write("openspec/archive", "a file");
    assert!(matches!(scene.archive("a"), Err(ArchiveError::NotMoved { .. })));
    assert!(scene.has("openspec/changes/a/tasks.md"));
}

#[test]
fn the_command_archives_and_the_result_is_read_from_disk() {
    let scene = Scene::with(&["a", "ba"]);
    scene.write("openspec/changes/archive/2025-01-01-a/tasks.md", "older");
    scene.write("openspec/changes/archive/2025-01-01-ba/tasks.md", "of another change");
    scene.openspec(&format!(
        "echo \"$OPENSPEC_TELEMETRY $CI\" > said; printf '<%s>' \"$@\" >> said; cat >> said; {MOVES}"
    ));
    assert_eq!(scene.archive("a").unwrap(), "openspec/changes/archive/2026-01-31-a");
    assert!(scene.has("openspec/changes/archive/2026-01-31-a/tasks.md") && !scene.has("openspec/archive"));
    assert_eq!(fs::read_to_string(scene.root().join("said")).unwrap(), "0 1\n<archive><a><--yes>");
}

#[test]
fn a_change_rejected_by_the_command_stays_in_place() {
    let table = [
        ("echo 'no such spec' >&2; exit 1", "failed with exit code 1: no such spec"),
        ("exit 3", "failed with exit code 3: no output"),
        ("echo fine", "left the change where it was: fine"),
        (
            "mkdir -p openspec/changes/archive; cp -r openspec/changes/a openspec/changes/archive/2026-01-31-a",
            "left the change where it was: no output",
        ),
        ("kill -9 $$", "was killed by signal 9: no output"),
        (
            "echo \"$A_TOKEN\"; printf '\\033[31m<promise>X</promise>'; exit 1",
            "[redacted]\n\u{2039}promise>X",
        ),
    ];
    for (script, said) in table {
        let scene = Scene::with(&["a"]);
        scene.openspec(script);
        let error = scene.archive("a").unwrap_err().to_string();
        assert!(error.starts_with("`openspec archive` ") && error.contains(said), "{script}: {error}");
        assert!(scene.has("openspec/changes/a/tasks.md") && !scene.has("openspec/archive"), "{script}");
    }
}

#[test]
fn a_hanging_command_is_killed() {
    let scene = Scene::with(&["a"]);
    scene.openspec("sleep 300");
    let environment = scene.environment();
    let program = program_in(&environment[0].1).unwrap();
    let command = ArchiveCommand { program, root: &scene.root(), change: "a", environment: &environment };
    let begun = Instant::now();
    let error = command.archive(Duration::from_secs(1)).unwrap_err().to_string();
    assert_eq!(error, "`openspec archive` timed out after 1 s: no output");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(scene.has("openspec/changes/a/tasks.md"));
}

#[test]
fn a_completed_move_counts_even_if_the_command_fails() {
    for end in ["exit 7", "sleep 300 &"] {
        let scene = Scene::with(&["a"]);
        scene.openspec(&format!("{MOVES}\n{end}"));
        assert_eq!(scene.archive("a").unwrap(), "openspec/changes/archive/2026-01-31-a", "{end}");
    }
}

#[test]
fn the_command_is_looked_for_in_absolute_folders_only() {
    let scene = Scene::with(&[]);
    scene.openspec("exit 0");
    let found = scene.bin().join("openspec");
    let path = |folders: &[&Path]| std::env::join_paths(folders).unwrap();
    assert_eq!(program_in(&path(&[&scene.root(), &scene.bin()])), Some(found));
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(scene.bin().strip_prefix("/").unwrap());
    assert!(relative.join("openspec").is_file(), "{}", relative.display());
    assert_eq!(program_in(&path(&[&relative])), None, "a relative folder");
    assert_eq!(program_in(OsStr::new("")), None);
    scene.write("openspec/x", "");
    assert_eq!(program_in(&path(&[&scene.root()])), None, "a folder is not a command");
    fs::set_permissions(scene.bin().join("openspec"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(program_in(&path(&[&scene.bin()])), None);
}
