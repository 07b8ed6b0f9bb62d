//! A session store: values start with their expiry time, so a lookup treats an expired session as absent, and a sweep
//! removes it. Sessions survive a restart.

use splitpoint::Table;
use std::error::Error;

struct Sessions {
    table: Table,
}

impl Sessions {
    /// Stores `data` under `id` until `expires`, in seconds.
    fn put(&self, id: &str, data: &str, expires: u64) -> splitpoint::Result<()> {
        self.table.put(id.as_bytes(), &[&expires.to_le_bytes()[..], data.as_bytes()].concat())
    }

    /// The data of `id`; `None` if it is absent or expired at `now`.
    fn get(&self, id: &str, now: u64) -> splitpoint::Result<Option<String>> {
        let value = self.table.get(id.as_bytes())?;
        Ok(value.as_deref().and_then(|value| live(value, now)).map(|data| String::from_utf8_lossy(data).into_owned()))
    }

    /// Removes the sessions that are expired at `now`. Returns their number.
    fn sweep(&self, now: u64) -> splitpoint::Result<usize> {
        let mut removed = 0;
        for pair in self.table.scan() {
            let (id, value) = pair?;
            if live(&value, now).is_none() && self.table.remove(&id)? {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// The data of a value that is not expired at `now`.
fn live(value: &[u8], now: u64) -> Option<&[u8]> {
    let (expires, data) = value.split_first_chunk::<8>()?;
    (now < u64::from_le_bytes(*expires)).then_some(data)
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?; // removed at the end
    let path = directory.path().join("sessions.spt");
    let sessions = Sessions { table: Table::open(&path)? };
    (0..1000).try_for_each(|n| sessions.put(&format!("session-{n}"), &format!("user {n}"), 100 + n))?;
    sessions.table.close()?;

    let sessions = Sessions { table: Table::open(&path)? }; // a restart
    println!(
        "at 500: session-7 is {:?}, session-900 is {:?}",
        sessions.get("session-7", 500)?,
        sessions.get("session-900", 500)?
    );
    println!("the sweep removed {} of 1000 sessions, {} remain", sessions.sweep(500)?, sessions.table.len());
    assert_eq!((sessions.get("session-7", 500)?, sessions.table.len()), (None, 599));
    Ok(sessions.table.close()?)
}
