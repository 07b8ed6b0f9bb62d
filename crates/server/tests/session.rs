//! Sessions without sockets: batches change nothing that a client could see, and no bytes make them panic.
//!
//! Source of the oracle: the `redis-protocol` crate, which reads RESP independently. tests/differential.py compares
//! with the answers of Redis itself.

use proptest::prelude::*;
use splitpoint_server::keyspace::{Eviction, KeySpace, Patience, SpaceOptions};
use splitpoint_server::resp::parse::{ParseLimits, Parsed, Parser};
use splitpoint_server::resp::session::RespSession;
use splitpoint_server::server::Server;
use splitpoint_server::session::{Flow, Session};
use splitpoint_server::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn session(options: SpaceOptions) -> RespSession {
    session_with(options, Settings::default())
}

fn session_with(options: SpaceOptions, settings: Settings) -> RespSession {
    let space = Arc::new(KeySpace::open(options).unwrap());
    let server = Arc::new(Server::new(space, settings, false));
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
            // As for a client that reads.
            let mut written = Vec::new();
            let (used, flow) = session.execute(&kept, &mut written, Patience::MayWait);
            kept.drain(..used);
            out.append(&mut written);
            match flow {
                Flow::Read(_) => break,
                Flow::Close => return out,
                Flow::Write | Flow::Wait | Flow::Sleep(_) | Flow::Block(_) if kept.is_empty() => break,
                Flow::Write | Flow::Wait | Flow::Sleep(_) | Flow::Block(_) => {}
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
    AppendWithin(u8, Vec<u8>, usize),
    Incr(u8),
    Del(&'static str, Vec<u8>),
    Count(&'static str, Vec<u8>),
    MGet(Vec<u8>),
    StrLen(u8),
    Rename(u8, u8),
}

fn command() -> impl Strategy<Value = Command> {
    let value =
        || prop_oneof![proptest::collection::vec(any::<u8>(), 0..20), Just(b"41".to_vec()), Just(vec![7; 3000])];
    // Also more than one call of the table takes.
    let keys = || prop_oneof![6 => proptest::collection::vec(0..6u8, 1..5), 1 => proptest::collection::vec(0..6u8, 70)];
    prop_oneof![
        4 => (0..6u8).prop_map(Command::Get),
        3 => (0..6u8, value()).prop_map(|(k, v)| Command::Set(k, v)),
        1 => (0..6u8, value()).prop_map(|(k, v)| Command::SetLong(k, v)),
        3 => (0..6u8, value()).prop_map(|(k, v)| Command::Append(k, v)),
        3 => (0..6u8, value(), 0..40usize).prop_map(|(k, v, n)| Command::AppendWithin(k, v, n)),
        1 => (0..6u8).prop_map(Command::Incr),
        2 => (0..6u8).prop_map(|k| Command::Del("DEL", vec![k])),
        1 => (prop::sample::select(vec!["del", "UNLINK"]), keys()).prop_map(|(name, keys)| Command::Del(name, keys)),
        2 => (prop::sample::select(vec!["EXISTS", "touch"]), keys()).prop_map(|(n, keys)| Command::Count(n, keys)),
        2 => keys().prop_map(Command::MGet),
        1 => (0..6u8).prop_map(Command::StrLen),
        1 => (0..6u8, 0..6u8).prop_map(|(a, b)| Command::Rename(a, b)),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// One of the keys looks like a marked pair of a file.
fn key(k: u8) -> Vec<u8> {
    if k == 5 { b"\0sp\xffmx".to_vec() } else { vec![b'k', k] }
}

/// The request, and the reply that a map would give.
fn expected(model: &mut Model, command: &Command) -> (Vec<u8>, Vec<u8>) {
    let with_keys = |name: &str, keys: &[u8]| {
        let keys: Vec<Vec<u8>> = keys.iter().map(|k| key(*k)).collect();
        request(&[&[name.as_bytes()][..], &keys.iter().map(Vec::as_slice).collect::<Vec<_>>()].concat())
    };
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
        Command::AppendWithin(k, tail, limit) => {
            let len = model.get(&key(*k)).map_or(0, Vec::len) + tail.len();
            let reply = if len > *limit {
                format!("-MAXLEN the value would be longer than {limit} bytes; nothing was appended\r\n")
            } else {
                model.entry(key(*k)).or_default().extend_from_slice(tail);
                format!(":{len}\r\n")
            };
            (request(&[b"APPEND", &key(*k), tail, b"maxlen", limit.to_string().as_bytes()]), reply.into_bytes())
        }
        Command::Del(name, keys) => {
            let count = keys.iter().filter(|k| model.remove(&key(**k)).is_some()).count();
            (with_keys(name, keys), format!(":{count}\r\n").into_bytes())
        }
        Command::Count(name, keys) => {
            let count = keys.iter().filter(|k| model.contains_key(&key(**k))).count();
            (with_keys(name, keys), format!(":{count}\r\n").into_bytes())
        }
        Command::MGet(keys) => {
            let value = |k: &u8| model.get(&key(*k)).map_or(b"$-1\r\n".to_vec(), |value| bulk(value));
            let values: Vec<u8> = keys.iter().flat_map(value).collect();
            (with_keys("MGET", keys), [format!("*{}\r\n", keys.len()).into_bytes(), values].concat())
        }
        Command::StrLen(k) => {
            let len = model.get(&key(*k)).map_or(0, Vec::len);
            (with_keys("STRLEN", &[*k]), format!(":{len}\r\n").into_bytes())
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
            // Another start finds exactly the same keys.
            let space = KeySpace::open(options).unwrap();
            let mut keys = BTreeSet::new();
            prop_assert_eq!(space.len(0), model.len() as u64);
            let mut cursor = 0;
            loop {
                cursor = space.scan(0, cursor, 10, 0, |key| {
                    keys.insert(key.to_vec());
                }).unwrap();
                if cursor == 0 {
                    break;
                }
            }
            let shared = space.share(Patience::MayWait).unwrap();
            let mut found = Model::new();
            for key in keys {
                shared.get_many(0, &[&key], |_, value| {
                    found.insert(key.clone(), value.unwrap_or_default().to_vec());
                }).unwrap();
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

/// Keys that all have one hash by XXH3 with seed 0. It multiplies two words of each half of a key, after an XOR with
/// words of a secret that its source contains. If the first word is that of the secret, the product is 0, whatever the
/// second word is.
fn colliding_keys(count: u64) -> Vec<Vec<u8>> {
    const SECRETS: [u64; 2] = [0xbe4b_a423_396c_feb8, 0xdb97_9083_e96d_d4de];
    let words = |n: u64| [SECRETS[0], n.wrapping_mul(0x9e37_79b9_7f4a_7c15), SECRETS[1], n];
    (0..count).map(|n| words(n).iter().flat_map(|word| word.to_le_bytes()).collect()).collect()
}

/// Stores the keys in a session. Returns the number of keys in the fullest bucket, and the total number of keys that
/// lookups of absent keys of the same kind compare.
fn flood(options: SpaceOptions, keys: &[Vec<u8>]) -> (u64, usize) {
    let mut this = session(options);
    let sets: Vec<u8> = keys.iter().flat_map(|key| request(&[b"SET", key, b""])).collect();
    assert_eq!(replies(&mut this, &sets, 1 << 16).len(), 5 * keys.len());
    let stats = replies(&mut this, &request(&[b"HT.STATS", b"SAMPLE", b"100000"]), 1 << 16);
    let stats = String::from_utf8(stats).unwrap();
    let (_, histogram) = stats.split_once("sampled-histogram\r\n").unwrap();
    let numbers: Vec<u64> = histogram.lines().skip(1).map(|line| line[1..].parse().unwrap()).collect();
    let fullest = numbers.chunks(2).map(|pair| pair[0]).max().unwrap();
    (fullest, numbers.chunks(2).map(|pair| (pair[0] * pair[1]) as usize).sum())
}

/// Keys chosen to collide by a function whose seed is known do not, as the server's key is random; the control shows
/// that they would.
#[test]
fn keys_that_were_chosen_to_collide_do_not() {
    let keys = colliding_keys(2000);
    let (fullest, counted) = flood(SpaceOptions::default(), &keys);
    assert_eq!(counted, keys.len());
    // A page has room for some dozens.
    assert!(fullest < 400, "a bucket with {fullest} keys");
    // The control: a file with the seed that the keys were chosen for.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.spt");
    splitpoint::TableOptions::new().hash(splitpoint::HashKind::Xxh3).seed(0).open(&file).unwrap().close().unwrap();
    let (fullest, _) = flood(SpaceOptions { file: Some(file), logged: true, ..SpaceOptions::default() }, &keys);
    assert_eq!(fullest, keys.len() as u64, "the keys do not collide by the function they were chosen for");
}

/// Invalid options of APPEND end a run, and fail by themselves.
#[test]
fn appends_with_wrong_options_are_refused_alone() {
    let mut this = session(SpaceOptions::default());
    let mut ask = |words: &[&[&[u8]]]| {
        let input: Vec<u8> = words.iter().flat_map(|words| request(words)).collect();
        String::from_utf8(replies(&mut this, &input, usize::MAX)).unwrap()
    };
    let wrong = ask(&[
        &[b"APPEND", b"k", b"12", b"MAXLEN", b"2"],
        &[b"APPEND", b"k", b"3", b"WHAT", b"9"],
        &[b"APPEND", b"k", b"3", b"MAXLEN", b"-1"],
        &[b"APPEND", b"k", b"3", b"MAXLEN", b"2"],
        &[b"APPEND", b"k", b"3", b"MAXLEN"],
        &[b"APPEND", b"k", b"3", b"MAXLEN", b"9223372036854775807"],
        &[b"STRLEN", b"k"],
    ]);
    assert_eq!(
        wrong.lines().collect::<Vec<_>>(),
        [
            ":2",
            "-ERR syntax error",
            "-ERR value is not an integer or out of range",
            "-MAXLEN the value would be longer than 2 bytes; nothing was appended",
            "-ERR wrong number of arguments for 'append' command",
            ":3",
            ":3",
        ]
    );
}

/// A request that we read completely is the same array to the oracle; one that the oracle reads completely we read too,
/// or reject.
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

fn text_of(session: &mut RespSession, requests: &[&[&[u8]]]) -> String {
    let input: Vec<u8> = requests.iter().flat_map(|words| request(words)).collect();
    String::from_utf8(replies(session, &input, 1 << 20)).unwrap()
}

#[test]
fn an_http_request_runs_no_command() {
    let body = "\r\nSET owned 1\r\n*1\r\n$8\r\nFLUSHALL\r\n";
    for head in [
        "POST / HTTP/1.1\r\nHost: localhost:6379\r\n",
        "GET / HTTP/1.1\r\nX: y\r\n",
        "PUT /x HTTP/1.1\r\n",
        "OPTIONS * HTTP/1.0\r\n",
        "SET / HTTP/1.1\r\n",
        "Host: localhost\r\n",
    ] {
        for piece in [1, 1000] {
            let mut session = session(SpaceOptions::default());
            assert_eq!(text_of(&mut session, &[&[b"SET", b"kept", b"1"]]), "+OK\r\n");
            assert_eq!(replies(&mut session, format!("{head}{body}").as_bytes(), piece), b"", "{head}");
            let left = text_of(&mut session, &[&[b"EXISTS", b"kept"], &[b"EXISTS", b"owned"]]);
            assert_eq!(left, ":1\r\n:0\r\n", "{head}");
        }
    }
}

/// Options of a space of 4 MiB.
fn limited(file: Option<std::path::PathBuf>, eviction: Eviction) -> SpaceOptions {
    SpaceOptions { file, max_memory_bytes: 4 << 20, eviction, ..SpaceOptions::default() }
}

#[test]
fn memory_that_is_free_again_can_be_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let value = vec![b'x'; 1000];
    for (number, file) in [None, Some(folder.path().join("t"))].into_iter().enumerate() {
        for clear in ["FLUSHALL", "DEL", "EXPIRE"] {
            let options = limited(file.as_ref().map(|f| f.with_extension(clear)), Eviction::None);
            let mut session = session(options);
            // Values that are set alone, as with a lifetime, count too.
            let set = |session: &mut RespSession, n: usize| match n % 2 {
                0 => text_of(session, &[&[b"SET", format!("k{n}").as_bytes(), &value]]),
                _ => text_of(session, &[&[b"SETEX", format!("k{n}").as_bytes(), b"10000", &value]]),
            };
            let fill = |session: &mut RespSession| (0..20_000).find(|&n| set(session, n).starts_with("-OOM")).unwrap();
            let first = fill(&mut session);
            assert!(first > 2_000, "{number}: {first} keys");
            match clear {
                "FLUSHALL" => drop(text_of(&mut session, &[&[b"FLUSHALL"]])),
                name => (0..first).for_each(|n| {
                    let key = format!("k{n}");
                    let words: &[&[u8]] = &[name.as_bytes(), key.as_bytes(), b"-1"];
                    text_of(&mut session, &[&words[..if name == "DEL" { 2 } else { 3 }]]);
                }),
            }
            let info = text_of(&mut session, &[&[b"INFO", b"memory"]]);
            let used: u64 = info.split("used_memory:").nth(1).unwrap().split('\r').next().unwrap().parse().unwrap();
            assert!(used < 2 << 20, "{number} {clear}: {used} bytes in use without keys");
            let second = fill(&mut session);
            assert!(second > first * 9 / 10, "{number} {clear}: {first} keys, then {second}");
        }
    }
}

#[test]
fn eviction_keeps_the_bytes_whatever_the_size_of_values_was() {
    let mut session = session(limited(None, Eviction::AllKeysLru));
    let keys = |session: &mut RespSession| -> u64 {
        text_of(session, &[&[b"DBSIZE"]]).trim_matches([':', '\r', '\n']).parse().unwrap()
    };
    for (value_bytes, count) in [(100, 60_000), (20_000, 500), (1_000, 8_000), (20, 80_000), (100_000, 100)] {
        let value = vec![b'x'; value_bytes];
        for chunk in (0..count).collect::<Vec<u32>>().chunks(50) {
            let names: Vec<String> = chunk.iter().map(|n| format!("{value_bytes}:{n}")).collect();
            let input: Vec<u8> = names.iter().flat_map(|name| request(&[b"SET", name.as_bytes(), &value])).collect();
            assert_eq!(replies(&mut session, &input, 1 << 24).len(), 5 * names.len());
        }
        let stored = keys(&mut session) * (value_bytes as u64 + 10);
        let info = text_of(&mut session, &[&[b"INFO", b"memory"]]);
        let used: u64 = info.split("used_memory:").nth(1).unwrap().split('\r').next().unwrap().parse().unwrap();
        assert!(used < (4 << 20) * 115 / 100, "{value_bytes}: {used} bytes in use");
        // Small keys have an overhead of their own.
        let least = if value_bytes < 1000 { 30 } else { 70 };
        assert!(stored > (4 << 20) * least / 100, "{value_bytes}: {stored} bytes stored");
    }
}

#[test]
fn every_key_is_about_equally_likely_to_be_the_random_one() {
    for count in [1, 2, 3, 17, 200] {
        let mut session = session(SpaceOptions::default());
        assert_eq!(text_of(&mut session, &[&[b"RANDOMKEY"]]), "$-1\r\n");
        for n in 0..count {
            text_of(&mut session, &[&[b"SET", format!("k{n}").as_bytes(), b"v"]]);
        }
        let mut times = BTreeMap::new();
        let draws = 300 * count;
        for _ in 0..draws {
            *times.entry(text_of(&mut session, &[&[b"RANDOMKEY"]])).or_insert(0) += 1;
        }
        assert_eq!(times.len(), count, "{times:?}");
        // Six standard deviations.
        assert!(times.values().all(|&times| (200..=400).contains(&times)), "{times:?}");
    }
}

#[test]
fn a_refused_config_set_changes_nothing() {
    let mut session = session(SpaceOptions::default());
    let set: &[&[u8]] = &[b"CONFIG", b"SET", b"maxclients", b"77", b"timeout", b"x"];
    assert!(
        text_of(&mut session, &[set]).starts_with("-ERR CONFIG SET failed (possibly related to argument 'timeout')")
    );
    let set: &[&[u8]] = &[b"CONFIG", b"SET", b"maxclients", b"77", b"MAXCLIENTS", b"78"];
    assert!(text_of(&mut session, &[set]).contains("'maxclients') - duplicate parameter"));
    assert!(text_of(&mut session, &[&[b"CONFIG", b"GET", b"maxclients"]]).ends_with("$5\r\n10000\r\n"));
}

#[test]
fn numsub_is_an_array_in_both_versions_and_requests_have_any_number_of_arguments() {
    let mut session = session(SpaceOptions::default());
    let numsub: &[&[u8]] = &[b"PUBSUB", b"NUMSUB", b"a"];
    let answers = text_of(&mut session, &[numsub, &[b"HELLO", b"3"], numsub]);
    assert!(
        answers.starts_with("*2\r\n$1\r\na\r\n:0\r\n") && answers.ends_with("*2\r\n$1\r\na\r\n:0\r\n"),
        "{answers}"
    );
    let mut words: Vec<&[u8]> = vec![b"EXISTS"];
    words.resize((1 << 20) + 2, b"a");
    assert_eq!(text_of(&mut session, &[&words]), ":0\r\n");
}

#[test]
fn calls_that_fail_and_calls_that_are_refused_are_counted() {
    let mut session = session(SpaceOptions::default());
    text_of(&mut session, &[&[b"SET", b"a", b"x"], &[b"INCR", b"a"], &[b"INCR"], &[b"SET", b"b", b"1", b"EX", b"100"]]);
    let info = text_of(&mut session, &[&[b"INFO", b"commandstats"], &[b"INFO", b"keyspace"]]);
    let incr = info.lines().find(|line| line.starts_with("cmdstat_incr:")).unwrap();
    assert!(incr.contains("calls=1,") && incr.contains("rejected_calls=1,failed_calls=1"), "{incr}");
    assert!(info.contains("db0:keys=2,expires=1,"), "{info}");
}

#[test]
fn parts_of_values_are_written_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for file in [None, Some(folder.path().join("t"))] {
        let mut session = session(SpaceOptions { file, ..SpaceOptions::default() });
        let mut model: Vec<u8> = Vec::new();
        for (at, part) in [(5, "hello"), (0, "AB"), (20_000, "far"), (9, "over the end"), (20_001, "xyz"), (3, "")] {
            if !part.is_empty() {
                model.resize(model.len().max(at + part.len()), 0);
                model[at..at + part.len()].copy_from_slice(part.as_bytes());
            }
            let answer = text_of(&mut session, &[&[b"SETRANGE", b"k", at.to_string().as_bytes(), part.as_bytes()]]);
            assert_eq!(answer, format!(":{}\r\n", model.len()));
        }
        let stored = replies(&mut session, &request(&[b"GET", b"k"]), 100);
        assert_eq!(stored, [format!("${}\r\n", model.len()).as_bytes(), &model, b"\r\n"].concat());
        let tail = replies(&mut session, &request(&[b"GETRANGE", b"k", b"-3", b"-1"]), 100);
        assert_eq!(tail, [b"$3\r\n", &model[model.len() - 3..], b"\r\n"].concat());
    }
}

/// The replies to commands of words, each on a line.
fn replies_to(session: &mut RespSession, lines: &[&str]) -> Vec<String> {
    let reply = |line: &&str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let bytes = replies(session, &request(&words), 1 << 20);
        bytes.escape_ascii().to_string().replace("\\r\\n", " ").trim().to_owned()
    };
    lines.iter().map(reply).collect()
}

/// What Redis 8.2.3 answers.
#[test]
fn lifetimes_of_fields_are_set_and_reported_as_in_redis() {
    let mut session = session(SpaceOptions::default());
    for (command, expected) in [
        ("HSET h a 1 b 2 c 3", ":3"),
        ("HEXPIRE h 100000 FIELDS 2 a zz", "*2 :1 :-2"),
        ("HTTL h FIELDS 3 a b zz", "*3 :100000 :-1 :-2"),
        ("HTTL none FIELDS 2 a b", "*2 :-2 :-2"),
        ("HEXPIRE none 10 FIELDS 1 a", "*1 :-2"),
        ("HPEXPIREAT h 70000000000001 FIELDS 1 b", "*1 :1"),
        ("HPEXPIRETIME h FIELDS 1 b", "*1 :70000000000001"),
        ("HEXPIRETIME h FIELDS 1 b", "*1 :70000000001"),
        ("HPEXPIREAT h 70000000000001 GT FIELDS 1 b", "*1 :0"),
        ("HPEXPIREAT h 70000000000001 LT FIELDS 1 b", "*1 :0"),
        ("HPEXPIREAT h 70000000000001 NX FIELDS 2 b c", "*2 :0 :1"),
        ("HPERSIST h FIELDS 3 c a zz", "*3 :1 :1 :-2"),
        ("HPERSIST h FIELDS 1 c", "*1 :-1"),
        ("HPEXPIREAT h 60000000000000 XX FIELDS 2 b c", "*2 :1 :0"),
        ("HPEXPIREAT h 50000000000000 GT FIELDS 2 b c", "*2 :0 :0"),
        ("HPEXPIREAT h 50000000000000 LT FIELDS 2 b c", "*2 :1 :1"),
        ("HINCRBY h b 5", ":7"),
        ("HINCRBYFLOAT h c 0.5", "$3 3.5"),
        ("HPEXPIRETIME h FIELDS 2 b c", "*2 :50000000000000 :50000000000000"),
        ("OBJECT ENCODING h", "$10 listpackex"),
        ("HSET h b 1", ":0"),
        ("HTTL h FIELDS 1 b", "*1 :-1"),
        ("HEXPIRE h 0 FIELDS 1 c", "*1 :2"),
        ("HEXPIREAT h 1 FIELDS 1 c", "*1 :-2"),
        ("HGETEX h EXAT 9999999999 FIELDS 2 a zz", "*2 $1 1 $-1"),
        ("HEXPIRETIME h FIELDS 1 a", "*1 :9999999999"),
        ("HGETEX h FIELDS 1 a", "*1 $1 1"),
        ("HSETEX h KEEPTTL FIELDS 2 a x d y", ":1"),
        ("HEXPIRETIME h FIELDS 2 a d", "*2 :9999999999 :-1"),
        ("HGETEX h PERSIST FIELDS 1 a", "*1 $1 x"),
        ("HSETEX h FNX EXAT 9999999999 FIELDS 2 a 1 z 2", ":0"),
        ("HSETEX h FXX EXAT 9999999999 FIELDS 2 a 1 b 2", ":1"),
        ("HEXPIRETIME h FIELDS 3 a b z", "*3 :9999999999 :9999999999 :-2"),
        ("HGETDEL h FIELDS 3 a a zz", "*3 $1 1 $-1 $-1"),
        ("HSETEX h EX 0 FIELDS 1 b 1", ":1"),
        ("HGETALL h", "*2 $1 d $1 y"),
        ("HEXPIRE h 0 FIELDS 1 d", "*1 :2"),
        ("EXISTS h", ":0"),
        ("HSET h a 1", ":1"),
        ("HEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0"),
        ("HEXPIRE h x FIELDS 1 a", "-ERR value is not an integer or out of range"),
        ("HEXPIRE h 9223372036854775807 FIELDS 1 a", "-ERR invalid expire time in \\'hexpire\\' command"),
        ("HPEXPIREAT h 70368744177664 FIELDS 1 a", "-ERR invalid expire time in \\'hpexpireat\\' command"),
        ("HPEXPIREAT h 70368744177663 FIELDS 1 a", "*1 :1"),
        ("HEXPIRE h 1 FIELDS 2 a", "-ERR The `numfields` parameter must match the number of arguments"),
        ("HEXPIRE h 1 FIELDS x a", "-ERR Parameter `numFields` should be greater than 0"),
        ("HEXPIRE h 1 NX XX FIELDS 1 a", "-ERR Mandatory argument FIELDS is missing or not at the right position"),
        ("HTTL h FIELDS -1 a", "-ERR Number of fields must be a positive integer"),
        ("HSETEX h EX 1 FOO FIELDS 1 a 1", "-ERR unknown argument: FOO"),
        ("HSETEX h FNX FXX FIELDS 1 a 1", "-ERR Only one of FXX or FNX arguments can be specified"),
        (
            "HSETEX h EX 1 KEEPTTL FIELDS 1 a 1",
            "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        ),
        ("HSETEX h EX 1 FIELDS 2 a 1", "-ERR wrong number of arguments for \\'hsetex\\' command"),
        ("HSETEX h EX 1 FIELDS 0 a 1", "-ERR invalid number of fields"),
        ("SET s x", "+OK"),
        ("HTTL s FIELDS 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HEXPIRE s x FIELDS 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ] {
        assert_eq!(replies_to(&mut session, &[command])[0], expected, "{command}");
    }
}

/// Without a sweep, in small and large hashes, in memory and in a file.
#[test]
fn fields_that_have_expired_are_absent_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for (number, count) in [4, 4, 500, 500].into_iter().enumerate() {
        let file = number.is_multiple_of(2).then(|| folder.path().join(number.to_string()));
        let mut session = session(SpaceOptions { file, ..SpaceOptions::default() });
        let odd: Vec<String> = (1..count).step_by(2).map(|n| n.to_string()).collect();
        for n in 0..count {
            replies_to(&mut session, &[format!("HSET k {n} value{n}").as_str()]);
        }
        let left = count - odd.len();
        replies_to(&mut session, &["RPUSH list k", "SADD members 1"]);
        let expire = format!("HPEXPIRE k 1 FIELDS {} {}", odd.len(), odd.join(" "));
        assert!(!replies_to(&mut session, &[&expire])[0].contains('-'));
        while replies_to(&mut session, &["HEXISTS k 1"]) != [":0"] {}
        for (command, expected) in [
            ("HLEN k", format!(":{left}")),
            ("HGET k 1", "$-1".into()),
            ("HMGET k 1 0", "*2 $-1 $6 value0".into()),
            ("HSTRLEN k 1", ":0".into()),
            ("HTTL k FIELDS 2 1 0", "*2 :-2 :-1".into()),
            ("SORT list BY nosort GET *->1 GET *->0", "*2 $-1 $6 value0".into()),
            ("MULTI", "+OK".into()),
            ("HGET k 1", "+QUEUED".into()),
            ("HLEN k", "+QUEUED".into()),
            ("EXEC", format!("*2 $-1 :{left}")),
            ("COPY k copy", ":1".into()),
            ("HLEN copy", format!(":{left}")),
            ("RENAME copy copied", "+OK".into()),
            ("HMGET copied 1 0", "*2 $-1 $6 value0".into()),
            ("HPERSIST copied FIELDS 1 1", "*1 :-2".into()),
            ("HDEL copied 1", ":0".into()),
            ("HSETNX copied 1 new", ":1".into()),
            ("HTTL copied FIELDS 1 1", "*1 :-1".into()),
            ("HINCRBY copied 3 5", ":5".into()),
            ("HLEN copied", format!(":{}", left + 2)),
            ("HGETDEL k FIELDS 1 1", "*1 $-1".into()),
            ("HLEN k", format!(":{left}")),
        ] {
            assert_eq!(replies_to(&mut session, &[command])[0], expected, "{command}, {count} fields");
        }
        for (command, words) in [("HKEYS k", 1), ("HVALS k", 1), ("HGETALL k", 2), ("HRANDFIELD k 1000", 1)] {
            let reply = &replies_to(&mut session, &[command])[0];
            assert!(reply.starts_with(&format!("*{} ", words * left)), "{command}: {reply}");
            assert!(!reply.contains("value1 ") && !reply.contains("$1 1 "), "{command}: {reply}");
        }
        let scanned = &replies_to(&mut session, &["HSCAN k 0 COUNT 10000"])[0];
        assert!(scanned.contains(&format!("*{} ", 2 * left)), "{scanned}");
        let dump = replies(&mut session, &request(&[b"DUMP", b"k"]), 1 << 20);
        let start = dump.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        replies(&mut session, &request(&[b"RESTORE", b"restored", b"0", &dump[start..dump.len() - 2]]), 1 << 20);
        assert_eq!(replies_to(&mut session, &["HLEN restored", "HGET restored 1"]), [format!(":{left}"), "$-1".into()]);
        // The last one goes with those that have expired.
        let even: Vec<String> = (0..count).step_by(2).map(|n| n.to_string()).collect();
        replies_to(&mut session, &[format!("HDEL k {}", even.join(" ")).as_str()]);
        assert_eq!(replies_to(&mut session, &["EXISTS k", "HLEN k", "HGETALL k"]), [":0", ":0", "*0"]);
    }
}

/// What Redis 7.0.15 answers.
#[test]
fn bits_are_counted_found_and_combined_as_in_redis() {
    let mut session = session(SpaceOptions::default());
    let lines = [
        ("SETBIT k 7 1", ":0"),
        ("SETBIT k 7 0", ":1"),
        ("SETBIT k 100 1", ":0"),
        ("STRLEN k", ":13"),
        ("GETBIT k 100", ":1"),
        ("GETBIT k 4000", ":0"),
        ("SETBIT k -1 1", "-ERR bit offset is not an integer or out of range"),
        ("SETBIT k 0 2", "-ERR bit is not an integer or out of range"),
        ("SET s foobar", "+OK"),
        ("BITCOUNT s", ":26"),
        ("BITCOUNT s 0 0", ":4"),
        ("BITCOUNT s 1 1 BYTE", ":6"),
        ("BITCOUNT s 5 30 BIT", ":17"),
        ("BITCOUNT s 0", "-ERR syntax error"),
        ("BITCOUNT absent", ":0"),
        // An absent key, or another type, is reported before wrong arguments.
        ("BITCOUNT absent 0", ":0"),
        ("BITCOUNT absent a b", ":0"),
        ("BITCOUNT absent 0 1 x", ":0"),
        ("BITPOS absent 1 a", ":-1"),
        ("BITPOS absent 0 a", ":0"),
        ("BITPOS absent 2 a", "-ERR The bit argument must be 1 or 0."),
        ("BITPOS s 1 a", "-ERR value is not an integer or out of range"),
        ("RPUSH list a", ":1"),
        ("BITCOUNT list 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BITPOS list 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SETRANGE list 536870913 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SETRANGE absent 536870913 a", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("BITPOS s 1", ":1"),
        ("BITPOS s 0", ":0"),
        ("BITPOS s 1 2 -1", ":17"),
        ("BITPOS s 1 7 -1 BIT", ":9"),
        ("BITPOS absent 0", ":0"),
        ("BITPOS absent 1", ":-1"),
        // Both ends before the value: its first byte or bit.
        ("BITPOS s 0 -100 -50", ":0"),
        ("BITPOS s 1 -50 -100", ":1"),
        ("BITPOS s 1 -100 -50 BIT", ":-1"),
        ("BITPOS s 0 -50 -100 BIT", ":0"),
        ("BITPOS s 0 -9223372036854775808 -9223372036854775808", ":0"),
        ("BITPOS s 1 -1 -100", ":-1"),
        ("BITCOUNT s -50 -100", ":0"),
        ("BITCOUNT s -100 -50", ":4"),
        ("GETRANGE s -50 -100", "$0"),
        ("SET f \u{7f}", "+OK"),
        ("BITPOS f 0 0 -1", ":0"),
        ("BITPOS f 2", "-ERR The bit argument must be 1 or 0."),
        ("BITOP AND d s k", ":13"),
        ("BITOP NOT d s", ":6"),
        ("GETBIT d 0", ":1"),
        ("BITOP NOT d s k", "-ERR BITOP NOT must be called with a single source key."),
        ("BITOP OR d absent", ":0"),
        ("EXISTS d", ":0"),
        ("BITFIELD n SET u8 0 255 GET i8 0 INCRBY u2 100 1", "*3 :0 :-1 :1"),
        ("BITFIELD n OVERFLOW SAT INCRBY u8 0 10 OVERFLOW FAIL INCRBY u8 0 1", "*2 :255 $-1"),
        ("BITFIELD sat OVERFLOW SAT SET u8 0 -1 GET u8 0 SET i8 8 -300 GET i8 8", "*4 :0 :255 :0 :-128"),
        ("BITFIELD sat SET u8 0 -2 GET u8 0 OVERFLOW FAIL SET u8 0 -1 SET u63 #1 -1", "*4 :255 :254 $-1 $-1"),
        (
            "BITFIELD sat OVERFLOW SAT SET i64 0 -9223372036854775808 SET u63 64 -9223372036854775808",
            "*2 :-108086391056891904 :0",
        ),
        ("BITFIELD sat GET u63 64", "*1 :9223372036854775807"),
        ("DEL sat", ":1"),
        ("BITFIELD n INCRBY u8 0 1 SET i64 #1 -5 GET i64 #1", "*3 :0 :67108864 :-5"),
        (
            "BITFIELD n GET u64 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        ("BITFIELD_RO n SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
        ("SET a ohmytext", "+OK"),
        ("SET b mynewtext", "+OK"),
        ("LCS a b", "$6 mytext"),
        ("LCS a b LEN", ":6"),
        ("LCS a b IDX", "*4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1 $3 len :6"),
        ("LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN", "*4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6"),
        ("LCS a list wrong", "-ERR The specified keys must contain string values"),
        ("LCS list absent LEN IDX", "-ERR The specified keys must contain string values"),
        ("LCS a absent wrong", "-ERR syntax error"),
        ("ROLE", "*3 $6 master :0 *0"),
        ("WAIT 0 100", ":0"),
        ("ACL WHOAMI", "$7 default"),
        ("CLIENT UNBLOCK 5", ":0"),
        ("CLIENT PAUSE 0", "+OK"),
    ];
    let commands: Vec<&str> = lines.iter().map(|(command, _)| *command).collect();
    for ((command, expected), reply) in lines.iter().zip(replies_to(&mut session, &commands)) {
        assert_eq!(reply, *expected, "{command}");
    }
}

#[test]
fn conditions_compare_values_and_digests() {
    let mut session = session(SpaceOptions::default());
    let digest = "b6acb9d84a38ff74"; // XXH3 of "Hello world", as Redis 8.4 documents it
    let lines = [
        ("SETRANGE k 0 Hello", ":5"),
        ("SETRANGE k 6 world", ":11"),
        ("BITFIELD k SET u8 #5 32", "*1 :0"),
        ("DIGEST k", &format!("$16 {digest}")),
        ("DIGEST absent", "$-1"),
        ("SET k a IFDEQ 0000000000000000", "$-1"),
        ("SET k a IFDEQ 00", "-ERR a digest must be exactly 16 hexadecimal characters"),
        (&format!("SET k a IFDNE {digest}"), "$-1"),
        (&format!("SET k a IFDEQ {}", digest.to_uppercase()), "+OK"),
        ("SET k b IFEQ a", "+OK"),
        ("SET k c IFEQ a GET", "$1 b"),
        ("GET k", "$1 b"),
        ("SET k c IFNE b", "$-1"),
        ("SET k c IFNE a GET", "$1 b"),
        ("GET k", "$1 c"),
        ("SET absent v IFEQ v", "$-1"),
        ("SET absent v IFNE v EX 100", "+OK"),
        ("TTL absent", ":100"),
        ("SET absent w IFEQ v KEEPTTL", "+OK"),
        ("TTL absent", ":100"),
        ("SET k v IFEQ c NX", "-ERR syntax error"),
        ("SET k v NX IFEQ c", "-ERR syntax error"),
        ("SET k v IFEQ c IFNE d", "-ERR syntax error"),
        ("SET k v IFEQ", "-ERR syntax error"),
        ("GETEX k IFEQ c", "-ERR syntax error"),
        ("DELEX k IFEQ x", ":0"),
        ("DELEX k IFNE c", ":0"),
        ("DELEX k IFEQ c", ":1"),
        ("DELEX k IFNE c", ":0"),
        ("DELEX k", ":0"),
        ("DELEX absent", ":1"),
        ("DELEX k IFEQ", "-ERR wrong number of arguments for \\'delex\\' command"),
        ("DELEX k NX x", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 EX 50", ":1"),
        ("TTL b", ":50"),
        ("MSETEX 2 a 3 c 3 NX", ":0"),
        ("MSETEX 2 a 3 c 3 XX", ":0"),
        ("MSETEX 2 a 3 b 3 XX KEEPTTL", ":1"),
        ("MGET a b c", "*3 $1 3 $1 3 $-1"),
        ("TTL a", ":50"),
        ("MSETEX 0 a 1", "-ERR invalid numkeys value"),
        ("MSETEX 9223372036854775807 a 1", "-ERR wrong number of key-value pairs"),
        ("MSETEX 2 a 1 b", "-ERR wrong number of key-value pairs"),
        ("MSETEX 1 a 1 GET", "-ERR syntax error"),
        ("COMMAND GETKEYS MSETEX 2 a 1 b 2 NX", "*2 $1 a $1 b"),
    ];
    let commands: Vec<&str> = lines.iter().map(|(command, _)| *command).collect();
    for ((command, expected), reply) in lines.iter().zip(replies_to(&mut session, &commands)) {
        assert_eq!(reply, *expected, "{command}");
    }
}

#[test]
fn corrupt_hyperloglogs_are_refused() {
    let mut session = session(SpaceOptions::default());
    let corrupt = "-INVALIDOBJ Corrupted HLL object detected";
    let not_one = "-WRONGTYPE Key is not a valid HyperLogLog string value.";
    let lines = [
        ("PFADD h a b c", ":1"),
        ("SET s text", "+OK"),
        ("PFADD s a", not_one),
        ("PFCOUNT s", not_one),
        ("PFCOUNT h s", not_one),
        ("PFMERGE h s", not_one),
        ("PFMERGE s h", not_one),
        ("APPEND h x", ":28"),
        ("PFCOUNT h", corrupt),
        ("PFCOUNT h absent", corrupt),
        ("PFMERGE m h", corrupt),
        ("EXISTS m", ":0"),
        ("SETRANGE h 4 \u{2}", ":28"),
        ("PFADD h a", not_one),
        ("SETRANGE d 12303 x", ":12304"),
        ("SETRANGE d 0 HYLL", ":12304"),
        ("PFADD d a", ":1"),
        ("PFCOUNT d", ":2"),
        ("SETRANGE d 12304 x", ":12305"),
        ("PFCOUNT d", not_one),
    ];
    let commands: Vec<&str> = lines.iter().map(|(command, _)| *command).collect();
    for ((command, expected), reply) in lines.iter().zip(replies_to(&mut session, &commands)) {
        assert_eq!(reply, *expected, "{command}");
    }
}

#[test]
fn a_paused_client_waits_and_then_continues() {
    let mut session = session(SpaceOptions::default());
    replies_to(&mut session, &["CLIENT PAUSE 60000 WRITE"]);
    // Redis delays these whatever they would do.
    let scripts: [&[&[u8]]; 4] =
        [&[b"EVAL", b"return 1", b"0"], &[b"EXEC"], &[b"PUBLISH", b"c", b"m"], &[b"PFCOUNT", b"k"]];
    for delayed in [&[&b"SET"[..], b"k", b"v"] as &[&[u8]]].into_iter().chain(scripts) {
        let mut out = Vec::new();
        let input = [request(&[b"GET", b"k"]), request(delayed)].concat();
        let (used, flow) = session.execute(&input, &mut out, Patience::MayWait);
        assert!(matches!(flow, Flow::Sleep(_)), "{delayed:?}: {flow:?}");
        assert!(out == b"$-1\r\n" && used == request(&[b"GET", b"k"]).len());
    }
    assert_eq!(replies_to(&mut session, &["CLIENT UNPAUSE", "SET k v"]), ["+OK", "+OK"]);
}

#[test]
fn a_second_pause_neither_shortens_nor_weakens_the_first() {
    let is_delayed = |session: &mut RespSession, words: &[&[u8]]| {
        let (_, flow) = session.execute(&request(words), &mut Vec::new(), Patience::MayWait);
        matches!(flow, Flow::Sleep(_))
    };
    let get: &[&[u8]] = &[b"GET", b"k"];
    let set: &[&[u8]] = &[b"SET", b"k", b"v"];
    let over = std::time::Duration::from_millis(20);

    let mut session = session(SpaceOptions::default());
    assert_eq!(replies_to(&mut session, &["CLIENT PAUSE 60000 WRITE", "CLIENT PAUSE 0 WRITE"]), ["+OK", "+OK"]);
    assert!(is_delayed(&mut session, set) && !is_delayed(&mut session, get));
    replies_to(&mut session, &["CLIENT UNPAUSE"]);
    assert!(!is_delayed(&mut session, set));

    // A pause that is over does not make the next one stronger.
    replies_to(&mut session, &["CLIENT PAUSE 1 ALL"]);
    std::thread::sleep(over);
    replies_to(&mut session, &["CLIENT PAUSE 60000 WRITE"]);
    assert!(is_delayed(&mut session, set) && !is_delayed(&mut session, get));

    // Commands of EXEC run during a pause that begins within it.
    replies_to(&mut session, &["CLIENT UNPAUSE", "MULTI", "CLIENT PAUSE 60000 ALL", "CLIENT PAUSE 1 WRITE", "EXEC"]);
    std::thread::sleep(over);
    assert!(is_delayed(&mut session, get));
}

#[test]
fn the_last_filter_of_a_kind_selects_the_clients_to_kill() {
    let mut session = session(SpaceOptions::default());
    let mut other = another(&session);
    let id = replies_to(&mut other, &["CLIENT ID"]).remove(0).replace(':', "");
    replies_to(&mut session, &["ACL SETUSER u"]);
    let first_differs = [
        ("ADDR another ADDR x", ":0"),
        ("TYPE normal TYPE pubsub", ":0"),
        (&format!("ID 99999 TYPE pubsub USER u ID {id} TYPE normal USER default"), ":1"),
    ];
    for (filters, killed) in first_differs {
        assert_eq!(replies_to(&mut session, &[&format!("CLIENT KILL {filters}")]), [killed], "{filters}");
    }
    let _next = another(&session);
    assert_eq!(replies_to(&mut session, &["CLIENT KILL ADDR x LADDR x ADDR another LADDR test"]), [":1"]);
}

#[test]
fn no_message_follows_the_end_of_the_subscription() {
    for (end, confirmed) in [("UNSUBSCRIBE c", "*3 $11 unsubscribe $1 c :0"), ("RESET", "+RESET")] {
        let mut publisher = session(SpaceOptions::default());
        let mut subscriber = another(&publisher);
        replies_to(&mut subscriber, &["SUBSCRIBE c"]);
        assert_eq!(replies_to(&mut publisher, &["PUBLISH c m"]), [":1"]);
        assert_eq!(replies_to(&mut subscriber, &[end]), [format!("*3 $7 message $1 c $1 m {confirmed}")]);
        assert_eq!(pushes(&mut subscriber), "");
    }
}

/// Messages of other clients for a session, as one line.
fn pushes(session: &mut RespSession) -> String {
    let mut out = Vec::new();
    session.take_pushes(&mut out);
    String::from_utf8(out).unwrap().trim_end().replace("\r\n", " ")
}

fn another(session: &RespSession) -> RespSession {
    let server = session.server();
    let client = server.clients.add("another".into(), "test".into(), 0, 10).unwrap();
    let figures = server.add_figures();
    RespSession::new(server, client, figures)
}

/// A client that changes keys, and one that subscribes to the events of database 0.
fn writer_and_subscriber() -> (RespSession, RespSession) {
    let mut writer = session(SpaceOptions::default());
    let mut subscriber = another(&writer);
    replies_to(&mut subscriber, &["PSUBSCRIBE __keyevent@0__:*"]);
    replies_to(&mut writer, &["CONFIG SET notify-keyspace-events EA"]);
    (writer, subscriber)
}

/// The names of the events of database 0 that a subscriber to all of them received.
fn event_names(subscriber: &mut RespSession) -> String {
    let pushed = pushes(subscriber);
    let names = pushed.split(' ').filter_map(|word| word.strip_prefix("__keyevent@0__:"));
    names.filter(|name| *name != "*").collect::<Vec<&str>>().join(" ")
}

#[test]
fn expired_evicted_and_missed_keys_are_published() {
    let mut writer = session(SpaceOptions::default());
    let mut subscriber = another(&writer);
    replies_to(&mut subscriber, &["SUBSCRIBE __keyevent@0__:expired __keyevent@0__:evicted __keyevent@0__:keymiss"]);
    let event = |name: &str, key: &str| {
        let channel = format!("__keyevent@0__:{name}");
        format!("*3 $7 message ${} {channel} ${} {key}", channel.len(), key.len())
    };
    replies_to(&mut writer, &["SET k v PXAT 1", "APPEND k x", "GET absent"]);
    assert_eq!(pushes(&mut subscriber), "", "nothing is published by default");
    replies_to(&mut writer, &["CONFIG SET notify-keyspace-events EAm"]);
    replies_to(&mut writer, &["SET k v PXAT 1", "APPEND k x"]);
    assert_eq!(pushes(&mut subscriber), event("expired", "k"));
    replies_to(&mut writer, &["GET absent", "MGET k gone"]);
    assert_eq!(pushes(&mut subscriber), [event("keymiss", "absent"), event("keymiss", "gone")].join(" "));
    replies_to(&mut writer, &["CONFIG SET maxmemory 1mb maxmemory-policy allkeys-lru"]);
    for number in 0..20 {
        replies_to(&mut writer, &[format!("SETRANGE large{number} 100000 x").as_str()]);
    }
    assert!(pushes(&mut subscriber).contains("evicted"));
    replies_to(&mut writer, &["CONFIG SET notify-keyspace-events ", "SET k v PXAT 1", "APPEND k x"]);
    assert_eq!(pushes(&mut subscriber), "");
}

#[test]
fn events_of_lifetimes_of_fields_are_those_of_redis() {
    let (mut writer, mut subscriber) = writer_and_subscriber();
    for (command, events) in [
        ("HSET h a 1 b 2", "hset"),
        ("HEXPIRE h 100 FIELDS 1 a", "hexpire"),
        ("HEXPIRE h 100 NX FIELDS 1 a", ""),
        ("HEXPIRE h 100 FIELDS 1 absent", ""),
        ("HEXPIRE h 0 FIELDS 2 a b", "hdel del"),
        ("HSET h a 1 b 2", "hset"),
        ("HEXPIRE h 100 FIELDS 2 a b", "hexpire"),
        ("HPERSIST h FIELDS 2 b absent", "hpersist"),
        ("HPERSIST h FIELDS 1 b", ""),
        ("HEXPIREAT h 1 FIELDS 1 b", "hdel"),
        ("HSETEX h EX 10 FIELDS 1 a 1", "hset hexpire"),
        ("HSETEX h FIELDS 1 a 1", "hset"),
        ("HSETEX h FNX FIELDS 1 a 1", ""),
        ("HSETEX h EX 0 FIELDS 1 a 1", "hset hdel del"),
        ("HSETEX h EX 10 FIELDS 2 a 1 b 2", "hset hexpire"),
        ("HGETEX h EX 10 FIELDS 1 a", "hexpire"),
        ("HGETEX h FIELDS 1 a", ""),
        ("HGETEX h PERSIST FIELDS 1 a", "hpersist"),
        ("HGETEX h PERSIST FIELDS 1 a", ""),
        ("HGETEX h EXAT 1 FIELDS 1 a", "hdel"),
        ("HGETDEL h FIELDS 2 b a", "hdel del"),
        ("HGETDEL h FIELDS 1 b", ""),
    ] {
        replies_to(&mut writer, &[command]);
        assert_eq!(event_names(&mut subscriber), events, "{command}");
    }
}

#[test]
fn a_moved_element_is_added_before_it_is_removed() {
    let (mut writer, mut subscriber) = writer_and_subscriber();
    for (command, events) in [
        ("RPUSH l a b", "rpush"),
        ("LMOVE l m LEFT RIGHT", "rpush lpop"),
        ("RPOPLPUSH l m", "lpush rpop del"),
        ("BLMOVE m l RIGHT LEFT 0", "lpush rpop"),
        ("BRPOPLPUSH m l 0", "lpush rpop del"),
        ("LMOVE l l LEFT RIGHT", "rpush lpop"),
    ] {
        replies_to(&mut writer, &[command]);
        assert_eq!(event_names(&mut subscriber), events, "{command}");
    }
    // The destination had expired.
    replies_to(&mut writer, &["RPUSH old x", "PEXPIRE old 1"]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    event_names(&mut subscriber);
    replies_to(&mut writer, &["LMOVE l old LEFT RIGHT"]);
    assert_eq!(event_names(&mut subscriber), "expired rpush lpop");
    // A client waits for the element.
    let mut waiter = another(&writer);
    replies_to(&mut waiter, &["BLMOVE n l LEFT RIGHT 0"]);
    replies_to(&mut writer, &["RPUSH n a"]);
    assert_eq!(event_names(&mut subscriber), "rpush rpush lpop del");
}

#[test]
fn a_value_that_is_the_name_of_an_option_changes_no_events() {
    let (mut writer, mut subscriber) = writer_and_subscriber();
    for (command, events) in [
        ("SETEX k 10 keepttl", "set expire"),
        ("PSETEX k 10000 keepttl", "set expire"),
        ("SET k keepttl EX 10", "set expire"),
        ("SET k v IFEQ keepttl EX 10", "set expire"),
        ("SET k v IFNE ifeq KEEPTTL", "set"),
        ("MSETEX 1 keepttl keepttl EX 10", "set expire"),
        ("MSETEX 1 keepttl v KEEPTTL", "set"),
    ] {
        replies_to(&mut writer, &[command]);
        assert_eq!(event_names(&mut subscriber), events, "{command}");
    }
}

#[test]
fn a_refused_command_removes_expired_fields_once() {
    for (mut writer, _folder) in in_memory_and_in_a_file() {
        let mut subscriber = another(&writer);
        replies_to(&mut subscriber, &["PSUBSCRIBE __keyevent@0__:hexpired"]);
        replies_to(
            &mut writer,
            &["CONFIG SET notify-keyspace-events EA", "HSET h f 1 g text", "HPEXPIRE h 1 FIELDS 1 f"],
        );
        std::thread::sleep(std::time::Duration::from_millis(5)); // longer than the lifetime
        for hexpired in [1, 0, 0] {
            let refused = replies_to(&mut writer, &["HINCRBY h g 1"]).remove(0);
            assert!(refused.starts_with("-ERR hash value is not an integer"), "{refused}");
            assert_eq!(pushes(&mut subscriber).matches("pmessage").count(), hexpired);
        }
    }
}

#[test]
fn tracked_keys_are_invalidated_once() {
    let mut reader = session(SpaceOptions::default());
    let mut writer = another(&reader);
    let invalid = |key: &str| format!(">2 $10 invalidate *1 ${} {key}", key.len());
    replies_to(&mut reader, &["HELLO 3", "CLIENT TRACKING ON", "GET a", "MGET b c"]);
    replies_to(&mut writer, &["SET a 1", "SET a 2", "INCR b", "SET unread 1"]);
    assert_eq!(pushes(&mut reader), [invalid("a"), invalid("b")].join(" "));
    replies_to(&mut reader, &["MULTI", "GET a", "EXEC", "PFCOUNT h"]);
    replies_to(&mut writer, &["MULTI", "DEL a", "PFADD h 1", "EXEC"]);
    assert_eq!(pushes(&mut reader), [invalid("a"), invalid("h")].join(" "));
    // Also changes by the client itself, unless it opted out.
    replies_to(&mut reader, &["GET a", "SET a 1"]);
    assert_eq!(pushes(&mut reader), invalid("a"));
    replies_to(&mut reader, &["CLIENT TRACKING ON NOLOOP", "GET a", "SET a 1", "GET a"]);
    assert_eq!(pushes(&mut reader), "");
    replies_to(&mut writer, &["FLUSHALL"]);
    assert_eq!(pushes(&mut reader), ">2 $10 invalidate _");
    // Only the command after CACHING YES.
    replies_to(
        &mut reader,
        &["CLIENT TRACKING OFF", "CLIENT TRACKING ON OPTIN", "CLIENT CACHING YES", "GET a", "GET b"],
    );
    replies_to(&mut writer, &["SET a 1", "SET b 1"]);
    assert_eq!(pushes(&mut reader), invalid("a"));
    replies_to(&mut reader, &["RESET", "GET a"]);
    replies_to(&mut writer, &["SET a 1"]);
    assert_eq!(pushes(&mut reader), "");
}

#[test]
fn clients_that_no_longer_track_keys_get_no_messages_and_little_room() {
    let mut reader = session(SpaceOptions::default());
    let mut writer = another(&reader);
    let items = |session: &mut RespSession| {
        let info = replies_to(session, &["INFO stats"]).remove(0);
        let field = info.split("tracking_total_items:").nth(1).unwrap();
        field.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<usize>().unwrap()
    };
    replies_to(&mut reader, &["HELLO 3", "CLIENT TRACKING ON", "GET a"]);
    for mode in ["OFF", "ON BCAST PREFIX b"].repeat(500) {
        let mut other = another(&reader);
        replies_to(&mut other, &["HELLO 3", "CLIENT TRACKING ON", "GET a", "CLIENT TRACKING OFF"]);
        // Its number remains for a while, so that ending it costs little.
        assert!([2, 3].contains(&items(&mut writer)));
        replies_to(&mut other, &[&format!("CLIENT TRACKING {mode}")]);
        replies_to(&mut writer, &["SET a 1"]);
        assert_eq!(pushes(&mut other), "");
        assert_eq!(pushes(&mut reader), ">2 $10 invalidate *1 $1 a");
        replies_to(&mut reader, &["GET a"]);
        other.close();
    }
    for _ in 0..1000 {
        let mut other = another(&reader);
        replies_to(&mut other, &["HELLO 3", "CLIENT TRACKING ON", "GET a"]);
        other.close();
        assert!(items(&mut writer) <= 3);
    }
    replies_to(&mut reader, &["CLIENT TRACKING OFF"]);
    assert_eq!(items(&mut writer), 0);
}

#[test]
fn redirected_invalidations_end_with_their_target() {
    let mut reader = session(SpaceOptions::default());
    let mut target = another(&reader);
    let mut writer = another(&reader);
    replies_to(&mut target, &["SUBSCRIBE __redis__:invalidate"]);
    replies_to(&mut reader, &["HELLO 3", "CLIENT TRACKING ON REDIRECT 2", "GET a", "GET b"]);
    replies_to(&mut writer, &["SET a 1"]);
    assert_eq!(pushes(&mut target), "*3 $7 message $20 __redis__:invalidate *1 $1 a");
    assert_eq!(pushes(&mut reader), "");
    target.close();
    replies_to(&mut writer, &["SET b 1"]);
    assert_eq!(pushes(&mut reader), ">2 $21 tracking-redir-broken :2");
    assert!(replies_to(&mut reader, &["CLIENT TRACKINGINFO"])[0].contains("broken_redirect"));
}

#[test]
fn a_client_that_has_not_given_the_password_may_continue_once_it_is_removed() {
    for remove in ["CONFIG SET requirepass ", "ACL SETUSER default nopass"] {
        let settings = Settings::default();
        settings.set_password(b"secret");
        let mut admin = session_with(SpaceOptions::default(), settings);
        let mut other = another(&admin);
        assert_eq!(replies_to(&mut other, &["SET k 1"]), ["-NOAUTH Authentication required."]);
        assert_eq!(replies_to(&mut admin, &["AUTH secret", remove]), ["+OK", "+OK"]);
        // Its requests may also be long again.
        let mset = format!("MSET{}", " k v".repeat(100));
        assert_eq!(replies_to(&mut other, &[&mset, "GET k", "ACL WHOAMI"]), ["+OK", "$1 v", "$7 default"]);
        // It is a guest until a password is needed again; who has given one stays.
        let mut third = another(&admin);
        assert_eq!(replies_to(&mut admin, &["CONFIG SET requirepass new"]), ["+OK"]);
        assert_eq!(replies_to(&mut other, &["GET k"]), ["-NOAUTH Authentication required."]);
        assert_eq!(replies_to(&mut third, &["GET k"]), ["$1 v"]);
        assert_eq!(replies_to(&mut other, &["AUTH new", "GET k"]), ["+OK", "$1 v"]);
        assert_eq!(replies_to(&mut admin, &["CONFIG SET requirepass other", "GET k"]), ["+OK", "$1 v"]);
        assert_eq!(replies_to(&mut other, &["GET k"]), ["$1 v"]);
    }
}

#[test]
fn a_monitor_sees_commands_but_no_passwords() {
    let mut writer = session(SpaceOptions::default());
    let mut monitor = another(&writer);
    replies_to(&mut writer, &["SET before 1"]);
    assert_eq!(replies_to(&mut monitor, &["MONITOR"]), ["+OK"]);
    replies_to(
        &mut writer,
        &["SET k v", "GET k", "AUTH secret", "HELLO 2 AUTH default secret", "CONFIG SET timeout 5"],
    );
    let shown = pushes(&mut monitor);
    let commands: Vec<&str> = shown.split('+').skip(1).map(|line| line.split_once("] ").unwrap().1.trim()).collect();
    assert_eq!(commands[..3], [r#""SET" "k" "v""#, r#""GET" "k""#, r#""AUTH" "(redacted)""#]);
    assert!(commands.len() == 4 && !shown.contains("secret"));
    // One that does not read is disconnected.
    for _ in 0..40 {
        replies(&mut writer, &request(&[b"ECHO", &vec![b'x'; 1 << 20]]), 1 << 30);
    }
    let (_, flow) = monitor.execute(b"PING\r\n", &mut Vec::new(), Patience::MayWait);
    assert_eq!(flow, Flow::Close);
}

#[test]
fn secret_arguments_are_neither_in_the_slow_log_nor_sent_to_monitors() {
    let mut writer = session(SpaceOptions::default());
    let mut monitor = another(&writer);
    replies_to(&mut monitor, &["CONFIG SET slowlog-log-slower-than 0", "MONITOR"]);
    let migrate = "MIGRATE 127.0.0.1 1 absent 0 100";
    for line in [
        "AUTH secret",
        "auth default secret",
        "HELLO 2 AUTH default secret",
        "ACL SETUSER someone on >secret",
        "CONFIG SET timeout 0 Masterauth secret",
        "CONFIG SET requirepass secret",
        "CONFIG SET requirepass secret requirepass",
        "CONFIG SET requirepass",
        &format!("{migrate} COPY AUTH secret"),
        &format!("{migrate} auth2 secret secret REPLACE"),
        &format!("{migrate} MISTAKE AUTH2 default secret"),
    ] {
        replies_to(&mut writer, &[line]);
    }
    let shown = pushes(&mut monitor);
    assert!(shown.contains(r#""COPY" "AUTH" "(redacted)""#), "{shown}");
    assert!(shown.contains(r#""auth2" "(redacted)" "(redacted)" "REPLACE""#), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
    replies_to(&mut writer, &["AUTH secret"]);
    let slow = replies_to(&mut writer, &["SLOWLOG GET -1"]).remove(0);
    for line in [
        "*2 $4 AUTH $10 (redacted) ",
        "*3 $4 auth $10 (redacted) $10 (redacted) ",
        "*5 $5 HELLO $10 (redacted) $10 (redacted) $10 (redacted) $10 (redacted) ",
        "*5 $3 ACL $7 SETUSER $10 (redacted) $10 (redacted) $10 (redacted) ",
        "*6 $6 CONFIG $3 SET $7 timeout $1 0 $10 Masterauth $10 (redacted) ",
        "*4 $6 CONFIG $3 SET $11 requirepass $10 (redacted) ",
        "*9 $7 MIGRATE $9 127.0.0.1 $1 1 $6 absent $1 0 $3 100 $4 COPY $4 AUTH $10 (redacted) ",
    ] {
        assert!(slow.contains(line), "{line}: {slow}");
    }
    assert!(!slow.contains("secret"), "{slow}");
}

/// The commands of a family, on a large collection `k` of 500 elements that may be damaged, and on other keys.
const HASHES: &str =
    "HGETALL k|HKEYS k|HVALS k|HLEN k|HGET k 7|HMGET k 7 8 x|HSTRLEN k 7|HEXISTS k 7|HSCAN k 0|HSCAN k 0 COUNT 9999|
         HSCAN k 12345678901234567|HRANDFIELD k|HRANDFIELD k 5|HRANDFIELD k -5|HRANDFIELD k 150|HRANDFIELD k 490|
         COPY k copy|HGETALL copy|OBJECT ENCODING k|MEMORY USAGE k|HSET k 7 x new 1|HSETNX k other 1|HINCRBY k n 1|
         HINCRBYFLOAT k m 1|HDEL k 1 2 3 4 5|DUMP k|RENAME k k2|RENAME k2 k";

/// Commands that are run on a hash whose fields have lifetimes.
const FIELD_LIFETIMES: &str =
    "HTTL k FIELDS 3 7 8 x|HPEXPIRETIME k FIELDS 1 8|HEXPIRE k 100 FIELDS 3 7 8 x|HPEXPIRE k 0 FIELDS 2 10 11|
         HEXPIREAT k 9999999999 GT FIELDS 1 12|HPERSIST k FIELDS 2 14 15|HGETEX k EX 100 FIELDS 2 16 17|
         HGETDEL k FIELDS 2 18 19|HSETEX k PX 1 FIELDS 2 20 x 21 y|HSET k 22 x|HINCRBYFLOAT k number 1";

const SETS: &str = "SMEMBERS k|SCARD k|SISMEMBER k 7|SMISMEMBER k 7 x|SRANDMEMBER k|SRANDMEMBER k 5|SRANDMEMBER k -5|
         SRANDMEMBER k 150|SRANDMEMBER k 490|SSCAN k 0|SSCAN k 0 COUNT 9999|SINTER k k|SINTER small k|SUNION k small|
         SDIFF k small|SDIFF small k|SINTERSTORE to k k|SUNIONSTORE to k small|SDIFFSTORE to k small|SINTERCARD 1 k|
         COPY k copy|OBJECT ENCODING k|MEMORY USAGE k|SADD k x y|SMOVE k small 7|SREM k 1 2 3 4 5|SPOP k|SPOP k 10|
         SPOP k 350|SPOP k 100000";

const LISTS: &str = "LRANGE k 0 -1|LRANGE k 5 10|LRANGE k -5 -1|LINDEX k 0|LINDEX k 250|LINDEX k -1|LLEN k|LPOS k x|
         LPOS k x RANK -1|LPOS k 7 COUNT 0|COPY k copy|OBJECT ENCODING k|MEMORY USAGE k|LPUSH k x|RPUSH k x|LPUSHX k x|
         LSET k 0 y|LSET k -1 y|LSET k 200 y|LINSERT k BEFORE 7 z|LINSERT k AFTER 490 z|LREM k 0 8|LREM k -1 9|LPOP k|
         RPOP k|LPOP k 100|RPOP k 100|LMOVE k other LEFT RIGHT|LMOVE k k LEFT RIGHT|RPOPLPUSH k k|
         LMPOP 1 k RIGHT COUNT 3|BLPOP k 0|BLMPOP 0 1 k LEFT COUNT 2|LTRIM k 1 -2|LTRIM k 50 -1|LPOP k 100000";

const STREAMS: &str =
    "XLEN k|XRANGE k - +|XREVRANGE k + -|XRANGE k 7 100|XREVRANGE k 400 300 COUNT 5|XREAD STREAMS k 0|
         XREAD COUNT 3 STREAMS k 490|XINFO STREAM k|XINFO STREAM k FULL COUNT 0|XINFO GROUPS k|XINFO CONSUMERS k g|
         XPENDING k g|XPENDING k g - + 1000|XPENDING k g - + 10 c|OBJECT ENCODING k|MEMORY USAGE k|COPY k copy|
         XRANGE copy - +|XADD k 600-0 a b|XADD k MAXLEN 450 601-0 a b|XDEL k 7-0 450-0 499-0 600-0|XSETID k 700-0|
         XREADGROUP GROUP g c COUNT 200 STREAMS k >|XREADGROUP GROUP g d STREAMS k >|XREADGROUP GROUP g c STREAMS k 0|
         XACK k g 60-0 61-0 300-0|XCLAIM k g d 0 62-0 63-0 1-0 FORCE|XAUTOCLAIM k g e 0 0 COUNT 50|
         XGROUP CREATE k h 0|XGROUP SETID k g 0|XGROUP CREATECONSUMER k g f|XGROUP DELCONSUMER k g c|XTRIM k MINID 100|
         XTRIM k MAXLEN ~ 200|XGROUP DESTROY k g|DUMP k|RENAME k k2|RENAME k2 k|XTRIM k MAXLEN 0|XADD k 800-0 a b";

/// A table file in which `k` is a large collection.
fn file_with_collection(folder: &std::path::Path, family: &str) -> std::path::PathBuf {
    let file = folder.join(family);
    let mut session = session(SpaceOptions { file: Some(file.clone()), ..SpaceOptions::default() });
    let words = |n: usize| match family {
        "hash" => format!("HSET k {n} value{n}"),
        "hash with lifetimes" if n.is_multiple_of(2) => format!("HSETEX k EX 10000{n} FIELDS 1 {n} value{n}"),
        "hash with lifetimes" => format!("HSET k {n} value{n}"),
        "set" => format!("SADD k {n}"),
        "stream" if n == 0 => "XGROUP CREATE k g 0 MKSTREAM".into(),
        "stream" if n.is_multiple_of(100) => format!("XREADGROUP GROUP g c{n} STREAMS k >"),
        "stream" => format!("XADD k {n}-0 field value{n}"),
        _ => format!("RPUSH k {n}"),
    };
    let all: String = (0..500).map(|n| words(n) + "\r\n").chain(["SADD small 7 x\r\n".into()]).collect();
    let replies = replies(&mut session, all.as_bytes(), usize::MAX);
    assert!(!replies.windows(2).any(|bytes| bytes == b"\n-"));
    drop(session);
    file
}

/// Opens the file at `path` after `damage`, and sends all commands of a family: each has one complete reply, and the
/// key can be removed.
fn answers_all(path: &std::path::Path, commands: &str, what: &str, damage: impl Fn(&splitpoint::Table)) {
    use redis_protocol::resp2::{decode::decode, types::OwnedFrame};
    let table = splitpoint::Table::open(path).unwrap();
    damage(&table);
    table.close().unwrap();
    let mut session = session(SpaceOptions { file: Some(path.into()), ..SpaceOptions::default() });
    for line in commands.split('|').map(str::trim) {
        // Within a transaction too, where nothing is stored before its end.
        for input in [format!("{line}\r\n"), format!("MULTI\r\n{line}\r\nDISCARD\r\n")] {
            let reply = replies(&mut session, input.as_bytes(), usize::MAX);
            let (mut at, mut frames) = (0, 0);
            while at < reply.len() {
                let decoded = decode(&reply[at..]).unwrap();
                let Some((frame, length)) = decoded else { panic!("{what}: {line}: the reply is cut") };
                assert!(!matches!(frame, OwnedFrame::Null) || !line.starts_with("B"), "{what}: {line}");
                (at, frames) = (at + length, frames + 1);
            }
            assert!(frames == input.lines().count() || line.starts_with('B'), "{what}: {line}: {frames} replies");
        }
    }
    replies(&mut session, b"DEL k\r\n", usize::MAX);
    assert_eq!(replies(&mut session, b"EXISTS k\r\nSADD k 1\r\n", usize::MAX), b":0\r\n:1\r\n", "{what}");
}

/// Damages a file with such a collection in many ways, and sends the commands.
fn answers_when_damaged(family: &str, commands: &str) {
    const NUMBERS: [u64; 9] = [0, 1, 200, 2000, 1 << 31, 1 << 60, (1 << 62) - 1, 1 << 63, u64::MAX];
    let folder = tempfile::tempdir().unwrap();
    let original = file_with_collection(folder.path(), family);
    let path = folder.path().join("damaged");
    let try_with = |what: &str, damage: &dyn Fn(&splitpoint::Table)| {
        std::fs::copy(&original, &path).unwrap();
        answers_all(&path, commands, &format!("{family}: {what}"), damage);
    };
    let set = |table: &splitpoint::Table, numbers: &[(usize, u64)]| {
        let mut value = table.get(b"k").unwrap().unwrap();
        for (place, number) in numbers {
            let at = value.len() - 40 + 8 * place;
            value[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        table.put(b"k", &value).unwrap();
    };
    try_with("nothing", &|_| {});
    for number in NUMBERS {
        for place in 0..5 {
            try_with(&format!("number {place} is {number}"), &|table| set(table, &[(place, number)]));
        }
        let half = number / 2;
        try_with(&format!("all are {number}"), &|table| {
            set(table, &[(1, number), (2, number), (3, number), (4, number)]);
        });
        // The maximum that it may claim.
        try_with(&format!("consistently {number}"), &|table| match family {
            "list" => set(table, &[(2, half), (4, number)]),
            _ => set(table, &[(2, half), (3, number), (4, number)]),
        });
    }
    let segments = |table: &splitpoint::Table| -> Vec<Vec<u8>> {
        let keys = table.scan().map(|pair| pair.unwrap().0);
        let mut keys: Vec<_> = keys.filter(|key| key.starts_with(b"\0sp\xffs")).collect();
        keys.sort(); // a scan goes by hash, which differs from file to file
        keys
    };
    for step in [1, 2] {
        try_with(&format!("one of {step} segments is missing"), &|table| {
            segments(table).iter().step_by(step).for_each(|key| assert!(table.remove(key).unwrap()));
        });
    }
    for number in NUMBERS {
        try_with(&format!("the counts are {number}"), &|table| {
            let counts = [number, number, number / 2, number].map(u64::to_le_bytes).concat();
            table.put(b"\0sp\xffm", &counts).unwrap();
        });
    }
    for content in [&b""[..], b"\xff\xff\xff\xff\x7f", b"\x01", b"\x05short", &[0; 100_000], b"\x01a\x01b"] {
        let len = content.len();
        try_with(&format!("segments of {len} bytes"), &|table| {
            segments(table).iter().for_each(|key| table.put(key, content).unwrap());
        });
        for flags in [0, 1, 4, 5] {
            try_with(&format!("a value of {len} bytes and the flags {flags}"), &|table| {
                let value = table.get(b"k").unwrap().unwrap();
                let head = &value[..value.len() - 41];
                table.put(b"k", &[head, &[flags], content].concat()).unwrap();
            });
        }
    }
    try_with("cut segments", &|table| {
        for key in segments(table) {
            let value = table.get(&key).unwrap().unwrap();
            table.put(&key, &value[..value.len() - 1]).unwrap();
        }
    });
    try_with("segments in each other's place", &|table| {
        let keys = segments(table);
        let values: Vec<_> = keys.iter().map(|key| table.get(key).unwrap().unwrap()).collect();
        (0..keys.len()).for_each(|n| table.put(&keys[n], &values[(n + 1) % keys.len()]).unwrap());
    });
    try_with("one number for two", &|table| {
        let value = table.get(b"k").unwrap().unwrap();
        ["other", "copy", "k2", "to"].iter().for_each(|key| table.put(key.as_bytes(), &value).unwrap());
    });
}

#[test]
fn a_damaged_hash_is_an_error_in_every_command() {
    answers_when_damaged("hash", HASHES);
}

#[test]
fn a_damaged_hash_with_lifetimes_is_an_error_in_every_command() {
    answers_when_damaged("hash with lifetimes", &format!("{FIELD_LIFETIMES}|{HASHES}"));
}

#[test]
fn a_damaged_set_is_an_error_in_every_command() {
    answers_when_damaged("set", SETS);
}

#[test]
fn a_damaged_list_is_an_error_in_every_command() {
    answers_when_damaged("list", LISTS);
}

#[test]
fn a_damaged_stream_is_an_error_in_every_command() {
    const NUMBERS: usize = 14;
    const HEAD_BYTES: usize = 9; // the mark, the tag, the kind, the flags
    let folder = tempfile::tempdir().unwrap();
    let original = file_with_collection(folder.path(), "stream");
    let path = folder.path().join("damaged");
    let try_with = |what: &str, damage: &dyn Fn(&splitpoint::Table)| {
        std::fs::copy(&original, &path).unwrap();
        answers_all(&path, STREAMS, &format!("stream: {what}"), damage);
    };
    let change = |table: &splitpoint::Table, change: &dyn Fn(&mut Vec<u8>)| {
        let mut value = table.get(b"k").unwrap().unwrap();
        change(&mut value);
        table.put(b"k", &value).unwrap();
    };
    let segments = |table: &splitpoint::Table| -> Vec<Vec<u8>> {
        let keys = table.scan().map(|pair| pair.unwrap().0);
        let mut keys: Vec<_> = keys.filter(|key| key.starts_with(b"\0sp\xffs")).collect();
        keys.sort(); // a scan goes by hash, which differs from file to file
        keys
    };
    try_with("nothing", &|_| {});
    for number in [0, 1, 200, 2000, 1 << 31, 1 << 60, (1 << 63) - 1, 1 << 63, u64::MAX] {
        for place in 0..NUMBERS {
            try_with(&format!("number {place} is {number}"), &|table| {
                change(table, &|value| {
                    value[HEAD_BYTES + 8 * place..][..8].copy_from_slice(&u64::to_le_bytes(number));
                });
            });
        }
    }
    for len in [HEAD_BYTES, HEAD_BYTES + 8, HEAD_BYTES + 8 * NUMBERS, HEAD_BYTES + 8 * NUMBERS + 5] {
        try_with(&format!("cut to {len} bytes"), &|table| change(table, &|value| value.truncate(len)));
    }
    for tail in [&b"x"[..], &[0; 2000], &[1, 5], b"\x11\x05aaaaaaaabbbbbbbb"] {
        try_with(&format!("newest entries of {} bytes", tail.len()), &|table| {
            change(table, &|value| {
                value.truncate(HEAD_BYTES + 8 * NUMBERS);
                value.extend_from_slice(tail);
            });
        });
    }
    for step in [1, 2, 5] {
        try_with(&format!("one of {step} segments is missing"), &|table| {
            segments(table).iter().step_by(step).for_each(|key| assert!(table.remove(key).unwrap()));
        });
        // The IDs of a node's first entries among them.
        for byte in 0..40 {
            try_with(&format!("one of {step} segments has another byte, from {byte} on"), &|table| {
                for (number, key) in segments(table).iter().enumerate().step_by(step) {
                    let mut value = table.get(key).unwrap().unwrap();
                    let at = (number * 37 + byte) % value.len();
                    value[at] ^= 0x15;
                    table.put(key, &value).unwrap();
                }
            });
        }
    }
    for tag in 0..=6u8 {
        try_with(&format!("records of kind {tag}"), &|table| {
            for key in segments(table) {
                let mut value = table.get(&key).unwrap().unwrap();
                // After the score and the length of a leaf's first record.
                if value[0] == 0 && value.len() > 10 {
                    value[10] = tag;
                    table.put(&key, &value).unwrap();
                }
            }
        });
    }
    try_with("segments in each other's place", &|table| {
        let keys = segments(table);
        let values: Vec<_> = keys.iter().map(|key| table.get(key).unwrap().unwrap()).collect();
        (0..keys.len()).for_each(|n| table.put(&keys[n], &values[(n + 1) % keys.len()]).unwrap());
    });
    try_with("one number for two", &|table| {
        let value = table.get(b"k").unwrap().unwrap();
        ["copy", "k2"].iter().for_each(|key| table.put(key.as_bytes(), &value).unwrap());
    });
}

/// Redis 7.0.15 trims these to the same lengths.
#[test]
fn trimming_a_stream_to_about_a_length_removes_hundreds_of_short_entries() {
    let mut session = session(SpaceOptions::default());
    let all: String = (1..=355).map(|n| format!("XADD s {n}-0 f v\r\n")).collect();
    replies(&mut session, all.as_bytes(), usize::MAX);
    for (command, removed) in [
        ("MAXLEN ~ 300", 0),
        ("MAXLEN ~ 200 LIMIT 99", 0),
        ("MAXLEN ~ 200", 100),
        ("MINID ~ 200-0", 0),
        ("MINID ~ 301-0", 200),
        ("MAXLEN ~ 50", 0),
        ("MAXLEN 45", 10),
        ("MAXLEN ~ 20", 0),
        ("MAXLEN ~ 0 LIMIT 44", 0),
        ("MAXLEN ~ 0", 45),
    ] {
        let reply = replies(&mut session, format!("XTRIM s {command}\r\n").as_bytes(), usize::MAX);
        assert_eq!(String::from_utf8_lossy(&reply), format!(":{removed}\r\n"), "{command}");
    }
}

#[test]
fn a_count_of_deliveries_beyond_the_greatest_number_is_negative_as_in_redis() {
    let mut session = session(SpaceOptions::default());
    let commands = "XGROUP CREATE s g 0 MKSTREAM\r\nXADD s 1-0 a b\r\nXREADGROUP GROUP g c STREAMS s >\r\n\
        XCLAIM s g c 0 1-0 RETRYCOUNT 9223372036854775807\r\nXREADGROUP GROUP g c STREAMS s 0\r\n";
    replies(&mut session, commands.as_bytes(), usize::MAX);
    let pending = replies(&mut session, b"XPENDING s g - + 1\r\n", usize::MAX);
    assert!(pending.ends_with(b":-9223372036854775808\r\n"), "{}", String::from_utf8_lossy(&pending));
}

#[test]
fn long_values_are_copied_by_a_thread_that_may_wait() {
    let mut session = session(SpaceOptions::default());
    let long = vec![b'x'; 1 << 20];
    let [set, set_short] = [request(&[b"SET", b"long", &long]), request(&[b"SET", b"short", b"1"])];
    let [get, get_short] = [request(&[b"GET", b"long"]), request(&[b"GET", b"short"])];
    let both = request(&[b"MGET", b"short", b"long"]);
    let mut on_loop = |input: &[u8]| {
        let mut out = Vec::new();
        let (used, flow) = session.execute(input, &mut out, Patience::EventLoop);
        if flow == Flow::Wait {
            let rest = replies(&mut session, &input[used..], input.len());
            return (out, rest);
        }
        assert_eq!(used, input.len());
        (out, Vec::new())
    };
    assert_eq!(on_loop(&set_short), (b"+OK\r\n".to_vec(), Vec::new()));
    assert_eq!(on_loop(&set), (Vec::new(), b"+OK\r\n".to_vec()));
    let bulk = [b"$1048576\r\n".as_slice(), &long, b"\r\n"].concat();
    assert_eq!(on_loop(&get), (Vec::new(), bulk.clone()));
    let short = b"$1\r\n1\r\n".as_slice();
    // The preceding commands are answered immediately.
    let input = [&*get_short, &get_short, &get, &get_short].concat();
    assert_eq!(on_loop(&input), ([short, short].concat(), [&bulk, short].concat()));
    assert_eq!(on_loop(&both), (Vec::new(), [b"*2\r\n", short, &bulk].concat()));
    assert_eq!(on_loop(&[&*set_short, &set].concat()), (b"+OK\r\n".to_vec(), b"+OK\r\n".to_vec()));
    assert_eq!(on_loop(&request(&[b"STRLEN", b"long"])), (b":1048576\r\n".to_vec(), Vec::new()));
    // One that grew.
    let (_, rest) = on_loop(&request(&[b"SETRANGE", b"grown", b"1048575", b"x"]));
    assert_eq!(rest, b":1048576\r\n");
    assert!(on_loop(&request(&[b"GET", b"grown"])).0.is_empty());
}

#[test]
fn a_transaction_with_a_long_command_is_executed_by_a_thread_that_may_wait() {
    let mut session = session(SpaceOptions::default());
    for (line, is_long) in [
        ("EVAL return(1) 0", true),
        ("KEYS *", true),
        ("FLUSHALL", true),
        ("CLIENT TRACKING OFF", true),
        ("CONFIG SET maxmemory 0", true),
        ("CONFIG GET maxmemory", false),
        ("SET k v", false),
    ] {
        // A queue that was discarded has no effect on the next.
        let queued = replies_to(&mut session, &["MULTI", "KEYS *", "DISCARD", "MULTI", "GET k", line, "GET k"]);
        assert_eq!(queued[4..], ["+QUEUED"; 3], "{line}");
        let (exec, mut out) = (request(&[b"EXEC"]), Vec::new());
        let (used, flow) = session.execute(&exec, &mut out, Patience::EventLoop);
        assert_eq!((flow == Flow::Wait, used == 0), (is_long, is_long), "{line}");
        if is_long {
            assert!(out.is_empty());
            out = replies(&mut session, &exec, exec.len());
        }
        assert!(out.starts_with(b"*3\r\n"), "{line}: {}", text(&out));
    }
}

/// What Redis 7.0.15 answers.
#[test]
fn numbers_at_the_borders_are_answered_as_in_redis() {
    let mut session = session(SpaceOptions::default());
    let lines = [
        ("SET k v", "+OK"),
        ("PEXPIREAT k 9223372036854775807", ":1"),
        ("PEXPIRETIME k", ":9223372036854775807"),
        ("EXPIRETIME k", ":9223372036854776"),
        ("PEXPIREAT k 9223372036854775499", ":1"),
        ("EXPIRETIME k", ":9223372036854775"),
        ("PEXPIREAT k 4102444800500", ":1"),
        ("EXPIRETIME k", ":4102444801"),
        ("RPUSH l a b a c a", ":5"),
        ("LPOS l a RANK -9223372036854775808", ":4"),
        ("LPOS l a RANK -9223372036854775808 COUNT 1", "*3 :4 :2 :0"),
        ("LPOS l a RANK -9223372036854775807", "$-1"),
        ("LPOS l a RANK 9223372036854775807", "$-1"),
        ("LREM l -9223372036854775808 a", ":3"),
        ("LRANGE l 0 -1", "*2 $1 b $1 c"),
    ];
    let commands: Vec<&str> = lines.iter().map(|(command, _)| *command).collect();
    for ((command, expected), reply) in lines.iter().zip(replies_to(&mut session, &commands)) {
        assert_eq!(reply, *expected, "{command}");
    }
    let ttl = replies_to(&mut session, &["PEXPIREAT k 9223372036854775807", "TTL k"]).remove(1);
    assert!(ttl.trim_start_matches(':').parse::<u64>().unwrap() > 9_223_000_000_000_000, "{ttl}");
    assert!(replies_to(&mut session, &["INFO cpu"])[0].contains("# CPU "));
}

#[test]
fn numbers_that_were_stored_can_be_added_to() {
    for (mut session, _folder) in in_memory_and_in_a_file() {
        for line in ["INCRBYFLOAT k 1e300", "INCRBYFLOAT k 1", "HINCRBYFLOAT h f -1e300", "HINCRBYFLOAT h f 1"] {
            let answer = replies_to(&mut session, &[line]).remove(0);
            assert!(answer.starts_with("$301 ") || answer.starts_with("$302 -"), "{line}: {answer}");
        }
    }
}

#[test]
fn a_restored_key_expires_at_a_time_that_every_command_can_state() {
    let mut session = session(SpaceOptions::default());
    replies_to(&mut session, &["SET k v"]);
    let dump = replies(&mut session, &request(&[b"DUMP", b"k"]), usize::MAX);
    let payload = &dump[dump.iter().position(|&byte| byte == b'\n').unwrap() + 1..dump.len() - 2];
    let mut restore = |ttl: &str, option: &str| {
        let words = [&b"RESTORE"[..], b"k", ttl.as_bytes(), payload, b"REPLACE", option.as_bytes()];
        let words = &words[..if option.is_empty() { 5 } else { 6 }];
        let restored = text_of(&mut session, &[words]).trim().to_owned();
        [vec![restored], replies_to(&mut session, &["PEXPIRETIME k"])].concat()
    };
    let refused = "-ERR invalid expire time in 'restore' command";
    assert_eq!(restore("9223372036854775807", ""), [refused, ":-1"]);
    assert_eq!(restore("-1", ""), ["-ERR Invalid TTL value, must be >= 0", ":-1"]);
    assert_eq!(restore("9223372036854775807", "ABSTTL"), ["+OK", ":9223372036854775807"]);
    assert_eq!(restore("0", ""), ["+OK", ":-1"]);
}

#[test]
fn a_transaction_longer_than_a_request_is_refused_where_it_is_too_long() {
    let mut session = session(SpaceOptions::default());
    let long = "x".repeat(600 << 10);
    let lines = ["CONFIG SET client-query-buffer-limit 1048576", "MULTI"];
    assert_eq!(replies_to(&mut session, &lines), ["+OK", "+OK"]);
    let set = format!("SET k {long}");
    let replies = replies_to(&mut session, &[&set, &set, "GET k", "EXEC", "EXISTS k"]);
    assert_eq!(replies[0], "+QUEUED");
    assert!(replies[1].starts_with("-ERR the transaction is longer than 1048576 bytes"), "{}", replies[1]);
    assert_eq!(replies[2], "+QUEUED");
    assert!(replies[3].starts_with("-EXECABORT"), "{}", replies[3]);
    assert_eq!(replies[4], ":0");
}

#[test]
fn a_command_that_memory_does_not_suffice_for_is_not_queued() {
    let mut session = session(SpaceOptions::default());
    assert_eq!(text_of(&mut session, &[&[b"MULTI"], &[b"SET", b"k", b"1"]]), "+OK\r\n+QUEUED\r\n");
    let mut other = another(&session);
    assert_eq!(text_of(&mut other, &[&[b"CONFIG", b"SET", b"maxmemory", b"1"]]), "+OK\r\n");
    assert!(text_of(&mut session, &[&[b"SET", b"k", b"2"]]).starts_with("-OOM "));
    assert!(text_of(&mut session, &[&[b"GET", b"k"]]).starts_with("-OOM "));
    assert_eq!(text_of(&mut other, &[&[b"CONFIG", b"SET", b"maxmemory", b"0"]]), "+OK\r\n");
    assert!(text_of(&mut session, &[&[b"EXEC"]]).starts_with("-EXECABORT "));
    assert_eq!(text_of(&mut session, &[&[b"EXISTS", b"k"]]), ":0\r\n");
    // Nor is EXEC executed.
    assert_eq!(text_of(&mut session, &[&[b"MULTI"], &[b"SET", b"k", b"1"]]), "+OK\r\n+QUEUED\r\n");
    text_of(&mut other, &[&[b"CONFIG", b"SET", b"maxmemory", b"1"]]);
    assert!(text_of(&mut session, &[&[b"EXEC"]]).starts_with("-EXECABORT Transaction discarded because of: OOM "));
    text_of(&mut other, &[&[b"CONFIG", b"SET", b"maxmemory", b"0"]]);
    assert_eq!(text_of(&mut session, &[&[b"EXISTS", b"k"]]), ":0\r\n");
    // DISCARD needs no permission.
    text_of(&mut session, &[&[b"MULTI"]]);
    text_of(&mut other, &[&[b"CONFIG", b"SET", b"maxmemory", b"1"]]);
    assert!(text_of(&mut session, &[&[b"SET", b"k", b"2"], &[b"DISCARD"]]).ends_with("\r\n+OK\r\n"));
}

#[test]
fn a_move_that_may_wait_is_refused_at_the_memory_limit() {
    let mut session = session(SpaceOptions::default());
    assert_eq!(replies_to(&mut session, &["RPUSH a 1", "CONFIG SET maxmemory 1"]), [":1", "+OK"]);
    for command in ["BLMOVE a b LEFT RIGHT 0", "BRPOPLPUSH a b 0", "BLMOVE absent b LEFT RIGHT 0"] {
        let replies = replies_to(&mut session, &[command]);
        assert!(replies[0].starts_with("-OOM "), "{command}: {replies:?}");
    }
    assert_eq!(replies_to(&mut session, &["BLPOP a 0", "EXISTS b"]), ["*2 $1 a $1 1", ":0"]);
}

#[test]
fn subscriptions_are_confirmed_whichever_replies_a_client_wants() {
    for hello in [&b"2"[..], b"3"] {
        let mut session = session(SpaceOptions::default());
        text_of(&mut session, &[&[b"HELLO", hello], &[b"CLIENT", b"REPLY", b"OFF"]]);
        assert_eq!(text_of(&mut session, &[&[b"PING"]]), "");
        let confirmed = text_of(&mut session, &[&[b"SUBSCRIBE", b"a"], &[b"PSUBSCRIBE", b"b*"]]);
        assert!(confirmed.contains("\r\nsubscribe\r\n") && confirmed.contains("\r\npsubscribe\r\n"), "{confirmed}");
        let confirmed = text_of(&mut session, &[&[b"UNSUBSCRIBE"], &[b"PUNSUBSCRIBE"], &[b"SUBSCRIBE"]]);
        assert!(confirmed.contains("\r\nunsubscribe\r\n") && confirmed.contains("\r\npunsubscribe\r\n"), "{confirmed}");
        assert!(!confirmed.contains('-'), "{confirmed}");
    }
}

#[test]
fn a_client_that_was_killed_is_not_listed() {
    let mut session = session(SpaceOptions::default());
    let mut other = another(&session);
    text_of(&mut other, &[&[b"CLIENT", b"SETNAME", b"victim"]]);
    assert!(text_of(&mut session, &[&[b"CLIENT", b"LIST"]]).contains("name=victim"));
    assert_eq!(text_of(&mut session, &[&[b"CLIENT", b"KILL", b"another"]]), "+OK\r\n");
    assert!(!text_of(&mut session, &[&[b"CLIENT", b"LIST"]]).contains("name=victim"));
    assert!(text_of(&mut session, &[&[b"CLIENT", b"KILL", b"another"]]).starts_with("-ERR No such client"));
}

/// What Redis 7.0.15 answers.
const SORT: &[(&str, &str)] = &[
    ("RPUSH l 3 1 2 10", ":4"),
    ("SORT l", "*4 $1 1 $1 2 $1 3 $2 10"),
    ("SORT l DESC LIMIT 1 2", "*2 $1 3 $1 2"),
    ("SORT l ALPHA", "*4 $1 1 $2 10 $1 2 $1 3"),
    ("SET w_1 30", "+OK"),
    ("SET w_2 20", "+OK"),
    ("SET w_3 10", "+OK"),
    ("SORT l BY w_* GET # GET w_*", "*8 $2 10 $-1 $1 3 $2 10 $1 2 $2 20 $1 1 $2 30"),
    ("HSET h_1 f one", ":1"),
    ("SORT l BY nosort GET h_*->f", "*4 $-1 $3 one $-1 $-1"),
    ("SORT l LIMIT -5 2", "*2 $1 1 $1 2"),
    ("SORT l LIMIT 9 2", "*0"),
    ("SORT l BY w_* STORE sorted", ":4"),
    ("LRANGE sorted 0 -1", "*4 $2 10 $1 3 $1 2 $1 1"),
    ("SORT absent STORE sorted", ":0"),
    ("EXISTS sorted", ":0"),
    ("SADD s b a c", ":3"),
    ("SORT s", "-ERR One or more scores can\\'t be converted into double"),
    ("SORT s ALPHA DESC", "*3 $1 c $1 b $1 a"),
    ("SORT s BY nosort STORE sorted", ":3"),
    ("LRANGE sorted 0 -1", "*3 $1 a $1 b $1 c"),
    ("ZADD z 3 a 2 b 1 c", ":3"),
    ("SORT z BY nosort DESC", "*3 $1 a $1 b $1 c"),
    ("SORT_RO l STORE x", "-ERR syntax error"),
    ("SORT_RO l", "*4 $1 1 $1 2 $1 3 $2 10"),
    ("SORT w_1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ("SORT l LIMIT 1 x", "-ERR value is not an integer or out of range"),
    ("SORT l BY", "-ERR syntax error"),
];
/// What Redis 7.0.15 answers.
const GEO: &[(&str, &str)] = &[
    ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
    ("GEOADD g NX 13.5 38 Palermo", ":0"),
    ("GEOADD g CH 13.361389 38.115557 Palermo", ":0"),
    ("GEOADD g XX NX 1 1 a", "-ERR syntax error"),
    ("GEOADD g 181 1 a", "-ERR invalid longitude,latitude pair 181.000000,1.000000"),
    ("GEOADD g 1 1 a 2", "-ERR syntax error"),
    ("GEODIST g Palermo Catania", "$11 166274.1516"),
    ("GEODIST g Palermo Catania km", "$8 166.2742"),
    ("GEODIST g Palermo absent", "$-1"),
    ("GEODIST g Palermo Catania x", "-ERR unsupported unit provided. please use M, KM, FT, MI"),
    ("GEOHASH g Palermo absent", "*2 $11 sqc8b49rny0 $-1"),
    ("GEOPOS g Catania absent", "*2 *2 $20 15.08726745843887329 $20 37.50266842333162032 *-1"),
    ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC", "*2 $7 Catania $7 Palermo"),
    (
        "GEOSEARCH g FROMMEMBER Catania BYBOX 400 400 km WITHDIST WITHHASH WITHCOORD DESC",
        "*2 *4 $7 Palermo $8 166.2742 :3479099956230698 \
         *2 $20 13.36138933897018433 $20 38.11555639549629859 \
         *4 $7 Catania $6 0.0000 :3479447370796909 *2 $20 15.08726745843887329 $20 37.50266842333162032",
    ),
    ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km COUNT 1", "*1 $7 Catania"),
    ("GEOSEARCH g FROMMEMBER absent BYRADIUS 1 m", "-ERR could not decode requested zset member"),
    (
        "GEOSEARCH g BYRADIUS 200 km ASC COUNT 1",
        "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH",
    ),
    ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS -1 km", "-ERR radius cannot be negative"),
    ("GEOSEARCH absent FROMMEMBER a BYRADIUS 1 m", "*0"),
    ("GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST", ":2"),
    ("ZRANGE d 0 -1 WITHSCORES", "*4 $7 Catania $18 56.441257870158204 $7 Palermo $18 190.44242984775784"),
    ("GEORADIUS g 15 37 200 km WITHDIST ASC", "*2 *2 $7 Catania $7 56.4413 *2 $7 Palermo $8 190.4424"),
    ("GEORADIUS g 15 37 100 km STORE d", ":1"),
    ("ZCARD d", ":1"),
    ("GEORADIUS_RO g 15 37 100 km STORE d", "-ERR syntax error"),
    ("GEORADIUSBYMEMBER g Palermo 100 km", "*1 $7 Palermo"),
    ("GEORADIUSBYMEMBER g Palermo 1 m STOREDIST d", ":1"),
    ("ZSCORE d Palermo", "$1 0"),
    (
        "GEORADIUSBYMEMBER g Palermo 1 m WITHDIST STORE d",
        "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
    ),
    ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ANY", "-ERR the ANY argument requires COUNT argument"),
];
/// What Redis 7.0.15 answers.
const SERVER: &[(&str, &str)] = &[
    ("FUNCTION LIST", "*0"),
    (
        "FUNCTION STATS",
        "*4 $14 running_script $-1 $7 engines *2 $3 LUA *4 $15 libraries_count :0 $15 functions_count :0",
    ),
    ("FUNCTION FLUSH", "+OK"),
    ("FUNCTION DUMP", "$10 \\n\\x00]\\x9b\\\\@\\x0f\\x7f\\xa2\\xda"),
    ("FUNCTION DELETE x", "-ERR Library not found"),
    ("FCALL f 0", "-ERR Function not found"),
    ("MODULE LIST", "*0"),
    ("MEMORY PURGE", "+OK"),
    ("SET k zero", "+OK"),
    ("SWAPDB 0 1", "+OK"),
    ("EXISTS k", ":0"),
    ("SELECT 1", "+OK"),
    ("GET k", "$4 zero"),
    ("SWAPDB 0 x", "-ERR invalid second DB index"),
    ("SWAPDB 0 99", "-ERR DB index is out of range"),
    ("CONFIG SET save", "-ERR wrong number of arguments for \\'config|set\\' command"),
    ("COMMAND GETKEYSANDFLAGS SORT a STORE b", "*2 *2 $1 a *2 +RO +access *2 $1 b *2 +OW +update"),
    ("COMMAND LIST FILTERBY ACLCAT nothing", "*0"),
    ("COMMAND GETKEYS SORT a BY b GET c STORE d", "*2 $1 a $1 d"),
    ("COMMAND GETKEYS ZUNION 9223372036854775807 a", "-ERR Invalid arguments specified for command"),
    ("COMMAND GETKEYS ZUNION 0 a", "-ERR Invalid arguments specified for command"),
    ("COMMAND GETKEYS LMPOP 9223372036854775807 a LEFT", "-ERR Invalid arguments specified for command"),
    ("COMMAND GETKEYSANDFLAGS BZMPOP 0 -9223372036854775808 a MIN", "-ERR Invalid arguments specified for command"),
    ("COMMAND GETKEYS ZUNIONSTORE d 2 a", "-ERR Invalid arguments specified for command"),
    ("COMMAND GETKEYS ZUNIONSTORE d 1 a", "*2 $1 d $1 a"),
    ("COMMAND GETKEYS XREAD STREAMS a b c", "*1 $1 a"),
    ("COMMAND GETKEYS XREAD BLOCK 0 STREAMS a", "-ERR Invalid arguments specified for command"),
    ("COMMAND GETKEYS EVAL s 0", "*0"),
    ("COMMAND GETKEYS FCALL f 5 a", "*0"),
];

#[test]
fn command_list_has_the_subcommands() {
    let mut session = session(SpaceOptions::default());
    let listed = text_of(&mut session, &[&[b"COMMAND", b"LIST"]]);
    assert!(listed.contains("client|list") && listed.contains("xgroup|create"), "{listed}");
    let filtered = text_of(&mut session, &[&[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", b"*"]]);
    assert_eq!(listed, filtered);
}

#[test]
fn sorting_positions_and_commands_about_the_server_are_as_in_redis() {
    for in_file in [false, true] {
        for lines in [SORT, GEO, SERVER] {
            let folder = tempfile::tempdir().unwrap();
            let file = in_file.then(|| folder.path().join("t.spt"));
            let mut session = session(SpaceOptions { file, ..SpaceOptions::default() });
            let commands: Vec<&str> = lines.iter().map(|(command, _)| *command).collect();
            for ((command, expected), reply) in lines.iter().zip(replies_to(&mut session, &commands)) {
                assert_eq!(reply, *expected, "{command}");
            }
        }
    }
}

#[test]
fn over_a_file_databases_are_not_swapped_among_other_changes() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(SpaceOptions { file: Some(folder.path().join("t.spt")), ..SpaceOptions::default() });
    let replies = replies_to(&mut session, &["SET k zero", "MULTI", "SET k other", "SWAPDB 0 1", "EXEC", "GET k"]);
    assert!(replies[4].starts_with("*2 +OK -ERR SWAPDB over a file cannot"), "{replies:?}");
    assert_eq!(replies[5], "$5 other");
}

#[test]
fn a_watched_key_of_swapped_databases_ends_its_transaction() {
    let mut session = session(SpaceOptions::default());
    let lines = ["SET k 1", "WATCH k", "SWAPDB 0 1", "MULTI", "EXEC", "WATCH absent", "SWAPDB 0 1", "MULTI", "EXEC"];
    let replies = replies_to(&mut session, &lines);
    assert_eq!((replies[4].as_str(), replies[8].as_str()), ("*-1", "*0"));
}

#[test]
fn a_user_may_do_what_its_rules_allow() {
    let server =
        Arc::new(Server::new(Arc::new(KeySpace::open(SpaceOptions::default()).unwrap()), Settings::default(), false));
    let connect = || {
        let client = server.clients.add("test".into(), "test".into(), 0, 10).unwrap();
        RespSession::new(server.clone(), client, server.add_figures())
    };
    let (mut admin, mut user) = (connect(), connect());
    let made = replies_to(&mut admin, &["ACL SETUSER alice on >pw ~a* %R~b* &news +@all -@dangerous +config|get"]);
    assert_eq!(made, ["+OK"]);
    let no_key = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    let no = |command: &str| format!("-NOPERM this user has no permissions to run the \\'{command}\\' command");
    let in_script = "-ERR The user executing the script can\\'t access at least one of the keys mentioned in the \
                     command \
                     arguments";
    let lines = [
        ("AUTH alice wrong", "-WRONGPASS invalid username-password pair or user is disabled.".to_owned()),
        ("AUTH alice pw", "+OK".into()),
        ("ACL WHOAMI", "$5 alice".into()),
        // As one of a run of requests, too.
        ("SET a 1", "+OK".into()),
        ("GET x", no_key.into()),
        ("GET b", "$-1".into()),
        ("SET b 1", no_key.into()),
        ("COPY b a", ":0".into()),
        ("COPY a b", no_key.into()),
        ("KEYS *", no("keys")),
        ("CONFIG SET timeout 1", no("config|set")),
        ("CONFIG GET databases", "*2 $9 databases $2 16".into()),
        (
            "PUBLISH other x",
            "-NOPERM this user has no permissions to access one of the channels used as arguments".into(),
        ),
        ("PUBLISH news x", ":0".into()),
        ("EVAL return(redis.pcall('get','x')) 0", in_script.into()),
        ("MULTI", "+OK".into()),
        ("GET x", no_key.into()),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.".into()),
        ("MULTI", "+OK".into()),
        ("SET a 2", "+QUEUED".into()),
    ];
    let commands: Vec<&str> = lines.iter().map(|(command, _)| *command).collect();
    for ((command, expected), reply) in lines.iter().zip(replies_to(&mut user, &commands)) {
        assert_eq!(reply, *expected, "{command}");
    }
    // Rules that change in the meantime apply to queued commands.
    replies_to(&mut admin, &["ACL SETUSER alice -set"]);
    assert_eq!(replies_to(&mut user, &["EXEC"]), [format!("*1 {}", no("set"))]);
    assert_eq!(replies_to(&mut admin, &["GET a"]), ["$1 1"]);
    let log = replies_to(&mut admin, &["ACL LOG 1"]).remove(0);
    assert!(log.contains("$7 command") && log.contains("$5 multi") && log.contains("$5 alice"), "{log}");
    replies_to(&mut admin, &["ACL SETUSER default resetpass >secret"]);
    let mut stranger = connect();
    assert_eq!(replies_to(&mut stranger, &["PING", "HELLO 2 AUTH alice pw"])[0], "-NOAUTH Authentication required.");
    assert_eq!(replies_to(&mut admin, &["ACL DELUSER alice"]), [":1"]);
    assert_eq!(replies_to(&mut user, &["PING"]), [""], "the connection has ended");
}

#[test]
fn a_run_of_requests_of_a_user_with_rules_is_checked_one_by_one() {
    let mut session = session(SpaceOptions::default());
    replies_to(&mut session, &["SET a 1", "SET b 2", "ACL SETUSER alice on nopass ~a +@all", "AUTH alice x"]);
    let input = [request(&[b"GET", b"a"]), request(&[b"GET", b"b"]), request(&[b"GET", b"a"])].concat();
    let out = String::from_utf8(replies(&mut session, &input, 1 << 20)).unwrap();
    assert!(out.starts_with("$1\r\n1\r\n-NOPERM") && out.ends_with("$1\r\n1\r\n"), "{out}");
}

/// A connection of `alice`, whose rules are `rules`, and one of an administrator.
fn alice_and_admin(rules: &str) -> (RespSession, RespSession) {
    let mut admin = session(SpaceOptions::default());
    let set_user = format!("ACL SETUSER alice on nopass {rules}");
    assert_eq!(replies_to(&mut admin, &[&set_user]), ["+OK"]);
    let mut alice = another(&admin);
    assert_eq!(replies_to(&mut alice, &["AUTH alice x"]), ["+OK"]);
    (alice, admin)
}

fn is_denied(reply: &str) -> bool {
    reply.contains("-NOPERM")
}

#[test]
fn rules_hold_for_the_rest_of_the_pipeline_that_changes_them() {
    let (mut alice, _) = alice_and_admin("~* &* +@all");
    let reply = text_of(&mut alice, &[&[b"ACL", b"SETUSER", b"alice", b"-get"], &[b"GET", b"a"], &[b"GET", b"a"]]);
    assert_eq!(reply.matches("-NOPERM").count(), 2, "{reply}");

    let (mut alice, _) = alice_and_admin("~* &* +@all");
    let reply = replies_to(&mut alice, &["MULTI", "ACL SETUSER alice -get", "GET a", "EXEC"]);
    assert!(is_denied(&reply[3]), "{}", reply[3]);

    let (mut alice, mut admin) = alice_and_admin("~* &* +@all");
    text_of(&mut alice, &[&[b"ACL", b"DELUSER", b"alice"], &[b"SET", b"a", b"1"]]);
    assert_eq!(replies_to(&mut admin, &["EXISTS a"]), [":0"]);

    let (mut alice, mut admin) = alice_and_admin("~* &* +@all");
    replies_to(&mut alice, &["MULTI", "ACL DELUSER alice", "SET a 1", "EXEC"]);
    assert_eq!(replies_to(&mut admin, &["EXISTS a"]), [":0"]);
}

#[test]
fn the_keys_of_a_stream_read_are_those_that_are_checked() {
    let (mut alice, mut admin) = alice_and_admin("~c ~STREAMS +@all");
    replies_to(&mut admin, &["XADD secret 1-1 f v", "XGROUP CREATE secret STREAMS 0", "XGROUP CREATE secret g 0"]);
    for read in [
        "XREADGROUP COUNT 2 GROUP STREAMS c STREAMS secret >",
        "XREADGROUP NOACK COUNT 2 GROUP STREAMS c STREAMS secret >",
        "XREADGROUP GROUP g c STREAMS secret >",
        "XREAD COUNT 2 STREAMS secret 0",
        "XREAD STREAMS secret 0",
    ] {
        let reply = replies_to(&mut alice, &[read]).remove(0);
        assert!(is_denied(&reply), "{read}: {reply}");
    }
}

#[test]
fn a_client_that_waits_gets_nothing_once_its_user_may_not() {
    let pushed = ["RPUSH l x", "ZADD z 1 x", "XADD s 1-1 f v"];
    for (command, change) in [
        ("BLPOP l 0", "-blpop"),
        ("BLPOP l 0", "resetkeys"),
        ("BRPOP l 0", "resetkeys %R~*"),
        ("BLMPOP 0 1 l LEFT", "resetkeys"),
        ("BLMOVE l m LEFT LEFT 0", "resetkeys ~l"),
        ("BRPOPLPUSH l m 0", "resetkeys ~m"),
        ("BZPOPMIN z 0", "-@all"),
        ("BZMPOP 0 1 z MIN", "resetkeys ~l"),
        ("XREAD BLOCK 0 STREAMS s $", "resetkeys %W~s"),
        ("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "resetkeys"),
    ] {
        let (mut alice, mut admin) = alice_and_admin("~* +@all");
        replies_to(&mut admin, &["XGROUP CREATE s g $ MKSTREAM"]);
        assert_eq!(replies_to(&mut alice, &[command]), [""], "{command}");
        let change = format!("ACL SETUSER alice {change}");
        assert_eq!(replies_to(&mut admin, &[&change]), ["+OK"]);
        replies_to(&mut admin, &pushed);
        let mut out = Vec::new();
        assert!(alice.is_unblocked() && alice.unblock(false, &mut out), "{command}");
        let reply = String::from_utf8(out).unwrap();
        assert!(is_denied(&reply), "{command}: {reply}");
        assert_eq!(replies_to(&mut admin, &["LLEN l", "ZCARD z", "XLEN s", "EXISTS m"]), [":1", ":1", ":1", ":0"]);
    }
}

#[test]
fn subscribers_and_monitors_end_once_their_user_may_not() {
    for (command, change) in [
        ("SUBSCRIBE news", "resetchannels"),
        ("PSUBSCRIBE n*", "resetchannels &news"),
        ("SSUBSCRIBE news", "resetchannels &other"),
        ("MONITOR", "-monitor"),
    ] {
        let (mut alice, mut admin) = alice_and_admin("~* &* +@all");
        replies_to(&mut alice, &[command]);
        let change = format!("ACL SETUSER alice {change}");
        replies_to(&mut admin, &[&change]);
        let clients = replies_to(&mut admin, &["CLIENT LIST"]).remove(0);
        assert!(!clients.contains("user=alice"), "{command}: {clients}");
    }
}

#[test]
fn what_is_kept_of_users_and_denied_requests_is_bounded() {
    let (mut alice, mut admin) = alice_and_admin("~* +get");
    let long = "x".repeat(1 << 20);
    let auth = format!("AUTH {long} pw");
    for request in [format!("SET {long} 1"), auth] {
        replies_to(&mut alice, &[&request]);
    }
    let set_user = format!("ACL SETUSER alice resetkeys ~a{}", "b".repeat(10));
    replies_to(&mut admin, &[&set_user]);
    let get = format!("GET {long}");
    replies_to(&mut alice, &[&get]);
    let log = replies_to(&mut admin, &["ACL LOG"]).remove(0);
    assert!(log.contains("alice") && log.len() < 20_000, "{} bytes", log.len());

    // Patterns, passwords, selectors and users.
    let many = |rule: &dyn Fn(usize) -> String| (0..100_000).map(rule).collect::<Vec<_>>();
    for rules in [
        many(&|number| format!("~{number}")),
        many(&|number| format!("&{number}")),
        many(&|number| format!(">{number}")),
        many(&|_| "(+get)".into()),
        vec![format!("~{}", "x".repeat(32 << 20))],
    ] {
        let mut words: Vec<&[u8]> = vec![b"ACL", b"SETUSER", b"bob"];
        words.extend(rules.iter().map(String::as_bytes));
        let reply = text_of(&mut admin, &[&words]);
        assert!(reply.starts_with("-ERR") && reply.contains("too many or too long"), "{reply:.100}");
    }
    let megabyte = format!("~{}", "x".repeat(1 << 20));
    let made = (0..100).filter(|number| {
        let name = format!("user{number}");
        text_of(&mut admin, &[&[b"ACL", b"SETUSER", name.as_bytes(), megabyte.as_bytes()]]) == "+OK\r\n"
    });
    assert!((5..20).contains(&made.count()));
    assert_eq!(replies_to(&mut admin, &["ACL SETUSER user0 reset", "ACL SETUSER user100 ~a"]), ["+OK", "+OK"]);
}

#[test]
fn sorting_reads_no_more_than_a_reply_may_have() {
    let mut session = session(SpaceOptions::default());
    let push = format!("RPUSH l{}", " 1".repeat(1000));
    let set = format!("SET big1 {}", "0".repeat(16 << 10));
    replies_to(&mut session, &["CONFIG SET client-query-buffer-limit 1048576", &push, &set, "RPUSH one 1"]);
    let gets = format!("SORT one{}", " GET big*".repeat(1000));
    let pattern = format!("SORT l BY {}*", "p".repeat(100_000));
    for sort in ["SORT l BY big* ALPHA", "SORT l BY big*", "SORT l GET big*", "SORT_RO l GET big*", &gets, &pattern] {
        let reply = replies_to(&mut session, &[sort]).remove(0);
        assert!(reply.starts_with("-ERR the reply would be longer"), "{sort:.50}: {reply:.100}");
    }
    assert_eq!(replies_to(&mut session, &["SORT one BY big* GET #"]), ["*1 $1 1"]);
}

#[test]
fn positions_of_any_scores_and_at_the_ends_of_the_earth_are_numbers() {
    let mut session = session(SpaceOptions::default());
    let scores = "-inf inf -1 0 3 9.3e18 1e19 1e300 -5e9 -9.3e18";
    let add: String = scores.split(' ').map(|score| format!(" {score} {score}")).collect();
    replies_to(&mut session, &[&format!("ZADD z{add}")]);
    for member in scores.split(' ') {
        let nearby: Vec<String> = [
            format!("GEOSEARCH z FROMMEMBER {member} BYBOX 1e300 1e300 mi WITHDIST WITHHASH WITHCOORD"),
            format!("GEOSEARCH z FROMMEMBER {member} BYRADIUS inf m WITHDIST WITHHASH WITHCOORD DESC"),
            format!("GEOSEARCHSTORE d z FROMMEMBER {member} BYBOX 1e300 1e300 m STOREDIST"),
            format!("GEODIST z {member} 0"),
            format!("GEOHASH z {member}"),
            "ZRANGE d 0 -1 WITHSCORES".into(),
            format!("GEORADIUSBYMEMBER z {member} 30000 km STORE z2"),
            format!("GEORADIUSBYMEMBER z2 {member} 30000 km STORE z2"),
        ]
        .into();
        let lines: Vec<&str> = nearby.iter().map(String::as_str).collect();
        for reply in replies_to(&mut session, &lines) {
            assert!(!reply.to_lowercase().contains("nan"), "{member}: {reply}");
        }
    }
    // As Redis on x86-64 reads such scores.
    let replies = replies_to(&mut session, &["GEOPOS z -inf", "GEOPOS z -1", "GEOPOS z 1e300"]);
    assert!(replies[0].contains("-85.05112751263942528") && replies[0].contains("180"), "{}", replies[0]);
    assert!(replies[1].contains("180") && replies[1].contains(" 85.05112877999"), "{}", replies[1]);
    assert!(replies[2].contains("-179.99999731779098511"), "{}", replies[2]);
}

#[test]
fn what_is_kept_of_clients_that_track_keys_is_bounded() {
    let mut session = session(SpaceOptions::default());
    replies_to(&mut session, &["HELLO 3"]);
    let prefixes = |count: usize, len: usize| -> String {
        (0..count).map(|number| format!(" PREFIX {number:05}{}", "x".repeat(len))).collect()
    };
    for many in [prefixes(2000, 0), prefixes(1, 1 << 20)] {
        let reply = replies_to(&mut session, &[&format!("CLIENT TRACKING ON BCAST{many}")]).remove(0);
        assert!(reply.starts_with("-ERR too many or too long prefixes"), "{reply:.100}");
    }
    // One after another, too.
    let kept = (0..20).filter(|number| {
        let line = format!("CLIENT TRACKING ON BCAST PREFIX {number:05}{}", "x".repeat(10_000));
        replies_to(&mut session, &[&line]) == ["+OK"]
    });
    assert_eq!(kept.count(), 6);
    replies_to(&mut session, &["CLIENT TRACKING OFF", "CLIENT TRACKING ON"]);
    let long = "x".repeat(1 << 20);
    let (mut dropped, mut other) = (Vec::new(), another(&session));
    let total = |other: &mut RespSession| {
        let info = replies_to(other, &["INFO stats"]).remove(0);
        let field = info.split("tracking_total_keys:").nth(1).unwrap();
        field.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<usize>().unwrap()
    };
    for number in 0..160 {
        replies_to(&mut session, &[&format!("GET {number}{long}")]);
        let messages = pushes(&mut session);
        dropped.extend(messages.split(' ').filter_map(|word| word.strip_suffix(long.as_str())).map(str::to_owned));
    }
    let keys = total(&mut other);
    assert!(keys < 128 && keys + dropped.len() == 160, "{keys} keys, {dropped:?}");
    // The keys that were read first.
    assert_eq!(dropped, (0..dropped.len()).map(|number| number.to_string()).collect::<Vec<_>>());
    // Short keys have the room of the long ones.
    replies_to(&mut session, &["CLIENT TRACKING OFF", "CLIENT TRACKING ON", "GET a", "GET b"]);
    assert_eq!((total(&mut other), pushes(&mut session).as_str()), (2, ""));
}

fn in_memory_and_in_a_file() -> [(RespSession, Option<tempfile::TempDir>); 2] {
    let folder = tempfile::tempdir().unwrap();
    let file = SpaceOptions { file: Some(folder.path().join("t.spt")), ..SpaceOptions::default() };
    [(session(SpaceOptions::default()), None), (session(file), Some(folder))]
}

#[test]
fn collections_changed_by_many_threads_lose_no_change() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 300;
    for (mut first, _folder) in in_memory_and_in_a_file() {
        // Small and large ones, and some that come and go.
        let words = |thread: usize, round: usize| {
            let own = format!("{thread}:{round}");
            [
                "HINCRBY small n 1".to_owned(),
                format!("HINCRBY large f{} 1", round % 100),
                format!("SADD set {own}"),
                format!("RPUSH list {own}"),
                "ZINCRBY sorted 1 m".to_owned(),
                format!("ZINCRBY ranks 1 m{}", round % 100),
                format!("LPUSH queue {own}"),
                "LPOP queue".to_owned(),
                format!("HSET coming {own} 1"),
                format!("HDEL coming {own}"),
            ]
        };
        let popped: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let mut session = another(&first);
                    scope.spawn(move || {
                        let mut popped = 0;
                        for round in 0..ROUNDS {
                            let lines = words(thread, round);
                            let input: Vec<u8> =
                                lines.iter().flat_map(|line| format!("{line}\r\n").into_bytes()).collect();
                            let piece = if round % 2 == 0 { input.len() } else { 20 };
                            let out = replies(&mut session, &input, piece);
                            popped += usize::from(!out.windows(5).any(|reply| reply == b"$-1\r\n"));
                        }
                        popped
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let total = THREADS * ROUNDS;
        let mut integer = |line: &str| {
            let reply = String::from_utf8(replies(&mut first, format!("{line}\r\n").as_bytes(), usize::MAX)).unwrap();
            reply.trim_start_matches(|c: char| !c.is_ascii_digit()).lines().last().unwrap().parse::<usize>().unwrap()
        };
        assert_eq!(integer("HGET small n"), total);
        let large: usize = (0..100).map(|field| integer(&format!("HGET large f{field}"))).sum();
        assert_eq!((large, integer("HLEN large")), (total, 100));
        assert_eq!((integer("SCARD set"), integer("LLEN list")), (total, total));
        assert_eq!(integer("ZSCORE sorted m"), total);
        let ranks: usize = (0..100).map(|member| integer(&format!("ZSCORE ranks m{member}"))).sum();
        assert_eq!((ranks, integer("ZCARD ranks")), (total, 100));
        assert_eq!((integer("LLEN queue"), integer("EXISTS coming")), (total - popped, 0));
    }
}

#[test]
fn several_collections_are_read_as_of_one_moment() {
    for (mut writer, _folder) in in_memory_and_in_a_file() {
        // A member that is always in at least one of two sets, and in at most one of another pair.
        let round = "SADD b x;SREM a x;SADD a x;SREM b x;ZADD z 1 x;ZREM y x;ZADD y 1 x;ZREM z x;\
                     SREM c x;SADD d x;SREM d x;SADD c x";
        let lines: Vec<&str> = "SADD a x;ZADD y 1 x;SADD c x".split(';').collect();
        replies_to(&mut writer, &lines);
        let words = |line: &str| request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let round: Vec<u8> = round.split(';').flat_map(words).collect();
        let mut reader = another(&writer);
        // Reads between the first and the last collection, so that changes fall between these, too.
        let names = |prefix: &str| (0..60).map(|n| format!("{prefix}{n} ")).collect::<String>();
        (0..60).for_each(|n| drop(replies_to(&mut writer, &[&format!("SADD all:{n} x")])));
        let union = format!("SUNION b {}a", names("none:"));
        let zunion = format!("ZUNION 62 z {}y", names("none:"));
        let inter = format!("SINTER c {}d", names("all:"));
        let card = format!("SINTERCARD 62 c {}d", names("all:"));
        let read = [union.as_str(), &zunion, &inter, &card];
        let is_written = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2000 {
                    replies(&mut writer, &round, usize::MAX);
                }
                is_written.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            while !is_written.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(replies_to(&mut reader, &read), ["*1 $1 x", "*1 $1 x", "*0", ":0"]);
            }
        });
    }
}

/// Requests that change collections, as lines: all commands that are executed together, some of which fail.
fn changes_of_collections(seed: u64, count: usize) -> Vec<String> {
    let mut state = seed;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let (mut lines, mut key, mut family) = (Vec::new(), String::new(), 0);
    for index in 0..count {
        // Most commands are of the type and the key of the one before.
        if index % 100 == 0 || below(9) == 0 {
            (key, family) = (format!("k{}", below(6)), below(6));
        }
        let (n, long) = (below(60), "x".repeat(if below(8) == 0 { 90 } else { 3 }));
        let (first, commands) = [(0, 9), (9, 3), (12, 9), (21, 9), (30, 3), (0, 39)][family as usize];
        lines.push(match if below(20) == 0 { below(39) } else { first + below(commands) } {
            0..4 => format!("HSET {key} f{n} {long}"),
            4 => format!("HSET {key} f{n} 1 odd"),
            5 => format!("HINCRBY {key} n{n} 2"),
            6 => format!("HINCRBY {key} f{n} 2"),
            7 => format!("HDEL {key} f{n} f{}", n + 1),
            8 => format!("HSETNX {key} f{n} {long}"),
            9..11 => format!("SADD {key} {n} {long}{n}"),
            11 => format!("SREM {key} {n}"),
            12..14 => format!("RPUSH {key} {long} {n}"),
            14..16 => format!("LPUSH {key} {long}"),
            16 => format!("LPOP {key}"),
            17 => format!("RPOP {key} {}", n % 5),
            18 => format!("LSET {key} {} {long}", n % 3),
            19 => format!("LTRIM {key} 0 {n}"),
            20 => format!("RPUSHX {key} {long}"),
            21..24 => format!("ZADD {key} {n} {long}{n}"),
            24 => format!("ZINCRBY {key} 1.5 {n}"),
            25 => format!("ZADD {key} INCR inf {n}"),
            26 => format!("ZINCRBY {key} -inf {n}"),
            27 => format!("ZREM {key} {n} {long}{n}"),
            28 => format!("ZPOPMIN {key}"),
            29 => format!("ZREMRANGEBYSCORE {key} {n} {}", n + 3),
            30 => format!("XADD {key} {}-* f {long}", 1 + below(3)),
            31 if below(2) == 0 => format!("DEL {key}"),
            31 => format!("XDEL {key} 1-{n} 2-0 3-1"),
            32 => format!("PEXPIREAT {key} {}", if below(4) == 0 { 1 } else { 5_000_000_000_000u64 }),
            33 => format!("HEXPIREAT {key} {} FIELDS 1 f{n}", if below(4) == 0 { 1 } else { 4_000_000_000u64 }),
            34 => format!("HEXPIRETIME {key} FIELDS 2 f{n} f{}", n / 2),
            35 => format!("HPERSIST {key} FIELDS 1 f{n}"),
            36 => format!("PEXPIREAT {key} {}", 4_000_000_000_000 + n),
            37 => format!("GEOADD {key} {n} {n} {n}"),
            _ => format!("TYPE {key}"),
        });
    }
    lines
}

#[test]
fn changes_of_collections_in_one_piece_answer_as_one_by_one() {
    for seed in 1..=8 {
        for ((mut pieces, _one), (mut whole, _other)) in
            in_memory_and_in_a_file().into_iter().zip(in_memory_and_in_a_file())
        {
            let mut lines = changes_of_collections(seed, 3000);
            let reads = ["TYPE", "PEXPIRETIME", "OBJECT ENCODING", "HLEN", "SCARD"].map(|name| (name, ""));
            let ranges = [("LRANGE", "0 -1"), ("ZRANGE", "0 -1 WITHSCORES"), ("XRANGE", "- +")];
            for (name, rest) in reads.into_iter().chain(ranges) {
                lines.extend((0..6).map(|key| format!("{name} k{key} {rest}").trim_end().to_owned()));
            }
            for lines in lines.chunks(100) {
                let requests: Vec<Vec<u8>> =
                    lines.iter().map(|line| request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())).collect();
                let one_by_one: Vec<u8> =
                    requests.iter().flat_map(|request| replies(&mut pieces, request, usize::MAX)).collect();
                let together = replies(&mut whole, &requests.concat(), usize::MAX);
                let same = one_by_one.iter().zip(&together).take_while(|(one, other)| one == other).count();
                let [one_by_one, together] = [&one_by_one, &together]
                    .map(|all| text(&all[same.saturating_sub(200)..(same + 60).min(all.len())]));
                assert_eq!(together, one_by_one, "seed {seed}: {lines:?}");
            }
        }
    }
}

#[test]
fn a_collection_that_becomes_empty_within_a_run_loses_its_lifetime() {
    let words = |each: &dyn Fn(u32) -> String| (0..500).map(each).collect::<Vec<_>>().join(" ");
    let fields = words(&|n| format!("field:{n}"));
    let families = [
        (format!("RPUSH k {fields}"), "LTRIM k 1 0".to_owned(), "LPUSH k one"),
        (format!("SADD k {fields}"), "SPOP k 1000".to_owned(), "SADD k one"),
        (format!("HSET k {}", words(&|n| format!("field:{n} {n}"))), format!("HDEL k {fields}"), "HSET k one 1"),
        (
            format!("ZADD k {}", words(&|n| format!("{n} field:{n}"))),
            "ZREMRANGEBYRANK k 0 -1".to_owned(),
            "ZADD k 1 one",
        ),
    ];
    for (fill, empty, add) in families {
        for (mut session, _folder) in in_memory_and_in_a_file() {
            replies_to(&mut session, &[&fill, "PEXPIREAT k 5000000000000"]);
            assert_eq!(replies_to(&mut session, &["PEXPIRETIME k"]), [":5000000000000"]);
            let lines = [&*empty, add, add, "PEXPIRETIME k"];
            let requests = lines.map(|line| request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
            let answers = text(&replies(&mut session, &requests.concat(), usize::MAX));
            assert!(answers.ends_with(":-1\r\n"), "{add}: {answers}");
        }
    }
}

#[test]
fn a_pop_with_too_long_a_reply_removes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (file, lines) in [
        (None, &["SPOP k 65", "SPOP k 66"][..]),
        (Some(folder.path().join("one")), &["SPOP k 65", "SPOP k 66"]),
        (Some(folder.path().join("exec")), &["MULTI", "SPOP k 65", "SPOP k 66", "EXEC"]),
    ] {
        let options = SpaceOptions { file, logged: true, ..SpaceOptions::default() };
        let settings = Settings::default();
        settings.request_bytes.store(19_000, std::sync::atomic::Ordering::Relaxed);
        let mut session = session_with(options, settings);
        let members: Vec<String> = (0..200).map(|n| format!("{n:0300}")).collect();
        let each = |session: &mut RespSession, name: &str, members: &[String]| -> Vec<String> {
            members.iter().flat_map(|member| replies_to(session, &[&format!("{name} k {member}")])).collect()
        };
        assert_eq!(each(&mut session, "SADD", &members), vec![":1"; 200]);
        // The set keeps more segments than 66 members need.
        assert_eq!(each(&mut session, "SREM", &members[66..]), vec![":1"; 134]);
        let answers = replies_to(&mut session, lines).join(" ");
        assert_eq!(answers.matches("-ERR the reply would").count(), 2, "{answers}");
        assert_eq!(replies_to(&mut session, &["SCARD k"]), [":66"]);
        assert_eq!(each(&mut session, "SISMEMBER", &members[..66]), vec![":1"; 66]);
        assert_eq!(each(&mut session, "SREM", &members[..66]), vec![":1"; 66]);
        assert_eq!(replies_to(&mut session, &["EXISTS k"]), [":0"]);
    }
}

#[test]
fn repeated_draws_count_with_the_memory_that_they_take() {
    let settings = Settings::default();
    settings.request_bytes.store(19_000, std::sync::atomic::Ordering::Relaxed);
    let mut limited = session_with(SpaceOptions::default(), settings);
    let mut unlimited = session(SpaceOptions::default());
    for (add, draw, too_many) in [
        ("SADD s a", "SRANDMEMBER s", "-1000"),
        ("HSET h a 1", "HRANDFIELD h", "-1000"),
        ("ZADD z 1 a", "ZRANDMEMBER z", "-400"),
    ] {
        let lines = [add.to_owned(), format!("{draw} {too_many}"), format!("{draw} -100")];
        let answers = replies_to(&mut limited, &lines.each_ref().map(String::as_str));
        assert!(answers[1].starts_with("-ERR the reply would be longer"), "{draw}: {}", answers[1]);
        assert!(answers[2].starts_with("*100 $1 a "), "{draw}: {}", answers[2]);
        // Refused without drawing: to draw up to the limit would take seconds.
        let lines = [add.to_owned(), format!("{draw} -4611686018427387903"), format!("{draw}x -4611686018427387903")];
        let answers = replies_to(&mut unlimited, &lines.each_ref().map(String::as_str));
        assert!(answers[1].starts_with("-ERR the reply would be longer"), "{draw}: {}", answers[1]);
        assert_eq!(answers[2], "*0", "{draw} of an absent key");
    }
}

#[test]
fn a_command_is_not_described_more_often_than_a_reply_may_be_long() {
    let settings = Settings::default();
    settings.request_bytes.store(19_000, std::sync::atomic::Ordering::Relaxed);
    let mut session = session_with(SpaceOptions::default(), settings);
    replies_to(&mut session, &["GET k"]);
    for command in ["COMMAND INFO", "COMMAND DOCS", "LATENCY HISTOGRAM"] {
        let (once, often) = (format!("{command} get"), format!("{command}{}", " get".repeat(1000)));
        let replies = replies_to(&mut session, &[&often, &once, command, "PING"]);
        assert!(replies[0].starts_with("-ERR the reply would be longer"), "{}", replies[0]);
        assert!(replies[1].contains("get") && replies[2].contains("get"), "{command}");
        assert_eq!(replies[3], "+PONG");
    }
}

#[test]
fn fields_that_are_too_long_for_a_reply_stay_as_they_were() {
    let long = "x".repeat(700_000);
    for change in ["HGETDEL h", "HGETEX h PXAT 1", "HGETEX h EX 1000", "HGETEX h PERSIST"] {
        for (mut session, _folder) in in_memory_and_in_a_file() {
            replies_to(&mut session, &["CONFIG SET client-query-buffer-limit 1mb"]);
            for field in ["a", "b"] {
                assert_eq!(replies_to(&mut session, &[&format!("HSETEX h EX 1000 FIELDS 1 {field} {long}")]), [":1"]);
            }
            let others = (0..40).map(|n| format!(" {n} {n}")).collect::<String>();
            assert_eq!(replies_to(&mut session, &[&format!("HSET h{others}")]), [":40"]);
            let before = replies_to(&mut session, &["HKEYS h", "HPEXPIRETIME h FIELDS 2 a b", "HSTRLEN h b"]);
            let change = format!("{change} FIELDS 2 a b");
            let answers = replies_to(&mut session, &[&change, "MULTI", &change, "EXEC"]).join(" ");
            assert_eq!(answers.matches("-ERR the reply would").count(), 2, "{answers}");
            let after = replies_to(&mut session, &["HKEYS h", "HPEXPIRETIME h FIELDS 2 a b", "HSTRLEN h b"]);
            assert_eq!(after, before, "{change}");
        }
    }
}

#[test]
fn damage_within_a_run_refuses_only_the_commands_that_meet_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_with_collection(folder.path(), "hash");
    let table = splitpoint::Table::open(&path).unwrap();
    let mut segments: Vec<_> =
        table.keys().map(|key| key.unwrap()).filter(|key| key.starts_with(b"\0sp\xffs")).collect();
    segments.sort();
    table.put(&segments[3], b"\xff\xff\xff\xff\x7f").unwrap();
    table.close().unwrap();
    let other = folder.path().join("other");
    std::fs::copy(&path, &other).unwrap();
    let [mut pieces, mut whole] =
        [path, other].map(|file| session(SpaceOptions { file: Some(file), ..SpaceOptions::default() }));
    let line = |n| if n % 9 == 0 { format!("HINCRBY k {n} 1") } else { format!("HSET k {n} v{n}") };
    let lines: Vec<String> = (0..500).map(line).collect();
    let requests: Vec<Vec<u8>> =
        lines.iter().map(|line| request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())).collect();
    let one_by_one: Vec<u8> = requests.iter().flat_map(|request| replies(&mut pieces, request, usize::MAX)).collect();
    assert_eq!(text(&replies(&mut whole, &requests.concat(), usize::MAX)), text(&one_by_one));
    assert!(text(&one_by_one).contains("damaged"));
    let failed = |session: &mut RespSession| {
        let info = replies_to(session, &["INFO errorstats"]).remove(0);
        info.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(failed(&mut whole), failed(&mut pieces));
    let all = (0..500).map(|n| format!("HGET k {n}")).collect::<Vec<_>>();
    let lines: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(replies_to(&mut whole, &lines), replies_to(&mut pieces, &lines));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn errors_in_a_run_of_changes_are_counted() {
    for (mut session, _folder) in in_memory_and_in_a_file() {
        replies_to(&mut session, &["SET k v"]);
        let large = "SADD large ".to_owned() + &(0..2000).map(|n| format!("member:{n} ")).collect::<String>();
        replies_to(&mut session, &[large.trim()]);
        // The first error is of a run of small collections, the second of a run of large ones.
        let requests: [&[&[u8]]; 4] =
            [&[b"HSET", b"h", b"f", b"v"], &[b"SADD", b"k", b"m"], &[b"SADD", b"large", b"m"], &[b"LPUSH", b"k", b"m"]];
        let out = text_of(&mut session, &requests);
        assert_eq!(out.matches("-WRONGTYPE").count(), 2, "{out}");
        let info = replies_to(&mut session, &["INFO errorstats"]).remove(0);
        assert!(info.contains("errorstat_WRONGTYPE:count=2"), "{info}");
        let info = replies_to(&mut session, &["INFO commandstats"]).remove(0);
        let failed = |name: &str| {
            let name = format!("cmdstat_{name}:");
            info.split_whitespace().any(|line| line.starts_with(&name) && line.ends_with(",failed_calls=1"))
        };
        assert!(failed("sadd") && failed("lpush"), "{info}");
    }
}

#[test]
fn entries_that_a_group_is_said_to_have_read_do_not_make_its_lag_negative() {
    let mut session = session(SpaceOptions::default());
    let mut reply = |words: &str| {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        text_of(&mut session, &[&words])
    };
    let progress = |read: &str, lag: u64| format!("entries-read\r\n:{read}\r\n$3\r\nlag\r\n:{lag}\r\n");
    reply("XADD s 5-0 a b");
    reply("XADD s 6-0 a b");
    reply("XGROUP CREATE s g 0 ENTRIESREAD 7");
    let info = reply("XINFO GROUPS s");
    assert!(info.ends_with(&progress("7", 2)), "{info}");
    reply("XGROUP SETID s g 4-0 ENTRIESREAD 1");
    let info = reply("XINFO GROUPS s");
    assert!(info.ends_with(&progress("1", 2)), "{info}");
    // From the first entry on, the number counts.
    reply("XGROUP SETID s g 5-0 ENTRIESREAD 1");
    let info = reply("XINFO GROUPS s");
    assert!(info.ends_with(&progress("1", 1)), "{info}");
}
