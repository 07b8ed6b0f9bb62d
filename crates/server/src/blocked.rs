//! The clients that wait for elements of lists and sorted sets, or entries of streams, in a queue for each key.
//!
//! Who serves them: `command/blocking.rs`.

use crate::clients::Client;
use crate::command::reply::{self, Version};
use crate::command::sorted_sets::Extreme;
use crate::command::spec::Spec;
use crate::keyspace::collections::list::End;
use crate::keyspace::collections::sorted::Element;
use crate::keyspace::collections::stream::EntryId;
use crate::keyspace::{KeySpace, Kind};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex, MutexGuard};

/// The clients that wait, by database and key, the oldest first.
#[derive(Default)]
pub(crate) struct Blocked(Mutex<Queues>);

/// Each client has a number, which grows along a queue.
type Queue = VecDeque<(u64, Arc<Waiter>)>;

#[derive(Default)]
struct Queues {
    of_keys: HashMap<(usize, Vec<u8>), Queue>,
    last: u64,
}

impl Queues {
    fn waiters(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.of_keys.values().flatten().map(|(_, waiter)| waiter)
    }
}

/// A client that waits.
pub(crate) struct Waiter {
    pub(crate) client: Arc<Client>,
    pub(crate) version: Version,
    /// The command with which it waits.
    pub(crate) spec: &'static Spec,
    pub(crate) database: usize,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) wanted: Wanted,
    pub(crate) reply_bytes_max: usize,
    pub(crate) state: Mutex<State>,
}

/// What a client waits for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// BLPOP, BRPOP
    One(End),
    /// BLMPOP
    Many(End, u64),
    /// BLMOVE, BRPOPLPUSH
    Moved { from: End, to: End, destination: Vec<u8> },
    /// BZPOPMIN, BZPOPMAX
    OneScored(Extreme),
    /// BZMPOP
    ManyScored(Extreme, u64),
    /// XREAD, XREADGROUP
    Entries(Reading),
}

/// What a client wants to read from streams.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// For each key: the ID after which it reads.
    pub(crate) after: Vec<EntryId>,
    /// The maximum number of entries of each stream.
    pub(crate) count: u64,
    /// Reads the entries that its group has not delivered instead.
    pub(crate) reader: Option<Reader>,
}

/// A consumer that reads for its group.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) group: Vec<u8>,
    pub(crate) consumer: Vec<u8>,
    pub(crate) noack: bool,
}

impl Wanted {
    /// Whether it must be checked when its key now has a value of this type, or none.
    pub(crate) fn concerns(&self, kind: Option<Kind>) -> bool {
        match self {
            Wanted::One(_) | Wanted::Many(..) | Wanted::Moved { .. } => kind == Some(Kind::List),
            Wanted::OneScored(_) | Wanted::ManyScored(..) => kind == Some(Kind::SortedSet),
            // A consumer ends its wait with an error when the stream is removed.
            Wanted::Entries(reading) => kind == Some(Kind::Stream) || reading.reader.is_some(),
        }
    }
}

/// The state of a wait.
pub(crate) enum State {
    /// No reply yet.
    Waits,
    /// A writer is popping for it.
    Claimed,
    /// The reply, and what was popped.
    Answered(Vec<u8>, Popped),
    /// The client no longer needs the reply.
    Gone,
}

/// What was popped, and from which key.
pub(crate) type Popped = Option<(Vec<u8>, Elements)>;

/// Elements that were popped.
pub(crate) enum Elements {
    /// At an end of a list, the first one first.
    OfList(End, Vec<Vec<u8>>),
    /// With their scores.
    OfSortedSet(Vec<Element>),
}

impl Waiter {
    /// The state, locked.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Its keys, each once: a client may repeat one as often as a request has room for.
    fn keys_once(&self) -> HashSet<&Vec<u8>> {
        self.keys.iter().collect()
    }

    /// Whether the connection can stop waiting.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(*self.state(), State::Answered(..))
    }
}

impl Blocked {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a client to the queues of its keys.
    pub(crate) fn add(&self, waiter: &Arc<Waiter>, space: &KeySpace) {
        let mut queues = self.lock();
        queues.last += 1;
        let number = queues.last;
        for key in waiter.keys_once() {
            let queue = queues.of_keys.entry((waiter.database, key.clone())).or_default();
            queue.push_back((number, waiter.clone()));
        }
        space.wanted_keys.store(queues.of_keys.len(), Relaxed);
    }

    /// Removes a client from the queues of its keys.
    pub(crate) fn remove(&self, waiter: &Arc<Waiter>, space: &KeySpace) {
        let mut queues = self.lock();
        for key in waiter.keys_once() {
            let place = (waiter.database, key.clone());
            if let Some(queue) = queues.of_keys.get_mut(&place) {
                queue.retain(|(_, other)| !Arc::ptr_eq(other, waiter));
                if queue.is_empty() {
                    queues.of_keys.remove(&place);
                }
            }
        }
        space.wanted_keys.store(queues.of_keys.len(), Relaxed);
    }

    /// Of the clients behind the one with this number, 0 for all, the one that has waited longest and is concerned by a
    /// value of this type, with its number.
    pub(crate) fn concerned(
        &self,
        place: &(usize, Vec<u8>),
        kind: Option<Kind>,
        after: u64,
    ) -> Option<(u64, Arc<Waiter>)> {
        let queues = self.lock();
        let queue = queues.of_keys.get(place)?;
        let start = queue.partition_point(|(number, _)| *number <= after);
        queue.range(start..).find(|(_, waiter)| waiter.wanted.concerns(kind)).cloned()
    }

    /// The keys for which clients wait.
    pub(crate) fn places(&self) -> Vec<(usize, Vec<u8>)> {
        self.lock().of_keys.keys().cloned().collect()
    }

    /// The number of clients that wait.
    pub(crate) fn len(&self) -> usize {
        let queues = self.lock();
        let clients: HashSet<u64> = queues.waiters().map(|waiter| waiter.client.id).collect();
        clients.len()
    }

    /// Ends the wait of a client, as its timeout does or with an error. Returns whether it waited.
    pub(crate) fn unblock(&self, space: &KeySpace, client: u64, is_error: bool) -> bool {
        let found = self.lock().waiters().find(|waiter| waiter.client.id == client).cloned();
        let Some(waiter) = found else { return false };
        let mut reply = Vec::new();
        if is_error {
            reply::error(&mut reply, "UNBLOCKED client unblocked via CLIENT UNBLOCK");
        } else {
            reply::null_array(&mut reply, waiter.version);
        }
        let mut state = waiter.state();
        let waits = matches!(*state, State::Waits);
        if waits {
            *state = State::Answered(reply, None);
        }
        drop(state);
        if waits {
            self.remove(&waiter, space);
            waiter.client.waker.wake();
        }
        waits
    }
}
