//! SHA-512 of four messages side by side, in the lanes of AVX2.
//!
//! reads   four messages, each in parts
//! writes  four digests
//! memory  a padded copy of the four longest messages so far
//! drops   nothing; the copies are wiped when the state is dropped, for a part may be secret
//! source  FIPS 180-4 §4.1.3, §4.2.3, §5.1.2, §6.4
//!
//! A lane whose message is shorter than the longest keeps the state that it had after its last block.

#![allow(unsafe_code)]

use core::arch::x86_64::*;
use zeroize::Zeroize;

const BLOCK: usize = 128;

/// First 64 bits of the fractional parts of the square roots of the first eight primes.
const INITIAL: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// First 64 bits of the fractional parts of the cube roots of the first eighty primes.
const ROUND: [u64; 80] = [
    0x428a_2f98_d728_ae22,
    0x7137_4491_23ef_65cd,
    0xb5c0_fbcf_ec4d_3b2f,
    0xe9b5_dba5_8189_dbbc,
    0x3956_c25b_f348_b538,
    0x59f1_11f1_b605_d019,
    0x923f_82a4_af19_4f9b,
    0xab1c_5ed5_da6d_8118,
    0xd807_aa98_a303_0242,
    0x1283_5b01_4570_6fbe,
    0x2431_85be_4ee4_b28c,
    0x550c_7dc3_d5ff_b4e2,
    0x72be_5d74_f27b_896f,
    0x80de_b1fe_3b16_96b1,
    0x9bdc_06a7_25c7_1235,
    0xc19b_f174_cf69_2694,
    0xe49b_69c1_9ef1_4ad2,
    0xefbe_4786_384f_25e3,
    0x0fc1_9dc6_8b8c_d5b5,
    0x240c_a1cc_77ac_9c65,
    0x2de9_2c6f_592b_0275,
    0x4a74_84aa_6ea6_e483,
    0x5cb0_a9dc_bd41_fbd4,
    0x76f9_88da_8311_53b5,
    0x983e_5152_ee66_dfab,
    0xa831_c66d_2db4_3210,
    0xb003_27c8_98fb_213f,
    0xbf59_7fc7_beef_0ee4,
    0xc6e0_0bf3_3da8_8fc2,
    0xd5a7_9147_930a_a725,
    0x06ca_6351_e003_826f,
    0x1429_2967_0a0e_6e70,
    0x27b7_0a85_46d2_2ffc,
    0x2e1b_2138_5c26_c926,
    0x4d2c_6dfc_5ac4_2aed,
    0x5338_0d13_9d95_b3df,
    0x650a_7354_8baf_63de,
    0x766a_0abb_3c77_b2a8,
    0x81c2_c92e_47ed_aee6,
    0x9272_2c85_1482_353b,
    0xa2bf_e8a1_4cf1_0364,
    0xa81a_664b_bc42_3001,
    0xc24b_8b70_d0f8_9791,
    0xc76c_51a3_0654_be30,
    0xd192_e819_d6ef_5218,
    0xd699_0624_5565_a910,
    0xf40e_3585_5771_202a,
    0x106a_a070_32bb_d1b8,
    0x19a4_c116_b8d2_d0c8,
    0x1e37_6c08_5141_ab53,
    0x2748_774c_df8e_eb99,
    0x34b0_bcb5_e19b_48a8,
    0x391c_0cb3_c5c9_5a63,
    0x4ed8_aa4a_e341_8acb,
    0x5b9c_ca4f_7763_e373,
    0x682e_6ff3_d6b2_b8a3,
    0x748f_82ee_5def_b2fc,
    0x78a5_636f_4317_2f60,
    0x84c8_7814_a1f0_ab72,
    0x8cc7_0208_1a64_39ec,
    0x90be_fffa_2363_1e28,
    0xa450_6ceb_de82_bde9,
    0xbef9_a3f7_b2c6_7915,
    0xc671_78f2_e372_532b,
    0xca27_3ece_ea26_619c,
    0xd186_b8c7_21c0_c207,
    0xeada_7dd6_cde0_eb1e,
    0xf57d_4f7f_ee6e_d178,
    0x06f0_67aa_7217_6fba,
    0x0a63_7dc5_a2c8_98a6,
    0x113f_9804_bef9_0dae,
    0x1b71_0b35_131c_471b,
    0x28db_77f5_2304_7d84,
    0x32ca_ab7b_40c7_2493,
    0x3c9e_be0a_15c9_bebc,
    0x431d_67c4_9c10_0d4c,
    0x4cc5_d4be_cb3e_42b6,
    0x597f_299c_fc65_7e2a,
    0x5fcb_6fab_3ad6_faec,
    0x6c44_198c_4a47_5817,
];

/// Four messages' padded copies, kept from use to use.
#[derive(Default)]
pub(super) struct Sha512x4 {
    padded: [Vec<u8>; 4],
}

impl Drop for Sha512x4 {
    fn drop(&mut self) {
        self.padded.zeroize();
    }
}

impl Sha512x4 {
    /// The digests of four messages, each the concatenation of its parts.
    ///
    /// # Safety
    /// The processor has AVX2.
    pub(super) unsafe fn digest<const PARTS: usize>(&mut self, messages: [[&[u8]; PARTS]; 4]) -> [[u8; 64]; 4] {
        for (padded, parts) in self.padded.iter_mut().zip(&messages) {
            pad(padded, parts);
        }
        let blocks = self.padded.each_ref().map(|padded| padded.len() / BLOCK);
        let longest = *blocks.iter().max().expect("four lanes");
        let mut state = INITIAL.map(|word| [word; 4]);
        let mut digests = [[0; 64]; 4];
        for block in 0..longest {
            // A lane that is done goes over its last block again; its result was taken before.
            let at: [&[u8; BLOCK]; 4] = std::array::from_fn(|l| {
                let start = block.min(blocks[l] - 1) * BLOCK;
                self.padded[l][start..start + BLOCK].try_into().expect("a whole block")
            });
            // SAFETY: the caller promises AVX2.
            unsafe { compress(&mut state, at) };
            for l in (0..4).filter(|l| block + 1 == blocks[*l]) {
                for (bytes, word) in digests[l].chunks_exact_mut(8).zip(&state) {
                    bytes.copy_from_slice(&word[l].to_be_bytes());
                }
            }
        }
        digests
    }
}

/// Parts, a one bit, zeros, and the length in bits as 128 bits.
fn pad(padded: &mut Vec<u8>, parts: &[&[u8]]) {
    padded.clear();
    parts.iter().for_each(|part| padded.extend_from_slice(part));
    let length = padded.len();
    padded.push(0x80);
    padded.resize((length + 17).next_multiple_of(BLOCK) - 8, 0);
    padded.extend_from_slice(&(length as u64 * 8).to_be_bytes());
}

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

/// One round; `$w` is this round's word.
macro_rules! round {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $w:expr, $k:expr) => {
        let sum1 = xor3(rotate::<14, 50>($e), rotate::<18, 46>($e), rotate::<41, 23>($e));
        let choice = _mm256_xor_si256($g, _mm256_and_si256($e, _mm256_xor_si256($f, $g)));
        let word = _mm256_add_epi64($w, _mm256_set1_epi64x($k as i64));
        let t1 = _mm256_add_epi64(_mm256_add_epi64($h, word), _mm256_add_epi64(sum1, choice));
        let sum0 = xor3(rotate::<28, 36>($a), rotate::<34, 30>($a), rotate::<39, 25>($a));
        let either = _mm256_or_si256($a, $b);
        let majority = _mm256_or_si256(_mm256_and_si256($a, $b), _mm256_and_si256(either, $c));
        $d = _mm256_add_epi64($d, t1);
        $h = _mm256_add_epi64(t1, _mm256_add_epi64(sum0, majority));
    };
}

/// Replaces word i of the ring of sixteen by the one sixteen rounds later.
macro_rules! extend {
    ($w:ident, $i:expr) => {
        let (old, new) = ($w[($i + 1) % 16], $w[($i + 14) % 16]);
        let s0 = xor3(rotate::<1, 63>(old), rotate::<8, 56>(old), _mm256_srli_epi64::<7>(old));
        let s1 = xor3(rotate::<19, 45>(new), rotate::<61, 3>(new), _mm256_srli_epi64::<6>(new));
        $w[$i] = _mm256_add_epi64(_mm256_add_epi64($w[$i], s0), _mm256_add_epi64($w[($i + 9) % 16], s1));
    };
}

/// One block of each lane into the state, whose words hold the four lanes.
#[target_feature(enable = "avx2")]
fn compress(state: &mut [[u64; 4]; 8], blocks: [&[u8; BLOCK]; 4]) {
    let mut w = [_mm256_setzero_si256(); 16];
    for quarter in 0..4 {
        w[4 * quarter..4 * quarter + 4].copy_from_slice(&words(blocks, 4 * quarter));
    }
    // SAFETY: each word of the state is 32 readable bytes; the load needs no alignment.
    let load = |i: usize| unsafe { _mm256_loadu_si256(state[i].as_ptr().cast()) };
    let (mut a, mut b, mut c, mut d) = (load(0), load(1), load(2), load(3));
    let (mut e, mut f, mut g, mut h) = (load(4), load(5), load(6), load(7));
    for (chunk, k) in ROUND.chunks_exact(16).enumerate() {
        if chunk > 0 {
            extend!(w, 0);
            extend!(w, 1);
            extend!(w, 2);
            extend!(w, 3);
            extend!(w, 4);
            extend!(w, 5);
            extend!(w, 6);
            extend!(w, 7);
            extend!(w, 8);
            extend!(w, 9);
            extend!(w, 10);
            extend!(w, 11);
            extend!(w, 12);
            extend!(w, 13);
            extend!(w, 14);
            extend!(w, 15);
        }
        round!(a b c d e f g h, w[0], k[0]);
        round!(h a b c d e f g, w[1], k[1]);
        round!(g h a b c d e f, w[2], k[2]);
        round!(f g h a b c d e, w[3], k[3]);
        round!(e f g h a b c d, w[4], k[4]);
        round!(d e f g h a b c, w[5], k[5]);
        round!(c d e f g h a b, w[6], k[6]);
        round!(b c d e f g h a, w[7], k[7]);
        round!(a b c d e f g h, w[8], k[8]);
        round!(h a b c d e f g, w[9], k[9]);
        round!(g h a b c d e f, w[10], k[10]);
        round!(f g h a b c d e, w[11], k[11]);
        round!(e f g h a b c d, w[12], k[12]);
        round!(d e f g h a b c, w[13], k[13]);
        round!(c d e f g h a b, w[14], k[14]);
        round!(b c d e f g h a, w[15], k[15]);
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        // SAFETY: `word` is 32 readable and writable bytes; neither access needs alignment.
        unsafe {
            let old = _mm256_loadu_si256(word.as_ptr().cast());
            _mm256_storeu_si256(word.as_mut_ptr().cast(), _mm256_add_epi64(old, add));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sha2::{Digest, Sha512};

    proptest! {
        #[test]
        fn each_lane_is_sha512(lengths in prop::array::uniform4(0usize..520), seed in any::<u8>(), cut in 0usize..200) {
            if !crate::ed25519::field4::available() {
                return Ok(());
            }
            let messages = lengths.map(|n| (0..n).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect::<Vec<_>>());
            let parts = messages.each_ref().map(|m| {
                let (head, tail) = m.split_at(cut.min(m.len()));
                [head, tail]
            });
            // SAFETY: AVX2 was detected above.
            let digests = unsafe { Sha512x4::default().digest(parts) };
            for (message, digest) in messages.iter().zip(digests) {
                prop_assert_eq!(digest, <[u8; 64]>::from(Sha512::digest(message)));
            }
        }
    }

    #[test]
    fn padding_is_right_around_the_block_boundary() {
        let mut padded = Vec::new();
        for length in [0, 111, 112, 127, 128, 239, 240] {
            pad(&mut padded, &[&vec![7; length]]);
            assert_eq!(padded.len(), (length + 17).div_ceil(BLOCK) * BLOCK);
            assert_eq!(padded[length], 0x80);
        }
    }
}
