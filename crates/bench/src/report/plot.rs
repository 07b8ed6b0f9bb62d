//! Plots as SVG: lines over linear or logarithmic axes.

use crate::engine::Outcome;
use plotters::prelude::*;

/// The content of a plot.
pub struct Plot<'a> {
    /// Title.
    pub title: &'a str,
    /// Title of the x axis.
    pub x_title: &'a str,
    /// Title of the y axis.
    pub y_title: &'a str,
    /// Logarithmic x axis.
    pub x_is_log: bool,
    /// Logarithmic y axis.
    pub y_is_log: bool,
    /// Names and points of the lines.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

const SIZE: (u32, u32) = (1000, 520);

impl Plot<'_> {
    /// Draws it; empty without points.
    pub fn svg(&self) -> Outcome<String> {
        let scale = |is_log: bool, value: f64| if is_log { value.max(1e-9).log10() } else { value };
        let scaled = |&(x, y): &(f64, f64)| (scale(self.x_is_log, x), scale(self.y_is_log, y));
        let lines: Vec<(&String, Vec<(f64, f64)>)> =
            self.lines.iter().map(|(name, points)| (name, points.iter().map(scaled).collect())).collect();
        let all = || lines.iter().flat_map(|(_, points)| points.iter());
        let range = |axis: fn(&(f64, f64)) -> f64, is_log: bool| {
            let least = all().map(axis).fold(f64::INFINITY, f64::min);
            let most = all().map(axis).fold(f64::NEG_INFINITY, f64::max);
            let least = if is_log { least } else { least.min(0.0) };
            least..(most + (most - least).max(1e-9) * 0.03)
        };
        if all().next().is_none() {
            return Ok(String::new());
        }
        let ours_alone = self.lines.iter().all(|(name, _)| name.starts_with("splitpoint"));
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            area.fill(&WHITE)?;
            let mut chart = ChartBuilder::on(&area)
                .caption(self.title, ("sans-serif", 20))
                .margin(10)
                .x_label_area_size(40)
                .y_label_area_size(80)
                .build_cartesian_2d(range(|p| p.0, self.x_is_log), range(|p| p.1, self.y_is_log))?;
            let label = |is_log: bool| move |value: &f64| short(if is_log { 10_f64.powf(*value) } else { *value });
            chart
                .configure_mesh()
                .x_desc(self.x_title)
                .y_desc(self.y_title)
                .x_label_formatter(&label(self.x_is_log))
                .y_label_formatter(&label(self.y_is_log))
                .light_line_style(WHITE)
                .draw()?;
            for (i, (name, points)) in lines.into_iter().enumerate() {
                // Our line is wide: black, or blue for the second one.
                let is_ours = name.starts_with("splitpoint");
                let color = match is_ours {
                    true if name.contains("in batches") => BLUE.to_rgba(),
                    true if !ours_alone => BLACK.to_rgba(),
                    _ => Palette99::pick(i).to_rgba(),
                };
                let style = color.stroke_width(if is_ours && !ours_alone { 3 } else { 1 });
                chart
                    .draw_series(LineSeries::new(points, style))?
                    .label(name.as_str())
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.8))
                .border_style(WHITE)
                .label_font(("sans-serif", 12))
                .draw()?;
            area.present()?;
        }
        Ok(svg)
    }
}

/// Name, figure as text, figure, and whether it is ours.
pub type Bar<'a> = (&'a str, &'a str, f64, bool);

/// Draws bars, one line each; ours are black.
pub fn bars(title: &str, bars: &[Bar<'_>]) -> String {
    const LINE: usize = 20;
    let most = bars.iter().map(|bar| bar.2).fold(1e-12, f64::max);
    let height = LINE * (bars.len() + 2);
    let mut svg = format!("<svg viewBox=\"0 0 1000 {height}\" font-family=\"sans-serif\" font-size=\"13\">\n");
    svg += &format!("<text x=\"500\" y=\"18\" text-anchor=\"middle\" font-size=\"16\">{title}</text>\n");
    for (i, (name, cell, value, is_ours)) in bars.iter().enumerate() {
        let (y, width) = (LINE * (i + 1) + 8, 520.0 * value.max(0.0) / most);
        let color = if *is_ours { "#000" } else { "#7a9cc6" };
        svg += &format!("<text x=\"330\" y=\"{}\" text-anchor=\"end\">{name}</text>", y + 13);
        svg += &format!("<rect x=\"340\" y=\"{}\" width=\"{width:.1}\" height=\"14\" fill=\"{color}\"/>", y + 2);
        svg += &format!("<text x=\"{:.1}\" y=\"{}\">{cell}</text>\n", 346.0 + width, y + 13);
    }
    svg + "</svg>\n"
}

/// Formats a number on an axis.
fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        1e9.. => (value / 1e9, " G"),
        1e6.. => (value / 1e6, " M"),
        1e3.. => (value / 1e3, " K"),
        _ => (value, ""),
    };
    let digits = usize::from(value.fract().abs() > 1e-3) + usize::from(value.abs() < 1.0 && value != 0.0);
    format!("{value:.digits$}{unit}")
}
