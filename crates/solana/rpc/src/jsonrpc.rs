//! JSON-RPC as the cluster's nodes speak it: their error codes, responses and notifications.
//!
//! memory  the parameters as a tree of values
//! source  `custom_error.rs` of `solana-rpc-client-api` for the codes from -32100 up

use hearth_serve::jsonrpc::{
    self, Bounds, Call, Dialect, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND,
    Malformed, PARSE_ERROR,
};
use serde_json::{Value, json};

use crate::config::Limits;

pub use hearth_serve::jsonrpc::kind;

/// HTTP's status code for an exceeded rate, which clients expect as the JSON-RPC code too.
pub const TOO_MANY_REQUESTS: i64 = 429;
const UNHEALTHY: i64 = -32005;
/// Prefix of every message about parameters.
const WRONG_PARAMS: &str = "Invalid params: ";

/// A JSON-RPC error as the client receives it.
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

    /// The JSON-RPC error code.
    #[cfg(test)]
    pub fn code(&self) -> i64 {
        self.0.code()
    }

    #[cfg(test)]
    pub fn message(&self) -> &str {
        self.0.message()
    }

    /// Prepends the path of the enclosing value to the message of a [`Failure::invalid_params`] error.
    pub fn within(self, place: &str) -> Self {
        let message = self.0.message().strip_prefix(WRONG_PARAMS).unwrap_or(self.0.message());
        Self::invalid_params(format!("{place}: {message}"))
    }

    /// Whether the error says that the node is unhealthy, not that the request is faulty.
    pub fn is_unhealthy(&self) -> bool {
        self.0.code() == UNHEALTHY
    }

    fn with_data(self, data: Value) -> Self {
        Self(self.0.with_data(data.to_string()))
    }

    /// The text is not JSON.
    pub fn parse(message: impl std::fmt::Display) -> Self {
        Self::new(PARSE_ERROR, format!("Parse error: {message}"))
    }

    /// The JSON is not a valid request.
    pub fn invalid_request(message: impl std::fmt::Display) -> Self {
        Self::new(INVALID_REQUEST, format!("Invalid request: {message}"))
    }

    /// The method does not exist.
    pub fn method_not_found(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {shown}"))
    }

    /// The parameters are invalid.
    pub fn invalid_params(message: impl std::fmt::Display) -> Self {
        Self::new(INVALID_PARAMS, format!("{WRONG_PARAMS}{message}"))
    }

    /// The parameters are well-formed but refused. The client gets `message`, which is Agave's, without a prefix.
    pub fn refused_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// The method is reserved for the node's owner.
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

    /// The request is valid but cannot be served at this moment.
    pub fn not_now(why: impl Into<String>) -> Self {
        Self::new(-32041, why)
    }

    /// The node failed internally.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(INTERNAL_ERROR, format!("Internal error: {message}"))
    }

    /// The node cannot read its storage: the client gets `reason` and a number, the log gets the whole error.
    pub fn stored(reason: &str, error: impl std::fmt::Display) -> Self {
        Self::internal(hearth_serve::fault::report(reason, &error))
    }

    /// The same message as an internal error.
    pub fn into_internal(self) -> Self {
        Self::internal(self.0.message())
    }

    /// The preflight simulation failed; `data` is the simulation's result.
    pub fn preflight(message: impl std::fmt::Display, data: Value) -> Self {
        Self::new(-32002, format!("Transaction simulation failed: {message}")).with_data(data)
    }

    /// The block has been pruned.
    pub fn cleaned_up(slot: u64, first_available: u64) -> Self {
        let message =
            format!("Block {slot} cleaned up, does not exist on node. First available block: {first_available}");
        Self::new(-32001, message)
    }

    /// The block does not exist yet, or never will.
    pub fn no_block(slot: u64) -> Self {
        Self::new(-32004, format!("Block not available for slot {slot}"))
    }

    /// The rewards of an epoch are still being distributed at this slot and height, and until `complete_height`.
    pub fn rewards_active(slot: u64, height: u64, complete_height: u64) -> Self {
        Self::new(-32017, format!("Epoch rewards period still active at slot {slot}")).with_data(json!({
            "currentBlockHeight": height,
            "rewardsCompleteBlockHeight": complete_height,
            "slot": slot,
        }))
    }

    /// The node lacks the first block of the epoch: the oldest one that it has is at `slot`.
    pub fn not_a_boundary(slot: u64) -> Self {
        let message = format!(
            "Rewards cannot be found because slot {slot} is not the epoch boundary. This may be due to gap in the \
             queried node's local ledger or long-term storage"
        );
        Self::new(-32018, message).with_data(json!({ "slot": slot }))
    }

    /// The slot was skipped.
    pub fn skipped(slot: u64) -> Self {
        Self::new(-32007, format!("Slot {slot} was skipped, or missing due to ledger jump to recent snapshot"))
    }

    /// The block exists, but this node has no statuses for its transactions, or not yet.
    pub fn status_not_yet(slot: u64) -> Self {
        Self::new(-32014, format!("Block status not yet available for slot {slot}"))
    }

    /// The transaction has a version that the client has not declared to support.
    pub fn unsupported_version(version: u8) -> Self {
        let message = format!(
            "Transaction version ({version}) is not supported by the requesting client. Please try the request again \
             with the following configuration parameter: \"maxSupportedTransactionVersion\": {version}"
        );
        Self::new(-32015, message)
    }

    /// The transaction that bounds a list is unknown.
    pub fn filter_not_found(signature: &str) -> Self {
        Self::new(-32020, format!("Transaction {signature} not found"))
    }

    /// The node has no snapshot.
    pub fn no_snapshot() -> Self {
        Self::new(-32008, "No snapshot")
    }

    /// The chain has no slot history.
    pub fn no_slot_history() -> Self {
        Self::new(-32021, "No slot history")
    }

    /// A scan over all accounts found more than fits into a response.
    pub fn scan(message: impl std::fmt::Display) -> Self {
        Self::new(-32012, message.to_string())
    }

    /// The node is unhealthy. The message is Agave's; the data has `reason`.
    pub fn unhealthy(reason: impl std::fmt::Display, slots_behind: Option<u64>) -> Self {
        let message = match slots_behind {
            Some(behind) => format!("Node is behind by {behind} slots"),
            None => "Node is unhealthy".into(),
        };
        let data = json!({ "numSlotsBehind": slots_behind, "reason": reason.to_string() });
        Self::new(UNHEALTHY, message).with_data(data)
    }

    /// The node keeps no transaction history.
    pub fn no_history() -> Self {
        Self::new(
            -32011,
            "Transaction history is not available from this node: it is switched off in the node's configuration \
             ([rpc] transaction_history, [development.bench] disable_status_cache)",
        )
    }

    /// The node has not reached the request's `minContextSlot`.
    pub fn before_min_context_slot(slot: u64) -> Self {
        Self::new(-32016, "Minimum context slot has not been reached").with_data(json!({ "contextSlot": slot }))
    }

    /// An address exceeds its rate; the same error as from the cluster's public nodes.
    pub fn too_many_requests(per_second: u32) -> Self {
        let message = format!("Too many requests: an address may make {per_second} in a second");
        Self::new(TOO_MANY_REQUESTS, message)
    }
}

/// A request whose envelope is valid. Its parameters are not checked yet.
pub struct Request<'a> {
    /// Name of the method.
    pub method: &'a str,
    /// The `params` member, of any JSON type; `None` if the request has none.
    pub params: Option<&'a Value>,
}

/// Parses the parameters of a call.
pub fn params(call: &Call<'_>) -> Result<Option<Value>, Failure> {
    call.params.map(|params| serde_json::from_str(params.get()).map_err(Failure::parse)).transpose()
}

/// The bounds on an answer. The length of a batch is checked by `Answerer::admit`, whose error names the number of
/// requests.
pub fn answer_bounds(limits: &Limits) -> Bounds {
    let answer_bytes = limits.answer_bytes;
    Bounds { batch_read: usize::MAX, batch_bytes: answer_bytes, answer_bytes }
}

/// Formats the notification of `result` to a subscription, as JSON text.
pub fn notification(method: &str, result: &Value, subscription: u64) -> String {
    jsonrpc::notification(method, &format!(r#"{{"result":{result},"subscription":{subscription}}}"#))
}
