//! Group commit: one thread syncs for all waiting connections.
//!
//! A connection that changed something asks for a sync before it replies. The thread collects all requests, syncs once,
//! and answers them; requests that arrive during a sync are answered by the next one. So the event loop never waits for
//! the disk, and many connections share one sync.

use crate::keyspace::KeySpace;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

type Waiter = oneshot::Sender<Result<(), String>>;

/// The handle of the syncing thread.
pub(crate) struct Syncer(Mutex<Sender<Waiter>>);

impl Syncer {
    /// Starts the thread. It ends when the syncer is dropped.
    pub(crate) fn start(space: Arc<KeySpace>) -> Syncer {
        let (sender, receiver) = channel();
        let run = move || run(&space, &receiver);
        // Without the thread every `synced` fails, and clients get an error.
        if let Err(error) = std::thread::Builder::new().name("sync".into()).spawn(run) {
            tracing::error!(%error, "no thread for syncs");
        }
        Syncer(Mutex::new(sender))
    }

    /// Waits until all earlier changes are durable.
    ///
    /// # Errors
    /// A message for the client.
    pub(crate) async fn synced(&self) -> Result<(), String> {
        let (sender, receiver) = oneshot::channel();
        // If the thread has ended, the sender is dropped, and so the receiver fails.
        let _ = self.0.lock().unwrap_or_else(|e| e.into_inner()).send(sender);
        receiver.await.unwrap_or_else(|_| Err("the thread that syncs has ended".into()))
    }
}

fn run(space: &KeySpace, waiters: &Receiver<Waiter>) {
    while let Ok(first) = waiters.recv() {
        let all: Vec<Waiter> = std::iter::once(first).chain(waiters.try_iter()).collect();
        let synced = space.sync().map_err(|error| {
            tracing::error!(%error, "sync failed");
            space.note_failure(&error);
            error.to_string()
        });
        for waiter in all {
            let _ = waiter.send(synced.clone()); // a connection may have ended
        }
    }
}
