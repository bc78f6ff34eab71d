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
    /// What the definition guards, if anything, so that this file alone rules out everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guard: Option<Guard>,
}

/// Who accepted, as far as known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub(crate) enum AcceptedBy {
    PersonAtATerminal,
    Script,
    AgentsShell {
        client: String,
        /// The session that the shell belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
    },
}

impl std::fmt::Display for AcceptedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PersonAtATerminal => f.write_str("a user at a terminal"),
            Self::Script => f.write_str("a script"),
            Self::AgentsShell { client, .. } => write!(f, "an agent's shell ({client})"),
        }
    }
}

/// What was accepted when a loop or session began.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beginning<'a> {
    /// Unknown: current acceptances count.
    Unknown,
    /// A loop is judged by the definition it began with.
    Loop(Option<&'a Digest>),
    /// A session is judged by what was accepted when it began.
    Session(&'a [Digest]),
}

impl<'a> Beginning<'a> {
    /// Of a loop that may or may not exist.
    pub(crate) fn of_loop(state: Option<&'a State>) -> Self {
        state.map_or(Self::Unknown, |state| Self::Loop(state.definition.as_ref()))
    }
}

/// The acceptances of a repo that count for a stop, newest last.
#[derive(Debug, Default)]
pub(crate) struct Acceptances {
    pub(crate) counting: Vec<Acceptance>,
    /// Given since the loop or session began, by a user at a terminal according to the record.
    pub(crate) since: Vec<Acceptance>,
}

impl Acceptances {
    /// Filters the acceptances that count for a stop. One made in a shell of the same session does not count. One given
    /// after the loop or session began verifies nothing, even if the user gave it: any process can write to `trust.json`.
    pub(crate) fn that_count(
        accepted: &[Acceptance],
        session: Option<&SessionId>,
        beginning: Beginning<'_>,
    ) -> Self {
        let by_same_session = |acceptance: &Acceptance| match &acceptance.by {
            // A shell without a known session may belong to this one.
            AcceptedBy::AgentsShell { session: whose, .. } => whose.is_none() || whose.as_ref() == session,
            AcceptedBy::PersonAtATerminal | AcceptedBy::Script => false,
        };
        let existed = |acceptance: &Acceptance| match beginning {
            Beginning::Unknown => !by_same_session(acceptance),
            Beginning::Loop(definition) => definition == Some(&acceptance.sha256),
            Beginning::Session(accepted) => {
                accepted.contains(&acceptance.sha256) && !by_same_session(acceptance)
            }
        };
        let (counting, later): (Vec<_>, Vec<_>) = accepted.iter().cloned().partition(existed);
        let by_user = |later: &Acceptance| later.by == AcceptedBy::PersonAtATerminal;
        Self { counting, since: later.into_iter().filter(by_user).collect() }
    }

    /// Without a judged subject, all of them count.
    pub(crate) fn all(accepted: &[Acceptance]) -> Self {
        Self { counting: accepted.to_vec(), since: Vec::new() }
    }
}
