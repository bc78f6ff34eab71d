//! Keeps the trees of a loop beside its work: what is waited for is that the files have been taken in, before anybody may
//! change them again. Git makes a commit of them while the agent works.
//!
//! ```text
//!  main thread   keep ──────► gates ─► go_on ─► verdict, the next run ─► settle, keep
//!  its own         └─ add ─┘             └─ write-tree, commit-tree, the ref ─┘
//! ```
//!
//! Whoever is killed in between has left an index that says what it was filled for, and whoever goes on makes the commit.

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
use crate::work_tree::checkpoint::{Checkpoints, KeepError, Kept, LOOPS_KEPT};

pub(crate) struct Keeper {
    doing: Doing,
    /// What a person does not know yet.
    trouble: Option<String>,
    ledger: Arc<Loop>,
    /// Whoever is asked to end for the second time waits for no git.
    stop: StopRequest,
}

enum Doing {
    /// Checkpoints are not wanted, or cannot be.
    Nothing,
    Waiting(Box<Checkpoints>),
    Keeping {
        task: Task,
        /// Says a word when the files have been taken in, and is gone when all is done.
        word: Receiver<()>,
        is_taken_in: bool,
        /// Dropped: it may go on.
        go_on: Option<Sender<()>>,
        thread: JoinHandle<(Box<Checkpoints>, Result<Kept, KeepError>)>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Task {
    number: u32,
    /// A predecessor took it in.
    is_made_up_for: bool,
}

impl Keeper {
    /// Without checkpoints where they are not wanted, and where they cannot be.
    pub(crate) fn new(
        repo: &Repo,
        ledger: &Arc<Loop>,
        id: &LoopId,
        options: &DriveOptions,
        stop: &StopRequest,
    ) -> Self {
        let made = options.checkpoints.then(|| Checkpoints::new(&repo.root, id, ledger.dir()));
        let (doing, trouble) = match made {
            None => (Doing::Nothing, None),
            Some(Ok(checkpoints)) => (Doing::Waiting(Box::new(checkpoints)), None),
            Some(Err(why)) => (Doing::Nothing, Some(format!("no checkpoints: {why}"))),
        };
        Self { doing, trouble, ledger: ledger.clone(), stop: stop.clone() }
    }

    /// Keeps the tree as it is, and returns when the files may change again.
    pub(crate) fn keep(&mut self, number: u32, follow: &mut dyn Follower) {
        // What lies taken in for the iteration before must have been kept by then.
        self.settle(follow);
        self.begin(number);
        self.taken_in();
    }

    /// Begins to keep the tree as it is, where nothing was begun already.
    pub(crate) fn begin(&mut self, number: u32) {
        self.start(Task { number, is_made_up_for: false }, move |checkpoints, pause| {
            let taken_in = checkpoints.take_in(number)?;
            pause();
            let kept = checkpoints.keep(taken_in)?;
            if number == 0 {
                checkpoints.forget_others_beside(LOOPS_KEPT);
            }
            Ok(kept)
        });
    }

    /// Keeps for this number what a predecessor took in for it, who was killed before it could do more.
    pub(crate) fn finish(&mut self, number: u32) {
        if matches!(&self.doing, Doing::Waiting(checkpoints) if checkpoints.has_taken_in(number)) {
            self.start(Task { number, is_made_up_for: true }, move |checkpoints, _| {
                checkpoints.finish(number)
            });
        }
    }

    fn start(
        &mut self,
        task: Task,
        keep: impl FnOnce(&mut Checkpoints, &dyn Fn()) -> Result<Kept, KeepError> + Send + 'static,
    ) {
        self.doing = match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Waiting(mut checkpoints) => {
                let (tell, word) = mpsc::channel();
                let (go_on, may_go_on) = mpsc::channel::<()>();
                let thread = thread::Builder::new().name("checkpoint".into()).spawn(move || {
                    let pause = || {
                        let _nobody_may_wait_for_it = tell.send(());
                        // An error is the word.
                        let _go_on = may_go_on.recv();
                    };
                    let kept = keep(&mut checkpoints, &pause);
                    (checkpoints, kept)
                });
                thread.map_or_else(
                    |error| {
                        self.trouble = Some(format!("no more checkpoints: {error}"));
                        Doing::Nothing
                    },
                    |thread| Doing::Keeping { task, word, is_taken_in: false, go_on: Some(go_on), thread },
                )
            }
            other => other,
        };
    }

    /// Waits until the files may change again.
    pub(crate) fn taken_in(&mut self) {
        if let Doing::Keeping { word, is_taken_in, .. } = &mut self.doing
            && !*is_taken_in
        {
            *is_taken_in = hear(word, &self.stop) != Heard::Nothing;
        }
    }

    /// Now is a good time for the rest.
    pub(crate) fn go_on(&mut self) {
        if let Doing::Keeping { go_on, .. } = &mut self.doing {
            *go_on = None;
        }
    }

    /// Waits for what was begun and writes it down. A checkpoint that fails is told once, and no more are tried.
    pub(crate) fn settle(&mut self, follow: &mut dyn Follower) {
        self.go_on();
        let (task, thread) = match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Keeping { task, word, thread, .. } => {
                let mut heard = Heard::ItsWord;
                while heard == Heard::ItsWord {
                    heard = hear(&word, &self.stop);
                }
                if heard == Heard::Nothing {
                    // As if we had been killed: whoever goes on makes up for it.
                    return;
                }
                (task, thread)
            }
            other => {
                self.doing = other;
                return;
            }
        };
        let Task { number, is_made_up_for } = task;
        self.trouble = match thread.join() {
            Ok((checkpoints, Ok(kept))) => match self.write_down(number, kept) {
                Ok(lacks) => {
                    self.doing = Doing::Waiting(checkpoints);
                    lacks
                }
                Err(why) => Some(why),
            },
            Ok((checkpoints, Err(error))) if is_made_up_for => {
                self.doing = Doing::Waiting(checkpoints);
                Some(format!("no checkpoint of iteration {number}: {error}"))
            }
            Ok((_, Err(error))) => Some(format!("no more checkpoints: {error}")),
            Err(_) => Some("no more checkpoints: keeping one failed".to_owned()),
        };
        self.tell(follow);
    }

    /// Nothing more will be kept of this loop.
    pub(crate) fn put_away(self) {
        if let Doing::Waiting(checkpoints) = self.doing {
            checkpoints.put_away();
        }
    }

    /// Tells what is not in it, or why there are no more.
    fn write_down(&self, number: u32, kept: Kept) -> Result<Option<String>, String> {
        let Kept { commit, lacks } = kept;
        let event = Event::Kept { iteration: number, commit };
        match self.ledger.append(&[event]) {
            Ok(_) => Ok(lacks.map(|lacks| format!("not in the checkpoint: {lacks}"))),
            Err(error) => Err(format!("no more checkpoints: {error}")),
        }
    }

    /// What a person does not know yet.
    pub(crate) fn tell(&mut self, follow: &mut dyn Follower) {
        if let Some(trouble) = self.trouble.take() {
            follow.receive(&LoopEvent::Trouble { what: trouble });
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    ItsWord,
    ItsEnd,
    /// We may not wait any longer.
    Nothing,
}

fn hear(word: &Receiver<()>, stop: &StopRequest) -> Heard {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    loop {
        match word.recv_timeout(LOOK_EVERY) {
            Ok(()) => return Heard::ItsWord,
            Err(RecvTimeoutError::Disconnected) => return Heard::ItsEnd,
            Err(RecvTimeoutError::Timeout) if stop.insisted() => return Heard::Nothing,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
