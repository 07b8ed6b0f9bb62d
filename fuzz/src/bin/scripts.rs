//! Fuzzes what the server's scripts call in Rust: `make fuzz TARGET=scripts`.
//!
//! An input is the number of a script, the length of its first argument, and both arguments. The scripts are fixed, so
//! that none of them is endless: a pattern may take exponential time, so it is short. Whatever the arguments, a script
//! ends with a reply, and the state serves the next one.
#![no_main]

use splitpoint_server::keyspace::{KeySpace, Patience, SpaceOptions};
use splitpoint_server::resp::session::RespSession;
use splitpoint_server::server::Server;
use splitpoint_server::session::Session;
use splitpoint_server::settings::Settings;
use std::cell::RefCell;
use std::sync::Arc;

/// The most bytes of a pattern, and of its subject.
const PATTERN_BYTES: usize = 12;
const SUBJECT_BYTES: usize = 64;

const SCRIPTS: [&str; 9] = [
    // A decoded value can be encoded, and repeating both gives the same length: the names of an object have no order.
    "local text = cjson.encode(cjson.decode(ARGV[1]))\nassert(#cjson.encode(cjson.decode(text)) == #text)",
    "local packed = cmsgpack.pack(cmsgpack.unpack(ARGV[1]))\nassert(type(packed) == 'string')",
    "return #cmsgpack.pack(cmsgpack.unpack_limit(ARGV[1], 3, #ARGV[2]))",
    "return #struct.pack(ARGV[1], struct.unpack(ARGV[1], ARGV[2]))",
    "return {string.find(ARGV[2], ARGV[1])}",
    "return {string.gsub(ARGV[2], ARGV[1], '%0%1')}",
    "local all = {}\nfor word in string.gmatch(ARGV[2], ARGV[1]) do all[#all + 1] = word end\nreturn all",
    "return redis.pcall(ARGV[1], KEYS[1], ARGV[2])",
    // Functions of Lua, with values of any type: numbers that no int holds, above all.
    "local calls = {unpack, select, tonumber, string.sub, string.byte, string.char, string.format,\n\
     table.insert, table.remove, table.concat, table.sort, table.maxn, math.ldexp, math.random, bit.tohex,\n\
     bit.lshift, cmsgpack.unpack_one, cmsgpack.unpack_limit, struct.unpack, struct.pack, cjson.encode, rawset}\n\
     local call = calls[#ARGV[1] % #calls + 1]\n\
     return select('#', pcall(function() call(cmsgpack.unpack(ARGV[2])) end))",
];
/// The first of those that search for a pattern, and the one after the last.
const PATTERNS: std::ops::Range<usize> = 4..7;

thread_local! {
    static SESSION: RefCell<RespSession> = RefCell::new({
        let space = KeySpace::open(SpaceOptions::default()).expect("a key space in memory");
        let server = Arc::new(Server::new(Arc::new(space), Settings::default(), false));
        let client = server.clients.add("fuzz".into(), "fuzz".into(), 0, 10).expect("the only client");
        RespSession::new(server, client, Arc::default())
    });
}

/// The reply to a script with these arguments.
fn reply_to(session: &mut RespSession, script: &str, args: [&[u8]; 2]) -> Vec<u8> {
    let words = [b"EVAL", script.as_bytes(), b"1", b"key", args[0], args[1]];
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    let mut out = Vec::new();
    let (used, _) = session.execute(&request, &mut out, Patience::MayWait);
    assert_eq!(used, request.len());
    out
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let [script, first, rest @ ..] = input else { return };
    let number = usize::from(*script) % SCRIPTS.len();
    let (mut first, mut second) = rest.split_at(usize::from(*first).min(rest.len()));
    if PATTERNS.contains(&number) {
        first = &first[..first.len().min(PATTERN_BYTES)];
        second = &second[..second.len().min(SUBJECT_BYTES)];
    }
    SESSION.with_borrow_mut(|session| {
        let reply = reply_to(session, SCRIPTS[number], [first, second]);
        let ends = reply.ends_with(b"\r\n");
        assert!(ends && !reply.windows(17).any(|part| part == b"assertion failed!"), "{}", reply.escape_ascii());
        assert_eq!(reply_to(session, "return #ARGV[1]", [b"four", b""]), b":4\r\n");
    });
});
