//! A matrix of shares as SVG: white, or the color of the page, is a half; blue is 0; red is 1.

use super::escaped;

/// A matrix of shares from 0 to 1: columns from left to right, each from the bottom up.
pub struct Matrix {
    pub title: String,
    pub below: String,
    pub columns: Vec<Vec<f64>>,
}

const CELL: usize = 4;
const SHADES: i32 = 6;

impl Matrix {
    /// Draws the matrix alone, on the color of the page.
    pub fn svg(&self) -> String {
        let (width, height) = self.size();
        let label = escaped(&format!("{}: {}", self.title, self.below));
        format!(
            "<svg class=\"matrix\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\" \
             shape-rendering=\"crispEdges\">{}</svg>",
            self.cells()
        )
    }

    /// Draws a file of its own: with title, on white.
    pub fn file(&self) -> String {
        let (width, height) = self.size();
        let full = width.max(256);
        // A wider matrix needs larger text to be read at the same width.
        let text = |size: f64| size * full as f64 / 256.0;
        let top = text(36.0).round() as usize;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {full} {}\" role=\"img\" \
             shape-rendering=\"crispEdges\">\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
             <g font-family=\"sans-serif\" transform=\"scale({:.3})\">\
             <text x=\"4\" y=\"14\" font-size=\"13\" font-weight=\"600\">{}</text>\
             <text x=\"4\" y=\"29\" font-size=\"11\" fill=\"#666\">{}</text></g>\
             <g transform=\"translate(0 {top})\">\
             <path d=\"M0 0h{width}v{height}h-{width}z\" fill=\"none\" stroke=\"#ddd\" stroke-width=\"2\"/>\
             {}</g></svg>",
            height + top,
            text(1.0),
            escaped(&self.title),
            escaped(&self.below),
            self.cells()
        )
    }

    fn rows(&self) -> usize {
        self.columns.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn size(&self) -> (usize, usize) {
        ((self.columns.len() * CELL).max(1), (self.rows() * CELL).max(1))
    }

    /// Draws adjacent cells of one shade in a column as one rectangle; cells at a half are not drawn.
    fn cells(&self) -> String {
        let rows = self.rows();
        let mut svg = String::new();
        for (number, column) in self.columns.iter().enumerate() {
            let shades: Vec<i32> = column.iter().map(|share| shade(*share)).collect();
            let mut row = 0;
            for run in shades.chunk_by(|a, b| a == b) {
                row += run.len();
                if run[0] != 0 {
                    svg += &format!(
                        "<rect x=\"{}\" y=\"{}\" width=\"{CELL}\" height=\"{}\" {}/>",
                        number * CELL,
                        (rows - row) * CELL,
                        run.len() * CELL,
                        fill(run[0])
                    );
                }
            }
        }
        svg
    }
}

/// Draws the shades from 0 to 1, as a legend.
pub fn legend() -> String {
    let rects: String = (-SHADES..=SHADES)
        .filter(|shade| *shade != 0)
        .map(|shade| format!("<rect x=\"{}\" width=\"1\" height=\"1\" {}/>", shade + SHADES, fill(shade)))
        .collect();
    let width = 2 * SHADES + 1;
    format!(
        "<p class=\"scale\"><span>never flips</span><svg viewBox=\"0 0 {width} 1\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\" shape-rendering=\"crispEdges\">{rects}</svg><span>always flips; blank: half of the time\
         </span></p>\n"
    )
}

/// 0 if chance explains the distance from a half, otherwise up to ± [`SHADES`].
fn shade(share: f64) -> i32 {
    let bias = 2.0 * share - 1.0;
    if bias.abs() < 0.15 {
        return 0;
    }
    ((bias * f64::from(SHADES)).round() as i32).clamp(-SHADES, SHADES)
}

/// Half-transparent, so that a shade is between its color and that of the page in light and in dark mode.
fn fill(shade: i32) -> String {
    let color = if shade > 0 { "#e5342c" } else { "#2f6bea" };
    format!("fill=\"{color}\" fill-opacity=\"{:.2}\"", 0.15 + 0.85 * f64::from(shade.abs()) / f64::from(SHADES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_cells_of_one_shade_are_one_rectangle() {
        let matrix = Matrix { title: "a<b".into(), below: String::new(), columns: vec![vec![0.5, 0.0, 0.0, 1.0]] };
        assert_eq!(matrix.svg().matches("<rect").count(), 2, "{}", matrix.svg());
        assert_eq!(matrix.file().matches("<rect").count(), 3, "{}", matrix.file());
        assert!(matrix.svg().contains("a&lt;b") && matrix.file().contains("a&lt;b"));
    }
}
