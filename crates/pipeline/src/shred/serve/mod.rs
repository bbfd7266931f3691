//! serve: repair's server: shreds for nodes that lack them.
//!
//! reads   requests; the block store; which blocks are confirmed
//! writes  shreds, hashes of confirmed blocks, and pings to who has not shown to be where it says
//! memory  [`NODES_MAX`] nodes, 150 B each, twice; budgets of hosts (budget.rs), twice; the shelf's, 34 MiB (shelf.rs)
//! drops   what is no request, is not for this node, is of another time or has a wrong signature; what there is no
//!         budget for; nodes that have to make room: each is counted in [`Counts`]
//! source  `solana-core` 4.2.2, `repair/serve_repair.rs`; `docs/cluster-protocol.md`, section 3
//!
//! An address is sent nothing larger than what it sent before it has answered a ping, so nobody is flooded on
//! another's word. What one host has, with however many keys, is bounded; of what is too much the oldest goes. What is
//! read for a request is paid for like what is sent, whether it is answered or not; and one host leaves half of both to
//! others.

mod budget;
mod shelf;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hearth_cluster::gossip::{Bounded, pong_hash};
use hearth_cluster::view::Views;
use hearth_crypto::ed25519::{SigningKey, Verifier, VerifierConfig};
use hearth_ledger::blockstore::Reader;
use hearth_wire::gossip::Ping;
use hearth_wire::repair::{self, AncestorHashes, Asked, Request, Wanted};
use hearth_wire::{Hash, Pubkey, Signature};

use budget::{Budget, NoBudget, Payer};
use shelf::Shelf;

/// Bytes for the tables of keys that ask again and again.
const TABLE_BYTES: usize = 4 << 20;
/// How far a request's time may be from ours, ms.
const TIME_MS: u64 = 600_000;
/// For how long a pong counts, ms.
const PONG_MS: u64 = 1_280_000;
/// The least time between two pings to a node, ms.
const PING_MS: u64 = 2_000;
/// Nodes that are remembered: those that were pinged, and those that have answered.
const NODES_MAX: usize = 65_536;
/// Nodes at one IP address that have answered.
const NODES_PER_HOST_MAX: usize = 256;
/// Bytes a second that are sent.
const SENT_PER_S: u64 = 12_000_000;
/// Bytes a second that are read of the store.
const READ_PER_S: u64 = 128_000_000;
/// How many ancestors an orphan is answered with.
const ANCESTORS: usize = 11;

hearth_tile::counters! {
    /// What became of datagrams.
    pub struct Counts {
        /// Shreds that repair's server sent.
        served: Counter,
        /// Questions for hashes of ancestors that repair's server answered, with none where the slot is not confirmed.
        served_ancestors: Counter,
        /// Requests for shreds that are not here.
        not_found: Counter,
        /// Datagrams that are no request.
        malformed: Counter,
        /// Requests for another node, or of this one.
        misdirected: Counter,
        /// Requests of another time.
        out_of_time: Counter,
        /// Requests and pongs with a wrong signature, or that answer nothing.
        bad_signature: Counter,
        /// Requests not served, as their sender has not shown to be at its address; it was sent a ping, now or a
        /// moment ago.
        unproved: Counter,
        /// Requests beyond the bytes that may be sent, or read for them.
        over_budget: Counter,
        /// Nodes forgotten that had shown to be at their addresses, since their host had too many.
        crowded_out: Counter,
        /// Datagrams the kernel dropped because the socket's buffer was full.
        dropped_by_kernel: Counter,
        /// Bytes of the block store read for requests.
        read_bytes: Counter,
    }
}

/// A node at an address.
type Node = (Pubkey, SocketAddr);

/// The server's state, without its socket.
pub struct Server {
    key: SigningKey,
    own: Pubkey,
    verifier: Verifier,
    /// Who has answered a ping, and when.
    proved: Bounded<Node, u64>,
    /// The nodes of a host that have, the oldest first.
    hosts: Bounded<IpAddr, VecDeque<Node>>,
    pinged: Bounded<Node, (u64, Hash)>,
    shelf: Shelf,
    views: Arc<Views>,
    sent: Budget,
    /// What became of datagrams.
    pub counts: Counts,
}

impl Server {
    /// Serves what `reader` has, and tells which blocks are confirmed.
    pub fn new(key: SigningKey, shred_version: u16, reader: Reader, views: Arc<Views>) -> Self {
        Self {
            own: key.public_key(),
            key,
            verifier: Verifier::new(VerifierConfig { cache_bytes: TABLE_BYTES, ..VerifierConfig::default() }),
            proved: Bounded::new(NODES_MAX),
            hosts: Bounded::new(NODES_MAX),
            pinged: Bounded::new(NODES_MAX),
            shelf: Shelf::new(shred_version, reader, Budget::new(READ_PER_S)),
            views,
            sent: Budget::new(SENT_PER_S),
            counts: Counts::default(),
        }
    }

    /// The answers to a datagram that came at `now`, ms of Unix time, each to whoever sent it.
    pub fn answer(&mut self, from: SocketAddr, datagram: &[u8], now: u64) -> Vec<Vec<u8>> {
        match Asked::parse(datagram) {
            Err(_) => self.counts.malformed += 1,
            Ok(Asked::Pong(pong)) => {
                let node = (pong.from, from);
                let is_awaited = self.pinged.get(&node).is_some_and(|(_, hash)| *hash == pong.hash);
                if is_awaited && self.verifier.verify(&pong.from, &pong.signature, &pong.hash).is_ok() {
                    self.pinged.remove(&node);
                    self.prove(node, now);
                } else {
                    self.counts.bad_signature += 1;
                }
            }
            Ok(Asked::Request(request, signature)) => return self.request(from, &request, &signature, datagram, now),
        }
        vec![]
    }

    /// A node has shown to be at its address.
    fn prove(&mut self, node: Node, now: u64) {
        let of_host = self.hosts.entry(node.1.ip(), VecDeque::new);
        of_host.retain(|other| *other != node);
        of_host.push_back(node);
        if of_host.len() > NODES_PER_HOST_MAX
            && let Some(oldest) = of_host.pop_front()
        {
            self.proved.remove(&oldest);
            self.counts.crowded_out += 1;
        }
        self.proved.set(node, now);
    }

    fn request(
        &mut self,
        from: SocketAddr,
        request: &Request,
        signature: &Signature,
        datagram: &[u8],
        now: u64,
    ) -> Vec<Vec<u8>> {
        if request.recipient != self.own || request.sender == self.own {
            self.counts.misdirected += 1;
            return vec![];
        }
        if now.abs_diff(request.time_ms) > TIME_MS {
            self.counts.out_of_time += 1;
            return vec![];
        }
        if self.verifier.verify(&request.sender, signature, &repair::signed_bytes(datagram)).is_err() {
            self.counts.bad_signature += 1;
            return vec![];
        }
        let node = (request.sender, from);
        let age = self.proved.get(&node).map(|at| now.saturating_sub(*at)).filter(|age| *age <= PONG_MS);
        let Some(age) = age else {
            self.counts.unproved += 1;
            return self.ping(node, &request.wanted, now).into_iter().collect();
        };
        let mut answers = match request.wanted {
            Wanted::Ancestors { slot } => {
                self.confirmed(slot, request.nonce, Payer { host: from.ip(), now }).into_iter().collect()
            }
            _ => self.shreds(request, Payer { host: from.ip(), now }),
        };
        if age > PONG_MS / 4 {
            // So that it need not be asked when it counts no more.
            answers.extend(self.ping(node, &request.wanted, now));
        }
        answers
    }

    /// The answers of a request that may be served.
    fn shreds(&mut self, request: &Request, payer: Payer) -> Vec<Vec<u8>> {
        let shreds = match self.wanted(&request.wanted, payer) {
            Ok(shreds) => shreds,
            Err(NoBudget) => {
                self.counts.over_budget += 1;
                return vec![];
            }
        };
        self.counts.read_bytes = self.shelf.read_bytes;
        if shreds.is_empty() {
            self.counts.not_found += 1;
        }
        let mut answers = vec![];
        for mut shred in shreds {
            shred.extend_from_slice(&request.nonce.to_le_bytes());
            if self.sent.pay(shred.len() as u64, payer).is_err() {
                self.counts.over_budget += 1;
                break;
            }
            self.counts.served += 1;
            answers.push(shred);
        }
        answers
    }

    /// The answer to a question for hashes of ancestors.
    fn confirmed(&mut self, slot: u64, nonce: u32, payer: Payer) -> Option<Vec<u8>> {
        let answer = AncestorHashes::Hashes(self.views.confirmed.ancestors(slot), nonce).write();
        let is_paid = self.sent.pay(answer.len() as u64, payer).is_ok();
        let count = if is_paid { &mut self.counts.served_ancestors } else { &mut self.counts.over_budget };
        *count += 1;
        is_paid.then_some(answer)
    }

    /// A ping in the form in which the asker expects one there.
    fn ping(&mut self, node: Node, wanted: &Wanted, now: u64) -> Option<Vec<u8>> {
        if self.pinged.get(&node).is_some_and(|(at, _)| now < at + PING_MS) {
            return None;
        }
        // Nobody may guess one from another: who can answers for addresses that are not its own.
        let mut token = [0; 32];
        hearth_tile::sys::random::fill(&mut token[..8]);
        self.pinged.set(node, (now, pong_hash(&token)));
        let ping = Ping { from: self.own, token, signature: self.key.sign(&token) };
        Some(match wanted {
            Wanted::Ancestors { .. } => AncestorHashes::Ping(ping).write(),
            _ => repair::write_ping(&ping),
        })
    }

    fn wanted(&mut self, wanted: &Wanted, payer: Payer) -> Result<Vec<Vec<u8>>, NoBudget> {
        let found = match *wanted {
            Wanted::Shred { slot, index } => self.shelf.shred(slot, index, payer)?,
            Wanted::Highest { slot, from } => self.highest(slot, from, payer)?,
            Wanted::Orphan { slot } => return self.ancestors(slot, payer),
            Wanted::Ancestors { .. } => None,
        };
        Ok(found.into_iter().collect())
    }

    /// The highest shred of a slot, from an index on.
    fn highest(&mut self, slot: u64, from: u32, payer: Payer) -> Result<Option<Vec<u8>>, NoBudget> {
        match self.shelf.highest(slot, payer)?.filter(|highest| *highest >= from) {
            Some(highest) => self.shelf.shred(slot, highest, payer),
            None => Ok(None),
        }
    }

    /// The highest shreds of a slot, its parent, and so on.
    fn ancestors(&mut self, slot: u64, payer: Payer) -> Result<Vec<Vec<u8>>, NoBudget> {
        let (mut found, mut next) = (vec![], Some(slot));
        while let Some(slot) = next.filter(|_| found.len() < ANCESTORS) {
            let shred = self.highest(slot, 0, payer);
            // What was read before the budget ended is paid for.
            if shred.is_err() && !found.is_empty() {
                break;
            }
            let Some(shred) = shred? else { break };
            found.push(shred);
            next = self.shelf.parent(slot).filter(|parent| *parent < slot);
        }
        Ok(found)
    }
}
