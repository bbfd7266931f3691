//! Errors as they go to the client: geth's numbers and words, which clients read.
//!
//! memory  the message; the data of a revert
//! source  the error codes of `rpc/errors.go` and `internal/ethapi/errors.go` of go-ethereum 1.16

use alloy_primitives::U256;
use hearth_evm::chain::{ChainError, SubmitError};
use hearth_serve::jsonrpc::{
    Dialect, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Malformed, PARSE_ERROR,
};

use crate::json;

/// A JSON-RPC error for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(ErrorObject);

impl From<Failure> for ErrorObject {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

impl Dialect for Failure {
    const ID_FIRST: bool = true;
    const BOOLEAN_IDS: bool = true;
    const REFUSALS_HAVE_IDS: bool = true;
    const STOPS_WHEN_FULL: bool = true;

    fn malformed(why: Malformed<'_>) -> Self {
        match why {
            Malformed::NotJson(_) => Self::new(PARSE_ERROR, "parse error"),
            Malformed::EmptyBatch => Self::invalid_request("empty batch"),
            _ => Self::invalid_request("invalid request"),
        }
    }

    fn too_long(_: usize) -> Self {
        Self::too_large()
    }
}

impl Failure {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self(ErrorObject::new(code, message))
    }

    fn with_data(self, data: String) -> Self {
        Self(self.0.with_data(data))
    }

    /// Returns the error code.
    #[cfg(test)]
    pub fn code(&self) -> i64 {
        self.0.code()
    }

    /// Returns the error message.
    pub fn message(&self) -> &str {
        self.0.message()
    }

    /// The JSON is no JSON-RPC request.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    /// There is no such method.
    pub fn method_not_found(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        Self::new(METHOD_NOT_FOUND, format!("the method {shown} does not exist/is not available"))
    }

    /// There is no such subscription, or none at all over this connection.
    pub fn no_subscription(message: impl Into<String>) -> Self {
        Self::new(METHOD_NOT_FOUND, message)
    }

    /// The parameters are wrong.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// One of the parameters is wrong.
    pub fn argument(index: usize, why: impl std::fmt::Display) -> Self {
        Self::invalid_params(format!("invalid argument {index}: {why}"))
    }

    /// The node itself failed: the JSON-RPC code for internal errors.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(INTERNAL_ERROR, message.to_string())
    }

    /// The node's storage failed. The client gets `reason` and a number; the log has the error with its file names.
    pub fn stored(reason: &str, error: impl std::fmt::Display) -> Self {
        Self::internal(hearth_serve::fault::report(reason, &error))
    }

    /// The state cannot be read.
    pub fn state(error: impl std::fmt::Display) -> Self {
        Self::stored("the state cannot be read", error)
    }

    /// The chain refuses a request: a client error, except for the node's own failures.
    pub fn chain(error: ChainError) -> Self {
        use hearth_evm::state::StateError;
        match &error {
            ChainError::SideInUse
            | ChainError::BeforeMerge(_)
            | ChainError::NotNext { .. }
            | ChainError::OtherParent { .. }
            | ChainError::Timestamp { .. }
            | ChainError::TimestampTooLate(_)
            | ChainError::Interval
            | ChainError::State(
                StateError::BadEntry(_)
                | StateError::NotNext { .. }
                | StateError::NotKept { .. }
                | StateError::NoProofs(_)
                | StateError::UnknownCode { .. }
                | StateError::NoCode(_),
            ) => Self::server(error),
            ChainError::Ended(_) => Self::stored("the chain makes no more blocks", error),
            _ => Self::stored("the chain's data cannot be read or written", error),
        }
    }

    /// The pool refuses a transaction.
    pub fn submit(error: SubmitError) -> Self {
        match error {
            SubmitError::NotKept(why) => Self::stored("the transaction cannot be kept on disk", why),
            refused => Self::server(refused),
        }
    }

    /// A server error, with the code that geth uses if there is no better one.
    pub fn server(message: impl std::fmt::Display) -> Self {
        Self::new(-32000, message.to_string())
    }

    /// A simulation is impossible; `eth_simulateV1` has a code for each reason.
    pub fn simulation(code: i64, message: impl Into<String>) -> Self {
        Self::new(code, message)
    }

    /// The block has been pruned.
    pub fn pruned() -> Self {
        Self::new(4444, "pruned history unavailable")
    }

    /// An accepted transaction is in no block yet (EIP-7966).
    pub fn unsettled(hash: &alloy_primitives::B256, patience: std::time::Duration) -> Self {
        let message = format!(
            "The transaction was added to the transaction pool but wasn't processed in {}s",
            patience.as_secs_f32()
        );
        Self::new(4, message).with_data(json::data(hash.as_slice()))
    }

    /// An accepted transaction waits for an earlier nonce of its account (EIP-7966).
    pub fn gapped(hash: &alloy_primitives::B256, next: u64) -> Self {
        let message = format!("The transaction waits in the transaction pool for one before it: next nonce {next}");
        Self::new(5, message).with_data(json::data(hash.as_slice()))
    }

    /// The answer would be too long.
    pub fn too_large() -> Self {
        Self::new(-32003, "response too large")
    }

    /// The client exceeds a limit.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(-32005, message)
    }

    /// A call has reverted with `output`.
    pub fn reverted(output: &[u8]) -> Self {
        Self::new(3, revert_message(output)).with_data(json::data(output))
    }

    /// A transaction was mined and failed with `output`, and the client gets an error instead of its hash.
    pub fn failed_transaction(code: i64, message: &str, hash: &alloy_primitives::B256, output: &[u8]) -> Self {
        let data = json::object(|object| {
            object.text("message", message);
            object.data("txHash", hash.as_slice());
            object.data("data", output);
        });
        Self::new(code, message).with_data(data)
    }
}

/// Returns the error message of a revert, with its reason if there is one.
pub fn revert_message(output: &[u8]) -> String {
    match revert_reason(output) {
        Some(reason) => format!("execution reverted: {reason}"),
        None => "execution reverted".into(),
    }
}

/// Returns a contract's revert reason: the text of `Error(string)`, or of a `Panic(uint256)` in geth's words.
pub fn revert_reason(output: &[u8]) -> Option<String> {
    let (selector, arguments) = output.split_at_checked(4)?;
    let word = |at: usize| arguments.get(at..at.checked_add(32)?).map(U256::from_be_slice);
    match selector {
        [0x08, 0xc3, 0x79, 0xa0] => {
            let offset = usize::try_from(word(0)?).ok()?;
            let length = usize::try_from(word(offset)?).ok()?;
            let start = offset.checked_add(32)?;
            let text = arguments.get(start..start.checked_add(length)?)?;
            Some(String::from_utf8_lossy(text).into_owned())
        }
        [0x4e, 0x48, 0x7b, 0x71] => {
            let code = word(0)?;
            let named = u64::try_from(code).ok().and_then(panic_name);
            Some(named.map_or_else(|| format!("unknown panic code: {code:#x}"), Into::into))
        }
        _ => None,
    }
}

fn panic_name(code: u64) -> Option<&'static str> {
    Some(match code {
        0x00 => "generic panic",
        0x01 => "assert(false)",
        0x11 => "arithmetic underflow or overflow",
        0x12 => "division or modulo by zero",
        0x21 => "enum overflow",
        0x22 => "invalid encoded storage byte array accessed",
        0x31 => "out-of-bounds array access; popping on an empty array",
        0x32 => "out-of-bounds access of an array or bytesN",
        0x41 => "out of memory",
        0x51 => "uninitialized function",
        _ => return None,
    })
}

/// The bytes of an `Error(string)`, as Solidity makes them.
#[cfg(test)]
pub fn solidity_error(reason: &str) -> Vec<u8> {
    let mut bytes = alloy_primitives::hex::decode("08c379a0").unwrap();
    bytes.extend(U256::from(32).to_be_bytes::<32>());
    bytes.extend(U256::from(reason.len()).to_be_bytes::<32>());
    bytes.extend(reason.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(32) + 4, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;
    use hearth_evm::state::StateError;

    use super::*;

    #[test]
    fn a_fault_of_the_disk_names_no_file() {
        let path = std::path::PathBuf::from("/srv/node/state/00000001.log");
        let io = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let damaged = || StateError::Damaged { path: path.clone(), offset: 7, what: "no record".into() };
        for failure in [
            Failure::state(damaged()),
            Failure::chain(ChainError::State(damaged())),
            Failure::chain(ChainError::State(StateError::Io {
                what: "cannot write",
                path: path.clone(),
                source: io(),
            })),
            Failure::chain(ChainError::State(StateError::InUse(path.clone()))),
            Failure::chain(ChainError::Folder { what: "read", path: path.clone(), source: io() }),
            Failure::chain(ChainError::Ended(damaged().to_string())),
            Failure::chain(ChainError::Side(hearth_utxo::ledger::LedgerError::Io(path.clone(), io()).into())),
            Failure::submit(SubmitError::NotKept(damaged().to_string())),
        ] {
            assert_eq!(failure.code(), -32603);
            assert!(failure.message().contains("(fault "), "{}", failure.message());
            assert!(!failure.message().contains('/') && !failure.message().contains(".log"), "{}", failure.message());
        }
        // An error about the request keeps its text.
        let refused = Failure::chain(ChainError::Timestamp { timestamp: 1, head: 2 });
        assert_eq!((refused.code(), refused.message().contains("Timestamp error: 1")), (-32000, true));
        let early = Failure::chain(ChainError::State(StateError::NotKept { number: 1, oldest: 2, head: 3 }));
        assert!(early.message().contains("blocks 2 to 3"), "{}", early.message());
    }

    #[test]
    fn reasons_are_read_and_nothing_else_is() {
        assert_eq!(revert_reason(&solidity_error("too little")).as_deref(), Some("too little"));
        let mut panic = hex::decode("4e487b71").unwrap();
        panic.extend(U256::from(0x11).to_be_bytes::<32>());
        assert_eq!(revert_reason(&panic).as_deref(), Some("arithmetic underflow or overflow"));
        // Offsets and lengths out of bounds, and no selector.
        for bad in ["", "08c379", "08c379a0", "12345678"] {
            assert_eq!(revert_reason(&hex::decode(bad).unwrap()), None, "{bad}");
        }
        let mut bad = hex::decode("08c379a0").unwrap();
        bad.extend([0xff; 64]);
        assert_eq!(revert_reason(&bad), None);
        for cut in 0..100 {
            let whole = solidity_error("too little");
            revert_reason(&whole[..whole.len().saturating_sub(cut)]);
        }
    }

    #[test]
    fn a_revert_carries_its_data() {
        let mut text = String::new();
        ErrorObject::from(Failure::reverted(&solidity_error("no"))).push(&mut text);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["code"], &value["message"]), (&3.into(), &"execution reverted: no".into()));
        assert!(value["data"].as_str().unwrap().starts_with("0x08c379a0"));
    }
}
