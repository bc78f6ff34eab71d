//! A process that replaces the client of an agent.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A process that runs requests, as a client runs hooks and the commands of its agent: a shell that reads them from a
/// pipe.
#[derive(Debug)]
pub struct StandInClient {
    shell: Mutex<Child>,
    requests: Mutex<Requests>,
    process: u32,
    dir: PathBuf,
}

#[derive(Debug)]
struct Requests {
    pipe: ChildStdin,
    number: usize,
}

impl StandInClient {
    pub fn start(dir: &Path) -> Self {
        let mut shell = Command::new("sh")
            .args(["-c", "while IFS= read -r request; do eval \"$request\" & done"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let pipe = shell.stdin.take().expect("a pipe");
        let dir = dir.join(format!("client-{}", shell.id()));
        fs::create_dir(&dir).expect("a folder");
        let process = shell.id();
        Self { shell: Mutex::new(shell), requests: Mutex::new(Requests { pipe, number: 0 }), process, dir }
    }

    pub fn process(&self) -> u32 {
        self.process
    }

    /// Runs the command as a descendant of the stand-in client, to its end. It gets only the variables that were set
    /// for it.
    /// The shell opens our pipes by their names in `/proc`.
    pub fn output(&self, command: &Command, input: &[u8]) -> Output {
        let (out, out_writer) = std::io::pipe().expect("a pipe");
        let (err, err_writer) = std::io::pipe().expect("a pipe");
        let readers = [out, err].map(|mut pipe| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                pipe.read_to_end(&mut bytes).expect("what is printed");
                bytes
            })
        });
        let pipe =
            |writer: &std::io::PipeWriter| format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
        let status = {
            let mut requests = self.requests.lock().expect("requests");
            requests.number += 1;
            let stdin = self.dir.join(format!("{}.in", requests.number));
            let status = self.dir.join(format!("{}.status", requests.number));
            fs::write(&stdin, input).expect("a file");
            let line = format!(
                "( cd {} && exec {} ) < {} > {} 2> {}; echo $? > {}\n",
                quoted(command.get_current_dir().expect("a folder").as_os_str()),
                shell_words(command),
                quoted(stdin.as_os_str()),
                pipe(&out_writer),
                pipe(&err_writer),
                quoted(status.as_os_str())
            );
            requests.pipe.write_all(line.as_bytes()).expect("a shell that reads");
            status
        };
        let code = await_number(&status);
        drop((out_writer, err_writer));
        let [stdout, stderr] = readers.map(|reader| reader.join().expect("a reader"));
        // The shell reports a signal as a code above 128.
        let raw = if code > 128 { code - 128 } else { code << 8 };
        Output { status: ExitStatus::from_raw(raw), stdout, stderr }
    }
}

impl Drop for StandInClient {
    fn drop(&mut self) {
        let mut shell = self.shell.lock().expect("the shell");
        let _gone = shell.kill();
        let _gone = shell.wait();
    }
}

fn await_number(file: &Path) -> i32 {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        if let Some(number) =
            fs::read_to_string(file).ok().and_then(|text| text.strip_suffix('\n')?.parse().ok())
        {
            return number;
        }
        assert!(Instant::now() < deadline, "the stand-in client never answered in {}", file.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The command for a shell, with only its own variables.
fn shell_words(command: &Command) -> String {
    let mut words = vec!["env".to_owned(), "-i".to_owned()];
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let mut variable = name.to_owned();
            variable.push("=");
            variable.push(value);
            words.push(quoted(&variable));
        }
    }
    words.push(quoted(command.get_program()));
    words.extend(command.get_args().map(quoted));
    words.join(" ")
}

fn quoted(word: &OsStr) -> String {
    let text = word.to_str().expect("UTF-8").replace('\'', "'\\''");
    assert!(!text.contains('\n'), "a request is one line: {text}");
    format!("'{text}'")
}
