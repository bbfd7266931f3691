//! The logs of a message, and transfers of ether as logs of a token.
//!
//! source  `internal/ethapi/logtracer.go` of go-ethereum 1.16

use alloy_primitives::{Address, B256, Bytes, Log, U256, address, b256};
use revm::Inspector;
use revm::context_interface::ContextTr;
use revm::interpreter::{
    CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
};

use super::Budget;
use super::words::Clock;
use crate::failure::Failure;

/// The address of the synthetic logs.
const TELLER: Address = address!("eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
/// The topic of ERC-20's event `Transfer(address,address,uint256)`.
const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
/// Estimated length of a log besides its data.
const LOG_BYTES: usize = 900;

/// An inspector that collects logs by frame; those of a failed frame are dropped.
pub struct Transfers {
    with_transfers: bool,
    clock: Clock,
    frames: Vec<Frame>,
    /// The index of the next log in its block.
    next: u64,
    bytes: usize,
    done: Vec<(Log, u64)>,
}

#[derive(Default)]
struct Frame {
    logs: Vec<(Log, u64)>,
    /// Whether the first log is the transfer to the contract that is being created.
    creates: bool,
}

impl Transfers {
    /// `with_transfers`: includes transfers; `next`: how many logs there were before in the block.
    pub fn new(with_transfers: bool, next: u64, budget: Budget) -> Self {
        Self { with_transfers, clock: Clock::new(budget), frames: Vec::new(), next, bytes: 0, done: Vec::new() }
    }

    /// Returns how many logs the block has so far, including dropped ones.
    pub fn count(&self) -> u64 {
        self.next
    }

    /// Returns the logs, each with its index in the block; an error if time or memory ran out.
    pub fn finish(self) -> Result<Vec<(Log, u64)>, Failure> {
        self.clock.check(self.bytes)?;
        Ok(self.done)
    }

    fn push(&mut self, log: Log) {
        self.bytes += LOG_BYTES + 2 * log.data.data.len();
        let place = self.next;
        self.next += 1;
        if let Some(frame) = self.frames.last_mut() {
            frame.logs.push((log, place));
        }
    }

    fn transfer(&mut self, from: Address, to: Address, value: U256) -> bool {
        if !self.with_transfers || value.is_zero() {
            return false;
        }
        self.push(transfer(from, to, value));
        true
    }

    fn end(&mut self, result: InstructionResult) {
        let Some(frame) = self.frames.pop().filter(|_| result.is_ok()) else { return };
        match self.frames.last_mut() {
            Some(parent) => parent.logs.extend(frame.logs),
            None => self.done = frame.logs,
        }
    }
}

fn transfer(from: Address, to: Address, value: U256) -> Log {
    let topics = vec![TRANSFER, from.into_word(), to.into_word()];
    Log::new_unchecked(TELLER, topics, Bytes::from(value.to_be_bytes::<32>().to_vec()))
}

impl<CTX: ContextTr> Inspector<CTX> for Transfers {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        self.clock.tick(interpreter, self.bytes);
    }

    fn call(&mut self, _: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.frames.push(Frame::default());
        let to = match inputs.scheme {
            CallScheme::CallCode => inputs.bytecode_address,
            _ => inputs.target_address,
        };
        self.transfer(inputs.caller, to, inputs.transfer_value().unwrap_or_default());
        None
    }

    fn call_end(&mut self, _: &mut CTX, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(outcome.result.result);
    }

    fn create(&mut self, _: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.frames.push(Frame::default());
        let is_told = self.transfer(inputs.caller(), Address::ZERO, inputs.value());
        if let Some(frame) = self.frames.last_mut() {
            frame.creates = is_told;
        }
        None
    }

    fn create_end(&mut self, _: &mut CTX, inputs: &CreateInputs, outcome: &mut CreateOutcome) {
        if let Some(frame) = self.frames.last_mut().filter(|frame| frame.creates)
            && let (Some((log, _)), Some(created)) = (frame.logs.first_mut(), outcome.address)
        {
            // The address is known only now.
            *log = transfer(inputs.caller(), created, inputs.value());
        }
        self.end(outcome.result.result);
    }

    fn log(&mut self, _: &mut CTX, log: Log) {
        self.push(log);
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        self.transfer(contract, target, value);
    }
}
