//! The output of a measuring process: lines of JSON on standard output, one per figure.

use crate::engine::Outcome;
use crate::measure::Stopwatch;
use serde::{Deserialize, Serialize};
use std::io::Write;

/// One line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A figure.
    Row(Row),
    /// A window of a stream of appends.
    Window(Window),
}

/// One figure of a part.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// The part, or another object: `memory`, `file`.
    pub part: String,
    /// The metric; its unit comes last: `ops_per_s`, `wall_s`, `peak_bytes`.
    pub metric: String,
    /// The value.
    pub value: f64,
}

/// Figures of a window of appends.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Window {
    /// Appends up to its end.
    pub appends: u64,
    /// Appends per second.
    pub ops_per_s: f64,
    /// Appends per second of CPU time.
    pub ops_per_cpu_s: f64,
    /// Memory at its end, less the memory before the store was opened.
    pub rss_bytes: u64,
    /// Peak memory within it.
    pub peak_bytes: u64,
}

/// Collects lines and prints them.
#[derive(Default)]
pub struct Lines(pub Vec<Line>);

impl Lines {
    /// Adds a figure.
    pub fn row(&mut self, part: &str, metric: &str, value: f64) {
        self.0.push(Line::Row(Row { part: part.into(), metric: metric.into(), value }));
    }

    /// Adds the figures of a part of `ops` operations.
    pub fn took(&mut self, part: &str, ops: u64, watch: &Stopwatch) {
        self.row(part, "wall_s", watch.wall.as_secs_f64());
        self.row(part, "user_s", watch.user.as_secs_f64());
        self.row(part, "system_s", watch.system.as_secs_f64());
        self.row(part, "cpu_share", watch.cpu_share());
        if ops > 0 {
            self.row(part, "ops_per_s", ops as f64 / watch.wall.as_secs_f64().max(1e-9));
        }
        self.row(part, "read_calls", watch.calls.reads as f64);
        self.row(part, "write_calls", watch.calls.writes as f64);
        self.row(part, "read_bytes", watch.calls.read_bytes as f64);
        self.row(part, "written_bytes", watch.calls.written_bytes as f64);
    }

    /// Prints all to standard output.
    pub fn print(&self) -> Outcome {
        for line in &self.0 {
            writeln!(std::io::stdout(), "{}", serde_json::to_string(line)?)?;
        }
        Ok(())
    }
}
