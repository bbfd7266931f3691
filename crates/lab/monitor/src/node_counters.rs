//! A look at a node: every counter and every link at one moment.
//!
//! reads   the workspace, read-only; the kernel's account of each tile's thread
//! writes  [`NodeCounters`]
//! memory  a word per counter, a few per link

use std::sync::atomic::Ordering;
use std::time::Instant;

use hearth_ring::{LinkView, Observer, unix_time};
use hearth_tile::bandwidth::Tally;
use hearth_tile::counters::{CounterSet, FIRST_REGIME, LoopCounters};
use hearth_tile::latency::Histogram;
use hearth_tile::regime::REGIMES;
use hearth_tile::topology::{TileSpec, Topology};

use crate::latency::Stages;
use crate::threads;

/// The state of a node at one moment.
#[derive(Clone, Debug)]
pub struct NodeCounters {
    pub(crate) at: Instant,
    pub(crate) unix_ns: u64,
    pub(crate) alive: bool,
    pub(crate) pid: u32,
    pub(crate) tiles: Vec<TileLook>,
    pub(crate) links: Vec<LinkView>,
    pub(crate) bandwidth: Tally,
}

/// One tile at a moment.
#[derive(Clone, Debug)]
pub(crate) struct TileLook {
    words: Vec<u64>,
    pub(crate) latencies: Vec<Histogram>,
    pub(crate) waited_for_core_ns: Option<u64>,
}

impl NodeCounters {
    pub(crate) fn take(topology: &Topology, observer: &Observer) -> Self {
        let pid = observer.pid();
        let mut bandwidth = Tally::default();
        for spec in topology.tiles.iter().filter(|spec| spec.peers > 0) {
            let words = observer.counters(&spec.name()).unwrap_or_default();
            bandwidth.add(words.get(spec.peers_at()..).unwrap_or_default(), spec.peers);
        }
        let alive = observer.is_alive();
        let tiles = topology.tiles.iter().map(|spec| TileLook::take(spec, observer, alive));
        let tiles = tiles.collect();
        let unix_ns = unix_time().as_nanos() as u64;
        Self { at: Instant::now(), unix_ns, alive, pid, tiles, links: observer.links(), bandwidth }
    }

    /// Returns when the look was taken.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Returns the age of transactions at each stage, so far.
    pub(crate) fn stages(&self, topology: &Topology) -> Stages {
        let mut stages = Stages::default();
        for (spec, tile) in topology.tiles.iter().zip(&self.tiles) {
            let named = spec.latencies.iter().zip(&tile.latencies);
            named.for_each(|(latency, histogram)| stages.add(&spec.kind, &latency.name, histogram));
        }
        stages
    }

    /// Returns how long the phases of an EVM node's blocks took, so far.
    pub(crate) fn block_parts(&self, topology: &Topology) -> Stages {
        let mut parts = Stages::default();
        for (spec, tile) in topology.tiles.iter().zip(&self.tiles) {
            for (latency, histogram) in spec.latencies.iter().zip(&tile.latencies) {
                if let Some(part) = latency.name.strip_prefix("block_") {
                    parts.put(part, histogram);
                }
            }
        }
        parts
    }

    /// Sums a counter over the tiles of a kind.
    pub(crate) fn total(&self, topology: &Topology, kind: &str, counter: &str) -> u64 {
        let of_kind = topology.tiles.iter().zip(&self.tiles).filter(|(spec, _)| spec.kind == kind);
        of_kind.filter_map(|(spec, tile)| tile.own(spec, counter)).sum()
    }
}

impl TileLook {
    fn take(spec: &TileSpec, observer: &Observer, alive: bool) -> Self {
        let words = observer.counters(&spec.name()).unwrap_or_default();
        let latencies = (0..spec.latencies.len())
            .map(|number| Histogram::read(words.get(spec.latency_at(number)..).unwrap_or_default()));
        let latencies = latencies.collect();
        let mut words: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        // A workspace that is smaller than its topology says is read as zeros.
        words.resize(spec.words(), 0);
        let mut look = Self { words, latencies, waited_for_core_ns: None };
        if alive {
            look.waited_for_core_ns = threads::waited_for_core_ns(observer.pid(), look.loop_counter("tid"));
        }
        look
    }

    /// Returns a counter that every tile has.
    pub(crate) fn loop_counter(&self, name: &str) -> u64 {
        let at = LoopCounters::DECLS.iter().position(|decl| decl.name == name);
        self.words[at.expect("a loop counter")]
    }

    /// Returns one of the tile's own counters.
    pub(crate) fn own(&self, spec: &TileSpec, name: &str) -> Option<u64> {
        let at = spec.counters.iter().position(|counter| counter.name == name)?;
        Some(self.words[LoopCounters::DECLS.len() + at])
    }

    /// Returns the nanoseconds in each regime.
    pub(crate) fn regimes(&self) -> [u64; REGIMES] {
        self.words[FIRST_REGIME..FIRST_REGIME + REGIMES].try_into().expect("as many as there are regimes")
    }
}
