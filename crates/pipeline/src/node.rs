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

use hearth_ring::{HugePages, Producer, Workspace, WorkspaceError};
use hearth_tile::core::{Core, Died, Fleet, IdlePolicy};
use hearth_tile::latency::stamp;
use hearth_tile::runner::{Parts, Runnable, Runner};
use hearth_tile::topology::{LinkSpec, TileSpec, Topology};
use hearth_tile::wake::{Neighbours, Waker};
use hearth_tile::{Clock, Entropy, InitError, Tile};

use crate::links::{AGAIN, RPC_VERIFY};
use crate::{bank, benchg, bencho, benchs, dedup, metric, net, pack, poh, quic, rserve, shred, sign, store, verify};

/// What each tile is made from. The load generator's are there when the topology has its tiles.
pub struct TileConfigs {
    /// For `net`.
    pub net: net::Config,
    /// For `quic`.
    pub quic: quic::Config,
    /// For `verify`.
    pub verify: verify::Config,
    /// For `dedup`.
    pub dedup: dedup::Config,
    /// For `pack`.
    pub pack: pack::Config,
    /// For `bank`.
    pub bank: bank::Config,
    /// For `poh`.
    pub poh: poh::Config,
    /// For `shred`.
    pub shred: shred::Config,
    /// For `store`.
    pub store: store::Config,
    /// For `rserve`, which a node in a cluster has.
    pub rserve: Option<rserve::Config>,
    /// For `metric`.
    pub metric: metric::Config,
    /// For `sign`.
    pub sign: sign::Config,
    /// For the load generator's tiles.
    pub load: Option<LoadConfigs>,
}

/// What the load generator's tiles are made from.
pub struct LoadConfigs {
    /// For `benchg`.
    pub benchg: benchg::Config,
    /// For `benchs`.
    pub benchs: benchs::Config,
    /// For `bencho`.
    pub bencho: bencho::Config,
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

/// How a load generator is brought up by itself.
pub struct LoadConfig {
    /// The workspace file.
    pub workspace: PathBuf,
    /// When idle cores park.
    pub idle: IdlePolicy,
    /// The tiles.
    pub tiles: LoadConfigs,
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
    rpc: Option<Inlet>,
    poh: Option<Waker>,
}

/// The way into `verify` for transactions that do not come over the network.
pub struct Inlet {
    producer: Producer,
    waker: Waker,
    clock: Clock,
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
    pub fn boot(topology: Topology, clock: Clock, config: &NodeConfig) -> Result<Self, BootError> {
        let workspace = Workspace::create(&config.workspace, &topology.workspace_plan(config.huge_pages))?;
        Self::start(topology, clock, workspace, config.idle, |launcher, tile| launcher.tile(tile, &config.tiles))
    }

    /// The same of a load generator without a node.
    pub fn boot_load(topology: Topology, clock: Clock, config: &LoadConfig) -> Result<Self, BootError> {
        let workspace = Workspace::create(&config.workspace, &topology.workspace_plan(HugePages::None))?;
        Self::start(topology, clock, workspace, config.idle, |launcher, tile| launcher.load_tile(tile, &config.tiles))
    }

    fn start(
        topology: Topology,
        clock: Clock,
        workspace: Workspace,
        idle: IdlePolicy,
        make: impl Fn(&Launcher<'_>, &TileSpec) -> Result<Box<dyn Runnable>, BootError>,
    ) -> Result<Self, BootError> {
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
            made.insert(tile.name(), make(&launcher, tile)?);
        }
        let mut cores = vec![];
        for (pin, tiles) in topology.by_core() {
            let waker = wakers[&tiles[0].name()].1.clone();
            let name = pin.map_or_else(|| tiles[0].name(), |core| format!("core {core}"));
            let tiles = tiles.iter().map(|t| made.remove(&t.name()).expect("made above, on one core")).collect();
            cores.push(Core { name, pin, tiles, waker, clock: clock.clone(), idle });
        }
        let rpc = match wakers.get("verify:0") {
            Some((_, waker)) if topology.links.iter().any(|link| link.name == RPC_VERIFY) => {
                let producer = workspace.producer(RPC_VERIFY)?;
                Some(Inlet { producer, waker: waker.clone(), clock: clock.clone() })
            }
            _ => None,
        };
        let poh = wakers.get("poh:0").map(|(_, waker)| waker.clone());
        let fleet = Fleet::start(cores)?;
        Ok(Self { topology, clock, workspace, fleet, rpc, poh })
    }

    /// The way in for the RPC. There is one.
    pub fn take_inlet(&mut self) -> Option<Inlet> {
        self.rpc.take()
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
    /// Makes one tile.
    fn tile(&self, spec: &TileSpec, configs: &TileConfigs) -> Result<Box<dyn Runnable>, BootError> {
        match spec.kind.as_str() {
            net::Net::NAME => self.make::<net::Net>(spec, &configs.net),
            quic::Quic::NAME => self.make::<quic::Quic>(spec, &configs.quic),
            verify::Verify::NAME => self.make::<verify::Verify>(spec, &configs.verify),
            dedup::Dedup::NAME => self.make::<dedup::Dedup>(spec, &configs.dedup),
            pack::Pack::NAME => self.make::<pack::Pack>(spec, &configs.pack),
            bank::Bank::NAME => self.make::<bank::Bank>(spec, &configs.bank),
            poh::Poh::NAME => self.make::<poh::Poh>(spec, &configs.poh),
            shred::Shred::NAME => self.make::<shred::Shred>(spec, &configs.shred),
            store::Store::NAME => self.make::<store::Store>(spec, &configs.store),
            rserve::Rserve::NAME => {
                let config = configs.rserve.as_ref().expect("a node in a cluster has its configuration");
                self.make::<rserve::Rserve>(spec, config)
            }
            metric::Metric::NAME => self.make::<metric::Metric>(spec, &configs.metric),
            sign::Sign::NAME => self.make::<sign::Sign>(spec, &configs.sign),
            _ => self.load_tile(spec, configs.load.as_ref().expect("load tiles come with their configuration")),
        }
    }

    /// Makes one tile of the load generator.
    fn load_tile(&self, spec: &TileSpec, load: &LoadConfigs) -> Result<Box<dyn Runnable>, BootError> {
        match spec.kind.as_str() {
            benchg::Benchg::NAME => self.make::<benchg::Benchg>(spec, &load.benchg),
            benchs::Benchs::NAME => self.make::<benchs::Benchs>(spec, &load.benchs),
            bencho::Bencho::NAME => self.make::<bencho::Bencho>(spec, &load.bencho),
            kind => unreachable!("the topology has a kind of tile that nobody makes: {kind}"),
        }
    }

    fn make<T: Tile>(&self, spec: &TileSpec, config: &T::Config) -> Result<Box<dyn Runnable>, BootError> {
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
        let parts = Parts {
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
        };
        Ok(Box::new(Runner::<T>::new(config, parts)?))
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
