//! Events of a table as records of the `log` crate: with the feature `log` only, which is off by default.
//!
//! | level | event |
//! |---|---|
//! | error | a handle refuses writes from now on (`Poisoned`), with the cause |
//! | warn | a sync of the log, or a wait for room, took [`SLOW`] or longer |
//! | info | a table was opened, with what was replayed from its log |
//! | debug | a checkpoint is complete; a table was closed |
//!
//! The target of all records is `splitpoint`. No event is on the path of a single read or write.

use std::time::{Duration, Instant};

/// A call that took this long is worth a warning.
const SLOW: Duration = Duration::from_secs(1);

/// `event!(info, "...", ...)`: a record of this level.
macro_rules! event {
    ($level:ident, $($message:tt)*) => {
        if cfg!(feature = "log") {
            #[cfg(feature = "log")]
            log::$level!(target: "splitpoint", $($message)*);
            #[cfg(not(feature = "log"))]
            let _ = format_args!($($message)*);
        }
    };
}
pub(crate) use event;

/// Warns if what began at `start` was slow; `what` in the past tense, with the file.
pub(crate) fn warn_if_slow(start: Instant, what: impl FnOnce() -> String) {
    let took = start.elapsed();
    if cfg!(feature = "log") && took >= SLOW {
        event!(warn, "{} in {took:.1?}", what());
    }
}
