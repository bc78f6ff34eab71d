//! A pseudo-terminal, for programs that behave differently on a terminal.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::finished::Finished;

/// A terminal that no program runs on yet.
#[derive(Debug)]
pub struct Pty {
    control: OwnedFd,
    name: CString,
}

impl Pty {
    /// # Panics
    ///
    /// When the system provides no terminal.
    #[track_caller]
    pub fn open() -> Self {
        let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC);
        let control = control.expect("a terminal");
        grantpt(&control).and_then(|()| unlockpt(&control)).expect("a terminal");
        let name = ptsname(&control, Vec::new()).expect("its name");
        Self { control, name }
    }

    #[must_use]
    pub fn size(self, columns: u16, rows: u16) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.control, size).expect("a terminal of ours");
        self
    }

    /// The program's end of it, for one stream of a command.
    pub fn stream(&self) -> Stdio {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        Stdio::from(open(&*self.name, flags, Mode::empty()).expect("the other end"))
    }

    /// Starts a command as its only program: all three streams, in a session of its own. It gets only the variables that
    /// were set for it.
    #[track_caller]
    pub fn start(self, command: &Command) -> OnTerminal {
        let mut started = Command::new(crate::misbehave_program());
        started.arg("take-terminal").arg(command.get_program()).args(command.get_args()).env_clear();
        started.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            started.current_dir(folder);
        }
        started.stdin(self.stream()).stdout(self.stream()).stderr(self.stream());
        self.spawn(started)
    }

    /// Starts a command some of whose streams are [streams of this terminal](Self::stream). The command is dropped,
    /// because it
    /// would keep the terminal open.
    #[track_caller]
    pub fn spawn(self, mut command: Command) -> OnTerminal {
        let child = command.spawn().expect("a program that starts");
        drop(command);
        let mut control = File::from(self.control);
        let keyboard = control.try_clone().expect("a file of ours");
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let shown = Arc::clone(&screen);
        let reader = thread::spawn(move || {
            let mut part = [0; 1 << 14];
            // Reading from a closed terminal returns the error EIO.
            while let Ok(count @ 1..) = control.read(&mut part) {
                shown.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&part[..count]);
            }
        });
        OnTerminal { child, keyboard, screen, reader: Some(reader) }
    }
}

/// A program that runs on a terminal. It ends with its test.
#[derive(Debug)]
pub struct OnTerminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl OnTerminal {
    /// # Panics
    ///
    /// When nothing reads what is typed.
    #[track_caller]
    pub fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a program that reads what is typed");
    }

    /// Another handle to type with.
    pub fn keyboard(&self) -> File {
        self.keyboard.try_clone().expect("a file of ours")
    }

    /// Everything shown so far.
    pub fn screen(&self) -> String {
        let shown = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Waits for the program to end; its output is in `stdout`.
    #[track_caller]
    pub fn finish(mut self) -> Finished {
        let status = self.child.wait().expect("a child of ours");
        if let Some(reader) = self.reader.take() {
            reader.join().expect("a reader that does not panic");
        }
        Finished { code: status.code(), stdout: self.screen(), stderr: String::new() }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        // Its session ends with it, so processes it started on this terminal get SIGHUP.
        let _gone = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}
