//! testing: shared by the tests of the loop and of cores: a workspace between tiles, and a scripted tile.
//!
//! reads   a [`Script`], which the test may change while the tile runs
//! writes  a workspace file, removed at the end
//! memory  small links

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hearth_ring::{Consumer, Counters, HugePages, Producer, Workspace};
use parking_lot::{Mutex, MutexGuard};

use crate::counters::{CounterSet, LoopCounters};
use crate::runner::{Parts, Runner};
use crate::topology::{Consumption, LinkSpec, TileSpec, Topology};
use crate::wake::{Neighbours, Waker};
use crate::{Clock, Entropy, Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};

/// A link between two tiles, or between a tile and the test, which is tile `test:0`.
pub struct Wire {
    pub name: &'static str,
    pub from: &'static str,
    pub to: &'static str,
    pub reliable: bool,
}

/// Frags that each link holds.
pub const DEPTH: u32 = 8;

/// A workspace with some links.
pub struct Wires {
    pub clock: Clock,
    pub path: PathBuf,
    workspace: Workspace,
    topology: Topology,
}

impl Wires {
    /// Creates a workspace for `tiles` (full names), joined by `wires`.
    pub fn new(clock: Clock, tiles: &[&str], wires: &[Wire]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unique = format!("hearth-wires-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(unique);
        let tiles = tiles.iter().chain(&["test:0"]).map(|name| {
            let (kind, index) = name.split_once(':').expect("a full name");
            TileSpec::new::<ScriptedCounters>(kind, index.parse().expect("an index"))
        });
        let links = wires.iter().map(|w| LinkSpec {
            name: w.name.into(),
            depth: DEPTH,
            mtu: 64,
            producer: w.from.into(),
            consumers: vec![Consumption { tile: w.to.into(), reliable: w.reliable }],
        });
        let topology =
            Topology { name: "wires".into(), tiles: tiles.collect(), links: links.collect(), services: vec![] };
        topology.check().expect("a sound topology");
        let workspace = Workspace::create(&path, &topology.workspace_plan(HugePages::None)).expect("workspace");
        Self { clock, path, workspace, topology }
    }

    /// Takes the test's end of a link that it writes.
    pub fn feed(&self, link: &str) -> Producer {
        self.workspace.producer(link).expect("link")
    }

    /// Takes the test's end of a link that it reads.
    pub fn drain(&self, link: &str) -> Consumer {
        self.workspace.consumer(link, "test:0").expect("link")
    }

    /// Reads one of the loop's counters from shared memory, by name.
    pub fn word(&self, tile: &str, counter: &str) -> u64 {
        let index = LoopCounters::DECLS.iter().position(|d| d.name == counter).expect("a loop counter");
        self.counters(tile).words()[index].load(Ordering::Relaxed)
    }

    /// The shared counters of a tile.
    pub fn counters(&self, tile: &str) -> Counters {
        self.workspace.counters(tile).expect("counters")
    }

    /// Creates a tile's loop. `others` are the cores of other tiles, by tile.
    pub fn runner<T: Tile>(
        &self,
        tile: &str,
        config: T::Config,
        waker: &Waker,
        others: &[(&str, &Waker)],
    ) -> Runner<T> {
        let other = |name: &str| others.iter().find(|(tile, _)| *tile == name).map(|(_, waker)| (*waker).clone());
        let consumers = |link: &LinkSpec| link.consumers.iter().filter_map(|c| other(&c.tile)).collect();
        let parts = Parts {
            name: tile.into(),
            index: 0,
            peers: 1,
            clock: self.clock.clone(),
            inputs: self.topology.inputs(tile).map(|l| self.workspace.consumer(&l.name, tile).expect("link")).collect(),
            outputs: self.topology.outputs(tile).map(|l| self.feed(&l.name)).collect(),
            counters: self.counters(tile),
            waker: waker.clone(),
            neighbours: Neighbours {
                producers: self.topology.inputs(tile).map(|l| other(&l.producer)).collect(),
                consumers: self.topology.outputs(tile).map(consumers).collect(),
            },
            entropy: Entropy::Seeded(1),
        };
        Runner::new(config, parts).expect("a scripted tile can be made")
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        // A file left in the temporary folder does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

crate::counters! {
    /// The counters of a scripted tile.
    pub struct ScriptedCounters {
        /// Frags passed to `on_frag`, dropped ones included.
        frags: Counter,
    }
}

type FilterFn = Box<dyn FnMut(&FragMeta, In) -> Filter + Send>;
type FragFn = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// The behaviour of a scripted tile, and a record of what happened to it.
pub struct Script {
    /// Called by `filter`, whose answer it returns.
    pub filter: FilterFn,
    /// Called with the payload; returns true to drop the frag as filtered.
    pub on_frag: FragFn,
    /// Called by `poll`, whose answer it returns.
    pub on_poll: Box<dyn FnMut() -> Poll + Send>,
    /// Frags published to each output by each `on_frag`, `end_burst` and busy `poll`.
    pub publish: [usize; 3],
    /// What the tile's core waits for.
    pub wait_for: Box<dyn FnMut() -> WaitFor + Send>,
    /// The descriptors that were readable, sleep by sleep.
    pub slept: Vec<u32>,
    /// Nanoseconds by which each callback advances the (virtual) clock: frag, burst, poll, housekeep.
    pub costs: [u64; 4],
    /// The first byte of each frag taken, in order.
    pub taken: Vec<u8>,
    /// How often `end_burst` was called.
    pub bursts: usize,
    /// How often `stop` was called.
    pub stops: usize,
}

/// A script shared by a tile and its test.
pub type Shared = Arc<Mutex<Script>>;

/// Creates a script that takes every frag and does nothing.
pub fn script() -> Shared {
    Arc::new(Mutex::new(Script {
        filter: Box::new(|_, _| Filter::Take),
        on_frag: Box::new(|_| false),
        on_poll: Box::new(|| Poll::Idle),
        publish: [0; 3],
        wait_for: Box::new(WaitFor::default),
        slept: vec![],
        costs: [0; 4],
        taken: vec![],
        bursts: 0,
        stops: 0,
    }))
}

/// Locks a script to read or change it, even after its tile has panicked.
pub fn look(script: &Shared) -> MutexGuard<'_, Script> {
    script.lock()
}

/// A tile that follows its script. It publishes at most `BURST` frags at a time; their payloads count up per output,
/// from 0 (the payload is the lowest byte).
pub struct ScriptedTile<const BURST: usize> {
    script: Shared,
    clock: Clock,
    outputs: Vec<Port>,
    number: u64,
}

impl<const BURST: usize> Tile for ScriptedTile<BURST> {
    const NAME: &'static str = "scripted";
    const BURST: usize = BURST;
    const FRAGS_PER_RUN: usize = 4;
    type Config = Shared;
    type Counters = ScriptedCounters;

    fn new(script: Shared, host: &mut Host<'_>) -> Result<Self, InitError> {
        let outputs = host.outputs("out");
        Ok(Self { script, clock: host.clock().clone(), outputs, number: 0 })
    }

    fn filter(&mut self, meta: &FragMeta, input: In) -> Filter {
        (look(&self.script).filter)(meta, input)
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        self.spend(0);
        let mut script = look(&self.script);
        script.taken.extend(frag.payload().first());
        if (script.on_frag)(frag.payload()) {
            out.filtered();
        }
        out.count.frags += 1;
        let count = script.publish[0];
        drop(script);
        self.publish(count, out);
    }

    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
        self.spend(1);
        let mut script = look(&self.script);
        script.bursts += 1;
        let count = script.publish[1];
        drop(script);
        self.publish(count, out);
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        self.spend(2);
        let mut script = look(&self.script);
        let (polled, count) = ((script.on_poll)(), script.publish[2]);
        drop(script);
        if polled == Poll::Busy {
            self.publish(count, out);
        }
        polled
    }

    fn housekeep(&mut self, _: &mut Out<'_, Self>) {
        self.spend(3);
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        let own = (look(&self.script).wait_for)();
        wait.until(own.deadline);
        wait.descriptors(own.readable);
    }

    fn slept(&mut self, readable: u32) {
        look(&self.script).slept.push(readable);
    }

    fn stop(&mut self, _: &mut Out<'_, Self>) {
        look(&self.script).stops += 1;
    }
}

impl<const BURST: usize> ScriptedTile<BURST> {
    fn spend(&self, callback: usize) {
        let cost = look(&self.script).costs[callback];
        if cost > 0 {
            self.clock.advance(Duration::from_nanos(cost));
        }
    }

    fn publish(&mut self, count: usize, out: &mut Out<'_, Self>) {
        for _ in 0..count {
            for port in &self.outputs {
                out.publish(*port, self.number, &[self.number as u8]);
            }
            self.number += 1;
        }
    }
}
