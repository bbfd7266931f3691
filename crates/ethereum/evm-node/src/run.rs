//! `hearth evm run`: a chain of our own, made by this process alone.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use alloy_primitives::U256;
use clap::{Args, FromArgMatches};
use hearth_command::NO_LAB;
use hearth_command::output::{CommandOutput, note};
use hearth_command::service_manager::ServiceManager;
use hearth_command::stop::StopSignal;
use hearth_evm::blocks::BlocksError;
use hearth_evm::chain::{BlockTime, Chain, ChainConfig, ChainError};
use hearth_evm::exec::SpecId;
use hearth_evm::genesis::block_zero::BlockZeroOptions;
use hearth_evm::genesis::{Genesis, GenesisError};
use hearth_evm::pool::PoolConfig;
use hearth_evm::state::{FinalCheckpoint, History, StateError};
use hearth_machine::port::{PortError, Protocol, ReservedTcp, reachable};
use hearth_ring::{WORKSPACE_FOLDER, unix_time, workspace_path};

use super::accounts::{self, DevAccount, Mnemonic};
use super::stage_reporter::{Sources, Stages};
use super::{EvmError, EvmRun, Instruments, comet, dump, genesis_file, hardfork_name};

/// Texts for the console that may wait for their reader.
const CONSOLE_QUEUE: usize = 1_024;
/// How often the chain's health is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the state may be written at the end: well within the time in which the process ends.
const SHORTEN_MAX: Duration = Duration::from_secs(5);
/// How long the file of `--state` may make no progress at the end: long enough for a large state to become JSON, and
/// for a slow disk to sync it.
const SAVE_PATIENCE: Duration = Duration::from_secs(120);
/// Gas of a block for each second that blocks are apart, and at least. Half of it is the target, beyond which the base
/// fee rises: 20,000 transfers a second stay below.
const GAS_PER_SECOND: u64 = 1_000_000_000;
/// Default chain id, that of anvil and Hardhat.
const CHAIN_ID: u64 = 31337;
/// Threads beyond which a block is hardly faster.
const THREADS_MAX: usize = 4;

/// Returns the limits of the pool.
fn pool(options: &EvmRun, cometbft: bool) -> PoolConfig {
    let usual = if cometbft { PoolConfig::comet() } else { PoolConfig::default() };
    PoolConfig {
        sidecar_bytes: options.sidecar_mib.map_or(usual.sidecar_bytes, |mib| (mib as usize) << 20),
        sidecar_blocks: options.sidecar_blocks.unwrap_or(usual.sidecar_blocks),
        ..usual
    }
}

/// Returns how many states to keep; `None` without such an option.
fn history(options: &EvmRun) -> Option<History> {
    let blocks = if options.archive { Some(u64::MAX) } else { options.history };
    let bytes = options.history_mib.map_or(History::BYTES, |mib| u64::from(mib) << 20);
    blocks.map(|blocks| History { blocks, bytes })
}

/// Runs a node until Ctrl-C.
pub fn run(
    options: &EvmRun,
    instruments: Option<Instruments>,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(), EvmError> {
    check(options)?;
    let words = options.words.words()?;
    let accounts = accounts::derive(&words, options.accounts)?;
    let genesis = Genesis { limits: options.limits.limits(), ..genesis(options, &accounts)? };
    let cometbft = options.comet.is_cometbft();
    let config = ChainConfig {
        dir: options.data_dir.clone(),
        retain_blocks: options.comet.retain_blocks,
        history: history(options),
        pool: pool(options, cometbft),
        block_time: if cometbft { BlockTime::Manual } else { block_time(options) },
        threads: options.threads.map_or_else(default_threads, usize::from),
        ..ChainConfig::new(genesis)
    };
    // Before the chain is opened, so that no other program takes it meanwhile.
    let held = hold(SocketAddr::new(options.bind_address, options.rpc_port))?;
    let chain = Chain::open(config).map_err(|why| began_otherwise(options, &accounts, why))?;
    // Known once the server has a port, and there are stages to see.
    let workspace = Arc::new(OnceLock::new());
    let instruments = of_chain(instruments, options, &chain, &workspace);
    let has_dashboard = instruments.look_at.is_ok();
    let web3 = web3_config(options, &accounts, held.address());
    let socket = held.listen().map_err(|source| port_error(web3.address, source))?;
    let server = hearth_web3::serve_on(socket, web3, chain.clone(), instruments)?;
    let mut engine = cometbft.then(|| comet::start(&chain, &options.comet, options.data_dir.as_deref())).transpose()?;
    let name = workspace_name(server.address());
    let stages = stages(&name, Sources { chain: chain.clone(), web3: server.counters() }, &workspace);
    greet(options, &words, &accounts, &chain, server.address(), say);
    if stages.is_some() {
        say.line(format_args!("  stages    hearth monitor --name {name}"));
        if has_dashboard {
            say.line(format_args!("  dashboard http://{}/dashboard", reachable(server.address())));
        }
    }
    if !options.bind_address.is_loopback() {
        note(format_args!("notice: {}", reach(cometbft, accounts.len())));
    }
    say.line("  ready; Ctrl-C stops the node");
    let mut manager = ServiceManager::ready();
    let mut failure = None;
    while !stop.is_set() && failure.is_none() {
        std::thread::sleep(LOOK_EVERY);
        manager.alive();
        failure = chain.failure();
        if let Some(complaint) = engine.as_mut().and_then(comet::Engine::complaint) {
            tracing::warn!("{complaint}");
        }
    }
    say.line("  stopping");
    manager.stopping();
    stop.set();
    let save = options.state.as_ref().map(|path| (path, stop.save("the file of --state", SAVE_PATIENCE)));
    drop(engine);
    server.stop();
    drop(stages);
    chain.stop();
    // Save before mere optimizations: a chain in memory has no other copy.
    let written = save.map(|(path, save)| dump::write(path, &chain, &save).map(|()| path)).transpose();
    shorten(&chain, say);
    if let Some(path) = written? {
        say.line(format_args!("  state     written to {}", path.display()));
    }
    failure.map_or(Ok(()), |why| Err(EvmError::Stopped(why)))
}

/// Default number of threads that execute a block.
pub(super) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

/// Returns the instruments for this chain, whose workspace path is known later.
fn of_chain(
    instruments: Option<Instruments>,
    options: &EvmRun,
    chain: &Chain,
    workspace: &Arc<OnceLock<PathBuf>>,
) -> hearth_web3::Instruments {
    let look_at = match instruments {
        _ if options.no_dashboard => Err("--no-dashboard"),
        Some(instruments) => Ok((instruments.look_at)(Arc::clone(workspace))),
        None => Err(NO_LAB),
    };
    hearth_web3::Instruments { look_at, profiler: instruments.map(|it| (it.profiler)(chain.clone())) }
}

fn web3_config(options: &EvmRun, accounts: &[DevAccount], address: SocketAddr) -> hearth_web3::Config {
    let mut web3 = hearth_web3::Config::new(address);
    web3.accounts = accounts.iter().map(|account| account.key).collect();
    // Development methods would change the chain on this node alone.
    web3.dev = !options.comet.is_cometbft();
    web3.durable = options.durable;
    web3.hosts = options.allow_host.clone();
    web3.origins = options.allow_origin.clone();
    web3.limits.connections_per_address = options.max_connections_per_address;
    // It executes such blocks twice, and is useful to developers only.
    let prints = web3.dev && !options.quiet && !options.no_console_log;
    web3.console = prints.then_some(print_console);
    if let Some(version) = &options.client_version {
        web3.client_version.clone_from(version);
    }
    web3
}

fn hold(address: SocketAddr) -> Result<ReservedTcp, PortError> {
    ReservedTcp::hold(address).map_err(|source| port_error(address, source))
}

fn port_error(address: SocketAddr, source: std::io::Error) -> PortError {
    PortError::of(address, Protocol::Tcp, "JSON-RPC (HTTP and WebSocket)", "--rpc-port", source).explained()
}

/// Prints contracts' console output along with the node's own. Lines wait in a bounded queue and are dropped when it is
/// full: a call must not block on a pipe that is not read.
fn print_console(text: &str) {
    static LINES: OnceLock<SyncSender<String>> = OnceLock::new();
    let lines = LINES.get_or_init(|| {
        let (lines, waiting) = sync_channel(CONSOLE_QUEUE);
        let print = move || waiting.iter().for_each(|text: String| CommandOutput::default().line(text));
        // Without the thread the queue has no end that takes anything, and all is dropped.
        let _ = std::thread::Builder::new().name("console".into()).spawn(print);
        lines
    });
    let _ = lines.try_send(text.to_owned());
}

/// Refuses options that contradict each other.
fn check(options: &EvmRun) -> Result<(), EvmError> {
    options.comet.check()?;
    if options.history_mib.is_some() && !options.archive && options.history.is_none() {
        return Err(EvmError::Idle("--history-mib", "without --history or --archive"));
    }
    if !options.comet.is_cometbft() {
        return Ok(());
    }
    if options.block_time.is_some() {
        return Err(EvmError::Idle(
            "--block-time",
            "with --consensus cometbft: CometBFT decides when there is a block",
        ));
    }
    options.limits.first_given().map_or(Ok(()), |option| Err(EvmError::OneNode(option)))
}

/// Compacts the chain's files so that the next start is fast. A failure only costs time there.
pub(super) fn shorten(chain: &Chain, say: &CommandOutput) {
    let begun = Instant::now();
    match chain.shorten(SHORTEN_MAX) {
        Ok(FinalCheckpoint::Needless) => {}
        Ok(FinalCheckpoint::Written) => say.line(format_args!(
            "  state     written as a whole in {:.1} s: the next start does not go through the log",
            begun.elapsed().as_secs_f64()
        )),
        Ok(FinalCheckpoint::TooLong) => say.line(format_args!(
            "  state     not written as a whole within {} s: the next start goes through the log",
            SHORTEN_MAX.as_secs()
        )),
        Err(error) => tracing::warn!(%error, "the next start goes through the log of the state"),
    }
}

/// Describes what clients that reach the node from elsewhere can do.
fn reach(cometbft: bool, accounts: usize) -> &'static str {
    match (cometbft, accounts) {
        (false, _) => "any client that reaches this address can change the chain at will",
        (true, 0) => "any client that reaches this address can send transactions and make expensive calls",
        (true, _) => "any client that reaches this address can have the node sign for its accounts",
    }
}

fn block_time(options: &EvmRun) -> BlockTime {
    options.block_time.unwrap_or(BlockTime::Instant)
}

/// A name for each node of this machine: by the port, and by the address where that is not the usual one.
fn workspace_name(address: SocketAddr) -> String {
    match address.ip() {
        ip if ip == Ipv4Addr::LOCALHOST => format!("evm-{}", address.port()),
        ip => format!("evm-{}-{}", ip.to_string().replace(':', "-"), address.port()),
    }
}

/// Starts the report that `hearth monitor` and the dashboard read. Where it cannot start, the chain runs anyway.
fn stages(name: &str, sources: Sources, workspace: &OnceLock<PathBuf>) -> Option<Stages> {
    let path = workspace_path(Path::new(WORKSPACE_FOLDER), name);
    match Stages::start(&path, name, sources) {
        Ok(stages) => {
            let _ = workspace.set(path);
            Some(stages)
        }
        Err(why) => {
            note(format_args!("notice: neither `hearth monitor` nor the dashboard can show this node: {why}"));
            None
        }
    }
}

fn genesis(options: &EvmRun, accounts: &[DevAccount]) -> Result<Genesis, EvmError> {
    let of_file = |option, path: &Path| {
        let failed = |what: String| EvmError::File { option, path: path.to_owned(), what };
        let text = comet::genesis_text(std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?);
        // Imported blocks go on under the rules by which they were imported.
        let is_foreign = options.data_dir.as_deref().is_some_and(genesis_file::is_without_outputs);
        let read = match is_foreign && !options.comet.is_cometbft() {
            true => genesis_file::of_text(&text),
            false => hearth_evm_utxo::genesis::from_json(&text),
        };
        read.map_err(|error| failed(error.to_string()))
    };
    match (&options.genesis, &options.state) {
        (Some(path), _) => of_file("--genesis", path),
        (None, Some(path)) if path.exists() => {
            let genesis = of_file("--state", path)?;
            let other = |what: String| Err(EvmError::File { option: "--state", path: path.clone(), what });
            match (options.chain_id, options.timestamp) {
                (Some(id), _) if id != genesis.chain_id => {
                    other(format!("it is of chain {}, not of chain {id}", genesis.chain_id))
                }
                (_, Some(time)) if time != genesis.timestamp => {
                    other(format!("its time is {}, not {time} as --timestamp says", genesis.timestamp))
                }
                _ => under(genesis, options).or_else(|error| other(error.to_string())),
            }
        }
        _ => {
            let funded: Vec<_> = accounts.iter().map(|account| (account.address, options.balance)).collect();
            let chain_id = options.chain_id.unwrap_or(CHAIN_ID);
            let genesis = hearth_evm_utxo::genesis::dev(chain_id, &funded, gas_limit(options));
            let mut genesis = genesis.with_beginning(beginning(options, accounts)?);
            if let Some(time) = options.timestamp {
                genesis.clock_offset_s = time.cast_signed() - unix_time().as_secs().cast_signed();
            }
            Ok(under(genesis, options).expect("a new chain has no outputs"))
        }
    }
}

/// The genesis of the chain in `dir`, which began with options of `hearth evm run`, and with these words.
pub(super) fn genesis_of_folder(dir: &Path, words: &accounts::MnemonicOptions) -> Result<Genesis, EvmError> {
    let failed = |what: String| EvmError::File { option: "--data-dir", path: dir.to_owned(), what };
    let kept = BlockZeroOptions::options_in_folder(dir);
    if kept.is_empty() {
        return Err(failed("no chain of `hearth evm run` without --genesis began there: give its --genesis".into()));
    }
    let mut args: Vec<OsString> = vec!["run".into(), "--data-dir".into(), dir.into()];
    // The words themselves are not kept.
    for (name, value) in kept.into_iter().filter(|(name, _)| name != "--mnemonic") {
        args.extend([name.into(), value.into()]);
    }
    let command = EvmRun::augment_args(clap::Command::new("run"));
    let matches = command.try_get_matches_from(args).map_err(|error| failed(error.to_string()))?;
    let options = EvmRun::from_arg_matches(&matches).map_err(|error| failed(error.to_string()))?;
    let accounts = accounts::derive(&words.words()?, options.accounts)?;
    genesis(&options, &accounts)
}

/// Gas that a block may use.
fn gas_limit(options: &EvmRun) -> u64 {
    let by_time = match block_time(options) {
        BlockTime::Every(every) => GAS_PER_SECOND.saturating_mul(every.as_secs_f64().ceil() as u64),
        BlockTime::Instant | BlockTime::Manual => GAS_PER_SECOND,
    };
    options.gas_limit.unwrap_or(by_time)
}

/// The options that the chain depends on from block zero, as a folder records them. Transaction limits are not among
/// them: they may change until the first block, and are stored with the forks.
fn of_the_chain(options: &EvmRun, accounts: &[DevAccount]) -> Vec<(&'static str, String)> {
    let mut all = vec![
        ("--chain-id", options.chain_id.unwrap_or(CHAIN_ID).to_string()),
        ("--accounts", options.accounts.to_string()),
        ("--balance", ether_text(options.balance)),
        ("--gas-limit", gas_limit(options).to_string()),
        ("--hardfork", hardfork_name(options.hardfork.unwrap_or(SpecId::OSAKA)).into()),
    ];
    // The words themselves are secret.
    all.extend(accounts.first().map(|first| ("--mnemonic", format!("words whose first account is {}", first.address))));
    all
}

/// Explains an error about a folder's chain that began with other options: block zero's hash does not show which.
fn began_otherwise(options: &EvmRun, accounts: &[DevAccount], why: ChainError) -> EvmError {
    let is_other = matches!(
        why,
        ChainError::Blocks(BlocksError::OtherChain { .. })
            | ChainError::State(StateError::OtherChain { .. })
            | ChainError::Schedule { .. }
    );
    let Some(dir) = options.data_dir.as_ref().filter(|_| is_other && options.genesis.is_none()) else {
        return why.into();
    };
    let kept = BlockZeroOptions::options_in_folder(dir);
    let now = of_the_chain(options, accounts);
    let before = |name: &str| kept.iter().find(|(other, _)| other == name).map(|(_, value)| value);
    let differ = now.iter().filter_map(|(name, now)| {
        let before = before(name).filter(|before| *before != now)?;
        let follows = *name == "--gas-limit" && options.gas_limit.is_none();
        let why = if follows { ", which follows from --block-time" } else { "" };
        Some(format!("{name} {before}, not {now}{why}"))
    });
    let differ: Vec<String> = differ.collect();
    if differ.is_empty() && matches!(why, ChainError::Schedule { .. }) {
        let set = "--code-size-limit, --disable-code-size-limit and --disable-tx-gas-limit set the limits, --hardfork the \
                   fork: give what the blocks were made under, or another --data-dir";
        return EvmError::File { option: "--data-dir", path: dir.clone(), what: format!("{why}. {set}") };
    }
    if differ.is_empty() {
        return why.into();
    }
    let what = format!(
        "the chain there began with {}. A chain's beginning cannot be changed: give what it began with, or another \
         --data-dir",
        differ.join("; with ")
    );
    EvmError::File { option: "--data-dir", path: dir.clone(), what }
}

fn ether_text(wei: U256) -> String {
    let text = alloy_primitives::utils::format_ether(wei);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Returns the folder's block zero; for a new chain, the one that the options describe.
fn beginning(options: &EvmRun, accounts: &[DevAccount]) -> Result<BlockZeroOptions, EvmError> {
    // Each validator makes block zero for itself: it has to be the same one.
    let now = if options.comet.is_cometbft() { 0 } else { unix_time().as_secs() };
    let timestamp_s = options.timestamp.unwrap_or(now);
    let wanted = BlockZeroOptions { timestamp_s, create2_deployer: !options.disable_default_create2_deployer };
    let Some(dir) = &options.data_dir else { return Ok(wanted) };
    let failed = |what: String| EvmError::File { option: "--data-dir", path: dir.clone(), what };
    let kept = BlockZeroOptions::in_folder(dir, wanted, &of_the_chain(options, accounts))
        .map_err(|error| failed(error.to_string()))?;
    match options.timestamp.filter(|time| *time != kept.timestamp_s) {
        Some(time) => {
            Err(failed(format!("block 0 there has time {}, not {time} as --timestamp says", kept.timestamp_s)))
        }
        None if options.disable_default_create2_deployer && kept.create2_deployer => {
            Err(failed("block 0 there has the contract that --disable-default-create2-deployer leaves out".into()))
        }
        None => Ok(kept),
    }
}

/// By the rules that the options name.
fn under(genesis: Genesis, options: &EvmRun) -> Result<Genesis, GenesisError> {
    match options.hardfork {
        Some(spec) => genesis.under(spec),
        None => Ok(genesis),
    }
}

fn greet(
    options: &EvmRun,
    words: &Mnemonic,
    accounts: &[DevAccount],
    chain: &Chain,
    at: SocketAddr,
    say: &CommandOutput,
) {
    let head = chain.head();
    say.line(format_args!("hearth {}, EVM chain {}", env!("CARGO_PKG_VERSION"), chain.chain_id()));
    match &options.data_dir {
        Some(dir) => {
            let place = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
            say.line(format_args!("  chain     {} (block {})", place.display(), head.number()));
            if let Some(recovery) = chain.recovery() {
                note(format_args!("notice: {recovery}"));
            }
        }
        None => say.line("  chain     in memory"),
    }
    say.line(format_args!("  genesis   {}", chain.block(0).map_or(head.hash, |zero| zero.hash)));
    let blocks = match block_time(options) {
        _ if options.comet.is_cometbft() => format!("by CometBFT, which connects to {}", options.comet.abci()),
        BlockTime::Every(every) => format!("every {} s", every.as_secs_f64()),
        BlockTime::Instant | BlockTime::Manual => "as transactions come".into(),
    };
    say.line(format_args!("  blocks    {blocks}, of {} gas", head.header.gas_limit));
    if !accounts.is_empty() && options.genesis.is_none() {
        say.text(accounts::listing(accounts, options.balance, words));
    }
    say.line(format_args!("  rpc       http://{at}\n  websocket ws://{at}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_address_warns_of_open_methods() {
        assert!(reach(false, 10).contains("at will"));
        assert!(!reach(true, 10).contains("at will") && reach(true, 10).contains("sign"));
        assert!(!reach(true, 0).contains("sign"));
    }

    #[test]
    fn nodes_of_one_port_have_names_of_their_own() {
        let names = ["127.0.0.1:8545", "127.0.0.2:8545", "[::1]:8545"].map(|at| workspace_name(at.parse().unwrap()));
        assert_eq!(names, ["evm-8545", "evm-127.0.0.2-8545", "evm---1-8545"]);
    }
}
