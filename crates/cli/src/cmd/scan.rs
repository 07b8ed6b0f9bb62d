//! `scan`: prints some pairs and the cursor to continue from.

use crate::failure::{Failure, Result};
use crate::format::{Pair, jsonl, tsv};
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::open::open_to_read;
use crate::output::{Output, say};
use splitpoint_server::keyspace::{ServedFile, ServedScan};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint scan users.spt --limit 10
  splitpoint scan users.spt --limit 1000 --cursor 8070450532247928832

The cursor is a position in hash order: puts, deletions and splits in between
neither repeat nor skip other pairs. It is written to standard error as
`cursor N`, or `end` after the last pair; with --json, as the last field of one
object: a string (it needs all 64 bits), or null. After a signal (Ctrl-C) the
message names the cursor.";

/// Print pairs from a position in the table, and the cursor to continue from
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Scan {
    /// The table
    file: PathBuf,
    /// Where to begin: the cursor that an earlier scan printed
    #[arg(long, short, value_name = "N", default_value_t = 0)]
    cursor: u64,
    /// Stop after N pairs; a few more if several keys share one hash
    #[arg(long, short, value_name = "N")]
    limit: Option<u64>,
    /// Write {"pairs": [{"key": ..., "value": ...}, ...], "cursor": "N"}
    #[arg(long)]
    json: bool,
}

impl Scan {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let table = open_to_read(&self.file)?;
        let mut scan = ServedFile::of(&table)?.keys_of(table.scan_from(self.cursor));
        let mut out = Output::stdout();
        let written = if self.json {
            self.write_json(&mut scan, &mut out, &interrupt)
        } else {
            self.write_tsv(&mut scan, &mut out, &interrupt)
        };
        // Also after a signal: every pair before it.
        out.flush()?;
        written
    }

    fn write_tsv(&self, scan: &mut ServedScan<'_>, out: &mut Output, interrupt: &Interrupt) -> Result<()> {
        let cursor = self.each_pair(scan, interrupt, |_, pair, row| {
            tsv::write(pair, row);
            out.write(row)
        })?;
        out.flush()?;
        match cursor {
            Some(cursor) => say(format_args!("cursor {cursor}")),
            None => say("end"),
        }
        Ok(())
    }

    fn write_json(&self, scan: &mut ServedScan<'_>, out: &mut Output, interrupt: &Interrupt) -> Result<()> {
        out.write(b"{\"pairs\":[")?;
        let cursor = self.each_pair(scan, interrupt, |number, pair, row| {
            row.extend_from_slice(if number == 0 { b"\n" } else { b",\n" });
            jsonl::write_object(pair, row);
            out.write(row)
        });
        if cursor.is_err() {
            out.write(b"\n")?;
        }
        let cursor = cursor?.map_or("null".to_owned(), |cursor| format!("\"{cursor}\""));
        out.line(&format!("\n],\"cursor\":{cursor}}}"))
    }

    /// Calls `write` with each pair's index, the pair and an empty buffer, up to the limit; returns the cursor after
    /// them.
    fn each_pair(
        &self,
        scan: &mut ServedScan<'_>,
        interrupt: &Interrupt,
        mut write: impl FnMut(u64, Pair<'_>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<Option<u64>> {
        let limit = self.limit.unwrap_or(u64::MAX);
        let mut row = Vec::new();
        let mut count = 0;
        // Continue past the limit while the cursor has not moved, or the next scan would make no progress.
        while count < limit || (limit > 0 && scan.cursor() == Some(self.cursor)) {
            if let (Some(signal), Some(cursor)) = (interrupt.caught(), scan.cursor()) {
                let end = if self.json { ", without the end of the JSON object" } else { ", all complete" };
                let pairs = count_of(count, "pair");
                return Err(Failure::stopped(
                    signal,
                    format_args!("{pairs} written{end}; --cursor {cursor} continues"),
                ));
            }
            let Some((key, value)) = scan.next_ref()? else { return Ok(None) };
            row.clear();
            write(count, Pair { key, value }, &mut row)?;
            count += 1;
        }
        Ok(scan.cursor())
    }
}
