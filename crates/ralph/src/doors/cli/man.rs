//! `ralph man`: the manual page, made from the one definition of the commands.

use clap::CommandFactory as _;

use super::Done;
use crate::show::terminal;

pub(super) fn run() -> Done {
    let mut text = Vec::new();
    clap_mangen::Man::new(super::Arguments::command()).render(&mut text)?;
    Ok(terminal::print_whole(&text))
}
