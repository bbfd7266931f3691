//! tower: decides which fork this node builds on, what it votes for, what is final, and when it leads.
//!
//! reads   in a cluster, from replay: executed and dead blocks, what the store has of slots; from gossip: nodes, their
//!         votes and slots, equivocating leaders; from repair: hashes of ancestors; the time; if the node is alone,
//!         from store: the newest durable block
//! writes  in a cluster, to replay: what to build on, own slots to start, roots, blocks to drop; to txsend and gossip:
//!         votes, once their tower is on disk; to gossip: the root; to repair: which nodes to ask for ancestors;
//!         `tower.bin` and `root.bin`; if the node is alone, to pack: votes; to the ledger: what is confirmed and final
//! memory  120 B per block above the root; 40 B per slot above it of which the store has anything, for up to 65,536
//!         slots; 104 B per vote account with stake; a vote; 4 MiB of tables of voters' keys; what [`hearth_consensus`]
//!         keeps
//! drops   other nodes' votes that do not count: counted
//! source  `docs/consensus.md`
//!
//! [`Core`] is the job without I/O: it receives the time, messages, signatures and a place for its two files, and
//! returns what to send. The rules of consensus are in [`hearth_consensus`]; this module connects them to the node.
//! Replay owns the ledger; the two exchange [`Event`]s and [`Command`]s, in order, and neither waits for the other.
//!
//! ```text
//! replay ── Event ──► Core ── Command ──► replay
//! gossip: votes, ──►   │  ├─► tower.bin ─► sign ─► vote: txsend, gossip
//! slots, duplicates    │  └─► root.bin ─► root: gossip
//!                      └─► slots to ask for, blocks to send again, ancestors to ask for
//! ```
//!
//! A lone node is a cluster of one ([`SoloDriver`]):
//!
//! ```text
//! store ── durable block ──► Core ─► sign ─► vote: pack
//!                             └─► ledger: confirmed, final
//! ```

mod blocks;
mod codec;
mod core;
mod join_wait;
mod member;
mod messages;
mod saved;
mod solo;
mod tile;
mod votes;

pub use self::core::{Clocks, Config as CoreConfig, Core, Counters, Output, TowerError};
pub use blocks::{Blocks, TowerBlock};
#[cfg(test)]
pub(crate) use codec::Pieces;
pub(crate) use codec::pieces;
pub use messages::{Command, Event, FrozenBlock, SLOTS_MAX, Start, StoredBlock};
pub use saved::{
    Files, SavedError, Writer, file_of as tower_file, final_slot, is_root_damaged, root as saved_root, root_saved_at,
    save_file, save_root, save_tower, tower as saved_tower, tower_of as found_tower,
};
pub use solo::{NoFiles, SoloDriver};

pub use tile::{Config, Membership, Tower};

use hearth_tile::{Out, Port, Tile};

/// Maximum bytes that tower takes in a cluster with this many vote accounts and blocks above the root.
pub const fn memory(accounts: u64, blocks: u64) -> u64 {
    // 40 B per stored slot, 120 B per block, 104 B per vote account with stake; an event with all accounts; tables.
    let own = 40 * SLOTS_MAX as u64 + 120 * blocks + (104 + 450) * accounts + votes::TABLE_BYTES as u64;
    own + hearth_consensus::memory(accounts, blocks)
}

/// Whether an output with waiting messages has room.
fn has_room<T: Tile>(port: Port, out: &mut Out<'_, T>) -> bool {
    let has_room = out.credits(port, 1) > 0;
    if !has_room {
        out.held_up();
    }
    has_room
}

#[cfg(test)]
mod tests;
