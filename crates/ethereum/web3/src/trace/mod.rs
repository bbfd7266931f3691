//! Tracers: the execution of a transaction, step by step or call by call.
//!
//! reads   the options of `debug_trace*`
//! writes  a tracer's JSON
//! memory  the text of a trace, at most [`Budget`]
//! drops   traces that are too long or take too long: an error
//! source  `eth/tracers` of go-ethereum 1.16, whose native tracers these are; those in JavaScript are not served

mod calls;
mod flat;
mod frames;
mod mux;
mod opcodes;
mod prestate;
mod selectors;
mod state_diff;
mod steps;
mod transfers;
mod vm;
mod words;

use hearth_evm::exec::{BlockEnv, BlockExtras, Checks, MessageContext, SimulateError, SimulationResult, simulate};
use revm::DatabaseRef;
use revm::Inspector;
use revm::context::TxEnv;
use revm::context::result::ExecutionResult;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::json;

pub use flat::{ErrorStyle, FramePosition, call_type, push_frame};
#[cfg(test)]
pub use frames::frame_of;
pub use frames::{Frame, Frames, Kind};
pub use opcodes::OpcodeGas;
pub use state_diff::state_diff;
pub use transfers::Transfers;
pub use vm::VmSteps;
pub use words::{DeadlineInspector, halt_words, is_precompile};

/// The limits of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Maximum bytes of its text.
    pub bytes: usize,
    /// The time after which the trace is given up.
    pub deadline: Deadline,
}

/// The options of a trace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    tracer: Option<String>,
    #[serde(deserialize_with = "read_config")]
    tracer_config: TracerConfig,
    enable_memory: bool,
    disable_stack: bool,
    disable_storage: bool,
    enable_return_data: bool,
    limit: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TracerConfig {
    only_top_call: bool,
    with_log: bool,
    diff_mode: bool,
    disable_code: bool,
    disable_storage: bool,
    convert_parity_errors: bool,
    include_precompiles: bool,
    /// For the mux tracer: the configurations of its tracers, by name.
    #[serde(skip)]
    each: Vec<(String, TracerConfig)>,
}

/// Reads a configuration: its own fields, and for the mux tracer the configurations by tracer's name.
fn read_config<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TracerConfig, D::Error> {
    let Some(json) = Option::<&RawValue>::deserialize(deserializer)? else { return Ok(TracerConfig::default()) };
    let mut config: TracerConfig = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
    config.each = mux::read(json.get()).map_err(D::Error::custom)?;
    Ok(config)
}

/// Any inspector, as a trait object: the interpreter is compiled once for all of them.
pub type Watcher<'a> = dyn for<'b> Inspector<MessageContext<'b>> + 'a;

/// A message to trace, with its block and state.
pub struct Subject<'a, D> {
    /// The state before it.
    pub db: &'a D,
    /// The environment of the message's block.
    pub env: &'a BlockEnv,
    /// The block's other inputs.
    pub extras: &'a BlockExtras,
    /// The message, as revm executes it.
    pub tx: TxEnv,
    /// The checks of the message before its execution.
    pub checks: Checks,
    /// The place in the chain, if it is a transaction of a block.
    pub place: Option<FramePosition>,
}

impl<D: DatabaseRef> Subject<'_, D> {
    /// Executes the message, and calls `inspector` at each step.
    pub fn run(&self, inspector: &mut Watcher<'_>) -> Result<SimulationResult, Failure> {
        simulate(self.db, self.env, self.extras, self.tx.clone(), self.checks, inspector).map_err(|why| match why {
            SimulateError::State(why) => Failure::state(why),
            why => Failure::server(format!("tracing failed: {why}")),
        })
    }
}

impl Options {
    /// Traces one message; returns the tracer's JSON, and the execution's result.
    pub fn trace<D: DatabaseRef>(
        &self,
        subject: &Subject<'_, D>,
        budget: Budget,
    ) -> Result<(String, SimulationResult), Failure> {
        let config = &self.tracer_config;
        match self.tracer.as_deref() {
            None | Some("") => {
                let mut steps = steps::Steps::new(self, budget);
                let done = subject.run(&mut steps)?;
                Ok((steps.finish(&done.result)?, done))
            }
            Some("callTracer") => {
                let mut calls = calls::Calls::new(config.only_top_call, config.with_log, budget);
                let done = subject.run(&mut calls)?;
                Ok((calls.finish(subject.tx.gas_limit, &done.result)?, done))
            }
            Some("flatCallTracer") => {
                let mut frames = Frames::new(config.include_precompiles, budget);
                let done = subject.run(&mut frames)?;
                let mut frames = frames.finish()?;
                // The outermost frame has the gas of the whole transaction.
                frames[0].gas = subject.tx.gas_limit;
                frames[0].gas_used = done.result.tx_gas_used();
                let words = if config.convert_parity_errors { ErrorStyle::Parity } else { ErrorStyle::Geth };
                let push = |out: &mut String, frame: &Frame| push_frame(out, frame, subject.place.as_ref(), words);
                Ok((json::array(&frames, push), done))
            }
            Some("muxTracer") => mux::trace(&config.each, subject, budget),
            Some("4byteTracer") => {
                let mut selectors = selectors::Selectors::new(budget);
                let done = subject.run(&mut selectors)?;
                Ok((selectors.finish()?, done))
            }
            Some("prestateTracer") => {
                let mut watch = DeadlineInspector::new(budget);
                let done = subject.run(&mut watch)?;
                watch.check()?;
                let wanted = prestate::PrestateFields { code: !config.disable_code, storage: !config.disable_storage };
                let text = match config.diff_mode {
                    true => prestate::difference(subject.db, &done.state, wanted, budget.bytes),
                    false => prestate::before(subject.db, &done.state, wanted, budget.bytes),
                };
                Ok((text?, done))
            }
            Some("noopTracer") => {
                let mut watch = DeadlineInspector::new(budget);
                let done = subject.run(&mut watch)?;
                watch.check()?;
                Ok(("{}".into(), done))
            }
            Some(other) => {
                let shown: String = other.chars().take(64).collect();
                Err(Failure::server(format!(
                    "tracer {shown:?} is not served: callTracer, flatCallTracer, prestateTracer, 4byteTracer, noopTracer, \
                     muxTracer and the default are"
                )))
            }
        }
    }
}

/// Returns a message's output.
pub fn output_of(result: &ExecutionResult) -> String {
    json::data(result.output().map(|output| &output[..]).unwrap_or_default())
}
