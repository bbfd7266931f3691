//! CheckTx: whether a transaction may wait in CometBFT's mempool.
//!
//! Every transaction received here goes into the ledger's pool, and that alone is the check: decoding, batched sender
//! recovery, nonce and funds. Nothing is executed and no pending state is kept. A recheck asks whether the pool still
//! holds any of it: the pool has already rechecked the accounts that the block touched. A blob transaction arrives
//! without its sidecar, which stays on the node that the client sent it to: execution needs none.
//!
//! reads   the pool and the newest state, neither locked by block production
//! writes  the pool; the hashes received here, for [`crate::tx_gossip`]
//! memory  [`CAME_MAX`] hashes
//! drops   nothing: a rejection has a code and geth's message

use std::collections::{HashSet, VecDeque};

use alloy_primitives::B256;
use bytes::Bytes;
use hearth_abci::response;
use hearth_crypto::keccak::keccak256_burst;
use hearth_evm::chain::{Chain, SubmitError};
use hearth_evm::side::SideRefusal;
use hearth_evm_utxo::UtxoChain;
use parking_lot::Mutex;

use crate::envelope;

/// The bytes do not decode as a transaction.
pub const CODE_MALFORMED: u32 = 1;
/// The pool does not take it.
pub const CODE_REFUSED: u32 = 2;
/// The transaction no longer waits: a block includes it, or the pool has dropped it.
pub const CODE_GONE: u32 = 3;
/// Namespace of these codes in ABCI responses.
pub const CODESPACE: &str = "hearth";

/// Hashes that are remembered as having come through CometBFT.
const CAME_MAX: usize = 65_536;

/// The hashes of transactions that came through CometBFT, the newest.
#[derive(Debug, Default)]
pub struct MempoolArrivals {
    kept: Mutex<(HashSet<B256>, VecDeque<B256>)>,
}

impl MempoolArrivals {
    fn note(&self, hashes: &[B256]) {
        let mut kept = self.kept.lock();
        let (set, order) = &mut *kept;
        for hash in hashes {
            if set.insert(*hash) {
                order.push_back(*hash);
            }
            if order.len() > CAME_MAX
                && let Some(oldest) = order.pop_front()
            {
                set.remove(&oldest);
            }
        }
    }

    /// Forgets a hash noted recently.
    fn forget(&self, hash: &B256) {
        let mut kept = self.kept.lock();
        let (set, order) = &mut *kept;
        if set.remove(hash)
            && let Some(at) = order.iter().rposition(|one| one == hash)
        {
            order.remove(at);
        }
    }

    /// Whether a transaction came through CometBFT.
    pub fn has(&self, hash: &B256) -> bool {
        self.kept.lock().0.contains(hash)
    }
}

/// The hashes of raw transactions.
pub(crate) fn hashes(raws: &[Bytes]) -> Vec<B256> {
    let slices: Vec<&[u8]> = raws.iter().map(|raw| &raw[..]).collect();
    let mut hashes = vec![[0; 32]; slices.len()];
    keccak256_burst(&slices, &mut hashes);
    hashes.into_iter().map(B256::from).collect()
}

/// Checks a transaction that is new to CometBFT.
pub fn check_new(chain: &Chain, came: &MempoolArrivals, tx: &Bytes) -> response::CheckTx {
    let content = match envelope::open(tx) {
        Ok(content) => content,
        Err(error) => return refused(CODE_MALFORMED, error.to_string()),
    };
    let hashes = hashes(content.txs());
    // Note them before the pool has them, so that they are not gossiped again meanwhile. Rejected ones are forgotten:
    // if one returns over this node's own RPC, it must be gossiped.
    came.note(&hashes);
    let pool = chain.pool();
    let (known, new): (Vec<_>, Vec<_>) =
        content.txs().iter().zip(&hashes).partition(|(raw, hash)| pool.get(hash).is_some() || waits_there(chain, raw));
    let results = chain.submit_bare(new.iter().map(|(raw, _)| (*raw).clone().into()).collect());
    let refused = new.iter().zip(&results).rev().filter(|(_, result)| result.is_err());
    refused.for_each(|((_, hash), _)| came.forget(hash));
    let first_error = results.iter().find_map(|result| result.as_ref().err());
    let taken = known.len() + results.iter().filter(|result| result.is_ok()).count();
    match first_error {
        // One invalid transaction of an envelope does not reject the others.
        Some(error) if taken == 0 => self::refused(code(error), error.to_string()),
        _ => {
            let data = if hashes.len() == 1 { Bytes::copy_from_slice(hashes[0].as_slice()) } else { Bytes::new() };
            response::CheckTx { data, ..Default::default() }
        }
    }
}

/// Rechecks a waiting transaction after a block.
pub fn check_again(chain: &Chain, tx: &Bytes) -> response::CheckTx {
    let Ok(content) = envelope::open(tx) else { return refused(CODE_MALFORMED, "malformed".into()) };
    let pool = chain.pool();
    let mut outputs = content.txs().iter();
    if hashes(content.txs()).iter().any(|hash| pool.get(hash).is_some()) || outputs.any(|raw| waits_there(chain, raw)) {
        return response::CheckTx::default();
    }
    refused(CODE_GONE, "it waits no longer".into())
}

/// Whether these bytes are a waiting transaction of the UTXO ledger.
fn waits_there(chain: &Chain, raw: &Bytes) -> bool {
    let decoded = hearth_utxo::tx::is_ours(raw).then(|| hearth_utxo::tx::decode(raw, chain.chain_id()).ok()).flatten();
    decoded.is_some_and(|tx| chain.outputs_pool().get(&tx.id()).is_some())
}

fn code(error: &SubmitError) -> u32 {
    match error {
        SubmitError::Tx(_) | SubmitError::Side(SideRefusal::Malformed(_)) => CODE_MALFORMED,
        SubmitError::Pool(_) | SubmitError::Side(_) | SubmitError::NotKept(_) => CODE_REFUSED,
    }
}

fn refused(code: u32, log: String) -> response::CheckTx {
    response::CheckTx { code, log, codespace: CODESPACE.into(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256};
    use hearth_crypto::secp256k1::Signer;
    use hearth_evm::blobs::GAS_PER_BLOB;
    use hearth_evm::builders::{rich, sidecar, signer, with_blobs};
    use hearth_evm::chain::{BlockInput, BlockTime, ChainConfig};
    use hearth_evm::tx::{Tx, TypedTransaction, join_network};
    use hearth_evm_utxo::{genesis, prism};
    use hearth_utxo::OwnerKey;

    use super::*;
    use crate::block;

    #[test]
    fn refused_transaction_is_not_remembered() {
        let [rich, poor] = [1, 2].map(|seed| Signer::new(&[seed; 32]).unwrap());
        let genesis = genesis::dev(1, &[(Address::from(rich.address()), U256::from(10_u128.pow(22)))], 500_000_000);
        let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
        let (chain, came) = (Chain::open(config).unwrap(), MempoolArrivals::default());
        let check = |signer: &Signer| {
            let tx = prism::call(1, 0, 100_000_000_000, &OwnerKey([5; 32]), 1_000_000, signer);
            (check_new(&chain, &came, &tx.raw.0).code, came.has(&tx.hash))
        };
        assert_eq!(check(&poor), (CODE_REFUSED, false));
        assert_eq!(check(&rich), (0, true));
        // It waits: it is known, and stays so.
        assert_eq!(check(&rich), (0, true));
        // A transaction rejected here may be accepted later over this node's own RPC.
        chain.set_balance(Address::from(poor.address()), U256::from(10_u128.pow(22))).unwrap();
        let tx = prism::call(1, 0, 100_000_000_000, &OwnerKey([5; 32]), 1_000_000, &poor);
        chain.submit(vec![tx.raw.clone()]).remove(0).unwrap();
        assert!(!came.has(&tx.hash));
    }

    #[test]
    fn a_blob_transaction_travels_without_its_sidecar() {
        let open = || {
            let genesis = genesis::dev(1, &rich(1..=1), 500_000_000);
            let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
            Chain::open(config).unwrap()
        };
        let (chain, other, came) = (open(), open(), MempoolArrivals::default());
        let sidecar = sidecar(1);
        let tx = Tx::signed(TypedTransaction::Eip4844(with_blobs(1, 0, &sidecar)), &signer(1));
        let whole = Bytes::from(join_network(&tx, &sidecar));
        assert_eq!(check_new(&chain, &came, &whole).code, CODE_MALFORMED);
        assert_eq!(check_new(&chain, &came, &tx.raw.0).code, 0);
        // Another node, which has seen none of them, arrives at the same block.
        let (packed, _) = block::pack(&chain.propose(1 << 20), &[], &Default::default());
        let unpacked = block::unpack(&other, &packed);
        assert_eq!((unpacked.malformed(), unpacked.txs.len()), (None, 1));
        let input = BlockInput { number: 1, timestamp: 1, txs: unpacked.txs, ..BlockInput::default() };
        let ready = other.execute_block(input.clone()).unwrap();
        assert_eq!(ready.block.header.blob_gas_used, Some(GAS_PER_BLOB));
        assert_eq!(chain.execute_block(input).unwrap().block.hash, ready.block.hash);
    }

    #[test]
    fn seen_transactions_are_remembered_up_to_a_bound() {
        let came = MempoolArrivals::default();
        let hash = |number: usize| B256::left_padding_from(&number.to_be_bytes());
        came.note(&[hash(0), hash(1), hash(0)]);
        assert!(came.has(&hash(0)) && came.has(&hash(1)) && !came.has(&hash(2)));
        (2..=CAME_MAX).for_each(|number| came.note(&[hash(number)]));
        assert!(!came.has(&hash(0)) && came.has(&hash(1)) && came.has(&hash(CAME_MAX)));
    }
}
