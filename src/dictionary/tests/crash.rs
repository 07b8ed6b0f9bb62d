//! Crash tests: after any crash, the path has either the old dictionary or the new one, complete.
//!
//! ```text
//! work (build, update; file, shards) --> calls to the disk 0, 1, 2, ...
//! crash before call n, or within it --> survivors --> open: old or new, verify finds nothing
//!                                                 --> the same work again: new, and nothing is left of the first
//! faults: call n fails --> an error and the old one, or the new one; the same after a power loss
//! ```
//!
//! The disk: io/simulated/mod.rs. Memory is small, so that the sort uses its files. Its threads call the disk in any
//! order, and each crash follows the order that actually occurred.

use super::model::Model;
use crate::dictionary::build::plan::MEMORY_BYTES_MIN;
use crate::dictionary::handle::is_missing;
use crate::dictionary::{Compression, Dictionary, DictionaryBuilder, DictionaryOptions, Index};
use crate::error::{ErrorKind, Result};
use crate::io::simulated::{Crash, Event, Fault, Plan, Simulated, State, Tally};
use crate::random::Random;
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "/d/a.spd";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// No dictionary exists.
    First,
    /// An older dictionary is replaced.
    Again,
    Update,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    work: Work,
    shards: u32,
    index: Index,
    /// Records have one size, which is only known at the end: the file is written twice.
    twice: bool,
    /// A build with named temporary files.
    resume: bool,
}

const CASE: Case = Case { work: Work::First, shards: 0, index: Index::None, twice: false, resume: false };

fn cases() -> Vec<Case> {
    let page = Index::page();
    let works = [Work::First, Work::Again, Work::Update];
    let files = works.map(|work| Case { work, index: page, ..CASE });
    let shards = works.map(|work| Case { work, shards: 3, index: page, ..CASE });
    let others = [
        Case { work: Work::Again, index: Index::trie(), resume: true, ..CASE },
        Case { work: Work::Again, shards: 3, index: Index::page(), resume: true, ..CASE },
        Case { work: Work::Update, twice: true, ..CASE },
    ];
    files.into_iter().chain(shards).chain(others).collect()
}

fn disk() -> Arc<Simulated> {
    Arc::new(Simulated::new(State::default()))
}

impl Case {
    fn builder(&self, disk: &Arc<Simulated>) -> DictionaryBuilder {
        let builder = DictionaryBuilder::new()
            .index(self.index)
            .page_bytes(512)
            .memory_bytes(MEMORY_BYTES_MIN * u64::from(self.shards.max(1)))
            // With two threads, pairs are handed over (build/intake.rs).
            .threads(if self.resume { 2 } else { 1 });
        let builder = builder.compression(Compression::None).shards(self.shards).storage(disk.clone());
        if self.resume { builder.resume(7) } else { builder }
    }

    fn before(&self) -> Model {
        // A record of a second size, which is removed later.
        let odd = self.twice.then(|| (b"odd".to_vec(), b"of another size".to_vec()));
        (0..600u32).map(|n| (n.to_le_bytes().to_vec(), vec![n as u8; 80])).chain(odd).collect()
    }

    fn after(&self) -> Model {
        let mut new = if self.work == Work::Update { self.before() } else { Model::new() };
        new.remove(&b"odd"[..]);
        new.extend((500..1000u32).map(|n| (n.to_le_bytes().to_vec(), vec![!n as u8; 80])));
        new
    }

    /// Makes the dictionary that exists before the work; returns the disk's content.
    fn base(&self, disk: &Arc<Simulated>) -> Result<State> {
        disk.reset(State::default());
        if self.work != Work::First {
            let mut build = self.builder(disk).start(PATH)?;
            self.before().iter().try_for_each(|(key, value)| build.push(key, value))?;
            build.finish()?;
        }
        Ok(disk.state().survivors(Crash::LoseUnsynced, &mut Random::new(&[0]), &mut Tally::default()))
    }

    fn run(&self, disk: &Arc<Simulated>) -> Result<u64> {
        let path = Path::new(PATH);
        if self.work == Work::Update {
            let mut update = Dictionary::update(path, path, &self.builder(disk))?;
            let old = self.before();
            for (key, value) in self.after().iter().filter(|(key, value)| old.get(*key) != Some(value)) {
                update.put(key, value)?;
            }
            update.remove(b"odd")?;
            return update.finish();
        }
        let mut build = self.builder(disk).start(path)?;
        let skip = build.resumed_pairs() as usize;
        self.after().iter().skip(skip).try_for_each(|(key, value)| build.push(key, value))?;
        build.finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survivor {
    Nothing,
    Old,
    New,
}

/// Returns which dictionary is at the path; it must be complete.
fn found(case: &Case, disk: &Arc<Simulated>, context: &str) -> Survivor {
    let dictionary = match DictionaryOptions::new().open_on(disk.clone(), Path::new(PATH)) {
        Ok(dictionary) => dictionary,
        // The second case is a directory without a manifest.
        Err(e) if is_missing(&e) || case.shards > 0 && e.kind() == ErrorKind::NotADictionary => {
            return Survivor::Nothing;
        }
        Err(e) => panic!("{context}: {e}"),
    };
    assert_eq!(dictionary.verify().unwrap(), [], "{context}");
    let content: Model = dictionary.iter().map(|pair| pair.unwrap()).collect();
    assert!(content.keys().all(|key| dictionary.contains(key).unwrap()), "{context}: not all are found");
    if content == case.after() {
        return Survivor::New;
    }
    assert!(content == case.before(), "{context}: {} pairs, neither old nor new", content.len());
    Survivor::Old
}

/// Returns the names that exist and do not belong to the dictionary.
fn left_behind(disk: &Arc<Simulated>) -> Vec<String> {
    let mut wanted = vec![PATH.to_owned()];
    if let Ok(Dictionary { manifest: Some(manifest), .. }) =
        DictionaryOptions::new().open_on(disk.clone(), Path::new(PATH))
    {
        wanted.push(format!("{PATH}/manifest"));
        wanted.extend(manifest.shards.iter().map(|shard| format!("{PATH}/{}", shard.name)));
    }
    let names = disk.state();
    names.names().map(|name| name.display().to_string()).filter(|name| !wanted.contains(name)).collect()
}

/// Leaves out files whose names are removed as soon as they are created. Such a file may keep its name if power is lost
/// in between, and no process knows which build created it.
fn without_unnamed(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| !name.ends_with(".tmp"));
    names
}

#[test]
fn a_crash_leaves_the_old_dictionary_or_the_new_one() {
    crash_at_every_call(false);
}

#[test]
#[ignore = "slow: every way to crash at every call"]
fn every_crash_leaves_the_old_dictionary_or_the_new_one() {
    crash_at_every_call(true);
}

fn crash_at_every_call(in_every_way: bool) {
    let disk = disk();
    let (mut crashes, mut of_each) = (0, [0; 3]);
    for case in cases() {
        let base = case.base(&disk).unwrap();
        disk.reset(base.clone());
        case.run(&disk).unwrap();
        let trace = disk.trace();
        assert!(trace.len() > 25, "{case:?}: {} calls", trace.len());
        let before = if case.work == Work::First { Survivor::Nothing } else { Survivor::Old };
        let mut state = base;
        let mut random = Random::new(&[trace.len() as u64]);
        for call in 0..=trace.len() {
            let event = trace.get(call).unwrap_or(&Event::Look);
            let torn = state.torn(call as u64, event, &mut random);
            let ended = call == trace.len();
            let states: Vec<State> = if event.changes() || ended {
                [Some(state.clone()), torn].into_iter().flatten().collect()
            } else {
                vec![]
            };
            for state in states {
                let one = Crash::ALL[call % Crash::ALL.len()];
                for crash in Crash::ALL {
                    if !in_every_way && !ended && crash != one && crash != Crash::LoseUnsynced {
                        continue;
                    }
                    let context = format!("{case:?}, call {call} of {}: {event:.0?}, {crash:?}", trace.len());
                    let survivors = state.survivors(crash, &mut random, &mut Tally::default());
                    disk.reset(survivors);
                    let found = found(&case, &disk, &context);
                    let promised =
                        if ended { found == Survivor::New } else { found == Survivor::New || found == before };
                    assert!(promised, "{context}: {found:?}");
                    of_each[found as usize] += 1;
                    crashes += 1;
                    // Updating an updated dictionary changes nothing.
                    if crashes % 7 == 0 && (case.work != Work::Update || found == Survivor::Old) {
                        case.run(&disk).unwrap_or_else(|e| panic!("{context}, and again: {e}"));
                        assert_eq!(self::found(&case, &disk, &context), Survivor::New, "{context}, and again");
                        assert_eq!(without_unnamed(left_behind(&disk)), [""; 0], "{context}, and again");
                    }
                }
            }
            if !ended {
                state.apply(call as u64, event);
            }
        }
    }
    println!("{crashes} crashes: {of_each:?} left nothing, the old one, the new one");
    assert!(crashes > 500 && of_each.iter().all(|count| *count > 20), "{crashes}: {of_each:?}");
}

#[test]
fn a_call_that_fails_leaves_the_old_dictionary_and_nothing_else() {
    fail_calls(4);
}

#[test]
#[ignore = "slow: every call fails in every way"]
fn every_call_that_fails_leaves_the_old_dictionary_and_nothing_else() {
    fail_calls(1);
}

/// Fails one call in `every`, and the last calls, in which the dictionary gets its name.
fn fail_calls(every: u64) {
    let (disk, other) = (disk(), disk());
    let (mut errors, mut survived) = (0, 0);
    for case in cases() {
        let base = case.base(&disk).unwrap();
        disk.reset(base.clone());
        case.run(&disk).unwrap();
        let calls = disk.calls();
        let before = if case.work == Work::First { Survivor::Nothing } else { Survivor::Old };
        for at in (0..calls).filter(|at| at % every == 0 || at + 12 > calls) {
            for (fault, lasting) in
                [(Fault::Io, false), (Fault::NoSpace, true), (Fault::Short, false), (Fault::Io, true)]
            {
                let context = format!("{case:?}, call {at} of {calls}, {fault:?}, lasting: {lasting}");
                disk.reset(base.clone());
                disk.plan(Some(Plan { fault, at, lasting }));
                let result = case.run(&disk);
                disk.plan(None);
                if let Err(e) = &result {
                    let kind = if fault == Fault::NoSpace { ErrorKind::DiskFull } else { ErrorKind::Io };
                    assert_eq!(e.kind(), kind, "{context}: {e}");
                }
                // Once the new dictionary has its name, it is found, although a power loss may undo the rename.
                let last_name = if case.shards > 0 { "manifest" } else { "a.spd" };
                let is_named = |event: &Event| matches!(event, Event::Rename(_, to) if to.ends_with(last_name));
                let named = disk.trace().iter().any(is_named);
                // After the sync of its name nothing fails any more.
                let synced = |event: &Event| matches!(event, Event::SyncNames(path) if path == Path::new(PATH));
                let trace = disk.trace();
                let durable = trace.iter().rposition(synced).filter(|_| named && case.shards == 0);
                assert!(durable.is_none_or(|call| result.is_ok() || at <= call as u64), "{context}: {result:?}");
                let wanted = if result.is_ok() || named { Survivor::New } else { before };
                assert_eq!(found(&case, &disk, &context), wanted, "{context}: {result:?}");
                errors += u64::from(result.is_err());
                survived += u64::from(result.is_ok());
                let left = without_unnamed(left_behind(&disk));
                // The failing call may be the removal itself, or come before it; then the next build removes the file.
                // With resume it is kept, to continue from.
                let removes = lasting && fault == Fault::Io || named || case.resume;
                assert!(removes || left.len() <= usize::from(!lasting), "{context}: {left:?}");
                if at % 5 == 0 && result.is_err() && !named {
                    other.reset(disk.state());
                    case.run(&other).unwrap_or_else(|e| panic!("{context}, and again: {e}"));
                    assert_eq!(found(&case, &other, &context), Survivor::New, "{context}, and again");
                    assert_eq!(without_unnamed(left_behind(&other)), [""; 0], "{context}, and again");
                }
                for crash in [Crash::LoseUnsynced, Crash::Mix] {
                    let state = disk.state().survivors(crash, &mut Random::new(&[at]), &mut Tally::default());
                    other.reset(state);
                    let found = found(&case, &other, &context);
                    let promised = found == Survivor::New || result.is_err() && found == before;
                    assert!(promised, "{context}, {crash:?}: {found:?} after {result:?}");
                }
            }
        }
    }
    println!("{errors} errors, {survived} that went on");
    assert!(errors > 300, "{errors} errors, {survived} that went on");
}

#[test]
fn a_publish_that_is_cut_short_leaves_no_temporary_file_of_a_sort_without_its_manifest() {
    let case = Case { work: Work::Again, shards: 3, ..CASE };
    let disk = disk();
    let mut base = case.base(&disk).unwrap();
    // A resumable build of five shards was killed.
    for name in ["3-2.spd-sort", "3-2.spd-sort-000", "4-2.spd-sort", "4-2.spd-sort-values"] {
        base.add_file(&Path::new(PATH).join(name), b"");
    }
    let (mut call, mut cut) = (0, 0);
    loop {
        disk.reset(base.clone());
        disk.plan(Some(Plan { fault: Fault::Io, at: call, lasting: true }));
        let is_over = case.run(&disk).is_ok() && disk.calls() <= call;
        let state = disk.state();
        let names: Vec<&str> = state.names().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        let of_sorts = names.iter().filter_map(|name| name.split_once("-sort-"));
        let left: Vec<String> = of_sorts.map(|(sort, _)| format!("{sort}-sort")).collect();
        assert!(left.iter().all(|manifest| names.contains(&&manifest[..])), "call {call}: {names:?}");
        cut += usize::from(left.len() == 1);
        if is_over {
            assert!(left.is_empty());
            break;
        }
        call += 1;
    }
    assert!(cut > 0, "no publish was cut short between two removals");
}

#[test]
fn a_build_of_shards_that_ends_before_its_manifest_is_published_continues_from_all_that_was_saved() {
    const PAIRS: u64 = 500;
    let case = Case { shards: 3, index: Index::page(), resume: true, ..CASE };
    let disk = disk();
    let run = || -> Result<u64> {
        let mut build = case.builder(&disk).start(PATH)?;
        case.after().iter().try_for_each(|(key, value)| build.push(key, value))?;
        build.save()?;
        build.finish()
    };
    let names_a_shard = |event: &Event| matches!(event, Event::Rename(_, to) if to.extension().is_some());
    let names_the_manifest = |event: &Event| matches!(event, Event::Rename(_, to) if to.ends_with("manifest"));
    assert_eq!(run().unwrap(), PAIRS);
    let trace = disk.trace();
    let first = trace.iter().position(names_a_shard).unwrap();
    let last = trace.iter().position(names_the_manifest).unwrap();
    let mut continued = 0;
    for (fault, lasting) in [(Fault::Dead, true), (Fault::Io, false)] {
        for at in first..=last {
            let context = format!("{fault:?} at call {at} of {first} to {last}");
            disk.reset(State::default());
            disk.plan(Some(Plan { fault, at: at as u64, lasting }));
            let ended = run();
            disk.plan(None);
            // The threads of a build call the disk in any order.
            let trace = disk.trace();
            if ended.is_ok() || !trace.iter().any(names_a_shard) || trace.iter().any(names_the_manifest) {
                continue;
            }
            let build = case.builder(&disk).start(PATH).unwrap();
            assert_eq!((build.resumed_pairs(), build.discarded_pairs()), (PAIRS, 0), "{context}");
            assert_eq!(build.finish().unwrap(), PAIRS, "{context}");
            assert_eq!(found(&case, &disk, &context), Survivor::New, "{context}");
            assert_eq!(without_unnamed(left_behind(&disk)), [""; 0], "{context}");
            continued += 1;
        }
    }
    assert!(continued > 20, "{continued}");
}
