//! JSON-RPC as a client: one question, a batch; and what Ethereum's nodes are asked, raw transactions among it.
//!
//! reads   answers over HTTP
//! writes  requests
//! memory  an answer, 256 MiB at most; a few kept connections
//! drops   nothing: whoever asks gets an answer or an [`RpcError`]
//! source  JSON-RPC 2.0; Ethereum's execution-apis

use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use ureq::Agent;

use super::refusal::Reason;

/// The longest answer: the receipts of a block of 500 thousand transfers are smaller.
const ANSWER_MAX: u64 = 256 << 20;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The address is no URL.
    #[error("`{0}` is no URL of a node's RPC: expected http://HOST:PORT or https://…")]
    Url(String),
    /// The connection, or the time, ran out.
    #[error("{url}: {why}")]
    Connection {
        /// Whom we asked.
        url: String,
        /// What went wrong.
        why: String,
    },
    /// An HTTP status other than success, as 429.
    #[error("{url} answers with HTTP status {status}")]
    Status {
        /// Whom we asked.
        url: String,
        /// The status.
        status: u16,
    },
    /// The answer is no answer to what was asked.
    #[error("{url} answers {method} with something else: {why}")]
    Garbled {
        /// Whom we asked.
        url: String,
        /// What was asked.
        method: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The node refuses, in its words.
    #[error("{method}: {message} ({code})")]
    Refused {
        /// What was asked.
        method: String,
        /// Its code.
        code: i64,
        /// Its words.
        message: String,
    },
}

impl RpcError {
    /// Whether the same question may have an answer later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Url(_) => false,
            Self::Connection { .. } | Self::Garbled { .. } => true,
            Self::Status { status, .. } => *status == 408 || *status == 429 || *status >= 500,
            Self::Refused { message, .. } => Reason::of(message) == Reason::Full,
        }
    }

    /// Whether a request with fewer questions may be answered: this one was too long.
    pub fn may_be_too_long(&self) -> bool {
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

/// An error object. Not every node fills both.
#[derive(Deserialize, Debug, Clone)]
pub struct Refusal {
    /// Its code.
    #[serde(default)]
    pub code: i64,
    /// Its words.
    #[serde(default)]
    pub message: String,
}

/// One answer, as it stands in the text.
#[derive(Deserialize)]
struct Answer<'a> {
    id: Option<u64>,
    /// `null` is a result: a transaction or a block that the node does not know.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    error: Option<Refusal>,
}

/// A field that is there, null included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A node's RPC. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Rpc {
    agent: Agent,
    url: String,
}

impl Rpc {
    /// The RPC at `url`; nothing is asked yet.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, RpcError> {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if rest.is_none_or(|host| host.is_empty() || host.starts_with('/')) {
            return Err(RpcError::Url(url.into()));
        }
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_idle_connections_per_host(64)
            .max_idle_connections(64)
            .build();
        Ok(Self { agent: config.new_agent(), url: url.into() })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request's body, and gives the answer's.
    pub fn post(&self, body: &[u8]) -> Result<Vec<u8>, RpcError> {
        let failed = |why: ureq::Error| RpcError::Connection { url: self.url.clone(), why: why.to_string() };
        let request = self.agent.post(&self.url).header("Content-Type", "application/json");
        let mut answer = request.send(body).map_err(failed)?;
        let text = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec().map_err(failed)?;
        match answer.status().as_u16() {
            200..=299 => Ok(text),
            // Some servers answer a refusal with a status of its own, and the JSON beside it.
            400 | 500 if text.first().is_some_and(|&byte| byte == b'{' || byte == b'[') => Ok(text),
            status => Err(RpcError::Status { url: self.url.clone(), status }),
        }
    }

    /// One question.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        self.call_as(method, params)
    }

    /// One question, whose answer has this shape.
    pub fn call_as<T: for<'de> Deserialize<'de>>(&self, method: &str, params: &Value) -> Result<T, RpcError> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let text = self.post(body.as_bytes())?;
        let answer: Answer<'_> = self.parse(method, &text)?;
        if answer.error.is_none() && answer.id != Some(1) {
            return Err(self.garbled(method, "an id that was not asked"));
        }
        let refused = |Refusal { code, message }| RpcError::Refused { method: method.into(), code, message };
        self.verdict(method, answer)?.map_err(refused)
    }

    /// Questions of one method in one request; answers in their order.
    pub fn batch<T: for<'de> Deserialize<'de>>(
        &self,
        method: &str,
        params: &[Value],
    ) -> Result<Vec<Result<T, Refusal>>, RpcError> {
        let questions = params.iter().enumerate();
        let body: Vec<_> = questions
            .map(|(id, params)| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .collect();
        let body = serde_json::to_vec(&body).expect("plain data");
        self.ordered(method, params.len(), &self.post(&body)?)
    }

    /// Sends raw transactions in one request; the node's verdict on each, in order.
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
        self.ordered(METHOD, transactions.len(), &self.post(&body)?)
    }

    /// The answers to questions 0 to `count`, put in order; each must be there once.
    fn ordered<T: for<'de> Deserialize<'de>>(
        &self,
        method: &str,
        count: usize,
        text: &[u8],
    ) -> Result<Vec<Result<T, Refusal>>, RpcError> {
        if text.trim_ascii_start().first() == Some(&b'{') {
            // One refusal for all of them.
            let answer: Answer<'_> = self.parse(method, text)?;
            let Refusal { code, message } =
                answer.error.ok_or_else(|| self.garbled(method, "one answer to a batch"))?;
            return Err(RpcError::Refused { method: method.into(), code, message });
        }
        let mut answers: Vec<Answer<'_>> = self.parse(method, text)?;
        // The same in a list, as geth has it.
        let is_refusal = |answer: &Answer<'_>| answer.result.is_none() && answer.error.is_some();
        if answers.len() < count && answers.iter().all(is_refusal) && !answers.is_empty() {
            let Refusal { code, message } = answers.swap_remove(0).error.expect("looked at above");
            return Err(RpcError::Refused { method: method.into(), code, message });
        }
        let mut ordered: Vec<Option<Result<T, Refusal>>> = (0..count).map(|_| None).collect();
        for answer in answers {
            let slot = answer.id.and_then(|id| ordered.get_mut(usize::try_from(id).ok()?));
            let slot =
                slot.filter(|slot| slot.is_none()).ok_or_else(|| self.garbled(method, "ids that were not asked"))?;
            *slot = Some(self.verdict(method, answer)?);
        }
        let whole: Option<Vec<_>> = ordered.into_iter().collect();
        whole.ok_or_else(|| self.garbled(method, "fewer answers than questions"))
    }

    /// What one answer says. Some servers put `null` beside an error: that is no result.
    fn verdict<T: for<'de> Deserialize<'de>>(
        &self,
        method: &str,
        answer: Answer<'_>,
    ) -> Result<Result<T, Refusal>, RpcError> {
        match (answer.result.map(RawValue::get), answer.error) {
            (None | Some("null"), Some(refusal)) => Ok(Err(refusal)),
            (Some(result), None) => self.parse(method, result.as_bytes()).map(Ok),
            _ => Err(self.garbled(method, "neither a result nor an error")),
        }
    }

    fn parse<'de, T: Deserialize<'de>>(&self, method: &str, text: &'de [u8]) -> Result<T, RpcError> {
        serde_json::from_slice(text).map_err(|why| self.garbled(method, &why.to_string()))
    }

    /// An answer that is none.
    pub(super) fn garbled(&self, method: &str, why: &str) -> RpcError {
        RpcError::Garbled { url: self.url.clone(), method: method.into(), why: why.into() }
    }

    /// A number, as `"0x1f"`.
    pub fn quantity(&self, method: &str, params: &Value) -> Result<U256, RpcError> {
        let value = self.call(method, params)?;
        to_quantity(&value).ok_or_else(|| self.garbled(method, &format!("{value} is no quantity")))
    }

    /// A number that fits 64 bits.
    pub fn number(&self, method: &str, params: &Value) -> Result<u64, RpcError> {
        let value = self.quantity(method, params)?;
        value.try_into().map_err(|_| self.garbled(method, &format!("{value} is too large")))
    }

    /// The next nonce of each account, with what waits in the pool.
    pub fn nonces(&self, accounts: &[Address]) -> Result<Vec<u64>, RpcError> {
        self.nonces_at(accounts, "pending")
    }

    /// The next nonce of each account, of what is in blocks alone.
    pub fn mined_nonces(&self, accounts: &[Address]) -> Result<Vec<u64>, RpcError> {
        self.nonces_at(accounts, "latest")
    }

    fn nonces_at(&self, accounts: &[Address], when: &str) -> Result<Vec<u64>, RpcError> {
        self.of_each("eth_getTransactionCount", accounts, when)?
            .into_iter()
            .map(|nonce| nonce.try_into().map_err(|_| self.garbled("eth_getTransactionCount", "a nonce above 2^64")))
            .collect()
    }

    /// The balance of each account, in wei.
    pub fn balances(&self, accounts: &[Address]) -> Result<Vec<U256>, RpcError> {
        self.of_each("eth_getBalance", accounts, "latest")
    }

    fn of_each(&self, method: &str, accounts: &[Address], when: &str) -> Result<Vec<U256>, RpcError> {
        let mut quantities = Vec::with_capacity(accounts.len());
        for chunk in accounts.chunks(500) {
            let params: Vec<_> = chunk.iter().map(|account| json!([account, when])).collect();
            for answer in self.batch::<Value>(method, &params)? {
                let value = answer.map_err(|Refusal { code, message }| RpcError::Refused {
                    method: method.into(),
                    code,
                    message,
                })?;
                let quantity = to_quantity(&value);
                quantities.push(quantity.ok_or_else(|| self.garbled(method, &format!("{value} is no quantity")))?);
            }
        }
        Ok(quantities)
    }
}

/// A quantity out of JSON.
pub fn to_quantity(value: &Value) -> Option<U256> {
    U256::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rpc() -> Rpc {
        Rpc::new("http://127.0.0.1:1", Duration::from_secs(1)).unwrap()
    }

    /// The answers to two questions.
    fn ordered(text: &str) -> Result<Vec<Result<u64, String>>, RpcError> {
        let answers = rpc().ordered("method", 2, text.as_bytes())?;
        Ok(answers.into_iter().map(|answer| answer.map_err(|refusal| refusal.message)).collect())
    }

    #[test]
    fn answers_come_in_the_order_of_the_questions() {
        let text = r#" [{"id":1,"result":7,"error":null},{"id":0,"result":null,"error":{"message":"no"}}]"#;
        assert_eq!(ordered(text).unwrap(), [Err("no".to_owned()), Ok(7)]);
    }

    #[test]
    fn what_is_no_answer_is_told() {
        for (text, wrong) in [
            ("", "EOF"),
            (r#"[{"id":0,"result":1},{"id":1,"res"#, "EOF"),
            (r#"[{"id":0,"result":1}]"#, "fewer answers than questions"),
            (r#"[{"id":0,"result":1},{"id":0,"result":1}]"#, "ids that were not asked"),
            (r#"[{"id":0,"result":1},{"id":2,"result":1}]"#, "ids that were not asked"),
            (r#"[{"id":0,"result":1},{"result":1}]"#, "ids that were not asked"),
            (r#"[{"id":0,"result":1},{"id":1}]"#, "neither a result nor an error"),
            (r#"[{"id":0,"result":1},{"id":1,"result":1,"error":{"code":1}}]"#, "neither a result nor an error"),
            (r#"[{"id":0,"result":1},{"id":1,"result":"x"}]"#, "invalid type"),
            (r#"{"id":0,"result":1}"#, "one answer to a batch"),
        ] {
            let why = ordered(text).unwrap_err();
            assert!(matches!(&why, RpcError::Garbled { why, .. } if why.contains(wrong)), "{text}: {why}");
            assert!(why.may_pass());
        }
    }

    #[test]
    fn one_refusal_may_be_for_all() {
        let why = ordered(r#"{"id":null,"error":{"code":-32005,"message":"too many requests"}}"#).unwrap_err();
        assert!(matches!(why, RpcError::Refused { code: -32005, .. }) && why.may_pass(), "{why}");
        assert!(!why.may_be_too_long());
        let why = ordered(r#"{"error":{"code":-32600,"message":"batches are not served"}}"#).unwrap_err();
        assert!(!why.may_pass() && why.may_be_too_long(), "{why}");
        let why = ordered(r#"[{"id":0,"error":{"code":-32600,"message":"batch too large"}}]"#).unwrap_err();
        assert!(why.may_be_too_long() && why.to_string().contains("batch too large"), "{why}");
    }

    #[test]
    fn only_urls_are_asked() {
        for wrong in ["", "127.0.0.1:8545", "http://", "http:///x", "ws://127.0.0.1"] {
            assert!(matches!(Rpc::new(wrong, Duration::from_secs(1)), Err(RpcError::Url(_))), "{wrong}");
        }
        let why = rpc().number("eth_chainId", &json!([])).unwrap_err();
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
