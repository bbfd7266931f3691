//! server: the server's state, without sockets and keys: which nodes have proved their addresses, and what they get.
//!
//! reads   requests and pongs; the block store; which blocks are confirmed
//! writes  shreds, hashes of confirmed blocks, and pings to be signed
//! memory  [`NODES_MAX`] pinged nodes, and as many that have answered; the nodes of [`HOSTS_MAX`] hosts,
//!         [`NODES_PER_HOST_MAX`] each; budgets of hosts (budget.rs), twice; tables of keys, [`TABLE_BYTES`]; the
//!         shreds (shred_cache.rs): [`memory`] in all
//! drops   datagrams that are no request, are for another node or another time, or have a wrong signature; requests
//!         beyond the budget; the oldest nodes beyond the limits: each is counted in [`Counters`]
//! source  `solana-core` 4.2.2, `repair/serve_repair.rs`; `docs/cluster-protocol.md`, section 3
//!
//! Until an address has answered a ping, it receives nothing larger than what it sent, so that spoofed requests flood
//! nobody. Each host's state is limited however many keys it uses; beyond the limit the oldest entry is dropped. Reads
//! count against a budget like sends, whether they yield a response or not, and a single host leaves half of both
//! budgets to others.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use hearth_consensus::BankId;
use hearth_consensus::ancestors::ConfirmedBlocks;
use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_crypto::sha256::sha256;
use hearth_gossip::{Bounded, pong_hash};
use hearth_wire::gossip::Ping;
use hearth_wire::repair::{self, AncestorHashes, RepairDatagram, Request, RequestContent};
use hearth_wire::{Hash, Pubkey, Signature};

use super::budget::{Budget, NoBudget, Payer};
use super::shred_cache::ShredCache;
use super::{Config, Counters};
use crate::links::ping_token;

/// Bytes for the precomputed tables of keys that send requests repeatedly.
const TABLE_BYTES: usize = 4 << 20;
/// Maximum difference between a request's time and ours, in milliseconds.
const TIME_MS: u64 = 600_000;
/// How long a pong is valid, in milliseconds.
const PONG_MS: u64 = 1_280_000;
/// Minimum time between two pings to a node, in milliseconds.
const PING_MS: u64 = 2_000;
/// Maximum nodes in each table: pinged, and answered.
const NODES_MAX: usize = 65_536;
/// Maximum hosts whose nodes are counted.
const HOSTS_MAX: usize = 1_024;
/// Maximum answered nodes per IP address.
const NODES_PER_HOST_MAX: usize = 256;
/// Bytes per second that may be sent.
const SENT_PER_S: u64 = 12_000_000;
/// Bytes per second that may be read from the store.
const READ_PER_S: u64 = 128_000_000;
/// Maximum ancestors in a response about an orphan.
const ANCESTORS: usize = 11;

/// A node at an address.
type Node = (Pubkey, SocketAddr);

/// Maximum responses to one datagram: the highest shreds of a slot and its ancestors.
pub(super) const ANSWERS_MAX: usize = ANCESTORS;

/// Maximum bytes of the server.
pub(super) const fn memory() -> u64 {
    let nodes = Bounded::<Node, u64>::bytes(NODES_MAX) + Bounded::<Node, (u64, Hash)>::bytes(NODES_MAX);
    let of_hosts = (HOSTS_MAX * NODES_PER_HOST_MAX * size_of::<Node>()) as u64;
    let hosts = Bounded::<IpAddr, VecDeque<Node>>::bytes(HOSTS_MAX) + of_hosts;
    nodes + hosts + 2 * Budget::MEMORY + TABLE_BYTES as u64 + ShredCache::MEMORY
}

/// The reply to a datagram, all of it for its sender.
#[derive(Debug, Default)]
pub struct Reply {
    /// At most [`ANSWERS_MAX`] datagrams.
    pub answers: Vec<Vec<u8>>,
    /// A ping to sign and send.
    pub ping: Option<PingDraft>,
}

/// A ping without its signature.
#[derive(Clone, Copy, Debug)]
pub struct PingDraft {
    /// The requester, whose address the ping verifies.
    pub to: SocketAddr,
    /// The random bytes of its token: [`ping_token`].
    pub nonce: [u8; 8],
    /// Whether the requester expects it in the form of an answer about ancestors.
    is_about_ancestors: bool,
}

impl PingDraft {
    /// Builds the datagram of the ping, which `from` has signed.
    pub fn signed(&self, from: Pubkey, signature: Signature) -> Vec<u8> {
        let ping = Ping { from, token: ping_token(&self.nonce), signature };
        if self.is_about_ancestors { AncestorHashes::Ping(ping).write() } else { repair::write_ping(&ping) }
    }
}

/// Decides the reply to each datagram.
pub struct Server {
    own: Pubkey,
    verifier: Verifier,
    /// When each node answered a ping.
    proved: Bounded<Node, u64>,
    /// The nodes of each host that have answered, the oldest first.
    hosts: Bounded<IpAddr, VecDeque<Node>>,
    pinged: Bounded<Node, (u64, Hash)>,
    /// The token of each ping is derived from this and the ping's number.
    secret: [u8; 32],
    pings_drawn: u64,
    /// Whether a ping can be signed now.
    may_ping: bool,
    shreds: ShredCache,
    confirmed: ConfirmedBlocks,
    sent: Budget,
}

impl Server {
    /// Creates a server without any known nodes.
    pub fn new(config: &Config, secret: [u8; 32]) -> Self {
        Self {
            own: config.own.known(),
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

    /// Records a confirmed block; its ancestors were recorded before.
    pub fn confirm(&mut self, id: BankId) {
        self.confirmed.push(id);
    }

    /// The identity that requests must be for.
    pub fn own(&self) -> Pubkey {
        self.own
    }

    /// The node has another identity: requests are for that one.
    pub fn set_own(&mut self, own: Pubkey) {
        self.own = own;
    }

    /// Sets whether a ping can be signed now. Pings that cannot are counted; the node is pinged when it sends another
    /// request.
    pub fn set_may_ping(&mut self, may_ping: bool) {
        self.may_ping = may_ping;
    }

    /// Returns the reply to a datagram that arrived at `now`, in milliseconds of Unix time.
    pub fn answer(&mut self, from: SocketAddr, datagram: &[u8], now: u64, count: &mut Counters) -> Reply {
        match RepairDatagram::parse(datagram) {
            Err(_) => count.dropped_malformed += 1,
            Ok(RepairDatagram::Pong(pong)) => {
                let node = (pong.from, from);
                let is_awaited = self.pinged.get(&node).is_some_and(|(_, hash)| *hash == pong.hash);
                if is_awaited && self.verifier.verify(&pong.from, &pong.signature, &pong.hash).is_ok() {
                    self.pinged.remove(&node);
                    self.prove(node, now, count);
                } else {
                    count.dropped_signature += 1;
                }
            }
            Ok(RepairDatagram::Request(request, signature)) => {
                if self.is_genuine(&request, &signature, datagram, now, count) {
                    return self.serve(from, &request, now, count);
                }
            }
        }
        Reply::default()
    }

    /// Records that a node has proved its address.
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

    /// Whether a request is addressed to this node, recent, and signed by its sender.
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
            RequestContent::Ancestors { slot } => {
                self.confirmed_below(slot, request.nonce, payer, count).into_iter().collect()
            }
            _ => self.shreds(request, payer, count),
        };
        // Ping early, so that the node is still proved when its pong expires.
        let ping = if age > PONG_MS / 4 { self.ping(node, &request.wanted, now, count) } else { None };
        Reply { answers, ping }
    }

    /// Returns the shreds for a request that may be served.
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
            count.served_highest += u64::from(matches!(request.wanted, RequestContent::Highest { .. }));
            count.served_orphan += u64::from(matches!(request.wanted, RequestContent::Orphan { .. }));
            answers.push(shred);
        }
        answers
    }

    /// Returns the response to a request for ancestors' hashes.
    fn confirmed_below(&mut self, slot: u64, nonce: u32, payer: Payer, count: &mut Counters) -> Option<Vec<u8>> {
        let answer = AncestorHashes::Hashes(self.confirmed.ancestors(slot), nonce).write();
        let is_paid = self.sent.pay(answer.len() as u64, payer).is_ok();
        count.served_ancestors += u64::from(is_paid);
        count.dropped_over_budget += u64::from(!is_paid);
        is_paid.then_some(answer)
    }

    /// Creates a ping for a node, unless one was sent to it a moment ago.
    fn ping(&mut self, node: Node, wanted: &RequestContent, now: u64, count: &mut Counters) -> Option<PingDraft> {
        if self.pinged.get(&node).is_some_and(|(at, _)| now < at + PING_MS) {
            return None;
        }
        if !self.may_ping {
            count.dropped_pings += 1;
            return None;
        }
        // Tokens must be unpredictable: a node that guesses one can answer for addresses that are not its own.
        let drawn = sha256(&[&self.secret, &self.pings_drawn.to_le_bytes()]);
        self.pings_drawn += 1;
        let nonce = *drawn.first_chunk().expect("32 bytes are more than 8");
        self.pinged.set(node, (now, pong_hash(&ping_token(&nonce))));
        Some(PingDraft { to: node.1, nonce, is_about_ancestors: matches!(wanted, RequestContent::Ancestors { .. }) })
    }

    fn wanted(&mut self, wanted: &RequestContent, payer: Payer) -> Result<Vec<Vec<u8>>, NoBudget> {
        let found = match *wanted {
            RequestContent::Shred { slot, index } => self.shreds.shred(slot, index, payer)?,
            RequestContent::Highest { slot, from } => self.highest(slot, from, payer)?,
            RequestContent::Orphan { slot } => return self.ancestors(slot, payer),
            RequestContent::Ancestors { .. } => None,
        };
        Ok(found.into_iter().collect())
    }

    /// Returns the highest shred of a slot, if its index is at least `from`.
    fn highest(&mut self, slot: u64, from: u32, payer: Payer) -> Result<Option<Vec<u8>>, NoBudget> {
        match self.shreds.highest(slot, payer)?.filter(|highest| *highest >= from) {
            Some(highest) => self.shreds.shred(slot, highest, payer),
            None => Ok(None),
        }
    }

    /// Returns the highest shreds of a slot, its parent, and so on.
    fn ancestors(&mut self, slot: u64, payer: Payer) -> Result<Vec<Vec<u8>>, NoBudget> {
        let (mut found, mut next) = (vec![], Some(slot));
        while let Some(slot) = next.filter(|_| found.len() < ANCESTORS) {
            let shred = self.highest(slot, 0, payer);
            // What was read before the budget ran out is paid for.
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
