//! Vectors of field elements: the kernels' interface to a machine, and its implementations.
//!
//! reads   shards, a vector's width of bytes at a time
//! writes  shards, likewise
//! source  nibble products by byte shuffle: Plank et al., "Screaming Fast Galois Field Arithmetic";
//!         bit matrices: Intel SDM vol. 2, GF2P8AFFINEQB
//!
//! The methods are always inlined, so that the kernel, which is compiled for the machine's features,
//! holds the intrinsics.

use super::field::NIBBLES;
#[cfg(target_arch = "x86_64")]
use {super::field::MATRICES, std::arch::x86_64::*};

/// [`WIDTH`](Vector::WIDTH) field elements, one in each byte.
///
/// # Safety
/// The methods may only be called on a machine with the features the implementation names.
pub(super) unsafe trait Vector: Copy {
    /// Bytes in the vector.
    const WIDTH: usize;

    /// Reads `WIDTH` bytes.
    ///
    /// # Safety
    /// `from` must be readable for `WIDTH` bytes; any alignment will do.
    unsafe fn load(from: *const u8) -> Self;

    /// Writes `WIDTH` bytes.
    ///
    /// # Safety
    /// `to` must be writable for `WIDTH` bytes; any alignment will do.
    unsafe fn store(self, to: *mut u8);

    /// The sum, which is also the difference.
    ///
    /// # Safety
    /// The machine must have the features.
    unsafe fn add(self, other: Self) -> Self;

    /// Every element times the constant `c`.
    ///
    /// # Safety
    /// The machine must have the features.
    unsafe fn mul(self, c: u8) -> Self;
}

/// Any machine: eight elements, products looked up one by one.
#[derive(Clone, Copy)]
pub(super) struct Portable([u8; 8]);

// SAFETY: no feature is needed.
unsafe impl Vector for Portable {
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for eight bytes; an array of bytes needs no alignment.
        Self(unsafe { from.cast::<[u8; 8]>().read() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for eight bytes; an array of bytes needs no alignment.
        unsafe { to.cast::<[u8; 8]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self((u64::from_ne_bytes(self.0) ^ u64::from_ne_bytes(other.0)).to_ne_bytes())
    }

    #[inline(always)]
    unsafe fn mul(self, c: u8) -> Self {
        let table = &NIBBLES[c as usize];
        Self(self.0.map(|x| table[(x & 15) as usize] ^ table[16 + (x >> 4) as usize]))
    }
}

/// Operations that differ between registers only by name: load, store, exclusive or.
#[cfg(target_arch = "x86_64")]
macro_rules! register {
    ($load:ident, $store:ident, $xor:ident) => {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for the bytes and the features.
            Self(unsafe { $load(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller vouches for the bytes and the features.
            unsafe { $store(to.cast(), self.0) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: the caller vouches for the features.
            Self(unsafe { $xor(self.0, other.0) })
        }
    };
}

/// `avx2`: 32 elements, two byte shuffles a product.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256i);

// SAFETY: all intrinsics need `avx2` only.
#[cfg(target_arch = "x86_64")]
unsafe impl Vector for Avx2 {
    const WIDTH: usize = 32;

    register!(_mm256_loadu_si256, _mm256_storeu_si256, _mm256_xor_si256);

    #[inline(always)]
    unsafe fn mul(self, c: u8) -> Self {
        let table = NIBBLES[c as usize].as_ptr();
        // SAFETY: the caller vouches for the feature; the table has 32 readable bytes.
        unsafe {
            let low_products = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast()));
            let high_products = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(16).cast()));
            let mask = _mm256_set1_epi8(15);
            let low = _mm256_and_si256(self.0, mask);
            let high = _mm256_and_si256(_mm256_srli_epi64(self.0, 4), mask);
            Self(_mm256_xor_si256(_mm256_shuffle_epi8(low_products, low), _mm256_shuffle_epi8(high_products, high)))
        }
    }
}

/// `gfni`, `avx2`: 32 elements, one instruction a product.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Gfni(__m256i);

// SAFETY: all intrinsics need `gfni` and `avx2` only.
#[cfg(target_arch = "x86_64")]
unsafe impl Vector for Gfni {
    const WIDTH: usize = 32;

    register!(_mm256_loadu_si256, _mm256_storeu_si256, _mm256_xor_si256);

    #[inline(always)]
    unsafe fn mul(self, c: u8) -> Self {
        // SAFETY: the caller vouches for the features.
        unsafe {
            let matrix = _mm256_set1_epi64x(MATRICES[c as usize] as i64);
            Self(_mm256_gf2p8affine_epi64_epi8::<0>(self.0, matrix))
        }
    }
}

/// `gfni`, `avx512f`: 64 elements, one instruction a product.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Gfni512(__m512i);

// SAFETY: all intrinsics need `gfni` and `avx512f` only.
#[cfg(target_arch = "x86_64")]
unsafe impl Vector for Gfni512 {
    const WIDTH: usize = 64;

    register!(_mm512_loadu_si512, _mm512_storeu_si512, _mm512_xor_si512);

    #[inline(always)]
    unsafe fn mul(self, c: u8) -> Self {
        // SAFETY: the caller vouches for the features.
        unsafe {
            let matrix = _mm512_set1_epi64(MATRICES[c as usize] as i64);
            Self(_mm512_gf2p8affine_epi64_epi8::<0>(self.0, matrix))
        }
    }
}
