//! The course of a run, on any chain: the state that its threads share, its timetable, and each sender's results.
//!
//! reads   the clock; CPU times of threads
//! writes  the outcomes of transactions, in [`Outcomes`]
//! memory  see [`Outcomes`]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hearth_tile::sys::thread::prefer_short_slices;

use crate::blocks::Edges;
use crate::liveness::NodeLiveness;
use crate::outcome::{Outcomes, histogram, record_many};
use crate::process::{ThreadTime, thread_time};
use crate::progress::Progress;
use crate::rpc::RpcError;
use crate::spans::Spans;

/// At a given rate, transactions due within this time are sent in one request if it can hold many.
const TOGETHER: Duration = Duration::from_millis(5);
/// How long measuring waits for a profiler to begin, so that the profile covers the measured time.
pub const PROFILER_PATIENCE: Duration = Duration::from_secs(10);
/// Scheduler slice of a sender.
const SLICE: Duration = Duration::from_micros(200);
/// An answer that takes longer means that the node stands still, not just that it is far away.
const STALL: Duration = Duration::from_secs(1);
/// The lags of at most this many unsent transactions are computed individually.
const UNSENT_TOLD_APART: u64 = 10_000;

/// State that all threads of a run share.
pub struct RunState {
    /// The outcomes of the transactions.
    pub outcomes: Outcomes,
    /// When measuring began; unset in the warm-up.
    pub begin: OnceLock<Instant>,
    /// When sending ended; unset while the load sends.
    pub stop: OnceLock<Instant>,
    /// Set at the end of the run.
    pub over: AtomicBool,
    /// Set when the warm-up is over: then the node's profiler begins, if requested.
    pub warm: AtomicBool,
    /// Set when measuring begins, which waits a little for the profiler.
    pub measured: AtomicBool,
    /// Whether the profiler has begun or failed, or none was requested.
    pub profiler_begun: AtomicBool,
    /// Number of transactions signed in advance.
    pub signed: AtomicU64,
    /// Number of senders that still have something to send.
    pub at_work: AtomicUsize,
    /// Released when all senders have signed ahead; `begun` is that time, the same for all.
    pub(super) ready: Barrier,
    begun: OnceLock<Instant>,
    /// Whether the node that blocks are read from answers.
    pub(super) silence: NodeLiveness,
}

impl RunState {
    /// A course for this many senders.
    pub fn new(senders: usize) -> Self {
        Self {
            outcomes: Outcomes::default(),
            begin: OnceLock::new(),
            stop: OnceLock::new(),
            over: AtomicBool::new(false),
            warm: AtomicBool::new(false),
            measured: AtomicBool::new(false),
            profiler_begun: AtomicBool::new(true),
            signed: AtomicU64::new(0),
            at_work: AtomicUsize::new(senders),
            ready: Barrier::new(senders + 1),
            begun: OnceLock::new(),
            silence: NodeLiveness::default(),
        }
    }

    /// Returns the edges of the measured time, as far as known.
    pub fn edges(&self) -> Edges {
        [self.begin.get().copied(), self.stop.get().copied()]
    }

    /// Prints once that the node is silent, when it is.
    pub fn say_silence(&self, on_progress: &mut impl FnMut(Progress<'_>)) {
        if let Some(why) = self.silence.look(Instant::now()) {
            on_progress(Progress::Step(&why));
        }
    }

    /// Returns whether sending has ended.
    pub fn stopped(&self) -> bool {
        self.stop.get().is_some()
    }

    /// Called by a sender that has signed ahead: waits for the others. From then on the sender should wake in time,
    /// even if the block reader has its core.
    pub fn is_ready(&self) {
        // On kernels without this, a sender is as late as another thread's turn is long.
        let _ = prefer_short_slices(SLICE);
        self.ready.wait();
        self.begun();
    }

    /// Returns when all had signed ahead, the same time for all threads.
    pub fn begun(&self) -> Instant {
        *self.begun.get_or_init(Instant::now)
    }

    /// Returns the timetable of a ready sender. All senders start at the same time.
    pub fn timetable(&self, rate: f64, senders: usize, index: usize) -> Timetable {
        Timetable::new(self.begun(), rate, senders, index)
    }
}

/// The results of one sender.
pub struct SenderTally {
    /// At a given rate, time from when each was due to when it was sent; until the end for unsent ones.
    pub lag_us: Histogram<u64>,
    /// At a given rate, how many were due but not sent, without those that the node had no room for.
    pub unsent: u64,
    /// Requests without an answer.
    pub unanswered: u64,
    /// How often the pool had no room for some of a batch.
    pub full: u64,
    /// How often the node asked for a higher fee.
    pub dearer: u64,
    /// How often an account's nonce was queried again.
    pub renonced: u64,
    /// Lost transactions that were sent again.
    pub healed: u64,
    /// How often transactions were sent again because no block contained them after a while.
    pub sent_again: u64,
    /// Answers with a hash other than that of the sent transaction.
    pub other_hash: u64,
    /// Transactions signed again because their blockhash expired without a block containing them.
    pub resigned: u64,
    /// Transactions signed while sending although the load signs ahead.
    pub signed_late: SignedLate,
    /// How the measured time was spent.
    pub spent: SenderTimes,
    /// At a given rate, how long the sender was behind its timetable in the measured time.
    pub behind: SenderLag,
    /// The waits for answers that took longer than [`STALL`], including those before the measured time.
    pub stalls: Spans,
    /// The last connection error.
    pub error: Option<RpcError>,
    /// The node's answer to a request that was too long for it.
    pub too_long: Option<RpcError>,
    /// The node's last message about a full pool.
    pub full_words: Option<String>,
}

impl SenderTally {
    /// Subtracts the time in which the load itself did not run from the time that is attributed to the node: an answer
    /// that came meanwhile was not late.
    pub fn take_out(&mut self, halts: &Spans) {
        let own = self.stalls.overlap_with(halts);
        self.spent.answers = self.spent.answers.saturating_sub(own);
        self.spent.stalled = self.spent.stalled.saturating_sub(own);
        let own_lateness = own.min(self.behind.node);
        self.behind.node -= own_lateness;
        self.behind.own += own_lateness;
    }
}

/// Transactions signed while sending although the load signs ahead, because the signed ones had run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignedLate {
    /// Number of such transactions.
    pub count: u64,
    /// When the first of them was signed.
    pub first: Option<Instant>,
}

impl SignedLate {
    /// Counts a transaction that is signed now.
    pub fn count(&mut self, now: Instant) {
        self.count += 1;
        self.first.get_or_insert(now);
    }

    /// Adds another sender's counts.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.first = self.first.into_iter().chain(other.first).min();
    }
}

/// How a sender spent its measured time.
#[derive(Clone, Copy, Default)]
pub struct SenderTimes {
    /// The whole measured time.
    pub all: Duration,
    /// Waiting for the node's answers.
    pub answers: Duration,
    /// Part of `answers`: waits longer than [`STALL`], in which the node stood still.
    pub stalled: Duration,
    /// Waiting until fewer are under way, until the next is due, or after the node had no room.
    pub idle: Duration,
    /// Part of `idle`: pauses after the node gave no answer or had no room.
    pub held: Duration,
    /// Running, or waiting for a core.
    pub busy: Duration,
    /// Part of `busy`: waiting for a core.
    pub waited: Duration,
}

impl SenderTimes {
    /// The difference to an earlier reading, for the times that a stopwatch counts.
    fn since(&self, before: &Self) -> Self {
        Self {
            answers: self.answers.saturating_sub(before.answers),
            stalled: self.stalled.saturating_sub(before.stalled),
            idle: self.idle.saturating_sub(before.idle),
            held: self.held.saturating_sub(before.held),
            ..Self::default()
        }
    }

    /// Returns the time in which the sender depended on the node.
    pub fn for_node(&self) -> Duration {
        self.answers + self.held
    }
}

/// How long a sender was behind its timetable, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderLag {
    /// The node gave no answer, or had no room.
    pub node: Duration,
    /// The sender computed, or waited for a core.
    pub own: Duration,
}

impl Default for SenderTally {
    fn default() -> Self {
        Self {
            lag_us: histogram(),
            unsent: 0,
            unanswered: 0,
            full: 0,
            dearer: 0,
            renonced: 0,
            healed: 0,
            sent_again: 0,
            other_hash: 0,
            resigned: 0,
            signed_late: SignedLate::default(),
            spent: SenderTimes::default(),
            behind: SenderLag::default(),
            stalls: Spans::default(),
            error: None,
            too_long: None,
            full_words: None,
        }
    }
}

/// Measures how a sender spends its time.
#[derive(Default)]
pub struct Stopwatch {
    /// Times since the thread began, without [`SenderTimes::all`] and [`SenderTimes::busy`].
    pub spent: SenderTimes,
    /// The waits for answers that took longer than [`STALL`].
    pub stalls: Spans,
    begun: Option<MeasureStart>,
}

/// When a sender's measured time began, with what it had spent until then.
struct MeasureStart {
    at: Instant,
    busy: Option<ThreadTime>,
    before: SenderTimes,
}

impl Stopwatch {
    /// Starts counting when the run is measured.
    pub fn look(&mut self, measured: bool) {
        if self.begun.is_none() && measured {
            self.begun = Some(MeasureStart { at: Instant::now(), busy: thread_time(), before: self.spent });
        }
    }

    /// Returns how the measured time was spent; none if nothing was measured.
    pub fn end(&mut self) -> Option<SenderTimes> {
        let MeasureStart { at, busy, before } = self.begun.take()?;
        let all = at.elapsed();
        let spent = self.spent.since(&before);
        let counted = busy.zip(thread_time()).map(|(then, now)| now.since(&then));
        // If the kernel does not count it, the rest of the time is the sender's own.
        let own = || all.saturating_sub(spent.answers + spent.idle);
        let busy = counted.map_or_else(own, |time| time.ran + time.waited);
        Some(SenderTimes { all, busy, waited: counted.map_or(Duration::ZERO, |time| time.waited), ..spent })
    }

    /// Counts an answer to a request that was sent at `begin`.
    pub fn answered(&mut self, begin: Instant) {
        let end = Instant::now();
        let time = end.saturating_duration_since(begin);
        self.spent.answers += time;
        if time > STALL {
            self.spent.stalled += time;
            self.stalls.push(begin, end);
        }
    }

    /// Counts a pause that the node caused.
    pub fn held(&mut self, time: Duration) {
        self.spent.idle += time;
        self.spent.held += time;
    }
}

/// A sender's timetable at a given rate: when each of its transactions is due.
pub struct Timetable {
    first: Instant,
    each: Duration,
    /// Number of transactions sent.
    pub gone: u64,
}

impl Timetable {
    /// Each sender has an equal share of the rate, and its own offset in the interval.
    fn new(begin: Instant, rate: f64, senders: usize, index: usize) -> Self {
        let each = Duration::from_secs_f64(senders as f64 / rate).max(Duration::from_nanos(1));
        Self { first: begin + each.mul_f64(index as f64 / senders as f64), each, gone: 0 }
    }

    /// Returns when the nth transaction is due, from 0.
    pub fn due(&self, nth: u64) -> Instant {
        self.first + self.each.mul_f64(nth as f64)
    }

    /// Returns the time between two transactions.
    pub fn each(&self) -> Duration {
        self.each
    }

    /// Returns how many to send in one request: those due now and all late ones, at most `batch`.
    pub fn together(&self, now: Instant, batch: usize) -> usize {
        let due = self.due_until(now + TOGETHER).saturating_sub(self.gone);
        usize::try_from(due).unwrap_or(batch).clamp(1, batch)
    }

    /// Counts how long the sender was behind between `from` and `now`. It waited for the node for `node` of that time;
    /// the rest is its own.
    pub fn count_behind(&self, behind: &mut SenderLag, from: Instant, now: Instant, node: Duration) {
        let late = now.saturating_duration_since(self.due(self.gone).max(from));
        let all = now.saturating_duration_since(from);
        if late.is_zero() || all.is_zero() {
            return;
        }
        let for_node = late.mul_f64((node.as_secs_f64() / all.as_secs_f64()).min(1.0));
        behind.node += for_node;
        behind.own += late.saturating_sub(for_node);
    }

    /// Returns how many are due by `end`.
    pub fn due_until(&self, end: Instant) -> u64 {
        let time = end.saturating_duration_since(self.first);
        (time.as_secs_f64() / self.each.as_secs_f64()) as u64 + u64::from(end >= self.first)
    }

    /// Counts transactions that were due but not sent, out of `left` remaining ones, with the lag that they have at the
    /// end. Those that fell due just then are not counted.
    pub fn count_unsent(&self, tally: &mut SenderTally, end: Instant, left: u64) {
        tally.unsent = self.due_until(end - TOGETHER).saturating_sub(self.gone).min(left);
        // There may be millions, so neighbours share one lag.
        let step = (tally.unsent / UNSENT_TOLD_APART).max(1);
        for nth in (0..tally.unsent).step_by(step as usize) {
            let lag = end.saturating_duration_since(self.due(self.gone + nth));
            record_many(&mut tally.lag_us, lag, step.min(tally.unsent - nth));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timetable_offers_the_whole_rate() {
        // 8000 per second by four senders: 2000 each, ten per request every 5 ms.
        let now = Instant::now();
        let mut timetable = Timetable::new(now, 8000.0, 4, 1);
        let begin = timetable.first;
        assert_eq!(begin - now, Duration::from_micros(125));
        assert_eq!(timetable.together(begin, 100), 11);
        assert_eq!(timetable.together(begin, 4), 4);
        assert_eq!(Timetable::new(now, 1.0, 4, 0).together(now, 100), 1);
        // A sender that is nearly a second late catches up at once.
        let late = begin + Duration::from_millis(995);
        assert_eq!(timetable.together(late, 4000), 2001);
        timetable.gone += 1990;
        assert_eq!(timetable.together(late, 4000), 11);
        timetable.gone += 10;
        assert_eq!(timetable.due(timetable.gone) - begin, Duration::from_secs(1));
        assert_eq!(timetable.due_until(begin + Duration::from_secs(2)), 4001);
        assert_eq!(timetable.due_until(begin - Duration::from_millis(1)), 0);
    }

    #[test]
    fn lateness_is_reported_by_cause() {
        let timetable = Timetable::new(Instant::now(), 100.0, 1, 0);
        let at = |ms| timetable.first + Duration::from_millis(ms);
        let of = |from, now, node| {
            let mut behind = SenderLag::default();
            timetable.count_behind(&mut behind, at(from), at(now), Duration::from_millis(node));
            (behind.node.as_millis(), behind.own.as_millis())
        };
        assert_eq!(of(0, 4000, 4000), (4000, 0), "the node stood still");
        assert_eq!(of(0, 100, 0), (0, 100), "the sender had no core");
        assert_eq!(of(0, 100, 75), (75, 25));
        let next = Timetable { gone: 10, ..Timetable::new(timetable.first, 100.0, 1, 0) };
        let mut behind = SenderLag::default();
        next.count_behind(&mut behind, at(0), at(100), Duration::ZERO);
        assert_eq!(behind, SenderLag::default(), "the next is due only now");
    }

    #[test]
    fn a_node_is_not_blamed_while_the_load_did_not_run() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let ms = Duration::from_millis;
        let mut tally = SenderTally::default();
        tally.stalls.push(at(1_000), at(5_100));
        tally.stalls.push(at(6_000), at(8_000));
        tally.spent = SenderTimes { answers: ms(7_000), stalled: ms(6_100), ..SenderTimes::default() };
        tally.behind = SenderLag { node: ms(6_000), own: ms(100) };
        let mut halts = Spans::default();
        halts.push(at(1_000), at(5_000));
        tally.take_out(&halts);
        assert_eq!(tally.spent.answers, ms(3_000));
        assert_eq!(tally.spent.stalled, ms(2_100));
        assert_eq!(tally.behind, SenderLag { node: ms(2_000), own: ms(4_100) });
    }

    #[test]
    fn unsent_lag_counts_until_the_end() {
        let timetable = Timetable::new(Instant::now(), 100_000.0, 1, 0);
        let mut tally = SenderTally::default();
        let end = timetable.first + Duration::from_secs(10) + Duration::from_micros(5);
        timetable.count_unsent(&mut tally, end + TOGETHER, u64::MAX);
        assert_eq!((tally.unsent, tally.lag_us.len()), (1_000_001, 1_000_001));
        assert!((tally.lag_us.value_at_quantile(0.5) as f64 / 5e6 - 1.0).abs() < 0.01);
    }
}
