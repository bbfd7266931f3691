//! drops: how tiles record dropped transactions, so that clients can ask about them later.
//!
//! reads   a drop: the tag of the signature, and the reason
//! writes  the node's [`DropTable`], if it keeps them
//! memory  none of its own
//! drops   nothing
//!
//! It is called for drops only: transactions that land never reach it.

use std::sync::Arc;

use hearth_ledger::drop_log::{DropReason, DropTable};
use hearth_ledger::{Outcome, TransactionError};
use hearth_tile::{Out, Tile};

/// Records drops for tiles. By default it records nothing.
#[derive(Clone, Debug, Default)]
pub struct DropLog(Option<Arc<DropTable>>);

impl DropLog {
    /// Records drops in this table.
    pub fn new(fates: Arc<DropTable>) -> Self {
        Self(Some(fates))
    }

    /// Records that the transaction with this tag was dropped.
    #[cold]
    pub fn tell<T: Tile>(&self, tag: u64, reason: DropReason, out: &Out<'_, T>) {
        self.note(tag, reason, None, out);
    }

    /// Records a drop of bytes that may be no transaction, if they contain a signature.
    #[cold]
    pub fn record_bytes<T: Tile>(&self, bytes: &[u8], reason: DropReason, out: &Out<'_, T>) {
        if let Some(tag) = self.0.as_ref().and_then(|fates| fates.tag_of_bytes(bytes)) {
            self.note(tag, reason, None, out);
        }
    }

    /// Records a transaction that a bank kept out of the block, by its first signature.
    #[cold]
    pub fn record_outcome<T: Tile>(&self, signature: &[u8; 64], outcome: &Outcome, out: &Out<'_, T>) {
        let Some(fates) = &self.0 else { return };
        let (reason, error) = match outcome {
            Outcome::Committed(_) => return,
            Outcome::Unsupported => (DropReason::BankUnsupported, None),
            Outcome::SlotEnded => (DropReason::BankSlotEnded, None),
            Outcome::NotCommitted(error) => (of_error(error), Some(*error)),
        };
        self.note(fates.tag(signature), reason, error, out);
    }

    fn note<T: Tile>(&self, tag: u64, reason: DropReason, error: Option<TransactionError>, out: &Out<'_, T>) {
        if let Some(fates) = &self.0 {
            // Seconds since 1970 fit until 2106.
            fates.note(tag, reason, error, (out.unix_ns() / 1_000_000_000) as u32);
        }
    }
}

fn of_error(error: &TransactionError) -> DropReason {
    match error {
        TransactionError::BlockhashNotFound => DropReason::BankBlockhash,
        TransactionError::AlreadyProcessed => DropReason::BankProcessed,
        TransactionError::InsufficientFundsForFee => DropReason::BankFee,
        TransactionError::AccountNotFound => DropReason::BankAccount,
        _ => DropReason::BankOther,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::kinds::{KINDS, Role};
    use crate::txsend::TxSend;

    #[test]
    fn every_counter_of_drops_has_its_reason() {
        let is_drop = |name: &str| name.starts_with("dropped_") || name.starts_with("udp_dropped_");
        // Transactions pass through the tiles that make blocks, and through the one that sends them to leaders.
        let counted: BTreeSet<_> = KINDS
            .iter()
            .filter(|kind| kind.role == Role::Leader || kind.name == TxSend::NAME)
            .flat_map(|kind| kind.spec(0).counters.into_iter().map(|spec| (kind.name, spec.name)))
            .filter(|(_, name)| is_drop(name))
            .collect();
        let of_tiles = DropReason::ALL.iter().filter(|reason| reason.tile() != "rpc");
        let listed: BTreeSet<_> = of_tiles.map(|reason| (reason.tile(), reason.counter().to_owned())).collect();
        assert_eq!(counted, listed);
    }
}
