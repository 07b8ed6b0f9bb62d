//! Opening and creating: the parts of a pager are made here, in order.
//!
//! ```text
//! resolve links -> open the file, take its lock -> headers -> blocks, pool, frames, log
//! ```
//!
//! Not here: the root, and the replay of the log (`table/open.rs`).

use super::Pager;
use super::allocate::Kept;
use super::blocks::Blocks;
use super::file::create::{Create, not_yet_made, open_to_read, open_to_write};
use super::file::headers::{CheckpointHeader, FIRST_CHECKPOINT, Headers};
use super::file::held::Held;
use super::file::map_frames::FIRST_FRAMES;
use super::file::names::{refuse_other_names, resolve};
use super::file::{TableFile, random::random_u64};
use super::load::Frames;
use super::load::spill::Spill;
use super::pool::Pool;
use super::pool::words::Bytes;
use super::values::Stored;
use super::wal::{Log, Safety};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Storage, forks, remove_if_empty};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// The memory for the frames of a table with a file.
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
    /// Whether the changes in the log count, too. An open for writing must take them.
    pub replays: bool,
    /// The failures that a logged write survives; nothing is logged if `None`.
    pub safety: Option<Safety>,
    /// The bytes of a segment of the log; `None`: the length follows the size of the table.
    pub log_bytes: Option<u64>,
}

impl Pager {
    /// A pager for frames in memory only.
    pub(crate) fn in_memory(frame_bytes: usize, storage: Arc<dyn Storage>) -> Result<Pager> {
        let file = TableFile::new(storage, PathBuf::from("(memory)"), None, frame_bytes);
        Self::start(Frames::new(Pool::new(frame_bytes, false)?, file, u64::MAX, 1), None)
    }

    /// A pager for frames in memory up to `cache`; the rest go to a temporary file without a name.
    pub(crate) fn create_scratch(storage: Arc<dyn Storage>, frame_bytes: usize, cache: CacheLimit) -> Result<Pager> {
        let spill = Spill::new(storage.as_ref())?;
        let file = TableFile::new(storage, PathBuf::from("(memory)"), None, frame_bytes);
        let pool = Pool::new(frame_bytes, true)?;
        let mut frames = Frames::new(pool, file, cache.frames(frame_bytes), 1);
        frames.spill = Some(spill);
        frames.pool.unpin();
        Self::start(frames, None)
    }

    /// A new table.
    fn start(frames: Frames, log: Option<Log>) -> Result<Pager> {
        frames.pool.reserve(u64::from(FIRST_FRAMES))?;
        let mut map = frames.write_fresh(frames.file.maps.of_zone(0))?;
        map.whole().fill(0..frames.frame_bytes(), 0);
        map.whole().fill(0..8 * FIRST_FRAMES as usize, 0xFF);
        drop(map);
        Ok(Self::of(frames, log))
    }

    fn of(frames: Frames, log: Option<Log>) -> Pager {
        let pager = Pager {
            frames,
            kept: Kept::default(),
            stored: Stored::default(),
            log,
            closing: AtomicBool::new(false),
            checkpoint_lock: Arc::default(),
            made: false,
            forks: forks(),
        };
        let allocator = pager.allocator();
        pager.fixed_frames().for_each(|(first, count)| allocator.fix(first, count));
        pager
    }

    /// Opens the file at `path` and returns its root, or no root if the file is new: it has no table before
    /// [`begin_table`](Self::begin_table).
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        path: &Path,
        opening: OpenOptions,
    ) -> Result<(Pager, Option<Vec<u8>>)> {
        let path = &resolve(storage.as_ref(), path)?;
        let (file, made) = if opening.read_only {
            (open_to_read(storage.as_ref(), path)?, false)
        } else {
            open_to_write(storage.as_ref(), path, opening.create, opening.permissions_if_new)?
        };
        let file: Arc<dyn File> = file.into();
        match Self::open_locked(storage.clone(), path, file.clone(), opening) {
            Ok((pager, root)) => Ok((Pager { made, ..pager }, root)),
            Err(e) => {
                if made {
                    remove_if_empty(storage.as_ref(), path, file.as_ref());
                }
                Err(e)
            }
        }
    }

    /// Makes a new, empty table with this root durable.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`] and others.
    pub(crate) fn begin_table(&self, root: &[u8]) -> Result<()> {
        let (file, blocks) = (&self.frames.file, self.frames.blocks.as_ref());
        blocks.map_or(Ok(()), |blocks| blocks.begin_table(file, self.made, root))?;
        file.sequence.store(FIRST_CHECKPOINT, Release);
        file.frozen_sequence.store(FIRST_CHECKPOINT, Release);
        file.file_frames.store(file.frame_count(), Release);
        Ok(())
    }

    /// The table could not be made: removes the file, which is locked, if this handle made it. Another one is empty
    /// again.
    pub(crate) fn undo_make(&self) {
        let Some(file) = &self.frames.file.handle else { return };
        if !matches!(file.is_at(self.path()), Ok(true)) {
            return;
        }
        let _ = if self.made { self.frames.file.storage.remove(self.path()) } else { file.set_len(0) };
    }

    /// Opens the content of the file. The file is locked unless it is only read.
    fn open_locked(
        storage: Arc<dyn Storage>,
        path: &Path,
        file: Arc<dyn File>,
        opening: OpenOptions,
    ) -> Result<(Pager, Option<Vec<u8>>)> {
        let OpenOptions { create, frame_bytes_if_new, table_id_if_new, cache, read_only, .. } = opening;
        let OpenOptions { safety, log_bytes, .. } = opening;
        refuse_other_names(file.as_ref(), path, read_only)?;
        // A file that this call created may already have a table: another process may have got the lock first.
        if let Headers::Last(header, is_durable) = Headers::read(path, file.as_ref())? {
            if create == Create::Always {
                return Err(Error::io(path, "create", std::io::ErrorKind::AlreadyExists.into()));
            }
            return Self::open_table(storage, path, file, opening, *header, is_durable);
        }
        if read_only || create == Create::Never {
            return Err(not_yet_made(path));
        }
        let cache_frames = cache.frames(frame_bytes_if_new);
        let pool = Pool::new(frame_bytes_if_new, true)?;
        pool.unpin();
        let table_id = table_id_if_new.unwrap_or_else(random_u64);
        let log = Log::new(storage.clone(), path, file.clone(), table_id, FIRST_CHECKPOINT, safety, log_bytes);
        log.refuse_long_name()?;
        let mut file = TableFile::new(storage, path.to_owned(), Some(file), frame_bytes_if_new);
        file.table_id = table_id;
        let mut frames = Frames::new(pool, file, cache_frames, 1);
        frames.blocks = Some(Blocks::new(frame_bytes_if_new, cache_frames));
        Ok((Self::start(frames, Some(log))?, None))
    }

    /// Opens the table in a file with this header.
    fn open_table(
        storage: Arc<dyn Storage>,
        path: &Path,
        file: Arc<dyn File>,
        opening: OpenOptions,
        header: CheckpointHeader,
        is_durable: bool,
    ) -> Result<(Pager, Option<Vec<u8>>)> {
        let OpenOptions { cache, read_only, replays, safety, log_bytes, .. } = opening;
        let (held, header) = if read_only {
            let (held, header) = Held::begin(path, file.as_ref())?;
            (Some(held), header)
        } else {
            (None, header)
        };
        let (table, root) = (header.table.clone(), header.root.clone());
        let pool = Pool::new(table.frame_bytes, true)?;
        let cache_frames = cache.frames(table.frame_bytes);
        if u64::from(table.frame_count) > cache_frames {
            pool.outgrow_cache(cache_frames);
        }
        pool.reserve(u64::from(table.frame_count) + 1)?;
        pool.unpin();
        if read_only && replays {
            refuse_unfollowable(path, file.as_ref(), held.as_ref().is_some_and(|held| held.is_kept))?;
        }
        let safety = safety.filter(|_| !read_only);
        let log = replays.then(|| {
            let (storage, file) = (storage.clone(), file.clone());
            let table_bytes = u64::from(table.frame_count) * table.frame_bytes as u64;
            let log = Log::new(storage, path, file, table.table_id, table.sequence, safety, log_bytes);
            log.follow(table_bytes);
            log
        });
        let file = TableFile::with_header(storage, path.to_owned(), file, held, &header);
        let blocks = Blocks::open(&file, header, is_durable, cache_frames)?;
        let mut frames = Frames::new(pool, file, cache_frames, 0);
        frames.blocks = Some(blocks);
        frames.spill = read_only.then(Spill::default);
        frames.frames_before = table.frame_count.into();
        Ok((Self::of(frames, log), Some(root)))
    }
}

/// Fails if a writer may be at work whose log this handle could not follow.
fn refuse_unfollowable(path: &Path, file: &dyn File, is_kept: bool) -> Result<()> {
    let fail = |e| Error::io(path, "ask for the lock of", e);
    let why = if !file.is_locked().map_err(fail)? {
        return Ok(());
    } else if file.is_shared_with_machines().map_err(fail)? {
        "the file is on a file system that other machines or programs serve"
    } else if !is_kept {
        "this system has no locks of bytes"
    } else {
        return Ok(());
    };
    let shown = path.display();
    Err(Error::new(
        ErrorKind::Locked,
        format!("{shown}: another process has it open for writing, and its last writes cannot be read: {why}"),
    )
    .with_hint("Ask for the last checkpoint alone, without the writes since, or read it where it is written."))
}
