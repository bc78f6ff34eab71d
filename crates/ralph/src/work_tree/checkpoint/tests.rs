//! Tests with real repositories: what is committed, what stays unchanged, and every failure.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::*;
use crate::work_tree::git;

struct Scene {
    dir: tempfile::TempDir,
}

type Make = fn(&Scene);
type Leave<'l> = Box<dyn Fn(&Scene) + 'l>;

impl Scene {
    /// An empty folder.
    fn bare_folder() -> Self {
        let dir = tempfile::Builder::new().prefix("ralph-checkpoint-").tempdir().expect("a folder");
        for folder in ["project", "ours"] {
            fs::create_dir(dir.path().join(folder)).expect("a folder");
        }
        Self { dir }
    }

    /// A repository without a commit.
    fn unborn() -> Self {
        let scene = Self::bare_folder();
        scene.git(&["init", "-q", "-b", "main"]);
        scene
    }

    /// A repository with one commit.
    fn new() -> Self {
        let scene = Self::unborn();
        scene.write("a.txt", "one\n");
        scene.write(".gitignore", "ignored\n");
        scene.commit_all();
        scene
    }

    fn commit_all(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "work"]);
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn scratch(&self) -> PathBuf {
        self.dir.path().join("ours")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    fn git(&self, words: &[&str]) -> String {
        git_in(&self.root(), words)
    }

    fn checkpoints(&self) -> Checkpoints {
        self.checkpoints_of("loop-1")
    }

    fn checkpoints_of(&self, loop_id: &str) -> Checkpoints {
        self.checkpoints_below("", loop_id)
    }

    /// For a loop whose root is a folder of the repository.
    fn checkpoints_below(&self, folder: &str, loop_id: &str) -> Checkpoints {
        let (root, scratch) = (self.root().join(folder), self.scratch().join(loop_id));
        let root = fs::canonicalize(root).expect("a folder");
        Checkpoints::new(&root, &LoopId::new(loop_id), &scratch).expect("a repository")
    }

    /// The names in a checkpoint, sorted.
    fn names(&self, commit: &str) -> String {
        self.git(&["ls-tree", "-r", "--name-only", commit]).replace('\n', " ")
    }

    fn refs(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/"])
    }

    /// Everything that a checkpoint must not change: `.git` except objects and our refs, and the files.
    fn protected_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.root()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                let path = entry.path();
                let ours = [".git/objects", ".git/refs/ralph"].map(|part| self.root().join(part));
                match entry.file_type().expect("a type") {
                    _ if ours.contains(&path) => {}
                    kind if kind.is_dir() => open.push(path),
                    _ => drop(found.insert(path.clone(), fs::read(path).unwrap_or_default())),
                }
            }
        }
        found
    }
}

fn git_in(folder: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"])
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(folder)
        .output()
        .expect("git");
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Checkpoints {
    fn stage_and_commit(&mut self, number: u32) -> Result<CommittedTree, CheckpointError> {
        let staged = self.stage(number)?;
        self.commit(staged)
    }
}

fn kept(kept: Result<CommittedTree, CheckpointError>) -> String {
    let kept = kept.expect("kept");
    assert_eq!(kept.lacks, None);
    kept.commit
}

#[test]
fn each_tree_is_committed_and_nothing_else_changes() {
    let scene = Scene::new();
    scene.write("staged.txt", "staged\n");
    scene.git(&["add", "staged.txt"]);
    let before = scene.protected_files();
    let mut checkpoints = scene.checkpoints();
    let zero = kept(checkpoints.stage_and_commit(0));
    assert_eq!(scene.protected_files(), before);
    assert_eq!(scene.names(&zero), ".gitignore a.txt staged.txt");
    assert_eq!(scene.git(&["rev-parse", &format!("{zero}^")]), scene.git(&["rev-parse", "HEAD"]));

    scene.write("a.txt", "two\n");
    scene.write("new/b.txt", "new\n");
    scene.write("ignored", "x");
    fs::remove_file(scene.root().join("staged.txt")).expect("removed");
    let before = scene.protected_files();
    let one = kept(checkpoints.stage_and_commit(1));
    assert_eq!(scene.protected_files(), before);
    assert_eq!(scene.names(&one), ".gitignore a.txt new/b.txt");
    assert_eq!(scene.git(&["show", &format!("{one}:a.txt")]), "two");
    assert_eq!(scene.git(&["rev-parse", &format!("{one}^")]), zero);
    assert_eq!(scene.git(&["log", "-1", "--format=%s %an", &one]), "ralph: iteration 1 of loop-1 ralph");
    assert_eq!(scene.git(&["rev-parse", "refs/ralph/loop-1/1"]), one);
    assert_eq!(scene.refs(), "refs/ralph/loop-1/0\nrefs/ralph/loop-1/1");
}

#[test]
fn a_tree_that_did_not_change_is_the_same_commit() {
    let scene = Scene::new();
    let mut checkpoints = scene.checkpoints();
    let zero = kept(checkpoints.stage_and_commit(0));
    assert_eq!(kept(checkpoints.stage_and_commit(1)), zero);
    // The same applies after a kill, and to content that was only rewritten.
    scene.write("a.txt", "one\n");
    assert_eq!(kept(scene.checkpoints().stage_and_commit(2)), zero);
    assert_eq!(scene.git(&["rev-parse", "refs/ralph/loop-1/2"]), zero);
}

/// A file that changes in the same clock tick in which the index is written looks unchanged to git, except for the
/// index's own time: an entry is trusted only if the index is newer than the file.
#[test]
fn detects_a_change_within_one_clock_tick() {
    let scene = Scene::new();
    scene.git(&["config", "core.trustctime", "false"]);
    let tick = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let stamp = |name: &str| {
        let file = File::options().append(true).open(scene.root().join(name));
        file.and_then(|file| file.set_modified(tick)).expect("stamped");
    };
    scene.write("a.txt", "two\n");
    stamp("a.txt");
    scene.git(&["add", "a.txt"]);
    stamp(".git/index");
    scene.write("a.txt", "six\n");
    stamp("a.txt");
    let zero = kept(scene.checkpoints().stage_and_commit(0));
    assert_eq!(scene.git(&["show", &format!("{zero}:a.txt")]), "six");
}

#[test]
fn the_same_number_again_replaces_it() {
    let scene = Scene::new();
    let mut checkpoints = scene.checkpoints();
    let zero = kept(checkpoints.stage_and_commit(0));
    scene.write("a.txt", "two\n");
    kept(checkpoints.stage_and_commit(1));
    scene.write("a.txt", "three\n");
    for mut owner in [checkpoints, scene.checkpoints()] {
        let one = kept(owner.stage_and_commit(1));
        assert_eq!(scene.git(&["rev-parse", &format!("{one}^")]), zero);
        assert_eq!(scene.git(&["show", "refs/ralph/loop-1/1:a.txt"]), "three");
    }
}

/// Kinds of repositories. Each gets two checkpoints.
#[test]
fn works_in_every_kind_of_repository() {
    let kinds: [(&str, Make); 7] = [
        ("detached", |scene| drop(scene.git(&["checkout", "-q", "--detach"]))),
        ("no user name is set", |scene| drop(scene.git(&["config", "user.useConfigOnly", "true"]))),
        ("index.lock is held", |scene| scene.write(".git/index.lock", "")),
        ("a split index", |scene| {
            scene.git(&["update-index", "--split-index"]);
        }),
        ("HEAD.lock is held", |scene| scene.write(".git/HEAD.lock", "")),
        ("a broken index", |scene| scene.write(".git/index", "rubbish")),
        ("in the middle of a merge", |scene| {
            scene.git(&["checkout", "-qb", "other"]);
            scene.write("a.txt", "other\n");
            scene.git(&["commit", "-qam", "other"]);
            scene.git(&["checkout", "-q", "main"]);
            scene.write("a.txt", "mine\n");
            scene.git(&["commit", "-qam", "mine"]);
            let merge = Command::new("git")
                .args(["-c", "user.name=t", "-c", "user.email=t@t", "merge", "-q", "other"])
                .current_dir(scene.root())
                .output();
            assert!(!merge.expect("git").status.success(), "a conflict");
        }),
    ];
    for (kind, make) in kinds {
        let scene = Scene::new();
        make(&scene);
        let mut checkpoints = scene.checkpoints();
        let before = scene.protected_files();
        let zero = kept(checkpoints.stage_and_commit(0));
        assert_eq!(scene.protected_files(), before, "{kind}");
        scene.write("b.txt", "new\n");
        let one = kept(checkpoints.stage_and_commit(1));
        assert_eq!(scene.git(&["diff", "--name-only", &zero, &one]), "b.txt", "{kind}");
        assert_eq!(scene.names(&one), ".gitignore a.txt b.txt", "{kind}");
    }
}

#[test]
fn before_the_first_commit_the_first_checkpoint_has_no_parent() {
    let scene = Scene::unborn();
    let mut checkpoints = scene.checkpoints();
    let zero = kept(checkpoints.stage_and_commit(0));
    assert_eq!(scene.names(&zero), "");
    scene.write("a.txt", "one\n");
    let one = kept(checkpoints.stage_and_commit(1));
    assert_eq!(scene.names(&one), "a.txt");
    assert_eq!(scene.git(&["rev-list", "--count", &one]), "2");
}

#[test]
fn a_linked_work_tree_and_a_submodule_are_repositories_too() {
    let scene = Scene::new();
    scene.git(&["worktree", "add", "-q", "../linked"]);
    let library = Scene::new();
    ralph_testkit::add_submodule(&scene.root(), &library.root(), "sub");
    scene.commit_all();
    for place in ["linked", "project/sub"] {
        let root = scene.dir.path().join(place);
        let scratch = scene.scratch().join(place);
        let mut checkpoints =
            Checkpoints::new(&root, &LoopId::new("linked"), &scratch).expect("a repository");
        kept(checkpoints.stage_and_commit(0));
        fs::write(root.join("b.txt"), "new\n").expect("a file");
        let one = kept(checkpoints.stage_and_commit(1));
        assert_eq!(git_in(&root, &["diff", "--name-only", &format!("{one}^"), &one]), "b.txt", "{place}");
        assert_eq!(git_in(&root, &["status", "--porcelain"]), "?? b.txt", "{place}");
    }
    // For a submodule, its commit is recorded.
    let mut checkpoints = scene.checkpoints();
    let zero = kept(checkpoints.stage_and_commit(0));
    git_in(&scene.root().join("sub"), &["add", "-A"]);
    git_in(&scene.root().join("sub"), &["commit", "-qm", "more"]);
    let one = kept(checkpoints.stage_and_commit(1));
    assert_eq!(scene.git(&["diff", "--name-only", &zero, &one]), "sub");
}

/// A folder below the top: the repository around it may be a whole home folder.
#[test]
fn stages_only_files_below_the_root() {
    let scene = Scene::new();
    scene.write("part/x.txt", "one\n");
    scene.commit_all();
    let scratch = scene.scratch();
    let mut checkpoints =
        Checkpoints::new(&scene.root().join("part"), &LoopId::new("part"), &scratch).expect("a repository");
    scene.write("outside.txt", "private\n");
    scene.write("part/y.txt", "new\n");
    let zero = kept(checkpoints.stage_and_commit(0));
    assert_eq!(scene.names(&zero), ".gitignore a.txt part/x.txt part/y.txt");
}

#[test]
fn reports_why_checkpoints_are_impossible() {
    let scene = Scene::bare_folder();
    let why = |scene: &Scene| {
        let new = Checkpoints::new(&scene.root(), &LoopId::new("x"), &scene.scratch());
        new.expect_err("no repository").to_string()
    };
    assert_eq!(why(&scene), "not a git repository");
    scene.git(&["init", "-q", "--bare", "."]);
    assert_eq!(why(&scene), "the git repository has no work tree");
    let broken = Scene::new();
    broken.write(".git/config", "[core\n");
    assert!(
        why(&broken).starts_with("the git repository cannot be used: fatal: bad config"),
        "{}",
        why(&broken)
    );
    let future = Scene::new();
    future.git(&["config", "core.repositoryFormatVersion", "99"]);
    assert!(why(&future).contains("cannot be used"), "{}", why(&future));
}

/// Every program that can be configured for a commit writes a file; a hook that refuses would refuse.
#[test]
fn runs_no_configured_program() {
    let scene = Scene::new();
    let trap = scene.dir.path().join("trap");
    let mark = scene.dir.path().join("mark");
    fs::write(&trap, format!("#!/bin/sh\necho $0 >> {}\nexit 1\n", mark.display())).expect("a trap");
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).expect("executable");
    let hooks = scene.dir.path().join("hooks");
    fs::create_dir(&hooks).expect("a folder");
    for hook in ["pre-commit", "post-commit", "commit-msg", "reference-transaction", "post-index-change"] {
        fs::copy(&trap, hooks.join(hook)).expect("a hook");
    }
    let trap = trap.to_string_lossy().into_owned();
    for (name, value) in [
        ("core.hooksPath", &*hooks.to_string_lossy()),
        ("commit.gpgSign", "true"),
        ("gpg.program", &*trap),
        ("core.fsmonitor", &*trap),
        ("core.logAllRefUpdates", "always"),
        ("core.editor", &*trap),
        ("core.safecrlf", "true"),
        ("core.autocrlf", "input"),
        ("gc.auto", "1"),
    ] {
        scene.git(&["config", name, value]);
    }
    let mut checkpoints = scene.checkpoints();
    kept(checkpoints.stage_and_commit(0));
    scene.write("dos.txt", "a\r\nb\r\n");
    kept(checkpoints.stage_and_commit(1));
    prune(&checkpoints.git, &folder_of(&checkpoints.loop_id), 1).expect("pruned");
    assert_eq!(fs::read_to_string(&mark).unwrap_or_default(), "");
    assert!(!scene.root().join(".git/logs/refs/ralph").exists(), "a reflog");
}

#[test]
fn reports_unstageable_files_and_commits_the_rest() {
    let scene = Scene::new();
    let mut checkpoints = scene.checkpoints();
    git_in(&scene.root(), &["init", "-q", "embedded"]);
    scene.write("zzz.txt", "new\n");
    let zero = checkpoints.stage_and_commit(0).expect("kept");
    assert_eq!(scene.names(&zero.commit), ".gitignore a.txt zzz.txt");
    assert!(zero.lacks.is_some_and(|lacks| lacks.contains("embedded")), "it is named");
}

#[test]
fn a_file_with_a_filter_stays_as_the_index_has_it_and_no_filter_runs() {
    let scene = Scene::new();
    let mark = scene.dir.path().join("ran");
    scene.write("tracked.up", "one\n");
    scene.write("gone.up", "one\n");
    scene.commit_all();
    scene.git(&["config", "filter.up.clean", &format!("echo ran >> {}; tr a-z A-Z", mark.display())]);
    scene.git(&["config", "filter.up.required", "true"]);
    scene.write(".gitattributes", "*.up filter=up\n*.other filter=unknown\n");
    scene.write("tracked.up", "two\n");
    scene.write("new.up", "new\n");
    scene.write("new.other", "other\n");
    fs::remove_file(scene.root().join("gone.up")).expect("removed");
    let mut checkpoints = scene.checkpoints();
    for (number, pace) in [(0, StagingSpeed::AtEase), (1, StagingSpeed::WithCare)] {
        checkpoints.pace = pace;
        let CommittedTree { commit, lacks } = checkpoints.stage_and_commit(number).expect("kept");
        let why = "with a filter (filters are not run): new.up, tracked.up";
        assert_eq!(lacks.as_deref(), Some(why), "{pace:?}");
        assert_eq!(scene.names(&commit), ".gitattributes .gitignore a.txt new.other tracked.up");
        assert_eq!(scene.git(&["show", &format!("{commit}:tracked.up")]), "one");
    }
    assert!(!mark.exists(), "the filter was run");
    scene.git(&["config", "--remove-section", "filter.up"]);
    let CommittedTree { commit, lacks } = checkpoints.stage_and_commit(2).expect("kept");
    assert_eq!((lacks, scene.git(&["show", &format!("{commit}:tracked.up")])), (None, "two".into()));
}

#[test]
fn huge_files_are_left_out_and_reported() {
    let scene = Scene::new();
    scene.write("small.txt", "x");
    // A sparse file: no byte of it may be read.
    for name in ["huge [1].bin", "huge2.bin"] {
        File::create(scene.root().join(name)).and_then(|file| file.set_len(HUGE + 1)).expect("a file");
    }
    let mut checkpoints = scene.checkpoints();
    checkpoints.pace = StagingSpeed::WithCare;
    let zero = checkpoints.stage_and_commit(0).expect("kept");
    assert_eq!(zero.lacks.as_deref(), Some("over 100 MB: huge [1].bin and 1 more"));
    assert_eq!(scene.names(&zero.commit), ".gitignore a.txt small.txt");
    for number in 0..11 {
        let file = File::create(scene.root().join(format!("big{number}")));
        file.and_then(|file| file.set_len(HUGE)).expect("a file");
    }
    let error = checkpoints.stage_and_commit(1).expect_err("too much").to_string();
    assert!(error.contains("1100 MB in 13 new or changed files"), "{error}");
    checkpoints.pace = StagingSpeed::NotAtAll;
    assert!(matches!(checkpoints.stage_and_commit(1), Err(CheckpointError::GivenUp)));
}

/// Between the two steps the files may change and the process may end.
#[test]
fn a_later_process_commits_staged_files() {
    let scene = Scene::new();
    kept(scene.checkpoints().stage_and_commit(0));
    scene.write("a.txt", "two\n");
    scene.checkpoints().stage(1).expect("staged");
    scene.write("a.txt", "three\n");
    let mut next = scene.checkpoints();
    assert_eq!([0, 1, 2].map(|number| next.has_staged(number)), [false, true, false]);
    let one = kept(next.finish(1));
    assert_eq!(scene.git(&["show", &format!("{one}:a.txt")]), "two");
    let two = kept(next.stage_and_commit(2));
    assert_eq!(scene.git(&["show", &format!("{two}:a.txt")]), "three");
    assert_eq!(scene.git(&["log", "--format=%s", &two]).lines().count(), 4);

    // An incomplete staging is not used.
    scene.write(".git/info/exclude", "");
    next.name_index(None).expect("a name");
    let next = scene.checkpoints();
    assert!((0..4).all(|number| !next.has_staged(number)));
}

#[test]
fn lists_changed_files_from_checkpoints() {
    let scene = Scene::new();
    let mut checkpoints = scene.checkpoints();
    let id = checkpoints.loop_id.clone();
    let first = scene.git(&["rev-parse", "HEAD"]);
    assert_eq!(changed_files(&checkpoints.git, &id, &first), None, "nothing was kept");
    kept(checkpoints.stage_and_commit(0));
    scene.write("a b.txt", "new\n");
    kept(checkpoints.stage_and_commit(1));
    scene.write("ü\n.txt", "new\n");
    let last = kept(checkpoints.stage_and_commit(2));
    let names = changed_files(&checkpoints.git, &id, &last).expect("both were kept");
    assert_eq!(names, ["a b.txt", "ü\n.txt"]);
    assert_eq!(changed_files(&checkpoints.git, &id, "--output=x"), None);
}

#[test]
fn restages_and_reports_objects_lost_in_between() {
    let scene = Scene::new();
    let mut checkpoints = scene.checkpoints();
    kept(checkpoints.stage_and_commit(0));
    scene.write("b.txt", "new\n");
    let staged = checkpoints.stage(1).expect("staged");
    let blob = scene.git(&["hash-object", "b.txt"]);
    fs::remove_file(scene.root().join(".git/objects").join(&blob[..2]).join(&blob[2..])).expect("the object");
    let CommittedTree { commit, lacks } = checkpoints.commit(staged).expect("kept");
    assert_eq!(lacks.as_deref(), Some(STAGED_AGAIN));
    assert_eq!(scene.git(&["show", &format!("{commit}:b.txt")]), "new");
    // Without an index git would commit an empty tree.
    let staged = checkpoints.stage(2).expect("staged");
    fs::remove_file(&checkpoints.index).expect("the index");
    let CommittedTree { commit, lacks } = checkpoints.commit(staged).expect("kept");
    assert_eq!(lacks.as_deref(), Some(STAGED_AGAIN));
    assert_eq!(scene.names(&commit), ".gitignore a.txt b.txt");
}

#[test]
fn agents_may_use_git_as_they_like() {
    let scene = Scene::new();
    scene.write("b.txt", "x\n");
    scene.commit_all();
    let mut checkpoints = scene.checkpoints();
    kept(checkpoints.stage_and_commit(0));
    let steps: [&[&str]; 15] = [
        &["rm", "-q", "--cached", "b.txt"],
        &["add", "-A"],
        &["update-index", "--assume-unchanged", "b.txt"],
        &["update-index", "--skip-worktree", "a.txt"],
        &["update-index", "--chmod=+x", "b.txt"],
        &["add", "-f", "ignored"],
        &["commit", "-qam", "more"],
        &["checkout", "-q", "-b", "other"],
        &["rm", "-q", "--cached", "ignored"],
        &["stash", "-u", "-q"],
        &["stash", "pop", "-q"],
        &["checkout", "-q", "main"],
        &["branch", "-q", "-D", "other"],
        &["pack-refs", "--all"],
        &["gc", "-q", "--prune=now"],
    ];
    for (number, step) in (1..).zip(steps) {
        scene.write("ignored", &format!("{number}\n"));
        scene.write("new.txt", &format!("{number}\n"));
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(step);
        let _some_fail = git.current_dir(scene.root()).output();
        scene.write("b.txt", &format!("after {number}\n"));
        let commit = kept(checkpoints.stage_and_commit(number));
        assert_eq!(scene.git(&["show", &format!("{commit}:b.txt")]), format!("after {number}"), "{step:?}");
        assert_eq!(scene.names(&commit), ".gitignore a.txt b.txt new.txt", "{step:?}");
    }
    scene.git(&["fsck", "--strict", "--no-dangling"]);
}

/// Everything a killed git or driver can leave behind.
#[test]
fn works_after_any_kill() {
    let scene = Scene::new();
    kept(scene.checkpoints().stage_and_commit(0));
    let scratch = scene.scratch().join("loop-1");
    let index = || existing_index(&scratch).expect("an index");
    let leave: [(&str, Leave<'_>); 5] = [
        (
            "a lock beside the index",
            Box::new(|_| fs::write(with_suffix(&index(), ".lock"), "").expect("a lock")),
        ),
        (
            "half an index",
            Box::new(|_| {
                let whole = fs::read(index()).expect("an index");
                fs::write(index(), &whole[..whole.len() / 2]).expect("half");
            }),
        ),
        ("an empty index", Box::new(|_| fs::write(index(), "").expect("an index"))),
        (
            "an index whose objects were lost",
            Box::new(|scene| {
                scene.write("lost.txt", "lost\n");
                let blob = scene.git(&["hash-object", "lost.txt"]);
                let mut add = Command::new("git");
                add.args(["add", "-A"]).env("GIT_INDEX_FILE", index()).current_dir(scene.root());
                assert!(add.status().expect("git").success());
                let file = scene.root().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
                fs::remove_file(file).expect("the object");
            }),
        ),
        ("a lock beside the ref", Box::new(|scene| scene.write(".git/refs/ralph/loop-1/5.lock", ""))),
    ];
    for (number, (what, leave)) in (1..).zip(leave) {
        scene.write("a.txt", what);
        leave(&scene);
        // Whether git detects lost objects itself depends on the age of the file.
        let CommittedTree { commit, .. } = scene.checkpoints().stage_and_commit(number).expect("kept");
        assert_eq!(scene.git(&["show", &format!("{commit}:a.txt")]), what);
        let parent = scene.git(&["rev-parse", &format!("{commit}^")]);
        assert_eq!(parent, scene.git(&["rev-parse", &format!("refs/ralph/loop-1/{}", number - 1)]), "{what}");
        scene.git(&["fsck", "--strict"]);
    }
}

#[test]
fn an_object_store_that_cannot_be_written_is_an_error_and_later_it_works() {
    if rustix::process::getuid().is_root() {
        // Root has access to everything, so a file replaces the folder.
        let scene = Scene::new();
        let mut checkpoints = scene.checkpoints();
        kept(checkpoints.stage_and_commit(0));
        let refs = scene.root().join(".git/refs/ralph/loop-1");
        fs::remove_dir_all(&refs).expect("removed");
        fs::write(&refs, "in the way").expect("a file");
        assert!(checkpoints.stage_and_commit(1).is_err());
        fs::remove_file(&refs).expect("removed");
        kept(checkpoints.stage_and_commit(1));
        return;
    }
    let scene = Scene::new();
    let objects = scene.root().join(".git/objects");
    let mut checkpoints = scene.checkpoints();
    scene.write("a.txt", "two\n");
    fs::set_permissions(&objects, fs::Permissions::from_mode(0o500)).expect("read only");
    assert!(checkpoints.stage_and_commit(0).is_err());
    fs::set_permissions(&objects, fs::Permissions::from_mode(0o700)).expect("as before");
    kept(checkpoints.stage_and_commit(0));
}

#[test]
fn prunes_only_checkpoints_of_older_loops() {
    let scene = Scene::new();
    for number in 0..6 {
        let mut commit = Command::new("git");
        commit.args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
        ]);
        commit
            .env("GIT_COMMITTER_DATE", format!("{} +0000", 1_700_000_000 + number))
            .current_dir(scene.root());
        assert!(commit.status().expect("git").success());
        scene.git(&["update-ref", &format!("refs/ralph/old-{number}/0"), "HEAD"]);
        scene.git(&["update-ref", &format!("refs/ralph/old-{number}/1"), "HEAD"]);
    }
    for name in ["refs/ralph/rescue/some/thing", "refs/ralph/named", "refs/ralph/old-0/name", "refs/tags/v1"]
    {
        scene.git(&["update-ref", name, "HEAD"]);
    }
    let mut checkpoints = scene.checkpoints_of("old-1");
    kept(checkpoints.stage_and_commit(0));
    let head = scene.git(&["rev-parse", "HEAD"]);
    prune(&checkpoints.git, &folder_of(&checkpoints.loop_id), 3).expect("pruned");
    let mut expected = String::new();
    for name in ["named", "old-0/name", "old-1/0", "old-1/1", "old-4/0", "old-4/1", "old-5/0", "old-5/1"] {
        writeln!(expected, "refs/ralph/{name}").expect("text");
    }
    assert_eq!(scene.refs(), format!("{expected}refs/ralph/rescue/some/thing"));
    assert_eq!(scene.git(&["rev-parse", "HEAD", "v1"]), format!("{head}\n{head}"));
}

#[test]
fn any_loop_id_makes_a_ref() {
    let scene = Scene::new();
    for id in
        ["fix-the-tests-1a2b3c", "a b", "../../heads/main", "x..y", "-x", "@{", "a.lock", "", "ü", "a/0"]
    {
        let folder = folder_of(&LoopId::new(id));
        scene.git(&["check-ref-format", &format!("{folder}0")]);
        assert!(folder.starts_with(OURS) && folder.matches('/').count() == 3, "{id}: {folder}");
        assert_eq!(parse_ref_name(&format!("{folder}12")), Some((&*folder, 12)), "{id}");
    }
    assert_ne!(folder_of(&LoopId::new("a b")), folder_of(&LoopId::new("a_b")));
}

#[test]
fn ignores_inherited_git_variables() {
    let table = [
        ("GIT_DIR", false),
        ("GIT_WORK_TREE", false),
        ("GIT_INDEX_FILE", false),
        ("GIT_OBJECT_DIRECTORY", false),
        ("GIT_NAMESPACE", false),
        ("GIT_LITERAL_PATHSPECS", false),
        ("GIT_TRACE", false),
        ("GIT_CONFIG_GLOBAL", true),
        ("GIT_CONFIG_COUNT", true),
        ("GIT_EXEC_PATH", true),
        ("GITHUB_TOKEN", true),
        ("PATH", true),
    ];
    for (name, stays) in table {
        assert_eq!(git::may_stay(name.as_ref()), stays, "{name}");
    }
}

/// Only root can change the owner of a folder; for other users the test is skipped.
#[test]
fn refuses_a_repository_of_another_user() {
    let scene = Scene::new();
    if !rustix::process::getuid().is_root() {
        return;
    }
    for path in [scene.root(), scene.root().join(".git")] {
        std::os::unix::fs::chown(path, Some(12345), Some(12345)).expect("given away");
    }
    let error = Checkpoints::new(&scene.root(), &LoopId::new("x"), &scene.scratch());
    let why = error.expect_err("refused").to_string();
    assert!(why.contains("dubious ownership"), "{why}");
}
