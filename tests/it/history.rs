//! Checks that a history of operations on one key is linearizable: that each took effect at one moment between its call
//! and its return.
//!
//! The threads of a stress test record when they called, when the call returned, and what it returned. Afterwards a
//! search looks for an order in which a single thread would have got the same answers, and in which no operation
//! precedes one that had returned when it was called. Each thread's operations are already ordered, so a state of the
//! search is one number per thread and the key's value; visited states are skipped.
//!
//! Source: Wing & Gong 1993; remembering visited states is due to Lowe, 2017.

use std::collections::HashSet;

/// The value of a key: the numbers that were put and appended, or nothing.
pub(crate) type Value = Option<Vec<u32>>;

/// An operation and its answer. Every number written is different.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Get(Value),
    Contains(bool),
    Put(u32),
    Append(u32),
    /// Whether it put the number, because the key was absent.
    Insert(u32, bool),
    /// Whether the key was present.
    Remove(bool),
    /// The value that it found, and the value that it stored.
    Update(Value, u32),
}

/// An operation of a thread, with times in nanoseconds of one clock.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub called: u64,
    pub returned: u64,
    pub op: Op,
}

/// Returns the value after `op`; `None` if its answer is wrong for the value before.
fn apply(value: &Value, op: &Op) -> Option<Value> {
    let there = value.is_some();
    match op {
        Op::Get(found) => (found == value).then(|| value.clone()),
        Op::Contains(answer) => (*answer == there).then(|| value.clone()),
        Op::Put(n) => Some(Some(vec![*n])),
        Op::Append(n) => {
            let mut all = value.clone().unwrap_or_default();
            all.push(*n);
            Some(Some(all))
        }
        Op::Insert(n, answer) => (*answer != there).then(|| value.clone().or(Some(vec![*n]))),
        Op::Remove(answer) => (*answer == there).then_some(None),
        Op::Update(found, n) => (found == value).then(|| Some(vec![*n])),
    }
}

/// Looks for an order of all calls on a key that is initially absent; `threads[t]` has the calls of thread `t` in
/// order. An error describes the longest order found.
pub(crate) fn check(threads: &[Vec<Call>]) -> Result<(), String> {
    let total: usize = threads.iter().map(Vec::len).sum();
    let start = (vec![0; threads.len()], None);
    let mut seen = HashSet::from([start.clone()]);
    let mut places = vec![start];
    let mut furthest = (0, String::new());
    while let Some((done, value)) = places.pop() {
        let count: usize = done.iter().sum();
        if count == total {
            return Ok(());
        }
        let next = || threads.iter().zip(&done).enumerate().filter_map(|(t, (calls, &i))| Some((t, calls.get(i)?)));
        // A call that began after another returned comes later.
        let first_return = next().map(|(_, call)| call.returned).min().expect("some call is left");
        if count >= furthest.0 {
            furthest = (count, format!("value {value:?}; next {:?}", next().collect::<Vec<_>>()));
        }
        for (t, call) in next().filter(|(_, call)| call.called <= first_return) {
            let Some(value) = apply(&value, &call.op) else { continue };
            let mut done = done.clone();
            done[t] += 1;
            if seen.insert((done.clone(), value.clone())) {
                places.push((done, value));
            }
        }
    }
    Err(format!("after {} of {total} operations no further one fits: {}", furthest.0, furthest.1))
}

fn calls(calls: &[(u64, u64, Op)]) -> Vec<Call> {
    calls.iter().map(|&(called, returned, ref op)| Call { called, returned, op: op.clone() }).collect()
}

#[test]
fn what_overlaps_may_have_happened_in_any_order() {
    let writer = calls(&[(0, 10, Op::Put(1)), (20, 40, Op::Append(2))]);
    let early = calls(&[(5, 30, Op::Get(None)), (34, 35, Op::Get(Some(vec![1])))]);
    let late = calls(&[(5, 30, Op::Get(Some(vec![1]))), (31, 32, Op::Get(Some(vec![1, 2])))]);
    check(&[writer.clone(), early.clone()]).unwrap();
    check(&[writer.clone(), late.clone()]).unwrap();
    check(&[writer, early, late]).unwrap_err(); // one reader saw the append, then another did not
}

#[test]
fn histories_that_no_order_explains_are_found_out() {
    let put = calls(&[(0, 1, Op::Put(1))]);
    let appends = calls(&[(10, 20, Op::Append(2))]);
    let bad = [
        ("a value that was there is missed", calls(&[(2, 3, Op::Get(None))])),
        ("a removed value is there", calls(&[(2, 3, Op::Remove(true)), (4, 5, Op::Get(Some(vec![1])))])),
        ("a value comes back", calls(&[(2, 3, Op::Put(7)), (4, 5, Op::Get(Some(vec![1])))])),
        ("an append is lost", calls(&[(12, 18, Op::Append(3)), (21, 22, Op::Get(Some(vec![1, 2])))])),
        ("an insert over a value", calls(&[(2, 3, Op::Insert(7, true))])),
        ("a remove that found nothing", calls(&[(2, 3, Op::Remove(false))])),
        ("an update of what was not there", calls(&[(2, 3, Op::Update(None, 7))])),
        ("a value that was never written", calls(&[(12, 13, Op::Get(Some(vec![9])))])),
        ("one that is there and is not", calls(&[(2, 3, Op::Contains(true)), (4, 5, Op::Contains(false))])),
    ];
    for (what, thread) in bad {
        assert!(check(&[put.clone(), appends.clone(), thread]).is_err(), "{what}");
    }
}
