//! `scan`: some pairs, and the cursor to go on from.

use super::open_to_read;
use crate::failure::Result;
use crate::format::{Pair, jsonl, tsv};
use crate::output::Output;
use splitpoint::Scan as TableScan;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint scan users.spt --limit 10
  splitpoint scan users.spt --limit 1000 --cursor 8070450532247928832

The cursor is a place in hash order: pairs put, deleted or moved by splits in
between make no other pair come twice or not at all. It is written to standard
error as `cursor N`, or `end` when there is no more; with --json, as the last
field of one object: a string (it needs all 64 bits), or null.";

/// Print pairs from a place in the table, and where to go on
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Scan {
    /// The table
    file: PathBuf,
    /// Where to begin: the number that an earlier scan ended with
    #[arg(long, short, value_name = "N", default_value_t = 0)]
    cursor: u64,
    /// End after so many pairs; a few more where several keys share one hash
    #[arg(long, short, value_name = "N")]
    limit: Option<u64>,
    /// Write {"pairs": [{"key": ..., "value": ...}, ...], "cursor": "N"}
    #[arg(long)]
    json: bool,
}

impl Scan {
    pub fn run(self) -> Result<()> {
        let table = open_to_read(&self.file)?;
        let mut scan = table.scan_from(self.cursor);
        let mut out = Output::stdout();
        if self.json { self.write_json(&mut scan, &mut out) } else { self.write_tsv(&mut scan, &mut out) }
    }

    fn write_tsv(&self, scan: &mut TableScan<'_>, out: &mut Output) -> Result<()> {
        let cursor = self.each_pair(scan, |_, pair, row| {
            tsv::write(pair, row);
            out.write(row)
        })?;
        out.flush()?;
        match cursor {
            Some(cursor) => eprintln!("cursor {cursor}"),
            None => eprintln!("end"),
        }
        Ok(())
    }

    fn write_json(&self, scan: &mut TableScan<'_>, out: &mut Output) -> Result<()> {
        out.write(b"{\"pairs\":[")?;
        let cursor = self.each_pair(scan, |number, pair, row| {
            row.extend_from_slice(if number == 0 { b"\n" } else { b",\n" });
            jsonl::write_object(pair, row);
            out.write(row)
        })?;
        let cursor = cursor.map_or("null".to_owned(), |cursor| format!("\"{cursor}\""));
        out.line(&format!("\n],\"cursor\":{cursor}}}"))
    }

    /// Calls `write` with each pair's number, itself and an empty buffer, up to the limit; gives the cursor after them.
    fn each_pair(
        &self,
        scan: &mut TableScan<'_>,
        mut write: impl FnMut(u64, Pair<'_>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<Option<u64>> {
        let limit = self.limit.unwrap_or(u64::MAX);
        let mut row = Vec::new();
        let mut count = 0;
        // Past the limit while the cursor has not moved: who goes on from it must get somewhere.
        while count < limit || (limit > 0 && scan.cursor() == Some(self.cursor)) {
            let Some((key, value)) = scan.next_ref()? else { return Ok(None) };
            row.clear();
            write(count, Pair { key, value }, &mut row)?;
            count += 1;
        }
        Ok(scan.cursor())
    }
}
