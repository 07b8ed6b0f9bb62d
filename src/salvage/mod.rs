//! Salvage: recovers the readable pairs of a damaged file.
//!
//! ```text
//! header intact   each bucket: its page, its overflow pages, the extents of its pairs            by_header, here
//! header damaged  every frame: the primary pages, recognized by their layout, and what they refer to  scattered.rs
//!                 if a part of the block map is lost, the nodes of it that are found                block_map.rs
//! ```
//!
//! A pair is **verified** if the checksum of every frame it is in matches, it is known to be current, and its key
//! belongs to the bucket it was found in. If the checksums themselves are damaged, self-consistent pages are
//! accepted, and their pairs are reported as unverified. Nothing else is returned.
//!
//! The file is only read, no file is created next to it, and memory is bounded: the current frame, one pair, one
//! bucket's keys. The file's length bounds every loop along references.
//!
//! Not here: frames and their checksums (`damaged_file.rs`), every fault of a file that opens
//! (`buckets/verify.rs`).

mod block_map;
#[cfg(test)]
mod damaged_blocks;
mod damaged_file;
mod scattered;
mod walk;

use crate::buckets::page;
use crate::buckets::root::{Root, groups_in_first_frame, refuse_other_tables};
use crate::error::{Error, ErrorKind, Result};
use crate::fault::Fault;
use crate::hash::{HashFunction, HashKind};
use crate::linear;
use crate::little_endian::{u16_at, u64_at};
use crate::pager::resolve;
use crate::pager::wal::{count_records, has_segments};
use crate::table::TableOptions;
use damaged_file::{DamagedFile, WholeHeader};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use walk::{Candidate, Primary};

/// The argument of the callback of [`salvage`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Salvaged<'a> {
    /// The names of the types of a typed table ([`Table::types`](crate::Table::types)), before its pairs.
    Types(&'a str),
    /// A pair. No key is passed twice.
    #[non_exhaustive]
    Pair {
        /// Its key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// Checksums prove every byte, and the pair is current. If `false`, the pair is from a self-consistent page
        /// whose checksum could not be checked, or that may be an old one: most likely right.
        verified: bool,
    },
    /// Damage, and what is lost by it.
    Fault(&'a Fault),
    /// Progress.
    #[non_exhaustive]
    Progress {
        /// Steps done, of `all`.
        done: u64,
        /// Steps in all, in no particular unit.
        all: u64,
    },
}

/// Totals of a salvage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Verified pairs.
    pub verified: u64,
    /// Unverified pairs.
    pub unverified: u64,
    /// Number of pairs according to the header; `None` if that is damaged.
    pub counted: Option<u64>,
    /// Buckets lost with their primary pages.
    pub lost_buckets: u64,
    /// Places where pairs are or may be lost: a bucket's page, an overflow page or a value.
    pub losses: u64,
    /// Keys found several times with different values, of which one was returned. Only without a header.
    pub conflicts: u64,
    /// The write-ahead log has changes since the last checkpoint, or may have some. They are not salvaged.
    pub log_unread: bool,
    /// The callback stopped it.
    pub stopped: bool,
}

impl SalvageReport {
    /// Pairs returned.
    pub fn pairs(&self) -> u64 {
        self.verified + self.unverified
    }

    /// Pairs of the last checkpoint that were not found; `None` if the header, which counts them, is damaged.
    pub fn missing(&self) -> Option<u64> {
        self.counted.map(|counted| counted.saturating_sub(self.pairs()))
    }

    /// Whether it is certain that every pair of the table was returned, and correctly.
    pub fn is_whole(&self) -> bool {
        // Verified pairs belong to the table and have different keys: if there are as many as the table has, they are
        // all of its pairs, and the losses had none.
        !self.stopped && !self.log_unread && self.unverified == 0 && self.counted == Some(self.verified)
    }
}

/// Passes every readable pair of the table in the file at `path`, however damaged, to `take`, and reports what is
/// lost. `take` can stop it.
///
/// Reads a file with an intact header about once. Any other file is read about three times, with an index of the pairs
/// in an unlinked temporary file. Pairs come in no particular order. Nothing is changed. For a table with a user's own
/// hash function use [`TableOptions::salvage`].
///
/// # Errors
/// [`ErrorKind::NotATable`] if nothing in the file looks like part of a table; [`ErrorKind::Version`];
/// [`ErrorKind::Locked`] if another process or handle has it open for writing; [`ErrorKind::Io`] if it cannot be
/// opened. Unreadable parts are not errors.
///
/// # Examples
/// ```
/// use splitpoint::{Salvaged, Table, salvage};
/// use std::ops::ControlFlow;
/// # let directory = tempfile::tempdir()?;
/// # let (damaged, path) = (directory.path().join("damaged.spt"), directory.path().join("new.spt"));
/// # Table::open(&damaged)?.put(b"alice", b"1")?;
/// let new = Table::open(&path)?;
/// let report = salvage(&damaged, |found| {
///     match found {
///         Salvaged::Pair { key, value, .. } => new.put(key, value).expect("a new table takes it"),
///         Salvaged::Fault(fault) => eprintln!("{fault}"),
///         _ => {}
///     }
///     ControlFlow::Continue(())
/// })?;
/// assert!(report.is_whole());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn salvage(path: impl AsRef<Path>, take: impl FnMut(Salvaged<'_>) -> ControlFlow<()>) -> Result<SalvageReport> {
    TableOptions::new().salvage(path, take)
}

impl TableOptions {
    /// [`salvage`] of a table with a user's own hash function, given by [`user_hash`](Self::user_hash).
    ///
    /// # Errors
    /// The errors of [`salvage`].
    pub fn salvage(
        self,
        path: impl AsRef<Path>,
        mut take: impl FnMut(Salvaged<'_>) -> ControlFlow<()>,
    ) -> Result<SalvageReport> {
        let path = &resolve(self.storage.as_ref(), path.as_ref())?;
        let mut file = DamagedFile::open(self.storage.as_ref(), path)?;
        let planned = file.header(path)?;
        planned.iter().try_for_each(|header| refuse_other_tables(&header.root, path))?;
        let log = planned.as_ref().ok().map(|header| (header.table_id, header.sequence));
        let plan = planned.and_then(|header| Plan::parse(&header, &self, file.frame_bytes()));
        let mut salvage = Salvage::new(file, &self, &mut take);
        let flow = match &plan {
            Ok(plan) if salvage.file.is_current() && !salvage.file.lacks_leaves() => salvage.by_header(plan),
            _ => salvage.surveyed(path, &plan)?,
        };
        let flow = match flow {
            Flow::Continue(()) => salvage.report_log(path, log),
            stopped => stopped,
        };
        if let Some(e) = salvage.failed {
            return Err(e);
        }
        salvage.report.stopped = flow.is_break();
        Ok(salvage.report)
    }
}

/// The state of a frame's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Proved,
    Unproved,
    /// With the reason.
    Damaged(String),
}

/// Whether to continue; the callback can stop.
type Flow = ControlFlow<()>;

/// The state of a salvage.
struct Salvage<'a> {
    file: DamagedFile,
    options: &'a TableOptions,
    page_bytes: usize,
    /// `None` if unknown; then no key can be checked against its bucket.
    hash: Option<HashFunction>,
    take: &'a mut dyn FnMut(Salvaged<'_>) -> Flow,
    report: SalvageReport,
    /// Bytes that references may still read: in a damaged file several references may lead to the same bytes.
    reach_left: u64,
    /// Report nothing: another pass will.
    quiet: bool,
    failed: Option<Error>,
}

impl<'a> Salvage<'a> {
    fn new(file: DamagedFile, options: &'a TableOptions, take: &'a mut dyn FnMut(Salvaged<'_>) -> Flow) -> Self {
        let reach_left = reach_of(&file);
        Salvage {
            file,
            options,
            page_bytes: 0,
            hash: None,
            take,
            report: SalvageReport::default(),
            reach_left,
            quiet: false,
            failed: None,
        }
    }

    fn report_fault(&mut self, place: impl Into<String>, what: impl Into<String>) -> Flow {
        if self.quiet {
            return Flow::Continue(());
        }
        (self.take)(Salvaged::Fault(&Fault { place: place.into(), what: what.into() }))
    }

    /// Reports a loss of pairs.
    fn lose(&mut self, place: impl Into<String>, what: impl Into<String>) -> Flow {
        if !self.quiet {
            self.report.losses += 1;
        }
        self.report_fault(place, what)
    }

    /// Reports the changes in the log. `log`: the table's id and its checkpoint's sequence number, if known.
    fn report_log(&mut self, path: &Path, log: Option<(u64, u64)>) -> Flow {
        let storage = self.options.storage.as_ref();
        let counted = has_segments(storage, path).and_then(|found| match log {
            _ if !found => Ok(Some(0)),
            None => Ok(None),
            Some((table_id, sequence)) => count_records(storage, path, table_id, sequence).map(Some),
        });
        let what = match counted {
            Ok(Some(0)) => return Flow::Continue(()),
            Ok(Some(count)) => format!("it has changes since the last checkpoint ({count})"),
            Ok(None) => "it may have changes since the last checkpoint".to_owned(),
            Err(e) => format!("its changes since the last checkpoint cannot be counted: {}", e.message()),
        };
        self.report.log_unread = true;
        self.lose("write-ahead log", format!("{what}, not salvaged; an open of the table replays them"))
    }

    /// Reports the faults found in the block map.
    fn report_notes(&mut self) -> Flow {
        if self.quiet {
            return Flow::Continue(());
        }
        for (place, what) in self.file.take_notes() {
            self.report_fault(place, what)?;
        }
        Flow::Continue(())
    }

    fn give(&mut self, key: &[u8], value: &[u8], verified: bool) -> Flow {
        *(if verified { &mut self.report.verified } else { &mut self.report.unverified }) += 1;
        (self.take)(Salvaged::Pair { key, value, verified })
    }

    /// Returns the pairs of every bucket, as the header describes them.
    fn by_header(&mut self, plan: &Plan) -> Flow {
        self.page_bytes = plan.page_bytes;
        self.hash.clone_from(&plan.hash);
        self.reach_left = reach_of(&self.file);
        self.report.counted = self.file.is_current().then_some(plan.root.totals.pairs);
        if !plan.root.types.is_empty() && !self.quiet {
            (self.take)(Salvaged::Types(&plan.root.types))?;
        }
        let all = u64::from(plan.root.max_bucket) + 1;
        let mut bytes = Vec::new();
        let (mut bucket, mut frames) = (0, 0u64);
        while bucket < all {
            let run = plan.run(bucket as linear::Bucket, &self.file);
            let state = self.file.read(run.frame, &mut bytes);
            self.report_notes()?;
            match state {
                State::Damaged(what) => {
                    self.report.lost_buckets += run.count;
                    let buckets = match run.count {
                        1 => format!("bucket {bucket}"),
                        n => format!("buckets {bucket} to {}", bucket + n - 1),
                    };
                    self.lose(format!("frame {}", run.frame), format!("{what}; the pairs of {buckets} are lost"))?;
                }
                state => {
                    for i in 0..run.count {
                        let start = run.start + i as usize * self.page_bytes;
                        let page = bytes[start..start + self.page_bytes].to_vec();
                        let at = u64::from(run.frame) * bytes.len() as u64 + start as u64;
                        let number = (bucket + i) as linear::Bucket;
                        self.bucket(plan, number, Primary { page, at, proved: state == State::Proved })?;
                    }
                }
            }
            bucket += run.count;
            frames += 1;
            if frames.is_multiple_of(64) {
                (self.take)(Salvaged::Progress { done: bucket, all })?;
            }
        }
        (self.take)(Salvaged::Progress { done: all, all })?;
        match self.report.missing() {
            // Pages that vanished without a trace, such as zeros with zero checksums.
            Some(missing @ 1..) if self.report.losses == 0 => self.lose(
                "header",
                format!("it counts {} pairs, of which {missing} were not found", plan.root.totals.pairs),
            ),
            _ => Flow::Continue(()),
        }
    }

    fn bucket(&mut self, plan: &Plan, number: linear::Bucket, primary: Primary) -> Flow {
        let place = format!("bucket {number}");
        let page = &primary.page;
        let level = linear::State::new(plan.root.max_bucket).level(number);
        match page::kind(page) {
            page::KIND_EMPTY if page.iter().all(|&b| b == 0) => return Flow::Continue(()),
            page::KIND_BUCKET if primary.proved || page::level(page) == level => {}
            page::KIND_BUCKET => {
                let what = format!("its page has level {}, expected {level}; its pairs are lost", page::level(page));
                self.report.lost_buckets += 1;
                return self.lose(place, what);
            }
            kind => {
                self.report.lost_buckets += 1;
                return self.lose(place, format!("its page is of kind {kind}; its pairs are lost"));
            }
        }
        let mut keys = HashSet::new();
        let belongs = |hash| linear::State::new(plan.root.max_bucket).bucket_of(hash) == number;
        self.walk(&place, primary, &belongs, &mut |salvage, Candidate { key, value, proved, .. }| {
            // A lookup finds the first one.
            if !keys.insert(fingerprint(key)) {
                return salvage.lose(&place, format!("key {} is present twice", crate::error::quote(key)));
            }
            value.map_or(Flow::Continue(()), |value| salvage.give(key, value, proved))
        })
    }
}

/// In an intact table one reference leads to each byte; in a damaged one several may.
fn reach_of(file: &DamagedFile) -> u64 {
    const TIMES: u64 = 4;
    file.file_bytes().saturating_mul(TIMES)
}

/// A 128-bit hash of a key: two keys do not collide by chance.
fn fingerprint(bytes: &[u8]) -> [u64; 2] {
    [0x5350_4C49_5431, 0x5350_4C49_5432].map(|seed| HashKind::Xxh3.hash(bytes, seed))
}

/// Adjacent buckets in one frame.
struct Run {
    frame: u32,
    start: usize,
    count: u64,
}

/// An intact header's description of the table.
struct Plan {
    page_bytes: usize,
    hash: Option<HashFunction>,
    root: Root,
}

impl Plan {
    /// An error if the header's root does not fit its frames.
    fn parse(header: &WholeHeader, options: &TableOptions, frame_bytes: usize) -> std::result::Result<Plan, String> {
        let root = Root::parse(&header.root, frame_bytes)?;
        let page_bytes = root.page_bytes as usize;
        let together = groups_in_first_frame(frame_bytes, page_bytes);
        for (i, &first) in root.groups.iter().enumerate().take(linear::group(root.max_bucket).0 + 1) {
            let frames = (u64::from(linear::group_len(i)) * page_bytes as u64).div_ceil(frame_bytes as u64);
            let first_right = first != 0 && (i > together || first == root.groups[0]);
            if !first_right || u64::from(first) + frames > u64::from(header.frame_count) {
                return Err(format!("bucket group {i} at frame {first} of {}", header.frame_count));
            }
        }
        Ok(Plan { page_bytes, hash: hash_of(&header.root, options), root })
    }

    /// The buckets from `bucket` on in its frame, or all the rest of its group if the file ends before the frame.
    fn run(&self, bucket: linear::Bucket, file: &DamagedFile) -> Run {
        let (frame_bytes, page_bytes) = (file.frame_bytes(), self.page_bytes);
        let (group, index) = linear::group(bucket);
        let left = u64::from(self.root.max_bucket) + 1 - u64::from(bucket);
        if group <= groups_in_first_frame(frame_bytes, page_bytes) {
            let start = bucket as usize * page_bytes;
            return Run {
                frame: self.root.groups[0],
                start,
                count: left.min(((frame_bytes - start) / page_bytes) as u64),
            };
        }
        let address = u64::from(index) * page_bytes as u64;
        let frame = self.root.groups[group] + (address / frame_bytes as u64) as u32;
        let start = (address % frame_bytes as u64) as usize;
        let in_group = u64::from(linear::group_len(group) - index);
        let in_frame =
            if file.is_absent_behind(frame) { in_group } else { ((frame_bytes - start) / page_bytes) as u64 };
        Run { frame, start, count: left.min(in_group).min(in_frame) }
    }
}

/// The hash function named by a root, if its check value confirms the name and the seed.
fn hash_of(root: &[u8], options: &TableOptions) -> Option<HashFunction> {
    let kind = HashKind::from_id(u16_at(root, 4))?;
    let hash = match kind {
        HashKind::User => options.user_hash.clone()?,
        kind => HashFunction::new(kind, u64_at(root, 8)),
    };
    (hash.check_value() == u64_at(root, 16)).then_some(hash)
}

fn not_a_table(path: &Path, what: &str) -> Error {
    let path = path.display();
    Error::new(ErrorKind::NotATable, format!("{path}: nothing in it looks like part of a splitpoint table: {what}"))
        .with_hint("Check the path.")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests copy files")]
mod tests {
    use super::*;
    use crate::table::Table;
    use std::path::PathBuf;

    /// Copies all files in a directory, as a kill of the process would leave them.
    fn killed(directory: &Path) -> (tempfile::TempDir, PathBuf) {
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
            }
        }
        let path = copy.path().join("t.spt");
        (copy, path)
    }

    #[test]
    fn changes_in_the_log_are_counted_as_missing() {
        let directory = tempfile::tempdir().unwrap();
        let table = Table::open(directory.path().join("t.spt")).unwrap();
        let salvaged = || {
            let (_copy, path) = killed(directory.path());
            let mut faults = Vec::new();
            let report = salvage(path, |found| {
                if let Salvaged::Fault(fault) = found {
                    faults.push(fault.to_string());
                }
                ControlFlow::Continue(())
            });
            (report.unwrap(), faults)
        };
        table.put(b"first", b"1").unwrap();
        table.checkpoint().unwrap();
        let (report, faults) = salvaged();
        assert!(report.is_whole() && faults.is_empty(), "{report:?} {faults:?}");
        (0..50u32).for_each(|n| table.put(&n.to_le_bytes(), b"2").unwrap());
        let (report, faults) = salvaged();
        assert!(report.log_unread && !report.is_whole(), "{report:?}");
        assert_eq!((report.verified, report.missing()), (1, Some(0)));
        assert!(faults[0].contains("changes since the last checkpoint (50)"), "{faults:?}");
    }

    #[test]
    fn the_types_of_a_typed_table_come_before_its_pairs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let table = Table::open(&path).unwrap();
        table.typed::<u64, str>().unwrap().put(&7, "alice").unwrap();
        table.compact().unwrap();
        table.close().unwrap();
        let mut seen = Vec::new();
        let report = salvage(&path, |found| {
            match found {
                Salvaged::Types(names) => seen.push(names.to_owned()),
                Salvaged::Pair { .. } => seen.push("pair".to_owned()),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        assert!(report.unwrap().is_whole());
        assert_eq!(seen, ["u64 -> str", "pair"]);
    }
}
