//! external_tile: a stage that no core of this crate runs: it works on its own threads and reports as a tile does.
//!
//! reads   the stage's totals: time at work, items received and passed on, its own counters
//! writes  the counters region that a tile of its kind would have
//! memory  its histograms
//!
//! A long piece of work is reported only when it has ended. The regimes nevertheless sum to all of the time at every
//! moment: work is credited at the pace of the clock, and the surplus follows later.

use std::marker::PhantomData;

use hearth_ring::Counters;

use crate::clock::Clock;
use crate::counters::{CounterSet, LoopCounters};
use crate::latency::{Histogram, WORDS};
use crate::regime::{REGIMES, Regime};
use crate::topology::TileSpec;

/// Totals of a stage since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTotals {
    /// Time at work in nanoseconds, summed over all of its threads.
    pub busy_ns: u64,
    /// CPU time attributed to it, in nanoseconds.
    pub cpu_ns: u64,
    /// Items that the stage received.
    pub came: u64,
    /// Items that the stage passed on.
    pub went: u64,
}

/// Reports on behalf of a stage.
#[derive(Debug)]
pub struct Outside<C: CounterSet> {
    words: Counters,
    latencies: Vec<Histogram>,
    /// Threads that may work at once: this many seconds of work fit into one second.
    threads: u64,
    shared: LoopCounters,
    line: [u64; REGIMES],
    last: u64,
    seen_busy_ns: u64,
    owed_ns: u64,
    counters: PhantomData<C>,
}

impl<C: CounterSet> Outside<C> {
    /// Creates the reporter of a stage with `threads` threads, which writes to `words`, the region of the tile that
    /// `spec` declares. Panics if the region is too small.
    pub fn new(spec: &TileSpec, words: Counters, threads: usize, clock: &Clock) -> Self {
        assert!(words.words().len() >= spec.words(), "{}: counters region too small", spec.name());
        assert_eq!(spec.counters.len(), C::DECLS.len(), "{}: counters of another kind", spec.name());
        Self {
            words,
            latencies: vec![Histogram::default(); spec.latencies.len()],
            threads: threads.max(1) as u64,
            shared: LoopCounters { state: 1, ..LoopCounters::default() },
            line: [0; REGIMES],
            last: clock.now(),
            seen_busy_ns: 0,
            owed_ns: 0,
            counters: PhantomData,
        }
    }

    /// Counts one time in microseconds in the histogram with this index.
    pub fn record(&mut self, number: usize, us: u32) {
        self.latencies[number].record(us);
    }

    /// Reports the state of the stage; call it at least ten times per second, so that its heartbeat stays fresh.
    pub fn tell(&mut self, clock: &Clock, done: &StageTotals, counters: &C) {
        let now = clock.now();
        let elapsed = now.saturating_sub(self.last) * self.threads;
        self.last = self.last.max(now);
        self.owed_ns += done.busy_ns.saturating_sub(self.seen_busy_ns);
        self.seen_busy_ns = self.seen_busy_ns.max(done.busy_ns);
        let worked = self.owed_ns.min(elapsed);
        self.owed_ns -= worked;
        self.line[Regime::Finish as usize] += worked;
        self.line[Regime::Wait as usize] += elapsed - worked;
        self.shared.set_regimes(&self.line);
        self.shared.heartbeat_unix_ns = clock.unix_ns(now);
        self.shared.cpu_ns = self.shared.cpu_ns.max(done.cpu_ns);
        (self.shared.frags_in, self.shared.frags_out) = (done.came, done.went);
        self.flush(counters);
    }

    /// Ends the reports; the last values stay.
    pub fn stop(&mut self) {
        self.shared.state = 2;
        self.shared.flush(&self.words.words()[..LoopCounters::DECLS.len()]);
    }

    fn flush(&mut self, counters: &C) {
        let words = self.words.words();
        let own = LoopCounters::DECLS.len();
        self.shared.flush(&words[..own]);
        counters.flush(&words[own..own + C::DECLS.len()]);
        let first = own + C::DECLS.len();
        for (number, latency) in self.latencies.iter_mut().enumerate() {
            latency.flush(&words[first + number * WORDS..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use hearth_ring::{HugePages, Workspace};

    use super::*;
    use crate::counters::FIRST_REGIME;
    use crate::topology::{LatencySpec, Topology};

    crate::counters! {
        /// The counters of the stage in these tests.
        pub struct OfTest {
            /// Things that the stage has handled.
            things: Counter,
        }
    }

    #[test]
    fn its_regimes_sum_to_all_of_its_time_and_no_work_is_lost() {
        let histogram = LatencySpec { name: "block".into(), help: "A block.".into() };
        let spec = TileSpec { latencies: vec![histogram], ..TileSpec::new::<OfTest>("exec", 0) };
        let topology = Topology { name: "outside".into(), tiles: vec![spec.clone()], ..Topology::default() };
        let path = std::env::temp_dir().join(format!("hearth-outside-{}", std::process::id()));
        let workspace = Workspace::create(&path, &topology.workspace_plan(HugePages::None)).unwrap();
        let words = workspace.counters("exec:0").unwrap();
        let clock = Clock::manual();
        let mut stage = Outside::<OfTest>::new(&spec, words.clone(), 2, &clock);
        let read = |at: usize| words.words()[at].load(Ordering::Relaxed);
        let regime = |regime: Regime| read(FIRST_REGIME + regime as usize);
        clock.advance(Duration::from_nanos(100));
        let done = StageTotals { busy_ns: 500, cpu_ns: 9, came: 3, went: 2 };
        stage.tell(&clock, &done, &OfTest { things: 7 });
        assert_eq!((regime(Regime::Finish), regime(Regime::Wait)), (200, 0), "two threads worked all the time");
        clock.advance(Duration::from_nanos(200));
        stage.record(0, 5);
        stage.tell(&clock, &done, &OfTest { things: 8 });
        assert_eq!((regime(Regime::Finish), regime(Regime::Wait)), (500, 100));
        assert_eq!(read(LoopCounters::DECLS.len()), 8);
        assert_eq!(Histogram::read(&words.words()[spec.latency_at(0)..]).count(), 1);
        stage.stop();
        assert_eq!(read(LoopCounters::DECLS.len()), 8);
        assert_eq!(read(LoopCounters::DECLS.iter().position(|decl| decl.name == "state").unwrap()), 2);
        std::fs::remove_file(path).unwrap();
    }
}
