//! System V's hsearch with open addressing: a table of the size that was declared, a probe sequence for each key.
//!
//! ```text
//! by default   power of two, double hashing: place + k * interval, the interval odd, from further bits of the hash
//! DIV          prime, linear probing: place + k
//! BRENT        double hashing; a key that comes to lie far may push a key on its way further, if both together gain:
//!              place 0   1   2   3 free      new: 3 probes too far; the key at 1 moves one interval on: 1 + 1 < 3
//! ```
//!
//! Nothing grows: once every place is taken, an insert fails, and a miss looks at them all.
//!
//! Source: Seltzer & Yigit 1991, "hsearch"; Knuth, volume 3, section 6.4; Brent, CACM 16(2), 1973.

use super::{ENTRY_BYTES, Figures, Found, Function, HASH_BITS, Pair, Refused, Scheme};

/// Most places of a table: 2^28 take 8 GiB of the model's memory.
pub const SLOTS_MAX: usize = 1 << 28;
/// Probes from which on Brent rearranges.
const BRENT_THRESHOLD: usize = 2;

/// How collisions are resolved.
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
    /// A table for `nelem` entries, or as many more as its kind of size takes.
    pub fn new(function: Function, nelem: usize, probing: Probing) -> Self {
        let nelem = nelem.clamp(2, SLOTS_MAX);
        let slot_count = if probing == Probing::Linear { next_prime(nelem) } else { nelem.next_power_of_two() };
        Hsearch { function, probing, slots: vec![None; slot_count], figures: Figures::default() }
    }

    /// The place at which a search for `hash` begins.
    fn home(&self, hash: u32) -> usize {
        // By division, or by as many bits as there are places for.
        hash as usize % self.slots.len()
    }

    /// From one probe to the next. Odd where the size is a power of two, so that all places are met.
    fn interval(&self, hash: u32) -> usize {
        if self.probing == Probing::Linear {
            return 1;
        }
        let used_bits = self.slots.len().trailing_zeros();
        let further_bits = hash.checked_shr(used_bits.min(HASH_BITS)).unwrap_or(0) as usize;
        (further_bits | 1) % self.slots.len()
    }

    /// The place of probe number `probe`, from 0.
    fn place(&self, hash: u32, probe: usize) -> usize {
        // Both are below 2^29.
        (self.home(hash) + probe * self.interval(hash)) % self.slots.len()
    }

    /// Probes up to the key or a free place: how many before it, and the key's, if it is there.
    fn probe(&self, hash: u32, key: &[u8]) -> (usize, bool) {
        let (mut place, interval) = (self.home(hash), self.interval(hash));
        for probe in 0..self.slots.len() {
            match &self.slots[place] {
                None => return (probe, false),
                Some(pair) if pair.is(hash, key) => return (probe, true),
                Some(_) => place = (place + interval) % self.slots.len(),
            }
        }
        (self.slots.len(), false)
    }

    /// Makes room at an earlier place of `hash`'s sequence than `far`, by moving on the key there; the probe it gives.
    ///
    /// Tries what costs both together least first: a key met after `early` probes, moved on by `later` of its own intervals.
    fn rearrange(&mut self, hash: u32, far: usize) -> usize {
        for both in 1..far {
            for early in 0..both {
                self.figures.work += 1;
                let here = self.place(hash, early);
                let Some(settled) = self.slots[here] else { unreachable!("places before the free one are taken") };
                let later = both - early;
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
        let place = self.place(pair.hash, probe);
        self.slots[place] = Some(pair);
        self.figures.paused(1);
        self.figures.stored(&pair);
        Ok(())
    }

    fn find(&self, key: &[u8]) -> Found {
        let (probe, found) = self.probe(self.function.hash(key), key);
        // The place that ends it is looked at too, unless the table has none left.
        Found { found, touched: (probe + 1).min(self.slots.len()) as u64 }
    }

    fn figures(&self) -> Figures {
        let addressing_bytes = self.slots.len() as u64 * ENTRY_BYTES;
        Figures { store_bytes: addressing_bytes + self.figures.pair_bytes, addressing_bytes, ..self.figures }
    }
}

/// The first prime that is not below `number`.
pub(super) fn next_prime(number: usize) -> usize {
    let is_prime = |n: &usize| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (number.max(2)..).find(is_prime).expect("there is no last prime")
}
