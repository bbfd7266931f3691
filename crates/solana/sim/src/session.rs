//! Recorded sessions: a node runs again with what it has received, and roots the same blocks.
//!
//! reads   the folder of a session, which a real node or one of this simulator has recorded
//! writes  what the node rooted and voted for this time; the first block that differs
//! memory  the session, the node
//! source  `hearth_node::capture`, which says what is recorded; `docs/simulation.md`
//!
//! The node starts on the session's genesis or snapshot, with its identity key, its secrets and its time, on virtual
//! time. Each packet comes when it came. What the node sends goes nowhere. It makes no blocks: those that it made are
//! in the session, and come as responses to repair, as they do to a node that has lost them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hearth_consensus::BankId;
use hearth_keys as keys;
use hearth_ledger::Genesis;
use hearth_ledger::genesis::GENESIS_NAME;
use hearth_node::capture::folder::{self, Beginning, IDENTITY};
use hearth_node::capture::format::{Session, SessionEvent, SessionHeader};
use hearth_node::capture::recorder::{Limits, Recorder, SessionTotals};
use hearth_node::capture::{CaptureError, Recording, nonces};
use hearth_pipeline::capture::{CapturedPacket, PacketSource, Tap, UNKNOWN};
use hearth_pipeline::links::PortKind;
use hearth_wire::Hash;
use hearth_wire::repair::RequestContent;
use hearth_wire::shred::Shred;

use crate::disk::{SimDisk, folders};
use crate::net::ArrivedDatagram;
use crate::network::MS;
use crate::node::{Node, NodeStart, Setup, StartError, secret, validator};

/// How long a replay continues after the session's end if it has not rooted all blocks by then, nanoseconds.
const LONGER_NS: u64 = 5_000 * MS;
/// Repair requests at least this far apart have different nonces, nanoseconds.
const REQUESTS_APART_NS: u64 = 200 * MS;
/// Requests for an own shred that its nonce is chosen from.
const REQUESTS: u64 = 8;
/// Blocks that are looked at for new roots.
const LOOK_BACK: usize = 512;
/// A simulated session has no limit of its own.
const NO_LIMITS: Limits = Limits { slots: None, bytes: u64::MAX };

/// The node of a simulated cluster whose session is recorded.
pub(crate) struct RecordedNode {
    /// The node's index in the cluster, from 0.
    pub node: usize,
    /// The part of the recording that the node's tiles need.
    pub recording: Recording,
    folder: PathBuf,
    recorder: Option<Recorder>,
}

impl RecordedNode {
    /// Writes what the node begins with into the folder of its session.
    ///
    /// # Panics
    /// The folder is not empty, or cannot be written.
    pub fn new(setup: &Setup, seed: u64, node: usize, folder: &Path) -> Self {
        let ledger = folders();
        let genesis = ledger.path().join(GENESIS_NAME);
        setup.genesis.save(&genesis).expect("there is room for a genesis");
        let identity = ledger.path().join(IDENTITY);
        let key = [secret(seed, node, "identity"), validator(seed, node).identity].concat();
        std::fs::write(&identity, format!("{key:?}")).expect("there is room for a key");
        let beginning =
            Beginning { ledger: ledger.path(), snapshots: &ledger.path().join("none"), identity: &identity };
        beginning.copy_to(folder).expect("there is room for a session");
        let recording = Recording { seed: secret(seed, node, "session"), tap: Some(Tap::default()) };
        Self { node, recording, folder: folder.to_owned(), recorder: None }
    }

    /// The node has started.
    pub fn begin(&mut self, setup: &Setup, place: &NodeStart<'_>, node: &Node) {
        assert!(self.recorder.is_none(), "a session is that of one start");
        let header = setup.session_header(place, self.recording.seed);
        let tap = self.recording.tap.clone().expect("it is recorded");
        let recorder = Recorder::begin(&self.folder, &header, tap, node.ledger.clone(), NO_LIMITS);
        self.recorder = Some(recorder.expect("there is room for a session"));
    }

    /// Records what it has received since the last call.
    pub fn step(&mut self) {
        let recorder = self.recorder.as_mut().expect("a node that is turned has started");
        recorder.step().expect("there is room for a session");
    }

    /// Ends the session at this time of its clock.
    pub fn end(self, end_ns: u64) -> SessionTotals {
        let recorder = self.recorder.expect("the node has started");
        recorder.end(end_ns).expect("there is room for a session")
    }
}

/// The result of running a node on a session's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The blocks that it rooted, by slot, with their bank hashes.
    pub rooted: BTreeMap<u64, Hash>,
    /// Its votes, in the order in which their towers came to disk.
    pub votes: Vec<BankId>,
    /// Blocks of the session that are rooted in it, and so here.
    pub compared: usize,
    /// Packets that it was given.
    pub packets: usize,
    /// How long it ran, on virtual time, nanoseconds.
    pub virtual_ns: u64,
}

/// Why a session cannot be replayed, or how it differs.
#[derive(Debug)]
pub enum SessionError {
    /// Its files cannot be read.
    Capture(CaptureError),
    /// Its files do not go together, or the node does not start on them.
    Files(String),
    /// The recording has lost so many packets.
    Incomplete(u64),
    /// The node ends by itself: why.
    Ends(String),
    /// A block has another bank hash.
    Differs {
        /// The slot at which the bank hashes differ.
        slot: u64,
        /// Its bank hash in the session.
        recorded: Hash,
        /// Its bank hash here.
        replayed: Hash,
    },
    /// A block is rooted in the session, and not here.
    NotRooted {
        /// The oldest slot that only the session rooted.
        slot: u64,
        /// The newest root here.
        root: u64,
    },
}

impl From<CaptureError> for SessionError {
    fn from(why: CaptureError) -> Self {
        Self::Capture(why)
    }
}

impl From<StartError> for SessionError {
    fn from(why: StartError) -> Self {
        Self::Files(format!("{why:?}"))
    }
}

/// Reads a session and replays it.
///
/// # Errors
/// The session is incomplete, or its replay has another result.
pub fn replay(folder: &Path) -> Result<Replayed, SessionError> {
    replay_session(folder, &folder::read(folder)?)
}

/// Replays a session that was read from a folder: the rest of its files are there.
///
/// # Errors
/// As [`replay`].
///
/// # Panics
/// The machine has no room for the node's files.
pub fn replay_session(folder: &Path, session: &Session) -> Result<Replayed, SessionError> {
    if session.dropped > 0 {
        return Err(SessionError::Incomplete(session.dropped));
    }
    let recorded: BTreeMap<u64, Hash> = session.events.iter().filter_map(rooted).collect();
    let ledgers = folders();
    let ledger = ledgers.path().join("0");
    let mut node = start(folder, &session.header, &ledger)?;
    let mut replayed = run(&mut node, session, recorded.last_key_value().map_or(0, |(slot, _)| *slot))?;
    replayed.compared = compare(&recorded, &replayed.rooted)?;
    Ok(replayed)
}

fn rooted(event: &SessionEvent) -> Option<(u64, Hash)> {
    match event {
        SessionEvent::Rooted { slot, bank_hash } => Some((*slot, *bank_hash)),
        SessionEvent::Packet(_) => None,
    }
}

/// Starts the node of a session in a new ledger folder.
fn start(folder: &Path, header: &SessionHeader, ledger: &Path) -> Result<Node, SessionError> {
    folder::restore_ledger(folder, ledger)?;
    let genesis = Genesis::load(&ledger.join(GENESIS_NAME)).map_err(|why| SessionError::Files(why.to_string()))?;
    let identity = keys::read(&folder.join(IDENTITY)).map_err(|why| SessionError::Files(why.to_string()))?;
    if identity.public != header.identity || *genesis.hash() != header.genesis {
        let what = "the identity or the genesis is not that of the packets".to_owned();
        return Err(SessionError::Files(what));
    }
    let setup = Setup::of_session(genesis, header);
    let place = NodeStart {
        seed: 0,
        number: 0,
        starts: 0,
        folder: ledger,
        disk: &SimDisk::new(0),
        now: 0,
        drift_ppm: 0,
        set_ns: 0,
        key: *identity.keypair.seed(),
        vote: header.vote_account,
        leads: false,
        ip: header.ip,
        session: Some(Recording { seed: header.seed, tap: None }),
    };
    Ok(Node::start(&setup, &place)?)
}

/// Gives a node the packets of a session at their times, until it has rooted `goal` or its time is up.
fn run(node: &mut Node, session: &Session, goal: u64) -> Result<Replayed, SessionError> {
    let SessionHeader { seed, identity, .. } = session.header;
    let nonces = nonces(&seed);
    let packets = session.events.iter().filter_map(|event| match event {
        SessionEvent::Packet(packet) => Some(packet),
        SessionEvent::Rooted { .. } => None,
    });
    let mut packets = packets.peekable();
    let mut replayed = Replayed { rooted: BTreeMap::new(), votes: vec![], compared: 0, packets: 0, virtual_ns: 0 };
    let mut given = BTreeSet::new();
    let mut now = 0;
    // What a snapshot has rooted is no part of the session.
    let mut root = node.ledger.root().unwrap_or(0);
    loop {
        let due = packets.peek().map_or(u64::MAX, |packet| packet.at_ns);
        now = due.min(node.wake_at).max(now);
        while let Some(packet) = packets.next_if(|packet| packet.at_ns <= now) {
            replayed.packets += 1;
            // Of two responses with the same nonce the second is refused, and now and then two shreds have the same.
            let arrived = arrived(packet, |wanted| {
                let times = (0..REQUESTS).map(|ago| now.saturating_sub(ago * REQUESTS_APART_NS));
                let mut nonces = times.map(|asked_at| nonces.nonce(wanted, &identity, asked_at));
                nonces.find(|nonce| given.insert(*nonce)).unwrap_or(0)
            });
            node.wire.lock().arrived.extend(arrived);
        }
        node.run(now).map_err(SessionError::Ends)?;
        node.wire.lock().sent.clear();
        replayed.votes.extend(node.take_votes());
        root = take_roots(node, root, &mut replayed.rooted);
        let has_rooted = root >= goal && now >= session.end_ns;
        let is_late = now >= session.end_ns.saturating_add(LONGER_NS);
        if packets.peek().is_none() && (has_rooted || is_late) {
            replayed.virtual_ns = now;
            return Ok(replayed);
        }
    }
}

/// The datagram that a packet came in, or that brings the node a shred of its own. `nonce` is that of a request.
fn arrived(packet: &CapturedPacket, nonce: impl FnOnce(&RequestContent) -> u32) -> Option<ArrivedDatagram> {
    let CapturedPacket { source, from, data, .. } = packet;
    let port = match source {
        PacketSource::Turbine => PortKind::Tvu,
        PacketSource::Repair => PortKind::Repair,
        PacketSource::Request => PortKind::ServeRepair,
        PacketSource::Gossip => PortKind::Gossip,
        PacketSource::Transaction => PortKind::Udp,
        PacketSource::Own => return returned(data, nonce),
    };
    Some(ArrivedDatagram { from: known(*from), port, data: data.clone() })
}

/// An own shred, as a response to repair.
fn returned(data: &[u8], nonce: impl FnOnce(&RequestContent) -> u32) -> Option<ArrivedDatagram> {
    let shred = Shred::parse(data).ok()?;
    let nonce = nonce(&RequestContent::Shred { slot: shred.slot(), index: shred.index() });
    let data = [data, &nonce.to_le_bytes()[..]].concat();
    Some(ArrivedDatagram { from: known(UNKNOWN), port: PortKind::Repair, data })
}

/// An address for what came from one that is not recorded.
fn known(from: SocketAddr) -> SocketAddr {
    if from == UNKNOWN { SocketAddr::from(([10, 9, 0, 1], 4_000)) } else { from }
}

/// Notes the blocks that a node has rooted after `root`. Returns its newest root that is noted.
fn take_roots(node: &Node, root: u64, to: &mut BTreeMap<u64, Hash>) -> u64 {
    let newest = node.ledger.root().unwrap_or(0);
    if newest <= root {
        return root;
    }
    let blocks = node.ledger.recent_blocks(LOOK_BACK);
    let new = blocks.iter().filter(|block| block.slot > root && block.slot <= newest);
    let hashes: Option<Vec<_>> = new.map(|block| Some((block.slot, block.bank_hash?))).collect();
    // A hash that is not computed yet is there after the next turn.
    let Some(hashes) = hashes else { return root };
    to.extend(hashes);
    newest
}

/// Compares the blocks that a session rooted with those that its replay did. Returns how many there are.
fn compare(recorded: &BTreeMap<u64, Hash>, replayed: &BTreeMap<u64, Hash>) -> Result<usize, SessionError> {
    for (slot, hash) in recorded {
        match replayed.get(slot) {
            Some(found) if found == hash => {}
            Some(found) => return Err(SessionError::Differs { slot: *slot, recorded: *hash, replayed: *found }),
            None => {
                let root = replayed.last_key_value().map_or(0, |(slot, _)| *slot);
                return Err(SessionError::NotRooted { slot: *slot, root });
            }
        }
    }
    Ok(recorded.len())
}
