//! Tables of odd multiples: one of the generator, shared, and one for each of eight points.
//!
//! reads   points
//! writes  entries, and eight of them at once as lanes
//! memory  the generator's table, 49 KB, made when it is first needed; 12 KB for eight points
//! source  the common denominator of a table is "effective affine" in libsecp256k1: instead of dividing by it, the
//!         computation moves to the isomorphic curve where the table's points are affine

#![allow(unsafe_code)]

use super::field8::Fe8;
use super::modular::{PRIME, bytes_of, words_of};
use super::point8::{Addend8, Point8};
use crate::lanes::transpose;
use core::arch::x86_64::*;
use secp256k1::PublicKey;
use std::sync::OnceLock;

/// Bits of a window of the generator's digits.
pub(super) const BASE_WIDTH: usize = 10;
/// Bits of a window of any other point's digits.
pub(super) const POINT_WIDTH: usize = 5;
/// Entries of a table: 1·P, 3·P and so on; a digit of `WIDTH` bits is one of them or its negative.
const BASE_ENTRIES: usize = 1 << (BASE_WIDTH - 1);
const POINT_ENTRIES: usize = 1 << (POINT_WIDTH - 1);

/// β, a third root of 1: λ·(x, y) = (β·x, y).
pub(super) const BETA: [u64; 4] =
    [0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710];

/// Affine coordinates of the generator.
pub(super) const GENERATOR: [[u64; 4]; 2] = [
    [0x59f2_815b_16f8_1798, 0x029b_fcdb_2dce_28d9, 0x55a0_6295_ce87_0b07, 0x79be_667e_f9dc_bbac],
    [0x9c47_d08f_fb10_d4b8, 0xfd17_b448_a685_5419, 0x5da4_fbfc_0e11_08a8, 0x483a_da77_26a3_c465],
];

/// A point (x, y) and λ times it, in 96 bytes: the first 64 are (−x, y), the last 64 (y, −β·x).
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct Entry([[u64; 4]; 3]);

const _: () = assert!(size_of::<Entry>() == 96);

/// The tables of eight points, lane by lane.
pub(super) type PointTables = [[Entry; POINT_ENTRIES]; 8];

impl Entry {
    pub(super) const ZERO: Self = Self([[0; 4]; 3]);

    fn new(x: &[u64; 4], y: &[u64; 4]) -> Self {
        let minus_x = PRIME.negate(x);
        Self([minus_x, *y, PRIME.mul(&minus_x, &BETA)])
    }
}

/// Returns the generator's table, building it on first use.
pub(super) fn base() -> &'static [Entry] {
    static TABLE: OnceLock<Vec<Entry>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut compact = [2; 33];
        compact[1..].copy_from_slice(&bytes_of(&GENERATOR[0]));
        let one = PublicKey::from_slice(&compact).expect("G has an even ordinate");
        let two = one.combine(&one).expect("2·G is not the point at infinity");
        let entry = |point: &PublicKey| {
            let bytes = point.serialize_uncompressed();
            let word = |at: usize| words_of(&std::array::from_fn(|i| bytes[at + i]));
            Entry::new(&word(1), &word(33))
        };
        let next =
            |point: &PublicKey| Some(point.combine(&two).expect("a small multiple of G is not the point at infinity"));
        std::iter::successors(Some(one), next).take(BASE_ENTRIES).map(|point| entry(&point)).collect()
    })
}

/// Loads the entries for the digits `windows`, one per lane, where lane l's table begins at `tables + l · stride`;
/// times λ if `LAMBDA`.
///
/// # Safety
/// `Fe8` must be available; digits must have `WIDTH` bits, and `tables` entries for all of them.
#[inline(always)]
pub(super) unsafe fn select<const WIDTH: usize, const LAMBDA: bool>(
    tables: *const Entry,
    stride: usize,
    windows: &[u16; 8],
) -> Addend8 {
    // The digit of a window v is 2·v − (2^WIDTH − 1): negative below half of all, and the entry is as far from there.
    let half = 1 << (WIDTH - 1);
    // SAFETY: as the caller promises; each lane reads 64 of its entry's 96 bytes.
    unsafe {
        let digits = _mm512_cvtepu16_epi64(_mm_loadu_si128(windows.as_ptr().cast()));
        let negative = _mm512_cmplt_epu64_mask(digits, _mm512_set1_epi64(half));
        let flips = _mm512_mask_blend_epi64(negative, _mm512_set1_epi64(half), _mm512_set1_epi64(half - 1));
        let mut at = [0usize; 8];
        _mm512_storeu_si512(at.as_mut_ptr().cast(), _mm512_xor_si512(digits, flips));
        let mut rows = [_mm512_setzero_si512(); 8];
        for l in 0..8 {
            let entry = tables.add(l * stride + at[l]).cast::<u8>();
            rows[l] = _mm512_loadu_si512(entry.add(32 * LAMBDA as usize).cast());
        }
        let w = transpose(rows);
        let (first, second) = (Fe8::from_words([w[0], w[1], w[2], w[3]]), Fe8::from_words([w[4], w[5], w[6], w[7]]));
        let (minus_x, y) = if LAMBDA { (second, first) } else { (first, second) };
        Addend8 { minus_x, y, negative }
    }
}

/// Fills the tables of the points (x, y), which are canonical, and returns the Z of all their entries: an entry
/// (x', y') is the point (x'/Z², y'/Z³).
///
/// # Safety
/// `Fe8` is available.
#[inline(always)]
pub(super) unsafe fn fill(x: &Fe8, y: &Fe8, tables: &mut PointTables) -> Fe8 {
    // SAFETY: as the caller promises.
    let (one, beta) = unsafe {
        let beta = BETA.map(|word| _mm512_set1_epi64(word as i64));
        (Fe8::small(1), Fe8::from_words(beta))
    };
    let double = Point8 { x: *x, y: *y, z: one, negated: false }.double();
    // On the curve where the double is affine, P is (x·Z², y·Z³).
    let zz = double.z.squared();
    let mut point = Point8 { x: x.times(&zz), y: y.times(&zz.times(&double.z)), z: one, negated: false };
    let step =
        Addend8 { minus_x: double.x.negate_if(0xff), y: double.y, negative: if double.negated { 0xff } else { 0 } };
    let mut points = [point; POINT_ENTRIES];
    let mut factors = [one; POINT_ENTRIES];
    for i in 1..POINT_ENTRIES {
        (point, factors[i]) = point.add_scaled(&step, &point.z);
        points[i] = point;
    }
    let mut scale = one;
    for i in (0..POINT_ENTRIES).rev() {
        let Point8 { x, y, negated, .. } = points[i];
        let square = scale.squared();
        let minus_x = x.times(&square).negate_if(0xff).canonical();
        let y = y.times(&square.times(&scale)).negate_if(if negated { 0xff } else { 0 }).canonical();
        // SAFETY: as the caller promises.
        unsafe { store(&minus_x, &y, &minus_x.times(&beta).canonical(), tables, i) };
        scale = scale.times(&factors[i]);
    }
    double.z.times(&point.z)
}

/// Writes entry `at` of each lane's table.
///
/// # Safety
/// `Fe8` is available.
#[inline(always)]
unsafe fn store(minus_x: &Fe8, y: &Fe8, minus_beta_x: &Fe8, tables: &mut PointTables, at: usize) {
    let (x, y, bx) = (minus_x.words(), y.words(), minus_beta_x.words());
    // SAFETY: as the caller promises; the two halves of 64 bytes overlap in y and end with the entry.
    unsafe {
        let first = transpose([x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]]);
        let last = transpose([y[0], y[1], y[2], y[3], bx[0], bx[1], bx[2], bx[3]]);
        for l in 0..8 {
            let to: *mut u8 = (&raw mut tables[l][at]).cast();
            _mm512_storeu_si512(to.cast(), first[l]);
            _mm512_storeu_si512(to.add(32).cast(), last[l]);
        }
    }
}
