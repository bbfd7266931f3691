//! lending: while one core suffices, it runs the tiles of the others, which sleep.
//!
//! reads   the share of its time that each core works
//! writes  the lists of tiles that move between threads
//! memory  the lists themselves
//!
//! Waking a core costs more than a transaction: an interrupt of another processor, a sleep, cold caches; and at low
//! load each hop of a transaction from core to core is such a wake-up. So a core that is idle, and was mostly idle
//! lately, gives its tiles to the *borrower*, the core that waits for the network. The borrower polls them after its
//! own, and gives all back as soon as it works for most of its time. Only whole lists move, and only while none of
//! their tiles has a turn, so a tile notices nothing.
//!
//! Wake-ups follow the tiles: [`shared`].

use super::shared;
pub use super::shared::lend;
use crate::runner::Runnable;
use crate::sync::Ordering;
use crate::sys::event::MAX_WAIT;

/// A core lends while it and the borrower together work for less than this share of their time, in thousandths.
const LEND_BELOW: u32 = 500;
/// The borrower gives back when it works for more than this share of its time, in thousandths.
const RETURN_ABOVE: u32 = 750;
/// A core that works for more than this share of its time is full, in thousandths, even if other programs used it
/// meanwhile.
const FULL: u32 = 950;
/// The borrower gives back after it was full for this many consecutive windows.
const FULL_WINDOWS_MAX: u32 = 5;
/// Window over which a core's share of work is measured, in nanoseconds.
const WINDOW_NS: u64 = 10_000_000;
/// How long a core keeps returned tiles, in nanoseconds; the time doubles up to the maximum with each return within
/// [`KEEP_MAX_NS`].
const KEEP_NS: u64 = 50_000_000;
/// The longest time for which a core keeps returned tiles, in nanoseconds.
const KEEP_MAX_NS: u64 = 2_000_000_000;

/// The tiles of one core, in the order of the data flow.
pub struct Tiles {
    /// The tiles, in the order in which a turn runs them.
    pub list: Vec<Box<dyn Runnable>>,
    /// Index of the core that owns the tiles.
    pub owner: usize,
    /// Each tile's busy time at the last charge.
    busy_ns: Vec<u64>,
}

impl Tiles {
    /// Creates the list of core `owner`.
    pub fn new(owner: usize, list: Vec<Box<dyn Runnable>>) -> Self {
        let busy_ns = vec![0; list.len()];
        Self { list, owner, busy_ns }
    }

    /// Returns each tile's busy time since the last call.
    pub fn take_busy(&mut self) -> impl Iterator<Item = u64> {
        let busy = self.list.iter().zip(&mut self.busy_ns);
        busy.map(|(tile, last)| {
            let now = tile.busy_ns();
            now.saturating_sub(std::mem::replace(last, now))
        })
    }
}

/// The shared state of one core's thread.
pub type CoreShared = shared::CoreShared<Tiles>;

/// Chooses the borrower: the first core that waits for descriptors, else the first of all. `None` if one thread cannot
/// wait for the descriptors of all.
pub fn choose_borrower(cores: &[super::Core]) -> Option<usize> {
    let descriptors = |core: &super::Core| core.tiles.iter().map(|tile| tile.waits_for().readable.len()).sum::<usize>();
    let lending = cores.iter().enumerate().filter(|(_, core)| core.lends);
    let counts: Vec<(usize, usize)> = lending.map(|(index, core)| (index, descriptors(core))).collect();
    if counts.iter().map(|(_, count)| count).sum::<usize>() > MAX_WAIT {
        return None;
    }
    let waits = counts.iter().find(|(_, count)| *count > 0).or(counts.first());
    waits.map(|(index, _)| *index)
}

/// How much of its time a core works, and whether it should lend or give back.
pub struct LendingPolicy {
    own: usize,
    borrower: Option<usize>,
    window_start: u64,
    worked_ns: u64,
    cpu_ns: u64,
    share: u32,
    full_windows: u32,
    keep_until: u64,
    keep_ns: u64,
    lent_at: u64,
}

impl LendingPolicy {
    /// Creates the pace of core `own`.
    pub fn new(own: usize, borrower: Option<usize>, now: u64) -> Self {
        Self {
            own,
            borrower,
            window_start: now,
            worked_ns: 0,
            cpu_ns: 0,
            share: 0,
            full_windows: 0,
            keep_until: 0,
            keep_ns: KEEP_NS,
            lent_at: 0,
        }
    }

    /// Records a pass of `ns`, and whether it worked.
    #[inline]
    pub fn passed(&mut self, worked: bool, ns: u64) {
        self.worked_ns += if worked { ns } else { 0 };
    }

    /// Measures the work against `cpu_ns`, the thread's CPU time since the last call: longer work waited for the core.
    pub fn measure(&mut self, cpu_ns: u64, now: u64, shared_states: &[CoreShared]) {
        self.cpu_ns += cpu_ns;
        let passed = now.saturating_sub(self.window_start);
        if passed < WINDOW_NS {
            return;
        }
        let thousandths = |ns: u64| (ns.min(passed) * 1000 / passed) as u32;
        self.share = thousandths(self.worked_ns.min(self.cpu_ns));
        let is_full = thousandths(self.worked_ns) > FULL;
        self.full_windows = if is_full { self.full_windows + 1 } else { 0 };
        shared_states[self.own].share.store(self.share, Ordering::Relaxed);
        self.begin_window(now);
    }

    fn begin_window(&mut self, now: u64) {
        (self.window_start, self.worked_ns, self.cpu_ns) = (now, 0, 0);
    }

    /// Returns the core to which an idle core should lend its tiles, if any.
    pub fn lend_to<'a>(&self, now: u64, shared_states: &'a [CoreShared]) -> Option<&'a CoreShared> {
        let borrower = self.borrower.filter(|borrower| *borrower != self.own && now >= self.keep_until)?;
        let shared_state = &shared_states[borrower];
        let takes_part = shared_states[self.own].lends && shared_state.lends;
        (takes_part && self.share + shared_state.share.load(Ordering::Relaxed) < LEND_BELOW).then_some(shared_state)
    }

    /// Whether the core works for so little of its time that it might lend, if others do, too.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.share < LEND_BELOW
    }

    /// Whether the borrower has too much work for one core.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.share > RETURN_ABOVE || self.full_windows >= FULL_WINDOWS_MAX
    }

    /// Records that the core has lent its tiles.
    pub fn lent(&mut self, now: u64) {
        self.lent_at = now;
    }

    /// Records that the core has its tiles back.
    pub fn returned(&mut self, now: u64) {
        let is_soon = now.saturating_sub(self.lent_at) < KEEP_MAX_NS;
        self.keep_ns = if is_soon { (self.keep_ns * 2).min(KEEP_MAX_NS) } else { KEEP_NS };
        (self.share, self.full_windows) = (LEND_BELOW, 0);
        self.begin_window(now);
        self.keep_until = now + self.keep_ns;
    }
}

/// Gives `tiles` back to their core. Fails with the tiles if that core has stopped.
pub fn give_back(tiles: Tiles, shared_states: &[CoreShared]) -> Result<(), Tiles> {
    let owner = &shared_states[tiles.owner];
    shared::give_back(tiles, owner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wake::Waker;

    const MS: u64 = 1_000_000;

    /// Core 0 borrows, core 1 lends.
    struct World {
        shared_states: Vec<CoreShared>,
        borrower: LendingPolicy,
        owner: LendingPolicy,
        now: u64,
    }

    impl World {
        fn new() -> Self {
            let shared_states = (0..2).map(|_| CoreShared::new(Waker::new().unwrap(), true)).collect();
            let pace = |own| LendingPolicy::new(own, Some(0), 0);
            Self { shared_states, borrower: pace(0), owner: pace(1), now: 0 }
        }

        /// Simulates a window in which the borrower's tiles work for `worked_ms`, and its thread runs for `cpu_ms`.
        fn window(&mut self, worked_ms: u64, cpu_ms: u64) {
            self.now += WINDOW_NS;
            self.borrower.passed(true, worked_ms * MS);
            self.borrower.measure(cpu_ms * MS, self.now, &self.shared_states);
            self.owner.measure(0, self.now, &self.shared_states);
        }

        fn lends(&self) -> bool {
            self.owner.lend_to(self.now, &self.shared_states).is_some()
        }
    }

    #[test]
    fn lends_below_half_and_returns_above_three_quarters() {
        let mut world = World::new();
        for (worked_ms, lends, is_over) in [(4, true, false), (5, false, false), (7, false, false), (8, false, true)] {
            world.window(worked_ms, 10);
            assert_eq!((world.lends(), world.borrower.is_over()), (lends, is_over), "{worked_ms} ms");
            assert_eq!(world.borrower.is_quiet(), lends, "{worked_ms} ms");
        }
    }

    #[test]
    fn time_of_other_tiles_is_not_work() {
        let mut world = World::new();
        (0..20).for_each(|_| world.window(9, 4));
        assert!(world.lends() && !world.borrower.is_over());
    }

    #[test]
    fn a_borrower_that_never_pauses_returns_though_others_have_its_core() {
        let mut world = World::new();
        (1..FULL_WINDOWS_MAX).for_each(|_| world.window(10, 4));
        assert!(!world.borrower.is_over());
        world.window(10, 4);
        assert!(world.borrower.is_over());
        world.window(9, 4);
        assert!(!world.borrower.is_over(), "a pause restarts the count");
    }

    #[test]
    fn a_share_is_of_a_whole_window() {
        let mut world = World::new();
        world.window(8, 10);
        world.borrower.measure(0, world.now + 1, &world.shared_states);
        assert!(world.borrower.is_over() && !world.lends(), "a moment without work tells nothing");
    }

    #[test]
    fn returned_tiles_are_kept_for_longer_each_time() {
        let mut world = World::new();
        world.window(0, 0);
        for keep_ns in [2 * KEEP_NS, 4 * KEEP_NS] {
            world.owner.lent(world.now);
            world.owner.returned(world.now + MS);
            world.now += MS + keep_ns;
            world.owner.measure(0, world.now - 1, &world.shared_states);
            assert!(world.owner.lend_to(world.now - 1, &world.shared_states).is_none() && world.lends());
        }
    }
}
