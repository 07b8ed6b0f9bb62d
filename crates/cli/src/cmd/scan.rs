//! `scan`: prints some pairs and the cursor to continue from.

use super::filter::{KeyFilter, Limit};
use super::store::{Cursor, Store, Wanted};
use crate::failure::{Failure, Result};
use crate::format::{Pair, jsonl, tsv};
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::open::ReadArgs;
use crate::output::{Output, say};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint scan users.spt --limit 10
  splitpoint scan users.spt --limit 1000 --cursor 8070450532247928832
  splitpoint scan users.spd --key-prefix al --limit 10

The cursor is a position in hash order: puts, deletions, splits and updates in
between neither repeat nor skip other pairs. It is written to standard error as
`cursor N`, or `end` after the last pair; with --json, as the last field of one
object: a string (it needs all 64 bits), or null. After a signal (Ctrl-C) the
message names the cursor.";

/// Print pairs from a position in the file, and the cursor to continue from
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Scan {
    /// The table or dictionary
    file: PathBuf,
    /// The cursor to start from, printed by an earlier scan
    #[arg(long, short, value_name = "N", default_value_t = 0)]
    cursor: u64,
    #[command(flatten)]
    filter: KeyFilter,
    #[command(flatten)]
    limit: Limit,
    /// Write {"pairs": [{"key": ..., "value": ...}, ...], "cursor": "N"}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

impl Scan {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let store = Store::open(&self.file, self.reading)?;
        let mut out = Output::stdout();
        let written = if self.json {
            self.write_json(&store, &mut out, &interrupt)
        } else {
            self.write_tsv(&store, &mut out, &interrupt)
        };
        // Print every earlier pair, also after a signal.
        out.flush()?;
        written
    }

    fn write_tsv(&self, store: &Store, out: &mut Output, interrupt: &Interrupt) -> Result<()> {
        let cursor = self.each_pair(store, interrupt, |_, pair, row| {
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

    fn write_json(&self, store: &Store, out: &mut Output, interrupt: &Interrupt) -> Result<()> {
        out.write(b"{\"pairs\":[")?;
        let cursor = self.each_pair(store, interrupt, |number, pair, row| {
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
        store: &Store,
        interrupt: &Interrupt,
        mut write: impl FnMut(u64, Pair<'_>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<Cursor> {
        let limit = self.limit.limit.unwrap_or(u64::MAX);
        let wanted = Wanted { cursor: self.cursor, filter: &self.filter, limit, caught: &|| interrupt.caught() };
        let (mut row, mut count) = (Vec::new(), 0);
        let (cursor, stopped) = store.scan(&wanted, &mut |pair| {
            row.clear();
            write(count, pair, &mut row)?;
            count += 1;
            Ok(())
        })?;
        let (Some(signal), Some(cursor)) = (stopped, cursor) else { return Ok(cursor) };
        let end = if self.json { ", without the end of the JSON object" } else { ", all complete" };
        let pairs = count_of(count, "pair");
        Err(Failure::stopped(signal, format_args!("{pairs} written{end}; --cursor {cursor} continues")))
    }
}
