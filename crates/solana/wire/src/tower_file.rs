//! Agave's tower file of a node: `tower-1_9-IDENTITY.bin`.
//!
//! reads   a file's bytes
//! writes  a file's bytes, in the newer of the two versions
//! memory  31 votes, whatever the file says
//! drops   bytes that are not such a file: an error with a kind and an offset. The caller must verify the signature
//! source  `solana-core` 4.2.2, `consensus/tower_storage.rs`, `tower1_7_14.rs`, `tower1_14_11.rs`;
//!         `vote_state_1_14_11.rs` and `state/mod.rs` of `solana-vote-interface` 6.0
//!
//! ```text
//! file        version u32: 0 old, 1 current | signature 64, over the data | length u64 | data
//! data        node 32 | threshold depth u64 | threshold f64 | vote state | last vote | timestamp
//! vote state  node 32 | withdrawer 32 | commission u8 | votes | root | count u64, (epoch u64, voter 32) each
//!             | 32 × (voter 32, epoch u64, epoch u64) | index u64 | is empty u8
//!             | count u64, (epoch u64, credits u64, credits u64) each | timestamp
//! last vote   old      count u64, slot u64 each | hash | time
//!             current  tag u32 | 0 as in old
//!                              | 1 votes | root | hash | time
//!                              | 2 differences | hash | time
//!                              | 3 differences | hash | time | block id 32
//! votes       count u64, (slot u64, confirmation count u32) each
//! differences root u64, its greatest value is none | count compact-u16, (slot varint, confirmation count u8) each
//! root        u8: 0 none, 1 slot u64          hash  32, of the bank voted for
//! time        u8: 0 none, 1 Unix seconds i64  timestamp  slot u64, Unix seconds i64
//! ```
//! Numbers are little-endian. A tower uses only votes and root of the vote state; the rest is skipped.

use crate::compact::{self, CompactError};
use crate::vote::{Lockout, MAX_LOCKOUTS, TowerSync, read_variable};
use crate::{Hash, Pubkey, Signature};

/// Maximum size of a file in bytes.
pub const FILE_MAX: usize = 8_192;

const OLD: u32 = 0;
const CURRENT: u32 = 1;
/// Offset of the data.
const DATA_AT: usize = 4 + 64 + 8;
/// Maximum epochs of a vote account's voters, and of its credits.
const EPOCHS_MAX: usize = 64;
const VOTER_SIZE: usize = 8 + 32;
const CREDITS_SIZE: usize = 3 * 8;
const PRIOR_VOTERS: usize = 32;
const PRIOR_VOTERS_SIZE: usize = PRIOR_VOTERS * (32 + 8 + 8) + 8 + 1;
const TIMESTAMP_SIZE: usize = 8 + 8;
/// Agave's constants of the vote threshold, which it reads from the file.
const THRESHOLD_DEPTH: u64 = 8;
const THRESHOLD: f64 = 2.0 / 3.0;

/// Tags of the forms of a last vote.
const VOTE: u32 = 0;
const UPDATE: u32 = 1;
const COMPACT_UPDATE: u32 = 2;
const SYNC: u32 = 3;

/// The kind of error in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TowerFileErrorKind {
    /// The version is neither of the two.
    #[error("a version that is not known")]
    Version,
    /// The file is truncated.
    #[error("the bytes end within it")]
    Truncated,
    /// There are bytes after the end.
    #[error("bytes behind its end")]
    Trailing,
    /// A count exceeds its maximum.
    #[error("a count that is too large")]
    Count,
    /// A value is invalid.
    #[error("a value that it cannot have")]
    Value,
    /// Invalid votes: slots must ascend from the root, and confirmation counts descend, from at most 31 to at least 1.
    #[error("votes that no tower has")]
    Votes,
    /// The last vote is missing, or older than the newest binding one.
    #[error("a last vote that is not the newest")]
    LastVote,
}

/// The error in a file, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct TowerFileError {
    /// The kind of error.
    pub kind: TowerFileErrorKind,
    /// Offset from the start of the file.
    pub offset: usize,
}

use TowerFileErrorKind as Kind;

fn error(kind: Kind, offset: usize) -> TowerFileError {
    TowerFileError { kind, offset }
}

/// The last block that a tower voted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedVote {
    /// The slot of the block.
    pub slot: u64,
    /// The hash of its bank.
    pub bank_hash: Hash,
    /// The Merkle root of its last FEC set; older forms of votes lack it.
    pub block_id: Option<Hash>,
}

/// The contents of a tower file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedTower {
    /// The identity of the node that votes, which signs the file.
    pub node: Pubkey,
    /// The binding votes, the oldest first: slots ascend from the root, confirmation counts descend.
    pub votes: Vec<Lockout>,
    /// The newest slot that they have made final.
    pub root: Option<u64>,
    /// The last vote; always present if there are binding votes.
    pub last: Option<SavedVote>,
    /// The last vote with a timestamp: its slot, and Unix seconds; zeros if there is none.
    pub timestamp: (u64, i64),
}

/// A parsed tower file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TowerFile<'a> {
    /// The node's signature over [`Self::data`].
    pub signature: &'a Signature,
    /// The bytes after the signature, which it covers.
    pub data: &'a [u8],
    /// The tower, parsed from [`Self::data`].
    pub tower: SavedTower,
}

impl<'a> TowerFile<'a> {
    /// Parses a file. The signature is not verified.
    ///
    /// # Errors
    ///
    /// The bytes are not exactly a file of one of the two versions, or the tower is invalid.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, TowerFileError> {
        let mut cursor = Cursor { bytes, at: 0 };
        let version = cursor.u32()?;
        if version != OLD && version != CURRENT {
            return Err(error(Kind::Version, 0));
        }
        let signature: &Signature = cursor.take()?;
        let length = cursor.u64()?;
        let data = &bytes[DATA_AT..];
        if length > data.len() as u64 {
            return Err(error(Kind::Truncated, bytes.len()));
        }
        if length < data.len() as u64 {
            return Err(error(Kind::Trailing, DATA_AT + length as usize));
        }
        let tower = cursor.tower(version == OLD)?;
        if cursor.at < bytes.len() {
            return Err(error(Kind::Trailing, cursor.at));
        }
        Ok(Self { signature, data, tower })
    }
}

impl SavedTower {
    /// Serializes the tower in the current version. `sign` signs bytes with the node's key.
    ///
    /// # Panics
    ///
    /// The votes' slots do not ascend from the root.
    pub fn write(&self, sign: impl FnOnce(&[u8]) -> Signature) -> Vec<u8> {
        let mut data = Vec::with_capacity(FILE_MAX);
        data.extend(self.node);
        data.extend(THRESHOLD_DEPTH.to_le_bytes());
        data.extend(THRESHOLD.to_le_bytes());
        self.write_vote_state(&mut data);
        data.extend(SYNC.to_le_bytes());
        let last = self.last.unwrap_or(SavedVote { slot: 0, bank_hash: [0; 32], block_id: None });
        let (slot, unix_s) = self.timestamp;
        let timestamp = (self.last.is_some() && slot == last.slot && unix_s != 0).then_some(unix_s);
        // Agave accepts a tower without votes only if it is empty.
        let root = self.root.filter(|_| self.last.is_some());
        let sync = TowerSync { votes: &self.votes, root, timestamp, is_switch: false };
        sync.write(&last.bank_hash, &last.block_id.unwrap_or_default(), &mut data);
        data.extend(slot.to_le_bytes());
        data.extend(unix_s.to_le_bytes());
        let signature = sign(&data);
        [&CURRENT.to_le_bytes()[..], &signature, &(data.len() as u64).to_le_bytes(), &data].concat()
    }

    /// As Agave writes it for a tower: everything but votes and root is that of an unused account.
    fn write_vote_state(&self, out: &mut Vec<u8>) {
        out.extend([0; 32 + 32 + 1]);
        out.extend((self.votes.len() as u64).to_le_bytes());
        for vote in &self.votes {
            out.extend(vote.slot.to_le_bytes());
            out.extend(vote.confirmation_count.to_le_bytes());
        }
        out.push(self.root.is_some().into());
        out.extend(self.root.into_iter().flat_map(u64::to_le_bytes));
        out.extend(0u64.to_le_bytes());
        out.extend([0; PRIOR_VOTERS * 48]);
        out.extend((PRIOR_VOTERS as u64 - 1).to_le_bytes());
        out.push(true.into());
        out.extend(0u64.to_le_bytes());
        out.extend([0; TIMESTAMP_SIZE]);
    }
}

/// A position in a file.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], TowerFileError> {
        let found = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk());
        let found = found.ok_or(error(Kind::Truncated, self.bytes.len()))?;
        self.at += N;
        Ok(found)
    }

    fn skip(&mut self, count: usize) -> Result<(), TowerFileError> {
        if self.bytes.len() - self.at < count {
            return Err(error(Kind::Truncated, self.bytes.len()));
        }
        self.at += count;
        Ok(())
    }

    fn u8(&mut self) -> Result<u8, TowerFileError> {
        self.take::<1>().map(|byte| byte[0])
    }

    fn u32(&mut self) -> Result<u32, TowerFileError> {
        self.take().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Result<u64, TowerFileError> {
        self.take().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The number of items that follow, at most `max`.
    fn count(&mut self, max: usize) -> Result<usize, TowerFileError> {
        let at = self.at;
        let count = self.u64()?;
        if count > max as u64 { Err(error(Kind::Count, at)) } else { Ok(count as usize) }
    }

    fn option(&mut self) -> Result<Option<u64>, TowerFileError> {
        let at = self.at;
        match self.u8()? {
            0 => Ok(None),
            1 => self.u64().map(Some),
            _ => Err(error(Kind::Value, at)),
        }
    }

    fn tower(&mut self, is_old: bool) -> Result<SavedTower, TowerFileError> {
        let node = *self.take()?;
        self.skip(8 + 8)?;
        self.skip(32 + 32 + 1)?;
        let votes = self.votes()?;
        let root_at = self.at;
        let root = self.option()?;
        if votes.first().zip(root).is_some_and(|(oldest, root)| oldest.slot <= root) {
            return Err(error(Kind::Votes, root_at));
        }
        let voters = self.count(EPOCHS_MAX)?;
        self.skip(voters * VOTER_SIZE + PRIOR_VOTERS_SIZE)?;
        let epochs = self.count(EPOCHS_MAX)?;
        self.skip(epochs * CREDITS_SIZE + TIMESTAMP_SIZE)?;
        let last_at = self.at;
        let last = self.last_vote(is_old)?;
        // `None` is less than any slot.
        if last.map(|last| last.slot) < votes.last().map(|newest| newest.slot) {
            return Err(error(Kind::LastVote, last_at));
        }
        let timestamp = (self.u64()?, i64::from_le_bytes(*self.take()?));
        Ok(SavedTower { node, votes, root, last, timestamp })
    }

    /// Votes as a tower has them.
    fn votes(&mut self) -> Result<Vec<Lockout>, TowerFileError> {
        let count = self.count(MAX_LOCKOUTS)?;
        let mut votes: Vec<Lockout> = Vec::with_capacity(count);
        for _ in 0..count {
            let at = self.at;
            let vote = Lockout { slot: self.u64()?, confirmation_count: self.u32()? };
            let is_counted = (1..=MAX_LOCKOUTS as u32).contains(&vote.confirmation_count);
            let follows =
                |before: &Lockout| before.slot < vote.slot && before.confirmation_count > vote.confirmation_count;
            if !is_counted || !votes.last().is_none_or(follows) {
                return Err(error(Kind::Votes, at));
            }
            votes.push(vote);
        }
        Ok(votes)
    }

    fn last_vote(&mut self, is_old: bool) -> Result<Option<SavedVote>, TowerFileError> {
        let at = self.at;
        let kind = if is_old { VOTE } else { self.u32()? };
        let slot = match kind {
            VOTE => self.slots()?,
            UPDATE => {
                let votes = self.votes()?;
                self.option()?;
                votes.last().map(|newest| newest.slot)
            }
            COMPACT_UPDATE | SYNC => self.differences()?,
            _ => return Err(error(Kind::Value, at)),
        };
        let bank_hash = *self.take()?;
        self.option()?;
        let block_id = if kind == SYNC { Some(*self.take()?) } else { None };
        Ok(slot.map(|slot| SavedVote { slot, bank_hash, block_id }))
    }

    /// The last of a list of slots.
    fn slots(&mut self) -> Result<Option<u64>, TowerFileError> {
        let mut last = None;
        for _ in 0..self.count(MAX_LOCKOUTS)? {
            last = Some(self.u64()?);
        }
        Ok(last)
    }

    /// The last slot of a list of differences.
    fn differences(&mut self) -> Result<Option<u64>, TowerFileError> {
        let root = self.u64()?;
        let at = self.at;
        let (count, behind) = compact::read(self.bytes, at).map_err(|why| match why {
            CompactError::Truncated => error(Kind::Truncated, self.bytes.len()),
            CompactError::Invalid => error(Kind::Value, at),
        })?;
        if usize::from(count) > MAX_LOCKOUTS {
            return Err(error(Kind::Count, at));
        }
        self.at = behind;
        let mut slot = if root == u64::MAX { 0 } else { root };
        for _ in 0..count {
            let at = self.at;
            let rest = &self.bytes[at..];
            let is_cut = rest.iter().take(10).all(|byte| byte & 0x80 != 0) && rest.len() < 10;
            let (difference, behind) = read_variable(rest).ok_or(match is_cut {
                true => error(Kind::Truncated, self.bytes.len()),
                false => error(Kind::Value, at),
            })?;
            self.at = self.bytes.len() - behind.len();
            slot = slot.checked_add(difference).ok_or(error(Kind::Value, at))?;
            self.u8()?;
        }
        Ok((count > 0).then_some(slot))
    }
}

#[cfg(test)]
mod tests;
