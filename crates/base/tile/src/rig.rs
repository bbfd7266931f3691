//! rig: runs one tile in a test: frags in, frags out, no sockets, time set by hand.
//!
//! reads   frags that the test gives
//! writes  frags that the tile publishes, for the test to take
//! memory  one small workspace in a file, which is removed at the end
//!
//! ```
//! # use hearth_tile::{rig::Rig, *};
//! # struct Echo(Port);
//! # impl Tile for Echo {
//! #     const NAME: &'static str = "echo";
//! #     type Config = ();
//! #     type Counters = ();
//! #     fn new(_: (), host: &mut Host<'_>) -> Result<Self, InitError> { Ok(Echo(host.output("echo_out")?)) }
//! #     fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
//! #         out.publish(self.0, frag.tag(), frag.payload())
//! #     }
//! # }
//! let mut rig = Rig::<Echo>::new((), &["in_echo"], &["echo_out"]);
//! rig.give("in_echo", 7, b"hello");
//! rig.run();
//! assert_eq!(rig.take("echo_out"), [(7, b"hello".to_vec())]);
//! ```

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hearth_ring::{Consumer, FragMeta, HugePages, PollResult, Producer, Workspace};

use crate::bandwidth::Tally;
use crate::clock::Clock;
use crate::latency::{Histogram, stamp};
use crate::regime::REGIMES;
use crate::runner::{Activity, HOUSEKEEPING_NS, Parts, Runnable, Runner, Turn};
use crate::tile::{Entropy, InitError, Tile, WaitFor};
use crate::topology::{Consumption, LinkSpec, TileSpec, Topology};
use crate::wake::{Neighbours, Waker};

/// Frags that each link of a rig holds.
pub const DEPTH: u32 = 256;

/// A tile between links whose other ends the test holds.
pub struct Rig<T: Tile> {
    runner: Runner<T>,
    clock: Clock,
    feeds: Vec<Producer>,
    drains: Vec<Consumer>,
    path: PathBuf,
}

impl<T: Tile> Rig<T> {
    /// Creates a tile that reads `inputs` and writes `outputs`, all reliable. Panics if the tile cannot be created.
    pub fn new(config: T::Config, inputs: &[&str], outputs: &[&str]) -> Self {
        Self::try_new(config, inputs, outputs).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Rig::new`], with links whose payloads have at most `mtu` bytes.
    pub fn with_mtu(config: T::Config, inputs: &[&str], outputs: &[&str], mtu: usize) -> Self {
        Self::build(config, inputs, outputs, mtu as u32).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Rig::new`], but returns the tile's error.
    pub fn try_new(config: T::Config, inputs: &[&str], outputs: &[&str]) -> Result<Self, InitError> {
        Self::build(config, inputs, outputs, u32::from(u16::MAX))
    }

    fn build(config: T::Config, inputs: &[&str], outputs: &[&str], mtu: u32) -> Result<Self, InitError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unique = format!("hearth-rig-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(unique);
        let tile = format!("{}:0", T::NAME);
        let link = |name: &str, producer: &str, consumer: &str| LinkSpec {
            name: name.into(),
            depth: DEPTH,
            mtu,
            producer: producer.into(),
            consumers: vec![Consumption { tile: consumer.into(), reliable: true }],
        };
        let links = inputs.iter().map(|n| link(n, "test:0", &tile));
        let links = links.chain(outputs.iter().map(|n| link(n, &tile, "test:0"))).collect();
        let tiles = vec![TileSpec::of::<T>(0), TileSpec::new::<()>("test", 0)];
        let topology = Topology { name: "rig".into(), tiles, links, services: vec![] };
        topology.check().expect("a rig's links have different names");
        let workspace = Workspace::create(&path, &topology.workspace_plan(HugePages::None)).expect("workspace");
        let producer = |n: &&str| workspace.producer(n).expect("link");
        let consumer = |n: &&str, tile: &str| workspace.consumer(n, tile).expect("link");
        let (clock, waker) = (Clock::manual(), Waker::new().expect("eventfd"));
        let feeds = inputs.iter().map(producer).collect();
        let drains = outputs.iter().map(|n| consumer(n, "test:0")).collect();
        let parts = Parts {
            name: tile.clone(),
            index: 0,
            peers: 1,
            clock: clock.clone(),
            inputs: inputs.iter().map(|n| consumer(n, &tile)).collect(),
            outputs: outputs.iter().map(producer).collect(),
            counters: workspace.counters(&tile).expect("counters"),
            waker,
            neighbours: Neighbours::default(),
            entropy: Entropy::Seeded(42),
        };
        let runner = Runner::new(config, parts);
        let runner = match runner {
            Ok(runner) => runner,
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                return Err(error);
            }
        };
        Ok(Self { runner, clock, feeds, drains, path })
    }

    /// Publishes a frag on an input. Panics if the link is full.
    pub fn give(&mut self, link: &str, tag: u64, payload: &[u8]) {
        self.give_control(link, tag, 0, payload);
    }

    /// Like [`Rig::give`], with a control word.
    pub fn give_control(&mut self, link: &str, tag: u64, control: u16, payload: &[u8]) {
        let now = self.clock.now();
        let feed = self.feeds.iter_mut().find(|f| f.name() == link).expect("no such input");
        assert!(feed.credits(1) >= 1, "{link} is full: the tile does not read it");
        feed.send(payload, tag, control, stamp(now), now as u32);
    }

    /// Runs turns until the tile has nothing to do.
    pub fn run(&mut self) {
        for _ in 0..1_000_000 {
            if self.runner.turn(0) == Activity::Idle {
                return;
            }
        }
        panic!("{} never becomes idle", T::NAME);
    }

    /// Runs one turn; the core does not sleep after it.
    pub fn turn(&mut self) -> Activity {
        self.runner.turn(0)
    }

    /// Runs one turn, after which the core sleeps unless a tile works in it.
    pub fn turn_before_sleep(&mut self) -> Activity {
        let now = self.clock.now();
        let turn = Turn { now, parked_ns: 0, sleeps_next: true, idle_housekeeping_ns: HOUSEKEEPING_NS };
        self.runner.turn_at(turn).0
    }

    /// Runs one turn after the core has slept for this long.
    pub fn turn_after(&mut self, sleep: Duration) -> Activity {
        self.clock.advance(sleep);
        self.runner.turn(sleep.as_nanos() as u64)
    }

    /// Takes the frags that the tile has published on an output: tag and payload.
    pub fn take(&mut self, link: &str) -> Vec<(u64, Vec<u8>)> {
        let mut taken = vec![];
        self.drain(link, |tag, payload| taken.push((tag, payload.to_vec())));
        taken
    }

    /// Like [`Rig::take`], with control words instead of tags.
    pub fn take_control(&mut self, link: &str) -> Vec<(u16, Vec<u8>)> {
        let mut taken = vec![];
        self.drain_frags(link, |meta, payload| taken.push((meta.control, payload.to_vec())));
        taken
    }

    /// Like [`Rig::take`], with control words: tag, control word and payload.
    pub fn take_frags(&mut self, link: &str) -> Vec<(u64, u16, Vec<u8>)> {
        let mut taken = vec![];
        self.drain_frags(link, |meta, payload| taken.push((meta.tag, meta.control, payload.to_vec())));
        taken
    }

    /// Like [`Rig::take`], but only the frags' receipt times.
    pub fn take_origins(&mut self, link: &str) -> Vec<u32> {
        let mut taken = vec![];
        self.drain_frags(link, |meta, _| taken.push(meta.origin_us));
        taken
    }

    /// Like [`Rig::take`], without copies: calls `each` with tag and payload. Returns how many frags there were.
    pub fn drain(&mut self, link: &str, mut each: impl FnMut(u64, &[u8])) -> usize {
        self.drain_frags(link, |meta, payload| each(meta.tag, payload))
    }

    fn drain_frags(&mut self, link: &str, mut each: impl FnMut(&FragMeta, &[u8])) -> usize {
        let drain = self.drains.iter_mut().find(|d| d.link() == link).expect("no such output");
        let mut count = 0;
        loop {
            match drain.poll() {
                PollResult::Ready(meta) => {
                    each(&meta, drain.payload(&meta).expect("reliable"));
                    drain.advance();
                    count += 1;
                }
                PollResult::Empty => break,
                PollResult::Overrun { .. } => unreachable!("the rig's links are reliable"),
            }
        }
        drain.release();
        count
    }

    /// Advances the tile's clock.
    pub fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
    }

    /// The manual clock that the tile reads: time passes only where a test advances it.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The tile's own counters, as they are now.
    pub fn count(&self) -> &T::Counters {
        self.runner.count()
    }

    /// The latencies recorded by the tile, in the order of [`Tile::LATENCIES`].
    pub fn latencies(&self) -> &[Histogram] {
        self.runner.latencies()
    }

    /// The tile's bytes by peer, as of the last housekeeping.
    pub fn bandwidth(&self) -> Tally {
        let mut tally = Tally::default();
        tally.add(self.runner.peer_words(), T::PEERS);
        tally
    }

    /// The tile, to look at its state or to change it.
    pub fn tile(&mut self) -> &mut T {
        self.runner.tile()
    }

    /// What the tile waits for besides frags.
    pub fn waits_for(&mut self) -> WaitFor {
        let mut wait = WaitFor::default();
        self.tile().wait_for(&mut wait);
        wait
    }

    /// Nanoseconds in each regime so far.
    pub fn regimes(&self) -> &[u64; REGIMES] {
        self.runner.time_line().ns()
    }

    /// Whether the tile is waiting for room on an output, and how often such a wait started.
    pub fn backpressure(&self) -> (bool, u64) {
        self.runner.backpressure()
    }

    /// Stops the tile, as at the end of a node.
    pub fn stop(&mut self) {
        self.runner.stop();
    }
}

impl<T: Tile> Drop for Rig<T> {
    fn drop(&mut self) {
        // A file left in the temporary folder does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}
