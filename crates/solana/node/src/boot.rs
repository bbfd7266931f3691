//! Builds a running node from a configuration.
//!
//! reads   the configuration, the ledger folder (genesis, keys, blocks)
//! writes  the ledger folder, the workspace file; starts tiles and RPC
//! memory  printed by `hearth config show --memory`

mod consensus;
mod downloads;
mod identity;
mod liveness;
mod outlook;
mod session;
mod tiles;
mod voting;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use hearth_command::NO_LAB;
use hearth_command::exit_code::{ExitCode, FAILED, UNSUPPORTED_CHAIN, WRONG_USE};
use hearth_command::stop::StopSignal;
use hearth_crypto::ed25519::SigningKey;
use hearth_gossip::board::Board;
use hearth_keys::{self as keys, Identity, KeyError};
use hearth_ledger::blockstore::{self, BlockStore, Recovery, StoreError, SyncPolicy};
use hearth_ledger::genesis::{ARCHIVE_NAME, CHAIN_NAME, GENESIS_NAME, forget_hard_forks, save_hard_forks};
use hearth_ledger::history::{self, History, HistoryError};
use hearth_ledger::snapshot::SnapshotError;
use hearth_ledger::snapshot_taker::Taker;
use hearth_ledger::stakes::genesis_accounts;
use hearth_ledger::{Account, DropTable, FeatureError, Genesis, GenesisConfig, GenesisError, Ledger, SlotError};
use hearth_machine::port::{PortError, reachable};
use hearth_pipeline::failure::Failure;
use hearth_pipeline::identity::IdentityWatch;
use hearth_pipeline::links::{RPC_POH, RPC_TXSEND, RPC_VERIFY};
use hearth_pipeline::node::{BootError as NodeError, Inlet, Node};
use hearth_pipeline::shred::Slot0;
use hearth_pipeline::topology::{self, Affinity, LayoutError};
use hearth_pipeline::tower::{self, SavedError, TowerError};
use hearth_pipeline::{benchg, bencho, gossip};
use hearth_ring::unix_time;
use hearth_rpc::{Admin, Counters, Limits, Profiler, RpcError, RpcNode, RpcServer};
use hearth_serve::dashboard::{LookAt, View};
use hearth_tile::Clock;
use hearth_tile::affinity::{self, Cores, Mistake};
use hearth_tile::topology::{CounterSpec, ServiceSpec, TileSpec, Topology};
use hearth_wire::base58::decode_32;
use hearth_wire::gossip::SocketKind;
use hearth_wire::{Hash, Pubkey};
use parking_lot::Mutex;

use crate::apart;
use crate::archives::{Archives, announce};
use crate::capture::{Capture, CaptureError};
use crate::config::{self, ClusterPorts, Config, Gossip, Layout, Ports, Rpc, Validator};
use crate::developer::{FlagError, GenesisOverrides};
use crate::history_repair;
use crate::ledger_command;
use crate::peers;
use crate::peers::divergence::{DivergenceError, DivergenceWatch};
use crate::peers::ip_echo::EchoServer;
use crate::peers::join::{ArchiveUrl, JoinError, Joiner};
use crate::peers::socket::PeerLinks;
use crate::ports::BoundPorts;
use crate::replay::{
    self, ReplayControl, ReplayError, ReplaySummary, is_history_damaged, is_replay_of_damage, is_replay_of_unsupported,
    is_store_damaged, signatures_are_valid,
};
use crate::restore::{self, Declared, RestoreError, RestoredState, StateFolders};
use crate::start_checks::PreflightError;
use consensus::Consensus;
use downloads::{newest_snapshot, offer};
use liveness::Tiles;
use outlook::Position;
use tiles::tile_configs;

pub use identity::{Desks, IdentitySwitch, SwitchError};
pub use session::check as check_session;
pub use tiles::{block_limits, idle, load_configs, pack_config, server_config, shred_memory};

/// Name of the RPC among the services.
pub const RPC: &str = "rpc";
/// Minimum slot duration with slots on demand, so that transactions that arrive together land together.
const SHORTEST_SLOT_NS: u64 = 5_000_000;

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The machine's cores cannot be determined.
    #[error("cannot tell which cores there are: {0}")]
    Cores(std::io::Error),
    /// The blocklist of cores is invalid.
    #[error("layout.blocklist_cores: {0}")]
    Blocklist(Mistake),
    /// The layout is invalid.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A start check failed.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// A port cannot be bound.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The ledger folder cannot be used.
    #[error("cannot use the ledger folder {}: {source}; --ledger (or ledger.path) names another", path.display())]
    Folder {
        /// The ledger folder as configured.
        path: PathBuf,
        /// Why it cannot be used, as the system says it.
        source: std::io::Error,
    },
    /// A key cannot be read or created.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No vote account is named, and the ledger folder has no key of one.
    #[error(
        "{0}; name the address or the key of the node's vote account (--vote-account, consensus.vote_account_path), or \
         let it not vote (consensus.vote = false)"
    )]
    VoteAccount(KeyError),
    /// The genesis cannot be loaded or created.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// A command-line option cannot be applied.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// The block store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The history cannot be opened.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The snapshots cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The state cannot be restored.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The chain has other features than this program.
    #[error("cannot run this chain: {0}")]
    Feature(#[from] FeatureError),
    /// The blocks on disk cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The tiles cannot be started.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The RPC cannot be started.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The cluster cannot be joined.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The node has diverged from its cluster.
    #[error(transparent)]
    Divergence(#[from] DivergenceError),
    /// The session cannot be recorded.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Files of the chain are damaged.
    #[error("{damage}. {}", ledger_command::advice(options))]
    Damaged {
        /// The error that found the damage.
        damage: Box<BootError>,
        /// The options that select this chain, each preceded by a space.
        options: String,
    },
}

impl BootError {
    /// Adds advice if files of `config`'s chain are damaged.
    fn with_advice(self, config: &Config) -> Self {
        let is_damage = match &self {
            Self::Store(error) => is_store_damaged(error),
            Self::History(error) => is_history_damaged(error),
            Self::Replay(error) => is_replay_of_damage(error),
            Self::Genesis(error) | Self::Join(JoinError::Genesis(error)) => error.is_damage(),
            _ => false,
        };
        match is_damage {
            true => Self::Damaged { damage: Box::new(self), options: ledger_command::options(config) },
            false => self,
        }
    }
}

impl ExitCode for BootError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Blocklist(_) | Self::Layout(_) => WRONG_USE,
            Self::Preflight(PreflightError::Pages(_) | PreflightError::Links(_)) => WRONG_USE,
            Self::Flag(why) => why.exit_code(),
            Self::Feature(_) => UNSUPPORTED_CHAIN,
            Self::Replay(why) if is_replay_of_unsupported(why) => UNSUPPORTED_CHAIN,
            Self::Divergence(why) => why.exit_code(),
            _ => FAILED,
        }
    }
}

/// The configuration of the load generator.
pub struct Load {
    /// Configuration of the benchg tiles, which generate and sign transactions.
    pub benchg: benchg::Config,
    /// The channel into which bencho puts its samples.
    pub samples: Sender<bencho::Sample>,
}

/// An opened and replayed chain, before anything runs.
pub struct Chain {
    /// The genesis in the ledger folder.
    pub genesis: Genesis,
    /// The accounts and the forks, as replayed.
    pub ledger: Arc<Ledger>,
    /// The recovery report of the block store.
    pub recovery: Recovery,
    /// The result of the replay.
    pub replayed: ReplaySummary,
    folder: PathBuf,
    identity: Identity,
    /// Follows its identity, which the operator may change while it runs.
    watch: IdentityWatch,
    faucet: Identity,
    store: BlockStore,
    history: Option<History>,
    taker: Option<Taker>,
    /// The archives that gossip announces.
    announced: Arc<gossip::AnnouncedArchives>,
}

impl Chain {
    /// The public identity key with which the node starts.
    pub fn identity(&self) -> Pubkey {
        self.identity.public
    }
}

/// Observes a node from within its process. This belongs to the lab, which a node does not depend on, so the program
/// provides it; a program without the lab has none.
#[derive(Clone, Copy)]
pub struct Instruments {
    /// Creates the dashboard's view of a node with this configuration.
    pub look_at: fn(&Config) -> LookAt,
    /// Creates the profiler of a node with this ledger and these kinds of tiles.
    pub profiler: fn(Arc<Ledger>, Vec<String>) -> Arc<dyn Profiler>,
}

/// The parts of a node before it runs.
pub struct NodeParts {
    /// The tiles, and the links between them.
    pub topology: Topology,
    /// The ports, which are bound before any tile runs.
    pub bound: BoundPorts,
    /// The chain to continue, opened and replayed.
    pub chain: Chain,
    /// The observers, if the program has any.
    pub instruments: Option<Instruments>,
}

/// A running node, until [`RunningNode::stop`].
pub struct RunningNode {
    /// The threads and processes of its tiles.
    pub node: Node,
    /// The ports it listens on.
    pub ports: Ports,
    /// The address at which it serves JSON-RPC over HTTP.
    pub rpc: SocketAddr,
    /// Whether the RPC serves the dashboard.
    pub has_dashboard: bool,
    /// The tiles as seen from outside.
    pub tiles: Tiles,
    /// The switches by which the operator changes its keys.
    pub desks: Desks,
    at: Position,
    rpc_server: RpcServer,
    taker: Option<Taker>,
    watch: Option<DivergenceWatch>,
    /// Why poh begins no more slot, if it does not.
    ended: Failure<SlotError>,
    peers: Option<Peers>,
}

impl RunningNode {
    /// The address of the WebSocket subscriptions.
    pub fn websocket(&self) -> SocketAddr {
        self.rpc_server.websocket_addr()
    }

    /// Why the node can no longer follow its chain, if it cannot.
    pub fn failure(&self) -> Option<DivergenceError> {
        let ended = self.ended.take().map(DivergenceError::from);
        ended.or_else(|| self.watch.as_ref().and_then(DivergenceWatch::failure))
    }

    /// As [`RunningNode::failure`], for a node that stops now: slow diagnostics are skipped.
    pub fn last_failure(&self) -> Option<DivergenceError> {
        let ended = self.ended.take().map(DivergenceError::from);
        ended.or_else(|| self.watch.as_ref().and_then(DivergenceWatch::last_failure))
    }

    /// Stops the RPC and the tiles.
    pub fn stop(self) -> Result<(), hearth_tile::core::TilePanic> {
        self.rpc_server.stop();
        let _capture = self.peers.map(|peers| peers.capture); // Last: it takes seconds, and needs no tile.
        // Abandons a snapshot in progress.
        drop(self.taker);
        self.node.stop()
    }
}

/// The cores that tiles may use.
pub fn cores(layout: &Layout) -> Result<Cores, BootError> {
    Cores::of_machine().map_err(BootError::Cores)?.without(&layout.blocklist_cores).map_err(BootError::Blocklist)
}

/// The topology of a configuration.
pub fn topology(config: &Config, cores: &Cores, with_load: bool) -> Result<Topology, LayoutError> {
    let (layout, bench) = (&config.layout, &config.development.bench);
    let mut counts = config.tile_counts();
    counts.history = config.keeps_history();
    counts.votes = config.consensus.vote;
    counts.cluster = config.gossip.enabled;
    let affinity = Affinity { node: layout.affinity.clone(), load: bench.affinity.clone() };
    let hashing = config.development.genesis.hashes_per_tick > 0;
    let counters = || Counters::DECLS.iter().map(CounterSpec::from).collect();
    if config.follows() {
        let mut topology = topology::build_follower(&config.name, counts, &affinity.node, cores)?;
        topology.services.push(ServiceSpec { name: RPC.into(), counters: counters() });
        apart::place(&config.security, &mut topology);
        return Ok(topology);
    }
    let counts = match affinity.is_auto() {
        true => counts.auto(cores.allowed.len(), with_load),
        false => counts.at_least_one(with_load),
    };
    let mut topology = topology::build(&config.name, counts, &affinity, cores, hashing)?;
    topology.services.push(ServiceSpec { name: RPC.into(), counters: counters() });
    apart::place(&config.security, &mut topology);
    Ok(topology)
}

/// Places in affinity strings without a tile: Firedancer accepts them, and so does this node.
pub fn unused_places(config: &Config, topology: &Topology) -> Vec<String> {
    let has_place = |tile: &TileSpec| topology::core_host(&topology.tiles, tile).is_none();
    let tiles = |load: bool| topology.tiles.iter().filter(|tile| tile.load == load && has_place(tile)).count();
    let (node, load) = (tiles(false), tiles(true));
    let unused = |key: &str, affinity: &affinity::Affinity, tiles: usize| {
        let unused = affinity.unused(tiles);
        let places = if unused == 1 { "place" } else { "places" };
        (tiles > 0 && unused > 0).then(|| {
            format!(
                "`{key}` has {unused} {places} more than the layout has tiles ({tiles}): the last have no effect here"
            )
        })
    };
    [
        unused("layout.affinity", &config.layout.affinity, node),
        unused("development.bench.affinity", &config.development.bench.affinity, load),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Fetches the genesis of the cluster that the node joins, and a snapshot if there is one, into the folder.
pub fn join(
    config: &Config,
    folder: &Path,
    bound: &mut BoundPorts,
    at: ClusterPorts,
    stop: &StopSignal,
) -> Result<(), BootError> {
    let io = |source| BootError::Folder { path: folder.into(), source };
    Genesis::refuse_older(folder)?;
    std::fs::create_dir_all(folder).map_err(io)?;
    if !find_genesis(folder)? && no_orphans(config, folder).is_ok() {
        forget_hard_forks(folder)?;
    }
    let hard_forks = Declared::of(config, folder)?.all;
    let joiner = Joiner {
        folder,
        snapshots: (config.snapshots.download).then(|| restore::folder(config, folder)),
        behind_max: config.snapshots.maximum_local_snapshot_age,
        expected_genesis: expected_genesis(&config.consensus.expected_genesis_hash)?,
        expected_shred_version: Some(config.consensus.expected_shred_version).filter(|version| *version != 0),
        archive: ArchiveUrl::configured(&config.snapshots.url)?,
        known: peers::known_validators(config)?,
        only_known: config.snapshots.only_known_rpc,
        takes_unvouched: config.snapshots.take_unvouched,
        identity: Arc::new(identity(config, folder)?),
        gossip: at.gossip,
        entrypoints: peers::entrypoints(&config.gossip.entrypoints)?,
        links: PeerLinks::of(config),
        hard_forks: &hard_forks,
        stop,
    };
    let refused = |source| JoinError::Listen { address: at.gossip, source };
    let joined = joiner.join(bound.share_gossip().map_err(refused)?);
    bound.hold_gossip().map_err(refused)?;
    joined.map_err(|why| BootError::from(why).with_advice(config))
}

/// Whether a folder has a genesis. One that is there as an archive alone is unpacked.
///
/// # Errors
/// The archive cannot be unpacked.
pub fn find_genesis(folder: &Path) -> Result<bool, BootError> {
    let path = folder.join(GENESIS_NAME);
    if Genesis::unpack_archive(&path)? {
        let archive = folder.join(ARCHIVE_NAME);
        hearth_command::output::note(format_args!("notice: the genesis is that of {}", archive.display()));
    }
    Ok(path.exists())
}

/// Parses the configured genesis hash.
fn expected_genesis(text: &str) -> Result<Option<Hash>, JoinError> {
    let hash = (!text.is_empty()).then(|| decode_32(text)).transpose();
    hash.map_err(|_| JoinError::ExpectedGenesis(text.to_owned()))
}

/// The node's identity: the configured key, or the ledger folder's.
fn identity(config: &Config, folder: &Path) -> Result<Identity, KeyError> {
    let given = config.expand(&config.consensus.identity_path);
    match given.as_os_str().is_empty() {
        true => keys::read_or_create(&folder.join("identity.json")),
        false => keys::read_private(&given),
    }
}

/// Opens the chain in `folder`, or creates one as `beginning` requests; restores its state from its blocks.
pub fn open_chain(
    config: &Config,
    folder: &Path,
    beginning: &GenesisOverrides,
    funded: impl FnMut(usize),
    replaying: impl FnMut(&ReplaySummary) -> ReplayControl,
) -> Result<Chain, BootError> {
    open_files(config, folder, beginning, funded, replaying).map_err(|why| why.with_advice(config))
}

fn open_files(
    config: &Config,
    folder: &Path,
    beginning: &GenesisOverrides,
    mut funded: impl FnMut(usize),
    replaying: impl FnMut(&ReplaySummary) -> ReplayControl,
) -> Result<Chain, BootError> {
    if !find_genesis(folder)? {
        // Before anything is written: a second genesis beside the blocks of the first would make neither chain usable.
        no_orphans(config, folder)?;
        forget_hard_forks(folder)?;
    }
    std::fs::create_dir_all(folder).map_err(|source| BootError::Folder { path: folder.into(), source })?;
    let identity = identity(config, folder)?;
    let faucet = keys::read_or_create(&folder.join("faucet.json"))?;
    let genesis = genesis(config, folder, beginning, (&identity, &faucet), &mut funded)?;
    let (mut store, recovery) = open_blocks(config, folder, &genesis)?;
    let states = StateFolders::of(config, folder);
    let refused = |why: &SnapshotError| hearth_command::output::note(format_args!("notice: {why}; it is not used"));
    let mut history = open_history(config, folder, (&genesis, &store), u64::MAX)?;
    let plan = history_repair::plan(config, (&genesis, &states), history.as_mut(), &store.reader(), refused)?;
    store_slot_0(&mut store, &genesis, &plan.restored)?;
    let state = plan.restored.slot();
    let RestoredState { ledger, block_id } = plan.restored;
    ledger.check_features()?;
    if let Some(after) = plan.cut_after {
        drop(history.take());
        history = open_history(config, folder, (&genesis, &store), after)?;
    }
    let missing = history.as_mut().map(|history| (history, config.rpc.extended_tx_metadata_storage));
    // Above the root there may be forks, whose blocks are replayed when the node runs. Without a root all blocks may
    // be.
    let root = match config.gossip.enabled {
        true => Some(final_slot(folder, &identity).map_err(|why| DivergenceError::from(TowerError::from(why)))?),
        false => None,
    };
    let root = root.map(|root| root.max(plan.final_slot));
    let newest = root.or(recovery.last_whole_slot).unwrap_or(0);
    Declared::of(config, folder)?.check_new(state, newest)?;
    let begun = Instant::now();
    let replayed = replay::replay(&ledger, block_id, &genesis, &store.reader(), root, missing, replaying)?;
    if let Some(history) = &history {
        // A transaction in a block that was just replayed must be findable.
        history.wait_until_indexed()?;
    }
    if let Some(after) = plan.cut_after {
        let (blocks, seconds) = (replayed.blocks, begun.elapsed().as_secs_f64());
        hearth_command::output::note(format_args!(
            "notice: the history behind slot {after} is complete: {blocks} blocks were executed in {seconds:.1} s"
        ));
    }
    if let Some(missing) = recovery.missing_segment().filter(|_| root.is_none())
        && recovery.last_whole_slot.is_some_and(|last| last > replayed.last_slot)
    {
        // Continuing would discard the blocks after the gap.
        return Err(StoreError::Corrupt(missing.clone()).into());
    }
    if history.as_ref().is_some_and(|history| history.last_slot() > replayed.last_slot) {
        // A power failure took blocks that are still in the history, or they are not final.
        drop(history.take());
        history = open_history(config, folder, (&genesis, &store), replayed.last_slot)?;
    }
    ledger.check_next_slot()?;
    save_hard_forks(folder, &ledger.hard_fork_slots())?;
    let (announced, archived) = announce(Archives::served(config, folder));
    let taker = restore::take_snapshots(config, folder, (&genesis, &ledger), store.reader(), archived)?;
    let folder = folder.to_owned();
    let watch = identity.public.into();
    Ok(Chain { genesis, ledger, recovery, replayed, folder, identity, watch, faucet, store, history, taker, announced })
}

/// The genesis in `folder`, which must match `beginning`, or a new one.
fn genesis(
    config: &Config,
    folder: &Path,
    beginning: &GenesisOverrides,
    (identity, faucet): (&Identity, &Identity),
    funded: impl FnMut(usize),
) -> Result<Genesis, BootError> {
    let path = folder.join(GENESIS_NAME);
    if path.exists() {
        let genesis = Genesis::load(&path)?;
        let began = genesis.config();
        began.check_blocks().map_err(GenesisError::Config)?;
        // The chain keeps the builtin programs of the release that created it.
        let wanted = GenesisConfig {
            creation_time: began.creation_time,
            extra_accounts: began.extra_accounts.clone(),
            ..genesis_config(&config.development.genesis, identity, faucet)
        };
        beginning.check(&genesis, folder, &wanted)?;
        // What began elsewhere is not measured by this node's configuration.
        let is_ours = folder.join(CHAIN_NAME).exists() && !config.joins();
        if is_ours && !differences(began, &wanted).is_empty() {
            let which = differences(began, &wanted).join(", ");
            hearth_command::output::note(format_args!(
                "notice: the chain in {} keeps what it began with: {which}; `hearth run --reset` begins a new one",
                folder.display()
            ));
        }
        return Ok(genesis);
    }
    let mut began = genesis_config(&config.development.genesis, identity, faucet);
    began.extra_accounts = hearth_svm::programs::genesis_accounts_with(beginning.features().into_iter());
    let vote = keys::read_or_create(&folder.join("vote-account.json"))?.public;
    let stake = keys::read_or_create(&folder.join("stake-account.json"))?.public;
    began.extra_accounts.extend(genesis_accounts(&vote, &stake, &identity.public));
    began.extra_accounts.extend(validators(&config.development.genesis.validators));
    began.extra_accounts.extend(beginning.accounts());
    beginning.notices().iter().for_each(|notice| hearth_command::output::note(format_args!("notice: {notice}")));
    let genesis = Genesis::create(began, funded)?;
    genesis.save(&path)?;
    Ok(genesis)
}

/// The newest slot that is final in a cluster.
fn final_slot(folder: &Path, identity: &Identity) -> Result<u64, SavedError> {
    if tower::is_root_damaged(folder) {
        let path = folder.join("root.bin");
        hearth_command::output::note(format_args!("notice: {} is not whole; the tower's root counts", path.display()));
    }
    Ok(tower::final_slot(folder, &identity.public)?.unwrap_or(0))
}

/// Opens the block store.
fn open_blocks(config: &Config, folder: &Path, genesis: &Genesis) -> Result<(BlockStore, Recovery), StoreError> {
    let disable_from = config.development.bench.disable_blockstore_from_slot;
    let store_config = blockstore::Config {
        sync: if config.ledger.sync { SyncPolicy::EachSlot } else { SyncPolicy::Kernel },
        disable_from_slot: (disable_from > 0).then_some(disable_from),
        ..blockstore::Config::new(config.ledger.limit_size, *genesis.hash())
    };
    BlockStore::open(&folder.join("blocks"), store_config)
}

/// Stores the block of slot 0 of a chain that begins there and has no blocks yet.
fn store_slot_0(store: &mut BlockStore, genesis: &Genesis, restored: &RestoredState) -> Result<(), StoreError> {
    let begins = genesis.config().genesis_slot == 0 && restored.block_id.is_none();
    if begins && store.reader().first_slot().is_none() {
        store.append_set(&Slot0::of(genesis).record())?;
    }
    Ok(())
}

/// Fails if a folder has the chain of an older version, or blocks, a history or snapshots but no genesis for them.
fn no_orphans(config: &Config, folder: &Path) -> Result<(), BootError> {
    Genesis::refuse_older(folder)?;
    let missing = |file| GenesisError::Missing { path: folder.join(GENESIS_NAME), file };
    let places = [
        (folder.join("blocks"), "log"),
        (folder.join("history"), "history"),
        (restore::folder(config, folder), "snapshot"),
        (restore::archive_folder(config, folder), "zst"),
    ];
    for (place, extension) in places {
        let entries = std::fs::read_dir(&place).into_iter().flatten().flatten();
        if let Some(file) =
            entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == extension))
        {
            return Err(missing(file).into());
        }
    }
    match StateFolders::of(config, folder).archives()?.into_iter().next() {
        Some((archive, _)) => Err(missing(archive).into()),
        None => Ok(()),
    }
}

/// Opens the history, if enabled, up to the last block that is wanted and stored.
fn open_history(
    config: &Config,
    folder: &Path,
    (genesis, store): (&Genesis, &BlockStore),
    keep_to: u64,
) -> Result<Option<History>, BootError> {
    if !config.keeps_history() {
        return Ok(None);
    }
    let stored = store.reader().slots(.., usize::MAX).iter().rev().find(|slot| slot.whole).map_or(0, |slot| slot.slot);
    let settings = history::Config {
        sync: config.ledger.sync,
        ..history::Config::new(config.rpc.history_limit_size, *genesis.hash())
    };
    Ok(Some(History::open(&folder.join("history"), settings, keep_to.min(stored))?))
}

fn genesis_config(genesis: &config::Genesis, identity: &Identity, faucet: &Identity) -> GenesisConfig {
    let mut began = GenesisConfig {
        fund_initial_accounts: genesis.fund_initial_accounts,
        initial_lamports: genesis.fund_initial_amount_lamports,
        hashes_per_tick: (genesis.hashes_per_tick > 0).then_some(genesis.hashes_per_tick),
        ticks_per_slot: genesis.ticks_per_slot,
        slots_per_epoch: genesis.slots_per_epoch,
        genesis_slot: genesis.warp_slot,
        faucet_lamports: genesis.faucet_lamports,
        ..GenesisConfig::development(identity.public, faucet.public, unix_time().as_secs())
    };
    began.set_tick_ns(genesis.target_tick_duration_micros.saturating_mul(1_000));
    began
}

/// The differences between the genesis and the wanted values, by configuration key.
fn differences(began: &GenesisConfig, wanted: &GenesisConfig) -> Vec<String> {
    let numbers: [(&str, fn(&GenesisConfig) -> u64); 8] = [
        ("fund_initial_accounts", |genesis| genesis.fund_initial_accounts as u64),
        ("fund_initial_amount_lamports", |genesis| genesis.initial_lamports),
        ("hashes_per_tick", |genesis| genesis.hashes_per_tick.unwrap_or(0)),
        ("ticks_per_slot", |genesis| genesis.ticks_per_slot),
        ("milliseconds a slot (target_tick_duration_micros)", |genesis| genesis.slot_ms),
        ("slots_per_epoch", |genesis| genesis.slots_per_epoch),
        ("warp_slot", |genesis| genesis.genesis_slot),
        ("faucet_lamports", |genesis| genesis.faucet_lamports),
    ];
    let keys: [(&str, fn(&GenesisConfig) -> &Pubkey); 2] =
        [("identity", |genesis| &genesis.identity), ("faucet", |genesis| &genesis.faucet)];
    let text = |name, before: String, now: String| (before != now).then(|| format!("{name} {before} (and not {now})"));
    let numbers = numbers.iter().filter_map(|(name, of)| text(name, of(began).to_string(), of(wanted).to_string()));
    let encode = |key: &Pubkey| hearth_wire::base58::encode_32(key).to_string();
    numbers.chain(keys.iter().filter_map(|(name, of)| text(name, encode(of(began)), encode(of(wanted))))).collect()
}

/// Returns what administrators of the node may ask for: profiles, by a token where the configuration has one.
fn admin(rpc: &Rpc, ledger: &Arc<Ledger>, topology: &Topology, instruments: Instruments) -> Admin {
    let kinds = Vec::from_iter(topology.tiles.iter().map(|tile| tile.kind.clone()).collect::<BTreeSet<_>>());
    let profiler = (instruments.profiler)(ledger.clone(), kinds);
    Admin { profiler, token: Some(rpc.admin_token.clone()).filter(|token| !token.is_empty()) }
}

/// Returns the dashboard's view, or why there is none.
fn view(config: &Config, instruments: Option<Instruments>) -> View {
    match instruments {
        _ if !config.rpc.dashboard => Err("[rpc] dashboard"),
        Some(instruments) => Ok((instruments.look_at)(config)),
        None => Err(NO_LAB),
    }
}

/// Starts tiles and RPC on an opened chain, at bound ports.
pub fn boot(config: &Config, unbooted: NodeParts, load: Option<Load>) -> Result<RunningNode, BootError> {
    let NodeParts { topology, mut bound, mut chain, instruments } = unbooted;
    let ports = bound.ports;
    let faucet_key = SigningKey::from_seed(chain.faucet.keypair.seed());
    let (ledger, genesis) = (chain.ledger.clone(), chain.genesis.clone());
    let (own, faucet) = (chain.watch.clone(), chain.faucet.public);
    let blocks = chain.store.reader();
    let taker = chain.taker.take();
    let admin = instruments.map(|instruments| admin(&config.rpc, &ledger, &topology, instruments));
    let history = chain.history.as_ref().map(History::reader);
    let fates = Arc::new(DropTable::new(config.rpc.fate_capacity, tag_key()));
    let folder = chain.folder.clone();
    let archives = Archives::served(config, &folder);
    let mut peers = ports.cluster.map(|at| Peers::start(config, &mut bound, at, &chain)).transpose()?;
    let cluster =
        peers.as_ref().map(|peers| consensus::Cluster { gossip: peers.gossip.clone(), leads: config.takes_turns() });
    let clock = Clock::real();
    let others = peers.as_ref().zip(cluster.as_ref());
    let (mut consensus, watch) = Consensus::begin(config, &chain, others, &clock)?;
    let desks = consensus.as_mut().map(Consensus::take_desks).unwrap_or_default();
    let ended = Failure::default();
    let session = session::begin(config, &chain, peers.as_mut(), consensus.as_ref(), &desks, &clock)?;
    let seed = session.as_ref().map(|session| session.seed);
    let part = tiles::Participation { cluster, consensus, ended: ended.clone(), session };
    let (tiles, sign) = tile_configs(config, &mut bound, &topology, chain, load, fates.clone(), part)?;
    let apart = sign.map(|sign| apart::starter(sign, &config.security));
    let mut node = Node::boot(topology, clock, tiles::node_config(config, tiles, seed, apart))?;
    let inlet = RPC_LINKS.iter().find_map(|link| node.take_inlet(link)).expect("every topology has one of them");
    let board = peers.as_ref().map(|peers| Arc::clone(&peers.board));
    let calls = node.take_inlet(RPC_POH).map(Mutex::new);
    let tiles = Tiles::of(&node);
    let words = node.workspace().counters(RPC).expect("the topology has the service");
    let look_at = view(config, instruments);
    let has_dashboard = look_at.is_ok();
    let rpc_node = RpcNode {
        newest_snapshot: newest_snapshot(archives.clone(), &ledger),
        shred_version: ledger.shred_version(),
        ledger: ledger.clone(),
        inlet: Box::new(RpcInlet(inlet)),
        identity: Box::new(move || own.newest()),
        faucet,
        chain_faucet: genesis.config().faucet,
        sign_as_faucet: Box::new(move |message| faucet_key.sign(message)),
        verify: signatures_are_valid,
        offer: offer(&folder, taker.as_ref().map(|taker| taker.snapshots().clone()), archives),
        cluster_nodes: Box::new(move || board.iter().flat_map(|board| peers::gossip::nodes(board)).collect()),
        gossip: gossip_address(&config.gossip),
        tpu: reachable(ports.udp),
        tpu_quic: reachable(ports.quic),
        transaction_history: config.rpc.transaction_history && !config.development.bench.disable_status_cache,
        slot_ms: genesis.config().slot_ms,
        counters: Arc::new(Counters::in_words(Box::new(RpcWords(words)))),
        blocks: Some(blocks.clone()),
        history,
        fates,
        began_unix_s: unix_time().as_secs(),
        genesis_time: genesis.config().creation_time as i64,
        genesis_slot: genesis.config().genesis_slot,
        feature_set: Some(hearth_svm::feature_set_id()),
        call_for_slot: Box::new(move |slot| calls.iter().for_each(|calls| call_for_slot(calls, slot))),
        look_at,
        admin,
        liveness: tiles.clone().liveness(),
    };
    let rpc_server = RpcServer::start_on(bound.rpc()?, rpc_limits(config), rpc_node)?;
    let rpc = rpc_server.local_addr();
    let at = Position { ledger, blocks };
    Ok(RunningNode { node, ports, rpc, has_dashboard, tiles, desks, at, rpc_server, taker, watch, ended, peers })
}

/// The genesis accounts of the additional validators.
fn validators(given: &[Validator]) -> Vec<(Pubkey, Account)> {
    given.iter().flat_map(Validator::accounts).collect()
}

/// The RPC's output for transactions: in a cluster the tile that knows the leaders, else this node's own verify.
const RPC_LINKS: [&str; 2] = [RPC_TXSEND, RPC_VERIFY];

/// Tells poh that a client waits for a slot. If the link is full poh has enough requests, and that slot or a later one
/// will come.
fn call_for_slot(calls: &Mutex<Inlet>, slot: u64) {
    let _ = calls.lock().send_tag(slot);
}

/// The parts that make a node a member of a cluster, besides its tiles.
struct Peers {
    /// Configuration of the gossip tile.
    gossip: gossip::Config,
    board: Arc<Board>,
    _echo: EchoServer,
    /// The recorder of its session, if it is recorded; dropping it ends the session.
    capture: Option<Capture>,
    ip: Ipv4Addr,
}

impl Peers {
    fn start(config: &Config, bound: &mut BoundPorts, at: ClusterPorts, chain: &Chain) -> Result<Self, BootError> {
        let ports = bound.ports;
        let version = chain.ledger.shred_version();
        let advertised = |address| at.advertised(address);
        let rpc = |address| advertised(address).filter(|_| !config.rpc.private);
        let mut sockets = vec![
            (SocketKind::Gossip, Some(at.gossip)),
            (SocketKind::Tvu, Some(at.tvu)),
            (SocketKind::ServeRepair, Some(at.serve_repair)),
            (SocketKind::Rpc, rpc(ports.rpc)),
            (SocketKind::RpcPubsub, rpc(ports.websocket)),
        ];
        if !config.follows() {
            let transactions = [
                (SocketKind::Tpu, ports.udp),
                (SocketKind::TpuQuic, ports.quic),
                (SocketKind::TpuVote, ports.udp),
                (SocketKind::TpuVoteQuic, ports.quic),
            ];
            sockets.extend(transactions.map(|(kind, address)| (kind, advertised(address))));
        }
        let own = sockets
            .into_iter()
            .filter_map(|(kind, address)| Some((kind, address?)))
            .fold(peers::join::contact(&chain.identity, version), |own, (kind, address)| own.with(kind, address));
        let board = Arc::new(Board::default());
        let gossip = gossip::Config {
            protocol: peers::gossip::config((*at.gossip.ip()).into(), peers::entrypoints(&config.gossip.entrypoints)?),
            own,
            identity: chain.watch.clone(),
            ledger: chain.ledger.clone(),
            blocks: chain.store.reader(),
            archives: Arc::clone(&chain.announced),
            board: board.clone(),
        };
        let echo = bound.echo().listen().and_then(|listener| EchoServer::start(listener, version));
        let echo = echo.map_err(|source| JoinError::Listen { address: at.gossip, source })?;
        Ok(Self { gossip, board, _echo: echo, capture: None, ip: *at.gossip.ip() })
    }
}

/// The secret key of signature tags.
fn tag_key() -> u64 {
    let mut key = [0; 8];
    hearth_tile::sys::random::fill(&mut key);
    u64::from_ne_bytes(key)
}

/// The gossip address, also of a node outside a cluster.
fn gossip_address(gossip: &Gossip) -> SocketAddr {
    reachable(SocketAddr::new(gossip.bind_address.into(), gossip.port))
}

fn rpc_limits(config: &Config) -> Limits {
    let rpc = &config.rpc;
    Limits {
        http_connections: rpc.max_http_connections,
        websocket_connections: rpc.max_websocket_connections,
        connections_per_address: rpc.max_connections_per_address,
        request_bytes: rpc.max_http_request_length,
        answer_bytes: rpc.max_answer_length,
        batch_length: rpc.max_batch_length,
        requests_per_second: rpc.requests_per_second,
        subscriptions: rpc.max_subscriptions,
        resend_queue: rpc.max_resent_transactions,
        airdrop_lamports: rpc.max_airdrop_lamports,
        airdrop_lamports_per_slice: rpc.max_airdrop_lamports_per_slice,
        airdrop_slice: Duration::from_secs(rpc.airdrop_slice_secs),
        // In a cluster there are pauses between slots, and most slots are led by other nodes.
        slots_may_stand: config.development.are_slots_on_demand() || config.gossip.enabled,
        ..Limits::default()
    }
}

/// The RPC's counters: a region of the workspace.
struct RpcWords(hearth_ring::Counters);

impl std::ops::Deref for RpcWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

/// The RPC's input to the pipeline.
struct RpcInlet(Inlet);

impl hearth_rpc::TransactionInlet for RpcInlet {
    fn send(&mut self, wire: &[u8], again: bool) -> Result<(), hearth_rpc::Busy> {
        let sent = if again { self.0.send_again(wire) } else { self.0.send(wire) };
        sent.map_err(|_| hearth_rpc::Busy)
    }
}

#[cfg(test)]
mod tests;
