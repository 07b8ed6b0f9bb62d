//! The sweep: removes expired keys that no command accesses, a bounded number at a time.
//!
//! It walks the side tables by their scan cursor, so it reaches every key with a lifetime, however large the database.
//! It reads without entering the gate, then closes the gate for a few expired keys at a time and checks each again.

use super::{Attributes, KeySpace, Patience, Result, now_ms};

/// The position of the sweep.
#[derive(Default)]
pub(crate) struct SweepCursor {
    database: usize,
    position: u64,
}

/// The result of one step of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Keys with attributes that were checked.
    pub(crate) looked_at: usize,
    /// Keys that had expired and were removed.
    pub(crate) removed: usize,
}

/// Keys removed each time the gate is closed: a few microseconds.
const REMOVED_AT_ONCE: usize = 32;

impl KeySpace {
    /// Checks about `count` keys that may expire, from where the last step ended, and removes those that have expired.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::remove`].
    pub(crate) fn sweep(&self, cursor: &mut SweepCursor, count: usize) -> Result<Swept> {
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
