//! The transactions that a load sends: builds and signs them.
//!
//! reads   an account's key and a number; a blockhash
//! writes  signed transactions
//! memory  a transaction
//!
//! A transaction's recipient and amount follow from its account and number. So no two transactions of an account have
//! the same bytes even with one blockhash, and one that is signed again does the same as before.

use alloy_primitives::B256;
use hearth_wire::base58::encode_64;
use hearth_wire::message::Message;
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;
use hearth_wire::program::token;
use hearth_wire::{Pubkey, TransferTemplate};

use super::keys::Account;
use super::node::Blockhash;
use crate::tx_mix::{TxKinds, scatter};

/// The action of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sends lamports to another account of the load.
    Transfer,
    /// Sends units of a token to another account of the load.
    Token,
}

impl TxKinds for Kind {
    const ALL: &'static [Self] = &[Self::Transfer, Self::Token];

    fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Token => "token",
        }
    }
}

/// The mix of kinds that a load on Solana sends.
pub type Mix = crate::tx_mix::Mix<Kind>;

/// Compute unit limit of a transfer: its three instructions take 150 each.
const TRANSFER_UNITS: u32 = 450;
/// Limit on the bytes of accounts that a transfer loads, without the run's salt.
const TRANSFER_BYTES: u32 = 30 << 10;
/// Salts are below this: with any of them a transfer loads no more pages of 32 KiB, and costs no more.
const SALTS: u32 = 2 << 10;
/// Compute units above what any version of the token program takes for a transfer and the two instructions before it.
const TOKEN_UNITS: u32 = 10_000;
/// Bytes above the size of the token program and its accounts.
const TOKEN_BYTES: u32 = 512 << 10;

/// The transactions of a run, and their accounts.
pub struct Workload {
    /// The mix of kinds.
    pub mix: Mix,
    /// Addresses of the accounts.
    pub accounts: Vec<Pubkey>,
    /// Token account of each; empty without [`Kind::Token`].
    pub tokens: Vec<Pubkey>,
    /// The run's own salt; see [`salt`].
    pub salt: u32,
}

/// Draws a number that makes the bytes of a run unique. Transactions follow from accounts and a blockhash, so two loads
/// with the same keys would otherwise send the same transactions, and each would count the other's as its own.
pub fn salt() -> u32 {
    fastrand::u32(..SALTS)
}

/// A signed transaction, with what is needed to sign it again.
pub struct SignedTx {
    /// Index of its account.
    pub account: usize,
    /// Its number among its account's transactions.
    pub number: u64,
    /// The transaction as sent to the node.
    pub raw: Vec<u8>,
    /// Height of the last block that may contain it.
    pub last_valid: u64,
    /// How often it was signed and sent; 0 if it has waited for room since it was first signed.
    pub signings: u8,
}

impl SignedTx {
    /// Returns the transaction's id; see [`id_of`].
    pub fn id(&self) -> B256 {
        id_of(&self.raw)
    }

    /// Returns its signature in base58.
    pub fn signature(&self) -> String {
        encode_64(self.raw[1..65].try_into().expect("64 bytes")).to_string()
    }
}

/// Returns the id of a transaction: the first half of its first signature.
pub fn id_of(raw: &[u8]) -> B256 {
    B256::from_slice(&raw[1..33])
}

impl Workload {
    /// Returns the recipient and amount of the account's transaction with this number.
    fn target(&self, account: usize, number: u64) -> (usize, u64) {
        let others = self.accounts.len() as u64 - 1;
        let to = (account as u64 + 1 + number % others) % self.accounts.len() as u64;
        (to as usize, 1 + number / others)
    }

    /// Signs the account's transaction with this number.
    pub fn sign(&self, from: &Account, account: usize, number: u64, blockhash: &Blockhash) -> SignedTx {
        let (to, amount) = self.target(account, number);
        let seed = u64::from_le_bytes(from.address[..8].try_into().expect("8 of 32 bytes"));
        let raw = match self.mix.pick(scatter(seed, number)) {
            Kind::Transfer => {
                let mut template = TransferTemplate::with_limits(TRANSFER_UNITS, TRANSFER_BYTES + self.salt);
                template.set_from(&from.address);
                template.set_to(&self.accounts[to]);
                template.set_lamports(amount);
                template.set_recent_blockhash(&blockhash.hash);
                template.sign_with(|message| from.key.sign(message)).to_vec()
            }
            Kind::Token => {
                let instructions = [
                    ComputeBudgetInstruction::SetLoadedAccountsDataSizeLimit(TOKEN_BYTES - self.salt).instruction(),
                    ComputeBudgetInstruction::SetComputeUnitLimit(TOKEN_UNITS).instruction(),
                    token::transfer(&self.tokens[account], &self.tokens[to], &from.address, amount),
                ];
                let message = Message::compile(&from.address, &instructions, &blockhash.hash);
                message.expect("three instructions fit a packet").sign_with(|_, message| from.key.sign(message))
            }
        };
        SignedTx { account, number, raw, last_valid: blockhash.last_valid, signings: 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use hearth_crypto::ed25519::verify_strict;
    use hearth_wire::Txn;

    use super::super::keys::generate;
    use super::*;

    fn workload(mix: &str, accounts: &[Account]) -> Workload {
        let accounts: Vec<_> = accounts.iter().map(|account| account.address).collect();
        Workload {
            mix: mix.parse().unwrap(),
            tokens: (100..100 + accounts.len() as u8).map(|i| [i; 32]).collect(),
            accounts,
            salt: SALTS - 1,
        }
    }

    #[test]
    fn transfers_differ_and_none_pays_itself() {
        let accounts = generate(3).unwrap();
        let workload = workload("transfer=3,token=1", &accounts);
        let blockhash = Blockhash { hash: [9; 32], last_valid: 77 };
        let mut seen = HashSet::new();
        let mut tokens = 0;
        for (index, from) in accounts.iter().enumerate() {
            for number in 0..200 {
                let signed = workload.sign(from, index, number, &blockhash);
                assert!(seen.insert(signed.id()), "{index} {number}");
                assert_ne!(workload.target(index, number).0, index);
                let txn = Txn::parse(&signed.raw).unwrap();
                verify_strict(&from.address, txn.first_signature(), &signed.raw[65..]).unwrap();
                tokens += usize::from(signed.raw.len() != workload.sign(&accounts[0], 0, 0, &blockhash).raw.len());
                assert_eq!(signed.last_valid, 77);
                assert_eq!(workload.sign(from, index, number, &blockhash).raw, signed.raw, "the same again");
            }
        }
        assert!((100..200).contains(&tokens) || (400..500).contains(&tokens), "{tokens} of 600");
    }

    #[test]
    fn a_runs_salt_changes_its_bytes() {
        let accounts = generate(2).unwrap();
        let blockhash = Blockhash { hash: [9; 32], last_valid: 77 };
        for mix in ["transfer", "token"] {
            let [one, other] = [3, 4].map(|salt| {
                let workload = Workload { salt, ..workload(mix, &accounts) };
                workload.sign(&accounts[0], 0, 0, &blockhash).id()
            });
            assert_ne!(one, other);
        }
        assert!((0..100).all(|_| salt() < SALTS) && TRANSFER_BYTES + SALTS <= 32 << 10);
    }

    #[test]
    fn kinds_of_the_other_chain_are_not_known() {
        let why = "erc20".parse::<Mix>().unwrap_err().to_string();
        assert!(why.contains("expected transfer or token") && why.contains("transfer=8,token=2"), "{why}");
    }
}
