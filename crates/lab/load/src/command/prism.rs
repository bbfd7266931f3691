//! Money for a load out of the UTXO ledger of a node of ours: a Prism transfer brings it to the EVM.
//!
//! reads   balances on both ledgers
//! writes  one transaction of the UTXO ledger, where anybody is short
//! drops   nothing: called again, it waits for what an earlier call has sent, and brings what is short after that

use std::error::Error;
use std::path::Path;

use alloy_primitives::{Address, U256};
use hearth_command::output::Say;
use hearth_crypto::secp256k1::Signer;

use super::CommandError;
use crate::account::address;
use crate::error::LoadError;
use crate::ethereum::fund::needed;
use crate::ethereum::node::Node;
use crate::retry::{Caller, Patient};

/// Why a purse gives nothing.
pub type PurseError = Box<dyn Error + Send + Sync>;

/// Opens the purse of a key's file at the node of this RPC, once nothing of the key's is on its way any more.
pub type OpenPurse = fn(&Path, &str) -> Result<Box<dyn Purse>, PurseError>;

/// A key of the UTXO ledger, whose coins can cross to the EVM. A load knows nodes from outside alone, so the program
/// gives it.
pub trait Purse {
    /// Makes a transaction that takes at least this many wei to an account of the EVM.
    fn cross(&self, recipient: Address, wei: U256) -> Result<Crossing, PurseError>;

    /// Sends it, and returns when it is in a block.
    fn send(&mut self, crossing: &Crossing, say: &Say) -> Result<(), PurseError>;
}

/// A transaction that takes coins to the EVM, before it is sent.
pub struct Crossing {
    /// Its bytes.
    pub raw: Vec<u8>,
    /// How many coins of whom, in words.
    pub coins: String,
}

/// Brings to `payer` what it lacks so that each account has `amount` wei. Gives how many accounts have it by that: the
/// payer, where it is one of them and was short.
pub fn bring(
    mut purse: Box<dyn Purse>,
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    amount: U256,
    caller: Caller<'_>,
    say: &Say,
) -> Result<usize, CommandError> {
    let (ask, payer) = (Patient { rpc: &node.rpc, stop: caller.stop }, address(payer));
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
