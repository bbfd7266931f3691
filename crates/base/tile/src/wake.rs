//! wake: parking and waking: a core whose tiles are all idle sleeps, and any thread that gives them work wakes it.
//!
//! reads   an eventfd, and the descriptors that its tiles wait for
//! writes  the eventfd of a parked core
//! memory  one descriptor per core
//! source  Dekker's handshake: the sleeper sets `parked`, then checks its inputs once more; the waker publishes, then
//!         checks `parked`. Both have a sequentially consistent fence in between, so at least one of them sees the
//!         other.
//!
//! Where a tile runs in a process of its own, each process has a [`Waker`] of every core: their flags are in words that
//! both map, and the other process inherits the descriptors.

use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock};

#[cfg(not(loom))]
use hearth_ring::Counters;

use crate::flag::Flag;
use crate::sync::{Ordering, fence};
use crate::sys::event::{EventFd, wait_readable};

/// Name of the region with the flags of all cores, in a workspace that several processes map.
pub const WAKERS: &str = "wakers";
/// Words of that region for each core: two cache lines, so that no two cores share one.
const WORDS: usize = 16;

/// Number of words in the region of the flags of `cores` cores, and of the flag that stops the other process.
pub const fn words(cores: usize) -> usize {
    (cores + 1) * WORDS
}

#[derive(Debug)]
struct Inner {
    parked: Flag,
    event: EventFd,
    /// Whether the core's tiles run on the borrower's thread, which is woken in its place.
    lent: Flag,
    borrower: OnceLock<Waker>,
}

/// Maximum sleep of a core whose tiles are lent: it has nothing to do until it is interrupted.
const LENT_SLEEP_NS: u64 = 10_000_000_000;

/// Wakes one core. Cheap to clone, and cheap to call when the core is awake.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Inner>);

/// The cores at the other ends of a tile's links. A link within the tile's own core needs no wake-up.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    /// By input, in the topology's order: the producer's core, which waits for room.
    pub producers: Vec<Option<Waker>>,
    /// By output, in the topology's order: the consumers' cores, which wait for frags.
    pub consumers: Vec<Vec<Waker>>,
}

impl Waker {
    /// Creates a waker for a core that is awake. Fails if the process is out of descriptors.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self::of(Flag::own(), Flag::own(), EventFd::new()?))
    }

    /// Creates a waker for the core with this index, which processes share: its flags are in `region`, of which
    /// [`words`] gives the size, and each process has the descriptor `event`.
    #[cfg(not(loom))]
    pub fn shared(region: &Counters, index: usize, event: EventFd) -> Self {
        let flag = |word| Flag::Shared(region.clone(), index * WORDS + word);
        Self::of(flag(0), flag(1), event)
    }

    fn of(parked: Flag, lent: Flag, event: EventFd) -> Self {
        Self(Arc::new(Inner { parked, event, lent, borrower: OnceLock::new() }))
    }

    /// The descriptor by which the core is woken.
    #[cfg(not(loom))]
    pub fn event(&self) -> &EventFd {
        &self.0.event
    }

    /// Wakes the core that runs the tiles if it is parked. Call after publishing.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        self.wake_fenced(None);
    }

    /// Like [`Waker::wake`], for a caller that has fenced since it published. `caller` is the core whose thread calls,
    /// if one does: it never wakes itself. Its pass before a sleep finds that something was published, and then it does
    /// not sleep.
    #[inline]
    pub(crate) fn wake_fenced(&self, caller: Option<&Waker>) {
        let core = self.runs_on();
        if caller.is_some_and(|caller| std::ptr::eq(core, Arc::as_ptr(&caller.0))) {
            return;
        }
        if core.parked.load(Ordering::Relaxed) && core.parked.swap(false, Ordering::AcqRel) {
            core.event.signal();
        }
    }

    /// The core whose thread currently runs the tiles.
    #[inline]
    fn runs_on(&self) -> &Inner {
        match self.0.lent.load(Ordering::Relaxed) {
            true => &self.0.borrower.get().unwrap_or(self).0,
            false => &self.0,
        }
    }

    /// Names the core that may borrow this one's tiles. Call once, before any thread runs.
    pub fn set_borrower(&self, borrower: &Waker) {
        let is_first = self.0.borrower.set(borrower.clone()).is_ok();
        assert!(is_first, "a core has one borrower");
    }

    /// From here on the borrower is woken in place of this core, or no longer. A producer that published before this
    /// call may have woken the other one, so the caller must ensure that the inputs are checked once more.
    pub(crate) fn set_lent(&self, lent: bool) {
        self.0.lent.store(lent, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Wakes this core's own thread, whichever thread runs its tiles.
    pub(crate) fn interrupt(&self) {
        self.0.parked.store(false, Ordering::Release);
        self.0.event.signal();
    }

    /// Sleeps until [`Waker::interrupt`]; for a core whose tiles are lent.
    pub(crate) fn sleep_while_lent(&self) {
        wait_readable(&self.0.event, &[], LENT_SLEEP_NS);
    }

    /// Whether both handles belong to the same core.
    pub fn same_core(&self, other: &Waker) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the core that runs the tiles is asleep or about to be.
    #[cfg(test)]
    pub(crate) fn is_parked(&self) -> bool {
        self.runs_on().parked.load(Ordering::Acquire)
    }

    /// Whether the core's tiles are lent.
    #[cfg(test)]
    pub(crate) fn is_lent(&self) -> bool {
        self.0.lent.load(Ordering::Acquire)
    }

    /// Announces that the caller is about to sleep. It must check all its inputs again before [`Waker::sleep`].
    ///
    /// This is an exchange rather than a store: loom orders two exchanges, but not a store next to the exchange of a
    /// late waker.
    pub(crate) fn announce(&self) {
        self.0.parked.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Cancels an announced sleep.
    pub(crate) fn cancel(&self) {
        if !self.0.parked.swap(false, Ordering::AcqRel) {
            self.0.event.drain();
        }
    }

    /// Sleeps until woken, until one of `others` is readable, or for `timeout_ns`. Returns a bit for each of `others`
    /// that is readable, the lowest for the first.
    pub(crate) fn sleep(&self, others: &[RawFd], timeout_ns: u64) -> u32 {
        let readable = wait_readable(&self.0.event, others, timeout_ns);
        if readable & 1 == 0 {
            self.cancel();
        } else {
            // The signal is read, so there is nothing to drain. One that is still on its way ends the next sleep early.
            self.0.parked.swap(false, Ordering::AcqRel);
        }
        readable >> 1
    }
}

/// Asks the core of another process to stop: a flag in the region of the wakers' flags.
#[cfg(not(loom))]
#[derive(Clone, Debug)]
pub struct StopRequest {
    region: Counters,
    cores: usize,
}

#[cfg(not(loom))]
impl StopRequest {
    /// The request to the process that shares this region of the flags of `cores` cores.
    pub fn new(region: Counters, cores: usize) -> Self {
        Self { region, cores }
    }

    /// Asks the process to stop, and wakes its core.
    pub fn send(&self, core: &Waker) {
        self.flag().store(true, Ordering::Release);
        core.interrupt();
    }

    pub(crate) fn flag(&self) -> Flag {
        Flag::Shared(self.region.clone(), self.cores * WORDS)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant};

    use hearth_ring::{CountersPlan, Workspace, WorkspacePlan};
    use hearth_testkit::PATIENCE;

    #[test]
    fn no_wake_up_is_lost() {
        let waker = Waker::new().unwrap();
        no_wake_up_between_is_lost(&waker, waker.clone());
    }

    /// As processes do: each has a waker of its own, on the same words and the same event.
    #[test]
    fn no_wake_up_is_lost_between_processes() {
        let counters = vec![CountersPlan { name: WAKERS.into(), words: words(2) }];
        let plan = WorkspacePlan { counters, ..WorkspacePlan::default() };
        let region = Workspace::in_heap(&plan).unwrap().counters(WAKERS).unwrap();
        let event = EventFd::new().unwrap();
        let same = event.try_clone().unwrap();
        no_wake_up_between_is_lost(&Waker::shared(&region, 1, event), Waker::shared(&region, 1, same));
        let stop = StopRequest::new(region.clone(), 2);
        assert!(!StopRequest::new(region.clone(), 2).flag().load(Ordering::Acquire));
        stop.send(&Waker::shared(&region, 0, EventFd::new().unwrap()));
        assert!(StopRequest::new(region, 2).flag().load(Ordering::Acquire));
    }

    #[test]
    fn a_core_does_not_wake_itself() {
        let [owner, borrower] = [(); 2].map(|()| Waker::new().unwrap());
        owner.set_borrower(&borrower);
        borrower.announce();
        borrower.wake_fenced(Some(&borrower));
        assert!(borrower.is_parked());
        // While tiles are lent, their core is the borrower.
        owner.set_lent(true);
        owner.wake_fenced(Some(&borrower));
        assert!(borrower.is_parked());
        owner.wake_fenced(Some(&owner));
        assert!(!borrower.is_parked(), "another thread wakes it");
    }

    #[test]
    fn a_sleep_names_what_is_readable() {
        let long_ns = PATIENCE.as_nanos() as u64;
        let (quiet, _open) = UnixStream::pair().unwrap();
        let (loud, mut writer) = UnixStream::pair().unwrap();
        writer.write_all(b"x").unwrap();
        let descriptors = [quiet.as_raw_fd(), loud.as_raw_fd()];
        let waker = Waker::new().unwrap();
        waker.announce();
        assert_eq!(waker.sleep(&descriptors, long_ns), 0b10);
        waker.announce();
        waker.wake();
        assert!(!waker.is_parked());
        assert_eq!(waker.sleep(&descriptors[..1], long_ns), 0, "the signal ends it");
        // The signal is read: nothing but the descriptor ends the next one.
        waker.announce();
        assert_eq!(waker.sleep(&descriptors[1..], long_ns), 0b1);
        assert!(!waker.is_parked());
    }

    fn no_wake_up_between_is_lost(waker: &Waker, their_waker: Waker) {
        let work = Arc::new(AtomicU64::new(0));
        let their_work = work.clone();
        let rounds = 20_000u64;
        let giver = std::thread::spawn(move || {
            for _ in 0..rounds {
                their_work.fetch_add(1, Ordering::Release);
                their_waker.wake();
            }
        });
        let (mut done, mut longest) = (0, Duration::ZERO);
        while done < rounds {
            waker.announce();
            let now = work.load(Ordering::Acquire);
            if now != done {
                waker.cancel();
                done = now;
                continue;
            }
            let start = Instant::now();
            waker.sleep(&[], 2 * PATIENCE.as_nanos() as u64);
            longest = longest.max(start.elapsed());
        }
        giver.join().unwrap();
        assert!(longest < PATIENCE, "slept {longest:?}: a wake-up was lost");
    }
}
