//! Profiles of the process on demand, one at a time: started by one request, fetched by others, stopped early by
//! another.
//!
//! reads   the result of a node's own profiling function
//! writes  the status, as the objects that `hearth_profileStart`, `…Stop` and `…Fetch` return
//! memory  none before the first; then the last profile, until the next is requested or [`KEPT`] has passed
//! drops   the previous profile, when another starts

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::{Map, Value, json};

use crate::Profile;

/// How long a profile is kept after it was taken.
const KEPT: Duration = Duration::from_secs(600);

/// Error of a profile that was stopped before its first sample.
pub const STOPPED_AT_ONCE: &str = "it was stopped before the first sample";

/// The request for a profile.
#[derive(Clone, Debug, Default)]
pub struct ProfileRequest {
    /// The requested span in words, for people.
    pub words: String,
    /// Time until its last sample, if known; otherwise it ends with a block.
    pub lasts: Option<Duration>,
}

/// A finished profile, with figures about the node.
#[derive(Debug, Default)]
pub struct FinishedProfile {
    /// The stacks that were sampled, and their cost.
    pub profile: Profile,
    /// Further figures that the node reports.
    pub figures: Map<String, Value>,
}

/// The format of a fetched profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Only the status and the figures, as JSON.
    Summary,
    /// A flame graph of the stacks.
    Svg,
    /// Folded stacks, one per line.
    Folded,
}

/// Takes profiles of its own process, one after the other. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Control {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a profile starts, is to stop early, or has ended.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the last profile; the first is 1.
    id: u64,
    asked: ProfileRequest,
    stage: Stage,
    /// Whether it is to stop early.
    stopped: bool,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    None,
    /// Waiting to start, or taking samples.
    Running {
        begun: Instant,
        is_sampling: bool,
    },
    Done {
        taken: Arc<FinishedProfile>,
        at: Instant,
    },
    Failed(String),
    Expired,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Stores the result, and drops it after [`KEPT`].
    fn keep(&self, id: u64, stage: Stage) {
        let mut state = self.lock();
        state.stage = stage;
        self.changed.notify_all();
        self.changed.wait_while_for(&mut state, |state| state.id == id, KEPT);
        if state.id == id {
            state.stage = Stage::Expired;
        }
    }
}

/// A profile in progress, for the function that takes it.
#[derive(Debug)]
pub struct UnderWay<'a> {
    shared: &'a Shared,
    id: u64,
}

impl UnderWay<'_> {
    /// Returns whether it is to stop early.
    pub fn is_stopped(&self) -> bool {
        let state = self.shared.lock();
        state.stopped && state.id == self.id
    }

    /// Sleeps for this long, or less if it is to stop early.
    pub fn sleep(&self, time: Duration) {
        let is_going_on = |state: &mut State| !(state.stopped && state.id == self.id);
        self.shared.changed.wait_while_for(&mut self.shared.lock(), is_going_on, time);
    }

    /// Records that sampling starts now.
    pub fn samples_begin(&self) {
        let mut state = self.shared.lock();
        let is_last = state.id == self.id;
        if let (Stage::Running { is_sampling, .. }, true) = (&mut state.stage, is_last) {
            *is_sampling = true;
            self.shared.changed.notify_all();
        }
    }
}

impl Control {
    /// Starts a profile and returns its status, or the reason why it cannot start.
    pub fn start(
        &self,
        asked: ProfileRequest,
        take: impl FnOnce(&UnderWay<'_>) -> Result<FinishedProfile, String> + Send + 'static,
    ) -> Result<Value, String> {
        let mut state = self.shared.lock();
        if let Stage::Running { begun, .. } = &state.stage {
            return Err(under_way(state.id, &state.asked, begun.elapsed()));
        }
        let (id, shared) = (state.id + 1, self.shared.clone());
        let thread = std::thread::Builder::new().name("profiler".into()).spawn(move || {
            let stage = stage_after(|| take(&UnderWay { shared: &shared, id }));
            shared.keep(id, stage);
        });
        thread.map_err(|why| format!("no thread for the profiler: {why}"))?;
        let stage = Stage::Running { begun: Instant::now(), is_sampling: false };
        *state = State { id, asked, stage, stopped: false };
        self.shared.changed.notify_all();
        Ok(status_of(&state))
    }

    /// Stops the current profile, or the one of this `id`, with the samples so far; it is `done` a moment later.
    pub fn stop(&self, id: Option<u64>) -> Result<Value, String> {
        let mut state = self.shared.lock();
        is_last(&state, id)?;
        state.stopped = true;
        self.shared.changed.notify_all();
        Ok(status_of(&state))
    }

    /// Returns the status of the last profile, or the one of this `id`, with the profile itself once it is `done`.
    pub fn fetch(&self, format: Format, id: Option<u64>) -> Result<Value, String> {
        let state = self.shared.lock();
        is_last(&state, id)?;
        let (status, words) = (status_of(&state), state.asked.words.clone());
        let Stage::Done { taken, .. } = &state.stage else { return Ok(status) };
        let taken = taken.clone();
        // Drawing takes long, so it happens without the lock.
        drop(state);
        Ok(drawn(&taken.profile, &words, status, format))
    }

    /// Waits until the status satisfies `is`, for at most this long. Returns whether it does.
    pub fn wait(&self, most: Duration, is: impl Fn(&Value) -> bool) -> bool {
        let mut state = self.shared.lock();
        self.shared.changed.wait_while_for(&mut state, |state| !is(&status_of(state)), most);
        is(&status_of(&state))
    }
}

/// Runs the profiling function and returns the result. A panic counts as a failure, because otherwise the profile would
/// never end and no other could start.
fn stage_after(take: impl FnOnce() -> Result<FinishedProfile, String>) -> Stage {
    match hearth_tile::panics::catch(take) {
        Ok(Ok(taken)) => Stage::Done { taken: Arc::new(taken), at: Instant::now() },
        Ok(Err(why)) => Stage::Failed(why),
        Err(_) => Stage::Failed("the profiler panicked; the node's standard error says where".into()),
    }
}

/// Why this profile is unavailable, if it is not the last.
fn is_last(state: &State, id: Option<u64>) -> Result<(), String> {
    match (id, state.id) {
        (None, _) => Ok(()),
        (Some(asked), last) if asked == last => Ok(()),
        (Some(asked), 0) => Err(format!("there is no profile {asked}: none has been taken")),
        (Some(asked), last) if asked < last => Err(format!("profile {asked} is gone: profile {last} has replaced it")),
        (Some(asked), last) => Err(format!("there is no profile {asked}: the last is {last}")),
    }
}

/// Why no profile can start now.
fn under_way(id: u64, asked: &ProfileRequest, since: Duration) -> String {
    let until = match asked.lasts.map(|lasts| lasts.saturating_sub(since)) {
        Some(Duration::ZERO) => "it has ended and is being written down".into(),
        Some(left) => format!("it ends in {:.0} s", left.as_secs_f64().ceil()),
        None => "it ends with the block".into(),
    };
    format!("profile {id} is under way ({}): {until}; there is one at a time", asked.words)
}

/// Returns the status as JSON; with the figures once the profile is done.
fn status_of(state: &State) -> Value {
    let State { id, asked, stopped, .. } = state;
    match &state.stage {
        Stage::None => json!({ "state": "none" }),
        Stage::Running { begun, is_sampling } => {
            let left = asked.lasts.map(|lasts| lasts.saturating_sub(begun.elapsed()).as_secs_f64());
            json!({
                "state": "running", "id": id, "asked": asked.words, "endsInSeconds": left, "sampling": is_sampling,
            })
        }
        Stage::Failed(why) => json!({ "state": "failed", "id": id, "why": why }),
        Stage::Expired => json!({
            "state": "expired",
            "id": id,
            "why": format!("a profile is kept for {} s after its end", KEPT.as_secs()),
        }),
        Stage::Done { taken, at } => {
            let mut status = figures(taken);
            status["id"] = (*id).into();
            status["asked"] = asked.words.clone().into();
            status["stopped"] = (*stopped).into();
            status["expiresInSeconds"] = KEPT.saturating_sub(at.elapsed()).as_secs().into();
            status
        }
    }
}

fn figures(taken: &FinishedProfile) -> Value {
    let profile = &taken.profile;
    let mut status = json!({
        "state": "done",
        "seconds": profile.seconds,
        "hz": profile.hz,
        "samples": profile.samples(),
        "samplesTaken": profile.taken,
        "samplesDue": profile.due(),
        "cpuSeconds": profile.cpu_seconds,
        "sampleMicros": profile.sample_ns / 1e3,
        "samplerShare": profile.share_of_sampler(),
        "namingSeconds": profile.naming_seconds,
    });
    taken.figures.iter().for_each(|(name, value)| status[name] = value.clone());
    status
}

/// Adds the profile to the status, in the requested format.
fn drawn(profile: &Profile, words: &str, mut status: Value, format: Format) -> Value {
    let text = match format {
        Format::Summary => return status,
        Format::Folded => Ok(profile.folded()),
        Format::Svg => {
            let early = if status["stopped"] == true { ", stopped early" } else { "" };
            profile.svg(&format!("hearth: {words}{early}"))
        }
    };
    match text {
        Ok(text) => status["profile"] = text.into(),
        Err(why) => status = json!({ "state": "failed", "id": status["id"], "why": why.to_string() }),
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn asked(words: &str, lasts: Option<u64>) -> ProfileRequest {
        ProfileRequest { words: words.into(), lasts: lasts.map(Duration::from_secs) }
    }

    fn is(state: &'static str) -> impl Fn(&Value) -> bool {
        move |status| status["state"] == state
    }

    #[test]
    fn one_is_taken_at_a_time_and_the_last_is_kept() {
        let control = Control::default();
        assert_eq!(control.fetch(Format::Svg, None).unwrap(), json!({ "state": "none" }));
        assert_eq!(control.stop(Some(1)).unwrap_err(), "there is no profile 1: none has been taken");
        let begun = control.start(asked("600 s", Some(600)), |under_way| {
            under_way.samples_begin();
            under_way.sleep(PATIENCE * 10);
            let figures = json!({ "block": 7, "txnPerSecond": 2.5 }).as_object().cloned().unwrap_or_default();
            Ok(FinishedProfile { profile: Profile { seconds: 2.0, ..Profile::default() }, figures })
        });
        let begun = begun.unwrap();
        assert_eq!((&begun["id"], &begun["asked"]), (&json!(1), &json!("600 s")));
        let busy = control.start(asked("x", None), |_| Err("never".into())).unwrap_err();
        assert!(
            busy.starts_with("profile 1 is under way (600 s): it ends in ") && busy.contains("one at a time"),
            "{busy}"
        );
        assert!(control.wait(PATIENCE, |status| status["sampling"] == true));
        assert_eq!(control.stop(Some(2)).unwrap_err(), "there is no profile 2: the last is 1");
        control.stop(Some(1)).unwrap();
        assert!(control.wait(PATIENCE, is("done")));
        let done = control.fetch(Format::Folded, Some(1)).unwrap();
        assert!(done["stopped"] == true && done["block"] == 7 && done["profile"] == "", "{done}");
        assert!(done["expiresInSeconds"].as_u64().is_some_and(|left| left > 500), "{done}");
        // A process that used no CPU time has figures but no graph.
        let drawn = control.fetch(Format::Svg, None).unwrap();
        assert!(drawn["state"] == "failed" && drawn["why"].as_str().unwrap().contains("no sample in 2.0 s"), "{drawn}");
        // The next one replaces it.
        control.start(asked("y", None), |_| Err(STOPPED_AT_ONCE.into())).unwrap();
        assert!(control.wait(PATIENCE, is("failed")));
        assert_eq!(
            control.fetch(Format::Summary, Some(1)).unwrap_err(),
            "profile 1 is gone: profile 2 has replaced it"
        );
    }

    #[test]
    fn a_profiler_that_panics_has_failed() {
        assert!(matches!(stage_after(|| panic!("as it may")), Stage::Failed(why) if why.contains("panicked")));
        assert!(matches!(stage_after(|| Err("no".into())), Stage::Failed(why) if why == "no"));
    }

    #[test]
    fn second_profile_learns_when_the_first_ends() {
        let of = |since| under_way(3, &asked("60 s", Some(61)), Duration::from_millis(since));
        assert_eq!(of(500), "profile 3 is under way (60 s): it ends in 61 s; there is one at a time");
        assert!(of(61_500).contains("it has ended and is being written down"), "{}", of(61_500));
        let block = under_way(3, &asked("the next block", None), Duration::ZERO);
        assert!(block.contains("(the next block): it ends with the block"), "{block}");
    }

    #[test]
    fn discarded_profile_is_reported() {
        let expired = status_of(&State { id: 4, stage: Stage::Expired, ..State::default() });
        assert!(expired["state"] == "expired" && expired["why"].as_str().unwrap().contains("600 s"), "{expired}");
    }

    #[test]
    fn a_stop_is_heard_by_the_profile_that_it_is_for() {
        let shared = Shared::default();
        *shared.lock() = State { id: 2, stopped: true, ..State::default() };
        let begun = Instant::now();
        let of = |id| UnderWay { shared: &shared, id };
        of(2).sleep(PATIENCE);
        assert!(of(2).is_stopped() && begun.elapsed() < PATIENCE);
        of(1).sleep(Duration::from_millis(1));
        assert!(!of(1).is_stopped(), "another's");
    }
}
