//! The quick way against git's: the same steps in the same repository, kept both ways, must come to the same trees.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ralph_testkit::Dice;

use super::super::tests::{Scene, kept};
use super::super::{Checkpoints, Kept};
use crate::tree::{Tree, TreeReader};

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

    fn tree(&self) -> Arc<Tree> {
        Arc::new(TreeReader::new(self.quick.git.root()).read().expect("a tree"))
    }

    /// Keeps the tree both ways, and tells whether the quick one was taken.
    fn keep(&mut self, what: &str) -> bool {
        self.number += 1;
        let tree = self.tree();
        let at_once = self.quick.go_on(self.number, &tree);
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
        let log = self.scene.git(&["log", "--format=%an <%ae> %s", "refs/ralph/quick/1.."]);
        assert_eq!(log, "", "the first is an ancestor of the last");
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
                file.and_then(|file| file.set_len(super::LARGEST_FILE + 1)).expect("a file");
            },
            OPEN,
        ),
        (
            "many files",
            &|scene| (0..=super::MOST_PATHS).for_each(|number| scene.write(&format!("many/{number}"), "x")),
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

/// A file that changes after our look and back before the next one was taken in as it was in between.
#[test]
fn what_changed_is_looked_at_once_more() {
    let mut race = Race::new(Scene::new());
    race.settle();
    race.scene.write("a.txt", "seen\n");
    let seen = race.tree();
    race.scene.write("a.txt", "taken in\n");
    race.number += 1;
    let in_between = race.quick.go_on(race.number, &seen).expect("quick").commit;
    assert_eq!(race.scene.git(&["show", &format!("{in_between}:a.txt")]), "taken in");
    kept(race.whole.keep_now(race.number));
    race.scene.write("a.txt", "seen\n");
    race.step("as it was", true);
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
    const NAMES: [&str; 16] = [
        "a.txt",
        "b.txt",
        "d",
        "d/x.txt",
        "d/e/y.txt",
        "d.txt",
        "d/e",
        "ignored",
        "d/ignored",
        "new.log",
        "é",
        "z/z/z",
        "d0",
        "__pycache__",
        "private.key",
        "ü/link",
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
    let did = match dice.roll() % 24 {
        0..=11 => {
            make_room(&path);
            let line_end = if dice.roll().is_multiple_of(20) { "\r\n" } else { "\n" };
            fs::write(&path, format!("{}{line_end}", dice.roll() % 5)).expect("written");
            "written"
        }
        12..=14 => {
            clear(&path);
            "removed"
        }
        15 | 16 => {
            make_room(&path);
            let targets = ["d", "a.txt", "nowhere", "../b.txt"];
            symlink(dice.pick(&targets), &path).expect("a link");
            "a link"
        }
        17 | 18 if path.is_file() => {
            let mode = dice.pick(&[0o644, 0o755, 0o600]);
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
            "another mode"
        }
        19 => {
            let to = scene.root().join(dice.pick(&NAMES));
            if fs::symlink_metadata(&path).is_ok() && !to.starts_with(&path) && !path.starts_with(&to) {
                make_room(&to);
                fs::rename(&path, &to).expect("moved");
            }
            "moved away"
        }
        20 => {
            let rules = ["ignored\n", "ignored\n*.log\n", "ignored\n__pycache__\n"];
            fs::write(scene.root().join(".gitignore"), dice.pick(&rules)).expect("rules");
            "not looked at: new rules"
        }
        21 if dice.roll().is_multiple_of(3) => {
            scene.write(".git/info/exclude", dice.pick(&["", "*.key\n"]));
            "not looked at: rules of the repository"
        }
        22 if dice.roll().is_multiple_of(3) => {
            scene.git(&["gc", "-q", "--prune=now"]);
            "not looked at: housekeeping"
        }
        _ => "left alone",
    };
    format!(" {name} {did};")
}

fn number(variable: &str, default: u64) -> u64 {
    crate::env::all()
        .find(|(name, _)| name == variable)
        .and_then(|(_, value)| value.to_str()?.parse().ok())
        .unwrap_or(default)
}
