//! A block that is being made: it executes transactions on Agave's bank and records what became of them.

use std::ops::Range;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_message::{AddressLookupTableAccount, Message, VersionedMessage, v0};
use solana_pubkey::Pubkey;
use solana_runtime::bank::Bank;
use solana_runtime_transaction::transaction_with_meta::TransactionWithMeta;
use solana_sha256_hasher::hashv;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_svm::transaction_commit_result::TransactionCommitResult;
use solana_svm::transaction_processor::ExecutionRecordingConfig;
use solana_svm_timings::ExecuteTimings;
use solana_svm_transaction::svm_message::{SVMMessage, SVMStaticMessage};
use solana_transaction::TransactionVerificationMode;
use solana_transaction::versioned::VersionedTransaction;

use crate::rng::Rng;

/// The transactions of a ledger that are executed; the others are made and dropped.
#[derive(Default)]
pub struct Filter {
    /// Numbers of transactions, counted from 0 over the whole ledger. Empty: all.
    pub only: Vec<Range<u64>>,
}

impl Filter {
    fn keeps(&self, number: u64) -> bool {
        self.only.is_empty() || self.only.iter().any(|range| range.contains(&number))
    }
}

/// How many transactions went which way.
#[derive(Default)]
pub struct Counts {
    pub made: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub refused: u64,
    /// Errors by name, with their number.
    pub errors: std::collections::BTreeMap<String, u64>,
    /// Programs that a committed transaction called, with the number of calls.
    pub programs: std::collections::BTreeMap<String, u64>,
}

/// A block that is being made.
pub struct Block<'a> {
    pub bank: Arc<Bank>,
    pub parent: Arc<Bank>,
    pub rng: &'a mut Rng,
    /// The last hashes of the blocks before this one on its fork, the newest last.
    pub hashes: Vec<Hash>,
    pub counts: &'a mut Counts,
    pub filter: &'a Filter,
    pub txs: Vec<Value>,
    pub refused: Vec<Value>,
}

impl Block<'_> {
    /// Returns the hash of the parent, which every transaction may name.
    pub fn blockhash(&self) -> Hash {
        *self.hashes.last().expect("slot 0 has ended")
    }

    /// Returns a recent hash: mostly the newest, at times one up to 100 blocks old.
    fn recent(&mut self) -> Hash {
        let age = if self.rng.chance(80) { 0 } else { self.rng.below(100) as usize };
        self.hashes[self.hashes.len() - 1 - age.min(self.hashes.len() - 1)]
    }

    /// Executes instructions in a legacy transaction that the first signer pays for; true if all of them succeed.
    pub fn send(&mut self, instructions: &[Instruction], signers: &[&Keypair]) -> bool {
        let blockhash = self.recent();
        self.send_with(instructions, signers, blockhash)
    }

    /// The same with a given blockhash or nonce.
    pub fn send_with(&mut self, instructions: &[Instruction], signers: &[&Keypair], blockhash: Hash) -> bool {
        let message = Message::new_with_blockhash(instructions, Some(&signers[0].pubkey()), &blockhash);
        self.execute(sign(VersionedMessage::Legacy(message), signers))
    }

    /// Executes instructions in a transaction of version 0 that finds accounts in `tables`.
    pub fn send_v0(
        &mut self,
        instructions: &[Instruction],
        signers: &[&Keypair],
        tables: &[AddressLookupTableAccount],
    ) -> bool {
        let blockhash = self.recent();
        let message = v0::Message::try_compile(&signers[0].pubkey(), instructions, tables, blockhash);
        let message = message.expect("fewer than 256 accounts");
        self.execute(sign(VersionedMessage::V0(message), signers))
    }

    /// Executes a transaction and records it; true if it is in the block and succeeded.
    pub fn execute(&mut self, tx: VersionedTransaction) -> bool {
        let number = self.counts.made;
        self.counts.made += 1;
        if !self.filter.keeps(number) {
            return false;
        }
        let wire = STANDARD.encode(bincode::serialize(&tx).expect("a transaction has a wire form"));
        let checked = match self.bank.verify_transaction(tx, TransactionVerificationMode::FullVerification) {
            Ok(checked) => checked,
            Err(error) => return self.refuse(wire, &error),
        };
        let keys: Vec<Pubkey> = checked.account_keys().iter().copied().collect();
        let before: Vec<_> = keys.iter().map(|key| self.bank.get_account(key)).collect();
        let done = match commit(&self.bank, &checked, true) {
            Ok(done) => done,
            Err(error) => return self.refuse(wire, &error),
        };
        let mut changed = Map::new();
        for (key, before) in keys.iter().zip(before) {
            let after = self.bank.get_account(key);
            let (before, after) = (before.as_ref().map(content), after.as_ref().map(content));
            if before != after {
                changed.insert(key.to_string(), Value::from(after.unwrap_or_default()));
            }
        }
        for (program, _) in checked.program_instructions_iter() {
            *self.counts.programs.entry(program.to_string()).or_default() += 1;
        }
        let succeeded = done.status.is_ok();
        let error = done.status.err();
        match &error {
            None => self.counts.succeeded += 1,
            Some(error) => {
                self.counts.failed += 1;
                *self.counts.errors.entry(format!("{error:?}")).or_default() += 1;
            }
        }
        self.txs.push(json!({
            "tx": wire,
            "err": error,
            "fee": done.fee_details.total_fee(),
            "units": done.executed_units,
            "logs": done.log_messages.unwrap_or_default(),
            "changed": changed,
        }));
        succeeded
    }

    fn refuse(&mut self, wire: String, error: &solana_transaction_error::TransactionError) -> bool {
        self.counts.refused += 1;
        *self.counts.errors.entry(format!("refused: {error:?}")).or_default() += 1;
        self.refused.push(json!({ "tx": wire, "err": error, "after": self.txs.len() }));
        false
    }
}

/// Executes a transaction that is checked, alone in its batch as a validator's scheduler does it, and commits it.
pub fn commit(bank: &Bank, checked: &impl TransactionWithMeta, with_logs: bool) -> TransactionCommitResult {
    let recording = ExecutionRecordingConfig {
        enable_cpi_recording: false,
        enable_log_recording: with_logs,
        enable_return_data_recording: false,
        enable_transaction_balance_recording: false,
    };
    let batch = bank.prepare_locked_batch_from_single_tx(checked);
    let timings = &mut ExecuteTimings::default();
    let (mut results, _) = bank.load_execute_and_commit_transactions(&batch, recording, timings, None);
    results.remove(0)
}

/// Signs a message with those of `signers` that it names; an absent signer leaves zeros.
pub fn sign(message: VersionedMessage, signers: &[&Keypair]) -> VersionedTransaction {
    let bytes = message.serialize();
    let required = usize::from(message.header().num_required_signatures);
    let signature = |key: &Pubkey| {
        let signer = signers.iter().find(|signer| signer.pubkey() == *key);
        signer.map_or(Signature::default(), |signer| signer.sign_message(&bytes))
    };
    let signatures = message.static_account_keys().iter().take(required).map(signature).collect();
    VersionedTransaction { signatures, message }
}

/// Returns the digest of an account's content: 8 bytes in hex; empty for an account without lamports.
pub fn content(account: &AccountSharedData) -> String {
    if account.lamports() == 0 {
        return String::new();
    }
    let lamports = account.lamports().to_le_bytes();
    let executable = [u8::from(account.executable())];
    let digest = hashv(&[&lamports, account.owner().as_ref(), &executable, account.data()]);
    digest.to_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
