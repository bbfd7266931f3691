//! secp256k1: public key recovery, as Ethereum recovers senders; and signing.
//!
//! reads   hashes, signatures (r, s and the parity of R's ordinate)
//! writes  one public key per signature, or the reason for a failure
//! memory  [`Recoverer`]: 50 KB, and 104 B for each item of the largest burst; [`BurstSigner`]: 56 KB at most; the
//!         process: the generator's table, 49 KB
//! drops   nothing; a rejected signature gets a [`RecoverError`]
//! source  SEC 1 §4.1.6; the rules are those of Ethereum's yellow paper, appendix F, and of EIP-2; libsecp256k1 decides
//!         where no vector lanes exist, and where the lanes leave the result open
//!
//! Only the contents of a [`Signer`] are secret: signatures, hashes and keys are public, and time depends on them. Of a
//! [`BurstSigner`] the time depends on the secrets, too.

mod burst_signer;
#[cfg(target_arch = "x86_64")]
mod eight;
#[cfg(target_arch = "x86_64")]
mod field8;
mod modular;
#[cfg(target_arch = "x86_64")]
mod octets;
#[cfg(target_arch = "x86_64")]
mod point8;
mod recoverer;
#[cfg(target_arch = "x86_64")]
mod scalar;
#[cfg(target_arch = "x86_64")]
mod sign_lanes;
mod signer;
mod single;
#[cfg(target_arch = "x86_64")]
mod table;

pub use burst_signer::BurstSigner;
pub use recoverer::Recoverer;
pub use signer::{NoSecret, Signature, Signer};

/// How to compute. The results are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Arithmetic {
    /// Eight signatures in parallel with AVX-512 and IFMA, else portable.
    #[default]
    Detect,
    /// Portable: one signature at a time, by libsecp256k1.
    Portable,
}

/// One signature of a burst.
#[derive(Clone, Copy, Debug)]
pub struct RecoverItem {
    /// The hash that was signed; taken modulo the group's order.
    pub hash: [u8; 32],
    /// The abscissa of R, big-endian. In Bitcoin it may be r + n; Ethereum has no such signatures.
    pub r: [u8; 32],
    /// The scalar s, big-endian.
    pub s: [u8; 32],
    /// Whether the ordinate of R is odd.
    pub odd: bool,
}

/// One hash of a burst to sign.
#[derive(Clone, Copy, Debug)]
pub struct SignItem<'a> {
    /// The key that signs.
    pub signer: &'a Signer,
    /// The hash to sign.
    pub hash: [u8; 32],
}

/// Policy for s in the upper half of the group's order, where (r, n − s) is also a valid signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighS {
    /// Refused, as in transactions since Homestead (EIP-2).
    Refuse,
    /// Taken, as by the precompiled contract `ecrecover` and in Frontier's transactions.
    Allow,
}

/// Why there is no public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RecoverError {
    /// r is 0, or not below the group's order.
    #[error("r is not between 1 and the group's order")]
    ROutOfRange,
    /// s is 0, or not below the group's order.
    #[error("s is not between 1 and the group's order")]
    SOutOfRange,
    /// s is in the upper half, and that was to be refused.
    #[error("s is in the upper half of the group's order")]
    HighS,
    /// No point of the curve has the abscissa r.
    #[error("r is not the x-coordinate of a point")]
    NoPoint,
    /// The key would be the point at infinity.
    #[error("the key is the point at infinity")]
    Infinity,
}

/// An uncompressed public key, x ‖ y, big-endian.
pub type PublicKey = [u8; 64];

/// The address of an account: the last 20 bytes of the Keccak-256 of its public key.
pub fn address(key: &PublicKey) -> [u8; 20] {
    last_bytes(&crate::keccak::keccak256(key))
}

/// The addresses of many keys: faster than one by one. `addresses` is cleared first.
pub fn address_burst(keys: &[PublicKey], addresses: &mut Vec<[u8; 20]>) {
    addresses.clear();
    for keys in keys.chunks(64) {
        let mut hashes = [[0; 32]; 64];
        let mut messages = [&[][..]; 64];
        messages.iter_mut().zip(keys).for_each(|(message, key)| *message = key);
        crate::keccak::keccak256_burst(&messages[..keys.len()], &mut hashes[..keys.len()]);
        addresses.extend(hashes[..keys.len()].iter().map(last_bytes));
    }
}

fn last_bytes(hash: &[u8; 32]) -> [u8; 20] {
    std::array::from_fn(|i| hash[12 + i])
}
