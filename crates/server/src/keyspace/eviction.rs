//! Keeping a limit of memory: when keys are evicted, and which.
//!
//! The limit is for the memory that pairs take. A table keeps the memory of removed pairs and uses it again, so what is
//! free again does not count. Nor does slack, the room of buckets that the load does not need: removing pairs of a few
//! bytes frees no page until buckets merge. So keys are evicted by the bytes that they need, and buckets are merged as
//! soon as memory with the slack exceeds the limit.
//!
//! ```text
//! needed = in use - slack      > limit: evict            in use > limit: merge buckets that the load does not need
//! ```
//!
//! *allkeys-lru* is approximate in two ways: times of use are kept in an array by the hash of the key, so keys that
//! share a place look as fresh as the freshest of them; and the victim is the stalest of some keys at random.
//!
//! Cost: with a limit, one hash and one store an access; without, one load.

use super::{Attributes, Clock, DATABASE_COUNT, Exclusive, KeySpace, Result, SpaceError};
use splitpoint::{HashKind, hash::HashFunction};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::*};

/// What is removed when the limit of memory is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Eviction {
    /// Nothing: writes that could need memory are refused.
    #[default]
    None = 0,
    /// The key that was not used for longest, approximately.
    AllKeysLru = 1,
    /// Of the keys that expire, one that expires soon.
    VolatileTtl = 2,
}

impl Eviction {
    /// All, in the order of their numbers.
    pub const ALL: [Eviction; 3] = [Eviction::None, Eviction::AllKeysLru, Eviction::VolatileTtl];

    /// The name that Redis gives it.
    pub fn name(self) -> &'static str {
        match self {
            Eviction::None => "noeviction",
            Eviction::AllKeysLru => "allkeys-lru",
            Eviction::VolatileTtl => "volatile-ttl",
        }
    }
}

/// Estimated bytes of memory a pair takes beside its key and value.
const OVERHEAD_BYTES: usize = 32;
/// Writes are counted in bytes until this many; then the memory is looked at.
const LOOK_EVERY_BYTES: i64 = 64 << 10;
/// Places for times of use: 4 MiB.
const PLACES: usize = 1 << 20;
/// Keys among which a victim is chosen.
const SAMPLE: usize = 16;
/// Keys evicted, and buckets merged, for one write: more would keep others waiting.
const EVICTED_MAX: usize = 200;
const MERGED_MAX: u32 = 64;

pub(super) struct MemoryLimit {
    /// 0: none.
    max_bytes: AtomicU64,
    policy: AtomicU8,
    /// Whether more than `max_bytes` is in use.
    pressed: AtomicBool,
    /// Bytes to write until the next look.
    countdown: AtomicI64,
    /// When keys were used, in 1/64 s, by hash; made for `AllKeysLru`.
    used: OnceLock<Box<[AtomicU32]>>,
    hash: HashFunction,
    random: AtomicU64,
}

impl MemoryLimit {
    pub(super) fn new(seed: u64) -> MemoryLimit {
        MemoryLimit {
            max_bytes: AtomicU64::new(0),
            policy: AtomicU8::new(0),
            pressed: AtomicBool::new(false),
            countdown: AtomicI64::new(0),
            used: OnceLock::new(),
            hash: HashFunction::new(HashKind::Xxh3, seed),
            random: AtomicU64::new(seed | 1),
        }
    }

    #[inline]
    pub(super) fn is_pressed(&self) -> bool {
        self.pressed.load(Relaxed)
    }

    /// Whether so many bytes more have to be compared with the limit before they are stored, and not afterwards.
    #[inline]
    pub(super) fn is_much(&self, bytes: usize) -> bool {
        bytes > LOOK_EVERY_BYTES as usize && self.max_bytes.load(Relaxed) > 0
    }

    fn policy(&self) -> Eviction {
        Eviction::ALL[usize::from(self.policy.load(Relaxed))]
    }

    #[inline]
    pub(super) fn note_use(&self, keys: &[&[u8]], clock: &Clock) {
        if let Some(used) = self.used.get() {
            for key in keys {
                used[self.hash.hash(key) as usize % PLACES].store(time_of_use(clock.now_ms()), Relaxed);
            }
        }
    }

    #[inline]
    pub(super) fn note_writes(&self, space: &KeySpace, pairs: &[(&[u8], &[u8])], clock: &Clock) {
        if self.max_bytes.load(Relaxed) == 0 {
            return;
        }
        let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len() + OVERHEAD_BYTES).sum();
        if let Some(used) = self.used.get() {
            for (key, _) in pairs {
                used[self.hash.hash(key) as usize % PLACES].store(time_of_use(clock.now_ms()), Relaxed);
            }
        }
        if self.countdown.fetch_sub(bytes as i64, Relaxed) < 0 {
            self.look(space);
        }
    }

    /// Looks at the memory now.
    #[cold]
    pub(super) fn look(&self, space: &KeySpace) {
        let max = self.max_bytes.load(Relaxed);
        let used = if max == 0 { 0 } else { space.used_bytes() };
        // Near the limit more often.
        let left = i64::try_from(max.saturating_sub(used) / 4).unwrap_or(i64::MAX);
        self.countdown.store(left.clamp(0, LOOK_EVERY_BYTES), Relaxed);
        self.pressed.store(used > max, Relaxed);
    }

    fn random(&self) -> u64 {
        // xorshift64*; two threads that take the same number do no harm.
        let mut x = self.random.load(Relaxed);
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.store(x, Relaxed);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn time_of_use(now_ms: u64) -> u32 {
    (now_ms >> 4) as u32 // wraps after two years
}

impl KeySpace {
    /// Sets the limit of memory, 0 for none, and what to evict.
    pub fn limit_memory(&self, max_bytes: u64, policy: Eviction) {
        if policy == Eviction::AllKeysLru && max_bytes > 0 {
            self.memory.used.get_or_init(|| (0..PLACES).map(|_| AtomicU32::new(0)).collect());
        }
        self.memory.policy.store(policy as u8, Relaxed);
        self.memory.max_bytes.store(max_bytes, Relaxed);
        self.memory.look(self);
    }

    /// The limit of memory, 0 for none, and what is evicted.
    pub fn memory_limit(&self) -> (u64, Eviction) {
        (self.memory.max_bytes.load(Relaxed), self.memory.policy())
    }

    /// A number for choices that nobody has to guess or to repeat.
    pub fn random(&self) -> u64 {
        self.memory.random()
    }
}

impl Exclusive<'_> {
    /// Removes keys until `bytes` more fit.
    pub(super) fn evict(&mut self, bytes: u64) -> Result<()> {
        let space = self.space();
        let memory = &space.memory;
        let limit = memory.max_bytes.load(Relaxed);
        let Some(max) = limit.checked_sub(bytes) else { return Err(SpaceError::MemoryLimit) };
        let merged = self.merge_slack(max);
        let mut evicted = 0;
        loop {
            let needed = space.needed_bytes();
            // Large values may need the room of more small ones.
            if needed <= max || evicted >= EVICTED_MAX && needed <= max + limit / 16 {
                break;
            }
            let victim = match memory.policy() {
                Eviction::None => None,
                Eviction::AllKeysLru => self.stalest()?,
                Eviction::VolatileTtl => self.soonest()?,
            };
            let Some((database, key)) = victim else {
                memory.look(space);
                return Err(SpaceError::MemoryLimit);
            };
            if self.remove(database, &key)? {
                space.events.evicted.fetch_add(1, Relaxed);
            }
            evicted += 1;
        }
        memory.look(space);
        merged
    }

    /// Merges buckets where memory with their slack exceeds `max`.
    fn merge_slack(&self, max: u64) -> Result<()> {
        let space = self.space();
        for table in space.tables() {
            if space.used_bytes() <= max {
                break;
            }
            table.merge_slack(MERGED_MAX)?;
        }
        Ok(())
    }

    /// The key that was not used for longest, of some at random.
    fn stalest(&self) -> Result<Option<(usize, Vec<u8>)>> {
        let space = self.space();
        let Some(used) = space.memory.used.get() else { return Ok(None) };
        let now = time_of_use(self.now_ms());
        let age = |key: &[u8]| now.wrapping_sub(used[space.memory.hash.hash(key) as usize % PLACES].load(Relaxed));
        let mut best: Option<(u32, usize, Vec<u8>)> = None;
        for number in 0..DATABASE_COUNT {
            let Some(table) = space.table(number) else { continue };
            let mut consider = |key: &[u8]| {
                if best.as_ref().is_none_or(|(oldest, ..)| age(key) > *oldest) {
                    best = Some((age(key), number, key.to_vec()));
                }
            };
            let mut taken = 0;
            // From the beginning again where the random position lies behind the last key.
            for from in [space.random(), 0] {
                let mut scan = table.scan_from(from).only_keys();
                while let (true, Some((stored, _))) = (taken < SAMPLE, scan.next_ref()?) {
                    if let Some(key) = space.key_of(stored) {
                        consider(key);
                        taken += 1;
                    }
                }
            }
        }
        Ok(best.map(|(_, number, key)| (number, key)))
    }

    /// The key that expires first, of some at random.
    fn soonest(&self) -> Result<Option<(usize, Vec<u8>)>> {
        let space = self.space();
        let mut best: Option<(u64, usize, Vec<u8>)> = None;
        for (number, database) in space.databases.iter().enumerate() {
            let Some(side) = database.side.load_full() else { continue };
            let mut taken = 0;
            for from in [space.random(), 0] {
                let mut scan = side.scan_from(from);
                while let (true, Some((key, bytes))) = (taken < SAMPLE, scan.next_ref()?) {
                    taken += 1;
                    let at = Attributes::decode(bytes).map_or(0, |attributes| attributes.expires_at_ms);
                    if at != 0 && best.as_ref().is_none_or(|(soonest, ..)| at < *soonest) {
                        best = Some((at, number, key.to_vec()));
                    }
                }
            }
        }
        Ok(best.map(|(_, number, key)| (number, key)))
    }
}
