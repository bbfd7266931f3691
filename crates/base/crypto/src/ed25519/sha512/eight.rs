//! Eight lanes of AVX-512, where rotation and any function of three inputs are one instruction.
//!
//! reads   blocks of eight messages
//! writes  the state
//! source  FIPS 180-4

use super::{BLOCK, ROUND, compress, extend, round};
use crate::lanes::transpose;
use core::arch::x86_64::*;

compress!("avx512f,avx512bw", 8);

/// x ⊕ y ⊕ z, x ? y : z and the majority of three, as truth tables.
const XOR3: i32 = 0x96;
const CHOICE: i32 = 0xca;
const MAJORITY: i32 = 0xe8;

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<XOR3>(x, y, z)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(x: __m512i, y: __m512i) -> __m512i {
    _mm512_add_epi64(x, y)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(word: u64) -> __m512i {
    _mm512_set1_epi64(word as i64)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn read(words: &[u64; 8]) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn write(words: &mut [u64; 8], x: __m512i) {
    // SAFETY: 64 writable bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), x) };
}

#[inline]
#[target_feature(enable = "avx512f")]
fn large_sigma0(x: __m512i) -> __m512i {
    xor3(_mm512_ror_epi64::<28>(x), _mm512_ror_epi64::<34>(x), _mm512_ror_epi64::<39>(x))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn large_sigma1(x: __m512i) -> __m512i {
    xor3(_mm512_ror_epi64::<14>(x), _mm512_ror_epi64::<18>(x), _mm512_ror_epi64::<41>(x))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn small_sigma0(x: __m512i) -> __m512i {
    xor3(_mm512_ror_epi64::<1>(x), _mm512_ror_epi64::<8>(x), _mm512_srli_epi64::<7>(x))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn small_sigma1(x: __m512i) -> __m512i {
    xor3(_mm512_ror_epi64::<19>(x), _mm512_ror_epi64::<61>(x), _mm512_srli_epi64::<6>(x))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn choice(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<CHOICE>(x, y, z)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn majority(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<MAJORITY>(x, y, z)
}

/// Words `first` to `first` + 7 of the eight blocks, a word of all lanes in each register.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words(blocks: [&[u8; BLOCK]; 8], first: usize) -> [__m512i; 8] {
    let swap = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607));
    let row = |l: usize| {
        let bytes = &blocks[l][8 * first..8 * first + 64];
        // SAFETY: 64 readable bytes; the load needs no alignment.
        let row = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
        _mm512_shuffle_epi8(row, swap)
    };
    let rows = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];
    // SAFETY: this function requires AVX-512F.
    unsafe { transpose(rows) }
}
