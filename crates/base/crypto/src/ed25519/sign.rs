//! Signing, one message or many at once.
//!
//! reads   a seed, messages
//! writes  public keys, signatures
//! memory  49 KB of tables of B for the process (4.3 MB more once addresses may depend on secrets), and about
//!         600 bytes for each signature of a burst
//! drops   nothing; secrets are wiped when a key is dropped and when a burst is done
//! source  RFC 8032 §5.1.5 and §5.1.6
//!
//! r·B is a sum of 63 table entries without doublings. A single signature spreads the tables over the
//! lanes and adds their sums; a burst gives each lane a signature. Tables are read whole, so that neither
//! branches nor addresses depend on r, except with [`TableAccess::Indexed`].

#![allow(unsafe_code)]

use super::base::{self, SigningComb, VerifyingComb};
use super::comb::{DIGITS_MAX, Digits};
use super::field::{Fe, Field, LANES_MAX, words_of};
use super::point::{Entry, Point};
use super::verify::challenge;
use super::{Arithmetic, Lanes};
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use sha2::{Digest, Sha512};
use zeroize::Zeroize;

/// A secret key, expanded from its seed. Wiped from memory on drop.
pub struct SigningKey {
    scalar: Scalar,
    prefix: [u8; 32],
    public_key: [u8; 32],
}

impl Drop for SigningKey {
    fn drop(&mut self) {
        self.scalar.zeroize();
        self.prefix.zeroize();
    }
}

/// How a burst reads the tables of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAccess {
    /// Whole, so that the time and the cache lines touched do not depend on secrets. For every key of worth.
    Hidden,
    /// Reads only the needed entries: twice as fast, but code that shares the processor's caches could learn the key.
    /// For throwaway keys, such as a load generator's.
    Indexed,
}

/// One message of a burst.
#[derive(Clone, Copy)]
pub struct SignItem<'a> {
    /// The key that signs this message; the items of a burst may have different ones.
    pub key: &'a SigningKey,
    /// The message to sign.
    pub message: &'a [u8],
}

impl SigningKey {
    /// Expands a 32-byte seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let mut hash: [u8; 64] = Sha512::digest(seed).into();
        let mut low = clamp_integer(std::array::from_fn(|i| hash[i]));
        let scalar = Scalar::from_bytes_mod_order(low);
        let prefix = std::array::from_fn(|i| hash[i + 32]);
        hash.zeroize();
        low.zeroize();
        let mut digits = SigningComb::digits(&words_of(scalar.as_bytes()));
        let point = multiply_base(&digits, Arithmetic::Detect);
        digits.zeroize();
        Self { scalar, prefix, public_key: point.encode(&point.z().invert()) }
    }

    /// The encoded public key.
    pub fn public_key(&self) -> [u8; 32] {
        self.public_key
    }

    /// The signature R ‖ S over `message`. Neither branches nor addresses depend on the key.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.sign_with(message, Arithmetic::Detect)
    }

    fn sign_with(&self, message: &[u8], arithmetic: Arithmetic) -> [u8; 64] {
        let mut nonce = self.nonce(message);
        let mut digits = SigningComb::digits(&words_of(nonce.as_bytes()));
        let point = multiply_base(&digits, arithmetic);
        digits.zeroize();
        let r = point.encode(&point.z().invert());
        let signature = self.finish(&nonce, &r, &challenge(&r, &self.public_key, message));
        nonce.zeroize();
        signature
    }

    /// r = SHA-512(prefix ‖ message) mod L.
    fn nonce(&self, message: &[u8]) -> Scalar {
        let hash = Sha512::new().chain_update(self.prefix).chain_update(message);
        let mut hash: [u8; 64] = hash.finalize().into();
        let nonce = Scalar::from_bytes_mod_order_wide(&hash);
        hash.zeroize();
        nonce
    }

    /// R ‖ r + k·a.
    fn finish(&self, nonce: &Scalar, r: &[u8; 32], k: &Scalar) -> [u8; 64] {
        let s = nonce + k * self.scalar;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(r);
        signature[32..].copy_from_slice(s.as_bytes());
        signature
    }
}

/// Signs every item; `signatures` is cleared, then holds the results in order. Fastest with a large multiple of four
/// signatures.
pub fn sign_burst(items: &[SignItem<'_>], access: TableAccess, signatures: &mut Vec<[u8; 64]>) {
    sign_burst_with(items, access, Arithmetic::Detect, signatures);
}

fn sign_burst_with(
    items: &[SignItem<'_>],
    access: TableAccess,
    arithmetic: Arithmetic,
    signatures: &mut Vec<[u8; 64]>,
) {
    signatures.clear();
    if let ([item], TableAccess::Hidden) = (items, access) {
        signatures.push(item.key.sign_with(item.message, arithmetic));
        return;
    }
    let mut nonces = nonces(items, arithmetic);
    let mut points = Vec::with_capacity(items.len());
    multiply_base_each(&nonces, access, arithmetic, &mut points);
    let mut inverses: Vec<Fe> = points.iter().map(Point::z).collect();
    Fe::invert_all(&mut inverses, &mut Vec::with_capacity(items.len()));
    let rs: Vec<[u8; 32]> = points.iter().zip(&inverses).map(|(point, inverse)| point.encode(inverse)).collect();
    let challenges = hash_each(items, arithmetic, |i| [&rs[i][..], &items[i].key.public_key[..]]);
    for (((item, nonce), r), k) in items.iter().zip(&nonces).zip(&rs).zip(&challenges) {
        signatures.push(item.key.finish(nonce, r, k));
    }
    nonces.zeroize();
}

/// Returns the nonces of all items, in order.
fn nonces(items: &[SignItem<'_>], arithmetic: Arithmetic) -> Vec<Scalar> {
    hash_each(items, arithmetic, |i| [&items[i].key.prefix[..], &[]])
}

/// SHA-512(`before(i)` ‖ message i) mod L for each item i.
fn hash_each<'a>(
    items: &'a [SignItem<'_>],
    arithmetic: Arithmetic,
    before: impl Fn(usize) -> [&'a [u8]; 2],
) -> Vec<Scalar> {
    let mut scalars = Vec::with_capacity(items.len());
    match arithmetic.lanes() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: this variant is chosen only if its instructions were detected.
        Lanes::Eight => unsafe { lanes::hash_each::<8>(items, before, &mut scalars) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Lanes::Four => unsafe { lanes::hash_each::<4>(items, before, &mut scalars) },
        Lanes::One => scalars.extend(items.iter().enumerate().map(|(i, item)| {
            let [a, b] = before(i);
            let hash = Sha512::new().chain_update(a).chain_update(b).chain_update(item.message);
            Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
        })),
    }
    scalars
}

/// scalar·B for each scalar.
fn multiply_base_each(scalars: &[Scalar], access: TableAccess, arithmetic: Arithmetic, points: &mut Vec<Point<Fe>>) {
    let hidden = access == TableAccess::Hidden;
    let digits_of = |scalar: &Scalar| {
        let words = words_of(scalar.as_bytes());
        if hidden { SigningComb::digits(&words) } else { VerifyingComb::digits(&words) }
    };
    for group in scalars.chunks(LANES_MAX) {
        let mut digits = [[0; DIGITS_MAX]; LANES_MAX];
        // Lanes without a scalar repeat the last one.
        (0..LANES_MAX).for_each(|l| digits[l] = digits_of(&group[l.min(group.len() - 1)]));
        match arithmetic.lanes() {
            #[cfg(target_arch = "x86_64")]
            Lanes::Eight => {
                // SAFETY: this variant is chosen only if its instructions were detected.
                let sum = unsafe { lanes::eight(&digits, hidden) };
                points.extend((0..group.len()).map(|l| sum.lane(l)));
            }
            #[cfg(target_arch = "x86_64")]
            Lanes::Four => {
                for (group, digits) in group.chunks(4).zip(digits.chunks(4)) {
                    // SAFETY: as above.
                    let sum = unsafe { lanes::four(digits, hidden) };
                    points.extend((0..group.len()).map(|l| sum.lane(l)));
                }
            }
            Lanes::One => points.extend(digits.iter().take(group.len()).map(|digits| match hidden {
                true => SigningComb::sum_hidden::<Fe>(base::signing_table(), 1, |_| digits),
                false => VerifyingComb::sum(Point::<Fe>::neutral(), |_| (base::verifying_table(), digits)),
            })),
        }
        digits.zeroize();
    }
}

/// The scalar with these digits times B, tables read whole.
fn multiply_base(digits: &Digits, arithmetic: Arithmetic) -> Point<Fe> {
    let table: &[Entry] = base::signing_table();
    match arithmetic.lanes() {
        #[cfg(target_arch = "x86_64")]
        Lanes::Eight => {
            // SAFETY: this variant is chosen only if its instructions were detected.
            let sum = unsafe { lanes::spread8(digits, table) };
            lanes::total(&std::array::from_fn::<_, 8, _>(|l| sum.lane(l)))
        }
        #[cfg(target_arch = "x86_64")]
        Lanes::Four => {
            // SAFETY: as above.
            let sum = unsafe { lanes::spread4(digits, table) };
            lanes::total(&std::array::from_fn::<_, 4, _>(|l| sum.lane(l)))
        }
        Lanes::One => SigningComb::sum_hidden::<Fe>(table, 1, |_| digits),
    }
}

#[cfg(target_arch = "x86_64")]
mod lanes {
    use super::super::field4::Fe4;
    use super::super::field8::Fe8;
    use super::super::sha512::Sha512;
    use super::*;

    /// The sum of the points.
    pub(super) fn total(points: &[Point<Fe>]) -> Point<Fe> {
        let (low, high) = points.split_at(points.len() / 2);
        if low.is_empty() { high[0] } else { total(low).plus_point(&total(high)) }
    }

    /// As [`super::hash_each`], in lanes.
    ///
    /// # Safety
    /// The processor must support [`Sha512`] with this many lanes.
    pub(super) unsafe fn hash_each<'a, const LANES: usize>(
        items: &'a [SignItem<'_>],
        before: impl Fn(usize) -> [&'a [u8]; 2],
        scalars: &mut Vec<Scalar>,
    ) where
        Sha512<LANES>: Default,
    {
        let mut hasher = Sha512::<LANES>::default();
        for first in (0..items.len()).step_by(LANES) {
            let messages = std::array::from_fn(|l| {
                let i = (first + l).min(items.len() - 1);
                let [a, b] = before(i);
                [a, b, items[i].message]
            });
            // SAFETY: the caller promises it.
            let mut hashes = unsafe { hasher.digest(messages) };
            scalars.extend(hashes.iter().take(items.len() - first).map(Scalar::from_bytes_mod_order_wide));
            hashes.zeroize();
        }
    }

    /// One scalar, lane l taking the tables l, l + 4, l + 8 and so on.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn spread4(digits: &Digits, table: &[Entry]) -> Point<Fe4> {
        SigningComb::sum_hidden::<Fe4>(table, 4, |_| digits)
    }

    /// One scalar, lane l taking the tables l, l + 8, l + 16 and so on.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn spread8(digits: &Digits, table: &[Entry]) -> Point<Fe8> {
        SigningComb::sum_hidden::<Fe8>(table, 8, |_| digits)
    }

    /// A scalar for each of four lanes.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn four(digits: &[Digits], hidden: bool) -> Point<Fe4> {
        each(digits, hidden)
    }

    /// A scalar for each of eight lanes.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn eight(digits: &[Digits], hidden: bool) -> Point<Fe8> {
        each(digits, hidden)
    }

    #[inline(always)]
    fn each<F: Field>(digits: &[Digits], hidden: bool) -> Point<F> {
        if hidden {
            return SigningComb::sum_hidden::<F>(base::signing_table(), 1, |l| &digits[l]);
        }
        VerifyingComb::sum(Point::<F>::neutral(), |l| (base::verifying_table(), &digits[l]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::Signer;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_path_signs_as_dalek_does(
            seeds in prop::collection::vec(any::<[u8; 32]>(), 1..10),
            message in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let keys: Vec<_> = seeds.iter().map(SigningKey::from_seed).collect();
            let items: Vec<_> = keys.iter().map(|key| SignItem { key, message: &message }).collect();
            let stock: Vec<_> = seeds.iter().map(ed25519_dalek::SigningKey::from_bytes).collect();
            let want: Vec<[u8; 64]> = stock.iter().map(|key| key.sign(&message).to_bytes()).collect();
            for (key, stock) in keys.iter().zip(&stock) {
                prop_assert_eq!(key.public_key(), stock.verifying_key().to_bytes());
            }
            let mut got = Vec::new();
            for arithmetic in [Arithmetic::Detect, Arithmetic::FourLanes, Arithmetic::Portable] {
                for access in [TableAccess::Hidden, TableAccess::Indexed] {
                    sign_burst_with(&items, access, arithmetic, &mut got);
                    prop_assert_eq!(&got, &want);
                }
                for (key, want) in keys.iter().zip(&want) {
                    prop_assert_eq!(&key.sign_with(&message, arithmetic), want);
                }
            }
        }
    }
}
