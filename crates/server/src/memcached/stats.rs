//! `stats`: figures under memcached's names. Exporters expect every name that memcached has, so figures without a
//! meaning here are included, with the value that a memcached that never used the feature would show.
//!
//! The table has no slabs: all items are reported as slab class 1.

use super::state::HitsAndMisses;
use super::{DATABASE, MEMCACHED_VERSION};
use crate::command::info;
use crate::command::spec::Id;
use crate::keyspace::now_ms;
use crate::server::Server;
use std::fmt::Write;
use std::sync::atomic::Ordering::*;

/// The answer to `stats` and `stats SUBCOMMAND`.
pub(super) fn stats(server: &Server, of: &[u8], out: &mut Vec<u8>) {
    let mut words = of.split(|&b| b == b' ').filter(|word| !word.is_empty());
    let text = match (words.next().unwrap_or_default(), words.next()) {
        (b"", _) => general(server),
        (b"settings", _) => settings(server),
        (b"items", _) => items(server),
        (b"slabs", _) => slabs(server),
        (b"sizes", _) => "STAT sizes_status disabled\r\n".into(),
        (b"conns", _) => connections(server),
        (b"reset", _) => {
            server.reset_figures();
            out.extend_from_slice(b"RESET\r\n");
            return;
        }
        // Prefixes are not counted: the dump is that of a server that has seen none.
        (b"detail", Some(b"dump")) => String::new(),
        (b"detail", Some(word @ (b"on" | b"off"))) => {
            server.memcached.outcomes.detail.store(word == b"on", Relaxed);
            out.extend_from_slice(b"OK\r\n");
            return;
        }
        (b"detail", _) => {
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

/// Writes figures that never change.
fn constants(text: &mut String, names_and_values: &str) {
    for pair in names_and_values.split_ascii_whitespace() {
        let (name, value) = pair.split_once('=').unwrap_or((pair, "0"));
        stat(text, name, value);
    }
}

fn calls(server: &Server, ids: &[Id]) -> u64 {
    let of_thread =
        |figures: &crate::figures::Figures| -> u64 { ids.iter().map(|&id| figures.of(id).calls.load(Relaxed)).sum() };
    server.figures().iter().map(|figures| of_thread(figures)).sum()
}

fn sets(server: &Server) -> u64 {
    calls(server, &[Id::Set, Id::SetNx, Id::SetEx, Id::PSetEx, Id::Append])
}

fn general(server: &Server) -> String {
    let mut text = String::new();
    let outcomes = &server.memcached.outcomes;
    let (limit, _) = server.space.memory_limit();
    let (hits, misses) = (server.total(|f| &f.hits), server.total(|f| &f.misses));
    let (user, system) = info::processor_seconds();
    stat(&mut text, "pid", std::process::id());
    stat(&mut text, "uptime", server.started.elapsed().as_secs());
    stat(&mut text, "time", now_ms() / 1000);
    stat(&mut text, "version", MEMCACHED_VERSION);
    stat(&mut text, "splitpoint_version", env!("CARGO_PKG_VERSION"));
    stat(&mut text, "pointer_size", usize::BITS);
    stat(&mut text, "rusage_user", format_args!("{user:.6}"));
    stat(&mut text, "rusage_system", format_args!("{system:.6}"));
    stat(&mut text, "max_connections", server.clients_max());
    stat(&mut text, "curr_connections", server.clients.len());
    stat(&mut text, "total_connections", server.clients.accepted.load(Relaxed));
    stat(&mut text, "rejected_connections", server.clients.refused.load(Relaxed));
    stat(&mut text, "connection_structures", server.clients.len());
    stat(&mut text, "idle_kicks", server.clients.idle_closed.load(Relaxed));
    constants(
        &mut text,
        "response_obj_oom response_obj_count response_obj_bytes read_buf_count read_buf_bytes read_buf_bytes_free
        read_buf_oom reserved_fds",
    );
    stat(&mut text, "cmd_get", hits + misses);
    stat(&mut text, "cmd_set", sets(server));
    stat(&mut text, "cmd_flush", calls(server, &[Id::FlushDb, Id::FlushAll]));
    stat(&mut text, "cmd_touch", calls(server, &[Id::Expire, Id::GetEx]));
    stat(&mut text, "cmd_meta", outcomes.meta.load(Relaxed));
    stat(&mut text, "get_hits", hits);
    stat(&mut text, "get_misses", misses);
    constants(&mut text, "get_expired get_flushed");
    let pairs = [
        ("delete", &outcomes.delete),
        ("incr", &outcomes.incr),
        ("decr", &outcomes.decr),
        ("cas", &outcomes.cas),
        ("touch", &outcomes.touch),
    ];
    for (name, HitsAndMisses { hits, misses }) in pairs {
        stat(&mut text, &format!("{name}_misses"), misses.load(Relaxed));
        stat(&mut text, &format!("{name}_hits"), hits.load(Relaxed));
    }
    stat(&mut text, "cas_badval", outcomes.cas_badval.load(Relaxed));
    stat(&mut text, "store_too_large", outcomes.too_large.load(Relaxed));
    stat(&mut text, "store_no_memory", outcomes.no_memory.load(Relaxed));
    let HitsAndMisses { hits, misses } = &outcomes.auth;
    stat(&mut text, "auth_cmds", hits.load(Relaxed) + misses.load(Relaxed));
    stat(&mut text, "auth_errors", misses.load(Relaxed));
    stat(&mut text, "bytes_read", server.total(|f| &f.bytes_in));
    stat(&mut text, "bytes_written", server.total(|f| &f.bytes_out));
    // Clients divide by it.
    stat(&mut text, "limit_maxbytes", if limit == 0 { info::system_memory_bytes() } else { limit });
    constants(&mut text, "accepting_conns=1 listen_disabled_num time_in_listen_disabled_us");
    stat(&mut text, "threads", server.figures().len());
    constants(
        &mut text,
        "conn_yields hash_power_level=16 hash_bytes hash_is_expanding slab_reassign_rescues slab_reassign_chunk_rescues
        slab_reassign_evictions_nomem slab_reassign_inline_reclaim slab_reassign_busy_items slab_reassign_busy_deletes
        slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts lru_maintainer_juggles malloc_fails
        log_worker_dropped log_worker_written log_watcher_skipped log_watcher_sent log_watchers unexpected_napi_ids
        round_robin_fallback",
    );
    stat(&mut text, "bytes", server.space.used_bytes());
    stat(&mut text, "curr_items", server.space.len(DATABASE));
    stat(&mut text, "total_items", sets(server));
    constants(&mut text, "slab_global_page_pool");
    stat(&mut text, "expired_unfetched", server.space.events.expired.load(Relaxed));
    constants(&mut text, "evicted_unfetched evicted_active");
    stat(&mut text, "evictions", server.space.events.evicted.load(Relaxed));
    stat(&mut text, "reclaimed", server.space.events.expired.load(Relaxed));
    constants(
        &mut text,
        "crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru
        direct_reclaims lru_bumps_dropped",
    );
    text
}

fn settings(server: &Server) -> String {
    let mut text = String::new();
    let (limit, policy) = server.space.memory_limit();
    let evicts = policy != crate::keyspace::Eviction::None;
    stat(&mut text, "maxbytes", limit);
    stat(&mut text, "maxconns", server.clients_max());
    stat(&mut text, "tcpport", server.memcached.port.load(Relaxed));
    constants(&mut text, "udpport inter=NULL verbosity oldest");
    stat(&mut text, "evictions", if evicts { "on" } else { "off" });
    constants(&mut text, "domain_socket=NULL umask=700 shutdown_command=no growth_factor=1.25 chunk_size=48");
    stat(&mut text, "num_threads", server.figures().len());
    constants(&mut text, "num_threads_per_udp stat_key_prefix=:");
    let detail = server.memcached.outcomes.detail.load(Relaxed);
    stat(&mut text, "detail_enabled", if detail { "yes" } else { "no" });
    constants(&mut text, "reqs_per_event=64 cas_enabled=yes tcp_backlog=511 binding_protocol=auto-negotiate");
    let auth = if server.settings.needs_password() { "yes" } else { "no" };
    stat(&mut text, "auth_enabled_sasl", auth);
    stat(&mut text, "auth_enabled_ascii", auth);
    stat(&mut text, "item_size_max", server.settings.bulk_bytes.load(Relaxed));
    constants(
        &mut text,
        "maxconns_fast=yes hashpower_init slab_reassign=no slab_automove slab_automove_ratio=0.80
        slab_automove_window=30 slab_chunk_max=524288 lru_crawler=yes lru_crawler_sleep=100 lru_crawler_tocrawl
        tail_repair_time flush_enabled=yes dump_enabled=yes",
    );
    stat(&mut text, "hash_algorithm", "siphash13");
    constants(
        &mut text,
        "lru_maintainer_thread=no lru_segmented=no hot_lru_pct=20 warm_lru_pct=40 hot_max_factor=0.20
        warm_max_factor=2.00 temp_lru=no temporary_ttl=61",
    );
    stat(&mut text, "idle_timeout", server.settings.idle_s.load(Relaxed));
    constants(
        &mut text,
        "watcher_logbuf_size=262144 worker_logbuf_size=65536 read_buf_mem_limit track_sizes=no
        inline_ascii_response=no",
    );
    text
}

/// Reports all items as one slab class; empty without items, as in memcached.
fn items(server: &Server) -> String {
    let (mut text, items) = (String::new(), server.space.len(DATABASE));
    if items == 0 {
        return text;
    }
    let evicted = server.space.events.evicted.load(Relaxed);
    let expired = server.space.events.expired.load(Relaxed);
    let figures = [
        ("number", items),
        ("number_hot", 0),
        ("number_warm", 0),
        ("number_cold", items),
        ("age_hot", 0),
        ("age_warm", 0),
        ("age", 0),
        ("mem_requested", server.space.used_bytes()),
        ("evicted", evicted),
        ("evicted_nonzero", 0),
        ("evicted_time", 0),
        ("outofmemory", server.memcached.outcomes.no_memory.load(Relaxed)),
        ("tailrepairs", 0),
        ("reclaimed", expired),
        ("expired_unfetched", expired),
        ("evicted_unfetched", 0),
        ("evicted_active", 0),
        ("crawler_reclaimed", 0),
        ("crawler_items_checked", 0),
        ("lrutail_reflocked", 0),
        ("moves_to_cold", 0),
        ("moves_to_warm", 0),
        ("moves_within_lru", 0),
        ("direct_reclaims", 0),
        ("hits_to_hot", 0),
        ("hits_to_warm", 0),
        ("hits_to_cold", server.total(|f| &f.hits)),
        ("hits_to_temp", 0),
    ];
    figures.iter().for_each(|(name, value)| stat(&mut text, &format!("items:1:{name}"), value));
    text
}

fn slabs(server: &Server) -> String {
    let (mut text, items) = (String::new(), server.space.len(DATABASE));
    let used_bytes = server.space.used_bytes();
    if items > 0 {
        let outcomes = &server.memcached.outcomes;
        let hits = |of: &HitsAndMisses| of.hits.load(Relaxed);
        let figures = [
            ("chunk_size", used_bytes.checked_div(items).unwrap_or(0).max(1)),
            ("chunks_per_page", items),
            ("total_pages", 1),
            ("total_chunks", items),
            ("used_chunks", items),
            ("free_chunks", 0),
            ("free_chunks_end", 0),
            ("get_hits", server.total(|f| &f.hits)),
            ("cmd_set", sets(server)),
            ("delete_hits", hits(&outcomes.delete)),
            ("incr_hits", hits(&outcomes.incr)),
            ("decr_hits", hits(&outcomes.decr)),
            ("cas_hits", hits(&outcomes.cas)),
            ("cas_badval", outcomes.cas_badval.load(Relaxed)),
            ("touch_hits", hits(&outcomes.touch)),
        ];
        figures.iter().for_each(|(name, value)| stat(&mut text, &format!("1:{name}"), value));
    }
    stat(&mut text, "active_slabs", u64::from(items > 0));
    stat(&mut text, "total_malloced", used_bytes);
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
