//! Eight points of y² = x³ + 7 in parallel, with doubling and addition.
//!
//! reads   points, table entries
//! writes  points
//! drops   nothing; a sum that the formulas cannot make is left with Z = 0
//! source  Jacobian coordinates: x = X/Z², y = Y/Z³ (Cohen, Miyaji and Ono, 1998), in the variants `dbl-2009-l`
//!         and `madd` of the Explicit-Formulas Database, signs rearranged
//!
//! Both formulas here give the *negative* of the result, for then every product is added and none subtracted: with
//! IFMA a difference costs an operand's carries. [`Point8`] counts along whether it stands for the negative, which
//! is the same in all lanes.
//!
//! The sum of a point and itself, of a point and its negative, or of infinity and another comes out with Z = 0, since
//! Z3 is Z1 times the difference of the abscissae. And Z = 0 stays: both formulas multiply Z. There is no point with
//! Y = 0, for the number of points is odd. So a chain that ends with Z ≠ 0 met no such sum and is right, and one that
//! ends with Z = 0 must be computed in another way.

use super::field8::Fe8;

/// Eight points, or their negatives.
#[derive(Clone, Copy)]
pub(super) struct Point8 {
    pub(super) x: Fe8,
    pub(super) y: Fe8,
    pub(super) z: Fe8,
    /// Whether these are the negatives of the points meant.
    pub(super) negated: bool,
}

/// Eight affine points ready to be added, with −x in place of x.
#[derive(Clone, Copy)]
pub(super) struct Addend8 {
    pub(super) minus_x: Fe8,
    pub(super) y: Fe8,
    /// Lanes in which −y is meant.
    pub(super) negative: u8,
}

impl Point8 {
    /// 2·self. With M = 3·X² and S = 4·X·Y²: X3 = M² − 2·S, −Y3 = M·(X3 − S) + 8·Y⁴, Z3 = 2·Y·Z.
    #[inline(always)]
    pub(super) fn double(&self) -> Self {
        let yy2 = self.y.square().reduce::<2>();
        let m = self.x.square().reduce::<3>();
        let s = self.x.mul(&yy2).reduce::<2>();
        let x = m.square().minus_twice(&s).reduce::<1>();
        let z = self.y.mul(&self.z).reduce::<2>();
        let y = yy2.square().doubled().plus_product(&m, &x.minus(&s)).reduce::<1>();
        Self { x, y, z, negated: !self.negated }
    }

    /// self + other, lane by lane; a lane that the formula cannot add comes out with Z = 0.
    #[inline(always)]
    pub(super) fn add(&self, other: &Addend8) -> Self {
        self.add_scaled(other, &self.z).0
    }

    /// As [`Point8::add`], with other (x2, y2) given where self is (X/z², Y/z³); also the factor h by which Z grows.
    /// With h = X1 − x2·z², i = Y1 − y2·z³ and t = X1·h²: X3 = i² + h³ − 2·t, −Y3 = i·(X3 − t) + Y1·h³, Z3 = Z1·h.
    #[inline(always)]
    pub(super) fn add_scaled(&self, other: &Addend8, z: &Fe8) -> (Self, Fe8) {
        // In this order neighbours seldom wait for each other.
        let zz = z.squared();
        let h = other.minus_x.mul(&zz).plus(&self.x).reduce::<1>();
        let zzz = z.times(&zz);
        let hh = h.squared();
        // The point that self really holds may be the negative; then so is the one to be added.
        let lanes = if self.negated { other.negative } else { !other.negative };
        let i = other.y.negate_if(lanes).mul(&zzz).plus(&self.y).reduce::<1>();
        let t = self.x.times(&hh);
        let hhh = h.times(&hh);
        let x = i.square().plus(&hhh).minus_twice(&t).reduce::<1>();
        let z = self.z.times(&h);
        let y = self.y.mul(&hhh).plus_product(&i, &x.minus(&t)).reduce::<1>();
        (Self { x, y, z, negated: !self.negated }, h)
    }
}
