//! The loop of one tile: regimes, room, bursts and counters.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hearth_ring::{Observer, Producer};

use super::*;
use crate::latency::LatencyDecl;
use crate::regime::REGIMES;
use crate::rig::Rig;
use crate::testing::{DEPTH, ScriptedTile, Shared, Wire, Wires, look, script};
use crate::tile::Port;

const IN: Wire = Wire { name: "in", from: "test:0", to: "scripted:0", reliable: true };
const OUT: Wire = Wire { name: "out", from: "scripted:0", to: "test:0", reliable: true };

/// A scripted tile on a virtual clock, between links whose other ends the test holds.
struct Stage<const BURST: usize> {
    wires: Wires,
    runner: Runner<ScriptedTile<BURST>>,
    script: Shared,
}

impl<const BURST: usize> Stage<BURST> {
    fn new(wires: &[Wire]) -> Self {
        let (wires, script) = (Wires::new(Clock::manual(), &["scripted:0"], wires), script());
        let runner = wires.runner("scripted:0", script.clone(), &Waker::new().unwrap(), &[]);
        Self { wires, runner, script }
    }

    fn word(&mut self, counter: &str) -> u64 {
        self.runner.flush();
        self.wires.word("scripted:0", counter)
    }

    fn regime(&self, regime: Regime) -> u64 {
        self.runner.time_line().ns()[regime as usize]
    }

    /// The number of frags taken, and of bursts ended.
    fn seen(&self) -> (usize, usize) {
        let script = look(&self.script);
        (script.taken.len(), script.bursts)
    }

    fn settle(&mut self) {
        assert!((0..1000).any(|_| self.runner.turn(0) == Activity::Idle), "never idle");
    }
}

fn give(feed: &mut Producer, numbers: impl IntoIterator<Item = u8>) {
    for number in numbers {
        assert!(feed.credits(1) > 0, "{} is full", feed.name());
        feed.send(&[number], number.into(), 0, 0, 0);
    }
}

/// Takes at most `most` frags; returns their numbers.
fn take(drain: &mut Consumer, most: usize) -> Vec<u64> {
    let mut taken = vec![];
    while taken.len() < most {
        let PollResult::Ready(meta) = drain.poll() else { break };
        taken.push(meta.tag);
        drain.advance();
    }
    drain.release();
    taken
}

#[test]
fn regimes_sum_to_wall_time_and_name_what_was_done() {
    let mut stage = Stage::<1>::new(&[IN, OUT]);
    let mut feed = stage.wires.feed("in");
    let clock = stage.wires.clock.clone();
    {
        let (clock, mut script) = (clock.clone(), look(&stage.script));
        script.costs = [100, 20, 3, 50_000];
        script.publish = [1, 0, 0];
        script.on_frag = Box::new(|payload| payload[0] == 2);
        script.filter = Box::new(move |meta, _| {
            clock.advance(Duration::from_nanos(7));
            if meta.tag == 1 { Filter::Skip } else { Filter::Take }
        });
    }
    // 0 is taken, 1 skipped, 2 dropped after reading.
    give(&mut feed, 0..3);
    stage.runner.turn(0);
    assert_eq!(stage.regime(Regime::Housekeeping), 50_000);
    assert_eq!(stage.regime(Regime::Wait), 3);
    assert_eq!(stage.regime(Regime::Finish), 107 + 20);
    assert_eq!(stage.regime(Regime::FilteredBefore), 7);
    assert_eq!(stage.regime(Regime::FilteredAfter), 107);
    // The core goes elsewhere, and sleeps.
    clock.advance(Duration::from_nanos(1000));
    stage.runner.turn(400);
    assert_eq!((stage.regime(Regime::Elsewhere), stage.regime(Regime::Wait)), (600, 3 + 400 + 3));
    // Two frags were published; six more fill the output.
    give(&mut feed, (3..9).map(|n| n + 10));
    stage.settle();
    give(&mut feed, [30]);
    stage.settle();
    assert_eq!((stage.regime(Regime::Backpressure), stage.word("in_backpressure")), (0, 1));
    clock.advance(Duration::from_nanos(5000));
    stage.runner.turn(0);
    assert_eq!(stage.regime(Regime::Elsewhere), 5600, "another tile's time is not this one's wait for room");
    let ns: &[u64; REGIMES] = stage.runner.time_line().ns();
    assert_eq!(ns.iter().sum::<u64>(), clock.now());
    let in_memory: u64 = Regime::ALL.map(|r| format!("regime_{}_ns", r.column())).iter().map(|n| stage.word(n)).sum();
    assert_eq!(in_memory, clock.now());
}

#[test]
fn a_turn_says_when_it_ends() {
    let mut stage = Stage::<1>::new(&[IN]);
    let mut feed = stage.wires.feed("in");
    look(&stage.script).costs = [100, 20, 3, 50_000];
    let turn = |now| Turn { now, parked_ns: 0, sleeps_next: false, idle_housekeeping_ns: HOUSEKEEPING_NS };
    assert_eq!(stage.runner.turn_at(turn(0)), (Activity::Idle, 50_003), "housekeeping and a poll");
    give(&mut feed, [1]);
    assert_eq!(stage.runner.turn_at(turn(50_003)), (Activity::Worked, 50_126));
    assert_eq!(stage.wires.clock.now(), 50_126);
    // What passes before the next turn is another tile's.
    stage.wires.clock.advance(Duration::from_nanos(500));
    assert_eq!(stage.runner.turn_at(turn(50_526)), (Activity::Idle, 50_629));
    assert_eq!((stage.regime(Regime::Elsewhere), stage.regime(Regime::Wait)), (400, 3 + 3 + 103));
}

#[test]
fn a_core_keeps_house_less_often_for_an_idle_tile() {
    let mut stage = Stage::<1>::new(&[IN]);
    let (mut feed, clock) = (stage.wires.feed("in"), stage.wires.clock.clone());
    look(&stage.script).costs = [0, 0, 0, 1];
    let mut kept_after = |milliseconds| {
        clock.advance(Duration::from_millis(milliseconds));
        let idle_housekeeping_ns = IDLE_HOUSEKEEPING_NS;
        stage.runner.turn_at(Turn { now: clock.now(), parked_ns: 0, sleeps_next: false, idle_housekeeping_ns });
        stage.regime(Regime::Housekeeping)
    };
    assert_eq!(kept_after(0), 1, "the first turn keeps house");
    assert_eq!([kept_after(1), kept_after(3)], [1, 1]);
    assert_eq!(kept_after(1), 2);
    give(&mut feed, [1]);
    assert_eq!(kept_after(0), 2);
    assert_eq!(kept_after(1), 3, "it has worked");
}

#[test]
fn without_room_a_tile_waits_for_nothing_else() {
    let mut stage = Stage::<1>::new(&[IN, OUT]);
    let mut feed = stage.wires.feed("in");
    let mut drain = stage.wires.drain("out");
    look(&stage.script).publish = [1, 0, 0];
    look(&stage.script).wait_for = Box::new(|| WaitFor { readable: vec![0], deadline: Some(0) });
    give(&mut feed, 0..DEPTH as u8);
    stage.settle();
    let wait = stage.runner.waits_for();
    assert_eq!((wait.readable.len(), wait.deadline), (0, None));
    take(&mut drain, usize::MAX);
    stage.settle();
    let wait = stage.runner.waits_for();
    assert_eq!((wait.readable.len(), wait.deadline), (1, Some(0)));
}

#[test]
fn time_without_room_is_backpressure() {
    let mut stage = Stage::<1>::new(&[IN, OUT]);
    let mut feed = stage.wires.feed("in");
    let clock = stage.wires.clock.clone();
    look(&stage.script).publish = [1, 0, 0];
    give(&mut feed, 0..DEPTH as u8);
    stage.settle();
    // Only a turn that starts with room calls the filter; one of its two frags fits.
    look(&stage.script).filter = Box::new(move |_, _| {
        clock.advance(Duration::from_nanos(9));
        Filter::Take
    });
    give(&mut feed, [1]);
    stage.settle();
    assert_eq!(stage.regime(Regime::Backpressure), 0, "the turn's start finds no room before it asks the filter");
    let mut drain = stage.wires.drain("out");
    assert_eq!(take(&mut drain, 1).len(), 1);
    give(&mut feed, [2]);
    stage.settle();
    assert_eq!(stage.regime(Regime::Backpressure), 9);
    assert_eq!(stage.regime(Regime::Finish), 9);
    // While blocked, it sleeps; and again, with another tile's turn before its own next one.
    let wait = stage.regime(Regime::Wait);
    for (gap, parked) in [(50_000, 50_000), (6_000, 5_000)] {
        stage.wires.clock.advance(Duration::from_nanos(gap));
        stage.runner.turn(parked);
    }
    assert_eq!((stage.regime(Regime::Backpressure), stage.regime(Regime::Elsewhere)), (55_009, 1_000));
    assert_eq!(stage.regime(Regime::Wait), wait);
    // The sleep that ended when room appeared also counts as backpressure; the next one is a wait for work.
    take(&mut drain, usize::MAX);
    for _ in 0..2 {
        stage.wires.clock.advance(Duration::from_nanos(700));
        stage.runner.turn(700);
    }
    assert_eq!((stage.regime(Regime::Backpressure), stage.regime(Regime::Wait)), (55_709, wait + 700));
}

#[test]
fn backpressure_is_entered_left_and_counted() {
    let mut stage = Stage::<1>::new(&[IN, OUT]);
    let (mut feed, mut drain) = (stage.wires.feed("in"), stage.wires.drain("out"));
    look(&stage.script).publish = [1, 0, 0];
    let mut received = vec![];
    for round in 1..=3 {
        while received.len() as u64 + u64::from(DEPTH) > stage.word("frags_out") {
            give(&mut feed, [0]);
            assert_eq!(stage.runner.turn(0), Activity::Worked);
        }
        assert_eq!(stage.runner.turn(0), Activity::Idle, "no room is nothing to do");
        assert_eq!(stage.runner.turn(0), Activity::Idle);
        assert_eq!((stage.word("in_backpressure"), stage.word("backpressures")), (1, round));
        give(&mut feed, [0, 0]);
        stage.settle();
        assert_eq!(stage.word("frags_in"), stage.word("frags_out"), "nothing is read without room");
        received.extend(take(&mut drain, usize::MAX));
        stage.settle();
        assert_eq!((stage.word("in_backpressure"), stage.word("backpressures")), (0, round));
    }
    received.extend(take(&mut drain, usize::MAX));
    assert!(received.iter().copied().eq(0..stage.word("frags_in")), "each frag once and in order");
}

/// Every callback publishes as much as it may. Publishing without room panics, so this passes only if the loop checks
/// for room before each call.
#[test]
fn no_callback_is_called_without_room_for_its_burst() {
    let mut stage = Stage::<3>::new(&[IN, OUT, Wire { name: "out:1", ..OUT }]);
    let mut feed = stage.wires.feed("in");
    let (mut first, mut second) = (stage.wires.drain("out"), stage.wires.drain("out:1"));
    {
        let mut script = look(&stage.script);
        script.publish = [3, 3, 3];
        let mut polls = 0;
        script.on_poll = Box::new(move || {
            polls += 1;
            if polls % 5 == 0 { Poll::Busy } else { Poll::Idle }
        });
    }
    let (mut random, mut got) = (fastrand::Rng::with_seed(1), [vec![], vec![]]);
    let mut given = 0u64;
    for _ in 0..20_000 {
        if random.u8(..3) == 0 && feed.credits(1) > 0 {
            give(&mut feed, [given as u8]);
            given += 1;
        }
        stage.runner.turn(0);
        got[0].extend(take(&mut first, random.usize(..4)));
        got[1].extend(take(&mut second, random.usize(..4)));
    }
    while stage.runner.turn(0) == Activity::Worked {
        got[0].extend(take(&mut first, usize::MAX));
        got[1].extend(take(&mut second, usize::MAX));
    }
    let published = stage.word("frags_out") / 2;
    for got in &got {
        assert!(got.iter().copied().eq(0..got.len() as u64), "in order, none lost");
        assert!(published - got.len() as u64 <= u64::from(DEPTH), "all but what the link still holds");
    }
    let script = look(&stage.script);
    assert!(given > 1000 && script.taken.len() as u64 + u64::from(DEPTH) >= given);
    assert!(3 * (script.bursts + script.taken.len()) as u64 <= published, "polls have published, too");
}

#[test]
fn a_burst_without_room_at_its_end_is_ended_before_anything_else() {
    let mut stage = Stage::<1>::new(&[IN, OUT]);
    let (mut feed, mut drain) = (stage.wires.feed("in"), stage.wires.drain("out"));
    look(&stage.script).publish = [1, 1, 0];
    // The eighth output frag is the fourth one's of the second run; its burst finds the link full.
    for number in 0..DEPTH as u8 {
        give(&mut feed, [number]);
        stage.runner.turn(0);
    }
    assert_eq!(stage.seen(), (4, 4), "a frag and a burst each take a place");
    assert_eq!(take(&mut drain, 1), [0]);
    stage.runner.turn(0);
    assert_eq!(stage.seen(), (5, 4), "its burst stays open");
    assert_eq!(stage.word("in_backpressure"), 1);
    assert_eq!(take(&mut drain, 1), [1]);
    stage.runner.turn(0);
    assert_eq!(stage.seen(), (5, 5), "ended before the next frag");
    assert_eq!(take(&mut drain, usize::MAX), (2..10).collect::<Vec<u64>>());
}

#[test]
fn bursts_end_after_a_run_of_frags_and_not_without_any() {
    let mut stage = Stage::<1>::new(&[IN]);
    let mut feed = stage.wires.feed("in");
    stage.runner.turn(0);
    assert_eq!(stage.seen(), (0, 0));
    give(&mut feed, 0..7);
    stage.runner.turn(0);
    assert_eq!(stage.seen(), (4, 1), "FRAGS_PER_RUN is 4");
    stage.runner.turn(0);
    assert_eq!(stage.seen(), (7, 2));
    look(&stage.script).filter = Box::new(|_, _| Filter::Skip);
    give(&mut feed, 0..3);
    stage.settle();
    assert_eq!(stage.seen(), (7, 2), "skipped frags make no burst");
    assert_eq!(stage.word("frags_in"), 7);
}

#[test]
fn a_frag_for_later_stays_and_other_inputs_continue() {
    let mut stage = Stage::<1>::new(&[IN, Wire { name: "other", ..IN }]);
    let (mut feed, mut other) = (stage.wires.feed("in"), stage.wires.feed("other"));
    look(&stage.script).filter = Box::new(|_, input| if input.index() == 0 { Filter::Later } else { Filter::Take });
    give(&mut feed, [1, 2]);
    give(&mut other, [11, 12, 13]);
    stage.settle();
    assert_eq!(look(&stage.script).taken, [11, 12, 13]);
    assert_eq!(feed.credits(usize::MAX), DEPTH as usize - 2, "not released");
    look(&stage.script).filter = Box::new(|_, _| Filter::Take);
    stage.settle();
    assert_eq!(look(&stage.script).taken, [11, 12, 13, 1, 2]);
    assert_eq!(feed.credits(usize::MAX), DEPTH as usize);
}

#[test]
fn no_input_starves_another() {
    let mut stage = Stage::<1>::new(&[IN, Wire { name: "other", ..IN }]);
    let (mut feed, mut other) = (stage.wires.feed("in"), stage.wires.feed("other"));
    for _ in 0..100 {
        let (a, b) = (feed.credits(usize::MAX), other.credits(usize::MAX));
        give(&mut feed, vec![1; a]);
        give(&mut other, vec![2; b]);
        stage.runner.turn(0);
    }
    let script = look(&stage.script);
    let firsts = script.taken.iter().filter(|n| **n == 1).count();
    assert_eq!((firsts, script.taken.len()), (200, 400), "a run of four each in turn");
}

#[test]
fn skipped_and_dropped_frags_count_as_filtered() {
    let mut stage = Stage::<1>::new(&[IN]);
    let mut feed = stage.wires.feed("in");
    {
        let mut script = look(&stage.script);
        script.filter = Box::new(|meta, _| if meta.tag < 3 { Filter::Skip } else { Filter::Take });
        script.on_frag = Box::new(|payload| payload[0] == 4);
    }
    give(&mut feed, 0..6);
    stage.settle();
    let links = Observer::attach(&stage.wires.path).unwrap().links();
    assert_eq!(links[0].consumers[0].filtered, 3 + 1);
    assert_eq!(look(&stage.script).taken, [3, 4, 5]);
    assert_eq!(stage.word("frags_in"), 3);
}

#[test]
fn being_overrun_on_a_lossy_input_is_counted_and_survived() {
    let mut stage = Stage::<1>::new(&[Wire { reliable: false, ..IN }]);
    let mut feed = stage.wires.feed("in");
    // Lapped while looking for the next frag.
    give(&mut feed, 0..3 * DEPTH as u8);
    stage.settle();
    let taken = std::mem::take(&mut look(&stage.script).taken);
    assert!(taken.is_sorted() && taken.last() == Some(&(3 * DEPTH as u8 - 1)), "the newest arrive: {taken:?}");
    let path = stage.wires.path.clone();
    let lost = || {
        let link = Observer::attach(&path).unwrap().links().remove(0);
        (link.consumers[0].overrun_poll, link.consumers[0].overrun_read)
    };
    let lapped = 3 * u64::from(DEPTH) - taken.len() as u64;
    assert_eq!(lost(), (lapped, 0));
    // Lapped between looking at a frag and reading it: the filter is called in between.
    give(&mut feed, [100]);
    let (clock, mut lapper) = (stage.wires.clock.clone(), Some(feed));
    look(&stage.script).filter = Box::new(move |_, _| {
        if let Some(mut feed) = lapper.take() {
            give(&mut feed, 200..200 + 2 * DEPTH as u8);
            clock.advance(Duration::from_nanos(9));
        }
        Filter::Take
    });
    stage.settle();
    let taken = std::mem::take(&mut look(&stage.script).taken);
    assert!(taken.is_sorted() && taken.last() == Some(&(199 + 2 * DEPTH as u8)), "the newest arrive: {taken:?}");
    let (poll, read) = lost();
    assert!(read > 0 && poll + read - lapped == 1 + 2 * u64::from(DEPTH) - taken.len() as u64, "{poll} {read}");
    assert_eq!(stage.regime(Regime::OverrunReading), 9);
}

#[test]
fn counters_reach_shared_memory_at_housekeeping() {
    let mut stage = Stage::<1>::new(&[IN]);
    let mut feed = stage.wires.feed("in");
    let clock = stage.wires.clock.clone();
    let frags = |wires: &Wires| {
        let own = wires.counters("scripted:0").words()[LoopCounters::DECLS.len()].load(Ordering::Relaxed);
        (wires.word("scripted:0", "frags_in"), own)
    };
    stage.settle();
    let beat = stage.wires.word("scripted:0", "heartbeat_unix_ns");
    assert!(beat > 0, "the first turn keeps house");
    give(&mut feed, [1, 2]);
    stage.settle();
    assert_eq!(frags(&stage.wires), (0, 0), "the hot loop touches no shared memory");
    clock.advance(Duration::from_nanos(HOUSEKEEPING_NS - 1));
    stage.settle();
    assert_eq!(frags(&stage.wires), (0, 0));
    clock.advance(Duration::from_nanos(1));
    stage.settle();
    assert_eq!(frags(&stage.wires), (2, 2));
    assert_eq!(stage.wires.word("scripted:0", "heartbeat_unix_ns"), beat + HOUSEKEEPING_NS);
}

#[test]
fn before_a_sleep_counters_are_written_where_there_was_work() {
    let mut stage = Stage::<1>::new(&[IN]);
    let mut feed = stage.wires.feed("in");
    stage.runner.turn(0);
    let written = |stage: &Stage<1>, counter| stage.wires.word("scripted:0", counter);
    give(&mut feed, [1]);
    stage.settle();
    assert_eq!(written(&stage, "frags_in"), 0, "no housekeeping was due");
    stage.runner.flush_work();
    assert_eq!(written(&stage, "frags_in"), 1);
    // An idle turn changes only how long it has waited, whose write can wait.
    let waited = written(&stage, "regime_wait_ns");
    look(&stage.script).costs[2] = 10;
    stage.runner.turn(0);
    stage.runner.flush_work();
    assert_eq!(written(&stage, "regime_wait_ns"), waited);
    stage.wires.clock.advance(Duration::from_nanos(IDLE_WRITE_NS));
    stage.runner.turn(0);
    assert!(written(&stage, "regime_wait_ns") > waited);
}

#[test]
fn without_work_counters_are_written_now_and_then() {
    let mut stage = Stage::<1>::new(&[IN]);
    let mut feed = stage.wires.feed("in");
    let beat = |stage: &Stage<1>| stage.wires.word("scripted:0", "heartbeat_unix_ns");
    let millisecond = |stage: &mut Stage<1>| {
        stage.wires.clock.advance(Duration::from_nanos(HOUSEKEEPING_NS));
        stage.settle();
    };
    stage.settle();
    let begun = beat(&stage);
    for _ in 1..IDLE_WRITE_NS / HOUSEKEEPING_NS {
        millisecond(&mut stage);
        assert_eq!(beat(&stage), begun);
    }
    millisecond(&mut stage);
    assert_eq!(beat(&stage), begun + IDLE_WRITE_NS);
    // After work the next housekeeping writes.
    give(&mut feed, [1]);
    millisecond(&mut stage);
    millisecond(&mut stage);
    assert_eq!(beat(&stage), begun + IDLE_WRITE_NS + 2 * HOUSEKEEPING_NS);
    assert_eq!(stage.wires.word("scripted:0", "frags_in"), 1);
}

#[test]
fn stopping_is_reported_once_and_shown() {
    let mut stage = Stage::<1>::new(&[IN]);
    stage.runner.started();
    assert_eq!(stage.word("state"), 1);
    stage.runner.stop();
    assert_eq!(look(&stage.script).stops, 1);
    assert_eq!(stage.word("state"), 2);
}

#[test]
fn a_tile_without_inputs_is_polled() {
    let mut stage = Stage::<2>::new(&[OUT]);
    let mut drain = stage.wires.drain("out");
    {
        let mut script = look(&stage.script);
        script.publish = [0, 0, 2];
        script.on_poll = Box::new(|| Poll::Busy);
    }
    for _ in 0..10 {
        stage.runner.turn(0);
    }
    assert_eq!(take(&mut drain, usize::MAX), (0..8).collect::<Vec<u64>>());
    assert_eq!(stage.word("in_backpressure"), 1);
}

/// Forwards frags, and publishes three of its own at the start: two without an origin, one just received.
struct Relay {
    port: Port,
    own: u64,
}

impl Tile for Relay {
    const NAME: &'static str = "relay";
    const LATENCIES: &'static [LatencyDecl] = &[latency::TAKEN];
    type Config = ();
    type Counters = ();

    fn new(_: (), host: &mut Host<'_>) -> Result<Self, InitError> {
        Ok(Self { port: host.output("out")?, own: 0 })
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        out.publish(self.port, frag.tag(), frag.payload());
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        if self.own == 3 {
            return Poll::Idle;
        }
        if self.own == 2 {
            out.set_received();
        }
        out.publish(self.port, 0, &[]);
        self.own += 1;
        Poll::Busy
    }
}

#[test]
fn receipt_times_travel_with_their_frags() {
    let mut rig = Rig::<Relay>::new((), &["in"], &["out"]);
    rig.advance(Duration::from_micros(10));
    rig.run();
    assert_eq!(rig.take_origins("out"), [0, 0, 10]);
    rig.give("in", 0, b"first");
    rig.advance(Duration::from_micros(700));
    rig.give("in", 0, b"second");
    rig.advance(Duration::from_micros(2_000));
    rig.run();
    assert_eq!(rig.take_origins("out"), [10, 710]);
    let [histogram] = rig.latencies() else { panic!("one histogram") };
    assert_eq!((histogram.count(), histogram.sum_us(), histogram.max_us()), (2, 2_700 + 2_000, 2_700));
}

#[test]
fn only_the_cores_that_something_was_moved_for_are_woken() {
    let wires = [
        Wire { name: "first", from: "a:0", to: "scripted:0", reliable: true },
        Wire { name: "second", from: "b:0", to: "scripted:0", reliable: true },
        Wire { name: "out", from: "scripted:0", to: "c:0", reliable: true },
    ];
    let wires = Wires::new(Clock::manual(), &["a:0", "b:0", "c:0", "scripted:0"], &wires);
    let (script, own) = (script(), Waker::new().unwrap());
    let others = [(); 3].map(|()| Waker::new().unwrap());
    let named = [("a:0", &others[0]), ("b:0", &others[1]), ("c:0", &others[2])];
    let mut runner = wires.runner::<ScriptedTile<1>>("scripted:0", script.clone(), &own, &named);
    let mut woken = |publish: [usize; 3], feed: Option<&str>| {
        look(&script).publish = publish;
        if let Some(link) = feed {
            give(&mut wires.feed(link), [1]);
        }
        others.iter().for_each(Waker::announce);
        runner.turn(0);
        runner.wake_neighbours(None);
        let woken = others.each_ref().map(|waker| !waker.is_parked());
        others.iter().for_each(Waker::cancel);
        woken
    };
    assert_eq!(woken([0, 0, 0], None), [false; 3], "an idle turn");
    assert_eq!(woken([0, 0, 0], Some("second")), [false, true, false], "room for who gave the frag");
    assert_eq!(woken([1, 0, 0], Some("first")), [true, false, true], "and a frag for the consumer");
    assert_eq!(woken([0, 0, 0], None), [false; 3], "all have been notified");
}
