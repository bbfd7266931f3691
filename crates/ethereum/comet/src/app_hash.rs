//! The app hash: the digest of the state after a block that validators sign.

use alloy_primitives::B256;
use bytes::Bytes;
use hearth_crypto::keccak::keccak256;

/// So that no other hash of the program is one of these.
const DOMAIN: &[u8] = b"hearth app hash 1";

/// Returns the hash of the EVM's block, whose header holds the roots of state, transactions and receipts.
pub fn app_hash(block_hash: &B256) -> Bytes {
    let bytes = [DOMAIN, block_hash.as_slice()].concat();
    Bytes::copy_from_slice(&keccak256(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn app_hash_covers_the_block_hash() {
        assert_eq!(app_hash(&B256::ZERO).len(), 32);
        assert_ne!(app_hash(&B256::ZERO), app_hash(&B256::repeat_byte(1)));
    }
}
