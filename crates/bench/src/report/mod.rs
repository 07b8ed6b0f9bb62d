//! Tables and plots from results: Markdown between markers, and a page of HTML.
//!
//! A document has `<!-- table: NAME FORM -->` ... `<!-- end -->`. The text between the markers is replaced by the
//! table of that name, from the results of that form (`full` by default). Without results the text between them
//! is removed, so no table survives the figures it was made from. The page (`page.rs`) has all tables of a form and
//! the plots.
//!
//! The report on the seed documents (`seeds.rs`) is `results/report.md` and, not tracked, `results/report.html`.
//! `claims.rs` makes the table of README.md.
//!
//! Not here: which columns a table has (`[[table]]` in `workloads/*.toml`).

mod claims;
pub mod measured;
mod outside;
#[cfg(feature = "report")]
mod page;
#[cfg(feature = "report")]
mod plot;
mod seeds;
mod shown;

use crate::engine::Outcome;
use crate::results::{Figure, Results};
use crate::workload::{Column, Rows, Table, Workload};
use splitpoint::OutputFile;
use std::io::Write;
use std::path::Path;

/// Documents with tables, by their path in the repository.
const DOCUMENTS: &[&str] = &["README.md", "docs/benchmarks.md", "docs/scale.md", "results/amd.md", "results/intel.md"];
/// The form of a table that names none.
const FORM: &str = "full";

/// Writes the tables of all documents, and the page of `form`.
pub fn write(results: &Path, form: &str) -> Outcome {
    let workloads = Workload::all()?;
    for document in DOCUMENTS {
        let path = crate::workload::repository_file(document);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let written = with_tables(&text, |name, form| table(&workloads, results, name, form))
            .map_err(|e| format!("{document}: {e}"))?;
        if written != text {
            OutputFile::write(&path, written)?;
        }
    }
    let report = seeds::Report::read()?;
    let facts = seeds::facts(results)?;
    if !facts.is_empty() {
        let sections = report.sections(&workloads, results)?;
        OutputFile::write(results.join("report.md"), seeds::report_markdown(&sections, &facts))?;
    }
    page_of(&workloads, results, form)
}

#[cfg(feature = "report")]
fn page_of(workloads: &[Workload], results: &Path, form: &str) -> Outcome {
    let path = results.join(format!("{form}.html"));
    let page = if form == seeds::FORM {
        let (report, facts) = (seeds::Report::read()?, seeds::facts(results)?);
        page::of_seeds(workloads, results, &report.sections(workloads, results)?, &facts)?
    } else {
        page::page(workloads, &results.join(form), form)?
    };
    OutputFile::write(&path, page)?;
    let _ = writeln!(std::io::stderr(), "wrote {}", path.display());
    Ok(())
}

#[cfg(not(feature = "report"))]
fn page_of(_: &[Workload], _: &Path, _: &str) -> Outcome {
    let _ = writeln!(std::io::stderr(), "no page of plots: this program was built without the feature `report`");
    Ok(())
}

/// Returns the text, with everything between two markers replaced by the table of that name and form, or removed if no
/// table has them.
fn with_tables(text: &str, mut table: impl FnMut(&str, &str) -> Outcome<Option<String>>) -> Outcome<String> {
    const START: &str = "<!-- table: ";
    const END: &str = "<!-- end -->";
    let (mut written, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(START) {
        let head_len = rest[at..].find("-->").ok_or("a marker that is not closed")? + at + "-->".len();
        let words = rest[at + START.len()..head_len].trim_end_matches("-->").trim();
        let body_len = rest[head_len..].find(END).ok_or_else(|| format!("table {words} has no {END}"))?;
        if rest[head_len..head_len + body_len].contains(START) {
            return Err(format!("table {words} has no {END} before the next").into());
        }
        let (name, form) = words.split_once(' ').unwrap_or((words, FORM));
        written.push_str(&rest[..head_len]);
        match table(name, form)? {
            Some(made) => written.push_str(&format!("\n\n{}\n\n", made.trim())),
            None => {
                let _ = writeln!(std::io::stderr(), "table {name}: no results of form {form}, so no table");
                written.push('\n');
            }
        }
        rest = &rest[head_len + body_len..];
    }
    written.push_str(rest);
    Ok(written)
}

/// Returns the table of that name in Markdown, with a line on how it was measured; `None` without results.
fn table(workloads: &[Workload], results: &Path, name: &str, form: &str) -> Outcome<Option<String>> {
    if name == "claims" {
        return claims::table(workloads, results);
    }
    let found = workloads.iter().find_map(|w| w.table.iter().find(|table| table.name == name).map(|table| (w, table)));
    let (workload, table) = found.ok_or_else(|| format!("no workload has a table {name}"))?;
    let path = results.join(form).join(format!("{}.csv", workload.name));
    if !path.exists() {
        return Ok(None);
    }
    let results = Results::read(&path)?;
    let rows = rows(table, &results, form);
    Ok((!rows.is_empty()).then(|| format!("{}\n{}", markdown(table, &rows), how(table, &results, form))))
}

/// A line of a table.
struct Row {
    name: String,
    is_ours: bool,
    /// One per column.
    values: Vec<Option<f64>>,
}

/// Returns the figures that a table of that form may show.
fn figures<'a>(table: &'a Table, results: &'a Results, form: &str) -> impl Iterator<Item = &'a Figure> {
    let wanted = table.variant_in.get(form).or(table.variant.as_ref()).map(String::as_str);
    results.figures.iter().filter(move |figure| match table.rows {
        Rows::Engines | Rows::Cases => wanted.is_none_or(|variant| variant == figure.variant),
        Rows::Variants => {
            table.engines.iter().any(|e| *e == format!("{}:{}", figure.engine, figure.setting))
                && !table.without_variants.contains(&figure.variant)
        }
    })
}

/// The lines of a table of that form, the best by its first column first. A variant that was not run has no lines.
fn rows(table: &Table, results: &Results, form: &str) -> Vec<Row> {
    let mut cases: Vec<(&str, &str, &str)> = Vec::new();
    for figure in figures(table, results, form) {
        let case = (&figure.variant[..], &figure.engine[..], &figure.setting[..]);
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let row = |&(variant, engine, setting): &(&str, &str, &str)| Row {
        name: match table.rows {
            Rows::Engines if setting == "default" => engine.to_owned(),
            Rows::Engines | Rows::Cases => format!("{engine}, {}", setting.replace(',', ", ")),
            Rows::Variants if table.engines.len() == 1 => variant.to_owned(),
            Rows::Variants => format!("{variant}, {engine} {setting}"),
        },
        is_ours: engine == "splitpoint" && !matches!(table.rows, Rows::Variants),
        values: table.columns.iter().map(|column| value(column, results, variant, engine, setting)).collect(),
    };
    let mut rows: Vec<Row> = cases.iter().map(row).filter(|row| row.values.iter().any(Option::is_some)).collect();
    if let (Rows::Engines, Some(first)) = (table.rows, table.columns.first()) {
        let sign = if first.metric.ends_with("per_s") { -1.0 } else { 1.0 };
        let rank = |row: &Row| row.values[0].map_or(f64::INFINITY, |value| sign * value);
        rows.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    }
    rows
}

/// Returns the median in a column; for several parts, the sum of their medians. A negative value means no answer.
fn value(column: &Column, results: &Results, variant: &str, engine: &str, setting: &str) -> Option<f64> {
    let variant = column.variant.as_deref().unwrap_or(variant);
    let of_part = |part: &str| results.median(variant, engine, setting, part, &column.metric);
    let sum: Option<f64> = column.part.split('+').map(of_part).sum();
    sum.filter(|sum| *sum >= 0.0)
}

fn markdown(table: &Table, rows: &[Row]) -> String {
    let titles: Vec<&str> = table.columns.iter().map(|column| &column.title[..]).collect();
    let mut text = format!("| | {} |\n|---|{}\n", titles.join(" | "), "---:|".repeat(titles.len()));
    for row in rows {
        let bold = if row.is_ours { "**" } else { "" };
        let cells: Vec<String> = table
            .columns
            .iter()
            .zip(&row.values)
            .map(|(c, v)| v.map_or(String::new(), |v| cell(&c.metric, v)))
            .collect();
        text.push_str(&format!("| {bold}{}{bold} | {} |\n", row.name, cells.join(" | ")));
    }
    text
}

/// Formats a figure with the unit of its metric.
fn cell(metric: &str, value: f64) -> String {
    if metric.ends_with("per_s") || metric.ends_with("_calls") {
        return match value {
            1e6.. => format!("{:.2} M", value / 1e6),
            1e4.. => format!("{:.0} K", value / 1e3),
            _ => grouped(value),
        };
    }
    if metric.ends_with("_bytes") {
        let mib = value / 1048576.0;
        return if mib < 10.0 { format!("{mib:.2} MiB") } else { format!("{} MiB", grouped(mib)) };
    }
    if metric.ends_with("_s") {
        return if value < 1.0 { format!("{:.2} ms", value * 1e3) } else { format!("{value:.2} s") };
    }
    if (metric.ends_with("_us") || metric.ends_with("per_get")) && value >= 1000.0 {
        return grouped(value);
    }
    if metric.ends_with("per_get") {
        return format!("{value:.0}");
    }
    if metric.ends_with("_us") || metric.ends_with("_per_pair") { format!("{value:.1}") } else { format!("{value:.2}") }
}

/// Formats a whole number with thousands separators.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the machine and time of measurement, once for each run that the table's figures come from.
fn how(table: &Table, results: &Results, form: &str) -> String {
    let mut runs: Vec<(String, Vec<&Figure>)> = Vec::new();
    for figure in figures(table, results, form) {
        let fact = |name| results.fact_of(&figure.variant, name);
        let run = format!(
            "cases interleaved, {}; {}, {} of memory, Linux {}; {}; commit {}. `{}`",
            fact("date"),
            fact("cpu"),
            fact("memory"),
            fact("kernel"),
            fact("rust"),
            fact("commit"),
            fact("command")
        );
        match runs.iter_mut().find(|(name, _)| *name == run) {
            Some((_, figures)) => figures.push(figure),
            None => runs.push((run, vec![figure])),
        }
    }
    let several = runs.len() > 1;
    let lines = runs.iter().map(|(run, figures)| {
        let rounds = figures.iter().map(|f| f.values.len()).max().unwrap_or(0);
        let times = if rounds == 1 { "One run".to_owned() } else { format!("Medians of {rounds} runs") };
        let mut variants: Vec<&str> = figures.iter().map(|f| &f.variant[..]).collect();
        variants.dedup();
        let whose = if several { format!("{}: ", variants.join(", ")) } else { String::new() };
        format!("{whose}{times}{}, {run}", spread(table, figures))
    });
    lines.collect::<Vec<_>>().join("\n\n")
}

/// Returns the distance of the rounds of the table's rates and times from their medians; empty for one round.
fn spread(table: &Table, figures: &[&Figure]) -> String {
    let is_shown = |f: &Figure| {
        let is_timed = f.metric.ends_with("per_s") || f.metric.ends_with("_s") || f.metric.ends_with("per_get");
        let has = |c: &Column| c.metric == f.metric && c.part.split('+').any(|part| part == f.part);
        is_timed && f.median() > 0.0 && f.values.len() > 1 && table.columns.iter().any(has)
    };
    let farthest = |f: &&Figure| ((f.spread().1 / f.median() - 1.0).max(1.0 - f.spread().0 / f.median())) * 100.0;
    let mut percent: Vec<f64> = figures.iter().filter(|f| is_shown(f)).map(farthest).collect();
    percent.sort_unstable_by(f64::total_cmp);
    match percent.last() {
        None => String::new(),
        Some(most) => {
            let half = percent[(percent.len() - 1) / 2];
            format!(" (half of the figures within {half:.0} % of their median, all within {most:.0} %)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const CSV: &str = "\
# date: 2026-11-21
# cpu: 2 x abacus
variant,engine,setting,part,metric,median,min,max,values
file,slow,\"default\",put,ops_per_s,0,0,0,900000 1000000 1100000
file,slow,\"default\",sync,wall_s,0,0,0,0.5
file,splitpoint,\"os\",put,ops_per_s,0,0,0,2000000 2100000 9000000
file,splitpoint,\"os\",get,wall_s,0,0,0,1
file,splitpoint,\"os\",sync,wall_s,0,0,0,0.25
file,splitpoint,\"os\",memory,rss_bytes,0,0,0,104857600
";

    fn example() -> Table {
        let column = |title: &str, part: &str, metric: &str| Column {
            title: title.into(),
            variant: None,
            part: part.into(),
            metric: metric.into(),
        };
        Table {
            name: "pairs".into(),
            rows: Rows::Engines,
            variant: None,
            variant_in: BTreeMap::new(),
            engines: Vec::new(),
            without_variants: Vec::new(),
            columns: vec![
                column("put/s", "put", "ops_per_s"),
                column("get and sync", "get+sync", "wall_s"),
                column("memory", "memory", "rss_bytes"),
            ],
        }
    }

    #[test]
    fn a_table_has_medians_and_the_best_first() {
        let results = Results::from_csv(CSV).expect("a results file");
        assert_eq!(
            markdown(&example(), &rows(&example(), &results, FORM)),
            "| | put/s | get and sync | memory |\n|---|---:|---:|---:|\n\
             | **splitpoint, os** | 2.10 M | 1.25 s | 100 MiB |\n| slow | 1.00 M |  |  |\n"
        );
        assert!(how(&example(), &results, FORM).starts_with(
            "Medians of 3 runs (half of the figures within 10 % of their median, all within 329 %), cases \
                 interleaved, 2026-11-21; 2 x abacus,"
        ));
    }

    #[test]
    fn a_variant_that_was_not_run_has_no_rows() {
        let results = Results::from_csv(CSV).expect("a results file");
        let lines = |table: &Table, form: &str| rows(table, &results, form).len();
        let not_run = Table { variant: Some("200M".into()), ..example() };
        assert_eq!((lines(&not_run, FORM), lines(&example(), FORM)), (0, 2));
        let of_short = Table { variant_in: BTreeMap::from([("short".into(), "file".into())]), ..not_run };
        assert_eq!((lines(&of_short, FORM), lines(&of_short, "short")), (0, 2));
    }

    /// Every figure in the documents comes from a committed result: a table without results, or an edited one, fails.
    #[test]
    fn the_documents_have_exactly_the_tables_of_the_results() {
        let workloads = Workload::all().expect("workload files");
        let results = crate::workload::repository_file("results");
        let mut tables = 0;
        for document in DOCUMENTS {
            let path = crate::workload::repository_file(document);
            let text = std::fs::read_to_string(path).expect("a document");
            let made = with_tables(&text, |name, form| {
                tables += 1;
                table(&workloads, &results, name, form)
            });
            let made = made.expect("markers in order, tables with names");
            for (written, made) in text.lines().zip(made.lines()) {
                assert_eq!(written, made, "{document}: run `splitpoint-bench report`");
            }
            assert_eq!(text.lines().count(), made.lines().count(), "{document}: run `splitpoint-bench report`");
        }
        assert!(tables > 20, "{tables} tables, too few to be the documents");
    }

    /// The report is exactly what the committed results imply.
    #[test]
    fn the_report_is_exactly_that_of_the_results() {
        let workloads = Workload::all().expect("workload files");
        let results = crate::workload::repository_file("results");
        let (report, facts) = (seeds::Report::read().expect("seeds.toml"), seeds::facts(&results).expect("run.txt"));
        assert!(!facts.is_empty(), "results/report/run.txt is missing: run `make report`");
        let sections = report.sections(&workloads, &results).expect("results of the report");
        let written = std::fs::read_to_string(results.join("report.md")).expect("results/report.md");
        for (written, made) in written.lines().zip(seeds::report_markdown(&sections, &facts).lines()) {
            assert_eq!(written, made, "results/report.md: run `splitpoint-bench report`");
        }
    }

    /// Otherwise one table would mix figures of two sizes, or of a file and of memory.
    #[test]
    fn a_table_of_engines_names_its_variant_where_there_are_several() {
        for workload in Workload::all().expect("workload files") {
            let own = workload.table.iter().filter(|table| matches!(table.rows, Rows::Engines));
            for table in own.filter(|_| workload.variant.len() > 1) {
                assert!(table.variant.is_some(), "workload {}, table {}: add `variant`", workload.name, table.name);
            }
        }
    }

    #[test]
    fn only_the_text_between_markers_changes_and_goes_without_results() {
        let text = "a\n<!-- table: one -->\nold\n<!-- end -->\nb\n<!-- table: two short -->\nold\n<!-- end -->\nc\n";
        let written = with_tables(text, |name, form| Ok((name == "one").then(|| format!("{name} {form}"))));
        assert_eq!(
            written.expect("markers in order"),
            "a\n<!-- table: one -->\n\none full\n\n<!-- end -->\nb\n<!-- table: two short -->\n<!-- end -->\nc\n"
        );
        assert!(with_tables("<!-- table: one -->", |_, _| Ok(None)).is_err());
    }

    #[test]
    fn figures_read_well() {
        let cells = [
            cell("ops_per_s", 2_345_678.0),
            cell("ops_per_s", 23_456.0),
            cell("wall_s", 0.0123),
            cell("longest_us", 57_719.2),
            cell("after_sync_bytes", 1_300_000_000.0),
            cell("over_payload_bytes_per_pair", 23.46),
        ];
        assert_eq!(cells, ["2.35 M", "23 K", "12.30 ms", "57,719", "1,240 MiB", "23.5"]);
    }
}
