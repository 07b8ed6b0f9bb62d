//! A synthetic development load over a real tree: concurrent users who copy, compile, edit, search and spell.
//!
//! Paths, inode numbers and lengths come from the tree; block numbers too, if the file system reports them. Otherwise
//! blocks are allocated as ext2 would. All disks have blocks of [`BLOCK_BYTES`], as in 1999: a block of 4 KiB that a
//! file system reports is four of them. As in the paper's benchmark, each script works on copies of some files in its
//! own directories, with inodes and blocks of a second, simulated disk. At the end all copies are removed.
//!
//! The same tree, seed and number of scripts produce the same trace. At most [`FILE_PAGES_MAX`] pages of a file and
//! [`ENTRIES_MAX`] entries of a tree are used.
//!
//! Source: Lever 2000, section 2: SPEC SDM, whose scripts are not public; the contents of ours are our choice.

use super::disk::{Disk, PAGE_BYTES};
use super::trace::{EVENTS_MAX, Event, NAME_LEN_MAX, Trace};
use super::{Proceed, Stopped};
use crate::machine::{self, Entry, EntryKind};
use crate::random::Random;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The entries of a tree that are used, in order of names.
pub const ENTRIES_MAX: usize = 50_000;
/// The pages of a file that are used.
pub const FILE_PAGES_MAX: u32 = 16;
/// The maximum number of concurrent scripts.
pub const SCRIPTS_MAX: usize = 512;

/// The block size of all disks, as in 1999.
pub const BLOCK_BYTES: u32 = 1024;
/// Device numbers of the tree and of the users' directories.
const TREE_DEVICE: u32 = 0x0801;
const HOME_DEVICE: u32 = 0x0811;
/// Entries between two calls of `proceed`.
const PROCEED_ENTRIES: usize = 256;
/// After this many files without block numbers, the load assumes that the file system reports none.
const REFUSALS_MAX: usize = 16;
/// The directories of a script, and the files in each.
const HOME_DIRECTORIES: usize = 4;
const HOME_FILES: usize = 24;
const ROUNDS: usize = 4;
/// The most consecutive events of one script.
const SLICE: usize = 64;

/// The entries of a tree that a load uses.
#[derive(Clone, Debug)]
pub struct Tree {
    directories: Vec<TreeDirectory>,
    files: Vec<TreeFile>,
    /// The number of unreadable entries.
    pub unread: usize,
    /// Whether the tree has more than [`ENTRIES_MAX`] entries.
    pub truncated: bool,
    /// The number of files whose blocks the file system reported.
    pub files_with_blocks: usize,
}

#[derive(Clone, Debug)]
struct TreeDirectory {
    parent: Option<usize>,
    name: Vec<u8>,
    inode: u32,
}

#[derive(Clone, Debug)]
struct TreeFile {
    directory: usize,
    name: Vec<u8>,
    inode: u32,
    pages: u32,
    /// Empty if the file system does not report them.
    extents: Vec<Range<u64>>,
}

/// Why a tree cannot be used.
#[derive(Debug)]
pub enum TreeError {
    /// It cannot be read.
    Io(io::Error),
    /// It has no files.
    Empty,
    /// Cancelled by the caller.
    Stopped,
}

impl Tree {
    /// Walks the tree at `root`, without reading files.
    ///
    /// # Errors
    /// [`TreeError`]: `root` cannot be read or has no files, or `proceed` returned `Break`.
    pub fn read(root: &Path, proceed: Proceed<'_>) -> Result<Self, TreeError> {
        let mut tree =
            Self { directories: Vec::new(), files: Vec::new(), unread: 0, truncated: false, files_with_blocks: 0 };
        let mut known: HashMap<PathBuf, usize> = HashMap::new();
        let mut refused = 0;
        for (index, entry) in machine::walk(root).map_err(TreeError::Io)?.enumerate() {
            if index % PROCEED_ENTRIES == 0 && proceed().is_break() {
                return Err(TreeError::Stopped);
            }
            if index >= ENTRIES_MAX {
                tree.truncated = true;
                break;
            }
            let Some(entry) = entry else {
                tree.unread += 1;
                continue;
            };
            tree.add(entry, &mut known, &mut refused);
        }
        if tree.files.is_empty() { Err(TreeError::Empty) } else { Ok(tree) }
    }

    fn add(&mut self, entry: Entry, known: &mut HashMap<PathBuf, usize>, refused: &mut usize) {
        let parent = entry.path.parent().and_then(|parent| known.get(parent).copied());
        let name = entry.path.file_name().unwrap_or_default().as_bytes().to_vec();
        let inode = narrow(entry.inode);
        match (entry.kind, parent) {
            (EntryKind::Directory, parent) => {
                known.insert(entry.path, self.directories.len());
                self.directories.push(TreeDirectory { parent, name, inode });
            }
            (EntryKind::File, Some(directory)) => {
                let pages = entry.bytes.div_ceil(PAGE_BYTES.into()).min(FILE_PAGES_MAX.into()) as u32;
                let wants_blocks = pages > 0 && (self.files_with_blocks > 0 || *refused < REFUSALS_MAX);
                let extents = wants_blocks.then(|| machine::blocks(&entry.path).ok()).flatten().unwrap_or_default();
                if !extents.is_empty() {
                    self.files_with_blocks += 1;
                } else if wants_blocks {
                    *refused += 1;
                }
                self.files.push(TreeFile { directory, name, inode, pages, extents });
            }
            _ => {}
        }
    }

    /// Returns the number of regular files.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Generates the load of `scripts` concurrent users, at most [`SCRIPTS_MAX`].
    ///
    /// # Errors
    /// [`Stopped`] if `proceed` returned `Break`.
    pub fn load(&self, scripts: usize, seed: u64, proceed: Proceed<'_>) -> Result<Trace, Stopped> {
        let mut world = World::new(self);
        let scripts = scripts.clamp(1, SCRIPTS_MAX);
        let mut scripts_events = Vec::with_capacity(scripts);
        let mut cleanup = Vec::new();
        for number in 0..scripts {
            if proceed().is_break() {
                return Err(Stopped);
            }
            let mut script = Script::new(&mut world, number, seed);
            script.run();
            scripts_events.push(script.events);
            cleanup.extend(script.cleanup);
        }
        let mut random = Random::new(seed ^ scripts as u64);
        let mut trace = world.trace;
        trace.events = interleaved(scripts_events, &mut random);
        trace.events.truncate(EVENTS_MAX - 1);
        trace.events.push(Event::Mark);
        cleanup.truncate(EVENTS_MAX - trace.events.len());
        trace.events.extend(cleanup);
        Ok(trace)
    }
}

/// Folds an inode number to 32 bits, its size in the kernel of 1999.
fn narrow(inode: u64) -> u32 {
    ((inode ^ (inode >> 32)) as u32).max(1)
}

/// Interleaves scripts: a random slice of each in turn.
fn interleaved(scripts: Vec<Vec<Event>>, random: &mut Random) -> Vec<Event> {
    let mut events = Vec::with_capacity(scripts.iter().map(Vec::len).sum());
    let mut rest: Vec<&[Event]> = scripts.iter().map(Vec::as_slice).collect();
    while !rest.is_empty() {
        for script in &mut rest {
            let (slice, left) = script.split_at(script.len().min(1 + index_below(random, SLICE)));
            events.extend_from_slice(slice);
            *script = left;
        }
        rest.retain(|script| !script.is_empty());
    }
    events
}

/// Returns a uniform index below `limit`, which must not be 0.
fn index_below(random: &mut Random, limit: usize) -> usize {
    random.below(limit as u64) as usize
}

/// Returns an index below `limit`, which must not be 0. Small ones are more frequent, like headers that every file
/// includes.
fn skewed(random: &mut Random, limit: usize) -> usize {
    let (a, b) = (index_below(random, limit), index_below(random, limit));
    a * b / limit
}

struct Directory {
    device: u32,
    inode: u32,
    parent: Option<usize>,
    name: u32,
    block: u32,
}

#[derive(Clone, Debug)]
struct File {
    directory: usize,
    name: u32,
    device: u32,
    inode: u32,
    /// The first block of each page.
    blocks: Vec<u32>,
}

/// The disks, with their directories and files.
struct World {
    trace: Trace,
    disk: Disk,
    directories: Vec<Directory>,
    files: Vec<File>,
    largest: usize,
}

impl World {
    fn new(tree: &Tree) -> Self {
        let mut world = Self {
            trace: Trace::new(BLOCK_BYTES),
            disk: Disk::new(BLOCK_BYTES),
            directories: Vec::new(),
            files: Vec::new(),
            largest: 0,
        };
        for directory in &tree.directories {
            world.add_directory(TREE_DEVICE, directory.inode, directory.parent, &directory.name);
        }
        for file in &tree.files {
            let name = world.trace.name(&file.name);
            let mut blocks = world.reported_blocks(file);
            if blocks.is_empty() {
                blocks = world.new_blocks(TREE_DEVICE, file.inode, file.pages);
            }
            world.files.push(File { directory: file.directory, name, device: TREE_DEVICE, inode: file.inode, blocks });
        }
        let pages = |file: &File| file.blocks.len();
        world.largest = (0..world.files.len()).max_by_key(|index| pages(&world.files[*index])).unwrap_or(0);
        world
    }

    fn reported_blocks(&self, file: &TreeFile) -> Vec<u32> {
        // Block numbers had 32 bits in the kernel of 1999: 16 TiB.
        file.extents
            .iter()
            .cloned()
            .flatten()
            .take(file.pages as usize)
            .map(|block| (block as u32).wrapping_mul(4))
            .collect()
    }

    fn new_blocks(&mut self, device: u32, inode: u32, pages: u32) -> Vec<u32> {
        let per_page = PAGE_BYTES / self.trace.block_bytes;
        let group = self.disk.group(inode);
        let first = self.disk.allocate_blocks(device, group, pages * per_page);
        (0..pages).map(|page| first.wrapping_add(page * per_page)).collect()
    }

    fn add_directory(&mut self, device: u32, inode: u32, parent: Option<usize>, name: &[u8]) -> usize {
        let name = self.trace.name(name);
        let group = self.disk.group(inode);
        let block = self.disk.allocate_blocks(device, group, 1);
        self.directories.push(Directory { device, inode, parent, name, block });
        self.directories.len() - 1
    }
}

/// The script of one user.
struct Script<'w> {
    world: &'w mut World,
    random: Random,
    number: usize,
    homes: Vec<usize>,
    own: Vec<File>,
    outputs: u32,
    events: Vec<Event>,
    /// The removals of the remaining files.
    cleanup: Vec<Event>,
}

impl<'w> Script<'w> {
    fn new(world: &'w mut World, number: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let random = Random::new(random.next_u64() ^ (number as u64).wrapping_mul(0xD134_2543_DE82_EF95));
        Self {
            world,
            random,
            number,
            homes: Vec::new(),
            own: Vec::new(),
            outputs: 0,
            events: Vec::new(),
            cleanup: Vec::new(),
        }
    }

    fn run(&mut self) {
        self.create_homes();
        self.copy();
        for _ in 0..ROUNDS {
            let mut commands: [fn(&mut Self); 6] =
                [Self::compile, Self::edit, Self::compile, Self::search, Self::compile, Self::spell];
            for last in (1..commands.len()).rev() {
                commands.swap(last, index_below(&mut self.random, last + 1));
            }
            commands.iter().for_each(|command| command(self));
        }
        for file in std::mem::take(&mut self.own) {
            let directory = self.world.directories[file.directory].inode;
            self.cleanup.push(Event::Remove { device: file.device, directory, name: file.name });
        }
    }

    /// Creates the directories of the script, each in its own block group, as ext2 spreads them.
    fn create_homes(&mut self) {
        let root = match self.world.directories.iter().position(|directory| directory.device == HOME_DEVICE) {
            Some(root) => root,
            None => self.world.add_directory(HOME_DEVICE, 2, None, b"/"),
        };
        for directory in 0..HOME_DIRECTORIES {
            let group = (1 + self.number * HOME_DIRECTORIES + directory) as u32;
            let inode = self.world.disk.allocate_inode(HOME_DEVICE, group);
            let name = format!("user{}.{directory}", self.number);
            self.homes.push(self.world.add_directory(HOME_DEVICE, inode, Some(root), name.as_bytes()));
        }
    }

    /// Copies consecutive files of the tree into its directories.
    fn copy(&mut self) {
        let count = (HOME_DIRECTORIES * HOME_FILES).min(self.world.files.len());
        let start = index_below(&mut self.random, self.world.files.len());
        for index in 0..count {
            let source = self.world.files[(start + index) % self.world.files.len()].clone();
            self.open(&source);
            self.read(&source);
            let directory = self.homes[index % HOME_DIRECTORIES];
            let name = self.free_name(directory, source.name);
            let copy = self.create(directory, name, source.blocks.len() as u32);
            self.own.push(copy);
        }
    }

    /// Returns a name that no copy in the directory has, numbered like a backup if `name` is taken.
    fn free_name(&mut self, directory: usize, name: u32) -> u32 {
        let mut free = name;
        let mut number = 0;
        while self.own.iter().any(|file| file.directory == directory && file.name == free) {
            number += 1;
            let base = self.world.trace.names.get(name as usize).unwrap_or_default();
            let suffix = format!(".~{number}~");
            let kept = base.len().min(NAME_LEN_MAX - suffix.len());
            let numbered = [&base[..kept], suffix.as_bytes()].concat();
            free = self.world.trace.name(&numbered);
        }
        free
    }

    /// Looks up every directory of the path, then the file.
    fn open(&mut self, file: &File) {
        self.walk(file.directory);
        self.name(file.directory, file.inode, file.name);
    }

    fn walk(&mut self, directory: usize) {
        let mut path = vec![directory];
        while let Some(parent) = path.last().and_then(|last| self.world.directories[*last].parent) {
            path.push(parent);
        }
        for pair in path.windows(2).rev() {
            let (inode, name) = (self.world.directories[pair[0]].inode, self.world.directories[pair[0]].name);
            self.name(pair[1], inode, name);
        }
    }

    fn name(&mut self, directory: usize, inode: u32, name: u32) {
        let Directory { device, inode: directory, block, .. } = self.world.directories[directory];
        self.events.push(Event::Name { device, directory, inode, block, name });
    }

    fn read(&mut self, file: &File) {
        self.pages(file, false);
    }

    fn pages(&mut self, file: &File, write: bool) {
        let File { device, inode, .. } = *file;
        let page = |(page, block): (u32, &u32)| Event::Page { device, inode, page, block: *block, write };
        self.events.extend((0..).zip(&file.blocks).map(page));
    }

    /// Creates a file and writes it.
    fn create(&mut self, directory: usize, name: u32, pages: u32) -> File {
        self.walk(directory);
        self.name(directory, 0, name);
        let group = self.world.disk.group(self.world.directories[directory].inode);
        let inode = self.world.disk.allocate_inode(HOME_DEVICE, group);
        let blocks = self.world.new_blocks(HOME_DEVICE, inode, pages);
        self.name(directory, inode, name);
        let file = File { directory, name, device: HOME_DEVICE, inode, blocks };
        self.pages(&file, true);
        file
    }

    fn remove(&mut self, file: &File) {
        let directory = self.world.directories[file.directory].inode;
        self.events.push(Event::Remove { device: file.device, directory, name: file.name });
    }

    fn temporary(&mut self, pages: u32) -> File {
        self.outputs += 1;
        let name = self.world.trace.name(format!("cc{:05}.o", self.outputs).as_bytes());
        let directory = self.homes[index_below(&mut self.random, HOME_DIRECTORIES)];
        self.create(directory, name, pages)
    }

    fn own_file(&mut self) -> File {
        let index = index_below(&mut self.random, self.own.len());
        self.own[index].clone()
    }

    /// Compiles: reads a source and its headers, which it looks up in its own directory first; writes, reads and
    /// removes an object file.
    fn compile(&mut self) {
        let source = self.own_file();
        self.open(&source);
        self.read(&source);
        for _ in 0..8 + index_below(&mut self.random, 16) {
            let header = skewed(&mut self.random, self.world.files.len());
            let header = self.world.files[header].clone();
            // A miss in its own directory is cached as a negative dentry.
            let in_home = self.own.iter().find(|file| file.name == header.name && file.directory == source.directory);
            let inode = in_home.map_or(0, |file| file.inode);
            self.name(source.directory, inode, header.name);
            self.open(&header);
            self.read(&header);
        }
        let pages = 1 + index_below(&mut self.random, 8) as u32;
        let object = self.temporary(pages);
        self.open(&object);
        self.read(&object);
        self.remove(&object);
    }

    /// Edits: reads a file, writes a temporary copy, then the file.
    fn edit(&mut self) {
        let file = self.own_file();
        self.open(&file);
        self.read(&file);
        let buffer = self.temporary(file.blocks.len() as u32);
        self.pages(&file, true);
        self.remove(&buffer);
    }

    /// Searches: reads all its files, and some adjacent files of the tree.
    fn search(&mut self) {
        for file in self.own.clone() {
            self.open(&file);
            self.read(&file);
        }
        let start = index_below(&mut self.random, self.world.files.len());
        for index in start..(start + HOME_FILES).min(self.world.files.len()) {
            let file = self.world.files[index].clone();
            self.open(&file);
            self.read(&file);
        }
    }

    /// Spells: reads a file and the shared dictionary, and writes a list.
    fn spell(&mut self) {
        let text = self.own_file();
        let dictionary = self.world.files[self.world.largest].clone();
        for file in [&text, &dictionary] {
            self.open(file);
            self.read(file);
        }
        let list = self.temporary(1);
        self.remove(&list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    fn proceed() -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn equal_tree_and_seed_give_equal_loads() {
        let directory = crate::kernel::tests::small_tree();
        let tree = Tree::read(directory.path(), &proceed).unwrap();
        let load = |seed| tree.load(3, seed, &proceed).unwrap();
        assert_eq!(load(1), load(1));
        assert_ne!(load(1).events, load(2).events);
    }

    #[test]
    fn copies_in_a_directory_have_different_names() {
        let directory = crate::kernel::tests::small_tree();
        let tree = Tree::read(directory.path(), &proceed).unwrap();
        let trace = tree.load(4, 7, &proceed).unwrap();
        let mut removed = std::collections::HashSet::new();
        let mark = trace.events.iter().position(|event| *event == Event::Mark).unwrap();
        for event in &trace.events[mark + 1..] {
            let Event::Remove { directory, name, .. } = event else { unreachable!("only removals") };
            assert!(removed.insert((directory, name)));
        }
    }

    #[test]
    fn a_tree_without_files_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(Tree::read(directory.path(), &proceed), Err(TreeError::Empty)));
        assert!(matches!(Tree::read(&directory.path().join("none"), &proceed), Err(TreeError::Io(_))));
    }

    #[test]
    fn all_scripts_end_and_their_copies_are_removed_after_the_mark() {
        let directory = crate::kernel::tests::small_tree();
        let tree = Tree::read(directory.path(), &proceed).unwrap();
        let trace = tree.load(4, 7, &proceed).unwrap();
        let mark = trace.events.iter().position(|event| *event == Event::Mark).unwrap();
        let after = &trace.events[mark + 1..];
        assert!(after.iter().all(|event| matches!(event, Event::Remove { .. })));
        assert_eq!(after.len(), 4 * tree.files().min(HOME_DIRECTORIES * HOME_FILES));
    }
}
