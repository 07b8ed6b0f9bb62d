//! The program from the outside: the real binary, run in a temporary directory.
//!
//! `tests/cli/*.txt` are transcripts, which test everything that a terminal can show: each runs in an empty directory,
//! top to bottom. Tests that need more than a terminal (bytes, pipes, signals) are functions below. Dictionaries are
//! in `tests/cli/dict.rs`, the tools of others in `exchange.rs`, GDBM files in `gdbm.rs`, servers in
//! `redis.rs`, dumps of Redis in `rdb.rs`, a server's file in `served.rs`, SQLite databases in `sqlite.rs`, every
//! command in `every.rs` and, interrupted, in `interrupted.rs`, every example in `examples.rs`, docs/reference.md in
//! `reference.rs`, the lab's pages in a browser in `lab.rs`, streams and threads that fail in `starved.rs`. This is the
//! only test binary of the crate; new cases go into a transcript or here.
//!
//! A transcript has lines `$ command`, each followed by its output, both streams together, with `[exit N]` for a
//! status other than 0; `...` matches any number of lines, `[..]` any part of one. Lines before the first command and
//! lines that begin with `#` are comments.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[path = "cli/browser.rs"]
mod browser;
#[path = "cli/dict.rs"]
mod dict;
#[path = "cli/every.rs"]
mod every;
#[path = "cli/examples.rs"]
mod examples;
#[path = "cli/exchange.rs"]
mod exchange;
#[path = "cli/gdbm.rs"]
mod gdbm;
#[path = "cli/interrupted.rs"]
mod interrupted;
#[cfg(feature = "lab")]
#[path = "cli/lab.rs"]
mod lab;
#[path = "cli/rdb.rs"]
mod rdb;
#[path = "cli/redis.rs"]
mod redis;
#[path = "cli/reference.rs"]
mod reference;
#[path = "cli/served.rs"]
mod served;
#[cfg(feature = "sqlite")]
#[path = "cli/sqlite.rs"]
mod sqlite;
#[path = "cli/starved.rs"]
mod starved;
#[path = "cli/watch.rs"]
mod watch;

const PROGRAM: &str = env!("CARGO_BIN_EXE_splitpoint");

fn splitpoint(place: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(place).stdin(Stdio::null());
    command
}

fn run(place: &Path, arguments: &[&str]) -> Output {
    splitpoint(place).args(arguments).output().unwrap()
}

/// Runs the program and returns its standard output; fails with standard error if the program fails.
fn run_well(place: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = run(place, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn json(place: &Path, arguments: &[&str]) -> Value {
    serde_json::from_slice(&run_well(place, arguments)).unwrap()
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

mod transcripts {
    use super::*;

    #[test]
    fn first_steps() {
        play("first-steps.txt");
    }

    #[test]
    fn lab() {
        play("lab.txt");
    }

    #[test]
    fn load_and_dump() {
        play("load-and-dump.txt");
    }

    #[test]
    fn bad_input() {
        play("bad-input.txt");
    }

    #[test]
    fn scan() {
        play("scan.txt");
    }

    #[test]
    fn look_after() {
        play("look-after.txt");
    }

    #[test]
    fn served() {
        play("served.txt");
    }

    #[test]
    fn salvage() {
        play("salvage.txt");
    }

    #[test]
    fn both_kinds() {
        play("both-kinds.txt");
    }

    #[test]
    fn sources() {
        play("sources.txt");
    }

    #[test]
    fn backup() {
        play("backup.txt");
    }

    #[test]
    fn mistakes() {
        play("mistakes.txt");
    }

    #[test]
    fn dict() {
        play("dict.txt");
    }

    #[test]
    fn dict_inputs() {
        play("dict-inputs.txt");
    }

    #[test]
    fn commands() {
        play("commands.txt");
    }

    #[test]
    fn formats() {
        play("formats.txt");
    }

    #[test]
    fn binary_input() {
        play("binary-input.txt");
    }

    #[test]
    fn dict_mistakes() {
        play("dict-mistakes.txt");
    }

    #[test]
    fn lab_kernel() {
        play("lab-kernel.txt");
    }

    #[test]
    fn lab_schemes() {
        play("lab-schemes.txt");
    }

    #[test]
    fn every_transcript_is_played() {
        let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli.rs")).unwrap();
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.ends_with(".txt") || source.contains(&format!("play(\"{name}\")")), "{name} has no test");
        }
    }

    fn play(name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli").join(name);
        let transcript = fs::read_to_string(&path).unwrap();
        let place = directory();
        for (command, expected) in steps(&transcript) {
            let printed = shell(place.path(), command);
            let lines: Vec<&str> = printed.lines().collect();
            assert!(
                lines_match(&expected, &lines),
                "{name}\n$ {command}\nexpected:\n{}\nprinted:\n{printed}",
                expected.join("\n")
            );
        }
    }

    fn steps(transcript: &str) -> Vec<(&str, Vec<&str>)> {
        let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in transcript.lines().filter(|line| !line.starts_with('#')) {
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push((command, Vec::new()));
            } else if let Some((_, expected)) = steps.last_mut() {
                expected.push(line);
            }
        }
        for (_, expected) in &mut steps {
            // Drop the blank lines between steps.
            while expected.last().is_some_and(|line| line.is_empty()) {
                expected.pop();
            }
        }
        assert!(!steps.is_empty());
        steps
    }

    fn shell(place: &Path, command: &str) -> String {
        let programs = Path::new(PROGRAM).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let script = format!("exec 2>&1\n{command}");
        let mut shell = Command::new("sh");
        let words = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/english-words.txt");
        shell.arg("-c").arg(script).current_dir(place).env("PATH", path).env("words", words).stdin(Stdio::null());
        let output = shell.output().unwrap();
        // The library's errors show absolute paths; the transcripts leave the directory out.
        let absolute = format!("{}/", place.canonicalize().unwrap().display());
        let mut printed = String::from_utf8_lossy(&output.stdout).replace(&absolute, "");
        if !output.status.success() {
            if !printed.is_empty() && !printed.ends_with('\n') {
                printed.push('\n');
            }
            printed.push_str(&format!("[exit {}]\n", output.status.code().unwrap_or(-1)));
        }
        printed.trim_end_matches('\n').to_owned()
    }

    fn lines_match(expected: &[&str], printed: &[&str]) -> bool {
        match (expected, printed) {
            ([], []) => true,
            (["...", rest @ ..], _) => (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..])),
            ([first, rest @ ..], [line, lines @ ..]) => parts_match(first, line) && lines_match(rest, lines),
            _ => false,
        }
    }

    fn parts_match(expected: &str, line: &str) -> bool {
        match expected.split_once("[..]") {
            None => expected == line,
            Some((head, rest)) => line.strip_prefix(head).is_some_and(|line| {
                line.char_indices().map(|(at, _)| at).chain([line.len()]).any(|at| parts_match(rest, &line[at..]))
            }),
        }
    }
}

/// Pairs whose keys and values have every byte, are empty, are long, look like escapes.
fn awkward_pairs() -> Vec<(Vec<u8>, Vec<u8>)> {
    let all: Vec<u8> = (0..=255).collect();
    let mut pairs: Vec<_> = all.iter().map(|byte| (vec![*byte], vec![255 - byte])).collect();
    pairs.push((vec![], b"of the empty key".to_vec()));
    pairs.push((all.clone(), vec![]));
    pairs.push((b"\\x41\\".to_vec(), all.repeat(4096)));
    pairs.push(("\u{e9}\u{1F600} \u{2028}".into(), b"a\tb\r\nc\r".to_vec()));
    pairs.sort();
    pairs
}

fn raw(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in pairs {
        bytes.extend_from_slice(&u32::try_from(key.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(value.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
    bytes
}

fn pairs_of_raw(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let length = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let (key_end, value_end) = (8 + length(0), 8 + length(0) + length(4));
        pairs.push((bytes[8..key_end].to_vec(), bytes[key_end..value_end].to_vec()));
        bytes = &bytes[value_end..];
    }
    pairs.sort();
    pairs
}

#[test]
fn any_bytes_round_trip_in_every_format() {
    let place = directory();
    let pairs = awkward_pairs();
    fs::write(place.path().join("in.raw"), raw(&pairs)).unwrap();
    run_well(place.path(), &["load", "first.spt", "in.raw"]);
    for format in ["tsv", "csv", "jsonl", "raw", "parquet", "gdbm", "gdbm-flat", "db", "db-hex", "cdbmake"] {
        let dumped = run_well(place.path(), &["dump", "first.spt", "--format", format]);
        let file = format!("dumped.{format}");
        let table = format!("{format}.spt");
        fs::write(place.path().join(&file), dumped).unwrap();
        run_well(place.path(), &["load", &table, &file]);
        let again = run_well(place.path(), &["dump", &table, "--format", "raw"]);
        assert!(pairs_of_raw(&again) == pairs, "{format}");
    }
}

#[test]
fn any_bytes_round_trip_through_put_and_get() {
    let place = directory();
    // Arguments end at a zero byte, so the value comes by standard input.
    let value: Vec<u8> = (0..=255).collect();
    let mut put = splitpoint(place.path()).args(["put", "t.spt", "-x", "key"]).stdin(Stdio::piped()).spawn().unwrap();
    put.stdin.take().unwrap().write_all(&value).unwrap();
    assert!(put.wait().unwrap().success());
    assert_eq!(run_well(place.path(), &["get", "--raw", "t.spt", "key"]), value);
}

#[test]
fn scan_pages_add_up_to_the_table() {
    let place = directory();
    let rows: String = (0..1000).map(|number| format!("key{number}\t{number}\n")).collect();
    fs::write(place.path().join("rows.tsv"), &rows).unwrap();
    run_well(place.path(), &["load", "t.spt", "rows.tsv"]);
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    for _page in 0..1001 {
        let page = json(place.path(), &["scan", "t.spt", "--json", "--limit", "37", "--cursor", &cursor]);
        let pairs = page["pairs"].as_array().unwrap();
        found.extend(
            pairs.iter().map(|pair| format!("{}\t{}", pair["key"].as_str().unwrap(), pair["value"].as_str().unwrap())),
        );
        match &page["cursor"] {
            Value::Null => break,
            next => next.as_str().unwrap().clone_into(&mut cursor),
        }
    }
    let mut expected: Vec<&str> = rows.lines().collect();
    found.sort();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn stat_json_has_the_fields_that_scripts_rely_on() {
    let place = directory();
    run_well(place.path(), &["put", "t.spt", "key", "value"]);
    let stat = json(place.path(), &["stat", "t.spt", "--json"]);
    for field in ["pairs", "buckets", "page_bytes", "file_bytes", "payload_bytes", "overflow_pages", "extents"] {
        assert!(stat[field].is_u64(), "{field}: {}", stat[field]);
    }
    assert!(stat["hash"].is_string());
    assert_eq!((stat["pairs"].as_u64(), stat["payload_bytes"].as_u64()), (Some(1), Some(8)));
    let histogram = stat["histogram"].as_array().unwrap();
    let sum = |field: fn(&Value) -> u64| histogram.iter().map(field).sum::<u64>();
    assert_eq!(sum(|row| row["buckets"].as_u64().unwrap()), stat["buckets"].as_u64().unwrap());
    assert_eq!(sum(|row| row["buckets"].as_u64().unwrap() * row["size"].as_u64().unwrap()), 1);
}

#[test]
fn a_damaged_table_fails_its_check() {
    let place = directory();
    let rows: String = (0..5000).map(|number| format!("key{number}\tvalue {number}\n")).collect();
    fs::write(place.path().join("rows.tsv"), rows).unwrap();
    run_well(place.path(), &["load", "t.spt", "rows.tsv"]);
    let mut bytes = fs::read(place.path().join("t.spt")).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 64] {
        *byte ^= 0x55;
    }
    fs::write(place.path().join("t.spt"), bytes).unwrap();
    let check = run(place.path(), &["check", "t.spt"]);
    let said = [check.stdout, check.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(!check.status.success(), "{said}");
    assert!(said.contains("t.spt: "), "{said}");
}

#[test]
fn a_closed_pipe_ends_a_dump_silently() {
    let place = directory();
    let rows: String = (0..50_000).map(|number| format!("key{number}\tvalue {number}\n")).collect();
    fs::write(place.path().join("rows.tsv"), rows).unwrap();
    run_well(place.path(), &["load", "t.spt", "rows.tsv"]);
    let mut dump =
        splitpoint(place.path()).args(["dump", "t.spt"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(dump.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("key"));
    let output = dump.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error() {
    let place = directory();
    run_well(place.path(), &["put", "t.spt", "key", "value"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = splitpoint(place.path()).args(["dump", "t.spt"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.starts_with("splitpoint: standard output: "), "{said}");
}

#[test]
fn a_load_of_a_missing_file_leaves_no_table() {
    let place = directory();
    assert!(!run(place.path(), &["load", "t.spt", "absent.tsv"]).status.success());
    assert!(!place.path().join("t.spt").exists());
}

mod signals {
    use super::*;

    /// Kills the process if a test fails before it has ended.
    pub struct Running(pub Option<Child>);

    impl Drop for Running {
        fn drop(&mut self) {
            if let Some(child) = &mut self.0 {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    pub fn send(signal: &str, child: &Child) {
        let status = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// Waits, with a limit.
    pub fn end_of(running: &mut Running) -> Output {
        let deadline = Instant::now() + Duration::from_secs(20);
        while running.0.as_mut().unwrap().try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the program did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        running.0.take().unwrap().wait_with_output().unwrap()
    }

    const SIGNALS: [(&str, u32); 3] = [("INT", 2), ("TERM", 15), ("HUP", 1)];

    /// A shell starts background jobs with SIGINT ignored, and their children inherit that; then there is nothing to
    /// test.
    fn ignored(signal_number: u32) -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
        u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal_number - 1) & 1 == 1
    }

    /// Returns the signals that are not ignored here.
    pub fn heeded() -> impl Iterator<Item = (&'static str, u32)> {
        SIGNALS.into_iter().filter(|&(signal, number)| {
            if ignored(number) {
                eprintln!("SKIPPED: SIG{signal}, which is ignored here");
            }
            !ignored(number)
        })
    }

    /// Starts the program and sends a signal as soon as the program watches for it; repeats if the program ended
    /// before.
    pub fn stopped_at_its_start(place: &Path, arguments: &[&str], signal: &str, number: u32) -> Output {
        for _ in 0..50 {
            let mut command = splitpoint(place);
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut running = Running(Some(command.spawn().unwrap()));
            wait_until_it_watches(running.0.as_ref().unwrap(), number);
            send(signal, running.0.as_ref().unwrap());
            let output = end_of(&mut running);
            if !output.status.success() {
                return output;
            }
        }
        panic!("{arguments:?} is done before a signal comes");
    }

    /// A load that was killed with all its rows in the log.
    #[test]
    fn stat_and_check_agree_after_a_kill() {
        let place = directory();
        let mut load = splitpoint(place.path());
        load.args(["load", "t.spt", "-", "--durability", "os"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut load = Running(Some(load.spawn().unwrap()));
        let mut rows = load.0.as_mut().unwrap().stdin.take().unwrap();
        (0..20_000).for_each(|number| writeln!(rows, "key{number}\tvalue {number}").unwrap());
        rows.flush().unwrap();
        let log = place.path().join("t.spt-log0");
        let deadline = Instant::now() + Duration::from_secs(20);
        while log.metadata().map_or(0, |metadata| metadata.len()) < 400_000 {
            assert!(Instant::now() < deadline, "the load takes no rows");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(load);
        let stat = json(place.path(), &["stat", "t.spt", "--json"]);
        let check = json(place.path(), &["check", "t.spt", "--json"]);
        assert!(stat["pairs"].as_u64() > Some(5000), "{stat}");
        assert_eq!(stat["pairs"], check["pairs"]);
        // Both replay the log with several threads, which split buckets in any order, so the sizes differ by some runs
        // of pages; without a replay each would be the empty table's size.
        let said = String::from_utf8(run_well(place.path(), &["check", "t.spt"])).unwrap();
        let kib: f64 = said.trim_end().strip_suffix(" KiB").unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        let listed = stat["file_bytes"].as_f64().unwrap() / 1024.0;
        let empty = place.path().join("t.spt").metadata().unwrap().len() as f64 / 1024.0;
        assert!(empty < listed / 2.0 && kib > listed / 2.0 && listed > kib / 2.0, "{said}{listed} KiB, {empty} KiB");
    }

    pub fn wait_until_it_watches(child: &Child, number: u32) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let watches = || {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
            u64::from_str_radix(mask.trim(), 16).unwrap() >> (number - 1) & 1 == 1
        };
        // A finished process has no such line.
        let done = || fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap().contains("(zombie)");
        while !watches() && !done() {
            assert!(Instant::now() < deadline, "the program does not watch for signals");
            std::thread::yield_now();
        }
        // It has registered one signal and is about to register the others.
        std::thread::sleep(Duration::from_millis(2));
    }

    pub fn stopped_by(output: &Output, signal: &str, number: u32) -> String {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(128 + i32::try_from(number).unwrap()), "SIG{signal}: {said}");
        said.strip_prefix(&format!("splitpoint: stopped by SIG{signal}: "))
            .unwrap_or_else(|| panic!("{said}"))
            .to_owned()
    }

    /// Returns the number at the start of a sentence.
    pub fn first_number(said: &str) -> usize {
        said.split(' ').next().unwrap().replace(',', "").parse().unwrap()
    }

    pub fn row(n: usize) -> String {
        format!("key{n}\tvalue {n}\n")
    }

    /// The table has the first `count` rows, and no other file is left.
    fn has_first_rows(place: &Path, rows: usize) {
        let dumped = String::from_utf8(run_well(place, &["dump", "t.spt"])).unwrap();
        let mut dumped: Vec<&str> = dumped.split_inclusive('\n').collect();
        let expected: Vec<String> = (0..rows).map(row).collect();
        let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        dumped.sort_unstable();
        expected.sort_unstable();
        assert!(dumped == expected, "{} rows, expected {rows}", dumped.len());
        run_well(place, &["check", "t.spt"]);
        assert_eq!(fs::read_dir(place).unwrap().count(), 1, "a file is left beside the table");
    }

    /// Writes more rows than a pipe and the program's buffer hold, so that some are in the table when the last is
    /// written.
    pub fn write_many_rows(stdin: &mut impl Write) {
        let rows: String = (0..30_000).map(row).collect();
        stdin.write_all(rows.as_bytes()).unwrap();
    }

    /// Waits long enough for the program to read its input and wait for more. If that is too short, no test fails.
    pub fn let_it_block() {
        std::thread::sleep(Duration::from_millis(300));
    }

    #[test]
    fn a_signal_in_a_load_that_waits_for_input_keeps_the_rows() {
        for (signal, number) in heeded() {
            let place = directory();
            let mut load = splitpoint(place.path());
            load.args(["load", "t.spt", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut load = Running(Some(load.spawn().unwrap()));
            let child = load.0.as_mut().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            write_many_rows(&mut stdin);
            let_it_block();
            send(signal, child);
            let output = end_of(&mut load);
            drop(stdin);
            let said = stopped_by(&output, signal, number);
            let rows = first_number(&said);
            assert!(rows > 0 && said.contains(&format!("the next is stdin:{}", rows + 1)), "{said}");
            has_first_rows(place.path(), rows);
        }
    }

    #[test]
    fn a_signal_in_a_load_at_work_keeps_the_rows_before_it() {
        for (signal, number) in heeded() {
            for durability in ["none", "os", "sync"] {
                let place = directory();
                let mut load = splitpoint(place.path());
                load.args(["load", "t.spt", "-", "--durability", durability]);
                load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut load = Running(Some(load.spawn().unwrap()));
                let mut stdin = load.0.as_mut().unwrap().stdin.take().unwrap();
                write_many_rows(&mut stdin); // from here on it watches, and has rows
                // Until the reader is gone.
                let feeder = std::thread::spawn(move || {
                    (30_000..).step_by(1000).find(|first| {
                        let rows: String = (*first..first + 1000).map(row).collect();
                        stdin.write_all(rows.as_bytes()).is_err()
                    })
                });
                send(signal, load.0.as_ref().unwrap());
                let said = stopped_by(&end_of(&mut load), signal, number);
                feeder.join().unwrap();
                let rows = first_number(&said);
                assert!(rows > 0 && said.contains(&format!("the next is stdin:{}", rows + 1)), "{said}");
                has_first_rows(place.path(), rows);
            }
        }
    }

    #[test]
    fn a_signal_in_a_dump_ends_it_after_a_whole_row() {
        let place = directory();
        let rows: String = (0..50_000).map(row).collect();
        fs::write(place.path().join("rows.tsv"), &rows).unwrap();
        run_well(place.path(), &["load", "t.spt", "rows.tsv"]);
        let whole: std::collections::HashSet<&str> = rows.lines().collect();
        for (signal, number) in heeded() {
            // Its output is not read until it ends, so it blocks in the middle.
            let mut dump = splitpoint(place.path());
            dump.args(["dump", "t.spt"]).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut dump = Running(Some(dump.spawn().unwrap()));
            wait_until_it_watches(dump.0.as_ref().unwrap(), number);
            let_it_block();
            send(signal, dump.0.as_ref().unwrap());
            let output = dump.0.take().unwrap().wait_with_output().unwrap();
            let said = stopped_by(&output, signal, number);
            let written = String::from_utf8(output.stdout).unwrap();
            assert_eq!(written.lines().count(), first_number(&said), "{said}");
            assert!(written.ends_with('\n') && written.len() < rows.len());
            assert!(written.lines().all(|line| whole.contains(line)), "a row in part");
        }
    }

    #[test]
    fn a_signal_in_a_compaction_takes_effect_when_the_table_is_consistent() {
        for (signal, number) in heeded() {
            let place = directory();
            let rows: String = (0..20_000).map(row).collect();
            fs::write(place.path().join("rows.tsv"), &rows).unwrap();
            // More buckets than its pairs need; compaction removes them.
            run_well(place.path(), &["load", "t.spt", "rows.tsv", "--expected-len", "200000"]);
            fs::remove_file(place.path().join("rows.tsv")).unwrap();
            let said =
                stopped_by(&stopped_at_its_start(place.path(), &["compact", "t.spt"], signal, number), signal, number);
            assert_eq!(said, "after the table was compacted\n");
            has_first_rows(place.path(), 20_000);
        }
    }

    #[test]
    fn a_signal_in_a_check_ends_it_without_a_result() {
        let place = directory();
        run_well(place.path(), &["load", "big.spt", "/dev/null", "--expected-len", "5000000"]);
        for (signal, number) in heeded() {
            let output = stopped_at_its_start(place.path(), &["check", "big.spt"], signal, number);
            let said = stopped_by(&output, signal, number);
            assert_eq!(said, "the check did not finish and says nothing about the file\n");
            assert_eq!(output.stdout, b"");
        }
        run_well(place.path(), &["check", "big.spt"]);
    }

    #[test]
    fn a_stopped_backup_leaves_nothing() {
        let place = directory();
        run_well(place.path(), &["put", "t.spt", "key", "value"]);
        // A quarter of a gigabyte: more than is copied before a signal comes.
        let value = "v".repeat(1 << 20);
        let rows: String = (0..256).map(|n| format!("key{n}\t{value}\n")).collect();
        fs::write(place.path().join("rows"), rows).unwrap();
        run_well(place.path(), &["load", "big.spt", "rows"]);
        fs::remove_file(place.path().join("rows")).unwrap();
        let beside = || fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let commands = [("backup", "big.spt", "big.bak"), ("restore", "big.spt", "t.spt")];
        for ((command, from, to), (signal, number)) in commands.into_iter().flat_map(|c| heeded().map(move |s| (c, s)))
        {
            let mut copy = splitpoint(place.path());
            copy.args([command, from, to, "--force"]).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut copy = Running(Some(copy.spawn().unwrap()));
            let deadline = Instant::now() + Duration::from_secs(20);
            while !beside().any(|name| name.to_string_lossy().starts_with(".splitpoint-backup-")) {
                assert!(Instant::now() < deadline, "nothing is being copied");
                std::thread::sleep(Duration::from_millis(1));
            }
            send(signal, copy.0.as_ref().unwrap());
            let said = stopped_by(&end_of(&mut copy), signal, number);
            assert!(said.starts_with("no"), "{said}");
            assert_eq!(beside().count(), 2, "a file is left");
        }
        assert_eq!(run_well(place.path(), &["get", "t.spt", "key"]), b"value\n");
    }

    #[test]
    fn a_signal_that_the_parent_ignores_stays_ignored() {
        let place = directory();
        let script = format!("trap '' HUP INT TERM; exec '{PROGRAM}' load t.spt -");
        let mut load = Command::new("sh");
        load.args(["-c", &script]).current_dir(place.path());
        load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut load = Running(Some(load.spawn().unwrap()));
        let child = load.0.as_mut().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        write_many_rows(&mut stdin);
        send("HUP", child);
        stdin.write_all(b"last\trow\n").unwrap();
        drop(stdin);
        let output = end_of(&mut load);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(run_well(place.path(), &["get", "t.spt", "last"]), b"row\n");
    }
}
