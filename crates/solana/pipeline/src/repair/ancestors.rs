//! ancestors: open requests for the ancestors of a block that tower cannot have executed.
//!
//! reads   which nodes tower wants asked about which slot; answers
//! writes  nonces; which node an answer comes from
//! memory  [`OPEN_MAX`] requests: [`AncestorRequests::MEMORY`]
//! drops   requests beyond that, and unsolicited answers: the caller counts them
//! source  `docs/cluster-protocol.md`, sections 3.2 to 3.4

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hearth_consensus::ancestors::{ASKED_MAX, QUESTIONS_MAX};
use hearth_wire::{Hash, Pubkey};

/// Maximum open requests: all that tower asks at a time.
const OPEN_MAX: usize = QUESTIONS_MAX * ASKED_MAX;
/// An answer is accepted for this long; then another request may take its place.
const ANSWER_NS: u64 = 30_000_000_000;

/// A request that was sent, and may still be answered.
struct AncestorRequest {
    node: Pubkey,
    nonce: u32,
    asked_at: u64,
}

/// The open requests, by address and slot.
#[derive(Default)]
pub(super) struct AncestorRequests {
    open: BTreeMap<(SocketAddr, u64), AncestorRequest>,
}

impl AncestorRequests {
    /// Maximum bytes of the requests.
    pub const MEMORY: usize = 2 * OPEN_MAX * size_of::<((SocketAddr, u64), AncestorRequest)>();

    /// Records a request to a node about a slot. Returns its nonce: the previous one if the node was asked before at
    /// this address, so that its late answer counts; else a new one. `None` if there are too many requests.
    pub fn ask(
        &mut self,
        at: SocketAddr,
        slot: u64,
        node: &Pubkey,
        now: u64,
        new_nonce: impl FnOnce() -> u32,
    ) -> Option<u32> {
        if let Some(request) = self.open.get_mut(&(at, slot)).filter(|request| request.node == *node) {
            request.asked_at = now;
            return Some(request.nonce);
        }
        if self.open.len() >= OPEN_MAX {
            self.open.retain(|_, request| now < request.asked_at.saturating_add(ANSWER_NS));
        }
        if self.open.len() >= OPEN_MAX {
            return None;
        }
        let nonce = new_nonce();
        self.open.insert((at, slot), AncestorRequest { node: *node, nonce, asked_at: now });
        Some(nonce)
    }

    /// Returns which node an answer comes from, if one at this address was asked with this nonce and the answer is
    /// about the slot, newest first. An answer without hashes means that the node has not confirmed the slot: keep
    /// waiting for another.
    pub fn answered(&mut self, from: SocketAddr, nonce: u32, hashes: &[(u64, Hash)]) -> Option<Pubkey> {
        let mut of_sender = self.open.range((from, 0)..=(from, u64::MAX));
        let (&key, request) = of_sender.find(|(_, request)| request.nonce == nonce)?;
        let is_of_slot = hashes.first().is_none_or(|(slot, _)| *slot == key.1);
        if !is_of_slot || !hashes.is_sorted_by(|newer, older| newer.0 > older.0) {
            return None;
        }
        let node = request.node;
        if !hashes.is_empty() {
            self.open.remove(&key);
        }
        Some(node)
    }

    /// The slots and nonces of unanswered requests to a node.
    pub fn waiting(&self, at: SocketAddr, node: &Pubkey) -> Vec<(u64, u32)> {
        let of_address = self.open.range((at, 0)..=(at, u64::MAX));
        let of_node = of_address.filter(|(_, request)| request.node == *node);
        of_node.map(|((_, slot), request)| (*slot, request.nonce)).collect()
    }

    /// Forgets slots up to and including `root`.
    pub fn set_root(&mut self, root: u64) {
        self.open.retain(|(_, slot), _| *slot > root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn request_made_again_keeps_its_nonce() {
        let mut requests = AncestorRequests::default();
        assert_eq!(requests.ask(address(1), 9, &[2; 32], 0, || 5), Some(5));
        assert_eq!(requests.ask(address(1), 9, &[2; 32], 1, || 6), Some(5));
        assert_eq!(requests.waiting(address(1), &[2; 32]), [(9, 5)]);
        assert_eq!(requests.ask(address(1), 9, &[3; 32], 1, || 7), Some(7), "another node is there now");
        assert_eq!(requests.waiting(address(1), &[2; 32]), []);
    }

    #[test]
    fn old_requests_give_way() {
        let mut requests = AncestorRequests::default();
        for slot in 0..OPEN_MAX as u64 {
            assert!(requests.ask(address(1), slot, &[2; 32], slot, || slot as u32).is_some());
        }
        assert_eq!(requests.ask(address(2), 9, &[2; 32], ANSWER_NS - 1, || 5), None);
        assert_eq!(requests.ask(address(2), 9, &[2; 32], ANSWER_NS, || 5), Some(5));
        requests.set_root(OPEN_MAX as u64);
        assert!(requests.open.is_empty());
    }
}
