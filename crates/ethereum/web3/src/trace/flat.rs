//! Frames one after the other, each with its place in the tree: `flatCallTracer`, and the traces of `trace_`.
//!
//! source  `eth/tracers/native/call_flat.go` of go-ethereum 1.16; the `trace` module of OpenEthereum, as reth gives it

use alloy_primitives::B256;
use revm::interpreter::{CallScheme, InstructionResult};

use super::frames::{Frame, Kind};
use super::words::{instruction_words, parity_words};
use crate::json::{self, Object};

/// The block and the transaction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePosition {
    /// The hash of the block.
    pub block_hash: B256,
    /// The number of the block.
    pub block_number: u64,
    /// The hash of the transaction.
    pub tx_hash: B256,
    /// Its index in the block.
    pub index: usize,
}

/// The client whose error messages are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorStyle {
    /// The words of go-ethereum.
    Geth,
    /// The words of Parity and OpenEthereum.
    Parity,
}

/// Appends a frame with its place, if that is known.
pub fn push_frame(out: &mut String, frame: &Frame, place: Option<&FramePosition>, words: ErrorStyle) {
    json::push_object(out, |object| {
        object.object("action", |object| push_action(object, frame));
        if let Some(place) = place {
            object.data("blockHash", place.block_hash.as_slice());
            object.decimal("blockNumber", place.block_number);
        }
        if !frame.result.is_ok() {
            let why = match words {
                ErrorStyle::Geth => instruction_words(frame.result),
                ErrorStyle::Parity => parity_words(frame.result),
            };
            object.text("error", &why);
        }
        push_result(object, frame);
        object.decimal("subtraces", frame.subtraces as u64);
        object.array("traceAddress", &frame.address, |out, at| out.push_str(&at.to_string()));
        if let Some(place) = place {
            object.data("transactionHash", place.tx_hash.as_slice());
            object.decimal("transactionPosition", place.index as u64);
        }
        object.text(
            "type",
            match frame.kind {
                Kind::Call(_) => "call",
                Kind::Create(_) => "create",
                Kind::Destruct => "suicide",
            },
        );
    });
}

/// Returns the name of a call's type.
pub fn call_type(scheme: CallScheme) -> &'static str {
    match scheme {
        CallScheme::Call => "call",
        CallScheme::CallCode => "callcode",
        CallScheme::DelegateCall => "delegatecall",
        CallScheme::StaticCall => "staticcall",
    }
}

fn push_action(object: &mut Object<'_>, frame: &Frame) {
    match frame.kind {
        Kind::Call(scheme) => {
            object.text("callType", call_type(scheme));
            object.data("from", frame.from.as_slice());
            object.quantity("gas", frame.gas);
            object.data("input", &frame.input);
            object.data("to", frame.to.as_slice());
            object.quantity_256("value", &frame.value);
        }
        Kind::Create(second) => {
            object.text("creationMethod", if second { "create2" } else { "create" });
            object.data("from", frame.from.as_slice());
            object.quantity("gas", frame.gas);
            object.data("init", &frame.input);
            object.quantity_256("value", &frame.value);
        }
        Kind::Destruct => {
            object.data("address", frame.from.as_slice());
            object.quantity_256("balance", &frame.value);
            object.data("refundAddress", frame.to.as_slice());
        }
    }
}

/// Appends the result; nothing if a frame failed other than by a revert.
fn push_result(object: &mut Object<'_>, frame: &Frame) {
    let has_output = frame.result.is_ok() || frame.result == InstructionResult::Revert;
    match frame.kind {
        Kind::Call(_) if has_output => object.object("result", |object| {
            object.quantity("gasUsed", frame.gas_used);
            object.data("output", &frame.output);
        }),
        Kind::Create(_) if frame.result.is_ok() => object.object("result", |object| {
            object.data("address", frame.to.as_slice());
            object.data("code", &frame.output);
            object.quantity("gasUsed", frame.gas_used);
        }),
        _ => object.null("result"),
    }
}
