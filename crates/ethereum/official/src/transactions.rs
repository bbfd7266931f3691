//! Transaction tests: bytes that are a transaction under a fork, with which hash and sender, or are none.
//!
//! reads   a case: the bytes, and for each fork a hash and a sender or an exception
//! writes  how each fork ended
//! source  `TransactionTests` of ethereum/tests
//!
//! What a fork asks of a transaction, revm checks when it is to be executed: so its sender has all ether there can be,
//! and the nonce that is its turn. That it still cannot pay, for a value of nearly 2^256, makes no transaction invalid.

use std::collections::BTreeMap;

use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256, U256};
use hearth_evm::blobs::BlobEnv;
use hearth_evm::exec::{BlockEnv, BlockExecutor, Verdict};
use hearth_evm::genesis::Genesis;
use hearth_evm::state::State;
use hearth_evm::tx::{SharedTx, decode_in_block, recover, to_tx_env};
use serde_json::Value;

use crate::score::Ending;
use crate::{forks, hex};

/// Runs a case: each fork.
pub fn run(case: &Value) -> Vec<(String, String, Ending)> {
    let results = case.get("result").and_then(Value::as_object);
    let ending = |fork: &String, result: &Value| match forks::genesis(fork, None) {
        Ok(Some(rules)) => one(case, result, rules).into(),
        Ok(None) => Ending::Unrun(forks::BEFORE_MERGE),
        Err(why) => Ending::Failed(why),
    };
    let forks = results.into_iter().flatten();
    let mut endings: Vec<_> =
        forks.map(|(fork, result)| (fork.clone(), format!(" [{fork}]"), ending(fork, result))).collect();
    if endings.is_empty() {
        endings.push((String::new(), String::new(), Ending::Failed("it has no results".into())));
    }
    endings
}

fn one(case: &Value, result: &Value, rules: Genesis) -> Result<(), String> {
    let bytes = hex::bytes(hex::text(case, "txbytes")?)?;
    let checked = check(&bytes, rules);
    if result.get("exception").is_some() {
        return match checked {
            Ok(tx) => Err(format!("it is taken for the transaction {}", tx.hash)),
            Err(_) => Ok(()),
        };
    }
    let tx = checked?;
    let (hash, sender) = (hex::word(hex::text(result, "hash")?)?, hex::address(hex::text(result, "sender")?)?);
    if (tx.hash, tx.sender) == (hash, sender) {
        return Ok(());
    }
    Err(format!("hash {} and sender {}, not {hash} and {sender}", tx.hash, tx.sender))
}

/// The transaction of these bytes, or why it is none under the rules.
fn check(bytes: &[u8], rules: Genesis) -> Result<SharedTx, String> {
    let decoded = decode_in_block(bytes).map_err(|error| error.to_string())?;
    let recovered = recover(vec![decoded]).pop().ok_or("there is none")?;
    let tx = recovered.map_err(|error| error.to_string())?;
    let rich = GenesisAccount { nonce: Some(to_tx_env(&tx).nonce), balance: U256::MAX, ..Default::default() };
    let genesis = Genesis { alloc: BTreeMap::from([(tx.sender, rich)]), ..rules };
    let state = State::open(None, &genesis).map_err(|error| error.to_string())?;
    let view = state.head();
    let verdict = BlockExecutor::new(&view, &env(&genesis)).run(&tx);
    match verdict {
        Verdict::Included(_) => Ok(tx),
        Verdict::Refused(why) if why.reason.starts_with("insufficient funds") => Ok(tx),
        Verdict::Refused(why) => Err(why.reason),
    }
}

fn env(genesis: &Genesis) -> BlockEnv {
    BlockEnv {
        number: 1,
        timestamp: 1,
        beneficiary: Address::repeat_byte(0xbe),
        gas_limit: u64::MAX,
        base_fee: 0,
        prevrandao: B256::ZERO,
        parent_hash: None,
        parent_beacon_block_root: None,
        chain_id: genesis.chain_id,
        spec: genesis.spec(1, 1),
        limits: genesis.limits,
        blobs: BlobEnv::default(),
        deposit_contract: genesis.deposit_contract,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_transaction_is_judged_by_its_fork() {
        let tx = hearth_evm::builders::transfer(1, 7, 3);
        let good = json!({ "hash": tx.hash.to_string(), "sender": tx.sender.to_string() });
        let bad = json!({ "exception": "why" });
        let case = |bytes: &[u8], result: &Value| {
            run(&json!({ "txbytes": alloy_primitives::hex::encode_prefixed(bytes), "result": { "Cancun": result } }))
        };
        let ending = |bytes: &[u8], result: &Value| case(bytes, result).remove(0).2;
        assert_eq!(ending(&tx.raw, &good), Ending::Passed);
        assert!(matches!(ending(&tx.raw, &bad), Ending::Failed(_)));
        let cut = &tx.raw[..tx.raw.len() - 1];
        assert_eq!(ending(cut, &bad), Ending::Passed);
        assert!(matches!(ending(cut, &good), Ending::Failed(_)));
        let other_chain = hearth_evm::builders::transfer(2, 7, 3);
        assert_eq!(ending(&other_chain.raw, &bad), Ending::Passed);
        let old = run(&json!({ "txbytes": "0x", "result": { "London": bad } }));
        assert!(matches!(old[0].2, Ending::Unrun(_)));
        let empty = run(&json!({ "txbytes": "0x", "result": {} }));
        assert!(matches!(&empty[..], [(_, _, Ending::Failed(_))]));
    }
}
