//! repair: asks for what is missing, and for the ancestors of blocks.
//!
//! reads   `shred_repair` ×S, reliable: what is missing of slots; `net_repair` ×N, reliable: pings of repair's servers,
//!         and hashes of ancestors; `sign_repair`, reliable: signatures; `gossip_repair`, reliable: the nodes of the
//!         cluster; `tower_repair`, reliable: slots that others have voted for, and whom to ask for the ancestors of
//!         which block; the block store, the ledger
//! writes  `repair_net`, elective: requests and pongs; `repair_sign`, reliable: what of those is to be signed;
//!         `repair_tower`, elective: hashes of ancestors, of a node that was asked
//! memory  [`SLOTS_MAX`] slots that have begun, and as many that are whole; [`VOTED_MAX`] that are voted for;
//!         [`REQUESTS_MAX`] requests; [`PINGED_MAX`] times of peers; [`UNSIGNED_MAX`] questions to sign; requests for
//!         ancestors: [`memory`] at most; 120 B for each node of the cluster
//! drops   pings that are no peer's, not signed by it, or too many; slots beyond their bounds, of those voted for the
//!         ones that were heard of first; requests when net has no room, which are made again; tower's questions to
//!         nodes that serve no repair; hashes of ancestors that nobody asked for, and those that tower has no room for:
//!         all counted; requests and pongs that sign refuses, which sign counts
//! source  `solana-core` 4.2.2, `repair_service.rs`; `docs/cluster-protocol.md`, section 3
//!
//! The walk: shred says what has come of a slot → [`wanted`] (what comes next) → a peer that goes back so far, by stake
//! → sign → net. Answers go to shred, which knows them by their [`nonce`].
//!
//! Tower and repair never wait for each other. Tower holds the questions that `tower_repair` has no room for. Repair
//! leaves them in the link while half of what may wait for signatures does, so that shreds and pongs have the other
//! half; it drops an answer that `repair_tower` has no room for, and tower asks that node again.

mod ancestors;
pub mod nonce;
pub(crate) mod wanted;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_gossip::pong_hash;
use hearth_ledger::blockstore::Reader;
use hearth_ledger::{Commitment, Ledger};
use hearth_tile::{Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::gossip::{Ping, Pong};
use hearth_wire::repair::{self, AncestorHashes, Answer, Request, Wanted};
use hearth_wire::{Hash, Pubkey, Signature};

use crate::cluster_view::{RepairPeer, View};
use crate::links::{
    AncestorAnswer, AncestorQuestion, Datagram, GAPS_MAX, GOSSIP_REPAIR, NET_REPAIR, Outgoing, PONG, PeerNews,
    PortKind, REPAIR_NET, REPAIR_SIGN, REPAIR_TOWER, SHRED_REPAIR, SIGN_REPAIR, SLOT_GAPS, SLOT_WHOLE, SlotGaps,
    TOWER_REPAIR, VOTED,
};
use crate::timer::next_look;
use ancestors::AncestorRequests;
use nonce::NonceKey;
use wanted::{AGAIN_NS, Known, SLOTS_LOOKED_AT, SLOTS_WANTED};

hearth_tile::counters! {
    /// What repair counts.
    pub struct Counters {
        /// Requests for shreds that are missing.
        requests: Counter,
        /// Requests for the ancestors of a block, again ones included.
        ancestor_requests: Counter,
        /// Answers to them.
        ancestor_answers: Counter,
        /// Pings of repair's servers that were answered.
        pongs: Counter,
        /// Slots of which shreds have come, and not all.
        slots: Gauge,
        /// Datagrams dropped: neither a ping nor hashes of ancestors.
        dropped_malformed: Counter,
        /// Pings dropped: no peer's, too soon after the last, or too many.
        dropped_pings: Counter,
        /// Pings dropped: their signature is wrong.
        dropped_signature: Counter,
        /// Requests and pongs dropped because net had no room.
        dropped_no_room: Counter,
        /// Slots dropped: too many have begun, or are voted for and not here.
        dropped_slots: Counter,
        /// Tower's questions for ancestors dropped: the node serves no repair, or too many wait for an answer.
        dropped_questions: Counter,
        /// Hashes of ancestors dropped: this node did not ask for them.
        dropped_unasked: Counter,
        /// Hashes of ancestors dropped because tower had no room.
        dropped_answers: Counter,
    }
}

/// How often it is looked for what is missing, at most.
pub(crate) const LOOK_NS: u64 = 5_000_000;
/// How often it is, where nothing is heard and nothing is due.
const IDLE_LOOK_NS: u64 = 50_000_000;
/// What is under way down the tree comes within so long; Agave waits as long.
pub(crate) const PATIENCE_NS: u64 = 250_000_000;
/// How often all slots above the root are looked at, where there are more: a fork may begin far below.
const LOOK_DEEP_NS: u64 = 1_000_000_000;
/// Slots of which shred tells: more than its tiles keep.
const SLOTS_MAX: usize = 4_096;
/// Slots that are asked for since they are voted for, though nothing else is known of them. A vote may be for a slot
/// that never was.
const VOTED_MAX: usize = 32;
/// So long they are.
const VOTED_NS: u64 = 30_000_000_000;
/// A peer's pings are looked at no sooner than so long after the last. Servers send one in two seconds.
const PING_NS: u64 = 100_000_000;
/// Peers whose last pings are remembered.
const PINGED_MAX: usize = 8_192;
/// Bytes for the tables of keys that sign pings.
const TABLE_BYTES: usize = 1 << 20;
/// Questions that wait for their signature. As many as the link back from sign holds, so that sign never waits for it.
const UNSIGNED_MAX: usize = 64;

/// Requests that are not made again yet, at most: in each look of [`AGAIN_NS`] as many as may wait for their signature.
const REQUESTS_MAX: usize = UNSIGNED_MAX * (AGAIN_NS / LOOK_NS) as usize;

/// What repair is made from.
#[derive(Clone)]
pub struct Config {
    /// This node's identity.
    pub own: Pubkey,
    /// The chain.
    pub ledger: Arc<Ledger>,
    /// The blocks that are there.
    pub blocks: Reader,
    /// By which shred knows answers.
    pub nonces: NonceKey,
}

/// Bytes that the tile takes at most.
pub const fn memory() -> u64 {
    let begun = SLOTS_MAX * (2 * size_of::<(u64, SlotGaps)>() + 4 * GAPS_MAX);
    let slots = begun + SLOTS_MAX * 2 * size_of::<(u64, u64)>();
    let asked = 2 * (2 * REQUESTS_MAX).next_power_of_two() * size_of::<(Wanted, u64)>();
    let pinged = 2 * (2 * PINGED_MAX).next_power_of_two() * size_of::<(SocketAddr, u64)>();
    (slots + asked + pinged + AncestorRequests::MEMORY + TABLE_BYTES) as u64
}

/// What waits for a signature.
enum Unsigned {
    /// A request.
    Request { to: SocketAddr, bytes: Vec<u8> },
    /// An answer to a ping.
    Pong { to: SocketAddr, hash: Hash },
}

/// The tile.
pub struct Repair {
    config: Config,
    /// The nodes of the cluster.
    view: View,
    /// Slots of which shreds have come, and not all.
    begun: BTreeMap<u64, SlotGaps>,
    /// Slots that shred said are whole and that the store may not have yet, and their parents; [`SLOTS_MAX`] at most.
    whole: BTreeMap<u64, u64>,
    /// Slots that are voted for and not here, and when that was heard.
    voted: BTreeMap<u64, u64>,
    /// When something was asked for last.
    asked_at: HashMap<Wanted, u64>,
    /// Requests for ancestors.
    ancestor_requests: AncestorRequests,
    /// When a peer's ping was looked at last.
    pinged: HashMap<SocketAddr, u64>,
    verifier: Verifier,
    /// Questions to sign, in the order asked.
    unsigned: VecDeque<Unsigned>,
    next_tag: u64,
    root: u64,
    look_at: u64,
    /// When it was looked last.
    looked_at: Option<u64>,
    /// When all slots above the root are looked at again.
    deep_at: u64,
    /// Draws which peer is asked.
    random: fastrand::Rng,
    gaps: Vec<In>,
    peer_news: In,
    signatures: In,
    from_tower: In,
    sign: Port,
    net: Port,
    tower: Port,
}

impl Tile for Repair {
    const NAME: &'static str = "repair";
    const BURST: usize = UNSIGNED_MAX;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        // Links that are not named are those of the topology's other tiles: that is a mistake of ours.
        host.input(NET_REPAIR)?;
        let (net, tower) = (host.output(REPAIR_NET)?, host.output(REPAIR_TOWER)?);
        [net, tower].into_iter().for_each(|port| host.elective(port));
        Ok(Self {
            view: View::new(config.own),
            config,
            begun: BTreeMap::new(),
            whole: BTreeMap::new(),
            voted: BTreeMap::new(),
            asked_at: HashMap::with_capacity(REQUESTS_MAX),
            ancestor_requests: AncestorRequests::default(),
            pinged: HashMap::new(),
            verifier: Verifier::new(VerifierConfig { cache_bytes: TABLE_BYTES, ..VerifierConfig::default() }),
            unsigned: VecDeque::with_capacity(UNSIGNED_MAX),
            next_tag: 0,
            root: 0,
            look_at: 0,
            looked_at: None,
            deep_at: 0,
            random: fastrand::Rng::with_seed(host.entropy()),
            gaps: host.inputs_named(SHRED_REPAIR),
            peer_news: host.input(GOSSIP_REPAIR)?,
            signatures: host.input(SIGN_REPAIR)?,
            from_tower: host.input(TOWER_REPAIR)?,
            sign: host.output(REPAIR_SIGN)?,
            net,
            tower,
        })
    }

    fn filter(&mut self, _: &FragMeta, input: In) -> Filter {
        // The other half is for shreds and pongs.
        let must_wait = input == self.from_tower && self.unsigned.len() >= UNSIGNED_MAX / 2;
        if must_wait { Filter::Later } else { Filter::Take }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        if frag.input() == self.signatures {
            self.on_answer(frag.tag(), frag.payload(), out);
        } else if self.gaps.contains(&frag.input()) {
            self.note(frag.control(), SlotGaps::read(frag.payload()), out);
        } else if frag.input() == self.peer_news {
            let knew_nobody = self.view.repair().is_empty();
            self.peer(PeerNews::read(frag.payload()));
            if knew_nobody {
                self.look_soon(out.now());
            }
        } else if frag.input() == self.from_tower && frag.control() == VOTED {
            // It is asked for once that is due.
            self.look_at = self.look_at.min(next_look(out.now() + PATIENCE_NS - 1, LOOK_NS));
            out.count.dropped_slots += u64::from(note_voted(&mut self.voted, frag.tag(), out.now()));
        } else if frag.input() == self.from_tower {
            self.ask_ancestors(&AncestorQuestion::read(frag.payload()), out);
        } else {
            let Datagram { from, data, .. } = Datagram::read(frag.payload());
            self.datagram(from, data, out);
        }
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let now = out.now();
        if now < self.look_at {
            return Poll::Idle;
        }
        let requests = out.count.requests;
        let has_asked_all = self.look(out);
        self.looked_at = Some(now);
        self.look_at = if has_asked_all { self.next_due(now) } else { next_look(now, LOOK_NS) };
        if out.count.requests > requests { Poll::Busy } else { Poll::Idle }
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        out.count.slots = self.begun.len() as u64;
    }

    fn wait_for(&self) -> WaitFor {
        WaitFor { deadline: Some(self.look_at), ..WaitFor::default() }
    }
}

impl Repair {
    /// What gossip says of a node.
    fn peer(&mut self, news: PeerNews) {
        match news {
            PeerNews::Known(peer) => self.view.put(&peer),
            PeerNews::Gone(node) => self.view.remove(&node),
        }
    }

    /// What shred says of a slot.
    fn note(&mut self, control: u16, gaps: SlotGaps, out: &mut Out<'_, Self>) {
        let slot = gaps.slot;
        self.look_soon(out.now());
        self.begun.remove(&slot);
        self.whole.remove(&slot);
        match control {
            SLOT_WHOLE => {
                self.whole.insert(slot, gaps.parent.expect("a slot that is whole has a parent"));
                // The store has the lowest by now, if it is not far behind.
                if self.whole.len() > SLOTS_MAX {
                    self.whole.pop_first();
                    out.count.dropped_slots += 1;
                }
            }
            SLOT_GAPS if self.begun.len() >= SLOTS_MAX => out.count.dropped_slots += 1,
            SLOT_GAPS => {
                self.begun.insert(slot, gaps);
            }
            _ => {}
        }
    }

    /// Has it looked for what is missing at once, or a while after the last look: the core is awake now.
    fn look_soon(&mut self, now: u64) {
        let earliest = self.looked_at.map_or(now, |at| at + LOOK_NS);
        self.look_at = self.look_at.min(earliest.max(now));
    }

    /// When there is something to ask for though nothing is heard: a request has had no answer for long, or a slot that
    /// is voted for has not come.
    fn next_due(&self, now: u64) -> u64 {
        let again = self.asked_at.values().map(|at| at + AGAIN_NS);
        let voted = self.voted.values().map(|at| at + PATIENCE_NS).filter(|due| *due > now);
        let due = again.chain(voted).min().map_or(u64::MAX, |due| due.next_multiple_of(LOOK_NS));
        due.clamp(now + 1, next_look(now, IDLE_LOOK_NS))
    }

    /// Asks for what is missing of the next slots. Whether nothing is left to ask for until something is heard or due;
    /// else it is to be called again soon.
    fn look(&mut self, out: &mut Out<'_, Self>) -> bool {
        let now = out.now();
        let executed = self.config.ledger.recent_blocks(1)[0].slot;
        self.set_root(executed.min(self.config.ledger.slot(Commitment::Finalized)));
        // What the store has of the slots that are looked at is read there.
        let (blocks, to) = (&self.config.blocks, executed + SLOTS_LOOKED_AT);
        self.whole.retain(|slot, _| *slot > to || !blocks.slot(*slot).is_some_and(|info| info.whole));
        self.asked_at.retain(|_, at| now < *at + AGAIN_NS);
        if self.view.repair().is_empty() {
            return true;
        }
        let is_deep = now >= self.deep_at;
        if is_deep {
            self.deep_at = now + LOOK_DEEP_NS;
        }
        let wanted = self.wanted(executed, if is_deep { u64::MAX } else { SLOTS_LOOKED_AT }, now);
        // Beyond so many slots there may be more to ask for as soon as some are executed.
        let are_all = wanted.len() + self.begun.len() < SLOTS_WANTED;
        for wanted in wanted {
            if self.unsigned.len() >= UNSIGNED_MAX || self.asked_at.len() >= REQUESTS_MAX {
                return false;
            }
            if !self.asked_at.contains_key(&wanted) {
                self.ask(wanted, out);
            }
        }
        are_all
    }

    /// What is to be asked for, `below` slots below the newest that is executed.
    fn wanted(&mut self, executed: u64, below: u64, now: u64) -> Vec<Wanted> {
        let (blocks, root) = (&self.config.blocks, self.root);
        let from = root.max(executed.saturating_sub(below)) + 1;
        let stored = blocks.slots(from..=executed + SLOTS_LOOKED_AT, usize::MAX);
        // What shred knows is newer than what is stored: a block that was given up may be whole there still.
        let stored = stored.iter().filter(|info| info.whole && !self.begun.contains_key(&info.slot));
        let mut whole = self.whole.clone();
        whole.extend(stored.map(|info| (info.slot, info.parent_slot)));
        let is_whole = |slot: &u64| whole.contains_key(slot) || blocks.slot(*slot).is_some_and(|info| info.whole);
        self.voted.retain(|slot, at| now < *at + VOTED_NS && *slot > root && !is_whole(slot));
        // Of most a shred comes as soon as the vote.
        let voted = self.voted.iter().filter(|(_, at)| now >= **at + PATIENCE_NS);
        let voted: Vec<u64> = voted.map(|(slot, _)| *slot).collect();
        Known { executed, root, begun: &self.begun, whole: &whole, voted: &voted }.wanted(below)
    }

    fn set_root(&mut self, root: u64) {
        if root > self.root {
            self.root = root;
            self.begun = self.begun.split_off(&(root + 1));
            self.whole = self.whole.split_off(&(root + 1));
            self.ancestor_requests.set_root(root);
        }
    }

    fn ask(&mut self, wanted: Wanted, out: &mut Out<'_, Self>) {
        let now = out.now();
        self.asked_at.insert(wanted, now);
        let random = self.random.u64(..);
        // Where nobody says that it goes back so far it is looked for again no sooner than an answer is.
        let Some(peer) = peer_for(wanted.slot(), self.view.repair(), random).copied() else { return };
        let nonce = self.config.nonces.nonce(&wanted, &peer.identity, now);
        self.request(peer.serve_repair.into(), peer.identity, nonce, wanted, out);
        out.count.requests += 1;
    }

    /// Has a request signed, which is then sent.
    fn request(&mut self, to: SocketAddr, recipient: Pubkey, nonce: u32, wanted: Wanted, out: &mut Out<'_, Self>) {
        // The peer compares it with its own clock.
        let (sender, time_ms) = (self.config.own, out.wall_ns() / 1_000_000);
        let bytes = Request { sender, recipient, time_ms, nonce, wanted }.write();
        let question = repair::signed_bytes(&bytes);
        self.ask_signature(Unsigned::Request { to, bytes }, &question, out);
    }

    /// Asks a node for the ancestors of a block, as tower wants.
    fn ask_ancestors(&mut self, question: &AncestorQuestion, out: &mut Out<'_, Self>) {
        let AncestorQuestion { slot, node } = *question;
        let (now, wanted, nonces) = (out.now(), Wanted::Ancestors { slot }, self.config.nonces);
        let peer = self.view.repair().iter().find(|peer| peer.identity == node);
        let Some(to) = peer.map(|peer| SocketAddr::from(peer.serve_repair)) else {
            out.count.dropped_questions += 1;
            return;
        };
        let Some(nonce) = self.ancestor_requests.ask(to, slot, &node, now, || nonces.nonce(&wanted, &node, now)) else {
            out.count.dropped_questions += 1;
            return;
        };
        self.request(to, node, nonce, wanted, out);
        out.count.ancestor_requests += 1;
    }

    /// Takes what has come to the port of repair and is no shred.
    fn datagram(&mut self, from: SocketAddr, data: &[u8], out: &mut Out<'_, Self>) {
        if let Some(Answer::Ping(ping)) = Answer::parse(data) {
            self.ping(&ping, from, out);
            return;
        }
        match AncestorHashes::parse(data) {
            Some(AncestorHashes::Hashes(hashes, nonce)) => self.on_ancestors(from, hashes, nonce, out),
            Some(AncestorHashes::Ping(ping)) => {
                // The server has dropped what it pinged for.
                if self.ping(&ping, from, out) {
                    self.ask_ancestors_again(from, &ping.from, out);
                }
            }
            None => out.count.dropped_malformed += 1,
        }
    }

    /// Hands hashes of ancestors to tower, if they are what was asked for.
    fn on_ancestors(&mut self, from: SocketAddr, hashes: Vec<(u64, Hash)>, nonce: u32, out: &mut Out<'_, Self>) {
        let Some(node) = self.ancestor_requests.answered(from, nonce, &hashes) else {
            out.count.dropped_unasked += 1;
            return;
        };
        out.count.ancestor_answers += 1;
        if hashes.is_empty() {
            return;
        }
        if out.credits(self.tower, 1) == 0 {
            out.count.dropped_answers += 1;
            return;
        }
        out.publish(self.tower, 0, &AncestorAnswer { node, hashes }.encode());
    }

    /// Asks a node again for the ancestors that it has not answered for, as far as sign has room.
    fn ask_ancestors_again(&mut self, at: SocketAddr, node: &Pubkey, out: &mut Out<'_, Self>) {
        for (slot, nonce) in self.ancestor_requests.waiting(at, node) {
            if self.unsigned.len() >= UNSIGNED_MAX {
                return;
            }
            self.request(at, *node, nonce, Wanted::Ancestors { slot }, out);
            out.count.ancestor_requests += 1;
        }
    }

    /// Answers a ping of repair's server, if it is a peer's, and signed. Returns whether it was.
    fn ping(&mut self, ping: &Ping, from: SocketAddr, out: &mut Out<'_, Self>) -> bool {
        let now = out.now();
        let is_from = |peer: &RepairPeer| peer.identity == ping.from && SocketAddr::from(peer.serve_repair) == from;
        let is_soon = self.pinged.get(&from).is_some_and(|at| now < at + PING_NS);
        if !self.view.repair().iter().any(is_from) || is_soon || self.unsigned.len() >= UNSIGNED_MAX {
            out.count.dropped_pings += 1;
            return false;
        }
        if self.pinged.len() >= PINGED_MAX {
            self.pinged.retain(|_, at| now < *at + PING_NS);
            if self.pinged.len() >= PINGED_MAX {
                out.count.dropped_pings += 1;
                return false;
            }
        }
        self.pinged.insert(from, now);
        if self.verifier.verify(&ping.from, &ping.signature, &ping.token).is_err() {
            out.count.dropped_signature += 1;
            return false;
        }
        out.count.pongs += 1;
        let question = [&PONG[..], &ping.token].concat();
        self.ask_signature(Unsigned::Pong { to: from, hash: pong_hash(&ping.token) }, &question, out);
        true
    }

    fn ask_signature(&mut self, unsigned: Unsigned, question: &[u8], out: &mut Out<'_, Self>) {
        out.publish(self.sign, self.next_tag, question);
        self.next_tag += 1;
        self.unsigned.push_back(unsigned);
    }

    /// Sign has answered the oldest question. With nothing where it refuses: then nothing is sent.
    fn on_answer(&mut self, tag: u64, answer: &[u8], out: &mut Out<'_, Self>) {
        let oldest = self.next_tag - self.unsigned.len() as u64;
        assert_eq!(tag, oldest, "sign answers in the order asked");
        let unsigned = self.unsigned.pop_front().expect("an answer to a question");
        if !answer.is_empty() {
            self.signed(unsigned, answer.try_into().expect("sign answers with a signature, or nothing"), out);
        }
    }

    /// What was to be signed is: off it goes.
    fn signed(&mut self, unsigned: Unsigned, signature: &Signature, out: &mut Out<'_, Self>) {
        let (to, bytes) = match unsigned {
            Unsigned::Request { to, mut bytes } => {
                repair::set_signature(&mut bytes, signature);
                (to, bytes)
            }
            Unsigned::Pong { to, hash } => {
                let pong = Pong { from: self.config.own, hash, signature: *signature };
                (to, repair::write_pong(&pong))
            }
        };
        if out.credits(self.net, 1) == 0 {
            out.count.dropped_no_room += 1;
            return;
        }
        out.publish_with(self.net, 0, |buffer| {
            buffer[Outgoing::HEADER..][..bytes.len()].copy_from_slice(&bytes);
            Outgoing::write_header(buffer, (to, PortKind::Repair), 0, bytes.len())
        });
    }
}

/// Notes a slot that is voted for, in the place of the one that was heard of first where there are too many. Returns
/// whether one made room.
fn note_voted(voted: &mut BTreeMap<u64, u64>, slot: u64, now: u64) -> bool {
    voted.entry(slot).or_insert(now);
    let oldest = voted.iter().min_by_key(|(_, at)| **at).map(|(slot, _)| *slot).filter(|_| voted.len() > VOTED_MAX);
    oldest.is_some_and(|oldest| voted.remove(&oldest).is_some())
}

/// Who is asked for something of a slot. Any node may have it that does not say otherwise; one with stake is likelier
/// to.
fn peer_for(slot: u64, peers: &[RepairPeer], random: u64) -> Option<&RepairPeer> {
    let weight = |peer: &RepairPeer| if peer.lowest <= slot { u128::from((peer.stake / 2).max(1)) } else { 0 };
    let total: u128 = peers.iter().map(weight).sum();
    let mut drawn = u128::from(random) % total.max(1);
    peers.iter().find(|peer| {
        let is_it = drawn < weight(peer);
        drawn = drawn.saturating_sub(weight(peer));
        is_it
    })
}

#[cfg(test)]
mod tests;
