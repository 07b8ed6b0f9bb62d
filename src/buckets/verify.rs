//! Checks a whole table: every checksum, every page, every reference, and that every key is in the right bucket.

use super::linear_hash::Buckets;
use super::page::{self, INLINE, KIND_BUCKET, KIND_EMPTY, PAIR_IN_EXTENT};
use super::sizes::Totals;
use crate::error::{Error, ErrorKind, Result};
use crate::fault::{Fault, Proceed, go_on};
use crate::linear;
use crate::pager::FRAME_UNITS;
use std::sync::atomic::Ordering::*;

/// The state of a verification.
struct Check<'t> {
    buckets: &'t Buckets,
    faults: Vec<Fault>,
    /// One bit per unit, set once a reference to it was found.
    referred: Vec<u64>,
    found: Totals,
}

impl Buckets {
    /// Reads everything and reports every fault, including wrong totals. The caller keeps writers and checkpoints out.
    pub(crate) fn verify(&self, totals: Totals, proceed: Proceed<'_>) -> Result<Vec<Fault>> {
        self.pager.allocator().free_kept()?;
        let mut check = Check {
            buckets: self,
            faults: Vec::new(),
            referred: vec![0; self.pager.frame_count() as usize],
            found: Totals::default(),
        };
        self.pager.frames().verify_sums(proceed, |frame, what| check.fault(format!("frame {frame}"), what))?;
        check.refer_to_fixed();
        for number in 0..=self.view().max_bucket() {
            go_on(proceed)?;
            if let Err(e) = check.bucket(number) {
                check.damage(format!("bucket {number}"), e)?;
            }
        }
        check.space()?;
        check.counts(totals);
        Ok(check.faults)
    }
}

impl Check<'_> {
    fn fault(&mut self, place: String, what: String) {
        self.faults.push(Fault { place, what });
    }

    /// Records what was read and is wrong. Returns any other error: what could not be read may be whole.
    fn damage(&mut self, place: String, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::Corrupt {
            return Err(error);
        }
        self.fault(place, error.message().to_owned());
        Ok(())
    }

    /// Records that something uses these units; two users of one unit are a fault.
    fn refer(&mut self, place: &str, unit: u64, len: u64) {
        for at in unit..unit + len {
            let units = u64::from(FRAME_UNITS);
            let bit = 1 << (at % units);
            let Some(word) = self.referred.get_mut((at / units) as usize) else {
                return self.fault(place.into(), format!("unit {at} is beyond the end"));
            };
            if *word & bit != 0 {
                return self.fault(place.into(), format!("unit {at} is used by something else as well"));
            }
            *word |= bit;
        }
    }

    /// Header, map frames and the pages of all bucket groups.
    fn refer_to_fixed(&mut self) {
        let buckets = self.buckets;
        for (first, count) in buckets.pager.fixed_frames() {
            self.refer("map", u64::from(first) * u64::from(FRAME_UNITS), u64::from(count) * u64::from(FRAME_UNITS));
        }
        let unit_bytes = buckets.pager.unit_bytes() as u64;
        let first = buckets.groups[0].load(Relaxed) / unit_bytes;
        self.refer("bucket groups", first, u64::from(FRAME_UNITS));
        // There may be one group more than the buckets need, allocated for a split that did not happen.
        for group in buckets.groups_in_first_frame() + 1..linear::GROUP_COUNT {
            let start = buckets.groups[group].load(Relaxed);
            if start == 0 {
                continue;
            }
            let bytes = u64::from(linear::group_len(group)) * buckets.page_bytes as u64;
            self.refer(&format!("bucket group {group}"), start / unit_bytes, bytes / unit_bytes);
        }
    }

    fn bucket(&mut self, number: linear::Bucket) -> Result<()> {
        let buckets = self.buckets;
        let (frame, start) = buckets.location(number);
        let frame = buckets.pager.read(frame)?;
        let primary = &frame[start..start + buckets.page_bytes];
        let place = format!("bucket {number}");
        match page::kind(primary) {
            KIND_EMPTY if primary.iter().all(|&b| b == 0) => return Ok(()),
            KIND_BUCKET => {}
            kind => {
                self.fault(place, format!("its page is of kind {kind}"));
                return Ok(());
            }
        }
        let level = buckets.view().linear().level(number);
        if page::level(primary) != level {
            self.fault(place.clone(), format!("its page has level {}, expected {level}", page::level(primary)));
        }
        let mut keys = Vec::new();
        self.page(&place, number, primary, &mut keys)?;
        let filter = page::filter(primary);
        buckets.walk_chain(page::next(primary), |overflow, bytes| {
            let place = format!("bucket {number}, overflow page at unit {}", overflow.unit);
            self.refer(&place, overflow.unit, u64::from(overflow.len));
            for (tag, _) in page::records(bytes).map_while(|record| record.ok()) {
                let bits = page::filter_bits(tag);
                if filter & bits != bits {
                    self.fault(place.clone(), "the bucket's filter misses a pair".into());
                }
            }
            self.page(&place, number, bytes, &mut keys).map(|()| None::<()>)
        })?;
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            self.fault(place, format!("key {} is present twice", crate::error::quote(&twice[0])));
        }
        Ok(())
    }

    fn page(&mut self, place: &str, number: linear::Bucket, bytes: &[u8], keys: &mut Vec<Vec<u8>>) -> Result<()> {
        let buckets = self.buckets;
        if let Err(damage) = page::check(bytes) {
            self.fault(place.into(), damage.0.into());
            return Ok(());
        }
        for record in page::records(bytes) {
            let (tag, record) = record.map_err(|d| buckets.damaged(d))?;
            let key = match record.form {
                INLINE => {
                    self.found.payload_bytes += record.value.len() as u64;
                    record.key.to_vec()
                }
                form => {
                    let extent = buckets.parse_extent(record)?;
                    self.found.payload_bytes += u64::from(extent.value_bytes);
                    self.refer(
                        &format!("{place}, extent at unit {}", extent.unit),
                        extent.unit,
                        u64::from(extent.capacity),
                    );
                    if form == PAIR_IN_EXTENT { buckets.read_extent_key(&extent)? } else { record.key.to_vec() }
                }
            };
            let hash = buckets.hash.hash(&key);
            if page::tag(hash) != tag || record.form == PAIR_IN_EXTENT && record.key != hash.to_le_bytes() {
                self.fault(place.into(), format!("key {} has another hash than stored", crate::error::quote(&key)));
            }
            if buckets.view().linear().bucket_of(hash) != number {
                self.fault(place.into(), format!("key {} belongs to another bucket", crate::error::quote(&key)));
            }
            self.found.pairs += 1;
            self.found.payload_bytes += key.len() as u64;
            keys.push(key);
        }
        self.found.bucket_bytes += page::used_bytes(bytes) as u64;
        Ok(())
    }

    /// Compares the units that references use with those marked as used.
    fn space(&mut self) -> Result<()> {
        let (mut lost, mut unmarked) = (0u64, 0u64);
        for frame in 0..self.referred.len() {
            match self.buckets.pager.allocator().used_bits(frame as u32) {
                Ok(used) => {
                    lost += u64::from((used & !self.referred[frame]).count_ones());
                    unmarked += u64::from((self.referred[frame] & !used).count_ones());
                }
                Err(e) => return self.damage("map".into(), e),
            }
        }
        if unmarked > 0 {
            self.fault("map".into(), format!("{unmarked} units in use are marked free"));
        }
        if lost > 0 {
            let what = "units marked used belong to nothing; they only take space, and a dump loaded anew lacks them";
            self.fault("map".into(), format!("{lost} {what}"));
        }
        Ok(())
    }

    fn counts(&mut self, kept: Totals) {
        let counted = [
            ("pairs", kept.pairs, self.found.pairs),
            ("bytes of keys and values", kept.payload_bytes, self.found.payload_bytes),
            ("bytes in pages", kept.bucket_bytes, self.found.bucket_bytes),
        ];
        for (what, kept, found) in counted {
            if kept != found {
                self.fault("header".into(), format!("{kept} {what}, found {found}"));
            }
        }
    }
}
