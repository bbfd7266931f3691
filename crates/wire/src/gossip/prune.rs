//! Asks a node to send no more of what some nodes have said: others bring it sooner.
//!
//! reads   the data of a prune message
//! writes  the same, and the bytes that are signed
//! memory  a view
//! drops   a time at or beyond the limit
//! source  `solana-gossip` 4.2.2, `protocol.rs`

use super::MAX_WALLCLOCK;
use super::read::{Reader, Result, write_u64};
use crate::consts::{Pubkey, Signature};

/// The most nodes that are named in one message that is sent.
pub const MAX_PRUNES: usize = 32;

/// What the signed bytes may begin with.
const DOMAIN: &[u8; 18] = b"\xffSOLANA_PRUNE_DATA";

/// Whose values are not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneData<'a> {
    /// Who asks.
    pub pubkey: Pubkey,
    /// Whose values.
    pub prunes: &'a [Pubkey],
    /// `pubkey`'s, over [`Self::signed`].
    pub signature: Signature,
    /// Who is asked.
    pub destination: Pubkey,
    /// When, ms; below [`MAX_WALLCLOCK`].
    pub wallclock: u64,
}

impl<'a> PruneData<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let pubkey = reader.array()?;
        let count = reader.count(32)?;
        Ok(Self {
            pubkey,
            prunes: reader.take(32 * count)?.as_chunks().0,
            signature: reader.array()?,
            destination: reader.array()?,
            wallclock: reader.below(MAX_WALLCLOCK)?,
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pubkey);
        write_u64(self.prunes.len() as u64, out);
        out.extend_from_slice(self.prunes.as_flattened());
        out.extend_from_slice(&self.signature);
        out.extend_from_slice(&self.destination);
        write_u64(self.wallclock, out);
    }

    /// Appends the bytes that are signed. Today's nodes sign them without a domain before them, and take both.
    pub fn signed(&self, with_domain: bool, out: &mut Vec<u8>) {
        if with_domain {
            write_u64(DOMAIN.len() as u64, out);
            out.extend_from_slice(DOMAIN);
        }
        out.extend_from_slice(&self.pubkey);
        write_u64(self.prunes.len() as u64, out);
        out.extend_from_slice(self.prunes.as_flattened());
        out.extend_from_slice(&self.destination);
        write_u64(self.wallclock, out);
    }
}
