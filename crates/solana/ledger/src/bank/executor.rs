//! The per-thread state for executing microblocks. Runs transfers one by one on the fast path, and everything else in
//! batches on the general engine.
//!
//! reads   the transactions of a microblock, the accounts
//! writes  the working set, outcomes, records if requested
//! memory  the accounts of one microblock; a worker of the general engine from its first use on

use hearth_wire::consts::SYSVAR_SLOT_HASHES;
use hearth_wire::{Pubkey, Txn};

use super::checks::CheckedTransaction;
use super::lookup::LoadedAddresses;
use super::program_runtime::{AccountReader, RuntimeBatch, RuntimeOutcome, RuntimeTransaction, RuntimeWorker};
use super::record::{Record, transfer_logs};
use super::transfer::{Run, TouchedAccounts, TransferRules, Transfers};
use super::working_set::{WorkingSet, WorkingSetIndex};
use super::{Bank, CommittedTransaction, Outcome};
use crate::account::Account;
use crate::accounts::Accounts;
use crate::error::TransactionError;
use crate::status_cache::{Claim, LandedKeys, MessageKey};

/// The state that one thread needs to run microblocks of one ledger; reuse it for all of them.
#[derive(Debug, Default)]
pub struct Executor {
    pub(super) set: WorkingSet,
    pub(super) checked: Vec<Result<(CheckedTransaction, Claim), TransactionError>>,
    /// The landed transactions of the microblock, if the block may be undone.
    pub(super) landed: LandedKeys,
    messages: Vec<MessageKey>,
    touched: TouchedAccounts,
    /// The working-set places of all transactions' accounts, concatenated, and where each transaction's begin.
    places: Vec<WorkingSetIndex>,
    first_places: Vec<usize>,
    loaded: Vec<LoadedAddresses>,
    /// Digests of the locked addresses for the next microblock's transactions, where given.
    locked: Vec<Option<u64>>,
    worker: Option<Box<dyn RuntimeWorker>>,
    recording: bool,
    records: Vec<Option<Box<Record>>>,
    fast_path_off: bool,
    rules: TransferRules,
}

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The outcome that the transaction would have in this block.
    pub outcome: Outcome,
    /// The record of its effects, if it would land.
    pub record: Option<Box<Record>>,
    /// Its accounts afterwards, in its own order; `None` for one that could not be loaded.
    pub accounts: Vec<(Pubkey, Option<Account>)>,
}

impl Executor {
    /// An executor that has not allocated memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An executor that runs transfers on the general engine too, for benchmarks and comparisons.
    pub fn without_fast_path() -> Self {
        Self { fast_path_off: true, ..Self::default() }
    }

    /// An executor whose fast path has other rules than the cluster's, to test which checks notice.
    pub fn with_rules(rules: TransferRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Sets whether to record each transaction from now on. A failed transfer then runs on the general engine, which
    /// produces its log.
    pub fn set_recording(&mut self, recording: bool) {
        self.recording = recording;
    }

    /// Sets the locked lookup-table addresses of each transaction of the next microblock, as
    /// [`LoadedAddresses::digest`]. A transaction whose tables yield others is refused.
    pub fn set_locked(&mut self, locked: impl Iterator<Item = Option<u64>>) {
        self.locked.clear();
        self.locked.extend(locked);
    }

    /// Turns recording on if `too` is set; returns whether it was on before.
    pub(super) fn record_too(&mut self, too: bool) -> bool {
        let before = self.recording;
        self.recording |= too;
        before
    }

    /// The records of the last microblock, one slot per outcome while recording: every landed transaction has one.
    pub fn records(&self) -> &[Option<Box<Record>>] {
        &self.records
    }

    /// Checks the transactions of a microblock and loads the accounts of those that pass.
    pub(super) fn begin(&mut self, bank: &Bank, txns: &[Txn<'_>]) {
        self.checked.clear();
        self.clear(txns.len());
        self.messages.clear();
        self.messages.extend(txns.iter().map(|txn| bank.shared.statuses.expect(txn)));
        let locked = self.locked.drain(..).chain(std::iter::repeat(None));
        let each = txns.iter().zip(&mut self.loaded).zip(locked).zip(&self.messages);
        let checked =
            each.map(|(((txn, loaded), locked), message)| bank.check_and_claim(txn, loaded, locked, *message));
        self.checked.extend(checked);
        for (index, txn) in txns.iter().enumerate() {
            match self.checked[index].is_ok() {
                true => self.find_places(&bank.shared.accounts, index, txn),
                false => self.first_places.push(self.places.len()),
            }
        }
        self.set.load(&bank.shared.accounts);
    }

    fn clear(&mut self, count: usize) {
        self.set.clear();
        self.places.clear();
        self.first_places.clear();
        self.loaded.clear();
        self.loaded.resize(count, LoadedAddresses::default());
        self.records.clear();
        if self.recording {
            self.records.resize(count, None);
        }
    }

    fn find_places(&mut self, accounts: &Accounts, index: usize, txn: &Txn<'_>) {
        self.first_places.push(self.places.len());
        let keys = txn.account_keys().iter().chain(self.loaded[index].all());
        self.places.extend(keys.map(|key| self.set.place(accounts, key)));
    }

    /// Runs the transactions that passed, in order, and pushes one outcome for each.
    pub(super) fn run(&mut self, bank: &Bank, txns: &[Txn<'_>], outcomes: &mut Vec<Outcome>) {
        while let Some(txn) = txns.get(outcomes.len()) {
            let index = outcomes.len();
            let fast = match &self.checked[index] {
                Err(error) => Some(Outcome::NotCommitted(*error)),
                Ok((checked, _)) if checked.is_general || self.fast_path_off => None,
                &Ok((checked, _)) => self.transfers(bank, index, txn, &checked),
            };
            match fast {
                Some(outcome) => outcomes.push(outcome),
                None => self.run_general(bank, txns, outcomes),
            }
        }
    }

    /// Runs one transaction on the fast path; `None`, and nothing changed, if that is not possible.
    fn transfers(&mut self, bank: &Bank, index: usize, txn: &Txn<'_>, checked: &CheckedTransaction) -> Option<Outcome> {
        let first = self.first_places[index];
        let places = &self.places[first..first + txn.account_keys().len()];
        let transfers = Transfers {
            txn,
            places,
            fee: checked.fee.total(),
            compute_unit_limit: checked.budget.compute_unit_limit.into(),
            loaded_bytes_limit: checked.budget.loaded_accounts_bytes,
            rules: &self.rules,
            of_block: &bank.features.rules,
        };
        let before = self.recording.then(|| {
            let balances: Vec<(u64, u64)> = places.iter().map(|&place| (self.set.get(place).lamports, 0)).collect();
            (self.set.get(places[0]).clone(), balances)
        });
        match (transfers.run(&mut self.set, &mut self.touched), before) {
            (Run::General, _) => None,
            (Run::Refused(error), _) => Some(Outcome::NotCommitted(error)),
            (Run::Landed { result: Err(_), .. }, Some((payer, _))) if bank.shared.general.knows_transfers() => {
                // A failed transaction has only paid the fee. With that undone it can be run again.
                *self.set.get_mut(places[0]) = payer;
                None
            }
            (Run::Landed { result, compute_units, loaded_bytes }, before) => {
                if let Some((_, mut balances)) = before {
                    let afterwards = places.iter().map(|&place| self.set.get(place).lamports);
                    balances.iter_mut().zip(afterwards).for_each(|((_, after), lamports)| *after = lamports);
                    let logs = if result.is_ok() { transfer_logs(txn) } else { vec![] };
                    self.records[index] = Some(Box::new(Record { logs, balances, ..Record::default() }));
                }
                let (err, fee) = (result.err(), checked.fee.total());
                Some(Outcome::Committed(CommittedTransaction { err, fee, compute_units, loaded_bytes }))
            }
        }
    }

    /// Runs the next transaction, and those after it that also need it, on the general engine.
    #[cold]
    fn run_general(&mut self, bank: &Bank, txns: &[Txn<'_>], outcomes: &mut Vec<Outcome>) {
        let first = outcomes.len();
        let needs = |checked: &Result<(CheckedTransaction, Claim), _>| match checked {
            Ok((checked, _)) => checked.is_general || self.fast_path_off,
            Err(_) => false,
        };
        let more = self.checked[first + 1..].iter().take_while(|checked| needs(checked)).count();
        let indexes = first..=first + more;
        let loaded = std::mem::take(&mut self.loaded);
        let batch: Vec<_> = indexes
            .clone()
            .map(|index| match &self.checked[index] {
                Ok((checked, _)) => general_txn(&txns[index], &loaded[index], checked),
                Err(_) => unreachable!("only transactions that passed are run"),
            })
            .collect();
        let results = self.worker_results(bank, &batch, false);
        self.loaded = loaded;
        for (index, result) in indexes.zip(results) {
            let fee = self.checked[index].as_ref().map_or(0, |(checked, _)| checked.fee.total());
            let outcome = self.commit_general(bank, index, fee, result);
            outcomes.push(outcome);
        }
    }

    fn worker_results(&mut self, bank: &Bank, txns: &[RuntimeTransaction<'_>], trial: bool) -> Vec<RuntimeOutcome> {
        // Programs may read the slot hashes, which are written once the parent's bank hash is known.
        bank.shared.hashing.complete(&bank.shared.accounts);
        self.set.reload(&bank.shared.accounts, &SYSVAR_SLOT_HASHES);
        for (key, account) in &bank.ahead {
            let place = self.set.place(&bank.shared.accounts, key);
            self.set.load(&bank.shared.accounts);
            self.set.get_mut(place).clone_from(account);
        }
        let accounts = &WorkingReader { set: &self.set, accounts: &bank.shared.accounts };
        let (slot, recording) = (bank.slot, self.recording);
        let (blockhash, price) = (bank.blockhashes.last(), bank.blockhashes.last_price());
        let worker = self.worker.get_or_insert_with(|| bank.shared.general.worker());
        let mut results = Vec::with_capacity(txns.len());
        let (stakes, ahead) = (bank.stakes.as_deref(), !bank.ahead.is_empty());
        let features = &bank.features;
        let batch = RuntimeBatch { txns, slot, blockhash, price, features, accounts, stakes, recording, trial, ahead };
        worker.execute(&batch, &mut results);
        assert_eq!(results.len(), txns.len(), "an outcome for each transaction");
        results
    }

    fn commit_general(&mut self, bank: &Bank, index: usize, fee: u64, result: RuntimeOutcome) -> Outcome {
        match result {
            RuntimeOutcome::Unsupported => Outcome::Unsupported,
            RuntimeOutcome::Refused(error) => Outcome::NotCommitted(error),
            RuntimeOutcome::Committed { result, compute_units, loaded_bytes, writes, record } => {
                let accounts = &bank.shared.accounts;
                for (key, account) in writes {
                    let place = self.set.place(accounts, &key);
                    self.set.load(accounts);
                    *self.set.get_mut(place) = account;
                    self.set.commit(place);
                }
                if self.recording {
                    self.records[index] = record;
                }
                Outcome::Committed(CommittedTransaction { err: result.err(), fee, compute_units, loaded_bytes })
            }
        }
    }

    /// Simulates a transaction on the current state.
    pub(super) fn simulate(&mut self, bank: &Bank, txn: &Txn<'_>) -> Simulation {
        let was_recording = std::mem::replace(&mut self.recording, true);
        let simulation = self.simulate_recording(bank, txn);
        self.recording = was_recording;
        simulation
    }

    fn simulate_recording(&mut self, bank: &Bank, txn: &Txn<'_>) -> Simulation {
        self.clear(1);
        let refused = |error| Simulation { outcome: Outcome::NotCommitted(error), record: None, accounts: vec![] };
        let checked = match bank.check(txn, &mut self.loaded[0], None) {
            Ok(checked) if bank.shared.statuses.has_landed(txn, bank.height) => {
                return refused(checked.error_if_landed());
            }
            Ok(checked) => checked,
            Err(error) => return refused(error),
        };
        let accounts = &bank.shared.accounts;
        self.find_places(accounts, 0, txn);
        self.set.load(accounts);
        let fast = match checked.is_general || self.fast_path_off {
            true => None,
            false => self.transfers(bank, 0, txn, &checked),
        };
        let outcome = fast.unwrap_or_else(|| self.simulate_general(bank, txn, &checked));
        let keys = txn.account_keys().iter().chain(self.loaded[0].all());
        let accounts = keys.map(|key| (*key, self.set.find(accounts, key))).collect();
        Simulation { outcome, record: self.records[0].take(), accounts }
    }

    fn simulate_general(&mut self, bank: &Bank, txn: &Txn<'_>, checked: &CheckedTransaction) -> Outcome {
        let loaded = std::mem::take(&mut self.loaded[0]);
        let results = self.worker_results(bank, &[general_txn(txn, &loaded, checked)], true);
        self.loaded[0] = loaded;
        let result = results.into_iter().next().expect("an outcome for each transaction");
        self.commit_general(bank, 0, checked.fee.total(), result)
    }
}

fn general_txn<'a>(
    txn: &'a Txn<'a>,
    loaded: &'a LoadedAddresses,
    checked: &CheckedTransaction,
) -> RuntimeTransaction<'a> {
    RuntimeTransaction { txn, loaded, budget: checked.budget, fee: checked.fee, needs_nonce: checked.needs_nonce }
}

/// The accounts as the microblock has left them so far.
struct WorkingReader<'a> {
    set: &'a WorkingSet,
    accounts: &'a Accounts,
}

impl AccountReader for WorkingReader<'_> {
    fn load(&self, key: &Pubkey) -> Option<Account> {
        self.set.find(self.accounts, key)
    }
}
