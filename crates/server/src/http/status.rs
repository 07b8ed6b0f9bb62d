//! The figures of the status page: one sample per second, and the current state.

use crate::command::info::resident_bytes;
use crate::command::spec::COMMANDS;
use crate::command::stats::histogram;
use crate::dictionary::slots::text_of;
use crate::figures::BUCKETS;
use crate::keyspace::{DATABASE_COUNT, now_ms};
use crate::server::Server;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// Samples kept: ten minutes.
const SAMPLES_MAX: usize = 600;
/// The most clients, and the most slow requests, that are shown.
const SHOWN_MAX: usize = 100;
/// The number of buckets that a survey samples, and the interval between surveys.
const SURVEYED: u64 = 1000;
const SURVEY_EVERY: Duration = Duration::from_secs(5);

/// The samples of the last ten minutes, and what is needed to take the next one.
#[derive(Default)]
pub(super) struct Status {
    samples: VecDeque<Sample>,
    last: Option<(Instant, Totals)>,
    survey: Option<(Instant, Vec<(u64, u64)>)>,
}

/// One second.
#[derive(Clone, Serialize)]
struct Sample {
    at_ms: u64,
    commands_per_s: f64,
    hits_per_s: f64,
    misses_per_s: f64,
    in_bytes_per_s: f64,
    out_bytes_per_s: f64,
    /// The median latency of this second's commands; 0 if there were none.
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    memory_bytes: u64,
    payload_bytes: u64,
    clients: usize,
}

/// Counters that only increase.
#[derive(Clone)]
struct Totals {
    latencies: [u64; BUCKETS],
    hits: u64,
    misses: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Totals {
    const NONE: Totals = Totals { latencies: [0; BUCKETS], hits: 0, misses: 0, bytes_in: 0, bytes_out: 0 };
}

#[derive(Serialize)]
struct Page<'a> {
    version: &'a str,
    now_ms: u64,
    uptime_s: u64,
    file: Option<String>,
    /// Figures of the dictionary, if one is served.
    dictionary: Option<DictionaryRow>,
    memory_bytes: u64,
    memory_limit_bytes: u64,
    resident_bytes: u64,
    payload_bytes: u64,
    expired: u64,
    evicted: u64,
    errors: u64,
    saving: bool,
    save_failed: bool,
    saved_at_s: u64,
    client_count: usize,
    keys: Vec<(usize, u64)>,
    /// The number of buckets of database 0 for each number of keys, from a sample.
    buckets: &'a [(u64, u64)],
    commands: Vec<CommandRow>,
    clients: Vec<ClientRow>,
    slow: Vec<SlowRow>,
    samples: Vec<&'a Sample>,
}

#[derive(Serialize)]
struct DictionaryRow {
    generation: u64,
    shards: usize,
    node: String,
    slots: String,
    reloads: u64,
    failure: Option<String>,
    /// When this generation was first served.
    since_s: u64,
}

#[derive(Serialize)]
struct CommandRow {
    name: &'static str,
    calls: u64,
    mean_us: f64,
    p99_us: f64,
}

#[derive(Serialize)]
struct ClientRow {
    id: u64,
    address: String,
    name: String,
    local_address: String,
    age_s: u64,
    idle_s: u64,
    input_bytes: usize,
    output_bytes: usize,
}

#[derive(Serialize)]
struct SlowRow {
    id: u64,
    at_s: u64,
    duration_us: u64,
    request: String,
    address: String,
}

impl Status {
    /// Takes the sample of the second that ends now.
    pub(super) fn sample(&mut self, server: &Server) {
        let now = Instant::now();
        let totals = Totals::of(server);
        // The first one covers the time since the start.
        let before = self.last.replace((now, totals.clone()));
        let (since, last) = before.unwrap_or((server.started, Totals::NONE));
        let seconds = now.duration_since(since).as_secs_f64().max(1e-3);
        let latencies: [u64; BUCKETS] =
            std::array::from_fn(|bucket| totals.latencies[bucket].saturating_sub(last.latencies[bucket]));
        let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            at_ms: now_ms(),
            commands_per_s: latencies.iter().sum::<u64>() as f64 / seconds,
            hits_per_s: rate(totals.hits, last.hits),
            misses_per_s: rate(totals.misses, last.misses),
            in_bytes_per_s: rate(totals.bytes_in, last.bytes_in),
            out_bytes_per_s: rate(totals.bytes_out, last.bytes_out),
            p50_us: quantile_us(&latencies, 0.5),
            p99_us: quantile_us(&latencies, 0.99),
            p999_us: quantile_us(&latencies, 0.999),
            memory_bytes: server.space.used_bytes(),
            payload_bytes: server.space.payload_bytes(),
            clients: server.clients.len(),
        });
    }

    /// The current state, and the samples later than `since_ms`.
    pub(super) fn json(&mut self, server: &Server, since_ms: u64) -> String {
        if self.survey.as_ref().is_none_or(|(at, _)| at.elapsed() > SURVEY_EVERY) {
            self.survey = Some((Instant::now(), survey(server)));
        }
        let space = &server.space;
        let page = Page {
            version: env!("CARGO_PKG_VERSION"),
            now_ms: now_ms(),
            uptime_s: server.started.elapsed().as_secs(),
            file: space.path().map(|path| path.display().to_string()),
            dictionary: dictionary_row(server),
            memory_bytes: space.used_bytes(),
            memory_limit_bytes: space.memory_limit().0,
            resident_bytes: resident_bytes(),
            payload_bytes: space.payload_bytes(),
            expired: space.events.expired.load(Relaxed),
            evicted: space.events.evicted.load(Relaxed),
            errors: server.total(|f| &f.errors),
            saving: server.saving.load(Relaxed),
            save_failed: server.save_failed.load(Relaxed),
            saved_at_s: server.saved_at_s.load(Relaxed),
            client_count: server.clients.len(),
            keys: (0..DATABASE_COUNT).map(|number| (number, space.len(number))).filter(|(_, len)| *len > 0).collect(),
            buckets: self.survey.as_ref().map_or(&[], |(_, buckets)| buckets),
            commands: command_rows(server),
            clients: client_rows(server),
            slow: slow_rows(server),
            samples: self.samples.iter().filter(|sample| sample.at_ms > since_ms).collect(),
        };
        serde_json::to_string(&page).unwrap_or_default() // keys are strings, so nothing can fail
    }
}

impl Totals {
    fn of(server: &Server) -> Totals {
        let mut latencies = [0; BUCKETS];
        for figures in server.figures() {
            for spec in COMMANDS {
                let command = figures.of(spec.id);
                latencies.iter_mut().enumerate().for_each(|(bucket, count)| *count += command.bucket(bucket));
            }
        }
        Totals {
            latencies,
            hits: server.total(|f| &f.hits),
            misses: server.total(|f| &f.misses),
            bytes_in: server.total(|f| &f.bytes_in),
            bytes_out: server.total(|f| &f.bytes_out),
        }
    }
}

/// The quantile `share` of the latencies, interpolated by rank within its bucket; 0 without calls.
fn quantile_us(buckets: &[u64; BUCKETS], share: f64) -> f64 {
    let calls: u64 = buckets.iter().sum();
    let rank = calls as f64 * share;
    let mut below = 0.0;
    for (bucket, &count) in buckets.iter().enumerate() {
        let count = count as f64;
        if count > 0.0 && below + count >= rank {
            // Bucket b has the calls of 2^(b-1) to 2^b nanoseconds.
            let from = if bucket == 0 { 0.0 } else { (1u64 << (bucket - 1)) as f64 };
            let to = (1u64 << bucket) as f64;
            return (from + (to - from) * (rank - below) / count) / 1000.0;
        }
        below += count;
    }
    0.0
}

fn dictionary_row(server: &Server) -> Option<DictionaryRow> {
    let served = server.space.dictionary()?;
    let now = served.now();
    let topology = now.slots.topology();
    Some(DictionaryRow {
        generation: now.number(),
        shards: now.dictionary.shard_count(),
        node: topology.nodes[topology.own].name.clone(),
        slots: text_of(now.slots.ranges(topology.served())),
        reloads: served.reloads.load(Relaxed),
        failure: served.failure(),
        since_s: server.saved_at_s.load(Relaxed),
    })
}

fn survey(server: &Server) -> Vec<(u64, u64)> {
    let Some(table) = server.space.table(0) else { return Vec::new() };
    match histogram(&server.space, &table, SURVEYED) {
        Ok(histogram) => histogram.into_iter().collect(),
        Err(error) => {
            tracing::warn!(%error, "survey of the buckets");
            Vec::new()
        }
    }
}

fn command_rows(server: &Server) -> Vec<CommandRow> {
    let figures = server.figures();
    let mut rows: Vec<CommandRow> = COMMANDS
        .iter()
        .filter_map(|spec| {
            let own: Vec<_> = figures.iter().map(|figures| figures.of(spec.id)).collect();
            let buckets: [u64; BUCKETS] = std::array::from_fn(|bucket| own.iter().map(|f| f.bucket(bucket)).sum());
            let calls: u64 = buckets.iter().sum();
            let nanos: u64 = own.iter().map(|f| f.nanos.load(Relaxed)).sum();
            let mean_us = nanos as f64 / 1000.0 / calls.max(1) as f64;
            (calls > 0).then(|| CommandRow { name: spec.name, calls, mean_us, p99_us: quantile_us(&buckets, 0.99) })
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.calls));
    rows
}

fn client_rows(server: &Server) -> Vec<ClientRow> {
    let now_s = server.clock_s.load(Relaxed);
    let row = |client: &std::sync::Arc<crate::clients::Client>| ClientRow {
        id: client.id,
        address: client.address.clone(),
        name: client.name(),
        local_address: client.local_address.clone(),
        age_s: client.since.elapsed().as_secs(),
        idle_s: now_s.saturating_sub(client.active_s.load(Relaxed)),
        input_bytes: client.input_bytes.load(Relaxed),
        output_bytes: client.output_bytes.load(Relaxed),
    };
    server.clients.all().iter().take(SHOWN_MAX).map(row).collect()
}

fn slow_rows(server: &Server) -> Vec<SlowRow> {
    let lossy = |part: &Vec<u8>| String::from_utf8_lossy(part).into_owned();
    let row = |slow: crate::slow_log::SlowRequest| SlowRow {
        id: slow.id,
        at_s: slow.at_s,
        duration_us: slow.duration_us,
        request: slow.args.iter().map(lossy).collect::<Vec<_>>().join(" "),
        address: slow.address,
    };
    server.slow_log.latest(SHOWN_MAX).into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let mut buckets = [0; BUCKETS];
        assert_eq!(quantile_us(&buckets, 0.5), 0.0);
        buckets[10] = 99; // 512 to 1024 ns
        buckets[20] = 1; // 524 to 1049 us
        assert!((0.512..=1.024).contains(&quantile_us(&buckets, 0.5)));
        assert!((524.0..=1049.0).contains(&quantile_us(&buckets, 0.999)));
    }
}
