//! `hearth bench`: how many transactions a second can this machine do, and what limits it?
//!
//! reads   the node's counters, and samples that bencho takes through the node's RPC
//! writes  a line a second, a summary, JSON
//! memory  a sample a second
//!
//! The walk: yardstick → genesis → node and load → (sign ahead) → warm-up → measured seconds → drain → balance →
//! yardstick → report.

mod drain;
mod machine;
mod observe;
mod report;
mod yardstick;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use hearth_ledger::genesis::funded_account_key;
use hearth_pipeline::benchg::{self, Account, Control, Phase};
use hearth_pipeline::bencho::Sample;

use crate::boot::{self, BootError, Load, Running};
use crate::cli;
use crate::config::Config;
use crate::stop::StopSignal;
use observe::{Observed, Snapshot};
use report::{Rate, Report};

/// Why a bench does not run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An option that makes no sense.
    #[error("{0}")]
    Option(String),
    /// The node.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// A tile died.
    #[error(transparent)]
    Died(#[from] hearth_tile::core::Died),
    /// The load never got through.
    #[error("{0}")]
    Stuck(String),
    /// The result cannot be written.
    #[error("cannot write the result to {path}: {source}")]
    Write {
        /// Where to.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The counts do not add up: a fault of this program, and the result is not to be trusted.
    #[error("the counts do not add up: sent is {0} more than landed + failed + dropped, and nothing moves any more")]
    Unbalanced(i64),
}

/// Transfers signed ahead per core and second, when they are: more than a core has been seen to land.
const PRESIGN_PER_CORE: u64 = 80_000;
/// The most transfers signed ahead: 600 MB of them.
const PRESIGN_MAX: u64 = 600_000_000 / hearth_wire::transfer::TRANSFER_SIZE as u64;
/// A status is kept for 300 blocks of 400 ms.
const STATUS_SECONDS: u64 = 120;
/// Transactions that may land per core and second, for sizing the memory of statuses.
const STATUSES_PER_CORE: f64 = 60_000.0;
/// The longest wait for the node's first answer and the load's first connection.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often counters are looked at between the seconds.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the bench and prints its result.
pub fn run(mut config: Config, options: &cli::Bench, stop: &StopSignal) -> Result<(), BenchError> {
    if config.name == Config::default().name {
        config.name = "hearth-bench".into();
    }
    check(&config, options)?;
    if let Some(path) = options.json.as_deref().filter(|path| *path != Path::new("-")) {
        // A result that cannot be written is better known now than after the run.
        std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(|source| unwritable(path, source))?;
    }
    // Memory is to be flat from the first second on: room for all that may land while statuses are kept.
    let cores = machine::cores().map_err(BootError::Cores)?;
    let seconds = (options.warmup + options.duration).min(STATUS_SECONDS) as f64;
    config.rpc.status_capacity = config.rpc.status_capacity.max((seconds * cores * STATUSES_PER_CORE) as usize);
    let jiffies = machine::jiffies();
    let before = options.yardstick.then(|| {
        progress("measuring the yardstick: stock ed25519-dalek, one thread");
        yardstick::measure()
    });
    let folder = config.expand(&config.ledger.path).join("bench");
    let mut observed = measure(&config, options, &folder, stop)?;
    let after = options.yardstick.then(yardstick::measure);
    let mut report = observed.report(&config, options);
    report.machine = machine::describe(jiffies);
    report.cores = cores;
    if let (Some(before), Some(after)) = (before, after) {
        let ns = yardstick::between(before, after);
        // Nobody signed while signed-ahead transfers were measured.
        let signed = if options.presign { 0.0 } else { ns.sign };
        report.efficiency = Some(report.txn_per_s.mean * (signed + ns.verify_strict) / 1e9 / report.cores);
        report.yardstick_ns = Some(ns);
    }
    write(&report, options.json.as_deref())?;
    match report.unresolved {
        // Interrupted while draining: what is under way is said as unresolved, and is no fault.
        _ if stop.presses() > 1 => Ok(()),
        0 => Ok(()),
        off => Err(BenchError::Unbalanced(off)),
    }
}

fn check(config: &Config, options: &cli::Bench) -> Result<(), BenchError> {
    let funded = config.development.genesis.fund_initial_accounts;
    let wrong = |what: String| Err(BenchError::Option(what));
    for (name, given) in [("--accounts-from", options.accounts_from), ("--accounts-to", options.accounts_to)] {
        if given.is_some_and(|n| n < 2 || n > funded) {
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
    if options.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
        return wrong("--rate must be greater than 0".into());
    }
    if options.duration == 0 {
        return wrong("--duration must be at least 1 second".into());
    }
    Ok(())
}

/// Boots node and load on a new chain in `folder`, drives them, stops them.
fn measure(config: &Config, options: &cli::Bench, folder: &Path, stop: &StopSignal) -> Result<Observed, BenchError> {
    // The folder is the bench's own, made anew each time; the chain of `hearth run` lies beside it.
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|source| BootError::Folder { path: folder.into(), source })?;
    }
    let cores = boot::cores(config)?;
    let topology = boot::topology(config, &cores, true).map_err(BootError::Layout)?;
    println!("{}", crate::draw::layout(&topology));
    let total = config.development.genesis.fund_initial_accounts;
    let chain =
        boot::open_chain(config, folder, |done| progress(&format!("funding accounts: {done} of {total}")), |_| {})?;
    let control = Arc::new(Control::default());
    let (senders, receivers) = (options.accounts_from.unwrap_or(total), options.accounts_to.unwrap_or(total));
    let seconds = options.warmup + options.duration;
    let presign = match options.presign {
        true => (seconds * PRESIGN_PER_CORE * cores.allowed.len() as u64).min(PRESIGN_MAX),
        false => 0,
    };
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
    let running = boot::boot(config, topology, chain, Some(Load { benchg, samples: sender }))?;
    let mut bench = Driver { running: &running, samples, control, stop, seen: Observed::default() };
    let driven = bench.drive(options, presign);
    let mut observed = bench.seen;
    observed.last = Snapshot::take(&running);
    observed.interrupted = stop.is_set();
    let stopped = running.stop();
    // The blocks of a finished bench are of no use to anybody.
    let _ = std::fs::remove_dir_all(folder);
    stopped?;
    driven.map(|()| observed)
}

fn accounts(count: usize) -> Vec<Account> {
    let account = |i| {
        let key = funded_account_key(i);
        Account { address: key.public_key(), key }
    };
    (0..count).map(account).collect()
}

struct Driver<'a> {
    running: &'a Running,
    samples: Receiver<Sample>,
    control: Arc<Control>,
    stop: &'a StopSignal,
    seen: Observed,
}

impl Driver<'_> {
    fn drive(&mut self, options: &cli::Bench, presign: u64) -> Result<(), BenchError> {
        self.wait_until_ready()?;
        if presign > 0 {
            self.sign_ahead(presign)?;
        }
        self.control.set(Phase::Run);
        self.seconds(options)?;
        self.control.set(Phase::Idle);
        progress("waiting for what is under way");
        drain::wait(self.running, self.stop)
    }

    /// The RPC answers and every benchs is connected.
    fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        let start = Instant::now();
        let mut answered = false;
        while !self.stop.is_set() {
            answered |= self.samples.recv_timeout(LOOK_EVERY).is_ok();
            self.look()?;
            let now = Snapshot::take(self.running);
            if answered && now.connected() {
                return Ok(());
            }
            if start.elapsed() > START_TIMEOUT {
                let what = if answered { "no QUIC connection to the node" } else { "no answer from the node's RPC" };
                return Err(BenchError::Stuck(format!("{what} within {} s", START_TIMEOUT.as_secs())));
            }
        }
        Ok(())
    }

    fn sign_ahead(&mut self, target: u64) -> Result<(), BenchError> {
        self.control.set(Phase::Presign);
        let mut shown = Instant::now();
        while self.control.presigned() < target && !self.stop.is_set() {
            self.look()?;
            if shown.elapsed() > Duration::from_millis(500) {
                shown = Instant::now();
                progress(&format!("signing ahead: {} of {target}", self.control.presigned()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        while self.samples.try_recv().is_ok() {}
        Ok(())
    }

    /// Warm-up and measured seconds: a line each.
    fn seconds(&mut self, options: &cli::Bench) -> Result<(), BenchError> {
        let benchg_count = self.running.node.topology.count("benchg") as u64;
        let mut before: Option<Sample> = None;
        let mut second = 0;
        self.seen.start(self.running);
        while second < options.warmup + options.duration && !self.stop.is_set() {
            match self.samples.recv_timeout(LOOK_EVERY) {
                Ok(sample) => {
                    if let Some(before) = before.replace(sample) {
                        second += 1;
                        let measured = second > options.warmup;
                        let rate = self.seen.second(&before, &sample, measured, self.running);
                        println!("{}", line(second, options.warmup, rate, sample.transaction_count));
                    }
                    if second == options.warmup {
                        self.seen.begin_measuring(sample, self.running);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.look()?;
            if self.control.exhausted() == benchg_count {
                self.seen.presigned_ran_dry = true;
                progress("all that was signed ahead is sent: the measurement ends here");
                break;
            }
        }
        self.seen.end_measuring(self.running);
        Ok(())
    }

    fn look(&mut self) -> Result<(), BenchError> {
        self.seen.look(self.running);
        match self.running.node.died() {
            Some(died) => Err(died.into()),
            None => Ok(()),
        }
    }
}

fn line(second: u64, warmup: u64, rate: f64, total: u64) -> String {
    let note = if second <= warmup { "  (warm-up)" } else { "" };
    format!("  {second:>4} s  {:>10} txn/s  {:>12} in all{note}", report::n(rate), report::n(total as f64))
}

fn write(report: &Report, json: Option<&Path>) -> Result<(), BenchError> {
    let Some(path) = json else {
        print!("{}", report.summary());
        return Ok(());
    };
    let text = serde_json::to_string_pretty(report).expect("plain data") + "\n";
    if path == Path::new("-") {
        print!("{text}");
        return Ok(());
    }
    print!("{}", report.summary());
    std::fs::write(path, text).map_err(|source| unwritable(path, source))
}

fn unwritable(path: &Path, source: std::io::Error) -> BenchError {
    BenchError::Write { path: path.display().to_string(), source }
}

/// Says what is going on, on standard error.
fn progress(what: &str) {
    // Nothing is lost when nobody reads it.
    let _ = writeln!(std::io::stderr(), "  … {what}");
}

impl Observed {
    /// The report of what was observed.
    fn report(&mut self, config: &Config, options: &cli::Bench) -> Report {
        let elapsed = self.measured_s();
        let mut report = Report {
            txn_per_s: Rate::of(&self.seconds, self.measured_transactions(), elapsed),
            duration_s: elapsed,
            warmup_s: options.warmup as f64,
            sent: self.last.sent(),
            landed: self.last.total("bank", "landed"),
            failed: self.last.total("bank", "failed"),
            dropped: self.last.dropped(),
            cpu_us_per_txn: self.cpu_us_per_txn(),
            rss_bytes_max: self.rss_max,
            rss_growth_bytes: self.rss_growth(),
            longest_stall_s: self.longest_stall_s(),
            bottleneck: self.bottleneck(options.rate),
            switched_off: switched_off(config, options),
            seconds: self.seconds.clone(),
            tiles: self.tile_use(),
            config: serde_json::to_value(config).expect("plain data"),
            commit: env!("HEARTH_COMMIT").into(),
            interrupted: self.interrupted,
            presigned: options.presign,
            presigned_ran_dry: self.presigned_ran_dry,
            ..Report::default()
        };
        report.unresolved = report.balance();
        report
    }
}

/// What does less than a node of the cluster would, said aloud.
fn switched_off(config: &Config, options: &cli::Bench) -> Vec<String> {
    let bench = &config.development.bench;
    let mut off = vec![];
    let mut add = |is_off: bool, what: &str| off.extend(is_off.then(|| what.to_owned()));
    add(config.development.genesis.hashes_per_tick == 0, "proof of history hashes at low power (hashes_per_tick = 0)");
    add(bench.larger_max_cost_per_block, "the block's compute limit is 13 times the cluster's");
    add(bench.larger_shred_limits_per_block, "the block's shred limit is 32 times the cluster's");
    add(bench.disable_blockstore_from_slot > 0, "blocks are not stored from a slot on");
    add(bench.disable_status_cache, "landed transactions are not remembered (no check for duplicates)");
    add(!config.ledger.sync, "blocks are confirmed before they are on disk");
    add(!config.rpc.transaction_history, "the RPC keeps no transaction status");
    add(config.tiles.quic.limits == "local", "peers are not throttled by stake (tiles.quic.limits = local)");
    add(config.tiles.pack.hold_when_full, "a full pool holds senders back instead of dropping the worst-paying");
    add(options.presign, "transfers were signed before measuring");
    // What this node does not do at all, and a leader of the cluster does.
    off.push("no bank hash (accounts lattice hash), no votes".into());
    let nobody = config.tiles.shred.additional_shred_destinations.is_empty();
    off.extend(nobody.then(|| "shreds are sent to nobody (tiles.shred.additional_shred_destinations)".to_owned()));
    off
}
