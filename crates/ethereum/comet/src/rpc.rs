//! CometBFT's own RPC, as far as this node needs it: handing envelopes over, asking how far it is.
//!
//! reads   JSON answers, at most [`ANSWER_BYTES_MAX`]
//! writes  JSON-RPC over HTTP, on connections that are kept
//! memory  one answer
//! source  CometBFT's `rpc/openapi`

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The longest answer, a block of 21 MB in Base64.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The longest wait for one. `broadcast_tx_commit` itself gives up after ten seconds.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// No connection, or it broke.
    #[error("CometBFT's RPC at {url}: {source}")]
    Connection {
        /// Where.
        url: String,
        /// What happened.
        source: Box<ureq::Error>,
    },
    /// It answers with an error.
    #[error("CometBFT refuses {method}: {error}")]
    Refused {
        /// What was asked.
        method: String,
        /// Its error.
        error: Value,
    },
    /// An answer of another shape.
    #[error("CometBFT's answer to {method} has no {what}")]
    Shape {
        /// What was asked.
        method: &'static str,
        /// What is missing.
        what: &'static str,
    },
}

/// A CometBFT node's RPC.
#[derive(Clone, Debug)]
pub struct Rpc {
    agent: ureq::Agent,
    url: String,
}

/// How far a CometBFT node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its last block.
    pub height: u64,
    /// The app hash in that block's header: after the block before it.
    pub app_hash: String,
    /// Whether it is still fetching blocks.
    pub catching_up: bool,
}

impl Rpc {
    /// The RPC at `http://host:port`, or as CometBFT's configuration names it, `tcp://host:port`.
    pub fn at(url: &str) -> Self {
        let url = url.strip_prefix("tcp://").map_or_else(|| url.to_owned(), |rest| format!("http://{rest}"));
        let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
        Self { agent: config.new_agent(), url: url.trim_end_matches('/').to_owned() }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The result of a call.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let broken = |source| RpcError::Connection { url: self.url.clone(), source: Box::new(source) };
        let request = self.agent.post(&self.url).header("Content-Type", "application/json");
        let mut answer = request.send(body.as_bytes()).map_err(broken)?;
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().map_err(broken)?;
        let refused = |error| RpcError::Refused { method: method.into(), error };
        let mut answer: Value = serde_json::from_slice(&text)
            .map_err(|_| refused(String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned().into()))?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(refused(answer.get_mut("error").map(Value::take).unwrap_or_default())),
        }
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
