//! What a driven loop will do, before anything runs.

use serde::{Deserialize, Serialize};

use crate::clients::profile::Profile;
use crate::model::drive_options::DriveOptions;
use crate::model::gate::Gate;
use crate::model::goal::Goal;
use crate::model::id::LoopId;
use crate::model::limits::Limits;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrivePlan {
    pub loop_id: LoopId,
    pub goal: Goal,
    pub profile: Profile,
    pub options: DriveOptions,
    pub limits: Limits,
    pub gates: Vec<Gate>,
    /// Additional permissions from the user's config.
    pub allow: Vec<String>,
}

impl DrivePlan {
    /// The gates that must pass.
    pub fn required_gates(&self) -> usize {
        self.gates.iter().filter(|gate| !gate.advisory).count()
    }
}
