//! How our hook is installed in a client: the files that `ralph init` writes and `ralph doctor` reads, and the sample
//! events that `ralph doctor` and `ralph demo` send through the hook.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ralph_core::clients::hook::HookReply;

use crate::clients::hook_command;
use crate::clients::installed::Timeouts;

/// One client's settings files and the other files installed in a project for it.
#[derive(Debug)]
pub struct Installation {
    /// The program whose version `ralph doctor` shows.
    pub(crate) program: &'static str,
    /// The settings file of one user in one project, relative to its root.
    pub(crate) local: &'static str,
    /// The shared settings file.
    pub(crate) shared: &'static str,
    /// All events that the hook answers.
    pub(crate) events: &'static [AnsweredEvent],
    /// The event with which `ralph doctor` tests the hook.
    pub(crate) tried_event: &'static str,
    pub(crate) put_in: fn(Option<&str>, OwnEntries<'_>) -> Result<String, NotSettings>,
    /// The settings without our entries, given the previous text; `None` if there are none.
    pub(crate) take_out: fn(&str, Option<&str>) -> Option<String>,
    /// The settings without what was chosen of other programs; none where there is nothing of it.
    pub(crate) take_out_others: fn(&str, &TakeOut<'_>) -> Option<String>,
    /// All settings files that the client reads for a project, in order of precedence, the highest last, and our
    /// entries in each.
    pub(crate) look: fn(&Path) -> Vec<(PathBuf, HooksFound)>,
    /// Whether the settings of the project or the user have our hook for all of an event.
    pub(crate) answers: fn(&Path, &str) -> bool,
    /// How to raise the cap on blocks.
    pub(crate) cap: CapSetting,
    /// Our slash commands: files and their texts.
    pub(crate) commands: &'static [(&'static str, &'static str)],
    /// Our roles and skills: files and their texts.
    pub(crate) roles: &'static [(&'static str, &'static str)],
    pub(crate) agents: AgentFiles,
    pub(crate) plugin: Plugin,
    /// A sample entry, for the help of `ralph hook`.
    pub(crate) example: &'static str,
    pub(crate) rehearsal: HookTrial,
}

/// How the settings set the client's cap on consecutive blocks.
#[derive(Debug)]
pub(crate) struct CapSetting {
    /// The setting's name, for display.
    pub(crate) name: &'static str,
    /// More than any loop needs, so that loops end by their own limits, but still a limit.
    pub(crate) raised: u32,
    /// Instructions for another value.
    pub(crate) how_to_set: fn(u32) -> String,
}

/// The project's own sub-agents.
#[derive(Debug)]
pub(crate) struct AgentFiles {
    pub(crate) folder: &'static str,
    pub(crate) names: fn(&Path) -> Vec<String>,
    /// A guarded sub-agent for projects that have none: its file and its text.
    pub(crate) check: (&'static str, &'static str),
}

/// Our plugin for the client, an alternative to settings entries.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) entries: fn() -> Vec<HookEntry>,
    /// The two commands that install it in a session, and the command that starts the client with a clone of it.
    pub(crate) steps: fn() -> [String; 3],
}

/// Plays the client's part when the hook is called without it.
#[derive(Debug)]
pub(crate) struct HookTrial {
    /// The client's input when a sub-agent stops.
    pub(crate) stop: fn(&SampleStop<'_>) -> String,
    /// Its input for one of our commands, which is answered in any repo.
    pub(crate) command: fn(&Path) -> String,
    /// Parses the answer on stdout.
    pub(crate) read_answer: fn(&[u8]) -> HookReply,
    /// The variables that it sets for its hooks, besides the project's folder.
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

/// A sub-agent's stop.
#[derive(Debug)]
pub(crate) struct SampleStop<'a> {
    pub(crate) root: &'a Path,
    pub(crate) session: &'a str,
    pub(crate) agent_name: &'a str,
    pub(crate) message: &'a str,
}

/// A client event that we answer.
#[derive(Debug)]
pub(crate) struct AnsweredEvent {
    pub(crate) event: &'static str,
    /// The commands or tools it applies to; others start no process.
    pub(crate) matcher: Option<&'static str>,
    /// Whether gates may run before the answer; other events are answered at once.
    pub(crate) judges: bool,
    /// What does not work without it.
    pub(crate) without_it: &'static str,
}

impl Installation {
    /// The events at which gates may run.
    pub(crate) fn judged_events(&self) -> impl Iterator<Item = &'static str> {
        self.events.iter().filter(|event| event.judges).map(|event| event.event)
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a settings file that can be edited: {0}")]
pub(crate) struct NotSettings(pub(crate) String);

/// The entries to add to a settings file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnEntries<'a> {
    pub(crate) command: &'a str,
    pub(crate) timeouts: Timeouts,
    /// Whether to raise the client's cap too, if the file does not set it.
    pub(crate) raises_cap: bool,
}

/// One of our entries in a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookEntry {
    pub(crate) event: String,
    pub(crate) matcher: Option<String>,
    pub(crate) command: String,
    pub(crate) timeout: Option<u64>,
    /// Whether it has no other fields. A client that runs it in the background, once, or conditionally ignores its
    /// answer.
    pub(crate) is_plain: bool,
}

impl HookEntry {
    /// Whether it runs for everything of this event that we need.
    pub(crate) fn answers(&self, event: &AnsweredEvent) -> bool {
        let words = |matcher: &str| matcher.split('|').map(str::to_owned).collect::<BTreeSet<_>>();
        let matches_all = match (self.matcher.as_deref(), event.matcher) {
            (None | Some("" | "*"), _) => true,
            (Some(_), None) => false,
            (Some(theirs), Some(ours)) => words(ours).is_subset(&words(theirs)),
        };
        self.event == event.event && matches_all
    }

    /// The deadline in the command line.
    pub(crate) fn deadline(&self) -> Option<u64> {
        hook_command::deadline(&self.command)
    }
}

/// A hook of another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherHook {
    pub(crate) event: String,
    pub(crate) command: String,
    /// Whether it runs where ralph judges a stop, and can block it.
    pub(crate) judges: bool,
}

/// Which entries of other programs are taken out.
pub(crate) struct TakeOut<'a> {
    pub(crate) hook: &'a dyn Fn(&OtherHook) -> bool,
    pub(crate) plugin: &'a dyn Fn(&str) -> bool,
}

/// The relevant content of a settings file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HooksFound {
    pub(crate) entries: Vec<HookEntry>,
    /// Reasons why the client silently ignores the hooks of this file.
    pub(crate) faults: Vec<String>,
    pub(crate) block_cap: Option<u32>,
    /// Other loop plugins.
    pub(crate) other_loops: Vec<String>,
    /// Every enabled plugin.
    pub(crate) plugins: Vec<String>,
    /// The hooks of other programs.
    pub(crate) other_hooks: Vec<OtherHook>,
    /// The name under which our own plugin is installed.
    pub(crate) our_plugin: Option<String>,
}
