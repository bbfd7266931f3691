//! execute: a block on the ledger's head, with every check that a leader's word is not taken for.
//!
//! reads   a block
//! writes  the ledger; what its transactions did, for the history
//! memory  one block, and its history
//! drops   a block that is wrong: an error that says where
//! source  `blockstore_processor.rs` of `solana-ledger` 4.2

use hearth_crypto::ed25519::{Verifier, VerifierConfig, VerifyItem};
use hearth_ledger::blockstore::Block;
use hearth_ledger::history::HistoryKey;
use hearth_ledger::tower::Voted;
use hearth_ledger::{Genesis, Ledger};
use hearth_pipeline::replay::cast;
use hearth_pipeline::replay::position::{BlockExecutor, ExecuteError, Executed};
use hearth_wire::base58::encode_64;
use hearth_wire::{Pubkey, Signature, Txn};

use crate::replay::{Hands, ReplayError, entries, execute_block};

/// Transactions whose signatures are checked together.
const BURST: usize = 64;
/// Fewer are not worth a thread.
const VERIFIED_AT_LEAST: usize = 128;
/// Bytes for the tables of keys that sign again and again.
const TABLE_BYTES: usize = 16 << 20;

/// Executes blocks.
pub struct Replay {
    genesis: Genesis,
    hands: Hands,
    records: bool,
    /// One for each thread.
    verifiers: Vec<Verifier>,
}

impl BlockExecutor for Replay {
    type Error = ReplayError;

    fn execute(
        &mut self,
        ledger: &Ledger,
        block: &Block,
        is_known: bool,
    ) -> Result<Executed, ExecuteError<ReplayError>> {
        self.block(ledger, block, is_known).map_err(|why| match why {
            why @ (ReplayError::Store(_) | ReplayError::History(_)) => ExecuteError::Failed(why),
            why => ExecuteError::Wrong(why.to_string()),
        })
    }
}

impl Replay {
    /// Records where a history is kept.
    pub fn new(genesis: Genesis, recording: Option<(HistoryKey, bool)>) -> Self {
        let records = recording.is_some();
        Self { genesis, hands: Hands::new(recording), records, verifiers: verifiers() }
    }

    fn block(&mut self, ledger: &Ledger, block: &Block, is_known: bool) -> Result<Executed, ReplayError> {
        if !is_known {
            self.verify(block)?;
        }
        let parent_hash = ledger.recent_blocks(1)[0].blockhash;
        let (summary, batches) = execute_block(ledger, &self.genesis, block, &parent_hash, &mut self.hands, true)?;
        let votes = if is_known { vec![] } else { votes(ledger, block)? };
        Ok(Executed { transactions: summary.counts.committed, votes, batches: self.records.then_some(batches) })
    }

    /// Checks every signature of a block, on as many threads as it is worth.
    fn verify(&mut self, block: &Block) -> Result<(), ReplayError> {
        let slot = block.info.slot;
        let entries = entries(&block.data).map_err(|source| ReplayError::Entries { slot, source })?;
        let txns: Vec<Txn<'_>> = entries.iter().flat_map(|entry| entry.transactions()).collect();
        let share = txns.len().div_ceil(self.verifiers.len()).max(VERIFIED_AT_LEAST);
        let parts = txns.chunks(share).zip(&mut self.verifiers);
        let wrong = std::thread::scope(|scope| {
            let threads: Vec<_> = parts.map(|(part, verifier)| scope.spawn(|| wrong(part, verifier))).collect();
            threads.into_iter().find_map(|thread| thread.join().expect("checking signatures does not panic"))
        });
        match wrong {
            Some(signature) => Err(ReplayError::Signature { slot, signature: encode_64(&signature).to_string() }),
            None => Ok(()),
        }
    }
}

/// The votes in a block that was executed.
fn votes(ledger: &Ledger, block: &Block) -> Result<Vec<Voted>, ReplayError> {
    let slot = block.info.slot;
    let entries = entries(&block.data).map_err(|source| ReplayError::Entries { slot, source })?;
    let transactions = entries.iter().flat_map(|entry| entry.transactions());
    Ok(transactions.filter_map(|txn| cast(ledger, &txn)).collect())
}

/// As many as there are cores.
fn verifiers() -> Vec<Verifier> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let config = VerifierConfig { cache_bytes: TABLE_BYTES / count, ..VerifierConfig::default() };
    (0..count).map(|_| Verifier::new(config)).collect()
}

/// The first signature of a transaction one of whose signatures is wrong.
fn wrong(txns: &[Txn<'_>], verifier: &mut Verifier) -> Option<Signature> {
    let mut verdicts = vec![];
    txns.chunks(BURST).find_map(|burst| {
        let of = |txn: &Txn<'_>| -> Vec<(Pubkey, Signature)> {
            txn.signer_keys().iter().copied().zip(txn.signatures().iter().copied()).collect()
        };
        let signed: Vec<(usize, (Pubkey, Signature))> =
            burst.iter().enumerate().flat_map(|(at, txn)| of(txn).into_iter().map(move |pair| (at, pair))).collect();
        let items: Vec<VerifyItem<'_>> = signed
            .iter()
            .map(|(at, (public_key, signature))| VerifyItem { public_key, signature, message: burst[*at].message() })
            .collect();
        verifier.verify_burst(&items, &mut verdicts);
        let place = verdicts.iter().position(Result::is_err)?;
        Some(*burst[signed[place].0].first_signature())
    })
}
