//! Every command: with valid input, with invalid input, with a closed output, and with Ctrl-C where it waits.
//!
//! The list is compared with the man pages, so a new command needs its lines here.

use super::signals::{Running, end_of, heeded, send, wait_until_it_watches};
use super::{Command, Output, Stdio, Write, directory, fs, run, run_well, splitpoint};
use std::collections::BTreeSet;
use std::path::Path;

/// A command that succeeds in the directory that [`prepare`] makes, and one that fails.
pub struct Case {
    pub good: &'static str,
    pub bad: &'static str,
}

#[rustfmt::skip]
pub const CASES: &[Case] = &[
    Case { good: "load n.spt rows.tsv", bad: "load n.spt t.spd absent" },
    Case { good: "dump t.spt", bad: "dump rows.tsv" },
    Case { good: "get t.spt key1", bad: "get rows.tsv key1" },
    Case { good: "put t.spt new 1", bad: "put rows.tsv new 1" },
    Case { good: "append t.spt new 1", bad: "append t.spd new 1" },
    Case { good: "del t.spt key2", bad: "del t.spd key2" },
    Case { good: "exists t.spt key1", bad: "exists t.spt absent" },
    Case { good: "rename t.spt key3 key03", bad: "rename t.spt absent other" },
    Case { good: "count t.spt", bad: "count rows.tsv" },
    Case { good: "scan t.spt", bad: "scan rows.tsv" },
    Case { good: "shell t.spt", bad: "shell rows.tsv" },
    Case { good: "diff t.spt t.spt", bad: "diff t.spt rows.tsv" },
    Case { good: "merge m.spt t.spt", bad: "merge m2.spt rows.tsv" },
    Case { good: "stat t.spt", bad: "stat rows.tsv" },
    Case { good: "check t.spt", bad: "check rows.tsv" },
    Case { good: "compact t.spt", bad: "compact rows.tsv" },
    Case { good: "backup t.spt t.bak --force", bad: "backup rows.tsv r.bak" },
    Case { good: "restore t.bak r.spt --force", bad: "restore rows.tsv q.spt" },
    Case { good: "freeze t.spt f.spd", bad: "freeze rows.tsv f.spd" },
    Case { good: "thaw t.spd th.spt", bad: "thaw rows.tsv q.spt" },
    Case { good: "dict build rows.tsv b.spd", bad: "dict build absent q.spd" },
    Case { good: "dict get t.spd key1", bad: "dict get rows.tsv key1" },
    Case { good: "dict update t.spd rows.tsv u.spd", bad: "dict update rows.tsv rows.tsv q.spd" },
    Case { good: "dict reindex t.spd i.spd --index none", bad: "dict reindex t.spd q.spd" },
    Case { good: "dict stat t.spd", bad: "dict stat rows.tsv" },
    Case { good: "dict check t.spd", bad: "dict check rows.tsv" },
    Case { good: "dict diff t.spd t.spd", bad: "dict diff t.spd t.spt" },
    Case { good: "dict dump t.spd", bad: "dict dump rows.tsv" },
    Case { good: "lab hash rows.tsv --no-speed", bad: "lab hash absent" },
    Case { good: "lab schemes rows.tsv --points 2", bad: "lab schemes absent" },
    Case { good: "lab tune rows.tsv --time 1", bad: "lab tune absent" },
    Case { good: "lab kernel tree --table 3 --runs 1 --scripts 2", bad: "lab kernel absent" },
    Case { good: "completions bash", bad: "completions tcsh" },
    Case { good: "man", bad: "man --out /dev/null/man" },
];

pub fn prepare(place: &Path) {
    let rows: String = (0..3000).map(|number| format!("key{number}\tvalue {number}\n")).collect();
    fs::write(place.join("rows.tsv"), rows).unwrap();
    fs::create_dir(place.join("tree")).unwrap();
    (0..40).for_each(|n| fs::write(place.join(format!("tree/{n}.txt")), vec![b'x'; n * 400]).unwrap());
    run_well(place, &["load", "t.spt", "rows.tsv"]);
    run_well(place, &["freeze", "t.spt", "t.spd"]);
}

pub fn command(place: &Path, line: &str) -> Command {
    let mut command = splitpoint(place);
    command.args(line.split(' '));
    command
}

pub fn said(line: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{line}: {said}");
    said
}

#[test]
fn every_command_has_a_case() {
    let place = directory();
    run_well(place.path(), &["man", "--out", "man"]);
    let names = fs::read_dir(place.path().join("man")).unwrap().map(|entry| entry.unwrap().file_name());
    let pages: BTreeSet<String> = names.map(|name| name.into_string().unwrap().replace(".1", "")).collect();
    let with_cases = CASES.iter().map(|case| {
        let words: Vec<_> = case.good.split(' ').collect();
        let count = if matches!(words[0], "dict" | "lab") { 2 } else { 1 };
        format!("splitpoint-{}", words[..count].join("-"))
    });
    // A server runs until it is stopped: its cases are those of `make test-server`.
    let with_cases: BTreeSet<String> = with_cases.chain(["splitpoint-serve".to_owned()]).collect();
    let groups: BTreeSet<String> = ["splitpoint", "splitpoint-dict", "splitpoint-lab"].map(str::to_owned).into();
    assert_eq!(pages.difference(&groups).cloned().collect::<BTreeSet<_>>(), with_cases);
}

#[test]
fn every_command_does_its_work_and_says_what_is_wrong() {
    let place = directory();
    prepare(place.path());
    for case in CASES {
        let good = command(place.path(), case.good).output().unwrap();
        assert!(good.status.success(), "{}: {}", case.good, said(case.good, &good));
        let bad = command(place.path(), case.bad).output().unwrap();
        let message = said(case.bad, &bad);
        assert!(matches!(bad.status.code(), Some(1..=31)), "{}: {:?}", case.bad, bad.status);
        assert!(message.starts_with("splitpoint: ") || message.starts_with("error: "), "{}: {message}", case.bad);
    }
}

#[test]
fn every_command_ends_silently_when_nobody_reads_its_output() {
    let place = directory();
    prepare(place.path());
    for case in CASES {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(place.path(), case.good).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let message = said(case.good, &output);
        assert!(output.status.success(), "{}: {:?} {message}", case.good, output.status);
        assert!(!message.contains("roken pipe"), "{}: {message}", case.good);
    }
}

#[test]
fn every_command_that_waits_for_input_can_be_interrupted() {
    let place = directory();
    prepare(place.path());
    for line in [
        "load n.spt -",
        "load t.spt - --format raw",
        "get t.spt -",
        "del t.spt -",
        "exists t.spt -",
        "shell t.spt",
        "dict build - n.spd",
        "dict update t.spd - n.spd",
        "dict get t.spd -",
        "lab hash -",
        "lab tune -",
    ] {
        heeds_signals(place.path(), line);
    }
    assert!(!place.path().join("n.spt").exists() && !place.path().join("n.spd").exists());
}

/// Starts a command that waits, and sends it each signal once.
fn heeds_signals(place: &Path, line: &str) {
    for (signal, number) in heeded() {
        let mut waiting = command(place, line);
        waiting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut waiting = Running(Some(waiting.spawn().unwrap()));
        wait_until_it_watches(waiting.0.as_ref().unwrap(), number);
        let input = waiting.0.as_mut().unwrap().stdin.take();
        send(signal, waiting.0.as_ref().unwrap());
        let output = end_of(&mut waiting);
        drop(input);
        let message = said(line, &output);
        assert_eq!(output.status.code(), i32::try_from(128 + number).ok(), "{line}, SIG{signal}: {message}");
        assert!(message.contains(&format!("stopped by SIG{signal}")), "{line}: {message}");
    }
}

/// Creates a directory with a named pipe.
#[cfg(target_os = "linux")]
fn place_with_pipe() -> super::TempDir {
    let place = directory();
    prepare(place.path());
    assert!(Command::new("mkfifo").arg(place.path().join("pipe")).status().unwrap().success());
    place
}

#[test]
#[cfg(target_os = "linux")]
fn every_command_that_waits_for_a_named_pipe_can_be_interrupted() {
    let place = place_with_pipe();
    // Other formats cannot be read from pipes, and fail as soon as there is a writer.
    let formats = ["tsv", "csv", "jsonl", "raw", "lines", "gdbm", "db", "mdb", "cdbmake", "cdb", "tar"];
    let loads = formats.map(|format| format!("load n.spt pipe --format {format}"));
    let others = [
        "load n.spt pipe",
        "load s.spt rows.tsv pipe",
        "dict build pipe n.spd",
        "dict update t.spd pipe n.spd",
        "lab hash pipe",
        "lab hash pipe --html n.html",
        "lab schemes pipe",
        "lab tune pipe",
    ];
    let lines = others.iter().copied().chain(loads.iter().map(String::as_str));
    for line in lines {
        heeds_signals(place.path(), line);
    }
    // A writer that writes nothing.
    let writer = fs::OpenOptions::new().read(true).write(true).open(place.path().join("pipe")).unwrap();
    for line in others {
        heeds_signals(place.path(), line);
    }
    drop(writer);
    for made in ["n.spt", "n.spd", "n.html"] {
        assert!(!place.path().join(made).exists(), "{made}");
    }
    let refused = run(place.path(), &["load", "n.spt", "sqlite:pipe#rows"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said("sqlite:pipe#rows", &refused));
}

#[test]
#[cfg(target_os = "linux")]
fn a_named_pipe_is_read_from_its_first_writer_to_its_last() {
    let place = place_with_pipe();
    let mut load = command(place.path(), "load piped.spt pipe");
    let mut load = Running(Some(load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()));
    // Waits for the reader.
    let mut writer = fs::OpenOptions::new().write(true).open(place.path().join("pipe")).unwrap();
    for n in 0..20_000 {
        writeln!(writer, "key{n}\tvalue").unwrap();
    }
    drop(writer);
    let output = end_of(&mut load);
    assert!(output.status.success(), "{}", said("load piped.spt pipe", &output));
    assert_eq!(run_well(place.path(), &["count", "piped.spt"]), b"20000\n");
}

#[test]
fn tables_are_compared_where_no_temporary_file_can_be_made() {
    let place = directory();
    prepare(place.path());
    for line in ["diff t.spt t.spt", "diff t.spt t.spd"] {
        let output = command(place.path(), line).env("TMPDIR", "/dev/null/absent").output().unwrap();
        assert!(output.status.success(), "{line}: {}", said(line, &output));
    }
}

/// Commands that open no table.
const WITHOUT_TABLES: &[&str] =
    &["dict reindex", "dict diff", "lab hash", "lab schemes", "lab kernel", "completions", "man"];

#[test]
fn every_command_that_opens_a_table_has_a_limit_of_its_memory() {
    let place = directory();
    prepare(place.path());
    for case in CASES {
        let line = format!("{} --cache 64K", case.good);
        let limited = command(place.path(), &line).output().unwrap();
        let has_none =
            WITHOUT_TABLES.iter().any(|start| case.good == *start || case.good.starts_with(&format!("{start} ")));
        assert_eq!(limited.status.success(), !has_none, "{line}: {}", said(&line, &limited));
    }
}
