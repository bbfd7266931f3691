//! JSON-RPC 2.0: one request or a batch, and their answers.
//!
//! reads   the text of a request
//! writes  the text of an answer; nothing for notifications
//! memory  the request as a tree of values; the answer, at most [`Limits::answer_bytes`](crate::Limits)
//! drops   what is no request: errors -32700 and -32600; what is one too many: error 429; counted
//! source  jsonrpc.org/specification; the codes above -32100 from `custom_error.rs` of `solana-rpc-client-api`

use serde_json::{Map, Value, json};

use crate::counters::{Counters, count};

/// The number that clients know from HTTP.
const TOO_MANY_REQUESTS: i64 = 429;

/// An error as it goes to the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    code: i64,
    message: String,
    data: Option<Value>,
}

const UNHEALTHY: i64 = -32005;
/// What every message about parameters begins with.
const INVALID_PARAMS: &str = "Invalid params: ";

impl Failure {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Its number.
    #[cfg(test)]
    pub fn code(&self) -> i64 {
        self.code
    }

    /// Its words.
    #[cfg(test)]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A failure of [`Failure::invalid_params`] of a value that lies within another.
    pub fn within(self, place: &str) -> Self {
        let message = self.message.strip_prefix(INVALID_PARAMS).unwrap_or(&self.message);
        Self::invalid_params(format!("{place}: {message}"))
    }

    /// Whether the node is unwell, and the request not at fault.
    pub fn is_unhealthy(&self) -> bool {
        self.code == UNHEALTHY
    }

    fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// The text is no JSON.
    pub fn parse(message: impl std::fmt::Display) -> Self {
        Self::new(-32700, format!("Parse error: {message}"))
    }

    /// The JSON is no request, or asks for what cannot be.
    pub fn invalid_request(message: impl std::fmt::Display) -> Self {
        Self::new(-32600, format!("Invalid request: {message}"))
    }

    /// There is no such method.
    pub fn method_not_found(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        Self::new(-32601, format!("Method not found: {shown}"))
    }

    /// The parameters are wrong.
    pub fn invalid_params(message: impl std::fmt::Display) -> Self {
        Self::new(-32602, format!("{INVALID_PARAMS}{message}"))
    }

    /// Only the node's owner may ask for it.
    pub fn forbidden(method: &str, has_token: bool) -> Self {
        let who = match has_token {
            true => "with the node's `rpc.admin_token` as `token`",
            false => {
                "from a program on a loopback address and by such a `Host`, no web page (`Origin`); or with a token, where \
                 the node has `rpc.admin_token`"
            }
        };
        Self::new(-32040, format!("{method} is for the node's owner: {who}"))
    }

    /// It can be done at another time.
    pub fn not_now(why: impl Into<String>) -> Self {
        Self::new(-32041, why)
    }

    /// The node is at fault.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(-32603, format!("Internal error: {message}"))
    }

    /// The node cannot read what it has stored: the client gets `reason` and a number, the log gets the whole error.
    pub fn stored(reason: &str, error: impl std::fmt::Display) -> Self {
        Self::internal(hearth_serve::fault::report(reason, &error))
    }

    /// The same reason, as the node's own fault.
    pub fn into_internal(self) -> Self {
        Self::internal(self.message)
    }

    /// A simulation refused the transaction; `data` says what became of it there.
    pub fn preflight(message: impl std::fmt::Display, data: Value) -> Self {
        Self::new(-32002, format!("Transaction simulation failed: {message}")).with_data(data)
    }

    /// The block is no longer kept.
    pub fn cleaned_up(slot: u64, first_available: u64) -> Self {
        let message =
            format!("Block {slot} cleaned up, does not exist on node. First available block: {first_available}");
        Self::new(-32001, message)
    }

    /// The block is not there yet, or never will be.
    pub fn no_block(slot: u64) -> Self {
        Self::new(-32004, format!("Block not available for slot {slot}"))
    }

    /// The slot has no block.
    pub fn skipped(slot: u64) -> Self {
        Self::new(-32007, format!("Slot {slot} was skipped, or missing due to ledger jump to recent snapshot"))
    }

    /// The block is there, what became of its transactions is not known here, or not yet.
    pub fn status_not_yet(slot: u64) -> Self {
        Self::new(-32014, format!("Block status not yet available for slot {slot}"))
    }

    /// The transaction is of a version that the client has not said it reads.
    pub fn unsupported_version(version: u8) -> Self {
        let message = format!(
            "Transaction version ({version}) is not supported by the requesting client. Please try the request again \
             with the following configuration parameter: \"maxSupportedTransactionVersion\": {version}"
        );
        Self::new(-32015, message)
    }

    /// The transaction that bounds a list is not known.
    pub fn filter_not_found(signature: &str) -> Self {
        Self::new(-32020, format!("Transaction {signature} not found"))
    }

    /// The node has written no snapshot.
    pub fn no_snapshot() -> Self {
        Self::new(-32008, "No snapshot")
    }

    /// The chain keeps no record of which slots have blocks.
    pub fn no_slot_history() -> Self {
        Self::new(-32021, "No slot history")
    }

    /// A walk over all accounts found more than fits an answer.
    pub fn scan(message: impl std::fmt::Display) -> Self {
        Self::new(-32012, message.to_string())
    }

    /// The node cannot serve now.
    pub fn unhealthy(message: impl std::fmt::Display, slots_behind: Option<u64>) -> Self {
        Self::new(UNHEALTHY, format!("Node is unhealthy: {message}"))
            .with_data(json!({ "numSlotsBehind": slots_behind }))
    }

    /// The node keeps no statuses.
    pub fn no_history() -> Self {
        Self::new(
            -32011,
            "Transaction history is not available from this node: it is switched off in the node's configuration \
             ([rpc] transaction_history, [development.bench] disable_status_cache)",
        )
    }

    /// The node has not come to the slot that the client wants to be served from.
    pub fn before_min_context_slot(slot: u64) -> Self {
        Self::new(-32016, "Minimum context slot has not been reached").with_data(json!({ "contextSlot": slot }))
    }

    /// An address asks more often than it may: what the public nodes of the cluster answer.
    pub fn too_many_requests(per_second: u32) -> Self {
        let message = format!("Too many requests: an address may make {per_second} in a second");
        Self::new(TOO_MANY_REQUESTS, message)
    }

    fn into_value(self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = self.data {
            error["data"] = data;
        }
        error
    }
}

/// A request that has the form of one.
pub struct Request<'a> {
    /// The method's name.
    pub method: &'a str,
    /// Its parameters as they stand.
    pub params: Option<&'a Value>,
}

/// What answers requests, one at a time.
pub trait Answerer {
    /// Whether so many requests may be made now.
    fn admit(&mut self, requests: usize) -> Result<(), Failure>;

    /// The result of one request.
    fn answer(&mut self, request: Request<'_>) -> impl Future<Output = Result<Value, Failure>> + Send;
}

/// An answer as it goes to the client.
pub struct Answer {
    /// Its text; `None` when nothing wanted an answer.
    pub text: Option<String>,
    /// Whether the client asks more often than it may.
    pub limited: bool,
}

impl From<Option<String>> for Answer {
    fn from(text: Option<String>) -> Self {
        Self { text, limited: false }
    }
}

/// Answers a text: a request or a batch.
pub async fn answer_text<A: Answerer + Send>(
    text: &[u8],
    answer_bytes: usize,
    counters: &Counters,
    answerer: &mut A,
) -> Answer {
    let value: Value = match serde_json::from_slice(text) {
        Ok(value) => value,
        Err(error) => return Some(refusal(counters, Failure::parse(error))).into(),
    };
    let requests = value.as_array().map_or(1, Vec::len);
    if let Err(failure) = answerer.admit(requests) {
        let limited = failure.code == TOO_MANY_REQUESTS;
        return Answer { text: Some(refusal(counters, failure)), limited };
    }
    let Value::Array(batch) = value else {
        return answer_one(&value, answer_bytes, counters, answerer).await.into();
    };
    if batch.is_empty() {
        return Some(refusal(counters, Failure::invalid_request("an empty batch"))).into();
    }
    let mut answers = String::new();
    for value in &batch {
        let room = answer_bytes.saturating_sub(answers.len());
        if let Some(answer) = answer_one(value, room, counters, answerer).await {
            answers.push(if answers.is_empty() { '[' } else { ',' });
            answers.push_str(&answer);
        }
    }
    (!answers.is_empty()).then(|| answers + "]").into()
}

fn refusal(counters: &Counters, failure: Failure) -> String {
    count(counters.requests());
    count(counters.errors());
    text_of(Err(failure), &Value::Null)
}

async fn answer_one<A: Answerer + Send>(
    value: &Value,
    room: usize,
    counters: &Counters,
    answerer: &mut A,
) -> Option<String> {
    count(counters.requests());
    let (id, result) = match read(value) {
        // Nobody can tell whether an answer was wanted.
        Err(failure) => (value.get("id").filter(|id| is_id(id)).or(Some(&Value::Null)), Err(failure)),
        Ok((id, request)) => (id, answerer.answer(request).await),
    };
    if result.is_err() {
        count(counters.errors());
    }
    // Whoever gives no id wants no answer.
    let id = id?;
    let text = text_of(result, id);
    if text.len() <= room {
        return Some(text);
    }
    count(counters.errors());
    let over = text.len() - room;
    let message = format!("the answer would be {over} bytes longer than is allowed: ask for less at a time");
    Some(text_of(Err(Failure::internal(message)), id))
}

fn is_id(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Number(_) | Value::String(_))
}

/// The id and the request in a value.
fn read(value: &Value) -> Result<(Option<&Value>, Request<'_>), Failure> {
    let Value::Object(object) = value else {
        return Err(Failure::invalid_request(format!("expected an object, found {}", kind(value))));
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(Failure::invalid_request("the key \"jsonrpc\" must be \"2.0\""));
    }
    let id = object.get("id");
    if id.is_some_and(|id| !is_id(id)) {
        return Err(Failure::invalid_request("the id must be a number, a string or null"));
    }
    match object.get("method") {
        Some(Value::String(method)) => Ok((id, Request { method, params: object.get("params") })),
        _ => Err(Failure::invalid_request("the key \"method\" must be a string")),
    }
}

/// What a value is, in words.
pub fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::String(text) if text.len() <= 40 => format!("{text:?}"),
        Value::String(text) => format!("a string of {} bytes", text.len()),
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// An answer's text, keys in the order in which the cluster writes them.
fn text_of(result: Result<Value, Failure>, id: &Value) -> String {
    let (key, value) = match result {
        Ok(value) => ("result", value),
        Err(failure) => ("error", failure.into_value()),
    };
    format!(r#"{{"jsonrpc":"2.0","{key}":{value},"id":{id}}}"#)
}

/// The text of a notification.
pub fn notification(method: &str, result: &Value, subscription: u64) -> String {
    let mut params = Map::new();
    params.insert("result".into(), result.clone());
    params.insert("subscription".into(), subscription.into());
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{}}}"#, Value::Object(params))
}
