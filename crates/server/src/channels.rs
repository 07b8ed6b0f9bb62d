//! Published messages: who has subscribed to which channel or pattern.

use crate::clients::Client;
use crate::command::pattern::matches;
use crate::command::reply;
use std::collections::HashMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Subscribers = HashMap<Vec<u8>, Vec<Arc<Client>>>;

/// All subscriptions of all clients, by channel and by pattern.
#[derive(Default)]
pub(crate) struct Channels(RwLock<Both>);

#[derive(Default)]
struct Both {
    channels: Subscribers,
    patterns: Subscribers,
}

impl Channels {
    fn read(&self) -> RwLockReadGuard<'_, Both> {
        self.0.read().unwrap_or_else(|e| e.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, Both> {
        self.0.write().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a subscription.
    pub(crate) fn subscribe(&self, client: &Arc<Client>, name: &[u8], pattern: bool) {
        if client.note_subscription(name, pattern, true) {
            let mut both = self.write();
            let names = if pattern { &mut both.patterns } else { &mut both.channels };
            names.entry(name.to_vec()).or_default().push(client.clone());
        }
    }

    /// Ends a subscription.
    pub(crate) fn unsubscribe(&self, client: &Arc<Client>, name: &[u8], pattern: bool) {
        if client.note_subscription(name, pattern, false) {
            let mut both = self.write();
            let names = if pattern { &mut both.patterns } else { &mut both.channels };
            if let Some(subscribers) = names.get_mut(name) {
                subscribers.retain(|other| other.id != client.id);
                if subscribers.is_empty() {
                    names.remove(name);
                }
            }
        }
    }

    /// Ends all subscriptions of a client.
    pub(crate) fn unsubscribe_all(&self, client: &Arc<Client>) {
        for pattern in [false, true] {
            for name in client.subscribed(pattern) {
                self.unsubscribe(client, &name, pattern);
            }
        }
    }

    /// Queues a message for every subscriber. Returns the number of subscribers.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8], bytes_max: usize) -> u64 {
        let both = self.read();
        let mut receivers = 0;
        for client in both.channels.get(channel).into_iter().flatten() {
            receivers += 1;
            client.push(bytes_max, |out| {
                reply::push(out, 3, client.version());
                [b"message", channel, message].into_iter().for_each(|part| reply::bulk(out, part));
            });
        }
        for (pattern, clients) in both.patterns.iter().filter(|(pattern, _)| matches(pattern, channel)) {
            for client in clients {
                receivers += 1;
                client.push(bytes_max, |out| {
                    reply::push(out, 4, client.version());
                    [b"pmessage", pattern.as_slice(), channel, message].into_iter().for_each(|p| reply::bulk(out, p));
                });
            }
        }
        receivers
    }

    /// The channels that have subscribers and match `pattern`; all of them for `None`.
    pub(crate) fn names(&self, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let both = self.read();
        both.channels.keys().filter(|name| pattern.is_none_or(|pattern| matches(pattern, name))).cloned().collect()
    }

    /// The number of subscribers of a channel.
    pub(crate) fn subscribers(&self, channel: &[u8]) -> usize {
        self.read().channels.get(channel).map_or(0, Vec::len)
    }

    /// The number of patterns with subscribers.
    pub(crate) fn pattern_count(&self) -> usize {
        self.read().patterns.len()
    }
}
