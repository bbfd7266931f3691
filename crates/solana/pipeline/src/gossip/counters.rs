//! counters: the tile's counters: those of the state machine, then its own.
//!
//! reads   the counters of the state machine
//! writes  words of the workspace
//! memory  one word per counter

use std::sync::atomic::AtomicU64;

use hearth_gossip as protocol;
use hearth_tile::counters::put;
use hearth_tile::{CounterDecl, CounterKind, CounterSet};

hearth_tile::counters! {
    /// What the tile counts beside what gossip itself does.
    pub struct TileCounters {
        /// Votes and epoch slots of nodes without stake, which consensus does not get.
        unstaked_values: Counter,
        /// Slots with two blocks of their leader that consensus did not get, because it did not read in time.
        dropped_duplicates: Counter,
    }
}

/// All counters of the tile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// The state machine's, as of the last housekeeping.
    pub protocol: protocol::Counters,
    /// The counters of the tile itself, about news that consensus does not get.
    pub own: TileCounters,
}

const OF_PROTOCOL: usize = protocol::Counters::HELP.len();
const COUNT: usize = OF_PROTOCOL + TileCounters::DECLS.len();

const ALL: [CounterDecl; COUNT] = {
    let mut all = [TileCounters::DECLS[0]; COUNT];
    let mut at = 0;
    while at < OF_PROTOCOL {
        let (name, help) = protocol::Counters::HELP[at];
        all[at] = CounterDecl { name, kind: CounterKind::Counter, help };
        at += 1;
    }
    while at < COUNT {
        all[at] = TileCounters::DECLS[at - OF_PROTOCOL];
        at += 1;
    }
    all
};

impl CounterSet for Counters {
    const DECLS: &'static [CounterDecl] = &ALL;

    fn flush(&self, words: &[AtomicU64]) {
        let (of_protocol, own) = words.split_at(OF_PROTOCOL);
        of_protocol.iter().zip(self.protocol.named()).for_each(|(word, (_, value))| put(word, value));
        self.own.flush(own);
    }
}
