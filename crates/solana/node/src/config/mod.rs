//! The configuration: one TOML file, typed, every key documented at its field.
//!
//! reads   a file given by `--config`; none is needed
//! writes  the annotated default file (`hearth config show --default`)
//! source  Firedancer's names where the meaning is the same
//!
//! Keys are declared once, below: type, default and text. The annotated default file, the check for unknown keys
//! and the suggestion of the nearest key derive from that. A tile's own default is taken from the tile.

mod foreign;
mod lines;
mod load;
mod option;
pub mod ports;
mod validator;
mod values;
mod workspace;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use hearth_pipeline::kinds::{KINDS, Kind};
use hearth_pipeline::topology::Counts;
use hearth_pipeline::{dedup, pack};
use hearth_tile::affinity::{Affinity, Blocklist};
use serde::{Deserialize, Serialize};

pub use load::{
    ConfigError, EPOCH_LEAST, LOG_BYTES_MAX, LoadedConfig, Survey, TICKS_LEAST, check, idle_keys, load, load_str,
    survey,
};
pub use option::ConfigFile;
pub use ports::{ClusterPorts, Ports};
pub use validator::Validator;
pub use values::{Address, Entrypoint, Isolation, PageSize, PeerLimits, ScheduleStrategy, SlotTiming};
pub use workspace::{LocalNode, huge_pages, workspace_path};

/// Writes one key of the annotated default file.
pub trait Annotate {
    /// Appends the key, or the table, at `path`, with its text.
    fn annotate(&self, path: &str, key: &str, help: &str, to: &mut AnnotatedFile);

    /// The count at `path` below this value; an empty path is the value itself.
    fn count_mut(&mut self, _path: &str) -> Option<&mut usize> {
        None
    }
}

/// The annotated file in the making: a table's keys come before its tables.
#[derive(Default)]
pub struct AnnotatedFile {
    keys: String,
    tables: Vec<String>,
}

impl AnnotatedFile {
    fn key(&mut self, key: &str, help: &str, value: &str) {
        for line in help.lines() {
            self.keys += format!("# {}\n", line.trim()).trim_end();
            self.keys.push('\n');
        }
        self.keys += &format!("{key} = {value}\n\n");
    }

    fn finish(self) -> String {
        [vec![self.keys], self.tables].concat().concat()
    }
}

macro_rules! plain_values {
    ($($kind:ty),*) => {
        $(impl Annotate for $kind {
            fn annotate(&self, _: &str, key: &str, help: &str, to: &mut AnnotatedFile) {
                to.key(key, help, &toml::Value::try_from(self).expect("a plain value").to_string());
            }
        })*
    };
}

plain_values!(String, PathBuf, bool, u16, u32, u64, IpAddr, Ipv4Addr, Vec<PathBuf>, Vec<SocketAddr>, Vec<u64>);
plain_values!(
    Affinity,
    Blocklist,
    PageSize,
    SlotTiming,
    PeerLimits,
    ScheduleStrategy,
    Isolation,
    Vec<Address>,
    Vec<Entrypoint>,
    Vec<Validator>
);

impl Annotate for usize {
    fn annotate(&self, _: &str, key: &str, help: &str, to: &mut AnnotatedFile) {
        to.key(key, help, &self.to_string());
    }

    fn count_mut(&mut self, path: &str) -> Option<&mut usize> {
        path.is_empty().then_some(self)
    }
}

/// Declares tables of the configuration.
macro_rules! tables {
    ($($(#[doc = $doc:literal])+ pub struct $name:ident {
        $($(#[doc = $help:literal])+ $(#[serde($($serde:tt)+)])? pub $key:ident: $kind:ty = $default:expr,)*
    })*) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[serde(default, deny_unknown_fields)]
            pub struct $name {
                $($(#[doc = $help])+ $(#[serde($($serde)+)])? pub $key: $kind,)*
            }

            impl Default for $name {
                fn default() -> Self {
                    Self { $($key: $default,)* }
                }
            }

            impl $name {
                fn annotate_keys(&self, path: &str, to: &mut AnnotatedFile) {
                    $(self.$key.annotate(path, stringify!($key), concat!($($help, "\n"),+), to);)*
                }
            }

            impl Annotate for $name {
                fn annotate(&self, path: &str, key: &str, help: &str, to: &mut AnnotatedFile) {
                    let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                    let mut inner = AnnotatedFile::default();
                    self.annotate_keys(&path, &mut inner);
                    let help: String = help.lines().map(|l| format!("# {}\n", l.trim())).collect();
                    let head = if inner.keys.is_empty() { String::new() } else { format!("{help}[{path}]\n") };
                    to.tables.push(head + &inner.finish());
                }

                fn count_mut(&mut self, path: &str) -> Option<&mut usize> {
                    let (key, below) = path.split_once('.').unwrap_or((path, ""));
                    match key {
                        $(stringify!($key) => self.$key.count_mut(below),)*
                        _ => None,
                    }
                }
            }
        )*
    };
}

tables! {
    /// The whole configuration, with a field for each top-level key or table.
    pub struct Config {
        /// The node's name. It names the workspace and replaces `{name}` in paths.
        pub name: String = "hearth".into(),
        /// Which tiles run where.
        pub layout: Layout = Layout::default(),
        /// Pages of the shared-memory workspace.
        pub hugetlbfs: HugeTlbFs = HugeTlbFs::default(),
        /// What a tile that is taken over could reach.
        pub security: Security = Security::default(),
        /// The records of `hearth configure init`.
        pub configure: Configure = Configure::default(),
        /// Blocks on disk.
        pub ledger: Ledger = Ledger::default(),
        /// The state on disk.
        pub snapshots: Snapshots = Snapshots::default(),
        /// Identity, votes and hard forks.
        pub consensus: Consensus = Consensus::default(),
        /// The cluster that the node is in.
        pub gossip: Gossip = Gossip::default(),
        /// JSON-RPC for clients.
        pub rpc: Rpc = Rpc::default(),
        /// Settings of single tiles.
        pub tiles: Tiles = Tiles::default(),
        /// Settings for development chains only.
        pub development: Development = Development::default(),
    }

    /// The table `[layout]`: the number of tiles of each kind, and their cores.
    pub struct Layout {
        /// Cores of the node's tiles in the order net, quic, verify, dedup, pack, bank, poh, shred, repair, store,
        /// rserve, replay, exec, tower, txsend, gossip, sign, metric (repair, and rserve to gossip, in a cluster):
        /// `auto`, or a comma list of `3`, `1-16`, `0-10/2`, `f2` (two tiles float) and `0*6` (six tiles share core 0).
        /// One thread polls the tiles of a core in turn. A node that votes alone has tower on store's core.
        pub affinity: Affinity = Affinity::default(),
        /// Cores that `auto` must not use: `0`, `4-7`, `2h` (core 2 and its hyperthread sibling).
        pub blocklist_cores: Blocklist = Blocklist::default(),
        /// Number of net tiles; 0 chooses by the number of cores, here and below, or is 1 where `affinity` is not
        /// `auto`.
        pub net_tile_count: usize = 0,
        /// Number of quic tiles.
        pub quic_tile_count: usize = 0,
        /// Number of verify tiles.
        pub verify_tile_count: usize = 0,
        /// Number of bank tiles.
        pub bank_tile_count: usize = 0,
        /// Number of shred tiles.
        pub shred_tile_count: usize = 0,
        /// Number of exec tiles, which execute blocks of others in a cluster.
        pub exec_tile_count: usize = 0,
        /// An idle core sleeps after this many microseconds, and sooner if work is rare. At little load one core runs
        /// the tiles of all sleeping ones. 0: no core sleeps.
        pub park_after_micros: u64 = 50,
    }

    /// The table `[hugetlbfs]`: the page size of the workspace, and the folder of its file.
    pub struct HugeTlbFs {
        /// `normal` needs no set-up; `huge` (2 MiB) and `gigantic` (1 GiB) pages must have been reserved.
        pub max_page_size: PageSize = PageSize::Normal,
        /// Where such pages are mounted.
        pub mount_path: PathBuf = "/dev/hugepages".into(),
        /// Folder of the workspace file with normal pages.
        pub workspace_path: PathBuf = hearth_ring::WORKSPACE_FOLDER.into(),
    }

    /// The table `[security]`: which tiles have a sandboxed process of their own.
    pub struct Security {
        /// `none`: all tiles are threads of one process. `auto`: the tile sign, which has the identity key, runs in a
        /// process of its own, in a sandbox: it maps its own links and nothing else of the node. It floats unless it
        /// has a core to itself.
        pub isolation: Isolation = Isolation::None,
        /// With `auto`: the node ends with an error where this machine lacks a step of the sandbox. Without, it names
        /// the step and goes on.
        pub require_isolation: bool = false,
    }

    /// The table `[configure]`: where changes of the machine are recorded.
    pub struct Configure {
        /// Folder in which `hearth configure init` records its changes for `fini`. All nodes of a machine share it.
        pub path: PathBuf = "/var/lib/hearth".into(),
    }

    /// The table `[ledger]`: where blocks are stored, how many and how safely.
    pub struct Ledger {
        /// Folder of genesis, keys and blocks of `hearth run`.
        pub path: PathBuf = ".hearth/{name}/ledger".into(),
        /// Maximum size of the block store on disk, bytes; the oldest blocks are dropped first. The next start's blocks
        /// are never dropped: if nothing else is left to drop, the chain halts and says so.
        pub limit_size: u64 = 8_000_000_000,
        /// Confirms a block only once it is on disk (fdatasync), and not merely in the kernel's cache.
        pub sync: bool = true,
    }

    /// The table `[snapshots]`: when to take snapshots, and whose to download.
    pub struct Snapshots {
        /// Takes snapshots of the state while the chain runs. A start loads the newest and executes only the later
        /// blocks. Without snapshots it executes all blocks since genesis, and a chain cannot be started again once
        /// `ledger.limit_size` has dropped its first blocks.
        pub enabled: bool = true,
        /// Slots between snapshots: one is taken at the first block from each multiple on, so that all nodes of a
        /// cluster have the same ones, and with `write_archives` a full archive. Another is taken when the later blocks
        /// fill a quarter of `ledger.limit_size`.
        pub full_snapshot_interval_slots: u64 = 1000,
        /// Snapshots to keep: if the newest is damaged, a start loads the one before. The same number of full archives
        /// is kept.
        pub maximum_full_snapshots_to_retain: usize = 2,
        /// Also writes archives in Agave's format (`snapshot-SLOT-HASH.tar.zst`,
        /// `incremental-snapshot-BASE-SLOT-HASH.tar.zst`) while the chain runs, into `archives` in the snapshot folder,
        /// for Agave or for another node to start from. Off by default, since it costs time of a core and disk space,
        /// and restarts do not need it.
        pub write_archives: bool = false,
        /// With `write_archives`: slots between incremental archives, each at the first block from a multiple on. If no
        /// full archive was written since the start, it is a full one. 0: no incremental archives.
        pub incremental_snapshot_interval_slots: u64 = 200,
        /// Incremental archives to keep on the newest full one. On each older full one the newest is kept.
        pub maximum_incremental_snapshots_to_retain: usize = 4,
        /// Folder of the snapshots. Empty: `snapshots` in the ledger folder.
        pub path: PathBuf = PathBuf::new(),
        /// Downloads the newest snapshot of a peer if the node joins a cluster with an empty folder, or is far behind
        /// when it starts. Otherwise the node executes the chain from its first block, or from its newest one.
        pub download: bool = true,
        /// A full archive to download in place of announced ones: `http://HOST:PORT/snapshot-SLOT-HASH.tar.zst`, as the
        /// RPC of an Agave node serves it. It needs no voucher but the hash in its name. If the download fails, the
        /// node ends with an error. Empty: gossip decides.
        pub url: String = String::new(),
        /// Serves archives in Agave's format over the RPC port: those of `write_archives`, and those in the snapshot
        /// folder, where `hearth ledger snapshot create` writes them. Gossip announces the newest in place of the
        /// node's own snapshots, which only Hearth reads.
        pub serve_archives: bool = false,
        /// Minimum slots by which a peer's snapshot must be ahead of the newest final block, for a start to take it.
        pub maximum_local_snapshot_age: u64 = 2500,
        /// Identities of nodes each of which may vouch for a snapshot. Empty: nodes with more than a third of the
        /// genesis stake together vouch for one.
        pub known_validators: Vec<Address> = vec![],
        /// Downloads snapshots from `known_validators` only. Otherwise any node may serve a snapshot that one of them
        /// announces.
        pub only_known_rpc: bool = false,
        /// Without `known_validators`: accepts a snapshot that any node announces, if too little stake vouches for one.
        /// An attacker who controls this node's network can then give it a false state.
        pub take_unvouched: bool = false,
    }

    /// The table `[consensus]`: the keys of the node, and what its chain must be.
    pub struct Consensus {
        /// The identity key, a JSON file of Solana's tools. Empty: `identity.json` in the ledger folder, made if it is
        /// missing.
        pub identity_path: PathBuf = PathBuf::new(),
        /// Votes for blocks. Without votes, the blocks of a node alone become final by their depth.
        pub vote: bool = true,
        /// The vote account of a node that makes blocks and votes in a cluster: a JSON file of Solana's tools, or the
        /// address. Empty: a joining node only follows, and the node that begins a chain makes one in the ledger
        /// folder.
        pub vote_account_path: PathBuf = PathBuf::new(),
        /// The keys of the vote account's authorized voters, JSON files of Solana's tools, at most four. The account
        /// names the one that signs the votes of an epoch. Empty, and for a node alone: the identity is the authorized
        /// voter.
        pub authorized_voter_paths: Vec<PathBuf> = vec![],
        /// Votes in a cluster at once although the vote account has voted before and the ledger folder has no tower, or
        /// one that is older than the account's votes. The node then takes the votes in the account for its tower; a
        /// vote that did not land may still lock it out. Without this option a node without a tower only follows, and
        /// one with an older tower votes once the account's newest vote is 32 slots old.
        pub vote_without_tower: bool = false,
        /// Slots of the chain's hard forks, as after a restart of the cluster. Every node must have the same ones:
        /// they change bank hashes from the slot on, and the shred version at once.
        pub hard_forks: Vec<u64> = vec![],
        /// The genesis hash of the cluster, in base58. A joining node accepts no other genesis, and refuses a ledger
        /// folder with another one. Empty: the shred version of the entrypoint decides.
        pub expected_genesis_hash: String = String::new(),
        /// The cluster's shred version. If the entrypoint has another one, a joining node ends with an error before it
        /// downloads anything. 0: any.
        pub expected_shred_version: u16 = 0,
    }

    /// The table `[gossip]`: whether and where the node takes part in a cluster.
    pub struct Gossip {
        /// Whether the node is in a cluster: it gossips, sends its blocks along the turbine tree, and serves repair.
        pub enabled: bool = false,
        /// Entrypoints: gossip addresses (`host:port`, the host an IPv4 address or a name). Names are resolved when the
        /// node starts. A node with entrypoints takes the genesis from their cluster and follows it; with
        /// `consensus.vote_account_path` it also makes blocks and votes.
        pub entrypoints: Vec<Entrypoint> = vec![],
        /// IPv4 address on which the node receives gossip, shreds and repair requests, and which it advertises.
        #[serde(deserialize_with = "values::ipv4")]
        pub bind_address: Ipv4Addr = Ipv4Addr::LOCALHOST,
        /// Port of gossip, UDP and TCP.
        pub port: u16 = 8001,
    }

    /// The table `[rpc]`: the addresses, the contents and the limits of the RPC.
    pub struct Rpc {
        /// Address to listen on.
        #[serde(deserialize_with = "values::ip")]
        pub bind_address: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST),
        /// JSON-RPC over HTTP; WebSocket is one port higher.
        pub port: u16 = 8899,
        /// Keeps the addresses of JSON-RPC and WebSocket out of gossip. Other nodes then take no genesis and no
        /// snapshot from this one.
        pub private: bool = false,
        /// Serves a page about the node at the address of JSON-RPC, for browsers.
        pub dashboard: bool = true,
        /// Keeps the status of landed transactions for `getSignatureStatuses`, and their history on disk for
        /// `getTransaction`, `getBlock` and `getSignaturesForAddress`.
        pub transaction_history: bool = true,
        /// Landed transactions for which memory is allocated at the start, about 71 B each. If more are needed, the
        /// memory grows.
        pub status_capacity: usize = 1 << 20,
        /// Dropped transactions to remember for `hearth why` and `getTransactionFate`, 30 B each, allocated as drops
        /// come; the oldest is forgotten first. 0 remembers none.
        pub fate_capacity: usize = 900_000,
        /// Maximum HTTP connections. For one more the longest idle one is closed; if all have a request in progress,
        /// the new one is answered with 503.
        pub max_http_connections: usize = 512,
        /// The same for WebSocket connections, which are idle without a subscription or a request.
        pub max_websocket_connections: usize = 256,
        /// The same for connections of one IP address, at each of the two ports; 0 is no limit. Clients behind one
        /// proxy or router have one address.
        pub max_connections_per_address: usize = 0,
        /// Maximum bytes of a request.
        pub max_http_request_length: usize = 51_200,
        /// Maximum bytes of an answer, and of the account data in it.
        pub max_answer_length: usize = 64 << 20,
        /// Maximum requests in one batch.
        pub max_batch_length: usize = 1_024,
        /// Maximum requests of one address per second, counting each of a batch; 0 is no limit.
        pub requests_per_second: u32 = 0,
        /// Maximum subscriptions of all connections.
        pub max_subscriptions: usize = 16_384,
        /// Maximum transactions of `sendTransaction` that are resent until their block is confirmed; more are sent only
        /// once.
        pub max_resent_transactions: usize = 10_000,
        /// Maximum bytes of the transaction history on disk; the oldest is dropped first. 0 keeps none: then only the
        /// statuses of the last 300 blocks are known.
        pub history_limit_size: u64 = 2_000_000_000,
        /// Also stores log lines, calls between programs and return data in the history.
        pub extended_tx_metadata_storage: bool = true,
        /// Bytes of log lines to keep for one transaction, at most 1,000,000; the rest is cut.
        pub log_messages_bytes_limit: usize = hearth_svm::LOG_BYTES,
        /// The `token` that the owner's requests (`hearth_profileStart` and similar ones) must carry from any address.
        /// Empty: they need none, and only loopback addresses may send them.
        pub admin_token: String = String::new(),
        /// Maximum lamports of one airdrop; 0 is no limit.
        pub max_airdrop_lamports: u64 = 0,
        /// Maximum lamports of all airdrops in a time slice; 0 is no limit.
        pub max_airdrop_lamports_per_slice: u64 = 0,
        /// Length of that time slice, seconds.
        pub airdrop_slice_secs: u64 = 60,
    }

    /// The table `[tiles]`, with a table for each kind of tile that has settings.
    pub struct Tiles {
        /// The net tiles, which receive and send datagrams.
        pub net: NetTile = NetTile::default(),
        /// The quic tile, which receives transactions for the TPU.
        pub quic: QuicTile = QuicTile::default(),
        /// The verify tiles, which check signatures.
        pub verify: VerifyTile = VerifyTile::default(),
        /// The dedup tile, which drops duplicate transactions.
        pub dedup: DedupTile = DedupTile::default(),
        /// The pack tile, which schedules transactions for the banks.
        pub pack: PackTile = PackTile::default(),
        /// The shred tiles, which make and receive shreds.
        pub shred: ShredTile = ShredTile::default(),
        /// Shreds that are missing.
        pub repair: RepairTile = RepairTile::default(),
        /// The metric tile, which serves the metrics.
        pub metric: MetricTile = MetricTile::default(),
    }

    /// The table `[tiles.net]`: the address of the datagram sockets, and their buffers.
    pub struct NetTile {
        /// Address to listen on.
        #[serde(deserialize_with = "values::ip")]
        pub bind_address: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST),
        /// Requested kernel buffer per socket and direction, bytes.
        pub socket_buffer_bytes: usize = 4 << 20,
    }

    /// The table `[tiles.quic]`: the TPU's ports, and the limits on its peers.
    pub struct QuicTile {
        /// Plain UDP TPU port.
        pub regular_transaction_listen_port: u16 = 9001,
        /// TPU port over QUIC.
        pub quic_transaction_listen_port: u16 = 9007,
        /// Limits on peers: `local` sets none, `production` has the cluster's values, by stake.
        pub limits: PeerLimits = PeerLimits::Local,
        /// Maximum connections of peers without stake; with `limits = "local"` of all peers. 0 takes the value of
        /// `limits`.
        pub max_concurrent_connections: usize = 0,
    }

    /// The table `[tiles.verify]`: the memory of the verify tiles.
    pub struct VerifyTile {
        /// Transactions that each verify tile remembers, each for about a second at most.
        pub signature_cache_size: usize = 16_384,
        /// Bytes for the tables of frequent signers, for all verify tiles together.
        pub table_bytes: usize = 256 << 20,
    }

    /// The table `[tiles.dedup]`: the memory of the dedup tile.
    pub struct DedupTile {
        /// Transactions to remember, each for about a second at most: later its block may have been abandoned, and the
        /// transaction is sent again. The bank refuses those that have landed.
        pub signature_cache_size: usize = dedup::Config::default().history,
    }

    /// The table `[tiles.pack]`: the pool of waiting transactions, and how blocks are filled.
    pub struct PackTile {
        /// Maximum transactions that wait to be scheduled.
        pub max_pending_transactions: usize = pack::Config::default().capacity,
        /// A full pool holds its senders back (over QUIC they wait). `false` drops the worst-paying transaction
        /// instead, as a leader of the cluster must.
        pub hold_when_full: bool = pack::Config::default().hold_when_full,
        /// Gives compute units that a transaction did not use back to its block.
        pub use_consumed_cus: bool = pack::Config::default().use_consumed_cus,
        /// `perf` fills a block as fast as the banks execute. `balanced` spreads it over the slot, so that
        /// better-paying late transactions find room.
        pub schedule_strategy: ScheduleStrategy = ScheduleStrategy::Perf,
    }

    /// The table `[tiles.shred]`: where shreds are received, and where else own ones are sent.
    pub struct ShredTile {
        /// Addresses (`ip:port`) that get every shred this node makes as leader.
        #[serde(deserialize_with = "values::sockets")]
        pub additional_shred_destinations: Vec<SocketAddr> = vec![],
        /// Port for retransmitted shreds, with `gossip.enabled`.
        pub shred_listen_port: u16 = 8003,
    }

    /// The table `[tiles.repair]`: the ports of the repair client and the repair server.
    pub struct RepairTile {
        /// Port of the repair client, with `gossip.enabled`.
        pub repair_client_listen_port: u16 = 8005,
        /// Port of the repair server, with `gossip.enabled`.
        pub repair_serve_listen_port: u16 = 8007,
    }

    /// The table `[tiles.metric]`: the address of the Prometheus text.
    pub struct MetricTile {
        /// Address to listen on.
        #[serde(deserialize_with = "values::ip")]
        pub prometheus_listen_address: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST),
        /// Port of the Prometheus text.
        pub prometheus_listen_port: u16 = 7999,
    }

    /// The table `[development]`: keys that a node in a public cluster leaves alone.
    pub struct Development {
        /// When slots begin: `clock`, one after the other; `on-demand`, when there is work, then as many short ones as
        /// make it final. Then the chain pauses, and nothing ages.
        pub slots: SlotTiming = SlotTiming::Clock,
        /// With `on-demand`: milliseconds after which a slot without work begins; 0: none does.
        pub idle_slot_ms: u64 = 0,
        /// The emulated network between nodes of one machine.
        pub links: Links = Links::default(),
        /// Records what the node receives, to run it again.
        pub capture: Capture = Capture::default(),
        /// The settings of a new chain.
        pub genesis: Genesis = Genesis::default(),
        /// The load generator of `hearth bench`.
        pub bench: Bench = Bench::default(),
    }

    /// The table `[development.links]`: the file that emulates a network.
    pub struct Links {
        /// File of the nodes' regions and the cuts between them, as `hearth cluster up` writes it. Datagrams to other
        /// nodes get the delay and the loss that the file's map has for the two regions. It is read again when it
        /// changes. Empty: no emulation.
        pub file: PathBuf = PathBuf::new(),
    }

    /// The table `[development.capture]`: whether and how long a session is recorded.
    pub struct Capture {
        /// Folder into which the node records its session: what it receives from its cluster, its genesis and its
        /// identity key. Use it with test keys only. Both this folder and the ledger's must be new. Empty: nothing is
        /// recorded.
        pub folder: PathBuf = PathBuf::new(),
        /// Ends the session when the root is so many slots higher; 0: it ends with the node.
        pub slots: u64 = 0,
        /// Ends the session at so many bytes, before compression. Three times as many are in memory when it ends.
        pub limit_size: u64 = 128 << 20,
    }

    /// The table `[development.genesis]`: the times and the accounts of a new chain.
    pub struct Genesis {
        /// Funded accounts with published keys, for load and experiments.
        pub fund_initial_accounts: usize = 1024,
        /// Lamports of each of these accounts.
        pub fund_initial_amount_lamports: u64 = 500_000_000_000,
        /// Hashes per tick; 62500 is the cluster's. 0 is low-power mode: ticks are timed and cost one hash.
        pub hashes_per_tick: u64 = 0,
        /// Ticks in a slot.
        pub ticks_per_slot: u64 = 64,
        /// Time of a tick, microseconds; 64 × 6250 is a slot of 400 ms.
        pub target_tick_duration_micros: u64 = 6250,
        /// Slots in an epoch, at least 32.
        pub slots_per_epoch: u64 = 432_000,
        /// The slot after which the chain begins, so that programs see a later slot and epoch.
        pub warp_slot: u64 = 0,
        /// Lamports of the faucet.
        pub faucet_lamports: u64 = 500_000_000_000_000_000,
        /// Further nodes with stake from the beginning, each as `identity vote-account SOL`: two addresses and the
        /// stake. The node that begins the chain has 1,000,000 SOL.
        pub validators: Vec<Validator> = vec![],
    }

    /// The table `[development.bench]`: the load's tiles, and limits that a load may lift.
    pub struct Bench {
        /// Tiles that generate and sign; 0 chooses, or is 1 where `affinity` is not `auto`.
        pub benchg_tile_count: usize = 0,
        /// Tiles that send over QUIC; 0 chooses, or is 1 where `affinity` is not `auto`.
        pub benchs_tile_count: usize = 0,
        /// Cores of the load's tiles in the order bencho, benchg, benchs, in the form of `layout.affinity`.
        pub affinity: Affinity = Affinity::default(),
        /// Maximum compute units of a block; the cluster's are 100,000,000. A lower value fills blocks on a slow
        /// machine. Without effect if the limit is lifted.
        pub max_cost_per_block: u64 = 100_000_000,
        /// Lifts the block's compute limit (to 13 times the cluster's). Nodes that follow the chain need it too: others
        /// refuse blocks over the cluster's limit.
        pub larger_max_cost_per_block: bool = false,
        /// Lifts the limits on shreds in a block (to 32 times the cluster's).
        pub larger_shred_limits_per_block: bool = false,
        /// Stores no block from this slot on; 0 stores all.
        pub disable_blockstore_from_slot: u64 = 0,
        /// Does not remember landed transactions, so that duplicates land again.
        pub disable_status_cache: bool = false,
        /// QUIC connections of each benchs tile.
        pub connections: usize = 4,
    }
}

impl Development {
    /// Whether a slot comes only when there is work.
    pub fn are_slots_on_demand(&self) -> bool {
        self.slots == SlotTiming::OnDemand
    }
}

impl Config {
    /// Returns the configured number of tiles of each kind; 0 chooses.
    pub fn tile_counts(&self) -> Counts {
        let mut config = self.clone();
        let mut counts = Counts::default();
        for kind in &KINDS {
            if let Some(count) = config.tile_count_mut(kind) {
                counts.set(kind.name, *count);
            }
        }
        counts
    }

    /// Returns the key for the number of tiles of a kind, if there may be several.
    pub fn tile_count_mut(&mut self, kind: &Kind) -> Option<&mut usize> {
        let key = kind.count_key()?;
        Some(self.count_mut(&key).unwrap_or_else(|| panic!("the configuration has no key `{key}`")))
    }

    /// The default file with each key's text.
    pub fn annotated_default() -> String {
        let mut to = AnnotatedFile::default();
        Config::default().annotate_keys("", &mut to);
        to.finish().trim_end().to_owned() + "\n"
    }

    /// Whether the node takes its chain from a cluster.
    pub fn joins(&self) -> bool {
        self.gossip.enabled && !self.gossip.entrypoints.is_empty()
    }

    /// Whether it makes no blocks there.
    pub fn follows(&self) -> bool {
        self.joins() && self.consensus.vote_account_path.as_os_str().is_empty()
    }

    /// Whether it makes blocks when its turn comes, as consensus says.
    pub fn takes_turns(&self) -> bool {
        self.gossip.enabled && !self.follows()
    }

    /// Whether a transaction history is kept on disk. Of blocks that are not stored there is none.
    pub fn keeps_history(&self) -> bool {
        let bench = &self.development.bench;
        let all_stored = bench.disable_blockstore_from_slot == 0 && !bench.disable_status_cache;
        self.rpc.transaction_history && self.rpc.history_limit_size > 0 && all_stored
    }

    /// A path with `{name}` replaced by the node's name.
    pub fn expand(&self, path: &std::path::Path) -> PathBuf {
        path.to_string_lossy().replace("{name}", &self.name).into()
    }
}

#[cfg(test)]
mod tests;
