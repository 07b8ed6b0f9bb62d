//! Crash tests: after any crash, an open finds one of the permitted states.
//!
//! ```text
//! workload --> calls to the disk 0, 1, 2, ...     the disk at each call is replayed (io/simulated/mod.rs)
//!              crash at call n -> survivors -> open -> content is state k of the history, first <= k <= last
//!                                 calls of the open -> crash again -> open -> state k again
//!                                 more operations -> crash again -> open -> one of their states
//! faults:      call n fails -> the operation changed nothing, or the handle is poisoned and opens again
//! ```
//!
//! The first permitted state is that of the last durable commit, the last that of the last commit begun
//! (`workload.rs`). All checks return a `Result`, so that the tests of the tests (`planted.rs`) can see whether a
//! planted bug is found.
//!
//! Every case has a number: `SPLITPOINT_SEED=17 cargo test crash` runs one alone.

mod beside;
mod compaction;
mod created;
mod damage;
mod full;
mod hostile_blocks;
mod planted;
mod readers;
mod spilled;
mod stored;
mod updated;
mod views;
mod workload;

use crate::error::ErrorKind;
use crate::io::simulated::{Crash, Event, Fault, Fired, Plan, Simulated, State, Tally};
use crate::pager::pool::refuse_to_wait_with_values;
use crate::random::Random;
use crate::table::{Backup, Durability, Table, TableOptions};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use workload::{Content, History, Op, PATH, Promise, Run, Workload};

/// Counts of a check's work, so that tests can require enough of it.
#[derive(Default, Debug)]
struct Done {
    crashes: u64,
    opens: u64,
    /// Workloads run with a fault.
    faults: u64,
    fired: Tally,
    splits: u64,
    merges: u64,
    /// Checkpoints written while others wrote.
    checkpoints: u64,
    poisoned: u64,
    undone: u64,
}

/// How thorough a check is.
#[derive(Clone, Copy)]
struct Depth {
    ops: usize,
    /// A crash occurs at one in this many of the calls that write bytes, and at each of the other calls, which are few.
    every: usize,
    /// One crash in this many is followed by another at every call of the recovery.
    again_every: u64,
    /// One kill in this many before a sync is followed by another crash, too.
    unsynced_every: usize,
    /// One crash in this many is followed by more operations and a crash at every call of those.
    further_every: u64,
    /// One call in this many fails in each way.
    fault_every: usize,
    /// Whether each call gets every kind of crash. If not: the kinds that find most and one of the others; in a
    /// recovery, only one.
    all_kinds: bool,
}

const FAST: Depth = Depth {
    ops: 40,
    every: 12,
    again_every: 61,
    unsynced_every: 2,
    further_every: 301,
    fault_every: 21,
    all_kinds: false,
};
const SLOW: Depth =
    Depth { ops: 25, every: 1, again_every: 1, unsynced_every: 1, further_every: 19, fault_every: 1, all_kinds: true };

/// Calls `visit` with each state of the disk in which a process may have died: before each call of `trace` that
/// changes anything, in the middle of each write, and at the end. A crash at another call leaves the state of the
/// next.
fn each_crash(
    base: &State,
    trace: &[Event],
    random: &mut Random,
    visit: impl FnMut(u64, &State) -> Result<(), String>,
) -> Result<(), String> {
    some_crashes(base, trace, 1, random, visit)
}

/// Like [`each_crash`], but with only one in `every` of the calls that write bytes, which are most.
fn some_crashes(
    base: &State,
    trace: &[Event],
    every: usize,
    random: &mut Random,
    mut visit: impl FnMut(u64, &State) -> Result<(), String>,
) -> Result<(), String> {
    let mut state = base.clone();
    for (call, event) in trace.iter().enumerate() {
        let call = call as u64;
        let writes_bytes = matches!(event, Event::Write { .. } | Event::Store { .. });
        if event.changes() && (!writes_bytes || random.below(every) == 0) {
            visit(call, &state)?;
            if let Some(torn) = state.torn(call, event, random) {
                visit(call, &torn)?;
            }
        }
        state.apply(call, event);
    }
    visit(trace.len() as u64, &state)
}

/// Returns the table's content. The table must have no fault, except that units may belong to nothing after errors.
fn content_of(table: &Table, may_lose_units: bool) -> Result<Content, String> {
    let mut content = Content::new();
    for pair in table.scan() {
        let (key, value) = pair.map_err(|e| format!("scan: {e}"))?;
        if let Some(old) = content.insert(key, value.into()) {
            return Err(format!("a key is there twice, once with {} bytes", old.len()));
        }
    }
    let mut faults = table.verify().map_err(|e| format!("verify: {e}"))?;
    if may_lose_units {
        faults.retain(|fault| !fault.what.contains("belong to nothing"));
    }
    if faults.is_empty() { Ok(content) } else { Err(format!("verify: {faults:?}")) }
}

/// Opens the table; it must be in one of the states `bounds` of the history. Returns the table, the state, and the
/// disk's calls after the open.
fn recover(
    workload: &Workload,
    disk: &Simulated,
    history: &History,
    bounds: (usize, usize),
) -> Result<(Table, usize, u64), String> {
    let table = workload.open(disk).map_err(|e| format!("open: {e}"))?;
    let calls = disk.calls();
    let content = content_of(&table, history.may_lose_units)?;
    let Some(k) = history.find(&content, bounds) else {
        let elsewhere = history.find(&content, (0, history.len()));
        return Err(format!("found state {elsewhere:?}, {} pairs; expected one of {bounds:?}", content.len()));
    };
    Ok((table, k, calls))
}

/// Runs a workload on an empty disk, crashes at every call in every way, and checks what is left.
fn crash_everywhere(seed: u64, depth: Depth, done: &mut Done) -> Result<(), String> {
    crash_from(&State::default(), &Workload::new(seed, depth.ops), seed, depth, done)
}

/// Runs the workload on a disk with the content `base`, crashes at every call in every way, and checks what is left.
fn crash_from(base: &State, workload: &Workload, seed: u64, depth: Depth, done: &mut Done) -> Result<(), String> {
    let run = Run::new(workload, Simulated::new(base.clone()), None, History::default()).finish()?;
    done.splits += run.splits;
    done.merges += run.merges;
    let mut random = Random::new(&[seed, 3]);
    let mut torn_random = Random::new(&[seed, 4]);
    let trace = run.disk.trace();
    some_crashes(base, &trace, depth.every, &mut torn_random, |call, state| {
        // A state that is complete in the cache and not yet on the disk may deceive a recovery.
        let unsynced = matches!(trace.get(call as usize), Some(Event::Sync(_) | Event::SyncNames(_)));
        let one_more = random.pick(&[Crash::KeepAll, Crash::Prefix, Crash::Zeros, Crash::NamesBack]);
        let kinds = [Crash::Kill, Crash::LoseUnsynced, Crash::Mix, one_more];
        for crash in if depth.all_kinds { &Crash::ALL[..] } else { &kinds } {
            let crash = *crash;
            let at = |e: String| format!("seed {seed}, crash at call {call}, {crash:?}: {e}");
            done.crashes += 1;
            let left = state.survivors(crash, &mut random, &mut done.fired);
            let (found, recovery) = check_survivors(workload, &left, call, crash, &run.history, done).map_err(at)?;
            let deceives = unsynced && crash == Crash::Kill && random.below(depth.unsynced_every) == 0;
            if deceives || done.crashes.is_multiple_of(depth.again_every) {
                crash_again(workload, &left, &recovery.trace(), depth, &found, &mut random, done).map_err(at)?;
            }
            if done.crashes.is_multiple_of(depth.further_every) {
                go_on(workload, &left, &found, depth, &mut random, done).map_err(at)?;
            }
        }
        Ok(())
    })
}

/// Opens what a crash left. Returns the history from there on, and the disk with the calls of the recovery.
fn check_survivors(
    workload: &Workload,
    left: &State,
    call: u64,
    crash: Crash,
    history: &History,
    done: &mut Done,
) -> Result<(History, Simulated), String> {
    let bounds = history.bounds(call, crash, Promise::of(workload.durability));
    let disk = Simulated::new(left.clone());
    done.opens += 1;
    let (table, k, shown) = recover(workload, &disk, history, bounds)?;
    drop(table);
    // A state found after a power loss was on the disk, so it is durable; after a kill it may be in the cache alone.
    let durable = if crash == Crash::Kill {
        history.bounds(call, Crash::LoseUnsynced, Promise::of(workload.durability)).0
    } else {
        k
    };
    Ok((history.after_crash(k, durable, shown), disk))
}

/// Crashes at the calls of a recovery.
fn crash_again(
    workload: &Workload,
    base: &State,
    recovery: &[Event],
    depth: Depth,
    history: &History,
    random: &mut Random,
    done: &mut Done,
) -> Result<(), String> {
    let mut torn_random = Random::new(&[random.next()]);
    some_crashes(base, recovery, depth.every, &mut torn_random, |call, state| {
        let kinds = [Crash::Kill, Crash::LoseUnsynced, Crash::Mix, Crash::Prefix];
        let one = random.below(kinds.len());
        for &crash in if depth.all_kinds { &kinds[..] } else { &kinds[one..=one] } {
            done.crashes += 1;
            let left = state.survivors(crash, random, &mut done.fired);
            check_survivors(workload, &left, call, crash, history, done)
                .map_err(|e| format!("again at call {call} of the recovery, {crash:?}: {e}"))?;
        }
        Ok(())
    })
}

/// Recovers, continues to work, and crashes at each call of that: the state before the first crash must not come back.
fn go_on(
    workload: &Workload,
    base: &State,
    history: &History,
    depth: Depth,
    random: &mut Random,
    done: &mut Done,
) -> Result<(), String> {
    let further = workload.continued(random.next(), depth.ops / 4);
    let disk = Simulated::new(base.clone());
    let (table, _, shown) = recover(&further, &disk, history, (0, history.len()))?;
    let run = Run::new(
        &further,
        disk,
        Some(table),
        history.after_crash(history.len(), history.bounds(0, Crash::Mix, Promise::of(workload.durability)).0, shown),
    );
    let run = run.finish()?;
    let mut torn_random = Random::new(&[random.next()]);
    some_crashes(base, &run.disk.trace(), depth.every, &mut torn_random, |call, state| {
        let crash = random.pick(&Crash::ALL);
        done.crashes += 1;
        let left = state.survivors(crash, random, &mut done.fired);
        check_survivors(&further, &left, call, crash, &run.history, done)
            .map(|_| ())
            .map_err(|e| format!("after more, again at call {call}, {crash:?}: {e}"))
    })
}

/// Makes calls of the workload fail, one after another.
fn fail_everywhere(seed: u64, depth: Depth, done: &mut Done) -> Result<(), String> {
    fail_calls(&Workload::new(seed, depth.ops), seed, depth, done)
}

fn fail_calls(workload: &Workload, seed: u64, depth: Depth, done: &mut Done) -> Result<(), String> {
    let run = Run::new(workload, Simulated::new(State::default()), None, History::default()).finish()?;
    let trace = run.disk.trace();
    let mut random = Random::new(&[seed, 5]);
    for (call, event) in trace.iter().enumerate() {
        let faults: &[Fault] = match event {
            Event::Store { .. } => &[],
            Event::Look | Event::Sync(_) | Event::Remove(_) | Event::SyncNames(_) => &[Fault::Io],
            Event::Write { .. } => &[Fault::Io, Fault::NoSpace, Fault::Short],
            _ => &[Fault::Io, Fault::NoSpace],
        };
        for &fault in faults {
            for lasting in [false, true] {
                // Syncs and growth are few, and most other calls depend on them.
                let every = match event {
                    Event::Sync(_) => 1,
                    Event::Reserve { .. } => depth.fault_every.div_ceil(8),
                    _ => depth.fault_every,
                };
                if random.below(every) > 0 {
                    continue;
                }
                let plan = Plan { fault, at: call as u64, lasting };
                done.faults += 1;
                fail_once(workload, plan, depth, &mut random, done)
                    .map_err(|e| format!("seed {seed}, {plan:?}: {e}"))?;
            }
        }
    }
    Ok(())
}

/// Runs the workload with a fault. A failed operation changed nothing or poisoned the handle, and the table opens
/// again.
fn fail_once(
    workload: &Workload,
    plan: Plan,
    depth: Depth,
    random: &mut Random,
    done: &mut Done,
) -> Result<(), String> {
    let disk = Simulated::new(State::default());
    disk.plan(Some(plan));
    // An error while freeing units leaves them allocated to nothing, until a compaction.
    let mut history = History::default();
    history.may_lose_units = true;
    let mut run = Run::new(workload, disk.clone(), None, history);
    let mut patience = random.below(3);
    for number in 0..workload.ops.len() {
        let at = |e: String| format!("op {number}, {:?}: {e}", workload.ops[number]);
        let commits = run.history.len();
        let Err(error) = run.step(number) else { continue };
        if !matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::Poisoned) {
            return Err(at(format!("not the error of a disk: {error}")));
        }
        if patience == 0 {
            disk.plan(None);
        }
        let works = patience == 0 || !plan.lasting;
        patience = patience.saturating_sub(1);
        // Removing an absent key shows whether the handle is poisoned, and changes nothing.
        let poisoned = match &run.table {
            None => true,
            Some(table) => table.remove(b"never there").is_err_and(|e| e.kind() == ErrorKind::Poisoned),
        };
        if poisoned {
            done.poisoned += 1;
            disk.plan(None);
            reopen_after_failure(&mut run, depth, random, done).map_err(at)?;
        } else {
            done.undone += 1;
            if run.history.len() > commits {
                run.history.undo();
            }
            let clears = matches!(workload.ops[number], Op::Clear);
            if works || clears {
                disk.plan(None);
                run.end_held().map_err(|e| at(e.to_string()))?;
                let found = content_of(run.open().map_err(|e| at(e.to_string()))?, true).map_err(at)?;
                if clears {
                    // A clear works bucket by bucket: pairs removed before the error stay removed.
                    run.history.shrink(found, disk.calls()).map_err(at)?;
                } else if found != **run.history.now() {
                    return Err(at(format!("failed, and {} pairs are another content than before", found.len())));
                }
            }
        }
    }
    disk.plan(None);
    let table = run.open().map_err(|e| format!("open: {e}"))?;
    let content = content_of(table, true)?;
    if content != **run.history.now() {
        return Err(format!("{} pairs at the end, expected {}", content.len(), run.history.now().len()));
    }
    run.table.take().expect("it is open").close().map_err(|e| format!("close: {e}"))?;
    done.fired.merge(&disk.tally());
    let last = run.history.len();
    for crash in [Crash::LoseUnsynced, Crash::Mix] {
        let left = disk.state().survivors(crash, random, &mut Tally::default());
        recover(workload, &Simulated::new(left), &run.history, (last, last))
            .map_err(|e| format!("closed, then {crash:?}: {e}"))?;
    }
    Ok(())
}

/// Opens the table after its handle was poisoned; a power loss in the meantime must leave a permitted state, too.
fn reopen_after_failure(run: &mut Run<'_>, depth: Depth, random: &mut Random, done: &mut Done) -> Result<(), String> {
    run.give_up();
    let (disk, workload) = (run.disk.clone(), run.workload);
    let mut promise = Promise::of(workload.durability);
    // If a sync failed, the cache need not show the writes either.
    promise.kill &= disk.tally().of(Fired::SyncFailed) == 0;
    let call = disk.calls();
    let base = disk.state();
    let bounds = run.history.bounds(call, Crash::Kill, promise);
    let (table, k, shown) =
        recover(workload, &disk, &run.history, bounds).map_err(|e| format!("poisoned, then: {e}"))?;
    run.table = Some(table);
    let durable = run.history.bounds(call, Crash::LoseUnsynced, promise).0;
    let left = run.history.after_crash(k, durable.min(k), shown - call);
    let calls = call as usize..disk.calls() as usize;
    crash_again(workload, &base, &disk.trace()[calls], depth, &left, random, done)?;
    run.history.cut(k, disk.calls());
    Ok(())
}

/// Kills the process at a call, and compares the disk with a replay of that many calls, which [`each_crash`] uses.
fn die(seed: u64, done: &mut Done) -> Result<(), String> {
    // Backups have other temporary names in each run.
    let workload = Workload::new(seed, FAST.ops).without_backups();
    let run = Run::new(&workload, Simulated::new(State::default()), None, History::default()).finish()?;
    let trace = run.disk.trace();
    let mut random = Random::new(&[seed, 6]);
    for _ in 0..30 {
        let call = random.below(trace.len());
        let disk = Simulated::new(State::default());
        disk.plan(Some(Plan { fault: Fault::Dead, at: call as u64, lasting: true }));
        let mut run = Run::new(&workload, disk.clone(), None, History::default());
        // The process does not know that it is dead: it gets errors and must not panic.
        (0..workload.ops.len()).for_each(|number| drop(run.step(number)));
        run.give_up();
        let mut replayed = State::default();
        trace[..call].iter().enumerate().for_each(|(call, event)| replayed.apply(call as u64, event));
        if !disk.state().same_files(&replayed) {
            return Err(format!("seed {seed}, dead from call {call} on: another disk than a replay makes"));
        }
        done.fired.merge(&disk.tally());
    }
    Ok(())
}

/// Returns the seeds to try: `range`, or the one of the environment.
fn seeds(range: Range<u64>) -> Range<u64> {
    match std::env::var("SPLITPOINT_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("SPLITPOINT_SEED is a number");
            seed..seed + 1
        }
        Err(_) => range,
    }
}

fn check(range: Range<u64>, mut case: impl FnMut(u64, &mut Done) -> Result<(), String>) -> Done {
    let mut done = Done::default();
    for seed in seeds(range) {
        case(seed, &mut done).unwrap_or_else(|e| panic!("{e}"));
    }
    println!("{done:?}");
    done
}

/// Requires that all of this happened, unless a single case was requested.
fn expect(done: &Done, enough: bool, fired: &[Fired]) {
    if std::env::var("SPLITPOINT_SEED").is_err() {
        assert!(enough, "too little to mean anything: {done:?}");
        let missing: Vec<&Fired> = fired.iter().filter(|&&f| done.fired.of(f) == 0).collect();
        assert!(missing.is_empty(), "no {missing:?} in all these runs: {done:?}");
    }
}

const OF_A_CRASH: &[Fired] = &[
    Fired::SectorLost,
    Fired::SectorKept,
    Fired::SectorOfBetween,
    Fired::SectorZeroed,
    Fired::SectorTorn,
    Fired::WriteTorn,
    Fired::LengthLost,
    Fired::NameLost,
    Fired::NameKept,
    Fired::SyncedFileGone,
];

const OF_A_FAULT: &[Fired] =
    &[Fired::ReadFailed, Fired::WriteFailed, Fired::ShortWrite, Fired::NoSpace, Fired::SyncFailed];

#[test]
fn a_crash_at_any_call_leaves_a_state_with_every_durable_commit() {
    let done = check(0..5, |seed, done| crash_everywhere(seed, FAST, done));
    expect(&done, done.splits > 10 && done.merges > 3, OF_A_CRASH);
}

#[test]
#[ignore = "slow: a second crash at each call after each first of a recovery, a million opens"]
fn a_crash_at_any_call_of_a_recovery_leaves_what_the_recovery_found() {
    let done = check(1000..1008, |seed, done| crash_everywhere(seed, SLOW, done));
    expect(&done, done.splits > 5, OF_A_CRASH);
}

#[test]
fn a_crash_next_to_the_log_of_another_table_leaves_every_durable_commit_and_that_log() {
    let other = Simulated::new(State::default());
    let table = Workload::new(0, 0).open(&other).unwrap();
    table.put(b"other", b"table").unwrap();
    let other_log = other.state().content(Path::new("/disk/t.spt-log0")).unwrap().to_vec();
    let done = check(0..2, |seed, done| {
        // A table of this name crashed and was removed, and its log fills all slots but one.
        let mut base = State::default();
        let slots = (0..8).filter(|&slot| slot != seed % 8).map(|slot| format!("{PATH}-log{slot}"));
        slots.for_each(|slot| base.add_file(Path::new(&slot), &other_log));
        let workload = Workload::new(seed, FAST.ops).without_backups();
        crash_from(&base, &workload, seed, FAST, done)?;
        let run = Run::new(&workload, Simulated::new(base.clone()), None, History::default()).finish()?;
        let left = run.disk.state();
        let kept = base.names().all(|name| left.content(name) == Some(&other_log));
        if kept { Ok(()) } else { Err(format!("seed {seed}: the log of another table was changed")) }
    });
    expect(&done, done.splits > 0, OF_A_CRASH);
}

#[test]
fn a_process_that_dies_leaves_the_result_of_replaying_its_calls() {
    let done = check(0..3, die);
    expect(&done, true, &[Fired::DeadCall]);
}

#[test]
fn a_failed_call_changes_nothing_or_poisons_the_handle() {
    let done = check(0..2, |seed, done| fail_everywhere(seed, FAST, done));
    expect(&done, done.poisoned > 0 && done.undone > 0, OF_A_FAULT);
}

#[test]
#[ignore = "slow: many seeds, every call fails in every way"]
fn any_failed_call_changes_nothing_or_poisons_the_handle() {
    let done = check(1000..1003, |seed, done| fail_everywhere(seed, SLOW, done));
    expect(&done, done.poisoned > 0 && done.undone > 0, OF_A_FAULT);
}

#[test]
fn an_overwrite_of_a_large_value_that_fails_leaves_the_old_one() {
    // The last frame of the extent is shared with others, so it is read before the value's end is written there.
    let workload = Workload::new(0, 0);
    let disk = Simulated::new(State::default());
    let (old, new) = (vec![1; 9000], vec![2; 9000]);
    let table = workload.open(&disk).unwrap();
    table.put(b"large", &old).unwrap();
    table.close().unwrap();
    let base = disk.state();
    let mut failed = 0;
    for after in 0..10 {
        let disk = Simulated::new(base.clone());
        let table = workload.open(&disk).unwrap();
        disk.plan(Some(Plan { fault: Fault::Io, at: disk.calls() + after, lasting: false }));
        let put = table.put(b"large", &new);
        failed += u32::from(put.is_err());
        disk.plan(None);
        let expected = if put.is_ok() { &new } else { &old };
        assert!(table.get(b"large").unwrap().as_ref() == Some(expected), "after {after} calls: {put:?}");
    }
    assert!(failed > 2, "{failed}");
}

#[test]
fn an_overwrite_that_would_wait_with_a_value_held_leaves_the_old_one() {
    let table = Workload::new(0, 0).open(&Simulated::new(State::default())).unwrap();
    let new = vec![2; 30_000];
    (0..100u8).for_each(|n| table.put(&[n], &[3; 30]).unwrap());
    let mut tried = 0;
    // A held value in the same page causes an error before anything is written.
    for n in 0..40u8 {
        let old = vec![100 + n; 30_000];
        table.put(b"large", &old).unwrap();
        let is_of_large = |frame: &u32| table.pager.read(*frame).unwrap().iter().all(|&byte| byte == old[0]);
        let frames: Vec<u32> = (0..table.pager.frame_count()).filter(is_of_large).collect();
        assert!(frames.len() > 5, "{frames:?}");
        let held = table.get_ref(&[n]).unwrap();
        if refuse_to_wait_with_values().is_ok() {
            continue; // it was copied
        }
        // As a checkpoint does while it copies a frame.
        let latch = table.pager.read(frames[3]).unwrap();
        let put = table.put(b"large", &new);
        drop((latch, held));
        tried += 1;
        let expected = if put.is_ok() { &new } else { &old };
        assert!(table.get(b"large").unwrap().as_ref() == Some(expected), "beside {n}: {put:?}");
    }
    assert!(tried > 0, "no value was held");
}

#[test]
fn a_removal_whose_extent_cannot_be_freed_is_done() {
    let workload = Workload::new(0, 0);
    let disk = Simulated::new(State::default());
    let table = workload.open(&disk).unwrap();
    table.put(b"large", &[1; 9000]).unwrap();
    table.close().unwrap();
    let base = disk.state();
    for after in 0..10 {
        let disk = Simulated::new(base.clone());
        let table = workload.open(&disk).unwrap();
        disk.plan(Some(Plan { fault: Fault::Io, at: disk.calls() + after, lasting: false }));
        let removed = table.remove(b"large");
        disk.plan(None);
        let content = content_of(&table, true).unwrap();
        assert_eq!(content.is_empty(), removed.is_ok(), "after {after} calls: {removed:?}");
    }
}

#[test]
fn a_poisoned_handle_says_why_and_gives_its_own_advice_alone() {
    let workload = Workload::new(1, 0);
    let mut poisoned = 0;
    for after in 0..20 {
        let disk = Simulated::new(State::default());
        let table = workload.open(&disk).unwrap();
        table.put(b"key", b"value").unwrap();
        disk.plan(Some(Plan { fault: Fault::NoSpace, at: disk.calls() + after, lasting: true }));
        let Err(first) = table.checkpoint() else { continue };
        assert_eq!(first.kind(), ErrorKind::DiskFull, "{first}");
        disk.plan(None);
        let Err(error) = table.put(b"key", b"value") else { continue };
        poisoned += 1;
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
        assert!(error.message().ends_with(first.message()), "{error}");
        assert!(error.hint().unwrap().starts_with("Open the table again"), "{error}");
    }
    assert!(poisoned > 2, "{poisoned}");
}

#[test]
fn a_backup_in_which_any_call_fails_leaves_no_temporary_file() {
    let table = Table::in_memory().unwrap();
    (0..100u8).for_each(|n| table.put(&[n], &[n; 500]).unwrap());
    let mut failed = 0;
    for at in 0.. {
        let disk = Simulated::new(State::default());
        disk.plan(Some(Plan { fault: Fault::Io, at, lasting: false }));
        let options = TableOptions { storage: Arc::new(disk.clone()), ..TableOptions::new() };
        let saved = Backup::new().options(options).save(&table, PATH);
        disk.plan(None);
        let left: Vec<_> = disk.state().names().map(Path::to_owned).collect();
        if saved.is_ok() && disk.calls() <= at {
            break;
        }
        failed += u32::from(saved.is_err());
        assert!(left.iter().all(|name| name == Path::new(PATH)), "call {at}: {left:?}");
    }
    assert!(failed > 10, "{failed}");
}

/// Makes a table with a pair in the log, on a disk that has the first header of the log's next segment, but the second
/// only in part. `calls` other calls come first, since the result of a failing call depends on its number.
fn half_begun_segment(calls: u8) -> (Workload, Simulated, Table) {
    let workload = Workload::new(1, 0);
    assert_eq!(workload.durability, Durability::Os);
    let start = || {
        let disk = Simulated::new(State::default());
        let table = workload.open(&disk).unwrap();
        (0..=calls).for_each(|n| table.put(b"key", &[n]).unwrap());
        (disk, table)
    };
    let (disk, table) = start();
    let before = disk.calls() as usize;
    table.checkpoint().unwrap();
    let second = |event: &Event| matches!(event, Event::Write { offset: 512, bytes, .. } if bytes.len() == 64);
    let at = (before + disk.trace()[before..].iter().position(second).expect("a header is written twice")) as u64;
    let (disk, table) = start();
    disk.plan(Some(Plan { fault: Fault::Short, at, lasting: false }));
    table.checkpoint().unwrap_err();
    (workload, disk, table)
}

#[test]
fn headers_of_the_log_written_in_part_again_and_again_keep_no_table_from_being_opened() {
    for calls in 0..60 {
        let (workload, disk, table) = half_begun_segment(calls);
        disk.plan(Some(Plan { fault: Fault::Short, at: disk.calls(), lasting: true }));
        table.checkpoint().unwrap_err();
        let found = workload.open(&Simulated::new(disk.state())).unwrap_or_else(|e| panic!("{calls}: {e}"));
        assert_eq!(found.get(b"key").unwrap().as_deref(), Some(&[calls][..]));
    }
}

#[test]
fn a_torn_log_header_after_a_lost_one_does_not_prevent_an_open() {
    for calls in 0..20 {
        let (workload, disk, _table) = half_begun_segment(calls);
        for seed in 0..20 {
            let left = disk.state().survivors(Crash::Mix, &mut Random::new(&[seed]), &mut Tally::default());
            workload.open(&Simulated::new(left)).unwrap_or_else(|e| panic!("{calls}, {seed}: {e}"));
        }
    }
}
