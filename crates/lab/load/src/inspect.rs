//! What looking at a node has in common on all chains: lines of text, how far a range of blocks goes.

use std::fmt::{Display, Write};

use serde_json::Value;

use crate::rpc::RpcError;

/// Blocks that are looked at together.
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

/// What a node that refuses does not tell.
pub(super) fn told(answer: Result<Value, RpcError>) -> Result<Option<Value>, RpcError> {
    match answer {
        Ok(Value::Null) | Err(RpcError::Refused { .. }) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(why) => Err(why),
    }
}
