//! Ctrl-C while a command works, and a closed output while a command writes (`head`): the exit status, the last line,
//! and the files that remain.
//!
//! "While it works" is measured in processor time of the command, and a command that ends before is run again, so a
//! busy machine changes nothing.

use super::signals::{Running, end_of, heeded, let_it_block, row, send, stopped_by, wait_until_it_watches};
use super::{BufRead, BufReader, Child, Command, Duration, Instant, Output, Stdio, TempDir};
use super::{directory, fs, run_well, splitpoint};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const ROWS: usize = 300_000;

/// A command, run in an empty directory next to the files that [`prepare`] makes.
struct Work {
    line: &'static str,
    /// Files that exist before.
    before: &'static [&'static str],
    /// Files that it may create or change before it is stopped.
    kept: &'static [&'static str],
}

const fn work(line: &'static str, before: &'static [&'static str], kept: &'static [&'static str]) -> Work {
    Work { line, before, kept }
}

/// Commands that need the processor.
const WORKING: &[Work] = &[
    work("load n.spt ../rows.tsv", &[], &["n.spt"]),
    work("load n.spt ../rows.tsv --durability os", &[], &["n.spt"]),
    work("load big.spt ../rows.tsv --duplicates append", &["big.spt"], &["big.spt"]),
    work("del big.spt -", &["big.spt"], &["big.spt"]),
    work("exists ../big.spt -", &[], &[]),
    work("diff ../big.spt ../same.spt", &[], &[]),
    work("merge n.spt ../big.spt ../other.spd", &[], &[]),
    work("merge n.spd ../big.spt ../other.spd", &[], &[]),
    work("stat ../big.spt", &[], &[]),
    work("check ../big.spt", &[], &[]),
    work("compact big.spt", &["big.spt"], &["big.spt"]),
    work("backup ../big.spt out.bak --force", &["out.bak"], &[]),
    work("restore ../big.spt out.spt --force", &["out.spt"], &[]),
    work("freeze ../big.spt out.spd --index chunk --effort small", &["out.spd"], &[]),
    work("thaw ../big.spd n.spt", &[], &[]),
    work("thaw ../big.spd big.spt", &["big.spt"], &["big.spt"]),
    work("dict build ../rows.tsv out.spd", &["out.spd"], &[]),
    work("dict update ../big.spd ../rows.tsv out.spd", &["out.spd"], &[]),
    work("dict reindex ../big.spd out.spd --index chunk --effort small", &["out.spd"], &[]),
    work("dict check ../big.spd", &[], &[]),
    work("lab hash ../rows.tsv --html page.html", &["page.html"], &[]),
    work("lab schemes ../rows.tsv --html page.html", &["page.html"], &[]),
    work("lab tune ../rows.tsv --html page.html", &["page.html"], &[]),
    work("lab kernel ../tree --runs 1000 --html page.html", &["page.html"], &[]),
    work("lab kernel ../tree --scripts 512 --write-trace t.txt", &[], &[]),
];

/// Commands that write more than a pipe holds.
const WRITING: &[&str] = &[
    "dump ../big.spt",
    "dump ../big.spt --format jsonl",
    "dump ../big.spt --format sql",
    "dump ../big.spt --salvage",
    "dump ../big.spt --salvage --format sql",
    "get ../big.spt -",
    "scan ../big.spt",
    "scan ../big.spt --json",
    "shell ../big.spt --read-only",
    "shell ../big.spd",
    "diff ../big.spt ../other.spd",
    "dict diff ../other.spd ../rows.spd",
    "dict dump ../big.spd",
    "dict get ../big.spd -",
];

/// Commands that end immediately, or wait; `stat --watch` is in `watch.rs`, `serve` below.
const SHORT: &[&str] = &["append", "completions", "count", "dict-stat", "man", "put", "rename", "serve"];

fn prepare() -> TempDir {
    let place = directory();
    let at = |name: &str| place.path().join(name);
    fs::write(at("rows.tsv"), (0..ROWS).map(row).collect::<String>()).unwrap();
    fs::write(at("other.tsv"), (0..ROWS).step_by(3).map(|n| row(2 * n)).collect::<String>()).unwrap();
    fs::write(at("keys.txt"), (0..ROWS).map(|n| format!("key{n}\n")).collect::<String>()).unwrap();
    fs::write(at("list.txt"), format!("list {ROWS}\n")).unwrap();
    fs::create_dir(at("tree")).unwrap();
    (0..40).for_each(|n| fs::write(at("tree").join(format!("{n}.txt")), vec![b'x'; n * 400]).unwrap());
    // Room for more pairs, which compact removes.
    run_well(place.path(), &["load", "big.spt", "rows.tsv", "--expected-len", "1000000"]);
    run_well(place.path(), &["load", "same.spt", "rows.tsv"]);
    run_well(place.path(), &["freeze", "same.spt", "big.spd"]);
    run_well(place.path(), &["dict", "build", "other.tsv", "other.spd"]);
    run_well(place.path(), &["dict", "build", "rows.tsv", "rows.spd"]);
    place
}

/// Creates an empty directory next to the files that [`prepare`] made, with the files that may exist before a command.
fn empty_with(place: &Path, before: &[&str]) -> PathBuf {
    let own = place.join("own");
    let _ = fs::remove_dir_all(&own);
    fs::create_dir(&own).unwrap();
    for name in before {
        match *name {
            "big.spt" => drop(fs::copy(place.join(name), own.join(name)).unwrap()),
            "out.spd" => drop(fs::copy(place.join("other.spd"), own.join(name)).unwrap()),
            "page.html" => fs::write(own.join(name), "an earlier page").unwrap(),
            _ => drop(run_well(&own, &["put", name, "earlier", "pair"])),
        }
    }
    own
}

fn files(of: &Path, except: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let names = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| !except.contains(&name.as_str()));
    // A directory that was left counts by its name.
    names.map(|name| (name.clone(), fs::read(of.join(&name)).unwrap_or_default())).collect()
}

fn command(own: &Path, line: &str) -> Command {
    let mut command = splitpoint(own);
    command.args(line.split(' ')).env("TMPDIR", own).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = if line.starts_with("shell") { "../list.txt" } else { "../keys.txt" };
    if line.starts_with("shell") || line.ends_with(" -") {
        command.stdin(fs::File::open(own.join(input)).unwrap());
    }
    command
}

/// Processor time that a process has used, in hundredths of a second; `None` once it has ended.
fn processor_time(child: &Child) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    (fields[0] != "Z").then(|| [fields[11], fields[12]].iter().map(|field| field.parse::<u64>().unwrap()).sum())
}

/// Starts the command, and sends SIGINT once it has used that much processor time; `None` if it ended before.
fn interrupted_at(own: &Path, line: &str, time: u64) -> Option<Output> {
    let mut running = Running(Some(command(own, line).spawn().unwrap()));
    wait_until_it_watches(running.0.as_ref().unwrap(), 2);
    let deadline = Instant::now() + Duration::from_secs(60);
    while processor_time(running.0.as_ref().unwrap()).is_some_and(|had| had < time) {
        assert!(Instant::now() < deadline, "{line}: does not work");
        std::thread::sleep(Duration::from_millis(1));
    }
    send("INT", running.0.as_ref().unwrap());
    let output = end_of(&mut running);
    (!output.status.success()).then_some(output)
}

/// Reduces standard error to its last line.
fn last_line(output: &Output) -> Output {
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default().to_owned();
    Output { stderr: last.into_bytes(), ..output.clone() }
}

#[test]
fn every_command_is_interrupted_at_work_or_short() {
    let place = directory();
    run_well(place.path(), &["man", "--out", "man"]);
    let names = fs::read_dir(place.path().join("man")).unwrap().map(|entry| entry.unwrap().file_name());
    let pages = names.map(|name| name.into_string().unwrap().replace(".1", "").replace("splitpoint-", ""));
    let groups = ["splitpoint", "dict", "lab"];
    let pages: BTreeSet<String> = pages.filter(|name| !groups.contains(&name.as_str())).collect();
    let lines = WORKING.iter().map(|work| work.line).chain(WRITING.iter().copied());
    let tested = lines.map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        words[..if groups.contains(&words[0]) { 2 } else { 1 }].join("-")
    });
    let tested: BTreeSet<String> = tested.chain(SHORT.iter().map(|name| (*name).to_owned())).collect();
    assert_eq!(pages, tested);
}

#[test]
fn ctrl_c_at_work_leaves_whole_files_or_none() {
    if heeded().all(|(signal, _)| signal != "INT") {
        return;
    }
    let place = prepare();
    for Work { line, before, kept } in WORKING {
        let mut stopped = 0;
        // At its start, and later. If it ends before, at its start again.
        for time in [1, 12, 1, 1, 1, 1] {
            let own = empty_with(place.path(), before);
            let as_before = files(&own, kept);
            let Some(output) = interrupted_at(&own, line, time) else { continue };
            let said = stopped_by(&last_line(&output), "INT", 2);
            assert!(said.len() > 10, "{line}: {said}");
            assert!(files(&own, kept) == as_before, "{line}: {:?} after {said}", files(&own, kept).keys());
            for table in kept.iter().filter(|name| own.join(name).exists()) {
                run_well(&own, &["check", table]);
            }
            stopped += 1;
            if stopped == 2 {
                break;
            }
        }
        assert!(stopped > 0, "{line}: is always done before the signal comes");
    }
}

#[test]
fn ctrl_c_leaves_whole_files_of_a_tree() {
    if heeded().all(|(signal, _)| signal != "INT") {
        return;
    }
    let place = directory();
    fs::write(place.path().join("rows.tsv"), (0..50_000).map(row).collect::<String>()).unwrap();
    run_well(place.path(), &["load", "big.spt", "rows.tsv"]);
    for time in [1, 5] {
        let own = empty_with(place.path(), &[]);
        let output = interrupted_at(&own, "dump ../big.spt --tree files", time).unwrap();
        let said = stopped_by(&last_line(&output), "INT", 2);
        if !own.join("files").exists() {
            assert_eq!(said, "nothing was written");
            continue;
        }
        let files = fs::read_dir(own.join("files")).unwrap().count();
        assert!(said.contains("all complete"), "{said}");
        if files > 0 {
            run_well(&own, &["load", "files.spt", "files", "--tree"]);
            // Pairs of the table that were not written are the only difference.
            let diff = super::run(&own, &["diff", "files.spt", "../big.spt", "--json"]);
            let summary = diff.stdout.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap();
            let diff: serde_json::Value = serde_json::from_slice(summary).unwrap();
            assert_eq!((&diff["changed"], &diff["only_a"]), (&0.into(), &0.into()), "{diff}");
        }
    }
}

#[test]
fn ctrl_c_while_output_is_blocked_ends_after_a_complete_row() {
    if heeded().all(|(signal, _)| signal != "INT") {
        return;
    }
    let place = prepare();
    for line in WRITING {
        let own = empty_with(place.path(), &[]);
        let mut running = Running(Some(command(&own, line).spawn().unwrap()));
        wait_until_it_watches(running.0.as_ref().unwrap(), 2);
        let_it_block();
        send("INT", running.0.as_ref().unwrap());
        let output = running.0.take().unwrap().wait_with_output().unwrap();
        stopped_by(&last_line(&output), "INT", 2);
        assert!(output.stdout.is_empty() || output.stdout.ends_with(b"\n"), "{line}: a row in part");
        assert!(!output.stdout.ends_with(b"COMMIT;\n"), "{line}: partial output that looks complete");
        assert!(files(&own, &[]).is_empty(), "{line}");
    }
}

#[test]
fn a_reader_that_stops_after_a_line_ends_the_command_silently() {
    let place = prepare();
    for line in WRITING {
        let own = empty_with(place.path(), &[]);
        let mut running = Running(Some(command(&own, line).spawn().unwrap()));
        let mut first = String::new();
        BufReader::new(running.0.as_mut().unwrap().stdout.take().unwrap()).read_line(&mut first).unwrap();
        let output = end_of(&mut running);
        let said = String::from_utf8_lossy(&output.stderr);
        // That tables differ is an answer, whether or not it is read.
        let status = i32::from(line.starts_with("diff "));
        assert_eq!((output.status.code(), &*said), (Some(status), ""), "{line}");
        assert!(first.ends_with('\n'), "{line}: {first}");
    }
}

/// A stopped server has done its work: the status is 0.
#[test]
fn ctrl_c_ends_a_server_in_order() {
    if heeded().all(|(signal, _)| signal != "INT") {
        return;
    }
    let place = directory();
    let serve = "serve --file t.spt --resp none --unix s.sock";
    let mut running = Running(Some(command(place.path(), serve).spawn().unwrap()));
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut client = loop {
        if let Ok(client) = std::os::unix::net::UnixStream::connect(place.path().join("s.sock")) {
            break client;
        }
        assert!(Instant::now() < deadline, "the server does not listen");
        std::thread::sleep(Duration::from_millis(5));
    };
    std::io::Write::write_all(&mut client, b"SET key value\r\n").unwrap();
    let mut reply = String::new();
    BufReader::new(&client).read_line(&mut reply).unwrap();
    assert_eq!(reply, "+OK\r\n");
    send("INT", running.0.as_ref().unwrap());
    let output = end_of(&mut running);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.trim_end().ends_with("ended"), "{said}");
    assert_eq!(run_well(place.path(), &["get", "t.spt", "key"]), b"value\n");
    assert_eq!(files(place.path(), &["s.sock"]).into_keys().collect::<Vec<_>>(), ["t.spt"]);
}
