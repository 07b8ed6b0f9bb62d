//! DamagedFile: the frames of a file that may be damaged anywhere, each with its state.
//!
//! ```text
//! frame -> bytes, and     Proved     its checksum matches
//!                         Unproved   the checksum frame of its zone is damaged or missing; nothing else is wrong
//!                         Damaged    its checksum is intact and does not match; or the frame cannot be read
//! ```
//!
//! Nothing is written, only checksums are cached, and no frame waits for another. An intact header gives the locations
//! of the checksum frames ([`DamagedFile::header`]); otherwise the caller finds them ([`DamagedFile::lay_out`]). A
//! single matching checksum proves its frame even in a damaged checksum frame: 32 bits do not match by chance.
//!
//! The frames of a file of blocks are where its block map has them (`block_map.rs`).
//!
//! If there is a complete checkpoint journal, its frames replace those in the file, as when an open for writing
//! installs it. An incomplete journal is ignored, as by an open.
//!
//! Not here: the content of frames (`mod.rs`).

use super::State;
use super::block_map::{BlockMap, Blocks, FoundNode};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Mode, Storage};
use crate::little_endian::{u32_at, u64_at};
use crate::pager::checkpoint::journal::{self, JOURNAL_HEADER_BYTES};
use crate::pager::file::block_header::{BLOCKS_VERSION, BlockHeader, READS_BLOCKS};
use crate::pager::file::create::open_to_read;
use crate::pager::file::header::{DICTIONARY, FORMAT_VERSION, HEADER_BYTES, Header, MAGIC, ROOT_BYTES, ROOT_START};
use crate::pager::file::header::{header_sum, version_error};
use crate::pager::file::map_frames::{MAP_GROUP_COUNT, ZONE_FRAMES};
use crate::pager::file::names::journal_path;
use crate::pager::file::sums::{SUM_OF_SUMS, frame_sum, sum_of_sums};
use crate::pager::pool::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, FrameNo};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// An intact header.
pub(crate) struct WholeHeader {
    pub frame_count: u32,
    /// The table's number, which its log also has, and the number of the checkpoint.
    pub table_id: u64,
    pub sequence: u64,
    pub root: Vec<u8>,
}

/// The journal, whose frames replace those of the file.
struct Journal {
    file: Box<dyn File>,
    /// Frame -> its index in the journal.
    frames: HashMap<FrameNo, u32>,
    /// Frames of the file from here on are not part of the table.
    cut: u32,
}

/// The checksums of one zone, if they can be read.
struct Zone {
    sums: Option<Vec<u32>>,
    /// Whether the checksum frame's own checksum matches.
    holds: bool,
}

/// The locations of the checksums of each zone.
enum Places {
    Header([u32; MAP_GROUP_COUNT]),
    Found(BTreeMap<u32, FrameNo>),
}

/// A file that may be damaged anywhere.
pub(crate) struct DamagedFile {
    file: Box<dyn File>,
    file_bytes: u64,
    journal: Option<Journal>,
    frame_bytes: usize,
    frame_count: u32,
    places: Places,
    /// Of a file of blocks.
    map: Option<BlockMap>,
    /// Whether a header, however damaged, is that of a file of blocks.
    says_blocks: bool,
    /// The zones read most recently.
    zones: HashMap<u32, Zone>,
    /// Zones whose damaged checksums were reported.
    reported: BTreeSet<u32>,
    /// Faults found along the way: place and description.
    notes: Vec<(String, String)>,
}

impl DamagedFile {
    /// Opens the file at `path`, and its journal if there is one. Frames have the smallest size until
    /// [`header`](Self::header) or [`lay_out`](Self::lay_out) sets it.
    pub(crate) fn open(storage: &dyn Storage, path: &Path) -> Result<DamagedFile> {
        let file = open_to_read(storage, path)?;
        if file.is_locked().map_err(|e| Error::io(path, "ask for the lock of", e))? {
            let shown = path.display();
            return Err(Error::new(
                ErrorKind::Locked,
                format!(
                    "{shown}: another process or handle has it open for writing, so a read may see half of a change"
                ),
            )
            .with_hint("Close that one first."));
        }
        let file_bytes = file.len().map_err(|e| Error::io(path, "ask the length of", e))?;
        let mut damaged = DamagedFile {
            file,
            file_bytes,
            journal: None,
            frame_bytes: FRAME_BYTES_MIN,
            frame_count: 0,
            places: Places::Found(BTreeMap::new()),
            map: None,
            says_blocks: false,
            zones: HashMap::new(),
            reported: BTreeSet::new(),
            notes: Vec::new(),
        };
        damaged.lay_out(FRAME_BYTES_MIN, BTreeMap::new());
        if let Err(e) = damaged.read_journal(storage, path) {
            damaged.notes.push(("journal".into(), format!("ignored: {}", e.message())));
        }
        Ok(damaged)
    }

    fn read_journal(&mut self, storage: &dyn Storage, path: &Path) -> Result<()> {
        let journal_path = journal_path(path);
        let journal = match storage.open(&journal_path, Mode::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|e| Error::io(&journal_path, "open", e))?,
        };
        let complete = journal::read_complete(journal.as_ref()).map_err(|e| Error::io(&journal_path, "read", e))?;
        let Some((size, index, header)) = complete else {
            self.notes.push(("journal".into(), "it is incomplete, as after a crash, and ignored".into()));
            return Ok(());
        };
        if !journal::may_have_journal(path, self.file.as_ref())? {
            let mut start = Vec::new();
            if self.read_plain(&mut start, 0, MAGIC.len()).is_ok() && start == MAGIC {
                return Ok(()); // of another version, which the header reports next
            }
            // Only frame 0 of the journal can show whether it belongs to the file.
            self.notes
                .push(("header".into(), "its first bytes are damaged; the file's journal has an intact one".into()));
        }
        journal::check_belongs(&journal_path, self.file.as_ref(), size, &header)?;
        // If a frame occurs twice, the later one counts.
        let frames = index.iter().enumerate().map(|(i, &(frame, _))| (frame, i as u32)).collect();
        self.frame_bytes = size.frame_bytes;
        self.frame_count = size.frame_count;
        self.journal = Some(Journal { file: journal, frames, cut: size.cut });
        self.notes.push(("journal".into(), format!("{} frames are read from it instead of the file", index.len())));
        Ok(())
    }

    /// Reads the header. If it is intact, lays out the frames; otherwise returns what is wrong with it. Fails if the
    /// file is of another version.
    pub(crate) fn header(&mut self, path: &Path) -> Result<std::result::Result<WholeHeader, String>> {
        if let Some((header, is_current)) = BlockHeader::newest_whole(self.file.as_ref()) {
            return Ok(Ok(self.with_blocks(header, is_current)));
        }
        self.says_blocks = READS_BLOCKS && (0..2).any(|slot| self.says_blocks_at(slot * HEADER_BYTES as u64));
        let mut bytes = vec![0; HEADER_BYTES];
        let read = match &self.journal {
            Some(journal) if journal.frames.contains_key(&0) => {
                self.raw(0, &mut bytes).map(|()| bytes.truncate(HEADER_BYTES))
            }
            _ if self.file_bytes < HEADER_BYTES as u64 => {
                Err(format!("the file has {} bytes, less than a header", self.file_bytes))
            }
            _ => self.file.read_at(&mut bytes, 0).map_err(|e| format!("cannot be read: {e}")),
        };
        if let Err(what) = read {
            return Ok(Err(what));
        }
        if bytes.starts_with(DICTIONARY) {
            return Ok(Err("it is a dictionary, not a table".into()));
        }
        if bytes[..8] != MAGIC {
            return Ok(Err(format!("it starts with {}", crate::error::quote(&bytes[..8]))));
        }
        let version = u32_at(&bytes, 8);
        // A number this small is a later version rather than damage, unless all else matches version 1.
        const VERSIONS_TO_COME: std::ops::Range<u32> = FORMAT_VERSION + 1..256;
        let stored = u32_at(&bytes, HEADER_BYTES - 4);
        if VERSIONS_TO_COME.contains(&version) && !self.says_blocks {
            let mut as_ours = bytes.clone();
            as_ours[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
            if header_sum(&as_ours) != stored {
                return Err(version_error(&path.display(), version));
            }
        }
        let computed = header_sum(&bytes);
        if stored != computed {
            return Ok(Err(format!("checksum mismatch, stored {stored:08x}, computed {computed:08x}")));
        }
        Ok(Header::parse(&bytes).map(|header| {
            self.frame_bytes = header.frame_bytes;
            self.frame_count = header.frame_count;
            self.places = Places::Header(header.map_groups);
            self.zones.clear();
            WholeHeader {
                frame_count: header.frame_count,
                table_id: header.table_id,
                sequence: header.sequence,
                root: bytes[ROOT_START..ROOT_START + ROOT_BYTES].to_vec(),
            }
        }))
    }

    /// Whether these bytes of the file begin like the header of a file of blocks.
    fn says_blocks_at(&self, at: u64) -> bool {
        let mut start = Vec::new();
        let read = self.read_plain(&mut start, at, 12);
        read.is_ok() && start.len() == 12 && start[..8] == MAGIC && u32_at(&start, 8) == BLOCKS_VERSION
    }

    /// Lays out the frames of a file of blocks with this header.
    fn with_blocks(&mut self, header: BlockHeader, is_current: bool) -> WholeHeader {
        self.journal = None;
        self.frame_bytes = header.table.frame_bytes;
        self.frame_count = header.table.frame_count;
        self.places = Places::Header(header.table.map_groups);
        let count = self.blocks().block_count;
        if count < header.length {
            let what = format!("the file ends before it; it should have {} blocks", header.length);
            self.notes.push((format!("block {count}"), what));
        }
        let mut notes = Vec::new();
        self.map = Some(BlockMap::of_header(self.blocks(), &header, is_current, &mut notes));
        self.notes.extend(notes);
        WholeHeader {
            frame_count: header.table.frame_count,
            table_id: header.table.table_id,
            sequence: header.table.sequence,
            root: header.root,
        }
    }

    fn blocks(&self) -> Blocks<'_> {
        blocks_of(self.file.as_ref(), self.frame_bytes, self.file_bytes)
    }

    /// Whether a leaf of the block map is lost.
    pub(crate) fn lacks_leaves(&self) -> bool {
        self.map.as_ref().is_some_and(BlockMap::lacks_leaves)
    }

    /// Whether an intact header is known to be the last one.
    pub(crate) fn is_current(&self) -> bool {
        self.map.as_ref().is_none_or(BlockMap::is_current)
    }

    /// Uses nodes that were found for what the block map lacks. If the header is damaged and they show that this is a
    /// file of blocks, with frames of `frame_bytes`, lays them out. `has_sums`: there are checksum frames.
    pub(crate) fn use_nodes(&mut self, found: &[FoundNode], frame_bytes: usize, has_sums: bool) {
        let blocks = |frame_bytes| blocks_of(self.file.as_ref(), frame_bytes, self.file_bytes);
        match &mut self.map {
            Some(map) => {
                map.compare(found, &mut self.notes);
                map.find(blocks(self.frame_bytes), found, &mut self.notes);
            }
            None => {
                let blocks = blocks(frame_bytes);
                let is_of_blocks = self.says_blocks || !has_sums && !found.is_empty();
                let empty = || is_of_blocks.then(|| BlockMap::empty(blocks, 0));
                self.map = BlockMap::of_found(blocks, found).or_else(empty);
                self.frame_bytes = frame_bytes;
            }
        }
    }

    /// Searches the blocks that no leaf of the block map names, too. Returns false if this is not a file of blocks.
    pub(crate) fn search_loose(&mut self) -> bool {
        let blocks = blocks_of(self.file.as_ref(), self.frame_bytes, self.file_bytes);
        let Some(map) = &mut self.map else { return false };
        if map.lacks_leaves() {
            map.search_loose(blocks);
        }
        true
    }

    /// Sets the frame size, and the checksum frame of each zone, if the header is damaged.
    pub(crate) fn lay_out(&mut self, frame_bytes: usize, sum_frames: BTreeMap<u32, FrameNo>) {
        self.frame_bytes = frame_bytes;
        self.frame_count = u32::try_from(self.file_bytes / frame_bytes as u64).unwrap_or(u32::MAX);
        self.places = Places::Found(sum_frames);
        self.zones.clear();
    }

    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    pub(crate) fn frame_count(&self) -> u32 {
        self.map.as_ref().map_or(self.frame_count, BlockMap::frame_count)
    }

    /// Frames to search for pages.
    pub(crate) fn searched_count(&self) -> u32 {
        self.map.as_ref().map_or(self.frame_count, |map| map.searched_count(self.blocks()))
    }

    /// Bytes that the table's frames have, at most.
    pub(crate) fn table_bytes(&self) -> u64 {
        let frames = if self.map.is_some() { 0 } else { u64::from(self.frame_count) };
        self.file_bytes.max(frames * self.frame_bytes as u64)
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Names the place of a byte of the frames.
    pub(crate) fn place(&self, at: u64) -> String {
        let (frame, byte) = (at / self.frame_bytes as u64, at % self.frame_bytes as u64);
        self.map
            .as_ref()
            .map_or_else(|| format!("byte {at}"), |map| format!("{}, byte {byte}", map.place(frame as u32)))
    }

    /// The faults found since the last call: place and description.
    pub(crate) fn take_notes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.notes)
    }

    /// Whether the file ends before the end of this frame.
    pub(crate) fn is_absent(&self, frame: FrameNo) -> bool {
        let end = (u64::from(frame) + 1) * self.frame_bytes as u64;
        let in_journal = self.journal.as_ref().is_some_and(|j| frame >= j.cut || j.frames.contains_key(&frame));
        frame >= self.frame_count || end > self.file_bytes && !in_journal
    }

    /// Whether this frame and all later ones are absent. With a journal, which may have any of them, returns true only
    /// from the frame count on.
    pub(crate) fn is_absent_behind(&self, frame: FrameNo) -> bool {
        match &self.map {
            Some(map) => frame >= map.frame_count(),
            None => frame >= self.frame_count || self.journal.is_none() && self.is_absent(frame),
        }
    }

    /// The first frame that the file should have and lacks. In a file of blocks that may be any.
    pub(crate) fn first_absent(&self) -> Option<FrameNo> {
        if self.map.is_some() {
            return None;
        }
        let first = u32::try_from(self.file_bytes / self.frame_bytes as u64).unwrap_or(u32::MAX);
        // Frames that the journal cuts off may be missing.
        let needed = self.journal.as_ref().map_or(self.frame_count, |j| self.frame_count.min(j.cut));
        (first < needed).then_some(first)
    }

    /// Bytes of the file from `at` on, up to `len`.
    pub(crate) fn read_plain(&self, bytes: &mut Vec<u8>, at: u64, len: usize) -> std::io::Result<()> {
        bytes.resize((self.file_bytes.saturating_sub(at)).min(len as u64) as usize, 0);
        self.file.read_at(bytes, at)
    }

    /// Reads a frame without checking it.
    fn raw(&self, frame: FrameNo, bytes: &mut Vec<u8>) -> std::result::Result<(), String> {
        bytes.resize(self.frame_bytes, 0);
        if self.is_absent(frame) {
            return Err(format!("the file ends before it, at byte {}", self.file_bytes));
        }
        let frame_bytes = self.frame_bytes as u64;
        let (file, at) = match &self.journal {
            Some(journal) => match journal.frames.get(&frame) {
                Some(&index) => (journal.file.as_ref(), JOURNAL_HEADER_BYTES + u64::from(index) * frame_bytes),
                None if frame >= journal.cut => {
                    bytes.fill(0);
                    return Ok(());
                }
                None => (self.file.as_ref(), u64::from(frame) * frame_bytes),
            },
            None => (self.file.as_ref(), u64::from(frame) * frame_bytes),
        };
        file.read_at(bytes, at).map_err(|e| format!("cannot be read: {e}"))
    }

    /// Reads a frame into `bytes` and checks it.
    pub(crate) fn read(&mut self, frame: FrameNo, bytes: &mut Vec<u8>) -> State {
        if let Some(map) = &mut self.map {
            return map.read(blocks_of(self.file.as_ref(), self.frame_bytes, self.file_bytes), frame, bytes);
        }
        if let Err(what) = self.raw(frame, bytes) {
            return State::Damaged(what);
        }
        let number = frame / ZONE_FRAMES;
        let computed = frame_sum(frame, bytes);
        let zone = self.zone(number);
        let Some(sums) = &zone.sums else {
            self.tell_unproved(number);
            return State::Unproved;
        };
        let stored = sums[(frame % ZONE_FRAMES) as usize];
        // A checksum frame of zeros either was never written, like all frames of its zone, or is damaged. A frame of
        // zeros is right in both cases.
        let never_written =
            stored == 0 && (zone.holds || sums.iter().all(|&s| s == 0)) && bytes.iter().all(|&b| b == 0);
        if stored == computed || never_written {
            return State::Proved;
        }
        if zone.holds {
            return State::Damaged(format!("checksum mismatch, stored {stored:08x}, computed {computed:08x}"));
        }
        self.tell_unproved(number);
        State::Unproved
    }

    fn tell_unproved(&mut self, zone: u32) {
        if !self.reported.insert(zone) {
            return;
        }
        let (first, last) = (zone * ZONE_FRAMES, zone.saturating_mul(ZONE_FRAMES).saturating_add(ZONE_FRAMES - 1));
        let place = self.sum_frame(zone).map_or("checksums".into(), |frame| format!("frame {frame}"));
        let last = last.min(self.frame_count.saturating_sub(1));
        let what = format!("the checksums of frames {first} to {last} are damaged: not all of them can be compared");
        self.notes.push((place, what));
    }

    fn zone(&mut self, number: u32) -> &Zone {
        // 512 zones have a megabyte of checksums.
        const ZONES_KEPT: usize = 512;
        if self.zones.len() >= ZONES_KEPT && !self.zones.contains_key(&number) {
            self.zones.clear();
        }
        if !self.zones.contains_key(&number) {
            let zone = self.read_zone(number);
            self.zones.insert(number, zone);
        }
        &self.zones[&number]
    }

    fn read_zone(&self, number: u32) -> Zone {
        let mut bytes = Vec::new();
        let Some(frame) = self.sum_frame(number).filter(|&frame| self.raw(frame, &mut bytes).is_ok()) else {
            return Zone { sums: None, holds: false };
        };
        let holds = u32_at(&bytes, SUM_OF_SUMS) == sum_of_sums(frame, &bytes);
        Zone { sums: Some((0..ZONE_FRAMES as usize).map(|i| u32_at(&bytes, 4 * i)).collect()), holds }
    }

    /// The frame with the checksums of `zone`; the frame before it has the zone's used bits.
    pub(crate) fn sum_frame(&self, zone: u32) -> Option<FrameNo> {
        match &self.places {
            _ if zone == 0 => Some(2),
            Places::Header(groups) => {
                let k = zone.ilog2();
                let first = groups[k as usize];
                // Checked when the header was parsed: a group is within the file.
                (first != 0).then(|| first + 2 * (zone - (1 << k)) + 1)
            }
            Places::Found(frames) => frames.get(&zone).copied(),
        }
    }

    /// Whether nothing needs to be reported if this frame is damaged: it is a checksum frame, which has its own
    /// checksum, or its leaf of the block map is lost, which was reported.
    pub(crate) fn is_reported(&self, frame: FrameNo) -> bool {
        match &self.places {
            _ if self.map.is_some() => self.map.as_ref().is_some_and(|map| map.is_lost(frame)),
            Places::Found(frames) => frame == 2 || frames.values().any(|&f| f == frame),
            Places::Header(_) => false,
        }
    }

    /// The used bits of `frame`; `None` if they cannot be proved.
    pub(crate) fn used_bits(&mut self, frame: FrameNo, map: &mut UsedMap) -> Option<u64> {
        if self.map.as_ref().is_some_and(|map| map.is_loose(frame)) {
            return None;
        }
        let zone = frame / ZONE_FRAMES;
        if map.zone != Some(zone) {
            map.zone = Some(zone);
            let bits = self.sum_frame(zone).map(|sums| sums - 1);
            // Zeros prove nothing: they were never written, or are damaged like the checksums that they match.
            map.proved = bits.is_some_and(|bits| self.read(bits, &mut map.bytes) == State::Proved)
                && map.bytes.iter().any(|&b| b != 0);
        }
        let at = (frame % ZONE_FRAMES) as usize * 8;
        map.proved.then(|| u64_at(&map.bytes, at))
    }

    /// Whether the checksums in `sum_frame` match frames of `zone`.
    pub(crate) fn fits_zone(&self, sum_frame: FrameNo, zone: u32) -> bool {
        // The header and the checksum frame itself have no entry here; a few frames may be damaged.
        const LOOKED_AT: usize = 8;
        let (mut sums, mut bytes) = (Vec::new(), Vec::new());
        if self.raw(sum_frame, &mut sums).is_err() {
            return false;
        }
        let stored = (0..ZONE_FRAMES).map(|i| (i, u32_at(&sums, 4 * i as usize))).filter(|&(_, sum)| sum != 0);
        stored.take(LOOKED_AT).any(|(i, sum)| {
            let frame = zone.checked_mul(ZONE_FRAMES).and_then(|first| first.checked_add(i));
            frame.is_some_and(|frame| self.raw(frame, &mut bytes).is_ok() && frame_sum(frame, &bytes) == sum)
        })
    }
}

fn blocks_of(file: &dyn File, block_bytes: usize, file_bytes: u64) -> Blocks<'_> {
    let block_count = u32::try_from(file_bytes / block_bytes as u64).unwrap_or(u32::MAX);
    Blocks { file, block_bytes, block_count }
}

/// The used bits of the zone read last.
#[derive(Default)]
pub(crate) struct UsedMap {
    zone: Option<u32>,
    proved: bool,
    bytes: Vec<u8>,
}

/// Whether `bytes`, read as `frame`, is a checksum frame whose own checksum matches.
pub(crate) fn is_sum_frame(frame: FrameNo, bytes: &[u8]) -> bool {
    // The zeros are tested first: that is the quickest test, and rules out most frames.
    (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&bytes.len())
        && bytes[SUM_OF_SUMS + 4..].iter().all(|&b| b == 0)
        && u32_at(bytes, SUM_OF_SUMS) != 0
        && u32_at(bytes, SUM_OF_SUMS) == sum_of_sums(frame, bytes)
}
