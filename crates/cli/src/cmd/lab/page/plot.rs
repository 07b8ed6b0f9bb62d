//! Plots as SVG: line plots with linear or logarithmic axes, matrices of shares, and heat maps with numbers.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

/// The size of a full-width plot, and of one of two side by side.
const SIZE: (u32, u32) = (1000, 460);
const SMALL: (u32, u32) = (500, 300);

/// The legend is to the right of the plot area.
const LEGEND_WIDTH: u32 = 124;

/// The lengths of a dash and of a gap.
const DASH: (i32, i32) = (6, 5);

/// Line colors, distinct from each other on white.
const COLORS: [RGBColor; 12] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(110, 130, 20),
    RGBColor(23, 190, 207),
    RGBColor(230, 180, 30),
    RGBColor(127, 127, 127),
    RGBColor(20, 20, 90),
];

/// A line of a plot.
pub struct Line {
    pub name: String,
    color: RGBColor,
    /// Expected values are dashed, measured ones solid.
    is_expected: bool,
    points: Vec<(f64, f64)>,
}

impl Line {
    /// A solid line; `color` is an index into [`COLORS`], modulo its length.
    pub fn new(name: &str, color: usize, points: Vec<(f64, f64)>) -> Self {
        Line { name: name.to_owned(), color: COLORS[color % COLORS.len()], is_expected: false, points }
    }

    /// A dashed black line.
    pub fn expected(name: &str, points: Vec<(f64, f64)>) -> Self {
        Line { name: name.to_owned(), color: BLACK, is_expected: true, points }
    }

    pub fn css_color(&self) -> String {
        let RGBColor(red, green, blue) = self.color;
        format!("rgb({red},{green},{blue})")
    }
}

/// A line plot.
pub struct Lines<'t> {
    /// The title above the plot.
    pub title: Option<&'t str>,
    pub x_title: &'t str,
    pub y_title: &'t str,
    /// Logarithmic x axis, base 2.
    pub x_is_log: bool,
    /// Logarithmic y axis, base 2.
    pub y_is_log: bool,
    pub lines: Vec<Line>,
}

impl Lines<'_> {
    /// A full-width plot with a legend; a sentence if there is nothing to draw.
    pub fn svg(&self) -> String {
        self.drawn(SIZE, true)
    }

    /// A small plot without a legend, for a grid.
    pub fn small_svg(&self) -> String {
        self.drawn(SMALL, false)
    }

    pub fn is_empty(&self) -> bool {
        !self.lines.iter().any(|line| line.points.iter().any(|point| self.is_drawable(point)))
    }

    fn is_drawable(&self, &(x, y): &(f64, f64)) -> bool {
        x.is_finite() && y.is_finite() && !(self.y_is_log && y <= 0.0)
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
        let scale = |is_log: bool, value: f64| if is_log { value.max(1e-12).log2() } else { value };
        let scaled = |&(x, y): &(f64, f64)| (scale(self.x_is_log, x), scale(self.y_is_log, y));
        let points_of = |line: &Line| -> Vec<(f64, f64)> {
            line.points.iter().filter(|point| self.is_drawable(point)).map(scaled).collect()
        };
        let all: Vec<_> = self.lines.iter().flat_map(points_of).collect();
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area);
        if let Some(title) = self.title {
            chart.caption(title, ("sans-serif", 15));
        }
        let y_title_size = if self.y_title.is_empty() { 58 } else { 76 };
        let right = if has_legend { LEGEND_WIDTH + 12 } else { 12 };
        let mut chart = chart
            .margin(12)
            .margin_right(right)
            .x_label_area_size(42)
            .y_label_area_size(y_title_size)
            .build_cartesian_2d(
                range(all.iter().map(|p| p.0), self.x_is_log),
                range(all.iter().map(|p| p.1), self.y_is_log),
            )?;
        let label = |is_log: bool| {
            move |value: &f64| match is_log {
                // Label only powers of two.
                true if (value - value.round()).abs() > 1e-6 => String::new(),
                true => short(value.exp2()),
                false => short(*value),
            }
        };
        chart
            .configure_mesh()
            .x_desc(self.x_title)
            .y_desc(self.y_title)
            // One label for every 60 units across and 36 up.
            .x_labels(size.0 as usize / 60)
            .y_labels(size.1 as usize / 36)
            .x_label_formatter(&label(self.x_is_log))
            .y_label_formatter(&label(self.y_is_log))
            .label_style(("sans-serif", 13))
            .light_line_style(WHITE)
            .draw()?;
        for line in &self.lines {
            let style = line.color.stroke_width(2);
            if line.is_expected {
                chart.draw_series(DashedLineSeries::new(points_of(line), DASH.0, DASH.1, style))?;
            } else {
                chart.draw_series(LineSeries::new(points_of(line), style))?;
            }
        }
        if has_legend {
            let left = size.0 as i32 - LEGEND_WIDTH as i32;
            for (line, y) in self.lines.iter().zip((24..).step_by(19)) {
                let style = line.color.stroke_width(2);
                if line.is_expected {
                    area.draw(&DashedPathElement::new([(left, y), (left + 22, y)], DASH.0, DASH.1, style))?;
                } else {
                    area.draw(&PathElement::new([(left, y), (left + 22, y)], style))?;
                }
                area.draw(&Text::new(line.name.as_str(), (left + 30, y - 6), ("sans-serif", 13)))?;
            }
        }
        area.present()?;
        Ok(())
    }
}

/// The range of an axis: from the minimum, or 0, to a little above the maximum. A logarithmic axis includes at least
/// two powers of two, because only those have labels.
fn range(values: impl Iterator<Item = f64> + Clone, is_log: bool) -> std::ops::Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if is_log && most.floor() - least.ceil() < 1.0 {
        return least.floor()..most.ceil().max(least.floor() + 1.0) + 0.03;
    }
    let least = if is_log { least } else { least.min(0.0) };
    // An axis of zeros still needs a length.
    least..most + if most > least { (most - least) * 0.03 } else { 1.0 }
}

/// About three digits: `0.05`, `12`, `3.4 k`, `1.2 M`.
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
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// A matrix of shares from 0 to 1: columns from left to right, each from the bottom up. White is a half, blue 0, red 1.
pub struct Matrix {
    pub title: String,
    pub below: String,
    pub columns: Vec<Vec<f64>>,
}

const CELL: usize = 4;
const SHADES: i32 = 6;

impl Matrix {
    /// Draws it; adjacent cells of one shade in a column become one rectangle.
    pub fn svg(&self) -> String {
        let rows = self.columns.iter().map(Vec::len).max().unwrap_or(0);
        let (width, height) = ((self.columns.len() * CELL).max(1), (rows * CELL).max(1));
        let full = width.max(256);
        // All matrices are shown at equal width, so a wider one needs larger text.
        let text = |size: f64| size * full as f64 / 256.0;
        let top = text(36.0).round() as usize;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {full} {}\" role=\"img\" \
             shape-rendering=\"crispEdges\">\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
             <g font-family=\"sans-serif\" transform=\"scale({:.3})\">\
             <text x=\"4\" y=\"14\" font-size=\"13\" font-weight=\"600\">{}</text>\
             <text x=\"4\" y=\"29\" font-size=\"11\" fill=\"#666\">{}</text></g>\
             <path d=\"M0 {top}h{width}v{height}h-{width}z\" fill=\"none\" stroke=\"#ddd\" stroke-width=\"2\"/>",
            height + top,
            text(1.0),
            super::escaped(&self.title),
            super::escaped(&self.below),
        );
        for (number, column) in self.columns.iter().enumerate() {
            let shades: Vec<i32> = column.iter().map(|share| shade(*share)).collect();
            let mut row = 0;
            for run in shades.chunk_by(|a, b| a == b) {
                row += run.len();
                if run[0] != 0 {
                    svg += &format!(
                        "<rect x=\"{}\" y=\"{}\" width=\"{CELL}\" height=\"{}\" fill=\"{}\"/>",
                        number * CELL,
                        (rows - row) * CELL + top,
                        run.len() * CELL,
                        color(run[0])
                    );
                }
            }
        }
        svg + "</svg>"
    }
}

/// 0 if chance explains the distance from a half, otherwise up to ± [`SHADES`].
fn shade(share: f64) -> i32 {
    let bias = 2.0 * share - 1.0;
    if bias.abs() < 0.15 {
        return 0;
    }
    ((bias * f64::from(SHADES)).round() as i32).clamp(-SHADES, SHADES)
}

fn color(shade: i32) -> String {
    let fade = 255 - (shade.abs() * 200 / SHADES);
    if shade > 0 { format!("rgb(255,{fade},{fade})") } else { format!("rgb({fade},{fade},255)") }
}

/// A heat map with a number in each cell; darker is worse.
pub struct HeatMap {
    pub title: String,
    pub x_title: &'static str,
    pub y_title: &'static str,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The name and the cells of each row; `None` for a cell without a measurement.
    pub rows: Vec<(String, Vec<Option<HeatCell>>)>,
}

pub struct HeatCell {
    /// 0 for the best, 1 for the worst.
    pub heat: f64,
    pub text: String,
}

/// The size of a cell, and the margins left of the first column and above the first row.
const HEAT_CELL: (usize, usize) = (52, 26);
const HEAT_LEFT: usize = 72;
const HEAT_TOP: usize = 62;

impl HeatMap {
    pub fn svg(&self) -> String {
        let (cell_width, cell_height) = HEAT_CELL;
        let across = cell_width * self.columns.len();
        let (width, height) = (HEAT_LEFT + across + 12, HEAT_TOP + cell_height * self.rows.len() + 12);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>"
        );
        let mut text = |x: usize, y: usize, attributes: &str, text: &str| {
            svg += &format!("<text x=\"{x}\" y=\"{y}\" {attributes}>{}</text>", super::escaped(text));
        };
        let quiet = "fill=\"#666\"";
        text(12, 20, "fill=\"#000\" font-size=\"15\" text-anchor=\"start\"", &self.title);
        text(HEAT_LEFT + across / 2, 40, quiet, self.x_title);
        text(HEAT_LEFT - 8, HEAT_TOP - 7, "fill=\"#666\" text-anchor=\"end\"", self.y_title);
        for (number, name) in self.columns.iter().enumerate() {
            text(HEAT_LEFT + cell_width * number + cell_width / 2, HEAT_TOP - 7, "fill=\"#000\"", name);
        }
        for (number, (name, _)) in self.rows.iter().enumerate() {
            let y = HEAT_TOP + cell_height * number + 17;
            text(HEAT_LEFT - 8, y, "fill=\"#000\" text-anchor=\"end\"", name);
        }
        for (row, (_, cells)) in self.rows.iter().enumerate() {
            for (column, cell) in cells.iter().enumerate() {
                let Some(cell) = cell else { continue };
                let (x, y) = (HEAT_LEFT + cell_width * column, HEAT_TOP + cell_height * row);
                // From near white to dark blue; the text color keeps the number readable.
                let (light, ink) = (95.0 - 65.0 * cell.heat, if cell.heat > 0.55 { "#fff" } else { "#000" });
                svg += &format!(
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"hsl(215 60% {light:.0}%)\"/>\
                     <text x=\"{}\" y=\"{}\" fill=\"{ink}\">{}</text>",
                    cell_width - 1,
                    cell_height - 1,
                    x + cell_width / 2,
                    y + 17,
                    super::escaped(&cell.text)
                );
            }
        }
        svg + "</svg>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_labels_are_short() {
        let texts = [0.0, 0.05, 0.5, 12.0, 340.0, 12_345.0, 1.2e6, 5e9].map(short);
        assert_eq!(texts, ["0", "0.05", "0.5", "12", "340", "12.3 k", "1.2 M", "5 G"]);
    }

    #[test]
    fn adjacent_cells_of_one_shade_are_one_rectangle() {
        let matrix = Matrix { title: "a<b".into(), below: String::new(), columns: vec![vec![0.5, 0.0, 0.0, 1.0]] };
        let svg = matrix.svg();
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert!(svg.contains("a&lt;b"));
    }

    fn over_logarithms(points: Vec<(f64, f64)>) -> Lines<'static> {
        let lines = vec![Line::new("a<b", 0, points)];
        Lines { title: Some("title"), x_title: "x", y_title: "", x_is_log: true, y_is_log: true, lines }
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
    fn a_heat_map_has_a_number_in_each_measured_cell() {
        let cell = |heat, text: &str| Some(HeatCell { heat, text: text.into() });
        let rows = vec![("row".into(), vec![cell(0.0, "12"), None, cell(1.0, "<99")])];
        let columns = ["a", "b", "c"].map(String::from).to_vec();
        let svg = HeatMap { title: "t&t".into(), x_title: "x", y_title: "y", columns, rows }.svg();
        assert_eq!(svg.matches("<rect").count(), 1 + 2);
        assert!(svg.contains(">12<") && svg.contains("&lt;99") && svg.contains("t&amp;t"), "{svg}");
    }
}
