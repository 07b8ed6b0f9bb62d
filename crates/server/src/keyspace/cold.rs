//! Decides whether requests wait for file reads, and so belong on a thread that may wait.
//!
//! ```text
//! Never    all that the file has is in memory                      every request runs on the event loop
//! Seldom   the file has pages that are not in memory               requests of few pages run on the event loop
//! Often    more than READS_MAX frames were read in one tick        none does, until reads stay few for a second
//! ```
//!
//! A hand-over to another thread costs more than most requests, so it pays only where the disk is really read. A burst
//! of reads is noticed within the tick: the counters of the table are compared with those at its beginning.

use super::{Database, KeySpace};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// Frames of a table that may be read in a tick before requests leave the event loop.
const READS_MAX: u64 = 16;
/// Ticks with few reads after which requests return to the event loop.
const QUIET_TICKS: u32 = 10;

/// How often requests wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Never,
    Seldom,
    Often,
}

/// What is known since the last tick.
#[derive(Default)]
pub(super) struct Cold {
    /// Whether a file has data that is not in memory.
    may_read: AtomicBool,
    reads_often: AtomicBool,
    quiet_ticks: AtomicU32,
}

impl Database {
    /// Whether more frames than allowed were read since the last tick.
    fn exceeds_reads(&self) -> bool {
        let table = self.table.load();
        table.as_ref().is_some_and(|table| table.frames_read() > self.reads_max.load(Relaxed))
    }
}

impl KeySpace {
    /// How often requests for this database wait for the disk. Cheap enough for every batch of requests.
    #[inline]
    pub(crate) fn disk_waits(&self, database: usize) -> Waits {
        match self.cold.may_read.load(Relaxed) {
            false => Waits::Never,
            true if self.cold.reads_often.load(Relaxed) || self.databases[database].exceeds_reads() => Waits::Often,
            true => Waits::Seldom,
        }
    }

    /// Updates what [`disk_waits`](Self::disk_waits) returns; housekeeping calls it in each tick. O(databases).
    pub(crate) fn note_disk_reads(&self) {
        if let Some(dictionary) = &self.dictionary {
            let may_wait = dictionary.may_wait();
            self.cold.may_read.store(may_wait, Relaxed);
            self.cold.reads_often.store(may_wait, Relaxed);
            return;
        }
        if !self.in_file() {
            return;
        }
        let (mut may_read, mut is_quiet) = (false, true);
        for database in &self.databases {
            let table = database.table.load();
            let Some(table) = table.as_ref() else { continue };
            may_read |= table.may_read_file();
            // Opening a file reads it, too.
            is_quiet &= database.reads_max.load(Relaxed) == 0 || !database.exceeds_reads();
            database.reads_max.store(table.frames_read() + READS_MAX, Relaxed);
        }
        let quiet_ticks = if is_quiet { self.cold.quiet_ticks.load(Relaxed).saturating_add(1) } else { 0 };
        self.cold.quiet_ticks.store(quiet_ticks, Relaxed);
        if quiet_ticks == 0 || quiet_ticks >= QUIET_TICKS {
            self.cold.reads_often.store(quiet_ticks == 0, Relaxed);
        }
        self.cold.may_read.store(may_read, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{Patience, SpaceOptions};
    use crate::resp::session::RespSession;
    use crate::server::Server;
    use crate::session::{Flow, Session};
    use crate::settings::Settings;
    use std::sync::Arc;

    const KEYS: usize = 20_000;

    fn open(folder: &std::path::Path) -> Arc<KeySpace> {
        let file = Some(folder.join("table"));
        Arc::new(KeySpace::open(SpaceOptions { file, logged: true, ..SpaceOptions::default() }).unwrap())
    }

    fn session(space: &Arc<KeySpace>) -> RespSession {
        let server = Arc::new(Server::new(space.clone(), Settings::default(), false));
        let client = server.clients.add("test".into(), "test".into(), 0, 10).unwrap();
        let figures = server.add_figures();
        RespSession::new(server, client, figures)
    }

    /// Executes commands, one per line, on the event loop; returns how the connection continues.
    fn execute(session: &mut RespSession, commands: &str) -> Flow {
        let commands = commands.replace('\n', "\r\n") + "\r\n";
        session.execute(commands.as_bytes(), &mut Vec::new(), Patience::EventLoop).1
    }

    /// Stores keys that a later open finds in the file but not in memory.
    fn fill(space: &Arc<KeySpace>) {
        let mut session = session(space);
        for key in 0..KEYS {
            let command = format!("SET key:{key} {}\r\nRPUSH list:{} {key}\r\n", "x".repeat(100), key % 7);
            session.execute(command.as_bytes(), &mut Vec::new(), Patience::MayWait);
        }
        space.checkpoint().unwrap();
    }

    #[test]
    fn requests_for_a_new_file_stay_on_the_event_loop_as_it_grows() {
        let folder = tempfile::tempdir().unwrap();
        let space = open(folder.path());
        let mut session = session(&space);
        for number in 0..5000 {
            assert!(matches!(
                execute(&mut session, &format!("SET key:{number} v\nRPUSH list v\nLRANGE list 0 9")),
                Flow::Read(_)
            ));
            if number % 100 == 0 {
                space.note_disk_reads();
                assert_eq!(space.disk_waits(0), Waits::Never);
            }
        }
        space.checkpoint().unwrap();
        space.note_disk_reads();
        assert_eq!(space.disk_waits(0), Waits::Never);
    }

    #[test]
    fn requests_leave_the_event_loop_while_the_file_is_read_and_return() {
        let folder = tempfile::tempdir().unwrap();
        fill(&open(folder.path()));
        let space = open(folder.path());
        let mut session = session(&space);
        space.note_disk_reads();
        assert_eq!(space.disk_waits(0), Waits::Seldom);
        assert!(matches!(execute(&mut session, "GET key:1\nSET key:1 v\nRPUSH list:1 v\nPING"), Flow::Read(_)));
        // Commands that may read much do not run here.
        for long in
            ["LRANGE list:1 0 -1", "LPOP list:1 5000", "EVAL return 0", &format!("MGET{}", " key:1".repeat(100))]
        {
            assert_eq!(execute(&mut session, long), Flow::Wait, "{long}");
        }
        // Within one batch, too, a burst of reads is noticed.
        let burst: Vec<String> = (0..KEYS).map(|key| format!("GET key:{key}")).collect();
        assert_eq!(execute(&mut session, &burst.join("\n")), Flow::Wait);
        assert!(space.databases[0].table.load().as_ref().unwrap().frames_read() < 16 + READS_MAX + 64);
        assert_eq!(execute(&mut session, "GET key:1"), Flow::Wait);
        for _ in 0..QUIET_TICKS {
            space.note_disk_reads();
            assert_eq!(space.disk_waits(0), Waits::Often);
        }
        space.note_disk_reads();
        assert_eq!(space.disk_waits(0), Waits::Seldom);
        assert!(matches!(execute(&mut session, "GET key:1"), Flow::Read(_)));
    }
}
