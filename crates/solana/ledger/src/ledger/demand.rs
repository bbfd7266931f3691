//! Slots on demand: the state that a transaction would see in the next slot, and whether an epoch boundary is in
//! progress.
//!
//! reads   the last block, the epochs
//! writes  banks to simulate on
//! memory  the sysvars of the next slot, 21 KB for each bank to simulate on

use std::sync::Arc;

use super::Ledger;
use crate::bank::Bank;
use crate::sysvars;

impl Ledger {
    /// A bank to simulate on: the one in progress. If there is none, as between slots on demand, a bank with the number
    /// of the next slot, the accounts at the end of the last block, and the slot hashes and clock of that slot; nothing
    /// lands on it.
    pub fn open_bank(&self) -> Arc<Bank> {
        // No slot begins while this is held.
        let chain = self.chain();
        if let Some(bank) = &chain.working {
            return Arc::clone(bank);
        }
        let (parent, slot) = (chain.last().slot, chain.last().slot + 1);
        self.shared.hashing.complete(&self.shared.accounts);
        let (hashed, hash) = self.shared.hashing.newest();
        assert_eq!(hashed, parent, "all that has ended is hashed");
        let ahead = sysvars::ahead(&self.shared.accounts, &self.epoch_schedule, slot, (parent, &hash));
        let stakes = chain.epochs.active_stakes(slot).cloned();
        let (blockhashes, features) = (Arc::clone(&chain.blockhashes), Arc::clone(&chain.features));
        let bank = Bank::new(Arc::clone(&self.shared), slot, parent, blockhashes, features, stakes);
        Arc::new(bank.standing(ahead))
    }

    /// The slot in which a transaction would land now: the one in progress, or else the next.
    pub fn open_slot(&self) -> u64 {
        let chain = self.chain();
        chain.working.as_ref().map_or(chain.last().slot + 1, |bank| bank.slot())
    }

    /// Whether an epoch boundary is in progress: the epoch's last block has ended, or its rewards are being
    /// distributed. As everywhere, changes of stakes are refused until the next block after that.
    pub fn is_epoch_turning(&self) -> bool {
        let chain = self.chain();
        let last = chain.last().slot;
        let begins = chain.working.is_none() && self.epoch_schedule.epoch(last) != self.epoch_schedule.epoch(last + 1);
        begins || chain.epochs.are_rewards_due()
    }
}
