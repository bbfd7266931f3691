//! Brings money for a load from our node's UTXO ledger to the EVM, by a Prism transfer.
//!
//! reads   balances on both ledgers
//! writes  one transaction on the UTXO ledger, if any account is short
//! drops   nothing: a repeated call waits for what an earlier call sent, and brings what is still short after that

use std::error::Error;
use std::path::Path;

use alloy_primitives::{Address, U256};
use hearth_command::output::CommandOutput;
use hearth_crypto::secp256k1::Signer;

use super::CommandError;
use crate::account::address;
use crate::error::LoadError;
use crate::ethereum::fund::needed;
use crate::ethereum::node::Node;
use crate::retry::{Caller, RetryingRpc};

/// Why the UTXO ledger's money cannot be used.
pub type PurseError = Box<dyn Error + Send + Sync>;

/// Opens the purse of a key file at the node with this RPC, once none of the key's transactions is pending.
pub type OpenPurse = fn(&Path, &str) -> Result<Box<dyn Purse>, PurseError>;

/// A key of the UTXO ledger, whose coins can cross to the EVM. A load knows nodes only from outside, so the program
/// supplies the implementation.
pub trait Purse {
    /// Builds a transaction that moves at least this many wei to an EVM account.
    fn cross(&self, recipient: Address, wei: U256) -> Result<CoinTransfer, PurseError>;

    /// Sends it, and returns once it is in a block.
    fn send(&mut self, crossing: &CoinTransfer, say: &CommandOutput) -> Result<(), PurseError>;
}

/// A transaction that moves coins to the EVM, before it is sent.
pub struct CoinTransfer {
    /// The transaction as the node's RPC takes it.
    pub raw: Vec<u8>,
    /// The coins and their owner, in words.
    pub coins: String,
}

/// Brings to `payer` what it lacks to give each account `amount` wei. Returns how many accounts this alone funds: the
/// payer, if it is one of them and was short.
pub fn bring(
    mut purse: Box<dyn Purse>,
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    amount: U256,
    caller: Caller<'_>,
    say: &CommandOutput,
) -> Result<usize, CommandError> {
    let (ask, payer) = (RetryingRpc { rpc: &node.rpc, stop: caller.stop }, address(payer));
    let mut lacking = needed(&ask, &node.terms, accounts, amount).map_err(LoadError::from)?;
    let has = ask.balances(&[payer]).map_err(LoadError::from)?[0];
    let is_one = accounts.iter().any(|account| address(account) == payer);
    if !is_one {
        lacking = lacking.saturating_sub(has);
    }
    if lacking.is_zero() {
        return Ok(0);
    }
    if (caller.stop)() {
        return Err(LoadError::Stopped.into());
    }
    let crossing = purse.cross(payer, lacking).map_err(CommandError::Prism)?;
    say.line(format_args!("{} cross by Prism, to {payer} in the EVM", crossing.coins));
    (caller.before_paying)()?;
    purse.send(&crossing, say).map_err(CommandError::Prism)?;
    Ok(usize::from(is_one && has < amount))
}
