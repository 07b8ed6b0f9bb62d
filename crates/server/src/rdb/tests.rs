//! Values go through the format unchanged, and no bytes make the decoder panic or allocate much.

use super::file::{Reader, Writer};
use super::*;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-c]{0,6}".prop_map(String::into_bytes),
        3 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        3 => (-5000..5000_i64).prop_map(|number| number.to_string().into_bytes()),
        2 => proptest::collection::vec(any::<u8>(), 0..80),
        1 => (any::<u8>(), prop_oneof![Just(63_usize), Just(64), Just(127), Just(4095), Just(4096), Just(9000)])
            .prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn distinct() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::btree_set(text(), 1..40).prop_map(|texts| texts.into_iter().collect())
}

fn id() -> impl Strategy<Value = EntryId> {
    (1..40_u64, 0..3_u64).prop_map(|(ms, seq)| EntryId { ms, seq })
}

fn stream() -> impl Strategy<Value = Stream> {
    let fields = proptest::collection::vec((text(), text()), 1..4);
    let entry = prop_oneof![
        fields,
        (text(), text()).prop_map(|(one, other)| vec![(b"a".to_vec(), one), (b"b".to_vec(), other)])
    ];
    let entries = proptest::collection::btree_map(id(), entry, 0..60);
    let pending = proptest::collection::btree_map(id(), (0..3_usize, any::<u64>(), 0..100_u64), 0..10);
    let group = (id(), proptest::option::of(0..1000_i64), pending);
    let groups = proptest::collection::btree_map(text(), group, 0..3);
    (entries, id(), any::<u64>(), groups).prop_map(|(entries, max_deleted, added, groups)| Stream {
        entries: entries
            .into_iter()
            .map(|(id, fields)| (id, fields.into_iter().flat_map(|(name, value)| [name, value]).collect()))
            .collect(),
        last: EntryId { ms: 50, seq: u64::MAX },
        max_deleted,
        added,
        groups: groups
            .into_iter()
            .map(|(name, (last, read, pending))| Group {
                name,
                last,
                read,
                consumers: (0..3).map(|number| (format!("consumer {number}").into_bytes(), number)).collect(),
                pending: pending
                    .into_iter()
                    .map(|(id, (consumer, delivered_ms, count))| Pending { id, consumer, delivered_ms, count })
                    .collect(),
            })
            .collect(),
    })
}

fn value() -> impl Strategy<Value = Value> {
    let score = prop_oneof![(-100..100_i32).prop_map(f64::from), any::<f64>().prop_filter("NaN", |s| !s.is_nan())];
    prop_oneof![
        text().prop_map(Value::String),
        proptest::collection::vec(text(), 1..60).prop_map(Value::List),
        distinct().prop_map(Value::Set),
        proptest::collection::btree_set(any::<i64>(), 1..30).prop_map(|numbers| {
            Value::Set(numbers.into_iter().map(|number| number.to_string().into_bytes()).collect())
        }),
        distinct().prop_map(|names| {
            let field = |name: Vec<u8>| Field { value: [&name[..], b"!"].concat(), name, expires_at_ms: 0 };
            Value::Hash(names.into_iter().map(field).collect())
        }),
        (distinct(), proptest::collection::vec(prop_oneof![Just(0), 1_u64..1 << 47, Just((1 << 48) - 2)], 40))
            .prop_map(|(names, times)| {
                let field = |(name, expires_at_ms)| Field { value: vec![b'v'; 5], name, expires_at_ms };
                let mut fields: Vec<Field> = names.into_iter().zip(times).map(field).collect();
                // In the order in which they are written.
                fields.sort_by_key(|field| field.expires_at_ms.wrapping_sub(1));
                Value::Hash(fields)
            }),
        (distinct(), proptest::collection::vec(score, 40)).prop_map(|(members, scores)| {
            let mut members: Vec<_> = members.into_iter().zip(scores).collect();
            members.sort_by(crate::keyspace::collections::sorted::compare);
            Value::SortedSet(members)
        }),
        stream().prop_map(Value::Stream),
    ]
}

/// In both encodings, where the value can have both.
fn payloads(value: &Value) -> Vec<Vec<u8>> {
    let is_integers = |members: &[Vec<u8>]| members.iter().all(|m| crate::command::number::parse_integer(m).is_some());
    let forms = match value {
        Value::Set(members) if !is_integers(members) => &[Form::Elements][..],
        _ => &[Form::Packed, Form::Elements],
    };
    let encoded = |form: &Form| {
        let mut payload = Vec::new();
        encode(&mut payload, value, *form);
        payload
    };
    forms.iter().map(encoded).collect()
}

/// Generates bytes, more often ones that begin a length or end something.
fn often_a_length() -> impl Strategy<Value = u8> {
    prop_oneof![0..8_u8, Just(0xff), Just(0xc3), Just(0x81), any::<u8>()]
}

const LIMITS: Limits = Limits { string_bytes: 1 << 20, value_bytes: 1 << 22 };

/// Sets come back in the order of their numbers from an intset.
fn sorted(value: Value) -> Value {
    match value {
        Value::Set(mut members) => {
            members.sort();
            Value::Set(members)
        }
        value => value,
    }
}

/// A stream of one entry, in a node with these numbers in their places.
fn stream_of_node(numbers: [i64; 10]) -> Vec<u8> {
    let [live, removed, names, end_of_names, flags, ms, seq, fields, taken, extra] = numbers;
    let mut listpack = packed::Listpack::new();
    [live, removed, names].into_iter().for_each(|number| listpack.push_number(number));
    listpack.push(b"name");
    [end_of_names, flags, ms, seq, fields].into_iter().for_each(|number| listpack.push_number(number));
    [&b"field"[..], b"value"].into_iter().for_each(|text| listpack.push(text));
    listpack.push_number(taken);
    let mut bytes = vec![kind::STREAM];
    let mut sink = sink::Sink { out: &mut bytes };
    sink.length(1);
    sink.string(&[&1_u64.to_be_bytes()[..], &0_u64.to_be_bytes()].concat());
    sink.string(&listpack.end());
    // Entries, the last ID, groups.
    [1, 1, extra as u64, 0].into_iter().for_each(|number| sink.length(number));
    bytes
}

#[test]
fn a_number_in_a_node_of_a_stream_may_have_any_value() {
    let right = [1, 0, 1, 0, 0, 0, 0, 1, 6, 0];
    assert!(value_of(&stream_of_node(right), LIMITS).is_ok());
    for place in 0..right.len() {
        for number in [i64::MIN, i64::MIN / 2 - 1, i64::MIN / 2, -1, 0, 2, i64::MAX / 2 + 1, i64::MAX - 1, i64::MAX] {
            let mut numbers = right;
            numbers[place] = number;
            let _ = value_of(&stream_of_node(numbers), LIMITS);
        }
    }
}

proptest! {
    #[test]
    fn every_value_comes_back_from_its_payload(value in value()) {
        for payload in payloads(&value) {
            prop_assert_eq!(sorted(decode(&payload, LIMITS).unwrap()), sorted(value.clone()));
        }
    }

    #[test]
    fn damaged_payloads_give_values_or_errors(value in value(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        cut in any::<prop::sample::Index>()) {
        for mut payload in payloads(&value) {
            let body_len = payload.len() - 10;
            payload.truncate(body_len);
            let at = at.index(body_len);
            payload[at] = byte;
            let _ = value_of(&payload, LIMITS);
            payload.truncate(cut.index(body_len));
            let _ = value_of(&payload, LIMITS);
        }
    }

    #[test]
    fn any_bytes_of_every_type_give_values_or_errors(number in 0..30_u8,
        mut bytes in proptest::collection::vec(often_a_length(), 0..200)) {
        bytes.insert(0, number);
        let _ = value_of(&bytes, LIMITS);
    }

    #[test]
    fn damaged_files_give_entries_or_errors(values in proptest::collection::vec(value(), 0..4),
        at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut file = Vec::new();
        let mut writer = Writer::begin(&mut file, true);
        for (number, value) in values.iter().enumerate() {
            let key = format!("key {number}");
            writer.entry(&mut file, number as u64 / 2, key.as_bytes(), number as u64, (value, Form::Elements));
        }
        writer.end(&mut file);
        let mut reader = Reader::new(&file[..], Limits::FILE).unwrap();
        for (number, value) in values.into_iter().enumerate() {
            let entry = reader.next_entry().unwrap().unwrap();
            prop_assert_eq!((entry.database, entry.expires_at_ms), (number as u64 / 2, number as u64));
            prop_assert_eq!(entry.object, Object::Value(value));
        }
        prop_assert_eq!(reader.next_entry().unwrap(), None);
        prop_assert_eq!(reader.position(), file.len() as u64);
        let at = at.index(file.len());
        if file[at] != byte {
            file[at] = byte;
            // The checksum finds what the values do not; a checksum of 0 is not checked.
            let reader = Reader::new(&file[..], Limits::FILE);
            let all = reader.and_then(|mut reader| { while reader.next_entry()?.is_some() {} Ok(()) });
            prop_assert!(all.is_err());
        }
    }
}

#[test]
fn packed_elements_are_charged_one_by_one() {
    // Fields without bytes, and no end after them.
    let zipmap = [&b"\xfe"[..], &[0; 3 * 100_000]].concat();
    // Numbers that ascend, and one that does not after them.
    let mut intset = [4_u32.to_le_bytes(), 200_001_u32.to_le_bytes()].concat();
    intset.extend((0..200_000_u32).chain([0]).flat_map(u32::to_le_bytes));
    for (number, packed) in [(kind::HASH_ZIPMAP, zipmap), (kind::SET_INTSET, intset)] {
        let mut body = vec![number];
        sink::Sink { out: &mut body }.string(&packed);
        // The limit is exceeded before the end, so the damage there is not seen.
        assert!(matches!(value_of(&body, LIMITS), Err(RdbError::TooLong(_))), "type {number}");
    }
}

#[test]
fn a_wrong_length_allocates_nothing() {
    // A string, a list, a hash of 2^62 bytes or elements; a string that would decompress to 2^40 bytes.
    for body in [
        &b"\x00\x81\x40\0\0\0\0\0\0\0abc"[..],
        b"\x01\x81\x40\0\0\0\0\0\0\0\x01a",
        b"\x04\x81\x40\0\0\0\0\0\0\0\x01a\x01b",
        b"\x00\xc3\x03\x81\0\0\x01\0\0\0\0\0\0ab",
    ] {
        assert!(value_of(body, Limits::FILE).is_err());
    }
    // 40 MB of decompressed elements from 150 KB.
    let big = vec![b'1'; 40_000_000];
    let mut payload = Vec::new();
    encode(&mut payload, &Value::List(vec![big]), Form::Packed);
    assert!(payload.len() < 500_000);
    assert!(decode(&payload, LIMITS).is_err());
    assert!(decode(&payload, Limits::FILE).is_ok());
}

#[test]
fn a_payload_of_another_version_or_checksum_is_refused() {
    let mut payload = Vec::new();
    encode(&mut payload, &Value::String(b"value".to_vec()), Form::Packed);
    assert_eq!(decode(&payload, LIMITS).unwrap(), Value::String(b"value".to_vec()));
    for at in 0..payload.len() {
        let mut damaged = payload.clone();
        damaged[at] ^= 1;
        assert!(body(&damaged).is_none(), "{at}");
    }
    let version = payload.len() - 10;
    for (number, is_read) in [(9, true), (12, true), (13, false), (80, false)] {
        payload[version] = number;
        payload[version + 2..].fill(0);
        assert_eq!(body(&payload).is_some(), is_read, "version {number}");
    }
    assert!(decode(b"", LIMITS).is_err());
}

#[test]
fn what_no_command_could_have_made_is_refused() {
    let nan = f64::NAN.to_le_bytes();
    let bodies: [&[u8]; 5] = [
        b"\x02\x02\x01a\x01a",
        b"\x04\x02\x01a\x01b\x01a\x01c",
        b"\x02\x00",
        b"\x01\x00",
        &[b"\x05\x01\x01a", &nan[..]].concat(),
    ];
    for body in bodies {
        assert!(value_of(body, LIMITS).is_err(), "{}", body.escape_ascii());
    }
}

#[test]
fn a_module_s_value_is_skipped_and_named() {
    // The type "hellotype": a signed number, a double, a string.
    const CHARACTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let id = b"hellotype"
        .iter()
        .fold(0_u64, |id, byte| id << 6 | CHARACTERS.iter().position(|character| character == byte).unwrap() as u64)
        << 10;
    let mut file = b"REDIS0011\xfa\x05ctime\x01x\xfe\x00\xfb\x02\x00\x07\x03mod\x81".to_vec();
    file.extend_from_slice(&id.to_be_bytes());
    file.extend_from_slice(b"\x01\x05\x04\0\0\0\0\0\0\xf0\x3f\x05\x03abc\x00\x00\x03key\x05value\xf7\x81");
    file.extend_from_slice(&id.to_be_bytes());
    file.extend_from_slice(b"\x02\x02\x02\x09\x00\xff\0\0\0\0\0\0\0\0");
    let mut reader = Reader::new(&file[..], Limits::FILE).unwrap();
    assert_eq!(reader.next_entry().unwrap().unwrap().object, Object::Module("hellotype".into()));
    assert_eq!(reader.next_entry().unwrap().unwrap().key, b"key");
    assert_eq!(reader.next_entry().unwrap(), None);
    assert_eq!((reader.announced(), reader.left_out().len()), (2, 1));
}

/// The keys of a file by database and name, without what differs from one server to the next.
fn golden(file: &[u8]) -> std::collections::BTreeMap<(u64, Vec<u8>), (bool, Value)> {
    let (mut reader, mut found) = (Reader::new(file, Limits::FILE).unwrap(), std::collections::BTreeMap::new());
    while let Some(entry) = reader.next_entry().unwrap() {
        let Object::Value(mut value) = entry.object else { panic!("a module's value") };
        match &mut value {
            Value::Set(members) => members.sort(),
            Value::Hash(fields) => fields.sort_by(|one, other| one.name.cmp(&other.name)),
            Value::Stream(stream) => {
                // Redis 6.0 does not keep them.
                (stream.max_deleted, stream.added) = (EntryId::MIN, 0);
                for group in &mut stream.groups {
                    group.read = None;
                    group.consumers.iter_mut().for_each(|(_, seen_ms)| *seen_ms = 0);
                    group.pending.iter_mut().for_each(|entry| entry.delivered_ms = 0);
                }
            }
            _ => {}
        }
        found.insert((entry.database, entry.key), (entry.expires_at_ms != 0, value));
    }
    assert_eq!(reader.position(), file.len() as u64);
    found
}

#[test]
fn files_of_several_servers_have_the_same_keys() {
    // Made by the same commands; Redis 7.0 has a library of functions besides.
    let redis_7 = golden(include_bytes!("golden/redis-7.0.rdb"));
    assert_eq!(redis_7, golden(include_bytes!("golden/redis-6.0.rdb")));
    assert_eq!(redis_7, golden(include_bytes!("golden/valkey-8.1.rdb")));
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    let value = |key: &str| &redis_7[&(0, key.as_bytes().to_vec())].1;
    assert_eq!(redis_7.len(), 14);
    assert_eq!(*value("number"), Value::String(b"-70000".to_vec()));
    assert_eq!(*value("long"), Value::String(b"split point ".repeat(30)));
    assert_eq!(*value("list"), Value::List([texts(&["a", "b", "1"]), vec![vec![0xff]]].concat()));
    assert_eq!(*value("numbers"), Value::Set(texts(&["1", "2", "300"])));
    let members = [("c", f64::NEG_INFINITY), ("a", 1.0), ("b", 1.5)];
    assert_eq!(*value("zset"), Value::SortedSet(members.map(|(name, score)| (name.into(), score)).into()));
    let Value::Stream(stream) = value("stream") else { panic!("a stream") };
    assert_eq!(stream.entries.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>(), ["5-0", "6-0"]);
    assert_eq!(stream.entries[1].1, texts(&["g", "w"]));
    let [group] = &stream.groups[..] else { panic!("a group") };
    assert_eq!((group.pending.len(), group.pending[0].id.to_string()), (1, "5-0".into()));
    assert!(redis_7[&(0, b"passing".to_vec())].0 && redis_7.contains_key(&(3, b"other".to_vec())));
    let mut reader = Reader::new(&include_bytes!("golden/redis-7.0.rdb")[..], Limits::FILE).unwrap();
    while reader.next_entry().unwrap().is_some() {}
    assert_eq!(reader.left_out(), ["a library of functions, `#!lua name=lib`"]);
}

#[test]
fn fields_that_have_expired_are_left_out_and_a_hash_without_others_is_gone() {
    let field = |name: &str, expires_at_ms| Field { name: name.into(), value: Vec::new(), expires_at_ms };
    let hash =
        |fields: &[Field]| Entry { object: Object::Value(Value::Hash(fields.to_vec())), ..Entry::of_pair(b"key", b"") };
    let (old, kept) = (field("old", 1), field("kept", u64::MAX));
    let mut entry = hash(&[old.clone(), kept.clone()]);
    assert!(entry.expire());
    assert_eq!(entry, hash(&[kept]));
    assert!(!hash(&[old]).expire());
    assert!(!Entry { expires_at_ms: 1, ..Entry::of_pair(b"key", b"value") }.expire());
}

#[test]
fn a_key_that_expires_before_1970_has_expired() {
    for (at_ms, expires_at_ms) in [(-1, 1), (i64::MIN, 1), (0, 1), (i64::MAX, i64::MAX as u64)] {
        let file = [&b"REDIS0003\xfe\x00\xfc"[..], &at_ms.to_le_bytes(), b"\x00\x01k\x01v\xff"].concat();
        let entry = Reader::new(&file[..], Limits::FILE).unwrap().next_entry().unwrap().unwrap();
        assert_eq!(entry.expires_at_ms, expires_at_ms, "{at_ms}");
    }
}
