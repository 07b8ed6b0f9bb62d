//! Threads for requests that may block on the disk or on other connections.
//!
//! A thread is started when none is idle, up to a limit, and ends after some time without work. If the system cannot
//! start a thread and none is running, the caller does the work itself: slow for its other connections, but correct.
//! tokio's `spawn_blocking` would panic in that case.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// The most threads.
const MOST: usize = 128;
/// A thread without work for this long ends.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads, and the queue of their jobs.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    most: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// The number of threads, and the number of idle ones.
    running: usize,
    idle: usize,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads { shared: Arc::default(), most: MOST }
    }
}

impl Threads {
    /// Runs `job` on a thread of the pool, or on the calling thread if the pool has no thread.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.run_or_start(Box::new(job), |shared| {
            Builder::new().name("waiting".into()).spawn(move || shared.work()).map(drop)
        });
    }

    fn run_or_start(&self, job: Job, start: impl FnOnce(Arc<Shared>) -> std::io::Result<()>) {
        let mut queue = self.shared.lock();
        queue.jobs.push_back(job);
        if queue.idle >= queue.jobs.len() {
            self.shared.arrived.notify_one();
        } else if queue.running < self.most {
            match start(self.shared.clone()) {
                Ok(()) => queue.running += 1,
                // A running thread takes the job after its own.
                Err(_) if queue.running > 0 => {}
                Err(_) => {
                    let job = queue.jobs.pop_back();
                    drop(queue);
                    job.into_iter().for_each(|job| job());
                }
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                // The caller notices a panic because the job's channel is closed.
                let _ = catch_unwind(AssertUnwindSafe(job));
                queue = self.lock();
                continue;
            }
            queue.idle += 1;
            let (woken, waited) = self.arrived.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.idle -= 1;
            if waited.timed_out() && queue.jobs.is_empty() {
                queue.running -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn without_a_thread_the_caller_does_the_work() {
        let threads = Threads::default();
        let (done, was_done) = channel();
        let none = |_| Err(std::io::Error::from_raw_os_error(11));
        threads.run_or_start(Box::new(move || done.send(std::thread::current().id()).unwrap()), none);
        assert_eq!(was_done.try_recv(), Ok(std::thread::current().id()));
    }

    #[test]
    fn a_job_that_panics_ends_no_thread_and_the_next_is_done_by_it() {
        let threads = Threads { most: 1, ..Threads::default() };
        let (done, was_done) = channel();
        for number in 0..3 {
            let done = done.clone();
            threads.run(move || {
                done.send(std::thread::current().id()).unwrap();
                assert_ne!(number, 0, "planted");
            });
        }
        let first = was_done.recv().unwrap();
        assert_eq!((was_done.recv().unwrap(), was_done.recv().unwrap()), (first, first));
    }
}
