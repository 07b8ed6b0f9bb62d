//! `lab schemes`: the access methods of the 1991 paper and ours as models, fed with the user's keys.
//!
//! The models and what they count are `splitpoint_lab::schemes`; `text.rs` is the table for a terminal,
//! `../page/schemes.rs` the plots.

pub mod text;

use super::keys::{KEYS_HELP, KeyArgs};
use super::page;
use crate::cmd::load::parse_hash;
use crate::failure::{Failure, Result};
use crate::format::tsv::quoted;
use crate::interrupt::Interrupt;
use crate::number::parse_size;
use crate::output::Output;
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

Each scheme has its own hash function of old unless --function gives one to
all: then schemes are compared, and not functions. dbm's own is a table of
numbers; sdbm's, its clone's, stands in for it.";

/// Feed your keys to dbm, sdbm, gdbm, hsearch, dynahash and our tables, as models
///
/// Shows for each what a lookup touches (pages on disk, entries in memory), what addressing costs in memory, how full its
/// pages are, splits, the longest insert in pages written or entries moved, and keys that it could not store, and why.
/// Counts, no times. --scheme with one name shows how it grows, and --html draws all.
#[derive(clap::Args)]
#[command(after_help = format!("{KEYS_HELP}\n\n{EXAMPLES}"))]
pub struct Schemes {
    #[command(flatten)]
    keys: KeyArgs,
    /// Which schemes, names with commas between them [default: all]
    #[arg(long, value_delimiter = ',', value_parser = parse_scheme, value_name = "NAMES")]
    scheme: Vec<SchemeKind>,
    /// The same hash function for all, by name [default: each its own]
    #[arg(long, value_parser = parse_hash, value_name = "NAME")]
    function: Option<HashKind>,
    /// Bytes of a page, for those on disk: 64 to 32K
    #[arg(long, default_value = "1K", value_parser = parse_size, value_name = "SIZE")]
    page_size: u64,
    /// Bytes of a value, or least and most: 16, or 10-2000
    #[arg(long, default_value = "16", value_parser = parse_range, value_name = "SIZES")]
    value_bytes: RangeInclusive<usize>,
    /// Entries declared to come, for hsearch [default: the number of keys]
    #[arg(long, value_name = "N")]
    nelem: Option<usize>,
    /// Pairs a bucket, for dynahash and the linear ones on disk [default: each its own]
    #[arg(long, value_name = "N")]
    fill_factor: Option<u64>,
    /// How many times to measure while the keys go in
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(2..=1000), value_name = "N")]
    points: u16,
    /// Write everything as one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page with plots over the number of keys
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What was fed, and what came of it.
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
        let kinds = if self.scheme.is_empty() { SchemeKind::ALL } else { &self.scheme[..] };
        for &kind in kinds {
            let points = self.points.into();
            let study = Study::run(kind, &distinct, &absent, &self.value_bytes, points, &options, &breaker);
            interrupt.stop_if_caught("nothing was written")?;
            studies.extend(study);
        }
        let report = Report {
            keys: self.keys.describe(),
            count: distinct.len(),
            duplicates: distinct.duplicates,
            value_bytes: self.value_bytes,
            options,
            studies,
        };
        if let Some(path) = &self.html {
            page::write(path, &page::schemes::of(&report))?;
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
        options.wrong().map_or(Ok(options), |wrong| Err(Failure::usage(wrong)))
    }
}

fn parse_scheme(name: &str) -> std::result::Result<SchemeKind, String> {
    SchemeKind::from_name(name).ok_or_else(|| {
        let names: Vec<_> = SchemeKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("no such scheme; there are {}", names.join(", "))
    })
}

/// Most bytes of a value: beyond it a chain of the smallest pages would be the model's whole work.
const VALUE_BYTES_MAX: usize = 1 << 30;

fn parse_range(text: &str) -> std::result::Result<RangeInclusive<usize>, String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let size = |text: &str| parse_size(text.trim()).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let (least, most) = (size(least)?, size(most)?);
    if least > most {
        return Err(format!("{least} is more than {most}"));
    }
    if most > VALUE_BYTES_MAX {
        return Err(format!("give values of {VALUE_BYTES_MAX} bytes or fewer"));
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
        "touched_per_hit": point.hit,
        "touched_per_hit_most": point.worst_hit,
        "touched_per_miss": point.miss,
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
