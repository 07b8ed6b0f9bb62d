//! Every example of every `--help` runs as printed, in a directory with the files that it names.
//!
//! [`CHANGED`] and [`TOOLS`] list the examples that would take minutes, read this machine's own files or need a tool
//! that may be missing.

use super::{Command, PROGRAM, Stdio, directory, fs, run_well, splitpoint};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// Text of examples that a test replaces: paths of another machine, and numbers that would take long.
const CHANGED: &[(&str, &str)] = &[
    ("splitpoint lab hash", "splitpoint lab hash --no-speed"),
    ("splitpoint lab kernel", "splitpoint lab kernel --runs 1"),
    ("splitpoint lab tune", "splitpoint lab tune --time 1"),
    (" --time 1 users.spt --time 300", " --time 1 users.spt"),
    ("/mnt/backups/users.spt --force", "users.bak --force"),
    ("/mnt/backups/", ""),
    ("~/src", "tree"),
    ("paths /usr", "paths tree"),
    ("--expected-len 100000000", "--expected-len 1000"),
    ("--cache 2GiB", "--cache 2MiB"),
    ("redis://127.0.0.1:6379/0 moved.spt", "users.spt users.spt"),
    ("redis://127.0.0.1:6379/0", "users.tsv"),
];

/// Other programs, and files that they make. An example whose program is missing is skipped, with a message.
const TOOLS: &[&str] = &["jq", "gdbm_dump", "strace", "zcat", "make"];
const MADE_BY_TOOLS: &[&str] = &["users.gdbm", "users.db", "make.txt"];

/// Files that must not exist before.
const MADE: &[(&str, &str)] = &[
    ("backup users.spt", "users.bak"),
    ("merge all", "all.spt"),
    ("merge all", "all.spd"),
    ("--write-trace", "t.txt"),
];

/// Returns the examples of a page, each a line of a shell.
fn examples(help: &str) -> Vec<String> {
    let text = help.split("\nExamples:\n").nth(1).unwrap_or_default();
    let lines = text.lines().take_while(|line| line.starts_with("  "));
    // Two spaces begin a comment.
    lines.map(|line| line.trim_start().split("  ").next().unwrap_or_default().to_owned()).collect()
}

fn help(words: &[&str]) -> String {
    let place = directory();
    let output = splitpoint(place.path()).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the words of each command, from the names of the manual's pages.
fn commands() -> BTreeSet<Vec<String>> {
    let place = directory();
    run_well(place.path(), &["man", "--out", "man"]);
    let pages = fs::read_dir(place.path().join("man")).unwrap();
    let names = pages.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let words = |name: String| name.trim_end_matches(".1").split('-').skip(1).map(str::to_owned).collect();
    names.map(words).collect()
}

/// Creates every file that an example names.
fn prepare(place: &Path) {
    let write = |name: &str, text: &str| fs::write(place.join(name), text).unwrap();
    let run = |line: &str| drop(run_well(place, &line.split(' ').collect::<Vec<_>>()));
    let more: String = (0..200).map(|n| format!("user{n}\tguest\n")).collect();
    write("users.tsv", &format!("alice\tadmin\nbob\tguest\n{more}"));
    write("changes.tsv", "alice\tguest\ncarol\tguest\n");
    write("gone.txt", "bob\n");
    write("new.csv", "key,value\ndave,guest\n");
    write("changed.csv", "key,value\nalice,guest\n");
    let rows: String = (0..50).map(|n| format!("{n},name {n},{n}@example.org\n")).collect();
    for name in ["2024.csv", "2025.csv", "users.csv"] {
        write(name, &format!("id,name,email\n{rows}"));
    }
    let lines: String =
        (0..50).map(|n| format!("{{\"id\":{n},\"key\":{n},\"message\":\"m\",\"value\":1}}\n")).collect();
    write("log.jsonl", &lines);
    write("huge.tsv", &more);
    fs::write(place.join("dump.rdb"), super::rdb::GOLDEN[1]).unwrap();
    run("load served.spt dump.rdb");
    let words: String = (0..500).map(|n| format!("word{n}\n")).collect();
    write("words.txt", &words);
    for name in ["2024.csv", "2025.csv", "log.jsonl"] {
        gzip(place, name, &format!("{name}.gz"));
    }
    write("a.jsonl", &lines.replace("\"value\":1", "\"value\":\"1\"").replace("\"key\":", "\"key\":\"k\",\"n\":"));
    let of_a: String = (0..9).map(|n| format!("{{\"key\":\"{n}\",\"value\":\"v\"}}\n")).collect();
    write("a.jsonl", &of_a);
    gzip(place, "a.jsonl", "a.jsonl.gz");
    for name in ["users.spt", "monday.spt", "a.spt", "b.spt", "old.spt", "bad.spt"] {
        run(&format!("load {name} users.tsv"));
    }
    run("load tuesday.spt changes.tsv");
    run("load changes.spt changes.tsv");
    for name in ["users.spd", "monday.spd", "old.spd", "replica.spd"] {
        run(&format!("dict build users.tsv {name}"));
    }
    run("dict update monday.spd changes.tsv tuesday.spd");
    run("dict update users.spd changes.tsv new.spd");
    fs::write(place.join("changes"), run_well(place, &["dict", "diff", "monday.spd", "tuesday.spd"])).unwrap();
    for name in ["hashes.raw", "big.raw"] {
        fs::write(place.join(name), run_well(place, &["dump", "users.spt", "--format", "raw"])).unwrap();
    }
    fs::write(place.join("users.flat"), run_well(place, &["dump", "users.spt", "--format", "gdbm"])).unwrap();
    write("Makefile", "all:\n\tcat users.tsv\n");
    // Without such tools, or without the right to trace a process, these files do not exist.
    let database = "sqlite3 users.db \"CREATE TABLE users(name, email); INSERT INTO users VALUES (1, 2)\"";
    for line in ["gdbm_load users.flat users.gdbm", database, "strace -f -y -e trace=%file,%desc -o make.txt make"] {
        let _ = Command::new("sh").args(["-c", line]).current_dir(place).output();
    }
    run("backup users.spt users.bak");
    let mut bytes = fs::read(place.join("bad.spt")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(place.join("bad.spt"), bytes).unwrap();
    fs::create_dir(place.join("tree")).unwrap();
    (0..40).for_each(|n| fs::write(place.join(format!("tree/{n}.txt")), vec![b'x'; n * 400]).unwrap());
    run("load pages.spt tree --tree");
    run("lab kernel tree --write-trace t.txt --scripts 2");
}

fn gzip(place: &Path, from: &str, to: &str) {
    let file = fs::File::create(place.join(to)).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    gzip.write_all(&fs::read(place.join(from)).unwrap()).unwrap();
    gzip.finish().unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name());
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            fs::copy(path, to.join(name)).unwrap();
        }
    }
}

/// Returns the example as it is run; `None` if a tool is missing.
fn as_run(example: &str) -> Option<String> {
    let here = |tool: &&&str| {
        let words = example.split([' ', '|']).any(|word| word == **tool);
        words && !Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap().status.success()
    };
    if let Some(tool) = TOOLS.iter().find(here) {
        println!("SKIPPED: {example}, for want of {tool}");
        return None;
    }
    let mut line = CHANGED.iter().fold(example.to_owned(), |line, (from, to)| line.replace(from, to));
    if line.contains("lab kernel") && !["trace t.txt --m", "--strace"].iter().any(|word| line.contains(word)) {
        line.push_str(if line.contains(" tree") { "" } else { " tree" });
        line.push_str(if line.contains("--scripts") { "" } else { " --scripts 2" });
    }
    Some(line)
}

#[test]
fn every_example_of_every_help_runs() {
    let prepared = directory();
    prepare(prepared.path());
    let mut ran = 0;
    let mut failed = String::new();
    for words in commands() {
        let page = help(&words.iter().map(String::as_str).collect::<Vec<_>>());
        for example in examples(&page) {
            let lacks = MADE_BY_TOOLS.iter().any(|name| example.contains(name) && !prepared.path().join(name).exists());
            let Some(line) = as_run(&example).filter(|_| !lacks) else { continue };
            let place = directory();
            copy(prepared.path(), place.path());
            let makes = |command: &str| line.contains(command) && !line.contains("--update");
            for (_, name) in MADE.iter().filter(|(command, _)| makes(command)) {
                let _ = fs::remove_file(place.path().join(name));
            }
            let programs = Path::new(PROGRAM).parent().unwrap();
            let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(&line).current_dir(place.path()).env("PATH", path).stdin(Stdio::null());
            let output = shell.output().unwrap();
            // A diff of two tables reports that they differ; a key may be absent.
            let answers_no = line.starts_with("splitpoint diff") || line.contains(" get ");
            let done = output.status.success() || answers_no && output.status.code() == Some(1);
            if !done {
                let said = String::from_utf8_lossy(&output.stderr);
                failed += &format!("{}: {line}: {:?}: {said}\n", words.join(" "), output.status);
            }
            ran += 1;
        }
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(ran > 50, "{ran} examples ran");
}
