//! `hearth evm testnet`: validators on loopback addresses, each a CometBFT node and its application.
//!
//! reads   the folder of an earlier run; CometBFT's program
//! writes  the nodes' homes and logs
//! memory  the genesis

use std::fs::{File, TryLockError};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use alloy_primitives::U256;
use clap::Args;
use hearth_comet::config_toml::StateSync;
use hearth_comet::program;
use hearth_comet::rpc::Rpc;
use hearth_comet::testnet_dirs::{self, ExistingNetwork, Home, Network, RequiredProperties};
use hearth_command::output::{CommandOutput, note};
use hearth_command::stop::StopSignal;
use hearth_evm::chain::{BlockTime, Chain, ChainConfig};
use hearth_machine::sockets::{self, Protocol};
use rustix::process::{Pid, Signal, kill_process};

use super::accounts::{self, Mnemonic};
use super::{EvmError, dump, ether};

/// How often the processes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// An application must listen within this,
const START_WITHIN: Duration = Duration::from_secs(60);
/// and a process must exit within this time after it is asked to.
const STOP_WITHIN: Duration = Duration::from_secs(4);

/// The options of `hearth evm testnet`.
#[derive(Args)]
pub struct EvmTestnet {
    /// Number of validators [default: 4, or those of the existing network].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub validators: Option<u16>,
    /// Number of followers, which do not vote [default: 0, or those of the existing network].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=99))]
    pub followers: Option<u16>,
    /// Folder of the nodes' homes. An existing network continues.
    #[arg(long, alias = "dir", value_name = "DIR", default_value = "hearth-testnet")]
    pub folder: PathBuf,
    /// Node I is at 127.0.0.I: peers at this port, CometBFT's RPC at the next, ours at the one after it.
    #[arg(long, value_name = "PORT", default_value_t = 26656, value_parser = clap::value_parser!(u16).range(1..=65533))]
    pub base_port: u16,
    /// Milliseconds between a block's commit and the next one's proposal.
    #[arg(long, value_name = "MS", default_value_t = 200)]
    pub pause: u64,
    /// CometBFT's program [default: the one on the PATH, or in Go's folder of programs].
    #[arg(long, value_name = "PATH")]
    pub cometbft: Option<PathBuf>,
    /// The chain's id (EIP-155) [default: 31337, or that of the existing network].
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u64).range(1..))]
    pub chain_id: Option<u64>,
    /// Accounts to fund.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub accounts: u32,
    /// The initial balance of each of these accounts, in ETH.
    #[arg(long, value_name = "ETH", default_value = "10000", value_parser = ether)]
    pub balance: U256,
    /// The words from which the accounts follow.
    #[command(flatten)]
    pub words: accounts::MnemonicOptions,
    /// In a new network, start followers from a snapshot of the others, not from the first block.
    #[arg(long)]
    pub state_sync: bool,
    /// Make a snapshot every N blocks, for joining nodes; 0: never.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub snapshot_interval: u64,
    /// Write the homes, print the commands, and start nothing.
    #[arg(long)]
    pub files_only: bool,
}

/// Default number of validators of a new network.
const VALIDATORS: u16 = 4;
const CHAIN_ID: u64 = 31337;
/// Gas limit of a block, enough for one second of execution.
const GAS_LIMIT: u64 = 500_000_000;

impl EvmTestnet {
    /// Rejects a wait for something that will never happen.
    fn check(&self, followers: usize) -> Result<(), EvmError> {
        match (self.state_sync, self.snapshot_interval, followers) {
            (true, 0, _) => Err(EvmError::Idle("--state-sync", "with --snapshot-interval 0: there is no snapshot")),
            (true, _, 0) => Err(EvmError::Idle("--state-sync", "without --followers")),
            _ => Ok(()),
        }
    }
}

/// Runs the network until Ctrl-C.
pub fn run(options: &EvmTestnet, stop: &StopSignal, say: &CommandOutput) -> Result<(), EvmError> {
    let cometbft = program::find(options.cometbft.as_deref())?;
    let words = options.words.words()?;
    let chain_id = options.chain_id.unwrap_or(CHAIN_ID);
    let network = Network {
        validators: options.validators.unwrap_or(VALIDATORS),
        followers: options.followers.unwrap_or(0),
        base_port: options.base_port,
        pause_ms: options.pause,
        pool: 5000,
        genesis: genesis(options, &words, chain_id)?,
    };
    let wanted =
        RequiredProperties { validators: options.validators, followers: options.followers, chain_id: options.chain_id };
    let ExistingNetwork { homes, validators, chain_id } = match testnet_dirs::find(&options.folder, &network, &wanted)?
    {
        Some(found) => found,
        None => {
            options.check(usize::from(network.followers))?;
            let homes = testnet_dirs::write(&cometbft, &options.folder, &network)?;
            ExistingNetwork { homes, validators: network.validators.into(), chain_id }
        }
    };
    options.check(homes.len() - validators)?;
    // Followers that have never run.
    let fresh = homes[validators..].iter().rev().take_while(|home| !home.ledger().exists()).count();
    let late = if options.state_sync { fresh } else { 0 };
    say.line(format_args!("hearth {}, EVM chain {chain_id} on CometBFT", env!("CARGO_PKG_VERSION")));
    for home in &homes {
        let (web3, comet) = (home.web3(), home.comet_rpc());
        say.line(format_args!("  rpc http://{web3}  cometbft {comet}  {}", home.folder.display()));
    }
    if options.files_only {
        for home in &homes {
            let [application, engine] = commands(options, &words, &cometbft, home)?;
            say.line(format_args!("  {}\n  {}", shown(&application), shown(&engine)));
        }
        if !words.are_public() {
            say.line(format_args!("  each `hearth evm run` needs the words in the variable {}", accounts::VARIABLE));
        }
        return Ok(());
    }
    let _lock = lock(&options.folder)?;
    let (early, late) = homes.split_at(homes.len() - late);
    let mut running = RunningNodes::default();
    running.start_all(options, &words, &cometbft, early, stop)?;
    if !late.is_empty() {
        say.line("  those that follow begin with the first snapshot");
        let sync = wait_for_snapshot(early, &mut running, stop)?;
        for home in late.iter().filter(|_| sync.is_some()) {
            home.begin_from_snapshot(sync.clone().expect("there is one"), &network)?;
        }
        running.start_all(options, &words, &cometbft, late, stop)?;
    }
    say.line("  started; Ctrl-C stops all nodes");
    while !stop.is_set() && running.look() {
        std::thread::sleep(LOOK_EVERY);
    }
    say.line("  stopping");
    running.stop();
    if stop.is_set() { Ok(()) } else { Err(EvmError::Stopped("all nodes have ended; see their logs".into())) }
}

/// Returns the chain's genesis in its file format.
fn genesis(options: &EvmTestnet, words: &Mnemonic, chain_id: u64) -> Result<serde_json::Value, EvmError> {
    let funded = accounts::derive(words, options.accounts)?;
    let funded: Vec<_> = funded.iter().map(|account| (account.address, options.balance)).collect();
    let genesis = hearth_evm_utxo::genesis::dev(chain_id, &funded, GAS_LIMIT);
    let chain = Chain::open(ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) })?;
    dump::of(&chain)
}

/// Locks the folder, so that a second process cannot start the same nodes.
fn lock(dir: &Path) -> Result<File, EvmError> {
    let failed = |source| EvmError::Start { what: format!("the network in {}", dir.display()), source };
    let file = File::options().create(true).truncate(false).write(true).open(dir.join("lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(EvmError::Running(dir.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Returns the commands of one node: the application and CometBFT, both in its folder.
fn commands(options: &EvmTestnet, words: &Mnemonic, cometbft: &Path, home: &Home) -> Result<[Command; 2], EvmError> {
    let itself = std::env::current_exe().map_err(|source| EvmError::Start { what: "hearth".into(), source })?;
    let mut application = Command::new(itself);
    application.args(["evm", "run", "--quiet", "--consensus", "cometbft", "--abci", &home.application()]);
    application.args(["--comet-rpc", &home.comet_rpc(), "--bind-address", &home.host]);
    application.args(["--rpc-port", &home.web3_port().to_string(), "--accounts", &options.accounts.to_string()]);
    // Not as an argument, which every user of this machine could read.
    application.env(accounts::VARIABLE, words.text());
    // Blocks come fast here: a snapshot that is offered must still be there when it is fetched.
    application.args(["--snapshot-interval", &options.snapshot_interval.to_string(), "--snapshots-kept", "20"]);
    application.arg("--genesis").arg(home.genesis()).arg("--data-dir").arg(home.ledger());
    let mut engine = Command::new(cometbft);
    engine.arg("start").arg("--home").arg(&home.folder);
    for command in [&mut application, &mut engine] {
        // In its own process group: Ctrl-C is for this process, which stops the nodes in order.
        command.current_dir(&home.folder).stdin(Stdio::null()).process_group(0);
    }
    Ok([application, engine])
}

/// A command as a person would type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| {
        let word = word.to_string_lossy();
        if word.contains(' ') { format!("'{word}'") } else { word.into_owned() }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Waits until the first node has a snapshot; returns the trust anchor for a node that starts from it, or `None` if
/// stopped.
fn wait_for_snapshot(
    homes: &[Home],
    running: &mut RunningNodes,
    stop: &StopSignal,
) -> Result<Option<StateSync>, EvmError> {
    let rpc = Rpc::at(&homes[0].comet_rpc())?;
    while !stop.is_set() && running.look() {
        // It is not there yet where CometBFT has just been started.
        if let Some(&trust_height) = rpc.snapshots().ok().as_ref().and_then(|heights| heights.last()) {
            let servers = [&homes[0], homes.get(1).unwrap_or(&homes[0])].map(Home::comet_rpc);
            let (rpc_servers, trust_hash) = (servers.join(","), rpc.block_hash(trust_height)?);
            return Ok(Some(StateSync { rpc_servers, trust_height, trust_hash }));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(None)
}

/// Waits until a node's application listens. If another program has its port, the application exits and reports that.
fn wait_for_application(process: &mut Process, home: &Home, stop: &StopSignal) -> Result<(), EvmError> {
    let deadline = Instant::now() + START_WITHIN;
    while !process.has_port(&home.web3()) && !stop.is_set() {
        let ended = process.child.try_wait().ok().flatten();
        process.ended = ended.is_some();
        if let Some(status) = ended {
            let (what, log) = (&process.what, process.log.display());
            return Err(EvmError::Stopped(format!("{what} has ended ({status}); see {log}")));
        }
        if Instant::now() > deadline {
            return Err(EvmError::Stopped(format!("a node does not come up; see {}", process.log.display())));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// The processes of all nodes; stopped when dropped.
#[derive(Default)]
struct RunningNodes(Vec<Process>);

struct Process {
    what: String,
    log: PathBuf,
    child: Child,
    ended: bool,
}

impl Process {
    /// Whether it is the one that listens there.
    fn has_port(&self, address: &str) -> bool {
        let holder = address.parse().ok().and_then(|address| sockets::holder(Protocol::Tcp, address));
        holder.and_then(|holder| holder.program).is_some_and(|program| program.pid == self.child.id())
    }

    /// Sends a request to end; returns whether the process was there. Once it is known to have ended, another process
    /// may have its number.
    fn terminate(&mut self) -> bool {
        self.ended |= !matches!(self.child.try_wait(), Ok(None));
        let id = Pid::from_raw(self.child.id() as i32).filter(|_| !self.ended);
        id.is_some_and(|id| kill_process(id, Signal::TERM).is_ok())
    }
}

impl RunningNodes {
    /// Starts the nodes of these homes: CometBFT when its application listens.
    fn start_all(
        &mut self,
        options: &EvmTestnet,
        words: &Mnemonic,
        cometbft: &Path,
        homes: &[Home],
        stop: &StopSignal,
    ) -> Result<(), EvmError> {
        let first = self.0.len();
        for home in homes {
            let [application, _] = commands(options, words, cometbft, home)?;
            self.start(application, home, "hearth")?;
        }
        for (process, home) in self.0[first..].iter_mut().zip(homes) {
            wait_for_application(process, home, stop)?;
        }
        for home in homes {
            let [_, engine] = commands(options, words, cometbft, home)?;
            self.start(engine, home, "cometbft")?;
        }
        Ok(())
    }

    fn start(&mut self, mut command: Command, home: &Home, name: &str) -> Result<(), EvmError> {
        let log = home.folder.join(format!("{name}.log"));
        let what = format!("{name} of {}", home.folder.display());
        let failed = |source| EvmError::Start { what: what.clone(), source };
        let out = File::options().create(true).append(true).open(&log).map_err(failed)?;
        command.stdout(out.try_clone().map_err(failed)?).stderr(out);
        let child = command.spawn().map_err(failed)?;
        self.0.push(Process { what, log, child, ended: false });
        Ok(())
    }

    /// Reports processes that have exited; returns whether any is left.
    fn look(&mut self) -> bool {
        for process in self.0.iter_mut().filter(|process| !process.ended) {
            if let Ok(Some(status)) = process.child.try_wait() {
                process.ended = true;
                note(format_args!("{} has ended ({status}); see {}", process.what, process.log.display()));
            }
        }
        self.0.iter().any(|process| !process.ended)
    }

    /// CometBFT's processes first: an application that is gone is an error to them.
    fn stop(&mut self) {
        while let Some(last) = self.0.last() {
            let name = last.what.split(' ').next().unwrap_or_default().to_owned();
            let all = std::mem::take(&mut self.0).into_iter();
            let (mut group, rest): (Vec<_>, Vec<_>) = all.partition(|process| process.what.starts_with(&name));
            self.0 = rest;
            for process in &mut group {
                process.terminate();
            }
            let deadline = Instant::now() + STOP_WITHIN;
            for process in &mut group {
                while matches!(process.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                    std::thread::sleep(LOOK_EVERY);
                }
                let _ = process.child.kill();
                let _ = process.child.wait();
            }
        }
    }
}

impl Drop for RunningNodes {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_process_is_not_signalled() {
        let process = |program: &str| {
            let child = Command::new(program).arg("60").stdout(Stdio::null()).spawn().unwrap();
            Process { what: program.into(), log: PathBuf::new(), child, ended: false }
        };
        let mut asleep = process("sleep");
        assert!(asleep.terminate());
        asleep.child.wait().unwrap();
        let mut gone = process("echo");
        gone.child.wait().unwrap();
        assert!(!asleep.terminate() && !gone.terminate());
    }

    #[test]
    fn another_programs_port_is_not_the_applications() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut asleep = Process { what: "sleep".into(), log: PathBuf::new(), child, ended: false };
        assert!(!asleep.has_port(&taken.local_addr().unwrap().to_string()));
        assert!(asleep.terminate());
        asleep.child.wait().unwrap();
    }

    #[test]
    fn commands_are_shown_as_they_are_typed() {
        let mut command = Command::new("hearth");
        command.args(["evm", "--mnemonic", "two words"]);
        assert_eq!(shown(&command), "hearth evm --mnemonic 'two words'");
    }

    #[test]
    fn a_network_runs_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = lock(folder.path()).expect("nobody else");
        assert!(matches!(lock(folder.path()), Err(EvmError::Running(_))));
        drop(first);
        assert!(lock(folder.path()).is_ok());
    }
}
