//! Tables for the report from other programs' output: the kernel study of `splitpoint lab`, the appends of
//! `crates/server/benchmarks/measure.py`, and `splitpoint-bench transactions`.
//!
//! `measured.rs` writes the output into the report's folder; a missing file means the program was not run.

use super::grouped;
use super::shown::{Shot, Shown, Verdict};
use crate::engine::Outcome;
use serde_json::Value;
use std::path::Path;

/// The output of `splitpoint lab kernel --json`.
pub const KERNEL: &str = "kernel.json";
/// The output of `measure.py appends`.
pub const SERVER: &str = "server.md";
/// The output of `splitpoint-bench transactions`.
pub const TRANSACTIONS: &str = "transactions.txt";

/// Returns the text of a file; `None` if it is missing or empty.
fn text_of(folder: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(name)).ok().filter(|text| !text.trim().is_empty())
}

fn study(folder: &Path) -> Outcome<Option<Value>> {
    let Some(text) = text_of(folder, KERNEL) else { return Ok(None) };
    Ok(Some(serde_json::from_str(&text).map_err(|e| format!("{KERNEL}: {e}"))?))
}

/// Removes what the report does not show from the study's output, which is twenty times as large.
pub fn trim_study(folder: &Path) -> Outcome {
    let Some(mut study) = study(folder)? else { return Ok(()) };
    let retain = |value: &mut Value, kept: &[&str]| {
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|name, _| kept.contains(&&name[..]));
        }
    };
    retain(&mut study, &["about", "answer", "histograms", "runs", "tables"]);
    for table in study["tables"].as_array_mut().into_iter().flatten() {
        for load in table["loads"].as_array_mut().into_iter().flatten() {
            retain(load, &["kernels", "scripts"]);
            for kernel in load["kernels"].as_array_mut().into_iter().flatten() {
                retain(kernel, &["caches", "kernel", "paper_relative_percent", "relative_percent"]);
                for cache in kernel["caches"].as_array_mut().into_iter().flatten() {
                    retain(cache, &["buckets"]);
                }
            }
        }
    }
    for histogram in study["histograms"].as_array_mut().into_iter().flatten() {
        retain(histogram, &["number", "ours", "paper", "title"]);
        for whose in ["ours", "paper"] {
            retain(&mut histogram[whose], &["histogram"]);
        }
    }
    // One line per table and histogram, so that a difference can be read.
    let text = study.to_string().replace("{\"loads\"", "\n{\"loads\"").replace("{\"number\"", "\n{\"number\"");
    splitpoint::OutputFile::write(folder.join(KERNEL), format!("{text}\n"))?;
    Ok(())
}

/// Returns the study's own sentence about a table or a histogram, without its title.
fn answer(study: &Value, what: &str, title: &str) -> Option<String> {
    let head = format!("{what}, {title}: ");
    let mut answers = study["answer"].as_array()?.iter().filter_map(Value::as_str);
    answers.find_map(|answer| answer.strip_prefix(&head)).map(str::to_owned)
}

fn markdown(shown: &Shown) -> String {
    let mut text = format!("| | {} |\n|---|{}\n", shown.titles.join(" | "), "---:|".repeat(shown.titles.len()));
    for line in &shown.lines {
        let cells: Vec<&str> = line.cells.iter().map(|(cell, _)| &cell[..]).collect();
        text += &format!("| {} | {} |\n", line.name, cells.join(" | "));
    }
    text
}

/// Returns the method of the study.
fn about(study: &Value) -> String {
    let lines: Vec<&str> = study["about"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    format!("`splitpoint lab kernel --json`, {} runs; {}", study["runs"], lines.join("; "))
}

/// Returns a table of the kernel study: percent of the reference kernel, the paper's and ours, for each load.
pub fn kernel(folder: &Path, number: u64) -> Outcome<Option<Shown>> {
    let Some(study) = study(folder)? else { return Ok(None) };
    let tables = study["tables"].as_array().ok_or("kernel.json has no tables")?;
    let Some(table) = tables.iter().find(|table| table["table"] == number) else { return Ok(None) };
    let loads = table["loads"].as_array().ok_or("a table of kernel.json has no loads")?;
    let mut shown = Shown { how: about(&study), ..Shown::default() };
    for load in loads {
        shown.titles.extend(["paper", "here"].map(|whose| format!("{} scripts, {whose}, %", load["scripts"])));
        for (at, kernel) in load["kernels"].as_array().into_iter().flatten().enumerate() {
            let name = kernel["kernel"].as_str().unwrap_or_default();
            let caches = kernel["caches"].as_array().map_or(&[][..], |caches| caches);
            let name = match caches {
                [one] if !one["buckets"].is_null() => format!("{name} ({})", one["buckets"]),
                _ => name.to_owned(),
            };
            if shown.lines.len() <= at {
                shown.lines.push(Shot { name, is_ours: false, cells: Vec::new() });
            }
            shown.lines[at].cells.extend(["paper_relative_percent", "relative_percent"].map(|field| {
                let value = kernel[field].as_f64();
                (value.map_or(String::new(), |value| format!("{value:.1}")), value)
            }));
        }
    }
    shown.markdown = markdown(&shown);
    let best = |column: usize| {
        let values = shown.lines.iter().filter_map(|line| Some((&line.name, line.cells.get(column)?.1?)));
        values.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, value)| (format!("{value:.1} %, {name}"), value))
    };
    let last = shown.titles.len().saturating_sub(2);
    let sentence = answer(&study, &format!("Table {number}"), table["title"].as_str().unwrap_or_default());
    shown.verdict = sentence.zip(best(last)).zip(best(last + 1)).map(|((sentence, paper), here)| {
        let ratio = format!("{:.2}x", here.1 / 100.0);
        Verdict { sentence, summary: ["best kernel".into(), paper.0, "100 %, 2.2.5".into(), here.0, ratio] }
    });
    Ok(Some(shown))
}

/// Returns a histogram of the kernel study: buckets by their objects, the paper's and ours.
pub fn histogram(folder: &Path, number: u64) -> Outcome<Option<Shown>> {
    const SIZES: u64 = 16;
    let Some(study) = study(folder)? else { return Ok(None) };
    let all = study["histograms"].as_array().ok_or("kernel.json has no histograms")?;
    let Some(of) = all.iter().find(|histogram| histogram["number"] == number) else { return Ok(None) };
    let buckets = |whose: &str, size: u64| -> u64 {
        let rows = of[whose]["histogram"].as_array().into_iter().flatten();
        let is_meant = |row: &&Value| row["size"].as_u64().is_some_and(|s| s == size || size == SIZES && s > SIZES);
        rows.filter(is_meant).filter_map(|row| row["buckets"].as_u64()).sum()
    };
    let mut shown = Shown { titles: vec!["buckets, paper".into(), "buckets, here".into()], ..Shown::default() };
    shown.how = about(&study);
    for size in 0..=SIZES {
        let name = if size < SIZES { format!("{size} objects") } else { "more than 15".into() };
        let cells = ["paper", "ours"].map(|whose| buckets(whose, size));
        let cells = cells.map(|count| (grouped(count as f64), Some(count as f64))).to_vec();
        shown.lines.push(Shot { name, is_ours: false, cells });
    }
    shown.markdown = markdown(&shown);
    let sentence = answer(&study, &format!("Histogram {number}"), of["title"].as_str().unwrap_or_default());
    shown.verdict = sentence.map(|sentence| {
        let (here, paper) = sentence.split_once(" % ").zip(sentence.rsplit_once("paper ")).unwrap_or_default();
        let (here, paper) = (format!("{} %", here.0), paper.1.trim_end_matches('.').to_owned());
        Verdict { summary: ["objects in buckets over 15".into(), paper, "-".into(), here, "-".into()], sentence }
    });
    Ok(Some(shown))
}

/// Returns the servers' appends: the first table of the script's output that has them.
pub fn server(folder: &Path) -> Outcome<Option<Shown>> {
    let Some(text) = text_of(folder, SERVER) else { return Ok(None) };
    let mut lines = text.lines().skip_while(|line| !(line.starts_with('|') && line.contains("appends/s")));
    let Some(head) = lines.next() else { return Ok(None) };
    let split =
        |line: &str| -> Vec<String> { line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect() };
    let mut shown = Shown { titles: split(head)[1..].to_vec(), ..Shown::default() };
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let [name, cells @ ..] = &split(line)[..] else { continue };
        let cells = cells.iter().map(|cell| (cell.clone(), number(cell))).collect();
        shown.lines.push(Shot { name: name.clone(), is_ours: name.starts_with("Splitpoint"), cells });
    }
    shown.how = format!(
        "`measure.py --short --rounds 3 appends`, medians of 3 runs; {}",
        text.lines().next().unwrap_or_default()
    );
    shown.markdown = markdown(&shown);
    Ok(Some(shown))
}

/// Parses the number at the beginning of a cell: `2.13 M`, `520 K`, `0.40`, `28 B`.
fn number(cell: &str) -> Option<f64> {
    let mut words = cell.split(' ');
    let value: f64 = words.next()?.parse().ok()?;
    Some(match words.next() {
        Some("M") => value * 1e6,
        Some("K") => value * 1e3,
        _ => value,
    })
}

/// Stores with transactions: a line each, a column per operation.
pub fn transactions(folder: &Path) -> Outcome<Option<Shown>> {
    let Some(text) = text_of(folder, TRANSACTIONS) else { return Ok(None) };
    let mut shown = Shown {
        how: "`splitpoint-bench transactions --engine STORE`, one run of each store after the other.".into(),
        ..Shown::default()
    };
    for line in text.lines() {
        let Some(row) = line.strip_prefix("  ") else {
            shown.lines.push(Shot { name: line.into(), is_ours: line == "splitpoint", cells: Vec::new() });
            continue;
        };
        let words = row.rsplitn(3, ' ').collect::<Vec<_>>();
        let [unit, value, what] = words[..] else { return Err(format!("{TRANSACTIONS}: {line}").into()) };
        let value: f64 = value.parse()?;
        let store = shown.lines.last_mut().ok_or("a figure without a store")?;
        let title = format!("{}{}{unit}", what.trim(), if unit == "/s" { "" } else { ", " });
        let column = shown.titles.iter().position(|known| *known == title).unwrap_or(shown.titles.len());
        if column == shown.titles.len() {
            shown.titles.push(title);
        }
        store.cells.resize(column + 1, (String::new(), None));
        let cell = if unit == "s" { format!("{value:.2}") } else { grouped(value) };
        store.cells[column] = (cell, Some(value));
    }
    let columns = shown.titles.len();
    shown.lines.iter_mut().for_each(|line| line.cells.resize(columns, (String::new(), None)));
    shown.markdown = markdown(&shown);
    Ok((!shown.lines.is_empty()).then_some(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(name: &str, text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(name), text).expect("a file");
        folder
    }

    #[test]
    fn stores_with_transactions_have_a_column_per_operation() {
        let text = "splitpoint\n  load                      1500000 /s\n  compaction                   0.25 s\n\
            redb\n  load                       400000 /s\n";
        let shown = transactions(folder_with(TRANSACTIONS, text).path()).expect("a table").expect("results");
        assert_eq!(
            shown.markdown,
            "| | load/s | compaction, s |\n|---|---:|---:|\n| splitpoint | 1,500,000 | 0.25 |\n| redb | 400,000 |  |\n"
        );
    }

    #[test]
    fn the_table_of_appends_is_found_in_the_output_of_the_script() {
        let text = "2 x abacus\n\n| | appends/s | overhead |\n\
            |---|---:|---:|\n| Redis | 520 K | 112 B |\n| Splitpoint | 2.13 M | 28 B |\n\nmore\n";
        let shown = server(folder_with(SERVER, text).path()).expect("a table").expect("results");
        let values: Vec<_> = shown.lines.iter().map(|line| (line.is_ours, line.cells[0].1)).collect();
        assert_eq!(values, [(false, Some(520e3)), (true, Some(2.13e6))]);
        assert_eq!(shown.lines[1].cells[1].1, Some(28.0));
    }

    #[test]
    fn large_buckets_of_a_histogram_are_one_line() {
        let text = r#"{"about": ["/usr"], "runs": 7, "tables": [],
            "answer": ["Histogram 2, t: 24 % of x; paper 85 %."], "histograms": [
            {"number": 2, "title": "t", "ours": {"histogram": [{"size": 15, "buckets": 1}, {"size": 16, "buckets": 2},
            {"size": 131, "buckets": 4}]}, "paper": {"histogram": [{"size": 16, "buckets": 68}]}}]}"#;
        let shown = histogram(folder_with(KERNEL, text).path(), 2).expect("a table").expect("results");
        let cells = |at: usize| shown.lines[at].cells.iter().map(|(cell, _)| cell.clone()).collect::<Vec<_>>();
        assert_eq!((cells(15), cells(16)), (vec!["0".into(), "1".into()], vec!["68".to_owned(), "6".to_owned()]));
        let verdict = shown.verdict.expect("a verdict");
        assert_eq!(verdict.sentence, "24 % of x; paper 85 %.");
        assert_eq!(verdict.summary, ["objects in buckets over 15", "85 %", "-", "24 %", "-"]);
    }
}
