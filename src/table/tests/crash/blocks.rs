//! Crashes and failed calls of a table in a file of blocks.

use super::workload::{PATH, Workload};
use super::{
    Done, FAST, OF_A_CRASH, OF_A_FAULT, SLOW, Simulated, State, check, content_of, crash_from, expect, fail_calls,
};
use crate::random::Random;
use crate::table::{Table, TableOptions};
use std::path::Path;
use std::sync::Arc;

const HEADER_BYTES: usize = 4096;
const BLOCK_BYTES: usize = 4096;

fn crash(seed: u64, depth: super::Depth, done: &mut Done) -> Result<(), String> {
    crash_from(&State::default(), &Workload::new(seed, depth.ops).in_blocks(), seed, depth, done)
}

#[test]
fn a_crash_at_any_call_leaves_a_state_with_every_durable_commit() {
    let done = check(0..5, |seed, done| crash(seed, FAST, done));
    expect(&done, done.splits > 10 && done.merges > 3, OF_A_CRASH);
}

#[test]
#[ignore = "slow: a second crash at each call after each first of a recovery, a million opens"]
fn a_crash_at_any_call_of_a_recovery_leaves_what_the_recovery_found() {
    let done = check(2000..2008, |seed, done| crash(seed, SLOW, done));
    expect(&done, done.splits > 5, OF_A_CRASH);
}

#[test]
fn a_failed_call_changes_nothing_or_poisons_the_handle() {
    let done = check(0..2, |seed, done| fail_calls(&Workload::new(seed, FAST.ops).in_blocks(), seed, FAST, done));
    expect(&done, done.poisoned > 0, OF_A_FAULT);
}

#[test]
fn any_byte_that_is_other_than_written_is_noticed_or_not_in_use() {
    let disk = Simulated::new(State::default());
    let mut options = TableOptions::new().page_bytes(512).seed(1);
    options.blocks = true;
    options.storage = Arc::new(disk.clone());
    options.inline_checkpoints = true;
    let table = options.clone().open(PATH).unwrap();
    for round in 0..3u8 {
        (0..400u32).for_each(|n| table.put(&n.to_be_bytes(), &[round; 90]).unwrap());
        table.checkpoint().unwrap();
    }
    let expected = content_of(&table, false).unwrap();
    table.close().unwrap();
    let whole = disk.state().content(Path::new(PATH)).unwrap().to_vec();
    let mut random = Random::new(&[7]);
    let mut is_noticed = |at: usize, bit: u8| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        let mut state = State::default();
        state.add_file(Path::new(PATH), &bytes);
        options.storage = Arc::new(Simulated::new(state));
        let found = options.clone().open(PATH).map_err(|e| e.to_string());
        let content = found.and_then(|table: Table| content_of(&table, false));
        assert!(content.as_ref().is_ok_and(|content| *content == expected) || content.is_err(), "byte {at}");
        content.is_err()
    };
    let mut some = (0..1500).map(|_| is_noticed(random.below(whole.len()), random.below(8) as u8)).collect::<Vec<_>>();
    some.retain(|noticed| *noticed);
    assert!((500..1400).contains(&some.len()), "{} of 1500 are noticed", some.len());
    for at in (0..2 * HEADER_BYTES).step_by(61) {
        assert!(!is_noticed(at, 3), "byte {at}: the other header has the same checkpoint");
    }
    for at in 0..40 {
        // One of the two homes of the bitmap is in use.
        let homes = [2, 3].map(|block| is_noticed(block * BLOCK_BYTES + 100 * at, 5));
        assert!(homes[0] != homes[1], "byte {at}: {homes:?}");
    }
}
