//! Tracers: what a transaction did, step by step or call by call.
//!
//! reads   the options of `debug_trace*`
//! writes  a tracer's JSON
//! memory  the text of a trace, at most [`Budget`]
//! drops   traces that are too long or take too long: an error
//! source  `eth/tracers` of go-ethereum 1.16, whose native tracers these are; those in JavaScript are not served

mod calls;
mod prestate;
mod selectors;
mod steps;
mod transfers;
mod words;

use hearth_evm::exec::{BlockEnv, BlockExtras, Checks, SimulateError, Simulated, simulate};
use revm::DatabaseRef;
use revm::Inspector;
use revm::context::TxEnv;
use revm::context::result::ExecutionResult;
use revm::database_interface::WrapDatabaseRef;
use revm::handler::MainnetContext;
use serde::Deserialize;

use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::json;

pub use transfers::Transfers;
pub use words::{Watchman, halt_words};

/// What a trace may take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes of its text.
    pub bytes: usize,
    /// Until when.
    pub deadline: Deadline,
}

/// How to trace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    tracer: Option<String>,
    tracer_config: TracerConfig,
    enable_memory: bool,
    disable_stack: bool,
    disable_storage: bool,
    enable_return_data: bool,
    limit: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TracerConfig {
    only_top_call: bool,
    with_log: bool,
    diff_mode: bool,
    disable_code: bool,
    disable_storage: bool,
}

/// What is traced, and on what.
pub struct Subject<'a, D> {
    /// The state before it.
    pub db: &'a D,
    /// Its block.
    pub env: &'a BlockEnv,
    /// What the block has besides.
    pub extras: &'a BlockExtras,
    /// The message.
    pub tx: TxEnv,
    /// What is asked of it.
    pub checks: Checks,
}

impl<'a, D: DatabaseRef> Subject<'a, D> {
    fn run<I>(&self, inspector: I) -> Result<Simulated, Failure>
    where
        I: Inspector<MainnetContext<WrapDatabaseRef<&'a D>>>,
    {
        simulate(self.db, self.env, self.extras, self.tx.clone(), self.checks, inspector).map_err(|why| match why {
            SimulateError::State(why) => Failure::state(why),
            why => Failure::server(format!("tracing failed: {why}")),
        })
    }
}

impl Options {
    /// Traces one message: the tracer's JSON, and what the message did.
    pub fn trace<D: DatabaseRef>(
        &self,
        subject: &Subject<'_, D>,
        budget: Budget,
    ) -> Result<(String, Simulated), Failure> {
        let config = self.tracer_config;
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
            Some("4byteTracer") => {
                let mut selectors = selectors::Selectors::new(budget);
                let done = subject.run(&mut selectors)?;
                Ok((selectors.finish()?, done))
            }
            Some("prestateTracer") => {
                let mut watch = Watchman::new(budget);
                let done = subject.run(&mut watch)?;
                watch.check()?;
                let wanted = prestate::Wanted { code: !config.disable_code, storage: !config.disable_storage };
                let text = match config.diff_mode {
                    true => prestate::difference(subject.db, &done.state, wanted, budget.bytes),
                    false => prestate::before(subject.db, &done.state, wanted, budget.bytes),
                };
                Ok((text?, done))
            }
            Some("noopTracer") => {
                let mut watch = Watchman::new(budget);
                let done = subject.run(&mut watch)?;
                watch.check()?;
                Ok(("{}".into(), done))
            }
            Some(other) => {
                let shown: String = other.chars().take(64).collect();
                Err(Failure::server(format!(
                    "tracer {shown:?} is not served: callTracer, prestateTracer, 4byteTracer, noopTracer and the \
                     default are"
                )))
            }
        }
    }
}

/// What a message gave back.
fn output_of(result: &ExecutionResult) -> String {
    json::data(result.output().map(|output| &output[..]).unwrap_or_default())
}
