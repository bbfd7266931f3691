//! Accounts and balances at the requested commitment.
//!
//! reads   the ledger's accounts, one at a time
//! memory  the requested accounts, at most [`Limits::answer_bytes`](crate::Limits) of data
//! drops   requests for more than that: error -32602
//! source  `rpc.rs` of `solana-rpc` 4.2 for the shapes and the limit of 100

use hearth_ledger::rent;
use serde_json::{Value, json};

use super::{Api, with_context};
use crate::encoding::account::AccountFormat;
use crate::encoding::token::TokenView;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// Maximum accounts of one request.
const ACCOUNTS_MAX: usize = 100;

impl Api {
    pub fn get_balance(&self, params: Params<'_>) -> Result<Value, Failure> {
        let key = params.at_most(2)?.pubkey(0, "address")?;
        let state = self.state(params.options(1)?)?;
        Ok(with_context(state.slot, json!(state.balance(&key))))
    }

    pub fn get_account_info(&self, params: Params<'_>) -> Result<Value, Failure> {
        let key = params.at_most(2)?.pubkey(0, "address")?;
        let options = params.options(1)?;
        let format = AccountFormat::of(options, "binary")?;
        let state = self.state(options)?;
        let look = |key: &_| state.account(key);
        let mut tokens = TokenView::new(&look);
        let shown = look(&key).map_or(Ok(Value::Null), |account| format.json(&key, &account, &mut tokens))?;
        Ok(with_context(state.slot, shown))
    }

    pub fn get_multiple_accounts(&self, params: Params<'_>) -> Result<Value, Failure> {
        let keys = params.at_most(2)?.pubkeys(0, "addresses", ACCOUNTS_MAX)?;
        let options = params.options(1)?;
        let format = AccountFormat::of(options, "base64")?;
        let state = self.state(options)?;
        let look = |key: &_| state.account(key);
        let mut tokens = TokenView::new(&look);
        let mut room = self.limits.answer_bytes;
        let mut accounts = Vec::with_capacity(keys.len());
        for key in &keys {
            let Some(account) = look(key) else {
                accounts.push(Value::Null);
                continue;
            };
            let bytes = format.part(account.data()).len();
            room = room.checked_sub(bytes).ok_or_else(|| {
                Failure::invalid_params(
                    "the accounts hold too much data for one answer: ask for fewer, or for a dataSlice",
                )
            })?;
            accounts.push(format.json(key, &account, &mut tokens)?);
        }
        Ok(with_context(state.slot, Value::Array(accounts)))
    }

    pub fn get_minimum_balance(&self, params: Params<'_>) -> Result<Value, Failure> {
        let data_len = params.at_most(2)?.number(0, "bytes of data")?;
        params.options(1)?.commitment()?;
        match usize::try_from(data_len) {
            Ok(data_len) if data_len <= rent::MAX_DATA_BYTES => {
                Ok(json!(self.ledger.features().minimum_balance(data_len)))
            }
            _ => {
                let most = rent::MAX_DATA_BYTES;
                Err(Failure::invalid_request(format!("an account holds at most {most} bytes, not {data_len}")))
            }
        }
    }
}
