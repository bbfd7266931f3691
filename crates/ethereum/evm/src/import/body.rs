//! The rules of a body: its roots before it is executed, and what its execution must come to.
//!
//! reads   a header; the transactions and withdrawals; what execution says
//! writes  the first field that breaks a rule, by its name in JSON-RPC
//! source  the yellow paper, 4.3.2 and 4.4; EIP-155, 4844, 4895, 7685, 7934

use alloy_consensus::Header;
use alloy_consensus::proofs::calculate_withdrawals_root;
use alloy_eips::eip4895::Withdrawal;
use alloy_eips::eip7685::Requests;
use alloy_primitives::{B256, Bytes};
use revm::primitives::hardfork::SpecId;

use super::{InvalidBlock, expect, expect_result, expect_root};
use crate::blobs;
use crate::block::{Body, SIZE_MAX, transactions_root};
use crate::exec::{BlockFault, Verdict};
use crate::tx::{SharedTx, UnrecoveredTx, recover};

/// Transactions whose senders are recovered together: many times the width of the vector arithmetic.
const BURST: usize = 1_024;

/// Recovers the senders of a block's transactions.
pub fn senders(txs: Vec<UnrecoveredTx>) -> Result<Vec<SharedTx>, InvalidBlock> {
    let mut recovered = Vec::with_capacity(txs.len());
    let mut rest = txs.into_iter();
    loop {
        let burst: Vec<UnrecoveredTx> = rest.by_ref().take(BURST).collect();
        if burst.is_empty() {
            return Ok(recovered);
        }
        for tx in recover(burst) {
            let index = recovered.len();
            recovered.push(tx.map_err(|why| InvalidBlock::Transaction { index, reason: why.to_string() })?);
        }
    }
}

/// Refuses a body that is not the one of the header, or that is too large.
pub fn check_body(
    header: &Header,
    spec: SpecId,
    txs: &[SharedTx],
    withdrawals: Option<&[Withdrawal]>,
    size: u64,
) -> Result<(), InvalidBlock> {
    if spec.is_enabled_in(SpecId::OSAKA) && size > SIZE_MAX {
        return Err(InvalidBlock::Size { size, max: SIZE_MAX });
    }
    match withdrawals {
        Some(_) if header.withdrawals_root.is_none() => {
            return Err(InvalidBlock::field("withdrawals", "withdrawals present in block body"));
        }
        None if header.withdrawals_root.is_some() => {
            return Err(InvalidBlock::field("withdrawals", "missing withdrawals in block body"));
        }
        _ => {}
    }
    expect_root("transactionsRoot", "transaction", header.transactions_root, transactions_root(txs))?;
    if !spec.is_enabled_in(SpecId::SPURIOUS_DRAGON) {
        refuse_chain_ids(txs)?;
    }
    if let (Some(root), Some(withdrawals)) = (header.withdrawals_root, withdrawals) {
        expect_root("withdrawalsRoot", "withdrawals", root, calculate_withdrawals_root(withdrawals))?;
    }
    // Before Cancun no transaction has blobs: execution refuses the type.
    let blob_gas = |used: u64| {
        expect("blobGasUsed", &used, &gas_of_all(txs), |used, all| {
            format!("blob gas used mismatch (header {used}, calculated {all})")
        })
    };
    header.blob_gas_used.map_or(Ok(()), blob_gas)
}

/// Refuses signatures for one chain, which EIP-155 brought: before it, their `v` is none. Execution refuses the other
/// types of transactions.
fn refuse_chain_ids(txs: &[SharedTx]) -> Result<(), InvalidBlock> {
    let is_protected = |tx: &SharedTx| tx.envelope.as_legacy().is_some_and(|signed| signed.tx().chain_id.is_some());
    match txs.iter().position(is_protected) {
        Some(index) => Err(InvalidBlock::Transaction { index, reason: "invalid transaction v, r, s values".into() }),
        None => Ok(()),
    }
}

fn gas_of_all(txs: &[SharedTx]) -> u64 {
    txs.iter().map(|tx| blobs::gas_of(&tx.envelope)).sum()
}

/// The result of executing a block, but for the state.
#[derive(Clone, Copy, Debug)]
pub struct BlockOutcome<'a> {
    /// One verdict for each transaction.
    pub verdicts: &'a [Verdict],
    /// The root of the state after each transaction; nothing from Byzantium on.
    pub roots: &'a [B256],
    /// Gas used by all transactions.
    pub gas_used: u64,
    /// Requests to the consensus layer.
    pub requests: &'a [Bytes],
    /// Why there can be no such block.
    pub fault: Option<&'a BlockFault>,
}

/// Refuses a header that says something else than the block's execution came to; the body with its receipts else.
pub fn check_outcome(
    header: &Header,
    txs: &[SharedTx],
    withdrawals: Vec<Withdrawal>,
    outcome: BlockOutcome<'_>,
) -> Result<Body, InvalidBlock> {
    for (index, verdict) in outcome.verdicts.iter().enumerate() {
        if let Verdict::Refused(refusal) = verdict {
            return Err(InvalidBlock::Transaction { index, reason: refusal.reason.clone() });
        }
    }
    if let Some(fault) = outcome.fault {
        return Err(fault.clone().into());
    }
    expect("gasUsed", &header.gas_used, &outcome.gas_used, |remote, local| {
        format!("invalid gas used (remote: {remote} local: {local})")
    })?;
    let base_fee = header.base_fee_per_gas.unwrap_or_default();
    let mut body = Body { withdrawals, ..Body::new(txs, outcome.verdicts.to_vec(), base_fee) };
    body.set_roots(outcome.roots);
    expect_result("receiptsRoot", "receipt root hash", header.receipts_root, body.receipts_root())?;
    if header.logs_bloom != body.bloom() {
        // geth adds both, a kilobyte of digits.
        return Err(InvalidBlock::field("logsBloom", "invalid bloom"));
    }
    let requests = |hash: B256| {
        let made = Requests::new(outcome.requests.to_vec()).requests_hash();
        expect_result("requestsHash", "requests hash", hash, made)
    };
    header.requests_hash.map_or(Ok(()), requests)?;
    Ok(body)
}
