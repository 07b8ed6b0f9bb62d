//! The text format of Prometheus, written by hand: the format is lines of `name{label="value"} number`, and a registry
//! crate would only hold a second copy of the server's counters.
//!
//! Source: "Exposition formats", version 0.0.4, of the Prometheus documentation.

use crate::command::info::resident_bytes;
use crate::command::spec::COMMANDS;
use crate::figures::BUCKETS;
use crate::keyspace::DATABASE_COUNT;
use crate::server::Server;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::*;

/// Latency buckets that are reported, by their powers of two of nanoseconds: 256 ns to 17 s.
const REPORTED: std::ops::RangeInclusive<usize> = 8..=34;

/// All metrics.
pub(super) fn text(server: &Server) -> String {
    let mut text = Text(String::with_capacity(16 << 10));
    let space = &server.space;
    text.head("info", "gauge", "The server's version.");
    text.line("info", &format!("version=\"{}\"", env!("CARGO_PKG_VERSION")), 1);
    text.gauge("uptime_seconds", "Time since the start.", server.started.elapsed().as_secs());
    text.gauge("clients", "Connections now.", server.clients.len());
    text.gauge("clients_max", "Connections allowed.", server.settings.clients.load(Relaxed));
    text.counter("connections_total", "Connections accepted.", server.clients.accepted.load(Relaxed));
    text.counter("connections_refused_total", "Connections refused.", server.clients.refused.load(Relaxed));
    text.counter("received_bytes_total", "Bytes received.", server.total(|f| &f.bytes_in));
    text.counter("sent_bytes_total", "Bytes sent.", server.total(|f| &f.bytes_out));
    text.counter("hits_total", "Keys that lookups found.", server.total(|f| &f.hits));
    text.counter("misses_total", "Keys that lookups did not find.", server.total(|f| &f.misses));
    text.counter("errors_total", "Error replies.", server.total(|f| &f.errors));
    text.gauge("memory_bytes", "Memory of the tables.", space.used_bytes());
    text.gauge("payload_bytes", "Bytes of keys and values.", space.payload_bytes());
    text.gauge("memory_limit_bytes", "The limit of memory; 0 for none.", space.memory_limit().0);
    text.gauge("resident_bytes", "Resident memory of the process.", resident_bytes());
    text.counter("expired_total", "Keys that expired.", space.events.expired.load(Relaxed));
    text.counter("evicted_total", "Keys removed to keep the limit of memory.", space.events.evicted.load(Relaxed));
    text.counter("changes_total", "Changes of keys.", space.events.changes.load(Relaxed));
    text.gauge("saving", "Whether a checkpoint is under way.", u8::from(server.saving.load(Relaxed)));
    let is_refused = u8::from(server.space.write_failure().is_some());
    text.gauge("writes_refused", "Whether the last write failed on a full or broken disk.", is_refused);
    text.gauge("save_failed", "Whether the last checkpoint failed.", u8::from(server.save_failed.load(Relaxed)));
    text.gauge("saved_timestamp_seconds", "When the last checkpoint ended.", server.saved_at_s.load(Relaxed));
    databases(server, &mut text);
    if let Some(served) = server.space.dictionary() {
        let now = served.now();
        let failed = u8::from(served.failure().is_some());
        text.gauge("dictionary_generation", "The generation that is served; 0 for one file.", now.number());
        text.gauge("dictionary_open_shards", "Files that are open.", now.dictionary.shard_count());
        text.counter("dictionary_reloads_total", "Generations taken over.", served.reloads.load(Relaxed));
        text.gauge("dictionary_reload_failed", "Whether a newer generation or topology cannot be served.", failed);
        text.counter("dictionary_reads_total", "Reads of this generation's files.", now.dictionary.reads());
    }
    commands(server, &mut text);
    text.0
}

fn databases(server: &Server, text: &mut Text) {
    let used = || (0..DATABASE_COUNT).filter(|&number| server.space.len(number) > 0);
    text.head("keys", "gauge", "Keys of a database.");
    for number in used() {
        text.line("keys", &format!("db=\"{number}\""), server.space.len(number));
    }
    text.head("expiring_keys", "gauge", "Keys that expire; of a database of more than 10,000 keys an estimate.");
    for number in used() {
        let (expiring, _) = server.space.lifetimes(number).unwrap_or_default();
        text.line("expiring_keys", &format!("db=\"{number}\""), expiring);
    }
    let tables = || used().filter_map(|number| Some((number, server.space.table(number)?.counters())));
    for (name, kind, help, value) in [
        ("buckets", "gauge", "Buckets of the table.", 0),
        ("splits_total", "counter", "Buckets split.", 1),
        ("merges_total", "counter", "Buckets merged.", 2),
        ("latch_waits_total", "counter", "Waits for a latch.", 3),
    ] {
        text.head(name, kind, help);
        for (number, counters) in tables() {
            let all = [counters.buckets, counters.splits, counters.merges, counters.latch_waits];
            text.line(name, &format!("db=\"{number}\""), all[value]);
        }
    }
}

fn commands(server: &Server, text: &mut Text) {
    let figures = server.figures();
    let name = "command_duration_seconds";
    text.head(name, "histogram", "Time of a command; memcached's count as the Redis command that does the same.");
    for spec in COMMANDS {
        let sum = |part: &dyn Fn(&crate::figures::CommandFigures) -> u64| -> u64 {
            figures.iter().map(|figures| part(figures.of(spec.id))).sum()
        };
        let buckets: [u64; BUCKETS] = std::array::from_fn(|bucket| sum(&|f| f.bucket(bucket)));
        let calls: u64 = buckets.iter().sum();
        if calls == 0 {
            continue;
        }
        let command = spec.name;
        let mut below = buckets[..*REPORTED.start()].iter().sum::<u64>();
        for bucket in REPORTED {
            below += buckets[bucket];
            let limit = (1u64 << bucket) as f64 / 1e9;
            text.line(&format!("{name}_bucket"), &format!("command=\"{command}\",le=\"{limit}\""), below);
        }
        text.line(&format!("{name}_bucket"), &format!("command=\"{command}\",le=\"+Inf\""), calls);
        let seconds = sum(&|f| f.nanos.load(Relaxed)) as f64 / 1e9;
        text.line(&format!("{name}_sum"), &format!("command=\"{command}\""), seconds);
        text.line(&format!("{name}_count"), &format!("command=\"{command}\""), calls);
    }
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP splitpoint_{name} {help}\n# TYPE splitpoint_{name} {kind}\n"); // takes all
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.0, "splitpoint_{name} {value}"),
            _ => writeln!(self.0, "splitpoint_{name}{{{labels}}} {value}"),
        };
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.line(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "counter", help);
        self.line(name, "", value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{KeySpace, Patience, SpaceOptions};
    use crate::resp::session::RespSession;
    use crate::session::Session;
    use crate::settings::Settings;
    use std::collections::HashSet;
    use std::sync::Arc;

    /// The names in a query that begin with ours.
    fn names(query: &str) -> impl Iterator<Item = &str> {
        let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("splitpoint_"))
    }

    #[test]
    fn the_dashboard_asks_for_metrics_that_there_are() {
        let space = KeySpace::open(SpaceOptions::default()).unwrap();
        let server = Arc::new(Server::new(Arc::new(space), Settings::default(), false));
        let client = server.clients.add("test".into(), "test".into(), 0, 10).unwrap();
        let mut session = RespSession::new(server.clone(), client, server.add_figures());
        session.execute(b"SET key value\r\n", &mut Vec::new(), Patience::MayWait);
        let text = text(&server);
        let known: HashSet<&str> = text.lines().filter(|line| !line.starts_with('#')).flat_map(names).collect();
        let dashboard: serde_json::Value = serde_json::from_str(include_str!("../../grafana/splitpoint.json")).unwrap();
        let mut asked = 0;
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let query = target["expr"].as_str().unwrap();
                assert!(names(query).next().is_some(), "{query}");
                names(query).for_each(|name| assert!(known.contains(name), "{}: {name}", panel["title"]));
                asked += 1;
            }
        }
        assert!(asked > 10);
        let servers = dashboard["templating"]["list"][1]["query"].as_str().unwrap();
        assert!(names(servers).all(|name| known.contains(name)), "{servers}");
    }
}
