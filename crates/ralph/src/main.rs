//! The program `ralph`; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ralph::run()
}
