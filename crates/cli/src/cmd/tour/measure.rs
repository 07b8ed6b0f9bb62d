//! User, system and elapsed time of a piece of work, and medians over runs: what the paper's tables show.

use crate::failure::{Failure, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::time::Instant;

/// Seconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub user: f64,
    pub system: f64,
    pub elapsed: f64,
}

/// Runs `work` and times it.
pub fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Times)> {
    let (user, system) = processor_times()?;
    let start = Instant::now();
    let done = work()?;
    let elapsed = start.elapsed().as_secs_f64();
    let (user_after, system_after) = processor_times()?;
    Ok((done, Times { user: user_after - user, system: system_after - system, elapsed }))
}

/// CPU time of this process so far. The system counts it in coarser steps than the clock.
fn processor_times() -> Result<(f64, f64)> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|errno| Failure::io("getrusage", &errno.into()))?;
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 * 1e-6;
    Ok((seconds(usage.user_time()), seconds(usage.system_time())))
}

/// One test's times over all runs.
#[derive(Default)]
pub struct Samples(Vec<Times>);

impl Samples {
    pub fn push(&mut self, times: Times) {
        self.0.push(times);
    }

    /// Returns the median of each kind of time separately.
    pub fn median(&self) -> Times {
        let median_of = |field: fn(&Times) -> f64| median(self.0.iter().map(field).collect());
        Times {
            user: median_of(|times| times.user),
            system: median_of(|times| times.system),
            elapsed: median_of(|times| times.elapsed),
        }
    }

    /// Returns the fastest and slowest run, by elapsed time.
    pub fn spread(&self) -> (f64, f64) {
        let elapsed = self.0.iter().map(|times| times.elapsed);
        (elapsed.clone().fold(f64::INFINITY, f64::min), elapsed.fold(0.0, f64::max))
    }
}

/// Returns the middle value, the mean of the middle two for an even number, 0 for none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle() {
        assert_eq!([median(vec![]), median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0, 2.0, 3.0])], [0.0, 2.0, 2.5]);
    }
}
