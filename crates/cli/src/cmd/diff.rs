//! `diff`: the pairs in which two tables, dictionaries, servers or dumps differ.
//!
//! Each pair of one is looked up in the other: with the same hash function and seed the lookups go through the other
//! file in its own order, so both are read once. A GDBM or cdb file is copied to a temporary table first; so are both
//! sides if one has types or lifetimes (`typed_copy.rs`).

use super::store::Store;
use super::typed_copy::{self, TypedCopy};
use crate::failure::{Failure, Result};
use crate::format::{Pair, jsonl, tsv};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped};
use crate::open::ReadArgs;
use crate::output::{Output, say};
use crate::progress::{Progress, STEPS_PER_TICK};
use crate::source::{is_address, redis_name};
use serde_json::json;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  splitpoint diff monday.spt tuesday.spt
  splitpoint diff users.spt users.spd --json | jq .key
  splitpoint diff a.spt b.spt --quiet || echo they differ
  splitpoint diff redis://127.0.0.1:6379/0 moved.spt

A line is - or +, then the pair as TSV: -key VALUE is in A, +key VALUE is in B; a
key whose value differs has both lines, one after the other. The exit status is
0 if A and B have the same pairs, 1 if not. With a server, a dump of Redis or a
table that a server has used, a line has the key as JSON, with its type and
lifetime. What such inputs, GDBM and cdb files have is copied to a temporary
table first ($TMPDIR).";

/// Show the pairs that differ between two tables, dictionaries, servers or dumps of Redis
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Diff {
    /// A table, a dictionary, a GDBM or cdb file, a server as in redis://HOST:PORT/0, or its dump.rdb
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

/// The form in which a difference is written.
#[derive(Clone, Copy)]
enum Lines {
    /// The pair.
    Pairs,
    /// Its value, a JSON line.
    Typed,
}

impl Found {
    fn differences(&self) -> u64 {
        self.only_a + self.only_b + self.changed
    }
}

impl Diff {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let has_types = |path| typed_copy::has_types(path, self.reading, &interrupt);
        if has_types(&self.a)? || has_types(&self.b)? {
            return self.typed(&interrupt);
        }
        let (_copy_of_a, a) = Store::open_or_copy(&self.a, self.reading, &interrupt)?;
        let (_copy_of_b, b) = Store::open_or_copy(&self.b, self.reading, &interrupt)?;
        self.compare(&a, &b, Lines::Pairs, &interrupt)
    }

    /// Compares keys of every type, with their lifetimes. The address of a server names one database.
    fn typed(&self, interrupt: &Interrupt) -> Result<()> {
        let only_first = is_address(&self.a) || is_address(&self.b);
        let copy = |path| TypedCopy::of(path, only_first, self.reading, interrupt);
        let (a, b) = (copy(&self.a)?, copy(&self.b)?);
        let left_out = a.left_out + b.left_out;
        if left_out > 0 {
            let keys = count_of(left_out, "key");
            say(format_args!("splitpoint: {keys} of other databases than the first: not compared"));
        }
        let (_a_place, a) = a.into_store();
        let (_b_place, b) = b.into_store();
        self.compare(&a, &b, Lines::Typed, interrupt)
    }

    fn compare(&self, a: &Store, b: &Store, lines: Lines, interrupt: &Interrupt) -> Result<()> {
        let mut found = Found::default();
        let mut out = Output::stdout();
        let walked = self.walk((a, b), lines, &mut found, &mut out, interrupt);
        let flushed = out.flush();
        let written = walked.and(flushed).and_then(|()| self.report(&found, &mut out));
        Failure::answer(found.differences() == 0, written)
    }

    fn walk(
        &self,
        (a, b): (&Store, &Store),
        lines: Lines,
        found: &mut Found,
        out: &mut Output,
        interrupt: &Interrupt,
    ) -> Result<()> {
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
                        self.write(false, pair, lines, &mut row);
                    }
                } else if !b.get_into(key, &mut value)? {
                    found.only_a += 1;
                    self.write(true, pair, lines, &mut row);
                } else if value == pair_value {
                    found.equal += 1;
                } else {
                    found.changed += 1;
                    self.write(true, pair, lines, &mut row);
                    self.write(false, Pair { key, value: &value }, lines, &mut row);
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

    fn write(&self, in_a: bool, pair: Pair<'_>, lines: Lines, row: &mut Vec<u8>) {
        if self.quiet {
            return;
        }
        if !self.json {
            row.push(if in_a { b'-' } else { b'+' });
            return match lines {
                Lines::Pairs => tsv::write(pair, row),
                Lines::Typed => row.extend_from_slice(pair.value),
            };
        }
        row.extend_from_slice(if in_a { b"{\"in\":\"a\"," } else { b"{\"in\":\"b\"," });
        let start = row.len();
        match lines {
            Lines::Pairs => jsonl::write(pair, row),
            Lines::Typed => row.extend_from_slice(pair.value),
        }
        // Remove the opening brace of the pair's own object.
        row.remove(start);
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
                name(&self.a),
                grouped(only_b),
                name(&self.b),
                grouped(changed),
                count_of(equal, "equal pair")
            ));
        }
        Ok(())
    }
}

/// Returns the name of an input, without the password of an address.
fn name(path: &Path) -> String {
    if is_address(path) { redis_name(path) } else { path.display().to_string() }
}
