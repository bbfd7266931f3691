//! Publishes the results of a microblock to the notifier.
//!
//! reads   outcomes, records, the accounts about to be written
//! writes  the ledger's tap
//! memory  see [`crate::notifier`]

use hearth_wire::Txn;

use super::{Bank, Executor, Outcome};
use crate::notifier::{AccountUpdate, Interests, LandedTransaction, is_vote};

impl Bank {
    /// Publishes the wanted results of a microblock, before its accounts are written.
    #[cold]
    pub(super) fn tell(&self, executor: &Executor, txns: &[Txn<'_>], outcomes: &[Outcome], wanted: Interests) {
        let slot = self.slot;
        let landed = txns.iter().zip(outcomes).enumerate().filter_map(|(index, (txn, outcome))| {
            let Outcome::Committed(committed) = outcome else { return None };
            let is_vote = is_vote(txn);
            if !wanted.logs && !(wanted.votes && is_vote) {
                return None;
            }
            let record = executor.records().get(index).and_then(Option::as_deref).cloned().unwrap_or_default();
            let loaded = [record.loaded_writable, record.loaded_readonly].concat();
            Some(LandedTransaction {
                slot,
                wire: txn.bytes().into(),
                loaded,
                err: committed.err,
                logs: record.logs,
                is_vote,
            })
        });
        let changed = executor.set.changed().filter(|_| wanted.accounts);
        let changed = changed.map(|(key, account)| AccountUpdate { slot, key: *key, account: account.clone() });
        self.shared.tap.add(landed, changed);
    }
}
