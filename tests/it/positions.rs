//! `fixtures/positions.tsv`: positions in hash order and slots of some keys, which other languages must compute the
//! same way.

use splitpoint::hash::HashKind;
use splitpoint::linear::Position;
use std::fmt::Write;

const KEYS: &[&[u8]] =
    &[b"", b"a", b"foo", b"{user1}.name", b"{}x", b"123456789", b"\x00\xff", "schlüssel".as_bytes(), &[b'k'; 300]];

#[test]
fn positions_and_slots_are_those_of_the_fixture() {
    let mut text = "# key in hex, hash function, seed, position, slot\n".to_owned();
    for (kind, seed) in [(HashKind::Xxh3, 0), (HashKind::Xxh3, 42), (HashKind::Sip13, 7), (HashKind::Crc32c, 0)] {
        for key in KEYS {
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            let (position, slot) = (Position::of(kind.hash(key, seed)).0, splitpoint::shards::slot(key));
            writeln!(text, "{hex}\t{}\t{seed}\t{position}\t{slot}", kind.name()).unwrap();
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/positions.tsv");
    let fixture = std::fs::read_to_string(path).unwrap();
    assert!(text == fixture, "the fixture should be:\n{text}");
}
