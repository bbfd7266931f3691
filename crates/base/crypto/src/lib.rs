//! crypto: signatures, hashes, Merkle trees and erasure codes, with vector kernels where the processor has them.
//!
//! # What is constant-time
//!
//! "Constant-time" means here that the source has no branch and no memory address that depends on a secret. No test
//! measures it, and no tool checks the compiled code.
//!
//! - [`ed25519::SigningKey::from_seed`], [`ed25519::SigningKey::sign`], and [`ed25519::sign_burst`] with
//!   [`ed25519::TableAccess::Hidden`]: tables are read whole and entries selected by masks. Scalars modulo L are those
//!   of `curve25519-dalek`. The key, the nonce and its digits are wiped. The caller's seed, the state of the hash
//!   functions and the points on the way to R are not.
//! - [`secp256k1::Signer`]: libsecp256k1 signs, and its authors state that property. Its context is not blinded by
//!   random numbers, and the secret is not wiped when a `Signer` is dropped.
//! - [`sha256`] and [`keccak`]: the steps depend on the message's length alone.
//!
//! # What is not
//!
//! - [`ed25519::sign_burst`] with [`ed25519::TableAccess::Indexed`]: it reads tables at secret addresses. Only the load
//!   generator uses it, for throwaway keys.
//! - [`secp256k1::BurstSigner`], likewise: digits of the nonce are places in tables, and its arithmetic branches. Only
//!   `hearth load` uses it, for the accounts that send.
//! - All verification and recovery: [`ed25519::Verifier`], [`ed25519::verify_strict`], [`secp256k1::Recoverer`]. Keys,
//!   signatures and messages are public there. The verifier's cache shows which keys were met before.
//! - [`merkle`] and [`reed_solomon`]: shreds and signatures are public.
//!
//! # What the tests compare with
//!
//! | Part | Published vectors | Oracle |
//! |---|---|---|
//! | ed25519, verification | RFC 8032 (3), Wycheproof (151), "Taming the many EdDSAs" (14) | `ed25519-dalek` 2, strict |
//! | ed25519, signing | RFC 8032 (3) | `ed25519-dalek` 2 |
//! | SHA-512 in lanes | none | `sha2` |
//! | secp256k1, recovery | none | libsecp256k1, which also computes the portable path |
//! | secp256k1, signing | the first account of the development mnemonic | none: libsecp256k1 signs |
//! | SHA-256 | 3 digests of FIPS 180 | `sha2`, which also compresses on the portable path |
//! | Keccak-256 | 2 digests | `sha3` |
//! | Merkle trees | none | the definition, written out with `sha2` |
//! | Reed–Solomon | none | `reed-solomon-erasure` 6 |
//!
//! Property tests run ed25519 verification, signing and secp256k1 recovery on every path that the machine has: eight
//! lanes, four lanes, portable. On a processor without AVX-512 IFMA the eight lanes are therefore not tested. Valid,
//! damaged and forged inputs are drawn, with small-order and mixed-order points and non-canonical encodings. Of the 151
//! vectors of Wycheproof, 12 have another length than 64 bytes, which the interface excludes.

pub mod ed25519;
pub mod keccak;
#[cfg(target_arch = "x86_64")]
mod lanes;
pub mod merkle;
pub mod prefetch;
pub mod reed_solomon;
pub mod secp256k1;
pub mod sha256;
