//! The client: a question or a batch in a request, and the answers in the questions' order.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Uri;

use crate::answer::Answer;
use crate::http::{self, Patience};
use crate::{Refusal, RpcError};

/// Settings of a client: timeouts, sizes, allowed schemes.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long an answer is waited for.
    pub patience: Patience,
    /// The longest answer, bytes.
    pub answer_max: u64,
    /// Whether a proxy that the environment names is used.
    pub by_environment: bool,
    /// Whether https:// is allowed too; needs the feature `tls`.
    pub https: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            patience: Patience::Step(Duration::from_secs(10)),
            answer_max: 64 << 20,
            by_environment: false,
            https: false,
        }
    }
}

/// A client of a node's RPC. Clones share their connections.
///
/// ```
/// use hearth_rpc_client::{Options, RpcClient, RpcError};
///
/// let node = RpcClient::new("http://127.0.0.1:1", &Options::default())?;
/// // Nothing listens there.
/// let answer = node.call("getSlot", &serde_json::json!([]));
/// assert!(matches!(answer, Err(RpcError::Connection { .. })));
/// # Ok::<(), RpcError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RpcClient {
    agent: Agent,
    url: String,
    answer_max: u64,
}

impl RpcClient {
    /// Creates a client for the RPC at `url`, without connecting.
    pub fn new(url: &str, options: &Options) -> Result<Self, RpcError> {
        let Options { patience, answer_max, by_environment, https } = *options;
        if host_and_port(url).is_none() || url.starts_with("https:") && !https {
            let expected = if https { "http://HOST:PORT or https://…" } else { "http://HOST:PORT" };
            return Err(RpcError::Url { url: url.into(), expected });
        }
        let agent = if by_environment { http::by_environment(patience) } else { http::direct(patience) };
        Ok(Self { agent, url: url.into(), answer_max })
    }

    /// URL of the RPC.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The first address of its host, with its port.
    pub fn address(&self) -> Result<SocketAddr, RpcError> {
        let none = || RpcError::Host(self.url.clone());
        let found = host_and_port(&self.url).ok_or_else(none)?.to_socket_addrs();
        found.ok().and_then(|mut found| found.next()).ok_or_else(none)
    }

    /// Sends a request's body; returns the status and the body of the answer, whatever they are.
    pub fn exchange(&self, body: &[u8]) -> Result<(u16, Vec<u8>), RpcError> {
        let failed = |error: ureq::Error| RpcError::Connection { url: self.url.clone(), why: http::why(&error) };
        let request = self.agent.post(&self.url).header("Content-Type", "application/json");
        let mut answer = request.send(body).map_err(failed)?;
        let text = answer.body_mut().with_config().limit(self.answer_max).read_to_vec().map_err(failed)?;
        Ok((answer.status().as_u16(), text))
    }

    /// Sends a request's body, and gives the answer's.
    fn post(&self, body: &[u8]) -> Result<Vec<u8>, RpcError> {
        let (status, text) = self.exchange(body)?;
        match status {
            200..=299 => Ok(text),
            // Some servers send an error with its own HTTP status, along with the JSON.
            400 | 500 if text.first().is_some_and(|&byte| byte == b'{' || byte == b'[') => Ok(text),
            status => Err(RpcError::Status { url: self.url.clone(), status }),
        }
    }

    /// Sends one request, and returns the result as JSON.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        self.call_as(method, params)
    }

    /// Sends one request, and decodes the result.
    pub fn call_as<T: for<'de> Deserialize<'de>>(&self, method: &str, params: &Value) -> Result<T, RpcError> {
        let text = self.post(question(1, method, params).to_string().as_bytes())?;
        let answer: Answer<'_> = self.parse(method, &text)?;
        if answer.error.is_none() && answer.id != Some(1) {
            return Err(self.garbled(method, "an id that was not asked"));
        }
        self.verdict(method, answer)?.map_err(|refusal| refusal.into_error(method))
    }

    /// Sends several requests of one method as a batch; returns the answers in the same order.
    pub fn batch<T: for<'de> Deserialize<'de>>(
        &self,
        method: &str,
        params: &[Value],
    ) -> Result<Vec<Result<T, Refusal>>, RpcError> {
        let questions = params.iter().enumerate();
        let body: Vec<_> = questions.map(|(id, params)| question(id, method, params)).collect();
        self.send_batch(method, params.len(), &serde_json::to_vec(&body).expect("plain data"))
    }

    /// The same for a request that the caller has written: `count` questions with ids from 0.
    pub fn send_batch<T: for<'de> Deserialize<'de>>(
        &self,
        method: &str,
        count: usize,
        body: &[u8],
    ) -> Result<Vec<Result<T, Refusal>>, RpcError> {
        self.ordered(method, count, &self.post(body)?)
    }

    /// Returns the answers to requests 0 to `count` in order; each must be there exactly once.
    pub(crate) fn ordered<T: for<'de> Deserialize<'de>>(
        &self,
        method: &str,
        count: usize,
        text: &[u8],
    ) -> Result<Vec<Result<T, Refusal>>, RpcError> {
        if text.trim_ascii_start().first() == Some(&b'{') {
            // One error for the whole batch.
            let answer: Answer<'_> = self.parse(method, text)?;
            let refusal = answer.error.ok_or_else(|| self.garbled(method, "one answer to a batch"))?;
            return Err(refusal.into_error(method));
        }
        let mut answers: Vec<Answer<'_>> = self.parse(method, text)?;
        // The same within a list, as from geth.
        if answers.len() < count && answers.iter().all(Answer::is_refusal) && !answers.is_empty() {
            let refusal = answers.swap_remove(0).error.expect("looked at above");
            return Err(refusal.into_error(method));
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

    fn verdict<T: for<'de> Deserialize<'de>>(
        &self,
        method: &str,
        answer: Answer<'_>,
    ) -> Result<Result<T, Refusal>, RpcError> {
        match answer.verdict() {
            Some(Ok(result)) => self.parse(method, result.as_bytes()).map(Ok),
            Some(Err(refusal)) => Ok(Err(refusal)),
            None => Err(self.garbled(method, "neither a result nor an error")),
        }
    }

    fn parse<'de, T: Deserialize<'de>>(&self, method: &str, text: &'de [u8]) -> Result<T, RpcError> {
        serde_json::from_slice(text).map_err(|why| self.garbled(method, &why.to_string()))
    }

    /// Returns the error for an invalid answer.
    pub fn garbled(&self, method: &str, why: &str) -> RpcError {
        RpcError::Garbled { url: self.url.clone(), method: method.into(), why: why.into() }
    }
}

fn question(id: usize, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// `host:port` of a URL of HTTP.
fn host_and_port(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let port = match uri.scheme_str()? {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let host = uri.host().filter(|host| !host.is_empty())?;
    Some(format!("{host}:{}", uri.port_u16().unwrap_or(port)))
}
