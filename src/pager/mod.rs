//! The pager: frames of one file, or of memory only. It latches, changes, evicts and writes them.
//!
//! Only the pager knows the pool, the maps of used space and the file. It knows nothing of pages and keys. In the
//! header it stores the **root**, some bytes that its user chooses.
//!
//! ```text
//! frame 0: header | 1: used units of zone 0 | 2: checksums of zone 0 | 3 ...: whatever is allocated
//! ```
//!
//! Every change of a frame goes through [`Pager::write`], which marks it dirty. Dirty frames reach the file only in a
//! checkpoint (`checkpoint.rs`), all together. A frame read from the file is compared with its checksum. The checksum
//! is stored in another frame, so a lost or misdirected write is detected as well as a flipped bit.
//!
//! Source: the buffer manager of Seltzer & Yigit 1991, "Buffer Management"; the file layout is ours (docs/format.md).

mod ahead;
mod announce;
mod around;
mod checkpoint;
mod checkpoint_lock;
pub(crate) mod copy;
pub(crate) mod interleave;

pub(crate) mod damaged_file;
mod evict;
mod file;
mod file_length;
mod health;
mod mapped_reads;
mod mapping;
mod names;
pub(crate) mod pool;
mod ranges;
mod room;
pub(crate) mod sink;
mod space;
mod spill;
pub(crate) mod thread_slot;
mod through;
mod values_held;
pub(crate) mod wal;
pub(crate) mod words;

use crate::checksum::{crc32c, crc32c_append};
use crate::error::{Error, ErrorKind, Result};
use crate::fault::{Proceed, go_on};
use crate::io::atomic::make_unnamed;
use crate::io::{Access, File, Storage, forked_since, forks, remove_if_empty};
use crate::little_endian::{u32_at, u64_at};
use crate::own_line::OwnLine;
use crate::planted::{Bug, planted};
pub(crate) use checkpoint::Frozen;
pub(crate) use checkpoint_lock::CheckpointGuard;
use checkpoint_lock::CheckpointLock;
use health::Health;
use interleave::step;
use mapped_reads::MappedReads;
pub(crate) use mapping::machine_memory_bytes;
use names::{is_at, refuse_if_moved};
pub(crate) use names::{refuse_other_names, resolve};
use pool::{FrameNo, FrameRef, FrameSource, Pool, ReadGuard, WriteGuard};
pub(crate) use space::compaction::Room;
use space::kept::Kept;
pub(crate) use space::{FRAME_UNITS, ZONE_FRAMES};
use space::{MAP_GROUP_COUNT, Space};
use spill::Spilling;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
pub(crate) use through::StoredValue;
use through::Through;
use wal::{Log, Safety};
use words::Bytes;

/// First bytes of a table file. On disk.
const MAGIC: [u8; 8] = *b"SPLITPNT";
/// Format version this library writes. On disk.
const FORMAT_VERSION: u32 = 1;
/// Bytes of the header in use, whatever the frame size.
pub(crate) const HEADER_BYTES: usize = 4096;
/// Offset of the user's root in the header.
pub(crate) const ROOT_START: usize = 256;
/// Bytes the pager's user may keep in the header.
pub(crate) const ROOT_BYTES: usize = HEADER_BYTES - ROOT_START - 8;
/// The smallest frame. A table with larger pages has frames of the page size.
pub(crate) const FRAME_BYTES_MIN: usize = 4096;
/// Largest frame.
pub(crate) const FRAME_BYTES_MAX: usize = 65536;
/// Frames before the first that is allocated: the header and zone 0's map frames.
pub(crate) const FIRST_FRAMES: u32 = 3;

/// Highest number of a checkpoint or a segment of the log. No writer reaches it, so there is always a next one. On
/// disk.
pub(crate) const NUMBER_MAX: u64 = 1 << 63;

/// Offset of the table's id in the header.
const TABLE_ID: usize = 32 + 4 * MAP_GROUP_COUNT;

/// The fields of the header, without the root.
#[derive(Clone, Debug)]
struct Header {
    frame_bytes: usize,
    /// A number chosen when the table was created; its log and its journal carry it.
    table_id: u64,
    sequence: u64,
    frame_count: u32,
    map_groups: [u32; MAP_GROUP_COUNT],
}

/// Whether to create the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Create {
    Never,
    IfAbsent,
    /// An error if the file exists.
    Always,
}

/// How much memory the frames of a table with a file may take.
#[derive(Clone, Copy)]
pub(crate) struct CacheLimit {
    pub bytes: u64,
    /// With fewer frames, one operation might not be able to hold all the frames it needs at once.
    pub frames_min: u32,
}

impl CacheLimit {
    pub(crate) const FRAMES_MIN: u32 = 64;

    fn frames(self, frame_bytes: usize) -> u64 {
        (self.bytes / frame_bytes as u64).max(self.frames_min.into())
    }
}

/// How to open a file.
pub(crate) struct OpenOptions {
    pub create: Create,
    /// Before the umask is applied.
    pub permissions_if_new: u32,
    pub frame_bytes_if_new: usize,
    /// A random one if `None`.
    pub table_id_if_new: Option<u64>,
    pub cache: CacheLimit,
    pub read_only: bool,
    /// Which failure a logged write survives; nothing is logged if `None`.
    pub safety: Option<Safety>,
    /// The bytes of a segment of the log; `None`: the length follows the size of the table.
    pub log_bytes: Option<u64>,
}

/// The frames of one table.
pub(crate) struct Pager {
    pool: Pool,
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// `None`: in memory only.
    file: Option<Arc<dyn File>>,
    /// Whether this handle made the file.
    made: bool,
    reads: MappedReads,
    read_only: bool,
    /// Whether the file is an unlinked temporary file for frames that do not fit in the cache. Its content ends with
    /// the handle.
    scratch: bool,
    spilling: Spilling,
    space: OwnLine<Mutex<Space>>,
    kept: Kept,
    frame_count: AtomicU32,
    map_groups: [AtomicU32; MAP_GROUP_COUNT],
    /// Frames of the file at the last checkpoint; a frame beyond them reads as zeros.
    file_frames: AtomicU32,
    /// Frames of the last checkpoint; `file_frames` is smaller once the file was cut.
    checkpoint_frames: AtomicU32,
    written_end: file_length::WrittenEnd,
    table_id: u64,
    /// The number of the last complete checkpoint.
    sequence: AtomicU64,
    /// The number of the last checkpoint that began.
    frozen_sequence: AtomicU64,
    /// `Some` for a file that is open for writing.
    log: Option<Log>,
    through: Through,
    checkpoint_lock: Arc<CheckpointLock>,
    health: Health,
    /// Identifies this process, see `io::forks`.
    forks: u32,
    /// The maximum number of resident frames.
    cache_frames: u64,
    clock_hand: OwnLine<AtomicU32>,
    pub(crate) counts: OwnLine<Counts>,
}

/// Counts since the pager was opened.
#[derive(Default)]
pub(crate) struct Counts {
    pub frames_read: AtomicU64,
    /// Frames that checkpoints wrote to their locations in the file.
    pub frames_written: AtomicU64,
    pub checkpoints: AtomicU64,
}

impl FrameSource for Pager {
    fn load(&self, frame: FrameNo, bytes: &mut [u8]) -> Result<bool> {
        let Some((file, reads)) = self.file_of(frame) else {
            return Ok(false);
        };
        let at = u64::from(frame) * self.frame_bytes() as u64;
        // A reader uses `pread`: another process may be writing the file, and each frame needs further calls anyway.
        let mapped = self.pool.has_buffers() && !self.read_only;
        if !(mapped && reads.read(file, at, bytes)) {
            file.read_at(bytes, at).map_err(|e| self.unread(file, frame, e))?;
        }
        self.counts.frames_read.fetch_add(1, Relaxed);
        let checked = self.check_sum(frame, bytes);
        if self.read_only {
            // Must follow the read, and precede the report of a checksum mismatch as damage.
            self.refuse_if_stale(file)?;
        }
        checked?;
        Ok(true)
    }

    fn made_resident(&self) {
        let resident = self.pool.resident.load(Relaxed);
        if resident > self.cache_frames && self.file.is_some() {
            self.evict_some();
        }
    }
}

impl Pager {
    #[cold]
    fn unread(&self, file: &dyn File, frame: FrameNo, e: std::io::Error) -> Error {
        if self.read_only
            && let Err(other) = self.refuse_if_stale(file)
            && other.kind() != ErrorKind::Io
        {
            return other; // a checkpoint made the file shorter, or the file was cut
        }
        if e.kind() == std::io::ErrorKind::UnexpectedEof && !self.read_only {
            let path = self.path.display();
            return Error::corrupt_table(format!("{path}: frame {frame} is gone: another program cut the file"));
        }
        Error::io(&self.path, &format!("read frame {frame} of"), e)
    }

    /// A pager for frames in memory only.
    pub(crate) fn in_memory(frame_bytes: usize, storage: Arc<dyn Storage>) -> Result<Pager> {
        Self::start(Pool::new(frame_bytes, false)?, storage, PathBuf::from("(memory)"), None, false, u64::MAX)
    }

    /// A pager for frames in memory up to `cache_bytes`; the rest go to a temporary file without a name.
    pub(crate) fn create_scratch(storage: Arc<dyn Storage>, frame_bytes: usize, cache: CacheLimit) -> Result<Pager> {
        let path = std::env::temp_dir().join("splitpoint");
        let file = make_unnamed(storage.as_ref(), &path)?;
        let cache_frames = cache.frames(frame_bytes);
        let mut pager = Self::start(Pool::new(frame_bytes, true)?, storage, path, Some(file), true, cache_frames)?;
        pager.spilling = Spilling::in_temporary_file();
        pager.pool.unpin();
        // Spilled frames have their checksums in this frame.
        drop(pager.write(pager.map_frame(0) + 1)?);
        Ok(pager)
    }

    fn start(
        pool: Pool,
        storage: Arc<dyn Storage>,
        path: PathBuf,
        file: Option<Arc<dyn File>>,
        scratch: bool,
        cache_frames: u64,
    ) -> Result<Pager> {
        let pager = Pager {
            pool,
            storage,
            path,
            file,
            made: false,
            reads: MappedReads::default(),
            read_only: false,
            scratch,
            spilling: Spilling::default(),
            space: OwnLine(Mutex::new(Space::new(1))),
            kept: Kept::default(),
            frame_count: AtomicU32::new(FIRST_FRAMES),
            map_groups: Default::default(),
            file_frames: AtomicU32::new(0),
            checkpoint_frames: AtomicU32::new(0),
            written_end: Default::default(),
            table_id: random_u64(),
            sequence: AtomicU64::new(0),
            frozen_sequence: AtomicU64::new(0),
            log: None,
            through: Through::default(),
            checkpoint_lock: Arc::default(),
            health: Health::default(),
            forks: forks(),
            cache_frames,
            clock_hand: OwnLine::default(),
            counts: OwnLine::default(),
        };
        pager.pool.reserve(u64::from(FIRST_FRAMES))?;
        pager.reserve_on_disk(FIRST_FRAMES, FIRST_FRAMES)?;
        let mut map = pager.write(pager.map_frame(0))?;
        map.whole().fill(0..8 * FIRST_FRAMES as usize, 0xFF);
        drop(map);
        pager.fix(0, FIRST_FRAMES);
        Ok(pager)
    }

    /// Opens the file at `path` and returns its root, or no root if the file is new. Installs a complete journal. A
    /// new file is empty until its first checkpoint.
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        path: &Path,
        opening: OpenOptions,
    ) -> Result<(Pager, Option<Vec<u8>>)> {
        let path = &resolve(storage.as_ref(), path)?;
        let (file, made) = if opening.read_only {
            (file::open_to_read(storage.as_ref(), path)?, false)
        } else {
            file::open_to_write(storage.as_ref(), path, opening.create, opening.permissions_if_new)?
        };
        let file: Arc<dyn File> = file.into();
        match Self::open_locked(storage.clone(), path, file.clone(), opening) {
            Ok((mut pager, root)) => {
                pager.made = made;
                Ok((pager, root))
            }
            Err(e) => {
                if made {
                    remove_if_empty(storage.as_ref(), path, file.as_ref());
                }
                Err(e)
            }
        }
    }

    /// Removes the file if this handle made it and it contains no table yet.
    pub(crate) fn remove_if_unmade(&self) {
        if let (true, Some(file)) = (self.made, &self.file) {
            remove_if_empty(self.storage.as_ref(), &self.path, file.as_ref());
        }
    }

    /// Opens the content of the file. The file is locked unless it is only read.
    fn open_locked(
        storage: Arc<dyn Storage>,
        path: &Path,
        file: Arc<dyn File>,
        opening: OpenOptions,
    ) -> Result<(Pager, Option<Vec<u8>>)> {
        let OpenOptions { create, frame_bytes_if_new, table_id_if_new, cache, read_only, safety, log_bytes, .. } =
            opening;
        refuse_other_names(file.as_ref(), path, read_only)?;
        if read_only {
            checkpoint::wait_installed(storage.as_ref(), path, file.as_ref())?;
        } else {
            checkpoint::install(storage.as_ref(), path, file.as_ref())?;
        }
        // A file is empty if its creator did not complete the first checkpoint. A file that this call created may
        // already contain a table: another process may have got the lock first, or a journal may have been left by a
        // power loss.
        let empty = file.len().map_err(|e| Error::io(path, "ask the length of", e))? == 0;
        if !empty && create == Create::Always {
            let there = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(Error::io(path, "create", there));
        }
        if empty && create != Create::Never {
            let cache_frames = cache.frames(frame_bytes_if_new);
            let pool = Pool::new(frame_bytes_if_new, true)?;
            let start = Self::start(pool, storage.clone(), path.to_owned(), Some(file.clone()), false, cache_frames);
            let mut pager = start?;
            pager.table_id = table_id_if_new.unwrap_or(pager.table_id);
            pager.spilling = Spilling::of_file(true, safety.is_some());
            pager.log = Some(Log::new(storage, path, file, pager.table_id, 0, safety, log_bytes));
            return Ok((pager, None));
        }
        let (header, root) = Self::read_header(path, file.as_ref())?;
        let pool = Pool::new(header.frame_bytes, true)?;
        let cache_frames = cache.frames(header.frame_bytes);
        if u64::from(header.frame_count) > cache_frames {
            pool.outgrow_cache(cache_frames);
        }
        pool.reserve(u64::from(header.frame_count) + 1)?;
        // A reader replays the log of a dead writer, in memory only, and leaves the log of a live one alone.
        let replays = !read_only || !file.is_locked().map_err(|e| Error::io(path, "ask for the lock of", e))?;
        let spilling = if read_only { Spilling::default() } else { Spilling::of_file(false, safety.is_some()) };
        if spilling.on {
            pool.unpin();
        }
        let safety = safety.filter(|_| !read_only);
        let log = replays.then(|| {
            let (storage, file) = (storage.clone(), file.clone());
            let table_bytes = u64::from(header.frame_count) * header.frame_bytes as u64;
            let log = Log::new(storage, path, file, header.table_id, header.sequence, safety, log_bytes);
            log.follow(table_bytes);
            log
        });
        let pager = Pager {
            pool,
            storage,
            path: path.to_owned(),
            file: Some(file),
            made: false,
            reads: MappedReads::default(),
            read_only,
            scratch: false,
            spilling,
            space: OwnLine(Mutex::new(Space::new(0))),
            kept: Kept::default(),
            frame_count: AtomicU32::new(header.frame_count),
            map_groups: header.map_groups.map(AtomicU32::new),
            file_frames: AtomicU32::new(header.frame_count),
            checkpoint_frames: AtomicU32::new(header.frame_count),
            written_end: Default::default(),
            table_id: header.table_id,
            sequence: AtomicU64::new(header.sequence),
            frozen_sequence: AtomicU64::new(header.sequence),
            log,
            through: Through::default(),
            checkpoint_lock: Arc::default(),
            health: Health::default(),
            forks: forks(),
            cache_frames,
            clock_hand: OwnLine::default(),
            counts: OwnLine::default(),
        };
        pager.fixed_frames().for_each(|(first, count)| pager.fix(first, count));
        Ok((pager, Some(root)))
    }

    fn read_header(path: &Path, file: &dyn File) -> Result<(Header, Vec<u8>)> {
        let file_bytes = file.len().map_err(|e| Error::io(path, "ask the length of", e))?;
        let shown = path.display();
        let not_ours = |what: &str| file::not_a_table(path, what);
        if file_bytes == 0 {
            return Err(file::not_yet_made(path));
        }
        if file_bytes < 12 {
            return Err(not_ours(&format!("it has {file_bytes} bytes")));
        }
        let mut bytes = vec![0; HEADER_BYTES.min(file_bytes as usize)];
        file.read_at(&mut bytes, 0).map_err(|e| Error::io(path, "read the header of", e))?;
        if bytes[..8] != MAGIC {
            return Err(not_ours(&format!("it starts with {}", crate::error::quote(&bytes[..8]))));
        }
        let version = u32_at(&bytes, 8);
        if version != FORMAT_VERSION {
            return Err(version_error(&shown, version));
        }
        if bytes.len() < HEADER_BYTES {
            return Err(Error::corrupt_table(format!(
                "{shown}: cut to {file_bytes} bytes, the header alone has {HEADER_BYTES}"
            )));
        }
        let (stored, computed) = (u32_at(&bytes, HEADER_BYTES - 4), header_sum(&bytes));
        if stored != computed {
            return Err(Error::corrupt_table(format!(
                "{shown}: header: checksum mismatch, stored {stored:08x}, computed {computed:08x}"
            )));
        }
        let header = Header::parse(&bytes).map_err(|what| Error::corrupt_table(format!("{shown}: header: {what}")))?;
        let needed = u64::from(header.frame_count) * header.frame_bytes as u64;
        if file_bytes < needed {
            return Err(Error::corrupt_table(format!("{shown}: cut to {file_bytes} bytes of {needed}")));
        }
        let mut rest = vec![0; header.frame_bytes - HEADER_BYTES];
        file.read_at(&mut rest, HEADER_BYTES as u64).map_err(|e| Error::io(path, "read the header of", e))?;
        if rest.iter().any(|&b| b != 0) {
            return Err(Error::corrupt_table(format!("{shown}: header: reserved bytes are not zero")));
        }
        Ok((header, bytes[ROOT_START..ROOT_START + ROOT_BYTES].to_vec()))
    }

    fn header_bytes(&self, root: &[u8], sequence: u64) -> Vec<u8> {
        assert!(root.len() <= ROOT_BYTES);
        let mut bytes = vec![0; self.frame_bytes()];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.frame_bytes() as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&sequence.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.frame_count().to_le_bytes());
        for (i, group) in self.map_groups.iter().enumerate() {
            bytes[32 + 4 * i..36 + 4 * i].copy_from_slice(&group.load(Relaxed).to_le_bytes());
        }
        bytes[TABLE_ID..TABLE_ID + 8].copy_from_slice(&self.table_id.to_le_bytes());
        bytes[ROOT_START..ROOT_START + root.len()].copy_from_slice(root);
        let sum = header_sum(&bytes[..HEADER_BYTES]);
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Latches a frame for reading.
    #[inline]
    pub(crate) fn read(&self, frame: FrameNo) -> Result<ReadGuard<'_>> {
        self.pool.read(frame, self.pool.frame(frame), self)
    }

    /// [`read`](Self::read) of a frame whose place is known.
    #[inline]
    pub(crate) fn read_at<'a>(&'a self, frame: FrameNo, place: FrameRef<'a>) -> Result<ReadGuard<'a>> {
        self.pool.read(frame, place, self)
    }

    /// Latches a frame for changing.
    #[inline]
    pub(crate) fn write(&self, frame: FrameNo) -> Result<WriteGuard<'_>> {
        self.pool.write(frame, self.pool.frame(frame), self)
    }

    /// Latches a frame whose old content is not needed: its bytes are unspecified.
    pub(crate) fn write_fresh(&self, frame: FrameNo) -> Result<WriteGuard<'_>> {
        self.pool.write_fresh(frame, self)
    }

    /// [`write`](Self::write) of a frame whose place is known.
    #[inline(always)]
    pub(crate) fn write_at<'a>(&'a self, frame: FrameNo, place: FrameRef<'a>) -> Result<WriteGuard<'a>> {
        self.pool.write(frame, place, self)
    }

    /// Latches a frame for changing; `None` if another thread holds a latch.
    pub(crate) fn try_write(&self, frame: FrameNo) -> Result<Option<WriteGuard<'_>>> {
        self.pool.try_write(frame, self)
    }

    #[inline]
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    #[inline]
    pub(crate) fn frame_bytes(&self) -> usize {
        self.pool.frame_bytes()
    }

    /// Bytes in a unit of allocation.
    #[inline]
    pub(crate) fn unit_bytes(&self) -> usize {
        self.pool.frame_bytes() / FRAME_UNITS as usize
    }

    /// The number of frames of the table, including free ones.
    #[inline]
    pub(crate) fn frame_count(&self) -> u32 {
        self.frame_count.load(Acquire)
    }

    fn set_frame_count(&self, count: u32) {
        self.frame_count.store(count, Release);
    }

    fn map_groups(&self) -> &[AtomicU32; MAP_GROUP_COUNT] {
        &self.map_groups
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        // The allocator calls no user code. After a panic in our own code its lists may lack a hole, which only loses
        // space until the next open.
        interleave::lock(&self.space)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The owner and permissions of the table's file, if it has one.
    pub(crate) fn access(&self) -> Result<Option<Access>> {
        let access = self.file.as_ref().map_or(Ok(None), |file| file.access());
        access.map_err(|e| Error::io(&self.path, "ask for the permissions of", e))
    }

    /// Gives `file`, at `path`, the owner and permissions of the table's file.
    pub(crate) fn share_access(&self, file: &dyn File, path: &Path) -> Result<()> {
        let Some(access) = self.access()? else { return Ok(()) };
        file.take_access(access).map_err(|e| Error::io(path, "set the owner and permissions of", e))
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some() && !self.scratch
    }

    /// An error about this file's content.
    pub(crate) fn corrupt(&self, what: impl std::fmt::Display) -> Error {
        let path = self.path.display();
        Error::corrupt_table(format!("{path}: {what}"))
    }

    /// Fails if another process has begun to write a checkpoint over the file that was opened here for reading.
    fn refuse_if_stale(&self, file: &dyn File) -> Result<()> {
        self.refuse_if_renamed(file)?;
        // A complete journal exists from before the first write in place until after the last one, that of the header.
        let path = self.path.display();
        if !checkpoint::has_journal(self.storage.as_ref(), &self.path)? {
            let mut header = [0; HEADER_BYTES];
            file.read_at(&mut header, 0).map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => self.corrupt("the header is gone: another program cut the file"),
                _ => Error::io(&self.path, "read the header of", e),
            })?;
            if u64_at(&header, 16) == self.sequence.load(Relaxed) {
                return Ok(());
            }
        }
        Err(Error::new(
            ErrorKind::Stale,
            format!("{path}: another process has written a checkpoint since this handle was opened for reading"),
        )
        .with_hint("Open the table again."))
    }

    /// Fails if a file opened for reading has been renamed: its writer keeps the journal next to the new name, so
    /// changes would go unnoticed here. A file that no longer has a name has no writer.
    fn refuse_if_renamed(&self, file: &dyn File) -> Result<()> {
        let links = || file.link_count().map_err(|e| Error::io(&self.path, "count the links of", e));
        if is_at(file, &self.path)? || links()? == 0 {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::new(ErrorKind::Stale, format!("{path}: was renamed since this handle was opened for reading"))
            .with_hint("Open it by its new name."))
    }

    /// Fails if the table was moved. Called before a log or journal is created, used or removed.
    fn refuse_if_moved(&self) -> Result<()> {
        match self.file.as_ref().filter(|_| !self.scratch) {
            Some(file) => refuse_if_moved(file.as_ref(), &self.path),
            None => Ok(()),
        }
    }

    /// Whether the cache can hold `frames` frames.
    fn has_cache_for(&self, frames: FrameNo) -> bool {
        u64::from(frames) <= self.cache_frames
    }

    /// Reserves disk space for the frames below `needed`, and if possible for those below `wanted`. Returns the number
    /// of frames with space.
    fn reserve_on_disk(&self, needed: FrameNo, wanted: FrameNo) -> Result<FrameNo> {
        let Some(file) = self.file.as_ref().filter(|_| !self.read_only) else { return Ok(wanted) };
        let reserve = |frames: FrameNo| file.reserve(u64::from(frames) * self.frame_bytes() as u64).map(|()| frames);
        reserve(wanted).or_else(|_| reserve(needed)).map_err(|e| Error::io(&self.path, "reserve disk space for", e))
    }

    /// Compares a frame read from the file with its checksum.
    fn check_sum(&self, frame: FrameNo, bytes: &[u8]) -> Result<()> {
        let (stored, computed) = if frame == 0 {
            (u32_at(bytes, HEADER_BYTES - 4), header_sum(&bytes[..HEADER_BYTES]))
        } else if self.is_sum_frame(frame) {
            (u32_at(bytes, SUM_OF_SUMS), sum_of_sums(frame, bytes))
        } else {
            (self.stored_sum(frame)?, checkpoint::frame_sum(frame, bytes))
        };
        // A frame that was allocated but never written has no checksum yet and is a hole in the file.
        let unwritten = stored == 0 && bytes.iter().all(|&b| b == 0);
        if stored == computed || unwritten || planted(Bug::FrameUnchecked) {
            return Ok(());
        }
        Err(self.corrupt(format!("frame {frame}: checksum mismatch, stored {stored:08x}, computed {computed:08x}")))
    }

    /// Clears the checksums of frames `first..end` before the file is cut: frames allocated there later count as never
    /// written.
    fn forget_sums(&self, first: FrameNo, end: FrameNo) -> Result<()> {
        self.file_frames.fetch_min(first, AcqRel);
        let mut frame = first;
        while frame < end {
            let zone = frame / ZONE_FRAMES;
            let stop = end.min((zone + 1) * ZONE_FRAMES);
            let sum_frame = self.map_frame(zone) + 1;
            let mut sums = self.write(sum_frame)?;
            let start = 4 * (frame % ZONE_FRAMES) as usize;
            sums.whole().fill(start..start + 4 * (stop - frame) as usize, 0);
            let sum = sum_of_sums(sum_frame, &sums);
            sums.whole().store(SUM_OF_SUMS, &sum.to_le_bytes());
            frame = stop;
        }
        Ok(())
    }

    fn stored_sum(&self, frame: FrameNo) -> Result<u32> {
        loop {
            let map = self.map_frame(frame / ZONE_FRAMES);
            let sums = self.read(map + 1);
            step();
            // A compaction may have moved the map frames, and their old location may already have been reused.
            if self.map_frame(frame / ZONE_FRAMES) == map || planted(Bug::MovedMapTrusted) {
                return Ok(u32_at(&sums?, 4 * (frame % ZONE_FRAMES) as usize));
            }
        }
    }

    /// Whether this frame is the second of a pair of map frames.
    fn is_sum_frame(&self, frame: FrameNo) -> bool {
        frame == 2
            || self
                .map_groups
                .iter()
                .map(|group| group.load(Acquire))
                .take_while(|&group| group != 0)
                .enumerate()
                .any(|(k, group)| frame > group && frame - group < 2 << k && (frame - group) % 2 == 1)
    }

    /// Whether a checkpoint is due: more than `dirty_bytes_max` of frames are dirty, or those that cannot be spilled
    /// take more than half of the cache.
    #[inline]
    pub(crate) fn wants_checkpoint(&self, dirty_bytes_max: u64) -> bool {
        let most = dirty_bytes_max / self.frame_bytes() as u64;
        let due = self.pool.pinned_count() > self.dirty_frames_max() || self.pool.dirty_count() > most;
        (due || self.wants_checkpoint_for_room()) && self.file.is_some() && !self.read_only
    }

    /// Whether the cache has no room for more dirty frames.
    pub(crate) fn must_checkpoint(&self) -> bool {
        self.pool.pinned_count() > self.dirty_frames_max()
    }

    /// The maximum number of frames that are dirty and cannot be evicted: half of the cache. The other half still
    /// serves reads and the next checkpoint.
    fn dirty_frames_max(&self) -> u64 {
        self.cache_frames / 2
    }

    /// Whether this is a child of the process that opened the file. False for a table in memory, which each process has
    /// its own copy of.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        forked_since(self.forks) && self.file.is_some()
    }

    /// Whether any frame has changed since the last checkpoint; never in a table in memory.
    #[inline]
    pub(crate) fn has_dirty_frames(&self) -> bool {
        self.pool.dirty_count() > 0
    }

    /// Whether the file and its log have all changes: nothing is dirty, and no checkpoint is in flight or failed.
    pub(crate) fn is_clean(&self) -> bool {
        // In this order: a checkpoint sets its number before its frames stop counting as dirty.
        self.pool.dirty_count() == 0
            && self.frozen_sequence.load(Acquire) == self.sequence.load(Acquire)
            && self.checkpoint_frames.load(Acquire) > 0
    }

    /// The write-ahead log of a file that is open for writing.
    #[inline]
    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Lets the current segment of the log grow with the table.
    pub(crate) fn grow_log(&self) {
        if let Some(log) = &self.log {
            log.grow(u64::from(self.frame_count()) * self.frame_bytes() as u64);
        }
    }

    /// The lock held by the thread that writes a checkpoint.
    pub(crate) fn checkpoint_lock(&self) -> &Arc<CheckpointLock> {
        &self.checkpoint_lock
    }

    /// Makes the handle refuse all further writes. Called if the state of the disk is unknown, or memory holds changes
    /// that the log does not.
    pub(crate) fn poison(&self, reason: &str) {
        self.health.poison(reason);
    }

    #[inline]
    pub(crate) fn is_poisoned(&self) -> bool {
        self.health.is_poisoned()
    }

    /// # Errors
    /// [`ErrorKind::Poisoned`] after a failed write or sync.
    pub(crate) fn refuse_if_poisoned(&self) -> Result<()> {
        if !self.is_poisoned() {
            return Ok(());
        }
        let (path, reason) = (self.path.display(), self.health.reason());
        Err(Error::new(
            ErrorKind::Poisoned,
            format!("{path}: an earlier write to the disk failed, so this handle takes no more writes: {reason}"),
        )
        .with_hint("Open the table again to continue from its last durable state."))
    }

    /// # Errors
    /// [`ErrorKind::Forked`] in a child of the process that opened the file.
    #[inline]
    pub(crate) fn refuse_if_forked(&self) -> Result<()> {
        if self.is_forked() { Err(self.forked_error()) } else { Ok(()) }
    }

    #[cold]
    fn forked_error(&self) -> Error {
        let path = self.path.display();
        Error::new(ErrorKind::Forked, format!("{path}: opened before this process was forked from its parent"))
            .with_hint("Open the table in the child, after the fork.")
    }

    /// Bytes of resident frames.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.pool.resident.load(Relaxed) * self.frame_bytes() as u64
    }

    /// Reads every frame of the file and reports those whose checksum does not match.
    pub(crate) fn verify_sums(&self, proceed: Proceed<'_>, mut fault: impl FnMut(FrameNo, String)) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut bytes = vec![0; self.frame_bytes()];
        for frame in 0..self.file_frames.load(Acquire) {
            go_on(proceed)?;
            if self.spilling.on && self.pool.is_dirty(frame) {
                // The checksum in memory may be that of a spilled copy of the frame.
                continue;
            }
            let read = file.read_at(&mut bytes, u64::from(frame) * self.frame_bytes() as u64);
            let read = read.map_err(|e| Error::io(&self.path, &format!("read frame {frame} of"), e));
            if let Err(e) = read.and_then(|()| self.check_sum(frame, &bytes)) {
                fault(frame, e.message().to_owned());
            }
        }
        if self.read_only { self.refuse_if_stale(file.as_ref()) } else { Ok(()) }
    }
}

/// Offset of a checksum frame's own checksum.
const SUM_OF_SUMS: usize = 4 * ZONE_FRAMES as usize;

fn sum_of_sums(frame: FrameNo, bytes: &[u8]) -> u32 {
    let sum = crc32c(&frame.to_le_bytes());
    let sum = crc32c_append(sum, &bytes[..SUM_OF_SUMS]);
    nonzero(crc32c_append(sum, &bytes[SUM_OF_SUMS + 4..]))
}

fn header_sum(bytes: &[u8]) -> u32 {
    nonzero(crc32c(&bytes[..HEADER_BYTES - 4]))
}

fn version_error(shown: &impl std::fmt::Display, version: u32) -> Error {
    Error::new(ErrorKind::Version, format!("{shown}: format version {version}, this library reads {FORMAT_VERSION}"))
        .with_hint("Upgrade splitpoint, or dump the table with the version that wrote it.")
}

/// A random number, from the standard library's hash maps, which take their seeds from the operating system.
pub(crate) fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    #[cfg(test)]
    if let Some(state) = TEST_RANDOM.get() {
        TEST_RANDOM.set(Some(state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407)));
        return state;
    }
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
thread_local! {
    static TEST_RANDOM: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Seeds the random numbers of this thread.
#[cfg(test)]
pub(crate) fn seed_random(seed: u64) {
    TEST_RANDOM.set(Some(seed));
}

/// 0 means "never written".
fn nonzero(sum: u32) -> u32 {
    if sum == 0 { u32::MAX } else { sum }
}

impl Header {
    fn parse(bytes: &[u8]) -> std::result::Result<Header, String> {
        let frame_bytes = u32_at(bytes, 12) as usize;
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&frame_bytes) || !frame_bytes.is_power_of_two() {
            return Err(format!(
                "frames of {frame_bytes} bytes, expected a power of two from {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX}"
            ));
        }
        let frame_count = u32_at(bytes, 24);
        if frame_count < FIRST_FRAMES {
            return Err(format!("{frame_count} frames, expected {FIRST_FRAMES} or more"));
        }
        let mut map_groups = [0; MAP_GROUP_COUNT];
        let mut ended = false;
        for (k, group) in map_groups.iter_mut().enumerate() {
            *group = u32_at(bytes, 32 + 4 * k);
            ended |= *group == 0;
            let end = u64::from(*group) + (2 << k);
            if *group != 0 && (ended || *group < FIRST_FRAMES || end > u64::from(frame_count)) {
                return Err(format!("map group {k} starts at frame {group} of {frame_count}"));
            }
        }
        let mapped = (1u64 << map_groups.iter().take_while(|&&g| g != 0).count()) * u64::from(ZONE_FRAMES);
        if mapped < u64::from(frame_count) {
            return Err(format!("map frames for {mapped} frames of {frame_count}"));
        }
        let reserved = [28..32, TABLE_ID + 8..ROOT_START, ROOT_START + ROOT_BYTES..HEADER_BYTES - 4];
        if reserved.into_iter().any(|range| bytes[range].iter().any(|&b| b != 0)) {
            return Err("reserved bytes are not zero".into());
        }
        let (table_id, sequence) = (u64_at(bytes, TABLE_ID), u64_at(bytes, 16));
        if !(1..=NUMBER_MAX).contains(&sequence) {
            return Err(format!("checkpoint {sequence}, expected 1 to 2^63"));
        }
        Ok(Header { frame_bytes, table_id, sequence, frame_count, map_groups })
    }
}
