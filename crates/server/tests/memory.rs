//! Memory that commands take, in bytes that the allocator counts: one test at a time, since the count is the process's.

use cap::Cap;
use splitpoint_server::keyspace::{KeySpace, Patience, SpaceOptions};
use splitpoint_server::resp::session::RespSession;
use splitpoint_server::server::Server;
use splitpoint_server::session::Session;
use splitpoint_server::settings::Settings;
use std::alloc::System;
use std::sync::{Arc, Mutex};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Held by each test.
static ALONE: Mutex<()> = Mutex::new(());

fn session(options: SpaceOptions) -> RespSession {
    let space = Arc::new(KeySpace::open(options).unwrap());
    let server = Arc::new(Server::new(space, Settings::default(), false));
    let client = server.clients.add("test".into(), "test".into(), 0, 10).unwrap();
    let figures = server.add_figures();
    RespSession::new(server, client, figures)
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The reply to a command, and the bytes that were allocated for it.
fn run(session: &mut RespSession, words: &[&[u8]]) -> (Vec<u8>, usize) {
    let (request, mut reply) = (request(words), Vec::new());
    let before = ALLOCATOR.total_allocated();
    let (used, _) = session.execute(&request, &mut reply, Patience::MayWait);
    assert_eq!(used, request.len());
    (reply, ALLOCATOR.total_allocated() - before)
}

#[test]
fn a_lifetime_of_a_long_value_in_memory_changes_without_a_copy_of_the_value() {
    const LEN: usize = 8 << 20;
    let _alone = ALONE.lock();
    let mut session = session(SpaceOptions::default());
    // Some by SET, some by APPENDs, one that looks like a head.
    for (name, first) in [(b"set".as_slice(), b'x'), (b"grown", b'x'), (b"head", 0xFF)] {
        let value = vec![first; LEN];
        if name == b"grown" {
            value.chunks(LEN / 8192).for_each(|part| drop(run(&mut session, &[b"APPEND", name, part])));
        } else {
            run(&mut session, &[b"SET", name, &value]);
        }
        let at = b"4000000000000".as_slice();
        let commands: [(&[&[u8]], &[u8]); 12] = [
            (&[b"EXPIRE", name, b"1000"], b":1\r\n"),
            (&[b"PEXPIREAT", name, at], b":1\r\n"),
            (&[b"PEXPIRETIME", name], b":4000000000000\r\n"),
            (&[b"PERSIST", name], b":1\r\n"),
            (&[b"PERSIST", name], b":0\r\n"),
            (&[b"TTL", name], b":-1\r\n"),
            (&[b"EXPIRE", name, b"1000", b"XX"], b":0\r\n"),
            (&[b"EXPIREAT", name, b"4000000000", b"NX"], b":1\r\n"),
            (&[b"SETRANGE", name, b"5000", b"y"], b":8388608\r\n"),
            (&[b"PEXPIRETIME", name], b":4000000000000\r\n"),
            (&[b"GETRANGE", name, b"4999", b"5001"], &[b"$3\r\n", [first, b'y', first].as_slice(), b"\r\n"].concat()),
            (&[b"STRLEN", name], b":8388608\r\n"),
        ];
        for (words, expected) in commands {
            let (reply, bytes) = run(&mut session, words);
            assert_eq!(reply, expected, "{}", String::from_utf8_lossy(words[0]));
            assert!(bytes < LEN / 16, "{bytes} bytes for {}", String::from_utf8_lossy(words[0]));
        }
        // Its reply is the value.
        let (reply, bytes) = run(&mut session, &[b"GETEX", name, b"PERSIST"]);
        assert_eq!(reply.len(), LEN + 12);
        assert!(bytes < 5 * LEN, "{bytes} bytes");
        assert_eq!(run(&mut session, &[b"TTL", name]).0, b":-1\r\n");
    }
}

#[test]
fn a_long_value_in_memory_gets_another_key_and_is_copied_without_a_copy_in_between() {
    const LEN: usize = 8 << 20;
    let _alone = ALONE.lock();
    let mut session = session(SpaceOptions::default());
    for (name, first) in [(b"set".as_slice(), b'x'), (b"grown", b'x'), (b"head", 0xFF)] {
        let value = vec![first; LEN];
        run(&mut session, &[b"FLUSHALL"]);
        run(&mut session, &[b"SET", b"short", b"1", b"EX", b"100"]);
        if name == b"grown" {
            value.chunks(LEN / 8192).for_each(|part| drop(run(&mut session, &[b"APPEND", name, part])));
        } else {
            run(&mut session, &[b"SET", name, &value]);
        }
        for number in 0..2000u32 {
            run(&mut session, &[b"RPUSH", b"list", &number.to_be_bytes()]);
        }
        let commands: [(&[&[u8]], &[u8]); 24] = [
            (&[b"PEXPIREAT", name, b"4000000000000"], b":1\r\n"),
            (&[b"RENAME", name, b"a"], b"+OK\r\n"),
            (&[b"EXISTS", name], b":0\r\n"),
            (&[b"RENAME", name, b"a"], b"-ERR no such key\r\n"),
            (&[b"RENAME", b"a", b"list"], b"+OK\r\n"), // over a large collection
            (&[b"PEXPIRETIME", b"list"], b":4000000000000\r\n"),
            (&[b"RENAMENX", b"list", b"short"], b":0\r\n"),
            (&[b"RENAMENX", b"list", b"b"], b":1\r\n"),
            (&[b"COPY", b"b", b"c"], b":1\r\n"),
            (&[b"COPY", b"b", b"c"], b":0\r\n"),
            (&[b"PERSIST", b"c"], b":1\r\n"),
            (&[b"COPY", b"c", b"b", b"REPLACE"], b":1\r\n"),
            (&[b"PTTL", b"b"], b":-1\r\n"),
            (&[b"RENAME", b"b", b"short"], b"+OK\r\n"),
            (&[b"PTTL", b"short"], b":-1\r\n"),
            (&[b"COPY", b"short", b"short", b"DB", b"1"], b":1\r\n"),
            (&[b"PEXPIREAT", b"short", b"4000000000000"], b":1\r\n"),
            (&[b"MOVE", b"short", b"1"], b":0\r\n"),
            (&[b"MOVE", b"short", b"2"], b":1\r\n"),
            (&[b"SELECT", b"2"], b"+OK\r\n"),
            (&[b"PEXPIRETIME", b"short"], b":4000000000000\r\n"),
            (&[b"SELECT", b"0"], b"+OK\r\n"),
            (&[b"STRLEN", b"c"], b":8388608\r\n"),
            (&[b"DBSIZE"], b":1\r\n"),
        ];
        for (words, expected) in commands {
            let (reply, bytes) = run(&mut session, words);
            let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(String::from_utf8_lossy(&reply), String::from_utf8_lossy(expected), "{shown:?}");
            assert!(bytes < LEN / 16, "{bytes} bytes for {shown:?}");
        }
        for (database, key) in [(b"0", b"c".as_slice()), (b"1", b"short"), (b"2", b"short")] {
            run(&mut session, &[b"SELECT", database]);
            let reply = run(&mut session, &[b"GET", key]).0;
            assert!(reply.strip_prefix(b"$8388608\r\n") == Some(&[&value, b"\r\n".as_slice()].concat()));
        }
        run(&mut session, &[b"SELECT", b"0"]);
    }
}

/// The reply of a script as text, and the bytes that it allocated.
#[cfg(feature = "scripts")]
fn eval(session: &mut RespSession, script: &str, arguments: &[&[u8]]) -> (String, usize) {
    let words = [[b"EVAL".as_slice(), script.as_bytes(), b"0"].as_slice(), arguments].concat();
    let (reply, bytes) = run(session, &words);
    (String::from_utf8_lossy(&reply).into_owned(), bytes)
}

#[cfg(feature = "scripts")]
#[test]
fn a_command_of_a_script_that_is_too_long_is_refused_without_a_copy_of_its_words() {
    let _alone = ALONE.lock();
    let mut session = session(SpaceOptions::default());
    assert_eq!(run(&mut session, &[b"CONFIG", b"SET", b"client-query-buffer-limit", b"2000000"]).0, b"+OK\r\n");
    for function in ["call", "acl_check_cmd"] {
        let script = format!(
            "local s, t = ('x'):rep(1000000), {{'del'}} for i = 2, 500 do t[i] = s end \
             return redis.{function}(unpack(t))"
        );
        let (reply, bytes) = eval(&mut session, &script, &[]);
        assert!(reply.starts_with("-ERR the command is longer than a request may be"), "{function}: {reply}");
        assert!(bytes < 100_000_000, "{bytes} bytes for {function}");
    }
}

#[cfg(feature = "scripts")]
#[test]
fn values_that_a_script_unpacks_are_refused_before_they_take_much_memory() {
    let _alone = ALONE.lock();
    let mut session = session(SpaceOptions::default());
    for (call, others) in [("cmsgpack.unpack(ARGV[2])", 0), ("struct.unpack(ARGV[1], ARGV[2])", 1)] {
        let script = format!("return select('#', {call})");
        let mut unpack = |count: usize| {
            let (format, data) = (vec![b'b'; count], vec![1_u8; count]);
            eval(&mut session, &script, &[&format, &data])
        };
        // The struct library also returns the position after the last value.
        assert_eq!(unpack(7000).0, format!(":{}\r\n", 7000 + others));
        let (reply, bytes) = unpack(5_000_000);
        assert!(reply.contains("stack overflow (too many results)"), "{reply}");
        assert!(bytes < 80_000_000, "{bytes} bytes for {call}");
    }
}

#[cfg(feature = "scripts")]
#[test]
fn a_script_packs_and_unpacks_parts_of_a_long_string_without_copies_of_the_string() {
    let _alone = ALONE.lock();
    let mut session = session(SpaceOptions::default());
    let data = vec![1_u8; 1_000_000];
    for script in [
        "local sum, at = 0, 1 for i = 1, 1000 do local n n, at = struct.unpack('B', ARGV[1], at) sum = sum + n end \
         return sum",
        "local t = {} for i = 1, 1000 do t[i] = ARGV[1] end return #struct.pack(('c1'):rep(1000), unpack(t))",
    ] {
        let (reply, bytes) = eval(&mut session, script, &[&data]);
        assert_eq!(reply, ":1000\r\n", "{script}");
        assert!(bytes < 100_000_000, "{bytes} bytes for {script}");
    }
}
