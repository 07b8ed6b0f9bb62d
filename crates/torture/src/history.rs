//! The operations of a workload with their times, and the contents of a table that they permit after a crash.
//!
//! A [`Span`] has two clocks. *Events*: the number that the disk had seen before and after the call. They tell whether
//! a crash at some event was before, during or after the call. *Nanoseconds* tell whether one call returned before
//! another began: the order of commits of different threads, as far as it could be observed.
//!
//! A table is legal after a crash on two conditions. Each thread's keys are the result of its first `k` operations, for
//! a `k` from the last operation that was safe to the last that had begun. Every operation of any thread that returned
//! before one of these began is present too.

use crate::changes::{Pairs, SHARED_KEY, operation, shared_numbers};
use splitpoint::Durability;
use std::fmt::Write;
use std::path::Path;

/// When a call began and when it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub begun_event: u64,
    pub begun_ns: u64,
    pub done_event: u64,
    pub done_ns: u64,
}

impl Span {
    pub fn is_begun(&self, crash: u64) -> bool {
        self.begun_event <= crash
    }

    pub fn is_done(&self, crash: u64) -> bool {
        self.done_event <= crash
    }
}

/// Everything a workload did.
#[derive(Clone, Debug)]
pub struct History {
    pub seed: u64,
    pub durability: Durability,
    /// The calls of each thread, in order.
    pub threads: Vec<Vec<Span>>,
    /// Calls that make earlier operations durable: `sync`, `checkpoint`, `compact`, `close`.
    pub safes: Vec<Span>,
    /// Backups, by the number of their name.
    pub backups: Vec<(usize, Span)>,
    /// Published dictionaries, by the number of their name; each name has versions 0, 1, 2...
    pub dictionaries: Vec<(usize, Span)>,
}

/// The range of the number of operations that a thread may have completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub low: usize,
    pub high: usize,
}

impl History {
    pub fn new(seed: u64, durability: Durability) -> History {
        let (threads, safes, backups, dictionaries) = Default::default();
        History { seed, durability, threads, safes, backups, dictionaries }
    }

    /// Returns how many operations of each thread may be found after a crash when the disk had seen `crash` events.
    pub fn bounds(&self, crash: u64) -> Vec<Bounds> {
        let safe = self.safes.iter().filter(|safe| safe.is_done(crash)).map(|safe| safe.begun_ns).max().unwrap_or(0);
        let completed = |calls: &Vec<Span>| {
            let alone = |call: &&Span| self.durability == Durability::Sync && call.is_done(crash);
            let low = calls.iter().take_while(|call| call.done_ns < safe || alone(call)).count();
            Bounds { low, high: calls.iter().take_while(|call| call.is_begun(crash)).count() }
        };
        self.threads.iter().map(completed).collect()
    }

    /// Returns how many operations of each thread may be found in a copy made during `span`.
    pub fn bounds_of_copy(&self, span: &Span) -> Vec<Bounds> {
        let completed = |calls: &Vec<Span>| {
            let low = calls.iter().take_while(|call| call.done_ns < span.begun_ns).count();
            Bounds { low, high: calls.iter().take_while(|call| call.begun_ns < span.done_ns).count() }
        };
        self.threads.iter().map(completed).collect()
    }

    /// Returns the number of operations of each thread in `pairs`; an error if `pairs` is not legal.
    pub fn find(&self, pairs: &Pairs, bounds: &[Bounds]) -> Result<Vec<usize>, String> {
        if let Some(key) = pairs.keys().find(|key| self.owner(key).is_none() && *key != SHARED_KEY) {
            return Err(format!("key \"{}\", which was never put", key.escape_ascii()));
        }
        let shared = shared_numbers(pairs.get(SHARED_KEY).map_or(&[], Vec::as_slice), self.threads.len())?;
        let mut candidates = Vec::new();
        for (thread, bounds) in bounds.iter().enumerate() {
            candidates.push(self.candidates(pairs, thread, *bounds, &shared[thread])?);
        }
        // Start from the minimum that fits: what one thread requires of another can only raise it.
        let mut counts: Vec<usize> = candidates.iter().map(|c| c[0]).collect();
        loop {
            let before = counts.clone();
            for thread in 0..counts.len() {
                let needed =
                    (0..before.len()).map(|other| self.needed(thread, other, before[other])).max().unwrap_or(0);
                let enough = candidates[thread].iter().find(|k| **k >= needed.max(before[thread]));
                counts[thread] = *enough.ok_or_else(|| {
                    format!(
                        "thread {thread} has {:?} operations, {needed} had returned before some of {before:?} began",
                        candidates[thread]
                    )
                })?;
            }
            if counts == before {
                return Ok(counts);
            }
        }
    }

    fn owner(&self, key: &[u8]) -> Option<usize> {
        let (thread, _) = std::str::from_utf8(key).ok()?.split_once('-')?;
        thread.parse().ok().filter(|thread| *thread < self.threads.len())
    }

    /// Returns every legal number of operations of `thread` that produces the content of its keys.
    fn candidates(&self, pairs: &Pairs, thread: usize, bounds: Bounds, shared: &[usize]) -> Result<Vec<usize>, String> {
        let prefix = format!("{thread}-").into_bytes();
        let own: Pairs =
            pairs.iter().filter(|(k, _)| k.starts_with(&prefix)).map(|(k, v)| (k.clone(), v.clone())).collect();
        let (mut state, mut appended, mut fitting) = (Pairs::new(), Vec::new(), Vec::new());
        for k in 0..=bounds.high {
            if state == own && appended == shared {
                fitting.push(k);
            }
            for change in operation(self.seed, thread, k) {
                change.apply(&mut state);
                if state.remove(SHARED_KEY).is_some() {
                    appended.push(k);
                }
            }
        }
        let legal: Vec<usize> = fitting.iter().copied().filter(|k| *k >= bounds.low).collect();
        match (legal.is_empty(), fitting.last()) {
            (false, _) => Ok(legal),
            (true, Some(k)) => {
                Err(format!("thread {thread} has {k} operations, expected {} to {}", bounds.low, bounds.high))
            }
            (true, None) => Err(format!(
                "thread {thread} has what no number of operations makes; expected {} to {}, shared {shared:?}",
                bounds.low, bounds.high
            )),
        }
    }

    /// Returns how many operations of `thread` had returned before operation `count - 1` of `other` began.
    fn needed(&self, thread: usize, other: usize, count: usize) -> usize {
        let Some(last) = count.checked_sub(1) else { return 0 };
        let begun = self.threads[other][last].begun_ns;
        self.threads[thread].iter().take_while(|call| call.done_ns < begun).count()
    }

    /// Returns whether the name may be absent after the crash, and the publications that may be found.
    pub fn published(list: &[(usize, Span)], name: usize, crash: u64) -> (bool, Vec<(usize, Span)>) {
        let named = list.iter().filter(|(n, _)| *n == name).map(|(_, span)| *span).enumerate();
        let begun: Vec<(usize, Span)> = named.filter(|(_, span)| span.is_begun(crash)).collect();
        let last_done = begun.iter().rposition(|(_, span)| span.is_done(crash));
        (last_done.is_none(), begun[last_done.unwrap_or(0)..].to_vec())
    }

    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let mut text = format!("{} {:?}\n", self.seed, self.durability);
        let mut line = |kind: &str, number: usize, span: &Span| {
            let Span { begun_event, begun_ns, done_event, done_ns } = span;
            writeln!(text, "{kind} {number} {begun_event} {begun_ns} {done_event} {done_ns}").expect("memory");
        };
        for (thread, calls) in self.threads.iter().enumerate() {
            calls.iter().for_each(|call| line("call", thread, call));
        }
        self.safes.iter().for_each(|safe| line("safe", 0, safe));
        self.backups.iter().for_each(|(name, span)| line("backup", *name, span));
        self.dictionaries.iter().for_each(|(name, span)| line("dictionary", *name, span));
        std::fs::write(path, text)
    }

    pub fn load(path: &Path) -> Result<History, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let bad = || format!("{}: not a history", path.display());
        let (head, lines) = text.split_once('\n').ok_or_else(bad)?;
        let (seed, durability) = head.split_once(' ').ok_or_else(bad)?;
        let mut history = History::new(seed.parse().map_err(|_| bad())?, durability_named(durability).ok_or_else(bad)?);
        for line in lines.lines() {
            let (kind, numbers) = line.split_once(' ').ok_or_else(bad)?;
            let numbers: Result<Vec<u64>, _> = numbers.split(' ').map(str::parse).collect();
            let [number, begun_event, begun_ns, done_event, done_ns] = numbers.map_err(|_| bad())?[..] else {
                return Err(bad());
            };
            let (number, span) = (number as usize, Span { begun_event, begun_ns, done_event, done_ns });
            match kind {
                "call" => {
                    history.threads.resize(history.threads.len().max(number + 1), Vec::new());
                    history.threads[number].push(span);
                }
                "safe" => history.safes.push(span),
                "backup" => history.backups.push((number, span)),
                "dictionary" => history.dictionaries.push((number, span)),
                _ => return Err(bad()),
            }
        }
        Ok(history)
    }
}

pub fn durability_named(name: &str) -> Option<Durability> {
    [Durability::None, Durability::Os, Durability::Sync].into_iter().find(|d| format!("{d:?}") == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Change;

    /// Two threads whose calls alternate, each an event and a microsecond long.
    fn history(durability: Durability) -> History {
        let mut history = History::new(5, durability);
        let span =
            |at: u64| Span { begun_event: at, begun_ns: at * 1000, done_event: at + 1, done_ns: at * 1000 + 900 };
        history.threads = vec![(0..20).map(|i| span(2 * i)).collect(), (0..20).map(|i| span(2 * i + 1)).collect()];
        history.safes.push(span(21));
        history
    }

    fn pairs(counts: [usize; 2]) -> Pairs {
        let mut pairs = Pairs::new();
        for (thread, count) in counts.into_iter().enumerate() {
            (0..count).flat_map(|i| operation(5, thread, i)).for_each(|change| change.apply(&mut pairs));
        }
        pairs
    }

    #[test]
    fn a_write_is_safe_when_its_durability_says_so() {
        let none = history(Durability::None).bounds(30);
        assert_eq!(none, [Bounds { low: 11, high: 16 }, Bounds { low: 10, high: 15 }]);
        assert_eq!(history(Durability::Os).bounds(21)[0], Bounds { low: 0, high: 11 });
        assert_eq!(history(Durability::Sync).bounds(30), [Bounds { low: 15, high: 16 }, Bounds { low: 15, high: 15 }]);
    }

    #[test]
    fn a_content_is_legal_only_if_a_prefix_of_the_operations_produces_it() {
        let history = history(Durability::Os);
        let bounds = history.bounds(30);
        assert_eq!(history.find(&pairs([13, 12]), &bounds).unwrap(), [13, 12]);
        // One of the first thread's operations is missing although it returned before others began.
        assert!(history.find(&pairs([11, 13]), &bounds).unwrap_err().contains("had returned"));
        // A safe operation is lost; an operation that never began is present.
        assert!(history.find(&pairs([10, 10]), &bounds).unwrap_err().contains("expected 11 to 16"));
        assert!(history.find(&pairs([17, 16]), &bounds).is_err());
        let mut torn = pairs([13, 12]);
        torn.values_mut().next().unwrap().push(0);
        assert!(history.find(&torn, &bounds).unwrap_err().contains("no number of operations"));
        let mut foreign = pairs([13, 12]);
        foreign.insert(b"2-1".to_vec(), Vec::new());
        assert!(history.find(&foreign, &bounds).unwrap_err().contains("never put"));
    }

    #[test]
    fn half_of_a_batch_is_noticed() {
        let history = history(Durability::Sync);
        let is_batch = |changes: &[Change]| changes.len() > 2 && matches!(changes[0], Change::Put(..));
        let batches = (0..20).map(|i| (i, operation(5, 0, i)));
        let (number, batch) = batches.into_iter().find(|(_, changes)| is_batch(changes)).unwrap();
        let mut half = pairs([number, number]);
        batch[0].apply(&mut half);
        assert!(history.find(&half, &[Bounds { low: 0, high: 20 }; 2]).is_err());
    }

    #[test]
    fn a_name_has_what_was_published_last_or_is_being_published() {
        let span = |at: u64| Span { begun_event: at, begun_ns: at, done_event: at + 5, done_ns: at + 5 };
        let list = [(0, span(0)), (1, span(10)), (0, span(20)), (0, span(30))];
        let versions = |crash| {
            let (may_be_absent, found) = History::published(&list, 0, crash);
            (may_be_absent, found.iter().map(|(version, _)| *version).collect::<Vec<_>>())
        };
        assert_eq!(versions(3), (true, vec![0]));
        assert_eq!(versions(5), (false, vec![0]));
        assert_eq!(versions(22), (false, vec![0, 1]));
        assert_eq!(versions(40), (false, vec![2]));
    }

    #[test]
    fn a_saved_history_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let mut saved = history(Durability::None);
        saved.backups.push((1, saved.safes[0]));
        saved.save(&path).unwrap();
        assert_eq!(format!("{:?}", History::load(&path).unwrap()), format!("{saved:?}"));
    }
}
