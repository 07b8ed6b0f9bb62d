//! Tables: cells with a verdict, heat maps, and the strips of dots that compare two figures of a row.

use super::escaped;
use std::fmt::Write;

/// The meaning of a cell beyond its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    None,
    Good,
    Fair,
    Poor,
    Bad,
    /// The text begins at the left.
    Left,
}

/// A cell of a table.
pub struct Cell {
    html: String,
    mark: Mark,
}

impl Cell {
    pub fn marked(text: &str, mark: Mark) -> Self {
        Cell { html: escaped(text), mark }
    }

    pub fn with(self, mark: Mark) -> Self {
        Cell { mark, ..self }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::marked(text.as_ref(), Mark::None)
    }
}

impl From<Dots> for Cell {
    fn from(dots: Dots) -> Self {
        Cell { html: dots.svg(), mark: Mark::Left }
    }
}

/// The highlighting of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Plain,
    /// The advised one.
    Best,
    /// The random model.
    Model,
}

/// A table: the first cell of each row is its header.
pub struct Table {
    /// A description for screen readers.
    pub caption: String,
    pub head: Vec<String>,
    pub rows: Vec<(Kind, Vec<Cell>)>,
}

impl Table {
    pub fn new(caption: &str, head: &[&str]) -> Self {
        let head = head.iter().map(|name| (*name).to_owned()).collect();
        Table { caption: caption.to_owned(), head, rows: Vec::new() }
    }

    pub fn row(&mut self, kind: Kind, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push((kind, cells.into_iter().collect()));
    }

    /// Returns the table in a box of its own, in which it scrolls if the page is too narrow.
    pub fn html(&self) -> String {
        let caption = escaped(&self.caption);
        let is_left = |column: usize| {
            let cell = self.rows.first().and_then(|(_, cells)| cells.get(column));
            cell.is_some_and(|cell| cell.mark == Mark::Left)
        };
        let head = self.head.iter().enumerate().fold(String::new(), |mut html, (column, name)| {
            let class = if is_left(column) { " class=\"left\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escaped(name));
            html
        });
        let rows = self.rows.iter().fold(String::new(), |mut html, (kind, cells)| {
            let class = match kind {
                Kind::Plain => "",
                Kind::Best => " class=\"best\"",
                Kind::Model => " class=\"model\"",
            };
            let _ = writeln!(html, "<tr{class}>{}</tr>", cells.iter().enumerate().map(cell).collect::<String>());
            html
        });
        format!(
            "<div class=\"wide card\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>\n\
             <thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
        )
    }
}

fn cell((number, cell): (usize, &Cell)) -> String {
    let class = match cell.mark {
        Mark::None => "",
        Mark::Good => " class=\"good\"",
        Mark::Fair => " class=\"fair\"",
        Mark::Poor => " class=\"poor\"",
        Mark::Bad => " class=\"bad\"",
        Mark::Left => " class=\"left\"",
    };
    let html = &cell.html;
    if number == 0 { format!("<th scope=\"row\">{html}</th>") } else { format!("<td{class}>{html}</td>") }
}

/// The number of shades above the lightest.
pub const SHADES: usize = 9;

/// A heat map: numbers whose shade has an absolute meaning, explained by `legend`.
pub struct HeatMap {
    pub title: String,
    /// The titles of the rows and the columns.
    pub corner: &'static str,
    pub columns: Vec<String>,
    /// The name and the cells of each row; `None` for a cell without a measurement.
    pub rows: Vec<(String, Vec<Option<Heat>>)>,
    /// Shades and what they mean.
    pub legend: Vec<(usize, String)>,
}

pub struct Heat {
    /// 0 to [`SHADES`].
    pub shade: usize,
    pub text: String,
}

impl HeatMap {
    pub fn html(&self) -> String {
        let head: String =
            self.columns.iter().map(|name| format!("<th scope=\"col\">{}</th>", escaped(name))).collect();
        let cell = |cell: &Option<Heat>| match cell {
            Some(heat) => format!("<td class=\"h{}\">{}</td>", heat.shade.min(SHADES), escaped(&heat.text)),
            None => "<td class=\"none\">-</td>".to_owned(),
        };
        let rows = self.rows.iter().fold(String::new(), |mut html, (name, cells)| {
            let cells: String = cells.iter().map(cell).collect();
            let _ = writeln!(html, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(name));
            html
        });
        let steps = self.legend.iter().fold(String::new(), |mut html, (shade, text)| {
            let _ = write!(html, "<span class=\"step h{shade}\">{}</span>", escaped(text));
            html
        });
        let (title, corner) = (escaped(&self.title), escaped(self.corner));
        format!(
            "<figure class=\"card\"><figcaption><b>{title}</b></figcaption>\
             <div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table class=\"heat\">\n\
             <thead><tr><th scope=\"col\">{corner}</th>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\
             <p class=\"scale\">{steps}</p></figure>\n"
        )
    }
}

/// Our figure and the paper's on one logarithmic scale.
pub struct Dots {
    pub ours: Option<f64>,
    pub paper: Option<f64>,
    /// The ends of the scale.
    pub ends: (f64, f64),
    /// The position of the line that marks the reference.
    pub base: f64,
}

/// The size of a strip in its own units.
const STRIP: (f64, f64) = (256.0, 20.0);

impl Dots {
    fn svg(&self) -> String {
        let (low, high) = (self.ends.0.ln(), self.ends.1.ln());
        let (width, middle) = (STRIP.0, STRIP.1 / 2.0);
        let at = |value: f64| 8.0 + (width - 16.0) * ((value.ln() - low) / (high - low).max(1e-9)).clamp(0.0, 1.0);
        let base = at(self.base);
        let mut svg = format!(
            "<svg class=\"dots\" viewBox=\"0 0 {width} {}\" aria-hidden=\"true\">\
             <path class=\"axis\" d=\"M0 {middle}H{width}\"/><path class=\"base\" d=\"M{base:.1} 1V{}\"/>",
            STRIP.1,
            STRIP.1 - 1.0
        );
        if let (Some(ours), Some(paper)) = (self.ours, self.paper) {
            let _ = write!(svg, "<path class=\"join\" d=\"M{:.1} {middle}H{:.1}\"/>", at(ours), at(paper));
        }
        for (value, class) in [(self.ours, "ours"), (self.paper, "paper")] {
            if let Some(value) = value.filter(|value| *value > 0.0) {
                let _ = write!(svg, "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{middle}\" r=\"5\"/>", at(value));
            }
        }
        svg + "</svg>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heat_map_has_a_number_in_each_measured_cell_and_a_legend() {
        let cell = |shade, text: &str| Some(Heat { shade, text: text.into() });
        let rows = vec![("row".into(), vec![cell(0, "12"), None, cell(99, "<99")])];
        let columns = ["a", "b", "c"].map(String::from).to_vec();
        let legend = vec![(0, "0 %".into()), (9, "100 %".into())];
        let html = HeatMap { title: "t&t".into(), corner: "x", columns, rows, legend }.html();
        assert!(
            html.contains("<td class=\"h0\">12</td><td class=\"none\">-</td><td class=\"h9\">&lt;99</td>"),
            "{html}"
        );
        assert!(html.contains("t&amp;t") && html.contains("<span class=\"step h9\">100 %</span>"), "{html}");
    }

    #[test]
    fn dots_are_placed_on_a_logarithmic_scale() {
        let svg = Dots { ours: Some(100.0), paper: Some(10.0), ends: (1.0, 100.0), base: 1.0 }.svg();
        assert!(svg.contains("class=\"ours\" cx=\"248.0\"") && svg.contains("class=\"paper\" cx=\"128.0\""), "{svg}");
    }

    #[test]
    fn cells_are_escaped() {
        let mut table = Table::new("\"><script>", &["<a>"]);
        table.row(Kind::Best, [Cell::from("<b>"), Cell::marked("</td>", Mark::Bad)]);
        let html = table.html();
        assert!(!html.contains("<script") && !html.contains("<b>") && html.contains("&lt;/td&gt;</td>"), "{html}");
    }
}
