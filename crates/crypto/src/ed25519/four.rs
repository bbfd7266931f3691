//! Verification of four signatures side by side.
//!
//! reads   jobs, tables of keys and of B
//! writes  the points s·B − k·A
//! memory  a padded copy of four messages
//! drops   nothing
//! source  the rule of [`super::verify`]; lanes of [`super::field4`]

#![allow(unsafe_code)]

use super::base::VerifyingComb;
use super::comb::{Comb, Digits};
use super::field::{Fe, Field, root_candidate, words_of};
use super::field4::Fe4;
use super::point::{Entry, Point, has_small_order_y, ratio, signed};
use super::sha512::Sha512x4;
use super::verifier::{Job, KeyComb};
use super::verify::VerifyError;
use curve25519_dalek::scalar::Scalar;

/// The shape of the scalars that multiply a key without a table.
type FreshComb = Comb<5, 1>;

/// Four lanes at work.
#[derive(Default)]
pub(super) struct Four {
    hasher: Sha512x4,
}

impl Four {
    /// s·B − k·A for each lane, whose table of −A is in `tables`.
    ///
    /// # Safety
    /// The processor has AVX2 and FMA.
    pub(super) unsafe fn sum_known(
        &mut self,
        jobs: [&Job<'_>; 4],
        tables: [&[Entry]; 4],
        base: &[Entry],
    ) -> Point<Fe4> {
        let k = self.challenges(jobs).map(|k| KeyComb::digits(&words_of(k.as_bytes())));
        let s = jobs.map(|job| VerifyingComb::digits(&job.s));
        // SAFETY: the caller promises AVX2 and FMA.
        unsafe { from_tables(tables, &k, base, &s) }
    }

    /// s·B − k·A for each lane whose verdict is `Ok`; the others' keys are no good.
    ///
    /// # Safety
    /// The processor has AVX2 and FMA.
    pub(super) unsafe fn sum_fresh(
        &mut self,
        jobs: [&Job<'_>; 4],
        base: &[Entry],
    ) -> ([Result<(), VerifyError>; 4], Point<Fe4>) {
        let keys = jobs.map(|job| job.item.public_key);
        let ys = keys.map(Fe::from_bytes);
        let ratios = ys.map(|y| ratio(&y));
        let words = ratios.map(|(u, v)| [u.to_words(), v.to_words()]);
        // SAFETY: the caller promises AVX2 and FMA.
        let roots = unsafe { roots(&words) };
        let mut negated = [(Fe::ZERO, Fe::ONE); 4];
        let verdicts = std::array::from_fn(|l| {
            let root = Fe::checked_root(&ratios[l].0, &ratios[l].1, &roots.lane(l));
            let x = root.ok_or(VerifyError::BadKey)?;
            if has_small_order_y(keys[l]) {
                return Err(VerifyError::SmallOrderKey);
            }
            negated[l] = (Fe::ZERO.minus(&signed(x, keys[l])), ys[l]);
            Ok(())
        });
        let k = self.challenges(jobs).map(|k| FreshComb::digits(&words_of(k.as_bytes())));
        let s = jobs.map(|job| VerifyingComb::digits(&job.s));
        // SAFETY: the caller promises AVX2 and FMA.
        (verdicts, unsafe { from_points(&negated, &k, base, &s) })
    }

    fn challenges(&mut self, jobs: [&Job<'_>; 4]) -> [Scalar; 4] {
        let messages = jobs.map(|job| [&job.r[..], &job.item.public_key[..], job.item.message]);
        // SAFETY: called only by functions whose callers promise AVX2.
        let hashes = unsafe { self.hasher.digest(messages) };
        hashes.map(|hash| Scalar::from_bytes_mod_order_wide(&hash))
    }
}

#[target_feature(enable = "avx2,fma")]
fn roots(ratios: &[[[u64; 4]; 2]; 4]) -> Fe4 {
    root_candidate(&Fe4::load(|l| &ratios[l][0]), &Fe4::load(|l| &ratios[l][1]))
}

#[target_feature(enable = "avx2,fma")]
fn from_tables(tables: [&[Entry]; 4], k: &[Digits; 4], base: &[Entry], s: &[Digits; 4]) -> Point<Fe4> {
    let from_keys = KeyComb::sum(Point::neutral(), |l| (tables[l], &k[l]));
    VerifyingComb::sum(from_keys, |l| (base, &s[l]))
}

#[target_feature(enable = "avx2,fma")]
fn from_points(affine: &[(Fe, Fe); 4], k: &[Digits; 4], base: &[Entry], s: &[Digits; 4]) -> Point<Fe4> {
    let from_keys = FreshComb::multiply(&Point::gather(|l| affine[l]), |l| &k[l]);
    VerifyingComb::sum(from_keys, |l| (base, &s[l]))
}
