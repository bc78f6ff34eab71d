//! Runs programs alternately and measures the wall time of each.

use std::io::{self, Read as _, Write as _};
use std::process::Command;
use std::time::{Duration, Instant};

/// Numbers of runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rounds {
    /// For runs of a few milliseconds.
    pub(crate) short: usize,
    /// For runs of a tenth of a second.
    pub(crate) long: usize,
    /// For runs of seconds.
    pub(crate) slow: usize,
}

impl Rounds {
    pub(crate) const MANY: Self = Self { short: 200, long: 30, slow: 5 };
    pub(crate) const FEW: Self = Self { short: 30, long: 5, slow: 1 };
}

/// One of the compared programs.
pub(crate) struct Contestant<'a> {
    /// Gets the number of the round; its own preparation is not timed.
    pub(crate) call: Box<dyn FnMut(usize) -> io::Result<Call> + 'a>,
    /// Text that the output must contain.
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

/// Runs all alternately; returns the times of each in the given order.
pub(crate) fn times<const N: usize>(
    rounds: usize,
    mut contestants: [Contestant<'_>; N],
) -> io::Result<[Times; N]> {
    let mut times = std::array::from_fn(|_| Times(Vec::with_capacity(rounds)));
    for round in 0..=rounds {
        for turn in 0..N {
            // Rotated, so that no program always runs after the same one.
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

/// Runs one call to completion. Input and output stay in pipes during the run, so that our own reading and writing is not
/// measured.
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
    // Closes the last open end of the pipe.
    drop(call);
    let mut said = String::new();
    answer.read_to_string(&mut said)?;
    if status.success() && said.contains(says) {
        return Ok(took);
    }
    Err(io::Error::other(format!("{program}: {status}, `{says}` not in the output: {said}")))
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
