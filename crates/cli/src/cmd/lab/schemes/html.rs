//! The page of `lab schemes`: the answer, the table, plots over the number of keys, the problems.

use super::{Report, text};
use crate::cmd::lab::page::plot::{Axis, Line, Lines};
use crate::cmd::lab::page::table::{Cell, Kind, Mark, Table};
use crate::cmd::lab::page::{Page, Tile};
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
    /// Smaller values are drawn here, because a logarithmic axis has no 0.
    floor: Option<f64>,
    y: fn(&Point) -> Option<f64>,
}

const PLOTS: [Plot; 11] = [
    Plot {
        title: "Pages per successful lookup, on disk",
        shown: Shown::OnDisk,
        floor: None,
        y: |p| p.touched_per_successful,
    },
    Plot {
        title: "Pages per unsuccessful lookup, on disk",
        shown: Shown::OnDisk,
        floor: None,
        y: |p| Some(p.touched_per_unsuccessful),
    },
    Plot {
        title: "Entries per successful lookup, in memory",
        shown: Shown::InMemory,
        floor: Some(0.5),
        y: |p| p.touched_per_successful,
    },
    Plot {
        title: "Entries per unsuccessful lookup, in memory",
        shown: Shown::InMemory,
        floor: Some(1.0 / 64.0),
        y: |p| Some(p.touched_per_unsuccessful),
    },
    Plot {
        title: "Memory for addressing, bytes",
        shown: Shown::All,
        floor: Some(1.0),
        y: |p| Some(p.figures.addressing_bytes as f64),
    },
    Plot {
        title: "Utilisation, percent",
        shown: Shown::All,
        floor: None,
        y: |p| Some(p.figures.utilisation_percent()),
    },
    Plot {
        title: "Longest insert, pages written, on disk",
        shown: Shown::OnDisk,
        floor: Some(1.0),
        y: |p| Some(p.figures.longest_pause as f64),
    },
    Plot {
        title: "Longest insert, entries moved, in memory",
        shown: Shown::InMemory,
        floor: Some(1.0),
        y: |p| Some(p.figures.longest_pause as f64),
    },
    Plot { title: "Splits", shown: Shown::All, floor: Some(1.0), y: |p| Some(p.figures.splits as f64) },
    Plot {
        title: "Length of the file with holes, bytes",
        shown: Shown::OnDisk,
        floor: Some(1.0),
        y: |p| Some(p.figures.file_bytes as f64),
    },
    Plot {
        title: "Keys that could not be stored, percent",
        shown: Shown::All,
        floor: None,
        y: |p| Some(100.0 * p.refused as f64 / p.keys as f64),
    },
];

/// Returns the page of a report.
pub fn of(report: &Report) -> String {
    let mut page = Page::new("splitpoint lab schemes", "Access methods on your keys", &text::head(report));
    answer(&mut page, report);
    page.table(&table(&report.studies));
    page.note(&text::LEGEND.join(" "));
    let notes: Vec<_> = report.studies.iter().flat_map(text::notes).collect();
    if !notes.is_empty() {
        page.heading("Problems", "");
        page.list(&notes);
    }
    page.heading(
        "As keys are inserted",
        "Models of the access methods in Seltzer & Yigit 1991 and of Splitpoint's table. They count and measure no \
         times. Where lines coincide, the last one is visible.",
    );
    let plots: Vec<_> = PLOTS.iter().map(|plot| plot.lines(&report.studies)).collect();
    page.grid_of_lines(&plots);
    page.finish()
}

/// Pages or entries that a successful and an unsuccessful lookup touch together; `None` if the scheme did not take all
/// keys.
fn touched(study: &Study) -> Option<f64> {
    let point = study.last().filter(|_| is_complete(study))?;
    Some(point.touched_per_successful? + point.touched_per_unsuccessful)
}

fn is_complete(study: &Study) -> bool {
    study.refusals.is_empty() && study.given_up.is_none()
}

fn best(studies: &[Study], on_disk: bool) -> Option<(&Study, &Point)> {
    let able = studies.iter().filter(|study| study.kind.on_disk() == on_disk && touched(study).is_some());
    let best = able.min_by(|a, b| touched(a).partial_cmp(&touched(b)).unwrap_or(std::cmp::Ordering::Equal))?;
    Some((best, best.last()?))
}

fn answer(page: &mut Page, report: &Report) {
    let (mut tiles, mut verdict) = (Vec::new(), Vec::new());
    for (on_disk, name) in [(true, "on disk"), (false, "in memory")] {
        let Some((study, point)) = best(&report.studies, on_disk) else { continue };
        let [successful, unsuccessful, memory, ..] = text::cells(point);
        verdict.push(format!("{name} {}", study.kind.name()));
        let tile = if on_disk { "Fewest pages, on disk" } else { "Fewest entries, in memory" };
        let note = format!("{successful} successful, {unsuccessful} unsuccessful; {memory} of memory for addressing");
        tiles.push(Tile { name: tile, value: study.kind.name().to_owned(), note });
    }
    let ours = report.studies.iter().find(|study| study.kind == SchemeKind::Splitpoint);
    if let Some(point) = ours.and_then(Study::last) {
        let [successful, unsuccessful, memory, ..] = text::cells(point);
        let note = format!("{successful} successful, {unsuccessful} unsuccessful; {memory} of memory for addressing");
        tiles.push(Tile { name: "Splitpoint's table", value: "splitpoint".to_owned(), note });
    }
    let verdict = match verdict.len() {
        0 => "No scheme took all keys".to_owned(),
        _ => format!("The cheapest lookups: {}", verdict.join(", ")),
    };
    page.answer(&verdict, &tiles, &text::answer(report));
}

/// One row for each scheme, or for each point of a single scheme.
fn table(studies: &[Study]) -> Table {
    let columns: Vec<_> = text::COLUMNS.split_whitespace().collect();
    let cells = |study: &Study, point: &Point| {
        let refused = !study.refusals.is_empty() && point.refused > 0;
        let mut cells: Vec<_> = text::cells(point).iter().map(Cell::from).collect();
        if refused && let Some(last) = cells.pop() {
            cells.push(last.with(Mark::Bad));
        }
        cells
    };
    if let [study] = studies {
        let mut table = Table::new(study.kind.name(), &[&["keys"], &columns[..]].concat());
        for point in &study.points {
            table.row(Kind::Plain, std::iter::once(grouped(point.keys as u64).into()).chain(cells(study, point)));
        }
        return table;
    }
    let mut table = Table::new("With all keys", &[&["scheme", "where", "function"], &columns[..]].concat());
    let leaders = [best(studies, true), best(studies, false)].map(|best| best.map(|(study, _)| study.kind));
    for (study, point) in studies.iter().filter_map(|study| Some((study, study.last()?))) {
        let kind = if leaders.contains(&Some(study.kind)) { Kind::Best } else { Kind::Plain };
        let place = if study.kind.on_disk() { "disk" } else { "memory" };
        let names = [Cell::from(study.kind.name()), place.into(), study.function.into()];
        table.row(kind, names.into_iter().chain(cells(study, point)));
    }
    table
}

impl Plot {
    fn lines(&self, studies: &[Study]) -> Lines {
        let shown = studies.iter().filter(|study| self.shows(study.kind));
        let points = |study: &Study| {
            let points = study.points.iter();
            points.filter_map(|point| Some((point.keys as f64, (self.y)(point)?))).collect()
        };
        let lines = shown.map(|study| Line::new(study.kind.name(), color(study.kind), points(study)));
        let y = if self.floor.is_some() { Axis { floor: self.floor, ..Axis::log("") } } else { Axis::linear("") };
        Lines { title: self.title.to_owned(), x: Axis::log("keys"), y, lines: lines.collect(), band: None }
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
