//! Words in the eight lanes of AVX-512, shared by all code that computes in them.
//!
//! reads   the processor's features; registers
//! writes  registers
//! source  Intel's instruction set reference

#![allow(unsafe_code)]

use core::arch::x86_64::*;

/// Whether this processor has AVX-512 with the multipliers of 52 bits (IFMA).
pub(crate) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512ifma")
}

/// The array of five that `$body` gives for `$i` = 0 to 4, unrolled: a closure would be compiled without the
/// target features of the function around it.
macro_rules! five {
    ($i:ident => $body:expr) => {{
        use $crate::lanes::five;
        [five!(0, $i, $body), five!(1, $i, $body), five!(2, $i, $body), five!(3, $i, $body), five!(4, $i, $body)]
    }};
    ($value:literal, $i:ident, $body:expr) => {{
        const $i: usize = $value;
        $body
    }};
}
pub(crate) use five;

/// Transposes eight rows of eight words.
///
/// # Safety
/// The processor has AVX-512F.
#[inline(always)]
pub(crate) unsafe fn transpose(r: [__m512i; 8]) -> [__m512i; 8] {
    // SAFETY: as the caller promises.
    unsafe {
        let mut out = [_mm512_setzero_si512(); 8];
        let pairs = [
            [_mm512_unpacklo_epi64(r[0], r[1]), _mm512_unpackhi_epi64(r[0], r[1])],
            [_mm512_unpacklo_epi64(r[2], r[3]), _mm512_unpackhi_epi64(r[2], r[3])],
            [_mm512_unpacklo_epi64(r[4], r[5]), _mm512_unpackhi_epi64(r[4], r[5])],
            [_mm512_unpacklo_epi64(r[6], r[7]), _mm512_unpackhi_epi64(r[6], r[7])],
        ];
        // Then pairs of words, as 4 × 4.
        for odd in 0..2 {
            let [a, b, c, d] = [pairs[0][odd], pairs[1][odd], pairs[2][odd], pairs[3][odd]];
            let (ab0, ab1) = (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xee>(a, b));
            let (cd0, cd1) = (_mm512_shuffle_i64x2::<0x44>(c, d), _mm512_shuffle_i64x2::<0xee>(c, d));
            out[odd] = _mm512_shuffle_i64x2::<0x88>(ab0, cd0);
            out[2 + odd] = _mm512_shuffle_i64x2::<0xdd>(ab0, cd0);
            out[4 + odd] = _mm512_shuffle_i64x2::<0x88>(ab1, cd1);
            out[6 + odd] = _mm512_shuffle_i64x2::<0xdd>(ab1, cd1);
        }
        out
    }
}
