//! Fuzzes the server's reading of RESP: `make fuzz TARGET=resp`.
//!
//! The bytes come in two pieces, to a session over an empty key space; and a request that the parser reads is compared
//! with what the `redis-protocol` crate reads. Not a module of the root's tests, which do not build the server; the
//! same comparison with random bytes is in crates/server/tests/session.rs.
#![no_main]

use redis_protocol::resp2::{decode::decode, types::OwnedFrame};
use splitpoint_server::keyspace::{KeySpace, Patience, SpaceOptions};
use splitpoint_server::resp::parse::{ParseLimits, Parsed, Parser};
use splitpoint_server::resp::session::RespSession;
use splitpoint_server::server::Server;
use splitpoint_server::session::{Flow, Session};
use splitpoint_server::settings::Settings;
use std::sync::{Arc, OnceLock};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    compare(input);
    execute(input);
});

fn compare(input: &[u8]) {
    let limits = ParseLimits { args: 1 << 20, bulk_bytes: 1 << 20, request_bytes: 1 << 24, authenticated: true };
    let mut args = Vec::new();
    let Parsed::Request(used) = Parser::default().parse(input, &mut args, &limits) else { return };
    let Ok(Some((OwnedFrame::Array(frames), length))) = decode(input) else {
        panic!("read as a request; the oracle reads {:?}", decode(input));
    };
    assert_eq!(used, length);
    assert_eq!(args.len(), frames.len());
    for (span, frame) in args.iter().zip(frames) {
        assert_eq!(OwnedFrame::BulkString(span.bytes(input).to_vec()), frame);
    }
}

fn execute(input: &[u8]) {
    static SERVER: OnceLock<Arc<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let space = KeySpace::open(SpaceOptions::default()).expect("a key space in memory");
        Arc::new(Server::new(Arc::new(space), Settings::default(), false))
    });
    let client = server.clients.add("fuzz".into(), "fuzz".into(), 0, 10).expect("the only client");
    let mut session = RespSession::new(server.clone(), client, Arc::default());
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    'pieces: for piece in input.chunks(input.len() / 2 + 1) {
        kept.extend_from_slice(piece);
        loop {
            // Commands that need a thread that may wait are not executed: it may sleep.
            let (used, flow) = session.execute(&kept, &mut out, Patience::EventLoop);
            kept.drain(..used);
            out.clear();
            match flow {
                Flow::Write => {}
                Flow::Read(need) => {
                    assert!(need > kept.len(), "asks for {need} bytes and has {}", kept.len());
                    break;
                }
                // One that sleeps would have to be called again later.
                Flow::Wait | Flow::Sleep(_) | Flow::Block(_) => {
                    kept.clear();
                    break;
                }
                // Nothing more is given to a session that has ended.
                Flow::Close => break 'pieces,
            }
        }
    }
    session.close();
    if let Some(mut alone) = server.space.close(Patience::MayWait) {
        (0..16).for_each(|database| alone.flush(database).expect("tables in memory"));
    }
}
