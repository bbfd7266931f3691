//! What a run needs on the chain before it sends: contracts, and tokens for every account.
//!
//! reads   receipts
//! writes  transactions that create contracts and mint tokens

use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256};
use hearth_crypto::secp256k1::Signer;
use serde_json::{Value, json};

use super::fund::{FundError, ask_developer_account};
use super::node::Node;
use super::workload::{
    Contracts, Kind, Mix, POOL_CODE, STORE_CODE, TOKEN_CODE, Terms, call, code, create, mint_input, sign,
};
use crate::account::address;
use crate::error::LoadError;
use crate::progress::Progress;
use crate::refusal::Reason;
use crate::retry::RetryingRpc;
use crate::rpc::{Refusal, Retryable};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the next receipt of pending transactions may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Accounts per mint transaction.
const MINT_CHUNK: usize = 100;
/// Pending transactions at a time. Nodes hold at least 16 of a sender.
const TOGETHER: usize = 15;

/// Creates the contracts that this mix calls, and mints tokens for every account.
pub fn set_up(
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    mix: &Mix,
    stop: &dyn Fn() -> bool,
    on_progress: &mut impl FnMut(Progress<'_>),
) -> Result<Contracts, LoadError> {
    let by = SetupPayer { ask: RetryingRpc { rpc: &node.rpc, stop }, terms: &node.terms, payer };
    by.find_money(mix, accounts.len(), on_progress)?;
    let mut contracts = Contracts::default();
    for part in PARTS.iter().filter(|part| mix.has(part.kind)) {
        on_progress(Progress::Step(part.step));
        let contract = by.create(part.code, part.gas)?;
        if let Some(gas) = part.mint {
            by.mint(contract, accounts, gas)?;
        }
        *match part.kind {
            Kind::Erc20 => &mut contracts.token,
            Kind::Swap => &mut contracts.pool,
            _ => &mut contracts.store,
        } = contract;
    }
    Ok(contracts)
}

/// A contract that transactions of a kind call.
struct Part {
    kind: Kind,
    step: &'static str,
    code: &'static str,
    /// Gas of its creation.
    gas: u64,
    /// Gas of a mint call, and gas for each account in it.
    mint: Option<(u64, u64)>,
}

const PARTS: [Part; 3] = [
    Part {
        kind: Kind::Erc20,
        step: "creating the token and minting for every account",
        code: TOKEN_CODE,
        gas: 2_000_000,
        mint: Some((200_000, 40_000)),
    },
    Part {
        kind: Kind::Contract,
        step: "creating the contract that is called",
        code: STORE_CODE,
        gas: 500_000,
        mint: None,
    },
    Part {
        kind: Kind::Swap,
        step: "creating the pool and minting its tokens for every account",
        code: POOL_CODE,
        gas: 5_000_000,
        mint: Some((200_000, 80_000)),
    },
];

impl Part {
    /// The most gas that this contract's set-up takes for this many accounts.
    fn gas_for(&self, accounts: usize) -> u64 {
        let mint = |(call, each)| call * accounts.div_ceil(MINT_CHUNK) as u64 + each * accounts as u64;
        self.gas + self.mint.map_or(0, mint)
    }
}

/// The node and the account that pays for the set-up.
struct SetupPayer<'a> {
    ask: RetryingRpc<'a>,
    terms: &'a Terms,
    payer: &'a Signer,
}

impl SetupPayer<'_> {
    /// The payer's own money may all be with the accounts. If a development node holds the rich account's key itself,
    /// asks it for what the set-up may cost.
    fn find_money(
        &self,
        mix: &Mix,
        accounts: usize,
        on_progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<(), LoadError> {
        let gas: u64 = PARTS.iter().filter(|part| mix.has(part.kind)).map(|part| part.gas_for(accounts)).sum();
        let (payer, cost) = (address(self.payer), U256::from(gas) * U256::from(self.terms.max_fee));
        if self.ask.balances(&[payer])?[0] >= cost {
            return Ok(());
        }
        // If nothing is given, the node's own error says what is missing.
        match ask_developer_account(&self.ask, payer, cost) {
            Ok(None) => Ok(()),
            Ok(Some(from)) => {
                on_progress(Progress::Step(&format!(
                    "{payer} has too little to set up: {from}, an account of the node's own, gave it some"
                )));
                Ok(())
            }
            Err(FundError::Stopped { .. }) => Err(LoadError::Stopped),
            Err(why) => Err(LoadError::SetUp { what: "money to set up", why: why.to_string() }),
        }
    }

    fn nonce(&self) -> Result<u64, LoadError> {
        Ok(self.ask.nonces(&[address(self.payer)])?[0])
    }

    fn create(&self, digits: &str, gas: u64) -> Result<Address, LoadError> {
        let nonce = self.nonce()?;
        self.send("creating a contract", &[sign(create(self.terms, nonce, gas, code(digits)), self.payer)])?;
        Ok(address(self.payer).create(nonce))
    }

    /// Mints tokens for the accounts. `gas` is for the call and for each account. At most as many transactions are
    /// pending as a pool holds of one sender.
    fn mint(&self, contract: Address, accounts: &[Signer], gas: (u64, u64)) -> Result<(), LoadError> {
        let first = self.nonce()?;
        let addresses: Vec<_> = accounts.iter().map(address).collect();
        let signed = (first..).zip(addresses.chunks(MINT_CHUNK)).map(|(nonce, chunk)| {
            let input = mint_input(chunk, U256::from(1_000_000_000_000_000u64));
            let gas = gas.0 + gas.1 * chunk.len() as u64;
            sign(call(self.terms, nonce, contract, gas, input), self.payer)
        });
        let signed: Vec<_> = signed.collect();
        signed.chunks(TOGETHER).try_for_each(|some| self.send("minting", some))
    }

    /// Sends one account's transactions in nonce order and waits until each has succeeded.
    fn send(&self, what: &'static str, signed: &[(Vec<u8>, B256)]) -> Result<(), LoadError> {
        let wrong = |why: String| LoadError::SetUp { what, why };
        let mut deadline = Instant::now() + PATIENCE;
        self.hand_over(signed, deadline, wrong)?;
        let mut open: Vec<_> = signed.iter().map(|(_, hash)| json!([hash])).collect();
        loop {
            let asked = open.len();
            let receipts = self.ask.ask(|rpc| rpc.batch::<Value>("eth_getTransactionReceipt", &open))?;
            let mut left = vec![];
            for (question, receipt) in open.into_iter().zip(receipts) {
                let receipt = match receipt {
                    Ok(receipt) => receipt,
                    Err(Refusal { message, .. }) if Reason::of(&message) == Reason::Full => Value::Null,
                    Err(Refusal { message, .. }) => return Err(wrong(message)),
                };
                match receipt["status"].as_str() {
                    Some("0x1") => {}
                    Some(_) => return Err(wrong("it failed in its block".into())),
                    None => left.push(question),
                }
            }
            if left.is_empty() {
                return Ok(());
            }
            if left.len() < asked {
                deadline = Instant::now() + PATIENCE;
            }
            if Instant::now() > deadline {
                return Err(wrong(format!("there is no receipt after {} s", PATIENCE.as_secs())));
            }
            open = left;
            self.rest()?;
        }
    }

    /// Sends the same bytes until the node has accepted them.
    fn hand_over(
        &self,
        signed: &[(Vec<u8>, B256)],
        deadline: Instant,
        wrong: impl Fn(String) -> LoadError,
    ) -> Result<(), LoadError> {
        let mut left: Vec<&[u8]> = signed.iter().map(|(raw, _)| &raw[..]).collect();
        let (mut resent, mut most) = (false, left.len());
        loop {
            let (some, later) = left.split_at(most.min(left.len()));
            let why = match self.ask.rpc.send_raw(some) {
                Ok(verdicts) => {
                    let is_first = left.len() == signed.len();
                    let (mut again, words) = not_taken(some, verdicts, (is_first, resent)).map_err(&wrong)?;
                    let is_taken = again.is_empty();
                    again.extend(later);
                    left = again;
                    if left.is_empty() {
                        return Ok(());
                    }
                    if is_taken {
                        continue;
                    }
                    wrong(words)
                }
                Err(why) if why.may_be_too_long() && some.len() > 1 => {
                    most = some.len() / 2;
                    continue;
                }
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

/// Returns the transactions that the node did not accept this time, with its message, or the message of a final
/// refusal.
fn not_taken<'a>(
    raws: &[&'a [u8]],
    verdicts: Vec<Result<B256, Refusal>>,
    (is_first, resent): (bool, bool),
) -> Result<(Vec<&'a [u8]>, String), String> {
    let (mut again, mut words) = (vec![], String::new());
    for (index, (raw, verdict)) in raws.iter().zip(verdicts).enumerate() {
        let Err(Refusal { message, .. }) = verdict else { continue };
        match Reason::of(&message) {
            Reason::Known => continue,
            // The earlier answer was lost, and it is in a block by now; its receipt decides.
            Reason::NonceUsed if resent => continue,
            Reason::Full => {}
            // Transactions before it may reserve more of the account's money than they finally cost.
            Reason::NonceAhead | Reason::Funds if index > 0 || !is_first => {}
            Reason::NonceUsed | Reason::Fee | Reason::NonceAhead | Reason::Funds | Reason::Other => {
                return Err(message);
            }
        }
        again.push(*raw);
        words = message;
    }
    Ok((again, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retryable_transaction_is_sent_again() {
        let raws: [&[u8]; 3] = [b"a", b"b", b"c"];
        let refused = |words: &str| Err(Refusal { code: -32000, message: words.into(), data: None });
        let ask = |first: &str, turn: (bool, bool)| {
            let verdicts = vec![refused(first), Ok(B256::ZERO), refused("txpool is full")];
            not_taken(&raws, verdicts, turn).map(|(again, _)| again.len())
        };
        assert_eq!((ask("already known", (true, false)), ask("txpool is full", (true, false))), (Ok(1), Ok(2)));
        assert_eq!((ask("nonce too low", (true, true)), ask("nonce too low", (true, false)).is_err()), (Ok(1), true));
        // The first one has no predecessor to wait for.
        assert!(ask("insufficient funds", (true, true)).is_err());
        assert_eq!(ask("insufficient funds", (false, true)), Ok(2));
        assert!(ask("out of gas", (false, true)).is_err());
    }
}
