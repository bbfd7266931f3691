//! Points of the curve −x² + y² = 1 + d·x²·y² and their complete addition formulas.
//!
//! reads   field elements, table entries
//! writes  points
//! source  Hisil, Wong, Carter, Dawson, "Twisted Edwards curves revisited" (2008), §3.1 and §3.3, with a = −1
//!
//! The formulas are complete: d is no square, so that no sum has Z = 0.

use super::field::{Fe, Field, LANES_MAX};

/// A point x = X/Z, y = Y/Z with Y − X and Y + X in place of X and Y, and T = X·Y/Z. All four may have a
/// common factor. Nearly every formula wants the difference and the sum, and both come out of a product
/// for the price of one carry each.
#[derive(Clone, Copy)]
pub(super) struct Point<F> {
    minus: F,
    plus: F,
    z: F,
    t: F,
}

/// A point made ready to be added: 2·d·T in place of T.
#[derive(Clone, Copy)]
pub(super) struct Addend<F> {
    minus: F,
    plus: F,
    z: F,
    t_2d: F,
}

/// An affine point as tables hold it: (y + x)/2, (y − x)/2 and d·x·y, each below p. The halves save the
/// doubling of Z1 in the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub(super) struct Entry {
    /// (y + x)/2 and (y − x)/2, in an array so that a sign can choose their order without a branch.
    pub(super) halves: [[u64; 4]; 2],
    /// d·x·y, the factor of T in a sum.
    pub(super) product: [u64; 4],
}

const _: () = assert!(size_of::<Entry>() == 96);

impl Entry {
    /// The neutral element (0, 1).
    pub(super) const NEUTRAL: Self = {
        const HALF: [u64; 4] = [0xffff_ffff_ffff_fff7, u64::MAX, u64::MAX, 0x3fff_ffff_ffff_ffff];
        Self { halves: [HALF, HALF], product: [0; 4] }
    };

    /// Entry number `magnitude` of a table that starts with 1·P, the neutral element for 0, with the halves
    /// exchanged as for the negative if `negative`. Reads the whole table and branches on neither.
    #[inline(always)]
    pub(super) fn select(table: &[Entry], magnitude: u64, negative: bool) -> Entry {
        let is = |n: u64| ((n ^ magnitude).wrapping_sub(1) >> 63).wrapping_neg();
        let pick = |mask: u64, words: &[u64; 4]| words.map(|word| word & mask);
        let or = |to: &mut [u64; 4], words: [u64; 4]| to.iter_mut().zip(words).for_each(|(t, w)| *t |= w);
        let mut out = Entry { halves: [pick(is(0), &Entry::NEUTRAL.halves[0]); 2], product: [0; 4] };
        for (n, entry) in table.iter().enumerate() {
            let mask = std::hint::black_box(is(n as u64 + 1));
            or(&mut out.halves[0], pick(mask, &entry.halves[0]));
            or(&mut out.halves[1], pick(mask, &entry.halves[1]));
            or(&mut out.product, pick(mask, &entry.product));
        }
        let exchange = std::hint::black_box(u64::from(negative).wrapping_neg());
        let [plus, minus] = out.halves;
        for i in 0..4 {
            let change = exchange & (plus[i] ^ minus[i]);
            out.halves[0][i] ^= change;
            out.halves[1][i] ^= change;
        }
        out
    }

    /// The entry of an affine point.
    pub(super) fn new(x: &Fe, y: &Fe) -> Self {
        let plus = y.plus(x).mul(&Fe::HALF).to_words();
        let minus = y.minus(x).mul(&Fe::HALF).to_words();
        Self { halves: [plus, minus], product: x.mul(y).mul(&Fe::D).to_words() }
    }
}

impl<F: Field> Addend<F> {
    /// The neutral element in each lane.
    #[inline(always)]
    pub(super) fn neutral() -> Self {
        let one = F::splat(&Fe::ONE);
        Self { minus: one, plus: one, z: one, t_2d: F::splat(&Fe::ZERO) }
    }

    /// Lane l of `from(l)`, negated where `negative(l)`.
    #[inline(always)]
    pub(super) fn pick<'a>(from: impl Fn(usize) -> &'a Self, negative: impl Fn(usize) -> bool) -> Self
    where
        F: 'a,
    {
        Self {
            minus: F::pick(|l| if negative(l) { &from(l).plus } else { &from(l).minus }),
            plus: F::pick(|l| if negative(l) { &from(l).minus } else { &from(l).plus }),
            z: F::pick(|l| &from(l).z),
            t_2d: F::pick(|l| &from(l).t_2d).negate_if(negative),
        }
    }
}

impl<F: Field> Point<F> {
    /// The point that is (x(l), y(l)) in lane l.
    #[inline(always)]
    pub(super) fn gather(affine: impl Fn(usize) -> (Fe, Fe)) -> Self {
        let mut words = [[[0; 4]; 3]; LANES_MAX];
        for (l, words) in words.iter_mut().enumerate().take(F::LANES) {
            let (x, y) = affine(l);
            *words = [y.minus(&x).to_words(), y.plus(&x).to_words(), x.mul(&y).to_words()];
        }
        let [minus, plus, t] = [0, 1, 2].map(|c| F::load(|l| &words[l][c]));
        Self { minus, plus, z: F::splat(&Fe::ONE), t }
    }

    /// The neutral element in each lane.
    #[inline(always)]
    pub(super) fn neutral() -> Self {
        let one = F::splat(&Fe::ONE);
        Self { minus: one, plus: one, z: one, t: F::splat(&Fe::ZERO) }
    }

    /// self + `entry(lane)`, negated where `negative(lane)`. Without `T` the result's t is not computed and
    /// it may only be doubled or read.
    #[inline(always)]
    pub(super) fn add_entry<'a, const T: bool>(
        &self,
        entry: impl Fn(usize) -> &'a Entry,
        negative: impl Fn(usize) -> bool,
    ) -> Self {
        let plus = F::load(|lane| &entry(lane).halves[usize::from(negative(lane))]);
        let minus = F::load(|lane| &entry(lane).halves[usize::from(!negative(lane))]);
        let product = F::load(|lane| &entry(lane).product).negate_if(negative);
        self.add_affine::<T>(&plus, &minus, &product)
    }

    /// self + `entry(lane)`, whose halves are already in the order that `negative(lane)` requires.
    #[inline(always)]
    pub(super) fn add_selected<'a>(
        &self,
        entry: impl Fn(usize) -> &'a Entry,
        negative: impl Fn(usize) -> bool,
    ) -> Self {
        let plus = F::load(|lane| &entry(lane).halves[0]);
        let minus = F::load(|lane| &entry(lane).halves[1]);
        let product = F::load(|lane| &entry(lane).product).negate_if(negative);
        self.add_affine::<true>(&plus, &minus, &product)
    }

    /// self + the point with the halves `plus` = (y + x)/2 and `minus` = (y − x)/2 and `product` = d·x·y.
    #[inline(always)]
    pub(super) fn add_affine<const T: bool>(&self, plus: &F, minus: &F, product: &F) -> Self {
        let a = self.minus.mul(minus);
        let b = self.plus.mul(plus);
        let c = self.t.mul(product);
        let d = self.z.widen();
        let e = F::reduce::<0>(F::sub(b, a));
        let h = F::reduce::<2>(F::add(b, a));
        let f = F::reduce::<-1>(F::sub(d, c));
        let g = F::reduce::<1>(F::add(d, c));
        Self::from_efgh::<T>(&e, &f, &g, &h)
    }

    /// self + other, which may be the same point. `T` says whether the sum's t is needed.
    #[inline(always)]
    pub(super) fn add_point<const T: bool>(&self, other: &Addend<F>) -> Self {
        let a = self.minus.mul(&other.minus);
        let b = self.plus.mul(&other.plus);
        let c = self.t.mul(&other.t_2d);
        let zz = self.z.mul(&other.z);
        let d = F::add(zz, zz);
        let e = F::reduce::<0>(F::sub(b, a));
        let h = F::reduce::<2>(F::add(b, a));
        let f = F::reduce::<1>(F::sub(d, c));
        let g = F::reduce::<3>(F::add(d, c));
        Self::from_efgh::<T>(&e, &f, &g, &h)
    }

    /// self as the second operand of a sum, with `two_d` = 2·d.
    #[inline(always)]
    pub(super) fn addend(&self, two_d: &F) -> Addend<F> {
        Addend { minus: self.minus, plus: self.plus, z: self.z, t_2d: F::reduce::<1>(self.t.mul(two_d)) }
    }

    /// 2·self. Does not read self's t.
    #[inline(always)]
    pub(super) fn double<const T: bool>(&self) -> Self {
        // With P = Y + X and M = Y − X, all of E, F, G, H twice as large as in the paper, F and H of the
        // other sign: 2·(X² + Y²) = P² + M², 4·X·Y = P² − M², Y² − X² = P·M.
        let pp = self.plus.square();
        let mm = self.minus.square();
        let pm = self.plus.mul(&self.minus);
        let zz = self.z.square();
        let pm2 = F::add(pm, pm);
        let zz2 = F::add(zz, zz);
        let e = F::reduce::<0>(F::sub(pp, mm));
        let h = F::reduce::<2>(F::add(pp, mm));
        let g = F::reduce::<2>(pm2);
        let f = F::reduce::<2>(F::sub(F::add(zz2, zz2), pm2));
        Self::from_efgh::<T>(&e, &f, &g, &h)
    }

    /// X = E·F, Y = G·H, Z = F·G, T = E·H.
    #[inline(always)]
    fn from_efgh<const T: bool>(e: &F, f: &F, g: &F, h: &F) -> Self {
        let x = e.mul(f);
        let y = g.mul(h);
        let z = F::reduce::<1>(f.mul(g));
        let t = if T { F::reduce::<1>(e.mul(h)) } else { z };
        Self { minus: F::reduce::<0>(F::sub(y, x)), plus: F::reduce::<2>(F::add(y, x)), z, t }
    }

    /// One lane as a portable point (its t is that lane's too).
    pub(super) fn lane(&self, lane: usize) -> Point<Fe> {
        Point { minus: self.minus.lane(lane), plus: self.plus.lane(lane), z: self.z.lane(lane), t: self.t.lane(lane) }
    }
}

impl Point<Fe> {
    /// Decodes a point as ed25519-dalek does: y may be p or more, and a set sign bit with x = 0 is accepted.
    pub(super) fn decode(bytes: &[u8; 32]) -> Option<Self> {
        let y = Fe::from_bytes(bytes);
        let (u, v) = ratio(&y);
        let x = Fe::root_of_ratio(&u, &v)?;
        Some(Self::from_affine(&signed(x, bytes), &y))
    }

    /// The point (x, y).
    pub(super) fn from_affine(x: &Fe, y: &Fe) -> Self {
        Self { minus: y.minus(x), plus: y.plus(x), z: Fe::ONE, t: x.mul(y) }
    }

    /// self + other, which may be the same point.
    pub(super) fn plus_point(&self, other: &Self) -> Self {
        self.add_point::<true>(&other.addend(&Fe::D.plus(&Fe::D)))
    }

    /// The inverse of the point in the group.
    pub(super) fn negated(&self) -> Self {
        Self { minus: self.plus, plus: self.minus, z: self.z, t: Fe::ZERO.minus(&self.t) }
    }

    /// Z, which the caller inverts, alone or with others.
    pub(super) fn z(&self) -> Fe {
        self.z
    }

    /// x and y, given 1/Z.
    pub(super) fn affine(&self, z_inverse: &Fe) -> (Fe, Fe) {
        let half = z_inverse.mul(&Fe::HALF);
        let (plus, minus) = (self.plus.carried(), self.minus.carried());
        (plus.minus(&minus).mul(&half), plus.plus(&minus).mul(&half))
    }

    /// The encoding of RFC 8032 §5.1.2, given 1/Z.
    pub(super) fn encode(&self, z_inverse: &Fe) -> [u8; 32] {
        let (x, y) = self.affine(z_inverse);
        let mut bytes = y.to_bytes();
        bytes[31] |= u8::from(x.is_odd()) << 7;
        bytes
    }
}

/// (y² − 1, d·y² + 1), whose ratio is x².
pub(super) fn ratio(y: &Fe) -> (Fe, Fe) {
    let yy = y.square();
    (yy.minus(&Fe::ONE), yy.mul(&Fe::D).plus(&Fe::ONE))
}

/// x with the sign that the encoding asks for.
pub(super) fn signed(x: Fe, bytes: &[u8; 32]) -> Fe {
    if bytes[31] >> 7 == 1 { Fe::ZERO.minus(&x) } else { x }
}

/// The y of the eight points of small order, without sign: 0, 1, −1 and the two of order eight.
const SMALL_ORDER_Y: [[u64; 4]; 5] = [
    [0; 4],
    [1, 0, 0, 0],
    [0xffff_ffff_ffff_ffec, u64::MAX, u64::MAX, 0x7fff_ffff_ffff_ffff],
    [0x4fd8_4d3d_706a_17c7, 0x0f67_100d_760b_3cba, 0xc6cc_392c_fa53_202a, 0x7a03_ac92_77fd_c74e],
    [0xb027_b2c2_8f95_e826, 0xf098_eff2_89f4_c345, 0x3933_c6d3_05ac_dfd5, 0x05fc_536d_8802_38b1],
];

/// Whether the encoded y, taken modulo p, is that of a point of small order.
pub(super) fn has_small_order_y(bytes: &[u8; 32]) -> bool {
    SMALL_ORDER_Y.contains(&Fe::from_bytes(bytes).to_words())
}
