//! The hash of the whole set: a sum with one long hash per element.
//!
//! Why a sum and not a tree: a block changes a handful of elements in a set of millions. A sum costs one hash per
//! changed element, in any order and on any core, stores only itself (2 KiB), and is undone by subtraction. A tree
//! costs a path of hashes per element, and its inner nodes must be stored. In return a tree gives short proofs that an
//! output exists, which no part of a node needs: a client that asks about an output asks a node, and can recompute the
//! sum if it does not trust that node.
//!
//! memory  2 KiB
//! source  Lewi, Kim, Maykov, Weis, "Securing Update Propagation with Homomorphic Hashing" (LtHash, 1,024 lanes of 16
//!         bits: about 200 bits of security against finding two sets with one sum); the long hash is BLAKE3's

/// Lanes of 16 bits.
const LANES: usize = 1024;

/// A sum of elements' hashes, each lane modulo 2^16.
#[derive(Clone, PartialEq, Eq)]
pub struct Lattice(Box<[u16; LANES]>);

impl Default for Lattice {
    /// The sum of nothing.
    fn default() -> Self {
        Self(Box::new([0; LANES]))
    }
}

impl std::fmt::Debug for Lattice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lattice({:02x?})", &self.checksum()[..4])
    }
}

impl Lattice {
    /// Puts an element in.
    pub fn add(&mut self, element: &[u8]) {
        self.change(element, u16::wrapping_add);
    }

    /// Takes an element out that is in.
    pub fn subtract(&mut self, element: &[u8]) {
        self.change(element, u16::wrapping_sub);
    }

    #[inline]
    fn change(&mut self, element: &[u8], change: impl Fn(u16, u16) -> u16) {
        let mut bytes = [0; 2 * LANES];
        let mut hasher = blake3::Hasher::new();
        hasher.update(element).finalize_xof().fill(&mut bytes);
        let values = bytes.as_chunks::<2>().0;
        self.0.iter_mut().zip(values).for_each(|(lane, value)| *lane = change(*lane, u16::from_le_bytes(*value)));
    }

    /// 32 bytes that stand for the sum.
    pub fn checksum(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for lanes in self.0.chunks(32) {
            let mut bytes = [0; 64];
            bytes.as_chunks_mut::<2>().0.iter_mut().zip(lanes).for_each(|(to, lane)| *to = lane.to_le_bytes());
            hasher.update(&bytes);
        }
        *hasher.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_and_what_is_taken_out_is_gone() {
        let (mut one, mut other) = (Lattice::default(), Lattice::default());
        for element in [b"a", b"b", b"c"] {
            one.add(element);
        }
        for element in [b"c", b"a", b"d", b"b"] {
            other.add(element);
        }
        assert_ne!(one.checksum(), other.checksum());
        other.subtract(b"d");
        assert_eq!(one, other);
        assert_ne!(one, Lattice::default());
        one.add(b"a");
        assert_ne!(one, other, "twice the same is not once");
    }

    #[test]
    fn one_element_is_its_hash() {
        let mut lattice = Lattice::default();
        lattice.add(b"hearth");
        let mut bytes = [0; 2048];
        blake3::Hasher::new().update(b"hearth").finalize_xof().fill(&mut bytes);
        assert_eq!(lattice.checksum(), *blake3::hash(&bytes).as_bytes());
    }
}
