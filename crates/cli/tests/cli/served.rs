//! A server's file from outside: during recovery after a kill, and while other commands read it or try to replace it.
//!
//! A named pipe in place of `t.spt-order`, which the server reads first, delays the recovery until the test writes to
//! the pipe. So nothing here depends on the machine's speed.

use super::signals::{Running, end_of, send};
use super::{BufRead, BufReader, Command, Duration, Path, Read, Stdio, Write};
use super::{directory, fs, run, run_well, splitpoint};
use std::collections::BTreeSet;
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::ChildStderr;

/// A server of `t.spt` with a Unix socket `s` and HTTP, and its log.
struct Server {
    running: Running,
    log: BufReader<ChildStderr>,
    http: String,
}

impl Server {
    fn start(place: &Path) -> Server {
        Self::start_with(place, &[])
    }

    fn start_with(place: &Path, options: &[&str]) -> Server {
        let mut command = splitpoint(place);
        command
            .args(["serve", "--file", "t.spt", "--resp", "none", "--unix", "s", "--http", "127.0.0.1:0"])
            .args(options);
        command.env("NOTIFY_SOCKET", place.join("notify"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut server = Server { running: Running(Some(child)), log, http: String::new() };
        let line = server.line_with("status page and metrics");
        let address = line.split("address=").nth(1).unwrap();
        server.http = address.split_whitespace().next().unwrap().to_owned();
        server
    }

    /// Reads the log up to a line with this text, and returns that line.
    fn line_with(&mut self, text: &str) -> String {
        let mut all = String::new();
        loop {
            let before = all.len();
            assert!(self.log.read_line(&mut all).unwrap() > 0, "no {text:?} in:\n{all}");
            if all[before..].contains(text) {
                return all[before..].to_owned();
            }
        }
    }

    /// Requests a page; returns its status and body.
    fn page(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Stops the server and returns the rest of its log. It must exit cleanly.
    fn stop(self) -> String {
        send("TERM", self.running.0.as_ref().unwrap());
        self.ended()
    }

    fn ended(mut self) -> String {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        assert_eq!(end_of(&mut self.running).status.code(), Some(0), "{rest}");
        rest
    }
}

/// Sends a request; returns the first line of the reply.
fn reply(place: &Path, request: &str) -> String {
    let mut client = UnixStream::connect(place.join("s")).unwrap();
    write!(client, "{request}\r\n").unwrap();
    let mut reply = String::new();
    BufReader::new(client).read_line(&mut reply).unwrap();
    reply
}

#[test]
fn a_server_says_how_far_its_recovery_is_before_the_file_is_open_and_a_signal_ends_it_in_order() {
    let place = directory();
    let place = place.path();
    let systemd = UnixDatagram::bind(place.join("notify")).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
    let notified = || {
        let mut bytes = [0; 200];
        let len = systemd.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    let ready = "READY=1\nSTATUS=Serving";
    let mut server = Server::start(place);
    server.line_with("listening");
    assert_eq!(notified(), ready);
    assert_eq!(reply(place, "SET key value"), "+OK\r\n");
    drop(server); // it is killed

    // Health and readiness are answered before the file is open, and signals work.
    let order = place.join("t.spt-order");
    assert!(Command::new("mkfifo").arg(&order).status().unwrap().success());
    let mut server = Server::start(place);
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(server.page(path), (503, "starting: opening the file\n".into()), "{path}");
    }
    send("TERM", server.running.0.as_ref().unwrap());
    server.line_with("ending: SIGTERM");
    fs::write(&order, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15").unwrap();
    let log = server.ended();
    let (replaying, end) = log.split_once('\n').unwrap();
    assert!(replaying.contains("replaying the log file=t.spt done_bytes="), "{log}");
    assert!(end.trim_end().ends_with("ended; the next start replays the log"), "{log}");
    assert_eq!(notified(), "STOPPING=1");
    assert!(notified().starts_with("STATUS=Starting: replaying the log, 0.0 of at most "));

    // The next start replays, and reports it before it is ready.
    fs::remove_file(&order).unwrap();
    let mut server = Server::start(place);
    server.line_with("replaying the log file=t.spt done_bytes=");
    server.line_with("listening");
    assert!(notified().starts_with("STATUS=Starting: replaying the log, "));
    assert_eq!(notified(), ready);
    assert_eq!(server.page("/health"), (200, "ok\n".into()));
    assert_eq!(server.page("/ready"), (200, "ready\n".into()));
    assert_eq!(reply(place, "STRLEN key"), ":5\r\n");
    server.stop();
    assert_eq!(run_well(place, &["get", "t.spt", "key"]), b"value\n");
}

#[test]
fn copies_of_a_file_that_a_server_has_open_have_all_that_was_answered() {
    let place = directory();
    let place = place.path();
    let mut server = Server::start(place);
    server.line_with("listening for Redis clients");
    for number in 1..=3 {
        assert_eq!(reply(place, &format!("SET key {number}")), "+OK\r\n");
        assert_eq!(reply(place, &format!("HSET hash field{number} x")), ":1\r\n");
        assert_eq!(reply(place, "SAVE"), "+OK\r\n"); // what follows is only in the log
        assert_eq!(reply(place, &format!("APPEND key {number}")), ":2\r\n");
        assert_eq!(reply(place, &format!("RPUSH list {number}")), format!(":{number}\r\n"));
        let dumped = |file: &str| -> BTreeSet<String> {
            let lines = String::from_utf8(run_well(place, &["dump", file, "--format", "jsonl"])).unwrap();
            lines.lines().map(str::to_owned).collect()
        };
        let live = dumped("t.spt");
        let field = format!("[\"field{number}\",\"x\"]");
        for text in [format!("\"{number}{number}\""), field, format!("\"{number}\"]")] {
            assert!(live.iter().any(|line| line.contains(&text)), "{text}: {live:?}");
        }
        run_well(place, &["backup", "t.spt", "copy.spt", "--force"]);
        assert_eq!(dumped("copy.spt"), live);
        fs::write(place.join("dump.rdb"), run_well(place, &["dump", "t.spt", "--format", "rdb"])).unwrap();
        let loaded = format!("loaded{number}.spt");
        run_well(place, &["load", &loaded, "dump.rdb"]);
        assert_eq!(dumped(&loaded), live);
    }
    server.stop();
}

#[test]
fn a_file_that_a_server_has_open_is_not_replaced_and_the_error_says_to_stop_the_server() {
    let place = directory();
    let place = place.path();
    run_well(place, &["put", "new.spt", "key", "new"]);
    run_well(place, &["dict", "build", "/dev/null", "new.spd"]);
    let mut server = Server::start(place);
    server.line_with("listening for Redis clients");
    assert_eq!(reply(place, "SET key old"), "+OK\r\n");
    let advice = "stop the server or other program that has it open";
    for line in
        ["restore new.spt t.spt --force", "backup new.spt t.spt --force", "put t.spt key other", "load t.spt /dev/null"]
    {
        let output = run(place, &line.split(' ').collect::<Vec<_>>());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(20), "{line}: {said}");
        assert!(said.contains("t.spt: ") && said.contains(advice), "{line}: {said}");
    }
    assert_eq!(reply(place, "STRLEN key"), ":3\r\n");
    server.stop();
    run_well(place, &["restore", "new.spt", "t.spt", "--force"]);
    assert_eq!(run_well(place, &["get", "t.spt", "key"]), b"new\n");
}

#[test]
fn a_log_is_as_long_as_its_option_says() {
    let place = directory();
    let place = place.path();
    for wrong in ["1023K", "1025G", "0", "much"] {
        let output = run(place, &["serve", "--file", "t.spt", "--log-bytes", wrong, "--resp", "none", "--unix", "s"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}: {said}");
        assert!(said.contains(if wrong == "much" { "is not a size" } else { "expected 1M to 1T" }), "{said}");
        assert!(!place.join("t.spt").exists(), "{wrong}");
    }
    let mut server = Server::start_with(place, &["--log-bytes", "1M"]);
    server.line_with("listening for Redis clients");
    let client = UnixStream::connect(place.join("s")).unwrap();
    let mut replies = BufReader::new(&client);
    for batch in 0..30 {
        let requests: String = (0..1000).map(|key| format!("SET {batch}-{key} {:0>100}\r\n", key)).collect();
        (&client).write_all(requests.as_bytes()).unwrap();
        for _ in 0..1000 {
            let mut reply = String::new();
            replies.read_line(&mut reply).unwrap();
            assert_eq!(reply, "+OK\r\n");
        }
    }
    let logs = fs::read_dir(place).unwrap().map(|file| file.unwrap());
    let logs = logs.filter(|file| file.file_name().to_string_lossy().contains("-log"));
    let bytes: u64 = logs.map(|file| file.metadata().unwrap().len()).sum();
    assert!(0 < bytes && bytes <= 1 << 20, "{bytes}");
    server.stop();
}
