//! The reasons why a transaction failed or was refused: the cluster's errors, under the cluster's names.
//!
//! writes  the JSON shape of the Solana RPC (`{"InstructionError":[0,{"Custom":1}]}`), and a packed form of 56 bits for
//!         the status cache
//! memory  both enums are `Copy`, 12 bytes at most
//! source  `solana-transaction-error` 3.3 and `solana-instruction-error` 2.4: names, order, texts

use serde::{Deserialize, Serialize};

/// Declares an enum: first the variants with a parameter, verbatim, then the plain ones with their text and a stable
/// number each, in declaration order.
macro_rules! errors {
    (
        $(#[$meta:meta])* $name:ident
        with { $($with:tt)* }
        plain { $($variant:ident = $text:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($with)*
            $(#[doc = $text] $variant,)*
        }

        impl $name {
            /// The errors without a parameter.
            const PLAIN: &'static [Self] = &[$(Self::$variant,)*];

            /// The number and the text of an error without a parameter.
            fn plain(self) -> Option<(u8, &'static str)> {
                let text = match self {
                    $(Self::$variant => $text,)*
                    _ => return None,
                };
                let number = Self::PLAIN.iter().position(|&error| error == self)?;
                Some((number as u8, text))
            }
        }
    };
}

errors! {
    /// Why an instruction failed.
    InstructionError
    with {
        /// A program's own error number.
        Custom(u32),
    }
    plain {
        GenericError = "generic instruction error",
        InvalidArgument = "invalid program argument",
        InvalidInstructionData = "invalid instruction data",
        InvalidAccountData = "invalid account data for instruction",
        AccountDataTooSmall = "account data too small for instruction",
        InsufficientFunds = "insufficient funds for instruction",
        IncorrectProgramId = "incorrect program id for instruction",
        MissingRequiredSignature = "missing required signature for instruction",
        AccountAlreadyInitialized = "instruction requires an uninitialized account",
        UninitializedAccount = "instruction requires an initialized account",
        UnbalancedInstruction = "sum of account balances before and after instruction do not match",
        ModifiedProgramId = "instruction illegally modified the program id of an account",
        ExternalAccountLamportSpend = "instruction spent from the balance of an account it does not own",
        ExternalAccountDataModified = "instruction modified data of an account it does not own",
        ReadonlyLamportChange = "instruction changed the balance of a read-only account",
        ReadonlyDataModified = "instruction modified data of a read-only account",
        DuplicateAccountIndex = "instruction contains duplicate accounts",
        ExecutableModified = "instruction changed executable bit of an account",
        RentEpochModified = "instruction modified rent epoch of an account",
        NotEnoughAccountKeys = "insufficient account keys for instruction",
        AccountDataSizeChanged = "program other than the account's owner changed the size of the account data",
        AccountNotExecutable = "instruction expected an executable account",
        AccountBorrowFailed = "instruction tries to borrow reference for an account which is already borrowed",
        AccountBorrowOutstanding = "instruction left account with an outstanding borrowed reference",
        DuplicateAccountOutOfSync = "instruction modifications of multiply-passed account differ",
        InvalidError = "program returned invalid error code",
        ExecutableDataModified = "instruction changed executable accounts data",
        ExecutableLamportChange = "instruction changed the balance of an executable account",
        ExecutableAccountNotRentExempt = "executable accounts must be rent exempt",
        UnsupportedProgramId = "Unsupported program id",
        CallDepth = "Cross-program invocation call depth too deep",
        MissingAccount = "An account required by the instruction is missing",
        ReentrancyNotAllowed = "Cross-program invocation reentrancy not allowed for this instruction",
        MaxSeedLengthExceeded = "Length of the seed is too long for address generation",
        InvalidSeeds = "Provided seeds do not result in a valid address",
        InvalidRealloc = "Failed to reallocate account data",
        ComputationalBudgetExceeded = "Computational budget exceeded",
        PrivilegeEscalation = "Cross-program invocation with unauthorized signer or writable account",
        ProgramEnvironmentSetupFailure = "Failed to create program execution environment",
        ProgramFailedToComplete = "Program failed to complete",
        ProgramFailedToCompile = "Program failed to compile",
        Immutable = "Account is immutable",
        IncorrectAuthority = "Incorrect authority provided",
        BorshIoError = "Failed to serialize or deserialize account data",
        AccountNotRentExempt = "An account does not have enough lamports to be rent-exempt",
        InvalidAccountOwner = "Invalid account owner",
        ArithmeticOverflow = "Program arithmetic overflowed",
        UnsupportedSysvar = "Unsupported sysvar",
        IllegalOwner = "Provided owner is not allowed",
        MaxAccountsDataAllocationsExceeded = "Accounts data allocations exceeded the maximum allowed per transaction",
        MaxAccountsExceeded = "Max accounts exceeded",
        MaxInstructionTraceLengthExceeded = "Max instruction trace length exceeded",
        BuiltinProgramsMustConsumeComputeUnits = "Builtin programs must consume compute units",
    }
}

impl std::fmt::Display for InstructionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self, self.plain()) {
            (Self::Custom(code), _) => write!(f, "custom program error: {code:#x}"),
            (_, plain) => f.write_str(plain.map_or("", |(_, text)| text)),
        }
    }
}

impl std::error::Error for InstructionError {}

errors! {
    /// Why a transaction failed (then its fee is still charged) or was refused (then nothing is).
    TransactionError
    with {
        /// Instruction `.0`, counted from 0, failed with the error `.1`.
        InstructionError(u8, InstructionError),
        /// Instruction `.0` repeats one that may occur only once.
        DuplicateInstruction(u8),
        /// The account would be left below the rent-exempt minimum.
        InsufficientFundsForRent {
            /// Index of the account in the transaction.
            account_index: u8,
        },
        /// The program may not be executed at present.
        ProgramExecutionTemporarilyRestricted {
            /// Index of the account in the transaction.
            account_index: u8,
        },
    }
    plain {
        AccountInUse = "Account in use",
        AccountLoadedTwice = "Account loaded twice",
        AccountNotFound = "Attempt to debit an account but found no record of a prior credit.",
        ProgramAccountNotFound = "Attempt to load a program that does not exist",
        InsufficientFundsForFee = "Insufficient funds for fee",
        InvalidAccountForFee = "This account may not be used to pay transaction fees",
        AlreadyProcessed = "This transaction has already been processed",
        BlockhashNotFound = "Blockhash not found",
        CallChainTooDeep = "Loader call chain is too deep",
        MissingSignatureForFee = "Transaction requires a fee but has no signature present",
        InvalidAccountIndex = "Transaction contains an invalid account reference",
        SignatureFailure = "Transaction did not pass signature verification",
        InvalidProgramForExecution = "This program may not be used for executing instructions",
        SanitizeFailure = "Transaction failed to sanitize accounts offsets correctly",
        ClusterMaintenance = "Transactions are currently disabled due to cluster maintenance",
        AccountBorrowOutstanding = "Transaction processing left an account with an outstanding borrowed reference",
        WouldExceedMaxBlockCostLimit = "Transaction would exceed max Block Cost Limit",
        UnsupportedVersion = "Transaction version is unsupported",
        InvalidWritableAccount = "Transaction loads a writable account that cannot be written",
        WouldExceedMaxAccountCostLimit = "Transaction would exceed max account limit within the block",
        WouldExceedAccountDataBlockLimit = "Transaction would exceed account data limit within the block",
        TooManyAccountLocks = "Transaction locked too many accounts",
        AddressLookupTableNotFound = "Transaction loads an address table account that doesn't exist",
        InvalidAddressLookupTableOwner = "Transaction loads an address table account with an invalid owner",
        InvalidAddressLookupTableData = "Transaction loads an address table account with invalid data",
        InvalidAddressLookupTableIndex = "Transaction address table lookup uses an invalid index",
        InvalidRentPayingAccount = "Transaction leaves an account with a lower balance than rent-exempt minimum",
        WouldExceedMaxVoteCostLimit = "Transaction would exceed max Vote Cost Limit",
        WouldExceedAccountDataTotalLimit = "Transaction would exceed total account data limit",
        MaxLoadedAccountsDataSizeExceeded = "Transaction exceeded max loaded accounts data size cap",
        InvalidLoadedAccountsDataSizeLimit = "LoadedAccountsDataSizeLimit set for transaction must be greater than 0.",
        ResanitizationNeeded = "ResanitizationNeeded",
        UnbalancedTransaction = "Sum of account balances before and after transaction do not match",
        ProgramCacheHitMaxLimit = "Program cache hit max limit",
        CommitCancelled = "CommitCancelled",
    }
}

impl std::fmt::Display for TransactionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InstructionError(index, error) => write!(f, "Error processing Instruction {index}: {error}"),
            Self::DuplicateInstruction(index) => {
                write!(f, "Transaction contains a duplicate instruction ({index}) that is not allowed")
            }
            Self::InsufficientFundsForRent { account_index } => {
                write!(f, "Transaction results in an account ({account_index}) with insufficient funds for rent")
            }
            Self::ProgramExecutionTemporarilyRestricted { account_index } => write!(
                f,
                "Execution of the program referenced by account at index {account_index} is temporarily restricted."
            ),
            plain => f.write_str(plain.plain().map_or("", |(_, text)| text)),
        }
    }
}

impl std::error::Error for TransactionError {}

impl TransactionError {
    /// Packs the error into 56 bits, never all zero, for messages between components of one build.
    pub fn to_bits(self) -> u64 {
        PackedStatus::pack(Err(self)).to_bits()
    }

    /// The inverse of [`TransactionError::to_bits`]; `None` for 0.
    pub fn from_bits(bits: u64) -> Option<Self> {
        PackedStatus::from_bits(bits).unpack().err()
    }
}

/// A transaction's result in 56 bits, for tables with millions of them. 0 is success.
///
/// From the low end: 8 bits of kind (0 success, 1 to 4 the indexed errors, from 8 the plain ones), 8 of index, 8 of
/// instruction error (0 custom, from 1 the plain ones), 32 of custom code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct PackedStatus(u64);

/// Number of the first plain transaction error; lower numbers are success and the errors with an index.
const FIRST_PLAIN: u8 = 8;
const _: () = assert!(TransactionError::PLAIN.len() + FIRST_PLAIN as usize <= 256);
const _: () = assert!(InstructionError::PLAIN.len() < 256);

impl PackedStatus {
    /// Number of low bits in use.
    pub(crate) const BITS: u32 = 56;

    /// The bits; the high 8 are 0.
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`PackedStatus::to_bits`].
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    pub(crate) fn pack(result: Result<(), TransactionError>) -> Self {
        use TransactionError::*;
        let Err(error) = result else { return Self(0) };
        let [kind, index, inner] = match error {
            InstructionError(index, error) => [1, index, error.plain().map_or(0, |(number, _)| 1 + number)],
            DuplicateInstruction(index) => [2, index, 0],
            InsufficientFundsForRent { account_index } => [3, account_index, 0],
            ProgramExecutionTemporarilyRestricted { account_index } => [4, account_index, 0],
            plain => [FIRST_PLAIN + plain.plain().map_or(0, |(number, _)| number), 0, 0],
        };
        let code = match error {
            InstructionError(_, self::InstructionError::Custom(code)) => code,
            _ => 0,
        };
        Self(u64::from(u32::from_le_bytes([kind, index, inner, 0])) | u64::from(code) << 24)
    }

    /// Unpacks the result. Panics on bits that [`PackedStatus::pack`] never makes.
    pub(crate) fn unpack(self) -> Result<(), TransactionError> {
        use TransactionError::*;
        let [kind, index, inner, code @ .., _] = self.0.to_le_bytes();
        Err(match kind {
            0 => return Ok(()),
            1 => {
                let error = match inner.checked_sub(1) {
                    None => self::InstructionError::Custom(u32::from_le_bytes(code)),
                    Some(number) => self::InstructionError::PLAIN[usize::from(number)],
                };
                InstructionError(index, error)
            }
            2 => DuplicateInstruction(index),
            3 => InsufficientFundsForRent { account_index: index },
            4 => ProgramExecutionTemporarilyRestricted { account_index: index },
            plain => TransactionError::PLAIN[usize::from(plain - FIRST_PLAIN)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_error() -> Vec<TransactionError> {
        use TransactionError::*;
        let mut all = TransactionError::PLAIN.to_vec();
        all.extend(super::InstructionError::PLAIN.iter().map(|&error| InstructionError(7, error)));
        for index in [0, 255] {
            all.push(InsufficientFundsForRent { account_index: index });
            all.push(DuplicateInstruction(index));
            all.push(ProgramExecutionTemporarilyRestricted { account_index: index });
            all.extend([0, 1, u32::MAX].map(|code| InstructionError(index, super::InstructionError::Custom(code))));
        }
        all
    }

    #[test]
    fn packs_every_result() {
        assert_eq!(PackedStatus::pack(Ok(())).to_bits(), 0);
        assert_eq!(PackedStatus::from_bits(0).unpack(), Ok(()));
        for error in every_error() {
            let packed = PackedStatus::pack(Err(error));
            assert_eq!(packed.to_bits() >> PackedStatus::BITS, 0);
            assert_eq!(PackedStatus::from_bits(packed.to_bits()).unpack(), Err(error));
        }
    }

    #[test]
    fn json_has_the_shape_of_the_solana_rpc() {
        use super::InstructionError::*;
        let json = |error: TransactionError| serde_json::to_string(&error).unwrap();
        let custom = TransactionError::InstructionError(0, Custom(1));
        assert_eq!(json(custom), r#"{"InstructionError":[0,{"Custom":1}]}"#);
        let plain = TransactionError::InstructionError(2, MissingRequiredSignature);
        assert_eq!(json(plain), r#"{"InstructionError":[2,"MissingRequiredSignature"]}"#);
        assert_eq!(json(TransactionError::BlockhashNotFound), r#""BlockhashNotFound""#);
        let rent = TransactionError::InsufficientFundsForRent { account_index: 1 };
        assert_eq!(json(rent), r#"{"InsufficientFundsForRent":{"account_index":1}}"#);
        assert_eq!(json(TransactionError::DuplicateInstruction(3)), r#"{"DuplicateInstruction":3}"#);
        for error in every_error() {
            assert_eq!(serde_json::from_str::<TransactionError>(&json(error)).unwrap(), error);
        }
    }

    #[test]
    fn texts_are_the_clusters() {
        let error = TransactionError::InstructionError(0, InstructionError::Custom(1));
        assert_eq!(error.to_string(), "Error processing Instruction 0: custom program error: 0x1");
        let text = TransactionError::AccountNotFound.to_string();
        assert_eq!(text, "Attempt to debit an account but found no record of a prior credit.");
    }
}
