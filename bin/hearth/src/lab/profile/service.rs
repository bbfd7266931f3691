//! The profiler in the node: samples its own process at the owner's request.
//!
//! reads   this process's stacks; the ledger's count of transactions and its slots
//! writes  profiles, served through [`Control`]
//! memory  none before the first profile; then the last profile, at most [`STACKS_MAX`] stacks, until the
//!         next request or until its retention ends, and the sampler's table
//!
//! One second without sampling comes first, so that the profile can report the node's undisturbed rate.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hearth_bench::profile::STACKS_MAX;
use hearth_ledger::{Commitment, Ledger};
use hearth_profile::Sampling;
use hearth_profile::control::{Control, FinishedProfile, Format, ProfileRequest, STOPPED_AT_ONCE, UnderWay};
use hearth_rpc::{ProfileFormat, ProfilePlan, ProfileSpan, Profiler};
use serde_json::{Value, json};

use super::BLOCK_MAX;

/// How long the baseline without sampling lasts.
const BEFORE: Duration = Duration::from_secs(1);
/// How often it is looked whether a block has begun or ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);

const _: () = assert!(hearth_rpc::PROFILE_HZ_MAX == hearth_profile::HZ_MAX as u64);

/// Samples the process that it is in.
pub struct Service {
    ledger: Arc<Ledger>,
    /// The kinds of tile that there are.
    kinds: Vec<String>,
    control: Control,
}

impl Service {
    /// For a node of these kinds of tile.
    pub fn new(ledger: Arc<Ledger>, kinds: Vec<String>) -> Self {
        Self { ledger, kinds, control: Control::default() }
    }
}

impl Profiler for Service {
    fn start(&self, plan: ProfilePlan) -> Result<Value, String> {
        if let Some(tile) = plan.tile.as_ref().filter(|tile| !self.kinds.contains(tile)) {
            return Err(format!("there is no tile `{tile}`; there are {}", self.kinds.join(", ")));
        }
        let ledger = self.ledger.clone();
        self.control.start(request_of(&plan), move |under_way| take(&ledger, &plan, under_way))
    }

    fn fetch(&self, format: ProfileFormat, id: Option<u64>) -> Result<Value, String> {
        let format = match format {
            ProfileFormat::Summary => Format::Summary,
            ProfileFormat::Svg => Format::Svg,
            ProfileFormat::Folded => Format::Folded,
        };
        self.control.fetch(format, id)
    }

    fn stop(&self, id: Option<u64>) -> Result<Value, String> {
        self.control.stop(id)
    }
}

/// Translates a plan into the profiler's terms.
fn request_of(plan: &ProfilePlan) -> ProfileRequest {
    let (span, lasts) = match plan.span {
        ProfileSpan::Seconds(seconds) => (format!("{seconds} s"), Some(BEFORE + Duration::from_secs(seconds))),
        ProfileSpan::Block => ("the next block".into(), None),
    };
    let words = match &plan.tile {
        Some(tile) => format!("{span} of {tile}"),
        None => span,
    };
    ProfileRequest { words, lasts }
}

/// Takes a profile, from the first second to the last, or until it is stopped.
fn take(ledger: &Ledger, plan: &ProfilePlan, under_way: &UnderWay<'_>) -> Result<FinishedProfile, String> {
    let count = || (Instant::now(), ledger.transaction_count(Commitment::Processed));
    let rate = |(since, then): (Instant, u64)| count().1.saturating_sub(then) as f64 / since.elapsed().as_secs_f64();
    let quiet = count();
    under_way.sleep(BEFORE);
    let txn_per_s_before = rate(quiet);
    let is_stopped = || under_way.is_stopped();
    let (slot, span) = match plan.span {
        _ if is_stopped() => return Err(STOPPED_AT_ONCE.into()),
        ProfileSpan::Block => (Some(next_block(|| slot_now(ledger), is_stopped, BLOCK_MAX)?), Duration::ZERO),
        ProfileSpan::Seconds(seconds) => (None, Duration::from_secs(seconds)),
    };
    let begun = count();
    let sampling = Sampling::start(plan.hz).map_err(|why| why.to_string())?;
    under_way.samples_begin();
    match slot {
        Some(slot) => end_of(slot, || slot_now(ledger), is_stopped, BLOCK_MAX)?,
        None => under_way.sleep(span),
    }
    let txn_per_s = rate(begun);
    let profile = sampling.end().map_err(|why| why.to_string())?.name(STACKS_MAX);
    let profile = plan.tile.as_ref().map_or(profile.clone(), |tile| profile.of_tile(tile));
    let figures = json!({
        "slot": slot,
        "tiles": profile.tiles(),
        "txnPerSecondBefore": txn_per_s_before,
        "txnPerSecond": txn_per_s,
    });
    Ok(FinishedProfile { profile, figures: figures.as_object().cloned().unwrap_or_default() })
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
    fn requested_profile_is_described() {
        let plan = |span, tile: Option<&str>| ProfilePlan { span, tile: tile.map(Into::into), hz: 99 };
        let seconds = request_of(&plan(ProfileSpan::Seconds(60), Some("sign")));
        assert_eq!((seconds.words.as_str(), seconds.lasts), ("60 s of sign", Some(Duration::from_secs(61))));
        let block = request_of(&plan(ProfileSpan::Block, None));
        assert_eq!((block.words.as_str(), block.lasts), ("the next block", None));
    }

    #[test]
    fn blocks_that_do_not_begin_or_end_are_reported() {
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
}
