//! Dumps both ledgers as a genesis for another chain.
//!
//! reads   the state and the side ledger's set after one block
//! writes  geth's JSON form, with the side ledger's set if it is not empty
//! memory  the accounts as JSON

use std::collections::BTreeMap;

use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256, Bytes};
use serde_json::{Map, Value, json};

use super::side::{KEY, to_json};
use crate::block::Block;
use crate::state::{Entry, StateView};

/// The field of a dump with the seconds that a developer has set the chain's time ahead of the clock.
const CLOCK_OFFSET: &str = "hearthClockOffset";

/// The newest rules from the beginning on.
pub fn newest_rules(chain_id: u64) -> Value {
    json!({
        "chainId": chain_id, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
        "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0,
        "londonBlock": 0, "mergeNetsplitBlock": 0, "terminalTotalDifficulty": 0, "shanghaiTime": 0, "cancunTime": 0,
        "pragueTime": 0, "osakaTime": 0
    })
}

/// Returns a genesis of the state and the side ledger's items after `head`, with these rules, for a chain whose time is
/// ahead by this offset.
pub fn of(head: &Block, view: &StateView, side: Option<&[Bytes]>, clock_offset_s: i64, config: Value) -> Value {
    let mut codes: B256Map<String> = B256Map::default();
    let mut alloc: BTreeMap<Address, Map<String, Value>> = BTreeMap::new();
    for entry in view.dump() {
        match entry {
            Entry::Code { hash, code } => {
                codes.insert(hash, code.to_string());
            }
            Entry::Account { address, account } => {
                let fields = alloc.entry(address).or_default();
                fields.insert("balance".into(), json!(account.balance));
                fields.insert("nonce".into(), json!(format!("{:#x}", account.nonce)));
                if let Some(code) = codes.get(&account.code_hash).filter(|code| *code != "0x") {
                    fields.insert("code".into(), json!(code));
                }
            }
            Entry::Storage { address, slot, value } => {
                let storage = alloc.entry(address).or_default().entry("storage").or_insert_with(|| json!({}));
                storage[B256::from(slot).to_string()] = json!(B256::from(value));
            }
        }
    }
    let mut genesis = json!({
        "config": config,
        "gasLimit": format!("{:#x}", head.header.gas_limit),
        "baseFeePerGas": format!("{:#x}", head.base_fee()),
        "difficulty": "0x0",
        "timestamp": format!("{:#x}", head.header.timestamp),
        "alloc": alloc,
    });
    if let Some(items) = side {
        genesis[KEY] = to_json(items);
    }
    if clock_offset_s != 0 {
        genesis[CLOCK_OFFSET] = json!(clock_offset_s);
    }
    genesis
}
