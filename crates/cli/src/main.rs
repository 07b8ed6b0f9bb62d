//! The `splitpoint` program: tables and dictionaries from the command line.
//!
//! `cmd/` has one file per command: a struct of its arguments (clap makes `--help` from it) and a `run`. Input:
//! `source/` inputs and what they are, `format/` the formats of pairs, one file each, `input.rs` bytes of a file or
//! pipe with bounded rows, `compressed.rs` gzip and Zstandard, `open.rs` tables. Output: `output.rs`, `progress.rs`,
//! `failure.rs` messages and exit status, `histogram.rs` bucket sizes as text, `number.rs` sizes and times for people,
//! `escapes.rs` bytes as text. `interrupt.rs` signals.
//!
//! Standard output carries the answer and nothing else; progress, warnings and errors go to standard error. Exit
//! status: 0 done, 1 the answer is no (key absent, faults found, row refused), 2 usage, 128 + n stopped by signal n,
//! else from the library's `ErrorKind`. If the reader of our output closes it early, the program ends silently.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))] // they panic if a write fails

mod access;
mod cmd;
mod compressed;
mod escapes;
mod failure;
mod format;
mod histogram;
mod input;
mod interrupt;
mod number;
mod open;
mod output;
mod progress;
mod source;
mod types;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  splitpoint load users.spt users.tsv        key TAB value, one pair a line
  splitpoint load log.spt log.jsonl.gz --key id   other fields become the value
  splitpoint get users.spt alice
  splitpoint dump users.spt | sort > users.tsv
  splitpoint stat users.spt                  size, fill, and a histogram of the buckets
  splitpoint dict build users.tsv users.spd  written once, one read per lookup

Exit status: 0 done; 1 the answer is no (key absent, faults found, row
refused); 2 wrong usage; 128+n stopped by signal n; else the kind of error.";

/// Key/value tables in one file, by linear hashing.
#[derive(Parser)]
#[command(
    name = "splitpoint",
    version,
    after_help = EXAMPLES,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Program {
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    let program = match Program::try_parse() {
        Ok(program) => program,
        // A usage error, or the output of `--help` and `--version`.
        Err(text) => {
            let status = u8::try_from(text.exit_code()).unwrap_or(failure::EXIT_USAGE);
            return match text.print() {
                Err(error) if !text.use_stderr() => failure::Failure::output(error).report(),
                _ => ExitCode::from(status),
            };
        }
    };
    match interrupt::outlive_file_limit().and_then(|()| program.command.run(Program::command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
