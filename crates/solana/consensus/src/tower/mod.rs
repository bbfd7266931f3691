//! The tower: this node's binding votes.
//!
//! reads   slots that are voted for
//! writes  lockouts, the root that the 32nd vote makes, the file contents
//! memory  31 votes
//! drops   a vote for a slot that is not newer than the last
//! source  `docs/cluster-protocol.md` section 6.1: `solana-core` 4.2.2, `consensus/tower_vote_state.rs`, `consensus.rs`

mod agave;
mod lockouts;
mod saved;

pub use agave::AgaveError;
pub use lockouts::Lockouts;
pub use saved::{SavedError, SavedErrorKind};

use hearth_wire::Hash;
use hearth_wire::vote::Lockout;

use super::types::BankId;

/// The last block voted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastVote {
    /// The block's slot and bank hash.
    pub id: BankId,
    /// The Merkle root of its last FEC set.
    pub block_id: Hash,
}

/// Why a tower does not fit the bank that a node starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlignError {
    /// This node rooted a block that is not an ancestor of the bank.
    #[error("the tower's root, slot {0}, is on another chain than the bank to start from")]
    Diverged(u64),
    /// The bank's known ancestors do not reach back to the tower's root.
    #[error("the tower's root, slot {0}, is older than the ancestors that the bank to start from knows")]
    TooOld(u64),
}

/// A node's binding votes, root and last vote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tower {
    pub(crate) lockouts: Lockouts,
    root_hash: Option<Hash>,
    last: Option<LastVote>,
    stamp: Option<(u64, i64)>,
}

impl Tower {
    /// The tower of a node that has not voted, and starts from a root.
    pub fn new(root: BankId) -> Self {
        let lockouts = Lockouts { votes: Vec::new(), root: Some(root.slot) };
        Self { lockouts, root_hash: Some(root.hash), last: None, stamp: None }
    }

    /// Sets the timestamp of the last vote that had one: its slot, and Unix time in seconds.
    pub fn with_timestamp(self, slot: u64, unix_s: i64) -> Self {
        Self { stamp: Some((slot, unix_s)), ..self }
    }

    /// The votes that still bind, with their confirmations, and the root's slot.
    pub fn lockouts(&self) -> &Lockouts {
        &self.lockouts
    }

    /// The root, if the hash of its bank is known.
    pub fn root(&self) -> Option<BankId> {
        Some(BankId { slot: self.lockouts.root?, hash: self.root_hash? })
    }

    /// The last block voted for, unless the root is newer.
    pub fn last_vote(&self) -> Option<LastVote> {
        self.last
    }

    /// The newest slot of the tower: that of its last vote, or its root.
    pub fn newest_slot(&self) -> Option<u64> {
        self.last.map(|last| last.id.slot).max(self.lockouts.root)
    }

    /// The last vote with a timestamp: its slot and Unix seconds.
    pub fn last_timestamp(&self) -> Option<(u64, i64)> {
        self.stamp
    }

    /// Whether a vote for `slot` would violate a lockout: it is not newer than the last, or its ancestors lack the root
    /// or a vote that would still bind.
    pub fn is_locked_out(&self, slot: u64, is_ancestor: impl Fn(u64) -> bool) -> bool {
        self.last.is_some_and(|last| slot <= last.id.slot) || self.lockouts.is_locked_out(slot, is_ancestor)
    }

    /// Votes, and returns the slot that this roots, whose hash the caller must pass to [`Self::set_root`].
    ///
    /// # Panics
    ///
    /// The slot is not newer than the last vote: the caller must check [`Self::is_locked_out`].
    pub fn vote(&mut self, vote: LastVote) -> Option<u64> {
        let before = self.lockouts.root;
        let is_newer = self.last.is_none_or(|last| last.id.slot < vote.id.slot);
        assert!(is_newer && self.lockouts.process(vote.id.slot), "a vote for an old slot");
        self.last = Some(vote);
        if self.lockouts.root == before {
            return None;
        }
        self.root_hash = None;
        self.lockouts.root
    }

    /// Sets the hash of the root, or a newer root by other nodes' votes; votes at or below it no longer bind.
    pub fn set_root(&mut self, root: BankId) {
        self.lockouts.root = Some(root.slot);
        self.root_hash = Some(root.hash);
        self.lockouts.votes.retain(|vote| vote.slot > root.slot);
    }

    /// Adopts the votes of our own account in a bank if they are newer than the tower's: another process voted for this
    /// node, or the tower was lost. `last` is the newest of them.
    pub fn adopt(&mut self, votes: &[Lockout], root: Option<BankId>, last: LastVote) {
        if let Some(root) = root.filter(|root| self.lockouts.root.is_none_or(|own| own < root.slot)) {
            self.set_root(root);
        }
        let own = self.lockouts.root;
        self.lockouts.votes = votes.iter().copied().filter(|vote| own.is_none_or(|own| vote.slot > own)).collect();
        self.last = Some(last);
    }

    /// Adopts the last timestamp of our own account, from a vote for `slot`, if it is newer: another process voted for
    /// this node, or the tower was lost. The vote program rejects a vote with an earlier one.
    pub fn adopt_timestamp(&mut self, slot: u64, unix_s: i64) {
        let (own_slot, own_unix_s) = self.stamp.unwrap_or_default();
        if slot > own_slot || unix_s > own_unix_s {
            self.stamp = Some((slot.max(own_slot), unix_s.max(own_unix_s)));
        }
    }

    /// The timestamp in Unix seconds of a vote for `slot`: `None` if the slot is not newer than that of the last
    /// timestamp, or if the time is before it.
    pub fn timestamp(&mut self, slot: u64, unix_s: i64) -> Option<i64> {
        if self.stamp.is_some_and(|(last, stamped)| slot <= last || unix_s < stamped) {
            return None;
        }
        self.stamp = Some((slot, unix_s));
        Some(unix_s)
    }

    /// The timestamp of the last vote when it is sent again: a second after the previous one.
    pub fn refreshed_timestamp(&mut self) -> Option<i64> {
        let last = self.last?.id.slot;
        let (slot, stamped) = self.stamp.as_mut()?;
        (*slot == last).then(|| {
            *stamped = stamped.saturating_add(1);
            *stamped
        })
    }

    /// Aligns a restored tower with the bank that the node starts from. `ancestors` are the known slots of that bank's
    /// ancestors, in any order.
    ///
    /// Votes for ancestors of the bank no longer bind: they are rooted. Votes at or below it on another fork, and all
    /// above it, still bind. A tower whose root is above the bank is left as it is: the node must replay up to it
    /// before it votes.
    ///
    /// # Errors
    ///
    /// The tower's root is not among the bank's ancestors, or older than the known ones.
    pub fn align(&mut self, bank: BankId, ancestors: &[u64]) -> Result<(), AlignError> {
        let is_on_chain = |slot: u64| slot == bank.slot || ancestors.contains(&slot);
        if let Some(root) = self.lockouts.root {
            if root > bank.slot {
                return Ok(());
            }
            let is_other = root == bank.slot && self.root_hash.is_some_and(|hash| hash != bank.hash);
            let oldest = ancestors.iter().copied().min().unwrap_or(bank.slot).min(bank.slot);
            if is_other || (root >= oldest && !is_on_chain(root)) {
                return Err(AlignError::Diverged(root));
            }
            if root < oldest {
                return Err(AlignError::TooOld(root));
            }
        }
        self.lockouts.votes.retain(|vote| vote.slot > bank.slot || !is_on_chain(vote.slot));
        self.last = self.last.filter(|last| last.id == bank || last.id.slot > bank.slot || !is_on_chain(last.id.slot));
        self.lockouts.root = Some(bank.slot);
        self.root_hash = Some(bank.hash);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
