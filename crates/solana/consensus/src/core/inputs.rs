//! The events that consensus receives: banks, votes, dead slots, duplicates.
//!
//! reads   the events of replay, gossip and repair
//! writes  the forks, the counts of votes, confirmations
//! memory  that of the parts
//! drops   invalid input: an error that the caller counts
//! source  `docs/cluster-protocol.md` sections 6.2, 6.3, 6.6, 6.7, 7.4

use std::collections::BTreeSet;
use std::sync::Arc;

use hearth_wire::Pubkey;

use super::{Action, Bank, BankId, Consensus, FrozenBank, Refusal};
use crate::stakes::VoteWeights;
use crate::tracker::VoteError;
use crate::{DUPLICATE_THRESHOLD, MAX_ELSEWHERE, MAX_SLOTS_AHEAD, exceeds};

/// Why an event is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The slot is not above the root.
    #[error("the slot is not above the root")]
    Old,
    /// The slot is more than 50,000 above the root.
    #[error("the slot is far above the root")]
    Far,
    /// The parent is not frozen here, or was dropped.
    #[error("the parent is not known")]
    UnknownParent,
    /// The slot is not above its parent's.
    #[error("the slot is not above the parent's")]
    Order,
    /// The slot already has a frozen bank: this one, or another version that was not dumped.
    #[error("the slot has a frozen bank")]
    Known,
}

impl Consensus {
    /// A block was fully executed. Parents must come before their children.
    ///
    /// # Errors
    ///
    /// It is not above the root, its parent is unknown, or its slot already has a bank.
    pub fn on_frozen(&mut self, frozen: FrozenBank, now_ms: u64) -> Result<(), InputError> {
        let FrozenBank { id, parent, block_id, leader, votes } = frozen;
        if id.slot <= self.root().slot {
            return Err(InputError::Old);
        }
        if self.duplicates.frozen_hash(id.slot).is_some() {
            return Err(InputError::Known);
        }
        let above = self.banks.get(&parent).ok_or(InputError::UnknownParent)?;
        if id.slot <= parent.slot {
            return Err(InputError::Order);
        }
        // A version that was dumped and executed again is still in the tree, with its marks.
        if !self.forks.contains(&id) {
            self.forks.add(id, parent).map_err(|_| InputError::UnknownParent)?;
        }
        let ancestors: BTreeSet<u64> = self.forks.chain(&parent).map(|id| id.slot).collect();
        let landed: Vec<(Pubkey, u64)> = votes.iter().filter_map(|one| Some((one.key, one.last_vote()?))).collect();
        let mut bank = Bank::new(id.slot, (block_id, leader), Some(above), votes, |slot| ancestors.contains(&slot));
        let own_before = above.own.filter(|own| own.slot > self.forks.root().slot);
        bank.own = own_before;
        if leader == self.config.node {
            bank.own = Some(id);
            let stakes = Arc::clone(self.stakes.of(id.slot));
            self.propagation.add(id, own_before, &leader, stakes, now_ms);
            self.building = self.building.filter(|slot| *slot != id.slot);
        }
        self.propagation.seen_by_node(own_before, &leader);
        self.banks.insert(id, bank);
        self.elsewhere.remove(&id.slot);
        self.is_changed = true;
        self.frozen_is_known(id, &landed);
        Ok(())
    }

    fn frozen_is_known(&mut self, id: BankId, landed: &[(Pubkey, u64)]) {
        let order = self.duplicates.frozen(id);
        self.obey(order);
        let with_stake = |(account, slot): &(Pubkey, u64)| {
            let voted = self.forks.on_chain(&id, *slot)?;
            Some((*account, voted, self.stakes.of(voted.slot).stake(account)))
        };
        let landed: Vec<(Pubkey, BankId, u64)> = landed.iter().filter_map(with_stake).collect();
        self.forks.vote(landed.iter().copied());
        for (account, voted, _) in &landed {
            // A known vote has been counted, with all its consequences.
            let _known = self.on_vote(account, *voted);
        }
        let voters: Vec<Pubkey> = self.tracker.voters(&id).copied().collect();
        voters.iter().for_each(|account| self.voter_is_seen(account, id));
        let backed = self.banks.get(&id).and_then(|bank| bank.newest_voted(DUPLICATE_THRESHOLD));
        if let Some(backed) = backed.and_then(|slot| self.forks.on_chain(&id, slot)) {
            self.agree(backed);
        }
        if self.tracker.reached(&id).is_confirmed {
            self.confirm(id);
        }
        if self.awaited == Some(id) {
            self.awaited = None;
            self.set_root(id);
        }
        self.adopt(id);
    }

    /// A vote was seen in gossip, on its way to a leader, or in a block: its newest slot with its hash. Its signatures
    /// must have been verified, one of them by the account's authorized voter. Votes in [`FrozenBank::votes`] need not
    /// be passed again.
    ///
    /// # Errors
    ///
    /// The vote does not count.
    pub fn on_vote(&mut self, account: &Pubkey, id: BankId) -> Result<(), VoteError> {
        let stakes = self.stakes.of(id.slot);
        let reached = self.tracker.vote(account, id, stakes.stake(account), stakes.total())?;
        self.voter_is_seen(account, id);
        if reached.is_duplicate_confirmed {
            self.agree(id);
        }
        if reached.is_confirmed {
            self.confirm(id);
        }
        Ok(())
    }

    /// The effects of a vote besides its count, once its block is frozen here.
    fn voter_is_seen(&mut self, account: &Pubkey, id: BankId) {
        let Some(bank) = self.banks.get(&id) else { return };
        self.propagation.seen(bank.own, account);
        if self.seen.get(account).is_none_or(|last| last.slot < id.slot) {
            self.seen.insert(*account, id);
        }
        self.is_changed |= matches!(self.refusal, Some(Refusal::Switch(_) | Refusal::Propagation));
    }

    /// More than 52 % voted for a version of a slot, or for a descendant.
    fn agree(&mut self, id: BankId) {
        if id.slot > self.root().slot {
            let order = self.duplicates.confirmed(id);
            self.obey(order);
        }
    }

    fn confirm(&mut self, id: BankId) {
        if !self.banks.contains_key(&id) {
            return; // Consensus learns of it when it is frozen.
        }
        let root = self.forks.root();
        let newly = self.forks.chain(&id).take_while(|id| *id != root && !self.confirmed.contains(id));
        let newly: Vec<BankId> = newly.collect();
        for id in newly.into_iter().rev() {
            self.confirmed.insert(id);
            self.actions.push(Action::Confirmed(id));
        }
    }

    /// A block is dead.
    ///
    /// # Errors
    ///
    /// It is not above the root, or its slot has a frozen bank.
    pub fn on_dead(&mut self, slot: u64) -> Result<(), InputError> {
        if slot <= self.root().slot {
            return Err(InputError::Old);
        }
        if self.duplicates.frozen_hash(slot).is_some() {
            return Err(InputError::Known);
        }
        self.building = self.building.filter(|building| *building != slot);
        let order = self.duplicates.dead(slot);
        self.obey(order);
        Ok(())
    }

    /// A slot that was to start did not, and may start later: the bank to build on changed before.
    pub fn on_retracted(&mut self, slot: u64) {
        self.building = self.building.filter(|building| *building != slot);
        self.is_retracted = true;
    }

    /// A verified proof shows two versions of a slot.
    ///
    /// # Errors
    ///
    /// It is not above the root, or far above it.
    pub fn on_duplicate(&mut self, slot: u64) -> Result<(), InputError> {
        if slot <= self.root().slot {
            return Err(InputError::Old);
        }
        if slot > self.root().slot.saturating_add(MAX_SLOTS_AHEAD) {
            return Err(InputError::Far);
        }
        let order = self.duplicates.duplicate(slot);
        self.obey(order);
        Ok(())
    }

    /// The answer to [`Action::AskAncestors`] on which enough nodes agree: the block and its ancestors, in any order.
    /// All of them are the cluster's; differing versions here are dumped, from the oldest on.
    pub fn on_ancestors(&mut self, chain: &[BankId]) {
        let root = self.root().slot;
        let mut chain: Vec<BankId> = chain.iter().copied().filter(|id| id.slot > root).collect();
        chain.sort_unstable();
        let is_other = |id: &&BankId| self.duplicates.frozen_hash(id.slot).is_some_and(|ours| ours != id.hash);
        let dead = chain.iter().find(|id| self.duplicates.is_dead(id.slot)).copied();
        let has_other = chain.iter().any(|id| is_other(&id));
        for id in &chain {
            self.agree(*id);
        }
        // If all its ancestors are the cluster's, the dead block itself is another version.
        if let Some(dead) = dead.filter(|_| !has_other) {
            self.dump(dead.slot, None);
        }
    }

    /// A node claims in gossip to have frozen or rooted a slot's block. Must be repeated for slots from a dumped one
    /// on. Anyone can claim anything, so irrelevant claims are rejected by two comparisons and a lookup of the node.
    pub fn on_has_slot(&mut self, node: &Pubkey, slot: u64) {
        let root = self.forks.root().slot;
        let is_near = slot > root && slot - root <= MAX_ELSEWHERE;
        if !is_near || self.stakes.of(slot).votes_of(node).is_empty() {
            return;
        }
        let Some(hash) = self.duplicates.frozen_hash(slot) else { return self.has_elsewhere(node, slot) };
        let own = self.banks.get(&BankId { slot, hash }).and_then(|bank| bank.own);
        self.is_changed |= self.propagation.seen_by_node(own, node);
    }

    fn has_elsewhere(&mut self, node: &Pubkey, slot: u64) {
        let stakes = self.stakes.of(slot);
        let nodes = self.elsewhere.entry(slot).or_default();
        if nodes.insert(*node) {
            let votes = nodes.iter().flat_map(|node| stakes.votes_of(node));
            let stake = votes.map(|vote| stakes.stake(vote)).sum();
            if exceeds(stake, stakes.total(), DUPLICATE_THRESHOLD) {
                let order = self.duplicates.elsewhere(slot);
                self.obey(order);
            }
        }
    }

    /// The stakes of the epoch that begins at a slot are known.
    pub fn on_epoch(&mut self, first_slot: u64, stakes: Arc<VoteWeights>) {
        self.stakes.insert(first_slot, stakes);
    }
}
