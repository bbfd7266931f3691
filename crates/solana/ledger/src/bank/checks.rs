//! The checks that need no account: a transaction that fails one of them cannot land.
//!
//! reads   a transaction, the recent blockhashes, the statuses, lookup tables
//! writes  a claim on the transaction's message, if requested
//! memory  the addresses of lookup tables
//! source  `bank.rs` (SIMD-160, SIMD-406), `bank/check_transactions.rs` of `solana-runtime` 4.2 and `account_locks.rs`
//!         of `solana-accounts-db` 4.2

use hearth_wire::consts::{COMPUTE_BUDGET_PROGRAM, MAX_ACCOUNT_LOCKS, SYSTEM_PROGRAM};
use hearth_wire::program::system::SystemInstruction;
use hearth_wire::{Pubkey, Txn};

use super::Bank;
use super::lookup::LoadedAddresses;
use crate::budget::Budget;
use crate::error::TransactionError;
use crate::features::Rules;
use crate::fees::Fee;
use crate::status_cache::{Claim, MessageKey};

/// Maximum instructions of a transaction.
const MAX_INSTRUCTIONS: usize = 64;
/// Maximum accounts of a transaction before `increase_tx_account_lock_limit`.
const FEWER_ACCOUNT_LOCKS: usize = 64;
/// Maximum accounts of one instruction, repeats included.
const MAX_INSTRUCTION_ACCOUNTS: usize = 255;

/// A transaction that passed the checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedTransaction {
    pub(super) budget: Budget,
    pub(super) fee: Fee,
    /// Height of the block whose hash it names.
    pub(super) blockhash_height: u64,
    /// Whether the fast path cannot run it.
    pub(super) is_general: bool,
    /// Whether it can land only by advancing a nonce.
    pub(super) needs_nonce: bool,
}

impl Bank {
    /// Runs all checks that need no account but lookup tables, except for the status. The addresses from the tables
    /// replace those in `loaded`. If the scheduler has locked addresses, given by their digest, these must be the same.
    #[inline]
    pub(super) fn check(
        &self,
        txn: &Txn<'_>,
        loaded: &mut LoadedAddresses,
        locked: Option<u64>,
    ) -> Result<CheckedTransaction, TransactionError> {
        check_instructions(txn, &self.features.rules)?;
        if txn.loaded_count() != 0 {
            // The slot hashes decide whether a deactivated table still counts.
            self.shared.hashing.complete(&self.shared.accounts);
            *loaded = LoadedAddresses::resolve(txn, &self.shared.accounts, self.slot)?;
        }
        // The cluster's bank looks addresses up before it locks accounts.
        check_locks(txn, &self.features.rules)?;
        if txn.loaded_count() != 0 {
            check_loaded(txn, loaded.all())?;
            // A table only grows, and a closed one cannot return at its address while the chain follows the program's
            // rules, so this condition never holds. It keeps the locks correct in case anything else changes a table.
            if locked.is_some_and(|locked| locked != loaded.digest(&self.shared.accounts)) {
                return Err(TransactionError::InvalidAddressLookupTableIndex);
            }
        }
        let budget = Budget::of(txn)?;
        let (blockhash_height, needs_nonce) = match self.blockhashes.height_of(txn.recent_blockhash()) {
            Some(height) => (height, false),
            // The value of a nonce is not among the recent blockhashes. It is used up when the transaction lands, so
            // the claim need not last longer than for a current blockhash.
            None if advances_nonce(txn) => (self.height - 1, true),
            None => return Err(TransactionError::BlockhashNotFound),
        };
        let is_general = needs_nonce || txn.loaded_count() != 0 || calls_others(txn);
        let is_general = is_general || !self.features.rules.limits_instruction_accounts && has_large_instruction(txn);
        Ok(CheckedTransaction { budget, fee: Fee::of(txn, &budget), blockhash_height, is_general, needs_nonce })
    }

    /// Runs the same checks, and claims the message.
    #[inline]
    pub(super) fn check_and_claim(
        &self,
        txn: &Txn<'_>,
        loaded: &mut LoadedAddresses,
        locked: Option<u64>,
        message: MessageKey,
    ) -> Result<(CheckedTransaction, Claim), TransactionError> {
        let checked = self.check(txn, loaded, locked)?;
        if self.shared.statuses.is_archived(txn, self.height) {
            return Err(checked.error_if_landed());
        }
        let claim = self.shared.statuses.claim(message, checked.blockhash_height, self.height);
        claim.map(|claim| (checked, claim)).ok_or(checked.error_if_landed())
    }
}

impl CheckedTransaction {
    /// Returns why a transaction whose message has landed cannot land again. If it landed by a nonce it has advanced
    /// that one, and the cluster checks the nonce before the statuses.
    pub(super) fn error_if_landed(&self) -> TransactionError {
        match self.needs_nonce {
            true => TransactionError::BlockhashNotFound,
            false => TransactionError::AlreadyProcessed,
        }
    }
}

fn check_instructions(txn: &Txn<'_>, rules: &Rules) -> Result<(), TransactionError> {
    if txn.instruction_count() > MAX_INSTRUCTIONS || rules.limits_instruction_accounts && has_large_instruction(txn) {
        return Err(TransactionError::SanitizeFailure);
    }
    Ok(())
}

/// Checks the number of accounts, those from lookup tables included, and that none of the transaction's own repeats.
fn check_locks(txn: &Txn<'_>, rules: &Rules) -> Result<(), TransactionError> {
    if txn.account_count() > if rules.locks_more_accounts { MAX_ACCOUNT_LOCKS } else { FEWER_ACCOUNT_LOCKS } {
        return Err(TransactionError::TooManyAccountLocks);
    }
    if txn.has_duplicate_accounts() {
        return Err(TransactionError::AccountLoadedTwice);
    }
    Ok(())
}

/// Whether an instruction has more accounts than the engine accepts. The fast path does not know this limit.
#[inline]
fn has_large_instruction(txn: &Txn<'_>) -> bool {
    txn.instructions().any(|instruction| instruction.accounts.len() > MAX_INSTRUCTION_ACCOUNTS)
}

/// Checks that no address from a lookup table repeats another address of the transaction.
fn check_loaded(txn: &Txn<'_>, loaded: &[Pubkey]) -> Result<(), TransactionError> {
    let keys = txn.account_keys();
    let twice = |(index, key): (usize, &Pubkey)| keys.contains(key) || loaded[..index].contains(key);
    match loaded.iter().enumerate().any(twice) {
        true => Err(TransactionError::AccountLoadedTwice),
        false => Ok(()),
    }
}

/// Whether an instruction calls a program that the fast path does not know.
#[inline]
fn calls_others(txn: &Txn<'_>) -> bool {
    let keys = txn.account_keys();
    txn.instructions().any(|instruction| {
        let program = &keys[usize::from(instruction.program_id_index)];
        *program != SYSTEM_PROGRAM && *program != COMPUTE_BUDGET_PROGRAM
    })
}

/// Whether the transaction starts by advancing a nonce, so that its blockhash need not be recent.
pub fn advances_nonce(txn: &Txn<'_>) -> bool {
    txn.instructions().next().is_some_and(|first| {
        txn.account_keys()[usize::from(first.program_id_index)] == SYSTEM_PROGRAM
            && SystemInstruction::decode(first.data) == Some(SystemInstruction::AdvanceNonceAccount)
    })
}
