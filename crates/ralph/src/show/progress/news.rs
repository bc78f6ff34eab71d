//! What happens in a driven loop, told as it happens to whoever follows it: the log, the terminal, a script.

use jiff::Timestamp;
use ralph_core::clients::stream::AgentEvent;
use ralph_core::ledger::drive::Approach;
use ralph_core::ledger::event::AgentRun;
use ralph_core::ledger::state::State;
use ralph_core::model::budget::Attempts;
use ralph_core::model::gate::{Gate, GateReport};

use ralph_core::ledger::drive_plan::DrivePlan;

#[derive(Clone, Copy, Debug)]
pub(crate) enum News<'a> {
    /// Before anything is run; `state` is where an earlier drive left it.
    Begins {
        plan: &'a DrivePlan,
        state: &'a State,
    },
    IterationBegan {
        number: u32,
        of: Attempts,
        approach: Approach,
    },
    /// What the agent does, as it does it.
    Agent(&'a AgentEvent),
    AgentEnded {
        run: &'a AgentRun,
        state: &'a State,
    },
    GateStarted(&'a Gate),
    /// What that means is known once the tree was read again.
    GateEnded(&'a Gate),
    GateFinished(&'a GateReport),
    /// Gates changed these files.
    TreeChanged(&'a [String]),
    /// The tree of the iteration was judged: `state.last` is what came of it.
    Judged {
        number: u32,
        state: &'a State,
    },
    StrategyChanged,
    /// A usage limit. Told again whenever a wait is gone on with.
    Waits {
        until: Timestamp,
        why: &'a str,
    },
    /// Something beside the loop went wrong; it goes on.
    Trouble(&'a str),
    /// Nothing more happens in this drive; `state` says why. An interrupted loop is paused.
    Ends {
        plan: &'a DrivePlan,
        state: &'a State,
    },
}

/// Somebody who follows a loop. Whatever goes wrong there never reaches the loop.
pub(crate) trait Follow {
    fn hear(&mut self, news: &News<'_>);
}

/// Several who follow.
impl Follow for Vec<Box<dyn Follow>> {
    fn hear(&mut self, news: &News<'_>) {
        for follower in self {
            follower.hear(news);
        }
    }
}

/// Nobody follows.
pub(crate) struct Nobody;

impl Follow for Nobody {
    fn hear(&mut self, _news: &News<'_>) {}
}
