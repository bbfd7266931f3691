//! The accounts that a case begins with.

use std::collections::BTreeMap;

use alloy_genesis::GenesisAccount;
use alloy_primitives::Address;
use serde_json::Value;

use crate::hex;

/// The accounts of a case's `pre`.
pub fn of(case: &Value) -> Result<BTreeMap<Address, GenesisAccount>, String> {
    let pre = case.get("pre").and_then(Value::as_object).ok_or("it has no `pre`")?;
    pre.iter().map(|(address, json)| Ok((hex::address(address)?, account(json)?))).collect()
}

fn account(json: &Value) -> Result<GenesisAccount, String> {
    let mut storage = BTreeMap::new();
    for (slot, value) in json.get("storage").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().ok_or("a slot holds no text")?;
        storage.insert(hex::word(slot)?, hex::word(value)?);
    }
    Ok(GenesisAccount {
        nonce: Some(hex::small_of(json, "nonce")?),
        balance: hex::number(hex::text(json, "balance")?)?,
        code: Some(hex::bytes(hex::text(json, "code")?)?),
        storage: Some(storage),
        ..Default::default()
    })
}
