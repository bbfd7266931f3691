//! The accounts of a chain as a file, to begin another with.
//!
//! reads   the newest state; the file's rules, where there is one already
//! writes  a genesis in geth's JSON form: what `--genesis` and `--state` read
//! memory  the accounts as JSON
//!
//! A chain that begins so begins with block 0; its time goes on from that of the newest block.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256};
use hearth_evm::chain::Chain;
use hearth_evm::state::Entry;
use serde_json::{Map, Value, json};

use super::EvmError;

/// Writes the accounts of the newest state. The file is replaced as a whole, or left as it is.
pub fn write(path: &Path, chain: &Chain) -> Result<(), EvmError> {
    let failed = |what: String| EvmError::File { option: "--state", path: path.to_owned(), what };
    let before = fs::read(path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let config = before.and_then(|mut file| file.get_mut("config").map(Value::take));
    let genesis = genesis(chain, config.unwrap_or_else(|| newest(chain.chain_id())));
    let next = path.with_extension("next");
    let write = || {
        let mut out = BufWriter::new(File::create(&next)?);
        serde_json::to_writer(&mut out, &genesis)?;
        out.into_inner()?.flush()?;
        fs::rename(&next, path)
    };
    write().map_err(|error| failed(format!("cannot write it: {error}")))
}

/// A genesis of a chain's accounts and the newest rules.
pub fn of(chain: &Chain) -> Value {
    genesis(chain, newest(chain.chain_id()))
}

/// The newest rules from the beginning on.
fn newest(chain_id: u64) -> Value {
    json!({
        "chainId": chain_id, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
        "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0,
        "londonBlock": 0, "mergeNetsplitBlock": 0, "terminalTotalDifficulty": 0, "shanghaiTime": 0, "cancunTime": 0,
        "pragueTime": 0, "osakaTime": 0
    })
}

fn genesis(chain: &Chain, config: Value) -> Value {
    let (head, view) = chain.head_and_view();
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
    json!({
        "config": config,
        "gasLimit": format!("{:#x}", head.header.gas_limit),
        "baseFeePerGas": format!("{:#x}", head.base_fee()),
        "difficulty": "0x0",
        "timestamp": format!("{:#x}", head.header.timestamp),
        "alloc": alloc,
    })
}
