//! admin: the socket by which the operator of a running node controls it.
//!
//! reads   requests of JSON-RPC 2.0, one a line, on a Unix socket in the ledger folder that its owner alone may use
//! writes  an answer a line; the stop signal
//! memory  a line of [`LINE_MAX`] for each of 16 connections
//! drops   lines that are too long, with their connection; what is no request gets an error as its answer
//! source  `admin_rpc_service.rs` of `agave-validator` 4.2.2: the file's name, the methods and their answers
//!
//! [`AdminState`] answers a line and knows nothing of sockets; [`AdminServer`] serves it, and [`AdminClient`] asks.

mod client;
mod server;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hearth_command::exit_code::ExitCode;
use hearth_command::stop::StopSignal;
use hearth_gossip::board::Board;
use hearth_keys as keys;
use hearth_pipeline::identity::IdentityStatus;
use hearth_pipeline::voters::VoterDesk;
use hearth_ring::unix_time;
use hearth_wire::base58::encode_32;
use hearth_wire::gossip::{ContactInfo, SocketKind};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::boot::IdentitySwitch;

pub use client::AdminClient;
pub use server::AdminServer;

/// The socket's name in the ledger folder.
pub const SOCKET_NAME: &str = "admin.rpc";
/// Maximum length of a request in bytes.
pub const LINE_MAX: usize = 64 << 10;

/// A short path to a folder, as long as this is held. The path of a socket has 107 bytes at most, and a ledger folder
/// may lie deeper.
struct ShortPath {
    path: PathBuf,
    _folder: File,
}

impl ShortPath {
    fn to(folder: &Path) -> io::Result<Self> {
        let opened = File::open(folder)?;
        Ok(Self { path: format!("/proc/self/fd/{}", opened.as_raw_fd()).into(), _folder: opened })
    }

    fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// Why the admin socket cannot be served, or gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The socket cannot be made.
    #[error("the admin socket {} cannot be served: {source}", path.display())]
    Listen {
        /// The path of the admin socket.
        path: PathBuf,
        /// Why it cannot be made, as the system says it.
        source: io::Error,
    },
    /// No node listens on the socket.
    #[error(
        "no validator answers at {}: {source}; --ledger, --name or --config says which node is meant, and \
         `hearth validator` starts one",
        path.display()
    )]
    NoNode {
        /// The path of the admin socket.
        path: PathBuf,
        /// Why it cannot be connected to, as the system says it.
        source: io::Error,
    },
    /// The connection broke, or the answer is none.
    #[error("the validator at {} gives no answer to {method}: {why}", path.display())]
    NoAnswer {
        /// The path of the admin socket.
        path: PathBuf,
        /// The method that was called.
        method: String,
        /// Why there is no valid answer, as a clause.
        why: String,
    },
    /// The node answered with an error.
    #[error("{method}: {message} ({code})")]
    Refused {
        /// The method that was called.
        method: String,
        /// The code of JSON-RPC.
        code: i64,
        /// The text of the node's error.
        message: String,
    },
}

impl ExitCode for AdminError {}

/// The facts about a node that are known once it runs.
#[derive(Clone)]
pub struct Facts {
    /// The address of its JSON-RPC.
    pub rpc: SocketAddr,
    /// Whether it takes snapshots, and `getHighestSnapshotSlot` shows them.
    pub takes_snapshots: bool,
    /// In a cluster: what it says of itself in gossip, and what gossip posts.
    pub gossip: Option<(ContactInfo, Arc<Board>)>,
    /// In a cluster: where the keys change that sign its votes.
    pub voters: Option<Arc<VoterDesk>>,
    /// In a cluster: where its identity changes.
    pub identity: Option<Arc<IdentitySwitch>>,
}

/// How far the node's start is.
#[derive(Clone)]
pub enum Stage {
    /// Nothing is done yet.
    Initializing,
    /// It looks for the genesis and a snapshot, and fetches them.
    Joining,
    /// It restores the state, and replays the blocks on disk.
    Loading,
    /// It starts tiles and the RPC.
    Starting,
    /// All tiles and the RPC are started.
    Running(Facts),
}

impl Stage {
    /// The name that Agave's clients know.
    fn name(&self) -> &'static str {
        match self {
            Self::Initializing => "Initializing",
            Self::Joining => "SearchingForRpcService",
            Self::Loading => "LoadingLedger",
            Self::Starting => "StartingServices",
            Self::Running(_) => "Running",
        }
    }
}

/// The state from which the admin socket answers.
pub struct AdminState {
    stop: StopSignal,
    /// When the node started, in Unix time.
    started: Duration,
    stage: Mutex<Stage>,
}

/// An answer, and what follows it.
#[derive(Debug, PartialEq, Eq)]
struct Reply {
    /// JSON and a newline.
    line: String,
    /// Whether the node ends once the answer is sent.
    ends_node: bool,
}

/// A request that can be called.
struct Request {
    id: Value,
    method: String,
    /// As many as the method takes.
    params: Vec<String>,
}

/// Why a request has no result.
struct Refusal {
    code: i64,
    message: String,
}

impl Refusal {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl AdminState {
    /// For a node that starts now, and that `stop` ends.
    pub fn new(stop: &StopSignal) -> Self {
        Self { stop: stop.clone(), started: unix_time(), stage: Mutex::new(Stage::Initializing) }
    }

    /// The node's start has come to this stage.
    pub fn enter(&self, stage: Stage) {
        *self.stage.lock() = stage;
    }

    /// Ends the node as Ctrl-C does.
    fn end_node(&self) {
        self.stop.set();
    }

    /// Answers one line, which holds a JSON-RPC request.
    fn answer(&self, line: &[u8]) -> Reply {
        match Request::parse(line) {
            Ok(Request { id, method, params }) => match self.call(&method, &params) {
                Ok(result) => Reply {
                    line: format!("{}\n", json!({ "jsonrpc": "2.0", "result": result, "id": id })),
                    ends_node: method == "exit",
                },
                Err(refusal) => refused(&refusal, &id),
            },
            Err((id, refusal)) => refused(&refusal, &id),
        }
    }

    /// The result of a method.
    fn call(&self, method: &str, params: &[String]) -> Result<Value, Refusal> {
        match method {
            "addAuthorizedVoter" => {
                let path = file_of(params).ok_or_else(|| params_of(method, 1))??;
                let key =
                    keys::read_private(path).map_err(|why| Refusal::new(INVALID_PARAMS, why.to_string()))?.keypair;
                let added = self.voters()?.add(key);
                added.map(|()| Value::Null).map_err(|why| Refusal::new(INVALID_PARAMS, why.to_string()))
            }
            "removeAllAuthorizedVoters" => {
                let removed = self.voters()?.remove_all();
                removed.map(|()| Value::Null).map_err(|why| Refusal::new(INVALID_PARAMS, why.to_string()))
            }
            "setIdentity" => self.set_identity(params),
            "identityStatus" => self.identity().map(|switch| status_json(&switch.status())),
            // The server sets the signal once the answer is sent.
            "exit" => Ok(Value::Null),
            "pid" => Ok(json!(std::process::id())),
            "startTime" => Ok(json!({
                "secs_since_epoch": self.started.as_secs(),
                "nanos_since_epoch": self.started.subsec_nanos(),
            })),
            "startProgress" => Ok(json!(self.stage.lock().name())),
            "rpcAddress" => Ok(self.facts().map_or(Value::Null, |facts| json!(facts.rpc))),
            "isGeneratingSnapshots" => self.running().map(|facts| json!(facts.takes_snapshots)),
            "contactInfo" => match self.running()?.gossip {
                Some((own, board)) => {
                    let pubkey = self.identity().map_or(own.pubkey, |switch| switch.status().identity);
                    Ok(contact_json(&newest(ContactInfo { pubkey, ..own }, &board)))
                }
                None => Err(Refusal::new(INVALID_PARAMS, NO_CLUSTER)),
            },
            _ => Err(Refusal::new(METHOD_NOT_FOUND, "Method not found")),
        }
    }

    /// Asks the node to take another identity, of which the second parameter says whether it must have a tower. The
    /// third is about votes of a kind that there are none of here.
    fn set_identity(&self, params: &[String]) -> Result<Value, Refusal> {
        let wrong = || params_of("setIdentity", 3);
        let path = file_of(params).ok_or_else(wrong)??;
        let requires_tower = params.get(1).and_then(|param| param.parse().ok()).ok_or_else(wrong)?;
        let requested = self.identity()?.request(path, requires_tower);
        requested.map(|()| Value::Null).map_err(|why| Refusal::new(INVALID_PARAMS, why.to_string()))
    }

    fn identity(&self) -> Result<Arc<IdentitySwitch>, Refusal> {
        self.running()?.identity.ok_or_else(|| Refusal::new(INVALID_PARAMS, NO_CLUSTER))
    }

    fn voters(&self) -> Result<Arc<VoterDesk>, Refusal> {
        self.running()?.voters.ok_or_else(|| Refusal::new(INVALID_PARAMS, NO_CLUSTER))
    }

    fn facts(&self) -> Option<Facts> {
        match &*self.stage.lock() {
            Stage::Running(facts) => Some(facts.clone()),
            _ => None,
        }
    }

    fn running(&self) -> Result<Facts, Refusal> {
        self.facts().ok_or_else(|| Refusal::new(INVALID_PARAMS, "Retry once validator start up is complete"))
    }
}

impl Request {
    /// Parses a line. An error has the request's id, if it has one.
    fn parse(line: &[u8]) -> Result<Self, (Value, Refusal)> {
        let request: Value = serde_json::from_slice(line)
            .map_err(|why| (Value::Null, Refusal::new(PARSE_ERROR, format!("Parse error: {why}"))))?;
        let id = request.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
        let invalid = |why: &str| {
            (id.clone().unwrap_or(Value::Null), Refusal::new(INVALID_REQUEST, format!("Invalid request: {why}")))
        };
        if !request.is_object() {
            return Err(invalid("one object a line is expected"));
        }
        let Some(id) = id.clone() else { return Err(invalid("it has no id, which is a number or a text")) };
        let Some(method) = request["method"].as_str() else { return Err(invalid("it has no method")) };
        let params: Option<Vec<String>> = match request.get("params") {
            None | Some(Value::Null) => Some(vec![]),
            Some(Value::Array(params)) => params.iter().map(text_of).collect(),
            Some(Value::Object(params)) => params.is_empty().then(Vec::new),
            Some(_) => None,
        };
        let known = METHODS.iter().find(|(name, _)| *name == method);
        match (known, params) {
            // The call says so.
            (None, _) => Ok(Self { id, method: method.to_owned(), params: vec![] }),
            (Some((_, count)), Some(params)) if params.len() == *count => {
                Ok(Self { id, method: method.to_owned(), params })
            }
            (Some((name, count)), _) => Err((id, params_of(name, *count))),
        }
    }
}

/// The methods that are served, and how many parameters each takes: texts, or truth values.
const METHODS: [(&str, usize); 11] = [
    ("exit", 0),
    ("pid", 0),
    ("startTime", 0),
    ("startProgress", 0),
    ("rpcAddress", 0),
    ("isGeneratingSnapshots", 0),
    ("contactInfo", 0),
    ("addAuthorizedVoter", 1),
    ("removeAllAuthorizedVoters", 0),
    ("setIdentity", 3),
    ("identityStatus", 0),
];
/// Why a node alone refuses what is about a cluster.
const NO_CLUSTER: &str = "The node is in no cluster";

/// A parameter as a text.
fn text_of(param: &Value) -> Option<String> {
    let truth = || param.as_bool().map(|truth| truth.to_string());
    param.as_str().map(str::to_owned).or_else(truth)
}

/// The file that the first parameter names; `None` without one. A pipe would hold up the thread that serves all, and
/// with it the node's end.
fn file_of(params: &[String]) -> Option<Result<&Path, Refusal>> {
    let path = Path::new(params.first()?);
    Some(match path.metadata().is_ok_and(|found| !found.is_file()) {
        true => Err(Refusal::new(INVALID_PARAMS, format!("{} is not a file", path.display()))),
        false => Ok(path),
    })
}

fn status_json(status: &IdentityStatus) -> Value {
    json!({
        "identity": encode_32(&status.identity).to_string(),
        "isChanging": status.is_changing,
        "failure": status.failure,
    })
}

fn params_of(method: &str, count: usize) -> Refusal {
    Refusal::new(INVALID_PARAMS, format!("Invalid params: {method} takes {count} parameters"))
}

fn refused(Refusal { code, message }: &Refusal, id: &Value) -> Reply {
    let error = json!({ "jsonrpc": "2.0", "error": { "code": code, "message": message }, "id": id });
    Reply { line: format!("{error}\n"), ends_node: false }
}

/// The answer to a line that is longer than [`LINE_MAX`].
fn too_long() -> Reply {
    let what = format!("Invalid request: a line has at most {LINE_MAX} bytes");
    refused(&Refusal::new(INVALID_REQUEST, what), &Value::Null)
}

/// A node's own contact info with the time at which gossip renewed it last.
fn newest(own: ContactInfo, board: &Board) -> ContactInfo {
    let posted = board.nodes().iter().find(|node| node.pubkey == own.pubkey).map(|node| node.wallclock);
    ContactInfo { wallclock: posted.unwrap_or(own.wallclock), ..own }
}

/// In the form of Agave: a socket that is not there is the unspecified address.
fn contact_json(contact: &ContactInfo) -> Value {
    let none = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let at = |kind| contact.socket(kind).unwrap_or(none).to_string();
    json!({
        "id": encode_32(&contact.pubkey).to_string(),
        "gossip": at(SocketKind::Gossip),
        "tvu": at(SocketKind::Tvu),
        "serve_repair_quic": at(SocketKind::ServeRepairQuic),
        "tpu": at(SocketKind::Tpu),
        "tpu_quic": at(SocketKind::TpuQuic),
        "tpu_forwards": at(SocketKind::TpuForwards),
        "tpu_vote": at(SocketKind::TpuVote),
        "rpc": at(SocketKind::Rpc),
        "rpc_pubsub": at(SocketKind::RpcPubsub),
        "serve_repair": at(SocketKind::ServeRepair),
        "last_updated_timestamp": contact.wallclock,
        "shred_version": contact.shred_version,
    })
}
