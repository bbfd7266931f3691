//! Liveness of the tiles, for health checks and for a node's shutdown.
//!
//! reads   heartbeats, states and pack's gauge, in the workspace
//! memory  a handle per tile

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hearth_pipeline::node::Node;
use hearth_pipeline::pack::Pack;
use hearth_ring::unix_time;
use hearth_rpc::Liveness;
use hearth_tile::counters::LoopCounters;
use hearth_tile::{CounterDecl, CounterSet, Tile};

/// A tile without a heartbeat for this long is stuck: an idle one beats at least every 75 ms, a floating one every 225.
const SILENT: Duration = Duration::from_secs(10);
/// The same for a node that is stopping.
const SILENT_AT_END: Duration = Duration::from_secs(2);

/// The tiles of a node, seen from outside.
#[derive(Clone)]
pub struct Tiles(Arc<Vec<TileWords>>);

struct TileWords {
    name: String,
    words: hearth_ring::Counters,
    /// Index of the number of pending transactions, for pack.
    pending: Option<usize>,
}

impl Tiles {
    /// The tiles of this node.
    pub fn of(node: &Node) -> Self {
        let place = |decls: &[CounterDecl], name| decls.iter().position(|decl| decl.name == name);
        let own = place(<<Pack as Tile>::Counters as CounterSet>::DECLS, "pending").expect("pack counts what waits");
        let words = |name: &str| node.workspace().counters(name).expect("the topology has the tile");
        let tiles = node.topology.tiles.iter().map(|tile| TileWords {
            name: tile.name(),
            words: words(&tile.name()),
            pending: (tile.kind == Pack::NAME).then_some(LoopCounters::DECLS.len() + own),
        });
        Self(Arc::new(tiles.collect()))
    }

    /// The callback for health checks.
    pub fn liveness(self) -> Box<dyn Fn() -> Liveness + Send + Sync> {
        let pending = |tile: &TileWords| tile.pending.map(|at| tile.words.words()[at].load(Relaxed));
        Box::new(move || Liveness { silent: self.silent(SILENT), pending: self.0.iter().filter_map(pending).sum() })
    }

    /// The tiles without heartbeat that have not stopped, in words, at a node's shutdown.
    pub fn unstopped(&self) -> Vec<String> {
        self.silent(SILENT_AT_END).into_iter().map(|(names, _)| names).collect()
    }

    /// The tiles without heartbeat for this long, and since when the first has been silent. Tiles of one core are
    /// listed together.
    fn silent(&self, least: Duration) -> Option<(String, Duration)> {
        let now = unix_time();
        let tiles = self.0.iter().filter_map(|tile| Some((tile.name.as_str(), silence(tile.words.words(), now)?)));
        named(tiles.filter(|(_, time)| *time > least))
    }
}

/// The time since the last heartbeat of a running tile.
fn silence(words: &[AtomicU64], now: Duration) -> Option<Duration> {
    const RUNNING: u64 = 1;
    let word = |name| {
        let at = LoopCounters::DECLS.iter().position(|decl| decl.name == name).expect("every tile counts it");
        words[at].load(Relaxed)
    };
    let beat = Duration::from_nanos(word("heartbeat_unix_ns"));
    (word("state") == RUNNING && !beat.is_zero()).then(|| now.saturating_sub(beat))
}

/// Lists tiles in words, with the longest of their times.
fn named<'a>(silent: impl Iterator<Item = (&'a str, Duration)>) -> Option<(String, Duration)> {
    let silent: Vec<_> = silent.collect();
    let longest = silent.iter().map(|(_, time)| *time).max()?;
    let names: Vec<&str> = silent.iter().map(|(name, _)| *name).collect();
    Some((format!("{} {}", if names.len() == 1 { "tile" } else { "tiles" }, names.join(", ")), longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(state: u64, heartbeat_unix_ns: u64) -> Vec<AtomicU64> {
        let words: Vec<AtomicU64> = LoopCounters::DECLS.iter().map(|_| AtomicU64::new(0)).collect();
        LoopCounters { state, heartbeat_unix_ns, ..LoopCounters::default() }.flush(&words);
        words
    }

    #[test]
    fn a_running_tile_without_heartbeats_is_silent() {
        let now = Duration::from_secs(100);
        let at = |state, beat_s: u64| silence(&words(state, beat_s * 1_000_000_000), now);
        assert_eq!(at(1, 70), Some(Duration::from_secs(30)));
        assert_eq!(at(1, 101), Some(Duration::ZERO), "the clock went back");
        assert_eq!((at(1, 0), at(2, 70), at(3, 70)), (None, None, None), "not begun, stopped, died");
    }

    #[test]
    fn silent_tiles_are_named_together() {
        let seconds = Duration::from_secs;
        let tiles = [("pack:0", seconds(12)), ("bank:0", seconds(13))];
        assert_eq!(named(tiles.into_iter()), Some(("tiles pack:0, bank:0".into(), seconds(13))));
        assert_eq!(named(tiles.into_iter().take(1)), Some(("tile pack:0".into(), seconds(12))));
        assert_eq!(named(std::iter::empty()), None);
    }
}
