//! Builds and updates of dictionaries: `kill -9` at random moments, and full disks.
//!
//! The n-th dictionary is determined by n. A process makes the next one and is killed. Then the path must have the
//! previous or the next dictionary, complete. Temporary files have no names, or names that the next build removes,
//! except for a complete dictionary about to be renamed. A build with resume continues from them, and its result is
//! byte for byte that of an undisturbed build.

use super::{Running, process, task_arguments, this_binary, with_task};
use crate::corruption::{Random, directory};
use crate::dictionaries::Pairs;
use splitpoint::dictionary::Index;
use splitpoint::{Dictionary, DictionaryBuilder, ErrorKind};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The kind of build that a process runs. Its arguments are these fields and the number of the dictionary.
#[derive(Clone, Copy, Debug)]
struct Kind {
    update: bool,
    shards: u32,
    resume: bool,
    trie: bool,
}

impl Kind {
    fn arguments(self, n: u64) -> [u64; 5] {
        [self.update.into(), self.shards.into(), self.resume.into(), self.trie.into(), n]
    }

    fn of(arguments: &[u64]) -> (Kind, u64) {
        let &[update, shards, resume, trie, n] = arguments else { panic!("arguments") };
        (Kind { update: update == 1, shards: shards as u32, resume: resume == 1, trie: trie == 1 }, n)
    }

    /// Returns a builder with so little memory that pairs go to temporary files.
    fn builder(self, n: u64) -> DictionaryBuilder {
        let index = if self.trie { Index::trie() } else { Index::page() };
        let builder = DictionaryBuilder::new()
            .index(index)
            .memory_bytes((64 << 10) * u64::from(self.shards.max(1)))
            .threads(2)
            .shards(self.shards);
        if self.resume { builder.resume(n) } else { builder }
    }
}

/// Returns the pairs of dictionary `n`. With each `n` some change, some are removed, some are added.
fn pairs(n: u64) -> Pairs {
    let pair =
        |k: u64| (format!("key {k}").into_bytes(), format!("{} {k} ", k * 7 + n % 3 * (k % 2)).repeat(8).into_bytes());
    (n % 5 * 100..4000 + n % 7 * 50).map(pair).collect()
}

fn path_in(place: &Path) -> PathBuf {
    place.join("a.spd")
}

fn make(kind: Kind, n: u64, path: &Path) -> splitpoint::Result<u64> {
    if kind.update && path.exists() {
        let (before, after) = (pairs(n - 1), pairs(n));
        let mut update = Dictionary::update(path, path, &kind.builder(n))?;
        before.keys().filter(|key| !after.contains_key(*key)).try_for_each(|key| update.remove(key))?;
        after.iter().filter(|(key, value)| before.get(*key) != Some(value)).try_for_each(|(k, v)| update.put(k, v))?;
        return update.finish();
    }
    let mut build = kind.builder(n).start(path)?;
    let skip = build.resumed_pairs() as usize;
    pairs(n).iter().skip(skip).try_for_each(|(key, value)| build.push(key, value))?;
    build.finish()
}

/// Makes a dictionary.
pub fn build(place: &Path, arguments: &[u64]) {
    let (kind, n) = Kind::of(arguments);
    make(kind, n, &path_in(place)).unwrap();
}

/// Returns the number of the dictionary found, which must be complete.
fn found(path: &Path, either: [u64; 2]) -> u64 {
    let dictionary = Dictionary::open(path).unwrap();
    assert_eq!(dictionary.verify().unwrap(), []);
    let content: Pairs = dictionary.iter().map(Result::unwrap).collect();
    let found = either.into_iter().find(|n| content == pairs(*n));
    found.unwrap_or_else(|| panic!("{} pairs, neither dictionary {} nor {}", content.len(), either[0], either[1]))
}

fn names_in(place: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns every file of the dictionary, for comparison.
fn bytes_of(path: &Path) -> Vec<(String, Vec<u8>)> {
    if path.is_file() {
        return vec![(String::new(), fs::read(path).unwrap())];
    }
    // Contents by shard: the generation in a name depends on the earlier kills. A kill immediately after the manifest
    // was replaced leaves the files of the previous generation, which the next update removes.
    let mut newest = std::collections::BTreeMap::new();
    for name in names_in(path).into_iter().filter(|name| name != "manifest" && !name.contains("-sort")) {
        let (shard, rest) = name.split_once('-').expect("SHARD-GENERATION.spd");
        let generation: u64 = rest.strip_suffix(".spd").and_then(|g| g.parse().ok()).expect("SHARD-GENERATION.spd");
        let entry = newest.entry(shard.to_owned()).or_insert((generation, name.clone()));
        *entry = entry.clone().max((generation, name));
    }
    newest.into_iter().map(|(shard, (_, name))| (shard, fs::read(path.join(name)).unwrap())).collect()
}

#[derive(Default, Debug)]
struct Seen {
    killed: u32,
    before: u32,
    after: u32,
    to_resume: u32,
    resumed: u32,
}

fn kill_again_and_again(kind: Kind, kills: u32, seed: u64) -> Seen {
    let place = directory();
    let path = path_in(place.path());
    let mut seen = Seen::default();
    let mut random = Random(seed);
    let mut n = 1;
    make(kind, n, &path).unwrap();
    let run = |n| process("build_dictionary", place.path(), &kind.arguments(n));
    // Measures an undisturbed build.
    let begun = Instant::now();
    assert!(run(n + 1).status().unwrap().success());
    let mut whole = begun.elapsed();
    n += 1;
    for _ in 0..kills {
        let next = n + 1;
        let begun = Instant::now();
        let running = Running::start(&mut run(next));
        std::thread::sleep(Duration::from_micros(random.next() % (whole.as_micros() as u64 * 11 / 10)));
        let ended = running.kill();
        if let Some(status) = ended {
            assert!(status.success(), "{kind:?}: {status}");
            whole = (whole * 7 + begun.elapsed()) / 8;
        } else {
            whole += whole / 50;
        }
        seen.killed += u32::from(ended.is_none());
        let there = found(&path, [n, next]);
        assert!(ended.is_none() || there == next, "{kind:?}: a build that ended is not there");
        *(if there == next { &mut seen.after } else { &mut seen.before }) += 1;
        let mut left = names_in(place.path());
        if path.is_dir() {
            left.extend(names_in(&path).into_iter().filter(|name| name.contains("-sort")));
        }
        let sorting = |name: &&String| name.contains(".spd-sort");
        let unnamed = |name: &&String| name.ends_with(".tmp");
        seen.to_resume += u32::from(left.iter().any(|name| sorting(&name) && !unnamed(&name)));
        let strange: Vec<_> =
            left.iter().filter(|name| *name != "a.spd" && !name.starts_with("a.spd-unfinished")).collect();
        assert!(strange.iter().all(|name| kind.resume && sorting(name) && !unnamed(name)), "{kind:?}: {strange:?}");
        if random.one_in(3) {
            // Builds undisturbed, from the files that the kill left.
            if kind.resume && there == n {
                seen.resumed += u32::from(kind.builder(next).start(&path).unwrap().resumed_pairs() > 0);
            }
            if !kind.update || there == n {
                make(kind, next, &path).unwrap();
            }
            let apart = directory();
            make(Kind { resume: false, update: false, ..kind }, next, &path_in(apart.path())).unwrap();
            assert!(
                bytes_of(&path) == bytes_of(&path_in(apart.path())),
                "{kind:?}: other bytes than an undisturbed build"
            );
            assert_eq!(names_in(place.path()), ["a.spd"], "{kind:?}");
            n = next;
        } else {
            n = there;
        }
    }
    println!("{kind:?}: {seen:?}");
    seen
}

const FILE: Kind = Kind { update: false, shards: 0, resume: false, trie: false };

fn kinds() -> [Kind; 7] {
    [
        FILE,
        Kind { trie: true, ..FILE },
        Kind { resume: true, trie: true, ..FILE },
        Kind { update: true, ..FILE },
        Kind { shards: 3, ..FILE },
        Kind { shards: 3, resume: true, ..FILE },
        Kind { shards: 3, update: true, ..FILE },
    ]
}

#[test]
fn a_killed_build_or_update_leaves_the_dictionary_of_before_or_the_next() {
    for (seed, kind) in kinds().into_iter().enumerate() {
        kill_again_and_again(kind, 12, seed as u64);
    }
}

#[test]
#[ignore = "slow: 3000 killed processes"]
fn thousands_of_killed_builds_leave_the_dictionary_of_before_or_the_next() {
    for (seed, kind) in kinds().into_iter().enumerate() {
        let seen = kill_again_and_again(kind, 500, 100 + seed as u64);
        assert!(seen.killed > 200 && seen.before > 100 && seen.after > 5, "{kind:?}: {seen:?}");
        assert!(!kind.resume || seen.to_resume > 20 && seen.resumed > 5, "{kind:?}: {seen:?}");
    }
}

#[test]
fn a_resumed_build_is_that_of_one_which_nobody_disturbed() {
    for kind in [Kind { resume: true, trie: true, ..FILE }, Kind { resume: true, shards: 3, ..FILE }] {
        let place = directory();
        let path = path_in(place.path());
        let files = if kind.shards > 0 { &path } else { place.path() };
        // Stops when everything is sorted and the first pages are written.
        let stopping = kind.builder(9).progress(|_| std::ops::ControlFlow::Break(()));
        let stopped = stopping.build(&path, pairs(9)).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Stopped, "{stopped}");
        assert!(names_in(files).iter().any(|name| name.contains("-sort")), "{:?}", names_in(files));
        let resuming = kind.builder(9).start(&path).unwrap();
        assert!(resuming.resumed_pairs() == pairs(9).len() as u64 && resuming.resumed_all(), "{kind:?}");
        drop(resuming);
        make(kind, 9, &path).unwrap();
        let apart = directory();
        make(Kind { resume: false, ..kind }, 9, &path_in(apart.path())).unwrap();
        assert!(bytes_of(&path) == bytes_of(&path_in(apart.path())));
        assert_eq!(names_in(place.path()), ["a.spd"]);
    }
}

/// Makes dictionary 2 over 1 under a limit on the length of files.
pub fn build_under_a_limit(place: &Path, arguments: &[u64]) {
    let (kind, n) = Kind::of(arguments);
    let refused = make(kind, n, &path_in(place)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
}

#[test]
fn a_full_disk_is_an_error_and_the_old_dictionary_stays() {
    for kind in kinds() {
        // Either the temporary files or the new file exceeds the limit.
        for limit_kib in [4, 30, 100] {
            let place = directory();
            let path = path_in(place.path());
            make(kind, 1, &path).unwrap();
            let before = bytes_of(&path);
            let names = names_in(if kind.shards > 0 { &path } else { place.path() });
            // The limit is in blocks of 512 bytes; the signal at the limit would end any program.
            let script = format!("ulimit -f {}; exec \"$0\" \"$@\"", 2 * limit_kib);
            let mut command = Command::new("sh");
            command.args(["-c", &script]).arg(this_binary()).args(task_arguments());
            with_task(&mut command, "build_dictionary_under_a_limit", place.path(), &kind.arguments(2));
            let context = format!("{kind:?}, {limit_kib} KiB");
            assert!(command.status().unwrap().success(), "{context}");
            assert!(bytes_of(&path) == before, "{context}: the old one changed");
            assert_eq!(found(&path, [1, 1]), 1);
            let mut left = names_in(if kind.shards > 0 { &path } else { place.path() });
            left.retain(|name| !kind.resume || !name.contains("-sort"));
            assert_eq!(left, names, "{context}");
            make(kind, 2, &path).unwrap();
            assert_eq!(found(&path, [1, 2]), 2);
        }
    }
}

/// Makes dictionary 2 over 1 where no thread can be created. A build works with fewer threads.
pub fn build_without_threads(place: &Path, arguments: &[u64]) {
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "a thread was made");
    let (kind, n) = Kind::of(arguments);
    if let Err(refused) = make(kind, n, &path_in(place)) {
        assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
        std::fs::write(place.join("refused"), refused.to_string()).unwrap();
    }
}

#[test]
fn a_build_without_threads_is_an_error_and_the_old_dictionary_stays() {
    let mut refusals = 0;
    for kind in kinds() {
        let place = directory();
        let path = path_in(place.path());
        make(kind, 1, &path).unwrap();
        let mut command = process("build_dictionary_without_threads", place.path(), &kind.arguments(2));
        // No address space has room for a stack of 2^50 bytes.
        let status = command.env("RUST_MIN_STACK", (1u64 << 50).to_string()).status().unwrap();
        assert!(status.success(), "{kind:?}: {status}");
        let refused = std::fs::read_to_string(place.path().join("refused"));
        assert_eq!(found(&path, [1, 2]), if refused.is_ok() { 1 } else { 2 }, "{kind:?}: {refused:?}");
        refusals += usize::from(refused.is_ok());
        make(kind, 2, &path).unwrap();
        assert_eq!(found(&path, [1, 2]), 2, "{kind:?}");
    }
    assert!(refusals > 0, "no build needs a thread");
}
