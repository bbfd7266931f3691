//! crypto

pub mod ed25519;
pub mod merkle;
pub mod prefetch;
pub mod reed_solomon;
pub mod sha256;
