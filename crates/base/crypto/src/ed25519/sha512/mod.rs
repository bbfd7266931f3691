//! SHA-512 of four messages in parallel in the lanes of AVX2, or of eight in those of AVX-512.
//!
//! reads   as many messages as there are lanes, each in parts
//! writes  their digests
//! memory  a padded copy of each lane's longest message so far
//! drops   nothing; the copies are wiped when the state is dropped, for a part may be secret
//! source  FIPS 180-4 §4.1.3, §4.2.3, §5.1.2, §6.4
//!
//! A lane whose message is shorter than the longest keeps the state that it had after its last block.

#![allow(unsafe_code)]

mod eight;
mod four;

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

/// The lanes' padded copies, kept from use to use.
pub(super) struct Sha512<const LANES: usize> {
    padded: [Vec<u8>; LANES],
    compress: Compress<LANES>,
}

/// Applies one block per lane to the state, whose words hold the lanes. Unsafe: requires the lanes' instructions.
type Compress<const LANES: usize> = unsafe fn(&mut [[u64; LANES]; 8], [&[u8; BLOCK]; LANES]);

impl<const LANES: usize> Drop for Sha512<LANES> {
    fn drop(&mut self) {
        self.padded.zeroize();
    }
}

impl Default for Sha512<4> {
    fn default() -> Self {
        Self { padded: Default::default(), compress: four::compress }
    }
}

impl Default for Sha512<8> {
    fn default() -> Self {
        Self { padded: Default::default(), compress: eight::compress }
    }
}

impl<const LANES: usize> Sha512<LANES> {
    /// The digests of a message for each lane, each the concatenation of its parts.
    ///
    /// # Safety
    /// The processor has AVX2 for four lanes, AVX-512 F and BW for eight.
    pub(super) unsafe fn digest<const PARTS: usize>(&mut self, messages: [[&[u8]; PARTS]; LANES]) -> [[u8; 64]; LANES] {
        for (padded, parts) in self.padded.iter_mut().zip(&messages) {
            pad(padded, parts);
        }
        let blocks = self.padded.each_ref().map(|padded| padded.len() / BLOCK);
        let longest = *blocks.iter().max().expect("some lanes");
        let mut state = INITIAL.map(|word| [word; LANES]);
        let mut digests = [[0; 64]; LANES];
        for block in 0..longest {
            // A finished lane repeats its last block; its result has been taken already.
            let at: [&[u8; BLOCK]; LANES] = std::array::from_fn(|l| {
                let start = block.min(blocks[l] - 1) * BLOCK;
                self.padded[l][start..start + BLOCK].try_into().expect("a whole block")
            });
            // SAFETY: the caller promises the instructions.
            unsafe { (self.compress)(&mut state, at) };
            for l in (0..LANES).filter(|l| block + 1 == blocks[*l]) {
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

/// One round; `$w` is this round's word.
macro_rules! round {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $w:expr, $k:expr) => {
        let t1 = add(add($h, add($w, splat($k))), add(large_sigma1($e), choice($e, $f, $g)));
        $d = add($d, t1);
        $h = add(t1, add(large_sigma0($a), majority($a, $b, $c)));
    };
}

/// Replaces word i of the ring of sixteen by the one sixteen rounds later.
macro_rules! extend {
    ($w:ident, $i:expr) => {
        let (s0, s1) = (small_sigma0($w[($i + 1) % 16]), small_sigma1($w[($i + 14) % 16]));
        $w[$i] = add(add($w[$i], s0), add($w[($i + 9) % 16], s1));
    };
}

/// Applies one block of each of `$lanes` lanes to the state. Uses names in scope: the functions of FIPS 180-4 §4.1.3 on
/// vectors, `add`, `splat`, `read` and `write`, and `words`, which returns the next words of each block, in lanes.
macro_rules! compress {
    ($features:literal, $lanes:literal) => {
        #[target_feature(enable = $features)]
        pub(super) fn compress(state: &mut [[u64; $lanes]; 8], blocks: [&[u8; BLOCK]; $lanes]) {
            let mut w = [splat(0); 16];
            for first in (0..16).step_by($lanes) {
                w[first..first + $lanes].copy_from_slice(&words(blocks, first));
            }
            let (mut a, mut b, mut c, mut d) = (read(&state[0]), read(&state[1]), read(&state[2]), read(&state[3]));
            let (mut e, mut f, mut g, mut h) = (read(&state[4]), read(&state[5]), read(&state[6]), read(&state[7]));
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
            for (word, sum) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
                write(word, add(read(word), sum));
            }
        }
    };
}
use {compress, extend, round};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ed25519::{field4, field8};
    use proptest::prelude::*;
    use sha2::Digest;

    /// Only where the lanes' instructions were detected.
    fn check<const LANES: usize>(lengths: [usize; LANES], seed: u8, cut: usize)
    where
        Sha512<LANES>: Default,
    {
        let messages = lengths.map(|n| (0..n).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect::<Vec<_>>());
        let parts = messages.each_ref().map(|m| {
            let (head, tail) = m.split_at(cut.min(m.len()));
            [head, tail]
        });
        // SAFETY: the caller detected them.
        let digests = unsafe { Sha512::<LANES>::default().digest(parts) };
        for (message, digest) in messages.iter().zip(digests) {
            assert_eq!(digest, <[u8; 64]>::from(sha2::Sha512::digest(message)));
        }
    }

    proptest! {
        #[test]
        fn each_lane_is_sha512(lengths in prop::array::uniform8(0usize..520), seed in any::<u8>(), cut in 0usize..200) {
            if field4::available() {
                check::<4>(lengths[..4].try_into().unwrap(), seed, cut);
            }
            if field8::available() {
                check::<8>(lengths, seed, cut);
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
