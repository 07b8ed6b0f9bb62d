//! Explores the life of a frame: every state that `state.rs` allows, in every order, with contents compared.
//!
//! The model has one frame with its memory, and its block in each of three maps: the live one, that of the running
//! checkpoint and that of the last one. Contents are two tokens per frame, since a change may affect only a part. A
//! step is what one thread does while it holds the frame's latch once, or between two accesses to shared state; the
//! transitions are those of [`Word`]. Writers, a reader, the clock hand, an eviction of a dirty frame, a checkpoint,
//! and a compaction that cuts the file take their steps in any order.
//!
//! Not here: which blocks are used again, and power losses (`blocks/model.rs`); how the steps are implemented
//! (`pool/mod.rs`, `pager/`); `table/tests/interleavings.rs` and `tests/it/contents.rs` run those.

use super::state::{Change, FrozenFrame, Parity, Unused, Word};
use std::collections::{HashMap, VecDeque};

type Token = u8;
type Content = [Token; 2];

const ZERO: Token = 0;
/// The content of undefined memory, which no one may see.
const GARBAGE: Token = 254;
/// Content that does not matter: the space is free.
const ANY: Token = 255;

/// The abilities of a kind of table.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Whether the table has checkpoints: a table in memory and a handle that only reads have none.
    checkpoints: bool,
}

const KINDS: [Kind; 2] = [Kind { checkpoints: true }, Kind { checkpoints: false }];

/// The progress of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Frozen,
    /// The content was copied from memory.
    Copied(Content),
    /// Its block has this content.
    InBlock(Content),
    /// A writer has saved the frame's content.
    ToTakePreserved,
    /// All frames are in blocks.
    Written,
}

/// The progress of the eviction of a dirty frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Eviction {
    Idle,
    Latched,
    /// A block has this content.
    InBlock(Content),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    word: Word,
    epoch: u32,
    /// The frame's own memory.
    memory: Content,
    /// The buffer that the frame is in.
    buffer: Content,
    /// The content that the live map leads to; `Some(None)` if the frame has been cut off since.
    live: Option<Option<Content>>,
    /// The content that the map of the running checkpoint leads to; `Some(None)` as for `live`.
    frozen: Option<Option<Content>>,
    /// The content that the last checkpoint has.
    last: Option<Content>,
    /// The tokens that writers have stored; `ANY` for parts that are free.
    expected: Content,
    /// The expected tokens of the running checkpoint, if it has the frame.
    expected_frozen: Option<Content>,
    /// Whether the last checkpoint has other tokens than expected.
    is_wrong: bool,
    /// Whether the frame is part of the table.
    in_table: bool,
    /// Whether the frame is listed for the next checkpoint, and for the running one.
    listed: [bool; 2],
    phase: Phase,
    preserved: Option<Content>,
    eviction: Eviction,
    /// The tokens that a reader with a shared latch found.
    held: Option<Content>,
}

/// Whether `found` equals `expected`, except for parts that may be anything.
fn fits(found: Content, expected: Content) -> bool {
    found.iter().zip(expected).all(|(&found, expected)| expected == ANY || found == expected)
}

impl State {
    fn new() -> State {
        State {
            word: Word::default(),
            epoch: 0,
            memory: [ZERO; 2],
            buffer: [GARBAGE; 2],
            live: None,
            frozen: None,
            last: None,
            expected: [ANY; 2],
            expected_frozen: None,
            is_wrong: false,
            in_table: true,
            listed: [false; 2],
            phase: Phase::Idle,
            preserved: None,
            eviction: Eviction::Idle,
            held: None,
        }
    }

    fn now(&self) -> Parity {
        Parity::of(self.epoch)
    }

    fn bytes(&mut self) -> &mut Content {
        if self.word.is_buffered() { &mut self.buffer } else { &mut self.memory }
    }

    /// Returns an unused token.
    fn new_token(mut self) -> Token {
        let all: Vec<Token> = self.contents().into_iter().flat_map(|content| *content).collect();
        (1..GARBAGE).find(|token| !all.contains(token)).expect("fewer tokens than that")
    }

    /// Returns all contents of the state.
    fn contents(&mut self) -> Vec<&mut Content> {
        let copied = match &mut self.phase {
            Phase::Copied(content) | Phase::InBlock(content) => Some(content),
            _ => None,
        };
        let evicted = match &mut self.eviction {
            Eviction::InBlock(content) => Some(content),
            _ => None,
        };
        let maps = [self.live.as_mut().and_then(Option::as_mut), self.frozen.as_mut().and_then(Option::as_mut)];
        let optional = [
            self.last.as_mut(),
            self.expected_frozen.as_mut(),
            self.preserved.as_mut(),
            self.held.as_mut(),
            copied,
            evicted,
        ];
        let contents = [&mut self.memory, &mut self.buffer, &mut self.expected];
        contents.into_iter().chain(maps.into_iter().chain(optional).flatten()).collect()
    }

    /// Returns the representative of all states that differ only in what no step can observe: versions, second chances,
    /// the names of tokens, and leftover bytes in unused memory.
    fn canonical(mut self) -> State {
        if self.word.has_old_memory() && (!self.word.is_resident() || self.word.is_buffered()) {
            self.memory = [GARBAGE; 2];
        }
        if self.phase == Phase::Idle && self.live.is_some() {
            self.last = None; // the next checkpoint has what the live map has
        }
        let mut names = HashMap::new();
        for token in self.contents().into_iter().flatten() {
            if *token != ZERO && *token < GARBAGE {
                let next = names.len() as Token + 1;
                *token = *names.entry(*token).or_insert(next);
            }
        }
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

    /// Models `Pool::move_to_buffer`; `buffers` says whether a buffer is free.
    fn move_to_buffer(mut self, buffers: bool) -> State {
        if let Some(next) = self.word.to_buffer().filter(|_| buffers) {
            self.word = next;
            self.buffer = [GARBAGE; 2];
        }
        self
    }

    /// Models `Pool::make_resident`, which finds the block as `Map::entry` does.
    fn load(mut self, buffers: bool) -> State {
        if self.word.is_resident() {
            return self;
        }
        self = self.move_to_buffer(buffers);
        match self.live.or(self.frozen).unwrap_or(self.last) {
            Some(content) => *self.bytes() = content,
            None if self.word.is_buffered() || self.word.has_old_memory() => *self.bytes() = [ZERO; 2],
            None => {} // the memory is zero already; readers of what is new compare
        }
        self.word = self.word.loaded();
        self
    }

    /// Models `Pool::apply`.
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

    /// Models `Pool::mark_dirty`.
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

    // The steps.

    /// Returns all steps that are possible next.
    fn steps(&self, kind: Kind) -> Vec<(&'static str, State)> {
        let mut steps = Vec::new();
        let mut add = |name, next: Option<State>| {
            if let Some(next) = next {
                steps.push((name, next));
            }
        };
        for buffers in [false, true] {
            add("replace", self.replace(buffers));
            add("replace in the file", self.replace_in_file(buffers));
            add("change in the file", self.change_in_file(buffers, false));
            add("fail to change in the file", self.change_in_file(buffers, true));
            add("change a part", self.change(buffers));
            add("read", self.read(buffers));
        }
        add("free", self.free());
        add("hold", self.hold());
        add("let go", self.let_go());
        add("return memory", self.return_memory());
        add("evict", self.evict());
        add("evict a dirty frame", self.evict_dirty());
        add("cut", self.cut());
        add("extend", self.extend());
        if kind.checkpoints {
            add("checkpoint", self.checkpoint());
        }
        steps
    }

    /// Models `Frames::write_fresh`, then a change of the whole frame.
    fn replace(self, buffers: bool) -> Option<State> {
        if !self.in_table {
            return None;
        }
        let mut next = self.latch()?;
        if !next.word.may_be_replaced_unread(next.now()) {
            next = next.load(buffers);
        }
        next = next.move_to_buffer(buffers);
        next.word = next.word.loaded();
        next = next.dirty();
        let token = next.new_token();
        *next.bytes() = [token; 2];
        next.expected = [token; 2];
        Some(next.release())
    }

    /// Models `Pool::replace_in_file`, with a content that `Blocks::seal` notes.
    fn replace_in_file(self, buffers: bool) -> Option<State> {
        if !self.in_table {
            return None;
        }
        let mut next = self.latch()?;
        if !next.word.may_be_replaced_unread(next.now()) {
            next = next.load(buffers);
        }
        next = next.dirty();
        let token = next.new_token();
        (next.live, next.expected) = (Some(Some([token; 2])), [token; 2]);
        Some(next.discard_written())
    }

    /// Models `Values::write` in a frame that earlier values fill in part. If it `fails`, a part of the value is in the
    /// file, and the frame keeps its content in memory.
    fn change_in_file(mut self, buffers: bool, fails: bool) -> Option<State> {
        let now = self.now();
        let is_free = self.word.is_dirty() && self.word.is_written() && !self.word.is_frozen(now);
        let Some(Some(mut content)) = self.live.filter(|_| self.in_table && is_free) else { return None };
        self.word = self.word.exclusive()?;
        let before = content;
        content[0] = self.new_token();
        self.live = Some(Some(content));
        if fails {
            self = self.move_to_buffer(buffers);
            self.word = self.word.loaded();
            self = self.dirty();
            *self.bytes() = before;
            return Some(self.release());
        }
        self.expected[0] = content[0];
        Some(self.discard_written())
    }

    /// Models `Pool::discard_written`.
    fn discard_written(mut self) -> State {
        if self.word.is_resident() {
            return self.leave_memory(self.word.written());
        }
        self.word = self.word.written_unread();
        self
    }

    /// Models `Frames::write`, then a change of a part of the frame.
    fn change(self, buffers: bool) -> Option<State> {
        if !self.in_table {
            return None;
        }
        let mut next = self.latch()?.load(buffers).dirty();
        let token = next.new_token();
        next.bytes()[0] = token;
        next.expected[0] = token;
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

    /// Lets a reader take its latch and keep it.
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

    fn free(mut self) -> Option<State> {
        self.expected = [ANY; 2];
        Some(self)
    }

    fn evict(self) -> Option<State> {
        let (next, latched) = self.latch_unused(self.word.to_evict())?;
        Some(if latched { next.leave_memory(next.word.evicted()) } else { next })
    }

    /// Models the delayed part of `Pool::return_later`.
    fn return_memory(mut self) -> Option<State> {
        self.word = self.word.latch_absent().filter(|_| self.word.has_old_memory())?.returned();
        self.memory = [ZERO; 2];
        Some(self)
    }

    /// Models `Frames::write_and_evict`.
    fn evict_dirty(self) -> Option<State> {
        let mut next = self;
        match self.eviction {
            Eviction::Idle => {
                let (latched, is_latched) = self.latch_unused(self.word.to_write(self.now()))?;
                next = latched;
                if is_latched {
                    next.eviction = Eviction::Latched;
                }
            }
            Eviction::Latched if !self.in_table => {
                next.eviction = Eviction::Idle;
                return Some(next.release());
            }
            Eviction::Latched if self.word.is_written() => {
                next = next.leave_memory(next.word.written());
                next.eviction = Eviction::Idle;
            }
            Eviction::Latched => {
                let content = *next.bytes();
                // Overwrites the block to which the frame was evicted in this period.
                if let Some(block) = next.live.as_mut().and_then(Option::as_mut) {
                    *block = content;
                }
                next.eviction = Eviction::InBlock(content);
            }
            Eviction::InBlock(content) => {
                let is_frozen = next.word.is_frozen(next.now());
                *(if is_frozen { &mut next.frozen } else { &mut next.live }) = Some(Some(content));
                next = next.leave_memory(next.word.written());
                next.eviction = Eviction::Idle;
            }
        }
        Some(next)
    }

    /// Models a compaction that cuts the frame, which is free, off the file, while no writer and no checkpoint runs.
    fn cut(mut self) -> Option<State> {
        let is_free = self.expected == [ANY; 2];
        if !self.in_table || !is_free || self.phase != Phase::Idle || self.eviction != Eviction::Idle {
            return None;
        }
        if self.live.or(self.frozen).unwrap_or(self.last).is_some() {
            self.live = Some(None);
        }
        self.word = self.word.without_writer()?;
        if let Some(latched) = self.word.to_forget(self.now()) {
            let buffered = self.word.is_buffered();
            self.word = latched;
            self = self.leave_memory(latched.forgotten());
            if !buffered {
                self.memory = [ZERO; 2];
            }
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

    /// Takes the next step of a checkpoint. The steps are those of `Checkpointer::freeze` and `write_frames`, in order.
    fn checkpoint(mut self) -> Option<State> {
        match self.phase {
            Phase::Idle => {
                assert_eq!((self.preserved, self.listed[1], self.frozen), (None, false, None));
                self.expected_frozen = self.in_table.then_some(self.expected);
                self.frozen = self.live.take();
                self.listed = [false, self.listed[0]];
                self.epoch += 1;
                self.phase = Phase::Frozen;
            }
            Phase::Frozen if !self.listed[1] || self.expected_frozen.is_none() => {
                if self.listed[1] {
                    self.word = self.word.thawed(self.now())?;
                }
                self.phase = Phase::Written;
            }
            Phase::Frozen => {
                self.word.shared()?;
                self.phase = match self.word.frozen_content(self.now()) {
                    FrozenFrame::InMemory => Phase::Copied(*self.bytes()),
                    FrozenFrame::Written => {
                        self.word = self.word.in_block(self.now())?;
                        Phase::Written
                    }
                    FrozenFrame::Preserved => Phase::ToTakePreserved,
                };
            }
            Phase::ToTakePreserved => {
                self.phase = Phase::Copied(self.preserved.take().unwrap_or([GARBAGE; 2])); // which no one may see
            }
            Phase::Copied(content) => {
                self.frozen = Some(Some(content));
                self.phase = Phase::InBlock(content);
            }
            Phase::InBlock(_) => {
                self.word = self.word.in_block(self.now())?;
                self.phase = Phase::Written;
            }
            Phase::Written => {
                self.preserved = None;
                let content = self.frozen.take().unwrap_or(self.last);
                let expected = self.expected_frozen.take();
                self.last = content.filter(|_| expected.is_some());
                self.is_wrong = expected.is_some_and(|expected| !fits(self.last.unwrap_or_default(), expected));
                (self.listed[1], self.phase) = (false, Phase::Idle);
            }
        }
        Some(self)
    }

    /// Checks what must hold after each step.
    fn check(&self) -> Result<(), String> {
        if self.is_wrong {
            return Err(format!("the checkpoint has {:?}, which is wrong", self.last));
        }
        let mut state = *self;
        if self.word.is_resident() && self.in_table && !fits(*state.bytes(), self.expected) {
            return Err(format!("memory has {:?} instead of {:?}", state.bytes(), self.expected));
        }
        if let Some(held) = self.held
            && (!self.word.is_resident() || *state.bytes() != held)
        {
            return Err(format!("what a reader holds changed from {held:?} to {:?}", state.bytes()));
        }
        if self.in_table && !self.word.is_resident() && !self.word.is_latched() {
            let mut loaded = self.load(true);
            if !fits(*loaded.bytes(), self.expected) {
                return Err(format!("a read finds {:?} instead of {:?}", loaded.bytes(), self.expected));
            }
        }
        Ok(())
    }
}

/// Visits every reachable state. Returns their number, or the steps that lead to a wrong one.
fn explore(kind: Kind) -> Result<usize, String> {
    let start = State::new().canonical();
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
