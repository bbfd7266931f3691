//! A node: the topology brought to life.
//!
//! reads   each tile's configuration
//! writes  the workspace file; starts a thread per core
//! memory  the workspace, and what each tile takes in its `new`
//!
//! Tiles are made before any thread starts, so that a port in use or a wrong file is one clear error and nothing
//! is half running.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hearth_ring::{Consumer, HugePages, Polled, Producer, Workspace, WorkspaceError};
use hearth_tile::core::{Core, Died, Fleet, IdlePolicy};
use hearth_tile::latency::stamp;
use hearth_tile::runner::{Parts, Runnable, Runner};
use hearth_tile::topology::{LinkSpec, TileSpec, Topology};
use hearth_tile::wake::{Neighbours, Waker};
use hearth_tile::{Clock, Entropy, InitError, Tile};

use crate::links::AGAIN;

/// Makes one tile of what was given for it.
type Maker = Box<dyn FnOnce(Parts) -> Result<Box<dyn Runnable>, InitError>>;

/// What the tiles of a topology are made from: a configuration for each, which is the tile's own from then on.
#[derive(Default)]
pub struct TileConfigs(BTreeMap<String, Maker>);

impl TileConfigs {
    /// The configuration of the first tile of a kind, or the only one. It is dropped where the topology has no such
    /// tile.
    #[must_use]
    pub fn one<T: Tile>(self, config: T::Config) -> Self {
        self.add::<T>(0, config)
    }

    /// A configuration for each tile of a kind that the topology has, by its index.
    #[must_use]
    pub fn each<T: Tile>(self, topology: &Topology, mut config: impl FnMut(usize) -> T::Config) -> Self {
        (0..topology.count(T::NAME)).fold(self, |configs, index| configs.add::<T>(index, config(index)))
    }

    fn add<T: Tile>(mut self, index: usize, config: T::Config) -> Self {
        let make = move |parts: Parts| -> Result<Box<dyn Runnable>, InitError> {
            Ok(Box::new(Runner::<T>::new(config, parts)?))
        };
        let before = self.0.insert(format!("{}:{index}", T::NAME), Box::new(make));
        assert!(before.is_none(), "{}:{index} has two configurations", T::NAME);
        self
    }
}

/// How a node is brought up.
pub struct NodeConfig {
    /// The workspace file.
    pub workspace: PathBuf,
    /// Pages of the workspace.
    pub huge_pages: HugePages,
    /// When idle cores park.
    pub idle: IdlePolicy,
    /// The tiles.
    pub tiles: TileConfigs,
}

/// Why a node did not come up.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A tile.
    #[error(transparent)]
    Tile(#[from] InitError),
    /// A thread or a descriptor.
    #[error("cannot start the node's threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// A running node.
pub struct Node {
    /// What runs.
    pub topology: Topology,
    /// Its clock.
    pub clock: Clock,
    workspace: Workspace,
    fleet: Fleet,
    inlets: BTreeMap<String, Inlet>,
    outlets: BTreeMap<String, Outlet>,
    poh: Option<Waker>,
}

/// The way onto a link for who is no tile: transactions that do not come over the network.
pub struct Inlet {
    producer: Producer,
    waker: Waker,
    clock: Clock,
}

/// The end of a link for a reader that is no tile.
pub struct Outlet {
    consumer: Consumer,
    waker: Waker,
    depth: usize,
    /// Frags read since the producer's core was woken last.
    unannounced: usize,
}

impl Outlet {
    /// Gives each frag that is there to `take`, at most as many as the link holds. Returns how many there were.
    pub fn read(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < self.depth {
            match self.consumer.poll() {
                Polled::Empty => break,
                Polled::Overrun { .. } => continue,
                Polled::Ready(meta) => {
                    if let Ok(payload) = self.consumer.payload(&meta) {
                        take(payload);
                    }
                    self.consumer.advance();
                    count += 1;
                }
            }
        }
        if count > 0 {
            self.consumer.release();
            self.unannounced += count;
        }
        // A producer without room has filled the link since it was woken last.
        if self.unannounced >= self.depth / 2 {
            self.unannounced = 0;
            self.waker.wake();
        }
        count
    }
}

/// There is no room: the node is saturated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is busy: no room for the transaction; try again")]
pub struct Busy;

impl Inlet {
    /// Hands a transaction's wire bytes to the pipeline.
    pub fn send(&mut self, transaction: &[u8]) -> Result<(), Busy> {
        self.send_control(transaction, 0)
    }

    /// As [`Inlet::send`], of a transaction that was sent before and has not landed: it is no duplicate.
    pub fn send_again(&mut self, transaction: &[u8]) -> Result<(), Busy> {
        self.send_control(transaction, AGAIN)
    }

    fn send_control(&mut self, transaction: &[u8], control: u16) -> Result<(), Busy> {
        if transaction.len() > self.producer.mtu() || self.producer.credits(1) == 0 {
            return Err(Busy);
        }
        let now = self.clock.now();
        self.producer.send(transaction, 0, control, stamp(now), now as u32);
        self.waker.wake();
        Ok(())
    }
}

impl Node {
    /// Makes every tile and starts every core.
    ///
    /// Panics where the topology has a tile without a configuration.
    pub fn boot(topology: Topology, clock: Clock, config: NodeConfig) -> Result<Self, BootError> {
        let NodeConfig { workspace, huge_pages, idle, tiles: TileConfigs(mut makers) } = config;
        let workspace = Workspace::create(&workspace, &topology.workspace_plan(huge_pages))?;
        let mut wakers = BTreeMap::new();
        for (core, tiles) in topology.by_core() {
            let waker = Waker::new()?;
            for tile in tiles {
                wakers.insert(tile.name(), (core, waker.clone()));
            }
        }
        let launcher = Launcher { topology: &topology, workspace: &workspace, clock: &clock, wakers: &wakers };
        // In the order of their numbers: the first net tile makes sure that the ports are free, the others join it.
        let mut made = BTreeMap::new();
        for tile in &topology.tiles {
            let name = tile.name();
            let make = makers.remove(&name).unwrap_or_else(|| panic!("{name} has no configuration"));
            made.insert(name, make(launcher.parts(tile)?)?);
        }
        let mut cores = vec![];
        for (pin, tiles) in topology.by_core() {
            let waker = wakers[&tiles[0].name()].1.clone();
            let name = pin.map_or_else(|| tiles[0].name(), |core| format!("core {core}"));
            let tiles = tiles.iter().map(|t| made.remove(&t.name()).expect("made above, on one core")).collect();
            cores.push(Core { name, pin, tiles, waker, clock: clock.clone(), idle, lends: pin.is_some() });
        }
        let mut inlets = BTreeMap::new();
        for link in topology.links.iter().filter(|link| topology.tile(&link.producer).is_none()) {
            let (_, waker) = &wakers[&link.consumers[0].tile];
            let inlet = Inlet { producer: workspace.producer(&link.name)?, waker: waker.clone(), clock: clock.clone() };
            inlets.insert(link.name.clone(), inlet);
        }
        let mut outlets = BTreeMap::new();
        for link in &topology.links {
            for end in link.consumers.iter().filter(|end| topology.tile(&end.tile).is_none()) {
                let consumer = workspace.consumer(&link.name, &end.tile)?;
                let (_, waker) = &wakers[&link.producer];
                let depth = link.depth as usize;
                outlets.insert(link.name.clone(), Outlet { consumer, waker: waker.clone(), depth, unannounced: 0 });
            }
        }
        let poh = wakers.get("poh:0").map(|(_, waker)| waker.clone());
        let fleet = Fleet::start(cores)?;
        Ok(Self { topology, clock, workspace, fleet, inlets, outlets, poh })
    }

    /// The way onto a link that no tile writes, if the topology has it. There is one.
    pub fn take_inlet(&mut self, link: &str) -> Option<Inlet> {
        self.inlets.remove(link)
    }

    /// The end of a link that no tile reads, if the topology has it. There is one.
    pub fn take_outlet(&mut self, link: &str) -> Option<Outlet> {
        self.outlets.remove(link)
    }

    /// Lets poh look at whether a slot shall begin, where it may be asleep.
    pub fn poh_waker(&self) -> Option<Waker> {
        self.poh.clone()
    }

    /// The workspace, for its counters.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// The first tile that died, if any.
    pub fn died(&self) -> Option<Died> {
        self.fleet.died()
    }

    /// Stops every tile and waits for it.
    pub fn stop(self) -> Result<(), Died> {
        self.fleet.stop()
    }
}

struct Launcher<'a> {
    topology: &'a Topology,
    workspace: &'a Workspace,
    clock: &'a Clock,
    wakers: &'a BTreeMap<String, (Option<usize>, Waker)>,
}

impl Launcher<'_> {
    /// A tile's ends of its links, and the rest of what its loop runs with.
    fn parts(&self, spec: &TileSpec) -> Result<Parts, BootError> {
        let name = spec.name();
        let (_, waker) = &self.wakers[&name];
        let mut inputs = vec![];
        for link in self.topology.inputs(&name) {
            inputs.push(self.workspace.consumer(&link.name, &name)?);
        }
        let mut outputs = vec![];
        for link in self.topology.outputs(&name) {
            outputs.push(self.workspace.producer(&link.name)?);
        }
        Ok(Parts {
            index: spec.index,
            peers: self.topology.count(&spec.kind),
            clock: self.clock.clone(),
            inputs,
            outputs,
            counters: self.workspace.counters(&name)?,
            waker: waker.clone(),
            neighbours: self.neighbours(&name),
            entropy: Entropy::System,
            name,
        })
    }

    /// The other cores to which the tile's links lead.
    fn neighbours(&self, tile: &str) -> Neighbours {
        let own = &self.wakers[tile].1;
        let other = |name: &str| {
            let waker = self.wakers.get(name).map(|(_, waker)| waker);
            waker.filter(|waker| !waker.same_core(own)).cloned()
        };
        let consumers = |link: &LinkSpec| link.consumers.iter().filter_map(|c| other(&c.tile)).collect();
        Neighbours {
            producers: self.topology.inputs(tile).map(|link| other(&link.producer)).collect(),
            consumers: self.topology.outputs(tile).map(consumers).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hearth_ring::{ConsumerPlan, LinkPlan, WorkspacePlan};

    use super::*;

    #[test]
    fn an_outlet_reads_each_frag_once_and_makes_room() {
        const DEPTH: u8 = 8;
        let folder = tempfile::tempdir().unwrap();
        let consumers = vec![ConsumerPlan { name: "reader".into(), reliable: true }];
        let link = LinkPlan { name: "writer_reader".into(), depth: DEPTH.into(), mtu: 64, consumers };
        let plan = WorkspacePlan { links: vec![link], counters: vec![], topology: vec![], huge_pages: HugePages::None };
        let workspace = Workspace::create(&folder.path().join("workspace"), &plan).unwrap();
        let mut producer = workspace.producer("writer_reader").unwrap();
        let consumer = workspace.consumer("writer_reader", "reader").unwrap();
        let mut outlet = Outlet { consumer, waker: Waker::new().unwrap(), depth: DEPTH.into(), unannounced: 0 };
        for round in 0..3 {
            let sent: Vec<[u8; 2]> = (0..DEPTH).map(|number| [round, number]).collect();
            for frag in &sent {
                assert!(producer.credits(1) > 0, "there is room");
                producer.send(frag, 0, 0, 0, 0);
            }
            assert_eq!(producer.credits(1), 0, "the link is full");
            let mut read = vec![];
            assert_eq!(outlet.read(|frag| read.push(frag.to_vec())), usize::from(DEPTH));
            assert_eq!(read, sent);
            assert_eq!(outlet.read(|_| panic!("there is nothing")), 0);
        }
    }
}
