//! Which node has which slot: the topology file applied to the shards of a dictionary.

use super::topology::{Node, Share, Topology};
use splitpoint::shards::{SLOT_COUNT, ShardInfo};

/// The owner of a slot that no node has.
const NOBODY: u16 = u16::MAX;

/// The owner of every slot, and the slots of every node.
pub(crate) struct SlotMap {
    topology: Topology,
    /// The node of each slot.
    owners: Vec<u16>,
    /// First and last of each range of slots of each node; none for replicas.
    ranges: Vec<Vec<(u16, u16)>>,
    serves_all: bool,
    /// Estimated number of keys that this process serves.
    keys: u64,
    /// Whether a shard has slots of this process and of others.
    cuts_a_shard: bool,
}

/// The node that serves a slot.
pub(crate) enum Place<'m> {
    /// This process.
    Here,
    /// Another node.
    At(&'m Node),
    /// No node.
    Nowhere,
}

impl SlotMap {
    /// Applies the topology to the dictionary's shards.
    ///
    /// # Errors
    /// Slots that no node has unless the topology allows it, slots of two nodes, and shard numbers that do not exist.
    pub(crate) fn new(topology: Topology, shards: &[ShardInfo]) -> Result<SlotMap, String> {
        let wrong = |what: String| format!("{}: {what}", topology.source);
        let mut owners = vec![NOBODY; SLOT_COUNT.into()];
        for (number, node) in topology.nodes.iter().enumerate() {
            for (first, last) in slots_of(node, shards).map_err(wrong)? {
                for slot in first..=last {
                    let owner = &mut owners[usize::from(slot)];
                    if *owner != NOBODY {
                        let (one, other) = (&topology.nodes[usize::from(*owner)].name, &node.name);
                        return Err(wrong(format!(
                            "nodes {one} and {other} both have slot {slot}. A slot has one node; others that serve it \
                            are replicas (replica-of)"
                        )));
                    }
                    *owner = u16::try_from(number).map_err(|_| wrong("too many nodes".into()))?;
                }
            }
        }
        let gaps = ranges_of(&owners, NOBODY);
        if !gaps.is_empty() && !topology.is_partial {
            return Err(wrong(format!(
                "no node has slots {}. Give them to one, or write partial = true at the beginning of the file to serve \
                without them",
                text_of(&gaps)
            )));
        }
        let ranges: Vec<_> = (0..topology.nodes.len()).map(|number| ranges_of(&owners, number as u16)).collect();
        let served = topology.served();
        let slots_in = |shard: &ShardInfo| {
            let within = |&(first, last): &(u16, u16)| {
                (last.min(shard.last_slot) + 1).saturating_sub(first.max(shard.first_slot))
            };
            ranges[served].iter().map(within).sum::<u16>()
        };
        let (mut keys, mut cuts_a_shard) = (0, false);
        for shard in shards {
            let (own, all) = (slots_in(shard), shard.last_slot - shard.first_slot + 1);
            keys += (u128::from(shard.pairs) * u128::from(own) / u128::from(all)) as u64; // at most the pairs
            cuts_a_shard |= 0 < own && own < all;
        }
        let serves_all = ranges[served] == [(0, SLOT_COUNT - 1)];
        Ok(SlotMap { topology, owners, ranges, serves_all, keys, cuts_a_shard })
    }

    /// The nodes, and which of them is this process.
    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The node that serves a slot.
    pub(crate) fn place(&self, slot: u16) -> Place<'_> {
        match self.owners[usize::from(slot)] {
            NOBODY => Place::Nowhere,
            owner if self.is_served(owner) => Place::Here,
            owner => Place::At(&self.topology.nodes[usize::from(owner)]),
        }
    }

    #[inline]
    fn is_served(&self, owner: u16) -> bool {
        usize::from(owner) == self.topology.served()
    }

    /// Whether this process serves the slot of a key.
    #[inline]
    pub(crate) fn serves(&self, key: &[u8]) -> bool {
        self.serves_all || self.is_served(self.owners[usize::from(splitpoint::shards::slot(key))])
    }

    /// First and last of each range of slots of a node, ascending; none for replicas.
    pub(crate) fn ranges(&self, node: usize) -> &[(u16, u16)] {
        &self.ranges[node]
    }

    /// The replicas of a node.
    pub(crate) fn replicas(&self, node: usize) -> impl Iterator<Item = usize> {
        let topology = &self.topology;
        (0..topology.nodes.len()).filter(move |&other| topology.nodes[other].share == Share::ReplicaOf(node))
    }

    /// The nodes that are not replicas.
    pub(crate) fn masters(&self) -> impl Iterator<Item = usize> {
        (0..self.topology.nodes.len()).filter(|&node| self.topology.master_of(node) == node)
    }

    /// The number of slots that have a node.
    pub(crate) fn assigned(&self) -> usize {
        self.owners.iter().filter(|owner| **owner != NOBODY).count()
    }

    /// The number of keys that this process serves; an estimate if a shard also has slots of other nodes.
    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    /// Whether a shard has slots of this process and of others.
    pub(crate) fn cuts_a_shard(&self) -> bool {
        self.cuts_a_shard
    }
}

/// The ranges of slots that a node has by the topology file.
fn slots_of(node: &Node, shards: &[ShardInfo]) -> Result<Vec<(u16, u16)>, String> {
    match &node.share {
        Share::Slots(ranges) => Ok(ranges.clone()),
        Share::ReplicaOf(_) => Ok(Vec::new()),
        Share::Shards(numbers) => {
            let slots = |number: &usize| {
                let shard = shards.get(*number).ok_or_else(|| {
                    let (name, count) = (&node.name, shards.len());
                    format!("node {name}: there is no shard {number}; the dictionary has 0 to {}", count - 1)
                })?;
                Ok((shard.first_slot, shard.last_slot))
            };
            numbers.iter().map(slots).collect()
        }
    }
}

fn ranges_of(owners: &[u16], owner: u16) -> Vec<(u16, u16)> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for slot in (0..SLOT_COUNT).filter(|slot| owners[usize::from(*slot)] == owner) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
}

/// `0-99 200`, as Redis writes it.
pub(crate) fn text_of(ranges: &[(u16, u16)]) -> String {
    let one = |&(first, last): &(u16, u16)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "tests/slots.rs"]
mod tests;
