//! Another identity for a node that runs.
//!
//! reads   the new identity, and its tower if it has one
//! writes  the tower, the turns
//! source  `solana-core` 4.2.2, `replay_stage.rs`: what follows a change of `cluster_info.id()`

use hearth_wire::Pubkey;

use super::{BankId, Consensus, StartError};
use crate::leader::Turns;
use crate::propagation::Propagation;
use crate::tower::Tower;

/// The identity that a node takes.
#[derive(Clone, Debug)]
pub struct NewIdentity {
    /// The public key that the node has from then on.
    pub node: Pubkey,
    /// The account that it votes with, if it votes.
    pub vote_account: Option<Pubkey>,
    /// Its tower. Without one it takes the votes of its account.
    pub tower: Option<Tower>,
    /// Whether to lead only once a vote made from now on is rooted.
    pub waits_for_rooted_vote: bool,
}

impl Consensus {
    /// Returns the tower as it binds on this node's chain.
    ///
    /// # Errors
    ///
    /// Its root is on another chain, or older than what is known of this one.
    pub fn aligned(&self, mut tower: Tower) -> Result<Tower, StartError> {
        let ancestors: Vec<u64> = self.rooted.iter().copied().collect();
        tower.align(self.root(), &ancestors)?;
        Ok(tower)
    }

    /// Takes another identity. No own block may be in progress.
    ///
    /// A tower that reaches the newest known vote of its account counts at once. Otherwise the node takes the votes of
    /// the account, and casts none until these are old: see [`Self::settle_first`].
    ///
    /// # Errors
    ///
    /// The tower does not fit the chain; then nothing has changed.
    pub fn set_identity(&mut self, new: NewIdentity) -> Result<(), StartError> {
        let NewIdentity { node, vote_account, tower, waits_for_rooted_vote } = new;
        let root = self.root();
        // Before it is aligned: votes that are rooted by then count, too.
        let known = tower.as_ref().map(|tower| tower.newest_slot().unwrap_or(0));
        let tower = tower.map_or_else(|| Ok(Tower::new(root)), |tower| self.aligned(tower))?;
        self.config.node = node;
        self.config.vote_account = vote_account;
        self.config.waits_for_rooted_vote = waits_for_rooted_vote;
        self.turns = Turns::new(node);
        // Its turn must be searched.
        self.is_retracted = true;
        self.is_vote_rooted = !waits_for_rooted_vote;
        self.first_vote = None;
        self.sent = None;
        self.building = None;
        self.rebroadcast_in = None;
        self.refusal = None;
        // What the old identity made is no block of the new one's, for which it would have to wait.
        self.propagation = Propagation::default();
        self.banks.values_mut().for_each(|bank| bank.own = None);
        self.await_root(tower.root().filter(|own| own.slot > root.slot), tower);
        self.is_settling = false;
        self.votes_from = 0;
        let newest = self.newest_of_account();
        if vote_account.is_some() && known.is_none_or(|known| newest.is_some_and(|newest| known < newest)) {
            self.settle_first();
        }
        self.is_changed = true;
        Ok(())
    }

    /// Sets the tower. If its root is above this node's, the node goes there, or waits for that block.
    fn await_root(&mut self, awaited: Option<BankId>, tower: Tower) {
        self.tower = tower;
        self.awaited = awaited.filter(|id| !self.banks.contains_key(id));
        match (awaited, self.awaited) {
            (Some(_), Some(missing)) => {
                let order = self.duplicates.confirmed(missing);
                self.obey(order);
            }
            (Some(here), None) => self.set_root(here),
            (None, _) => {}
        }
    }
}
