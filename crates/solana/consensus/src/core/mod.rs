//! Consensus of one node, combining all parts.
//!
//! reads   frozen banks, votes, dead slots, duplicate proofs; the time and the ticks of proof of history
//! writes  [`Action`]s
//! memory  the banks above the root, what [`super::tracker`] and [`super::duplicates`] keep of slots above it, and 32 B
//!         for each node with stake that claims a slot which is not frozen here, of 4,096 slots
//! drops   refused input is an error that the caller counts
//! source  `docs/cluster-protocol.md` sections 6 and 7
//!
//! Events are passed to the `on_` methods in the order in which they happened; [`Consensus::step`] then returns the
//! actions. It is called after every event or batch of them, and at every tick.

mod adoption;
mod identity;
mod inputs;
mod step;

pub use adoption::{Adoption, SETTLED_SLOTS};
pub use identity::NewIdentity;
pub use inputs::InputError;

use std::collections::{BTreeMap, BTreeSet};

use hearth_wire::{Hash, Pubkey};

use super::bank::Bank;
use super::decide::{Refusal, View};
use super::duplicates::{DuplicateAction, Duplicates};
use super::forks::Forks;
use super::leader::Turns;
use super::propagation::Propagation;
use super::stakes::Stakes;
use super::tower::{AlignError, Tower};
use super::tracker::Tracker;
use super::types::{Action, BankId, FrozenBank};

/// The node's identity and role.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its identity key, by which the leader schedule names it.
    pub node: Pubkey,
    /// Its vote account. A node without one still decides, so that it roots, but sends no votes.
    pub vote_account: Option<Pubkey>,
    /// Whether to lead only once a vote made since startup is rooted. Nodes of a new cluster cannot wait for that.
    pub waits_for_rooted_vote: bool,
}

/// The bank from which consensus starts, and its ancestry.
#[derive(Clone, Debug)]
pub struct Start {
    /// The bank with all its vote accounts; its parent is ignored.
    pub bank: FrozenBank,
    /// The slots of its known ancestors, from the slot hashes sysvar.
    pub ancestors: Vec<u64>,
}

/// Why a node cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The tower does not fit the bank.
    #[error(transparent)]
    Align(#[from] AlignError),
}

/// The current time, as given by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Unix time in milliseconds.
    pub now_ms: u64,
    /// Ticks of proof of history since genesis, counted from the last [`Action::Reset`].
    pub tick_height: u64,
}

/// The last vote's transaction.
#[derive(Clone, Copy, Debug)]
struct SentVote {
    blockhash_of: BankId,
    at_ms: u64,
    is_switch: bool,
}

/// The consensus state of one node.
#[derive(Clone, Debug)]
pub struct Consensus {
    config: Config,
    forks: Forks,
    banks: BTreeMap<BankId, Bank>,
    tower: Tower,
    stakes: Stakes,
    tracker: Tracker,
    /// Each account's newest vote seen for a frozen bank.
    seen: BTreeMap<Pubkey, BankId>,
    duplicates: Duplicates,
    /// The nodes that claim a slot which is not frozen here.
    elsewhere: BTreeMap<u64, BTreeSet<Pubkey>>,
    propagation: Propagation,
    turns: Turns,
    /// The tower's root, while the node replays up to it.
    awaited: Option<BankId>,
    /// Reported as confirmed, above the root.
    confirmed: BTreeSet<BankId>,
    finalized: Option<u64>,
    reset: Option<BankId>,
    building: Option<u64>,
    /// An own slot was retracted: its turn must be searched again.
    is_retracted: bool,
    sent: Option<SentVote>,
    first_vote: Option<u64>,
    is_vote_rooted: bool,
    rebroadcast_in: Option<u64>,
    refusal: Option<Refusal>,
    is_changed: bool,
    /// The last adoption that the caller has not taken.
    adoption: Option<Adoption>,
    /// No vote is cast until those of the account are old enough.
    is_settling: bool,
    /// No vote is cast for a slot before this one: that of the last adoption's bank.
    votes_from: u64,
    /// The newest rooted slots, that of the root included, for the tower of another identity.
    rooted: BTreeSet<u64>,
    actions: Vec<Action>,
}

/// Rooted slots that are remembered, 27 minutes of them: a tower whose root is older is no measure of what binds.
pub(crate) const MAX_ROOTED: usize = 4_096;

impl Consensus {
    /// A node that starts from a bank, with its saved tower, if any.
    ///
    /// # Errors
    ///
    /// The tower's root is not among the bank's ancestors.
    pub fn new(config: Config, start: Start, stakes: Stakes, tower: Option<Tower>) -> Result<Self, StartError> {
        let root = start.bank.id;
        let mut tower = tower.unwrap_or_else(|| Tower::new(root));
        tower.align(root, &start.ancestors)?;
        let awaited = tower.root().filter(|own| own.slot > root.slot);
        let mut rooted: BTreeSet<u64> = start.ancestors.into_iter().chain([root.slot]).collect();
        trim(&mut rooted);
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
            adoption: None,
            is_settling: false,
            votes_from: 0,
            rooted,
            actions: Vec::new(),
        })
    }

    /// The newest rooted bank.
    pub fn root(&self) -> BankId {
        self.forks.root()
    }

    /// This node's tower: its binding votes, its root and its last vote.
    pub fn tower(&self) -> &Tower {
        &self.tower
    }

    /// The forks above the root.
    pub fn forks(&self) -> &Forks {
        &self.forks
    }

    /// The bank that is currently built on.
    pub fn reset_bank(&self) -> Option<BankId> {
        self.reset
    }

    /// Why the last decision was not a vote.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// The version of a slot above the root on which the cluster is known to agree, for answering requests for its
    /// ancestors. Requests for rooted slots are answered from the store's roots.
    pub fn duplicate_confirmed(&self, slot: u64) -> Option<Hash> {
        self.duplicates.confirmed_hash(slot)
    }

    /// Number of banks: the root and those above it.
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

    fn obey(&mut self, order: Option<DuplicateAction>) {
        match order {
            None => {}
            Some(DuplicateAction::Valid(id)) => {
                for ancestor in self.forks.mark_confirmed(&id) {
                    if ancestor.slot > self.forks.root().slot {
                        self.duplicates.confirmed(ancestor);
                    }
                }
            }
            Some(DuplicateAction::Doubtful(id)) => self.forks.mark_invalid(&id),
            Some(DuplicateAction::Wrong(ours)) => self.dump(ours.slot, Some(ours)),
            Some(DuplicateAction::Dead(slot)) => self.actions.push(Action::AskAncestors(slot)),
        }
        self.is_changed = true;
    }

    /// Dumps our version of a slot, its descendants, and dead slots above it.
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

    /// Makes a bank the root, and drops what does not descend from it.
    fn set_root(&mut self, root: BankId) {
        let before = self.forks.root();
        let mut rooted: Vec<BankId> = self.forks.chain(&root).take_while(|id| *id != before).collect();
        rooted.reverse();
        self.rooted.extend(rooted.iter().map(|id| id.slot));
        trim(&mut self.rooted);
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

/// Forgets the oldest rooted slots beyond [`MAX_ROOTED`].
fn trim(rooted: &mut BTreeSet<u64>) {
    while rooted.len() > MAX_ROOTED {
        rooted.pop_first();
    }
}

#[cfg(test)]
mod tests;
