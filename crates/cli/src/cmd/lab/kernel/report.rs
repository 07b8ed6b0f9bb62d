//! The report of `lab kernel` as text and as JSON: the answer, then each table with the paper's figures next to ours
//! and a verdict, then the histograms.

use super::{Column, HistogramReport, Report, TableReport};
use crate::cmd::lab::wrap::wrapped;
use crate::number::grouped;
use serde_json::{Value, json};
use splitpoint_lab::kernel::figures::{Experiment, PAPER_TABLES, PaperHistogram};
use splitpoint_lab::kernel::study::{Charge, Kernel, Measured, Shape};
use splitpoint_lab::kernel::verdict::Verdict;

/// The bucket sizes with a row of their own in a histogram; larger buckets share the last row.
const SIZES: usize = 16;

/// Returns a percentage of the reference; `None` if that is 0.
pub fn relative(of: f64, reference: f64) -> Option<f64> {
    (reference > 0.0).then(|| 100.0 * of / reference)
}

pub fn percent(relative: Option<f64>) -> String {
    match relative {
        None => "-".to_owned(),
        Some(percent) if percent >= 9999.95 => grouped(percent.round() as u64),
        Some(percent) => format!("{percent:.1}"),
    }
}

/// The paper's figures of a kernel, in percent of its reference.
#[derive(Clone, Copy, Default)]
pub struct PaperPercent {
    pub mean: Option<f64>,
    pub deviation: Option<f64>,
    pub without_first: Option<f64>,
    pub maximum: Option<f64>,
}

pub fn paper_percent(experiment: &Experiment, kernel: &Kernel, load: Option<usize>) -> PaperPercent {
    let reference = &experiment.kernels[0];
    let figures = |kernel: &Kernel| load.and_then(|load| kernel.paper.get(load).copied());
    let (Some((mean, deviation)), Some((base, _))) = (figures(kernel), figures(reference)) else {
        return PaperPercent::default();
    };
    let ratio = |ours: Option<f64>, base: Option<f64>| ours.zip(base).and_then(|(ours, base)| relative(ours, base));
    let (more, base_more) = (kernel.paper_more, reference.paper_more);
    PaperPercent {
        mean: relative(mean, base),
        deviation: relative(deviation, base),
        without_first: ratio(more.without_first.map(|first| first.0), base_more.without_first.map(|first| first.0)),
        maximum: ratio(more.maximum, base_more.maximum),
    }
}

pub fn load_of(scripts: usize) -> String {
    if scripts == 0 { "trace".to_owned() } else { format!("{scripts} scripts") }
}

pub fn buckets_of(kernel: &Kernel) -> String {
    match kernel.variants[..] {
        [variant] => variant.buckets().map_or("-".to_owned(), |buckets| buckets.to_string()),
        _ => "four".to_owned(),
    }
}

/// Formats the objects compared for each lookup; a dash for none.
pub fn per(compared: u64, lookups: u64) -> String {
    if lookups == 0 { "-".to_owned() } else { format!("{:.2}", compared as f64 / lookups as f64) }
}

pub fn lines(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = report.about.iter().flat_map(|line| wrapped(line)).collect();
    lines.push(String::new());
    lines.extend(answer(report).iter().flat_map(|line| wrapped(line)));
    if !report.tables.is_empty() {
        lines.push(String::new());
        lines.extend(NOTES.iter().map(|note| (*note).to_owned()));
    }
    report.tables.iter().for_each(|of| lines.extend(table(of)));
    report.histograms.iter().for_each(|of| lines.extend(histogram(of)));
    lines
}

/// Returns the answer: one line for each table and histogram.
pub fn answer(report: &Report) -> Vec<String> {
    let tables = report
        .tables
        .iter()
        .map(|table| format!("Table {}, {}: {}", table.experiment.number, table.experiment.title, table_answer(table)));
    let histograms = report.histograms.iter().map(|histogram| {
        let (ours, paper) = (long_share(&histogram.shape), paper_long_share(&histogram.histogram.paper));
        format!(
            "Histogram {}, {}: {ours:.0} % of the objects in buckets of more than {}; paper {paper:.0} %.",
            histogram.histogram.number,
            histogram.histogram.title,
            SIZES - 1
        )
    });
    tables.chain(histograms).collect()
}

fn table_answer(table: &TableReport) -> String {
    let verdicts: Vec<_> = table.columns.iter().filter_map(|column| column.verdict.as_ref()).collect();
    let order = match &verdicts[..] {
        [] => String::new(),
        verdicts => {
            let sum = |of: fn(&Verdict) -> usize| verdicts.iter().map(|verdict| of(verdict)).sum::<usize>();
            let (separated, agreeing) = (sum(|verdict| verdict.separated), sum(|verdict| verdict.agreeing));
            let name = if agreeing == separated { "the paper's order" } else { "not the paper's order" };
            format!("{name}: {agreeing} of the {separated} pairs of kernels that the paper separates are in it. ")
        }
    };
    let Some(column) = table.columns.last() else { return order };
    let rate = |measured: &Measured| measured.lookups_per_second;
    let reference = column.measured.first().map_or(0.0, rate);
    let pairs = table.experiment.kernels.iter().zip(&column.measured);
    let fastest = pairs.max_by(|a, b| rate(a.1).total_cmp(&rate(b.1)));
    fastest.map_or(String::new(), |(kernel, measured)| {
        let times = rate(measured) / reference.max(1.0);
        format!("{order}Fastest: {} ({}), {times:.1} times the reference.", kernel.name, buckets_of(kernel))
    })
}

/// Returns the share of objects in long buckets, in percent.
pub fn long_share(shape: &Shape) -> f64 {
    100.0 * shape.objects_above(SIZES - 1) as f64 / shape.objects().max(1) as f64
}

pub fn paper_long_share(paper: &PaperHistogram) -> f64 {
    let short: u64 = (0..SIZES).map(|size| paper.buckets[size] * size as u64).sum();
    100.0 * paper.objects.saturating_sub(short) as f64 / paper.objects.max(1) as f64
}

/// Returns the table as text, one part for each load.
fn table(table: &TableReport) -> Vec<String> {
    let experiment = &table.experiment;
    let mut lines = vec![String::new(), format!("Table {}: {}", experiment.number, experiment.title)];
    for column in &table.columns {
        let sum = |of: fn(&Shape) -> u64| column.measured[0].shapes.iter().map(of).sum::<u64>();
        let (hits, misses) = (sum(|shape| shape.counts.successful), sum(|shape| shape.counts.unsuccessful));
        lines.push(String::new());
        lines.push(format!(
            "{}, {} lookups, {:.0} % successful",
            load_of(column.scripts),
            grouped(hits + misses),
            100.0 * hits as f64 / (hits + misses).max(1) as f64
        ));
        lines.extend(rates(experiment, column));
        lines.push(String::new());
        lines.extend(counts(experiment, column));
        lines.extend(charges(experiment, column).iter().flat_map(|line| wrapped(line)));
        lines.extend(wrapped(&verdict(experiment, column)));
    }
    lines
}

/// The meaning of the columns.
pub const NOTES: [&str; 4] = [
    "mean, dev, -first (without the first run), max: percent of the reference, in scripts an hour in",
    "the paper and in lookups a second here; time: of all runs, seconds.",
    "hash: nanoseconds to compute the function. hit, miss: objects compared in a successful and an",
    "unsuccessful lookup.",
];

fn rates(experiment: &Experiment, column: &Column) -> Vec<String> {
    let paper = experiment.number <= PAPER_TABLES;
    let names = format!("{:>8} {:>7} {:>8} {:>8} {:>7}", "mean", "dev", "-first", "max", "time");
    let mut lines = Vec::new();
    if paper {
        lines.push(format!("{:<26}|{:^43}|{:>21}", "", "paper", "here"));
        lines.push(format!("{:<18} {:>7}|{names} |{names}", "kernel", "buckets"));
    } else {
        lines.push(format!("{:<18} {:>7}|{names}", "kernel", "buckets"));
    }
    let reference = &column.measured[0];
    for (kernel, measured) in experiment.kernels.iter().zip(&column.measured) {
        let ours = |value: f64| percent(relative(value, reference.lookups_per_second));
        let first = measured.without_first.zip(reference.without_first);
        let here = cells([
            ours(measured.lookups_per_second),
            ours(measured.deviation),
            first.map_or("-".to_owned(), |((ours, _), (base, _))| percent(relative(ours, base))),
            percent(relative(measured.maximum, reference.maximum)),
            format!("{:.2}", measured.elapsed.as_secs_f64()),
        ]);
        let paper = if paper { format!("{} |", paper_cells(experiment, kernel, column.paper)) } else { String::new() };
        lines.push(format!("{:<18} {:>7}|{paper}{here}", kernel.name, buckets_of(kernel)));
    }
    lines
}

fn paper_cells(experiment: &Experiment, kernel: &Kernel, load: Option<usize>) -> String {
    let paper = paper_percent(experiment, kernel, load);
    let two = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    // The paper times all loads of Table 1 together.
    let time = kernel.paper_more.elapsed_seconds.filter(|_| paper.mean.is_some());
    let [mean, first, maximum] = [paper.mean, paper.without_first, paper.maximum].map(percent);
    cells([mean, two(paper.deviation), first, maximum, time.map_or("-".to_owned(), |time| time.to_string())])
}

fn cells([mean, deviation, first, maximum, time]: [String; 5]) -> String {
    format!("{mean:>8} {deviation:>7} {first:>8} {maximum:>8} {time:>7}")
}

fn counts(experiment: &Experiment, column: &Column) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<18} {:>7}|{:>13} {:>6} {:>8} {:>8} {:>9} {:>8} {:>5}",
        "kernel", "buckets", "lookups/s", "hash", "hit", "miss", "objects", "largest", "runs"
    )];
    for (kernel, measured) in experiment.kernels.iter().zip(&column.measured) {
        let sum = |of: fn(&Shape) -> u64| measured.shapes.iter().map(of).sum::<u64>();
        lines.push(format!(
            "{:<18} {:>7}|{:>13} {:>6} {:>8} {:>8} {:>9} {:>8} {:>5}",
            kernel.name,
            buckets_of(kernel),
            grouped(measured.lookups_per_second.round() as u64),
            hash_ns(measured).map_or("-".to_owned(), |ns| format!("{ns:.1}")),
            per(sum(|shape| shape.counts.compared_in_successful), sum(|shape| shape.counts.successful)),
            per(sum(|shape| shape.counts.compared_in_unsuccessful), sum(|shape| shape.counts.unsuccessful)),
            grouped(sum(Shape::objects)),
            measured.shapes.iter().map(Shape::largest).max().unwrap_or(0),
            measured.runs,
        ));
    }
    lines
}

/// Nanoseconds of a kernel's hash function; of four tables, the mean of their functions.
pub fn hash_ns(measured: &Measured) -> Option<f64> {
    let known: Vec<f64> = measured.hash_ns.iter().copied().flatten().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// Returns the costs of pruning in other caches.
pub fn charges(experiment: &Experiment, column: &Column) -> Vec<String> {
    let kernels = experiment.kernels.iter().zip(&column.measured).filter(|(_, measured)| !measured.charges.is_empty());
    kernels.map(|(kernel, measured)| charges_of(kernel, measured)).collect()
}

fn charges_of(kernel: &Kernel, measured: &Measured) -> String {
    let describe = |charge: &Charge| {
        let Charge { cache, lookups, unsuccessful, ns_per_lookup } = charge;
        format!("{lookups:+} in the {cache} cache at {ns_per_lookup:.0} ns ({unsuccessful:+} unsuccessful)")
    };
    let changed: Vec<_> = measured.charges.iter().filter(|charge| charge.lookups != 0).map(describe).collect();
    match changed.is_empty() {
        true => format!("{}: memory was not short, so nothing was pruned.", kernel.name),
        false => format!("{}: charged for lookups, {}; reads are not timed.", kernel.name, changed.join(", ")),
    }
}

/// Returns the verdict in words.
pub fn verdict(experiment: &Experiment, column: &Column) -> String {
    let Some(verdict) = &column.verdict else {
        return match experiment.number <= PAPER_TABLES {
            true => "Verdict: none, as the paper has no figures for this load.".to_owned(),
            false => "Verdict: none, as the paper does not measure this table.".to_owned(),
        };
    };
    let name = |index: usize| {
        let kernel = &experiment.kernels[index];
        format!("{} ({})", kernel.name, buckets_of(kernel))
    };
    let order = if verdict.same_order() { "the paper's order" } else { "not the paper's order" };
    let mut text = format!(
        "Verdict: {order}. Of {} pairs of kernels the paper's figures separate {} by more than chance: {} are in the \
         same order here, {} in the opposite one, {} undecided. Rank correlation {:.2}; a repetition of the paper's \
         own runs would have {:.2}.",
        verdict.pairs,
        verdict.separated,
        verdict.agreeing,
        verdict.contrary.len(),
        verdict.undecided.len(),
        verdict.rank_correlation,
        verdict.repeated_rank_correlation
    );
    for (faster, slower) in &verdict.contrary {
        text += &format!(" {} is faster than {} in the paper, slower here.", name(*faster), name(*slower));
    }
    text
}

/// Returns the histogram in the layout of the paper, ours and the paper's side by side.
fn histogram(report: &HistogramReport) -> Vec<String> {
    let HistogramReport { histogram, scripts, shape } = report;
    let paper = &histogram.paper;
    let counts = &shape.counts;
    let lookups = counts.lookups().max(1);
    let compared = counts.compared_in_successful + counts.compared_in_unsuccessful;
    let fact = |name: &str, ours: String, paper: String| format!("  {name:<34} {ours:>10} {paper:>10}");
    let none = || "-".to_owned();
    let mut lines = vec![
        String::new(),
        format!("Histogram {}: {} ({})", histogram.number, histogram.title, load_of(*scripts)),
        fact("", "here".to_owned(), "paper".to_owned()),
        fact("lookups", grouped(counts.lookups()), grouped(paper.lookups)),
        fact("successful", format!("{}%", 100 * counts.successful / lookups), format!("{}%", paper.hit_rate)),
        fact("buckets", grouped(shape.buckets.unwrap_or(0)), grouped(paper.buckets.iter().sum())),
        fact("objects", grouped(shape.objects()), grouped(paper.objects)),
        fact("largest bucket", grouped(shape.largest() as u64), grouped(paper.largest)),
        fact("compared in 1,000 lookups", grouped(1000 * compared / lookups), grouped(paper.iterations)),
        fact(
            "  in 1,000 successful ones",
            grouped(1000 * counts.compared_in_successful / counts.successful.max(1)),
            none(),
        ),
        fact(
            "  in 1,000 unsuccessful ones",
            grouped(1000 * counts.compared_in_unsuccessful / counts.unsuccessful.max(1)),
            none(),
        ),
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

/// Returns for each size: our buckets and objects, the paper's buckets and objects.
pub fn rows(shape: &Shape, paper: &PaperHistogram) -> impl Iterator<Item = (usize, u64, u64, u64, u64)> {
    (0..=SIZES).map(move |size| {
        let buckets_of = |size: usize| shape.sizes.get(&size).copied().unwrap_or(0);
        let paper_buckets = paper.buckets[size];
        if size < SIZES {
            return (
                size,
                buckets_of(size),
                buckets_of(size) * size as u64,
                paper_buckets,
                paper_buckets * size as u64,
            );
        }
        let buckets = shape.sizes.range(SIZES..).map(|(_, buckets)| buckets).sum();
        let small: u64 = (0..SIZES).map(|size| paper.buckets[size] * size as u64).sum();
        (size, buckets, shape.objects_above(SIZES - 1), paper_buckets, paper.objects.saturating_sub(small))
    })
}

/// Returns the report as JSON. `seed` is a string, because many JSON readers keep fewer than 64 bits.
pub fn as_json(report: &Report) -> Value {
    json!({
        "about": report.about,
        "answer": answer(report),
        "seed": report.seed.to_string(),
        "runs": report.runs,
        "tables": report.tables.iter().map(table_json).collect::<Vec<_>>(),
        "histograms": report.histograms.iter().map(histogram_json).collect::<Vec<_>>(),
    })
}

fn table_json(table: &TableReport) -> Value {
    let experiment = &table.experiment;
    let columns: Vec<_> = table.columns.iter().map(|column| column_json(experiment, column)).collect();
    json!({"table": experiment.number, "title": experiment.title, "loads": columns})
}

fn column_json(experiment: &Experiment, column: &Column) -> Value {
    let reference = column.measured[0].lookups_per_second;
    let kernels = experiment.kernels.iter().zip(&column.measured).map(|(kernel, measured)| {
        let paper = column.paper.and_then(|load| kernel.paper.get(load));
        let more = kernel.paper_more;
        let shapes = measured.shapes.iter().zip(&measured.hash_ns);
        json!({
            "kernel": kernel.name,
            "lookups_per_second": measured.lookups_per_second,
            "deviation": measured.deviation,
            "lookups_per_second_without_first": measured.without_first.map(|first| first.0),
            "deviation_without_first": measured.without_first.map(|first| first.1),
            "lookups_per_second_most": measured.maximum,
            "runs_measured": measured.runs,
            "elapsed_seconds": measured.elapsed.as_secs_f64(),
            "relative_percent": relative(measured.lookups_per_second, reference),
            "paper_scripts_per_hour": paper.map(|paper| paper.0),
            "paper_deviation": paper.map(|paper| paper.1),
            "paper_scripts_per_hour_without_first": more.without_first.map(|first| first.0),
            "paper_deviation_without_first": more.without_first.map(|first| first.1),
            "paper_scripts_per_hour_most": more.maximum,
            "paper_elapsed_seconds": more.elapsed_seconds,
            "paper_relative_percent": paper_percent(experiment, kernel, column.paper).mean,
            "charges": measured.charges.iter().map(charge_json).collect::<Vec<_>>(),
            "caches": shapes.map(|(shape, hash_ns)| shape_json(shape, Some(*hash_ns))).collect::<Vec<_>>(),
        })
    });
    json!({
        "scripts": column.scripts,
        "kernels": kernels.collect::<Vec<_>>(),
        "verdict": column.verdict.as_ref().map(|verdict| verdict_json(experiment, verdict)),
    })
}

fn verdict_json(experiment: &Experiment, verdict: &Verdict) -> Value {
    let pairs = |pairs: &[(usize, usize)]| {
        let name = |index: &usize| {
            let kernel = &experiment.kernels[*index];
            json!({"kernel": kernel.name, "buckets": kernel.variants[0].buckets()})
        };
        let each = pairs.iter().map(|(faster, slower)| json!({"faster": name(faster), "slower": name(slower)}));
        each.collect::<Vec<_>>()
    };
    json!({
        "same_order": verdict.same_order(),
        "rank_correlation": verdict.rank_correlation,
        "repeated_rank_correlation": verdict.repeated_rank_correlation,
        "pairs": verdict.pairs,
        "separated": verdict.separated,
        "agreeing": verdict.agreeing,
        "undecided": pairs(&verdict.undecided),
        "contrary": pairs(&verdict.contrary),
    })
}

fn charge_json(charge: &Charge) -> Value {
    json!({
        "cache": charge.cache,
        "lookups_added": charge.lookups,
        "unsuccessful_added": charge.unsuccessful,
        "ns_per_lookup": charge.ns_per_lookup,
    })
}

/// `hash_ns` is left out of a histogram, which measures no times.
fn shape_json(shape: &Shape, hash_ns: Option<Option<f64>>) -> Value {
    let histogram: Vec<_> =
        shape.sizes.iter().map(|(size, buckets)| json!({"size": size, "buckets": buckets})).collect();
    let mut json = json!({
        "cache": shape.cache,
        "buckets": shape.buckets,
        "objects": shape.objects(),
        "largest_bucket": shape.largest(),
        "successful": shape.counts.successful,
        "unsuccessful": shape.counts.unsuccessful,
        "compared_in_successful": shape.counts.compared_in_successful,
        "compared_in_unsuccessful": shape.counts.compared_in_unsuccessful,
        "histogram": histogram,
    });
    if let Some(hash_ns) = hash_ns {
        json["hash_ns"] = json!(hash_ns);
    }
    json
}

fn histogram_json(report: &HistogramReport) -> Value {
    let HistogramReport { histogram, scripts, shape } = report;
    let paper = &histogram.paper;
    let rows: Vec<_> = (0..=SIZES).map(|size| json!({"size": size, "buckets": paper.buckets[size]})).collect();
    json!({
        "number": histogram.number,
        "title": histogram.title,
        "scripts": scripts,
        "ours": shape_json(shape, None),
        "paper": {
            "lookups": paper.lookups,
            "successful_percent": paper.hit_rate,
            "objects": paper.objects,
            "largest_bucket": paper.largest,
            "compared_in_1000_lookups": paper.iterations,
            "histogram": rows,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use splitpoint_lab::kernel::figures::{experiments, histograms};
    use std::time::Duration;

    fn measured(lookups_per_second: f64) -> Measured {
        Measured {
            lookups_per_second,
            deviation: lookups_per_second / 100.0,
            runs_kept: 5,
            without_first: Some((lookups_per_second, 0.0)),
            maximum: lookups_per_second * 1.25,
            runs: 7,
            elapsed: Duration::from_millis(1500),
            hash_ns: vec![Some(1.25)],
            charges: Vec::new(),
            shapes: Vec::new(),
        }
    }

    fn table_5(rates: &[f64]) -> TableReport {
        let mut experiment = experiments().into_iter().find(|table| table.number == 5).unwrap();
        experiment.kernels.truncate(rates.len());
        let measured: Vec<_> = rates.iter().copied().map(measured).collect();
        let verdict = Verdict::of(&experiment.kernels, &measured, 0, 5);
        let column = Column { scripts: 128, paper: Some(0), measured, verdict };
        TableReport { experiment, columns: vec![column] }
    }

    #[test]
    fn columns_of_both_are_percentages_of_the_reference() {
        let table = table_5(&[100.0, 350.0]);
        let lines = rates(&table.experiment, &table.columns[0]);
        let row: Vec<_> = lines.last().unwrap().split_whitespace().collect();
        // 4361.3 and 11.15 of 4282.8; 12 min 36 s.
        assert_eq!(row[..9], ["12", "bit", "4096|", "101.8", "0.26", "-", "-", "756", "|"]);
        assert_eq!(row[9..], ["350.0", "3.5", "350.0", "350.0", "1.50"]);
    }

    #[test]
    fn a_verdict_names_what_differs() {
        let same = table_5(&[100.0, 350.0, 200.0, 400.0]);
        let text = verdict(&same.experiment, &same.columns[0]);
        assert!(text.starts_with("Verdict: the paper's order. Of 6 pairs"), "{text}");
        assert!(table_answer(&same).starts_with("the paper's order: 3 of the 3 pairs"), "{}", table_answer(&same));
        let other = table_5(&[300.0, 350.0, 200.0, 400.0]);
        let text = verdict(&other.experiment, &other.columns[0]);
        assert!(text.contains("not the paper's order") && text.contains("2 are in the same order"), "{text}");
        assert!(text.contains("mult (4096) is faster than reference (256) in the paper, slower here."), "{text}");
    }

    #[test]
    fn the_papers_shares_of_long_buckets_are_those_of_its_text() {
        let shares: Vec<_> = histograms().iter().map(|h| paper_long_share(&h.paper).round()).collect();
        // "42 % in buckets of 15 or fewer", "eighty-five percent in buckets with more than 15".
        assert_eq!(shares, [57.0, 85.0, 0.0, 0.0, 100.0]);
    }
}
