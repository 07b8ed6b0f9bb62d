//! Rows of a server or a database, read in a thread of their own, because no signal can wake such reads.
//!
//! The reader passes pairs and bad rows to a [`Feed`], which sends them in batches; [`Threaded`] receives them and
//! checks for signals while it waits. At most a few batches are in memory. If the receiver is gone, the reader gets
//! [`Gone`], or ends with the process.

use crate::failure::{Failure, Result};
use crate::format::rdb::row_of;
use crate::format::{BadRow, Row, Scratch, Source};
use splitpoint::ErrorKind;
use splitpoint_server::rdb::Entry;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

const BATCH_ROWS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;
/// Batches between the two threads.
const BATCHES: usize = 4;
/// The time between two checks for a signal.
const WAKE: Duration = Duration::from_millis(50);

enum Item {
    Pair(Scratch),
    /// A key with a type or a lifetime, and its size in bytes.
    Entry(Box<Entry>, u64),
    Bad(String),
}

enum Message {
    Rows(Batch),
    /// A note on the input for the user.
    End(Option<String>),
    Failed(Failure),
}

#[derive(Default)]
struct Batch {
    items: Vec<Item>,
    bytes: usize,
    /// Items of the source that were read, and all of them.
    done: Option<(u64, u64)>,
}

/// Nobody receives more rows.
pub struct Gone;

/// The destination of the reader's rows.
pub struct Feed {
    sender: SyncSender<Message>,
    batch: Batch,
}

impl Feed {
    pub fn pair(&mut self, key: Vec<u8>, value: Vec<u8>) -> std::result::Result<(), Gone> {
        self.batch.bytes += key.len() + value.len();
        self.item(Item::Pair(Scratch { key, value }))
    }

    /// Adds a key with a type or a lifetime, whose value took about `bytes`.
    pub fn entry(&mut self, entry: Entry, bytes: usize) -> std::result::Result<(), Gone> {
        let bytes = entry.key.len() + bytes;
        self.batch.bytes += bytes;
        self.item(Item::Entry(Box::new(entry), bytes as u64))
    }

    pub fn bad(&mut self, what: String) -> std::result::Result<(), Gone> {
        self.item(Item::Bad(what))
    }

    /// Reports that `done` of the source's `total` items were read.
    pub fn at(&mut self, done: u64, total: u64) {
        self.batch.done = Some((done, total.max(done)));
    }

    fn item(&mut self, item: Item) -> std::result::Result<(), Gone> {
        self.batch.items.push(item);
        if self.batch.items.len() >= BATCH_ROWS || self.batch.bytes >= BATCH_BYTES { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> std::result::Result<(), Gone> {
        let done = self.batch.done;
        let batch = std::mem::replace(&mut self.batch, Batch { done, ..Batch::default() });
        self.sender.send(Message::Rows(batch)).map_err(|_| Gone)
    }
}

/// Why a reader ends early.
pub enum Ended {
    Gone,
    Failed(Failure),
}

impl From<Gone> for Ended {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

pub struct Threaded {
    name: String,
    receiver: Receiver<Message>,
    items: std::vec::IntoIter<Item>,
    current: Scratch,
    entry: Option<Box<Entry>>,
    number: u64,
    bytes: u64,
    done: Option<(u64, u64)>,
    note: Option<String>,
}

impl Threaded {
    /// Starts `read`, which returns a note for the user. `name` is the source in messages.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        name: String,
        read: impl FnOnce(&mut Feed) -> std::result::Result<Option<String>, Ended> + Send + 'static,
    ) -> Result<Self> {
        let (sender, receiver) = sync_channel(BATCHES);
        let reader = move || {
            let mut feed = Feed { sender, batch: Batch::default() };
            let last = match read(&mut feed) {
                Ok(note) => Message::End(note),
                Err(Ended::Failed(failure)) => Message::Failed(failure),
                Err(Ended::Gone) => return,
            };
            // Rows before a failure count, so send them first.
            if feed.send().is_ok() {
                let _ = feed.sender.send(last);
            }
        };
        let started = std::thread::Builder::new().name("reader".into()).spawn(reader);
        started.map_err(|error| Failure::io("cannot start a thread", &error))?;
        let items = Vec::new().into_iter();
        Ok(Self {
            name,
            receiver,
            items,
            current: Scratch::default(),
            entry: None,
            number: 0,
            bytes: 0,
            done: None,
            note: None,
        })
    }
}

impl Source for Threaded {
    fn next_row(&mut self) -> Result<Row<'_>> {
        loop {
            if let Some(item) = self.items.next() {
                self.number += 1;
                return Ok(match item {
                    Item::Pair(pair) => {
                        self.bytes += (pair.key.len() + pair.value.len()) as u64;
                        self.current = pair;
                        Row::Pair(self.current.pair(), self.number)
                    }
                    Item::Entry(entry, bytes) => {
                        self.bytes += bytes;
                        row_of(self.entry.insert(entry), self.number)
                    }
                    Item::Bad(what) => {
                        let place = format!("{}: pair {}", self.name, self.number);
                        Row::Bad(BadRow { place, what, goes_on: true })
                    }
                });
            }
            match self.receiver.recv_timeout(WAKE) {
                Ok(Message::Rows(batch)) => (self.items, self.done) = (batch.items.into_iter(), batch.done),
                Ok(Message::End(note)) => {
                    self.note = note;
                    return Ok(Row::End);
                }
                Ok(Message::Failed(failure)) => return Err(failure),
                Err(RecvTimeoutError::Timeout) => return Ok(Row::Interrupted),
                Err(RecvTimeoutError::Disconnected) => {
                    let what = format_args!("{}: the thread that read it has ended early", self.name);
                    return Err(Failure::of_kind(ErrorKind::Io, what));
                }
            }
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn taken_bytes(&self) -> u64 {
        self.bytes
    }

    fn done(&self) -> Option<(u64, u64)> {
        self.done
    }

    fn note(&self) -> Option<String> {
        self.note.clone()
    }
}
