//! Eight messages at once, one in each 64-bit lane of AVX-512.
//!
//! reads   eight messages of any lengths
//! writes  eight digests
//! memory  a padded block of each message on the stack
//! source  the Keccak reference §1.2; lanes only change how many are computed

use super::{BLOCK_SIZE, BLOCK_WORDS, LANES, block_count, padded};
use core::arch::x86_64::*;

/// Constants that ι adds, one a round: bits of a linear feedback shift register.
const ROUNDS: [u64; 24] = {
    let mut constants = [0; 24];
    let mut register = 1u8;
    let mut round = 0;
    while round < 24 {
        let mut j = 0;
        while j < 7 {
            if register & 1 == 1 {
                constants[round] |= 1 << ((1 << j) - 1);
            }
            register = (register << 1) ^ ((register >> 7) * 0x71);
            j += 1;
        }
        round += 1;
    }
    constants
};

/// Whether this processor has the instructions.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
}

/// The digests of eight messages: all are absorbed block by block, and each digest is taken after its own last.
///
/// # Safety
/// [`available`] holds.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn hash(messages: &[&[u8]; LANES]) -> [[u8; 32]; LANES] {
    let lasts = messages.map(|message| padded(message.as_chunks::<BLOCK_SIZE>().1));
    let counts = messages.map(block_count);
    let mut out = [[0; 32]; LANES];
    let mut state = [_mm512_setzero_si512(); 25];
    for block in 1..=counts.iter().copied().max().unwrap_or(0) {
        let mut rows = [lasts[0].as_ptr(); LANES];
        for l in 0..LANES {
            // A message that has ended repeats its last block: its digest has been taken already.
            rows[l] = match messages[l].as_chunks::<BLOCK_SIZE>().0.get(block - 1) {
                Some(block) => block.as_ptr(),
                None => lasts[l].as_ptr(),
            };
        }
        // SAFETY: each row is a block of a message or a padded one, hence has the block's size.
        unsafe { absorb(&mut state, &rows) };
        permute(&mut state);
        if counts.contains(&block) {
            let words = [state[0], state[1], state[2], state[3]];
            // SAFETY: a word of eight lanes has 64 bytes.
            let words = words.map(|word| unsafe { std::mem::transmute::<__m512i, [u64; LANES]>(word) });
            for l in 0..LANES {
                if counts[l] == block {
                    for (i, bytes) in out[l].as_chunks_mut().0.iter_mut().enumerate() {
                        *bytes = words[i][l].to_le_bytes();
                    }
                }
            }
        }
    }
    out
}

/// XORs a block of each lane into the state.
///
/// # Safety
/// Each row is readable for `BLOCK_SIZE` bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn absorb(state: &mut [__m512i; 25], rows: &[*const u8; LANES]) {
    const { assert!(BLOCK_WORDS == 17) };
    for half in 0..2 {
        let mut r = [_mm512_setzero_si512(); LANES];
        for l in 0..LANES {
            // SAFETY: these are bytes 0 to 127 of the block.
            r[l] = unsafe { _mm512_loadu_si512(rows[l].add(64 * half).cast()) };
        }
        let columns = transpose(r);
        for (word, column) in state[8 * half..8 * half + 8].iter_mut().zip(columns) {
            *word = _mm512_xor_si512(*word, column);
        }
    }
    let mut last = [0i64; LANES];
    for l in 0..LANES {
        // SAFETY: these are bytes 128 to 135 of the block.
        last[l] = unsafe { rows[l].add(128).cast::<i64>().read_unaligned() };
    }
    // SAFETY: eight words are 64 bytes.
    let last = unsafe { _mm512_loadu_si512(last.as_ptr().cast()) };
    state[16] = _mm512_xor_si512(state[16], last);
}

/// a ^ b ^ c.
macro_rules! xor3 {
    ($a:expr, $b:expr, $c:expr) => {
        _mm512_ternarylogic_epi64::<0x96>($a, $b, $c)
    };
}

/// Words 5·y to 5·y + 4 after ρ, π and χ: `$from` are the words that π brings there, `$by` their rotations of ρ.
macro_rules! row {
    ($a:ident, $d:ident, $($from:literal $by:literal),*) => {{
        let b = [$(_mm512_rol_epi64::<$by>(_mm512_xor_si512($a[$from], $d[$from % 5]))),*];
        let chi = |x: usize| (b[x], b[(x + 1) % 5], b[(x + 2) % 5]);
        let (c0, c1, c2, c3, c4) = (chi(0), chi(1), chi(2), chi(3), chi(4));
        [
            _mm512_ternarylogic_epi64::<0xd2>(c0.0, c0.1, c0.2),
            _mm512_ternarylogic_epi64::<0xd2>(c1.0, c1.1, c1.2),
            _mm512_ternarylogic_epi64::<0xd2>(c2.0, c2.1, c2.2),
            _mm512_ternarylogic_epi64::<0xd2>(c3.0, c3.1, c3.2),
            _mm512_ternarylogic_epi64::<0xd2>(c4.0, c4.1, c4.2),
        ]
    }};
}

/// `Keccak-f[1600]` on each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn permute(state: &mut [__m512i; 25]) {
    let mut a = *state;
    for constant in ROUNDS {
        let column = |x: usize| (a[x], a[x + 5], a[x + 10], a[x + 15], a[x + 20]);
        let mut c = [a[0]; 5];
        for (x, c) in c.iter_mut().enumerate() {
            let (a0, a1, a2, a3, a4) = column(x);
            *c = xor3!(xor3!(a0, a1, a2), a3, a4);
        }
        let mut d = c;
        for x in 0..5 {
            d[x] = _mm512_xor_si512(c[(x + 4) % 5], _mm512_rol_epi64::<1>(c[(x + 1) % 5]));
        }
        let r0 = row!(a, d, 0 0, 6 44, 12 43, 18 21, 24 14);
        let r1 = row!(a, d, 3 28, 9 20, 10 3, 16 45, 22 61);
        let r2 = row!(a, d, 1 1, 7 6, 13 25, 19 8, 20 18);
        let r3 = row!(a, d, 4 27, 5 36, 11 10, 17 15, 23 56);
        let r4 = row!(a, d, 2 62, 8 55, 14 39, 15 41, 21 2);
        for (x, rows) in [r0, r1, r2, r3, r4].iter().enumerate() {
            a[5 * x..5 * x + 5].copy_from_slice(rows);
        }
        a[0] = _mm512_xor_si512(a[0], _mm512_set1_epi64(constant as i64));
    }
    *state = a;
}

/// Transposes eight rows of eight words.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(r: [__m512i; 8]) -> [__m512i; 8] {
    // SAFETY: the features are those of this function.
    unsafe { crate::lanes::transpose(r) }
}
