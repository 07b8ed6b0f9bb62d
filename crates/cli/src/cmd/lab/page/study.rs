//! The page of `lab hash`.

use super::Page;
use super::plot::{Line, Lines, Matrix};
use crate::cmd::lab::hash::{keys_line, p_value};
use crate::format::tsv;
use crate::number::grouped;
use splitpoint_lab::study::{FunctionReport, Level, Report};

/// The largest bucket size in the plot.
const SIZES_MAX: u64 = 40;

/// The page of a report; `what` describes the keys.
pub fn of(what: &str, report: &Report) -> String {
    let mut page = Page::new("Hash functions on your keys", &keys_line(what, report));
    page.advice(&report.advice.text);
    page.table(&overview(report));
    page.heading(
        "Keys in a bucket",
        "The number of buckets of each size. The dashed line is the random model (Poisson): a function on it spreads \
         these keys like an ideal one. A tail to the right means long chains.",
    );
    page.lines(&histogram(report));
    page.heading(
        "Keys compared by load",
        "The cost of an unsuccessful lookup as the table gets smaller. Absent keys are like yours, so a function that \
         crowds your keys is above the dashed line.",
    );
    page.lines(&by_load(report));
    if report.functions.iter().any(|function| function.avalanche.is_some()) {
        page.heading(
            "Avalanche",
            "Flipping one bit of a key (columns, first bit at the left) should flip each bit of the hash (rows, \
             lowest bit at the bottom) half of the time: white. Blue never flips, red always flips. A table uses the \
             bits at the bottom to select a bucket.",
        );
        page.matrices(&matrices(report));
    }
    if report.functions.iter().any(|function| function.speed.is_some()) {
        page.heading("Time of a hash by key length", "Keys are in the processor's cache and hashed in a loop.");
        page.lines(&speed(report));
    }
    page.heading("Largest buckets", "Keys in the largest bucket of each function.");
    for function in &report.functions {
        let keys: Vec<_> = function.largest_keys.iter().map(|key| tsv::quoted(key)).collect();
        let largest = grouped(function.level().largest);
        page.details(&format!("{}: {largest}", function.function.name()), &keys);
    }
    page.finish()
}

/// The plots as files: names and contents.
pub fn plots(report: &Report) -> Vec<(String, String)> {
    let mut plots =
        vec![("histogram.svg".to_owned(), histogram(report).svg()), ("load.svg".to_owned(), by_load(report).svg())];
    if report.functions.iter().any(|function| function.speed.is_some()) {
        plots.push(("speed.svg".to_owned(), speed(report).svg()));
    }
    let matrices = matrices(report).into_iter().map(|matrix| (format!("avalanche-{}.svg", matrix.title), matrix.svg()));
    plots.extend(matrices);
    plots
}

fn overview(report: &Report) -> Vec<Vec<String>> {
    let names =
        ["function", "spread", "buckets", "empty", "largest", "hit", "miss", "chi-square", "p", "avalanche", "ns"];
    let mut table = vec![names.map(str::to_owned).to_vec()];
    for function in &report.functions {
        let level = function.level();
        table.push(vec![
            function.function.name().to_owned(),
            function.class.name().to_owned(),
            grouped(level.buckets),
            grouped(level.empty),
            grouped(level.largest),
            format!("{:.3}", level.probes_hit),
            format!("{:.3}", level.probes_miss),
            format!("{:.0}", level.chi_square),
            p_value(level.p_value),
            function.avalanche.as_ref().map_or("-".into(), |avalanche| format!("{:.3}", avalanche.mean_bias())),
            function.speed.as_ref().map_or("-".into(), |speed| format!("{:.1}", speed.own_ns)),
        ]);
    }
    let level = report.functions[0].level();
    table.push(vec![
        "(random)".to_owned(),
        String::new(),
        grouped(level.buckets),
        grouped(level.expected.empty.round() as u64),
        grouped(level.expected.largest),
        format!("{:.3}", level.expected.probes_hit),
        format!("{:.3}", level.expected.probes_miss),
        format!("{:.0}", level.degrees),
        "0 to 1".to_owned(),
        String::new(),
        String::new(),
    ]);
    table
}

fn each_function(report: &Report, points: impl Fn(&FunctionReport) -> Vec<(f64, f64)>) -> Vec<Line> {
    let functions = report.functions.iter().enumerate();
    functions.map(|(color, function)| Line::new(function.function.name(), color, points(function))).collect()
}

fn histogram(report: &Report) -> Lines<'static> {
    let first = report.functions[0].level();
    let most = (0..=SIZES_MAX).rev().find(|size| first.expected_buckets(*size) >= 0.5).unwrap_or(1) + 4;
    let of = |level: &Level, size: u64| {
        level.histogram.iter().find(|row| row.size == size).map_or(0.0, |row| row.buckets as f64)
    };
    let mut lines = each_function(report, |function| {
        (0..=most.min(SIZES_MAX)).map(|size| (size as f64, of(function.level(), size))).collect()
    });
    let expected = (0..=most).map(|size| (size as f64, first.expected_buckets(size)));
    lines.push(Line::expected("random", expected.collect()));
    Lines { title: None, x_title: "keys in a bucket", y_title: "buckets", x_is_log: false, y_is_log: false, lines }
}

fn by_load(report: &Report) -> Lines<'static> {
    let mut lines = each_function(report, |function| {
        function.levels.iter().map(|level| (level.load(), 1.0 + level.probes_miss)).collect()
    });
    let expected = report.functions[0].levels.iter().map(|level| (level.load(), 1.0 + level.expected.probes_miss));
    lines.push(Line::expected("random", expected.collect()));
    Lines {
        title: None,
        x_title: "keys a bucket",
        y_title: "1 + keys compared in a miss",
        x_is_log: true,
        y_is_log: true,
        lines,
    }
}

fn speed(report: &Report) -> Lines<'static> {
    let lines = each_function(report, |function| {
        let by_length = function.speed.iter().flat_map(|speed| &speed.by_length);
        by_length.map(|(bytes, ns)| (*bytes as f64, *ns)).collect()
    });
    Lines { title: None, x_title: "key bytes", y_title: "ns", x_is_log: true, y_is_log: true, lines }
}

fn matrices(report: &Report) -> Vec<Matrix> {
    let matrices = report.functions.iter().filter_map(|function| {
        let avalanche = function.avalanche.as_ref()?;
        Some(Matrix {
            title: function.function.name().to_owned(),
            below: format!(
                "mean {:.3} (random {:.3}), {:.1} % stuck",
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
        assert_eq!(page.matches("<svg").count(), 3 + 11);
        assert!(page.contains("dynahash") && page.contains("&lt;numbers&gt;"));
        assert!(!page.contains("Nothing to draw"));
        for outside in ["<script", "<link", "src=", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
