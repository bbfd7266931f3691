//! Answers, as they stand in the text.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Refusal;

/// A JSON-RPC response, borrowed from its text.
#[derive(Deserialize)]
pub struct Answer<'a> {
    /// The request's id; `None` if null or missing.
    #[serde(default)]
    pub id: Option<u64>,
    /// `null` is a valid result: a transaction or block that the node does not have.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    /// The node's error object; `None` if it answers with a result.
    #[serde(default)]
    pub error: Option<Refusal>,
}

/// A field that is there, null included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Answer<'a> {
    /// Whether it refuses and has no result.
    pub fn is_refusal(&self) -> bool {
        self.result.is_none() && self.error.is_some()
    }

    /// Returns the result's text, or the error; `None` if the answer has neither or both. Some servers add a `null`
    /// result to an error, which does not count as a result.
    pub fn verdict(self) -> Option<Result<&'a str, Refusal>> {
        match (self.result.map(RawValue::get), self.error) {
            (None | Some("null"), Some(refusal)) => Some(Err(refusal)),
            (Some(result), None) => Some(Ok(result)),
            _ => None,
        }
    }
}
