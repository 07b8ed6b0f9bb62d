//! `stat`: what a table is made of, and its buckets as a picture; with --watch (`watch.rs`) what it does.

use super::{open_to_read, watch};
use crate::failure::Result;
use crate::histogram;
use crate::number::{count_of, grouped, size};
use crate::output::Output;
use serde_json::json;
use splitpoint::TableStat;
use std::path::PathBuf;
use std::time::Duration;

/// Show parameters, fill, overflow and a picture of the bucket sizes
///
/// Reads the whole table. The picture has a row for each number of pairs in a bucket (or a few numbers), how many
/// buckets hold so many, and the share that chance alone would give; a share far above it means a poor hash function.
///
/// With --watch a line each second, until Ctrl-C: of a table whose process publishes its counters (load --stats, or
/// TableOptions::publish_stats) what it does, a second; of any other what it is made of, whenever the file changes. gets, hit%
/// and what follows them up to ovf% are estimates from one lookup in 512.
#[derive(clap::Args)]
pub struct Stat {
    /// The table
    file: PathBuf,
    /// Write everything as one JSON object
    #[arg(long)]
    json: bool,
    /// Show figures again and again, each SECONDS; with --json an object a line
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = watch::parse_interval)]
    watch: Option<Duration>,
}

impl Stat {
    pub fn run(self) -> Result<()> {
        if let Some(every) = self.watch {
            return watch::watch(&self.file, every, self.json);
        }
        let stat = open_to_read(&self.file)?.stat()?;
        let mut out = Output::stdout();
        if self.json {
            return out.json(&as_json(&stat));
        }
        out.line(&self.file.display().to_string())?;
        for (name, text) in lines(&stat) {
            out.line(&format!("  {name:<10} {text}"))?;
        }
        out.line("")?;
        histogram::picture(&stat).iter().try_for_each(|line| out.line(line))
    }
}

/// Every field. `seed` is a string, as JSON numbers do not carry 64 bits everywhere.
fn as_json(stat: &TableStat) -> serde_json::Value {
    let histogram: Vec<_> =
        stat.histogram.iter().map(|(size, buckets)| json!({"size": size, "buckets": buckets})).collect();
    json!({
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
        "fill_percent": fill_percent(stat),
        "fill_target_percent": stat.fill_percent,
        "fill_factor": stat.fill_factor,
        "hash": stat.hash,
        "seed": stat.seed.to_string(),
        "histogram": histogram,
        "largest_bucket": stat.largest_bucket,
        "empty_buckets": stat.empty_buckets,
        "memory_bytes": stat.memory_bytes,
        "splits": stat.splits,
        "contractions": stat.contractions,
    })
}

/// What a file tells; splits, contractions and memory are a running process's, and so for --json only.
fn lines(stat: &TableStat) -> Vec<(&'static str, String)> {
    let per_bucket = stat.pairs as f64 / stat.buckets.max(1) as f64;
    let growth = stat.fill_factor.map_or(format!("at {:.0} %", stat.fill_percent), |keys| {
        format!("above {} a bucket", count_of(keys.into(), "key"))
    });
    vec![
        ("pairs", format!("{}, {} of keys and values", grouped(stat.pairs), size(stat.payload_bytes))),
        ("file", format!("{} ({}){}", grouped(stat.file_bytes), size(stat.file_bytes), times_payload(stat))),
        ("pages", format!("{} a bucket, in frames of {}", size(stat.page_bytes.into()), size(stat.frame_bytes.into()))),
        (
            "buckets",
            format!(
                "{}: {per_bucket:.1} pairs on average, {} the largest, {} empty",
                grouped(stat.buckets),
                grouped(stat.largest_bucket),
                grouped(stat.empty_buckets)
            ),
        ),
        ("fill", format!("{:.1} %, {} used; grows {growth}", fill_percent(stat), size(stat.bucket_bytes))),
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

/// What the table holds now, overflow included, in percent of its primary pages: the figure that makes it grow.
fn fill_percent(stat: &TableStat) -> f64 {
    let primary_bytes = (stat.buckets * u64::from(stat.page_bytes)).max(1);
    stat.bucket_bytes as f64 * 100.0 / primary_bytes as f64
}

/// What the file costs beside its contents, the figure to compare by.
fn times_payload(stat: &TableStat) -> String {
    if stat.payload_bytes == 0 || stat.file_bytes == 0 {
        return String::new();
    }
    format!(", {:.2} x the keys and values", stat.file_bytes as f64 / stat.payload_bytes as f64)
}
