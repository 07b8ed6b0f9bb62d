//! The topology file: which node of a cluster has which slots. All nodes read the same file.
//!
//! ```toml
//! [[node]]
//! address = "10.0.0.1:6379"
//! slots = "0-8191"             # or shards = [0, 1], by their order in the dictionary's manifest
//!
//! [[node]]
//! address = "10.0.0.2:6379"
//! name = "second"
//! tls = "10.0.0.2:6390"        # reported to clients that connected by TLS
//! slots = "8192-16383"
//!
//! [[node]]
//! address = "10.0.0.3:6379"
//! replica-of = "second"
//! ```
//!
//! `partial = true` at its beginning allows slots that no node has. Not here: the check for gaps and overlaps, and the
//! resulting owner of each slot (`slots.rs`).

use serde::Deserialize;
use splitpoint::HashKind;
use splitpoint::shards::SLOT_COUNT;
use std::net::ToSocketAddrs;
use std::path::Path;

/// The nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    /// In the order of the file.
    pub(crate) nodes: Vec<Node>,
    /// Which of them this process is.
    pub(crate) own: usize,
    /// Whether some slots may have no node.
    pub(crate) is_partial: bool,
    /// The file's name in messages; empty without a file.
    pub(crate) source: String,
}

/// One server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Forty hexadecimal digits; all nodes compute the same.
    pub(crate) id: String,
    /// A human-readable name; the address by default.
    pub(crate) name: String,
    /// The address for clients; `None` means the address that they connected to.
    pub(crate) address: Option<Address>,
    /// The address for clients that use TLS.
    pub(crate) tls: Option<Address>,
    /// What it serves.
    pub(crate) share: Share,
}

/// A host, by name or number, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The host, without brackets.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
}

/// What a node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// First and last of each range of slots.
    Slots(Vec<(u16, u16)>),
    /// The slots of these shards, by their numbers.
    Shards(Vec<usize>),
    /// The slots of another node.
    ReplicaOf(usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    partial: bool,
    #[serde(default)]
    node: Vec<FileNode>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileNode {
    address: String,
    tls: Option<String>,
    name: Option<String>,
    id: Option<String>,
    slots: Option<String>,
    shards: Option<Vec<usize>>,
    replica_of: Option<String>,
}

/// Digits of a node's id.
const ID_DIGITS: usize = 40;

impl Topology {
    /// Creates a single node with all slots; its address is `announced`, or else the one that the client connected to.
    pub(crate) fn single(announced: Option<Address>) -> Topology {
        let name = announced.as_ref().map_or("single".to_owned(), ToString::to_string);
        let share = Share::Slots(vec![(0, SLOT_COUNT - 1)]);
        let node = Node { id: id_of(&name), name, address: announced, tls: None, share };
        Topology { nodes: vec![node], own: 0, is_partial: false, source: String::new() }
    }

    /// Reads a file. `listening` has the addresses given by the options; one of them is this node's in the file.
    ///
    /// # Errors
    /// What is wrong, where, and what to do.
    pub(crate) fn read(path: &Path, listening: &[String]) -> Result<Topology, String> {
        let source = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{source}: {error}"))?;
        Self::parse(&text, &source, listening).map_err(|what| format!("{source}: {what}"))
    }

    fn parse(text: &str, source: &str, listening: &[String]) -> Result<Topology, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        if file.node.is_empty() {
            return Err("no nodes; each is a [[node]] with its address and slots".into());
        }
        let mut nodes = Vec::new();
        for node in &file.node {
            let described = Self::node(node).map_err(|what| format!("node {}: {what}", node.address))?;
            let named_alike = |other: &Node| {
                let same_tls = other.tls.is_some() && other.tls == described.tls;
                let same_place = other.address == described.address || same_tls;
                other.id == described.id || other.name == described.name || same_place
            };
            if let Some(other) = nodes.iter().find(|other| named_alike(other)) {
                let (one, other) = (&described.name, &other.name);
                return Err(format!("nodes {other} and {one} have the same address, name or id"));
            }
            nodes.push(described);
        }
        for (index, node) in file.node.iter().enumerate() {
            let Some(of) = &node.replica_of else { continue };
            let place = nodes.iter().position(|other| other.name == *of);
            let place =
                place.ok_or_else(|| format!("node {}: replica-of {of:?}, but no node has that name", node.address))?;
            if file.node[place].replica_of.is_some() {
                return Err(format!("node {}: replica-of {of:?}, which is a replica itself", node.address));
            }
            nodes[index].share = Share::ReplicaOf(place);
        }
        let own = own_node(&nodes, listening)?;
        Ok(Topology { nodes, own, is_partial: file.partial, source: source.to_owned() })
    }

    fn node(node: &FileNode) -> Result<Node, String> {
        let address = Address::parse(&node.address)?;
        let tls = node.tls.as_deref().map(Address::parse).transpose()?;
        let share = match (&node.slots, &node.shards, &node.replica_of) {
            (Some(text), None, None) => Share::Slots(slot_ranges(text)?),
            (None, Some(numbers), None) if !numbers.is_empty() => Share::Shards(numbers.clone()),
            (None, Some(_), None) => return Err("shards is empty".into()),
            // A placeholder: the master is looked up once all nodes are known.
            (None, None, Some(_)) => Share::ReplicaOf(0),
            _ => return Err("needs one of slots, shards and replica-of".into()),
        };
        let name = node.name.clone().unwrap_or_else(|| node.address.clone());
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("name {name:?}: printable ASCII characters without spaces are allowed"));
        }
        let id = match &node.id {
            None => id_of(&name),
            Some(id) => id.clone(),
        };
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if id.len() != ID_DIGITS || !id.bytes().all(is_digit) {
            return Err(format!(
                "id {id:?}: {ID_DIGITS} digits of 0-9 and a-f are needed, or none: then it is made from the name"
            ));
        }
        Ok(Node { id, name, address: Some(address), tls, share })
    }

    /// The node whose slots this process serves: itself, or the node that it replicates.
    pub(crate) fn served(&self) -> usize {
        self.master_of(self.own)
    }

    /// Whether this process is a replica.
    pub(crate) fn is_replica(&self) -> bool {
        self.served() != self.own
    }

    /// `node` itself, or the node that it replicates.
    pub(crate) fn master_of(&self, node: usize) -> usize {
        match self.nodes[node].share {
            Share::ReplicaOf(master) => master,
            _ => node,
        }
    }

    /// Whether this process may have keys of a shard with these slots.
    pub(crate) fn serves_shard(&self, number: usize, first_slot: u16, last_slot: u16) -> bool {
        match &self.nodes[self.served()].share {
            Share::Slots(ranges) => ranges.iter().any(|(first, last)| *first <= last_slot && first_slot <= *last),
            Share::Shards(numbers) => numbers.contains(&number),
            Share::ReplicaOf(_) => false,
        }
    }
}

/// Finds the node with one of the addresses that this process listens on.
fn own_node(nodes: &[Node], listening: &[String]) -> Result<usize, String> {
    let addresses = |node: &Node| [node.address.clone(), node.tls.clone()].into_iter().flatten().collect::<Vec<_>>();
    for text in listening {
        let Ok(own) = Address::parse(text) else { continue };
        if let Some(index) = nodes.iter().position(|node| addresses(node).contains(&own)) {
            return Ok(index);
        }
    }
    // The file may name the same address differently, so compare resolved addresses.
    let resolved = |text: &str| text.to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    let own: Vec<_> = listening.iter().flat_map(|text| resolved(text)).collect();
    let is_own = |node: &Node| addresses(node).iter().any(|a| resolved(&a.to_string()).iter().any(|a| own.contains(a)));
    if let Some(index) = nodes.iter().position(is_own) {
        return Ok(index);
    }
    let listed: Vec<String> = nodes.iter().flat_map(addresses).map(|address| address.to_string()).collect();
    Err(format!(
        "no node has the address {}, where this server listens; it has {}. Give --announce HOST:PORT to say which node \
        this is",
        listening.join(" or "),
        listed.join(", ")
    ))
}

/// Ranges such as `0-99 200,300-399`.
fn slot_ranges(text: &str) -> Result<Vec<(u16, u16)>, String> {
    let mut ranges = Vec::new();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let slot = |text: &str| text.parse::<u16>().ok().filter(|slot| *slot < SLOT_COUNT);
        match (slot(first), slot(last)) {
            (Some(first), Some(last)) if first <= last => ranges.push((first, last)),
            _ => {
                return Err(format!("slots {word:?}: FIRST-LAST or one slot, from 0 to {}, is needed", SLOT_COUNT - 1));
            }
        }
    }
    if ranges.is_empty() {
        return Err("slots is empty; leave a node out that has none".into());
    }
    Ok(ranges)
}

/// Computes the id of the node with this name; all nodes compute the same.
fn id_of(name: &str) -> String {
    let digits: String = (0..3).map(|seed| format!("{:016x}", HashKind::Xxh3.hash(name.as_bytes(), seed))).collect();
    digits[..ID_DIGITS].to_owned()
}

impl Address {
    /// `host:port`, with brackets around a host that has colons.
    ///
    /// # Errors
    /// What is expected.
    pub(crate) fn parse(text: &str) -> Result<Address, String> {
        let wrong = || format!("{text:?} is not an address; write HOST:PORT");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte)) {
            return Err(wrong());
        }
        Ok(Address { host: host.to_ascii_lowercase(), port })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Address { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
#[path = "tests/topology.rs"]
mod tests;
