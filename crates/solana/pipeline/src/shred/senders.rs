//! senders: have the parents in the tree signed for the shreds of a last set that they sent on?
//!
//! reads   parents' signatures of the roots of last sets
//! writes  whether they are right
//! memory  1 MiB of tables of keys; [`KNOWN_MAX`] signatures, 128 B each
//! drops   the oldest signature, where one more is known
//! source  `docs/cluster-protocol.md`, section 2.4
//!
//! A node signs a root once, for all shreds of the set that it sends on: among ten nodes a set has one signature of
//! each of eight parents. A valid signature is remembered, so that it is verified once and not for each shred.

use std::collections::VecDeque;

use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_wire::{Hash, Pubkey, Signature};

/// Bytes for the precomputed tables of the keys that sign last sets.
const TABLE_BYTES: usize = 1 << 20;
/// Signatures that are remembered: a set has 64 at most, one for each shred, and shreds of two slots may alternate.
const KNOWN_MAX: usize = 128;

/// A signature that a parent in the tree made.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ParentSignature {
    parent: Pubkey,
    root: Hash,
    signature: Signature,
}

/// Verifies the signatures by which parents in the tree vouch for a slot's last set.
pub(super) struct Senders {
    verifier: Verifier,
    /// Right signatures, the newest last.
    known: VecDeque<ParentSignature>,
}

impl Senders {
    pub fn new() -> Self {
        let tables = VerifierConfig { cache_bytes: TABLE_BYTES, ..VerifierConfig::default() };
        Self { verifier: Verifier::new(tables), known: VecDeque::with_capacity(KNOWN_MAX) }
    }

    /// Whether this is the signature of `parent` under `root`.
    pub fn have_signed(&mut self, parent: &Pubkey, root: &Hash, signature: &Signature) -> bool {
        let signed = ParentSignature { parent: *parent, root: *root, signature: *signature };
        if self.known.contains(&signed) {
            return true;
        }
        let is_right = self.verifier.verify(parent, signature, root).is_ok();
        if is_right {
            if self.known.len() == KNOWN_MAX {
                self.known.pop_front();
            }
            self.known.push_back(signed);
        }
        is_right
    }
}

#[cfg(test)]
mod tests {
    use hearth_crypto::ed25519::SigningKey;

    use super::*;

    #[test]
    fn only_verified_signatures_are_remembered() {
        let mut senders = Senders::new();
        let keys = [1, 2].map(|seed| SigningKey::from_seed(&[seed; 32]));
        let roots = [[3; 32], [4; 32]];
        for _ in 0..3 {
            for (key, other) in [(&keys[0], &keys[1]), (&keys[1], &keys[0])] {
                for (root, another) in [(roots[0], roots[1]), (roots[1], roots[0])] {
                    let signature = key.sign(&root);
                    assert!(senders.have_signed(&key.public_key(), &root, &signature));
                    assert!(!senders.have_signed(&other.public_key(), &root, &signature));
                    assert!(!senders.have_signed(&key.public_key(), &another, &signature));
                    for byte in [0, 31, 32, 63] {
                        let mut wrong = signature;
                        wrong[byte] ^= 1;
                        assert!(!senders.have_signed(&key.public_key(), &root, &wrong), "byte {byte}");
                    }
                }
            }
            assert_eq!(senders.known.len(), 4, "each is remembered once");
        }
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut senders = Senders::new();
        let key = SigningKey::from_seed(&[1; 32]);
        for number in 0..=KNOWN_MAX as u8 {
            let root = [number; 32];
            assert!(senders.have_signed(&key.public_key(), &root, &key.sign(&root)));
        }
        assert_eq!(senders.known.len(), KNOWN_MAX);
        assert_eq!(senders.known[0].root, [1; 32]);
        let first = [0; 32];
        assert!(senders.have_signed(&key.public_key(), &first, &key.sign(&first)), "it is verified again");
    }
}
