//! MONITOR: clients that are sent every command that is executed, without its passwords (`command/secrets.rs`).

use crate::clients::Client;
use crate::command::call::Args;
use crate::command::secrets;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// The clients that monitor.
#[derive(Default)]
pub(crate) struct Monitors {
    count: AtomicUsize,
    clients: RwLock<Vec<Arc<Client>>>,
}

impl Monitors {
    /// Whether any client monitors.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Whether this client monitors.
    pub(crate) fn has(&self, client: u64) -> bool {
        self.clients.read().unwrap_or_else(PoisonError::into_inner).iter().any(|other| other.id == client)
    }

    /// Adds a client.
    pub(crate) fn add(&self, client: &Arc<Client>) {
        let mut clients = self.clients.write().unwrap_or_else(PoisonError::into_inner);
        if clients.iter().all(|other| other.id != client.id) {
            clients.push(client.clone());
        }
        self.count.store(clients.len(), Relaxed);
    }

    /// Removes a client, if it monitors.
    pub(crate) fn remove(&self, client: u64) {
        if self.are_there() {
            let mut clients = self.clients.write().unwrap_or_else(PoisonError::into_inner);
            clients.retain(|other| other.id != client);
            self.count.store(clients.len(), Relaxed);
        }
    }

    /// Sends a command to all of them. A client that does not read them is disconnected when `bytes_max` bytes wait for
    /// it.
    #[cold]
    pub(crate) fn feed(&self, args: &Args<'_>, database: usize, source: &str, bytes_max: usize) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut line = format!("+{}.{:06} [{database} {source}]", now.as_secs(), now.subsec_micros()).into_bytes();
        secrets::shown(args).for_each(|argument| quote(&mut line, argument));
        line.extend_from_slice(b"\r\n");
        for client in self.clients.read().unwrap_or_else(PoisonError::into_inner).iter() {
            client.push(bytes_max, |out| out.extend_from_slice(&line));
        }
    }
}

/// Appends ` "argument"` with Redis's escapes.
fn quote(line: &mut Vec<u8>, argument: &[u8]) {
    line.extend_from_slice(b" \"");
    for &byte in argument {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            7 => line.extend_from_slice(b"\\a"),
            8 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => {
                let _ = write!(line, "\\x{byte:02x}"); // a vector takes all
            }
        }
    }
    line.push(b'"');
}
