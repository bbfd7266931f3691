//! Gossip: the cluster's nodes, and the values that each publishes.
//!
//! reads   datagrams with their senders' addresses; the time in Unix milliseconds; this node's own values
//! writes  datagrams with their destinations; contact infos, votes and the rest of the table
//! memory  bounded by [`Config`] and the constants; [`Gossip::sizes`] reports the current use
//! drops   what breaks a rule: each has a counter in [`Counters`]
//! source  `solana-gossip` 4.2.2; `docs/cluster-protocol.md`, section 4; `docs/gossip.md`
//!
//! This is a state machine: no socket, no clock, no thread, and no key. The gossip tile calls [`Gossip::receive`] for
//! each datagram and [`Gossip::tick`] at [`Gossip::next_tick`], has the requests of [`Gossip::next_request`] signed,
//! and sends the contents of the [`Outbox`]. The same calls with the same seed produce the same datagrams.

mod active_set;
pub mod board;
mod bounded;
mod config;
mod counters;
pub mod duplicate;
mod local;
mod outbox;
mod peers;
mod pings;
mod proofs;
mod pull;
mod push;
mod random;
mod receive;
mod received_cache;
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

use active_set::ActiveSet;
use config::{CHECKED_MAX, FAILED_MS, HELD_MAX, HOSTS_MAX, PULL_MS, PURGE_MS, PURGED_MS, STEP_MS};
use local::OwnSlots;
use pings::{Node, Pings};
use proofs::Proofs;
use pull::{Budget, Parts};
pub(crate) use random::Random;
use received_cache::ReceivedCache;
use signing::{Purpose, SignatureRequests};
use stakes::Stakes;
use table::Table;

/// Maximum events that are kept until they are taken.
const EVENTS_MAX: usize = 1_024;

/// An event that the node must handle at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another process with this node's key started later, so this one must stop.
    DuplicateInstance {
        /// Its start time in Unix microseconds.
        outset: u64,
    },
    /// A node claims that a leader produced two blocks for a slot. To be checked, and marked by
    /// [`Gossip::mark_duplicate`] if it is true.
    DuplicateProof(DuplicateProof),
}

/// The current sizes of gossip's collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes of which the table holds at least one value.
    pub nodes: usize,
    /// CRDS values in the table.
    pub values: usize,
    /// Bytes of the values.
    pub value_bytes: usize,
    /// Hashes of replaced or refused values.
    pub hashes: usize,
    /// Pings that wait for an answer.
    pub pings: usize,
    /// Nodes at verified addresses.
    pub pongs: usize,
    /// Duplicate proofs above the root of which chunks have arrived, complete ones included.
    pub proofs: usize,
    /// Requests for this node's signature.
    pub unsigned: usize,
}

/// Deadlines in Unix milliseconds. The clock may be set back: see [`Gossip::look_at_clock`].
struct Timers {
    refresh: u64,
    rotate: u64,
    pull: u64,
    purge: u64,
    push: u64,
    entrypoint: u64,
    /// How long after the last question to an entrypoint that follows.
    entrypoint_pause: u64,
    /// When a ping may bring the next refresh forward.
    early: u64,
}

impl Timers {
    /// Everything is due now.
    fn new(now: u64) -> Self {
        let entrypoint_pause = PULL_MS;
        Self {
            refresh: now,
            rotate: now,
            pull: now,
            purge: now,
            push: now,
            entrypoint: now,
            entrypoint_pause,
            early: now,
        }
    }
}

/// A node's gossip state.
pub struct Gossip {
    config: Config,
    own: ContactInfo,
    stakes: Stakes,
    table: Table,
    pings: Pings,
    verifier: Verifier,
    active: ActiveSet,
    received: ReceivedCache,
    /// Hashes of refused values in pull responses.
    failed: VecDeque<(Hash, u64)>,
    parts: Parts,
    /// Hashes of values with verified signatures that the table may lack: of callers, who send eight pull requests at a
    /// time, and of nodes that have not answered a ping yet.
    checked: Bounded<Hash, ()>,
    /// Signed contact infos of nodes that have not answered a ping yet. The cluster's nodes drop these.
    held: Bounded<Node, Box<[u8]>>,
    scans: Bounded<Ipv4Addr, Budget>,
    answers: Budget,
    proofs: Proofs,
    own_slots: OwnSlots,
    signing: SignatureRequests,
    timers: Timers,
    /// The latest time that the clock has shown since it was last set back.
    latest: u64,
    push_cursor: u64,
    random: Random,
    counters: Counters,
    events: VecDeque<Event>,
    /// The start time of the newest known process with this key: another one's, or our own.
    instance: u64,
}

// The tile may run on any core.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Gossip>();
};

impl Gossip {
    /// A node that knows no other. `own` has its key, sockets, version, shred version and start time. `seed` must be
    /// unpredictable for peers; `now` is the current time.
    pub fn new(config: Config, own: ContactInfo, seed: [u8; 32], now: u64) -> Self {
        let verifier = VerifierConfig { cache_bytes: config.verifier_bytes_max, ..VerifierConfig::default() };
        Self {
            own,
            stakes: Stakes::default(),
            table: Table::default(),
            pings: Pings::new(),
            verifier: Verifier::new(verifier),
            active: ActiveSet::new(own.pubkey),
            received: ReceivedCache::new(),
            failed: VecDeque::new(),
            parts: Parts::default(),
            checked: Bounded::new(CHECKED_MAX),
            held: Bounded::new(HELD_MAX),
            scans: Bounded::new(HOSTS_MAX),
            answers: Budget::full(now),
            proofs: Proofs::default(),
            own_slots: OwnSlots::default(),
            signing: SignatureRequests::default(),
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

    /// Sets the stakes in lamports by node, and the length of an epoch in ms (the cluster assumes 400 ms per slot,
    /// whatever the slot's duration is).
    pub fn set_stakes(&mut self, stakes: HashMap<Pubkey, u64>, epoch_ms: u64) {
        self.stakes = Stakes::new(stakes, epoch_ms);
        self.table.touch_peers();
    }

    /// Does all due work: refreshes our own contact info, pulls, pushes new values, drops expired ones. A clock that
    /// was set back is noticed here, whatever [`Self::next_tick`] returned for the old one.
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

    /// After the clock was set back, all deadlines of the old time would be late by that step. So everything is due at
    /// once, arrival times are clamped to now, and own values signed too far in the future are signed again.
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

    /// When [`Self::tick`] next has work, in ms.
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

    /// Whether a node's address is verified; sends a ping if one is due.
    fn is_verified(&mut self, node: Node, now: u64) -> bool {
        let (is_verified, token) = self.pings.check(node, now, &mut self.random);
        if let Some(token) = token {
            self.have_signed(now, Purpose::Ping(node.1), token.to_vec());
        }
        is_verified || self.config.trusts_addresses
    }

    fn event(&mut self, event: Event) {
        if self.events.len() >= EVENTS_MAX {
            self.counters.events_lost += 1;
        } else {
            self.events.push_back(event);
        }
    }

    /// Takes the next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Counters of received, sent and dropped messages.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many entries each of gossip's collections holds now.
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

    /// The gossip address of a node, if it may be used.
    fn gossip_address(&self, contact: &ContactInfo) -> Option<std::net::SocketAddrV4> {
        contact.socket(SocketKind::Gossip).filter(|address| self.config.is_allowed(address))
    }
}

#[cfg(test)]
mod tests;
