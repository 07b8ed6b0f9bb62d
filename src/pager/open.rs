//! Opening and creating: the parts of a pager are made here, in order.
//!
//! ```text
//! resolve links -> open the file, take its lock -> install a complete journal -> header -> pool, frames, log
//! ```
//!
//! Not here: the root, and the replay of the log (`table/open.rs`).

use super::Pager;
use super::allocate::Kept;
use super::blocks::Blocks;
use super::checkpoint::hold::hold_last_checkpoint;
use super::checkpoint::journal::install;
use super::checkpoint::save_undo::UndoFiles;
use super::file::block_header::{BlockHeader, Headers};
use super::file::create::{Create, not_yet_made, open_to_read, open_to_write};
use super::file::header::{FIRST_FRAMES, Header};
use super::file::held::Held;
use super::file::names::{refuse_other_names, resolve};
use super::file::{TableFile, random::random_u64};
use super::load::Frames;
use super::load::spill::Spilling;
use super::pool::Pool;
use super::pool::words::Bytes;
use super::values::through::Through;
use super::wal::{Log, Safety};
use crate::error::{Error, ErrorKind, Result};
use crate::io::atomic::make_unnamed;
use crate::io::{File, Storage, forks, remove_if_empty};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// Whether a new file is one of blocks.
    pub blocks_if_new: bool,
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
        Self::start(Frames::new(Pool::new(frame_bytes, false)?, file, Spilling::default(), u64::MAX, 1), None)
    }

    /// A pager for frames in memory up to `cache`; the rest go to a temporary file without a name.
    pub(crate) fn create_scratch(storage: Arc<dyn Storage>, frame_bytes: usize, cache: CacheLimit) -> Result<Pager> {
        let path = std::env::temp_dir().join("splitpoint");
        let handle = make_unnamed(storage.as_ref(), &path)?;
        let mut file = TableFile::new(storage, path, Some(handle), frame_bytes);
        file.scratch = true;
        let cache_frames = cache.frames(frame_bytes);
        let pool = Pool::new(frame_bytes, true)?;
        let pager = Self::start(Frames::new(pool, file, Spilling::in_temporary_file(), cache_frames, 1), None)?;
        pager.frames.pool.unpin();
        // Spilled frames have their checksums in this frame.
        drop(pager.write(pager.frames.file.maps.of_zone(0) + 1)?);
        Ok(pager)
    }

    /// A new table.
    fn start(frames: Frames, log: Option<Log>) -> Result<Pager> {
        frames.pool.reserve(u64::from(FIRST_FRAMES))?;
        frames.file.reserve_on_disk(FIRST_FRAMES, FIRST_FRAMES)?;
        let mut map = frames.write(frames.file.maps.of_zone(0))?;
        map.whole().fill(0..8 * FIRST_FRAMES as usize, 0xFF);
        drop(map);
        Ok(Self::of(frames, log))
    }

    fn of(frames: Frames, log: Option<Log>) -> Pager {
        // With Safety::Disk a write would wait for the sync of two files.
        let logs = log.as_ref().is_some_and(|log| log.safety() == Some(Safety::Process));
        let in_place = !frames.file.scratch && frames.blocks.is_none();
        let through = Through::new(logs && !frames.file.read_only && in_place);
        let pager = Pager {
            frames,
            kept: Kept::default(),
            through,
            log,
            checkpoint_lock: Arc::default(),
            undo: UndoFiles::default(),
            made: false,
            forks: forks(),
        };
        let allocator = pager.allocator();
        pager.fixed_frames().for_each(|(first, count)| allocator.fix(first, count));
        pager
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

    /// Removes the file if this handle made it and it contains no table yet.
    pub(crate) fn remove_if_unmade(&self) {
        if let (true, Some(file)) = (self.made, &self.frames.file.handle) {
            remove_if_empty(self.frames.file.storage.as_ref(), self.path(), file.as_ref());
        }
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
        let headers = Headers::read(path, file.as_ref())?;
        if let Headers::Last(header, is_durable) = headers {
            if create == Create::Always {
                return Err(Error::io(path, "create", std::io::ErrorKind::AlreadyExists.into()));
            }
            return Self::open_blocks(storage, path, file, opening, *header, is_durable);
        }
        if matches!(headers, Headers::Unmade) {
            if read_only || create == Create::Never {
                return Err(not_yet_made(path));
            }
            if !opening.blocks_if_new {
                file.set_len(0).map_err(|e| Error::io(path, "set the length of", e))?;
            }
        }
        if !read_only {
            install(storage.as_ref(), path, file.as_ref())?;
        }
        // A file is empty if its creator did not complete the first checkpoint. A file that this call created may
        // already contain a table: another process may have got the lock first, or a journal may have been left by a
        // power loss.
        let is_unmade = matches!(headers, Headers::Unmade); // what it has is of no use
        let empty = is_unmade || file.len().map_err(|e| Error::io(path, "ask the length of", e))? == 0;
        if !empty && create == Create::Always {
            let there = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(Error::io(path, "create", there));
        }
        if empty && create != Create::Never {
            let cache_frames = cache.frames(frame_bytes_if_new);
            let pool = Pool::new(frame_bytes_if_new, true)?;
            let table_id = table_id_if_new.unwrap_or_else(random_u64);
            let log = Log::new(storage.clone(), path, file.clone(), table_id, 0, safety, log_bytes);
            let mut file = TableFile::new(storage, path.to_owned(), Some(file), frame_bytes_if_new);
            file.table_id = table_id;
            file.has_blocks = opening.blocks_if_new;
            let spilling = Spilling::of_file(!file.has_blocks, safety.is_some());
            let mut frames = Frames::new(pool, file, spilling, cache_frames, 1);
            if opening.blocks_if_new {
                frames.pool.unpin();
                frames.blocks = Some(Blocks::new(frame_bytes_if_new, cache_frames));
            }
            return Ok((Self::start(frames, Some(log))?, None));
        }
        let (held, header, root) = if read_only {
            hold_last_checkpoint(storage.as_ref(), path, file.as_ref())?
        } else {
            let (header, root) = Header::read(path, file.as_ref())?;
            (None, header, root)
        };
        Self::open_frames(storage, path, file, opening, held, &header, None).map(|pager| (pager, Some(root)))
    }

    /// Opens a file of blocks with this header.
    fn open_blocks(
        storage: Arc<dyn Storage>,
        path: &Path,
        file: Arc<dyn File>,
        opening: OpenOptions,
        header: BlockHeader,
        is_durable: bool,
    ) -> Result<(Pager, Option<Vec<u8>>)> {
        let (held, header) = if opening.read_only {
            let (held, header) = Held::begin_with_blocks(path, file.as_ref())?;
            (Some(held), header)
        } else {
            (None, header)
        };
        let (table, root) = (header.table.clone(), header.root.clone());
        Self::open_frames(storage, path, file, opening, held, &table, Some((header, is_durable)))
            .map(|pager| (pager, Some(root)))
    }

    fn open_frames(
        storage: Arc<dyn Storage>,
        path: &Path,
        file: Arc<dyn File>,
        opening: OpenOptions,
        held: Option<Held>,
        header: &Header,
        blocks: Option<(BlockHeader, bool)>,
    ) -> Result<Pager> {
        let OpenOptions { cache, read_only, replays, safety, log_bytes, .. } = opening;
        let pool = Pool::new(header.frame_bytes, true)?;
        let cache_frames = cache.frames(header.frame_bytes);
        if u64::from(header.frame_count) > cache_frames {
            pool.outgrow_cache(cache_frames);
        }
        pool.reserve(u64::from(header.frame_count) + 1)?;
        if read_only && replays {
            refuse_unfollowable(path, file.as_ref(), held.as_ref().is_some_and(Held::is_kept))?;
        }
        let spilling = if read_only { Spilling::of_reader() } else { Spilling::of_file(false, safety.is_some()) };
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
        let mut file = TableFile::with_header(storage, path.to_owned(), file, read_only, held, header);
        let blocks = match blocks {
            Some((header, is_durable)) => {
                file.has_blocks = true;
                *file.block_bytes_needed.get_mut() = u64::from(header.length) * file.frame_bytes as u64;
                Some(Blocks::open(&file, header, is_durable, cache_frames)?)
            }
            None => None,
        };
        let mut frames = Frames::new(pool, file, spilling, cache_frames, 0);
        frames.blocks = blocks;
        frames.frames_before = header.frame_count.into();
        Ok(Self::of(frames, log))
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
