//! ed25519: signing, and verification by the cluster's strict rule.
//!
//! reads   seeds, public keys, signatures and messages as bytes
//! writes  signatures, and one verdict per signature
//! memory  `Verifier`: at most `VerifierConfig::cache_bytes`, plus a few KB per burst
//! drops   nothing; a signature that is refused has a [`VerifyError`]
//! source  RFC 8032; the acceptance set is that of `verify_strict` in ed25519-dalek 2

mod base;
mod cache;
mod comb;
mod field;
#[cfg(target_arch = "x86_64")]
mod field4;
mod point;
mod verifier;
mod verify;

use ed25519_dalek::Signer;

pub use verifier::{Verifier, VerifierConfig, VerifyItem};
pub use verify::{VerifyError, verify_strict};

/// Which field arithmetic to use. The results are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Arithmetic {
    /// Four lanes where the processor has AVX2 and FMA, else portable.
    #[default]
    Detect,
    /// Portable: one element at a time, in 64-bit registers.
    Portable,
}

impl Arithmetic {
    /// Whether to compute in four lanes on this processor.
    fn four_lanes(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self == Self::Detect && field4::available();
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }
}

/// A secret key, expanded from its seed. Wiped from memory on drop.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// Expands a 32-byte seed as RFC 8032 §5.1.5 says.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// The encoded public key.
    pub fn public_key(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }

    /// The signature R ‖ S over `message`.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}
