//! The page of `lab kernel`: tables with the paper's figures next to ours, and histograms of both.

use super::report::{self, buckets_of, charges, hash_ns, load_of, paper_percent, per, percent, relative, verdict};
use super::{Column, HistogramReport, Report, TableReport};
use crate::cmd::lab::page::plot::{Axis, Line, Lines};
use crate::cmd::lab::page::table::{Cell, Dots, Kind, Mark, Table};
use crate::cmd::lab::page::{Page, Tile};
use crate::number::{count_of, grouped};
use splitpoint_lab::kernel::figures::{Experiment, PAPER_TABLES};
use splitpoint_lab::kernel::study::{Measured, Shape};

/// The bucket sizes with a point of their own in a histogram; larger ones share the last point.
const SIZES: usize = 16;

/// Returns the page of the report.
pub fn of(report: &Report) -> String {
    let mut page = Page::new("splitpoint lab kernel", "Hash tables of Linux 2.2.5", &report.about.join("; "));
    answer(&mut page, report);
    if !report.tables.is_empty() {
        page.heading(
            "Tables",
            "Percent of the reference kernel: scripts an hour of a whole machine in the paper, lookups a second of the \
             tables alone here. Hash: nanoseconds to compute the function. Successful, \
             unsuccessful: objects compared in such a lookup. First: without the first run.",
        );
        page.constant(
            "<p class=\"scale\"><span><i class=\"dot ours\"></i> here</span> \
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
            page.note(&verdict(experiment, column));
            charges(experiment, column).iter().for_each(|line| page.note(line));
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

fn answer(page: &mut Page, report: &Report) {
    let columns = report.tables.iter().flat_map(|table| &table.columns);
    let verdicts: Vec<_> = columns.filter_map(|column| column.verdict.as_ref()).collect();
    let same = verdicts.iter().filter(|verdict| verdict.same_order()).count();
    let sentence = match verdicts.len() {
        0 if report.tables.is_empty() => "How full the buckets are, here and in the paper".to_owned(),
        0 => "The kernels on these files".to_owned(),
        count => format!("The paper's order is reproduced in {same} of {}", count_of(count as u64, "comparison")),
    };
    let mut tiles = Vec::new();
    if !verdicts.is_empty() {
        let (agreeing, separated) = verdicts.iter().fold((0, 0), |(agreeing, separated), verdict| {
            (agreeing + verdict.agreeing, separated + verdict.separated)
        });
        tiles.push(Tile {
            name: "Pairs in the paper's order",
            value: format!("{agreeing} of {separated}"),
            note: "of those that the paper separates".to_owned(),
        });
    }
    if let Some(HistogramReport { histogram, shape, .. }) = report.histograms.iter().max_by_key(|of| of.shape.largest())
    {
        tiles.push(Tile {
            name: "Largest bucket",
            value: grouped(shape.largest() as u64),
            note: format!("Histogram {}; paper: {}", histogram.number, grouped(histogram.paper.largest)),
        });
    }
    page.answer(&sentence, &tiles, &report::answer(report));
}

fn table(experiment: &Experiment, columns: &[Column], column: &Column) -> Table {
    let in_paper = experiment.number <= PAPER_TABLES;
    let mut names = vec!["kernel", "buckets", "on one scale"];
    names.extend(in_paper.then_some("paper"));
    names.extend([
        "here",
        "lookups/s",
        "hash",
        "successful",
        "unsuccessful",
        "objects",
        "largest",
        "dev",
        "first",
        "max",
        "s",
        "runs",
    ]);
    if in_paper {
        names.extend(["paper: dev", "paper: first", "paper: max"]);
    }
    let mut table = Table::new(&format!("Table {}: {}", experiment.number, load_of(column.scripts)), &names);
    let ends = ends(experiment, columns);
    let reference = &column.measured[0];
    for (number, (kernel, measured)) in experiment.kernels.iter().zip(&column.measured).enumerate() {
        let of_reference = |value: f64| relative(value, reference.lookups_per_second);
        let here = of_reference(measured.lookups_per_second);
        let paper = paper_percent(experiment, kernel, column.paper);
        let sum = |of: fn(&Shape) -> u64| measured.shapes.iter().map(of).sum::<u64>();
        let mark = match here {
            Some(percent) if number > 0 && percent < 50.0 => Mark::Bad,
            Some(percent) if number > 0 && percent > 100.0 => Mark::Good,
            _ => Mark::None,
        };
        let first = measured.without_first.zip(reference.without_first);
        let first = first.and_then(|((here, _), (base, _))| relative(here, base));
        let mut cells: Vec<Cell> = vec![
            kernel.name.as_str().into(),
            buckets_of(kernel).into(),
            Dots { ours: here, paper: paper.mean, ends, base: 100.0 }.into(),
        ];
        cells.extend(in_paper.then(|| percent(paper.mean).into()));
        cells.push(Cell::marked(&percent(here), mark));
        let more = [
            grouped(measured.lookups_per_second.round() as u64),
            hash_ns(measured).map_or("-".to_owned(), |ns| format!("{ns:.1}")),
            per(sum(|shape| shape.counts.compared_in_successful), sum(|shape| shape.counts.successful)),
            per(sum(|shape| shape.counts.compared_in_unsuccessful), sum(|shape| shape.counts.unsuccessful)),
            grouped(sum(Shape::objects)),
            largest(measured).to_string(),
            percent(of_reference(measured.deviation)),
            percent(first),
            percent(relative(measured.maximum, reference.maximum)),
            format!("{:.2}", measured.elapsed.as_secs_f64()),
            measured.runs.to_string(),
        ];
        cells.extend(more.iter().map(Cell::from));
        if in_paper {
            let deviation = paper.deviation.map_or("-".to_owned(), |deviation| format!("{deviation:.2}"));
            cells.extend([deviation, percent(paper.without_first), percent(paper.maximum)].iter().map(Cell::from));
        }
        table.row(Kind::Plain, cells);
    }
    table
}

fn largest(measured: &Measured) -> usize {
    measured.shapes.iter().map(Shape::largest).max().unwrap_or(0)
}

/// Returns the ends of the scale of all loads of an experiment, so that they can be compared.
fn ends(experiment: &Experiment, columns: &[Column]) -> (f64, f64) {
    let figures = columns.iter().flat_map(|column| {
        let reference = column.measured[0].lookups_per_second;
        let ours = column.measured.iter().map(move |measured| relative(measured.lookups_per_second, reference));
        let paper = experiment.kernels.iter().map(|kernel| paper_percent(experiment, kernel, column.paper).mean);
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
    let lines = vec![Line::new("here", 0, ours.collect()), Line::new("paper", 1, theirs.collect())];
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

/// Returns the figures above each histogram of the paper.
fn facts(histograms: &[HistogramReport]) -> Table {
    let names = [
        "histogram",
        "of",
        "lookups",
        "successful",
        "buckets",
        "objects",
        "largest",
        "compared in 1,000",
        "a successful one",
        "an unsuccessful one",
    ];
    let mut table = Table::new("Histograms", &names);
    for HistogramReport { histogram, scripts, shape } in histograms {
        let (counts, paper) = (&shape.counts, &histogram.paper);
        let lookups = counts.lookups().max(1);
        let compared = counts.compared_in_successful + counts.compared_in_unsuccessful;
        let name = format!("{}: {}", histogram.number, histogram.title);
        let ours = [
            name.clone(),
            load_of(*scripts),
            grouped(counts.lookups()),
            format!("{} %", 100 * counts.successful / lookups),
            grouped(shape.buckets.unwrap_or(0)),
            grouped(shape.objects()),
            grouped(shape.largest() as u64),
            grouped(1000 * compared / lookups),
            per(counts.compared_in_successful, counts.successful),
            per(counts.compared_in_unsuccessful, counts.unsuccessful),
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
            "-".to_owned(),
            "-".to_owned(),
        ];
        table.row(Kind::Plain, ours.iter().map(Cell::from));
        table.row(Kind::Model, theirs.iter().map(Cell::from));
    }
    table
}
