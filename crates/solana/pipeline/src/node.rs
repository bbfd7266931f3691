//! node: boots a node from its topology.
//!
//! reads   each tile's configuration
//! writes  the workspace file; starts a thread per core
//! memory  the workspace, and what each tile allocates in its `new`
//!
//! All tiles are created before any thread starts, so that a port in use or an invalid file is one clear error and
//! nothing is half running.

pub mod apart;

use std::collections::BTreeMap;
use std::path::PathBuf;

use hearth_crypto::sha256::sha256;
use hearth_ring::{HugePages, Producer, Workspace, WorkspaceError};
use hearth_tile::core::{Core, Fleet, IdlePolicy, TilePanic, borrower_of};
use hearth_tile::latency::stamp;
use hearth_tile::runner::{Parts, Runnable, Runner};
use hearth_tile::sys::event::EventFd;
use hearth_tile::topology::{LinkSpec, TileSpec, Topology};
use hearth_tile::wake::{Neighbours, StopRequest, WAKERS, Waker};
use hearth_tile::{Clock, Entropy, InitError, Tile};
use parking_lot::Mutex;

use crate::links::AGAIN;
use apart::{ApartError, ApartProcess, StartApart, StartMessage};

/// By a tile's name: the core that runs it, and what wakes that core.
pub(crate) type Wakers = BTreeMap<String, (Option<usize>, Waker)>;

/// Creates one tile from its configuration.
type Maker = Box<dyn FnOnce(Parts) -> Result<Box<dyn Runnable>, InitError>>;

/// A configuration for each tile of a topology, which the tile then owns.
#[derive(Default)]
pub struct TileConfigs(BTreeMap<String, Maker>);

impl TileConfigs {
    /// Adds the configuration of the first tile of a kind, or the only one. It is dropped if the topology has no such
    /// tile.
    #[must_use]
    pub fn one<T: Tile>(self, config: T::Config) -> Self {
        self.add::<T>(0, config)
    }

    /// Adds a configuration, by index, for each tile of a kind that the topology has.
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

/// How to boot a node.
pub struct NodeConfig {
    /// Path of the workspace file.
    pub workspace: PathBuf,
    /// Page size of the workspace.
    pub huge_pages: HugePages,
    /// When idle cores park.
    pub idle: IdlePolicy,
    /// The tiles' configurations, but for that of a tile that is apart.
    pub tiles: TileConfigs,
    /// Seeds the secrets of all tiles, if the session is recorded, so that a replay has the same ones. `None`: the
    /// operating system draws them.
    pub seed: Option<[u8; 32]>,
    /// Starts the process of the tile that is apart, if the topology has one.
    pub apart: Option<StartApart>,
}

/// What seeds the secrets of a tile (`verify:1`) in a node whose session is recorded.
pub fn seeded(seed: &[u8; 32], tile: &str) -> Entropy {
    let hash = sha256(&[seed, tile.as_bytes()]);
    Entropy::Seeded(u64::from_le_bytes(*hash.first_chunk().expect("32 bytes")))
}

/// Why a node did not boot.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The workspace could not be created.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A tile could not be created.
    #[error(transparent)]
    Tile(#[from] InitError),
    /// A thread or a descriptor could not be created.
    #[error("cannot start the node's threads: {0}")]
    Threads(#[from] std::io::Error),
    /// The process of a tile could not be started.
    #[error(transparent)]
    Apart(#[from] ApartError),
}

/// A node without threads, sockets and workspace file, whose tiles are turned by hand: for simulations.
pub struct SteppedNode {
    /// What it is made of.
    pub topology: Topology,
    /// Its tiles, in the order of the topology.
    pub tiles: Vec<Box<dyn Runnable>>,
    /// The ways onto its links for what is no tile, by link.
    pub inlets: BTreeMap<String, Inlet>,
    /// Its links and counters.
    pub workspace: Workspace,
}

impl SteppedNode {
    /// Makes every tile, on a clock of the caller's; `entropy` seeds the secrets of the tile that it is given.
    ///
    /// Panics where the topology has a tile without a configuration.
    pub fn make(
        topology: Topology,
        clock: &Clock,
        configs: TileConfigs,
        entropy: impl FnMut(&str) -> Entropy,
    ) -> Result<Self, BootError> {
        let workspace = Workspace::in_heap(&topology.workspace_plan(HugePages::None))?;
        let waker = Waker::new()?;
        let wakers = topology.tiles.iter().map(|tile| (tile.name(), (None, waker.clone()))).collect();
        let launcher = Launcher { topology: &topology, workspace: &workspace, clock, wakers: &wakers };
        let mut made = launcher.make(configs, |_| true, entropy)?;
        let tiles = topology.tiles.iter().map(|tile| made.remove(&tile.name()).expect("made above")).collect();
        let inlets = launcher.inlets()?;
        Ok(Self { tiles, inlets, topology, workspace })
    }
}

/// A running node.
pub struct Node {
    /// The topology that runs.
    pub topology: Topology,
    /// The clock of all tiles.
    pub clock: Clock,
    workspace: Workspace,
    fleet: Fleet,
    inlets: BTreeMap<String, Inlet>,
    /// The process of the tile that is apart. It goes after the tiles that need it.
    apart: Option<Apart>,
}

/// The process of a tile that is apart, and what stops it.
struct Apart {
    process: Mutex<Box<dyn ApartProcess>>,
    stop: StopRequest,
    waker: Waker,
}

/// A producer for threads that are not tiles, such as the RPC's.
pub struct Inlet {
    producer: Producer,
    waker: Waker,
    clock: Clock,
}

/// The link is full because the node is saturated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is busy: no room for the transaction; try again")]
pub struct Busy;

impl Inlet {
    /// Submits a transaction's wire bytes to the pipeline.
    pub fn send(&mut self, transaction: &[u8]) -> Result<(), Busy> {
        self.send_frag(transaction, 0, 0)
    }

    /// Like [`Inlet::send`], for a transaction that was sent before and has not landed: it does not count as a
    /// duplicate.
    pub fn send_again(&mut self, transaction: &[u8]) -> Result<(), Busy> {
        self.send_frag(transaction, 0, AGAIN)
    }

    /// Sends a tag without payload.
    pub fn send_tag(&mut self, tag: u64) -> Result<(), Busy> {
        self.send_frag(&[], tag, 0)
    }

    fn send_frag(&mut self, payload: &[u8], tag: u64, control: u16) -> Result<(), Busy> {
        if payload.len() > self.producer.mtu() || self.producer.credits(1) == 0 {
            return Err(Busy);
        }
        let now = self.clock.now();
        self.producer.send(payload, tag, control, stamp(now), now as u32);
        self.waker.wake();
        Ok(())
    }
}

impl Node {
    /// Creates every tile and starts every core.
    ///
    /// Panics if the topology has a tile without a configuration, or one that is apart and nothing that starts it.
    pub fn boot(topology: Topology, clock: Clock, config: NodeConfig) -> Result<Self, BootError> {
        let NodeConfig { workspace, huge_pages, idle, tiles: configs, seed, apart } = config;
        let workspace = Workspace::create(&workspace, &topology.workspace_plan(huge_pages))?;
        let wakers = wakers(&topology, &workspace)?;
        let launcher = Launcher { topology: &topology, workspace: &workspace, clock: &clock, wakers: &wakers };
        let entropy = |tile: &str| seed.as_ref().map_or(Entropy::System, |seed| seeded(seed, tile));
        let mut made = launcher.make(configs, |tile| !tile.is_apart, entropy)?;
        let mut cores = vec![];
        // The place of each in the topology's order, which a tile that is apart has a part in.
        let mut places = vec![];
        for (place, (pin, tiles)) in topology.by_core().into_iter().enumerate().filter(|(_, (_, t))| !t[0].is_apart) {
            let waker = wakers[&tiles[0].name()].1.clone();
            let name = pin.map_or_else(|| tiles[0].name(), |core| format!("core {core}"));
            let tiles = tiles.iter().map(|t| made.remove(&t.name()).expect("made above, on one core")).collect();
            let is_pinned = pin.is_some();
            let idle = idle.for_core(is_pinned);
            cores.push(Core { name, pin, tiles, waker, clock: clock.clone(), idle, lends: is_pinned });
            places.push(place);
        }
        let inlets = launcher.inlets()?;
        let apart = match topology.apart() {
            None => None,
            Some(spec) => {
                let lends = cores.iter().zip(&places).filter(|(core, _)| core.lends).map(|(_, place)| *place).collect();
                let borrower = borrower_of(&cores).map(|core| places[core]);
                let start = apart.expect("a tile that is apart has something that starts it");
                Some(launcher.start_apart(spec, start, (huge_pages, idle), lends, borrower)?)
            }
        };
        let fleet = Fleet::start(cores)?;
        Ok(Self { topology, clock, workspace, fleet, inlets, apart })
    }

    /// Takes the producer of a link that no tile writes, if the topology has it. There is only one.
    pub fn take_inlet(&mut self, link: &str) -> Option<Inlet> {
        self.inlets.remove(link)
    }

    /// The workspace, for its counters.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// The first tile that died, if any.
    pub fn died(&self) -> Option<TilePanic> {
        self.fleet.died().or_else(|| self.apart.as_ref()?.process.lock().ended())
    }

    /// How far the tile that is apart is isolated, in one line, if there is one.
    pub fn isolation(&self) -> Option<String> {
        self.apart.as_ref().map(|apart| apart.process.lock().summary())
    }

    /// Stops every tile and joins its thread; at last the tile that is apart, which the others need.
    pub fn stop(self) -> Result<(), TilePanic> {
        let stopped = self.fleet.stop();
        let Some(Apart { process, stop, waker }) = self.apart else { return stopped };
        stop.send(&waker);
        stopped.and(process.into_inner().wait())
    }
}

/// A waker for the core of each tile, by the tile's name. Where a tile is apart its process shares them.
fn wakers(topology: &Topology, workspace: &Workspace) -> Result<Wakers, BootError> {
    let region = topology.apart().map(|_| workspace.counters(WAKERS)).transpose()?;
    let mut wakers = Wakers::new();
    for (index, (core, tiles)) in topology.by_core().into_iter().enumerate() {
        let waker = match &region {
            Some(region) => Waker::shared(region, index, EventFd::new()?),
            None => Waker::new()?,
        };
        wakers.extend(tiles.iter().map(|tile| (tile.name(), (core, waker.clone()))));
    }
    Ok(wakers)
}

/// What the tiles of a process are made with.
pub(crate) struct Launcher<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) workspace: &'a Workspace,
    pub(crate) clock: &'a Clock,
    pub(crate) wakers: &'a Wakers,
}

impl Launcher<'_> {
    /// Makes every tile of this process, in the order of their numbers: the first net tile makes sure that the ports
    /// are free, the others join it.
    pub(crate) fn make(
        &self,
        TileConfigs(mut makers): TileConfigs,
        is_here: impl Fn(&TileSpec) -> bool,
        mut entropy: impl FnMut(&str) -> Entropy,
    ) -> Result<BTreeMap<String, Box<dyn Runnable>>, BootError> {
        let mut made = BTreeMap::new();
        for tile in self.topology.tiles.iter().filter(|tile| is_here(tile)) {
            let name = tile.name();
            let make = makers.remove(&name).unwrap_or_else(|| panic!("{name} has no configuration"));
            let secrets = entropy(&name);
            made.insert(name, make(self.parts(tile, secrets)?)?);
        }
        Ok(made)
    }

    /// Starts the process of the tile that is apart; `lends` and `borrower` are cores in the topology's order.
    fn start_apart(
        &self,
        spec: &TileSpec,
        start: StartApart,
        (huge_pages, idle): (HugePages, IdlePolicy),
        lends: Vec<usize>,
        borrower: Option<usize>,
    ) -> Result<Apart, BootError> {
        let groups = self.topology.by_core();
        let waker_of = |tile: &TileSpec| self.wakers[&tile.name()].1.clone();
        let message = StartMessage {
            topology: self.topology.clone(),
            workspace: self.workspace.path().to_owned(),
            events: groups.iter().map(|(_, tiles)| waker_of(tiles[0]).event().raw_fd()).collect(),
            lends,
            borrower,
            page_size: huge_pages.page_size(),
            park_after_ns: idle.park_after_ns,
            sleep_max_ns: idle.sleep_max_ns,
        };
        let stop = StopRequest::new(self.workspace.counters(WAKERS)?, groups.len());
        Ok(Apart { process: Mutex::new(start(message)?), stop, waker: waker_of(spec) })
    }

    /// The ways onto links that no tile writes.
    fn inlets(&self) -> Result<BTreeMap<String, Inlet>, BootError> {
        let mut inlets = BTreeMap::new();
        for link in self.topology.links.iter().filter(|link| self.topology.tile(&link.producer).is_none()) {
            let (_, waker) = &self.wakers[&link.consumers[0].tile];
            let producer = self.workspace.producer(&link.name)?;
            inlets.insert(link.name.clone(), Inlet { producer, waker: waker.clone(), clock: self.clock.clone() });
        }
        Ok(inlets)
    }

    /// A tile's ends of its links, and the rest of what its loop runs with.
    fn parts(&self, spec: &TileSpec, entropy: Entropy) -> Result<Parts, BootError> {
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
            entropy,
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
