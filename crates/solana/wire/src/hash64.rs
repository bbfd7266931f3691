//! A keyed 64-bit hash, for tags of transactions.
//!
//! reads   a secret key and bytes, most often the 64 bytes of a signature
//! writes  a 64-bit tag
//! memory  88 bytes for an expanded key
//! source  NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999), with the key's words drawn by
//!         SplitMix64 (Steele, Lea, Flood 2014)
//!
//! The bytes are split into blocks of 64. In a block, NH adds a secret word to each of eight words, multiplies them in
//! pairs to 128 bits and sums the products. For two different blocks and a key that is unknown outside, the sums are
//! equal with odds of 2^-64, however the blocks were chosen. The halves of the sum are folded to 64 bits with two
//! secret multipliers. So a client that does not see tags cannot construct signatures with colliding tags. This is not
//! a cryptographic hash: with the key, collisions are easy to construct.

const BLOCK: usize = 64;
const WORDS: usize = BLOCK / 8;

/// The tag of `bytes` under the secret `key`. For repeated use of a key, a [`TagHasher`] is several times faster.
#[inline]
pub fn hash64(key: u64, bytes: &[u8]) -> u64 {
    TagHasher::new(key).hash64(bytes)
}

/// A key in expanded form.
#[derive(Clone)]
pub struct TagHasher {
    words: [u64; WORDS],
    fold: [u64; 2],
    start: u64,
}

impl TagHasher {
    /// Expands the secret `key`.
    #[inline]
    pub fn new(key: u64) -> Self {
        let secret = |index: u64| mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(index + 1)));
        Self {
            words: std::array::from_fn(|i| secret(i as u64)),
            fold: [secret(8) | 1, secret(9) | 1],
            start: secret(10),
        }
    }

    /// The tag of `bytes`, equal to that of [`hash64`].
    #[inline]
    pub fn hash64(&self, bytes: &[u8]) -> u64 {
        let mut state = self.start ^ bytes.len() as u64;
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for block in blocks {
            state = self.absorb(state, block);
        }
        if !rest.is_empty() {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            state = self.absorb(state, &block);
        }
        mix(state)
    }

    #[inline(always)]
    fn absorb(&self, state: u64, block: &[u8; BLOCK]) -> u64 {
        let words = block.as_chunks::<8>().0;
        let keyed = |i: usize| u128::from(u64::from_le_bytes(words[i]).wrapping_add(self.words[i]));
        let sum = (0..WORDS / 2).fold(0u128, |sum, pair| sum.wrapping_add(keyed(2 * pair) * keyed(2 * pair + 1)));
        // Odd multipliers keep the step reversible in `state`.
        (sum as u64 ^ state).wrapping_mul(self.fold[0])
            ^ ((sum >> 64) as u64).wrapping_mul(self.fold[1]).rotate_left(32)
    }
}

impl std::fmt::Debug for TagHasher {
    /// Keeps the key out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TagHasher")
    }
}

/// SplitMix64's mixer: each bit of the result depends on each bit of `x`; a permutation.
#[inline(always)]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_bit_key_bit_and_length_matters() {
        for len in [1, 7, 64, 65, 200] {
            let bytes = vec![0x5a; len];
            let tag = hash64(1, &bytes);
            let mut flipped_bits = 0;
            for bit in 0..8 * len {
                let mut other = bytes.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                let difference = (tag ^ hash64(1, &other)).count_ones();
                assert!(difference > 8, "bit {bit} of {len} bytes changes only {difference} bits");
                flipped_bits += difference;
            }
            let mean = f64::from(flipped_bits) / (8 * len) as f64;
            assert!((27.0..37.0).contains(&mean), "{len} bytes: {mean} bits change");
            for bit in 0..64 {
                assert_ne!(tag, hash64(1 ^ (1 << bit), &bytes));
            }
            assert_ne!(tag, hash64(1, &[&bytes[..], &[0]].concat()));
        }
    }

    #[test]
    fn tags_of_close_signatures_spread_over_a_table() {
        // 2^16 signatures that differ in a counter fill 2^16 buckets as random ones would: 36.8 %
        // stay empty.
        for shift in [0, 24, 48] {
            let mut buckets = vec![false; 1 << 16];
            for counter in 0..1u64 << 16 {
                let mut signature = [7u8; 64];
                signature[40..48].copy_from_slice(&counter.to_le_bytes());
                buckets[(hash64(99, &signature) >> shift) as usize & 0xffff] = true;
            }
            let empty = buckets.iter().filter(|hit| !**hit).count() as f64 / 65_536.0;
            assert!((0.35..0.39).contains(&empty), "shift {shift}: {empty}");
        }
    }
}
