//! `hearth run`: runs the node as a persistent local chain.

mod catch_up;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use hearth_command::exit_code::{ExitCode, FAILED};
use hearth_command::output::{CommandOutput, note, plural};
use hearth_command::service_manager::ServiceManager;
use hearth_command::stop::StopSignal;
use hearth_ledger::blockstore;
use hearth_machine::port::reachable;
use hearth_wire::base58::encode_32;
use hearth_wire::vote::VOTE_TRANSACTION_BYTES;

use crate::admin::{AdminError, AdminServer, AdminState, Facts, Stage};
use crate::boot::{self, BootError, Chain, Instruments, NodeParts, RunningNode};
use crate::config::{Config, ConfigFile};
use crate::developer::{self, FlagError, Flags, GenesisOverrides};
use crate::ledger_command;
use crate::peers::divergence::DivergenceError;
use crate::peers::join::JoinError;
use crate::ports::BoundPorts;
use crate::replay::{ReplayControl, ReplayError, ReplaySummary};
use crate::start_checks;
use catch_up::CatchUp;

/// Interval of health checks. A stop request interrupts the wait.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The same where a tile is apart: the end of its process shows at such a check alone.
const LOOK_AT_PROCESS_EVERY: Duration = Duration::from_millis(50);
/// Interval of progress reports during replay.
const SAY_EVERY: Duration = Duration::from_secs(2);
/// How long the end of a recorded session may take: long enough to compress the largest one on a core that others use.
const SESSION_PATIENCE: Duration = Duration::from_secs(300);

/// The arguments of `hearth run`.
#[derive(Args)]
pub struct Options {
    /// The option `--config`, which names the configuration file.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The options that replace keys of the configuration file.
    #[command(flatten)]
    pub flags: Flags,
    /// End when this process, which has started it, does.
    #[arg(long, value_name = "PID", hide = true)]
    pub parent: Option<u32>,
}

/// Why a node ended, other than by Ctrl-C.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not start.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// An option is invalid.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// The admin socket cannot be served.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// A tile panicked, which ends the node.
    #[error(transparent)]
    Died(#[from] hearth_tile::core::TilePanic),
    /// It has diverged from its cluster.
    #[error(transparent)]
    Divergence(#[from] DivergenceError),
}

impl ExitCode for RunError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Boot(why) => why.exit_code(),
            Self::Flag(why) => why.exit_code(),
            Self::Divergence(why) => why.exit_code(),
            Self::Admin(_) | Self::Died(_) => FAILED,
        }
    }
}

impl RunError {
    /// The same for a node whose configuration is in `file`: the commands in its advice name the file, too.
    pub fn of_file(mut self, file: &ConfigFile) -> Self {
        if let Self::Boot(BootError::Damaged { options, .. }) = &mut self {
            *options = ledger_command::with_file(file, options);
        }
        self
    }
}

/// Runs until Ctrl-C. Continues if nobody reads its output: the chain matters more.
///
/// If the usual ports are in use, this node takes others, except for ports that the configuration file (`keys` are its
/// keys) or an option names.
///
/// With `admin` the node serves the admin socket in its ledger folder, and shows how far it is behind its cluster.
pub fn run(
    mut config: Config,
    keys: &[String],
    flags: &Flags,
    instruments: Option<Instruments>,
    admin: Option<&Arc<AdminState>>,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(), RunError> {
    let cores = boot::cores(&config.layout)?;
    let topology = boot::topology(&config, &cores, false).map_err(BootError::Layout)?;
    start_checks::nobody_has_the_name(&config, start_checks::NAME_OF_RUN).map_err(BootError::from)?;
    let asked = |key: &str| flags.asks_for(key) || keys.iter().any(|named| named == key);
    // From here on no other program can take them, however long the replay is.
    let mut bound = BoundPorts::take(&mut config, topology.count("net"), &asked).map_err(BootError::from)?;
    let config = &config;
    start_checks::check(config, &topology, start_checks::NAME_OF_RUN).map_err(BootError::from)?;
    boot::unused_places(config, &topology).iter().for_each(|unused| note(format_args!("notice: {unused}")));
    short_slots(config).iter().for_each(|short| note(format_args!("notice: {short}")));
    let folder = config.expand(&config.ledger.path);
    boot::check_session(config, &folder, flags.reset).map_err(BootError::from)?;
    let exists = !flags.reset && boot::find_genesis(&folder)?;
    let beginning = GenesisOverrides::of(flags, exists)?;
    if flags.reset {
        developer::reset(config, &folder)?;
    }
    let enter = |stage: Stage| admin.into_iter().for_each(|admin| admin.enter(stage.clone()));
    // Until it is dropped it serves the socket.
    let _server = admin.map(|admin| AdminServer::start(&folder, Arc::clone(admin))).transpose()?;
    enter(Stage::Joining);
    if !join(config, &folder, &mut bound, stop)? {
        say.line("  stopping");
        return Ok(());
    }
    enter(Stage::Loading);
    let Some(chain) = open_chain(config, &folder, &beginning, flags, stop)? else {
        say.line("  stopping");
        return Ok(());
    };
    enter(Stage::Starting);
    tell_chain(config, &folder, &chain, say);
    if let Some(cloned) = beginning.cloned(flags) {
        say.line(format_args!("  cloned    {cloned}"));
    }
    say.line(hearth_command::output::layout(&topology));
    let moved = (!bound.moved.is_empty()).then(|| bound.ports.numbers(&bound.moved));
    let running = boot::boot(config, NodeParts { topology, bound, chain, instruments }, None)?;
    say.line(addresses(config, &running));
    if let Some(isolation) = running.node.isolation() {
        say.line(format_args!("  isolated  {isolation}"));
    }
    if let Some(others) = moved {
        note(format_args!("notice: other programs use the usual ports, so this node has others: {others}"));
    }
    enter(Stage::Running(facts(config, &running)));
    say.line("  ready; Ctrl-C stops the node");
    let mut manager = ServiceManager::ready();
    let catch_up = admin.filter(|_| config.joins()).map(|_| CatchUp::new(running.slots().1));
    let tiles = running.tiles.clone();
    stop.explain(move || tiles.unstopped());
    let failure = wait_for_end(&running, stop, &mut manager, catch_up);
    manager.stopping();
    say.line("  stopping");
    // A dead tile may have left others waiting: from now on their wait is bounded.
    stop.set();
    stop_node(config, running, stop)?;
    failure.map_or(Ok(()), Err)?;
    let_go_of_workspace(stop);
    Ok(())
}

/// Stops the node. A recorded session is written after the tiles have stopped, which may take longer than the grace
/// period; without the guard the process would end in the middle, and the session would be lost.
fn stop_node(config: &Config, running: RunningNode, stop: &StopSignal) -> Result<(), hearth_tile::core::TilePanic> {
    let records = !config.development.capture.folder.as_os_str().is_empty();
    let _save = records.then(|| stop.save("the recorded session", SESSION_PATIENCE));
    running.stop()
}

/// Opens the chain, and reports how far its replay is. Returns `None` if the node was stopped.
fn open_chain(
    config: &Config,
    folder: &Path,
    beginning: &GenesisOverrides,
    flags: &Flags,
    stop: &StopSignal,
) -> Result<Option<Chain>, BootError> {
    let mut said = Instant::now();
    let replaying = |replayed: &ReplaySummary| {
        if said.elapsed() > SAY_EVERY && !flags.quiet {
            said = Instant::now();
            note(format_args!("  … replayed to slot {}", replayed.last_slot));
        }
        if stop.is_set() { ReplayControl::Break(()) } else { ReplayControl::Continue(()) }
    };
    match boot::open_chain(config, folder, beginning, |_| {}, replaying) {
        Err(BootError::Replay(ReplayError::Stopped(_))) => Ok(None),
        opened => opened.map(Some),
    }
}

/// The facts about a running node, for its admin socket.
fn facts(config: &Config, running: &RunningNode) -> Facts {
    // `getHighestSnapshotSlot` names the archives that are served; who waits for a new one of a folder into which the
    // node writes none waits for ever.
    let shows_new = config.snapshots.write_archives || !config.snapshots.serve_archives;
    Facts {
        rpc: running.rpc,
        takes_snapshots: running.takes_snapshots() && shows_new,
        gossip: running.gossip(),
        voters: running.desks.voters.clone(),
        identity: running.desks.identity.clone(),
    }
}

/// Fetches the genesis and a snapshot if the node joins a cluster. Returns false if it was stopped.
fn join(config: &Config, folder: &Path, bound: &mut BoundPorts, stop: &StopSignal) -> Result<bool, BootError> {
    let Some(at) = bound.ports.cluster.filter(|_| config.joins()) else { return Ok(true) };
    match boot::join(config, folder, bound, at, stop) {
        Err(BootError::Join(JoinError::Stopped)) => Ok(false),
        joined => joined.map(|()| true),
    }
}

/// Waits until the node is stopped, a tile dies, or the node has diverged from its cluster. Returns the divergence.
/// Shows meanwhile how far the node is behind its cluster, if `catch_up` is given.
fn wait_for_end(
    running: &RunningNode,
    stop: &StopSignal,
    manager: &mut ServiceManager,
    mut catch_up: Option<CatchUp>,
) -> Option<DivergenceError> {
    let mut failure = None;
    let look_every = if running.node.topology.apart().is_some() { LOOK_AT_PROCESS_EVERY } else { LOOK_EVERY };
    while !stop.is_set() && running.node.died().is_none() && failure.is_none() {
        stop.wait(look_every);
        manager.alive();
        catch_up.iter_mut().for_each(|catch_up| catch_up.look(running.slots()));
        failure = running.failure();
    }
    failure.or_else(|| running.last_failure())
}

/// Drops the handles that name unstopped tiles, which hold the workspace: its file is removed with the last holder. Not
/// after a failure: then the file stays, and `hearth monitor` can show the node's last state.
fn let_go_of_workspace(stop: &StopSignal) {
    stop.explain(Vec::new);
}

/// With shorter slots an idle chain grows fast.
const SLOT_MS_SHORT: u64 = 20;
/// A tick, which is an entry without transactions: hash count, hash, transaction count.
const ENTRY_BYTES: usize = 8 + 32 + 8;

/// The number of entries before a batch of them.
const COUNT_BYTES: usize = 8;

/// Block-store bytes of a block that contains only its ticks, and optionally one entry with the node's vote.
fn idle_block_bytes(ticks: u64, votes: bool) -> usize {
    let vote = if votes { ENTRY_BYTES + VOTE_TRANSACTION_BYTES } else { 0 };
    blockstore::block_size(COUNT_BYTES + ticks as usize * ENTRY_BYTES + vote)
}

/// Warns about the cost of very short slots.
fn short_slots(config: &Config) -> Option<String> {
    let genesis = &config.development.genesis;
    let micros = genesis.ticks_per_slot * genesis.target_tick_duration_micros;
    if micros >= SLOT_MS_SHORT * 1_000 || config.development.are_slots_on_demand() || config.follows() {
        return None;
    }
    // Bytes per microsecond are MB per second.
    let block = idle_block_bytes(genesis.ticks_per_slot, config.consensus.vote);
    let megabytes = 3600.0 * block as f64 / micros.max(1) as f64;
    let size = if megabytes < 1000.0 { format!("{megabytes:.0} MB") } else { format!("{:.1} GB", megabytes / 1000.0) };
    let idle = match config.consensus.vote {
        true => "with no transaction but the node's votes",
        false => "without any transaction",
    };
    Some(format!(
        "slots are {} ms long: {idle} that is about {size} of blocks an hour, of which `ledger.limit_size` keeps \
         {:.0} GB; --slots-on-demand makes blocks only where there is work",
        micros as f64 / 1e3,
        config.ledger.limit_size as f64 / 1e9
    ))
}

/// Reports which chain it is, and its height.
fn tell_chain(config: &Config, folder: &Path, chain: &Chain, say: &CommandOutput) {
    let found = match chain.recovery.segment_count {
        0 | 1 if chain.recovery.last_whole_slot.unwrap_or(0) == 0 && chain.recovery.torn.is_none() => {
            "a new chain".into()
        }
        _ => chain.recovery.to_string(),
    };
    let place = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    say.line(format_args!("hearth {}, node `{}`", env!("CARGO_PKG_VERSION"), config.name));
    say.line(format_args!("  ledger    {} ({found})", place.display()));
    say.line(format_args!("  genesis   {}", encode_32(chain.genesis.hash())));
    say.line(format_args!("  identity  {}", encode_32(&chain.identity())));
    let r = &chain.replayed;
    if r.from_slot > 0 {
        say.line(format_args!("  snapshot  of slot {}", r.from_slot));
    }
    if r.blocks > 0 {
        say.line(format_args!(
            "  replayed  {} {}, {} {}, to slot {}, bank hash {}",
            r.blocks,
            plural(r.blocks, "block"),
            r.transactions,
            plural(r.transactions, "transaction"),
            r.last_slot,
            encode_32(&r.bank_hash)
        ));
    }
}

/// The node's addresses for clients.
fn addresses(config: &Config, running: &RunningNode) -> String {
    let (ports, rpc, websocket) = (running.ports, running.rpc, running.websocket());
    let to = |address: SocketAddr| reachable(address);
    let mut lines = format!("  rpc       http://{}\n  websocket ws://{}\n", to(rpc), to(websocket));
    if running.has_dashboard {
        lines += &format!("  dashboard http://{}/dashboard\n", to(rpc));
    }
    if !config.follows() {
        lines += &format!("  tpu       {} (QUIC), {} (UDP)\n", to(ports.quic), to(ports.udp));
    }
    if let Some(cluster) = ports.cluster {
        lines += &format!("  gossip    {}\n", cluster.gossip);
    }
    lines += &format!("  metrics   http://{}/metrics", to(ports.metrics));
    let open = [rpc, ports.quic, ports.metrics].iter().any(|address| address.ip().is_unspecified());
    lines + if open { "\n  listening on all addresses of this machine" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SlotTiming;

    #[test]
    fn very_short_slots_are_noticed() {
        let mut config = Config::default();
        assert_eq!(short_slots(&config), None);
        // 64 ticks of 48 B, a vote of 400 B and 264 B of records in each of 977 blocks a second.
        config.development.genesis.target_tick_duration_micros = 16;
        let said = short_slots(&config).expect("a notice");
        assert!(said.starts_with("slots are 1.024 ms long: with no transaction but the node's votes that "), "{said}");
        assert!(said.contains(" 13.1 GB of blocks an hour"), "{said}");
        // 62.5 blocks a second.
        config.development.genesis.target_tick_duration_micros = 250;
        assert!(short_slots(&config).expect("a notice").contains(" about 841 MB of blocks an hour"));
        // 80 blocks a second, of which ticks are the smallest part.
        config.development.genesis.ticks_per_slot = 2;
        config.development.genesis.target_tick_duration_micros = 6_250;
        assert!(short_slots(&config).expect("a notice").contains(" about 219 MB of blocks an hour"));
        config.consensus.vote = false;
        let said = short_slots(&config).expect("a notice");
        assert!(said.contains(": without any transaction that is about 104 MB of blocks an hour"), "{said}");
        config.development.slots = SlotTiming::OnDemand;
        assert_eq!(short_slots(&config), None);
    }
}
