//! HTML pages with an answer, plots and tables: self-contained files for light and dark mode, wide screens and phones.
//!
//! A page begins with the answer and then shows why. Each command makes its own page of the parts here: `plot.rs`,
//! `matrix.rs` and `table.rs`.
//!
//! uPlot draws the plots. It, its licence, our script and our style sheet are in `assets/` and built into every page,
//! so that a page needs no network. Its policy forbids network access, and allows only these scripts and styles, by
//! their hashes: even if the text of a key were taken for markup, it could not run. Without scripts the plots are SVG,
//! and nothing else is missing; below each plot are its values as a table.

pub mod matrix;
pub mod plot;
pub mod table;

use crate::failure::{Failure, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use matrix::Matrix;
use plot::Lines;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use splitpoint::OutputFile;
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use table::{HeatMap, Table};

/// uPlot as published, in the version and with the checksums of `assets/uplot.sha256`; `make uplot` fetches it.
const UPLOT: &str = include_str!("assets/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("assets/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("assets/uPlot.LICENSE");
const SCRIPT: &str = include_str!("assets/page.js");
const STYLE: &str = include_str!("assets/page.css");

/// Writes a page to `path` and creates its folder if missing. What it creates gets `permissions`: a page shows keys, so
/// it is as private as their source.
pub fn write(path: &Path, page: &str, permissions: u32) -> Result<()> {
    let write = || {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            // Users who may read the files may list them.
            let permissions = permissions | (permissions & 0o444) >> 2;
            DirBuilder::new().recursive(true).mode(permissions).create(folder)?;
        }
        let mut file = OutputFile::create_with(path, permissions)?;
        file.write_all(page.as_bytes())?;
        file.finish()
    };
    write().map_err(|error| Failure::io(path.display(), &error))
}

/// A page under construction.
pub struct Page {
    html: String,
    /// The plots in order, for the script.
    plots: Vec<Value>,
    /// The number of legends so far.
    legends: usize,
}

/// A figure of the answer: its name, its value, and what to compare it with.
pub struct Tile {
    pub name: &'static str,
    pub value: String,
    pub note: String,
}

impl Page {
    /// `command` is the command that writes the page.
    pub fn new(command: &str, title: &str, subtitle: &str) -> Self {
        let (command, title, subtitle) = (escaped(command), escaped(title), escaped(subtitle));
        let (styles, scripts) = (sources(&[&uplot_style(), STYLE]), sources(&[&uplot(), SCRIPT]));
        let html = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src{styles}; \
             script-src{scripts}; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>{}</style>\n<style>{STYLE}</style></head>\n\
             <body>\n<header><span class=\"kicker\">{command}</span>\
             <button type=\"button\" class=\"theme\" hidden></button>\n\
             <h1>{title}</h1>\n<p class=\"quiet\">{subtitle}</p></header>\n<main>\n",
            uplot_style()
        );
        Page { html, plots: Vec::new(), legends: 0 }
    }

    /// Adds the answer: a sentence, figures, and text with one paragraph per string.
    pub fn answer(&mut self, verdict: &str, tiles: &[Tile], text: &[String]) {
        self.add(&format!(
            "<section class=\"answer\" aria-label=\"Answer\"><p class=\"verdict\">{}</p>\n",
            escaped(verdict)
        ));
        if !tiles.is_empty() {
            let tiles: String = tiles.iter().map(Tile::html).collect();
            self.add(&format!("<dl class=\"tiles\">\n{tiles}</dl>\n"));
        }
        match text {
            [] => {}
            [line] => self.add(&format!("<p>{}</p>\n", escaped(line))),
            lines => self.list(lines),
        }
        self.add("</section>\n");
    }

    pub fn heading(&mut self, text: &str, below: &str) {
        self.add(&format!("<h2>{}</h2>\n", escaped(text)));
        self.note(below);
    }

    pub fn subheading(&mut self, text: &str) {
        self.add(&format!("<h3>{}</h3>\n", escaped(text)));
    }

    pub fn note(&mut self, text: &str) {
        if !text.is_empty() {
            self.add(&format!("<p class=\"quiet\">{}</p>\n", escaped(text)));
        }
    }

    pub fn table(&mut self, table: &Table) {
        self.add(&table.html());
    }

    /// Adds a plot of full width with a legend. Leaves out an empty plot.
    pub fn lines(&mut self, lines: &Lines) {
        if lines.is_empty() {
            return;
        }
        let keys = self.legend();
        let places = format!("<div class=\"keys\" data-keys=\"{keys}\"></div>\n");
        self.figure(lines, &keys, None, &lines.svg(), &places);
    }

    /// Adds small plots in a grid, with one legend and pointer. Leaves out plots without points, or with zeros only.
    pub fn grid_of_lines(&mut self, plots: &[Lines]) {
        let keys = self.legend();
        self.add(&format!("<div class=\"keys shared\" data-keys=\"{keys}\"></div>\n<div class=\"grid of-two\">\n"));
        for plot in plots.iter().filter(|plot| !plot.is_empty() && !plot.is_zero()) {
            self.figure(plot, &keys, Some(&keys), &plot.small_svg(), "");
        }
        self.add("</div>\n");
    }

    /// Adds heat maps, each as wide as the page.
    pub fn heat_maps(&mut self, maps: &[HeatMap]) {
        self.add("<div class=\"grid of-two\">\n");
        maps.iter().for_each(|map| self.add(&map.html()));
        self.add("</div>\n");
    }

    /// Adds matrices in a grid, with a legend.
    pub fn matrices(&mut self, matrices: &[Matrix]) {
        self.add(&matrix::legend());
        self.add("<div class=\"grid\">\n");
        for matrix in matrices {
            let (title, below) = (escaped(&matrix.title), escaped(&matrix.below));
            self.add(&format!(
                "<figure class=\"card\"><figcaption><b>{title}</b><span>{below}</span></figcaption>{}</figure>\n",
                matrix.svg()
            ));
        }
        self.add("</div>\n");
    }

    /// Adds a bulleted list.
    pub fn list(&mut self, items: &[String]) {
        let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escaped(item))).collect();
        self.add(&format!("<ul>\n{items}</ul>\n"));
    }

    /// Adds a line of code.
    pub fn code(&mut self, line: &str) {
        self.add(&format!("<pre class=\"code card\"><code>{}</code></pre>\n", escaped(line)));
    }

    /// Adds lines of text that unfold below a summary.
    pub fn details(&mut self, summary: &str, lines: &[String]) {
        let lines: Vec<_> = lines.iter().map(|line| escaped(line)).collect();
        self.add(&format!(
            "<details class=\"details card\"><summary>{}</summary><pre><code>{}</code></pre></details>\n",
            escaped(summary),
            lines.join("\n")
        ));
    }

    /// Adds constant HTML of the caller.
    pub fn constant(&mut self, html: &'static str) {
        self.add(html);
    }

    pub fn finish(mut self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        self.add(&format!(
            "</main>\n<footer>Splitpoint {version}. This file is complete: it loads nothing.</footer>\n"
        ));
        if !self.plots.is_empty() {
            let plots = embedded(&Value::Array(std::mem::take(&mut self.plots)));
            self.add(&format!("<script type=\"application/json\" id=\"plots\">{plots}</script>\n"));
            self.add(&format!("<script>{}</script>\n", uplot()));
        }
        self.add(&format!("<script>{SCRIPT}</script>\n</body></html>\n"));
        self.html
    }

    fn legend(&mut self) -> String {
        self.legends += 1;
        format!("keys{}", self.legends)
    }

    fn figure(&mut self, lines: &Lines, keys: &str, group: Option<&str>, svg: &str, legend: &str) {
        let number = self.plots.len();
        self.plots.push(lines.json(keys, group));
        let title = escaped(&lines.title);
        let scale = if lines.y.is_log { "logarithmic" } else { "" };
        let parts: Vec<_> = [lines.y.title, scale].into_iter().filter(|part| !part.is_empty()).collect();
        let unit = escaped(&parts.join(", "));
        let (head, rows) = lines.table();
        let mut table = Table { caption: lines.title.clone(), head, rows: Vec::new() };
        rows.into_iter().for_each(|row| table.row(table::Kind::Plain, row.iter().map(table::Cell::from)));
        self.add(&format!(
            "<figure class=\"card\"><figcaption><b>{title}</b><span>{unit}</span></figcaption>\n{legend}\
             <div class=\"plot\" data-plot=\"{number}\" tabindex=\"0\" role=\"img\" \
             aria-label=\"Plot: {title}, by {}. Its values are in the table below.\">\
             <noscript>{svg}</noscript></div>\n\
             <details><summary>Values as a table</summary>{}</details></figure>\n",
            escaped(lines.x.title),
            table.html()
        ));
    }

    fn add(&mut self, html: &str) {
        self.html.push_str(html);
    }
}

impl Tile {
    fn html(&self) -> String {
        let note = match self.note.as_str() {
            "" => String::new(),
            note => format!("<dd class=\"note\">{}</dd>", escaped(note)),
        };
        format!("<div><dt>{}</dt><dd>{}</dd>{note}</div>\n", escaped(self.name), escaped(&self.value))
    }
}

/// uPlot with its licence, as the licence demands of every copy.
fn uplot() -> String {
    format!("/*\n{}\n*/\n{UPLOT}", UPLOT_LICENSE.trim())
}

fn uplot_style() -> String {
    format!("/* Of uPlot; its licence is with the script. */\n{UPLOT_STYLE}")
}

/// Returns the hashes by which a policy allows exactly these texts.
fn sources(texts: &[&str]) -> String {
    texts.iter().map(|text| format!(" 'sha256-{}'", STANDARD.encode(digest(&SHA256, text.as_bytes())))).collect()
}

/// JSON for a script element: no text in it ends the element or begins a comment.
fn embedded(json: &Value) -> String {
    json.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
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
    use plot::{Axis, Line};

    #[test]
    fn keys_are_escaped() {
        let mut page = Page::new("lab", "<b>", "&");
        let hostile = "</script><script>alert('x')</script>";
        let mut table = Table::new(hostile, &[hostile]);
        table.row(table::Kind::Plain, [table::Cell::from(hostile)]);
        page.table(&table);
        page.details("\"", &["</pre>".into()]);
        page.answer(hostile, &[Tile { name: "a", value: hostile.into(), note: hostile.into() }], &[hostile.into()]);
        let lines = vec![Line::new(hostile, 0, vec![(1.0, 1.0), (2.0, 2.0)])];
        page.lines(&Lines { title: hostile.into(), x: Axis::linear("x"), y: Axis::linear("y"), lines, band: None });
        let html = page.finish();
        // The data, uPlot and our script; no element of a key.
        assert_eq!(html.matches("<script").count(), 3, "{html}");
        assert_eq!(html.matches("</script").count(), 3, "{html}");
        assert!(!html.contains("<b></b>") && !html.contains("<script>alert"));
        assert_eq!(html.matches("</pre>").count(), 1);
        let data = html.split("id=\"plots\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data[0]["lines"][0]["name"], hostile);
    }

    #[test]
    fn assets_cannot_end_their_elements() {
        for text in [UPLOT, SCRIPT, UPLOT_LICENSE] {
            assert!(!text.contains("</script") && !text.contains("<!--"));
        }
        assert!(!UPLOT_LICENSE.contains("*/"));
        for text in [UPLOT_STYLE, STYLE] {
            assert!(!text.contains("</style") && !text.contains("url(") && !text.contains("@import"));
        }
    }

    #[test]
    fn uplot_is_as_published() {
        let sums = include_str!("assets/uplot.sha256");
        let texts = [("uPlot.LICENSE", UPLOT_LICENSE), ("uPlot.iife.min.js", UPLOT), ("uPlot.min.css", UPLOT_STYLE)];
        for (name, text) in texts {
            let sum: String =
                digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(sums.contains(&format!("{sum}  {name}\n")), "{name} has {sum}; `make uplot` fetches it anew");
        }
        let version = sums.lines().next().and_then(|line| line.strip_prefix("# uPlot ")).expect("the version");
        let version = version.split(' ').next().unwrap();
        assert!(UPLOT.contains(&format!("(v{version})")), "not uPlot {version}");
    }

    #[test]
    fn the_policy_allows_exactly_the_scripts_and_styles_of_the_page() {
        let html = Page::new("lab", "t", "").finish();
        let policy = html.split("content=\"default-src").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert!(policy.starts_with(" 'none';") && !policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
        for text in [uplot(), SCRIPT.to_owned(), uplot_style(), STYLE.to_owned()] {
            assert!(policy.contains(&format!("'sha256-{}'", hash(&text))), "{policy}");
        }
    }
}
