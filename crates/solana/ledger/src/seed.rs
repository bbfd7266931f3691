//! Keyed hashing of addresses and messages under a secret of this process, so that nobody can choose colliding keys.
//!
//! reads   public keys, signatures, messages; the operating system's entropy once
//! writes  hashes of 64 and 128 bits
//! memory  48 bytes per seed
//! source  folded 64×64→128-bit multiplication, as in wyhash, for tables of addresses; SipHash-1-3 (Aumasson and
//!         Bernstein), a keyed pseudo-random function, where a collision would change an outcome

use std::hash::{BuildHasher, RandomState};

use siphasher::sip128::{Hasher128, SipHasher13};

/// The secret of one table.
#[derive(Clone, Copy, Debug)]
pub struct Seed {
    words: [u64; 4],
    sip: [u64; 2],
}

impl Seed {
    /// A seed from the operating system's entropy.
    pub fn random() -> Self {
        let state = RandomState::new();
        let word = |n: u64| state.hash_one(n);
        Self { words: [word(0), word(1), word(2), word(3)], sip: [word(4), word(5)] }
    }

    /// The secret's words, to be stored with tables whose keys were made under it.
    pub fn to_words(self) -> [u64; 6] {
        let ([a, b, c, d], [e, f]) = (self.words, self.sip);
        [a, b, c, d, e, f]
    }

    /// Restores a seed from its words.
    pub fn from_words([a, b, c, d, e, f]: [u64; 6]) -> Self {
        Self { words: [a, b, c, d], sip: [e, f] }
    }

    /// A 64-bit hash of a 32-byte address, for tables.
    #[inline]
    pub fn address(&self, address: &[u8; 32]) -> u64 {
        let (chunks, _) = address.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(chunks[i]) ^ self.words[i];
        let folded = fold(word(0), word(1)) ^ fold(word(2), word(3)).rotate_left(32);
        fold(folded ^ self.sip[0], self.sip[1] | 1)
    }

    /// A keyed 128-bit hash of any bytes: two messages collide with odds of 2⁻¹²⁸.
    #[inline]
    pub fn message(&self, bytes: &[u8]) -> u128 {
        use std::hash::Hasher;
        let mut hasher = SipHasher13::new_with_keys(self.sip[0], self.sip[1]);
        hasher.write(bytes);
        hasher.finish128().as_u128()
    }

    /// A 64-bit hash of a signature. Its scalar half is folded under secret words.
    #[inline]
    pub fn signature(&self, signature: &[u8; 64]) -> u64 {
        let (halves, _) = signature.as_chunks::<32>();
        fold(self.address(&halves[0]) ^ self.words[1], self.address(&halves[1]) ^ self.words[2])
    }
}

/// Multiplies to 128 bits and folds the high and low halves into one word.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_changed_bit_anywhere_changes_the_hash() {
        let seed = Seed::random();
        let (address, signature) = ([7u8; 32], [9u8; 64]);
        let mut addresses = HashSet::from([seed.address(&address)]);
        let mut signatures = HashSet::from([seed.signature(&signature)]);
        for bit in 0..512 {
            let mut changed = signature;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(signatures.insert(seed.signature(&changed)), "bit {bit}");
            if bit < 256 {
                let mut changed = address;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(addresses.insert(seed.address(&changed)), "bit {bit}");
            }
        }
        assert_ne!(seed.message(b"a"), seed.message(b"b"));
        assert_ne!(seed.message(b"a"), Seed::random().message(b"a"), "seeds differ");
    }

    #[test]
    fn low_and_high_bits_spread() {
        let seed = Seed::random();
        let (mut low, mut high) = ([0u32; 256], [0u32; 256]);
        for n in 0..65_536u32 {
            let mut address = [0; 32];
            address[..4].copy_from_slice(&n.to_le_bytes());
            let hash = seed.address(&address);
            low[hash as usize % 256] += 1;
            high[(hash >> 56) as usize] += 1;
        }
        // 256 expected in each, ± 8 standard deviations of 16.
        assert!(low.iter().chain(&high).all(|&count| (128..=384).contains(&count)));
    }
}
