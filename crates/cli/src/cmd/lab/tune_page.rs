//! The page of `lab tune --html`: heat maps, caches and functions in one file that needs no other.
//!
//! The SVG is written here: a heat map is rectangles with a number in each, for which a plotting crate would have to be told
//! everything all the same.

use super::tune::{FIGURES, Figure, Told, advice, fill_name, headline, heat, least, rows};
use splitpoint_lab::tune::{FILL_FACTORS, PAGE_BYTES, Report};
use std::fmt::Write;

const CELL: (usize, usize) = (64, 26);
const LEFT: usize = 60;

pub fn page(told: &Told) -> String {
    let report = &told.report;
    let maps: String = FIGURES.into_iter().map(|figure| heat_map(report, figure)).collect();
    let advice = escaped(&advice(told).join("\n"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>splitpoint lab tune</title>\n\
         <style>body{{font:15px sans-serif;max-width:52em;margin:2em auto;padding:0 1em}}svg{{font:12px sans-serif}}\
         table{{border-collapse:collapse}}td,th{{padding:.15em .8em;text-align:right}}td:first-child{{text-align:left}}</style>\n\
         <h1>splitpoint lab tune</h1>\n<p>{}</p>\n{maps}{}{}<h2>Advice</h2>\n<pre>{advice}</pre>\n</html>\n",
        escaped(&headline(told)),
        caches(report),
        functions(report),
    )
}

fn heat_map(report: &Report, (name, figure, text): Figure) -> String {
    let least = least(report, figure);
    let (width, height) = (LEFT + CELL.0 * FILL_FACTORS.len(), CELL.1 * (PAGE_BYTES.len() + 1));
    let mut svg = format!(
        "<h2>{name}</h2>\n<p>Page size down, fill factor across; darker is worse.</p>\n\
         <svg width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{name}\">\n"
    );
    let mut label = |x: usize, y: usize, text: &str| {
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
    };
    for (column, &fill) in FILL_FACTORS.iter().enumerate() {
        label(LEFT + CELL.0 * column + CELL.0 / 2, CELL.1 - 9, &fill_name(fill));
    }
    for (row, bytes) in PAGE_BYTES.iter().enumerate() {
        label(LEFT / 2, CELL.1 * (row + 2) - 9, &bytes.to_string());
    }
    for (row, (_, cells)) in rows(report).enumerate() {
        for (column, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.rounds.is_empty()) {
            let (x, y) = (LEFT + CELL.0 * column, CELL.1 * (row + 1));
            let value = cell.median(figure);
            let heat = heat(value, least);
            // From near white to dark blue; the number stays readable on both.
            let (light, ink) = (95.0 - 65.0 * heat, if heat > 0.55 { "white" } else { "black" });
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"hsl(215 60% {light:.0}%)\"/>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{ink}\">{}</text>",
                CELL.0 - 1,
                CELL.1 - 1,
                x + CELL.0 / 2,
                y + CELL.1 - 9,
                text(value)
            );
        }
    }
    svg + "</svg>\n"
}

fn caches(report: &Report) -> String {
    let rows = report.caches.iter().map(|c| {
        format!(
            "<tr><td>{:.2}</td><td>{}</td><td>{:.0}</td><td>{:.3}</td></tr>\n",
            c.share, c.cache_bytes, c.get_ns, c.reads_per_get
        )
    });
    let rows: String = rows.collect();
    format!(
        "<h2>Cache</h2>\n<table><tr><th>part of the file</th><th>bytes</th><th>ns a lookup</th><th>frames read a lookup</th></tr>\n{rows}</table>\n"
    )
}

fn functions(report: &Report) -> String {
    let rows = report.functions.iter().map(|f| {
        let (get, load) = (f.table.median(|m| m.get_ns), f.table.median(|m| m.load_ns));
        let number = |n: f64| if n.is_nan() { "-".to_owned() } else { format!("{n:.0}") };
        format!(
            "<tr><td>{}</td><td>{:.1}</td><td>{:.2}{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            f.kind.name(),
            f.hash_ns,
            f.dispersion,
            if f.uneven { " uneven" } else { "" },
            f.largest_bucket,
            number(get),
            number(load)
        )
    });
    let rows: String = rows.collect();
    format!(
        "<h2>Hash functions</h2>\n<table><tr><th>function</th><th>ns a key</th><th>spread (1 is chance)</th><th>fullest bucket</th><th>get, ns</th><th>load, ns</th></tr>\n{rows}</table>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
