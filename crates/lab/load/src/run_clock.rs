//! The course of a run, whatever the chain: what its threads share, its timetable, what each thread tells at its end.
//!
//! reads   the clock; how long a thread ran
//! writes  the ends of transactions, by way of [`Outcomes`]
//! memory  see [`Outcomes`]
//! drops   nothing

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hearth_tile::sys::thread::prefer_short_slices;

use crate::blocks::Edges;
use crate::outcome::{Outcomes, histogram, record_many};
use crate::process::{ThreadTime, thread_time};
use crate::progress::Progress;
use crate::rpc::RpcError;
use crate::silence::Silence;
use crate::spans::Spans;

/// At a rate, what falls due within this goes out together where a request holds many.
const TOGETHER: Duration = Duration::from_millis(5);
/// How long measuring waits for a profiler to begin: what it sees is to be what is measured.
pub const PROFILER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a sender runs before another thread on its core may.
const SLICE: Duration = Duration::from_micros(200);
/// An answer that takes longer is none of a node that is merely far away: it stands still.
const STALL: Duration = Duration::from_secs(1);
/// Of what did not go out, so many are told apart by how late they were.
const UNSENT_TOLD_APART: u64 = 10_000;

/// What all threads of a run share.
pub struct Course {
    /// What becomes of the transactions.
    pub outcomes: Outcomes,
    /// When measuring began.
    pub begin: OnceLock<Instant>,
    /// When sending ended.
    pub stop: OnceLock<Instant>,
    /// The end of all.
    pub over: AtomicBool,
    /// Set when the warm-up is over: then the node's profiler begins, where it is to.
    pub warm: AtomicBool,
    /// Set when measuring begins, which waits a little for the profiler.
    pub measured: AtomicBool,
    /// Whether a profiler has begun, or said why not; or nobody waits for one.
    pub profiler_begun: AtomicBool,
    /// How many have been signed ahead.
    pub signed: AtomicU64,
    /// How many senders have something to send.
    pub at_work: AtomicUsize,
    /// Passed when all have signed ahead; and when that was, the same for all.
    pub(super) ready: Barrier,
    begun: OnceLock<Instant>,
    /// Whether the node that blocks are read from answers.
    pub(super) silence: Silence,
}

impl Course {
    /// Of so many senders.
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
            silence: Silence::default(),
        }
    }

    /// The ends of the measured time, as far as they are known.
    pub fn edges(&self) -> Edges {
        [self.begin.get().copied(), self.stop.get().copied()]
    }

    /// Says once that the node is silent, when it is.
    pub fn say_silence(&self, told: &mut impl FnMut(Progress<'_>)) {
        if let Some(why) = self.silence.look(Instant::now()) {
            told(Progress::Step(&why));
        }
    }

    /// Whether sending has ended.
    pub fn stopped(&self) -> bool {
        self.stop.get().is_some()
    }

    /// A sender has signed ahead, and waits for the others. From now on it is to wake in time, though the one that
    /// reads blocks may have its core.
    pub fn is_ready(&self) {
        // Where the kernel has no such thing, a sender is as late as another thread's turn is long.
        let _ = prefer_short_slices(SLICE);
        self.ready.wait();
        self.begun();
    }

    /// When all had signed ahead: for all threads the same time.
    pub fn begun(&self) -> Instant {
        *self.begun.get_or_init(Instant::now)
    }

    /// The timetable of a sender that is ready: all senders begin at one time.
    pub fn timetable(&self, rate: f64, senders: usize, index: usize) -> Timetable {
        Timetable::new(self.begun(), rate, senders, index)
    }
}

/// What a sender tells at its end.
pub struct Told {
    /// From when each was due to when it was sent, at a given rate; to the end, for those that were not.
    pub lag_us: Histogram<u64>,
    /// How many were due and not sent, at a given rate; without those that the node had no room for.
    pub unsent: u64,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Times that the pool had no room for some of a batch.
    pub full: u64,
    /// Times that the node asked for a higher fee.
    pub dearer: u64,
    /// Times that an account's nonce was asked for anew.
    pub renonced: u64,
    /// Transactions that were lost, sent again.
    pub healed: u64,
    /// Transactions sent again as they were in no block after a while.
    pub sent_again: u64,
    /// Answers with another hash than that of what was sent.
    pub other_hash: u64,
    /// Transactions signed anew, as their time had run out and no block had them.
    pub resigned: u64,
    /// Of a load that signs ahead, what had to be signed while it sent.
    pub signed_late: SignedLate,
    /// How the measured time went by.
    pub spent: Spent,
    /// How long it was behind its timetable in the measured time, at a given rate.
    pub behind: Behind,
    /// The waits for answers that took longer than [`STALL`], also before the measured time.
    pub stalls: Spans,
    /// The last error of the connection.
    pub error: Option<RpcError>,
    /// What the node said to a request that was too long for it.
    pub too_long: Option<RpcError>,
    /// The last words of a node that had no room.
    pub full_words: Option<String>,
}

impl Told {
    /// Takes out of what the node is blamed for the time in which the load itself did not run: an answer that came
    /// meanwhile was not late.
    pub fn take_out(&mut self, halts: &Spans) {
        let own = self.stalls.overlap_with(halts);
        self.spent.answers = self.spent.answers.saturating_sub(own);
        self.spent.stalled = self.spent.stalled.saturating_sub(own);
        let own_lateness = own.min(self.behind.node);
        self.behind.node -= own_lateness;
        self.behind.own += own_lateness;
    }
}

/// What had to be signed while the load sent, though it had signed ahead: there was no more of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignedLate {
    /// How many.
    pub count: u64,
    /// When the first was.
    pub first: Option<Instant>,
}

impl SignedLate {
    /// Counts one.
    pub fn count(&mut self, now: Instant) {
        self.count += 1;
        self.first.get_or_insert(now);
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.first = self.first.into_iter().chain(other.first).min();
    }
}

/// How a sender spent its measured time.
#[derive(Clone, Copy, Default)]
pub struct Spent {
    /// All of it.
    pub all: Duration,
    /// Waiting for the node's answers.
    pub answers: Duration,
    /// Of the waiting for answers, answers that took longer than [`STALL`]: the node stood still.
    pub stalled: Duration,
    /// Waiting until fewer are under way, or the next is due, or after the node had no room.
    pub idle: Duration,
    /// Of the idle time, rests after the node gave no answer or had no room.
    pub held: Duration,
    /// Running, or waiting for a core.
    pub busy: Duration,
    /// Of the busy time, waiting for a core.
    pub waited: Duration,
}

impl Spent {
    /// What was spent since `before`, of what a stopwatch counts.
    fn since(&self, before: &Self) -> Self {
        Self {
            answers: self.answers.saturating_sub(before.answers),
            stalled: self.stalled.saturating_sub(before.stalled),
            idle: self.idle.saturating_sub(before.idle),
            held: self.held.saturating_sub(before.held),
            ..Self::default()
        }
    }

    /// Time in which only the node could have let the sender go on.
    pub fn for_node(&self) -> Duration {
        self.answers + self.held
    }
}

/// How long a sender was behind its timetable, by what held it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// The node gave no answer, or had no room.
    pub node: Duration,
    /// The sender computed, or waited for a core.
    pub own: Duration,
}

impl Default for Told {
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
            spent: Spent::default(),
            behind: Behind::default(),
            stalls: Spans::default(),
            error: None,
            too_long: None,
            full_words: None,
        }
    }
}

/// How a sender spends its time.
#[derive(Default)]
pub struct Stopwatch {
    /// Since the thread began; [`Spent::all`] and [`Spent::busy`] are not counted here.
    pub spent: Spent,
    /// The waits for answers that took longer than [`STALL`].
    pub stalls: Spans,
    begun: Option<Begun>,
}

/// When the measured time of a sender began, with what it had spent until then.
struct Begun {
    at: Instant,
    busy: Option<ThreadTime>,
    before: Spent,
}

impl Stopwatch {
    /// Begins to count when the run is measured.
    pub fn look(&mut self, measured: bool) {
        if self.begun.is_none() && measured {
            self.begun = Some(Begun { at: Instant::now(), busy: thread_time(), before: self.spent });
        }
    }

    /// What was spent of the measured time; none where there was none.
    pub fn end(&mut self) -> Option<Spent> {
        let Begun { at, busy, before } = self.begun.take()?;
        let all = at.elapsed();
        let spent = self.spent.since(&before);
        let counted = busy.zip(thread_time()).map(|(then, now)| now.since(&then));
        // Where the kernel does not count it, what is left is its own.
        let own = || all.saturating_sub(spent.answers + spent.idle);
        let busy = counted.map_or_else(own, |time| time.ran + time.waited);
        Some(Spent { all, busy, waited: counted.map_or(Duration::ZERO, |time| time.waited), ..spent })
    }

    /// Counts an answer that was asked for at `begin`.
    pub fn answered(&mut self, begin: Instant) {
        let end = Instant::now();
        let time = end.saturating_duration_since(begin);
        self.spent.answers += time;
        if time > STALL {
            self.spent.stalled += time;
            self.stalls.push(begin, end);
        }
    }

    /// Counts a rest that the node caused.
    pub fn held(&mut self, time: Duration) {
        self.spent.idle += time;
        self.spent.held += time;
    }
}

/// A sender's timetable at a rate: when which of its transactions is due.
pub struct Timetable {
    first: Instant,
    each: Duration,
    /// How many have gone out.
    pub gone: u64,
}

impl Timetable {
    /// Each sender has an equal share of the rate, and its own place in the interval.
    fn new(begin: Instant, rate: f64, senders: usize, index: usize) -> Self {
        let each = Duration::from_secs_f64(senders as f64 / rate).max(Duration::from_nanos(1));
        Self { first: begin + each.mul_f64(index as f64 / senders as f64), each, gone: 0 }
    }

    /// When the nth is due, from 0.
    pub fn due(&self, nth: u64) -> Instant {
        self.first + self.each.mul_f64(nth as f64)
    }

    /// The time between two.
    pub fn each(&self) -> Duration {
        self.each
    }

    /// How many go out in one request: what falls due at once, and all that is late, as far as one holds them.
    pub fn together(&self, now: Instant, batch: usize) -> usize {
        let due = self.due_until(now + TOGETHER).saturating_sub(self.gone);
        usize::try_from(due).unwrap_or(batch).clamp(1, batch)
    }

    /// Counts how long the sender was behind between `from` and `now`: of that time it waited for the node for `node`,
    /// and the rest is its own.
    pub fn count_behind(&self, behind: &mut Behind, from: Instant, now: Instant, node: Duration) {
        let late = now.saturating_duration_since(self.due(self.gone).max(from));
        let all = now.saturating_duration_since(from);
        if late.is_zero() || all.is_zero() {
            return;
        }
        let for_node = late.mul_f64((node.as_secs_f64() / all.as_secs_f64()).min(1.0));
        behind.node += for_node;
        behind.own += late.saturating_sub(for_node);
    }

    /// How many were to have gone by then.
    pub fn due_until(&self, end: Instant) -> u64 {
        let time = end.saturating_duration_since(self.first);
        (time.as_secs_f64() / self.each.as_secs_f64()) as u64 + u64::from(end >= self.first)
    }

    /// Counts what was due and did not go out, of `left` that there were: as late as the end at least. What fell due
    /// just then is not meant.
    pub fn count_unsent(&self, told: &mut Told, end: Instant, left: u64) {
        told.unsent = self.due_until(end - TOGETHER).saturating_sub(self.gone).min(left);
        // There may be millions: neighbours are as late as each other.
        let step = (told.unsent / UNSENT_TOLD_APART).max(1);
        for nth in (0..told.unsent).step_by(step as usize) {
            let lag = end.saturating_duration_since(self.due(self.gone + nth));
            record_many(&mut told.lag_us, lag, step.min(told.unsent - nth));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timetable_offers_the_whole_rate() {
        // 8000 a second by four senders: 2000 each, ten together every 5 ms.
        let now = Instant::now();
        let mut timetable = Timetable::new(now, 8000.0, 4, 1);
        let begin = timetable.first;
        assert_eq!(begin - now, Duration::from_micros(125));
        assert_eq!(timetable.together(begin, 100), 11);
        assert_eq!(timetable.together(begin, 4), 4);
        assert_eq!(Timetable::new(now, 1.0, 4, 0).together(now, 100), 1);
        // Whoever is late by a second, nearly, catches up at once.
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
    fn lateness_is_told_by_what_caused_it() {
        let timetable = Timetable::new(Instant::now(), 100.0, 1, 0);
        let at = |ms| timetable.first + Duration::from_millis(ms);
        let of = |from, now, node| {
            let mut behind = Behind::default();
            timetable.count_behind(&mut behind, at(from), at(now), Duration::from_millis(node));
            (behind.node.as_millis(), behind.own.as_millis())
        };
        assert_eq!(of(0, 4000, 4000), (4000, 0), "the node stood still");
        assert_eq!(of(0, 100, 0), (0, 100), "the sender had no core");
        assert_eq!(of(0, 100, 75), (75, 25));
        let next = Timetable { gone: 10, ..Timetable::new(timetable.first, 100.0, 1, 0) };
        let mut behind = Behind::default();
        next.count_behind(&mut behind, at(0), at(100), Duration::ZERO);
        assert_eq!(behind, Behind::default(), "the next is due only now");
    }

    #[test]
    fn a_node_is_not_blamed_while_the_load_did_not_run() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let ms = Duration::from_millis;
        let mut told = Told::default();
        told.stalls.push(at(1_000), at(5_100));
        told.stalls.push(at(6_000), at(8_000));
        told.spent = Spent { answers: ms(7_000), stalled: ms(6_100), ..Spent::default() };
        told.behind = Behind { node: ms(6_000), own: ms(100) };
        let mut halts = Spans::default();
        halts.push(at(1_000), at(5_000));
        told.take_out(&halts);
        assert_eq!(told.spent.answers, ms(3_000));
        assert_eq!(told.spent.stalled, ms(2_100));
        assert_eq!(told.behind, Behind { node: ms(2_000), own: ms(4_100) });
    }

    #[test]
    fn what_did_not_go_out_is_as_late_as_the_end() {
        let timetable = Timetable::new(Instant::now(), 100_000.0, 1, 0);
        let mut told = Told::default();
        let end = timetable.first + Duration::from_secs(10) + Duration::from_micros(5);
        timetable.count_unsent(&mut told, end + TOGETHER, u64::MAX);
        assert_eq!((told.unsent, told.lag_us.len()), (1_000_001, 1_000_001));
        assert!((told.lag_us.value_at_quantile(0.5) as f64 / 5e6 - 1.0).abs() < 0.01);
    }
}
