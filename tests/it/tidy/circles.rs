//! No two neighbours import each other, directly or through others: neither files nor folders.
//!
//! Reads the paths that each file outside tests names, in `use` declarations and in code (`crate::a::b::f()`), and
//! follows each to the file of its module, through what a `mod.rs` itself imports or exports.
//!
//! The neighbours of a file are the files and folders in its folder; a folder includes its `mod.rs`. Only the `mod.rs`
//! of the common folder does not count: `impl` blocks of a type are spread over files, and the type is in the `mod.rs`.
//! The dictionary is stricter: there even `mod.rs` imports in one direction only.

use super::{File, none, rust_files};
use std::collections::{BTreeMap, BTreeSet};

/// Folders in which, and below which, neighbours must not import one another in a circle. [`super::IMPORTS`] says what
/// the folders of the library may import of each other.
const FOLDERS: &[&str] = &[
    "src/buckets/",
    "src/dictionary/",
    "src/hash/",
    "src/io/",
    "src/pager/",
    "src/salvage/",
    "src/table/",
    "crates/bench/src/",
    "crates/capi/src/",
    "crates/cli/src/",
    "crates/lab/src/",
    "crates/torture/src/",
];

/// The server: its files, without any `mod.rs`, must not import one another in a circle by `use`. Its folders still do.
const FILES_ONLY: &str = "crates/server/src/";

/// The folder in which `mod.rs` counts, too.
const WITH_ROOTS: &str = "src/dictionary/";

/// The files that each file imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the lines of a file, without comments and `#[cfg(test)]` modules, which come last.
fn code(file: &File) -> String {
    let text = file.text().split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// Lists each path of a `use` declaration: `a::{b, c::d}` names `a::b` and `a::c::d`.
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

/// Returns the paths of declarations that begin a line; declarations within an inner module have another `super`.
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

/// Returns the paths that code outside `use` declarations writes out: `crate::a::f()` names `crate::a::f`.
fn written_paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for statement in code.split_inclusive(';').filter(|statement| !statement.contains("use ")) {
        for start in ["crate::", "super::", "self::"] {
            for (at, _) in statement.match_indices(start) {
                let before = &statement[..at];
                let is_end_of_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
                if is_end_of_word || before.ends_with("pub(in ") {
                    continue;
                }
                let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                let end = statement[at..].find(|c| !is_path(c)).map_or(statement.len(), |len| at + len);
                paths.push(statement[at..end].trim_end_matches(':').to_owned());
            }
        }
    }
    paths
}

/// Returns the module of a file, as the names from the crate's root.
fn module_of(path: &str) -> Vec<&str> {
    let inside = path.split_once("src/").map_or(path, |(_, inside)| inside);
    let path = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').collect()
}

/// Modules and their files, and what each module imports itself.
struct Modules<'f> {
    files: BTreeMap<Vec<&'f str>, &'f str>,
    uses: BTreeMap<Vec<&'f str>, Vec<String>>,
}

impl<'f> Modules<'f> {
    fn of(files: &'f [File]) -> Self {
        let uses = files.iter().map(|file| (module_of(&file.path), used_paths(&code(file)))).collect();
        Modules { files: files.iter().map(|file| (module_of(&file.path), &file.path[..])).collect(), uses }
    }

    /// Returns the file of the module that `path`, written in the module `own`, leads to.
    fn file_of(&self, path: &str, own: &[&str]) -> Option<&'f str> {
        let mut names: Vec<&str> = path.split("::").collect();
        let mut at: Vec<&str> = match names.remove(0) {
            "crate" => Vec::new(),
            "super" => own[..own.len() - 1].to_vec(),
            "self" => own.to_vec(),
            first => [own, &[first]].concat(),
        };
        for name in names {
            if name == "super" {
                at.pop();
                continue;
            }
            let next = [&at[..], &[name]].concat();
            if !self.files.contains_key(&next) {
                return self.passed_on(&at, name).or_else(|| self.files.get(&at).copied());
            }
            at = next;
        }
        self.files.get(&at).copied()
    }

    /// Returns the file of `name`, which the module `at` imports or exports from one of its children.
    fn passed_on(&self, at: &[&str], name: &str) -> Option<&'f str> {
        let uses = self.uses.get(at)?;
        let child = uses.iter().filter_map(|path| path.rsplit_once("::")).find(|(_, last)| *last == name)?.0;
        let child = child.strip_prefix("self::").unwrap_or(child);
        self.files.get(&[at, &child.split("::").collect::<Vec<_>>()].concat()).copied()
    }
}

fn imports(files: &[File]) -> Imports {
    imports_by(files, |code| [used_paths(code), written_paths(code)].concat())
}

/// Returns the files that each file imports by the paths that `named` finds in its code.
fn imports_by(files: &[File], named: impl Fn(&str) -> Vec<String>) -> Imports {
    let modules = Modules::of(files);
    let imports = |file: &File| {
        let own = module_of(&file.path);
        let named = named(&code(file)).into_iter().filter_map(|path| modules.file_of(&path, &own).map(str::to_owned));
        (file.path.clone(), named.filter(|other| *other != file.path).collect())
    };
    files.iter().map(imports).collect()
}

/// Returns the files that `from` imports, directly or through others.
fn reached<'i>(imports: &'i Imports, from: &'i str) -> BTreeSet<&'i str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        let more = imports.get(file).into_iter().flatten().map(|other| &other[..]);
        next.extend(more.filter(|other| reached.insert(*other)));
    }
    reached
}

/// Returns the files that are in a circle, each with those that import it back.
fn in_circles(imports: &Imports) -> Vec<(&str, Vec<&str>)> {
    let back = |file: &str, other: &str| reached(imports, other).contains(file);
    let circles = imports.iter().map(|(file, others)| {
        (&file[..], others.iter().map(|other| &other[..]).filter(|other| back(file, other)).collect::<Vec<_>>())
    });
    circles.filter(|(_, others)| !others.is_empty()).collect()
}

/// Returns the imports between the files and folders of `folder`, by name, without those of its own `mod.rs`.
fn neighbours(imports: &Imports, folder: &str) -> Imports {
    let entry = |path: &str| {
        let inside = path.strip_prefix(folder)?;
        (inside != "mod.rs").then(|| inside.split('/').next().expect("split gives one at least").to_owned())
    };
    let mut found = Imports::new();
    for (file, others) in imports {
        let Some(own) = entry(file) else { continue };
        let others = others.iter().filter_map(|other| entry(other)).filter(|other| *other != own);
        found.entry(own.clone()).or_default().extend(others);
    }
    found
}

/// Returns the circles of neighbours in `folder` and the folders below it.
fn circles_below(imports: &Imports, folder: &str) -> Vec<String> {
    let folders: BTreeSet<&str> = imports
        .keys()
        .flat_map(|file| file.match_indices('/').map(|(at, _)| &file[..at + 1]))
        .filter(|path| path.starts_with(folder))
        .collect();
    let mut breaches = Vec::new();
    for folder in folders {
        for (entry, back) in in_circles(&neighbours(imports, folder)) {
            breaches.push(format!("{folder}{entry}: imports {back:?} next to it, which import it"));
        }
    }
    breaches
}

/// Returns the files of production code below `folder`.
fn sources(folder: &str) -> Vec<File> {
    let is_test = |path: &str| path.contains("/tests/") || path.ends_with("/tests.rs");
    let files: Vec<File> = rust_files().filter(|f| f.path.starts_with(folder) && !is_test(&f.path)).collect();
    assert!(!files.is_empty(), "{folder} has no files");
    files
}

#[test]
fn neighbours_do_not_import_each_other_in_circles() {
    let (mut breaches, mut arrows) = (Vec::new(), 0);
    for folder in FOLDERS {
        let imports = imports(&sources(folder));
        arrows += imports.values().map(BTreeSet::len).sum::<usize>();
        breaches.extend(circles_below(&imports, folder));
    }
    assert!(arrows > 500, "only {arrows} imports seen");
    let about = |(file, back): (&str, Vec<&str>)| format!("{file}: imports {back:?}, which import it");
    breaches.extend(in_circles(&imports_by(&sources(WITH_ROOTS), used_paths)).into_iter().map(about));
    let mut server = imports_by(&sources(FILES_ONLY), used_paths);
    server.retain(|file, _| !file.ends_with("/mod.rs"));
    server.values_mut().for_each(|others| others.retain(|other| !other.ends_with("/mod.rs")));
    breaches.extend(in_circles(&server).into_iter().map(about));
    none(breaches);
}

/// The layers of the server, the lowest first. Folders of one layer do not import each other.
const SERVER: [&[&str]; 4] = [&["dictionary"], &["keyspace"], &["command"], &["resp", "memcached", "http"]];

#[test]
fn folders_of_the_server_import_only_those_of_lower_layers() {
    let folder = |path: &str| Some(path.strip_prefix("crates/server/src/")?.split_once('/')?.0.to_owned());
    let layer = |folder: &str| SERVER.iter().position(|layer| layer.contains(&folder));
    let files: Vec<File> = rust_files().filter(|file| folder(&file.path).is_some()).collect();
    let (mut breaches, mut arrows) = (Vec::new(), 0);
    for (file, others) in imports(&files) {
        let Some((own, height)) = folder(&file).and_then(|own| layer(&own).map(|height| (own, height))) else {
            continue;
        };
        for other in others.iter().filter_map(|other| folder(other)).filter(|other| *other != own) {
            let Some(other_height) = layer(&other) else { continue };
            arrows += 1;
            if other_height >= height {
                breaches.push(format!("{file}: imports from {other}, which is not below"));
            }
        }
    }
    assert!(arrows > 20, "only {arrows} imports seen");
    none(breaches);
}

/// Returns the room of a pager file: its directory, or the file itself at the top; `None` for the face.
fn room(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/pager/")?;
    let face = ["mod.rs", "open.rs"].contains(&inside);
    (!face).then(|| inside.split('/').next().expect("split gives one at least"))
}

/// Returns what is wrong between the rooms of these files of the pager.
fn breaches_of_rooms(files: &[File]) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut rooms = Imports::new();
    for (file, others) in imports(files) {
        let Some(own) = room(&file) else { continue };
        if let Some(face) = others.iter().find(|other| room(other).is_none()) {
            breaches.push(format!("{file}: imports {face}; import from the room that has the name"));
        }
        let others = others.iter().filter_map(|other| room(other)).filter(|other| *other != own);
        rooms.entry(own.to_owned()).or_default().extend(others.map(str::to_owned));
    }
    for (room, back) in in_circles(&rooms) {
        breaches.push(format!("src/pager/{room}: imports {back:?}, which import it"));
    }
    for file in files.iter().filter(|file| room(&file.path).is_some()) {
        let code = code(file);
        if code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "Pager") {
            breaches.push(format!("{}: names Pager, which names its parts; take what is needed", file.path));
        }
    }
    breaches
}

#[test]
fn rooms_of_the_pager_know_neither_it_nor_each_other_in_circles() {
    let files: Vec<File> =
        rust_files().filter(|file| file.path.starts_with("src/pager/") && !file.path.ends_with("/tests.rs")).collect();
    let rooms: BTreeSet<&str> = files.iter().filter_map(|file| room(&file.path)).collect();
    assert!(rooms.contains("pool") && rooms.contains("checkpoint"), "{rooms:?}");
    none(breaches_of_rooms(&files));
}

#[test]
fn a_room_that_knows_the_pager_and_a_circle_of_rooms_are_seen() {
    let file = |path: &str, text: &str| File { path: path.into(), bytes: text.into() };
    let files = [
        file("src/pager/mod.rs", "mod a;\nmod b;\npub struct Pager;"),
        file("src/pager/a/mod.rs", "mod x;\npub mod y;"),
        file("src/pager/a/x.rs", "use crate::pager::b::B;"),
        file("src/pager/a/y.rs", "use crate::pager::Pager;"),
        file("src/pager/b/mod.rs", "use crate::pager::a::y::Y;\nfn f(_: &Pagers) {} // Pager"),
    ];
    let breaches = breaches_of_rooms(&files);
    let about = |path: &str, what: &str| breaches.iter().filter(|b| b.starts_with(path) && b.contains(what)).count();
    assert_eq!(about("src/pager/a/y.rs", "names Pager"), 1, "{breaches:?}");
    assert_eq!(about("src/pager/a/y.rs", "import from the room"), 1, "{breaches:?}");
    assert_eq!((about("src/pager/a:", "import"), about("src/pager/b:", "import")), (1, 1), "{breaches:?}");
    assert_eq!(breaches.len(), 4, "{breaches:?}");
}

#[test]
fn a_circle_of_folders_and_one_through_a_written_path_are_seen() {
    let file = |path: &str, text: &str| File { path: path.into(), bytes: text.into() };
    let files = [
        file("src/a/mod.rs", "mod b;\nmod c;\nmod d;\nmod e;"),
        file("src/a/b/mod.rs", "mod x;\nuse super::c::C;"),
        file("src/a/b/x.rs", "fn f() {}"),
        file("src/a/c.rs", "fn f() { let a = 1; crate::a::b::x::f() }"),
        file("src/a/d.rs", "pub(in crate::a::c) fn f() -> super::e::E { mysuper::b() }"),
        file("src/a/e.rs", "use super::super::a::b::x;\nfn f(d: &str) {}"),
    ];
    let circles = circles_below(&imports(&files), "src/a/");
    assert_eq!(
        circles,
        [
            "src/a/b: imports [\"c.rs\"] next to it, which import it",
            "src/a/c.rs: imports [\"b\"] next to it, which import it"
        ]
    );
}

#[test]
fn a_circle_through_what_a_root_passes_on_is_seen() {
    let file = |path: &str, text: &str| File { path: path.into(), bytes: text.into() };
    let files = [
        file("src/a/mod.rs", "mod b;\nmod c;\npub(crate) use b::{B, Other};\nuse c::C;"),
        file("src/a/b.rs", "use super::{A, C};"),
        file("src/a/c.rs", "use super::B;"),
    ];
    let imports = imports(&files);
    assert_eq!(imports["src/a/b.rs"], ["src/a/c.rs", "src/a/mod.rs"].map(str::to_owned).into());
    assert_eq!(imports["src/a/c.rs"], ["src/a/b.rs".to_owned()].into());
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
