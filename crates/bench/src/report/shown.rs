//! The content of a section of the report on the seed documents, independent of the program that measured it.

/// A measured table, from any program.
#[derive(Default)]
pub struct Shown {
    /// The table in Markdown.
    pub markdown: String,
    /// Titles of the columns.
    pub titles: Vec<String>,
    /// The lines.
    pub lines: Vec<Shot>,
    /// The method of measurement.
    pub how: String,
    /// A verdict that replaces the comparisons.
    pub verdict: Option<Verdict>,
}

/// The outcome of a table of the kernel study, which has no peers.
pub struct Verdict {
    /// The study's own sentence.
    pub sentence: String,
    /// Its summary line: what is compared, the document's figure, the reference's, the best, the ratio.
    pub summary: [String; 5],
}

/// A line of such a table.
pub struct Shot {
    pub name: String,
    pub is_ours: bool,
    /// The figures as text and as numbers, one per column.
    pub cells: Vec<(String, Option<f64>)>,
}
