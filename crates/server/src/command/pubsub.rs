//! Subscriptions and published messages.

use super::call::{Args, Outcome, Refusal};
use super::reply;
use super::state::SessionState;
use crate::clients::Subscription;
use std::sync::atomic::Ordering::*;

/// PUBLISH channel message
pub(super) fn publish(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let bytes_max = session.server.settings.output_bytes.load(Relaxed);
    let receivers = session.server.channels.publish(args.at(1), args.at(2), bytes_max);
    reply::count(out, receivers);
    Ok(())
}

/// SPUBLISH shardchannel message
pub(super) fn publish_in_shard(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let bytes_max = session.server.settings.output_bytes.load(Relaxed);
    let receivers = session.server.channels.publish_in_shard(args.at(1), args.at(2), bytes_max);
    reply::count(out, receivers);
    Ok(())
}

/// SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE name ...
pub(super) fn subscribe(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>, kind: Subscription) -> Outcome {
    const COUNT_MAX: usize = 1 << 20;
    // The names of a client's subscriptions may take as many bytes as one request.
    let (count, bytes) = (COUNT_MAX, session.server.settings.request_bytes.load(Relaxed));
    let more: usize = args.from(1).map(<[u8]>::len).sum();
    if session.client.subscriptions() + args.len() > count || session.client.subscribed_bytes() + more > bytes {
        return Err("ERR too many subscriptions".into());
    }
    for name in args.from(1) {
        session.server.channels.subscribe(&session.client, name, kind);
        confirm(session, out, kind, "subscribe", Some(name));
    }
    super::acl::settle_receiver(session);
    Ok(())
}

/// UNSUBSCRIBE, PUNSUBSCRIBE, SUNSUBSCRIBE [name ...]
pub(super) fn unsubscribe(session: &SessionState, args: Args<'_>, out: &mut Vec<u8>, kind: Subscription) -> Outcome {
    let names: Vec<Vec<u8>> = match args.len() {
        1 => session.client.subscribed(kind),
        _ => args.from(1).map(<[u8]>::to_vec).collect(),
    };
    if names.is_empty() {
        confirm(session, out, kind, "unsubscribe", None);
    }
    for name in names {
        session.server.channels.unsubscribe(&session.client, &name, kind);
        if !session.executing {
            // No message follows the confirmation of the last subscription: a client takes it for another reply.
            session.client.take_pushes(out);
        }
        confirm(session, out, kind, "unsubscribe", Some(&name));
    }
    Ok(())
}

/// Writes the reply to a change of subscriptions. Shard channels are counted separately.
fn confirm(session: &SessionState, out: &mut Vec<u8>, kind: Subscription, what: &str, name: Option<&[u8]>) {
    let [channels, patterns, shard_channels] = session.client.subscription_counts();
    let (prefix, count) = match kind {
        Subscription::Channel => ("", channels + patterns),
        Subscription::Pattern => ("p", channels + patterns),
        Subscription::ShardChannel => ("s", shard_channels),
    };
    reply::push(out, 3, session.version);
    reply::bulk(out, format!("{prefix}{what}").as_bytes());
    reply::bulk_or_null(out, name, session.version);
    reply::count(out, count as u64);
}

/// PUBSUB subcommand ...
pub(super) fn ask(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let channels = &session.server.channels;
    let subcommand = args.at(1).to_ascii_lowercase();
    let kind = match subcommand.starts_with(b"shard") {
        true => Subscription::ShardChannel,
        false => Subscription::Channel,
    };
    match (subcommand.as_slice(), args.len()) {
        (b"channels" | b"shardchannels", 2 | 3) => {
            let names = channels.names(kind, args.get(2));
            reply::array(out, names.len());
            names.iter().for_each(|name| reply::bulk(out, name));
        }
        (b"numsub" | b"shardnumsub", _) => {
            // An array in RESP3 too, as in Redis.
            reply::array(out, 2 * (args.len() - 2));
            for name in args.from(2) {
                reply::bulk(out, name);
                reply::count(out, channels.subscribers(kind, name) as u64);
            }
        }
        (b"numpat", 2) => reply::count(out, channels.pattern_count() as u64),
        (b"help", 2) => {
            let lines = [
                "CHANNELS [<pattern>]",
                "    Lists the channels that have subscribers and match.",
                "NUMPAT",
                "    Returns the number of patterns that have subscribers.",
                "NUMSUB [<channel> ...]",
                "    Returns the number of subscribers of each channel.",
                "SHARDCHANNELS [<pattern>], SHARDNUMSUB [<shardchannel> ...]",
                "    Lists shard channels, or counts their subscribers.",
            ];
            reply::help(out, "PUBSUB", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "PUBSUB")),
    }
    Ok(())
}
