//! Seeded mutations of valid inputs, near the relevant fields.

use hearth_testkit::random::Random;

/// Bytes at the boundaries of the formats: counts, version prefixes, compact-u16 steps.
const EDGES: [u8; 12] = [0, 1, 2, 3, 4, 0x7e, 0x7f, 0x80, 0x81, 0x82, 0xfe, 0xff];

/// Changes `bytes` in one to four places. `fields` are interesting offsets (counts, lengths, indices); `other` is a
/// second input from which to take a piece.
pub fn mutate(bytes: &mut Vec<u8>, fields: &[usize], other: &[u8], random: &mut Random) {
    for _ in 0..1 + random.index(4) {
        let at = match (random.index(2), fields.is_empty()) {
            (0, false) => fields[random.index(fields.len())] + random.index(2),
            _ => random.index(bytes.len() + 1),
        };
        let at = at.min(bytes.len());
        match random.index(13) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.index(8),
            1 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1),
            2 if at < bytes.len() => bytes[at] = bytes[at].wrapping_sub(1),
            3 if at < bytes.len() => bytes[at] = random.word() as u8,
            4 if at < bytes.len() => drop(bytes.remove(at)),
            5 => bytes.insert(at, EDGES[random.index(EDGES.len())]),
            6 => bytes.truncate(at),
            7 if !other.is_empty() => {
                let start = random.index(other.len());
                let end = start + random.index((other.len() - start).min(80) + 1);
                bytes.splice(at..at, other[start..end].iter().copied());
            }
            8 => {
                let end = at + random.index((bytes.len() - at).min(40) + 1);
                bytes.drain(at..end);
            }
            // The same value in a longer encoding: a length's last byte is continued by zero bits.
            9 if at < bytes.len() && bytes[at] < 0x80 => {
                bytes[at] |= 0x80;
                bytes.insert(at + 1, 0);
            }
            // A length and what it counts, emptied or grown by one.
            10 if at < bytes.len() => {
                let end = (at + 1 + usize::from(bytes[at])).min(bytes.len());
                bytes.drain(at + 1..end);
                bytes[at] = 0;
            }
            11 if at < bytes.len() => {
                bytes[at] = bytes[at].wrapping_add(1);
                bytes.insert(at + 1, random.word() as u8 % 8);
            }
            _ if at < bytes.len() => bytes[at] = EDGES[random.index(EDGES.len())],
            _ => bytes.push(EDGES[random.index(EDGES.len())]),
        }
    }
}

/// Prints the seed and the command that runs the test again, if the test panics.
pub struct SeedOnPanic {
    pub seed: u64,
    pub test: &'static str,
}

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("again: HEARTH_SEED={} cargo test --release -p hearth-wire {}", self.seed, self.test);
        }
    }
}
