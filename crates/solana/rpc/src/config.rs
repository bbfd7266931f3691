//! What the caller gives: addresses, limits, and a node to speak for.
//!
//! reads   nothing
//! writes  nothing
//! memory  a few words

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hearth_ledger::blockstore::Reader;
use hearth_ledger::history::HistoryReader;
use hearth_ledger::{Fates, Ledger};
use hearth_serve::dashboard::View;
use hearth_wire::{Pubkey, Signature, Txn};

use crate::counters::Counters;
use crate::profiler::Admin;

/// Where to listen, and how much to bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcConfig {
    /// JSON-RPC over HTTP. Port 0 lets the system choose.
    pub http: SocketAddr,
    /// Subscriptions. Clients look for it one port above HTTP.
    pub websocket: SocketAddr,
    /// What bounds memory and time.
    pub limits: Limits,
}

impl RpcConfig {
    /// HTTP at `http`, WebSocket one port higher (any port where `http` leaves the choice to the system).
    pub fn new(http: SocketAddr) -> Self {
        let port = if http.port() == 0 { 0 } else { http.port().wrapping_add(1) };
        Self { http, websocket: SocketAddr::new(http.ip(), port), limits: Limits::default() }
    }
}

/// What bounds the memory and the time that clients can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open HTTP connections. For one more the longest idle one is closed; it is answered with 503 where none is idle.
    pub http_connections: usize,
    /// The same of WebSocket connections, which are idle while they have no subscription and ask nothing.
    pub websocket_connections: usize,
    /// The same of one address, at each of the two ports; 0 is no limit.
    pub connections_per_address: usize,
    /// Bytes of a request's body, and of a WebSocket message.
    pub request_bytes: usize,
    /// Requests in one batch.
    pub batch_length: usize,
    /// Requests that one address may make in a second, each of a batch counted; 0 is no limit.
    pub requests_per_second: u32,
    /// Bytes of an answer, all of a batch together; and of the account data it may be made from.
    pub answer_bytes: usize,
    /// Transactions that wait to be handed to the pipeline again until they land.
    pub resend_queue: usize,
    /// How long one of them waits between two times.
    pub resend_every: Duration,
    /// Subscriptions of all connections.
    pub subscriptions: usize,
    /// Subscriptions of one connection.
    pub subscriptions_per_connection: usize,
    /// Notifications that wait for one connection; a client that leaves more unread is disconnected.
    pub queued_notifications: usize,
    /// How long a client may take to send a request or to take an answer, and stay silent on an open connection.
    /// Clients of Solana keep idle connections for 19 s: below 20 s they meet closed ones.
    pub patience: Duration,
    /// How long a request waits for room in the pipeline before it is refused.
    pub inlet_wait: Duration,
    /// Lamports that one airdrop may ask for; 0 is no limit.
    pub airdrop_lamports: u64,
    /// Lamports that all airdrops of a time slice may take; 0 is no limit.
    pub airdrop_lamports_per_slice: u64,
    /// Length of that time slice.
    pub airdrop_slice: Duration,
    /// Slots come on demand: that none does is no sign of illness.
    pub slots_may_stand: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Together below the 1,024 open files that a process has by default.
            http_connections: 512,
            websocket_connections: 256,
            connections_per_address: 0,
            request_bytes: 50 * 1024,
            // As many as fit a body: a batch is bounded by its bytes.
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

/// The way into the pipeline.
pub trait TransactionInlet: Send {
    /// Hands over a transaction's wire bytes, without waiting. `again`: it was handed over before and has not landed,
    /// so it is no duplicate.
    fn send(&mut self, wire: &[u8], again: bool) -> Result<(), Busy>;
}

/// The pipeline has no room now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pipeline has no room for the transaction now")]
pub struct Busy;

/// Signs a message with a key that the RPC does not hold.
pub type FaucetSigner = Box<dyn Fn(&[u8]) -> Signature + Send + Sync>;

/// What is at a path that a joining node asks for: the genesis, a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Download {
    /// This file.
    File(PathBuf),
    /// What is at this path now.
    Elsewhere(String),
}

/// What there is to download, by path.
pub type Offer = Box<dyn Fn(&str) -> Option<Download> + Send + Sync>;

/// What a node of the cluster has told of itself. Sockets that it has not told are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its identity.
    pub identity: Pubkey,
    /// Gossip.
    pub gossip: Option<SocketAddr>,
    /// Shreds from Turbine.
    pub tvu: Option<SocketAddr>,
    /// Transactions over UDP.
    pub tpu: Option<SocketAddr>,
    /// Transactions over QUIC.
    pub tpu_quic: Option<SocketAddr>,
    /// Transactions forwarded over QUIC.
    pub tpu_forwards_quic: Option<SocketAddr>,
    /// Votes over UDP.
    pub tpu_vote: Option<SocketAddr>,
    /// Requests for shreds.
    pub serve_repair: Option<SocketAddr>,
    /// JSON-RPC.
    pub rpc: Option<SocketAddr>,
    /// Subscriptions.
    pub pubsub: Option<SocketAddr>,
    /// `major.minor.patch`.
    pub version: String,
    /// Its program's name.
    pub client: String,
    /// Of its features, the first four bytes.
    pub feature_set: Option<u32>,
    /// Of its chain.
    pub shred_version: u16,
}

/// The nodes of the cluster that this one knows; itself among them where it has told the others of itself.
pub type ClusterNodes = Box<dyn Fn() -> Vec<ClusterNode> + Send + Sync>;

/// The node that the RPC speaks for.
pub struct RpcNode {
    /// What the chain holds.
    pub ledger: Arc<Ledger>,
    /// The way in for transactions.
    pub inlet: Box<dyn TransactionInlet>,
    /// The node's identity, the leader of every slot.
    pub identity: Pubkey,
    /// Who pays for airdrops.
    pub faucet: Pubkey,
    /// The faucet that the genesis gave lamports: another where another node began the chain, and has its key.
    pub chain_faucet: Pubkey,
    /// Signs a message as the faucet.
    pub sign_as_faucet: FaucetSigner,
    /// Whether every signature of a transaction is good.
    pub verify: fn(&Txn<'_>) -> bool,
    /// Folded from the genesis hash.
    pub shred_version: u16,
    /// What nodes that join may download.
    pub offer: Offer,
    /// Other nodes of the cluster.
    pub cluster_nodes: ClusterNodes,
    /// The gossip address. A node that is in no cluster does not listen there, but tools take its host from it.
    pub gossip: SocketAddr,
    /// Where transactions are taken over UDP.
    pub tpu: SocketAddr,
    /// Where transactions are taken over QUIC.
    pub tpu_quic: SocketAddr,
    /// Whether the ledger remembers what became of transactions. Off: whoever asks is told so.
    pub transaction_history: bool,
    /// Length of a slot, in milliseconds.
    pub slot_ms: u64,
    /// Where to count.
    pub counters: Arc<Counters>,
    /// The blocks on disk, where they are kept.
    pub blocks: Option<Reader>,
    /// What became of transactions, where it is kept.
    pub history: Option<HistoryReader>,
    /// Which transactions were dropped, and why.
    pub fates: Arc<Fates>,
    /// When the node began, in seconds since the Unix epoch: before that no drop is known.
    pub began_unix_s: u64,
    /// The time of genesis, in seconds since the Unix epoch.
    pub genesis_time: i64,
    /// The slot that the genesis stands for: the first block is of the one after it.
    pub genesis_slot: u64,
    /// Tells releases apart by the features they know; `None` where nobody knows it.
    pub feature_set: Option<u32>,
    /// Where slots come on demand: tells the chain that somebody waits for this slot.
    pub call_for_slot: Box<dyn Fn(u64) + Send + Sync>,
    /// What the dashboard shows, or why there is none.
    pub look_at: View,
    /// What the node's owner may ask for; `None` where that is nothing.
    pub admin: Option<Admin>,
    /// The slot of the newest snapshot, if there is one.
    pub newest_snapshot: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// Whether the node's parts still work.
    pub liveness: Box<dyn Fn() -> Liveness + Send + Sync>,
}

/// Whether a node's parts still work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    /// Parts that have given no sign of life, in words, and for how long.
    pub silent: Option<(String, Duration)>,
    /// Transactions that wait to be executed.
    pub pending: u64,
}
