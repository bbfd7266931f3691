//! SHA-256 on machines for which there is no code of our own: the crate `sha2` compresses.
//!
//! reads   states and blocks
//! writes  states
//! memory  none beyond the stack
//! source  FIPS 180-4, through `sha2`

use sha2::compress256;
use sha2::digest::generic_array::GenericArray;

/// Compresses `blocks` into `words`.
pub(super) fn compress(words: &mut [u32; 8], blocks: &[[u8; 64]]) {
    for block in blocks {
        compress256(words, std::slice::from_ref(GenericArray::from_slice(block)));
    }
}

/// Applies SHA-256 to a 32-byte value `n` times.
pub(super) fn chain(state: [u8; 32], n: u64) -> [u8; 32] {
    let mut block = [0u8; 64];
    block[..32].copy_from_slice(&state);
    block[32] = 0x80;
    block[62..].copy_from_slice(&256u16.to_be_bytes());
    for _ in 0..n {
        let mut words = super::INITIAL;
        compress(&mut words, &[block]);
        for (bytes, word) in block[..32].chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
    }
    let mut out = [0u8; 32];
    out.copy_from_slice(&block[..32]);
    out
}
