//! Shared by this crate's tests: a chain that runs programs, and transactions for it.

pub mod elf;
pub mod instructions;

use std::sync::Arc;

use hearth_ledger::bank::{Outcome, ProgramRuntime, Record, Simulation};
use hearth_ledger::features;
use hearth_ledger::{
    Account, Bank, CommittedTransaction, Executor, Forks, Genesis, GenesisConfig, InstructionError, Ledger,
    LedgerConfig, StatusCacheConfig, TransactionError,
};
use hearth_svm::Svm;
use hearth_wire::consts::*;
use hearth_wire::message::{Instruction, Message};
use hearth_wire::{Hash, Pubkey, Txn};

pub const SOL: u64 = LAMPORTS_PER_SOL;

/// The address of test wallet `n`.
pub fn wallet(n: u64) -> Pubkey {
    let mut key = [0x5a; 32];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    key[8..16].copy_from_slice(&n.to_le_bytes());
    key
}

/// A ledger with only programs, in slot 1.
pub fn ledger(general: Box<dyn ProgramRuntime>, extra_accounts: Vec<(Pubkey, Account)>) -> Arc<Ledger> {
    ledger_with(LedgerConfig { general, ..LedgerConfig::default() }, extra_accounts)
}

fn ledger_with(made: LedgerConfig, extra_accounts: Vec<(Pubkey, Account)>) -> Arc<Ledger> {
    let config = GenesisConfig {
        fund_initial_accounts: 0,
        identity_lamports: 0,
        faucet_lamports: 0,
        extra_accounts,
        ..GenesisConfig::development([1; 32], [2; 32], 1_700_000_000)
    };
    let genesis = Genesis::create(config, |_| {}).expect("a chain");
    let status_cache = StatusCacheConfig { capacity_txns: 0, ..StatusCacheConfig::default() };
    Ledger::new(&genesis, LedgerConfig { status_cache, ..made })
}

/// Transactions whose signatures are derived from signer and message: nothing here verifies them.
pub fn bytes_of(payer: &Pubkey, instructions: &[Instruction], blockhash: &Hash) -> Vec<u8> {
    let message = Message::compile(payer, instructions, blockhash).expect("the instructions fit a packet");
    message.sign_with(|signer, message| {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&hearth_crypto::sha256::sha256(&[signer, message]));
        signature
    })
}

/// A chain with a slot in progress.
pub struct Chain {
    pub ledger: Arc<Ledger>,
    pub bank: Arc<Bank>,
    pub executor: Executor,
    pub records: Vec<Option<Box<Record>>>,
}

impl Chain {
    /// A chain with the programs that every chain has, and wallets 0.. of a thousand SOL each.
    pub fn new(wallets: u64) -> Self {
        Self::with_config(wallets, LedgerConfig::default())
    }

    /// The same with forks enabled.
    pub fn with_forks(wallets: u64) -> Self {
        Self::with_config(wallets, LedgerConfig { forks: Some(Forks::default()), ..LedgerConfig::default() })
    }

    fn with_config(wallets: u64, config: LedgerConfig) -> Self {
        let config = LedgerConfig { general: Box::new(Svm::new()), ..config };
        Self::on(config, hearth_svm::programs::genesis_accounts_with(features::supported()), wallets)
    }

    /// A chain with these accounts and the same wallets.
    pub fn on(config: LedgerConfig, accounts: Vec<(Pubkey, Account)>, wallets: u64) -> Self {
        let ledger = ledger_with(config, accounts);
        for n in 0..wallets {
            ledger.accounts().store(&wallet(n), Account::wallet(1_000 * SOL));
        }
        let bank = ledger.begin_slot(1, 0).expect("the first slot");
        Self { ledger, bank, executor: Executor::new(), records: vec![] }
    }

    /// Ends the slot and begins the next.
    pub fn next_slot(&mut self) {
        self.skip_to(self.bank.slot() + 1);
    }

    /// Ends the slot and begins a later one.
    pub fn skip_to(&mut self, later: u64) {
        let slot = self.bank.slot();
        self.ledger.end_slot(slot, blockhash_of(slot)).expect("the slot ends");
        self.bank = self.ledger.begin_slot(later, slot).expect("the slot begins");
    }

    /// Rewinds to the end of a slot and begins another there.
    pub fn leave(&mut self, to: u64, slot: u64) {
        self.ledger.rewind(to).expect("it is kept");
        self.bank = self.ledger.begin_slot(slot, to).expect("the next slot");
    }

    /// Ends the slot without beginning the next: then there is only a bank to simulate on.
    pub fn stand(&mut self) {
        let slot = self.bank.slot();
        self.ledger.end_slot(slot, blockhash_of(slot)).expect("the slot ends");
        self.bank = self.ledger.open_bank();
    }

    /// Begins the next slot.
    pub fn go_on(&mut self) {
        let (slot, parent) = (self.bank.slot(), self.bank.parent());
        self.bank = self.ledger.begin_slot(slot, parent).expect("the slot to come");
    }

    /// Runs transactions as one microblock, with records.
    pub fn run(&mut self, txns: &[Vec<u8>]) -> Vec<Outcome> {
        let txns: Vec<_> = txns.iter().map(|bytes| Txn::parse(bytes).expect("a transaction")).collect();
        let mut outcomes = vec![];
        self.executor.set_recording(true);
        self.bank.execute(&mut self.executor, &txns, &mut outcomes);
        self.records = self.executor.records().to_vec();
        outcomes
    }

    /// The bytes of a transaction of `payer` that names the newest blockhash.
    pub fn txn(&self, payer: &Pubkey, instructions: &[Instruction]) -> Vec<u8> {
        bytes_of(payer, instructions, self.bank.parent_blockhash())
    }

    /// Runs one transaction of wallet 0.
    pub fn run_one(&mut self, instructions: &[Instruction]) -> Outcome {
        let txn = self.txn(&wallet(0), instructions);
        self.run(&[txn])[0]
    }

    /// Runs one transaction of wallet 0 that must succeed.
    #[track_caller]
    pub fn succeed(&mut self, instructions: &[Instruction]) -> CommittedTransaction {
        let outcome = self.run_one(instructions);
        let logs = self.records[0].as_ref().map(|record| record.logs.join("\n"));
        match outcome {
            Outcome::Committed(landed) if landed.err.is_none() => landed,
            outcome => panic!("{outcome:?}\n{}", logs.unwrap_or_default()),
        }
    }

    /// The error of one transaction of wallet 0, which must fail in an instruction.
    #[track_caller]
    pub fn fail(&mut self, instructions: &[Instruction]) -> (u8, InstructionError) {
        match self.run_one(instructions) {
            Outcome::Committed(CommittedTransaction {
                err: Some(TransactionError::InstructionError(index, error)),
                ..
            }) => (index, error),
            outcome => panic!("{outcome:?}\n{:?}", self.records),
        }
    }

    pub fn simulate(&mut self, instructions: &[Instruction]) -> Simulation {
        let bytes = self.txn(&wallet(0), instructions);
        self.bank.simulate(&mut self.executor, &Txn::parse(&bytes).expect("a transaction"))
    }

    pub fn logs(&self) -> Vec<String> {
        self.records[0].as_ref().expect("it landed").logs.clone()
    }

    pub fn data(&self, key: &Pubkey) -> Vec<u8> {
        self.ledger.account(key).map(|account| account.data().to_vec()).unwrap_or_default()
    }
}

fn blockhash_of(slot: u64) -> Hash {
    let mut hash = [0xb1; 32];
    hash[..8].copy_from_slice(&slot.to_le_bytes());
    hash
}
