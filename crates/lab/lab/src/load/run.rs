//! A run: accounts, money, a token where one is needed, warm-up, measured time, the end of every transaction.
//!
//! reads   the node's RPC
//! writes  transactions, a [`Report`]
//! memory  see the parts
//! drops   nothing

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use alloy_primitives::U256;
use alloy_primitives::utils::format_ether;
use hearth_crypto::secp256k1::Signer;
use serde_json::{Value, json};

use super::account::address;
use super::asked::{Asked, LoadError};
use super::chain::Marks;
use super::collect;
use super::course::{Course, Progress};
use super::figures::{self, Found};
use super::fund::{self, FundError, ask_developer_account};
use super::outcome::Outcome;
use super::patient::{Caller, NoAnswer, Patient};
use super::report::Report;
use super::rpc::{Rpc, RpcError, to_quantity};
use super::sender::{self, Fees, Shared};
pub use super::setup::set_up;
use super::workload::{Contracts, Kind, Terms, Workload};

/// A node, and what it charges.
pub struct Node {
    /// Its RPC.
    pub rpc: Rpc,
    /// Its name.
    pub client: String,
    /// Fees and chain.
    pub terms: Terms,
}

/// Asks a node who it is and what it charges.
pub fn connect(url: &str, timeout: Duration) -> Result<Node, RpcError> {
    let rpc = Rpc::new(url, timeout)?;
    let chain_id = rpc.number("eth_chainId", &json!([]))?;
    let client = match rpc.call("web3_clientVersion", &json!([])) {
        Ok(name) => name.as_str().unwrap_or("a node without a name").to_owned(),
        Err(RpcError::Refused { .. }) => "a node without a name".into(),
        Err(why) => return Err(why),
    };
    let block = rpc.call("eth_getBlockByNumber", &json!(["latest", false]))?;
    let base_fee = block.get("baseFeePerGas").and_then(to_quantity).unwrap_or_default();
    let tip = match rpc.quantity("eth_maxPriorityFeePerGas", &json!([])) {
        Ok(tip) => tip,
        Err(RpcError::Refused { .. }) => rpc.quantity("eth_gasPrice", &json!([]))?,
        Err(why) => return Err(why),
    };
    // Full blocks raise the base fee by an eighth each: room for 27 of them, and never less than 2 gwei.
    let max_fee = (base_fee * U256::from(24) + tip).max(U256::from(2_000_000_000u64));
    let small = |value: U256| u128::try_from(value).unwrap_or(u128::MAX >> 8);
    Ok(Node { rpc, client, terms: Terms { chain_id, max_fee: small(max_fee), tip: small(tip).min(small(max_fee)) } })
}

/// What tells the chain of a node from others: its id and the hash of its first block, as far as it tells.
pub fn marks(rpc: &Rpc) -> Result<Marks, RpcError> {
    let id = rpc.number("eth_chainId", &json!([]))?;
    let first = match rpc.call("eth_getBlockByNumber", &json!(["0x0", false])) {
        Ok(block) => block["hash"].as_str().map(str::to_owned),
        Err(RpcError::Refused { .. }) => None,
        Err(why) => return Err(why),
    };
    Ok([("chain id", id.to_string())].into_iter().chain(first.map(|hash| ("first block", hash))).collect())
}

/// Gives each account `amount`, out of those that have more, `payer`'s, or a development node's own account.
pub fn prepare(
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    amount: U256,
    caller: Caller<'_>,
    told: impl FnMut(usize, usize),
) -> Result<usize, FundError> {
    let ask = Patient { rpc: &node.rpc, stop: caller.stop };
    let stopped = |why| match why {
        NoAnswer::Stopped => FundError::Stopped { done: 0, count: accounts.len() },
        NoAnswer::Rpc(why) => why.into(),
    };
    let needed = fund::needed(&ask, &node.terms, accounts, amount).map_err(stopped)?;
    let rich = address(payer);
    let has = ask.balances(&[rich]).map_err(stopped)?[0];
    if has < needed
        && let Some(from) = ask_developer_account(&ask, rich, needed)?
    {
        let (has, needed) = (format_ether(has), format_ether(needed));
        (caller.says)(&format!("{rich} has only {has} ether: {from}, an account of the node's own, gave it {needed}"));
    }
    fund::fund(&node.rpc, &node.terms, payer, accounts, amount, caller, told)
}

/// Runs the load on contracts that are there. `stop` ends it early, with what there is.
pub fn drive(
    asked: &Asked<Kind>,
    node: &Node,
    contracts: Contracts,
    accounts: &[Signer],
    stop: &dyn Fn() -> bool,
    mut told: impl FnMut(Progress<'_>),
) -> Result<Report, LoadError> {
    asked.check_processes()?;
    let targets: Vec<_> = accounts.iter().map(address).collect();
    let ask = Patient { rpc: &node.rpc, stop };
    let nonces = ask.nonces(&targets)?;
    let shares = share(accounts, &nonces, asked.senders);
    let newest = ask.ask(|rpc| rpc.number("eth_blockNumber", &json!([])))?;
    let course = Course::new(shares.len());
    course.outcomes.expect_blocks_every(collect::block_time(&node.rpc, newest));
    let pace = asked.pace_of(accounts.len());
    let shared = Shared {
        pace,
        batch: AtomicUsize::new(pace.batch),
        senders: shares.len(),
        workload: Workload { mix: asked.mix.clone(), contracts },
        fees: Fees::new(node.terms.of_one_run()),
        targets: &targets,
        course: &course,
    };
    let rpcs = asked.rpcs()?;
    let senders = shares.iter().enumerate().map(|(index, share)| {
        let (rpcs, shared) = (rpcs.clone(), &shared);
        move || sender::send(rpcs, shared, index, share)
    });
    let presigned = shared.pace.presign * shared.targets.len() as u64;
    let reader = |end: &AtomicBool| collect::follow(node, newest + 1, &course, end, asked.patience);
    let (window, chain, tolds) = course.run(&asked.timing(), presigned, senders.collect(), reader, stop, &mut told);
    told(Progress::Step("asking what became of what is left, and for receipts"));
    end(&node.rpc, &course, &asked.end_of_patience(&course.silence));
    let is_over = asked.end_of_patience(&course.silence);
    let receipts = collect::failed(&node.rpc, chain.blocks.lines(), &targets.iter().copied().collect(), &is_over);
    Ok(figures::report(&Found {
        client: node.client.clone(),
        asked,
        way: format!("HTTP, {} in a request", asked.pace.batch),
        accounts: accounts.len(),
        window,
        chain,
        outcomes: &course.outcomes,
        tolds,
        receipts,
    }))
}

/// The accounts of each sender, with their nonces.
fn share(accounts: &[Signer], nonces: &[u64], senders: usize) -> Vec<Vec<(Signer, u64)>> {
    let senders = senders.clamp(1, accounts.len().max(1));
    let mut shares = vec![vec![]; senders];
    for (index, (signer, &nonce)) in accounts.iter().zip(nonces).enumerate() {
        shares[index % senders].push((signer.clone(), nonce));
    }
    shares
}

/// Asks the node about each that is left. Of what it does not answer for until `is_over`, nothing is known.
fn end(rpc: &Rpc, course: &Course, is_over: &dyn Fn() -> bool) {
    let outcomes = &course.outcomes;
    let ask = Patient { rpc, stop: is_over };
    let heard = || course.silence.heard(Instant::now());
    for hashes in outcomes.left().chunks(100) {
        let params: Vec<_> = hashes.iter().map(|hash| json!([hash])).collect();
        let asked = || ask.ask(|rpc| rpc.batch::<Value>("eth_getTransactionByHash", &params)).inspect(|_| heard()).ok();
        let answers = (!is_over()).then(asked).flatten();
        let mut answers = answers.unwrap_or_default().into_iter();
        for hash in hashes {
            match answers.next() {
                Some(Ok(Value::Null)) => outcomes.end_unknown_to_the_node(hash),
                Some(Ok(transaction)) if !transaction["blockNumber"].is_null() => {
                    outcomes.end(hash, &Outcome::Included)
                }
                _ => outcomes.end(hash, &Outcome::Unknown),
            }
        }
    }
}
