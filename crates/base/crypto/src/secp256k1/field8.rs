//! Eight elements modulo p = 2^256 − 2^32 − 977 in parallel, by the 52-bit multiply-add of AVX-512.
//!
//! reads   eight elements, one for each lane
//! writes  the same
//! source  Intel's AVX-512 IFMA: the low or the high 52 bits of a product of two 52-bit numbers, added to 64 bits
//!
//! An element is five limbs of radix 2^52. The multiplier reads only the low 52 bits of a limb, so a factor's carries
//! must have been propagated, in sequence. There are two kinds of values:
//!
//! - *reduced*, as `Wide8::reduce` leaves it: below 2^256 + 2^216, limbs below 2^52, the topmost below
//!   2^48 + 2^8;
//! - *carried*, as `Fe8::carried` leaves it: a small sum of the former, below 2^259; limbs below 2^52.
//!
//! Both may be multiplied; what is added or subtracted is reduced. A column of a product sums nine halves below 2^52
//! at most, hence is below 2^56, and the sums here, of at most three products, stay below 2^60.
//!
//! An [`Fe8`] is made only by functions that require [`available`], or from another one. So its existence proves the
//! rest safe.

#![allow(unsafe_code)]

pub(super) use crate::lanes::available;
use crate::lanes::five;
use core::arch::x86_64::*;

/// Eight elements. Values exist only on processors where [`available`] holds.
#[derive(Clone, Copy)]
pub(super) struct Fe8([__m512i; 5]);

/// A sum of few products: ten columns before their carries.
#[derive(Clone, Copy)]
pub(super) struct Wide8([__m512i; 10]);

const MASK: u64 = (1 << 52) - 1;
const TOP_MASK: u64 = (1 << 48) - 1;
/// 2^256 modulo p, by which reduction folds what lies above 2^256.
const FOLD: u64 = 0x1_0000_03d1;
/// p, limb by limb.
const P: [u64; 5] = [(MASK + 1) - FOLD, MASK, MASK, MASK, TOP_MASK];

/// Adds a product of two limbs to column `$at` and the next.
macro_rules! madd {
    ($columns:ident, $at:expr, $a:expr, $b:expr) => {{
        $columns[$at] = _mm512_madd52lo_epu64($columns[$at], $a, $b);
        $columns[$at + 1] = _mm512_madd52hi_epu64($columns[$at + 1], $a, $b);
    }};
}

/// The same word in each lane.
macro_rules! word {
    ($value:expr) => {
        _mm512_set1_epi64($value as i64)
    };
}

/// Carries from each limb to the next; leaves bits above 52 of the last limb in place.
macro_rules! carry {
    ($limbs:ident, $($to:literal)*) => {
        $($limbs[$to] = _mm512_add_epi64($limbs[$to], _mm512_srli_epi64::<52>($limbs[$to - 1]));)*
    };
}

impl Fe8 {
    /// The same small number in each lane.
    ///
    /// # Safety
    /// [`available`] holds.
    #[inline(always)]
    pub(super) unsafe fn small(value: u64) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self([word!(value), word!(0), word!(0), word!(0), word!(0)]) }
    }

    /// Four words for each lane, least significant first: a number below 2^256.
    ///
    /// # Safety
    /// [`available`] holds.
    #[inline(always)]
    pub(super) unsafe fn from_words(w: [__m512i; 4]) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let mask = word!(MASK);
            let pair = |low, high| _mm512_and_si512(_mm512_or_si512(low, high), mask);
            Self([
                _mm512_and_si512(w[0], mask),
                pair(_mm512_srli_epi64::<52>(w[0]), _mm512_slli_epi64::<12>(w[1])),
                pair(_mm512_srli_epi64::<40>(w[1]), _mm512_slli_epi64::<24>(w[2])),
                pair(_mm512_srli_epi64::<28>(w[2]), _mm512_slli_epi64::<36>(w[3])),
                _mm512_srli_epi64::<16>(w[3]),
            ])
        }
    }

    /// The words of a canonical element.
    #[inline(always)]
    pub(super) fn words(&self) -> [__m512i; 4] {
        let l = &self.0;
        // SAFETY: an `Fe8` exists, so its instructions are available.
        unsafe {
            [
                _mm512_or_si512(l[0], _mm512_slli_epi64::<52>(l[1])),
                _mm512_or_si512(_mm512_srli_epi64::<12>(l[1]), _mm512_slli_epi64::<40>(l[2])),
                _mm512_or_si512(_mm512_srli_epi64::<24>(l[2]), _mm512_slli_epi64::<28>(l[3])),
                _mm512_or_si512(_mm512_srli_epi64::<36>(l[3]), _mm512_slli_epi64::<16>(l[4])),
            ]
        }
    }

    /// The number below p that an element below 2·p stands for: a reduced one, or the negative of one that is not 0.
    #[inline(always)]
    pub(super) fn canonical(&self) -> Self {
        let mut l = self.0;
        // SAFETY: an `Fe8` exists, so its instructions are available.
        unsafe {
            // Adding 2^256 − p reaches 2^256 exactly when the number is at least p; it is below 2·p.
            let fold = word!(FOLD);
            let mut with = l;
            with[0] = _mm512_add_epi64(with[0], fold);
            carry!(with, 1 2 3 4);
            let at_least_p = _mm512_cmpgt_epu64_mask(with[4], word!(TOP_MASK));
            l[0] = _mm512_mask_add_epi64(l[0], at_least_p, l[0], fold);
            carry!(l, 1 2 3 4);
            let masks = [MASK, MASK, MASK, MASK, TOP_MASK];
            Self(five!(I => _mm512_and_si512(l[I], word!(masks[I]))))
        }
    }

    /// Lanes in which a reduced element is 0 modulo p.
    #[inline(always)]
    pub(super) fn is_zero(&self) -> u8 {
        let l = self.canonical().0;
        // SAFETY: an `Fe8` exists, so its instructions are available.
        unsafe {
            let low = _mm512_or_si512(_mm512_or_si512(l[0], l[1]), l[2]);
            _mm512_testn_epi64_mask(_mm512_or_si512(low, _mm512_or_si512(l[3], l[4])), word!(u64::MAX))
        }
    }

    /// Lanes in which two reduced elements are the same modulo p.
    #[inline(always)]
    pub(super) fn equals(&self, other: &Self) -> u8 {
        let (a, b) = (self.canonical().0, other.canonical().0);
        let mut lanes = 0xff;
        for (a, b) in a.iter().zip(&b) {
            // SAFETY: an `Fe8` exists, so its instructions are available.
            lanes &= unsafe { _mm512_cmpeq_epi64_mask(*a, *b) };
        }
        lanes
    }

    /// Lanes in which a canonical element is odd.
    #[inline(always)]
    pub(super) fn is_odd(&self) -> u8 {
        // SAFETY: an `Fe8` exists, so its instructions are available.
        unsafe { _mm512_test_epi64_mask(self.0[0], word!(1)) }
    }

    /// Carries limbs below 2^60 of a number below 2^260.
    #[inline(always)]
    fn carried(mut limbs: [__m512i; 5]) -> Self {
        // SAFETY: the limbs come from an `Fe8`, so its instructions are available.
        unsafe {
            carry!(limbs, 1 2 3 4);
            let mask = word!(MASK);
            for limb in &mut limbs[..4] {
                *limb = _mm512_and_si512(*limb, mask);
            }
            Self(limbs)
        }
    }

    /// self − other, of reduced elements; carried.
    #[inline(always)]
    pub(super) fn minus(&self, other: &Self) -> Self {
        // SAFETY: an `Fe8` exists, so its instructions are available. Each limb of 2p exceeds a reduced one's.
        unsafe { Self::carried(five!(I => _mm512_sub_epi64(_mm512_add_epi64(self.0[I], word!(2 * P[I])), other.0[I]))) }
    }

    /// A reduced element, negated in the lanes of the mask; carried.
    #[inline(always)]
    pub(super) fn negate_if(&self, lanes: u8) -> Self {
        // SAFETY: an `Fe8` exists, so its instructions are available. Each limb of 2p exceeds a reduced one's.
        unsafe { Self::carried(five!(I => _mm512_mask_sub_epi64(self.0[I], lanes, word!(2 * P[I]), self.0[I]))) }
    }

    /// `other` in the lanes of the mask, self in the rest.
    #[inline(always)]
    pub(super) fn replace_if(&self, lanes: u8, other: &Self) -> Self {
        // SAFETY: an `Fe8` exists, so its instructions are available.
        unsafe { Self(five!(I => _mm512_mask_mov_epi64(self.0[I], lanes, other.0[I]))) }
    }

    /// self · other, reduced.
    #[inline(always)]
    pub(super) fn times(&self, other: &Self) -> Self {
        self.mul(other).reduce::<1>()
    }

    /// The square of each lane, reduced.
    #[inline(always)]
    pub(super) fn squared(&self) -> Self {
        self.square().reduce::<1>()
    }

    /// The product of each lane, before its carries.
    #[inline(always)]
    pub(super) fn mul(&self, other: &Self) -> Wide8 {
        // SAFETY: an `Fe8` exists, so its instructions are available.
        unsafe { Wide8([_mm512_setzero_si512(); 10]).plus_product(self, other) }
    }

    /// self²: the mixed products are doubled by columns, since a doubled limb might have 53 bits.
    #[inline(always)]
    pub(super) fn square(&self) -> Wide8 {
        let a = &self.0;
        // SAFETY: an `Fe8` exists, so its instructions are available.
        unsafe {
            let mut c = [_mm512_setzero_si512(); 10];
            madd!(c, 1, a[0], a[1]);
            madd!(c, 3, a[0], a[3]);
            madd!(c, 5, a[1], a[4]);
            madd!(c, 7, a[3], a[4]);
            madd!(c, 2, a[0], a[2]);
            madd!(c, 4, a[0], a[4]);
            madd!(c, 6, a[2], a[4]);
            madd!(c, 3, a[1], a[2]);
            madd!(c, 5, a[2], a[3]);
            madd!(c, 4, a[1], a[3]);
            for column in &mut c[1..9] {
                *column = _mm512_add_epi64(*column, *column);
            }
            madd!(c, 0, a[0], a[0]);
            madd!(c, 2, a[1], a[1]);
            madd!(c, 4, a[2], a[2]);
            madd!(c, 6, a[3], a[3]);
            madd!(c, 8, a[4], a[4]);
            Wide8(c)
        }
    }
}

impl Wide8 {
    /// Adds the product a·b to the sum.
    #[inline(always)]
    pub(super) fn plus_product(self, a: &Fe8, b: &Fe8) -> Self {
        let (a, b) = (&a.0, &b.0);
        let mut c = self.0;
        // Neighbours in this order add to different columns, so that none waits for the one before.
        // SAFETY: an `Fe8` exists, so its instructions are available.
        unsafe {
            madd!(c, 0, a[0], b[0]);
            madd!(c, 2, a[0], b[2]);
            madd!(c, 4, a[0], b[4]);
            madd!(c, 6, a[2], b[4]);
            madd!(c, 8, a[4], b[4]);
            madd!(c, 1, a[0], b[1]);
            madd!(c, 3, a[0], b[3]);
            madd!(c, 5, a[1], b[4]);
            madd!(c, 7, a[3], b[4]);
            madd!(c, 2, a[1], b[1]);
            madd!(c, 4, a[1], b[3]);
            madd!(c, 6, a[3], b[3]);
            madd!(c, 1, a[1], b[0]);
            madd!(c, 3, a[1], b[2]);
            madd!(c, 5, a[2], b[3]);
            madd!(c, 7, a[4], b[3]);
            madd!(c, 2, a[2], b[0]);
            madd!(c, 4, a[2], b[2]);
            madd!(c, 6, a[4], b[2]);
            madd!(c, 3, a[2], b[1]);
            madd!(c, 5, a[3], b[2]);
            madd!(c, 4, a[3], b[1]);
            madd!(c, 3, a[3], b[0]);
            madd!(c, 5, a[4], b[1]);
            madd!(c, 4, a[4], b[0]);
        }
        Self(c)
    }

    /// The sum, added to itself column by column.
    #[inline(always)]
    pub(super) fn doubled(self) -> Self {
        let mut c = self.0;
        for column in &mut c {
            // SAFETY: a `Wide8` is made of `Fe8`s, so their instructions are available.
            *column = unsafe { _mm512_add_epi64(*column, *column) };
        }
        Self(c)
    }

    /// self + x, which is reduced.
    #[inline(always)]
    pub(super) fn plus(mut self, x: &Fe8) -> Self {
        for (column, limb) in self.0.iter_mut().zip(&x.0) {
            // SAFETY: an `Fe8` exists, so its instructions are available.
            *column = unsafe { _mm512_add_epi64(*column, *limb) };
        }
        self
    }

    /// self − 2·x, which is reduced; each limb of 4p exceeds twice a reduced one's.
    #[inline(always)]
    pub(super) fn minus_twice(mut self, x: &Fe8) -> Self {
        for ((column, limb), p) in self.0.iter_mut().zip(&x.0).zip(P) {
            // SAFETY: an `Fe8` exists, so its instructions are available.
            unsafe {
                let rest = _mm512_sub_epi64(word!(4 * p), _mm512_add_epi64(*limb, *limb));
                *column = _mm512_add_epi64(*column, rest);
            }
        }
        self
    }

    /// `TIMES`·self, reduced; `TIMES` is 1, 2 or 3 and self below 2^518.
    ///
    /// The columns from 2^260 on get their carries and come down, times 2^260 = 16·(2^256 − p); what reaches
    /// 2^256 then, less than 2^46, comes down once more. The carries that follow leave fewer than 2^8 above.
    #[inline(always)]
    pub(super) fn reduce<const TIMES: u64>(self) -> Fe8 {
        let c = self.0;
        // SAFETY: a `Wide8` is made of `Fe8`s, so their instructions are available.
        unsafe {
            let mut high = [c[5], c[6], c[7], c[8], c[9]];
            carry!(high, 1 2 3 4);
            let mut low = match TIMES {
                1 => [c[0], c[1], c[2], c[3], c[4]],
                2 => five!(I => _mm512_add_epi64(c[I], c[I])),
                3 => five!(I => _mm512_add_epi64(_mm512_add_epi64(c[I], c[I]), c[I])),
                _ => unreachable!(),
            };
            let fold = word!(TIMES * 16 * FOLD);
            low[0] = _mm512_madd52lo_epu64(low[0], high[0], fold);
            low[1] = _mm512_madd52lo_epu64(low[1], high[1], fold);
            low[2] = _mm512_madd52lo_epu64(low[2], high[2], fold);
            low[3] = _mm512_madd52lo_epu64(low[3], high[3], fold);
            low[4] = _mm512_madd52lo_epu64(low[4], high[4], fold);
            low[1] = _mm512_madd52hi_epu64(low[1], high[0], fold);
            low[2] = _mm512_madd52hi_epu64(low[2], high[1], fold);
            low[3] = _mm512_madd52hi_epu64(low[3], high[2], fold);
            low[4] = _mm512_madd52hi_epu64(low[4], high[3], fold);
            let above = _mm512_madd52hi_epu64(_mm512_setzero_si512(), high[4], fold);
            let top = _mm512_add_epi64(_mm512_srli_epi64::<48>(low[4]), _mm512_slli_epi64::<4>(above));
            low[4] = _mm512_and_si512(low[4], word!(TOP_MASK));
            low[0] = _mm512_madd52lo_epu64(low[0], top, word!(FOLD));
            low[1] = _mm512_madd52hi_epu64(low[1], top, word!(FOLD));
            Fe8::carried(low)
        }
    }
}

/// x^(2^times) for each of several. Not inlined: the chains below call it two dozen times.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq,avx512bw,avx512vl")]
fn squares<const K: usize>(x: &mut [Fe8; K], times: u32) {
    for _ in 0..times {
        for x in x.iter_mut() {
            *x = x.squared();
        }
    }
}

#[inline(always)]
fn square_times<const K: usize>(mut x: [Fe8; K], times: u32) -> [Fe8; K] {
    // SAFETY: `Fe8`s exist, so their instructions are available.
    unsafe { squares(&mut x, times) };
    x
}

#[inline(always)]
fn multiply<const K: usize>(a: [Fe8; K], b: &[Fe8; K]) -> [Fe8; K] {
    let mut out = a;
    for (out, b) in out.iter_mut().zip(b) {
        *out = out.times(b);
    }
    out
}

/// (x^(2^2 − 1), x^(2^22 − 1), x^(2^223 − 1)): the part that both exponents below begin with. `K` elements at once
/// hide each other's latency.
#[inline(always)]
fn chain<const K: usize>(x: &[Fe8; K]) -> [[Fe8; K]; 3] {
    let e2 = multiply(square_times(*x, 1), x);
    let e3 = multiply(square_times(e2, 1), x);
    let e6 = multiply(square_times(e3, 3), &e3);
    let e9 = multiply(square_times(e6, 3), &e3);
    let e11 = multiply(square_times(e9, 2), &e2);
    let e22 = multiply(square_times(e11, 11), &e11);
    let e44 = multiply(square_times(e22, 22), &e22);
    let e88 = multiply(square_times(e44, 44), &e44);
    let e176 = multiply(square_times(e88, 88), &e88);
    let e220 = multiply(square_times(e176, 44), &e44);
    let e223 = multiply(square_times(e220, 3), &e3);
    [e2, e22, e223]
}

/// x^((p + 1)/4): a square root, where there is one. The exponent is 223 ones, a zero, 22 ones, 0000 11 00.
#[inline(always)]
pub(super) fn root_candidates<const K: usize>(x: &[Fe8; K]) -> [Fe8; K] {
    let [e2, e22, e223] = chain(x);
    let high = multiply(square_times(e223, 23), &e22);
    square_times(multiply(square_times(high, 6), &e2), 2)
}

/// x^(p − 2): the inverse, and 0 for 0. The exponent is 223 ones, a zero, 22 ones, 0000 1 0 11 0 1.
#[inline(always)]
pub(super) fn invert(x: &Fe8) -> Fe8 {
    let x = [*x];
    let [e2, e22, e223] = chain(&x);
    let high = multiply(square_times(e223, 23), &e22);
    let next = multiply(square_times(high, 5), &x);
    let next = multiply(square_times(next, 3), &e2);
    multiply(square_times(next, 2), &x)[0]
}

#[cfg(test)]
mod tests {
    use super::super::modular::{PRIME, add, product, sub};
    use super::*;
    use proptest::prelude::*;

    type Limbs = [u64; 5];

    /// The number that limbs stand for, modulo p.
    fn number(limbs: &Limbs) -> [u64; 4] {
        let mut sum = [0; 6];
        for limb in limbs.iter().rev() {
            sum = add(&product(&sum, &[1 << 52]), &[*limb, 0, 0, 0, 0, 0]);
        }
        // 2^256 and what is above, times 2^256 − p.
        let above: [u64; 5] = product(&[sum[4], sum[5]], &[FOLD]);
        let folded = add(&[sum[0], sum[1], sum[2], sum[3], 0], &above);
        let folded = add(&[folded[0], folded[1], folded[2], folded[3], 0], &[folded[4] * FOLD, 0, 0, 0, 0]);
        assert_eq!(folded[4], 0);
        PRIME.reduce([folded[0], folded[1], folded[2], folded[3]])
    }

    fn plus(a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
        let rest = PRIME.negate(b);
        if rest != [0; 4] && a.iter().rev().ge(rest.iter().rev()) { sub(a, &rest) } else { add(a, b) }
    }

    #[target_feature(enable = "avx512f")]
    fn load(limbs: &[Limbs; 8]) -> Fe8 {
        let lanes = |i: usize| limbs.map(|l| l[i]);
        // SAFETY: eight words are 64 bytes.
        Fe8(five!(I => unsafe { _mm512_loadu_si512(lanes(I).as_ptr().cast()) }))
    }

    #[target_feature(enable = "avx512f")]
    fn store(x: &Fe8) -> [Limbs; 8] {
        let mut out = [[0; 5]; 8];
        for (i, limb) in x.0.iter().enumerate() {
            let mut lanes = [0; 8];
            // SAFETY: eight words are 64 bytes.
            unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), *limb) };
            (0..8).for_each(|l| out[l][i] = lanes[l]);
        }
        out
    }

    /// Results of the formulas for reduced elements a, b, c and d, in the order of `expected`.
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq,avx512bw,avx512vl")]
    fn mixtures([a, b, c, d]: &[[Limbs; 8]; 4], lanes: u8) -> [[Limbs; 8]; 9] {
        let (a, b, c, d) = (load(a), load(b), load(c), load(d));
        let x = a.square().plus(&b).minus_twice(&c).reduce::<1>();
        let y = a.square().doubled().plus_product(&b, &c.minus(&d)).reduce::<1>();
        let two_products = a.mul(&b).plus_product(&c, &d.minus(&a)).reduce::<1>();
        let canonical = a.canonical();
        [
            a.times(&b),
            a.square().reduce::<2>(),
            a.square().reduce::<3>(),
            x,
            y,
            two_products,
            a.negate_if(lanes).times(&b),
            canonical,
            invert(&a),
        ]
        .map(|f| store(&f))
    }

    fn expected([a, b, c, d]: [[u64; 4]; 4], negative: bool) -> [[u64; 4]; 9] {
        let minus = |a, b| plus(a, &PRIME.negate(b));
        let (aa, ab) = (PRIME.mul(&a, &a), PRIME.mul(&a, &b));
        let (aa2, cd) = (plus(&aa, &aa), PRIME.mul(&b, &minus(&c, &d)));
        [
            ab,
            aa2,
            plus(&aa2, &aa),
            minus(&minus(&plus(&aa, &b), &c), &c),
            plus(&aa2, &cd),
            plus(&ab, &PRIME.mul(&c, &minus(&d, &a))),
            if negative { PRIME.negate(&ab) } else { ab },
            a,
            PRIME.invert(&a),
        ]
    }

    fn check(elements: [[Limbs; 8]; 4], lanes: u8) {
        if !available() {
            return;
        }
        // SAFETY: the features were detected.
        let got = unsafe { mixtures(&elements, lanes) };
        for l in 0..8 {
            let want = expected(elements.map(|e| number(&e[l])), lanes >> l & 1 == 1);
            for (i, want) in want.iter().enumerate() {
                let limbs = &got[i][l];
                assert_eq!(number(limbs), *want, "mixture {i}, lane {l}, of {elements:x?}");
                assert!(limbs[..4].iter().all(|limb| *limb <= MASK) && limbs[4] < (1 << 48) + (1 << 8), "{limbs:x?}");
            }
            let canonical = &got[7][l];
            assert!(canonical.iter().rev().lt(P.iter().rev()), "{canonical:x?}");
        }
    }

    /// Any reduced element, often with the least or the largest limbs.
    fn any_limbs() -> impl Strategy<Value = Limbs> {
        let limb = || prop_oneof![2 => 0..=MASK, 1 => Just(MASK), 1 => Just(0)];
        let top = prop_oneof![2 => 0..=TOP_MASK, 1 => Just(TOP_MASK + 255), 1 => Just(TOP_MASK), 1 => Just(0)];
        (limb(), limb(), limb(), limb(), top).prop_map(|(a, b, c, d, e)| [a, b, c, d, e])
    }

    #[test]
    fn largest_limbs_fit() {
        let largest = [[MASK, MASK, MASK, MASK, TOP_MASK + 255]; 8];
        let zero = [[0; 5]; 8];
        let p = [P; 8];
        let beside_p = [[P[0] - 1, MASK, MASK, MASK, TOP_MASK], [P[0] + 1, MASK, MASK, MASK, TOP_MASK]];
        let beside_p: [Limbs; 8] = std::array::from_fn(|l| beside_p[l % 2]);
        let edges = [largest, zero, p, beside_p];
        for at in 0..256usize {
            check([0, 2, 4, 6].map(|shift| edges[at >> shift & 3]), at as u8);
        }
    }

    proptest! {
        #[test]
        fn mixtures_are_those_of_one_element(
            elements in prop::array::uniform4(prop::array::uniform8(any_limbs())),
            lanes in any::<u8>(),
        ) {
            check(elements, lanes);
        }
    }
}
