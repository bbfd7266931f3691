//! crypto

pub mod ed25519;
pub mod sha256;
