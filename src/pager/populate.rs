//! Memory made ready before it is needed, by a thread of its own.
//!
//! The kernel zeroes a page of memory when it is first touched: 2 MiB at once where it uses huge pages, which takes up
//! to some milliseconds. A growing table knows what it will touch next, so one thread for the whole process, started
//! with the first large table, touches it ahead.

use super::pool::{FrameNo, Pool};
use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

type Request = (Arc<Pool>, Range<FrameNo>);

/// Has the memory of these frames touched soon. Without a thread to do it, it is touched when used.
pub(super) fn populate_soon(pool: &Arc<Pool>, frames: Range<FrameNo>) {
    static QUEUE: OnceLock<Option<Mutex<Sender<Request>>>> = OnceLock::new();
    let queue = QUEUE.get_or_init(|| {
        let (sender, receiver) = channel::<Request>();
        let thread = std::thread::Builder::new().name("splitpoint-populate".into());
        let started = thread.spawn(move || {
            for (pool, frames) in receiver {
                // The last to hold the pool: the table is gone.
                if Arc::strong_count(&pool) > 1 {
                    pool.populate(frames);
                }
            }
        });
        started.ok().map(|_| Mutex::new(sender))
    });
    if let Some(queue) = queue {
        let _ = queue.lock().unwrap_or_else(|e| e.into_inner()).send((pool.clone(), frames));
    }
}
