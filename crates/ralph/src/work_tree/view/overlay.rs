//! An overlay over the work tree in a mount namespace of its own.
//!
//! `ralph __view hold` makes the namespace, mounts the overlay and waits; it ends when ralph closes its input, or is killed.
//! `ralph __view enter` joins that namespace and becomes the shell of a gate. Both are fresh processes with one thread, as the
//! kernel requires, and the changes are in a `tmpfs` that exists only in the namespace.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ralph_core::model::file_change::ViewEdit;

use super::copy::{self, wire};
use super::{ViewEntrance, WORD, lay_in};
use crate::sys::short_command;

/// This program, also after its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The exit code if a view could not be entered; the token in the output is what counts.
const NOT_ENTERED: u8 = 125;

/// The process that holds a namespace with an overlay.
#[derive(Debug)]
pub(crate) struct OverlayHolder {
    process: Child,
    line: Mutex<HolderLine>,
    token: String,
}

/// The pipes to the holder and back.
#[derive(Debug)]
struct HolderLine {
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl OverlayHolder {
    /// Mounts an overlay over `root`, with everything it needs at `mount_point`.
    pub(super) fn start(root: &Path, mount_point: &Path) -> io::Result<Self> {
        if cfg!(test) {
            // There this program is the test harness.
            return Err(io::Error::new(io::ErrorKind::Unsupported, "no overlays in unit tests"));
        }
        if let Some(inside) = namespace::mount_inside(root)? {
            let what = format!("{} is mounted inside the tree", inside.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let mut command = short_command::command(OWN_PROGRAM);
        command.arg(WORD).arg("hold").args([root, mount_point]).env_clear().current_dir("/");
        // A group of its own: a Ctrl-C is answered by ralph.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut process = command.spawn()?;
        let (requests, answers) = (process.stdin.take(), process.stdout.take());
        let answers = BufReader::new(answers.ok_or(io::ErrorKind::BrokenPipe)?);
        let random: [u8; 16] = rand_bytes()?;
        let token = ralph_core::model::id::Digest::of(random).as_str().to_owned();
        let holder = Self { process, line: Mutex::new(HolderLine { requests, answers }), token };
        holder.line().answer()?;
        Ok(holder)
    }

    pub(super) fn lay_in(&self, edits: &[ViewEdit]) -> io::Result<()> {
        let mut message = vec![b'E'];
        message.extend((edits.len() as u64).to_le_bytes());
        for edit in edits {
            wire::write_edit(&mut message, edit)?;
        }
        self.line().ask(&message)
    }

    pub(super) fn copy_out(&self, path: &Path, to: &Path) -> io::Result<()> {
        let mut message = vec![b'C'];
        wire::write_bytes(&mut message, path.as_os_str().as_encoded_bytes())?;
        wire::write_bytes(&mut message, to.as_os_str().as_encoded_bytes())?;
        self.line().ask(&message)
    }

    pub(super) fn entrance(&self, root: &Path, command: &str) -> ViewEntrance {
        let words: [OsString; 6] = [
            WORD.into(),
            "enter".into(),
            self.process.id().to_string().into(),
            self.token.clone().into(),
            root.into(),
            command.into(),
        ];
        ViewEntrance { program: OWN_PROGRAM.into(), arguments: words.into(), token: self.token.clone() }
    }

    fn line(&self) -> MutexGuard<'_, HolderLine> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HolderLine {
    fn ask(&mut self, message: &[u8]) -> io::Result<()> {
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        requests.write_all(message)?;
        requests.flush()?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim_end() {
            "ok" => Ok(()),
            "" => Err(io::Error::other("the process of the view ended")),
            why => Err(io::Error::other(why.to_owned())),
        }
    }
}

impl Drop for OverlayHolder {
    fn drop(&mut self) {
        drop(self.line().requests.take());
        let _gone_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn rand_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The main function of both processes.
pub(super) fn run(arguments: &[OsString]) -> ExitCode {
    match arguments {
        [word, root, mount_point] if word == "hold" => hold(Path::new(root), Path::new(mount_point)),
        [word, holder, token, root, command] if word == "enter" => {
            let error = enter(&holder.to_string_lossy(), Path::new(root), command);
            let _nobody_reads = writeln!(io::stderr(), "{} {error}", token.to_string_lossy());
            ExitCode::from(NOT_ENTERED)
        }
        _ => ExitCode::from(2),
    }
}

fn hold(root: &Path, mount_point: &Path) -> ExitCode {
    let mut out = io::stdout();
    let mut answer = |result: io::Result<()>| {
        let line = result.map_or_else(|error| error.to_string().replace('\n', " "), |()| "ok".to_owned());
        writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
    };
    let made = namespace::make(root, mount_point);
    let is_made = made.is_ok();
    if !answer(made) || !is_made {
        return ExitCode::FAILURE;
    }
    let mut requests = BufReader::new(io::stdin());
    // Ends with ralph, or when it needs the view no longer.
    while let Ok(result) = serve(&mut requests, root) {
        if !answer(result) {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn serve(requests: &mut impl io::Read, root: &Path) -> io::Result<io::Result<()>> {
    let mut kind = [0];
    requests.read_exact(&mut kind)?;
    if kind[0] == b'C' {
        let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
        let (from, to) = (path(wire::read_bytes(requests)?), path(wire::read_bytes(requests)?));
        return Ok(copy::copy_out(root, &from, &to));
    }
    let mut count = [0; 8];
    requests.read_exact(&mut count)?;
    let mut edits = Vec::new();
    for _ in 0..u64::from_le_bytes(count) {
        edits.push(wire::read_edit(requests)?);
    }
    Ok(lay_in::lay_in(root, &edits))
}

/// Becomes the shell; returns only if that fails.
fn enter(holder: &str, root: &Path, line: &OsString) -> io::Error {
    if let Err(error) = namespace::join(holder).and_then(|()| std::env::set_current_dir(root)) {
        return error;
    }
    let mut shell = short_command::command("/bin/sh");
    shell.arg0("sh").arg("-c").arg(line).exec()
}

#[cfg(not(target_os = "linux"))]
mod namespace {
    use std::io;
    use std::path::{Path, PathBuf};

    pub(super) fn mount_inside(_root: &Path) -> io::Result<Option<PathBuf>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no overlays"))
    }

    pub(super) fn make(_root: &Path, _mount_point: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn join(_holder: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(target_os = "linux")]
mod namespace {
    use std::ffi::{CStr, OsString};
    use std::fs::{self, DirBuilder, File};
    use std::io;
    use std::os::fd::AsFd as _;
    use std::os::unix::ffi::OsStringExt as _;
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    use std::path::{Path, PathBuf};

    use rustix::io::Errno;
    use rustix::mount::{MountFlags, MountPropagationFlags};
    use rustix::process::DumpableBehavior;
    use rustix::thread::{LinkNameSpaceType, UnshareFlags};

    /// What is mounted below `root`, if anything: an overlay would not show it.
    pub(super) fn mount_inside(root: &Path) -> io::Result<Option<PathBuf>> {
        let mounts = fs::read("/proc/self/mountinfo")?;
        let points = mounts.split(|byte| *byte == b'\n').filter_map(|line| {
            let field = line.split(|byte| *byte == b' ').nth(4)?;
            Some(PathBuf::from(OsString::from_vec(unescaped(field))))
        });
        Ok(points.into_iter().find(|point| point != root && point.starts_with(root)))
    }

    /// Space, tab, newline and backslash are written as three octal digits.
    fn unescaped(field: &[u8]) -> Vec<u8> {
        let mut plain = Vec::with_capacity(field.len());
        let mut at = 0;
        while at < field.len() {
            let digits = field.get(at + 1..at + 4).filter(|_| field[at] == b'\\');
            let code = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
            plain.push(code.unwrap_or(field[at]));
            at += if code.is_some() { 4 } else { 1 };
        }
        plain
    }

    pub(super) fn make(root: &Path, mount_point: &Path) -> io::Result<()> {
        let in_own = unshare()?;
        rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .map_err(|error| failed("cannot separate the mounts", error))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("ralph-view", mount_point, "tmpfs", flags, c"mode=0700")
            .map_err(|error| failed("cannot mount a tmpfs", error))?;
        let meta = fs::metadata(root)?;
        std::env::set_current_dir(mount_point)?;
        for folder in ["lower", "upper", "work"] {
            // The view's root folder has the permissions of the upper one.
            DirBuilder::new().mode(meta.mode() & 0o7777).create(folder)?;
        }
        rustix::mount::mount_bind(root, "lower").map_err(|error| failed("cannot bind the tree", error))?;
        // Relative names: those of the real folders may contain the separators of these options.
        let plain = c"lowerdir=lower,upperdir=upper,workdir=work";
        let with_user_attributes = c"lowerdir=lower,upperdir=upper,workdir=work,userxattr";
        let options: &[&CStr] = if in_own { &[with_user_attributes, plain] } else { &[plain] };
        let mount = |options: &CStr| {
            rustix::mount::mount(
                "ralph-view",
                root,
                "overlay",
                MountFlags::NOSUID | MountFlags::NODEV,
                options,
            )
        };
        let mut last = Errno::INVAL;
        for options in options {
            match mount(options) {
                Ok(()) => return std::env::set_current_dir(root),
                Err(error) => last = error,
            }
        }
        Err(failed("cannot mount an overlay", last))
    }

    /// A mount namespace: as root alone, else in a user namespace with our own ids. Returns whether it is in one.
    fn unshare() -> io::Result<bool> {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        if unshare_flags(UnshareFlags::NEWNS).is_ok() {
            return Ok(false);
        }
        dumpable()?;
        unshare_flags(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)
            .map_err(|error| failed("cannot make a user namespace", error))?;
        // The new credentials made the process undumpable again: its files in /proc belong to root then.
        dumpable()?;
        let map = |file: &str, id: u32| {
            fs::write(format!("/proc/self/{file}"), format!("{id} {id} 1"))
                .map_err(|error| io::Error::new(error.kind(), format!("cannot map ids: {error}")))
        };
        fs::write("/proc/self/setgroups", "deny").or_else(|error| {
            // Kernels before 3.19 do not have it.
            if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
        })?;
        map("uid_map", user.as_raw())?;
        map("gid_map", group.as_raw())?;
        Ok(true)
    }

    #[expect(unsafe_code, reason = "unsharing file descriptors would be unsafe; this does not")]
    fn unshare_flags(flags: UnshareFlags) -> rustix::io::Result<()> {
        // SAFETY: only namespaces are unshared, never the table of file descriptors, and there is one thread.
        unsafe { rustix::thread::unshare_unsafe(flags) }
    }

    fn dumpable() -> io::Result<()> {
        Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?)
    }

    fn failed(what: &str, error: Errno) -> io::Error {
        io::Error::new(io::Error::from(error).kind(), format!("{what}: {error}"))
    }

    pub(super) fn join(holder: &str) -> io::Result<()> {
        dumpable()?;
        let open = |name: &str| File::open(format!("/proc/{holder}/ns/{name}"));
        let same = |name: &str| {
            let ino = |path: String| fs::metadata(path).map(|meta| meta.ino());
            Ok::<bool, io::Error>(
                ino(format!("/proc/{holder}/ns/{name}"))? == ino(format!("/proc/self/ns/{name}"))?,
            )
        };
        // Opened before the first is joined: afterwards the other may be out of reach.
        let (user, mounts) = (open("user")?, open("mnt")?);
        if !same("user")? {
            rustix::thread::move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))
                .map_err(|error| failed("cannot join the user namespace", error))?;
        }
        rustix::thread::move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))
            .map_err(|error| failed("cannot join the mount namespace", error))
    }
}
