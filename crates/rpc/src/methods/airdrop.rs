//! The faucet: lamports for whoever asks.
//!
//! reads   a recent blockhash
//! writes  a transfer from the faucet into the pipeline
//! memory  one transfer
//! drops   airdrops that would fail, with the reason: error -32603, as where the faucet of the cluster refuses
//!
//! Two requests for the same amount to the same address must be two transactions, also while the blockhash is the
//! same. So each asks for another size of loaded account data, which costs nothing and is never reached.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use hearth_ledger::Commitment;
use hearth_wire::base58::encode_64;
use hearth_wire::{Hash, Pubkey, TransferTemplate};
use serde_json::{Value, json};

use super::Api;
use crate::config::FaucetSigner;
use crate::counters::count;
use crate::encoding;
use crate::jsonrpc::Failure;
use crate::params::{self, Params};

/// What the three instructions of an airdrop use: 150 each.
const COMPUTE_UNITS: u32 = 450;
/// Bytes of account data that an airdrop may load: from the first of these, a multiple of what a transfer needs...
const LOADED_BYTES_LEAST: u32 = 64 * 1024;
/// ... over this many, so that as many airdrops may name one blockhash.
const LOADED_BYTES_RANGE: u32 = 1 << 20;

/// Who gives lamports away.
pub struct Faucet {
    key: Pubkey,
    sign: FaucetSigner,
    next: AtomicU32,
}

impl Faucet {
    pub fn new(key: Pubkey, sign: FaucetSigner) -> Self {
        // Another start each time: a node that starts again may find its last blockhash still valid.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self { key, sign, next: AtomicU32::new(now.as_micros() as u32) }
    }

    /// A signed transfer that no other call has made.
    fn transfer(&self, to: &Pubkey, lamports: u64, blockhash: &Hash) -> Vec<u8> {
        let number = self.next.fetch_add(1, Relaxed) % LOADED_BYTES_RANGE;
        let mut transfer = TransferTemplate::with_limits(COMPUTE_UNITS, LOADED_BYTES_LEAST + number);
        transfer.set_from(&self.key);
        transfer.set_to(to);
        transfer.set_lamports(lamports);
        transfer.set_recent_blockhash(blockhash);
        transfer.sign_with(&self.sign).to_vec()
    }
}

impl Api {
    pub async fn request_airdrop(&self, params: Params<'_>) -> Result<Value, Failure> {
        let to = params.at_most(3)?.pubkey(0, "address")?;
        let lamports = params.number(1, "lamports")?;
        let options = params.options(2)?;
        options.commitment()?;
        let blockhash = match options.text("recentBlockhash")? {
            Some(text) => params::pubkey(text, || "recentBlockhash".into())?,
            None => self.ledger.latest_blockhash(Commitment::Processed).blockhash,
        };
        let bytes = self.faucet.transfer(&to, lamports, &blockhash);
        let txn = encoding::transaction(&bytes)?;
        self.preflight(&txn).await.map_err(Failure::into_internal)?;
        self.submit(&bytes).await?;
        count(self.counters.airdrops());
        Ok(json!(&*encode_64(txn.first_signature())))
    }
}
