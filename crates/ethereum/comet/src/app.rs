//! The application: CometBFT's requests, answered by the ledger.
//!
//! Each node executes a block once: the proposer when it proposes, the others when they process the proposal. The
//! result is kept for the decision, which then only compares the request. Nothing of a block is visible before its
//! commit.
//!
//! reads   CometBFT's requests
//! writes  the ledger; snapshots
//! memory  the blocks proposed at one height, at most [`MADE_MAX`]; see the modules for the rest
//! drops   an invalid proposal: rejected and counted
//! source  CometBFT's `spec/abci`; docs/cometbft.md states for each answer whether it is deterministic

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use hearth_abci::application::{Answer, Application};
use hearth_abci::types::{CommitInfo, ExecTxResult, Timestamp};
use hearth_abci::{Exception, request, response};
use hearth_evm::chain::{BlockInput, Chain, SealedBlock};
use hearth_evm::genesis::Genesis;
use hearth_evm::side::SideTx;
use hearth_evm::tx::SharedTx;
use hearth_evm_utxo::genesis;
use parking_lot::Mutex;

use crate::app_hash::app_hash;
use crate::block::{self, Part};
use crate::snapshot::maker::Maker;
use crate::snapshot::restore::{self, PendingRestore, Step};
use crate::{check, query, tx_gossip};

/// The rules' version: part of each header of CometBFT's.
pub const APP_VERSION: u64 = 1;
/// Proposals of one height that are kept, one per round.
const MADE_MAX: usize = 4;

/// Settings of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// CometBFT may prune all but this many blocks, except those that a snapshot needs; 0: prune none.
    pub retain_blocks: u64,
}

/// Counters of the application's work on blocks, since its start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Blocks that were executed to be proposed.
    pub prepared: AtomicU64,
    /// Blocks of others that were executed to be voted on.
    pub processed: AtomicU64,
    /// Decided blocks whose execution was kept from the proposal.
    pub remembered: AtomicU64,
    /// Blocks that were executed when they were decided: replayed, fetched, or not seen before.
    pub executed: AtomicU64,
    /// Proposals that did not hold.
    pub rejected: AtomicU64,
}

/// Everything that determines a block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Input {
    height: i64,
    seconds: u64,
    proposer: Bytes,
    txs: Vec<Bytes>,
}

/// A block that was executed.
struct ExecutedBlock {
    input: Input,
    ready: SealedBlock,
    results: Vec<ExecTxResult>,
}

/// The ABCI application: one per node, shared by all connections.
pub struct App {
    chain: Chain,
    config: Config,
    spread: Arc<tx_gossip::Shared>,
    made: Mutex<Vec<ExecutedBlock>>,
    /// The decided block, until it is committed.
    decided: Mutex<Option<ExecutedBlock>>,
    /// Whether this node has been asked to propose.
    proposes: AtomicBool,
    counters: Counters,
    maker: Option<Maker>,
    /// The snapshot that this node begins with.
    restoring: Mutex<Option<PendingRestore>>,
}

impl App {
    /// Creates an application over a chain that makes no blocks by itself.
    pub fn new(chain: Chain, config: Config) -> Self {
        let (spread, made, decided, proposes, counters, restoring) = Default::default();
        Self { chain, config, spread, made, decided, proposes, counters, maker: None, restoring }
    }

    /// Adds snapshots in `folder`: one at each height that `interval` divides (0: none are made). `kept` of them stay.
    pub fn with_snapshots(self, folder: &Path, interval: u64, kept: usize) -> std::io::Result<Self> {
        Ok(Self { maker: Some(Maker::start(folder, interval, kept)?), ..self })
    }

    /// The thread that makes snapshots; `None` without a snapshot folder.
    pub fn maker(&self) -> Option<&Maker> {
        self.maker.as_ref()
    }

    /// The ledger under this application.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// State shared with the transaction gossip thread.
    pub fn spread(&self) -> &Arc<tx_gossip::Shared> {
        &self.spread
    }

    /// Counts of blocks prepared, processed, decided and rejected.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn execute(&self, input: Input, parts: &[Part], txs: Vec<SharedTx>, side: Vec<SideTx>) -> Answer<ExecutedBlock> {
        let (given, given_beside) = (txs.clone(), side.clone());
        let block = BlockInput {
            number: u64::try_from(input.height).map_err(Exception::new)?,
            timestamp: input.seconds,
            beneficiary: block::beneficiary(self.chain.genesis().coinbase, &input.proposer),
            txs,
            side,
            ..Default::default()
        };
        let ready = self.chain.execute_block(block).map_err(Exception::new)?;
        let results = block::results(parts, &given, &given_beside, &ready);
        Ok(ExecutedBlock { input, ready, results })
    }

    /// The block of this input, if it was executed on the newest one.
    fn take_made(&self, input: &Input) -> Option<ExecutedBlock> {
        let parent = self.chain.head().hash;
        let mut made = self.made.lock();
        let at = made.iter().position(|made| made.input == *input && made.ready.block.header.parent_hash == parent)?;
        Some(made.swap_remove(at))
    }

    fn has_made(&self, input: &Input) -> bool {
        let parent = self.chain.head().hash;
        self.made.lock().iter().any(|made| made.input == *input && made.ready.block.header.parent_hash == parent)
    }

    fn remember(&self, new: ExecutedBlock) {
        let mut made = self.made.lock();
        made.retain(|made| made.input.height == new.input.height);
        if made.len() >= MADE_MAX {
            made.remove(0);
        }
        made.push(new);
    }

    /// A lone validator has no peer to send its transactions to.
    fn note_validators(&self, commit: Option<&CommitInfo>) {
        let alone = commit.is_none_or(|commit| commit.votes.len() <= 1) && self.proposes.load(Ordering::Relaxed);
        self.spread.alone.store(alone, Ordering::Relaxed);
    }

    fn retain_height(&self, head: u64) -> i64 {
        // Nodes that start from a snapshot fetch the blocks after it from the others.
        let needed = self.maker.as_ref().and_then(|maker| maker.store().oldest()).unwrap_or(head);
        match self.config.retain_blocks {
            0 => 0,
            blocks => i64::try_from(head.saturating_sub(blocks).min(needed)).unwrap_or(0),
        }
    }

    /// Whether nothing is lost where this node begins with a snapshot.
    fn is_new(&self) -> bool {
        let head = self.chain.head().number();
        head == 0 || self.chain.first_block() == head
    }

    /// Restores the ledger from a complete snapshot; returns the result to report to CometBFT.
    fn begin_with(&self, restoring: PendingRestore) -> response::ApplyChunkResult {
        use hearth_evm::chain::RestoreError::{Chain, NotNew, Wrong};
        match restoring.give(&self.chain) {
            Ok(()) => {
                tracing::info!(height = self.chain.head().number(), "begun with a snapshot");
                self.made.lock().clear();
                response::ApplyChunkResult::Accept
            }
            Err(Wrong(why)) => {
                tracing::warn!(%why, "a snapshot is refused");
                response::ApplyChunkResult::RejectSnapshot
            }
            Err(error @ (NotNew(_) | Chain(_))) => {
                tracing::error!(%error, "no snapshot can be taken");
                response::ApplyChunkResult::Abort
            }
        }
    }
}

fn input(height: i64, time: Option<&Timestamp>, proposer: Bytes, txs: Vec<Bytes>) -> Input {
    Input { height, seconds: block::seconds(time), proposer, txs }
}

/// Whether CometBFT's genesis holds the one that this node was started with.
fn agrees(app_state: &[u8], ours: &Genesis) -> Answer<()> {
    let text = std::str::from_utf8(app_state).map_err(Exception::new)?;
    if matches!(text.trim(), "" | "{}" | "null") {
        return Ok(());
    }
    let theirs = genesis::from_json(text).map_err(|error| Exception(format!("app_state: {error}")))?;
    if theirs == *ours {
        Ok(())
    } else {
        Err(Exception("the genesis in CometBFT's app_state is not this node's".into()))
    }
}

impl Application for App {
    fn info(&self, _: request::Info) -> Answer<response::Info> {
        let head = self.chain.head();
        Ok(response::Info {
            data: "hearth".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            app_version: APP_VERSION,
            last_block_height: i64::try_from(head.number()).map_err(Exception::new)?,
            last_block_app_hash: app_hash(&head.hash),
        })
    }

    fn init_chain(&self, request: request::InitChain) -> Answer<response::InitChain> {
        let head = self.chain.head();
        if head.number() != 0 || request.initial_height > 1 {
            let (have, first) = (head.number(), request.initial_height);
            return Err(Exception(format!("a chain begins with block 1 after block 0; here are {first} and {have}")));
        }
        agrees(&request.app_state_bytes, self.chain.genesis())?;
        Ok(response::InitChain { app_hash: app_hash(&head.hash), ..Default::default() })
    }

    fn query(&self, request: request::Query) -> Answer<response::Query> {
        if request.path == "/snapshots" {
            let heights: Vec<u64> = self.maker.iter().flat_map(|maker| maker.store().heights()).collect();
            let head = i64::try_from(self.chain.head().number()).map_err(Exception::new)?;
            return Ok(response::Query::found(request.data, serde_json::json!(heights).to_string(), head));
        }
        Ok(query::answer(&self.chain, &request))
    }

    fn check_tx(&self, request: request::CheckTx) -> Answer<response::CheckTx> {
        Ok(match request.r#type() {
            request::CheckTxType::New => check::check_new(&self.chain, &self.spread.came, &request.tx),
            request::CheckTxType::Recheck => check::check_again(&self.chain, &request.tx),
        })
    }

    fn prepare_proposal(&self, request: request::PrepareProposal) -> Answer<response::PrepareProposal> {
        self.proposes.store(true, Ordering::Relaxed);
        let room = block::bytes_to_choose(request.max_tx_bytes);
        // Few bytes compared with the EVM's, and bounded to a fourth of the block.
        let side = self.chain.propose_side(room / 4);
        let taken: usize = side.iter().map(|tx| tx.raw.len()).sum();
        let chosen = self.chain.propose(room - taken);
        let by_themselves = block::by_themselves(&request.txs);
        let input = input(request.height, request.time.as_ref(), request.proposer_address, Vec::new());
        // Transactions that cannot be in the block are found here and left out.
        let mut made = self.execute(input, &[], chosen, side)?;
        let (txs, parts) = block::pack(&made.ready.block.txs, made.ready.side(), &by_themselves);
        made.results = block::results_of_included(&parts, &made.ready);
        made.input.txs = txs.clone();
        self.remember(made);
        self.counters.prepared.fetch_add(1, Ordering::Relaxed);
        Ok(response::PrepareProposal { txs })
    }

    fn process_proposal(&self, request: request::ProcessProposal) -> Answer<response::ProcessProposal> {
        self.note_validators(request.proposed_last_commit.as_ref());
        let input = input(request.height, request.time.as_ref(), request.proposer_address, request.txs);
        let accept = response::ProcessProposal { status: response::Proposal::Accept.into() };
        if self.has_made(&input) {
            return Ok(accept);
        }
        let unpacked = block::unpack(&self.chain, &input.txs);
        if unpacked.malformed().is_none() {
            let made = self.execute(input, &unpacked.parts, unpacked.txs, unpacked.side)?;
            self.counters.processed.fetch_add(1, Ordering::Relaxed);
            let block = &made.ready.block;
            let is_too_large = block.is_too_large(self.chain.env_of(block).spec);
            if made.ready.refused.is_empty() && made.ready.side_refused().is_empty() && !is_too_large {
                self.remember(made);
                return Ok(accept);
            }
        }
        self.counters.rejected.fetch_add(1, Ordering::Relaxed);
        Ok(response::ProcessProposal { status: response::Proposal::Reject.into() })
    }

    fn finalize_block(&self, request: request::FinalizeBlock) -> Answer<response::FinalizeBlock> {
        self.note_validators(request.decided_last_commit.as_ref());
        let input = input(request.height, request.time.as_ref(), request.proposer_address, request.txs);
        let made = match self.take_made(&input) {
            Some(made) => {
                self.counters.remembered.fetch_add(1, Ordering::Relaxed);
                made
            }
            None => {
                let unpacked = block::unpack(&self.chain, &input.txs);
                self.counters.executed.fetch_add(1, Ordering::Relaxed);
                self.execute(input, &unpacked.parts, unpacked.txs, unpacked.side)?
            }
        };
        let tx_results = made.results.clone();
        let app_hash = app_hash(&made.ready.block.hash);
        *self.decided.lock() = Some(made);
        Ok(response::FinalizeBlock { tx_results, app_hash, ..Default::default() })
    }

    fn commit(&self, _: request::Commit) -> Answer<response::Commit> {
        let decided = self.decided.lock().take();
        let made = decided.ok_or_else(|| Exception("a commit without a block before it".into()))?;
        let block = self.chain.commit(made.ready).map_err(Exception::new)?;
        self.made.lock().clear();
        if let Some(maker) = &self.maker {
            maker.committed(&self.chain, block.number());
        }
        Ok(response::Commit { retain_height: self.retain_height(block.number()) })
    }

    fn list_snapshots(&self, _: request::ListSnapshots) -> Answer<response::ListSnapshots> {
        let snapshots = self.maker.as_ref().map(|maker| maker.store().list()).unwrap_or_default();
        Ok(response::ListSnapshots { snapshots })
    }

    fn load_snapshot_chunk(&self, request: request::LoadSnapshotChunk) -> Answer<response::LoadSnapshotChunk> {
        let request::LoadSnapshotChunk { height, format, chunk } = request;
        let chunk = self.maker.as_ref().and_then(|maker| maker.store().chunk(height, format, chunk));
        Ok(response::LoadSnapshotChunk { chunk: chunk.unwrap_or_default() })
    }

    fn offer_snapshot(&self, request: request::OfferSnapshot) -> Answer<response::OfferSnapshot> {
        let mut restoring = self.restoring.lock();
        *restoring = None;
        let folder = self.maker.as_ref().map(|maker| maker.store().part("incoming"));
        let result = if self.is_new() {
            match restore::offer(&request, folder).map_err(Exception::new)? {
                Ok(begun) => {
                    *restoring = Some(begun);
                    response::Offer::Accept
                }
                Err(refused) => refused,
            }
        } else {
            tracing::error!("this node has blocks of its own: remove its ledger to begin with a snapshot");
            response::Offer::Abort
        };
        Ok(response::OfferSnapshot { result: result.into() })
    }

    fn apply_snapshot_chunk(&self, request: request::ApplySnapshotChunk) -> Answer<response::ApplySnapshotChunk> {
        let mut restoring = self.restoring.lock();
        let Some(underway) = restoring.as_mut() else {
            return Ok(restore::say(response::ApplyChunkResult::RejectSnapshot));
        };
        match underway.apply(request).map_err(Exception::new)? {
            Step::Say(said) => Ok(said),
            Step::Whole => {
                let whole = restoring.take().expect("it is under way");
                Ok(restore::say(self.begin_with(whole)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy_consensus::TxEip1559;
    use alloy_primitives::{Address, TxKind, U256};
    use hearth_crypto::secp256k1::Signer;
    use hearth_evm::block::SIZE_MAX;
    use hearth_evm::chain::{BlockTime, ChainConfig};
    use hearth_evm::tx::Tx;

    use super::*;

    const CHAIN: u64 = 777;

    /// A transfer with about 128 KiB of zeros, close to the size limit.
    fn long(nonce: u64, signer: &Signer) -> Bytes {
        let call = TxEip1559 {
            chain_id: CHAIN,
            nonce,
            gas_limit: 2_000_000,
            max_fee_per_gas: 1_000_000_000,
            to: TxKind::Call(Address::repeat_byte(7)),
            input: vec![0; 130_000].into(),
            ..Default::default()
        };
        Tx::signed(call.into(), signer).raw.0
    }

    #[test]
    fn a_proposal_larger_than_a_block_may_be_is_refused() {
        let signer = Signer::new(&[1; 32]).unwrap();
        let accounts = [(Address::from(signer.address()), U256::from(10_u128.pow(22)))];
        let genesis = genesis::dev(CHAIN, &accounts, 500_000_000);
        let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
        let app = App::new(Chain::open(config).unwrap(), Config::default());
        let txs: Vec<Bytes> = (0..65).map(|nonce| long(nonce, &signer)).collect();
        let judge = |count: usize| {
            let txs = txs[..count].to_vec();
            let request = request::ProcessProposal { height: 1, txs, ..Default::default() };
            app.process_proposal(request).unwrap().status
        };
        assert!((64 * 130_000..65 * 130_000).contains(&(SIZE_MAX as usize)));
        assert_eq!(judge(65), response::Proposal::Reject as i32);
        assert_eq!(judge(64), response::Proposal::Accept as i32);
        // A decided block is executed regardless, by every node alike.
        let decided = request::FinalizeBlock { height: 1, txs, ..Default::default() };
        let results = app.finalize_block(decided).unwrap().tx_results;
        assert!(results.len() == 65 && results.iter().all(|result| result.code == 0));
    }
}
