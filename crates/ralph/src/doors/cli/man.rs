//! `ralph man`: the manual pages, generated from the command definitions.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{CommandError, CommandResult};
use crate::show::{exit, terminal};

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  ralph man | man -l -            read the page about ralph\n  \
ralph man verify | man -l -     the page of one command\n  \
ralph man --dir ~/.local/share/man/man1     write all pages; then `man ralph-verify` works")]
pub(super) struct Arguments {
    /// The page of this command [default: the page about ralph]
    #[arg(conflicts_with = "dir")]
    command: Option<String>,
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> CommandResult {
    let mut definition = super::definition();
    definition.build();
    if let Some(dir) = &arguments.dir {
        std::fs::create_dir_all(dir)?;
        clap_mangen::generate_to(definition, dir)?;
        terminal::print(format_args!("Wrote the pages to {}.", dir.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let page = match &arguments.command {
        None => definition,
        Some(name) => {
            let unknown = || CommandError::new(exit::USAGE, format!("unknown command `{name}`"));
            definition
                .find_subcommand(name)
                .ok_or_else(|| unknown().hint("list them with `ralph help`"))?
                .clone()
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    Ok(terminal::print_whole(&text))
}
