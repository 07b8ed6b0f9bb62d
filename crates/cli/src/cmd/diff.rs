//! `diff`: the pairs that two tables or dictionaries do not have in common.
//!
//! Each pair of one is looked up in the other: with the same hash function and seed the lookups go through the other
//! file in its own order, so both are read once. A GDBM or cdb file is copied to a temporary table first.

use super::store::Store;
use crate::failure::{Failure, Result};
use crate::format::{Pair, jsonl, tsv};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped};
use crate::open::ReadArgs;
use crate::output::{Output, say};
use crate::progress::{Progress, STEPS_PER_TICK};
use serde_json::json;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint diff monday.spt tuesday.spt
  splitpoint diff users.spt users.spd --json | jq .key
  splitpoint diff a.spt b.spt --quiet || echo they differ

A line is - or +, then the pair as TSV: -key VALUE is in A, +key VALUE is in B; a
key whose value differs has both lines, one after the other. The exit status is
0 if A and B have the same pairs, 1 if not. The pairs of a GDBM or cdb file are
copied to a temporary table ($TMPDIR).";

/// Show the pairs that differ between two tables or dictionaries
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Diff {
    /// A table, a dictionary, a GDBM or cdb file
    a: PathBuf,
    /// Another
    b: PathBuf,
    /// Print nothing and stop at the first difference
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Write {"in": "a" or "b", "key": ..., "value": ...}, one per line, and last {"only_a": ..., "only_b": ...,
    /// "changed": ..., "equal": ...}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

#[derive(Default)]
struct Found {
    only_a: u64,
    only_b: u64,
    changed: u64,
    equal: u64,
}

impl Found {
    fn differences(&self) -> u64 {
        self.only_a + self.only_b + self.changed
    }
}

impl Diff {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let (_copy_of_a, a) = Store::open_or_copy(&self.a, self.reading, &interrupt)?;
        let (_copy_of_b, b) = Store::open_or_copy(&self.b, self.reading, &interrupt)?;
        let mut found = Found::default();
        let mut out = Output::stdout();
        let walked = self.walk(&a, &b, &mut found, &mut out, &interrupt);
        let flushed = out.flush();
        let written = walked.and(flushed).and_then(|()| self.report(&found, &mut out));
        Failure::answer(found.differences() == 0, written)
    }

    fn walk(&self, a: &Store, b: &Store, found: &mut Found, out: &mut Output, interrupt: &Interrupt) -> Result<()> {
        let progress = Progress::of_output("comparing", "pair", Some(a.len() + b.len()));
        let (mut value, mut row, mut done) = (Vec::new(), Vec::new(), 0);
        for (of, in_a) in [(a, true), (b, false)] {
            let mut pairs = of.pairs()?;
            while let Some((key, pair_value)) = pairs.next_ref()? {
                interrupt.stop_if_caught("not everything was compared")?;
                let pair = Pair { key, value: pair_value };
                row.clear();
                if !in_a {
                    if !a.contains(key)? {
                        found.only_b += 1;
                        self.write(false, pair, &mut row);
                    }
                } else if !b.get_into(key, &mut value)? {
                    found.only_a += 1;
                    self.write(true, pair, &mut row);
                } else if value == pair_value {
                    found.equal += 1;
                } else {
                    found.changed += 1;
                    self.write(true, pair, &mut row);
                    self.write(false, Pair { key, value: &value }, &mut row);
                }
                if self.quiet && found.differences() > 0 {
                    return Ok(());
                }
                out.write(&row)?;
                done += 1;
                if done % STEPS_PER_TICK == 0 {
                    progress.at(done);
                }
            }
        }
        Ok(())
    }

    fn write(&self, in_a: bool, pair: Pair<'_>, row: &mut Vec<u8>) {
        if self.json {
            row.extend_from_slice(if in_a { b"{\"in\":\"a\"," } else { b"{\"in\":\"b\"," });
            let start = row.len();
            jsonl::write(pair, row);
            // Remove the opening brace of the pair's own object.
            row.remove(start);
        } else if !self.quiet {
            row.push(if in_a { b'-' } else { b'+' });
            tsv::write(pair, row);
        }
    }

    fn report(&self, found: &Found, out: &mut Output) -> Result<()> {
        let Found { only_a, only_b, changed, equal } = *found;
        if self.json {
            return out
                .line(&json!({"only_a": only_a, "only_b": only_b, "changed": changed, "equal": equal}).to_string());
        }
        if !self.quiet {
            say(format_args!(
                "{} only in {}, {} only in {}, {} with another value, {}",
                grouped(only_a),
                self.a.display(),
                grouped(only_b),
                self.b.display(),
                grouped(changed),
                count_of(equal, "equal pair")
            ));
        }
        Ok(())
    }
}
