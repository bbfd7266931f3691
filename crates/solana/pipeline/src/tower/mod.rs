//! tower: which fork this node builds on, what it votes for, what is final, and when it leads.
//!
//! reads   in a cluster, from replay: blocks that were executed, or cannot be; what the store has of slots. From
//!         gossip: nodes, their votes and slots, leaders that made two blocks. From repair: hashes of ancestors. The
//!         time. Where the node is alone, from store: the block that is durable
//! writes  in a cluster, to replay: what to build on, own slots to begin, roots, blocks to drop. To txsend and gossip:
//!         votes, once the tower that they are of is on disk; to gossip: the root. To repair: whom to ask for
//!         ancestors. `tower.bin` and `root.bin`. Where the node is alone, to pack: votes; to the ledger: what is
//!         confirmed and final
//! memory  120 B for each block above the root; 40 B for each slot above it of which the store has anything, of 65,536
//!         slots; 104 B for each vote account with stake; a vote; what [`hearth_consensus`] keeps
//! drops   votes of others that do not count: counted
//! source  `docs/consensus.md`
//!
//! [`Core`] is the job without I/O: it is given the time, messages, signatures and a place for its two files, and
//! returns what to send. The rules of consensus are in [`hearth_consensus`]; this is what connects them to the
//! node. Replay owns the ledger; the two exchange [`Event`]s and [`Command`]s, in order, and neither waits for the
//! other.
//!
//! ```text
//! replay ── Event ──► Core ── Command ──► replay
//! gossip: votes, ──►   │  ├─► tower.bin ─► sign ─► vote: txsend, gossip
//! slots, duplicates    │  └─► root.bin ─► root: gossip
//!                      └─► slots to ask for, blocks to send again, ancestors to ask for
//! ```
//!
//! A node alone is a cluster of one ([`Alone`]):
//!
//! ```text
//! store ── durable block ──► Core ─► sign ─► vote: pack
//!                             └─► ledger: confirmed, final
//! ```

mod alone;
mod blocks;
mod codec;
mod core;
mod join_wait;
mod member;
mod messages;
mod saved;
mod tile;
mod votes;

pub use self::core::{Config as CoreConfig, Core, Counters, Now, Output, TowerError};
pub use alone::{Alone, NoFiles};
pub use blocks::{Blocks, Frozen};
#[cfg(test)]
pub(crate) use codec::Pieces;
pub(crate) use codec::pieces;
pub use messages::{Command, Event, FrozenBlock, SLOTS_MAX, Start, StoredBlock};
pub use saved::{
    Files, SavedError, Writer, final_slot, is_root_damaged, root as saved_root, root_saved_at, save_file, save_root,
    save_tower, tower as saved_tower,
};

pub use tile::{Config, Membership, Tower};

use hearth_tile::{Out, Port, Tile};

/// Bytes that tower takes in a cluster with so many vote accounts and blocks above the root, at most.
pub const fn memory(accounts: u64, blocks: u64) -> u64 {
    // 40 B of a stored slot, 120 B of a block, 104 B of a vote account with stake; an event with all accounts.
    let own = 40 * SLOTS_MAX as u64 + 120 * blocks + (104 + 450) * accounts;
    own + hearth_consensus::memory(accounts, blocks)
}

/// Whether an output that something waits for has room.
fn has_room<T: Tile>(port: Port, out: &mut Out<'_, T>) -> bool {
    let has_room = out.credits(port, 1) > 0;
    if !has_room {
        out.held_up();
    }
    has_room
}

#[cfg(test)]
mod tests;
