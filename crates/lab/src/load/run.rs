//! A run: accounts, money, a token where one is needed, warm-up, measured time, the end of every transaction.
//!
//! reads   the node's RPC
//! writes  transactions, a [`Report`]
//! memory  see the parts
//! drops   nothing

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256};
use hearth_crypto::secp256k1::Signer;
use serde_json::json;

use super::account::address;
use super::collect::{self, Block, Chain};
use super::fund::{FundError, ask_developer_account, fund};
use super::outcome::{Outcome, Outcomes, histogram};
use super::process;
use super::report::{BlockLine, Percentiles, Report, cores, median_of_seconds};
use super::rpc::{Rpc, RpcError, to_quantity};
use super::sender::{self, Pace, Shared, Told};
use super::workload::{Kind, Terms, Workload, call, create, mint_input, sign, token_code};

/// Nothing more is included, it seems, when nothing has been for so long.
const STANDSTILL: Duration = Duration::from_secs(6);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a set-up transaction may take to its receipt.
const PATIENCE: Duration = Duration::from_secs(60);
/// Accounts that one transaction mints for.
const MINT_CHUNK: usize = 200;

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
    /// A process that was named is not there.
    #[error("there is no process {0}")]
    Process(u32),
}

/// What is asked for.
pub struct Asked {
    /// Nodes: the first is asked and read from, all are sent to, in turn.
    pub networks: Vec<String>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// What to send.
    pub kind: Kind,
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
}

/// A step of the run, for whoever watches.
pub enum Progress<'a> {
    /// A line of text.
    Step(&'a str),
    /// So many of so many are signed.
    Signed(u64, u64),
    /// A second: since measuring began (below 0 in the warm-up), included in it, under way.
    Second(f64, u64, usize),
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

/// Gives each account `amount`, out of `payer`'s or a development node's own account.
pub fn prepare(
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    amount: U256,
    told: impl FnMut(usize, usize),
) -> Result<usize, FundError> {
    let fee = U256::from(node.terms.max_fee) * U256::from(21_000);
    let needed = (amount + fee) * U256::from(accounts.len() + 1);
    let rich = address(payer);
    if node.rpc.balances(&[rich])?[0] < needed {
        ask_developer_account(&node.rpc, rich, needed)?;
    }
    fund(&node.rpc, &node.terms, payer, accounts, amount, told)
}

/// Runs the load. `stop` ends it early, with what there is.
pub fn run(
    asked: &Asked,
    node: &Node,
    payer: &Signer,
    accounts: &[Signer],
    stop: &dyn Fn() -> bool,
    mut told: impl FnMut(Progress<'_>),
) -> Result<Report, LoadError> {
    if let Some(&gone) = asked.pids.iter().find(|&&pid| process::cpu_time(pid).is_none()) {
        return Err(LoadError::Process(gone));
    }
    let token = match asked.kind {
        Kind::Transfer => Address::ZERO,
        Kind::Erc20 => {
            told(Progress::Step("creating the token and minting for every account"));
            make_token(node, payer, accounts)?
        }
    };
    let targets: Vec<_> = accounts.iter().map(address).collect();
    let nonces = node.rpc.nonces(&targets)?;
    let shares = share(accounts, &nonces, asked.senders);
    let first = node.rpc.number("eth_blockNumber", &json!([]))? + 1;
    let outcomes = Outcomes::default();
    let (stop_sending, stop_reading, measured) = Default::default();
    let (ready, signed) = (Barrier::new(shares.len() + 1), AtomicU64::new(0));
    let shared = Shared {
        pace: asked.pace,
        senders: shares.len(),
        workload: Workload { kind: asked.kind, token },
        terms: node.terms,
        targets: &targets,
        outcomes: &outcomes,
        stop: &stop_sending,
        measured: &measured,
        ready: &ready,
        signed: &signed,
    };
    let rpcs = asked.networks.iter().map(|url| Rpc::new(url, asked.timeout)).collect::<Result<Vec<_>, _>>()?;
    thread::scope(|scope| {
        let senders: Vec<_> = shares
            .iter()
            .enumerate()
            .map(|(index, share)| {
                let (rpc, shared) = (rpcs[index % rpcs.len()].clone(), &shared);
                scope.spawn(move || sender::send(rpc, shared, index, share))
            })
            .collect();
        wait_until_signed(&shared, asked, accounts.len(), stop, &mut told);
        let reader = scope.spawn(|| collect::follow(&node.rpc, first, &outcomes, &stop_reading));
        ready.wait();
        let window = Window::watch(asked, &shared, stop, &mut told, || {
            reader.is_finished() || senders.iter().all(|sender| sender.is_finished())
        });
        stop_sending.store(true, Ordering::Release);
        let tolds: Vec<_> = senders.into_iter().map(|sender| sender.join().expect("a sender does not panic")).collect();
        told(Progress::Step("waiting for what is under way"));
        settle(&outcomes, || reader.is_finished());
        stop_reading.store(true, Ordering::Release);
        let chain = reader.join().expect("the reader does not panic")?;
        end(&node.rpc, &outcomes)?;
        let failed = collect::failed(&node.rpc, &chain.blocks)?;
        Ok(report(asked, node, accounts.len(), &window, &chain, &outcomes, tolds, failed))
    })
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

fn wait_until_signed(
    shared: &Shared<'_>,
    asked: &Asked,
    accounts: usize,
    stop: &dyn Fn() -> bool,
    told: &mut impl FnMut(Progress<'_>),
) {
    let all = asked.pace.presign * accounts as u64;
    let mut next = Instant::now() + Duration::from_secs(1);
    while shared.signed.load(Ordering::Relaxed) < all {
        if stop() {
            shared.stop.store(true, Ordering::Relaxed);
            return;
        }
        if Instant::now() > next {
            told(Progress::Signed(shared.signed.load(Ordering::Relaxed), all));
            next += Duration::from_secs(1);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The measured time, and the CPU times at its ends.
struct Window {
    begin: Instant,
    end: Instant,
    server: Option<Duration>,
    client: Duration,
    resident: Option<u64>,
}

impl Window {
    fn watch(
        asked: &Asked,
        shared: &Shared<'_>,
        stop: &dyn Fn() -> bool,
        told: &mut impl FnMut(Progress<'_>),
        finished: impl Fn() -> bool,
    ) -> Self {
        let own = std::process::id();
        let cpu = || (process::cpu_time_of_all(&asked.pids), process::cpu_time(own).unwrap_or_default());
        let start = Instant::now();
        let (mut begin, mut before) = (start + asked.warmup, None);
        let (mut second, mut included) = (start + Duration::from_secs(1), 0);
        loop {
            let now = Instant::now();
            if before.is_none() && now >= begin {
                before = Some(cpu());
                begin = now;
                shared.measured.store(true, Ordering::Relaxed);
            }
            if now >= second {
                let sum = shared.outcomes.with(|counts| counts.included);
                let at = now.duration_since(start).as_secs_f64() - asked.warmup.as_secs_f64();
                told(Progress::Second(at, sum - included, shared.outcomes.under_way()));
                included = sum;
                second += Duration::from_secs(1);
            }
            if now >= begin + asked.duration || stop() || finished() {
                break;
            }
            thread::sleep(LOOK_EVERY.min((begin + asked.duration).saturating_duration_since(now)));
        }
        let end = Instant::now();
        let (server, client) = cpu();
        let (server_before, client_before) = before.unwrap_or((server, client));
        Self {
            begin: begin.min(end),
            end,
            server: server
                .zip(server_before)
                .map(|(now, then)| now.saturating_sub(then))
                .filter(|_| !asked.pids.is_empty()),
            client: client.saturating_sub(client_before),
            resident: (!asked.pids.is_empty())
                .then(|| asked.pids.iter().filter_map(|&pid| process::resident(pid)).sum()),
        }
    }
}

/// Waits until nothing is under way, or nothing moves.
fn settle(outcomes: &Outcomes, finished: impl Fn() -> bool) {
    let (mut left, mut moved) = (outcomes.under_way(), Instant::now());
    while left > 0 && moved.elapsed() < STANDSTILL && !finished() {
        outcomes.wait_below(left, LOOK_EVERY);
        let now = outcomes.under_way();
        if now < left {
            (left, moved) = (now, Instant::now());
        }
    }
}

/// Asks the node about each that is left.
fn end(rpc: &Rpc, outcomes: &Outcomes) -> Result<(), RpcError> {
    for hashes in outcomes.left().chunks(500) {
        let params: Vec<_> = hashes.iter().map(|hash| json!([hash])).collect();
        let answers = rpc.batch("eth_getTransactionByHash", &params)?;
        for (hash, answer) in hashes.iter().zip(answers) {
            outcomes.end(
                hash,
                &match answer {
                    Ok(transaction) if transaction.is_null() => Outcome::Dropped,
                    Ok(transaction) if !transaction["blockNumber"].is_null() => Outcome::Included,
                    _ => Outcome::Unknown,
                },
            );
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)] // Each is a part of the report.
fn report(
    asked: &Asked,
    node: &Node,
    accounts: usize,
    window: &Window,
    chain: &Chain,
    outcomes: &Outcomes,
    tolds: Vec<Told>,
    failed: Option<u64>,
) -> Report {
    let time = window.end.duration_since(window.begin);
    let seconds = time.as_secs_f64();
    let seen = |block: &Block| match block.seen.checked_duration_since(window.begin) {
        Some(after) => after.as_secs_f64(),
        None => -window.begin.duration_since(block.seen).as_secs_f64(),
    };
    let inside: Vec<_> = chain.blocks.iter().filter(|b| b.seen >= window.begin && b.seen <= window.end).collect();
    let (ours, gas) = inside.iter().fold((0, 0), |(ours, gas), block| (ours + block.ours, gas + block.gas_used));
    let per_second: Vec<_> = inside.iter().map(|block| (seen(block), block.ours)).collect();
    let mut lag = histogram();
    tolds.iter().for_each(|told| lag.add(&told.lag_us).expect("of one shape"));
    let sum = |of: fn(&Told) -> u64| tolds.iter().map(of).sum::<u64>();
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / ours.max(1) as f64;
    let client_cores = cores(window.client, time);
    outcomes.with(|counts| Report {
        client: node.client.clone(),
        kind: asked.kind.to_string(),
        accounts,
        rate: asked.pace.rate,
        seconds,
        tps: ours as f64 / seconds.max(1e-9),
        tps_median: median_of_seconds(&per_second, seconds),
        mgas_per_s: gas as f64 / 1e6 / seconds.max(1e-9),
        block_time_s: seconds / inside.len().max(1) as f64,
        sent: counts.sent,
        included: counts.included,
        rejected: counts.rejected_sum(),
        dropped: counts.dropped,
        unknown: counts.unknown,
        failed,
        reasons: counts.rejected.clone(),
        latency: Percentiles::of(&counts.latency_us),
        send_lag: Percentiles::of(&lag),
        server_cpu_us: window.server.map(each),
        server_cores: window.server.map(|cpu| cores(cpu, time)),
        server_resident: window.resident,
        client_cpu_us: each(window.client),
        client_cores,
        unanswered: sum(|told| told.unanswered),
        pool_full: sum(|told| told.full),
        renonced: sum(|told| told.renonced),
        number_ahead: chain.number_ahead,
        reorganised: chain.reorganised,
        // Its threads were busy nearly all the time: the node may have more to give.
        limited_by_load: client_cores > 0.9 * asked.senders as f64,
        blocks: chain
            .blocks
            .iter()
            .map(|block| BlockLine {
                number: block.number,
                seen_s: seen(block),
                transactions: block.transactions,
                ours: block.ours,
                gas_used: block.gas_used,
                fullness: block.gas_used as f64 / block.gas_limit.max(1) as f64,
                under_way: block.under_way,
            })
            .collect(),
    })
}

/// Creates the token, and mints for every account.
fn make_token(node: &Node, payer: &Signer, accounts: &[Signer]) -> Result<Address, LoadError> {
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
