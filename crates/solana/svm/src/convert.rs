//! Converts accounts and errors between the engine's types and the ledger's.
//!
//! reads   accounts, errors
//! writes  the same in other types; data is shared, never copied

use std::sync::Arc;

use hearth_ledger::{Account, InstructionError, TransactionError};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_instruction_error::InstructionError as EngineInstructionError;
use solana_pubkey::Pubkey;
use solana_transaction_error::TransactionError as EngineError;

/// Converts an account for the engine. `empty` is shared by all accounts without data.
pub(crate) fn to_engine(account: Account, empty: &Arc<Vec<u8>>) -> AccountSharedData {
    AccountSharedData::create_from_existing_shared_data(
        account.lamports,
        account.shared_data().unwrap_or(empty).clone(),
        Pubkey::new_from_array(account.owner),
        account.executable,
        account.rent_epoch,
    )
}

/// Converts an account of the engine.
pub(crate) fn from_engine(account: &AccountSharedData) -> Account {
    let mut converted = Account::wallet(account.lamports());
    converted.rent_epoch = account.rent_epoch();
    converted.owner = account.owner().to_bytes();
    converted.executable = account.executable();
    if !account.data().is_empty() {
        converted.set_shared_data(account.data_clone());
    }
    converted
}

/// Converts an error of the engine. Each has a variant of the same name.
pub(crate) fn error(error: &EngineError) -> TransactionError {
    macro_rules! namesakes {
        ($($name:ident)*) => {
            match error {
                EngineError::InstructionError(index, error) => {
                    TransactionError::InstructionError(*index, instruction_error(error))
                }
                EngineError::DuplicateInstruction(index) => TransactionError::DuplicateInstruction(*index),
                &EngineError::InsufficientFundsForRent { account_index } => {
                    TransactionError::InsufficientFundsForRent { account_index }
                }
                &EngineError::ProgramExecutionTemporarilyRestricted { account_index } => {
                    TransactionError::ProgramExecutionTemporarilyRestricted { account_index }
                }
                $(EngineError::$name => TransactionError::$name,)*
            }
        };
    }
    namesakes! {
        AccountInUse AccountLoadedTwice AccountNotFound ProgramAccountNotFound InsufficientFundsForFee
        InvalidAccountForFee AlreadyProcessed BlockhashNotFound CallChainTooDeep MissingSignatureForFee
        InvalidAccountIndex SignatureFailure InvalidProgramForExecution SanitizeFailure ClusterMaintenance
        AccountBorrowOutstanding WouldExceedMaxBlockCostLimit UnsupportedVersion InvalidWritableAccount
        WouldExceedMaxAccountCostLimit WouldExceedAccountDataBlockLimit TooManyAccountLocks
        AddressLookupTableNotFound InvalidAddressLookupTableOwner InvalidAddressLookupTableData
        InvalidAddressLookupTableIndex InvalidRentPayingAccount WouldExceedMaxVoteCostLimit
        WouldExceedAccountDataTotalLimit MaxLoadedAccountsDataSizeExceeded InvalidLoadedAccountsDataSizeLimit
        ResanitizationNeeded UnbalancedTransaction ProgramCacheHitMaxLimit CommitCancelled
    }
}

#[allow(deprecated, reason = "a deprecated error has its namesake too")]
fn instruction_error(error: &EngineInstructionError) -> InstructionError {
    macro_rules! namesakes {
        ($($name:ident)*) => {
            match error {
                EngineInstructionError::Custom(code) => InstructionError::Custom(*code),
                $(EngineInstructionError::$name => InstructionError::$name,)*
            }
        };
    }
    namesakes! {
        GenericError InvalidArgument InvalidInstructionData InvalidAccountData AccountDataTooSmall
        InsufficientFunds IncorrectProgramId MissingRequiredSignature AccountAlreadyInitialized
        UninitializedAccount UnbalancedInstruction ModifiedProgramId ExternalAccountLamportSpend
        ExternalAccountDataModified ReadonlyLamportChange ReadonlyDataModified DuplicateAccountIndex
        ExecutableModified RentEpochModified NotEnoughAccountKeys AccountDataSizeChanged AccountNotExecutable
        AccountBorrowFailed AccountBorrowOutstanding DuplicateAccountOutOfSync InvalidError
        ExecutableDataModified ExecutableLamportChange ExecutableAccountNotRentExempt UnsupportedProgramId
        CallDepth MissingAccount ReentrancyNotAllowed MaxSeedLengthExceeded InvalidSeeds InvalidRealloc
        ComputationalBudgetExceeded PrivilegeEscalation ProgramEnvironmentSetupFailure ProgramFailedToComplete
        ProgramFailedToCompile Immutable IncorrectAuthority BorshIoError AccountNotRentExempt
        InvalidAccountOwner ArithmeticOverflow UnsupportedSysvar IllegalOwner
        MaxAccountsDataAllocationsExceeded MaxAccountsExceeded MaxInstructionTraceLengthExceeded
        BuiltinProgramsMustConsumeComputeUnits
    }
}
