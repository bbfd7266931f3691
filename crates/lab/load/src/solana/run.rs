//! A run: a token if needed, warm-up, measured time, and the outcome of every transaction.
//!
//! reads   the node's RPC
//! writes  transactions, a [`Report`]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hearth_wire::Pubkey;

use super::collect::{self, Follower, Targets};
use super::keys::Account;
use super::node::{ChainTime, Node};
use super::retry::RetryingNode;
use super::sender::{self, SendRoute, Shared};
pub use super::setup::set_up;
use super::workload::{Kind, Workload, salt};
use crate::error::LoadError;
use crate::options::{RunOptions, Timing};
use crate::outcome::{Outcome, Outcomes};
use crate::progress::Progress;
use crate::report::Report;
use crate::run_clock::{RunState, SenderTally};
use crate::summary::{self, ReportInputs};
use crate::tpu::Tpu;
use crate::window::Window;

/// How long to wait for pending transactions to expire: a blockhash lives for 150 blocks, about a minute.
const EXPIRY_MAX: Duration = Duration::from_secs(90);
/// If no block comes for this long, nothing will expire.
const STANDSTILL: Duration = Duration::from_secs(10);

/// How transactions are sent to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendVia {
    /// Over QUIC, to the leaders' addresses that the node reports.
    Leaders,
    /// Over QUIC, to this address.
    Tpu(SocketAddr),
    /// By `sendTransaction` of all nodes, in turn.
    Rpc,
}

/// Runs the load on an existing token. `stop` ends it early with a report of what was measured.
pub fn drive(
    asked: &RunOptions<Kind>,
    by: SendVia,
    node: &Node,
    tokens: &[Pubkey],
    accounts: &[Account],
    stop: &dyn Fn() -> bool,
    mut on_progress: impl FnMut(Progress<'_>),
) -> Result<Report, LoadError> {
    if accounts.len() < 2 {
        return Err(LoadError::TooFew);
    }
    asked.check_processes()?;
    let targets = Targets::default();
    let rpcs = asked.rpcs()?;
    let senders = asked.senders.clamp(1, accounts.len());
    let ask = RetryingNode { node, stop };
    let tpus = open(by, &ask, &targets, senders)?;
    let addresses: Vec<Pubkey> = accounts.iter().map(|account| account.address).collect();
    let (course, time) = (RunState::new(senders), ChainTime::new(ask.ask(Node::blockhash)?));
    let first_number = FIRST_NUMBER.load(Ordering::Relaxed);
    let shared = Shared {
        pace: asked.pace_of(accounts.len()),
        senders,
        accounts,
        workload: Workload {
            mix: asked.mix.clone(),
            accounts: addresses.clone(),
            tokens: tokens.to_vec(),
            salt: salt(),
        },
        first_number,
        time: &time,
        way: if by == SendVia::Rpc { SendRoute::Rpc(&rpcs) } else { SendRoute::Tpu(&targets) },
        in_no_block_max: sender::IN_NO_BLOCK_MAX,
        course: &course,
    };
    let leaders = (by == SendVia::Leaders).then_some(&targets);
    let next = ask.ask(Node::slot)? + 1;
    let mut follower = Follower::new(node, &course, &time, leaders, next, asked.patience);
    let (window, tallies) = send_and_read(&asked.timing(), &shared, &mut follower, tpus, stop, &mut on_progress);
    FIRST_NUMBER.fetch_max(first_number + numbers_used(&course.outcomes, &shared), Ordering::Relaxed);
    end(&mut follower, &course.outcomes, &time, stop, &mut on_progress);
    on_progress(Progress::Step("asking which transactions failed in their blocks"));
    let chain = follower.chain;
    let is_over = asked.end_of_patience(&course.silence);
    let receipts = collect::failed(node, chain.blocks.lines(), &addresses.into_iter().collect(), &is_over);
    Ok(summary::report(&ReportInputs {
        client: node.client.clone(),
        asked,
        way: match by {
            SendVia::Leaders => "QUIC to the leaders' TPUs".into(),
            SendVia::Tpu(address) => format!("QUIC to {address}"),
            SendVia::Rpc => format!("sendTransaction, {} in a request", asked.pace.batch),
        },
        accounts: accounts.len(),
        window,
        chain,
        outcomes: &course.outcomes,
        tallies,
        receipts,
    }))
}

/// The number of each account's first transaction. Two runs may begin with the same blockhash, so their numbers must
/// differ.
static FIRST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Upper bound on the numbers that an account has used.
fn numbers_used(outcomes: &Outcomes, shared: &Shared<'_>) -> u64 {
    outcomes.with(|counts| counts.sent) + outcomes.unsent() as u64 + shared.pace.presign + 1
}

/// Opens a socket for each sender that needs one, and finds where they send to.
fn open(by: SendVia, ask: &RetryingNode<'_>, targets: &Targets, senders: usize) -> Result<Vec<Tpu>, LoadError> {
    let found = match by {
        SendVia::Leaders => ask.ask(Node::tpus)?,
        SendVia::Tpu(address) => vec![address],
        SendVia::Rpc => return Ok(vec![]),
    };
    if found.is_empty() {
        return Err(LoadError::NoTpu);
    }
    let tpus = (0..senders).map(|_| Tpu::open(&found)).collect::<Result<Vec<_>, _>>()?;
    targets.set(found);
    Ok(tpus)
}

/// Sends and reads blocks, each on its own threads; see [`RunState::run`].
fn send_and_read(
    timing: &Timing,
    shared: &Shared<'_>,
    follower: &mut Follower<'_>,
    tpus: Vec<Tpu>,
    stop: &dyn Fn() -> bool,
    on_progress: &mut impl FnMut(Progress<'_>),
) -> (Window, Vec<SenderTally>) {
    let shares: Vec<Vec<usize>> =
        (0..shared.senders).map(|sender| (sender..shared.accounts.len()).step_by(shared.senders).collect()).collect();
    let mut tpus = tpus.into_iter();
    let senders = shares.into_iter().enumerate().map(|(index, share)| {
        let tpu = tpus.next();
        move || sender::send(shared, index, &share, tpu)
    });
    let presigned = shared.pace.presign * shared.accounts.len() as u64;
    let reader = |end: &AtomicBool| {
        follower.follow_until(end);
        std::mem::take(&mut follower.chain)
    };
    let (window, chain, tallies) = shared.course.run(timing, presigned, senders.collect(), reader, stop, on_progress);
    follower.chain = chain;
    (window, tallies)
}

/// Ends the remaining transactions. One whose blockhash has expired, and whose possible blocks were all read, was
/// dropped; any other is unknown.
fn end(
    follower: &mut Follower<'_>,
    outcomes: &Outcomes,
    time: &ChainTime,
    stop: &dyn Fn() -> bool,
    on_progress: &mut impl FnMut(Progress<'_>),
) {
    let last_valid = time.newest().last_valid;
    if follower.chain.lost.is_none() && outcomes.under_way() > 0 {
        on_progress(Progress::Step("waiting until what is left is in a block or has expired"));
        let deadline = Instant::now() + EXPIRY_MAX;
        let moved = std::cell::Cell::new((time.height(), Instant::now()));
        follower.follow(|_| {
            if moved.get().0 != time.height() {
                moved.set((time.height(), Instant::now()));
            }
            let stands = moved.get().1.elapsed() > STANDSTILL;
            outcomes.under_way() == 0 || time.is_over(last_valid) || stands || stop() || Instant::now() > deadline
        });
    }
    let outcome = if time.is_over(last_valid) { Outcome::Dropped } else { Outcome::Unknown };
    outcomes.left().iter().for_each(|id| outcomes.end(id, &outcome));
}
