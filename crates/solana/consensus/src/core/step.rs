//! One step of consensus: votes, resets, roots, rebroadcasts, leads.
//!
//! reads   the current forks, the time, the ticks
//! writes  actions
//! source  `docs/cluster-protocol.md` sections 6.4, 6.5, 7.2 to 7.4

use hearth_wire::vote::Lockout;

use super::{Action, BankId, Clock, Consensus, SentVote};
use crate::leader::{CONSECUTIVE_SLOTS, LeaderStep, LeaderView, PohPosition, TICKS_PER_SLOT};
use crate::tower::LastVote;
use crate::types::TowerVote;

/// Minimum interval before a vote is sent again.
const REFRESH_MS: u64 = 5_000;
/// Number of banks after which the blockhash of a vote's transaction counts as old.
const REFRESH_BANKS: u64 = 16;

impl Consensus {
    /// The actions to carry out now, in order.
    pub fn step(&mut self, clock: Clock, view: &dyn LeaderView) -> Vec<Action> {
        let mut clock = clock;
        if self.awaited.is_some() {
            return std::mem::take(&mut self.actions);
        }
        if self.is_settling {
            self.settle();
        }
        if std::mem::take(&mut self.is_changed) {
            let decision = self.view().decide();
            self.refusal = decision.vote.err();
            let mut reset = decision.reset;
            let may_vote = |slot: u64| !self.is_settling && slot >= self.votes_from;
            if let Some((id, is_switch)) = decision.vote.ok().filter(|(id, _)| may_vote(id.slot)) {
                self.vote(id, is_switch, clock.now_ms);
                reset = Some(id);
            }
            // A node without its last vote's block has no fork of its own to stay on.
            reset = reset.or_else(|| self.reset.is_none().then(|| self.forks.heaviest()));
            self.finalize(reset);
            if let Some(id) = reset.filter(|id| self.reset != Some(*id)) {
                self.reset = Some(id);
                self.building = None;
                self.turns.reset(id.slot, view);
                self.actions.push(Action::Reset(id));
                clock.tick_height = (id.slot + 1) * TICKS_PER_SLOT;
            }
        }
        self.refresh(clock.now_ms);
        self.actions.extend(self.propagation.overdue(clock.now_ms).into_iter().map(Action::Rebroadcast));
        self.lead(clock.tick_height, view);
        std::mem::take(&mut self.actions)
    }

    fn vote(&mut self, id: BankId, is_switch: bool, now_ms: u64) {
        let block_id = self.banks[&id].block_id;
        let rooted = self.tower.vote(LastVote { id, block_id });
        let root = rooted.map(|slot| self.forks.on_chain(&id, slot).expect("votes in the tower are of one chain"));
        if let Some(root) = root {
            self.tower.set_root(root);
        }
        self.first_vote = self.first_vote.or(Some(id.slot));
        self.sent = Some(SentVote { blockhash_of: id, at_ms: now_ms, is_switch });
        if self.config.vote_account.is_some() {
            let timestamp = self.tower.timestamp(id.slot, (now_ms / 1_000) as i64);
            let vote = self.tower_vote(LastVote { id, block_id }, timestamp);
            self.actions.push(Action::Vote { vote, saved: self.tower.save(&self.config.node) });
        }
        if let Some(root) = root {
            self.set_root(root);
        }
    }

    /// Returns the last vote, which after a start tells the cluster how far this node is. At the start of a chain it is
    /// a vote for the genesis, which has no lockout. A node that has lost its tower has none.
    pub fn last_vote(&self) -> Option<TowerVote> {
        if let Some(last) = self.tower.last_vote() {
            return Some(self.tower_vote(last, None));
        }
        let id = self.root();
        let block_id = self.banks.get(&id)?.block_id;
        let votes = vec![Lockout { slot: id.slot, confirmation_count: 1 }];
        (id.slot == 0 && !self.config.waits_for_rooted_vote)
            .then(|| TowerVote { votes, ..self.tower_vote(LastVote { id, block_id }, None) })
    }

    /// The tower in the form of a vote.
    fn tower_vote(&self, last: LastVote, timestamp: Option<i64>) -> TowerVote {
        let lockouts = self.tower.lockouts();
        TowerVote {
            id: last.id,
            block_id: last.block_id,
            votes: lockouts.votes.clone(),
            root: lockouts.root,
            timestamp,
            is_switch: self.sent.is_some_and(|sent| sent.is_switch),
            blockhash_of: self.sent.map_or(last.id, |sent| sent.blockhash_of),
        }
    }

    /// Reports the slot that two thirds of the stake have rooted, according to the bank that is built on.
    fn finalize(&mut self, bank: Option<BankId>) {
        let root = self.tower.lockouts().root.filter(|root| *root <= self.forks.root().slot);
        let own = self.config.vote_account.as_ref().zip(root);
        let finalized = bank.and_then(|id| self.banks.get(&id)?.finalized(own));
        if let Some(slot) = finalized.filter(|slot| self.finalized.is_none_or(|last| last < *slot)) {
            self.finalized = Some(slot);
            self.actions.push(Action::Finalized(slot));
        }
    }

    /// Sends the last vote again if it did not land and its transaction is old.
    fn refresh(&mut self, now_ms: u64) {
        if self.is_settling {
            return;
        }
        let (Some(last), true) = (self.tower.last_vote(), self.config.vote_account.is_some()) else { return };
        let sent = self.sent.unwrap_or(SentVote { blockhash_of: last.id, at_ms: 0, is_switch: false });
        if now_ms.saturating_sub(sent.at_ms) < REFRESH_MS {
            return;
        }
        let view = self.view();
        let Some(tip) = view.tip_of_own_fork().filter(|tip| !view.has_landed(tip)) else { return };
        // A bank that no longer exists is below the root, and old.
        if self.forks.distance(&sent.blockhash_of, &tip).is_some_and(|banks| banks <= REFRESH_BANKS) {
            return;
        }
        self.sent = Some(SentVote { blockhash_of: tip, at_ms: now_ms, ..sent });
        let timestamp = self.tower.refreshed_timestamp();
        let vote = self.tower_vote(last, timestamp);
        self.actions.push(Action::Refresh(vote));
    }

    /// Whether a bank descends from the tower's root. If another program cast the votes, the root may be above all
    /// banks: until it is executed the node builds on nothing.
    fn has_own_root(&self, bank: &BankId) -> bool {
        let root = self.tower.lockouts().root.unwrap_or_default();
        root <= self.forks.root().slot || self.forks.on_chain(bank, root).is_some()
    }

    /// Starts an own slot whose time has come.
    fn lead(&mut self, tick_height: u64, view: &dyn LeaderView) {
        let (Some(parent), None, false) = (self.reset, self.building, view.is_busy()) else { return };
        let Some(bank) = self.banks.get(&parent) else { return };
        if !self.has_own_root(&parent) {
            return;
        }
        if std::mem::take(&mut self.is_retracted) {
            self.turns.reset(parent.slot, view);
        }
        let is_own_parent = bank.leader == self.config.node;
        let poh = PohPosition { parent: parent.slot, is_own_parent, tick_height };
        let LeaderStep::Now(slot) = self.turns.poll(poh, view) else { return };
        let is_made = self.duplicates.frozen_hash(slot).is_some() || self.duplicates.is_dead(slot);
        if is_made || slot - parent.slot > u64::from(u16::MAX) || !self.is_vote_rooted {
            return;
        }
        let own = bank.own.filter(|own| slot - own.slot >= CONSECUTIVE_SLOTS && !self.propagation.is_propagated(own));
        if let Some(own) = own {
            let turn = slot / CONSECUTIVE_SLOTS;
            if self.rebroadcast_in.replace(turn) != Some(turn) {
                self.actions.push(Action::Rebroadcast(own.slot));
            }
            return;
        }
        self.building = Some(slot);
        self.actions.push(Action::Begin { slot, parent });
    }
}
