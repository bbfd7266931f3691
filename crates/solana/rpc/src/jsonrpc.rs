//! JSON-RPC as the cluster's nodes speak it: their errors, their form of an answer and of a notification.
//!
//! reads   the parameters of a call
//! writes  errors; texts of notifications
//! memory  the parameters as a tree of values
//! source  `custom_error.rs` of `solana-rpc-client-api` for the codes from -32100 up

use hearth_serve::jsonrpc::{
    self, Bounds, Call, Dialect, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND,
    Malformed, PARSE_ERROR,
};
use serde_json::{Value, json};

use crate::config::Limits;

pub use hearth_serve::jsonrpc::kind;

/// The number that clients know from HTTP.
pub const TOO_MANY_REQUESTS: i64 = 429;
const UNHEALTHY: i64 = -32005;
/// What every message about parameters begins with.
const WRONG_PARAMS: &str = "Invalid params: ";

/// An error as it goes to the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure(ErrorObject);

impl From<Failure> for ErrorObject {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

impl Dialect for Failure {
    const ID_FIRST: bool = false;
    const BOOLEAN_IDS: bool = false;
    const REFUSALS_HAVE_IDS: bool = false;
    const STOPS_WHEN_FULL: bool = false;

    fn malformed(why: Malformed<'_>) -> Self {
        match why {
            Malformed::NotJson(why) => Self::parse(why),
            why => Self::invalid_request(why),
        }
    }

    fn too_long(over: usize) -> Self {
        Self::internal(format!("the answer would be {over} bytes longer than is allowed: ask for less at a time"))
    }
}

impl Failure {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self(ErrorObject::new(code, message))
    }

    /// Its number.
    #[cfg(test)]
    pub fn code(&self) -> i64 {
        self.0.code()
    }

    /// Its words.
    #[cfg(test)]
    pub fn message(&self) -> &str {
        self.0.message()
    }

    /// A failure of [`Failure::invalid_params`] of a value that lies within another.
    pub fn within(self, place: &str) -> Self {
        let message = self.0.message().strip_prefix(WRONG_PARAMS).unwrap_or(self.0.message());
        Self::invalid_params(format!("{place}: {message}"))
    }

    /// Whether the node is unwell, and the request not at fault.
    pub fn is_unhealthy(&self) -> bool {
        self.0.code() == UNHEALTHY
    }

    fn with_data(self, data: Value) -> Self {
        Self(self.0.with_data(data.to_string()))
    }

    /// The text is no JSON.
    pub fn parse(message: impl std::fmt::Display) -> Self {
        Self::new(PARSE_ERROR, format!("Parse error: {message}"))
    }

    /// The JSON is no request, or asks for what cannot be.
    pub fn invalid_request(message: impl std::fmt::Display) -> Self {
        Self::new(INVALID_REQUEST, format!("Invalid request: {message}"))
    }

    /// There is no such method.
    pub fn method_not_found(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {shown}"))
    }

    /// The parameters are wrong.
    pub fn invalid_params(message: impl std::fmt::Display) -> Self {
        Self::new(INVALID_PARAMS, format!("{WRONG_PARAMS}{message}"))
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
        Self::new(INTERNAL_ERROR, format!("Internal error: {message}"))
    }

    /// The node cannot read what it has stored: the client gets `reason` and a number, the log gets the whole error.
    pub fn stored(reason: &str, error: impl std::fmt::Display) -> Self {
        Self::internal(hearth_serve::fault::report(reason, &error))
    }

    /// The same reason, as the node's own fault.
    pub fn into_internal(self) -> Self {
        Self::internal(self.0.message())
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
}

/// A request that has the form of one.
pub struct Request<'a> {
    /// The method's name.
    pub method: &'a str,
    /// Its parameters as they stand.
    pub params: Option<&'a Value>,
}

/// Reads the parameters of a call.
pub fn params(call: &Call<'_>) -> Result<Option<Value>, Failure> {
    call.params.map(|params| serde_json::from_str(params.get()).map_err(Failure::parse)).transpose()
}

/// What bounds an answer. How long a batch may be the answerer says, which names the number of requests.
pub fn answer_bounds(limits: &Limits) -> Bounds {
    let answer_bytes = limits.answer_bytes;
    Bounds { batch_read: usize::MAX, batch_bytes: answer_bytes, answer_bytes }
}

/// The text of a notification.
pub fn notification(method: &str, result: &Value, subscription: u64) -> String {
    jsonrpc::notification(method, &format!(r#"{{"result":{result},"subscription":{subscription}}}"#))
}
