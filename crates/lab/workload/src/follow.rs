//! follow: blocks of another node, from their bytes to their bank hash.
//!
//! reads   nothing: signed blocks of transfers are generated here, with a hash chain at low power
//! writes  a ledger
//! memory  215 B for each transaction of a chain's blocks, and the memory of the pool that executes them

use std::sync::Arc;

use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::merkle::MixinTree;
use hearth_crypto::sha256::{sha256_chain, sha256_mix};
use hearth_ledger::{Account, BlockLimits, Forks, Genesis, GenesisConfig, Ledger, LedgerConfig};
use hearth_pipeline::exec::WorkerConfig;
use hearth_pipeline::replay::{Job, Pool, Rules};
use hearth_wire::entry::{write_batch_header, write_entry};
use hearth_wire::{Hash, TransferTemplate};

use crate::Work;

/// The shape of the blocks.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Blocks of the chain, which starts over after the last.
    pub blocks: usize,
    /// Transfers in each block.
    pub transfers: usize,
    /// Transfers in each entry; the last of a block may have fewer.
    pub entry: usize,
    /// Accounts that sign in turn.
    pub signers: usize,
}

/// A generated chain of blocks.
pub struct Chain {
    /// Genesis on which the first block builds.
    pub genesis: Genesis,
    /// The addresses that have money.
    pub rich: Vec<[u8; 32]>,
    /// The blocks' bytes, by slot, starting with slot 1.
    pub blocks: Vec<Vec<u8>>,
    /// The last hash of each block.
    pub hashes: Vec<Hash>,
}

impl Chain {
    /// Generates and signs all blocks of this shape.
    pub fn new(shape: Shape) -> Self {
        let config = GenesisConfig { fund_initial_accounts: 0, ..GenesisConfig::development([1; 32], [2; 32], 0) };
        let genesis = Genesis::create(config, |_| {}).expect("a chain");
        let seed = |n: usize| std::array::from_fn(|at| (n >> (8 * (at % 4))) as u8);
        let keys: Vec<SigningKey> = (0..shape.signers).map(|n| SigningKey::from_seed(&seed(n))).collect();
        let rich: Vec<[u8; 32]> = keys.iter().map(SigningKey::public_key).collect();
        let mut before = Ledger::new(&genesis, LedgerConfig::default()).recent_blocks(1)[0].blockhash;
        let (mut blocks, mut hashes, mut made) = (vec![], vec![], 0usize);
        for _ in 0..shape.blocks {
            let mut template = TransferTemplate::new();
            template.set_recent_blockhash(&before);
            let mut transfer = || {
                made += 1;
                // Steps that are coprime to the number of signers, so that no burst has one signer twice.
                let (from, to) = (made * 389 % keys.len(), (made * 631 + 7) % keys.len());
                template.set_from(&rich[from]);
                template.set_to(&rich[if to == from { (from + 1) % keys.len() } else { to }]);
                template.set_lamports(made as u64);
                template.sign_with(|message| keys[from].sign(message)).to_vec()
            };
            let transfers: Vec<Vec<u8>> = (0..shape.transfers).map(|_| transfer()).collect();
            let (data, hash) = block(&transfers, shape.entry, before, &genesis);
            blocks.push(data);
            hashes.push(hash);
            before = hash;
        }
        Self { genesis, rich, blocks, hashes }
    }

    /// Returns a ledger at the chain's beginning that can roll back, as in a cluster.
    pub fn ledger(&self) -> Arc<Ledger> {
        let config = LedgerConfig { forks: Some(Forks::default()), ..LedgerConfig::default() };
        let ledger = Ledger::new(&self.genesis, config);
        self.rich.iter().for_each(|key| ledger.accounts().store(key, Account::wallet(1 << 50)));
        ledger
    }
}

/// Returns a block's bytes and its last hash.
fn block(transfers: &[Vec<u8>], entry: usize, before: Hash, genesis: &Genesis) -> (Vec<u8>, Hash) {
    let ticks = genesis.config().ticks_per_slot as usize;
    let (mut data, mut hash, mut tree) = (vec![], before, MixinTree::default());
    let count = transfers.len().div_ceil(entry);
    write_batch_header(count + ticks, &mut data);
    for entry in transfers.chunks(entry) {
        let signature = |bytes: &Vec<u8>| *bytes[1..].first_chunk::<64>().expect("a transfer has a signature");
        entry.iter().for_each(|bytes| tree.push(&signature(bytes)));
        hash = sha256_mix(hash, tree.take_root());
        write_entry(1, &hash, entry.len(), &entry.concat(), &mut data);
    }
    for _ in 0..ticks {
        hash = sha256_chain(hash, 1);
        write_entry(1, &hash, 0, &[], &mut data);
    }
    (data, hash)
}

/// Executes a chain's blocks, one per round, starting over after the last.
pub struct Follower {
    chain: Arc<Chain>,
    ledger: Arc<Ledger>,
    pool: Pool,
    next: usize,
}

impl Follower {
    /// Creates a follower with this many workers, and this many bytes for the tables of frequent signers.
    pub fn new(chain: &Arc<Chain>, workers: usize, table_bytes: usize) -> Self {
        let pool = Pool::new(workers, &WorkerConfig { table_bytes, recording: None });
        Self { ledger: chain.ledger(), chain: chain.clone(), pool, next: 0 }
    }
}

impl Work for Follower {
    fn round(&mut self) -> u64 {
        if self.next == self.chain.blocks.len() {
            self.ledger = self.chain.ledger();
            self.next = 0;
        }
        let GenesisConfig { ticks_per_slot, hashes_per_tick, .. } = *self.chain.genesis.config();
        // Blocks may be larger than the cluster's, so that what is measured is not a slot's beginning and end.
        let rules = Rules { ticks_per_slot, hashes_per_tick, limits: BlockLimits::lifted(u64::MAX, true, true) };
        let (parent, slot) = (self.next as u64, self.next as u64 + 1);
        let parent_hash = self.ledger.recent_blocks(1)[0].blockhash;
        let job = Job { rules, slot, parent, parent_hash, is_known: false, records: false };
        let executed = self.pool.block(&self.ledger, job, &self.chain.blocks[self.next]).expect("it is right");
        assert_eq!(executed.block.blockhash, self.chain.hashes[self.next]);
        self.ledger.hash_all();
        self.ledger.mark_stored(slot);
        self.ledger.mark_rooted(slot);
        self.next += 1;
        executed.block.counts.committed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_executed_again_and_again() {
        let chain = Arc::new(Chain::new(Shape { blocks: 2, transfers: 150, entry: 7, signers: 40 }));
        let mut follower = Follower::new(&chain, 2, 1 << 20);
        assert!((0..5).all(|_| follower.round() == 150));
        assert_eq!(follower.ledger.recent_blocks(1)[0].slot, 1);
    }
}
