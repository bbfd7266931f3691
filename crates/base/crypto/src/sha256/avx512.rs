//! SHA-256 of sixteen messages in parallel, one per lane of AVX-512.
//!
//! reads   states and blocks
//! writes  states
//! memory  2 KiB of stack
//! drops   nothing; without the instructions the caller gets the work back
//! source  FIPS 180-4
//!
//! Since rotation and any function of three inputs are one instruction, a round of sixteen messages takes 17
//! instructions: some 50 cycles per block and message, where Intel's SHA unit needs 150 and AMD's, with two messages at
//! once, 70.

use super::{BLOCK_SIZE, LANES_MAX, Sha256State, shani::K};
use std::arch::x86_64::*;

/// Messages below which the SHA unit is faster than lanes that are partly idle.
const LANES_MIN: usize = 8;

/// Absorbs equally many blocks into each of at most [`LANES_MAX`] states; `false` where this is not
/// possible or not worth it.
pub(super) fn absorb(states: &mut [Sha256State], inputs: &[&[u8]]) -> bool {
    let lanes = states.len();
    if !(LANES_MIN..=LANES_MAX).contains(&lanes) {
        return false;
    }
    if !is_x86_feature_detected!("avx512f") || !is_x86_feature_detected!("avx512bw") {
        return false;
    }
    let len = inputs[0].len();
    assert!(inputs.len() == lanes && inputs.iter().all(|b| b.len() == len));
    assert!(len.is_multiple_of(BLOCK_SIZE), "only whole blocks can be absorbed");
    // Lanes without a message repeat the first one; their results are discarded.
    let mut words = [[0u32; LANES_MAX]; 8];
    let mut from = [inputs[0].as_ptr(); LANES_MAX];
    for (lane, state) in states.iter().enumerate() {
        for (words, word) in words.iter_mut().zip(state.words) {
            words[lane] = word;
        }
        from[lane] = inputs[lane].as_ptr();
    }
    // SAFETY: the features were checked; every input has `len` bytes.
    unsafe { compress(&mut words, &from, len / BLOCK_SIZE) };
    for (lane, state) in states.iter_mut().enumerate() {
        for (words, word) in words.iter().zip(&mut state.words) {
            *word = words[lane];
        }
        state.blocks += (len / BLOCK_SIZE) as u64;
    }
    true
}

/// # Safety
/// Each of `from` must be readable for `blocks` blocks.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn compress(words: &mut [[u32; LANES_MAX]; 8], from: &[*const u8; LANES_MAX], blocks: usize) {
    let mut state = [_mm512_setzero_si512(); 8];
    for i in 0..8 {
        // SAFETY: each row has 64 bytes; the load needs no alignment.
        state[i] = unsafe { _mm512_loadu_si512(words[i].as_ptr().cast()) };
    }
    for block in 0..blocks {
        // SAFETY: block is below `blocks`, as the caller vouches.
        let mut w = unsafe { message_words(from, block * BLOCK_SIZE) };
        let before = state;
        rounds16::<false>(&mut state, &mut w, 0);
        rounds16::<true>(&mut state, &mut w, 16);
        rounds16::<true>(&mut state, &mut w, 32);
        rounds16::<true>(&mut state, &mut w, 48);
        for i in 0..8 {
            state[i] = _mm512_add_epi32(state[i], before[i]);
        }
    }
    for i in 0..8 {
        // SAFETY: each row has 64 bytes; the stores need no alignment.
        unsafe { _mm512_storeu_si512(words[i].as_mut_ptr().cast(), state[i]) };
    }
}

/// Sixteen rounds from round `at`; `SCHEDULE` makes their message words of the sixteen before.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn rounds16<const SCHEDULE: bool>(state: &mut [__m512i; 8], w: &mut [__m512i; 16], at: usize) {
    let k = &K[at..at + 16];
    macro_rules! rounds {
        ($($i:literal)*) => {$({
            if SCHEDULE {
                let (w1, w14) = (w[($i + 1) % 16], w[($i + 14) % 16]);
                let small0 = xor3(
                    _mm512_ror_epi32::<7>(w1), _mm512_ror_epi32::<18>(w1), _mm512_srli_epi32::<3>(w1));
                let small1 = xor3(
                    _mm512_ror_epi32::<17>(w14), _mm512_ror_epi32::<19>(w14), _mm512_srli_epi32::<10>(w14));
                let old = _mm512_add_epi32(w[$i], w[($i + 9) % 16]);
                w[$i] = _mm512_add_epi32(_mm512_add_epi32(old, small0), small1);
            }
            // FIPS 180-4 shifts the values a to h down by one each round. Here the names rotate instead of the values.
            let (a, b, c, d) = ((16 - $i) % 8, (17 - $i) % 8, (18 - $i) % 8, (19 - $i) % 8);
            let (e, f, g, h) = ((20 - $i) % 8, (21 - $i) % 8, (22 - $i) % 8, (23 - $i) % 8);
            let wk = _mm512_add_epi32(w[$i], _mm512_set1_epi32(k[$i] as i32));
            let (x, y) = (state[e], state[a]);
            let big1 = xor3(_mm512_ror_epi32::<6>(x), _mm512_ror_epi32::<11>(x), _mm512_ror_epi32::<25>(x));
            let choose = _mm512_ternarylogic_epi32::<0xca>(x, state[f], state[g]);
            let t1 = _mm512_add_epi32(_mm512_add_epi32(state[h], wk), _mm512_add_epi32(big1, choose));
            let big0 = xor3(_mm512_ror_epi32::<2>(y), _mm512_ror_epi32::<13>(y), _mm512_ror_epi32::<22>(y));
            let majority = _mm512_ternarylogic_epi32::<0xe8>(y, state[b], state[c]);
            state[d] = _mm512_add_epi32(state[d], t1);
            state[h] = _mm512_add_epi32(t1, _mm512_add_epi32(big0, majority));
        })*};
    }
    rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x96>(a, b, c)
}

/// Loads the block at `offset` of sixteen messages as sixteen message words, one a register: reads each word as big
/// endian, then transposes the 16 × 16 words.
///
/// # Safety
/// Each of `from` must be readable for a block from `offset` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn message_words(from: &[*const u8; LANES_MAX], offset: usize) -> [__m512i; 16] {
    let big_endian = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203));
    // Within each quarter of a register, transpose 4 × 4 words, for each four messages.
    let mut t = [_mm512_setzero_si512(); 16];
    for four in 0..4 {
        let mut r = [_mm512_setzero_si512(); 4];
        for i in 0..4 {
            // SAFETY: as the caller vouches; the load needs no alignment.
            let bytes = unsafe { _mm512_loadu_si512(from[4 * four + i].add(offset).cast()) };
            r[i] = _mm512_shuffle_epi8(bytes, big_endian);
        }
        let (ab0, ab1) = (_mm512_unpacklo_epi32(r[0], r[1]), _mm512_unpackhi_epi32(r[0], r[1]));
        let (cd0, cd1) = (_mm512_unpacklo_epi32(r[2], r[3]), _mm512_unpackhi_epi32(r[2], r[3]));
        t[4 * four] = _mm512_unpacklo_epi64(ab0, cd0);
        t[4 * four + 1] = _mm512_unpackhi_epi64(ab0, cd0);
        t[4 * four + 2] = _mm512_unpacklo_epi64(ab1, cd1);
        t[4 * four + 3] = _mm512_unpackhi_epi64(ab1, cd1);
    }
    // Then the quarters themselves, as 4 × 4.
    let mut w = [_mm512_setzero_si512(); 16];
    for i in 0..4 {
        let (a, b, c, d) = (t[i], t[4 + i], t[8 + i], t[12 + i]);
        let (ab0, ab1) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
        let (cd0, cd1) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
        w[i] = _mm512_shuffle_i32x4::<0x88>(ab0, cd0);
        w[4 + i] = _mm512_shuffle_i32x4::<0xdd>(ab0, cd0);
        w[8 + i] = _mm512_shuffle_i32x4::<0x88>(ab1, cd1);
        w[12 + i] = _mm512_shuffle_i32x4::<0xdd>(ab1, cd1);
    }
    w
}
