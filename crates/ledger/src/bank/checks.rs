//! The checks that need no account: a transaction that fails one of them cannot land.
//!
//! reads   a transaction, the recent blockhashes, the statuses
//! writes  a claim on the transaction's message, when asked
//! memory  none
//! source  `bank.rs` (SIMD-160, SIMD-406), `bank/check_transactions.rs` of `solana-runtime` 4.2 and
//!         `account_locks.rs` of `solana-accounts-db` 4.2

use hearth_wire::Txn;
use hearth_wire::consts::{MAX_ACCOUNT_LOCKS, SYSTEM_PROGRAM};
use hearth_wire::program::system::SystemInstruction;

use super::Bank;
use crate::budget::Budget;
use crate::error::TransactionError;
use crate::fees::Fee;
use crate::status_cache::Claim;

/// The most instructions in a transaction.
const MAX_INSTRUCTIONS: usize = 64;
/// The most accounts that one instruction may name, repeats included.
const MAX_INSTRUCTION_ACCOUNTS: usize = 255;

/// A transaction that may be run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    pub(super) budget: Budget,
    pub(super) fee: Fee,
    /// Height of the block whose hash it names.
    pub(super) blockhash_height: u64,
    /// Whether the fast path is out of the question.
    pub(super) is_general: bool,
    /// Whether it may land only by advancing a nonce.
    pub(super) needs_nonce: bool,
}

impl Bank {
    /// Checks everything that needs no account, but for the status.
    #[inline]
    pub(super) fn check(&self, txn: &Txn<'_>) -> Result<Checked, TransactionError> {
        check_shape(txn)?;
        let budget = Budget::of(txn)?;
        let (blockhash_height, needs_nonce) = match self.blockhashes.height_of(txn.recent_blockhash()) {
            Some(height) => (height, false),
            // A nonce holds another blockhash than the recent ones. Its value is used up when it
            // lands, so the claim need last no longer than for a blockhash of today.
            None if advances_nonce(txn) => (self.height - 1, true),
            None => return Err(TransactionError::BlockhashNotFound),
        };
        let is_general = needs_nonce || txn.loaded_count() != 0;
        Ok(Checked { budget, fee: Fee::of(txn, &budget), blockhash_height, is_general, needs_nonce })
    }

    /// Checks everything that needs no account, and claims the message.
    #[inline]
    pub(super) fn check_and_claim(&self, txn: &Txn<'_>) -> Result<(Checked, Claim), TransactionError> {
        let checked = self.check(txn)?;
        let claim = self.shared.statuses.claim(txn, checked.blockhash_height, self.height);
        claim.map(|claim| (checked, claim)).ok_or(TransactionError::AlreadyProcessed)
    }
}

fn check_shape(txn: &Txn<'_>) -> Result<(), TransactionError> {
    if txn.instruction_count() > MAX_INSTRUCTIONS
        || txn.instructions().any(|instruction| instruction.accounts.len() > MAX_INSTRUCTION_ACCOUNTS)
    {
        return Err(TransactionError::SanitizeFailure);
    }
    if txn.account_count() > MAX_ACCOUNT_LOCKS {
        return Err(TransactionError::TooManyAccountLocks);
    }
    if txn.has_duplicate_accounts() {
        return Err(TransactionError::AccountLoadedTwice);
    }
    Ok(())
}

/// Whether the transaction begins with the advance of a nonce, so that the hash it names need not be recent.
pub fn advances_nonce(txn: &Txn<'_>) -> bool {
    txn.instructions().next().is_some_and(|first| {
        txn.account_keys()[usize::from(first.program_id_index)] == SYSTEM_PROGRAM
            && SystemInstruction::decode(first.data) == Some(SystemInstruction::AdvanceNonceAccount)
    })
}
