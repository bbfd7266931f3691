//! Arithmetic modulo p = 2^255 − 19: the field interface of the point formulas, and the portable field.
//!
//! reads   32-byte little-endian strings, or four 64-bit words
//! writes  the same, always reduced below p
//! source  RFC 7748 §5 for the prime, RFC 8032 §5.1.1 for square roots
//!
//! The formulas in [`super::point`] are written once over [`Field`], so that the portable element [`Fe`]
//! and the four-lane one run the same code and can be tested against each other.

/// Most lanes that any field has.
pub(super) const LANES_MAX: usize = 8;

/// One element of the field, or several side by side in lanes.
///
/// A product is a `Wide`: it may be added to and subtracted from few others before `reduce` makes it an
/// element again. The const argument of `reduce` is how many products the sum counts, subtracted ones
/// negatively; `Wide`s may carry an offset per product.
pub(super) trait Field: Copy {
    /// A product before its carries.
    type Wide: Copy;
    /// Elements side by side.
    const LANES: usize;

    /// The same small number in each lane.
    fn splat(value: &Fe) -> Self;
    /// Loads the number below 2^255 that `words` gives for each lane.
    fn load<'a>(words: impl Fn(usize) -> &'a [u64; 4]) -> Self;
    /// One lane as a portable element.
    fn lane(&self, lane: usize) -> Fe;
    /// Negates the lanes for which `negative` is true.
    fn negate_if(&self, negative: impl Fn(usize) -> bool) -> Self;
    /// Multiplies self and other, lane by lane.
    fn mul(&self, other: &Self) -> Self::Wide;
    /// Squares self, cheaper than a product with itself.
    fn square(&self) -> Self::Wide;
    /// self as a sum of no products.
    fn widen(&self) -> Self::Wide;
    /// Adds two sums of products.
    fn add(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Subtracts b, whose products count negatively in `reduce`, from a.
    fn sub(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Lane l of `from(l)`, for each lane.
    fn pick<'a>(from: impl Fn(usize) -> &'a Self) -> Self
    where
        Self: 'a;
    /// Carries a sum of `PRODUCTS` products.
    fn reduce<const PRODUCTS: i32>(wide: Self::Wide) -> Self;
}

const MASK: u64 = (1 << 51) - 1;

/// The portable element: five limbs of 51 bits, least significant first. Limbs of a product are below
/// 2^51 + 2^15; sums and differences may reach 2^55 before they are multiplied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fe(pub(super) [u64; 5]);

/// 4p, limb by limb at least as large as a sum of three products' limbs.
const FOUR_P: [u64; 5] = [4 * (MASK - 18), 4 * MASK, 4 * MASK, 4 * MASK, 4 * MASK];

impl Fe {
    pub(super) const ZERO: Self = Self([0; 5]);
    pub(super) const ONE: Self = Self([1, 0, 0, 0, 0]);
    /// (p + 1) / 2.
    pub(super) const HALF: Self = Self([MASK - 8, MASK, MASK, MASK, MASK >> 1]);
    /// d = −121665/121666, the curve's constant.
    pub(super) const D: Self =
        Self::from_words(&[0x75eb4dca135978a3, 0x00700a4d4141d8ab, 0x8cc740797779e898, 0x52036cee2b6ffe73]);
    /// A square root of −1.
    pub(super) const SQRT_M1: Self =
        Self::from_words(&[0xc4ee1b274a0ea0b0, 0x2f431806ad2fe478, 0x2b4d00993dfbd7a7, 0x2b8324804fc1df0b]);

    /// The low 255 bits of four little-endian words; the top bit is ignored.
    pub(super) const fn from_words(w: &[u64; 4]) -> Self {
        Self([
            w[0] & MASK,
            ((w[0] >> 51) | (w[1] << 13)) & MASK,
            ((w[1] >> 38) | (w[2] << 26)) & MASK,
            ((w[2] >> 25) | (w[3] << 39)) & MASK,
            (w[3] >> 12) & MASK,
        ])
    }

    /// The low 255 bits of a little-endian string; the top bit is ignored.
    pub(super) fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self::from_words(&words_of(bytes))
    }

    /// The number below p that this element stands for.
    pub(super) fn to_words(self) -> [u64; 4] {
        let mut l = self.carried().carried().0;
        // Adding 19 overflows 2^255 exactly when the number is at least p.
        let mut q = (l[0] + 19) >> 51;
        for limb in &l[1..] {
            q = (limb + q) >> 51;
        }
        l[0] += 19 * q;
        for i in 0..4 {
            l[i + 1] += l[i] >> 51;
            l[i] &= MASK;
        }
        l[4] &= MASK;
        [l[0] | (l[1] << 51), (l[1] >> 13) | (l[2] << 38), (l[2] >> 26) | (l[3] << 25), (l[3] >> 39) | (l[4] << 12)]
    }

    /// Returns the canonical encoding, 32 bytes little-endian.
    pub(super) fn to_bytes(self) -> [u8; 32] {
        bytes_of(&self.to_words())
    }

    /// One round of carries: limbs below 2^64 become limbs below 2^51 + 2^18.
    pub(super) fn carried(self) -> Self {
        let l = self.0;
        let c = l.map(|limb| limb >> 51);
        Self([
            (l[0] & MASK) + 19 * c[4],
            (l[1] & MASK) + c[0],
            (l[2] & MASK) + c[1],
            (l[3] & MASK) + c[2],
            (l[4] & MASK) + c[3],
        ])
    }

    /// Sum, with its carries done.
    pub(super) fn plus(&self, other: &Self) -> Self {
        <Self as Field>::add(*self, *other).carried()
    }

    /// Difference, with its carries done. `other` has limbs below 2^53.
    pub(super) fn minus(&self, other: &Self) -> Self {
        <Self as Field>::sub(*self, *other).carried()
    }

    /// self^(p − 2): the inverse, and 0 for 0. Time does not depend on the value.
    pub(super) fn invert(&self) -> Self {
        let (e250, x11) = chain(self);
        product(&square_times(&e250, 5), &x11)
    }

    /// The non-negative (even) square root of u / v, if there is one.
    pub(super) fn root_of_ratio(u: &Self, v: &Self) -> Option<Self> {
        Self::checked_root(u, v, &root_candidate(u, v))
    }

    /// The non-negative square root of u / v, given the [`root_candidate`].
    pub(super) fn checked_root(u: &Self, v: &Self, candidate: &Self) -> Option<Self> {
        let mut r = *candidate;
        let check = v.mul(&r.square()).to_words();
        if check != u.to_words() {
            if check != Self::ZERO.minus(u).to_words() {
                return None;
            }
            r = r.mul(&Self::SQRT_M1);
        }
        Some(if r.is_odd() { Self::ZERO.minus(&r) } else { r })
    }

    /// Whether the number below p is odd, which the encoding of points calls its sign.
    pub(super) fn is_odd(&self) -> bool {
        self.to_words()[0] & 1 == 1
    }

    /// Replaces each element by its inverse at the price of one inversion and three products each. A zero
    /// would spoil them all; the callers pass denominators of complete formulas, which are never zero.
    pub(super) fn invert_all(elements: &mut [Self], scratch: &mut Vec<Self>) {
        scratch.clear();
        let mut product = Self::ONE;
        for e in elements.iter() {
            scratch.push(product);
            product = product.mul(e);
        }
        let mut inverse = product.invert();
        for (e, before) in elements.iter_mut().zip(scratch.iter()).rev() {
            let next = inverse.mul(e);
            *e = inverse.mul(before);
            inverse = next;
        }
    }
}

impl Field for Fe {
    type Wide = Self;
    const LANES: usize = 1;

    fn splat(value: &Fe) -> Self {
        *value
    }

    #[inline(always)]
    fn load<'a>(words: impl Fn(usize) -> &'a [u64; 4]) -> Self {
        Self::from_words(words(0))
    }

    fn lane(&self, _lane: usize) -> Fe {
        *self
    }

    #[inline(always)]
    fn negate_if(&self, negative: impl Fn(usize) -> bool) -> Self {
        // All ones where the lane is negated, so that no branch depends on a secret digit.
        let mask = (negative(0) as u64).wrapping_neg();
        let n = <Self as Field>::sub(Self::ZERO, *self);
        Self(std::array::from_fn(|i| self.0[i] ^ (mask & (self.0[i] ^ n.0[i]))))
    }

    #[inline(always)]
    fn mul(&self, other: &Self) -> Self {
        let (a, b) = (&self.0, &other.0);
        debug_assert!(a.iter().chain(b).all(|limb| *limb < 1 << 55));
        let m = |x: u64, y: u64| u128::from(x) * u128::from(y);
        let (b1, b2, b3, b4) = (19 * b[1], 19 * b[2], 19 * b[3], 19 * b[4]);
        propagate([
            m(a[0], b[0]) + m(a[4], b1) + m(a[3], b2) + m(a[2], b3) + m(a[1], b4),
            m(a[1], b[0]) + m(a[0], b[1]) + m(a[4], b2) + m(a[3], b3) + m(a[2], b4),
            m(a[2], b[0]) + m(a[1], b[1]) + m(a[0], b[2]) + m(a[4], b3) + m(a[3], b4),
            m(a[3], b[0]) + m(a[2], b[1]) + m(a[1], b[2]) + m(a[0], b[3]) + m(a[4], b4),
            m(a[4], b[0]) + m(a[3], b[1]) + m(a[2], b[2]) + m(a[1], b[3]) + m(a[0], b[4]),
        ])
    }

    #[inline(always)]
    fn square(&self) -> Self {
        let a = &self.0;
        debug_assert!(a.iter().all(|limb| *limb < 1 << 55));
        let m = |x: u64, y: u64| u128::from(x) * u128::from(y);
        let (d0, d1) = (2 * a[0], 2 * a[1]);
        let (a3, a4) = (19 * a[3], 19 * a[4]);
        propagate([
            m(a[0], a[0]) + m(d1, a4) + m(2 * a[2], a3),
            m(d0, a[1]) + m(2 * a[2], a4) + m(a[3], a3),
            m(d0, a[2]) + m(a[1], a[1]) + m(2 * a[3], a4),
            m(d0, a[3]) + m(d1, a[2]) + m(a[4], a4),
            m(d0, a[4]) + m(d1, a[3]) + m(a[2], a[2]),
        ])
    }

    #[inline(always)]
    fn widen(&self) -> Self {
        *self
    }

    #[inline(always)]
    fn add(a: Self, b: Self) -> Self {
        Self(std::array::from_fn(|i| a.0[i] + b.0[i]))
    }

    #[inline(always)]
    fn sub(a: Self, b: Self) -> Self {
        Self(std::array::from_fn(|i| a.0[i] + FOUR_P[i] - b.0[i]))
    }

    #[inline(always)]
    fn pick<'a>(from: impl Fn(usize) -> &'a Self) -> Self {
        *from(0)
    }

    #[inline(always)]
    fn reduce<const PRODUCTS: i32>(wide: Self) -> Self {
        wide
    }
}

#[inline(always)]
fn product<F: Field>(a: &F, b: &F) -> F {
    F::reduce::<1>(a.mul(b))
}

/// x to the power 2^n, by n squarings.
#[inline(always)]
fn square_times<F: Field>(x: &F, n: u32) -> F {
    let mut x = *x;
    for _ in 0..n {
        x = F::reduce::<1>(x.square());
    }
    x
}

/// (x^(2^250 − 1), x^11), the common part of both exponentiations.
#[inline(always)]
fn chain<F: Field>(x: &F) -> (F, F) {
    let x2 = square_times(x, 1);
    let x9 = product(&square_times(&x2, 2), x);
    let x11 = product(&x9, &x2);
    let e5 = product(&square_times(&x11, 1), &x9);
    let e10 = product(&square_times(&e5, 5), &e5);
    let e20 = product(&square_times(&e10, 10), &e10);
    let e40 = product(&square_times(&e20, 20), &e20);
    let e50 = product(&square_times(&e40, 10), &e10);
    let e100 = product(&square_times(&e50, 50), &e50);
    let e200 = product(&square_times(&e100, 100), &e100);
    (product(&square_times(&e200, 50), &e50), x11)
}

/// u·v³·(u·v⁷)^((p − 5)/8), whose square is u/v or −u/v where one of these is a square.
#[inline(always)]
pub(super) fn root_candidate<F: Field>(u: &F, v: &F) -> F {
    let v3 = product(&square_times(v, 1), v);
    let base = product(u, &product(&square_times(&v3, 1), v));
    let power = product(&square_times(&chain(&base).0, 2), &base);
    product(&product(u, &v3), &power)
}

/// Carries five column sums into limbs.
#[inline(always)]
fn propagate(mut c: [u128; 5]) -> Fe {
    for i in 0..4 {
        c[i + 1] += c[i] >> 51;
    }
    let mut l = c.map(|column| column as u64 & MASK);
    // Columns are below 2^115, so this carry times 19 needs more than 64 bits only in the first limb.
    let top = (c[4] >> 51) * 19 + u128::from(l[0]);
    l[0] = top as u64 & MASK;
    l[1] += (top >> 51) as u64;
    Fe(l)
}

/// Four little-endian words of a 32-byte string.
pub(super) fn words_of(bytes: &[u8; 32]) -> [u64; 4] {
    std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|j| bytes[8 * i + j])))
}

/// The 32-byte string of four little-endian words.
pub(super) fn bytes_of(words: &[u64; 4]) -> [u8; 32] {
    std::array::from_fn(|i| words[i / 8].to_le_bytes()[i % 8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_element() -> impl Strategy<Value = Fe> {
        any::<[u64; 4]>().prop_map(|w| Fe::from_words(&w))
    }

    #[test]
    fn constants_satisfy_their_equations() {
        assert_eq!(Fe::SQRT_M1.square().to_words(), Fe::ZERO.minus(&Fe::ONE).to_words());
        assert_eq!(Fe::HALF.plus(&Fe::HALF).to_words(), Fe::ONE.to_words());
        let mut n = Fe::ZERO;
        n.0[0] = 121_666;
        let mut minus_121665 = Fe::ZERO;
        minus_121665.0[0] = 121_665;
        assert_eq!(Fe::D.mul(&n).to_words(), Fe::ZERO.minus(&minus_121665).to_words());
    }

    #[test]
    fn numbers_from_p_upwards_are_reduced() {
        for extra in 0..19u64 {
            let mut bytes = [0xff; 32];
            bytes[31] = 0x7f;
            bytes[0] = 0xed + extra as u8;
            assert_eq!(Fe::from_bytes(&bytes).to_words(), [extra, 0, 0, 0]);
        }
    }

    proptest! {
        #[test]
        fn products_obey_the_laws(a in any_element(), b in any_element(), c in any_element()) {
            let left = a.plus(&b).mul(&c).to_words();
            prop_assert_eq!(left, a.mul(&c).plus(&b.mul(&c)).to_words());
            prop_assert_eq!(a.square().to_words(), a.mul(&a).to_words());
            prop_assert_eq!(a.minus(&b).plus(&b).to_words(), a.to_words());
            if a.to_words() != [0; 4] {
                prop_assert_eq!(a.mul(&a.invert()).to_words(), Fe::ONE.to_words());
            }
            let root = Fe::root_of_ratio(&a.square(), &Fe::ONE).expect("a square has a root");
            prop_assert_eq!(root.square().to_words(), a.square().to_words());
            prop_assert!(!root.is_odd());
        }

        #[test]
        fn batch_inversion_equals_single(elements in prop::collection::vec(any_element(), 1..40)) {
            let mut inverted = elements.clone();
            Fe::invert_all(&mut inverted, &mut Vec::new());
            for (e, i) in elements.iter().zip(&inverted) {
                prop_assert_eq!(e.invert().to_words(), i.to_words());
            }
        }
    }
}
