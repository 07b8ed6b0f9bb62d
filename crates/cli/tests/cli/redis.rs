//! `load redis://...` from our own server and, if installed, the real one, on Unix sockets and a port.

use super::signals::{Running, end_of, send};
use super::{directory, json, run, run_well, splitpoint};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Our server, and the real one if there is one, each with a socket `s` in `place`.
fn servers(place: &Path) -> Vec<(&'static str, Command)> {
    let mut ours = splitpoint(place);
    ours.args(["serve", "--resp", "none", "--unix", "s"]);
    let mut servers = vec![("splitpoint serve", ours)];
    if Command::new("redis-server").arg("--version").output().is_ok() {
        let mut real = Command::new("redis-server");
        real.args(["--port", "0", "--unixsocket", "s", "--save", "", "--appendonly", "no"]).current_dir(place);
        servers.push(("redis-server", real));
    } else {
        eprintln!("SKIPPED: the real server, because redis-server is not installed (package redis-server)");
    }
    servers
}

fn started(mut server: Command, place: &Path) -> Running {
    let child = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let running = Running(Some(child));
    while UnixStream::connect(place.join("s")).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    running
}

/// Returns the address of the server in `place`.
fn address(place: &Path, options: &str) -> String {
    format!("redis+unix://{}/s{options}", place.display())
}

/// Sends commands, words between spaces, and waits for all of their answers.
fn say(place: &Path, commands: &[&str]) {
    let mut socket = UnixStream::connect(place.join("s")).unwrap();
    for command in commands.iter().chain(&["ECHO over"]) {
        let words: Vec<_> = command.split(' ').collect();
        write!(socket, "*{}\r\n", words.len()).unwrap();
        words.iter().for_each(|word| write!(socket, "${}\r\n{word}\r\n", word.len()).unwrap());
    }
    let mut answers = Vec::new();
    while !answers.ends_with(b"$4\r\nover\r\n") {
        let mut part = [0; 4096];
        let read = socket.read(&mut part).unwrap();
        assert!(read > 0, "the server has closed the connection");
        answers.extend_from_slice(&part[..read]);
    }
    assert!(!answers.contains(&b'-') || !answers.windows(4).any(|bytes| bytes == b"-ERR"), "{commands:?}");
}

#[test]
fn strings_of_a_server_are_loaded_from_the_chosen_database() {
    for_each_server(|name, place| {
        let keys: Vec<String> = (0..5000).map(|number| format!("SET key{number} value{number}")).collect();
        say(place, &keys.iter().map(String::as_str).collect::<Vec<_>>());
        let long = format!("SET long {}", "x".repeat(5 << 20));
        say(place, &[&long, "SETRANGE holes 3 x", "SELECT 3", "SET other 1"]);
        let report = json(place, &["load", "t.spt", &address(place, "?db=0"), "--json"]);
        assert_eq!((&report["rows"], &report["formats"][0]), (&5002.into(), &"redis".into()), "{name}");
        assert_eq!(run_well(place, &["get", "t.spt", "key4999"]), b"value4999\n");
        assert_eq!(run_well(place, &["get", "t.spt", "holes", "--raw"]), b"\0\0\0x");
        assert_eq!(run_well(place, &["get", "t.spt", "long"]).len(), (5 << 20) + 1);
        let loaded = run(place, &["load", "first.spt", &address(place, "")]);
        let note = String::from_utf8_lossy(&loaded.stderr).into_owned();
        assert!(loaded.status.success() && note.contains("databases left out: 3; "), "{name}: {note}");
        run_well(place, &["load", "other.spt", &address(place, "?db=3")]);
        assert_eq!(run_well(place, &["dump", "other.spt"]), b"other\t1\n");
        run_well(place, &["dict", "build", &address(place, "?db=3"), "other.spd"]);
        assert_eq!(run_well(place, &["dump", "other.spd"]), b"other\t1\n");
    });
}

#[test]
fn a_key_with_a_lifetime_is_kept_refused_ignored_or_left_out() {
    for_each_server(|name, place| {
        say(place, &["SET kept 1", "SET passing 2 EX 1000"]);
        run_well(place, &["load", "t.spt", &address(place, "")]);
        let dumped = String::from_utf8(run_well(place, &["dump", "t.spt", "--format", "jsonl"])).unwrap();
        assert!(
            dumped.contains(r#"{"key":"passing","type":"string","value":"2","expires_at_ms":"#),
            "{name}: {dumped}"
        );
        assert!(dumped.contains(r#"{"key":"kept","value":"1"}"#), "{name}: {dumped}");
        let refused = run(place, &["dict", "build", &address(place, ""), "t.spd"]);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{name}: {message}");
        assert!(message.contains("the key \"passing\" has a lifetime"), "{message}");
        run_well(place, &["load", "i.spt", &address(place, ""), "--ttl", "ignore"]);
        assert_eq!(run_well(place, &["count", "i.spt"]), b"2\n");
        let skipped = run(place, &["load", "s.spt", &address(place, ""), "--ttl", "skip"]);
        let message = String::from_utf8_lossy(&skipped.stderr).into_owned();
        assert!(skipped.status.success() && message.contains("keys left out: 1 with a lifetime"), "{message}");
        assert_eq!(run_well(place, &["dump", "s.spt"]), b"kept\t1\n");
    });
}

#[test]
fn a_value_that_is_no_string_is_kept_refused_or_left_out() {
    let probe = directory();
    for index in 0..servers(probe.path()).len() {
        let place = directory();
        let place = place.path();
        let (_, server) = servers(place).swap_remove(index);
        let _server = started(server, place);
        say(place, &["SET kept 1", "LPUSH list a", "HSET map a 1"]);
        run_well(place, &["load", "t.spt", &address(place, "")]);
        let dumped = String::from_utf8(run_well(place, &["dump", "t.spt", "--format", "jsonl"])).unwrap();
        assert!(dumped.contains(r#"{"key":"list","type":"list","value":["a"]}"#), "{dumped}");
        assert!(dumped.contains(r#"{"key":"map","type":"hash","value":[["a","1"]]}"#), "{dumped}");
        let refused = run(place, &["dict", "build", &address(place, ""), "t.spd"]);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(1) && message.contains("`splitpoint load` stores it"), "{message}");
        let skipped = run(place, &["load", "s.spt", &address(place, ""), "--skip-other-types"]);
        let message = String::from_utf8_lossy(&skipped.stderr).into_owned();
        assert!(skipped.status.success() && message.contains("2 of other types than string"), "{message}");
        assert_eq!(run_well(place, &["dump", "s.spt"]), b"kept\t1\n");
    }
}

#[test]
fn a_password_is_sent_and_not_shown() {
    let probe = directory();
    for (index, option) in
        (0..servers(probe.path()).len()).zip([["--password-file", "pw"], ["--requirepass", "s3cret"]])
    {
        let place = directory();
        let place = place.path();
        std::fs::write(place.join("pw"), "s3cret").unwrap();
        let (name, mut server) = servers(place).swap_remove(index);
        server.args(option);
        let _server = started(server, place);
        let wrong = run(place, &["load", "t.spt", &address(place, "?pass=wr0ng")]);
        let message = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(wrong.status.code() == Some(11) && !message.contains("wr0ng"), "{name}: {message}");
        assert!(!place.join("t.spt").exists());
        run_well(place, &["load", "t.spt", &address(place, "?user=default&pass=s3cret")]);
    }
}

#[test]
fn a_signal_ends_a_load_from_a_server_that_does_not_answer() {
    let place = directory();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}/0", listener.local_addr().unwrap());
    let mut loading = splitpoint(place.path());
    loading.args(["load", "t.spt", &address]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut loading = Running(Some(loading.spawn().unwrap()));
    // It has connected, so it watches for signals.
    let (_silent, _): (TcpStream, _) = listener.accept().unwrap();
    send("TERM", loading.0.as_ref().unwrap());
    let output = end_of(&mut loading);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(143), "{message}");
    assert!(message.contains("stopped by SIGTERM: 0 rows in t.spt; the next is redis://"), "{message}");
}

#[test]
fn answers_that_are_not_those_of_a_server_are_errors() {
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"$99999999999\r\n", b"*1000000000\r\n", b":x\r\n", b""] {
        let place = directory();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("redis://{}/0", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(answer);
        });
        let output = run(place.path(), &["load", "t.spt", &address]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(11), "{}: {message}", answer.escape_ascii());
        assert!(message.starts_with("splitpoint: redis://127.0.0.1:"), "{message}");
        answering.join().unwrap();
    }
}

fn for_each_server(check: impl Fn(&str, &Path)) {
    let probe = directory();
    for index in 0..servers(probe.path()).len() {
        let place = directory();
        let (name, server) = servers(place.path()).swap_remove(index);
        let _server = started(server, place.path());
        check(name, place.path());
    }
}

/// Answers commands on the socket `s` in `place` as `answer` returns; `None` is silence.
fn fake_server(place: &Path, answer: fn(&str) -> Option<&'static str>) {
    let listener = std::os::unix::net::UnixListener::bind(place.join("s")).unwrap();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = socket.read(&mut part) {
                let text = String::from_utf8_lossy(&part[..read]).into_owned();
                // Each command begins with the number of its words.
                let answers: Option<String> = text.split('*').skip(1).map(answer).collect();
                match answers {
                    Some(answers) => socket.write_all(answers.as_bytes()).unwrap(),
                    None => break,
                }
            }
            silent.push(socket);
        }
    });
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for_forever() {
    let silences: [fn(&str) -> Option<&'static str>; 2] =
        [|_| None, |command| if command.contains("SCAN") { None } else { Some(":7\r\n") }];
    for silence in silences {
        let place = directory();
        fake_server(place.path(), silence);
        let output = run(place.path(), &["load", "t.spt", &address(place.path(), ""), "--timeout", "0.1"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(11), "{message}");
        assert!(message.contains("no answer in 0.1 s; --timeout SECONDS waits longer"), "{message}");
        assert!(!place.path().join("t.spt").exists());
    }
}

#[test]
fn a_server_that_disappears_leaves_the_keys_loaded_before() {
    let place = directory();
    let listener = std::os::unix::net::UnixListener::bind(place.path().join("s")).unwrap();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut part = [0; 4096];
        while let Ok(read @ 1..) = client.read(&mut part) {
            let text = String::from_utf8_lossy(&part[..read]).into_owned();
            for command in text.split('*').skip(1) {
                let answer: &[u8] = match command {
                    command if command.contains("SCAN") => b"*2\r\n$1\r\n5\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
                    // Like a server before 7.0.
                    command if command.contains("PEXPIRETIME") => b"-ERR unknown command\r\n",
                    command if command.contains("PTTL") => b":900000\r\n",
                    command if command.contains("STRLEN") || command.contains("DBSIZE") => b":1\r\n",
                    command if command.contains("GET") => b"$1\r\nv\r\n",
                    _ => b"+OK\r\n",
                };
                client.write_all(answer).unwrap();
            }
            if text.contains("GET") {
                // Its next SCAN finds no server.
                return;
            }
        }
    });
    let output = run(place.path(), &["load", "t.spt", &address(place.path(), "")]);
    server.join().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(11) && message.contains("Stopped after 2 rows, all of them in t.spt"),
        "{message}"
    );
    let dumped = String::from_utf8(run_well(place.path(), &["dump", "t.spt", "--format", "jsonl"])).unwrap();
    assert_eq!(dumped.matches("expires_at_ms").count(), 2, "{dumped}");
    run_well(place.path(), &["check", "t.spt"]);
}

#[test]
fn a_key_that_a_server_lists_twice_is_stored_once() {
    let place = directory();
    let place = place.path();
    fake_server(place, |command| {
        Some(match command {
            command if command.contains("SCAN") => "*2\r\n$1\r\n0\r\n*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\na\r\n",
            command if command.contains("GET") => "$5\r\nvalue\r\n",
            command if command.contains("PEXPIRETIME") => ":-1\r\n",
            command if command.contains("STRLEN") || command.contains("DBSIZE") => ":5\r\n",
            _ => "+OK\r\n",
        })
    });
    let address = address(place, "");
    for options in [&[][..], &["--duplicates", "first"], &["--duplicates", "last"]] {
        run_well(place, &[&["dict", "build", &address, "d.spd"], options].concat());
        assert_eq!(run_well(place, &["count", "d.spd"]), b"2\n");
    }
    run_well(place, &["load", "t.spt", &address]);
    assert_eq!(run_well(place, &["count", "t.spt"]), b"2\n");
    let refused = run(place, &["dict", "build", &address, "e.spd", "--duplicates", "error"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("may list a key twice"));
}

#[test]
fn diff_compares_a_server_with_its_copies_of_every_type() {
    for_each_server(|name, place| {
        say(
            place,
            &[
                "SET kept 1",
                "SET passing 2 EX 1000",
                "RPUSH list b a",
                "SADD set y x z",
                "HSET map b 2 a 1",
                "ZADD sorted 2.5 m 1 n",
                "XADD stream 5-1 f v",
                "XGROUP CREATE stream g 0",
                "XREADGROUP GROUP g zed STREAMS stream >",
                "XGROUP CREATECONSUMER stream g abe",
            ],
        );
        let server = address(place, "?db=0");
        run_well(place, &["load", "t.spt", &server]);
        let rdb = run_well(place, &["dump", "t.spt", "--format", "rdb"]);
        std::fs::write(place.join("dump.rdb"), rdb).unwrap();
        for [a, b] in [[&server[..], "t.spt"], ["t.spt", &server], [&server, &server], ["dump.rdb", &server]] {
            let same = run(place, &["diff", a, b]);
            let said = String::from_utf8_lossy(&same.stderr).into_owned();
            assert_eq!((same.status.code(), &same.stdout[..]), (Some(0), &b""[..]), "{name}: {a} {b}: {said}");
            assert!(said.contains("7 equal pairs") && !said.contains('?'), "{name}: {said}");
        }
        say(place, &["SREM set x", "PERSIST passing", "DEL list", "SET new 3", "SELECT 2", "SET other 1"]);
        let differ = run(place, &["diff", "t.spt", &server]);
        let mut lines: Vec<_> = std::str::from_utf8(&differ.stdout).unwrap().lines().collect();
        lines.sort_unstable();
        assert_eq!(differ.status.code(), Some(1));
        assert_eq!(lines.len(), 6, "{name}: {lines:?}");
        for expected in [
            r#"+{"key":"new","type":"string","value":"3"}"#,
            r#"+{"key":"passing","type":"string","value":"2"}"#,
            r#"+{"key":"set","type":"set","value":["y","z"]}"#,
            r#"-{"key":"list","type":"list","value":["b","a"]}"#,
            r#"-{"key":"set","type":"set","value":["x","y","z"]}"#,
        ] {
            assert!(lines.contains(&expected), "{name}: {expected} {lines:?}");
        }
        let json = String::from_utf8(run(place, &["diff", "t.spt", &server, "--json"]).stdout).unwrap();
        assert!(json.contains(r#"{"in":"b","key":"new","type":"string","value":"3"}"#), "{json}");
        assert!(json.ends_with("{\"changed\":2,\"equal\":4,\"only_a\":1,\"only_b\":1}\n"), "{json}");
        assert_eq!(run(place, &["diff", "t.spt", &server, "--quiet"]).stdout, b"");
    });
}

#[test]
fn diff_compares_all_databases_of_two_files_and_the_first_with_a_server() {
    for_each_server(|name, place| {
        say(place, &["SET a 1", "RPUSH l 1"]);
        run_well(place, &["load", "one.spt", &address(place, "?db=0")]);
        let rows = r#"{"key":"k","type":"string","value":"v","database":2}"#;
        std::fs::write(place.join("more.jsonl"), rows).unwrap();
        std::fs::copy(place.join("one.spt"), place.join("two.spt")).unwrap();
        run_well(place, &["load", "two.spt", "more.jsonl"]);
        let differ = run(place, &["diff", "one.spt", "two.spt"]);
        let lines = String::from_utf8(differ.stdout).unwrap();
        assert_eq!(lines, "+{\"key\":\"k\",\"type\":\"string\",\"value\":\"v\",\"database\":2}\n", "{name}");
        let same = run(place, &["diff", "two.spt", &address(place, "?db=0")]);
        let said = String::from_utf8_lossy(&same.stderr).into_owned();
        assert_eq!(same.status.code(), Some(0), "{said}");
        assert!(said.contains("1 key of other databases than the first: not compared"), "{said}");
    });
}
