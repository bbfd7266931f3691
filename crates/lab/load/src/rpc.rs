//! A node's RPC client: the requests to Ethereum nodes, including raw transactions, and which errors are transient.
//!
//! reads   answers over HTTP
//! writes  requests
//! memory  an answer, 256 MiB at most; a few kept connections
//! drops   nothing: each request ends in an answer or an [`RpcError`]
//! source  Ethereum's execution-apis

use std::ops::Deref;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use hearth_rpc_client::http::Patience;
use hearth_rpc_client::{Options, RpcClient};
use serde_json::{Value, json};

pub use hearth_rpc_client::{Refusal, RpcError};

use crate::refusal::Reason;

/// The longest answer: the receipts of a block of 500 thousand transfers are smaller.
const ANSWER_MAX: u64 = 256 << 20;

/// Whether an error suggests trying again.
pub trait Retryable {
    /// Returns whether the same request may be answered later.
    fn may_pass(&self) -> bool;
    /// Returns whether a shorter request may be answered: this one was too long.
    fn may_be_too_long(&self) -> bool;
}

impl Retryable for RpcError {
    fn may_pass(&self) -> bool {
        match self {
            Self::Url { .. } | Self::Host(_) => false,
            Self::Connection { .. } | Self::Garbled { .. } => true,
            Self::Status { status, .. } => *status == 408 || *status == 429 || *status >= 500,
            Self::Refused { message, .. } => Reason::of(message) == Reason::Full,
        }
    }

    fn may_be_too_long(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status == 413,
            Self::Refused { message, .. } => {
                let message = message.to_ascii_lowercase();
                ["batch", "too large", "too long", "too big"].iter().any(|words| message.contains(words))
            }
            _ => false,
        }
    }
}

/// A node's RPC: the generic client with Ethereum's methods. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Rpc(RpcClient);

impl Deref for Rpc {
    type Target = RpcClient;

    fn deref(&self) -> &RpcClient {
        &self.0
    }
}

impl Rpc {
    /// A client for `url`; sends nothing yet.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, RpcError> {
        let patience = Patience::Whole(timeout);
        let options = Options { patience, answer_max: ANSWER_MAX, by_environment: true, https: true };
        RpcClient::new(url, &options).map(Self)
    }

    /// Sends raw transactions in one request. Returns the node's verdict on each, in order.
    pub fn send_raw(&self, transactions: &[&[u8]]) -> Result<Vec<Result<B256, Refusal>>, RpcError> {
        const METHOD: &str = "eth_sendRawTransaction";
        let size: usize = transactions.iter().map(|raw| 2 * raw.len() + 96).sum();
        let mut body = Vec::with_capacity(size + 2);
        for (id, raw) in transactions.iter().enumerate() {
            body.extend_from_slice(if id == 0 { b"[" } else { b"," });
            body.extend_from_slice(br#"{"jsonrpc":"2.0","method":"eth_sendRawTransaction","id":"#);
            body.extend_from_slice(id.to_string().as_bytes());
            body.extend_from_slice(br#","params":["0x"#);
            let at = body.len();
            body.resize(at + 2 * raw.len(), 0);
            alloy_primitives::hex::encode_to_slice(raw, &mut body[at..]).expect("twice as long");
            body.extend_from_slice(br#""]}"#);
        }
        body.push(b']');
        self.send_batch(METHOD, transactions.len(), &body)
    }

    /// Requests a number like `"0x1f"`.
    pub fn quantity(&self, method: &str, params: &Value) -> Result<U256, RpcError> {
        let value = self.call(method, params)?;
        to_quantity(&value).ok_or_else(|| self.garbled(method, &format!("{value} is not a quantity")))
    }

    /// Requests a number that fits 64 bits.
    pub fn number(&self, method: &str, params: &Value) -> Result<u64, RpcError> {
        let value = self.quantity(method, params)?;
        value.try_into().map_err(|_| self.garbled(method, &format!("{value} is too large")))
    }

    /// Returns the next nonce of each account, counting pending transactions.
    pub fn nonces(&self, accounts: &[Address]) -> Result<Vec<u64>, RpcError> {
        self.nonces_at(accounts, "pending")
    }

    /// Returns the next nonce of each account, counting only blocks.
    pub fn mined_nonces(&self, accounts: &[Address]) -> Result<Vec<u64>, RpcError> {
        self.nonces_at(accounts, "latest")
    }

    fn nonces_at(&self, accounts: &[Address], when: &str) -> Result<Vec<u64>, RpcError> {
        self.of_each("eth_getTransactionCount", accounts, when)?
            .into_iter()
            .map(|nonce| nonce.try_into().map_err(|_| self.garbled("eth_getTransactionCount", "a nonce above 2^64")))
            .collect()
    }

    /// Returns the balance of each account, in wei.
    pub fn balances(&self, accounts: &[Address]) -> Result<Vec<U256>, RpcError> {
        self.of_each("eth_getBalance", accounts, "latest")
    }

    fn of_each(&self, method: &str, accounts: &[Address], when: &str) -> Result<Vec<U256>, RpcError> {
        let mut quantities = Vec::with_capacity(accounts.len());
        for chunk in accounts.chunks(500) {
            let params: Vec<_> = chunk.iter().map(|account| json!([account, when])).collect();
            for answer in self.batch::<Value>(method, &params)? {
                let value = answer.map_err(|refusal| refusal.into_error(method))?;
                let quantity = to_quantity(&value);
                quantities.push(quantity.ok_or_else(|| self.garbled(method, &format!("{value} is not a quantity")))?);
            }
        }
        Ok(quantities)
    }
}

/// Parses a quantity from JSON.
pub fn to_quantity(value: &Value) -> Option<U256> {
    U256::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: i64, message: &str) -> RpcError {
        Refusal { code, message: message.into(), data: None }.into_error("method")
    }

    #[test]
    fn error_messages_decide_about_retries() {
        let busy = refused(-32005, "too many requests");
        assert!(busy.may_pass() && !busy.may_be_too_long());
        let none = refused(-32600, "batches are not served");
        assert!(!none.may_pass() && none.may_be_too_long());
        assert!(refused(-32600, "batch too large").may_be_too_long());
        assert!(!Rpc::new("x", Duration::from_secs(1)).unwrap_err().may_pass());
        let rpc = Rpc::new("http://127.0.0.1:1", Duration::from_secs(1)).unwrap();
        assert!(rpc.garbled("method", "EOF").may_pass());
        let why = rpc.number("eth_chainId", &json!([])).unwrap_err();
        assert!(matches!(why, RpcError::Connection { .. }) && why.may_pass(), "{why}");
    }

    #[test]
    fn quantities_are_hexadecimal() {
        assert_eq!(to_quantity(&json!("0x1f")), Some(U256::from(31)));
        for wrong in [json!("31"), json!(31), json!(null), json!("0xg"), json!(format!("0x1{}", "0".repeat(64)))] {
            assert_eq!(to_quantity(&wrong), None, "{wrong}");
        }
    }
}
