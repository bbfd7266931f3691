//! One node: started from its folder as a real one is, on a clock, a network and a disk of the simulator.
//!
//! reads   the folder of its chain: blocks, snapshots, tower, root
//! writes  the same; its wire
//! memory  its links, its ledger, its tiles
//!
//! The way from the folder to the tiles is that of `hearth_node`: the ledger is restored and blocks up to the root are
//! executed by the code that a real start calls; the tiles are made by the code that gives them threads there.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hearth_consensus::BankId;
use hearth_gossip::board::Board;
use hearth_keys::Keypair;
use hearth_ledger::blockstore::{self, BlockStore, Reader, SteppedKeeper, StoreError, SyncPolicy};
use hearth_ledger::fees::LAMPORTS_PER_SIGNATURE;
use hearth_ledger::genesis::funded_account_key;
use hearth_ledger::rent::minimum_balance;
use hearth_ledger::snapshot::{SnapshotError, SnapshotFile};
use hearth_ledger::{Account, DropTable, Genesis, GenesisConfig, Ledger};
use hearth_node::capture::format::SessionHeader;
use hearth_node::capture::{self, Recording};
use hearth_node::config::{Config, Validator};
use hearth_node::restore::{self, StateFolders};
use hearth_node::{boot, peers, replay as start};
use hearth_pipeline::bank::{self, Bank};
use hearth_pipeline::capture::Tap;
use hearth_pipeline::dedup::{self, Dedup};
use hearth_pipeline::drops::DropLog;
use hearth_pipeline::exec::{self, Exec, WorkerConfig};
use hearth_pipeline::failure::Failure;
use hearth_pipeline::gossip::{self, Gossip};
use hearth_pipeline::links::PortKind;
use hearth_pipeline::metric::Metric;
use hearth_pipeline::node::{SteppedNode, TileConfigs, seeded};
use hearth_pipeline::pack::{self, Pack};
use hearth_pipeline::poh::{self, Poh};
use hearth_pipeline::quic::{self, Quic};
use hearth_pipeline::repair::nonce::NonceKey;
use hearth_pipeline::repair::{self, Repair};
use hearth_pipeline::replay::position::{self, PositionError};
use hearth_pipeline::replay::{self, ReplayTile};
use hearth_pipeline::rserve::{self, Rserve};
use hearth_pipeline::shred::{self, Shred, Slot0};
use hearth_pipeline::sign::{self, Sign};
use hearth_pipeline::store::{self, Store};
use hearth_pipeline::topology::{self, Affinity, Counts};
use hearth_pipeline::tower::{self, Clocks, Core, CoreConfig, Membership, Tower, TowerError};
use hearth_pipeline::txsend::{self, TxSend};
use hearth_pipeline::verify::{self, Verify};
use hearth_pipeline::voters::{VoterKeys, Voters};
use hearth_quic::{ServerConfig, Stakes};
use hearth_ring::Counters;
use hearth_tile::affinity::Cores;
use hearth_tile::counters::LoopCounters;
use hearth_tile::runner::Activity;
use hearth_tile::topology::Topology;
use hearth_tile::{Clock, CounterSet, Entropy, Tile};
use hearth_wire::Pubkey;
use hearth_wire::consts::LAMPORTS_PER_SOL;
use hearth_wire::gossip::{ContactInfo, SocketKind, Version};
use parking_lot::Mutex;

use crate::disk::{SimDisk, SimVolume, TowerDisk, TowerDue};
use crate::net::{SimNet, Wire};
use crate::network::{address, port_at};
use crate::snapshots::SnapshotTaker;

/// Length of a slot, ms: half the cluster's, so that fewer instants of a run are idle ones.
pub const SLOT_MS: u64 = 200;
/// Ticks of a slot: fewer than the cluster's, each of which wakes the leader.
pub const TICKS_PER_SLOT: u64 = 16;
/// Slots of an epoch: a run crosses a boundary or more. Stake that is delegated in an epoch votes from the third on.
const SLOTS_PER_EPOCH: u64 = 32;
/// SOL that each node has staked.
const STAKED_SOL: u64 = 1_000_000;
/// How many clients there are, each with a funded account of its own.
pub const CLIENTS: usize = 8;
/// Lamports of each client, and of the payer of failures, at genesis: more than a client delegates.
pub const CLIENT_LAMPORTS: u64 = 200_000 * LAMPORTS_PER_SOL;
/// The funded account that pays for the transactions that fail, and for nothing else.
pub const PAYER_OF_FAILURES: usize = CLIENTS;
/// An account that is there, and cannot pay a fee without falling below the minimum.
pub const POOR: usize = CLIENTS + 1;
/// An account that is not there.
pub const NOBODY: usize = CLIENTS + 2;
/// Lamports of [`POOR`]: one too few to pay a signature's fee and keep the minimum balance.
pub const POOR_LAMPORTS: u64 = minimum_balance(0) + LAMPORTS_PER_SIGNATURE - 1;
/// Transactions that dedup remembers.
pub const DEDUP_HISTORY: usize = 1_024;
/// Transactions that may be pending in pack.
pub const PACK_CAPACITY: usize = 512;
/// Accounts that they may name.
pub const PACK_ACCOUNTS: usize = 4_096;
/// Bytes of blocks on disk, at most.
const STORE_BYTES: u64 = 64 << 20;
/// Bytes of the tables by which keys that sign often are checked sooner.
const TABLE_BYTES: usize = 1 << 20;
/// Unix time at which the chain begins, seconds.
const CREATED_S: u64 = 1_700_000_000;
/// Sweeps over all tiles in one instant, at most: what a node has to do beyond takes time.
const SWEEPS_MAX: usize = 64;
/// The shortest sleep of a node, and the longest, nanoseconds.
const SLEEP_NS: (u64, u64) = (500_000, 50_000_000);
/// Time that passes for each instant of a node that always has more to do, nanoseconds.
const BUSY_NS: u64 = 100_000;

/// The parts of a run that all of its nodes share.
pub struct Setup {
    /// How the chain began.
    pub genesis: Genesis,
    config: Config,
    topology: Topology,
    entrypoints: Vec<SocketAddrV4>,
    /// Unix time at which the run begins, nanoseconds.
    created_ns: u64,
    shred_version: u16,
    shreds_per_slot_max: u32,
}

/// A 32-byte word that is another for each purpose, node and seed.
pub fn secret(seed: u64, node: usize, purpose: &str) -> [u8; 32] {
    hearth_crypto::sha256::sha256(&[&seed.to_le_bytes(), &(node as u64).to_le_bytes(), purpose.as_bytes()])
}

/// The first word of that.
pub fn secret_word(seed: u64, node: usize, purpose: &str) -> u64 {
    u64::from_le_bytes(*secret(seed, node, purpose).first_chunk().expect("32 bytes"))
}

/// The identity key of a node, drawn from the run's seed and the node's number.
pub fn keypair(seed: u64, node: usize) -> Keypair {
    Keypair::from_seed(&secret(seed, node, "identity")).expect("a page of memory can be locked")
}

/// A node's identity, the account that it votes with, and its stake.
pub fn validator(seed: u64, node: usize) -> Validator {
    let identity = keypair(seed, node).public_key();
    Validator { identity, vote: secret(seed, node, "vote account"), sol: STAKED_SOL }
}

impl Setup {
    /// A chain of so many nodes with the same stake.
    pub fn new(seed: u64, nodes: usize) -> Self {
        let validators: Vec<_> = (0..nodes).map(|node| validator(seed, node)).collect();
        let poor = (funded_account_key(POOR).public_key(), Account::wallet(POOR_LAMPORTS));
        let accounts = validators.iter().flat_map(Validator::accounts).chain([poor]);
        let began = GenesisConfig {
            fund_initial_accounts: CLIENTS + 1,
            initial_lamports: CLIENT_LAMPORTS,
            ticks_per_slot: TICKS_PER_SLOT,
            slot_ms: SLOT_MS,
            slots_per_epoch: SLOTS_PER_EPOCH,
            // The stake program is an ordinary one: without it no stake moves.
            extra_accounts: hearth_svm::programs::genesis_accounts().into_iter().chain(accounts).collect(),
            ..GenesisConfig::development(validators[0].identity, secret(seed, 0, "faucet"), CREATED_S)
        };
        let genesis = Genesis::create(began, |_| ()).expect("such a chain can begin");
        let entrypoints = (0..nodes).map(|node| address(node, PortKind::Gossip)).collect();
        let config = node_config();
        Self {
            created_ns: CREATED_S * 1_000_000_000,
            shred_version: genesis.shred_version(),
            shreds_per_slot_max: boot::block_limits(&config.development.bench).shreds as u32,
            genesis,
            config,
            topology: tiles(),
            entrypoints,
        }
    }

    /// The chain of a recorded session, whose genesis is this, from the time on at which its node began.
    pub fn of_session(genesis: Genesis, header: &SessionHeader) -> Self {
        Self {
            genesis,
            config: node_config(),
            topology: tiles(),
            entrypoints: header.entrypoints.clone(),
            created_ns: header.unix_ns,
            shred_version: header.shred_version,
            shreds_per_slot_max: header.shreds_per_slot_max,
        }
    }

    /// Describes a node that begins so, for the recording of its session.
    pub fn session_header(&self, place: &NodeStart<'_>, seed: [u8; 32]) -> SessionHeader {
        SessionHeader {
            seed,
            unix_ns: self.unix_ns(place),
            ip: place.ip,
            identity: place.identity(),
            vote_account: place.vote,
            genesis: *self.genesis.hash(),
            shred_version: self.shred_version,
            shreds_per_slot_max: self.shreds_per_slot_max,
            entrypoints: self.entrypoints.clone(),
        }
    }

    /// The Unix time at which a node begins, by its clock on the wall.
    fn unix_ns(&self, place: &NodeStart<'_>) -> u64 {
        (self.created_ns + place.now).saturating_add_signed(place.set_ns)
    }
}

/// The configuration of every node.
fn node_config() -> Config {
    let mut config = Config::default();
    config.gossip.enabled = true;
    config.rpc.transaction_history = false;
    config.rpc.status_capacity = 4_096;
    config
}

/// The tiles of a node that leads in a cluster, one of each kind, without that of metrics.
fn tiles() -> Topology {
    let mut counts = Counts::default();
    (counts.cluster, counts.votes) = (true, true);
    let affinity = Affinity { node: "auto".into(), load: "auto".into() };
    let cores = Cores { allowed: vec![0], siblings: BTreeMap::from([(0, vec![])]) };
    let built = topology::build("sim", counts.at_least_one(false), &affinity, &cores, false);
    let mut topology = built.expect("one core suffices");
    topology.tiles.retain(|tile| tile.kind != Metric::NAME);
    topology
}

/// Why a node does not start.
#[derive(Debug)]
pub enum StartError {
    /// The files of its chain are not as they were written.
    Damaged(String),
    /// Any other failure, in words.
    Other(String),
}

impl StartError {
    fn other(why: impl ToString) -> Self {
        Self::Other(why.to_string())
    }
}

impl From<StoreError> for StartError {
    fn from(why: StoreError) -> Self {
        if start::is_store_damaged(&why) { Self::Damaged(why.to_string()) } else { Self::other(why) }
    }
}

impl From<start::ReplayError> for StartError {
    fn from(why: start::ReplayError) -> Self {
        if start::is_replay_of_damage(&why) { Self::Damaged(why.to_string()) } else { Self::other(why) }
    }
}

/// The circumstances in which a node starts.
pub struct NodeStart<'a> {
    /// The run's seed, from which the node's secrets are drawn.
    pub seed: u64,
    /// The node's index in the cluster, from 0.
    pub number: usize,
    /// How often it has started before.
    pub starts: u64,
    /// The folder of the node's ledger and tower, which outlives a start.
    pub folder: &'a Path,
    /// The disk under that folder, which outlives a start.
    pub disk: &'a Arc<SimDisk>,
    /// The time now, nanoseconds since the run began.
    pub now: u64,
    /// By how much its clock is faster than that, parts in a million.
    pub drift_ppm: i64,
    /// By how much its clock on the wall was set, nanoseconds.
    pub set_ns: i64,
    /// The seed of its identity key.
    pub key: [u8; 32],
    /// The account that it votes with, if it votes.
    pub vote: Option<Pubkey>,
    /// Whether it makes blocks.
    pub leads: bool,
    /// The address of its ports.
    pub ip: Ipv4Addr,
    /// Draws its secrets in place of `seed`, if its session is recorded or is that of a recording.
    pub session: Option<Recording>,
}

impl NodeStart<'_> {
    fn keypair(&self) -> Keypair {
        Keypair::from_seed(&self.key).expect("a page of memory can be locked")
    }

    fn identity(&self) -> Pubkey {
        self.keypair().public_key()
    }

    /// Copies what it receives, if its session is recorded.
    fn tap(&self) -> Option<Tap> {
        self.session.as_ref()?.tap.clone()
    }

    /// Whether it runs a recorded session again.
    fn is_replay(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.tap.is_none())
    }

    /// The secret by which its tiles recognize responses.
    fn nonces(&self) -> NonceKey {
        match &self.session {
            Some(session) => capture::nonces(&session.seed),
            None => NonceKey(secret(self.seed ^ self.starts, self.number, "nonces")),
        }
    }
}

/// A node that runs.
pub struct Node {
    number: usize,
    stepped: SteppedNode,
    clock: Clock,
    began: u64,
    drift_ppm: i64,
    /// The datagrams between the node and the network.
    pub wire: Arc<Mutex<Wire>>,
    /// The ledger that the node's tiles execute blocks on.
    pub ledger: Arc<Ledger>,
    /// Reads the blocks in the node's store.
    pub blocks: Reader,
    keeper: SteppedKeeper,
    disk: Arc<SimDisk>,
    /// When the sync under way is done, nanoseconds since the run began.
    synced_at: Option<u64>,
    tower_due: TowerDue,
    snapshots: SnapshotTaker,
    failed_replay: Failure<PositionError>,
    failed_tower: Failure<TowerError>,
    /// When it is to be turned again, nanoseconds since the run began.
    pub wake_at: u64,
    /// Since when it had something to do at every instant.
    busy_since: Option<u64>,
    /// The counters of each tile, by the tile's kind.
    counters: Vec<(String, Counters)>,
}

/// A chain from its folder, and what its tiles are made from beside.
struct OpenedChain {
    ledger: Arc<Ledger>,
    store: BlockStore,
    keeper: SteppedKeeper,
    /// The id of the ledger's last block, its slot, and whether nothing was there.
    block_id: [u8; 32],
    last_slot: u64,
    is_begin: bool,
}

fn open(setup: &Setup, place: &NodeStart<'_>, node: &Pubkey) -> Result<OpenedChain, StartError> {
    let Setup { genesis, config, .. } = setup;
    let store_config =
        blockstore::Config { sync: SyncPolicy::EachSlot, ..blockstore::Config::new(STORE_BYTES, *genesis.hash()) };
    let volume = Arc::new(SimVolume(Arc::clone(place.disk)));
    let (store, keeper, recovery) = BlockStore::open_stepped(volume, &place.folder.join("blocks"), store_config)?;
    let mut refused = None;
    let refuse = |why: &SnapshotError| refused = Some(StartError::other(why));
    let restored = restore::newest(config, genesis, &StateFolders::of(config, place.folder), refuse);
    if let Some(why) = refused {
        return Err(why);
    }
    let restored = restored.map_err(StartError::other)?;
    let root = tower::final_slot(place.folder, node).map_err(StartError::other)?.unwrap_or(0);
    let begin = restored.block_id;
    let ledger = restored.ledger;
    let go_on = |_: &start::ReplaySummary| ControlFlow::Continue(());
    let replayed = start::replay(&ledger, begin, genesis, &store.reader(), Some(root), None, go_on)?;
    let is_begin = replayed.last_slot == genesis.config().genesis_slot && recovery.last_whole_slot.is_none();
    let block_id = replayed.block_id.unwrap_or_else(|| *Slot0::of(genesis).block_id());
    Ok(OpenedChain { ledger, store, keeper, block_id, last_slot: replayed.last_slot, is_begin })
}

/// Consensus: what tower and replay are made from, and the newest slot that is confirmed.
struct Consensus {
    tower: tower::Config,
    replay: replay::Config,
    confirmed: u64,
    due: TowerDue,
}

fn consensus(
    setup: &Setup,
    place: &NodeStart<'_>,
    opened: &OpenedChain,
    clock: &Clock,
) -> Result<Consensus, StartError> {
    let node = place.identity();
    let saved = tower::saved_tower(place.folder, &node).map_err(StartError::other)?;
    let core = CoreConfig {
        node,
        vote_account: place.vote,
        voters: Voters::one(node),
        leads: place.leads,
        gossips: true,
        is_begin: opened.is_begin,
        slot: Duration::from_millis(setup.genesis.config().slot_ms),
    };
    let blocks = opened.store.reader();
    let rooted = saved.as_ref().and_then(|tower| tower.root()).map(|root| root.slot);
    let begun = position::start(&opened.ledger, opened.block_id, &blocks, rooted);
    let confirmed = begun.block.bank.id.slot;
    let core = Core::new(core, begun, saved, Clocks::of(clock)).map_err(StartError::other)?;
    let (files, due) = TowerDisk::new(place.folder, &node, place.disk, clock);
    let replay = replay::Config {
        ledger: Arc::clone(&opened.ledger),
        block_id: opened.block_id,
        blocks,
        rules: start::rules(&setup.genesis),
        records: false,
        failure: Failure::default(),
    };
    let tower =
        tower::Config { core, files: Box::new(files), failure: Failure::default(), membership: Membership::Cluster };
    Ok(Consensus { tower, replay, confirmed, due })
}

/// The contact info with which the node starts.
fn contact(setup: &Setup, place: &NodeStart<'_>, own: Pubkey, clock: &Clock) -> ContactInfo {
    let began = ContactInfo::new(own, clock.wall_ns() / 1_000, setup.shred_version, Version::default());
    let sockets = [
        (SocketKind::Gossip, PortKind::Gossip),
        (SocketKind::Tvu, PortKind::Tvu),
        (SocketKind::ServeRepair, PortKind::ServeRepair),
        (SocketKind::Tpu, PortKind::Udp),
        (SocketKind::TpuQuic, PortKind::Quic),
        (SocketKind::TpuVote, PortKind::Udp),
        (SocketKind::TpuVoteQuic, PortKind::Quic),
    ];
    sockets.iter().fold(began, |own, (kind, port)| own.with(*kind, port_at(place.ip, *port)))
}

/// The rules by which shred accepts others' shreds.
fn shred_cluster(setup: &Setup, place: &NodeStart<'_>, own: Pubkey, opened: &OpenedChain) -> shred::Cluster {
    let receiver = shred::ReceiverConfig {
        version: setup.shred_version,
        own,
        shreds_per_slot_max: setup.shreds_per_slot_max,
        slots_per_epoch: setup.genesis.config().slots_per_epoch,
        slots_max: 256,
        sets_max: 128,
    };
    let nonces = place.nonces();
    shred::Cluster {
        identity: own.into(),
        receiver,
        ledger: Arc::clone(&opened.ledger),
        blocks: opened.store.reader(),
        nonces,
    }
}

/// Configurations of the tiles that make blocks.
fn leading(
    setup: &Setup,
    own: Pubkey,
    opened: &OpenedChain,
    (drops, tag_key): (&DropLog, u64),
    tap: Option<Tap>,
) -> TileConfigs {
    let Setup { config, genesis, .. } = setup;
    let ledger = &opened.ledger;
    let server = ServerConfig { stakes: Stakes::new([(own, 1)]), ..boot::server_config(&config.tiles.quic) };
    TileConfigs::default()
        .one::<Quic>(quic::Config { server, drops: drops.clone(), tap })
        .one::<Verify>(verify::Config { history: 1_024, table_bytes: TABLE_BYTES, tag_key, drops: drops.clone() })
        .one::<Dedup>(dedup::Config { history: DEDUP_HISTORY, drops: drops.clone() })
        .one::<Pack>(pack::Config {
            capacity: PACK_CAPACITY,
            accounts: PACK_ACCOUNTS,
            blockhashes: (*ledger.blockhashes()).clone(),
            ledger: Some(Arc::clone(ledger)),
            takes_turns: true,
            drops: drops.clone(),
            ..boot::pack_config(&config.tiles.pack, &config.development)
        })
        .one::<Bank>(bank::Config { ledger: Arc::clone(ledger), recording: None, drops: drops.clone() })
        .one::<Poh>(poh::Config {
            chain: poh::chain::Config {
                hashes_per_tick: genesis.config().hashes_per_tick,
                ticks_per_slot: genesis.config().ticks_per_slot,
                slot_ns: genesis.config().slot_ns(),
                max_microblocks: poh::chain::MAX_MICROBLOCKS,
            },
            on_demand: None,
            ledger: Arc::clone(ledger),
            failure: Failure::default(),
        })
}

/// Configurations of the tiles that take part in a cluster, beside consensus and store.
fn following(
    configs: TileConfigs,
    setup: &Setup,
    place: &NodeStart<'_>,
    (own, opened, drops): (Pubkey, &OpenedChain, &DropLog),
    clock: &Clock,
) -> TileConfigs {
    let (ledger, blocks) = (&opened.ledger, opened.store.reader());
    let shreds = shred_cluster(setup, place, own, opened);
    let others = setup.entrypoints.iter().filter(|at| **at != port_at(place.ip, PortKind::Gossip));
    let protocol = hearth_gossip::Config {
        verifier_bytes_max: TABLE_BYTES,
        trusts_addresses: place.is_replay(),
        ..peers::gossip::config(place.ip.into(), others.copied().collect())
    };
    let version = setup.shred_version;
    configs
        .one::<Repair>(repair::Config {
            own: own.into(),
            ledger: Arc::clone(ledger),
            blocks: blocks.clone(),
            nonces: shreds.nonces,
        })
        .one::<Rserve>(rserve::Config { own: own.into(), shred_version: version, blocks: blocks.clone() })
        .one::<TxSend>(txsend::Config {
            identity: own.into(),
            votes: place.vote.is_some(),
            ledger: Arc::clone(ledger),
            drops: drops.clone(),
        })
        .one::<Gossip>(gossip::Config {
            protocol,
            own: contact(setup, place, own, clock),
            identity: own.into(),
            ledger: Arc::clone(ledger),
            blocks,
            archives: Arc::default(),
            board: Arc::new(Board::default()),
        })
        .one::<Exec>(exec::Config {
            ledger: Arc::clone(ledger),
            worker: WorkerConfig { table_bytes: TABLE_BYTES, recording: None },
        })
        .one::<Shred>(shred::Config {
            shred_version: version,
            shreds_per_slot_max: shreds.receiver.shreds_per_slot_max,
            chained_root: opened.block_id,
            first_slot: opened.last_slot + 1,
            takes_turns: true,
            destinations: vec![],
            cluster: Some(shreds),
            tap: place.tap(),
        })
}

impl Node {
    /// Starts a node from its folder.
    ///
    /// # Errors
    /// Its files are damaged, or its tower is of another chain.
    pub fn start(setup: &Setup, place: &NodeStart<'_>) -> Result<Self, StartError> {
        let (seed, number) = (place.seed, place.number);
        let own = place.identity();
        let clock = Clock::manual_from(setup.unix_ns(place));
        let opened = open(setup, place, &own)?;
        let Consensus { tower, replay, confirmed, due: tower_due } = consensus(setup, place, &opened, &clock)?;
        let (failed_tower, failed_replay) = (tower.failure.clone(), replay.failure.clone());
        let fates = Arc::new(DropTable::new(1_024, secret_word(seed, number, "tags")));
        let drops = DropLog::new(Arc::clone(&fates));
        let wire = Arc::new(Mutex::new(Wire { tap: place.tap(), ..Wire::default() }));
        let configs = leading(setup, own, &opened, (&drops, fates.key()), place.tap());
        let configs = following(configs, setup, place, (own, &opened, &drops), &clock);
        let OpenedChain { ledger, store, keeper, .. } = opened;
        let blocks = store.reader();
        let when = secret_word(seed ^ place.starts << 32, number, "snapshots");
        let snapshots = SnapshotTaker::new(&ledger, place.folder, blocks.clone(), when).map_err(StartError::other)?;
        let configs = configs
            .one::<SimNet>(Arc::clone(&wire))
            .one::<Tower>(tower)
            .one::<ReplayTile>(replay)
            .one::<Sign>(sign::Config {
                key: place.keypair(),
                vote_account: place.vote,
                voters: VoterKeys::identity_alone(),
                identity: own.into(),
            })
            .one::<Store>(store::Config::new(store, Arc::clone(&ledger)).in_cluster(confirmed));
        let mut chance = fastrand::Rng::with_seed(secret_word(seed ^ place.starts << 32, number, "entropy"));
        let entropy = |tile: &str| match &place.session {
            Some(session) => seeded(&session.seed, tile),
            None => Entropy::Seeded(chance.u64(..)),
        };
        let stepped = SteppedNode::make(setup.topology.clone(), &clock, configs, entropy).map_err(StartError::other)?;
        let counters = stepped.topology.tiles.iter().map(|tile| {
            let words = stepped.workspace.counters(&tile.name()).expect("every tile counts");
            (tile.kind.clone(), words)
        });
        let counters = counters.collect();
        Ok(Self {
            number,
            counters,
            stepped,
            clock,
            began: place.now,
            drift_ppm: place.drift_ppm,
            wire,
            ledger,
            blocks,
            keeper,
            disk: Arc::clone(place.disk),
            synced_at: None,
            tower_due,
            snapshots,
            failed_replay,
            failed_tower,
            wake_at: place.now,
            busy_since: None,
        })
    }

    /// The node's index in the cluster, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The votes whose towers have come to disk since the last call.
    pub fn take_votes(&self) -> Vec<BankId> {
        self.tower_due.take_votes()
    }

    /// The snapshots that were completed or abandoned since the last call.
    pub fn take_snapshots(&mut self) -> Vec<Result<SnapshotFile, SnapshotError>> {
        self.snapshots.take_done()
    }

    /// The time on its clock, nanoseconds since it started.
    pub fn clock_ns(&self) -> u64 {
        self.clock.now()
    }

    /// Sets its clock on the wall.
    pub fn set_wall(&self, by_ns: i64) {
        self.clock.set_wall(by_ns);
    }

    /// Hands a transaction in, as the RPC does; false where there is no room.
    pub fn submit(&mut self, transaction: &[u8]) -> bool {
        let inlet = self.stepped.inlets.get_mut(hearth_pipeline::links::RPC_TXSEND);
        inlet.expect("a node in a cluster has this link").send(transaction).is_ok()
    }

    /// The time on its clock at an instant of the run.
    fn own_time(&self, now: u64) -> u64 {
        scaled(now - self.began, 1_000_000 + self.drift_ppm, 1_000_000)
    }

    /// The first instant of the run at which its clock shows this time.
    fn run_time(&self, own: u64) -> u64 {
        self.began + scaled(own, 1_000_000, 1_000_000 + self.drift_ppm) + 2
    }

    /// Turns its tiles until all are idle, or for as much as fits in an instant.
    ///
    /// # Errors
    /// A tile panics, or says that the node can go on no more: why.
    pub fn run(&mut self, now: u64) -> Result<(), String> {
        self.clock.advance(Duration::from_nanos(self.own_time(now).saturating_sub(self.clock.now())));
        let swept = catch_unwind(AssertUnwindSafe(|| self.sweep(now)));
        let is_idle = swept.map_err(|panic| said(&*panic))?;
        if let Some(why) = self.failed_replay.take() {
            return Err(format!("replay: {why:?}"));
        }
        if let Some(why) = self.failed_tower.take() {
            return Err(format!("tower: {why}"));
        }
        self.busy_since = if is_idle { None } else { self.busy_since.or(Some(now)) };
        self.wake_at = if is_idle { self.next_wake(now) } else { now + BUSY_NS };
        Ok(())
    }

    /// Whether all tiles became idle.
    fn sweep(&mut self, now: u64) -> bool {
        if self.synced_at.is_some_and(|at| at <= now) {
            self.synced_at = None;
            self.keeper.step();
        }
        let mut is_idle = false;
        for _ in 0..SWEEPS_MAX {
            is_idle = true;
            for tile in &mut self.stepped.tiles {
                is_idle &= tile.turn(0) == Activity::Idle;
            }
            if is_idle {
                break;
            }
        }
        if self.synced_at.is_none() && self.keeper.is_due() {
            self.synced_at = Some(now + self.disk.sync_ns());
        }
        if self.disk.takes_snapshots() {
            self.snapshots.step(now);
        }
        is_idle
    }

    /// When there is something to do again.
    fn next_wake(&self, now: u64) -> u64 {
        let deadlines = self.stepped.tiles.iter().filter_map(|tile| tile.waits_for().deadline);
        let own = deadlines.chain(self.tower_due.get()).min().map(|own| self.run_time(own));
        let next = own.into_iter().chain(self.synced_at).min().unwrap_or(u64::MAX);
        next.clamp(now + SLEEP_NS.0, now + SLEEP_NS.1)
    }

    /// Since when it had something to do at every instant, if it has.
    pub fn busy_since(&self) -> Option<u64> {
        self.busy_since
    }

    /// The tiles that wait for room on an output.
    pub fn held_up(&self) -> impl Iterator<Item = &str> {
        let waits = LoopCounters::DECLS.iter().position(|decl| decl.name == "in_backpressure").expect("it is declared");
        let held_up = self.counters.iter().filter(move |(_, counters)| counters.words()[waits].load(Relaxed) > 0);
        held_up.map(|(tile, _)| tile.as_str())
    }

    /// Writes what the tiles have counted where [`Node::count`] reads it.
    pub fn flush(&mut self) {
        self.stepped.tiles.iter_mut().for_each(|tile| tile.flush());
    }

    /// The sum of a tile's counters whose names begin so, by the last [`Node::flush`].
    pub fn count(&self, tile: &str, prefix: &str) -> u64 {
        self.counts(tile).filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
    }

    /// The kinds of the tiles, each once.
    pub fn tiles(&self) -> impl Iterator<Item = &str> {
        self.counters.iter().map(|(tile, _)| tile.as_str())
    }

    /// A tile's counters by name, by the last [`Node::flush`].
    pub fn counts(&self, tile: &str) -> impl Iterator<Item = (&str, u64)> {
        let spec = self.stepped.topology.tiles.iter().find(|spec| spec.kind == tile).expect("there is such a tile");
        let counters = self.counters.iter().find(|(kind, _)| kind == tile).map(|(_, counters)| counters);
        let counters = counters.expect("every tile counts");
        let common = LoopCounters::DECLS.iter().map(|decl| decl.name);
        let names = common.chain(spec.counters.iter().map(|counter| counter.name.as_str()));
        names.zip(counters.words()).map(|(name, word)| (name, word.load(Relaxed)))
    }
}

fn scaled(time: u64, times: i64, by: i64) -> u64 {
    (i128::from(time) * i128::from(times) / i128::from(by)) as u64
}

/// The text of a tile's panic.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    format!("a tile panicked: {}", text.unwrap_or_else(|| "without a word".to_owned()))
}

/// Removes a node's chain, as an operator does if its files are damaged.
///
/// # Errors
/// The file system's.
pub fn wipe(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
    }
    Ok(())
}
