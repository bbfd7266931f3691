//! Keccak-256 as Ethereum uses it: one message, or many in parallel.
//!
//! reads   byte slices; nothing else
//! writes  32-byte digests
//! memory  none beyond the stack, but for a list of the messages' order where their lengths differ
//! drops   nothing: every function is total, except that a digest must be there for each message (panic)
//! source  the Keccak submission to SHA-3, version 3, with its padding of a single 1 bit before FIPS 202 added two
//!         more; the permutation of a single message is that of the crate `keccak`, and the tests' oracle is `sha3`

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;
#[cfg(test)]
mod tests;

/// Bytes absorbed between two permutations.
pub const BLOCK_SIZE: usize = 136;
const BLOCK_WORDS: usize = BLOCK_SIZE / 8;
/// Messages that are hashed together.
const LANES: usize = 8;
/// Minimum number of messages for which lanes are faster than one message after the other.
const LANES_MIN: usize = 2;

/// Returns the digest of one message.
pub fn keccak256(message: &[u8]) -> [u8; 32] {
    let mut state = [0u64; 25];
    let (blocks, rest) = message.as_chunks::<BLOCK_SIZE>();
    for block in blocks {
        absorb(&mut state, block);
    }
    absorb(&mut state, &padded(rest));
    std::array::from_fn(|i| state[i / 8].to_le_bytes()[i % 8])
}

/// Computes the digests of many messages of any lengths. It is fastest if many have about the same length. Panics
/// unless there is a digest for each message.
pub fn keccak256_burst(messages: &[&[u8]], digests: &mut [[u8; 32]]) {
    assert_eq!(messages.len(), digests.len(), "a digest for each message");
    #[cfg(target_arch = "x86_64")]
    if messages.len() >= LANES_MIN && avx512::available() {
        return in_lanes(messages, digests);
    }
    for (message, digest) in messages.iter().zip(digests) {
        *digest = keccak256(message);
    }
}

/// Returns the number of blocks of a message, including the padded one.
fn block_count(message: &[u8]) -> usize {
    message.len() / BLOCK_SIZE + 1
}

/// Hashes eight messages at a time, grouped by their number of blocks.
#[cfg(target_arch = "x86_64")]
fn in_lanes(messages: &[&[u8]], digests: &mut [[u8; 32]]) {
    let mut order: Vec<u32> = Vec::new();
    let blocks = messages.first().map(|message| block_count(message));
    if messages.iter().any(|message| Some(block_count(message)) != blocks) {
        order.extend(0..u32::try_from(messages.len()).expect("fewer messages than 2^32"));
        order.sort_by_key(|at| block_count(messages[*at as usize]));
    }
    let index = |at: usize| order.get(at).map_or(at, |index| *index as usize);
    for start in (0..messages.len()).step_by(LANES) {
        let count = LANES.min(messages.len() - start);
        if count < LANES_MIN {
            digests[index(start)] = keccak256(messages[index(start)]);
            continue;
        }
        let lanes = std::array::from_fn(|l| messages[index(start + l.min(count - 1))]);
        // SAFETY: the caller checked that the instructions are available.
        #[allow(unsafe_code)]
        let hashes = unsafe { avx512::hash(&lanes) };
        for (l, hash) in hashes[..count].iter().enumerate() {
            digests[index(start + l)] = *hash;
        }
    }
}

fn absorb(state: &mut [u64; 25], block: &[u8; BLOCK_SIZE]) {
    for (word, bytes) in state.iter_mut().zip(block.as_chunks().0) {
        *word ^= u64::from_le_bytes(*bytes);
    }
    keccak::f1600(state);
}

/// Builds the last block: `rest`, which is shorter than a block, a 1, zeros, and a 1 in the topmost bit.
fn padded(rest: &[u8]) -> [u8; BLOCK_SIZE] {
    let mut block = [0; BLOCK_SIZE];
    block[..rest.len()].copy_from_slice(rest);
    block[rest.len()] = 0x01;
    block[BLOCK_SIZE - 1] |= 0x80;
    block
}
