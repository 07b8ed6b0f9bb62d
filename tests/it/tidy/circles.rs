//! No file imports one that imports it, directly or through others.
//!
//! Reads the `use` declarations of each file outside tests, and follows each path to the file of the module that it
//! names. A path that is written out where it is used is not seen.

use super::{File, none, rust_files};
use std::collections::{BTreeMap, BTreeSet};

/// Folders whose files must not import one another in a circle.
const FOLDERS: &[&str] = &["src/dictionary/"];

/// Which files each file imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The lines of a file outside `#[cfg(test)]` modules, which come last, and without comments.
fn code(file: &File) -> String {
    let text = file.text().split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// Each path of a `use` declaration: `a::{b, c::d}` names `a::b` and `a::c::d`.
fn expand(tree: &str, prefix: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        return paths.push(format!("{prefix}{}", tree.split(" as ").next().unwrap_or(tree).trim()));
    };
    let (mut depth, mut part) = (0, String::new());
    for c in rest.strip_suffix('}').expect("a brace for each").chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&std::mem::take(&mut part), &format!("{prefix}{head}"), paths);
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    if !part.trim().is_empty() {
        expand(&part, &format!("{prefix}{head}"), paths);
    }
}

/// The paths of the declarations that begin a line; those within an inner module have another `super`.
fn used_paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for declaration in code.split(';') {
        let line = declaration
            .lines()
            .position(|line| line.starts_with("use ") || line.starts_with("pub") && line.contains(" use "));
        let Some(line) = line else { continue };
        let declaration = declaration.lines().skip(line).collect::<Vec<_>>().join(" ");
        expand(declaration.split_once("use ").expect("looked for").1, "", &mut paths);
    }
    paths
}

/// The module of a file, as the names from the crate's root.
fn module_of(path: &str) -> Vec<&str> {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').collect()
}

/// The file of the module that `path`, written in the module `own`, leads to.
fn file_of<'f>(path: &str, own: &[&str], files: &BTreeMap<Vec<&str>, &'f str>) -> Option<&'f str> {
    let mut names: Vec<&str> = path.split("::").collect();
    let mut at: Vec<&str> = match names.remove(0) {
        "crate" => Vec::new(),
        "super" => own[..own.len() - 1].to_vec(),
        "self" => own.to_vec(),
        first => [own, &[first]].concat(),
    };
    for name in names {
        let next = [&at[..], &[name]].concat();
        if !files.contains_key(&next) {
            break;
        }
        at = next;
    }
    files.get(&at).copied()
}

fn imports(files: &[File]) -> Imports {
    let modules: BTreeMap<Vec<&str>, &str> = files.iter().map(|file| (module_of(&file.path), &file.path[..])).collect();
    let of = |file: &File| {
        let own = module_of(&file.path);
        let code = code(file);
        let named = used_paths(&code).into_iter().filter_map(|path| file_of(&path, &own, &modules).map(str::to_owned));
        (file.path.clone(), named.filter(|other| *other != file.path).collect())
    };
    files.iter().map(of).collect()
}

/// The files that `from` imports, directly or through others.
fn reached<'i>(imports: &'i Imports, from: &'i str) -> BTreeSet<&'i str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        let more = imports.get(file).into_iter().flatten().map(|other| &other[..]);
        next.extend(more.filter(|other| reached.insert(*other)));
    }
    reached
}

#[test]
fn files_of_a_folder_do_not_import_each_other_in_circles() {
    for folder in FOLDERS {
        let is_test = |path: &str| path.contains("/tests/") || path.ends_with("/tests.rs");
        let files: Vec<File> = rust_files().filter(|f| f.path.starts_with(folder) && !is_test(&f.path)).collect();
        let imports = imports(&files);
        let arrows: usize = imports.values().map(BTreeSet::len).sum();
        assert!(arrows > files.len(), "{arrows} imports seen in {} files of {folder}", files.len());
        let in_circle = |file: &&String| reached(&imports, file).contains(&file[..]);
        let breaches = imports.keys().filter(in_circle).map(|file| {
            let back = imports[file].iter().filter(|other| reached(&imports, other).contains(&file[..]));
            format!("{file}: imports {:?}, which imports it", back.collect::<Vec<_>>())
        });
        none(breaches.collect());
    }
}

#[test]
fn a_circle_of_imports_is_seen() {
    let file = |path: &str, text: &str| File { path: path.into(), bytes: text.into() };
    let files = [
        file("src/a/mod.rs", "mod b;\nmod c;\npub use b::B;"),
        file("src/a/b.rs", "use super::c::{self, C};\nuse std::fmt;"),
        file(
            "src/a/c.rs",
            "use crate::a::{b::{B as Other}, d};\n#[cfg(test)]\nmod tests {\n    use crate::a::d::D;\n}",
        ),
        file("src/a/d.rs", "//! use super::b;\n"),
    ];
    let imports = imports(&files);
    let named = |path: &str| imports[path].iter().map(|file| &file[..]).collect::<Vec<_>>();
    assert_eq!(named("src/a/mod.rs"), ["src/a/b.rs"]);
    assert_eq!(named("src/a/b.rs"), ["src/a/c.rs"]);
    assert_eq!(named("src/a/c.rs"), ["src/a/b.rs", "src/a/d.rs"]);
    assert_eq!(named("src/a/d.rs"), [""; 0]);
    assert!(reached(&imports, "src/a/b.rs").contains("src/a/b.rs"));
    assert!(!reached(&imports, "src/a/mod.rs").contains("src/a/mod.rs"));
}
