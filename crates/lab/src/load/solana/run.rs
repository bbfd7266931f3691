//! A run: a token where one is needed, warm-up, measured time, the end of every transaction.
//!
//! reads   the node's RPC
//! writes  transactions, a [`Report`]
//! memory  see the parts
//! drops   nothing

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hearth_wire::Pubkey;

use super::collect::{self, Follower, Targets};
use super::keys::Account;
use super::node::{ChainTime, Node};
use super::sender::{self, Shared, Way};
use super::setup::{self, SetUpError};
use super::tpu::{Tpu, TpuError};
use super::workload::{Kind, Mix, Workload};
use crate::load::course::{Course, Pace, Progress, Timing, Told};
use crate::load::figures::{self, Found};
use crate::load::outcome::{Outcome, Outcomes};
use crate::load::process;
use crate::load::report::Report;
use crate::load::rpc::{Rpc, RpcError};

/// How long receipts are asked for.
const ASKING_MAX: Duration = Duration::from_secs(30);
/// How long what is left is waited for to expire: a blockhash lives for 150 blocks, a minute.
const EXPIRY_MAX: Duration = Duration::from_secs(90);
/// A chain whose blocks stand still for so long expires nothing.
const STANDSTILL: Duration = Duration::from_secs(10);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The node.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The token.
    #[error(transparent)]
    SetUp(#[from] SetUpError),
    /// The way to the TPU.
    #[error(transparent)]
    Tpu(#[from] TpuError),
    /// The node tells no address for transactions.
    #[error("the node names no QUIC address for transactions: give it with --tpu, or send with --rpc-send")]
    NoTpu,
    /// One account has nobody to pay.
    #[error("a load needs two accounts or more: each pays the others")]
    TooFew,
    /// A process that was named is not there.
    #[error("there is no process {0}")]
    Process(u32),
}

/// What is asked for.
#[derive(Clone)]
pub struct Asked {
    /// Nodes: the first is asked and read from; with `rpc_send` all are sent to, in turn.
    pub networks: Vec<String>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// What to send.
    pub mix: Mix,
    /// The threads that send.
    pub senders: usize,
    /// How.
    pub pace: Pace,
    /// When it counts.
    pub timing: Timing,
    /// Whether transactions go through `sendTransaction`.
    pub rpc_send: bool,
    /// Where they go otherwise; none is where the node says.
    pub tpu: Option<SocketAddr>,
}

impl Asked {
    /// The pace for so many accounts: no more is signed ahead than can be sent.
    fn pace_of(&self, accounts: usize) -> Pace {
        let time = (self.timing().warmup + self.timing.duration).as_secs_f64();
        let usable = self.pace.rate.map_or(u64::MAX, |rate| (rate * time / accounts.max(1) as f64).ceil() as u64 + 1);
        Pace { presign: self.pace.presign.min(usable).min(self.pace.count.unwrap_or(u64::MAX)), ..self.pace }
    }

    /// What was asked for, as a report tells it.
    fn configuration(&self) -> Vec<(String, String)> {
        let (Pace { rate, batch, under_way, count, presign }, timing) = (self.pace, self.timing());
        let told = |number: Option<String>, none: &str| number.unwrap_or(none.into());
        let way = match (self.rpc_send, self.tpu) {
            (true, _) => format!("sendTransaction, {batch} in a request"),
            (false, Some(tpu)) => format!("QUIC to {tpu}"),
            (false, None) => "QUIC to the leaders' TPUs".into(),
        };
        let all = [
            ("nodes", self.networks.join(", ")),
            ("way", way),
            ("transactions", self.mix.to_string()),
            ("a second", told(rate.map(|rate| rate.to_string()), "as many as the node takes")),
            ("of each account", told(count.map(|count| count.to_string()), "no bound")),
            ("signed ahead, of each account", presign.to_string()),
            ("threads that send", self.senders.to_string()),
            ("under way at most", under_way.to_string()),
            ("warm-up", format!("{} s", timing.warmup.as_secs_f64())),
            ("measured", format!("{} s", timing.duration.as_secs_f64())),
            ("an answer may take", format!("{} s", self.timeout.as_secs_f64())),
        ];
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Where a number is sent, all of it counts.
    fn timing(&self) -> Timing {
        let warmup = if self.pace.count.is_some() { Duration::ZERO } else { self.timing.warmup };
        Timing { warmup, ..self.timing.clone() }
    }
}

/// Creates the token that is sent, if one is; gives where each account has it.
pub fn set_up(
    node: &Node,
    accounts: &[Account],
    mix: &Mix,
    stop: &dyn Fn() -> bool,
    told: &mut impl FnMut(Progress<'_>),
) -> Result<Vec<Pubkey>, LoadError> {
    if !mix.has(Kind::Token) {
        return Ok(vec![]);
    }
    Ok(setup::make_token(node, accounts, stop, told)?)
}

/// Runs the load on a token that is there. `stop` ends it early, with what there is.
pub fn drive(
    asked: &Asked,
    node: &Node,
    tokens: &[Pubkey],
    accounts: &[Account],
    stop: &dyn Fn() -> bool,
    mut told: impl FnMut(Progress<'_>),
) -> Result<Report, LoadError> {
    if accounts.len() < 2 {
        return Err(LoadError::TooFew);
    }
    if let Some(&gone) = asked.timing.pids.iter().find(|&&pid| process::cpu_time(pid).is_none()) {
        return Err(LoadError::Process(gone));
    }
    let targets = Targets::default();
    let rpcs = asked.networks.iter().map(|url| Rpc::new(url, asked.timeout)).collect::<Result<Vec<_>, _>>()?;
    let senders = asked.senders.clamp(1, accounts.len());
    let tpus = if asked.rpc_send { vec![] } else { open(asked, node, &targets, senders)? };
    let addresses: Vec<Pubkey> = accounts.iter().map(|account| account.address).collect();
    let (course, time) = (Course::new(senders), ChainTime::new(node.blockhash()?));
    let first_number = FIRST_NUMBER.load(Ordering::Relaxed);
    let shared = Shared {
        pace: asked.pace_of(accounts.len()),
        senders,
        accounts,
        workload: Workload { mix: asked.mix.clone(), accounts: addresses.clone(), tokens: tokens.to_vec() },
        first_number,
        time: &time,
        way: if asked.rpc_send { Way::Rpc(&rpcs) } else { Way::Tpu(&targets) },
        course: &course,
    };
    let leaders = (!asked.rpc_send && asked.tpu.is_none()).then_some(&targets);
    let mut follower = Follower::new(node, &course.outcomes, &time, leaders, node.slot()? + 1);
    let (window, tolds) = send_and_read(asked, &shared, &mut follower, tpus, stop, &mut told);
    FIRST_NUMBER.fetch_max(first_number + numbers_used(&course.outcomes, &shared), Ordering::Relaxed);
    end(&mut follower, &course.outcomes, &time, stop, &mut told);
    told(Progress::Step("asking which transactions failed in their blocks"));
    let chain = follower.chain;
    let receipts = collect::failed(node, &chain.blocks, &addresses.into_iter().collect(), ASKING_MAX);
    Ok(figures::report(&Found {
        client: node.client.clone(),
        kind: asked.mix.to_string(),
        accounts: accounts.len(),
        rate: asked.pace.rate,
        senders: asked.senders,
        max_fee: 0,
        window,
        chain,
        outcomes: &course.outcomes,
        tolds,
        receipts,
        configuration: asked.configuration(),
    }))
}

/// The number of each account's first transaction. Two runs may begin with one blockhash: what they send must differ.
static FIRST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// No account has used more numbers than that.
fn numbers_used(outcomes: &Outcomes, shared: &Shared<'_>) -> u64 {
    outcomes.with(|counts| counts.sent) + outcomes.unsent() as u64 + shared.pace.presign + 1
}

/// A socket for each sender, and where they send to.
fn open(asked: &Asked, node: &Node, targets: &Targets, senders: usize) -> Result<Vec<Tpu>, LoadError> {
    let found = asked.tpu.map_or_else(|| node.tpus(), |tpu| Ok(vec![tpu]))?;
    if found.is_empty() {
        return Err(LoadError::NoTpu);
    }
    let tpus = (0..senders).map(|_| Tpu::open(&found)).collect::<Result<Vec<_>, _>>()?;
    targets.set(found);
    Ok(tpus)
}

/// Sends and reads, each on threads of its own; see [`Course::run`].
fn send_and_read(
    asked: &Asked,
    shared: &Shared<'_>,
    follower: &mut Follower<'_>,
    tpus: Vec<Tpu>,
    stop: &dyn Fn() -> bool,
    told: &mut impl FnMut(Progress<'_>),
) -> (crate::load::window::Window, Vec<Told>) {
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
    let (window, chain, tolds) = shared.course.run(&asked.timing(), presigned, senders.collect(), reader, stop, told);
    follower.chain = chain;
    (window, tolds)
}

/// What is left: where its blockhash has expired and every block that may have it has been read, the node has dropped
/// it. Of anything else nothing is known.
fn end(
    follower: &mut Follower<'_>,
    outcomes: &Outcomes,
    time: &ChainTime,
    stop: &dyn Fn() -> bool,
    told: &mut impl FnMut(Progress<'_>),
) {
    let last_valid = time.newest().last_valid;
    if follower.chain.lost.is_none() && outcomes.under_way() > 0 {
        told(Progress::Step("waiting until what is left is in a block or has expired"));
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
