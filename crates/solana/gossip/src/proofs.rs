//! Duplicate proofs: split into pieces for sending, and reassembled on arrival.
//!
//! reads   two shreds; pieces
//! writes  pieces; two shreds
//! memory  [`BUFFERS_MAX`] incomplete proofs of at most 3 × 1,188 B, and the slots that the caller marked
//! drops   pieces of slots out of range or marked, too many pieces, too many proofs of a node: the caller counts them
//! source  `solana-gossip` 4.2.2, `duplicate_shred.rs`, `duplicate_shred_handler.rs`
//!
//! The caller, which knows the slot's leader, must check whether the shreds prove anything: until it marks a slot, each
//! node may supply one proof of it.

use std::collections::{BTreeMap, BTreeSet};

use hearth_wire::Pubkey;
use hearth_wire::gossip::DuplicateShred;

use super::stakes::Stakes;

/// Bytes of a piece.
pub const CHUNK_SIZE: usize = hearth_wire::PACKET_DATA_SIZE - 115 - 63;
/// Maximum pieces of an accepted proof.
pub const MAX_CHUNKS: u8 = 3;
/// Maximum proofs in reassembly.
pub const BUFFERS_MAX: usize = 1_024;
/// Maximum proofs in reassembly per node.
pub const BUFFERS_PER_NODE_MAX: usize = 16;

const _: () = assert!(CHUNK_SIZE == 1_054);

/// Two shreds that are claimed to contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateProof {
    /// The slot for which the leader is said to have made two blocks.
    pub slot: u64,
    /// The node that claims it.
    pub from: Pubkey,
    /// Both shreds as they came; they may be malformed.
    pub shreds: [Vec<u8>; 2],
}

/// Serializes a proof: each shred after its length as a little-endian `u64`.
pub(super) fn encode(shreds: [&[u8]; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for shred in shreds {
        bytes.extend_from_slice(&(shred.len() as u64).to_le_bytes());
        bytes.extend_from_slice(shred);
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Option<[Vec<u8>; 2]> {
    let mut take = || {
        let (len, rest) = bytes.split_first_chunk()?;
        let (shred, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        bytes = rest;
        Some(shred.to_vec())
    };
    let shreds = [take()?, take()?];
    bytes.is_empty().then_some(shreds)
}

struct Buffer {
    chunk_count: u8,
    chunks: [Option<Box<[u8]>>; MAX_CHUNKS as usize],
    /// Whether it was completed once; then nothing more is buffered.
    is_done: bool,
    since: u64,
}

/// The proofs that arrive in chunks, by slot and claiming node.
#[derive(Default)]
pub(super) struct Proofs {
    root: u64,
    end: u64,
    marked: BTreeSet<u64>,
    buffers: BTreeMap<(u64, Pubkey), Buffer>,
    next: u64,
}

/// The piece is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PieceRefused;

impl Proofs {
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Accepts pieces for the `slots` slots after `root` from now on, and drops older ones.
    pub fn set_root(&mut self, root: u64, slots: u64) {
        (self.root, self.end) = (root, root.saturating_add(slots));
        self.marked = self.marked.split_off(&(root + 1));
        self.buffers = self.buffers.split_off(&(root + 1, [0; 32]));
    }

    /// Refuses further pieces of a slot.
    pub fn mark(&mut self, slot: u64) {
        if slot > self.root && slot < self.end {
            self.marked.insert(slot);
            self.buffers.retain(|(other, _), _| *other != slot);
        }
    }

    /// Adds a piece. Returns the proof if that completed it.
    pub fn add(&mut self, piece: &DuplicateShred<'_>, stakes: &Stakes) -> Result<Option<DuplicateProof>, PieceRefused> {
        let (slot, from) = (piece.slot, piece.from);
        let is_in_range = slot > self.root && slot < self.end && !self.marked.contains(&slot);
        if !is_in_range || piece.chunk_count > MAX_CHUNKS {
            return Err(PieceRefused);
        }
        if !self.buffers.contains_key(&(slot, from)) {
            self.make_room(&from, stakes)?;
            self.next += 1;
            let new =
                Buffer { chunk_count: piece.chunk_count, chunks: [None, None, None], is_done: false, since: self.next };
            self.buffers.insert((slot, from), new);
        }
        let buffer = self.buffers.get_mut(&(slot, from)).expect("it was made above");
        if buffer.is_done || buffer.chunk_count != piece.chunk_count {
            return Err(PieceRefused);
        }
        buffer.chunks[usize::from(piece.chunk_index)].get_or_insert_with(|| piece.chunk.into());
        let chunks = &buffer.chunks[..usize::from(buffer.chunk_count)];
        if chunks.iter().any(Option::is_none) {
            return Ok(None);
        }
        let bytes: Vec<u8> = chunks.iter().flatten().flat_map(|chunk| chunk.iter().copied()).collect();
        buffer.is_done = true;
        buffer.chunks = [None, None, None];
        decode(&bytes).map(|shreds| Some(DuplicateProof { slot, from, shreds })).ok_or(PieceRefused)
    }

    /// Makes room for another proof of a node: a full buffer evicts that of the node with the least stake, if that is
    /// less.
    fn make_room(&mut self, from: &Pubkey, stakes: &Stakes) -> Result<(), PieceRefused> {
        if self.buffers.keys().filter(|(_, other)| other == from).count() >= BUFFERS_PER_NODE_MAX {
            return Err(PieceRefused);
        }
        if self.buffers.len() < BUFFERS_MAX {
            return Ok(());
        }
        let least = self.buffers.iter().min_by_key(|((_, other), buffer)| (stakes.of(other), buffer.since));
        let (key, _) = least.expect("it is full");
        let key = *key;
        if stakes.of(&key.1) >= stakes.of(from) {
            return Err(PieceRefused);
        }
        self.buffers.remove(&key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(slot: u64, from: u8, bytes: &[u8]) -> Vec<DuplicateShred<'_>> {
        let chunks = bytes.chunks(CHUNK_SIZE);
        let chunk_count = chunks.len() as u8;
        let piece = |(index, chunk)| DuplicateShred {
            index: 0,
            from: [from; 32],
            wallclock: 0,
            slot,
            unused: 0,
            shred_type: 0,
            chunk_count,
            chunk_index: index as u8,
            chunk,
        };
        chunks.enumerate().map(piece).collect()
    }

    #[test]
    fn proof_is_assembled_once_in_any_order() {
        let stakes = Stakes::default();
        let bytes = encode([&[1; 1_203], &[2; 1_228]]);
        let pieces = pieces(7, 1, &bytes);
        assert_eq!(pieces.len(), 3);
        let mut proofs = Proofs::default();
        assert_eq!(proofs.add(&pieces[0], &stakes), Err(PieceRefused), "no root is known yet");
        proofs.set_root(5, 10);
        assert_eq!(proofs.add(&pieces[2], &stakes), Ok(None));
        assert_eq!(proofs.add(&pieces[0], &stakes), Ok(None));
        assert_eq!(proofs.add(&pieces[0], &stakes), Ok(None), "the same again");
        let proof = DuplicateProof { slot: 7, from: [1; 32], shreds: [vec![1; 1_203], vec![2; 1_228]] };
        assert_eq!(proofs.add(&pieces[1], &stakes), Ok(Some(proof)));
        assert_eq!(proofs.add(&pieces[1], &stakes), Err(PieceRefused));
        proofs.mark(7);
        assert_eq!(
            proofs.add(&DuplicateShred { from: [2; 32], ..pieces[1] }, &stakes),
            Err(PieceRefused),
            "of a marked slot"
        );
        for slot in [5, 15] {
            assert_eq!(proofs.add(&DuplicateShred { slot, ..pieces[1] }, &stakes), Err(PieceRefused), "slot {slot}");
        }
        assert_eq!(proofs.add(&DuplicateShred { slot: 8, chunk_count: 4, ..pieces[1] }, &stakes), Err(PieceRefused));
        assert_eq!(proofs.add(&DuplicateShred { slot: 8, ..pieces[1] }, &stakes), Ok(None));
        proofs.set_root(8, 10);
        assert_eq!((proofs.len(), proofs.marked.len()), (0, 0));
    }

    #[test]
    fn unstaked_nodes_fill_no_proof_buffer() {
        let mut stakes = std::collections::HashMap::new();
        stakes.insert([250; 32], 9);
        let stakes = Stakes::new(stakes, 0);
        let bytes = encode([&[1; 1_203], &[2; 1_203]]);
        let mut proofs = Proofs::default();
        proofs.set_root(0, 10_000);
        let mut taken = 0;
        for from in 0..200 {
            for slot in 1..50 {
                taken += usize::from(proofs.add(&pieces(slot, from, &bytes)[0], &stakes).is_ok());
            }
        }
        assert_eq!((taken, proofs.len()), (BUFFERS_MAX, BUFFERS_MAX));
        assert!(pieces(9, 250, &bytes).iter().filter_map(|piece| proofs.add(piece, &stakes).unwrap()).count() == 1);
        assert_eq!(proofs.len(), BUFFERS_MAX);
        assert_eq!(decode(&[1, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(decode(&[0xff; 40]), None);
    }
}
