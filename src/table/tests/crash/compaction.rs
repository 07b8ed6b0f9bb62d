//! Crashes while a compaction moves extents, groups of buckets and map frames, or a close moves frames to shorten the
//! file: neither changes a pair.

use super::workload::{Content, PATH};
use super::{Crash, Simulated, State, Tally, content_of, each_crash};
use crate::random::Random;
use crate::table::{Durability, Table, TableOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

fn open(disk: &Simulated, durability: Durability) -> Table {
    open_with_cache(disk, durability, 1 << 20)
}

fn open_with_cache(disk: &Simulated, durability: Durability, cache_bytes: u64) -> Table {
    let mut options = TableOptions::new().page_bytes(512).seed(1).cache_bytes(cache_bytes).durability(durability);
    options.storage = Arc::new(disk.clone());
    options.inline_checkpoints = true;
    options.open(PATH).unwrap()
}

/// A disk with a table of more than a zone, of which the first half is nearly empty.
fn disk_with_holes(durability: Durability) -> (State, Content) {
    let disk = Simulated::new(State::default());
    let table = open(&disk, durability);
    let bytes = |n: u32| if n.is_multiple_of(10) { 60_000 } else { 30 + n as usize * 7 % 3000 };
    (0..600u32).for_each(|n| table.put(&n.to_le_bytes(), &vec![n as u8; bytes(n)]).unwrap());
    (0..500u32).filter(|n| n % 11 != 0).for_each(|n| assert!(table.remove(&n.to_le_bytes()).unwrap()));
    table.append(b"grown", &[1; 40_000]).unwrap();
    (0..6).for_each(|n| _ = table.append(b"grown", &vec![n; 50_000]).unwrap());
    let content = content_of(&table, false).unwrap();
    table.close().unwrap();
    (disk.state(), content)
}

#[test]
fn a_crash_at_any_call_of_a_compaction_loses_no_pair_and_it_can_be_repeated() {
    let (mut checkpoints, mut moved_maps, mut repeated) = (0, false, 0);
    for durability in [Durability::Os, Durability::None] {
        let (base, content) = disk_with_holes(durability);
        let disk = Simulated::new(base.clone());
        let table = open(&disk, durability);
        let (frames, maps) = (table.pager.frame_count(), table.pager.allocator().movable_maps(u32::MAX));
        let before = table.counters().checkpoints;
        let checkpoint = |_, _| {
            table.checkpoint().unwrap();
            ControlFlow::Continue(())
        };
        table.compact_with(checkpoint).unwrap();
        checkpoints += table.counters().checkpoints - before;
        moved_maps |= table.pager.allocator().movable_maps(u32::MAX) != maps;
        let compacted = table.pager.frame_count();
        assert!(compacted < frames / 2, "{compacted} of {frames} frames");
        drop(table);
        let mut random = Random::new(&[1]);
        let crashes = each_crash(&base, &disk.trace(), &mut Random::new(&[2]), |call, state| {
            // Most calls write one of many frames.
            if !random.percent(7) {
                return Ok(());
            }
            for crash in [Crash::Kill, Crash::LoseUnsynced, Crash::Mix] {
                let at = |e: String| format!("{durability:?}, crash at call {call}, {crash:?}: {e}");
                let left = Simulated::new(state.survivors(crash, &mut random, &mut Tally::default()));
                let table = open(&left, durability);
                if content_of(&table, false).map_err(at)? != content {
                    return Err(at("other pairs".into()));
                }
                if random.percent(10) {
                    table.compact().unwrap();
                    let again = table.pager.frame_count();
                    if content_of(&table, false).map_err(at)? != content || again > compacted + compacted / 20 {
                        return Err(at(format!("compacted again to {again} frames, not {compacted}")));
                    }
                    repeated += 1;
                }
            }
            Ok(())
        });
        crashes.unwrap_or_else(|e| panic!("{e}"));
    }
    assert!(checkpoints > 4 && moved_maps && repeated > 3, "{checkpoints} checkpoints, {repeated} repeated");
}

#[test]
fn a_crash_at_any_call_of_a_close_that_shortens_the_file_loses_no_pair() {
    let disk = Simulated::new(State::default());
    let put_all = |table: &Table, round: u8| {
        (0..20_000u32).for_each(|n| table.put(&n.to_le_bytes(), &[round; 100]).unwrap());
        content_of(table, false).unwrap()
    };
    let table = open_with_cache(&disk, Durability::None, 64 << 20);
    put_all(&table, 0);
    table.checkpoint().unwrap();
    let before = put_all(&table, 1);
    table.checkpoint().unwrap();
    let base = disk.state();
    let bytes = |state: &State| state.content(Path::new(PATH)).unwrap().len();
    let disk = Simulated::new(base.clone());
    let table = open_with_cache(&disk, Durability::None, 64 << 20);
    let after = put_all(&table, 2);
    table.close().unwrap();
    let (long, short) = (bytes(&base), bytes(&disk.state()));
    assert!(short + (1 << 20) < long, "{long} bytes before the close, {short} after");
    let mut random = Random::new(&[1]);
    let mut found_count = [0, 0];
    let crashes = each_crash(&base, &disk.trace(), &mut Random::new(&[2]), |call, state| {
        for crash in [Crash::Kill, Crash::LoseUnsynced, Crash::Mix] {
            let left = Simulated::new(state.survivors(crash, &mut random, &mut Tally::default()));
            let at = |e: String| format!("crash at call {call}, {crash:?}: {e}");
            let found = content_of(&open_with_cache(&left, Durability::None, 64 << 20), false).map_err(at)?;
            if found != before && found != after {
                return Err(at("other pairs".into()));
            }
            found_count[usize::from(found == after)] += 1;
        }
        Ok(())
    });
    crashes.unwrap_or_else(|e| panic!("{e}"));
    assert!(found_count.iter().all(|&count| count > 10), "{found_count:?}");
}
