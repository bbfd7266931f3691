//! Measures how long it takes to execute an empty block and a full one, on one thread.
//!
//! reads   nothing: accounts and transfers are generated here
//! writes  the times
//! memory  some 100 MB, and 300 B for each transaction of a block
//! source  the method of `polkadot benchmark extrinsic`: a number of executions of each block after ten warm-up ones; a
//!         transaction is a full block less the mean of the empty ones, divided by its transactions
//!
//! Executing a block is the work of a node that received it: signatures are verified, transactions parsed and executed
//! in microblocks, the slot ended and its bank hashed. Hash chain, disk and network are left out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hearth_crypto::ed25519::{SigningKey, Verifier, VerifierConfig, VerifyItem};
use hearth_ledger::{Account, Executor, Genesis, GenesisConfig, Ledger, LedgerConfig, Outcome};
use hearth_wire::{Hash, TransferTemplate, Txn};
use serde_json::{Value, json};

use crate::synthetic::MICROBLOCK;
use crate::times::Times;

/// Accounts that pay each other.
const ACCOUNTS: usize = 1_024;
/// Executions of each block before measuring.
const WARM_UP: u32 = 10;

/// A block cannot be executed.
#[derive(Debug, thiserror::Error)]
#[error("a block cannot be executed: {0}")]
pub struct BlockError(String);

/// The measured times of blocks.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Transfers in the full block.
    pub transactions: u32,
    /// How often each block was executed and measured.
    pub repeat: u32,
    /// Times of the empty block.
    pub empty: Times,
    /// Times of the full block.
    pub full: Times,
    /// Times of a single transaction.
    pub transaction: Times,
}

impl Blocks {
    /// Returns the times as a JSON object.
    pub fn json(&self) -> Value {
        json!({
            "transactions": self.transactions,
            "blocks": self.repeat,
            "empty_block_ns": self.empty.json(),
            "full_block_ns": self.full.json(),
            "transaction_ns": self.transaction.json(),
        })
    }
}

/// Executes an empty block and a full one alternately, `repeat` times each; none if stopped. Alternating exposes both
/// to the same disturbances.
///
/// # Errors
/// A transfer does not land, which is a bug of this program.
pub fn measure(transactions: u32, repeat: u32, is_stopped: &dyn Fn() -> bool) -> Result<Option<Blocks>, BlockError> {
    let mut chain = Chain::new()?;
    let mut times = [Vec::new(), Vec::new()];
    for n in 0..WARM_UP + repeat {
        for (times, count) in times.iter_mut().zip([0, transactions as usize]) {
            if is_stopped() {
                return Ok(None);
            }
            let took = chain.block(count)?;
            if n >= WARM_UP {
                times.push(took.as_secs_f64() * 1e9);
            }
        }
    }
    let [empty, full] = times;
    let empty = Times::of(empty);
    let each = full.iter().map(|full| (full - empty.mean) / f64::from(transactions)).collect();
    Ok(Some(Blocks { transactions, repeat, empty, full: Times::of(full), transaction: Times::of(each) }))
}

/// A single-node chain, and its paying accounts.
struct Chain {
    ledger: Arc<Ledger>,
    executor: Executor,
    verifier: Verifier,
    keys: Vec<SigningKey>,
    slot: u64,
    /// Transfers so far, so that no two are the same.
    made: u64,
}

impl Chain {
    fn new() -> Result<Self, BlockError> {
        let config = GenesisConfig { fund_initial_accounts: 0, ..GenesisConfig::development([1; 32], [2; 32], 0) };
        let genesis = Genesis::create(config, |_| {}).map_err(|why| BlockError(why.to_string()))?;
        let ledger = Ledger::new(&genesis, LedgerConfig::default());
        let key = |n: usize| SigningKey::from_seed(&std::array::from_fn(|at| (n >> (8 * (at % 4))) as u8));
        let keys: Vec<SigningKey> = (0..ACCOUNTS).map(key).collect();
        keys.iter().for_each(|key| ledger.accounts().store(&key.public_key(), Account::wallet(1 << 50)));
        let verifier = Verifier::new(VerifierConfig::default());
        Ok(Self { ledger, executor: Executor::new(), verifier, keys, slot: 0, made: 0 })
    }

    /// Generates a block's transfers, outside the measured time.
    fn transfers(&mut self, count: usize, blockhash: &Hash) -> Vec<TransferTemplate> {
        let mut all = vec![TransferTemplate::new(); count];
        for template in &mut all {
            self.made += 1;
            let from = self.made as usize % ACCOUNTS;
            let to = (from + 1 + self.made as usize / ACCOUNTS % (ACCOUNTS - 1)) % ACCOUNTS;
            template.set_from(&self.keys[from].public_key());
            template.set_to(&self.keys[to].public_key());
            template.set_lamports(self.made);
            template.set_recent_blockhash(blockhash);
            template.sign_with(|message| self.keys[from].sign(message));
        }
        all
    }

    /// Executes a block of this many transfers, and returns the time it took.
    fn block(&mut self, count: usize) -> Result<Duration, BlockError> {
        let failed = |what: &dyn std::fmt::Display| BlockError(what.to_string());
        let parent = self.slot;
        self.slot += 1;
        let blockhash = self.ledger.recent_blocks(1)[0].blockhash;
        let transfers = self.transfers(count, &blockhash);
        let begin = Instant::now();
        let bank = self.ledger.begin_slot(self.slot, parent).map_err(|why| failed(&why))?;
        let (mut verdicts, mut outcomes) = (Vec::new(), Vec::new());
        for microblock in transfers.chunks(MICROBLOCK) {
            let parsed = microblock.iter().map(|one| Txn::parse(one.bytes()));
            let txns: Vec<Txn<'_>> = parsed.collect::<Result<_, _>>().map_err(|why| failed(&format!("{why:?}")))?;
            let items: Vec<VerifyItem<'_>> = txns.iter().map(item).collect();
            self.verifier.verify_burst(&items, &mut verdicts);
            bank.execute(&mut self.executor, &txns, &mut outcomes);
            if let Some(wrong) = verdicts.iter().find_map(|verdict| verdict.as_ref().err()) {
                return Err(failed(&format!("{wrong:?}")));
            }
            if let Some(wrong) = outcomes.iter().find(|outcome| !Outcome::is_committed(outcome)) {
                return Err(failed(&format!("a transfer does not land: {wrong:?}")));
            }
        }
        let hash: Hash = std::array::from_fn(|at| (self.slot >> (8 * (at % 8))) as u8);
        self.ledger.end_slot(self.slot, hash).map_err(|why| failed(&why))?;
        self.ledger.hash_all();
        Ok(begin.elapsed())
    }
}

fn item<'a>(txn: &Txn<'a>) -> VerifyItem<'a> {
    VerifyItem { public_key: txn.fee_payer(), signature: txn.first_signature(), message: txn.message() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_executed_one_on_the_other() {
        let mut chain = Chain::new().expect("a chain");
        let before = chain.ledger.accounts().load(&chain.keys[1].public_key()).expect("funded").lamports;
        for count in [0, 1, 130, 0, ACCOUNTS * 2] {
            assert!(chain.block(count).expect("executed") > Duration::ZERO);
        }
        let last = chain.ledger.recent_blocks(1)[0].slot;
        assert_eq!((last, chain.slot, chain.made), (5, 5, 131 + 2 * ACCOUNTS as u64));
        let after = chain.ledger.accounts().load(&chain.keys[1].public_key()).expect("funded").lamports;
        assert_ne!(before, after, "money moved");
    }

    #[test]
    fn a_full_block_takes_longer_and_a_stop_is_heard() {
        let blocks = measure(200, 3, &|| false).expect("executed").expect("not stopped");
        assert!(blocks.full.median > blocks.empty.median, "{blocks:?}");
        assert!((blocks.transaction.mean * 200.0 - (blocks.full.mean - blocks.empty.mean)).abs() < 1.0, "{blocks:?}");
        assert!(measure(1, 1, &|| true).expect("executed").is_none());
    }
}
