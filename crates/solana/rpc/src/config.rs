//! The server's configuration: addresses, limits, and the node that it serves.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hearth_ledger::blockstore::Reader;
use hearth_ledger::history::HistoryReader;
use hearth_ledger::{DropTable, Ledger};
use hearth_serve::dashboard::View;
use hearth_wire::{Pubkey, Signature, Txn};

use crate::counters::Counters;
use crate::profiler::Admin;

/// The listening addresses and the limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcConfig {
    /// Address of JSON-RPC over HTTP. Port 0 lets the system choose.
    pub http: SocketAddr,
    /// Address of the WebSocket subscriptions. Clients expect it one port above HTTP.
    pub websocket: SocketAddr,
    /// Bounds on memory and time.
    pub limits: Limits,
}

impl RpcConfig {
    /// HTTP at `http`, and WebSocket one port above it (any free port if `http` leaves the choice to the system).
    pub fn new(http: SocketAddr) -> Self {
        let port = if http.port() == 0 { 0 } else { http.port().wrapping_add(1) };
        Self { http, websocket: SocketAddr::new(http.ip(), port), limits: Limits::default() }
    }
}

/// Bounds on the memory and time that clients can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open HTTP connections. One more evicts the longest idle connection, or gets a 503 if none is idle.
    pub http_connections: usize,
    /// The same for WebSocket connections. One is idle while it has no subscription and no request in flight.
    pub websocket_connections: usize,
    /// The same per client address, at each of the two ports; 0 is no limit.
    pub connections_per_address: usize,
    /// Maximum bytes of a request's body and of a WebSocket message.
    pub request_bytes: usize,
    /// Maximum requests in one batch.
    pub batch_length: usize,
    /// Requests per second and client address, where each request of a batch counts; 0 is no limit.
    pub requests_per_second: u32,
    /// Maximum bytes of a response, a whole batch included, and of the account data that it is made from.
    pub answer_bytes: usize,
    /// Transactions in the resend queue, which hands them to the pipeline again until they land.
    pub resend_queue: usize,
    /// Interval between two resends of a transaction.
    pub resend_every: Duration,
    /// Subscriptions over all connections.
    pub subscriptions: usize,
    /// Subscriptions of one connection.
    pub subscriptions_per_connection: usize,
    /// Notifications queued for one connection; a client that leaves more unread is disconnected.
    pub queued_notifications: usize,
    /// How long a client may take to send a request or to read a response, and how long an open connection may stay
    /// silent. Solana's clients keep idle connections for 19 s, so below 20 s they would use connections that the
    /// server has closed.
    pub patience: Duration,
    /// How long a request waits for room in the pipeline before it is refused.
    pub inlet_wait: Duration,
    /// Maximum lamports of one airdrop; 0 is no limit.
    pub airdrop_lamports: u64,
    /// Maximum lamports of all airdrops in one time slice; 0 is no limit.
    pub airdrop_lamports_per_slice: u64,
    /// Length of that time slice.
    pub airdrop_slice: Duration,
    /// Slots are produced on demand, so a chain without new slots is not unhealthy.
    pub slots_may_stand: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Together they stay below the default limit of 1,024 open files per process.
            http_connections: 512,
            websocket_connections: 256,
            connections_per_address: 0,
            request_bytes: 50 * 1024,
            // As many as fit into a body: a batch is bounded by its bytes.
            batch_length: 1_024,
            requests_per_second: 0,
            answer_bytes: 64 * 1024 * 1024,
            resend_queue: 10_000,
            resend_every: Duration::from_secs(2),
            subscriptions: 16_384,
            subscriptions_per_connection: 4_096,
            queued_notifications: 1_024,
            patience: Duration::from_secs(30),
            inlet_wait: Duration::from_millis(250),
            airdrop_lamports: 0,
            airdrop_lamports_per_slice: 0,
            airdrop_slice: Duration::from_secs(60),
            slots_may_stand: false,
        }
    }
}

/// The RPC's input to the pipeline.
pub trait TransactionInlet: Send {
    /// Hands over a transaction's wire bytes without waiting. `again` marks a resend: the transaction was handed over
    /// before and has not landed, so dedup must not drop it.
    fn send(&mut self, wire: &[u8], again: bool) -> Result<(), Busy>;
}

/// The pipeline has no room at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pipeline has no room for the transaction now")]
pub struct Busy;

/// Signs a message with a key that the RPC does not hold.
pub type FaucetSigner = Box<dyn Fn(&[u8]) -> Signature + Send + Sync>;

/// The response to a joining node's request for a path: the genesis or a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Download {
    /// The contents of this file.
    File(PathBuf),
    /// A redirect to the path that is current now.
    Elsewhere(String),
}

/// Maps a path to its download, or `None`.
pub type Offer = Box<dyn Fn(&str) -> Option<Download> + Send + Sync>;

/// The contact info of a cluster node. A socket that it does not advertise is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNode {
    /// The node's identity key.
    pub identity: Pubkey,
    /// Gossip messages, over UDP.
    pub gossip: Option<SocketAddr>,
    /// TVU: shreds from Turbine.
    pub tvu: Option<SocketAddr>,
    /// TPU: transactions over UDP.
    pub tpu: Option<SocketAddr>,
    /// TPU: transactions over QUIC.
    pub tpu_quic: Option<SocketAddr>,
    /// TPU: forwarded transactions over QUIC.
    pub tpu_forwards_quic: Option<SocketAddr>,
    /// TPU: votes over UDP.
    pub tpu_vote: Option<SocketAddr>,
    /// Repair requests from other nodes, over UDP.
    pub serve_repair: Option<SocketAddr>,
    /// JSON-RPC for clients, over HTTP.
    pub rpc: Option<SocketAddr>,
    /// Subscriptions of clients, over WebSocket.
    pub pubsub: Option<SocketAddr>,
    /// Version of its client software, as `major.minor.patch`.
    pub version: String,
    /// Name of the client software.
    pub client: String,
    /// The first four bytes of its feature set.
    pub feature_set: Option<u32>,
    /// Shred version of its chain.
    pub shred_version: u16,
}

/// Lists the known nodes of the cluster; includes this node once it has published its own contact info.
pub type ClusterNodes = Box<dyn Fn() -> Vec<ClusterNode> + Send + Sync>;

/// The newest snapshot that a node has for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestSnapshot {
    /// Its slot; of archives, that of the full one.
    pub full: u64,
    /// The slot of the newest incremental archive on it.
    pub incremental: Option<u64>,
}

/// Names the node, whose identity may change while it runs.
pub type IdentitySource = Box<dyn Fn() -> Pubkey + Send + Sync>;

/// The node that the RPC serves.
pub struct RpcNode {
    /// The ledger from whose banks requests are answered.
    pub ledger: Arc<Ledger>,
    /// The pipeline's input for transactions.
    pub inlet: Box<dyn TransactionInlet>,
    /// Returns the node's identity key at the time of the call.
    pub identity: IdentitySource,
    /// Address that pays for airdrops.
    pub faucet: Pubkey,
    /// The faucet that the genesis funded. It differs from `faucet` if another node created the chain and holds its
    /// key.
    pub chain_faucet: Pubkey,
    /// Signs a message as the faucet.
    pub sign_as_faucet: FaucetSigner,
    /// Whether all signatures of a transaction are valid.
    pub verify: fn(&Txn<'_>) -> bool,
    /// Shred version, folded from the genesis hash.
    pub shred_version: u16,
    /// Downloads for joining nodes.
    pub offer: Offer,
    /// The nodes of the cluster.
    pub cluster_nodes: ClusterNodes,
    /// The gossip address. A node outside a cluster does not listen there, but tools take its host from it.
    pub gossip: SocketAddr,
    /// The address at which the node receives transactions over UDP.
    pub tpu: SocketAddr,
    /// The address at which the node receives transactions over QUIC.
    pub tpu_quic: SocketAddr,
    /// Whether the ledger keeps transaction statuses. If not, requests for them fail with an error that says so.
    pub transaction_history: bool,
    /// Length of a slot, in milliseconds.
    pub slot_ms: u64,
    /// The counters that the server increments.
    pub counters: Arc<Counters>,
    /// The block store, if the node keeps one.
    pub blocks: Option<Reader>,
    /// The transaction history, if the node keeps one.
    pub history: Option<HistoryReader>,
    /// The dropped transactions, and the reason of each drop.
    pub fates: Arc<DropTable>,
    /// When the node started, in seconds since the Unix epoch; earlier drops are unknown.
    pub began_unix_s: u64,
    /// The time of genesis, in seconds since the Unix epoch.
    pub genesis_time: i64,
    /// The genesis slot: the first block is in the slot after it.
    pub genesis_slot: u64,
    /// Identifies a release by the features that it knows; `None` if unknown.
    pub feature_set: Option<u32>,
    /// Where slots are produced on demand: asks the chain to produce this slot, because a client waits for it.
    pub call_for_slot: Box<dyn Fn(u64) + Send + Sync>,
    /// The data behind the dashboard, or why there is none.
    pub look_at: View,
    /// Admin requests of the node's owner; `None` if there are none.
    pub admin: Option<Admin>,
    /// The newest snapshot, if there is one.
    pub newest_snapshot: Box<dyn Fn() -> Option<NewestSnapshot> + Send + Sync>,
    /// Reports whether the node's tiles are alive.
    pub liveness: Box<dyn Fn() -> Liveness + Send + Sync>,
}

/// Whether the node's tiles are alive, and how much work waits for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    /// The tiles that have stopped heartbeating, in words, and for how long.
    pub silent: Option<(String, Duration)>,
    /// Transactions that wait to be executed.
    pub pending: u64,
}
