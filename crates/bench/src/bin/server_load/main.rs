//! Loads a Redis or memcached server and measures it: `server_load PART --port PORT ...`. `make bench-server` calls it.
//!
//! ```text
//! appends   appends of 16 bytes to keys of 8, in long pipelines on one connection, by windows of 100,000
//! verify    after a crash: reads all that `appends` wrote, and compares it with what was acknowledged
//! rate      many connections, each with one request or pipeline under way: requests per second
//! mixed     requests at a fixed rate, and the time of each since it was due
//! ```
//!
//! Each part prints one line of JSON. One thread does everything, so that the client fits on one core; `client_busy`
//! says how much of the time it was working, since a client that is the limit measures itself. Every reply is checked.
//!
//! Not here: starting servers, cores, rounds, tables (`crates/server/benchmarks/measure.py`).

#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic where a write fails

mod appends;
mod histogram;
mod rates;
mod wire;

use clap::{Args, Parser, Subcommand};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::io::Write;
use std::time::Instant;

/// Any error ends the program with a message.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Loads a Redis or memcached server on this machine, and measures it.
#[derive(Parser)]
struct Command {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Appends in long pipelines on one connection, as in "Big Memory, Part 3".
    Appends(appends::Load),
    /// Compares what a restarted server has with the stream of `appends`.
    Verify(appends::Verification),
    /// Requests as fast as they are answered.
    Rate(rates::Rate),
    /// Requests at a fixed rate, with the time of each since it was due.
    Mixed(rates::Mixed),
}

/// The server to load.
#[derive(Args)]
pub struct Target {
    /// Its port on 127.0.0.1.
    #[arg(long)]
    port: u16,
    /// Its process, for its processor time.
    #[arg(long)]
    pid: u32,
}

/// Processor time and elapsed time from here on, of this program and of the server.
pub struct Clock<'t> {
    target: &'t Target,
    since: Instant,
    own_s: f64,
    server_s: f64,
}

/// The measurements of a [`Clock`].
pub struct Elapsed {
    /// Wall time.
    pub seconds: f64,
    /// Processor time of this program.
    pub own_s: f64,
    /// Processor time of the server.
    pub server_s: f64,
}

impl<'t> Clock<'t> {
    /// Starts the clock.
    pub fn start(target: &'t Target) -> Result<Self> {
        Ok(Clock { target, since: Instant::now(), own_s: own_seconds()?, server_s: server_seconds(target.pid)? })
    }

    /// Returns the time since the start; may be called repeatedly.
    pub fn stop(&self) -> Result<Elapsed> {
        Ok(Elapsed {
            seconds: self.since.elapsed().as_secs_f64(),
            own_s: own_seconds()? - self.own_s,
            server_s: server_seconds(self.target.pid)? - self.server_s,
        })
    }
}

fn own_seconds() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6)
}

/// Returns the processor time of a process, in steps of a hundredth of a second.
fn server_seconds(pid: u32) -> Result<f64> {
    const TICKS_PER_S: f64 = 100.0; // USER_HZ of Linux
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').ok_or("no name in /proc/PID/stat")?;
    let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Ok(ticks.sum::<std::result::Result<u64, _>>()? as f64 / TICKS_PER_S)
}

/// Returns a random-looking number, distinct for each `x`: the last step of splitmix64.
pub fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns the `n`-th number of a stream, below `bound`.
pub fn below(n: u64, bound: u64) -> u64 {
    ((u128::from(mix(n)) * u128::from(bound)) >> 64) as u64
}

fn main() -> Result<()> {
    let row = match Command::parse().part {
        Part::Appends(load) => appends::load(&load)?,
        Part::Verify(verification) => appends::verify(&verification)?,
        Part::Rate(rate) => rates::rate(&rate)?,
        Part::Mixed(mixed) => rates::mixed(&mixed)?,
    };
    writeln!(std::io::stdout(), "{row}")?;
    Ok(())
}
