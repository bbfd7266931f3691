//! Shared by the node views of all chains: text lines, and how large a range of blocks may be.

use std::fmt::{Display, Write};

use serde_json::Value;

use crate::rpc::RpcError;

/// The most blocks that are shown together.
pub const RANGE_MAX: u64 = 10_000;

/// Lines of a name and a value.
#[derive(Default)]
pub(super) struct Lines(String);

impl Lines {
    pub fn into_text(self) -> String {
        self.0
    }

    pub fn add(&mut self, name: &str, value: impl Display) {
        writeln!(self.0, "{name:<18}{value}").expect("a string takes all");
    }

    pub fn add_if(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

/// The answer, or none if the node refuses.
pub(super) fn if_supported(answer: Result<Value, RpcError>) -> Result<Option<Value>, RpcError> {
    match answer {
        Ok(Value::Null) | Err(RpcError::Refused { .. }) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(why) => Err(why),
    }
}
