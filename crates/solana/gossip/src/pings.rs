//! Verifies nodes' addresses by pings and pongs.
//!
//! reads   nodes with their addresses; hashes of pongs
//! writes  tokens for pings
//! memory  at most [`PINGS_MAX`] of each, some 250 B for both
//! drops   unexpected pongs; beyond the bound, the oldest
//! source  `solana-gossip` 4.2.2, `ping_pong.rs`

use std::net::SocketAddrV4;

use hearth_crypto::sha256::sha256;
use hearth_wire::gossip::PONG_DOMAIN;
use hearth_wire::{Hash, Pubkey};

use super::bounded::Bounded;
use super::config::{PING_FIRST_MS, PING_MS, PINGS_MAX, PONG_MS};
use super::random::Random;

/// A node at an address.
pub(super) type Node = (Pubkey, SocketAddrV4);

/// The hash in the pong to this token.
pub fn pong_hash(token: &[u8; 32]) -> Hash {
    sha256(&[&PONG_DOMAIN, token])
}

/// A ping that waits for its pong.
#[derive(Clone, Copy)]
struct PendingPing {
    sent: u64,
    /// The hash that the pong must contain.
    hash: Hash,
    /// When the next ping may be sent.
    next: u64,
}

/// Pending pings, and valid pongs.
pub(super) struct Pings {
    waiting: Bounded<Node, PendingPing>,
    /// Arrival time of each pong.
    answered: Bounded<Node, u64>,
}

impl Pings {
    pub fn new() -> Self {
        Self { waiting: Bounded::new(PINGS_MAX), answered: Bounded::new(PINGS_MAX) }
    }

    /// The numbers of pending pings and of valid pongs.
    pub fn len(&self) -> (usize, usize) {
        (self.waiting.len(), self.answered.len())
    }

    /// Whether a node's address is verified, and the token of a ping to send now, if one is due.
    pub fn check(&mut self, node: Node, now: u64, random: &mut Random) -> (bool, Option<[u8; 32]>) {
        let age = self.answered.get(&node).map(|at| now.saturating_sub(*at));
        let has_answered = age.is_some_and(|age| age <= PONG_MS);
        if age.is_some() && !has_answered {
            self.answered.remove(&node);
        }
        if has_answered && age.is_some_and(|age| age <= PONG_MS / 4) {
            return (true, None);
        }
        let pause = match self.waiting.get(&node) {
            Some(waiting) if now < waiting.next => return (has_answered, None),
            Some(waiting) => (2 * (waiting.next - waiting.sent)).min(PING_MS),
            None => PING_FIRST_MS,
        };
        let mut token = [0; 32];
        token[..8].copy_from_slice(&random.word().to_le_bytes());
        self.waiting.set(node, PendingPing { sent: now, hash: pong_hash(&token), next: now + pause });
        (has_answered, Some(token))
    }

    /// Handles a clock that was set back to `now`: pong times are clamped to it, and later pings become due.
    pub fn set_back(&mut self, now: u64) {
        self.answered.values_mut().for_each(|at| *at = now.min(*at));
        for waiting in self.waiting.values_mut().filter(|waiting| waiting.next > now) {
            let pause = waiting.next - waiting.sent;
            (waiting.sent, waiting.next) = (now.saturating_sub(pause), now);
        }
    }

    /// Whether this pong is expected from this node.
    pub fn expects(&self, node: &Node, hash: &Hash) -> bool {
        self.waiting.get(node).is_some_and(|waiting| waiting.hash == *hash)
    }

    /// Records an expected pong.
    pub fn answer(&mut self, node: Node, now: u64) {
        self.waiting.remove(&node);
        self.answered.set(node, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_vector() {
        let hex: String = pong_hash(&[0; 32]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "261e9e32a52b19636f56ffcd091aac94279c4d1df918d783197689eb73975cd5");
    }

    #[test]
    fn pings_back_off_and_pongs_last_1280_seconds() {
        let mut random = Random::new([1; 32]);
        let mut pings = Pings::new();
        let node = ([1; 32], "10.0.0.1:5".parse().unwrap());
        let elsewhere = ([1; 32], "10.0.0.1:6".parse().unwrap());
        let (verdict, token) = pings.check(node, 1_000, &mut random);
        let hash = pong_hash(&token.expect("asked at once"));
        assert!(!verdict && token.unwrap()[8..] == [0; 24]);
        assert_eq!(pings.check(node, 1_999, &mut random), (false, None));
        let second = pings.check(node, 2_000, &mut random).1.expect("asked again");
        assert_ne!(Some(second), token);
        assert!(!pings.expects(&node, &hash), "the first token is forgotten");
        let mut asked = vec![1_000, 2_000];
        let mut last = second;
        for at in 2_001..80_000 {
            if let (false, Some(token)) = pings.check(node, at, &mut random) {
                asked.push(at);
                last = token;
            }
        }
        assert_eq!(asked, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 52_000, 72_000]);
        let hash = pong_hash(&last);
        assert!(pings.expects(&node, &hash) && !pings.expects(&elsewhere, &hash));
        pings.answer(node, 80_100);
        assert!(!pings.expects(&node, &hash), "it counts once");
        assert_eq!(pings.check(node, 80_100 + PONG_MS / 4, &mut random), (true, None));
        assert!(
            matches!(pings.check(node, 80_101 + PONG_MS / 4, &mut random), (true, Some(_))),
            "asked before it ends"
        );
        assert_eq!(pings.check(node, 80_102 + PONG_MS / 4, &mut random), (true, None));
        assert!(matches!(pings.check(node, 80_101 + PONG_MS, &mut random), (false, Some(_))));
        assert!(!pings.check(elsewhere, 81_000, &mut random).0);
    }
}
