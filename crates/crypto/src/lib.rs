//! crypto

pub mod ed25519;
