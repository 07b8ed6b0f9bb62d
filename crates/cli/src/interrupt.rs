//! Signals: a long command finishes its row, keeps what it has done, and reports it.
//!
//! [`Interrupt::watch`] turns SIGINT, SIGTERM and SIGHUP into a flag that loops check, and a byte in a pipe that wakes
//! a read that waits for its producer. A second signal ends the process at once, with the default action. A signal
//! that the parent ignores (`nohup`, a shell's `&`) stays ignored. SIGXFSZ does not end the program
//! ([`outlive_file_limit`]).

use crate::failure::{Failure, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level::pipe};
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A shell reports this plus the signal's number for a command that a signal ended.
const EXIT_SIGNAL_BASE: u8 = 128;
const WATCHED: [(i32, &str); 3] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];

#[derive(Clone, Copy, Debug)]
pub struct Signal(i32);

impl Signal {
    pub fn number(self) -> u8 {
        u8::try_from(self.0).unwrap_or(0)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match WATCHED.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

impl Failure {
    /// `done` says what is finished and how to continue.
    pub fn stopped(signal: Signal, done: impl fmt::Display) -> Self {
        Self::with_status(format_args!("stopped by {signal}: {done}"), EXIT_SIGNAL_BASE + signal.number())
    }
}

pub struct Interrupt {
    /// Number of the signal that came, 0 before.
    caught: Arc<AtomicUsize>,
    /// Readable once a signal has come.
    wake: UnixStream,
    /// The other end. Kept open: if no signal were watched, a closed end would read as one.
    _waker: UnixStream,
}

impl Interrupt {
    pub fn watch() -> Result<Self> {
        Self::register().map_err(|error| Failure::io("cannot watch for signals", &error))
    }

    fn register() -> io::Result<Self> {
        let caught = Arc::new(AtomicUsize::new(0));
        let armed = Arc::new(AtomicBool::new(false));
        let (wake, waker) = UnixStream::pair()?;
        let ignored = ignored_signals();
        for (signal, _) in WATCHED.into_iter().filter(|(signal, _)| ignored & mask_bit(*signal) == 0) {
            // First, so that no signal is lost in between.
            flag::register_usize(signal, Arc::clone(&caught), usize::try_from(signal).unwrap_or(0))?;
            pipe::register(signal, waker.try_clone()?)?;
            // Order matters: the default action is registered before the flag that arms it, so only a second signal
            // takes it.
            flag::register_conditional_default(signal, Arc::clone(&armed))?;
            flag::register(signal, Arc::clone(&armed))?;
        }
        Ok(Self { caught, wake, _waker: waker })
    }

    pub fn caught(&self) -> Option<Signal> {
        // Relaxed: one number, and no other data depends on it.
        match self.caught.load(Ordering::Relaxed) {
            0 => None,
            number => i32::try_from(number).ok().map(Signal),
        }
    }

    /// Returns a callback for the library: `Break` once a signal has come.
    pub fn breaker(&self) -> impl Fn() -> ControlFlow<()> + Send + Sync + 'static {
        let caught = Arc::clone(&self.caught);
        move || if caught.load(Ordering::Relaxed) == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Fails if a signal came, for work that can end between two steps and has nothing to keep.
    pub fn stop_if_caught(&self, done: &str) -> Result<()> {
        self.caught().map_or(Ok(()), |signal| Err(Failure::stopped(signal, done)))
    }

    /// Returns a descriptor to poll together with the awaited input.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// A write beyond the limit on file lengths (`ulimit -f`) is an error from now on, and no longer ends the program. The
/// library compares its own files with the limit; this is for standard output.
pub fn outlive_file_limit() -> Result<()> {
    // A handler, not SIG_IGN: programs started by this one get the default action.
    flag::register(SIGXFSZ, Arc::default()).map(|_| ()).map_err(|error| Failure::io("cannot watch for signals", &error))
}

/// From now on a signal prints `done` and ends the process. Use it for one long call that only reads.
pub fn exit_on_signal(done: &'static str) -> Result<()> {
    let ignored = ignored_signals();
    let watched = WATCHED.iter().map(|(signal, _)| *signal).filter(|signal| ignored & mask_bit(*signal) == 0);
    let (give, take) = std::sync::mpsc::channel::<signal_hook::iterator::Signals>();
    let wait = move || {
        let Ok(mut signals) = take.recv() else { return };
        if let Some(signal) = signals.forever().next() {
            let signal = Signal(signal);
            Failure::stopped(signal, done).report();
            std::process::exit(i32::from(EXIT_SIGNAL_BASE + signal.number()));
        }
    };
    // Without a thread the signals keep their default action, which ends the process without a message.
    if std::thread::Builder::new().name("signals".into()).spawn(wait).is_ok() {
        let signals = signal_hook::iterator::Signals::new(watched);
        // The thread is waiting to receive it.
        let _ = give.send(signals.map_err(|error| Failure::io("cannot watch for signals", &error))?);
    }
    Ok(())
}

fn mask_bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Signals that the parent set to ignore, one bit each; 0 if the system does not report them.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
