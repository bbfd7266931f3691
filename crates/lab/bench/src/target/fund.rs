//! Funds the senders, and counts landed transactions by the fees that they paid.
//!
//! reads   balances, the fee of a transfer
//! writes  an airdrop to one account, transfers from it to the senders, many per transaction
//! memory  the senders' keys
//! source  a transaction that lands pays its fee, whether it succeeds or fails; transfers among the senders do not
//!         change their sum

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hearth_command::node_rpc::{Rpc, RpcError};
use hearth_command::stop::StopSignal;
use hearth_crypto::ed25519::SigningKey;
use hearth_pipeline::benchg::Account;
use hearth_wire::base58::{decode_32, encode_32};
use hearth_wire::message::Message;
use hearth_wire::program::system;
use hearth_wire::{Hash, Pubkey, TransferTemplate};
use serde_json::{Value, json};

use crate::{BenchError, progress};

/// Initial balance of each sender: the fees of 300,000 transfers, and the transferred amounts.
const LAMPORTS: u64 = 2_000_000_000;
/// Transfers per transaction: 1,147 of 1,232 bytes.
const TRANSFERS: usize = 20;
/// Accounts per `getMultipleAccounts` request.
const PAGE: usize = 100;
/// The longest wait for an airdrop, and for the transfers after it.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Transfers that have not landed are sent again after this time.
const AGAIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Generates accounts.
pub fn accounts(count: usize) -> Vec<Account> {
    let mut seed = [0; 32];
    hearth_tile::sys::random::fill(&mut seed);
    let account = |i: usize| {
        let mut seed = seed;
        seed.iter_mut().zip(i.to_le_bytes()).for_each(|(byte, i)| *byte ^= i);
        let key = SigningKey::from_seed(&seed);
        Account { address: key.public_key(), key }
    };
    (0..count).map(account).collect()
}

/// A key that signs transactions sent over RPC.
pub struct Payer {
    /// Key of the paying account.
    pub key: SigningKey,
}

impl Payer {
    /// Sends transfers to the node and returns the signature. With `preflight`, as clients do by default.
    pub fn send(&self, rpc: &Rpc, to: &[(Pubkey, u64)], blockhash: &Hash, preflight: bool) -> Result<String, RpcError> {
        let from = self.key.public_key();
        let transfers: Vec<_> = to.iter().map(|(to, lamports)| system::transfer(&from, to, *lamports)).collect();
        let message = Message::compile(&from, &transfers, blockhash).expect("so many transfers fit");
        let bytes = message.sign_with(|_, message| self.key.sign(message));
        let options = json!({ "encoding": "base64", "skipPreflight": !preflight, "preflightCommitment": "processed" });
        let signature = rpc.call("sendTransaction", &json!([STANDARD.encode(bytes), options]))?;
        Ok(signature.as_str().unwrap_or_default().to_owned())
    }
}

/// Returns the latest blockhash.
pub fn blockhash(rpc: &Rpc) -> Result<Hash, BenchError> {
    let latest = rpc.call("getLatestBlockhash", &json!([{ "commitment": "processed" }]))?;
    let hash = latest["value"]["blockhash"].as_str().and_then(|text| decode_32(text).ok());
    hash.ok_or_else(|| BenchError::Target(format!("getLatestBlockhash answers without one: {latest}")))
}

/// Returns the fee of a transfer.
pub fn fee(rpc: &Rpc) -> Result<u64, BenchError> {
    let mut template = TransferTemplate::new();
    template.set_recent_blockhash(&blockhash(rpc)?);
    let answer =
        rpc.call("getFeeForMessage", &json!([STANDARD.encode(template.message()), { "commitment": "processed" }]))?;
    let fee = answer["value"].as_u64().filter(|fee| *fee > 0);
    fee.ok_or_else(|| BenchError::Target("the node names no fee for a transfer: what landed cannot be counted".into()))
}

/// Returns the balances of accounts.
fn balances(rpc: &Rpc, accounts: &[Pubkey]) -> Result<Vec<u64>, BenchError> {
    let mut balances = Vec::with_capacity(accounts.len());
    for page in accounts.chunks(PAGE) {
        let keys: Vec<_> = page.iter().map(|address| encode_32(address).to_string()).collect();
        let slice = json!({ "offset": 0, "length": 0 });
        let options = json!({ "commitment": "processed", "encoding": "base64", "dataSlice": slice });
        let answer = rpc.call("getMultipleAccounts", &json!([keys, options]))?;
        let found = answer["value"].as_array().filter(|found| found.len() == page.len());
        let found =
            found.ok_or_else(|| BenchError::Target("getMultipleAccounts answers with other accounts".into()))?;
        balances.extend(found.iter().map(|account| account["lamports"].as_u64().unwrap_or(0)));
    }
    Ok(balances)
}

/// Gives every account its lamports: from `funder`, or else from an airdrop.
pub fn fund(rpc: &Rpc, funder: Option<SigningKey>, accounts: &[Pubkey], stop: &StopSignal) -> Result<(), BenchError> {
    let given = funder.is_some();
    let payer = Payer { key: funder.unwrap_or_else(|| self::accounts(1).remove(0).key) };
    let all = accounts.len() as u64 * LAMPORTS;
    let needed = all + all / 100;
    if !given {
        progress(&format!("asking for an airdrop of {} SOL", needed / 1_000_000_000));
        rpc.call("requestAirdrop", &json!([&*encode_32(&payer.key.public_key()), needed]))?;
    }
    let funds = [payer.key.public_key()];
    let start = Instant::now();
    while balances(rpc, &funds)?[0] < needed {
        if given || start.elapsed() > TIMEOUT {
            let what = if given { "the funder has less than the" } else { "no airdrop came of the" };
            return Err(BenchError::Target(format!("{what} {needed} lamports that the accounts are to be given")));
        }
        pause(stop)?;
    }
    progress(&format!("funding {} accounts", accounts.len()));
    let mut sent: Option<Instant> = None;
    loop {
        let missing = missing(accounts, &balances(rpc, accounts)?);
        if missing.is_empty() {
            return Ok(());
        }
        if start.elapsed() > 2 * TIMEOUT {
            let (lack, all) = (missing.len(), accounts.len());
            return Err(BenchError::Target(format!("{lack} of {all} accounts have not been given their lamports")));
        }
        if sent.is_none_or(|sent| sent.elapsed() > AGAIN) {
            let blockhash = blockhash(rpc)?;
            for some in missing.chunks(TRANSFERS) {
                payer.send(rpc, some, &blockhash, false)?;
            }
            sent = Some(Instant::now());
        }
        pause(stop)?;
    }
}

fn missing(accounts: &[Pubkey], balances: &[u64]) -> Vec<(Pubkey, u64)> {
    let poor = accounts.iter().zip(balances).filter(|(_, lamports)| **lamports < LAMPORTS);
    poor.map(|(address, _)| (*address, LAMPORTS)).collect()
}

/// Waits a moment; `Err` on Ctrl-C.
fn pause(stop: &StopSignal) -> Result<(), BenchError> {
    std::thread::sleep(LOOK_EVERY);
    if stop.is_set() { Err(BenchError::Interrupted { landed: 0 }) } else { Ok(()) }
}

/// The total balance of the senders, by which their transactions are counted.
pub struct Purse {
    senders: Vec<Pubkey>,
    fee: u64,
    begun: u64,
}

impl Purse {
    /// Reads the balances of accounts that have no pending transactions.
    pub fn of(rpc: &Rpc, senders: Vec<Pubkey>) -> Result<Self, BenchError> {
        Ok(Self { fee: fee(rpc)?, begun: balances(rpc, &senders)?.iter().sum(), senders })
    }

    /// Returns how many of their transactions have landed.
    pub fn landed(&self, rpc: &Rpc) -> Result<u64, BenchError> {
        let left: u64 = balances(rpc, &self.senders)?.iter().sum();
        Ok(self.begun.saturating_sub(left) / self.fee)
    }
}

/// Returns a string member of an answer.
pub fn text<'a>(answer: &'a Value, name: &str) -> Result<&'a str, BenchError> {
    answer[name].as_str().ok_or_else(|| BenchError::Target(format!("the node's answer has no {name}: {answer}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_accounts_differ_and_the_poor_are_found() {
        let accounts = accounts(300);
        let different: std::collections::BTreeSet<_> = accounts.iter().map(|account| account.address).collect();
        assert_eq!(different.len(), 300);
        let poor = missing(&[[1; 32], [2; 32], [3; 32]], &[LAMPORTS, LAMPORTS - 1, LAMPORTS + 1]);
        assert_eq!(poor, [([2; 32], LAMPORTS)]);
    }

    #[test]
    fn as_many_transfers_as_are_sent_together_fit_a_packet() {
        let accounts = accounts(TRANSFERS + 1);
        let from = accounts[TRANSFERS].address;
        let transfers: Vec<_> =
            accounts[..TRANSFERS].iter().map(|to| system::transfer(&from, &to.address, 1)).collect();
        assert!(Message::compile(&from, &transfers, &[0; 32]).is_ok());
    }
}
