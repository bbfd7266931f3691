//! The server's configuration: where to listen, what to serve, and its limits.
//!
//! memory  a few words, and 32 B a dev account

use std::net::SocketAddr;
use std::time::Duration;

use hearth_serve::jsonrpc::Bounds;

/// Stack size of a thread, in bytes: recovering a burst of signatures uses arrays on the stack.
pub const STACK_BYTES: usize = 8 * 1024 * 1024;

/// Where to listen and what to serve there.
#[derive(Clone, Debug)]
pub struct Config {
    /// JSON-RPC over HTTP and over WebSocket, both on this port. Port 0 lets the system choose.
    pub address: SocketAddr,
    /// Secret keys of the accounts that the node signs for (`eth_accounts`, `eth_sendTransaction`, `eth_sign`): the
    /// well-known ones on a development chain, none elsewhere.
    pub accounts: Vec<[u8; 32]>,
    /// Whether `evm_`, `anvil_` and `hardhat_` methods, which change the chain at will, are served.
    pub dev: bool,
    /// Whether receipts, and `eth_sendRawTransactionSync`, wait until their block is on disk.
    pub durable: bool,
    /// Names besides IP addresses and `localhost` by which clients may reach the server (`Host`); `*` is any.
    pub hosts: Vec<String>,
    /// Origins besides loopback pages and browser extensions that may send requests (`Origin`); `*` is any.
    pub origins: Vec<String>,
    /// The answer to `web3_clientVersion`.
    pub client_version: String,
    /// Prints what contracts send to Hardhat's console (`console.log`). Without it, contracts' calls to the console are
    /// ignored.
    pub console: Option<fn(&str)>,
    /// Bounds of memory and time.
    pub limits: Limits,
}

impl Config {
    /// A server of a development chain, without accounts, at `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            accounts: Vec::new(),
            dev: true,
            durable: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            client_version: format!("Hearth/v{}/{}", crate::VERSION, std::env::consts::OS),
            console: None,
            limits: Limits::default(),
        }
    }
}

/// Bounds of the memory and the time that clients can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum open connections. If one more comes, the longest idle one is closed; without an idle one, the new one
    /// gets a 503. A WebSocket is idle while it has no subscription and no request under way.
    pub connections: usize,
    /// Maximum open connections of one IP address; 0 is no limit.
    pub connections_per_address: usize,
    /// Bytes of a request's body, and of a WebSocket message: geth's bound.
    pub request_bytes: usize,
    /// Requests in one batch: geth's bound.
    pub batch_length: usize,
    /// Requests that one address may make in a second, each of a batch counted; 0 is no limit.
    pub requests_per_second: u32,
    /// Maximum bytes of a batch's answers together, as in geth, and of one answer of logs, traces or the pool's
    /// contents. An answer about one block may be longer.
    pub answer_bytes: usize,
    /// Messages of one WebSocket that are answered concurrently; the server reads no more of it meanwhile.
    pub calls_per_connection: usize,
    /// Subscriptions of all connections.
    pub subscriptions: usize,
    /// Subscriptions of one connection.
    pub subscriptions_per_connection: usize,
    /// Bytes of queued notifications for one connection. A client that leaves more unread is disconnected, and so is
    /// one that leaves anything unread for longer than `patience`.
    pub queued_bytes: usize,
    /// Installed filters (`eth_newFilter` and its kin) of all clients.
    pub filters: usize,
    /// How long a filter lives without a request for it.
    pub filter_life: Duration,
    /// Hashes queued in one filter of pending transactions; more are dropped.
    pub filter_hashes: usize,
    /// How long a client may take to send a request or to take an answer, and stay silent on an open connection.
    pub patience: Duration,
    /// Calls, estimates, traces and log queries that run at once; the others wait.
    pub heavy_at_once: usize,
    /// How many of the others may wait; one more is refused.
    pub heavy_waiting: usize,
    /// How long such a call may take, the wait included.
    pub heavy_time: Duration,
    /// On a chain that makes blocks as transactions come: how long an answer waits for the blocks of earlier sends.
    pub until_mined: Duration,
    /// Gas that a call or an estimate may use, whatever it asks for: geth's bound.
    pub call_gas: u64,
    /// Logs that one query may find.
    pub logs: usize,
}

impl Limits {
    /// The bounds of an answer's text. A single answer is bounded by its method.
    pub(crate) fn of_answer(&self) -> Bounds {
        Bounds { batch_read: self.batch_length, batch_bytes: self.answer_bytes, answer_bytes: usize::MAX }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Below the 1,024 open files that a process has by default.
            connections: 768,
            connections_per_address: 0,
            request_bytes: 5 * 1024 * 1024,
            batch_length: 1_000,
            requests_per_second: 0,
            answer_bytes: 25_000_000,
            calls_per_connection: 16,
            subscriptions: 16_384,
            subscriptions_per_connection: 4_096,
            queued_bytes: 64 << 20,
            filters: 4_096,
            filter_life: Duration::from_secs(300),
            filter_hashes: 16_384,
            patience: Duration::from_secs(30),
            heavy_at_once: std::thread::available_parallelism().map_or(2, usize::from).max(2),
            heavy_waiting: 256,
            heavy_time: Duration::from_secs(5),
            until_mined: Duration::from_secs(10),
            call_gas: 50_000_000,
            logs: 10_000,
        }
    }
}
