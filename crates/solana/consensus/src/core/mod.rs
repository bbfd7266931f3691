//! Consensus of one node, all together.
//!
//! reads   banks frozen, votes seen, slots dead, proofs of duplicates; the time and the ticks of proof of history
//! writes  [`Action`]s
//! memory  the banks above the root, what [`super::tracker`] and [`super::duplicates`] keep of slots above it, and 32 B
//!         for each node with stake that has a slot which is not frozen here, of 4,096 slots
//! drops   what is refused is an error that the caller counts
//! source  `docs/cluster-protocol.md` sections 6 and 7
//!
//! What happened is told to the `on_` methods, in the order in which it happened; [`Consensus::step`] then says what to
//! do. It is called after every such call or batch of them, and at every tick.

mod inputs;
mod step;

pub use inputs::InputError;

use std::collections::{BTreeMap, BTreeSet};

use hearth_wire::{Hash, Pubkey};

use super::bank::Bank;
use super::decide::{Refusal, View};
use super::duplicates::{Duplicates, Order};
use super::forks::Forks;
use super::leader::Turns;
use super::propagation::Propagation;
use super::stakes::Stakes;
use super::tower::{AlignError, Tower};
use super::tracker::Tracker;
use super::types::{Action, BankId, FrozenBank};

/// Who the node is.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its identity.
    pub node: Pubkey,
    /// The account that it votes with; a node without one decides all the same, so that it roots, and sends nothing.
    pub vote_account: Option<Pubkey>,
    /// Whether to lead only once a vote made since the start is rooted. A new cluster's nodes cannot wait for that.
    pub waits_for_rooted_vote: bool,
}

/// The bank to start from.
#[derive(Clone, Debug)]
pub struct Start {
    /// It, with all vote accounts; its parent is not looked at.
    pub bank: FrozenBank,
    /// The slots of its ancestors as far as they are known, from the sysvar that lists them.
    pub ancestors: Vec<u64>,
}

/// Why a node cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The tower does not fit the bank.
    #[error(transparent)]
    Align(#[from] AlignError),
}

/// The time, as the caller has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Unix time in milliseconds.
    pub now_ms: u64,
    /// Ticks of proof of history since genesis, by the last [`Action::Reset`].
    pub tick_height: u64,
}

/// The last vote's transaction.
#[derive(Clone, Copy, Debug)]
struct Sent {
    blockhash_of: BankId,
    at_ms: u64,
    is_switch: bool,
}

/// Consensus of one node.
#[derive(Clone, Debug)]
pub struct Consensus {
    config: Config,
    forks: Forks,
    banks: BTreeMap<BankId, Bank>,
    tower: Tower,
    stakes: Stakes,
    tracker: Tracker,
    /// The newest vote of each account that was seen, for a frozen bank.
    seen: BTreeMap<Pubkey, BankId>,
    duplicates: Duplicates,
    /// Who tells to have a slot that is not frozen here.
    elsewhere: BTreeMap<u64, BTreeSet<Pubkey>>,
    propagation: Propagation,
    turns: Turns,
    /// The tower's root, while the node executes its way there.
    awaited: Option<BankId>,
    /// Told as confirmed, above the root.
    confirmed: BTreeSet<BankId>,
    finalized: Option<u64>,
    reset: Option<BankId>,
    building: Option<u64>,
    /// An own slot was taken back: the turn that it is of is looked for again.
    is_retracted: bool,
    sent: Option<Sent>,
    first_vote: Option<u64>,
    is_vote_rooted: bool,
    rebroadcast_in: Option<u64>,
    refusal: Option<Refusal>,
    is_changed: bool,
    actions: Vec<Action>,
}

impl Consensus {
    /// A node that starts from a bank, with the tower that it saved, if it has one.
    ///
    /// # Errors
    /// The tower's root is not among the bank's ancestors.
    pub fn new(config: Config, start: Start, stakes: Stakes, tower: Option<Tower>) -> Result<Self, StartError> {
        let root = start.bank.id;
        let mut tower = tower.unwrap_or_else(|| Tower::new(root));
        tower.align(root, &start.ancestors)?;
        let awaited = tower.root().filter(|own| own.slot > root.slot);
        let FrozenBank { block_id, leader, votes, .. } = start.bank;
        let bank = Bank::new(root.slot, (block_id, leader), None, votes, |slot| slot == root.slot);
        let mut duplicates = Duplicates::default();
        duplicates.frozen(root);
        if let Some(awaited) = awaited {
            duplicates.confirmed(awaited);
        }
        Ok(Self {
            turns: Turns::new(config.node),
            is_vote_rooted: !config.waits_for_rooted_vote,
            config,
            forks: Forks::new(root),
            banks: [(root, bank)].into(),
            tower,
            stakes,
            tracker: Tracker::new(root.slot),
            seen: BTreeMap::new(),
            duplicates,
            elsewhere: BTreeMap::new(),
            propagation: Propagation::default(),
            awaited,
            confirmed: BTreeSet::new(),
            finalized: None,
            reset: None,
            building: None,
            is_retracted: false,
            sent: None,
            first_vote: None,
            rebroadcast_in: None,
            refusal: None,
            is_changed: true,
            actions: Vec::new(),
        })
    }

    /// The root.
    pub fn root(&self) -> BankId {
        self.forks.root()
    }

    /// The tower.
    pub fn tower(&self) -> &Tower {
        &self.tower
    }

    /// The forks above the root.
    pub fn forks(&self) -> &Forks {
        &self.forks
    }

    /// The bank that is built on.
    pub fn reset_bank(&self) -> Option<BankId> {
        self.reset
    }

    /// Why the last decision was no vote.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// The version of a slot above the root that the cluster is known to have agreed on: a request for ancestors of it
    /// is answered. One for a rooted slot is answered from the roots that the store knows.
    pub fn duplicate_confirmed(&self, slot: u64) -> Option<Hash> {
        self.duplicates.confirmed_hash(slot)
    }

    /// Banks that are kept: the root and those above it.
    pub fn banks_len(&self) -> usize {
        self.forks.len()
    }

    fn view(&self) -> View<'_> {
        View {
            forks: &self.forks,
            banks: &self.banks,
            tower: &self.tower,
            stakes: &self.stakes,
            seen: &self.seen,
            propagation: &self.propagation,
            vote_account: self.config.vote_account.as_ref(),
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            None => {}
            Some(Order::Valid(id)) => {
                for ancestor in self.forks.mark_confirmed(&id) {
                    if ancestor.slot > self.forks.root().slot {
                        self.duplicates.confirmed(ancestor);
                    }
                }
            }
            Some(Order::Doubtful(id)) => self.forks.mark_invalid(&id),
            Some(Order::Wrong(ours)) => self.dump(ours.slot, Some(ours)),
            Some(Order::Dead(slot)) => self.actions.push(Action::AskAncestors(slot)),
        }
        self.is_changed = true;
    }

    /// Drops the node's version of a slot, what is built on it, and what is dead above it.
    fn dump(&mut self, slot: u64, ours: Option<BankId>) {
        if let Some(ours) = ours {
            self.forks.mark_invalid(&ours);
            for id in self.forks.subtree(&ours) {
                if self.banks.remove(&id).is_some() {
                    self.duplicates.dropped(id.slot);
                }
                self.reset = self.reset.filter(|reset| *reset != id);
            }
        }
        let dead: Vec<u64> = self.duplicates.dead_from(slot).collect();
        dead.into_iter().for_each(|slot| self.duplicates.dropped(slot));
        self.actions.push(Action::Dump(slot));
    }

    /// Makes a bank the root, and forgets what does not descend from it.
    fn set_root(&mut self, root: BankId) {
        let before = self.forks.root();
        let mut rooted: Vec<BankId> = self.forks.chain(&root).take_while(|id| *id != before).collect();
        rooted.reverse();
        self.forks.set_root(root);
        self.tower.set_root(root);
        self.banks.retain(|id, _| self.forks.contains(id));
        self.tracker.set_root(root.slot);
        self.seen.retain(|_, id| self.forks.contains(id));
        self.duplicates.set_root(root.slot);
        self.elsewhere = self.elsewhere.split_off(&root.slot);
        self.propagation.retain(|id| *id != root && self.forks.contains(id));
        self.confirmed.retain(|id| id.slot > root.slot);
        self.stakes.set_root(root.slot);
        self.reset = self.reset.filter(|reset| self.forks.contains(reset));
        let own = self.config.vote_account.and_then(|account| self.banks[&root].account(&account)?.last_vote());
        self.is_vote_rooted |= self.first_vote.is_some_and(|first| own.is_some_and(|own| own >= first));
        self.actions.push(Action::Root(rooted));
        self.is_changed = true;
    }
}

#[cfg(test)]
mod tests;
