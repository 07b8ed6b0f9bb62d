//! Published messages: who has subscribed to which channel, pattern or shard channel.

use crate::clients::{Client, Subscription};
use crate::command::pattern::matches;
use crate::command::reply;
use std::collections::HashMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Subscribers = HashMap<Vec<u8>, Vec<Arc<Client>>>;

/// All subscriptions of all clients, indexed by [`Subscription`].
#[derive(Default)]
pub(crate) struct Channels(RwLock<[Subscribers; 3]>);

impl Channels {
    fn read(&self) -> RwLockReadGuard<'_, [Subscribers; 3]> {
        self.0.read().unwrap_or_else(|e| e.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, [Subscribers; 3]> {
        self.0.write().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a subscription.
    pub(crate) fn subscribe(&self, client: &Arc<Client>, name: &[u8], kind: Subscription) {
        if client.note_subscription(name, kind, true) {
            self.write()[kind as usize].entry(name.to_vec()).or_default().push(client.clone());
        }
    }

    /// Ends a subscription.
    pub(crate) fn unsubscribe(&self, client: &Arc<Client>, name: &[u8], kind: Subscription) {
        if client.note_subscription(name, kind, false) {
            let mut all = self.write();
            let names = &mut all[kind as usize];
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
        for kind in Subscription::ALL {
            for name in client.subscribed(kind) {
                self.unsubscribe(client, &name, kind);
            }
        }
    }

    /// Queues a message for every subscriber of a shard channel. Returns the number of subscribers.
    pub(crate) fn publish_in_shard(&self, channel: &[u8], message: &[u8], bytes_max: usize) -> u64 {
        send_to(&self.read()[Subscription::ShardChannel as usize], b"smessage", channel, message, bytes_max)
    }

    /// Queues a message for every subscriber of the channel or a matching pattern. Returns the number of subscribers.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8], bytes_max: usize) -> u64 {
        let [channels, patterns, _] = &*self.read();
        let mut receivers = send_to(channels, b"message", channel, message, bytes_max);
        for (pattern, clients) in patterns.iter().filter(|(pattern, _)| matches(pattern, channel)) {
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

    /// The channels of a kind that have subscribers and match `pattern`; all of them for `None`.
    pub(crate) fn names(&self, kind: Subscription, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let all = self.read();
        let is_wanted = |name: &&Vec<u8>| pattern.is_none_or(|pattern| matches(pattern, name));
        all[kind as usize].keys().filter(is_wanted).cloned().collect()
    }

    /// The number of subscribers of a channel.
    pub(crate) fn subscribers(&self, kind: Subscription, channel: &[u8]) -> usize {
        self.read()[kind as usize].get(channel).map_or(0, Vec::len)
    }

    /// The number of patterns with subscribers.
    pub(crate) fn pattern_count(&self) -> usize {
        self.read()[Subscription::Pattern as usize].len()
    }
}

fn send_to(subscribers: &Subscribers, word: &[u8], channel: &[u8], message: &[u8], bytes_max: usize) -> u64 {
    let clients = subscribers.get(channel).map_or(&[][..], Vec::as_slice);
    for client in clients {
        client.push(bytes_max, |out| {
            reply::push(out, 3, client.version());
            [word, channel, message].into_iter().for_each(|part| reply::bulk(out, part));
        });
    }
    clients.len() as u64
}
