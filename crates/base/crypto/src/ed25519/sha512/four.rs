//! Four lanes of AVX2.
//!
//! reads   blocks of four messages
//! writes  the state
//! source  FIPS 180-4

use super::{BLOCK, ROUND, compress, extend, round};
use core::arch::x86_64::*;

compress!("avx2", 4);

/// x rotated right by R bits; L = 64 − R.
#[inline]
#[target_feature(enable = "avx2")]
fn rotate<const R: i32, const L: i32>(x: __m256i) -> __m256i {
    const { assert!(R + L == 64) };
    _mm256_or_si256(_mm256_srli_epi64::<R>(x), _mm256_slli_epi64::<L>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor3(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
    _mm256_xor_si256(_mm256_xor_si256(x, y), z)
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(x: __m256i, y: __m256i) -> __m256i {
    _mm256_add_epi64(x, y)
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: u64) -> __m256i {
    _mm256_set1_epi64x(word as i64)
}

#[inline]
#[target_feature(enable = "avx2")]
fn read(words: &[u64; 4]) -> __m256i {
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn write(words: &mut [u64; 4], x: __m256i) {
    // SAFETY: 32 writable bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), x) };
}

#[inline]
#[target_feature(enable = "avx2")]
fn large_sigma0(x: __m256i) -> __m256i {
    xor3(rotate::<28, 36>(x), rotate::<34, 30>(x), rotate::<39, 25>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn large_sigma1(x: __m256i) -> __m256i {
    xor3(rotate::<14, 50>(x), rotate::<18, 46>(x), rotate::<41, 23>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn small_sigma0(x: __m256i) -> __m256i {
    xor3(rotate::<1, 63>(x), rotate::<8, 56>(x), _mm256_srli_epi64::<7>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn small_sigma1(x: __m256i) -> __m256i {
    xor3(rotate::<19, 45>(x), rotate::<61, 3>(x), _mm256_srli_epi64::<6>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn choice(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
    _mm256_xor_si256(z, _mm256_and_si256(x, _mm256_xor_si256(y, z)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn majority(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_and_si256(x, y), _mm256_and_si256(_mm256_or_si256(x, y), z))
}

/// Words `first` to `first` + 3 of the four blocks, a word of all lanes in each register.
#[inline]
#[target_feature(enable = "avx2")]
fn words(blocks: [&[u8; BLOCK]; 4], first: usize) -> [__m256i; 4] {
    let swap = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607));
    let row = |l: usize| {
        let bytes = &blocks[l][8 * first..8 * first + 32];
        // SAFETY: 32 readable bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    };
    let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
    let (t0, t1) = (_mm256_unpacklo_epi64(r0, r1), _mm256_unpackhi_epi64(r0, r1));
    let (t2, t3) = (_mm256_unpacklo_epi64(r2, r3), _mm256_unpackhi_epi64(r2, r3));
    [
        _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x20>(t0, t2), swap),
        _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x20>(t1, t3), swap),
        _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x31>(t0, t2), swap),
        _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x31>(t1, t3), swap),
    ]
}
