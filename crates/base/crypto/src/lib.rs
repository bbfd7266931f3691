//! crypto: signatures, hashes, Merkle trees and erasure codes, with vector kernels where the processor has them.

pub mod ed25519;
pub mod keccak;
#[cfg(target_arch = "x86_64")]
mod lanes;
pub mod merkle;
pub mod prefetch;
pub mod reed_solomon;
pub mod secp256k1;
pub mod sha256;
