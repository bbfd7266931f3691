//! A keyed 64-bit hash, for tags of transactions.
//!
//! reads   a secret key and bytes, most often the 64 bytes of a signature
//! writes  a 64-bit tag
//! memory  none
//! source  NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999), with the key's words drawn by
//!         SplitMix64 (Steele, Lea, Flood 2014)
//!
//! The bytes are cut into blocks of 64. In a block, NH adds a secret word to each of eight words,
//! multiplies them in pairs to 128 bits and sums the products: for two different blocks and a key
//! that nobody outside knows, the sums are equal with odds of 2^-64, however the blocks were chosen.
//! The sum is folded to 64 bits by one more secret multiplication. So a client who does not see
//! tags cannot prepare signatures whose tags collide. This is no cryptographic hash: whoever knows
//! the key can.

const BLOCK: usize = 64;

/// The tag of `bytes` under the secret `key`.
#[inline]
pub fn hash64(key: u64, bytes: &[u8]) -> u64 {
    let mut state = secret(key, 8) ^ bytes.len() as u64;
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for block in blocks {
        state = absorb(key, state, block);
    }
    if !rest.is_empty() {
        let mut block = [0; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        state = absorb(key, state, &block);
    }
    finish(state)
}

#[inline(always)]
fn absorb(key: u64, state: u64, block: &[u8; BLOCK]) -> u64 {
    let word = |i: usize| u64::from_le_bytes(block[8 * i..8 * i + 8].try_into().expect("eight bytes"));
    let keyed = |i: usize| u128::from(word(i).wrapping_add(secret(key, i as u64)));
    let sum = (0..4).fold(0u128, |sum, pair| sum.wrapping_add(keyed(2 * pair) * keyed(2 * pair + 1)));
    // The odd multiplier keeps the step reversible in `state`.
    let folded = (sum as u64 ^ state).wrapping_mul(secret(key, 9) | 1);
    folded ^ ((sum >> 64) as u64).wrapping_mul(secret(key, 10) | 1).rotate_left(32)
}

/// Word `index` of the expanded key.
#[inline(always)]
fn secret(key: u64, index: u64) -> u64 {
    finish(key.wrapping_add(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(index + 1)))
}

/// SplitMix64's mixer: each bit of the result depends on each bit of `x`; a permutation.
#[inline(always)]
fn finish(mut x: u64) -> u64 {
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
