//! INFO: figures about the server, by section, in Redis's names where it has them.

use super::introspect::{REDIS_VERSION, uptime};
use super::table::COMMANDS;
use crate::dictionary::slots::text_of;
use crate::keyspace::DATABASE_COUNT;
use crate::server::Server;
use std::fmt::Write;
use std::sync::atomic::Ordering::*;

const SECTIONS: [&str; 10] =
    ["server", "clients", "memory", "persistence", "stats", "replication", "cpu", "cluster", "dictionary", "keyspace"];

/// The text of INFO for these sections; all but command statistics where none is named.
pub(super) fn info<'a>(server: &Server, sections: impl Iterator<Item = &'a [u8]>) -> String {
    let mut wanted: Vec<String> = sections.map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
    let extra = wanted.iter().any(|name| name == "all" || name == "everything");
    if wanted.is_empty() || extra || wanted.iter().any(|name| name == "default") {
        wanted.extend(SECTIONS.iter().map(ToString::to_string));
    }
    if extra {
        wanted.push("commandstats".into());
    }
    let mut text = String::new();
    let is_there = |section: &str| section != "dictionary" || server.space.dictionary().is_some();
    for section in SECTIONS.iter().chain(&["commandstats"]).filter(|section| is_there(section)) {
        if wanted.iter().any(|name| name == section) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            write_section(server, section, &mut text);
        }
    }
    text
}

fn write_section(server: &Server, section: &str, text: &mut String) {
    let mut title = section.to_owned();
    title[..1].make_ascii_uppercase();
    line(text, format_args!("# {title}"));
    match section {
        "server" => {
            line(text, format_args!("redis_version:{REDIS_VERSION}"));
            let mode = if server.space.dictionary().is_some() { "cluster" } else { "standalone" };
            line(text, format_args!("redis_mode:{mode}"));
            line(text, format_args!("server_name:splitpoint"));
            line(text, format_args!("splitpoint_version:{}", env!("CARGO_PKG_VERSION")));
            line(text, format_args!("os:{} {}", std::env::consts::OS, std::env::consts::ARCH));
            line(text, format_args!("arch_bits:{}", usize::BITS));
            line(text, format_args!("process_id:{}", std::process::id()));
            line(text, format_args!("run_id:{}", server.run_id));
            line(text, format_args!("tcp_port:{}", server.port.load(Relaxed)));
            line(text, format_args!("uptime_in_seconds:{}", uptime(server)));
            line(text, format_args!("uptime_in_days:{}", uptime(server) / 86_400));
        }
        "clients" => {
            let pubsub = server.clients.all().iter().filter(|client| client.subscriptions() > 0).count();
            line(text, format_args!("connected_clients:{}", server.clients.len()));
            line(text, format_args!("maxclients:{}", server.settings.clients.load(Relaxed)));
            line(text, format_args!("pubsub_clients:{pubsub}"));
            line(text, format_args!("blocked_clients:0"));
        }
        "memory" => {
            let (limit, policy) = server.space.memory_limit();
            line(text, format_args!("used_memory:{}", server.space.memory_bytes()));
            line(text, format_args!("used_memory_dataset:{}", server.space.payload_bytes()));
            line(text, format_args!("used_memory_rss:{}", resident_bytes()));
            line(text, format_args!("maxmemory:{limit}"));
            line(text, format_args!("maxmemory_policy:{}", policy.name()));
        }
        "persistence" => {
            let events = &server.space.events;
            let status = if server.save_failed.load(Relaxed) { "err" } else { "ok" };
            let unsaved = events.changes.load(Relaxed).saturating_sub(events.saved.load(Relaxed));
            line(text, format_args!("loading:0"));
            line(text, format_args!("rdb_changes_since_last_save:{unsaved}"));
            line(text, format_args!("rdb_bgsave_in_progress:{}", u8::from(server.saving.load(Relaxed))));
            line(text, format_args!("rdb_last_save_time:{}", server.saved_at_s.load(Relaxed)));
            line(text, format_args!("rdb_last_bgsave_status:{status}"));
            line(text, format_args!("aof_enabled:{}", u8::from(server.space.in_file())));
        }
        "stats" => {
            let calls: u64 = server.figures().iter().map(|figures| figures.calls()).sum();
            let events = &server.space.events;
            line(text, format_args!("total_connections_received:{}", server.clients.accepted.load(Relaxed)));
            line(text, format_args!("rejected_connections:{}", server.clients.refused.load(Relaxed)));
            line(text, format_args!("total_commands_processed:{calls}"));
            line(text, format_args!("total_net_input_bytes:{}", server.total(|f| &f.bytes_in)));
            line(text, format_args!("total_net_output_bytes:{}", server.total(|f| &f.bytes_out)));
            line(text, format_args!("total_error_replies:{}", server.total(|f| &f.errors)));
            line(text, format_args!("keyspace_hits:{}", server.total(|f| &f.hits)));
            line(text, format_args!("keyspace_misses:{}", server.total(|f| &f.misses)));
            line(text, format_args!("expired_keys:{}", events.expired.load(Relaxed)));
            line(text, format_args!("evicted_keys:{}", events.evicted.load(Relaxed)));
            line(text, format_args!("pubsub_channels:{}", server.channels.names(None).len()));
            line(text, format_args!("pubsub_patterns:{}", server.channels.pattern_count()));
        }
        "replication" => {
            let dictionary = server.space.dictionary();
            let is_replica = dictionary.is_some_and(|dictionary| dictionary.now().slots.topology().is_replica());
            line(text, format_args!("role:{}", if is_replica { "slave" } else { "master" }));
            line(text, format_args!("connected_slaves:0"));
        }
        "cpu" => {
            let (user, system) = processor_seconds();
            line(text, format_args!("used_cpu_sys:{system:.6}"));
            line(text, format_args!("used_cpu_user:{user:.6}"));
        }
        "cluster" => {
            line(text, format_args!("cluster_enabled:{}", u8::from(server.space.dictionary().is_some())));
        }
        "dictionary" => dictionary(server, text),
        "keyspace" => {
            for database in 0..DATABASE_COUNT {
                let (keys, expiring) = (server.space.len(database), server.space.attributed_len(database));
                if keys > 0 {
                    line(text, format_args!("db{database}:keys={keys},expires={expiring},avg_ttl=0"));
                }
            }
        }
        _ => {
            for spec in COMMANDS {
                let figures = server.figures();
                let sum = |part: fn(&crate::figures::CommandFigures) -> u64| -> u64 {
                    figures.iter().map(|figures| part(figures.of(spec.id))).sum()
                };
                let (calls, nanos) = (sum(|f| f.calls.load(Relaxed)), sum(|f| f.nanos.load(Relaxed)));
                if calls > 0 {
                    let each = nanos as f64 / 1000.0 / calls as f64;
                    let name = spec.name;
                    line(
                        text,
                        format_args!(
                            "cmdstat_{name}:calls={calls},usec={},usec_per_call={each:.2},rejected_calls=0,\
                            failed_calls=0",
                            nanos / 1000
                        ),
                    );
                }
            }
        }
    }
}

/// What is served, where it is a dictionary.
fn dictionary(server: &Server, text: &mut String) {
    let Some(served) = server.space.dictionary() else { return };
    let now = served.now();
    let failure = served.failure();
    let own = now.slots.topology().served();
    line(text, format_args!("dictionary_path:{}", served.path().display()));
    line(text, format_args!("dictionary_generation:{}", now.number()));
    line(text, format_args!("dictionary_open_shards:{}", now.dictionary.shard_count()));
    line(text, format_args!("dictionary_slots:{}", text_of(now.slots.ranges(own))));
    line(text, format_args!("dictionary_reloads:{}", served.reloads.load(Relaxed)));
    line(text, format_args!("dictionary_last_reload_status:{}", if failure.is_some() { "err" } else { "ok" }));
    let failure = failure.unwrap_or_default().replace(['\r', '\n'], " ");
    line(text, format_args!("dictionary_last_reload_error:{failure}"));
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    let _ = write!(text, "{content}\r\n"); // a string takes all
}

/// Resident memory of the process, where the system tells.
pub(crate) fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * PAGE_BYTES)
}

/// User and system time of the process, where the system tells.
fn processor_seconds() -> (f64, f64) {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in parentheses, and may have any bytes.
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let field = |index: usize| rest.split(' ').nth(index).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (field(11) / TICKS_A_SECOND, field(12) / TICKS_A_SECOND)
}
