//! `ralph completions`, `ralph man`, `ralph schema`: made from the one definition of the commands and of the data.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Done, Failure};
use crate::exit;

const CONFIG_SCHEMA: &str = include_str!("../../../../schema/ralph.schema.json");
const EVENT_SCHEMA: &str = include_str!("../../../../schema/event.schema.json");

#[derive(clap::Args)]
#[command(
    after_help = "Example, for bash:\n  ralph completions bash > ~/.local/share/bash-completion/completions/ralph"
)]
pub(super) struct CompletionsArguments {
    shell: Shell,
}

#[derive(clap::Args)]
#[command(after_help = "Example, as the first line of ralph.yaml for editors that know YAML schemas:\n  \
# yaml-language-server: $schema=./ralph.schema.json")]
pub(super) struct SchemaArguments {
    /// Of what
    #[arg(value_enum, default_value = "config")]
    of: SchemaOf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum SchemaOf {
    /// ralph.yaml
    Config,
    /// The events of the ledger, as `ralph log --json` shows them
    Events,
}

pub(super) fn completions(arguments: &CompletionsArguments) -> Done {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "ralph", &mut text);
    print(&text)
}

pub(super) fn man() -> Done {
    let mut text = Vec::new();
    clap_mangen::Man::new(super::Arguments::command())
        .render(&mut text)
        .map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
    print(&text)
}

pub(super) fn schema(arguments: &SchemaArguments) -> Done {
    print(match arguments.of {
        SchemaOf::Config => CONFIG_SCHEMA.as_bytes(),
        SchemaOf::Events => EVENT_SCHEMA.as_bytes(),
    })
}

fn print(text: &[u8]) -> Done {
    let _reader_gone = io::stdout().write_all(text);
    Ok(ExitCode::SUCCESS)
}
