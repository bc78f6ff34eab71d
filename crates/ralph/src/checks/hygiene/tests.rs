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

    fn problems(&self, since: Option<&str>) -> Vec<String> {
        let scratch = TempDir::new().expect("a folder");
        find_problems(&self.root(), scratch.path(), since).iter().map(ToString::to_string).collect()
    }
}

#[test]
fn only_added_lines_count_in_old_files_and_all_lines_in_new_ones() {
    let scene = Scene::new();
    scene.file("old.py", "x = 1\nbreakpoint()\n");
    scene.commit();
    assert_eq!(scene.problems(None), Vec::<String>::new(), "present before");
    scene.file("old.py", "x = 1\nbreakpoint()\ny = 3\npdb.set_trace()\n");
    scene.file("src/new file.rs", "fn f() {\n    todo\u{21}()\n}\n");
    scene.file(".gitignore", "ignored.py\n");
    scene.file("ignored.py", "breakpoint()\n");
    let problems = scene.problems(None);
    assert_eq!(
        problems,
        [
            "old.py:4: a debugger statement (`pdb.set_trace()`)",
            "src/new file.rs:2: a placeholder (`todo\u{21}()`)",
        ]
    );
}

#[test]
fn lines_committed_since_the_session_began_count() {
    let scene = Scene::new();
    scene.file("a.ts", "export {}\n");
    let began = scene.commit();
    scene.file("a.ts", "export {}\ndebugger;\n");
    scene.commit();
    assert_eq!(scene.problems(None), Vec::<String>::new());
    assert_eq!(scene.problems(Some(&began)), ["a.ts:2: a debugger statement (`debugger;`)"]);
    let unknown = "0123456789012345678901234567890123456789";
    assert_eq!(scene.problems(Some(unknown)), Vec::<String>::new(), "falls back to the last commit");
}

#[test]
fn it_works_before_the_first_commit_and_without_git() {
    let scene = Scene::new();
    scene.file("a.py", "breakpoint()\n");
    assert_eq!(scene.problems(None), ["a.py:1: a debugger statement (`breakpoint()`)"]);
    scene.git(&["add", "-A"]);
    assert_eq!(
        scene.problems(None),
        ["a.py:1: a debugger statement (`breakpoint()`)"],
        "staged lines count as added"
    );
    let plain = TempDir::new().expect("a folder");
    fs::write(plain.path().join("a.py"), "breakpoint()\n").expect("our own");
    assert_eq!(find_problems(plain.path(), plain.path(), None), []);
}

#[test]
fn a_changed_file_with_a_syntax_error_is_named() {
    let scene = Scene::new();
    // Where the program of a language is missing nothing is known of its files, so nothing is said of them.
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|run| run.status.success());
    let broken = [
        ("a.json", "{\"a\": 1,,}", true),
        ("lenient.json", "// a comment\n{\"a\": 1,}", false),
        ("fine.json", "{\"a\": 1}", false),
        ("a.py", "def f(:\n  pass\n", has("python3")),
        ("fine.py", "import nothing_that_is_there\n", false),
        ("a.sh", "if true; then\n", has("bash")),
        ("fine.sh", "echo fine\n", false),
    ];
    for (name, text, _) in broken {
        scene.file(name, text);
    }
    let problems = scene.problems(None);
    let is_there =
        |name: &str| problems.iter().any(|line| line.starts_with(&format!("{name}: does not parse (")));
    for (name, _, is_broken) in broken {
        assert_eq!(is_there(name), is_broken, "{name}: {problems:#?}");
    }
}

#[test]
fn only_text_files_of_limited_size_are_read() {
    let scene = Scene::new();
    scene.file("large.py", &format!("breakpoint()\n{}", "x = 1\n".repeat(300_000)));
    fs::write(scene.dir.path().join("bytes.py"), b"breakpoint()\n\0\xff").expect("our own");
    std::os::unix::fs::symlink("/etc/passwd", scene.dir.path().join("link.py")).expect("our own");
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.dir.path().join("pipe.py"), rustix::fs::Mode::RUSR)
        .expect("our own");
    assert_eq!(scene.problems(None), Vec::<String>::new());
}

#[test]
fn git_filters_of_the_repo_are_not_run() {
    let scene = Scene::new();
    scene.file("a.py", "x = 1\n");
    scene.commit();
    let mark = scene.dir.path().join(".git/ran");
    scene.git(&["config", "filter.x.clean", &format!("echo ran >> {}; cat", mark.display())]);
    scene.file(".git/info/attributes", "* filter=x\n");
    scene.file("a.py", "x = 1\nbreakpoint()\n");
    assert_eq!(scene.problems(None).len(), 1);
    assert!(!mark.exists(), "the filter was run");
}
