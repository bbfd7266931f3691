//! 4byteTracer: which functions were called, and with how much data.
//!
//! source  `eth/tracers/native/4byte.go` of go-ethereum 1.16

use std::collections::BTreeMap;

use revm::Inspector;
use revm::context_interface::ContextTr;
use revm::interpreter::{CallInputs, CallOutcome, Interpreter};

use super::Budget;
use super::words::Clock;
use crate::failure::Failure;
use crate::json;

/// An inspector that counts calls by selector and length of their data.
pub struct Selectors {
    clock: Clock,
    counts: BTreeMap<([u8; 4], usize), u64>,
}

impl Selectors {
    /// Creates an inspector that has counted nothing.
    pub fn new(budget: Budget) -> Self {
        Self { clock: Clock::new(budget), counts: BTreeMap::new() }
    }

    /// The estimated length of the counts' text.
    fn bytes(&self) -> usize {
        64 * self.counts.len()
    }

    /// Returns the counts as JSON.
    pub fn finish(self) -> Result<String, Failure> {
        self.clock.check(self.bytes())?;
        Ok(json::object(|object| {
            for ((selector, length), count) in &self.counts {
                object.decimal(&format!("0x{}-{length}", alloy_primitives::hex::encode(selector)), *count);
            }
        }))
    }
}

impl<CTX: ContextTr> Inspector<CTX> for Selectors {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        self.clock.tick(interpreter, self.bytes());
    }

    fn call(&mut self, context: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        let input = inputs.input.bytes(context);
        if let Some(selector) = input.first_chunk::<4>() {
            *self.counts.entry((*selector, input.len() - 4)).or_default() += 1;
        }
        None
    }
}
