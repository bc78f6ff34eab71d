//! `ralph schema`: the schemas of ralph.yaml and of the events; a test keeps both current.

use super::CommandResult;
use crate::show::terminal;

const CONFIG_SCHEMA: &str = include_str!("../../../../../schema/ralph.schema.json");
const EVENT_SCHEMA: &str = include_str!("../../../../../schema/event.schema.json");

#[derive(clap::Args)]
#[command(after_help = "Example, as the first line of ralph.yaml for editors that support YAML schemas:\n  \
# yaml-language-server: $schema=./ralph.schema.json")]
pub(super) struct Arguments {
    /// What to describe
    #[arg(value_enum, default_value = "config")]
    of: Of,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Of {
    /// ralph.yaml
    Config,
    /// The ledger events, as printed by `ralph log --json`
    Events,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    Ok(terminal::print_whole(match arguments.of {
        Of::Config => CONFIG_SCHEMA.as_bytes(),
        Of::Events => EVENT_SCHEMA.as_bytes(),
    }))
}
