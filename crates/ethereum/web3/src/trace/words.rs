//! Error messages of failed executions, and a check of an execution's time.

use alloy_primitives::Address;
use revm::Inspector;
use revm::context::result::HaltReason;
use revm::context_interface::ContextTr;
use revm::interpreter::{InstructionResult, Interpreter};

use super::Budget;
use crate::failure::Failure;

/// Steps between two checks of the deadline.
const STEPS_PER_LOOK: u32 = 1_024;

/// Checks the deadline now and then.
pub struct Clock {
    budget: Budget,
    steps: u32,
    is_over: bool,
}

impl Clock {
    /// Creates a clock for a trace within `budget`.
    pub fn new(budget: Budget) -> Self {
        Self { budget, steps: 0, is_over: false }
    }

    /// Ends the execution when the time is over or the text too long.
    pub fn tick(&mut self, interpreter: &mut Interpreter, bytes: usize) {
        self.steps = self.steps.wrapping_add(1);
        let is_late = self.steps.is_multiple_of(STEPS_PER_LOOK) && self.budget.deadline.has_passed();
        if self.is_over || is_late || bytes > self.budget.bytes {
            self.is_over = true;
            interpreter.halt(InstructionResult::OutOfGas);
        }
    }

    /// Checks the deadline now; returns whether it has passed.
    pub fn look(&mut self) -> bool {
        self.is_over |= self.budget.deadline.has_passed();
        self.is_over
    }

    /// Returns an error if it has ended an execution.
    pub fn check(&self, bytes: usize) -> Result<(), Failure> {
        match self.is_over {
            _ if bytes > self.budget.bytes => Err(Failure::too_large()),
            true => Err(self.budget.deadline.failure()),
            false => Ok(()),
        }
    }
}

/// An inspector that only checks the time.
pub struct DeadlineInspector(Clock);

impl DeadlineInspector {
    /// Creates one for an execution within `budget`.
    pub fn new(budget: Budget) -> Self {
        Self(Clock::new(budget))
    }

    /// Returns an error if the time was over.
    pub fn check(&self) -> Result<(), Failure> {
        self.0.check(0)
    }
}

impl<CTX: ContextTr> Inspector<CTX> for DeadlineInspector {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        self.0.tick(interpreter, 0);
    }
}

/// Returns why an execution has halted.
pub fn halt_words(reason: &HaltReason) -> String {
    instruction_words(InstructionResult::from(reason.clone()))
}

/// Returns Parity's and OpenEthereum's own words, if they have any.
pub fn parity_words(result: InstructionResult) -> String {
    use InstructionResult as Result;
    let words = match result {
        Result::Revert => "Reverted",
        result if is_out_of_gas(result) => "Out of gas",
        Result::OpcodeNotFound | Result::NotActivated | Result::InvalidFEOpcode => "Bad instruction",
        Result::InvalidJump => "Bad jump destination",
        Result::StackUnderflow => "Stack underflow",
        Result::StackOverflow => "Out of stack",
        Result::CallNotAllowedInsideStatic | Result::StateChangeDuringStaticCall => "Mutable Call In Static Context",
        Result::OutOfOffset => "Out of bounds",
        Result::PrecompileError => "Built-in failed",
        other => return instruction_words(other),
    };
    words.into()
}

fn is_out_of_gas(result: InstructionResult) -> bool {
    use InstructionResult as Result;
    matches!(
        result,
        Result::OutOfGas
            | Result::MemoryOOG
            | Result::MemoryLimitOOG
            | Result::PrecompileOOG
            | Result::InvalidOperandOOG
            | Result::ReentrancySentryOOG
    )
}

/// Returns whether an address is a precompile under the newest rules.
pub fn is_precompile(address: &Address) -> bool {
    let (zeros, number) = address.split_at(18);
    let number = u16::from_be_bytes([number[0], number[1]]);
    zeros.iter().all(|byte| *byte == 0) && matches!(number, 1..=0x11 | 0x100)
}

/// Returns why a frame has failed.
pub fn instruction_words(result: InstructionResult) -> String {
    use InstructionResult as Result;
    let words = match result {
        Result::Revert => "execution reverted",
        Result::CallTooDeep => "max call depth exceeded",
        Result::OutOfFunds => "insufficient balance for transfer",
        result if is_out_of_gas(result) => "out of gas",
        Result::OpcodeNotFound | Result::NotActivated => "invalid opcode: opcode not defined",
        Result::InvalidFEOpcode => "invalid opcode: INVALID",
        Result::CallNotAllowedInsideStatic | Result::StateChangeDuringStaticCall => "write protection",
        Result::InvalidJump => "invalid jump destination",
        Result::StackUnderflow => "stack underflow",
        Result::StackOverflow => "stack limit reached 1024 (1023)",
        Result::OutOfOffset => "return data out of bounds",
        Result::CreateCollision => "contract address collision",
        Result::NonceOverflow => "nonce uint64 overflow",
        Result::CreateContractSizeLimit => "max code size exceeded",
        Result::CreateInitCodeSizeLimit => "max initcode size exceeded",
        Result::CreateContractStartingWithEF | Result::CreateInitCodeStartingEF00 => {
            "invalid code: must not begin with 0xef"
        }
        Result::PrecompileError => "precompile failed",
        other => return format!("{other:?}"),
    };
    words.into()
}
