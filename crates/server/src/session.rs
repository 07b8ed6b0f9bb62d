//! What a protocol gives to the connection loop: a session for each connection.
//!
//! ```text
//! connection.rs   bytes come -> Session::execute(input, output) -> the output is written -> bytes come
//! ```
//!
//! A session parses what has come in place, executes it on the key space in batches, and appends the replies. It does
//! no I/O and knows no runtime, so tests call it with slices. To write one for another protocol:
//!
//! * enter the key space once for the commands of a read (`KeySpace::share`), leave it before returning; where an entry
//!   is refused (`None`), return [`Flow::Wait`] with what is consumed so far, and the loop calls again, on a thread
//!   that may wait;
//! * let runs of lookups, stores and appends be one call of `get_many`, `put_many`, `append_many`; where the last two
//!   return `false`, go the exclusive way (`KeySpace::close`);
//! * return [`Flow::Write`] when the output is long, so that a client that does not read cannot make it longer;
//! * say in [`Session::take_unsynced`] whether something was written: under `--durability sync` the loop waits for the
//!   disk before it sends the replies.

use crate::keyspace::Patience;

/// A client's side of a protocol.
pub trait Session: Send + 'static {
    /// Executes the requests at the beginning of `input` and appends their replies to `out`. Returns the bytes
    /// consumed, and how to go on. The next call begins with what was not consumed.
    fn execute(&mut self, input: &[u8], out: &mut Vec<u8>, patience: Patience) -> (usize, Flow);

    /// Whether requests since the last call changed something, or reported a change, that has to be durable before the
    /// replies are sent.
    fn take_unsynced(&mut self) -> bool;

    /// Appends what was sent to this client by others: published messages.
    fn take_pushes(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Whether requests may be read while replies wait: not from a client that still has to give a password.
    fn reads_ahead(&self) -> bool;

    /// What to say when the replies cannot be sent, because the changes are not durable. The connection then ends.
    fn failure(&self, what: &str) -> String {
        format!("-MISCONF {what}\r\n")
    }

    /// The connection has ended.
    fn close(&mut self);
}

/// How a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Send the replies, wait for more input: a request has at least this many bytes, those not consumed included.
    Read(usize),
    /// Send the replies, then call again with the same input.
    Write,
    /// Call again on a thread that may wait.
    Wait,
    /// Wait for this time, then send the replies and call again with the same input.
    Sleep(std::time::Duration),
    /// Send the replies, then close.
    Close,
}

#[cfg(test)]
mod tests;
