//! The tower: the votes that bind this node.
//!
//! reads   slots that are voted for
//! writes  lockouts, the root that the 32nd vote makes, what is put on disk
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
    /// The block.
    pub id: BankId,
    /// The Merkle root of its last FEC set.
    pub block_id: Hash,
}

/// Why a tower and the bank that a node starts from do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlignError {
    /// This node rooted a block that the bank does not descend from.
    #[error("the tower's root, slot {0}, is on another chain than the bank to start from")]
    Diverged(u64),
    /// The bank does not know its ancestors back to the tower's root.
    #[error("the tower's root, slot {0}, is older than the ancestors that the bank to start from knows")]
    TooOld(u64),
}

/// The votes that bind a node, its root and its last vote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tower {
    pub(crate) lockouts: Lockouts,
    root_hash: Option<Hash>,
    last: Option<LastVote>,
    stamp: Option<(u64, i64)>,
}

impl Tower {
    /// Of a node that has not voted, and starts from a root.
    pub fn new(root: BankId) -> Self {
        let lockouts = Lockouts { votes: Vec::new(), root: Some(root.slot) };
        Self { lockouts, root_hash: Some(root.hash), last: None, stamp: None }
    }

    /// Sets the timestamp of the last vote that had one: its slot, and Unix time in seconds.
    pub fn with_timestamp(self, slot: u64, unix_s: i64) -> Self {
        Self { stamp: Some((slot, unix_s)), ..self }
    }

    /// The votes that bind.
    pub fn lockouts(&self) -> &Lockouts {
        &self.lockouts
    }

    /// The root, where the hash of its bank is known.
    pub fn root(&self) -> Option<BankId> {
        Some(BankId { slot: self.lockouts.root?, hash: self.root_hash? })
    }

    /// The last block voted for, unless the root is newer.
    pub fn last_vote(&self) -> Option<LastVote> {
        self.last
    }

    /// The newest slot that the tower has: that of its last vote, or its root.
    pub fn newest_slot(&self) -> Option<u64> {
        self.last.map(|last| last.id.slot).max(self.lockouts.root)
    }

    /// The slot of the last vote that told a timestamp, and that in Unix seconds.
    pub fn last_timestamp(&self) -> Option<(u64, i64)> {
        self.stamp
    }

    /// Whether a vote for `slot` would break a promise: it is no newer than the last, or a vote that still binds then,
    /// or the root, is not among its ancestors.
    pub fn is_locked_out(&self, slot: u64, is_ancestor: impl Fn(u64) -> bool) -> bool {
        self.last.is_some_and(|last| slot <= last.id.slot) || self.lockouts.is_locked_out(slot, is_ancestor)
    }

    /// Votes, and returns the slot that is rooted by that. The caller tells its hash to [`Self::set_root`].
    ///
    /// # Panics
    /// The slot is not newer than the last vote: the caller has asked [`Self::is_locked_out`].
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

    /// Tells the hash of the root, or that others' votes rooted a newer one; votes at or below it no longer bind.
    pub fn set_root(&mut self, root: BankId) {
        self.lockouts.root = Some(root.slot);
        self.root_hash = Some(root.hash);
        self.lockouts.votes.retain(|vote| vote.slot > root.slot);
    }

    /// Takes the votes that the node's own account has in a bank, where they are newer than the tower's: another
    /// process voted for this node, or the tower was lost. `last` is the newest of them.
    pub fn adopt(&mut self, votes: &[Lockout], root: Option<BankId>, last: LastVote) {
        if let Some(root) = root.filter(|root| self.lockouts.root.is_none_or(|own| own < root.slot)) {
            self.set_root(root);
        }
        let own = self.lockouts.root;
        self.lockouts.votes = votes.iter().copied().filter(|vote| own.is_none_or(|own| vote.slot > own)).collect();
        self.last = Some(last);
    }

    /// Takes the last timestamp of the node's own account, that of a vote for `slot`, where it is newer: another
    /// process voted for this node, or the tower was lost. The vote program takes no vote with an earlier one.
    pub fn adopt_timestamp(&mut self, slot: u64, unix_s: i64) {
        let (own_slot, own_unix_s) = self.stamp.unwrap_or_default();
        if slot > own_slot || unix_s > own_unix_s {
            self.stamp = Some((slot.max(own_slot), unix_s.max(own_unix_s)));
        }
    }

    /// Unix time in seconds that a vote for `slot` tells: none for a slot that is not newer than the last that told
    /// one, and none that is before the last one told.
    pub fn timestamp(&mut self, slot: u64, unix_s: i64) -> Option<i64> {
        if self.stamp.is_some_and(|(last, told)| slot <= last || unix_s < told) {
            return None;
        }
        self.stamp = Some((slot, unix_s));
        Some(unix_s)
    }

    /// The time that the last vote tells when it is sent again: a second after the one told before.
    pub fn refreshed_timestamp(&mut self) -> Option<i64> {
        let last = self.last?.id.slot;
        let (slot, told) = self.stamp.as_mut()?;
        (*slot == last).then(|| {
            *told = told.saturating_add(1);
            *told
        })
    }

    /// Fits a restored tower to the bank that the node starts from. `ancestors` are the slots of that bank's ancestors,
    /// as far back as they are known, in any order.
    ///
    /// Votes that the bank descends from no longer bind: they are rooted. Votes at or below it on another fork, and all
    /// above it, go on to bind. A tower whose root is above the bank is as it is: the node must execute its way there
    /// before it votes.
    ///
    /// # Errors
    /// The tower's root is not among the bank's ancestors, or older than those known.
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
