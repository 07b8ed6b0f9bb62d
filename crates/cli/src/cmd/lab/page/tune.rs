//! The page of `lab tune`: advice, heat maps, caches and functions.

use super::Page;
use super::plot::{HeatCell, HeatMap};
use crate::cmd::lab::tune::{
    FIGURES, Figure, Summary, fill_name, headline, heat, least, noise, reasons, rows, settings,
};
use crate::number::size;
use splitpoint_lab::tune::{FILL_FACTORS, PAGE_BYTES, Report, equation_one};

/// The page of a report.
pub fn of(summary: &Summary) -> String {
    let report = &summary.report;
    let mut page = Page::new("Settings for your pairs", &headline(summary));
    page.advice(&reasons(summary).join("\n"));
    settings(summary).iter().for_each(|line| page.code(line));
    page.heading(
        "Page size and fill factor",
        &format!("Darker is worse; the darkest is at least four times the best. Also: {}.", noise(report)),
    );
    let maps: Vec<_> = FIGURES.into_iter().map(|figure| heat_map(report, figure)).collect();
    page.heat_maps(&maps);
    page.heading(
        "Equation (1)",
        &format!(
            "({:.1} + 4) x fill factor >= page size gives the smallest fill factor in pairs. The default fill \
             factor, in bytes, satisfies it for any pairs.",
            summary.average_pair_bytes
        ),
    );
    page.table(&equation(summary.average_pair_bytes));
    page.heading("Cache", "The cost of a lookup with a cache smaller than the file.");
    page.table(&caches(report));
    page.heading(
        "Hash functions",
        "A dispersion of 1 is random. An uneven function is not advised; a very uneven one is not measured.",
    );
    page.table(&functions(report));
    page.finish()
}

fn heat_map(report: &Report, (name, figure, text): Figure) -> HeatMap {
    let least = least(report, figure);
    let cells = rows(report).map(|(page_bytes, cells)| {
        let cells = cells.iter().map(|cell| {
            let value = (!cell.rounds.is_empty()).then(|| cell.median(figure))?;
            Some(HeatCell { heat: heat(value, least), text: text(value) })
        });
        (page_bytes.to_string(), cells.collect())
    });
    HeatMap {
        title: name.to_owned(),
        x_title: "fill factor",
        y_title: "page size",
        columns: FILL_FACTORS.map(fill_name).to_vec(),
        rows: cells.collect(),
    }
}

fn equation(average_pair_bytes: f64) -> Vec<Vec<String>> {
    let row = |name: &str, of: fn(f64, u32) -> String| {
        let cells = PAGE_BYTES.map(|bytes| of(average_pair_bytes, bytes));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    let pairs = |average, bytes| equation_one(average, bytes).to_string();
    vec![row("page size", |_, bytes| bytes.to_string()), row("pairs a bucket", pairs)]
}

fn caches(report: &Report) -> Vec<Vec<String>> {
    let mut table =
        vec![["share of the file", "cache", "ns a lookup", "frames read a lookup"].map(str::to_owned).to_vec()];
    table.extend(report.caches.iter().map(|cached| {
        vec![
            format!("{:.2}", cached.share),
            size(cached.cache_bytes),
            format!("{:.0}", cached.get_ns),
            format!("{:.3}", cached.reads_per_get),
        ]
    }));
    table
}

fn functions(report: &Report) -> Vec<Vec<String>> {
    let names = ["function", "ns a hash", "dispersion", "largest bucket", "get, ns", "load, ns"];
    let mut table = vec![names.map(str::to_owned).to_vec()];
    table.extend(report.functions.iter().map(|function| {
        let (get, load) = (function.table.median(|m| m.get_ns), function.table.median(|m| m.load_ns));
        let number = |n: f64| if n.is_nan() { "-".to_owned() } else { format!("{n:.0}") };
        vec![
            function.kind.name().to_owned(),
            format!("{:.1}", function.hash_ns),
            format!("{:.2}{}", function.dispersion, if function.uneven { " uneven" } else { "" }),
            function.largest_bucket.to_string(),
            number(get),
            number(load),
        ]
    }));
    table
}
