//! Checkpoints a loop's trees in the background: the driver waits only until the files are staged, before anything may
//! change them again. Git commits them while the agent works.
//!
//! ```text
//!  main thread   keep ──────► gates ─► commit ► verdict, the next run ─► settle, keep
//!  its own         └─ add ─┘             └─ write-tree, commit-tree, the ref ─┘
//! ```
//!
//! A killed process leaves an index that records its iteration; the process that resumes the loop makes the commit.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ralph_core::ledger::event::Event;
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::model::drive_options::DriveOptions;
use ralph_core::model::id::LoopId;

use crate::show::progress::follower::Follower;
use crate::store::ledger::Loop;
use crate::store::repo::Repo;
use crate::sys::proc::StopRequest;
use crate::work_tree::checkpoint::{CheckpointError, Checkpoints, CommittedTree, LOOPS_KEPT};

pub(crate) struct Checkpointer {
    work: CheckpointWork,
    /// A problem not yet reported to the user.
    problem: Option<String>,
    ledger: Arc<Loop>,
    /// A second stop request does not wait for git.
    stop: StopRequest,
}

enum CheckpointWork {
    /// Checkpoints are disabled or unavailable.
    Nothing,
    Waiting(Box<Checkpoints>),
    Keeping {
        task: CheckpointTask,
        /// Receives one message when the files are staged, and disconnects when everything is done.
        staged: Receiver<()>,
        is_staged: bool,
        /// Dropping it lets the commit proceed.
        commit_signal: Option<Sender<()>>,
        thread: JoinHandle<(Box<Checkpoints>, Result<CommittedTree, CheckpointError>)>,
    },
}

#[derive(Clone, Copy, Debug)]
struct CheckpointTask {
    number: u32,
    /// Staged by a killed predecessor.
    is_recovered: bool,
}

impl Checkpointer {
    /// Makes no checkpoints if they are disabled or unavailable.
    pub(crate) fn new(
        repo: &Repo,
        ledger: &Arc<Loop>,
        id: &LoopId,
        options: &DriveOptions,
        stop: &StopRequest,
    ) -> Self {
        let made = options.checkpoints.then(|| Checkpoints::new(&repo.root, id, ledger.dir()));
        let (work, problem) = match made {
            None => (CheckpointWork::Nothing, None),
            Some(Ok(checkpoints)) => (CheckpointWork::Waiting(Box::new(checkpoints)), None),
            Some(Err(why)) => (CheckpointWork::Nothing, Some(format!("checkpoints disabled: {why}"))),
        };
        Self { work, problem, ledger: ledger.clone(), stop: stop.clone() }
    }

    /// Checkpoints the current tree; returns when the files may change again.
    pub(crate) fn keep(&mut self, number: u32, follow: &mut dyn Follower) {
        // The previous iteration's staged files must be committed first.
        self.settle(follow);
        self.begin(number);
        self.wait_until_staged();
    }

    /// Starts to checkpoint the current tree, unless a checkpoint is already under way.
    pub(crate) fn begin(&mut self, number: u32) {
        self.start(CheckpointTask { number, is_recovered: false }, move |checkpoints, pause| {
            let staged_tree = checkpoints.stage(number)?;
            pause();
            let committed = checkpoints.commit(staged_tree)?;
            if number == 0 {
                checkpoints.forget_others_beside(LOOPS_KEPT);
            }
            Ok(committed)
        });
    }

    /// Commits the files that a killed predecessor staged for this iteration.
    pub(crate) fn finish(&mut self, number: u32) {
        if matches!(&self.work, CheckpointWork::Waiting(checkpoints) if checkpoints.has_staged(number)) {
            self.start(CheckpointTask { number, is_recovered: true }, move |checkpoints, _| {
                checkpoints.finish(number)
            });
        }
    }

    fn start(
        &mut self,
        task: CheckpointTask,
        keep: impl FnOnce(&mut Checkpoints, &dyn Fn()) -> Result<CommittedTree, CheckpointError> + Send + 'static,
    ) {
        self.work = match std::mem::replace(&mut self.work, CheckpointWork::Nothing) {
            CheckpointWork::Waiting(mut checkpoints) => {
                let (staged_sender, staged) = mpsc::channel();
                let (commit_signal, may_commit) = mpsc::channel::<()>();
                let thread = thread::Builder::new().name("checkpoint".into()).spawn(move || {
                    let pause = || {
                        let _receiver_gone = staged_sender.send(());
                        // The channel is only ever closed, so an error is the signal.
                        let _closed = may_commit.recv();
                    };
                    let committed = keep(&mut checkpoints, &pause);
                    (checkpoints, committed)
                });
                thread.map_or_else(
                    |error| {
                        self.problem = Some(format!("checkpoints disabled: {error}"));
                        CheckpointWork::Nothing
                    },
                    |thread| CheckpointWork::Keeping {
                        task,
                        staged,
                        is_staged: false,
                        commit_signal: Some(commit_signal),
                        thread,
                    },
                )
            }
            other => other,
        };
    }

    /// Waits until the files may change again.
    pub(crate) fn wait_until_staged(&mut self) {
        if let CheckpointWork::Keeping { staged, is_staged, .. } = &mut self.work
            && !*is_staged
        {
            *is_staged = next_message(staged, &self.stop) != CheckpointMessage::Interrupted;
        }
    }

    /// Lets the commit proceed.
    pub(crate) fn continue_commit(&mut self) {
        if let CheckpointWork::Keeping { commit_signal, .. } = &mut self.work {
            *commit_signal = None;
        }
    }

    /// Waits for the running checkpoint and records it. A failure is reported once and disables further checkpoints.
    pub(crate) fn settle(&mut self, follow: &mut dyn Follower) {
        self.continue_commit();
        let (task, thread) = match std::mem::replace(&mut self.work, CheckpointWork::Nothing) {
            CheckpointWork::Keeping { task, staged, thread, .. } => {
                let mut message = CheckpointMessage::Staged;
                while message == CheckpointMessage::Staged {
                    message = next_message(&staged, &self.stop);
                }
                if message == CheckpointMessage::Interrupted {
                    // Same as being killed: the process that resumes the loop recovers it.
                    return;
                }
                (task, thread)
            }
            other => {
                self.work = other;
                return;
            }
        };
        let CheckpointTask { number, is_recovered } = task;
        self.problem = match thread.join() {
            Ok((checkpoints, Ok(committed))) => match self.record(number, committed) {
                Ok(lacks) => {
                    self.work = CheckpointWork::Waiting(checkpoints);
                    lacks
                }
                Err(why) => Some(why),
            },
            Ok((checkpoints, Err(error))) if is_recovered => {
                self.work = CheckpointWork::Waiting(checkpoints);
                Some(format!("no checkpoint for iteration {number}: {error}"))
            }
            Ok((_, Err(error))) => Some(format!("checkpoints disabled: {error}")),
            Err(_) => Some("checkpoints disabled: the checkpoint thread crashed".to_owned()),
        };
        self.report_problem(follow);
    }

    /// Removes temporary files; no more checkpoints follow for this loop.
    pub(crate) fn clean_up(self) {
        if let CheckpointWork::Waiting(checkpoints) = self.work {
            checkpoints.clean_up();
        }
    }

    /// Returns what the checkpoint lacks, or why checkpoints end here.
    fn record(&self, number: u32, committed: CommittedTree) -> Result<Option<String>, String> {
        let CommittedTree { commit, lacks } = committed;
        let event = Event::Committed { iteration: number, commit };
        match self.ledger.append(&[event]) {
            Ok(_) => Ok(lacks.map(|lacks| format!("not in the checkpoint: {lacks}"))),
            Err(error) => Err(format!("checkpoints disabled: {error}")),
        }
    }

    pub(crate) fn report_problem(&mut self, follow: &mut dyn Follower) {
        if let Some(problem) = self.problem.take() {
            follow.receive(&LoopEvent::Warning { what: problem });
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckpointMessage {
    Staged,
    Done,
    /// A stop was requested twice.
    Interrupted,
}

fn next_message(staged: &Receiver<()>, stop: &StopRequest) -> CheckpointMessage {
    const POLL_INTERVAL: Duration = Duration::from_millis(50);
    loop {
        match staged.recv_timeout(POLL_INTERVAL) {
            Ok(()) => return CheckpointMessage::Staged,
            Err(RecvTimeoutError::Disconnected) => return CheckpointMessage::Done,
            Err(RecvTimeoutError::Timeout) if stop.insisted() => return CheckpointMessage::Interrupted,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
