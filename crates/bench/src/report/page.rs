//! Pages of plots, each a self-contained file: all tables and plots of a form, and the report on the seed documents.
//!
//! Plots: throughput over appends, with and without the xfer baseline ("Big Memory, Part 3"); time by fill factor and
//! page size, by fill factor with and without the pair count in advance, and by bytes of the buffer pool (Figures 5, 6
//! and 7 of "A New Hashing Package for UNIX"); records/s by their number (uDatabase); Figures 3 and 6 to 12 of
//! "Practical Batch-Updatable External Hashing with Sorting".

use super::plot::{self, Bar, Plot};
use super::seeds::{self, Section};
use super::shown::Shown;
use super::{how, markdown, rows};
use crate::engine::Outcome;
use crate::results::{Results, WINDOW_COLUMNS};
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::path::Path;

const STYLE: &str = "body{font:15px/1.45 sans-serif;max-width:1060px;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}td,th{border-bottom:1px solid #ccc;padding:.15em .7em;text-align:right}\
td:first-child{text-align:left}svg{max-width:100%;height:auto}p.how{color:#555;font-size:13px}";

const PHONE: &str = ".scroll{overflow-x:auto}@media(prefers-color-scheme:dark){body{background:#16181c;color:#e4e4e4}\
td,th{border-color:#444}a{color:#8ab4f8}p.how{color:#aaa}.plot{background:#fff;border-radius:4px}}";

/// Returns the report on the seed documents.
pub fn of_seeds(
    workloads: &[Workload],
    results: &Path,
    sections: &[Section<'_>],
    facts: &[(String, String)],
) -> Outcome<String> {
    let table = |markdown: &str| format!("<div class=scroll>{}</div>\n", html_table(markdown));
    let mut body = format!("<p>{}</p>\n<h2>Machine</h2>\n", inline(seeds::INTRODUCTION));
    body += &table(&seeds::facts_table(facts));
    body += &format!("<h2>Summary</h2>\n<p>{}</p>\n{}", inline(seeds::SUMMARY), table(&seeds::summary(sections)));
    let mut seed = "";
    for section in sections {
        if seed != section.seed_title() {
            seed = section.seed_title();
            body +=
                &format!("<h2>{}</h2>\n<p>The document's machine: {}</p>\n", escaped(seed), inline(section.machine()));
        }
        body += &format!("<h3>{}</h3>\n", escaped(&section.heading()));
        body += &section.theirs().split("\n\n").map(|part| block(part, table)).collect::<String>();
        if let Some(shown) = &section.shown {
            body += &format!("<p>Here:</p>\n{}", table(&shown.markdown));
            body += &format!("<p class=how>{}</p>\n", inline(&shown.how));
            for svg in section_plots(section, shown, workloads, results)? {
                body += &format!("<div class=plot>{svg}</div>\n");
            }
        }
        let sentences = section.sentences().into_iter().map(|s| format!("<li>{}</li>\n", inline(&s)));
        body += &format!("<ul>\n{}</ul>\n", sentences.collect::<String>());
        if !section.note().is_empty() {
            body += &format!("<p>{}</p>\n", inline(section.note()));
        }
    }
    let head = "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">";
    let title = seeds::TITLE;
    Ok(format!(
        "{head}<title>Splitpoint: {title}</title><style>{STYLE}{PHONE}</style>\n<h1>{title}</h1>\n{body}</html>\n"
    ))
}

/// Converts a table or a paragraph of Markdown to HTML.
fn block(markdown: &str, table: impl Fn(&str) -> String) -> String {
    if markdown.starts_with('|') { table(markdown) } else { format!("<p>{}</p>\n", inline(markdown)) }
}

/// Converts emphasis and code within a paragraph of Markdown to HTML.
fn inline(markdown: &str) -> String {
    let mut html = escaped(markdown);
    for (mark, tag) in [("**", "b"), ("`", "code")] {
        for end in ["", "/"].iter().cycle() {
            let Some(at) = html.find(mark) else { break };
            html.replace_range(at..at + mark.len(), &format!("<{end}{tag}>"));
        }
    }
    html
}

/// Returns the plots of the figure on the page of its workload, or bars of its first comparison.
fn section_plots(section: &Section<'_>, shown: &Shown, workloads: &[Workload], results: &Path) -> Outcome<Vec<String>> {
    let folder = results.join(seeds::FORM);
    if let (Some(prefix), Some(workload)) = (section.figure.plot(), section.figure.workload(workloads)) {
        let results = Results::read(&folder.join(format!("{}.csv", workload.name)))?;
        let all = plots(workload, &results, &folder)?;
        let meant = all.iter().filter(|plot| plot.title.starts_with(prefix));
        return meant.map(Plot::svg).filter(|svg| !matches!(svg, Ok(svg) if svg.is_empty())).collect();
    }
    let last = shown.titles.len().saturating_sub(1);
    let column = section.figure.column().and_then(|title| shown.titles.iter().position(|t| t == title)).unwrap_or(last);
    let bars: Vec<Bar<'_>> = shown
        .lines
        .iter()
        .filter_map(|line| Some((&line.name[..], &line.cells[column].0[..], line.cells[column].1?, line.is_ours)))
        .collect();
    Ok(vec![plot::bars(&shown.titles[column], &bars)])
}

/// Returns the page of the results of `form`, in `folder`.
pub fn page(workloads: &[Workload], folder: &Path, form: &str) -> Outcome<String> {
    let mut body = String::new();
    for workload in workloads {
        let path = folder.join(format!("{}.csv", workload.name));
        if !path.exists() {
            continue;
        }
        let results = Results::read(&path)?;
        body.push_str(&format!("<h2 id=\"{0}\">{0}: {1}</h2>\n", workload.name, escaped(&workload.title)));
        body.push_str(&format!("<p>Answers {}.</p>\n", escaped(&workload.answers.join("; "))));
        for table in &workload.table {
            let rows = rows(table, &results, form);
            if !rows.is_empty() {
                body.push_str(&html_table(&markdown(table, &rows)));
                body.push_str(&format!("<p class=how>{}</p>\n", escaped(&how(table, &results, form))));
            }
        }
        for plot in plots(workload, &results, folder)? {
            body.push_str(&plot.svg()?);
        }
    }
    let head = "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><title>Splitpoint, measured</title>";
    Ok(format!("{head}<style>{STYLE}</style>\n<h1>Splitpoint, measured</h1>\n{body}</html>\n"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Converts a Markdown table to HTML.
fn html_table(markdown: &str) -> String {
    let mut html = String::from("<table>\n");
    for (i, line) in markdown.lines().enumerate().filter(|(i, _)| *i != 1) {
        let tag = if i == 0 { "th" } else { "td" };
        html.push_str("<tr>");
        for cell in line.trim_matches('|').split('|') {
            let cell = escaped(cell.trim());
            let cell = cell
                .strip_prefix("**")
                .and_then(|c| c.strip_suffix("**"))
                .map_or(cell.clone(), |c| format!("<b>{c}</b>"));
            html.push_str(&format!("<{tag}>{cell}</{tag}>"));
        }
        html.push_str("</tr>\n");
    }
    html + "</table>\n"
}

fn plots<'a>(workload: &'a Workload, results: &Results, folder: &Path) -> Outcome<Vec<Plot<'a>>> {
    Ok(match &workload.name[..] {
        "page-sizes" => by_word(results, "fill", "fill factor", true),
        "known-size" => by_word(results, "fill", "fill factor", true),
        "buffer-pool" => by_word(results, "cache", "bytes of the buffer pool", false),
        "udatabase" => by_count(results),
        "dictionary-large" => {
            let mut plots = vec![over_word("Figure 7: construction", results, "buffers", "memory", BUILD)];
            plots.push(over_count("Figure 8: construction", results, BUILD));
            plots.push(over_steps(results));
            plots
        }
        // The report has fewer items, and buffers to match.
        "dictionary-small" => ["buffers", "few-buffers"]
            .map(|variant| over_word("Figure 12: construction", results, variant, "memory", BUILD))
            .into(),
        "dictionary-index" => vec![
            over_count("Figure 3: size of a trie", results, TRIE_BITS),
            over_word("Figure 6: size by items per block", results, "block", "block", TRIE_BITS),
            against("Figure 10: size and time by bucket size g", results, "g"),
            against("Figure 11: size and time by hmax", results, "hmax"),
        ],
        name if name.starts_with("append-") => {
            over_appends(&folder.join(format!("{name}.windows.csv")), &workload.title)?
        }
        _ => Vec::new(),
    })
}

/// Returns the number of a word in a setting, and the setting without that word.
fn without_word(setting: &str, word: &str) -> Option<(f64, String)> {
    let number = setting.split(',').find_map(|w| w.strip_prefix(word)?.strip_prefix('=')?.parse().ok())?;
    let others = setting.split(',').filter(|w| !w.starts_with(&format!("{word}=")));
    Some((number, others.collect::<Vec<_>>().join(" ")))
}

/// Elapsed, system and user time of putting and getting all, over a word of the setting; a line per rest of the
/// setting.
fn by_word<'a>(results: &Results, word: &str, x_title: &'a str, x_is_log: bool) -> Vec<Plot<'a>> {
    [("elapsed time", "wall_s"), ("system time", "system_s"), ("user time", "user_s")]
        .into_iter()
        .map(|(title, metric)| {
            let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
            for put in results.figures.iter().filter(|f| f.part == "put" && f.metric == metric) {
                let Some((x, others)) = without_word(&put.setting, word) else { continue };
                let get = results.median(&put.variant, &put.engine, &put.setting, "get", metric);
                let line = lines.entry(format!("{} {others}", put.engine)).or_default();
                line.push((x, put.median() + get.unwrap_or(0.0)));
            }
            Plot { title, x_title, y_title: "seconds", x_is_log, y_is_log: true, lines: sorted(lines) }
        })
        .collect()
}

fn sorted(lines: BTreeMap<String, Vec<(f64, f64)>>) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.iter_mut().for_each(|(_, points)| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    lines
}

/// A part, its metric, and the title of the axis.
type Figure<'a> = (&'a str, &'a str, &'a str);
const BUILD: Figure<'_> = ("build", "ops_per_s", "items/s");
const TRIE_BITS: Figure<'_> = ("index", "trie_bits_per_key", "bits/key");

/// Plots a figure over the number of a word, in one variant; a line per engine and rest of its setting.
fn over_word<'a>(title: &'a str, results: &Results, variant: &str, word: &'a str, figure: Figure<'a>) -> Plot<'a> {
    let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for f in
        results.figures.iter().filter(|f| f.variant == variant && (&f.part[..], &f.metric[..]) == (figure.0, figure.1))
    {
        let Some((x, others)) = without_word(&f.setting, word) else { continue };
        lines.entry(format!("{} {others}", f.engine)).or_default().push((x, f.median()));
    }
    Plot { title, x_title: word, y_title: figure.2, x_is_log: true, y_is_log: false, lines: sorted(lines) }
}

/// Plots a figure over the counts that variants are named after: `4096`, `250K`, `20M`.
fn over_count<'a>(title: &'a str, results: &Results, figure: Figure<'a>) -> Plot<'a> {
    let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for f in results.figures.iter().filter(|f| (&f.part[..], &f.metric[..]) == (figure.0, figure.1)) {
        let thousands = f.variant.replace('K', "000").replace('M', "000000");
        let Ok(count) = thousands.parse() else { continue };
        lines.entry(format!("{} {}", f.engine, f.setting)).or_default().push((count, f.median()));
    }
    Plot { title, x_title: "items", y_title: figure.2, x_is_log: true, y_is_log: false, lines: sorted(lines) }
}

/// Plots the seconds per batch, merged into the existing dictionary and rebuilt from scratch.
fn over_steps<'a>(results: &Results) -> Plot<'a> {
    let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for f in results.figures.iter().filter(|f| f.metric == "wall_s") {
        let Some(step) = f.part.strip_prefix("step-").and_then(|step| step.parse().ok()) else { continue };
        lines.entry(format!("{} {} {}", f.engine, f.setting, f.variant)).or_default().push((step, f.median()));
    }
    let (title, x_title) = ("Figure 9: construction in batches of equal size", "batch");
    Plot { title, x_title, y_title: "seconds", x_is_log: false, y_is_log: false, lines: sorted(lines) }
}

/// Plots the time of a lookup over the index's bits, in a variant with a setting per point.
fn against<'a>(title: &'a str, results: &Results, variant: &str) -> Plot<'a> {
    let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for f in results.figures.iter().filter(|f| f.variant == variant && f.metric == "bits_per_key") {
        let Some((_, others)) = without_word(&f.setting, variant) else { continue };
        let Some(ns) = results.median(variant, &f.engine, &f.setting, "get", "ns_per_get") else { continue };
        lines.entry(format!("{} {others}", f.engine)).or_default().push((f.median(), ns));
    }
    let (x_title, y_title) = ("bits/key", "ns/lookup");
    Plot { title, x_title, y_title, x_is_log: false, y_is_log: false, lines: sorted(lines) }
}

/// Plots records/s over their number.
fn by_count<'a>(results: &Results) -> Vec<Plot<'a>> {
    [("put", "put"), ("put and sync", "put-and-sync"), ("get", "get"), ("remove", "remove")]
        .into_iter()
        .map(|(title, part)| {
            let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
            for figure in results.figures.iter().filter(|f| f.part == part && f.metric == "ops_per_s") {
                let Ok(count) = figure.variant.parse() else { continue };
                let line = lines.entry(format!("{} {}", figure.engine, figure.setting)).or_default();
                line.push((count, figure.median()));
            }
            let (x_title, y_title) = ("records", "records/s");
            Plot { title, x_title, y_title, x_is_log: true, y_is_log: true, lines: sorted(lines) }
        })
        .collect()
}

/// Plots appends/s over appends done, with and without the baseline.
fn over_appends<'a>(path: &Path, title: &'a str) -> Outcome<Vec<Plot<'a>>> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(Vec::new()) };
    let mut lines = text.lines();
    if lines.next() != Some(WINDOW_COLUMNS) {
        return Err(format!("{}: not a file of windows", path.display()).into());
    }
    let mut found: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for line in lines {
        let [variant, engine, rest] = line.splitn(3, ',').collect::<Vec<_>>()[..] else { continue };
        let (setting, rest) = rest.trim_start_matches('"').split_once("\",").ok_or("no setting")?;
        let numbers: Vec<f64> = rest.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [appends, ops_per_s, ..] = numbers[..] else { continue };
        let how = if variant == "many" { " in batches" } else { "" };
        found.entry(format!("{engine}{how} {setting}")).or_default().push((appends, ops_per_s));
    }
    let (x_title, y_title) = ("appends done", "appends/s");
    let all = sorted(found);
    let stores = all.iter().filter(|(name, _)| !name.starts_with("xfer")).cloned().collect();
    let plot = |y_is_log, lines| Plot { title, x_title, y_title, x_is_log: false, y_is_log, lines };
    Ok(vec![plot(true, all), plot(false, stores)])
}
