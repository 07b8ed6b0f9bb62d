//! Checks what a crash left, in its own process: the file system is mounted, and the library opens the files.
//!
//! 1. The table opens, `verify` finds nothing, and its content is legal ([`History::find`]).
//! 2. Each backup and dictionary that was published exists and is complete: the last version, or the one being made.
//! 3. The table remains usable: more operations with occasional syncs, a close, an open, a comparison. These have their
//!    own history, so that they can be crashed too.

use crate::changes::{Pairs, dictionary_pairs, operation};
use crate::history::{Bounds, History, Span};
use crate::workload::{BACKUPS, Clock, DICTIONARIES, TABLE, apply, builder, options};
use splitpoint::{Dictionary, Table, TableOptions};
use std::path::PathBuf;

/// Operations after a recovery.
const FURTHER: usize = 40;

/// A crash: the history before it, and the number of events that the disk had seen.
pub struct Crash {
    pub history: PathBuf,
    pub event: u64,
}

/// The files to check.
pub struct Look {
    pub folder: PathBuf,
    pub counter: PathBuf,
    pub crash: Crash,
    /// A crash of the recovery from the first one, and what that recovery had found.
    pub second: Option<(Crash, Vec<usize>)>,
    /// The file for the history of the operations afterwards.
    pub further: Option<PathBuf>,
}

impl Look {
    /// Runs the checks. Returns how many operations of each thread were found.
    pub fn run(&self) -> Result<Vec<usize>, String> {
        let mut history = History::load(&self.crash.history)?;
        let mut bounds = history.bounds(self.crash.event);
        let said = |what: &str, why: String| Err(format!("{what}: {why}"));
        self.look_at_dictionaries(&history).or_else(|why| said("dictionaries", why))?;
        self.look_at_backups(&history).or_else(|why| said("backups", why))?;
        if let Some((crash, found)) = &self.second {
            let further = History::load(&crash.history)?;
            bounds = found.iter().map(|k| Bounds { low: *k, high: *k }).collect();
            bounds.extend(further.bounds(crash.event));
            let calls = further.threads.iter().flatten();
            history.threads.push(calls.map(on_another_clock).collect());
        }
        let clock = Clock::new(&self.counter).map_err(|e| e.to_string())?;
        let mut log = History::new(history.seed, history.durability);
        let mut table = None;
        let opened = clock.time(|| {
            table = Some(options(history.durability).open(self.folder.join(TABLE))?);
            Ok(())
        });
        opened.map_err(|e| format!("the table does not open: {e}"))?;
        let table = table.ok_or("no table")?;
        let found = history.find(&contents(&table)?, &bounds)?;
        self.go_on(table, history, &found, &clock, &mut log).or_else(|why| said("going on", why))?;
        if let Some(path) = &self.further {
            log.save(path).map_err(|e| e.to_string())?;
        }
        Ok(found)
    }

    /// Runs more operations as a new thread, opens the table again and compares it.
    fn go_on(
        &self,
        table: Table,
        mut history: History,
        found: &[usize],
        clock: &Clock,
        log: &mut History,
    ) -> Result<(), String> {
        let thread = history.threads.len();
        log.threads.push(Vec::new());
        let text = |e: splitpoint::Error| e.to_string();
        for number in 0..FURTHER {
            let changes = operation(history.seed, thread, number);
            log.threads[0].push(clock.time(|| apply(&table, &changes)).map_err(text)?);
            match number % 10 {
                4 => log.safes.push(clock.time(|| table.sync()).map_err(text)?),
                7 => log.safes.push(clock.time(|| table.compact()).map_err(text)?),
                9 => log.safes.push(clock.time(|| table.checkpoint()).map_err(text)?),
                _ => {}
            }
        }
        log.safes.push(clock.time(|| table.close()).map_err(text)?);
        let table = options(history.durability).open(self.folder.join(TABLE)).map_err(text)?;
        history.threads.push(log.threads[0].iter().map(on_another_clock).collect());
        let bounds: Vec<Bounds> = found.iter().chain([&FURTHER]).map(|k| Bounds { low: *k, high: *k }).collect();
        history.find(&contents(&table)?, &bounds)?;
        table.close().map_err(text)?;
        // The remains of an interrupted build do not prevent the next one.
        for (name, file) in DICTIONARIES.iter().enumerate().filter(|_| self.second.is_some()) {
            let (path, expected) = (self.folder.join(file), dictionary_pairs(history.seed, 0));
            builder(name).build(&path, &expected).map_err(text)?;
            if words(&Dictionary::open(&path).map_err(text)?)? != expected {
                return Err(format!("{file} is not what was just built"));
            }
        }
        Ok(())
    }

    fn look_at_backups(&self, history: &History) -> Result<(), String> {
        for (name, file) in BACKUPS.iter().enumerate() {
            let (may_be_absent, versions) = History::published(&history.backups, name, self.crash.event);
            let path = self.folder.join(file);
            if may_be_absent && !path.exists() {
                continue;
            }
            let table = TableOptions::new().read_only(true).open(&path).map_err(|e| e.to_string())?;
            let pairs = contents(&table)?;
            let legal = |(_, span): &(usize, Span)| history.find(&pairs, &history.bounds_of_copy(span)).err();
            let refused: Vec<String> = versions.iter().map_while(legal).collect();
            if refused.len() == versions.len() {
                return Err(format!("{file} equals none of {} copies: {}", versions.len(), refused.join("; ")));
            }
        }
        Ok(())
    }

    fn look_at_dictionaries(&self, history: &History) -> Result<(), String> {
        for (name, file) in DICTIONARIES.iter().enumerate() {
            let (may_be_absent, versions) = History::published(&history.dictionaries, name, self.crash.event);
            let path = self.folder.join(file);
            let dictionary = match Dictionary::open(&path) {
                Ok(dictionary) => dictionary,
                // A directory of shards may exist without its manifest, which is published last.
                Err(_) if may_be_absent && (!path.exists() || path.is_dir()) => continue,
                Err(e) => return Err(e.to_string()),
            };
            let pairs = words(&dictionary)?;
            if !versions.iter().any(|(version, _)| dictionary_pairs(history.seed, *version) == pairs) {
                let versions: Vec<usize> = versions.iter().map(|(version, _)| *version).collect();
                return Err(format!("{file} has {} pairs, those of none of the versions {versions:?}", pairs.len()));
            }
        }
        Ok(())
    }
}

/// A call without an order: the state found requires everything that the call did.
fn on_another_clock(call: &Span) -> Span {
    Span { begun_ns: 0, done_ns: u64::MAX, ..*call }
}

/// Returns all pairs of a table; an error if it is damaged.
pub fn contents(table: &Table) -> Result<Pairs, String> {
    let faults = table.verify().map_err(|e| format!("verify: {e}"))?;
    if let Some(fault) = faults.first() {
        return Err(format!("verify finds {} faults, the first: {fault}", faults.len()));
    }
    let pairs: Result<Pairs, _> = table.scan().collect();
    let pairs = pairs.map_err(|e| format!("scan: {e}"))?;
    if pairs.len() as u64 != table.len() {
        return Err(format!("a scan gives {} pairs, len {}", pairs.len(), table.len()));
    }
    for (key, value) in &pairs {
        if table.get(key).map_err(|e| format!("get: {e}"))?.as_ref() != Some(value) {
            return Err(format!("get and scan differ for \"{}\"", key.escape_ascii()));
        }
    }
    Ok(pairs)
}

/// Returns all pairs of a dictionary; an error if it is damaged.
pub fn words(dictionary: &Dictionary) -> Result<Pairs, String> {
    let faults = dictionary.verify().map_err(|e| format!("verify: {e}"))?;
    if let Some(fault) = faults.first() {
        return Err(format!("verify finds {} faults, the first: {fault}", faults.len()));
    }
    let pairs: Result<Pairs, _> = dictionary.iter().collect();
    pairs.map_err(|e| format!("reading: {e}"))
}
