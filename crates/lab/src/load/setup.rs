//! What a run needs on the chain before it sends: a token that every account has some of.
//!
//! reads   receipts
//! writes  the contract's creation, and calls that mint

use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256};
use hearth_crypto::secp256k1::Signer;
use serde_json::json;

use super::account::address;
use super::run::{LoadError, Node};
use super::workload::{call, create, mint_input, sign, token_code};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a set-up transaction may take to its receipt.
const PATIENCE: Duration = Duration::from_secs(60);
/// Accounts that one transaction mints for.
const MINT_CHUNK: usize = 200;

/// Creates the token, and mints for every account.
pub fn make_token(node: &Node, payer: &Signer, accounts: &[Signer]) -> Result<Address, LoadError> {
    let from = address(payer);
    let mut nonce = node.rpc.nonces(&[from])?[0];
    let token = from.create(nonce);
    send_one(node, "creating the token", sign(create(&node.terms, nonce, 2_000_000, token_code()), payer))?;
    let addresses: Vec<_> = accounts.iter().map(address).collect();
    for chunk in addresses.chunks(MINT_CHUNK) {
        nonce += 1;
        let input = mint_input(chunk, U256::from(1_000_000_000_000u64));
        let gas = 200_000 + 40_000 * chunk.len() as u64;
        send_one(node, "minting", sign(call(&node.terms, nonce, token, gas, input), payer))?;
    }
    Ok(token)
}

/// Sends one transaction, and waits for its success.
fn send_one(node: &Node, what: &'static str, (raw, hash): (Vec<u8>, B256)) -> Result<(), LoadError> {
    let wrong = |why: String| LoadError::SetUp { what, why };
    for verdict in node.rpc.send_raw(&[&raw])? {
        verdict.map_err(|refusal| wrong(refusal.message))?;
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let receipt = node.rpc.call("eth_getTransactionReceipt", &json!([hash]))?;
        match receipt["status"].as_str() {
            Some("0x1") => return Ok(()),
            Some(_) => return Err(wrong("it failed in its block".into())),
            None if Instant::now() > deadline => {
                return Err(wrong(format!("there is no receipt after {} s", PATIENCE.as_secs())));
            }
            None => thread::sleep(LOOK_EVERY),
        }
    }
}
