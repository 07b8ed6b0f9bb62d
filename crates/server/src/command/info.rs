//! INFO: figures about the server, by section, under Redis's names where Redis has them.

use super::call::{Args, Outcome};
use super::reply;
use super::spec::COMMANDS;
use super::state::SessionState;
use crate::clients::Client;
use crate::clients::Subscription;
use crate::dictionary::slots::text_of;
use crate::figures::BUCKETS;
use crate::keyspace::DATABASE_COUNT;
use crate::server::Server;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of Redis whose commands and texts these are. Clients use it to choose what to send.
pub(super) const REDIS_VERSION: &str = "7.0.15";

/// Writes the lines of a section.
type Section = fn(&Server, &mut String);

/// The sections in their order: title, function, and whether it is reported without being named.
const SECTIONS: [(&str, Section, bool); 13] = [
    ("Server", server, true),
    ("Clients", clients, true),
    ("Memory", memory, true),
    ("Persistence", persistence, true),
    ("Stats", stats, true),
    ("Replication", replication, true),
    ("CPU", cpu, true),
    ("Errorstats", errors, true),
    ("Cluster", cluster, true),
    ("Dictionary", dictionary, true),
    ("Keyspace", keyspace, true),
    ("Commandstats", commands, false),
    ("Latencystats", latencies, false),
];

/// INFO [section ...]: these sections; all but the figures of each command if none is named.
pub(super) fn info(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let server = &session.server;
    let is_named = |name: &str| args.from(1).any(|argument| argument.eq_ignore_ascii_case(name.as_bytes()));
    let all = is_named("all") || is_named("everything");
    let usual = all || args.len() == 1 || is_named("default");
    let mut text = String::new();
    for (title, write, is_usual) in SECTIONS {
        let is_there = title != "Dictionary" || server.space.dictionary().is_some();
        let is_wanted = is_named(title) || if is_usual { usual } else { all };
        if is_there && is_wanted {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            line(&mut text, format_args!("# {title}"));
            write(server, &mut text);
        }
    }
    reply::text(out, &text, session.version);
    Ok(())
}

fn server(server: &Server, text: &mut String) {
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    line(text, format_args!("server_time_usec:{}", now.as_micros()));
    let uptime_s = server.started.elapsed().as_secs();
    line(text, format_args!("uptime_in_seconds:{uptime_s}"));
    line(text, format_args!("uptime_in_days:{}", uptime_s / 86_400));
    constants(
        text,
        "redis_git_sha1=00000000 redis_git_dirty redis_build_id multiplexing_api=epoll process_supervised=no
        hz=10 configured_hz=10 config_file= io_threads_active",
    );
    line(text, format_args!("lru_clock:{}", now.as_secs() & 0xff_ffff));
}

fn clients(server: &Server, text: &mut String) {
    let pubsub = server.clients.all().iter().filter(|client| client.subscriptions() > 0).count();
    line(text, format_args!("connected_clients:{}", server.clients.len()));
    line(text, format_args!("maxclients:{}", server.clients_max()));
    line(text, format_args!("pubsub_clients:{pubsub}"));
    let most = |of: fn(&Client) -> &AtomicUsize| {
        server.clients.all().iter().map(|client| of(client).load(Relaxed)).max().unwrap_or(0)
    };
    line(text, format_args!("client_recent_max_input_buffer:{}", most(|client| &client.input_bytes)));
    line(text, format_args!("client_recent_max_output_buffer:{}", most(|client| &client.output_bytes)));
    line(text, format_args!("tracking_clients:{}", server.notices.tracking.client_count()));
    line(text, format_args!("blocked_clients:{}", server.blocked.len()));
    constants(text, "cluster_connections clients_in_timeout_table");
}

fn memory(server: &Server, text: &mut String) {
    let (limit, policy) = server.space.memory_limit();
    let (used, dataset) = (server.space.used_bytes(), server.space.payload_bytes());
    let (resident, peak) = (resident_bytes(), server.note_memory_peak(used));
    let (overhead, share) = (used.saturating_sub(dataset), |part: u64, whole: u64| {
        format!("{:.2}", part as f64 * 100.0 / whole.max(1) as f64)
    });
    let total = system_memory_bytes();
    for (name, bytes) in [
        ("used_memory", used),
        ("used_memory_rss", resident),
        ("used_memory_peak", peak),
        ("total_system_memory", total),
        ("maxmemory", limit),
    ] {
        line(text, format_args!("{name}:{bytes}"));
        line(text, format_args!("{name}_human:{}", human(bytes)));
    }
    line(text, format_args!("used_memory_peak_perc:{}%", share(used, peak)));
    line(text, format_args!("used_memory_overhead:{overhead}"));
    line(text, format_args!("used_memory_dataset:{dataset}"));
    line(text, format_args!("used_memory_dataset_perc:{}%", share(dataset, used)));
    let clients = server.clients.all();
    let buffers = clients.iter().map(|c| c.input_bytes.load(Relaxed) + c.output_bytes.load(Relaxed));
    let (buffers, startup) = (buffers.sum::<usize>() as u64, server.startup_bytes.load(Relaxed));
    // Accounted memory includes what the process took before the first key.
    let uncounted = startup + buffers;
    let accounted = used + uncounted;
    let fragmentation = resident as f64 / accounted.max(1) as f64;
    line(text, format_args!("used_memory_startup:{startup}"));
    line(text, format_args!("mem_fragmentation_ratio:{fragmentation:.2}"));
    line(text, format_args!("mem_fragmentation_bytes:{}", resident as i64 - accounted as i64)); // below 2^63
    line(text, format_args!("allocator_allocated:{used}"));
    line(text, format_args!("allocator_active:{}", server.space.table_bytes()));
    line(text, format_args!("allocator_resident:{resident}"));
    line(text, format_args!("mem_clients_normal:{buffers}"));
    line(text, format_args!("mem_not_counted_for_evict:{uncounted}"));
    line(text, format_args!("number_of_cached_scripts:{}", server.scripts.count()));
    let script_bytes = server.scripts.bytes() as u64;
    line(text, format_args!("used_memory_scripts:{script_bytes}"));
    line(text, format_args!("used_memory_scripts_human:{}", human(script_bytes)));
    constants(
        text,
        "used_memory_lua used_memory_vm_eval used_memory_lua_human=0B
        used_memory_scripts_eval number_of_functions number_of_libraries
        used_memory_vm_functions used_memory_vm_total used_memory_vm_total_human=0B
        used_memory_functions allocator_frag_ratio=1.00 allocator_frag_bytes allocator_rss_ratio=1.00
        allocator_rss_bytes rss_overhead_ratio=1.00 rss_overhead_bytes
        mem_replication_backlog mem_total_replication_buffers mem_clients_slaves mem_cluster_links
        mem_aof_buffer mem_allocator=splitpoint active_defrag_running lazyfree_pending_objects
        lazyfreed_objects",
    );
    line(text, format_args!("maxmemory_policy:{}", policy.name()));
}

fn persistence(server: &Server, text: &mut String) {
    let events = &server.space.events;
    let status = if server.save_failed.load(Relaxed) { "err" } else { "ok" };
    let failure = server.space.write_failure();
    let unsaved = events.changes.load(Relaxed).saturating_sub(events.saved.load(Relaxed));
    line(text, format_args!("loading:0"));
    line(text, format_args!("rdb_changes_since_last_save:{unsaved}"));
    line(text, format_args!("rdb_bgsave_in_progress:{}", u8::from(server.saving.load(Relaxed))));
    line(text, format_args!("rdb_last_save_time:{}", server.saved_at_s.load(Relaxed)));
    line(text, format_args!("rdb_last_bgsave_status:{status}"));
    line(text, format_args!("aof_enabled:{}", u8::from(server.space.in_file())));
    line(text, format_args!("aof_last_write_status:{}", if failure.is_some() { "err" } else { "ok" }));
    line(text, format_args!("writes_refused:{}", u8::from(failure.is_some())));
    let failure = failure.unwrap_or_default().replace(['\r', '\n'], " ");
    line(text, format_args!("write_error:{failure}"));
    constants(
        text,
        "async_loading current_cow_peak current_cow_size current_cow_size_age current_fork_perc=0.00
        current_save_keys_processed current_save_keys_total rdb_last_bgsave_time_sec=-1
        rdb_current_bgsave_time_sec=-1 rdb_last_cow_size rdb_last_load_keys_expired rdb_last_load_keys_loaded
        aof_rewrite_in_progress aof_rewrite_scheduled aof_last_rewrite_time_sec=-1
        aof_current_rewrite_time_sec=-1 aof_last_bgrewrite_status=ok aof_rewrites
        aof_rewrites_consecutive_failures aof_last_cow_size module_fork_in_progress
        module_fork_last_cow_size",
    );
    line(text, format_args!("rdb_saves:{}", server.saves.load(Relaxed)));
}

fn stats(server: &Server, text: &mut String) {
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
    line(text, format_args!("pubsub_channels:{}", server.channels.names(Subscription::Channel, None).len()));
    line(text, format_args!("pubsub_patterns:{}", server.channels.pattern_count()));
    let shard_channels = server.channels.names(Subscription::ShardChannel, None).len();
    line(text, format_args!("pubsubshard_channels:{shard_channels}"));
    let (keys, items, prefixes) = server.notices.tracking.sizes();
    line(text, format_args!("tracking_total_keys:{keys}"));
    line(text, format_args!("tracking_total_items:{items}"));
    line(text, format_args!("tracking_total_prefixes:{prefixes}"));
    line(text, format_args!("total_reads_processed:{}", server.total(|f| &f.reads)));
    constants(
        text,
        "instantaneous_ops_per_sec total_net_repl_input_bytes total_net_repl_output_bytes
        instantaneous_input_kbps=0.00 instantaneous_output_kbps=0.00 instantaneous_input_repl_kbps=0.00
        instantaneous_output_repl_kbps=0.00 sync_full sync_partial_ok sync_partial_err expired_stale_perc=0.00
        expired_time_cap_reached_count expire_cycle_cpu_milliseconds evicted_clients
        total_eviction_exceeded_time current_eviction_exceeded_time latest_fork_usec
        total_forks migrate_cached_sockets slave_expires_tracked_keys active_defrag_hits active_defrag_misses
        active_defrag_key_hits active_defrag_key_misses total_active_defrag_time current_active_defrag_time
        unexpected_error_replies
        dump_payload_sanitizations io_threaded_reads_processed io_threaded_writes_processed
        reply_buffer_shrinks reply_buffer_expands",
    );
}

fn replication(server: &Server, text: &mut String) {
    let dictionary = server.space.dictionary();
    let is_replica = dictionary.is_some_and(|dictionary| dictionary.now().slots.topology().is_replica());
    line(text, format_args!("role:{}", if is_replica { "slave" } else { "master" }));
    line(text, format_args!("master_replid:{}", server.run_id));
    constants(
        text,
        "connected_slaves master_failover_state=no-failover
        master_replid2=0000000000000000000000000000000000000000 master_repl_offset second_repl_offset=-1
        repl_backlog_active repl_backlog_size=1048576 repl_backlog_first_byte_offset repl_backlog_histlen",
    );
}

fn cpu(_: &Server, text: &mut String) {
    let (user, system) = processor_seconds();
    line(text, format_args!("used_cpu_sys:{system:.6}"));
    line(text, format_args!("used_cpu_user:{user:.6}"));
    constants(
        text,
        "used_cpu_sys_children=0.000000 used_cpu_user_children=0.000000 used_cpu_sys_main_thread=0.000000
        used_cpu_user_main_thread=0.000000",
    );
}

fn errors(server: &Server, text: &mut String) {
    let mut codes: BTreeMap<String, u64> = BTreeMap::new();
    for (code, count) in server.figures().iter().flat_map(|figures| figures.error_codes()) {
        *codes.entry(code).or_default() += count;
    }
    for (code, count) in codes {
        let code = code.replace([':', '\r', '\n'], "_");
        line(text, format_args!("errorstat_{code}:count={count}"));
    }
}

fn cluster(server: &Server, text: &mut String) {
    line(text, format_args!("cluster_enabled:{}", u8::from(server.space.dictionary().is_some())));
}

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

fn keyspace(server: &Server, text: &mut String) {
    for database in 0..DATABASE_COUNT {
        let keys = server.space.len(database);
        if keys > 0 {
            let (expiring, left_ms) = server.space.lifetimes(database).unwrap_or_default();
            line(text, format_args!("db{database}:keys={keys},expires={expiring},avg_ttl={left_ms}"));
        }
    }
}

fn commands(server: &Server, text: &mut String) {
    for spec in COMMANDS {
        let figures = server.figures();
        let sum = |part: fn(&crate::figures::CommandFigures) -> u64| -> u64 {
            figures.iter().map(|figures| part(figures.of(spec.id))).sum()
        };
        let (calls, nanos) = (sum(|f| f.calls.load(Relaxed)), sum(|f| f.nanos.load(Relaxed)));
        let (rejected, failed) = (sum(|f| f.rejected.load(Relaxed)), sum(|f| f.failed.load(Relaxed)));
        // As in Redis, rejected calls do not count as calls.
        let calls = calls.saturating_sub(rejected);
        if calls + rejected > 0 {
            let (name, each) = (spec.name, nanos as f64 / 1000.0 / calls.max(1) as f64);
            line(
                text,
                format_args!(
                    "cmdstat_{name}:calls={calls},usec={},usec_per_call={each:.2},rejected_calls={rejected},\
                    failed_calls={failed}",
                    nanos / 1000
                ),
            );
        }
    }
}

/// For each command that was called: the time within which half, 99 % and 99.9 % of its calls ended, rounded up to a
/// power of two of nanoseconds.
fn latencies(server: &Server, text: &mut String) {
    let figures = server.figures();
    for spec in COMMANDS {
        let counts: Vec<u64> =
            (0..BUCKETS).map(|bucket| figures.iter().map(|figures| figures.of(spec.id).bucket(bucket)).sum()).collect();
        let calls: u64 = counts.iter().sum();
        if calls == 0 {
            continue;
        }
        let within = |share: f64| {
            let (wanted, mut sum) = ((calls as f64 * share).ceil() as u64, 0);
            let bucket = counts.iter().position(|count| {
                sum += count;
                sum >= wanted
            });
            (1u64 << bucket.unwrap_or(BUCKETS - 1)) as f64 / 1000.0
        };
        let [half, most, almost_all] = [0.5, 0.99, 0.999].map(within);
        let name = spec.name;
        line(text, format_args!("latency_percentiles_usec_{name}:p50={half:.3},p99={most:.3},p99.9={almost_all:.3}"));
    }
}

/// Writes fields that never change here but that monitors look for: `name` has the value 0, `name=value` another.
fn constants(text: &mut String, fields: &str) {
    for field in fields.split_ascii_whitespace() {
        let (name, value) = field.split_once('=').unwrap_or((field, "0"));
        line(text, format_args!("{name}:{value}"));
    }
}

/// Formats a number of bytes for humans, in Redis's form.
fn human(bytes: u64) -> String {
    const UNITS: [char; 6] = ['B', 'K', 'M', 'G', 'T', 'P'];
    let unit = (bytes.max(1).ilog2() / 10).min(5) as usize;
    if unit == 0 {
        format!("{bytes}B")
    } else {
        format!("{:.2}{}", bytes as f64 / 1024f64.powi(unit as i32), UNITS[unit])
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    let _ = write!(text, "{content}\r\n"); // a string takes all
}

/// Resident memory of the process; 0 if the system does not report it.
pub(crate) fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * PAGE_BYTES)
}

/// Memory of the machine; 0 if the system does not report it.
pub(crate) fn system_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()).map_or(0, |kilobytes| kilobytes << 10)
}

/// User and system time of the process; 0 if the system does not report them.
pub(crate) fn processor_seconds() -> (f64, f64) {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name is in parentheses and may contain any bytes.
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let field = |index: usize| rest.split(' ').nth(index).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (field(11) / TICKS_A_SECOND, field(12) / TICKS_A_SECOND)
}
