//! `hearth bench`: how many transactions per second this machine handles, and what limits it.
//!
//! reads   the node's counters, and samples that bencho takes through the node's RPC
//! writes  a line per second, a summary, JSON
//! memory  a sample per second
//!
//! The stages: yardstick → genesis → node and load → (sign ahead) → warm-up → measured seconds → drain → balance →
//! yardstick → report.

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

mod bottleneck;
mod disturbance;
mod drain;
mod drive;
mod machine;
mod observe;
mod observer;
mod options;
pub mod profile;
mod relaxed;
mod report;
mod summary;
mod target;
mod yardstick;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

use hearth_command::exit_code::{ExitCode, FAILED, INTERRUPTED, WRONG_USE};
use hearth_command::numbers::grouped;
use hearth_command::output::{self, CommandOutput, WriteError, note};
use hearth_command::stop::StopSignal;
use hearth_ledger::genesis::funded_account_key;
use hearth_machine::port::reachable;
use hearth_machine::process::CoresHad;
use hearth_node::boot::{self, BootError, Instruments, Load, NodeParts};
use hearth_node::config::{Config, Genesis, Rpc, workspace_path};
use hearth_node::developer::GenesisOverrides;
use hearth_node::memory;
use hearth_node::ports::BoundPorts;
use hearth_node::replay::ReplayControl;
use hearth_node::start_checks;
use hearth_pipeline::benchg::{self, Account, Control};
use hearth_pipeline::kinds::KINDS;
use hearth_tile::topology::Topology;

use drive::Driver;
use observe::{BenchObservations, Snapshot};
pub use observer::{NullObserver, Witness};
pub use options::Options;
use options::{DURATION, WARMUP};
pub use report::Report;
use report::{LoadSettings, Rate};

/// Default name of a bench, by which the other commands find it.
pub const NAME: &str = "hearth-bench";

/// Why a bench fails.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An option is invalid.
    #[error("{0}")]
    Option(String),
    /// The node cannot be started.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// A tile panicked, so the node stopped.
    #[error(transparent)]
    Died(#[from] hearth_tile::core::TilePanic),
    /// Ctrl-C came before anything was measured.
    #[error("interrupted before anything was measured; {}", landed_text(*landed))]
    Interrupted {
        /// Transactions that landed in the warm-up.
        landed: u64,
    },
    /// Another bench uses the folder.
    #[error("another `hearth bench` uses {}; wait for it, or give this one a `name` of its own by --config", .0.display())]
    InUse(PathBuf),
    /// The load got no transaction through.
    #[error("{0}")]
    Stuck(String),
    /// The result cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The target node cannot be used.
    #[error("{0}")]
    Target(String),
    /// The counts do not add up: a bug in this program, so the result is not to be trusted.
    #[error("the counts do not add up: sent is {0} more than landed + failed + dropped, and nothing moves any more")]
    Unbalanced(i64),
}

impl ExitCode for BenchError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Option(_) => WRONG_USE,
            Self::Boot(why) => why.exit_code(),
            Self::Interrupted { .. } => INTERRUPTED,
            _ => FAILED,
        }
    }
}

/// Transfers signed in advance per core and second: more than a core has been seen to land.
const PRESIGN_PER_CORE: u64 = 80_000;
/// The most transfers signed in advance: 600 MB of them.
const PRESIGN_MAX: u64 = 600_000_000 / hearth_wire::transfer::TRANSFER_SIZE as u64;
/// A status is kept for 300 blocks of 400 ms.
const STATUS_SECONDS: u64 = 120;
/// Transactions per core and second for which memory of statuses is reserved. Above this the memory doubles, which then
/// shows as growth in the report.
const STATUSES_PER_CORE: f64 = PRESIGN_PER_CORE as f64;

/// Facts about the program that only its binary knows.
#[derive(Clone, Copy)]
pub struct Program {
    /// The commit that it was built from, if git knows.
    pub commit: &'static str,
    /// The instruments that observe the bench's node.
    pub instruments: Instruments,
}

/// Runs the bench and prints its result.
///
/// If the JSON goes to standard output, all text for people goes to standard error. If the reader of standard output is
/// gone and no file is to be written, the bench ends as by Ctrl-C.
pub fn run(
    config: Config,
    options: &Options,
    program: Program,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(), BenchError> {
    ended(&report(config, options, program, stop, say, &mut NullObserver)?)
}

/// Runs the bench like [`run`], with an observer, and returns its report; [`ended`] says how it ended.
pub fn report(
    mut config: Config,
    options: &Options,
    program: Program,
    stop: &StopSignal,
    say: &CommandOutput,
    witness: &mut dyn Witness,
) -> Result<Report, BenchError> {
    // A bench's transactions are not queried afterwards; the report says so.
    config.rpc.history_limit_size = 0;
    let json_to_stdout = options.json.as_deref() == Some(Path::new("-"));
    let (data, say) = (say, if json_to_stdout { &CommandOutput::stderr() } else { say });
    if config.name == Config::default().name {
        config.name = NAME.into();
    }
    check(&config, options)?;
    start_checks::nobody_has_the_name(&config, start_checks::NAME_OF_BENCH).map_err(BootError::from)?;
    if let Some(path) = options.json.as_deref().filter(|path| *path != Path::new("-")) {
        output::can_be_written(path)?;
    }
    let jiffies = machine::jiffies();
    let before = match options.yardstick {
        true => {
            progress("measuring the yardstick: stock ed25519-dalek, one thread");
            Some(yardstick::measure(stop).ok_or(BenchError::Interrupted { landed: 0 })?)
        }
        false => None,
    };
    let mut report = match &options.target.url {
        Some(url) => target::run(&config, options, url, stop, say)?,
        None => own_node(config, options, program.instruments, stop, say, witness)?,
    };
    // After an interrupted load the second yardstick is skipped.
    let after = before.and_then(|before| yardstick::measure(stop).or(Some(before)));
    report.commit = program.commit.into();
    report.machine = machine::describe(jiffies);
    if let (Some(before), Some(after)) = (before, after) {
        let ns = yardstick::between(before, after);
        // With transfers signed in advance, nothing was signed during the measurement.
        let signed = if options.presign { 0.0 } else { ns.sign };
        report.efficiency = Some(report.txn_per_s.mean * (signed + ns.verify_strict) / 1e9 / report.cores);
        report.yardstick_ns = Some(ns);
    }
    if report.measured {
        say.text(report.summary());
    }
    if let Some(path) = options.json.as_deref() {
        match json_to_stdout {
            true => data.text(report.json()),
            false => std::fs::write(path, report.json()).map_err(|source| WriteError { path: path.into(), source })?,
        }
    }
    Ok(report)
}

/// Returns an error if the result cannot be trusted.
pub fn ended(report: &Report) -> Result<(), BenchError> {
    match report.unresolved {
        _ if !report.measured => Err(BenchError::Interrupted { landed: report.landed + report.failed }),
        // If draining was interrupted, transactions in flight are reported as unresolved, which is no error. Neither is
        // the bench to blame for what another program did with them.
        _ if report.drain_interrupted || report.target.is_some() => Ok(()),
        0 => Ok(()),
        off => Err(BenchError::Unbalanced(off)),
    }
}

/// Measures its own node, created for the bench.
fn own_node(
    mut config: Config,
    options: &Options,
    instruments: Instruments,
    stop: &StopSignal,
    say: &CommandOutput,
    witness: &mut dyn Witness,
) -> Result<Report, BenchError> {
    let topology = boot::topology(&config, &boot::cores(&config.layout)?, true).map_err(BootError::Layout)?;
    let bound = BoundPorts::take(&mut config, topology.count("net"), &|_| false).map_err(BootError::from)?;
    if !bound.moved.is_empty() {
        let numbers = bound.ports.numbers(&bound.moved);
        progress(&format!("using other ports, as the defaults are in use: {numbers}"));
    }
    start_checks::check(&config, &topology, start_checks::NAME_OF_BENCH).map_err(BootError::from)?;
    boot::unused_places(&config, &topology).iter().for_each(|unused| note(format_args!("notice: {unused}")));
    // Memory should be flat from the first second on: reserve room for all transactions that may land while statuses
    // are kept.
    let cores = machine::cores().map_err(BootError::Cores)?;
    config.rpc.status_capacity = status_capacity(&config.rpc, options.warmup + options.duration, cores);
    // The chain ends with the run.
    config.snapshots.enabled = false;
    let folder = config.expand(&config.ledger.path).join("bench");
    let _alone = alone_in(&folder)?;
    let counts = topology.clone();
    let node = NodePlan { topology, bound, folder: &folder, instruments };
    let observed = measure(&config, node, options, stop, say, witness);
    // A bench's blocks are useless after its end.
    let _ = std::fs::remove_dir_all(&folder);
    Ok(observed?.report(&resolved(config, &counts), options, cores))
}

/// Locks the bench's folder until the returned file is closed.
fn alone_in(folder: &Path) -> Result<File, BenchError> {
    let failed = |source| BootError::Folder { path: folder.into(), source };
    std::fs::create_dir_all(folder.parent().expect("it lies in the ledger's")).map_err(failed)?;
    let lock = File::create(folder.with_extension("lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(BenchError::InUse(folder.into())),
        Err(TryLockError::Error(source)) => Err(failed(source).into()),
    }
}

fn check(config: &Config, options: &Options) -> Result<(), BenchError> {
    let funded = config.development.genesis.fund_initial_accounts;
    let wrong = |what: String| Err(BenchError::Option(what));
    for (name, given) in [("--accounts-from", options.accounts_from), ("--accounts-to", options.accounts_to)] {
        // A target's accounts are funded as needed.
        if given.is_some_and(|n| n < 2 || n > funded && options.target.url.is_none()) {
            return wrong(format!(
                "{name} must be 2 to {funded}, the accounts funded by `development.genesis.fund_initial_accounts`"
            ));
        }
    }
    if funded < 2 {
        return wrong("`development.genesis.fund_initial_accounts` must be at least 2 to make transfers".into());
    }
    if !(0.0..=1.0).contains(&options.conflict) {
        return wrong(format!("--conflict is a share from 0 to 1, not {}", options.conflict));
    }
    let alone = options.target.url.is_some();
    if options.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite() || alone && rate == 0.0)) {
        return wrong("--rate must be greater than 0".into());
    }
    for (name, rate) in [("--probes", options.target.probes), ("--questions", options.target.questions)] {
        if !(0.0..=100_000.0).contains(&rate) {
            return wrong(format!("{name} is a rate a second from 0 to 100,000"));
        }
    }
    if options.duration == 0 {
        return wrong("--duration must be at least 1 second".into());
    }
    Ok(())
}

/// The parts of a bench's node.
struct NodePlan<'a> {
    topology: Topology,
    bound: BoundPorts,
    folder: &'a Path,
    instruments: Instruments,
}

/// Boots node and load on a new chain in the folder, drives them, and stops them.
fn measure(
    config: &Config,
    node: NodePlan<'_>,
    options: &Options,
    stop: &StopSignal,
    say: &CommandOutput,
    witness: &mut dyn Witness,
) -> Result<BenchObservations, BenchError> {
    let NodePlan { topology, bound, folder, instruments } = node;
    let not_yet_stopped = || match stop.is_set() {
        true => Err(BenchError::Interrupted { landed: 0 }),
        false => Ok(()),
    };
    not_yet_stopped()?;
    // The folder belongs to the bench and is created again each time; the chain of `hearth run` is next to it.
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|source| BootError::Folder { path: folder.into(), source })?;
    }
    say.line(hearth_command::output::layout(&topology));
    let total = config.development.genesis.fund_initial_accounts;
    let chain = boot::open_chain(
        config,
        folder,
        &GenesisOverrides::default(),
        |done| progress(&format!("funding accounts: {done} of {total}")),
        |_| ReplayControl::Continue(()),
    )?;
    not_yet_stopped()?;
    let control = Arc::new(Control::default());
    let (senders, receivers) = (options.accounts_from.unwrap_or(total), options.accounts_to.unwrap_or(total));
    let presign = presign_count(options, boot::cores(&config.layout)?.allowed.len());
    let benchg = benchg::Config {
        accounts: Arc::new(accounts(senders.max(receivers))),
        senders,
        receivers,
        conflict: options.conflict,
        rate: options.rate,
        presign,
        control: control.clone(),
    };
    let (sender, samples) = channel();
    progress("booting the node");
    let parts = NodeParts { topology, bound, chain, instruments: Some(instruments) };
    let running = boot::boot(config, parts, Some(Load { benchg, samples: sender }))?;
    if running.has_dashboard {
        progress(&format!("dashboard: http://{}/dashboard", reachable(running.rpc)));
    }
    if let Some(isolation) = running.node.isolation() {
        progress(&format!("isolated: {isolation}"));
    }
    witness.booted(&workspace_path(config));
    let cores = machine::cores().map_err(BootError::Cores)?;
    let seen = BenchObservations::default();
    let mut bench =
        Driver { node: &running.node, samples, control, stop, say, cores, instead: None, witness, seen, before_run: 0 };
    let driven = bench.drive(options, presign).and_then(|()| bench.drain());
    let mut observed = bench.seen;
    observed.last = Snapshot::take(&running.node);
    let stopped = running.stop();
    stopped?;
    driven?;
    Ok(observed)
}

/// The load's settings for the report.
fn load_settings(genesis: &Genesis, options: &Options) -> LoadSettings {
    let total = genesis.fund_initial_accounts;
    LoadSettings {
        rate: options.rate,
        conflict: options.conflict,
        accounts_from: options.accounts_from.unwrap_or(total),
        accounts_to: options.accounts_to.unwrap_or(total),
    }
}

/// Transfers to sign in advance: as many as could be sent, or those of the requested rate with some seconds to spare,
/// because the first whole second is waited for.
fn presign_count(options: &Options, cores: usize) -> u64 {
    let seconds = options.warmup + options.duration;
    let most = match options.rate {
        None => seconds * PRESIGN_PER_CORE * cores as u64,
        // Saturates, so that no rate is too large.
        Some(rate) => ((seconds + 5) as f64 * rate + 1.0) as u64,
    };
    if options.presign { most.min(PRESIGN_MAX) } else { 0 }
}

fn accounts(count: usize) -> Vec<Account> {
    let account = |i| {
        let key = funded_account_key(i);
        Account { address: key.public_key(), key }
    };
    (0..count).map(account).collect()
}

/// Number of statuses for which a bench of the default length reserves memory.
pub fn usual_status_capacity(rpc: &Rpc) -> Result<usize, BootError> {
    let cores = machine::cores().map_err(BootError::Cores)?;
    Ok(status_capacity(rpc, WARMUP + DURATION, cores))
}

/// Number of statuses for which a bench of this many seconds reserves memory.
fn status_capacity(rpc: &Rpc, seconds: u64, cores: f64) -> usize {
    let landed = seconds.min(STATUS_SECONDS) as f64 * cores * STATUSES_PER_CORE;
    rpc.status_capacity.max(landed as usize)
}

/// The configuration with the tile counts of `topology`, and without secrets.
fn resolved(mut config: Config, topology: &Topology) -> Config {
    config.rpc.admin_token.clear();
    for kind in &KINDS {
        if let Some(count) = config.tile_count_mut(kind) {
            *count = topology.count(kind.name);
        }
    }
    config
}

fn landed_text(landed: u64) -> String {
    match landed {
        0 => "nothing had landed".into(),
        1 => "1 transaction had landed".into(),
        landed => format!("{} transactions had landed", grouped(landed)),
    }
}

/// Prints the current stage on standard error.
fn progress(what: &str) {
    note(format_args!("  … {what}"));
}

impl BenchObservations {
    /// Computes the report from the observations.
    fn report(&mut self, config: &Config, options: &Options, cores: f64) -> Report {
        let elapsed = self.measured_s();
        let CoresHad { had, waited_for } = self.cores();
        let mut report = Report {
            txn_per_s: Rate::of(&self.seconds, self.measured_transactions(), elapsed),
            measured: self.is_measured(),
            duration_s: elapsed,
            warmup_s: options.warmup as f64,
            asked: load_settings(&config.development.genesis, options),
            sent_per_s: self.sent_per_s(),
            lag_s_max: options.rate.map(|_| self.lag_s_max()),
            sent: self.last.sent(),
            landed: self.last.total("bank", "landed"),
            failed: self.last.total("bank", "failed"),
            dropped: self.last.dropped(),
            cpu_us_per_txn: self.cpu_us_per_txn(),
            rss_bytes_max: self.rss_max,
            rss_growth_bytes: self.rss_growth(),
            rss_statuses_bytes: Some(memory::of_statuses(&config.development.bench, config.rpc.status_capacity)),
            longest_stall_s: Some(self.longest_stall_s()),
            latency: self.latency(),
            bottleneck: self.bottleneck(),
            cores,
            cores_used: had,
            cores_waited_for: waited_for,
            switched_off: relaxed::switched_off(config, options),
            seconds: self.seconds.clone(),
            tiles: self.tile_use(),
            config: serde_json::to_value(config).expect("plain data"),
            interrupted: self.interrupted,
            drain_interrupted: self.drain_interrupted,
            presigned: options.presign,
            presigned_ran_dry: self.presigned_ran_dry,
            ..Report::default()
        };
        report.unresolved = report.balance();
        report
    }
}
