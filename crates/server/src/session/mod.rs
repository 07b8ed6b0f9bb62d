//! The interface between a protocol and the connection loop: a session for each connection.
//!
//! ```text
//! connection.rs   read bytes -> Session::execute(input, output) -> write the output -> read bytes
//! ```
//!
//! A session parses the input in place, executes the requests on the key space in batches, and appends the replies. It
//! does no I/O and uses no runtime, so tests call it with slices. To write one for another protocol:
//!
//! * Enter the key space once for the commands of a read (`KeySpace::share`), and leave it before returning. If an
//!   entry is refused (`None`), return [`Flow::Wait`] with the bytes consumed so far; the loop calls again on a thread
//!   that may block.
//! * Combine runs of lookups, stores and appends into one call of `get_many`, `put_many`, `append_many`. If the last
//!   two return `false`, use exclusive entry (`KeySpace::close`).
//! * Return [`Flow::Write`] when the output is long, so that a client that does not read cannot make it longer.
//! * Report in [`Session::take_unsynced`] whether something was written: with `--durability sync` the loop waits for
//!   the disk before it sends the replies.

use crate::keyspace::Patience;

/// One client's connection in some protocol.
pub trait Session: Send + 'static {
    /// Executes the requests at the beginning of `input` and appends their replies to `out`. Returns the number of
    /// bytes consumed and how the connection continues. The input of the next call begins with the bytes not consumed.
    fn execute(&mut self, input: &[u8], out: &mut Vec<u8>, patience: Patience) -> (usize, Flow);

    /// Whether requests since the last call made or reported a change that must be durable before the replies are sent.
    fn take_unsynced(&mut self) -> bool;

    /// Appends the messages that other clients published for this one.
    fn take_pushes(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Whether the session has the reply for which [`Flow::Block`] waits.
    fn is_unblocked(&self) -> bool {
        false
    }

    /// Appends that reply. `late`: the timeout has passed. `false`: the reply needs a moment longer.
    fn unblock(&mut self, late: bool, out: &mut Vec<u8>) -> bool {
        let _ = (late, out);
        true
    }

    /// Whether more requests may be read while replies are unread: not before the client has given its password.
    fn reads_ahead(&self) -> bool;

    /// The error to send instead of the replies if the changes could not be made durable. The connection then ends.
    fn failure(&self, what: &str) -> String {
        format!("-MISCONF {what}\r\n")
    }

    /// Called when the connection has ended.
    fn close(&mut self);
}

/// How a connection continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Send the replies and wait for more input: the next request has at least this many bytes, including those not
    /// consumed.
    Read(usize),
    /// Send the replies, then call again with the same input.
    Write,
    /// Call again on a thread that may block.
    Wait,
    /// Send the replies, wait until the session has the reply of the last request, or for this time, then call again
    /// with the same input.
    Block(Option<std::time::Duration>),
    /// Wait for this time, then send the replies and call again with the same input.
    Sleep(std::time::Duration),
    /// Send the replies, then close.
    Close,
}

#[cfg(test)]
mod tests;
