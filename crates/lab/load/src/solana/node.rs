//! A Solana node and the requests to it.
//!
//! reads   the node's JSON-RPC
//! memory  an answer
//! source  the JSON-RPC of Agave 4.2

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hearth_wire::base58::{decode_32, encode_32};
use hearth_wire::{Hash, Pubkey, TransferTemplate};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::chain::Marks;
use crate::rpc::{Refusal, Rpc, RpcError};

/// Accounts per `getMultipleAccounts` request.
const ACCOUNTS_TOGETHER: usize = 100;
/// The most bytes of one request: our own nodes and Agave's accept 51,200.
pub const REQUEST_BYTES: usize = 48 << 10;
/// Upper bound on the bytes of a call besides its parameters.
const QUESTION_BYTES: usize = 96;
/// Leaders that are requested ahead, and addresses that transactions are sent to at once.
const SLOTS_AHEAD: u64 = 8;

/// A Solana node, reached over its RPC.
pub struct Node {
    /// RPC client for the node.
    pub rpc: Rpc,
    /// Name and version of the node.
    pub client: String,
    /// Identity key of the node, in base58.
    pub identity: String,
}

/// A blockhash, and the last block height at which it is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blockhash {
    /// Hash of the block, which transactions name.
    pub hash: Hash,
    /// Height of the last block that may contain a transaction with this blockhash.
    pub last_valid: u64,
}

/// Time in terms of the chain: the newest blockhash, and the height up to which blocks were read.
pub struct ChainTime {
    newest: Mutex<Blockhash>,
    read: AtomicU64,
}

impl ChainTime {
    /// Starts with this blockhash.
    pub fn new(newest: Blockhash) -> Self {
        Self { newest: Mutex::new(newest), read: AtomicU64::new(0) }
    }

    /// Returns the newest blockhash.
    pub fn newest(&self) -> Blockhash {
        *self.newest.lock()
    }

    /// Sets a newer blockhash.
    pub fn renew(&self, newest: Blockhash) {
        *self.newest.lock() = newest;
    }

    /// Records that all blocks up to this height have been read.
    pub fn reached(&self, height: u64) {
        self.read.fetch_max(height, Ordering::AcqRel);
    }

    /// Returns the height up to which all blocks have been read.
    pub fn height(&self) -> u64 {
        self.read.load(Ordering::Acquire)
    }

    /// Returns whether every block has been read that may contain a transaction valid until `last_valid`.
    pub fn is_over(&self, last_valid: u64) -> bool {
        self.height() > last_valid
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LatestBlockhash {
    value: BlockhashValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockhashValue {
    blockhash: String,
    last_valid_block_height: u64,
}

#[derive(Deserialize)]
struct ValueResponse<T> {
    value: T,
}

#[derive(Deserialize)]
struct Lamports {
    lamports: u64,
}

/// The status of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// In no block that the node knows.
    Unseen,
    /// In a block that is not confirmed yet.
    Seen,
    /// In a confirmed block.
    Landed,
    /// In a block, where it failed.
    Failed(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusAnswer {
    err: Option<Value>,
    confirmation_status: Option<String>,
}

/// The commitment of blocks that the load reads: practically final, and half a minute sooner.
pub(super) fn confirmed() -> Value {
    json!({ "commitment": "confirmed" })
}

/// Encodes a transaction as text for `sendTransaction`.
pub fn encoded(raw: &[u8]) -> String {
    STANDARD.encode(raw)
}

impl Node {
    /// Reads a node's name and identity.
    pub fn ask(rpc: Rpc) -> Result<Self, RpcError> {
        let version = rpc.call("getVersion", &json!([]))?;
        let number = version["solana-core"].as_str().ok_or_else(|| rpc.garbled("getVersion", "no solana-core"))?;
        let client = format!("solana-core {number}");
        let identity = rpc.call("getIdentity", &json!([]))?;
        let identity = identity["identity"].as_str().ok_or_else(|| rpc.garbled("getIdentity", "no identity"))?;
        Ok(Self { client, identity: identity.into(), rpc })
    }

    /// Returns the newest confirmed blockhash.
    pub fn blockhash(&self) -> Result<Blockhash, RpcError> {
        const METHOD: &str = "getLatestBlockhash";
        let latest: LatestBlockhash = self.rpc.call_as(METHOD, &json!([confirmed()]))?;
        let hash = decode_32(&latest.value.blockhash).map_err(|why| self.rpc.garbled(METHOD, &why.to_string()))?;
        Ok(Blockhash { hash, last_valid: latest.value.last_valid_block_height })
    }

    /// Returns the height of the newest confirmed block.
    pub fn block_height(&self) -> Result<u64, RpcError> {
        self.rpc.call_as("getBlockHeight", &json!([confirmed()]))
    }

    /// Returns the newest confirmed slot.
    pub fn slot(&self) -> Result<u64, RpcError> {
        self.rpc.call_as("getSlot", &json!([confirmed()]))
    }

    /// Returns the fee for one signature, in lamports.
    pub fn fee(&self) -> Result<u64, RpcError> {
        const METHOD: &str = "getFeeForMessage";
        let mut template = TransferTemplate::new();
        template.set_recent_blockhash(&self.blockhash()?.hash);
        let fee: ValueResponse<Option<u64>> =
            self.rpc.call_as(METHOD, &json!([encoded(template.message()), confirmed()]))?;
        fee.value.ok_or_else(|| self.rpc.garbled(METHOD, "no fee for a new blockhash"))
    }

    /// Returns the rent-exempt balance of an account with this many bytes, in lamports.
    pub fn rent_exempt(&self, bytes: u64) -> Result<u64, RpcError> {
        self.rpc.call_as("getMinimumBalanceForRentExemption", &json!([bytes]))
    }

    /// Returns the balance of each account, in lamports.
    pub fn balances(&self, accounts: &[Pubkey]) -> Result<Vec<u64>, RpcError> {
        const METHOD: &str = "getMultipleAccounts";
        let options =
            json!({ "commitment": "confirmed", "encoding": "base64", "dataSlice": { "offset": 0, "length": 0 } });
        let questions: Vec<_> = accounts
            .chunks(ACCOUNTS_TOGETHER)
            .map(|page| json!([page.iter().map(|key| encode_32(key).to_string()).collect::<Vec<_>>(), options]))
            .collect();
        let mut balances = Vec::with_capacity(accounts.len());
        for answer in in_pieces::<ValueResponse<Vec<Option<Lamports>>>>(&self.rpc, METHOD, &questions)? {
            let found = answer.map_err(|refusal| refusal.into_error(METHOD))?.value;
            balances.extend(found.into_iter().map(|account| account.map_or(0, |account| account.lamports)));
        }
        match balances.len() == accounts.len() {
            true => Ok(balances),
            false => Err(self.rpc.garbled(METHOD, "another number of accounts")),
        }
    }

    /// Requests an airdrop, which development chains grant.
    pub fn airdrop(&self, to: &Pubkey, lamports: u64) -> Result<(), RpcError> {
        self.rpc.call("requestAirdrop", &json!([&*encode_32(to), lamports])).map(drop)
    }

    /// Sends transactions to the node, in as many requests as needed. Returns its verdict on each, in order.
    pub fn send(&self, raws: &[&[u8]]) -> Result<Vec<Result<String, Refusal>>, RpcError> {
        in_pieces(&self.rpc, SEND, &sending(raws))
    }

    /// Returns the statuses of transactions by their signatures in base58.
    pub fn statuses(&self, signatures: &[String]) -> Result<Vec<Status>, RpcError> {
        const METHOD: &str = "getSignatureStatuses";
        let found: ValueResponse<Vec<Option<StatusAnswer>>> = self.rpc.call_as(METHOD, &json!([signatures]))?;
        if found.value.len() != signatures.len() {
            return Err(self.rpc.garbled(METHOD, "another number of statuses"));
        }
        let status = |answer: Option<StatusAnswer>| match answer {
            None => Status::Unseen,
            Some(StatusAnswer { err: Some(why), .. }) => Status::Failed(why.to_string()),
            Some(StatusAnswer { confirmation_status, .. }) => match confirmation_status.as_deref() {
                Some("confirmed" | "finalized") => Status::Landed,
                _ => Status::Seen,
            },
        };
        Ok(found.value.into_iter().map(status).collect())
    }

    /// Returns where transactions go: the TPUs of the next leaders, nearest first, or the node's own if it reports no
    /// leader.
    pub fn tpus(&self) -> Result<Vec<SocketAddr>, RpcError> {
        let nodes = self.rpc.call("getClusterNodes", &json!([]))?;
        let nodes = nodes.as_array().ok_or_else(|| self.rpc.garbled("getClusterNodes", "no list"))?;
        let address_of = |key: &str| -> Option<SocketAddr> {
            let node = nodes.iter().find(|node| node["pubkey"] == key)?;
            let mut address: SocketAddr = node["tpuQuic"].as_str()?.parse().ok()?;
            // A TPU that listens on all addresses is reached at the address of the RPC.
            if address.ip().is_unspecified() {
                address.set_ip(rpc_address(self.rpc.url())?.ip());
            }
            Some(address)
        };
        let leaders = match self.rpc.call_as::<u64>("getSlot", &json!([{ "commitment": "processed" }])) {
            Ok(slot) => self.rpc.call_as::<Vec<String>>("getSlotLeaders", &json!([slot, SLOTS_AHEAD])),
            Err(why) => Err(why),
        };
        let leaders = match leaders {
            Ok(leaders) => leaders,
            Err(RpcError::Refused { .. }) => vec![],
            Err(why) => return Err(why),
        };
        let mut found: Vec<SocketAddr> = vec![];
        for leader in leaders.iter().chain([&self.identity]) {
            found.extend(address_of(leader).filter(|address| !found.contains(address)));
        }
        Ok(found)
    }
}

/// The marks that identify a node's chain: the hash of its genesis.
pub fn marks(rpc: &Rpc) -> Result<Marks, RpcError> {
    Ok(vec![("genesis", rpc.call_as("getGenesisHash", &json!([]))?)])
}

const SEND: &str = "sendTransaction";

/// The parameters of each call. Preflight is skipped, and the node must not retry: the load does that itself.
fn sending(raws: &[&[u8]]) -> Vec<Value> {
    let options = json!({ "encoding": "base64", "skipPreflight": true, "maxRetries": 0 });
    raws.iter().map(|raw| json!([encoded(raw), options])).collect()
}

/// Sends transactions to the node at this RPC in one request. Returns its verdict on each, in order.
pub fn send(rpc: &Rpc, raws: &[&[u8]]) -> Result<Vec<Result<String, Refusal>>, RpcError> {
    rpc.batch(SEND, &sending(raws))
}

/// Upper bound on the bytes that a transaction of this length takes in a request.
pub fn sending_bytes(length: usize) -> usize {
    length.div_ceil(3) * 4 + 64 + QUESTION_BYTES
}

/// Returns whether a request was too long for the node.
pub fn is_too_long(why: &RpcError) -> bool {
    matches!(why, RpcError::Status { status: 413, .. })
}

/// Splits calls into requests that nodes accept; a request that is still too long is halved.
fn in_pieces<T: for<'de> Deserialize<'de>>(
    rpc: &Rpc,
    method: &str,
    questions: &[Value],
) -> Result<Vec<Result<T, Refusal>>, RpcError> {
    let sizes: Vec<usize> = questions.iter().map(|params| params.to_string().len() + QUESTION_BYTES).collect();
    let mut answers = Vec::with_capacity(questions.len());
    let mut most = REQUEST_BYTES;
    while answers.len() < questions.len() {
        let from = answers.len();
        let count = fitting(sizes[from..].iter().copied(), most);
        match rpc.batch(method, &questions[from..from + count]) {
            Ok(some) => answers.extend(some),
            Err(why) if is_too_long(&why) && count > 1 => most = sizes[from..from + count].iter().sum::<usize>() / 2,
            Err(why) => return Err(why),
        }
    }
    Ok(answers)
}

/// Returns how many of these sizes fit into `most` bytes, at least one.
pub fn fitting(sizes: impl Iterator<Item = usize>, most: usize) -> usize {
    let mut sum = 0;
    let fit = sizes.take_while(|size| {
        sum += size;
        sum <= most
    });
    fit.count().max(1)
}

/// Returns the socket address of an RPC URL.
fn rpc_address(url: &str) -> Option<SocketAddr> {
    let (secure, rest) = match url.strip_prefix("https://") {
        Some(rest) => (true, rest),
        None => (false, url.strip_prefix("http://")?),
    };
    let host = rest.split('/').next()?;
    let port = if secure { 443 } else { 80 };
    let with_port = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    with_port.to_socket_addrs().ok()?.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_behind_a_url() {
        assert_eq!(rpc_address("http://127.0.0.1:8899/path"), Some(([127, 0, 0, 1], 8899).into()));
        assert_eq!(rpc_address("http://127.0.0.1"), Some(([127, 0, 0, 1], 80).into()));
        assert_eq!(rpc_address("https://127.0.0.1/x"), Some(([127, 0, 0, 1], 443).into()));
        assert_eq!(rpc_address("ws://127.0.0.1"), None);
    }

    #[test]
    fn requests_are_no_longer_than_nodes_take() {
        for length in [1, 215, 216, 1_232] {
            let question =
                json!({ "jsonrpc": "2.0", "id": 99_999, "method": SEND, "params": sending(&[&vec![7; length]])[0] });
            let (estimated, is) = (sending_bytes(length), question.to_string().len() + 1);
            assert!(is <= estimated && estimated < is + 64, "{length}: {estimated}, {is}");
        }
        assert!(100 * sending_bytes(220) <= REQUEST_BYTES, "as many transfers as there are in a request by default");
        assert_eq!(fitting([3, 4, 3, 9].into_iter(), 10), 3);
        assert_eq!(fitting([30, 4].into_iter(), 10), 1);
    }

    #[test]
    fn a_life_is_over_when_all_its_blocks_are_read() {
        let time = ChainTime::new(Blockhash { hash: [1; 32], last_valid: 150 });
        time.reached(150);
        assert!(!time.is_over(150));
        time.reached(151);
        time.reached(140);
        assert!(time.is_over(150) && time.height() == 151);
    }
}
