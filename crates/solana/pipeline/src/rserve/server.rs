//! The server's state, without sockets and keys: who has proved its address, what it may have, what it is sent.
//!
//! reads   requests and pongs; the block store; which blocks are confirmed
//! writes  shreds, hashes of confirmed blocks, and pings that are to be signed
//! memory  [`NODES_MAX`] nodes that were pinged, and as many that have answered; the nodes of [`HOSTS_MAX`] hosts,
//!         [`NODES_PER_HOST_MAX`] each; budgets of hosts (budget.rs), twice; tables of keys, [`TABLE_BYTES`]; the
//!         shreds (shred_cache.rs): [`memory`] in all
//! drops   what is no request, is not for this node, is of another time or has a wrong signature; what there is no
//!         budget for; nodes that have to make room: each is counted in [`Counters`]
//! source  `solana-core` 4.2.2, `repair/serve_repair.rs`; `docs/cluster-protocol.md`, section 3
//!
//! An address is sent nothing larger than what it sent before it has answered a ping, so nobody is flooded on
//! another's word. What one host has, with however many keys, is bounded; of what is too much the oldest goes. What is
//! read for a request is paid for like what is sent, whether it is answered or not; and one host leaves half of both to
//! others.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use hearth_consensus::BankId;
use hearth_consensus::ancestors::ConfirmedBlocks;
use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_crypto::sha256::sha256;
use hearth_gossip::{Bounded, pong_hash};
use hearth_wire::gossip::Ping;
use hearth_wire::repair::{self, AncestorHashes, Asked, Request, Wanted};
use hearth_wire::{Hash, Pubkey, Signature};

use super::budget::{Budget, NoBudget, Payer};
use super::shred_cache::ShredCache;
use super::{Config, Counters};
use crate::links::ping_token;

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
/// Hosts whose nodes are counted.
const HOSTS_MAX: usize = 1_024;
/// Nodes at one IP address that have answered.
const NODES_PER_HOST_MAX: usize = 256;
/// Bytes a second that are sent.
const SENT_PER_S: u64 = 12_000_000;
/// Bytes a second that are read of the store.
const READ_PER_S: u64 = 128_000_000;
/// How many ancestors an orphan is answered with.
const ANCESTORS: usize = 11;

/// A node at an address.
type Node = (Pubkey, SocketAddr);

/// Answers to one datagram at most: the highest shreds of a slot and its ancestors.
pub(super) const ANSWERS_MAX: usize = ANCESTORS;

/// Bytes that the server takes at most.
pub(super) const fn memory() -> u64 {
    let nodes = Bounded::<Node, u64>::bytes(NODES_MAX) + Bounded::<Node, (u64, Hash)>::bytes(NODES_MAX);
    let of_hosts = (HOSTS_MAX * NODES_PER_HOST_MAX * size_of::<Node>()) as u64;
    let hosts = Bounded::<IpAddr, VecDeque<Node>>::bytes(HOSTS_MAX) + of_hosts;
    nodes + hosts + 2 * Budget::MEMORY + TABLE_BYTES as u64 + ShredCache::MEMORY
}

/// What a datagram is answered with, all of it to whoever sent it.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// [`ANSWERS_MAX`] datagrams at most.
    pub answers: Vec<Vec<u8>>,
    /// A ping, once it is signed.
    pub ping: Option<PingDraft>,
}

/// A ping without its signature.
#[derive(Clone, Copy, Debug)]
pub(super) struct PingDraft {
    /// Where it goes.
    pub to: SocketAddr,
    /// The bytes of its token that are drawn: [`ping_token`].
    pub nonce: [u8; 8],
    /// Whether the asker expects it in the form of an answer about ancestors.
    is_about_ancestors: bool,
}

impl PingDraft {
    /// The datagram.
    pub fn signed(&self, from: Pubkey, signature: Signature) -> Vec<u8> {
        let ping = Ping { from, token: ping_token(&self.nonce), signature };
        if self.is_about_ancestors { AncestorHashes::Ping(ping).write() } else { repair::write_ping(&ping) }
    }
}

/// The server.
pub(super) struct Server {
    own: Pubkey,
    verifier: Verifier,
    /// Who has answered a ping, and when.
    proved: Bounded<Node, u64>,
    /// The nodes of a host that have, the oldest first.
    hosts: Bounded<IpAddr, VecDeque<Node>>,
    pinged: Bounded<Node, (u64, Hash)>,
    /// Of which, and of its number, the token of each ping is made.
    secret: [u8; 32],
    pings_drawn: u64,
    /// A ping can be signed now.
    may_ping: bool,
    shreds: ShredCache,
    confirmed: ConfirmedBlocks,
    sent: Budget,
}

impl Server {
    /// Nobody has asked yet.
    pub fn new(config: &Config, secret: [u8; 32]) -> Self {
        Self {
            own: config.own,
            verifier: Verifier::new(VerifierConfig { cache_bytes: TABLE_BYTES, ..VerifierConfig::default() }),
            proved: Bounded::new(NODES_MAX),
            hosts: Bounded::new(HOSTS_MAX),
            pinged: Bounded::new(NODES_MAX),
            secret,
            pings_drawn: 0,
            may_ping: true,
            shreds: ShredCache::new(config.shred_version, config.blocks.clone(), Budget::new(READ_PER_S)),
            confirmed: ConfirmedBlocks::default(),
            sent: Budget::new(SENT_PER_S),
        }
    }

    /// A block is confirmed; those below it were told before.
    pub fn confirm(&mut self, id: BankId) {
        self.confirmed.push(id);
    }

    /// This node's identity.
    pub fn own(&self) -> Pubkey {
        self.own
    }

    /// Says whether a ping can be signed now; one that cannot is counted, and the node asked again when it asks again.
    pub fn set_may_ping(&mut self, may_ping: bool) {
        self.may_ping = may_ping;
    }

    /// The reply to a datagram that came at `now`, ms of Unix time.
    pub fn answer(&mut self, from: SocketAddr, datagram: &[u8], now: u64, count: &mut Counters) -> Reply {
        match Asked::parse(datagram) {
            Err(_) => count.dropped_malformed += 1,
            Ok(Asked::Pong(pong)) => {
                let node = (pong.from, from);
                let is_awaited = self.pinged.get(&node).is_some_and(|(_, hash)| *hash == pong.hash);
                if is_awaited && self.verifier.verify(&pong.from, &pong.signature, &pong.hash).is_ok() {
                    self.pinged.remove(&node);
                    self.prove(node, now, count);
                } else {
                    count.dropped_signature += 1;
                }
            }
            Ok(Asked::Request(request, signature)) => {
                if self.is_genuine(&request, &signature, datagram, now, count) {
                    return self.serve(from, &request, now, count);
                }
            }
        }
        Reply::default()
    }

    /// A node has shown to be at its address.
    fn prove(&mut self, node: Node, now: u64, count: &mut Counters) {
        let host = node.1.ip();
        if self.hosts.get(&host).is_none()
            && let Some((_, nodes)) = self.hosts.set(host, VecDeque::new())
        {
            for node in &nodes {
                self.proved.remove(node);
            }
            count.evicted_nodes += nodes.len() as u64;
        }
        let of_host = self.hosts.get_mut(&host).expect("what was set last stays");
        of_host.retain(|other| *other != node);
        if of_host.len() >= NODES_PER_HOST_MAX
            && let Some(oldest) = of_host.pop_front()
        {
            self.proved.remove(&oldest);
            count.evicted_nodes += 1;
        }
        of_host.push_back(node);
        self.proved.set(node, now);
    }

    /// Whether a request is for this node, of now, and its sender's.
    fn is_genuine(
        &mut self,
        request: &Request,
        signature: &Signature,
        datagram: &[u8],
        now: u64,
        count: &mut Counters,
    ) -> bool {
        if request.recipient != self.own || request.sender == self.own {
            count.dropped_misdirected += 1;
            return false;
        }
        if now.abs_diff(request.time_ms) > TIME_MS {
            count.dropped_out_of_time += 1;
            return false;
        }
        let is_signed = self.verifier.verify(&request.sender, signature, &repair::signed_bytes(datagram)).is_ok();
        count.dropped_signature += u64::from(!is_signed);
        is_signed
    }

    fn serve(&mut self, from: SocketAddr, request: &Request, now: u64, count: &mut Counters) -> Reply {
        let node = (request.sender, from);
        let age = self.proved.get(&node).map(|at| now.saturating_sub(*at)).filter(|age| *age <= PONG_MS);
        let Some(age) = age else {
            count.dropped_unproved += 1;
            return Reply { answers: vec![], ping: self.ping(node, &request.wanted, now, count) };
        };
        let payer = Payer { host: from.ip(), now };
        let answers = match request.wanted {
            Wanted::Ancestors { slot } => self.confirmed_below(slot, request.nonce, payer, count).into_iter().collect(),
            _ => self.shreds(request, payer, count),
        };
        // So that it need not be asked when its pong counts no more.
        let ping = if age > PONG_MS / 4 { self.ping(node, &request.wanted, now, count) } else { None };
        Reply { answers, ping }
    }

    /// The answers of a request that may be served.
    fn shreds(&mut self, request: &Request, payer: Payer, count: &mut Counters) -> Vec<Vec<u8>> {
        let shreds = match self.wanted(&request.wanted, payer) {
            Ok(shreds) => shreds,
            Err(NoBudget) => {
                count.dropped_over_budget += 1;
                return vec![];
            }
        };
        count.read_bytes = self.shreds.read_bytes;
        if shreds.is_empty() {
            count.not_found += 1;
        }
        let mut answers = vec![];
        for mut shred in shreds {
            shred.extend_from_slice(&request.nonce.to_le_bytes());
            if self.sent.pay(shred.len() as u64, payer).is_err() {
                count.dropped_over_budget += 1;
                break;
            }
            count.served += 1;
            answers.push(shred);
        }
        answers
    }

    /// The answer to a question for hashes of ancestors.
    fn confirmed_below(&mut self, slot: u64, nonce: u32, payer: Payer, count: &mut Counters) -> Option<Vec<u8>> {
        let answer = AncestorHashes::Hashes(self.confirmed.ancestors(slot), nonce).write();
        let is_paid = self.sent.pay(answer.len() as u64, payer).is_ok();
        count.served_ancestors += u64::from(is_paid);
        count.dropped_over_budget += u64::from(!is_paid);
        is_paid.then_some(answer)
    }

    /// A ping for a node, unless it was sent one a moment ago.
    fn ping(&mut self, node: Node, wanted: &Wanted, now: u64, count: &mut Counters) -> Option<PingDraft> {
        if self.pinged.get(&node).is_some_and(|(at, _)| now < at + PING_MS) {
            return None;
        }
        if !self.may_ping {
            count.dropped_pings += 1;
            return None;
        }
        // Nobody may guess one from another: who can answers for addresses that are not its own.
        let drawn = sha256(&[&self.secret, &self.pings_drawn.to_le_bytes()]);
        self.pings_drawn += 1;
        let nonce = *drawn.first_chunk().expect("32 bytes are more than 8");
        self.pinged.set(node, (now, pong_hash(&ping_token(&nonce))));
        Some(PingDraft { to: node.1, nonce, is_about_ancestors: matches!(wanted, Wanted::Ancestors { .. }) })
    }

    fn wanted(&mut self, wanted: &Wanted, payer: Payer) -> Result<Vec<Vec<u8>>, NoBudget> {
        let found = match *wanted {
            Wanted::Shred { slot, index } => self.shreds.shred(slot, index, payer)?,
            Wanted::Highest { slot, from } => self.highest(slot, from, payer)?,
            Wanted::Orphan { slot } => return self.ancestors(slot, payer),
            Wanted::Ancestors { .. } => None,
        };
        Ok(found.into_iter().collect())
    }

    /// The highest shred of a slot, from an index on.
    fn highest(&mut self, slot: u64, from: u32, payer: Payer) -> Result<Option<Vec<u8>>, NoBudget> {
        match self.shreds.highest(slot, payer)?.filter(|highest| *highest >= from) {
            Some(highest) => self.shreds.shred(slot, highest, payer),
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
            next = self.shreds.parent(slot).filter(|parent| *parent < slot);
        }
        Ok(found)
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
pub(super) mod tests;
