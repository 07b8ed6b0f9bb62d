//! Salvage: what can still be read of a damaged file.
//!
//! ```text
//! header whole    each bucket: its page, its overflow pages, the extents of its pairs    by_header, here
//! header damaged  every frame: what is a primary page by its layout, and what it leads to  scattered.rs
//! ```
//!
//! A pair is given as **verified** if the checksum of every frame that it lies in fits, it is known that nothing newer
//! replaced it, and its key belongs to the bucket it was found in. Where the checksums themselves are damaged, pages that
//! contradict themselves nowhere are taken for what they are, and their pairs given as not verified. Nothing else is given.
//!
//! The file is only read, nothing beside it is made, and memory is bounded: the frame at hand, one pair, one bucket's keys.
//! Every loop along references has a bound in the file's length.
//!
//! Not here: frames and their checksums (`pager/file.rs`), naming every fault of a file that opens (`verify.rs`).

mod scattered;
mod walk;

use crate::buckets::page;
use crate::buckets::root::{Root, groups_in_first_frame};
use crate::error::{Error, ErrorKind, Result};
use crate::fault::Fault;
use crate::hash::{HashFunction, HashKind};
use crate::linear;
use crate::pager::damaged_file::{DamagedFile, State, WholeHeader};
use crate::pager::resolve;
use crate::pager::wal::has_segments;
use crate::table::TableOptions;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use walk::{Candidate, Primary};

/// What [`salvage`] tells of, as it finds it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Salvaged<'a> {
    /// A pair. No key is given twice.
    #[non_exhaustive]
    Pair {
        /// Its key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// Every byte of it is proved by a checksum, and it is current. If not, it is what a page that contradicts itself
        /// nowhere says, with checksums that are damaged themselves: most likely right.
        verified: bool,
    },
    /// Something that is damaged, and what is lost by it.
    Fault(&'a Fault),
    /// How far it is.
    #[non_exhaustive]
    Progress {
        /// Of `all`.
        done: u64,
        /// In no unit of interest.
        all: u64,
    },
}

/// The sum of a salvage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Pairs given that are proved.
    pub verified: u64,
    /// Pairs given that are not.
    pub unverified: u64,
    /// Pairs that the header counts; `None` where it is damaged.
    pub counted: Option<u64>,
    /// Buckets that are lost wholly: their primary pages are.
    pub lost_buckets: u64,
    /// Places where pairs are lost, or may be: a bucket's page, an overflow page, a value.
    pub losses: u64,
    /// Keys that were there several times with different values, of which one was given. Only without a header.
    pub conflicts: u64,
    /// It was stopped before the end.
    pub stopped: bool,
}

impl SalvageReport {
    /// Pairs given.
    pub fn pairs(&self) -> u64 {
        self.verified + self.unverified
    }

    /// How many pairs did not come out; `None` where the header, which counts them, is damaged.
    pub fn missing(&self) -> Option<u64> {
        self.counted.map(|counted| counted.saturating_sub(self.pairs()))
    }

    /// Is it certain that every pair of the table was given, and rightly?
    pub fn is_whole(&self) -> bool {
        // Verified pairs are of the table, and no two of one key: if they are as many as it has, they are all. What was
        // lost then had none, whatever it was.
        !self.stopped && self.unverified == 0 && self.counted == Some(self.verified)
    }
}

/// Gives every pair that can still be read of the table in the file at `path`, however damaged it is, to `take`, and says
/// what is lost. Goes on until `take` breaks.
///
/// Reads a file whose header is whole about once, another about three times; without a header it keeps a list of what it
/// found in an unlinked temporary file. Pairs come in no order. A complete checkpoint journal beside the file is read too;
/// nothing is changed. A table with a hash function of the user's own is salvaged by [`TableOptions::salvage`].
///
/// # Errors
/// [`ErrorKind::NotATable`] where nothing in the file looks like a part of a table; [`ErrorKind::Version`];
/// [`ErrorKind::Locked`] where another has it open for writing; [`ErrorKind::Io`] where it cannot be opened. That parts of it
/// cannot be read is no error.
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
    /// [`salvage`] of a table with a hash function of the user's own: [`user_hash`](Self::user_hash) is what counts here.
    ///
    /// # Errors
    /// As [`salvage`].
    pub fn salvage(
        self,
        path: impl AsRef<Path>,
        mut take: impl FnMut(Salvaged<'_>) -> ControlFlow<()>,
    ) -> Result<SalvageReport> {
        let path = &resolve(self.storage.as_ref(), path.as_ref())?;
        let mut file = DamagedFile::open(self.storage.as_ref(), path)?;
        let planned = file.header(path)?;
        let plan = planned.and_then(|header| Plan::parse(&header, &self, file.frame_bytes()));
        let mut salvage = Salvage::new(file, &self, &mut take);
        let flow = match plan {
            Ok(plan) => salvage.by_header(&plan),
            Err(what) => salvage.scattered(path, &what)?,
        };
        let flow = match flow {
            Flow::Continue(()) if has_segments(self.storage.as_ref(), path) => {
                let what = "writes since the last checkpoint may be in it and are not salvaged; an open for writing, if one is possible, makes them again";
                salvage.lose("write-ahead log", what)
            }
            flow => flow,
        };
        if let Some(e) = salvage.failed {
            return Err(e);
        }
        salvage.report.stopped = flow.is_break();
        Ok(salvage.report)
    }
}

/// Goes on, or the caller has had enough.
type Flow = ControlFlow<()>;

/// A salvage under way.
struct Salvage<'a> {
    file: DamagedFile,
    options: &'a TableOptions,
    page_bytes: usize,
    /// `None`: not known; then no key can be compared with its place.
    hash: Option<HashFunction>,
    take: &'a mut dyn FnMut(Salvaged<'_>) -> Flow,
    report: SalvageReport,
    /// Bytes that references may still lead to: several may lead to one place in a file that says what it likes.
    reach_left: u64,
    /// Nothing is told: it will be on another pass.
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

    fn tell(&mut self, place: impl Into<String>, what: impl Into<String>) -> Flow {
        if self.quiet {
            return Flow::Continue(());
        }
        (self.take)(Salvaged::Fault(&Fault { place: place.into(), what: what.into() }))
    }

    /// Tells of something by which pairs are lost.
    fn lose(&mut self, place: impl Into<String>, what: impl Into<String>) -> Flow {
        if !self.quiet {
            self.report.losses += 1;
        }
        self.tell(place, what)
    }

    /// Tells what was found wrong with checksums and the journal meanwhile.
    fn tell_notes(&mut self) -> Flow {
        if self.quiet {
            return Flow::Continue(());
        }
        for (place, what) in self.file.take_notes() {
            self.tell(place, what)?;
        }
        Flow::Continue(())
    }

    fn give(&mut self, key: &[u8], value: &[u8], verified: bool) -> Flow {
        *(if verified { &mut self.report.verified } else { &mut self.report.unverified }) += 1;
        (self.take)(Salvaged::Pair { key, value, verified })
    }

    /// Gives the pairs of every bucket that the header leads to.
    fn by_header(&mut self, plan: &Plan) -> Flow {
        self.page_bytes = plan.page_bytes;
        self.hash.clone_from(&plan.hash);
        self.reach_left = reach_of(&self.file);
        self.report.counted = Some(plan.root.totals.pairs);
        let all = u64::from(plan.root.max_bucket) + 1;
        let frames = self.file.frame_count();
        if let Some(first) = self.file.first_absent() {
            self.tell(
                format!("frame {first}"),
                format!("the file ends before it, {} of {frames} frames are missing", frames - first),
            )?;
        }
        let mut bytes = Vec::new();
        let (mut bucket, mut frames) = (0, 0u64);
        while bucket < all {
            let run = plan.run(bucket as linear::Bucket, &self.file);
            let state = self.file.read(run.frame, &mut bytes);
            self.tell_notes()?;
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
            // Pages that are gone without a trace, such as zeros under checksums that are zeros too.
            Some(missing @ 1..) if self.report.losses == 0 => self.lose(
                "header",
                format!("it counts {} pairs, {missing} of them were found nowhere", plan.root.totals.pairs),
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
            // The first is the one that a lookup finds.
            if !keys.insert(fingerprint(key)) {
                return salvage.lose(&place, format!("key {} is there twice", crate::error::quote(key)));
            }
            value.map_or(Flow::Continue(()), |value| salvage.give(key, value, proved))
        })
    }
}

/// References of a sound table lead to each byte once; a damaged one's may lead there again.
fn reach_of(file: &DamagedFile) -> u64 {
    const TIMES: u64 = 4;
    let bytes = u64::from(file.frame_count()) * file.frame_bytes() as u64;
    bytes.max(file.file_bytes()).saturating_mul(TIMES)
}

/// A key in 128 bits: two of one table do not meet by chance.
fn fingerprint(bytes: &[u8]) -> [u64; 2] {
    [0x5350_4C49_5431, 0x5350_4C49_5432].map(|seed| HashKind::Xxh3.hash(bytes, seed))
}

/// Buckets side by side in one frame.
struct Run {
    frame: u32,
    start: usize,
    count: u64,
}

/// What a whole header says about the table.
struct Plan {
    page_bytes: usize,
    hash: Option<HashFunction>,
    root: Root,
}

impl Plan {
    /// Fails where the header's root does not fit its frames.
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

    /// The buckets from `bucket` on that lie in its frame, or, where the file ends before that, all of its group.
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

/// The hash function that a root names, if its check value says that name and seed are right.
fn hash_of(root: &[u8], options: &TableOptions) -> Option<HashFunction> {
    let kind = HashKind::from_id(u16::from_le_bytes([root[4], root[5]]))?;
    let hash = match kind {
        HashKind::User => options.user_hash.clone()?,
        kind => HashFunction::new(kind, u64_at(root, 8)),
    };
    (hash.check_value() == u64_at(root, 16)).then_some(hash)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn not_a_table(path: &Path, what: &str) -> Error {
    let path = path.display();
    Error::new(
        ErrorKind::NotATable,
        format!("{path}: nothing in it looks like a part of a splitpoint table: {what}. Check the path."),
    )
}
