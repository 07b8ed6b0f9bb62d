//! The recording disk: a file of a FUSE file system that keeps its bytes in memory and records every write and flush.
//!
//! ```text
//! library -> ext4, XFS, btrfs -> loop device -> FUSE -> here: Image (what is read back), events (what crashes are
//!                                                         made of)
//! ```
//!
//! The file is opened with direct I/O, so the loop driver's writes arrive immediately and in order. The driver turns
//! the block layer's flushes, and writes that force unit access, into `fsync` of the file: these are [`Event::Flush`].
//! Each event writes the number of events so far to a small file, the counter. A process that uses the disk reads it
//! after each call, to learn how many events preceded the return.
//!
//! Not here: the content after a crash (`crash.rs`), mounting (`mount.rs`).

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

/// Bytes that a disk writes atomically.
pub const SECTOR_BYTES: usize = 512;
const BLOCK_BYTES: usize = 4096;
type Block = [u8; BLOCK_BYTES];

/// The bytes of a disk. Cheap to copy: copies share blocks until they are written, and blocks never written take no
/// memory.
#[derive(Clone, Default)]
pub struct Image {
    blocks: HashMap<u64, Arc<Block>>,
    pub bytes: u64,
}

impl Image {
    /// Creates a disk of `bytes` zeros.
    pub fn zeros(bytes: u64) -> Image {
        Image { blocks: HashMap::new(), bytes }
    }

    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        pieces(offset, bytes.len(), |block, within, range| match self.blocks.get(&block) {
            Some(content) => bytes[range.clone()].copy_from_slice(&content[within..within + range.len()]),
            None => bytes[range].fill(0),
        });
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        pieces(offset, bytes.len(), |block, within, range| {
            let bytes = &bytes[range];
            if bytes.iter().all(|b| *b == 0) && !self.blocks.contains_key(&block) {
                return;
            }
            let content = self.blocks.entry(block).or_insert_with(|| Arc::new([0; BLOCK_BYTES]));
            Arc::make_mut(content)[within..within + bytes.len()].copy_from_slice(bytes);
        });
    }

    /// Writes the image to a file, with holes where nothing was written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let file = File::create(path)?;
        file.set_len(self.bytes)?;
        self.blocks
            .iter()
            .try_for_each(|(block, content)| file.write_all_at(content.as_slice(), block * BLOCK_BYTES as u64))
    }

    /// Reads a file that [`save`](Self::save) wrote.
    pub fn load(path: &Path) -> Result<Image> {
        let mut file = File::open(path)?;
        let mut image = Image::zeros(file.seek(SeekFrom::End(0))?);
        file.rewind()?;
        let mut block = vec![0; BLOCK_BYTES];
        for number in 0..image.bytes / BLOCK_BYTES as u64 {
            file.read_exact(&mut block)?;
            image.write(number * BLOCK_BYTES as u64, &block);
        }
        Ok(image)
    }
}

/// Calls `piece` for each block of a byte range, with the block's number, the offset in it, and the range of the bytes.
fn pieces(offset: u64, bytes: usize, mut piece: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < bytes {
        let at = offset + done as u64;
        let within = (at % BLOCK_BYTES as u64) as usize;
        let count = (BLOCK_BYTES - within).min(bytes - done);
        piece(at / BLOCK_BYTES as u64, within, done..done + count);
        done += count;
    }
}

/// An event of the disk.
#[derive(Clone)]
pub enum Event {
    /// A write of bytes, into the disk's cache.
    Write { offset: u64, bytes: Arc<[u8]> },
    /// A flush: everything written before is on the medium.
    Flush,
}

/// The content of a disk at some moment, and the events since.
#[derive(Clone)]
pub struct Recording {
    pub base: Image,
    pub events: Vec<Event>,
}

struct State {
    recording: Recording,
    now: Image,
    counter: File,
}

impl State {
    fn note(&mut self, event: Event) -> Result<()> {
        self.recording.events.push(event);
        self.count()
    }

    fn count(&self) -> Result<()> {
        self.counter.write_all_at(&(self.recording.events.len() as u64).to_le_bytes(), 0)
    }
}

/// A mounted recording disk; unmounted when dropped.
pub struct Disk {
    state: Arc<Mutex<State>>,
    /// The disk as a file, for `mkfs` and `mount -o loop`.
    pub path: PathBuf,
    _session: fuser::BackgroundSession,
}

impl Disk {
    /// Mounts a disk at the empty directory `folder`, with its counter in the file `counter`.
    pub fn mount(folder: &Path, counter: &Path, bytes: u64) -> Result<Disk> {
        let image = Image::zeros(bytes);
        let recording = Recording { base: image.clone(), events: Vec::new() };
        let state = Arc::new(Mutex::new(State { recording, now: image, counter: File::create(counter)? }));
        let _session = fuser::spawn_mount(Fuse(state.clone()), folder, &Config::default())?;
        let disk = Disk { state, path: folder.join(FILE_NAME), _session };
        disk.load(Image::zeros(bytes))?;
        Ok(disk)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Replaces the content of the disk, which must not be in use, and forgets the events.
    pub fn load(&self, image: Image) -> Result<()> {
        let mut state = self.state();
        state.now = image.clone();
        state.recording = Recording { base: image, events: Vec::new() };
        state.count()
    }

    /// Returns the events since the last [`load`](Self::load).
    pub fn recording(&self) -> Recording {
        self.state().recording.clone()
    }

    /// Returns the current content, as if every write had reached the medium.
    pub fn image(&self) -> Image {
        self.state().now.clone()
    }
}

/// Reads the number of events from a disk's counter.
pub fn read_counter(counter: &File) -> Result<u64> {
    let mut bytes = [0; 8];
    counter.read_exact_at(&mut bytes, 0)?;
    Ok(u64::from_le_bytes(bytes))
}

const FILE_NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
const FOREVER: Duration = Duration::from_secs(1 << 30);

struct Fuse(Arc<Mutex<State>>);

impl Fuse {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn attributes(&self, node: INodeNo) -> FileAttr {
        let (size, kind, perm) = match node {
            FILE => (self.state().recording.base.bytes, FileType::RegularFile, 0o600),
            _ => (0, FileType::Directory, 0o700),
        };
        FileAttr {
            ino: node,
            size,
            blocks: size / SECTOR_BYTES as u64,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK_BYTES as u32,
            flags: 0,
        }
    }
}

impl Filesystem for Fuse {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> Result<()> {
        // The maximum that the kernel returns; the error of a failed call has the size it needs.
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == FILE_NAME {
            reply.entry(&FOREVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(node));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let state = self.state();
        let mut bytes = vec![0; u64::from(size).min(state.now.bytes.saturating_sub(offset)) as usize];
        state.now.read(offset, &mut bytes);
        reply.data(&bytes);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        if offset + data.len() as u64 > state.now.bytes {
            return reply.error(Errno::ENOSPC);
        }
        state.now.write(offset, data);
        match state.note(Event::Write { offset, bytes: data.into() }) {
            Ok(()) => reply.written(data.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Called when a descriptor is closed; it does not flush the medium.
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.state().note(Event::Flush) {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_returns_bytes_written_across_blocks_and_zeros_elsewhere() {
        let mut image = Image::zeros(1 << 20);
        image.write(4000, &[7; 5000]);
        let before = image.clone();
        image.write(4096, &[8; 512]);
        let mut bytes = vec![1; 12288];
        image.read(0, &mut bytes);
        let expected = |at: usize| match at {
            4096..4608 => 8,
            4000..9000 => 7,
            _ => 0,
        };
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
        // The earlier copy is unchanged.
        let mut bytes = [0; 512];
        before.read(4096, &mut bytes);
        assert_eq!(bytes, [7; 512]);
    }
}
