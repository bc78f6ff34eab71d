//! `docs/session-loop.md`: its transcript is played by the real binary, and the commands and words that it and the README
//! show are ones that ralph recognises.

use std::fs;
use std::path::PathBuf;

use ralph_core::claims::control_word::{self, ControlWord};
use ralph_core::claims::start_request;
use serde_json::Value;

use ralph_testkit::{HookAnswer, Sandbox, Session};

const GUIDE: &str = "docs/session-loop.md";
const BEGIN: &str = "<!-- transcript: written by `RALPH_BLESS=1 cargo test -p ralph --test it guide` -->\n";
const END: &str = "<!-- end of transcript -->\n";

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn page(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// `RALPH_BLESS=1 cargo test -p ralph --test it guide` rewrites it.
#[test]
fn the_transcript_in_the_guide_is_current() {
    let played = a_whole_loop();
    let page = page(GUIDE);
    let (before, rest) = page.split_once(BEGIN).expect("where the transcript begins");
    let (there, after) = rest.split_once(END).expect("where the transcript ends");
    if std::env::var_os("RALPH_BLESS").is_some() {
        fs::write(file(GUIDE), [before, BEGIN, &played, END, after].concat()).expect("written");
        return;
    }
    for (there, played) in there.lines().zip(played.lines()) {
        assert_eq!(there, played, "run it once with RALPH_BLESS=1");
    }
    assert_eq!(there.len(), played.len(), "run it once with RALPH_BLESS=1");
}

const TEST: &str = "check() { [ \"$(sh greet.sh $1)\" = \"$2\" ] || { echo \"FAIL greet.sh $1: expected '$2', got '$(sh greet.sh $1)'\"; exit 1; }; }
check Ada 'Hello, Ada!'
check '' 'Hello, world!'
";

fn a_whole_loop() -> String {
    let sandbox = Sandbox::new();
    sandbox.file("greet.sh", "echo hello\n");
    sandbox.file("test.sh", TEST);
    sandbox.file("ralph.yaml", "verify:\n  - { name: test, run: sh test.sh }\n");
    sandbox.trust();
    let mut story = Story { sandbox: &sandbox, talk: Session::new(&sandbox), text: String::new() };

    story.chapter("The loop starts");
    story.commands(
        "ralph-loop",
        "\"Let greet.sh greet by name\" --completion-promise DONE --max-iterations 3",
    );

    story.chapter("No promise, and a failing gate: held");
    story.stops("I have read greet.sh and know what to do.").blocked();

    story.chapter("A promise that is not true: refused, and counted");
    story.writes("greet.sh", "echo \"Hello, $1\"\n");
    story.stops("greet.sh takes a name now.\n\n<promise>DONE</promise>").blocked();

    story.chapter("The person pauses, looks, and goes on");
    story.types("pause");
    story.stops("All right, I wait.").allowed();
    story.types("continue");

    story.chapter("The third stop is the last that was granted");
    story.writes("greet.sh", "echo \"Hello, $1!\"\n");
    let shown = story.stops("The exclamation mark was missing.").allowed();
    assert!(shown.is_some_and(|shown| shown.contains("Maximum iterations reached (3)")), "no limit");
    story.types("continue");

    story.chapter("Done: the promise, and gates that pass");
    story.writes("greet.sh", "echo \"Hello, ${1:-world}!\"\n");
    let shown = story.stops("Without a name it greets the world.\n\n<promise>DONE</promise>").allowed();
    assert!(shown.is_some_and(|shown| shown.contains("Loop done, verified")), "not verified");
    at_one_moment(&story.text)
}

/// A report is named after its time; the page always shows the same one.
fn at_one_moment(story: &str) -> String {
    let line = |line: &str| match line.split_once("Report: docs/actions/loop/") {
        Some((before, _)) => format!("{before}Report: docs/actions/loop/2026-03-05T09-15-00Z.md\n"),
        None => format!("{line}\n"),
    };
    story.lines().map(line).collect()
}

/// A session with the messages of both sides.
struct Story<'a> {
    sandbox: &'a Sandbox,
    talk: Session<'a>,
    text: String,
}

impl Story<'_> {
    fn chapter(&mut self, title: &str) {
        self.text.push_str(&format!("### {title}\n\n"));
    }

    fn commands(&mut self, name: &str, words: &str) {
        let answer = self.talk.command(name, words);
        assert!(answer.ran.json().get("decision").is_none(), "{answer:#?}");
        self.scene("The person types", &format!("/{name} {words}"), &answer);
    }

    /// A control word: it always gets an answer.
    fn types(&mut self, word: &str) {
        let answer = self.talk.user_says(word);
        assert!(!answer.ran.stdout.is_empty(), "{word} was not recognised");
        self.scene("The person types", word, &answer);
    }

    fn writes(&mut self, name: &str, text: &str) {
        self.sandbox.file(name, text);
        self.talk.agent_works_with("Write");
        self.text.push_str(&format!("```text\nThe agent writes {name}:\n{}```\n\n", indented(text)));
    }

    fn stops(&mut self, message: &str) -> HookAnswer {
        let answer = self.talk.stops(message);
        self.scene("The agent stops and says", message, &answer);
        answer
    }

    fn scene(&mut self, who: &str, what: &str, answer: &HookAnswer) {
        let mut parts = vec![(who, what.to_owned())];
        let messages = messages(answer);
        parts.extend(messages.user.map(|text| ("ralph tells the person", text)));
        parts.extend(messages.agent.map(|text| ("ralph tells the agent", text)));
        if parts.len() == 1 {
            parts.push(("ralph is silent", "(the turn ends)".to_owned()));
        }
        let parts: Vec<String> =
            parts.iter().map(|(who, text)| format!("{who}:\n{}", indented(&self.anywhere(text)))).collect();
        self.text.push_str(&format!("```text\n{}```\n\n", parts.join("\n")));
    }

    /// Replaces what differs between runs: folders, ids and times.
    fn anywhere(&self, text: &str) -> String {
        let home = self.sandbox.home();
        let text = text.replace(&*home.to_string_lossy(), "~");
        let lines = text.lines().map(|line| {
            let (gate, rest) = line.split_once(" after ").unwrap_or((line, ""));
            if line.starts_with("Gate `") && rest.ends_with('.') {
                return format!("{gate} after 0.1 s.");
            }
            match line.strip_prefix("Full output: ~/.ralph/") {
                Some(_) => "Full output: ~/.ralph/repos/…/logs/….log".to_owned(),
                None => line.to_owned(),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

struct Messages {
    user: Option<String>,
    agent: Option<String>,
}

/// The recipients: the reason of a blocked stop is for the agent, that of an answered word or command for the user.
fn messages(answer: &HookAnswer) -> Messages {
    if answer.ran.stdout.is_empty() {
        return Messages { user: None, agent: None };
    }
    let value = answer.ran.json();
    let text = |value: &Value| value.as_str().map(|text| text.trim_matches('\n').to_owned());
    let context = text(&value["hookSpecificOutput"]["additionalContext"]);
    let user = text(&value["systemMessage"]).or_else(|| text(&value["stopReason"]));
    let reason = text(&value["reason"]);
    let agent: Vec<String> = reason.into_iter().chain(context).collect();
    Messages { user, agent: (!agent.is_empty()).then(|| agent.join("\n\n")) }
}

fn indented(text: &str) -> String {
    let indent = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
    text.lines().map(indent).collect()
}

/// What a page shows as code outside its transcript: the lines of its blocks, and inline code.
fn shown_as_code(page: &str) -> Vec<String> {
    let (before, rest) = page.split_once(BEGIN).unwrap_or((page, ""));
    let after = rest.split_once(END).map_or("", |(_, after)| after);
    let mut code = Vec::new();
    let mut in_block = false;
    for line in before.lines().chain(after.lines()) {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            let line = line.split("  #").next().unwrap_or_default();
            code.push(line.trim().trim_start_matches("$ ").to_owned());
        } else {
            code.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    code
}

#[test]
fn every_command_in_the_guide_exists_with_its_options() {
    let sandbox = Sandbox::without_git();
    let all = sandbox.ralph(&["--help"]).success().stdout;
    let (mut commands, mut loops) = (0, 0);
    for name in [GUIDE, "README.md"] {
        for line in shown_as_code(&page(name)) {
            if let Some(words) = line.strip_prefix("ralph ") {
                let command = words.split_whitespace().next().unwrap_or_default();
                assert!(
                    all.contains(&format!("\n  {command} ")),
                    "{name}: `{line}`: there is no such command"
                );
                let help = sandbox.ralph(&[command, "--help"]).success().stdout;
                for option in words.split_whitespace().filter(|word| word.starts_with("--")) {
                    assert!(help.contains(option), "{name}: `{line}`: there is no `{option}`");
                }
                commands += 1;
            }
            let words = line.strip_prefix("/ralph-loop ").or_else(|| line.strip_prefix("/ralph:ralph-loop "));
            if let Some(words) = words {
                start_request::read(words).unwrap_or_else(|error| panic!("{name}: `{line}`: {error}"));
                loops += 1;
            }
        }
    }
    assert!(commands > 20 && loops > 2, "the pages are read wrongly: {commands} commands, {loops} loops");
}

#[test]
fn every_word_in_the_guide_is_recognised() {
    let page = page(GUIDE);
    for (label, meaning) in [("pauses", ControlWord::Pause), ("resumes", ControlWord::Resume)] {
        let row = page.lines().find(|line| line.starts_with(&format!("| {label} |")));
        let row = row.unwrap_or_else(|| panic!("no row of the words by which it {label}"));
        let words: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        assert!(words.len() >= 8, "{row}");
        for word in words {
            assert_eq!(control_word::read(word), Some(meaning), "{word}");
        }
    }
}
