//! Runs another program in an environment that a plain shell cannot create: a session of its own, a terminal, a low
//! limit, a
//! lock. So a test needs neither `setsid`, `script`, `prlimit` nor `flock` on the machine.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::{env, fs, thread};

use ralph_testkit::Pty;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{HANG, Outcome, Trouble, sleep};

/// In a session of its own. The leader of a process group cannot create one; its child can. The child is not waited for.
pub(crate) fn in_session(program: &[&str]) -> Outcome {
    match rustix::process::setsid() {
        Ok(_) => replace_this_process(program),
        Err(Errno::PERM) => {
            Command::new(env::current_exe()?).arg("in-session").args(program).spawn()?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes the terminal on stdin the controlling one of a new session. [`Pty`] starts programs this way.
pub(crate) fn take_terminal(program: &[&str]) -> Outcome {
    rustix::process::setsid()?;
    rustix::process::ioctl_tiocsctty(io::stdin())?;
    replace_this_process(program)
}

/// On a new terminal: stdin is typed there, and what the program shows goes to stdout.
pub(crate) fn on_terminal(program: &[&str]) -> Outcome {
    let (name, arguments) = program.split_first().ok_or_else(no_program)?;
    let mut command = Command::new(name);
    command.args(arguments).envs(env::vars_os()).current_dir(env::current_dir()?);
    let on_terminal = Pty::open().start(&command);
    let keyboard = on_terminal.keyboard();
    // Never joined: our input may never end.
    thread::spawn(move || {
        let mut part = [0; 1024];
        while let Ok(count @ 1..) = io::stdin().read(&mut part) {
            if keyboard.try_clone().and_then(|mut keys| keys.write_all(&part[..count])).is_err() {
                return;
            }
        }
    });
    let finished = on_terminal.finish();
    io::stdout().write_all(finished.stdout.as_bytes())?;
    Ok(finished.code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Under one limit: `files=4`, `processes=10`, `file-size=500`. A write beyond the size fails and does not kill.
pub(crate) fn with_limit(limit: &str, program: &[&str]) -> Outcome {
    let wrong = || Trouble::usage(format!("`{limit}` is not files=N, processes=N or file-size=N"));
    let (name, number) = limit.split_once('=').ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let resource = match name {
        "files" => Resource::Nofile,
        "processes" => Resource::Nproc,
        "file-size" => Resource::Fsize,
        _ => return Err(wrong()),
    };
    let limit = Rlimit { current: Some(number), maximum: getrlimit(resource).maximum };
    if resource != Resource::Fsize {
        setrlimit(resource, limit)?;
        return replace_this_process(program);
    }
    // Only a shell can ignore the signal; an ignored one stays ignored across exec.
    const SCRIPT: &str = r#"trap '' XFSZ; exec "$@""#;
    setrlimit(resource, limit)?;
    replace_this_process(&[&["sh", "-c", SCRIPT, "sh"], program].concat())
}

/// Takes the lock of a file and keeps it.
pub(crate) fn hold_lock(file: &str) -> Outcome {
    let file = fs::OpenOptions::new().append(true).open(file)?;
    file.lock()?;
    sleep(HANG)
}

fn replace_this_process(program: &[&str]) -> Outcome {
    let (name, arguments) = program.split_first().ok_or_else(no_program)?;
    Err(Command::new(name).args(arguments).exec().into())
}

fn no_program() -> Trouble {
    Trouble::usage("no program given")
}
