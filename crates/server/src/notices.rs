//! Key-change notifications: for subscribers of keyspace notifications, and for clients that track keys.
//!
//! The key space records changes only while a client wants them (`keyspace/watched.rs`). The thread that
//! changed a key reports the recorded changes before the gate opens, so a notified client sees the change.
//!
//! Not here: which events a command causes (`command/events.rs`), who tracks which key (`tracking.rs`).

use crate::channels::Channels;
use crate::keyspace::{Change, Exclusive, Happened, KeySpace};
use crate::settings::Settings;
use crate::tracking::Tracking;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex};

/// The letters of `notify-keyspace-events`, in the order in which CONFIG GET lists them. The letter of
/// modules is accepted; there are none.
const LETTERS: &[u8] = b"g$lshzxetdnKEm";
const GENERIC: u32 = 1;
const STRING: u32 = 1 << 1;
const LIST: u32 = 1 << 2;
const SET: u32 = 1 << 3;
const HASH: u32 = 1 << 4;
const SORTED_SET: u32 = 1 << 5;
const EXPIRED: u32 = 1 << 6;
const EVICTED: u32 = 1 << 7;
const STREAM: u32 = 1 << 8;
const NEW: u32 = 1 << 10;
const KEYSPACE: u32 = 1 << 11;
const KEYEVENT: u32 = 1 << 12;
const MISS: u32 = 1 << 13;
/// What `A` stands for: the first ten classes.
const ALL: u32 = (1 << 10) - 1;

/// Events about any kind of value.
const GENERIC_EVENTS: [&str; 9] =
    ["del", "expire", "persist", "rename_from", "rename_to", "move_from", "move_to", "copy_to", "restore"];

/// What is known of a changed key after the change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct After {
    pub(crate) is_present: bool,
    pub(crate) expires: bool,
}

/// The events of a change, at most two.
pub(crate) type Events = [Option<&'static str>; 2];

/// Keyspace notifications and tracked keys.
pub(crate) struct Notices {
    settings: Arc<Settings>,
    channels: Arc<Channels>,
    classes: AtomicU32,
    /// Whether the key space is observed.
    observing: Mutex<bool>,
    /// Who tracks which keys.
    pub(crate) tracking: Tracking,
}

impl Notices {
    pub(crate) fn new(settings: Arc<Settings>, channels: Arc<Channels>) -> Notices {
        Notices {
            settings,
            channels,
            classes: AtomicU32::new(0),
            observing: Mutex::new(false),
            tracking: Tracking::default(),
        }
    }

    /// Formats the classes of events as CONFIG GET shows them.
    pub(crate) fn classes(&self) -> String {
        let classes = self.classes.load(Relaxed);
        let all = classes & ALL == ALL;
        let is_shown = |bit: u32| classes & bit != 0 && !(all && bit <= NEW);
        let letters = LETTERS.iter().enumerate().filter(|(index, _)| is_shown(1 << index)).map(|(_, &letter)| letter);
        (if all { Some('A') } else { None }).into_iter().chain(letters.map(char::from)).collect()
    }

    /// Parses the classes given to CONFIG SET; `None` if a letter is unknown.
    pub(crate) fn parse_classes(letters: &str) -> Option<u32> {
        let bit = |letter: u8| match letter {
            b'A' => Some(ALL),
            _ => LETTERS.iter().position(|&other| other == letter).map(|index| 1 << index),
        };
        letters.bytes().try_fold(0, |classes, letter| Some(classes | bit(letter)?))
    }

    /// Sets the classes of events that are published; [`settle`](Self::settle) makes the key space record them.
    pub(crate) fn set_classes(&self, classes: u32) {
        self.classes.store(classes, Relaxed);
    }

    /// Makes the key space record changes if any client wants them. Waits for the gate.
    pub(crate) fn settle(&self, space: &KeySpace) {
        let mut observing = self.observing.lock().unwrap_or_else(|e| e.into_inner());
        let classes = self.classes.load(Relaxed);
        let publishes = classes & (KEYSPACE | KEYEVENT) != 0 && classes & !(KEYSPACE | KEYEVENT) != 0;
        let wanted = publishes || self.tracking.is_active();
        if *observing != wanted {
            space.observe(wanted);
            *observing = wanted;
        }
    }

    /// Whether lookups of absent keys are published.
    pub(crate) fn wants_misses(&self) -> bool {
        let classes = self.classes.load(Relaxed);
        classes & MISS != 0 && classes & (KEYSPACE | KEYEVENT) != 0
    }

    /// Publishes that a key was looked up and is absent.
    pub(crate) fn missed(&self, database: usize, key: &[u8]) {
        self.publish(MISS, "keymiss", database, key);
    }

    /// Notifies the clients that want to know about changes. `writer`: the client that made them.
    /// `events_of`: the events of a change by a command.
    pub(crate) fn report(
        &self,
        alone: &mut Exclusive<'_>,
        changes: &[Change],
        writer: Option<u64>,
        events_of: impl Fn(&Change, After) -> Events,
    ) {
        let bytes_max = self.settings.output_bytes.load(Relaxed);
        self.tracking.invalidate(changes, writer, bytes_max);
        if self.classes.load(Relaxed) & (KEYSPACE | KEYEVENT) == 0 {
            return;
        }
        // A batch that stores a key twice notes twice that it was absent.
        let mut new = HashSet::new();
        for change in changes {
            let (database, key) = (change.database, change.key.as_slice());
            match change.what {
                Happened::Flushed => {}
                Happened::Expired => self.publish(EXPIRED, "expired", database, key),
                Happened::FieldsExpired { is_last } => {
                    self.publish(HASH, "hexpired", database, key);
                    if is_last {
                        self.publish(GENERIC, "del", database, key);
                    }
                }
                Happened::Evicted => self.publish(EVICTED, "evicted", database, key),
                Happened::Event(event) => self.publish(class_of(event), event, database, key),
                Happened::Changed { was_present } => {
                    // The key counts as present if that cannot be read: the change was made.
                    let (is_present, expires) = alone.presence_of(database, key).unwrap_or((true, false));
                    if is_present && !was_present && new.insert((database, key)) {
                        self.publish(NEW, "new", database, key);
                    }
                    for event in events_of(change, After { is_present, expires }).into_iter().flatten() {
                        self.publish(class_of(event), event, database, key);
                    }
                }
            }
        }
    }

    fn publish(&self, class: u32, event: &str, database: usize, key: &[u8]) {
        let classes = self.classes.load(Relaxed);
        if classes & class == 0 {
            return;
        }
        let bytes_max = self.settings.output_bytes.load(Relaxed);
        if classes & KEYSPACE != 0 {
            let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
            self.channels.publish(&channel, event.as_bytes(), bytes_max);
        }
        if classes & KEYEVENT != 0 {
            self.channels.publish(format!("__keyevent@{database}__:{event}").as_bytes(), key, bytes_max);
        }
    }
}

fn class_of(event: &str) -> u32 {
    const LISTS: [&str; 9] = ["lpush", "rpush", "lpop", "rpop", "lset", "lrem", "ltrim", "linsert", "sortstore"];
    const SETS: [&str; 6] = ["sadd", "srem", "spop", "sinterstore", "sunionstore", "sdiffstore"];
    match event {
        _ if GENERIC_EVENTS.contains(&event) => GENERIC,
        _ if LISTS.contains(&event) => LIST,
        _ if SETS.contains(&event) => SET,
        _ if event.starts_with('h') => HASH,
        _ if event.starts_with('z') || event.starts_with("geo") => SORTED_SET,
        _ if event.starts_with('x') => STREAM,
        _ => STRING,
    }
}

/// The events of a change that no command of the Redis protocol made.
pub(crate) fn plain_events(_: &Change, after: After) -> Events {
    [Some(if after.is_present { "set" } else { "del" }), None]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_shown_as_redis_shows_them() {
        let notices = Notices::new(Arc::default(), Arc::default());
        let cases =
            [("KEA", "AKE"), ("KEAmn", "AKEm"), ("Kg$lshzxetdn", "AK"), ("En$", "$nE"), ("", ""), ("xKg", "gxK")];
        for (given, shown) in cases {
            notices.classes.store(Notices::parse_classes(given).unwrap(), Relaxed);
            assert_eq!(notices.classes(), shown);
        }
        assert_eq!(Notices::parse_classes("KEq"), None);
    }

    #[test]
    fn events_have_the_classes_of_redis() {
        for (event, class) in [
            ("move_from", GENERIC),
            ("move_to", GENERIC),
            ("rename_to", GENERIC),
            ("sortstore", LIST),
            ("sdiffstore", SET),
            ("hincrby", HASH),
            ("georadiusstore", SORTED_SET),
            ("geosearchstore", SORTED_SET),
            ("zrangestore", SORTED_SET),
            ("xsetid", STREAM),
            ("setrange", STRING),
            ("pfadd", STRING),
        ] {
            assert_eq!(class_of(event), class, "{event}");
        }
    }
}
