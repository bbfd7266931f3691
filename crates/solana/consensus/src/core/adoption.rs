//! Adoption of our own account's votes from a bank, where the tower lacks some of them: another process has voted for
//! this node, or the tower is a copy from before its last votes.
//!
//! reads   the account's votes in each frozen bank
//! writes  the tower
//! source  `solana-core` 4.2.2, `replay_stage.rs`, `adopt_on_chain_tower_if_behind`; `consensus.rs`,
//!         `initialize_lockouts_from_bank`
//!
//! Agave adopts an account's votes if the newest of them is newer than the tower's. A node that runs twice for a moment
//! may end with a newer vote than its account, and lack older ones anyway: the vote program refuses each of its
//! votes from then on. So here the tower's newer votes are cast again on top of the account's. Agave adopts without
//! conditions; here nothing is adopted while a vote of the tower forbids more than the votes that would replace it, and
//! no slot is voted for that lies before the bank of an adoption: votes of the tower that ended there may forbid it.

use super::{BankId, Consensus};
use crate::tower::{LastVote, Lockouts};

/// How many slots after the account's newest vote a node begins to vote that does not know all votes of its identity.
/// A vote that was sent and has not landed by then binds on, but not with four others on top of it.
pub const SETTLED_SLOTS: u64 = 32;

/// The tower has taken votes from the node's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The bank that has the votes.
    pub bank: BankId,
    /// The newest vote of the account there.
    pub landed: u64,
    /// The newest slot of the tower before: that of its last vote, or its root.
    pub newest: Option<u64>,
}

/// A tower after an adoption.
struct Adopted {
    lockouts: Lockouts,
    root: Option<BankId>,
    last: LastVote,
}

impl Consensus {
    /// Returns the last adoption since this was last called.
    pub fn take_adoption(&mut self) -> Option<Adoption> {
        self.adoption.take()
    }

    /// For a node that may lack votes of its identity: takes the votes of its account, and casts none until the newest
    /// is [`SETTLED_SLOTS`] older than the heaviest fork's tip. One that was heard and has not landed counts, too.
    /// While another process votes with the account that never happens.
    pub fn settle_first(&mut self) {
        self.is_settling = true;
        // The newest votes may be on another fork than the heaviest. A root that is adopted removes banks.
        let banks: Vec<BankId> = self.banks.keys().copied().collect();
        banks.into_iter().for_each(|id| self.adopt(id));
    }

    /// Lets the node lead only once a vote made from now on is rooted: blocks that its identity made elsewhere may not
    /// be here.
    pub fn lead_after_a_rooted_vote(&mut self) {
        self.is_vote_rooted = false;
        self.first_vote = None;
    }

    /// Whether the node casts no vote yet: see [`Self::settle_first`].
    pub fn is_settling(&self) -> bool {
        self.is_settling
    }

    /// Lets the node vote once its account's votes are old enough.
    pub(super) fn settle(&mut self) {
        let tip = self.forks.heaviest().slot;
        if self.newest_of_account().is_none_or(|newest| tip >= newest.saturating_add(SETTLED_SLOTS)) {
            self.is_settling = false;
            self.is_changed = true;
        }
    }

    /// The newest slot that the account is known to have voted for or rooted, on any fork, landed or only heard.
    pub(super) fn newest_of_account(&self) -> Option<u64> {
        let key = self.config.vote_account.as_ref()?;
        let landed = self.banks.values().filter_map(|bank| bank.account(key));
        let landed = landed.filter_map(|account| account.last_vote().max(account.root)).max();
        landed.max(self.tracker.newest(key))
    }

    /// Adopts our own account's votes from a bank if the tower lacks some of them, and in any case the account's last
    /// timestamp.
    pub(super) fn adopt(&mut self, id: BankId) {
        let Some(account) = self.config.vote_account.and_then(|key| self.banks.get(&id)?.account(&key)) else { return };
        let (slot, unix_s) = account.last_timestamp;
        self.tower.adopt_timestamp(slot, unix_s);
        let newest = self.tower.newest_slot();
        let Some(landed) = account.last_vote() else { return };
        let is_newer = newest.is_none_or(|newest| landed > newest);
        if !is_newer && self.tower.lockouts().extends(&account.votes, account.root) {
            return;
        }
        let votes = Lockouts { votes: account.votes.clone(), root: account.root };
        let Some(adopted) = self.adopted(id, votes, landed, is_newer) else { return };
        let Adopted { lockouts, root, last } = adopted;
        self.tower.adopt(&lockouts.votes, root, last);
        self.adoption = Some(Adoption { bank: id, landed, newest });
        self.votes_from = self.votes_from.max(id.slot);
        self.is_changed = true;
        if let Some(root) = root.filter(|root| root.slot > self.root().slot) {
            self.set_root(root);
        }
    }

    /// The account's votes in a bank with the tower's newer ones on top. `None` if the tower's last vote is for another
    /// fork, if a vote of the tower forbids what these do not, or if a block is no longer here.
    fn adopted(&self, id: BankId, votes: Lockouts, landed: u64, is_newer: bool) -> Option<Adopted> {
        let own = self.tower.lockouts();
        let is_on_chain = |slot: u64| self.forks.on_chain(&id, slot).is_some();
        let last = if is_newer {
            let voted = self.forks.on_chain(&id, landed)?;
            LastVote { id: voted, block_id: self.banks.get(&voted)?.block_id }
        } else {
            self.tower.last_vote().filter(|last| self.forks.on_chain(&id, last.id.slot) == Some(last.id))?
        };
        // An older root than the tower's stays out: a fork that descends from it may leave out the tower's.
        let mut lockouts = Lockouts { root: votes.root.max(own.root), votes: votes.votes };
        for vote in own.votes.iter().filter(|vote| vote.slot > landed) {
            lockouts.process(vote.slot);
        }
        if !lockouts.keep(own, id.slot, is_on_chain) {
            return None;
        }
        let newer_root = lockouts.root.filter(|root| own.root.is_none_or(|own| own < *root));
        let root = newer_root.and_then(|root| self.forks.on_chain(&id, root));
        Some(Adopted { lockouts, root, last })
    }
}
