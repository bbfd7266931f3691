//! The rules of ommers: headers beside the chain that a block before the merge may pay for.
//!
//! reads   a block's header and ommers; the blocks before it
//! writes  the first rule that is broken
//! memory  the hashes of a few blocks and their ommers
//! source  the yellow paper, 11.1; geth's `VerifyUncles`

use std::collections::HashSet;
use std::sync::Arc;

use alloy_consensus::Header;
use alloy_consensus::proofs::calculate_ommers_root;
use alloy_primitives::B256;
use revm::primitives::hardfork::SpecId;

use super::header::check_header;
use super::{InvalidBlock, expect};
use crate::block::Block;
use crate::genesis::Genesis;

/// How many blocks back an ommer's parent can be.
pub const GENERATIONS: usize = 7;

/// Refuses ommers that are not those of the header, or that it cannot have. `ancestors` are the [`GENERATIONS`] blocks
/// before it, the newest first, as far as there are so many.
pub fn check_ommers(
    header: &Header,
    ommers: &[Header],
    ancestors: &[Arc<Block>],
    genesis: &Genesis,
) -> Result<(), InvalidBlock> {
    expect("sha3Uncles", header.ommers_hash, calculate_ommers_root(ommers))?;
    if ommers.is_empty() {
        return Ok(());
    }
    let wrong = |index: usize, rule: &str| InvalidBlock::field("uncles", format!("a list with item {index}"), rule);
    if genesis.spec(header.number, header.timestamp).is_enabled_in(SpecId::MERGE) {
        return Err(wrong(0, "though no block since the merge has any"));
    }
    let of_ancestors = ancestors.iter().flat_map(|block| &block.ommers);
    let mut known: HashSet<B256> = of_ancestors.map(Header::hash_slow).collect();
    for (index, ommer) in ommers.iter().enumerate() {
        let hash = ommer.hash_slow();
        if !known.insert(hash) {
            return Err(wrong(index, "which is paid for already"));
        }
        if ancestors.iter().any(|block| block.hash == hash) {
            return Err(wrong(index, "which is a block of the chain"));
        }
        let parent = ancestors.iter().skip(1).find(|block| block.hash == ommer.parent_hash);
        let parent = parent.ok_or_else(|| wrong(index, "whose parent is none of the blocks two to seven before"))?;
        check_header(ommer, &parent.header, parent.hash, genesis)
            .map_err(|why| wrong(index, &format!("which is invalid: {why}")))?;
    }
    Ok(())
}
