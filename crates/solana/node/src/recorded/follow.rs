//! Executes the blocks of a recorded ledger, and follows its forks.
//!
//! reads   a ledger in memory
//! writes  the first difference
//! memory  the state; blocks above the last one from which a fork parts can be undone

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use hearth_ledger::bank::LoadedAddresses;
use hearth_ledger::{Bank, Executor, Forks, Ledger, LedgerConfig, Outcome, StatusCacheConfig};
use hearth_svm::Svm;
use hearth_wire::Pubkey;
use hearth_wire::txn::Txn;

use super::compare::{self, LocalResult};
use super::format::{Block, RecordedLedger, RefusedTransaction};
use super::{Difference, ReplayCounts};

/// Replays a ledger up to the first difference.
pub fn replay(recorded: &RecordedLedger) -> Result<ReplayCounts, Box<Difference>> {
    let ledger = Ledger::new(&recorded.genesis, ledger_config(&recorded.blocks));
    let mut replay = Replay::new(ledger, &recorded.blocks);
    for index in 0..recorded.blocks.len() {
        replay.follow(index)?;
    }
    Ok(replay.done)
}

/// Replays what follows the newest block of `ledger`, one of the recorded ones, up to the first difference. Its
/// configuration is [`ledger_config`].
///
/// # Panics
///
/// A recorded block after that one goes back to one before it.
pub fn replay_after(ledger: Arc<Ledger>, recorded: &RecordedLedger) -> Result<ReplayCounts, Box<Difference>> {
    let last = ledger.recent_blocks(1)[0].slot;
    let mut replay = Replay::new(ledger, &recorded.blocks);
    for index in replay.places[&last] + 1..recorded.blocks.len() {
        replay.follow(index)?;
    }
    Ok(replay.done)
}

/// The configuration of a ledger that follows these blocks.
pub fn ledger_config(blocks: &[Block]) -> LedgerConfig {
    LedgerConfig {
        status_cache: StatusCacheConfig { enabled: true, capacity_txns: 0 },
        general: Box::new(Svm::new()),
        forks: Some(Forks::default()),
        hard_forks: blocks.iter().filter(|block| block.hard_fork).map(|block| block.slot).collect(),
        ..LedgerConfig::default()
    }
}

/// A ledger that follows recorded blocks.
struct Replay<'a> {
    ledger: Arc<Ledger>,
    executor: Executor,
    blocks: &'a [Block],
    /// The place of each slot's block in `blocks`.
    places: HashMap<u64, usize>,
    /// For each block the slot below which nothing after it goes back.
    kept_from: Vec<u64>,
    done: ReplayCounts,
}

impl<'a> Replay<'a> {
    /// Nothing of `blocks` is replayed yet; the ledger is at one of them.
    fn new(ledger: Arc<Ledger>, blocks: &'a [Block]) -> Self {
        let mut executor = Executor::new();
        executor.set_recording(true);
        let places: HashMap<u64, usize> = blocks.iter().enumerate().map(|(at, block)| (block.slot, at)).collect();
        let kept_from = kept_from(blocks, &places);
        Self { ledger, executor, blocks, places, kept_from, done: ReplayCounts::default() }
    }

    /// Executes the block at `index` on its parent, and compares.
    fn follow(&mut self, index: usize) -> Result<(), Box<Difference>> {
        let blocks = self.blocks;
        let block = &blocks[index];
        if index == 0 {
            return compare::first_block(&self.ledger, block);
        }
        let mut again = self.go_to(block.parent);
        while let Some(slot) = again.pop() {
            let at = self.places[&slot];
            let before = self.done;
            self.execute(at)?;
            self.done = before;
        }
        self.execute(index)?;
        // What nothing goes back to need not be kept.
        self.ledger.mark_rooted(self.kept_from[index]);
        Ok(())
    }

    /// Goes back to the newest block that the ledger shares with the line that ends at `slot`. Returns the slots of
    /// that line's blocks after it, the newest first.
    fn go_to(&mut self, slot: u64) -> Vec<u64> {
        let head = self.ledger.recent_blocks(1)[0].slot;
        let (shared, after) = parting(self.blocks, &self.places, head, slot);
        if shared != head {
            self.ledger.rewind(shared).expect("blocks are kept from the earliest fork on");
        }
        after
    }

    fn execute(&mut self, index: usize) -> Result<(), Box<Difference>> {
        let blocks = self.blocks;
        let block = &blocks[index];
        let (slot, parent) = (block.slot, block.parent);
        let begun = self.timed(|replay| replay.ledger.begin_slot(slot, parent));
        let bank = begun.map_err(|why| compare::cannot_begin(slot, &why))?;
        compare::leader(&self.ledger, block)?;
        // Those of an unknown place are tried out before each transaction until they are refused as recorded.
        let mut anywhere: Vec<&RefusedTransaction> = block.refused.iter().filter(|one| one.after.is_none()).collect();
        for (number, landed) in block.txs.iter().enumerate() {
            self.refuse(&bank, block, number..=number)?;
            anywhere.retain(|one| compare::refused(slot, one, |txn| self.try_out(&bank, txn)).is_err());
            compare::landed(slot, number, landed, |txn| self.run(&bank, txn))?;
        }
        self.refuse(&bank, block, block.txs.len()..=usize::MAX)?;
        for one in anywhere {
            compare::refused(slot, one, |txn| self.try_out(&bank, txn))?;
        }
        let ended = self.timed(|replay| {
            let ended = replay.ledger.end_slot(slot, block.blockhash).expect("the slot is in progress");
            replay.ledger.hash_all();
            ended
        });
        self.done.blocks += 1;
        self.done.transactions += block.txs.len() as u64;
        self.done.refused += block.refused.len() as u64;
        compare::block(&self.ledger, block, &ended)
    }

    /// Executes those that are to be refused once so many of the block's transactions are executed.
    fn refuse(&mut self, bank: &Bank, block: &Block, after: RangeInclusive<usize>) -> Result<(), Box<Difference>> {
        for one in block.refused.iter().filter(|one| one.after.is_some_and(|at| after.contains(&at))) {
            compare::refused(block.slot, one, |txn| self.run(bank, txn).outcome)?;
        }
        Ok(())
    }

    /// Simulates a transaction on the bank's state, which does not change.
    fn try_out(&mut self, bank: &Bank, txn: &Txn<'_>) -> Outcome {
        bank.simulate(&mut self.executor, txn).outcome
    }

    /// Executes a transaction, and reads its accounts before and after.
    fn run(&mut self, bank: &Bank, txn: &Txn<'_>) -> LocalResult {
        let keys = addresses(&self.ledger, bank.slot(), txn);
        let before = keys.iter().map(|key| self.ledger.account(key)).collect();
        let mut outcomes = vec![];
        self.timed(|replay| bank.execute(&mut replay.executor, std::slice::from_ref(txn), &mut outcomes));
        let logs = self.executor.records()[0].as_ref().map(|record| record.logs.clone()).unwrap_or_default();
        let after = keys.iter().map(|key| self.ledger.account(key)).collect();
        LocalResult { outcome: outcomes[0], logs, keys, before, after }
    }

    /// Runs a step of the ledger and adds its time.
    fn timed<T>(&mut self, step: impl FnOnce(&mut Self) -> T) -> T {
        let began = Instant::now();
        let value = step(self);
        self.done.took += began.elapsed();
        value
    }
}

/// All accounts that a transaction names, also by lookup tables.
fn addresses(ledger: &Ledger, slot: u64, txn: &Txn<'_>) -> Vec<Pubkey> {
    let mut keys = txn.account_keys().to_vec();
    if txn.loaded_count() > 0
        && let Ok(loaded) = LoadedAddresses::resolve(txn, ledger.accounts(), slot)
    {
        keys.extend(loaded.all());
    }
    keys
}

/// The newest block that the lines ending at two slots share, and the slots of the second line after it, the newest
/// first.
fn parting(blocks: &[Block], places: &HashMap<u64, usize>, head: u64, slot: u64) -> (u64, Vec<u64>) {
    let parent = |slot: u64| blocks[places[&slot]].parent;
    let (mut on_line, mut at, mut after) = (head, slot, vec![]);
    while on_line != at {
        if on_line > at {
            on_line = parent(on_line);
        } else {
            after.push(at);
            at = parent(at);
        }
    }
    (at, after)
}

/// For each block the lowest slot that a block after it goes back to; its own slot if none goes back below it.
fn kept_from(blocks: &[Block], places: &HashMap<u64, usize>) -> Vec<u64> {
    let mut lowest = u64::MAX;
    let mut kept = vec![0; blocks.len()];
    for index in (0..blocks.len()).rev() {
        kept[index] = lowest.min(blocks[index].slot);
        if index > 0 {
            lowest = lowest.min(parting(blocks, places, blocks[index - 1].slot, blocks[index].parent).0);
        }
    }
    kept
}
