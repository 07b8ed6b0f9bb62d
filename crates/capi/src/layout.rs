//! Tests that the structs here match those of splitpoint.h: a C compiler compares each field's offset and size.

use crate::arguments::Bytes;
use crate::building::BuildOptions;
use crate::callbacks::Found;
use crate::dictionary::{OpenOptions, Sizes};
use crate::diff::OneChange;
use crate::many::Pair;
use crate::options::Options;
use crate::upkeep::{BucketCount, Counters, PublisherFacts, Report, Survey};
use crate::views::View;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;

/// Lines of C that assert the size of a struct and the offsets of its fields.
macro_rules! same {
    ($out:ident, $rust:ty, $c:literal, [$($field:ident),* $(,)?]) => {
        let (size, align) = (size_of::<$rust>(), align_of::<$rust>());
        $out.push_str(&format!("_Static_assert(sizeof({0}) == {size} && _Alignof({0}) == {align}, \"{0}\");\n", $c));
        $($out.push_str(&format!(
            "_Static_assert(offsetof({0}, {1}) == {2}, \"{0}.{1}\");\n",
            $c, stringify!($field), offset_of!($rust, $field)
        ));)*
    };
}

#[test]
fn structs_are_those_of_the_header() {
    let mut source = String::from("#include <splitpoint.h>\n#include <stddef.h>\n");
    same!(source, Bytes, "spt_bytes", [data, len]);
    same!(source, View, "spt_view", [data, len, token]);
    same!(source, Pair, "spt_pair", [key, value]);
    same!(source, BucketCount, "spt_bucket_count", [pairs, buckets]);
    same!(source, PublisherFacts, "spt_publisher", [process, is_open, tick, open_ms]);
    same!(source, OneChange, "spt_change", [kind, key, old_value, value]);
    same!(source, Found, "spt_found", [kind, verified, key, value, place, what, done, all]);
    same!(
        source,
        Report,
        "spt_salvage_report",
        [verified, unverified, counted, lost_buckets, losses, conflicts, is_counted, is_whole]
    );
    same!(
        source,
        Options<'_>,
        "spt_options",
        [
            size,
            flags,
            durability,
            page_bytes,
            fill_factor,
            fill_percent,
            mode,
            expected_len,
            cache_bytes,
            log_bytes,
            hash,
            seed,
            user_hash,
            user_context
        ]
    );
    same!(source, OpenOptions<'_>, "spt_dict_options", [size, flags, hash, user_hash, user_context]);
    same!(
        source,
        BuildOptions<'_>,
        "spt_build_options",
        [
            size,
            flags,
            index,
            bins_per_page,
            bucket_keys,
            huffman_max,
            skip_min,
            block_items,
            effort,
            page_bytes,
            compression,
            block_bytes,
            duplicates,
            threads,
            shards,
            memory_bytes,
            seed,
            resume_identity,
            hash,
            user_hash,
            user_context,
            temporary_directory,
            progress,
            progress_context,
            place_name,
            place_context,
            filter_bits
        ]
    );
    same!(
        source,
        Counters,
        "spt_counters",
        [
            pairs,
            payload_bytes,
            buckets,
            file_bytes,
            memory_bytes,
            hits,
            hit_pages,
            hit_keys,
            misses,
            miss_pages,
            miss_keys,
            overflow_lookups,
            puts,
            removals,
            splits,
            merges,
            checkpoints,
            frames_read,
            frames_written,
            evictions,
            latch_waits,
            replayed
        ]
    );
    same!(
        source,
        Survey,
        "spt_survey",
        [
            pairs,
            buckets,
            page_bytes,
            frame_bytes,
            file_bytes,
            payload_bytes,
            bucket_bytes,
            overflow_pages,
            overflow_bytes,
            overflow_pairs,
            extents,
            extent_bytes,
            free_bytes,
            fill_percent,
            fill_target_percent,
            fill_factor,
            seed,
            hash,
            largest_bucket,
            empty_buckets,
            memory_bytes,
            splits,
            merges
        ]
    );
    same!(
        source,
        Sizes,
        "spt_dict_sizes",
        [
            shards,
            pairs,
            file_bytes,
            data_bytes,
            key_bytes,
            value_bytes,
            pages,
            page_bytes,
            index_bytes,
            ranks_bytes,
            index_bits_per_key,
            key_len_min,
            key_len_max,
            value_len_min,
            value_len_max,
            reads,
            seed,
            compression,
            is_fixed_length,
            index,
            order,
            hash,
            filter_bits,
            filter_bytes
        ]
    );
    let path = std::env::temp_dir().join(format!("splitpoint-layout-{}.c", std::process::id()));
    std::fs::write(&path, source).unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let options = ["-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", include];
    let checked = Command::new("cc").args(options).arg(&path).output();
    std::fs::remove_file(&path).unwrap();
    let checked = checked.expect("cc, with which Rust links too");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
