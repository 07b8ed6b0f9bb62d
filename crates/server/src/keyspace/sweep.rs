//! The sweep: removes expired keys that nobody asks for, a bounded number at a time.
//!
//! It walks the side tables by their scan cursor, so it meets every key with a lifetime, however large the database;
//! it looks without the gate and closes it for some keys at a time, each of which is checked again.

use super::{Attributes, KeySpace, Patience, Result, now_ms};

/// Where the sweep is.
#[derive(Default)]
pub struct SweepCursor {
    database: usize,
    position: u64,
}

/// What one step of the sweep found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Keys with attributes that it looked at.
    pub looked_at: usize,
    /// Keys that had expired and were removed.
    pub removed: usize,
}

/// Keys removed behind one closing of the gate: some microseconds.
const REMOVED_AT_ONCE: usize = 32;

impl KeySpace {
    /// Looks at about `count` keys that may expire, from where the last step ended, and removes those that have.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::remove`].
    pub fn sweep(&self, cursor: &mut SweepCursor, count: usize) -> Result<Swept> {
        let mut swept = Swept { looked_at: 0, removed: 0 };
        // The next database that has such keys.
        let count_of_all = self.databases.len();
        let following = (cursor.database..cursor.database + count_of_all).map(|number| number % count_of_all);
        let with_side = |number: usize| Some((number, self.databases[number].side.load_full()?));
        let Some((database, side)) = following.filter_map(with_side).next() else { return Ok(swept) };
        if database != cursor.database {
            cursor.position = 0;
        }
        let now_ms = now_ms();
        let mut expired = Vec::new();
        let mut scan = side.scan_from(cursor.position);
        while let Some((key, bytes)) = scan.next_ref()? {
            swept.looked_at += 1;
            if Attributes::decode(bytes).is_none_or(|attributes| attributes.expired(now_ms)) {
                expired.push(key.to_vec());
            }
            if swept.looked_at >= count && scan.at_boundary() {
                break;
            }
        }
        *cursor = match scan.cursor() {
            Some(position) => SweepCursor { database, position },
            None => SweepCursor { database: (database + 1) % count_of_all, position: 0 },
        };
        for keys in expired.chunks(REMOVED_AT_ONCE) {
            let Some(mut alone) = self.close(Patience::MayWait) else { continue };
            for key in keys {
                swept.removed += usize::from(alone.expire(database, key)?);
            }
        }
        Ok(swept)
    }
}
