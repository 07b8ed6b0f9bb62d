//! The clients that wait for elements of lists and sorted sets, in a queue for each key.
//!
//! Who pops for them: `command/blocking.rs`.

use crate::clients::Client;
use crate::command::reply::{self, Version};
use crate::command::sorted_sets::Extreme;
use crate::keyspace::list::End;
use crate::keyspace::sorted::Element;
use crate::keyspace::{KeySpace, Kind};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex, MutexGuard};

/// The clients that wait, by database and key, the oldest first.
#[derive(Default)]
pub(crate) struct Blocked(Mutex<Queues>);

type Queues = HashMap<(usize, Vec<u8>), VecDeque<Arc<Waiter>>>;

/// A client that waits.
pub(crate) struct Waiter {
    pub(crate) client: Arc<Client>,
    pub(crate) version: Version,
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
}

impl Wanted {
    /// The type of the value that it waits for.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Wanted::One(_) | Wanted::Many(..) | Wanted::Moved { .. } => Kind::List,
            Wanted::OneScored(_) | Wanted::ManyScored(..) => Kind::SortedSet,
        }
    }
}

/// How far a wait has come.
pub(crate) enum State {
    /// Nothing has come yet.
    Waits,
    /// A writer pops for it just now.
    Claimed,
    /// The reply, and what was popped.
    Answered(Vec<u8>, Popped),
    /// Nobody needs the reply.
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

    /// Whether the connection has to wait no longer.
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
        for key in &waiter.keys {
            queues.entry((waiter.database, key.clone())).or_default().push_back(waiter.clone());
        }
        space.wanted_keys.store(queues.len(), Relaxed);
    }

    /// Removes a client from the queues of its keys.
    pub(crate) fn remove(&self, waiter: &Arc<Waiter>, space: &KeySpace) {
        let mut queues = self.lock();
        for key in &waiter.keys {
            let place = (waiter.database, key.clone());
            if let Some(queue) = queues.get_mut(&place) {
                queue.retain(|other| !Arc::ptr_eq(other, waiter));
                if queue.is_empty() {
                    queues.remove(&place);
                }
            }
        }
        space.wanted_keys.store(queues.len(), Relaxed);
    }

    /// The client that has waited longest for a value of this type.
    pub(crate) fn first(&self, place: &(usize, Vec<u8>), kind: Kind) -> Option<Arc<Waiter>> {
        self.lock().get(place)?.iter().find(|waiter| waiter.wanted.kind() == kind).cloned()
    }

    /// The number of clients that wait.
    pub(crate) fn len(&self) -> usize {
        let queues = self.lock();
        let clients: HashSet<u64> = queues.values().flatten().map(|waiter| waiter.client.id).collect();
        clients.len()
    }

    /// Ends the wait of a client, as at its time out or with an error. Returns whether it waited.
    pub(crate) fn unblock(&self, space: &KeySpace, client: u64, is_error: bool) -> bool {
        let found = self.lock().values().flatten().find(|waiter| waiter.client.id == client).cloned();
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
