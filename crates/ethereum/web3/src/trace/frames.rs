//! Every frame of a message, in the order of their beginning: the input of the flat tracers and Otterscan.
//!
//! memory  120 B a frame, its input and its output; at most [`Budget`]
//! source  `eth/tracers/native/call_flat.go` of go-ethereum 1.16; revm-inspectors for Parity's shapes

use alloy_primitives::{Address, Bytes, U256};
use revm::Inspector;
use revm::context_interface::{ContextTr, CreateScheme};
use revm::interpreter::{
    CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome, Gas, InstructionResult, Interpreter,
};

use super::Budget;
use super::words::{Clock, is_precompile};
use crate::failure::Failure;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call of an account's code.
    Call(CallScheme),
    /// A contract creation; by `CREATE2` if the flag is set.
    Create(bool),
    /// A self-destruct, which transfers the contract's balance.
    Destruct,
}

/// A frame of a message: a call, a creation, or a self-destruct.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The kind of the frame.
    pub kind: Kind,
    /// How many frames are around it.
    pub depth: usize,
    /// The caller; for a delegate call, the owner of the storage.
    pub from: Address,
    /// The owner of the code, the created contract, or the recipient of a self-destruct.
    pub to: Address,
    /// The transferred value, in wei.
    pub value: U256,
    /// The frame's gas limit; 0 for a self-destruct.
    pub gas: u64,
    /// The gas used, with that of the frames inside; 0 for a self-destruct.
    pub gas_used: u64,
    /// The call's data, or the init code.
    pub input: Bytes,
    /// The data that it returned or reverted with, or the created contract's code; otherwise empty.
    pub output: Bytes,
    /// The result of the execution.
    pub result: InstructionResult,
    /// The path in the tree: for each frame around it, and for itself, its index among its siblings.
    pub address: Vec<usize>,
    /// How many frames it called directly.
    pub subtraces: usize,
}

/// An inspector that collects frames.
pub struct Frames {
    with_precompiles: bool,
    clock: Clock,
    /// All frames in the order of their beginning.
    all: Vec<Frame>,
    /// Indices in `all` of frames that have not ended, the outermost first; `None` for one that is left out.
    open: Vec<Option<usize>>,
    bytes: usize,
}

impl Frames {
    /// `with_precompiles`: includes calls of precompiles.
    pub fn new(with_precompiles: bool, budget: Budget) -> Self {
        Self { with_precompiles, clock: Clock::new(budget), all: Vec::new(), open: Vec::new(), bytes: 0 }
    }

    /// Returns all frames; an error if time or memory ran out.
    pub fn finish(self) -> Result<Vec<Frame>, Failure> {
        self.clock.check(self.bytes)?;
        if self.all.is_empty() {
            return Err(Failure::server("tracing failed: nothing was called"));
        }
        Ok(self.all)
    }

    fn begin(&mut self, frame: Frame) {
        let at = self.push(frame);
        self.open.push(Some(at));
    }

    fn push(&mut self, mut frame: Frame) -> usize {
        frame.depth = self.open.len();
        if let Some(parent) = self.open.iter().rev().find_map(|at| *at) {
            let parent = &mut self.all[parent];
            frame.address = parent.address.clone();
            frame.address.push(parent.subtraces);
            parent.subtraces += 1;
        }
        self.bytes += 700 + 2 * frame.input.len() + 8 * frame.address.len();
        self.all.push(frame);
        self.all.len() - 1
    }

    fn end(&mut self, result: InstructionResult, output: &Bytes, gas: &Gas, created: Option<Address>) {
        let Some(at) = self.open.pop().flatten() else { return };
        let frame = &mut self.all[at];
        frame.result = result;
        frame.gas_used = gas.total_gas_spent();
        frame.to = created.unwrap_or(frame.to);
        if result.is_ok() || result == InstructionResult::Revert {
            frame.output = output.clone();
        }
        self.bytes += 2 * output.len();
    }
}

/// Returns a call between two accounts, for tests.
#[cfg(test)]
pub fn frame_of(from: Address, to: Address) -> Frame {
    frame(Kind::Call(CallScheme::Call), from, to, U256::ZERO)
}

fn frame(kind: Kind, from: Address, to: Address, value: U256) -> Frame {
    Frame {
        kind,
        depth: 0,
        from,
        to,
        value,
        gas: 0,
        gas_used: 0,
        input: Bytes::new(),
        output: Bytes::new(),
        result: InstructionResult::Stop,
        address: Vec::new(),
        subtraces: 0,
    }
}

impl<CTX: ContextTr> Inspector<CTX> for Frames {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        self.clock.tick(interpreter, self.bytes);
    }

    fn call(&mut self, context: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        if !self.with_precompiles && !self.open.is_empty() && is_precompile(&inputs.bytecode_address) {
            self.open.push(None);
            return None;
        }
        let (from, to) = match inputs.scheme {
            CallScheme::DelegateCall | CallScheme::CallCode => (inputs.target_address, inputs.bytecode_address),
            CallScheme::Call | CallScheme::StaticCall => (inputs.caller, inputs.target_address),
        };
        let input = inputs.input.bytes(context);
        let begun = frame(Kind::Call(inputs.scheme), from, to, inputs.call_value());
        self.begin(Frame { gas: inputs.gas_limit, input, ..begun });
        None
    }

    fn call_end(&mut self, _: &mut CTX, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(outcome.result.result, &outcome.result.output, &outcome.result.gas, None);
    }

    fn create(&mut self, _: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        let kind = Kind::Create(matches!(inputs.scheme(), CreateScheme::Create2 { .. }));
        let begun = frame(kind, inputs.caller(), Address::ZERO, inputs.value());
        self.begin(Frame { gas: inputs.gas_limit(), input: inputs.init_code().clone(), ..begun });
        None
    }

    fn create_end(&mut self, _: &mut CTX, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.end(outcome.result.result, &outcome.result.output, &outcome.result.gas, outcome.address);
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        self.push(frame(Kind::Destruct, contract, target, value));
    }
}
