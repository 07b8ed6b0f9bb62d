//! DamagedFile: the frames of a file that may be damaged anywhere, each with its state.
//!
//! ```text
//! frame -> bytes, and     Proved     the checksum in its entry matches, and the entry is current
//!                         Unproved   its entry may be old, or it is in a block that no entry names
//!                         Damaged    the checksum does not match; or the frame has no entry; or it cannot be read
//! ```
//!
//! Nothing is written, only leaves of the block map are cached, and no frame waits for another. An intact header leads
//! to the block map ([`DamagedFile::header`]); otherwise the caller finds its nodes ([`DamagedFile::lay_out`]).
//!
//! Not here: the block map (`block_map.rs`), the content of frames (`mod.rs`).

use super::State;
use super::block_map::{BlockMap, Blocks, FoundNode};
use crate::error::{Error, ErrorKind, Result, quote};
use crate::io::{File, Storage};
use crate::little_endian::{u32_at, u64_at};
use crate::pager::file::create::open_to_read;
use crate::pager::file::header::{DICTIONARY, FORMAT_VERSION, HEADER_BYTES, MAGIC, header_sum, version_error};
use crate::pager::file::headers::CheckpointHeader;
use crate::pager::file::map_frames::{MAP_GROUP_COUNT, ZONE_FRAMES};
use crate::pager::pool::{FRAME_BYTES_MIN, FrameNo};
use std::path::Path;

/// An intact header.
pub(crate) struct WholeHeader {
    pub frame_count: u32,
    /// The table's number, which its log also has, and the number of the checkpoint.
    pub table_id: u64,
    pub sequence: u64,
    pub root: Vec<u8>,
}

/// A file that may be damaged anywhere.
pub(crate) struct DamagedFile {
    file: Box<dyn File>,
    file_bytes: u64,
    frame_bytes: usize,
    /// Where the map frames are, if the header says so.
    map_groups: [u32; MAP_GROUP_COUNT],
    map: BlockMap,
    /// Faults found along the way: place and description.
    notes: Vec<(String, String)>,
}

impl DamagedFile {
    /// Opens the file at `path`. Frames have the smallest size until [`header`](Self::header) or
    /// [`lay_out`](Self::lay_out) sets it.
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
        let map = BlockMap::empty(blocks_of(file.as_ref(), FRAME_BYTES_MIN, file_bytes), 0);
        Ok(DamagedFile {
            file,
            file_bytes,
            frame_bytes: FRAME_BYTES_MIN,
            map_groups: [0; MAP_GROUP_COUNT],
            map,
            notes: Vec::new(),
        })
    }

    /// Reads the header. If one is intact, lays out the frames; otherwise returns what is wrong with it. Fails if the
    /// file is of another version.
    pub(crate) fn header(&mut self, path: &Path) -> Result<std::result::Result<WholeHeader, String>> {
        if let Some((header, is_current)) = CheckpointHeader::newest_whole(self.file.as_ref()) {
            return Ok(Ok(self.with_header(header, is_current)));
        }
        if self.file_bytes < HEADER_BYTES as u64 {
            return Ok(Err(format!("the file has {} bytes, less than a header", self.file_bytes)));
        }
        let mut bytes = vec![0; HEADER_BYTES];
        if let Err(e) = self.file.read_at(&mut bytes, 0) {
            return Ok(Err(format!("cannot be read: {e}")));
        }
        if bytes.starts_with(DICTIONARY) {
            return Ok(Err("it is a dictionary, not a table".into()));
        }
        if bytes[..8] != MAGIC {
            return Ok(Err(format!("it starts with {}", quote(&bytes[..8]))));
        }
        let version = u32_at(&bytes, 8);
        // A number this small is a later version rather than damage, unless all else matches this version.
        const VERSIONS_TO_COME: std::ops::Range<u32> = FORMAT_VERSION + 1..256;
        let stored = u32_at(&bytes, HEADER_BYTES - 4);
        if VERSIONS_TO_COME.contains(&version) {
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
        Ok(Err("its fields contradict each other".into()))
    }

    /// Lays out the frames as this header says.
    fn with_header(&mut self, header: CheckpointHeader, is_current: bool) -> WholeHeader {
        self.frame_bytes = header.table.frame_bytes;
        self.map_groups = header.table.map_groups;
        let count = self.blocks().block_count;
        if count < header.length {
            let what = format!("the file ends before it; it should have {} blocks", header.length);
            self.notes.push((format!("block {count}"), what));
        }
        let mut notes = Vec::new();
        self.map = BlockMap::of_header(self.blocks(), &header, is_current, &mut notes);
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

    /// Whether a leaf of the block map is lost, or one was found that may lack frames.
    pub(crate) fn lacks_leaves(&self) -> bool {
        self.map.lacks_leaves()
    }

    /// Whether an intact header is known to be the last one.
    pub(crate) fn is_current(&self) -> bool {
        self.map.is_current()
    }

    /// Uses nodes that were found for what an intact header's block map lacks.
    pub(crate) fn complete_map(&mut self, found: &[FoundNode]) {
        let blocks = blocks_of(self.file.as_ref(), self.frame_bytes, self.file_bytes);
        self.map.compare(found, &mut self.notes);
        self.map.find(blocks, found, &mut self.notes);
    }

    /// Lays out frames of `frame_bytes` by the nodes that were found, as the header is damaged.
    pub(crate) fn lay_out(&mut self, found: &[FoundNode], frame_bytes: usize) {
        self.frame_bytes = frame_bytes;
        let map = BlockMap::of_found(self.blocks(), found).unwrap_or_else(|| BlockMap::empty(self.blocks(), 0));
        self.map = map;
    }

    /// Searches the blocks that no leaf of the block map names, too, if one may be lost.
    pub(crate) fn search_loose(&mut self) {
        let blocks = blocks_of(self.file.as_ref(), self.frame_bytes, self.file_bytes);
        if self.map.lacks_leaves() {
            self.map.search_loose(blocks);
        }
    }

    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    pub(crate) fn frame_count(&self) -> u32 {
        self.map.frame_count()
    }

    /// Frames to search for pages.
    pub(crate) fn searched_count(&self) -> u32 {
        self.map.searched_count(self.blocks())
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Names the place of a byte of the frames.
    pub(crate) fn place(&self, at: u64) -> String {
        let (frame, byte) = (at / self.frame_bytes as u64, at % self.frame_bytes as u64);
        format!("{}, byte {byte}", self.map.place(frame as u32))
    }

    /// The faults found since the last call: place and description.
    pub(crate) fn take_notes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.notes)
    }

    /// Whether this frame and all later ones are absent.
    pub(crate) fn is_absent_behind(&self, frame: FrameNo) -> bool {
        frame >= self.map.frame_count()
    }

    /// Bytes of the file from `at` on, up to `len`.
    pub(crate) fn read_plain(&self, bytes: &mut Vec<u8>, at: u64, len: usize) -> std::io::Result<()> {
        bytes.resize((self.file_bytes.saturating_sub(at)).min(len as u64) as usize, 0);
        self.file.read_at(bytes, at)
    }

    /// Reads a frame into `bytes` and checks it.
    pub(crate) fn read(&mut self, frame: FrameNo, bytes: &mut Vec<u8>) -> State {
        let blocks = blocks_of(self.file.as_ref(), self.frame_bytes, self.file_bytes);
        self.map.read(blocks, frame, bytes)
    }

    /// Whether nothing needs to be reported if this frame is damaged: its leaf of the block map is lost, which was
    /// reported.
    pub(crate) fn is_reported(&self, frame: FrameNo) -> bool {
        self.map.is_lost(frame)
    }

    /// The map frame with the used bits of `zone`.
    fn map_frame(&self, zone: u32) -> Option<FrameNo> {
        if zone == 0 {
            return Some(0);
        }
        let k = zone.ilog2();
        let first = self.map_groups[k as usize];
        // Checked when the header was parsed: a group is within the file.
        (first != 0).then(|| first + (zone - (1 << k)))
    }

    /// The used bits of `frame`; `None` if they cannot be proved.
    pub(crate) fn used_bits(&mut self, frame: FrameNo, map: &mut UsedMap) -> Option<u64> {
        if self.map.is_loose(frame) {
            return None;
        }
        let zone = frame / ZONE_FRAMES;
        if map.zone != Some(zone) {
            map.zone = Some(zone);
            // Zeros prove nothing: they were never written.
            map.proved = self.map_frame(zone).is_some_and(|bits| self.read(bits, &mut map.bytes) == State::Proved)
                && map.bytes.iter().any(|&b| b != 0);
        }
        let at = (frame % ZONE_FRAMES) as usize * 8;
        map.proved.then(|| u64_at(&map.bytes, at))
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
