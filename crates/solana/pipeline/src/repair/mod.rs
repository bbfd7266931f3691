//! repair: requests missing shreds, and the ancestors of blocks, from other nodes.
//!
//! reads   `shred_repair` ×S, reliable: what is missing of slots; `net_repair` ×N, reliable: pings of repair servers,
//!         and hashes of ancestors; `sign_repair`, reliable: signatures; `gossip_repair`, reliable: the nodes of the
//!         cluster; `tower_repair`, reliable: slots that others have voted for, and which nodes to ask for a block's
//!         ancestors; the block store, the ledger
//! writes  `repair_net`, elective: requests and pongs; `repair_sign`, reliable: those to be signed; `repair_tower`,
//!         elective: hashes of ancestors, from a node that was asked
//! memory  [`SLOTS_MAX`] partial slots, and as many whole ones; [`VOTED_MAX`] slots with votes; [`REQUESTS_MAX`]
//!         requests; [`PINGED_MAX`] times of peers; [`UNSIGNED_MAX`] messages to sign; requests for ancestors:
//!         [`memory`] at most; 120 B for each node of the cluster
//! drops   pings that come from no peer, are not signed by it, or are too many; slots beyond their limits, of those
//!         with votes the ones heard of first; requests when net has no room, which are repeated; tower's questions to
//!         nodes that serve no repair; hashes of ancestors that are unsolicited or find no room on the link to tower:
//!         all counted; requests and pongs that sign refuses, which sign counts
//! source  `solana-core` 4.2.2, `repair_service.rs`; `docs/cluster-protocol.md`, section 3
//!
//! The path of a request: shred reports a slot's gaps → [`request_plan`] (what comes next) → a peer that has the slot,
//! weighted by stake → sign → net. Responses go to shred, which recognizes them by their [`nonce`].
//!
//! Tower and repair never wait for each other. Tower keeps the questions for which `tower_repair` has no room. Repair
//! leaves them in the link while half of the signing queue is taken, so that shreds and pongs have the other half; it
//! drops an answer for which `repair_tower` has no room, and tower asks that node again.

mod ancestors;
pub mod nonce;
pub(crate) mod request_plan;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_gossip::pong_hash;
use hearth_ledger::blockstore::Reader;
use hearth_ledger::{Commitment, Ledger};
use hearth_tile::{Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::gossip::{Ping, Pong};
use hearth_wire::repair::{self, AncestorHashes, Answer, Request, RequestContent};
use hearth_wire::{Hash, Pubkey, Signature};

use crate::cluster_view::{RepairPeer, View};
use crate::identity::IdentityWatch;
use crate::links::{
    AncestorAnswer, AncestorQuestion, Datagram, GAPS_MAX, GOSSIP_REPAIR, NET_REPAIR, Outgoing, PONG, PeerNews,
    PortKind, REPAIR_NET, REPAIR_SIGN, REPAIR_TOWER, SHRED_REPAIR, SIGN_REPAIR, SLOT_GAPS, SLOT_WHOLE, SlotGaps,
    TOWER_REPAIR, VOTED,
};
use crate::timer::next_look;
use ancestors::AncestorRequests;
use nonce::NonceKey;
use request_plan::{AGAIN_NS, KnownSlots, SLOTS_LOOKED_AT, SLOTS_WANTED, highest_accepted};

hearth_tile::counters! {
    /// The counters of repair.
    pub struct Counters {
        /// Requests for shreds that are missing.
        requests: Counter,
        /// Requests for a slot's highest shred; they count as requests too.
        requests_highest: Counter,
        /// Requests for shreds of a slot's ancestors; they count as requests too.
        requests_orphan: Counter,
        /// Requests for the ancestors of a block, again ones included.
        ancestor_requests: Counter,
        /// Answers to requests for the ancestors of a block.
        ancestor_answers: Counter,
        /// Pings of repair's servers that were answered.
        pongs: Counter,
        /// Slots with some of their shreds.
        slots: Gauge,
        /// Datagrams dropped: neither a ping nor hashes of ancestors.
        dropped_malformed: Counter,
        /// Pings dropped: no peer's, too soon after the last, or too many.
        dropped_pings: Counter,
        /// Pings dropped: their signature is wrong.
        dropped_signature: Counter,
        /// Requests and pongs dropped because net had no room.
        dropped_no_room: Counter,
        /// Slots dropped: too many are incomplete, or voted for and missing.
        dropped_slots: Counter,
        /// Tower's questions for ancestors dropped: the node serves no repair, or too many wait for an answer.
        dropped_questions: Counter,
        /// Ancestor hashes dropped: not requested.
        dropped_unasked: Counter,
        /// Hashes of ancestors dropped because tower had no room.
        dropped_answers: Counter,
    }
}

/// Minimum interval between checks for missing shreds.
pub(crate) const LOOK_NS: u64 = 5_000_000;
/// Interval between checks if nothing arrives and nothing is due.
const IDLE_LOOK_NS: u64 = 50_000_000;
/// Shreds on their way down the tree arrive within this time; Agave waits as long.
pub(crate) const PATIENCE_NS: u64 = 250_000_000;
/// How often to check all slots above the root, beyond the usual range: a fork may start far below.
const LOOK_DEEP_NS: u64 = 1_000_000_000;
/// Maximum slots reported by shred: more than its tiles keep.
pub const SLOTS_MAX: usize = 4_096;
/// Maximum slots requested only because of votes for them. A vote may be for a slot that never existed.
const VOTED_MAX: usize = 32;
/// How long such a slot is requested.
const VOTED_NS: u64 = 30_000_000_000;
/// Minimum interval between two pings of a peer that are processed. Servers send one per two seconds.
const PING_NS: u64 = 100_000_000;
/// Peers whose last ping times are remembered.
const PINGED_MAX: usize = 8_192;
/// Bytes for the precomputed tables of keys that sign pings.
const TABLE_BYTES: usize = 1 << 20;
/// Messages that wait for their signature: as many as the link back from sign holds, so that sign never waits for it.
const UNSIGNED_MAX: usize = 64;

/// Maximum requests not yet due for repetition: for each look within [`AGAIN_NS`], as many as may wait for a signature.
const REQUESTS_MAX: usize = UNSIGNED_MAX * (AGAIN_NS / LOOK_NS) as usize;

/// The configuration of repair.
#[derive(Clone)]
pub struct Config {
    /// This node's identity, which the operator may change while it runs.
    pub own: IdentityWatch,
    /// The ledger, for the executed and final slots.
    pub ledger: Arc<Ledger>,
    /// Reads the stored blocks, to know which slots are whole.
    pub blocks: Reader,
    /// Creates the nonces by which shred recognizes responses.
    pub nonces: NonceKey,
}

/// Maximum bytes of the tile.
pub const fn memory() -> u64 {
    let begun = SLOTS_MAX * (2 * size_of::<(u64, SlotGaps)>() + 4 * GAPS_MAX);
    let slots = begun + SLOTS_MAX * 2 * size_of::<(u64, u64)>();
    let asked = 2 * (2 * REQUESTS_MAX).next_power_of_two() * size_of::<(RequestContent, u64)>();
    let pinged = 2 * (2 * PINGED_MAX).next_power_of_two() * size_of::<(SocketAddr, u64)>();
    (slots + asked + pinged + AncestorRequests::MEMORY + TABLE_BYTES) as u64
}

/// A message that waits for a signature.
enum UnsignedMessage {
    /// A repair request, complete but for its signature.
    Request { to: SocketAddr, bytes: Vec<u8> },
    /// The answer to a ping.
    Pong { to: SocketAddr, hash: Hash },
}

/// Sends repair requests and answers pings.
pub struct Repair {
    config: Config,
    /// The nodes of the cluster.
    view: View,
    /// Slots of which some shreds have arrived, but not all.
    begun: BTreeMap<u64, SlotGaps>,
    /// Whole slots, by shred's report, that the store may not have yet, and their parents; at most [`SLOTS_MAX`].
    whole: BTreeMap<u64, u64>,
    /// Slots with votes that are missing here, and when the first vote was heard.
    voted: BTreeMap<u64, u64>,
    /// The last slot with votes that was beyond all whose shreds shred accepts, and when it was heard of.
    beyond: Option<(u64, u64)>,
    /// When each item was last requested.
    asked_at: HashMap<RequestContent, u64>,
    /// Open requests for ancestors.
    ancestor_requests: AncestorRequests,
    /// When each peer's ping was last processed.
    pinged: HashMap<SocketAddr, u64>,
    verifier: Verifier,
    /// Messages to sign, in the order of submission.
    unsigned: VecDeque<UnsignedMessage>,
    next_tag: u64,
    root: u64,
    look_at: u64,
    /// Time of the last check.
    looked_at: Option<u64>,
    /// When to check all slots above the root again.
    deep_at: u64,
    /// The executed and the final slot of the last check, if that requested everything and no news came since.
    settled: Option<(u64, u64)>,
    /// Chooses which peer to ask.
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
        // Inputs that are not stored below are net's: check that there is one.
        host.input(NET_REPAIR)?;
        let (net, tower) = (host.output(REPAIR_NET)?, host.output(REPAIR_TOWER)?);
        [net, tower].into_iter().for_each(|port| host.elective(port));
        Ok(Self {
            view: View::new(config.own.known()),
            config,
            begun: BTreeMap::new(),
            whole: BTreeMap::new(),
            voted: BTreeMap::new(),
            beyond: None,
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
            settled: None,
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
            self.on_voted(frag.tag(), out);
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
        let executed = self.config.ledger.recent_blocks(1)[0].slot;
        self.set_root(executed.min(self.config.ledger.slot(Commitment::Finalized)));
        let known = (executed, self.root);
        let has_asked_all = !self.may_find_more(known, now) || self.look(executed, out);
        self.settled = has_asked_all.then_some(known);
        self.looked_at = Some(now);
        self.look_at = if has_asked_all { self.next_due(now) } else { next_look(now, LOOK_NS) };
        if out.count.requests > requests { Poll::Busy } else { Poll::Idle }
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        if let Some(own) = self.config.own.changed() {
            self.view.set_own(own);
            self.settled = None;
        }
        out.count.slots = self.begun.len() as u64;
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        wait.until(self.look_at);
    }
}

impl Repair {
    /// Applies gossip's news of a node.
    fn peer(&mut self, news: PeerNews) {
        self.settled = None;
        match news {
            PeerNews::Known(peer) => self.view.put(&peer),
            PeerNews::Gone(node) => self.view.remove(&node),
        }
    }

    /// Applies shred's report of a slot.
    fn note(&mut self, control: u16, gaps: SlotGaps, out: &mut Out<'_, Self>) {
        let slot = gaps.slot;
        self.settled = None;
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

    /// Handles tower's news that a slot has votes. If shred would not accept its shreds, it only shows that the cluster
    /// is that far: shreds of newer slots do not show it then.
    fn on_voted(&mut self, slot: u64, out: &mut Out<'_, Self>) {
        let now = out.now();
        // It is requested once that is due.
        self.look_at = self.look_at.min(next_look(now + PATIENCE_NS - 1, LOOK_NS));
        let executed = self.config.ledger.recent_blocks(1)[0].slot;
        if slot > self.accepted_to(executed) {
            self.beyond = Some((slot, now));
            self.settled = None;
        } else if slot <= executed + SLOTS_LOOKED_AT {
            out.count.dropped_slots += u64::from(note_voted(&mut self.voted, slot, now));
        }
    }

    /// Returns the highest slot whose shreds shred accepts: of later epochs it does not know the leaders yet.
    fn accepted_to(&self, executed: u64) -> u64 {
        let ledger = &self.config.ledger;
        let schedule = ledger.epoch_schedule();
        let epochs = (schedule.epoch(executed)..).take_while(|epoch| ledger.epoch_stakes(*epoch).is_some());
        let last = epochs.last().map_or(executed, |epoch| schedule.last_slot(epoch));
        last.min(highest_accepted(self.root, schedule.slots_per_epoch))
    }

    /// Schedules a check at once, or a while after the last one: the core is awake now.
    fn look_soon(&mut self, now: u64) {
        let earliest = self.looked_at.map_or(now, |at| at + LOOK_NS);
        self.look_at = self.look_at.min(earliest.max(now));
    }

    /// When there is something to request without any input: a request was unanswered for too long, or a slot with
    /// votes has not arrived.
    fn next_due(&self, now: u64) -> u64 {
        let again = self.asked_at.values().map(|at| at + AGAIN_NS);
        let voted = self.voted.values().map(|at| at + PATIENCE_NS).filter(|due| *due > now);
        let due = again.chain(voted).min().map_or(u64::MAX, |due| due.next_multiple_of(LOOK_NS));
        due.clamp(now + 1, next_look(now, IDLE_LOOK_NS))
    }

    /// Whether a check may find something to request that the last one did not. It reads the store's index, which says
    /// little that shred has not reported. Whatever changes without a report is found by the next check of all slots.
    fn may_find_more(&self, known: (u64, u64), now: u64) -> bool {
        let looked_at = self.looked_at.unwrap_or(0);
        let is_due = |due: u64| looked_at < due && due <= now;
        self.settled != Some(known)
            || now >= self.deep_at
            || self.asked_at.values().any(|at| now >= *at + AGAIN_NS)
            || self.voted.values().any(|at| is_due(*at + PATIENCE_NS))
    }

    /// Requests what is missing of the next slots. Returns whether nothing is left to request until something arrives
    /// or is due; otherwise call it again soon.
    fn look(&mut self, executed: u64, out: &mut Out<'_, Self>) -> bool {
        let now = out.now();
        // Slots in range that the store has are read from there instead.
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
        // With this many slots, more may become wanted as soon as some are executed.
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

    /// Returns what to request, from `below` slots below the newest executed one.
    fn wanted(&mut self, executed: u64, below: u64, now: u64) -> Vec<RequestContent> {
        let (blocks, root) = (&self.config.blocks, self.root);
        let from = root.max(executed.saturating_sub(below)) + 1;
        let stored = blocks.slots(from..=executed + SLOTS_LOOKED_AT, usize::MAX);
        // Shred's report is newer than the store: a block that was given up may still be whole there.
        let stored = stored.iter().filter(|info| info.whole && !self.begun.contains_key(&info.slot));
        let mut whole = self.whole.clone();
        whole.extend(stored.map(|info| (info.slot, info.parent_slot)));
        let is_whole = |slot: &u64| whole.contains_key(slot) || blocks.slot(*slot).is_some_and(|info| info.whole);
        self.voted.retain(|slot, at| now < *at + VOTED_NS && *slot > root && !is_whole(slot));
        // For most slots a shred arrives as soon as the vote.
        let voted = self.voted.iter().filter(|(_, at)| now >= **at + PATIENCE_NS);
        let voted: Vec<u64> = voted.map(|(slot, _)| *slot).collect();
        let accepted_to = self.accepted_to(executed);
        self.beyond = self.beyond.filter(|(slot, at)| *slot > accepted_to && now < *at + VOTED_NS);
        let accepted_to = self.beyond.map(|_| accepted_to);
        let probe = now / LOOK_DEEP_NS;
        KnownSlots { executed, root, begun: &self.begun, whole: &whole, voted: &voted, accepted_to, probe }
            .wanted(below)
    }

    fn set_root(&mut self, root: u64) {
        if root > self.root {
            self.root = root;
            self.begun = self.begun.split_off(&(root + 1));
            self.whole = self.whole.split_off(&(root + 1));
            self.ancestor_requests.set_root(root);
        }
    }

    fn ask(&mut self, wanted: RequestContent, out: &mut Out<'_, Self>) {
        let now = out.now();
        self.asked_at.insert(wanted, now);
        let random = self.random.u64(..);
        // If no peer has the slot, the search repeats no sooner than an unanswered request.
        let Some(peer) = peer_for(wanted.slot(), self.view.repair(), random).copied() else { return };
        let nonce = self.config.nonces.nonce(&wanted, &peer.identity, now);
        self.request(peer.serve_repair.into(), peer.identity, nonce, wanted, out);
        out.count.requests += 1;
        out.count.requests_highest += u64::from(matches!(wanted, RequestContent::Highest { .. }));
        out.count.requests_orphan += u64::from(matches!(wanted, RequestContent::Orphan { .. }));
    }

    /// Submits a request for signing; it is sent afterwards.
    fn request(
        &mut self,
        to: SocketAddr,
        recipient: Pubkey,
        nonce: u32,
        wanted: RequestContent,
        out: &mut Out<'_, Self>,
    ) {
        // The peer compares it with its own clock.
        let (sender, time_ms) = (self.config.own.known(), out.wall_ns() / 1_000_000);
        let bytes = Request { sender, recipient, time_ms, nonce, wanted }.write();
        let question = repair::signed_bytes(&bytes);
        self.ask_signature(UnsignedMessage::Request { to, bytes }, &question, out);
    }

    /// Asks a node for the ancestors of a block, on tower's behalf.
    fn ask_ancestors(&mut self, question: &AncestorQuestion, out: &mut Out<'_, Self>) {
        let AncestorQuestion { slot, node } = *question;
        let (now, wanted, nonces) = (out.now(), RequestContent::Ancestors { slot }, self.config.nonces);
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

    /// Handles a datagram at the repair port that is no shred.
    fn datagram(&mut self, from: SocketAddr, data: &[u8], out: &mut Out<'_, Self>) {
        if let Some(Answer::Ping(ping)) = Answer::parse(data) {
            self.ping(&ping, from, out);
            return;
        }
        match AncestorHashes::parse(data) {
            Some(AncestorHashes::Hashes(hashes, nonce)) => self.on_ancestors(from, hashes, nonce, out),
            Some(AncestorHashes::Ping(ping)) => {
                // The server has dropped the request for which it pinged.
                if self.ping(&ping, from, out) {
                    self.ask_ancestors_again(from, &ping.from, out);
                }
            }
            None => out.count.dropped_malformed += 1,
        }
    }

    /// Passes hashes of ancestors to tower, if they were requested.
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

    /// Repeats the unanswered requests to a node for ancestors, as far as sign has room.
    fn ask_ancestors_again(&mut self, at: SocketAddr, node: &Pubkey, out: &mut Out<'_, Self>) {
        for (slot, nonce) in self.ancestor_requests.waiting(at, node) {
            if self.unsigned.len() >= UNSIGNED_MAX {
                return;
            }
            self.request(at, *node, nonce, RequestContent::Ancestors { slot }, out);
            out.count.ancestor_requests += 1;
        }
    }

    /// Answers a ping of a repair server, if it comes from a peer and its signature is valid. Returns whether it did.
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
        self.ask_signature(UnsignedMessage::Pong { to: from, hash: pong_hash(&ping.token) }, &question, out);
        true
    }

    fn ask_signature(&mut self, unsigned: UnsignedMessage, question: &[u8], out: &mut Out<'_, Self>) {
        out.publish(self.sign, self.next_tag, question);
        self.next_tag += 1;
        self.unsigned.push_back(unsigned);
    }

    /// Handles sign's answer to the oldest message. An empty answer is a refusal: nothing is sent.
    fn on_answer(&mut self, tag: u64, answer: &[u8], out: &mut Out<'_, Self>) {
        let oldest = self.next_tag - self.unsigned.len() as u64;
        assert_eq!(tag, oldest, "sign answers in the order asked");
        let unsigned = self.unsigned.pop_front().expect("an answer to a question");
        if !answer.is_empty() {
            self.signed(unsigned, answer.try_into().expect("sign answers with a signature, or nothing"), out);
        }
    }

    /// Sends a message once it is signed.
    fn signed(&mut self, unsigned: UnsignedMessage, signature: &Signature, out: &mut Out<'_, Self>) {
        let (to, bytes) = match unsigned {
            UnsignedMessage::Request { to, mut bytes } => {
                repair::set_signature(&mut bytes, signature);
                (to, bytes)
            }
            UnsignedMessage::Pong { to, hash } => {
                let pong = Pong { from: self.config.own.known(), hash, signature: *signature };
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

/// Records a slot with votes, replacing the one heard of first if there are too many. Returns whether one was replaced.
fn note_voted(voted: &mut BTreeMap<u64, u64>, slot: u64, now: u64) -> bool {
    voted.entry(slot).or_insert(now);
    let oldest = voted.iter().min_by_key(|(_, at)| **at).map(|(slot, _)| *slot).filter(|_| voted.len() > VOTED_MAX);
    oldest.is_some_and(|oldest| voted.remove(&oldest).is_some())
}

/// Chooses a peer for a request. Any node may have the slot unless it says otherwise; one with stake is more likely to.
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
