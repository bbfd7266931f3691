//! Slots that come when somebody needs one: what a transaction meets in the slot to come, and whether an epoch turns.
//!
//! reads   the last block, the epochs
//! writes  banks to simulate on
//! memory  the sysvars of a slot to come, 21 KB for each bank to simulate on
//! drops   nothing

use std::sync::Arc;

use super::Ledger;
use crate::bank::Bank;
use crate::sysvars;

impl Ledger {
    /// A bank to simulate on: the one in the making. Where there is none, as between slots that come on demand, it has
    /// the number of the slot to come, the accounts of the last block's end, and the slot hashes and the clock as that
    /// slot will find them; nothing lands on it.
    pub fn open_bank(&self) -> Arc<Bank> {
        // While it is held no slot begins.
        let chain = self.chain();
        if let Some(bank) = &chain.working {
            return Arc::clone(bank);
        }
        let (parent, slot) = (chain.last().slot, chain.last().slot + 1);
        self.shared.hashing.complete(&self.shared.accounts);
        let (hashed, hash) = self.shared.hashing.newest();
        assert_eq!(hashed, parent, "all that has ended is hashed");
        let ahead = sysvars::ahead(&self.shared.accounts, &self.epoch_schedule, slot, (parent, &hash));
        let bank = Bank::new(Arc::clone(&self.shared), slot, parent, Arc::clone(&chain.blockhashes));
        Arc::new(bank.standing(ahead))
    }

    /// The slot in which a transaction would land now: the one in the making, or else the one to come.
    pub fn open_slot(&self) -> u64 {
        let chain = self.chain();
        chain.working.as_ref().map_or(chain.last().slot + 1, |bank| bank.slot())
    }

    /// Whether an epoch is turning: its last block has ended, or the rewards for it are on their way. What changes
    /// stakes is refused until the next block after that, as everywhere.
    pub fn is_epoch_turning(&self) -> bool {
        let chain = self.chain();
        let last = chain.last().slot;
        let begins = chain.working.is_none() && self.epoch_schedule.epoch(last) != self.epoch_schedule.epoch(last + 1);
        begins || chain.epochs.are_rewards_due()
    }
}
