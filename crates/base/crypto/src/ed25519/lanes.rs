//! Verification of several signatures side by side, one for each lane of a field.
//!
//! reads   jobs, tables of keys and of B
//! writes  the points s·B − k·A
//! memory  a padded copy of a message for each lane
//! source  the rule of [`super::verify`]; lanes of [`super::field4`] and [`super::field8`]

#![allow(unsafe_code)]

use super::base::VerifyingComb;
use super::comb::{Comb, Digits, KeyComb};
use super::field::{Fe, Field, LANES_MAX, root_candidate, words_of};
use super::field4::Fe4;
use super::field8::Fe8;
use super::job::Job;
use super::point::{Entry, Point, has_small_order_y, ratio, signed};
use super::sha512::Sha512;
use super::verify::VerifyError;
use curve25519_dalek::scalar::Scalar;

/// The comb of a scalar whose key has no precomputed table.
type FreshComb = Comb<5, 1>;

/// Defines a verifier of `$lanes` lanes on elements `$field`, which need the processor's features `$features`.
macro_rules! lanes {
    ($name:ident, $module:ident, $lanes:literal, $field:ty, $features:literal) => {
        /// State of the lanes, reused between bursts.
        #[derive(Default)]
        pub(super) struct $name {
            hasher: Sha512<$lanes>,
        }

        impl $name {
            /// Lanes of this width.
            pub(super) const LANES: usize = $lanes;

            /// Appends s·B − k·A of `count` jobs; `lane(l)` gives job l and its table of −A.
            ///
            /// # Safety
            /// The processor must support the lanes' instructions.
            pub(super) unsafe fn sum_known<'a>(
                &mut self,
                count: usize,
                lane: impl Fn(usize) -> (&'a Job<'a>, &'a [Entry]),
                base: &[Entry],
                points: &mut Vec<Point<Fe>>,
            ) {
                // Lanes without a signature repeat the last one.
                let lanes: [_; $lanes] = std::array::from_fn(|l| lane(l.min(count - 1)));
                let jobs = lanes.map(|(job, _)| job);
                let k = self.challenges(jobs).map(|k| KeyComb::digits(&words_of(k.as_bytes())));
                let s = jobs.map(|job| VerifyingComb::digits(&job.s));
                // SAFETY: the caller promises it.
                let sum = unsafe { $module::from_tables(lanes.map(|(_, table)| table), &k, base, &s) };
                points.extend((0..count).map(|l| sum.lane(l)));
            }

            /// Appends the verdicts of at most as many jobs as there are lanes, and s·B − k·A for those whose verdict
            /// is `Ok`; the other keys are invalid.
            ///
            /// # Safety
            /// The processor must support the lanes' instructions.
            pub(super) unsafe fn sum_fresh(
                &mut self,
                jobs: &[Job<'_>],
                base: &[Entry],
                points: &mut Vec<Point<Fe>>,
            ) -> [Result<(), VerifyError>; LANES_MAX] {
                let lanes: [&Job<'_>; $lanes] = std::array::from_fn(|l| &jobs[l.min(jobs.len() - 1)]);
                let keys = lanes.map(|job| job.item.public_key);
                let ys = keys.map(Fe::from_bytes);
                let ratios = ys.map(|y| ratio(&y));
                let words = ratios.map(|(u, v)| [u.to_words(), v.to_words()]);
                // SAFETY: the caller promises it.
                let roots = unsafe { $module::roots(&words) };
                let mut verdicts = [Ok(()); LANES_MAX];
                let mut negated = [(Fe::ZERO, Fe::ONE); $lanes];
                for (l, key) in keys.into_iter().enumerate() {
                    match Fe::checked_root(&ratios[l].0, &ratios[l].1, &roots.lane(l)) {
                        None => verdicts[l] = Err(VerifyError::BadKey),
                        Some(_) if has_small_order_y(key) => verdicts[l] = Err(VerifyError::SmallOrderKey),
                        Some(x) => negated[l] = (Fe::ZERO.minus(&signed(x, key)), ys[l]),
                    }
                }
                let k = self.challenges(lanes).map(|k| FreshComb::digits(&words_of(k.as_bytes())));
                let s = lanes.map(|job| VerifyingComb::digits(&job.s));
                // SAFETY: the caller promises it.
                let sum = unsafe { $module::from_points(&negated, &k, base, &s) };
                points.extend((0..jobs.len()).filter(|l| verdicts[*l].is_ok()).map(|l| sum.lane(l)));
                verdicts
            }

            fn challenges(&mut self, jobs: [&Job<'_>; $lanes]) -> [Scalar; $lanes] {
                let messages = jobs.map(|job| [&job.r[..], &job.item.public_key[..], job.item.message]);
                // SAFETY: this function's callers promise the instructions that the lanes need, the hasher's included.
                let hashes = unsafe { self.hasher.digest(messages) };
                hashes.map(|hash| Scalar::from_bytes_mod_order_wide(&hash))
            }
        }

        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            pub(super) fn roots(ratios: &[[[u64; 4]; 2]; $lanes]) -> $field {
                root_candidate(&<$field>::load(|l| &ratios[l][0]), &<$field>::load(|l| &ratios[l][1]))
            }

            #[target_feature(enable = $features)]
            pub(super) fn from_tables(
                tables: [&[Entry]; $lanes],
                k: &[Digits; $lanes],
                base: &[Entry],
                s: &[Digits; $lanes],
            ) -> Point<$field> {
                let from_keys = KeyComb::sum(Point::neutral(), |l| (tables[l], &k[l]));
                VerifyingComb::sum(from_keys, |l| (base, &s[l]))
            }

            #[target_feature(enable = $features)]
            pub(super) fn from_points(
                affine: &[(Fe, Fe); $lanes],
                k: &[Digits; $lanes],
                base: &[Entry],
                s: &[Digits; $lanes],
            ) -> Point<$field> {
                let from_keys = FreshComb::multiply(&Point::gather(|l| affine[l]), |l| &k[l]);
                VerifyingComb::sum(from_keys, |l| (base, &s[l]))
            }
        }
    };
}

lanes!(Four, four, 4, Fe4, "avx2,fma");
lanes!(Eight, eight, 8, Fe8, "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma");
