//! `ralph completions`: generated from the command definitions.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::CommandResult;
use crate::show::terminal;

#[derive(clap::Args)]
#[command(
    after_help = "Example, for bash:\n  ralph completions bash > ~/.local/share/bash-completion/completions/ralph"
)]
pub(super) struct Arguments {
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "ralph", &mut text);
    Ok(terminal::print_whole(&text))
}
