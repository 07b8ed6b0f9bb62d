//! How a batch enters the key space: shared, exclusive, or for one key under the latch of its bucket. [`Work`] is what
//! the requests of a batch share.

use super::MemcachedSession;
use crate::command::blocking;
use crate::keyspace::{Edit, Exclusive, New, Old, Patience, Result, SHORT_VALUE_BYTES, Shared};
use crate::memcached::DATABASE;
use crate::server::Server;
use crate::session::Flow;
use std::time::Instant;

/// The most commands executed while the gate is closed once.
const ALONE_MAX: usize = 64;

/// How this batch has entered the key space.
enum Entry<'k> {
    Outside,
    Shared(Shared<'k>),
    /// Exclusive, and the number of commands it may still execute.
    Alone(Exclusive<'k>, usize),
}

/// Stops before the end of the input: where the next request to execute begins, and what the connection does first.
pub(super) struct Pause(pub(super) usize, pub(super) Flow);

/// The result of a step of a batch, unless the batch must pause.
pub(super) type Executed<T = ()> = std::result::Result<T, Pause>;

/// The state that the commands of one read share.
pub(super) struct Work<'k> {
    pub(super) server: &'k Server,
    patience: Patience,
    entry: Entry<'k>,
    /// When the last command ended.
    pub(super) clock: Instant,
}

impl<'k> Work<'k> {
    pub(super) fn new(server: &'k Server, patience: Patience) -> Work<'k> {
        Work { server, patience, entry: Entry::Outside, clock: Instant::now() }
    }

    /// Enters shared. Pauses at `start` if a thread of the event loop would have to wait.
    pub(super) fn shared(&mut self, start: usize) -> Executed<&Shared<'k>> {
        if !matches!(self.entry, Entry::Shared(_)) {
            self.leave();
            self.entry = Entry::Shared(self.server.share(self.patience).ok_or(Pause(start, Flow::Wait))?);
        }
        match &self.entry {
            Entry::Shared(shared) => Ok(shared),
            _ => Err(Pause(start, Flow::Wait)),
        }
    }

    /// Enters exclusively, for one command. Pauses at `start` if a thread of the event loop would have to wait.
    pub(super) fn alone(&mut self, start: usize) -> Executed<&mut Exclusive<'k>> {
        if !matches!(self.entry, Entry::Alone(_, 1..)) {
            self.leave();
            self.entry = Entry::Alone(self.server.close(self.patience).ok_or(Pause(start, Flow::Wait))?, ALONE_MAX);
        }
        match &mut self.entry {
            Entry::Alone(alone, left) => {
                *left -= 1;
                Ok(alone)
            }
            _ => Err(Pause(start, Flow::Wait)),
        }
    }

    pub(super) fn is_alone(&self) -> bool {
        matches!(self.entry, Entry::Alone(..))
    }

    /// Leaves the key space. A client of Redis may wait for a stream that is gone.
    fn leave(&mut self) {
        if let Entry::Alone(alone, _) = &mut self.entry {
            blocking::serve(self.server, alone);
        }
        self.entry = Entry::Outside;
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl MemcachedSession {
    /// Changes one key under the latch of its bucket. If that is impossible, uses exclusive entry, once there
    /// is as much room as the change needs, if any.
    pub(super) fn edit(
        &mut self,
        work: &mut Work<'_>,
        start: usize,
        key: &[u8],
        room: Option<usize>,
        mut edit: impl FnMut(Option<Old<'_>>, &mut New<'_>, u64) -> Edit,
    ) -> Executed<Result<()>> {
        self.unsynced = true;
        if !work.is_alone() {
            let shared = work.shared(start)?;
            let more_bytes = room.unwrap_or(0);
            let (now_ms, bytes) = (shared.now_ms(), (SHORT_VALUE_BYTES + more_bytes, more_bytes));
            match shared.edit_many(DATABASE, &[key], bytes, |_, old, new| edit(old, new, now_ms)) {
                (0, Ok(())) => {}
                (_, outcome) => return Ok(outcome),
            }
        }
        let alone = work.alone(start)?;
        let now_ms = alone.now_ms();
        let room = room.map_or(Ok(()), |bytes| alone.make_room(bytes));
        Ok(room.and_then(|()| alone.edit_string(DATABASE, key, |old, new| edit(old, new, now_ms))))
    }
}
