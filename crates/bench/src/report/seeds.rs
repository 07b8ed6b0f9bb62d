//! The report: every table and figure of the five seed documents that this project reproduces, by their names.
//!
//! `seeds.toml` lists them, with the document's own figures and what is compared. Each becomes a section: those
//! figures, the table measured here with today's peers, and a sentence per comparison with the best of ours, the best
//! peer and their ratio. Who leads is computed; the reason that `seeds.toml` gives for that outcome follows. A figure
//! without results says so. `results/report.md` has the sections as Markdown, `results/report.html` (`page.rs`) the
//! same with plots.
//!
//! Not here: measuring (`measured.rs`); results of other programs (`outside.rs`).

use super::outside;
use super::shown::{Shot, Shown};
use super::{how, markdown, rows};
use crate::engine::Outcome;
use crate::results::Results;
use crate::workload::Workload;
use serde::Deserialize;
use std::path::Path;

/// The form of the report's results, and the name of their folder.
pub const FORM: &str = "report";
/// Rates and times closer than this are on a par.
const PAR: f64 = 1.05;
/// As `PAR`, but for a machine shared with other work: figures of one case vary that much.
const PAR_OF_BUSY: f64 = 1.5;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seeds {
    seed: Vec<Seed>,
}

/// A seed document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    title: String,
    /// Its name in the summary.
    short: String,
    /// The author's machine.
    machine: String,
    figure: Vec<Figure>,
}

/// A table or a figure of a document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    name: String,
    title: String,
    /// The document's own figures, in Markdown.
    theirs: String,
    /// The table of a workload that repeats it.
    table: Option<String>,
    /// The number of a table of the kernel study.
    kernel: Option<u64>,
    /// The number of a histogram of the kernel study.
    histogram: Option<u64>,
    /// The output of another program: `server` or `transactions`.
    program: Option<String>,
    /// The beginning of the titles of its plots on the page of the workload; bars of the first comparison if not given.
    #[cfg_attr(not(feature = "report"), expect(dead_code, reason = "the page draws them"))]
    plot: Option<String>,
    #[serde(default)]
    compare: Vec<Compare>,
    /// Parts that were not repeated, or that differ.
    #[serde(default)]
    note: String,
}

/// A column in which ours and the peers are compared.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    column: String,
    /// The document's figure.
    theirs: String,
    /// The document's figure as a number, to compare with where there is no peer.
    number: Option<f64>,
    /// If set, only our lines whose names contain this are compared.
    only: Option<String>,
    /// Why we lead.
    #[serde(default)]
    leads: String,
    /// Why a peer leads.
    #[serde(default)]
    loses: String,
}

/// The best of ours and of the peers in one column.
struct Compared<'a> {
    compare: &'a Compare,
    ours: (&'a str, &'a str),
    peer: Option<(&'a str, &'a str)>,
    /// The ratio of ours to the best peer's; above 1 ours is better.
    ratio: f64,
    /// Ratios up to this are on a par.
    par: f64,
}

/// A section of the report.
pub struct Section<'a> {
    pub seed: &'a Seed,
    pub figure: &'a Figure,
    pub shown: Option<Shown>,
    /// Ratios up to this are on a par.
    par: f64,
}

/// All of the report that is not a section.
pub struct Report {
    seeds: Seeds,
}

impl Report {
    /// Reads `seeds.toml`.
    pub fn read() -> Outcome<Report> {
        let path = crate::workload::repository_file("crates/bench/seeds.toml");
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let seeds = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Report { seeds })
    }

    /// Returns every section, with what was measured.
    pub fn sections(&self, workloads: &[Workload], results: &Path) -> Outcome<Vec<Section<'_>>> {
        let folder = results.join(FORM);
        let is_busy = facts(results)?.iter().any(|(_, value)| value.contains(BUSY));
        let par = if is_busy { PAR_OF_BUSY } else { PAR };
        let mut sections = Vec::new();
        for seed in &self.seeds.seed {
            for figure in &seed.figure {
                let shown = figure.shown(workloads, &folder).map_err(|e| format!("{}: {e}", figure.name))?;
                sections.push(Section { seed, figure, shown, par });
            }
        }
        Ok(sections)
    }
}

impl Figure {
    fn shown(&self, workloads: &[Workload], folder: &Path) -> Outcome<Option<Shown>> {
        if let Some(name) = &self.table {
            return of_workload(workloads, folder, name, FORM);
        }
        if let Some(number) = self.kernel {
            return outside::kernel(folder, number);
        }
        if let Some(number) = self.histogram {
            return outside::histogram(folder, number);
        }
        match self.program.as_deref() {
            Some("server") => outside::server(folder),
            Some("transactions") => outside::transactions(folder),
            other => Err(format!("no source of figures: {other:?}").into()),
        }
    }

    /// Returns the workload of the figure's table.
    #[cfg(feature = "report")]
    pub fn workload<'w>(&self, workloads: &'w [Workload]) -> Option<&'w Workload> {
        let name = self.table.as_ref()?;
        workloads.iter().find(|w| w.table.iter().any(|table| table.name == *name))
    }

    #[cfg(feature = "report")]
    pub fn plot(&self) -> Option<&str> {
        self.plot.as_deref()
    }

    /// Returns the column of the first comparison.
    #[cfg(feature = "report")]
    pub fn column(&self) -> Option<&str> {
        self.compare.first().map(|compare| &compare.column[..])
    }
}

/// Returns the table `name` from the results of `form` in `folder`; `None` without results.
pub fn of_workload(workloads: &[Workload], folder: &Path, name: &str, form: &str) -> Outcome<Option<Shown>> {
    let found = workloads.iter().find_map(|w| w.table.iter().find(|t| t.name == name).map(|table| (w, table)));
    let (workload, table) = found.ok_or_else(|| format!("no workload has a table {name}"))?;
    let path = folder.join(format!("{}.csv", workload.name));
    if !path.exists() {
        return Ok(None);
    }
    let results = Results::read(&path)?;
    let rows = rows(table, &results, form);
    let line = |row: &super::Row| Shot {
        name: row.name.clone(),
        is_ours: row.name.contains("splitpoint")
            || matches!(&table.engines[..], [one] if one.starts_with("splitpoint:")),
        cells: table
            .columns
            .iter()
            .zip(&row.values)
            .map(|(column, value)| (value.map_or(String::new(), |value| super::cell(&column.metric, value)), *value))
            .collect(),
    };
    Ok((!rows.is_empty()).then(|| Shown {
        markdown: markdown(table, &rows),
        titles: table.columns.iter().map(|column| column.title.clone()).collect(),
        lines: rows.iter().map(line).collect(),
        how: how(table, &results, form),
        verdict: None,
    }))
}

impl Section<'_> {
    /// Returns the heading.
    pub fn heading(&self) -> String {
        format!("{}: {}", self.figure.name, self.figure.title)
    }

    /// Returns the document.
    #[cfg(feature = "report")]
    pub fn seed_title(&self) -> &str {
        &self.seed.title
    }

    /// Returns the machine of the document's author.
    #[cfg(feature = "report")]
    pub fn machine(&self) -> &str {
        &self.seed.machine
    }

    /// Returns the document's own figures.
    pub fn theirs(&self) -> &str {
        self.figure.theirs.trim()
    }

    /// Returns the parts that were not repeated, or that differ; may be empty.
    pub fn note(&self) -> &str {
        self.figure.note.trim()
    }

    /// Returns one sentence per comparison, or the verdict.
    pub fn sentences(&self) -> Vec<String> {
        let Some(shown) = &self.shown else { return vec!["Not run.".into()] };
        if let Some(verdict) = &shown.verdict {
            return vec![verdict.sentence.clone()];
        }
        self.compared().iter().map(Compared::sentence).collect()
    }

    fn compared(&self) -> Vec<Compared<'_>> {
        let Some(shown) = &self.shown else { return Vec::new() };
        self.figure.compare.iter().filter_map(|compare| compared(compare, shown, self.par)).collect()
    }
}

/// Whether more is better in a column.
fn is_rate(title: &str) -> bool {
    title.contains("/s")
}

/// Returns the name, cell and score of the best line in a column that satisfies `accept`; higher scores are better.
pub fn best<'a>(shown: &'a Shown, column: &str, accept: impl Fn(&Shot) -> bool) -> Option<(&'a str, &'a str, f64)> {
    let index = shown.titles.iter().position(|title| title == column)?;
    // xfer generates the input and stores nothing: a baseline, not a peer.
    let lines = shown.lines.iter().filter(|line| !line.name.starts_with("xfer") && accept(line));
    let scored = lines.filter_map(|line| {
        let (cell, value) = &line.cells[index];
        Some((&line.name[..], &cell[..], good(column, (*value)?)))
    });
    scored.max_by(|a, b| a.2.total_cmp(&b.2))
}

/// Returns the ratio of two scores; above 1 ours is better.
pub fn ratio(ours: &(&str, &str, f64), peer: &(&str, &str, f64)) -> f64 {
    ours.2 / peer.2
}

/// Converts a figure to a score; higher is better.
fn good(column: &str, value: f64) -> f64 {
    if is_rate(column) { value } else { 1.0 / value.max(1e-12) }
}

fn compared<'a>(compare: &'a Compare, shown: &'a Shown, par: f64) -> Option<Compared<'a>> {
    let is_meant = |line: &Shot| compare.only.as_ref().is_none_or(|only| line.name.contains(only));
    let ours = best(shown, &compare.column, |line| line.is_ours && is_meant(line))?;
    let peer = best(shown, &compare.column, |line| !line.is_ours);
    let ratio = match (peer, compare.number) {
        (Some(peer), _) => ratio(&ours, &peer),
        (None, Some(number)) => ours.2 / good(&compare.column, number),
        (None, None) => f64::NAN,
    };
    let peer = peer.map(|(name, cell, _)| (name, cell));
    Some(Compared { compare, ours: (ours.0, ours.1), peer, ratio, par })
}

impl Compared<'_> {
    fn is_par(&self) -> bool {
        self.ratio < self.par && self.ratio > 1.0 / self.par
    }

    fn sentence(&self) -> String {
        let Compare { column, theirs, leads, loses, .. } = self.compare;
        let (name, figure) = self.ours;
        let why = |reason: &str| if reason.is_empty() { String::new() } else { format!(", because {reason}") };
        let Some((peer, other)) = self.peer else {
            let ratio = if self.ratio.is_finite() { format!(", {} as good", times(self.ratio)) } else { String::new() };
            return format!(
                "**{column}**: {figure} ({name}), the document's {theirs}{ratio}; no peer to compare{}.",
                why(leads)
            );
        };
        if self.is_par() {
            let par = if self.par > PAR { "too close to tell on a busy machine" } else { "on a par" };
            return format!("**{column}**: {par}, {figure} ({name}) and {other} ({peer}).");
        }
        if self.ratio > 1.0 {
            return format!(
                "**{column}**: Splitpoint leads {} with {figure} ({name}) against {other} ({peer}){}.",
                times(self.ratio),
                why(leads)
            );
        }
        format!(
            "**{column}**: {peer} leads {} with {other} against {figure} ({name}){}.",
            times(1.0 / self.ratio),
            why(loses)
        )
    }
}

/// Formats a ratio: `1.4x`, `23x`.
fn times(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.1}x") } else { format!("{ratio:.0}x") }
}

/// Returns the table of all comparisons, one line each.
pub fn summary(sections: &[Section<'_>]) -> String {
    let mut text =
        String::from("| | | the document | best peer here | Splitpoint | ratio |\n|---|---|---|---:|---:|---:|\n");
    for section in sections {
        let name = format!("{}: {}", section.seed.short, section.figure.name);
        if let Some(verdict) = section.shown.as_ref().and_then(|shown| shown.verdict.as_ref()) {
            text += &format!("| {name} | {} |\n", verdict.summary.join(" | "));
        }
        for c in section.compared() {
            let peer = c.peer.map_or("-".into(), |(name, figure)| format!("{figure}, {name}"));
            let ratio = if c.ratio.is_finite() { format!("{:.2}x", c.ratio) } else { "-".into() };
            let document = &c.compare.theirs;
            text += &format!("| {name} | {} | {document} | {peer} | {} | {ratio} |\n", c.compare.column, c.ours.1);
        }
    }
    text
}

/// Returns the whole report as Markdown.
pub fn report_markdown(sections: &[Section<'_>], facts: &[(String, String)]) -> String {
    let mut text = format!("# {TITLE}\n\n{INTRODUCTION}\n\n{PLOTS}\n\n## Machine\n\n");
    text += &facts_table(facts);
    text += &format!("\n## Summary\n\n{SUMMARY}\n\n{}", summary(sections));
    let mut seed = "";
    for section in sections {
        if seed != section.seed.title {
            seed = &section.seed.title;
            text += &format!("\n## {seed}\n\nThe document's machine: {}\n", section.seed.machine);
        }
        text += &format!("\n### {}\n\n{}\n", section.heading(), section.theirs());
        if let Some(shown) = &section.shown {
            text += &format!("\nHere:\n\n{}", shown.markdown);
            if !shown.how.is_empty() {
                text += &format!("\n{}\n", shown.how);
            }
        }
        for sentence in section.sentences() {
            text += &format!("\n* {sentence}");
        }
        text += "\n";
        if !section.note().is_empty() {
            text += &format!("\n{}\n", section.note());
        }
    }
    text
}

/// The note of a part that was measured while other work shared the machine.
pub const BUSY: &str = "other work shared the machine";
pub const TITLE: &str = "The report";
pub const INTRODUCTION: &str = "Every table and figure of the five documents behind Splitpoint that it repeats, by \
    their names, measured by `make report`. Sizes are reduced so that it ends within half an hour; larger runs are in \
    `amd.md` and `intel.md`. Every answer of every store was compared with the expected one, and a case with a wrong \
    answer has no figures. What was not run says so.";
const PLOTS: &str = "`splitpoint-bench report --form report` makes `report.html` next to this file, with plots.";
pub const SUMMARY: &str = "The ratio is Splitpoint's best setting to the best peer's: above 1, Splitpoint is better; \
    where there is no peer, it is to the document's figure. Where other work shared the machine, ratios from 0.67 to \
    1.5 say nothing. Old times and rates are of old machines: compare them with each other.";

/// Names and values of the machine and the run.
pub fn facts_table(facts: &[(String, String)]) -> String {
    let mut text = String::from("| | |\n|---|---|\n");
    for (name, value) in facts {
        text += &format!("| {name} | {} |\n", value.replace('|', "/"));
    }
    text
}

/// Returns the facts of the run; none before the first.
pub fn facts(results: &Path) -> Outcome<Vec<(String, String)>> {
    let path = results.join(FORM).join("run.txt");
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(Vec::new()) };
    let split = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(text.lines().filter_map(split).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ours: f64, peer: Option<f64>) -> Shown {
        let line = |name: &str, is_ours, value: f64| Shot {
            name: name.into(),
            is_ours,
            cells: vec![(format!("{value}"), Some(value))],
        };
        let mut lines = vec![line("splitpoint, os", true, ours), line("xfer", false, 1e12)];
        lines.extend(peer.map(|value| line("lmdb", false, value)));
        Shown { titles: vec!["put/s".into()], lines, ..Shown::default() }
    }

    fn compare() -> Compare {
        Compare {
            column: "put/s".into(),
            theirs: "5".into(),
            number: Some(5.0),
            leads: "of this".into(),
            loses: "of that".into(),
            only: None,
        }
    }

    #[test]
    fn the_reason_is_that_of_the_outcome_and_the_baseline_is_no_peer() {
        let compare = compare();
        let sentence = |ours, peer| compared(&compare, &shown(ours, peer), PAR).expect("the column").sentence();
        assert_eq!(
            sentence(30.0, Some(10.0)),
            "**put/s**: Splitpoint leads 3.0x with 30 (splitpoint, os) against 10 (lmdb), because of this."
        );
        assert_eq!(
            sentence(10.0, Some(30.0)),
            "**put/s**: lmdb leads 3.0x with 30 against 10 (splitpoint, os), because of that."
        );
        let busy = compared(&compare, &shown(30.0, Some(22.0)), PAR_OF_BUSY).expect("the column").sentence();
        assert_eq!(busy, "**put/s**: too close to tell on a busy machine, 30 (splitpoint, os) and 22 (lmdb).");
        assert_eq!(sentence(10.0, Some(10.1)), "**put/s**: on a par, 10 (splitpoint, os) and 10.1 (lmdb).");
        assert_eq!(
            sentence(10.0, None),
            "**put/s**: 10 (splitpoint, os), the document's 5, 2.0x as good; no peer to compare, because of this."
        );
    }

    #[test]
    fn a_figure_without_results_says_so() {
        let report = Report::read().expect("seeds.toml");
        let empty = tempfile::tempdir().expect("a folder");
        let workloads = Workload::all().expect("workload files");
        let sections = report.sections(&workloads, empty.path()).expect("sections");
        assert!(sections.len() > 20, "{} figures", sections.len());
        assert!(sections.iter().all(|section| section.sentences() == ["Not run."]));
    }

    /// Otherwise a comparison would vanish silently.
    #[test]
    fn every_comparison_names_a_column_of_its_table() {
        let workloads = Workload::all().expect("workload files");
        for figure in Report::read().expect("seeds.toml").seeds.seed.iter().flat_map(|seed| &seed.figure) {
            let Some(name) = &figure.table else { continue };
            let table = workloads.iter().flat_map(|w| &w.table).find(|table| table.name == *name);
            let table = table.unwrap_or_else(|| panic!("{}: no table {name}", figure.name));
            for compare in &figure.compare {
                let known = table.columns.iter().any(|column| column.title == compare.column);
                assert!(known, "{}: {name} has no column {}", figure.name, compare.column);
            }
        }
    }
}
