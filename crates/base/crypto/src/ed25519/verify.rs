//! The strict rule, without state.
//!
//! reads   public key, signature, message
//! writes  one verdict
//! source  RFC 8032 §5.1.7, with the cofactorless equation and the small-order rules of ed25519-dalek 2
//!
//! `verify_strict` of ed25519-dalek 2 accepts when S is below L, A and R decode and are not of small order,
//! and the encoding of s·B − k·A equals R byte for byte. So does this module: it never decodes R, for the
//! encoding of a point is canonical, and bytes equal to it decode to that very point. Encodings of R that
//! decode but are not canonical (y ≥ p, or x = 0 with the sign bit) fail the comparison there as here.
//! A on the other hand may be encoded with y ≥ p: it is decoded modulo p, and hashed as it came.
//! k is reduced modulo L before it multiplies A, which matters when A has a component of small order.

use curve25519_dalek::EdwardsPoint;
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::scalar::Scalar;
use sha2::{Digest, Sha512};

use super::field::words_of;
use super::point::has_small_order_y;

/// Why a signature was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum VerifyError {
    /// S is not below the group order.
    #[error("S is not below the group order")]
    NonCanonicalS,
    /// The public key's bytes are no point of the curve.
    #[error("the public key is not a point of the curve")]
    BadKey,
    /// The public key has small order: it would sign anything.
    #[error("the public key has small order")]
    SmallOrderKey,
    /// The equation holds, but R has small order.
    #[error("R has small order")]
    SmallOrderR,
    /// R is not the encoding of s·B − k·A.
    #[error("the signature does not match")]
    Mismatch,
}

/// The group order L, little-endian words.
const ORDER: [u64; 4] = [0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 0x1000_0000_0000_0000];

/// R and S of a signature.
pub(super) fn split(signature: &[u8; 64]) -> ([u8; 32], [u8; 32]) {
    (std::array::from_fn(|i| signature[i]), std::array::from_fn(|i| signature[i + 32]))
}

/// S as words, when it is below L.
pub(super) fn canonical_scalar(bytes: &[u8; 32]) -> Result<[u64; 4], VerifyError> {
    let words = words_of(bytes);
    let below = words.iter().rev().lt(ORDER.iter().rev());
    if below { Ok(words) } else { Err(VerifyError::NonCanonicalS) }
}

/// k = SHA-512(R ‖ A ‖ message) mod L.
pub(super) fn challenge(r: &[u8; 32], public_key: &[u8; 32], message: &[u8]) -> Scalar {
    let hash = Sha512::new().chain_update(r).chain_update(public_key).chain_update(message);
    Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
}

/// The verdict, once `expected`, the encoding of s·B − k·A, is known.
pub(super) fn compare(expected: &[u8; 32], r: &[u8; 32]) -> Result<(), VerifyError> {
    if expected != r {
        return Err(VerifyError::Mismatch);
    }
    if has_small_order_y(r) {
        return Err(VerifyError::SmallOrderR);
    }
    Ok(())
}

/// Whether the bytes are a public key: those of a point of the curve, of whatever order.
pub fn is_point(public_key: &[u8; 32]) -> bool {
    CompressedEdwardsY(*public_key).decompress().is_some()
}

/// One signature by the strict rule, without state. The verdict is that of `verify_strict` in ed25519-dalek 2.
pub fn verify_strict(public_key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> Result<(), VerifyError> {
    let (r, s) = split(signature);
    canonical_scalar(&s)?;
    let a = CompressedEdwardsY(*public_key).decompress().ok_or(VerifyError::BadKey)?;
    if has_small_order_y(public_key) {
        return Err(VerifyError::SmallOrderKey);
    }
    let k = challenge(&r, public_key, message);
    let s = Scalar::from_bytes_mod_order(s);
    let expected = EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, &-a, &s);
    compare(&expected.compress().0, &r)
}
