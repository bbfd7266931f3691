//! What a load sends: built, and signed.
//!
//! reads   an account's key and a number; a blockhash
//! writes  signed transactions
//! memory  a transaction
//!
//! Whom a transaction pays, and how much, follows from its account and number: no two of an account are the same bytes
//! though they name one blockhash, and one that is signed anew does what it did before.

use alloy_primitives::B256;
use hearth_wire::base58::encode_64;
use hearth_wire::message::Message;
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;
use hearth_wire::program::token;
use hearth_wire::{Pubkey, TransferTemplate};

use super::keys::Account;
use super::node::Blockhash;
use crate::tx_mix::{Named, scatter};

/// What one transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Lamports to another account of the load.
    Transfer,
    /// Units of a token to another account of the load.
    Token,
}

impl Named for Kind {
    const ALL: &'static [Self] = &[Self::Transfer, Self::Token];

    fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Token => "token",
        }
    }
}

/// What a load of Solana's sends.
pub type Mix = crate::tx_mix::Mix<Kind>;

/// What a transfer asks for: its three instructions take 150 compute units each.
const TRANSFER_UNITS: u32 = 450;
/// Bytes of accounts that a transfer may load, without the run's salt.
const TRANSFER_BYTES: u32 = 30 << 10;
/// Salts are below this: a transfer with any of them loads no more pages of 32 KiB, and costs no more.
const SALTS: u32 = 2 << 10;
/// More than any version of the token program takes for a transfer, and for the two instructions before it.
const TOKEN_UNITS: u32 = 10_000;
/// More than the token program and its accounts have, in bytes.
const TOKEN_BYTES: u32 = 512 << 10;

/// What a run sends, and between whom.
pub struct Workload {
    /// The kinds.
    pub mix: Mix,
    /// The accounts.
    pub accounts: Vec<Pubkey>,
    /// Where each has its tokens; empty without [`Kind::Token`].
    pub tokens: Vec<Pubkey>,
    /// The run's own; see [`salt`].
    pub salt: u32,
}

/// A number that makes the bytes of a run its own: what a load sends follows from its accounts and a blockhash, so two
/// loads with the same keys would else send the same transactions, and each would count the other's as its own.
pub fn salt() -> u32 {
    fastrand::u32(..SALTS)
}

/// A transaction as it goes out.
pub struct Signed {
    /// Its account, as an index.
    pub account: usize,
    /// Which of its account's it is.
    pub number: u64,
    /// Its bytes.
    pub raw: Vec<u8>,
    /// The last block that may have it.
    pub last_valid: u64,
    /// How often it was signed and sent; 0 of one that has waited for room since it was signed first.
    pub signings: u8,
}

impl Signed {
    /// By what it is known.
    pub fn id(&self) -> B256 {
        id_of(&self.raw)
    }

    /// Its signature in base58.
    pub fn signature(&self) -> String {
        encode_64(self.raw[1..65].try_into().expect("64 bytes")).to_string()
    }
}

/// By what a transaction is known: the first half of its first signature.
pub fn id_of(raw: &[u8]) -> B256 {
    B256::from_slice(&raw[1..33])
}

impl Workload {
    /// Whom the account's transaction of this number pays, and how much.
    fn target(&self, account: usize, number: u64) -> (usize, u64) {
        let others = self.accounts.len() as u64 - 1;
        let to = (account as u64 + 1 + number % others) % self.accounts.len() as u64;
        (to as usize, 1 + number / others)
    }

    /// The account's transaction of this number.
    pub fn sign(&self, from: &Account, account: usize, number: u64, blockhash: &Blockhash) -> Signed {
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
        Signed { account, number, raw, last_valid: blockhash.last_valid, signings: 1 }
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
    fn no_two_are_the_same_and_nobody_pays_to_itself() {
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
