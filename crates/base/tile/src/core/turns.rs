//! turns: the loop of a core's thread: passes over its tiles, spinning, lending, sleeping.

use std::sync::atomic::Ordering;

use super::cpu::Cpu;
use super::lending::{self, CoreShared, LendingPolicy, Tiles};
use super::patience::Patience;
use super::{IdlePolicy, Shared};
use crate::clock::Clock;
use crate::runner::{Activity, HOUSEKEEPING_NS, IDLE_HOUSEKEEPING_NS, Turn};
use crate::sys::event::MAX_WAIT;
use crate::tile::WaitFor;
use crate::wake::Waker;

/// A tile that waits for descriptors.
struct Waiter {
    /// The tile, by list and position.
    tile: (usize, usize),
    /// Position of its first descriptor among those of all tiles.
    first: usize,
    /// How many it has.
    count: usize,
}

/// The state of a core's thread.
pub struct CoreThread<'a> {
    /// Index of the core.
    pub index: usize,
    /// The tiles that it runs: its own, then borrowed ones; none while its own are lent.
    pub held: Vec<Tiles>,
    /// The tile that has its turn, by list and position.
    pub running: (usize, usize),
    /// State shared by the cores.
    pub shared: &'a Shared,
    clock: Clock,
    idle: IdlePolicy,
    cpu: Cpu,
    pace: LendingPolicy,
    patience: Patience,
    /// The descriptors and the deadline of its tiles in the current or last sleep.
    wait: WaitFor,
    /// The tiles that wait for descriptors in it.
    waiting: Vec<Waiter>,
}

impl<'a> CoreThread<'a> {
    /// Creates the state for core `index`, which the calling thread runs.
    pub fn new(index: usize, tiles: Tiles, shared: &'a Shared, clock: Clock, idle: IdlePolicy) -> Self {
        let now = clock.now();
        let pace = LendingPolicy::new(index, shared.borrower, now);
        let (held, cpu, patience) = (vec![tiles], Cpu::new(now), Patience::new(idle.park_after_ns));
        let (wait, waiting) = (WaitFor::default(), vec![]);
        Self { index, held, running: (0, 0), shared, clock, idle, cpu, pace, patience, wait, waiting }
    }

    fn shared_state(&self) -> &'a CoreShared {
        &self.shared.shared_states[self.index]
    }

    fn waker(&self) -> &'a Waker {
        self.shared_state().waker()
    }

    fn has_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire)
    }

    /// Runs until the fleet stops.
    pub fn run(&mut self) {
        let (mut parked_ns, mut idle_since) = (0, None);
        let mut start = self.clock.now();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let worked = self.pass(std::mem::take(&mut parked_ns), false);
            let now = self.clock.now();
            let began = std::mem::replace(&mut start, now);
            self.pace.passed(worked, now.saturating_sub(began));
            self.charge_if_due(now);
            if self.shared_state().has_mail() {
                self.take_mail();
                continue;
            }
            if worked {
                if let Some(since) = idle_since.take() {
                    self.patience.worked_after(began.saturating_sub(since));
                }
                if self.held.len() > 1 && self.pace.is_over() {
                    self.return_all(now);
                }
            }
            // A pass that found nothing has already looked for work.
            let since = *idle_since.get_or_insert(if worked { now } else { began });
            if now.saturating_sub(since) < self.patience.ns() {
                std::hint::spin_loop();
                continue;
            }
            match self.pace.lend_to(now, &self.shared.shared_states) {
                Some(borrower) => {
                    self.lend(borrower);
                    // The time for which they were lent says nothing about how soon work arrives.
                    idle_since = None;
                }
                None => parked_ns = self.park(),
            }
            start = self.clock.now();
        }
    }

    /// Attributes CPU time and measures how much of it was work, if that is due.
    #[inline]
    fn charge_if_due(&mut self, now: u64) {
        if self.cpu.is_due(now) {
            self.charge(now);
        }
    }

    fn charge(&mut self, now: u64) {
        let cpu_ns = self.cpu.charge(&mut self.held, now);
        self.pace.measure(cpu_ns, now, &self.shared.shared_states);
    }

    /// Gives each tile one turn. Returns whether any worked.
    fn pass(&mut self, parked_ns: u64, sleeps_next: bool) -> bool {
        let (own, mut has_worked) = (self.waker(), false);
        let mut now = self.clock.now();
        for (i, tiles) in self.held.iter_mut().enumerate() {
            for (k, tile) in tiles.list.iter_mut().enumerate() {
                self.running = (i, k);
                let turn = Turn { now, parked_ns, sleeps_next, idle_housekeeping_ns: IDLE_HOUSEKEEPING_NS };
                let (activity, end) = tile.turn_at(turn);
                now = end;
                if activity == Activity::Worked {
                    has_worked = true;
                    tile.wake_neighbours(Some(own));
                    now = self.clock.now();
                }
            }
        }
        has_worked
    }

    /// Runs the pass before a sleep, or before its tiles are lent. Returns whether there was work after all.
    fn last_pass(&mut self, sleeps_next: bool) -> bool {
        let began = self.clock.now();
        let worked = self.pass(0, sleeps_next);
        self.pace.passed(worked, self.clock.now().saturating_sub(began));
        worked
    }

    /// Announces a sleep, and runs the pass before it. Returns false, and cancels the sleep, if there is work after
    /// all.
    fn announce_sleep(&mut self) -> bool {
        let waker = self.waker();
        waker.announce();
        // A core with much work hardly ever sleeps: there tiles look at their descriptors in each pass.
        let has_work = self.last_pass(self.pace.is_quiet()) || self.shared_state().has_mail() || self.has_stopped();
        if has_work {
            waker.cancel();
        }
        !has_work
    }

    /// Sleeps unless there is work after all. Returns for how long.
    fn park(&mut self) -> u64 {
        // What little there was to do is often done in one pass: then the next one is the last again.
        let passes = if self.patience.ns() == 0 && self.pace.is_quiet() { 2 } else { 1 };
        if !(0..passes).any(|_| self.announce_sleep()) {
            return 0;
        }
        // Anything not attributed yet is attributed after the sleep.
        let now = self.clock.now();
        self.charge_if_due(now);
        self.collect_waits();
        // After a shorter sleep housekeeping is due soon, and writes them.
        if self.timeout(now) > HOUSEKEEPING_NS {
            self.flush_work();
        }
        let start = self.clock.now();
        let readable = self.waker().sleep(&self.wait.readable, self.timeout(start));
        let slept_ns = self.clock.now().saturating_sub(start);
        self.report_readable(readable);
        slept_ns
    }

    /// For how long a sleep that begins at `now` lasts at most.
    fn timeout(&self, now: u64) -> u64 {
        let most = self.idle.sleep_max_ns;
        self.wait.deadline.map_or(most, |deadline| deadline.saturating_sub(now).min(most))
    }

    /// Collects what its tiles wait for.
    fn collect_waits(&mut self) {
        self.wait.clear();
        self.waiting.clear();
        for (i, tiles) in self.held.iter().enumerate() {
            for (k, tile) in tiles.list.iter().enumerate() {
                self.running = (i, k);
                let first = self.wait.readable.len();
                tile.wait_for(&mut self.wait);
                let count = self.wait.readable.len() - first;
                if count > 0 {
                    self.waiting.push(Waiter { tile: (i, k), first, count });
                }
            }
        }
    }

    /// Writes the counters of the tiles that have worked.
    fn flush_work(&mut self) {
        for (i, tiles) in self.held.iter_mut().enumerate() {
            for (k, tile) in tiles.list.iter_mut().enumerate() {
                self.running = (i, k);
                tile.flush_work();
            }
        }
    }

    /// Reports to each tile which of its descriptors were readable as the sleep ended: a bit for each of all.
    fn report_readable(&mut self, readable: u32) {
        let are_all_known = self.wait.readable.len() <= MAX_WAIT;
        for waiting in &self.waiting {
            let (list, place) = waiting.tile;
            self.running = waiting.tile;
            let of_tile =
                if are_all_known { readable >> waiting.first & !(u32::MAX << waiting.count) } else { u32::MAX };
            self.held[list].list[place].slept(of_tile);
        }
    }

    /// Lends its tiles to `borrower` unless there is work after all, and sleeps until they are back.
    fn lend(&mut self, borrower: &CoreShared) {
        let waker = self.waker();
        let lent = lending::lend(waker, borrower, || {
            // No sleep looks at the descriptors: the borrower's thread has them next.
            if self.last_pass(false) || self.has_stopped() {
                return None;
            }
            let now = self.clock.now();
            self.charge(now);
            self.pace.lent(now);
            Some(self.held.pop().expect("a core that borrows nothing has its own tiles"))
        });
        if let Err(own) = lent {
            self.held.extend(own);
            return;
        }
        while !self.shared_state().has_mail() && !self.has_stopped() {
            waker.sleep_while_lent();
        }
        self.take_mail();
        self.pace.returned(self.clock.now());
    }

    /// Takes the lists sent to it.
    fn take_mail(&mut self) {
        for mut tiles in self.shared_state().open() {
            tiles.list.iter_mut().for_each(|tile| tile.moved());
            self.held.push(tiles);
        }
    }

    /// Gives back everything that it borrowed.
    fn return_all(&mut self, now: u64) {
        self.charge(now);
        for tiles in self.held.split_off(1) {
            if let Err(tiles) = lending::give_back(tiles, &self.shared.shared_states) {
                self.held.push(tiles);
            }
        }
    }

    /// Stops all tiles that it holds, and those on their way to it.
    pub fn stop(&mut self) {
        self.held.extend(self.shared_state().close());
        self.held.iter_mut().flat_map(|tiles| &mut tiles.list).for_each(|tile| tile.stop());
    }
}
