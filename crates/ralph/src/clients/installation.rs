//! How our hook gets into a client: the files that `ralph init` writes, what `ralph doctor` reads in them, and what both it
//! and `ralph demo` send through the hook to try it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ralph_core::clients::hook::HookReply;

use crate::clients::hook_command;
use crate::clients::installed::Timeouts;

/// One client's settings files and what else is put into a project for it.
#[derive(Debug)]
pub struct Installation {
    /// The program whose version `ralph doctor` shows.
    pub(crate) program: &'static str,
    /// The settings file of one user in one project, from its root.
    pub(crate) local: &'static str,
    /// The one that is shared with others.
    pub(crate) shared: &'static str,
    /// Every event that the hook answers.
    pub(crate) events: &'static [EventHeard],
    /// The one by which `ralph doctor` tries the hook.
    pub(crate) tried_event: &'static str,
    pub(crate) put_in: fn(Option<&str>, Ours<'_>) -> Result<String, NotSettings>,
    /// The settings without what is ours, given what was there before us; none where there is nothing of ours.
    pub(crate) take_out: fn(&str, Option<&str>) -> Option<String>,
    /// Every settings file that the client reads for a project, the strongest last, and what it says.
    pub(crate) look: fn(&Path) -> Vec<(PathBuf, HooksFound)>,
    /// Whether the settings of a project or of its user have our hook for all of an event.
    pub(crate) answers: fn(&Path, &str) -> bool,
    /// How the cap on blocks is raised.
    pub(crate) cap: CapSetting,
    /// Our commands for the client's prompt: files and their texts.
    pub(crate) commands: &'static [(&'static str, &'static str)],
    pub(crate) agents: AgentFiles,
    pub(crate) plugin: Plugin,
    /// An entry of ours, for the help of `ralph hook`.
    pub(crate) example: &'static str,
    pub(crate) rehearsal: Rehearsal,
}

/// How the settings set the client's cap on blocks in a row.
#[derive(Debug)]
pub(crate) struct CapSetting {
    /// What is set, as the user reads it.
    pub(crate) name: &'static str,
    /// More than any loop needs, so that a loop ends by its own limits, and still an end.
    pub(crate) raised: u32,
    /// What the user has to write for another number.
    pub(crate) how_to_set: fn(u32) -> String,
}

/// The project's own sub-agents.
#[derive(Debug)]
pub(crate) struct AgentFiles {
    pub(crate) folder: &'static str,
    pub(crate) names: fn(&Path) -> Vec<String>,
    /// A sub-agent to be held, for projects that have none: its file and its text.
    pub(crate) check: (&'static str, &'static str),
}

/// Our plugin for the client, in place of entries in its settings.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) entries: fn() -> Vec<HookEntry>,
    /// The two lines that install it, typed in a session, and the line that starts the client with a clone of it.
    pub(crate) steps: fn() -> [String; 3],
}

/// Plays the client's part, where the hook is called without it.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    /// What the client sends when a sub-agent stops.
    pub(crate) stop: fn(&SampleStop<'_>) -> String,
    /// What it sends for a command of ours. It is answered whoever is held, and in any repo.
    pub(crate) command: fn(&Path) -> String,
    /// What it makes of the answer on stdout.
    pub(crate) read_answer: fn(&[u8]) -> HookReply,
    /// The variables that it sets for its hooks, beside the project's folder.
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

/// An event of the client that we answer.
#[derive(Debug)]
pub(crate) struct EventHeard {
    pub(crate) event: &'static str,
    /// Of which commands or tools; any other costs no process.
    pub(crate) matcher: Option<&'static str>,
    /// Whether gates may run before the answer; everything else takes no time.
    pub(crate) judges: bool,
    /// What does not work where it is not heard.
    pub(crate) without_it: &'static str,
}

impl Installation {
    /// The events at which gates may run.
    pub(crate) fn judged_events(&self) -> impl Iterator<Item = &'static str> {
        self.events.iter().filter(|heard| heard.judges).map(|heard| heard.event)
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a settings file that can be edited: {0}")]
pub(crate) struct NotSettings(pub(crate) String);

/// What is put into a settings file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ours<'a> {
    pub(crate) command: &'a str,
    pub(crate) timeouts: Timeouts,
    /// Whether the client's cap is raised too, where the file sets none.
    pub(crate) raises_cap: bool,
}

/// One of our entries as it stands in a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookEntry {
    pub(crate) event: String,
    pub(crate) matcher: Option<String>,
    pub(crate) command: String,
    pub(crate) timeout: Option<u64>,
    /// Whether nothing else is said of it. A client that is told to run it in the background, once, or under a condition
    /// does not wait for what it says.
    pub(crate) is_plain: bool,
}

impl HookEntry {
    /// Whether it runs for everything of this event that we want to hear of.
    pub(crate) fn hears(&self, heard: &EventHeard) -> bool {
        let words = |matcher: &str| matcher.split('|').map(str::to_owned).collect::<BTreeSet<_>>();
        let all_of_it = match (self.matcher.as_deref(), heard.matcher) {
            (None | Some("" | "*"), _) => true,
            (Some(_), None) => false,
            (Some(theirs), Some(ours)) => words(ours).is_subset(&words(theirs)),
        };
        self.event == heard.event && all_of_it
    }

    /// The deadline that the command line gives.
    pub(crate) fn deadline(&self) -> Option<u64> {
        hook_command::deadline(&self.command)
    }
}

/// What a settings file says that concerns us.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HooksFound {
    pub(crate) entries: Vec<HookEntry>,
    /// What makes the client drop the hooks of this file without a word.
    pub(crate) faults: Vec<String>,
    pub(crate) block_cap: Option<u32>,
    /// Plugins that loop too.
    pub(crate) other_loops: Vec<String>,
    /// Our own plugin, by the name that it was installed by.
    pub(crate) our_plugin: Option<String>,
}
