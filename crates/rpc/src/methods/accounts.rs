//! Accounts and balances, as the newest state has them.
//!
//! reads   the ledger's accounts, one at a time
//! writes  results
//! memory  the accounts asked for, at most [`Limits::answer_bytes`](crate::Limits) of data
//! drops   more than that: error -32602
//! source  `rpc.rs` of `solana-rpc` 4.2 for the shapes and the limit of 100

use hearth_ledger::rent;
use serde_json::{Value, json};

use super::{Api, with_context};
use crate::encoding::AccountFormat;
use crate::jsonrpc::Failure;
use crate::params::{self, Params};

/// Accounts that can be asked for at once.
const ACCOUNTS_MAX: usize = 100;

impl Api {
    pub fn get_balance(&self, params: Params<'_>) -> Result<Value, Failure> {
        let key = params.at_most(2)?.pubkey(0, "address")?;
        let slot = self.state_slot(params.options(1)?)?;
        Ok(with_context(slot, json!(self.ledger.balance(&key))))
    }

    pub fn get_account_info(&self, params: Params<'_>) -> Result<Value, Failure> {
        let key = params.at_most(2)?.pubkey(0, "address")?;
        let options = params.options(1)?;
        let format = AccountFormat::of(options, "binary")?;
        let slot = self.state_slot(options)?;
        let account = self.ledger.account(&key);
        Ok(with_context(slot, account.map_or(Ok(Value::Null), |account| format.json(&account))?))
    }

    pub fn get_multiple_accounts(&self, params: Params<'_>) -> Result<Value, Failure> {
        let keys = params.at_most(2)?.list(0, "addresses")?;
        let options = params.options(1)?;
        if keys.len() > ACCOUNTS_MAX {
            let message = format!("parameter 1 (addresses): {} are too many, at most {ACCOUNTS_MAX}", keys.len());
            return Err(Failure::invalid_params(message));
        }
        let format = AccountFormat::of(options, "base64")?;
        let slot = self.state_slot(options)?;
        let mut room = self.limits.answer_bytes;
        let mut accounts = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let place = || format!("parameter 1 (addresses), element {index}");
            let text = key.as_str().ok_or_else(|| {
                Failure::invalid_params(format!("{}: expected a string, found {}", place(), params::kind(key)))
            })?;
            let Some(account) = self.ledger.account(&params::pubkey(text, place)?) else {
                accounts.push(Value::Null);
                continue;
            };
            let bytes = format.part(account.data()).len();
            room = room.checked_sub(bytes).ok_or_else(|| {
                Failure::invalid_params(
                    "the accounts hold too much data for one answer: ask for fewer, or for a dataSlice",
                )
            })?;
            accounts.push(format.json(&account)?);
        }
        Ok(with_context(slot, Value::Array(accounts)))
    }

    pub fn get_minimum_balance(&self, params: Params<'_>) -> Result<Value, Failure> {
        let data_len = params.at_most(2)?.number(0, "bytes of data")?;
        params.options(1)?.commitment()?;
        match usize::try_from(data_len) {
            Ok(data_len) if data_len <= rent::MAX_DATA_BYTES => Ok(json!(rent::minimum_balance(data_len))),
            _ => {
                let most = rent::MAX_DATA_BYTES;
                let message = format!("parameter 1 (bytes of data): an account holds at most {most}, not {data_len}");
                Err(Failure::invalid_params(message))
            }
        }
    }
}
