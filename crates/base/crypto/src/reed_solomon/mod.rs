//! Reed–Solomon over GF(2^8): parity for shreds, and any lost shard from the rest.
//!
//! reads   shards of equal length, any length
//! writes  shards of the same length
//! memory  a kilobyte of coefficients on the stack
//! source  the code of the crate `reed-solomon-erasure` (systematic, Vandermonde), which is the oracle
//!
//! Shard r, data or parity, is the value at the field element r of the one polynomial of degree below
//! `data` through the data shards. Hence no matrix is inverted anywhere: any shard follows from any
//! `data` others by Lagrange's formula, and the usual 32 + 32 is a pair of fast transforms
//! ([`encode_32`]). AVX2, GFNI and AVX-512 are detected at run time.

mod field;
#[allow(unsafe_code)]
mod kernel;
#[allow(unsafe_code)]
mod vector;

use thiserror::Error;

use vector::Portable;
#[cfg(target_arch = "x86_64")]
use vector::{Avx2, Gfni, Gfni512};

/// The most shards, data and parity together: one for each field element.
pub const SHARDS_MAX: usize = 256;

/// Number of data shards, and of parity shards, in the fixed code of [`encode_32`].
pub const FIXED_SHARDS: usize = kernel::POINTS;

/// Why shards could not be encoded or recovered.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ReedSolomonError {
    /// No data, no parity, or more than [`SHARDS_MAX`] together.
    #[error("a code of {data} data and {parity} parity shards does not exist")]
    Counts {
        /// Number of data shards that the caller asked for.
        data: usize,
        /// Number of parity shards that the caller asked for.
        parity: usize,
    },
    /// The number of slices differs from the code's, or is too low to recover from.
    #[error("{have} shards where {need} are needed")]
    ShardCount {
        /// Number of slices passed.
        have: usize,
        /// Number of shards needed.
        need: usize,
    },
    /// Shards differ in length.
    #[error("shards differ in length")]
    UnequalLengths,
    /// An index is outside the code, or appears twice among the shards present.
    #[error("shard index {0} is out of range or repeated")]
    Index(usize),
}

/// The instructions a kernel may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Bytes,
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Gfni,
    #[cfg(target_arch = "x86_64")]
    Gfni512,
}

impl Level {
    /// Every level that this machine has and for which `len` bytes fill a vector, the fastest first.
    fn usable(len: usize) -> impl Iterator<Item = Level> {
        #[cfg(target_arch = "x86_64")]
        let vectors = {
            let avx2 = is_x86_feature_detected!("avx2");
            let gfni = avx2 && is_x86_feature_detected!("gfni");
            let gfni512 = gfni && is_x86_feature_detected!("avx512f");
            [(Level::Gfni512, gfni512 && len >= 64), (Level::Gfni, gfni && len >= 32), (Level::Avx2, avx2 && len >= 32)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let vectors = [];
        let scalars = [(Level::Portable, len >= 8), (Level::Bytes, true)];
        vectors.into_iter().chain(scalars).filter_map(|(level, usable)| usable.then_some(level))
    }

    fn best(len: usize) -> Level {
        Self::usable(len).next().unwrap_or(Level::Bytes)
    }
}

/// Writes the parity of 32 data shards, all of one length. Panics if lengths differ.
pub fn encode_32(data: &[&[u8]; FIXED_SHARDS], parity: &mut [&mut [u8]; FIXED_SHARDS]) {
    encode_32_at(Level::best(data[0].len()), data, parity);
}

fn encode_32_at(level: Level, data: &[&[u8]; FIXED_SHARDS], parity: &mut [&mut [u8]; FIXED_SHARDS]) {
    let len = data[0].len();
    assert!(data.iter().all(|s| s.len() == len), "shards differ in length");
    assert!(parity.iter().all(|s| s.len() == len), "shards differ in length");
    if level == Level::Bytes {
        let points = Points::first(FIXED_SHARDS);
        for (i, out) in parity.iter_mut().enumerate() {
            let coefficients = points.coefficients((FIXED_SHARDS + i) as u8);
            combine(level, data, &coefficients[..FIXED_SHARDS], out);
        }
        return;
    }
    let from = data.map(<[u8]>::as_ptr);
    let to = parity.each_mut().map(|s| s.as_mut_ptr());
    /// Compiles the kernel for a set of features and calls it.
    macro_rules! with_features {
        ($vector:ty, $features:literal) => {{
            #[target_feature(enable = $features)]
            #[allow(unsafe_code)]
            fn compiled(from: &[*const u8; FIXED_SHARDS], to: &[*mut u8; FIXED_SHARDS], len: usize) {
                // SAFETY: see the call.
                unsafe { kernel::encode::<$vector>(from, to, len) }
            }
            // SAFETY: `Level::usable` has checked the features and that a vector fits; the lengths
            // were compared above, and `parity` is borrowed mutably, so nothing overlaps it.
            #[allow(unsafe_code)]
            unsafe {
                compiled(&from, &to, len)
            }
        }};
    }
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Gfni512 => with_features!(Gfni512, "gfni,avx512f"),
        #[cfg(target_arch = "x86_64")]
        Level::Gfni => with_features!(Gfni, "gfni,avx2"),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => with_features!(Avx2, "avx2"),
        // SAFETY: no feature is needed and eight bytes are there; the rest as above.
        #[allow(unsafe_code)]
        _ => unsafe { kernel::encode::<Portable>(&from, &to, len) },
    }
}

/// Writes the sum of `coefficients[i]` × `shards[i]` to `out`; all lengths must be equal.
fn combine(level: Level, shards: &[&[u8]], coefficients: &[u8], out: &mut [u8]) {
    assert!(shards.iter().all(|s| s.len() == out.len()), "shards differ in length");
    assert_eq!(shards.len(), coefficients.len());
    /// Compiles the kernel for a set of features and calls it.
    macro_rules! with_features {
        ($vector:ty, $features:literal) => {{
            #[target_feature(enable = $features)]
            #[allow(unsafe_code)]
            fn compiled(shards: &[&[u8]], coefficients: &[u8], out: &mut [u8]) {
                // SAFETY: see the call.
                unsafe { kernel::combine::<$vector>(shards, coefficients, out) }
            }
            // SAFETY: `Level::usable` has checked the features and that a vector fits; the lengths
            // were compared above.
            #[allow(unsafe_code)]
            unsafe {
                compiled(shards, coefficients, out)
            }
        }};
    }
    match level {
        Level::Bytes => {
            for (at, out) in out.iter_mut().enumerate() {
                let products = shards.iter().zip(coefficients).map(|(s, &c)| field::mul(s[at], c));
                *out = products.fold(0, |sum, x| sum ^ x);
            }
        }
        // SAFETY: no feature is needed and eight bytes are there; the rest as above.
        #[allow(unsafe_code)]
        Level::Portable => unsafe { kernel::combine::<Portable>(shards, coefficients, out) },
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => with_features!(Avx2, "avx2"),
        #[cfg(target_arch = "x86_64")]
        Level::Gfni => with_features!(Gfni, "gfni,avx2"),
        #[cfg(target_arch = "x86_64")]
        Level::Gfni512 => with_features!(Gfni512, "gfni,avx512f"),
    }
}

/// The points at which the polynomial is known, with the precomputed parts of Lagrange's formula.
#[derive(Clone, Debug)]
struct Points {
    points: [u8; SHARDS_MAX],
    /// For each point, the product of its differences from all others.
    weights: [u8; SHARDS_MAX],
    count: usize,
}

impl Points {
    /// Distinct points, at most [`SHARDS_MAX`].
    fn new(distinct: impl Iterator<Item = u8>) -> Self {
        let mut points = [0; SHARDS_MAX];
        let mut count = 0;
        for point in distinct {
            points[count] = point;
            count += 1;
        }
        let mut weights = [1; SHARDS_MAX];
        for i in 0..count {
            for j in (0..count).filter(|&j| j != i) {
                weights[i] = field::mul(weights[i], points[i] ^ points[j]);
            }
        }
        Self { points, weights, count }
    }

    fn first(count: usize) -> Self {
        Self::new((0..count).map(|i| i as u8))
    }

    /// Returns each known value's coefficient for the value at `target`, which must not be a known point.
    fn coefficients(&self, target: u8) -> [u8; SHARDS_MAX] {
        let known = &self.points[..self.count];
        let all = known.iter().fold(1, |product, &x| field::mul(product, target ^ x));
        let mut out = [0; SHARDS_MAX];
        for (i, out) in out[..self.count].iter_mut().enumerate() {
            *out = field::div(all, field::mul(target ^ known[i], self.weights[i]));
        }
        out
    }
}

/// A code of a given number of data and parity shards.
#[derive(Clone, Debug)]
pub struct ReedSolomon {
    data: usize,
    parity: usize,
    points: Points,
}

impl ReedSolomon {
    /// A code of `data` + `parity` shards; both at least one, together at most [`SHARDS_MAX`].
    pub fn new(data: usize, parity: usize) -> Result<Self, ReedSolomonError> {
        if data == 0 || parity == 0 || data.saturating_add(parity) > SHARDS_MAX {
            return Err(ReedSolomonError::Counts { data, parity });
        }
        Ok(Self { data, parity, points: Points::first(data) })
    }

    /// Writes the parity of the data shards. Every shard, of either kind, has the same length.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), ReedSolomonError> {
        if data.len() != self.data || parity.len() != self.parity {
            let (have, need) = (data.len() + parity.len(), self.data + self.parity);
            return Err(ReedSolomonError::ShardCount { have, need });
        }
        let len = data[0].len();
        if data.iter().any(|s| s.len() != len) || parity.iter().any(|s| s.len() != len) {
            return Err(ReedSolomonError::UnequalLengths);
        }
        if let (Ok(data), Ok(parity)) = (<&[&[u8]; FIXED_SHARDS]>::try_from(data), parity.as_mut().try_into()) {
            encode_32(data, parity);
            return Ok(());
        }
        let level = Level::best(len);
        for (i, out) in parity.iter_mut().enumerate() {
            let coefficients = self.points.coefficients((self.data + i) as u8);
            combine(level, data, &coefficients[..self.data], out);
        }
        Ok(())
    }

    /// Writes the shards `wanted`, given by index, from those `present`, of which there must be at least as many as
    /// data shards. Indices count the data first, then the parity.
    pub fn recover(
        &self,
        present: &[(usize, &[u8])],
        wanted: &mut [(usize, &mut [u8])],
    ) -> Result<(), ReedSolomonError> {
        if present.len() < self.data {
            return Err(ReedSolomonError::ShardCount { have: present.len(), need: self.data });
        }
        let used = &present[..self.data];
        self.check(used, wanted)?;
        let points = Points::new(used.iter().map(|(index, _)| *index as u8));
        let mut shards = [&[][..]; SHARDS_MAX];
        for (slot, (_, bytes)) in shards.iter_mut().zip(used) {
            *slot = bytes;
        }
        let level = Level::best(used[0].1.len());
        for (index, out) in wanted {
            match used.iter().find(|(known, _)| known == index) {
                Some((_, bytes)) => out.copy_from_slice(bytes),
                None => {
                    let coefficients = points.coefficients(*index as u8);
                    combine(level, &shards[..self.data], &coefficients[..self.data], out);
                }
            }
        }
        Ok(())
    }

    fn check(&self, used: &[(usize, &[u8])], wanted: &[(usize, &mut [u8])]) -> Result<(), ReedSolomonError> {
        let count = self.data + self.parity;
        let mut seen = [false; SHARDS_MAX];
        for &(index, _) in used {
            if index >= count || std::mem::replace(&mut seen[index], true) {
                return Err(ReedSolomonError::Index(index));
            }
        }
        if let Some(&(index, _)) = wanted.iter().find(|(index, _)| *index >= count) {
            return Err(ReedSolomonError::Index(index));
        }
        let len = used[0].1.len();
        if used.iter().any(|(_, s)| s.len() != len) || wanted.iter().any(|(_, s)| s.len() != len) {
            return Err(ReedSolomonError::UnequalLengths);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
