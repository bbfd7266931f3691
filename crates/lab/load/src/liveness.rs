//! Detects whether the node that blocks are read from still answers. Silence is reported early and ends the run late.
//!
//! reads   the times of answers, as reported by the requesting threads
//! writes  a line when no answer has come for a while
//! memory  a URL, an error message

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::rpc::RpcError;

/// A node that gives no answer, or only errors, for this long is reported as silent.
const SILENT: Duration = Duration::from_secs(2);
/// If `look` is called later than this, the load did not run in between and could not receive answers.
const LOOK_LATE: Duration = Duration::from_millis(500);
/// How long the last read continues through errors without progress.
const LAST_READ: Duration = Duration::from_secs(2);

/// Tracks the silence of a node once blocks are read from it.
#[derive(Default)]
pub struct NodeLiveness(Mutex<Option<State>>);

struct State {
    url: String,
    /// How long the reader continues without an answer.
    patience: Duration,
    /// When the node last answered any request.
    heard: Instant,
    /// When the reader last got an answer, and its error since then.
    read: Instant,
    error: Option<String>,
    /// When `look` was last called, and since when it has been called without a halt of the load itself.
    looked: Instant,
    resumed: Instant,
    is_said: bool,
}

impl NodeLiveness {
    /// Starts tracking: blocks are read from the node at `url` until there is no answer for `patience`.
    pub fn begin(&self, url: &str, patience: Duration, now: Instant) {
        let state = State {
            url: url.to_owned(),
            patience,
            heard: now,
            read: now,
            error: None,
            looked: now,
            resumed: now,
            is_said: false,
        };
        *self.0.lock() = Some(state);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        if let Some(state) = self.0.lock().as_mut() {
            change(state);
        }
    }

    /// Records an answer to any request.
    pub fn heard(&self, now: Instant) {
        self.change(|state| state.heard = now);
    }

    /// Records that the block reader got an answer, or a part of it.
    pub fn read(&self, now: Instant) {
        self.change(|state| {
            state.read = now;
            state.error = None;
        });
    }

    /// Records that the block reader got an error.
    pub fn failed(&self, why: &RpcError) {
        self.change(|state| state.error = Some(why.to_string()));
    }

    /// Returns when the node last answered any request; none before blocks are read from it.
    pub fn last_answer(&self) -> Option<Instant> {
        let state = self.0.lock();
        state.as_ref().map(|state| state.heard.max(state.read))
    }

    /// Returns when the requests that began at `begun`, after the run, must end: `patience` later, or, while none is
    /// answered, `patience` after the last answer of the run.
    pub fn settling_ends(&self, begun: Instant, patience: Duration) -> Instant {
        self.last_answer().map_or(begun, |answered| answered.min(begun)) + patience
    }

    /// Returns once why the node counts as silent. To be called several times a second.
    pub fn look(&self, now: Instant) -> Option<String> {
        let mut state = self.0.lock();
        let state = state.as_mut()?;
        if now.saturating_duration_since(state.looked) > LOOK_LATE {
            state.resumed = now;
        }
        state.looked = now;
        let answered = if state.error.is_some() { state.read } else { state.heard.max(state.read) };
        if state.is_said || now.saturating_duration_since(answered.max(state.resumed)) <= SILENT {
            return None;
        }
        state.is_said = true;
        let hangs = || format!("{} has not answered for {} s", state.url, SILENT.as_secs());
        let why = state.error.clone().unwrap_or_else(hangs);
        Some(format!("{why}; the run ends when there is no answer for {} s", state.patience.as_secs()))
    }
}

/// Decides how long the block reader continues through errors.
pub struct Persistence {
    patience: Duration,
    answered: Instant,
    /// When the last read began.
    ending: Option<Instant>,
}

impl Persistence {
    /// Gives up after `patience` without an answer.
    pub fn new(patience: Duration, now: Instant) -> Self {
        Self { patience, answered: now, ending: None }
    }

    /// Notes that a read begins. With `last` it is the last one, apart from repetitions.
    pub fn begin(&mut self, last: bool, now: Instant) {
        self.ending = if last { self.ending.or(Some(now)) } else { None };
    }

    /// Records that the reader got an answer, or a part of it.
    pub fn answered(&mut self, now: Instant) {
        self.answered = now;
    }

    /// Returns whether an error ends the reading. A single error does not: the last read is also repeated for a while.
    pub fn is_over(&self, now: Instant) -> bool {
        let since = |then: Instant| now.saturating_duration_since(then);
        // A node that answers only some requests may have ever more blocks to be read.
        let is_last_over =
            |ending: Instant| since(ending.max(self.answered)) > LAST_READ || since(ending) > self.patience;
        since(self.answered) > self.patience || self.ending.is_some_and(is_last_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://127.0.0.1:1";
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Calls `look` every 50 ms from `from` to `to`; returns the messages with their times in milliseconds.
    fn looks(silence: &NodeLiveness, zero: Instant, from: u64, to: u64) -> Vec<(u64, String)> {
        let look = |ms| Some((ms, silence.look(zero + Duration::from_millis(ms))?));
        (from..=to).step_by(50).filter_map(look).collect()
    }

    fn refusal() -> RpcError {
        RpcError::Status { url: URL.into(), status: 500 }
    }

    #[test]
    fn a_node_that_hangs_is_named_once() {
        let (silence, zero) = (NodeLiveness::default(), Instant::now());
        assert!(looks(&silence, zero, 0, 9_000).is_empty(), "nobody reads yet");
        silence.begin(URL, PATIENCE, zero + Duration::from_secs(9));
        silence.heard(zero + Duration::from_secs(10));
        assert!(looks(&silence, zero, 9_000, 12_000).is_empty(), "two seconds are no silence");
        let said = "http://127.0.0.1:1 has not answered for 2 s; the run ends when there is no answer for 30 s";
        assert_eq!(looks(&silence, zero, 12_050, 60_000), [(12_050, said.to_owned())]);
    }

    #[test]
    fn a_node_that_refuses_is_named_with_its_error() {
        let (silence, zero) = (NodeLiveness::default(), Instant::now());
        silence.begin(URL, PATIENCE, zero);
        silence.failed(&refusal());
        silence.read(zero + Duration::from_secs(1));
        silence.failed(&refusal());
        // The node still reports its newest block.
        silence.heard(zero + Duration::from_secs(3));
        let said = format!("{}; the run ends when there is no answer for 30 s", refusal());
        assert_eq!(looks(&silence, zero, 0, 9_000), [(3_050, said)]);
    }

    #[test]
    fn a_node_is_not_silent_while_the_load_stands_still() {
        let (silence, zero) = (NodeLiveness::default(), Instant::now());
        silence.begin(URL, PATIENCE, zero);
        assert!(looks(&silence, zero, 0, 1_000).is_empty());
        assert!(looks(&silence, zero, 9_000, 11_000).is_empty(), "it has two seconds from there");
        assert_eq!(looks(&silence, zero, 11_050, 11_050).len(), 1);
    }

    #[test]
    fn settling_counts_from_the_last_answer() {
        let zero = Instant::now();
        let at = |seconds| zero + Duration::from_secs(seconds);
        let silence = NodeLiveness::default();
        assert_eq!(silence.settling_ends(at(15), PATIENCE), at(45), "nothing was read");
        silence.begin(URL, PATIENCE, zero);
        silence.read(at(4));
        silence.heard(at(5));
        assert_eq!(silence.settling_ends(at(15), PATIENCE), at(35));
        silence.heard(at(20));
        assert_eq!(silence.settling_ends(at(15), PATIENCE), at(45), "it answers again");
    }

    #[test]
    fn reading_ends_with_its_patience() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut reader = Persistence::new(PATIENCE, zero);
        reader.begin(false, zero);
        reader.answered(at(1_000));
        assert!(!reader.is_over(at(31_000)));
        assert!(reader.is_over(at(31_001)));
    }

    #[test]
    fn the_last_read_continues_through_an_error() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut reader = Persistence::new(PATIENCE, zero);
        for ms in (10_000..=12_000).step_by(20) {
            reader.begin(true, at(ms));
            assert!(!reader.is_over(at(ms)), "{ms}");
        }
        assert!(reader.is_over(at(12_001)));
        // Answers in between are progress, but even progress has a time limit.
        reader.answered(at(12_000));
        assert!(!reader.is_over(at(14_000)));
        assert!(reader.is_over(at(14_001)));
        reader.answered(at(40_000));
        assert!(!reader.is_over(at(40_000)));
        assert!(reader.is_over(at(40_001)));
        // It was not the end: blocks are read again.
        reader.begin(false, at(40_001));
        assert!(!reader.is_over(at(70_000)));
    }
}
