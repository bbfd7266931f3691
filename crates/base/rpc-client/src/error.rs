//! Why a question has no result.

use serde::Deserialize;
use serde_json::Value;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RpcError {
    /// The address is no URL, or of another scheme.
    #[error("`{url}` is no URL of a node's RPC: expected {expected}")]
    Url {
        /// The address.
        url: String,
        /// What is asked here.
        expected: &'static str,
    },
    /// The host is not known.
    #[error("the host of {0} has no address")]
    Host(String),
    /// The connection broke, or the time ran out.
    #[error("{url}: {why}")]
    Connection {
        /// The node's URL.
        url: String,
        /// What went wrong.
        why: String,
    },
    /// An HTTP status other than success, as 429.
    #[error("{url} answers with HTTP status {status}")]
    Status {
        /// The node's URL.
        url: String,
        /// The status.
        status: u16,
    },
    /// The answer is no answer to the question.
    #[error("{url} answers {method} with something else: {why}")]
    Garbled {
        /// The node's URL.
        url: String,
        /// The method asked for.
        method: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The node refuses, in its words.
    #[error("{method}: {message} ({code})")]
    Refused {
        /// The method asked for.
        method: String,
        /// Its code.
        code: i64,
        /// Its words.
        message: String,
        /// What it adds to them.
        data: Option<Box<Value>>,
    },
}

impl RpcError {
    /// What went wrong, without the node's URL and the method.
    pub fn reason(&self) -> String {
        match self {
            Self::Connection { why, .. } | Self::Garbled { why, .. } => why.clone(),
            Self::Status { status, .. } => format!("HTTP status {status}"),
            Self::Refused { message, .. } => message.clone(),
            Self::Url { .. } | Self::Host(_) => self.to_string(),
        }
    }
}

/// An error object. Not every node fills all of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Refusal {
    /// Its code.
    #[serde(default)]
    pub code: i64,
    /// Its words.
    #[serde(default)]
    pub message: String,
    /// What it adds to them.
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
