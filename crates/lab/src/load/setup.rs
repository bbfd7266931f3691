//! What a run needs on the chain before it sends: contracts, and tokens that every account has some of.
//!
//! reads   receipts
//! writes  the contracts' creation, and calls that mint

use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256};
use hearth_crypto::secp256k1::Signer;
use serde_json::json;

use super::account::address;
use super::run::{LoadError, Node, Progress};
use super::workload::{Contracts, Kind, Mix, POOL_CODE, STORE_CODE, TOKEN_CODE, call, code, create, mint_input, sign};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a set-up transaction may take to its receipt.
const PATIENCE: Duration = Duration::from_secs(60);
/// Accounts that one transaction mints for.
const MINT_CHUNK: usize = 100;

/// Creates what transactions of this mix call, and mints for every account.
pub fn set_up(
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    mix: &Mix,
    told: &mut impl FnMut(Progress<'_>),
) -> Result<Contracts, LoadError> {
    let mut contracts = Contracts::default();
    if mix.has(Kind::Erc20) {
        told(Progress::Step("creating the token and minting for every account"));
        contracts.token = create_one(node, payer, TOKEN_CODE, 2_000_000)?;
        mint(node, payer, contracts.token, accounts, (200_000, 40_000))?;
    }
    if mix.has(Kind::Contract) {
        told(Progress::Step("creating the contract that is called"));
        contracts.store = create_one(node, payer, STORE_CODE, 500_000)?;
    }
    if mix.has(Kind::Swap) {
        told(Progress::Step("creating the pool and minting its tokens for every account"));
        contracts.pool = create_one(node, payer, POOL_CODE, 5_000_000)?;
        mint(node, payer, contracts.pool, accounts, (200_000, 80_000))?;
    }
    Ok(contracts)
}

fn create_one(node: &Node, payer: &Signer, digits: &str, gas: u64) -> Result<Address, LoadError> {
    let from = address(payer);
    let nonce = node.rpc.nonces(&[from])?[0];
    send_one(node, "creating a contract", sign(create(&node.terms, nonce, gas, code(digits)), payer))?;
    Ok(from.create(nonce))
}

/// Gas is for the call, and for each account.
fn mint(node: &Node, payer: &Signer, contract: Address, accounts: &[Signer], gas: (u64, u64)) -> Result<(), LoadError> {
    let mut nonce = node.rpc.nonces(&[address(payer)])?[0];
    let addresses: Vec<_> = accounts.iter().map(address).collect();
    for chunk in addresses.chunks(MINT_CHUNK) {
        let input = mint_input(chunk, U256::from(1_000_000_000_000_000u64));
        let gas = gas.0 + gas.1 * chunk.len() as u64;
        send_one(node, "minting", sign(call(&node.terms, nonce, contract, gas, input), payer))?;
        nonce += 1;
    }
    Ok(())
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
