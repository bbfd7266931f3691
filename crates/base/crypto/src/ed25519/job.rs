//! A signature to verify: as it is given, and as it is in work.
//!
//! source  the rule of [`super::verify`]

use curve25519_dalek::scalar::Scalar;

use super::verify::challenge;

/// One signature of a burst.
#[derive(Clone, Copy, Debug)]
pub struct VerifyItem<'a> {
    /// The encoded public key A.
    pub public_key: &'a [u8; 32],
    /// The signature, R ‖ S.
    pub signature: &'a [u8; 64],
    /// The bytes that were signed.
    pub message: &'a [u8],
}

/// A signature in work.
pub(super) struct Job<'a> {
    pub(super) index: usize,
    pub(super) item: VerifyItem<'a>,
    pub(super) r: [u8; 32],
    pub(super) s: [u64; 4],
}

impl Job<'_> {
    /// The scalar that multiplies the key.
    pub(super) fn challenge(&self) -> Scalar {
        challenge(&self.r, self.item.public_key, self.item.message)
    }
}
