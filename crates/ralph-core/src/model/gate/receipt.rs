//! A receipt: proof of a gate run by ralph itself. Only receipts make *verified*.
//!
//! The fields are private and the only constructor is [`Receipt::witness`], which lints restrict to the gate runner.
//! Stored receipts come from the hash-chained ledger.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::gate::Gate;
use crate::model::id::{Digest, GateName, TreeHash};

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    gate: GateName,
    run: String,
    definition: Digest,
    environment: Digest,
    tree: TreeHash,
    /// The whole tree, if the gate depends on a part of it only.
    whole_tree: TreeHash,
    at: Timestamp,
    #[serde(with = "crate::model::duration::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    took: Duration,
    runs: u32,
    log: Digest,
}

/// The evidence when a gate passed and the tree was the same before and after.
#[derive(Clone, Debug)]
pub struct ObservedPass {
    pub environment: Digest,
    pub tree: TreeHash,
    pub whole_tree: TreeHash,
    pub at: Timestamp,
    pub took: Duration,
    pub runs: u32,
    pub log: Digest,
}

impl Receipt {
    pub fn witness(gate: &Gate, seen: ObservedPass) -> Self {
        Self {
            gate: gate.name.clone(),
            run: gate.run.clone(),
            definition: gate.definition(),
            environment: seen.environment,
            tree: seen.tree,
            whole_tree: seen.whole_tree,
            at: seen.at,
            took: seen.took,
            runs: seen.runs,
            log: seen.log,
        }
    }

    pub fn gate(&self) -> &GateName {
        &self.gate
    }

    pub fn tree(&self) -> &TreeHash {
        &self.tree
    }

    pub fn took(&self) -> Duration {
        self.took
    }

    pub fn key(&self) -> ReceiptKey {
        ReceiptKey::from_parts(&self.definition, &self.environment, &self.tree)
    }

    /// Whether this receipt is valid for that gate, tree and environment.
    pub fn speaks_for(&self, gate: &Gate, environment: &Digest, tree: &TreeHash) -> bool {
        self.key() == ReceiptKey::new(gate, environment, tree)
    }
}

/// A pass is reused only for the same definition, environment and tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReceiptKey(Digest);

impl ReceiptKey {
    pub fn new(gate: &Gate, environment: &Digest, tree: &TreeHash) -> Self {
        Self::from_parts(&gate.definition(), environment, tree)
    }

    fn from_parts(definition: &Digest, environment: &Digest, tree: &TreeHash) -> Self {
        let parts =
            [definition.as_str().as_bytes(), environment.as_str().as_bytes(), tree.as_str().as_bytes()];
        Self(Digest::of_parts(parts))
    }

    /// The name of the file that points to the receipt.
    pub fn file_name(&self) -> &str {
        &self.0.as_str()[..32]
    }
}
