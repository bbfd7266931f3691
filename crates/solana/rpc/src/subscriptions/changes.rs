//! What has changed between two polls of the ledger.
//!
//! reads   the ledger; what the banks have published
//! writes  the slots, transactions and accounts of the interval
//! memory  a pair of numbers per slot of the interval, at most 512; what the banks have published, see
//!         [`hearth_ledger::notifier`]

use std::collections::{HashMap, HashSet};

use hearth_ledger::notifier::{AccountUpdate, DrainedNotifications, LandedTransaction};
use hearth_ledger::{BlockSummary, Commitment, Ledger};
use hearth_tile::clock::unix_time;
use hearth_wire::{Pubkey, Txn};
use serde_json::{Value, json};

/// Blocks to request from the ledger after slots have passed: as many as it remembers.
const BLOCKS_MAX: usize = 512;

/// The numbers of the ledger that change with any event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeCounters {
    transactions: u64,
    processed: u64,
    /// The slot of the last block that has ended.
    ended: u64,
    confirmed: u64,
    finalized: u64,
}

impl ChangeCounters {
    pub fn now(ledger: &Ledger) -> Self {
        Self {
            // Read first, so that a transaction that lands afterwards is found by the next poll.
            transactions: ledger.transaction_count(Commitment::Processed),
            processed: ledger.slot(Commitment::Processed),
            ended: ledger.recent_blocks(1).first().map_or(0, |block| block.slot),
            confirmed: ledger.slot(Commitment::Confirmed),
            finalized: ledger.slot(Commitment::Finalized),
        }
    }

    pub fn slot(&self, commitment: Commitment) -> u64 {
        match commitment {
            Commitment::Processed => self.processed,
            Commitment::Confirmed => self.confirmed,
            Commitment::Finalized => self.finalized,
        }
    }
}

/// The changes between two polls.
pub struct Changes {
    before: ChangeCounters,
    /// The numbers at this poll.
    pub now: ChangeCounters,
    /// Whether there is a subscription that the last poll did not have.
    pub fresh: bool,
    /// Slots that have begun, each with its parent, the oldest first.
    pub slots: Vec<(u64, u64)>,
    /// Slots that have become final.
    pub roots: Vec<u64>,
    /// Slot updates in the format of `slotsUpdates`.
    pub updates: Vec<Value>,
    /// Transactions that have landed.
    pub landed: Vec<LandedTransaction>,
    /// Accounts that have changed, each once per slot.
    pub changed: Vec<AccountUpdate>,
    /// Indices in `landed` by mentioned address.
    mentions: HashMap<Pubkey, Vec<usize>>,
    /// Indices in `changed` by owner program.
    owned: HashMap<Pubkey, Vec<usize>>,
}

impl Changes {
    pub fn between(
        ledger: &Ledger,
        before: &ChangeCounters,
        now: ChangeCounters,
        fresh: bool,
        tapped: DrainedNotifications,
    ) -> Self {
        let mut changes = Self {
            before: *before,
            now,
            fresh,
            slots: vec![],
            roots: vec![],
            updates: vec![],
            landed: tapped.landed,
            changed: last_of_each(tapped.changed),
            mentions: HashMap::new(),
            owned: HashMap::new(),
        };
        if (ChangeCounters { transactions: 0, ..now }) != (ChangeCounters { transactions: 0, ..*before }) {
            changes.slots_between(ledger);
        }
        for (index, landed) in changes.landed.iter().enumerate() {
            for key in keys(landed) {
                changes.mentions.entry(key).or_default().push(index);
            }
        }
        for (index, changed) in changes.changed.iter().enumerate() {
            changes.owned.entry(changed.account.owner).or_default().push(index);
        }
        changes
    }

    fn slots_between(&mut self, ledger: &Ledger) {
        let (before, now) = (self.before, self.now);
        let working = ledger.working_bank().map(|bank| (bank.slot(), bank.parent()));
        let mut blocks = ledger.recent_blocks(BLOCKS_MAX);
        blocks.reverse();
        let begun = blocks.iter().map(|block| (block.slot, block.parent)).chain(working);
        // A slot that began after the numbers were read is left to the next poll.
        self.slots = begun.filter(|(slot, _)| *slot > before.processed && *slot <= now.processed).collect();
        let within = |after: u64, last: u64| move |block: &&BlockSummary| block.slot > after && block.slot <= last;
        self.roots = blocks.iter().filter(within(before.finalized, now.finalized)).map(|block| block.slot).collect();
        let timestamp = unix_time().as_millis() as u64;
        let step = |kind: &str, slot: u64| json!({ "type": kind, "slot": slot, "timestamp": timestamp });
        for (slot, parent) in &self.slots {
            self.updates.push(step("firstShredReceived", *slot));
            let mut created = step("createdBank", *slot);
            created["parent"] = json!(parent);
            self.updates.push(created);
        }
        for block in blocks.iter().filter(within(before.ended, now.ended)) {
            self.updates.push(step("completed", block.slot));
            let mut frozen = step("frozen", block.slot);
            // Entries are made after the banks, so there are no counts of them by slot.
            frozen["stats"] = json!({
                "numTransactionEntries": 0,
                "numSuccessfulTransactions": block.counts.committed - block.counts.failed,
                "numFailedTransactions": block.counts.failed,
                "maxTransactionsPerEntry": 0,
            });
            self.updates.push(frozen);
        }
        let confirmed = blocks.iter().filter(within(before.confirmed, now.confirmed));
        self.updates.extend(confirmed.map(|block| step("optimisticConfirmation", block.slot)));
        self.updates.extend(self.roots.iter().map(|slot| step("root", *slot)));
    }

    /// Whether a transaction may have reached `commitment`.
    pub fn may_have_landed(&self, commitment: Commitment) -> bool {
        match commitment {
            Commitment::Processed => self.now.transactions != self.before.transactions,
            surer => self.now.slot(surer) != self.before.slot(surer),
        }
    }

    /// Whether an account may have changed at `commitment`.
    pub fn may_have_changed(&self, commitment: Commitment) -> bool {
        let slot = |seen: ChangeCounters| seen.slot(commitment);
        self.may_have_landed(commitment) || slot(self.now) != slot(self.before)
    }

    /// Transactions that mention an address.
    pub fn naming(&self, key: &Pubkey) -> impl Iterator<Item = &LandedTransaction> {
        self.mentions.get(key).into_iter().flatten().map(|index| &self.landed[*index])
    }

    /// Accounts that a program owns.
    pub fn of_program(&self, program: &Pubkey) -> impl Iterator<Item = &AccountUpdate> {
        self.owned.get(program).into_iter().flatten().map(|index| &self.changed[*index])
    }
}

/// Keeps the last state of each account in each slot, in slot order.
fn last_of_each(changed: Vec<AccountUpdate>) -> Vec<AccountUpdate> {
    let mut seen = HashSet::new();
    let mut last: Vec<AccountUpdate> =
        changed.into_iter().rev().filter(|one| seen.insert((one.slot, one.key))).collect();
    last.reverse();
    last
}

/// Every address that a transaction mentions, once.
fn keys(landed: &LandedTransaction) -> HashSet<Pubkey> {
    let own = Txn::parse(&landed.wire).map(|txn| txn.account_keys().to_vec()).unwrap_or_default();
    own.into_iter().chain(landed.loaded.iter().copied()).collect()
}
