//! Consensus of a node in a cluster: fork choice, voting, finality, and when to lead.
//!
//! reads   frozen banks, votes, dead slots, duplicate proofs; time and ticks
//! writes  votes, resets, roots, confirmations, starts of own slots, which the node then carries out
//! memory  banks above the root, with 8 B per vote account each; votes above the root, bounded per vote account
//! drops   nothing itself: refused input is an error that the caller counts
//! source  `docs/cluster-protocol.md` sections 6 and 7: `solana-core` 4.2.2, `consensus/`; docs/consensus.md lists the
//!         rules in force
//!
//! Nothing here reads a clock, a file or a socket. [`Consensus`] combines the parts:
//!
//! ```text
//! frozen banks ─► Forks (weights) ──┐
//!              ─► Bank (statistics) ┼─► decide ─► Tower ─► vote, reset, root
//! votes seen   ─► Tracker ──────────┤                       └─► Turns ─► begin a slot
//! duplicates, dead ─► Duplicates ───┘
//! ```

pub mod ancestors;
mod bank;
mod core;
mod decide;
mod duplicates;
mod forks;
mod leader;
mod near_slots;
mod propagation;
mod stakes;
mod tower;
mod tracker;
mod types;

pub use core::{Adoption, Clock, Config, Consensus, InputError, NewIdentity, SETTLED_SLOTS, Start, StartError};
pub use decide::{Refusal, Switch};
pub use forks::{ForkError, Forks};
pub use leader::{
    CONSECUTIVE_SLOTS, LeaderStep, LeaderView, MAX_GRACE_TICKS, PohPosition, TICKS_PER_SLOT, Turn, Turns, next_turn,
};
pub use near_slots::{NEAR_WORDS, NearSlots};
pub use stakes::{Stakes, VoteStake, VoteWeights};
pub use tower::{AgaveError, AlignError, LastVote, Lockouts, SavedError, SavedErrorKind, Tower};
pub use tracker::{ThresholdsPassed, Tracker, VoteError};
pub use types::{AccountVotes, Action, BankId, FrozenBank, TowerVote};

use hearth_wire::vote::{Lockout, MAX_LOCKOUTS};

/// A vote at this depth of the tower must have the support of [`VOTE_THRESHOLD`] before the tower may grow.
pub const VOTE_THRESHOLD_DEPTH: usize = 8;
/// The stake that must support the vote at [`VOTE_THRESHOLD_DEPTH`], exclusive.
pub const VOTE_THRESHOLD: f64 = 2.0 / 3.0;
/// The stake that must be locked out on other forks before this node may switch, exclusive.
pub const SWITCH_THRESHOLD: f64 = 0.38;
/// The stake that makes one version of a block count, exclusive.
pub const DUPLICATE_THRESHOLD: f64 = 1.0 - SWITCH_THRESHOLD - 0.1;
/// The stake that confirms or finalizes a block, exclusive.
pub const SUPERMAJORITY: f64 = 2.0 / 3.0;
/// The stake that a leader's block must reach before the leader makes another turn, exclusive.
pub const PROPAGATED_THRESHOLD: f64 = 1.0 / 3.0;
/// Votes and duplicate proofs for slots further above the root are ignored.
pub const MAX_SLOTS_AHEAD: u64 = 50_000;
/// Slots above the root for which other nodes' claims to have them are tracked.
pub const MAX_ELSEWHERE: u64 = 4_096;

/// Maximum memory of consensus with this many vote accounts and banks above the root, in bytes.
pub const fn memory(accounts: u64, banks: u64) -> u64 {
    // Tracked votes, the entry in fork choice, and claimed slots that are not frozen here.
    let of_account = tracker::BYTES_OF_ACCOUNT + 72 + 32 * MAX_ELSEWHERE;
    // The account's state, if it voted in the bank; its entry there, and in the propagation of an own block.
    let state = (size_of::<AccountVotes>() + MAX_LOCKOUTS * size_of::<Lockout>()) as u64;
    let of_account_in_bank = state + 8 + 32;
    // Its node in fork choice, and the state of its slot.
    let of_bank = 200 + 100 + accounts * of_account_in_bank;
    accounts * of_account + banks * of_bank + 16 * core::MAX_ROOTED as u64
}

/// Whether a part of the stake exceeds a threshold. In floating point, as every node of the cluster computes it;
/// nothing exceeds a threshold of zero stake.
pub fn exceeds(stake: u64, total: u64, threshold: f64) -> bool {
    total != 0 && stake as f64 / total as f64 > threshold
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_strict() {
        assert!(!exceeds(2, 3, VOTE_THRESHOLD) && exceeds(667, 1_000, VOTE_THRESHOLD));
        assert!(!exceeds(38, 100, SWITCH_THRESHOLD) && exceeds(39, 100, SWITCH_THRESHOLD));
        assert!(!exceeds(52, 100, DUPLICATE_THRESHOLD) && exceeds(53, 100, DUPLICATE_THRESHOLD));
        assert!(!exceeds(1, 3, PROPAGATED_THRESHOLD) && exceeds(2, 5, PROPAGATED_THRESHOLD));
        assert!(!exceeds(0, 0, 0.0) && !exceeds(5, 0, SUPERMAJORITY));
    }
}
