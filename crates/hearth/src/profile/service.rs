//! The profiler in the node: samples its own process when its owner asks.
//!
//! reads   this process's stacks; the ledger's count of transactions and its slots
//! writes  the last profile
//! memory  none before the first; then the last profile, at most [`STACKS_MAX`] stacks, until the
//!         next is asked for or [`KEPT`] has passed, and the sampler's table
//!
//! A second without samples comes first, so that the profile can say what the node did without.

mod told;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hearth_ledger::{Commitment, Ledger};
use hearth_profile::{Profile, Sampling};
use hearth_rpc::{ProfileFormat, ProfilePlan, ProfileSpan, Profiler};
use serde_json::Value;

use super::{BLOCK_MAX, STACKS_MAX};

/// How long is looked at what the node does without samples.
const BEFORE: Duration = Duration::from_secs(1);
/// How often it is looked whether a block has begun or ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long a profile is kept that nobody fetches, or fetches again.
const KEPT: Duration = Duration::from_secs(600);

/// Why there is nothing to be had.
const STOPPED_AT_ONCE: &str = "it was stopped before the first sample";

const _: () = assert!(hearth_rpc::PROFILE_HZ_MAX == hearth_profile::HZ_MAX as u64);

/// Samples the process that it is in.
pub struct Service {
    ledger: Arc<Ledger>,
    /// The kinds of tile that there are.
    kinds: Vec<String>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when another profile begins, and when one is to end early.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of the last profile; the first is 1.
    id: u64,
    stage: Stage,
    /// It is to end early.
    stopped: bool,
}

#[derive(Default)]
enum Stage {
    #[default]
    None,
    Running {
        plan: ProfilePlan,
        begun: Instant,
    },
    Done {
        taken: Arc<Taken>,
        at: Instant,
    },
    Failed(String),
    Expired,
}

/// A profile, and what the node did meanwhile.
struct Taken {
    profile: Profile,
    plan: ProfilePlan,
    slot: Option<u64>,
    /// It was ended early.
    stopped: bool,
    txn_per_s_before: f64,
    txn_per_s: f64,
}

impl Service {
    /// For a node of these kinds of tile.
    pub fn new(ledger: Arc<Ledger>, kinds: Vec<String>) -> Self {
        Self { ledger, kinds, shared: Arc::default() }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was taken, and lets go of it in the end.
    fn keep(&self, id: u64, stage: Stage) {
        let mut state = self.lock();
        state.stage = stage;
        let waited = self.changed.wait_timeout_while(state, KEPT, |state| state.id == id);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.id == id {
            state.stage = Stage::Expired;
        }
    }
}

/// Whether a profile under way is to end early.
struct Stop<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Stop<'_> {
    fn is_set(&self) -> bool {
        let state = self.shared.lock();
        state.stopped && state.id == self.id
    }

    /// Sleeps for so long, less when it is set.
    fn sleep(&self, time: Duration) {
        let state = self.shared.lock();
        let is_going_on = |state: &mut State| !(state.stopped && state.id == self.id);
        drop(self.shared.changed.wait_timeout_while(state, time, is_going_on));
    }
}

impl Profiler for Service {
    fn start(&self, plan: ProfilePlan) -> Result<Value, String> {
        if let Some(tile) = plan.tile.as_ref().filter(|tile| !self.kinds.contains(tile)) {
            return Err(format!("there is no tile `{tile}`; there are {}", self.kinds.join(", ")));
        }
        let mut state = self.shared.lock();
        if let Stage::Running { plan, begun } = &state.stage {
            return Err(told::under_way(state.id, plan, begun.elapsed()));
        }
        let id = state.id + 1;
        let (ledger, shared, asked) = (self.ledger.clone(), self.shared.clone(), plan.clone());
        let thread = std::thread::Builder::new().name("profiler".into()).spawn(move || {
            shared.keep(id, stage_after(|| take(&ledger, asked, &Stop { shared: &shared, id })));
        });
        thread.map_err(|why| format!("no thread for the profiler: {why}"))?;
        *state = State { id, stage: Stage::Running { plan, begun: Instant::now() }, stopped: false };
        self.shared.changed.notify_all();
        Ok(told::state(&state))
    }

    fn fetch(&self, format: ProfileFormat, id: Option<u64>) -> Result<Value, String> {
        let state = self.shared.lock();
        if let Some(id) = id.filter(|id| *id != state.id) {
            return Err(told::not_kept(id, state.id));
        }
        let told = told::state(&state);
        let Stage::Done { taken, .. } = &state.stage else { return Ok(told) };
        let taken = taken.clone();
        // Drawing takes its time; nobody waits for it.
        drop(state);
        Ok(taken.drawn(told, format))
    }

    fn stop(&self, id: Option<u64>) -> Result<Value, String> {
        let mut state = self.shared.lock();
        if let Some(id) = id.filter(|id| *id != state.id) {
            return Err(told::not_kept(id, state.id));
        }
        state.stopped = true;
        self.shared.changed.notify_all();
        Ok(told::state(&state))
    }
}

/// What has come of taking a profile. A panic ends it as well: nothing else would ever end it, nor let another begin.
fn stage_after(take: impl FnOnce() -> Result<Taken, String>) -> Stage {
    match catch_unwind(AssertUnwindSafe(take)) {
        Ok(Ok(taken)) => Stage::Done { taken: Arc::new(taken), at: Instant::now() },
        Ok(Err(why)) => Stage::Failed(why),
        Err(_) => Stage::Failed("the profiler panicked; the node's standard error says where".into()),
    }
}

/// Takes a profile, from the first second to the last, or until it is stopped.
fn take(ledger: &Ledger, plan: ProfilePlan, stop: &Stop<'_>) -> Result<Taken, String> {
    let count = || (Instant::now(), ledger.transaction_count(Commitment::Processed));
    let rate = |(since, then): (Instant, u64)| count().1.saturating_sub(then) as f64 / since.elapsed().as_secs_f64();
    let quiet = count();
    stop.sleep(BEFORE);
    let txn_per_s_before = rate(quiet);
    let is_stopped = || stop.is_set();
    let (slot, span) = match plan.span {
        _ if stop.is_set() => return Err(STOPPED_AT_ONCE.into()),
        ProfileSpan::Block => (Some(next_block(|| slot_now(ledger), is_stopped, BLOCK_MAX)?), Duration::ZERO),
        ProfileSpan::Seconds(seconds) => (None, Duration::from_secs(seconds)),
    };
    let begun = count();
    let sampling = Sampling::start(plan.hz).map_err(|why| why.to_string())?;
    match slot {
        Some(slot) => end_of(slot, || slot_now(ledger), is_stopped, BLOCK_MAX)?,
        None => stop.sleep(span),
    }
    let (txn_per_s, stopped) = (rate(begun), stop.is_set());
    let profile = sampling.end().map_err(|why| why.to_string())?.name(STACKS_MAX);
    let profile = plan.tile.as_ref().map_or(profile.clone(), |tile| profile.of_tile(tile));
    Ok(Taken { profile, plan, slot, stopped, txn_per_s_before, txn_per_s })
}

type Slot = Option<u64>;

/// Waits until another block begins; gives its slot.
fn next_block(now: impl Fn() -> Slot, stopped: impl Fn() -> bool, most: Duration) -> Result<u64, String> {
    let standing = now();
    let begun = || match stopped() {
        true => Some(Err(STOPPED_AT_ONCE.to_owned())),
        false => now().filter(|slot| Some(*slot) != standing).map(Ok),
    };
    awaited(begun, most).unwrap_or_else(|| Err(format!("no block began within {} s", most.as_secs())))
}

/// Waits until the block of this slot has ended, or it is stopped.
fn end_of(slot: u64, now: impl Fn() -> Slot, stopped: impl Fn() -> bool, most: Duration) -> Result<(), String> {
    awaited(|| (stopped() || now() != Some(slot)).then_some(()), most)
        .ok_or_else(|| format!("the block of slot {slot} did not end within {} s", most.as_secs()))
}

/// Looks until there is something, for so long at most.
fn awaited<T>(look: impl Fn() -> Option<T>, most: Duration) -> Option<T> {
    let until = Instant::now() + most;
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= until {
            return found;
        }
        sleep(LOOK_EVERY);
    }
}

fn slot_now(ledger: &Ledger) -> Option<u64> {
    ledger.working_bank().map(|bank| bank.slot())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_profiler_that_panics_has_failed() {
        assert!(matches!(stage_after(|| panic!("as it may")), Stage::Failed(why) if why.contains("panicked")));
        assert!(matches!(stage_after(|| Err("no".into())), Stage::Failed(why) if why == "no"));
    }

    #[test]
    fn blocks_that_do_not_begin_or_end_are_told() {
        let looks = Cell::new(0);
        let now = || [Some(7), Some(7), None, Some(8)][looks.replace(looks.get() + 1)];
        let (goes_on, stopped) = (|| false, || true);
        assert_eq!(next_block(now, goes_on, BLOCK_MAX), Ok(8));
        let never = next_block(|| Some(7), goes_on, Duration::ZERO).unwrap_err();
        assert_eq!(never, "no block began within 0 s");
        assert_eq!(next_block(|| Some(7), stopped, BLOCK_MAX), Err(STOPPED_AT_ONCE.into()));
        assert_eq!(end_of(7, || None, goes_on, Duration::ZERO), Ok(()));
        let never = end_of(7, || Some(7), goes_on, Duration::ZERO).unwrap_err();
        assert_eq!(never, "the block of slot 7 did not end within 0 s");
        assert_eq!(end_of(7, || Some(7), stopped, BLOCK_MAX), Ok(()));
    }

    #[test]
    fn a_stop_is_heard_by_the_profile_that_it_is_for() {
        let shared = Shared::default();
        *shared.lock() = State { id: 2, stopped: true, ..State::default() };
        let begun = Instant::now();
        let stop = |id| Stop { shared: &shared, id };
        stop(2).sleep(BLOCK_MAX);
        assert!(stop(2).is_set() && begun.elapsed() < BLOCK_MAX);
        stop(1).sleep(Duration::from_millis(1));
        assert!(!stop(1).is_set(), "another's");
    }
}
