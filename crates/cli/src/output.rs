//! The answer on standard output: buffered, with write errors reported and a closed pipe taken as the end. Messages on
//! standard error: dropped where they cannot be written.
//!
//! Rust's `print!` and `eprint!` panic where a write fails, so clippy refuses them (`main.rs`).

use crate::failure::{Failure, Result};
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Capacity of a Linux pipe.
const BUFFER_BYTES: usize = 64 << 10;

pub struct Output {
    sink: BufWriter<Box<dyn Write>>,
}

impl Output {
    pub fn stdout() -> Self {
        Self { sink: BufWriter::with_capacity(BUFFER_BYTES, Box::new(io::stdout().lock())) }
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes).map_err(Failure::output)
    }

    /// Prints a line of text, flushed at once so that people see it.
    pub fn line(&mut self, text: &str) -> Result<()> {
        self.write(text.as_bytes())?;
        self.write(b"\n")?;
        self.flush()
    }

    /// Prints a report, indented.
    pub fn json(&mut self, report: &Value) -> Result<()> {
        self.line(&format!("{report:#}"))
    }

    pub fn flush(&mut self) -> Result<()> {
        self.sink.flush().map_err(Failure::output)
    }
}

/// Prints a line on standard error, in one write. A line that cannot be written is dropped: work does not stop for a
/// message, and the exit status reports the result.
pub fn say(message: impl Display) {
    let _ = io::stderr().write_all(format!("{message}\n").as_bytes());
}

impl Failure {
    /// Prints the message.
    pub fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            say(format_args!("splitpoint: {message}"));
        }
        ExitCode::from(self.status)
    }
}
