//! `ralph man`: the manual page, generated from the command definitions.

use clap::CommandFactory as _;

use super::CommandResult;
use crate::show::terminal;

pub(super) fn run() -> CommandResult {
    let mut text = Vec::new();
    clap_mangen::Man::new(super::Arguments::command()).render(&mut text)?;
    Ok(terminal::print_whole(&text))
}
