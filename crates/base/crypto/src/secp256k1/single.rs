//! One signature at a time, by libsecp256k1.
//!
//! reads   a signature whose r and s are in range
//! writes  its public key
//! memory  one context of the library
//! source  the crate `secp256k1`; also decides signatures that the lanes cannot

use super::{PublicKey, RecoverError, RecoverItem};
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, Secp256k1, VerifyOnly};

/// The library at work.
pub(super) struct Single {
    curve: Secp256k1<VerifyOnly>,
}

impl Single {
    pub(super) fn new() -> Self {
        Self { curve: Secp256k1::verification_only() }
    }

    /// Recovers the key of a signature whose r and s have been checked; s may be high.
    pub(super) fn recover(&self, item: &RecoverItem) -> Result<PublicKey, RecoverError> {
        let mut compact = [0; 64];
        compact[..32].copy_from_slice(&item.r);
        compact[32..].copy_from_slice(&item.s);
        let id = if item.odd { RecoveryId::One } else { RecoveryId::Zero };
        let signature = RecoverableSignature::from_compact(&compact, id).expect("r and s are in range");
        match self.curve.recover_ecdsa(Message::from_digest(item.hash), &signature) {
            Ok(key) => Ok(std::array::from_fn(|i| key.serialize_uncompressed()[1 + i])),
            Err(_) => Err(refusal(item)),
        }
    }
}

/// Determines why there is no key, which the library does not report.
fn refusal(item: &RecoverItem) -> RecoverError {
    let mut point = [2; 33];
    point[1..].copy_from_slice(&item.r);
    match secp256k1::PublicKey::from_slice(&point) {
        Ok(_) => RecoverError::Infinity,
        Err(_) => RecoverError::NoPoint,
    }
}
