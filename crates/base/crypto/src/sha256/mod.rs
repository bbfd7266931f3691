//! SHA-256: one message, a chain of hashes (proof of history), and many messages in parallel.
//!
//! reads   byte slices; nothing else
//! writes  32-byte digests
//! memory  none beyond the stack
//! drops   nothing: every function is total, except that unequal lanes are a caller's bug (panic)
//! source  FIPS 180-4; the oracle of the tests is the crate `sha2`
//!
//! The SHA extensions of x86-64 are detected at run time; elsewhere the crate `sha2` compresses.
//! Why not `sha2` everywhere: it hashes one message at a time and knows nothing of the constant
//! half of a chained block, and it was seen to fall a hundredfold under `-C target-cpu=native`.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;
mod portable;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod shani;

/// Bytes in a block of the compression function.
pub const BLOCK_SIZE: usize = 64;

/// Bytes in a digest.
pub const DIGEST_SIZE: usize = 32;

/// Messages that are compressed together at most.
const LANES_MAX: usize = 16;

/// The initial state: the fractional parts of the square roots of the first eight primes.
const INITIAL: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// The state of a hash after a whole number of blocks.
///
/// It is `Copy`, so that a common beginning is compressed once and continued many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha256State {
    words: [u32; 8],
    blocks: u64,
}

impl Default for Sha256State {
    fn default() -> Self {
        Self::new()
    }
}

impl Sha256State {
    /// The state before the first block.
    pub const fn new() -> Self {
        Self { words: INITIAL, blocks: 0 }
    }

    /// Bytes absorbed so far.
    pub const fn len_bytes(&self) -> u64 {
        self.blocks * BLOCK_SIZE as u64
    }

    /// Absorbs whole blocks. Panics unless `bytes.len()` is a multiple of [`BLOCK_SIZE`].
    pub fn absorb(&mut self, bytes: &[u8]) {
        compress([self], [bytes]);
    }

    /// Absorbs the rest of the message, of any length, and returns the digest.
    pub fn finish(mut self, rest: &[u8]) -> [u8; 32] {
        let whole = rest.len() - rest.len() % BLOCK_SIZE;
        self.absorb(&rest[..whole]);
        let (tail, used) = self.padded(&rest[whole..]);
        self.absorb(&tail[..used]);
        self.digest()
    }

    /// The last one or two blocks: `rest` (under a block), a one bit, zeros, the length in bits.
    fn padded(&self, rest: &[u8]) -> ([u8; 2 * BLOCK_SIZE], usize) {
        let mut tail = [0u8; 2 * BLOCK_SIZE];
        tail[..rest.len()].copy_from_slice(rest);
        tail[rest.len()] = 0x80;
        let used = if rest.len() < BLOCK_SIZE - 8 { BLOCK_SIZE } else { 2 * BLOCK_SIZE };
        let bits = (self.len_bytes() + rest.len() as u64) * 8;
        tail[used - 8..used].copy_from_slice(&bits.to_be_bytes());
        (tail, used)
    }

    fn digest(&self) -> [u8; 32] {
        let mut out = [0u8; 32];
        for (bytes, word) in out.chunks_exact_mut(4).zip(self.words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        out
    }
}

/// The digest of the concatenation of `parts`.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    if let [one] = parts {
        return Sha256State::new().finish(one);
    }
    let mut state = Sha256State::new();
    let mut block = [0u8; BLOCK_SIZE];
    let mut used = 0;
    for mut part in parts.iter().copied() {
        if used > 0 {
            let take = part.len().min(BLOCK_SIZE - used);
            block[used..used + take].copy_from_slice(&part[..take]);
            (used, part) = (used + take, &part[take..]);
            if used < BLOCK_SIZE {
                continue;
            }
            state.absorb(&block);
        }
        let whole = part.len() - part.len() % BLOCK_SIZE;
        state.absorb(&part[..whole]);
        used = part.len() - whole;
        block[..used].copy_from_slice(&part[whole..]);
    }
    state.finish(&block[..used])
}

/// Applies SHA-256 to a 32-byte value `n` times: the proof-of-history chain. `n = 0` changes nothing.
pub fn sha256_chain(state: [u8; 32], n: u64) -> [u8; 32] {
    #[cfg(target_arch = "x86_64")]
    if let Some(out) = shani::chain(&state, n) {
        return out;
    }
    portable::chain(state, n)
}

/// One step of the chain that records `mixin`: the digest of `state` followed by `mixin`.
pub fn sha256_mix(state: [u8; 32], mixin: [u8; 32]) -> [u8; 32] {
    let mut block = [0u8; BLOCK_SIZE];
    block[..32].copy_from_slice(&state);
    block[32..].copy_from_slice(&mixin);
    Sha256State::new().finish(&block)
}

/// Absorbs whole blocks into many states, which is faster than into one after the other.
/// Panics unless there is an input for each state and all have the same length, a multiple of
/// [`BLOCK_SIZE`].
pub fn absorb_each(states: &mut [Sha256State], inputs: &[&[u8]]) {
    assert_eq!(states.len(), inputs.len(), "an input for each state");
    for (states, inputs) in states.chunks_mut(LANES_MAX).zip(inputs.chunks(LANES_MAX)) {
        assert!(inputs.iter().all(|i| i.len() == inputs[0].len()), "inputs must be of equal length");
        #[cfg(target_arch = "x86_64")]
        if avx512::absorb(states, inputs) {
            continue;
        }
        absorb_pairs(states, inputs);
    }
}

/// [`absorb_each`] two by two, since the SHA unit can overlap two messages.
fn absorb_pairs(states: &mut [Sha256State], inputs: &[&[u8]]) {
    let (pairs, odd) = states.as_chunks_mut::<2>();
    let (input_pairs, odd_input) = inputs.as_chunks::<2>();
    for (pair, inputs) in pairs.iter_mut().zip(input_pairs) {
        compress(pair.each_mut(), *inputs);
    }
    if let ([state], [input]) = (odd, odd_input) {
        state.absorb(input);
    }
}

/// Finishes many messages of equal length, each from a state of its own after equally many blocks: returns the digests
/// of the absorbed data followed by `rests`. Overwrites the states. Panics unless the three slices have equal length,
/// and the rests too.
pub fn finish_each(states: &mut [Sha256State], rests: &[&[u8]], digests: &mut [[u8; 32]]) {
    assert_eq!(states.len(), digests.len(), "a digest for each state");
    let Some(len) = rests.first().map(|r| r.len()) else {
        return assert!(states.is_empty(), "an input for each state");
    };
    assert!(rests.iter().all(|r| r.len() == len), "inputs must be of equal length");
    let whole = len - len % BLOCK_SIZE;
    let groups = states.chunks_mut(LANES_MAX).zip(rests.chunks(LANES_MAX));
    for ((states, rests), digests) in groups.zip(digests.chunks_mut(LANES_MAX)) {
        let mut inputs = [&[][..]; LANES_MAX];
        if whole > 0 {
            for (input, rest) in inputs.iter_mut().zip(rests) {
                *input = &rest[..whole];
            }
            absorb_each(states, &inputs[..rests.len()]);
        }
        let mut tails = [[0; 2 * BLOCK_SIZE]; LANES_MAX];
        let mut used = 0;
        for ((tail, rest), state) in tails.iter_mut().zip(rests).zip(&*states) {
            (*tail, used) = state.padded(&rest[whole..]);
        }
        for (input, tail) in inputs.iter_mut().zip(&tails) {
            *input = &tail[..used];
        }
        absorb_each(states, &inputs[..rests.len()]);
        for (digest, state) in digests.iter_mut().zip(states) {
            *digest = state.digest();
        }
    }
}

/// Returns the padding of a message of `len` bytes, whose place is left zero, in whole blocks: `N` bytes. Panics unless
/// message and padding fill them exactly; in a constant that is a compile error.
pub const fn padding<const N: usize>(len: usize) -> [u8; N] {
    assert!(N.is_multiple_of(BLOCK_SIZE) && len + 9 <= N && len + 9 + BLOCK_SIZE > N);
    let mut padded = [0; N];
    padded[len] = 0x80;
    let bits = (len as u64 * 8).to_be_bytes();
    let mut i = 0;
    while i < bits.len() {
        padded[N - bits.len() + i] = bits[i];
        i += 1;
    }
    padded
}

/// Digests many messages that are already padded (see [`padding`]), all of `N` bytes. Panics unless there is a digest
/// for each.
pub fn digest_each<const N: usize>(padded: &[[u8; N]], digests: &mut [[u8; 32]]) {
    assert_eq!(padded.len(), digests.len(), "a digest for each message");
    for (padded, digests) in padded.chunks(LANES_MAX).zip(digests.chunks_mut(LANES_MAX)) {
        let mut states = [Sha256State::new(); LANES_MAX];
        let mut inputs = [&[][..]; LANES_MAX];
        for (input, message) in inputs.iter_mut().zip(padded) {
            *input = message;
        }
        absorb_each(&mut states[..padded.len()], &inputs[..padded.len()]);
        for (digest, state) in digests.iter_mut().zip(&states) {
            *digest = state.digest();
        }
    }
}

/// Feeds equally many whole blocks to each of `N` states.
fn compress<const N: usize>(states: [&mut Sha256State; N], bytes: [&[u8]; N]) {
    let len = bytes[0].len();
    assert!(bytes.iter().all(|b| b.len() == len), "lanes must be of equal length");
    assert!(len.is_multiple_of(BLOCK_SIZE), "only whole blocks can be absorbed");
    let blocks = bytes.map(|b| b.as_chunks::<BLOCK_SIZE>().0);
    let words = states.map(|s| {
        s.blocks += (len / BLOCK_SIZE) as u64;
        &mut s.words
    });
    #[cfg(target_arch = "x86_64")]
    let words = match shani::compress(words, blocks) {
        Ok(()) => return,
        Err(words) => words,
    };
    for (words, blocks) in words.into_iter().zip(blocks) {
        portable::compress(words, blocks);
    }
}

#[cfg(test)]
mod tests;
