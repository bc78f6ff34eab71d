//! The acceptance of a repo's gates: who gave it, when, and whether it counts for a stop.

use jiff::Timestamp;
use ralph_core::config::Guard;
use ralph_core::ledger::state::State;
use ralph_core::model::id::{Digest, SessionId};
use ralph_core::model::layout::Layout;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Acceptance {
    pub(crate) sha256: Digest,
    pub(crate) layout: Layout,
    pub(crate) at: Timestamp,
    pub(crate) by: AcceptedBy,
    /// Whom the definition names to be held, where it names anybody: a look at this file then tells that nobody else is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guard: Option<Guard>,
}

/// Who accepted, as far as it can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub(crate) enum AcceptedBy {
    PersonAtATerminal,
    Script,
    AgentsShell {
        client: String,
        /// The session in whose shell it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
    },
}

impl std::fmt::Display for AcceptedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PersonAtATerminal => f.write_str("a person at a terminal"),
            Self::Script => f.write_str("a script"),
            Self::AgentsShell { client, .. } => write!(f, "an agent's shell ({client})"),
        }
    }
}

/// What was accepted when a loop or session began.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beginning<'a> {
    /// Nothing is known of it: what is accepted now counts.
    Unknown,
    /// A loop is judged by the definition that it began with.
    Loop(Option<&'a Digest>),
    /// A session is judged by what it found when it began.
    Session(&'a [Digest]),
}

impl<'a> Beginning<'a> {
    /// Of a loop that may or may not run.
    pub(crate) fn of_loop(state: Option<&'a State>) -> Self {
        state.map_or(Self::Unknown, |state| Self::Loop(state.definition.as_ref()))
    }
}

/// The acceptances of a repo as a stop sees them, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Acceptances {
    pub(crate) counting: Vec<Acceptance>,
    /// Given since the loop or session began, at a terminal by their own word.
    pub(crate) since: Vec<Acceptance>,
}

impl Acceptances {
    /// Which of them count for a stop. One made in a shell of this very session does not. One that was given after the
    /// loop or session began verifies nothing, even if the user gave it: any process can write to `trust.json`.
    pub(crate) fn that_count(
        accepted: &[Acceptance],
        session: Option<&SessionId>,
        beginning: Beginning<'_>,
    ) -> Self {
        let by_itself = |acceptance: &Acceptance| match &acceptance.by {
            // A shell that does not say whose it is may be this one's.
            AcceptedBy::AgentsShell { session: whose, .. } => whose.is_none() || whose.as_ref() == session,
            AcceptedBy::PersonAtATerminal | AcceptedBy::Script => false,
        };
        let was_there = |acceptance: &Acceptance| match beginning {
            Beginning::Unknown => !by_itself(acceptance),
            Beginning::Loop(definition) => definition == Some(&acceptance.sha256),
            Beginning::Session(accepted) => accepted.contains(&acceptance.sha256) && !by_itself(acceptance),
        };
        let (counting, later): (Vec<_>, Vec<_>) = accepted.iter().cloned().partition(was_there);
        let by_person = |later: &Acceptance| later.by == AcceptedBy::PersonAtATerminal;
        Self { counting, since: later.into_iter().filter(by_person).collect() }
    }

    /// Where nobody is judged, all of them count.
    pub(crate) fn all(accepted: &[Acceptance]) -> Self {
        Self { counting: accepted.to_vec(), since: Vec::new() }
    }
}
