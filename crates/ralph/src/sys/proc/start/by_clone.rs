//! The quick way of Linux: the child shares our memory until it is another program, while this thread waits.
//!
//! So does `posix_spawn`, which cannot ask to be killed with its parent. A fork copies the tables of all our pages: that is
//! felt, with the tree of a large repo in memory, at every gate and every run of an agent.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::Pid;

use super::{Leader, SHELL, inherited_files};
use crate::sys::proc::unix;

/// What the child needs of a stack: a few calls deep, and no more than some pages in each.
const STACK_WORDS: usize = 4096;

/// All that the child does is laid out before it is there: it must neither allocate nor take a lock.
struct Orders {
    program: CString,
    words: Words,
    /// For a script without a first line that says who reads it, as `execvp` would.
    shell: CString,
    words_for_shell: Words,
    environment: Words,
    dir: CString,
    stdin: RawFd,
    output: RawFd,
    errors: RawFd,
    inherited: &'static [RawFd],
    dies_with_us: bool,
    us: libc::pid_t,
    /// Written by the child where it cannot become the program.
    error: AtomicI32,
}

/// What `execve` takes: pointers to texts, and a null at the end.
struct Words {
    pointers: Vec<*const c_char>,
    _texts: Vec<CString>,
}

impl Words {
    fn new(texts: Vec<CString>) -> Self {
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        Self { pointers, _texts: texts }
    }
}

pub(super) fn start(leader: Leader<'_>) -> io::Result<Pid> {
    let program = find(&leader)?;
    let program = text(program.as_os_str())?;
    let words = leader.words.iter().map(|word| text(word)).collect::<io::Result<Vec<_>>>()?;
    let shell = text(OsStr::new(SHELL))?;
    let for_shell = [shell.clone(), program.clone()].into_iter().chain(words.iter().skip(1).cloned());
    let environment = leader.environment.iter().map(|(name, value)| {
        let mut variable = name.to_os_string();
        variable.push("=");
        variable.push(value);
        text(&variable)
    });
    let orders = Orders {
        words_for_shell: Words::new(for_shell.collect()),
        shell,
        program,
        words: Words::new(words),
        environment: Words::new(environment.collect::<io::Result<_>>()?),
        dir: text(leader.dir.as_os_str())?,
        stdin: leader.stdin.as_raw_fd(),
        output: leader.output.as_raw_fd(),
        errors: leader.errors.as_raw_fd(),
        inherited: inherited_files(),
        dies_with_us: leader.dies_with_us,
        us: rustix::process::getpid().as_raw_nonzero().get(),
        error: AtomicI32::new(0),
    };
    let child = with_signals_held(|| clone(&orders))?;
    match orders.error.load(Ordering::Relaxed) {
        0 => Ok(child),
        error => {
            unix::bury(child);
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

fn text(of: &OsStr) -> io::Result<CString> {
    CString::new(of.as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a zero byte in a command"))
}

/// A name without a slash is looked for where the command's own `PATH` says.
fn find(leader: &Leader<'_>) -> io::Result<PathBuf> {
    let name = Path::new(leader.program);
    if leader.program.as_bytes().contains(&b'/') {
        return Ok(name.to_owned());
    }
    let path = leader.environment.iter().find(|(name, _)| *name == "PATH").map(|(_, path)| *path);
    let can_be_run = |at: &PathBuf| {
        let meta = leader.dir.join(at).metadata();
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let found = std::env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin")))
        .map(|folder| Path::new(".").join(folder).join(name))
        .find(can_be_run);
    found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

/// No handler of ours may run in the child: it would act on our memory in another's name.
#[expect(unsafe_code, reason = "there is no other way to hold signals back")]
fn with_signals_held<T>(act: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are filled before they are read, and the mask is that of this thread alone.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let result = act();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        result
    }
}

#[expect(unsafe_code, reason = "std has no stable way to start a child in a new session")]
fn clone(orders: &Orders) -> io::Result<Pid> {
    let mut stack = vec![0_u128; STACK_WORDS];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let orders = ptr::from_ref(orders).cast_mut().cast::<c_void>();
    // SAFETY: the child has a stack of its own, which grows down from its end, and what it is given lives until it no longer
    // shares our memory: with CLONE_VFORK this call comes back only then.
    let child = unsafe { libc::clone(become_it, stack.as_mut_ptr_range().end.cast(), flags, orders) };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    Pid::from_raw(child).ok_or_else(|| io::Error::from_raw_os_error(libc::EAGAIN))
}

/// The child's own steps. It is in our memory: it reads its orders, writes one number, and makes system calls.
#[expect(unsafe_code, reason = "the steps between clone and exec are system calls")]
extern "C" fn become_it(orders: *mut c_void) -> c_int {
    // SAFETY: the orders outlive the sharing of memory, and are only read but for an atomic. Every call is a bare system
    // call with pointers into them. A file that is not open any more is refused by fcntl; one that is in use anew is already
    // closed on exec, as all std opens.
    unsafe {
        let orders = &*orders.cast::<Orders>();
        let error = orders.follow();
        orders.error.store(error, Ordering::Relaxed);
        libc::_exit(127)
    }
}

impl Orders {
    /// A session of its own, so that it has no terminal to ask or to be stopped by and bears a mark it can lose only by
    /// taking another; nothing open that our own starter left open for us; and no step more if we were killed
    /// meanwhile, since nobody could find it by its marks yet. Comes back only with an error.
    #[expect(unsafe_code, reason = "see `become_it`")]
    unsafe fn follow(&self) -> c_int {
        // SAFETY: as in `become_it`, which alone calls this.
        unsafe {
            let_go_of_signals();
            if libc::setsid() < 0 {
                return errno();
            }
            if self.dies_with_us {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            }
            if libc::getppid() != self.us {
                return libc::ESRCH;
            }
            for file in self.inherited {
                libc::fcntl(*file, libc::F_SETFD, libc::FD_CLOEXEC);
            }
            for (file, stream) in [(self.stdin, 0), (self.output, 1), (self.errors, 2)] {
                if libc::dup2(file, stream) < 0 {
                    return errno();
                }
            }
            if libc::chdir(self.dir.as_ptr()) < 0 {
                return errno();
            }
            execute(&self.program, &self.words, &self.environment);
            if errno() == libc::ENOEXEC {
                execute(&self.shell, &self.words_for_shell, &self.environment);
            }
            errno()
        }
    }
}

#[expect(unsafe_code, reason = "see `become_it`")]
unsafe fn execute(program: &CStr, words: &Words, environment: &Words) {
    // SAFETY: texts with a zero at their end, lists with a null at theirs.
    unsafe { libc::execve(program.as_ptr(), words.pointers.as_ptr(), environment.pointers.as_ptr()) };
}

/// What we handle is for the child to be ended by, what is ignored around us stays ignored, and nothing is held back any
/// more. That a pipe is closed is ignored by us alone.
#[expect(unsafe_code, reason = "see `become_it`")]
unsafe fn let_go_of_signals() {
    const LAST: c_int = 64;
    // SAFETY: the actions are the child's own (no CLONE_SIGHAND), and a number that is no signal is refused.
    unsafe {
        for signal in 1..=LAST {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            let is_known = libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0;
            let handler = action.assume_init_ref().sa_sigaction;
            let is_ours = handler != libc::SIG_DFL && (handler != libc::SIG_IGN || signal == libc::SIGPIPE);
            if is_known && is_ours {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}
