//! cpu: attributes the CPU time and context switches of a core's thread to its tiles.

use super::lending::Tiles;
use crate::runner::OfThread;
use crate::sys;
use crate::sys::thread::CoreWait;

/// How often the thread's CPU time is read and attributed.
const CHARGE_NS: u64 = 10_000_000;
/// How often to read for how long the thread has waited for its core: from a kernel file, which takes some
/// microseconds.
const WAIT_NS: u64 = 200_000_000;

/// Attributes a thread's CPU time to its tiles by their share of busy time.
pub struct Cpu {
    next: u64,
    cpu_ns: u64,
    switches: (u64, u64),
    wait: CoreWait,
    waited_ns: u64,
    next_wait: u64,
    /// Each tile's busy time in the interval that is being attributed.
    spent: Vec<u64>,
}

impl Cpu {
    /// Starts counting for the calling thread.
    pub fn new(now: u64) -> Self {
        let wait = CoreWait::of_this_thread();
        Self { next: now, cpu_ns: 0, switches: (0, 0), wait, waited_ns: 0, next_wait: now, spent: vec![] }
    }

    /// Whether an attribution is due.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.next
    }

    /// Attributes the CPU time used since the last call, and returns it in nanoseconds.
    pub fn charge(&mut self, held: &mut [Tiles], now: u64) -> u64 {
        self.next = now + CHARGE_NS;
        let cpu_ns = sys::thread::cpu_ns();
        let used = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        let thread = self.of_thread(now);
        let count: usize = held.iter().map(|tiles| tiles.list.len()).sum();
        self.spent.clear();
        self.spent.extend(held.iter_mut().flat_map(Tiles::take_busy));
        // Spinning on an empty link is the node's CPU time too: if no tile was busy it is shared evenly.
        let total: u64 = self.spent.iter().sum();
        for (tile, spent) in held.iter_mut().flat_map(|tiles| &mut tiles.list).zip(&self.spent) {
            let share = match total {
                0 => used / count as u64,
                _ => (u128::from(used) * u128::from(*spent) / u128::from(total)) as u64,
            };
            tile.charge(share, thread);
        }
        used
    }

    fn of_thread(&mut self, now: u64) -> OfThread {
        let (voluntary, involuntary) = sys::thread::context_switches();
        let last = std::mem::replace(&mut self.switches, (voluntary, involuntary));
        let mut waited_for_core_ns = 0;
        if now >= self.next_wait {
            self.next_wait = now + WAIT_NS;
            let waited_ns = self.wait.ns();
            waited_for_core_ns = waited_ns.saturating_sub(std::mem::replace(&mut self.waited_ns, waited_ns));
        }
        OfThread { switches: (voluntary - last.0, involuntary - last.1), waited_for_core_ns }
    }
}
