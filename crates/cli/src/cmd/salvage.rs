//! `dump --salvage`: writes the readable pairs of a damaged file to standard output, and losses to standard error.
//!
//! The library reads the file ([`splitpoint::salvage`]). This writes rows, names what is damaged, and reports at the
//! end how many pairs were recovered, how many were not, and where to put them.

use super::stopped;
use crate::failure::{Failure, Result};
use crate::format::{About, Format, Pair, Writer};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped};
use crate::output::{Output, say};
use crate::progress::Progress;
use crate::types::Types;
use splitpoint::{SalvageReport, Salvaged};
use std::ops::ControlFlow;
use std::path::Path;

/// Faults named on standard error; more are only counted.
const FAULTS_NAMED_MAX: u64 = 1000;

/// Writes the pairs of `file` that can be read; only those with intact checksums if `only_verified`.
pub fn run(file: &Path, format: Format, only_verified: bool) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    let about = About {
        file,
        file_bytes: file.metadata().map_or(0, |metadata| metadata.len()),
        text: (false, false),
        has_field_lifetimes: false,
    };
    let mut row = Vec::new();
    let writer = Writer::begin(format, &about, &mut row).map_err(Failure::no)?;
    let mut salvaging = Salvaging {
        file,
        format,
        writer,
        only_verified,
        out: Output::stdout(),
        row,
        rows: 0,
        faults: 0,
        progress: Progress::of_output("reading", "frame", Some(1)),
        types: String::new(),
        failed: None,
    };
    let report = splitpoint::salvage(file, |found| {
        if let Err(failure) = salvaging.take(found) {
            salvaging.failed = Some(failure);
            return ControlFlow::Break(());
        }
        if interrupt.caught().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    salvaging.progress.clear();
    if let Some(failure) = salvaging.failed.take() {
        return Failure::answer(salvaging.faults == 0, Err(failure));
    }
    let report = report?;
    let stopped_by = interrupt.caught().filter(|_| report.stopped);
    // With its end, partial output would look complete.
    let written = if stopped_by.is_some() { salvaging.flush() } else { salvaging.end() };
    if let Err(failure) = written {
        return Failure::answer(report.is_whole(), Err(failure));
    }
    if let Some(signal) = stopped_by {
        let written = stopped(salvaging.rows, format);
        return Err(Failure::stopped(signal, format_args!("{written}; the file was not read to its end")));
    }
    salvaging.report(&report);
    if report.is_whole() { Ok(()) } else { Err(Failure::no_already_printed()) }
}

/// Returns the command that makes a new table from the output.
fn advice(format: Format) -> String {
    let command = match format {
        Format::Sql => "`sqlite3 NEW.db` makes a database".into(),
        // Parquet is read from its end, so it needs a file.
        Format::Parquet => "`splitpoint load NEW.spt FILE --format parquet` makes a new table".into(),
        Format::Tsv => "`splitpoint load NEW.spt -` makes a new table".to_owned(),
        format => format!("`splitpoint load NEW.spt - --format {}` makes a new table", format.name()),
    };
    format!(". {command} from this output")
}

struct Salvaging<'f> {
    file: &'f Path,
    format: Format,
    writer: Writer,
    only_verified: bool,
    out: Output,
    row: Vec<u8>,
    rows: u64,
    faults: u64,
    progress: Progress,
    /// The options of a typed table.
    types: String,
    failed: Option<Failure>,
}

impl Salvaging<'_> {
    /// Writes the end of the format, if it has one.
    fn end(&mut self) -> Result<()> {
        self.writer.end(&mut self.row).map_err(Failure::no)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        self.out.write(&self.row)?;
        self.out.flush()
    }

    fn take(&mut self, found: Salvaged<'_>) -> Result<()> {
        match found {
            Salvaged::Pair { key, value, verified, .. } if verified || !self.only_verified => {
                self.writer
                    .pair(Pair { key, value }, &mut self.row)
                    .map_err(|what| Failure::no(format_args!("{}: {what}", self.file.display())))?;
                self.rows += 1;
                self.out.write(&self.row)?;
                self.row.clear();
            }
            Salvaged::Types(types) => types.clone_into(&mut self.types),
            Salvaged::Fault(fault) => {
                self.faults += 1;
                if self.faults <= FAULTS_NAMED_MAX {
                    self.progress.suspend(|| say(format_args!("{}: {fault}", self.file.display())));
                }
            }
            Salvaged::Progress { done, all, .. } => {
                self.progress.set_total(all);
                self.progress.at(done);
            }
            _ => {}
        }
        Ok(())
    }

    /// Prints the last lines: totals and advice.
    fn report(&self, report: &SalvageReport) {
        let file = self.file.display();
        if let Some(more @ 1..) = self.faults.checked_sub(FAULTS_NAMED_MAX) {
            say(format_args!("{file}: and {}", count_of(more, "more fault")));
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
            Some(0) if report.log_unread => ", none missing of the last checkpoint".to_owned(),
            Some(0) => ", none missing".to_owned(),
            Some(missing) => format!("; {} of {} lost", grouped(missing), count_of(missing + report.pairs(), "pair")),
            None => "; the original number is unknown".to_owned(),
        };
        if report.log_unread {
            sum += "; the changes in its log are left out: `splitpoint dump` without `--salvage` has them, if it can";
        }
        if !self.types.is_empty() {
            let format =
                if Types::of(&self.types).is_some_and(|types| types.are_text()) { "" } else { " of --format raw" };
            sum +=
                &format!("; the pairs are of the types `{0}`, which `load --types '{0}'`{format} records", self.types);
        }
        let advice = if report.is_whole() { String::new() } else { advice(self.format) };
        say(format_args!("{file}: {sum}{advice}."));
    }
}
