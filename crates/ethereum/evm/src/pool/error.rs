//! Why the pool refuses or drops a transaction: in geth's words, with geth's error codes.

use alloy_primitives::{Address, B256};

/// Why a transaction is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The pool has it already.
    #[error("already known")]
    AlreadyKnown,
    /// The account has sent a transaction of this nonce, and it is in a block.
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow {
        /// The account's next nonce.
        next: u64,
        /// The nonce of the refused transaction.
        nonce: u64,
    },
    /// It comes behind a gap, and the account has as many behind it as may be.
    #[error("nonce too high: tx nonce {nonce}, gapped nonce {gapped}")]
    NonceTooHigh {
        /// The nonce of the refused transaction.
        nonce: u64,
        /// The first that is missing.
        gapped: u64,
    },
    /// A nonce of 2^64 − 1 (EIP-2681).
    #[error("nonce has max value")]
    NonceMax,
    /// It would take another's place and pays too little more.
    #[error("replacement transaction underpriced")]
    ReplaceUnderpriced,
    /// The pool is full, and every transaction in it pays more.
    #[error("transaction underpriced")]
    Underpriced,
    /// The tip is below the least that this pool takes.
    #[error("transaction gas price below minimum: gas tip cap {tip}, minimum needed {minimum}")]
    TipTooLow {
        /// The offered tip, in wei per gas.
        tip: u128,
        /// The configured minimum, in wei per gas.
        minimum: u128,
    },
    /// The cap on the price of blob gas is below the least price there is.
    #[error("transaction gas price below minimum: blob fee cap {cap}, minimum needed {minimum}")]
    BlobFeeTooLow {
        /// In wei for a unit of blob gas.
        cap: u128,
        /// In wei for a unit of blob gas.
        minimum: u128,
    },
    /// A blob transaction without a blob.
    #[error("blobless blob transaction")]
    Blobless,
    /// More blobs than a transaction may have.
    #[error("too many blobs in transaction: have {have}, permitted {permitted}")]
    TooManyBlobs {
        /// Blobs of the transaction.
        have: u64,
        /// The maximum number of blobs in a transaction.
        permitted: u64,
    },
    /// A versioned hash that is none of a KZG commitment.
    #[error("blob {index} has invalid hash version")]
    BlobHashVersion {
        /// The index of the blob.
        index: usize,
    },
    /// Its account has transactions of the other kind here: with blobs, or without.
    #[error("address already reserved")]
    AddressReserved,
    /// The pool is full, and nothing in it that could go pays less.
    #[error("txpool is full")]
    Full,
    /// The pool is full, and what pays less can be executed now, while this cannot.
    #[error("future transaction tries to replace pending")]
    FutureReplacePending,
    /// The account has as many transactions here as may be.
    #[error("account limit exceeded: pooled {pooled} txs")]
    AccountLimit {
        /// The account's pooled transactions.
        pooled: usize,
    },
    /// The account cannot pay for it; the text has balance, cost and shortfall, in wei.
    #[error("insufficient funds for gas * price + value: {0}")]
    InsufficientFunds(Box<str>),
    /// Less gas than any transaction of this shape costs.
    #[error("intrinsic gas too low: gas {gas}, minimum needed {needed}")]
    IntrinsicGas {
        /// The transaction's gas limit.
        gas: u64,
        /// The least gas of a transaction of this shape.
        needed: u64,
    },
    /// Less gas than its data cost at least (EIP-7623).
    #[error("insufficient gas for floor data gas cost: gas {gas}, minimum needed {needed}")]
    FloorDataGas {
        /// The transaction's gas limit.
        gas: u64,
        /// The least gas for its data, by EIP-7623.
        needed: u64,
    },
    /// More gas than a block has.
    #[error("exceeds block gas limit")]
    GasLimit,
    /// More gas than a transaction may have (EIP-7825).
    #[error("transaction gas limit too high (cap: {cap}, tx: {gas})")]
    GasLimitTooHigh {
        /// The most gas that a transaction may have.
        cap: u64,
        /// The transaction's gas limit.
        gas: u64,
    },
    /// The tip's cap is above the cap of the whole fee.
    #[error("max priority fee per gas higher than max fee per gas")]
    TipAboveFeeCap,
    /// More code to create a contract with than may be (EIP-3860).
    #[error("max initcode size exceeded: code size {size}, limit {limit}")]
    InitCode {
        /// The size of the initcode, in bytes.
        size: usize,
        /// The maximum, in bytes.
        limit: usize,
    },
    /// A type that a later fork brings.
    #[error("transaction type not supported: type {kind} rejected, pool not yet in {fork}")]
    Type {
        /// The transaction's EIP-2718 type byte.
        kind: u8,
        /// The fork that brings it.
        fork: &'static str,
    },
    /// A set-code transaction that sets no code (EIP-7702).
    #[error("set code tx must have at least one authorization tuple")]
    NoAuthorization,
    /// One of its authorities has more transactions in flight than an account with a delegation may have.
    #[error("authority already reserved")]
    AuthorityReserved,
    /// Its account has code that is no delegation (EIP-3607).
    #[error("sender not an eoa: address {0}")]
    NotEoa(Address),
    /// Its account has a delegation, set or about to be, and a transaction in flight.
    #[error("in-flight transaction limit reached for delegated accounts")]
    DelegatedInFlight,
    /// Its account has a delegation, set or about to be, and this is not the next nonce.
    #[error("gapped-nonce tx from delegated accounts")]
    DelegatedGapped,
}

/// Why the pool has given a transaction up that it had taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DropReason {
    /// Another of the same account and nonce paid more.
    #[error("replaced by transaction {0}")]
    Replaced(B256),
    /// The pool was full and others paid more.
    #[error("evicted: txpool is full and this transaction paid the least")]
    Evicted,
    /// It came behind a gap in its account's nonces, and too many did.
    #[error("evicted: nonce too high: too many transactions behind a nonce gap")]
    Gapped,
    /// It has waited longer than allowed.
    #[error("expired: not included within {0} s")]
    Expired(u64),
    /// The state no longer allows it; the reason.
    #[error("{0}")]
    Invalid(PoolError),
    /// Execution refused it: the error.
    #[error("{0}")]
    Refused(String),
    /// The node's operator removed it.
    #[error("removed on demand")]
    Demand,
}

const _: () = assert!(size_of::<PoolError>() <= 48, "a burst's results are a vector of these");
