//! The loop: the cost of passing a frag through a tile that does nothing with it.
//!
//! reads   frags of 200 bytes that the bench publishes
//! writes  one line per figure; the baseline is the same frags over the same two links without a loop
//! memory  two links of 4,096 frags

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use hearth_ring::{Consumer, HugePages, PollResult, Producer, Workspace};
use hearth_testkit::bench::{Bench, Unit};
use hearth_tile::bandwidth::{PLACES, Table};
use hearth_tile::latency::TAKEN;
use hearth_tile::runner::{Activity, Parts, Runnable, Runner};
use hearth_tile::topology::{Consumption, LinkSpec, TileSpec, Topology};
use hearth_tile::wake::{Neighbours, Waker};
use hearth_tile::{Clock, Entropy, Filter, Frag, FragMeta, Host, In, InitError, LatencyDecl, Out, Port, Tile};

const DEPTH: usize = 4096;
const PAYLOAD: [u8; 200] = [7; 200];

/// Forwards frags with an even tag.
struct Relay(Port);

impl Tile for Relay {
    const NAME: &'static str = "relay";
    const LATENCIES: &'static [LatencyDecl] = &[TAKEN];
    type Config = ();
    type Counters = ();

    fn new(_: (), host: &mut Host<'_>) -> Result<Self, InitError> {
        host.output("relay_test").map(Self)
    }

    fn filter(&mut self, meta: &FragMeta, _: In) -> Filter {
        if meta.tag.is_multiple_of(2) { Filter::Take } else { Filter::Skip }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        out.publish(self.0, frag.tag(), frag.payload());
    }
}

/// The bench's ends of the links, and the tile between them.
struct BenchLinks {
    path: PathBuf,
    feed: Producer,
    drain: Consumer,
}

fn workspace(name: &str) -> (PathBuf, Workspace) {
    let path = std::env::temp_dir().join(format!("hearth-bench-tile-{name}-{}", std::process::id()));
    let link = |name: &str, producer: &str, consumer: &str| LinkSpec {
        name: name.into(),
        depth: DEPTH as u32,
        mtu: 256,
        producer: producer.into(),
        consumers: vec![Consumption { tile: consumer.into(), reliable: true }],
    };
    let links = vec![link("test_relay", "test:0", "relay:0"), link("relay_test", "relay:0", "test:0")];
    let tiles = vec![TileSpec::of::<Relay>(0), TileSpec::new::<()>("test", 0)];
    let topology = Topology { name: "bench".into(), tiles, links, services: vec![] };
    let workspace = Workspace::create(&path, &topology.workspace_plan(HugePages::None)).expect("a workspace");
    (path, workspace)
}

impl BenchLinks {
    fn new(name: &str) -> (Self, Parts) {
        let (path, workspace) = workspace(name);
        let parts = Parts {
            name: "relay:0".into(),
            index: 0,
            peers: 1,
            clock: Clock::real(),
            inputs: vec![workspace.consumer("test_relay", "relay:0").expect("link")],
            outputs: vec![workspace.producer("relay_test").expect("link")],
            counters: workspace.counters("relay:0").expect("counters"),
            waker: Waker::new().expect("a descriptor"),
            neighbours: Neighbours::default(),
            entropy: Entropy::Seeded(1),
        };
        let feed = workspace.producer("test_relay").expect("link");
        let drain = workspace.consumer("relay_test", "test:0").expect("link");
        (Self { path, feed, drain }, parts)
    }

    fn fill(&mut self, tag: u64) {
        for _ in 0..DEPTH {
            assert!(self.feed.credits(1) > 0);
            self.feed.send(&PAYLOAD, tag, 0, 1, 0);
        }
    }

    fn empty(&mut self) -> u64 {
        drain(&mut self.drain, |payload| {
            black_box(payload);
        })
    }
}

impl Drop for BenchLinks {
    fn drop(&mut self) {
        // A file left in the temporary folder does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn drain(consumer: &mut Consumer, mut each: impl FnMut(&[u8])) -> u64 {
    let mut taken = 0;
    while let PollResult::Ready(meta) = consumer.poll() {
        each(consumer.payload(&meta).expect("a reliable link"));
        consumer.advance();
        taken += 1;
    }
    consumer.release();
    taken
}

fn frags(bench: &Bench) {
    let (mut line, parts) = BenchLinks::new("loop");
    let mut relay = Runner::<Relay>::new((), parts).expect("a relay");
    let through_loop = || {
        line.fill(2);
        while relay.turn(0) == Activity::Worked {}
        let taken = line.empty();
        assert_eq!(taken, DEPTH as u64);
        taken
    };
    let (mut bare, mut parts) = BenchLinks::new("bare");
    let (mut input, mut output) = (parts.inputs.remove(0), parts.outputs.remove(0));
    let without_loop = || {
        bare.fill(2);
        drain(&mut input, |payload| {
            assert!(output.credits(1) > 0);
            output.send(payload, 0, 0, 0, 0);
        });
        bare.empty()
    };
    bench.paired("frag through a tile, both ends included", Unit::NanosPerItem, None, through_loop, without_loop);
}

fn skipped(bench: &Bench) {
    let (mut line, parts) = BenchLinks::new("skip");
    let mut relay = Runner::<Relay>::new((), parts).expect("a relay");
    bench.run("frag skipped, sending included", Unit::NanosPerItem, None, || {
        line.fill(1);
        while relay.turn(0) == Activity::Worked {}
        DEPTH as u64
    });
}

fn idle(bench: &Bench) {
    let (_line, parts) = BenchLinks::new("idle");
    let mut relay = Runner::<Relay>::new((), parts).expect("a relay");
    bench.run("turn with nothing to do", Unit::NanosPerItem, None, || {
        for _ in 0..DEPTH {
            black_box(relay.turn(0));
        }
        DEPTH as u64
    });
    let clock = Clock::real();
    bench.run("(the clock read once)", Unit::NanosPerItem, None, || {
        (0..DEPTH).for_each(|_| {
            black_box(clock.now());
        });
        DEPTH as u64
    });
}

/// The cost of counting a datagram's peer: runs of one peer, as many alternating peers as places, addresses that never
/// repeat.
fn peers(bench: &Bench) {
    let address = |n: u32| SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 + n), 8001));
    // Lengths up to 1,063 bytes force a search for the lightest place almost every time.
    let any = |n: u32| 40 + u64::from(n.wrapping_mul(0x9e37_79b9) >> 22);
    for (name, runs, peers, same_length) in [
        ("datagram counted for its peer, one peer", DEPTH as u32, 1, true),
        ("datagram counted for its peer, 64 in turn", 1, PLACES as u32, true),
        ("datagram counted for its peer, addresses spoofed", 1, 1 << 24, true),
        ("datagram counted for its peer, lengths made up too", 1, 1 << 24, false),
    ] {
        let (mut table, mut next) = (Table::new(PLACES, [0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211]), 0);
        bench.run(name, Unit::NanosPerItem, None, || {
            for n in 0..DEPTH as u32 {
                next += u32::from(n % runs == 0);
                let bytes = if same_length { 1_200 } else { any(next) };
                table.received(black_box(address(next % peers)), bytes);
            }
            DEPTH as u64
        });
    }
}

fn main() {
    let bench = Bench::from_args();
    frags(&bench);
    skipped(&bench);
    idle(&bench);
    peers(&bench);
}
