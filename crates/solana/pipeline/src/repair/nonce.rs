//! nonce: nonces by which shred recognizes responses to repair's requests.
//!
//! reads   a secret that both tiles share, the item requested, the host's time
//! writes  a nonce; whether one was issued for a shred
//! memory  [`ANSWERED_MAX`] answered nonces
//! drops   responses that are unsolicited, late or too many: the caller counts them
//! source  Firedancer's `rnonce_ss`
//!
//! Responses go to shred, while requests come from repair, and no link connects the two. So a nonce is a keyed hash of
//! the request, which shred can recompute. It includes the time too: a repeated request has a new nonce, because each
//! response counts once. An attacker that guesses a nonce still needs the leader's signature.
//!
//! ```text
//! nonce  of a shred      tick mod 256, 8 bits | hash of secret, kind, slot, index and tick, 24 bits
//!        for ancestors   hash of secret, kind, slot, node and time, 32 bits
//! ```

use hearth_crypto::sha256::sha256;
use hearth_gossip::Bounded;
use hearth_wire::Pubkey;
use hearth_wire::repair::RequestContent;
use hearth_wire::shred::Shred as Piece;

use super::request_plan::{AGAIN_NS, ANCESTORS, ORPHANS_WANTED};

/// Nanoseconds per tick: a request is not repeated within one tick.
const TICK_NS: u64 = 128_000_000;
const _: () = assert!(TICK_NS < AGAIN_NS);
/// How many ticks a response is accepted for: 16 s.
const TICKS_MAX: u64 = 125;
const _: () = assert!(TICKS_MAX < 256);
/// Answered nonces to remember. Forgetting some of those requested within [`TICKS_MAX`], at the rate that links allow,
/// is harmless, since a repeated response is then a duplicate.
const ANSWERED_MAX: usize = 16_384;

/// The secret from which nonces derive.
#[derive(Clone, Copy)]
pub struct NonceKey(pub [u8; 32]);

/// The kind of request for shreds. Responses to a request for a slot's ancestors may be of any lower slot, and a slot's
/// highest shred may have any index, so the nonce includes neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A data shred, by its index.
    Shred {
        /// The slot that the requested shred belongs to.
        slot: u64,
        /// Its index in the slot.
        index: u32,
    },
    /// A slot's highest shred.
    Highest {
        /// The slot whose highest shred is requested.
        slot: u64,
    },
    /// Shreds of a slot's ancestors.
    Orphan,
}

/// Stands in for the kind's number in the hash of a request for ancestors' hashes.
const ANCESTORS_OF: u8 = 3;

impl Kind {
    /// Maximum shreds with one nonce. Two requests for a slot's highest shred may be sent within a tick, from different
    /// indices on.
    fn answers_max(self) -> usize {
        match self {
            Self::Shred { .. } => 1,
            Self::Highest { .. } => 2,
            Self::Orphan => ANCESTORS * ORPHANS_WANTED,
        }
    }
}

impl NonceKey {
    /// Returns the nonce of a request to `node`. A nonce for ancestors is all hash, including the node: repair
    /// remembers it, and no other node may derive it from its own, since no leader signs the answer.
    pub fn nonce(&self, wanted: &RequestContent, node: &Pubkey, now_ns: u64) -> u32 {
        let kind = match *wanted {
            RequestContent::Shred { slot, index } => Kind::Shred { slot, index },
            RequestContent::Highest { slot, .. } => Kind::Highest { slot },
            RequestContent::Orphan { .. } => Kind::Orphan,
            RequestContent::Ancestors { slot } => {
                let parts = [&self.0[..], &[ANCESTORS_OF], &slot.to_le_bytes(), node, &now_ns.to_le_bytes()];
                return u32::from_le_bytes(*sha256(&parts).first_chunk().expect("a hash has 32 bytes"));
            }
        };
        self.of(kind, now_ns / TICK_NS)
    }

    fn of(&self, kind: Kind, tick: u64) -> u32 {
        let (number, slot, index) = match kind {
            Kind::Shred { slot, index } => (0u8, slot, index),
            Kind::Highest { slot } => (1, slot, 0),
            Kind::Orphan => (2, 0, 0),
        };
        let parts: [&[u8]; 5] = [&self.0, &[number], &slot.to_le_bytes(), &index.to_le_bytes(), &tick.to_le_bytes()];
        let hash = sha256(&parts);
        (tick as u32) << 24 | u32::from_le_bytes([hash[0], hash[1], hash[2], 0])
    }
}

/// The responses received so far.
pub struct Answers {
    key: NonceKey,
    /// How many shreds arrived, by nonce.
    answered: Bounded<u32, usize>,
}

impl Answers {
    /// Creates the state with no responses.
    pub fn new(key: NonceKey) -> Self {
        Self { key, answered: Bounded::new(ANSWERED_MAX) }
    }

    /// Maximum bytes of the state.
    pub const MEMORY: u64 = Bounded::<u32, usize>::bytes(ANSWERED_MAX);

    /// The kind of request that a shred answers, if it was recently requested with this nonce and has not arrived yet.
    pub fn awaited(&mut self, nonce: u32, shred: &Piece<'_>, now_ns: u64) -> Option<Kind> {
        let now = now_ns / TICK_NS;
        let age = now.wrapping_sub(u64::from(nonce >> 24)) & 0xff;
        if age > TICKS_MAX || age > now {
            return None;
        }
        let slot = shred.slot();
        let kinds = [Kind::Shred { slot, index: shred.index() }, Kind::Highest { slot }, Kind::Orphan];
        let kind = kinds.into_iter().find(|kind| self.key.of(*kind, now - age) == nonce)?;
        let came = self.answered.entry(nonce, || 0);
        *came += 1;
        (*came <= kind.answers_max()).then_some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shred::{FecSet, Shredder, ShredderConfig};

    const NODE: Pubkey = [4; 32];

    /// Makes the data shreds of a set of slot 9.
    fn shreds() -> Vec<Vec<u8>> {
        let mut shredder = Shredder::new(ShredderConfig::default(), [0; 32]);
        let (mut entry, mut set) = (vec![], FecSet::new());
        hearth_wire::entry::write_entry(1, &[1; 32], 1, &[2; 20_000], &mut entry);
        shredder.begin_slot(9, 8).unwrap();
        shredder.push(&entry, 1).unwrap();
        shredder.end_batch(true);
        assert!(shredder.next_set(&mut set));
        set.sign(&[6; 64]);
        set.shreds().take(32).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn answer_counts_once_for_its_request() {
        let (key, shreds) = (NonceKey([7; 32]), shreds());
        let shred = |place: usize| Piece::parse(&shreds[place]).unwrap();
        let mut answers = Answers::new(key);
        let now = 1_000 * TICK_NS;
        let nonce = key.nonce(&RequestContent::Shred { slot: 9, index: 3 }, &NODE, now);
        assert!(answers.awaited(nonce, &shred(4), now).is_none(), "another shred");
        assert!(answers.awaited(nonce ^ 1, &shred(3), now).is_none(), "another nonce");
        assert_eq!(answers.awaited(nonce, &shred(3), now + TICK_NS), Some(Kind::Shred { slot: 9, index: 3 }));
        assert!(answers.awaited(nonce, &shred(3), now + TICK_NS).is_none(), "it has come");
        // A repeated request has another nonce.
        let again = key.nonce(&RequestContent::Shred { slot: 9, index: 3 }, &NODE, now + AGAIN_NS);
        assert_ne!(again, nonce);
        assert!(answers.awaited(again, &shred(3), now + AGAIN_NS).is_some());
        let highest = key.nonce(&RequestContent::Highest { slot: 9, from: 3 }, &NODE, now);
        assert_eq!(answers.awaited(highest, &shred(31), now), Some(Kind::Highest { slot: 9 }));
        let other = key.nonce(&RequestContent::Highest { slot: 8, from: 3 }, &NODE, now);
        assert!(answers.awaited(other, &shred(31), now).is_none());
    }

    #[test]
    fn late_answers_and_too_many_do_not_count() {
        let (key, shreds) = (NonceKey([7; 32]), shreds());
        let shred = Piece::parse(&shreds[0]).unwrap();
        let mut answers = Answers::new(key);
        let now = 1_000 * TICK_NS;
        let nonce = key.nonce(&RequestContent::Orphan { slot: 12 }, &NODE, now);
        for ticks in [TICKS_MAX + 1, 256, 512] {
            assert!(answers.awaited(nonce, &shred, now + ticks * TICK_NS).is_none(), "{ticks} ticks late");
        }
        let mut came = || answers.awaited(nonce, &shred, now + TICKS_MAX * TICK_NS);
        let count = (0..100).filter(|_| came() == Some(Kind::Orphan)).count();
        assert_eq!(count, ANCESTORS * ORPHANS_WANTED);
        let mut other = Answers::new(NonceKey([8; 32]));
        assert!(other.awaited(nonce, &shred, now).is_none(), "another node's");
        // A clock that starts at zero has no older ticks.
        assert!(other.awaited(u32::MAX, &shred, 0).is_none());
    }

    #[test]
    fn nonce_for_ancestors_is_of_one_node() {
        let key = NonceKey([7; 32]);
        let of = |slot, node: u8, now| key.nonce(&RequestContent::Ancestors { slot }, &[node; 32], now);
        assert_eq!(of(9, 4, 5), of(9, 4, 5));
        for other in [
            of(8, 4, 5),
            of(9, 3, 5),
            of(9, 4, 6),
            NonceKey([8; 32]).nonce(&RequestContent::Ancestors { slot: 9 }, &NODE, 5),
        ] {
            assert_ne!(other, of(9, 4, 5));
        }
    }
}
