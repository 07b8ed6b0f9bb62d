//! Commands in a failing environment: messages and answers that cannot be written, threads that cannot be started. The
//! work succeeds or fails with an error, and the exit status reports which.
//!
//! A library that is loaded before the others (`LD_PRELOAD`) makes thread creation fail: its `pthread_create` succeeds
//! a given number of times. It is compiled with the `cc` that Rust links with.

use super::every::{CASES, command, prepare, said};
use super::{Command, Output, Stdio, TempDir, directory, fs, run_well};
use std::path::Path;

/// A sink that loses messages.
enum Lost {
    FullDisk,
    ClosedPipe,
}

const LOST: [Lost; 2] = [Lost::FullDisk, Lost::ClosedPipe];

impl Lost {
    fn stream(&self) -> Stdio {
        match self {
            Lost::FullDisk => fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into(),
            Lost::ClosedPipe => std::io::pipe().unwrap().1.into(),
        }
    }
}

fn status_without_messages(place: &Path, line: &str, lost: &Lost) -> Option<i32> {
    command(place, line).stdout(Stdio::null()).stderr(lost.stream()).status().unwrap().code()
}

#[test]
#[cfg(target_os = "linux")]
fn every_command_ends_with_the_same_status_when_its_messages_cannot_be_written() {
    for lost in &LOST {
        // Each time in a directory of its own: some commands change it so that they fail when repeated.
        let place = directory();
        prepare(place.path());
        for case in CASES {
            assert_eq!(status_without_messages(place.path(), case.good, lost), Some(0), "{}", case.good);
            let bad = command(place.path(), case.bad).output().unwrap().status.code();
            assert_eq!(status_without_messages(place.path(), case.bad, lost), bad, "{}", case.bad);
        }
    }
}

/// More than one message each, during the work.
#[test]
#[cfg(target_os = "linux")]
fn work_continues_when_messages_cannot_be_written() {
    let place = directory();
    let rows: String =
        (0..2000).map(|n| if n % 2 == 0 { format!("key{n}\tvalue\n") } else { format!("no tab {n}\n") }).collect();
    fs::write(place.path().join("mixed.tsv"), rows).unwrap();
    fs::write(place.path().join("keys"), (0..3000).map(|n| format!("key{n}\n")).collect::<String>()).unwrap();
    let load = "load t.spt mixed.tsv --format tsv --on-error skip";
    run_well(place.path(), &load.split(' ').collect::<Vec<_>>());
    fs::copy(place.path().join("t.spt"), place.path().join("other.spt")).unwrap();
    for lost in &LOST {
        for name in ["n.spt", "n.spd"] {
            let _ = fs::remove_file(place.path().join(name));
        }
        let status = |line: &str| {
            let keys = fs::File::open(place.path().join("keys")).unwrap();
            let (stdout, stderr) = (Stdio::null(), lost.stream());
            command(place.path(), line).stdin(keys).stdout(stdout).stderr(stderr).status().unwrap().code()
        };
        assert_eq!(status("load n.spt mixed.tsv --format tsv --on-error skip"), Some(0));
        assert_eq!(run_well(place.path(), &["count", "n.spt"]), b"1000\n");
        assert_eq!(status("dict build mixed.tsv n.spd --format tsv --on-error skip"), Some(0));
        assert_eq!(run_well(place.path(), &["count", "n.spd"]), b"1000\n");
        assert_eq!(status("get n.spt -"), Some(1));
        assert_eq!(status("exists n.spt -"), Some(1));
        assert_eq!(status("scan n.spt --limit 5"), Some(0));
        assert_eq!(status("del n.spt -"), Some(1));
        assert_eq!(run_well(place.path(), &["count", "n.spt"]), b"0\n");
        assert_eq!(status("diff n.spt other.spt"), Some(1));
    }
}

/// `head` ends before the answer is complete: the exit status still tells the state of the file.
#[test]
fn a_reader_that_has_gone_does_not_turn_a_no_into_a_yes() {
    let place = directory();
    prepare(place.path());
    let at = |name: &str| place.path().join(name);
    let mut damaged = fs::read(at("t.spt")).unwrap();
    damaged.iter_mut().skip(20_000).step_by(4096).for_each(|byte| *byte ^= 1);
    fs::write(at("damaged.spt"), damaged).unwrap();
    fs::write(at("bad.jsonl"), "nothing of this\nis JSON\n").unwrap();
    run_well(place.path(), &["put", "one.spt", "key1", "x"]);
    for line in [
        "check damaged.spt",
        "check damaged.spt --json",
        "dump damaged.spt --salvage",
        "get t.spt key1 absent",
        "dict get t.spd key1 absent",
        "diff t.spt one.spt",
        "diff t.spt one.spt --json",
        "load n.spt bad.jsonl --format jsonl --on-error skip --json",
        "load n.spt bad.jsonl --format jsonl --json",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(place.path(), line).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {}", said(line, &output));
    }
    // Commands that change a table continue after a command whose answer nobody reads.
    fs::write(at("commands"), "list\nget key1\nput after all\nget absent\n").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let commands = fs::File::open(at("commands")).unwrap();
    let output =
        command(place.path(), "shell t.spt").stdin(commands).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "a key was absent");
    assert_eq!(run_well(place.path(), &["get", "t.spt", "after"]), b"all\n");
}

#[test]
#[cfg(target_os = "linux")]
fn help_that_cannot_be_written_is_an_error() {
    let place = directory();
    for line in ["--help", "--version", "load --help"] {
        let output = command(place.path(), line).stdout(Lost::FullDisk.stream()).output().unwrap();
        assert!(matches!(output.status.code(), Some(3..=28)), "{line}: {:?}", output.status);
    }
}

/// A library whose `pthread_create` succeeds `THREADS` times.
#[cfg(target_os = "linux")]
const REFUSES_THREADS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
static atomic_int started;
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    const char *most = getenv("THREADS");
    if (most && atomic_fetch_add(&started, 1) >= atoi(most)) return EAGAIN;
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    return create(thread, attributes, run, argument);
}
"#;

#[cfg(target_os = "linux")]
fn library_that_refuses_threads() -> TempDir {
    let place = directory();
    fs::write(place.path().join("threads.c"), REFUSES_THREADS).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o", "threads.so", "threads.c", "-ldl"]).current_dir(place.path());
    assert!(compile.status().unwrap().success());
    place
}

#[cfg(target_os = "linux")]
fn with_threads(place: &Path, library: &TempDir, line: &str, threads: usize) -> Command {
    let mut command = command(place, line);
    command.env("LD_PRELOAD", library.path().join("threads.so")).env("THREADS", threads.to_string());
    command
}

/// Asserts that the command succeeded, or printed the reason in one line.
#[cfg(target_os = "linux")]
fn assert_done_or_refused(line: &str, threads: usize, output: &Output) {
    let message = said(line, output);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3..=28)), "{line}, {threads}: {:?} {message}", output.status);
    if !output.status.success() {
        assert!(message.contains("os error 11"), "{line}, {threads} threads: {message}");
        assert_eq!(message.lines().count(), 1, "{line}, {threads} threads: {message}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn every_command_works_or_is_refused_where_no_more_threads_can_be_started() {
    let (place, library) = (directory(), library_that_refuses_threads());
    prepare(place.path());
    // Commands that start many threads only above a certain size.
    let rows: String = (0..40_000).map(|number| format!("key{number}\tvalue {number}\n")).collect();
    fs::write(place.path().join("many.tsv"), rows).unwrap();
    run_well(place.path(), &["load", "t.spt", "many.tsv"]);
    run_well(place.path(), &["freeze", "t.spt", "t.spd"]);
    // Studies of all schemes, among the cases, keep the few rows.
    let more = [
        "load n.spt many.tsv",
        "dict build many.tsv b.spd --threads 4",
        "dict check t.spd --threads 4",
        "lab hash many.tsv --threads 3 --no-speed",
    ];
    // Creating and answering must succeed in any case.
    let always = [
        "get ",
        "put ",
        "count ",
        "check ",
        "stat ",
        "dict check ",
        "dict stat",
        "dict get ",
        "compact ",
        "lab ",
        "load ",
        "dump ",
    ];
    for line in CASES.iter().map(|case| case.good).chain(more) {
        // Studies take longer than all others.
        let counts: &[_] = if line.starts_with("lab ") { &[0] } else { &[0, 1, 3] };
        for &threads in counts {
            for made in ["n.spt", "m.spt", "th.spt"] {
                let _ = fs::remove_file(place.path().join(made));
            }
            // Some commands change it so that they fail when repeated.
            fs::write(place.path().join("saved"), fs::read(place.path().join("t.spt")).unwrap()).unwrap();
            let output = with_threads(place.path(), &library, line, threads).output().unwrap();
            assert_done_or_refused(line, threads, &output);
            if always.iter().any(|start| line.starts_with(start)) {
                assert!(output.status.success(), "{line}, {threads} threads: {}", said(line, &output));
            }
            fs::rename(place.path().join("saved"), place.path().join("t.spt")).unwrap();
        }
    }
}

/// Runs the program with at most this much address space.
#[cfg(target_os = "linux")]
fn with_addresses(place: &Path, line: &str, kibibytes: u64) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {kibibytes}; exec \"$0\" \"$@\""), super::PROGRAM]);
    command.args(line.split(' ')).current_dir(place).stdin(Stdio::null());
    command
}

#[test]
#[cfg(target_os = "linux")]
fn every_command_works_where_address_space_is_limited() {
    let place = directory();
    prepare(place.path());
    for case in CASES {
        let output = with_addresses(place.path(), case.good, 500_000).output().unwrap();
        assert!(output.status.success(), "{}: {}", case.good, said(case.good, &output));
    }
    // Limits below and above what the program itself needs: it prints an answer, or one line about memory.
    for line in ["get t.spt key1", "put t.spt new 1", "count t.spt", "check t.spt"] {
        let mut done = 0;
        for kibibytes in (1..40).map(|n| n * 10_000) {
            let output = with_addresses(place.path(), line, kibibytes).output().unwrap();
            let message = said(line, &output);
            done += u32::from(output.status.success());
            if message.starts_with("splitpoint: ") {
                assert!(message.contains("ulimit") && message.lines().count() == 1, "{line}, {kibibytes}: {message}");
            }
        }
        assert!(done > 10, "{line}: {done}");
    }
}

/// A server fails at its start, or serves, including requests that wait for the disk.
#[test]
#[cfg(target_os = "linux")]
fn a_server_works_or_is_refused_where_no_more_threads_can_be_started() {
    use std::io::{BufRead, BufReader, Read, Write};
    let (place, library) = (directory(), library_that_refuses_threads());
    let mut served = 0;
    for threads in 0..16 {
        // A small cache: lookups may have to read the file, so the event loop does not run them.
        let line = format!("serve --file t{threads}.spt --cache 1MiB --resp none --unix s{threads} --threads 1");
        let mut server = with_threads(place.path(), &library, &line, threads).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(server.stderr.take().unwrap());
        let mut message = String::new();
        while !message.contains("listening") && log.read_line(&mut message).unwrap() > 0 {}
        if !message.contains("listening") {
            let output = Output { status: server.wait().unwrap(), stdout: Vec::new(), stderr: Vec::new() };
            assert!(matches!(output.status.code(), Some(3..=28)), "{threads} threads: {:?} {message}", output.status);
            assert!(message.contains("os error 11") && !message.contains("panicked"), "{threads} threads: {message}");
            continue;
        }
        served += 1;
        let mut client = std::os::unix::net::UnixStream::connect(place.path().join(format!("s{threads}"))).unwrap();
        let value = "x".repeat(1000);
        let sets: String = (0..4000).map(|n| format!("SET key{n} {value}\r\n")).collect();
        let mut writer = client.try_clone().unwrap();
        let writing = std::thread::spawn(move || writer.write_all(sets.as_bytes()).unwrap());
        let mut replies = vec![0; 4000 * 5];
        client.read_exact(&mut replies).unwrap();
        writing.join().unwrap();
        assert!(replies == b"+OK\r\n".repeat(4000), "{threads} threads");
        client.write_all(b"GET key7\r\nSHUTDOWN\r\n").unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, format!("$1000\r\n{value}\r\n"), "{threads} threads");
        log.read_to_string(&mut message).unwrap();
        assert!(server.wait().unwrap().success() && !message.contains("panicked"), "{threads} threads: {message}");
    }
    assert!(served > 3, "{served} of 16 servers started");
}

/// The log of a server is its standard error: SIGHUP writes to it.
#[test]
#[cfg(target_os = "linux")]
fn a_server_whose_log_cannot_be_written_serves_on() {
    use std::io::{Read, Write};
    for lost in &LOST {
        let place = directory();
        let mut server = command(place.path(), "serve --resp none --unix s").stderr(lost.stream()).spawn().unwrap();
        let mut client = loop {
            match std::os::unix::net::UnixStream::connect(place.path().join("s")) {
                Ok(client) => break client,
                Err(_) => assert!(server.try_wait().unwrap().is_none(), "the server ended"),
            }
            std::thread::yield_now();
        };
        let mut ask = |request: &[u8], expected: &[u8]| {
            client.write_all(request).unwrap();
            let mut reply = vec![0; expected.len()];
            client.read_exact(&mut reply).unwrap();
            assert_eq!(String::from_utf8_lossy(&reply), String::from_utf8_lossy(expected));
        };
        ask(b"SET key value\r\n", b"+OK\r\n");
        for _ in 0..3 {
            let killed = Command::new("kill").args(["-HUP", &server.id().to_string()]).status().unwrap();
            assert!(killed.success());
            ask(b"GET key\r\n", b"$5\r\nvalue\r\n");
        }
        client.write_all(b"SHUTDOWN\r\n").unwrap();
        assert!(server.wait().unwrap().success());
    }
}
