//! The head of a file names only files that exist.

use super::{File, none, rust_files};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the names of Rust files in the head of a file, each with the number of its line.
fn named(file: &File) -> Vec<(usize, &str)> {
    let head = file.text().lines().enumerate().take_while(|(_, line)| line.starts_with("//!"));
    let names = head.flat_map(|(number, line)| {
        let words = line.split(|c: char| !c.is_alphanumeric() && !"_/.".contains(c));
        words.map(move |word| (number + 1, word.trim_end_matches('.')))
    });
    names.filter(|(_, word)| word.ends_with(".rs") && *word != "mod.rs").collect() // the word for any such file
}

/// Returns the directories to which a name in the head of the file at `path` may be relative: of its modules, its own,
/// its ancestors, and `src`.
fn starts(path: &str) -> impl Iterator<Item = PathBuf> {
    let modules = Path::new(path).with_extension("");
    let above = Path::new(path).ancestors().skip(1).map(PathBuf::from);
    [modules, "src".into()].into_iter().chain(above)
}

fn breaches(files: &[File]) -> Vec<String> {
    let paths: BTreeSet<&Path> = files.iter().map(|file| Path::new(&file.path)).collect();
    let mut breaches = Vec::new();
    for file in files {
        for (line, name) in named(file) {
            if !starts(&file.path).any(|start| paths.contains(&*start.join(name))) {
                breaches.push(format!("{}:{line}: there is no {name}", file.path));
            }
        }
    }
    breaches
}

#[test]
fn the_heads_of_files_name_files_that_exist() {
    let files: Vec<File> = rust_files().collect();
    none(breaches(&files));
}

#[test]
fn a_name_that_no_file_has_is_seen() {
    let file = |path: &str, text: &str| File { path: path.into(), bytes: text.into() };
    let files = [
        file("src/a/mod.rs", "//! b.rs is here, `c.rs` is not; a/b.rs, io/d.rs.\n\n// e.rs"),
        file("src/a/b.rs", "//! See `mod.rs`."),
        file("src/io/d.rs", "//! gone.rs"),
    ];
    let expected = ["src/a/mod.rs:1: there is no c.rs", "src/io/d.rs:1: there is no gone.rs"];
    assert_eq!(breaches(&files), expected);
}
