//! Operations on a whole table: sync, compact, back up, check, measure, salvage.

use crate::arguments::{Bytes, InText, Out, OutStruct};
use crate::border::border;
use crate::callbacks::{FaultCallback, Found, ProgressCallback, SalvageCallback, stopped, text};
use crate::handles::Handle;
use crate::memory::Allocation;
use crate::options::{InOptions, Options};
use crate::status::{Failure, NOT_FOUND, OK, Result, Status};
use crate::table::OpenTable;
use splitpoint::{Backup, ErrorKind, Fault, PublishedCounters, Salvaged, TableCounters};
use std::ffi::{c_char, c_void};
use std::ptr;

#[unsafe(no_mangle)]
extern "C" fn spt_sync(table: Handle<OpenTable>) -> Status {
    border(table.number(), || {
        table.shared()?.sync()?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_checkpoint(table: Handle<OpenTable>) -> Status {
    border(table.number(), || {
        table.shared()?.checkpoint()?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_compact(
    table: Handle<OpenTable>,
    progress: Option<ProgressCallback>,
    context: *mut c_void,
) -> Status {
    border(table.number(), || {
        let (table, _pin) = table.pinned()?;
        table.compact_with(ProgressCallback::with(progress, context))?;
        Ok(OK)
    })
}

const OVERWRITE: u32 = 1;

/// A backup with the options given by the flags and the caller's function.
fn backup(flags: u32, progress: Option<ProgressCallback>, context: *mut c_void) -> Result<Backup<'static>> {
    if flags & !OVERWRITE != 0 {
        return Err(Failure::invalid(format!("flags {:#x} are unknown to this version", flags & !OVERWRITE)));
    }
    Ok(Backup::new().overwrite(flags & OVERWRITE != 0).progress(ProgressCallback::with(progress, context)))
}

#[unsafe(no_mangle)]
extern "C" fn spt_backup(
    table: Handle<OpenTable>,
    path: InText<'_>,
    flags: u32,
    progress: Option<ProgressCallback>,
    context: *mut c_void,
) -> Status {
    border(table.number(), || {
        let (table, _pin) = table.pinned()?;
        backup(flags, progress, context)?.save(table, path.path()?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_backup_file(
    from: InText<'_>,
    path: InText<'_>,
    options: InOptions<'_, Options<'_>>,
    flags: u32,
    progress: Option<ProgressCallback>,
    context: *mut c_void,
) -> Status {
    border(0, || {
        let options = options.get()?.build()?;
        backup(flags, progress, context)?.options(options).save_file(from.path()?, path.path()?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_restore(
    from: InText<'_>,
    path: InText<'_>,
    options: InOptions<'_, Options<'_>>,
    flags: u32,
    progress: Option<ProgressCallback>,
    context: *mut c_void,
) -> Status {
    border(0, || {
        let options = options.get()?.build()?;
        backup(flags, progress, context)?.options(options).restore(from.path()?, path.path()?)?;
        Ok(OK)
    })
}

/// Reports the faults of a check until the caller's function returns a value other than 0.
pub(crate) fn report(
    faults: &[Fault],
    function: Option<FaultCallback>,
    context: *mut c_void,
    count: Out<'_, u64>,
) -> Result<Status> {
    count.set_if_wanted(faults.len() as u64);
    if let Some(function) = function {
        let _ = faults.iter().try_for_each(|fault| function.call(context, &fault.place, &fault.what));
    }
    match faults {
        [] => Ok(OK),
        [first, ..] => Err(Failure::kind(ErrorKind::Corrupt, format!("{} faults, the first: {first}", faults.len()))),
    }
}

#[unsafe(no_mangle)]
extern "C" fn spt_check(
    table: Handle<OpenTable>,
    function: Option<FaultCallback>,
    context: *mut c_void,
    faults: Out<'_, u64>,
) -> Status {
    border(table.number(), || {
        faults.set_if_wanted(0);
        let (table, _pin) = table.pinned()?;
        report(&table.verify()?, function, context, faults)
    })
}

/// `spt_counters`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Counters {
    pub(crate) pairs: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) buckets: u64,
    pub(crate) file_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) hits: u64,
    pub(crate) hit_pages: u64,
    pub(crate) hit_keys: u64,
    pub(crate) misses: u64,
    pub(crate) miss_pages: u64,
    pub(crate) miss_keys: u64,
    pub(crate) overflow_lookups: u64,
    pub(crate) puts: u64,
    pub(crate) removals: u64,
    pub(crate) splits: u64,
    pub(crate) merges: u64,
    pub(crate) checkpoints: u64,
    pub(crate) frames_read: u64,
    pub(crate) frames_written: u64,
    pub(crate) evictions: u64,
    pub(crate) latch_waits: u64,
    pub(crate) replayed: u64,
}

impl Counters {
    fn of(counters: &TableCounters, replayed: u64) -> Counters {
        Counters {
            pairs: counters.pairs,
            payload_bytes: counters.payload_bytes,
            buckets: counters.buckets,
            file_bytes: counters.file_bytes,
            memory_bytes: counters.memory_bytes,
            hits: counters.hits,
            hit_pages: counters.hit_pages,
            hit_keys: counters.hit_keys,
            misses: counters.misses,
            miss_pages: counters.miss_pages,
            miss_keys: counters.miss_keys,
            overflow_lookups: counters.overflow_lookups,
            puts: counters.puts,
            removals: counters.removals,
            splits: counters.splits,
            merges: counters.merges,
            checkpoints: counters.checkpoints,
            frames_read: counters.frames_read,
            frames_written: counters.frames_written,
            evictions: counters.evictions,
            latch_waits: counters.latch_waits,
            replayed,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn spt_read_counters(table: Handle<OpenTable>, counters: OutStruct<'_, Counters>, size: usize) -> Status {
    border(table.number(), || {
        let table = table.shared()?;
        counters.set(size, &Counters::of(&table.counters(), table.replayed()))?;
        Ok(OK)
    })
}

/// `spt_publisher`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct PublisherFacts {
    pub(crate) process: u32,
    pub(crate) is_open: u32,
    pub(crate) tick: u64,
    pub(crate) open_ms: u64,
}

#[unsafe(no_mangle)]
extern "C" fn spt_read_published(
    path: InText<'_>,
    counters: OutStruct<'_, Counters>,
    counters_size: usize,
    publisher: OutStruct<'_, PublisherFacts>,
    publisher_size: usize,
) -> Status {
    border(0, || {
        let Some(found) = PublishedCounters::read(path.path()?)? else { return Ok(NOT_FOUND) };
        counters.set(counters_size, &Counters::of(&found.counters, 0))?;
        let PublishedCounters { process, tick, open_ms, is_open, .. } = found;
        publisher.set(publisher_size, &PublisherFacts { process, is_open: is_open.into(), tick, open_ms })?;
        Ok(OK)
    })
}

/// `spt_survey`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Survey {
    pub(crate) pairs: u64,
    pub(crate) buckets: u64,
    pub(crate) page_bytes: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) file_bytes: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) bucket_bytes: u64,
    pub(crate) overflow_pages: u64,
    pub(crate) overflow_bytes: u64,
    pub(crate) overflow_pairs: u64,
    pub(crate) extents: u64,
    pub(crate) extent_bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) fill_percent: f64,
    pub(crate) fill_target_percent: f64,
    pub(crate) fill_factor: u64,
    pub(crate) seed: u64,
    pub(crate) hash: [c_char; NAME_BYTES],
    pub(crate) largest_bucket: u64,
    pub(crate) empty_buckets: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) splits: u64,
    pub(crate) merges: u64,
}

pub(crate) const NAME_BYTES: usize = 32;

/// A name for a struct, cut to fit with its zero byte.
pub(crate) fn name(name: &str) -> [c_char; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    for (place, &byte) in bytes[..NAME_BYTES - 1].iter_mut().zip(text(name).as_bytes()) {
        *place = byte as c_char;
    }
    bytes
}

/// `spt_bucket_count`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct BucketCount {
    pub(crate) pairs: u64,
    pub(crate) buckets: u64,
}

#[unsafe(no_mangle)]
extern "C" fn spt_survey_table(
    table: Handle<OpenTable>,
    survey: OutStruct<'_, Survey>,
    size: usize,
    histogram: Out<'_, *mut c_void>,
    histogram_len: Out<'_, usize>,
) -> Status {
    border(table.number(), || {
        histogram.set_if_wanted(ptr::null_mut());
        histogram_len.set_if_wanted(0);
        let found = table.shared()?.survey()?;
        let figures = Survey {
            pairs: found.pairs,
            buckets: found.buckets,
            page_bytes: found.page_bytes.into(),
            frame_bytes: found.frame_bytes.into(),
            file_bytes: found.file_bytes,
            payload_bytes: found.payload_bytes,
            bucket_bytes: found.bucket_bytes,
            overflow_pages: found.overflow_pages,
            overflow_bytes: found.overflow_bytes,
            overflow_pairs: found.overflow_pairs,
            extents: found.extents,
            extent_bytes: found.extent_bytes,
            free_bytes: found.free_bytes,
            fill_percent: found.fill_percent,
            fill_target_percent: found.fill_target_percent,
            fill_factor: found.fill_factor.unwrap_or(0).into(),
            seed: found.seed,
            hash: name(&found.hash),
            largest_bucket: found.largest_bucket,
            empty_buckets: found.empty_buckets,
            memory_bytes: found.memory_bytes,
            splits: found.splits,
            merges: found.merges,
        };
        survey.set(size, &figures)?;
        if histogram.is_wanted() {
            let counts = found.histogram.iter().map(|&(pairs, buckets)| BucketCount { pairs, buckets });
            let memory = Allocation::array(&counts.collect::<Vec<_>>())?;
            histogram.set("the place for the histogram", memory.into_c())?;
            histogram_len.set("the place for its length", found.histogram.len())?;
        }
        Ok(OK)
    })
}

/// `spt_salvage_report`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Report {
    pub(crate) verified: u64,
    pub(crate) unverified: u64,
    pub(crate) counted: u64,
    pub(crate) lost_buckets: u64,
    pub(crate) losses: u64,
    pub(crate) conflicts: u64,
    pub(crate) is_counted: u32,
    pub(crate) is_whole: u32,
}

const FOUND_PAIR: i32 = 1;
const FOUND_FAULT: i32 = 2;
const FOUND_PROGRESS: i32 = 3;
const FOUND_TYPES: i32 = 4;

/// Calls `call` with what was found, converted for C; `None` for a kind that this version does not know.
fn with_found<T>(salvaged: &Salvaged<'_>, call: impl FnOnce(&Found) -> T) -> Option<T> {
    let nothing = Found {
        kind: 0,
        verified: 0,
        key: Bytes::NONE,
        value: Bytes::NONE,
        place: ptr::null(),
        what: ptr::null(),
        done: 0,
        all: 0,
    };
    Some(match *salvaged {
        Salvaged::Pair { key, value, verified, .. } => {
            let (key, value) = (Bytes::of(key), Bytes::of(value));
            call(&Found { kind: FOUND_PAIR, verified: verified.into(), key, value, ..nothing })
        }
        Salvaged::Fault(fault) => {
            let (place, what) = (text(&fault.place), text(&fault.what));
            call(&Found { kind: FOUND_FAULT, place: place.as_ptr(), what: what.as_ptr(), ..nothing })
        }
        Salvaged::Types(names) => {
            let what = text(names);
            call(&Found { kind: FOUND_TYPES, what: what.as_ptr(), ..nothing })
        }
        Salvaged::Progress { done, all, .. } => call(&Found { kind: FOUND_PROGRESS, done, all, ..nothing }),
        _ => return None,
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_salvage(
    path: InText<'_>,
    options: InOptions<'_, Options<'_>>,
    function: Option<SalvageCallback>,
    context: *mut c_void,
    report: OutStruct<'_, Report>,
    size: usize,
) -> Status {
    border(0, || {
        let function = SalvageCallback::required(function)?;
        let options = options.get()?.build()?;
        let found = options.salvage(path.path()?, |salvaged| {
            let flow = with_found(&salvaged, |found| function.call(context, found));
            flow.unwrap_or(std::ops::ControlFlow::Continue(()))
        })?;
        let figures = Report {
            verified: found.verified,
            unverified: found.unverified,
            counted: found.counted.unwrap_or(0),
            lost_buckets: found.lost_buckets,
            losses: found.losses,
            conflicts: found.conflicts,
            is_counted: found.counted.is_some().into(),
            is_whole: found.is_whole().into(),
        };
        report.set(size, &figures)?;
        if found.stopped { Err(stopped()) } else { Ok(OK) }
    })
}
