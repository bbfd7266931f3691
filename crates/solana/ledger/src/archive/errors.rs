//! errors: transactions' errors in the cluster's binary form.
//!
//! reads   a tag and what belongs to it
//! writes  the same
//! source  `solana-runtime` 4.2, `serde_snapshot/status_cache.rs`: the order of `SerdeTransactionError` and
//!         `SerdeInstructionError`

use std::io::Read;

use super::codec::{Decoder, Encoder};
use super::error::Fault;
use crate::error::{InstructionError, TransactionError};

/// Longest text of an error.
const TEXT_MAX: u64 = 1 << 16;

const INSTRUCTION: u32 = 8;
const DUPLICATE: u32 = 30;
const RENT: u32 = 31;
const RESTRICTED: u32 = 35;
/// Tags of transactions' errors with a parameter, ascending.
const WITH_PARAMETER: [u32; 4] = [INSTRUCTION, DUPLICATE, RENT, RESTRICTED];

const CUSTOM: u32 = 25;
/// This one has a text.
const BORSH: u32 = 44;

/// The errors of transactions without a parameter, in the order of their tags.
const PLAIN: [TransactionError; 35] = {
    use TransactionError::*;
    [
        AccountInUse,
        AccountLoadedTwice,
        AccountNotFound,
        ProgramAccountNotFound,
        InsufficientFundsForFee,
        InvalidAccountForFee,
        AlreadyProcessed,
        BlockhashNotFound,
        CallChainTooDeep,
        MissingSignatureForFee,
        InvalidAccountIndex,
        SignatureFailure,
        InvalidProgramForExecution,
        SanitizeFailure,
        ClusterMaintenance,
        AccountBorrowOutstanding,
        WouldExceedMaxBlockCostLimit,
        UnsupportedVersion,
        InvalidWritableAccount,
        WouldExceedMaxAccountCostLimit,
        WouldExceedAccountDataBlockLimit,
        TooManyAccountLocks,
        AddressLookupTableNotFound,
        InvalidAddressLookupTableOwner,
        InvalidAddressLookupTableData,
        InvalidAddressLookupTableIndex,
        InvalidRentPayingAccount,
        WouldExceedMaxVoteCostLimit,
        WouldExceedAccountDataTotalLimit,
        MaxLoadedAccountsDataSizeExceeded,
        InvalidLoadedAccountsDataSizeLimit,
        ResanitizationNeeded,
        UnbalancedTransaction,
        ProgramCacheHitMaxLimit,
        CommitCancelled,
    ]
};

/// The errors of instructions but [`InstructionError::Custom`], in the order of their tags.
const PLAIN_OF_INSTRUCTION: [InstructionError; 53] = {
    use InstructionError::*;
    [
        GenericError,
        InvalidArgument,
        InvalidInstructionData,
        InvalidAccountData,
        AccountDataTooSmall,
        InsufficientFunds,
        IncorrectProgramId,
        MissingRequiredSignature,
        AccountAlreadyInitialized,
        UninitializedAccount,
        UnbalancedInstruction,
        ModifiedProgramId,
        ExternalAccountLamportSpend,
        ExternalAccountDataModified,
        ReadonlyLamportChange,
        ReadonlyDataModified,
        DuplicateAccountIndex,
        ExecutableModified,
        RentEpochModified,
        NotEnoughAccountKeys,
        AccountDataSizeChanged,
        AccountNotExecutable,
        AccountBorrowFailed,
        AccountBorrowOutstanding,
        DuplicateAccountOutOfSync,
        InvalidError,
        ExecutableDataModified,
        ExecutableLamportChange,
        ExecutableAccountNotRentExempt,
        UnsupportedProgramId,
        CallDepth,
        MissingAccount,
        ReentrancyNotAllowed,
        MaxSeedLengthExceeded,
        InvalidSeeds,
        InvalidRealloc,
        ComputationalBudgetExceeded,
        PrivilegeEscalation,
        ProgramEnvironmentSetupFailure,
        ProgramFailedToComplete,
        ProgramFailedToCompile,
        Immutable,
        IncorrectAuthority,
        BorshIoError,
        AccountNotRentExempt,
        InvalidAccountOwner,
        ArithmeticOverflow,
        UnsupportedSysvar,
        IllegalOwner,
        MaxAccountsDataAllocationsExceeded,
        MaxAccountsExceeded,
        MaxInstructionTraceLengthExceeded,
        BuiltinProgramsMustConsumeComputeUnits,
    ]
};

fn unknown() -> Fault {
    Fault::Malformed("an unknown error of a transaction")
}

/// The result of a transaction.
pub(super) fn decode_result<R: Read>(from: &mut Decoder<R>) -> Result<Result<(), TransactionError>, Fault> {
    match from.u32()? {
        0 => Ok(Ok(())),
        1 => decode(from).map(Err),
        _ => Err(unknown()),
    }
}

fn decode<R: Read>(from: &mut Decoder<R>) -> Result<TransactionError, Fault> {
    let tag = from.u32()?;
    Ok(match tag {
        INSTRUCTION => {
            let index = from.u8()?;
            TransactionError::InstructionError(index, decode_of_instruction(from)?)
        }
        DUPLICATE => TransactionError::DuplicateInstruction(from.u8()?),
        RENT => TransactionError::InsufficientFundsForRent { account_index: from.u8()? },
        RESTRICTED => TransactionError::ProgramExecutionTemporarilyRestricted { account_index: from.u8()? },
        plain => {
            let before = WITH_PARAMETER.iter().filter(|tag| **tag < plain).count();
            *PLAIN.get(plain as usize - before).ok_or_else(unknown)?
        }
    })
}

fn decode_of_instruction<R: Read>(from: &mut Decoder<R>) -> Result<InstructionError, Fault> {
    let tag = from.u32()?;
    if tag == CUSTOM {
        return Ok(InstructionError::Custom(from.u32()?));
    }
    if tag == BORSH {
        from.bytes(TEXT_MAX)?;
    }
    let number = tag as usize - usize::from(tag > CUSTOM);
    PLAIN_OF_INSTRUCTION.get(number).copied().ok_or_else(unknown)
}

pub(super) fn encode_result(result: Result<(), TransactionError>, to: &mut Encoder) {
    let Err(error) = result else { return to.u32(0) };
    to.u32(1);
    let (tag, index) = match error {
        TransactionError::InstructionError(index, error) => {
            to.u32(INSTRUCTION);
            to.raw(&[index]);
            return encode_of_instruction(error, to);
        }
        TransactionError::DuplicateInstruction(index) => (DUPLICATE, index),
        TransactionError::InsufficientFundsForRent { account_index } => (RENT, account_index),
        TransactionError::ProgramExecutionTemporarilyRestricted { account_index } => (RESTRICTED, account_index),
        plain => {
            let number = PLAIN.iter().position(|error| *error == plain).expect("every error has a tag") as u32;
            return to.u32(WITH_PARAMETER.iter().fold(number, |tag, with| tag + u32::from(*with <= tag)));
        }
    };
    to.u32(tag);
    to.raw(&[index]);
}

fn encode_of_instruction(error: InstructionError, to: &mut Encoder) {
    if let InstructionError::Custom(code) = error {
        to.u32(CUSTOM);
        return to.u32(code);
    }
    let number = PLAIN_OF_INSTRUCTION.iter().position(|plain| *plain == error).expect("every error has a tag") as u32;
    to.u32(number + u32::from(number >= CUSTOM));
    if error == InstructionError::BorshIoError {
        to.bytes(&[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(result: Result<(), TransactionError>) -> Vec<u8> {
        let mut to = Encoder::default();
        encode_result(result, &mut to);
        to.0
    }

    fn decoded(bytes: &[u8]) -> Result<Result<(), TransactionError>, Fault> {
        let mut from = Decoder::new(bytes, bytes.len() as u64);
        let result = decode_result(&mut from)?;
        from.end()?;
        Ok(result)
    }

    fn every_error() -> Vec<TransactionError> {
        use TransactionError as E;
        let mut all = PLAIN.to_vec();
        all.extend(PLAIN_OF_INSTRUCTION.iter().map(|error| E::InstructionError(3, *error)));
        all.push(E::InstructionError(200, InstructionError::Custom(u32::MAX)));
        all.push(E::DuplicateInstruction(9));
        all.push(E::InsufficientFundsForRent { account_index: 8 });
        all.push(E::ProgramExecutionTemporarilyRestricted { account_index: 7 });
        all
    }

    #[test]
    fn results_come_back() {
        assert_eq!(decoded(&encoded(Ok(()))).unwrap(), Ok(()));
        for error in every_error() {
            let bytes = encoded(Err(error));
            assert_eq!(decoded(&bytes).unwrap(), Err(error));
            assert!((0..bytes.len()).all(|len| decoded(&bytes[..len]).is_err()), "{error}");
        }
    }

    #[test]
    fn tags_are_the_cluster_s() {
        use TransactionError as E;
        let tag = |error: E| u32::from_le_bytes(*encoded(Err(error))[4..].first_chunk().unwrap());
        assert_eq!(tag(E::AccountInUse), 0);
        assert_eq!(tag(E::BlockhashNotFound), 7);
        assert_eq!(tag(E::CallChainTooDeep), 9);
        assert_eq!(tag(E::WouldExceedAccountDataTotalLimit), 29);
        assert_eq!(tag(E::MaxLoadedAccountsDataSizeExceeded), 32);
        assert_eq!(tag(E::UnbalancedTransaction), 36);
        assert_eq!(tag(E::CommitCancelled), 38);
        let inner = |error| encoded(Err(E::InstructionError(3, error)))[8..].to_vec();
        assert_eq!(inner(InstructionError::DuplicateAccountOutOfSync), [3, 24, 0, 0, 0]);
        assert_eq!(inner(InstructionError::Custom(6)), [3, 25, 0, 0, 0, 6, 0, 0, 0]);
        assert_eq!(inner(InstructionError::InvalidError), [3, 26, 0, 0, 0]);
        assert_eq!(inner(InstructionError::BorshIoError), [3, 44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(inner(InstructionError::BuiltinProgramsMustConsumeComputeUnits), [3, 53, 0, 0, 0]);
    }

    #[test]
    fn unknown_tags_are_refused() {
        for bytes in [&[2, 0, 0, 0][..], &[1, 0, 0, 0, 39, 0, 0, 0], &[1, 0, 0, 0, 8, 0, 0, 0, 3, 54, 0, 0, 0]] {
            assert!(decoded(bytes).is_err(), "{bytes:?}");
        }
    }
}
