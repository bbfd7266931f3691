//! Shared by this crate's tests: transactions without real signatures, and a small chain.

use std::sync::Arc;

use hearth_wire::message::{Instruction, Message};
use hearth_wire::{Hash, Pubkey, Txn};

use crate::account::Account;
use crate::bank::{Bank, CommittedTransaction, Executor, Outcome};
use crate::genesis::{Genesis, GenesisConfig};
use crate::ledger::{Ledger, LedgerConfig};
use crate::status_cache::StatusCacheConfig;
use crate::{InstructionError, TransactionError};

/// The address of the node in [`Chain`]; it holds nothing at genesis.
pub(crate) const IDENTITY: Pubkey = [1; 32];

/// The bytes of a transaction whose signatures are derived from signer and message.
pub(crate) fn bytes_of(payer: &Pubkey, instructions: &[Instruction], blockhash: &Hash) -> Vec<u8> {
    let message = Message::compile(payer, instructions, blockhash).expect("the instructions fit a packet");
    message.sign_with(|signer, message| {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&hearth_crypto::sha256::sha256(&[signer, message]));
        signature
    })
}

/// Parses the output of [`bytes_of`].
pub(crate) fn parse(bytes: &[u8]) -> Txn<'_> {
    Txn::parse(bytes).expect("a transaction")
}

/// The address of test wallet `n`.
pub(crate) fn wallet(n: u64) -> Pubkey {
    hearth_crypto::sha256::sha256(&[b"wallet", &n.to_le_bytes()])
}

/// A chain with a slot in progress.
pub(crate) struct Chain {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) bank: Arc<Bank>,
    executor: Executor,
}

impl Chain {
    /// A chain whose test wallets hold these lamports.
    pub(crate) fn new(wallets: &[u64]) -> Self {
        Self::with_config(wallets, LedgerConfig::default())
    }

    pub(crate) fn with_config(wallets: &[u64], config: LedgerConfig) -> Self {
        let genesis = GenesisConfig {
            fund_initial_accounts: 0,
            identity_lamports: 0,
            faucet_lamports: 0,
            ..GenesisConfig::development(IDENTITY, [2; 32], 0)
        };
        let genesis = Genesis::create(genesis, |_| {}).expect("a chain");
        let status_cache = StatusCacheConfig { capacity_txns: 0, ..config.status_cache };
        let ledger = Ledger::new(&genesis, LedgerConfig { status_cache, ..config });
        for (n, &lamports) in wallets.iter().enumerate() {
            ledger.accounts().store(&wallet(n as u64), Account::wallet(lamports));
        }
        let bank = ledger.begin_slot(1, 0).expect("the first slot");
        Self { ledger, bank, executor: Executor::new() }
    }

    /// Ends the slot and begins the next.
    pub(crate) fn next_slot(&mut self) {
        let slot = self.bank.slot();
        let hash = hearth_crypto::sha256::sha256(&[b"slot", &slot.to_le_bytes()]);
        self.ledger.end_slot(slot, hash).expect("the slot ends");
        self.bank = self.ledger.begin_slot(slot + 1, slot).expect("the next slot");
    }

    /// The bytes of a transaction with the newest blockhash.
    pub(crate) fn txn(&self, payer: &Pubkey, instructions: &[Instruction]) -> Vec<u8> {
        bytes_of(payer, instructions, self.bank.parent_blockhash())
    }

    /// Runs transactions as one microblock.
    pub(crate) fn run(&mut self, txns: &[Vec<u8>]) -> Vec<Outcome> {
        let txns: Vec<_> = txns.iter().map(|bytes| parse(bytes)).collect();
        let mut outcomes = vec![];
        self.bank.execute(&mut self.executor, &txns, &mut outcomes);
        outcomes
    }

    /// Runs one transaction of `payer`.
    pub(crate) fn run_one(&mut self, payer: &Pubkey, instructions: &[Instruction]) -> Outcome {
        let txn = self.txn(payer, instructions);
        self.run(&[txn])[0]
    }

    /// Simulates one transaction of `payer`.
    pub(crate) fn simulate(&mut self, payer: &Pubkey, instructions: &[Instruction]) -> Outcome {
        let bytes = self.txn(payer, instructions);
        self.bank.simulate(&mut self.executor, &parse(&bytes)).outcome
    }

    pub(crate) fn balance(&self, n: u64) -> u64 {
        self.ledger.balance(&wallet(n))
    }

    /// Lamports of all accounts, burned lamports, and the fees held by the slot.
    pub(crate) fn total_lamports(&self) -> u128 {
        let held = self.ledger.burned_lamports() + self.bank.counts().fees.total();
        self.ledger.accounts().total_lamports() + u128::from(held)
    }
}

/// How `outcome` landed. Panics if it did not.
#[track_caller]
pub(crate) fn landed(outcome: Outcome) -> CommittedTransaction {
    match outcome {
        Outcome::Committed(landed) => landed,
        outcome => panic!("did not land: {outcome:?}"),
    }
}

/// The outcome of a transaction that landed with `error` in instruction `index`.
pub(crate) fn failed(outcome: Outcome) -> Option<(u8, InstructionError)> {
    match landed(outcome).err {
        Some(TransactionError::InstructionError(index, error)) => Some((index, error)),
        _ => None,
    }
}
