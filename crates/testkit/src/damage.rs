//! Damage to files, from a seed: a flipped bit, a range of zeros, a cut.
//!
//! reads   a file's length
//! writes  the file, in place
//! memory  one range of zeros
//!
//! A test of a log makes a file with known content, damages a copy at each kind of place, opens it, and says what
//! became of the content: refused by name, rebuilt, or cut off and reported. Anything else is a silent loss.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::random::Random;

/// The longest range that is zeroed: two pages, so that it may span any header and the record behind it.
const ZEROS_MAX: u64 = 8192;

/// One change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// One bit has the other value.
    Flip {
        /// Offset of its byte.
        at: u64,
        /// Which bit of the byte, 0 to 7.
        bit: u8,
    },
    /// A range of bytes is zero.
    Zero {
        /// Offset of the first byte.
        at: u64,
        /// Count of bytes.
        length: u64,
    },
    /// The file ends here.
    Cut {
        /// Its new length, bytes.
        length: u64,
    },
}

impl Mutation {
    /// Returns a mutation of a file of `length` bytes, at least 1. Half of them are at its head or its end, where
    /// headers and torn tails are; the others anywhere.
    pub fn random(random: &mut Random, length: u64) -> Self {
        assert!(length > 0, "an empty file has no place to damage");
        let near = length.min(128);
        let at = match random.below(4) {
            0 => random.below(near),
            1 => length - 1 - random.below(near),
            _ => random.below(length),
        };
        match random.below(3) {
            0 => Self::Flip { at, bit: random.below(8) as u8 },
            1 => Self::Zero { at, length: 1 + random.below(ZEROS_MAX.min(length - at)) },
            _ => Self::Cut { length: at },
        }
    }

    /// Returns a mutation of each kind at each of `places`, which are offsets in a file of `length` bytes: at the
    /// place itself, and at the bytes before and behind it.
    pub fn around(places: &[u64], length: u64) -> Vec<Self> {
        let mut offsets: Vec<u64> =
            places.iter().flat_map(|at| [at.saturating_sub(1), *at, at + 1]).filter(|at| *at < length).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let each = |at: u64| {
            let zeros = 64.min(length - at);
            [Self::Flip { at, bit: (at % 8) as u8 }, Self::Zero { at, length: zeros }, Self::Cut { length: at }]
        };
        offsets.into_iter().flat_map(each).collect()
    }

    /// Changes the file. Returns whether its content differs afterwards: zeros may have been zeros before.
    ///
    /// # Errors
    /// The file system's.
    pub fn apply(&self, path: &Path) -> io::Result<bool> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        match *self {
            Self::Flip { at, bit } => {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at)?;
                file.write_all_at(&[byte[0] ^ (1 << bit)], at)?;
                Ok(true)
            }
            Self::Zero { at, length } => {
                let mut before = vec![0; length as usize];
                file.read_exact_at(&mut before, at)?;
                file.write_all_at(&vec![0; length as usize], at)?;
                Ok(before.iter().any(|byte| *byte != 0))
            }
            Self::Cut { length } => {
                let before = file.metadata()?.len();
                file.set_len(length)?;
                Ok(length != before)
            }
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flip { at, bit } => write!(f, "bit {bit} of byte {at} flipped"),
            Self::Zero { at, length } => write!(f, "{length} bytes from byte {at} on zeroed"),
            Self::Cut { length } => write!(f, "cut to {length} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutation_changes_what_it_says() {
        let path = std::env::temp_dir().join(format!("hearth-damage-{}", std::process::id()));
        let content: Vec<u8> = (0..=255).collect();
        let after = |mutation: Mutation| {
            std::fs::write(&path, &content).unwrap();
            (mutation.apply(&path).unwrap(), std::fs::read(&path).unwrap())
        };
        let (changed, bytes) = after(Mutation::Flip { at: 200, bit: 3 });
        assert!(changed && bytes[200] == 200 ^ 8 && bytes[..200] == content[..200] && bytes[201..] == content[201..]);
        let (changed, bytes) = after(Mutation::Zero { at: 9, length: 5 });
        assert!(changed && bytes[9..14] == [0; 5] && bytes[8] == 8 && bytes[14..] == content[14..]);
        assert_eq!(after(Mutation::Cut { length: 40 }), (true, content[..40].to_vec()));
        assert!(!after(Mutation::Zero { at: 0, length: 1 }).0, "it was zero");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn mutations_lie_within_the_file() {
        let mut random = Random(7);
        for length in [1, 2, 100, 5000] {
            for _ in 0..500 {
                match Mutation::random(&mut random, length) {
                    Mutation::Flip { at, bit } => assert!(at < length && bit < 8),
                    Mutation::Zero { at, length: zeros } => assert!(zeros > 0 && at + zeros <= length),
                    Mutation::Cut { length: left } => assert!(left < length),
                }
            }
        }
        assert_eq!(Mutation::around(&[0, 64], 65).len(), 3 * 4, "bytes 0, 1, 63 and 64");
    }
}
