//! The measured time of a run: its beginning, its end, and what processes used in it.
//!
//! reads   counts; CPU times and memory of processes
//! writes  a [`Window`]; a progress report every second

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use hearth_stats::quiet;
use hearth_tile::clock::unix_time;

use crate::options::Timing;
use crate::outcome::Outcomes;
use crate::process;
use crate::profile::{Profile, ProfileError};
use crate::progress::Progress;
use crate::run_clock::{PROFILER_PATIENCE, RunState};
use crate::series::Series;
use crate::spans::Spans;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// If a sleep overruns by this much, the load itself did not run, as after SIGSTOP.
const HALT_MIN: Duration = Duration::from_millis(250);
/// Nothing more will be included if nothing was for this long, and for this many of the longest block times.
const STANDSTILL: Duration = Duration::from_secs(6);
const STANDSTILL_BLOCKS: u32 = 3;

/// The measured time, and what was used in it.
pub struct Window {
    /// Instant at which measuring began.
    pub begin: Instant,
    /// When it began, in seconds since 1970.
    pub began_unix_s: u64,
    /// Instant at which measuring ended.
    pub end: Instant,
    /// How long CPU time was counted: longer than the measured time if its end was seen late.
    pub counted: Duration,
    /// CPU time of the node, if its process is known.
    pub server: Option<Duration>,
    /// CPU time of the load.
    pub client: Duration,
    /// Resident memory of the node at the end.
    pub resident: Option<u64>,
    /// Shares of all cores' time in which any program ran, and that the hypervisor gave to other guests; none if the
    /// kernel does not count them.
    pub machine: Option<(f64, f64)>,
    /// Samples from the first transaction to the last block.
    pub series: Series,
    /// The node's CPU profile, if requested.
    pub profile: Option<Result<Profile, ProfileError>>,
    /// When the load itself did not run.
    pub halts: Spans,
}

impl Window {
    /// Watches until the time is over, everything that was to be sent has ended, `stop` or `reader_ended`. Also returns
    /// since when nothing has moved.
    pub fn watch(
        timing: &Timing,
        course: &RunState,
        stop: &dyn Fn() -> bool,
        on_progress: &mut impl FnMut(Progress<'_>),
        reader_ended: impl Fn() -> bool,
    ) -> (Self, Standstill) {
        let own = std::process::id();
        let cpu = || (process::cpu_time_of_all(&timing.pids), process::cpu_time(own).unwrap_or_default());
        let (start, warmup) = (course.begun(), timing.warmup);
        let (mut begin, mut before) = (start + warmup, None);
        let mut ticker = Ticker { second: start + Duration::from_secs(1), included: 0 };
        let (mut still, mut halts) = (Standstill::new(&course.outcomes), Spans::default());
        let end = loop {
            let now = Instant::now();
            if now >= begin {
                course.warm.store(true, Ordering::Release);
            }
            let is_ready = course.profiler_begun.load(Ordering::Acquire)
                || now >= start + warmup + PROFILER_PATIENCE
                || warmup.is_zero();
            if before.is_none() && now >= begin && is_ready {
                before = Some((cpu(), now, quiet::counted()));
                // Without a warm-up, transactions due from the very start are measured, however late this thread sees
                // the start.
                begin = if warmup.is_zero() { start } else { now };
                let _ = course.begin.set(begin);
                course.measured.store(true, Ordering::Relaxed);
            }
            let warm = now.duration_since(start).as_secs_f64() - warmup.as_secs_f64();
            let at = if before.is_some() { now.duration_since(begin).as_secs_f64() } else { warm.min(0.0) };
            ticker.tell(course, now, at, on_progress);
            let is_over = before.is_some() && now >= begin + timing.duration;
            if is_over || stop() || reader_ended() {
                break now;
            }
            let stands = still.reached(&course.outcomes);
            // Everything was sent: the last transactions are measured too.
            if course.at_work.load(Ordering::Acquire) == 0 && stands {
                let last = course.outcomes.last_included().filter(|last| before.is_some() && *last > begin);
                break last.unwrap_or(now);
            }
            let left = (begin + timing.duration).saturating_duration_since(now);
            let pause = if before.is_some() { LOOK_EVERY.min(left) } else { LOOK_EVERY };
            rest(&mut halts, pause);
        };
        // Set at once, so that nothing sent after the end counts as measured.
        let _ = course.stop.set(end);
        let (server, client) = cpu();
        // If nothing was measured yet, the measured time is empty.
        let begin = if before.is_some() { begin.min(end) } else { end };
        let ((server_before, client_before), counted_from, machine) =
            before.unwrap_or(((server, client), Instant::now(), None));
        let known = !timing.pids.is_empty();
        let window = Self {
            begin,
            began_unix_s: unix_time().saturating_sub(begin.elapsed()).as_secs(),
            end,
            counted: counted_from.elapsed(),
            server: server.zip(server_before).map(|(now, then)| now.saturating_sub(then)).filter(|_| known),
            client: client.saturating_sub(client_before),
            machine: quiet::counted().zip(machine).and_then(|(now, before)| now.parts_since(&before)),
            resident: known.then(|| timing.pids.iter().filter_map(|&pid| process::resident(pid)).sum()),
            series: Series::default(),
            profile: None,
            halts: halts.within(begin, end),
        };
        (window, still)
    }
}

/// Reports each second that has passed.
struct Ticker {
    /// When the next second is over.
    second: Instant,
    /// Transactions included until the second before.
    included: u64,
}

impl Ticker {
    /// Reports a second that is over, `at` in the run's time, and a node that has become silent.
    fn tell(&mut self, course: &RunState, now: Instant, at: f64, on_progress: &mut impl FnMut(Progress<'_>)) {
        course.say_silence(on_progress);
        if now < self.second {
            return;
        }
        let sum = course.outcomes.with(|counts| counts.included);
        on_progress(Progress::Second(at, sum.saturating_sub(self.included), course.outcomes.under_way()));
        self.included = sum;
        self.second += Duration::from_secs(1);
    }
}

/// Sleeps for `pause`, and notes if that took much longer.
fn rest(halts: &mut Spans, pause: Duration) {
    let from = Instant::now();
    thread::sleep(pause);
    note_halt(halts, from, pause, Instant::now());
}

/// Records a sleep for `pause` that lasted from `from` to `to`, if the load itself did not run meanwhile.
fn note_halt(halts: &mut Spans, from: Instant, pause: Duration, to: Instant) {
    if to.saturating_duration_since(from) > pause + HALT_MIN {
        halts.push(from, to);
    }
}

/// Detects that nothing is under way any more, or that nothing moves.
pub struct Standstill {
    left: usize,
    moved: Instant,
}

impl Standstill {
    fn new(outcomes: &Outcomes) -> Self {
        Self { left: outcomes.under_way(), moved: Instant::now() }
    }

    fn reached(&mut self, outcomes: &Outcomes) -> bool {
        let left = outcomes.under_way();
        if left != self.left {
            (self.left, self.moved) = (left, Instant::now());
        }
        left == 0 || self.moved.elapsed() > patience(outcomes)
    }
}

/// How long nothing may be included before the run counts as ended.
fn patience(outcomes: &Outcomes) -> Duration {
    STANDSTILL.max(outcomes.longest_block_time() * STANDSTILL_BLOCKS)
}

/// Waits until nothing is under way, nothing moves, or `ended`.
pub fn settle(course: &RunState, mut still: Standstill, mut ended: impl FnMut() -> bool) {
    while !ended() {
        // A sender that is still at work may be waiting for an answer.
        let at_work = course.at_work.load(Ordering::Acquire) > 0;
        if still.reached(&course.outcomes) && !at_work {
            return;
        }
        course.outcomes.wait_below(still.left, LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{GiveUp, SideMeasurements};

    #[test]
    fn slow_blocks_are_waited_for_before_the_first_is_seen() {
        let outcomes = Outcomes::default();
        assert_eq!(patience(&outcomes), STANDSTILL);
        outcomes.expect_blocks_every(Duration::from_secs(15));
        assert_eq!(patience(&outcomes), Duration::from_secs(45));
        let now = Instant::now();
        for second in [0, 1, 21] {
            outcomes.included(&[], now + Duration::from_secs(second));
        }
        assert_eq!(patience(&outcomes), Duration::from_secs(60));
    }

    #[test]
    fn a_sleep_that_takes_seconds_is_a_halt() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut halts = Spans::default();
        note_halt(&mut halts, at(0), LOOK_EVERY, at(60));
        note_halt(&mut halts, at(100), LOOK_EVERY, at(290));
        assert_eq!(halts, Spans::default(), "a busy machine");
        note_halt(&mut halts, at(300), LOOK_EVERY, at(4_300));
        assert_eq!(halts.time(), Duration::from_secs(4));
    }

    #[test]
    fn a_run_that_is_stopped_in_its_warm_up_measured_nothing() {
        let course = RunState::new(1);
        let (warmup, duration) = (Duration::from_millis(1), Duration::from_secs(60));
        let timing =
            Timing { warmup, duration, pids: vec![], beside: SideMeasurements::default(), give_up: GiveUp::default() };
        // The run is stopped while it waits for the profiler.
        course.profiler_begun.store(false, Ordering::Release);
        let stop = || course.warm.load(Ordering::Acquire);
        let (window, _) = Window::watch(&timing, &course, &stop, &mut |_| {}, || false);
        assert_eq!(window.begin, window.end);
        assert_eq!(course.stop.get(), Some(&window.end));
    }

    #[test]
    fn late_sends_are_outside_the_window() {
        let course = RunState::new(1);
        let (warmup, duration) = (Duration::ZERO, Duration::from_millis(1));
        let timing =
            Timing { warmup, duration, pids: vec![], beside: SideMeasurements::default(), give_up: GiveUp::default() };
        let (window, _) = Window::watch(&timing, &course, &|| false, &mut |_| {}, || false);
        assert_eq!(course.stop.get(), Some(&window.end));
    }
}
