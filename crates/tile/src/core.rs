//! A core and the tiles on it: one thread that polls them in turn, in the order of the data flow.
//!
//! reads   nothing but its tiles
//! writes  the CPU time and context switches of its thread, attributed to the tiles by their busy time
//! memory  a few words a tile
//!
//! Alone on a core a tile spins; several share it cooperatively: a bounded turn each, no context switch, so that
//! one transaction's working set stays in cache from tile to tile. When every tile has been idle for a while the
//! thread parks and is woken by whoever publishes to it, by a descriptor or by a deadline.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::clock::Clock;
use crate::panics;
use crate::runner::{Activity, OfThread, Runnable};
use crate::sys;
use crate::sys::thread::CoreWait;
use crate::wake::Waker;

/// When an idle core parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// Idle turns go on for so long before the thread sleeps, nanoseconds. `u64::MAX` never sleeps.
    pub park_after_ns: u64,
}

/// The longest sleep: heartbeats go on in an idle node.
const MAX_SLEEP_NS: u64 = 50_000_000;
/// How often the thread's CPU time is read and attributed.
const CHARGE_NS: u64 = 10_000_000;
/// How often it is read how long the thread has waited for its core: a file of the kernel's, some microseconds.
const WAIT_NS: u64 = 200_000_000;

/// One core's thread before it starts.
pub struct Core {
    /// Shown as the thread's name, 15 bytes at most are kept by the kernel.
    pub name: String,
    /// The core to run on; `None` floats.
    pub pin: Option<usize>,
    /// Its tiles in the order of the data flow.
    pub tiles: Vec<Box<dyn Runnable>>,
    /// Wakes this core.
    pub waker: Waker,
    /// The host's clock.
    pub clock: Clock,
    /// When it parks.
    pub idle: IdlePolicy,
}

/// A tile's thread died of a panic.
#[derive(Clone, Debug, thiserror::Error)]
#[error("tile {tile} died: {message}")]
pub struct Died {
    /// The tile.
    pub tile: String,
    /// What the panic said.
    pub message: String,
}

struct Shared {
    stop: AtomicBool,
    died: Mutex<Option<Died>>,
    wakers: Vec<Waker>,
}

impl Shared {
    /// Tells every core to stop, the sleeping ones too.
    fn halt(&self) {
        self.stop.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
    }
}

/// The running cores of a node.
pub struct Fleet {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Fleet {
    /// Starts a thread per core. Fails when a thread cannot be started or pinned.
    pub fn start(cores: Vec<Core>) -> std::io::Result<Self> {
        let wakers = cores.iter().map(|core| core.waker.clone()).collect();
        let shared = Shared { stop: AtomicBool::new(false), died: Mutex::new(None), wakers };
        let mut fleet = Fleet { shared: Arc::new(shared), threads: vec![] };
        for core in cores {
            let (shared, (report, started)) = (fleet.shared.clone(), std::sync::mpsc::channel());
            let thread = std::thread::Builder::new().name(core.name.clone()).spawn(move || {
                let pinned = core.pin.map_or(Ok(()), |c| sys::thread::pin_to(&[c]));
                let failed = pinned.is_err();
                // The starter waits for this report, so it is there to receive it.
                let _ = report.send(pinned);
                if !failed {
                    run(core, &shared);
                }
            })?;
            fleet.threads.push(thread);
            started.recv().map_err(std::io::Error::other)??;
        }
        Ok(fleet)
    }

    /// The first tile that died, if any.
    pub fn died(&self) -> Option<Died> {
        self.shared.died.lock().unwrap_or_else(|p| p.into_inner()).clone()
    }

    /// Stops every core and waits for it. Tiles publish no more after this.
    pub fn stop(mut self) -> Result<(), Died> {
        self.halt();
        self.died().map_or(Ok(()), Err)
    }

    fn halt(&mut self) {
        self.shared.halt();
        for thread in self.threads.drain(..) {
            // `run` catches the panics of tiles; anything else was reported on standard error already.
            let _ = thread.join();
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.halt();
    }
}

fn run(mut core: Core, shared: &Shared) {
    for tile in &mut core.tiles {
        tile.started();
    }
    let mut running = 0;
    let outcome = panics::catch(|| turns(&mut core, shared, &mut running));
    if let Err(panic) = outcome {
        let died = Died { tile: core.tiles[running].name().to_owned(), message: panic_text(&*panic) };
        core.tiles[running].died();
        core.tiles.remove(running);
        shared.died.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(died);
        shared.halt();
    }
    for tile in &mut core.tiles {
        tile.stop();
    }
}

fn turns(core: &mut Core, shared: &Shared, running: &mut usize) {
    let mut cpu = Cpu::new(core.tiles.len(), core.clock.now());
    let mut idle_since = None;
    let mut parked_ns = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        let worked = one_pass(core, running, parked_ns);
        parked_ns = 0;
        let now = core.clock.now();
        cpu.charge(&mut core.tiles, now, false);
        if worked {
            idle_since = None;
            continue;
        }
        let since = *idle_since.get_or_insert(now);
        if now.saturating_sub(since) < core.idle.park_after_ns {
            std::hint::spin_loop();
            continue;
        }
        core.waker.announce();
        if one_pass(core, running, 0) || shared.stop.load(Ordering::Acquire) {
            core.waker.cancel();
            idle_since = None;
            continue;
        }
        cpu.charge(&mut core.tiles, core.clock.now(), true);
        parked_ns = park(core, running);
    }
}

fn one_pass(core: &mut Core, running: &mut usize, parked_ns: u64) -> bool {
    let mut worked = false;
    for (i, tile) in core.tiles.iter_mut().enumerate() {
        *running = i;
        worked |= tile.turn(parked_ns) == Activity::Worked;
        tile.wake_neighbours();
    }
    worked
}

fn park(core: &mut Core, running: &mut usize) -> u64 {
    let (mut readable, mut deadline) = (vec![], None::<u64>);
    for (i, tile) in core.tiles.iter_mut().enumerate() {
        *running = i;
        tile.flush();
        let wait = tile.wait_for();
        readable.extend(wait.readable);
        deadline = deadline.into_iter().chain(wait.deadline).min();
    }
    let start = core.clock.now();
    let timeout = deadline.map_or(MAX_SLEEP_NS, |d| d.saturating_sub(start).min(MAX_SLEEP_NS));
    core.waker.sleep(&readable, timeout);
    core.clock.now().saturating_sub(start)
}

/// Attributes a thread's CPU time to its tiles by their share of busy time, and tells them what the kernel says of it.
struct Cpu {
    next: u64,
    cpu_ns: u64,
    busy_ns: Vec<u64>,
    wait: CoreWait,
    waited_ns: u64,
    next_wait: u64,
}

impl Cpu {
    /// Of the calling thread.
    fn new(tiles: usize, now: u64) -> Self {
        let wait = CoreWait::of_this_thread();
        Self { next: now, cpu_ns: 0, busy_ns: vec![0; tiles], wait, waited_ns: 0, next_wait: now }
    }

    fn charge(&mut self, tiles: &mut [Box<dyn Runnable>], now: u64, force: bool) {
        if now < self.next && !force {
            return;
        }
        self.next = now + CHARGE_NS;
        let cpu_ns = sys::thread::cpu_ns();
        let used = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        if now >= self.next_wait {
            (self.waited_ns, self.next_wait) = (self.wait.ns(), now + WAIT_NS);
        }
        let thread = OfThread { switches: sys::thread::context_switches(), waited_for_core_ns: self.waited_ns };
        let busy: Vec<u64> = tiles.iter().map(|t| t.busy_ns()).collect();
        let spent: Vec<u64> = busy.iter().zip(&self.busy_ns).map(|(b, last)| b - last).collect();
        self.busy_ns = busy;
        // Spinning on an empty link is the node's CPU time too: with nobody busy it is shared out evenly.
        let total: u64 = spent.iter().sum();
        let count = tiles.len() as u64;
        for (tile, spent) in tiles.iter_mut().zip(spent) {
            let share = match total {
                0 => used / count,
                _ => (u128::from(used) * u128::from(spent) / u128::from(total)) as u64,
            };
            tile.charge(share, thread);
        }
    }
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
