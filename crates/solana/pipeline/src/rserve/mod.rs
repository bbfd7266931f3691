//! rserve: serves repair requests: sends shreds to nodes that lack them.
//!
//! reads   `net_rserve` ×N, reliable: requests and pongs; `sign_rserve`, reliable: signatures of pings; the block
//!         store; `tower_rserve`, reliable: confirmed blocks
//! writes  `rserve_net`, reliable: shreds, hashes of confirmed blocks, and pings; `rserve_sign`, reliable: the tokens
//!         of pings
//! memory  the server's tables (server.rs), [`UNSIGNED_MAX`] pings that wait for their signature: [`memory`] at most
//! drops   what the server refuses, by its reason, and pings beyond the limit: all counted; pings that sign refuses,
//!         which sign counts; requests that arrive faster than they are served, which net drops and counts
//! source  `solana-core` 4.2.2, `repair/serve_repair.rs`; `docs/cluster-protocol.md`, section 3
//!
//! The path of a request: a datagram → [`server`] (is it a signed request, by a node that has proved its address,
//! within its host's budget?) → `shred_cache` (the shreds, rebuilt from the store's records) → net. A ping goes through
//! sign first.

mod budget;
mod server;
mod shred_cache;

use std::collections::VecDeque;

use hearth_consensus::BankId;
use hearth_ledger::blockstore::Reader;
use hearth_tile::{Frag, Host, In, InitError, Out, Port, Tile};

use crate::identity::IdentityWatch;
use crate::links::{Datagram, Outgoing, PortKind, RSERVE_NET, RSERVE_SIGN, SIGN_RSERVE, TOWER_RSERVE};
use server::ANSWERS_MAX;

pub use server::{PingDraft, Reply, Server};

hearth_tile::counters! {
    /// The counters of rserve.
    pub struct Counters {
        /// Shreds that were sent.
        served: Counter,
        /// Shreds that were sent as a slot's highest one; they count as served too.
        served_highest: Counter,
        /// Shreds that were sent as those of a slot's ancestors; they count as served too.
        served_orphan: Counter,
        /// Requests for hashes of ancestors that were answered; with no hash, if the slot is not confirmed.
        served_ancestors: Counter,
        /// Pings sent to nodes that have not proved their address.
        pings: Counter,
        /// Requests for shreds that this node does not have.
        not_found: Counter,
        /// Datagrams dropped: neither a request nor a pong.
        dropped_malformed: Counter,
        /// Requests dropped: addressed to another node, or sent by this one.
        dropped_misdirected: Counter,
        /// Requests dropped: their timestamp is too far from this node's clock.
        dropped_out_of_time: Counter,
        /// Requests and pongs dropped: a wrong signature, or a pong that answers no ping.
        dropped_signature: Counter,
        /// Requests dropped: the sender has not proved that it is at its address. It was sent a ping, now or a moment
        /// ago.
        dropped_unproved: Counter,
        /// Requests dropped: beyond the bytes that may be sent, or read for them.
        dropped_over_budget: Counter,
        /// Pings dropped: too many wait for their signature.
        dropped_pings: Counter,
        /// Verified nodes forgotten, because their host had too many or there were too many hosts.
        evicted_nodes: Counter,
        /// Bytes of the block store read for requests.
        read_bytes: Counter,
    }
}

/// Maximum pings that wait for their signature: as many as the link back from sign holds, so that sign never waits for
/// it.
const UNSIGNED_MAX: usize = 64;

/// The configuration of rserve.
#[derive(Clone)]
pub struct Config {
    /// This node's identity, which the operator may change while it runs.
    pub own: IdentityWatch,
    /// The cluster's shred version.
    pub shred_version: u16,
    /// Reads the stored blocks, whose shreds are served.
    pub blocks: Reader,
}

/// Maximum bytes of the tile.
pub const fn memory() -> u64 {
    server::memory()
}

/// The repair server: answers other nodes' requests for shreds and for ancestors' hashes.
pub struct Rserve {
    server: Server,
    own: IdentityWatch,
    /// Pings in the order in which they were sent to sign.
    unsigned: VecDeque<PingDraft>,
    next_tag: u64,
    signatures: In,
    confirmed: In,
    sign: Port,
    net: Port,
}

impl Tile for Rserve {
    const NAME: &'static str = "rserve";
    const BURST: usize = ANSWERS_MAX;
    // A request may read megabytes of the store: other tiles on the core get their turn after a few.
    const FRAGS_PER_RUN: usize = 8;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        Ok(Self {
            server: Server::new(&config, host.secret()),
            own: config.own,
            unsigned: VecDeque::with_capacity(UNSIGNED_MAX),
            next_tag: 0,
            signatures: host.input(SIGN_RSERVE)?,
            confirmed: host.input(TOWER_RSERVE)?,
            sign: host.output(RSERVE_SIGN)?,
            net: host.output(RSERVE_NET)?,
        })
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        if frag.input() == self.signatures {
            return self.on_signature(&frag, out);
        }
        if frag.input() == self.confirmed {
            let hash = frag.payload().try_into().expect("tower sends a hash");
            return self.server.confirm(BankId { slot: frag.tag(), hash });
        }
        let Datagram { from, data, .. } = Datagram::read(frag.payload());
        let now_ms = out.wall_ns() / 1_000_000;
        self.server.set_may_ping(self.unsigned.len() < UNSIGNED_MAX);
        let reply = self.server.answer(from, data, now_ms, out.count);
        for answer in &reply.answers {
            send(self.net, from, answer, out);
        }
        if let Some(ping) = reply.ping {
            self.ask_signature(ping, out);
        } else if reply.answers.is_empty() {
            out.filtered();
        }
    }

    fn housekeep(&mut self, _: &mut Out<'_, Self>) {
        if let Some(own) = self.own.changed() {
            self.server.set_own(own);
        }
    }
}

impl Rserve {
    fn ask_signature(&mut self, ping: PingDraft, out: &mut Out<'_, Self>) {
        out.publish(self.sign, self.next_tag, &ping.nonce);
        self.next_tag += 1;
        self.unsigned.push_back(ping);
    }

    /// Handles sign's answer for the oldest ping. An empty answer is a refusal: nothing is sent.
    fn on_signature(&mut self, frag: &Frag<'_>, out: &mut Out<'_, Self>) {
        let oldest = self.next_tag - self.unsigned.len() as u64;
        assert_eq!(frag.tag(), oldest, "sign answers in the order asked");
        let ping = self.unsigned.pop_front().expect("an answer to a question");
        if frag.payload().is_empty() {
            return out.filtered();
        }
        let signature = frag.payload().try_into().expect("sign answers with a signature, or nothing");
        send(self.net, ping.to, &ping.signed(self.server.own(), signature), out);
        out.count.pings += 1;
    }
}

fn send(net: Port, to: std::net::SocketAddr, data: &[u8], out: &mut Out<'_, Rserve>) {
    out.publish_with(net, 0, |buffer| {
        buffer[Outgoing::HEADER..][..data.len()].copy_from_slice(data);
        Outgoing::write_header(buffer, (to, PortKind::ServeRepair), 0, data.len())
    });
}

#[cfg(test)]
mod tests;
