//! Topology files: what valid ones mean, and which error invalid ones get.

use super::*;

fn parse(text: &str, listening: &str) -> Result<Topology, String> {
    Topology::parse(text, "cluster.toml", &[listening.to_owned()])
}

const THREE: &str = r#"
[[node]]
address = "10.0.0.1:7000"
slots = "0-99,200 300-8191"
[[node]]
address = "[fd00::2]:7000"
tls = "second.example:7001"
name = "second"
shards = [2, 3]
[[node]]
address = "Third.Example:7000"
id = "0123456789abcdef0123456789abcdef01234567"
replica-of = "second"
"#;

#[test]
fn a_file_names_the_nodes_and_this_one_among_them() {
    let topology = parse(THREE, "third.example:7000").unwrap();
    let [first, second, third] = &topology.nodes[..] else { panic!("three nodes") };
    assert_eq!(first.share, Share::Slots(vec![(0, 99), (200, 200), (300, 8191)]));
    assert_eq!((&first.name[..], first.id.len()), ("10.0.0.1:7000", ID_DIGITS));
    assert_eq!(second.share, Share::Shards(vec![2, 3]));
    assert_eq!(second.address.as_ref().unwrap().to_string(), "[fd00::2]:7000");
    assert_eq!(third.share, Share::ReplicaOf(1));
    assert_eq!(third.id, "0123456789abcdef0123456789abcdef01234567");
    assert_eq!((topology.own, topology.served(), topology.is_replica()), (2, 1, true));
    assert!(topology.serves_shard(2, 0, 10) && !topology.serves_shard(1, 0, 10));
    // Found by its address for TLS; all nodes compute the same ids.
    let other = parse(THREE, "second.example:7001").unwrap();
    assert_eq!((other.own, &other.nodes), (1, &topology.nodes));
    let first = parse(THREE, "10.0.0.1:7000").unwrap();
    assert!(first.serves_shard(7, 150, 250) && !first.serves_shard(7, 100, 199) && first.serves_shard(7, 0, 16383));
}

#[test]
fn a_node_is_known_by_another_name_of_its_address() {
    let text = "[[node]]\naddress = \"localhost:7000\"\nslots = \"0-16383\"";
    assert_eq!(parse(text, "127.0.0.1:7000").unwrap().own, 0);
    assert!(parse(text, "127.0.0.1:7001").is_err());
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let node = |rest: &str| format!("[[node]]\naddress = \"10.0.0.1:7000\"\n{rest}");
    for (text, expected) in [
        (String::new(), "no nodes"),
        (node(""), "needs one of slots, shards and replica-of"),
        (node("slots = \"1\"\nshards = [0]"), "needs one of"),
        (node("slots = \"\""), "slots is empty"),
        (node("shards = []"), "shards is empty"),
        (node("slots = \"0-16384\""), "from 0 to 16383"),
        (node("slots = \"9-3\""), "\"9-3\""),
        (node("slots = \"a\""), "\"a\""),
        (node("slots = \"1\"\nid = \"xyz\""), "id \"xyz\""),
        (node("slots = \"1\"\nname = \"a b\""), "name \"a b\""),
        (node("slots = \"1\"\nport = 3"), "unknown field `port`"),
        (node("replica-of = \"x\""), "no node has that name"),
        (node("name = \"x\"\nreplica-of = \"x\""), "is a replica itself"),
        (node("slots = \"0\"\n") + &node("slots = \"1\""), "the same address, name or id"),
        ("[[node]]\naddress = \"10.0.0.1\"\nslots = \"0\"".into(), "is not an address"),
        ("[[node]]\naddress = \"10.0.0.1:0\"\nslots = \"0\"".into(), "is not an address"),
        ("[[node]]\naddress = \"a b:1\"\nslots = \"0\"".into(), "is not an address"),
        ("[[node]]\naddress = \"10.0.0.9:1\"\nslots = \"0\"".into(), "--announce"),
    ] {
        let error = parse(&text, "10.0.0.1:7000").expect_err(&text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}
