//! Why a question has no result.

use serde::Deserialize;
use serde_json::Value;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RpcError {
    /// The address is not a URL, or has another scheme.
    #[error("`{url}` is not the URL of a node's RPC: expected {expected}")]
    Url {
        /// The address that was given.
        url: String,
        /// The form that an address must have, such as `http://HOST:PORT`.
        expected: &'static str,
    },
    /// The host is not known.
    #[error("the host of {0} has no address")]
    Host(String),
    /// The connection broke, or the time ran out.
    #[error("{url}: {why}")]
    Connection {
        /// URL of the node.
        url: String,
        /// The reason, from the system or the client.
        why: String,
    },
    /// An HTTP status other than success, as 429.
    #[error("{url} answers with HTTP status {status}")]
    Status {
        /// URL of the node.
        url: String,
        /// The status code, such as 429.
        status: u16,
    },
    /// The answer is no answer to the question.
    #[error("{url} answers {method} with something else: {why}")]
    Garbled {
        /// URL of the node.
        url: String,
        /// The method that was called.
        method: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The node refuses, in its words.
    #[error("{method}: {message} ({code})")]
    Refused {
        /// The method that was called.
        method: String,
        /// The `code` of the JSON-RPC error object.
        code: i64,
        /// The `message` of the JSON-RPC error object.
        message: String,
        /// Additional data, if any.
        data: Option<Box<Value>>,
    },
}

impl RpcError {
    /// Returns the reason without the node's URL and the method.
    pub fn reason(&self) -> String {
        match self {
            Self::Connection { why, .. } | Self::Garbled { why, .. } => why.clone(),
            Self::Status { status, .. } => format!("HTTP status {status}"),
            Self::Refused { message, .. } => message.clone(),
            Self::Url { .. } | Self::Host(_) => self.to_string(),
        }
    }
}

/// A JSON-RPC error object. Some nodes leave parts out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Refusal {
    /// The error's code; 0 if the node left it out.
    #[serde(default)]
    pub code: i64,
    /// The error's text; empty if the node left it out.
    #[serde(default)]
    pub message: String,
    /// Additional data, if any.
    #[serde(default)]
    pub data: Option<Box<Value>>,
}

impl Refusal {
    /// As the error of a question of `method`.
    pub fn into_error(self, method: &str) -> RpcError {
        let Self { code, message, data } = self;
        RpcError::Refused { method: method.into(), code, message, data }
    }
}
