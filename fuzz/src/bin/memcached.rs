//! Fuzzes the server's memcached protocol: `make fuzz TARGET=memcached`.
//!
//! Each line is read by the parser, and what it reads is compared with a second reading, which knows only how many
//! words a command has and where its key, length and `noreply` are. Then the bytes come in two pieces to a session over
//! an empty key space, and once more as a whole: the replies have to be the same, and to end where memcached's end.
#![no_main]

use splitpoint_server::keyspace::{KeySpace, Patience, SpaceOptions};
use splitpoint_server::memcached::request::{self, Request};
use splitpoint_server::memcached::session::MemcachedSession;
use splitpoint_server::server::Server;
use splitpoint_server::session::{Flow, Session};
use splitpoint_server::settings::Settings;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    input.split(|&b| b == b'\n').for_each(compare);
    let whole = execute(input, input.len());
    // Times of use and CAS numbers differ from run to run, and a delayed flush may come in between.
    let depends_on_time =
        [b"flush_all".as_slice(), b"stats", b"gets", b"gats", b"cas", b"me ", b"mg ", b"ms ", b"ma ", b"md "]
            .iter()
            .any(|word| input.windows(word.len()).any(|window| window == *word));
    let pieces = execute(input, input.len() / 2 + 1);
    if !depends_on_time {
        assert_eq!(whole.escape_ascii().to_string(), pieces.escape_ascii().to_string(), "in two pieces");
    }
    assert!(whole.is_empty() || whole.ends_with(b"\r\n"), "a reply without an end");
});

/// The classic commands with a value, as a second reader finds them: words between spaces, up to a zero byte.
fn compare(line: &[u8]) {
    let text = line.split(|&b| b == 0).next().unwrap_or_default();
    let words: Vec<&[u8]> = text.split(|&b| b == b' ').filter(|word| !word.is_empty()).collect();
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<i64>().ok();
    match request::parse(line) {
        Ok(Request::Store(store)) => {
            let is_cas = words[0] == b"cas";
            let expected = if is_cas { 6 } else { 5 };
            assert!((expected..=expected + 1).contains(&words.len()), "{words:?}");
            assert_eq!(store.key, words[1]);
            assert_eq!(store.quiet, words[words.len() - 1] == b"noreply");
            if let Some(len) = number(words[4]) {
                // Cut to 32 bits, as memcached does.
                assert_eq!(store.data_len as i64, i64::from(len as i32));
            }
        }
        Ok(Request::Get(get)) => {
            let touches = words[0].starts_with(b"gat");
            assert_eq!(get.count, words.len() - 1 - usize::from(touches));
            assert_eq!(request::words(get.keys).collect::<Vec<_>>(), words[words.len() - get.count..]);
        }
        Ok(Request::Delete { key, .. } | Request::Count { key, .. } | Request::Touch { key, .. }) => {
            assert_eq!(key, words[1]);
        }
        Ok(
            Request::MetaGet(meta) | Request::MetaSet(meta, _) | Request::MetaDelete(meta) | Request::MetaCount(meta),
        ) => {
            assert_eq!(meta.sent_key, words[1]);
            assert!(meta.binary || *meta.key == *words[1]);
            let is_set = usize::from(words[0] == b"ms");
            assert_eq!(request::words(meta.words).collect::<Vec<_>>(), words[2 + is_set..]);
        }
        Err(refused) => assert!(refused.swallow < 1 << 32),
        Ok(_) => {}
    }
}

/// The replies to the bytes, which come in pieces.
fn execute(input: &[u8], piece: usize) -> Vec<u8> {
    static SERVER: OnceLock<Arc<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let space = KeySpace::open(SpaceOptions::default()).expect("a key space in memory");
        let settings = Settings::default();
        settings.bulk_bytes.store(1 << 20, Relaxed);
        Arc::new(Server::new(Arc::new(space), settings, false))
    });
    let client = server.clients.add("fuzz".into(), "fuzz".into(), 0, 10).expect("the only client");
    let mut session = MemcachedSession::new(server.clone(), client, Arc::default());
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    'pieces: for piece in input.chunks(piece.max(1)) {
        kept.extend_from_slice(piece);
        loop {
            // As of a client that reads.
            let mut written = Vec::new();
            let (used, flow) = session.execute(&kept, &mut written, Patience::MayWait);
            kept.drain(..used);
            out.append(&mut written);
            match flow {
                Flow::Write => {}
                Flow::Read(need) => {
                    assert!(need > kept.len(), "asks for {need} bytes and has {}", kept.len());
                    break;
                }
                Flow::Wait | Flow::Sleep(_) | Flow::Block(_) => panic!("asks for a thread that may wait, on one"),
                // Nothing more is given to a session that has ended.
                Flow::Close => break 'pieces,
            }
        }
    }
    session.close();
    if let Some(mut alone) = server.space.close(Patience::MayWait) {
        (0..16).for_each(|database| alone.flush(database).expect("tables in memory"));
    }
    out
}
