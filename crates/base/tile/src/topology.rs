//! topology: which tiles there are, which links join them, and which core runs which tile, as data.
//!
//! reads   what the pipeline declares
//! writes  the workspace's plan, and a description of itself in the workspace for observers
//!
//! Everything that shows or connects tiles (monitor, metrics, docs, launch) derives from this value.

use std::collections::{BTreeMap, BTreeSet};

use hearth_ring::{ConsumerPlan, CountersPlan, HugePages, LinkPlan, SharePlan, WorkspacePlan};
use serde::{Deserialize, Serialize};

use crate::bandwidth;
use crate::counters::{CounterDecl, CounterKind, CounterSet, LoopCounters};
use crate::latency::{self, LatencyDecl};
use crate::tile::Tile;
use crate::wake::{self, WAKERS};

/// The tiles, links and services of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Name of the node.
    pub name: String,
    /// The tiles, in the order of the data flow.
    pub tiles: Vec<TileSpec>,
    /// The links between them.
    pub links: Vec<LinkSpec>,
    /// Threads outside the pipeline that have counters.
    pub services: Vec<ServiceSpec>,
}

/// A service that runs next to the tiles, on its own threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSpec {
    /// Its name, and that of its counters region.
    pub name: String,
    /// Its declared counters.
    pub counters: Vec<CounterSpec>,
}

/// One tile of a topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileSpec {
    /// Its kind, such as `verify`.
    pub kind: String,
    /// Its index among its kind, from 0.
    pub index: usize,
    /// The core it runs on; `None` floats.
    pub core: Option<usize>,
    /// Whether it belongs to the load generator instead of the node.
    pub load: bool,
    /// The configuration key for the number of its kind; `None` if there is always exactly one.
    #[serde(default)]
    pub count_key: Option<String>,
    /// Its own counters, after the loop's.
    pub counters: Vec<CounterSpec>,
    /// Its latency histograms, after the counters: [`latency::WORDS`] words each.
    #[serde(default)]
    pub latencies: Vec<LatencySpec>,
    /// Places in its table of peers, after the histograms: [`bandwidth::words`] in all.
    #[serde(default)]
    pub peers: usize,
    /// Whether it runs in a process of its own, which maps its links and counters and no other part of the workspace.
    #[serde(default)]
    pub is_apart: bool,
}

/// A histogram's declaration, for observers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySpec {
    /// Name in snake case, without a unit.
    pub name: String,
    /// Help text, one sentence.
    pub help: String,
}

impl From<&LatencyDecl> for LatencySpec {
    fn from(decl: &LatencyDecl) -> Self {
        Self { name: decl.name.into(), help: decl.help.into() }
    }
}

/// A counter's declaration, for observers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSpec {
    /// Name in snake case, units last.
    pub name: String,
    /// Counter or gauge.
    pub kind: CounterKind,
    /// Help text, one sentence.
    pub help: String,
}

impl From<&CounterDecl> for CounterSpec {
    fn from(decl: &CounterDecl) -> Self {
        Self { name: decl.name.into(), kind: decl.kind, help: decl.help.into() }
    }
}

impl TileSpec {
    /// Creates a floating tile of `kind` with the counters `C`.
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
            is_apart: false,
        }
    }

    /// Creates a floating tile of the kind of `T`, with everything that it declares.
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

    /// Index of the first word of its table of peers in its counters region.
    pub fn peers_at(&self) -> usize {
        self.latency_at(self.latencies.len())
    }

    /// Index of the first word of the histogram with this number in its counters region.
    pub fn latency_at(&self, number: usize) -> usize {
        LoopCounters::DECLS.len() + self.counters.len() + number * latency::WORDS
    }
}

/// One link of a topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// `producer_consumer`, with `:index` if there are several.
    pub name: String,
    /// Frags it holds; a power of two.
    pub depth: u32,
    /// Maximum payload in bytes.
    pub mtu: u32,
    /// The producing tile's full name. Any other name is a thread outside the pipeline (`rpc`).
    pub producer: String,
    /// The consuming tiles.
    pub consumers: Vec<Consumption>,
}

/// A consumer's end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumption {
    /// The consuming tile's full name.
    pub tile: String,
    /// Whether the producer waits for it.
    pub reliable: bool,
}

/// Why a topology cannot run. Always a bug in the program that built it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// Two tiles or two links have the same name.
    #[error("{0} is declared twice")]
    Twice(String),
    /// A link names a consumer that does not exist.
    #[error("link {link} is read by {tile}, which the topology does not have")]
    NoSuchTile {
        /// Name of the link.
        link: String,
        /// Name of the missing tile.
        tile: String,
    },
    /// A link's depth is not a power of two.
    #[error("link {link} has depth {depth}, which is not a power of two")]
    Depth {
        /// Name of the link.
        link: String,
        /// The invalid depth.
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

    /// Builds the plan of a workspace for it.
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
        let share = self.share_plan();
        let cores = self.by_core().len();
        let wakers = share.iter().map(|_| CountersPlan { name: WAKERS.into(), words: wake::words(cores) });
        let counters = tiles.chain(services).chain(wakers);
        WorkspacePlan {
            links: links.collect(),
            counters: counters.collect(),
            topology: serde_json::to_vec(self).expect("a topology is plain data"),
            huge_pages,
            share,
        }
    }

    /// Lets the tile with this full name run in a process of its own. It keeps its core if no other tile is there; else
    /// it floats, since two threads on one core would wait for each other.
    ///
    /// Only one tile can be apart. Panics if the topology has no such tile, or another is apart.
    pub fn set_apart(&mut self, name: &str) {
        assert!(self.tiles.iter().all(|tile| !tile.is_apart), "two tiles in processes of their own");
        let at = self.tiles.iter().position(|tile| tile.name() == name);
        let at = at.unwrap_or_else(|| panic!("there is no tile {name}"));
        let core = self.tiles[at].core;
        let is_alone = self.tiles.iter().enumerate().all(|(other, tile)| other == at || tile.core != core);
        let tile = &mut self.tiles[at];
        tile.is_apart = true;
        tile.core = core.filter(|_| is_alone);
    }

    /// The tile that runs in a process of its own, if one does.
    pub fn apart(&self) -> Option<&TileSpec> {
        self.tiles.iter().find(|tile| tile.is_apart)
    }

    /// What the process of the tile that is apart maps.
    fn share_plan(&self) -> Option<SharePlan> {
        let name = self.apart()?.name();
        Some(SharePlan {
            reads: self.inputs(&name).map(|link| link.name.clone()).collect(),
            writes: self.outputs(&name).map(|link| link.name.clone()).collect(),
            counters: vec![name, WAKERS.into()],
        })
    }

    /// Decodes the description in a workspace.
    pub fn from_workspace(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// Returns the tile with this full name.
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

    /// Groups the tiles by core, in the order of the data flow; each floating tile has a group of its own.
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
    fn a_tile_apart_shares_its_links_alone() {
        let mut topology = small();
        topology.tiles.push(TileSpec::new::<()>("sign", 0));
        topology.links.push(link("pack_sign", "pack:0", "sign:0"));
        topology.links.push(link("sign_pack", "sign:0", "pack:0"));
        assert_eq!(topology.workspace_plan(HugePages::None).share, None);
        topology.tiles[0].core = Some(1);
        topology.tiles[2].core = Some(1);
        let mut alone = topology.clone();
        alone.tiles[2].core = Some(2);
        alone.set_apart("sign:0");
        assert_eq!(alone.tiles[2].core, Some(2));
        topology.set_apart("sign:0");
        assert_eq!(topology.tiles[2].core, None, "the core has another tile");
        let plan = topology.workspace_plan(HugePages::None);
        let share = plan.share.as_ref().expect("a tile is apart");
        assert_eq!(share.reads, ["pack_sign"]);
        assert_eq!(share.writes, ["sign_pack"]);
        assert_eq!(share.counters, ["sign:0", WAKERS]);
        // Core 1, pack and sign.
        let wakers = plan.counters.iter().find(|region| region.name == WAKERS).expect("the cores' flags");
        assert_eq!(wakers.words, wake::words(3));
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
