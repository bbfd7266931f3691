//! Converts a scalar to digits: splits it by the curve's endomorphism, then into windows of odd digits.
//!
//! reads   scalars modulo n
//! writes  digits of the two halves
//! source  Gallant, Lambert and Vanstone, "Faster point multiplication on elliptic curves with efficient
//!         endomorphisms" (2001); digits of Joye and Tunstall, "Exponent recoding and regular exponentiation
//!         algorithms" (2009)
//!
//! λ·(x, y) = (β·x, y), and k = k1 + k2·λ modulo n with halves of half the size: (k, 0) less a near point of the
//! lattice of all (a, b) with a + b·λ = 0. Of the four nearest classes of that lattice modulo 2 one makes both
//! halves odd, so that no digit is ever zero and all lanes do the same. Halves are below 1.9·2^128 in magnitude.

use super::modular::{add, product, sub};

/// Bits of a half: a sum of 2^i with signs.
pub(super) const BITS: usize = 130;

#[cfg(test)]
pub(super) const LAMBDA: [u64; 4] =
    [0xdf02_967c_1b23_bd72, 0x122e_22ea_2081_6678, 0xa526_1c02_8812_645a, 0x5363_ad4c_c05c_30e0];

/// A half in two's complement.
type Half = [u64; 3];

/// The lattice's short vectors (A1, −B1) and (A2, A1).
const A1: Half = [0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd, 0];
const B1: Half = [0x6f54_7fa9_0abf_e4c3, 0xe443_7ed6_010e_8828, 0];
const A2: Half = [0x57c1_108d_9d44_cfd8, 0x14ca_50f7_a8e2_f3f6, 1];
/// 2^384·A1/n and 2^384·B1/n, rounded.
const G1: [u64; 4] = [0xe893_209a_45db_b031, 0x3daa_8a14_71e8_ca7f, 0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd];
const G2: [u64; 4] = [0x1571_b4ae_8ac4_7f71, 0x2212_08ac_9df5_06c6, 0x6f54_7fa9_0abf_e4c4, 0xe443_7ed6_010e_8828];

/// (k1, k2), both odd.
fn halves(k: &[u64; 4]) -> [Half; 2] {
    let near = |g: &[u64; 4]| {
        let wide: [u64; 8] = product(k, g);
        add(&[wide[6], wide[7], 0], &[wide[5] >> 63, 0, 0])
    };
    let (c1, c2) = (near(&G1), near(&G2));
    let times = |c: &Half, v: &Half| -> Half { product(c, v) };
    let k1 = sub(&sub(&[k[0], k[1], k[2]], &times(&c1, &A1)), &times(&c2, &A2));
    let k2 = sub(&times(&c1, &B1), &times(&c2, &A1));
    match (k1[0] & 1, k2[0] & 1) {
        (0, 0) => [add(&k1, &A1), sub(&k2, &B1)],
        (1, 0) => [add(&k1, &A2), add(&k2, &A1)],
        (0, _) => [add(&k1, &add(&A1, &A2)), add(&k2, &sub(&A1, &B1))],
        _ => [k1, k2],
    }
}

/// The halves of k with Σ (2·b_i − 1)·2^i, b_i the bits returned: a window of w bits v is the odd digit
/// 2·v − (2^w − 1).
pub(super) fn signed_bits(k: &[u64; 4]) -> [Half; 2] {
    // (half + 2^BITS − 1) / 2, positive and below 2^BITS.
    const OFFSET: Half = [u64::MAX, u64::MAX, (1 << (BITS - 128)) - 1];
    halves(k).map(|half| {
        let twice = add(&half, &OFFSET);
        [(twice[0] >> 1) | (twice[1] << 63), (twice[1] >> 1) | (twice[2] << 63), twice[2] >> 1]
    })
}

/// `WIDTH` bits from bit `at` on.
#[inline(always)]
pub(super) fn window<const WIDTH: usize>(bits: &Half, at: usize) -> u16 {
    const { assert!(WIDTH <= 16) };
    let (word, shift) = (at / 64, at % 64);
    let above = if shift + WIDTH > 64 { bits[word + 1] << (64 - shift) } else { 0 };
    ((bits[word] >> shift) | above) as u16 & ((1 << WIDTH) - 1)
}

#[cfg(test)]
mod tests {
    use super::super::modular::ORDER;
    use super::*;
    use proptest::prelude::*;

    /// Σ digits, by Horner modulo n.
    fn value_of(bits: &Half) -> [u64; 4] {
        const WIDTH: usize = 5;
        let mut sum = [0; 4];
        for at in (0..BITS).step_by(WIDTH).rev() {
            let digit = 2 * i64::from(window::<WIDTH>(bits, at)) - 31;
            assert!(digit % 2 != 0 && digit.abs() <= 31);
            sum = ORDER.mul(&sum, &[32, 0, 0, 0]);
            let magnitude = [digit.unsigned_abs(), 0, 0, 0];
            sum = if digit < 0 { add_mod(&sum, &ORDER.negate(&magnitude)) } else { add_mod(&sum, &magnitude) };
        }
        sum
    }

    fn add_mod(a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
        let rest = ORDER.negate(b);
        // a − (n − b), unless that is negative or b is 0.
        if rest != [0; 4] && a.iter().rev().ge(rest.iter().rev()) { sub(a, &rest) } else { add(a, b) }
    }

    fn check(k: &[u64; 4]) {
        let [k1, k2] = signed_bits(k).map(|bits| {
            assert!(bits[2] < 1 << (BITS - 128));
            value_of(&bits)
        });
        assert_eq!(add_mod(&k1, &ORDER.mul(&k2, &LAMBDA)), *k);
    }

    #[test]
    fn edges_come_back() {
        for small in 0..40 {
            check(&[small, 0, 0, 0]);
            check(&ORDER.negate(&[small, 0, 0, 0]));
            check(&ORDER.mul(&LAMBDA, &[small, 0, 0, 0]));
        }
    }

    proptest! {
        #[test]
        fn digits_come_back(k in any::<[u64; 4]>()) {
            check(&ORDER.reduce(k));
        }

        #[test]
        fn an_inverse_inverts(k in any::<[u64; 4]>()) {
            for modulus in [ORDER, super::super::modular::PRIME] {
                let x = modulus.reduce(k);
                prop_assert_eq!(modulus.mul(&x, &modulus.invert(&x)), [1, 0, 0, 0]);
            }
        }
    }
}
