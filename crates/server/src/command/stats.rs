//! HT.STATS: how full a table's buckets are and what a lookup costs, from a sample, without blocking other clients.

use super::call::{Call, NOT_AN_INTEGER, Outcome, SYNTAX};
use super::number::parse_integer;
use super::reply;
use crate::dictionary::Served;
use crate::keyspace::KeySpace;
use splitpoint::{Table, linear};
use std::collections::BTreeMap;

/// HT.STATS [SAMPLE buckets]: a map of figures, and a histogram of keys per bucket.
pub(super) fn ht_stats(space: &KeySpace, call: &mut Call<'_, '_>) -> Outcome {
    const SAMPLE: i64 = 1000;
    const SAMPLE_MAX: i64 = 100_000;
    let sample = match call.args.len() {
        1 => SAMPLE,
        3 if call.args.is(1, "sample") => {
            parse_integer(call.args.at(2)).filter(|&n| n > 0).ok_or(NOT_AN_INTEGER)?.min(SAMPLE_MAX)
        }
        _ => return Err(SYNTAX.into()),
    };
    if let Some(dictionary) = space.dictionary() {
        return dictionary_stats(dictionary, call);
    }
    let Some(table) = space.table(call.database) else {
        reply::map(call.out, 0, call.version);
        return Ok(());
    };
    let counters = table.counters();
    let histogram = histogram(space, &table, sample as u64)?; // positive
    let (out, version) = (&mut *call.out, call.version);
    let whole = [
        ("pairs", counters.pairs),
        ("buckets", counters.buckets),
        ("payload-bytes", counters.payload_bytes),
        ("memory-bytes", counters.memory_bytes),
        ("file-bytes", counters.file_bytes),
        ("splits", counters.splits),
        ("merges", counters.merges),
        ("checkpoints", counters.checkpoints),
        ("latch-waits", counters.latch_waits),
    ];
    let ratios = [
        ("pages-per-hit", counters.pages_per_hit()),
        ("pages-per-miss", counters.pages_per_miss()),
        ("keys-per-hit", counters.keys_per_hit()),
        ("keys-per-miss", counters.keys_per_miss()),
        ("hit-share", counters.hit_share()),
        ("overflow-share", counters.overflow_share()),
    ];
    reply::map(out, whole.len() + ratios.len() + 2, version);
    reply::bulk(out, b"hash");
    reply::bulk(out, table.hash_function().name().as_bytes());
    for (name, number) in whole {
        reply::bulk(out, name.as_bytes());
        reply::count(out, number);
    }
    for (name, ratio) in ratios {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, format!("{ratio:.4}").as_bytes());
    }
    reply::bulk(out, b"sampled-histogram");
    reply::map(out, histogram.len(), version);
    for (keys, buckets) in histogram {
        reply::count(out, keys);
        reply::count(out, buckets);
    }
    Ok(())
}

/// HT.STATS of a dictionary, which has no buckets: its sizes, and how often its files were read.
fn dictionary_stats(dictionary: &Served, call: &mut Call<'_, '_>) -> Outcome {
    let now = dictionary.now();
    let stat = now.dictionary.stat()?;
    let numbers = [
        ("pairs", stat.pairs),
        ("generation", now.number()),
        ("open-shards", stat.shards as u64),
        ("pages", stat.pages),
        ("page-bytes", stat.page_bytes.into()),
        ("payload-bytes", now.facts.payload_bytes),
        ("memory-bytes", now.facts.index_bytes),
        ("file-bytes", stat.file_bytes),
        ("reads", now.dictionary.reads()),
    ];
    let (out, version) = (&mut *call.out, call.version);
    reply::map(out, numbers.len() + 3, version);
    for (name, text) in [
        ("hash", stat.hash),
        ("index", stat.index.to_owned()),
        ("index-bits-per-key", format!("{:.4}", stat.index_bits_per_key)),
    ] {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, text.as_bytes());
    }
    for (name, number) in numbers {
        reply::bulk(out, name.as_bytes());
        reply::count(out, number);
    }
    Ok(())
}

/// The number of buckets for each number of keys, from `sample` random buckets, or from all if there are no more.
pub(crate) fn histogram(space: &KeySpace, table: &Table, sample: u64) -> splitpoint::Result<BTreeMap<u64, u64>> {
    let buckets = table.counters().buckets.max(1);
    let state = linear::State { max_bucket: (buckets - 1) as linear::Bucket };
    let mut histogram = BTreeMap::new();
    for index in 0..sample.min(buckets) {
        let bucket = if buckets <= sample { index } else { space.random() % buckets };
        let bucket = bucket as linear::Bucket; // below their number
        // The bucket's number is the low part of the hashes in it.
        let from = linear::Position::of(bucket.into()).0;
        let mut scan = table.scan_prefix(from, state.level(bucket));
        let mut keys = 0;
        while scan.next_ref()?.is_some() {
            keys += 1;
        }
        *histogram.entry(keys).or_insert(0) += 1;
    }
    Ok(histogram)
}
