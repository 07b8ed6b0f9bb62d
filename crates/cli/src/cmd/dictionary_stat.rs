//! The properties of a dictionary, for `stat`.

use crate::failure::Result;
use crate::number::{grouped, size};
use crate::output::Output;
use serde_json::{Map, json};
use splitpoint::Dictionary;
use splitpoint::dictionary::{Compression, DictionaryStat};
use std::path::Path;

/// Prints the figures as text, or as one JSON object.
pub fn print(path: &Path, dictionary: &Dictionary, json: bool) -> Result<()> {
    let stat = dictionary.stat()?;
    let mut out = Output::stdout();
    if json {
        return out.json(&as_json(&stat, dictionary.types()));
    }
    out.line(&path.display().to_string())?;
    let mut lines = lines(&stat);
    if !dictionary.types().is_empty() {
        lines.push(("types", dictionary.types().to_owned()));
    }
    lines.iter().try_for_each(|(name, text)| out.line(&format!("  {name:<10} {text}")))
}

fn compression(stat: &DictionaryStat) -> &'static str {
    match stat.compression {
        Compression::None => "none",
        Compression::Lz4 => "lz4",
        _ => "another",
    }
}

/// Whether a lookup reads the file once.
fn one_read(stat: &DictionaryStat) -> bool {
    stat.index != "none"
}

/// Returns every field. `seed` is a string, because JSON numbers do not carry 64 bits everywhere.
fn as_json(stat: &DictionaryStat, types: &str) -> serde_json::Value {
    let details: Map<_, _> =
        stat.index_details.iter().map(|(name, number)| ((*name).to_owned(), json!(number))).collect();
    json!({
        "kind": "dictionary",
        "shards": stat.shards,
        "pairs": stat.pairs,
        "file_bytes": stat.file_bytes,
        "data_bytes": stat.data_bytes,
        "payload_bytes": stat.key_bytes + stat.value_bytes,
        "key_bytes": stat.key_bytes,
        "value_bytes": stat.value_bytes,
        "pages": stat.pages,
        "page_bytes": stat.page_bytes,
        "index": stat.index,
        "index_bytes": stat.index_bytes,
        "ranks_bytes": stat.ranks_bytes,
        "index_bits_per_key": stat.index_bits_per_key,
        "filter_bits": stat.filter_bits,
        "filter_bytes": stat.filter_bytes,
        "index_details": details,
        "one_read": one_read(stat),
        "fixed_lengths": stat.fixed_lengths.map(|(key_len, value_len)| json!({"key": key_len, "value": value_len})),
        "key_len": {"min": stat.key_len.0, "max": stat.key_len.1},
        "value_len": {"min": stat.value_len.0, "max": stat.value_len.1},
        "compression": compression(stat),
        "order": stat.order,
        "hash": stat.hash,
        "seed": stat.hash_seed.to_string(),
        "types": Some(types).filter(|types| !types.is_empty()),
    })
}

fn lines(stat: &DictionaryStat) -> Vec<(&'static str, String)> {
    let payload = stat.key_bytes + stat.value_bytes;
    let times = if payload == 0 {
        String::new()
    } else {
        format!(", {:.2} x the keys and values", stat.file_bytes as f64 / payload as f64)
    };
    let lengths = |(least, most): (u32, u32)| {
        if least == most { size(least.into()) } else { format!("{} to {}", size(least.into()), size(most.into())) }
    };
    let layout = if stat.fixed_lengths.is_some() { "fixed" } else { "varied" };
    let packed = if matches!(stat.compression, Compression::None) { "" } else { ", in LZ4 blocks" };
    let details: Vec<_> =
        stat.index_details.iter().map(|(name, number)| format!("{name} {}", shown(*number))).collect();
    let reads = if one_read(stat) { "one read" } else { "several reads: the pages are searched" };
    let files = if stat.shards > 1 { format!(", in {} files", grouped(stat.shards as u64)) } else { String::new() };
    let mut lines = vec![
        ("pairs", format!("{}, {} of keys and values", grouped(stat.pairs), size(payload))),
        ("file", format!("{} ({}){times}{files}", grouped(stat.file_bytes), size(stat.file_bytes))),
        ("pages", format!("{} of {}, {}", grouped(stat.pages), size(stat.page_bytes.into()), size(stat.data_bytes))),
        ("records", format!("{layout}{packed}, in {}", stat.order)),
        ("keys", lengths(stat.key_len)),
        ("values", lengths(stat.value_len)),
        (
            "index",
            format!(
                "{}, {}, {:.3} bits/key",
                stat.index,
                size(stat.index_bytes + stat.ranks_bytes),
                stat.index_bits_per_key
            ),
        ),
        ("lookup", reads.to_owned()),
        ("hash", format!("{}, seed {}", stat.hash, stat.hash_seed)),
    ];
    if stat.filter_bits > 0 {
        let bits = stat.filter_bytes as f64 * 8.0 / stat.pairs.max(1) as f64;
        let filter = format!("of {} bits, {}, {bits:.3} bits/key", stat.filter_bits, size(stat.filter_bytes));
        lines.insert(7, ("filter", filter));
    }
    if stat.ranks_bytes > 0 {
        lines.insert(
            7,
            ("ranks", format!("index from ranks to pages, {}, part of the bits above", size(stat.ranks_bytes))),
        );
    }
    if !details.is_empty() {
        lines.insert(7, ("", details.join(", ")));
    }
    lines
}

/// Prints whole numbers without a fraction.
fn shown(number: f64) -> String {
    if number.fract() == 0.0 { grouped(number as u64) } else { format!("{number:.2}") }
}
