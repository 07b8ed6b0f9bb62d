//! Line plots: data for the script of the page (`assets/page.js`), and SVG for browsers without scripts and for files.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use serde_json::{Value, json};

/// The size of a full-width plot in SVG, and of one of two side by side.
const SIZE: (u32, u32) = (1000, 460);
const SMALL: (u32, u32) = (500, 300);

/// The legend is to the right of the plot area.
const LEGEND_WIDTH: u32 = 144;

/// Font and size; plotters turns this size into 12.9 units.
const TEXT: (&str, u32) = ("sans-serif", 16);

/// The lengths of a dash and of a gap.
const DASH: (i32, i32) = (6, 5);

/// The area in which chance explains a value.
const CHANCE: RGBColor = RGBColor(225, 228, 233);

/// Line colors in SVG, distinct from each other on white; `c0` to `c11` in `assets/page.css`.
const COLORS: [RGBColor; 12] = [
    RGBColor(0x25, 0x63, 0xeb),
    RGBColor(0xe8, 0x59, 0x0c),
    RGBColor(0x15, 0x8a, 0x4a),
    RGBColor(0xd2, 0x2f, 0x3d),
    RGBColor(0x75, 0x41, 0xd8),
    RGBColor(0x8d, 0x5a, 0x2b),
    RGBColor(0xcf, 0x2f, 0x86),
    RGBColor(0x5f, 0x7d, 0x0a),
    RGBColor(0x0b, 0x8a, 0xa5),
    RGBColor(0xb9, 0x87, 0x00),
    RGBColor(0x66, 0x70, 0x80),
    RGBColor(0x1f, 0x2f, 0x7a),
];

/// A line of a plot.
pub struct Line {
    pub name: String,
    /// An index into [`COLORS`]; expected values have none and are dashed.
    color: Option<usize>,
    /// Whether it is hidden at first: its values are so far from the others that it would compress them.
    pub is_off: bool,
    points: Vec<(f64, f64)>,
}

impl Line {
    /// Creates a solid line; `color` is an index into [`COLORS`], modulo its length.
    pub fn new(name: &str, color: usize, points: Vec<(f64, f64)>) -> Self {
        Line { name: name.to_owned(), color: Some(color % COLORS.len()), is_off: false, points }
    }

    /// Creates a dashed line of expected values.
    pub fn expected(name: &str, points: Vec<(f64, f64)>) -> Self {
        Line { name: name.to_owned(), color: None, is_off: false, points }
    }

    fn rgb(&self) -> RGBColor {
        self.color.map_or(BLACK, |color| COLORS[color])
    }

    fn class(&self) -> String {
        self.color.map_or("text".to_owned(), |color| format!("c{color}"))
    }

    fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|point| point.0 == x).map(|point| point.1).filter(|y| y.is_finite())
    }
}

/// An area between two lines in which chance explains a value: x, least, most.
pub struct Band {
    pub name: &'static str,
    pub points: Vec<(f64, f64, f64)>,
}

/// An axis of a plot.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    pub title: &'static str,
    /// Logarithmic, base 2.
    pub is_log: bool,
    /// The text after each number, such as `%`.
    pub unit: &'static str,
    /// The value that stays in the middle of a logarithmic axis, for ratios: 1.
    pub about: Option<f64>,
    /// The least quotient of the ends of a logarithmic axis; with `about`, to each side.
    pub span: Option<f64>,
    /// Values below are drawn here: a logarithmic axis has no 0.
    pub floor: Option<f64>,
    /// Only whole numbers have ticks.
    pub is_whole: bool,
    /// The names of some values.
    pub labels: Vec<(f64, String)>,
}

impl Axis {
    pub fn linear(title: &'static str) -> Self {
        Axis { title, ..Axis::default() }
    }

    pub fn log(title: &'static str) -> Self {
        Axis { title, is_log: true, ..Axis::default() }
    }

    /// Creates an axis of multiples of the random model, at least 10 % to each side.
    pub fn ratio(title: &'static str) -> Self {
        Axis { unit: "×", about: Some(1.0), span: Some(1.1), floor: Some(1.0 / 16.0), ..Axis::log(title) }
    }

    fn scaled(&self, value: f64) -> f64 {
        let value = self.floor.map_or(value, |floor| value.max(floor));
        if self.is_log { value.max(1e-12).log2() } else { value }
    }

    fn label(&self, value: f64) -> String {
        let named = self.labels.iter().find(|(of, _)| *of == value);
        named.map_or_else(|| format!("{}{}", short(value), self.unit), |(_, name)| name.clone())
    }

    fn json(&self) -> Value {
        let labels: serde_json::Map<_, _> =
            self.labels.iter().map(|(value, name)| (value.to_string(), json!(name))).collect();
        json!({
            "title": self.title, "log": self.is_log, "unit": self.unit, "about": self.about, "span": self.span,
            "floor": self.floor, "whole": self.is_whole, "labels": labels,
        })
    }
}

/// A line plot.
pub struct Lines {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
    pub band: Option<Band>,
}

impl Lines {
    pub fn is_empty(&self) -> bool {
        !self.lines.iter().any(|line| line.points.iter().any(|point| self.is_drawable(point)))
    }

    /// Whether it shows only zeros.
    pub fn is_zero(&self) -> bool {
        self.lines.iter().all(|line| line.points.iter().all(|point| point.1 == 0.0))
    }

    fn is_drawable(&self, &(x, y): &(f64, f64)) -> bool {
        x.is_finite() && y.is_finite() && !(self.y.is_log && self.y.floor.is_none() && y <= 0.0)
    }

    /// Returns every x of any line, ascending.
    fn xs(&self) -> Vec<f64> {
        let points = self.lines.iter().flat_map(|line| &line.points).filter(|point| self.is_drawable(point));
        let mut xs: Vec<f64> = points.map(|point| point.0).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    /// The plot for the script of the page. Plots with one `keys` share a legend, those with one `group` a pointer.
    pub fn json(&self, keys: &str, group: Option<&str>) -> Value {
        let xs = self.xs();
        let drawable = |x: f64, y: f64| self.is_drawable(&(x, y)).then_some(y);
        let lines = self.lines.iter().map(|line| {
            let values: Vec<_> = xs.iter().map(|x| line.at(*x).and_then(|y| drawable(*x, y))).collect();
            let (color, dash) = (line.class(), line.color.is_none());
            json!({"name": line.name, "color": color, "dash": dash, "off": line.is_off, "values": values})
        });
        let band = self.band.as_ref().map(|band| {
            let at = |x: f64| band.points.iter().find(|point| point.0 == x);
            let low: Vec<_> = xs.iter().map(|x| at(*x).map(|point| point.1)).collect();
            let high: Vec<_> = xs.iter().map(|x| at(*x).map(|point| point.2)).collect();
            json!({"name": band.name, "low": low, "high": high})
        });
        json!({
            "keys": keys, "group": group, "x": self.x.json(), "y": self.y.json(), "band": band,
            "lines": lines.collect::<Vec<_>>(), "xs": xs,
        })
    }

    /// Returns the values as a table: a row for each x, a column for each line.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let head = std::iter::once(self.x.title.to_owned()).chain(self.lines.iter().map(|line| line.name.clone()));
        let cell = |line: &Line, x: f64| line.at(x).map_or("-".to_owned(), |y| format!("{}{}", exact(y), self.y.unit));
        let rows = self.xs().into_iter().map(|x| {
            let named = self.x.labels.iter().find(|(of, _)| *of == x).map(|(_, name)| name.clone());
            let first = named.unwrap_or_else(|| format!("{}{}", exact(x), self.x.unit));
            std::iter::once(first).chain(self.lines.iter().map(|line| cell(line, x))).collect()
        });
        (head.collect(), rows.collect())
    }

    /// Draws a full-width plot with a legend; returns a sentence if there is nothing to draw.
    pub fn svg(&self) -> String {
        self.drawn(SIZE, true)
    }

    /// Draws a small plot with a legend, for a grid.
    pub fn small_svg(&self) -> String {
        self.drawn(SMALL, true)
    }

    fn drawn(&self, size: (u32, u32), has_legend: bool) -> String {
        let mut svg = String::new();
        match self.draw(&mut svg, size, has_legend) {
            Ok(()) if !svg.is_empty() => svg,
            _ => "<p>Nothing to draw.</p>".to_owned(),
        }
    }

    fn draw(&self, svg: &mut String, size: (u32, u32), has_legend: bool) -> Result<(), Box<dyn std::error::Error>> {
        if self.is_empty() {
            return Ok(());
        }
        let points_of = |line: &Line| -> Vec<(f64, f64)> {
            let points = line.points.iter().filter(|point| self.is_drawable(point));
            points.map(|point| (self.x.scaled(point.0), self.y.scaled(point.1))).collect()
        };
        let all: Vec<_> = self.lines.iter().flat_map(points_of).collect();
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let right = if has_legend { LEGEND_WIDTH + 12 } else { 12 };
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(right)
            .x_label_area_size(42)
            .y_label_area_size(if self.y.title.is_empty() { 58 } else { 76 })
            .build_cartesian_2d(range(all.iter().map(|p| p.0), &self.x), range(all.iter().map(|p| p.1), &self.y))?;
        let label = |axis: &Axis, value: f64| match axis.is_log {
            // Label only powers of two, unless the axis is too short to have them.
            true if axis.about.is_none() && (value - value.round()).abs() > 1e-6 => String::new(),
            true => axis.label(value.exp2()),
            false => axis.label(value),
        };
        chart
            .configure_mesh()
            .x_desc(self.x.title)
            .y_desc(self.y.title)
            // One label for every 60 units across and 36 up.
            .x_labels(size.0 as usize / 60)
            .y_labels(size.1 as usize / 36)
            .x_label_formatter(&|value| label(&self.x, *value))
            .y_label_formatter(&|value| label(&self.y, *value))
            .label_style(TEXT)
            .axis_desc_style(TEXT)
            .light_line_style(WHITE)
            .draw()?;
        if let Some(band) = &self.band {
            let low = band.points.iter().map(|&(x, low, _)| (x, low));
            let high = band.points.iter().rev().map(|&(x, _, high)| (x, high));
            let outline: Vec<_> = low.chain(high).map(|(x, y)| (self.x.scaled(x), self.y.scaled(y))).collect();
            chart.draw_series(std::iter::once(Polygon::new(outline, CHANCE.filled())))?;
        }
        for line in &self.lines {
            let style = line.rgb().stroke_width(2);
            if line.color.is_none() {
                chart.draw_series(DashedLineSeries::new(points_of(line), DASH.0, DASH.1, style))?;
            } else {
                chart.draw_series(LineSeries::new(points_of(line), style))?;
            }
        }
        if has_legend {
            let left = size.0 as i32 - LEGEND_WIDTH as i32;
            for (line, y) in self.lines.iter().zip((24..).step_by(19)) {
                let style = line.rgb().stroke_width(2);
                if line.color.is_none() {
                    area.draw(&DashedPathElement::new([(left, y), (left + 22, y)], DASH.0, DASH.1, style))?;
                } else {
                    area.draw(&PathElement::new([(left, y), (left + 22, y)], style))?;
                }
                area.draw(&Text::new(line.name.as_str(), (left + 30, y - 6), TEXT))?;
            }
        }
        area.present()?;
        Ok(())
    }
}

/// Returns the range of an axis, in its scale: from the minimum, or 0, to a little above the maximum. A logarithmic
/// axis includes at least two powers of two, because only those have labels, or `span` to each side of `about`.
fn range(values: impl Iterator<Item = f64> + Clone, axis: &Axis) -> std::ops::Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if let (true, Some(about), Some(span)) = (axis.is_log, axis.about, axis.span) {
        return least.min((about / span).log2())..most.max((about * span).log2()) + 0.01;
    }
    if axis.is_log && most.floor() - least.ceil() < 1.0 {
        return least.floor()..most.ceil().max(least.floor() + 1.0) + 0.03;
    }
    let least = if axis.is_log { least } else { least.min(0.0) };
    // An axis of zeros still needs a length.
    least..most + if most > least { (most - least) * 0.03 } else { 1.0 }
}

/// Formats about three digits: `0.05`, `12`, `3.4 k`, `1.2 M`.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e12 => (value / 1e12, " T"),
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        v if v >= 0.001 => 4,
        _ => return format!("{scaled:.0e}{unit}"),
    };
    format!("{}{unit}", without_zeros(&format!("{scaled:.digits$}")))
}

/// Formats four digits, or all of a large number's.
fn exact(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1000.0 || v == 0.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 1.0 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    match text.parse::<u64>() {
        Ok(whole) => crate::number::grouped(whole),
        Err(_) => without_zeros(&text).to_owned(),
    }
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_labels_are_short() {
        let texts = [0.0, 0.05, 0.5, 12.0, 340.0, 12_345.0, 1.2e6, 5e9].map(short);
        assert_eq!(texts, ["0", "0.05", "0.5", "12", "340", "12.3 k", "1.2 M", "5 G"]);
        let texts = [0.0, 0.0501, 1.0, 12.345, 340.0, 12_345.4].map(exact);
        assert_eq!(texts, ["0", "0.0501", "1", "12.35", "340", "12,345"]);
    }

    fn over_logarithms(points: Vec<(f64, f64)>) -> Lines {
        let lines = vec![Line::new("a<b", 0, points)];
        Lines { title: "title".into(), x: Axis::log("x"), y: Axis::log(""), lines, band: None }
    }

    #[test]
    fn a_plot_without_points_says_so() {
        let lines = over_logarithms(vec![(1.0, 0.0)]);
        assert!(lines.is_empty());
        assert!(lines.svg().contains("Nothing to draw"));
    }

    #[test]
    fn a_flat_line_has_labels_at_powers_of_two() {
        let svg = over_logarithms(vec![(16.0, 1.2), (300.0, 1.2)]).small_svg();
        for label in ["16", "32", "256", "1", "2"] {
            assert!(svg.contains(&format!("\n{label}\n</text>")), "{label}: {svg}");
        }
    }

    #[test]
    fn lines_share_their_x_values_and_have_gaps_where_they_have_no_point() {
        let line = |name, points| Line::new(name, 0, points);
        let lines = vec![line("a", vec![(1.0, 5.0), (3.0, f64::NAN)]), line("b", vec![(2.0, 7.0)])];
        let axis = Axis { labels: vec![(2.0, "two".into())], ..Axis::linear("x") };
        let lines = Lines { title: String::new(), x: axis, y: Axis::linear("y"), lines, band: None };
        let json = lines.json("k", None);
        assert_eq!(json["xs"], json!([1.0, 2.0]));
        assert_eq!(json["lines"][0]["values"], json!([5.0, null]));
        assert_eq!(json["lines"][1]["values"], json!([null, 7.0]));
        let (head, rows) = lines.table();
        assert_eq!(head, ["x", "a", "b"]);
        assert_eq!(rows, [["1", "5", "-"], ["two", "-", "7"]]);
    }
}
