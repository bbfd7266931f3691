//! core: a core's thread, which polls its tiles in turn, in the order of the data flow.
//!
//! reads   its tiles; the load of the other cores
//! writes  the CPU time and context switches of its thread, attributed to the tiles by their busy time
//! memory  a few words per tile, and the lists of tiles that it borrows
//!
//! Alone on a core, a tile spins. Several tiles share a core cooperatively: each gets a bounded turn without a context
//! switch, so one transaction's working set stays in cache from tile to tile. After every tile has been idle for a
//! while the thread parks until another core publishes to it, a descriptor becomes readable or a deadline passes. While
//! all cores have little to do, it [lends](lending) its tiles to another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::clock::Clock;
use crate::flag::Flag;
use crate::panics;
use crate::runner::Runnable;
use crate::sys;
use crate::wake::{StopRequest, Waker};

mod cpu;
mod lending;
mod patience;
mod shared;
mod turns;

use lending::{CoreShared, Tiles};
use turns::CoreThread;

/// When an idle core parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// The cost of one sleep and wake-up, expressed as spinning time in nanoseconds. An idle thread spins for at most
    /// this long before it parks. `u64::MAX`: it never parks.
    pub park_after_ns: u64,
    /// Maximum sleep in nanoseconds.
    pub sleep_max_ns: u64,
}

impl IdlePolicy {
    /// Maximum sleep in nanoseconds, so that heartbeats continue in an idle node.
    pub const SLEEP_MAX_NS: u64 = 50_000_000;
    /// The same for a floating thread. It has one tile, which sets its own deadlines; its counters are read once per
    /// second.
    pub const FLOATING_SLEEP_MAX_NS: u64 = 200_000_000;

    /// The policy for a core that is pinned or floats.
    #[must_use]
    pub fn for_core(self, is_pinned: bool) -> Self {
        let most = if is_pinned { self.sleep_max_ns } else { self.sleep_max_ns.max(Self::FLOATING_SLEEP_MAX_NS) };
        Self { sleep_max_ns: most, ..self }
    }
}

/// The configuration of one core's thread.
pub struct Core {
    /// The thread's name; the kernel keeps at most 15 bytes.
    pub name: String,
    /// The core to run on; `None` floats.
    pub pin: Option<usize>,
    /// Its tiles, in the order of the data flow.
    pub tiles: Vec<Box<dyn Runnable>>,
    /// Wakes this core's thread when it is parked.
    pub waker: Waker,
    /// The host's clock, the same for all cores of a node.
    pub clock: Clock,
    /// When the thread parks while its tiles have no work.
    pub idle: IdlePolicy,
    /// Whether it takes part in lending: while one core suffices, it runs the tiles of all that do.
    pub lends: bool,
}

/// A tile's thread that died of a panic.
#[derive(Clone, Debug, thiserror::Error)]
#[error("tile {tile} died: {message}")]
pub struct TilePanic {
    /// The tile's full name.
    pub tile: String,
    /// The text of the panic.
    pub message: String,
}

struct Shared {
    stop: Flag,
    died: Mutex<Option<TilePanic>>,
    /// What the other cores see of each core, by its index.
    shared_states: Vec<CoreShared>,
    /// The core that borrows the tiles of the others.
    borrower: Option<usize>,
}

impl Shared {
    /// Tells every core to stop, including sleeping ones.
    fn halt(&self) {
        self.stop.store(true, Ordering::Release);
        self.shared_states.iter().for_each(|shared_state| shared_state.waker().interrupt());
    }
}

/// The running cores of a node.
pub struct Fleet {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Fleet {
    /// Starts a thread per core. Fails if a thread cannot be started or pinned.
    pub fn start(cores: Vec<Core>) -> std::io::Result<Self> {
        let borrower = lending::choose_borrower(&cores);
        for (index, core) in cores.iter().enumerate().filter(|(_, core)| core.lends) {
            if let Some(borrower) = borrower.filter(|borrower| *borrower != index) {
                core.waker.set_borrower(&cores[borrower].waker);
            }
        }
        let shared_states = cores.iter().map(|core| CoreShared::new(core.waker.clone(), core.lends)).collect();
        let shared = Shared { stop: Flag::own(), died: Mutex::new(None), shared_states, borrower };
        let mut fleet = Fleet { shared: Arc::new(shared), threads: vec![] };
        for (index, core) in cores.into_iter().enumerate() {
            let (shared, (report, started)) = (fleet.shared.clone(), std::sync::mpsc::channel());
            let thread = std::thread::Builder::new().name(core.name.clone()).spawn(move || {
                let pinned = core.pin.map_or(Ok(()), |c| sys::thread::pin_to(&[c]));
                let failed = pinned.is_err();
                // The starting thread waits for this report.
                let _ = report.send(pinned);
                if !failed {
                    run(index, core, &shared, || {});
                }
            })?;
            fleet.threads.push(thread);
            started.recv().map_err(std::io::Error::other)??;
        }
        Ok(fleet)
    }

    /// The first tile that died, if any.
    pub fn died(&self) -> Option<TilePanic> {
        self.shared.died.lock().clone()
    }

    /// Stops every core and joins its thread. No tile publishes after this.
    pub fn stop(mut self) -> Result<(), TilePanic> {
        self.halt();
        self.died().map_or(Ok(()), Err)
    }

    fn halt(&mut self) {
        self.shared.halt();
        for thread in self.threads.drain(..) {
            // `run` catches the panics of tiles; anything else was already reported on standard error.
            let _ = thread.join();
        }
        // A list may be on its way to a core that never started.
        let left = self.shared.shared_states.iter().flat_map(|shared_state| shared_state.close());
        left.flat_map(|tiles| tiles.list).for_each(|mut tile| tile.stop());
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Returns the core that borrows the tiles of the others in a [`Fleet`] of these cores.
pub fn borrower_of(cores: &[Core]) -> Option<usize> {
    lending::choose_borrower(cores)
}

/// Runs the tiles of the only core of a process on the calling thread until another process [asks](StopRequest) it to
/// stop. The thread is not pinned here. Nothing is opened any more once `begin` is called, just before the first turn.
pub fn run_alone(core: Core, stop: &StopRequest, begin: impl FnOnce()) -> Result<(), TilePanic> {
    let shared_states = vec![CoreShared::new(core.waker.clone(), false)];
    let shared = Shared { stop: stop.flag(), died: Mutex::new(None), shared_states, borrower: None };
    run(0, core, &shared, begin);
    shared.died.into_inner().map_or(Ok(()), Err)
}

fn run(index: usize, core: Core, shared: &Shared, begin: impl FnOnce()) {
    let mut tiles = Tiles::new(index, core.tiles);
    tiles.list.iter_mut().for_each(|tile| tile.started());
    let mut thread = CoreThread::new(index, tiles, shared, core.clock, core.idle);
    begin();
    let outcome = panics::catch(|| thread.run());
    if let Err(panic) = outcome {
        let (list, place) = thread.running;
        let held = thread.held.get_mut(list).filter(|tiles| place < tiles.list.len());
        let dead = held.map(|tiles| tiles.list.remove(place));
        let tile = dead.map_or_else(String::new, |mut tile| {
            tile.died();
            tile.name().to_owned()
        });
        let died = TilePanic { tile, message: panic_text(&*panic) };
        shared.died.lock().get_or_insert(died);
        shared.halt();
    }
    thread.stop();
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests;
