//! The random numbers from which a shred's tree is drawn.
//!
//! reads   a shred's slot, kind and index, its leader
//! writes  uniformly distributed numbers below a bound
//! memory  ChaCha's state and four of its blocks
//! source  `agave-random` 4.2.2 (uniform sampling as `rand` 0.8 does it for a single number), `solana-ledger` 4.2.2

use hearth_crypto::sha256::sha256;
use hearth_wire::Pubkey;
use hearth_wire::shred::ShredKind;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_chacha::{ChaCha8Rng, ChaCha20Rng};

/// The seed's byte for a data shred, and for a code shred.
const DATA: u8 = 0xa5;
const CODE: u8 = 0x5a;

/// The fields of a shred that, with the slot's leader, determine its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShredId {
    /// The slot of the shred's block.
    pub slot: u64,
    /// Data or parity; the two kinds are numbered separately.
    pub kind: ShredKind,
    /// Its index among the slot's shreds of its kind.
    pub index: u32,
}

impl ShredId {
    /// The seed of its tree.
    pub fn seed(&self, leader: &Pubkey) -> [u8; 32] {
        let kind = match self.kind {
            ShredKind::Data => DATA,
            ShredKind::Code => CODE,
        };
        sha256(&[&self.slot.to_le_bytes(), &[kind], &self.index.to_le_bytes(), leader])
    }
}

/// The number of ChaCha rounds. A cluster changes from 20 to 8 when the feature `switch_to_chacha8_turbine` activates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cipher {
    /// The cipher of clusters on which the feature is not active.
    #[default]
    ChaCha20,
    /// The cipher of clusters on which the feature is active.
    ChaCha8,
}

/// A generator with either cipher.
pub enum Random {
    /// The generator with 20 rounds.
    ChaCha20(ChaCha20Rng),
    /// The generator with 8 rounds.
    ChaCha8(ChaCha8Rng),
}

impl Random {
    /// A generator with this cipher and seed.
    pub fn new(cipher: Cipher, seed: [u8; 32]) -> Self {
        match cipher {
            Cipher::ChaCha20 => Self::ChaCha20(ChaCha20Rng::from_seed(seed)),
            Cipher::ChaCha8 => Self::ChaCha8(ChaCha8Rng::from_seed(seed)),
        }
    }

    fn next(&mut self) -> u64 {
        match self {
            Self::ChaCha20(random) => random.next_u64(),
            Self::ChaCha8(random) => random.next_u64(),
        }
    }

    /// A number below `end`, which must not be 0. The leader schedule uses another sampling rule.
    pub fn below(&mut self, end: u64) -> u64 {
        let zone = (end << end.leading_zeros()).wrapping_sub(1);
        loop {
            let product = u128::from(self.next()) * u128::from(end);
            if product as u64 <= zone {
                return (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_cluster() {
        let mut raw = Random::new(Cipher::ChaCha20, [16; 32]);
        let first: Vec<u64> = (0..5).map(|_| raw.next()).collect();
        let wanted = [
            17_561_962_876_765_024_395,
            470_213_581_521_912_695,
            5_273_148_429_961_811_548,
            17_075_204_616_871_931_816,
            3_264_552_321_098_222_474,
        ];
        assert_eq!(first, wanted);
        let mut random = Random::new(Cipher::ChaCha20, [16; 32]);
        let drawn: Vec<u64> = (0..10).map(|_| random.below(294_533)).collect();
        let wanted = [272_634, 52_124, 8_676, 230_277, 223_574, 137_788, 212_533, 213_080, 187_008, 209_168];
        assert_eq!(drawn, wanted);
    }

    #[test]
    fn seed_hashes_slot_kind_index_and_leader() {
        let id = ShredId { slot: 0x0102, kind: ShredKind::Data, index: 0x0304 };
        let mut bytes = vec![2, 1, 0, 0, 0, 0, 0, 0, 0xa5, 4, 3, 0, 0];
        bytes.extend([7; 32]);
        assert_eq!(id.seed(&[7; 32]), sha256(&[&bytes]));
        let code = ShredId { kind: ShredKind::Code, ..id };
        bytes[8] = 0x5a;
        assert_eq!(code.seed(&[7; 32]), sha256(&[&bytes]));
    }
}
