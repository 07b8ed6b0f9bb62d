//! Progress of long work, as one line on standard error; nothing where that is not a terminal.
//!
//! The line is cut to the terminal's width, and it is gone when the work ends, however it ends.

use crate::number::{count_of, grouped, rate, size};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Steps of a counter between two updates: callers with cheap steps need not count for themselves.
pub const STEPS_PER_TICK: u64 = 1024;
/// Short work shows nothing: a line that disappears immediately only distracts, and its rate means nothing.
const FIRST_LINE: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
    /// The name of the work: `reading`.
    verb: &'static str,
    unit: Unit,
}

#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    /// The name of an item, in the singular.
    Items(&'static str),
}

impl Progress {
    /// Progress over the bytes of a file; `total` is `None` if the length is unknown.
    pub fn of_bytes(verb: &'static str, total: Option<u64>) -> Self {
        Self::new(verb, Unit::Bytes, total)
    }

    /// Progress over pairs, rows or keys; `noun` is one of them.
    pub fn of_items(verb: &'static str, noun: &'static str, total: Option<u64>) -> Self {
        Self::new(verb, Unit::Items(noun), total)
    }

    /// Progress over rows on standard output: hidden if that is a terminal, where they are progress enough.
    pub fn of_output(verb: &'static str, noun: &'static str, total: Option<u64>) -> Self {
        if std::io::stdout().is_terminal() {
            return Self { bar: ProgressBar::hidden(), ..Self::of_items(verb, noun, total) };
        }
        Self::of_items(verb, noun, total)
    }

    /// Progress of one call that does not report its own.
    pub fn of_one_step(verb: &'static str) -> Self {
        let progress = Self::new(verb, Unit::Items(""), None);
        progress.bar.set_message(verb);
        if !progress.bar.is_hidden() {
            let shown = progress.bar.downgrade();
            // indicatif's steady tick would panic without a thread. Here the line just does not move without one.
            let tick = move || {
                while let Some(bar) = shown.upgrade() {
                    bar.tick();
                    drop(bar);
                    std::thread::sleep(Duration::from_millis(100));
                }
            };
            let _ = std::thread::Builder::new().name("progress".into()).spawn(tick);
        }
        progress
    }

    fn new(verb: &'static str, unit: Unit, total: Option<u64>) -> Self {
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), "{bar:12} {wide_msg}"),
            None => (ProgressBar::new_spinner(), "{spinner} {wide_msg}"),
        };
        let style = ProgressStyle::with_template(template).expect("the templates are fixed and a test uses them");
        let bar = bar.with_style(style).with_finish(ProgressFinish::AndClear);
        Self { bar, verb, unit }
    }

    /// Shows the current work in a bar made by [`of_one_step`](Self::of_one_step).
    #[cfg(feature = "lab")]
    pub fn step(&self, what: &str) {
        self.bar.set_message(format!("{}: {what}", self.verb));
    }

    pub fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }

    pub fn at(&self, done: u64) {
        self.at_with(done, "");
    }

    /// `more` is shown last in the line.
    pub fn at_with(&self, done: u64, more: &str) {
        if self.bar.is_hidden() || self.bar.elapsed() < FIRST_LINE {
            return;
        }
        self.bar.set_position(done);
        self.bar.set_message(self.line(done, self.bar.length(), self.bar.elapsed(), more));
    }

    fn line(&self, done: u64, total: Option<u64>, elapsed: Duration, more: &str) -> String {
        let per_s = rate(done, elapsed);
        let mut line = self.verb.to_owned();
        line += &match (self.unit, total) {
            (Unit::Bytes, Some(total)) => format!(" {} of {}", size(done), size(total)),
            (Unit::Bytes, None) => format!(" {}", size(done)),
            (Unit::Items(noun), Some(total)) => format!(" {} of {}", grouped(done), count_of(total, noun)),
            (Unit::Items(noun), None) => format!(" {}", count_of(done, noun)),
        };
        line += &match self.unit {
            Unit::Bytes => format!(", {}/s", size(per_s)),
            Unit::Items(noun) => format!(", {} {noun}s/s", grouped(per_s)),
        };
        if let Some(total) = total.filter(|_| per_s > 0) {
            line += &format!(", {} to go", whole_seconds(total.saturating_sub(done) / per_s));
        }
        if !more.is_empty() {
            line += ", ";
            line += more;
        }
        line
    }

    /// Restarts the clock: the time before is not part of the rate.
    pub fn restart(&self) {
        self.bar.reset();
    }

    /// Hides the line while `print` runs.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// `7 s`, `3 min 20 s`, `2 h 5 min`.
fn whole_seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_whole_numbers_and_what_remains() {
        let line = |progress: &Progress, done, total, seconds: f64, more| {
            progress.line(done, total, Duration::from_secs_f64(seconds), more)
        };
        let bytes = Progress::of_bytes("reading", Some(3 << 20));
        assert_eq!(
            line(&bytes, 1 << 20, Some(3 << 20), 2.0, "17 rows"),
            "reading 1.0 MiB of 3.0 MiB, 512.0 KiB/s, 4 s to go, 17 rows"
        );
        let items = Progress::of_items("writing", "pair", None);
        assert_eq!(line(&items, 1_234_567, None, 0.7, ""), "writing 1,234,567 pairs, 1,763,667 pairs/s");
        assert_eq!(line(&items, 10, Some(2000), 1.0, ""), "writing 10 of 2,000 pairs, 10 pairs/s, 3 min 19 s to go");
        assert_eq!(whole_seconds(7500), "2 h 5 min");
    }
}
