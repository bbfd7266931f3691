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
use super::asked::LoadError;
use super::course::Progress;
use super::patient::Patient;
use super::refusal::Reason;
use super::rpc::Refusal;
use super::run::Node;
use super::workload::{
    Contracts, Kind, Mix, POOL_CODE, STORE_CODE, TOKEN_CODE, Terms, call, code, create, mint_input, sign,
};

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
    stop: &dyn Fn() -> bool,
    told: &mut impl FnMut(Progress<'_>),
) -> Result<Contracts, LoadError> {
    let by = By { ask: Patient { rpc: &node.rpc, stop }, terms: &node.terms, payer };
    let mut contracts = Contracts::default();
    if mix.has(Kind::Erc20) {
        told(Progress::Step("creating the token and minting for every account"));
        contracts.token = by.create(TOKEN_CODE, 2_000_000)?;
        by.mint(contracts.token, accounts, (200_000, 40_000))?;
    }
    if mix.has(Kind::Contract) {
        told(Progress::Step("creating the contract that is called"));
        contracts.store = by.create(STORE_CODE, 500_000)?;
    }
    if mix.has(Kind::Swap) {
        told(Progress::Step("creating the pool and minting its tokens for every account"));
        contracts.pool = by.create(POOL_CODE, 5_000_000)?;
        by.mint(contracts.pool, accounts, (200_000, 80_000))?;
    }
    Ok(contracts)
}

/// Who sets up, and where.
struct By<'a> {
    ask: Patient<'a>,
    terms: &'a Terms,
    payer: &'a Signer,
}

impl By<'_> {
    fn nonce(&self) -> Result<u64, LoadError> {
        Ok(self.ask.nonces(&[address(self.payer)])?[0])
    }

    fn create(&self, digits: &str, gas: u64) -> Result<Address, LoadError> {
        let nonce = self.nonce()?;
        self.send("creating a contract", sign(create(self.terms, nonce, gas, code(digits)), self.payer))?;
        Ok(address(self.payer).create(nonce))
    }

    /// Gas is for the call, and for each account.
    fn mint(&self, contract: Address, accounts: &[Signer], gas: (u64, u64)) -> Result<(), LoadError> {
        let first = self.nonce()?;
        let addresses: Vec<_> = accounts.iter().map(address).collect();
        for (nonce, chunk) in (first..).zip(addresses.chunks(MINT_CHUNK)) {
            let input = mint_input(chunk, U256::from(1_000_000_000_000_000u64));
            let gas = gas.0 + gas.1 * chunk.len() as u64;
            self.send("minting", sign(call(self.terms, nonce, contract, gas, input), self.payer))?;
        }
        Ok(())
    }

    /// Sends one transaction, and waits for its success.
    fn send(&self, what: &'static str, (raw, hash): (Vec<u8>, B256)) -> Result<(), LoadError> {
        let wrong = |why: String| LoadError::SetUp { what, why };
        let deadline = Instant::now() + PATIENCE;
        self.hand_over(&raw, deadline, wrong)?;
        loop {
            let receipt = self.ask.ask(|rpc| rpc.call("eth_getTransactionReceipt", &json!([hash])))?;
            match receipt["status"].as_str() {
                Some("0x1") => return Ok(()),
                Some(_) => return Err(wrong("it failed in its block".into())),
                None if Instant::now() > deadline => {
                    return Err(wrong(format!("there is no receipt after {} s", PATIENCE.as_secs())));
                }
                None => self.rest()?,
            }
        }
    }

    /// Sends the same bytes until the node has them.
    fn hand_over(&self, raw: &[u8], deadline: Instant, wrong: impl Fn(String) -> LoadError) -> Result<(), LoadError> {
        let mut resent = false;
        loop {
            let why = match self.ask.rpc.send_raw(&[raw]).map(|verdicts| verdicts.into_iter().next()) {
                Ok(Some(Err(Refusal { message, .. }))) => match Reason::of(&message) {
                    Reason::Known => return Ok(()),
                    // An answer was lost, and it is in a block by now: its receipt will tell.
                    Reason::NonceUsed if resent => return Ok(()),
                    Reason::Full => wrong(message),
                    Reason::NonceUsed | Reason::Fee | Reason::NonceAhead | Reason::Funds | Reason::Other => {
                        return Err(wrong(message));
                    }
                },
                Ok(_) => return Ok(()),
                Err(why) if !why.may_pass() => return Err(why.into()),
                Err(why) => why.into(),
            };
            if Instant::now() > deadline {
                return Err(why);
            }
            self.rest()?;
            resent = true;
        }
    }

    fn rest(&self) -> Result<(), LoadError> {
        if (self.ask.stop)() {
            return Err(LoadError::Stopped);
        }
        thread::sleep(LOOK_EVERY);
        Ok(())
    }
}
