//! Clocks, memory and files: what the system reports about this process.
//!
//! [`Stopwatch`] adds up wall time, CPU time and I/O over timed intervals. [`Latencies`] records single operations.
//! [`Memory`] is `VmRSS` and `VmHWM` of `/proc/self/status`; the latter is reset (`/proc/self/clear_refs`), so that
//! inputs generated before do not count. [`FileSize`] is disk use.

use crate::engine::Outcome;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Reads and writes of the process, from `/proc/self/io`, which does not count mapped access.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Bytes given to writes.
    pub written_bytes: u64,
    /// Read calls.
    pub reads: u64,
    /// Write calls.
    pub writes: u64,
}

impl Calls {
    fn now() -> Calls {
        // An unreadable file, as in some sandboxes, counts as zeros.
        let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let field = |name| number_after(&text, name);
        Calls {
            read_bytes: field("rchar:"),
            written_bytes: field("wchar:"),
            reads: field("syscr:"),
            writes: field("syscw:"),
        }
    }
}

impl Calls {
    fn and(self, other: Calls) -> Calls {
        Calls {
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
        }
    }

    fn since(self, earlier: Calls) -> Calls {
        Calls {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
        }
    }
}

/// Returns the number that follows `name` at the start of a line, or 0 without such a line.
fn number_after(text: &str, name: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(name));
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Time and I/O of the intervals between [`start`](Self::start) and [`stop`](Self::stop).
#[derive(Clone, Debug, Default)]
pub struct Stopwatch {
    /// Wall time.
    pub wall: Duration,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Reads and writes.
    pub calls: Calls,
}

/// An interval that has begun.
pub struct Running {
    calls: Calls,
    /// Calls made by reading the counters themselves.
    own: Calls,
    usage: Usage,
    start: Instant,
}

impl Stopwatch {
    /// Begins an interval.
    pub fn start() -> Outcome<Running> {
        let first = Calls::now();
        let calls = Calls::now();
        Ok(Running { calls, own: calls.since(first), usage: getrusage(UsageWho::RUSAGE_SELF)?, start: Instant::now() })
    }

    /// Ends an interval and adds it; returns its wall time.
    pub fn stop(&mut self, running: &Running) -> Outcome<Duration> {
        let wall = running.start.elapsed();
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let calls = Calls::now();
        self.wall += wall;
        self.user += duration(usage.user_time()).saturating_sub(duration(running.usage.user_time()));
        self.system += duration(usage.system_time()).saturating_sub(duration(running.usage.system_time()));
        self.calls = self.calls.and(calls.since(running.calls).since(running.own));
        Ok(wall)
    }

    /// Returns the sum of both.
    pub fn and(mut self, other: &Stopwatch) -> Stopwatch {
        self.wall += other.wall;
        self.user += other.user;
        self.system += other.system;
        self.calls = self.calls.and(other.calls);
        self
    }

    /// CPU time over wall time; above 1 if other threads help.
    pub fn cpu_share(&self) -> f64 {
        (self.user + self.system).as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }
}

fn duration(time: nix::sys::time::TimeVal) -> Duration {
    Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000)
}

/// CPU time of this thread.
pub fn thread_time() -> Outcome<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Memory of this process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Resident bytes now.
    pub rss: u64,
    /// Largest resident size since [`forget_peak`](Self::forget_peak).
    pub peak: u64,
    /// Resident bytes that belong to no file.
    pub anonymous: u64,
}

impl Memory {
    /// Reads the current values.
    pub fn now() -> Outcome<Memory> {
        let text = std::fs::read_to_string("/proc/self/status")?;
        let field = |name| number_after(&text, name) << 10;
        Ok(Memory { rss: field("VmRSS:"), peak: field("VmHWM:"), anonymous: field("RssAnon:") })
    }

    /// Resets the peak to the current size.
    pub fn forget_peak() -> Outcome {
        Ok(std::fs::write("/proc/self/clear_refs", "5")?)
    }
}

/// Bytes of all files below a directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSize {
    /// Blocks on the disk.
    pub blocks: u64,
    /// File lengths, holes included.
    pub apparent: u64,
}

impl FileSize {
    /// Returns the size of the file at `path`, or of everything in the directory.
    pub fn of(path: &Path) -> Outcome<FileSize> {
        let data = std::fs::symlink_metadata(path)?;
        if !data.is_dir() {
            return Ok(FileSize { blocks: data.blocks() * 512, apparent: data.len() });
        }
        let mut sum = FileSize::default();
        for entry in std::fs::read_dir(path)? {
            let size = FileSize::of(&entry?.path())?;
            sum.blocks += size.blocks;
            sum.apparent += size.apparent;
        }
        Ok(sum)
    }
}

/// Latencies of single operations, to 1 part in 64; the longest exactly. Its memory does not grow.
pub struct Latencies {
    counts: Vec<u32>,
    longest_ns: u64,
    longest_on_cpu_ns: u64,
    longest_at: u64,
}

const STEPS: u64 = 64;

impl Default for Latencies {
    fn default() -> Self {
        // Touched now, so that it is resident before anything is measured.
        Latencies { counts: vec![1; 64 * STEPS as usize], longest_ns: 0, longest_on_cpu_ns: 0, longest_at: 0 }.cleared()
    }
}

impl Latencies {
    fn cleared(mut self) -> Self {
        self.counts.fill(0);
        self
    }

    /// Adds operation number `at`.
    pub fn add(&mut self, at: u64, ns: u64) {
        self.counts[slot(ns)] += 1;
        if ns > self.longest_ns {
            (self.longest_ns, self.longest_at) = (ns, at);
        }
    }

    /// Records the longest operation of a block and how long the thread was off the CPU during the block, which is not
    /// the operation's own time.
    pub fn end_block(&mut self, longest_ns: u64, off_cpu_ns: u64) {
        self.longest_on_cpu_ns = self.longest_on_cpu_ns.max(longest_ns.saturating_sub(off_cpu_ns));
    }

    /// Returns the latency that this share of the operations did not exceed.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let total: u64 = self.counts.iter().map(|&c| u64::from(c)).sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        let at = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= wanted
        });
        at.map_or(self.longest_ns, |slot| slot_end(slot).min(self.longest_ns))
    }

    /// Returns the longest, and the number of that operation.
    pub fn longest(&self) -> (u64, u64) {
        (self.longest_ns, self.longest_at)
    }

    /// Returns the longest, less the time the thread was off the CPU.
    pub fn longest_on_cpu_ns(&self) -> u64 {
        self.longest_on_cpu_ns
    }
}

/// Below [`STEPS`] each value has its own slot; above, each power of two has that many.
fn slot(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let power = ns.ilog2() - STEPS.ilog2();
    ((u64::from(power) * STEPS) + (ns >> power)) as usize
}

/// Returns the largest value of a slot.
fn slot_end(slot: usize) -> u64 {
    let slot = slot as u64;
    if slot < STEPS {
        return slot;
    }
    let power = slot / STEPS - 1;
    ((slot - power * STEPS + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_its_slot_and_close_to_the_end() {
        for ns in (0..100_000).chain([1 << 30, (1 << 40) + 12345]) {
            let end = slot_end(slot(ns));
            assert!(end >= ns && end - ns <= ns / STEPS, "{ns} ns became {end}");
        }
    }

    #[test]
    fn quantiles_and_the_maximum_are_reported() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|i| latencies.add(i, i * 10));
        let near = |ns: u64, expected: u64| assert!(ns.abs_diff(expected) <= expected / 50, "{ns}, not {expected}");
        near(latencies.quantile_ns(0.5), 5000);
        near(latencies.quantile_ns(0.99), 9900);
        assert_eq!((latencies.quantile_ns(1.0), latencies.longest()), (10_000, (10_000, 1000)));
    }

    #[test]
    fn memory_that_is_touched_is_seen() {
        let before = Memory::now().expect("/proc is there");
        let block = vec![1_u8; 64 << 20];
        let after = Memory::now().expect("/proc is there");
        assert!(after.rss >= before.rss + (60 << 20) && after.peak >= after.rss && block[12345] == 1);
    }
}
