//! The faucet: transfers lamports on request.
//!
//! reads   a recent blockhash
//! writes  a transfer from the faucet into the pipeline
//! memory  one transfer
//! drops   airdrops that would fail, with the reason: error -32603, as when the cluster's faucet refuses
//!
//! Two requests for the same amount to the same address must be two distinct transactions, even under the same
//! blockhash. So each transfer sets a different loaded-accounts size limit, which costs nothing and is never reached.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hearth_ledger::Commitment;
use hearth_tile::clock::unix_time;
use hearth_wire::base58::{encode_32, encode_64};
use hearth_wire::{Hash, Pubkey, TransferTemplate};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Api;
use crate::config::{FaucetSigner, Limits};
use crate::counters::count;
use crate::encoding;
use crate::jsonrpc::Failure;
use crate::params::{self, Params};

/// Compute units of an airdrop's three instructions, 150 each.
const COMPUTE_UNITS: u32 = 450;
/// Loaded-accounts size limits of airdrops start here, a multiple of what a transfer needs ...
const LOADED_BYTES_LEAST: u32 = 64 * 1024;
/// ... and span this range, so this many airdrops may share one blockhash.
const LOADED_BYTES_RANGE: u32 = 1 << 20;

/// Signs the transfers of airdrops, and counts the lamports given against the limits.
pub struct Faucet {
    key: Pubkey,
    /// The faucet that the genesis funded.
    of_chain: Pubkey,
    sign: FaucetSigner,
    next: AtomicU32,
    allowance: Allowance,
}

impl Faucet {
    pub fn new((key, of_chain): (Pubkey, Pubkey), sign: FaucetSigner, limits: &Limits) -> Self {
        // Starts elsewhere in every process: after a restart the last blockhash may still be valid.
        let next = AtomicU32::new(unix_time().as_micros() as u32);
        Self { key, of_chain, sign, next, allowance: Allowance::new(limits) }
    }

    /// Explains why only `left` lamports are available, and what to do.
    fn too_poor(&self, left: u64, asked: u64) -> String {
        let (key, of_chain) = (encode_32(&self.key), encode_32(&self.of_chain));
        if self.key == self.of_chain {
            return format!(
                "the faucet has {left} lamports left, and not {asked}; a new chain begins with more by --faucet-sol"
            );
        }
        format!(
            "this node does not hold the key of the chain's faucet, {of_chain}: another node began the chain, ask that \
             one. This node gives what its own faucet, {key}, has been sent: {left} lamports are there, and not {asked}"
        )
    }

    /// A signed transfer that differs from those of all other calls.
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

/// The remaining airdrop allowance, if airdrops are limited.
struct Allowance {
    request: Option<u64>,
    slice: Option<u64>,
    length: Duration,
    /// Start of the current time slice, and the lamports given in it.
    given: Mutex<Option<(Instant, u64)>>,
}

impl Allowance {
    fn new(limits: &Limits) -> Self {
        let limit = |lamports| (lamports > 0).then_some(lamports);
        Self {
            request: limit(limits.airdrop_lamports),
            slice: limit(limits.airdrop_lamports_per_slice),
            length: limits.airdrop_slice,
            given: Mutex::default(),
        }
    }

    fn take(&self, lamports: u64, now: Instant) -> Result<(), String> {
        if let Some(most) = self.request.filter(|most| lamports > *most) {
            return Err(format!(
                "request too large; an airdrop may ask for {most} lamports (--faucet-per-request-sol-cap)"
            ));
        }
        let Some(most) = self.slice else { return Ok(()) };
        let mut given = self.given.lock();
        let under_way = given.filter(|(began, _)| now.saturating_duration_since(*began) < self.length);
        let (began, before) = under_way.unwrap_or((now, 0));
        let sum = before.saturating_add(lamports);
        if sum > most {
            let seconds = self.length.as_secs();
            return Err(format!(
                "request too large; airdrops may take {most} lamports in {seconds} s (--faucet-per-time-sol-cap), \
                 {before} are gone"
            ));
        }
        *given = Some((began, sum));
        Ok(())
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
        let left = self.ledger.balance(&self.faucet.key);
        if lamports > left {
            return Err(Failure::internal(self.faucet.too_poor(left, lamports)));
        }
        self.faucet.allowance.take(lamports, Instant::now()).map_err(Failure::internal)?;
        self.preflight(&txn).await.map_err(Failure::into_internal)?;
        self.submit(&bytes).await?;
        count(self.counters.airdrops());
        Ok(json!(&*encode_64(txn.first_signature())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowance_is_renewed_with_each_slice() {
        let limits = Limits { airdrop_lamports: 10, airdrop_lamports_per_slice: 25, ..Limits::default() };
        let (allowance, now) = (Allowance::new(&limits), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        assert!(allowance.take(11, now).unwrap_err().contains("10 lamports"));
        assert_eq!((allowance.take(10, now), allowance.take(10, later(59))), (Ok(()), Ok(())));
        assert!(allowance.take(6, later(59)).unwrap_err().contains("20 are gone"));
        assert_eq!(allowance.take(5, later(59)), Ok(()));
        assert_eq!(allowance.take(10, later(60)), Ok(()));
        assert_eq!(Allowance::new(&Limits::default()).take(u64::MAX, now), Ok(()));
    }
}
