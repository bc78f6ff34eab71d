//! The git that ralph calls starts no program that the repo's config or attributes name. Each test plants a canary, a
//! program that leaves a mark when it is started.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use ralph_testkit::{Finished, Pty, Sandbox};

/// A trusted repo with one commit, and a driven loop whose agent is a script.
struct RepoWithCanary {
    sandbox: Sandbox,
}

impl RepoWithCanary {
    fn new() -> Self {
        let mut sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
        sandbox.set("CANARY", sandbox.home().join("canary").to_string_lossy());
        // Its own name and the command that started it.
        let who = "$0 $* from $(tr '\\0' ' ' < /proc/$PPID/cmdline)";
        let text = format!("#!/bin/sh\necho \"{who}\" >> {}\ncat\n", sandbox.home().join("ran").display());
        write_program(&sandbox.home().join("canary"), &text);
        sandbox.file("work.txt", "zero\n");
        sandbox.git(&["add", "-A"]);
        sandbox.git(&["commit", "-qm", "a beginning"]);
        Self { sandbox }
    }

    /// Drives one iteration in which the agent runs this, then does some work.
    fn drive(&self, agent: &str) -> Finished {
        self.sandbox.file(
            "agent.sh",
            &format!("{agent}\nsleep 0.05; echo one > work.txt; echo new > new.txt; : > done.txt"),
        );
        let arguments = ["loop", "work", "--agent", "command:sh agent.sh", "--max-iterations", "1"];
        self.sandbox.ralph(&arguments)
    }

    fn ran(&self) -> String {
        fs::read_to_string(self.sandbox.home().join("ran")).unwrap_or_default()
    }

    #[track_caller]
    fn nothing_ran(&self, what: &str) {
        assert_eq!(self.ran(), "", "{what}: a program of the repo was started");
    }

    /// The hidden ref of the first iteration.
    fn kept(&self) -> String {
        let refs = self.sandbox.git(&["for-each-ref", "--format=%(refname)", "refs/ralph"]);
        refs.lines().find(|name| name.ends_with("/1")).expect("a checkpoint").to_owned()
    }

    fn kept_text(&self, file: &str) -> String {
        self.sandbox.git(&["show", &format!("{}:{file}", self.kept())])
    }
}

fn write_program(path: &std::path::Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a file of ours");
}

#[test]
fn a_filter_that_the_agent_sets_does_not_run_at_the_checkpoint() {
    let table = [
        ("by .gitattributes", "git config filter.x.clean $CANARY; echo '* filter=x' > .gitattributes"),
        (
            "by .git/info/attributes",
            "git config filter.x.clean $CANARY; mkdir -p .git/info; echo '* filter=x' > .git/info/attributes",
        ),
        (
            "by a file of attributes elsewhere",
            "git config filter.x.clean $CANARY; echo '* filter=x' > ../attributes
             git config core.attributesFile ../attributes",
        ),
        (
            "by an included config",
            "printf '[filter \"x\"]\\n\\tclean = %s\\n' $CANARY > .git/more
             git config include.path more; echo '* filter=x' > .gitattributes",
        ),
        (
            "by the config of the user",
            "git config --global filter.x.clean $CANARY; echo '* filter=x' > .gitattributes",
        ),
        (
            "as a process",
            "git config filter.x.process $CANARY; git config filter.x.required true
             echo '* filter=x' > .gitattributes",
        ),
        (
            "with an odd name",
            "git config 'filter.a = b.c\"d.clean' $CANARY
             echo '* filter=a' > .gitattributes; git config filter.a.clean $CANARY",
        ),
    ];
    for (what, agent) in table {
        let scene = RepoWithCanary::new();
        let ran = scene.drive(agent).success();
        scene.nothing_ran(what);
        assert_eq!(scene.kept_text("work.txt"), "zero\n", "{what}: kept as the index has it");
        assert!(
            ran.stderr.contains("not in the checkpoint") && ran.stderr.contains("work.txt"),
            "{what}: {ran:#?}"
        );
        scene.sandbox.ralph(&["report"]);
        scene.sandbox.ralph(&["diff"]);
        scene.nothing_ran(what);
    }
}

/// Later checkpoints are made from the previous one, without a `git add`.
#[test]
fn a_filter_that_is_set_in_a_later_iteration_is_noticed() {
    for attributes in [".gitattributes", ".git/info/attributes"] {
        let scene = RepoWithCanary::new();
        let agent = format!(
            "n=0; while test -e ../home/run$n; do n=$((n + 1)); done; : > ../home/run$n; echo $n > work.txt; sleep 0.05
             if test $n = 4; then git config filter.x.clean $CANARY; echo '* filter=x' > {attributes}; fi
             if test $n = 5; then : > done.txt; fi"
        );
        scene.sandbox.file("agent.sh", &agent);
        let arguments = ["loop", "work", "--agent", "command:sh agent.sh", "--max-iterations", "6"];
        let ran = scene.sandbox.ralph(&arguments).success();
        scene.nothing_ran(attributes);
        assert!(ran.stderr.contains("(filters are not run): "), "{attributes}: {ran:#?}");
        let last = format!("{}6", scene.kept().trim_end_matches('1'));
        let kept = scene.sandbox.git(&["show", &format!("{last}:work.txt")]);
        assert_eq!(kept, "3\n", "{attributes}: as before the filter");
    }
}

#[test]
fn files_without_a_filter_are_kept_beside_those_with_one() {
    let scene = RepoWithCanary::new();
    let agent =
        "git config filter.x.clean $CANARY; echo 'new.txt filter=x' > .gitattributes; echo more > more.txt";
    let ran = scene.drive(agent).success();
    scene.nothing_ran("a filter for one file");
    assert_eq!(scene.kept_text("work.txt"), "one\n");
    assert_eq!(scene.kept_text("more.txt"), "more\n");
    let names = scene.sandbox.git(&["ls-tree", "--name-only", &scene.kept()]);
    assert!(!names.contains("new.txt"), "{names}");
    assert!(ran.stderr.contains("new.txt"), "{ran:#?}");
}

#[test]
fn other_programs_of_the_repos_config_do_not_run() {
    let table = [
        ("fsmonitor", "git config core.fsmonitor $CANARY"),
        (
            "hooks",
            "mkdir hooks; for h in post-index-change reference-transaction pre-commit; do cp $CANARY hooks/$h; done; git config core.hooksPath \"$PWD/hooks\"",
        ),
        (
            "signing",
            "git config commit.gpgSign true; git config gpg.program $CANARY; git config log.showSignature true",
        ),
        ("external diff", "git config diff.external $CANARY"),
        (
            "diff driver",
            "git config diff.x.command $CANARY; git config diff.x.textconv $CANARY; echo '* diff=x' > .gitattributes",
        ),
        ("submodule diffs", "git config diff.submodule diff; git config submodule.recurse true"),
    ];
    for (what, agent) in table {
        let scene = RepoWithCanary::new();
        scene.drive(agent).success();
        assert_eq!(scene.kept_text("work.txt"), "one\n", "{what}");
        let diff = scene.sandbox.ralph(&["diff"]).success();
        assert!(diff.stdout.contains("+one"), "{what}: {diff:#?}");
        scene.sandbox.ralph(&["diff", "--stat"]).success();
        scene.sandbox.ralph(&["report"]);
        scene.nothing_ran(what);
    }
}

#[test]
fn the_programs_of_a_submodule_do_not_run() {
    let scene = RepoWithCanary::new();
    let source = scene.sandbox.home().join("source");
    fs::create_dir(&source).expect("a folder");
    fs::write(source.join("in.txt"), "in\n").expect("a file");
    for arguments in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-qm", "a beginning"]] {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
        let done = Command::new("git").args(identity).args(arguments).current_dir(&source).status();
        assert!(done.expect("git").success());
    }
    scene.sandbox.add_submodule(&source, "sub");
    scene.sandbox.git(&["commit", "-qam", "a submodule"]);
    // The size stays and the time changes: git has to read the file again to detect a change.
    let agent = "git -C sub -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m next
        git -C sub config filter.x.clean $CANARY; git -C sub config core.fsmonitor $CANARY
        echo '* filter=x' >> .git/modules/sub/info/attributes; git config -f .gitmodules submodule.sub.ignore none
        sleep 0.05; echo in > sub/in.txt";
    scene.drive(agent).success();
    scene.nothing_ran("a submodule");
    let now = scene.sandbox.git(&["-c", "core.fsmonitor=false", "-C", "sub", "rev-parse", "HEAD"]);
    let kept = scene.sandbox.git(&["rev-parse", &format!("{}:sub", scene.kept())]);
    assert_eq!(kept, now, "its commit is kept");
    scene.sandbox.git(&["config", "diff.submodule", "diff"]);
    scene.sandbox.ralph(&["diff"]).success().says("Subproject commit");
    scene.nothing_ran("its diff");
}

#[test]
fn a_pager_in_the_repos_config_does_not_run() {
    let in_terminal = |sandbox: &Sandbox| Pty::open().start(&sandbox.command(&["diff"])).finish();
    let table = [
        ("core.pager", "[core]\n\tpager = echo global:; cat\n"),
        ("pager.diff", "[pager]\n\tdiff = echo global:; cat\n"),
    ];
    for (key, global) in table {
        let mut scene = RepoWithCanary::new();
        scene.drive(&format!("git config {key} $CANARY")).success();
        scene.sandbox.set("PAGER", "echo mine:; cat");
        assert!(in_terminal(&scene.sandbox).stdout.contains("mine:"), "the pager of the environment");
        fs::write(scene.sandbox.home().join(".gitconfig"), global).expect("a file");
        assert!(in_terminal(&scene.sandbox).stdout.contains("global:"), "{key} of the user's own config");
        scene.nothing_ran(key);
    }
}
