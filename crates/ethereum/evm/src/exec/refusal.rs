//! Why a transaction cannot be in a block, in geth's words.
//!
//! source  the errors of geth's `core` package

use alloy_consensus::Transaction;
use revm::context::result::InvalidTransaction;

use crate::tx::Tx;

/// Why a transaction cannot be in a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The consequence for the transaction.
    pub kind: RefusalKind,
    /// The reason, in geth's words.
    pub reason: String,
}

/// The consequence of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// Its nonce is used: it can never be included.
    NonceTooLow,
    /// A transaction before it is missing.
    NonceTooHigh,
    /// The sender cannot pay now.
    Funds,
    /// It may fit into another block: its gas, or its blobs.
    BlockGas,
    /// It pays less than the base fee now, or than the blob base fee.
    BaseFee,
    /// It can never be included under these rules.
    Invalid,
}

impl Refusal {
    pub(crate) fn block_gas() -> Self {
        Self { kind: RefusalKind::BlockGas, reason: "gas limit reached".into() }
    }

    pub(crate) fn blob_gas() -> Self {
        Self { kind: RefusalKind::BlockGas, reason: "blob gas limit reached".into() }
    }

    /// The refusal of a transaction in a block of that base fee.
    pub fn new(error: &InvalidTransaction, tx: &Tx, base_fee: u64) -> Self {
        use InvalidTransaction as Error;
        let sender = tx.sender;
        let envelope = &tx.envelope;
        let (kind, reason) = match error {
            Error::NonceTooLow { tx, state } => {
                (RefusalKind::NonceTooLow, format!("nonce too low: address {sender}, tx: {tx} state: {state}"))
            }
            Error::NonceTooHigh { tx, state } => {
                (RefusalKind::NonceTooHigh, format!("nonce too high: address {sender}, tx: {tx} state: {state}"))
            }
            Error::NonceOverflowInTransaction => {
                (RefusalKind::Invalid, format!("nonce has max value: address {sender}, nonce: {}", envelope.nonce()))
            }
            Error::LackOfFundForMaxFee { fee, balance } => (
                RefusalKind::Funds,
                format!("insufficient funds for gas * price + value: address {sender} have {balance} want {fee}"),
            ),
            Error::OverflowPaymentInTransaction => (
                RefusalKind::Invalid,
                format!(
                    "insufficient funds for gas * price + value: address {sender} required balance exceeds 256 bits"
                ),
            ),
            Error::GasPriceLessThanBasefee => (
                RefusalKind::BaseFee,
                format!(
                    "max fee per gas less than block base fee: address {sender}, maxFeePerGas: {}, baseFee: {base_fee}",
                    envelope.max_fee_per_gas()
                ),
            ),
            Error::BlobGasPriceGreaterThanMax { block_blob_gas_price, tx_max_fee_per_blob_gas } => (
                RefusalKind::BaseFee,
                format!(
                    "max fee per blob gas less than block blob gas fee: address {sender} blobGasFeeCap: \
                     {tx_max_fee_per_blob_gas}, blobBaseFee: {block_blob_gas_price}"
                ),
            ),
            Error::CallerGasLimitMoreThanBlock => (RefusalKind::BlockGas, "gas limit reached".into()),
            other => (RefusalKind::Invalid, invalid(other, tx)),
        };
        Self { kind, reason }
    }
}

/// Returns geth's words for a transaction that no block can hold.
fn invalid(error: &InvalidTransaction, tx: &Tx) -> String {
    use InvalidTransaction as Error;
    let sender = tx.sender;
    let envelope = &tx.envelope;
    match error {
        Error::PriorityFeeGreaterThanMaxFee => format!(
            "max priority fee per gas higher than max fee per gas: address {sender}, maxPriorityFeePerGas: {}, \
             maxFeePerGas: {}",
            envelope.max_priority_fee_per_gas().unwrap_or_default(),
            envelope.max_fee_per_gas()
        ),
        Error::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
            format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}")
        }
        Error::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
            format!("insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}")
        }
        Error::TxGasLimitGreaterThanCap { gas_limit, cap } => {
            format!("transaction gas limit too high (cap: {cap}, tx: {gas_limit})")
        }
        Error::RejectCallerWithCode => format!("sender not an eoa: address {sender}"),
        Error::CreateInitCodeSizeLimit => {
            format!("max initcode size exceeded: code size {}", envelope.input().len())
        }
        Error::InvalidChainId | Error::MissingChainId => "invalid chain id for signer".into(),
        Error::EmptyBlobs => "blob transaction missing blob hashes".into(),
        Error::TooManyBlobs { max, have } => {
            format!("blob transaction has too many blobs: have {have}, permitted {max}")
        }
        Error::BlobVersionNotSupported => "blob hash version mismatch".into(),
        Error::EmptyAuthorizationList => format!("EIP-7702 transaction with empty auth list (sender {sender})"),
        Error::AuthorizationListInvalidFields | Error::Eip7873MissingTarget => {
            format!("EIP-7702 transaction cannot be used to create contract (sender {sender})")
        }
        Error::Eip2930NotSupported
        | Error::Eip1559NotSupported
        | Error::Eip4844NotSupported
        | Error::Eip7702NotSupported
        | Error::Eip7873NotSupported
        | Error::AccessListNotSupported
        | Error::AuthorizationListNotSupported => "transaction type not supported".into(),
        other => other.to_string(),
    }
}
