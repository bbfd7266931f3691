//! hands: who executes a block: its entries on as many threads as it is worth, in an order that changes nothing.
//!
//! reads   the transactions of a block's entries
//! writes  the bank; batches of what the transactions did, for the history
//! memory  an executor for each core; the batches of one block
//! drops   entries behind one with a transaction that does not land

use hearth_ledger::history::{BatchWriter, HistoryKey};
use hearth_ledger::{Bank, Executor, Outcome, in_order};
use hearth_pipeline::bank::record_transaction;
use hearth_wire::txn::Txn;

/// Fewer transactions are not worth a second thread.
const WORTH_A_THREAD: usize = 256;

/// A thread's own.
struct Hand {
    executor: Executor,
    outcomes: Vec<Outcome>,
    writer: Option<BatchWriter>,
    /// By the number of the entry.
    batches: Vec<(usize, Vec<u8>)>,
    /// The transaction of an entry that does not land.
    failed: Option<(usize, usize, Outcome)>,
}

/// Executes blocks.
pub struct Hands {
    hands: Vec<Hand>,
    extended: bool,
}

/// Why a block ends: which of its transactions does not land, and what became of it.
pub type Failed = (usize, Outcome);

impl Hands {
    /// As many as there are cores. `recording`: the log's key, and whether with logs and calls.
    pub fn new(recording: Option<(HistoryKey, bool)>) -> Self {
        Self::on(std::thread::available_parallelism().map_or(1, usize::from), recording)
    }

    /// So many.
    pub fn on(threads: usize, recording: Option<(HistoryKey, bool)>) -> Self {
        let hand = || Hand {
            executor: Executor::new(),
            outcomes: vec![],
            writer: recording.as_ref().map(|(key, _)| BatchWriter::new(key.clone())),
            batches: vec![],
            failed: None,
        };
        let extended = recording.as_ref().is_some_and(|(_, extended)| *extended);
        Self { hands: (0..threads.max(1)).map(|_| hand()).collect(), extended }
    }

    /// Executes entries, each a unit of transactions in order. Returns what they did, entry by entry, where that is
    /// recorded and asked for.
    ///
    /// # Errors
    /// The first transaction of the block that does not land.
    pub fn execute(&mut self, bank: &Bank, entries: &[Vec<Txn<'_>>], records: bool) -> Result<Vec<Vec<u8>>, Failed> {
        let (slot, extended) = (bank.slot(), self.extended);
        for hand in &mut self.hands {
            hand.executor.set_recording(records && hand.writer.is_some());
            (hand.failed, hand.batches) = (None, vec![]);
        }
        let run =
            |hand: &mut Hand, number: usize| hand.entry(bank, (slot, number), &entries[number], records, extended);
        let count: usize = entries.iter().map(Vec::len).sum();
        if count < WORTH_A_THREAD || self.hands.len() == 1 {
            let hand = &mut self.hands[0];
            let _ = (0..entries.len()).all(|number| run(hand, number));
        } else {
            let touched = |number: usize, touched: &mut Vec<_>| {
                entries[number].iter().for_each(|txn| bank.touched(txn, touched));
            };
            in_order(entries.len(), &mut self.hands, touched, run);
        }
        if let Some((entry, at, outcome)) = self.hands.iter().filter_map(|hand| hand.failed).min_by_key(|(e, ..)| *e) {
            return Err((entries[..entry].iter().map(Vec::len).sum::<usize>() + at, outcome));
        }
        let mut batches: Vec<_> = self.hands.iter_mut().flat_map(|hand| std::mem::take(&mut hand.batches)).collect();
        batches.sort_unstable_by_key(|(number, _)| *number);
        Ok(batches.into_iter().map(|(_, batch)| batch).collect())
    }
}

impl Hand {
    /// Executes an entry; whether the block goes on.
    fn entry(
        &mut self,
        bank: &Bank,
        (slot, number): (u64, usize),
        txns: &[Txn<'_>],
        records: bool,
        extended: bool,
    ) -> bool {
        bank.execute(&mut self.executor, txns, &mut self.outcomes);
        if let Some(at) = self.outcomes.iter().position(|outcome| !outcome.is_committed()) {
            // One that failed before in this thread is of an earlier entry, or stands for as much.
            let failed = (number, at, self.outcomes[at]);
            self.failed = Some(self.failed.map_or(failed, |before| if before.0 < number { before } else { failed }));
            return false;
        }
        if let Some(writer) = self.writer.as_mut().filter(|_| records) {
            writer.begin(slot, number as u64);
            for ((txn, outcome), record) in txns.iter().zip(&self.outcomes).zip(self.executor.records()) {
                record_transaction(writer, extended, txn, outcome, record.as_deref());
            }
            self.batches.extend(writer.finish().map(|batch| (number, batch.to_vec())));
        }
        true
    }
}

#[cfg(test)]
mod tests;
