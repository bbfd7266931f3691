//! The filter of a pull request: a part of the table, and a Bloom filter over the known values in it.
//!
//! reads   the filter of a pull request
//! writes  the same
//! memory  a [`Bloom`] borrows; a [`BloomFilter`] has 8 B per key and a bit for each of its bits
//! source  `solana-bloom` 4.2.2; `solana-gossip` 4.2.2, `crds_gossip_pull.rs`; FNV-1a with the key as its initial state

use super::read::{GossipErrorKind, Reader, Result, write_u32, write_u64};
use crate::consts::Hash;

/// Minimum mask bits that nodes accept: 65,536 values divided by the 1,708 in a datagram's filter.
pub const MASK_BITS_MIN: u32 = 6;

const FNV_PRIME: u64 = 0x100_0000_01b3;

/// FNV-1a of `item` with `key` as the initial state.
pub fn bloom_hash(key: u64, item: &[u8]) -> u64 {
    item.iter().fold(key, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

/// A received Bloom filter: a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bloom<'a> {
    keys: &'a [[u8; 8]],
    blocks: &'a [[u8; 8]],
    bits: u64,
}

impl<'a> Bloom<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let keys = reader.count(8)?;
        let keys = reader.take(8 * keys)?.as_chunks().0;
        let at = reader.at();
        let blocks: &[[u8; 8]] = match reader.flag()? {
            true => {
                let count = reader.count(8)?;
                Reader::check(count > 0, GossipErrorKind::Bits, at)?;
                reader.take(8 * count)?.as_chunks().0
            }
            false => &[],
        };
        let bits = reader.u64()?;
        Reader::check(bits <= 64 * blocks.len() as u64, GossipErrorKind::Bits, at)?;
        // The number of set bits, which nobody uses.
        reader.u64()?;
        Ok(Self { keys, blocks, bits })
    }

    /// The number of keys, each of which is a hash to compute per item.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// The number of bits.
    pub fn bit_count(&self) -> u64 {
        self.bits
    }

    /// Whether it may contain `item`. One without keys or bits contains nothing.
    pub fn contains(&self, item: &[u8; 32]) -> bool {
        if self.keys.is_empty() || self.bits == 0 {
            return false;
        }
        self.keys.iter().all(|key| {
            let place = bloom_hash(u64::from_le_bytes(*key), item) % self.bits;
            u64::from_le_bytes(self.blocks[(place / 64) as usize]) >> (place % 64) & 1 == 1
        })
    }
}

/// A Bloom filter under construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomFilter {
    keys: Vec<u64>,
    blocks: Vec<u64>,
    bits: u64,
}

impl BloomFilter {
    /// An empty filter of `bits` bits, at least one.
    pub fn new(bits: u64, keys: Vec<u64>) -> Self {
        let bits = bits.max(1);
        Self { keys, blocks: vec![0; bits.div_ceil(64) as usize], bits }
    }

    /// Adds an item. Returns whether it was new, as far as the filter can tell.
    pub fn add(&mut self, item: &[u8; 32]) -> bool {
        let mut is_new = false;
        for key in &self.keys {
            let place = bloom_hash(*key, item) % self.bits;
            let (block, bit) = (&mut self.blocks[(place / 64) as usize], 1 << (place % 64));
            is_new |= *block & bit == 0;
            *block |= bit;
        }
        is_new
    }

    /// Whether it may contain `item`.
    pub fn contains(&self, item: &[u8; 32]) -> bool {
        let mut places = self.keys.iter().map(|key| bloom_hash(*key, item) % self.bits);
        !self.keys.is_empty() && places.all(|place| self.blocks[(place / 64) as usize] >> (place % 64) & 1 == 1)
    }

    /// Its size on the wire in bytes.
    pub fn wire_size(&self) -> usize {
        Self::wire_size_of(self.bits, self.keys.len())
    }

    /// The wire size of a filter with this many bits and keys.
    pub const fn wire_size_of(bits: u64, keys: usize) -> usize {
        8 + 8 * keys + 1 + 8 + 8 * bits.div_ceil(64) as usize + 8 + 8
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_u64(self.keys.len() as u64, out);
        self.keys.iter().for_each(|key| write_u64(*key, out));
        out.push(1);
        write_u64(self.blocks.len() as u64, out);
        self.blocks.iter().for_each(|block| write_u64(*block, out));
        write_u64(self.bits, out);
        write_u64(self.blocks.iter().map(|block| u64::from(block.count_ones())).sum(), out);
    }
}

/// The bits below the mask's.
fn low(mask_bits: u32) -> u64 {
    u64::MAX.checked_shr(mask_bits).unwrap_or(0)
}

/// The first eight bytes of a value's hash, which assign it to a part of the table.
pub fn hash_prefix(hash: &Hash) -> u64 {
    let (first, _) = hash.split_first_chunk().expect("32 bytes");
    u64::from_le_bytes(*first)
}

/// A part of the table, and the known values in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrdsFilter<'a> {
    /// The values that the caller has.
    pub bloom: Bloom<'a>,
    /// The part: the top `mask_bits` bits of [`hash_prefix`].
    pub mask: u64,
    /// Number of bits that select the part: at least [`MASK_BITS_MIN`].
    pub mask_bits: u32,
}

impl<'a> CrdsFilter<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let (bloom, mask, at) = (Bloom::read(reader)?, reader.u64()?, reader.at());
        let mask_bits = reader.u32()?;
        Reader::check(mask_bits >= MASK_BITS_MIN, GossipErrorKind::Mask, at)?;
        Ok(Self { bloom, mask, mask_bits })
    }

    /// The smallest and the greatest [`hash_prefix`] of the part.
    pub fn range(&self) -> (u64, u64) {
        let low = low(self.mask_bits);
        (self.mask & !low, self.mask | low)
    }

    /// Whether a hash belongs to the part.
    pub fn covers(&self, hash: &Hash) -> bool {
        let (first, last) = self.range();
        (first..=last).contains(&hash_prefix(hash))
    }
}

/// The mask of part `part` of 2^`mask_bits`.
pub fn mask_of(part: u64, mask_bits: u32) -> u64 {
    part.checked_shl(64 - mask_bits.min(64)).unwrap_or(0) | low(mask_bits)
}

/// Appends a filter: `bloom` over part `part` of 2^`mask_bits`.
pub(super) fn write_filter(bloom: &BloomFilter, part: u64, mask_bits: u32, out: &mut Vec<u8>) {
    bloom.write(out);
    write_u64(mask_of(part, mask_bits), out);
    write_u32(mask_bits, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_vector() {
        let mut item = [0; 32];
        item[31] = 1;
        assert_eq!(bloom_hash(0x0123_4567_89ab_cdef, &item), 0x357010ba74b883bc);
    }

    #[test]
    fn a_part_is_a_range_of_hashes() {
        for mask_bits in [6, 7, 12, 63, 64] {
            for part in [0, 1, 5, 63] {
                let mask = mask_of(part, mask_bits);
                let bloom = Bloom { keys: &[], blocks: &[], bits: 0 };
                let filter = CrdsFilter { bloom, mask, mask_bits };
                let mut random = hearth_testkit::random::Random(u64::from(mask_bits) + part);
                for _ in 0..1_000 {
                    let mut hash = random.key();
                    if random.chance(500) {
                        // Near the part.
                        let prefix = (hash_prefix(&hash) & low(mask_bits)) | (mask & !low(mask_bits));
                        hash[..8].copy_from_slice(&prefix.wrapping_add(random.below(3)).to_le_bytes());
                    }
                    let wanted = hash_prefix(&hash) | low(mask_bits);
                    assert_eq!(filter.covers(&hash), wanted == mask, "{mask_bits} {part}");
                }
            }
        }
    }

    #[test]
    fn added_hashes_are_found_after_encoding() {
        let mut random = hearth_testkit::random::Random(4);
        let mut bloom = BloomFilter::new(9_000, vec![random.word(), random.word(), random.word()]);
        let items: Vec<[u8; 32]> = (0..1_500).map(|_| random.key()).collect();
        assert!(items.iter().filter(|item| bloom.add(item)).count() > 1_300);
        let mut bytes = Vec::new();
        bloom.write(&mut bytes);
        assert_eq!(bytes.len(), bloom.wire_size());
        let mut reader = Reader::new(&bytes);
        let view = Bloom::read(&mut reader).unwrap();
        reader.end().unwrap();
        assert!(items.iter().all(|item| bloom.contains(item) && view.contains(item)));
        let others: Vec<[u8; 32]> = (0..10_000).map(|_| random.key()).collect();
        let found = others.iter().filter(|item| view.contains(item)).count();
        assert!(others.iter().all(|item| view.contains(item) == bloom.contains(item)));
        assert!((200..1_500).contains(&found), "{found} of 10,000 are found by chance");
    }
}
