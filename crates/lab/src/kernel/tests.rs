//! On generated keys, caches agree with plain models, and the paper's observations are reproduced.
//!
//! Source: Lever 2000, section 3.

use super::caches::{Limits, Pruning, Streams, resolve};
use super::disk::Disk;
use super::figures::{experiments, histograms};
use super::functions::{BufferFunction, BufferKey, InodeFunction, InodeKey};
use super::load::Tree;
use super::study::{Moment, Variant, measure, shape};
use super::table::{Action, NONE, Op, Stream};
use super::trace::{Event, Trace};
use std::collections::HashMap;
use std::ops::ControlFlow;
use tempfile::TempDir;

fn proceed() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Creates 120 files of 0 to 6 pages in 6 directories.
pub fn small_tree() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for directory in 0..6 {
        let directory = root.path().join(format!("part{directory}"));
        std::fs::create_dir(&directory).unwrap();
        for file in 0..20 {
            std::fs::write(directory.join(format!("file{file}.c")), vec![b'x'; file % 7 * 4000]).unwrap();
        }
    }
    root
}

fn small_load(scripts: usize) -> Trace {
    let root = small_tree();
    Tree::read(root.path(), &proceed).unwrap().load(scripts, 1, &proceed).unwrap()
}

fn small_limits() -> Limits {
    Limits { pages: 200, buffers: 300, dentries: 150, inodes: 90 }
}

/// Replays a stream on a map: inserts only absent keys, removes only present ones, finds exactly the present ones.
/// Returns the largest number of keys.
pub fn check_against_a_map<K: Copy + Eq + std::hash::Hash + std::fmt::Debug>(stream: &Stream<K>) -> usize {
    let (mut map, mut slots, mut most) = (HashMap::new(), HashMap::new(), 0);
    for Op { action, slot, key } in &stream.ops {
        match action {
            Action::Find => assert_eq!(*slot, map.get(key).copied().unwrap_or(NONE), "{key:?}"),
            Action::Insert => {
                assert_eq!(map.insert(*key, *slot), None, "{key:?} is present");
                assert_eq!(slots.insert(*slot, *key), None, "the slot of {key:?} is taken");
            }
            Action::Remove => {
                assert_eq!(map.remove(key), Some(*slot), "{key:?} is absent");
                slots.remove(slot);
            }
        }
        most = most.max(map.len());
    }
    most
}

#[test]
fn every_cache_keeps_its_limit_and_agrees_with_a_map() {
    let (trace, limits) = (small_load(6), small_limits());
    for pruning in [Pruning::Stock, Pruning::Shrink] {
        let streams = resolve(&trace, limits, pruning, &proceed).unwrap();
        assert_eq!(check_against_a_map(&streams.pages), limits.pages);
        assert_eq!(check_against_a_map(&streams.buffers), limits.buffers);
        assert!(check_against_a_map(&streams.dentries) <= limits.dentries);
        assert_eq!(check_against_a_map(&streams.inodes), limits.inodes);
    }
}

#[test]
fn buffers_are_evicted_least_recently_used_first() {
    let mut trace = Trace::new(1024);
    let mut state = 1u32;
    for _ in 0..20_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        trace.events.push(Event::Block { device: 1, block: (state >> 16) % 500 });
    }
    let streams = resolve(&trace, small_limits(), Pruning::Stock, &proceed).unwrap();
    let (mut used, mut hits) = (Vec::new(), Vec::new());
    for event in &trace.events {
        let Event::Block { block, .. } = event else { unreachable!("only blocks") };
        let place = used.iter().position(|known| known == block);
        hits.push(place.is_some());
        match place {
            Some(place) => drop(used.remove(place)),
            None if used.len() == small_limits().buffers => drop(used.remove(0)),
            None => {}
        }
        used.push(*block);
    }
    let finds = streams.buffers.ops.iter().filter(|op| op.action == Action::Find);
    assert_eq!(finds.map(|op| op.slot != NONE).collect::<Vec<_>>(), hits);
}

#[test]
fn every_kernel_finds_exactly_the_cached_objects() {
    let trace = small_load(4);
    let mut stock = resolve(&trace, small_limits(), Pruning::Stock, &proceed).unwrap();
    stock.others = super::processes::load(4, 1, &proceed).unwrap();
    let shrink = resolve(&trace, small_limits(), Pruning::Shrink, &proceed).unwrap();
    let streams = |pruning| if pruning == Pruning::Stock { &stock } else { &shrink };
    for experiment in experiments() {
        // A replay asserts every answer.
        let measured = measure(&experiment.kernels, &streams, 1, &proceed).unwrap();
        for (kernel, measured) in experiment.kernels.iter().zip(&measured) {
            assert_eq!(measured.shapes.len(), kernel.variants.len());
            assert!(measured.lookups_per_second > 0.0);
            for (variant, shaped) in kernel.variants.iter().zip(&measured.shapes) {
                // The shape of the timed replay equals that of a separate replay.
                assert_eq!(shape(*variant, streams(kernel.pruning), Moment::Full), *shaped);
            }
            for shape in &measured.shapes {
                let first = &measured.shapes[0];
                assert!(shape.counts.successful > 0 && shape.objects() > 0, "{} {}", kernel.name, first.cache);
            }
        }
        let hits = |index: usize| measured[index].shapes[0].counts.successful;
        assert!(
            (1..experiment.kernels.len())
                .all(|other| { experiment.kernels[other].pruning == Pruning::Shrink || hits(other) == hits(0) })
        );
    }
}

#[test]
fn shrinking_prunes_more() {
    let trace = small_load(6);
    let limits = Limits { dentries: 2000, inodes: 2000, ..small_limits() };
    let hits = |pruning| {
        let streams = resolve(&trace, limits, pruning, &proceed).unwrap();
        let misses = streams.dentries.ops.iter().filter(|op| op.action == Action::Find && op.slot == NONE);
        (misses.count(), streams.dentries.ops.iter().filter(|op| op.action == Action::Remove).count())
    };
    let (stock, shrink) = (hits(Pruning::Stock), hits(Pruning::Shrink));
    assert!(shrink.0 > stock.0 && shrink.1 > stock.1, "{stock:?} {shrink:?}");
}

/// Pruned dentries cause new lookups in the inode cache, which are charged to the kernel that pruned them.
#[test]
fn a_shrink_is_charged_for_lookups_in_other_caches() {
    let trace = small_load(6);
    let limits = Limits { dentries: 2000, inodes: 2000, ..small_limits() };
    let stock = resolve(&trace, limits, Pruning::Stock, &proceed).unwrap();
    let shrink = resolve(&trace, limits, Pruning::Shrink, &proceed).unwrap();
    let streams = |pruning| if pruning == Pruning::Stock { &stock } else { &shrink };
    let table_4 = experiments().into_iter().find(|table| table.number == 4).unwrap();
    let measured = measure(&table_4.kernels, &streams, 1, &proceed).unwrap();
    for (kernel, measured) in table_4.kernels.iter().zip(&measured) {
        let lookups: i64 = measured.charges.iter().map(|charge| charge.lookups).sum();
        assert_eq!(lookups > 0, kernel.name.starts_with("shrink"), "{} {:?}", kernel.name, measured.charges);
    }
}

/// The dentry was pruned and the inode evicted before the removal.
#[test]
fn a_file_is_removed_though_nothing_of_it_is_cached() {
    let mut trace = Trace::new(1024);
    let name = trace.name(b"file");
    let create = |inode| Event::Name { device: 1, directory: 2, inode, block: 0, name };
    trace.events.extend([create(0), create(12)]);
    trace.events.push(Event::Page { device: 1, inode: 12, page: 0, block: 5000, write: true });
    for other in 0..200 {
        let name = trace.name(format!("other{other}").as_bytes());
        trace.events.push(Event::Name { device: 1, directory: 2, inode: 100 + other, block: 0, name });
    }
    trace.events.extend([Event::Mark, Event::Remove { device: 1, directory: 2, name }]);
    let limits = Limits { dentries: 20, inodes: 20, ..Limits::of_memory(1000) };
    let buffers = resolve(&trace, limits, Pruning::Stock, &proceed).unwrap().buffers;
    let removed = |block| buffers.ops.iter().any(|op| op.action == Action::Remove && op.key.block == block);
    assert!((5000..5004).all(removed));
    assert!(!removed(6) && !removed(7));
}

#[test]
fn shapes_are_equal_for_equal_tree_and_seed() {
    let root = small_tree();
    let shapes = || {
        let trace = Tree::read(root.path(), &proceed).unwrap().load(3, 1, &proceed).unwrap();
        let streams = resolve(&trace, small_limits(), Pruning::Shrink, &proceed).unwrap();
        histograms()
            .into_iter()
            .map(|histogram| shape(histogram.variant, &streams, histogram.moment))
            .collect::<Vec<_>>()
    };
    assert_eq!(shapes(), shapes());
}

/// Bitmaps and inode tables, which have the same offset in every group.
#[test]
fn a_removed_file_leaves_its_metadata_in_the_buffer_cache() {
    let mut trace = Trace::new(1024);
    let name = trace.name(b"file");
    let create = |inode| Event::Name { device: 1, directory: 2, inode, block: 0, name };
    trace.events.extend([create(0), create(12)]);
    trace.events.push(Event::Page { device: 1, inode: 12, page: 0, block: 5000, write: true });
    trace.events.extend([Event::Mark, Event::Remove { device: 1, directory: 2, name }]);
    let buffers = resolve(&trace, Limits::of_memory(1000), Pruning::Stock, &proceed).unwrap().buffers;
    let kept = |ops: &[Op<BufferKey>]| {
        let mut blocks = std::collections::BTreeSet::new();
        for op in ops {
            match op.action {
                Action::Insert => drop(blocks.insert(op.key.block)),
                Action::Remove => drop(blocks.remove(&op.key.block)),
                Action::Find => {}
            }
        }
        blocks.into_iter().collect::<Vec<_>>()
    };
    // Two bitmaps, the inode table blocks of inodes 2 and 12, and the four blocks of the page.
    assert_eq!(kept(&buffers.ops[..buffers.mark]), [6, 7, 8, 9, 5000, 5001, 5002, 5003]);
    assert_eq!(kept(&buffers.ops), [6, 7, 8, 9]);
}

fn stream_of<K: Copy>(keys: impl Iterator<Item = K>) -> Stream<K> {
    let mut stream = Stream::default();
    for (slot, key) in (0..).zip(keys) {
        stream.ops.push(Op { action: Action::Find, slot: NONE, key });
        stream.ops.push(Op { action: Action::Insert, slot, key });
    }
    stream.slots = stream.ops.len() / 2;
    stream.mark = stream.ops.len();
    stream
}

/// Buffers of a disk with files in 256 directories, each in its own block group: runs of 18 to 273 blocks after the
/// inode table, about 37,000 in all.
fn buffers() -> Streams {
    let mut state = 1u32;
    let mut random = |below| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut disk = Disk::new(1024);
    let mut blocks = Vec::new();
    for group in 0..256 {
        disk.allocate_blocks(1, group, 1 + random(256));
        let count = 18 + random(256);
        let first = disk.allocate_blocks(1, group, count);
        blocks.extend(first..first + count);
    }
    let keys = blocks.into_iter().map(|block| BufferKey { device: 0x0801, block });
    Streams { buffers: stream_of(keys), ..Streams::default() }
}

#[test]
fn the_old_buffer_hash_leaves_most_buffers_in_long_buckets() {
    let full = shape(Variant::Buffer(BufferFunction::Stock, 14), &buffers(), Moment::Full);
    assert!((35_000..40_000).contains(&full.objects()), "{}", full.objects());
    assert!(full.objects_above(15) * 2 > full.objects(), "{:?}", full.sizes);
    assert!(full.sizes[&0] > 12_000);
}

#[test]
fn mult_11_has_no_long_buckets_and_peaks_near_the_mean() {
    let full = shape(Variant::Buffer(BufferFunction::Mult(11), 14), &buffers(), Moment::Full);
    assert_eq!(full.objects_above(15), 0);
    let highest = full.sizes.iter().max_by_key(|(_, buckets)| **buckets).map(|(size, _)| *size);
    assert!(matches!(highest, Some(1..=3)), "{:?}", full.sizes);
    assert!(full.sizes[&0] < 16_384 / 6, "{:?}", full.sizes);
}

/// 97 of 100 lookups miss, and each miss compares a whole bucket of 9,785 / 256 inodes.
#[test]
fn a_lookup_of_9785_inodes_in_256_buckets_compares_38() {
    let superblock = super::memory::address(super::memory::Kind::Superblock, 0);
    let inode = |n: u32| InodeKey { superblock, inode: n * 7 + 11 };
    let mut inodes = stream_of((0..9785).map(inode));
    let filled = inodes.ops.len();
    for n in 0..20_000 {
        let hit = n % 100 < 3;
        let (slot, key) = if hit { (n % 9785, inode(n % 9785)) } else { (NONE, inode(9785 + n)) };
        inodes.ops.push(Op { action: Action::Find, slot, key });
    }
    inodes.mark = inodes.ops.len();
    let mut before = inodes.clone();
    before.ops.truncate(filled);
    before.mark = filled;
    let counts = |stream: Stream<InodeKey>| {
        let streams = Streams { inodes: stream, ..Streams::default() };
        let counts = shape(Variant::Inode(InodeFunction::Stock, 8), &streams, Moment::Full).counts;
        counts.compared_in_successful + counts.compared_in_unsuccessful
    };
    let per_lookup = (counts(inodes) - counts(before)) as f64 / 20_000.0;
    assert!((35.0..41.0).contains(&per_lookup), "{per_lookup}");
}
