//! A made-up development load over a real tree: many users who copy, compile, edit, search and spell, side by side.
//!
//! Paths, inode numbers and lengths are the tree's. So are the numbers of its blocks where the file system tells them; where it does
//! not, files lie as ext2 would lay them. Each script works on a copy of some of the files in folders of its own, as the paper's
//! benchmark does: they get inodes and blocks of a second, simulated disk. In the end all copies are removed.
//!
//! The same tree, seed and number of scripts give the same trace. Files count as [`FILE_PAGES_MAX`] pages at most, trees as
//! [`ENTRIES_MAX`] entries.
//!
//! Source: Lever 2000, section 2: SPEC SDM, whose scripts are not public; what ours do is our choice.

use super::disk::{Disk, PAGE_BYTES};
use super::trace::{EVENTS_MAX, Event, Trace};
use super::{Proceed, Stopped};
use crate::machine::{self, BLOCK_BYTES, Entry, EntryKind};
use crate::random::Random;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Entries of a tree that are used, in the order of names.
pub const ENTRIES_MAX: usize = 50_000;
/// Pages of a file that are used.
pub const FILE_PAGES_MAX: u32 = 64;
/// Most scripts at a time.
pub const SCRIPTS_MAX: usize = 512;

/// Block size where the disk is made up, as in 1999.
const OLD_BLOCK_BYTES: u32 = 1024;
/// Major and minor number of the tree's device, and of the users'.
const TREE_DEVICE: u32 = 0x0801;
const HOME_DEVICE: u32 = 0x0811;
const ENTRIES_PER_QUESTION: usize = 256;
/// After so many refusals and no answer the file system is taken to tell no blocks.
const REFUSALS: usize = 16;
/// Folders of a script, and files in each.
const HOME_FOLDERS: usize = 4;
const HOME_FILES: usize = 24;
const ROUNDS: usize = 4;
/// Most events of one script before another comes.
const SLICE: usize = 64;

/// What the load knows of a tree.
#[derive(Clone, Debug)]
pub struct Tree {
    folders: Vec<TreeFolder>,
    files: Vec<TreeFile>,
    /// Things that could not be read.
    pub unread: usize,
    /// Has it more than [`ENTRIES_MAX`] entries?
    pub cut: bool,
    /// Files whose blocks the file system told.
    pub told: usize,
}

#[derive(Clone, Debug)]
struct TreeFolder {
    parent: Option<usize>,
    name: Vec<u8>,
    inode: u32,
}

#[derive(Clone, Debug)]
struct TreeFile {
    folder: usize,
    name: Vec<u8>,
    inode: u32,
    pages: u32,
    /// Empty if they are not told.
    extents: Vec<Range<u64>>,
}

/// Why there is no tree.
#[derive(Debug)]
pub enum TreeError {
    /// It cannot be read.
    Io(io::Error),
    /// There are no files in it.
    Empty,
    /// The caller asked for the end.
    Stopped,
}

impl Tree {
    /// Walks the tree below `root`; reads no file.
    ///
    /// # Errors
    /// `root` is not there or has no files; `proceed` said no.
    pub fn read(root: &Path, proceed: Proceed<'_>) -> Result<Self, TreeError> {
        let mut tree = Self { folders: Vec::new(), files: Vec::new(), unread: 0, cut: false, told: 0 };
        let mut known: HashMap<PathBuf, usize> = HashMap::new();
        let mut refused = 0;
        for (index, entry) in machine::walk(root).map_err(TreeError::Io)?.enumerate() {
            if index % ENTRIES_PER_QUESTION == 0 && proceed().is_break() {
                return Err(TreeError::Stopped);
            }
            if index >= ENTRIES_MAX {
                tree.cut = true;
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
            (EntryKind::Folder, parent) => {
                known.insert(entry.path, self.folders.len());
                self.folders.push(TreeFolder { parent, name, inode });
            }
            (EntryKind::File, Some(folder)) => {
                let pages = entry.bytes.div_ceil(PAGE_BYTES.into()).min(FILE_PAGES_MAX.into()) as u32;
                let ask = pages > 0 && (self.told > 0 || *refused < REFUSALS);
                let extents = ask.then(|| machine::blocks(&entry.path).ok()).flatten().unwrap_or_default();
                if !extents.is_empty() {
                    self.told += 1;
                } else if ask {
                    *refused += 1;
                }
                self.files.push(TreeFile { folder, name, inode, pages, extents });
            }
            _ => {}
        }
    }

    /// Regular files.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Bytes of a block on all disks of the load.
    pub fn block_bytes(&self) -> u32 {
        if self.told > 0 { BLOCK_BYTES as u32 } else { OLD_BLOCK_BYTES }
    }

    /// What `scripts` users do at a time, at most [`SCRIPTS_MAX`].
    ///
    /// # Errors
    /// `proceed` said no.
    pub fn load(&self, scripts: usize, seed: u64, proceed: Proceed<'_>) -> Result<Trace, Stopped> {
        let mut world = World::new(self);
        let scripts = scripts.clamp(1, SCRIPTS_MAX);
        let mut work = Vec::with_capacity(scripts);
        let mut farewells = Vec::new();
        for number in 0..scripts {
            if proceed().is_break() {
                return Err(Stopped);
            }
            let mut script = Script::new(&mut world, number, seed);
            script.run();
            work.push(script.events);
            farewells.extend(script.farewell);
        }
        let mut random = Random::new(seed ^ scripts as u64);
        let mut trace = world.trace;
        trace.events = interleaved(work, &mut random);
        trace.events.truncate(EVENTS_MAX - 1);
        trace.events.push(Event::Mark);
        farewells.truncate(EVENTS_MAX - trace.events.len());
        trace.events.extend(farewells);
        Ok(trace)
    }
}

/// Inode numbers have 32 bits in the kernel of 1999; the upper half of longer ones goes into the lower.
fn narrow(inode: u64) -> u32 {
    ((inode ^ (inode >> 32)) as u32).max(1)
}

/// A slice of each in turn, until all are done.
fn interleaved(work: Vec<Vec<Event>>, random: &mut Random) -> Vec<Event> {
    let mut events = Vec::with_capacity(work.iter().map(Vec::len).sum());
    let mut rest: Vec<&[Event]> = work.iter().map(Vec::as_slice).collect();
    while !rest.is_empty() {
        for script in &mut rest {
            let (slice, left) = script.split_at(script.len().min(1 + place(random, SLICE)));
            events.extend_from_slice(slice);
            *script = left;
        }
        rest.retain(|script| !script.is_empty());
    }
    events
}

/// A place among `limit`, which is not 0.
fn place(random: &mut Random, limit: usize) -> usize {
    random.below(limit as u64) as usize
}

/// The same, the small ones oftener: a few headers are in every file.
fn skewed(random: &mut Random, limit: usize) -> usize {
    let (a, b) = (place(random, limit), place(random, limit));
    a * b / limit
}

struct Folder {
    device: u32,
    inode: u32,
    parent: Option<usize>,
    name: u32,
    block: u32,
}

#[derive(Clone, Debug)]
struct File {
    folder: usize,
    name: u32,
    device: u32,
    inode: u32,
    /// The first block of each page.
    blocks: Vec<u32>,
}

/// The disks, their folders and files.
struct World {
    trace: Trace,
    disk: Disk,
    folders: Vec<Folder>,
    files: Vec<File>,
    largest: usize,
}

impl World {
    fn new(tree: &Tree) -> Self {
        let mut world = Self {
            trace: Trace::new(tree.block_bytes()),
            disk: Disk::new(tree.block_bytes()),
            folders: Vec::new(),
            files: Vec::new(),
            largest: 0,
        };
        for folder in &tree.folders {
            world.add_folder(TREE_DEVICE, folder.inode, folder.parent, &folder.name);
        }
        for file in &tree.files {
            let name = world.trace.name(&file.name);
            let mut blocks = world.told_blocks(file);
            if blocks.is_empty() {
                blocks = world.new_blocks(TREE_DEVICE, file.inode, file.pages);
            }
            world.files.push(File { folder: file.folder, name, device: TREE_DEVICE, inode: file.inode, blocks });
        }
        let pages = |file: &File| file.blocks.len();
        world.largest = (0..world.files.len()).max_by_key(|index| pages(&world.files[*index])).unwrap_or(0);
        world
    }

    fn told_blocks(&self, file: &TreeFile) -> Vec<u32> {
        // Block numbers have 32 bits in the kernel of 1999: 16 TiB.
        file.extents.iter().cloned().flatten().take(file.pages as usize).map(|block| block as u32).collect()
    }

    fn new_blocks(&mut self, device: u32, inode: u32, pages: u32) -> Vec<u32> {
        let per_page = PAGE_BYTES / self.trace.block_bytes;
        let group = self.disk.group(inode);
        let first = self.disk.take_blocks(device, group, pages * per_page);
        (0..pages).map(|page| first.wrapping_add(page * per_page)).collect()
    }

    fn add_folder(&mut self, device: u32, inode: u32, parent: Option<usize>, name: &[u8]) -> usize {
        let name = self.trace.name(name);
        let group = self.disk.group(inode);
        let block = self.disk.take_blocks(device, group, 1);
        self.folders.push(Folder { device, inode, parent, name, block });
        self.folders.len() - 1
    }
}

/// One user.
struct Script<'w> {
    world: &'w mut World,
    random: Random,
    number: usize,
    homes: Vec<usize>,
    own: Vec<File>,
    outputs: u32,
    events: Vec<Event>,
    /// Removal of all that is left.
    farewell: Vec<Event>,
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
            farewell: Vec::new(),
        }
    }

    fn run(&mut self) {
        self.settle();
        self.copy();
        for _ in 0..ROUNDS {
            let mut commands: [fn(&mut Self); 6] =
                [Self::compile, Self::edit, Self::compile, Self::search, Self::compile, Self::spell];
            for last in (1..commands.len()).rev() {
                commands.swap(last, place(&mut self.random, last + 1));
            }
            commands.iter().for_each(|command| command(self));
        }
        for file in std::mem::take(&mut self.own) {
            let folder = self.world.folders[file.folder].inode;
            self.farewell.push(Event::Remove { device: file.device, folder, name: file.name });
        }
    }

    /// Folders of its own, each in a block group of its own, as ext2 spreads them.
    fn settle(&mut self) {
        let root = match self.world.folders.iter().position(|folder| folder.device == HOME_DEVICE) {
            Some(root) => root,
            None => self.world.add_folder(HOME_DEVICE, 2, None, b"/"),
        };
        for folder in 0..HOME_FOLDERS {
            let group = (1 + self.number * HOME_FOLDERS + folder) as u32;
            let inode = self.world.disk.take_inode(HOME_DEVICE, group);
            let name = format!("user{}.{folder}", self.number);
            self.homes.push(self.world.add_folder(HOME_DEVICE, inode, Some(root), name.as_bytes()));
        }
    }

    /// A run of the tree's files into them.
    fn copy(&mut self) {
        let count = (HOME_FOLDERS * HOME_FILES).min(self.world.files.len());
        let start = place(&mut self.random, self.world.files.len());
        for index in 0..count {
            let source = self.world.files[(start + index) % self.world.files.len()].clone();
            self.open(&source);
            self.read(&source);
            let folder = self.homes[index % HOME_FOLDERS];
            let copy = self.create(folder, source.name, source.blocks.len() as u32);
            self.own.push(copy);
        }
    }

    /// Looks up every folder on the way, then the file.
    fn open(&mut self, file: &File) {
        self.walk(file.folder);
        self.name(file.folder, file.inode, file.name);
    }

    fn walk(&mut self, folder: usize) {
        let mut way = vec![folder];
        while let Some(parent) = way.last().and_then(|last| self.world.folders[*last].parent) {
            way.push(parent);
        }
        for pair in way.windows(2).rev() {
            let (inode, name) = (self.world.folders[pair[0]].inode, self.world.folders[pair[0]].name);
            self.name(pair[1], inode, name);
        }
    }

    fn name(&mut self, folder: usize, inode: u32, name: u32) {
        let Folder { device, inode: folder, block, .. } = self.world.folders[folder];
        self.events.push(Event::Name { device, folder, inode, block, name });
    }

    fn read(&mut self, file: &File) {
        self.pages(file, false);
    }

    fn pages(&mut self, file: &File, write: bool) {
        let File { device, inode, .. } = *file;
        let page = |(page, block): (u32, &u32)| Event::Page { device, inode, page, block: *block, write };
        self.events.extend((0..).zip(&file.blocks).map(page));
    }

    /// A file that was not there, written.
    fn create(&mut self, folder: usize, name: u32, pages: u32) -> File {
        self.walk(folder);
        self.name(folder, 0, name);
        let group = self.world.disk.group(self.world.folders[folder].inode);
        let inode = self.world.disk.take_inode(HOME_DEVICE, group);
        let blocks = self.world.new_blocks(HOME_DEVICE, inode, pages);
        self.name(folder, inode, name);
        let file = File { folder, name, device: HOME_DEVICE, inode, blocks };
        self.pages(&file, true);
        file
    }

    fn remove(&mut self, file: &File) {
        let folder = self.world.folders[file.folder].inode;
        self.events.push(Event::Remove { device: file.device, folder, name: file.name });
    }

    fn temporary(&mut self, pages: u32) -> File {
        self.outputs += 1;
        let name = self.world.trace.name(format!("cc{:05}.o", self.outputs).as_bytes());
        let folder = self.homes[place(&mut self.random, HOME_FOLDERS)];
        self.create(folder, name, pages)
    }

    fn one_of_its_own(&mut self) -> File {
        let index = place(&mut self.random, self.own.len());
        self.own[index].clone()
    }

    /// Reads a source and its headers, which it looks for at home first, writes an object file, links and removes it.
    fn compile(&mut self) {
        let source = self.one_of_its_own();
        self.open(&source);
        self.read(&source);
        for _ in 0..8 + place(&mut self.random, 16) {
            let header = skewed(&mut self.random, self.world.files.len());
            let header = self.world.files[header].clone();
            // If it has one of that name, it is in the cache as such; else the cache learns that there is none.
            let at_home = self.own.iter().find(|file| file.name == header.name && file.folder == source.folder);
            let inode = at_home.map_or(0, |file| file.inode);
            self.name(source.folder, inode, header.name);
            self.open(&header);
            self.read(&header);
        }
        let pages = 1 + place(&mut self.random, 8) as u32;
        let object = self.temporary(pages);
        self.open(&object);
        self.read(&object);
        self.remove(&object);
    }

    /// Reads a file, writes it to a temporary one and back.
    fn edit(&mut self) {
        let file = self.one_of_its_own();
        self.open(&file);
        self.read(&file);
        let buffer = self.temporary(file.blocks.len() as u32);
        self.pages(&file, true);
        self.remove(&buffer);
    }

    /// Reads all its files, and some of everybody's that lie together.
    fn search(&mut self) {
        for file in self.own.clone() {
            self.open(&file);
            self.read(&file);
        }
        let start = place(&mut self.random, self.world.files.len());
        for index in start..(start + HOME_FILES).min(self.world.files.len()) {
            let file = self.world.files[index].clone();
            self.open(&file);
            self.read(&file);
        }
    }

    /// Holds a file against the dictionary, which is everybody's, and writes a list.
    fn spell(&mut self) {
        let text = self.one_of_its_own();
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

    fn go_on() -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn the_same_tree_and_seed_give_the_same_load() {
        let folder = crate::kernel::tests::small_tree();
        let tree = Tree::read(folder.path(), &go_on).unwrap();
        let load = |seed| tree.load(3, seed, &go_on).unwrap();
        assert_eq!(load(1), load(1));
        assert_ne!(load(1).events, load(2).events);
    }

    #[test]
    fn a_tree_without_files_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Tree::read(folder.path(), &go_on), Err(TreeError::Empty)));
        assert!(matches!(Tree::read(&folder.path().join("none"), &go_on), Err(TreeError::Io(_))));
    }

    #[test]
    fn all_scripts_come_to_their_end_and_the_copies_go_behind_the_mark() {
        let folder = crate::kernel::tests::small_tree();
        let tree = Tree::read(folder.path(), &go_on).unwrap();
        let trace = tree.load(4, 7, &go_on).unwrap();
        let mark = trace.events.iter().position(|event| *event == Event::Mark).unwrap();
        let behind = &trace.events[mark + 1..];
        assert!(behind.iter().all(|event| matches!(event, Event::Remove { .. })));
        assert_eq!(behind.len(), 4 * tree.files().min(HOME_FOLDERS * HOME_FILES));
    }
}
