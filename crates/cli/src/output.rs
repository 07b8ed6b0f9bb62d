//! Standard output: buffered, with failures told and a reader that leaves taken for an end.
//!
//! Rust's own `print!` panics when the pipe closes and writes a system call a line; neither suits a dump.

use crate::failure::{Failure, Result};
use serde_json::Value;
use std::io::{self, BufWriter, Write};

/// As much as a Linux pipe holds.
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

    /// A line of text, written through at once: people watch these appear.
    pub fn line(&mut self, text: &str) -> Result<()> {
        self.write(text.as_bytes())?;
        self.write(b"\n")?;
        self.flush()
    }

    /// A report, indented.
    pub fn json(&mut self, report: &Value) -> Result<()> {
        self.line(&format!("{report:#}"))
    }

    pub fn flush(&mut self) -> Result<()> {
        self.sink.flush().map_err(Failure::output)
    }
}
