//! Signing in bursts, for load generators: the same signatures as [`super::Signer::sign`], several times as fast.
//!
//! reads   secret keys, hashes
//! writes  signatures whose s is low, with the parity of R
//! memory  16 KB, 2 KB for each eight of a burst up to 128
//! source  SEC 1 §4.1.3; RFC 6979 for the nonce k, as libsecp256k1 has it
//!
//! k·G takes nearly all of the time. It is computed by the lanes that recover public keys, as (k − c)·G + c·G with a
//! constant c: their formulas add multiples of two points, and here both are the generator.
//!
//! **The time depends on the secrets**: tables are read by their digits. Only for keys that guard little, such as the
//! accounts of a load: no wallet or node signs so.

use super::{Arithmetic, SignItem, Signature};

/// From how many hashes on an octet is faster than one after the other.
const OCTET_MIN: usize = 2;

/// Signs bursts; holds the memory for that.
pub struct BurstSigner {
    #[cfg(target_arch = "x86_64")]
    lanes: Option<super::sign_lanes::SignLanes>,
}

impl Default for BurstSigner {
    fn default() -> Self {
        Self::new(Arithmetic::Detect)
    }
}

impl BurstSigner {
    /// Takes the memory; makes the generator's table if no one has yet.
    pub fn new(arithmetic: Arithmetic) -> Self {
        #[cfg(not(target_arch = "x86_64"))]
        let _ = arithmetic;
        Self {
            #[cfg(target_arch = "x86_64")]
            lanes: (arithmetic == Arithmetic::Detect).then(super::sign_lanes::SignLanes::new).flatten(),
        }
    }

    /// Signs each hash. `signatures` is cleared, then holds one signature per item, in order. Best with 16 items or
    /// more, in multiples of eight. The time depends on the secrets.
    pub fn sign_burst(&mut self, items: &[SignItem<'_>], signatures: &mut Vec<Signature>) {
        signatures.clear();
        #[cfg(target_arch = "x86_64")]
        if let Some(lanes) = &mut self.lanes
            && items.len() >= OCTET_MIN
        {
            return lanes.sign(items, signatures);
        }
        signatures.extend(items.iter().map(|item| item.signer.sign(&item.hash)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Signer;
    use super::*;

    /// Signers and hashes, all different: `count` of them.
    fn set(count: u8) -> Vec<(Signer, [u8; 32])> {
        let hash = |parts: &[u8]| crate::keccak::keccak256(parts);
        let one = |number: u8| (Signer::new(&hash(&[number])).expect("a key"), hash(&[number, 1]));
        (0..count).map(one).collect()
    }

    #[test]
    fn a_burst_signs_as_one_by_one() {
        let set = set(200);
        let items: Vec<SignItem<'_>> = set.iter().map(|(signer, hash)| SignItem { signer, hash: *hash }).collect();
        let expected: Vec<Signature> = items.iter().map(|item| item.signer.sign(&item.hash)).collect();
        for arithmetic in [Arithmetic::Detect, Arithmetic::Portable] {
            let (mut burst, mut signatures) = (BurstSigner::new(arithmetic), Vec::new());
            for count in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 64, 127, 128, 129, 200] {
                burst.sign_burst(&items[..count], &mut signatures);
                assert_eq!(signatures, expected[..count], "{count}, {arithmetic:?}");
            }
        }
    }

    #[test]
    fn edges_are_signed_alike() {
        let last = |byte: u8| std::array::from_fn(|i| if i == 31 { byte } else { 0 });
        // The order of the group less one; as hashes also the order and what is above it.
        let order_high = 0xffff_ffff_ffff_ffff_ffff_ffff_ffff_fffe_u128.to_be_bytes();
        let order_low = 0xbaae_dce6_af48_a03b_bfd2_5e8c_d036_4140_u128.to_be_bytes();
        let greatest = std::array::from_fn(|i| if i < 16 { order_high[i] } else { order_low[i - 16] });
        let signers = [last(1), last(2), greatest].map(|secret| Signer::new(&secret).expect("a key"));
        let above = |more: u8| std::array::from_fn(|i| if i == 31 { greatest[31] + more } else { greatest[i] });
        let hashes = [[0; 32], last(1), greatest, above(1), above(2), [0xff; 32]];
        let mut items = Vec::new();
        for signer in &signers {
            items.extend(hashes.map(|hash| SignItem { signer, hash }));
        }
        let mut signatures = Vec::new();
        BurstSigner::default().sign_burst(&items, &mut signatures);
        let expected: Vec<Signature> = items.iter().map(|item| item.signer.sign(&item.hash)).collect();
        assert_eq!(signatures, expected);
    }
}
