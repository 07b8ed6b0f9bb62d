//! A simulated disk that forgets, tears and refuses writes: the crash tests run the library on it.
//!
//! It keeps files in memory, by path, behind [`Storage`] and [`File`] like the real ones. Every call except locking has
//! a number and records an [`Event`]. A [`State`] is the result of a sequence of events, so replaying them restores the
//! disk as it was at any call.
//!
//! ```text
//! write -> now (what a read sees) + pending changes, by sector -- sync --> durable
//! create, remove, rename -> names + pending names -- sync_names --> durable names
//! crash: State::survivors(kind) = durable, and of the pending what `kind` says
//! fault: call n fails, once or from there on, as a Fault says; or the disk is full (room.rs)
//! mapping: a store is an event too, but cannot fail; a crash may interrupt one
//! ```
//!
//! A sector of 512 bytes is written as a whole or not at all. If it is unsynced, the disk may have the old version, any
//! since, or zeros, independently of its neighbours. A length is kept or lost separately from the bytes. The name of a
//! new file is lost until its directory is synced, whether its content is synced or not. After a failed sync each
//! unsynced sector is on the disk or not, independently, and no later sync writes it again, as with Linux.
//!
//! Stores into a mapping are changes in the same cache: they survive a killed process, and a sync of the file makes
//! them durable. The disk may write a sector during a store: then part of the sector is from before the store.
//!
//! Tests of the tests plant a bug of the disk: it omits a call or hides an error (`bugs.rs`).
//!
//! Not here: what must hold after a crash (`table/tests/crash`), what this cannot show (docs/testing.md, "The simulated
//! disk").

mod bugs;
mod room;

pub(crate) use bugs::{Bug, with_bug};

use super::{File, Mapped, Mode, Storage};
use crate::pager::interleave::step;
use crate::random::Random;
use bugs::planted;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

/// The unit that a disk writes as a whole or not at all.
const SECTOR_BYTES: usize = 512;
/// The unit in which the kernel copies, maps and prepares memory.
const PAGE_BYTES: u64 = 4096;

/// The end of a process, and what it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The process dies and the machine keeps running: every write is kept, and unsynced writes stay unsynced.
    Kill,
    /// Power is lost; nothing unsynced was written.
    LoseUnsynced,
    /// Power is lost; everything had been written just before.
    KeepAll,
    /// Power is lost; each unsynced sector, length and name is independently old, from any time since, or zeros.
    Mix,
    /// Power is lost; the writes before some moment were made in order, the last one partly.
    Prefix,
    /// Power is lost; lengths and names were written, sectors are new or zeros.
    Zeros,
    /// Power is lost; everything had been written just before, but removed files have their names again.
    NamesBack,
}

impl Crash {
    pub(crate) const ALL: [Crash; 7] =
        [Crash::Kill, Crash::LoseUnsynced, Crash::KeepAll, Crash::Mix, Crash::Prefix, Crash::Zeros, Crash::NamesBack];
}

/// The way in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process is dead: no call has an effect.
    Dead,
    /// `EIO`, no effect; for a sync, see the head of this file.
    Io,
    /// `ENOSPC` from calls that need space, no effect.
    NoSpace,
    /// Part of a write is done, then `EIO`.
    Short,
}

/// The calls that fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub fault: Fault,
    /// The first call that fails.
    pub at: u64,
    /// Whether all later calls fail as well.
    pub lasting: bool,
}

/// Events of the disk; tests require each of these to have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    SectorLost,
    SectorKept,
    SectorOfBetween,
    SectorZeroed,
    /// A sector was written while a store changed it.
    SectorTorn,
    WriteTorn,
    LengthLost,
    NameLost,
    NameKept,
    /// A file whose content was synced is gone, because its name was not.
    SyncedFileGone,
    DeadCall,
    ReadFailed,
    WriteFailed,
    ShortWrite,
    NoSpace,
    /// A sync failed, and only some of its writes are on the disk.
    SyncFailed,
}

/// The number of times that each [`Fired`] happened.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tally([u64; Fired::SyncFailed as usize + 1]);

impl Tally {
    fn add(&mut self, fired: Fired) {
        self.0[fired as usize] += 1;
    }

    pub(crate) fn of(&self, fired: Fired) -> u64 {
        self.0[fired as usize]
    }

    pub(crate) fn merge(&mut self, other: &Tally) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, n)| *sum += n);
    }
}

type InodeNo = usize;

/// One numbered call and its effect.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A read, an open of an existing file or a failed call: nothing changes.
    Look,
    Create(PathBuf, InodeNo),
    MakeDirectory(PathBuf, InodeNo),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
    SyncNames(PathBuf),
    Write {
        inode: InodeNo,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// A store into a mapping.
    Store {
        inode: InodeNo,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    SetLen(InodeNo, u64),
    Reserve {
        inode: InodeNo,
        bytes: u64,
    },
    /// Pages of a mapping are made ready.
    Prepare,
    Sync(InodeNo),
    /// A failed sync; the number is the seed that selects what it wrote anyway.
    FailedSync(InodeNo, u64),
}

impl Event {
    /// Returns whether the disk differs before and after it.
    pub(crate) fn changes(&self) -> bool {
        !matches!(self, Event::Look | Event::Reserve { .. } | Event::Prepare)
    }

    fn takes_room(&self, state: &State) -> bool {
        match self {
            Event::Create(..) | Event::MakeDirectory(..) => true,
            Event::Write { .. } | Event::Reserve { .. } | Event::Prepare => true,
            Event::SetLen(inode, bytes) => *bytes > state.inodes[*inode].now.len() as u64,
            _ => false,
        }
    }

    /// Returns the event partly done: the first bytes of a write; the first or last bytes of a store, which may proceed
    /// forwards or backwards.
    fn torn(&self, random: &mut Random) -> Option<Event> {
        if let Event::Store { inode, offset, bytes } = self {
            let cut = random.below(bytes.len());
            let (offset, bytes) =
                if random.percent(50) { (*offset, &bytes[..cut]) } else { (offset + cut as u64, &bytes[cut..]) };
            return Some(Event::Store { inode: *inode, offset, bytes: bytes.into() });
        }
        let Event::Write { inode, offset, bytes } = self else { return None };
        // The kernel copies whole pages: only a write that is not page-aligned can stop at any byte.
        let whole = (offset | bytes.len() as u64).is_multiple_of(PAGE_BYTES);
        let done = random.below(bytes.len());
        let done = if whole { done / SECTOR_BYTES * SECTOR_BYTES } else { done };
        Some(Event::Write { inode: *inode, offset: *offset, bytes: bytes[..done].into() })
    }
}

type Sector = [u8; SECTOR_BYTES];

/// One unsynced change of a file: the sectors and the length that it made.
struct Change {
    call: u64,
    /// Made by a store; the disk may write a sector while the store is half done.
    stored: bool,
    sectors: Vec<(usize, Sector)>,
    len: usize,
}

#[derive(Clone, Default)]
struct Inode {
    directory: bool,
    now: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    pending: Vec<Arc<Change>>,
    /// Bytes that a process reserved, which a kill leaves reserved.
    reserved: u64,
}

/// One unsynced change of a directory.
#[derive(Clone)]
struct NameChange {
    call: u64,
    gone: Option<PathBuf>,
    made: Option<(PathBuf, InodeNo)>,
}

type Names = BTreeMap<PathBuf, InodeNo>;

/// Everything on a disk and in the operating system's cache of it.
#[derive(Clone, Default)]
pub(crate) struct State {
    inodes: Vec<Inode>,
    names: Names,
    durable_names: Names,
    pending_names: Vec<NameChange>,
    /// All directories ever created; their content is lost with their names.
    directories: Vec<PathBuf>,
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        if let Some(path) = &self.gone {
            names.remove(path);
        }
        if let Some((path, inode)) = &self.made {
            names.insert(path.clone(), *inode);
        }
    }
}

/// Writes `sector` to a file that is at least long enough to contain its start.
fn put_sector(bytes: &mut [u8], number: usize, sector: &Sector) {
    let start = (number * SECTOR_BYTES).min(bytes.len());
    let end = (start + SECTOR_BYTES).min(bytes.len());
    bytes[start..end].copy_from_slice(&sector[..end - start]);
}

impl Inode {
    /// Records the new content of `now` in `range`, and its length.
    fn note_change(&mut self, call: u64, stored: bool, start: usize, end: usize) {
        let numbers = start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        let image = |number: usize| {
            let mut sector = [0; SECTOR_BYTES];
            let from = (number * SECTOR_BYTES).min(self.now.len());
            let to = (from + SECTOR_BYTES).min(self.now.len());
            sector[..to - from].copy_from_slice(&self.now[from..to]);
            (number, sector)
        };
        let change = Change { call, stored, sectors: numbers.map(image).collect(), len: self.now.len() };
        self.pending.push(Arc::new(change));
    }

    fn write(&mut self, call: u64, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        let now = Arc::make_mut(&mut self.now);
        let start = now.len().min(offset);
        if now.len() < end {
            now.resize(end, 0);
        }
        now[offset..end].copy_from_slice(bytes);
        self.note_change(call, false, start, end);
    }

    fn store(&mut self, call: u64, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        assert!(end <= self.now.len(), "a store beyond the end of the file, which is a signal");
        Arc::make_mut(&mut self.now)[offset..end].copy_from_slice(bytes);
        self.note_change(call, true, offset, end);
    }

    fn set_len(&mut self, call: u64, len: usize) {
        let before = self.now.len();
        Arc::make_mut(&mut self.now).resize(len, 0);
        self.note_change(call, false, before.min(len), before.max(len));
    }

    fn sync(&mut self) {
        let durable = Arc::make_mut(&mut self.durable);
        for change in std::mem::take(&mut self.pending) {
            durable.resize(change.len, 0);
            change.sectors.iter().for_each(|(number, sector)| put_sector(durable, *number, sector));
        }
    }

    /// Writes part of the unsynced changes and drops the rest for good. The cache keeps them or is read again: file
    /// systems differ.
    fn failed_sync(&mut self, random: &mut Random) {
        let keep = random.pick(&[0, 50, 100]);
        let content = self.mixed(random, keep, 0, &mut Tally::default());
        self.durable = Arc::new(content);
        self.pending.clear();
        if random.percent(30) {
            self.now = self.durable.clone();
        }
    }

    /// Chooses for each unsynced sector independently: with a probability of `keep` percent the newest version, of
    /// `zero` percent zeros, otherwise any older version.
    fn mixed(&self, random: &mut Random, keep: usize, zero: usize, tally: &mut Tally) -> Vec<u8> {
        let mut versions: BTreeMap<usize, Vec<(&Sector, bool)>> = BTreeMap::new();
        for change in &self.pending {
            for (number, sector) in &change.sectors {
                versions.entry(*number).or_default().push((sector, change.stored));
            }
        }
        let mut content = self.durable.to_vec();
        let now = self.pending.last().map_or(content.len(), |change| change.len);
        let len = if random.percent(keep) {
            now
        } else {
            let between = random.below(self.pending.len() + 1);
            between.checked_sub(1).map_or(content.len(), |i| self.pending[i].len)
        };
        if len != now {
            tally.add(Fired::LengthLost);
        }
        content.resize(len, 0);
        for (number, versions) in versions {
            // Zeros only where the durable content is blank: disks keep the old data until it is overwritten.
            let start = number * SECTOR_BYTES;
            let blank = self.durable.iter().skip(start).take(SECTOR_BYTES).all(|&byte| byte == 0);
            if random.percent(zero) && blank {
                tally.add(Fired::SectorZeroed);
                put_sector(&mut content, number, &[0; SECTOR_BYTES]);
                continue;
            }
            let (fired, written) = if random.percent(keep) {
                (Fired::SectorKept, versions.len())
            } else {
                match random.below(versions.len()) {
                    0 => (Fired::SectorLost, 0),
                    n => (Fired::SectorOfBetween, n),
                }
            };
            tally.add(fired);
            let Some(index) = written.checked_sub(1) else { continue };
            let (sector, stored) = versions[index];
            if stored && keep < 100 && random.percent(30) {
                tally.add(Fired::SectorTorn);
                let before = index.checked_sub(1).map(|before| versions[before].0);
                put_sector(&mut content, number, &self.half_stored(number, before, sector, random));
            } else {
                put_sector(&mut content, number, sector);
            }
        }
        content
    }

    /// Returns a sector with some new bytes, and the others from `before` or from the last sync.
    fn half_stored(&self, number: usize, before: Option<&Sector>, new: &Sector, random: &mut Random) -> Sector {
        let mut sector = [0; SECTOR_BYTES];
        match before {
            Some(before) => sector = *before,
            None => {
                let from = self.durable.len().min(number * SECTOR_BYTES);
                let durable = &self.durable[from..self.durable.len().min(from + SECTOR_BYTES)];
                sector[..durable.len()].copy_from_slice(durable);
            }
        }
        let cut = random.below(SECTOR_BYTES);
        let new_part = if random.percent(50) { 0..cut } else { cut..SECTOR_BYTES };
        sector[new_part.clone()].copy_from_slice(&new[new_part]);
        sector
    }

    /// Returns the content after all changes before `call`, and after some of the first sectors of that call itself.
    fn before(&self, call: u64, random: &mut Random, tally: &mut Tally) -> Vec<u8> {
        let mut content = self.durable.to_vec();
        for change in self.pending.iter().filter(|change| change.call <= call) {
            let mut kept = change.sectors.len();
            if change.call == call {
                kept = random.below(kept + 1);
                if kept < change.sectors.len() {
                    tally.add(Fired::WriteTorn);
                }
            }
            content.resize(change.len, 0);
            change.sectors[..kept].iter().for_each(|(number, sector)| put_sector(&mut content, *number, sector));
        }
        content
    }
}

impl State {
    /// Applies `event` as call number `call`.
    pub(crate) fn apply(&mut self, call: u64, event: &Event) {
        match event {
            Event::Look | Event::Prepare => {}
            Event::Reserve { inode, bytes } => {
                let inode = &mut self.inodes[*inode];
                inode.reserved = inode.reserved.max(*bytes);
            }
            Event::Create(path, inode) => {
                assert_eq!(*inode, self.inodes.len());
                self.inodes.push(Inode::default());
                self.change_name(NameChange { call, gone: None, made: Some((path.clone(), *inode)) });
            }
            Event::MakeDirectory(path, inode) => {
                self.apply(call, &Event::Create(path.clone(), *inode));
                self.inodes[*inode].directory = true;
                self.directories.push(path.clone());
            }
            Event::Remove(path) => self.change_name(NameChange { call, gone: Some(path.clone()), made: None }),
            Event::Rename(from, to) => {
                let made = Some((to.clone(), self.names[from]));
                self.change_name(NameChange { call, gone: Some(from.clone()), made });
            }
            Event::SyncNames(path) => {
                let here = |change: &NameChange| {
                    let named = change.gone.as_ref().or(change.made.as_ref().map(|(path, _)| path));
                    named.is_some_and(|named| named.parent() == path.parent())
                };
                let (synced, left) = std::mem::take(&mut self.pending_names).into_iter().partition(here);
                let synced: Vec<NameChange> = synced;
                synced.iter().for_each(|change| change.apply(&mut self.durable_names));
                self.pending_names = left;
            }
            Event::Write { inode, offset, bytes } => self.inodes[*inode].write(call, *offset as usize, bytes),
            Event::Store { inode, offset, bytes } => self.inodes[*inode].store(call, *offset as usize, bytes),
            Event::SetLen(inode, len) => {
                let inode = &mut self.inodes[*inode];
                if *len <= inode.now.len() as u64 {
                    inode.reserved = inode.reserved.min(*len);
                }
                inode.set_len(call, *len as usize);
            }
            Event::Sync(inode) => self.inodes[*inode].sync(),
            Event::FailedSync(inode, seed) => self.inodes[*inode].failed_sync(&mut Random::new(&[*seed])),
        }
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    /// Returns the state after a crash. After a power loss nothing is pending.
    pub(crate) fn survivors(&self, crash: Crash, random: &mut Random, tally: &mut Tally) -> State {
        if crash == Crash::Kill {
            return self.clone();
        }
        let (mut keep_names, mut cut) = (100, u64::MAX);
        match crash {
            Crash::LoseUnsynced => keep_names = 0,
            Crash::Mix => keep_names = random.pick(&[0, 50, 100]),
            Crash::Prefix => cut = self.some_pending_call(random),
            Crash::Kill | Crash::KeepAll | Crash::Zeros | Crash::NamesBack => {}
        }
        let mut names = self.durable_names.clone();
        for change in &self.pending_names {
            let returns = crash == Crash::NamesBack && change.made.is_none();
            let kept = change.call < cut && !returns && random.percent(keep_names);
            tally.add(if kept { Fired::NameKept } else { Fired::NameLost });
            if kept {
                change.apply(&mut names);
            } else if change.made.as_ref().is_some_and(|(_, inode)| !self.inodes[*inode].durable.is_empty()) {
                tally.add(Fired::SyncedFileGone);
            }
        }
        for lost in self.directories.iter().filter(|path| !names.contains_key(*path)).cloned().collect::<Vec<_>>() {
            names.retain(|path, _| path.parent() != Some(&lost));
        }
        let mut named = vec![false; self.inodes.len()];
        names.values().for_each(|&inode| named[inode] = true);
        let mut survive = |(number, inode): (usize, &Inode)| {
            if !named[number] {
                return Inode::default();
            }
            if inode.pending.is_empty() {
                return Inode { now: inode.durable.clone(), ..inode.clone() };
            }
            let content = match crash {
                Crash::Kill | Crash::KeepAll | Crash::NamesBack => inode.mixed(random, 100, 0, tally),
                Crash::LoseUnsynced => inode.durable.to_vec(),
                Crash::Mix => {
                    let (keep, zero) = (random.pick(&[0, 10, 50, 90, 100]), random.pick(&[0, 0, 5]));
                    inode.mixed(random, keep, zero, tally)
                }
                Crash::Prefix => inode.before(cut, random, tally),
                Crash::Zeros => inode.mixed(random, 100, 50, tally),
            };
            let content = Arc::new(content);
            Inode { directory: inode.directory, now: content.clone(), durable: content, ..Inode::default() }
        };
        let inodes = self.inodes.iter().enumerate().map(&mut survive).collect();
        let directories = self.directories.clone();
        State { inodes, durable_names: names.clone(), names, pending_names: Vec::new(), directories }
    }

    /// Returns the state if the process died while `event` was half done: part of a write, or part of a store.
    pub(crate) fn torn(&self, call: u64, event: &Event, random: &mut Random) -> Option<State> {
        // Neither the kernel nor a disk stops within a sector.
        if let Event::Write { offset, bytes, .. } = event {
            let end = offset + bytes.len() as u64;
            if end.div_ceil(SECTOR_BYTES as u64) <= offset / SECTOR_BYTES as u64 + 1 {
                return None;
            }
        }
        let mut torn = self.clone();
        torn.apply(call, &event.torn(random)?);
        Some(torn)
    }

    /// Returns the bytes of a file as a read sees them.
    pub(crate) fn content(&self, path: &Path) -> Option<&[u8]> {
        self.names.get(path).map(|&inode| &self.inodes[inode].now[..])
    }

    /// Returns the names of all files and directories.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Path> {
        self.names.keys().map(PathBuf::as_path)
    }

    /// Adds a file.
    pub(crate) fn add_file(&mut self, path: &Path, bytes: &[u8]) {
        let inode = self.inodes.len();
        self.apply(0, &Event::Create(path.to_path_buf(), inode));
        self.apply(0, &Event::Write { inode, offset: 0, bytes: bytes.into() });
    }

    /// Whether both have the same files, as a process sees them and as a power loss would leave them.
    pub(crate) fn same_files(&self, other: &State) -> bool {
        let files = |state: &State| {
            let lengths = |names: &Names| {
                let file = |(path, &inode): (&PathBuf, &InodeNo)| {
                    // Temporary files have a different name each time.
                    let is_temporary = path.extension().is_some_and(|extension| extension == "tmp");
                    let path = if is_temporary { path.with_file_name("tmp") } else { path.clone() };
                    (path, state.inodes[inode].now.clone(), state.inodes[inode].durable.clone())
                };
                names.iter().map(file).collect::<Vec<_>>()
            };
            (lengths(&state.names), lengths(&state.durable_names))
        };
        files(self) == files(other)
    }

    fn some_pending_call(&self, random: &mut Random) -> u64 {
        let of_files = self.inodes.iter().flat_map(|inode| inode.pending.iter().map(|change| change.call));
        let calls: Vec<u64> = of_files.chain(self.pending_names.iter().map(|change| change.call)).collect();
        if calls.is_empty() { 0 } else { random.pick(&calls) }
    }
}

struct Inner {
    state: State,
    trace: Vec<Event>,
    plan: Option<Plan>,
    tally: Tally,
    /// A file for each range whose sync has begun and was not awaited; then the maximum number of these at a time.
    begun: Vec<InodeNo>,
    begun_max: usize,
    locks: Vec<InodeNo>,
    byte_locks: Vec<ByteLock>,
    handle_count: u64,
    /// Whether files can be mapped.
    maps: bool,
    /// If set, selects calls that take long.
    slow: Option<Random>,
    room: Option<room::DiskRoom>,
}

/// The disk; clones share it.
#[derive(Clone)]
pub(crate) struct Simulated(Arc<Mutex<Inner>>);

impl Simulated {
    pub(crate) fn new(state: State) -> Simulated {
        Simulated(Arc::new(Mutex::new(Inner::new(state))))
    }

    /// Resets the disk to what [`new`](Self::new) would make.
    pub(crate) fn reset(&self, state: State) {
        *self.inner() = Inner::new(state);
    }

    /// Sets whether files can be mapped.
    pub(crate) fn let_map(&self, yes: bool) {
        self.inner().maps = yes;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        let lock = || self.0.lock().expect("no panic while held");
        // If tasks take turns, others may run before this call.
        step();
        const STEPS: usize = 3000;
        let steps = lock().slow.as_mut().map_or(0, |random| if random.percent(4) { random.below(STEPS) } else { 1 });
        (0..steps).for_each(|_| step());
        lock()
    }

    /// If tasks take turns, makes some calls take long.
    pub(crate) fn slow(&self, seed: u64) {
        self.inner().slow = Some(Random::new(&[seed]));
    }

    /// Returns the number of calls so far, which is also the number of the next.
    pub(crate) fn calls(&self) -> u64 {
        self.inner().trace.len() as u64
    }

    /// Makes calls fail from now on according to `plan`; with `None`, none fails.
    pub(crate) fn plan(&self, plan: Option<Plan>) {
        self.inner().plan = plan;
    }

    pub(crate) fn state(&self) -> State {
        self.inner().state.clone()
    }

    pub(crate) fn trace(&self) -> Vec<Event> {
        self.inner().trace.clone()
    }

    pub(crate) fn tally(&self) -> Tally {
        self.inner().tally.clone()
    }

    /// Returns the maximum number of ranges whose sync had begun, at a time.
    pub(crate) fn begun_max(&self) -> usize {
        self.inner().begun_max
    }
}

impl Inner {
    fn new(state: State) -> Inner {
        let (trace, locks) = (Vec::new(), Vec::new());
        let (plan, slow, room, tally) = (None, None, None, Tally::default());
        let (byte_locks, handle_count) = (Vec::new(), 0);
        Inner {
            state,
            trace,
            plan,
            tally,
            begun: Vec::new(),
            begun_max: 0,
            locks,
            byte_locks,
            handle_count,
            maps: true,
            slow,
            room,
        }
    }

    /// Returns the failure of the next call, if it is planned to fail.
    fn planned(&self) -> Option<Fault> {
        let call = self.trace.len() as u64;
        let planned = self.plan.filter(|plan| if plan.lasting { call >= plan.at } else { call == plan.at });
        planned.map(|plan| plan.fault)
    }

    fn call(&mut self, event: Event) -> Result<()> {
        let call = self.trace.len() as u64;
        let event = if self.leaves_out(&event) { Event::Look } else { event };
        let fault = self.planned();
        let torn = if let Some(Fault::Short) = fault { event.torn(&mut Random::new(&[call])) } else { None };
        let (event, fired, error) = match (fault, torn) {
            (Some(Fault::Dead), _) => (Event::Look, Fired::DeadCall, libc::EIO),
            (Some(Fault::Io), _) => match event {
                Event::Sync(inode) => (Event::FailedSync(inode, call), Fired::SyncFailed, libc::EIO),
                Event::Look => (event, Fired::ReadFailed, libc::EIO),
                _ => (Event::Look, Fired::WriteFailed, libc::EIO),
            },
            (Some(Fault::NoSpace), _) if event.takes_room(&self.state) => (Event::Look, Fired::NoSpace, libc::ENOSPC),
            (_, Some(torn)) => (torn, Fired::ShortWrite, libc::EIO),
            _ if self.room.as_mut().is_some_and(|room| !room.take(&event, &self.state)) => {
                (Event::Look, Fired::NoSpace, libc::ENOSPC)
            }
            _ => {
                self.state.apply(call, &event);
                self.trace.push(event);
                return Ok(());
            }
        };
        self.tally.add(fired);
        self.state.apply(call, &event);
        self.trace.push(event);
        let unseen = match fired {
            Fired::SyncFailed => planted(Bug::FailedSyncIgnored),
            Fired::ShortWrite => planted(Bug::ShortWriteIgnored),
            _ => false,
        };
        if unseen { Ok(()) } else { Err(Error::from_raw_os_error(error)) }
    }

    /// Records a store, which is not a call: it cannot fail, but a dead process makes none.
    fn store(&mut self, event: Event) {
        let event = if self.planned() == Some(Fault::Dead) { Event::Look } else { event };
        self.state.apply(self.trace.len() as u64, &event);
        self.trace.push(event);
    }

    /// Returns whether a planted bug skips this call.
    fn leaves_out(&self, event: &Event) -> bool {
        const HEADERS_END: u64 = 8192;
        let is_log = |path: &Path| path.extension().is_some_and(|e| e.as_encoded_bytes().starts_with(b"spt-log"));
        let state = &self.state;
        let bug = match event {
            Event::Sync(inode) => {
                let Some((path, _)) = state.names.iter().find(|&(_, named)| named == inode) else { return false };
                let last_write = self.trace.iter().rev().find_map(|event| match event {
                    Event::Write { inode: written, offset, .. } if written == inode => Some(*offset),
                    _ => None,
                });
                match () {
                    () if is_log(path) => Bug::LogUnsynced,
                    () if last_write.is_some_and(|offset| offset < HEADERS_END) => Bug::HeaderUnsynced,
                    () => Bug::BlocksUnsynced,
                }
            }
            Event::SyncNames(path) if is_log(path) => Bug::LogNameUnsynced,
            Event::SyncNames(_) => Bug::NameUnsynced,
            _ => return false,
        };
        planted(bug)
    }
}

impl Storage for Simulated {
    fn open(&self, path: &Path, mode: Mode) -> Result<Box<dyn File>> {
        let mut inner = self.inner();
        let found = inner.state.names.get(path).copied();
        let inode = match (mode, found) {
            (Mode::New, None) => {
                let inode = inner.state.inodes.len();
                inner.call(Event::Create(path.to_path_buf(), inode))?;
                inode
            }
            (_, found) => {
                inner.call(Event::Look)?;
                if mode != Mode::New && found.is_some_and(|inode| inner.state.inodes[inode].directory) {
                    return Err(ErrorKind::IsADirectory.into());
                }
                let refused = if mode == Mode::New { ErrorKind::AlreadyExists } else { ErrorKind::NotFound };
                found.filter(|_| mode != Mode::New).ok_or(refused)?
            }
        };
        inner.handle_count += 1;
        let (number, locked) = (inner.handle_count, AtomicBool::new(false));
        Ok(Box::new(Open { disk: self.clone(), inode, writable: mode != Mode::Read, locked, number }))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner().call(Event::Remove(path.to_path_buf()))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        assert_eq!(from.parent(), to.parent(), "the library renames within a directory");
        let mut inner = self.inner();
        if !inner.state.names.contains_key(from) {
            inner.call(Event::Look)?;
            return Err(ErrorKind::NotFound.into());
        }
        inner.call(Event::Rename(from.to_path_buf(), to.to_path_buf()))
    }

    fn make_directory(&self, path: &Path, _like: Option<&Path>) -> Result<bool> {
        let mut inner = self.inner();
        match inner.state.names.get(path) {
            Some(&inode) if inner.state.inodes[inode].directory => inner.call(Event::Look).map(|()| false),
            Some(_) => Err(ErrorKind::AlreadyExists.into()),
            None => {
                let inode = inner.state.inodes.len();
                inner.call(Event::MakeDirectory(path.to_path_buf(), inode)).map(|()| true)
            }
        }
    }

    fn names_in(&self, directory: &Path) -> Result<Vec<String>> {
        let mut inner = self.inner();
        inner.call(Event::Look)?;
        let here = inner.state.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(here.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn sync_names(&self, path: &Path) -> Result<()> {
        self.inner().call(Event::SyncNames(path.to_path_buf()))
    }
}

/// A handle's lock of one byte of a file.
struct ByteLock {
    inode: InodeNo,
    handle: u64,
    offset: u64,
    alone: bool,
}

impl ByteLock {
    fn at(&self, other: &ByteLock) -> bool {
        (self.inode, self.offset) == (other.inode, other.offset)
    }
}

/// An open file.
struct Open {
    disk: Simulated,
    inode: InodeNo,
    writable: bool,
    locked: AtomicBool,
    /// Identifies this handle among those that lock bytes.
    number: u64,
}

impl Open {
    fn change(&self, event: Event) -> Result<()> {
        assert!(self.writable, "a file opened for reading is only read");
        self.disk.inner().call(event)
    }
}

impl File for Open {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let mut inner = self.disk.inner();
        inner.call(Event::Look)?;
        let content = &inner.state.inodes[self.inode].now;
        let from = content.len().min(offset as usize);
        let here = content[from..].get(..bytes.len()).ok_or(ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(here);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.change(Event::Write { inode: self.inode, offset, bytes: bytes.into() })
    }

    fn write_zeros(&self, from: u64, to: u64) -> Result<()> {
        self.write_at(&vec![0; to.saturating_sub(from) as usize], from)
    }

    fn len(&self) -> Result<u64> {
        let mut inner = self.disk.inner();
        inner.call(Event::Look)?;
        Ok(inner.state.inodes[self.inode].now.len() as u64)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.change(Event::SetLen(self.inode, bytes))
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        self.change(Event::Reserve { inode: self.inode, bytes })
    }

    fn sync(&self) -> Result<()> {
        let mut inner = self.disk.inner();
        inner.begun.retain(|&inode| inode != self.inode);
        inner.call(Event::Sync(self.inode))
    }

    fn begin_sync(&self, _offset: u64, _bytes: u64) {
        let mut inner = self.disk.inner();
        inner.begun.push(self.inode);
        inner.begun_max = inner.begun_max.max(inner.begun.len());
    }

    fn await_sync(&self, _offset: u64, _bytes: u64) -> Result<()> {
        let mut inner = self.disk.inner();
        if let Some(index) = inner.begun.iter().position(|&inode| inode == self.inode) {
            inner.begun.remove(index);
        }
        inner.call(Event::Look)
    }

    fn lock(&self) -> Result<bool> {
        let mut inner = self.disk.inner();
        let free = !inner.locks.contains(&self.inode);
        if free {
            inner.locks.push(self.inode);
            self.locked.store(true, Relaxed);
        }
        Ok(free)
    }

    fn unlock(&self) -> Result<()> {
        if self.locked.swap(false, Relaxed) {
            self.disk.inner().locks.retain(|inode| *inode != self.inode);
        }
        Ok(())
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        Ok(self.disk.inner().state.names.get(path) == Some(&self.inode))
    }

    fn identity(&self) -> Result<Option<(u64, u64)>> {
        Ok(Some((0, self.inode as u64)))
    }

    fn is_locked(&self) -> Result<bool> {
        Ok(self.disk.inner().locks.contains(&self.inode))
    }

    fn lock_byte(&self, offset: u64, alone: bool) -> Result<Option<bool>> {
        let mut inner = self.disk.inner();
        let own = ByteLock { inode: self.inode, handle: self.number, offset, alone };
        let locks = &mut inner.byte_locks;
        let excludes = |other: &ByteLock| other.at(&own) && other.handle != own.handle && (other.alone || alone);
        if locks.iter().any(excludes) {
            return Ok(Some(false));
        }
        locks.retain(|other| !(other.at(&own) && other.handle == own.handle));
        locks.push(own);
        Ok(Some(true))
    }

    fn unlock_byte(&self, offset: u64) -> Result<()> {
        self.disk.inner().byte_locks.retain(|lock| (lock.handle, lock.offset) != (self.number, offset));
        Ok(())
    }

    fn first_locked_bytes(&self, range: Range<u64>) -> Result<Option<Range<u64>>> {
        let inner = self.disk.inner();
        let others = inner.byte_locks.iter().filter(|lock| lock.inode == self.inode && lock.handle != self.number);
        let first = others.map(|lock| lock.offset).filter(|offset| range.contains(offset)).min();
        Ok(first.map(|offset| offset..offset + 1))
    }

    fn map(&self, bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
        assert!(self.writable, "a file opened for reading is only read");
        if !self.disk.inner().maps {
            return Ok(None);
        }
        let mapping = Mapping { disk: self.disk.clone(), inode: self.inode, bytes, ready: Mutex::default() };
        mapping.prepare(0, PAGE_BYTES)?;
        Ok(Some(Box::new(mapping)))
    }
}

/// The start of a file, as memory.
struct Mapping {
    disk: Simulated,
    inode: InodeNo,
    bytes: u64,
    /// Pages that have been prepared.
    ready: Mutex<BTreeSet<u64>>,
}

impl Mapped for Mapping {
    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        let mut inner = self.disk.inner();
        inner.call(Event::Prepare)?;
        if inner.state.inodes[self.inode].now.len() < to as usize {
            return Err(ErrorKind::StorageFull.into());
        }
        self.ready.lock().expect("no panic while held").extend(from / PAGE_BYTES..to.div_ceil(PAGE_BYTES));
        Ok(())
    }

    fn leave_to_stores(&self, from: u64, to: u64) {
        assert!(self.disk.inner().state.inodes[self.inode].now.len() >= to as usize, "the file has no such bytes");
        self.ready.lock().expect("no panic while held").extend(from / PAGE_BYTES..to.div_ceil(PAGE_BYTES));
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len() as u64;
        if bytes.is_empty() {
            return Ok(());
        }
        assert!(end <= self.bytes, "a store beyond the mapping");
        let mut pages = offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        let ready = |page: &u64| self.ready.lock().unwrap_or_else(|e| e.into_inner()).contains(page);
        assert!(pages.all(|page| ready(&page)), "a store into a page that was not prepared, which may be a signal");
        // In two parts, as a process may die between them.
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for (offset, part) in [(offset, first), (offset + first.len() as u64, second)] {
            if !part.is_empty() {
                self.disk.inner().store(Event::Store { inode: self.inode, offset, bytes: part.into() });
            }
        }
        Ok(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.locked.load(Relaxed) {
            self.disk.inner().locks.retain(|&inode| inode != self.inode);
        }
        self.disk.inner().byte_locks.retain(|lock| lock.handle != self.number);
    }
}

#[cfg(test)]
#[path = "../tests/simulated.rs"]
mod tests;
