//! Eight field elements side by side, in the 52-bit multipliers of AVX-512.
//!
//! reads   eight elements, one for each lane
//! writes  the same
//! source  S. Gueron, V. Krasnov, "Accelerating Big Integer Arithmetic Using Intel IFMA Extensions" (2016)
//!
//! An element is five limbs of radix 2^51, never negative: below 2^51 + 2^16 after `reduce`, below 2^52 after
//! `negate_if`, so that the multipliers, which read the low 52 bits, read all of a limb. Of a product of limbs they
//! add the low 52 bits to one column and the rest, worth 2^52 = 2·2^51, to another that is doubled once at the end.
//!
//! A product's columns stay below 2^60.1, and below 2^59.5 where at most one factor was negated. `sub` adds
//! 2^10·p, whose limbs are all above 2^60.99, to stay positive; a sum of four products and that is below 2^62.5.
//!
//! An [`Fe8`] is made only by `load` and `splat`, which generic code calls within functions that need the
//! features of [`available`]; those are entered only where it held. That an `Fe8` exists proves the rest safe.

#![allow(unsafe_code)]

use super::field::{Fe, Field};
pub(super) use crate::lanes::available;
use crate::lanes::five;
use core::arch::x86_64::*;

/// Eight elements. Values exist only on processors where [`available`] holds.
#[derive(Clone, Copy)]
pub(super) struct Fe8([__m512i; 5]);

/// Column sums of products, five columns of eight lanes.
#[derive(Clone, Copy)]
pub(super) struct Wide8([__m512i; 5]);

const MASK: i64 = (1 << 51) - 1;
/// 2p limb by limb, from which an element is subtracted to negate it.
const TWO_P: [i64; 5] = [2 * (MASK - 18), 2 * MASK, 2 * MASK, 2 * MASK, 2 * MASK];
/// 2^10·p, above any column that is subtracted.
const BIAS: [i64; 5] = [(MASK - 18) << 10, MASK << 10, MASK << 10, MASK << 10, MASK << 10];

/// Accumulates the halves of a product of limbs: `low[at]` and `high[at]`, the latter of twice the weight of the
/// next column.
macro_rules! product {
    ($low:ident, $high:ident, $at:expr, $a:expr, $b:expr) => {
        $low[$at] = _mm512_madd52lo_epu64($low[$at], $a, $b);
        $high[$at] = _mm512_madd52hi_epu64($high[$at], $a, $b);
    };
}

#[inline]
#[target_feature(enable = "avx512f")]
fn twice(x: __m512i) -> __m512i {
    _mm512_add_epi64(x, x)
}

/// Nine columns of low and of high halves as five: low(k) + 2·high(k − 1), and 2^255 = 19.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold(low: [__m512i; 9], high: [__m512i; 9]) -> Wide8 {
    let mut columns = [low[0]; 10];
    columns[1] = _mm512_add_epi64(low[1], twice(high[0]));
    columns[2] = _mm512_add_epi64(low[2], twice(high[1]));
    columns[3] = _mm512_add_epi64(low[3], twice(high[2]));
    columns[4] = _mm512_add_epi64(low[4], twice(high[3]));
    columns[5] = _mm512_add_epi64(low[5], twice(high[4]));
    columns[6] = _mm512_add_epi64(low[6], twice(high[5]));
    columns[7] = _mm512_add_epi64(low[7], twice(high[6]));
    columns[8] = _mm512_add_epi64(low[8], twice(high[7]));
    columns[9] = twice(high[8]);
    Wide8(five!(I => {
        let x = columns[I + 5];
        let three = _mm512_add_epi64(x, twice(x));
        _mm512_add_epi64(_mm512_add_epi64(columns[I], three), _mm512_slli_epi64::<4>(x))
    }))
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply(a: &Fe8, b: &Fe8) -> Wide8 {
    let (a, b) = (&a.0, &b.0);
    let zero = _mm512_setzero_si512();
    let (mut low, mut high) = ([zero; 9], [zero; 9]);
    product!(low, high, 0, a[0], b[0]);
    product!(low, high, 1, a[0], b[1]);
    product!(low, high, 2, a[0], b[2]);
    product!(low, high, 3, a[0], b[3]);
    product!(low, high, 4, a[0], b[4]);
    product!(low, high, 1, a[1], b[0]);
    product!(low, high, 2, a[1], b[1]);
    product!(low, high, 3, a[1], b[2]);
    product!(low, high, 4, a[1], b[3]);
    product!(low, high, 5, a[1], b[4]);
    product!(low, high, 2, a[2], b[0]);
    product!(low, high, 3, a[2], b[1]);
    product!(low, high, 4, a[2], b[2]);
    product!(low, high, 5, a[2], b[3]);
    product!(low, high, 6, a[2], b[4]);
    product!(low, high, 3, a[3], b[0]);
    product!(low, high, 4, a[3], b[1]);
    product!(low, high, 5, a[3], b[2]);
    product!(low, high, 6, a[3], b[3]);
    product!(low, high, 7, a[3], b[4]);
    product!(low, high, 4, a[4], b[0]);
    product!(low, high, 5, a[4], b[1]);
    product!(low, high, 6, a[4], b[2]);
    product!(low, high, 7, a[4], b[3]);
    product!(low, high, 8, a[4], b[4]);
    fold(low, high)
}

/// Fifteen products, the mixed ones doubled.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply_self(a: &Fe8) -> Wide8 {
    let a = &a.0;
    let zero = _mm512_setzero_si512();
    let (mut low, mut high) = ([zero; 9], [zero; 9]);
    product!(low, high, 1, a[0], a[1]);
    product!(low, high, 2, a[0], a[2]);
    product!(low, high, 3, a[0], a[3]);
    product!(low, high, 4, a[0], a[4]);
    product!(low, high, 3, a[1], a[2]);
    product!(low, high, 4, a[1], a[3]);
    product!(low, high, 5, a[1], a[4]);
    product!(low, high, 5, a[2], a[3]);
    product!(low, high, 6, a[2], a[4]);
    product!(low, high, 7, a[3], a[4]);
    for columns in [&mut low, &mut high] {
        for column in &mut columns[1..8] {
            *column = twice(*column);
        }
    }
    product!(low, high, 0, a[0], a[0]);
    product!(low, high, 2, a[1], a[1]);
    product!(low, high, 4, a[2], a[2]);
    product!(low, high, 6, a[3], a[3]);
    product!(low, high, 8, a[4], a[4]);
    fold(low, high)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn carry(wide: Wide8) -> Fe8 {
    let mask = _mm512_set1_epi64(MASK);
    let up = five!(I => _mm512_srli_epi64::<51>(wide.0[I]));
    let three = _mm512_add_epi64(up[4], twice(up[4]));
    let around = _mm512_add_epi64(three, _mm512_slli_epi64::<4>(up[4]));
    let carried = [around, up[0], up[1], up[2], up[3]];
    Fe8(five!(I => _mm512_add_epi64(_mm512_and_si512(wide.0[I], mask), carried[I])))
}

/// Transposes eight rows of four words and splits the columns into limbs.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(rows: [&[u64; 4]; 8]) -> Fe8 {
    // Rows l and l + 4 in the halves of one register.
    let pair = |l: usize| {
        // SAFETY: each row is 32 readable bytes; the loads need no alignment.
        unsafe {
            let low = _mm512_castsi256_si512(_mm256_loadu_si256(rows[l].as_ptr().cast()));
            _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(rows[l + 4].as_ptr().cast()))
        }
    };
    let (r0, r1, r2, r3) = (pair(0), pair(1), pair(2), pair(3));
    let (t0, t1) = (_mm512_unpacklo_epi64(r0, r1), _mm512_unpackhi_epi64(r0, r1));
    let (t2, t3) = (_mm512_unpacklo_epi64(r2, r3), _mm512_unpackhi_epi64(r2, r3));
    let first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    let second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    let w0 = _mm512_permutex2var_epi64(t0, first, t2);
    let w1 = _mm512_permutex2var_epi64(t1, first, t3);
    let w2 = _mm512_permutex2var_epi64(t0, second, t2);
    let w3 = _mm512_permutex2var_epi64(t1, second, t3);
    let mask = _mm512_set1_epi64(MASK);
    let l1 = _mm512_or_si512(_mm512_srli_epi64::<51>(w0), _mm512_slli_epi64::<13>(w1));
    let l2 = _mm512_or_si512(_mm512_srli_epi64::<38>(w1), _mm512_slli_epi64::<26>(w2));
    let l3 = _mm512_or_si512(_mm512_srli_epi64::<25>(w2), _mm512_slli_epi64::<39>(w3));
    let limbs = [w0, l1, l2, l3, _mm512_srli_epi64::<12>(w3)];
    Fe8(five!(I => _mm512_and_si512(limbs[I], mask)))
}

/// 2p − x in the lanes of `negative`.
#[inline]
#[target_feature(enable = "avx512f")]
fn flip(x: &Fe8, negative: u8) -> Fe8 {
    Fe8(five!(I => _mm512_mask_sub_epi64(x.0[I], negative, _mm512_set1_epi64(TWO_P[I]), x.0[I])))
}

/// Lane l of element l of `from`.
#[inline]
#[target_feature(enable = "avx512f")]
fn blend(from: [&Fe8; 8]) -> Fe8 {
    Fe8(five!(I => {
        let mut limb = from[0].0[I];
        limb = _mm512_mask_mov_epi64(limb, 1 << 1, from[1].0[I]);
        limb = _mm512_mask_mov_epi64(limb, 1 << 2, from[2].0[I]);
        limb = _mm512_mask_mov_epi64(limb, 1 << 3, from[3].0[I]);
        limb = _mm512_mask_mov_epi64(limb, 1 << 4, from[4].0[I]);
        limb = _mm512_mask_mov_epi64(limb, 1 << 5, from[5].0[I]);
        limb = _mm512_mask_mov_epi64(limb, 1 << 6, from[6].0[I]);
        _mm512_mask_mov_epi64(limb, 1 << 7, from[7].0[I])
    }))
}

/// The limbs of each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(x: &Fe8) -> [[u64; 8]; 5] {
    let mut out = [[0; 8]; 5];
    for (to, from) in out.iter_mut().zip(&x.0) {
        // SAFETY: `to` is 64 writable bytes; the store needs no alignment.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), *from) };
    }
    out
}

impl Field for Fe8 {
    type Wide = Wide8;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(value: &Fe) -> Self {
        let words = value.to_words();
        Self::load(|_| &words)
    }

    #[inline(always)]
    fn load<'a>(words: impl Fn(usize) -> &'a [u64; 4]) -> Self {
        let rows = [words(0), words(1), words(2), words(3), words(4), words(5), words(6), words(7)];
        // SAFETY: the callers of the generic code choose `Fe8` only where `available` holds.
        unsafe { split(rows) }
    }

    fn lane(&self, lane: usize) -> Fe {
        // SAFETY: an `Fe8` exists, so AVX-512 is available.
        let limbs = unsafe { store(self) };
        Fe(core::array::from_fn(|i| limbs[i][lane]))
    }

    #[inline(always)]
    fn negate_if(&self, negative: impl Fn(usize) -> bool) -> Self {
        let bit = |lane: usize| u8::from(negative(lane)) << lane;
        let bits = bit(0) | bit(1) | bit(2) | bit(3) | bit(4) | bit(5) | bit(6) | bit(7);
        // SAFETY: an `Fe8` exists, so AVX-512 is available.
        unsafe { flip(self, bits) }
    }

    #[inline(always)]
    fn mul(&self, other: &Self) -> Wide8 {
        // SAFETY: an `Fe8` exists, so AVX-512 with IFMA is available.
        unsafe { multiply(self, other) }
    }

    #[inline(always)]
    fn square(&self) -> Wide8 {
        // SAFETY: an `Fe8` exists, so AVX-512 with IFMA is available.
        unsafe { multiply_self(self) }
    }

    #[inline(always)]
    fn widen(&self) -> Wide8 {
        Wide8(self.0)
    }

    #[inline(always)]
    fn add(a: Wide8, b: Wide8) -> Wide8 {
        // SAFETY: a `Wide8` is made from `Fe8`s, so AVX-512 is available.
        unsafe { Wide8(five!(I => _mm512_add_epi64(a.0[I], b.0[I]))) }
    }

    #[inline(always)]
    fn sub(a: Wide8, b: Wide8) -> Wide8 {
        // SAFETY: a `Wide8` is made from `Fe8`s, so AVX-512 is available.
        unsafe { Wide8(five!(I => _mm512_sub_epi64(_mm512_add_epi64(a.0[I], _mm512_set1_epi64(BIAS[I])), b.0[I]))) }
    }

    #[inline(always)]
    fn pick<'a>(from: impl Fn(usize) -> &'a Self) -> Self {
        // SAFETY: `Fe8`s exist, so AVX-512 is available.
        unsafe { blend([from(0), from(1), from(2), from(3), from(4), from(5), from(6), from(7)]) }
    }

    #[inline(always)]
    fn reduce<const PRODUCTS: i32>(wide: Wide8) -> Self {
        // SAFETY: a `Wide8` is made from `Fe8`s, so AVX-512 is available.
        unsafe { carry(wide) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The formulas' worst mixtures in eight lanes, as words of each lane.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
    fn mixtures(a: &[[u64; 4]; 8], b: &[[u64; 4]; 8], negative: u8) -> [[[u64; 4]; 8]; 4] {
        let (x, y) = (Fe8::load(|l| &a[l]), Fe8::load(|l| &b[l]));
        let y = y.negate_if(|l| negative >> l & 1 == 1);
        let square = Fe8::reduce::<1>(x.square());
        let product = Fe8::reduce::<1>(x.mul(&y));
        let four = Fe8::add(Fe8::add(x.square(), x.square()), Fe8::add(y.square(), y.square()));
        let twice = Fe8::add(x.mul(&y), x.mul(&y));
        let difference = Fe8::reduce::<2>(Fe8::sub(four, twice));
        let picked = Fe8::pick(|l| if negative >> l & 1 == 1 { &square } else { &product });
        [square, product, difference, picked].map(|f| core::array::from_fn(|l| f.lane(l).to_words()))
    }

    fn check(a: [[u64; 4]; 8], b: [[u64; 4]; 8], negative: u8) {
        if !available() {
            return;
        }
        // SAFETY: the features were detected.
        let got = unsafe { mixtures(&a, &b, negative) };
        for l in 0..8 {
            let is_negative = negative >> l & 1 == 1;
            let x = Fe::from_words(&a[l]);
            let y = Fe::from_words(&b[l]).negate_if(|_| is_negative).carried();
            let (xx, yy, xy) = (x.square(), y.square(), x.mul(&y));
            let difference = xx.plus(&xx).plus(&yy.plus(&yy)).minus(&xy.plus(&xy));
            let picked = if is_negative { xx } else { xy };
            let want = [xx, xy, difference, picked].map(Fe::to_words);
            assert_eq!(got.map(|lanes| lanes[l]), want, "lane {l}");
        }
    }

    #[test]
    fn the_largest_limbs_do_not_overflow() {
        let most = [u64::MAX, u64::MAX, u64::MAX, u64::MAX >> 1];
        for pattern in [most, [0; 4], [1, 0, 0, 0], [u64::MAX - 19, u64::MAX, u64::MAX, u64::MAX >> 1]] {
            for negative in [0, 0xff, 0b0101_1010] {
                check([most; 8], [pattern; 8], negative);
                check([pattern; 8], [pattern; 8], negative);
            }
        }
    }

    proptest! {
        #[test]
        fn each_lane_is_the_portable_field(
            a in prop::array::uniform8(any::<[u64; 4]>()),
            b in prop::array::uniform8(any::<[u64; 4]>()),
            negative in any::<u8>(),
        ) {
            let below = |words: [[u64; 4]; 8]| words.map(|w| [w[0], w[1], w[2], w[3] >> 1]);
            check(below(a), below(b), negative);
        }
    }
}
