//! Converts between CometBFT's blocks and ours, and reports the outcome of each transaction.
//!
//! reads   a block's transactions, single or in envelopes; the pool, which knows the senders of the transactions it
//!         holds
//! writes  the ledger's transactions, in order; one result per CometBFT transaction
//! memory  one block
//! drops   nothing: a malformed CometBFT transaction gets a result of its own and has no effect

use std::ops::Range;

use alloy_consensus::Transaction;
use alloy_primitives::map::B256Set;
use alloy_primitives::{Address, B256};
use bytes::Bytes;
use hearth_abci::types::{ExecTxResult, Timestamp};
use hearth_evm::block::{Block, Receipt};
use hearth_evm::chain::{Chain, SealedBlock};
use hearth_evm::side::SideTx;
use hearth_evm::tx::{self, SharedTx};

use crate::check::{CODE_MALFORMED, CODE_REFUSED, CODESPACE, hashes};
use crate::envelope::{self, Content, Sealer};

/// A transaction that took effect in nothing but its fee.
pub const CODE_REVERTED: u32 = 4;

/// The ledger's transactions that one CometBFT transaction holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Their places in the list; empty where it is malformed.
    pub places: Range<usize>,
    /// The same of the side ledger.
    pub side: Range<usize>,
    /// Why the CometBFT transaction is malformed, if it is.
    pub malformed: Option<String>,
}

/// A block of CometBFT's, taken apart.
#[derive(Clone, Debug, Default)]
pub struct UnpackedBlock {
    /// One for each of CometBFT's transactions.
    pub parts: Vec<Part>,
    /// The ledger's transactions, in order.
    pub txs: Vec<SharedTx>,
    /// The side ledger's transactions, in order; they execute before the others.
    pub side: Vec<SideTx>,
}

/// A transaction of either ledger.
enum LedgerTx {
    Evm(SharedTx),
    Side(SideTx),
}

impl UnpackedBlock {
    /// Returns the error of the first malformed transaction.
    pub fn malformed(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| part.malformed.as_deref())
    }
}

/// Unpacks a block. Senders that the pool knows are not recovered again; the others are recovered in one burst.
pub fn unpack(chain: &Chain, txs: &[Bytes]) -> UnpackedBlock {
    let opened: Vec<Result<Content, String>> =
        txs.iter().map(|tx| envelope::open(tx).map_err(|error| error.to_string())).collect();
    let raws: Vec<Bytes> = opened.iter().flatten().flat_map(|content| content.txs().iter().cloned()).collect();
    let mut resolved = resolve(chain, &raws).into_iter();
    let mut unpacked = UnpackedBlock::default();
    for content in opened {
        let (begin, side) = (unpacked.txs.len(), unpacked.side.len());
        let result = content.and_then(|content| {
            let found: Vec<_> = resolved.by_ref().take(content.txs().len()).collect();
            found.into_iter().collect::<Result<Vec<LedgerTx>, String>>()
        });
        let malformed = match result {
            Ok(found) => {
                for one in found {
                    match one {
                        LedgerTx::Evm(tx) => unpacked.txs.push(tx),
                        LedgerTx::Side(tx) => unpacked.side.push(tx),
                    }
                }
                None
            }
            Err(why) => Some(why),
        };
        let (places, side) = (begin..unpacked.txs.len(), side..unpacked.side.len());
        unpacked.parts.push(Part { places, side, malformed });
    }
    unpacked
}

/// The transactions of these bytes: the pool's where it has them.
fn resolve(chain: &Chain, raws: &[Bytes]) -> Vec<Result<LedgerTx, String>> {
    let pool = chain.pool();
    let mut found: Vec<Option<Result<LedgerTx, String>>> =
        hashes(raws).iter().map(|hash| pool.get(hash).map(|tx| Ok(LedgerTx::Evm(tx)))).collect();
    let beside: Vec<usize> = (0..raws.len()).filter(|at| chain.is_side(&raws[*at])).collect();
    let to_verify: Vec<alloy_primitives::Bytes> = beside.iter().map(|at| raws[*at].clone().into()).collect();
    let verified = chain.verify_side(&to_verify.iter().collect::<Vec<_>>());
    for (at, result) in beside.into_iter().zip(verified) {
        found[at] = Some(result.map(LedgerTx::Side).map_err(|error| error.to_string()));
    }
    let mut burst = Vec::new();
    for (raw, slot) in raws.iter().zip(&mut found).filter(|(_, slot)| slot.is_none()) {
        match tx::decode(raw, chain.chain_id()) {
            Ok(decoded) => burst.push(decoded),
            Err(error) => *slot = Some(Err(error.to_string())),
        }
    }
    let mut recovered = tx::recover(burst).into_iter();
    let missing = || Err("invalid sender".into());
    found
        .into_iter()
        .map(|slot| {
            let recover = |result: Result<_, tx::TxError>| result.map(LedgerTx::Evm).map_err(|error| error.to_string());
            slot.unwrap_or_else(|| recovered.next().map_or_else(missing, recover))
        })
        .collect()
}

/// Packs a block: in order, in envelopes. A transaction that CometBFT's mempool holds singly stays single, so that its
/// sender finds it under CometBFT's own hash. Transactions of the side ledger come first, each singly.
pub fn pack(txs: &[SharedTx], side: &[SideTx], by_themselves: &B256Set) -> (Vec<Bytes>, Vec<Part>) {
    let mut packed: Vec<Bytes> = side.iter().map(|tx| tx.raw.0.clone()).collect();
    let alone = |at: usize| Part { places: 0..0, side: at..at + 1, malformed: None };
    let mut parts: Vec<Part> = (0..side.len()).map(alone).collect();
    let mut sealer = Sealer::default();
    let mut begin = 0;
    let mut add = |tx: Bytes, end: usize, begin: &mut usize| {
        packed.push(tx);
        parts.push(Part { places: *begin..end, side: 0..0, malformed: None });
        *begin = end;
    };
    for (place, tx) in txs.iter().enumerate() {
        if by_themselves.contains(&tx.hash) {
            if let Some(envelope) = sealer.close() {
                add(envelope, place, &mut begin);
            }
            add(tx.raw.0.clone(), place + 1, &mut begin);
        } else if let Some(envelope) = sealer.push(&tx.raw) {
            add(envelope, place + 1, &mut begin);
        }
    }
    if let Some(envelope) = sealer.close() {
        add(envelope, txs.len(), &mut begin);
    }
    (packed, parts)
}

/// The hashes of the transactions that are by themselves among CometBFT's.
pub fn by_themselves(txs: &[Bytes]) -> B256Set {
    let single: Vec<Bytes> = txs.iter().filter(|tx| !envelope::is_envelope(tx)).cloned().collect();
    hashes(&single).into_iter().collect()
}

/// Returns how many transaction bytes to choose so that a block of at most `bytes_max` has room for them and their
/// frames: an envelope adds three bytes to each transaction, of which the smallest has about 85, and a few bytes per
/// hundred.
pub fn bytes_to_choose(bytes_max: i64) -> usize {
    let bytes_max = usize::try_from(bytes_max).unwrap_or(0);
    (bytes_max - bytes_max / 16).saturating_sub(64)
}

/// Outcome of one of the ledger's transactions: its receipt, or why it was left out.
type TxOutcome<'a> = Result<&'a Receipt, &'a str>;

/// The id of a side ledger transaction, or why it is not in the block.
type SideFate = Result<B256, String>;

/// Returns the results of CometBFT's transactions, of which `count` ledger transactions were given to execution.
pub fn results(parts: &[Part], txs: &[SharedTx], side: &[SideTx], ready: &SealedBlock) -> Vec<ExecTxResult> {
    let mut not_in = ready.side_refused().into_iter().peekable();
    let of_side: Vec<SideFate> = side
        .iter()
        .map(|tx| match not_in.next_if(|(id, _)| *id == tx.id) {
            Some((_, why)) => Err(why),
            None => Ok(tx.id),
        })
        .collect();
    let mut refused = ready.refused.iter().peekable();
    let mut receipts = ready.block.receipts.iter();
    let fates: Vec<TxOutcome<'_>> = (0..txs.len())
        .map(|place| match refused.next_if(|(at, ..)| *at == place) {
            Some((.., refusal)) => Err(refusal.reason.as_str()),
            None => Ok(receipts.next().expect("what is not refused has a receipt")),
        })
        .collect();
    join(parts, txs, &fates, &of_side)
}

/// Like `results`, for parts that are included completely.
pub fn results_of_included(parts: &[Part], ready: &SealedBlock) -> Vec<ExecTxResult> {
    let block: &Block = &ready.block;
    let fates: Vec<TxOutcome<'_>> = block.receipts.iter().map(Ok).collect();
    let side: Vec<SideFate> = ready.side().iter().map(|tx| Ok(tx.id)).collect();
    join(parts, &block.txs, &fates, &side)
}

fn join(parts: &[Part], txs: &[SharedTx], fates: &[TxOutcome<'_>], side: &[SideFate]) -> Vec<ExecTxResult> {
    let of = |part: &Part| {
        let places = part.places.clone();
        result(part, &txs[places.clone()], &fates[places], &side[part.side.clone()])
    };
    parts.iter().map(of).collect()
}

fn result(part: &Part, txs: &[SharedTx], fates: &[TxOutcome<'_>], side: &[SideFate]) -> ExecTxResult {
    let codespace = CODESPACE.to_owned();
    if let Some(why) = side.iter().find_map(|fate| fate.as_ref().err()) {
        return ExecTxResult { code: CODE_REFUSED, log: why.clone(), codespace, ..Default::default() };
    }
    if let ([], [Ok(id)]) = (txs, side) {
        return ExecTxResult { data: hash_bytes(id), ..Default::default() };
    }
    if let Some(why) = &part.malformed {
        return ExecTxResult { code: CODE_MALFORMED, log: why.clone(), codespace, ..Default::default() };
    }
    let gas_wanted = txs.iter().fold(0_i64, |sum, tx| sum.saturating_add_unsigned(tx.envelope.gas_limit()));
    let gas_used = fates.iter().flatten().fold(0_i64, |sum, receipt| sum.saturating_add_unsigned(receipt.gas_used));
    let gas = ExecTxResult { gas_wanted, gas_used, ..Default::default() };
    match (txs, fates) {
        ([tx], [Ok(receipt)]) => {
            let code = if receipt.status { 0 } else { CODE_REVERTED };
            let codespace = if receipt.status { String::new() } else { codespace };
            ExecTxResult { code, data: hash_bytes(&tx.hash), codespace, ..gas }
        }
        _ => match fates.iter().find_map(|fate| fate.as_ref().err()) {
            // An envelope's code reports transactions that cannot be in a block; receipts report the others.
            Some(why) => ExecTxResult { code: CODE_REFUSED, log: (*why).to_owned(), codespace, ..gas },
            None => gas,
        },
    }
}

fn hash_bytes(hash: &B256) -> Bytes {
    Bytes::copy_from_slice(hash.as_slice())
}

/// The second of a block; the ledger takes the parent's where this is before it.
pub fn seconds(time: Option<&Timestamp>) -> u64 {
    time.map_or(0, |time| u64::try_from(time.seconds).unwrap_or(0))
}

/// Returns the recipient of a block's tips: the account named by the genesis, or otherwise the account with the address
/// of the proposer's key, for which no account key is known. Every node must derive the same recipient, and a block
/// identifies its proposer by that address only.
pub fn beneficiary(named: Address, proposer: &[u8]) -> Address {
    match proposer.len() {
        _ if !named.is_zero() => named,
        20 => Address::from_slice(proposer),
        _ => Address::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_addresses_that_are_none_are_zero() {
        assert_eq!(seconds(None), 0);
        assert_eq!(seconds(Some(&Timestamp { seconds: -5, nanos: 1 })), 0);
        assert_eq!(seconds(Some(&Timestamp { seconds: 9, nanos: 999_999_999 })), 9);
        assert_eq!(beneficiary(Address::ZERO, &[1; 20]), Address::repeat_byte(1));
        assert_eq!(beneficiary(Address::ZERO, &[1; 19]), Address::ZERO);
        assert_eq!(beneficiary(Address::repeat_byte(2), &[1; 20]), Address::repeat_byte(2));
        assert_eq!(bytes_to_choose(-1), 0);
        assert_eq!(bytes_to_choose(1600), 1436);
    }
}
