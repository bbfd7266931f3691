//! Seeded mutations of a corpus, without coverage.
//!
//! reads   a corpus, a target's tokens, a seed
//! writes  inputs, the same from the same seed
//! memory  one input of at most [`BYTES_MAX`]

use fastrand::Rng;

/// The longest input that mutation makes, unless a file of the corpus is longer.
pub const BYTES_MAX: usize = 1 << 16;

/// Bytes at which the numbers and tags of most formats turn.
const EDGES: [u8; 16] = [0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 0x7f, 0x80, 0x81, 0xc0, 0xfe, 0xff];
/// The most changes of one mutation.
const CHANGES_MAX: usize = 6;
/// The longest range that a change copies or removes.
const RANGE_MAX: usize = 256;

/// Makes inputs out of a corpus.
pub struct Mutator<'a> {
    random: Rng,
    corpus: &'a [Vec<u8>],
    tokens: &'a [&'a str],
    bytes_max: usize,
}

impl<'a> Mutator<'a> {
    /// Creates a source of inputs. An empty corpus counts as one of an empty input.
    pub fn new(seed: u64, corpus: &'a [Vec<u8>], tokens: &'a [&'a str]) -> Self {
        let bytes_max = corpus.iter().map(Vec::len).max().unwrap_or(0).max(BYTES_MAX);
        Self { random: Rng::with_seed(seed), corpus, tokens, bytes_max }
    }

    /// Writes the next input into `out`, in place of what is there.
    pub fn next(&mut self, out: &mut Vec<u8>) {
        out.clear();
        if !self.corpus.is_empty() {
            out.extend_from_slice(&self.corpus[self.random.usize(..self.corpus.len())]);
        }
        // Mostly few changes: an input with many is refused by the first check.
        let changes = 1 + self.random.usize(..CHANGES_MAX).min(self.random.usize(..CHANGES_MAX));
        for _ in 0..changes {
            self.change(out);
        }
        out.truncate(self.bytes_max);
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.random.usize(..=bytes.len());
        match self.random.u8(..16) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << self.random.u8(..8),
            2 if at < bytes.len() => bytes[at] = self.random.u8(..),
            3 | 4 if at < bytes.len() => bytes[at] = EDGES[self.random.usize(..EDGES.len())],
            5 if at < bytes.len() => {
                let step = self.random.u8(1..=4);
                let sum = if self.random.bool() { bytes[at].wrapping_add(step) } else { bytes[at].wrapping_sub(step) };
                bytes[at] = sum;
            }
            6 | 7 => self.number(bytes, at),
            8 => drop(bytes.drain(self.range(at, bytes.len()))),
            9 => {
                let range = self.range(at, bytes.len());
                let copied = bytes[range].to_vec();
                let to = self.random.usize(..=bytes.len());
                bytes.splice(to..to, copied).for_each(drop);
            }
            10 | 11 => self.splice(bytes, at),
            12 | 13 => self.token(bytes, at),
            14 => {
                let count = self.random.usize(1..=16);
                let more: Vec<u8> = std::iter::repeat_with(|| self.random.u8(..)).take(count).collect();
                bytes.splice(at..at, more).for_each(drop);
            }
            15 if self.random.u8(..4) == 0 => bytes.truncate(at),
            _ => bytes.insert(at, EDGES[self.random.usize(..EDGES.len())]),
        }
    }

    /// A short range that begins at `at`.
    fn range(&mut self, at: usize, length: usize) -> std::ops::Range<usize> {
        at..at + self.random.usize(..=(length - at).min(RANGE_MAX))
    }

    /// Overwrites up to eight bytes by a number at which arithmetic turns, in either byte order.
    fn number(&mut self, bytes: &mut [u8], at: usize) {
        let width = 1usize << self.random.usize(..4);
        let power = 1u64 << self.random.u32(..64);
        let number = match self.random.u8(..6) {
            0 => power,
            1 => power.wrapping_sub(1),
            2 => power.wrapping_neg(),
            3 => u64::MAX,
            4 => 0,
            _ => bytes.len() as u64,
        };
        let mut written = number.to_le_bytes();
        let written = &mut written[..width];
        if self.random.bool() {
            written.reverse();
        }
        let end = bytes.len().min(at + width);
        bytes[at..end].copy_from_slice(&written[..end - at]);
    }

    /// Inserts a part of another file, or continues with the rest of one.
    fn splice(&mut self, bytes: &mut Vec<u8>, at: usize) {
        if self.corpus.is_empty() {
            return;
        }
        let other = &self.corpus[self.random.usize(..self.corpus.len())];
        let from = self.random.usize(..=other.len());
        if self.random.bool() {
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        } else {
            let range = self.range(from, other.len());
            bytes.splice(at..at, other[range].iter().copied()).for_each(drop);
        }
    }

    /// Inserts a token, or overwrites bytes by one.
    fn token(&mut self, bytes: &mut Vec<u8>, at: usize) {
        if self.tokens.is_empty() {
            return;
        }
        let token = self.tokens[self.random.usize(..self.tokens.len())].as_bytes();
        let end = if self.random.bool() { at } else { bytes.len().min(at + token.len()) };
        bytes.splice(at..end, token.iter().copied()).for_each(drop);
    }
}
