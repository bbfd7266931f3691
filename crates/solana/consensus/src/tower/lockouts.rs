//! Lockouts: how long votes bind, and how later votes extend them.
//!
//! reads   slots that are voted for
//! writes  binding votes, the root
//! memory  31 votes
//! drops   a vote for a slot that is not newer than the last
//! source  `docs/cluster-protocol.md` section 6.1
//!
//! A vote binds for 2 slots, and for twice as long with each vote on top of it. The 32nd vote makes the oldest the
//! root.

use hearth_mutation::{Mutation, active};
use hearth_wire::vote::{Lockout, MAX_LOCKOUTS};

/// The binding votes, the oldest first, and the root below them, of this node or of a vote account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lockouts {
    /// The votes, slots ascending, at most [`MAX_LOCKOUTS`].
    pub votes: Vec<Lockout>,
    /// The newest slot that these votes have made final.
    pub root: Option<u64>,
}

impl Lockouts {
    /// The newest binding vote.
    pub fn last(&self) -> Option<&Lockout> {
        self.votes.last()
    }

    /// The vote with `depth` votes on top of it.
    pub fn at_depth(&self, depth: usize) -> Option<&Lockout> {
        self.votes.iter().nth_back(depth)
    }

    /// Votes for a slot; returns false and changes nothing if it is not newer than the last vote.
    pub fn process(&mut self, slot: u64) -> bool {
        if self.last().is_some_and(|last| slot <= last.slot) {
            return false;
        }
        self.expire(slot);
        if self.votes.len() == MAX_LOCKOUTS - usize::from(active(Mutation::EarlyRoot)) {
            self.root = Some(self.votes.remove(0).slot);
        }
        self.votes.push(Lockout { slot, confirmation_count: 1 });
        let depth = self.votes.len();
        for (index, vote) in self.votes.iter_mut().enumerate() {
            if depth > index + vote.confirmation_count as usize {
                vote.confirmation_count += 1;
            }
        }
        true
    }

    /// Drops the votes that no longer bind at a slot, from the newest on down to one that does.
    pub fn expire(&mut self, slot: u64) {
        while self.last().is_some_and(|last| !last.binds_at(slot)) {
            self.votes.pop();
        }
    }

    /// Whether the vote program takes these votes in place of those that an account has, which lie at or below the
    /// newest of these. It does not if a vote of the account is missing here and binds at the next one here, binds for
    /// longer than the same vote here, or if the account's root is newer.
    pub fn extends(&self, votes: &[Lockout], root: Option<u64>) -> bool {
        let is_kept = |vote: &Lockout| match self.votes.binary_search_by_key(&vote.slot, |own| own.slot) {
            Ok(at) => self.votes[at].confirmation_count >= vote.confirmation_count,
            Err(at) => self.votes.get(at).is_some_and(|next| !vote.binds_at(next.slot)),
        };
        root <= self.root && votes.iter().filter(|vote| Some(vote.slot) > self.root).all(is_kept)
    }

    /// Whether these votes keep what those of `own` forbid, wherever they bind at `slot` or later: each of them is of
    /// an ancestor, and rooted here, or a vote here for it or for a descendant binds as long.
    pub fn keep(&self, own: &Self, slot: u64, is_ancestor: impl Fn(u64) -> bool) -> bool {
        let is_covered = |vote: &Lockout| {
            let binds_as_long = |other: &Lockout| {
                other.slot >= vote.slot && other.last_locked_out_slot() >= vote.last_locked_out_slot()
            };
            self.root >= Some(vote.slot) || self.votes.iter().any(binds_as_long)
        };
        let mut binding = own.votes.iter().filter(|vote| vote.binds_at(slot));
        binding.all(|vote| is_ancestor(vote.slot) && is_covered(vote))
    }

    /// Whether a vote for `slot` is forbidden: it is not newer than the last or the root, or its ancestors lack the
    /// root or a vote that would still bind.
    pub fn is_locked_out(&self, slot: u64, is_ancestor: impl Fn(u64) -> bool) -> bool {
        let is_old = self.last().is_some_and(|last| slot <= last.slot) || self.root.is_some_and(|root| slot <= root);
        if is_old {
            return true;
        }
        let mut left = self.clone();
        left.expire(slot);
        if active(Mutation::ForgottenLockouts) {
            left.votes.clear();
        }
        !left.votes.iter().map(|vote| vote.slot).chain(left.root).all(is_ancestor)
    }
}
