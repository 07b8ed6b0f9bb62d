//! `stat --watch`: prints a line of figures each second until a signal.
//!
//! ```text
//! a process publishes its counters   rates per second between two writes (lookups, splits, I/O, latches)
//! no process does                    the walk of `stat`, when the table has changed (pairs, buckets, overflow)
//! ```
//!
//! Counters live in the memory of the process that has the table open; others see them only if it publishes them
//! (`TableOptions::publish_counters`, `load --stats`). A walk shows every write that has returned.

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::{grouped, size};
use crate::open::ReadArgs;
use crate::output::{Output, say};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;
use splitpoint::{ErrorKind, PublishedCounters, Table, TableCounters, TableSurvey};
use std::path::Path;
use std::time::Duration;

/// Lines between two headings.
const LINES_A_PAGE: u64 = 20;
/// A process that has the table open writes its counters several times a second; after this long it has stopped or
/// hangs.
const SILENT: Duration = Duration::from_secs(3);

/// # Errors
/// A file that cannot be read; a signal, which is how it normally ends.
pub fn watch(file: &Path, reading: ReadArgs, every: Duration, json: bool) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    // Report a misspelt name at once. A file that is being written right now is read later.
    file.metadata().map_err(|error| Failure::io(file.display(), &error))?;
    let mut watch = Watch {
        file,
        reading,
        json,
        out: Output::stdout(),
        lines: 0,
        last: None,
        silent: Duration::ZERO,
        walked: None,
        shown: Shown::Nothing,
    };
    loop {
        watch.look(every)?;
        if wait(&interrupt, every)? {
            return interrupt.stop_if_caught("nothing was changed");
        }
    }
}

/// Waits; `true` if a signal came.
fn wait(interrupt: &Interrupt, time: Duration) -> Result<bool> {
    let mut waits = [PollFd::new(interrupt.wake_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    match poll(&mut waits, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(interrupt.caught().is_some()),
        Err(error) => Err(Failure::io("cannot wait", &error.into())),
    }
}

/// The kind of the last lines, so that a change gets a new heading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Published,
    Walked,
}

struct Watch<'f> {
    file: &'f Path,
    reading: ReadArgs,
    json: bool,
    out: Output,
    lines: u64,
    /// The counters as last read.
    last: Option<PublishedCounters>,
    /// The time since they changed.
    silent: Duration,
    /// The table as of the last walk.
    walked: Option<Table>,
    shown: Shown,
}

impl Watch<'_> {
    fn look(&mut self, every: Duration) -> Result<()> {
        match PublishedCounters::read(self.file)? {
            Some(now) if now.is_open => self.published(now, every),
            left => {
                self.last = None;
                self.walk(left.is_some())
            }
        }
    }

    fn published(&mut self, now: PublishedCounters, every: Duration) -> Result<()> {
        let last = self.last.replace(now).filter(|last| last.process == now.process && last.tick <= now.tick);
        if self.shown != Shown::Published {
            self.shown = Shown::Published;
            self.lines = 0;
            self.say(&format!(
                "process {} has it open; rates are per second, in the first line since it opened the table",
                now.process
            ));
        }
        let (since, ms) = match last {
            None => (now.counters, now.open_ms),
            Some(last) if last.tick == now.tick => {
                self.silent += every;
                if self.silent >= SILENT {
                    self.silent = Duration::ZERO;
                    self.say(&format!("process {} has stopped publishing: suspended, or unable to write", now.process));
                }
                return Ok(());
            }
            Some(last) => (now.counters.since(&last.counters), now.open_ms.saturating_sub(last.open_ms)),
        };
        self.silent = Duration::ZERO;
        let seconds = ms.max(1) as f64 / 1000.0;
        if self.json {
            return self.line(&published_json(&now, &since, seconds).to_string());
        }
        self.heading(PUBLISHED_HEADING)?;
        self.line(&published_line(&since, seconds))
    }

    fn walk(&mut self, left: bool) -> Result<()> {
        if self.shown != Shown::Walked {
            self.shown = Shown::Walked;
            self.lines = 0;
            self.walked = None;
            if left {
                self.say("the process that published its counters ended without closing the table");
            }
            self.say(
                "no process publishes its counters (TableOptions::publish_counters, `splitpoint load --stats`); a \
                 line follows whenever the table changes, from a walk over all of it",
            );
        }
        let opened = match &self.walked {
            Some(table) => table.newer().map_err(Into::into),
            None => self.reading.open(self.file).map(Some),
        };
        let table = match opened {
            Ok(Some(table)) => table,
            Ok(None) => return Ok(()),
            // The file is being created or replaced: the next round reads the result.
            Err(failure) if failure.is_of(&[ErrorKind::Stale, ErrorKind::Locked]) || self.is_empty() => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let stat = table.survey()?;
        self.walked = Some(table);
        if self.json {
            return self.line(&walked_json(&stat).to_string());
        }
        self.heading(WALKED_HEADING)?;
        self.line(&walked_line(&stat))
    }

    fn is_empty(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.len() == 0)
    }

    fn say(&self, what: &str) {
        say(format_args!("splitpoint: {}: {what}", self.file.display()));
    }

    fn heading(&mut self, text: &str) -> Result<()> {
        if self.lines.is_multiple_of(LINES_A_PAGE) { self.out.line(text) } else { Ok(()) }
    }

    fn line(&mut self, text: &str) -> Result<()> {
        self.lines += 1;
        self.out.line(text)
    }
}

const PUBLISHED_HEADING: &str = "\
       pairs      gets  hit%  pages/hit /miss  keys/hit  ovf%      puts   removals  splits    read written  evict  \
       waits  ckpt    memory";

fn published_line(since: &TableCounters, seconds: f64) -> String {
    let rate = |count: u64| short(count as f64 / seconds);
    format!(
        "{:>12} {:>9} {:>5.1}  {:>9.2} {:>5.2}  {:>8.2} {:>5.1} {:>9} {:>10} {:>7} {:>7} {:>7} {:>6} {:>6} {:>5} {:>9}",
        grouped(since.pairs),
        rate(since.lookups()),
        100.0 * since.hit_share(),
        since.pages_per_hit(),
        since.pages_per_miss(),
        since.keys_per_hit(),
        100.0 * since.overflow_share(),
        rate(since.puts),
        rate(since.removals),
        rate(since.splits),
        rate(since.frames_read),
        rate(since.frames_written),
        rate(since.evictions),
        rate(since.latch_waits),
        since.checkpoints,
        size(since.memory_bytes),
    )
}

/// Totals since the table was opened, and rates per second since the previous line.
fn published_json(now: &PublishedCounters, since: &TableCounters, seconds: f64) -> serde_json::Value {
    let rate = |count: u64| count as f64 / seconds;
    let total = &now.counters;
    json!({
        "source": "process",
        "process": now.process,
        "open_ms": now.open_ms,
        "pairs": total.pairs,
        "payload_bytes": total.payload_bytes,
        "buckets": total.buckets,
        "file_bytes": total.file_bytes,
        "memory_bytes": total.memory_bytes,
        "lookups": total.lookups(),
        "hits": total.hits,
        "misses": total.misses,
        "puts": total.puts,
        "removals": total.removals,
        "splits": total.splits,
        "merges": total.merges,
        "checkpoints": total.checkpoints,
        "frames_read": total.frames_read,
        "frames_written": total.frames_written,
        "evictions": total.evictions,
        "latch_waits": total.latch_waits,
        "interval_s": seconds,
        "lookups_per_s": rate(since.lookups()),
        "hit_share": since.hit_share(),
        "pages_per_hit": since.pages_per_hit(),
        "pages_per_miss": since.pages_per_miss(),
        "keys_per_hit": since.keys_per_hit(),
        "keys_per_miss": since.keys_per_miss(),
        "overflow_share": since.overflow_share(),
        "puts_per_s": rate(since.puts),
        "removals_per_s": rate(since.removals),
        "splits_per_s": rate(since.splits),
        "frames_read_per_s": rate(since.frames_read),
        "frames_written_per_s": rate(since.frames_written),
        "evictions_per_s": rate(since.evictions),
        "latch_waits_per_s": rate(since.latch_waits),
    })
}

const WALKED_HEADING: &str = "       pairs     buckets  largest   empty  ovf pages  ovf pairs%       file       free";

fn walked_line(stat: &TableSurvey) -> String {
    format!(
        "{:>12} {:>11} {:>8} {:>7} {:>10} {:>11.1} {:>10} {:>10}",
        grouped(stat.pairs),
        grouped(stat.buckets),
        grouped(stat.largest_bucket),
        grouped(stat.empty_buckets),
        grouped(stat.overflow_pages),
        100.0 * stat.overflow_pairs as f64 / stat.pairs.max(1) as f64,
        size(stat.file_bytes),
        size(stat.free_bytes),
    )
}

fn walked_json(stat: &TableSurvey) -> serde_json::Value {
    json!({
        "source": "file",
        "pairs": stat.pairs,
        "payload_bytes": stat.payload_bytes,
        "buckets": stat.buckets,
        "largest_bucket": stat.largest_bucket,
        "empty_buckets": stat.empty_buckets,
        "overflow_pages": stat.overflow_pages,
        "overflow_pairs": stat.overflow_pairs,
        "file_bytes": stat.file_bytes,
        "free_bytes": stat.free_bytes,
    })
}

/// Formats a number in at most six characters: `12`, `3.4k`, `1.2M`.
fn short(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.1}G", n / 1e9),
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e4 => format!("{:.0}k", n / 1e3),
        n if n >= 10.0 || n == 0.0 => format!("{n:.0}"),
        n => format!("{n:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between_two_looks_and_any_numbers_make_a_line() {
        let mut stats = TableCounters::default();
        (stats.hits, stats.misses, stats.hit_pages, stats.puts) = (3000, 1000, 3300, 20);
        let line = published_line(&stats, 2.0);
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[..5], ["0", "2000", "75.0", "1.10", "0.00"], "{line}");
        assert_eq!(words[7], "10", "{line}");
        let mut huge = stats;
        (huge.hits, huge.misses, huge.memory_bytes) = (u64::MAX, u64::MAX, u64::MAX);
        published_line(&huge, 0.001);
        published_json(&PublishedCounters::default(), &huge, 0.001);
        assert_eq!(
            [short(0.0), short(1.25), short(1234.0), short(12_345.0), short(3.4e6)],
            ["0", "1.2", "1234", "12k", "3.4M"]
        );
    }
}
