//! `lab schemes`: inserts the user's keys into models of the access methods of the 1991 paper and of Splitpoint's
//! table.
//!
//! `splitpoint_lab::schemes` has the models; `text.rs` prints the table for a terminal, `html.rs` draws
//! the plots.

mod html;
pub mod text;

use super::keys::{KEYS_HELP, KeyArgs};
use super::page;
use crate::cmd::load::parse_hash;
use crate::escapes::quoted;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::parse_size;
use crate::output::Output;
use crate::progress::Progress;
use serde_json::{Value, json};
use splitpoint::HashKind;
use splitpoint_lab::schemes::{Distinct, Options, Point, SchemeKind, Study, absent_keys};
use std::ops::RangeInclusive;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint lab schemes words.txt
  splitpoint lab schemes words.txt --function xxh3 --html schemes.html
  splitpoint lab schemes --source paths /usr --scheme dbm,gdbm,splitpoint
  splitpoint lab schemes words.txt --scheme hsearch --nelem 50000

Each scheme uses its historical hash function. With --function all use one, so
that schemes are compared and not functions. dbm's function is a table of
constants; the model uses sdbm's instead.";

/// Compare dbm, sdbm, gdbm, hsearch, dynahash and Splitpoint's table on your own keys
///
/// Inserts the keys into a model of each scheme. Shows the pages (on disk) or entries (in memory) that a lookup
/// touches, the memory for addressing, the utilisation, splits, the costliest insert, and the keys that could not be
/// stored, with the reason. The models count and measure no times. With one --scheme, shows its figures as it grows;
/// --html draws plots.
#[derive(clap::Args)]
#[command(after_help = format!("{KEYS_HELP}\n\n{EXAMPLES}"))]
pub struct Schemes {
    #[command(flatten)]
    keys: KeyArgs,
    /// Schemes, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = parse_scheme, value_name = "NAMES")]
    scheme: Vec<SchemeKind>,
    /// One hash function for all schemes, by name [default: that of each scheme]
    #[arg(long, value_parser = parse_hash, value_name = "NAME")]
    function: Option<HashKind>,
    /// Page size of schemes on disk: 64 to 32K
    #[arg(long, default_value = "1K", value_parser = parse_size, value_name = "SIZE")]
    page_size: u64,
    /// Size of values, or a range: 16, or 10-2000
    #[arg(long, default_value = "16", value_parser = parse_range, value_name = "SIZES")]
    value_bytes: RangeInclusive<usize>,
    /// Declared number of entries, for hsearch [default: the number of keys]
    #[arg(long, value_name = "N")]
    nelem: Option<usize>,
    /// Fill factor in pairs, for dynahash, hash-1991 and splitpoint [default: that of each scheme]
    #[arg(long, value_name = "N")]
    fill_factor: Option<u64>,
    /// Number of measurements as keys are inserted
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(2..=1000), value_name = "N")]
    points: u16,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Also write a page of plots, as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The keys, the parameters and the results.
pub struct Report {
    pub keys: String,
    pub count: usize,
    pub duplicates: usize,
    pub value_bytes: RangeInclusive<usize>,
    pub options: Options,
    pub studies: Vec<Study>,
}

impl Schemes {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let keys = self.keys.open(&interrupt)?.all()?;
        let distinct = Distinct::of(&keys);
        let options = self.options(&distinct)?;
        let absent = absent_keys(&distinct);
        let breaker = interrupt.breaker();
        let mut studies = Vec::new();
        let progress = Progress::of_one_step("inserting");
        let kinds = if self.scheme.is_empty() { SchemeKind::ALL } else { &self.scheme[..] };
        for &kind in kinds {
            progress.step(kind.name());
            let points = self.points.into();
            let study = Study::run(kind, &distinct, &absent, &self.value_bytes, points, &options, &breaker);
            interrupt.stop_if_caught("nothing was written")?;
            studies.extend(study);
        }
        progress.clear();
        let permissions = self.keys.permissions();
        let report = Report {
            keys: self.keys.describe(),
            count: distinct.len(),
            duplicates: distinct.duplicates,
            value_bytes: self.value_bytes,
            options,
            studies,
        };
        if let Some(path) = &self.html {
            page::write(path, &html::of(&report), permissions)?;
        }
        let mut out = Output::stdout();
        if self.json {
            return out.json(&report.as_json());
        }
        text::lines(&report).iter().try_for_each(|line| out.line(line))?;
        self.html.map_or(Ok(()), |path| out.line(&format!("Plots: {}", path.display())))
    }

    fn options(&self, keys: &Distinct) -> Result<Options> {
        let value_bytes = self.value_bytes.start().midpoint(*self.value_bytes.end());
        let options = Options {
            page_bytes: usize::try_from(self.page_size).unwrap_or(usize::MAX),
            nelem: self.nelem.unwrap_or(keys.len()),
            fill_factor: self.fill_factor,
            average_pair_bytes: keys.average_bytes().saturating_add(value_bytes),
            function: self.function,
        };
        options.invalid().map_or(Ok(options), |invalid| Err(Failure::usage(invalid)))
    }
}

fn parse_scheme(name: &str) -> std::result::Result<SchemeKind, String> {
    SchemeKind::from_name(name).ok_or_else(|| {
        let names: Vec<_> = SchemeKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("no such scheme; use {}", names.join(", "))
    })
}

/// The largest value: with larger ones a model would spend its time on chains of small pages.
const VALUE_BYTES_MAX: usize = 1 << 30;

fn parse_range(text: &str) -> std::result::Result<RangeInclusive<usize>, String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let size = |text: &str| parse_size(text.trim()).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let (least, most) = (size(least)?, size(most)?);
    if least > most {
        return Err(format!("{least} is more than {most}"));
    }
    if most > VALUE_BYTES_MAX {
        return Err(format!("values have at most {VALUE_BYTES_MAX} bytes"));
    }
    Ok(least..=most)
}

impl Report {
    fn as_json(&self) -> Value {
        json!({
            "source": self.keys,
            "keys": self.count,
            "duplicates": self.duplicates,
            "page_bytes": self.options.page_bytes,
            "value_bytes_least": self.value_bytes.start(),
            "value_bytes_most": self.value_bytes.end(),
            "nelem": self.options.nelem,
            "fill_factor": self.options.fill_factor,
            "schemes": self.studies.iter().map(study_as_json).collect::<Vec<_>>(),
        })
    }
}

fn study_as_json(study: &Study) -> Value {
    let refusals = study.refusals.iter().map(|refusals| {
        json!({
            "reason": refusals.reason.name(),
            "message": refusals.reason.to_string(),
            "count": refusals.count,
            "example": quoted(&refusals.example),
            "example_value_bytes": refusals.value_bytes,
        })
    });
    json!({
        "scheme": study.kind.name(),
        "on_disk": study.kind.on_disk(),
        "function": study.function,
        "given_up_at": study.given_up.map(|given_up| given_up.keys),
        "refusals": refusals.collect::<Vec<_>>(),
        "points": study.points.iter().map(point_as_json).collect::<Vec<_>>(),
    })
}

fn point_as_json(point: &Point) -> Value {
    let figures = &point.figures;
    json!({
        "keys": point.keys,
        "refused": point.refused,
        "touched_per_successful": point.touched_per_successful,
        "touched_per_successful_most": point.touched_per_successful_most,
        "touched_per_unsuccessful": point.touched_per_unsuccessful,
        "pairs": figures.pairs,
        "pair_bytes": figures.pair_bytes,
        "store_bytes": figures.store_bytes,
        "file_bytes": figures.file_bytes,
        "addressing_bytes": figures.addressing_bytes,
        "utilisation_percent": figures.utilisation_percent(),
        "splits": figures.splits,
        "longest_pause": figures.longest_pause,
    })
}
