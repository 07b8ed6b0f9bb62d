//! Explores the life of a frame: every state that `state.rs` allows, in every order, with contents compared.
//!
//! The model has one frame, with its memory, its location in the file, in the shadow file and in a checkpoint's
//! journal. Contents are tokens, two per frame, since a change may affect only a part. A step is what one thread does
//! under one hold of the frame's latch, or between two accesses to shared state; the transitions are those of [`Word`].
//! Writers, a reader, the clock hand, the spiller, a checkpoint, and a compaction that cuts the file take their steps
//! in any order. Backups, readers in other processes and power losses need no steps of their own: after each step the
//! file must equal the last complete checkpoint, once its complete journal is installed, and must have what the log
//! refers to.
//!
//! Not here: how the steps are implemented (`pool/mod.rs`, `pager/`); `table/tests/interleavings.rs` and
//! `tests/it/contents.rs` run those.

use super::state::{Change, FrozenFrame, Parity, Unused, Word};
use std::collections::{HashMap, VecDeque};

type Token = u8;
type Content = [Token; 2];

const ZERO: Token = 0;
/// The content of undefined memory, which no one may see.
const GARBAGE: Token = 254;
/// A content that does not matter: the room is free.
const ANY: Token = 255;

/// The abilities of a kind of table.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Whether values may be written through.
    through: bool,
    /// Whether new frames are spilled to their locations in the file.
    in_place: bool,
    /// Whether the table has checkpoints.
    checkpoints: bool,
}

const KINDS: [Kind; 3] = [
    Kind { through: true, in_place: false, checkpoints: true },
    Kind { through: false, in_place: true, checkpoints: true },
    Kind { through: false, in_place: true, checkpoints: false },
];

/// The progress of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// It has a number, so nothing is spilled any more.
    Numbered,
    Frozen,
    /// The frame is in the shadow file, and must be read from there.
    ToReadShadow,
    /// The frame's content has been saved by a writer.
    ToTakePreserved,
    Copied,
    /// Its journal is complete: from here on this is the last checkpoint.
    Complete,
    Installed,
    /// The frame is marked as being in the file.
    Told,
    /// The shadow file is empty.
    Emptied,
}

/// The progress of the spiller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Spiller {
    Idle,
    Latched,
    /// It may spill the frame: to the shadow file if true, else to the table's file.
    Decided(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    word: Word,
    epoch: u32,
    /// The frame's own memory.
    memory: Content,
    /// Whether that memory is in a window: the file's own page, until it is stored to.
    in_window: bool,
    /// The buffer that the frame is in.
    buffer: Content,
    file: Content,
    shadow: Content,
    /// The tokens that writers have stored; `ANY` for parts that are free.
    live: Content,
    /// Whether the frame is part of the table.
    in_table: bool,
    /// Whether the frame is below the end of the file, as reads see it.
    in_file_frames: bool,
    /// Whether the frame is in the list for the next checkpoint, and in that for the running one.
    listed: [bool; 2],
    /// The last complete checkpoint, if it has the frame.
    last: Option<Content>,
    /// The running checkpoint.
    phase: Phase,
    frozen: Option<Content>,
    /// The tokens that the running checkpoint writes, and whether to the journal. `None`: the frame did not change.
    copied: Option<(Content, bool)>,
    preserved: Option<Content>,
    spiller: Spiller,
    /// The tokens that a reader with a shared latch found.
    held: Option<Content>,
    /// Tokens that the log refers to: those of this period, and those of the period before the running checkpoint.
    referred: [[Option<Token>; 2]; 2],
    /// Whether frames may be written through in this period.
    through_on: bool,
    /// Whether the checkpoint has the checksum of bytes other than those in the file.
    wrong_sum: bool,
    /// The content whose checksum was stored when the frame was spilled.
    summed: Option<Content>,
}

/// Whether `found` equals `expected`, except for parts that may be anything.
fn fits(found: Content, expected: Content) -> bool {
    found.iter().zip(expected).all(|(&found, expected)| expected == ANY || found == expected)
}

impl State {
    fn new(kind: Kind) -> State {
        State {
            word: Word::default(),
            epoch: 0,
            memory: [ZERO; 2],
            in_window: false,
            buffer: [GARBAGE; 2],
            file: [ZERO; 2],
            shadow: [GARBAGE; 2],
            live: [ANY; 2],
            in_table: true,
            in_file_frames: false,
            listed: [false; 2],
            last: None,
            phase: Phase::Idle,
            frozen: None,
            copied: None,
            preserved: None,
            spiller: Spiller::Idle,
            held: None,
            referred: [[None; 2]; 2],
            through_on: kind.through,
            wrong_sum: false,
            summed: None,
        }
    }

    fn now(&self) -> Parity {
        Parity::of(self.epoch)
    }

    fn bytes(&mut self) -> &mut Content {
        if self.word.is_buffered() { &mut self.buffer } else { &mut self.memory }
    }

    /// An unused token.
    fn new_token(&self) -> Token {
        let all = self.tokens();
        (1..GARBAGE).find(|token| !all.contains(token)).expect("fewer tokens than that")
    }

    fn tokens(&self) -> Vec<Token> {
        let copied = self.copied.map(|(content, _)| content);
        let optional = [self.last, self.frozen, copied, self.preserved, self.held, self.summed];
        let contents = [self.memory, self.buffer, self.file, self.shadow, self.live];
        let referred = self.referred.iter().flatten().flatten().copied();
        contents.into_iter().chain(optional.into_iter().flatten()).flatten().chain(referred).collect()
    }

    /// The representative of all states that differ only in what no step can observe: versions, second chances, the
    /// names of tokens, and leftover bytes in places that are not in use.
    fn canonical(mut self) -> State {
        if self.word.has_old_memory() && (!self.word.is_resident() || self.word.is_buffered()) {
            self.memory = [GARBAGE; 2];
        }
        if !self.word.is_shadowed() && self.phase != Phase::ToReadShadow {
            self.shadow = [GARBAGE; 2];
        }
        if !self.word.is_spilled() {
            self.summed = None;
        }
        let is_in_file =
            self.last.is_some() || self.in_file_frames || self.word.is_spilled() || self.phase != Phase::Idle;
        for part in 0..2 {
            let is_referred = self.referred.iter().any(|period| period[part].is_some());
            if !is_in_file && !is_referred && self.file[part] != ZERO {
                self.file[part] = GARBAGE;
            }
        }
        let mut names = HashMap::new();
        for token in self.tokens() {
            if token != ZERO && token < GARBAGE {
                let next = names.len() as Token + 1;
                names.entry(token).or_insert(next);
            }
        }
        let rename = |token: &mut Token| *token = names.get(token).copied().unwrap_or(*token);
        let contents = [&mut self.memory, &mut self.buffer, &mut self.file, &mut self.shadow, &mut self.live];
        contents.into_iter().flatten().for_each(rename);
        let optional = [&mut self.last, &mut self.frozen, &mut self.preserved, &mut self.held, &mut self.summed];
        optional.into_iter().flatten().flatten().for_each(rename);
        self.copied.iter_mut().flat_map(|(content, _)| content).for_each(rename);
        self.referred.iter_mut().flatten().flatten().for_each(rename);
        self.word = self.word.without_history();
        self.epoch &= 1;
        self
    }

    // The parts of steps, as in `mod.rs`.

    /// Takes the exclusive latch.
    fn latch(mut self) -> Option<State> {
        self.word = self.word.exclusive()?.used();
        Some(self)
    }

    fn release(mut self) -> State {
        self.word = self.word.released();
        self
    }

    /// `Pool::move_to_buffer`; `buffers`: a buffer is free.
    fn move_to_buffer(mut self, buffers: bool) -> State {
        if let Some(next) = self.word.to_buffer().filter(|_| buffers) {
            self.word = next;
            self.buffer = [GARBAGE; 2];
        }
        self
    }

    /// `Pool::make_resident`.
    fn load(mut self, buffers: bool) -> State {
        if self.word.is_resident() {
            return self;
        }
        self = self.move_to_buffer(buffers);
        let source = if self.word.is_shadowed() {
            Some(self.shadow)
        } else {
            (self.in_file_frames || self.word.is_spilled()).then_some(self.file)
        };
        match source {
            Some(content) => *self.bytes() = content,
            None if self.word.is_buffered() || self.word.has_old_memory() => *self.bytes() = [ZERO; 2],
            None => {} // the memory is zero already; readers of what is new compare
        }
        self.word = self.word.loaded();
        self
    }

    /// `Pool::latch_to_replace`, after it has taken the latch.
    fn load_to_replace(self, whole: bool, buffers: bool) -> State {
        if self.word.may_be_replaced_unread(self.now(), whole) { self } else { self.load(buffers) }
    }

    /// `Pool::apply`.
    fn apply(mut self, change: Change) -> State {
        if change.preserve {
            assert_eq!(self.preserved, None, "preserved twice");
            self.preserved = Some(*self.bytes());
        }
        self.word = change.next;
        if change.list {
            self.listed[0] = true;
        }
        self
    }

    /// `Pool::mark_dirty`.
    fn dirty(self) -> State {
        if self.word.is_to_be_dirtied(self.now()) { self.apply(self.word.dirtied(self.now())) } else { self }
    }

    /// Takes the latch of a frame that may lose its memory.
    fn latch_unused(mut self, wanted: Option<Unused>) -> Option<(State, bool)> {
        let (word, latched) = match wanted? {
            Unused::Latched(word) => (word, true),
            Unused::Spared(word) => (word, false),
        };
        self.word = word;
        Some((self, latched))
    }

    /// Releases the frame's memory or its buffer, by setting `absent`.
    fn leave_memory(mut self, absent: Word) -> State {
        if self.word.is_buffered() {
            self.buffer = [GARBAGE; 2]; // another frame's, from here on
        }
        self.word = absent;
        self
    }

    fn is_checkpoint_running(&self) -> bool {
        self.phase != Phase::Idle
    }

    // The steps.

    /// All steps that are possible next.
    fn steps(&self, kind: Kind) -> Vec<(&'static str, State)> {
        let mut steps = Vec::new();
        let mut add = |name, next: Option<State>| {
            if let Some(next) = next {
                steps.push((name, next));
            }
        };
        for buffers in [false, true] {
            add("replace", self.replace(buffers));
            add("change the first part", self.change(0, buffers));
            add("read", self.read(buffers));
            if kind.through {
                add("change the second part", self.change(1, buffers));
                add("write through", self.write_through(&[0, 1], buffers));
                add("write the first part through", self.write_through(&[0], buffers));
            }
        }
        add("fail to write through", self.fail_to_write_through());
        add("free", self.free());
        // A held latch only keeps others out, whatever is written through: once is enough.
        if !kind.through {
            add("hold", self.hold());
            add("let go", self.let_go());
        }
        if kind.through {
            add("open a window", self.open_window());
            add("replace a window", self.replace_window());
        }
        add("return memory", self.return_memory());
        add("evict", self.evict());
        add("cut", self.cut(kind));
        add("extend", self.extend());
        self.spill(kind).into_iter().for_each(|next| add("spill", Some(next)));
        if kind.checkpoints {
            add("checkpoint", self.checkpoint(kind));
        }
        steps
    }

    /// `Frames::write_fresh`, then a change of the whole frame.
    fn replace(self, buffers: bool) -> Option<State> {
        if !self.in_table || self.referred[0] != [None; 2] {
            return None;
        }
        let mut next = self.latch()?.load_to_replace(true, buffers).move_to_buffer(buffers);
        next.word = next.word.loaded();
        next = next.dirty();
        let token = next.new_token();
        *next.bytes() = [token; 2];
        next.live = [token; 2];
        Some(next.release())
    }

    /// `Frames::write`, then a change of a part of the frame.
    fn change(self, part: usize, buffers: bool) -> Option<State> {
        // Units that the log refers to in this period are not reused.
        if !self.in_table || self.referred[0][part].is_some() {
            return None;
        }
        let mut next = self.latch()?.load(buffers).dirty();
        let token = next.new_token();
        next.bytes()[part] = token;
        next.live[part] = token;
        Some(next.release())
    }

    fn read(self, buffers: bool) -> Option<State> {
        if !self.in_table {
            return None;
        }
        let next = if self.word.is_resident() { self } else { self.latch()?.load(buffers).release() };
        next.word.read()?;
        Some(next)
    }

    /// A reader takes its latch and keeps it.
    fn hold(mut self) -> Option<State> {
        if self.held.is_some() || !self.in_table {
            return None;
        }
        self.word = self.word.read()?;
        self.held = Some(*self.bytes());
        Some(self)
    }

    fn let_go(mut self) -> Option<State> {
        self.held.take()?;
        self.word = self.word.without_reader();
        Some(self)
    }

    /// `Values::map_window`, whose frames were never used.
    fn open_window(mut self) -> Option<State> {
        let is_new = self.last.is_none() && self.in_table && !self.in_file_frames && self.through_on;
        let was_used = self.word.without_history() != Word::default() || self.live != [ANY; 2];
        if !is_new || was_used || self.in_window || self.frozen.is_some() {
            return None;
        }
        (self.in_window, self.memory) = (true, self.file);
        Some(self)
    }

    /// `Pool::own`, for a frame near this one: plain memory with the same bytes.
    fn replace_window(mut self) -> Option<State> {
        let in_window = std::mem::take(&mut self.in_window);
        in_window.then_some(self)
    }

    /// `Values::write_through` to room that is new in this period.
    fn write_through(self, parts: &[usize], buffers: bool) -> Option<State> {
        let is_new = self.last.is_none() && self.in_table && !self.in_file_frames && self.through_on;
        // The room of windows is used only for values, and only once in a period.
        let is_unused = parts.iter().all(|&part| self.live[part] == ANY && self.referred[0][part].is_none());
        // A frame that a checkpoint froze is not beyond the end of that checkpoint.
        if !is_new || !is_unused || self.frozen.is_some() {
            return None;
        }
        let mut next = self.latch()?.load_to_replace(parts.len() == 2, buffers);
        let now = next.now();
        next = next.apply(next.word.written_through(now, parts.len() == 2));
        let token = next.new_token();
        for &part in parts {
            next.file[part] = token;
            next.bytes()[part] = token;
            next.live[part] = token;
            next.referred[0][part] = Some(token);
        }
        Some(next.release())
    }

    /// A call that wrote a part and then failed: the room is free again.
    fn fail_to_write_through(mut self) -> Option<State> {
        let is_new = self.last.is_none() && self.in_table && !self.in_file_frames && self.through_on;
        if !is_new || self.live[1] != ANY || self.referred[0][1].is_some() || self.frozen.is_some() {
            return None;
        }
        self.file[1] = self.new_token();
        let differs = self.word.differing_from_file(self.now())?;
        Some(self.apply(differs))
    }

    fn free(mut self) -> Option<State> {
        self.live = [ANY; 2];
        Some(self)
    }

    fn evict(self) -> Option<State> {
        let (next, latched) = self.latch_unused(self.word.to_evict())?;
        Some(if latched { next.leave_memory(next.word.evicted()) } else { next })
    }

    /// The delayed part of `Pool::return_later`.
    fn return_memory(mut self) -> Option<State> {
        self.word = self.word.latch_absent().filter(|_| self.word.has_old_memory())?.returned(!self.in_window);
        self.memory = if self.in_window { self.file } else { [ZERO; 2] };
        Some(self)
    }

    /// `Frames::spill`.
    fn spill(self, kind: Kind) -> Option<State> {
        let mut next = self;
        match self.spiller {
            Spiller::Idle => {
                let (latched, is_latched) = self.latch_unused(self.word.to_spill(self.now()))?;
                next = latched;
                if is_latched {
                    next.spiller = Spiller::Latched;
                }
            }
            Spiller::Latched => {
                if self.is_checkpoint_running() || !self.in_table {
                    next.spiller = Spiller::Idle;
                    return Some(next.release());
                }
                let is_new = self.last.is_none();
                let to_shadow = if self.word.is_spilled() || !self.word.is_dirty() {
                    self.word.is_shadowed()
                } else {
                    kind.checkpoints && !(kind.in_place && is_new)
                };
                next.spiller = Spiller::Decided(to_shadow);
            }
            Spiller::Decided(to_shadow) => {
                if !self.word.is_spilled() {
                    let content = *next.bytes();
                    next.summed = Some(content);
                    if self.word.is_dirty() {
                        *(if to_shadow { &mut next.shadow } else { &mut next.file }) = content;
                    }
                }
                next = next.leave_memory(next.word.spilled(to_shadow));
                next.spiller = Spiller::Idle;
            }
        }
        Some(next)
    }

    /// A compaction cuts the frame, which is free, off the file. No writer and no checkpoint runs at the same time.
    fn cut(mut self, kind: Kind) -> Option<State> {
        let free = self.live == [ANY; 2] && self.referred[0] == [None; 2];
        if !self.in_table || !free || self.is_checkpoint_running() || self.spiller != Spiller::Idle {
            return None;
        }
        self.through_on = false;
        if kind.in_place && self.last.is_none() {
            self.file = [ZERO; 2];
        }
        self.in_file_frames = false;
        if self.word.is_spilled() {
            self.word = self.word.unspilled()?;
        }
        if let Some(latched) = self.word.to_forget(self.now()) {
            let buffered = self.word.is_buffered();
            self.word = latched;
            self = self.leave_memory(latched.forgotten());
            if !buffered {
                self.memory = [ZERO; 2];
            }
        }
        if self.in_window {
            (self.in_window, self.memory) = (false, [ZERO; 2]);
        }
        self.in_table = false;
        Some(self)
    }

    fn extend(mut self) -> Option<State> {
        if self.in_table {
            return None;
        }
        self.in_table = true;
        Some(self)
    }

    /// The next step of a checkpoint: the steps are those of `Checkpointer::freeze` and `write_checkpoint`, in their
    /// order.
    fn checkpoint(mut self, kind: Kind) -> Option<State> {
        match self.phase {
            Phase::Idle => self.phase = Phase::Numbered,
            Phase::Numbered => {
                assert_eq!((self.preserved, self.listed[1]), (None, false));
                self.frozen = self.in_table.then_some(self.live);
                self.listed = [false, self.listed[0]];
                self.referred = [[None; 2], self.referred[0]];
                self.epoch += 1;
                self.phase = Phase::Frozen;
            }
            Phase::Frozen if !self.listed[1] || self.frozen.is_none() => {
                if self.listed[1] {
                    self.word = self.word.thawed(self.now())?;
                }
                self.preserved = None;
                self.phase = Phase::Copied;
            }
            Phase::Frozen => {
                self.word.shared()?;
                let content = self.word.frozen_content(self.now());
                let direct = self.last.is_none();
                let bytes = *self.bytes();
                self.word = self.word.copied(self.now());
                self.phase = Phase::Copied;
                match content {
                    FrozenFrame::InFile if direct => {
                        self.copied = Some((self.file, false));
                        self.wrong_sum = bytes != self.file;
                    }
                    FrozenFrame::InFile | FrozenFrame::InMemory => self.copied = Some((bytes, !direct)),
                    FrozenFrame::Spilled => self.copied = Some((self.file, false)),
                    FrozenFrame::Shadowed => self.phase = Phase::ToReadShadow,
                    FrozenFrame::Preserved => self.phase = Phase::ToTakePreserved,
                }
            }
            Phase::ToReadShadow => {
                self.copied = Some((self.shadow, self.last.is_some()));
                self.phase = Phase::Copied;
            }
            Phase::ToTakePreserved => {
                let preserved = self.preserved.take().unwrap_or([GARBAGE; 2]); // which no one may see
                self.copied = Some((preserved, self.last.is_some()));
                self.phase = Phase::Copied;
            }
            Phase::Copied => {
                if let Some((content, false)) = self.copied {
                    self.file = content; // new frames are written, and synced, before the journal is complete
                }
                self.phase = Phase::Complete;
            }
            Phase::Complete => {
                if let Some((content, true)) = self.copied {
                    self.file = content;
                }
                if self.frozen.is_none() && !self.through_on {
                    self.file = [ZERO; 2]; // the file is cut at the end of the checkpoint
                }
                self.phase = Phase::Installed;
            }
            Phase::Installed => {
                self.in_file_frames = self.frozen.is_some();
                if self.copied.is_some() {
                    self.word = self.word.in_file()?;
                }
                self.phase = Phase::Told;
            }
            Phase::Told => {
                self.shadow = [GARBAGE; 2];
                self.phase = Phase::Emptied;
            }
            Phase::Emptied => {
                self.last = self.frozen.take();
                (self.copied, self.listed[1], self.phase) = (None, false, Phase::Idle);
                self.referred[1] = [None; 2];
                self.through_on = kind.through;
            }
        }
        Some(self)
    }

    /// Checks what must hold after each step.
    fn check(&self) -> Result<(), String> {
        let counts = matches!(self.phase, Phase::Complete | Phase::Installed | Phase::Told | Phase::Emptied);
        let (expected, found) = match self.copied {
            Some((content, true)) if counts => (self.frozen, content),
            _ if counts => (self.frozen, self.file),
            _ => (self.last, self.file),
        };
        if let Some(summed) = self.summed.filter(|_| self.word.is_spilled() && !self.word.is_shadowed())
            && summed != self.file
        {
            return Err(format!("the file has {:?}, with the checksum of {summed:?}", self.file));
        }
        if self.wrong_sum {
            return Err(format!("the checkpoint has the checksum of {:?}, the file {:?}", self.memory, self.file));
        }
        if let Some(expected) = expected
            && !fits(found, expected)
        {
            return Err(format!("a power loss finds {found:?} instead of {expected:?}"));
        }
        if let (Some((content, _)), Some(frozen)) = (self.copied, self.frozen)
            && !fits(content, frozen)
        {
            return Err(format!("the checkpoint has {content:?} instead of {frozen:?}"));
        }
        for (part, token) in self.referred.iter().flat_map(|period| period.iter().enumerate()) {
            if token.is_some_and(|token| self.file[part] != token) {
                return Err(format!("the log refers to {token:?}, where the file has {:?}", self.file[part]));
            }
        }
        let mut state = *self;
        if self.word.is_resident() && self.in_table && !fits(*state.bytes(), self.live) {
            return Err(format!("memory has {:?} instead of {:?}", state.bytes(), self.live));
        }
        if let Some(held) = self.held
            && (!self.word.is_resident() || *state.bytes() != held)
        {
            return Err(format!("what a reader holds changed from {held:?} to {:?}", state.bytes()));
        }
        if self.in_table && !self.word.is_resident() && !self.word.is_latched() {
            let mut loaded = self.load(true);
            if !fits(*loaded.bytes(), self.live) {
                return Err(format!("a read finds {:?} instead of {:?}", loaded.bytes(), self.live));
            }
        }
        Ok(())
    }
}

/// Visits every reachable state. Returns their number, or the steps that lead to a wrong one.
fn explore(kind: Kind) -> Result<usize, String> {
    let start = State::new(kind).canonical();
    let mut before: HashMap<State, Option<(State, &'static str)>> = HashMap::from([(start, None)]);
    let mut queue = VecDeque::from([start]);
    while let Some(state) = queue.pop_front() {
        for (name, next) in state.steps(kind) {
            let next = next.canonical();
            if before.contains_key(&next) {
                continue;
            }
            before.insert(next, Some((state, name)));
            if let Err(what) = next.check() {
                let mut names = Vec::new();
                let mut at = next;
                while let Some((earlier, name)) = before[&at] {
                    names.push(name);
                    at = earlier;
                }
                names.reverse();
                return Err(format!("{kind:?}: {what}, after: {}. {next:?}", names.join(", ")));
            }
            queue.push_back(next);
        }
    }
    Ok(before.len())
}

#[test]
fn every_state_of_a_frame_in_every_order_has_its_contents() {
    for kind in KINDS {
        let states = explore(kind).unwrap_or_else(|what| panic!("{what}"));
        println!("{states} states, {kind:?}");
        assert!(states > 100, "{states}");
    }
}
