//! The fault-free run: the traffic of a seed, and the resulting chain in memory.

use std::collections::HashMap;
use std::sync::Arc;

use alloy_primitives::{B256, Bytes};
use hearth_evm::block::Block;
use hearth_evm::chain::Chain;
use hearth_evm_utxo::UtxoChain;
use hearth_testkit::random::Random;
use hearth_utxo::ledger::Totals;

use super::node;
use super::traffic::Traffic;

/// Blocks of a run: enough for a third file, so that the first one goes.
const BLOCKS: u64 = 36;
/// After which blocks the state is written to a checkpoint.
const CHECKPOINTS: [u64; 2] = [13, 27];

/// One action on the node.
pub enum Act {
    /// Submits a burst; holds which transactions are accepted.
    Submit(Vec<Bytes>, Vec<Option<B256>>),
    /// A block is made.
    Mine,
    /// One pass of the sync thread.
    Sync,
    /// A checkpoint of the state.
    Checkpoint,
}

/// The expected run of a seed.
pub struct Model {
    pub acts: Vec<Act>,
    /// By number, from block zero on.
    pub blocks: Vec<Arc<Block>>,
    /// The outputs' transactions of each block.
    pub side: Vec<Vec<Bytes>>,
    /// The UTXO commitment after each block.
    pub commitments: Vec<B256>,
    /// The outputs' totals after each block.
    pub totals: Vec<Totals>,
    /// The block that includes each accepted transaction; `None` if it still waits at the end. Transactions that were
    /// replaced or could not be in a block are missing.
    pub fates: HashMap<B256, Option<u64>>,
}

impl Model {
    pub fn new(seed: u64) -> Self {
        let (chain, mut random, mut traffic) = (node::open(None).unwrap(), Random(seed), Traffic::default());
        let mut model = Self {
            acts: Vec::new(),
            blocks: vec![chain.head()],
            side: vec![Vec::new()],
            commitments: vec![chain.outputs().commitment()],
            totals: vec![chain.outputs().totals()],
            fates: HashMap::new(),
        };
        let mut taken = Vec::new();
        for number in 1..=BLOCKS {
            let raw = if number == 1 { Traffic::first(&chain) } else { traffic.burst(&chain, &mut random) };
            let results: Vec<_> = chain.submit(raw.clone()).into_iter().map(Result::ok).collect();
            taken.extend(results.iter().flatten().copied());
            model.acts.push(Act::Submit(raw, results));
            model.mine(&chain);
            traffic.note(&chain, &chain.head());
            if random.below(2) == 0 {
                model.acts.push(Act::Sync);
            }
            if CHECKPOINTS.contains(&number) {
                model.acts.push(Act::Checkpoint);
            }
        }
        model.learn_fates(&chain, taken);
        node::check_sums(&chain, node::burnt(model.blocks.iter().map(|block| &**block))).unwrap();
        node::close(chain);
        model
    }

    fn mine(&mut self, chain: &Chain) {
        let side = chain.propose_side(usize::MAX);
        self.side.push(side.into_iter().map(|tx| tx.raw).collect());
        self.blocks.push(chain.mine().unwrap());
        self.commitments.push(chain.outputs().commitment());
        self.totals.push(chain.outputs().totals());
        self.acts.push(Act::Mine);
    }

    fn learn_fates(&mut self, chain: &Chain, taken: Vec<B256>) {
        let in_blocks = self.blocks.iter().flat_map(|block| block.txs.iter().map(|tx| (tx.hash, block.number())));
        let in_blocks: HashMap<B256, u64> = in_blocks.collect();
        for hash in taken {
            let landed = in_blocks.get(&hash).copied().or_else(|| chain.outputs().landed_in(&hash));
            let waits = chain.pool().get(&hash).is_some() || chain.outputs_pool().get(&hash).is_some();
            if landed.is_some() || waits {
                self.fates.insert(hash, landed);
            }
        }
    }

    /// The number of the last block.
    pub fn end(&self) -> u64 {
        self.blocks.len() as u64 - 1
    }
}
