//! The default tracer (struct logger): every instruction.
//!
//! source  `eth/tracers/logger/logger.go` of go-ethereum 1.16: its legacy form, which tools read, with `0x` before the
//!         words of memory and storage as the execution API has them

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use alloy_primitives::{Address, U256};
use revm::Inspector;
use revm::bytecode::opcode::{OpCode, SLOAD, SSTORE};
use revm::context::result::ExecutionResult;
use revm::context_interface::{ContextTr, JournalTr};
use revm::interpreter::Interpreter;
use revm::interpreter::interpreter_types::{InputsTr, Jumps, LoopControl, MemoryTr, ReturnData};

use super::words::{Clock, instruction_words};
use super::{Budget, Options, output_of};
use crate::failure::Failure;
use crate::json;

/// An inspector that records each step.
pub struct Steps {
    options: Options,
    clock: Clock,
    /// The steps so far, with commas between.
    text: String,
    steps: u64,
    /// The machine before the instruction that is being executed.
    before: StepStart,
    /// The storage slots that each contract has read and written.
    storage: HashMap<Address, BTreeMap<U256, U256>>,
}

#[derive(Default)]
struct StepStart {
    pc: u64,
    opcode: u8,
    gas: u64,
    depth: u64,
    refund: u64,
    stack: String,
    memory: String,
    return_data: String,
    /// The slot of an SLOAD or SSTORE.
    key: Option<U256>,
    value: Option<U256>,
}

impl Steps {
    /// Creates a tracer with these options.
    pub fn new(options: &Options, budget: Budget) -> Self {
        Self {
            options: options.clone(),
            clock: Clock::new(budget),
            text: String::new(),
            steps: 0,
            before: StepStart::default(),
            storage: HashMap::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.options.limit != 0 && self.steps >= self.options.limit
    }

    /// Returns the whole trace.
    pub fn finish(self, result: &ExecutionResult) -> Result<String, Failure> {
        self.clock.check(self.text.len())?;
        Ok(json::object(|object| {
            object.decimal("gas", result.tx_gas_used());
            object.flag("failed", !result.is_success());
            object.raw("returnValue", &output_of(result));
            object.raw("structLogs", &format!("[{}]", self.text));
        }))
    }

    fn write(&mut self, gas_cost: u64, storage: Option<String>, error: Option<String>) {
        self.steps += 1;
        if !self.text.is_empty() {
            self.text.push(',');
        }
        let before = &self.before;
        json::push_object(&mut self.text, |object| {
            object.decimal("pc", before.pc);
            match OpCode::new(before.opcode) {
                Some(opcode) => object.text("op", opcode.as_str()),
                None => object.text("op", &format!("opcode {:#x} not defined", before.opcode)),
            }
            object.decimal("gas", before.gas);
            object.decimal("gasCost", gas_cost);
            object.decimal("depth", before.depth);
            if let Some(error) = &error {
                object.text("error", error);
            }
            for (name, json) in
                [("stack", &before.stack), ("returnData", &before.return_data), ("memory", &before.memory)]
            {
                if !json.is_empty() {
                    object.raw(name, json);
                }
            }
            if let Some(storage) = &storage {
                object.raw("storage", storage);
            }
            if before.refund != 0 {
                object.decimal("refund", before.refund);
            }
        });
    }

    /// Returns the known storage of the contract, after an instruction that accessed it.
    fn storage_after(&mut self, interpreter: &Interpreter) -> Option<String> {
        let key = self.before.key.take()?;
        let value = match self.before.value.take() {
            Some(written) => written,
            None => *interpreter.stack.data().last()?,
        };
        let known = self.storage.entry(interpreter.input.target_address()).or_default();
        known.insert(key, value);
        let mut text = String::from("{");
        for (index, (key, value)) in known.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(text, "{comma}\"0x{key:064x}\":\"0x{value:064x}\"").expect("a string takes all");
        }
        text.push('}');
        Some(text)
    }
}

impl<CTX: ContextTr> Inspector<CTX> for Steps {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut CTX) {
        self.clock.tick(interpreter, self.text.len());
        if self.is_full() {
            return;
        }
        let opcode = interpreter.bytecode.opcode();
        let stack = interpreter.stack.data();
        let from_top = |depth: usize| stack.len().checked_sub(depth + 1).map(|at| stack[at]);
        let mut before = StepStart {
            pc: interpreter.bytecode.pc() as u64,
            opcode,
            gas: interpreter.gas.remaining(),
            depth: context.journal_mut().depth() as u64,
            refund: u64::try_from(interpreter.gas.refunded()).unwrap_or_default(),
            ..StepStart::default()
        };
        if !self.options.disable_storage && matches!(opcode, SLOAD | SSTORE) {
            before.key = from_top(0);
            before.value = from_top(1).filter(|_| opcode == SSTORE);
        }
        if !self.options.disable_stack {
            before.stack = json::array(stack, json::push_quantity_256);
        }
        if self.options.enable_memory && interpreter.memory.size() > 0 {
            let memory = interpreter.memory.slice(0..interpreter.memory.size());
            before.memory = json::array(memory.chunks(32), json::push_data);
        }
        if self.options.enable_return_data && !interpreter.return_data.buffer().is_empty() {
            before.return_data = json::data(interpreter.return_data.buffer());
        }
        self.before = before;
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        if self.is_full() {
            return;
        }
        let gas_cost = self.before.gas.saturating_sub(interpreter.gas.remaining());
        let ended = interpreter.bytecode.action().as_ref().and_then(|action| action.instruction_result());
        let error = ended.filter(|result| !result.is_ok()).map(instruction_words);
        let storage = if error.is_none() { self.storage_after(interpreter) } else { None };
        self.write(gas_cost, storage, error);
    }
}
