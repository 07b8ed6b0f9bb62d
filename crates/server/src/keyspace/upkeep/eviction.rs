//! The memory limit: when keys are evicted, and which keys.
//!
//! The limit applies to the memory that pairs take. A table keeps the memory of removed pairs for reuse, so free memory
//! does not count. Nor does slack, the space of buckets that the load does not need: removing small pairs frees no page
//! until buckets merge. So eviction goes by the bytes that pairs need, and buckets are merged when memory including
//! the slack exceeds the limit.
//!
//! ```text
//! needed = in use - slack
//! needed > limit: evict keys      in use > limit: merge buckets that the load does not need
//! ```
//!
//! A victim is the best of a few random keys. Times of use are in an array indexed by the key's hash, so keys that
//! share an element share the latest time. The policies that go by frequency keep a counter there instead, as Redis
//! does: the higher it is, the less likely a use increments it, and it loses one for each minute without a use.
//!
//! A write evicts a bounded number of keys, even if the limit was lowered far below what is in use; housekeeping evicts
//! the rest. During a transaction over a file none are evicted, since the removals would become part of it. What it
//! added beyond the limit is evicted when it is stored.
//!
//! Cost: one hash and one store per access with a limit; one load without.

use crate::keyspace::record::HEAD_BYTES_MAX;
use crate::keyspace::{Clock, DATABASE_COUNT, Exclusive, KeySpace, Patience, Result, SpaceError};
use splitpoint::{HashKind, hash::HashFunction};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::*};

/// Which keys are removed when the memory limit is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Eviction {
    /// None: writes that could need memory are refused.
    #[default]
    None = 0,
    /// The least recently used key, approximately.
    AllKeysLru = 1,
    /// A key that expires soon; keys without a lifetime are never removed.
    VolatileTtl = 2,
    /// The least frequently used key, approximately.
    AllKeysLfu = 3,
    /// Any key.
    AllKeysRandom = 4,
    /// The least recently used key that has a lifetime.
    VolatileLru = 5,
    /// The least frequently used key that has a lifetime.
    VolatileLfu = 6,
    /// Any key that has a lifetime.
    VolatileRandom = 7,
}

impl Eviction {
    /// All policies, in the order of their numbers.
    pub(crate) const ALL: [Eviction; 8] = [
        Eviction::None,
        Eviction::AllKeysLru,
        Eviction::VolatileTtl,
        Eviction::AllKeysLfu,
        Eviction::AllKeysRandom,
        Eviction::VolatileLru,
        Eviction::VolatileLfu,
        Eviction::VolatileRandom,
    ];

    /// Redis's name for the policy.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Eviction::None => "noeviction",
            Eviction::AllKeysLru => "allkeys-lru",
            Eviction::VolatileTtl => "volatile-ttl",
            Eviction::AllKeysLfu => "allkeys-lfu",
            Eviction::AllKeysRandom => "allkeys-random",
            Eviction::VolatileLru => "volatile-lru",
            Eviction::VolatileLfu => "volatile-lfu",
            Eviction::VolatileRandom => "volatile-random",
        }
    }

    /// Whether only keys with a lifetime are removed.
    fn is_volatile(self) -> bool {
        use Eviction::{VolatileLfu, VolatileLru, VolatileRandom, VolatileTtl};
        matches!(self, VolatileTtl | VolatileLru | VolatileLfu | VolatileRandom)
    }

    fn is_lru(self) -> bool {
        matches!(self, Eviction::AllKeysLru | Eviction::VolatileLru)
    }

    /// Whether it goes by how often keys were used.
    pub(crate) fn is_lfu(self) -> bool {
        matches!(self, Eviction::AllKeysLfu | Eviction::VolatileLfu)
    }
}

/// Estimated bytes of memory that a pair takes besides its key and value.
const OVERHEAD_BYTES: usize = 32;
/// The memory in use is checked at least once for this many bytes written.
const LOOK_EVERY_BYTES: i64 = 64 << 10;
/// Elements of the array of times of use: 4 MiB.
const PLACES: usize = 1 << 20;
/// The number of random keys among which a victim is chosen.
const SAMPLE: usize = 16;
/// Once a key that may be evicted is found, no more pairs than this are searched for others.
const LOOKED_AT_MAX: usize = 1000;
/// The most keys evicted, and the most buckets merged, for one write: more would delay other clients.
const EVICTED_MAX: usize = 200;
const MERGED_MAX: u32 = 64;

pub(in crate::keyspace) struct MemoryLimit {
    /// The limit; 0 for none.
    max_bytes: AtomicU64,
    policy: AtomicU8,
    /// Whether more than `max_bytes` was in use at the last check.
    pressed: AtomicBool,
    /// Bytes that may be written before the next check.
    countdown: AtomicI64,
    /// When keys were last used, in 1/64 s, or [`Frequency`], indexed by hash; allocated when a policy first needs it.
    used: OnceLock<Box<[AtomicU32]>>,
    hash: HashFunction,
    random: AtomicU64,
}

impl MemoryLimit {
    pub(in crate::keyspace) fn new(seed: u64) -> MemoryLimit {
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
    pub(in crate::keyspace) fn is_pressed(&self) -> bool {
        self.pressed.load(Relaxed)
    }

    /// Whether a write of `bytes` is so large that it must be checked against the limit before it is stored.
    #[inline]
    pub(in crate::keyspace) fn is_much(&self, bytes: usize) -> bool {
        bytes > LOOK_EVERY_BYTES as usize && self.max_bytes.load(Relaxed) > 0
    }

    fn policy(&self) -> Eviction {
        Eviction::ALL[usize::from(self.policy.load(Relaxed))]
    }

    #[inline]
    pub(in crate::keyspace) fn note_use(&self, keys: &[&[u8]], clock: &Clock) {
        if let Some(used) = self.used.get() {
            self.note_used(used, keys.iter().copied(), clock.now_ms());
        }
    }

    fn note_used<'a>(&self, used: &[AtomicU32], keys: impl Iterator<Item = &'a [u8]>, now_ms: u64) {
        let is_lfu = self.policy().is_lfu();
        for key in keys {
            let place = &used[self.hash.hash(key) as usize % PLACES];
            let now = if is_lfu {
                Frequency::of(place.load(Relaxed)).decayed(now_ms).used(self.random()).encode()
            } else {
                time_of_use(now_ms)
            };
            place.store(now, Relaxed);
        }
    }

    #[inline]
    pub(in crate::keyspace) fn note_writes(&self, space: &KeySpace, pairs: &[(&[u8], &[u8])], clock: &Clock) {
        if self.max_bytes.load(Relaxed) == 0 {
            return;
        }
        let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len() + OVERHEAD_BYTES).sum();
        if let Some(used) = self.used.get() {
            self.note_used(used, pairs.iter().map(|(key, _)| *key), clock.now_ms());
        }
        self.note_bytes(space, bytes);
    }

    /// Notes that this many bytes were written.
    #[inline]
    pub(in crate::keyspace) fn note_bytes(&self, space: &KeySpace, bytes: usize) {
        if self.max_bytes.load(Relaxed) > 0 && self.countdown.fetch_sub(bytes as i64, Relaxed) < 0 {
            self.look(space);
        }
    }

    /// Checks the memory in use now.
    #[cold]
    pub(in crate::keyspace) fn look(&self, space: &KeySpace) {
        let max = self.max_bytes.load(Relaxed);
        let used = if max == 0 { 0 } else { space.used_bytes() };
        // Check more often near the limit.
        let left = i64::try_from(max.saturating_sub(used) / 4).unwrap_or(i64::MAX);
        self.countdown.store(left.clamp(0, LOOK_EVERY_BYTES), Relaxed);
        self.pressed.store(used > max, Relaxed);
    }

    fn used_at(&self, key: &[u8]) -> u32 {
        self.used.get().map_or(0, |used| used[self.hash.hash(key) as usize % PLACES].load(Relaxed))
    }

    fn frequency(&self, key: &[u8], now_ms: u64) -> Frequency {
        Frequency::of(self.used_at(key)).decayed(now_ms)
    }

    fn random(&self) -> u64 {
        // xorshift64*; it does no harm if two threads get the same number.
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

/// How often a key is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frequency {
    counter: u8,
    /// When the counter last changed, in minutes; wraps after 31 years.
    minute: u32,
}

impl Frequency {
    /// The counter of a new key, so that it is not the next victim.
    const NEW: u8 = 5;
    /// Sets how many uses a counter needs to grow: a counter reaches 255 after about a million.
    const LOG_FACTOR: u64 = 10;

    fn of(encoded: u32) -> Frequency {
        match encoded {
            0 => Frequency { counter: Self::NEW, minute: 0 }, // never used
            _ => Frequency { counter: encoded as u8, minute: encoded >> 8 },
        }
    }

    fn encode(self) -> u32 {
        self.minute << 8 | u32::from(self.counter)
    }

    /// Without a use until now.
    fn decayed(self, now_ms: u64) -> Frequency {
        let minute = (now_ms / 60_000) as u32 & 0xff_ffff;
        let idle = if self.minute == 0 { 0 } else { minute.wrapping_sub(self.minute) & 0xff_ffff };
        Frequency { counter: self.counter.saturating_sub(u8::try_from(idle).unwrap_or(u8::MAX)), minute }
    }

    /// After one more use.
    fn used(self, random: u64) -> Frequency {
        let above = u64::from(self.counter.saturating_sub(Self::NEW));
        let is_counted = random.is_multiple_of(above * Self::LOG_FACTOR + 1);
        Frequency { counter: self.counter.saturating_add(is_counted.into()), ..self }
    }
}

impl KeySpace {
    /// Sets the memory limit, 0 for none, and the eviction policy.
    pub(crate) fn limit_memory(&self, max_bytes: u64, policy: Eviction) {
        if let Some(used) = self.memory.used.get()
            && policy.is_lfu() != self.memory.policy().is_lfu()
        {
            used.iter().for_each(|place| place.store(0, Relaxed)); // they mean something else now
        }
        if (policy.is_lru() || policy.is_lfu()) && max_bytes > 0 {
            self.memory.used.get_or_init(|| (0..PLACES).map(|_| AtomicU32::new(0)).collect());
        }
        self.memory.policy.store(policy as u8, Relaxed);
        self.memory.max_bytes.store(max_bytes, Relaxed);
        self.memory.look(self);
    }

    /// Evicts keys in steps while more memory is in use than the limit and `may_go_on` returns true.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::remove`].
    pub(crate) fn evict_excess(&self, mut may_go_on: impl FnMut() -> bool) -> Result<()> {
        while self.is_pressed() && self.memory.policy() != Eviction::None && may_go_on() {
            let Some(mut alone) = self.close(Patience::MayWait) else { return Ok(()) };
            match alone.evict(0) {
                Ok(true) => {}
                Ok(false) | Err(SpaceError::MemoryLimit) => return Ok(()), // nothing is left to evict or to merge
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The memory limit, 0 for none, and the eviction policy.
    pub(crate) fn memory_limit(&self) -> (u64, Eviction) {
        (self.memory.max_bytes.load(Relaxed), self.memory.policy())
    }

    /// How often a key is used, from 0 to 255 on a logarithmic scale; `None` unless the eviction policy goes by it.
    pub(crate) fn frequency(&self, key: &[u8]) -> Option<u8> {
        self.memory.policy().is_lfu().then(|| self.memory.frequency(key, crate::keyspace::now_ms()).counter)
    }

    /// A number that no client can guess.
    pub(in crate::keyspace) fn secret(&self) -> u64 {
        self.memory.hash.hash(b"collections")
    }

    /// A random number, for choices that need not be secret or reproducible.
    pub(crate) fn random(&self) -> u64 {
        self.memory.random()
    }
}

impl Exclusive<'_> {
    /// Removes keys until `bytes` more fit. Returns whether it removed any, or merged buckets; without a limit it does
    /// neither. Must not be called between `begin` and `commit`.
    pub(in crate::keyspace) fn evict(&mut self, bytes: u64) -> Result<bool> {
        debug_assert!(!self.has_begun(), "staged removals free no memory, so the loop would not end");
        let space = self.space();
        let memory = &space.memory;
        let limit = memory.max_bytes.load(Relaxed);
        // The caller may have seen full memory before CONFIG SET removed the limit.
        if limit == 0 {
            return Ok(false);
        }
        let Some(max) = limit.checked_sub(bytes) else { return Err(SpaceError::MemoryLimit) };
        let merged = self.merge_slack(max);
        let (mut evicted, before) = (0, space.needed_bytes());
        loop {
            let needed = space.needed_bytes();
            // A large value may need more small ones to be evicted than one write usually may.
            let is_enough = || needed <= max + limit / 16 || before.saturating_sub(needed) >= 2 * bytes;
            if needed <= max || evicted >= EVICTED_MAX && is_enough() {
                break;
            }
            // Segments of collections that are gone come first.
            if let Some(database) = (0..DATABASE_COUNT).find(|database| space.has_removals(*database)) {
                self.remove_released(database)?;
                evicted += 1;
                continue;
            }
            let Some((database, key)) = self.victim(memory.policy())? else {
                memory.look(space);
                return Err(SpaceError::MemoryLimit);
            };
            if self.remove(database, &key)? {
                space.watched.was_evicted();
                space.events.evicted.fetch_add(1, Relaxed);
            }
            evicted += 1;
        }
        memory.look(space);
        Ok(merged? > 0 || evicted > 0)
    }

    /// Removes keys until no more memory is needed than `before`, or than the limit. An error ends it and is discarded:
    /// what was added is already stored.
    pub(in crate::keyspace) fn evict_added(&mut self, before: u64) {
        let (limit, _) = self.space().memory_limit();
        let allowed = limit.max(before);
        while limit > 0 && self.space().needed_bytes() > allowed && matches!(self.evict(0), Ok(true)) {}
    }

    /// Merges buckets if memory including their slack exceeds `max`. Returns how many.
    fn merge_slack(&self, max: u64) -> Result<u32> {
        let (space, mut merged) = (self.space(), 0);
        for table in space.tables() {
            if space.used_bytes() <= max {
                break;
            }
            merged += table.merge_slack(MERGED_MAX)?;
        }
        Ok(merged)
    }

    /// The best of a few random keys for this policy.
    fn victim(&self, policy: Eviction) -> Result<Option<(usize, Vec<u8>)>> {
        if policy == Eviction::None {
            return Ok(None);
        }
        let (space, now_ms) = (self.space(), self.now_ms());
        let memory = &space.memory;
        // The key with the greatest number goes.
        let rank = |key: &[u8], expires_at_ms: u64| match policy {
            _ if policy.is_lru() => time_of_use(now_ms).wrapping_sub(memory.used_at(key)).into(),
            _ if policy.is_lfu() => u64::MAX - u64::from(memory.frequency(key, now_ms).counter),
            Eviction::VolatileTtl => u64::MAX - expires_at_ms,
            _ => space.random(),
        };
        let mut best: Option<(u64, usize, Vec<u8>)> = None;
        for (number, database) in space.databases.iter().enumerate() {
            let may_have_some = !policy.is_volatile() || database.may_expire.load(Relaxed);
            let Some(table) = database.table.load_full().filter(|_| may_have_some) else { continue };
            let coding = space.coding(database);
            let (mut taken, mut looked_at) = (0, 0);
            // If the random position is after the last key, start again from the beginning.
            for from in [space.random(), 0] {
                let scan = table.scan_from(from);
                let mut scan = if policy.is_volatile() { scan.only_heads(HEAD_BYTES_MAX) } else { scan.only_keys() };
                // Until there are some, even if few of the keys expire.
                while taken < SAMPLE && (taken == 0 || looked_at < LOOKED_AT_MAX) {
                    let Some((stored, head)) = scan.next_ref()? else { break };
                    looked_at += 1;
                    let at = if policy.is_volatile() { coding.decode(head).attributes.expires_at_ms } else { 0 };
                    let is_candidate = !policy.is_volatile() || at != 0;
                    let Some(key) = space.key_of(stored).filter(|_| is_candidate) else { continue };
                    taken += 1;
                    let rank = rank(key, at);
                    if best.as_ref().is_none_or(|(greatest, ..)| rank > *greatest) {
                        best = Some((rank, number, key.to_vec()));
                    }
                }
            }
            if taken == 0 && policy.is_volatile() {
                // No writer is between its flag and the table: the gate is closed.
                database.may_expire.store(false, Relaxed);
                database.is_expiry_new.store(false, Relaxed);
            }
        }
        Ok(best.map(|(_, number, key)| (number, key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_uses_grows_slowly_and_decays() {
        const NOW_MS: u64 = 1_800_000_000_000;
        let mut frequency = Frequency::of(0).decayed(NOW_MS);
        assert_eq!(frequency.counter, Frequency::NEW);
        frequency = frequency.used(1);
        assert_eq!(frequency.counter, 6, "the first use always counts");
        assert_eq!(frequency.used(1).counter, 6, "of later ones only some do");
        assert_eq!(frequency.used(11).counter, 7);
        assert_eq!(Frequency::of(frequency.encode()), frequency);
        assert_eq!(frequency.decayed(NOW_MS + 2 * 60_000).counter, 4);
        assert_eq!(frequency.decayed(NOW_MS + 900 * 60_000).counter, 0);
        assert_eq!(Frequency { counter: 255, ..frequency }.used(0).counter, 255);
    }
}
