//! A stream of appends into a store, window by window.
//!
//! The records of a window are generated before its clock starts; the time for that is the part `prepare` (the *xfer*
//! of "Big Memory, Part 3"). A pass that times each operation runs in a process of its own and reads the clock once
//! per operation. The store is then checked record by record: each value has its records, in order.

use super::{Job, compare};
use crate::digest::{Contents, InputDigest};
use crate::engine::{Outcome, Store};
use crate::measure::{Latencies, Memory, Stopwatch, thread_time};
use crate::random::mix;
use crate::row::{Line, Lines, Window};
use crate::stream::{FRESH, KEY_BYTES, RECORD_BYTES, Record, Stream};
use crate::workload::{Expected, Form, KeyChoice, Part};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Operations between two readings of the thread's CPU time, in the pass that times each operation.
const BLOCK: usize = 256;

type Pair = ([u8; KEY_BYTES], [u8; RECORD_BYTES]);

/// Runs the job's only part.
pub(super) fn run(job: &Job<'_>, keys: KeyChoice, seed: u64) -> Outcome<Lines> {
    let [part @ (Part::Append | Part::AppendMany | Part::AppendTimed)] = *job.parts else {
        return Err("a job has one pass over the stream: append, append-many or append-timed".into());
    };
    let mut lines = Lines::default();
    let stream = Stream::new(keys, job.case.form.count, job.case.form.appends, seed)?;
    let window = |w: u64| w * stream.appends() / job.case.form.windows;
    let room = (0..job.case.form.windows).map(|w| window(w + 1) - window(w)).max().unwrap_or(0) as usize;
    // Touch all of the harness's own memory before the store's is measured.
    let mut pairs: Vec<Pair> = vec![([1; KEY_BYTES], [1; RECORD_BYTES]); room];
    let (mut latencies, mut input) = (Latencies::default(), InputDigest::default());
    let (mut prepare, mut watch) = (Duration::ZERO, Stopwatch::default());
    let mut windows = Vec::with_capacity(job.case.form.windows as usize);

    let before = Memory::now()?;
    Memory::forget_peak()?;
    let mut store = job.open(true)?;
    if part == Part::AppendMany && !store.has_batches() {
        return Err(format!("{} has no call for many appends", job.case.engine.name()).into());
    }
    let mut peak = 0;
    for w in 0..job.case.form.windows {
        let (first, end) = (window(w), window(w + 1));
        let start = Instant::now();
        pairs.clear();
        pairs.extend((first..end).map(|i| stream.record(i)).map(|Record { key, tail, .. }| (key, tail)));
        let prepared = start.elapsed();
        prepare += prepared;
        pairs.iter().for_each(|(key, tail)| input.add(of_record(key, 0, tail)));

        let running = Stopwatch::start()?;
        let cpu = thread_time()?;
        match part {
            Part::Append => pairs.iter().try_for_each(|(key, tail)| store.append(key, tail))?,
            Part::AppendMany => append_many(&mut *store, &pairs, job.batch)?,
            _ => append_timed(&mut *store, &pairs, first, &mut latencies)?,
        }
        if end == stream.appends() {
            store.end_of_puts()?;
        }
        let cpu = thread_time()?.saturating_sub(cpu);
        let mut wall = watch.stop(&running)?;
        if job.case.engine.is_baseline() {
            // The baseline is how fast records can be generated.
            wall += prepared;
            watch.wall += prepared;
        }
        let memory = Memory::now()?;
        Memory::forget_peak()?;
        peak = peak.max(memory.peak);
        windows.push(Window {
            appends: end,
            ops_per_s: (end - first) as f64 / wall.as_secs_f64(),
            ops_per_cpu_s: (end - first) as f64 / cpu.as_secs_f64(),
            rss_bytes: memory.rss.saturating_sub(before.rss),
            peak_bytes: memory.peak.saturating_sub(before.rss),
        });
    }
    let after = Memory::now()?;
    let appends = stream.appends();
    lines.row("prepare", "ops_per_s", appends as f64 / prepare.as_secs_f64());
    if part == Part::AppendTimed {
        add_latencies(&mut lines, &latencies);
    } else {
        lines.took("append", appends, &watch);
        add_windows(&mut lines, &windows);
        let rss = after.rss.saturating_sub(before.rss) as f64;
        let over = rss - job.case.form.expected.payload_bytes as f64;
        lines.row("memory", "rss_bytes", rss);
        lines.row("memory", "peak_bytes", peak.saturating_sub(before.rss) as f64);
        lines.row("memory", "over_payload_bytes_per_pair", over / job.case.form.expected.pairs as f64);
        lines.0.extend(windows.into_iter().map(Line::Window));
    }
    if !job.case.engine.is_baseline() {
        compare("appends", &found(&mut *store, input)?, &job.case.form)?;
    }
    store.close()?;
    Ok(lines)
}

fn append_many(store: &mut dyn Store, pairs: &[Pair], batch: usize) -> Outcome {
    let mut many: Vec<(&[u8], &[u8])> = Vec::with_capacity(batch);
    for pairs in pairs.chunks(batch) {
        many.clear();
        many.extend(pairs.iter().map(|(key, tail)| (&key[..], &tail[..])));
        store.append_many(&many)?;
    }
    Ok(())
}

/// Appends, reading the clock after each; the first operation is number `first`.
fn append_timed(store: &mut dyn Store, pairs: &[Pair], first: u64, latencies: &mut Latencies) -> Outcome {
    let ns = |time: Duration| time.as_nanos() as u64; // 584 years
    let mut at = first;
    for pairs in pairs.chunks(BLOCK) {
        let cpu = thread_time()?;
        let start = Instant::now();
        let (mut last, mut longest) = (start, 0);
        for (key, tail) in pairs {
            store.append(key, tail)?;
            let now = Instant::now();
            let took = ns(now - last);
            latencies.add(at, took);
            longest = longest.max(took);
            (last, at) = (now, at + 1);
        }
        let on_cpu = thread_time()?.saturating_sub(cpu);
        latencies.end_block(longest, ns((last - start).saturating_sub(on_cpu)));
    }
    Ok(())
}

fn add_latencies(lines: &mut Lines, latencies: &Latencies) {
    let us = |ns: u64| ns as f64 / 1000.0;
    for (name, share) in [("p50_us", 0.5), ("p99_us", 0.99), ("p9999_us", 0.9999)] {
        lines.row("append-timed", name, us(latencies.quantile_ns(share)));
    }
    let (longest, at) = latencies.longest();
    lines.row("append-timed", "longest_us", us(longest));
    lines.row("append-timed", "longest_at", at as f64);
    lines.row("append-timed", "longest_on_cpu_us", us(latencies.longest_on_cpu_ns()));
}

fn add_windows(lines: &mut Lines, windows: &[Window]) {
    let mut spread = |per: &str, name: &str, rate: fn(&Window) -> f64| {
        let mut rates: Vec<f64> = windows.iter().map(rate).collect();
        rates.sort_unstable_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        lines.row("append", &format!("median_window_{per}"), median);
        lines.row("append", &format!("worst_window_{per}"), rates[0]);
        lines.row("append", name, rates[0] / median);
    };
    spread("ops_per_s", "worst_over_median", |window| window.ops_per_s);
    spread("ops_per_cpu_s", "worst_over_median_by_cpu", |window| window.ops_per_cpu_s);
    // Small tables use little memory, so their ratio is noisy: skip the first tenth of the windows.
    let grown = &windows[windows.len() / 10..];
    let above = grown.iter().map(|w| w.peak_bytes as f64 / w.rss_bytes.max(1) as f64).fold(1.0, f64::max);
    lines.row("memory", "peak_over_steady", above);
}

/// Returns the digest of a record at position `before` of a value.
fn of_record(key: &[u8], before: u64, tail: &[u8]) -> u64 {
    let half = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    mix(mix(mix(half(key) ^ before) ^ half(&tail[..8])) ^ half(&tail[8..]))
}

/// The content of the store.
fn found(store: &mut dyn Store, input: InputDigest) -> Outcome<Expected> {
    let (mut contents, mut odd) = (Contents::default(), None);
    store.scan(true, &mut |key, value| {
        let records = value.chunks_exact(RECORD_BYTES);
        if key.len() != KEY_BYTES || !records.remainder().is_empty() {
            odd.get_or_insert(key.to_vec());
            return;
        }
        let digest = (0..).zip(records).fold(0_u64, |sum, (n, tail)| sum.wrapping_add(of_record(key, n, tail)));
        contents.add(digest, key.len() + value.len());
    })?;
    match odd {
        Some(key) => Err(format!("a key or value of a length that was never put: {}", key.escape_ascii()).into()),
        None => Ok(expected(&contents, &input)),
    }
}

fn expected(contents: &Contents, input: &InputDigest) -> Expected {
    Expected {
        pairs: contents.pairs,
        payload_bytes: contents.payload_bytes,
        input_digest: input.to_string(),
        final_digest: contents.digest(),
    }
}

/// Returns the digests of the stream, and of a store after it.
pub(super) fn answers(keys: KeyChoice, seed: u64, form: &Form) -> Outcome<Expected> {
    let stream = Stream::new(keys, form.count, form.appends, seed)?;
    let mut counts = vec![0_u16; form.count as usize];
    let mut fresh: HashMap<u64, u16> = HashMap::new();
    let (mut contents, mut input) = (Contents::default(), InputDigest::default());
    for i in 0..stream.appends() {
        let Record { number, key, tail } = stream.record(i);
        let count = if number < FRESH { &mut counts[number as usize] } else { fresh.entry(number).or_default() };
        let record = of_record(&key, u64::from(*count), &tail);
        if *count == 0 {
            contents.add(record, KEY_BYTES + RECORD_BYTES);
        } else {
            contents.extend(record, RECORD_BYTES);
        }
        *count += 1;
        input.add(of_record(&key, 0, &tail));
    }
    Ok(expected(&contents, &input))
}
