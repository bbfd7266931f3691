//! Derives the configuration of each tile.
//!
//! reads   the configuration, an opened chain
//! writes  the configurations of the tiles

use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use hearth_keys::{Identity, Keypair};
use hearth_ledger::cost::BlockLimits;
use hearth_ledger::history::History;
use hearth_ledger::{DropTable, Genesis, Ledger, SlotError};
use hearth_machine::port::{PortError, reachable};
use hearth_pipeline::bank::{self, Bank};
use hearth_pipeline::benchg::{self, Benchg};
use hearth_pipeline::bencho::{self, Bencho};
use hearth_pipeline::benchs::{self, Benchs};
use hearth_pipeline::capture::Tap;
use hearth_pipeline::dedup::{self, Dedup};
use hearth_pipeline::drops::DropLog;
use hearth_pipeline::failure::Failure;
use hearth_pipeline::gossip::Gossip;
use hearth_pipeline::identity::IdentityWatch;
use hearth_pipeline::metric::{self, Metric};
use hearth_pipeline::net::links::LinksConfig;
use hearth_pipeline::net::{self, Net};
use hearth_pipeline::node::apart::StartApart;
use hearth_pipeline::node::{NodeConfig, TileConfigs};
use hearth_pipeline::pack::{self, Pack};
use hearth_pipeline::poh::{self, Poh};
use hearth_pipeline::quic::{self, Quic};
use hearth_pipeline::repair::nonce::NonceKey;
use hearth_pipeline::repair::{self, Repair};
use hearth_pipeline::rserve::{self, Rserve};
use hearth_pipeline::shred::{self, Shred, Slot0};
use hearth_pipeline::sign::{self, Sign};
use hearth_pipeline::store::{self, Store};
use hearth_pipeline::txsend::{self, TxSend};
use hearth_pipeline::verify::{self, Verify};
use hearth_pipeline::voters::VoterKeys;
use hearth_quic::{ClientConfig, ServerConfig, Stakes};
use hearth_tile::Tile;
use hearth_tile::core::IdlePolicy;
use hearth_tile::topology::Topology;
use hearth_wire::Pubkey;

use super::consensus::{Cluster, Consensus, with_consensus};
use super::{Chain, Load, SHORTEST_SLOT_NS};
use crate::capture::{self, Recording};
use crate::config::{
    Bench, Config, DedupTile, Development, Layout, NetTile, PackTile, PeerLimits, Ports, QuicTile, Rpc,
    ScheduleStrategy, VerifyTile, huge_pages, workspace_path,
};
use crate::peers::socket::links_config;
use crate::ports::BoundPorts;

/// Maximum incomplete slots in the FEC resolver.
const SLOTS_BEGUN_MAX: usize = 256;
/// Maximum incomplete FEC sets: 79 KiB each.
const SETS_BEGUN_MAX: usize = 1_024;

/// How the node takes part in its cluster, which may consist of it alone.
pub(super) struct Participation {
    /// Set if there are other nodes.
    pub cluster: Option<Cluster>,
    /// Set if the node votes, or there are other nodes.
    pub consensus: Option<Consensus>,
    /// Receives why poh begins no more slot.
    pub ended: Failure<SlotError>,
    /// Set if the session is recorded.
    pub session: Option<Recording>,
}

/// Returns the configurations of the tiles, and separately that of sign if it is apart.
pub(super) fn tile_configs(
    config: &Config,
    bound: &mut BoundPorts,
    topology: &Topology,
    chain: Chain,
    load: Option<Load>,
    fates: Arc<DropTable>,
    part: Participation,
) -> Result<(TileConfigs, Option<sign::Config>), PortError> {
    let ports = bound.ports;
    let Participation { cluster, consensus, ended, session } = part;
    let tap = session.as_ref().and_then(|session| session.tap.clone());
    let cluster = cluster.as_ref();
    let metrics = bound.metrics()?;
    let takes_turns = cluster.is_some_and(|cluster| cluster.leads);
    let bench = &config.development.bench;
    let shreds = cluster.map(|_| shred_cluster(config, &chain, nonce_key(session.as_ref())));
    let watch = chain.watch.clone();
    let Chain {
        genesis, ledger, folder, identity: Identity { keypair, public: own }, store, replayed, history, ..
    } = chain;
    let drops = DropLog::new(fates.clone());
    let recording = history.as_ref().map(|history| recording(&config.rpc, history));
    // The first net tile has the bound sockets, and the others share their ports.
    let mut bound = bound.net();
    let configs = TileConfigs::default()
        .each::<Net>(topology, |_| net::Config {
            bound: std::mem::take(&mut bound),
            tap: tap.clone(),
            ..net_config(&config.tiles.net, !config.follows(), links_config(config), &ports)
        })
        .each::<Quic>(topology, |_| quic_config(&config.tiles.quic, own, drops.clone(), tap.clone()))
        .each::<Verify>(topology, |_| verify_config(&config.tiles.verify, topology, fates.key(), drops.clone()))
        .each::<Dedup>(topology, |_| dedup_config(&config.tiles.dedup, &drops))
        .each::<Pack>(topology, |_| pack::Config {
            blockhashes: (*ledger.blockhashes()).clone(),
            ledger: Some(ledger.clone()),
            takes_turns,
            drops: drops.clone(),
            ..pack_config(&config.tiles.pack, &config.development)
        })
        .each::<Bank>(topology, |_| bank_config(&ledger, &drops, recording.clone()))
        .each::<Poh>(topology, |_| poh_tile_config(config, &genesis, &ledger, &ended))
        .each::<Shred>(topology, |_| shred::Config {
            shred_version: ledger.shred_version(),
            shreds_per_slot_max: block_limits(bench).shreds as u32,
            // The first set after slot 0 chains to that slot's block.
            chained_root: replayed.block_id.unwrap_or_else(|| *Slot0::of(&genesis).block_id()),
            first_slot: replayed.last_slot + 1,
            takes_turns,
            destinations: config.tiles.shred.additional_shred_destinations.clone(),
            cluster: shreds.clone(),
            tap: tap.clone(),
        });
    let configs = with_peers(configs, cluster.zip(shreds), || txsend_config(config, watch.clone(), &ledger, &drops));
    let confirmed = consensus.as_ref().and_then(|consensus| consensus.confirmed);
    let (sign, consensus) = sign_config(keypair, watch, consensus);
    let (configs, apart) = with_sign(configs, topology, sign);
    let configs = with_consensus(configs, topology, consensus, recording.as_ref())
        .one::<Metric>(metric_config(workspace_path(config), &ports, metrics, folder))
        .one::<Store>(store_config(store::Config::new(store, ledger), history, confirmed));
    let configs = match load {
        Some(load) => with_load(configs, bench, topology, &ports, load),
        None => configs,
    };
    Ok((configs, apart))
}

/// Adds the tiles that a node in a cluster has besides.
fn with_peers(
    configs: TileConfigs,
    cluster: Option<(&Cluster, shred::Cluster)>,
    txsend: impl FnOnce() -> txsend::Config,
) -> TileConfigs {
    let Some((cluster, shreds)) = cluster else { return configs };
    let configs = configs.one::<TxSend>(txsend()).one::<Gossip>(cluster.gossip.clone());
    configs.one::<Repair>(repair_config(&shreds)).one::<Rserve>(rserve_config(&shreds))
}

/// Adds the configuration of sign, or returns it if the tile is apart.
fn with_sign(configs: TileConfigs, topology: &Topology, sign: sign::Config) -> (TileConfigs, Option<sign::Config>) {
    match topology.apart() {
        Some(_) => (configs, Some(sign)),
        None => (configs.one::<Sign>(sign), None),
    }
}

/// Takes the keys that may sign votes from the configuration of consensus.
fn sign_config(
    key: Keypair,
    identity: IdentityWatch,
    mut consensus: Option<Consensus>,
) -> (sign::Config, Option<Consensus>) {
    let vote_account = consensus.as_ref().and_then(|consensus| consensus.vote_account);
    let voters = consensus.as_mut().and_then(|consensus| consensus.voters.take());
    // A node that does not vote has no use for any.
    let voters = voters.unwrap_or_else(VoterKeys::identity_alone);
    (sign::Config { key, vote_account, voters, identity }, consensus)
}

fn bank_config(ledger: &Arc<Ledger>, drops: &DropLog, recording: Option<bank::RecorderConfig>) -> bank::Config {
    bank::Config { ledger: ledger.clone(), drops: drops.clone(), recording }
}

fn txsend_config(config: &Config, identity: IdentityWatch, ledger: &Arc<Ledger>, drops: &DropLog) -> txsend::Config {
    let votes = config.consensus.vote && !config.follows();
    txsend::Config { identity, votes, ledger: ledger.clone(), drops: drops.clone() }
}

fn with_load(configs: TileConfigs, bench: &Bench, topology: &Topology, ports: &Ports, load: Load) -> TileConfigs {
    let benchs = benchs::Config {
        target: reachable(ports.quic),
        connections: bench.connections,
        client: ClientConfig::local(),
        identity: None,
    };
    let bencho = bencho::Config { rpc: reachable(ports.rpc), samples: load.samples };
    load_configs(configs, topology, load.benchg, benchs, bencho)
}

/// Adds the configurations of the load's tiles.
pub fn load_configs(
    configs: TileConfigs,
    topology: &Topology,
    benchg: benchg::Config,
    benchs: benchs::Config,
    bencho: bencho::Config,
) -> TileConfigs {
    configs
        .each::<Benchg>(topology, |_| benchg.clone())
        .each::<Benchs>(topology, |_| benchs.clone())
        .one::<Bencho>(bencho)
}

fn quic_config(quic: &QuicTile, own: Pubkey, drops: DropLog, tap: Option<Tap>) -> quic::Config {
    // A node alone has all the stake. In a cluster txsend reads the stakes from the ledger.
    let server = ServerConfig { stakes: Stakes::new([(own, 1)]), ..server_config(quic) };
    quic::Config { server, drops, tap }
}

fn dedup_config(dedup: &DedupTile, drops: &DropLog) -> dedup::Config {
    dedup::Config { history: dedup.signature_cache_size, drops: drops.clone() }
}

fn verify_config(verify: &VerifyTile, topology: &Topology, tag_key: u64, drops: DropLog) -> verify::Config {
    let table_bytes = verify.table_bytes / topology.count(Verify::NAME);
    verify::Config { history: verify.signature_cache_size, table_bytes, tag_key, drops }
}

fn recording(rpc: &Rpc, history: &History) -> bank::RecorderConfig {
    bank::RecorderConfig { key: history.key(), extended: rpc.extended_tx_metadata_storage }
}

/// `confirmed` is the newest slot that the cluster has confirmed, for a node in one.
fn store_config(config: store::Config, history: Option<History>, confirmed: Option<u64>) -> store::Config {
    let config = match confirmed {
        Some(confirmed) => config.in_cluster(confirmed),
        None => config,
    };
    if let Some(history) = history { config.with_history(history) } else { config }
}

fn metric_config(workspace: PathBuf, ports: &Ports, listener: TcpListener, folder: PathBuf) -> metric::Config {
    metric::Config { listen: ports.metrics, bound: Some(listener), workspace, ledger: folder }
}

/// `makes_blocks`: the node takes transactions. `links` are the emulated links.
fn net_config(config: &NetTile, makes_blocks: bool, links: Option<LinksConfig>, ports: &Ports) -> net::Config {
    net::Config {
        transactions: makes_blocks.then_some(net::TransactionPorts { quic: ports.quic, udp: ports.udp }),
        shreds: ports.cluster.map(|ports| net::ShredPorts {
            tvu: ports.tvu.into(),
            repair: ports.repair.into(),
            serve_repair: ports.serve_repair.into(),
        }),
        gossip: ports.cluster.map(|ports| ports.gossip.into()),
        sends_from: ports.cluster.map(|at| IpAddr::from(*at.gossip.ip())),
        socket_buffer_bytes: config.socket_buffer_bytes,
        links,
        ..net::Config::default()
    }
}

/// How shred handles other nodes' shreds.
fn shred_cluster(config: &Config, chain: &Chain, nonces: NonceKey) -> shred::Cluster {
    shred::Cluster {
        identity: chain.watch.clone(),
        receiver: receiver_config(config, chain),
        ledger: chain.ledger.clone(),
        blocks: chain.store.reader(),
        nonces,
    }
}

fn repair_config(shreds: &shred::Cluster) -> repair::Config {
    repair::Config {
        own: shreds.identity.clone(),
        ledger: shreds.ledger.clone(),
        blocks: shreds.blocks.clone(),
        nonces: shreds.nonces,
    }
}

fn rserve_config(shreds: &shred::Cluster) -> rserve::Config {
    let (own, shred_version) = (shreds.identity.clone(), shreds.receiver.version);
    rserve::Config { own, shred_version, blocks: shreds.blocks.clone() }
}

/// The secret by which repair and shred recognize responses.
fn nonce_key(session: Option<&Recording>) -> NonceKey {
    if let Some(session) = session {
        return capture::nonces(&session.seed);
    }
    let mut key = [0; 32];
    hearth_tile::sys::random::fill(&mut key);
    NonceKey(key)
}

fn receiver_config(config: &Config, chain: &Chain) -> shred::ReceiverConfig {
    shred::ReceiverConfig {
        version: chain.ledger.shred_version(),
        own: chain.identity.public,
        slots_per_epoch: chain.genesis.config().slots_per_epoch,
        ..receiver_limits(&config.development.bench)
    }
}

/// Maximum memory for other nodes' shreds in a shred tile, in bytes.
pub fn shred_memory(bench: &Bench) -> u64 {
    shred::memory(&receiver_limits(bench))
}

/// The limits of a receiver, not yet bound to a chain.
fn receiver_limits(bench: &Bench) -> shred::ReceiverConfig {
    shred::ReceiverConfig {
        version: 0,
        own: [0; 32],
        shreds_per_slot_max: block_limits(bench).shreds as u32,
        slots_per_epoch: 0,
        slots_max: SLOTS_BEGUN_MAX,
        sets_max: SETS_BEGUN_MAX,
    }
}

/// The configuration of the whole node; `seed` draws the tiles' secrets, if its session is recorded, and `apart` starts
/// the tile that is a process of its own.
pub(super) fn node_config(
    config: &Config,
    tiles: TileConfigs,
    seed: Option<[u8; 32]>,
    apart: Option<StartApart>,
) -> NodeConfig {
    NodeConfig {
        workspace: workspace_path(config),
        huge_pages: huge_pages(&config.hugetlbfs),
        idle: idle(&config.layout),
        tiles,
        seed,
        apart,
    }
}

/// When idle cores park.
pub fn idle(layout: &Layout) -> IdlePolicy {
    IdlePolicy {
        park_after_ns: match layout.park_after_micros {
            0 => u64::MAX,
            micros => micros * 1000,
        },
        sleep_max_ns: IdlePolicy::SLEEP_MAX_NS,
    }
}

/// The configuration of the QUIC server.
pub fn server_config(quic: &QuicTile) -> ServerConfig {
    let base = match quic.limits {
        PeerLimits::Production => ServerConfig::agave(),
        PeerLimits::Local => ServerConfig::local(),
    };
    match quic.max_concurrent_connections {
        0 => base,
        connections_max => ServerConfig { connections_max, ..base },
    }
}

/// The limits of a block.
pub fn block_limits(bench: &Bench) -> BlockLimits {
    BlockLimits::lifted(bench.max_cost_per_block, bench.larger_max_cost_per_block, bench.larger_shred_limits_per_block)
}

/// The configuration of pack.
pub fn pack_config(pack: &PackTile, development: &Development) -> pack::Config {
    let capacity = pack.max_pending_transactions;
    let default = pack::Config::default();
    pack::Config {
        capacity,
        // As many per transaction as by default.
        accounts: default.accounts.max(capacity.saturating_mul(default.accounts / default.capacity)),
        limits: block_limits(&development.bench),
        use_consumed_cus: pack.use_consumed_cus,
        hold_when_full: pack.hold_when_full,
        shortest_slot_ns: development.are_slots_on_demand().then_some(SHORTEST_SLOT_NS),
        pacing: match pack.schedule_strategy {
            ScheduleStrategy::Balanced => pack::Pacing::Even,
            ScheduleStrategy::Perf => pack::Pacing::None,
        },
        ..default
    }
}

fn poh_tile_config(
    config: &Config,
    genesis: &Genesis,
    ledger: &Arc<Ledger>,
    ended: &Failure<SlotError>,
) -> poh::Config {
    poh::Config {
        chain: poh_config(genesis),
        on_demand: on_demand(&config.development),
        ledger: Arc::clone(ledger),
        failure: ended.clone(),
    }
}

pub(super) fn poh_config(genesis: &Genesis) -> poh::chain::Config {
    let config = genesis.config();
    poh::chain::Config {
        hashes_per_tick: config.hashes_per_tick,
        ticks_per_slot: config.ticks_per_slot,
        slot_ns: config.slot_ns(),
        max_microblocks: poh::chain::MAX_MICROBLOCKS,
    }
}

pub(super) fn on_demand(development: &Development) -> Option<poh::OnDemand> {
    let idle_ns = (development.idle_slot_ms > 0).then(|| development.idle_slot_ms.saturating_mul(1_000_000));
    development.are_slots_on_demand().then_some(poh::OnDemand { idle_ns })
}
