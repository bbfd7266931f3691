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
    ConfigError, EPOCH_LEAST, LOG_BYTES_MAX, LoadedConfig, Survey, TICKS_LEAST, check, idle_keys, load, survey,
};
pub use option::ConfigFile;
pub use ports::{ClusterPorts, Ports};
pub use validator::Validator;
pub use values::{Address, Entrypoint, PageSize, PeerLimits, ScheduleStrategy, SlotTiming};
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
    /// The whole configuration.
    pub struct Config {
        /// The node's name: names its workspace and, where a path holds `{name}`, its folders.
        pub name: String = "hearth".into(),
        /// Which tiles run where.
        pub layout: Layout = Layout::default(),
        /// Pages of the shared-memory workspace.
        pub hugetlbfs: HugeTlbFs = HugeTlbFs::default(),
        /// `hearth configure`.
        pub configure: Configure = Configure::default(),
        /// Blocks on disk.
        pub ledger: Ledger = Ledger::default(),
        /// The state on disk.
        pub snapshots: Snapshots = Snapshots::default(),
        /// Who the node is.
        pub consensus: Consensus = Consensus::default(),
        /// The cluster that the node is in.
        pub gossip: Gossip = Gossip::default(),
        /// JSON-RPC for clients.
        pub rpc: Rpc = Rpc::default(),
        /// Settings of single tiles.
        pub tiles: Tiles = Tiles::default(),
        /// Settings that only a development chain may have.
        pub development: Development = Development::default(),
    }

    /// `[layout]`
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
        /// An idle core sleeps after this many microseconds, and sooner where work comes seldom. At little load one
        /// core runs the tiles of all that sleep. 0: no core sleeps.
        pub park_after_micros: u64 = 50,
    }

    /// `[hugetlbfs]`
    pub struct HugeTlbFs {
        /// `normal` needs no set-up; `huge` (2 MiB) and `gigantic` (1 GiB) pages must have been reserved.
        pub max_page_size: PageSize = PageSize::Normal,
        /// Where such pages are mounted.
        pub mount_path: PathBuf = "/dev/hugepages".into(),
        /// Folder of the workspace file with normal pages.
        pub workspace_path: PathBuf = hearth_ring::WORKSPACE_FOLDER.into(),
    }

    /// `[configure]`
    pub struct Configure {
        /// Folder in which `hearth configure init` remembers what it changed, for `fini`. All nodes of
        /// a machine share it.
        pub path: PathBuf = "/var/lib/hearth".into(),
    }

    /// `[ledger]`
    pub struct Ledger {
        /// Folder of genesis, keys and blocks of `hearth run`.
        pub path: PathBuf = ".hearth/{name}/ledger".into(),
        /// The block store's size on disk, bytes; the oldest blocks go first. What the next start needs is kept: when
        /// there is nothing else to drop the chain stands, and says so.
        pub limit_size: u64 = 8_000_000_000,
        /// Lets a slot's blocks be confirmed only when they are on disk (fdatasync), and not just with the kernel.
        pub sync: bool = true,
    }

    /// `[snapshots]`
    pub struct Snapshots {
        /// Takes snapshots of the state beside the running chain. A start goes on from the newest and executes only the
        /// blocks since. Without, it executes all blocks since genesis, and a chain cannot be started again once
        /// `ledger.limit_size` has dropped its first blocks.
        pub enabled: bool = true,
        /// A snapshot is taken of the first block from each multiple of so many slots on, so that all nodes of a
        /// cluster have the same ones, and with `write_archives` a full archive; one more snapshot where the blocks
        /// since the last take a quarter of `ledger.limit_size`.
        pub full_snapshot_interval_slots: u64 = 1000,
        /// Snapshots that are kept: a start takes the one before when the newest is damaged. As many full archives are.
        pub maximum_full_snapshots_to_retain: usize = 2,
        /// Writes the cluster's archives (`snapshot-SLOT-HASH.tar.zst`, `incremental-snapshot-BASE-SLOT-HASH.tar.zst`)
        /// beside the running chain, too, into `archives` in the folder of the snapshots: for nodes of Agave, or to
        /// start another node from. Off, since it takes time of a core and of the disk: for restarts the snapshots do.
        pub write_archives: bool = false,
        /// With `write_archives`: an incremental archive is written of the first block from each multiple of so many
        /// slots on; a full one, if none was written since the start. 0: none is.
        pub incremental_snapshot_interval_slots: u64 = 200,
        /// Incremental archives on the newest full one that are kept; on an older one that is kept, the newest.
        pub maximum_incremental_snapshots_to_retain: usize = 4,
        /// Folder of the snapshots; empty: `snapshots` in the ledger's.
        pub path: PathBuf = PathBuf::new(),
        /// A node that joins a cluster with an empty folder, or is far behind when it starts, takes the newest snapshot
        /// of a peer. Without, it executes the chain from its first block, or from where it is.
        pub download: bool = true,
        /// A full archive that such a node takes in place of what nodes announce in gossip:
        /// `http://HOST:PORT/snapshot-SLOT-HASH.tar.zst`, as the RPC of a node of Agave serves it. The hash in its name
        /// is enough. If it cannot be taken the node ends with an error. Empty: gossip decides.
        pub url: String = String::new(),
        /// Serves the cluster's archives over the RPC port, to nodes of Agave, too: those of `write_archives`, and
        /// those in the folder of the snapshots, where `hearth ledger snapshot create` puts them. Gossip announces the
        /// newest in place of the snapshots that nodes of Hearth take.
        pub serve_archives: bool = false,
        /// Slots that a peer's snapshot is ahead of what is final here, at least, for a node that starts to take it.
        pub maximum_local_snapshot_age: u64 = 2500,
        /// Identities of the nodes whose word on snapshots counts, each one's; empty: that of more than a third of the
        /// stake of the genesis together.
        pub known_validators: Vec<Address> = vec![],
        /// Downloads snapshots from `known_validators` only. Without, any node may serve what one of these announces.
        pub only_known_rpc: bool = false,
        /// Without `known_validators`: takes a snapshot on the word of any node if too little of that stake announces
        /// one. An attacker who controls what this node hears can then give it a made-up state.
        pub take_unvouched: bool = false,
    }

    /// `[consensus]`
    pub struct Consensus {
        /// The identity key, a JSON file as the Solana tools write it; empty: one is made beside the ledger.
        pub identity_path: PathBuf = PathBuf::new(),
        /// Votes for every block once it is durable. Without votes blocks become final by their depth.
        pub vote: bool = true,
        /// The vote account, a JSON file as the Solana tools write it, of a node that joins a cluster to make blocks
        /// and vote there, or the account's address itself. Empty: it only follows. The node that begins a chain makes
        /// one beside the ledger.
        pub vote_account_path: PathBuf = PathBuf::new(),
        /// The keys of the vote account's authorized voters, JSON files as the Solana tools write them, at most four;
        /// each vote is signed by the one that the account names in its epoch. Empty: the identity is the authorized
        /// voter. A node alone takes no other.
        pub authorized_voter_paths: Vec<PathBuf> = vec![],
        /// Votes in a cluster although the vote account has voted before and the ledger folder has no tower, or one
        /// that is older than the account's votes. The node then takes the votes in the account for its tower; a vote
        /// that did not land may still lock it out. Without this option such a node only follows.
        pub vote_without_tower: bool = false,
        /// Slots of the chain's hard forks, as after a restart of the cluster. Every node must have the same ones:
        /// they change bank hashes from the slot on, and the shred version at once.
        pub hard_forks: Vec<u64> = vec![],
        /// The genesis hash of the cluster, in base58. A node that joins takes no other genesis, and refuses a ledger
        /// folder that has another. Empty: the shred version of the entrypoint decides alone.
        pub expected_genesis_hash: String = String::new(),
        /// The cluster's shred version. A node that joins ends with an error where its entrypoint tells another one,
        /// before it takes anything. 0: any.
        pub expected_shred_version: u16 = 0,
    }

    /// `[gossip]`
    pub struct Gossip {
        /// Whether the node is in a cluster: it tells others of itself, sends its blocks down Turbine's tree, and
        /// serves them.
        pub enabled: bool = false,
        /// Gossip addresses (`host:port`, the host an IPv4 address or a name) of nodes to begin with. Names are
        /// resolved when the node starts. A node that has some takes the genesis from there, and follows the cluster;
        /// with `consensus.vote_account_path` it makes blocks and votes, too.
        pub entrypoints: Vec<Entrypoint> = vec![],
        /// IPv4 address on which the node receives gossip, shreds and repair requests, and which it advertises.
        #[serde(deserialize_with = "values::ipv4")]
        pub bind_address: Ipv4Addr = Ipv4Addr::LOCALHOST,
        /// Port of gossip, UDP and TCP.
        pub port: u16 = 8001,
    }

    /// `[rpc]`
    pub struct Rpc {
        /// Address to listen on.
        #[serde(deserialize_with = "values::ip")]
        pub bind_address: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST),
        /// JSON-RPC over HTTP; WebSocket is one port higher.
        pub port: u16 = 8899,
        /// Keeps the addresses of JSON-RPC and WebSocket out of gossip: other nodes do not learn of them, and take no
        /// genesis and no snapshot from here.
        pub private: bool = false,
        /// Serves a page about the node at the address of JSON-RPC, for browsers.
        pub dashboard: bool = true,
        /// Keeps the status of landed transactions for `getSignatureStatuses`, and on disk what became of each for
        /// `getTransaction`, `getBlock` and `getSignaturesForAddress`.
        pub transaction_history: bool = true,
        /// Landed transactions for which memory is taken at the start, about 71 B each; more are remembered where
        /// needed, and the memory then grows.
        pub status_capacity: usize = 1 << 20,
        /// Dropped transactions that are remembered for `hearth why` and `getTransactionFate`, 30 B each, taken as
        /// drops come; the oldest goes first. 0 remembers none.
        pub fate_capacity: usize = 900_000,
        /// HTTP connections at once. For one more the longest idle one is closed; where all have a request under way,
        /// the new one is answered with 503.
        pub max_http_connections: usize = 512,
        /// The same for WebSocket connections, which are idle while they have no subscription and ask nothing.
        pub max_websocket_connections: usize = 256,
        /// The same for connections of one IP address, at each of the two ports; 0 is no limit. Clients behind one
        /// proxy or router have one address.
        pub max_connections_per_address: usize = 0,
        /// Bytes of a request.
        pub max_http_request_length: usize = 51_200,
        /// Bytes of an answer, and of the account data it is made from.
        pub max_answer_length: usize = 64 << 20,
        /// Requests in one batch.
        pub max_batch_length: usize = 1_024,
        /// Requests that one address may make in a second, each of a batch counted; 0 is no limit.
        pub requests_per_second: u32 = 0,
        /// Subscriptions at once, of all connections.
        pub max_subscriptions: usize = 16_384,
        /// Transactions of `sendTransaction` that wait to be handed to the pipeline again until their block is
        /// confirmed; more are handed over once.
        pub max_resent_transactions: usize = 10_000,
        /// Bytes on disk for the transaction history; the oldest goes first. 0 keeps none: then only the statuses of
        /// the last 300 blocks are known.
        pub history_limit_size: u64 = 2_000_000_000,
        /// Stores log lines, calls between programs and return data in the history too.
        pub extended_tx_metadata_storage: bool = true,
        /// Bytes of log lines that are kept of one transaction, at most 1,000,000; the rest is cut.
        pub log_messages_bytes_limit: usize = hearth_svm::LOG_BYTES,
        /// What requests for the node's owner (`hearth_profileStart` and its like) must carry as `token`,
        /// wherever they come from. Empty: they are answered for loopback addresses alone, and need none.
        pub admin_token: String = String::new(),
        /// Lamports that one airdrop may ask for; 0 is no limit.
        pub max_airdrop_lamports: u64 = 0,
        /// Lamports that all airdrops of a time slice may take; 0 is no limit.
        pub max_airdrop_lamports_per_slice: u64 = 0,
        /// Length of that time slice, seconds.
        pub airdrop_slice_secs: u64 = 60,
    }

    /// `[tiles]`
    pub struct Tiles {
        /// Sockets.
        pub net: NetTile = NetTile::default(),
        /// The TPU.
        pub quic: QuicTile = QuicTile::default(),
        /// Signatures.
        pub verify: VerifyTile = VerifyTile::default(),
        /// Duplicates.
        pub dedup: DedupTile = DedupTile::default(),
        /// Scheduling.
        pub pack: PackTile = PackTile::default(),
        /// Shreds.
        pub shred: ShredTile = ShredTile::default(),
        /// Shreds that are missing.
        pub repair: RepairTile = RepairTile::default(),
        /// Metrics.
        pub metric: MetricTile = MetricTile::default(),
    }

    /// `[tiles.net]`
    pub struct NetTile {
        /// Address to listen on.
        #[serde(deserialize_with = "values::ip")]
        pub bind_address: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST),
        /// Kernel buffer asked for per socket and direction, bytes.
        pub socket_buffer_bytes: usize = 4 << 20,
    }

    /// `[tiles.quic]`
    pub struct QuicTile {
        /// Plain UDP TPU port.
        pub regular_transaction_listen_port: u16 = 9001,
        /// TPU port over QUIC.
        pub quic_transaction_listen_port: u16 = 9007,
        /// Limits on peers: `local` throttles nobody, `production` has the cluster's values, by stake.
        pub limits: PeerLimits = PeerLimits::Local,
        /// Connections at once; 0 takes the value of `limits`.
        pub max_concurrent_connections: usize = 0,
    }

    /// `[tiles.verify]`
    pub struct VerifyTile {
        /// Transactions that each verify tile remembers, each for about a second at most.
        pub signature_cache_size: usize = 16_384,
        /// Bytes for the tables of keys that sign again and again, all verify tiles together.
        pub table_bytes: usize = 256 << 20,
    }

    /// `[tiles.dedup]`
    pub struct DedupTile {
        /// Transactions remembered, each for about a second at most: later its block may have been left for another
        /// fork, and it is sent again. What has landed is refused by the bank.
        pub signature_cache_size: usize = dedup::Config::default().history,
    }

    /// `[tiles.pack]`
    pub struct PackTile {
        /// Transactions that wait to be scheduled, at most.
        pub max_pending_transactions: usize = pack::Config::default().capacity,
        /// A full pool holds its senders back (over QUIC they wait). `false` drops the worst-paying transaction
        /// instead, as a leader of the cluster must.
        pub hold_when_full: bool = pack::Config::default().hold_when_full,
        /// Gives compute units that a transaction did not use back to its block.
        pub use_consumed_cus: bool = pack::Config::default().use_consumed_cus,
        /// `perf` fills a block as fast as the banks go; `balanced` over the whole slot, so that what pays better and
        /// comes late finds room.
        pub schedule_strategy: ScheduleStrategy = ScheduleStrategy::Perf,
    }

    /// `[tiles.shred]`
    pub struct ShredTile {
        /// Addresses (`ip:port`) that get every shred this node makes as leader.
        #[serde(deserialize_with = "values::sockets")]
        pub additional_shred_destinations: Vec<SocketAddr> = vec![],
        /// Port of the shreds that others send on, where `gossip.enabled`.
        pub shred_listen_port: u16 = 8003,
    }

    /// `[tiles.repair]`
    pub struct RepairTile {
        /// Port from which shreds are asked for, where `gossip.enabled`.
        pub repair_client_listen_port: u16 = 8005,
        /// Port where others ask for shreds, where `gossip.enabled`.
        pub repair_serve_listen_port: u16 = 8007,
    }

    /// `[tiles.metric]`
    pub struct MetricTile {
        /// Address to listen on.
        #[serde(deserialize_with = "values::ip")]
        pub prometheus_listen_address: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST),
        /// Port of the Prometheus text.
        pub prometheus_listen_port: u16 = 7999,
    }

    /// `[development]`
    pub struct Development {
        /// When slots come: `clock`, one after the other; `on-demand`, when there is work, and after it as many as make
        /// it final, each as short as it can be. Then the chain stands, and nothing ages.
        pub slots: SlotTiming = SlotTiming::Clock,
        /// With `on-demand`, a slot without work comes so many milliseconds after the last; 0: none does.
        pub idle_slot_ms: u64 = 0,
        /// What is between nodes of one machine.
        pub links: Links = Links::default(),
        /// Records what the node receives, to run it again.
        pub capture: Capture = Capture::default(),
        /// What a new chain begins with.
        pub genesis: Genesis = Genesis::default(),
        /// The load generator of `hearth bench`.
        pub bench: Bench = Bench::default(),
    }

    /// `[development.links]`
    pub struct Links {
        /// File of who is where and what is cut, as `hearth cluster up` writes it: with it the node's datagrams to
        /// each other node take as long, and get lost as often, as the file's map says of their regions. It is read
        /// again when it changes. Empty: nothing is emulated.
        pub file: PathBuf = PathBuf::new(),
    }

    /// `[development.capture]`
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

    /// `[development.genesis]`
    pub struct Genesis {
        /// Accounts with public keys that are funded for load and trying.
        pub fund_initial_accounts: usize = 1024,
        /// Lamports of each.
        pub fund_initial_amount_lamports: u64 = 500_000_000_000,
        /// Hashes in a tick; 62500 is the cluster's. 0 is low power: a tick is timed and costs one hash.
        pub hashes_per_tick: u64 = 0,
        /// Ticks in a slot.
        pub ticks_per_slot: u64 = 64,
        /// Time of a tick, microseconds; 64 × 6250 is a slot of 400 ms.
        pub target_tick_duration_micros: u64 = 6250,
        /// Slots in an epoch, at least 32.
        pub slots_per_epoch: u64 = 432_000,
        /// The slot after which the chain begins: programs see a later slot and epoch.
        pub warp_slot: u64 = 0,
        /// Lamports that the faucet has to give away.
        pub faucet_lamports: u64 = 500_000_000_000_000_000,
        /// Nodes that have stake from the beginning beside the one that begins the chain, each as
        /// `identity vote-account SOL`: two addresses, and how much is staked. That one has 1,000,000 SOL.
        pub validators: Vec<Validator> = vec![],
    }

    /// `[development.bench]`
    pub struct Bench {
        /// Tiles that generate and sign; 0 chooses, or is 1 where `affinity` is not `auto`.
        pub benchg_tile_count: usize = 0,
        /// Tiles that send over QUIC; 0 chooses, or is 1 where `affinity` is not `auto`.
        pub benchs_tile_count: usize = 0,
        /// Cores of the load's tiles in the order bencho, benchg, benchs, in the form of `layout.affinity`.
        pub affinity: Affinity = Affinity::default(),
        /// Compute units that a block holds at most; the cluster's are 100,000,000. Less makes blocks full on a machine
        /// that does not come to the cluster's. Where the limit is lifted it does not count.
        pub max_cost_per_block: u64 = 100_000_000,
        /// Lifts the block's compute limit (to 13 times the cluster's).
        pub larger_max_cost_per_block: bool = false,
        /// Lifts the limits on shreds in a block (to 32 times the cluster's).
        pub larger_shred_limits_per_block: bool = false,
        /// Stores no block from this slot on; 0 stores all.
        pub disable_blockstore_from_slot: u64 = 0,
        /// Does not remember which transactions have landed: a duplicate lands again.
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
    /// How many tiles of each kind there are to be; 0 chooses.
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

    /// The key that says how many tiles of a kind there are to be, where there may be several.
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
