//! `ralph completions`: made from the one definition of the commands.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Done;
use crate::show::terminal;

#[derive(clap::Args)]
#[command(
    after_help = "Example, for bash:\n  ralph completions bash > ~/.local/share/bash-completion/completions/ralph"
)]
pub(super) struct Arguments {
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> Done {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "ralph", &mut text);
    Ok(terminal::print_whole(&text))
}
