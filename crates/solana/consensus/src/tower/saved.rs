//! The tower's file format: saved before a vote is sent, and restored after a restart.
//!
//! reads   a file's bytes
//! writes  a file's bytes
//! memory  one tower, at most 481 B
//! drops   bytes that are not a whole tower of this node: an error with a kind and an offset
//! source  our own format, so that it contains the root's hash
//!
//! ```text
//! magic              8 B, the last is the version
//! node              32 B, whose tower it is
//! flags              1 B: 1 root, 2 root's hash, 4 last vote, 8 timestamp
//! root              slot u64, bank hash 32 B            ┐
//! last vote         slot u64, bank hash 32 B, block id 32 B │ zeros where the flag is not set
//! timestamp         slot u64, Unix seconds i64          ┘
//! count              1 B, at most 31
//! votes              9 B each: slot u64, confirmation count u8; slots ascend, confirmation counts descend
//! SHA-256           32 B, of all before
//! ```
//! Numbers are little-endian.

use hearth_crypto::sha256::sha256;
use hearth_wire::Pubkey;
use hearth_wire::vote::{Lockout, MAX_LOCKOUTS};

use super::{BankId, LastVote, Lockouts, Tower};

const MAGIC: [u8; 8] = *b"hrtower\x01";
const HEAD_BYTES: usize = 8 + 32 + 1 + 40 + 72 + 16 + 1;
const VOTE_BYTES: usize = 9;
const SUM_BYTES: usize = 32;
const _: () = assert!(HEAD_BYTES + MAX_LOCKOUTS * VOTE_BYTES + SUM_BYTES <= 481);

/// The fault in a tower's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedErrorKind {
    /// Not a tower file of this version.
    #[error("not a tower of this version")]
    Magic,
    /// The tower of another node.
    #[error("another node's tower")]
    Node,
    /// Wrong length for the number of votes.
    #[error("a length that does not fit its votes")]
    Length,
    /// The checksum does not match.
    #[error("a checksum of other bytes")]
    Checksum,
    /// Invalid flags or votes.
    #[error("flags or votes that no tower has")]
    Content,
}

/// The damage of a tower file, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct SavedError {
    /// The kind of damage.
    pub kind: SavedErrorKind,
    /// Byte offset of the damage.
    pub offset: usize,
}

impl Tower {
    /// Serializes the tower for the file of `node`.
    pub fn save(&self, node: &Pubkey) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.lockouts.votes.len() * VOTE_BYTES + SUM_BYTES);
        let present =
            [self.lockouts.root.is_some(), self.root_hash.is_some(), self.last.is_some(), self.stamp.is_some()];
        let flags = present.into_iter().enumerate().map(|(bit, is)| u8::from(is) << bit).sum::<u8>();
        out.extend(MAGIC);
        out.extend(node);
        out.push(flags);
        out.extend(self.lockouts.root.unwrap_or(0).to_le_bytes());
        out.extend(self.root_hash.unwrap_or_default());
        let none = LastVote { id: BankId { slot: 0, hash: [0; 32] }, block_id: [0; 32] };
        let last = self.last.unwrap_or(none);
        out.extend(last.id.slot.to_le_bytes());
        out.extend(last.id.hash);
        out.extend(last.block_id);
        let (slot, seconds) = self.stamp.unwrap_or((0, 0));
        out.extend(slot.to_le_bytes());
        out.extend(seconds.to_le_bytes());
        out.push(self.lockouts.votes.len() as u8);
        for vote in &self.lockouts.votes {
            out.extend(vote.slot.to_le_bytes());
            out.push(vote.confirmation_count as u8);
        }
        let sum = sha256(&[&out]);
        out.extend(sum);
        out
    }

    /// The identity that these bytes name, if they are a tower; the rest of them is not checked.
    pub fn node_of(bytes: &[u8]) -> Option<Pubkey> {
        bytes.strip_prefix(&MAGIC)?.first_chunk().copied()
    }

    /// Parses the tower of `node`.
    ///
    /// # Errors
    ///
    /// The bytes are not a whole tower of this node in the format of [`Self::save`].
    pub fn restore(bytes: &[u8], node: &Pubkey) -> Result<Self, SavedError> {
        let error = |kind, offset| SavedError { kind, offset };
        if !bytes.starts_with(&MAGIC) {
            return Err(error(SavedErrorKind::Magic, 0));
        }
        if bytes.len() < HEAD_BYTES {
            return Err(error(SavedErrorKind::Length, bytes.len()));
        }
        let count = usize::from(bytes[HEAD_BYTES - 1]);
        let end = HEAD_BYTES + count * VOTE_BYTES;
        if count > MAX_LOCKOUTS || bytes.len() != end + SUM_BYTES {
            return Err(error(SavedErrorKind::Length, HEAD_BYTES - 1));
        }
        if sha256(&[&bytes[..end]]) != bytes[end..] {
            return Err(error(SavedErrorKind::Checksum, end));
        }
        if bytes[8..40] != node[..] {
            return Err(error(SavedErrorKind::Node, 8));
        }
        let tower = read(&bytes[40..end]);
        let flags = bytes[40];
        if flags > 15 || flags & 3 == 2 {
            return Err(error(SavedErrorKind::Content, 40));
        }
        if !tower.is_possible() {
            return Err(error(SavedErrorKind::Content, HEAD_BYTES));
        }
        Ok(tower)
    }

    fn is_possible(&self) -> bool {
        let Lockouts { votes, root } = &self.lockouts;
        let ordered = votes
            .windows(2)
            .all(|pair| pair[0].slot < pair[1].slot && pair[0].confirmation_count > pair[1].confirmation_count);
        let counted = votes.iter().all(|vote| (1..=MAX_LOCKOUTS as u32).contains(&vote.confirmation_count));
        let above = votes.last().is_none_or(|newest| self.last.is_some_and(|last| last.id.slot >= newest.slot));
        ordered && counted && above && root.is_none_or(|_| self.last.is_some() || votes.is_empty())
    }
}

/// Parses from the flags on; the length was checked.
fn read(bytes: &[u8]) -> Tower {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let hash = |at: usize| bytes[at..at + 32].try_into().expect("32 bytes");
    let has = |bit: u8| bytes[0] >> bit & 1 == 1;
    let last = LastVote { id: BankId { slot: number(41), hash: hash(49) }, block_id: hash(81) };
    let votes = bytes[HEAD_BYTES - 40..].chunks_exact(VOTE_BYTES).map(|vote| Lockout {
        slot: u64::from_le_bytes(vote[..8].try_into().expect("8 bytes")),
        confirmation_count: vote[8].into(),
    });
    Tower {
        lockouts: Lockouts { votes: votes.collect(), root: has(0).then(|| number(1)) },
        root_hash: has(1).then(|| hash(9)),
        last: has(2).then_some(last),
        stamp: has(3).then(|| (number(113), number(121) as i64)),
    }
}
