//! `stats`: figures in memcached's names, as far as it has them.

use super::{DATABASE, MEMCACHED_VERSION};
use crate::command::table::Id;
use crate::keyspace::now_ms;
use crate::server::Server;
use std::fmt::Write;
use std::sync::atomic::Ordering::*;

/// The answer to `stats` and `stats SUBCOMMAND`.
pub(super) fn stats(server: &Server, of: &[u8], out: &mut Vec<u8>) {
    let text = match of {
        b"" => general(server),
        b"settings" => settings(server),
        // There are no slabs.
        b"items" | b"slabs" | b"sizes" => String::new(),
        b"conns" => connections(server),
        b"reset" => {
            out.extend_from_slice(b"RESET\r\n");
            return;
        }
        b"detail" => {
            out.extend_from_slice(b"CLIENT_ERROR usage: stats detail on|off|dump\r\n");
            return;
        }
        _ => {
            out.extend_from_slice(b"ERROR\r\n");
            return;
        }
    };
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"END\r\n");
}

fn stat(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "STAT {name} {value}\r\n"); // a string takes all
}

fn general(server: &Server) -> String {
    let mut text = String::new();
    let calls = |ids: &[Id]| -> u64 {
        let of_thread = |figures: &crate::figures::Figures| -> u64 {
            ids.iter().map(|&id| figures.of(id).calls.load(Relaxed)).sum()
        };
        server.figures().iter().map(|figures| of_thread(figures)).sum()
    };
    let (limit, _) = server.space.memory_limit();
    let (hits, misses) = (server.total(|f| &f.hits), server.total(|f| &f.misses));
    stat(&mut text, "pid", std::process::id());
    stat(&mut text, "uptime", server.started.elapsed().as_secs());
    stat(&mut text, "time", now_ms() / 1000);
    stat(&mut text, "version", MEMCACHED_VERSION);
    stat(&mut text, "splitpoint_version", env!("CARGO_PKG_VERSION"));
    stat(&mut text, "pointer_size", usize::BITS);
    stat(&mut text, "max_connections", server.settings.clients.load(Relaxed));
    stat(&mut text, "curr_connections", server.clients.len());
    stat(&mut text, "total_connections", server.clients.accepted.load(Relaxed));
    stat(&mut text, "rejected_connections", server.clients.refused.load(Relaxed));
    stat(&mut text, "cmd_get", hits + misses);
    stat(&mut text, "cmd_set", calls(&[Id::Set, Id::SetNx, Id::SetEx, Id::PSetEx, Id::Append]));
    stat(&mut text, "cmd_flush", calls(&[Id::FlushDb, Id::FlushAll]));
    stat(&mut text, "cmd_touch", calls(&[Id::Expire, Id::GetEx]));
    stat(&mut text, "get_hits", hits);
    stat(&mut text, "get_misses", misses);
    stat(&mut text, "bytes_read", server.total(|f| &f.bytes_in));
    stat(&mut text, "bytes_written", server.total(|f| &f.bytes_out));
    stat(&mut text, "limit_maxbytes", limit);
    stat(&mut text, "threads", server.figures().len());
    stat(&mut text, "bytes", server.space.memory_bytes());
    stat(&mut text, "curr_items", server.space.len(DATABASE));
    stat(&mut text, "evictions", server.space.events.evicted.load(Relaxed));
    stat(&mut text, "expired_unfetched", server.space.events.expired.load(Relaxed));
    text
}

fn settings(server: &Server) -> String {
    let mut text = String::new();
    let (limit, policy) = server.space.memory_limit();
    stat(&mut text, "maxbytes", limit);
    stat(&mut text, "maxconns", server.settings.clients.load(Relaxed));
    stat(&mut text, "item_size_max", server.settings.bulk_bytes.load(Relaxed));
    stat(&mut text, "evictions", policy.name());
    stat(&mut text, "cas_enabled", "yes");
    stat(&mut text, "flush_enabled", "yes");
    stat(&mut text, "idle_timeout", server.settings.idle_s.load(Relaxed));
    text
}

fn connections(server: &Server) -> String {
    let mut text = String::new();
    for client in server.clients.all() {
        stat(&mut text, &format!("{}:addr", client.id), &client.address);
        stat(&mut text, &format!("{}:listen_addr", client.id), &client.local_address);
    }
    text
}
