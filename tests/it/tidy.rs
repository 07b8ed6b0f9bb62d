//! Rules of this repository that a compiler does not check: layout, imports, links, names.
//!
//! Each test reads the tracked files and those that git would add, and lists every breach with what to do.
//! CONTRIBUTING.md has the rules; Cargo.toml and clippy.toml have what clippy can check instead.
//!
//! Source: the idea is TigerBeetle's and rust-analyzer's `tidy`.

mod circles;
mod hazards;
mod heads;
mod mutants;
mod words;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Maximum bytes in a line of Rust; rustfmt breaks what it can, not strings and comments.
const LINE_BYTES_MAX: usize = 120;

/// The modules that each part of the library may import: the first matching prefix counts.
const IMPORTS: &[(&str, &[&str])] = &[
    (
        "src/lib.rs",
        &[
            "buckets",
            "checksum",
            "dictionary",
            "error",
            "fault",
            "freeze",
            "hash",
            "io",
            "linear",
            "little_endian",
            "own_line",
            "pager",
            "random",
            "salvage",
            "table",
            "varint",
        ],
    ),
    ("src/checksum.rs", &[]),
    ("src/error.rs", &["io"]),
    ("src/events.rs", &[]),
    ("src/fault.rs", &["error"]),
    ("src/freeze.rs", &["dictionary", "hash", "table", "error"]),
    ("src/heap.rs", &[]),
    ("src/own_line.rs", &[]),
    ("src/racing.rs", &[]),
    ("src/random.rs", &[]),
    ("src/linear.rs", &[]),
    ("src/little_endian.rs", &[]),
    ("src/varint.rs", &[]),
    ("src/hash/", &["checksum"]),
    // For the simulated disk of tests: a thread can be interrupted at each of its calls.
    ("src/io/simulated/mod.rs", &["pager", "random"]),
    ("src/io/", &["racing"]),
    // For random walks in a test.
    ("src/pager/blocks/model.rs", &["random"]),
    ("src/pager/", &["checksum", "heap", "io", "little_endian", "error", "events", "fault", "own_line", "racing"]),
    (
        "src/buckets/",
        &["pager", "io", "hash", "linear", "little_endian", "error", "fault", "own_line", "random", "varint"],
    ),
    // `table`: the options to read a file with, and a table in memory for what was found already.
    (
        "src/salvage/",
        &["table", "buckets", "pager", "io", "hash", "linear", "little_endian", "error", "fault", "random", "varint"],
    ),
    (
        "src/dictionary/",
        &["checksum", "heap", "io", "racing", "hash", "linear", "little_endian", "error", "fault", "random", "varint"],
    ),
    (
        "src/table/",
        &[
            "buckets",
            "checksum",
            "pager",
            "io",
            "hash",
            "linear",
            "little_endian",
            "error",
            "events",
            "fault",
            "heap",
            "random",
            "varint",
        ],
    ),
];

/// Names that the crate's root re-exports, and the module of each.
const PASSED_ON: &[(&str, &str)] =
    &[("Error", "error"), ("ErrorKind", "error"), ("Result", "error"), ("Fault", "fault"), ("HashKind", "hash")];

/// Files that may use `unsafe`.
const UNSAFE_FILES: &[&str] = &[
    "crates/bench/src/engines/foreign.rs",
    "crates/bench/src/transactions/lmdb.rs",
    "crates/bench/src/transactions/rocksdb.rs",
    "crates/capi/src/lib.rs",
    "crates/cli/src/cmd/lab/foreign.rs",
    "crates/lab/src/machine.rs",
    "python/src/arrow.rs",
    "src/buckets/tags.rs",
    "src/checksum.rs",
    "src/dictionary/index/chunk/wide.rs",
    "src/dictionary/index/popcnt.rs",
    "src/heap.rs",
    "src/io/byte_locks.rs",
    "src/io/forks.rs",
    "src/io/guard.rs",
    "src/io/idle.rs",
    "src/io/limits.rs",
    "src/io/real.rs",
    "src/io/shared_mapping.rs",
    "src/io/view.rs",
    "src/io/waits.rs",
    "src/io/window.rs",
    "src/pager/pool/buffers.rs",
    "src/pager/pool/discard.rs",
    "src/pager/pool/mapping.rs",
    "src/pager/pool/mod.rs",
    "src/pager/pool/optimistic.rs",
    "src/pager/pool/part.rs",
    "src/pager/pool/populate.rs",
    "src/pager/pool/sink.rs",
    "src/pager/pool/words.rs",
    "src/racing.rs",
    "tests/it/processes/lacking.rs",
    "tests/it/processes/lost_pages.rs",
    "tests/it/processes/readers.rs",
    "tests/it/recovery.rs",
];

/// File names that say nothing about the content.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc", "prelude"];

/// Words of one particular machine or workplace. In two halves, so that this file does not contain them.
const MACHINE_WORDS: &[(&str, &str)] = &[
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("bash_", "jobs"),
    ("../sha", "red"),
    ("shared/se", "eds"),
    ("shared/res", "earch"),
    ("index.cra", "tes.io"),
    ("static.cra", "tes.io"),
    ("pypi", ".org"),
    ("python", "hosted.org"),
    ("deb.deb", "ian.org"),
    ("registry.npm", "js.org"),
    ("proxy.gol", "ang.org"),
    ("repo1.ma", "ven.org"),
];

/// A file of the repository: its path from the root, and its bytes.
struct File {
    path: String,
    bytes: Vec<u8>,
}

impl File {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or_else(|e| panic!("{}: not UTF-8: {e}", self.path))
    }

    fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|e| e == extension)
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every file that is tracked, or new and not ignored.
fn files() -> Vec<File> {
    let listed = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("these tests list the files with git: apt install git");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let names: BTreeSet<String> =
        String::from_utf8(listed.stdout).expect("UTF-8 names").split_terminator('\0').map(str::to_owned).collect();
    // A deleted file whose deletion is not committed is listed but absent.
    let files: Vec<File> = names
        .into_iter()
        .filter_map(|path| std::fs::read(root().join(&path)).ok().map(|bytes| File { path, bytes }))
        .collect();
    assert!(files.len() > 30, "{} files, too few to be the repository", files.len());
    files
}

fn rust_files() -> impl Iterator<Item = File> {
    files().into_iter().filter(|f| f.is("rs"))
}

fn none(breaches: Vec<String>) {
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}

#[test]
fn every_rust_file_opens_by_saying_what_it_is() {
    let breaches = rust_files().filter(|f| !f.text().starts_with("//! "));
    none(breaches.map(|f| format!("{}:1: open with `//! What is here`, why, its shape, its source", f.path)).collect());
}

#[test]
fn lines_are_short_enough_for_two_columns() {
    let mut breaches = Vec::new();
    for file in rust_files() {
        for (number, line) in file.text().lines().enumerate().filter(|(_, line)| line.len() > LINE_BYTES_MAX) {
            let bytes = line.len();
            breaches.push(format!("{}:{}: {bytes} bytes, over {LINE_BYTES_MAX}; break it", file.path, number + 1));
        }
    }
    none(breaches);
}

#[test]
fn file_names_tell_the_subject() {
    let empty = |part: &str| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or(part));
    let breaches = files().into_iter().filter(|f| f.path.split('/').any(empty));
    none(breaches.map(|f| format!("{}: name it after what it is for", f.path)).collect());
}

/// Returns the modules of this crate that a line of code names: `crate::io::Mode` names `io`.
fn modules_named(line: &str) -> Vec<&str> {
    let code = line.split("//").next().unwrap_or(line);
    let mut named = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        named.push(PASSED_ON.iter().find(|(name, _)| *name == &rest[..end]).map_or(&rest[..end], |(_, of)| of));
    }
    named
}

#[test]
fn imports_point_down_only() {
    let mut breaches = Vec::new();
    for file in rust_files().filter(|f| f.path.starts_with("src/")) {
        let Some((own, allowed)) = IMPORTS.iter().find(|(prefix, _)| file.path.starts_with(prefix)) else {
            breaches.push(format!("{}: a new part of the library; say in IMPORTS what it may import", file.path));
            continue;
        };
        let own = own.trim_start_matches("src/").trim_end_matches(".rs");
        let own = own.split('/').next().expect("split gives one at least");
        for (number, line) in file.text().lines().enumerate() {
            let place = format!("{}:{}", file.path, number + 1);
            for module in modules_named(line) {
                if module.is_empty() {
                    breaches.push(format!("{place}: one `use crate::module` a line, so that imports can be read"));
                } else if module != own && !allowed.contains(&module) {
                    breaches.push(format!("{place}: {own} may not know {module}, it may know {allowed:?}"));
                }
            }
            if line.contains("super::super") {
                breaches.push(format!("{place}: write `crate::` for what lies that far"));
            }
        }
    }
    none(breaches);
}

#[test]
fn unsafe_stays_in_the_listed_files() {
    let word = ["unsafe", "code"].join("_");
    let found: BTreeSet<String> = rust_files().filter(|f| f.text().contains(&word)).map(|f| f.path).collect();
    let known: BTreeSet<String> = UNSAFE_FILES.iter().map(|&f| f.to_owned()).collect();
    assert_eq!(found, known, "files that lift the ban on unsafe code; CONTRIBUTING.md says when one may join");
}

/// `println!` and similar macros panic if a write fails: a closed pipe, a full disk under a log.
#[test]
fn no_program_prints_with_macros_that_panic_if_a_write_fails() {
    let is_root =
        |path: &str| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") || path.contains("src/bin/");
    let ships = |path: &str| !path.starts_with("fuzz/") && !path.starts_with("python/benchmarks/");
    let roots = rust_files().filter(|f| is_root(&f.path) && ships(&f.path));
    // A program of several files has modules next to its main file.
    let roots = roots.filter(|f| !f.path.contains("src/bin/") || f.text().contains("fn main("));
    let lax = roots.filter(|f| !f.text().contains("deny(clippy::print_stdout, clippy::print_stderr)"));
    none(lax.map(|f| format!("{}: deny clippy::print_stdout and print_stderr, as src/lib.rs does", f.path)).collect());
}

#[test]
fn no_file_names_the_machine_it_was_written_on() {
    let mut breaches = Vec::new();
    for file in files() {
        for (first, second) in MACHINE_WORDS {
            let word = format!("{first}{second}");
            if let Some(at) = file.bytes.windows(word.len()).position(|w| w == word.as_bytes()) {
                let line = file.bytes[..at].iter().filter(|&&b| b == b'\n').count() + 1;
                breaches.push(format!("{}:{line}: `{word}` means nothing to a reader elsewhere", file.path));
            }
        }
    }
    none(breaches);
}

/// Returns the lines of a Markdown file outside code, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        (!code && !fence).then_some((i + 1, line))
    })
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| line.trim_start_matches('#').trim())
}

/// Returns the anchor of a heading: `Where a bucket lies` is `#where-a-bucket-lies`.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| f.is("md")) {
        let folder = root().join(&file.path).parent().expect("a file is in a folder").to_owned();
        for (number, line) in prose(file.text()) {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            for target in targets.filter(|t| !t.contains("://") && !t.starts_with("mailto:")) {
                let (name, fragment) = target.split_once('#').unwrap_or((target, ""));
                let path = if name.is_empty() { root().join(&file.path) } else { folder.join(name) };
                let leads = path.exists()
                    && (fragment.is_empty()
                        || std::fs::read_to_string(path).is_ok_and(|t| headings(&t).any(|h| anchor(h) == fragment)));
                if !leads {
                    breaches.push(format!("{}:{number}: link to {target}, which is not there", file.path));
                }
            }
        }
    }
    none(breaches);
}

#[test]
fn comments_refer_to_sections_that_exist() {
    let mut breaches = Vec::new();
    for file in rust_files() {
        for (number, line) in file.text().lines().enumerate() {
            for (at, _) in line.match_indices("docs/") {
                let Some((name, rest)) = line[at..].split_once(".md") else { continue };
                let document = format!("{name}.md");
                let section = rest.strip_prefix(", \"").and_then(|s| s.split('"').next());
                let Ok(text) = std::fs::read_to_string(root().join(&document)) else {
                    breaches.push(format!("{}:{}: there is no {document}", file.path, number + 1));
                    continue;
                };
                if let Some(section) = section.filter(|s| !headings(&text).any(|h| h.starts_with(s))) {
                    breaches.push(format!("{}:{}: {document} has no section {section:?}", file.path, number + 1));
                }
            }
        }
    }
    none(breaches);
}

#[test]
fn the_makefile_asks_for_the_rust_that_cargo_asks_for() {
    let quoted = |text: &str, name: &str| {
        let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("no line {name}"));
        line.split('=').nth(1).expect("a value").trim().trim_matches('"').to_owned()
    };
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("the file is there");
    assert_eq!(quoted(&read("Makefile"), "RUST_MIN"), quoted(&read("Cargo.toml"), "rust-version"));
}

/// Most crates that `cargo install --path crates/cli` compiles on Linux; their Cargo.toml says why each is there.
const PROGRAM_CRATES_MAX: usize = 185;

#[cfg(target_os = "linux")]
#[test]
fn the_program_by_default_needs_few_crates() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--package", "splitpoint-cli", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}"])
        .current_dir(root())
        .output()
        .expect("cargo runs this test");
    assert!(tree.status.success(), "cargo tree: {}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).expect("UTF-8 names");
    let crates: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    assert!(crates.iter().any(|name| name.starts_with("splitpoint-server ")), "{tree}");
    assert!(crates.len() <= PROGRAM_CRATES_MAX, "{} crates; make the new ones optional, or say why", crates.len());
}

/// Returns the targets of each `make` in a document's code or a workflow's steps, with the line.
fn targets_named(file: &File) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    let mut matrix = false;
    for (number, line) in file.text().lines().enumerate() {
        let words = line.trim();
        matrix = words == "make:" || matrix && words.starts_with("- ");
        let after: Vec<&str> = match file.is("yml") {
            true if matrix => words.strip_prefix("- ").into_iter().collect(),
            true if !words.contains("run: ") => Vec::new(),
            true => line.split("make ").skip(1).collect(),
            false => line.split("`make ").skip(1).chain(line.strip_prefix("make ")).collect(),
        };
        let is_target = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        let code = after.iter().filter_map(|after| after.split('`').next());
        let targets = code.flat_map(|code| code.split(' ').take_while(is_target));
        named.extend(targets.filter(|t| !t.is_empty()).map(|t| (number + 1, t.to_owned())));
    }
    named
}

#[test]
fn documents_and_workflows_name_targets_that_exist() {
    let files = files();
    let makefile = files.iter().find(|f| f.path == "Makefile").expect("the Makefile").text();
    let exists = |target: &str| makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
    let (mut breaches, mut steps) = (Vec::new(), 0);
    for file in files.iter().filter(|f| f.is("md") || f.path.starts_with(".github/workflows/")) {
        for (number, target) in targets_named(file) {
            steps += usize::from(file.is("yml"));
            if !exists(&target) {
                breaches.push(format!("{}:{number}: the Makefile has no target {target}", file.path));
            }
        }
    }
    assert!(steps > 8, "{steps} targets in workflows, too few to be all");
    none(breaches);
}

/// `make bench` and `make report` name the package, and cargo refuses to choose among several programs.
#[test]
fn packages_of_several_programs_say_which_one_runs() {
    let files = files();
    let beside_others = |main: &&File| {
        main.path.ends_with("src/main.rs")
            && files.iter().any(|f| f.path.starts_with(&main.path.replace("main.rs", "bin/")))
    };
    let mains: Vec<&File> = files.iter().filter(beside_others).collect();
    assert!(!mains.is_empty(), "the bench has several programs");
    let manifest = |main: &File| main.path.replace("src/main.rs", "Cargo.toml");
    let says = |name: &str| files.iter().any(|f| f.path == name && f.text().contains("\ndefault-run = "));
    none(mains.iter().map(|m| manifest(m)).filter(|m| !says(m)).map(|m| format!("{m}: add `default-run`")).collect());
}

/// The Python package is a workspace of its own and inherits nothing.
#[test]
fn the_python_package_has_the_version_and_address_of_the_crates() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("the file is there");
    let (crates, python) = (read("Cargo.toml"), read("python/Cargo.toml"));
    for field in ["version", "rust-version", "license", "authors", "repository"] {
        let line = |text: &str| text.lines().find(|l| l.starts_with(&format!("{field} = "))).map(str::to_owned);
        assert_eq!(line(&python), line(&crates), "{field} in python/Cargo.toml and Cargo.toml");
        assert!(line(&crates).is_some(), "{field}");
    }
}
