//! The topology as data: which tiles there are, which links join them, which core runs which tile.
//!
//! reads   what the pipeline declares
//! writes  the workspace's plan, and a description of itself in the workspace for observers
//!
//! Whatever shows or wires tiles (monitor, metrics, docs, launch) derives from this value.

use std::collections::{BTreeMap, BTreeSet};

use hearth_ring::{ConsumerPlan, CountersPlan, HugePages, LinkPlan, WorkspacePlan};
use serde::{Deserialize, Serialize};

use crate::bandwidth;
use crate::counters::{CounterDecl, CounterKind, CounterSet, LoopCounters};
use crate::latency::{self, LatencyDecl};
use crate::tile::Tile;

/// All of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The node's name.
    pub name: String,
    /// The tiles, in the order of the data flow.
    pub tiles: Vec<TileSpec>,
    /// The links.
    pub links: Vec<LinkSpec>,
    /// Threads outside the pipeline that count.
    pub services: Vec<ServiceSpec>,
}

/// Something that runs beside the tiles, on threads of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSpec {
    /// Its name, and that of its counters region.
    pub name: String,
    /// Its counters.
    pub counters: Vec<CounterSpec>,
}

/// One tile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileSpec {
    /// Its kind, `verify`.
    pub kind: String,
    /// Which of its kind, from 0.
    pub index: usize,
    /// The core it runs on; `None` floats.
    pub core: Option<usize>,
    /// Whether it belongs to the load generator and not to the node.
    pub load: bool,
    /// The configuration's key that says how many of its kind there are; `None` where there is always one.
    #[serde(default)]
    pub count_key: Option<String>,
    /// Its own counters, after the loop's.
    pub counters: Vec<CounterSpec>,
    /// Its histograms of latency, after the counters: [`latency::WORDS`] words each.
    #[serde(default)]
    pub latencies: Vec<LatencySpec>,
    /// Places of its table of peers, after the histograms: [`bandwidth::words`] in all.
    #[serde(default)]
    pub peers: usize,
}

/// One histogram, as an observer needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySpec {
    /// Snake case, without a unit.
    pub name: String,
    /// One sentence.
    pub help: String,
}

impl From<&LatencyDecl> for LatencySpec {
    fn from(decl: &LatencyDecl) -> Self {
        Self { name: decl.name.into(), help: decl.help.into() }
    }
}

/// One counter, as an observer needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSpec {
    /// Snake case, units last.
    pub name: String,
    /// Counter or gauge.
    pub kind: CounterKind,
    /// One sentence.
    pub help: String,
}

impl From<&CounterDecl> for CounterSpec {
    fn from(decl: &CounterDecl) -> Self {
        Self { name: decl.name.into(), kind: decl.kind, help: decl.help.into() }
    }
}

impl TileSpec {
    /// A floating tile of `kind` that counts `C`.
    pub fn new<C: CounterSet>(kind: &str, index: usize) -> Self {
        let counters = C::DECLS.iter().map(CounterSpec::from).collect();
        Self {
            kind: kind.into(),
            index,
            core: None,
            load: false,
            count_key: None,
            counters,
            latencies: vec![],
            peers: 0,
        }
    }

    /// A floating tile of the kind that `T` is, with all that it tells.
    pub fn of<T: Tile>(index: usize) -> Self {
        let latencies = T::LATENCIES.iter().map(LatencySpec::from).collect();
        Self { latencies, peers: T::PEERS, ..Self::new::<T::Counters>(T::NAME, index) }
    }

    /// Full name, `verify:1`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.kind, self.index)
    }

    /// Words in its counters region.
    pub fn words(&self) -> usize {
        self.peers_at() + bandwidth::words(self.peers)
    }

    /// Where the words of its table of peers begin in its counters region.
    pub fn peers_at(&self) -> usize {
        self.latency_at(self.latencies.len())
    }

    /// Where the words of the histogram of this number begin in its counters region.
    pub fn latency_at(&self, number: usize) -> usize {
        LoopCounters::DECLS.len() + self.counters.len() + number * latency::WORDS
    }
}

/// One link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// `producer_consumer`, with `:index` where there are several.
    pub name: String,
    /// Frags it holds; a power of two.
    pub depth: u32,
    /// Largest payload, bytes.
    pub mtu: u32,
    /// The producing tile's full name. A name that is no tile is a thread outside the pipeline (`rpc`).
    pub producer: String,
    /// The consuming tiles.
    pub consumers: Vec<Consumption>,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumption {
    /// The consuming tile's full name.
    pub tile: String,
    /// Whether the producer waits for it.
    pub reliable: bool,
}

/// A topology that cannot run. Always a mistake of the program that made it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// Two tiles or two links of the same name.
    #[error("{0} is declared twice")]
    Twice(String),
    /// A link names a consumer that is not there.
    #[error("link {link} is read by {tile}, which the topology does not have")]
    NoSuchTile {
        /// The link.
        link: String,
        /// The tile.
        tile: String,
    },
    /// A depth that is not a power of two.
    #[error("link {link} has depth {depth}, which is not a power of two")]
    Depth {
        /// The link.
        link: String,
        /// Its depth.
        depth: u32,
    },
}

impl Topology {
    /// Checks names, ends and depths.
    pub fn check(&self) -> Result<(), TopologyError> {
        let mut names = BTreeSet::new();
        for name in self.tiles.iter().map(TileSpec::name).chain(self.links.iter().map(|l| l.name.clone())) {
            if !names.insert(name.clone()) {
                return Err(TopologyError::Twice(name));
            }
        }
        for link in &self.links {
            if !link.depth.is_power_of_two() {
                return Err(TopologyError::Depth { link: link.name.clone(), depth: link.depth });
            }
            for end in &link.consumers {
                if !names.contains(&end.tile) {
                    return Err(TopologyError::NoSuchTile { link: link.name.clone(), tile: end.tile.clone() });
                }
            }
        }
        Ok(())
    }

    /// The workspace that holds it.
    pub fn workspace_plan(&self, huge_pages: HugePages) -> WorkspacePlan {
        let links = self.links.iter().map(|l| LinkPlan {
            name: l.name.clone(),
            depth: l.depth,
            mtu: l.mtu,
            consumers: l
                .consumers
                .iter()
                .map(|c| ConsumerPlan { name: c.tile.clone(), reliable: c.reliable })
                .collect(),
        });
        let tiles = self.tiles.iter().map(|t| CountersPlan { name: t.name(), words: t.words() });
        let services = self.services.iter().map(|s| CountersPlan { name: s.name.clone(), words: s.counters.len() });
        let counters = tiles.chain(services);
        WorkspacePlan {
            links: links.collect(),
            counters: counters.collect(),
            topology: serde_json::to_vec(self).expect("a topology is plain data"),
            huge_pages,
        }
    }

    /// Reads the description that a workspace carries.
    pub fn from_workspace(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// The tile of that full name.
    pub fn tile(&self, name: &str) -> Option<&TileSpec> {
        self.tiles.iter().find(|t| t.name() == name)
    }

    /// How many tiles of `kind` there are.
    pub fn count(&self, kind: &str) -> usize {
        self.tiles.iter().filter(|t| t.kind == kind).count()
    }

    /// Links that `tile` writes, in order.
    pub fn outputs(&self, tile: &str) -> impl Iterator<Item = &LinkSpec> {
        self.links.iter().filter(move |l| l.producer == tile)
    }

    /// Links that `tile` reads, in order.
    pub fn inputs(&self, tile: &str) -> impl Iterator<Item = &LinkSpec> {
        self.links.iter().filter(move |l| l.consumers.iter().any(|c| c.tile == tile))
    }

    /// The tiles by core, in the order of the data flow; each floating tile on a core of its own.
    pub fn by_core(&self) -> Vec<(Option<usize>, Vec<&TileSpec>)> {
        let mut pinned: BTreeMap<usize, Vec<&TileSpec>> = BTreeMap::new();
        for tile in &self.tiles {
            if let Some(core) = tile.core {
                pinned.entry(core).or_default().push(tile);
            }
        }
        let floating = self.tiles.iter().filter(|t| t.core.is_none()).map(|t| (None, vec![t]));
        pinned.into_iter().map(|(core, tiles)| (Some(core), tiles)).chain(floating).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, producer: &str, consumer: &str) -> LinkSpec {
        let consumers = vec![Consumption { tile: consumer.into(), reliable: true }];
        LinkSpec { name: name.into(), depth: 64, mtu: 128, producer: producer.into(), consumers }
    }

    fn small() -> Topology {
        Topology {
            name: "test".into(),
            tiles: vec![TileSpec::new::<()>("dedup", 0), TileSpec::new::<()>("pack", 0)],
            links: vec![link("dedup_pack", "dedup:0", "pack:0")],
            services: vec![],
        }
    }

    #[test]
    fn survives_the_workspace() {
        let topology = small();
        topology.check().unwrap();
        let plan = topology.workspace_plan(HugePages::None);
        assert_eq!(Topology::from_workspace(&plan.topology).unwrap(), topology);
    }

    #[test]
    fn mistakes_are_named() {
        let mut twice = small();
        twice.tiles.push(TileSpec::new::<()>("pack", 0));
        assert_eq!(twice.check(), Err(TopologyError::Twice("pack:0".into())));
        let mut nobody = small();
        nobody.links.push(link("pack_bank", "pack:0", "bank:0"));
        assert!(matches!(nobody.check(), Err(TopologyError::NoSuchTile { tile, .. }) if tile == "bank:0"));
        let mut odd = small();
        odd.links[0].depth = 3;
        assert!(matches!(odd.check(), Err(TopologyError::Depth { depth: 3, .. })));
    }
}
