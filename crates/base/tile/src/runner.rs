//! runner: one tile's loop, a bounded turn at a time.
//!
//! reads   the tile's links
//! writes  the tile's links, its counters, its regimes
//! memory  the tile's own
//!
//! A turn consists of: housekeeping if due, a check for room on the outputs, [`Tile::poll`], at most
//! [`Tile::FRAGS_PER_RUN`] frags over the inputs in turn, [`Tile::end_burst`], and the release of progress. Each
//! callback requires room for a burst on every output that is not elective. A burst that finds no room at its end stays
//! open, and nothing else is called until it has ended. The core decides when the next turn comes.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use hearth_ring::{Consumer, Counters, FragMeta, PollResult};

use crate::bandwidth;
use crate::clock::Clock;
use crate::counters::{CounterSet, LoopCounters};
use crate::latency::{self, Histogram};
use crate::panics;
use crate::regime::{Regime, TimeLine};
use crate::sys;
use crate::tile::{Entropy, Filter, Frag, Host, In, InitError, Out, OutPort, Poll, Tile, WaitFor};
use crate::wake::{Neighbours, Waker};

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The tile did something in this turn.
    Worked,
    /// Nothing to do, or no room for it.
    Idle,
}

/// Interval between two housekeepings, in nanoseconds.
pub const HOUSEKEEPING_NS: u64 = 1_000_000;
/// The same for a tile of a node's core that has not worked meanwhile, in nanoseconds. At little load a core wakes
/// every few milliseconds for one of its tiles, and need not keep house for all of them each time.
pub const IDLE_HOUSEKEEPING_NS: u64 = 5_000_000;
/// A housekeeping writes the counters and the heartbeat of a tile without work if the last write was this long ago, in
/// nanoseconds. What a tile counts changes only where it works, and then the next housekeeping writes it; a core
/// without work that wakes every few milliseconds for one of its tiles need not write those of all.
pub const IDLE_WRITE_NS: u64 = 20_000_000;

/// The circumstances of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// When it begins, on the host's clock.
    pub now: u64,
    /// For how long the core slept since the last turn, in nanoseconds.
    pub parked_ns: u64,
    /// Whether the core sleeps after this pass unless a tile works in it. Not set on a core with much work.
    pub sleeps_next: bool,
    /// Interval between two housekeepings if the tile has not worked meanwhile, in nanoseconds.
    pub idle_housekeeping_ns: u64,
}

/// The parts that a tile's loop is built from.
pub struct Parts {
    /// The tile's name with its index, such as `verify:1`.
    pub name: String,
    /// Index among its kind, from 0.
    pub index: usize,
    /// How many tiles of its kind there are.
    pub peers: usize,
    /// The host's clock, the same for all tiles of a node.
    pub clock: Clock,
    /// Inputs, in the topology's order.
    pub inputs: Vec<Consumer>,
    /// Outputs, in the topology's order.
    pub outputs: Vec<hearth_ring::Producer>,
    /// Counters: [`LoopCounters`] first, then the tile's own, its latencies and its peers.
    pub counters: Counters,
    /// Wakes the core that runs this tile.
    pub waker: Waker,
    /// Cores at the other ends of the tile's links.
    pub neighbours: Neighbours,
    /// The source of the tile's secrets.
    pub entropy: Entropy,
}

/// A tile of any kind, as its core's thread sees it.
pub trait Runnable: Send {
    /// The tile's full name.
    fn name(&self) -> &str;
    /// Called when the thread that runs the turns has started.
    fn started(&mut self);
    /// Called when the calling thread takes over the turns.
    fn moved(&mut self);
    /// Runs one bounded turn now. The core slept for `parked_ns` of the time since the last one.
    fn turn(&mut self, parked_ns: u64) -> Activity;
    /// Runs one bounded turn. Returns when it ended, too, at which the next tile's turn begins: of a turn that finds
    /// nothing to do, reading the clock is the most expensive part.
    fn turn_at(&mut self, turn: Turn) -> (Activity, u64);
    /// Adds what to wait for while parked.
    fn wait_for(&self, wait: &mut WaitFor);
    /// Returns what to wait for while parked.
    fn waits_for(&self) -> WaitFor {
        let mut wait = WaitFor::default();
        self.wait_for(&mut wait);
        wait
    }
    /// Called after a sleep with the tile's descriptors that were readable, see [`Tile::slept`].
    fn slept(&mut self, readable: u32);
    /// Wakes the cores at the other ends of its links if the last turns moved anything. `caller` is the core whose
    /// thread calls, if one does, which needs no wake-up.
    fn wake_neighbours(&mut self, caller: Option<&Waker>);
    /// Time for which the tile has used the core, in nanoseconds.
    fn busy_ns(&self) -> u64;
    /// Attributes CPU time, and what the kernel counted for the thread since the last time.
    fn charge(&mut self, cpu_ns: u64, thread: OfThread);
    /// Writes the counters to shared memory now.
    fn flush(&mut self);
    /// Writes the counters to shared memory if the tile has worked since the last write. Changes of idle turns are
    /// written by the first housekeeping [`IDLE_WRITE_NS`] after it.
    fn flush_work(&mut self);
    /// Called when the node stops.
    fn stop(&mut self);
    /// Called after the tile has panicked.
    fn died(&mut self);
}

/// The kernel's counts for a core's thread over an interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfThread {
    /// Number of voluntary and involuntary context switches.
    pub switches: (u64, u64),
    /// Time for which it was ready while its core ran something else, in nanoseconds.
    pub waited_for_core_ns: u64,
}

/// Up to where the cores at the other ends were woken.
struct Notified {
    /// By input: the sequence number of the next frag.
    read: Vec<u64>,
    /// By output: the number of published frags.
    published: Vec<u64>,
}

/// A tile with its links and its time line.
pub struct Runner<T: Tile> {
    tile: T,
    name: String,
    clock: Clock,
    inputs: Vec<Consumer>,
    ports: Vec<OutPort>,
    words: Counters,
    count: T::Counters,
    shared: LoopCounters,
    latencies: Vec<Histogram>,
    bandwidth: bandwidth::Table,
    line: TimeLine,
    neighbours: Neighbours,
    notified: Notified,
    next_housekeeping: u64,
    /// The same if the tile has not worked since the last housekeeping.
    next_idle_housekeeping: u64,
    /// When the counters are written even if the tile has not worked.
    write_at: u64,
    next_input: usize,
    /// Whether frags were read and [`Tile::end_burst`] was not called yet.
    burst_open: bool,
    moved: bool,
    blocked: bool,
    /// Whether the last turn found no room: nothing is called until there is some.
    without_room: bool,
    /// Whether the tile reported in this turn that an elective output held it up.
    held_up: bool,
    /// Whether the core sleeps after this turn unless a tile works.
    sleeps_next: bool,
    /// Whether it has worked, or started or stopped waiting for room, since the counters were written.
    is_unwritten: bool,
}

impl<T: Tile> Runner<T> {
    /// Whether the loop records a latency for each frag.
    const RECORDS: bool = !T::LATENCIES.is_empty() && T::LATENCIES[0].by_loop;
    /// Index of the first latency word.
    const FIRST_LATENCY: usize = LoopCounters::DECLS.len() + T::Counters::DECLS.len();
    /// Index of the first word of the table of peers.
    const FIRST_PEER: usize = Self::FIRST_LATENCY + T::LATENCIES.len() * latency::WORDS;

    /// Creates the tile and its loop.
    pub fn new(config: T::Config, mut parts: Parts) -> Result<Self, InitError> {
        let need = Self::FIRST_PEER + bandwidth::words(T::PEERS);
        assert!(parts.counters.words().len() >= need, "{}: counters region too small", parts.name);
        let outputs = std::mem::take(&mut parts.outputs);
        let mut ports: Vec<OutPort> =
            outputs.into_iter().map(|producer| OutPort { producer, elective: false, published: 0 }).collect();
        let mut host = Host {
            name: &parts.name,
            index: parts.index,
            peers: parts.peers,
            clock: &parts.clock,
            inputs: &parts.inputs,
            ports: &mut ports,
            waker: &parts.waker,
            entropy: &mut parts.entropy,
        };
        let tile = T::new(config, &mut host)?;
        let bandwidth = bandwidth::Table::new(T::PEERS, [host.entropy(), host.entropy()]);
        for port in &ports {
            assert!(
                T::BURST <= port.producer.depth(),
                "{}: burst exceeds the depth of {}",
                parts.name,
                port.producer.name()
            );
        }
        let now = parts.clock.now();
        let neighbours = parts.neighbours;
        assert!(neighbours.producers.len() <= parts.inputs.len() && neighbours.consumers.len() <= ports.len());
        let notified =
            Notified { read: parts.inputs.iter().map(Consumer::seq).collect(), published: vec![0; ports.len()] };
        Ok(Self {
            tile,
            name: parts.name,
            clock: parts.clock,
            inputs: parts.inputs,
            ports,
            words: parts.counters,
            count: T::Counters::default(),
            shared: LoopCounters::default(),
            latencies: vec![Histogram::default(); T::LATENCIES.len()],
            bandwidth,
            line: TimeLine::new(now),
            neighbours,
            notified,
            next_housekeeping: now,
            next_idle_housekeeping: now,
            write_at: now,
            next_input: 0,
            burst_open: false,
            moved: false,
            blocked: false,
            without_room: false,
            held_up: false,
            sleeps_next: false,
            is_unwritten: false,
        })
    }

    /// The tile itself, for its tests.
    pub fn tile(&mut self) -> &mut T {
        &mut self.tile
    }

    /// The tile's counters so far.
    pub fn count(&self) -> &T::Counters {
        &self.count
    }

    /// The latencies so far, in the order of [`Tile::LATENCIES`].
    pub fn latencies(&self) -> &[Histogram] {
        &self.latencies
    }

    /// The words of its table of peers, as observers read them.
    pub fn peer_words(&self) -> &[AtomicU64] {
        &self.words.words()[Self::FIRST_PEER..]
    }

    /// The time line so far.
    pub fn time_line(&self) -> &TimeLine {
        &self.line
    }

    /// Whether the tile is waiting for room on an output, and how often such a wait started.
    pub fn backpressure(&self) -> (bool, u64) {
        (self.blocked, self.shared.backpressures)
    }

    fn has_room(&mut self) -> bool {
        T::BURST == 0 || self.ports.iter_mut().all(|p| p.elective || p.producer.credits(T::BURST) >= T::BURST)
    }

    fn call(&mut self, now: u64, f: impl FnOnce(&mut T, &mut Out<'_, T>)) -> bool {
        let mut out = Out {
            count: &mut self.count,
            ports: &mut self.ports,
            now,
            clock: &self.clock,
            latencies: &mut self.latencies,
            bandwidth: &mut self.bandwidth,
            origin_us: 0,
            filtered: false,
            held_up: false,
            sleeps_next: self.sleeps_next,
        };
        f(&mut self.tile, &mut out);
        self.held_up |= out.held_up;
        out.filtered
    }

    fn housekeep(&mut self, now: u64, idle_housekeeping_ns: u64) {
        self.call(now, |tile, out| tile.housekeep(out));
        self.next_housekeeping = now + HOUSEKEEPING_NS;
        self.next_idle_housekeeping = now + idle_housekeeping_ns;
        if self.is_unwritten || now >= self.write_at {
            self.write_counters(now);
        }
    }

    fn write_counters(&mut self, now: u64) {
        self.is_unwritten = false;
        self.write_at = now + IDLE_WRITE_NS;
        self.shared.heartbeat_unix_ns = self.clock.unix_ns(now);
        self.shared.set_regimes(self.line.ns());
        self.shared.frags_out = self.published();
        let words = self.words.words();
        self.shared.flush(words);
        self.count.flush(&words[LoopCounters::DECLS.len()..]);
        let regions = words[Self::FIRST_LATENCY..Self::FIRST_PEER].chunks_exact(latency::WORDS);
        self.latencies.iter_mut().zip(regions).for_each(|(latency, words)| latency.flush(words));
        self.bandwidth.flush(&words[Self::FIRST_PEER..], now);
    }

    /// Frags published to all outputs so far.
    fn published(&self) -> u64 {
        self.ports.iter().map(|p| p.published).sum()
    }

    /// Records whether the tile is waiting for room on an output.
    fn note_room(&mut self, room: bool) {
        if !room {
            self.shared.backpressures += u64::from(!self.blocked);
            self.line.spent(Regime::Backpressure, self.clock.now());
        }
        self.blocked = !room;
        self.shared.in_backpressure = u64::from(self.blocked);
    }

    fn poll_tile(&mut self, now: u64) -> bool {
        let mut polled = Poll::Idle;
        self.call(now, |tile, out| polled = tile.poll(out));
        let busy = polled == Poll::Busy;
        let regime = match (busy, self.held_up) {
            (true, _) => Regime::Finish,
            (false, true) => Regime::Backpressure,
            (false, false) => Regime::Wait,
        };
        self.line.spent(regime, self.clock.now());
        busy
    }

    /// Ends the current burst, if any. Returns false if there is no room for what that may publish.
    fn end_burst(&mut self) -> bool {
        if !self.burst_open {
            return true;
        }
        if !self.has_room() {
            return false;
        }
        self.burst_open = false;
        let now = self.clock.now();
        self.call(now, |tile, out| tile.end_burst(out));
        self.line.spent(Regime::Finish, self.clock.now());
        true
    }

    /// Reads frags from the inputs in turn. Returns how many were passed, and whether there was room for them.
    fn read_frags(&mut self) -> (usize, bool) {
        let (mut passed, count) = (0, self.inputs.len());
        let first = self.next_input;
        self.next_input = if count == 0 { 0 } else { (first + 1) % count };
        for step in 0..count {
            let i = (first + step) % count;
            while passed < T::FRAGS_PER_RUN {
                let meta = match self.inputs[i].poll() {
                    PollResult::Empty => break,
                    PollResult::Overrun { .. } => {
                        self.line.spent(Regime::OverrunPolling, self.clock.now());
                        continue;
                    }
                    PollResult::Ready(meta) => meta,
                };
                match self.tile.filter(&meta, In(i as u16)) {
                    Filter::Later => break,
                    Filter::Skip => {
                        self.inputs[i].skip();
                        passed += 1;
                        self.line.spent(Regime::FilteredBefore, self.clock.now());
                        continue;
                    }
                    Filter::Take => {}
                }
                if !self.has_room() {
                    return (passed, false);
                }
                passed += usize::from(self.take(i, &meta));
            }
        }
        (passed, true)
    }

    /// Hands one frag to the tile. Returns false if the producer overran it first.
    fn take(&mut self, input: usize, meta: &FragMeta) -> bool {
        let now = self.clock.now();
        let Ok(payload) = self.inputs[input].payload(meta) else {
            self.inputs[input].advance();
            self.line.spent(Regime::OverrunReading, self.clock.now());
            return false;
        };
        if Self::RECORDS
            && let Some(age) = latency::age_us(meta.origin_us, now)
        {
            self.latencies[0].record(age);
        }
        let mut out = Out {
            count: &mut self.count,
            ports: &mut self.ports,
            now,
            clock: &self.clock,
            latencies: &mut self.latencies,
            bandwidth: &mut self.bandwidth,
            origin_us: meta.origin_us,
            filtered: false,
            held_up: false,
            sleeps_next: self.sleeps_next,
        };
        self.tile.on_frag(Frag { meta: *meta, input: In(input as u16), payload }, &mut out);
        self.held_up |= out.held_up;
        let regime = if out.filtered {
            self.inputs[input].skip();
            Regime::FilteredAfter
        } else {
            self.inputs[input].advance();
            Regime::Finish
        };
        self.burst_open = true;
        self.shared.frags_in += 1;
        self.line.spent(regime, self.clock.now());
        true
    }
}

impl<T: Tile> Runnable for Runner<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn started(&mut self) {
        self.line = TimeLine::new(self.clock.now());
        self.shared.tid = sys::thread::id();
        self.shared.state = 1;
        self.flush();
    }

    fn moved(&mut self) {
        self.shared.tid = sys::thread::id();
        self.is_unwritten = true;
    }

    fn turn(&mut self, parked_ns: u64) -> Activity {
        let now = self.clock.now();
        self.turn_at(Turn { now, parked_ns, sleeps_next: false, idle_housekeeping_ns: HOUSEKEEPING_NS }).0
    }

    fn turn_at(&mut self, turn: Turn) -> (Activity, u64) {
        let Turn { mut now, parked_ns, sleeps_next, idle_housekeeping_ns } = turn;
        self.sleeps_next = sleeps_next;
        let parked = if self.blocked { Regime::Backpressure } else { Regime::Wait };
        self.line.resumed(parked, parked_ns, now);
        let published = self.published();
        if now >= self.next_housekeeping && (self.is_unwritten || now >= self.next_idle_housekeeping) {
            self.housekeep(now, idle_housekeeping_ns);
            now = self.clock.now();
            self.line.spent(Regime::Housekeeping, now);
        }
        let (mut passed, mut busy) = (0, false);
        // A burst that found no room at its end comes before anything else.
        let was_open = self.burst_open;
        let mut room = self.end_burst() && self.has_room();
        if room {
            busy = self.poll_tile(if was_open { self.clock.now() } else { now });
            (passed, room) = self.read_frags();
            room &= self.end_burst();
            if passed > 0 {
                self.inputs.iter_mut().for_each(Consumer::release);
            }
        }
        let held_up = std::mem::take(&mut self.held_up);
        self.without_room = !room;
        let was_blocked = self.blocked;
        self.note_room(room && !held_up);
        let moved = passed > 0 || self.published() != published;
        self.moved |= moved;
        self.is_unwritten |= moved || busy || self.blocked != was_blocked;
        (if moved || busy { Activity::Worked } else { Activity::Idle }, self.line.until())
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        // A deadline that has passed, or a descriptor that the tile does not read, would keep the core awake for
        // nothing.
        if !self.without_room {
            self.tile.wait_for(wait);
        }
    }

    fn slept(&mut self, readable: u32) {
        self.tile.slept(readable);
    }

    fn wake_neighbours(&mut self, caller: Option<&Waker>) {
        if !std::mem::take(&mut self.moved) {
            return;
        }
        fence(Ordering::SeqCst);
        // A core is woken only for new frags or new room: every wake-up takes the core from another user.
        for ((producer, input), notified) in
            self.neighbours.producers.iter().zip(&self.inputs).zip(&mut self.notified.read)
        {
            if std::mem::replace(notified, input.seq()) != input.seq() {
                producer.iter().for_each(|waker| waker.wake_fenced(caller));
            }
        }
        let outputs = self.neighbours.consumers.iter().zip(&self.ports).zip(&mut self.notified.published);
        for ((consumers, port), notified) in outputs {
            if std::mem::replace(notified, port.published) != port.published {
                consumers.iter().for_each(|waker| waker.wake_fenced(caller));
            }
        }
    }

    fn busy_ns(&self) -> u64 {
        self.line.busy_ns()
    }

    fn charge(&mut self, cpu_ns: u64, thread: OfThread) {
        self.shared.cpu_ns += cpu_ns;
        self.shared.context_switches_voluntary += thread.switches.0;
        self.shared.context_switches_involuntary += thread.switches.1;
        self.shared.waited_for_core_ns += thread.waited_for_core_ns;
    }

    fn flush(&mut self) {
        self.write_counters(self.clock.now());
    }

    fn flush_work(&mut self) {
        if self.is_unwritten {
            self.flush();
        }
    }

    fn stop(&mut self) {
        let now = self.clock.now();
        // A tile that panics while it stops must not prevent the others from stopping.
        let result = panics::catch(|| self.call(now, |tile, out| tile.stop(out)));
        self.shared.state = if result.is_ok() { 2 } else { 3 };
        self.flush();
        self.moved = true;
        self.wake_neighbours(None);
    }

    fn died(&mut self) {
        self.shared.state = 3;
        self.flush();
    }
}

#[cfg(test)]
mod tests;
