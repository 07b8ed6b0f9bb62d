//! Sessions of memcached's protocol without sockets.

use super::session::MemcachedSession;
use crate::keyspace::{KeySpace, Patience, SpaceOptions};
use crate::server::Server;
use crate::session::{Flow, Session};
use crate::settings::Settings;
use proptest::prelude::*;
use std::sync::Arc;

fn session() -> MemcachedSession {
    let space = Arc::new(KeySpace::open(SpaceOptions::default()).unwrap());
    let server = Arc::new(Server::new(space, Settings::default(), false));
    let client = server.clients.add("a client".into(), "here".into(), 0, 10).unwrap();
    let figures = server.add_figures();
    MemcachedSession::new(server, client, figures)
}

/// The replies to `input`, which comes in pieces of `step` bytes.
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
                Flow::Wait => panic!("who may wait is not to be called again"),
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
