//! `vmTrace`: every instruction, with what it pushed, and what it wrote into memory and storage.
//!
//! memory  what the text of the instructions takes: at most [`Budget`]
//! source  the `trace` module of OpenEthereum, as reth gives it

use alloy_primitives::{Bytes, U256};
use revm::Inspector;
use revm::bytecode::opcode::{self, OpCode};
use revm::context_interface::ContextTr;
use revm::interpreter::interpreter_types::{Jumps, LegacyBytecode, MemoryTr};
use revm::interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, Gas, Interpreter};

use super::Budget;
use super::words::Clock;
use crate::failure::Failure;
use crate::json;

/// Estimated length of an instruction besides what it pushes and writes.
const STEP_BYTES: usize = 120;

/// An inspector that records each instruction, frame by frame.
pub struct VmSteps {
    clock: Clock,
    /// Frames that have not ended, the outermost first; `None` for one that runs no code.
    open: Vec<Option<RunningFrame>>,
    root: Option<String>,
    bytes: usize,
}

/// A frame that is running.
struct RunningFrame {
    code: Bytes,
    /// The instructions that have ended, with commas between.
    steps: String,
    now: Option<Step>,
}

/// An instruction that has not ended.
struct Step {
    pc: usize,
    opcode: u8,
    gas: u64,
    /// The memory range that it writes.
    memory: Option<(usize, usize)>,
    /// The slot that it writes, and the value.
    store: Option<(U256, U256)>,
    /// The frame that it calls.
    sub: Option<String>,
}

impl VmSteps {
    /// Creates an empty trace.
    pub fn new(budget: Budget) -> Self {
        Self { clock: Clock::new(budget), open: Vec::new(), root: None, bytes: 0 }
    }

    /// Returns the whole trace; null if no code ran.
    pub fn finish(self) -> Result<String, Failure> {
        self.clock.check(self.bytes)?;
        Ok(self.root.unwrap_or_else(|| "null".into()))
    }

    fn end(&mut self, gas: &Gas) {
        let Some(mut frame) = self.open.pop().flatten() else { return };
        // The text of a frame is copied into its parent's.
        if self.clock.look() {
            return;
        }
        self.bytes += frame.end_step(gas.remaining(), &[], &[]);
        let text = json::object(|object| {
            object.data("code", &frame.code);
            object.raw("ops", &format!("[{}]", frame.steps));
        });
        match self.open.last_mut() {
            Some(Some(RunningFrame { now: Some(step), .. })) => step.sub = Some(text),
            Some(_) => {}
            None => self.root = Some(text),
        }
    }
}

impl RunningFrame {
    /// Ends the current instruction; returns the added length of the text.
    fn end_step(&mut self, gas_left: u64, stack: &[U256], memory: &[u8]) -> usize {
        let Some(step) = self.now.take() else { return 0 };
        let before = self.steps.len();
        if before > 0 {
            self.steps.push(',');
        }
        let pushes = OpCode::new(step.opcode).map_or(0, |opcode| usize::from(opcode.outputs()));
        let pushed = &stack[stack.len().saturating_sub(pushes)..];
        json::push_object(&mut self.steps, |object| {
            object.decimal("pc", step.pc as u64);
            object.decimal("cost", step.gas.saturating_sub(gas_left));
            object.object("ex", |object| {
                object.decimal("used", gas_left);
                object.array("push", pushed, json::push_quantity_256);
                let written =
                    step.memory.and_then(|(from, length)| Some((from, memory.get(from..from.checked_add(length)?)?)));
                match written.filter(|(_, data)| !data.is_empty()) {
                    Some((from, data)) => object.object("mem", |object| {
                        object.decimal("off", from as u64);
                        object.data("data", data);
                    }),
                    None => object.null("mem"),
                }
                match &step.store {
                    Some((key, value)) => object.object("store", |object| {
                        object.quantity_256("key", key);
                        object.quantity_256("val", value);
                    }),
                    None => object.null("store"),
                }
            });
            match &step.sub {
                Some(sub) => object.raw("sub", sub),
                None => object.null("sub"),
            }
            object.text("op", OpCode::name_by_op(step.opcode));
        });
        self.steps.len() - before - step.sub.map_or(0, |sub| sub.len())
    }
}

/// Returns the memory range that an instruction writes, given its operands, the topmost first.
fn written(opcode: u8, taken: impl Fn(usize) -> Option<usize>) -> Option<(usize, usize)> {
    let (from, length) = match opcode {
        opcode::MSTORE => (taken(0), Some(32)),
        opcode::MSTORE8 => (taken(0), Some(1)),
        opcode::CALLDATACOPY | opcode::CODECOPY | opcode::RETURNDATACOPY | opcode::MCOPY => (taken(0), taken(2)),
        opcode::EXTCODECOPY => (taken(1), taken(3)),
        opcode::CALL | opcode::CALLCODE => (taken(5), taken(6)),
        opcode::DELEGATECALL | opcode::STATICCALL => (taken(4), taken(5)),
        _ => (None, None),
    };
    from.zip(length)
}

impl<CTX: ContextTr> Inspector<CTX> for VmSteps {
    fn initialize_interp(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        let code = Bytes::copy_from_slice(interpreter.bytecode.bytecode_slice());
        self.bytes += 2 * code.len();
        if let Some(frame) = self.open.last_mut() {
            *frame = Some(RunningFrame { code, steps: String::new(), now: None });
        }
    }

    fn step(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        self.clock.tick(interpreter, self.bytes);
        let Some(Some(frame)) = self.open.last_mut() else { return };
        let stack = interpreter.stack.data();
        let from_top = |depth: usize| stack.len().checked_sub(depth + 1).map(|at| stack[at]);
        let opcode = interpreter.bytecode.opcode();
        let memory = interpreter.memory.slice(0..interpreter.memory.size());
        self.bytes += STEP_BYTES + frame.end_step(interpreter.gas.remaining(), stack, &memory);
        frame.now = Some(Step {
            pc: interpreter.bytecode.pc(),
            opcode,
            gas: interpreter.gas.remaining(),
            memory: written(opcode, |depth| usize::try_from(from_top(depth)?).ok()),
            store: (opcode == opcode::SSTORE).then(|| from_top(0).zip(from_top(1))).flatten(),
            sub: None,
        });
    }

    fn call(&mut self, _: &mut CTX, _: &mut CallInputs) -> Option<CallOutcome> {
        self.open.push(None);
        None
    }

    fn call_end(&mut self, _: &mut CTX, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(&outcome.result.gas);
    }

    fn create(&mut self, _: &mut CTX, _: &mut CreateInputs) -> Option<CreateOutcome> {
        self.open.push(None);
        None
    }

    fn create_end(&mut self, _: &mut CTX, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.end(&outcome.result.gas);
    }
}
