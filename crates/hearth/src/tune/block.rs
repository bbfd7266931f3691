//! `hearth tune block`: how long this build takes to execute an empty block and a full one, on one thread.
//!
//! reads   nothing: accounts and transfers are made here
//! writes  the times, as text and JSON
//! memory  some 100 MB, and 300 B for each transaction of a block
//! source  what `polkadot benchmark extrinsic` measures: of each block so many executions after ten that warm up; a
//!         transaction is a full block less the mean of the empty ones, divided by its transactions
//!
//! To execute a block is what a node does that was sent it: signatures are verified, transactions parsed and executed
//! in microblocks, the slot ended and its bank hashed. Its hash chain, disk and network are left out.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use hearth_crypto::ed25519::{SigningKey, Verifier, VerifierConfig, VerifyItem};
use hearth_ledger::{Account, Executor, Genesis, GenesisConfig, Ledger, LedgerConfig, Outcome};
use hearth_wire::{Hash, TransferTemplate, Txn};
use serde_json::{Value, json};

use super::{TuneError, write};
use crate::out::can_be_written;
use crate::say::Say;
use crate::stop::StopSignal;

/// Transactions of a microblock, as `pack` makes them.
const MICROBLOCK: usize = 64;
/// Accounts that pay each other.
const ACCOUNTS: usize = 1_024;
/// Executions of each block that are not measured.
const WARM_UP: usize = 10;

/// `hearth tune block`
#[derive(Args)]
pub struct Block {
    /// Transfers in the full block.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub transactions: u32,
    /// How often each block is executed and measured.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: u32,
    /// Write the result as JSON to this file, `-` for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A chain of one, and whoever pays.
struct Chain {
    ledger: Arc<Ledger>,
    executor: Executor,
    verifier: Verifier,
    keys: Vec<SigningKey>,
    slot: u64,
    /// Transfers so far: no two are the same.
    made: u64,
}

impl Chain {
    fn new() -> Result<Self, TuneError> {
        let config = GenesisConfig { fund_initial_accounts: 0, ..GenesisConfig::development([1; 32], [2; 32], 0) };
        let genesis = Genesis::create(config, |_| {}).map_err(|why| TuneError::Block(why.to_string()))?;
        let ledger = Ledger::new(&genesis, LedgerConfig::default());
        let key = |n: usize| SigningKey::from_seed(&std::array::from_fn(|at| (n >> (8 * (at % 4))) as u8));
        let keys: Vec<SigningKey> = (0..ACCOUNTS).map(key).collect();
        keys.iter().for_each(|key| ledger.accounts().store(&key.public_key(), Account::wallet(1 << 50)));
        let verifier = Verifier::new(VerifierConfig::default());
        Ok(Self { ledger, executor: Executor::new(), verifier, keys, slot: 0, made: 0 })
    }

    /// Makes a block's transfers, which nobody measures.
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

    /// Executes a block of so many transfers, and says how long that took.
    fn block(&mut self, count: usize) -> Result<Duration, TuneError> {
        let failed = |what: &dyn std::fmt::Display| TuneError::Block(what.to_string());
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

/// What times say: all of them in nanoseconds.
struct Times {
    median: f64,
    mean: f64,
    deviation: f64,
}

impl Times {
    fn of(mut ns: Vec<f64>) -> Self {
        ns.sort_by(f64::total_cmp);
        let count = ns.len() as f64;
        let mean = ns.iter().sum::<f64>() / count;
        let variance = ns.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count;
        let median = (ns[(ns.len() - 1) / 2] + ns[ns.len() / 2]) / 2.0;
        Self { median, mean, deviation: variance.sqrt() }
    }

    fn json(&self) -> Value {
        json!({ "median": self.median, "mean": self.mean, "deviation": self.deviation })
    }
}

/// Runs the command.
pub fn run(options: &Block, stop: &StopSignal, say: &Say) -> Result<(), TuneError> {
    let to_stdout = options.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let file = options.json.as_deref().filter(|_| !to_stdout);
    file.map_or(Ok(()), can_be_written)?;
    let mut chain = Chain::new()?;
    let transactions = options.transactions as usize;
    let mut times = [Vec::new(), Vec::new()];
    // In turn: what the machine does in a while it does to both.
    for repeat in 0..WARM_UP + options.repeat as usize {
        for (times, count) in times.iter_mut().zip([0, transactions]) {
            if stop.is_set() {
                return Err(TuneError::Interrupted);
            }
            let took = chain.block(count)?;
            if repeat >= WARM_UP {
                times.push(took.as_secs_f64() * 1e9);
            }
        }
    }
    let [empty, full] = times;
    let base = empty.iter().sum::<f64>() / empty.len() as f64;
    let each = Times::of(full.iter().map(|full| (full - base) / transactions as f64).collect());
    let (empty, full) = (Times::of(empty), Times::of(full));
    let result = json!({
        "transactions": transactions,
        "blocks": options.repeat,
        "empty_block_ns": empty.json(),
        "full_block_ns": full.json(),
        "transaction_ns": each.json(),
    });
    write(file, || format!("{result:#}\n"))?;
    if to_stdout {
        say.text(format!("{result:#}\n"));
        return Ok(());
    }
    let row = |name: &str, times: &Times, unit: &str, per: f64| {
        let [median, mean, deviation] = [times.median, times.mean, times.deviation].map(|ns| ns / per);
        format!("{name:<14}{median:>10.2} {unit}   mean {mean:.2}, deviation {deviation:.2}\n")
    };
    let head = format!("{} times each, on one thread; the full block has {transactions} transfers\n", options.repeat);
    say.text(
        head + &row("empty block", &empty, "µs", 1e3)
            + &row("full block", &full, "ms", 1e6)
            + &row("transaction", &each, "µs", 1e3),
    );
    Ok(())
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
    fn times_are_as_by_hand() {
        let times = Times::of(vec![4.0, 1.0, 3.0, 8.0]);
        assert_eq!((times.median, times.mean), (3.5, 4.0));
        assert!((times.deviation - (26.0f64 / 4.0).sqrt()).abs() < 1e-12);
    }
}
