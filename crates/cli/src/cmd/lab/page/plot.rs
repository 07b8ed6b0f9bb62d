//! Plots as SVG: lines over axes that are even or logarithmic, and matrices of shares in shades.

use plotters::prelude::*;

const SIZE: (u32, u32) = (1000, 460);

/// Lines over one axis.
pub struct Lines<'t> {
    pub x_title: &'t str,
    pub y_title: &'t str,
    /// Each power of two as wide as the next.
    pub x_is_log: bool,
    /// The same upwards.
    pub y_is_log: bool,
    /// Names and points of the lines. The last may be what is expected, which is dashed.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
    pub last_is_expected: bool,
}

impl Lines<'_> {
    /// Draws it; a sentence where there is nothing to draw.
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        let drawn = self.draw(&mut svg);
        match drawn {
            Ok(()) if !svg.is_empty() => svg,
            _ => "<p>Nothing to draw.</p>".to_owned(),
        }
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let scale = |is_log: bool, value: f64| if is_log { value.max(1e-12).log2() } else { value };
        let scaled = |&(x, y): &(f64, f64)| (scale(self.x_is_log, x), scale(self.y_is_log, y));
        let kept = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && !(self.y_is_log && y <= 0.0);
        let lines: Vec<(&String, Vec<(f64, f64)>)> = self
            .lines
            .iter()
            .map(|(name, points)| (name, points.iter().filter(|point| kept(point)).map(scaled).collect()))
            .collect();
        let all = || lines.iter().flat_map(|(_, points)| points.iter());
        if all().next().is_none() {
            return Ok(());
        }
        let range = |axis: fn(&(f64, f64)) -> f64, is_log: bool| {
            let least = all().map(axis).fold(f64::INFINITY, f64::min);
            let most = all().map(axis).fold(f64::NEG_INFINITY, f64::max);
            let least = if is_log { least } else { least.min(0.0) };
            least..(most + (most - least).max(1e-9) * 0.03)
        };
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(76)
            .build_cartesian_2d(range(|p| p.0, self.x_is_log), range(|p| p.1, self.y_is_log))?;
        let label = |is_log: bool| {
            move |value: &f64| match is_log {
                // Between the powers of two there is nothing that is easily read.
                true if (value - value.round()).abs() > 1e-6 => String::new(),
                true => short(value.exp2()),
                false => short(*value),
            }
        };
        chart
            .configure_mesh()
            .x_desc(self.x_title)
            .y_desc(self.y_title)
            .x_label_formatter(&label(self.x_is_log))
            .y_label_formatter(&label(self.y_is_log))
            .label_style(("sans-serif", 13))
            .light_line_style(WHITE)
            .draw()?;
        let count = lines.len();
        for (index, (name, points)) in lines.into_iter().enumerate() {
            let expected = self.last_is_expected && index + 1 == count;
            let color = if expected { BLACK.to_rgba() } else { Palette99::pick(index).to_rgba() };
            let style = color.stroke_width(if index == 0 { 3 } else { 2 });
            let series = if expected {
                chart.draw_series(DashedLineSeries::new(points, 6, 5, style))?
            } else {
                chart.draw_series(LineSeries::new(points, style))?
            };
            series.label(name.as_str()).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(WHITE)
            .label_font(("sans-serif", 13))
            .draw()?;
        area.present()?;
        Ok(())
    }
}

/// Three digits or so: `0.05`, `12`, `3.4 k`, `1.2 M`.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
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

/// Shares from 0 to 1 in columns, first at the left, each from the bottom up: white at a half, blue where never, red where always.
pub struct Matrix {
    pub title: String,
    pub below: String,
    pub columns: Vec<Vec<f64>>,
}

const CELL: usize = 4;
const SHADES: i32 = 6;

impl Matrix {
    /// Draws it, cells of one shade above each other in one piece.
    pub fn svg(&self) -> String {
        let rows = self.columns.iter().map(Vec::len).max().unwrap_or(0);
        let (width, height) = ((self.columns.len() * CELL).max(1), (rows * CELL).max(1));
        let text = 34;
        let full = width.max(256);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {full} {}\" role=\"img\" shape-rendering=\"crispEdges\">\
             <text x=\"4\" y=\"14\" font-family=\"sans-serif\" font-size=\"13\" font-weight=\"600\">{}</text>\
             <text x=\"4\" y=\"29\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#666\">{}</text>\
             <rect x=\"0\" y=\"{text}\" width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>",
            height + text,
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
                        (rows - row) * CELL + text,
                        run.len() * CELL,
                        color(run[0])
                    );
                }
            }
        }
        svg + "</svg>"
    }
}

/// 0 within what chance makes of a half, else up to ± [`SHADES`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        let texts = [0.0, 0.05, 0.5, 12.0, 340.0, 12_345.0, 1.2e6, 5e9].map(short);
        assert_eq!(texts, ["0", "0.05", "0.5", "12", "340", "12.3 k", "1.2 M", "5 G"]);
    }

    #[test]
    fn cells_of_one_shade_are_one_piece() {
        let matrix = Matrix { title: "a<b".into(), below: String::new(), columns: vec![vec![0.5, 0.0, 0.0, 1.0]] };
        let svg = matrix.svg();
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert!(svg.contains("a&lt;b"));
    }

    #[test]
    fn nothing_is_drawn_of_no_points() {
        let lines = Lines {
            x_title: "x",
            y_title: "y",
            x_is_log: true,
            y_is_log: true,
            lines: vec![("none".into(), vec![(1.0, 0.0)])],
            last_is_expected: false,
        };
        assert!(lines.svg().contains("Nothing to draw"));
    }
}
