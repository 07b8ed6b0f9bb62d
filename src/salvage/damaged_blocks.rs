//! Salvage of files that were damaged block by block: which pairs are found, and that no wrong one is called verified.
//!
//! The values of a key at each checkpoint are known. A verified pair must be from the last checkpoint; an unverified
//! one, from any.

use super::{SalvageReport, Salvaged};
use crate::io::simulated::{Simulated, State};
use crate::io::{Mode, Storage};
use crate::pager::HEADER_BYTES;
use crate::pager::blocks::tree::{Kind, LoneNode, NodeId, encode_node, fanout};
use crate::pager::file::headers::{CheckpointHeader, Entry};
use crate::pager::file::sums::frame_sum;
use crate::random::Random;
use crate::table::{Table, TableOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "t.spt";
const BLOCK: usize = 4096;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A table's file and what it contains.
struct Sample {
    file: Vec<u8>,
    pairs: Pairs,
    former: BTreeSet<(Vec<u8>, Vec<u8>)>,
    /// The file and its pairs at the checkpoint before.
    before: (Vec<u8>, Pairs),
}

fn options(disk: &Simulated, page_bytes: u32) -> TableOptions {
    let mut options = TableOptions::new().page_bytes(page_bytes).seed(1).log_bytes(1 << 30);
    options.storage = Arc::new(disk.clone());
    options
}

/// Makes a table of `count` pairs. The first round puts all of them, each later round the first `changed`.
fn sample(page_bytes: u32, count: u32, rounds: u8, changed: u32, value_bytes: usize) -> Sample {
    let disk = Simulated::new(State::default());
    let table = options(&disk, page_bytes).open(PATH).unwrap();
    let content = || disk.state().content(Path::new(PATH)).unwrap().to_vec();
    let mut sample = Sample { file: vec![], pairs: Pairs::new(), former: BTreeSet::new(), before: Default::default() };
    for round in 0..rounds {
        if round > 0 {
            sample.before = (content(), sample.pairs.clone());
        }
        for n in 0..if round == 0 { count } else { changed } {
            let (key, value) = (n.to_be_bytes(), vec![round; value_bytes]);
            table.put(&key, &value).unwrap();
            sample.former.insert((key.to_vec(), value.clone()));
            sample.pairs.insert(key.to_vec(), value);
        }
        table.checkpoint().unwrap();
    }
    sample.file = content();
    drop::<Table>(table);
    sample
}

fn small() -> Sample {
    sample(512, 30, 3, 30, 90)
}

/// Makes a table with several leaves, of which later checkpoints write the first.
fn large() -> Sample {
    let sample = sample(4096, 9000, 3, 500, 300);
    assert!(leaves(&sample.file).len() > 1, "{} bytes", sample.file.len());
    sample
}

#[derive(Default)]
struct Found {
    verified: Pairs,
    unverified: Pairs,
    faults: Vec<String>,
    report: SalvageReport,
}

impl Found {
    fn all(&self) -> Pairs {
        self.verified.clone().into_iter().chain(self.unverified.clone()).collect()
    }
}

fn salvaged(file: &[u8]) -> crate::Result<Found> {
    let mut state = State::default();
    state.add_file(Path::new(PATH), file);
    let mut found = Found::default();
    let report = options(&Simulated::new(state), 512).salvage(PATH, |event| {
        match event {
            Salvaged::Pair { key, value, verified } => {
                assert!(!found.verified.contains_key(key) && !found.unverified.contains_key(key), "twice: {key:?}");
                let pairs = if verified { &mut found.verified } else { &mut found.unverified };
                pairs.insert(key.to_vec(), value.to_vec());
            }
            Salvaged::Fault(fault) => found.faults.push(fault.to_string()),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    assert_eq!((report.verified, report.unverified), (found.verified.len() as u64, found.unverified.len() as u64));
    found.report = report;
    Ok(found)
}

impl Sample {
    /// Returns the nodes of earlier checkpoints, which remain in free blocks until these are reused.
    fn former_nodes(&self) -> Vec<u8> {
        let file = &self.before.0;
        nodes(file).flat_map(|(block, _)| file[BLOCK * block..][..BLOCK].to_vec()).collect()
    }

    /// Salvages `file`, and checks that no pair is wrong.
    fn check(&self, file: &[u8], what: &str) -> Found {
        let found = salvaged(file).unwrap_or_else(|e| panic!("{what}: {e}"));
        for (key, value) in &found.verified {
            assert_eq!(self.pairs.get(key), Some(value), "{what}: key {key:?} is wrong, {:?}", found.faults);
        }
        for (key, value) in &found.unverified {
            assert!(self.former.contains(&(key.clone(), value.clone())), "{what}: key {key:?}, {:?}", found.faults);
        }
        assert_eq!(found.report.is_whole(), found.verified == self.pairs, "{what}: {:?}", found.report);
        assert!(found.report.is_whole() || !found.faults.is_empty(), "{what}: no fault is reported");
        found
    }
}

/// Returns the last header of a file.
fn header(file: &[u8]) -> CheckpointHeader {
    let mut state = State::default();
    state.add_file(Path::new(PATH), file);
    let file = Simulated::new(state).open(Path::new(PATH), Mode::Read).unwrap();
    CheckpointHeader::newest_whole(file.as_ref()).unwrap().0
}

/// Returns the block and content of each node, of all checkpoints.
fn nodes(file: &[u8]) -> impl Iterator<Item = (usize, LoneNode)> {
    file.chunks_exact(BLOCK).enumerate().filter_map(|(block, bytes)| Some((block, LoneNode::parse(bytes)?)))
}

/// Returns the blocks of the leaves of the last checkpoint, by number.
fn leaves(file: &[u8]) -> BTreeMap<u32, usize> {
    let mut newest = BTreeMap::new();
    for (block, node) in nodes(file).filter(|(_, node)| node.id.kind == Kind::Map && node.id.level == 0) {
        let entry = newest.entry(node.id.number).or_insert((node.checkpoint, block));
        *entry = (*entry).max((node.checkpoint, block));
    }
    newest.into_iter().map(|(number, (_, block))| (number, block)).collect()
}

fn erase(file: &mut [u8], at: usize) {
    file[at..at + BLOCK].fill(0);
}

#[test]
fn an_undamaged_file_of_blocks_is_salvaged_whole() {
    for sample in [small(), large(), sample(512, 50, 2, 50, 3000)] {
        let found = sample.check(&sample.file, "undamaged");
        assert!(found.report.is_whole() && found.faults.is_empty(), "{:?} {:?}", found.report, found.faults);
    }
}

#[test]
fn a_flipped_bit_makes_no_wrong_pair_verified() {
    let sample = small();
    let of_nodes: Vec<usize> = nodes(&sample.file).map(|(block, _)| block).collect();
    let mut file = sample.file.clone();
    for at in (0..file.len()).step_by(5) {
        let bit = 1 << (at % 8);
        file[at] ^= bit;
        let found = sample.check(&file, &format!("byte {at}, bit {bit}"));
        let block = at / BLOCK;
        assert!(block >= 2 || found.report.is_whole(), "byte {at}: {:?}", found.faults);
        let of_node = of_nodes.contains(&block);
        assert!(!of_node || found.all().len() == sample.pairs.len(), "byte {at}: {:?}", found.faults);
        file[at] ^= bit;
    }
}

#[test]
fn without_a_header_the_leaves_of_the_last_checkpoint_count() {
    for sample in [small(), large()] {
        for header in [0, HEADER_BYTES] {
            let mut file = sample.file.clone();
            erase(&mut file, header);
            assert!(sample.check(&file, "a header").report.is_whole(), "the other one has the same");
        }
        let mut file = sample.file.clone();
        file[..2 * HEADER_BYTES].fill(0);
        file.extend(sample.former_nodes());
        let found = sample.check(&file, "both headers");
        assert!(found.unverified == sample.pairs, "{:?} {:?}", found.report, found.faults);
        assert_eq!(found.report.counted, None);
    }
}

#[test]
fn a_header_that_may_be_an_old_one_verifies_nothing() {
    let sample = small();
    // As after a crash before the copy: the last header in its own place, the one before in the other.
    let own = (header(&sample.file).table.sequence % 2) as usize * HEADER_BYTES;
    let old = HEADER_BYTES - own;
    let mut file = sample.file.clone();
    file[old..old + HEADER_BYTES].copy_from_slice(&sample.before.0[..HEADER_BYTES]);
    assert!(sample.check(&file, "an old copy").report.is_whole());
    erase(&mut file, own);
    let found = sample.check(&file, "the last header");
    assert!(found.verified.is_empty() && found.unverified == sample.before.1, "{:?}", found.faults);
    assert_eq!(found.report.counted, None);
}

#[test]
fn without_the_top_node_each_leaf_is_found() {
    let sample = large();
    let mut file = sample.file.clone();
    for (block, _) in nodes(&sample.file).filter(|(_, node)| node.id.level > 0) {
        erase(&mut file, BLOCK * block);
    }
    let found = sample.check(&file, "nodes above the leaves");
    assert!(found.unverified == sample.pairs, "{:?} {:?}", found.report, found.faults);
}

#[test]
fn a_lost_leaf_costs_no_pair_of_another() {
    let sample = large();
    for (number, block) in leaves(&sample.file) {
        for has_former in [false, true] {
            let mut file = sample.file.clone();
            erase(&mut file, BLOCK * block);
            if has_former {
                file.extend(sample.former_nodes());
            }
            let found = sample.check(&file, &format!("leaf {number}"));
            let lost = sample.pairs.len() - found.all().len();
            assert!(lost < sample.pairs.len() / 4, "leaf {number}: {lost} pairs are lost, {:?}", found.faults);
            // Leaf 0 has the used bits, without which no page is known to be current.
            let has_verified = found.verified.len() > sample.pairs.len() / 10;
            assert!(has_verified || number == 0, "leaf {number}: {:?}", found.report);
            assert!(!found.unverified.is_empty(), "leaf {number}");
        }
    }
}

#[test]
fn without_leaves_pages_are_recognized() {
    let sample = sample(512, 200, 1, 0, 90);
    let mut file = sample.file.clone();
    for (block, node) in nodes(&sample.file) {
        if node.id.kind == Kind::Map {
            erase(&mut file, BLOCK * block);
        }
    }
    let found = sample.check(&file, "leaves");
    let count = found.unverified.len();
    assert!(found.verified.is_empty() && count > 100, "{count} {:?}", found.faults);
    file[..2 * HEADER_BYTES].fill(0);
    assert_eq!(sample.check(&file, "leaves and headers").unverified, found.unverified);
}

#[test]
fn references_are_not_followed_in_blocks_of_unknown_frames() {
    let sample = sample(512, 50, 1, 0, 3000);
    let mut file = sample.file.clone();
    file[..HEADER_BYTES].fill(0);
    for (block, node) in nodes(&sample.file) {
        if node.id.kind == Kind::Map {
            erase(&mut file, BLOCK * block);
        }
    }
    let mut damaged = file.clone();
    damaged[HEADER_BYTES + 300] ^= 1;
    for file in [file, damaged] {
        let found = sample.check(&file, "extents");
        assert!(found.all().is_empty() && found.report.losses > 0, "{:?} {:?}", found.report, found.faults);
    }
}

#[test]
fn a_file_of_blocks_that_was_cut_gives_what_is_left() {
    let sample = large();
    let mut last = sample.pairs.len();
    for part in (0..8).rev() {
        let bytes = sample.file.len() / 8 * part + 100;
        if let Ok(found) = salvaged(&sample.file[..bytes]) {
            let found = if found.report.pairs() > 0 { sample.check(&sample.file[..bytes], "cut") } else { found };
            let given = found.all().len();
            assert!(given <= last && (given > 0 || part == 0), "{given} of {last}: {:?}", found.faults);
            last = given;
        } else {
            assert_eq!(part, 0);
        }
    }
}

#[test]
fn any_damage_makes_no_wrong_pair_verified() {
    let samples = [small(), large()];
    for seed in 0..150 {
        let mut random = Random::new(&[seed, 91]);
        let sample = &samples[usize::from(seed % 10 == 0)];
        let mut file = sample.file.clone();
        let of_map: Vec<usize> = nodes(&file).map(|(block, _)| block).collect();
        for _ in 0..1 + random.below(4) {
            let block = match random.below(3) {
                0 => random.below(4),
                1 => random.pick(&of_map),
                _ => random.below(file.len() / BLOCK),
            };
            let bytes = &mut file[block * BLOCK..(block + 1) * BLOCK];
            match random.below(3) {
                0 => bytes.fill(0),
                1 => bytes[random.below(BLOCK)] ^= 1 << random.below(8),
                _ => bytes.iter_mut().for_each(|byte| *byte = random.below(256) as u8),
            }
        }
        sample.check(&file, &format!("seed {seed}"));
    }
}

#[test]
fn hostile_leaves_end() {
    let sample = small();
    let header = header(&sample.file);
    // Leaves in which every entry names the block of frame 3, with matching checksums.
    let leaf = header.map.block as usize * BLOCK;
    let block = Entry::parse(&sample.file[leaf + 64 + 12 * 3..]).block;
    let content = &sample.file[block as usize * BLOCK..][..BLOCK];
    let fanout = fanout(BLOCK) as u32;
    let encode = |number: u32, checkpoint: u64| {
        let first = number.wrapping_mul(fanout);
        let entry = |frame: u32| Entry::at(block, frame_sum(first.wrapping_add(frame), content));
        let id = NodeId { kind: Kind::Map, level: 0, number };
        encode_node(BLOCK, header.table.table_id, checkpoint, id, &(0..fanout).map(entry).collect::<Vec<_>>()).0
    };
    let numbers: [fn(u32) -> u32; 4] = [|n| n, |_| 0, |n| u32::MAX - n, |n| u32::MAX / 504 - n % 2];
    for has_headers in [true, false] {
        for number in numbers {
            let mut file = sample.file.clone();
            match has_headers {
                true => erase(&mut file, leaf),
                false => file[..2 * HEADER_BYTES].fill(0),
            }
            (0..40).for_each(|n| file.extend(encode(number(n), u64::from(n % 3))));
            salvaged(&file).unwrap();
        }
    }
}

#[test]
fn a_header_of_more_frames_than_the_file_can_have_ends() {
    let sample = small();
    let mut header = header(&sample.file);
    for frame_count in [10_000_000, u32::MAX] {
        header.table.frame_count = frame_count;
        header.table.map_groups = std::array::from_fn(|k| if k < 23 { 3 } else { 0 });
        let mut file = sample.file.clone();
        file[..HEADER_BYTES].copy_from_slice(&header.encode());
        file[HEADER_BYTES..2 * HEADER_BYTES].copy_from_slice(&header.encode());
        let found = salvaged(&file).unwrap();
        assert!(found.report.pairs() > 0 && found.verified.is_empty(), "{:?}", found.faults);
    }
}
