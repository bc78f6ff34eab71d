//! The quick way against git's: the same steps in the same repository, kept both ways, must come to the same trees.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ralph_testkit::Dice;

use super::super::tests::{Scene, kept};
use super::super::{Checkpoints, Kept};
use super::{KeptTree, LARGEST_FILE, MOST_PATHS, ObjectId};
use crate::work_tree::fingerprint::{Tree, TreeReader};

/// The clocks of usual file systems are better than this.
const TICK: Duration = Duration::from_millis(15);

/// One loop that may go the quick way, and one that never does.
struct Race {
    scene: Scene,
    quick: Checkpoints,
    whole: Checkpoints,
    number: u32,
}

impl Race {
    fn new(scene: Scene) -> Self {
        Self::below(scene, "")
    }

    /// With the root of the loop in a folder of the repository.
    fn below(scene: Scene, folder: &str) -> Self {
        let of = |id: &str| scene.checkpoints_below(folder, id);
        let (mut quick, mut whole) = (of("quick"), of("whole"));
        kept(quick.keep_now(0));
        kept(whole.keep_now(0));
        let mut race = Self { scene, quick, whole, number: 0 };
        race.step("the beginning", false);
        race
    }

    /// What changed before this did not change after it: the clock of the file system has moved on.
    fn tree(&self) -> Arc<Tree> {
        std::thread::sleep(2 * TICK);
        let reader = TreeReader::new(self.quick.git.root()).settled_after(TICK);
        Arc::new(reader.read().expect("a tree"))
    }

    /// Keeps the tree both ways, and tells whether the quick one was taken.
    fn keep(&mut self, what: &str) -> bool {
        self.number += 1;
        let tree = self.tree();
        let at_once = self.quick.keep_from_last(self.number, &tree);
        let was_quick = at_once.is_some();
        let quick = at_once.unwrap_or_else(|| {
            let taken_in = self.quick.take_in(self.number).expect("taken in");
            self.quick.keep(taken_in, Some(tree)).expect("kept")
        });
        let whole = self.whole.keep_now(self.number).expect("kept");
        let listed = |kept: &Kept| self.scene.git(&["ls-tree", "-r", "-t", "--full-tree", &kept.commit]);
        assert_eq!(listed(&quick), listed(&whole), "{what}");
        assert_eq!(quick.lacks, whole.lacks, "{what}");
        was_quick
    }

    fn step(&mut self, what: &str, is_quick: bool) {
        assert_eq!(self.keep(what), is_quick, "{what}");
    }

    /// The next step is quick again.
    fn settle(&mut self) {
        self.scene.write("a.txt", &format!("settled {}\n", self.number));
        self.keep("settling");
        self.scene.write("a.txt", "settled\n");
        self.step("settled", true);
    }

    fn fsck(&self) {
        self.scene.git(&["fsck", "--strict", "--no-dangling"]);
        let last = format!("refs/ralph/quick/{}", self.number);
        let log = self.scene.git(&["log", "--format=%an <%ae> %s", "--first-parent", &last]);
        let is_ours = |line: &&str| line.starts_with("ralph <ralph@localhost> ralph: iteration ");
        let of_this_loop = log.lines().take_while(is_ours).count();
        assert_eq!(log.lines().filter(is_ours).count(), of_this_loop, "one after the other: {log}");
        assert!(log.contains("ralph: iteration 0 of quick"), "{log}");
    }
}

#[test]
fn what_is_plain_is_kept_without_git_and_comes_to_the_same() {
    let mut race = Race::new(Scene::new());
    let mut step = |what: &str, make: &dyn Fn(&Scene)| {
        make(&race.scene);
        race.step(what, true);
    };
    step("nothing", &|_| {});
    step("a change", &|scene| scene.write("a.txt", "two\n"));
    step("the same again", &|scene| scene.write("a.txt", "two\n"));
    step("new files, some ignored", &|scene| {
        for name in ["new.txt", "deep/er/new.txt", "ignored", "deep/ignored", "a/b", "a.b", "a0"] {
            scene.write(name, name);
        }
    });
    step("odd names", &|scene| {
        for name in
            ["line\nbreak", "\"quoted\"", "名字", "*[x]", " ", "-n", ".github/x", ".gitkeep", ":(top)x"]
        {
            scene.write(name, name);
        }
    });
    step("a program", &|scene| scene.set_mode("a.txt", 0o755));
    step("none any more", &|scene| scene.set_mode("a.txt", 0o644));
    step("bits that are nothing to git", &|scene| scene.set_mode("a.txt", 0o606));
    step("a link, one to a folder, one to nothing", &|scene| {
        for (link, target) in [("link", "a.txt"), ("to-folder", "deep"), ("deep/to-nothing", "nowhere")] {
            symlink(target, scene.root().join(link)).expect("a link");
        }
    });
    step("a folder that becomes a link", &|scene| {
        fs::rename(scene.root().join("deep"), scene.root().join("moved")).expect("moved");
        symlink("moved", scene.root().join("deep")).expect("a link");
    });
    step("a link that becomes a folder", &|scene| {
        fs::remove_file(scene.root().join("deep")).expect("removed");
        scene.write("deep/er/new.txt", "again");
    });
    step("a file that becomes a folder", &|scene| {
        fs::remove_file(scene.root().join("a.b")).expect("removed");
        scene.write("a.b/c/d", "new");
    });
    step("a folder that becomes a file", &|scene| {
        fs::remove_dir_all(scene.root().join("a.b")).expect("removed");
        scene.write("a.b", "a file");
    });
    step("everything gone but one", &|scene| {
        for folder in ["moved", "deep", "a", ".github"] {
            fs::remove_dir_all(scene.root().join(folder)).expect("removed");
        }
    });
    race.fsck();
}

#[test]
fn the_loop_may_begin_below_the_top() {
    let scene = Scene::new();
    scene.write("part/a.txt", "one\n");
    scene.write("part/.gitattributes", "*.txt text=auto\n");
    scene.commit_all();
    let mut race = Race::below(scene, "part");
    race.scene.write("part/a.txt", "two\n");
    race.scene.write("part/new/b.txt", "new\n");
    race.scene.write("part/new/ignored", "by a rule above\n");
    race.scene.write("a.txt", "not below the root\n");
    race.step("below the top", true);
    race.scene.write(".gitattributes", "*.txt filter=x\n");
    race.scene.write("part/a.txt", "three\n");
    race.step("attributes above", false);
}

/// Wherever git would see something else than we do it is asked, and as soon as it would not the quick way is open again.
#[test]
fn what_is_not_plain_is_left_to_git() {
    type Make<'m> = &'m dyn Fn(&Scene);
    const OPEN: bool = true;
    const SHUT: bool = false;
    let steps: [(&str, Make<'_>, bool); 17] = [
        ("a rule for a file that git has", &|scene| scene.write(".gitignore", "ignored\nnew\n"), SHUT),
        ("the rule taken back", &|scene| scene.write(".gitignore", "ignored\n"), OPEN),
        ("a rule in a folder", &|scene| scene.write("deep/.gitignore", "*.log\n"), OPEN),
        ("a rule of the repository alone", &|scene| scene.write(".git/info/exclude", "private\n"), OPEN),
        ("that rule taken back", &|scene| scene.write(".git/info/exclude", ""), OPEN),
        ("a carriage return", &|scene| scene.write("dos.txt", "one\r\ntwo\r\n"), OPEN),
        ("attributes that convert", &|scene| scene.write(".gitattributes", "*.id ident\n"), SHUT),
        ("a change under them", &|scene| scene.write("x.id", "$Id: def $\nmore\n"), SHUT),
        ("attributes that do not", &|scene| scene.write(".gitattributes", "*.id -text\n"), OPEN),
        ("a cache that nobody ignores", &|scene| scene.write("__pycache__/x.py", "cache"), SHUT),
        ("a change in it", &|scene| scene.write("__pycache__/x.py", "more"), SHUT),
        ("it is gone", &|scene| fs::remove_dir_all(scene.root().join("__pycache__")).expect("removed"), OPEN),
        ("a file of a cache", &|scene| scene.write("x.pyc", "cache"), SHUT),
        ("that is gone", &|scene| fs::remove_file(scene.root().join("x.pyc")).expect("removed"), OPEN),
        (
            "a large file",
            &|scene| {
                let file = File::create(scene.root().join("large.bin"));
                file.and_then(|file| file.set_len(LARGEST_FILE + 1)).expect("a file");
            },
            OPEN,
        ),
        (
            "many files",
            &|scene| (0..=MOST_PATHS).for_each(|number| scene.write(&format!("many/{number}"), "x")),
            OPEN,
        ),
        ("a setting", &|scene| drop(scene.git(&["config", "core.fileMode", "false"])), SHUT),
    ];
    let scene = Scene::new();
    scene.write("private", "x");
    scene.write("new", "x");
    let mut race = Race::new(scene);
    for (what, make, is_open) in steps {
        make(&race.scene);
        race.step(what, false);
        if is_open {
            race.settle();
        }
    }
    race.scene.set_mode("a.txt", 0o755);
    race.step("a bit that git was told to overlook", false);
    race.fsck();
}

#[test]
fn a_repository_within_is_left_to_git() {
    let mut race = Race::new(Scene::new());
    race.scene.write("within/a.txt", "one\n");
    let within = race.scene.root().join("within");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(words).current_dir(&within);
        assert!(git.output().expect("git").status.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "one"]);
    race.step("a repository within", false);
    git(&["commit", "-q", "--allow-empty", "-m", "two"]);
    race.step("it moved, and no file changed", false);
    fs::remove_dir_all(within.join(".git")).expect("removed");
    race.step("it is none any more, but to git", false);
}

#[test]
fn what_cannot_be_kept_is_told_each_time() {
    let mut race = Race::new(Scene::new());
    rustix::fs::mkfifoat(rustix::fs::CWD, race.scene.root().join("pipe"), 0o600.into()).expect("a pipe");
    race.step("a pipe", false);
    fs::remove_file(race.scene.root().join("pipe")).expect("removed");
    race.step("none any more", false);
    race.settle();
}

#[test]
fn whoever_takes_away_what_we_go_on_from_is_noticed() {
    let mut race = Race::new(Scene::new());
    race.settle();
    let last = format!("refs/ralph/quick/{}", race.number);
    race.scene.write("a.txt", "two\n");
    race.scene.git(&["pack-refs", "--all"]);
    race.step("the ref is no file of its own any more", false);
    race.settle();
    race.scene.git(&["update-ref", "-d", &last]);
    race.scene.write("a.txt", "three\n");
    race.step("a ref that is older", true);
    race.scene.git(&["update-ref", "-d", &format!("refs/ralph/quick/{}", race.number)]);
    race.scene.write("a.txt", "four\n");
    race.step("the ref is gone", false);
    race.fsck();
}

/// What changes after our look at the tree and back before the next one may have been taken in as it was in between, by us or
/// by git, and that more than once.
#[test]
fn what_changes_while_it_is_taken_in_is_looked_at_once_more() {
    let mut race = Race::new(Scene::new());
    for by_git in [true, false, false, true] {
        race.scene.write("a.txt", "seen\n");
        let seen = race.tree();
        race.scene.write("a.txt", "taken in\n");
        race.number += 1;
        let taken_in = match by_git {
            true => {
                let taken_in = race.quick.take_in(race.number).expect("taken in");
                race.quick.keep(taken_in, Some(seen)).expect("kept")
            }
            false => race.quick.keep_from_last(race.number, &seen).expect("quick"),
        };
        assert_eq!(race.scene.git(&["show", &format!("{}:a.txt", taken_in.commit)]), "taken in");
        kept(race.whole.keep_now(race.number));
    }
    race.scene.write("a.txt", "seen\n");
    race.step("as it was", true);
    race.step("and once more", true);
}

type Make = fn(&Scene);

/// What is made before the loop, what is made in it, and whether the quick way is still open then. It must not matter.
#[test]
fn git_is_asked_wherever_it_sees_a_file_otherwise() {
    const IDENT: &str = "*.id ident\n";
    let table: [(&str, Make, Make, bool); 20] = [
        ("nothing", |_| {}, |_| {}, true),
        (
            "a file to be overlooked",
            |scene| drop(scene.git(&["update-index", "--assume-unchanged", "a.txt"])),
            |scene| scene.write("a.txt", "something longer\n"),
            false,
        ),
        (
            "a file to be skipped",
            |scene| drop(scene.git(&["update-index", "--skip-worktree", "a.txt"])),
            |scene| scene.write("a.txt", "something longer\n"),
            false,
        ),
        (
            "stamps that are not kept",
            |scene| drop(scene.git(&["config", "core.ignoreStat", "true"])),
            |scene| scene.write("a.txt", "something longer\n"),
            false,
        ),
        (
            "attributes that a rule ignores",
            |scene| {
                scene.write(".gitignore", "ignored\n.gitattributes\n");
                scene.write(".gitattributes", IDENT);
                scene.commit_all();
            },
            |scene| scene.write("x.id", "$Id: abc $\n"),
            false,
        ),
        (
            "attributes that a rule ignores, later",
            |scene| {
                scene.write(".gitignore", "ignored\n.gitattributes\n");
                scene.commit_all();
            },
            |scene| {
                scene.write(".gitattributes", IDENT);
                scene.write("x.id", "$Id: abc $\n");
            },
            false,
        ),
        (
            "attributes in a folder that a rule ignores",
            |scene| {
                scene.write("out/x.id", "one\n");
                scene.commit_all();
                scene.write("out/.gitattributes", IDENT);
                scene.write(".gitignore", "ignored\nout/\n");
                scene.git(&["commit", "-qam", "rules"]);
            },
            |scene| scene.write("out/x.id", "$Id: abc $\n"),
            false,
        ),
        (
            "attributes of a tree",
            |scene| {
                scene.git(&["checkout", "-q", "--orphan", "attributes"]);
                scene.write(".gitattributes", IDENT);
                scene.commit_all();
                scene.git(&["checkout", "-q", "main"]);
                scene.git(&["config", "attr.tree", "refs/heads/attributes"]);
            },
            |scene| scene.write("x.id", "$Id: abc $\n"),
            false,
        ),
        ("magic", |_| {}, |scene| scene.write(":(top)ignored", "x\n"), true),
        (
            "magic in a folder",
            |scene| scene.write(".gitignore", "/ignored\n"),
            |scene| scene.write(":/ignored", "x\n"),
            true,
        ),
        (
            "magic that is ignored",
            |scene| scene.write(".git/info/exclude", ":*\n"),
            |scene| scene.write(":(top)new", "x\n"),
            true,
        ),
        (
            "rules that are named and come later",
            |scene| drop(scene.git(&["config", "core.excludesFile", ".git/my-rules"])),
            |scene| {
                scene.write(".git/my-rules", "*.key\n");
                scene.write("x.key", "x\n");
            },
            false,
        ),
        (
            "settings that are included and come later",
            |scene| drop(scene.git(&["config", "include.path", "more"])),
            |scene| {
                scene.write(".git/more", "[core]\n\tfileMode = false\n");
                scene.set_mode("a.txt", 0o755);
            },
            false,
        ),
        (
            "settings of another branch",
            |scene| {
                scene.write(".git/more", "[core]\n\tfileMode = false\n");
                scene.git(&["config", "includeIf.onbranch:feature.path", "more"]);
            },
            |scene| {
                scene.git(&["checkout", "-q", "-b", "feature"]);
                scene.set_mode("a.txt", 0o755);
            },
            false,
        ),
        (
            "settings of the work tree",
            |scene| drop(scene.git(&["config", "extensions.worktreeConfig", "true"])),
            |scene| {
                scene.git(&["config", "--worktree", "core.fileMode", "false"]);
                scene.set_mode("a.txt", 0o755);
            },
            false,
        ),
        (
            "a repository that is shared",
            |scene| drop(scene.git(&["config", "core.sharedRepository", "0666"])),
            |scene| scene.write("a.txt", "two\n"),
            false,
        ),
        ("a link that is none to git", |_| {}, |scene| scene.link("gitmod~1"), false),
        ("another", |_| {}, |scene| scene.link("GI7EBA~1"), false),
        ("modules", |_| {}, |scene| scene.link(".gitmodules "), false),
        ("a stream of them", |_| {}, |scene| scene.link(".gitmodules::$DATA"), false),
    ];
    for (what, before, within, is_quick) in table {
        let scene = Scene::new();
        before(&scene);
        let mut race = Race::new(scene);
        for text in ["two\n", "three\n"] {
            race.scene.write("new.txt", text);
            race.keep(what);
        }
        within(&race.scene);
        race.step(what, is_quick);
        race.scene.write("new.txt", "four\n");
        race.keep(what);
        race.fsck();
    }
}

#[test]
fn attributes_above_the_root_count_though_only_git_has_them() {
    let scene = Scene::new();
    scene.write("part/a.txt", "one\n");
    scene.write(".gitattributes", "*.id ident\n");
    scene.commit_all();
    fs::remove_file(scene.root().join(".gitattributes")).expect("removed");
    let mut race = Race::below(scene, "part");
    race.scene.write("part/x.id", "$Id: abc $\n");
    race.step("attributes that are in the index alone", false);
}

/// What is looked at beside the work of the agent says nothing about the moment before or after.
#[test]
fn attributes_that_are_away_for_a_moment_count() {
    let scene = Scene::new();
    scene.write(".gitattributes", "*.id ident\n");
    scene.commit_all();
    let mut race = Race::new(scene);
    race.number += 1;
    let work = race.tree();
    let taken_in = race.quick.take_in(race.number).expect("taken in");
    race.scene.write(".gitattributes", "");
    race.quick.keep(taken_in, Some(work)).expect("kept");
    race.scene.write(".gitattributes", "*.id ident\n");
    race.whole.keep_now(race.number).expect("kept");
    race.scene.write("x.id", "$Id: abc $\n");
    race.step("attributes that were away for a moment", false);
}

#[test]
fn refs_that_move_elsewhere_are_written_there() {
    let scene = Scene::unborn();
    scene.git(&["config", "core.logAllRefUpdates", "false"]);
    scene.write("a.txt", "one\n");
    scene.commit_all();
    let _git_cannot_take_them_along = fs::remove_dir_all(scene.root().join(".git/logs"));
    let mut race = Race::new(scene);
    // Not every git can.
    let migrate = ["refs", "migrate", "--ref-format=reftable"];
    let can = Command::new("git").args(migrate).current_dir(race.scene.root()).output().expect("git").status;
    for number in 0..3 {
        race.scene.write("a.txt", &format!("{number}\n"));
        let was_quick = race.keep("after the migration");
        assert!(!(was_quick && can.success()));
        let last = format!("refs/ralph/quick/{}", race.number);
        assert!(race.scene.refs().lines().any(|name| name == last), "{last} is lost");
    }
}

#[test]
fn half_a_listing_is_none() {
    let scene = Scene::new();
    scene.write("deep/er/x", "x");
    scene.commit_all();
    let listed = scene.git(&["ls-files", "-s", "-v", "-z"]);
    let tree = ObjectId::from_hex(scene.git(&["rev-parse", "HEAD^{tree}"]).as_bytes()).expect("a name");
    assert!(KeptTree::read(listed.as_bytes(), tree).is_some());
    for end in 0..listed.trim_end_matches('\0').len() {
        assert!(KeptTree::read(&listed.as_bytes()[..end], tree).is_none(), "{end}");
    }
}

#[test]
fn agents_may_use_git_as_they_like() {
    let scene = Scene::new();
    scene.write("b.txt", "x\n");
    scene.commit_all();
    let mut race = Race::new(scene);
    let steps: [&[&str]; 14] = [
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
        &["gc", "-q", "--prune=now"],
    ];
    for (number, step) in steps.iter().enumerate() {
        race.scene.write("ignored", &format!("{number}\n"));
        race.scene.write("new.txt", &format!("{number}\n"));
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(*step);
        let _some_fail = git.current_dir(race.scene.root()).output();
        race.scene.write("b.txt", &format!("after {number}\n"));
        race.keep(&step.join(" "));
    }
    race.fsck();
}

/// Any steps in any order. `RALPH_STORIES` and `RALPH_STORIES_SEED` play others.
#[test]
fn any_story_comes_to_the_same_trees() {
    let (stories, seed) = (number("RALPH_STORIES", 4), number("RALPH_STORIES_SEED", 1));
    let (mut steps, mut quick) = (0, 0);
    for story in 0..stories {
        let mut dice = Dice::new(seed * 1_000 + story);
        let mut race = Race::new(Scene::new());
        for _ in 0..30 {
            let mut told = format!("story {story} of seed {seed}:");
            for _ in 0..=dice.roll() % 3 {
                told.push_str(&change_something(&race.scene, &mut dice));
            }
            quick += u32::from(race.keep(&told));
            steps += 1;
        }
        race.fsck();
    }
    assert!(quick * 3 > steps, "{quick} of {steps} were quick: the stories show little");
}

fn change_something(scene: &Scene, dice: &mut Dice) -> String {
    // Names that lie close to each other in git's order, that rules speak of, and that must be quoted.
    const NAMES: [&str; 22] = [
        "a.txt",
        "b.txt",
        "d",
        "d/x.txt",
        "d/e/y.txt",
        "d.txt",
        "d/e",
        "d0",
        "d-",
        "d e",
        "d{e}",
        "[d]",
        "d*",
        "D",
        "ignored",
        "d/ignored",
        "new.log",
        "é",
        "ü/link",
        "z/z/z",
        "__pycache__",
        "private.key",
    ];
    const GLOBS: [&str; 20] = [
        "d",
        "e",
        "*",
        "**",
        "?",
        "/",
        "!",
        "[de]",
        "[!d]",
        "[^e]",
        "{d,e}",
        "\\",
        " ",
        ".",
        "[[:alpha:]]",
        "[",
        "]",
        "**/",
        "é",
        "\t",
    ];
    let name = dice.pick(&NAMES);
    let path = scene.root().join(name);
    let clear = |path: &Path| {
        let _one_of_them = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
    };
    let make_room = |path: &Path| {
        for above in path.ancestors().skip(1).take_while(|above| above.starts_with(scene.root())) {
            if fs::symlink_metadata(above).is_ok_and(|meta| !meta.is_dir()) {
                clear(above);
            }
        }
        clear(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    };
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(words);
        let _some_fail = git.current_dir(scene.root()).output();
    };
    let did = match dice.roll() % 40 {
        0..=18 => {
            make_room(&path);
            let line_end = if dice.roll().is_multiple_of(30) { "\r\n" } else { "\n" };
            fs::write(&path, format!("{}{line_end}", dice.roll() % 5)).expect("written");
            "written"
        }
        19..=23 => {
            clear(&path);
            "removed"
        }
        24 | 25 => {
            make_room(&path);
            symlink(dice.pick(&["d", "a.txt", "nowhere", "../b.txt"]), &path).expect("a link");
            "a link"
        }
        26 | 27 if path.is_file() => {
            let mode = dice.pick(&[0o644, 0o755, 0o600]);
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
            "another mode"
        }
        28 | 29 => {
            let to = scene.root().join(dice.pick(&NAMES));
            if fs::symlink_metadata(&path).is_ok() && !to.starts_with(&path) && !path.starts_with(&to) {
                make_room(&to);
                fs::rename(&path, &to).expect("moved");
            }
            "moved away"
        }
        30 => {
            let rules = ["ignored\n", "ignored\n*.log\n", "ignored\n__pycache__\n"];
            fs::write(scene.root().join(".gitignore"), dice.pick(&rules)).expect("rules");
            "not looked at: new rules"
        }
        31 => {
            let line = |dice: &mut Dice| (0..=dice.roll() % 4).map(|_| dice.pick(&GLOBS)).collect::<String>();
            let rules: Vec<String> = (0..=dice.roll() % 4).map(|_| line(dice)).collect();
            let folder = scene.root().join(dice.pick(&["", "d"]));
            let _no_folder = fs::write(folder.join(".gitignore"), rules.join("\n"));
            return format!(" odd rules {rules:?} in {};", folder.display());
        }
        32 => {
            scene.write(".git/info/exclude", dice.pick(&["", "*.key\n", "d/\n!d/e\n"]));
            "not looked at: rules of the repository"
        }
        33 => {
            git(&["add", "-f", "--", &format!(":(literal){name}")]);
            "added with force"
        }
        34 => {
            git(&["rm", "-rq", "--cached", "--", &format!(":(literal){name}")]);
            "not tracked any more"
        }
        35 => {
            git(&["add", "-A"]);
            git(&["commit", "-qm", "more"]);
            "not looked at: all committed"
        }
        36 => {
            git(&["stash", "-u", "-q"]);
            git(&["stash", dice.pick(&["pop", "list"]), "-q"]);
            "not looked at: stashed"
        }
        37 => {
            git(dice.pick(&[&["add", "-N", "."][..], &["pack-refs", "--all"], &["gc", "-q", "--prune=now"]]));
            "not looked at: something with git"
        }
        _ => "left alone",
    };
    format!(" {name} {did};")
}

fn number(variable: &str, default: u64) -> u64 {
    crate::sys::env::all()
        .find(|(name, _)| name == variable)
        .and_then(|(_, value)| value.to_str()?.parse().ok())
        .unwrap_or(default)
}
