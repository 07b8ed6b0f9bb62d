//! HTML pages with plots: self-contained files, for light and dark mode.
//!
//! `plot.rs` draws; `study.rs`, `schemes.rs` and `tune.rs` are the pages of `lab hash`, `lab schemes` and `lab tune`.

mod plot;
pub mod schemes;
pub mod study;
pub mod tune;

use crate::failure::{Failure, Result};
use plot::{HeatMap, Lines, Matrix};
use std::fmt::Write;
use std::fs::File;
use std::path::Path;

const STYLE: &str = "\
:root { color-scheme: light dark; --text: #1a1a1a; --quiet: #666; --line: #ddd; --page: #fff; --box: #f6f6f4 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --quiet: #9a9a9a; --line: #3a3a3a; --page: #16181b; --box: #1f2226 }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page) }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.2rem; margin-top: 2.5rem } .quiet { color: var(--quiet) }
.advice { background: var(--box); border-left: 4px solid #2a78c4; padding: .8rem 1rem; margin: 1.2rem 0 }
.advice { white-space: pre-line }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100% }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left } th { font-weight: 600 } code { font-size: .9em }
figure { margin: 1rem 0; background: #fff; border: 1px solid var(--line); border-radius: 4px }
figure svg { width: 100%; height: auto; display: block }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); gap: 1rem }
.grid { margin: 1rem 0; align-items: start } .grid figure { margin: 0 }
.grid.of-two { grid-template-columns: repeat(auto-fill, minmax(min(100%, 28rem), 1fr)) }
.legend { background: #fff; color: #1a1a1a; border: 1px solid var(--line); border-radius: 4px; padding: .4rem .8rem }
.legend span { display: inline-block; margin-right: 1.2rem }
.legend b { display: inline-block; width: 1.6rem; height: .25rem; margin-right: .4rem; vertical-align: middle }
pre { overflow-x: auto; background: var(--box); padding: .8rem 1rem; margin: .4rem 0 }
details { margin: .4rem 0 } summary { cursor: pointer }";

/// Writes a page to `path` atomically.
pub fn write(path: &Path, page: &str) -> Result<()> {
    let failed = |error: std::io::Error| Failure::io(path.display(), &error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // `make_in` gives the file default permissions, and errors without the temporary name.
    let made = tempfile::Builder::new().prefix(".page").make_in(folder, |place| File::create_new(place));
    let mut file = made.map_err(failed)?;
    std::io::Write::write_all(file.as_file_mut(), page.as_bytes()).map_err(failed)?;
    file.persist(path).map_err(|persist| failed(persist.error))?;
    Ok(())
}

/// A page under construction.
pub struct Page {
    html: String,
}

impl Page {
    pub fn new(title: &str, subtitle: &str) -> Self {
        let (title, subtitle) = (escaped(title), escaped(subtitle));
        let html = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{title}</title>\n<style>\n{STYLE}\n</style></head>\n\
             <body>\n<h1>{title}</h1>\n<p class=\"quiet\">{subtitle}</p>\n"
        );
        Page { html }
    }

    pub fn heading(&mut self, text: &str, below: &str) {
        self.add(&format!("<h2>{}</h2>\n<p class=\"quiet\">{}</p>\n", escaped(text), escaped(below)));
    }

    /// Advice in a box; keeps line breaks.
    pub fn advice(&mut self, text: &str) {
        self.add(&format!("<p class=\"advice\">{}</p>\n", escaped(text)));
    }

    /// A table; the first row is the header.
    pub fn table(&mut self, rows: &[Vec<String>]) {
        self.add("<div class=\"wide\"><table>\n");
        for (number, row) in rows.iter().enumerate() {
            let tag = if number == 0 { "th" } else { "td" };
            let cells = row.iter().fold(String::new(), |mut cells, cell| {
                let _ = write!(cells, "<{tag}>{}</{tag}>", escaped(cell));
                cells
            });
            self.add(&format!("<tr>{cells}</tr>\n"));
        }
        self.add("</table></div>\n");
    }

    pub fn lines(&mut self, lines: &Lines<'_>) {
        self.figure(&lines.svg());
    }

    /// Small plots in a grid, with one legend. Leaves out empty plots.
    pub fn grid_of_lines(&mut self, plots: &[Lines<'_>]) {
        let plots: Vec<_> = plots.iter().filter(|plot| !plot.is_empty()).collect();
        let mut named: Vec<(&str, String)> = Vec::new();
        for line in plots.iter().flat_map(|plot| &plot.lines) {
            if named.iter().all(|(name, _)| *name != line.name) {
                named.push((&line.name, line.css_color()));
            }
        }
        let legend = named.iter().fold(String::new(), |mut legend, (name, color)| {
            let _ = writeln!(legend, "<span><b style=\"background:{color}\"></b>{}</span>", escaped(name));
            legend
        });
        self.add(&format!("<p class=\"legend\">\n{legend}</p>\n<div class=\"grid of-two\">\n"));
        plots.iter().for_each(|plot| self.figure(&plot.small_svg()));
        self.add("</div>\n");
    }

    /// Heat maps in a grid.
    pub fn heat_maps(&mut self, maps: &[HeatMap]) {
        self.add("<div class=\"grid of-two\">\n");
        maps.iter().for_each(|map| self.figure(&map.svg()));
        self.add("</div>\n");
    }

    /// Matrices in a grid.
    pub fn matrices(&mut self, matrices: &[Matrix]) {
        self.add("<div class=\"grid\">\n");
        matrices.iter().for_each(|matrix| self.figure(&matrix.svg()));
        self.add("</div>\n");
    }

    /// A bulleted list.
    pub fn list(&mut self, items: &[String]) {
        let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escaped(item))).collect();
        self.add(&format!("<ul>\n{items}</ul>\n"));
    }

    /// A line of code.
    pub fn code(&mut self, line: &str) {
        self.add(&format!("<pre><code>{}</code></pre>\n", escaped(line)));
    }

    /// Lines of text that unfold below a summary.
    pub fn details(&mut self, summary: &str, lines: &[String]) {
        let lines: Vec<_> = lines.iter().map(|line| escaped(line)).collect();
        self.add(&format!(
            "<details><summary>{}</summary><pre><code>{}</code></pre></details>\n",
            escaped(summary),
            lines.join("\n")
        ));
    }

    pub fn finish(mut self) -> String {
        self.add("</body></html>\n");
        self.html
    }

    fn figure(&mut self, svg: &str) {
        self.add(&format!("<figure>{svg}</figure>\n"));
    }

    fn add(&mut self, html: &str) {
        self.html.push_str(html);
    }
}

/// Escapes any text, including keys, for HTML.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped() {
        let mut page = Page::new("<b>", "&");
        page.table(&[vec!["a".into()], vec!["<script>alert('x')</script>".into()]]);
        page.details("\"", &["</pre>".into()]);
        let html = page.finish();
        assert!(!html.contains("<script") && !html.contains("<b>"), "{html}");
        assert_eq!(html.matches("</pre>").count(), 1);
    }
}
