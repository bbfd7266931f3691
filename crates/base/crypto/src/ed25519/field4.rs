//! Four field elements side by side, in the double-precision lanes of AVX2 and FMA.
//!
//! reads   four elements, one for each lane
//! writes  the same
//! source  splitting an exact product with two fused multiply-adds (Dekker 1971; for 52-bit limbs
//!         N. Emmart, "Faster modular exponentiation using double precision floating point arithmetic")
//!
//! An element is five limbs of radix 2^51, held as doubles that are whole numbers of either sign, at most
//! 2^50 + 2^12 after `reduce` and below 2^51 after `load`.
//!
//! Let |a·b| < 2^102. Then fma(a, b, 1.5·2^103) lies between 2^103 and 2^104, where neighbouring doubles
//! are 2^51 apart, so that it is 1.5·2^103 + 2^51·h with h the rounded high part. Subtracting it from
//! 1.5·2^103 + 1.5·2^52 (both differences are exact) and adding a·b with a second fma gives
//! 1.5·2^52 + l exactly, where a·b = 2^51·h + l and |l| ≤ 2^50. In both results the number wanted is
//! an offset of the bit pattern read as an integer, so that columns are summed by integer additions and
//! the constant patterns are taken off once for each column. Rounding is to nearest, as Rust guarantees.
//!
//! An [`Fe4`] is made only by `load` and `splat`, which generic code calls within functions that need AVX2 and
//! FMA; those are entered only where [`available`] held. That an `Fe4` exists proves the rest safe.

#![allow(unsafe_code)]

use super::field::{Fe, Field};
use crate::lanes::five;
use core::arch::x86_64::*;

/// Whether this processor has the instructions that [`Fe4`] uses.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// Four elements. Values exist only on processors where [`available`] holds.
#[derive(Clone, Copy)]
pub(super) struct Fe4([__m256d; 5]);

/// Column sums of products, five columns of four lanes.
#[derive(Clone, Copy)]
pub(super) struct Wide4([__m256i; 5]);

const HIGH: f64 = 1.5 * (1u128 << 103) as f64;
const LOW: f64 = 1.5 * (1u64 << 52) as f64;
const HIGH_BITS: u64 = HIGH.to_bits();
const LOW_BITS: u64 = LOW.to_bits();
const MASK: i64 = (1 << 51) - 1;
/// Makes every column positive before it is shifted; columns stay below 2^61 in magnitude.
const BIAS: u64 = 1 << 62;

/// The bit patterns that one product leaves in each column: column i of the ten sums i + 1 low halves (9 − i
/// from column 5 on) and as many high halves as column i − 1 has products; columns 5 to 9 count 19-fold.
const PATTERN: [u64; 5] = {
    let mut columns = [0u64; 10];
    let mut i = 0;
    while i < 25 {
        let at = i / 5 + i % 5;
        columns[at] = columns[at].wrapping_add(LOW_BITS);
        columns[at + 1] = columns[at + 1].wrapping_add(HIGH_BITS);
        i += 1;
    }
    let mut folded = [0u64; 5];
    let mut k = 0;
    while k < 5 {
        folded[k] = columns[k].wrapping_add(columns[k + 5].wrapping_mul(19));
        k += 1;
    }
    folded
};

/// Offset added to a column of `products` products before the shift: the bias and the rounding half, minus the
/// patterns.
const fn offset(products: i32) -> [u64; 5] {
    let mut out = [0; 5];
    let mut k = 0;
    while k < 5 {
        let patterns = PATTERN[k].wrapping_mul(products as i64 as u64);
        out[k] = BIAS.wrapping_add(1 << 50).wrapping_sub(patterns);
        k += 1;
    }
    out
}

/// What turns the low 51 bits plus the neighbour's carry into the bits of 1.5·2^52 + limb: the rounding half
/// and the bias's carry come off again.
const LIMB_OFFSET: [i64; 5] = {
    let usual = (LOW_BITS - (1 << 50) - (BIAS >> 51)) as i64;
    [(LOW_BITS - (1 << 50) - 19 * (BIAS >> 51)) as i64, usual, usual, usual, usual]
};

/// Accumulates `low` into column `at` and `high` into the next.
macro_rules! product {
    ($a:expr, $b:expr, $high:ident, $pair:ident, $column:ident, $next:ident) => {{
        let h = _mm256_fmadd_pd($a, $b, $high);
        let l = _mm256_fmadd_pd($a, $b, _mm256_sub_pd($pair, h));
        $next = _mm256_add_epi64($next, _mm256_castpd_si256(h));
        $column = _mm256_add_epi64($column, _mm256_castpd_si256(l));
    }};
}

impl Fe4 {
    /// The bits of 1.5·2^52 + limb for each limb, as signed integers.
    #[inline(always)]
    fn integers(&self) -> [__m256i; 5] {
        // SAFETY: an `Fe4` exists, so AVX2 is available.
        unsafe {
            let low = _mm256_set1_pd(LOW);
            let bits = _mm256_set1_epi64x(LOW_BITS as i64);
            five!(I => _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(self.0[I], low)), bits))
        }
    }
}

/// The limbs of each lane, as doubles.
#[inline]
#[target_feature(enable = "avx2")]
fn store(x: &Fe4) -> [[f64; 4]; 5] {
    let mut out = [[0.0; 4]; 5];
    for (to, from) in out.iter_mut().zip(&x.0) {
        // SAFETY: `to` is 32 writable bytes; the store needs no alignment.
        unsafe { _mm256_storeu_pd(to.as_mut_ptr(), *from) };
    }
    out
}

/// low + 19·high, since 2^255 = 19.
#[inline]
#[target_feature(enable = "avx2")]
fn fold(low: [__m256i; 5], high: [__m256i; 5]) -> Wide4 {
    Wide4(five!(I => {
        let three = _mm256_add_epi64(_mm256_add_epi64(high[I], high[I]), high[I]);
        _mm256_add_epi64(_mm256_add_epi64(low[I], three), _mm256_slli_epi64::<4>(high[I]))
    }))
}

/// Not inlined: seven copies in a sum of points outgrow the processor's cache of decoded instructions, and decoding
/// them again takes a fifth more time.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn multiply(a: &Fe4, b: &Fe4) -> Wide4 {
    let (a, b) = (&a.0, &b.0);
    let high = _mm256_set1_pd(HIGH);
    let pair = _mm256_set1_pd(HIGH + LOW);
    let zero = _mm256_setzero_si256();
    let (mut c0, mut c1, mut c2, mut c3, mut c4) = (zero, zero, zero, zero, zero);
    let (mut c5, mut c6, mut c7, mut c8, mut c9) = (zero, zero, zero, zero, zero);
    product!(a[0], b[0], high, pair, c0, c1);
    product!(a[0], b[1], high, pair, c1, c2);
    product!(a[1], b[0], high, pair, c1, c2);
    product!(a[0], b[2], high, pair, c2, c3);
    product!(a[1], b[1], high, pair, c2, c3);
    product!(a[2], b[0], high, pair, c2, c3);
    product!(a[0], b[3], high, pair, c3, c4);
    product!(a[1], b[2], high, pair, c3, c4);
    product!(a[2], b[1], high, pair, c3, c4);
    product!(a[3], b[0], high, pair, c3, c4);
    product!(a[0], b[4], high, pair, c4, c5);
    product!(a[1], b[3], high, pair, c4, c5);
    product!(a[2], b[2], high, pair, c4, c5);
    product!(a[3], b[1], high, pair, c4, c5);
    product!(a[4], b[0], high, pair, c4, c5);
    product!(a[1], b[4], high, pair, c5, c6);
    product!(a[2], b[3], high, pair, c5, c6);
    product!(a[3], b[2], high, pair, c5, c6);
    product!(a[4], b[1], high, pair, c5, c6);
    product!(a[2], b[4], high, pair, c6, c7);
    product!(a[3], b[3], high, pair, c6, c7);
    product!(a[4], b[2], high, pair, c6, c7);
    product!(a[3], b[4], high, pair, c7, c8);
    product!(a[4], b[3], high, pair, c7, c8);
    product!(a[4], b[4], high, pair, c8, c9);
    fold([c0, c1, c2, c3, c4], [c5, c6, c7, c8, c9])
}

/// Fifteen products: the mixed ones are doubled as integers, patterns and all, so that a square leaves the
/// same patterns as a product.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn multiply_self(a: &Fe4) -> Wide4 {
    let a = &a.0;
    let high = _mm256_set1_pd(HIGH);
    let pair = _mm256_set1_pd(HIGH + LOW);
    let zero = _mm256_setzero_si256();
    // Mixed products first, doubled, then the squares of limbs.
    let (mut c1, mut c2, mut c3, mut c4) = (zero, zero, zero, zero);
    let (mut c5, mut c6, mut c7, mut c8) = (zero, zero, zero, zero);
    product!(a[0], a[1], high, pair, c1, c2);
    product!(a[0], a[2], high, pair, c2, c3);
    product!(a[0], a[3], high, pair, c3, c4);
    product!(a[1], a[2], high, pair, c3, c4);
    product!(a[0], a[4], high, pair, c4, c5);
    product!(a[1], a[3], high, pair, c4, c5);
    product!(a[1], a[4], high, pair, c5, c6);
    product!(a[2], a[3], high, pair, c5, c6);
    product!(a[2], a[4], high, pair, c6, c7);
    product!(a[3], a[4], high, pair, c7, c8);
    for column in [&mut c1, &mut c2, &mut c3, &mut c4, &mut c5, &mut c6, &mut c7, &mut c8] {
        *column = _mm256_add_epi64(*column, *column);
    }
    let (mut c0, mut c9) = (zero, zero);
    product!(a[0], a[0], high, pair, c0, c1);
    product!(a[1], a[1], high, pair, c2, c3);
    product!(a[2], a[2], high, pair, c4, c5);
    product!(a[3], a[3], high, pair, c6, c7);
    product!(a[4], a[4], high, pair, c8, c9);
    fold([c0, c1, c2, c3, c4], [c5, c6, c7, c8, c9])
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn carry<const PRODUCTS: i32>(wide: Wide4) -> Fe4 {
    let mask = _mm256_set1_epi64x(MASK);
    let offsets = const { offset(PRODUCTS) };
    let x = five!(I => _mm256_add_epi64(wide.0[I], _mm256_set1_epi64x(offsets[I] as i64)));
    let up = five!(I => _mm256_srli_epi64::<51>(x[I]));
    // The topmost carry is below 2^12 and positive, so that a 32-bit product is enough.
    let around = _mm256_mul_epu32(up[4], _mm256_set1_epi64x(19));
    let low = _mm256_set1_pd(LOW);
    let carried = [around, up[0], up[1], up[2], up[3]];
    Fe4(five!(I => {
        let limb = _mm256_add_epi64(_mm256_and_si256(x[I], mask), carried[I]);
        let bits = _mm256_add_epi64(limb, _mm256_set1_epi64x(LIMB_OFFSET[I]));
        _mm256_sub_pd(_mm256_castsi256_pd(bits), low)
    }))
}

/// Transposes four rows of four words and splits the columns into limbs.
#[inline]
#[target_feature(enable = "avx2")]
fn split(rows: [&[u64; 4]; 4]) -> Fe4 {
    // SAFETY: each row is 32 readable bytes; the load needs no alignment.
    let (r0, r1, r2, r3) = unsafe {
        (
            _mm256_loadu_si256(rows[0].as_ptr().cast()),
            _mm256_loadu_si256(rows[1].as_ptr().cast()),
            _mm256_loadu_si256(rows[2].as_ptr().cast()),
            _mm256_loadu_si256(rows[3].as_ptr().cast()),
        )
    };
    let (t0, t1) = (_mm256_unpacklo_epi64(r0, r1), _mm256_unpackhi_epi64(r0, r1));
    let (t2, t3) = (_mm256_unpacklo_epi64(r2, r3), _mm256_unpackhi_epi64(r2, r3));
    let w0 = _mm256_permute2x128_si256::<0x20>(t0, t2);
    let w1 = _mm256_permute2x128_si256::<0x20>(t1, t3);
    let w2 = _mm256_permute2x128_si256::<0x31>(t0, t2);
    let w3 = _mm256_permute2x128_si256::<0x31>(t1, t3);
    let mask = _mm256_set1_epi64x(MASK);
    let l1 = _mm256_or_si256(_mm256_srli_epi64::<51>(w0), _mm256_slli_epi64::<13>(w1));
    let l2 = _mm256_or_si256(_mm256_srli_epi64::<38>(w1), _mm256_slli_epi64::<26>(w2));
    let l3 = _mm256_or_si256(_mm256_srli_epi64::<25>(w2), _mm256_slli_epi64::<39>(w3));
    let unit = _mm256_set1_pd((1u64 << 52) as f64);
    let limbs = [w0, l1, l2, l3, _mm256_srli_epi64::<12>(w3)];
    Fe4(five!(I => {
        let bits = _mm256_or_si256(_mm256_and_si256(limbs[I], mask), _mm256_castpd_si256(unit));
        _mm256_sub_pd(_mm256_castsi256_pd(bits), unit)
    }))
}

#[inline]
#[target_feature(enable = "avx2")]
fn flip(x: &Fe4, negative: [bool; 4]) -> Fe4 {
    let n = |lane: usize| (u64::from(negative[lane]) << 63) as i64;
    let signs = _mm256_castsi256_pd(_mm256_set_epi64x(n(3), n(2), n(1), n(0)));
    Fe4(five!(I => _mm256_xor_pd(x.0[I], signs)))
}

impl Field for Fe4 {
    type Wide = Wide4;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(value: &Fe) -> Self {
        let words = value.to_words();
        Self::load(|_| &words)
    }

    #[inline(always)]
    fn load<'a>(words: impl Fn(usize) -> &'a [u64; 4]) -> Self {
        // SAFETY: the callers of the generic code choose `Fe4` only where `available` holds.
        unsafe { split([words(0), words(1), words(2), words(3)]) }
    }

    fn lane(&self, lane: usize) -> Fe {
        // 4p keeps the sum positive: limbs are above −2^53.
        const FOUR_P: [i64; 5] = [4 * (MASK - 18), 4 * MASK, 4 * MASK, 4 * MASK, 4 * MASK];
        // SAFETY: an `Fe4` exists, so AVX2 is available.
        let limbs = unsafe { store(self) };
        Fe(core::array::from_fn(|i| (limbs[i][lane] as i64 + FOUR_P[i]) as u64)).carried()
    }

    #[inline(always)]
    fn negate_if(&self, negative: impl Fn(usize) -> bool) -> Self {
        // SAFETY: an `Fe4` exists, so AVX2 is available.
        unsafe { flip(self, [negative(0), negative(1), negative(2), negative(3)]) }
    }

    #[inline(always)]
    fn mul(&self, other: &Self) -> Wide4 {
        // SAFETY: an `Fe4` exists, so AVX2 and FMA are available.
        unsafe { multiply(self, other) }
    }

    #[inline(always)]
    fn square(&self) -> Wide4 {
        // SAFETY: an `Fe4` exists, so AVX2 and FMA are available.
        unsafe { multiply_self(self) }
    }

    #[inline(always)]
    fn widen(&self) -> Wide4 {
        Wide4(self.integers())
    }

    #[inline(always)]
    fn add(a: Wide4, b: Wide4) -> Wide4 {
        // SAFETY: a `Wide4` is made from `Fe4`s, so AVX2 is available.
        unsafe { Wide4(five!(I => _mm256_add_epi64(a.0[I], b.0[I]))) }
    }

    #[inline(always)]
    fn sub(a: Wide4, b: Wide4) -> Wide4 {
        // SAFETY: a `Wide4` is made from `Fe4`s, so AVX2 is available.
        unsafe { Wide4(five!(I => _mm256_sub_epi64(a.0[I], b.0[I]))) }
    }

    #[inline(always)]
    fn pick<'a>(from: impl Fn(usize) -> &'a Self) -> Self {
        let (f0, f1, f2, f3) = (from(0), from(1), from(2), from(3));
        // SAFETY: `Fe4`s exist, so AVX is available.
        unsafe {
            Self(five!(I => _mm256_blend_pd::<0b1100>(
                _mm256_blend_pd::<0b0010>(f0.0[I], f1.0[I]),
                _mm256_blend_pd::<0b1000>(f2.0[I], f3.0[I])
            )))
        }
    }

    #[inline(always)]
    fn reduce<const PRODUCTS: i32>(wide: Wide4) -> Self {
        // SAFETY: a `Wide4` is made from `Fe4`s, so AVX2 and FMA are available.
        unsafe { carry::<PRODUCTS>(wide) }
    }
}
