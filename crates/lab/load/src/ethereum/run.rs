//! A run: accounts, money, contracts if needed, warm-up, measured time, and the outcome of every transaction.
//!
//! reads   the node's RPC
//! writes  transactions, a [`Report`]

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Instant;

use alloy_primitives::U256;
use alloy_primitives::utils::format_ether;
use hearth_crypto::secp256k1::Signer;
use serde_json::{Value, json};

use super::Node;
use super::fund::{self, FundError, ask_developer_account};
pub use super::setup::set_up;
use super::shared::{Fees, Shared};
use super::workload::{Contracts, Kind, Workload};
use super::{collect, sender};
use crate::account::address;
use crate::error::LoadError;
use crate::options::RunOptions;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::report::Report;
use crate::retry::{Caller, NoAnswer, RetryingRpc};
use crate::rpc::Rpc;
use crate::run_clock::RunState;
use crate::summary::{self, ReportInputs};

/// Gives each account `amount`, from accounts that have more, from `payer`, or from a development node's own account.
pub fn prepare(
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    amount: U256,
    caller: Caller<'_>,
    on_progress: impl FnMut(usize, usize),
) -> Result<usize, FundError> {
    let ask = RetryingRpc { rpc: &node.rpc, stop: caller.stop };
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
    fund::fund(&node.rpc, &node.terms, payer, accounts, amount, caller, on_progress)
}

/// Runs the load on existing contracts. `stop` ends it early with a report of what was measured.
pub fn drive(
    asked: &RunOptions<Kind>,
    node: &Node,
    contracts: Contracts,
    accounts: &[Signer],
    stop: &dyn Fn() -> bool,
    mut on_progress: impl FnMut(Progress<'_>),
) -> Result<Report, LoadError> {
    asked.check_processes()?;
    let targets: Vec<_> = accounts.iter().map(address).collect();
    let ask = RetryingRpc { rpc: &node.rpc, stop };
    let nonces = ask.nonces(&targets)?;
    let shares = share(accounts, &nonces, asked.senders);
    let newest = ask.ask(|rpc| rpc.number("eth_blockNumber", &json!([])))?;
    let course = RunState::new(shares.len());
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
    let (window, chain, tallies) =
        course.run(&asked.timing(), presigned, senders.collect(), reader, stop, &mut on_progress);
    on_progress(Progress::Step("asking what became of what is left, and for receipts"));
    end(&node.rpc, &course, &asked.end_of_patience(&course.silence));
    let is_over = asked.end_of_patience(&course.silence);
    let receipts = collect::failed(&node.rpc, chain.blocks.lines(), &targets.iter().copied().collect(), &is_over);
    Ok(summary::report(&ReportInputs {
        client: node.client.clone(),
        asked,
        way: format!("HTTP, {} in a request", asked.pace.batch),
        accounts: accounts.len(),
        window,
        chain,
        outcomes: &course.outcomes,
        tallies,
        receipts,
    }))
}

/// Distributes the accounts, with their nonces, over the senders.
fn share(accounts: &[Signer], nonces: &[u64], senders: usize) -> Vec<Vec<(Signer, u64)>> {
    let senders = senders.clamp(1, accounts.len().max(1));
    let mut shares = vec![vec![]; senders];
    for (index, (signer, &nonce)) in accounts.iter().zip(nonces).enumerate() {
        shares[index % senders].push((signer.clone(), nonce));
    }
    shares
}

/// Asks the node about each transaction without an outcome. Those that it does not answer before `is_over` stay
/// unknown.
fn end(rpc: &Rpc, course: &RunState, is_over: &dyn Fn() -> bool) {
    let outcomes = &course.outcomes;
    let ask = RetryingRpc { rpc, stop: is_over };
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
