//! Transactions: content, encoding and signatures.
//!
//! reads   untrusted bytes from clients and from blocks
//! writes  [`Tx`] with verified signatures: the only other source of one is our own log
//! memory  a transaction has at most [`SIZE_MAX`] bytes, [`INPUTS_MAX`] inputs and [`OUTPUTS_MAX`] outputs
//! drops   bytes that do not decode or verify, with a [`TxError`]
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
//! No Ethereum transaction begins with 0x68: typed ones count up from 1, and legacy ones begin at 0xc0. So both kinds
//! take the same path, through `eth_sendRawTransaction` and through consensus. The id is the hash of 0x68 and the
//! payload, without signatures, and the id is what is signed: so it covers chain id and fee. Each owner signs once, for
//! any number of spent outputs; owners are part of the transaction, in ascending order, so that signatures are verified
//! before outputs are looked up, in bursts, and once for pool and block together.

mod build;
#[cfg(test)]
mod tests;
mod verify;
mod wire;

#[cfg(test)]
pub(crate) use build::signed;
pub use build::{BuildError, Builder};
pub use verify::{Checker, UnverifiedTx, verify};
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

/// The part of a transaction that its owners sign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    /// The chain that it is for.
    pub chain_id: u64,
    /// Outputs that are spent, each as a whole.
    pub inputs: Vec<OutPoint>,
    /// Outputs that are created.
    pub outputs: Vec<Output>,
    /// Units of the native asset that are burnt.
    pub fee: u64,
    /// The action besides the transfer.
    pub action: Action,
}

/// An action in addition to spending and creating outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Only spends and creates outputs.
    Transfer,
    /// Makes a new asset, which is named by the first input ([`OutPoint::asset_issued`]).
    Issue {
        /// Ticker of the new asset.
        code: String,
        /// Digits after the point when an amount is written.
        decimals: u8,
        /// Whether the issuer may issue more of it.
        open: bool,
        /// The issuer, who must sign the transaction.
        issuer: OwnerKey,
        /// How many units come into being; the outputs hold exactly these.
        amount: u64,
    },
    /// Makes more of an asset that is open; its issuer signs.
    IssueMore {
        /// The asset to issue more of.
        asset: AssetId,
        /// How many units come into being.
        amount: u64,
    },
    /// Takes units of the native asset to an account of the EVM.
    Prism {
        /// Account on the EVM.
        recipient: Address,
        /// How many units of the native asset go there.
        amount: u64,
    },
}

/// A transaction with verified signatures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tx {
    /// Hash of the signed content.
    pub id: B256,
    /// The whole encoding, signatures included.
    pub raw: Bytes,
    /// The decoded content that the owners signed.
    pub payload: Payload,
    /// The signers, in ascending order.
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

/// Returns the minimum fee for a transaction of `size` bytes, in units.
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
    /// The transaction exceeds [`SIZE_MAX`].
    #[error("oversized data: transaction size {0}, limit {SIZE_MAX}")]
    Size(usize),
    /// The bytes do not decode.
    #[error("rlp: {0}")]
    Rlp(alloy_rlp::Error),
    /// The bytes decode, but are not the canonical encoding.
    #[error("rlp: not the one form of this transaction")]
    Form,
    /// The transaction is for another chain.
    #[error("invalid chain id for signer: have {have} want {want}")]
    ChainId {
        /// Chain id in the transaction.
        have: u64,
        /// Id of this chain.
        want: u64,
    },
    /// The kind is unknown.
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
