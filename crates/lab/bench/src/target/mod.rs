//! `hearth bench --url`: the same load against any Solana node, which is found and observed by its RPC alone.
//!
//! reads   the node's RPC; the load's counters; `/proc` if the node's process is named
//! writes  a line per second, a summary, JSON
//! memory  a sample per second; the senders' keys; when signing ahead, 215 B per transfer
//!
//! The stages: find the TPU → fund the senders → boot the load → (sign ahead) → warm-up → measured seconds, with probes
//! → wait for transactions in flight → count by the fees paid → report. Transactions that the node dropped cannot be
//! observed and are reported as unresolved.

mod fund;
mod probe;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use hearth_command::node_rpc::{self, Rpc, RpcError};
use hearth_command::output::CommandOutput;
use hearth_command::shell;
use hearth_command::stop::StopSignal;
use hearth_crypto::ed25519::SigningKey;
use hearth_keys as keys;
use hearth_machine::process::CoresHad;
use hearth_node::boot::{self, BootError};
use hearth_node::config::{Config, workspace_path};
use hearth_pipeline::benchg::{self, Control};
use hearth_pipeline::node::{Node, NodeConfig, TileConfigs};
use hearth_pipeline::{bencho, benchs, topology};
use hearth_quic::ClientConfig;
use hearth_ring::HugePages;
use hearth_tile::Clock;
use hearth_wire::base58::encode_32;

use super::bottleneck::{LoadSummary, limit_of_load};
use super::drive::Driver;
use super::observe::{BenchObservations, Snapshot};
use super::report::{LoadSettings, Rate, Report, Target, WaitEnd};
use super::summary::is_kept;
use super::{BenchError, NullObserver, Options, load_settings, machine, presign_count, progress};
use fund::{Payer, Purse, text};
use probe::{Plan, Prober};

/// Nothing more will land if nothing has for this long.
const STANDSTILL: Duration = Duration::from_secs(5);
/// Transactions without progress for this long are given up although their blockhash is valid.
const GIVEN_UP: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// At this many transactions per second a node's count grows every second, whatever its slot time.
const GROWTH_RATE: f64 = 10.0;

impl From<RpcError> for BenchError {
    fn from(why: RpcError) -> Self {
        match why {
            RpcError::Url { .. } | RpcError::Host(_) => Self::Option(format!("--url: {why}")),
            why => Self::Target(why.to_string()),
        }
    }
}

/// Drives the node at `url` and returns the report.
pub fn run(
    config: &Config,
    options: &Options,
    url: &str,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<Report, BenchError> {
    let rpc = node_rpc::at(url)?;
    let (mut target, tpu) = find(&rpc, url, options.target.tpu)?;
    say.line(format_args!("  target     {url} ({}), TPU {}", target.version, target.tpu));
    let total = config.development.genesis.fund_initial_accounts;
    let (senders, receivers) = (options.accounts_from.unwrap_or(total), options.accounts_to.unwrap_or(total));
    // Two more than the load uses, for the probes.
    let mut accounts = fund::accounts(senders.max(receivers) + 2);
    let mut addresses: Vec<_> = accounts.iter().map(|account| account.address).collect();
    fund::fund(&rpc, key_of(options.target.funder.as_deref())?, &addresses, stop)?;
    let receiver = accounts.pop().expect("made above").address;
    let payer = Payer { key: accounts.pop().expect("made above").key };
    addresses.truncate(accounts.len());
    let purse = Purse::of(&rpc, addresses)?;
    let (begun, count) = (Instant::now(), transaction_count(&rpc)?);

    let control = Arc::new(Control::default());
    let (sender, samples) = channel();
    let cores = boot::cores(&config.layout)?.allowed.len();
    let presign = presign_count(options, cores);
    let benchg = benchg::Config {
        accounts: Arc::new(accounts),
        senders,
        receivers,
        conflict: options.conflict,
        rate: options.rate.filter(|rate| *rate > 0.0),
        presign,
        control: control.clone(),
    };
    let identity = options.target.identity.as_deref().map(keys::read).transpose().map_err(BootError::from)?;
    let benchs = benchs::Config {
        target: tpu,
        connections: config.development.bench.connections,
        client: ClientConfig::local(),
        identity: identity.map(|identity| *identity.keypair.seed()),
    };
    let node = boot_load(config, benchg, benchs, bencho::Config { rpc: rpc.address()?, samples: sender })?;
    let mut seen = BenchObservations::default();
    (seen.pid, seen.is_outside) = (options.target.pid, true);
    seen.expects_growth = options.rate.is_none_or(|rate| rate >= GROWTH_RATE);
    let measuring = seen.measuring.clone();
    let (probes, questions) = (options.target.probes, options.target.questions);
    let prober = Prober::start(&rpc, Plan { probes, questions, payer, receiver, measuring: measuring.clone() })?;
    let without_load = options.rate == Some(0.0);
    let instead = without_load.then(|| prober.each_second());
    let cores = machine::cores().map_err(BootError::Cores)?;
    let mut driver = Driver {
        node: &node,
        samples,
        control,
        stop,
        say,
        cores,
        instead,
        witness: &mut NullObserver,
        seen,
        before_run: count,
    };
    let driven = driver.drive(options, presign);
    measuring.store(false, Ordering::Relaxed);
    target.latency = prober.end();
    let landed = driven.and_then(|()| drain(&rpc, &purse, &mut driver));
    let mut seen = driver.seen;
    seen.last = Snapshot::take(&node);
    node.stop()?;
    let (landed, waited) = landed?;
    target.waited = waited;
    (target.cores_used, target.rss_bytes_max) = seen.node_use();
    // Votes and the transactions of others: everything in the node's count that the senders did not pay for.
    let (probes, others) = (target.latency.confirmed(), transaction_count(&rpc)?.saturating_sub(count + landed));
    let others = others.saturating_sub(probes) as f64 / begun.elapsed().as_secs_f64();
    target.others_per_s = others + probes as f64 / seen.measured_s().max(1.0);
    let asked = (load_settings(&config.development.genesis, options), options);
    Ok(seen.report_of_target(target, landed, asked, cores))
}

/// Asks the node for its identity and the address where it receives transactions.
fn find(rpc: &Rpc, url: &str, given: Option<SocketAddr>) -> Result<(Target, SocketAddr), BenchError> {
    let none = serde_json::json!([]);
    let version = match rpc.call("getVersion", &none) {
        Err(why @ RpcError::Refused { .. }) => {
            let is_ethereum = rpc.call("eth_chainId", &none).is_ok_and(|id| id.is_string());
            let instead = format!(
                "the node speaks Ethereum's RPC, and this load is for Solana's: `hearth load run --url {}` \
                 drives it",
                shell::word(url)
            );
            return Err(if is_ethereum { BenchError::Target(instead) } else { why.into() });
        }
        version => version?,
    };
    let answer = rpc.call("getIdentity", &none)?;
    let identity = text(&answer, "identity")?.to_owned();
    let tpu = match given {
        Some(tpu) => tpu,
        None => {
            let nodes = rpc.call("getClusterNodes", &none)?;
            let own = nodes.as_array().into_iter().flatten().find(|node| node["pubkey"] == identity.as_str());
            let tpu: Option<SocketAddr> = own.and_then(|node| node["tpuQuic"].as_str()?.parse().ok());
            let mut tpu = tpu.ok_or_else(|| {
                BenchError::Target("the node names no QUIC address for transactions; give it with --tpu".into())
            })?;
            // A TPU that listens on all addresses is reached at the address of the RPC.
            if tpu.ip().is_unspecified() {
                tpu.set_ip(rpc.address()?.ip());
            }
            tpu
        }
    };
    let version = format!("solana-core {}", version["solana-core"].as_str().unwrap_or("unknown"));
    Ok((Target { url: url.into(), identity, version, tpu: tpu.to_string(), ..Target::default() }, tpu))
}

/// Boots the load's tiles without a node.
fn boot_load(
    config: &Config,
    benchg: benchg::Config,
    benchs: benchs::Config,
    bencho: bencho::Config,
) -> Result<Node, BenchError> {
    let affinity = &config.development.bench.affinity;
    let cores = boot::cores(&config.layout)?;
    let counts = config.tile_counts().auto(cores.allowed.len(), true);
    let topology = topology::build_load(&config.name, counts, affinity, &cores).map_err(BootError::Layout)?;
    let config = NodeConfig {
        workspace: workspace_path(config),
        huge_pages: HugePages::None,
        idle: boot::idle(&config.layout),
        tiles: boot::load_configs(TileConfigs::default(), &topology, benchg, benchs, bencho),
        seed: None,
        apart: None,
    };
    Ok(Node::boot(topology, Clock::real(), config).map_err(BootError::from)?)
}

fn key_of(path: Option<&Path>) -> Result<Option<SigningKey>, BenchError> {
    let identity = path.map(keys::read).transpose().map_err(BootError::from)?;
    Ok(identity.map(|identity| SigningKey::from_seed(identity.keypair.seed())))
}

fn transaction_count(rpc: &Rpc) -> Result<u64, BenchError> {
    let count = rpc.call("getTransactionCount", &serde_json::json!([{ "commitment": "processed" }]))?;
    count.as_u64().ok_or_else(|| BenchError::Target(format!("getTransactionCount answers {count}")))
}

/// Waits until everything that was sent has landed, or nothing more can, or nothing more does. Returns what has landed,
/// and which of these it was.
fn drain(rpc: &Rpc, purse: &Purse, driver: &mut Driver<'_>) -> Result<(u64, WaitEnd), BenchError> {
    progress("waiting for transactions in flight");
    let presses = driver.stop.presses();
    // At least as new as any that the load has used.
    let last = encode_32(&fund::blockhash(rpc)?).to_string();
    let (mut landed, mut since) = (purse.landed(rpc)?, Instant::now());
    let waited = loop {
        if driver.stop.presses() != presses {
            break WaitEnd::Interrupted;
        }
        let now = Snapshot::take(driver.node);
        // Tiles publish their counters from time to time: if more has landed than they count as sent, they lag behind.
        if now.is_sent() && landed == now.sent() {
            break WaitEnd::AllLanded;
        }
        if since.elapsed() > STANDSTILL && !is_valid(rpc, &last)? {
            break WaitEnd::Expired;
        }
        if since.elapsed() > GIVEN_UP {
            break WaitEnd::StoodStill;
        }
        std::thread::sleep(LOOK_EVERY);
        let found = purse.landed(rpc)?;
        if found != std::mem::replace(&mut landed, found) {
            since = Instant::now();
        }
    };
    driver.seen.drain_interrupted = waited == WaitEnd::Interrupted;
    Ok((landed, waited))
}

/// Returns whether a transaction with this blockhash may still land.
fn is_valid(rpc: &Rpc, blockhash: &str) -> Result<bool, BenchError> {
    let answer = rpc.call("isBlockhashValid", &serde_json::json!([blockhash, { "commitment": "processed" }]))?;
    Ok(answer["value"].as_bool().unwrap_or(true))
}

impl BenchObservations {
    /// Computes the report of a target from the observations.
    fn report_of_target(
        &mut self,
        target: Target,
        landed: u64,
        (asked, options): (LoadSettings, &Options),
        cores: f64,
    ) -> Report {
        let elapsed = self.measured_s();
        let others = target.others_per_s;
        self.seconds.iter_mut().for_each(|rate| *rate = (*rate - others).max(0.0));
        let measured = self.measured_transactions().saturating_sub((others * elapsed) as u64);
        let sent = self.last.sent();
        let CoresHad { had, waited_for } = self.cores();
        let sent_per_s = self.sent_per_s();
        let lag_s_max = self.lag_s_max();
        // If nothing is sent, nothing needs to be acknowledged.
        let stall_s = if options.rate == Some(0.0) { 0.0 } else { self.longest_stall_s() };
        let driven = LoadSummary {
            rate: options.rate,
            is_kept: options.rate.is_none_or(|rate| is_kept(rate, sent_per_s, lag_s_max)),
            sent_per_s,
            lag_s_max,
            cores,
            had: self.cores(),
            stall_s,
            measured_s: elapsed,
        };
        let bottleneck = limit_of_load(self.diagnosis().as_ref(), driven);
        Report {
            txn_per_s: Rate::of(&self.seconds, measured, elapsed),
            measured: self.is_measured(),
            duration_s: elapsed,
            warmup_s: options.warmup as f64,
            asked,
            sent_per_s,
            lag_s_max: options.rate.map(|_| lag_s_max),
            sent,
            landed,
            unresolved: sent as i64 - landed as i64,
            cpu_us_per_txn: self.cpu_us_per_landed(measured),
            rss_bytes_max: self.rss_max,
            rss_growth_bytes: self.rss_growth(),
            longest_stall_s: (options.rate != Some(0.0)).then_some(stall_s),
            bottleneck,
            cores,
            cores_used: had,
            cores_waited_for: waited_for,
            switched_off: options
                .presign
                .then(|| "transfers were signed before measuring".into())
                .into_iter()
                .collect(),
            seconds: self.seconds.clone(),
            tiles: self.tile_use(),
            interrupted: self.interrupted,
            drain_interrupted: self.drain_interrupted,
            presigned: options.presign,
            presigned_ran_dry: self.presigned_ran_dry,
            target: Some(Target { landed_share: landed as f64 / sent.max(1) as f64, ..target }),
            ..Report::default()
        }
    }
}
