//! The fast path: transactions made of transfers and compute-budget requests.
//!
//! reads   the accounts of a transaction, from the working set
//! writes  balances in the working set; a failed transaction is undone except for its fee
//! memory  a list of the accounts that one transaction touches
//! drops   nothing: a transaction that it cannot run is reported before anything has changed
//! source  `account_loader.rs`, `transaction_processor.rs` of `solana-svm` 4.2, `system_processor.rs` of
//!         `solana-system-program` 4.2, `instruction_accounts.rs` of `solana-transaction-context` 4.2, by the
//!         features of the block. The order of the checks is theirs: it decides which error is reported

use hearth_mutation::{Mutation, active};
use hearth_wire::Txn;
use hearth_wire::consts::*;
use hearth_wire::program::system::SystemInstruction;
use hearth_wire::txn::CompiledInstruction;

use super::working_set::{WorkingSet, WorkingSetIndex};
use crate::error::{InstructionError, TransactionError};
use crate::features::Rules;
use crate::programs::is_reserved;
use crate::rent::RENT_EXEMPT_EPOCH;

/// The rules of the fast path. Tests vary them, to check that a wrong fast path is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRules {
    /// Compute units of an instruction of the system program or the compute-budget program.
    pub instruction_units: u64,
    /// Bytes counted for a loaded account beyond its data.
    pub account_base_bytes: usize,
    /// Whether accounts may be left below the rent-exempt minimum.
    pub leaves_rent_alone: bool,
    /// Whether reserved accounts may be written.
    pub writes_reserved: bool,
    /// Whether what a failed transaction did is kept.
    pub keeps_failures: bool,
    /// Whether accounts with data may send.
    pub sends_from_data: bool,
}

impl TransferRules {
    /// The rules of the cluster, which every node uses.
    pub const CLUSTER: Self = Self {
        instruction_units: 150,
        account_base_bytes: 64,
        leaves_rent_alone: false,
        writes_reserved: false,
        keeps_failures: false,
        sends_from_data: false,
    };
}

impl Default for TransferRules {
    fn default() -> Self {
        Self::CLUSTER
    }
}

/// Size of a nonce account's data in bytes.
const NONCE_BYTES: usize = 80;

/// The result of the fast path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// It lands and has paid; `result` is the error if it failed.
    Landed { result: Result<(), TransactionError>, compute_units: u64, loaded_bytes: u32 },
    /// It cannot pay or is not allowed to; nothing has changed.
    Refused(TransactionError),
    /// It needs the general engine; nothing has changed.
    General,
}

/// An account that the current transaction has touched, in its state after the fee.
#[derive(Clone, Copy, Debug)]
struct TouchedAccount {
    index: u8,
    lamports: u64,
    rent_epoch: u64,
}

/// A transaction in the fast path.
pub(super) struct Transfers<'a> {
    pub(super) txn: &'a Txn<'a>,
    /// The working-set place of each account, in the transaction's order.
    pub(super) places: &'a [WorkingSetIndex],
    pub(super) fee: u64,
    pub(super) compute_unit_limit: u64,
    pub(super) loaded_bytes_limit: u32,
    pub(super) rules: &'a TransferRules,
    /// The rules of the block.
    pub(super) of_block: &'a Rules,
}

/// The result of loading a transaction's accounts.
enum LoadResult {
    /// The transaction can execute; the number of bytes loaded.
    Ready(u32),
    /// The transaction lands, pays and has no other effect.
    Failed(TransactionError, u32),
    General,
}

impl Transfers<'_> {
    /// Runs the transaction. `touched` is scratch space.
    pub(super) fn run(&self, set: &mut WorkingSet, touched: &mut TouchedAccounts) -> Run {
        let payer = set.get(self.places[0]);
        let before_fee = payer.lamports;
        match self.check_payer(payer) {
            Ok(()) => {}
            Err(None) => return Run::General,
            Err(Some(error)) => return Run::Refused(error),
        }
        let loaded = self.check_loaded(set);
        let (result, compute_units, loaded_bytes) = match loaded {
            LoadResult::General => return Run::General,
            LoadResult::Failed(error, bytes) => {
                set.get_mut(self.places[0]).lamports -= self.fee;
                (Err(error), 0, bytes)
            }
            LoadResult::Ready(bytes) => {
                let payer = set.get_mut(self.places[0]);
                payer.lamports -= self.fee;
                if active(Mutation::DoubleFee) {
                    payer.lamports = payer.lamports.saturating_sub(self.fee);
                }
                let rent_epoch = payer.rent_epoch;
                touched.begin(payer.lamports, rent_epoch);
                // The payer's rent epoch depends on its balance before the fee.
                settle_rent_epoch(&mut payer.rent_epoch, before_fee, self.of_block.minimum_balance(0));
                let (result, units) = self.execute(set, touched);
                touched.finish(self.places, set, result.is_ok() || self.rules.keeps_failures);
                (result, units, bytes)
            }
        };
        set.commit(self.places[0]);
        Run::Landed { result, compute_units, loaded_bytes }
    }

    /// Checks that the payer can pay; `Err(None)` if it may be a nonce account.
    fn check_payer(&self, payer: &crate::Account) -> Result<(), Option<TransactionError>> {
        if payer.lamports == 0 {
            return Err(Some(TransactionError::AccountNotFound));
        }
        if !payer.is_system_owned() || !payer.data().is_empty() {
            let may_be_nonce = payer.is_system_owned() && payer.data().len() == NONCE_BYTES;
            return Err((!may_be_nonce).then_some(TransactionError::InvalidAccountForFee));
        }
        let Some(after) = payer.lamports.checked_sub(self.fee) else {
            return Err(Some(TransactionError::InsufficientFundsForFee));
        };
        if !self.of_block.transition_allowed(payer.lamports, after, 0) {
            return Err(Some(TransactionError::InsufficientFundsForRent { account_index: 0 }));
        }
        Ok(())
    }

    /// Sums the accounts' bytes, and checks whether the instructions are transfers.
    fn check_loaded(&self, set: &WorkingSet) -> LoadResult {
        let limit = self.loaded_bytes_limit;
        let mut bytes = 0u32;
        for (key, &place) in self.txn.account_keys().iter().zip(self.places) {
            let account = set.get(place);
            if account.lamports == 0 {
                // Sysvars are not loaded here, but the cluster would load them.
                if is_reserved(key) {
                    return LoadResult::General;
                }
                continue;
            }
            let size = u32::try_from(self.rules.account_base_bytes + account.data().len()).unwrap_or(u32::MAX);
            bytes = bytes.saturating_add(size);
            if bytes > limit {
                if !self.of_block.counts_failed_loads {
                    return LoadResult::General;
                }
                return LoadResult::Failed(TransactionError::MaxLoadedAccountsDataSizeExceeded, limit);
            }
            if account.owner == BPF_LOADER_UPGRADEABLE {
                // The program's code counts too, and is in another account.
                return LoadResult::General;
            }
        }
        // All programs are the system program or the compute-budget program; other transactions never get here.
        for instruction in self.txn.instructions() {
            let index = usize::from(instruction.program_id_index);
            let is_there = set.get(self.places[index]).lamports != 0;
            let is_system = self.txn.account_keys()[index] == SYSTEM_PROGRAM;
            if !is_there || is_system && !is_transfer_or_invalid(instruction.data) {
                return LoadResult::General;
            }
        }
        LoadResult::Ready(bytes)
    }

    /// Runs the instructions and checks the rent; returns the result and the compute units used.
    fn execute(&self, set: &mut WorkingSet, touched: &mut TouchedAccounts) -> (Result<(), TransactionError>, u64) {
        let keys = self.txn.account_keys();
        let mut units_left = self.compute_unit_limit;
        let instruction_units = self.rules.instruction_units;
        for (index, instruction) in self.txn.instructions().enumerate() {
            let used = units_left.min(instruction_units);
            units_left -= used;
            let result = if used < instruction_units {
                Err(InstructionError::ComputationalBudgetExceeded)
            } else if keys[usize::from(instruction.program_id_index)] == SYSTEM_PROGRAM {
                self.transfer(&instruction, set, touched)
            } else {
                Ok(())
            };
            if let Err(error) = result {
                let error = TransactionError::InstructionError(index as u8, error);
                return (Err(error), self.compute_unit_limit - units_left);
            }
        }
        let rent = match self.rules.leaves_rent_alone {
            true => Ok(()),
            false => self.check_rent(touched, set),
        };
        (rent, self.compute_unit_limit - units_left)
    }

    /// Runs one transfer, with the checks of the system program and the runtime beneath it in their order.
    fn transfer(
        &self,
        instruction: &CompiledInstruction<'_>,
        set: &mut WorkingSet,
        touched: &mut TouchedAccounts,
    ) -> Result<(), InstructionError> {
        let Some(SystemInstruction::Transfer { lamports }) = SystemInstruction::decode(instruction.data) else {
            return Err(InstructionError::InvalidInstructionData);
        };
        let &[from, to, ..] = instruction.accounts else {
            return Err(InstructionError::MissingAccount);
        };
        if !self.txn.is_signer(usize::from(from)) {
            return Err(InstructionError::MissingRequiredSignature);
        }
        let account = set.get(self.places[usize::from(from)]);
        if !account.data().is_empty() && !self.rules.sends_from_data {
            return Err(InstructionError::InvalidArgument);
        }
        let Some(left) = account.lamports.checked_sub(lamports) else {
            // The system program's error 1: the balance would be negative.
            return Err(InstructionError::Custom(1));
        };
        if lamports != 0 && !account.is_system_owned() {
            return Err(InstructionError::ExternalAccountLamportSpend);
        }
        if !self.may_write(from) {
            return Err(InstructionError::ReadonlyLamportChange);
        }
        self.set_lamports(from, left, touched, set);

        let account = set.get(self.places[usize::from(to)]);
        let Some(sum) = account.lamports.checked_add(lamports) else {
            return Err(InstructionError::ArithmeticOverflow);
        };
        if !self.may_write(to) {
            return Err(InstructionError::ReadonlyLamportChange);
        }
        self.set_lamports(to, sum, touched, set);
        Ok(())
    }

    /// Sets a balance, and remembers the previous one.
    fn set_lamports(&self, index: u8, lamports: u64, touched: &mut TouchedAccounts, set: &mut WorkingSet) {
        let account = set.get_mut(self.places[usize::from(index)]);
        if account.lamports == lamports {
            return;
        }
        if !touched.0.iter().any(|touched| touched.index == index) {
            touched.0.push(TouchedAccount { index, lamports: account.lamports, rent_epoch: account.rent_epoch });
            let (before, minimum) = (account.lamports, self.of_block.minimum_balance(account.data().len()));
            settle_rent_epoch(&mut account.rent_epoch, before, minimum);
        }
        account.lamports = lamports;
    }

    /// Checks that every touched account may keep its new balance; the error has the index of the first that may not.
    fn check_rent(&self, touched: &TouchedAccounts, set: &WorkingSet) -> Result<(), TransactionError> {
        let keys = self.txn.account_keys();
        let broken = touched.0.iter().filter(|touched| {
            let account = set.get(self.places[usize::from(touched.index)]);
            keys[usize::from(touched.index)] != INCINERATOR
                && !self.of_block.transition_allowed(touched.lamports, account.lamports, account.data().len())
        });
        match broken.map(|touched| touched.index).min() {
            Some(account_index) => Err(TransactionError::InsufficientFundsForRent { account_index }),
            None => Ok(()),
        }
    }

    /// Whether the account is writable after demotions: reserved accounts are demoted, and so are programs, all of
    /// which are reserved here.
    fn may_write(&self, index: u8) -> bool {
        let index = usize::from(index);
        self.txn.is_writable(index) && (self.rules.writes_reserved || !is_reserved(&self.txn.account_keys()[index]))
    }
}

/// Whether an instruction to the system program is a transfer, or invalid.
fn is_transfer_or_invalid(data: &[u8]) -> bool {
    matches!(SystemInstruction::decode(data), Some(SystemInstruction::Transfer { .. }) | None)
}

/// An account that was rent-exempt when it was loaded is marked so permanently.
fn settle_rent_epoch(rent_epoch: &mut u64, lamports: u64, minimum: u64) {
    if *rent_epoch != RENT_EXEMPT_EPOCH && lamports >= minimum {
        *rent_epoch = RENT_EXEMPT_EPOCH;
    }
}

/// The accounts that one transaction touches, with their initial state.
#[derive(Debug, Default)]
pub(super) struct TouchedAccounts(Vec<TouchedAccount>);

impl TouchedAccounts {
    /// Starts with the payer, whose fee is paid.
    fn begin(&mut self, lamports: u64, rent_epoch: u64) {
        self.0.clear();
        self.0.push(TouchedAccount { index: 0, lamports, rent_epoch });
    }

    /// Commits or undoes the changes. The fee stays paid either way.
    fn finish(&self, places: &[WorkingSetIndex], set: &mut WorkingSet, commit: bool) {
        for touched in &self.0 {
            let place = places[usize::from(touched.index)];
            if commit || (touched.index != 0 && active(Mutation::MintedFailure)) {
                set.commit(place);
            } else {
                let account = set.get_mut(place);
                (account.lamports, account.rent_epoch) = (touched.lamports, touched.rent_epoch);
            }
        }
    }
}
