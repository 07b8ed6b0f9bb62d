//! How memory is divided, and which plans are rejected.

use super::*;
use crate::dictionary::Effort;
use crate::dictionary::index::Index;

fn plan(index: Index, memory_bytes: u64, filter_bits: u32) -> Plan {
    Plan { index, memory_bytes, filter_bits, threads: 2, ..Plan::default() }
}

/// Forecasts `count` fixed records of 16 bytes.
fn records(count: u64) -> Forecast {
    Forecast { records_min: count, records_max: count, record_bytes: 16 }
}

#[test]
fn all_shares_together_are_no_more_than_the_memory() {
    let indexes = [Index::page(), Index::trie(), Index::trie_sparse(16), Index::chunk(), Index::None];
    for index in indexes {
        for filter_bits in [0, 8, 16] {
            for memory_bytes in [8 << 20, 64 << 20, 256 << 20, 1 << 30] {
                let plan = plan(index, memory_bytes, filter_bits);
                for forecast in
                    [records(1000), records(memory_bytes / 16), Forecast { record_bytes: 5000, ..records(9) }]
                {
                    let shares = plan.shares(&forecast).unwrap();
                    let segments = shares.filter_threads as u64 * SEGMENT_BUILD_BYTES;
                    let sum = shares.sort + plan.list_count() * shares.list + shares.chunks + segments;
                    let what = format!("{index:?}, filter {filter_bits}, {memory_bytes} bytes: {shares:?}");
                    assert!(sum <= memory_bytes, "{what}");
                    assert!(shares.sort >= memory_bytes / 5, "{what}");
                }
            }
        }
    }
}

#[test]
fn an_index_that_does_not_fit_is_refused() {
    let needs = [
        (Index::trie(), 320 << 20),
        (Index::trie_sparse(16), 80 << 20),
        (Index::Chunk { effort: Effort::Balanced }, 800 << 20),
    ];
    let billion = records(1_000_000_000);
    for (index, need) in needs {
        let refused = plan(index, need / 2, 0).shares(&billion).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
        let message = refused.to_string();
        assert!(message.contains("memory_bytes") && message.contains("1000000000 records"), "{message}");
        plan(index, 3 * need / 2, 0).shares(&billion).unwrap();
        // Duplicate keys may leave fewer records, so this is not rejected.
        plan(index, need / 2, 0).shares(&Forecast { records_min: 1, ..billion }).unwrap();
    }
    // A page index is small, and without an index there is nothing to reject.
    plan(Index::page(), 16 << 20, 0).shares(&billion).unwrap();
    plan(Index::None, 1 << 20, 0).shares(&billion).unwrap();
    assert!(plan(Index::page(), 16 << 20, 0).shares(&Forecast { record_bytes: 10_000, ..billion }).is_err());
}

#[test]
fn a_forecast_counts_what_a_batch_may_delete() {
    let batch = Forecast { records_min: 0, records_max: 10, record_bytes: 100 };
    let none = batch.with_old(None, true);
    assert_eq!((none.records_min, none.records_max, none.record_bytes), (0, 10, 100));
}
