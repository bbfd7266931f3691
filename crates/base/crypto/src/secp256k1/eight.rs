//! Eight public keys in parallel.
//!
//! reads   abscissae of R and the digits of u1 and u2
//! writes  the points u1·G + u2·R, then their affine coordinates
//! memory  the tables of eight points, 12 KB, and 1 KB of state between the two steps per octet
//! source  Shamir's trick with four scalars of half the size; the curve's endomorphism, see [`super::scalar`]

#![allow(unsafe_code)]

use super::field8::{Fe8, invert, root_candidates};
use super::point8::Point8;
use super::scalar::{BITS, signed_bits, window};
use super::table::{self, BASE_WIDTH, Entry, GENERATOR, POINT_WIDTH, PointTables};
use crate::lanes::transpose;
use core::arch::x86_64::*;

const BASE_WINDOWS: usize = BITS / BASE_WIDTH;
const POINT_WINDOWS: usize = BITS / POINT_WIDTH;
const _: () = assert!(BITS.is_multiple_of(BASE_WIDTH) && BITS.is_multiple_of(POINT_WIDTH));

/// Eight sums to make.
pub(super) struct EightSums {
    /// Abscissae of R, by lanes.
    pub(super) x: [[u64; 4]; 8],
    /// Lanes in which the ordinate of R is odd.
    pub(super) odd: u8,
    /// The windows of both halves of u1, by lanes.
    base: [[[u16; 8]; BASE_WINDOWS]; 2],
    /// The windows of both halves of u2, by lanes.
    point: [[[u16; 8]; POINT_WINDOWS]; 2],
}

impl Default for EightSums {
    fn default() -> Self {
        Self { x: [[0; 4]; 8], odd: 0, base: [[[0; 8]; BASE_WINDOWS]; 2], point: [[[0; 8]; POINT_WINDOWS]; 2] }
    }
}

impl EightSums {
    /// Sets the inputs of one lane.
    pub(super) fn set(&mut self, lane: usize, x: &[u64; 4], odd: bool, u1: &[u64; 4], u2: &[u64; 4]) {
        self.x[lane] = *x;
        self.odd = self.odd & !(1 << lane) | u8::from(odd) << lane;
        for (half, bits) in signed_bits(u1).iter().enumerate() {
            for (i, windows) in self.base[half].iter_mut().enumerate() {
                windows[lane] = window::<BASE_WIDTH>(bits, i * BASE_WIDTH);
            }
        }
        for (half, bits) in signed_bits(u2).iter().enumerate() {
            for (i, windows) in self.point[half].iter_mut().enumerate() {
                windows[lane] = window::<POINT_WIDTH>(bits, i * POINT_WIDTH);
            }
        }
    }
}

/// Eight sums made, not yet divided.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    point: Point8,
    /// Lanes whose abscissa of R is not on the curve.
    pub(super) off_curve: u8,
    /// Lanes that met a sum which the formulas cannot make.
    pub(super) unknown: u8,
}

/// x and y of each lane.
pub(super) type Affine = [[[u64; 4]; 2]; 8];

/// Returns the points with the abscissae, their ordinates odd where requested, and the lanes without such a point,
/// which hold the generator instead.
#[inline(always)]
fn lift<const K: usize>(octets: &[EightSums; K]) -> [(Fe8, Fe8, u8); K] {
    // SAFETY: only called by functions whose callers promise the features.
    let (x, cubes, generator) = unsafe {
        let [gx, gy] = GENERATOR.map(|words| Fe8::from_words(words.map(|word| _mm512_set1_epi64(word as i64))));
        let x = octets.each_ref().map(|octet| Fe8::from_words(load(&octet.x)));
        let mut cubes = x;
        for cube in &mut cubes {
            *cube = cube.squared().mul(cube).plus(&Fe8::small(7)).reduce::<1>();
        }
        (x, cubes, (gx, gy))
    };
    let roots = root_candidates(&cubes);
    let mut out = [(generator.0, generator.1, 0); K];
    for i in 0..K {
        let off_curve = !roots[i].squared().equals(&cubes[i]);
        let y = roots[i].canonical();
        let y = y.negate_if(y.is_odd() ^ octets[i].odd).canonical();
        out[i] = (x[i].replace_if(off_curve, &generator.0), y.replace_if(off_curve, &generator.1), off_curve);
    }
    out
}

/// u1·G + u2·R for each lane of several octets.
///
/// # Safety
/// The processor must support the instructions of `Fe8`.
#[target_feature(enable = "avx512f,avx512ifma,avx512dq,avx512bw,avx512vl")]
pub(super) unsafe fn sum<const K: usize>(
    octets: &[EightSums; K],
    base: &[Entry],
    tables: &mut PointTables,
) -> [Sums; K] {
    let lifted = lift(octets);
    std::array::from_fn(|i| {
        let (x, y, off_curve) = lifted[i];
        // SAFETY: as the caller promises.
        let point = unsafe { multiply(&octets[i], &x, &y, base, tables) };
        Sums { point, off_curve, unknown: point.z.is_zero() }
    })
}

/// u1·G + u2·(x, y).
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq,avx512bw,avx512vl")]
unsafe fn multiply(octet: &EightSums, x: &Fe8, y: &Fe8, base: &[Entry], tables: &mut PointTables) -> Point8 {
    const STRIDE: usize = size_of::<PointTables>() / 8 / size_of::<Entry>();
    assert_eq!(base.len(), 1 << (BASE_WIDTH - 1));
    // SAFETY: the features are those of this function; windows have the widths of the tables.
    unsafe {
        let scale = table::fill(x, y, tables);
        let tables: *const Entry = tables.as_ptr().cast();
        let first = table::select::<POINT_WIDTH, false>(tables, STRIDE, &octet.point[0][POINT_WINDOWS - 1]);
        let mut sum = Point8 {
            x: first.minus_x.negate_if(0xff).canonical(),
            y: first.y.negate_if(first.negative).canonical(),
            z: Fe8::small(1),
            negated: false,
        };
        for at in (0..=BITS - POINT_WIDTH).rev() {
            if at < BITS - POINT_WIDTH {
                sum = sum.double();
            }
            if at % POINT_WIDTH == 0 {
                let window = at / POINT_WIDTH;
                if at < BITS - POINT_WIDTH {
                    sum = sum.add(&table::select::<POINT_WIDTH, false>(tables, STRIDE, &octet.point[0][window]));
                }
                sum = sum.add(&table::select::<POINT_WIDTH, true>(tables, STRIDE, &octet.point[1][window]));
            }
            if at % BASE_WIDTH == 0 {
                let window = at / BASE_WIDTH;
                let addend = table::select::<BASE_WIDTH, false>(base.as_ptr(), 0, &octet.base[0][window]);
                sum = sum.add_scaled(&addend, &sum.z.times(&scale)).0;
                let addend = table::select::<BASE_WIDTH, true>(base.as_ptr(), 0, &octet.base[1][window]);
                sum = sum.add_scaled(&addend, &sum.z.times(&scale)).0;
            }
        }
        sum.z = sum.z.times(&scale);
        sum
    }
}

/// Returns all affine coordinates, with one inversion; meaningless for lanes in `unknown`.
///
/// # Safety
/// The processor must support the instructions of `Fe8`.
#[target_feature(enable = "avx512f,avx512ifma,avx512dq,avx512bw,avx512vl")]
pub(super) unsafe fn divide(sums: &mut [Sums], out: &mut Vec<Affine>) {
    out.clear();
    // SAFETY: as the caller promises.
    let one = unsafe { Fe8::small(1) };
    let mut before = Vec::with_capacity(sums.len());
    let mut product = one;
    for sum in sums.iter_mut() {
        // A zero would spoil all the others of its lane.
        sum.point.z = sum.point.z.replace_if(sum.unknown, &one);
        before.push(product);
        product = product.times(&sum.point.z);
    }
    let mut inverse = invert(&product);
    out.resize(sums.len(), [[[0; 4]; 2]; 8]);
    for ((sum, before), out) in sums.iter().zip(&before).zip(out.iter_mut()).rev() {
        let z = inverse.times(before);
        inverse = inverse.times(&sum.point.z);
        let zz = z.squared();
        let x = sum.point.x.times(&zz).canonical().words();
        let y = sum.point.y.times(&zz.times(&z));
        let y = y.negate_if(if sum.point.negated { 0xff } else { 0 }).canonical().words();
        // SAFETY: as the caller promises; each lane has 64 bytes.
        unsafe {
            let rows = transpose([x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]]);
            for l in 0..8 {
                _mm512_storeu_si512(out[l].as_mut_ptr().cast(), rows[l]);
            }
        }
    }
}

/// Four words of each lane.
///
/// # Safety
/// The processor has AVX-512F.
#[inline(always)]
unsafe fn load(lanes: &[[u64; 4]; 8]) -> [__m512i; 4] {
    // SAFETY: as the caller promises; each load reads the 32 bytes of a lane, or two lanes' 64.
    unsafe {
        let row = |l: usize| _mm512_castsi256_si512(_mm256_loadu_si256(lanes[l].as_ptr().cast()));
        let w = transpose([row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)]);
        [w[0], w[1], w[2], w[3]]
    }
}

#[cfg(test)]
mod tests {
    use super::super::modular::{ORDER, add};
    use super::super::scalar::LAMBDA;
    use super::*;

    /// Sums that meet a point and itself or its negative must report that they are unknown. The formulas detect it, and
    /// tests of whole signatures could not notice, since another path then decides.
    #[test]
    fn a_sum_that_meets_itself_is_unknown() {
        if !crate::lanes::available() {
            return;
        }
        // 5 + 7·λ and 2 more: scalars whose halves are odd as they are, so that the digits of the negatives are the
        // negatives of the digits.
        let some = add(&ORDER.mul(&LAMBDA, &[7, 0, 0, 0]), &[5, 0, 0, 0]);
        let more = add(&some, &[2, 0, 0, 0]);
        let minus = |x: &[u64; 4]| ORDER.negate(x);
        let mut octet = EightSums::default();
        // R is G: the first two are infinity and 2·G, by way of infinity; then come −2·some·G, where nothing meets, an
        // abscissa of no point, and another of no peculiarity.
        let scalars = [(some, minus(&some)), (more, minus(&some)), (minus(&some), minus(&some))];
        for l in 0..8 {
            let (u1, u2) = scalars[l.min(2)];
            octet.set(l, &GENERATOR[0], false, &u1, &u2);
        }
        octet.set(3, &[5, 0, 0, 0], false, &some, &[1, 2, 3, 4]);
        octet.set(4, &GENERATOR[0], true, &minus(&some), &[1, 2, 3, 4]);
        let mut tables = [[Entry::ZERO; _]; 8];
        // SAFETY: the features were detected.
        let [mut sums] =
            unsafe { sum(std::slice::from_ref(&octet).first_chunk().unwrap(), table::base(), &mut tables) };
        assert_eq!((sums.off_curve, sums.unknown), (1 << 3, 0b11));
        let mut points = Vec::new();
        // SAFETY: the features were detected.
        unsafe { divide(std::slice::from_mut(&mut sums), &mut points) };
        assert_eq!(points[0][2], points[0][7]);
        assert_ne!(points[0][2], points[0][4]);
    }
}
