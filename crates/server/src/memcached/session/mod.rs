//! A client of the memcached protocol: requests of one read become batches.
//!
//! ```text
//! input -> a line, and its value -> request ->
//!     get k, get a b, ...     up to RUN_MAX keys: one get_many        shared
//!     gets k, mg k v c, ...   up to RUN_MAX keys: one get_many        shared, unless one changes an attribute
//!     set k f t n, ...        one put_many                            shared while the database is plain
//!     add, cas, incr, touch,  one edit_many                           shared while the database is plain
//!     gat, ...
//!     anything else           one command                             exclusive
//! ```
//!
//! A run ends at the first command of another kind, so the commands of a connection take effect in order.
//!
//! `batch.rs` walks through a batch, `input.rs` reads its lines and data, `runs.rs` executes the runs, `stores.rs` all
//! other stores, `one.rs` everything else. `binary.rs` is the walk for the binary protocol. `entry.rs` enters the key
//! space, `notes.rs` counts.
//!
//! Not here: what commands mean (`classic.rs`, `meta.rs`), sockets (`connection.rs`).

mod batch;
mod binary;
mod entry;
mod input;
mod notes;
mod one;
mod runs;
mod stores;

use super::dump::Dump;
use super::packet;
use crate::clients::Client;
use crate::figures::Figures;
use crate::foreign;
use crate::keyspace::{Patience, Waits};
use crate::server::Server;
use crate::session::{Flow, Session};
use entry::{Pause, Work};
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits before it tries again while a script runs for long.
const SCRIPT_PAUSE: Duration = Duration::from_millis(10);
/// Once there is this much output, the client must read before more requests are executed.
const OUTPUT_BYTES: usize = 256 << 10;

/// The session of a memcached client.
pub struct MemcachedSession {
    server: Arc<Server>,
    client: Arc<Client>,
    figures: Arc<Figures>,
    authenticated: bool,
    /// See [`Settings::admit`](crate::settings::Settings::admit).
    is_guest: bool,
    /// The version of the users, and whether `default` was then allowed everything.
    permitted: Option<(u64, bool)>,
    /// Bytes of a refused value that must still be skipped.
    swallow: usize,
    /// Bytes at the beginning of the input that were searched and contain no line end.
    scanned: usize,
    /// Whether the client speaks the binary protocol; `None` before its first byte.
    is_binary: Option<bool>,
    /// The number of keys already answered of the first request of the input, a get.
    answered: usize,
    /// A dump that the client has not read to its end.
    dump: Option<Dump>,
    unsynced: bool,
}

impl Session for MemcachedSession {
    fn execute(&mut self, input: &[u8], out: &mut Vec<u8>, patience: Patience) -> (usize, Flow) {
        let server = self.server.clone();
        // Bounds the number of keys, since each may read the disk.
        const FEW_BYTES: usize = 2048;
        let waits = match server.space.disk_waits(0) {
            _ if patience == Patience::MayWait => false,
            Waits::Never => false,
            Waits::Seldom => self.dump.is_some() || input.len() > FEW_BYTES,
            Waits::Often => true,
        };
        if waits {
            return (0, Flow::Wait);
        }
        server.space.note_len(input.len());
        server.settings.admit(&mut self.authenticated, &mut self.is_guest);
        if !self.is_permitted() {
            if self.is_binary != Some(true) {
                out.extend_from_slice(b"SERVER_ERROR the rules of the user default do not allow everything\r\n");
            }
            return (0, Flow::Close);
        }
        let mut work = Work::new(&server, patience);
        let is_binary = match (self.is_binary, input.first()) {
            (None, Some(&byte)) => {
                if byte != packet::REQUEST && !foreign::can_begin(byte) {
                    server.foreign.note(server.started, &self.client, "bytes of another protocol");
                    return (0, Flow::Close);
                }
                *self.is_binary.insert(byte == packet::REQUEST)
            }
            (known, _) => known.unwrap_or(false),
        };
        let executed = match is_binary {
            true => self.execute_binary(&mut work, input, out),
            false => self.execute_all(&mut work, input, out),
        };
        match executed {
            Ok(ending) => ending,
            Err(Pause(at, flow)) => {
                self.scanned = 0;
                // A thread that may wait is refused entry only by a script that runs for long.
                let is_refused = patience == Patience::MayWait && flow == Flow::Wait;
                (at, if is_refused { Flow::Sleep(SCRIPT_PAUSE) } else { flow })
            }
        }
    }

    fn take_unsynced(&mut self) -> bool {
        std::mem::take(&mut self.unsynced)
    }

    fn reads_ahead(&self) -> bool {
        self.authenticated
    }

    fn failure(&self, what: &str) -> String {
        format!("SERVER_ERROR {what}\r\n")
    }

    fn close(&mut self) {
        self.server.clients.remove(self.client.id);
    }
}

impl MemcachedSession {
    /// Creates a session for a client that has just connected.
    pub fn new(server: Arc<Server>, client: Arc<Client>, figures: Arc<Figures>) -> MemcachedSession {
        let authenticated = !server.settings.needs_password();
        MemcachedSession {
            server,
            client,
            figures,
            authenticated,
            is_guest: false,
            permitted: None,
            swallow: 0,
            scanned: 0,
            is_binary: None,
            answered: 0,
            dump: None,
            unsynced: false,
        }
    }

    /// Whether the rules of `default`, as which all memcached clients act, allow everything. Single requests are not
    /// checked.
    fn is_permitted(&mut self) -> bool {
        let users = &self.server.settings.users;
        let version = users.version();
        match self.permitted {
            Some((known, permitted)) if known == version => permitted,
            _ => {
                let permitted = users.usual().is_unrestricted();
                self.permitted = Some((version, permitted));
                permitted
            }
        }
    }
}

fn answer(out: &mut Vec<u8>, quiet: bool, text: &[u8]) {
    if !quiet {
        out.extend_from_slice(text);
    }
}
