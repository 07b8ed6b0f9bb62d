//! The page of `lab kernel`: tables with the paper's figures beside ours, and histograms of both.

use super::plot::{Axis, Line, Lines};
use super::table::{Cell, Dots, Kind, Mark, Table};
use super::{Page, Tile};
use crate::cmd::lab::kernel::report::{buckets_of, load_of, paper_relative, per, percent, relative};
use crate::cmd::lab::kernel::{Column, HistogramReport, Report, TableReport};
use crate::number::{count_of, grouped};
use splitpoint_lab::kernel::figures::Experiment;
use splitpoint_lab::kernel::study::{Kernel, Measured, Shape};

/// The bucket sizes with a point of their own in a histogram; larger ones share the last point.
const SIZES: usize = 16;

/// The page of the report.
pub fn of(report: &Report) -> String {
    let mut page = Page::new("splitpoint lab kernel", "Hash tables of Linux 2.2.5", &report.about.join("; "));
    answer(&mut page, report);
    if !report.tables.is_empty() {
        page.heading(
            "Tables",
            "Percent of the reference kernel: scripts an hour of a whole machine in the paper, lookups a second of the \
             tables alone here. Hit and miss are the objects that a lookup compares.",
        );
        page.constant(
            "<p class=\"scale\"><span><i class=\"dot ours\"></i> ours</span> \
             <span><i class=\"dot paper\"></i> paper</span> \
             <span>on a logarithmic scale; the line is the reference, 100 %</span></p>\n",
        );
    }
    for TableReport { experiment, columns } in &report.tables {
        page.subheading(&format!("Table {}: {}", experiment.number, experiment.title));
        for column in columns {
            let lookups: u64 = column.measured[0].shapes.iter().map(|shape| shape.counts.lookups()).sum();
            page.note(&format!("{}, {} lookups", load_of(column.scripts), grouped(lookups)));
            page.table(&table(experiment, columns, column));
        }
    }
    if !report.histograms.is_empty() {
        page.heading(
            "Histograms",
            "The share of the objects that lie in buckets of each size: a table whose line is far to the right has \
             long chains.",
        );
        let plots: Vec<_> = report.histograms.iter().map(histogram).collect();
        page.grid_of_lines(&plots);
        page.table(&facts(&report.histograms));
    }
    page.finish()
}

fn name(kernel: &Kernel) -> String {
    format!("{} ({})", kernel.name, buckets_of(kernel))
}

/// The kernel with the highest figure.
fn fastest(experiment: &Experiment, of: impl Fn(usize, &Kernel) -> Option<f64>) -> Option<(&Kernel, f64)> {
    let kernels = experiment.kernels.iter().enumerate().filter(|(_, kernel)| !kernel.paper.is_empty());
    let figures = kernels.filter_map(|(number, kernel)| Some((kernel, of(number, kernel)?)));
    figures.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn answer(page: &mut Page, report: &Report) {
    let mut lines = Vec::new();
    let (mut same, mut compared) = (0, 0);
    for TableReport { experiment, columns } in &report.tables {
        let Some(column) = columns.last() else { continue };
        let reference = column.measured[0].lookups_per_second;
        let ours = fastest(experiment, |number, _| relative(column.measured[number].lookups_per_second, reference));
        let paper = fastest(experiment, |_, kernel| paper_relative(experiment, kernel, column.paper));
        let Some((kernel, by)) = ours else { continue };
        let mut line = format!(
            "Table {}, {}, {}: {} is the fastest of the paper's kernels here, with {by:.0} % of the reference",
            experiment.number,
            experiment.title,
            load_of(column.scripts),
            name(kernel)
        );
        match paper {
            Some((theirs, _)) if name(theirs) == name(kernel) => {
                same += 1;
                compared += 1;
                line += ", as in the paper";
            }
            Some((theirs, by)) => {
                compared += 1;
                line += &format!("; in the paper {} with {by:.1} %", name(theirs));
            }
            None => {}
        }
        lines.push(line + ".");
    }
    let verdict = match compared {
        0 if report.tables.is_empty() => "How full the buckets are, here and in the paper".to_owned(),
        0 => "The kernels on these files".to_owned(),
        count => format!("The paper's fastest kernel is the fastest here in {same} of {}", count_of(count, "table")),
    };
    let largest = report.histograms.iter().max_by_key(|of| of.shape.largest());
    let tiles = largest.map(|HistogramReport { histogram, shape, .. }| Tile {
        name: "Largest bucket",
        value: grouped(shape.largest() as u64),
        note: format!("Histogram {}; paper: {}", histogram.number, grouped(histogram.paper.largest)),
    });
    page.answer(&verdict, tiles.as_slice(), &lines);
}

fn table(experiment: &Experiment, columns: &[Column], column: &Column) -> Table {
    let names = [
        "kernel",
        "buckets",
        "on one scale",
        "paper",
        "ours",
        "lookups/s",
        "s",
        "hit",
        "miss",
        "hits",
        "objects",
        "largest",
    ];
    let mut table = Table::new(&format!("Table {}: {}", experiment.number, load_of(column.scripts)), &names);
    let ends = ends(experiment, columns);
    for (number, (kernel, measured)) in experiment.kernels.iter().zip(&column.measured).enumerate() {
        let reference = column.measured[0].lookups_per_second;
        let ours = relative(measured.lookups_per_second, reference);
        let paper = paper_relative(experiment, kernel, column.paper);
        let sum = |of: fn(&Shape) -> u64| measured.shapes.iter().map(of).sum::<u64>();
        let (hits, misses) = (sum(|shape| shape.counts.hits), sum(|shape| shape.counts.misses));
        let rate = 100.0 * hits as f64 / (hits + misses).max(1) as f64;
        let mark = match ours {
            Some(percent) if number > 0 && percent < 50.0 => Mark::Bad,
            Some(percent) if number > 0 && percent > 100.0 => Mark::Good,
            _ => Mark::None,
        };
        let cells = [
            kernel.name.into(),
            buckets_of(kernel).into(),
            Dots { ours, paper, ends, base: 100.0 }.into(),
            percent(paper).into(),
            Cell::marked(&percent(ours), mark),
            grouped(measured.lookups_per_second.round() as u64).into(),
            grouped(measured.deviation.round() as u64).into(),
            per(sum(|shape| shape.counts.compared_in_hits), hits).into(),
            per(sum(|shape| shape.counts.compared_in_misses), misses).into(),
            format!("{rate:.0} %").into(),
            grouped(sum(Shape::objects)).into(),
            largest(measured).to_string().into(),
        ];
        table.row(Kind::Plain, cells);
    }
    table
}

fn largest(measured: &Measured) -> usize {
    measured.shapes.iter().map(Shape::largest).max().unwrap_or(0)
}

/// The ends of the scale of all loads of an experiment, so that they can be compared.
fn ends(experiment: &Experiment, columns: &[Column]) -> (f64, f64) {
    let figures = columns.iter().flat_map(|column| {
        let reference = column.measured[0].lookups_per_second;
        let ours = column.measured.iter().map(move |measured| relative(measured.lookups_per_second, reference));
        let paper = experiment.kernels.iter().map(|kernel| paper_relative(experiment, kernel, column.paper));
        ours.chain(paper).flatten().filter(|figure| *figure > 0.0)
    });
    figures.fold((90.0, 110.0), |(low, high), figure| (figure.min(low), figure.max(high)))
}

fn histogram(HistogramReport { histogram, scripts, shape }: &HistogramReport) -> Lines {
    let share = |objects: u64, all: u64| 100.0 * objects as f64 / all.max(1) as f64;
    let ours = (0..=SIZES).map(|size| {
        let objects = match size {
            SIZES => shape.objects_above(SIZES - 1),
            size => shape.sizes.get(&size).copied().unwrap_or(0) * size as u64,
        };
        (size as f64, share(objects, shape.objects()))
    });
    let paper = &histogram.paper;
    let small: u64 = (0..SIZES).map(|size| paper.buckets[size] * size as u64).sum();
    let theirs = (0..=SIZES).map(|size| {
        let objects =
            if size < SIZES { paper.buckets[size] * size as u64 } else { paper.objects.saturating_sub(small) };
        (size as f64, share(objects, paper.objects))
    });
    let lines = vec![Line::new("ours", 0, ours.collect()), Line::new("paper", 1, theirs.collect())];
    let x = Axis {
        is_whole: true,
        labels: vec![(SIZES as f64, format!(">{}", SIZES - 1))],
        ..Axis::linear("objects in a bucket")
    };
    Lines {
        title: format!("Histogram {}: {} ({})", histogram.number, histogram.title, load_of(*scripts)),
        x,
        y: Axis { unit: " %", ..Axis::linear("objects") },
        lines,
        band: None,
    }
}

/// The figures above each histogram of the paper.
fn facts(histograms: &[HistogramReport]) -> Table {
    let names = ["histogram", "of", "lookups", "hits", "buckets", "objects", "largest", "compared in 1,000"];
    let mut table = Table::new("Histograms", &names);
    for HistogramReport { histogram, scripts, shape } in histograms {
        let (counts, paper) = (&shape.counts, &histogram.paper);
        let lookups = counts.lookups().max(1);
        let compared = counts.compared_in_hits + counts.compared_in_misses;
        let name = format!("{}: {}", histogram.number, histogram.title);
        let ours = [
            name.clone(),
            load_of(*scripts),
            grouped(counts.lookups()),
            format!("{} %", 100 * counts.hits / lookups),
            grouped(shape.buckets.unwrap_or(0)),
            grouped(shape.objects()),
            grouped(shape.largest() as u64),
            grouped(1000 * compared / lookups),
        ];
        let theirs = [
            name,
            "paper".to_owned(),
            grouped(paper.lookups),
            format!("{} %", paper.hit_rate),
            grouped(paper.buckets.iter().sum()),
            grouped(paper.objects),
            grouped(paper.largest),
            grouped(paper.iterations),
        ];
        table.row(Kind::Plain, ours.iter().map(Cell::from));
        table.row(Kind::Model, theirs.iter().map(Cell::from));
    }
    table
}
