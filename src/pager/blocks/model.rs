//! A model of the file that `blocks/mod.rs` describes: nothing that is still needed may be overwritten.
//!
//! ```text
//! disk      blocks, two headers, two homes of the bitmap, the length: what is durable, and what was written since
//! log       records by segment; a record may refer to a value in a block
//! writer    frames, live map, free and waiting blocks, one checkpoint in progress; opens, replays, evicts, moves, cuts
//! readers   hold a checkpoint, also while the writer is killed and opens again
//! ```
//!
//! A step is what one thread does between two accesses to shared state. Walks take steps in random order, and check
//! everything after each step: what readers see, and what would be left by a kill and by power losses, with any subset
//! of the unsynced writes. Some walks then crash, and continue with an open. Contents are version numbers, and a
//! checksum is the version itself, so a block with another version is detected.
//!
//! Each [`Bug`] breaks one rule, and the walks find it. Not here: the life of a frame in memory (`pool/life.rs`).

use crate::random::Random;
use std::collections::BTreeMap;

const FRAMES: usize = 3;
const BLOCKS: usize = 14;
type Block = u8;
type Version = u16;
/// The number of a checkpoint, and of the log's segment that begins at it.
type Number = u8;

/// Rules that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// A freed block is reused once the last checkpoint that has it is durable, instead of the next one.
    ReusedEarly,
    /// Checkpoints that readers hold are ignored.
    HeldIgnored,
    /// Readers that held a checkpoint before the open are ignored.
    HeldAtOpenIgnored,
    /// Waiting blocks are freed once the header is written, before it is synced.
    ReleasedUnsynced,
    /// A frame's block is overwritten although a checkpoint that has begun refers to it.
    FrozenBlockRewritten,
    /// A block that the log refers to is overwritten in the same period.
    SealedBlockRewritten,
    /// A block that the log refers to is freed as soon as its frame is elsewhere.
    LoggedBlockFreed,
    /// The replay writes to any free block.
    ReplayAnywhere,
    /// After the replay, blocks that the log refers to are free.
    LoggedFreeAfterReplay,
    /// Before the first checkpoint of a handle, a sync only syncs the file and the log.
    ReplayedSynced,
    /// An open does not write its header again.
    HeaderNotRewritten,
    /// The header is written before the data is synced.
    HeaderBeforeData,
    /// The header is written after a failed sync.
    HeaderAfterFailure,
    /// Each header overwrites the last one.
    OneHeaderSlot,
    /// The new header is copied to the other slot before it is synced.
    CopiedUnsynced,
    /// An older header is used although its log is gone.
    OlderHeaderTaken,
    /// The map of a checkpoint is the live one.
    MapIsLive,
    /// Frozen frames are evicted.
    FrozenEvicted,
    /// A writer does not save the content of a frozen frame that it changes.
    Unsaved,
    /// A frame is no longer frozen once its write has begun.
    ThawedEarly,
    /// The bitmap says what the live map does not use.
    BitmapIsLive,
    /// The bitmap overwrites that of the last checkpoint.
    OneBitmapHome,
    /// The bitmap with the higher number counts, whatever the tree says.
    BitmapByNumber,
    /// The file is cut as soon as no live frame is beyond the new end.
    CutEarly,
    /// A checkpoint begins without space for all that it writes.
    Unreserved,
}

const BUGS: [Bug; 25] = [
    Bug::ReusedEarly,
    Bug::HeldIgnored,
    Bug::HeldAtOpenIgnored,
    Bug::ReleasedUnsynced,
    Bug::FrozenBlockRewritten,
    Bug::SealedBlockRewritten,
    Bug::LoggedBlockFreed,
    Bug::ReplayAnywhere,
    Bug::LoggedFreeAfterReplay,
    Bug::ReplayedSynced,
    Bug::HeaderNotRewritten,
    Bug::HeaderBeforeData,
    Bug::HeaderAfterFailure,
    Bug::OneHeaderSlot,
    Bug::CopiedUnsynced,
    Bug::OlderHeaderTaken,
    Bug::MapIsLive,
    Bug::FrozenEvicted,
    Bug::Unsaved,
    Bug::ThawedEarly,
    Bug::BitmapIsLive,
    Bug::OneBitmapHome,
    Bug::BitmapByNumber,
    Bug::CutEarly,
    Bug::Unreserved,
];

/// Something that a disk stores: its durable content, and what was written since.
#[derive(Clone, Debug)]
struct Cell<T> {
    durable: T,
    /// Each with whether a later sync writes it: after a failed sync, the system considers it written.
    unsynced: Vec<(T, bool)>,
}

impl<T: Copy + PartialEq> Cell<T> {
    fn new(content: T) -> Cell<T> {
        Cell { durable: content, unsynced: Vec::new() }
    }

    /// Returns what the system's cache shows.
    fn view(&self) -> T {
        self.unsynced.last().map_or(self.durable, |last| last.0)
    }

    fn write(&mut self, content: T) {
        self.unsynced.push((content, true));
    }

    fn sync(&mut self) {
        if let Some(&(content, true)) = self.unsynced.last() {
            self.durable = content;
            self.unsynced.clear();
        }
    }

    fn fail_sync(&mut self) {
        self.unsynced.iter_mut().for_each(|write| write.1 = false);
    }

    /// Returns what a power loss leaves: the durable content or any later one.
    fn survive(&self, random: &mut Random) -> T {
        let any = random.below(self.unsynced.len() + 1);
        if any == 0 { self.durable } else { self.unsynced[any - 1].0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    Frame(usize, Version),
    Node(Node),
}

/// The map's leaf entry: a block, and the checksum of its content.
type Entry = Option<(Block, Version)>;

/// The tree of a checkpoint, in one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    map: [Entry; FRAMES],
    /// The home of the bitmap, and the bitmap's checksum.
    home: u8,
    bitmap: Bitmap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bitmap {
    number: Number,
    used: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    number: Number,
    block: Block,
    /// The checksum of the node.
    node: Node,
    length: u8,
}

#[derive(Clone, Debug)]
struct Disk {
    blocks: [Cell<Content>; BLOCKS],
    homes: [Cell<Bitmap>; 2],
    /// `None`: torn, or never written.
    headers: [Cell<Option<Header>>; 2],
    length: Cell<u8>,
}

impl Disk {
    fn block(&self, block: Block) -> Content {
        if block < self.length.view() { self.blocks[usize::from(block)].view() } else { Content::Nothing }
    }

    fn write(&mut self, block: Block, content: Content) {
        self.blocks[usize::from(block)].write(content);
        // A sync of a block makes the length durable that it needs, also if an earlier sync of the length failed.
        if block >= self.length.view().min(self.length.durable) {
            self.length.write(self.length.view().max(block + 1));
        }
    }

    fn sync(&mut self) {
        self.blocks.iter_mut().for_each(Cell::sync);
        self.homes.iter_mut().for_each(Cell::sync);
        self.headers.iter_mut().for_each(Cell::sync);
        self.length.sync();
    }

    fn fail_sync(&mut self) {
        self.blocks.iter_mut().for_each(Cell::fail_sync);
        self.homes.iter_mut().for_each(Cell::fail_sync);
        self.headers.iter_mut().for_each(Cell::fail_sync);
        self.length.fail_sync();
    }

    fn after_power_loss(&self, random: &mut Random) -> Disk {
        let length = self.length.survive(random);
        Disk {
            blocks: std::array::from_fn(|block| {
                let content = self.blocks[block].survive(random);
                Cell::new(if block < usize::from(length) { content } else { Content::Nothing })
            }),
            homes: std::array::from_fn(|home| Cell::new(self.homes[home].survive(random))),
            headers: std::array::from_fn(|slot| {
                let cell = &self.headers[slot];
                // Writing the same bytes again cannot tear.
                let torn = cell.unsynced.iter().any(|write| write.0 != cell.durable) && random.percent(25);
                Cell::new(if torn { None } else { cell.survive(random) })
            }),
            length: Cell::new(length),
        }
    }

    /// Returns the newest whole header in the cache.
    fn newest(&self) -> Option<(usize, Header)> {
        let whole = (0..2).filter_map(|slot| Some((slot, self.headers[slot].view()?)));
        whole.max_by_key(|(_, header)| header.number)
    }
}

#[derive(Clone, Copy, Debug)]
struct Record {
    segment: Number,
    frame: usize,
    version: Version,
    /// The block with the frame's content; if none, the record has the content.
    stored: Option<Block>,
}

#[derive(Clone, Debug, Default)]
struct Log {
    records: Vec<Record>,
    /// Records that a power loss leaves.
    synced: usize,
    /// The first segment that was not released.
    first: Number,
    /// The segment to which records are appended.
    last: Number,
}

/// The status of a frame's live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Written in this period, and in no checkpoint.
    Period,
    /// As `Period`, and a record of the log refers to it.
    Sealed,
    /// In a checkpoint, or in one that has begun.
    Old,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    /// `None`: not in memory.
    resident: Option<Version>,
    dirty: bool,
    /// The block that was written last, and its content.
    live: Entry,
    kind: Kind,
    frozen: bool,
    saved: Option<Version>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    block: Block,
    birth: Number,
    death: Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Frames are being written.
    Frames,
    NodeWritten,
    DataSynced,
    HeaderWritten,
    HeaderSynced,
}

#[derive(Clone, Debug)]
struct Checkpoint {
    number: Number,
    phase: Phase,
    /// The frozen frames; those without a block are still to be written.
    frozen: Vec<(usize, Entry)>,
    /// The frame that is being written: the first of `frozen` without a block.
    writing: Option<(Block, Version)>,
    header: Option<Header>,
    /// Number of blocks that only this checkpoint may take.
    reserved: usize,
}

#[derive(Clone, Debug)]
struct Writer {
    frames: [Frame; FRAMES],
    /// The slot and header of the last checkpoint of this handle.
    slot: usize,
    header: Header,
    /// Until the header is synced, nothing else is written.
    opening: bool,
    /// Only blocks from this one on are written; `None` once the log is replayed.
    from: Option<Block>,
    /// Whether a checkpoint of this handle is durable.
    has_checkpoint: bool,
    free: u16,
    birth: [Number; BLOCKS],
    waiting: Vec<Waiting>,
    checkpoint: Option<Checkpoint>,
    /// The number of the last checkpoint that began.
    begun: Number,
    /// Records of the log to be replayed.
    replay: Vec<Record>,
    poisoned: bool,
    /// Whether the header is in both slots.
    copied: bool,
}

#[derive(Clone, Debug)]
struct World {
    bug: Option<Bug>,
    disk: Disk,
    log: Log,
    writer: Option<Writer>,
    /// The checkpoints that readers hold, with their headers.
    held: Vec<Header>,
    /// The content of each checkpoint.
    expected: BTreeMap<Number, [Version; FRAMES]>,
    /// All versions in the order of the writes, from the beginning.
    history: Vec<[Version; FRAMES]>,
    /// The number of records before the first one in the log.
    before: usize,
    next: Version,
    /// The disk has failed: a write was silently lost, or a header rotted. Then an error is allowed.
    failed: bool,
    /// The failure was a header that rotted.
    rotted: bool,
    /// What happened, for the test of the model itself.
    seen: BTreeMap<&'static str, usize>,
}

type Outcome = Result<(), String>;

impl World {
    fn new(bug: Option<Bug>) -> World {
        let bitmap = Bitmap { number: 1, used: 1 };
        let node = Node { map: [None; FRAMES], home: 0, bitmap };
        let header = Header { number: 1, block: 0, node, length: 1 };
        let mut blocks: [Cell<Content>; BLOCKS] = std::array::from_fn(|_| Cell::new(Content::Nothing));
        blocks[0] = Cell::new(Content::Node(node));
        let disk = Disk {
            blocks,
            homes: [Cell::new(bitmap), Cell::new(Bitmap { number: 0, used: 0 })],
            headers: [Cell::new(Some(header)), Cell::new(None)],
            length: Cell::new(1),
        };
        World {
            bug,
            disk,
            log: Log { first: 1, last: 1, ..Log::default() },
            writer: None,
            held: Vec::new(),
            expected: BTreeMap::from([(1, [0; FRAMES])]),
            history: vec![[0; FRAMES]],
            before: 0,
            next: 1,
            failed: false,
            rotted: false,
            seen: BTreeMap::new(),
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn now(&self) -> [Version; FRAMES] {
        *self.history.last().expect("the empty table")
    }

    // --- opening ---

    /// Returns the slot and header that an open uses, its bitmap, and the count of records to skip. An error is damage.
    fn choose(&self) -> Result<(usize, Header, Bitmap, usize), String> {
        let (slot, header) = self.disk.newest().ok_or("no whole header")?;
        if self.log.first > header.number && !self.has(Bug::OlderHeaderTaken) {
            return Err(format!("checkpoint {} lacks its log, which begins at {}", header.number, self.log.first));
        }
        if self.disk.block(header.block) != Content::Node(header.node) {
            return Err(format!("the node of checkpoint {}, in block {}, is another", header.number, header.block));
        }
        let home = if self.has(Bug::BitmapByNumber) {
            usize::from(self.disk.homes[1].view().number > self.disk.homes[0].view().number)
        } else {
            usize::from(header.node.home)
        };
        let bitmap = self.disk.homes[home].view();
        if bitmap != header.node.bitmap && !self.has(Bug::BitmapByNumber) {
            return Err(format!("the bitmap of checkpoint {} is another", header.number));
        }
        let skip = self.log.records.iter().take_while(|record| record.segment < header.number).count();
        Ok((slot, header, bitmap, skip))
    }

    /// Checks what an open would find now if a power loss had cut the log to `end` records; it must find `acknowledged`
    /// records.
    fn check_open(&self, end: usize, acknowledged: usize) -> Outcome {
        let (_, header, _, skip) = match self.choose() {
            Err(_) if self.failed => return Ok(()),
            Ok((_, header, ..)) if self.is_noticed(&header) => return Ok(()),
            chosen => chosen?,
        };
        let mut found = self.check_tree(&header)?;
        let mut last = skip;
        for record in self.log.records[..end].iter().skip(skip) {
            let there = record
                .stored
                .is_none_or(|block| self.disk.block(block) == Content::Frame(record.frame, record.version));
            if !there {
                break;
            }
            found[record.frame] = record.version;
            last += 1;
        }
        if last < acknowledged {
            return Err(format!("record {last} of {acknowledged} that were promised has lost its value"));
        }
        let expected = self.history[self.before + last];
        if found != expected {
            return Err(format!("checkpoint {} and {last} records give {found:?}, not {expected:?}", header.number));
        }
        Ok(())
    }

    /// Whether the last header rotted, and a checksum tells that blocks of the one before were written since.
    fn is_noticed(&self, header: &Header) -> bool {
        self.rotted && self.read_tree(header).is_err()
    }

    /// Checks that a checkpoint has its contents, and returns them.
    fn check_tree(&self, header: &Header) -> Result<[Version; FRAMES], String> {
        let found = self.read_tree(header)?;
        match self.expected.get(&header.number) {
            Some(expected) if *expected != found => {
                Err(format!("checkpoint {} has {found:?}, not {expected:?}", header.number))
            }
            _ => Ok(found),
        }
    }

    fn read_tree(&self, header: &Header) -> Result<[Version; FRAMES], String> {
        let mut found = [0; FRAMES];
        for (frame, entry) in header.node.map.iter().enumerate() {
            let Some((block, version)) = *entry else { continue };
            let content = self.disk.block(block);
            if content != Content::Frame(frame, version) {
                return Err(format!(
                    "checkpoint {}: block {block} has {content:?}, not frame {frame}, version {version}",
                    header.number
                ));
            }
            found[frame] = version;
        }
        Ok(found)
    }

    /// Checks readers, a kill and some power losses.
    fn check(&self, random: &mut Random) -> Outcome {
        for header in &self.held {
            self.check_tree(header).map_err(|e| format!("a reader: {e}"))?;
        }
        let end = self.log.records.len();
        self.check_open(end, end).map_err(|e| format!("after a kill: {e}"))?;
        for _ in 0..3 {
            let (lost, end) = self.after_power_loss(random);
            lost.check_open(end, self.log.synced).map_err(|e| format!("after a power loss: {e}"))?;
        }
        Ok(())
    }

    fn after_power_loss(&self, random: &mut Random) -> (World, usize) {
        let disk = self.disk.after_power_loss(random);
        // A surviving checkpoint has the records before it, even if the log lacks them.
        let number = disk.newest().map_or(0, |(_, header)| header.number);
        let in_checkpoint = self.log.records.iter().take_while(|record| record.segment < number).count();
        let least = self.log.synced.max(in_checkpoint);
        let end = least + random.below(self.log.records.len() - least + 1);
        (World { disk, ..self.clone() }, end)
    }

    fn crash(&mut self, power: bool, random: &mut Random) -> Outcome {
        self.writer = None;
        if power {
            self.saw("power losses");
            let (lost, end) = self.after_power_loss(random);
            self.disk = lost.disk;
            self.cut_log(end);
            self.cut_lost_values();
            // Readers end with the machine.
            self.held.clear();
        } else {
            self.saw("kills");
        }
        Ok(())
    }

    /// Truncates the log and the history to `end` records.
    fn cut_log(&mut self, end: usize) {
        self.log.records.truncate(end);
        self.history.truncate(self.before + end + 1);
        self.log.synced = self.log.synced.min(end);
    }

    /// Ends the log before the first value that a power loss took.
    fn cut_lost_values(&mut self) {
        let Ok((.., skip)) = self.choose() else { return };
        let is_there = |record: &&Record| {
            record.stored.is_none_or(|block| self.disk.block(block) == Content::Frame(record.frame, record.version))
        };
        let end = skip + self.log.records.iter().skip(skip).take_while(is_there).count();
        self.cut_log(end);
    }

    fn open(&mut self) -> Outcome {
        let (slot, header, bitmap, skip) = match self.choose() {
            Err(_) if self.failed => return Err(String::new()),
            Ok((_, header, ..)) if self.is_noticed(&header) => return Err(String::new()),
            chosen => chosen?,
        };
        self.saw("opens");
        let frames = std::array::from_fn(|frame| Frame {
            resident: header.node.map[frame].is_none().then_some(0),
            dirty: false,
            live: header.node.map[frame],
            kind: Kind::Old,
            frozen: false,
            saved: None,
        });
        let length = self.disk.length.view();
        let mut free = !bitmap.used & ((1 << BLOCKS) - 1);
        let mut waiting = Vec::new();
        let oldest = self.held.iter().map(|held| held.number).min();
        if oldest.is_some_and(|oldest| oldest < header.number) && !self.has(Bug::HeldAtOpenIgnored) {
            let below = free & ((1 << length) - 1);
            free &= !below;
            for block in (0..length).filter(|block| below & 1 << block != 0) {
                waiting.push(Waiting { block, birth: 0, death: header.number - 1 });
            }
        }
        let rewrites = !self.has(Bug::HeaderNotRewritten);
        if rewrites {
            self.disk.headers[slot].write(Some(header));
        }
        self.writer = Some(Writer {
            frames,
            slot,
            header,
            opening: rewrites,
            from: Some(length),
            has_checkpoint: false,
            free,
            birth: [0; BLOCKS],
            waiting,
            checkpoint: None,
            begun: self.log.last.max(header.number),
            replay: self.log.records[skip..].to_vec(),
            poisoned: false,
            copied: false,
        });
        self.log.last = self.log.last.max(header.number);
        if !rewrites {
            self.end_replay();
        }
        Ok(())
    }

    // --- space ---

    fn allocate(&mut self, birth: Number, for_checkpoint: bool) -> Option<Block> {
        let anywhere = self.has(Bug::ReplayAnywhere);
        let unreserved = self.has(Bug::Unreserved);
        let writer = self.writer.as_mut()?;
        let from = writer.from.filter(|_| !anywhere).unwrap_or(0);
        let mut blocks = (from..BLOCKS as Block).filter(|block| writer.free & 1 << block != 0);
        let reserved = writer.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.reserved);
        let kept = if for_checkpoint || unreserved { 0 } else { reserved };
        let block = blocks.next()?;
        if blocks.count() < kept {
            return None;
        }
        if let Some(checkpoint) = writer.checkpoint.as_mut().filter(|_| for_checkpoint) {
            checkpoint.reserved = checkpoint.reserved.saturating_sub(1);
        }
        writer.free &= !(1 << block);
        writer.birth[usize::from(block)] = birth;
        Some(block)
    }

    /// Frees a block that no frame has any more; `death` is the last checkpoint that has it, if any has.
    fn free(&mut self, block: Block, death: Number) {
        let writer = self.writer.as_mut().expect("it frees");
        let birth = writer.birth[usize::from(block)];
        if birth > death {
            writer.free |= 1 << block;
        } else {
            writer.waiting.push(Waiting { block, birth, death });
        }
    }

    /// Frees the blocks that neither a checkpoint from `durable` on nor a reader has.
    fn release(&mut self, durable: Number) {
        let early = Number::from(self.has(Bug::ReusedEarly));
        let held: Vec<Number> = self.held.iter().map(|held| held.number).collect();
        let held_counts = !self.has(Bug::HeldIgnored);
        let writer = self.writer.as_mut().expect("it releases");
        let free = |w: &Waiting| {
            let is_held = held.iter().any(|held| (w.birth..=w.death).contains(held));
            w.death < durable + early && !(held_counts && is_held)
        };
        writer.free |= writer.waiting.iter().filter(|w| free(w)).fold(0, |blocks, w| blocks | 1 << w.block);
        writer.waiting.retain(|w| !free(w));
    }

    // --- steps of writers ---

    fn write(&mut self, frame: usize, stored: bool) {
        if self.load(frame).is_err() {
            return;
        }
        let unsaved = self.has(Bug::Unsaved);
        let period = self.writer.as_ref().expect("it writes").begun + 1;
        let frozen = self.writer.as_ref().expect("it writes").frames[frame].frozen;
        let version = self.next;
        let block = if stored && !frozen { self.allocate(0, false) } else { None };
        let freed_at_once = self.has(Bug::LoggedBlockFreed);
        let writer = self.writer.as_mut().expect("it writes");
        let now = &mut writer.frames[frame];
        if now.frozen && now.saved.is_none() && !unsaved {
            now.saved = now.resident;
        }
        now.resident = Some(version);
        now.dirty = block.is_none();
        let old = now.live;
        if let Some(block) = block {
            now.live = Some((block, version));
            now.kind = Kind::Sealed;
            if freed_at_once {
                writer.birth[usize::from(block)] = period;
            }
            self.disk.write(block, Content::Frame(frame, version));
            if let Some((old, _)) = old {
                self.free(old, period - 1);
            }
            self.saw("values stored");
        }
        self.next += 1;
        let mut state = self.now();
        state[frame] = version;
        self.history.push(state);
        let segment = self.log.last;
        self.log.records.push(Record { segment, frame, version, stored: block });
    }

    fn load(&mut self, frame: usize) -> Outcome {
        let now = self.writer.as_ref().expect("it loads").frames[frame];
        if now.resident.is_none() {
            let (block, version) = now.live.expect("a frame that was evicted has a block");
            let found = self.disk.block(block);
            if found != Content::Frame(frame, version) {
                return Err(format!("a load of frame {frame} finds {found:?} in block {block}, not version {version}"));
            }
            self.writer.as_mut().expect("as above").frames[frame].resident = Some(version);
        }
        Ok(())
    }

    fn evict(&mut self, frame: usize) {
        let (evicts_frozen, rewrites, unseals) =
            (self.has(Bug::FrozenEvicted), self.has(Bug::FrozenBlockRewritten), self.has(Bug::SealedBlockRewritten));
        let writer = self.writer.as_mut().expect("it evicts");
        let now = writer.frames[frame];
        let Some(version) = now.resident.filter(|_| !now.frozen || evicts_frozen) else { return };
        let period = writer.begun + 1;
        if now.dirty {
            let own =
                now.kind == Kind::Period || rewrites && now.kind == Kind::Old || unseals && now.kind == Kind::Sealed;
            let block = match now.live {
                Some((block, _)) if own => Some(block),
                _ => self.allocate(period, false),
            };
            let Some(block) = block else { return };
            self.disk.write(block, Content::Frame(frame, version));
            if let Some((old, _)) = now.live.filter(|(old, _)| *old != block) {
                self.free(old, period - 1);
            }
            self.saw("evictions of changed frames");
            let now = &mut self.writer.as_mut().expect("as above").frames[frame];
            (now.live, now.kind, now.dirty) = (Some((block, version)), Kind::Period, false);
        } else if now.live.is_none() {
            return; // it has never been written
        }
        self.writer.as_mut().expect("as above").frames[frame].resident = None;
    }

    /// Writes an unchanged frame to a lower block, as a compaction does.
    fn move_down(&mut self, frame: usize) -> Outcome {
        self.load(frame)?;
        let writer = self.writer.as_ref().expect("it moves");
        let (now, period) = (writer.frames[frame], writer.begun + 1);
        let Some((old, version)) = now.live.filter(|_| !now.dirty && !now.frozen) else { return Ok(()) };
        let lower = writer.from.is_none() && (0..old).any(|block| writer.free & 1 << block != 0);
        let Some(block) = lower.then(|| self.allocate(period, false)).flatten() else { return Ok(()) };
        self.disk.write(block, Content::Frame(frame, version));
        self.free(old, period - 1);
        let now = &mut self.writer.as_mut().expect("as above").frames[frame];
        (now.live, now.kind) = (Some((block, version)), Kind::Period);
        self.saw("moves");
        Ok(())
    }

    /// Cuts free blocks off the end.
    fn cut(&mut self) {
        let early = self.has(Bug::CutEarly);
        let writer = self.writer.as_mut().expect("it cuts");
        let length = self.disk.length.view();
        let mut end = length;
        let live = |block: Block| writer.frames.iter().any(|frame| frame.live.is_some_and(|live| live.0 == block));
        while end > 1 {
            let block = end - 1;
            let is_free =
                if early { !live(block) && block != writer.header.block } else { writer.free & 1 << block != 0 };
            if !is_free {
                break;
            }
            end -= 1;
        }
        if end < length && writer.checkpoint.is_none() && writer.from.is_none() {
            self.disk.length.write(end);
            self.disk.blocks[usize::from(end)..].iter_mut().for_each(|cell| cell.write(Content::Nothing));
            self.saw("cuts");
        }
    }

    // --- steps of a checkpoint ---

    fn freeze(&mut self) {
        let node_blocks = 1;
        let unreserved = self.has(Bug::Unreserved);
        let writer = self.writer.as_mut().expect("it checkpoints");
        let number = writer.begun + 1;
        let old = writer.header.node.map;
        let mut frozen = Vec::new();
        let mut reserved = node_blocks;
        for (frame, now) in writer.frames.iter().enumerate() {
            if now.dirty {
                frozen.push((frame, None));
                reserved += 1;
            } else if now.live != old[frame] {
                frozen.push((frame, now.live));
            }
        }
        let from = writer.from.unwrap_or(0);
        let free = (from..BLOCKS as Block).filter(|block| writer.free & 1 << block != 0).count();
        if free < reserved && !unreserved {
            self.saw("checkpoints without room");
            return;
        }
        for now in &mut writer.frames {
            now.frozen = now.dirty;
            now.kind = Kind::Old;
        }
        writer.begun = number;
        writer.copied = false;
        writer.checkpoint =
            Some(Checkpoint { number, phase: Phase::Frames, frozen, writing: None, header: None, reserved });
        self.log.last = number;
        let now = self.now();
        self.expected.insert(number, now);
    }

    fn write_frozen(&mut self) -> Outcome {
        let thaws = self.has(Bug::ThawedEarly);
        let writer = self.writer.as_mut().expect("it checkpoints");
        let checkpoint = writer.checkpoint.as_mut().expect("it is in progress");
        let number = checkpoint.number;
        let index = checkpoint.frozen.iter().position(|(_, place)| place.is_none());
        let Some(index) = index else { return self.write_node() };
        let frame = checkpoint.frozen[index].0;
        if let Some((block, _)) = checkpoint.writing.take() {
            // The write returns. It wrote what the memory has by now.
            let now = &mut writer.frames[frame];
            let saved = now.saved.take();
            let version = saved.or(now.resident).unwrap_or(0);
            checkpoint.frozen[index].1 = Some((block, version));
            now.frozen = false;
            let old = now.live;
            now.live = Some((block, version));
            now.kind = Kind::Old;
            if now.resident == Some(version) {
                now.dirty = false;
            }
            self.disk.write(block, Content::Frame(frame, version));
            if let Some((old, _)) = old {
                self.free(old, number - 1);
            }
            return Ok(());
        }
        let version = writer.frames[frame].saved.or(writer.frames[frame].resident).unwrap_or(0);
        let Some(block) = self.allocate(number, true) else {
            return Err("a checkpoint that has begun has no room".into());
        };
        let writer = self.writer.as_mut().expect("as above");
        writer.checkpoint.as_mut().expect("as above").writing = Some((block, version));
        if thaws {
            writer.frames[frame].frozen = false;
        }
        Ok(())
    }

    fn write_node(&mut self) -> Outcome {
        let (live_map, live_bitmap, one_home) =
            (self.has(Bug::MapIsLive), self.has(Bug::BitmapIsLive), self.has(Bug::OneBitmapHome));
        let number = self.writer.as_ref().and_then(|w| w.checkpoint.as_ref()).expect("it is in progress").number;
        let Some(block) = self.allocate(number, true) else {
            return Err("a checkpoint that has begun has no room for its tree".into());
        };
        let writer = self.writer.as_mut().expect("as above");
        let checkpoint = writer.checkpoint.as_mut().expect("as above");
        let mut map = writer.header.node.map;
        for (frame, place) in &checkpoint.frozen {
            map[*frame] = *place;
        }
        let live = writer.frames.map(|frame| frame.live);
        if live_map {
            map = live;
        }
        let counted = if live_bitmap { live } else { map };
        let used = counted.iter().flatten().fold(1u16 << block, |used, (block, _)| used | 1 << block);
        let bitmap = Bitmap { number, used };
        let home = if one_home { writer.header.node.home } else { 1 - writer.header.node.home };
        let node = Node { map, home, bitmap };
        checkpoint.header = Some(Header { number, block, node, length: 0 });
        checkpoint.phase = Phase::NodeWritten;
        let old = writer.header.block;
        self.disk.homes[usize::from(home)].write(bitmap);
        self.disk.write(block, Content::Node(node));
        self.free(old, number - 1);
        Ok(())
    }

    fn step_checkpoint(&mut self, random: &mut Random) -> Outcome {
        let (before_data, after_failure, one_slot, unsynced, copies_early) = (
            self.has(Bug::HeaderBeforeData),
            self.has(Bug::HeaderAfterFailure),
            self.has(Bug::OneHeaderSlot),
            self.has(Bug::ReleasedUnsynced),
            self.has(Bug::CopiedUnsynced),
        );
        let writer = self.writer.as_mut().expect("it checkpoints");
        let slot = if one_slot { writer.slot } else { 1 - writer.slot };
        let checkpoint = writer.checkpoint.as_mut().expect("it is in progress");
        match checkpoint.phase {
            Phase::Frames => self.write_frozen()?,
            Phase::NodeWritten => {
                checkpoint.phase = Phase::DataSynced;
                if before_data {
                    return Ok(()); // the sync of the header is to make all durable
                }
                if random.percent(5) {
                    self.disk.fail_sync();
                    writer.poisoned = !after_failure;
                    self.saw("failed syncs");
                } else {
                    self.disk.sync();
                }
            }
            Phase::DataSynced => {
                checkpoint.phase = Phase::HeaderWritten;
                let (number, header) = (checkpoint.number, checkpoint.header);
                self.disk.headers[slot].write(header);
                if copies_early {
                    self.disk.headers[1 - slot].write(header);
                }
                if unsynced {
                    self.release(number);
                }
            }
            Phase::HeaderWritten => {
                if random.percent(5) {
                    self.disk.fail_sync();
                    writer.poisoned = true;
                    self.saw("failed syncs");
                    return Ok(());
                }
                checkpoint.phase = Phase::HeaderSynced;
                let number = checkpoint.number;
                writer.header = checkpoint.header.expect("it was written");
                writer.slot = slot;
                writer.has_checkpoint = true;
                self.disk.sync();
                // The log's earlier segments are released.
                let gone = self.log.records.iter().take_while(|record| record.segment < number).count();
                self.log.records.drain(..gone);
                self.log.synced = self.log.synced.saturating_sub(gone);
                self.before += gone;
                self.log.first = number;
                self.release(number);
                self.saw("checkpoints");
            }
            Phase::HeaderSynced => {
                let header = writer.header;
                self.disk.headers[1 - writer.slot].write(Some(header));
                writer.copied = true;
                writer.checkpoint = None;
            }
        }
        Ok(())
    }

    fn replay_one(&mut self) -> Outcome {
        let writer = self.writer.as_mut().expect("it replays");
        let record = writer.replay.remove(0);
        self.load(record.frame)?;
        let now = &mut self.writer.as_mut().expect("as above").frames[record.frame];
        now.resident = Some(record.version);
        now.dirty = true;
        self.saw("records replayed");
        self.end_replay();
        Ok(())
    }

    /// Once the log is replayed, all blocks may be written that neither the checkpoint nor the log has.
    fn end_replay(&mut self) {
        let ignores_logged = self.has(Bug::LoggedFreeAfterReplay);
        let writer = self.writer.as_mut().expect("it replays");
        if !writer.replay.is_empty() || writer.from.take().is_none() || ignores_logged {
            return;
        }
        let number = writer.header.number;
        let records = self.log.records.iter().filter(|record| record.segment >= number);
        for block in records.filter_map(|record| record.stored) {
            let waiting = writer.waiting.iter().position(|waiting| waiting.block == block);
            if let Some(at) = waiting {
                writer.waiting[at].death = number;
            } else if writer.free & 1 << block != 0 {
                writer.free &= !(1 << block);
                writer.waiting.push(Waiting { block, birth: 0, death: number });
            }
        }
    }

    // --- walks ---

    /// Takes one step.
    fn step(&mut self, random: &mut Random) -> Outcome {
        let frame = random.below(FRAMES);
        let syncs_replayed = self.has(Bug::ReplayedSynced);
        let Some(writer) = &mut self.writer else { return self.open() };
        match random.below(100) {
            0..2 => return self.crash(false, random),
            2..4 => return self.crash(true, random),
            4 if !self.failed && random.percent(30) => return self.fail_disk(random),
            5..9 if self.held.len() < 2 => {
                // A reader uses the header that the cache shows.
                let (_, header) = self.disk.newest().ok_or("a reader finds no header")?;
                self.held.push(header);
                self.saw("readers");
            }
            9..14 if !self.held.is_empty() => {
                self.held.remove(0);
                let durable = writer.header.number;
                if !writer.opening {
                    self.release(durable);
                }
            }
            _ if writer.opening => {
                writer.opening = false;
                self.disk.sync();
                self.disk.headers[1 - writer.slot].write(Some(writer.header));
                self.end_replay();
            }
            14..30 if writer.checkpoint.is_some() && !writer.poisoned => return self.step_checkpoint(random),
            30..45 => self.evict(frame),
            _ if !writer.replay.is_empty() => return self.replay_one(),
            45..50 => return self.load(frame),
            50..54 if !writer.poisoned => return self.move_down(frame),
            54..57 if !writer.poisoned => self.cut(),
            57..70 if !writer.poisoned => self.write(frame, random.percent(25)),
            // Until a checkpoint of this handle is durable, a sync is a checkpoint: after a failed sync of an earlier
            // handle, the system may treat values that the log refers to as written.
            70..75 if !writer.poisoned && (writer.has_checkpoint || syncs_replayed) => {
                // The file first, for the values that the log refers to.
                self.disk.sync();
                self.log.synced = self.log.records.len();
            }
            75..82 if writer.checkpoint.is_none() && !writer.poisoned => self.freeze(),
            82..100 if writer.checkpoint.is_some() && !writer.poisoned => return self.step_checkpoint(random),
            _ => {}
        }
        Ok(())
    }

    /// Makes the disk fail in ways that only checksums detect: a lost write of a bitmap, or a header that rots.
    fn fail_disk(&mut self, random: &mut Random) -> Outcome {
        let Some(writer) = &self.writer else { return Ok(()) };
        let written = writer.checkpoint.as_ref().filter(|checkpoint| checkpoint.phase == Phase::NodeWritten);
        if let Some(header) = written.and_then(|checkpoint| checkpoint.header) {
            self.disk.homes[usize::from(header.node.home)].unsynced.clear();
            self.failed = true;
            self.saw("lost writes");
        } else if random.percent(50) && writer.checkpoint.is_none() && !writer.opening {
            let slot = writer.slot;
            self.disk.headers[slot] = Cell::new(None);
            (self.failed, self.rotted) = (true, true);
            self.saw("headers that rot");
            return self.crash(false, random);
        }
        Ok(())
    }

    fn walk(&mut self, steps: usize, random: &mut Random) -> Outcome {
        for step in 0..steps {
            match self.step(random) {
                Err(e) if e.is_empty() => return Ok(()), // damage, rightly noticed
                stepped => stepped.map_err(|e| format!("step {step}: {e}"))?,
            }
            if self.next > 900 || self.writer.as_ref().is_some_and(|writer| writer.begun > 200) {
                return Ok(());
            }
            self.check(random).map_err(|e| format!("step {step}: {e}"))?;
        }
        Ok(())
    }
}

/// Returns the first violation in `walks` walks, with its seed.
fn search(bug: Option<Bug>, walks: u64, seen: &mut BTreeMap<&'static str, usize>) -> Option<(u64, String)> {
    for seed in 0..walks {
        let mut world = World::new(bug);
        let outcome = world.walk(250, &mut Random::new(&[seed, 54]));
        for (what, count) in world.seen {
            *seen.entry(what).or_default() += count;
        }
        if let Err(e) = outcome {
            return Some((seed, e));
        }
    }
    None
}

#[test]
fn no_walk_finds_a_block_overwritten_that_is_still_needed() {
    let mut seen = BTreeMap::new();
    let found = search(None, 4000, &mut seen);
    assert_eq!(found, None);
    println!("{seen:?}");
    let all = ["kills", "power losses", "opens", "values stored", "evictions of changed frames", "moves", "cuts"];
    let more =
        ["checkpoints", "checkpoints without room", "failed syncs", "records replayed", "readers", "lost writes"];
    for what in all.iter().chain(&more).chain(&["headers that rot"]) {
        assert!(seen.get(what).is_some_and(|count| *count > 50), "{what}: {seen:?}");
    }
}

#[test]
fn each_broken_rule_is_found() {
    let missed: Vec<Bug> =
        BUGS.into_iter().filter(|bug| search(Some(*bug), 20_000, &mut BTreeMap::new()).is_none()).collect();
    assert_eq!(missed, []);
}
