//! Pushes new values, and prunes redundant senders.
//!
//! reads   the table from a cursor on; prune messages
//! writes  pushes; prune messages to be signed
//! memory  during a call, [`PUSHES_MAX`] references to values
//! drops   values with a wrong time; prunes that are late or for others
//! source  `solana-gossip` 4.2.2, `crds_gossip_push.rs`, `cluster_info.rs`

use std::collections::{BTreeMap, BTreeSet};

use hearth_wire::Pubkey;
use hearth_wire::gossip::{Carrier, MAX_PRUNES, PruneData};

use super::config::{PRUNE_MS, PUSHES_MAX, TIMEOUT_MS};
use super::signing::Purpose;
use super::stakes::Direction;
use super::table::Entry;
use super::{Gossip, Outbox};

impl Gossip {
    /// Pushes the values that arrived since the last call.
    pub(super) fn push(&mut self, now: u64, out: &mut Outbox) {
        let mut by_node: BTreeMap<&Pubkey, Vec<&Entry>> = BTreeMap::new();
        let mut pushes = 0;
        for entry in self.table.since(self.push_cursor) {
            if pushes >= PUSHES_MAX {
                break;
            }
            self.push_cursor = entry.ordinal + 1;
            let origin = &entry.label.pubkey;
            let is_pushed = now.abs_diff(entry.wallclock) <= TIMEOUT_MS
                && self.stakes.passes(origin, entry.label.kind, Direction::Push);
            if is_pushed {
                for node in self.active.nodes(origin, &self.stakes) {
                    by_node.entry(node).or_default().push(entry);
                    pushes += 1;
                }
            }
        }
        if pushes < PUSHES_MAX {
            self.push_cursor = self.table.next_ordinal();
        }
        for (node, entries) in by_node {
            let Some(to) = self.table.contact(node).and_then(|contact| self.gossip_address(contact)) else { continue };
            let values = entries.iter().map(|entry| &entry.bytes[..]);
            self.counters.push_values_sent += out.send_values(Carrier::Push, &self.own.pubkey, to, values);
        }
    }

    /// Sends prunes to nodes that deliver values of these origins too late.
    pub(super) fn send_prunes(&mut self, now: u64, origins: &BTreeSet<Pubkey>) {
        let mut by_peer: BTreeMap<Pubkey, Vec<Pubkey>> = BTreeMap::new();
        for origin in origins {
            for peer in self.received.prune(&self.own.pubkey, origin, &self.stakes) {
                by_peer.entry(peer).or_default().push(*origin);
            }
        }
        for (peer, origins) in by_peer {
            let Some(to) = self.table.contact(&peer).and_then(|contact| self.gossip_address(contact)) else { continue };
            for prunes in origins.chunks(MAX_PRUNES) {
                let pubkey = self.own.pubkey;
                let data = PruneData { pubkey, prunes, signature: [0; 64], destination: peer, wallclock: now };
                let mut signed = Vec::new();
                data.signed(false, &mut signed);
                self.have_signed(now, Purpose::Prune(to), signed);
            }
        }
    }

    /// Records another node's prune.
    pub(super) fn on_prune(&mut self, now: u64, data: &PruneData<'_>) {
        if data.destination != self.own.pubkey {
            self.counters.prune_destination += 1;
        } else if now > data.wallclock.saturating_add(PRUNE_MS) {
            self.counters.prune_wallclock += 1;
        } else {
            let mut signed = Vec::new();
            let mut has_signed = |with_domain| {
                signed.clear();
                data.signed(with_domain, &mut signed);
                self.verifier.verify(&data.pubkey, &data.signature, &signed).is_ok()
            };
            if !has_signed(false) && !has_signed(true) {
                self.counters.bad_signature += 1;
                return;
            }
            self.counters.prunes_received += 1;
            self.active.prune(&data.pubkey, data.prunes, &self.stakes, &mut self.random);
        }
    }
}
