//! Tables and histograms of `lab kernel`, as text and as JSON, with the paper's figures next to ours.

use super::Column;
use crate::number::grouped;
use serde_json::{Value, json};
use splitpoint_lab::kernel::figures::{Experiment, Histogram, PaperHistogram};
use splitpoint_lab::kernel::study::{Kernel, Measured, Shape};

/// The bucket sizes with a row of their own in a histogram; larger buckets share the last row.
const SIZES: usize = 16;

/// A percentage of the reference; `None` if that is 0.
pub fn relative(of: f64, reference: f64) -> Option<f64> {
    (reference > 0.0).then(|| 100.0 * of / reference)
}

pub fn percent(relative: Option<f64>) -> String {
    relative.map_or("-".to_owned(), |percent| format!("{percent:.1}"))
}

pub fn paper_relative(experiment: &Experiment, kernel: &Kernel, column: Option<usize>) -> Option<f64> {
    let column = column?;
    relative(kernel.paper.get(column)?.0, experiment.kernels[0].paper.get(column)?.0)
}

pub fn load_of(scripts: usize) -> String {
    if scripts == 0 { "trace".to_owned() } else { format!("{scripts} scripts") }
}

pub fn buckets_of(kernel: &Kernel) -> String {
    match kernel.variants[..] {
        [variant] => variant.buckets().map_or("trees".to_owned(), |buckets| buckets.to_string()),
        _ => "four".to_owned(),
    }
}

/// Objects compared for each lookup; a dash for none.
pub fn per(compared: u64, lookups: u64) -> String {
    if lookups == 0 || compared == 0 { "-".to_owned() } else { format!("{:.2}", compared as f64 / lookups as f64) }
}

/// The table as text, one part for each load.
pub fn table(experiment: &Experiment, columns: &[Column]) -> Vec<String> {
    let mut lines = vec![String::new(), format!("Table {}: {}", experiment.number, experiment.title)];
    for column in columns {
        lines.push(String::new());
        let lookups: u64 = column.measured[0].shapes.iter().map(|shape| shape.counts.lookups()).sum();
        lines.push(format!("{}, {} lookups", load_of(column.scripts), grouped(lookups)));
        lines.push(format!(
            "{:<18} {:>7} {:>6} {:>6} {:>11} {:>8} {:>6} {:>6} {:>5} {:>8} {:>7}",
            "kernel", "buckets", "paper", "ours", "lookups/s", "s", "hit", "miss", "hits", "objects", "largest"
        ));
        for (kernel, measured) in experiment.kernels.iter().zip(&column.measured) {
            lines.push(row(experiment, kernel, column, measured));
        }
    }
    lines.push(note(experiment).to_owned());
    lines
}

fn row(experiment: &Experiment, kernel: &Kernel, column: &Column, measured: &Measured) -> String {
    let paper = percent(paper_relative(experiment, kernel, column.paper));
    let ours = percent(relative(measured.lookups_per_second, column.measured[0].lookups_per_second));
    let sum = |of: fn(&Shape) -> u64| measured.shapes.iter().map(of).sum::<u64>();
    let (hits, misses) = (sum(|shape| shape.counts.hits), sum(|shape| shape.counts.misses));
    let rate = 100.0 * hits as f64 / (hits + misses).max(1) as f64;
    format!(
        "{:<18} {:>7} {paper:>6} {ours:>6} {:>11} {:>8} {:>6} {:>6} {rate:>4.0}% {:>8} {:>7}",
        kernel.name,
        buckets_of(kernel),
        grouped(measured.lookups_per_second.round() as u64),
        grouped(measured.deviation.round() as u64),
        per(sum(|shape| shape.counts.compared_in_hits), hits),
        per(sum(|shape| shape.counts.compared_in_misses), misses),
        grouped(sum(Shape::objects)),
        measured.shapes.iter().map(Shape::largest).max().unwrap_or(0),
    )
}

fn note(experiment: &Experiment) -> &'static str {
    match experiment.number {
        1 => {
            "paper, ours: percent of the reference, the paper's in scripts an hour. \
             hit, miss: objects compared in a lookup.\n\
             rbtree: one red-black tree for each inode; largest is that of a tree."
        }
        4 => "shrink: prunes more dentries when memory is short; the misses cost the other caches too.",
        _ => {
            "paper, ours: percent of the reference, the paper's in scripts an hour. \
             hit, miss: objects compared in a lookup."
        }
    }
}

/// The table as JSON.
pub fn table_json(experiment: &Experiment, columns: &[Column]) -> Value {
    let columns: Vec<_> = columns
        .iter()
        .map(|column| {
            let reference = column.measured[0].lookups_per_second;
            let kernels: Vec<_> = experiment
                .kernels
                .iter()
                .zip(&column.measured)
                .map(|(kernel, measured)| {
                    let paper = column.paper.and_then(|column| kernel.paper.get(column));
                    json!({
                        "kernel": kernel.name,
                        "lookups_per_second": measured.lookups_per_second,
                        "deviation": measured.deviation,
                        "elapsed_seconds": measured.elapsed.as_secs_f64(),
                        "relative_percent": relative(measured.lookups_per_second, reference),
                        "paper_scripts_per_hour": paper.map(|paper| paper.0),
                        "paper_deviation": paper.map(|paper| paper.1),
                        "paper_relative_percent": paper_relative(experiment, kernel, column.paper),
                        "caches": measured.shapes.iter().map(shape_json).collect::<Vec<_>>(),
                    })
                })
                .collect();
            json!({"scripts": column.scripts, "kernels": kernels})
        })
        .collect();
    json!({"table": experiment.number, "title": experiment.title, "loads": columns})
}

fn shape_json(shape: &Shape) -> Value {
    let histogram: Vec<_> =
        shape.sizes.iter().map(|(size, buckets)| json!({"size": size, "buckets": buckets})).collect();
    json!({
        "cache": shape.cache,
        "buckets": shape.buckets,
        "objects": shape.objects(),
        "largest_bucket": shape.largest(),
        "hits": shape.counts.hits,
        "misses": shape.counts.misses,
        "compared_in_hits": shape.counts.compared_in_hits,
        "compared_in_misses": shape.counts.compared_in_misses,
        "histogram": histogram,
    })
}

/// The histogram in the layout of the paper, ours and the paper's side by side.
pub fn histogram(histogram: &Histogram, scripts: usize, shape: &Shape) -> Vec<String> {
    let paper = &histogram.paper;
    let counts = &shape.counts;
    let lookups = counts.lookups().max(1);
    let compared = counts.compared_in_hits + counts.compared_in_misses;
    let fact = |name: &str, ours: String, paper: String| format!("  {name:<26} {ours:>10} {paper:>10}");
    let mut lines = vec![
        String::new(),
        format!("Histogram {}: {} ({})", histogram.number, histogram.title, load_of(scripts)),
        fact("", "ours".to_owned(), "paper".to_owned()),
        fact("lookups", grouped(counts.lookups()), grouped(paper.lookups)),
        fact("hits", format!("{}%", 100 * counts.hits / lookups), format!("{}%", paper.hit_rate)),
        fact("buckets", grouped(shape.buckets.unwrap_or(0)), grouped(paper.buckets.iter().sum())),
        fact("objects", grouped(shape.objects()), grouped(paper.objects)),
        fact("largest bucket", grouped(shape.largest() as u64), grouped(paper.largest)),
        fact("compared in 1,000 lookups", grouped(1000 * compared / lookups), grouped(paper.iterations)),
        format!(
            "  {:>5} {:>8} {:>8} {:>7}   {:>8} {:>8} {:>7}",
            "size", "buckets", "objects", "sum-pct", "paper", "objects", "sum-pct"
        ),
    ];
    let (mut ours, mut theirs) = (0, 0);
    for (size, buckets, objects, paper_buckets, paper_objects) in rows(shape, paper) {
        ours += objects;
        theirs += paper_objects;
        let name = if size < SIZES { size.to_string() } else { format!(">{}", SIZES - 1) };
        lines.push(format!(
            "  {name:>5} {buckets:>8} {objects:>8} {:>7}   {paper_buckets:>8} {paper_objects:>8} {:>7}",
            100 * ours / shape.objects().max(1),
            100 * theirs / paper.objects.max(1)
        ));
    }
    lines
}

/// For each size: our buckets and objects, the paper's buckets and objects.
fn rows(shape: &Shape, paper: &PaperHistogram) -> impl Iterator<Item = (usize, u64, u64, u64, u64)> {
    (0..=SIZES).map(move |size| {
        let of = |size: usize| shape.sizes.get(&size).copied().unwrap_or(0);
        let paper_buckets = paper.buckets[size];
        if size < SIZES {
            return (size, of(size), of(size) * size as u64, paper_buckets, paper_buckets * size as u64);
        }
        let buckets = shape.sizes.range(SIZES..).map(|(_, buckets)| buckets).sum();
        let small: u64 = (0..SIZES).map(|size| paper.buckets[size] * size as u64).sum();
        (size, buckets, shape.objects_above(SIZES - 1), paper_buckets, paper.objects.saturating_sub(small))
    })
}

/// The histogram as JSON.
pub fn histogram_json(histogram: &Histogram, scripts: usize, shape: &Shape) -> Value {
    let paper = &histogram.paper;
    let rows: Vec<_> = (0..=SIZES).map(|size| json!({"size": size, "buckets": paper.buckets[size]})).collect();
    json!({
        "number": histogram.number,
        "title": histogram.title,
        "scripts": scripts,
        "ours": shape_json(shape),
        "paper": {
            "lookups": paper.lookups,
            "hit_rate_percent": paper.hit_rate,
            "objects": paper.objects,
            "largest_bucket": paper.largest,
            "compared_in_1000_lookups": paper.iterations,
            "histogram": rows,
        },
    })
}
