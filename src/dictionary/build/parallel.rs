//! Processes several items in parallel and returns the results in order.

use crate::error::Result;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Runs `work` on each of `items`, on up to `threads` threads including this one. If the system cannot create that many
/// threads, fewer are used. After an error no more items are started.
///
/// # Errors
/// The first error of `work`, in the order of the items.
pub(crate) fn in_parallel<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(usize, T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.into_iter().enumerate().map(|(number, item)| work(number, item)).collect();
    }
    let slots: Vec<_> = items.into_iter().map(|item| Mutex::new((Some(item), None))).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let worker = || {
        while !failed.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            let Some(slot) = slots.get(number) else { break };
            let item = slot.lock().unwrap_or_else(PoisonError::into_inner).0.take();
            let result = work(number, item.expect("each number is given once"));
            failed.fetch_or(result.is_err(), Relaxed);
            slot.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            if std::thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner).1).collect()
}

#[cfg(test)]
#[path = "tests/parallel.rs"]
mod tests;
