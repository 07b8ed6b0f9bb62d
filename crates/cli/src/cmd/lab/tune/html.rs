//! The page of `lab tune`: advice, heat maps, caches and functions.

use super::{FIGURES, Figure, Scale, Summary, fill_name, headline, heat, noise, reasons, rows, settings};
use crate::cmd::lab::page::plot::{Axis, Line, Lines};
use crate::cmd::lab::page::table::{Cell, Heat, HeatMap, Kind, Mark, SHADES, Table};
use crate::cmd::lab::page::{Page, Tile};
use crate::number::size;
use splitpoint_lab::tune::{FILL_FACTORS, PAGE_BYTES, Settings, equation_one};

/// Returns the page of a report.
pub fn of(summary: &Summary) -> String {
    let report = &summary.report;
    let mut page = Page::new("splitpoint lab tune", "Settings for your pairs", &headline(summary));
    answer(&mut page, summary);
    settings(summary).iter().for_each(|line| page.code(line));
    page.heading(
        "Page size and fill factor",
        &format!(
            "Page sizes down, fill factors across. A shade means the same in every map: how many times the best, how \
             many times the bytes of the pair, or percent. Also: {}.",
            noise(report)
        ),
    );
    let maps: Vec<_> = FIGURES.iter().map(|figure| heat_map(summary, figure)).collect();
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
    page.table(&caches(summary));
    if report.caches.len() > 2 {
        page.lines(&cache_plot(summary));
    }
    page.heading(
        "Hash functions",
        "A dispersion of 1 is random. An uneven function is not advised; a very uneven one is not measured.",
    );
    page.table(&functions(summary));
    page.finish()
}

fn answer(page: &mut Page, summary: &Summary) {
    let advice = summary.report.advice;
    let default = Settings::DEFAULT;
    let is_default = (advice.page_bytes, advice.fill_factor, advice.hash, advice.presized)
        == (default.page_bytes, default.fill_factor, default.hash, default.presized);
    let verdict = match is_default {
        true => "Keep the defaults: nothing measured is better by more than the noise".to_owned(),
        false => "Other settings than the defaults suit these pairs better".to_owned(),
    };
    let tile = |name, value: String, default: String| {
        let note = if value == default { "the default".to_owned() } else { format!("default: {default}") };
        Tile { name, value, note }
    };
    let presized = |presized: bool| if presized { "given" } else { "not given" }.to_owned();
    let tiles = [
        tile("Page size", advice.page_bytes.to_string(), default.page_bytes.to_string()),
        tile("Fill factor", fill_name(advice.fill_factor), fill_name(default.fill_factor)),
        tile("Hash function", advice.hash.name().to_owned(), default.hash.name().to_owned()),
        tile("Expected length", presized(advice.presized), presized(default.presized)),
    ];
    page.answer(&verdict, &tiles, &reasons(summary));
}

fn heat_map(summary: &Summary, figure: &Figure) -> HeatMap {
    let shade = |heat: f64| (heat * SHADES as f64).round() as usize;
    let cells = rows(&summary.report).map(|(page_bytes, cells)| {
        let cells = cells.iter().map(|cell| {
            let value = (!cell.rounds.is_empty()).then(|| cell.median(figure.of))?;
            Some(Heat { shade: shade(heat(summary, figure, value)), text: (figure.text)(value) })
        });
        (page_bytes.to_string(), cells.collect())
    });
    let multiples = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0];
    let unit = figure.scale.unit(summary, figure);
    let of_multiples = |what: &str| {
        let step = |factor: &f64| {
            let more = if *factor == 8.0 { " and more" } else { "" };
            let value = (figure.text)(factor * unit);
            let text = if *factor == 1.0 { format!("{what}: {value}") } else { format!("{factor}×: {value}{more}") };
            (shade(heat(summary, figure, factor * unit)), text)
        };
        multiples.iter().map(step).collect()
    };
    let legend = match figure.scale {
        Scale::Best => of_multiples("best"),
        Scale::Pair => of_multiples("the pair itself"),
        Scale::Percent => [0.0, 10.0, 25.0, 50.0, 75.0, 100.0]
            .iter()
            .map(|percent| (shade(heat(summary, figure, *percent)), format!("{percent} %")))
            .collect(),
    };
    HeatMap {
        title: figure.name.to_owned(),
        corner: "page \\ fill",
        columns: FILL_FACTORS.map(fill_name).to_vec(),
        rows: cells.collect(),
        legend,
    }
}

fn equation(average_pair_bytes: f64) -> Table {
    let names = PAGE_BYTES.map(|bytes| bytes.to_string());
    let names: Vec<_> = std::iter::once("page size").chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new("Equation (1)", &names);
    let cells = PAGE_BYTES.map(|bytes| Cell::from(equation_one(average_pair_bytes, bytes).to_string()));
    table.row(Kind::Plain, std::iter::once("pairs a bucket".into()).chain(cells));
    table
}

fn caches(summary: &Summary) -> Table {
    let names = ["share of the file", "cache", "ns a lookup", "frames read a lookup"];
    let mut table = Table::new("Caches", &names);
    for cached in &summary.report.caches {
        let cells = [
            format!("{:.2}", cached.share),
            size(cached.cache_bytes),
            format!("{:.0}", cached.get_ns),
            format!("{:.3}", cached.reads_per_get),
        ];
        table.row(Kind::Plain, cells.iter().map(Cell::from));
    }
    table
}

fn cache_plot(summary: &Summary) -> Lines {
    let points = summary.report.caches.iter().map(|cached| (100.0 * cached.share, cached.get_ns)).collect();
    Lines {
        title: "Time of a lookup".to_owned(),
        x: Axis { unit: " %", ..Axis::log("cache, of the file") },
        y: Axis { unit: " ns", ..Axis::linear("nanoseconds") },
        lines: vec![Line::new("get", 0, points)],
        band: None,
    }
}

fn functions(summary: &Summary) -> Table {
    let names = ["function", "ns a hash", "dispersion", "largest bucket", "get, ns", "load, ns"];
    let mut table = Table::new("Hash functions", &names);
    for function in &summary.report.functions {
        let (get, load) = (function.table.median(|m| m.get_ns), function.table.median(|m| m.load_ns));
        let number = |n: f64| if n.is_nan() { "-".to_owned() } else { format!("{n:.0}") };
        let (more, mark) = if function.uneven { (" uneven", Mark::Bad) } else { ("", Mark::None) };
        let kind = if function.kind == summary.report.advice.hash { Kind::Best } else { Kind::Plain };
        let cells = [
            function.kind.name().into(),
            format!("{:.1}", function.hash_ns).into(),
            Cell::marked(&format!("{:.2}{more}", function.dispersion), mark),
            function.largest_bucket.to_string().into(),
            number(get).into(),
            number(load).into(),
        ];
        table.row(kind, cells);
    }
    table
}
