//! The `splitpoint` program: tables and dictionaries from the command line.
//!
//! One file a command in `cmd/`, each a struct of its arguments (clap makes `--help` from it) and a `run`. Around them:
//! `format/` pairs as TSV, JSON lines, raw or plain lines, read and written; `input.rs` bytes of a file or pipe with
//! bounded lines; `source/` all that pairs come from for a dictionary; `interrupt.rs` signals; `failure.rs` messages and exit status; `histogram.rs` the picture that `stat`
//! and `tour` draw; `number.rs` sizes and times as people write them.
//!
//! Standard output carries the answer and nothing else; progress, warnings and errors go to standard error.
//! Exit status: 0 done, 1 the answer is no (key absent, faults found, row refused), 2 usage, 128 + n stopped by signal n,
//! else from the library's `ErrorKind`. A reader that closes our output early ends us quietly.

mod cmd;
mod failure;
mod format;
mod histogram;
mod input;
mod interrupt;
mod known;
mod number;
mod output;
mod source;

use clap::Parser;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  splitpoint tour                           see what it does, on English words
  splitpoint load users.spt users.tsv       key TAB value, one pair a line
  zcat log.jsonl.gz | splitpoint load log.spt - --format jsonl
  splitpoint get users.spt alice
  splitpoint dump users.spt | sort > users.tsv
  splitpoint stat users.spt                 size, fill, and a picture of the buckets
  splitpoint dict build users.tsv users.spd pairs written once, found with one read

Exit status: 0 done; 1 the answer is no (key absent, faults found, row
refused); 2 wrong usage; 128+n stopped by signal n; else the kind of error.";

/// Key/value tables in one file, by linear hashing.
#[derive(Parser)]
#[command(name = "splitpoint", version, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
struct Program {
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    match Program::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
