//! txsend: sends votes and clients' transactions to the leaders of the next slots over QUIC.
//!
//! reads   `rpc_txsend`, reliable: clients' transactions; `tower_txsend`, reliable: the node's votes; `net_txsend`,
//!         reliable: datagrams of its connections; `sign_txsend`, reliable: signatures of handshakes; `gossip_txsend`,
//!         reliable: where nodes accept transactions
//! writes  `txsend_net`, elective: datagrams; `txsend_sign`, elective: handshakes to be signed; if the node makes
//!         blocks `txsend_verify`, elective: transactions for the node itself, and `txsend_quic`, elective: the stakes
//! memory  the connections of [`leaders`] with their queues; [`OWN_VOTES_MAX`] votes and a transaction that wait for
//!         room on the link to verify; 100 B for each node that accepts transactions; a table of [`stakes`]
//! drops   transactions while no leader of the next slots is known; those that wait too long for a connection, in a
//!         full queue, or when the node stops; the oldest votes for the node itself beyond [`OWN_VOTES_MAX`]; all
//!         counted
//! source  `solana-send-transaction-service`, `voting_service.rs` of `solana-core` 4.2.2
//!
//! A transaction goes to the leader of the next slot and to the leader four slots later, whose turn may have come when
//! it arrives. The connections present the node's identity, so that its stake counts; `sign` signs each handshake.

mod leaders;
mod stakes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use hearth_ledger::drop_log::DropReason;
use hearth_ledger::{Commitment, Ledger};
use hearth_quic::{Client, Handshake};
use hearth_tile::{Clock, Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::Pubkey;

use crate::drops::DropLog;
use crate::identity::IdentityWatch;
use crate::links::{
    Datagram, GOSSIP_TXSEND, NET_TXSEND, OUTGOING_MTU, Outgoing, PeerNews, PortKind, SIGN_TXSEND, TOWER_TXSEND,
    TXN_MTU, TXSEND_NET, TXSEND_QUIC, TXSEND_SIGN, TXSEND_VERIFY,
};
use crate::timer::next_look;
use leaders::Leaders;
use stakes::StakeFeed;

hearth_tile::counters! {
    /// The counters of txsend.
    pub struct Counters {
        /// Votes of this node that it was given.
        votes: Counter,
        /// Transactions of clients that it was given.
        transactions: Counter,
        /// Transactions and votes that the transport took, once for each leader.
        sent: Counter,
        /// Of these, those that the leader's transport acknowledged in full.
        acknowledged: Counter,
        /// Of these, those that the leader refused to read.
        stopped: Counter,
        /// Of these, those without acknowledgement when their connection ended.
        lost: Counter,
        /// Transactions and votes passed to the node's own verify tile.
        own: Counter,
        /// Transactions dropped because no leader of the next slots is known that takes transactions over QUIC.
        dropped_no_leader: Counter,
        /// Transactions and votes dropped because too many waited for a connection, or they waited for 10 seconds, or
        /// the node stopped; each with one leader.
        dropped_waiting: Counter,
        /// Votes for the node itself that newer ones replaced, since its verify tile had no room for so long.
        replaced_own_votes: Counter,
        /// Transactions and votes that wait for a connection.
        waiting: Gauge,
        /// Connections, including those being opened.
        connections: Gauge,
        /// Handshakes done with leaders.
        connected: Counter,
        /// Connections that ended or could not be made.
        disconnected: Counter,
        /// QUIC datagrams received from leaders.
        datagrams_in: Counter,
        /// QUIC datagrams sent to leaders.
        datagrams_out: Counter,
    }
}

/// Consecutive slots of a leader.
const TURN: u64 = 4;
/// How many turns ahead connections are established.
const TURNS_AHEAD: u64 = 4;
/// How often to look up the next leaders.
const LOOK_EVERY_NS: u64 = 100_000_000;
/// Maximum votes that wait for room on the link to the node's own verify tile: a newer one implies all before it.
const OWN_VOTES_MAX: usize = 8;
/// Maximum datagrams sent per turn.
const PER_TURN: usize = 128;

/// The configuration of txsend.
pub struct Config {
    /// The node's identity, whose key sign uses in handshakes with leaders.
    pub identity: IdentityWatch,
    /// Whether it votes: then connections to the next leaders are kept ready.
    pub votes: bool,
    /// The ledger, for the leader schedule.
    pub ledger: Arc<Ledger>,
    /// Receives the tag and reason of each dropped transaction.
    pub drops: DropLog,
}

/// The addresses at which a node accepts transactions and votes over QUIC.
#[derive(Clone, Copy)]
struct Addresses {
    transactions: Option<SocketAddr>,
    votes: Option<SocketAddr>,
}

/// Routes transactions to the connections of the next leaders.
pub struct TxSend {
    config: Config,
    leaders: Leaders,
    clock: Clock,
    nodes: BTreeMap<Pubkey, Addresses>,
    look_at: u64,
    datagrams: In,
    signatures: In,
    peer_news: In,
    votes: In,
    net: Port,
    sign: Port,
    verify: Option<Port>,
    /// If the node accepts transactions over QUIC: the link that carries stakes to quic, and the feed.
    quic: Option<(Port, StakeFeed)>,
    /// Votes for the node itself that wait for room on the link to verify.
    own_votes: VecDeque<Vec<u8>>,
    /// A transaction that waits for the same, with its control word and origin: no other is accepted meanwhile.
    own_transaction: Option<(Vec<u8>, u16, u32)>,
    buffer: Vec<u8>,
}

impl Tile for TxSend {
    const NAME: &'static str = "txsend";
    const BURST: usize = 0;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let (net, sign, verify) =
            (host.output(TXSEND_NET)?, host.output(TXSEND_SIGN)?, host.outputs(TXSEND_VERIFY).first().copied());
        let quic = host.outputs(TXSEND_QUIC).first().copied();
        [net, sign].into_iter().chain(verify).chain(quic).for_each(|port| host.elective(port));
        let client = leaders::client_config();
        let client = Client::with_signer(client, config.identity.known(), &host.secret()).map_err(|e| host.error(e))?;
        Ok(Self {
            config,
            leaders: Leaders::new(client),
            clock: host.clock().clone(),
            nodes: BTreeMap::new(),
            look_at: 0,
            datagrams: host.input(NET_TXSEND)?,
            signatures: host.input(SIGN_TXSEND)?,
            peer_news: host.input(GOSSIP_TXSEND)?,
            votes: host.input(TOWER_TXSEND)?,
            net,
            sign,
            verify,
            quic: quic.map(|port| (port, StakeFeed::default())),
            own_votes: VecDeque::with_capacity(OWN_VOTES_MAX),
            own_transaction: None,
            buffer: Vec::with_capacity(OUTGOING_MTU),
        })
    }

    fn filter(&mut self, _: &FragMeta, input: In) -> Filter {
        let is_transaction = ![self.datagrams, self.signatures, self.peer_news, self.votes].contains(&input);
        if is_transaction && self.own_transaction.is_some() { Filter::Later } else { Filter::Take }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        let now = self.clock.instant(out.now());
        match frag.input() {
            input if input == self.datagrams => {
                let datagram = Datagram::read(frag.payload());
                self.leaders.client.handle_datagram(now, datagram.from, None, datagram.data);
            }
            input if input == self.signatures => {
                let handshake = Handshake::from_bits(frag.tag());
                if frag.payload().is_empty() {
                    self.leaders.client.refused(now, handshake);
                } else {
                    let signature = frag.payload().try_into().expect("sign answers with a signature, or nothing");
                    self.leaders.client.signed(handshake, signature);
                }
            }
            input if input == self.peer_news => self.on_peer(PeerNews::read(frag.payload())),
            input => self.send(frag, input == self.votes, out),
        }
    }

    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
        self.pump(out);
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let now = self.clock.instant(out.now());
        if self.leaders.client.next_timeout().is_some_and(|due| due <= now) {
            self.leaders.client.handle_timeout(now);
        }
        if out.now() >= self.look_at {
            self.look_at = next_look(out.now(), LOOK_EVERY_NS);
            self.connect(out);
            self.leaders.drop_old(now);
            self.leaders.close_idle(now);
            if let Some((_, stakes)) = &mut self.quic {
                stakes.look(&self.config.ledger);
            }
        }
        if self.pump(out) { Poll::Busy } else { Poll::Idle }
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        if let Some(identity) = self.config.identity.changed() {
            // Leaders count a connection by the identity that it was made with.
            self.leaders.set_identity(self.clock.instant(out.now()), identity);
        }
        let counted = self.leaders.client.counters();
        (out.count.sent, out.count.acknowledged) = (counted.sent, counted.acknowledged);
        (out.count.stopped, out.count.lost) = (counted.stopped, counted.lost);
        (out.count.connected, out.count.disconnected) = (counted.connected, counted.disconnected);
        (out.count.datagrams_in, out.count.datagrams_out) = (counted.datagrams_in, counted.datagrams_out);
        out.count.waiting = self.leaders.waiting() as u64;
        out.count.connections = self.leaders.len() as u64;
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        wait.until(self.leaders.client.next_timeout().map(|due| self.clock.at(due)));
        let looks = self.config.votes || self.quic.is_some() || self.leaders.waiting() > 0;
        wait.until(looks.then_some(self.look_at));
    }

    fn stop(&mut self, out: &mut Out<'_, Self>) {
        self.pump(out);
        self.leaders.close_all(self.clock.instant(out.now()));
        // So that leaders learn of the close, and drops are recorded.
        self.pump(out);
        let own = self.own_votes.drain(..).chain(self.own_transaction.take().map(|(transaction, ..)| transaction));
        for transaction in own {
            out.count.dropped_waiting += 1;
            self.config.drops.record_bytes(&transaction, DropReason::TxsendWaiting, out);
        }
    }
}

impl TxSend {
    /// Records where a node accepts transactions.
    fn on_peer(&mut self, news: PeerNews) {
        match news {
            PeerNews::Known(peer) => {
                let [transactions, votes] = [peer.tpu_quic, peer.tpu_vote_quic].map(|at| at.map(SocketAddr::from));
                self.nodes.insert(peer.identity, Addresses { transactions, votes });
            }
            PeerNews::Gone(node) => drop(self.nodes.remove(&node)),
        }
    }

    /// The leader of a slot, if known.
    fn leader(&self, slot: u64) -> Option<Pubkey> {
        self.config.ledger.leader_at(slot).map(|leader| leader.node)
    }

    /// The slot that will be produced next.
    fn next_slot(&self) -> u64 {
        self.config.ledger.slot(Commitment::Processed) + 1
    }

    /// Connects to the next leaders, if the node votes.
    fn connect(&mut self, out: &Out<'_, Self>) {
        if !self.config.votes {
            return;
        }
        let (now, first) = (self.clock.instant(out.now()), self.next_slot());
        for turn in 0..TURNS_AHEAD {
            let leader = self.leader(first + turn * TURN).filter(|leader| *leader != self.config.identity.known());
            let addresses = leader.and_then(|leader| self.nodes.get(&leader));
            if let Some(address) = addresses.and_then(|addresses| addresses.votes.or(addresses.transactions)) {
                self.leaders.connect(now, address);
            }
        }
    }

    /// Sends a transaction to the current leader and to the next one.
    fn send(&mut self, frag: Frag<'_>, is_vote: bool, out: &mut Out<'_, Self>) {
        match is_vote {
            true => out.count.votes += 1,
            false => out.count.transactions += 1,
        }
        let (now, first) = (self.clock.instant(out.now()), self.next_slot());
        let (mut sent, mut is_own): (Option<SocketAddr>, bool) = (None, false);
        for slot in [first, first + TURN] {
            let Some(leader) = self.leader(slot) else { continue };
            if leader == self.config.identity.known() {
                is_own = self.verify.is_some();
                continue;
            }
            let Some(addresses) = self.nodes.get(&leader) else { continue };
            let for_votes = addresses.votes.filter(|_| is_vote);
            if let Some(to) = for_votes.or(addresses.transactions).filter(|to| sent != Some(*to)) {
                self.leaders.send(now, to, frag.payload(), is_vote);
                sent = Some(to);
            }
        }
        if is_own && is_vote {
            if self.own_votes.len() == OWN_VOTES_MAX {
                self.own_votes.pop_front();
                out.count.replaced_own_votes += 1;
            }
            self.own_votes.push_back(frag.payload().to_vec());
            self.send_own(out);
        } else if is_own {
            self.own_transaction = Some((frag.payload().to_vec(), frag.control(), out.origin_us()));
            self.send_own(out);
        } else if sent.is_none() {
            out.count.dropped_no_leader += 1;
            self.config.drops.record_bytes(frag.payload(), DropReason::TxsendNoLeader, out);
            out.filtered();
        }
    }

    /// Passes on what is for the node itself, votes first. Returns whether it passed anything on.
    fn send_own(&mut self, out: &mut Out<'_, Self>) -> bool {
        let Some(port) = self.verify else { return false };
        let mut moved = false;
        while !self.own_votes.is_empty() || self.own_transaction.is_some() {
            if out.credits(port, 1) == 0 {
                out.held_up();
                break;
            }
            if let Some(vote) = self.own_votes.pop_front() {
                out.set_origin(0);
                out.publish(port, 0, &vote);
            } else if let Some((transaction, control, origin_us)) = self.own_transaction.take() {
                out.set_origin(origin_us);
                out.publish_control(port, 0, control, &transaction);
            }
            out.count.own += 1;
            moved = true;
        }
        out.set_origin(0);
        moved
    }

    /// Records which waiting transactions were dropped.
    fn record_dropped(&mut self, out: &mut Out<'_, Self>) {
        for transaction in self.leaders.take_dropped() {
            out.count.dropped_waiting += 1;
            self.config.drops.record_bytes(&transaction, DropReason::TxsendWaiting, out);
        }
    }

    /// Sends pending datagrams as far as there is room. Returns whether anything moved.
    fn pump(&mut self, out: &mut Out<'_, Self>) -> bool {
        let now = self.clock.instant(out.now());
        let mut moved = self.send_own(out);
        moved |= self.leaders.send_waiting();
        self.record_dropped(out);
        if let Some((port, stakes)) = &mut self.quic {
            while stakes.has_piece() && out.credits(*port, 1) > 0 {
                out.publish_with(*port, 0, |buffer| stakes.write_piece(buffer));
                moved = true;
            }
        }
        while out.credits(self.sign, 1) > 0
            && let Some((handshake, message)) = self.leaders.client.next_to_sign()
        {
            out.publish(self.sign, handshake.to_bits(), &message);
            moved = true;
        }
        for _ in 0..PER_TURN {
            if !self.leaders.client.has_transmit() {
                break;
            }
            if out.credits(self.net, 1) == 0 {
                out.held_up();
                break;
            }
            let Some(transmit) = self.leaders.client.poll_transmit(now, &mut self.buffer) else { break };
            let data = &self.buffer[..transmit.len];
            out.publish_with(self.net, 0, |buffer| {
                buffer[Outgoing::HEADER..][..data.len()].copy_from_slice(data);
                Outgoing::write_header(buffer, (transmit.to, PortKind::TxSend), 0, data.len())
            });
            moved = true;
        }
        moved
    }
}

/// Maximum bytes of the tile: each connection's queue and data in flight, and a table of stakes.
pub const BYTES_MAX: usize =
    WAITING_MAX * TXN_MTU + CONNECTIONS_MAX * leaders::SEND_WINDOW_BYTES as usize + stakes::BYTES_MAX;
/// Maximum connections to leaders.
pub const CONNECTIONS_MAX: usize = leaders::CONNECTIONS_MAX;
/// Maximum transactions and votes that wait for a connection.
pub const WAITING_MAX: usize = CONNECTIONS_MAX * (leaders::WAITING_MAX + leaders::VOTES_WAITING_MAX);
