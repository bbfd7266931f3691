//! Presents an EVM node's stages as tiles, so that the monitor works on it as on any other node.
//!
//! reads   the counters of chain, pool and Web3; the CPU time of this process's threads
//! writes  the node's workspace, ten times a second
//! memory  the workspace, 20 KiB
//!
//! The stages are work on threads that run elsewhere: Web3's threads take requests, `recover` decodes transactions and
//! recovers their senders, `pool` admits them, `exec` chooses and executes, `commit` computes the roots and writes. No
//! link joins them: they call each other.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_evm::chain::{BlockTimes, Chain, Metrics};
use hearth_ring::{Counters as Words, HugePages, Workspace, WorkspaceError};
use hearth_tile::counters::put;
use hearth_tile::external_tile::{Outside, StageTotals};
use hearth_tile::topology::{CounterSpec, LatencySpec, ServiceSpec, TileSpec, Topology};
use hearth_tile::{Clock, CounterKind, CounterSet};

/// Interval between updates of the workspace.
const BEAT: Duration = Duration::from_millis(100);
/// Beats from one look at the threads' CPU time to the next.
const CPU_EVERY: u64 = 10;
/// The service that has Web3's own counters.
pub const WEB3: &str = "web3";

hearth_tile::counters! {
    /// The counters of recover.
    pub struct Recover {
        /// Transactions submitted.
        submitted: Counter,
        /// Transactions of the ledger of outputs, which has a pool of its own.
        to_outputs: Counter,
        /// Transactions that do not decode, are of another chain, or have no sender.
        dropped_undecodable: Counter,
    }
}

hearth_tile::counters! {
    /// What the pool counts.
    pub struct Pool {
        /// Transactions that can be executed.
        pending: Gauge,
        /// The same: none of them waits for another account's.
        ready: Gauge,
        /// Transactions behind a gap in their account's nonces.
        queued: Gauge,
        /// Memory of the transactions, bytes.
        held_bytes: Gauge,
        /// Transactions taken.
        added: Counter,
        /// Transactions refused: the pool has them already.
        known: Counter,
        /// Transactions refused: the pool is full of better-paying ones.
        dropped_full: Counter,
        /// Transactions refused: nonce, funds, gas or fees.
        dropped_refused: Counter,
        /// Transactions replaced by better-paying ones of the same nonce.
        dropped_replaced: Counter,
        /// Transactions evicted for better-paying ones, or because too many wait behind a nonce gap.
        dropped_evicted: Counter,
        /// Transactions given up because they had waited too long.
        dropped_expired: Counter,
        /// Transactions given up because a block made them invalid, or execution refused them.
        dropped_invalid: Counter,
        /// Transactions given up on demand.
        dropped_on_demand: Counter,
        /// Accounts looked at again after blocks.
        rechecked: Counter,
    }
}

hearth_tile::counters! {
    /// The counters of exec.
    pub struct Exec {
        /// Transactions executed into blocks, reverted ones included.
        landed: Counter,
        /// Gas that they used.
        gas: Counter,
        /// Gas that the newest block might have used.
        gas_limit: Gauge,
    }
}

hearth_tile::counters! {
    /// The counters of commit.
    pub struct Commit {
        /// Height of the newest block made here.
        block: Gauge,
        /// Blocks made.
        blocks: Counter,
        /// Blocks whose state is kept in memory.
        states: Gauge,
        /// Memory of what only older states need, bytes.
        states_bytes: Gauge,
        /// Old states dropped because their memory, `--history-mib`, was used up.
        evicted_states: Counter,
    }
}

/// A part of a block's time, as a histogram of its stage.
type Part = (&'static str, &'static str, fn(&BlockTimes) -> u64);

const OF_EXEC: [Part; 3] = [
    ("block_begin", "Time of choosing a block's transactions, and of the calls before them.", |times| times.begin_us),
    ("block_check", "CPU time of checking what was submitted since the block before.", |times| times.check_us),
    ("block_deliver", "Time of executing a block's transactions.", |times| times.deliver_us),
];
const OF_COMMIT: [Part; 4] = [
    ("block_end", "Time of a block's receipts and their roots.", |times| times.end_us),
    ("block_evm_commit", "Time of a block's state root, and of the state's commit.", |times| times.evm_commit_us),
    ("block_commit", "Time of writing and publishing a block.", |times| times.commit_us),
    ("block_total", "Time of making a block, from choosing transactions to publishing.", BlockTimes::total_us),
];

/// Why the stages cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum StagesError {
    /// The workspace cannot be created.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The thread cannot be started.
    #[error("cannot start the thread that reports the stages: {0}")]
    Thread(#[from] std::io::Error),
}

/// The sources of the published values.
pub struct Sources {
    /// The chain whose stages are published.
    pub chain: Chain,
    /// Web3's counters: names, meanings and values.
    pub web3: Arc<hearth_web3::Counters>,
}

/// Publishes the stages until dropped.
pub struct Stages {
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Stages {
    /// Makes the workspace at this path for a node of this name, and begins.
    pub fn start(path: &Path, name: &str, sources: Sources) -> Result<Self, StagesError> {
        let topology = topology(name, &sources.web3);
        let workspace = Workspace::create(path, &topology.workspace_plan(HugePages::None))?;
        let mut teller = StageReporter::new(&topology, &workspace, sources)?;
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("stages".into()).spawn(move || {
            teller.beat();
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                teller.beat();
            }
            teller.end();
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.stop.send(());
        self.thread.take().map(JoinHandle::join);
    }
}

/// Returns the topology to publish: one tile per stage, and Web3's counters.
fn topology(name: &str, web3: &hearth_web3::Counters) -> Topology {
    let of_blocks = |parts: &[Part]| {
        let spec = |(name, help, _): &Part| LatencySpec { name: (*name).into(), help: (*help).into() };
        parts.iter().map(spec).collect()
    };
    let tiles = vec![
        TileSpec::new::<()>(WEB3, 0),
        TileSpec::new::<Recover>("recover", 0),
        TileSpec::new::<Pool>("pool", 0),
        TileSpec { latencies: of_blocks(&OF_EXEC), ..TileSpec::new::<Exec>("exec", 0) },
        TileSpec { latencies: of_blocks(&OF_COMMIT), ..TileSpec::new::<Commit>("commit", 0) },
    ];
    let spec = |(name, help, _): (&str, &str, u64)| CounterSpec {
        name: name.into(),
        kind: if hearth_web3::is_gauge(name) { CounterKind::Gauge } else { CounterKind::Counter },
        help: help.trim().into(),
    };
    let counters = web3.all().into_iter().map(spec).collect();
    let services = vec![ServiceSpec { name: WEB3.into(), counters }];
    Topology { name: name.into(), tiles, links: vec![], services }
}

/// Publishes the stages' counters at each beat.
struct StageReporter {
    clock: Clock,
    sources: Sources,
    service: Words,
    web3: Outside<()>,
    recover: Outside<Recover>,
    pool: Outside<Pool>,
    exec: Outside<Exec>,
    commit: Outside<Commit>,
    beats: u64,
    cpu: Cpu,
    seen: u64,
}

impl StageReporter {
    fn new(topology: &Topology, workspace: &Workspace, sources: Sources) -> Result<Self, WorkspaceError> {
        let clock = Clock::real();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let stages = StageReport { topology, workspace, clock: &clock };
        Ok(Self {
            service: workspace.counters(WEB3)?,
            web3: stages.stage(0, cores)?,
            recover: stages.stage(1, cores)?,
            pool: stages.stage(2, cores)?,
            // One thread makes a block from start to end, whichever threads help it.
            exec: stages.stage(3, 1)?,
            commit: stages.stage(4, 1)?,
            beats: 0,
            cpu: Cpu::default(),
            seen: sources.chain.block_times(0).0,
            sources,
            clock,
        })
    }

    fn beat(&mut self) {
        if self.beats.is_multiple_of(CPU_EVERY) {
            self.cpu = Cpu::of_this_process();
        }
        self.beats += 1;
        let metrics = self.sources.chain.metrics();
        self.requests(&metrics);
        self.transactions(&metrics);
        self.blocks(&metrics);
    }

    /// Web3: its threads' time, minus the time in stages that they call.
    fn requests(&mut self, metrics: &Metrics) {
        let counters = self.sources.web3.all();
        for (word, (_, _, value)) in self.service.words().iter().zip(&counters) {
            put(word, *value);
        }
        let of = |name: &str| counters.iter().find(|(known, ..)| *known == name).map_or(0, |(_, _, value)| *value);
        let called = metrics.recover_ns + metrics.pool_ns;
        let busy_ns = self.cpu.web3_ns.saturating_sub(called);
        let done = StageTotals { busy_ns, cpu_ns: busy_ns, came: of("requests"), went: of("transactions_in") };
        self.web3.tell(&self.clock, &done, &());
    }

    fn transactions(&mut self, metrics: &Metrics) {
        let (stats, status) = (metrics.pool, metrics.pool_status);
        let offered = stats.added + stats.known + stats.full + stats.refused;
        let done = StageTotals {
            busy_ns: metrics.recover_ns,
            cpu_ns: metrics.recover_ns.min(self.cpu.web3_ns),
            came: metrics.submitted,
            went: offered + metrics.to_outputs,
        };
        let counters = Recover {
            submitted: metrics.submitted,
            to_outputs: metrics.to_outputs,
            dropped_undecodable: metrics.undecodable,
        };
        self.recover.tell(&self.clock, &done, &counters);
        let done = StageTotals {
            busy_ns: metrics.pool_ns,
            cpu_ns: metrics.pool_ns.min(self.cpu.web3_ns),
            came: offered,
            went: metrics.txs,
        };
        let counters = Pool {
            pending: status.pending as u64,
            ready: status.pending as u64,
            queued: status.queued as u64,
            held_bytes: status.bytes as u64,
            added: stats.added,
            known: stats.known,
            dropped_full: stats.full,
            dropped_refused: stats.refused,
            dropped_replaced: stats.replaced,
            dropped_evicted: stats.evicted,
            dropped_expired: stats.expired,
            dropped_invalid: stats.invalid,
            dropped_on_demand: stats.removed,
            rechecked: stats.rechecked,
        };
        self.pool.tell(&self.clock, &done, &counters);
    }

    fn blocks(&mut self, metrics: &Metrics) {
        let (made, times) = self.sources.chain.block_times(self.seen);
        self.seen = made;
        let cut = |us: u64| u32::try_from(us).unwrap_or(u32::MAX);
        for (_, times) in &times {
            OF_EXEC.iter().enumerate().for_each(|(number, (.., part))| self.exec.record(number, cut(part(times))));
            OF_COMMIT.iter().enumerate().for_each(|(number, (.., part))| self.commit.record(number, cut(part(times))));
        }
        let gas_limit = self.sources.chain.head().header.gas_limit;
        let sum = &metrics.sum;
        let [exec, commit] = [sum.begin_us + sum.deliver_us, sum.end_us + sum.commit_us + sum.evm_commit_us];
        // One thread does both, so its CPU time is split by the duration of each.
        let cpu =
            |us: u64| (u128::from(self.cpu.blocks_ns) * u128::from(us) / u128::from((exec + commit).max(1))) as u64;
        let done = |us: u64, went: u64| StageTotals { busy_ns: us * 1000, cpu_ns: cpu(us), came: metrics.txs, went };
        let (executed, committed) = (done(exec, metrics.txs), done(commit, metrics.blocks));
        self.exec.tell(&self.clock, &executed, &Exec { landed: metrics.txs, gas: metrics.gas, gas_limit });
        let counters = Commit {
            block: metrics.head,
            blocks: metrics.blocks,
            states: metrics.states.blocks,
            states_bytes: metrics.states.bytes,
            evicted_states: metrics.states.evicted,
        };
        self.commit.tell(&self.clock, &committed, &counters);
    }

    /// A last look, and the end.
    fn end(mut self) {
        self.beat();
        self.web3.stop();
        self.recover.stop();
        self.pool.stop();
        self.exec.stop();
        self.commit.stop();
    }
}

/// Creates the stages' entries in the workspace.
struct StageReport<'a> {
    topology: &'a Topology,
    workspace: &'a Workspace,
    clock: &'a Clock,
}

impl StageReport<'_> {
    /// Creates stage `number`, which runs on this many threads.
    fn stage<C: CounterSet>(&self, number: usize, threads: usize) -> Result<Outside<C>, WorkspaceError> {
        let spec = &self.topology.tiles[number];
        Ok(Outside::new(spec, self.workspace.counters(&spec.name())?, threads, self.clock))
    }
}

/// CPU time by thread name, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    web3_ns: u64,
    blocks_ns: u64,
}

impl Cpu {
    /// Reads the kernel's accounting; a thread without an entry counts as zero.
    fn of_this_process() -> Self {
        let mut cpu = Self::default();
        for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let read = |what: &str| fs::read_to_string(task.path().join(what)).ok();
            let (Some(name), Some(times)) = (read("comm"), read("schedstat")) else { continue };
            let ran_ns = times.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0u64);
            match name.trim() {
                name if name.starts_with(WEB3) => cpu.web3_ns += ran_ns,
                "sequencer" | "sealer" => cpu.blocks_ns += ran_ns,
                _ => {}
            }
        }
        cpu
    }
}
