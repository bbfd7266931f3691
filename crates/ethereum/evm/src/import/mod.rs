//! Imported blocks: decoding, and every rule before and after their execution.
//!
//! reads   RLP of blocks, one after the other; the genesis; the parent's header
//! writes  [`GivenBlock`]; or the first error of a block, by the name of its field or the offset
//! memory  one block
//! source  the yellow paper, 4.3 and 4.4; EIP-100, 1559, 2718, 3675, 4399, 4788, 4844, 4895, 7685, 7691, 7892, 7918,
//!         7934
//!
//! ```text
//!  chain.rlp ─► stream ─► rlp ─► decode ─► header, body ─► execution ─► outcome ─► appended, or not
//!               bounded   heads  fields    the rules       in `chain`   the rules
//! ```
//!
//! The chain's own blocks obey the rules by construction; [`crate::chain::Chain::import`] has imported ones verified
//! here. Additional rules of the pool (size, gas of authorization lists) do not apply to blocks. Blocks before the
//! merge are held to the rules of difficulty, ommers and rewards, but the proof-of-work seal is not verified: such
//! blocks are trusted to be those of their chain.

mod body;
mod decode;
mod header;
mod ommers;
mod rlp;
mod stream;
#[cfg(test)]
mod tests;
mod work;

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::B256;
use revm::primitives::hardfork::SpecId;

pub use body::{BlockOutcome, check_body, check_outcome, senders};
pub use decode::decode_block;
pub use header::{check_genesis, check_header};
pub use ommers::{GENERATIONS, check_ommers};
pub use rlp::{RlpFault, check_rlp};
pub use stream::{BLOCK_BYTES_MAX, BlockReader, ReadError};
pub use work::rewards;

use crate::blobs::BlobEnv;
use crate::exec::{BlockEnv, BlockFault};
use crate::genesis::Genesis;
use crate::tx::UnrecoveredTx;

/// A block that decodes; nothing else is known of it.
#[derive(Clone, Debug)]
pub struct GivenBlock {
    /// The decoded header; nothing of it is verified.
    pub header: Header,
    /// Keccak-256 of the header.
    pub hash: B256,
    /// In order; their senders are not known yet.
    pub txs: Vec<UnrecoveredTx>,
    /// The ommers' headers; none since the merge.
    pub ommers: Vec<Header>,
    /// The withdrawals; `None` if the block has no such list.
    pub withdrawals: Option<Vec<Withdrawal>>,
    /// Length of its RLP, in bytes.
    pub size: u64,
}

/// Why a block is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBlock {
    /// Its bytes are no block.
    #[error(transparent)]
    Rlp(#[from] RlpFault),
    /// A field of the header, or a part of the body, that breaks a rule.
    #[error("{words}")]
    Field {
        /// The field, as JSON-RPC names it.
        field: &'static str,
        /// The broken rule, in geth's words where geth has it.
        words: String,
    },
    /// A transaction that cannot be in the block.
    #[error("could not apply tx {index}: {reason}")]
    Transaction {
        /// Its place in the block.
        index: usize,
        /// Why not, in geth's words.
        reason: String,
    },
    /// The executed transactions cannot form a block.
    #[error(transparent)]
    Fault(#[from] BlockFault),
    /// It is longer than the rules let it be.
    #[error("block RLP-encoded size exceeds maximum: {size} > {max}")]
    Size {
        /// Length of its RLP, in bytes.
        size: u64,
        /// The maximum size, in bytes (EIP-7934).
        max: u64,
    },
    /// Its execution in order and on several threads do not agree. That is this program's fault, and not the block's.
    #[error("executed in order and on {threads} threads, the block has other {what}: this is a fault of this program")]
    Paths {
        /// The number of threads.
        threads: usize,
        /// The part that differs.
        what: &'static str,
    },
}

impl InvalidBlock {
    /// The fault of a field that breaks a rule: `words` say which.
    pub fn field(field: &'static str, words: impl Into<String>) -> Self {
        Self::Field { field, words: words.into() }
    }
}

/// Refuses a field with an unexpected value.
pub(crate) fn expect<T: PartialEq>(
    field: &'static str,
    found: &T,
    expected: &T,
    words: impl FnOnce(&T, &T) -> String,
) -> Result<(), InvalidBlock> {
    if found == expected { Ok(()) } else { Err(InvalidBlock::field(field, words(found, expected))) }
}

/// Refuses a root in the header that is not the one of the body: "uncle root hash mismatch (…)".
pub(crate) fn expect_root(field: &'static str, what: &str, found: B256, computed: B256) -> Result<(), InvalidBlock> {
    expect(field, &found, &computed, |found, computed| {
        format!("{what} root hash mismatch (header value {found:x}, calculated {computed:x})")
    })
}

/// Refuses a result of the execution that is not the one in the header: "invalid merkle root (remote: … local: …)".
pub(crate) fn expect_result(field: &'static str, what: &str, found: B256, computed: B256) -> Result<(), InvalidBlock> {
    expect(field, &found, &computed, |found, computed| {
        format!("invalid {what} (remote: {found:x} local: {computed:x})")
    })
}

/// Returns the environment for executing the block of this header, in a chain of that genesis.
pub fn env_of(header: &Header, genesis: &Genesis) -> BlockEnv {
    let (number, timestamp) = (header.number, header.timestamp);
    let spec = genesis.spec(number, timestamp);
    let is_merged = spec.is_enabled_in(SpecId::MERGE);
    BlockEnv {
        number,
        timestamp,
        beneficiary: header.beneficiary,
        gas_limit: header.gas_limit,
        base_fee: header.base_fee_per_gas.unwrap_or_default(),
        prevrandao: if is_merged { header.mix_hash } else { header.difficulty.into() },
        parent_hash: Some(header.parent_hash),
        parent_beacon_block_root: header.parent_beacon_block_root,
        chain_id: genesis.chain_id,
        spec,
        limits: genesis.limits,
        blobs: BlobEnv {
            params: genesis.blob_params(number, timestamp),
            excess_gas: header.excess_blob_gas.unwrap_or_default(),
        },
        deposit_contract: genesis.deposit_contract,
    }
}
