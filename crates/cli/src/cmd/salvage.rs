//! `dump --salvage`: pairs that can still be read of a damaged file go to standard output, losses to standard error.
//!
//! The library reads the file ([`splitpoint::salvage`]). This writes rows, names what is damaged, and reports at the
//! end how many pairs were recovered, how many were not, and where to put them.

use crate::failure::{Failure, Result};
use crate::format::{Format, Pair, write_row};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped};
use crate::output::Output;
use indicatif::{ProgressBar, ProgressStyle};
use splitpoint::{SalvageReport, Salvaged};
use std::ops::ControlFlow;
use std::path::Path;

/// Faults named on standard error; more are only counted.
const FAULTS_NAMED_MAX: u64 = 1000;

/// Writes the pairs of `file` that can be read; only those with intact checksums if `only_verified`.
pub fn run(file: &Path, format: Format, only_verified: bool) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    let mut salvaging = Salvaging {
        file,
        format,
        only_verified,
        out: Output::stdout(),
        row: Vec::new(),
        rows: 0,
        faults: 0,
        progress: progress(),
        failed: None,
    };
    let report = splitpoint::salvage(file, |found| {
        if let Err(failure) = salvaging.take(found) {
            salvaging.failed = Some(failure);
            return ControlFlow::Break(());
        }
        if interrupt.caught().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    salvaging.progress.finish_and_clear();
    if let Some(failure) = salvaging.failed.take() {
        return Err(failure);
    }
    let report = report?;
    salvaging.out.flush()?;
    if let (true, Some(signal)) = (report.stopped, interrupt.caught()) {
        let rows = count_of(salvaging.rows, "row");
        return Err(Failure::stopped(
            signal,
            format_args!("{rows} written, all complete; the file was not read to its end"),
        ));
    }
    salvaging.report(&report);
    if report.is_whole() { Ok(()) } else { Err(Failure::no_already_printed()) }
}

struct Salvaging<'f> {
    file: &'f Path,
    format: Format,
    only_verified: bool,
    out: Output,
    row: Vec<u8>,
    rows: u64,
    faults: u64,
    progress: ProgressBar,
    failed: Option<Failure>,
}

impl Salvaging<'_> {
    fn take(&mut self, found: Salvaged<'_>) -> Result<()> {
        match found {
            Salvaged::Pair { key, value, verified, .. } if verified || !self.only_verified => {
                self.row.clear();
                write_row(self.format, Pair { key, value }, &mut self.row)
                    .map_err(|what| Failure::no(format_args!("{}: {what}", self.file.display())))?;
                self.rows += 1;
                self.out.write(&self.row)?;
            }
            Salvaged::Fault(fault) => {
                self.faults += 1;
                if self.faults <= FAULTS_NAMED_MAX {
                    self.progress.suspend(|| eprintln!("{}: {fault}", self.file.display()));
                }
            }
            Salvaged::Progress { done, all, .. } => {
                self.progress.set_length(all);
                self.progress.set_position(done);
            }
            _ => {}
        }
        Ok(())
    }

    /// The last lines: totals, and what to do.
    fn report(&self, report: &SalvageReport) {
        let file = self.file.display();
        if let Some(more @ 1..) = self.faults.checked_sub(FAULTS_NAMED_MAX) {
            eprintln!("{file}: and {}", count_of(more, "more fault"));
        }
        let mut sum = format!("{} written", count_of(self.rows, "pair"));
        match report.unverified {
            0 => {}
            left_out if self.only_verified => {
                sum += &format!("; {} left out because of damaged checksums", grouped(left_out));
            }
            unverified => {
                let of_them = if unverified == self.rows {
                    "none of them verified".into()
                } else {
                    format!("{} of them not verified", grouped(unverified))
                };
                sum += &format!(", {of_them}, because checksums or the header are damaged");
            }
        }
        sum += &match report.missing() {
            Some(0) => ", none missing".to_owned(),
            Some(missing) => format!("; {} of {} lost", grouped(missing), count_of(missing + report.pairs(), "pair")),
            None => "; the original number is unknown".to_owned(),
        };
        let advice =
            if report.is_whole() { "" } else { ". `splitpoint load NEW.spt -` makes a new table from this output" };
        eprintln!("{file}: {sum}{advice}.");
    }
}

/// A progress bar if standard error is a terminal and the rows go elsewhere.
fn progress() -> ProgressBar {
    use std::io::IsTerminal;
    if std::io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {percent} %, {eta} to go");
    ProgressBar::new(1).with_style(style.expect("the template is fixed and a test uses it"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn progress_template_is_one() {
        super::progress();
    }
}
