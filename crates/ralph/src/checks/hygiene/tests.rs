use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

struct Scene {
    dir: TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { dir: TempDir::new().expect("a folder") };
        scene.git(&["init", "-q", "-b", "main"]);
        scene
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("our own")
    }

    fn git(&self, words: &[&str]) -> String {
        let mut command = Command::new("git");
        command.current_dir(self.dir.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.args(["-c", "user.name=n", "-c", "user.email=e@e", "-c", "commit.gpgSign=false"]).args(words);
        let output = command.output().expect("git");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("our own");
        fs::write(path, text).expect("our own");
    }

    fn told(&self, since: Option<&str>) -> Vec<String> {
        let scratch = TempDir::new().expect("a folder");
        flaws(&self.root(), scratch.path(), since).iter().map(ToString::to_string).collect()
    }
}

#[test]
fn only_what_was_added_counts_in_old_files_and_all_of_new_ones() {
    let scene = Scene::new();
    scene.file("old.py", "x = 1\nbreakpoint()\n");
    scene.commit();
    assert_eq!(scene.told(None), Vec::<String>::new(), "it was there before");
    scene.file("old.py", "x = 1\nbreakpoint()\ny = 3\npdb.set_trace()\n");
    scene.file("src/new file.rs", "fn f() {\n    todo\u{21}()\n}\n");
    scene.file(".gitignore", "ignored.py\n");
    scene.file("ignored.py", "breakpoint()\n");
    let told = scene.told(None);
    assert_eq!(
        told,
        [
            "old.py:4: a debugger statement (`pdb.set_trace()`)",
            "src/new file.rs:2: a placeholder (`todo\u{21}()`)",
        ]
    );
}

#[test]
fn what_was_committed_since_the_session_began_counts_too() {
    let scene = Scene::new();
    scene.file("a.ts", "export {}\n");
    let began = scene.commit();
    scene.file("a.ts", "export {}\ndebugger;\n");
    scene.commit();
    assert_eq!(scene.told(None), Vec::<String>::new());
    assert_eq!(scene.told(Some(&began)), ["a.ts:2: a debugger statement (`debugger;`)"]);
    let unknown = "0123456789012345678901234567890123456789";
    assert_eq!(scene.told(Some(unknown)), Vec::<String>::new(), "then since the last commit");
}

#[test]
fn before_the_first_commit_and_without_git_nothing_goes_wrong() {
    let scene = Scene::new();
    scene.file("a.py", "breakpoint()\n");
    assert_eq!(scene.told(None), ["a.py:1: a debugger statement (`breakpoint()`)"]);
    scene.git(&["add", "-A"]);
    assert_eq!(scene.told(None), ["a.py:1: a debugger statement (`breakpoint()`)"], "staged is added, too");
    let plain = TempDir::new().expect("a folder");
    fs::write(plain.path().join("a.py"), "breakpoint()\n").expect("our own");
    assert_eq!(flaws(plain.path(), plain.path(), None), []);
}

#[test]
fn a_changed_file_that_its_own_language_cannot_read_is_named() {
    let scene = Scene::new();
    let broken = [
        ("a.json", "{\"a\": 1,,}", true),
        ("lenient.json", "// a comment\n{\"a\": 1,}", false),
        ("fine.json", "{\"a\": 1}", false),
        ("a.py", "def f(:\n  pass\n", true),
        ("fine.py", "import nothing_that_is_there\n", false),
        ("a.sh", "if true; then\n", true),
        ("fine.sh", "echo fine\n", false),
    ];
    for (name, text, _) in broken {
        scene.file(name, text);
    }
    let told = scene.told(None);
    let is_there =
        |name: &str| told.iter().any(|line| line.starts_with(&format!("{name}: it cannot be parsed (")));
    for (name, _, is_broken) in broken {
        assert_eq!(is_there(name), is_broken, "{name}: {told:#?}");
    }
}

#[test]
fn nothing_but_text_of_a_sane_size_is_read() {
    let scene = Scene::new();
    scene.file("large.py", &format!("breakpoint()\n{}", "x = 1\n".repeat(300_000)));
    fs::write(scene.dir.path().join("bytes.py"), b"breakpoint()\n\0\xff").expect("our own");
    std::os::unix::fs::symlink("/etc/passwd", scene.dir.path().join("link.py")).expect("our own");
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.dir.path().join("pipe.py"), rustix::fs::Mode::RUSR)
        .expect("our own");
    assert_eq!(scene.told(None), Vec::<String>::new());
}

#[test]
fn no_filter_of_the_repo_is_run() {
    let scene = Scene::new();
    scene.file("a.py", "x = 1\n");
    scene.commit();
    let mark = scene.dir.path().join(".git/ran");
    scene.git(&["config", "filter.x.clean", &format!("echo ran >> {}; cat", mark.display())]);
    scene.file(".git/info/attributes", "* filter=x\n");
    scene.file("a.py", "x = 1\nbreakpoint()\n");
    assert_eq!(scene.told(None).len(), 1);
    assert!(!mark.exists(), "the filter was run");
}
