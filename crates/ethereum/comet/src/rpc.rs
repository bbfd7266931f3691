//! CometBFT's own RPC, as far as this node needs it: handing envelopes over, asking how far it is.
//!
//! reads   JSON answers, at most [`ANSWER_BYTES_MAX`]
//! writes  JSON-RPC over HTTP, on connections that are kept
//! memory  one answer
//! source  CometBFT's `rpc/openapi`

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hearth_rpc_client::http::Patience;
use hearth_rpc_client::{Options, RpcClient, RpcError as ClientError};
use serde_json::{Value, json};

/// The longest answer, a block of 21 MB in Base64.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The longest wait for one. `broadcast_tx_commit` itself gives up after ten seconds.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The connection failed, or the answer is invalid.
    #[error("CometBFT's RPC at {0}")]
    Client(ClientError),
    /// CometBFT answers the request with an error.
    #[error("CometBFT refuses {method}: {error}")]
    Refused {
        /// Name of the RPC method that was called.
        method: String,
        /// CometBFT's error message, with its data where it has some.
        error: String,
    },
    /// The answer has an unexpected shape.
    #[error("CometBFT's answer to {method} has no {what}")]
    Shape {
        /// Name of the RPC method that was called.
        method: &'static str,
        /// Name of the field that is missing or malformed.
        what: &'static str,
    },
}

impl From<ClientError> for RpcError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused { method, message, data, .. } => {
                // Only the data says what is wrong with a transaction.
                let error = data.map_or_else(|| message.clone(), |data| format!("{message}: {data}"));
                Self::Refused { method, error }
            }
            other => Self::Client(other),
        }
    }
}

/// A CometBFT node's RPC.
#[derive(Clone, Debug)]
pub struct Rpc(RpcClient);

/// How far a CometBFT node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Height of the last block.
    pub height: u64,
    /// The app hash in that block's header: after the block before it.
    pub app_hash: String,
    /// Whether it is still fetching blocks.
    pub catching_up: bool,
}

impl Rpc {
    /// The RPC at `http://host:port`, or as CometBFT's configuration names it, `tcp://host:port`.
    pub fn at(url: &str) -> Result<Self, RpcError> {
        let url = url.strip_prefix("tcp://").map_or_else(|| url.to_owned(), |rest| format!("http://{rest}"));
        let patience = Patience::Whole(TIMEOUT);
        let options = Options { patience, answer_max: ANSWER_BYTES_MAX, by_environment: true, https: true };
        Ok(Self(RpcClient::new(url.trim_end_matches('/'), &options)?))
    }

    /// URL of the RPC.
    pub fn url(&self) -> &str {
        self.0.url()
    }

    /// The result of a call.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        Ok(self.0.call(method, &params)?)
    }

    /// Hands a transaction to the mempool and does not wait for its check.
    pub fn broadcast_async(&self, tx: &[u8]) -> Result<(), RpcError> {
        self.call("broadcast_tx_async", json!({ "tx": STANDARD.encode(tx) })).map(drop)
    }

    /// Hands a transaction to the mempool; gives the check's code and its words.
    pub fn broadcast_sync(&self, tx: &[u8]) -> Result<(u64, String), RpcError> {
        let result = self.call("broadcast_tx_sync", json!({ "tx": STANDARD.encode(tx) }))?;
        let code = result["code"].as_u64();
        let code = code.ok_or(RpcError::Shape { method: "broadcast_tx_sync", what: "code" })?;
        Ok((code, result["log"].as_str().unwrap_or_default().to_owned()))
    }

    /// The heights of the snapshots that the node's application offers, lowest first.
    pub fn snapshots(&self) -> Result<Vec<u64>, RpcError> {
        let result = self.call("abci_query", json!({ "path": "/snapshots" }))?;
        let value = result["response"]["value"].as_str().and_then(|value| STANDARD.decode(value).ok());
        let heights = value.and_then(|value| serde_json::from_slice(&value).ok());
        heights.ok_or(RpcError::Shape { method: "abci_query", what: "heights" })
    }

    /// How far it is.
    pub fn status(&self) -> Result<Status, RpcError> {
        let result = self.call("status", json!({}))?;
        let missing = |what| RpcError::Shape { method: "status", what };
        let sync = &result["sync_info"];
        let height = sync["latest_block_height"].as_str().and_then(|height| height.parse().ok());
        Ok(Status {
            height: height.ok_or(missing("latest_block_height"))?,
            app_hash: sync["latest_app_hash"].as_str().unwrap_or_default().to_owned(),
            catching_up: sync["catching_up"].as_bool().ok_or(missing("catching_up"))?,
        })
    }

    /// The hash of the block of this height, in hexadecimal.
    pub fn block_hash(&self, height: u64) -> Result<String, RpcError> {
        let result = self.call("commit", json!({ "height": height.to_string() }))?;
        let hash = result["signed_header"]["commit"]["block_id"]["hash"].as_str();
        Ok(hash.ok_or(RpcError::Shape { method: "commit", what: "hash" })?.to_owned())
    }

    /// The app hash after the block before `height`, in hexadecimal.
    pub fn app_hash_before(&self, height: u64) -> Result<String, RpcError> {
        let result = self.call("commit", json!({ "height": height.to_string() }))?;
        let hash = result["signed_header"]["header"]["app_hash"].as_str();
        Ok(hash.ok_or(RpcError::Shape { method: "commit", what: "app_hash" })?.to_owned())
    }
}
