//! Signatures against published vectors, and against independent implementations.

mod ed25519;
mod ed25519_differential;
mod ed25519_paths;
mod secp256k1;
