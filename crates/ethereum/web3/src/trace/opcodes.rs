//! Gas by instruction: how often each was executed, and its total cost.
//!
//! source  `trace_transactionOpcodeGas` of reth; gas passed to a call counts as the call's own

use std::collections::BTreeMap;

use revm::Inspector;
use revm::bytecode::opcode::OpCode;
use revm::context_interface::ContextTr;
use revm::interpreter::Interpreter;
use revm::interpreter::interpreter_types::Jumps;

use super::Budget;
use super::words::Clock;
use crate::failure::Failure;
use crate::json;

/// An inspector that counts instructions and their gas.
pub struct OpcodeGas {
    clock: Clock,
    /// For each instruction, how often it was executed and its gas in all.
    counts: BTreeMap<u8, (u64, u64)>,
    /// The current instruction, and the gas before it.
    before: (u8, u64),
}

impl OpcodeGas {
    /// Has counted nothing yet.
    pub fn new(budget: Budget) -> Self {
        Self { clock: Clock::new(budget), counts: BTreeMap::new(), before: (0, 0) }
    }

    /// The counts as JSON, those of most gas first.
    pub fn finish(self) -> Result<String, Failure> {
        self.clock.check(0)?;
        let mut all: Vec<_> = self.counts.into_iter().collect();
        all.sort_by_key(|(_, (_, gas))| std::cmp::Reverse(*gas));
        Ok(json::array(all, |out, (opcode, (count, gas))| {
            json::push_object(out, |object| {
                match OpCode::new(opcode) {
                    Some(opcode) => object.text("opcode", opcode.as_str()),
                    None => object.text("opcode", &format!("opcode {opcode:#x} not defined")),
                }
                object.decimal("count", count);
                object.decimal("gasUsed", gas);
            });
        }))
    }
}

impl<CTX: ContextTr> Inspector<CTX> for OpcodeGas {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        self.clock.tick(interpreter, 0);
        self.before = (interpreter.bytecode.opcode(), interpreter.gas.remaining());
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        let (opcode, gas) = self.before;
        let (count, used) = self.counts.entry(opcode).or_default();
        *count += 1;
        *used += gas.saturating_sub(interpreter.gas.remaining());
    }
}
