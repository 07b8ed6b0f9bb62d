//! Sessions without sockets: batches change nothing that a client could see, and no bytes make them panic.
//!
//! Source of the oracle: the `redis-protocol` crate, which reads RESP in its own way. What Redis itself answers is
//! compared by tests/differential.py.

use proptest::prelude::*;
use splitpoint_server::keyspace::{KeySpace, Patience, SpaceOptions};
use splitpoint_server::resp::parse::{ParseLimits, Parsed, Parser};
use splitpoint_server::resp::session::RespSession;
use splitpoint_server::server::Server;
use splitpoint_server::session::{Flow, Session};
use splitpoint_server::settings::Settings;
use std::collections::BTreeMap;
use std::sync::Arc;

fn session(options: SpaceOptions) -> RespSession {
    let space = Arc::new(KeySpace::open(options).unwrap());
    let server = Arc::new(Server::new(space, Settings::default(), false));
    let client = server.clients.add("test".into(), "test".into(), 0, 10).unwrap();
    let figures = server.add_figures();
    RespSession::new(server, client, figures)
}

/// All replies to `input`, which comes in pieces.
fn replies(session: &mut RespSession, input: &[u8], piece: usize) -> Vec<u8> {
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    for piece in input.chunks(piece.max(1)) {
        kept.extend_from_slice(piece);
        loop {
            let (used, flow) = session.execute(&kept, &mut out, Patience::MayWait);
            kept.drain(..used);
            match flow {
                Flow::Read(_) => break,
                Flow::Close => return out,
                Flow::Write | Flow::Wait if kept.is_empty() => break,
                Flow::Write | Flow::Wait => {}
            }
        }
    }
    out
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

#[derive(Clone, Debug)]
enum Command {
    Get(u8),
    Set(u8, Vec<u8>),
    SetLong(u8, Vec<u8>),
    Append(u8, Vec<u8>),
    Incr(u8),
    Del(u8),
    Exists(u8, u8),
    Rename(u8, u8),
}

fn command() -> impl Strategy<Value = Command> {
    let value =
        || prop_oneof![proptest::collection::vec(any::<u8>(), 0..20), Just(b"41".to_vec()), Just(vec![7; 3000])];
    prop_oneof![
        4 => (0..6u8).prop_map(Command::Get),
        3 => (0..6u8, value()).prop_map(|(k, v)| Command::Set(k, v)),
        1 => (0..6u8, value()).prop_map(|(k, v)| Command::SetLong(k, v)),
        3 => (0..6u8, value()).prop_map(|(k, v)| Command::Append(k, v)),
        1 => (0..6u8).prop_map(Command::Incr),
        1 => (0..6u8).prop_map(Command::Del),
        1 => (0..6u8, 0..6u8).prop_map(|(a, b)| Command::Exists(a, b)),
        1 => (0..6u8, 0..6u8).prop_map(|(a, b)| Command::Rename(a, b)),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The request, and the reply that a map would give.
fn expected(model: &mut Model, command: &Command) -> (Vec<u8>, Vec<u8>) {
    // One of the keys looks like a marked pair of a file.
    let key = |k: u8| if k == 5 { b"\0sp\xffmx".to_vec() } else { vec![b'k', k] };
    let bulk = |value: &[u8]| [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat();
    match command {
        Command::Get(k) => {
            let reply = model.get(&key(*k)).map_or(b"$-1\r\n".to_vec(), |value| bulk(value));
            (request(&[b"GET", &key(*k)]), reply)
        }
        Command::Set(k, value) => {
            model.insert(key(*k), value.clone());
            (request(&[b"SET", &key(*k), value]), b"+OK\r\n".to_vec())
        }
        Command::SetLong(k, value) => {
            model.insert(key(*k), value.clone());
            (request(&[b"SETEX", &key(*k), b"1000", value]), b"+OK\r\n".to_vec())
        }
        Command::Append(k, tail) => {
            let value = model.entry(key(*k)).or_default();
            value.extend_from_slice(tail);
            (request(&[b"append", &key(*k), tail]), format!(":{}\r\n", value.len()).into_bytes())
        }
        Command::Incr(k) => {
            let old = model.get(&key(*k)).map_or(Some(0), |v| std::str::from_utf8(v).ok()?.parse::<i64>().ok());
            let old = old.filter(|n| model.get(&key(*k)).is_none_or(|v| *v == n.to_string().into_bytes()));
            let reply = match old {
                Some(old) => {
                    model.insert(key(*k), (old + 1).to_string().into_bytes());
                    format!(":{}\r\n", old + 1)
                }
                None => "-ERR value is not an integer or out of range\r\n".into(),
            };
            (request(&[b"INCR", &key(*k)]), reply.into_bytes())
        }
        Command::Del(k) => {
            let removed = model.remove(&key(*k)).is_some();
            (request(&[b"DEL", &key(*k)]), format!(":{}\r\n", u8::from(removed)).into_bytes())
        }
        Command::Exists(a, b) => {
            let count = [a, b].iter().filter(|k| model.contains_key(&key(***k))).count();
            (request(&[b"EXISTS", &key(*a), &key(*b)]), format!(":{count}\r\n").into_bytes())
        }
        Command::Rename(a, b) => {
            let reply = match model.remove(&key(*a)) {
                Some(value) => {
                    model.insert(key(*b), value);
                    "+OK\r\n"
                }
                None => "-ERR no such key\r\n",
            };
            (request(&[b"RENAME", &key(*a), &key(*b)]), reply.into())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_pipeline_in_any_pieces_answers_like_a_map(
        commands in proptest::collection::vec(command(), 1..200), piece in 1..5000usize, in_file: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let file = in_file.then(|| folder.path().join("t.spt"));
        let options = SpaceOptions { file: file.clone(), logged: true, ..SpaceOptions::default() };
        let mut model = Model::new();
        let (mut input, mut output) = (Vec::new(), Vec::new());
        for command in &commands {
            let (request, reply) = expected(&mut model, command);
            input.extend(request);
            output.extend(reply);
        }
        let mut this = session(options.clone());
        let got = replies(&mut this, &input, piece);
        prop_assert_eq!(got.escape_ascii().to_string(), output.escape_ascii().to_string());
        drop(this);
        if in_file {
            // Another start finds the same keys, and no others.
            let space = KeySpace::open(options).unwrap();
            let mut found = Model::new();
            prop_assert_eq!(space.len(0), model.len() as u64);
            let mut cursor = 0;
            loop {
                cursor = space.scan(0, cursor, 10, 0, |key, value| {
                    found.insert(key.to_vec(), value.to_vec());
                }).unwrap();
                if cursor == 0 {
                    break;
                }
            }
            prop_assert_eq!(found, model);
        }
    }

    #[test]
    fn any_bytes_are_answered_or_refused(input in proptest::collection::vec(any::<u8>(), 0..200), piece in 1..50usize) {
        replies(&mut session(SpaceOptions::default()), &input, piece);
    }

    #[test]
    fn requests_are_read_as_another_library_reads_them(
        words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..6),
        cut in 0..300usize, at in 0..300usize, byte: u8, damage: bool,
    ) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut input = request(&words);
        input.truncate(cut.max(1));
        let at = at % input.len();
        if damage && at > 0 {
            input[at] = byte;
        }
        compare_with_oracle(&input)?;
    }
}

/// A request that we read whole is, to the oracle, the same array; one that it reads whole we read too, or refuse.
fn compare_with_oracle(input: &[u8]) -> Result<(), TestCaseError> {
    use redis_protocol::resp2::decode::decode;
    use redis_protocol::resp2::types::OwnedFrame;
    let limits = ParseLimits { args: 1 << 20, bulk_bytes: 1 << 20, request_bytes: 1 << 24, authenticated: true };
    let (mut parser, mut args) = (Parser::default(), Vec::new());
    let ours = parser.parse(input, &mut args, &limits);
    let theirs = decode(input);
    match ours {
        Parsed::Request(used) => {
            let Ok(Some((OwnedFrame::Array(frames), length))) = theirs else {
                return Err(TestCaseError::fail(format!("read {input:?}, the oracle {theirs:?}")));
            };
            prop_assert_eq!(used, length);
            let words: Vec<Vec<u8>> = args.iter().map(|span| span.bytes(input).to_vec()).collect();
            let frames: Vec<Vec<u8>> = frames
                .into_iter()
                .map(|frame| match frame {
                    OwnedFrame::BulkString(bytes) => bytes,
                    other => format!("{other:?}").into_bytes(),
                })
                .collect();
            prop_assert_eq!(words, frames);
        }
        Parsed::Incomplete(need) => {
            prop_assert!(need > input.len());
            prop_assert!(!matches!(theirs, Ok(Some(_))) || input[0] != b'*', "the oracle read {input:?}: {theirs:?}");
        }
        _ => {}
    }
    Ok(())
}
