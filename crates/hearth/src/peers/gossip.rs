//! The thread of gossip: one socket, one state machine.
//!
//! reads   datagrams at the node's gossip port; stakes and leaders, in the ledger; what the tiles report of slots
//! writes  datagrams; views of the cluster, for the tiles and for the RPC; slots whose leaders made two blocks, for
//!         consensus
//! memory  gossip's table; a batch of datagrams, 512 KiB
//! drops   what the state machine refuses, counted there; what the kernel drops, and what nodes without stake say of
//!         votes and slots, counted in [`Counts`]
//! source  `docs/gossip.md`

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearth_cluster::gossip::{Config as GossipConfig, Cursor, DuplicateProof, Event, Gossip, Outbox};
use hearth_cluster::reports::Contradiction;
use hearth_cluster::view::{View, Views};
use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::stakes::EpochStakes;
use hearth_ledger::{Commitment, Ledger};
use hearth_rpc::ClusterNode;
use hearth_tile::CounterSet;
use hearth_tile::counters::put;
use hearth_tile::sys::udp::{RecvBatch, UdpSocket};
use hearth_wire::gossip::{ContactInfo, SocketKind};
use hearth_wire::{Hash, Pubkey};

use super::echo::EchoServer;
use super::socket::{PeerLinks, PeerSocket};
use super::talk::Talk;
use super::{Words, now_ms};
use crate::ports::held::HeldTcp;

/// Datagrams, or runs of them, that are taken at once.
const BATCH: usize = 8;
/// The longest wait for a datagram: what else is due waits no longer.
const WAIT_MAX_MS: u64 = 20;
/// How often what gossip knows is looked at for others.
const VIEW_EVERY: Duration = Duration::from_millis(100);
/// How often the stakes are looked at, and the lowest slot that is kept.
const STAKES_EVERY: Duration = Duration::from_secs(5);
/// Milliseconds of a slot as the cluster counts them for timeouts.
const SLOT_MS: u64 = 400;

hearth_tile::counters! {
    /// What the thread counts beside what gossip itself does.
    pub struct Counts {
        /// Datagrams the kernel dropped because the socket's buffer was full.
        dropped_by_kernel: Counter,
        /// Votes and slots of nodes without stake: consensus is not told of them.
        unstaked_values: Counter,
    }
}

/// What others see of gossip.
#[derive(Default)]
pub struct Seen {
    /// For the tiles.
    pub views: Arc<Views>,
    /// Votes and slots, from and for consensus.
    pub talk: Talk,
    nodes: Mutex<Vec<ClusterNode>>,
    snapshots: Mutex<Vec<Served>>,
    /// Another process has this node's key.
    pub is_double: AtomicBool,
    /// Where gossip counts.
    pub words: Words,
}

impl Seen {
    /// The nodes that gossip knows.
    pub fn nodes(&self) -> Vec<ClusterNode> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The snapshots that nodes say they have.
    pub fn snapshots(&self) -> Vec<Served> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A snapshot that a node says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Who.
    pub identity: Pubkey,
    /// Where it serves it; `None`: nowhere.
    pub rpc: Option<SocketAddrV4>,
    /// Its slot.
    pub slot: u64,
    /// The hash of its bank.
    pub hash: Hash,
}

/// Gossip, running; dropping it stops it.
pub struct GossipThread {
    /// What it knows.
    pub seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _echo: EchoServer,
}

/// Where gossip is, bound.
#[derive(Debug)]
pub struct GossipSockets {
    /// Gossip itself.
    pub udp: UdpSocket,
    /// The IP echo server.
    pub echo: HeldTcp,
}

/// What the thread is made of.
pub struct Start {
    /// Where to listen.
    pub sockets: GossipSockets,
    /// Whom to begin with.
    pub entrypoints: Vec<SocketAddrV4>,
    /// The node's key.
    pub key: SigningKey,
    /// What the node says of itself.
    pub own: ContactInfo,
    /// Whose stakes count; `None` before the chain is known.
    pub ledger: Option<Arc<Ledger>>,
    /// The lowest slot of which the node has shreds to serve; `None` where it serves none.
    pub lowest: Option<Lowest>,
    /// What is between it and others, where that is emulated.
    pub links: PeerLinks,
}

/// Looks up the lowest slot that is kept, if any is.
pub type Lowest = Box<dyn Fn() -> Option<u64> + Send>;

impl GossipThread {
    /// Listens.
    pub fn start(start: Start) -> io::Result<Self> {
        let shred_version = start.own.shred_version;
        let echo = EchoServer::start(start.sockets.echo.share()?.listen()?, shred_version)?;
        let mut driver = Driver::new(start)?;
        let (seen, stop) = (Arc::clone(&driver.seen), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("gossip".into()).spawn(move || driver.run(&stopped))?;
        Ok(Self { seen, stop, thread: Some(thread), _echo: echo })
    }
}

impl Drop for GossipThread {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}

struct Driver {
    socket: PeerSocket,
    gossip: Gossip,
    ledger: Option<Arc<Ledger>>,
    lowest: Option<Lowest>,
    seen: Arc<Seen>,
    /// When these are due: not by Unix time, which steps.
    view_at: Instant,
    stakes_at: Instant,
    /// How far votes and slots were read.
    votes: Cursor,
    slots: Cursor,
    /// The slot that gossip takes to be final; none before the first look.
    root: Option<u64>,
    /// The snapshot that was told last.
    told: Option<(u64, Hash)>,
    /// Nodes with stake; none where nobody has any.
    voters: HashSet<Pubkey>,
    counts: Counts,
}

impl Driver {
    fn new(start: Start) -> io::Result<Self> {
        let udp = start.sockets.udp;
        let is_private = match udp.local_addr().ip() {
            IpAddr::V4(ip) => ip.is_loopback() || ip.is_private(),
            IpAddr::V6(_) => false,
        };
        let socket = PeerSocket::over(udp, &start.links)?;
        let config =
            GossipConfig { entrypoints: start.entrypoints, allow_private: is_private, ..GossipConfig::default() };
        let mut seed = [0; 32];
        hearth_tile::sys::random::fill(&mut seed);
        Ok(Self {
            socket,
            gossip: Gossip::new(config, start.key, start.own, seed, now_ms()),
            ledger: start.ledger,
            lowest: start.lowest,
            seen: Arc::new(Seen::default()),
            view_at: Instant::now(),
            stakes_at: Instant::now(),
            votes: Cursor::default(),
            slots: Cursor::default(),
            root: None,
            told: None,
            voters: HashSet::new(),
            counts: Counts::default(),
        })
    }

    fn run(&mut self, stop: &AtomicBool) {
        let (mut out, mut batch) = (Outbox::default(), RecvBatch::new(BATCH));
        while !stop.load(SeqCst) {
            let now = now_ms();
            let began = Instant::now();
            if began >= self.stakes_at {
                self.stakes_at = began + STAKES_EVERY;
                self.stakes();
                self.lowest(now);
            }
            self.say(now);
            self.gossip.tick(now, &mut out);
            self.hear();
            let wait = self.gossip.next_tick().saturating_sub(now).clamp(1, WAIT_MAX_MS);
            if self.socket.receive(&mut batch, Duration::from_millis(wait)) {
                let now = now_ms();
                batch.datagrams().for_each(|(from, bytes)| self.gossip.receive(now, from, bytes, &mut out));
            }
            out.iter().for_each(|(to, bytes)| self.socket.send(bytes, to.into()));
            out.clear();
            while let Some(event) = self.gossip.next_event() {
                match event {
                    Event::DuplicateInstance { .. } => self.seen.is_double.store(true, SeqCst),
                    Event::DuplicateProof(proof) => self.proof(&proof),
                }
            }
            if began >= self.view_at {
                self.view_at = began + VIEW_EVERY;
                self.slots(now);
                self.snapshot(now);
                self.view();
            }
        }
    }

    /// Says what consensus wants said.
    fn say(&mut self, now: u64) {
        for what in self.seen.talk.to_say() {
            // The only error is that it is no vote, and this node makes none that is not.
            let _ = self.gossip.publish_vote(&what, now);
        }
    }

    /// Tells consensus of what others say.
    fn hear(&mut self) {
        // Before the chain is known there is no consensus that would take it.
        if self.ledger.is_none() {
            return;
        }
        let own = *self.gossip.identity();
        let (votes, slots) = (self.gossip.votes(&mut self.votes), self.gossip.epoch_slots(&mut self.slots));
        let others = votes.chain(slots).filter(|value| value.label().pubkey != own);
        let counts = |node: &Pubkey| self.voters.is_empty() || self.voters.contains(node);
        self.counts.unstaked_values += self.seen.talk.hear(others, counts);
    }

    /// Says which snapshot this node serves, when it has another.
    fn snapshot(&mut self, now: u64) {
        let newest = self.ledger.as_ref().and_then(|ledger| ledger.snapshots()?.newest());
        if let Some(newest) = newest.filter(|newest| self.told != Some(*newest)) {
            self.told = Some(newest);
            self.gossip.publish_snapshots(newest, &[], now).expect("one snapshot keeps all rules");
        }
    }

    /// Says how far back this node can serve others; gossip says it anew only where it has changed.
    fn lowest(&mut self, now: u64) {
        if let Some(lowest) = self.lowest.as_ref().and_then(|lowest| lowest()) {
            self.gossip.publish_lowest_slot(lowest, now).expect("a slot that is kept is no larger than any");
        }
    }

    /// Somebody says that a leader made two blocks.
    fn proof(&mut self, proof: &DuplicateProof) {
        let leader = self.ledger.as_ref().and_then(|ledger| ledger.leader_at(proof.slot));
        if self.gossip.check_proof(proof, leader.map(|leader| leader.node).as_ref()) {
            self.seen.views.reports.duplicate(proof.slot);
        }
    }

    /// Says what is known of single slots: which are whole here, and whose leaders made two blocks.
    fn slots(&mut self, now: u64) {
        if let Some(ledger) = &self.ledger {
            let root = ledger.slot(Commitment::Finalized);
            if self.root.replace(root) != Some(root) {
                self.gossip.set_root(root, ledger.slots_per_epoch());
            }
        }
        let reports = &self.seen.views.reports;
        for Contradiction { slot, shreds } in reports.take_contradictions() {
            // Two shreds are three pieces, and a slot that has an epoch is no larger than any.
            let told = self.gossip.publish_duplicate(slot, shreds.each_ref().map(Vec::as_slice), now);
            told.expect("two shreds keep all rules");
            self.gossip.mark_duplicate(slot);
            reports.duplicate(slot);
        }
        let mut whole = reports.take_whole();
        whole.sort_unstable();
        self.gossip.publish_epoch_slots(&whole, now).expect("slots that have leaders are no larger than any");
    }

    fn stakes(&mut self) {
        let Some(ledger) = &self.ledger else { return };
        let epoch = ledger.epoch_schedule().epoch(ledger.slot(Commitment::Finalized));
        let mut stakes: HashMap<Pubkey, u64> = HashMap::new();
        for vote in of_next(epoch, |epoch| ledger.epoch_stakes(epoch)).iter().flat_map(|stakes| &stakes.votes) {
            *stakes.entry(vote.node).or_default() += vote.stake;
        }
        self.voters = voters([epoch, epoch + 1].map(|epoch| ledger.epoch_stakes(epoch)));
        self.gossip.set_stakes(stakes, ledger.slots_per_epoch() * SLOT_MS);
    }

    fn view(&mut self) {
        let gossip = &self.gossip;
        let others = gossip.contact_infos().filter(|contact| contact.pubkey != *gossip.identity());
        self.seen.views.put(View {
            own_tvu: gossip.own().socket(SocketKind::Tvu),
            tvu: gossip.tvu_peers().collect(),
            repair: gossip.repair_peers().collect(),
            tpu: others
                .map(|contact| {
                    let socket = |kind| gossip.socket(contact, kind);
                    (contact.pubkey, socket(SocketKind::TpuQuic), socket(SocketKind::TpuVoteQuic))
                })
                .collect(),
        });
        if let Some(words) = self.seen.words.get() {
            let (of_gossip, own) = words.words().split_at(hearth_cluster::gossip::Counters::HELP.len());
            of_gossip.iter().zip(gossip.counters().named()).for_each(|(word, (_, value))| put(word, value));
            self.counts.dropped_by_kernel = self.socket.kernel_drops();
            self.counts.flush(own);
        }
        let served =
            gossip.contact_infos().filter(|contact| contact.pubkey != *gossip.identity()).filter_map(|contact| {
                let (slot, hash) = gossip.snapshot_hashes(&contact.pubkey)?.full;
                Some(Served { identity: contact.pubkey, rpc: gossip.socket(contact, SocketKind::Rpc), slot, hash })
            });
        *self.seen.snapshots.lock().unwrap_or_else(PoisonError::into_inner) = served.collect();
        let nodes = gossip.contact_infos().map(|contact| told(gossip, contact)).collect();
        *self.seen.nodes.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }
}

/// What is known of the epoch after the root's: all of gossip counts by its stakes. Where it is not known, that of the
/// root's own.
fn of_next<T>(root: u64, known: impl Fn(u64) -> Option<T>) -> Option<T> {
    known(root + 1).or_else(|| known(root))
}

/// The nodes that have stake in one of these epochs.
fn voters(epochs: [Option<Arc<EpochStakes>>; 2]) -> HashSet<Pubkey> {
    let votes = epochs.iter().flatten().flat_map(|stakes| &stakes.votes);
    votes.filter(|vote| vote.stake > 0).map(|vote| vote.node).collect()
}

/// The programs that have a number; others are told by it.
const CLIENTS: [&str; 8] =
    ["SolanaLabs", "JitoLabs", "Frankendancer", "Agave", "AgavePaladin", "Firedancer", "AgaveBam", "Sig"];

fn told(gossip: &Gossip, contact: &ContactInfo) -> ClusterNode {
    let socket = |kind| gossip.socket(contact, kind).map(Into::into);
    let client = contact.version.client;
    ClusterNode {
        identity: contact.pubkey,
        gossip: socket(SocketKind::Gossip),
        tvu: socket(SocketKind::Tvu),
        tpu: socket(SocketKind::Tpu),
        tpu_quic: socket(SocketKind::TpuQuic),
        tpu_forwards_quic: socket(SocketKind::TpuForwardsQuic),
        tpu_vote: socket(SocketKind::TpuVote),
        serve_repair: socket(SocketKind::ServeRepair),
        rpc: socket(SocketKind::Rpc),
        pubsub: socket(SocketKind::RpcPubsub),
        version: contact.version.to_string(),
        client: match client {
            CLIENT => "Hearth".into(),
            client => CLIENTS.get(usize::from(client)).map_or(format!("Unknown({client})"), ToString::to_string),
        },
        feature_set: Some(contact.version.feature_set),
        shred_version: contact.shred_version,
    }
}

/// What this program calls itself in gossip: a number that no other has.
pub const CLIENT: u16 = 0x4865;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use hearth_wire::gossip::Version;

    use super::super::socket::OPTIONS;
    use super::*;

    /// A driver at a port of this host, before the chain is known.
    fn driver(lowest: Option<Lowest>) -> Driver {
        let key = SigningKey::from_seed(&[1; 32]);
        let own = ContactInfo::new(key.public_key(), 5, 7, Version::default());
        let any = "127.0.0.1:0".parse().unwrap();
        let sockets = GossipSockets { udp: UdpSocket::bind(any, OPTIONS).unwrap(), echo: HeldTcp::hold(any).unwrap() };
        let links = PeerLinks::default();
        Driver::new(Start { sockets, entrypoints: vec![], key, own, ledger: None, lowest, links }).unwrap()
    }

    #[test]
    fn the_stakes_are_those_of_the_epoch_after_the_root_where_they_are_known() {
        let known = |epoch: u64| (3..=5).contains(&epoch).then_some(epoch);
        assert_eq!([1, 2, 4, 5, 6].map(|root| of_next(root, known)), [None, Some(3), Some(5), Some(5), None]);
    }

    #[test]
    fn how_far_back_the_store_goes_is_told() {
        let lowest = Arc::new(AtomicU64::new(0));
        let looked_up = Arc::clone(&lowest);
        let mut driver = driver(Some(Box::new(move || looked_up.load(SeqCst).checked_sub(1))));
        let own = *driver.gossip.identity();
        let mut told = |kept: u64| {
            lowest.store(kept, SeqCst);
            driver.lowest(now_ms());
            driver.gossip.lowest_slot(&own)
        };
        assert_eq!([0, 8, 8, 31].map(&mut told), [None, Some(7), Some(7), Some(30)], "nothing while nothing is kept");
    }
}
