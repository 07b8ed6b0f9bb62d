//! Scripts: which are known, and which one is running.
//!
//! ```text
//! mod.rs       the scripts by their SHA-1, the state of the running one
//! engine.rs    a Lua state (`engine_absent.rs` where the server is built without Lua)
//! sandbox.lua  what scripts see of Lua
//! replies.rs   values of Lua as replies, and the other way
//! json.rs      cjson
//! bits.rs      bit
//! msgpack.rs   cmsgpack
//! structs.rs   struct
//! values.rs    numbers, types and errors
//! texts.rs     string.find and others that search (`patterns.rs`)
//! ```
//!
//! One script runs at a time, on a thread that may wait, while the gate of the key space is closed. What commands mean:
//! `command/script.rs`.

#[cfg(feature = "scripts")]
mod bits;
#[cfg(feature = "scripts")]
mod engine;
#[cfg(not(feature = "scripts"))]
#[path = "engine_absent.rs"]
mod engine;
#[cfg(feature = "scripts")]
mod json;
#[cfg(feature = "scripts")]
mod msgpack;
#[cfg(feature = "scripts")]
mod patterns;
#[cfg(feature = "scripts")]
mod replies;
#[cfg(feature = "scripts")]
mod structs;
#[cfg(feature = "scripts")]
mod texts;
#[cfg(feature = "scripts")]
mod values;

pub(crate) use engine::{Compiled, Engine};
use sha1::{Digest, Sha1};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most scripts of EVAL that are kept, and the most bytes of these and of scripts that SCRIPT LOAD keeps.
const EVALUATED_MAX: usize = 500;
const EVALUATED_BYTES_MAX: usize = 16 << 20;
const LOADED_BYTES_MAX: usize = 64 << 20;

/// The error of a command of a script whose words are longer than a request may be.
pub(crate) const COMMAND_TOO_LONG: &str = "ERR the command is longer than a request may be";

/// A script.
pub(crate) struct Script {
    /// Its SHA-1 as hexadecimal digits.
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
}

#[derive(Default)]
struct Known {
    scripts: HashMap<String, Arc<Script>>,
    /// Scripts that EVAL brought, the oldest first.
    evaluated: VecDeque<String>,
    evaluated_bytes: usize,
    loaded_bytes: usize,
}

/// What other threads know about the running script, and their requests to it.
pub(crate) struct Running {
    started: Instant,
    /// Milliseconds after `started` when the running script began, plus one; 0 if none runs.
    since_ms: AtomicU64,
    /// [`PLAIN`], [`WROTE`] or [`KILLED`].
    state: AtomicU8,
    /// Whether the server stops.
    stops: AtomicBool,
}

/// The script has changed nothing so far.
const PLAIN: u8 = 0;
/// The script has changed the key space, so it may no longer be killed.
const WROTE: u8 = 1;
/// The script is to end; it may no longer change anything.
const KILLED: u8 = 2;

/// The commands of the server, as a script uses them.
pub(crate) trait Commands {
    /// Executes a command; returns the bytes of the reply.
    fn call(&mut self, words: &[Vec<u8>], is_resp3: bool) -> Vec<u8>;

    /// Whether the user may execute a command with these arguments; `None` if there is no such command.
    fn may_call(&mut self, words: &[Vec<u8>]) -> Option<bool>;
}

/// All scripts of the server.
pub(crate) struct Scripts {
    known: Mutex<Known>,
    pub(crate) running: Arc<Running>,
    pub(crate) engine: Mutex<Option<Engine>>,
    /// How long a script may run before other clients are refused instead of waiting; 0 for no limit.
    pub(crate) busy_ms: AtomicU64,
}

impl Default for Scripts {
    fn default() -> Self {
        let running = Running {
            started: Instant::now(),
            since_ms: AtomicU64::new(0),
            state: AtomicU8::new(PLAIN),
            stops: AtomicBool::new(false),
        };
        Scripts {
            known: Mutex::default(),
            running: Arc::new(running),
            engine: Mutex::default(),
            busy_ms: AtomicU64::new(5000),
        }
    }
}

/// The SHA-1 of some bytes as hexadecimal digits.
pub(crate) fn sha1_of(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = Sha1::digest(bytes);
    let digits = digits.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

impl Scripts {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The script with this SHA-1.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<Script>> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.lock().scripts.get(&name).cloned()
    }

    /// The script of this text, known or not.
    pub(crate) fn of(&self, body: &[u8]) -> Arc<Script> {
        let name = sha1_of(body);
        let known = self.lock().scripts.get(&name).cloned();
        known.unwrap_or_else(|| Arc::new(Script { name, body: body.to_vec() }))
    }

    /// Adds a script, for good if it is `loaded`; else it is forgotten when many others have been evaluated. `false` if
    /// the loaded scripts take too many bytes.
    pub(crate) fn add(&self, script: &Arc<Script>, loaded: bool) -> bool {
        let mut known = self.lock();
        let is_known = known.scripts.contains_key(&script.name);
        if is_known && !loaded {
            return true;
        }
        let evaluated_before = known.evaluated.iter().position(|name| *name == script.name);
        if loaded && (evaluated_before.is_some() || !is_known) {
            if known.loaded_bytes + script.body.len() > LOADED_BYTES_MAX {
                return false;
            }
            known.loaded_bytes += script.body.len();
            if let Some(index) = evaluated_before {
                known.evaluated.remove(index);
                known.evaluated_bytes -= script.body.len();
            }
        } else if !loaded {
            known.evaluated.push_back(script.name.clone());
            known.evaluated_bytes += script.body.len();
            // The newest stays, whatever its length.
            while known.evaluated.len() > EVALUATED_MAX
                || known.evaluated_bytes > EVALUATED_BYTES_MAX && known.evaluated.len() > 1
            {
                let oldest = known.evaluated.pop_front().and_then(|oldest| known.scripts.remove(&oldest));
                known.evaluated_bytes -= oldest.map_or(0, |oldest| oldest.body.len());
            }
        }
        known.scripts.entry(script.name.clone()).or_insert_with(|| script.clone());
        true
    }

    /// The number of scripts that are known.
    pub(crate) fn count(&self) -> usize {
        self.lock().scripts.len()
    }

    /// The bytes of these scripts.
    pub(crate) fn bytes(&self) -> usize {
        let known = self.lock();
        known.evaluated_bytes + known.loaded_bytes
    }

    /// Forgets all scripts.
    pub(crate) fn clear(&self) {
        *self.lock() = Known::default();
        // If a running script has the state, what is compiled does no harm.
        if let Ok(mut engine) = self.engine.try_lock() {
            *engine = None;
        }
    }

    /// Whether a script has run for so long that others need not wait for it.
    pub(crate) fn is_busy(&self) -> bool {
        let busy_ms = self.busy_ms.load(Relaxed);
        busy_ms > 0 && self.running.elapsed().is_some_and(|time| time > Duration::from_millis(busy_ms))
    }
}

/// A script that runs.
pub(crate) struct Begun<'r>(&'r Running);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.since_ms.store(0, Relaxed);
    }
}

impl Running {
    /// How long the running script has run.
    pub(crate) fn elapsed(&self) -> Option<Duration> {
        let since = self.since_ms.load(Relaxed).checked_sub(1)?;
        Some(self.started.elapsed().saturating_sub(Duration::from_millis(since)))
    }

    /// Notes that a script runs, until the result is dropped.
    pub(crate) fn begin(&self) -> Begun<'_> {
        self.state.store(PLAIN, Relaxed);
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.since_ms.store(now + 1, Relaxed);
        Begun(self)
    }

    /// Notes that the script is about to change the key space. `false` if it may not, because it is to end.
    #[must_use]
    pub(crate) fn note_write(&self) -> bool {
        self.state.compare_exchange(PLAIN, WROTE, Relaxed, Relaxed) != Err(KILLED) && !self.stops()
    }

    /// Makes the running script end with an error. `false` if it has changed the key space.
    #[must_use]
    pub(crate) fn kill(&self) -> bool {
        self.state.compare_exchange(PLAIN, KILLED, Relaxed, Relaxed) != Err(WROTE)
    }

    /// Makes every script end, whatever it has changed, because the server stops.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Relaxed);
    }

    /// Whether the server stops.
    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Relaxed)
    }

    /// Whether the script is to end.
    #[cfg(feature = "scripts")]
    pub(crate) fn is_killed(&self) -> bool {
        self.state.load(Relaxed) == KILLED || self.stops()
    }
}

#[cfg(all(test, feature = "scripts"))]
mod tests {
    use super::*;

    #[test]
    fn no_script_is_busy_if_there_is_no_limit() {
        let scripts = Scripts::default();
        let _begun = scripts.running.begin();
        for (busy_ms, is_busy) in [(1, true), (0, false)] {
            scripts.busy_ms.store(busy_ms, Relaxed);
            while scripts.running.elapsed() <= Some(Duration::from_millis(1)) {}
            assert_eq!(scripts.is_busy(), is_busy, "{busy_ms}");
        }
    }

    #[test]
    fn a_text_of_many_strings_is_not_read_to_its_end_if_the_script_is_killed() {
        let (lua, running) = (mlua::Lua::new(), Scripts::default().running);
        let read = || {
            let packed = msgpack::unpack(&lua, b"\x91\x01", 0, 1, &running).err();
            let reply = replies::to_lua(&lua, &mut b"*1\r\n:1\r\n".as_slice(), &running).err();
            let [packed, reply] = [packed, reply].map(|error| error.map(|error| values::text_of(&error)));
            [json::decode(&lua, b"[1]", json::Settings::default(), &running).err(), packed, reply]
        };
        assert_eq!(read(), [None, None, None]);
        assert!(running.kill());
        assert_eq!(read(), [(); 3].map(|()| Some("script killed".to_owned())));
    }
}
