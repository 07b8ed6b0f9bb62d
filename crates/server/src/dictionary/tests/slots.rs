//! Slots of nodes and shards: gaps, overlaps, and what a node serves.

use super::*;
use splitpoint::{Dictionary, DictionaryBuilder};

/// Shards of a dictionary of a thousand keys.
fn shards(count: u32) -> Vec<ShardInfo> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.spd");
    let pairs: Vec<(String, String)> = (0..1000).map(|n| (n.to_string(), String::new())).collect();
    DictionaryBuilder::new().shards(count).build(&path, pairs).unwrap();
    Dictionary::open(&path).unwrap().shards()
}

fn map(text: &str, shards: &[ShardInfo]) -> Result<SlotMap, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.toml");
    std::fs::write(&file, text).unwrap();
    SlotMap::new(Topology::read(&file, &["10.0.0.1:1".to_owned()]).unwrap(), shards)
}

fn nodes(shares: &[&str]) -> String {
    let node = |(index, share): (usize, &&str)| format!("[[node]]\naddress = \"10.0.0.{}:1\"\n{share}\n", index + 1);
    shares.iter().enumerate().map(node).collect()
}

#[test]
fn each_slot_is_here_or_at_its_node() {
    let shards = shards(4);
    let map =
        map(&nodes(&["shards = [0, 2]", "slots = \"4096-8191,12288-16383\"", "replica-of = \"10.0.0.1:1\""]), &shards);
    let map = map.unwrap();
    assert_eq!(map.ranges(0), [(0, 4095), (8192, 12287)]);
    assert_eq!(text_of(map.ranges(1)), "4096-8191 12288-16383");
    assert!(matches!(map.place(9000), Place::Here));
    assert!(matches!(map.place(4096), Place::At(node) if node.name == "10.0.0.2:1"));
    assert_eq!((map.serves_all, map.cuts_a_shard(), map.assigned()), (false, false, 16384));
    assert_eq!(map.keys(), shards[0].pairs + shards[2].pairs);
    assert_eq!((map.replicas(0).collect::<Vec<_>>(), map.masters().collect::<Vec<_>>()), (vec![2], vec![0, 1]));
    // foo has slot 12182.
    assert!(map.serves(b"foo") && !map.serves(b"123456789"));
}

#[test]
fn a_cut_shard_is_counted_by_its_slots() {
    let shards = shards(1);
    let map = map(&nodes(&["slots = \"0-4095\"", "slots = \"4096-16383\""]), &shards).unwrap();
    assert_eq!((map.keys(), map.cuts_a_shard()), (250, true));
}

#[test]
fn gaps_and_overlaps_are_errors() {
    let shards = shards(4);
    let error = |shares: &[&str]| map(&nodes(shares), &shards).err().unwrap();
    let gap = error(&["slots = \"0-5460\"", "slots = \"5462-16382\""]);
    assert!(gap.contains("no node has slots 5461 16383") && gap.contains("partial = true"), "{gap}");
    let overlap = error(&["slots = \"0-5460\"", "slots = \"5460-16383\""]);
    assert!(overlap.contains("nodes 10.0.0.1:1 and 10.0.0.2:1 both have slot 5460"), "{overlap}");
    let twice = error(&["shards = [0, 1]", "shards = [1, 2, 3]"]);
    assert!(twice.contains("both have slot 4096"), "{twice}");
    let unknown = error(&["shards = [0, 1, 2, 3, 4]"]);
    assert!(unknown.contains("there is no shard 4; the dictionary has 0 to 3"), "{unknown}");
    let partial = "partial = true\n".to_owned() + &nodes(&["slots = \"0-5460\""]);
    let partial = map(&partial, &shards).unwrap();
    assert!(matches!(partial.place(5461), Place::Nowhere));
    assert_eq!(partial.assigned(), 5461);
}
