//! Money for a load out of the UTXO ledger of a node of ours: a Prism transfer brings it to the EVM.
//!
//! reads   a wallet's key; balances on both ledgers
//! writes  one transaction of the UTXO ledger, where anybody is short
//! memory  the key's outputs
//! drops   nothing: called again, it waits for what an earlier call has sent, and brings what is short after that

use std::path::Path;

use alloy_primitives::U256;
use hearth_command::say::Say;
use hearth_crypto::secp256k1::Signer;
use hearth_lab::load::account::address;
use hearth_lab::load::asked::LoadError;
use hearth_lab::load::fund::needed;
use hearth_lab::load::patient::{Caller, Patient};
use hearth_lab::load::run::Node;
use hearth_utxo::amount::{NATIVE_DECIMALS, WEI_PER_UNIT, format};

use super::CommandError;
use crate::wallet::{Purse, WalletError};

/// Brings to `payer` what it lacks so that each account has `amount` wei. Gives how many accounts have it by that: the
/// payer, where it is one of them and was short.
pub fn bring(
    key: &Path,
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    amount: U256,
    caller: Caller<'_>,
    say: &Say,
) -> Result<usize, CommandError> {
    let mut purse = Purse::settled(key, node.rpc.url())?;
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
    let units = lacking.div_ceil(U256::from(WEI_PER_UNIT));
    let units = u64::try_from(units).map_err(|_| WalletError::TooMuch(units))?;
    let raw = purse.prism(payer, units)?;
    let (coins, owner) = (format(units.into(), NATIVE_DECIMALS), purse.owner());
    say.line(format_args!("{coins} coins of {owner} cross by Prism, to {payer} in the EVM"));
    (caller.before_paying)()?;
    purse.send(&raw, say)?;
    Ok(usize::from(is_one && has < amount))
}
