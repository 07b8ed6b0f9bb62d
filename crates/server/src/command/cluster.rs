//! CLUSTER, and which node a command belongs to. Only a dictionary can be served as part of a cluster.
//!
//! Nodes do not talk to each other. Replies about other nodes come from the topology file, and report every node as
//! connected. Without such a file there is one node, at the address that the client connected to.
//!
//! Source: the Redis Cluster specification; the replies are those of Redis 7.0.

use super::call::{Args, Outcome, Refusal};
use super::number::parse_integer;
use super::reply::{self, Version};
use super::spec::Spec;
use super::state::SessionState;
use crate::dictionary::slots::{Place, SlotMap, text_of};
use crate::dictionary::topology::{Address, Node};
use crate::dictionary::{Generation, Served};
use splitpoint::shards::SLOT_COUNT;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

pub(crate) const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";
const DISABLED: &str = "ERR This instance has cluster support disabled";
const BY_FILE: &str = "ERR The topology is that of a file; change it there, and send SIGHUP to each node";
const NO_COUNT: &str = "ERR The keys of a single slot are not counted; DBSIZE has those of all slots of this node";

/// The slot of the command's keys; `None` without keys, an error if they have several.
pub(crate) fn slot_of(spec: &Spec, args: &Args<'_>) -> Result<Option<u16>, Refusal> {
    let mut slots = spec.key_indices(args).map(|index| splitpoint::shards::slot(args.at(index)));
    let first = slots.next();
    if slots.all(|slot| Some(slot) == first) { Ok(first) } else { Err(CROSS_SLOT.into()) }
}

/// Refuses a command whose keys belong to another node, and any command that writes.
pub(crate) fn admit(session: &SessionState, served: &Served, spec: &Spec, args: &Args<'_>) -> Outcome {
    use super::spec::Flags;
    // A server without a topology has the whole dictionary, so a request may combine any keys.
    if served.has_topology()
        && let Some(slot) = slot_of(spec, args)?
    {
        let now = served.now();
        match now.slots.place(slot) {
            Place::Here => {}
            Place::At(node) => return Err(format!("MOVED {slot} {}", address_of(node, session)).into()),
            Place::Nowhere => return Err("CLUSTERDOWN Hash slot not served".into()),
        }
    }
    if spec.flags.has(Flags::WRITE) {
        return Err(super::call::READ_ONLY.into());
    }
    Ok(())
}

/// The address at which the client of `session` reaches a node.
fn address_of(node: &Node, session: &SessionState) -> Address {
    let announced = if session.is_tls { node.tls.as_ref().or(node.address.as_ref()) } else { node.address.as_ref() };
    announced.cloned().unwrap_or_else(|| {
        let arrived = Address::parse(&session.client.local_address);
        let port = || u16::try_from(session.server.port.load(Relaxed)).unwrap_or(0);
        arrived.unwrap_or_else(|_| Address { host: "127.0.0.1".into(), port: port() })
    })
}

/// READONLY, READWRITE, ASKING: accepted without effect, since every node allows reads and nothing else.
pub(super) fn accept(session: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    if session.server.space.dictionary().is_none() {
        return Err(DISABLED.into());
    }
    reply::ok(out);
    Ok(())
}

/// CLUSTER subcommand ...
pub(super) fn cluster(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let Some(served) = session.server.space.dictionary().cloned() else { return Err(DISABLED.into()) };
    let now = served.now();
    let view = View { session, now: &now, version: session.version };
    let subcommand = args.at(1).to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"slots", 2) => view.slots(out),
        (b"shards", 2) => view.shards(out),
        (b"nodes", 2) => reply::text(out, &view.nodes(), view.version),
        (b"info", 2) => reply::text(out, &view.info(), view.version),
        (b"myid", 2) => {
            let topology = now.slots.topology();
            reply::bulk(out, topology.nodes[topology.own].id.as_bytes());
        }
        (b"keyslot", 3) => reply::integer(out, splitpoint::shards::slot(args.at(2)).into()),
        (b"countkeysinslot", 3) => {
            let slot = parse_integer(args.at(2)).and_then(|slot| u16::try_from(slot).ok());
            let slot = slot.filter(|slot| *slot < SLOT_COUNT).ok_or("ERR Invalid slot")?;
            reply::count(out, keys_in(&now, slot).ok_or(NO_COUNT)?);
        }
        (b"getkeysinslot", 4) => return Err("ERR The keys of a single slot are not listed; use SCAN".into()),
        (b"replicas" | b"slaves", 3) => {
            let nodes = &now.slots.topology().nodes;
            let node = nodes.iter().position(|node| node.id.as_bytes() == args.at(2));
            let node = node.ok_or_else(|| unknown_node(args.at(2)))?;
            let replicas: Vec<usize> = now.slots.replicas(node).collect();
            reply::array(out, replicas.len());
            replicas.iter().for_each(|replica| reply::bulk(out, view.line(*replica).as_bytes()));
        }
        (b"links", 2) => reply::array(out, 0),
        (b"count-failure-reports", 3) => reply::integer(out, 0),
        (
            b"addslots" | b"addslotsrange" | b"bumpepoch" | b"delslots" | b"delslotsrange" | b"failover"
            | b"flushslots" | b"forget" | b"meet" | b"replicate" | b"reset" | b"saveconfig" | b"set-config-epoch"
            | b"setslot",
            _,
        ) => return Err(BY_FILE.into()),
        (b"help", 2) => {
            let lines = [
                "COUNTKEYSINSLOT <slot>",
                "    Returns the number of keys in a slot, if known.",
                "INFO",
                "    Returns the state and size of the cluster.",
                "KEYSLOT <key>",
                "    Returns the slot of a key.",
                "MYID",
                "    Returns the ID of this node.",
                "NODES",
                "    Describes each node on one line:",
                "    <id> <ip:port@bus-port> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
                "REPLICAS <node-id>",
                "    Lists the replicas of a node.",
                "SHARDS",
                "    Lists the ranges of slots with their nodes.",
                "SLOTS",
                "    Lists the ranges of slots with their nodes, in the older format.",
            ];
            reply::help(out, "CLUSTER", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "CLUSTER")),
    }
    Ok(())
}

fn unknown_node(id: &[u8]) -> Refusal {
    format!("ERR Unknown node {}", String::from_utf8_lossy(id)).into()
}

/// The number of keys of a slot; `None` if only a walk of the whole shard could tell.
fn keys_in(now: &Arc<Generation>, slot: u16) -> Option<u64> {
    if !matches!(now.slots.place(slot), Place::Here) {
        return Some(0);
    }
    let shards = now.dictionary.shards();
    let shard = shards.iter().find(|shard| shard.last_slot >= slot)?;
    (shard.pairs == 0 || shard.first_slot == shard.last_slot).then_some(shard.pairs)
}

/// The nodes as shown to one client.
struct View<'v> {
    session: &'v SessionState,
    now: &'v Arc<Generation>,
    version: Version,
}

impl View<'_> {
    fn map(&self) -> &SlotMap {
        &self.now.slots
    }

    fn node(&self, number: usize) -> &Node {
        &self.map().topology().nodes[number]
    }

    fn address(&self, number: usize) -> Address {
        address_of(self.node(number), self.session)
    }

    /// CLUSTER SLOTS: for each range its first slot, last slot, node, and that node's replicas.
    fn slots(&self, out: &mut Vec<u8>) {
        let mut rows: Vec<(u16, u16, usize)> = Vec::new();
        for node in self.map().masters() {
            rows.extend(self.map().ranges(node).iter().map(|&(first, last)| (first, last, node)));
        }
        rows.sort_unstable();
        reply::array(out, rows.len());
        for (first, last, master) in rows {
            let nodes: Vec<usize> = std::iter::once(master).chain(self.map().replicas(master)).collect();
            reply::array(out, 2 + nodes.len());
            reply::integer(out, first.into());
            reply::integer(out, last.into());
            for node in nodes {
                let Address { host, port } = self.address(node);
                reply::array(out, 4);
                reply::bulk(out, host.as_bytes());
                reply::integer(out, port.into());
                reply::bulk(out, self.node(node).id.as_bytes());
                reply::map(out, 0, self.version);
            }
        }
    }

    /// CLUSTER SHARDS: for each node that has slots, the slots and the nodes that serve them.
    fn shards(&self, out: &mut Vec<u8>) {
        let masters: Vec<usize> = self.map().masters().collect();
        reply::array(out, masters.len());
        for master in masters {
            let ranges = self.map().ranges(master);
            reply::map(out, 2, self.version);
            reply::bulk(out, b"slots");
            reply::array(out, 2 * ranges.len());
            for &(first, last) in ranges {
                reply::integer(out, first.into());
                reply::integer(out, last.into());
            }
            reply::bulk(out, b"nodes");
            let nodes: Vec<usize> = std::iter::once(master).chain(self.map().replicas(master)).collect();
            reply::array(out, nodes.len());
            for node in nodes {
                self.shard_node(node, if node == master { "master" } else { "replica" }, out);
            }
        }
    }

    fn shard_node(&self, number: usize, role: &str, out: &mut Vec<u8>) {
        let node = self.node(number);
        let Address { host, port } = self.address(number);
        reply::map(out, if node.tls.is_some() { 8 } else { 7 }, self.version);
        let text = |out: &mut Vec<u8>, name: &str, value: &str| {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, value.as_bytes());
        };
        text(out, "id", &node.id);
        reply::bulk(out, b"port");
        reply::integer(out, node.address.as_ref().map_or(port, |address| address.port).into());
        if let Some(tls) = &node.tls {
            reply::bulk(out, b"tls-port");
            reply::integer(out, tls.port.into());
        }
        text(out, "ip", &host);
        text(out, "endpoint", &host);
        text(out, "role", role);
        reply::bulk(out, b"replication-offset");
        reply::integer(out, 0);
        text(out, "health", "online");
    }

    /// CLUSTER NODES: a line for each node.
    fn nodes(&self) -> String {
        (0..self.map().topology().nodes.len()).map(|node| self.line(node) + "\n").collect()
    }

    fn line(&self, number: usize) -> String {
        let topology = self.map().topology();
        let Address { host, port } = self.address(number);
        let master = topology.master_of(number);
        let myself = if number == topology.own { "myself," } else { "" };
        let (role, of) = if master == number { ("master", "-") } else { ("slave", topology.nodes[master].id.as_str()) };
        let (id, epoch) = (&self.node(number).id, self.now.number());
        let mut line = format!("{id} {host}:{port}@0 {myself}{role} {of} 0 0 {epoch} connected");
        let ranges = self.map().ranges(number);
        if !ranges.is_empty() {
            let _ = write!(line, " {}", text_of(ranges)); // a string takes all
        }
        line
    }

    fn info(&self) -> String {
        let (assigned, nodes) = (self.map().assigned(), self.map().topology().nodes.len());
        let epoch = self.now.number();
        [
            "cluster_state:ok".to_owned(),
            format!("cluster_slots_assigned:{assigned}"),
            format!("cluster_slots_ok:{assigned}"),
            "cluster_slots_pfail:0".to_owned(),
            "cluster_slots_fail:0".to_owned(),
            format!("cluster_known_nodes:{nodes}"),
            format!("cluster_size:{}", self.map().masters().count()),
            format!("cluster_current_epoch:{epoch}"),
            format!("cluster_my_epoch:{epoch}"),
            "cluster_stats_messages_sent:0".to_owned(),
            "cluster_stats_messages_received:0".to_owned(),
            "total_cluster_links_buffer_limit_exceeded:0".to_owned(),
        ]
        .map(|line| line + "\r\n")
        .concat()
    }
}
