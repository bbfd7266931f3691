//! crypto

pub mod ed25519;
pub mod keccak;
#[cfg(target_arch = "x86_64")]
mod lanes;
pub mod merkle;
pub mod prefetch;
pub mod reed_solomon;
pub mod secp256k1;
pub mod sha256;
