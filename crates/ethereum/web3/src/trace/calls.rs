//! callTracer: the tree of calls.
//!
//! source  `eth/tracers/native/call.go` of go-ethereum 1.16

use alloy_primitives::{Address, Bytes, Log, U256};
use revm::Inspector;
use revm::context::result::ExecutionResult;
use revm::context_interface::{ContextTr, CreateScheme};
use revm::interpreter::{
    CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome, Gas, InstructionResult, Interpreter,
};

use super::Budget;
use super::words::{Clock, instruction_words};
use crate::failure::{Failure, revert_reason};
use crate::json::{self, Object};

/// Builds the tree of calls.
pub struct Calls {
    only_top_call: bool,
    with_log: bool,
    clock: Clock,
    /// Calls that have not ended, the outermost first.
    open: Vec<Call>,
    /// Number of open calls below the depth that is recorded.
    skipped: usize,
    root: Option<Call>,
    /// Estimated length of the text.
    bytes: usize,
}

#[derive(Default)]
struct Call {
    kind: &'static str,
    from: Address,
    to: Option<Address>,
    value: Option<U256>,
    gas: u64,
    gas_used: u64,
    input: Bytes,
    output: Bytes,
    error: Option<String>,
    logs: Vec<(Log, usize)>,
    calls: Vec<Call>,
}

impl Calls {
    /// `only_top_call`: inner calls are left out; `with_log`: logs are included.
    pub fn new(only_top_call: bool, with_log: bool, budget: Budget) -> Self {
        let clock = Clock::new(budget);
        Self { only_top_call, with_log, clock, open: Vec::new(), skipped: 0, root: None, bytes: 0 }
    }

    fn begin(&mut self, call: Call) {
        if self.only_top_call && !self.open.is_empty() {
            self.skipped += 1;
            return;
        }
        self.bytes += 300 + 2 * call.input.len();
        self.open.push(call);
    }

    fn end(&mut self, result: InstructionResult, output: &Bytes, gas: &Gas, created: Option<Address>) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        let Some(mut call) = self.open.pop() else { return };
        call.gas_used = gas.total_gas_spent();
        if result.is_ok() {
            call.to = created.or(call.to);
            call.output = output.clone();
        } else {
            call.error = Some(instruction_words(result));
            // A failed call has no logs, nor have its inner calls.
            clear_logs(&mut call);
            if result == InstructionResult::Revert {
                call.output = output.clone();
            }
        }
        self.bytes += 2 * call.output.len();
        match self.open.last_mut() {
            Some(parent) => parent.calls.push(call),
            None => self.root = Some(call),
        }
    }

    /// Returns the whole tree.
    pub fn finish(self, gas_limit: u64, result: &ExecutionResult) -> Result<String, Failure> {
        self.clock.check(self.bytes)?;
        let Some(mut root) = self.root else { return Err(Failure::server("tracing failed: nothing was called")) };
        root.gas = gas_limit;
        root.gas_used = result.tx_gas_used();
        Ok(json::object(|object| push_call(object, &root)))
    }
}

fn clear_logs(call: &mut Call) {
    call.logs.clear();
    call.calls.iter_mut().for_each(clear_logs);
}

fn push_call(object: &mut Object<'_>, call: &Call) {
    object.data("from", call.from.as_slice());
    object.quantity("gas", call.gas);
    object.quantity("gasUsed", call.gas_used);
    if let Some(to) = call.to {
        object.data("to", to.as_slice());
    }
    object.data("input", &call.input);
    if !call.output.is_empty() {
        object.data("output", &call.output);
    }
    if let Some(error) = &call.error {
        object.text("error", error);
        if let Some(reason) = revert_reason(&call.output) {
            object.text("revertReason", &reason);
        }
    }
    if !call.calls.is_empty() {
        object.array("calls", &call.calls, |out, call| json::push_object(out, |object| push_call(object, call)));
    }
    if !call.logs.is_empty() {
        object.array("logs", &call.logs, |out, (log, position)| {
            json::push_object(out, |object| {
                object.data("address", log.address.as_slice());
                object.array("topics", log.topics(), |out, topic| json::push_data(out, topic.as_slice()));
                object.data("data", &log.data.data);
                object.quantity("position", *position as u64);
            });
        });
    }
    if let Some(value) = &call.value {
        object.quantity_256("value", value);
    }
    object.text("type", call.kind);
}

impl<CTX: ContextTr> Inspector<CTX> for Calls {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        self.clock.tick(interpreter, self.bytes);
    }

    fn call(&mut self, context: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        let (kind, value) = match inputs.scheme {
            CallScheme::Call => ("CALL", inputs.transfer_value()),
            CallScheme::CallCode => ("CALLCODE", inputs.transfer_value()),
            CallScheme::DelegateCall => ("DELEGATECALL", inputs.apparent_value()),
            CallScheme::StaticCall => ("STATICCALL", None),
        };
        // The caller owns the storage, the callee the code.
        let (from, to) = match inputs.scheme {
            CallScheme::DelegateCall | CallScheme::CallCode => (inputs.target_address, inputs.bytecode_address),
            _ => (inputs.caller, inputs.target_address),
        };
        let input = inputs.input.bytes(context);
        self.begin(Call { kind, from, to: Some(to), value, gas: inputs.gas_limit, input, ..Default::default() });
        None
    }

    fn call_end(&mut self, _: &mut CTX, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(outcome.result.result, &outcome.result.output, &outcome.result.gas, None);
    }

    fn create(&mut self, _: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.begin(Call {
            kind: if matches!(inputs.scheme(), CreateScheme::Create2 { .. }) { "CREATE2" } else { "CREATE" },
            from: inputs.caller(),
            value: Some(inputs.value()),
            gas: inputs.gas_limit(),
            input: inputs.init_code().clone(),
            ..Default::default()
        });
        None
    }

    fn create_end(&mut self, _: &mut CTX, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.end(outcome.result.result, &outcome.result.output, &outcome.result.gas, outcome.address);
    }

    fn log(&mut self, _: &mut CTX, log: Log) {
        if self.with_log
            && self.skipped == 0
            && let Some(call) = self.open.last_mut()
        {
            self.bytes += 300 + 2 * log.data.data.len();
            call.logs.push((log, call.calls.len()));
        }
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        if let Some(call) = self.open.last_mut().filter(|_| !self.only_top_call) {
            self.bytes += 300;
            call.calls.push(Call {
                kind: "SELFDESTRUCT",
                from: contract,
                to: Some(target),
                value: Some(value),
                ..Default::default()
            });
        }
    }
}
