//! Transactions of a block that the pool has not seen yet: the next block is chosen as if it had.
//!
//! memory  about 40 B for each account of the block

use alloy_consensus::Transaction;
use alloy_primitives::map::{AddressMap, B256Set};
use alloy_primitives::{Address, B256};

use crate::tx::Tx;

/// The next nonces of accounts after a block.
#[derive(Clone, Debug, Default)]
pub struct NextNonces {
    next: AddressMap<u64>,
    refused: B256Set,
}

impl NextNonces {
    /// The block holds it. Those of one account come in the order of their nonces.
    pub fn include(&mut self, tx: &Tx) {
        self.next.insert(tx.sender, tx.envelope.nonce() + 1);
    }

    /// The block could not hold it, and no later one can: it will leave the pool.
    pub fn refuse(&mut self, tx: &Tx) {
        let next = self.next.entry(tx.sender).or_insert(tx.envelope.nonce());
        if *next == tx.envelope.nonce() {
            self.refused.insert(tx.hash);
        }
    }

    /// Whether the account has one in the block.
    pub(super) fn has(&self, address: &Address) -> bool {
        !self.next.is_empty() && self.next.contains_key(address)
    }

    /// The accounts with a transaction in the block, and their next nonces.
    pub(super) fn accounts(&self) -> impl Iterator<Item = (&Address, u64)> {
        self.next.iter().map(|(address, next)| (address, *next))
    }

    /// Whether that one is refused.
    pub(super) fn is_refused(&self, hash: &B256) -> bool {
        self.refused.contains(hash)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use alloy_consensus::{SignableTransaction, TxLegacy};

    use super::*;

    fn tx(sender: u8, nonce: u64) -> Arc<Tx> {
        let sender = Address::repeat_byte(sender);
        let tx = TxLegacy { nonce, ..TxLegacy::default() };
        Arc::new(Tx::with_sender(tx.into_signed(Tx::impersonated_signature(&sender)).into(), sender))
    }

    #[test]
    fn an_account_continues_after_its_last_one_unless_its_next_is_refused() {
        let mut taken = NextNonces::default();
        let [first, second, refused, alone] = [tx(1, 4), tx(1, 5), tx(1, 6), tx(2, 0)];
        taken.include(&first);
        taken.include(&second);
        taken.refuse(&refused);
        taken.refuse(&alone);
        let mut accounts: Vec<_> = taken.accounts().map(|(address, next)| (*address, next)).collect();
        accounts.sort_unstable();
        assert_eq!(accounts, [(first.sender, 6), (alone.sender, 0)]);
        assert!(taken.is_refused(&refused.hash) && taken.is_refused(&alone.hash) && !taken.is_refused(&second.hash));
        assert!(taken.has(&alone.sender) && !taken.has(&Address::ZERO));
    }
}
