//! Gossip: who is in the cluster, and what each node says of itself.
//!
//! reads   datagrams with their senders' addresses; the time, ms of Unix time; what this node has to say
//! writes  datagrams with the addresses they go to; contact infos, votes and the rest of the table
//! memory  what [`Config`] and the constants bound; [`Gossip::sizes`] says what is taken
//! drops   what breaks a rule: each has a counter in [`Counters`]
//! source  `solana-gossip` 4.2.2; `docs/cluster-protocol.md`, section 4; `docs/gossip.md`
//!
//! A state machine: no socket, no clock, no thread, and no key. The tile `gossip` calls [`Gossip::receive`] for each
//! datagram and [`Gossip::tick`] when [`Gossip::next_tick`] says so, has signed what [`Gossip::next_request`] gives,
//! and sends what is in the [`Outbox`] then. The same calls with the same seed give the same datagrams.

mod active;
pub mod board;
mod bounded;
mod config;
mod counters;
pub mod duplicate;
mod outbox;
mod own;
mod peers;
mod pings;
mod proofs;
mod pull;
mod push;
mod random;
mod receive;
mod received;
mod signing;
mod stakes;
mod table;

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_wire::gossip::{ContactInfo, SocketKind};
use hearth_wire::{Hash, Pubkey};

pub use bounded::Bounded;
pub use config::{Config, PUSH_MS, REFRESH_MS, TIMEOUT_MS};
pub use counters::Counters;
pub use outbox::Outbox;
pub use peers::{Cursor, Peer};
pub use pings::pong_hash;
pub use proofs::{CHUNK_SIZE, DuplicateProof};
pub use signing::{SignKind, SignRequest};

use active::ActiveSet;
use config::{CHECKED_MAX, FAILED_MS, HELD_MAX, HOSTS_MAX, PULL_MS, PURGE_MS, PURGED_MS, STEP_MS};
use own::OwnSlots;
use pings::{Node, Pings};
use proofs::Proofs;
use pull::{Budget, Parts};
pub(crate) use random::Random;
use received::Received;
use signing::{Purpose, Signing};
use stakes::Stakes;
use table::Table;

/// Events that are kept until somebody takes them.
const EVENTS_MAX: usize = 1_024;

/// Something that the node must know at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another process runs with this node's key, and began later: this one must stop.
    DuplicateInstance {
        /// When it began, µs of Unix time.
        outset: u64,
    },
    /// Somebody says that a leader made two blocks for a slot; to be checked, and marked by
    /// [`Gossip::mark_duplicate`] if it is true.
    DuplicateProof(DuplicateProof),
}

/// How much there is of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes of which there are values.
    pub nodes: usize,
    /// Values.
    pub values: usize,
    /// Their bytes.
    pub value_bytes: usize,
    /// Hashes of values that were replaced or refused.
    pub hashes: usize,
    /// Pings that wait for an answer.
    pub pings: usize,
    /// Nodes at addresses that have answered.
    pub pongs: usize,
    /// Proofs that are not whole yet.
    pub proofs: usize,
    /// What waits for this node's signature.
    pub unsigned: usize,
}

/// When what is due, ms of Unix time, which can be set back: see [`Gossip::look_at_clock`].
struct Timers {
    refresh: u64,
    rotate: u64,
    pull: u64,
    purge: u64,
    push: u64,
    entrypoint: u64,
    /// When a ping may bring the next refresh forward.
    early: u64,
}

impl Timers {
    /// All is due.
    fn new(now: u64) -> Self {
        Self { refresh: now, rotate: now, pull: now, purge: now, push: now, entrypoint: now, early: now }
    }
}

/// A node's part in gossip.
pub struct Gossip {
    config: Config,
    own: ContactInfo,
    stakes: Stakes,
    table: Table,
    pings: Pings,
    verifier: Verifier,
    active: ActiveSet,
    received: Received,
    /// Hashes of values in answers that were not taken.
    failed: VecDeque<(Hash, u64)>,
    parts: Parts,
    /// Values whose signature was right, though the table may not have them: callers of pull requests, who ask with
    /// eight filters at a time, and nodes that have not answered yet.
    checked: Bounded<Hash, ()>,
    /// Contact infos with a right signature of nodes that have not answered yet. The cluster's nodes drop these.
    held: Bounded<Node, Box<[u8]>>,
    scans: Bounded<Ipv4Addr, Budget>,
    answers: Budget,
    proofs: Proofs,
    own_slots: OwnSlots,
    signing: Signing,
    timers: Timers,
    /// The latest time that the clock has shown, since it was set back.
    latest: u64,
    push_cursor: u64,
    random: Random,
    counters: Counters,
    events: VecDeque<Event>,
    /// When the latest other process with this key began, as far as it was told; else when this one did.
    instance: u64,
}

// Whichever core runs the tile may have it.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Gossip>();
};

impl Gossip {
    /// A node that knows nobody. `own` has its key, its sockets, its version, its shred version and when it began.
    /// `seed` must be one that peers cannot guess; `now` is when gossip begins.
    pub fn new(config: Config, own: ContactInfo, seed: [u8; 32], now: u64) -> Self {
        let verifier = VerifierConfig { cache_bytes: config.verifier_bytes_max, ..VerifierConfig::default() };
        Self {
            own,
            stakes: Stakes::default(),
            table: Table::default(),
            pings: Pings::new(),
            verifier: Verifier::new(verifier),
            active: ActiveSet::new(own.pubkey),
            received: Received::new(),
            failed: VecDeque::new(),
            parts: Parts::default(),
            checked: Bounded::new(CHECKED_MAX),
            held: Bounded::new(HELD_MAX),
            scans: Bounded::new(HOSTS_MAX),
            answers: Budget::full(now),
            proofs: Proofs::default(),
            own_slots: OwnSlots::default(),
            signing: Signing::default(),
            timers: Timers::new(now),
            latest: now,
            push_cursor: 0,
            random: Random::new(seed),
            counters: Counters::default(),
            events: VecDeque::new(),
            instance: own.outset,
            config,
        }
    }

    /// Sets who has how much stake, in lamports by node, and how long an epoch is, ms (the cluster counts 400 ms a
    /// slot, whatever the slot's time is).
    pub fn set_stakes(&mut self, stakes: HashMap<Pubkey, u64>, epoch_ms: u64) {
        self.stakes = Stakes::new(stakes, epoch_ms);
        self.table.touch_peers();
    }

    /// Does what is due: has the own contact info signed anew, asks for what is missing, pushes what is new, drops what
    /// ran out. A clock that was set back is noticed here, whatever [`Self::next_tick`] said by the old one.
    pub fn tick(&mut self, now: u64, out: &mut Outbox) {
        self.look_at_clock(now);
        if now >= self.timers.refresh {
            self.timers.refresh = now + REFRESH_MS;
            self.refresh(now);
        }
        if now >= self.timers.purge {
            self.timers.purge = now + PURGE_MS;
            self.purge(now);
        }
        if now >= self.timers.pull {
            self.timers.pull = now + PULL_MS;
            self.pull(now);
        }
        if now >= self.timers.push && self.push_cursor < self.table.next_ordinal() {
            self.timers.push = now + PUSH_MS;
            self.push(now, out);
        }
    }

    /// Where the clock was set back, all that waits for a time of the old one would wait as long as the step: it is due
    /// at once, nothing came later than now, and what this node has signed for later than others take is signed anew.
    fn look_at_clock(&mut self, now: u64) {
        if now.saturating_add(STEP_MS) >= self.latest {
            self.latest = self.latest.max(now);
            return;
        }
        self.counters.clock_set_back += 1;
        self.latest = now;
        self.timers = Timers::new(now);
        self.pings.set_back(now);
        self.table.set_back(now, &self.own.pubkey);
        self.failed.iter_mut().for_each(|(_, at)| *at = now.min(*at));
        self.sign_anew(now);
    }

    /// When [`Self::tick`] has something to do next, as things are, ms.
    pub fn next_tick(&self) -> u64 {
        let timers = &self.timers;
        let push = if self.push_cursor < self.table.next_ordinal() { timers.push } else { u64::MAX };
        timers.refresh.min(timers.purge).min(timers.pull).min(push)
    }

    fn purge(&mut self, now: u64) {
        self.counters.unsigned_late += self.signing.expire(now);
        let (own, stakes) = (self.own.pubkey, &self.stakes);
        let timeout = |pubkey: &Pubkey| if *pubkey == own { u64::MAX } else { stakes.timeout(pubkey) };
        self.counters.values_purged += self.table.purge(now, timeout);
        let Config { origins_max: nodes, table_bytes_max: bytes, .. } = self.config;
        if self.table.origins().len() > nodes + nodes / 10 || self.table.bytes() > bytes {
            let trimmed = self.table.trim(nodes, bytes - bytes / 10, &own, |pubkey| stakes.of(pubkey), now);
            self.counters.values_trimmed += trimmed;
        }
        self.table.trim_purged(now.saturating_sub(PURGED_MS));
        while self.failed.front().is_some_and(|(_, at)| *at < now.saturating_sub(FAILED_MS)) {
            self.failed.pop_front();
        }
    }

    /// Whether a node has shown to be at an address; asks it if it is time to.
    fn is_verified(&mut self, node: Node, now: u64) -> bool {
        let (is_verified, token) = self.pings.check(node, now, &mut self.random);
        if let Some(token) = token {
            self.have_signed(now, Purpose::Ping(node.1), token.to_vec());
        }
        is_verified
    }

    fn event(&mut self, event: Event) {
        if self.events.len() >= EVENTS_MAX {
            self.counters.events_lost += 1;
        } else {
            self.events.push_back(event);
        }
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What came, went, and was dropped.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What is kept.
    pub fn sizes(&self) -> Sizes {
        let (pings, pongs) = self.pings.len();
        Sizes {
            nodes: self.table.origins().len(),
            values: self.table.len(),
            value_bytes: self.table.bytes(),
            hashes: self.table.purged().len() + self.failed.len(),
            pings,
            pongs,
            proofs: self.proofs.len(),
            unsigned: self.signing.len(),
        }
    }

    /// Where a node takes gossip, if something may be sent there.
    fn gossip_address(&self, contact: &ContactInfo) -> Option<std::net::SocketAddrV4> {
        contact.socket(SocketKind::Gossip).filter(|address| self.config.is_allowed(address))
    }
}

#[cfg(test)]
mod tests;
