//! Runs programs in turns and keeps how long each took from its start to its end.

use std::io::{self, Read as _, Write as _};
use std::process::Command;
use std::time::{Duration, Instant};

/// How often things are run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rounds {
    /// What takes a few milliseconds.
    pub(crate) short: usize,
    /// What takes a tenth of a second.
    pub(crate) long: usize,
    /// What takes seconds by design.
    pub(crate) slow: usize,
}

impl Rounds {
    pub(crate) const MANY: Self = Self { short: 200, long: 30, slow: 5 };
    pub(crate) const FEW: Self = Self { short: 30, long: 5, slow: 1 };
}

/// One of those that are compared.
pub(crate) struct Contestant<'a> {
    /// Given the number of the round; may set the scene, which is not timed.
    pub(crate) call: Box<dyn FnMut(usize) -> io::Result<Call> + 'a>,
    /// What must be in the answer for the run to count at all.
    pub(crate) says: &'static str,
}

pub(crate) struct Call {
    pub(crate) command: Command,
    pub(crate) input: Vec<u8>,
}

impl<'a> Contestant<'a> {
    pub(crate) fn new(call: impl FnMut(usize) -> io::Result<Call> + 'a) -> Self {
        Self { call: Box::new(call), says: "" }
    }

    #[must_use]
    pub(crate) fn saying(mut self, says: &'static str) -> Self {
        self.says = says;
        self
    }
}

/// Lets all run in turns; the times of each, in the order they were given.
pub(crate) fn times<const N: usize>(
    rounds: usize,
    mut contestants: [Contestant<'_>; N],
) -> io::Result<[Times; N]> {
    let mut times = std::array::from_fn(|_| Times(Vec::with_capacity(rounds)));
    for round in 0..=rounds {
        for turn in 0..N {
            // Nobody always runs after the same other.
            let at = (turn + round) % N;
            let contestant = &mut contestants[at];
            let call = (contestant.call)(round)?;
            let took = run(call, contestant.says)?;
            // The first round fills caches.
            if round > 0 {
                times[at].0.push(took);
            }
        }
    }
    for Times(sorted) in &mut times {
        sorted.sort_unstable();
    }
    Ok(times)
}

/// Runs one call to its end. Input waits in the pipe and the answer stays in one, so that our own reading and writing
/// is not in the time.
pub(crate) fn run(mut call: Call, says: &str) -> io::Result<Duration> {
    let (input, mut to_input) = io::pipe()?;
    to_input.write_all(&call.input)?;
    drop(to_input);
    let (mut answer, to_answer) = io::pipe()?;
    call.command.stdin(input).stdout(to_answer);
    let begun = Instant::now();
    let status = call.command.status()?;
    let took = begun.elapsed();
    let program = format!("{:?}", call.command);
    // Ours is the last end of the pipe that is open.
    drop(call);
    let mut said = String::new();
    answer.read_to_string(&mut said)?;
    if status.success() && said.contains(says) {
        return Ok(took);
    }
    Err(io::Error::other(format!("{program}: {status}, not saying `{says}`: {said}")))
}

/// Sorted.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn tenth_percentile(&self) -> Duration {
        self.0[self.0.len() / 10]
    }

    pub(crate) fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }
}
