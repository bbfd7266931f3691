//! What of a block the next one's environment follows from. All but the hash is known once the block is executed.

use alloy_primitives::{B256, keccak256};
use revm::primitives::hardfork::SpecId;

use crate::block::Block;
use crate::exec::BlockEnv;

/// A block, as the next one sees it.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    pub number: u64,
    pub timestamp: u64,
    pub gas_limit: u64,
    pub gas_used: u64,
    /// Wei per unit of gas; `None` before London.
    pub base_fee: Option<u64>,
    /// Blob gas beyond the target, before this block, and what this block used; 0 before Cancun.
    pub excess_blob_gas: u64,
    pub blob_gas_used: u64,
    prevrandao: B256,
    /// The hash of the block before it,
    before: B256,
    /// and its own, where it is sealed.
    pub hash: Option<B256>,
}

impl From<&Block> for Parent {
    fn from(block: &Block) -> Self {
        let header = &block.header;
        Self {
            number: header.number,
            timestamp: header.timestamp,
            gas_limit: header.gas_limit,
            gas_used: header.gas_used,
            base_fee: header.base_fee_per_gas,
            excess_blob_gas: header.excess_blob_gas.unwrap_or_default(),
            blob_gas_used: header.blob_gas_used.unwrap_or_default(),
            prevrandao: header.mix_hash,
            before: header.parent_hash,
            hash: Some(block.hash),
        }
    }
}

impl Parent {
    /// A block that is executed and not sealed.
    pub(super) fn executed(env: &BlockEnv, gas_used: u64, blob_gas_used: u64) -> Self {
        Self {
            number: env.number,
            timestamp: env.timestamp,
            gas_limit: env.gas_limit,
            gas_used,
            base_fee: env.spec.is_enabled_in(SpecId::LONDON).then_some(env.base_fee),
            excess_blob_gas: env.blobs.excess_gas,
            blob_gas_used,
            prevrandao: env.prevrandao,
            before: env.parent_hash.expect("of two blocks in the making the first one's parent is sealed"),
            hash: None,
        }
    }

    /// The default `PREVRANDAO` of the next block. It is derived from what is known once the parent is executed, so it
    /// does not wait for the parent's hash.
    pub(super) fn draw(&self) -> B256 {
        keccak256([self.before.as_slice(), self.prevrandao.as_slice(), &(self.number + 1).to_be_bytes()].concat())
    }
}
