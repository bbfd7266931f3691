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
mod field8;
mod job;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod point;
#[cfg(target_arch = "x86_64")]
mod sha512;
mod sign;
mod verifier;
mod verify;

pub use job::VerifyItem;
pub use sign::{SignItem, SigningKey, TableAccess, sign_burst};
pub use verifier::{Verifier, VerifierConfig};
pub use verify::{VerifyError, is_point, verify_strict};

/// Which field arithmetic to use. The results are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Arithmetic {
    /// The fastest available: eight lanes with AVX-512 IFMA, four with AVX2 and FMA, else portable.
    #[default]
    Detect,
    /// Four lanes at most.
    FourLanes,
    /// Portable: one element at a time, in 64-bit registers.
    Portable,
}

/// Number of elements computed in parallel, by the detected instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lanes {
    /// Eight lanes of AVX-512 IFMA.
    #[cfg(target_arch = "x86_64")]
    Eight,
    /// Four lanes of AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Four,
    One,
}

impl Arithmetic {
    fn lanes(self) -> Lanes {
        #[cfg(target_arch = "x86_64")]
        if self != Self::Portable {
            if self == Self::Detect && field8::available() {
                return Lanes::Eight;
            }
            if field4::available() {
                return Lanes::Four;
            }
        }
        Lanes::One
    }
}
