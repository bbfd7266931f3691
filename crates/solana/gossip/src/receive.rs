//! Receives datagrams: each is parsed, checked against the cluster's rules, and processed or counted.
//!
//! reads   datagrams
//! writes  values into the table; responses; pongs, pings and prunes to be signed
//! memory  during a call, the values of one datagram
//! drops   see [`super::Counters`]
//! source  `solana-gossip` 4.2.2, `cluster_info.rs`
//!
//! Cheap checks come first: a value that is known, older than the known one, or refused for its time, shred version or
//! node costs a hash and no signature verification.

use std::collections::BTreeSet;
use std::net::{SocketAddr, SocketAddrV4};

use hearth_crypto::ed25519::VerifyItem;
use hearth_crypto::sha256::sha256;
use hearth_wire::gossip::{ContactInfo, CrdsData, CrdsKind, CrdsValue, GossipErrorKind, Ping, Pong, Protocol};
use hearth_wire::{Hash, Pubkey};

use super::config::{ACTIVE_SET, AFTER_PING_MS, REFRESH_MS, TIMEOUT_MS};
use super::pings::Node;
use super::signing::Purpose;
use super::stakes::Direction;
use super::table::{InsertResult, Route, remember};
use super::{Event, Gossip, Outbox};

/// A received value that has not been refused yet.
struct Incoming<'a> {
    value: CrdsValue<'a>,
    hash: Hash,
    /// Whether the table has it, which implies a verified signature.
    is_known: bool,
}

/// The count for a value older than the known one.
const LATE: u32 = u32::MAX;

impl Gossip {
    /// Processes a datagram, and adds to `out` the replies that need no signature.
    pub fn receive(&mut self, now: u64, from: SocketAddr, datagram: &[u8], out: &mut Outbox) {
        self.counters.datagrams += 1;
        let from = match from {
            SocketAddr::V4(from) if self.config.is_allowed(&from) => from,
            _ => return self.counters.source_refused += 1,
        };
        let message = match Protocol::parse(datagram) {
            Ok(message) => message,
            Err(error) => return self.count_malformed(error.kind),
        };
        match message {
            Protocol::PullRequest { filter, caller } => self.on_pull_request(now, from, &filter, &caller, out),
            Protocol::PullResponse { from: sender, values } => {
                self.counters.pull_responses_received += 1;
                self.on_values(now, sender, values, Route::Answer);
            }
            Protocol::Push { from: sender, values } => {
                self.counters.pushes_received += 1;
                self.on_values(now, sender, values, Route::Push);
            }
            Protocol::Prune(data) => self.on_prune(now, &data),
            Protocol::Ping(ping) => self.on_ping(now, from, &ping),
            Protocol::Pong(pong) => self.on_pong(now, from, &pong),
        }
    }

    fn count_malformed(&mut self, kind: GossipErrorKind) {
        match kind {
            GossipErrorKind::Deprecated => self.counters.deprecated_kind += 1,
            GossipErrorKind::Mask => self.counters.coarse_filter += 1,
            _ => self.counters.malformed += 1,
        }
    }

    fn on_ping(&mut self, now: u64, from: SocketAddrV4, ping: &Ping) {
        self.counters.pings_received += 1;
        if self.verifier.verify(&ping.from, &ping.signature, &ping.token).is_err() {
            self.counters.bad_signature += 1;
            return;
        }
        self.have_signed(now, Purpose::Pong(from), ping.token.to_vec());
        // The sender of a ping may have dropped our contact info because the answer was missing: it is sent again soon,
        // but pings make this at most twice as frequent as without them.
        if now >= self.timers.early {
            self.timers.early = now + REFRESH_MS;
            self.timers.refresh = self.timers.refresh.min(now + AFTER_PING_MS);
        }
    }

    fn on_pong(&mut self, now: u64, from: SocketAddrV4, pong: &Pong) {
        let node = (pong.from, from);
        if !self.pings.expects(&node, &pong.hash) {
            self.counters.pongs_unexpected += 1;
        } else if self.verifier.verify(&pong.from, &pong.signature, &pong.hash).is_err() {
            self.counters.bad_signature += 1;
        } else {
            self.counters.pongs_received += 1;
            self.pings.answer(node, now);
            self.let_in(now, node);
        }
    }

    /// Accepts the pending contact info of a node that has answered a ping.
    fn let_in(&mut self, now: u64, node: Node) {
        let Some(bytes) = self.held.remove(&node) else { return };
        let Ok(value) = CrdsValue::parse(&bytes) else { return };
        let incoming = Incoming { value, hash: sha256(&[&bytes]), is_known: false };
        match self.accept(now, &incoming, Route::Answer) {
            Some(InsertResult::New) => self.counters.values_new += 1,
            Some(InsertResult::Duplicate(_)) => self.counters.values_duplicate += 1,
            Some(InsertResult::Stale) => self.counters.values_stale += 1,
            None => {}
        }
    }

    fn on_values(&mut self, now: u64, sender: Pubkey, values: Vec<CrdsValue<'_>>, route: Route) {
        self.counters.values_received += values.len() as u64;
        let mut kept: Vec<Incoming<'_>> = Vec::with_capacity(values.len());
        for value in values {
            let hash = sha256(&[value.bytes()]);
            let is_known = self.table.get(&value.label()).is_some_and(|entry| entry.hash == hash);
            if is_known || self.is_worth_a_check(now, &value, &hash, &kept, sender, route) {
                kept.push(Incoming { value, hash, is_known });
            }
        }
        if !self.are_signed(&kept) {
            self.counters.bad_signature += 1;
            return;
        }
        let mut origins = BTreeSet::new();
        for incoming in &kept {
            let origin = incoming.value.label().pubkey;
            match self.accept(now, incoming, route) {
                Some(InsertResult::New) => {
                    self.counters.values_new += 1;
                    if route == Route::Push {
                        self.received.record(origin, sender, 0);
                        origins.insert(origin);
                    }
                }
                Some(InsertResult::Duplicate(pushes)) => {
                    self.counters.values_duplicate += 1;
                    if route == Route::Push {
                        self.received.record(origin, sender, u32::from(pushes));
                    }
                }
                Some(InsertResult::Stale) => self.counters.values_stale += 1,
                None => {}
            }
        }
        self.send_prunes(now, &origins);
    }

    /// Whether everything except the signature is in order.
    fn is_worth_a_check(
        &mut self,
        now: u64,
        value: &CrdsValue<'_>,
        hash: &Hash,
        before: &[Incoming<'_>],
        sender: Pubkey,
        route: Route,
    ) -> bool {
        let label = value.label();
        let counter = match value.data() {
            CrdsData::Restart(_) => &mut self.counters.values_unused_kind,
            _ if !self.stakes.passes(&label.pubkey, label.kind, Direction::In) => &mut self.counters.values_stake,
            _ if route == Route::Push && now.abs_diff(value.wallclock()) > TIMEOUT_MS => {
                &mut self.counters.values_wallclock
            }
            CrdsData::ContactInfo(contact) if contact.shred_version != self.own.shred_version => {
                &mut self.counters.values_shred_version
            }
            _ if label.kind != CrdsKind::ContactInfo && !self.is_origin(&label.pubkey, before) => {
                &mut self.counters.values_unknown_origin
            }
            _ if !self.table.upserts(value, hash) => {
                match route {
                    Route::Push => self.received.record(label.pubkey, sender, LATE),
                    _ => remember(&mut self.failed, *hash, now),
                }
                &mut self.counters.values_stale
            }
            _ => return true,
        };
        *counter += 1;
        false
    }

    /// Whether the table has values of a node, or its contact info is in the same datagram.
    fn is_origin(&self, pubkey: &Pubkey, before: &[Incoming<'_>]) -> bool {
        let is_its_contact = |incoming: &Incoming<'_>| {
            let label = incoming.value.label();
            label.kind == CrdsKind::ContactInfo && label.pubkey == *pubkey
        };
        self.table.origins().contains_key(pubkey) || before.iter().any(is_its_contact)
    }

    /// Whether every unknown value has a valid signature of its node.
    fn are_signed(&mut self, incoming: &[Incoming<'_>]) -> bool {
        let labels: Vec<Pubkey> = incoming.iter().map(|incoming| incoming.value.label().pubkey).collect();
        let items: Vec<VerifyItem<'_>> = incoming
            .iter()
            .zip(&labels)
            .filter(|(incoming, _)| !incoming.is_known && self.checked.get(&incoming.hash).is_none())
            .map(|(Incoming { value, .. }, public_key)| VerifyItem {
                public_key,
                signature: value.signature(),
                message: value.signed(),
            })
            .collect();
        if items.is_empty() {
            return true;
        }
        let mut verdicts = Vec::with_capacity(items.len());
        self.verifier.verify_burst(&items, &mut verdicts);
        let are_right = verdicts.iter().all(Result::is_ok);
        if are_right {
            let contacts = |incoming: &&Incoming<'_>| incoming.value.label().kind == CrdsKind::ContactInfo;
            for incoming in incoming.iter().filter(contacts) {
                self.checked.set(incoming.hash, ());
            }
        }
        are_right
    }

    /// Inserts a value with a verified signature if the remaining checks pass; `None` if it is dropped.
    fn accept(&mut self, now: u64, incoming: &Incoming<'_>, route: Route) -> Option<InsertResult> {
        let Incoming { value, hash, is_known } = incoming;
        let pubkey = value.label().pubkey;
        let is_own = pubkey == self.own.pubkey;
        if *is_known {
            return Some(self.table.insert(value, *hash, now, route));
        }
        match value.data() {
            CrdsData::ContactInfo(contact) if is_own && contact.outset > self.own.outset => {
                self.counters.duplicate_instance += 1;
                if contact.outset > self.instance {
                    self.instance = contact.outset;
                    self.event(Event::DuplicateInstance { outset: contact.outset });
                }
                return None;
            }
            // An echo from before the clock was set back: what is signed now would count as older.
            _ if is_own && value.wallclock() > now.saturating_add(TIMEOUT_MS) => {
                self.counters.values_timeout += 1;
                return None;
            }
            CrdsData::ContactInfo(contact) if !is_own && !self.may_enter(now, contact, value.bytes()) => {
                return None;
            }
            _ if !self.is_origin(&pubkey, &[]) && value.label().kind != CrdsKind::ContactInfo => {
                self.counters.values_unknown_origin += 1;
                return None;
            }
            _ => {}
        }
        let is_active = is_own || now <= value.wallclock().saturating_add(self.stakes.timeout(&pubkey));
        if route == Route::Answer && !is_active && self.table.contact(&pubkey).is_none() {
            self.counters.values_timeout += 1;
            remember(&mut self.failed, *hash, now);
            return None;
        }
        if !is_own && !self.has_room(value) {
            self.counters.values_origin_full += 1;
            return None;
        }
        let is_newcomer =
            !is_own && value.label().kind == CrdsKind::ContactInfo && self.table.contact(&pubkey).is_none();
        let inserted = self.table.insert(value, *hash, now, route);
        if inserted == InsertResult::New {
            if is_newcomer && self.active.has_room(ACTIVE_SET, &self.stakes) {
                // As long as few nodes are known, a new one gets what this node publishes at once.
                self.timers.pull = self.timers.pull.min(now);
            }
            if route == Route::Answer && is_active {
                self.table.touch(&pubkey, now);
            }
            self.collect(value);
        }
        Some(inserted)
    }

    /// Whether a node's address is verified, and has not too many nodes.
    fn may_enter(&mut self, now: u64, contact: &ContactInfo, bytes: &[u8]) -> bool {
        let Some(address) = self.gossip_address(contact) else {
            self.counters.values_gossip_address += 1;
            return false;
        };
        let known = self.table.contact(&contact.pubkey).and_then(|known| self.gossip_address(known));
        let is_there = known.is_some_and(|known| known.ip() == address.ip());
        let is_full = self.table.nodes_at(address.ip()) >= self.config.unstaked_per_host_max;
        if is_full && !is_there && self.stakes.of(&contact.pubkey) == 0 {
            self.counters.values_host_full += 1;
            return false;
        }
        let is_verified = self.is_verified((contact.pubkey, address), now);
        if !is_verified {
            self.counters.values_unverified += 1;
            self.held.set((contact.pubkey, address), bytes.into());
        }
        is_verified
    }

    /// Whether a value fits into the bytes allowed for its node, without the one that it replaces.
    fn has_room(&self, value: &CrdsValue<'_>) -> bool {
        let label = value.label();
        let is_rich = !self.stakes.is_any() || self.stakes.of(&label.pubkey) > 0;
        let max = if is_rich { self.config.origin_bytes_max } else { self.config.unstaked_origin_bytes_max };
        let taken = self.table.origins().get(&label.pubkey).map_or(0, |origin| origin.bytes);
        let replaced = self.table.get(&label).map_or(0, |entry| entry.bytes.len());
        label.kind == CrdsKind::ContactInfo || taken - replaced + value.bytes().len() <= max
    }

    /// Adds a piece of a duplicate proof.
    fn collect(&mut self, value: &CrdsValue<'_>) {
        if let CrdsData::DuplicateShred(piece) = value.data() {
            match self.proofs.add(piece, &self.stakes) {
                Ok(Some(proof)) => self.event(Event::DuplicateProof(proof)),
                Ok(None) => {}
                Err(_) => self.counters.proof_pieces_refused += 1,
            }
        }
    }
}
