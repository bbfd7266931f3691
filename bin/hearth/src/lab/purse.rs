//! Funds a load from the UTXO ledger: joins `hearth load fund --utxo-key` to the wallet.
//!
//! reads   a wallet's key; a node's answers
//! writes  one transaction of the UTXO ledger

use std::path::Path;

use alloy_primitives::{Address, U256};
use hearth_command::output::CommandOutput;
use hearth_load::{CoinTransfer, Purse, PurseError};
use hearth_utxo::amount::{NATIVE_DECIMALS, WEI_PER_UNIT, format};
use hearth_wallet::WalletError;

/// Opens the wallet of a key file as a purse that `hearth load` can pay from; see [`hearth_load::OpenPurse`].
pub fn open(key: &Path, rpc: &str) -> Result<Box<dyn Purse>, PurseError> {
    Ok(Box::new(OfWallet(hearth_wallet::Purse::settled(key, rpc)?)))
}

struct OfWallet(hearth_wallet::Purse);

impl Purse for OfWallet {
    fn cross(&self, recipient: Address, wei: U256) -> Result<CoinTransfer, PurseError> {
        let units = wei.div_ceil(U256::from(WEI_PER_UNIT));
        let units = u64::try_from(units).map_err(|_| WalletError::TooMuch(units))?;
        let raw = self.0.prism(recipient, units)?;
        Ok(CoinTransfer {
            raw,
            coins: format!("{} coins of {}", format(units.into(), NATIVE_DECIMALS), self.0.owner()),
        })
    }

    fn send(&mut self, crossing: &CoinTransfer, say: &CommandOutput) -> Result<(), PurseError> {
        Ok(self.0.send(&crossing.raw, say)?)
    }
}
