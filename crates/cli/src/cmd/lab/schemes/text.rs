//! The report for a terminal of 80 columns: the answer; one line for each scheme, or for each point of a single scheme;
//! then the problems.

use super::Report;
use crate::cmd::lab::wrap::wrapped;
use crate::escapes::quoted;
use crate::number::{count_of, grouped, size};
use splitpoint_lab::schemes::{Point, Study, WORK_MAX};

pub fn lines(report: &Report) -> Vec<String> {
    let mut lines = vec![head(report), String::new()];
    let answer = answer(report);
    if !answer.is_empty() {
        lines.extend(answer.iter().flat_map(|line| wrapped(line)));
        lines.push(String::new());
    }
    match &report.studies[..] {
        [study] => growth(study, &mut lines),
        studies => last_points(studies, &mut lines),
    }
    lines.push(String::new());
    lines.extend(LEGEND.iter().map(|line| (*line).to_owned()));
    let notes: Vec<String> = report.studies.iter().flat_map(notes).collect();
    if !notes.is_empty() {
        lines.push(String::new());
        lines.extend(notes);
    }
    lines
}

/// The answer, for several schemes on disk or in memory: which are best at what, and which cannot store all keys.
pub fn answer(report: &Report) -> Vec<String> {
    let place = |on_disk: bool| {
        let studies = report.studies.iter().filter(|study| study.kind.on_disk() == on_disk);
        let all: Vec<_> = studies.filter_map(|study| Some((study, study.last()?))).collect();
        if all.len() < 2 {
            return None;
        }
        let (name, unit) = if on_disk { ("On disk", "pages") } else { ("In memory", "entries") };
        // Schemes that cannot store all keys are not compared, since they have fewer keys to find.
        let whole = || all.iter().filter(|(study, point)| point.refused == 0 && study.given_up.is_none());
        let least = |figure: &dyn Fn(&Point) -> f64| {
            let best = whole().min_by(|a, b| figure(a.1).total_cmp(&figure(b.1)))?;
            let equal = whole().filter(|(_, point)| figure(point) - figure(best.1) <= figure(best.1).abs() * 0.005);
            let names: Vec<_> = equal.map(|(study, _)| study.kind.name()).collect();
            Some((names.join(", "), figure(best.1)))
        };
        let (successful, touched_by_successful) = least(&|point| point.touched_per_successful.unwrap_or(f64::MAX))?;
        let (unsuccessful, touched_by_unsuccessful) = least(&|point| point.touched_per_unsuccessful)?;
        let (fullest, full) = least(&|point| -point.figures.utilisation_percent())?;
        let refused: Vec<_> =
            all.iter().filter(|(_, point)| point.refused > 0).map(|(study, _)| study.kind.name()).collect();
        let refused = match &refused[..] {
            [] => String::new(),
            names => format!(" Not all keys fit in {}.", names.join(", ")),
        };
        Some(format!(
            "{name}: fewest {unit} in a successful lookup: {successful} ({}); in an unsuccessful one: \
             {unsuccessful} ({}); fullest: {fullest} ({:.0} %).{refused}",
            touched(touched_by_successful),
            touched(touched_by_unsuccessful),
            -full
        ))
    };
    [true, false].into_iter().filter_map(place).collect()
}

/// The meaning of the columns.
pub const LEGEND: [&str; 4] = [
    "hit, miss: pages (on disk) or entries (in memory) that a successful and an",
    "unsuccessful lookup touches; memory: for addressing; full: bytes of pairs in",
    "percent of the bytes that hold them; longest: the most pages that one insert",
    "wrote, or entries that it moved.",
];

/// Returns the keys and the parameters.
pub fn head(report: &Report) -> String {
    let duplicates = match report.duplicates {
        0 => String::new(),
        count => format!(" ({} left out)", count_of(count as u64, "duplicate")),
    };
    let (least, most) = (report.value_bytes.start(), report.value_bytes.end());
    let values = if least == most { least.to_string() } else { format!("{least} to {most}") };
    format!(
        "{} from {}{duplicates}, values of {values} bytes, pages of {}",
        count_of(report.count as u64, "key"),
        report.keys,
        size(report.options.page_bytes as u64)
    )
}

fn last_points(studies: &[Study], lines: &mut Vec<String>) {
    lines.push(format!("{:<17}{:<10}{}", "scheme", "function", COLUMNS));
    let mut on_disk = studies.first().is_some_and(|study| study.kind.on_disk());
    for (study, point) in studies.iter().filter_map(|study| Some((study, study.last()?))) {
        if study.kind.on_disk() != on_disk {
            on_disk = !on_disk;
            lines.push(String::new());
        }
        lines.push(format!("{:<17}{:<10}{}", study.kind.name(), study.function, columns(point)));
    }
}

fn growth(study: &Study, lines: &mut Vec<String>) {
    lines.push(format!("{}, function {}", study.kind.name(), study.function));
    lines.push(format!("{:>12}{}", "keys", COLUMNS));
    for point in &study.points {
        lines.push(format!("{:>12}{}", grouped(point.keys as u64), columns(point)));
    }
}

/// The column names of [`cells`].
pub const COLUMNS: &str = "    hit   miss    memory  full    splits longest refused";

fn columns(point: &Point) -> String {
    let [hit, miss, memory, full, splits, longest, refused] = cells(point);
    format!("{hit:>7}{miss:>7}{memory:>10}{full:>6}{splits:>10}{longest:>8}{refused:>8}")
}

/// Returns the figures of a point, in the order of [`COLUMNS`].
pub fn cells(point: &Point) -> [String; 7] {
    let figures = &point.figures;
    [
        point.touched_per_successful.map_or("-".to_owned(), touched),
        touched(point.touched_per_unsuccessful),
        size(figures.addressing_bytes),
        format!("{:.0}%", figures.utilisation_percent()),
        grouped(figures.splits),
        grouped(figures.longest_pause),
        grouped(point.refused),
    ]
}

fn touched(mean: f64) -> String {
    if mean < 100.0 { format!("{mean:.2}") } else { grouped(mean.round() as u64) }
}

/// Returns the problems of a scheme, and other remarks.
pub fn notes(study: &Study) -> Vec<String> {
    let name = study.kind.name();
    let mut notes: Vec<String> = study
        .refusals
        .iter()
        .map(|refusals| {
            let (key, value_bytes) = (quoted(&refusals.example), refusals.value_bytes);
            let count = count_of(refusals.count, "key");
            format!(
                "{name}: {count} could not be stored. The first, {key} with a value of {value_bytes} bytes: {}.",
                refusals.reason
            )
        })
        .collect();
    let Some(point) = study.last() else { return notes };
    let figures = &point.figures;
    if figures.file_bytes > figures.store_bytes + figures.store_bytes / 4 {
        let (file, written) = (size(figures.file_bytes), size(figures.store_bytes));
        notes.push(format!("{name}: its file is {file} long, of which {written} are written and the rest is holes."));
    }
    if let Some(given_up) = study.given_up {
        let (keys, work) = (count_of(given_up.keys as u64, "key"), grouped(WORK_MAX));
        notes.push(format!(
            "{name}: ended after {keys}, which took more than {work} comparisons; its figures are for those keys."
        ));
    }
    notes
}
