//! Tests opening a table of 100 GB: the file has the nodes and bitmaps that an open reads, and holes for the frames.

use super::Blocks;
use super::commit::bitmap_sum;
use super::room::{homes, region_blocks};
use super::tree::{Kind, NodeId, encode_node, fanout};
use crate::io::{Disk, File, Mode, Storage};
use crate::pager::file::TableFile;
use crate::pager::file::header::{Header, ROOT_BYTES};
use crate::pager::file::headers::{CheckpointHeader, Entry, Headers};
use crate::pager::file::held::Held;
use crate::pager::file::map_frames::ZONE_FRAMES;
use std::path::Path;
use std::sync::Arc;

const BLOCK_BYTES: usize = 4096;
const FRAMES: u32 = (100_000_000_000 / BLOCK_BYTES as u64) as u32;
const TABLE_ID: u64 = 7;

/// Writes what an open reads. The frames, and the leaves of their map, are in the first blocks.
fn make(file: &dyn File) {
    let mut next = FRAMES + 60_000;
    let write = |block: u32, bytes: &[u8]| file.write_at(bytes, u64::from(block) * BLOCK_BYTES as u64).unwrap();
    let mut write_tree = |kind: Kind, mut level: u32, mut entries: Vec<Entry>| {
        while entries.len() > 1 || level == 0 {
            let mut above = Vec::new();
            for (number, children) in (0..).zip(entries.chunks(fanout(BLOCK_BYTES))) {
                while homes(next / region_blocks(BLOCK_BYTES), BLOCK_BYTES).contains(&next) {
                    next += 1;
                }
                let (bytes, sum) = encode_node(BLOCK_BYTES, TABLE_ID, 1, NodeId { kind, level, number }, children);
                write(next, &bytes);
                above.push(Entry::at(next, sum));
                next += 1;
            }
            (entries, level) = (above, level + 1);
        }
        entries[0]
    };
    let leaves = FRAMES.div_ceil(fanout(BLOCK_BYTES) as u32);
    let map = write_tree(Kind::Map, 1, (0..leaves).map(|leaf| Entry::at(10 + leaf, 1)).collect());
    let used = [0xFF; BLOCK_BYTES];
    let regions = (FRAMES + 70_000).div_ceil(region_blocks(BLOCK_BYTES));
    let bitmap = |region: u32| {
        let [home, _] = homes(region, BLOCK_BYTES);
        write(home, &used);
        Entry::at(home, bitmap_sum(region, &used))
    };
    let room = write_tree(Kind::Room, 0, (0..regions).map(bitmap).collect());
    let mut map_groups = [0; 24];
    let mut start = 3;
    for (k, group) in map_groups.iter_mut().enumerate() {
        if (u64::from(ZONE_FRAMES) << k) < u64::from(FRAMES) {
            *group = start;
            start += 2 << k;
        }
    }
    let table = Header { frame_bytes: BLOCK_BYTES, table_id: TABLE_ID, sequence: 1, frame_count: FRAMES, map_groups };
    let length = regions * region_blocks(BLOCK_BYTES);
    let header = CheckpointHeader { table, id: 1, parent: 0, length, map, room, root: vec![0; ROOT_BYTES] };
    file.set_len(u64::from(length) * BLOCK_BYTES as u64).unwrap();
    header.write(file, false).and_then(|()| header.write(file, true)).unwrap();
}

/// Returns the number of bytes that this thread has read.
#[expect(clippy::disallowed_methods, reason = "a count of the system, not a table")]
fn bytes_read() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

#[test]
fn an_open_of_a_hundred_gigabytes_reads_four_megabytes_at_most() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let storage: Arc<dyn Storage> = Arc::new(Disk);
    let open = |mode: Mode, path: &Path| -> Arc<dyn File> { storage.open(path, mode).unwrap().into() };
    make(open(Mode::New, &path).as_ref());
    for read_only in [true, false] {
        let handle = open(if read_only { Mode::Read } else { Mode::Write }, &path);
        let (before, start) = (bytes_read(), std::time::Instant::now());
        let Headers::Last(header, true) = Headers::read(&path, handle.as_ref()).unwrap() else { panic!("no header") };
        let held = read_only.then_some(Held { is_kept: false });
        let file = TableFile::with_header(storage.clone(), path.clone(), handle, held, &header);
        let blocks = Blocks::open(&file, *header, true, 1000).unwrap();
        println!("read-only {read_only}: {:?}", start.elapsed());
        assert_eq!(blocks.map.lock().leaves.len() as u32, FRAMES.div_ceil(fanout(BLOCK_BYTES) as u32));
        match before.zip(bytes_read()) {
            Some((before, after)) => assert!(after - before < 4_000_000, "{} bytes", after - before),
            None => println!("SKIPPED: this system does not count the bytes that a thread reads"),
        }
    }
}
