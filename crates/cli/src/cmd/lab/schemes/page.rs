//! The report as one page of HTML that needs nothing else: plots over the number of keys, the table, what went wrong.

use super::{Report, text};
use plotters::prelude::*;
use splitpoint_lab::schemes::{Point, SchemeKind, Study};
use std::error::Error;
use std::fmt::Write;

/// Which schemes a plot has.
#[derive(Clone, Copy, PartialEq, Eq)]
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
    // A logarithm has no zero; a miss may look at nothing.
    Plot {
        title: "Entries per miss, in memory",
        shown: Shown::InMemory,
        y_is_log: true,
        y: |p| Some(p.miss.max(0.01)),
    },
    Plot {
        title: "Memory for addressing, bytes",
        shown: Shown::All,
        y_is_log: true,
        y: |p| Some(p.figures.addressing_bytes as f64),
    },
    Plot {
        title: "Bytes of pairs in percent of what holds them",
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

const SIZE: (u32, u32) = (620, 340);

const STYLE: &str = "body{font:15px/1.45 sans-serif;max-width:1290px;margin:2em auto;padding:0 1em;color:#222;background:#fff}\
pre{overflow-x:auto;font-size:13px;background:#f6f6f6;padding:1em}.plots{display:flex;flex-wrap:wrap;gap:8px}\
.legend span{display:inline-block;margin-right:1.2em}.legend b{display:inline-block;width:1.6em;height:.25em;margin-right:.4em;\
vertical-align:middle}svg{max-width:100%;height:auto}";

pub fn html(report: &Report) -> Result<String, Box<dyn Error>> {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width\">");
    write!(page, "<title>Access methods: {}</title><style>{STYLE}</style></head>\n<body>", escaped(&report.keys))?;
    page.push_str(
        "<h1>Access methods, fed with your keys</h1>\n<p>Models of the access methods that Seltzer and Yigit ",
    );
    page.push_str("describe in 1991, and of Splitpoint's table. Counts, no times.</p>\n<p class=\"legend\">");
    for study in &report.studies {
        let RGBColor(r, g, b) = color(study.kind);
        let name = study.kind.name();
        write!(page, "<span><b style=\"background:rgb({r},{g},{b})\"></b>{name} ({})</span>", escaped(study.function))?;
    }
    page.push_str("</p>\n<div class=\"plots\">\n");
    for plot in &PLOTS {
        page.push_str(&plot.svg(&report.studies)?);
    }
    page.push_str("</div>\n<h2>With all keys</h2>\n<pre>");
    for line in text::lines(report) {
        writeln!(page, "{}", escaped(&line))?;
    }
    page.push_str("</pre>\n</body></html>\n");
    Ok(page)
}

impl Plot {
    /// Nothing, if none of its schemes was studied.
    fn svg(&self, studies: &[Study]) -> Result<String, Box<dyn Error>> {
        let scaled = |y: f64| if self.y_is_log { y.max(1e-3).log10() } else { y };
        let lines: Vec<(RGBColor, Vec<(f64, f64)>)> = studies
            .iter()
            .filter(|study| self.shows(study.kind))
            .map(|study| {
                let points = study.points.iter();
                let drawn = points.filter_map(|p| Some(((p.keys as f64).log10(), scaled((self.y)(p)?))));
                (color(study.kind), drawn.collect())
            })
            .collect();
        let all = || lines.iter().flat_map(|(_, points)| points);
        if all().next().is_none() {
            return Ok(String::new());
        }
        let (x, y) = (range(all().map(|p| p.0), true), range(all().map(|p| p.1), self.y_is_log));
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            let mut chart = ChartBuilder::on(&area)
                .caption(self.title, ("sans-serif", 16))
                .margin(8)
                .x_label_area_size(36)
                .y_label_area_size(64)
                .build_cartesian_2d(x, y)?;
            chart
                .configure_mesh()
                .x_desc("keys")
                .x_label_formatter(&|x| short(10_f64.powf(*x)))
                .y_label_formatter(&|y| short(if self.y_is_log { 10_f64.powf(*y) } else { *y }))
                .light_line_style(WHITE)
                .draw()?;
            for (color, points) in lines {
                chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
            }
            area.present()?;
        }
        Ok(svg)
    }

    fn shows(&self, kind: SchemeKind) -> bool {
        match self.shown {
            Shown::OnDisk => kind.on_disk(),
            Shown::InMemory => !kind.on_disk(),
            Shown::All => true,
        }
    }
}

/// From the least, or 0, to a little above the most; never empty.
fn range(values: impl Iterator<Item = f64> + Clone, is_log: bool) -> std::ops::Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    let least = if is_log { least } else { least.min(0.0) };
    least..most + ((most - least) * 0.04).max(0.05)
}

fn color(kind: SchemeKind) -> RGBColor {
    match kind {
        SchemeKind::Dbm => RGBColor(31, 119, 180),
        SchemeKind::Sdbm => RGBColor(23, 190, 207),
        SchemeKind::Gdbm => RGBColor(44, 160, 44),
        SchemeKind::Hsearch => RGBColor(255, 127, 14),
        SchemeKind::HsearchDiv => RGBColor(214, 39, 40),
        SchemeKind::HsearchBrent => RGBColor(230, 180, 30),
        SchemeKind::HsearchChained => RGBColor(148, 103, 189),
        SchemeKind::HsearchSortUp => RGBColor(227, 119, 194),
        SchemeKind::HsearchSortDown => RGBColor(140, 86, 75),
        SchemeKind::Dynahash => RGBColor(110, 130, 20),
        SchemeKind::Hash1991 => RGBColor(127, 127, 127),
        SchemeKind::Splitpoint => RGBColor(0, 0, 0),
    }
}

/// A number on an axis.
fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        1e12.. => (value / 1e12, "T"),
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "K"),
        _ => (value, ""),
    };
    let digits = usize::from(value < 10.0 && value.fract() > 0.01) + usize::from(value < 1.0 && value > 0.0);
    format!("{value:.digits$}{unit}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        assert_eq!([0.0, 0.25, 1.5, 12.0, 4096.0, 2.5e6].map(short), ["0", "0.25", "1.5", "12", "4.1K", "2.5M"]);
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("<b>&\""), "&lt;b&gt;&amp;&quot;");
    }
}
