//! Sessions of memcached's protocol without sockets.

use super::session::MemcachedSession;
use crate::keyspace::{KeySpace, Patience, SpaceOptions};
use crate::server::Server;
use crate::session::{Flow, Session};
use crate::settings::Settings;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

fn session() -> MemcachedSession {
    session_of(Settings::default())
}

fn session_of(settings: Settings) -> MemcachedSession {
    session_over(KeySpace::open(SpaceOptions::default()).unwrap(), settings).0
}

fn session_over(space: KeySpace, settings: Settings) -> (MemcachedSession, Arc<Server>) {
    let server = Arc::new(Server::new(Arc::new(space), settings, false));
    let client = server.clients.add("a client".into(), "here".into(), 0, 10).unwrap();
    let figures = server.add_figures();
    (MemcachedSession::new(server.clone(), client, figures), server)
}

/// The replies to `input`, which is passed in pieces of `step` bytes.
fn replies(input: &[u8], step: usize) -> Vec<u8> {
    let (mut session, mut out, mut kept) = (session(), Vec::new(), Vec::new());
    let mut need = 1;
    for piece in input.chunks(step) {
        kept.extend_from_slice(piece);
        while kept.len() >= need {
            let mut written = Vec::new();
            let (used, flow) = session.execute(&kept, &mut written, Patience::MayWait);
            kept.drain(..used);
            out.append(&mut written);
            match flow {
                Flow::Read(more) => {
                    assert!(more > kept.len(), "{more} bytes of {}", kept.len());
                    need = more;
                }
                Flow::Write => need = 0,
                Flow::Close => return out,
                Flow::Wait | Flow::Sleep(_) | Flow::Block(_) => panic!("a thread that may wait is not called again"),
            }
        }
    }
    out
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let key = prop::sample::select(vec!["a", "b", "c"]);
    let value = prop::sample::select(vec!["", "1", "12345", "x\r\ny", "END\r\n"]);
    let store = (prop::sample::select(vec!["set", "add", "append", "prepend", "replace"]), key.clone(), 0..3u32, value)
        .prop_map(|(name, key, flags, value)| format!("{name} {key} {flags} 0 {}\r\n{value}\r\n", value.len()));
    let line = (
        prop::sample::select(vec![
            "get",
            "mg",
            "delete",
            "incr",
            "decr",
            "touch",
            "md",
            "ma",
            "get a b",
            "ms",
            "flush_all",
            "version",
            "x",
        ]),
        key,
        prop::sample::select(vec!["", " 1", " v", " v k s f", " I", " N100", " 5 T0\r\nhello", " 2\r\nlonger"]),
    )
        .prop_map(|(name, key, rest)| format!("{name} {key}{rest}\r\n"));
    prop_oneof![
        store.prop_map(String::into_bytes),
        line.prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..20),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn requests_in_any_pieces_have_the_same_replies(
        pieces in proptest::collection::vec(piece(), 1..40),
        step in 1..50usize,
    ) {
        let input = pieces.concat();
        prop_assert_eq!(replies(&input, step), replies(&input, input.len().max(1)));
    }
}

#[test]
fn a_run_longer_than_one_batch_keeps_its_order() {
    let sets: String = (0..200).map(|n| format!("set k{n} 0 0 3\r\n{n:03}\r\n")).collect();
    let keys: String = (0..200).map(|n| format!(" k{n}")).collect();
    let out = replies(format!("{sets}get{keys}\r\nget absent\r\n").as_bytes(), 1 << 20);
    let values: String = (0..200).map(|n| format!("VALUE k{n} 0 3\r\n{n:03}\r\n")).collect();
    let expected = "STORED\r\n".repeat(200) + &values + "END\r\nEND\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn a_get_of_much_waits_until_the_client_has_read() {
    for name in ["get", "gets"] {
        let (mut session, mut out) = (session(), Vec::new());
        let value = "x".repeat(100_000);
        let mut input = format!("set k 0 0 {}\r\n{value}\r\n{name}", value.len()) + &" k".repeat(150) + "\r\nmn\r\n";
        let (mut all, mut calls) = (Vec::new(), 0);
        loop {
            let (used, flow) = session.execute(input.as_bytes(), &mut out, Patience::MayWait);
            assert!(out.len() < 1 << 20, "{} bytes at once", out.len());
            all.append(&mut out);
            input.drain(..used);
            calls += 1;
            if flow != Flow::Write {
                break;
            }
        }
        let all = String::from_utf8(all).unwrap();
        assert_eq!(all.matches("VALUE k 0 100000").count(), 150);
        assert!(all.ends_with("END\r\nMN\r\n") && all.matches("END").count() == 1 && calls > 30, "{calls} calls");
    }
}

#[test]
fn a_value_that_is_announced_but_too_long_takes_no_room() {
    let mut session = session();
    let mut out = Vec::new();
    let (used, flow) = session.execute(b"set k 0 0 2000000000\r\nxx", &mut out, Patience::MayWait);
    assert_eq!((used, flow), (24, Flow::Read(1)));
    assert_eq!(out, b"SERVER_ERROR object too large for cache\r\n");
    let (used, flow) = session.execute(&[b'x'; 1000], &mut out, Patience::MayWait);
    assert_eq!((used, flow), (1000, Flow::Read(1)));
}

/// A request of the binary protocol.
fn binary(opcode: u8, key: &[u8], extras: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
    bytes.extend_from_slice(&((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    bytes.extend_from_slice(b"opaq");
    bytes.extend_from_slice(&cas.to_be_bytes());
    [bytes, extras.to_vec(), key.to_vec(), value.to_vec()].concat()
}

/// The answers: opcode, status, CAS number, body.
fn answers(mut bytes: &[u8]) -> Vec<(u8, u16, u64, Vec<u8>)> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        assert_eq!((bytes[0], &bytes[12..16]), (0x81, b"opaq".as_slice()));
        let len = u32::from_be_bytes(bytes[8..12].try_into().unwrap()) as usize;
        let cas = u64::from_be_bytes(bytes[16..24].try_into().unwrap());
        answers.push((bytes[1], u16::from_be_bytes([bytes[6], bytes[7]]), cas, bytes[24..24 + len].to_vec()));
        bytes = &bytes[24 + len..];
    }
    answers
}

#[test]
fn a_value_has_the_same_limit_in_both_protocols() {
    for (len, is_stored) in [(1000, true), (1001, false), (1250, false)] {
        let execute = |input: &[u8]| {
            let settings = Settings::default();
            settings.bulk_bytes.store(1000, Relaxed);
            let (mut session, server) = session_over(KeySpace::open(SpaceOptions::default()).unwrap(), settings);
            let mut out = Vec::new();
            session.execute(input, &mut out, Patience::MayWait);
            assert_eq!(server.memcached.outcomes.too_large.load(Relaxed), u64::from(!is_stored));
            out
        };
        let value = "x".repeat(len);
        let out = execute(&binary(0x01, b"key", &[0; 8], value.as_bytes(), 0));
        assert_eq!(answers(&out)[0].1, if is_stored { 0 } else { 3 }, "{len}");
        let out = execute(format!("set key 0 0 {len}\r\n{value}\r\n").as_bytes());
        assert_eq!(out.starts_with(b"STORED"), is_stored, "{len}");
    }
}

#[test]
fn a_store_that_fails_is_counted_whether_or_not_it_is_answered() {
    let extras = [0; 8];
    let cases: [(Vec<u8>, Option<u16>); 6] = [
        (b"set k 0 0 1\r\nv\r\n".to_vec(), Some(0)),
        (b"set k 0 0 1 noreply\r\nv\r\n".to_vec(), None),
        (b"add k 0 0 1\r\nv\r\n".to_vec(), Some(0)),
        (b"add k 0 0 1 noreply\r\nv\r\n".to_vec(), None),
        (binary(0x01, b"k", &extras, b"v", 0), Some(0x82)),
        (binary(0x11, b"k", &extras, b"v", 0), Some(0x82)),
    ];
    for (input, told) in cases {
        let space = KeySpace::open(SpaceOptions::default()).unwrap();
        space.limit_memory(1, space.memory_limit().1);
        let (mut session, server) = session_over(space, Settings::default());
        let mut out = Vec::new();
        session.execute(&input, &mut out, Patience::MayWait);
        match told {
            None => assert_eq!(out, b""),
            Some(0) => assert_eq!(out, b"SERVER_ERROR out of memory storing object\r\n"),
            Some(status) => assert_eq!(answers(&out)[0].1, status),
        }
        let counted = (server.memcached.outcomes.no_memory.load(Relaxed), server.total(|figures| &figures.errors));
        assert_eq!(counted, (1, 1), "{}", input.escape_ascii());
    }
}

#[test]
fn a_damaged_value_is_an_error_of_the_server_in_both_protocols() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let open = || KeySpace::open(SpaceOptions { file: Some(path.clone()), ..SpaceOptions::default() });
    let value_of = |key: u32| format!("{key:0100}").into_bytes();
    let (mut session, _) = session_over(open().unwrap(), Settings::default());
    for key in 0..1000_u32 {
        let packet = binary(0x01, key.to_string().as_bytes(), &[0; 8], &value_of(key), 0);
        session.execute(&packet, &mut Vec::new(), Patience::MayWait);
    }
    drop(session);
    let whole = std::fs::read(&path).unwrap();
    // The open reads a few buckets.
    let damaged = |key: &u32| {
        let mut file = whole.clone();
        let at = memchr::memmem::find(&file, &value_of(*key)).unwrap();
        file[at] ^= 1;
        std::fs::write(&path, file).unwrap();
        open().is_ok()
    };
    let key = (0..1000).find(damaged).unwrap().to_string();
    for is_binary in [true, false] {
        let (mut session, server) = session_over(open().unwrap(), Settings::default());
        let text = format!("get {key}\r\n").into_bytes();
        let input = if is_binary { binary(0x00, key.as_bytes(), b"", b"", 0) } else { text };
        let mut out = Vec::new();
        session.execute(&input, &mut out, Patience::MayWait);
        match is_binary {
            true => assert_eq!((answers(&out)[0].1, &*answers(&out)[0].3), (0x84, &b"Internal error"[..])),
            false => assert!(out.starts_with(b"SERVER_ERROR "), "{}", out.escape_ascii()),
        }
        assert_eq!(server.total(|figures| &figures.errors), 1);
    }
}

#[test]
fn the_binary_protocol_stores_counts_and_compares() {
    let flags_and_time = [0, 0, 0, 7, 0, 0, 0, 0];
    let counting = |delta: u64, initial: u64, time: u32| {
        [delta.to_be_bytes().as_slice(), &initial.to_be_bytes(), &time.to_be_bytes()].concat()
    };
    let input = [
        binary(0x01, b"a", &flags_and_time, b"value", 0),
        binary(0x00, b"a", b"", b"", 0),
        binary(0x0d, b"absent", b"", b"", 0),
        binary(0x24, b"absent", &[0; 4], b"", 0),
        binary(0x0c, b"absent", b"", b"", 0),
        binary(0x23, b"absent", &[0; 4], b"", 0),
        binary(0x1d, b"absent", &[0; 4], b"", 0),
        binary(0x0d, b"a", b"", b"", 0),
        binary(0x02, b"a", &flags_and_time, b"x", 0),
        binary(0x03, b"absent", &flags_and_time, b"x", 0),
        binary(0x11, b"a", &flags_and_time, b"quiet", 0),
        binary(0x0e, b"a", b"", b"!", 0),
        binary(0x00, b"a", b"", b"", 0),
        binary(0x01, b"a", &flags_and_time, b"x", 1),
        binary(0x05, b"n", &counting(5, 10, 0), b"", 0),
        binary(0x05, b"n", &counting(5, 10, 0), b"", 0),
        binary(0x06, b"n", &counting(100, 10, 0), b"", 0),
        binary(0x05, b"none", &counting(5, 10, u32::MAX), b"", 0),
        binary(0x05, b"a", &counting(5, 10, 0), b"", 0),
        binary(0x04, b"a", b"", b"", 0),
        binary(0x04, b"a", b"", b"", 0),
        binary(0x01, b"a", b"", b"without extras", 0),
        binary(0x7f, b"", b"", b"", 0),
        binary(0x0a, b"", b"", b"", 0),
        binary(0x0b, b"", b"", b"", 0),
        binary(0x07, b"", b"", b"", 0),
    ]
    .concat();
    for step in [1, 7, input.len()] {
        let answers = answers(&replies(&input, step));
        let told: Vec<(u8, u16, &[u8])> = answers.iter().map(|(op, status, _, body)| (*op, *status, &**body)).collect();
        let number = |n: u64| n.to_be_bytes();
        let expected: Vec<(u8, u16, &[u8])> = vec![
            (0x01, 0, b""),
            (0x00, 0, b"\0\0\0\x07value"),
            (0x0c, 1, b"absent"),
            (0x23, 1, b"absent"),
            (0x1d, 1, b"Not found"),
            (0x0d, 0, b"\0\0\0\x07avalue"),
            (0x02, 2, b"Data exists for key."),
            (0x03, 1, b"Not found"),
            (0x0e, 0, b""),
            (0x00, 0, b"\0\0\0\x07quiet!"),
            (0x01, 2, b"Data exists for key."),
        ];
        assert_eq!(told[..11], expected);
        assert_eq!(told[11..14], [(5, 0, &number(10)[..]), (5, 0, &number(15)), (6, 0, &number(0))]);
        let expected: Vec<(u8, u16, &[u8])> = vec![
            (0x05, 1, b"Not found"),
            (0x05, 6, b"Non-numeric server-side value for incr or decr"),
            (0x04, 0, b""),
            (0x04, 1, b"Not found"),
            (0x01, 4, b"Invalid arguments"),
            (0x7f, 0x81, b"Unknown command"),
            (0x0a, 0, b""),
            (0x0b, 0, b"1.6.18"),
            (0x07, 0, b""),
        ];
        assert_eq!(told[14..], expected);
        // The get returns the CAS number of the set, until the quiet set stores another value.
        assert_eq!(answers[0].2, answers[1].2);
        assert!(answers[0].2 != 0 && answers[9].2 != answers[0].2);
    }
}

#[test]
fn statistics_that_are_reset_begin_again() {
    let text = replies(b"set a 0 0 1\r\n1\r\nget a\r\nincr a 1\r\ndelete b\r\nstats\r\n", 1000);
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains("STAT limit_maxbytes 0\r\n"), "{text}");
    let counters = ["cmd_set", "get_hits", "incr_hits", "delete_misses"];
    assert!(counters.iter().all(|name| text.contains(&format!("STAT {name} 1\r\n"))), "{text}");
    let text = replies(b"set a 0 0 1\r\n1\r\nget a\r\nincr a 1\r\ndelete b\r\nstats reset\r\nstats\r\n", 1000);
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("RESET\r\n"));
    assert!(counters.iter().all(|name| text.contains(&format!("STAT {name} 0\r\n"))), "{text}");
}

#[test]
fn another_protocol_is_closed_at_once() {
    for input in [b"\x16\x03\x01".as_slice(), b"\0", b"\xff", b"POST / HTTP/1.1\r\nset a 0 0 1\r\nx\r\n"] {
        let mut out = Vec::new();
        let (_, flow) = session().execute(input, &mut out, Patience::MayWait);
        assert_eq!((flow, out), (Flow::Close, Vec::new()), "{input:?}");
    }
}

#[test]
fn figures_have_the_names_that_exporters_look_for() {
    let out = replies(b"set a 0 0 1\r\nx\r\nstats\r\nstats settings\r\nstats items\r\nstats slabs\r\n", 100);
    let text = String::from_utf8(out).unwrap();
    for name in [
        "rusage_user ",
        "conn_yields",
        "total_items 1",
        "crawler_reclaimed",
        "cas_badval",
        "lru_crawler_starts",
        "moves_to_cold",
        "slabs_moved",
        "listen_disabled_num",
        "hash_power_level",
        "malloc_fails",
        "maxconns",
        "lru_crawler yes",
        "hot_lru_pct",
        "items:1:number 1",
        "items:1:age",
        "1:chunk_size",
        "1:cmd_set",
        "active_slabs 1",
    ] {
        assert!(text.contains(&format!("STAT {name}")), "{name} in {text}");
    }
}

#[test]
fn all_keys_are_dumped_also_to_a_client_that_reads_slowly() {
    let sets: String = (0..9000).map(|n| format!("set key:{n} 0 0 1 noreply\r\nx\r\n")).collect();
    let out = replies(format!("{sets}lru_crawler metadump all\r\nversion\r\n").as_bytes(), 1 << 20);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.matches("key=key%3A").count(), 9000);
    assert!(text.ends_with("\r\nEND\r\nVERSION 1.6.18\r\n"), "{}", &text[text.len() - 100..]);
    let text =
        String::from_utf8(replies(b"set a 0 0 2\r\nxy\r\nstats cachedump 1 10\r\ncache_memlimit 3\r\n", 99)).unwrap();
    let expected = "STORED\r\nITEM a [2 b; 0 s]\r\nEND\r\nMEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
    assert_eq!(text, expected);
}

#[test]
fn a_cas_number_matches_only_the_value_it_was_given_for() {
    let text = |input: &str| String::from_utf8(replies(input.as_bytes(), input.len())).unwrap();
    // If no client has asked for a key's number, none matches.
    for number in [0, 1, u64::MAX >> 1, u64::MAX] {
        let answer = text(&format!("set k 0 0 1\r\na\r\ncas k 0 0 1 {number}\r\nb\r\nget k\r\n"));
        assert_eq!(answer, "STORED\r\nEXISTS\r\nVALUE k 0 1\r\na\r\nEND\r\n", "{number}");
    }
    assert_eq!(text("cas k 0 0 1 7\r\nb\r\n"), "NOT_FOUND\r\n");
}

#[test]
fn commands_that_compare_cas_numbers_accept_the_current_one_alone() {
    let commands = [
        ("cas k 0 0 1 {}\r\n7\r\n", "STORED\r\n", "EXISTS\r\n"),
        ("ms k 1 C{}\r\n7\r\n", "HD\r\n", "EX\r\n"),
        ("ms k 1 MA C{}\r\n7\r\n", "HD\r\n", "EX\r\n"),
        ("ms k 1 MP C{}\r\n7\r\n", "HD\r\n", "EX\r\n"),
        ("ma k C{}\r\n", "HD\r\n", "EX\r\n"),
        ("md k C{}\r\n", "HD\r\n", "EX\r\n"),
    ];
    for (command, accepted, refused) in commands {
        let mut session = session();
        let mut ask = |text: &str| {
            let mut out = Vec::new();
            session.execute(text.as_bytes(), &mut out, Patience::MayWait);
            String::from_utf8(out).unwrap()
        };
        let with = |number: u64| command.replace("{}", &number.to_string());
        assert_eq!(ask("set k 0 0 1\r\n5\r\n"), "STORED\r\n");
        // No client has asked for the number, so none can know it.
        assert_eq!(ask(&with(1)), refused, "{command}");
        let found = ask("gets k\r\n");
        let number: u64 = found.split_ascii_whitespace().nth(4).unwrap().parse().unwrap();
        for other in [1, number - 1, number + 1, number + (1 << 32), u64::MAX] {
            assert_eq!(ask(&with(other)), refused, "{command} {other} instead of {number}");
        }
        assert_eq!(ask("gets k\r\n"), found);
        assert_eq!(ask(&with(number)), accepted, "{command}");
        assert_ne!(ask(&with(number)), accepted, "{command}: the value is another one now");
    }
}

#[test]
fn clients_are_refused_once_the_rules_of_default_do_not_allow_everything() {
    let space = Arc::new(KeySpace::open(SpaceOptions::default()).unwrap());
    let server = Arc::new(Server::new(space, Settings::default(), false));
    let connect = || {
        let client = server.clients.add("a client".into(), "here".into(), 0, 10).unwrap();
        MemcachedSession::new(server.clone(), client, server.add_figures())
    };
    let (mut session, mut other) = (connect(), connect());
    let set: &[u8] = b"set a 0 0 1\r\n1\r\n";
    let binary = [&[0x80][..], &[0; 23]].concat(); // a get without a key
    let mut out = Vec::new();
    session.execute(set, &mut out, Patience::MayWait);
    assert_eq!(out, b"STORED\r\n");
    other.execute(&binary, &mut out, Patience::MayWait);
    server.settings.users.change(b"default", &[b"-flushall".to_vec()]).unwrap();
    out.clear();
    let (used, flow) = session.execute(b"get a\r\n", &mut out, Patience::MayWait);
    assert!(used == 0 && matches!(flow, Flow::Close) && out.starts_with(b"SERVER_ERROR the rules"), "{flow:?}");
    out.clear();
    let (_, flow) = other.execute(&binary, &mut out, Patience::MayWait);
    assert!(matches!(flow, Flow::Close) && out.is_empty());
}

#[test]
fn a_client_that_has_not_given_the_password_may_continue_once_it_is_removed() {
    for is_binary in [false, true] {
        let settings = Settings::default();
        settings.set_password(b"secret");
        let (mut session, server) = session_over(KeySpace::open(SpaceOptions::default()).unwrap(), settings);
        let request = if is_binary { binary(0x00, b"a", b"", b"", 0) } else { b"get a\r\n".to_vec() };
        let mut ask = || {
            let mut out = Vec::new();
            session.execute(&request, &mut out, Patience::MayWait);
            out
        };
        let refused = ask();
        server.settings.set_password(b"");
        let answered = ask();
        server.settings.set_password(b"new");
        assert_eq!(ask(), refused);
        if is_binary {
            assert_eq!((answers(&refused)[0].1, answers(&answered)[0].1), (0x20, 1));
        } else {
            assert_eq!((&*refused, &*answered), (&b"CLIENT_ERROR unauthenticated\r\n"[..], &b"END\r\n"[..]));
        }
    }
}

#[test]
fn an_add_with_a_cas_number_compares_it_as_memcached_does() {
    let mut session = session();
    let mut ask = |opcode: u8, value: &[u8], cas: u64| {
        let extras: &[u8] = if opcode == 0x00 { b"" } else { &[0; 8] };
        let mut out = Vec::new();
        session.execute(&binary(opcode, b"a", extras, value, cas), &mut out, Patience::MayWait);
        let (_, status, cas, _) = answers(&out).remove(0);
        (status, cas)
    };
    // Add and its quiet form: without the key nothing is stored.
    for opcode in [0x02, 0x12] {
        assert_eq!(ask(opcode, b"x", 7).0, 1);
        assert_eq!(ask(0x00, b"", 0).0, 1);
    }
    let (status, cas) = ask(0x02, b"x", 0);
    assert_eq!(status, 0);
    assert_eq!(ask(0x02, b"y", cas + 1).0, 2);
    assert_eq!(ask(0x02, b"y", cas).0, 0);
}
