//! Transactions: what they say, their bytes, and who signed them.
//!
//! reads   bytes from clients and from blocks, which are hostile
//! writes  [`Tx`], whose signatures have been verified: there is no other way to get one but from our own log
//! memory  a transaction has at most [`SIZE_MAX`] bytes, [`INPUTS_MAX`] inputs and [`OUTPUTS_MAX`] outputs
//! drops   what does not decode or verify, with a [`TxError`]
//!
//! ```text
//! 0x68 ‖ rlp([ payload, [[owner, signature], …] ])
//! payload = [chain id, kind, [[transaction, index], …], [[asset, amount, owner, memo], …], fee, detail]
//! detail  = []                                    kind 1, transfer
//!           [code, decimals, open, issuer, amount] kind 2, issue: a new asset
//!           [asset, amount]                        kind 2, issue: more of an open one
//!           [address, amount]                      kind 3, prism: to an account of the EVM
//! ```
//!
//! 0x68 begins no transaction of Ethereum's: its typed ones count up from 1, and its old ones begin at 0xc0. So both
//! go the same way, through `eth_sendRawTransaction` and through consensus. The id is the hash of 0x68 and the
//! payload, without signatures, and it is what is signed: so the chain id and the fee are. Each owner signs once,
//! however many outputs of his are spent; owners are in the transaction, in rising order, so that signatures are
//! verified before the outputs are looked up, in bursts, and once for the pool and the block together.

mod build;
#[cfg(test)]
mod tests;
mod verify;
mod wire;

#[cfg(test)]
pub(crate) use build::signed;
pub use build::{BuildError, Builder};
pub use verify::{Checker, Unverified, verify};
pub use wire::decode;

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};

use crate::address::OwnerKey;
use crate::asset::AssetId;
use crate::output::{OutPoint, Output};

/// The first byte of every transaction of this ledger.
pub const FIRST_BYTE: u8 = 0x68;
/// The most inputs of a transaction.
pub const INPUTS_MAX: usize = 256;
/// The most outputs of a transaction.
pub const OUTPUTS_MAX: usize = 256;
/// The most bytes of a transaction, signatures included.
pub const SIZE_MAX: usize = 64 << 10;
/// The fee for each byte of a transaction that is the least, in units of the native asset.
pub const FEE_PER_BYTE: u64 = 10;

/// What is signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    /// The chain that it is for.
    pub chain_id: u64,
    /// What is spent, whole.
    pub inputs: Vec<OutPoint>,
    /// What is made.
    pub outputs: Vec<Output>,
    /// What is burnt of the native asset, in units.
    pub fee: u64,
    /// What else happens.
    pub action: Action,
}

/// What a transaction does beside spending and making outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Nothing.
    Transfer,
    /// Makes a new asset, which is named by the first input ([`OutPoint::asset_issued`]).
    Issue {
        /// Its short name.
        code: String,
        /// Digits after the point when an amount is written.
        decimals: u8,
        /// Whether the issuer may issue more of it.
        open: bool,
        /// Who issues it; signs the transaction.
        issuer: OwnerKey,
        /// How many units come into being; the outputs hold exactly these.
        amount: u64,
    },
    /// Makes more of an asset that is open; its issuer signs.
    IssueMore {
        /// Which one.
        asset: AssetId,
        /// How many units come into being.
        amount: u64,
    },
    /// Takes units of the native asset to an account of the EVM.
    Prism {
        /// The account.
        recipient: Address,
        /// How many units.
        amount: u64,
    },
}

/// A transaction whose signatures are right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tx {
    /// The hash of what is signed.
    pub id: B256,
    /// All its bytes.
    pub raw: Bytes,
    /// What is signed.
    pub payload: Payload,
    /// Who signed, in rising order.
    pub owners: Vec<OwnerKey>,
}

/// A transaction on its way through the node.
pub type SharedTx = Arc<Tx>;

impl Tx {
    /// The name of its output `index`.
    pub fn out_point(&self, index: usize) -> OutPoint {
        OutPoint { transaction: self.id, index: u32::try_from(index).expect("outputs are few") }
    }

    /// The least fee for it, in units.
    pub fn fee_min(&self) -> u64 {
        fee_min(self.raw.len())
    }

    /// The asset that it makes, where it makes one.
    pub fn new_asset(&self) -> Option<AssetId> {
        match self.payload.action {
            Action::Issue { .. } => Some(self.payload.inputs.first()?.asset_issued(self.payload.chain_id)),
            _ => None,
        }
    }
}

/// The least fee for a transaction of so many bytes, in units.
pub fn fee_min(size: usize) -> u64 {
    size as u64 * FEE_PER_BYTE
}

/// Whether bytes are meant for this ledger and not for the EVM's.
pub fn is_ours(raw: &[u8]) -> bool {
    raw.first() == Some(&FIRST_BYTE)
}

/// Why bytes are no transaction.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum TxError {
    /// Too many bytes.
    #[error("oversized data: transaction size {0}, limit {SIZE_MAX}")]
    Size(usize),
    /// The bytes do not decode.
    #[error("rlp: {0}")]
    Rlp(alloy_rlp::Error),
    /// The bytes decode to a transaction whose bytes are others.
    #[error("rlp: not the one form of this transaction")]
    Form,
    /// For another chain.
    #[error("invalid chain id for signer: have {have} want {want}")]
    ChainId {
        /// The transaction's.
        have: u64,
        /// This chain's.
        want: u64,
    },
    /// A kind that is none.
    #[error("utxo transaction kind {0} is not known")]
    Kind(u64),
    /// A field is not as it must be.
    #[error("{0}")]
    Field(&'static str),
    /// Spends the same output twice.
    #[error("output {0} is spent twice by one transaction")]
    InputTwice(OutPoint),
    /// A signature is wrong.
    #[error("invalid signature of {0}")]
    Signature(OwnerKey),
}
