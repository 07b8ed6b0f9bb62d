//! `compact`: returns unused space to the file system.

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::{grouped, size};
use crate::open::CacheArgs;
use crate::output::Output;
use crate::progress::Progress;
use serde_json::json;
use splitpoint::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Drop unused space and shrink the file
///
/// Merges buckets to the fill factor, moves pages and values together, and truncates the file to about the length of a
/// newly loaded one. Freed space is always reused. A close makes the file shorter by what checkpoints have left free,
/// and only this command by what pairs have left.
///
/// Reads all pages. Writes the pages of buckets, and everything behind free space, at most the whole file, to free room
/// of the file, and then what is at its end to the start: while it runs, the file may double. Programs that have the
/// table open for reading continue with what they opened, and keep the room of that until they close it.
///
/// A signal takes effect once the table is consistent again. If the process is killed, nothing is lost; run it again.
/// To compact a file that a server has open, send the server the command HT.COMPACT.
#[derive(clap::Args)]
pub struct Compact {
    /// The table
    file: PathBuf,
    /// Write {"before_bytes": ..., "after_bytes": ..., "seconds": ...}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

impl Compact {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let table = self.cache.open_to_change(&self.file).map_err(|failure| {
            let is_in_use = failure.is_of(&[ErrorKind::Locked]);
            let how = "A server compacts its file while it serves: `redis-cli -h HOST -p PORT HT.COMPACT`";
            if is_in_use { failure.and(how) } else { failure }
        })?;
        let before = self.file_bytes()?;
        let start = Instant::now();
        let progress = Progress::of_one_step("compacting");
        let compacted = table.compact();
        progress.clear();
        compacted?;
        table.close()?;
        self.report(before, self.file_bytes()?, start.elapsed())?;
        interrupt.stop_if_caught("after the table was compacted")
    }

    fn file_bytes(&self) -> Result<u64> {
        let metadata = self.file.metadata().map_err(|error| Failure::io(self.file.display(), &error))?;
        Ok(metadata.len())
    }

    fn report(&self, before: u64, after: u64, time: Duration) -> Result<()> {
        let mut out = Output::stdout();
        if self.json {
            return out.json(&json!({
                "file": self.file.to_string_lossy(),
                "before_bytes": before,
                "after_bytes": after,
                "seconds": time.as_secs_f64(),
            }));
        }
        let change = 100.0 * (after as f64 - before as f64) / (before as f64).max(1.0);
        let file = self.file.display();
        out.line(&format!(
            "{file}: {} -> {} bytes ({} -> {}, {change:+.1} %)",
            grouped(before),
            grouped(after),
            size(before),
            size(after)
        ))
    }
}
