//! A node with its tile sign apart: here on a thread that has no more of the node than a process would have.

use std::fs::File;
use std::os::fd::IntoRawFd;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use hearth_keys::Keypair;
use hearth_testkit::wait_until;
use hearth_tile::counters::LoopCounters;
use hearth_tile::sys::process::inherited;
use hearth_tile::topology::{Consumption, LinkSpec, TileSpec};
use hearth_tile::{CounterSet, Frag, Host, InitError, Out, Poll, Port, Tile};

use super::*;
use crate::links::{SHRED_SIGN, SIGN_SHRED};
use crate::node::{Node, NodeConfig};
use crate::sign::{self, Sign};
use crate::voters::VoterKeys;

/// Signatures that are asked for: many times the depth of the links.
const ASKED: u64 = 2_000;
/// Signatures that are asked for at once: each side waits for the other again and again.
const AT_ONCE: u64 = 4;

hearth_tile::counters! {
    /// What the asking tile counts.
    pub struct AskerCounters {
        /// Signatures received.
        signatures: Counter,
    }
}

/// A tile that asks for signatures.
struct Asker {
    port: Port,
    asked: u64,
    answered: u64,
}

impl Tile for Asker {
    const NAME: &'static str = "asker";
    type Config = ();
    type Counters = AskerCounters;

    fn new((): (), host: &mut Host<'_>) -> Result<Self, InitError> {
        Ok(Self { port: host.output(SHRED_SIGN)?, asked: 0, answered: 0 })
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        if self.asked == ASKED || self.asked - self.answered == AT_ONCE {
            return Poll::Idle;
        }
        self.asked += 1;
        out.publish(self.port, self.asked, &[1; 32]);
        Poll::Busy
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        self.answered += 1;
        let signature = key().sign(&[1; 32]);
        out.count.signatures += u64::from(frag.payload() == signature);
    }
}

fn key() -> Keypair {
    Keypair::from_seed(&[7; 32]).expect("a page may be locked")
}

fn topology() -> Topology {
    let link = |name: &str, from: &str, to: &str| LinkSpec {
        name: format!("{name}:0"),
        depth: 16,
        mtu: 64,
        producer: from.into(),
        consumers: vec![Consumption { tile: to.into(), reliable: true }],
    };
    let mut topology = Topology {
        name: "apart".into(),
        tiles: vec![TileSpec::of::<Asker>(0), TileSpec::of::<Sign>(0)],
        links: vec![link(SHRED_SIGN, "asker:0", "sign:0"), link(SIGN_SHRED, "sign:0", "asker:0")],
        services: vec![],
    };
    topology.check().expect("the ends of the links are there");
    topology.set_apart("sign:0");
    topology
}

/// A thread in place of a process.
struct OnThread(Option<JoinHandle<Result<(), TilePanic>>>);

impl ApartProcess for OnThread {
    fn summary(&self) -> String {
        "on a thread".into()
    }

    fn ended(&mut self) -> Option<TilePanic> {
        let thread = self.0.take_if(|thread| thread.is_finished())?;
        thread.join().expect("it does not panic").err()
    }

    fn wait(mut self: Box<Self>) -> Result<(), TilePanic> {
        self.0.take().map_or(Ok(()), |thread| thread.join().expect("it does not panic"))
    }
}

/// Runs sign as its process does: with what the message and the workspace file give it.
fn run(message: &StartMessage, events: Vec<EventFd>) -> Result<(), TilePanic> {
    let open = |write| File::options().read(true).write(write).open(&message.workspace).unwrap();
    let plan = message.plan();
    let workspace = Workspace::attach(&message.workspace, &open(false), &open(true), &plan).unwrap();
    let identity = key().public_key().into();
    let config = sign::Config { key: key(), vote_account: None, voters: VoterKeys::identity_alone(), identity };
    let configs = TileConfigs::default().one::<Sign>(config);
    let tile = ApartTile::make(message, &workspace, events, &Clock::real(), configs).unwrap();
    assert_eq!(tile.pin(), None);
    tile.run(|| {})
}

/// A second descriptor of an event of this process.
fn second(event: RawFd) -> EventFd {
    let first = inherited(event).unwrap();
    let second = first.try_clone().unwrap();
    // It is the node's.
    let _ = first.into_raw_fd();
    EventFd::from_owned(second)
}

#[test]
fn signatures_cross_to_a_tile_apart_and_back() {
    let start: StartApart = Box::new(|message| -> Result<Box<dyn ApartProcess>, ApartError> {
        let text = serde_json::to_vec(&message).unwrap();
        let read: StartMessage = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, message);
        let events = read.events.iter().map(|event| second(*event)).collect();
        Ok(Box::new(OnThread(Some(std::thread::spawn(move || run(&read, events))))))
    });
    let folder = tempfile::tempdir().unwrap();
    let config = NodeConfig {
        workspace: folder.path().join("workspace"),
        huge_pages: HugePages::None,
        idle: IdlePolicy { park_after_ns: 50_000, sleep_max_ns: IdlePolicy::SLEEP_MAX_NS },
        tiles: TileConfigs::default().one::<Asker>(()),
        seed: None,
        apart: Some(start),
    };
    let node = Node::boot(topology(), Clock::real(), config).unwrap();
    assert_eq!(node.isolation().as_deref(), Some("on a thread"));
    let words = node.workspace().counters("asker:0").unwrap();
    let own = LoopCounters::DECLS.len();
    wait_until("all signatures", || words.words()[own].load(Ordering::Relaxed) == ASKED);
    assert!(node.died().is_none());
    node.stop().unwrap();
}
