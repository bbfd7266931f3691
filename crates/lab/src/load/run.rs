//! A run: accounts, money, a token where one is needed, warm-up, measured time, the end of every transaction.
//!
//! reads   the node's RPC
//! writes  transactions, a [`Report`]
//! memory  see the parts
//! drops   nothing

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use alloy_primitives::U256;
use hearth_crypto::secp256k1::Signer;
use serde_json::{Value, json};

use super::account::address;
use super::collect;
pub use super::course::Progress;
use super::course::{Beside, Course, Timing};
use super::figures::{self, Found};
use super::fund::{self, FundError, ask_developer_account};
use super::outcome::{Outcome, Outcomes};
use super::patient::{NoAnswer, Patient};
use super::process;
use super::profile::Plan;
use super::report::Report;
use super::rpc::{Rpc, RpcError, to_quantity};
use super::sender::{self, Fees, Pace, Shared};
use super::series::Pool;
pub use super::setup::set_up;
use super::workload::{Contracts, Mix, Terms, Workload};

/// How long receipts and the ends of what is left are asked for, each.
const ASKING_MAX: Duration = Duration::from_secs(30);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The node.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The money.
    #[error(transparent)]
    Fund(#[from] FundError),
    /// A transaction of the set-up.
    #[error("{what}: {why}")]
    SetUp {
        /// Which.
        what: &'static str,
        /// What happened.
        why: String,
    },
    /// Stopped before anything was measured.
    #[error("stopped before the load began")]
    Stopped,
    /// A further node is of another chain.
    #[error("{url} is of another chain than {first}: its {what} is {theirs}, not {ours}")]
    OtherChain {
        /// Its address.
        url: String,
        /// The first node's.
        first: String,
        /// What differs.
        what: &'static str,
        /// The first node's.
        ours: String,
        /// Its own.
        theirs: String,
    },
    /// A process that was named is not there.
    #[error("there is no process {0}")]
    Process(u32),
}

/// What is asked for.
#[derive(Clone)]
pub struct Asked {
    /// Nodes: the first is asked and read from, all are sent to, in turn.
    pub networks: Vec<String>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// What to send.
    pub mix: Mix,
    /// The threads that send.
    pub senders: usize,
    /// How.
    pub pace: Pace,
    /// Before it counts.
    pub warmup: Duration,
    /// How long it counts.
    pub duration: Duration,
    /// The node's processes on this machine.
    pub pids: Vec<u32>,
    /// CometBFT's RPC, where it has the pool.
    pub comet: Option<String>,
    /// The node's profiler, where it is to be switched on in the measured time.
    pub profile: Option<Plan>,
}

impl From<NoAnswer> for LoadError {
    fn from(why: NoAnswer) -> Self {
        match why {
            NoAnswer::Stopped => Self::Stopped,
            NoAnswer::Rpc(why) => why.into(),
        }
    }
}

impl Asked {
    /// The pace for so many accounts: no more is signed ahead than can be sent.
    fn pace_of(&self, accounts: usize) -> Pace {
        let time = (self.warmup() + self.duration).as_secs_f64();
        let usable = self.pace.rate.map_or(u64::MAX, |rate| (rate * time / accounts.max(1) as f64).ceil() as u64 + 1);
        Pace { presign: self.pace.presign.min(usable).min(self.pace.count.unwrap_or(u64::MAX)), ..self.pace }
    }

    fn timing(&self) -> Result<Timing, RpcError> {
        let pool = Pool::of(&self.networks[0], self.comet.as_deref())?;
        let beside = Beside { pool, profile: self.profile.clone() };
        Ok(Timing { warmup: self.warmup(), duration: self.duration, pids: self.pids.clone(), beside })
    }

    /// What was asked for, as a report tells it.
    pub fn configuration(&self) -> Vec<(String, String)> {
        let Pace { rate, batch, under_way, count, presign } = self.pace;
        let told = |number: Option<String>, none: &str| number.unwrap_or(none.into());
        let mut all = vec![
            ("nodes", self.networks.join(", ")),
            ("transactions", self.mix.to_string()),
            ("a second", told(rate.map(|rate| rate.to_string()), "as many as the node takes")),
            ("of each account", told(count.map(|count| count.to_string()), "no bound")),
            ("signed ahead, of each account", presign.to_string()),
            ("threads that send", self.senders.to_string()),
            ("in a request", batch.to_string()),
            ("under way at most", under_way.to_string()),
            ("warm-up", format!("{} s", self.warmup().as_secs_f64())),
            ("measured", format!("{} s", self.duration.as_secs_f64())),
            ("an answer may take", format!("{} s", self.timeout.as_secs_f64())),
        ];
        if let Some(comet) = &self.comet {
            all.push(("CometBFT", comet.clone()));
        }
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The time that does not count; none where a number is to be sent, all of which counts.
    pub fn warmup(&self) -> Duration {
        if self.pace.count.is_some() { Duration::ZERO } else { self.warmup }
    }
}

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

/// That further nodes are of the first one's chain, by its id and the hash of its first block, as far as they tell: one
/// that does not answer may do so later. Gives those that do not.
pub fn check_chains(node: &Node, others: &[String], timeout: Duration) -> Result<Vec<RpcError>, LoadError> {
    let block_hash = |rpc: &Rpc| match rpc.call("eth_getBlockByNumber", &json!(["0x0", false])) {
        Ok(block) => Ok(block["hash"].as_str().map(str::to_owned)),
        Err(RpcError::Refused { .. }) => Ok(None),
        Err(why) => Err(why),
    };
    let mut silent = vec![];
    for url in others {
        let rpc = Rpc::new(url, timeout)?;
        let theirs = rpc.number("eth_chainId", &json!([])).and_then(|id| Ok((id, block_hash(&rpc)?)));
        let (id, hash) = match theirs {
            Ok(theirs) => theirs,
            Err(why) => {
                silent.push(why);
                continue;
            }
        };
        let other = |what, ours: String, theirs: String| {
            Err(LoadError::OtherChain { url: url.clone(), first: node.rpc.url().into(), what, ours, theirs })
        };
        if id != node.terms.chain_id {
            return other("chain id", node.terms.chain_id.to_string(), id.to_string());
        }
        if let (Some(ours), Some(theirs)) = (block_hash(&node.rpc)?, hash)
            && ours != theirs
        {
            return other("first block", ours, theirs);
        }
    }
    Ok(silent)
}

/// Gives each account `amount`, out of those that have more, `payer`'s, or a development node's own account.
pub fn prepare(
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    amount: U256,
    stop: &dyn Fn() -> bool,
    told: impl FnMut(usize, usize),
) -> Result<usize, FundError> {
    let ask = Patient { rpc: &node.rpc, stop };
    let stopped = |why| match why {
        NoAnswer::Stopped => FundError::Stopped { done: 0, count: accounts.len() },
        NoAnswer::Rpc(why) => why.into(),
    };
    let needed = fund::needed(&ask, &node.terms, accounts, amount).map_err(stopped)?;
    let rich = address(payer);
    if ask.balances(&[rich]).map_err(stopped)?[0] < needed {
        ask_developer_account(&ask, rich, needed)?;
    }
    fund::fund(&node.rpc, &node.terms, payer, accounts, amount, stop, told)
}

/// Creates what the load calls, and runs it. `stop` ends it early, with what there is.
pub fn run(
    asked: &Asked,
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    stop: &dyn Fn() -> bool,
    mut told: impl FnMut(Progress<'_>),
) -> Result<Report, LoadError> {
    let contracts = set_up(node, payer, accounts, &asked.mix, stop, &mut told)?;
    drive(asked, node, contracts, accounts, stop, told)
}

/// Runs the load on contracts that are there.
pub fn drive(
    asked: &Asked,
    node: &Node,
    contracts: Contracts,
    accounts: &[Signer],
    stop: &dyn Fn() -> bool,
    mut told: impl FnMut(Progress<'_>),
) -> Result<Report, LoadError> {
    if let Some(&gone) = asked.pids.iter().find(|&&pid| process::cpu_time(pid).is_none()) {
        return Err(LoadError::Process(gone));
    }
    let targets: Vec<_> = accounts.iter().map(address).collect();
    let ask = Patient { rpc: &node.rpc, stop };
    let nonces = ask.nonces(&targets)?;
    let shares = share(accounts, &nonces, asked.senders);
    let newest = ask.ask(|rpc| rpc.number("eth_blockNumber", &json!([])))?;
    let course = Course::new(shares.len());
    course.outcomes.expect_blocks_every(collect::block_time(&node.rpc, newest));
    let shared = Shared {
        pace: asked.pace_of(accounts.len()),
        senders: shares.len(),
        workload: Workload { mix: asked.mix.clone(), contracts },
        fees: Fees::new(node.terms),
        targets: &targets,
        course: &course,
    };
    let rpcs = asked.networks.iter().map(|url| Rpc::new(url, asked.timeout)).collect::<Result<Vec<_>, _>>()?;
    let senders = shares.iter().enumerate().map(|(index, share)| {
        let (rpcs, shared) = (rpcs.clone(), &shared);
        move || sender::send(rpcs, shared, index, share)
    });
    let presigned = shared.pace.presign * shared.targets.len() as u64;
    let reader = |end: &AtomicBool| collect::follow(&node.rpc, newest + 1, &course.outcomes, end);
    let (window, chain, tolds) = course.run(&asked.timing()?, presigned, senders.collect(), reader, stop, &mut told);
    told(Progress::Step("asking what became of what is left, and for receipts"));
    end(&node.rpc, &course.outcomes, ASKING_MAX);
    let receipts = collect::failed(&node.rpc, &chain.blocks, &targets.iter().copied().collect(), ASKING_MAX);
    Ok(figures::report(&Found {
        client: node.client.clone(),
        kind: asked.mix.to_string(),
        accounts: accounts.len(),
        rate: asked.pace.rate,
        senders: asked.senders,
        max_fee: node.terms.max_fee,
        window,
        chain,
        outcomes: &course.outcomes,
        tolds,
        receipts,
        configuration: asked.configuration(),
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

/// Asks the node about each that is left. Of what it does not answer for until `patience` is over, nothing is known.
fn end(rpc: &Rpc, outcomes: &Outcomes, patience: Duration) {
    let deadline = Instant::now() + patience;
    let ask = Patient { rpc, stop: &|| Instant::now() > deadline };
    for hashes in outcomes.left().chunks(100) {
        let params: Vec<_> = hashes.iter().map(|hash| json!([hash])).collect();
        let in_time = Instant::now() < deadline;
        let asked = || ask.ask(|rpc| rpc.batch::<Value>("eth_getTransactionByHash", &params)).ok();
        let answers = in_time.then(asked).flatten();
        let mut answers = answers.unwrap_or_default().into_iter();
        for hash in hashes {
            let outcome = match answers.next() {
                Some(Ok(Value::Null)) => Outcome::Dropped,
                Some(Ok(transaction)) if !transaction["blockNumber"].is_null() => Outcome::Included,
                _ => Outcome::Unknown,
            };
            outcomes.end(hash, &outcome);
        }
    }
}
