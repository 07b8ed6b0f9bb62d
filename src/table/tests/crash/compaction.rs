//! Crashes during a compaction that moves extents, groups of buckets and map frames: it changes no pair.

use super::workload::{Content, PATH};
use super::{Crash, Simulated, State, Tally, content_of, each_crash};
use crate::random::Random;
use crate::table::{Durability, Table, TableOptions};
use std::ops::ControlFlow;
use std::sync::Arc;

fn open(disk: &Simulated, durability: Durability) -> Table {
    let mut options = TableOptions::new().page_bytes(512).seed(1).cache_bytes(1 << 20).durability(durability);
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
