//! Documents keep to their lengths, and figures in prose match the tables of their page.
//!
//! Words are counted as `wc -w` does, without generated text: `results/`, and the server's list of commands, which
//! grows with each command.

use super::{File, files, none};

/// Documents with a limit of their own, in words.
const LIMITS: &[(&str, usize)] = &[("README.md", 1_500), ("docs/architecture.md", 9_000)];
/// Maximum words of README.md and all of docs/.
const ALL_WORDS_MAX: usize = 45_000;
/// Documents in which every figure of the prose is also in a table of the page.
const PROSE: &[&str] = &[
    "README.md",
    "docs/benchmarks.md",
    "docs/guide.md",
    "docs/hashing.md",
    "docs/kernel-traces.md",
    "docs/scale.md",
    "docs/server.md",
];
/// The units that make a number a measured figure.
const UNITS: &[&str] = &["M", "K", "M/s", "K/s", "x", "%", "times", "ms", "us", "ns"];

fn words(file: &File) -> usize {
    let text = file.text();
    let generated =
        text.split_once("<!-- commands: ").and_then(|(_, rest)| rest.split_once("<!-- end of commands -->"));
    let count = |text: &str| text.split_whitespace().count();
    count(text) - generated.map_or(0, |(commands, _)| count(commands))
}

#[test]
fn documents_keep_to_their_length() {
    let documents: Vec<File> =
        files().into_iter().filter(|f| f.is("md") && (f.path == "README.md" || f.path.starts_with("docs/"))).collect();
    let mut breaches = Vec::new();
    for (path, limit) in LIMITS {
        let count = words(documents.iter().find(|f| f.path == *path).expect("the document is there"));
        if count > *limit {
            breaches.push(format!("{path}: {count} words, over {limit}; shorten it"));
        }
    }
    let all: usize = documents.iter().map(words).sum();
    if all > ALL_WORDS_MAX {
        breaches.push(format!("README.md and docs/: {all} words, over {ALL_WORDS_MAX}; shorten what you added to"));
    }
    none(breaches);
}

/// Returns the measured figures of a line of prose: `2.0x` and `3.8 M` become `2.0 x` and `3.8 M`.
fn figures(line: &str) -> Vec<String> {
    let words: Vec<&str> =
        line.split_whitespace().map(|w| w.trim_matches(&['.', ',', ';', ':', '(', ')'][..])).collect();
    let figure = |i: usize| {
        let end = words[i].find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(words[i].len());
        let (number, suffix) = words[i].split_at(end);
        let unit = if suffix.is_empty() { words.get(i + 1).copied().unwrap_or_default() } else { suffix };
        (!number.is_empty() && UNITS.contains(&unit)).then(|| format!("{number} {unit}"))
    };
    (0..words.len()).filter_map(figure).collect()
}

/// Returns the figures in prose that are in no table of the document, with their lines.
fn untold(text: &str) -> Vec<(usize, String)> {
    let (mut prose, mut tables, mut code, mut made) = (Vec::new(), String::new(), false, false);
    for (number, line) in text.lines().enumerate() {
        code ^= line.starts_with("```");
        made = line.starts_with("<!-- table: ") || made && line != "<!-- end -->";
        match made || line.starts_with('|') {
            true => tables.push_str(line),
            false if !code => prose.extend(figures(line).into_iter().map(|figure| (number + 1, figure))),
            false => {}
        }
    }
    prose.retain(|(_, figure)| !tables.contains(&figure[..]));
    prose
}

#[test]
fn figures_in_prose_are_those_of_the_table() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| PROSE.contains(&&f.path[..])) {
        for (line, figure) in untold(file.text()) {
            breaches.push(format!("{}:{line}: \"{figure}\" is in no table of this page; leave it out", file.path));
        }
    }
    none(breaches);
}

#[test]
fn a_figure_that_its_table_lacks_is_seen() {
    let page = "Gets do 3.8 M/s (2.0x), 31 % more than 92 % and 1.95 or 4 KiB.\n```\n5 ms\n```\n\
                <!-- table: a -->\n\n| 31 % |\nwithin 7 %\n<!-- end -->\nat 7 %, not 8 %\n";
    let seen: Vec<String> = untold(page).into_iter().map(|(line, figure)| format!("{line} {figure}")).collect();
    assert_eq!(seen, ["1 3.8 M/s", "1 2.0 x", "1 92 %", "10 8 %"]);
}
