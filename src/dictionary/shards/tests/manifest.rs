//! Manifests read back as they were written, and no other text is accepted.

use super::*;

#[test]
fn a_manifest_reads_back_and_no_other_text_does() {
    for count in [1, 2, 3, 16, 16384] {
        let manifest = Manifest::divided(count, 7);
        assert_eq!(manifest.shards.len(), count as usize);
        assert_eq!(Manifest::parse(manifest.text().as_bytes()), Ok(manifest));
    }
    let text = Manifest::divided(3, 7).text().into_bytes();
    for at in 0..text.len() {
        assert!(Manifest::parse(&text[..at]).is_err());
        let mut damaged = text.clone();
        damaged[at] ^= 1;
        assert!(Manifest::parse(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn a_manifest_names_files_of_its_directory_only() {
    for name in ["../a.spd", "/a.spd", "a", "a/b.spd", ".spd/..", "a b.spd", ""] {
        let mut manifest = Manifest::divided(1, 1);
        manifest.shards[0].name = name.to_owned();
        assert!(Manifest::parse(manifest.text().as_bytes()).is_err(), "{name}");
    }
}

#[test]
fn each_slot_has_one_shard() {
    let manifest = Manifest::divided(7, 1);
    let mut counts = [0; 7];
    (0..SLOT_COUNT).for_each(|slot| counts[manifest.shard_of_slot(slot)] += 1);
    assert!(counts.iter().all(|count| (2340..2342).contains(count)), "{counts:?}");
    for (shard, (first, last)) in manifest.slot_ranges().enumerate() {
        assert_eq!((manifest.shard_of_slot(first), manifest.shard_of_slot(last)), (shard, shard));
        assert_eq!(usize::from(last - first + 1), counts[shard]);
    }
}
