//! Errors as sent to a client, and reasons why a text is not a request.

use std::fmt;

use serde_json::Value;

/// The text is no JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON is no request.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are wrong.
pub const INVALID_PARAMS: i64 = -32602;
/// The server is at fault.
pub const INTERNAL_ERROR: i64 = -32603;

/// An error as it goes to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorObject {
    code: i64,
    message: String,
    /// Additional data, as JSON.
    data: Option<String>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with data, which are JSON.
    pub fn with_data(self, data: impl Into<String>) -> Self {
        Self { data: Some(data.into()), ..self }
    }

    /// The code, such as [`INVALID_PARAMS`] or one of the server's own.
    pub fn code(&self) -> i64 {
        self.code
    }

    /// The text that says what is wrong, for a human.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Writes it as JSON.
    pub fn push(&self, out: &mut String) {
        out.push_str("{\"code\":");
        out.push_str(&self.code.to_string());
        out.push_str(",\"message\":");
        out.push_str(&Value::from(self.message.as_str()).to_string());
        if let Some(data) = &self.data {
            out.push_str(",\"data\":");
            out.push_str(data);
        }
        out.push('}');
    }
}

/// Why a text, or a part of it, is no request.
#[derive(Debug)]
pub enum Malformed<'a> {
    /// The text is no JSON.
    NotJson(serde_json::Error),
    /// It is a batch of no requests.
    EmptyBatch,
    /// This JSON stands where a request should.
    NotAnObject(&'a str),
    /// The JSON-RPC version is missing or unknown.
    Version,
    /// Its id cannot be one.
    Id,
    /// It names no method.
    Method,
}

impl fmt::Display for Malformed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(why) => why.fmt(f),
            Self::EmptyBatch => f.write_str("an empty batch"),
            Self::NotAnObject(json) => {
                // Lists are not followed down, however deep they are.
                let value =
                    if json.starts_with('[') { Ok(Value::Array(Vec::new())) } else { serde_json::from_str(json) };
                let found = value.map_or_else(|_| "something else".to_owned(), |value: Value| kind(&value));
                write!(f, "expected an object, found {found}")
            }
            Self::Version => f.write_str("the key \"jsonrpc\" must be \"2.0\""),
            Self::Id => f.write_str("the id must be a number, a string or null"),
            Self::Method => f.write_str("the key \"method\" must be a string"),
        }
    }
}

/// Names the type of a value.
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
