//! The page of `lab hash`.

use super::{keys_line, p_value, range};
use crate::cmd::lab::page::matrix::Matrix;
use crate::cmd::lab::page::plot::{Axis, Band, Line, Lines};
use crate::cmd::lab::page::table::{Cell, Kind, Mark, Table};
use crate::cmd::lab::page::{Page, Tile};
use crate::escapes;
use crate::number::grouped;
use splitpoint_lab::study::{Class, FunctionReport, Level, Report};

/// The largest bucket size with a point of its own.
const SIZES_MAX: u64 = 40;
/// Sizes of which the random model expects fewer buckets share the last point: chance alone moves them far.
const BUCKETS_MIN: f64 = 10.0;
/// The number of standard deviations that chance explains.
const SIGMAS: f64 = 3.0;
const CHANCE: &str = "by chance";

/// Returns the page of a report; `what` describes the keys.
pub fn of(what: &str, report: &Report) -> String {
    let mut page = Page::new("splitpoint lab hash", "Hash functions on your keys", &keys_line(what, report));
    answer(&mut page, report);
    page.table(&overview(report));
    page.heading(
        "Unsuccessful lookups against uniform random",
        &(equals(report)
            + "What a function costs compared with placing each key uniformly at random (Poisson): 1× costs the same, \
               above it the function crowds keys. From the table advised to smaller ones. Absent keys are like yours. \
               In the grey area chance explains the difference."),
    );
    page.lines(&by_load(report));
    page.heading(
        "Bucket sizes against uniform random",
        "The number of buckets of each size as a multiple of what uniform random placement has. A tail that rises to \
         the right means long chains. In the grey area chance explains the difference.",
    );
    page.lines(&histogram(report));
    if report.functions.iter().any(|function| function.speed.is_some()) {
        page.heading("Time of a hash by key length", "Keys are in the processor's cache and hashed in a loop.");
        page.lines(&speed(report));
    }
    if report.functions.iter().any(|function| function.avalanche.is_some()) {
        page.heading(
            "Avalanche",
            "Flipping one bit of a key (columns, first bit at the left) should flip each bit of the hash (rows, \
             lowest bit at the bottom) half of the time. A table uses the bits at the bottom to select a bucket.",
        );
        page.matrices(&matrices(report));
    }
    page.heading("Largest buckets", "Keys in the largest bucket of each function.");
    for function in &report.functions {
        let keys: Vec<_> = function.largest_keys.iter().map(|key| escapes::quoted(key)).collect();
        let largest = grouped(function.level().largest);
        page.details(&format!("{}: {largest}", function.function.name()), &keys);
    }
    page.finish()
}

/// Returns the plots as files: names and contents.
pub fn plots(report: &Report) -> Vec<(String, String)> {
    let mut plots =
        vec![("histogram.svg".to_owned(), histogram(report).svg()), ("load.svg".to_owned(), by_load(report).svg())];
    if report.functions.iter().any(|function| function.speed.is_some()) {
        plots.push(("speed.svg".to_owned(), speed(report).svg()));
    }
    let matrices =
        matrices(report).into_iter().map(|matrix| (format!("avalanche-{}.svg", matrix.title), matrix.file()));
    plots.extend(matrices);
    plots
}

fn answer(page: &mut Page, report: &Report) {
    let advised = report.functions.iter().find(|function| function.function.name() == report.advice.function);
    let buckets = grouped(report.advice.buckets);
    let verdict = match report.functions[0].class {
        Class::TooFew => "Too few keys to say which function spreads them evenly".to_owned(),
        _ => format!("Use {} with {buckets} buckets", report.advice.function),
    };
    let tiles = advised.map(|function| {
        let level = function.level();
        let random = |value: f64| format!("uniform random: {value:.3}");
        let mut tiles = vec![
            Tile { name: "Spread", value: function.class.name().to_owned(), note: String::new() },
            Tile {
                name: "Keys compared, found",
                value: format!("{:.3}", level.compared_successful),
                note: random(level.expected.compared_successful),
            },
            Tile {
                name: "Keys compared, absent",
                value: format!("{:.3}", level.compared_unsuccessful),
                note: random(level.expected.compared_unsuccessful),
            },
            Tile {
                name: "Largest bucket",
                value: grouped(level.largest),
                note: format!("uniform random: {}", grouped(level.expected.largest)),
            },
        ];
        if let Some(speed) = &function.speed {
            let note = format!("for one of these keys; {} in half of the rounds", range(speed));
            tiles.push(Tile { name: "Time of a hash", value: format!("{:.1} ns", speed.own_ns), note });
        }
        tiles
    });
    page.answer(&verdict, &tiles.unwrap_or_default(), std::slice::from_ref(&report.advice.text));
}

/// Returns a sentence if most functions cost the same.
fn equals(report: &Report) -> String {
    let far = |function: &&FunctionReport| (function.level().excess() - 1.0).abs();
    let (near, others): (Vec<_>, Vec<_>) = report.functions.iter().partition(|function| far(function) <= 0.02);
    if 2 * near.len() <= report.functions.len() || report.functions[0].class == Class::TooFew {
        return String::new();
    }
    let most = near.iter().map(far).fold(0.0, f64::max);
    let who = match others[..] {
        [] => "All functions".to_owned(),
        [other] => format!("All functions but {}", other.function.name()),
        _ => format!("{} of {} functions", near.len(), report.functions.len()),
    };
    format!(
        "{who} stay within {:.1} % of uniform random: choose among them by time, as far as it differs by more than \
         noise. ",
        100.0 * most
    )
}

fn mark(class: Class) -> Mark {
    match class {
        Class::TooFew => Mark::None,
        Class::Even | Class::AsRandom => Mark::Good,
        Class::Fair => Mark::Fair,
        Class::Poor => Mark::Poor,
        Class::Bad => Mark::Bad,
    }
}

fn overview(report: &Report) -> Table {
    let names = [
        "function",
        "spread",
        "successful",
        "unsuccessful",
        "unsuccessful, × random",
        "largest",
        "empty",
        "chi-square",
        "p",
        "avalanche",
        "ns",
        "range",
    ];
    let mut table = Table::new("The functions", &names);
    for function in &report.functions {
        let level = function.level();
        let kind = if function.function.name() == report.advice.function { Kind::Best } else { Kind::Plain };
        let cells = [
            function.function.name().into(),
            Cell::marked(function.class.name(), mark(function.class)),
            format!("{:.3}", level.compared_successful).into(),
            format!("{:.3}", level.compared_unsuccessful).into(),
            Cell::marked(&format!("{:.3}×", level.excess()), mark(function.class)),
            grouped(level.largest).into(),
            grouped(level.empty).into(),
            format!("{:.0}", level.chi_square).into(),
            p_value(level.p_value).into(),
            function.avalanche.as_ref().map_or("-".into(), |avalanche| format!("{:.3}", avalanche.mean_bias())).into(),
            function.speed.as_ref().map_or("-".into(), |speed| format!("{:.1}", speed.own_ns)).into(),
            function.speed.as_ref().map_or("-".into(), range).into(),
        ];
        table.row(kind, cells);
    }
    let level = report.functions[0].level();
    let avalanche = report.functions.iter().find_map(|function| function.avalanche.as_ref());
    let cells = [
        "uniform random".into(),
        "".into(),
        format!("{:.3}", level.expected.compared_successful).into(),
        format!("{:.3}", level.expected.compared_unsuccessful).into(),
        "1×".into(),
        grouped(level.expected.largest).into(),
        grouped(level.expected.empty.round() as u64).into(),
        format!("{:.0}", level.degrees).into(),
        "0 to 1".into(),
        avalanche.map_or("-".into(), |avalanche| format!("{:.3}", avalanche.expected_mean_bias())).into(),
        "".into(),
        "".into(),
    ];
    table.row(Kind::Model, cells);
    table
}

/// Each function's line; those that crowd keys badly are off at first, so that the others can be told apart.
fn against_random(report: &Report, points: impl Fn(&FunctionReport) -> Vec<(f64, f64)>) -> Vec<Line> {
    let is_bad = |function: &FunctionReport| function.class == Class::Bad;
    let mut lines = each_function(report, points);
    if !report.functions.iter().all(is_bad) {
        lines.iter_mut().zip(&report.functions).for_each(|(line, function)| line.is_off = is_bad(function));
    }
    lines
}

fn each_function(report: &Report, points: impl Fn(&FunctionReport) -> Vec<(f64, f64)>) -> Vec<Line> {
    let functions = report.functions.iter().enumerate();
    functions.map(|(color, function)| Line::new(function.function.name(), color, points(function))).collect()
}

/// Returns the sizes with a point of their own, and the number of buckets that uniform random placement has of the last
/// one and larger ones.
fn sizes(level: &Level) -> (u64, f64) {
    let beyond = |size: u64| level.buckets as f64 - (0..size).map(|size| level.expected_buckets(size)).sum::<f64>();
    let last = (0..SIZES_MAX).rev().find(|size| beyond(*size) >= BUCKETS_MIN).unwrap_or(1);
    (last, beyond(last).max(1e-9))
}

fn histogram(report: &Report) -> Lines {
    let first = report.functions[0].level();
    let (last, beyond) = sizes(first);
    let expected = |size: u64| if size == last { beyond } else { first.expected_buckets(size).max(1e-9) };
    let buckets = |level: &Level, size: u64| {
        let rows = level.histogram.iter().filter(|row| if size == last { row.size >= last } else { row.size == size });
        rows.map(|row| row.buckets as f64).sum::<f64>()
    };
    let shown: Vec<u64> = (0..=last).filter(|size| expected(*size) >= BUCKETS_MIN || *size == last).collect();
    let mut lines = against_random(report, |function| {
        shown.iter().map(|size| (*size as f64, buckets(function.level(), *size) / expected(*size))).collect()
    });
    lines.push(Line::expected("uniform random", shown.iter().map(|size| (*size as f64, 1.0)).collect()));
    let x =
        Axis { labels: vec![(last as f64, format!("≥ {last}"))], is_whole: true, ..Axis::linear("keys in a bucket") };
    let chance = |size: &u64| around_one(*size as f64, SIGMAS / expected(*size).sqrt());
    Lines {
        title: "Buckets of each size".to_owned(),
        x,
        y: Axis::ratio("× uniform random"),
        lines,
        band: Some(Band { name: CHANCE, points: shown.iter().map(chance).collect() }),
    }
}

fn around_one(x: f64, distance: f64) -> (f64, f64, f64) {
    (x, (1.0 - distance).max(1.0 / 16.0), 1.0 + distance)
}

fn by_load(report: &Report) -> Lines {
    let mut lines =
        against_random(report, |function| function.levels.iter().map(|level| (level.load(), level.excess())).collect());
    let levels = &report.functions[0].levels;
    lines.push(Line::expected("uniform random", levels.iter().map(|level| (level.load(), 1.0)).collect()));
    // For n keys placed at random in m buckets, the keys compared by an unsuccessful lookup have the standard deviation
    // sqrt(2 / m).
    let chance = |level: &Level| {
        let deviation = (2.0 / level.buckets as f64).sqrt() / (1.0 + level.expected.compared_unsuccessful);
        around_one(level.load(), SIGMAS * deviation)
    };
    Lines {
        title: "Cost of an unsuccessful lookup".to_owned(),
        x: Axis::log("keys a bucket"),
        y: Axis { span: Some(1.04), ..Axis::ratio("× uniform random") },
        lines,
        band: Some(Band { name: CHANCE, points: levels.iter().map(chance).collect() }),
    }
}

fn speed(report: &Report) -> Lines {
    let lines = each_function(report, |function| {
        let by_length = function.speed.iter().flat_map(|speed| &speed.by_length);
        by_length.map(|(bytes, ns)| (*bytes as f64, *ns)).collect()
    });
    Lines {
        title: "Time of a hash".to_owned(),
        x: Axis { unit: " B", ..Axis::log("key length") },
        y: Axis { unit: " ns", ..Axis::log("nanoseconds") },
        lines,
        band: None,
    }
}

fn matrices(report: &Report) -> Vec<Matrix> {
    let matrices = report.functions.iter().filter_map(|function| {
        let avalanche = function.avalanche.as_ref()?;
        Some(Matrix {
            title: function.function.name().to_owned(),
            below: format!(
                "mean bias {:.3} (random {:.3}), {:.1} % stuck",
                avalanche.mean_bias(),
                avalanche.expected_mean_bias(),
                100.0 * avalanche.stuck_share()
            ),
            columns: avalanche.flips.clone(),
        })
    });
    matrices.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use splitpoint_lab::study::Study;

    #[test]
    fn the_page_has_all_plots_and_names_and_is_self_contained() {
        let study = Study { speed: true, ..Study::default() };
        let report = study.run(&mut |take| {
            (0..3000u64).for_each(|key| take(&key.to_le_bytes()));
            Ok::<(), std::io::Error>(())
        });
        let page = of("<numbers>", &report.expect("keys in memory"));
        assert_eq!(page.matches("class=\"plot\"").count(), 3);
        assert_eq!(page.matches("class=\"matrix\"").count(), 11);
        assert!(page.contains("dynahash") && page.contains("&lt;numbers&gt;"));
        assert!(!page.contains("Nothing to draw"));
        for outside in ["<link", " src=", "url(", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
