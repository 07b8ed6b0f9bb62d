//! Keys from the local machine: paths and inode numbers of a directory tree, block numbers of its files, process
//! numbers.
//!
//! A walk visits names in sorted order, so the same tree always has the same keys in the same order. An entry that
//! cannot be read (another user's directory, a file deleted during the walk) is reported as unreadable, not as an
//! error.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a block; extents are counted in blocks.
pub const BLOCK_BYTES: u64 = 4096;

/// An entry of a directory tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Starts with the path that the walk was given.
    pub path: PathBuf,
    /// The inode number.
    pub inode: u64,
    /// The device that holds it.
    pub device: u64,
    /// The length of a file.
    pub bytes: u64,
    /// The type of the entry.
    pub kind: EntryKind,
}

/// The type of an [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else: a link, a device, a pipe.
    Other,
}

/// Iterates over every entry of the tree at `root`, including `root`; yields `None` for an entry that cannot be read.
/// Does not follow links or enter other file systems.
///
/// # Errors
/// `root` cannot be read.
pub fn walk(root: &Path) -> io::Result<impl Iterator<Item = Option<Entry>>> {
    std::fs::symlink_metadata(root).map_err(|e| named(root, &e))?;
    let entries = walkdir::WalkDir::new(root).same_file_system(true).sort_by_file_name().into_iter();
    Ok(entries.map(|entry| {
        let entry = entry.ok()?;
        let metadata = entry.metadata().ok()?;
        Some(Entry::of(entry.into_path(), &metadata))
    }))
}

impl Entry {
    fn of(path: PathBuf, metadata: &Metadata) -> Self {
        let kind = match metadata.file_type() {
            kind if kind.is_file() => EntryKind::File,
            kind if kind.is_dir() => EntryKind::Directory,
            _ => EntryKind::Other,
        };
        Entry { path, inode: metadata.ino(), device: metadata.dev(), bytes: metadata.len(), kind }
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    // The file system does not implement the ioctl.
    let kind = match error.raw_os_error() {
        Some(libc::ENOTTY | libc::EOPNOTSUPP) => io::ErrorKind::Unsupported,
        _ => error.kind(),
    };
    io::Error::new(kind, format!("{}: {error}", path.display()))
}

/// Returns the numbers of all running processes, ascending.
///
/// # Errors
/// `/proc` cannot be read.
pub fn processes() -> io::Result<Vec<u32>> {
    let proc = Path::new("/proc");
    let entries = std::fs::read_dir(proc).map_err(|e| named(proc, &e))?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the device blocks of a file, as ranges of block numbers in file order. Holes have no blocks; neither does
/// data that the file system stores in the inode or has not allocated yet.
///
/// # Errors
/// The file cannot be read, or its file system does not report block numbers (`tmpfs`, `overlay`, network file systems,
/// every system but Linux).
pub fn blocks(path: &Path) -> io::Result<Vec<Range<u64>>> {
    let file = File::open(path).map_err(|e| named(path, &e))?;
    let mut blocks = Vec::new();
    let mut from = 0;
    loop {
        let (extents, next) = fiemap::extents(file.as_raw_fd(), from).map_err(|e| named(path, &e))?;
        blocks.extend(extents);
        match next {
            Some(next) if next > from => from = next,
            _ => return Ok(blocks),
        }
    }
}

/// The ioctl `FS_IOC_FIEMAP` (Linux, Documentation/filesystems/fiemap.rst).
#[cfg(target_os = "linux")]
mod fiemap {
    use super::BLOCK_BYTES;
    use std::io;
    use std::ops::Range;
    use std::os::fd::RawFd;

    const EXTENTS: usize = 128;
    const FS_IOC_FIEMAP: u64 = 0xC020_660B;
    const LAST: u32 = 0x1;
    /// Location unknown, not yet allocated, encoded, not aligned, or inside the metadata.
    const NO_BLOCKS: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400;

    #[repr(C)]
    struct Request {
        start: u64,
        length: u64,
        flags: u32,
        mapped: u32,
        room: u32,
        reserved: u32,
        extents: [Extent; EXTENTS],
    }

    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Extent {
        logical: u64,
        physical: u64,
        length: u64,
        reserved: [u64; 2],
        flags: u32,
        reserved_too: [u32; 3],
    }

    type Extents = (Vec<Range<u64>>, Option<u64>);

    /// Returns some extents from byte `from` on, and the byte at which to continue if there are more.
    pub fn extents(file: RawFd, from: u64) -> io::Result<Extents> {
        let mut request = Request {
            start: from,
            length: u64::MAX - from,
            flags: 0,
            mapped: 0,
            room: EXTENTS as u32,
            reserved: 0,
            extents: [Extent::default(); EXTENTS],
        };
        #[expect(unsafe_code, reason = "only an ioctl reports extents")]
        // SAFETY: the kernel reads the 32 bytes before `extents` and writes at most `room` entries; `extents` has
        // `room` entries.
        let result = unsafe { libc::ioctl(file, FS_IOC_FIEMAP as _, &raw mut request) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let filled = &request.extents[..EXTENTS.min(request.mapped as usize)];
        let next = filled.last().filter(|last| last.flags & LAST == 0);
        let known = filled.iter().filter(|extent| extent.flags & NO_BLOCKS == 0);
        let ranges = known.map(|extent| {
            let first = extent.physical / BLOCK_BYTES;
            first..first.saturating_add(extent.length.div_ceil(BLOCK_BYTES))
        });
        Ok((ranges.collect(), next.map(|last| last.logical.saturating_add(last.length))))
    }
}

#[cfg(not(target_os = "linux"))]
mod fiemap {
    use std::io;
    use std::ops::Range;
    use std::os::fd::RawFd;

    pub fn extents(_: RawFd, _: u64) -> io::Result<(Vec<Range<u64>>, Option<u64>)> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux reports block numbers"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_names_in_sorted_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b", "a", "c"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let seen: Vec<_> = walk(folder.path()).unwrap().map(|entry| entry.expect("readable")).collect();
        assert_eq!(seen[0].kind, EntryKind::Directory);
        let names: Vec<_> = seen[1..].iter().map(|entry| entry.path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn an_error_names_the_missing_path() {
        let error = walk(Path::new("/nowhere/at all")).err().expect("an error");
        assert!(error.to_string().contains("/nowhere/at all"), "{error}");
    }

    #[test]
    fn blocks_are_those_of_the_file_or_unsupported() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, &vec![7; 5 * BLOCK_BYTES as usize]).unwrap();
        file.as_file().sync_all().unwrap();
        match blocks(file.path()) {
            Ok(ranges) => assert_eq!(ranges.iter().map(|range| range.end - range.start).sum::<u64>(), 5, "{ranges:?}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}"),
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn running_processes_include_this_one() {
        assert!(processes().unwrap().contains(&std::process::id()));
    }
}
