//! System V's hsearch with open addressing: a table whose size is declared, and a probe sequence for each key.
//!
//! ```text
//! by default   power of two, double hashing: slot + k * interval; the interval is odd, from further bits of the hash
//! DIV          prime, linear probing: slot + k
//! BRENT        double hashing; an insert after many probes may move another key, if that costs less in total:
//!              slot 0   1   2   3 free      3 more probes for the new key, or 1 and 1 for the key in slot 1
//! ```
//!
//! The table never grows: once all slots are taken, an insert fails and a miss probes every slot.
//!
//! Source: Seltzer & Yigit 1991, "hsearch"; Knuth, volume 3, section 6.4; Brent, CACM 16(2), 1973.

use super::{ENTRY_BYTES, Figures, Found, Function, HASH_BITS, Pair, Refused, Scheme};

/// The maximum number of slots in a table: 2^28 take 8 GiB in the model.
pub const SLOTS_MAX: usize = 1 << 28;
/// Brent rearranges above this number of probes.
const BRENT_THRESHOLD: usize = 2;

/// The method of resolving collisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probing {
    Double,
    Linear,
    Brent,
}

pub(super) struct Hsearch<'k> {
    function: Function,
    probing: Probing,
    slots: Vec<Option<Pair<'k>>>,
    figures: Figures,
}

impl<'k> Hsearch<'k> {
    /// Creates a table for at least `nelem` entries, rounded up to a prime or a power of two.
    pub fn new(function: Function, nelem: usize, probing: Probing) -> Self {
        let nelem = nelem.clamp(2, SLOTS_MAX);
        let slot_count = if probing == Probing::Linear { next_prime(nelem) } else { nelem.next_power_of_two() };
        Hsearch { function, probing, slots: vec![None; slot_count], figures: Figures::default() }
    }

    /// Returns the first slot of the probe sequence of `hash`.
    fn home(&self, hash: u32) -> usize {
        // A division, or for a power of two the low bits.
        hash as usize % self.slots.len()
    }

    /// Returns the step of the probe sequence. It is odd if the size is a power of two, so that it visits every slot.
    fn interval(&self, hash: u32) -> usize {
        if self.probing == Probing::Linear {
            return 1;
        }
        let used_bits = self.slots.len().trailing_zeros();
        let further_bits = hash.checked_shr(used_bits.min(HASH_BITS)).unwrap_or(0) as usize;
        (further_bits | 1) % self.slots.len()
    }

    /// Returns the slot of probe number `probe`, from 0.
    fn slot(&self, hash: u32, probe: usize) -> usize {
        // Both are below 2^29.
        (self.home(hash) + probe * self.interval(hash)) % self.slots.len()
    }

    /// Probes for the key or a free slot. Returns the number of earlier probes, and whether the key was found.
    fn probe(&self, hash: u32, key: &[u8]) -> (usize, bool) {
        let (mut slot, interval) = (self.home(hash), self.interval(hash));
        for probe in 0..self.slots.len() {
            match &self.slots[slot] {
                None => return (probe, false),
                Some(pair) if pair.is(hash, key) => return (probe, true),
                Some(_) => slot = (slot + interval) % self.slots.len(),
            }
        }
        (self.slots.len(), false)
    }

    /// Frees a slot before probe `far` of the sequence of `hash` by moving its key. Returns the probe of the freed
    /// slot; `far` if no move is cheap enough.
    ///
    /// Tries the cheapest move first: a key at probe `early` moves by `later` of its own intervals; the cost is the
    /// sum.
    fn rearrange(&mut self, hash: u32, far: usize) -> usize {
        for cost in 1..far {
            for early in 0..cost {
                self.figures.work += 1;
                let here = self.slot(hash, early);
                let Some(settled) = self.slots[here] else { unreachable!("slots before the free one are taken") };
                let later = cost - early;
                let there = (here + later * self.interval(settled.hash)) % self.slots.len();
                if self.slots[there].is_none() {
                    self.slots[there] = self.slots[here].take();
                    self.figures.paused(2);
                    return early;
                }
            }
        }
        far
    }
}

impl<'k> Scheme<'k> for Hsearch<'k> {
    fn insert(&mut self, key: &'k [u8], value_bytes: usize) -> Result<(), Refused> {
        let pair = Pair::new(self.function, key, value_bytes);
        let (mut probe, found) = self.probe(pair.hash, key);
        self.figures.work += probe as u64 + 1;
        if found {
            return Ok(());
        }
        if probe == self.slots.len() {
            return Err(Refused::TableFull { slots: probe });
        }
        if self.probing == Probing::Brent && probe > BRENT_THRESHOLD {
            probe = self.rearrange(pair.hash, probe);
        }
        let slot = self.slot(pair.hash, probe);
        self.slots[slot] = Some(pair);
        self.figures.paused(1);
        self.figures.stored(&pair);
        Ok(())
    }

    fn find(&self, key: &[u8]) -> Found {
        let (probe, found) = self.probe(self.function.hash(key), key);
        // Counts the final slot too, unless every slot was probed.
        Found { found, touched: (probe + 1).min(self.slots.len()) as u64 }
    }

    fn figures(&self) -> Figures {
        let addressing_bytes = self.slots.len() as u64 * ENTRY_BYTES;
        Figures { store_bytes: addressing_bytes + self.figures.pair_bytes, addressing_bytes, ..self.figures }
    }
}

/// Returns the smallest prime that is at least `number`.
pub(super) fn next_prime(number: usize) -> usize {
    let is_prime = |n: &usize| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (number.max(2)..).find(is_prime).expect("there is no last prime")
}
