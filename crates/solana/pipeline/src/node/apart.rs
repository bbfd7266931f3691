//! apart: a tile in a process of its own, on the same workspace.
//!
//! reads   what the node's process hands over: [`StartMessage`]
//! writes  the tile's links and counters, in the parts of the workspace that its process maps
//! memory  those parts, and the tile's own
//!
//! Both processes have the same topology and so the same order of cores. Each has a waker of every core, on flags in
//! the workspace and events that the tile's process inherits: waking costs the same as within one process. Which
//! process starts the other, and how, is the host's: [`StartApart`].

use std::os::fd::RawFd;
use std::path::PathBuf;

use hearth_ring::{HugePages, Workspace, WorkspacePlan};
use hearth_tile::core::{Core, IdlePolicy, TilePanic, run_alone};
use hearth_tile::sys::event::EventFd;
use hearth_tile::topology::Topology;
use hearth_tile::wake::{StopRequest, WAKERS, Waker};
use hearth_tile::{Clock, Entropy};
use serde::{Deserialize, Serialize};

use super::{BootError, Launcher, TileConfigs, Wakers};

/// What the process of a tile needs to know before it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartMessage {
    /// The node's topology.
    pub topology: Topology,
    /// Path of the workspace file.
    pub workspace: PathBuf,
    /// Descriptors of the events of all cores, in the order of [`Topology::by_core`].
    pub events: Vec<RawFd>,
    /// The node's cores that lend their tiles, by index in that order.
    pub(crate) lends: Vec<usize>,
    /// The core that borrows them.
    pub(crate) borrower: Option<usize>,
    /// Bytes of a page of the workspace.
    pub(crate) page_size: u64,
    /// When an idle core of its own parks: [`IdlePolicy`].
    pub(crate) park_after_ns: u64,
    /// Maximum sleep of a core.
    pub(crate) sleep_max_ns: u64,
}

impl StartMessage {
    /// The plan of the workspace.
    pub fn plan(&self) -> WorkspacePlan {
        let all = [HugePages::None, HugePages::TwoMiB, HugePages::OneGiB];
        let pages = all.into_iter().find(|pages| pages.page_size() == self.page_size);
        self.topology.workspace_plan(pages.expect("the node's process has one of these"))
    }
}

/// The process of a tile could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run tile {tile} in a process of its own: {why}")]
pub struct ApartError {
    /// The tile's full name.
    pub tile: String,
    /// What failed, and what to try.
    pub why: String,
}

/// The running process of a tile, as the node's process sees it. Dropping it ends the process.
pub trait ApartProcess: Send {
    /// What it is, in one line: how far it is isolated.
    fn summary(&self) -> String;
    /// How it ended, if it has. Never waits.
    fn ended(&mut self) -> Option<TilePanic>;
    /// Waits for its end, which was asked for, and returns how it ended if that was not well.
    fn wait(self: Box<Self>) -> Result<(), TilePanic>;
}

/// Starts the process of the tile that is apart, and returns once it is about to take its first turn.
pub type StartApart = Box<dyn FnOnce(StartMessage) -> Result<Box<dyn ApartProcess>, ApartError>>;

/// A tile that is apart, made and ready, in its own process.
pub struct ApartTile {
    core: Core,
    stop: StopRequest,
}

impl ApartTile {
    /// Makes the tile on the parts of the workspace that this process maps. `events` are those of the message, and
    /// `configs` has the tile's configuration.
    ///
    /// Panics if the message's topology has no tile that is apart.
    pub fn make(
        message: &StartMessage,
        workspace: &Workspace,
        events: Vec<EventFd>,
        clock: &Clock,
        configs: TileConfigs,
    ) -> Result<Self, BootError> {
        let region = workspace.counters(WAKERS)?;
        let wakers: Vec<Waker> =
            events.into_iter().enumerate().map(|(index, event)| Waker::shared(&region, index, event)).collect();
        if let Some(borrower) = message.borrower {
            message.lends.iter().filter(|core| **core != borrower).for_each(|core| {
                wakers[*core].set_borrower(&wakers[borrower]);
            });
        }
        let groups = message.topology.by_core();
        assert_eq!(groups.len(), wakers.len(), "an event for each core");
        let mut of_tiles = Wakers::new();
        for ((core, tiles), waker) in groups.iter().zip(&wakers) {
            of_tiles.extend(tiles.iter().map(|tile| (tile.name(), (*core, waker.clone()))));
        }
        let launcher = Launcher { topology: &message.topology, workspace, clock, wakers: &of_tiles };
        let mut made = launcher.make(configs, |tile| tile.is_apart, |_| Entropy::System)?;
        let spec = message.topology.apart().expect("a tile of the topology is apart");
        let name = spec.name();
        let is_pinned = spec.core.is_some();
        let idle = IdlePolicy {
            // Without a core of its own it must not spin: it would keep the tiles that it waits for from theirs.
            park_after_ns: if is_pinned { message.park_after_ns } else { 0 },
            sleep_max_ns: message.sleep_max_ns,
        };
        let (_, waker) = of_tiles[&name].clone();
        let core = Core {
            tiles: vec![made.remove(&name).expect("made above")],
            name,
            pin: spec.core,
            waker,
            clock: clock.clone(),
            idle: idle.for_core(is_pinned),
            lends: false,
        };
        Ok(Self { core, stop: StopRequest::new(region, groups.len()) })
    }

    /// The core that it runs on, if it has one of its own.
    pub fn pin(&self) -> Option<usize> {
        self.core.pin
    }

    /// Runs the tile on the calling thread until the node's process asks it to stop. `begin` is called just before the
    /// first turn: nothing is opened from then on.
    pub fn run(self, begin: impl FnOnce()) -> Result<(), TilePanic> {
        run_alone(self.core, &self.stop, begin)
    }
}

#[cfg(test)]
mod tests;
