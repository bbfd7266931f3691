//! SHA-256 on the SHA extensions of x86-64, for one or several messages at once.
//!
//! reads   states and blocks
//! writes  states
//! memory  none beyond the stack
//! drops   nothing; without the extensions every entry point returns the work to its caller
//! source  FIPS 180-4; Intel SDM vol. 2, SHA256RNDS2, SHA256MSG1, SHA256MSG2
//!
//! `sha256rnds2` has a latency of 4 cycles and does two rounds, so one message cannot take less
//! than 64 / 2 × 4 = 128 cycles a block, while the unit could start another every second cycle:
//! two messages side by side cost hardly more than one. The chain has only one message; there the
//! gain is the other half of its block, which is constant, and that words never leave registers.

use std::arch::x86_64::*;

/// The round constants: the fractional parts of the cube roots of the first 64 primes.
#[rustfmt::skip]
pub(super) static K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// Whether this machine supports the kernels. Cached by the standard library.
fn available() -> bool {
    is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3")
}

/// Compresses equally many blocks into each state, or gives the states back where the extensions
/// are missing.
pub(super) fn compress<'a, const N: usize>(
    words: [&'a mut [u32; 8]; N],
    blocks: [&[[u8; 64]]; N],
) -> Result<(), [&'a mut [u32; 8]; N]> {
    if !available() {
        return Err(words);
    }
    assert!(blocks.iter().all(|b| b.len() == blocks[0].len()));
    // SAFETY: `available` has checked the features; the lanes are of equal length.
    unsafe { compress_lanes(words, blocks) };
    Ok(())
}

/// Applies SHA-256 to `state` `n` times; `None` without the extensions.
pub(super) fn chain(state: &[u8; 32], n: u64) -> Option<[u8; 32]> {
    if !available() {
        return None;
    }
    // SAFETY: `available` has checked the features.
    Some(unsafe { chain_registers(state, n) })
}

/// Four rounds with the message words `w` of quarter `$i` (of sixteen), in every lane.
macro_rules! rounds4 {
    ($state:ident, $wk:expr) => {{
        let wk = $wk;
        $state.1 = _mm_sha256rnds2_epu32($state.1, $state.0, wk);
        $state.0 = _mm_sha256rnds2_epu32($state.0, $state.1, _mm_shuffle_epi32(wk, 0x0e));
    }};
}

/// The four message words that follow the sixteen in `a`, `b`, `c`, `d`.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn schedule(a: __m128i, b: __m128i, c: __m128i, d: __m128i) -> __m128i {
    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4));
    _mm_sha256msg2_epu32(sum, d)
}

/// The `i`-th four round constants.
#[inline]
#[target_feature(enable = "sse2")]
fn k4(i: usize) -> __m128i {
    let four = &K[4 * i..4 * i + 4];
    // SAFETY: `four` has the 16 bytes that are read; the load needs no alignment.
    unsafe { _mm_loadu_si128(four.as_ptr().cast()) }
}

/// Clears the upper halves of the vector registers: legacy-encoded SHA instructions are slow when
/// code that was compiled with AVX left them in use.
#[inline]
fn clear_upper_halves() {
    #[cfg(target_feature = "avx")]
    // SAFETY: the feature is enabled for the whole program.
    unsafe {
        _mm256_zeroupper();
    }
}

/// Loads a state as the pair (ABEF, CDGH) that the round instruction works on.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn load_state(words: &[u32; 8]) -> (__m128i, __m128i) {
    // SAFETY: `words` has 32 readable bytes; the loads need no alignment.
    let (dcba, hgfe) =
        unsafe { (_mm_loadu_si128(words.as_ptr().cast()), _mm_loadu_si128(words.as_ptr().add(4).cast())) };
    let cdab = _mm_shuffle_epi32(dcba, 0xb1);
    let efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    (_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xf0))
}

/// The inverse of [`load_state`]: the words A to D and E to H in memory order.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn in_order((abef, cdgh): (__m128i, __m128i)) -> (__m128i, __m128i) {
    let feba = _mm_shuffle_epi32(abef, 0x1b);
    let dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    (_mm_blend_epi16(feba, dchg, 0xf0), _mm_alignr_epi8(dchg, feba, 8))
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
fn compress_lanes<const N: usize>(words: [&mut [u32; 8]; N], blocks: [&[[u8; 64]]; N]) {
    clear_upper_halves();
    let big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    let mut state = [(_mm_setzero_si128(), _mm_setzero_si128()); N];
    for lane in 0..N {
        state[lane] = load_state(words[lane]);
    }
    for at in 0..blocks[0].len() {
        let before = state;
        let mut w = [[_mm_setzero_si128(); 4]; N];
        for (w, lane) in w.iter_mut().zip(&blocks) {
            let block = lane[at].as_ptr();
            for (quarter, words) in w.iter_mut().enumerate() {
                // SAFETY: 16 × quarter + 16 ≤ 64, the block's length; the load needs no alignment.
                let bytes = unsafe { _mm_loadu_si128(block.add(16 * quarter).cast()) };
                *words = _mm_shuffle_epi8(bytes, big_endian);
            }
        }
        macro_rules! quarters {
            ($($i:literal)*) => {$({
                let k = k4($i);
                for lane in 0..N {
                    let [a, b, c, d] = [0, 1, 2, 3].map(|j| w[lane][($i + j) % 4]);
                    if $i >= 4 {
                        w[lane][$i % 4] = schedule(a, b, c, d);
                    }
                    let s = &mut state[lane];
                    rounds4!(s, _mm_add_epi32(w[lane][$i % 4], k));
                }
            })*};
        }
        quarters!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for lane in 0..N {
            state[lane].0 = _mm_add_epi32(state[lane].0, before[lane].0);
            state[lane].1 = _mm_add_epi32(state[lane].1, before[lane].1);
        }
    }
    for lane in 0..N {
        let (dcba, hgfe) = in_order(state[lane]);
        // SAFETY: the state has 32 writable bytes; the stores need no alignment.
        unsafe {
            _mm_storeu_si128(words[lane].as_mut_ptr().cast(), dcba);
            _mm_storeu_si128(words[lane].as_mut_ptr().add(4).cast(), hgfe);
        }
    }
}

/// The chain. The block is the previous digest (words 0–7), a one bit (word 8), zeros, and the
/// length 256 (word 15); what follows from words 8–15 alone is constant and taken out of the loop.
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn chain_registers(bytes: &[u8; 32], n: u64) -> [u8; 32] {
    clear_upper_halves();
    let big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    let initial = load_state(&super::INITIAL);
    // Words 8–11 and 12–15.
    let one_bit = _mm_set_epi32(0, 0, 0, i32::MIN);
    let length = _mm_set_epi32(256, 0, 0, 0);
    let (one_bit_k, length_k) = (_mm_add_epi32(one_bit, k4(2)), _mm_add_epi32(length, k4(3)));
    // SAFETY: `bytes` has 32 readable bytes; the loads need no alignment.
    let (mut w0, mut w1) =
        unsafe { (_mm_loadu_si128(bytes.as_ptr().cast()), _mm_loadu_si128(bytes.as_ptr().add(16).cast())) };
    w0 = _mm_shuffle_epi8(w0, big_endian);
    w1 = _mm_shuffle_epi8(w1, big_endian);
    for _ in 0..n {
        let mut state = initial;
        rounds4!(state, _mm_add_epi32(w0, k4(0)));
        rounds4!(state, _mm_add_epi32(w1, k4(1)));
        rounds4!(state, one_bit_k);
        rounds4!(state, length_k);
        // Words 9–12 are zero, so nothing is added; words 16–19.
        let w4 = _mm_sha256msg2_epu32(_mm_sha256msg1_epu32(w0, w1), length);
        rounds4!(state, _mm_add_epi32(w4, k4(4)));
        let w5 = schedule(w1, one_bit, length, w4);
        rounds4!(state, _mm_add_epi32(w5, k4(5)));
        // The small sigma of words 9–12 is zero, so msg1(one_bit, length) is one_bit itself.
        let w6 = _mm_sha256msg2_epu32(_mm_add_epi32(one_bit, _mm_alignr_epi8(w5, w4, 4)), w5);
        rounds4!(state, _mm_add_epi32(w6, k4(6)));
        let mut w = [schedule(length, w4, w5, w6), w4, w5, w6];
        rounds4!(state, _mm_add_epi32(w[0], k4(7)));
        macro_rules! quarters {
            ($($i:literal)*) => {$({
                let [a, b, c, d] = [1, 2, 3, 4].map(|j| w[($i - 8 + j) % 4]);
                w[($i - 8 + 1) % 4] = schedule(a, b, c, d);
                rounds4!(state, _mm_add_epi32(w[($i - 8 + 1) % 4], k4($i)));
            })*};
        }
        quarters!(8 9 10 11 12 13 14 15);
        state.0 = _mm_add_epi32(state.0, initial.0);
        state.1 = _mm_add_epi32(state.1, initial.1);
        (w0, w1) = in_order(state);
    }
    let mut out = [0u8; 32];
    // SAFETY: `out` has 32 writable bytes; the stores need no alignment.
    unsafe {
        _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_shuffle_epi8(w0, big_endian));
        _mm_storeu_si128(out.as_mut_ptr().add(16).cast(), _mm_shuffle_epi8(w1, big_endian));
    }
    out
}
