//! The page of `lab schemes`: plots over the number of keys, the table, the problems.

use super::Page;
use super::plot::{Line, Lines};
use crate::cmd::lab::schemes::{Report, text};
use crate::number::grouped;
use splitpoint_lab::schemes::{Point, SchemeKind, Study};

/// The schemes in a plot.
#[derive(Clone, Copy)]
enum Shown {
    OnDisk,
    InMemory,
    All,
}

struct Plot {
    title: &'static str,
    shown: Shown,
    y_is_log: bool,
    y: fn(&Point) -> Option<f64>,
}

const PLOTS: [Plot; 11] = [
    Plot { title: "Pages per hit, on disk", shown: Shown::OnDisk, y_is_log: false, y: |p| p.hit },
    Plot { title: "Pages per miss, on disk", shown: Shown::OnDisk, y_is_log: false, y: |p| Some(p.miss) },
    Plot { title: "Entries per hit, in memory", shown: Shown::InMemory, y_is_log: true, y: |p| p.hit },
    // A logarithmic axis has no 0, and a miss may compare no entry.
    Plot {
        title: "Entries per miss, in memory",
        shown: Shown::InMemory,
        y_is_log: true,
        y: |p| Some(p.miss.max(1.0 / 64.0)),
    },
    Plot {
        title: "Memory for addressing, bytes",
        shown: Shown::All,
        y_is_log: true,
        y: |p| Some(p.figures.addressing_bytes as f64),
    },
    Plot {
        title: "Utilisation, percent",
        shown: Shown::All,
        y_is_log: false,
        y: |p| Some(p.figures.utilisation_percent()),
    },
    Plot {
        title: "Longest insert, pages written, on disk",
        shown: Shown::OnDisk,
        y_is_log: true,
        y: |p| Some(p.figures.longest_pause.max(1) as f64),
    },
    Plot {
        title: "Longest insert, entries moved, in memory",
        shown: Shown::InMemory,
        y_is_log: true,
        y: |p| Some(p.figures.longest_pause.max(1) as f64),
    },
    Plot { title: "Splits", shown: Shown::All, y_is_log: true, y: |p| Some(p.figures.splits.max(1) as f64) },
    Plot {
        title: "Length of the file with holes, bytes",
        shown: Shown::OnDisk,
        y_is_log: true,
        y: |p| Some(p.figures.file_bytes.max(1) as f64),
    },
    Plot {
        title: "Keys that could not be stored, percent",
        shown: Shown::All,
        y_is_log: false,
        y: |p| Some(100.0 * p.refused as f64 / p.keys as f64),
    },
];

/// The page of a report.
pub fn of(report: &Report) -> String {
    let mut page = Page::new("Access methods on your keys", &text::head(report));
    page.heading(
        "As keys are inserted",
        "Models of the access methods in Seltzer & Yigit 1991 and of Splitpoint's table. They count and measure no \
         times. Where lines coincide, the last one is visible.",
    );
    let plots: Vec<_> = PLOTS.iter().map(|plot| plot.lines(&report.studies)).collect();
    page.grid_of_lines(&plots);
    page.heading("With all keys", &text::LEGEND.join(" "));
    page.table(&table(&report.studies));
    let notes: Vec<_> = report.studies.iter().flat_map(text::notes).collect();
    if !notes.is_empty() {
        page.heading("Problems", "");
        page.list(&notes);
    }
    page.finish()
}

/// One row for each scheme, or for each point of a single scheme.
fn table(studies: &[Study]) -> Vec<Vec<String>> {
    let named = |names: &[&str]| {
        let columns = text::COLUMNS.split_whitespace();
        names.iter().copied().chain(columns).map(str::to_owned).collect::<Vec<_>>()
    };
    let row = |names: Vec<String>, point: &Point| names.into_iter().chain(text::cells(point)).collect();
    let mut rows = Vec::new();
    if let [study] = studies {
        rows.push(named(&["keys"]));
        rows.extend(study.points.iter().map(|point| row(vec![grouped(point.keys as u64)], point)));
    } else {
        rows.push(named(&["scheme", "function"]));
        let last = studies.iter().filter_map(|study| Some((study, study.last()?)));
        rows.extend(last.map(|(study, point)| row(vec![study.kind.name().into(), study.function.into()], point)));
    }
    rows
}

impl Plot {
    fn lines(&self, studies: &[Study]) -> Lines<'static> {
        let shown = studies.iter().filter(|study| self.shows(study.kind));
        let points = |study: &Study| {
            let points = study.points.iter();
            points.filter_map(|point| Some((point.keys as f64, (self.y)(point)?))).collect()
        };
        let lines = shown.map(|study| Line::new(study.kind.name(), color(study.kind), points(study)));
        Lines {
            title: Some(self.title),
            x_title: "keys",
            y_title: "",
            x_is_log: true,
            y_is_log: self.y_is_log,
            lines: lines.collect(),
        }
    }

    fn shows(&self, kind: SchemeKind) -> bool {
        match self.shown {
            Shown::OnDisk => kind.on_disk(),
            Shown::InMemory => !kind.on_disk(),
            Shown::All => true,
        }
    }
}

/// The color of a scheme does not depend on the other schemes shown.
fn color(kind: SchemeKind) -> usize {
    SchemeKind::ALL.iter().position(|other| *other == kind).unwrap_or_default()
}
