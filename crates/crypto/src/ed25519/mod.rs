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
#[cfg(target_arch = "x86_64")]
mod four;
mod point;
#[cfg(target_arch = "x86_64")]
mod sha512;
mod sign;
mod verifier;
mod verify;

pub use sign::{SignItem, SigningKey, TableAccess, sign_burst};
pub use verifier::{Verifier, VerifierConfig, VerifyItem};
pub use verify::{VerifyError, is_point, verify_strict};

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
