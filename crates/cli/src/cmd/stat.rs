//! `stat`: prints the properties of a table and a histogram of its buckets, or the properties of a dictionary
//! (`dictionary_stat.rs`); with --watch (`watch.rs`) the activity of a table.

use super::store::Store;
use super::{dictionary_stat, watch};
use crate::failure::{Failure, Result};
use crate::histogram;
use crate::interrupt;
use crate::number::{count_of, grouped, parse_interval, size};
use crate::open::{ReadArgs, StoreKind, stored};
use crate::output::Output;
use serde_json::json;
use splitpoint::TableSurvey;
use std::path::PathBuf;
use std::time::Duration;

/// Show the properties of a table or dictionary
///
/// Of a dictionary: sizes, the index and its bits per key; reads only the index. Of a table: parameters, fill, overflow
/// and a histogram of the bucket sizes; reads the whole table. The histogram has a row for each bucket size in pairs
/// (or a range), with the number of buckets of that size and the share expected of a random hash function; a share far
/// above it means a poor hash function.
///
/// With --watch, prints a line each second until Ctrl-C. If a process publishes the table's counters (load --stats, or
/// TableOptions::publish_counters), it shows rates per second; otherwise the table's contents whenever the file
/// changes.
/// gets, hit% and the columns after them up to ovf% are estimates from one lookup in 512.
#[derive(clap::Args)]
pub struct Stat {
    /// The table or dictionary
    file: PathBuf,
    /// Write everything as one JSON object
    #[arg(long)]
    json: bool,
    /// Of a table: repeat every SECONDS; with --json one object per line
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = parse_interval
    )]
    watch: Option<Duration>,
    #[command(flatten)]
    reading: ReadArgs,
}

impl Stat {
    pub fn run(self) -> Result<()> {
        if let Some(every) = self.watch {
            if stored(&self.file).is_ok_and(|kind| kind == Some(StoreKind::Dictionary)) {
                let file = self.file.display();
                return Err(Failure::usage(format_args!(
                    "{file}: is a dictionary, which does not change; --watch is for tables"
                )));
            }
            return watch::watch(&self.file, self.reading, every, self.json);
        }
        // One long call that only reads: a signal may end the process at any point.
        interrupt::exit_on_signal("nothing was written")?;
        let (stat, types) = match Store::open(&self.file, self.reading)? {
            Store::Dictionary(dictionary) => return dictionary_stat::print(&self.file, &dictionary, self.json),
            Store::Table(table) => (table.survey()?, table.types()),
        };
        let mut out = Output::stdout();
        if self.json {
            return out.json(&as_json(&stat, &types));
        }
        out.line(&self.file.display().to_string())?;
        for (name, text) in lines(&stat) {
            out.line(&format!("  {name:<10} {text}"))?;
        }
        if !types.is_empty() {
            out.line(&format!("  {:<10} {types}", "types"))?;
        }
        out.line("")?;
        histogram::picture(&stat).iter().try_for_each(|line| out.line(line))
    }
}

/// Returns every field. `seed` is a string, because JSON numbers do not carry 64 bits everywhere.
fn as_json(stat: &TableSurvey, types: &str) -> serde_json::Value {
    let histogram: Vec<_> =
        stat.histogram.iter().map(|(size, buckets)| json!({"size": size, "buckets": buckets})).collect();
    json!({
        "kind": "table",
        "pairs": stat.pairs,
        "buckets": stat.buckets,
        "page_bytes": stat.page_bytes,
        "frame_bytes": stat.frame_bytes,
        "file_bytes": stat.file_bytes,
        "payload_bytes": stat.payload_bytes,
        "bucket_bytes": stat.bucket_bytes,
        "overflow_pages": stat.overflow_pages,
        "overflow_bytes": stat.overflow_bytes,
        "overflow_pairs": stat.overflow_pairs,
        "extents": stat.extents,
        "extent_bytes": stat.extent_bytes,
        "free_bytes": stat.free_bytes,
        "fill_percent": stat.fill_percent,
        "fill_target_percent": stat.fill_target_percent,
        "fill_factor": stat.fill_factor,
        "hash": stat.hash,
        "seed": stat.seed.to_string(),
        "types": Some(types).filter(|types| !types.is_empty()),
        "histogram": histogram,
        "largest_bucket": stat.largest_bucket,
        "empty_buckets": stat.empty_buckets,
        "memory_bytes": stat.memory_bytes,
        "splits": stat.splits,
        "merges": stat.merges,
    })
}

/// Properties of the file. Splits, merges and memory belong to a running process, and are in --json only.
fn lines(stat: &TableSurvey) -> Vec<(&'static str, String)> {
    let per_bucket = stat.pairs as f64 / stat.buckets.max(1) as f64;
    let growth = stat.fill_factor.map_or(format!("at {:.0} %", stat.fill_target_percent), |keys| {
        format!("above {} per bucket", count_of(keys.into(), "key"))
    });
    vec![
        ("pairs", format!("{}, {} of keys and values", grouped(stat.pairs), size(stat.payload_bytes))),
        ("file", format!("{} ({}){}", grouped(stat.file_bytes), size(stat.file_bytes), times_payload(stat))),
        (
            "pages",
            format!("{} per bucket, in frames of {}", size(stat.page_bytes.into()), size(stat.frame_bytes.into())),
        ),
        (
            "buckets",
            format!(
                "{}: {per_bucket:.1} pairs on average, {} the largest, {} empty",
                grouped(stat.buckets),
                grouped(stat.largest_bucket),
                grouped(stat.empty_buckets)
            ),
        ),
        ("fill", format!("{:.1} %, {} used; grows {growth}", stat.fill_percent, size(stat.bucket_bytes))),
        (
            "overflow",
            format!(
                "{} in {}, {}",
                count_of(stat.overflow_pairs, "pair"),
                count_of(stat.overflow_pages, "page"),
                size(stat.overflow_bytes)
            ),
        ),
        ("extents", format!("{}, {}", count_of(stat.extents, "large value"), size(stat.extent_bytes))),
        ("free", size(stat.free_bytes)),
        ("hash", format!("{}, seed {}", stat.hash, stat.seed)),
    ]
}

/// Formats the file size as a multiple of its contents.
fn times_payload(stat: &TableSurvey) -> String {
    if stat.payload_bytes == 0 || stat.file_bytes == 0 {
        return String::new();
    }
    format!(", {:.2} x the keys and values", stat.file_bytes as f64 / stat.payload_bytes as f64)
}
