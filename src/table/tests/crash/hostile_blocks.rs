//! Files whose checksums all match but whose contents contradict each other: an error or a fault, and no header is ever
//! overwritten.

use super::workload::PATH;
use super::{Simulated, State, content_of};
use crate::checksum::{crc32c, crc32c_append};
use crate::error::ErrorKind;
use crate::little_endian::{u32_at, u64_at};
use crate::table::{Table, TableOptions};
use std::path::Path;
use std::sync::Arc;

const BLOCK: usize = 4096;
/// Offsets in a header and in a node, and the length of an entry: docs/format.md, "Headers" and "The two trees".
const NUMBER: usize = 16;
const LENGTH: usize = 28;
const MAP: usize = 152;
const ENTRY: usize = 12;
const ROOM: usize = MAP + ENTRY;
const ENTRIES: usize = 64;

fn options(state: State) -> TableOptions {
    let mut options = TableOptions::new().page_bytes(512).seed(1);
    options.storage = Arc::new(Simulated::new(state));
    options.inline_checkpoints = true;
    options
}

/// Returns the file of a closed table with free blocks.
fn file() -> Vec<u8> {
    let disk = Simulated::new(State::default());
    let mut options = options(State::default());
    options.storage = Arc::new(disk.clone());
    let table = options.open(PATH).unwrap();
    for round in 0..3u8 {
        (0..300u32).for_each(|n| table.put(&n.to_be_bytes(), &[round; 90]).unwrap());
        table.checkpoint().unwrap();
    }
    table.close().unwrap();
    disk.state().content(Path::new(PATH)).unwrap().to_vec()
}

/// Returns the offset of the header that counts.
fn header(bytes: &[u8]) -> usize {
    if u64_at(bytes, NUMBER) > u64_at(bytes, BLOCK + NUMBER) { 0 } else { BLOCK }
}

fn set(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// Changes the header that counts, and stores it as both headers.
fn change_header(bytes: &mut [u8], change: impl FnOnce(&mut [u8])) {
    let at = header(bytes);
    let mut new = bytes[at..at + BLOCK].to_vec();
    change(&mut new);
    let sum = match crc32c(&new[..BLOCK - 4]) {
        0 => u32::MAX,
        sum => sum,
    };
    set(&mut new, BLOCK - 4, sum);
    bytes[..BLOCK].copy_from_slice(&new);
    bytes[BLOCK..2 * BLOCK].copy_from_slice(&new);
}

/// Changes the node that the header's entry at `entry` names.
fn change_node(bytes: &mut [u8], entry: usize, change: impl FnOnce(&mut [u8])) {
    let at = header(bytes) + entry;
    let start = u32_at(bytes, at) as usize * BLOCK;
    let node = &mut bytes[start..start + BLOCK];
    change(node);
    let sum = crc32c_append(crc32c(&node[..60]), &node[64..]);
    set(node, 60, sum);
    change_header(bytes, |header| set(header, entry + 4, sum));
}

/// Returns the numbers of the frames that were written.
fn written(leaf: &[u8]) -> Vec<usize> {
    (0..(BLOCK - ENTRIES) / ENTRY).filter(|frame| u32_at(leaf, ENTRIES + ENTRY * frame) != 0).collect()
}

#[test]
fn files_of_blocks_that_contradict_themselves_are_errors_and_not_written_over() {
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, &str, Change); 11] = [
        ("a frame in the block of a header", "leaf 0 of the block map: a frame is in block 1", |bytes| {
            change_node(bytes, MAP, |leaf| set(leaf, ENTRIES + ENTRY * written(leaf)[0], 1));
        }),
        ("a frame in the home of a bitmap", "leaf 0 of the block map: a frame is in block 3", |bytes| {
            change_node(bytes, MAP, |leaf| set(leaf, ENTRIES + ENTRY * written(leaf)[0], 3));
        }),
        ("a frame beyond the end", "leaf 0 of the block map: a frame is in block 4294967294", |bytes| {
            change_node(bytes, MAP, |leaf| set(leaf, ENTRIES + ENTRY * written(leaf)[0], u32::MAX - 1));
        }),
        ("two frames in a block", "frame 4: checksum mismatch in block", |bytes| {
            change_node(bytes, MAP, |leaf| {
                let frames = written(leaf);
                let entry = leaf[ENTRIES + ENTRY * frames[3]..][..ENTRY].to_vec();
                leaf[ENTRIES + ENTRY * frames[4]..][..ENTRY].copy_from_slice(&entry);
            });
        }),
        ("a frame that is not there", "is not used, and its bitmap says it is used", |bytes| {
            change_node(bytes, MAP, |leaf| set(leaf, ENTRIES + ENTRY * written(leaf)[3], 0));
        }),
        ("a map in the block of a header", "the block map is in block 1 of", |bytes| {
            change_header(bytes, |header| set(header, MAP, 1))
        }),
        ("a map beyond the end", "the block map is in block 4294967295 of", |bytes| {
            change_header(bytes, |header| set(header, MAP, u32::MAX))
        }),
        ("the same node in both trees", "its block has another node", |bytes| {
            change_header(bytes, |header| {
                let map = header[MAP..ROOM].to_vec();
                header[ROOM..ROOM + ENTRY].copy_from_slice(&map);
            });
        }),
        ("more blocks than the file has", "cut to", |bytes| {
            change_header(bytes, |header| set(header, LENGTH, 1 << 30))
        }),
        ("more frames than the map has", "map frames for 512 frames of 400000", |bytes| {
            change_header(bytes, |header| set(header, 24, 400_000))
        }),
        ("a bitmap in another place", "the bitmap of region 0 is in block 7", |bytes| {
            change_node(bytes, ROOM, |node| set(node, ENTRIES, 7))
        }),
    ];
    let whole = file();
    let expected = content_of(&options(State::default()).in_state(&whole).open(PATH).unwrap(), false).unwrap();
    for (what, expected_text, change) in changes {
        let mut bytes = whole.clone();
        change(&mut bytes);
        let opened = options(State::default()).in_state(&bytes).open(PATH);
        let found: Result<(), _> = opened.map_err(|e| (e.kind(), e.to_string())).and_then(|table: Table| {
            let fail = |e: crate::Error| (e.kind(), e.to_string());
            let faults = table.verify().map_err(fail)?;
            assert!(!faults.is_empty() || content_of(&table, false).as_ref() == Ok(&expected), "{what}");
            // Writes that free and allocate blocks may fail, but must not panic.
            for n in 0..300u32 {
                table.put(&n.to_be_bytes(), &[9; 90]).map_err(fail)?;
            }
            (0..2).try_for_each(|_| table.checkpoint().map_err(fail))?;
            Err((ErrorKind::Corrupt, format!("{faults:?}")))
        });
        let (kind, text) = found.unwrap_err();
        assert!(kind == ErrorKind::Corrupt && text.contains(expected_text), "{what}: {kind:?}, {text}");
    }
}

impl TableOptions {
    /// Returns the options for a disk with a file of these bytes.
    fn in_state(mut self, bytes: &[u8]) -> TableOptions {
        let mut state = State::default();
        state.add_file(Path::new(PATH), bytes);
        self.storage = Arc::new(Simulated::new(state));
        self
    }
}
