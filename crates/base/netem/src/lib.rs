//! Emulates a network between nodes of one machine, at the sender.
//!
//! reads   a file that places nodes in regions and lists partitions; a [map](World) of regions
//! writes  a node's datagrams to the other nodes with delay, jitter, loss, a rate limit, or a partition
//! memory  a rule per node
//!
//! Data flow: [`Rules`] (the file, as seen by one node) → [`Emulator`] (datagrams in; the same out, later or never).

mod emulator;
mod world;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

pub use emulator::{Counters, Datagrams, Emulator};
pub use world::{Link, Region, World, WorldError};

/// Default limit of bytes in flight.
pub const QUEUE_BYTES: usize = 64 << 20;
/// The least queue: a datagram, the largest that there is.
const QUEUE_BYTES_MIN: usize = 65_536;

/// Network properties between this node and another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Delay of each datagram, ns.
    pub delay_ns: u64,
    /// Mean additional delay, ns; drawn from an exponential distribution.
    pub jitter_ns: u64,
    /// The part of the datagrams that do not arrive.
    pub loss: f64,
    /// Whether the nodes are partitioned: nothing arrives.
    pub is_cut: bool,
}

/// Network properties of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Rules by destination. Datagrams to other addresses go at once.
    pub by_address: HashMap<IpAddr, Rule>,
    /// The node's total send rate to all of these, bits per second.
    pub rate_bps: f64,
    /// Maximum bytes in flight: further datagrams are dropped.
    pub queue_bytes: usize,
}

/// Contents of the links file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinksFile {
    /// File of the map, relative to this one; by default the built-in map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    /// Bytes of a node that are under way at most.
    #[serde(default = "queue_bytes")]
    pub queue_bytes: usize,
    /// Nodes and their regions.
    pub node: Vec<NodeLocation>,
    /// Partitions: pairs of sides that do not reach each other.
    #[serde(default)]
    pub cut: Vec<Cut>,
}

/// The region in which a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLocation {
    /// Its address on this machine.
    pub address: Ipv4Addr,
    /// Its region, by the map's name.
    pub region: String,
}

/// Nodes on two sides; neither side reaches the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// The addresses of both sides.
    pub between: [Vec<Ipv4Addr>; 2],
}

fn queue_bytes() -> usize {
    QUEUE_BYTES
}

impl LinksFile {
    /// Parses TOML.
    ///
    /// # Errors
    /// The wrong key, and the reason.
    pub fn read(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|why| why.to_string().trim_end().into())
    }

    /// Returns the rules of the node at `own`, on this map.
    ///
    /// # Errors
    /// The wrong key, and the reason.
    pub fn rules(&self, own: Ipv4Addr, world: &World) -> Result<Rules, String> {
        let queue_bytes = self.queue_bytes;
        if queue_bytes < QUEUE_BYTES_MIN {
            return Err(format!("`queue_bytes`: {queue_bytes} is less than {QUEUE_BYTES_MIN}"));
        }
        let mut places: HashMap<Ipv4Addr, usize> = HashMap::new();
        for NodeLocation { address, region } in &self.node {
            let place = world.place(region).map_err(|why| format!("`node`: {why}"))?;
            if places.insert(*address, place).is_some() {
                return Err(format!("`node`: {address} is there twice"));
            }
        }
        let Some(&from) = places.get(&own) else {
            return Err(format!("`node`: {own} is not there, the address of the node that reads it"));
        };
        for address in self.cut.iter().flat_map(|cut| cut.between.iter().flatten()) {
            if !places.contains_key(address) {
                return Err(format!("`cut`: {address} is not an `address` of a `node`"));
            }
        }
        let is_cut = |to: &Ipv4Addr| {
            let parts =
                |[a, b]: &[Vec<Ipv4Addr>; 2]| a.contains(&own) && b.contains(to) || b.contains(&own) && a.contains(to);
            self.cut.iter().any(|cut| parts(&cut.between))
        };
        let rule = |(to, &region): (&Ipv4Addr, &usize)| {
            let (link, ns) = (world.link(from, region), |ms: f64| (ms * 1e6) as u64);
            let (delay_ns, jitter_ns) = (ns(link.rtt_ms / 2.0), ns(link.jitter_ms));
            (IpAddr::V4(*to), Rule { delay_ns, jitter_ns, loss: link.loss, is_cut: is_cut(to) })
        };
        let others = places.iter().filter(|(to, _)| **to != own);
        Ok(Rules { by_address: others.map(rule).collect(), rate_bps: world.regions[from].rate_gbps * 1e9, queue_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "node = [{ address = \"127.0.0.2\", region = \"London\" }, \
        { address = \"127.0.0.3\", region = \"Singapore\" }, { address = \"127.0.0.4\", region = \"London\" }]\n\
        cut = [{ between = [[\"127.0.0.2\"], [\"127.0.0.4\"]] }]\n";

    fn rules(text: &str) -> Result<Rules, String> {
        LinksFile::read(text)?.rules(Ipv4Addr::new(127, 0, 0, 2), &World::shipped())
    }

    #[test]
    fn rules_cover_each_other_node() {
        let rules = rules(FILE).unwrap();
        let to = |last: u8| rules.by_address.get(&IpAddr::from([127, 0, 0, last])).copied();
        let far = Rule { delay_ns: 87_500_000, jitter_ns: 1_000_000, loss: 0.002, is_cut: false };
        assert_eq!((to(3), to(2), to(9)), (Some(far), None, None));
        let near = to(4).unwrap();
        assert_eq!((near.delay_ns, near.jitter_ns, near.is_cut), (250_000, 50_000, true));
        assert_eq!((rules.rate_bps, rules.queue_bytes), (25e9, QUEUE_BYTES));
        // The other side is partitioned off in turn, and no other node.
        let read = LinksFile::read(FILE).unwrap();
        let cut = |own: [u8; 4], to: [u8; 4]| {
            read.rules(own.into(), &World::shipped()).unwrap().by_address[&to.into()].is_cut
        };
        assert!(cut([127, 0, 0, 4], [127, 0, 0, 2]));
        assert!(!cut([127, 0, 0, 4], [127, 0, 0, 3]) && !cut([127, 0, 0, 3], [127, 0, 0, 2]));
    }

    #[test]
    fn written_links_are_read_back() {
        let file = LinksFile::read(FILE).unwrap();
        assert_eq!(LinksFile::read(&toml::to_string(&file).unwrap()).unwrap(), file);
    }

    #[test]
    fn a_mistake_names_its_key() {
        for (from, to, why) in [
            ("\"Singapore\"", "\"Singapur\"", "`node`: `Singapur` is not a region; did you mean `Singapore`?"),
            ("127.0.0.3", "127.0.0.2", "`node`: 127.0.0.2 is there twice"),
            ("[\"127.0.0.4\"]] }", "[\"127.0.0.5\"]] }", "`cut`: 127.0.0.5 is not an `address` of a `node`"),
            (
                "address = \"127.0.0.2\"",
                "address = \"127.0.0.9\"",
                "`node`: 127.0.0.2 is not there, the address of the node that reads it",
            ),
            ("cut =", "queue_bytes = 9\ncut =", "`queue_bytes`: 9 is less than 65536"),
        ] {
            assert!(FILE.contains(from), "{from}");
            assert_eq!(rules(&FILE.replacen(from, to, 1)).expect_err(to), why);
        }
        for (from, to) in [("address", "adress"), ("between", "betwen"), ("cut", "cuts"), ("127.0.0.3", "127.0.0.300")]
        {
            let why = rules(&FILE.replacen(from, to, 1)).expect_err(to);
            assert!(why.contains(to) && why.contains("line "), "{why}");
        }
    }
}
