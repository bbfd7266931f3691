//! Accounts that a recent block changed: a method of our own, with which operators locate a divergence between nodes.
//!
//! reads   the ledger's per-slot record of changed accounts
//! writes  a page of accounts, by address
//! memory  32 B per account that the block changed; one such scan at a time
//! drops   slots that were pruned, abandoned or skipped: error -32004

use hearth_ledger::ChangedAccount;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::Api;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// Maximum accounts of one response.
const ACCOUNTS_MAX: u64 = 1_000;

impl Api {
    pub async fn get_slot_changes(&self, params: Params<'_>) -> Result<Value, Failure> {
        let slot = params.at_most(2)?.number(0, "slot")?;
        let options = params.options(1)?;
        let after = options.pubkey("after")?;
        let limit = options.number("limit")?.unwrap_or(ACCOUNTS_MAX);
        if !(1..=ACCOUNTS_MAX).contains(&limit) {
            return Err(Failure::invalid_params(format!("limit: expected 1 to {ACCOUNTS_MAX}, found {limit}")));
        }
        let page = self.at_length(|| self.ledger.slot_changes(slot, after.as_ref(), limit as usize)).await;
        let page = page.ok_or_else(|| Failure::no_block(slot))?;
        Ok(json!({
            "slot": page.slot,
            "parentSlot": page.parent,
            "bankHash": &*encode_32(&page.bank_hash),
            "accounts": page.accounts.iter().map(account_json).collect::<Vec<_>>(),
            "more": page.more,
        }))
    }
}

fn account_json(account: &ChangedAccount) -> Value {
    json!({
        "pubkey": &*encode_32(&account.key),
        "lamports": account.lamports,
        "owner": &*encode_32(&account.owner),
        "executable": account.executable,
        "space": account.space,
        "hash": &*encode_32(&account.hash),
    })
}
