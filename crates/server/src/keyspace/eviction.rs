//! Keeping a limit of memory: when keys are evicted, and which.
//!
//! The limit is for the memory of the tables. A table hardly returns memory when keys go, it uses it again, so removing
//! keys until the memory shrinks would remove all. Instead, when the memory reaches its limit, the bytes that the pairs
//! take then become the limit of what may be stored, and eviction keeps that.
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
const OVERHEAD_BYTES: u64 = 32;
/// Writes are counted in bytes until this many; then the memory is looked at.
const LOOK_EVERY_BYTES: i64 = 256 << 10;
/// Places for times of use: 4 MiB.
const PLACES: usize = 1 << 20;
/// Keys among which a victim is chosen.
const SAMPLE: usize = 16;
/// Keys evicted at most for one write: more would keep others waiting.
const EVICTED_MAX: usize = 200;

pub(super) struct MemoryLimit {
    /// 0: none.
    max_bytes: AtomicU64,
    policy: AtomicU8,
    /// Whether pairs take more than `pairs_max_bytes`.
    pressed: AtomicBool,
    pairs_max_bytes: AtomicU64,
    /// Memory when that limit was set.
    peak_bytes: AtomicU64,
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
            pairs_max_bytes: AtomicU64::new(u64::MAX),
            peak_bytes: AtomicU64::new(0),
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

    fn policy(&self) -> Eviction {
        Eviction::ALL[usize::from(self.policy.load(Relaxed))]
    }

    pub(super) fn forget_limit(&self) {
        self.pairs_max_bytes.store(u64::MAX, Relaxed);
        self.peak_bytes.store(0, Relaxed);
        self.pressed.store(false, Relaxed);
        self.countdown.store(0, Relaxed);
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
        let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len() + OVERHEAD_BYTES as usize).sum();
        if let Some(used) = self.used.get() {
            for (key, _) in pairs {
                used[self.hash.hash(key) as usize % PLACES].store(time_of_use(clock.now_ms()), Relaxed);
            }
        }
        if self.countdown.fetch_sub(bytes as i64, Relaxed) < 0 {
            self.look(space);
        }
    }

    #[cold]
    fn look(&self, space: &KeySpace) {
        self.countdown.store(LOOK_EVERY_BYTES, Relaxed);
        let max = self.max_bytes.load(Relaxed);
        let memory = space.memory_bytes();
        let pairs = pairs_bytes(space);
        let peak = self.peak_bytes.load(Relaxed);
        let limit = self.pairs_max_bytes.load(Relaxed);
        if max == 0 || memory < max - max / 10 && pairs < limit / 2 {
            self.pairs_max_bytes.store(u64::MAX, Relaxed);
            self.peak_bytes.store(0, Relaxed);
        } else if memory > max && memory > peak + peak / 50 {
            let scaled = u128::from(pairs.min(limit)) * u128::from(max) / u128::from(memory.max(1));
            self.pairs_max_bytes.store(scaled as u64, Relaxed); // at most `pairs`
            self.peak_bytes.store(memory, Relaxed);
        }
        self.pressed.store(pairs > self.pairs_max_bytes.load(Relaxed), Relaxed);
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

/// Bytes that pairs take, as far as keys can be blamed for them.
fn pairs_bytes(space: &KeySpace) -> u64 {
    space
        .tables()
        .map(|table| (table.counters(), table.len()))
        .map(|(c, len)| c.payload_bytes + OVERHEAD_BYTES * len)
        .sum()
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
        self.memory.forget_limit();
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
    pub(super) fn evict(&mut self) -> Result<()> {
        let space = self.space();
        let memory = &space.memory;
        for _ in 0..EVICTED_MAX {
            if pairs_bytes(space) <= memory.pairs_max_bytes.load(Relaxed) {
                break;
            }
            let victim = match memory.policy() {
                Eviction::None => None,
                Eviction::AllKeysLru => self.stalest()?,
                Eviction::VolatileTtl => self.soonest()?,
            };
            let Some((database, key)) = victim else {
                memory.look(space);
                return if memory.is_pressed() { Err(SpaceError::MemoryLimit) } else { Ok(()) };
            };
            if self.remove(database, &key)? {
                space.events.evicted.fetch_add(1, Relaxed);
            }
        }
        memory.look(space);
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
                let mut scan = table.scan_from(from);
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
