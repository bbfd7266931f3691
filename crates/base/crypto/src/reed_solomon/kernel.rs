//! The loops over shards: the transform for 32 + 32, and sums of products for the rest.
//!
//! reads   shards of equal length
//! writes  shards of the same length
//! memory  one vector for each of 32 points, on the stack
//! source  Lin, Chung, Han, "Novel Polynomial Basis and Its Application to Reed-Solomon Erasure
//!         Codes" (2014)
//!
//! Shard r is the value, at the point r, of the one polynomial of degree below 32 through the data.
//! The points 0–31 are a subspace of GF(2^8) over GF(2) and 32–63 its coset, so the polynomial is
//! found by an inverse additive transform and evaluated by a forward one: five levels of sixteen
//! butterflies each, at most one product in a butterfly. That is 129 products where the matrix has
//! 1,024; 31 twiddles of the inverse transform are zero.

use super::field::{const_inverse, const_mul};
use super::vector::Vector;

/// Data shards, and parity shards, of the fixed code.
pub(super) const POINTS: usize = 32;

/// `NORMALISED[j][x]`: the polynomial that vanishes on the points below 2^j, scaled to be one at
/// 2^j, evaluated at the point x.
const NORMALISED: [[u8; 64]; 5] = {
    let mut vanishing = [[0u8; 64]; 6];
    let mut x = 0;
    while x < 64 {
        vanishing[0][x] = x as u8;
        x += 1;
    }
    let mut out = [[0u8; 64]; 5];
    let mut j = 0;
    while j < 5 {
        let at_basis = vanishing[j][1 << j];
        x = 0;
        while x < 64 {
            let here = vanishing[j][x];
            vanishing[j + 1][x] = const_mul(here, here ^ at_basis);
            out[j][x] = const_mul(here, const_inverse(at_basis));
            x += 1;
        }
        j += 1;
    }
    out
};

/// The twiddles of a transform at the points `shift`..`shift + 32`.
struct Twiddles {
    /// `consecutive[g]`, for the points 8g to 8g + 7: distance 4, 2 twice, 1 four times.
    consecutive: [[u8; 7]; 4],
    /// Distance 16, then 8 twice.
    far: [u8; 3],
}

const fn twiddles(shift: usize) -> Twiddles {
    let mut consecutive = [[0; 7]; 4];
    let mut g = 0;
    while g < 4 {
        let at = shift + 8 * g;
        let [one, two, four] = [&NORMALISED[0], &NORMALISED[1], &NORMALISED[2]];
        consecutive[g] = [four[at], two[at], two[at + 4], one[at], one[at + 2], one[at + 4], one[at + 6]];
        g += 1;
    }
    let far = [NORMALISED[4][shift], NORMALISED[3][shift], NORMALISED[3][shift + 16]];
    Twiddles { consecutive, far }
}

const DATA: Twiddles = twiddles(0);
const PARITY: Twiddles = twiddles(POINTS);
const _: () = assert!(DATA.far[0] == 0 && DATA.far[1] == 0, "the inverse skips these products");

/// One step of the inverse transform.
#[inline(always)]
unsafe fn inverse_step<V: Vector>(x: &mut [V], a: usize, b: usize, twiddle: u8) {
    // SAFETY: the caller of the kernel vouches for the features.
    unsafe {
        x[b] = x[b].add(x[a]);
        x[a] = x[a].add(x[b].mul(twiddle));
    }
}

/// One step of the inverse transform whose twiddle is zero.
#[inline(always)]
unsafe fn inverse_step_zero<V: Vector>(x: &mut [V], a: usize, b: usize) {
    // SAFETY: the caller of the kernel vouches for the features.
    x[b] = unsafe { x[b].add(x[a]) };
}

/// One step of the forward transform.
#[inline(always)]
unsafe fn forward_step<V: Vector>(x: &mut [V], a: usize, b: usize, twiddle: u8) {
    // SAFETY: the caller of the kernel vouches for the features.
    unsafe {
        x[a] = x[a].add(x[b].mul(twiddle));
        x[b] = x[b].add(x[a]);
    }
}

/// Encodes one vector's width at offset `at` of every shard.
///
/// # Safety
/// The machine must have the features of `V`, and every shard at least `at + V::WIDTH` bytes.
#[inline(always)]
unsafe fn encode_column<V: Vector>(data: &[*const u8; POINTS], parity: &[*mut u8; POINTS], at: usize) {
    // SAFETY: as the caller vouches; all indices are constants below the arrays' lengths.
    unsafe {
        let zero = V::load([0u8; 64].as_ptr());
        let mut points = [zero; POINTS];
        for g in 0..4 {
            let mut x = [zero; 8];
            for i in 0..8 {
                x[i] = V::load(data[8 * g + i].add(at));
            }
            let t = &DATA.consecutive[g];
            if g == 0 {
                inverse_step_zero(&mut x, 0, 1);
            } else {
                inverse_step(&mut x, 0, 1, t[3]);
            }
            inverse_step(&mut x, 2, 3, t[4]);
            inverse_step(&mut x, 4, 5, t[5]);
            inverse_step(&mut x, 6, 7, t[6]);
            for i in 0..2 {
                if g == 0 {
                    inverse_step_zero(&mut x, i, i + 2);
                } else {
                    inverse_step(&mut x, i, i + 2, t[1]);
                }
                inverse_step(&mut x, 4 + i, 6 + i, t[2]);
            }
            for i in 0..4 {
                if g == 0 {
                    inverse_step_zero(&mut x, i, i + 4);
                } else {
                    inverse_step(&mut x, i, i + 4, t[0]);
                }
            }
            points[8 * g..8 * g + 8].copy_from_slice(&x);
        }
        for i in 0..8 {
            let mut x = [points[i], points[i + 8], points[i + 16], points[i + 24]];
            inverse_step_zero(&mut x, 0, 1);
            inverse_step(&mut x, 2, 3, DATA.far[2]);
            inverse_step_zero(&mut x, 0, 2);
            inverse_step_zero(&mut x, 1, 3);
            forward_step(&mut x, 0, 2, PARITY.far[0]);
            forward_step(&mut x, 1, 3, PARITY.far[0]);
            forward_step(&mut x, 0, 1, PARITY.far[1]);
            forward_step(&mut x, 2, 3, PARITY.far[2]);
            for j in 0..4 {
                points[i + 8 * j] = x[j];
            }
        }
        for g in 0..4 {
            let t = &PARITY.consecutive[g];
            let x = &mut points[8 * g..8 * g + 8];
            for i in 0..4 {
                forward_step(x, i, i + 4, t[0]);
            }
            for i in 0..2 {
                forward_step(x, i, i + 2, t[1]);
                forward_step(x, 4 + i, 6 + i, t[2]);
            }
            for i in 0..4 {
                forward_step(x, 2 * i, 2 * i + 1, t[3 + i]);
            }
            for i in 0..8 {
                x[i].store(parity[8 * g + i].add(at));
            }
        }
    }
}

/// Writes the parity of 32 data shards of `len` bytes each.
///
/// # Safety
/// The machine must have the features of `V`; every shard must have `len ≥ V::WIDTH` bytes; the parity must be writable
/// and must not overlap other memory.
#[inline(always)]
pub(super) unsafe fn encode<V: Vector>(data: &[*const u8; POINTS], parity: &[*mut u8; POINTS], len: usize) {
    let last = len - V::WIDTH;
    let mut at = 0;
    loop {
        // SAFETY: `at ≤ last`, so a vector fits; the rest as the caller vouches.
        unsafe { encode_column::<V>(data, parity, at) };
        if at == last {
            return;
        }
        // The last vector may overlap the one before: a column depends on nothing but itself.
        at = (at + V::WIDTH).min(last);
    }
}

/// Writes the sum of `coefficients[i]` × `shards[i]` to `out`.
///
/// # Safety
/// The machine must have the features of `V`; every shard must have `out.len() ≥ V::WIDTH` bytes.
#[inline(always)]
pub(super) unsafe fn combine<V: Vector>(shards: &[&[u8]], coefficients: &[u8], out: &mut [u8]) {
    let last = out.len() - V::WIDTH;
    let mut at = 0;
    loop {
        // SAFETY: `at ≤ last`, so a vector fits in every shard; the rest as the caller vouches.
        unsafe {
            let mut sum = V::load([0u8; 64].as_ptr());
            for (shard, &c) in shards.iter().zip(coefficients) {
                sum = sum.add(V::load(shard.as_ptr().add(at)).mul(c));
            }
            sum.store(out.as_mut_ptr().add(at));
        }
        if at == last {
            return;
        }
        at = (at + V::WIDTH).min(last);
    }
}
