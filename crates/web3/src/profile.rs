//! The profiler in the node: samples its own process when its owner asks.
//!
//! reads   this process's stacks; the chain's blocks and its count of transactions
//! writes  the last profile
//! memory  none before the first; then the last profile, at most [`STACKS_MAX`] stacks, and the sampler's table
//! drops   the profile before, when another begins
//! source  the methods of the node that speaks Solana's RPC
//!
//! Samples are taken by CPU time: while nothing is done, there are none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hearth_evm::chain::{Chain, ChainEvent};
use hearth_profile::{Profile, Sampling};
use serde_json::{Value, json};

/// The longest profile, seconds.
pub const SECONDS_MAX: u64 = 600;
/// More stacks of one profile are summed up by thread.
const STACKS_MAX: usize = 10_000;
/// The longest wait for a block.
const BLOCK_MAX: Duration = Duration::from_secs(60);
/// How often who waits for a block looks whether it shall wait no longer.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// From now on, so many seconds.
    Seconds(u64),
    /// From now until the next block is there.
    Block,
    /// From when the next block is there on, so many seconds.
    FromBlock(u64),
}

/// How to tell a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Its figures alone.
    Summary,
    /// A flame graph.
    Svg,
    /// A line a stack.
    Folded,
}

/// Samples the process that it is in; one profile at a time.
#[derive(Clone, Default)]
pub struct Profiler {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of the last profile; the first is 1.
    id: u64,
    /// It is to end early.
    stopped: bool,
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    #[default]
    None,
    /// It waits for a block, or `is_sampling`.
    Running {
        span: Span,
        is_sampling: bool,
    },
    Done(Arc<Taken>),
    Failed(String),
}

/// A profile, and what the node did meanwhile.
struct Taken {
    profile: Profile,
    span: Span,
    block: Option<u64>,
    stopped: bool,
    txn_per_s: f64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, stage: Stage) {
        self.lock().stage = stage;
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Sleeps for so long, less when it is stopped.
    fn sleep(&self, time: Duration) {
        let state = self.lock();
        drop(self.changed.wait_timeout_while(state, time, |state| !state.stopped));
    }
}

impl Profiler {
    /// Begins, and gives where that stands; the reason in words where it cannot. `hz` samples a second of CPU time.
    pub fn start(&self, chain: &Chain, span: Span, hz: u32) -> Result<Value, String> {
        let mut state = self.shared.lock();
        if let Stage::Running { span, .. } = state.stage {
            return Err(format!("profile {} is under way ({}); there is one at a time", state.id, in_words(span)));
        }
        let (chain, shared) = (chain.clone(), self.shared.clone());
        let thread = std::thread::Builder::new().name("profiler".into()).spawn(move || {
            // A panic ends it as well: nothing else would ever end it, nor let another begin.
            let taken = catch_unwind(AssertUnwindSafe(|| take(&chain, &shared, span, hz)));
            shared.set(match taken {
                Ok(Ok(taken)) => Stage::Done(Arc::new(taken)),
                Ok(Err(why)) => Stage::Failed(why),
                Err(_) => Stage::Failed("the profiler panicked; the node's standard error says where".into()),
            });
        });
        thread.map_err(|why| format!("no thread for the profiler: {why}"))?;
        *state = State { id: state.id + 1, stopped: false, stage: Stage::Running { span, is_sampling: false } };
        Ok(told(&state))
    }

    /// Ends the one under way with the samples that there are; it is `done` a moment later.
    pub fn stop(&self, id: Option<u64>) -> Result<Value, String> {
        let mut state = self.shared.lock();
        is_last(&state, id)?;
        state.stopped = true;
        self.shared.changed.notify_all();
        Ok(told(&state))
    }

    /// Where the last one stands, with the profile itself once it is `done`.
    pub fn fetch(&self, format: Format, id: Option<u64>) -> Result<Value, String> {
        let state = self.shared.lock();
        is_last(&state, id)?;
        let mut told = told(&state);
        let Stage::Done(taken) = &state.stage else { return Ok(told) };
        let taken = taken.clone();
        // Drawing takes its time; nobody waits for it.
        drop(state);
        let text = match format {
            Format::Summary => return Ok(told),
            Format::Folded => Ok(taken.profile.folded()),
            Format::Svg => taken.profile.svg(&format!("hearth: {}", in_words(taken.span))),
        };
        match text {
            Ok(text) => told["profile"] = text.into(),
            Err(why) => told = json!({ "state": "failed", "id": told["id"], "why": why.to_string() }),
        }
        Ok(told)
    }
}

fn is_last(state: &State, id: Option<u64>) -> Result<(), String> {
    match id {
        Some(id) if id != state.id => Err(format!("there is no profile {id}: the last is {}", state.id)),
        _ => Ok(()),
    }
}

fn take(chain: &Chain, shared: &Shared, span: Span, hz: u32) -> Result<Taken, String> {
    let events = chain.subscribe();
    let next_block = || {
        let until = Instant::now() + BLOCK_MAX;
        while !shared.is_stopped() {
            if let Some(ChainEvent::Block(block)) = events.next_within(LOOK_EVERY) {
                return Ok(Some(block.number()));
            }
            if Instant::now() >= until {
                return Err(format!("no block came within {} s", BLOCK_MAX.as_secs()));
            }
        }
        Ok(None)
    };
    let first = if let Span::FromBlock(_) = span { next_block()? } else { None };
    if shared.is_stopped() {
        return Err("it was stopped before the first sample".into());
    }
    let (begun, txs) = (Instant::now(), chain.metrics().txs);
    let sampling = Sampling::start(hz).map_err(|why| why.to_string())?;
    shared.set(Stage::Running { span, is_sampling: true });
    let block = match span {
        Span::Block => next_block()?,
        Span::Seconds(seconds) | Span::FromBlock(seconds) => {
            shared.sleep(Duration::from_secs(seconds));
            first
        }
    };
    let txn_per_s = chain.metrics().txs.saturating_sub(txs) as f64 / begun.elapsed().as_secs_f64().max(1e-9);
    let stopped = shared.is_stopped();
    let profile = sampling.end().map_err(|why| why.to_string())?.name(STACKS_MAX);
    Ok(Taken { profile, span, block, stopped, txn_per_s })
}

/// Where it stands.
fn told(state: &State) -> Value {
    let id = state.id;
    match &state.stage {
        Stage::None => json!({ "state": "none" }),
        Stage::Running { span, is_sampling } => {
            json!({ "state": "running", "id": id, "asked": in_words(*span), "sampling": is_sampling })
        }
        Stage::Failed(why) => json!({ "state": "failed", "id": id, "why": why }),
        Stage::Done(taken) => {
            let Taken { profile, span, block, stopped, txn_per_s } = &**taken;
            json!({
                "state": "done",
                "id": id,
                "asked": in_words(*span),
                "block": block,
                "stopped": stopped,
                "seconds": profile.seconds,
                "hz": profile.hz,
                "samples": profile.samples(),
                "samplesTaken": profile.taken,
                "samplesDue": profile.due(),
                "cpuSeconds": profile.cpu_seconds,
                "sampleMicros": profile.sample_ns / 1e3,
                "samplerShare": profile.share_of_sampler(),
                "namingSeconds": profile.naming_seconds,
                "txnPerSecond": txn_per_s,
            })
        }
    }
}

/// What is asked for.
fn in_words(span: Span) -> String {
    match span {
        Span::Seconds(seconds) => format!("{seconds} s"),
        Span::Block => "until the next block".into(),
        Span::FromBlock(seconds) => format!("{seconds} s from the next block on"),
    }
}

#[cfg(test)]
mod tests {
    use hearth_evm::chain::{BlockTime, ChainConfig};
    use hearth_evm::genesis::Genesis;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Waits until the stage is as it should be.
    fn until(profiler: &Profiler, is: impl Fn(&Stage) -> bool) {
        let state = profiler.shared.lock();
        let (_state, waited) =
            profiler.shared.changed.wait_timeout_while(state, PATIENCE, |state| !is(&state.stage)).unwrap();
        assert!(!waited.timed_out());
    }

    #[test]
    fn it_begins_with_the_next_block_and_ends_when_it_is_told() {
        let genesis = Genesis::dev(5, &[], 500_000_000);
        let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
        let chain = Chain::open(config).expect("it opens");
        let profiler = Profiler::default();
        assert_eq!(profiler.fetch(Format::Svg, None).unwrap(), json!({ "state": "none" }));
        let begun = profiler.start(&chain, Span::FromBlock(SECONDS_MAX), 99).unwrap();
        assert_eq!(begun["asked"], "600 s from the next block on");
        let busy = profiler.start(&chain, Span::Block, 99).unwrap_err();
        assert!(busy.contains("profile 1 is under way (600 s from the next block on)"), "{busy}");
        // Its subscription may come after a block or two.
        let is_sampling = |stage: &Stage| matches!(stage, Stage::Running { is_sampling: true, .. });
        let deadline = Instant::now() + PATIENCE;
        while !is_sampling(&profiler.shared.lock().stage) {
            assert!(Instant::now() < deadline);
            chain.mine().expect("it is made");
        }
        assert_eq!(profiler.stop(Some(2)).unwrap_err(), "there is no profile 2: the last is 1");
        profiler.stop(Some(1)).unwrap();
        until(&profiler, |stage| matches!(stage, Stage::Done(_)));
        let done = profiler.fetch(Format::Folded, Some(1)).unwrap();
        assert!(done["state"] == "done" && done["stopped"] == true && done["profile"].is_string(), "{done}");
        assert!(done["block"].as_u64() >= Some(1), "{done}");
        // The next one takes its place; one that is stopped while it waits has nothing.
        profiler.start(&chain, Span::FromBlock(1), 99).unwrap();
        profiler.stop(None).unwrap();
        until(&profiler, |stage| matches!(stage, Stage::Failed(why) if why.contains("before the first sample")));
    }
}
