//! Readers that stay open while a writer makes many checkpoints.
//!
//! ```text
//! a workload, on the simulated disk; between its operations, as a seed says:
//!     a reader opens the table            it has what the writer has, if that is logged; else a state from its history
//!     a reader reads all of it again      it has the same pairs, and its pages have no fault
//!     a reader ends
//! ```
//!
//! A reader's cache has 16 frames, so it reads most frames from the disk each time.

use super::content_of;
use super::workload::{Content, History, Run, Workload};
use crate::io::simulated::{Simulated, State};
use crate::random::Random;
use crate::table::{Durability, Table};

/// What happened in the runs.
#[derive(Default)]
struct Seen {
    /// Reads by a reader whose checkpoint was no longer the last one.
    of_earlier: u64,
}

fn read_beside(seed: u64, seen: &mut Seen) -> Result<(), String> {
    const READERS_MAX: usize = 5;
    let workload = Workload::new(seed, 60);
    let disk = Simulated::new(State::default());
    let mut random = Random::new(&[seed, 20]);
    let mut run = Run::new(&workload, disk.clone(), None, History::default());
    run.open().map_err(|e| format!("open: {e}"))?;
    let mut readers: Vec<(Table, Content)> = Vec::new();
    for number in 0..workload.ops.len() {
        let at = format!("op {number}, {:?}", workload.ops[number]);
        run.step(number).map_err(|e| format!("{at}: {e}"))?;
        if random.percent(20) && !readers.is_empty() {
            drop(readers.swap_remove(random.below(readers.len())));
        }
        if random.percent(30) && readers.len() < READERS_MAX {
            let reader = workload.open_to_read(&disk).map_err(|e| format!("{at}: open to read: {e}"))?;
            let content = content_of(&reader, true).map_err(|e| format!("{at}: a new reader: {e}"))?;
            let now = run.history.len();
            let first = if workload.durability == Durability::None { 0 } else { now };
            if run.history.find(&content, (first, now)).is_none() {
                let earlier = run.history.find(&content, (0, now));
                return Err(format!("{at}: a new reader has state {earlier:?} of {first} to {now}"));
            }
            readers.push((reader, content));
        }
        for (reader, content) in &readers {
            if random.percent(40) {
                let found = content_of(reader, true).map_err(|e| format!("{at}: a reader: {e}"))?;
                if found != *content {
                    return Err(format!("{at}: a reader found other pairs than before"));
                }
                seen.of_earlier += u64::from(found != **run.history.now());
            }
        }
    }
    Ok(())
}

#[test]
fn a_reader_has_one_checkpoint_to_the_end_whatever_the_writer_does() {
    let mut seen = Seen::default();
    for seed in 0..60 {
        read_beside(seed, &mut seen).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    assert!(seen.of_earlier > 500, "{}", seen.of_earlier);
}
