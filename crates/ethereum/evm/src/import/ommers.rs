//! The rules of ommers: headers of siblings that a block before the merge may reward.
//!
//! reads   a block's header and ommers; the blocks before it
//! writes  the first broken rule
//! memory  the hashes of a few blocks and their ommers
//! source  the yellow paper, 11.1; geth's `VerifyUncles`

use std::collections::HashSet;
use std::sync::Arc;

use alloy_consensus::Header;
use alloy_consensus::proofs::calculate_ommers_root;
use alloy_primitives::B256;
use revm::primitives::hardfork::SpecId;

use super::header::check_header;
use super::{InvalidBlock, expect_root};
use crate::block::Block;
use crate::genesis::Genesis;

/// How many blocks back an ommer's parent can be.
pub const GENERATIONS: usize = 7;

/// Refuses ommers that are not those of the header, or that it cannot have. `ancestors` are the [`GENERATIONS`] blocks
/// before it, the newest first; near block zero there are fewer.
pub fn check_ommers(
    header: &Header,
    ommers: &[Header],
    ancestors: &[Arc<Block>],
    genesis: &Genesis,
) -> Result<(), InvalidBlock> {
    expect_root("sha3Uncles", "uncle", header.ommers_hash, calculate_ommers_root(ommers))?;
    if ommers.is_empty() {
        return Ok(());
    }
    let wrong = |index: usize, words: &str| InvalidBlock::field("uncles", format!("{words}: uncle {index}"));
    if genesis.spec(header.number, header.timestamp).is_enabled_in(SpecId::MERGE) {
        return Err(InvalidBlock::field("uncles", "too many uncles: no block since the merge has any"));
    }
    let of_ancestors = ancestors.iter().flat_map(|block| &block.ommers);
    let mut known: HashSet<B256> = of_ancestors.map(Header::hash_slow).collect();
    for (index, ommer) in ommers.iter().enumerate() {
        let hash = ommer.hash_slow();
        if !known.insert(hash) {
            return Err(wrong(index, "duplicate uncle"));
        }
        if ancestors.iter().any(|block| block.hash == hash) {
            return Err(wrong(index, "uncle is ancestor"));
        }
        let parent = ancestors.iter().skip(1).find(|block| block.hash == ommer.parent_hash);
        let parent = parent.ok_or_else(|| wrong(index, "uncle's parent is not ancestor"))?;
        check_header(ommer, &parent.header, parent.hash, genesis).map_err(|why| wrong(index, &why.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Bytes, Sealable, U256};

    use super::super::work::difficulty;
    use super::*;
    use crate::genesis::Forks;

    /// A header after that of a block; `byte` makes it different from others of the same parent.
    fn child(parent: &Block, byte: u8) -> Header {
        let timestamp = parent.header.timestamp + 15;
        Header {
            parent_hash: parent.hash,
            number: parent.number() + 1,
            timestamp,
            difficulty: difficulty(SpecId::HOMESTEAD, 0, timestamp, &parent.header),
            gas_limit: parent.header.gas_limit,
            extra_data: Bytes::copy_from_slice(&[byte]),
            ..Default::default()
        }
    }

    fn block(header: Header) -> Arc<Block> {
        Arc::new(Block::zero(header.seal_slow()))
    }

    #[test]
    fn ommers_are_headers_beside_the_chain_and_paid_once() {
        let genesis = Genesis { forks: Forks::all_until(SpecId::HOMESTEAD), ..Genesis::dev(7, &[], 30_000_000) };
        let zero = Header { difficulty: U256::from(1 << 20), gas_limit: 30_000_000, ..Default::default() };
        let mut chain = vec![block(zero)];
        for byte in 1..=9 {
            chain.insert(0, block(child(&chain[0], byte)));
        }
        let check = |ommers: &[Header], chain: &[Arc<Block>]| {
            let header = Header { ommers_hash: calculate_ommers_root(ommers), ..child(&chain[0], 0) };
            let ancestors = &chain[..GENERATIONS.min(chain.len())];
            check_ommers(&header, ommers, ancestors, &genesis).map_err(|why| why.to_string())
        };
        let beside = |depth: usize| child(&chain[depth], 99);
        assert_eq!(check(&[], &chain), Ok(()));
        assert_eq!(check(&[beside(1), beside(6)], &chain), Ok(()));
        let said = |ommers: &[Header]| check(ommers, &chain).expect_err("it cannot be");
        assert!(said(&[beside(1), beside(1)]).contains("duplicate uncle: uncle 1"));
        assert!(said(&[chain[0].header.clone()]).contains("uncle is ancestor"));
        for depth in [0, 7] {
            assert!(said(&[beside(depth)]).contains("uncle's parent is not ancestor"), "{depth}");
        }
        let easy = Header { difficulty: U256::ONE, ..beside(2) };
        assert!(said(&[easy]).contains("invalid difficulty: have 1, want "));
        // What an earlier block has paid for.
        let mut paying = Block::clone(&chain[1]);
        paying.ommers = vec![beside(3)];
        let mut paid = chain.clone();
        paid[1] = Arc::new(paying);
        assert!(check(&[beside(3)], &paid).is_err_and(|why| why.contains("duplicate uncle")));
        // Since the merge there are none, and the header says which there are.
        let merged = Genesis::dev(7, &[], 30_000_000);
        let ommers = [beside(1)];
        let header = Header { ommers_hash: calculate_ommers_root(&ommers), ..child(&chain[0], 0) };
        assert!(check_ommers(&header, &ommers, &chain, &merged).is_err());
        assert!(check_ommers(&child(&chain[0], 0), &ommers, &chain, &genesis).is_err());
    }
}
