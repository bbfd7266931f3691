//! Decodes a block from its bytes.
//!
//! reads   RLP
//! writes  [`GivenBlock`]; or the offset of the first error, and what is wrong there
//! source  the yellow paper, 4.3; EIP-2718, 4895

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::B256;
use alloy_rlp::Decodable;
use hearth_crypto::keccak::keccak256;

use super::header::check_fields;
use super::rlp::Item;
use super::{GivenBlock, InvalidBlock, RlpFault, check_rlp};
use crate::tx::{UnrecoveredTx, decode_in_block};

/// Ommers that a block may have, before the merge.
const OMMERS_MAX: usize = 2;
/// The parts of a block, in order. Blocks before Shanghai lack the last.
const PARTS: [&str; 4] = ["header", "transactions", "ommers", "withdrawals"];

/// Decodes a block. `at` is the offset of its first byte, from which errors count.
pub fn decode_block(bytes: &[u8], at: u64) -> Result<GivenBlock, InvalidBlock> {
    check_rlp(bytes, at)?;
    let block = Item::first(bytes, at).filter(|block| block.is_list);
    let block = block.ok_or_else(|| RlpFault::new(at, "expected a list: a block is one"))?;
    let parts: Vec<Item<'_>> = block.items().take(PARTS.len() + 1).collect();
    if parts.len() > PARTS.len() {
        return Err(RlpFault::new(parts[PARTS.len()].at, "a block has no fifth part").into());
    }
    if let Some((name, part)) = PARTS.iter().zip(&parts).find(|(_, part)| !part.is_list) {
        return Err(RlpFault::new(part.at, format!("{name}: expected a list")).into());
    }
    let [header, txs, ommers, withdrawals @ ..] = &parts[..] else {
        let what = format!("a block of {} parts lacks its {}", parts.len(), PARTS[parts.len()]);
        return Err(RlpFault::new(at, what).into());
    };
    let decoded = decode_header(header)?;
    let count = ommers.items().count();
    if count > OMMERS_MAX {
        return Err(InvalidBlock::field("uncles", format!("too many uncles: {count} > {OMMERS_MAX}")));
    }
    let ommers = ommers.items().map(|ommer| decode_header(&ommer)).collect::<Result<_, _>>()?;
    let txs = txs.items().enumerate().map(|(index, item)| decode_tx(index, &item)).collect::<Result<_, _>>()?;
    let withdrawals = withdrawals.first().map(decode_withdrawals).transpose()?;
    let hash = B256::from(keccak256(header.whole));
    Ok(GivenBlock { header: decoded, hash, txs, ommers, withdrawals, size: bytes.len() as u64 })
}

fn decode_header(item: &Item<'_>) -> Result<Header, RlpFault> {
    check_fields(item)?;
    Header::decode(&mut &item.whole[..]).map_err(|error| RlpFault::new(item.at, format!("header: {error}")))
}

/// Decodes a transaction of a block: a list if it is a legacy transaction, else bytes that begin with the type.
fn decode_tx(index: usize, item: &Item<'_>) -> Result<UnrecoveredTx, RlpFault> {
    let fault = |what: &dyn std::fmt::Display| RlpFault::new(item.at, format!("transaction {index}: {what}"));
    let raw = if item.is_list { item.whole } else { item.payload };
    if !item.is_list && !matches!(raw.first(), Some(0..0x80)) {
        return Err(fault(&"it does not begin with a type"));
    }
    decode_in_block(raw).map_err(|error| fault(&error))
}

fn decode_withdrawals(list: &Item<'_>) -> Result<Vec<Withdrawal>, RlpFault> {
    let decode = |(index, item): (usize, Item<'_>)| {
        let mut bytes = item.whole;
        let fault = |what: &dyn std::fmt::Display| RlpFault::new(item.at, format!("withdrawal {index}: {what}"));
        let withdrawal = Withdrawal::decode(&mut bytes).map_err(|error| fault(&error))?;
        if bytes.is_empty() { Ok(withdrawal) } else { Err(fault(&"it has more than four fields")) }
    };
    list.items().enumerate().map(decode).collect()
}
