//! Decides whether to vote, for which bank, and which bank to build on.
//!
//! reads   the forks, the statistics of their banks, the tower, votes seen in gossip
//! writes  a decision: a vote or a refusal, and the bank to reset onto
//! memory  32 B per vote account during the switch check
//! source  `docs/cluster-protocol.md` section 6.4: `solana-core` 4.2.2, `consensus/fork_choice.rs`, `consensus.rs`

use std::collections::{BTreeMap, BTreeSet};

use hearth_mutation::{Mutation, active};
use hearth_wire::Pubkey;

use super::bank::Bank;
use super::forks::Forks;
use super::propagation::Propagation;
use super::stakes::Stakes;
use super::tower::Tower;
use super::types::BankId;
use super::{PROPAGATED_THRESHOLD, SWITCH_THRESHOLD, VOTE_THRESHOLD, VOTE_THRESHOLD_DEPTH, exceeds};

/// Number of ancestors whose hashes a bank knows: a vote for an older one cannot land in it.
pub(crate) const MAX_SLOT_HASHES: u64 = 512;

/// The result of the switch check: whether the last vote's fork may be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// No switch: the heaviest bank descends from the last vote.
    SameFork,
    /// Enough stake is locked out on other forks, or the last vote's block no longer exists.
    Proof,
    /// Too little stake is locked out on other forks.
    FailedThreshold,
    /// The last vote is on a duplicate, and the heaviest bank is an ancestor of it.
    FailedRollback,
}

/// Why there is no vote for the heaviest bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is on another fork than the last vote, and the switch check failed: see [`Switch`].
    Switch(Switch),
    /// It was voted for already, is older than the last vote, or a vote for another fork still binds.
    LockedOut,
    /// The vote at depth 8 would bind longer without the support of two thirds of the stake.
    Threshold,
    /// Our own newest block below it has not reached a third of the stake.
    Propagation,
}

/// The decision for the current forks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The bank to vote for, and whether that is a switch; or the refusal.
    pub vote: Result<(BankId, bool), Refusal>,
    /// The bank to build on; `None` to leave proof of history where it is.
    pub reset: Option<BankId>,
}

/// The inputs of a decision.
pub(crate) struct View<'a> {
    pub forks: &'a Forks,
    /// The frozen banks that were not dumped.
    pub banks: &'a BTreeMap<BankId, Bank>,
    pub tower: &'a Tower,
    pub stakes: &'a Stakes,
    /// Each account's newest vote seen for a frozen bank.
    pub seen: &'a BTreeMap<Pubkey, BankId>,
    pub propagation: &'a Propagation,
    pub vote_account: Option<&'a Pubkey>,
}

impl View<'_> {
    /// Decides which bank to vote for and which to build on. Changes nothing.
    pub fn decide(&self) -> Decision {
        let heaviest = self.forks.heaviest();
        match self.switch(&heaviest) {
            switch @ (Switch::SameFork | Switch::Proof) => {
                let refusal = self.refusal(&heaviest);
                let vote = refusal.map_or(Ok((heaviest, switch == Switch::Proof)), Err);
                Decision { vote, reset: Some(heaviest) }
            }
            switch @ Switch::FailedRollback => Decision { vote: Err(Refusal::Switch(switch)), reset: Some(heaviest) },
            switch @ Switch::FailedThreshold => {
                let reset = self.tip_of_own_fork();
                let vote = match reset.filter(|tip| self.cannot_land(tip)) {
                    Some(tip) => self.refusal(&tip).map_or(Ok((tip, false)), Err),
                    None => Err(Refusal::Switch(switch)),
                };
                Decision { vote, reset }
            }
        }
    }

    /// The heaviest bank above the last vote; the deepest, if that is on a duplicate.
    pub fn tip_of_own_fork(&self) -> Option<BankId> {
        let last = self.tower.last_vote()?.id;
        let is_candidate = self.forks.is_candidate(&last);
        let tip = if is_candidate { self.forks.heaviest_above(&last) } else { self.forks.deepest_above(&last) };
        tip.filter(|tip| self.banks.contains_key(tip))
    }

    /// Whether the last vote landed in a bank.
    pub fn has_landed(&self, tip: &BankId) -> bool {
        let Some((last, account)) = self.tower.last_vote().zip(self.vote_account) else { return true };
        let landed = self.banks.get(tip).and_then(|bank| bank.account(account)?.last_vote());
        landed.is_some_and(|landed| landed >= last.id.slot)
    }

    /// Whether the last vote did not land, and is too old to land on this bank.
    fn cannot_land(&self, tip: &BankId) -> bool {
        let Some(last) = self.tower.last_vote() else { return false };
        let distance = self.forks.distance(&last.id, tip);
        !self.has_landed(tip) && distance.is_some_and(|distance| distance > MAX_SLOT_HASHES)
    }

    /// Whether the last vote's fork may be left for `heaviest`.
    pub fn switch(&self, heaviest: &BankId) -> Switch {
        let Some(last) = self.tower.last_vote().map(|last| last.id) else { return Switch::SameFork };
        let forks = self.forks;
        if !forks.contains(&last) {
            return self.switch_from_unknown(&last, heaviest);
        }
        if forks.descends(heaviest, &last) {
            return Switch::SameFork;
        }
        let is_below = forks.descends(&last, heaviest);
        if forks.invalid_ancestor(&last).is_some() {
            if is_below {
                return Switch::FailedRollback;
            }
            if !self.banks.contains_key(&last) {
                return Switch::Proof;
            }
        }
        if is_below {
            return Switch::FailedThreshold;
        }
        let ancestors: BTreeSet<u64> = forks.chain(&last).skip(1).map(|id| id.slot).collect();
        // Votes count on forks that branch off our own where the heaviest does, or before.
        let is_elsewhere = |id: &BankId| {
            let common = forks.common(id, &last);
            !forks.descends(id, &last) && common.is_some_and(|common| forks.descends(heaviest, &common))
        };
        let is_other = |slot: u64| !ancestors.contains(&slot);
        self.proof(heaviest, last.slot, forks.root().slot, &is_elsewhere, &is_other)
    }

    /// For a last vote whose block is missing, on a node that lost blocks or started from others' state. Only votes
    /// newer than our own count as elsewhere, since an older one may be for an ancestor of the lost block.
    fn switch_from_unknown(&self, last: &BankId, heaviest: &BankId) -> Switch {
        self.proof(heaviest, last.slot, last.slot.max(self.forks.root().slot), &|_| true, &|_| true)
    }

    fn proof(
        &self,
        heaviest: &BankId,
        last: u64,
        above: u64,
        is_elsewhere: &dyn Fn(&BankId) -> bool,
        is_other: &dyn Fn(u64) -> bool,
    ) -> Switch {
        let mut accounts: BTreeSet<&Pubkey> = BTreeSet::new();
        for (tip, bank) in self.banks {
            let has_child = || self.forks.children(tip).iter().any(|child| self.banks.contains_key(child));
            if tip.slot > self.forks.root().slot && !has_child() && is_elsewhere(tip) {
                accounts.extend(bank.locked_out(last, above, is_other));
            }
        }
        let newer = self.seen.iter().filter(|(_, id)| id.slot > last && self.banks.contains_key(id));
        accounts.extend(newer.filter(|(_, id)| is_elsewhere(id)).map(|(account, _)| account));
        let stakes = self.stakes.of(heaviest.slot);
        let stake = accounts.into_iter().map(|account| stakes.stake(account)).sum();
        let is_proved = exceeds(stake, stakes.total(), SWITCH_THRESHOLD) || active(Mutation::UnaskedSwitch);
        if is_proved { Switch::Proof } else { Switch::FailedThreshold }
    }

    /// Why a bank may not be voted for.
    fn refusal(&self, id: &BankId) -> Option<Refusal> {
        let bank = &self.banks[id];
        if self.tower.is_locked_out(id.slot, |slot| self.forks.on_chain(id, slot).is_some()) {
            return Some(Refusal::LockedOut);
        }
        if !self.passes_threshold(id.slot, bank) {
            return Some(Refusal::Threshold);
        }
        let is_propagated = bank.own.is_none_or(|own| own == *id || self.propagation.is_propagated(&own));
        (!is_propagated).then_some(Refusal::Propagation)
    }

    fn passes_threshold(&self, slot: u64, bank: &Bank) -> bool {
        let before = self.tower.lockouts();
        let mut after = before.clone();
        after.process(slot);
        let depth = VOTE_THRESHOLD_DEPTH + usize::from(active(Mutation::LateThreshold));
        let threshold = if active(Mutation::LowThreshold) { PROPAGATED_THRESHOLD } else { VOTE_THRESHOLD };
        let Some(vote) = after.at_depth(depth) else { return true };
        before.votes.contains(vote) || exceeds(bank.voted(vote.slot), bank.total(), threshold)
    }
}

#[cfg(test)]
mod tests;
