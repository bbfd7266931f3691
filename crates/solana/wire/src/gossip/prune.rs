//! Prune messages: ask a node not to send values of some origins, which others deliver sooner.
//!
//! reads   the data of a prune message
//! writes  the same, and the bytes that are signed
//! memory  a view
//! drops   a time at or beyond the limit
//! source  `solana-gossip` 4.2.2, `protocol.rs`

use super::MAX_WALLCLOCK;
use super::read::{GossipErrorKind, Reader, Result, write_u64};
use crate::consts::{Pubkey, Signature};

/// Maximum origins in a sent message.
pub const MAX_PRUNES: usize = 32;

/// Optional domain prefix of the signed bytes.
const DOMAIN: &[u8; 18] = b"\xffSOLANA_PRUNE_DATA";

/// The content of a prune message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneData<'a> {
    /// The identity of the node that no longer wants the origins' values, which signs.
    pub pubkey: Pubkey,
    /// The origins to prune.
    pub prunes: &'a [Pubkey],
    /// The sender's signature over [`Self::signed`].
    pub signature: Signature,
    /// The identity of the node that is asked not to send them.
    pub destination: Pubkey,
    /// Time in ms; below [`MAX_WALLCLOCK`].
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

    /// Parses exactly the signed bytes without a domain prefix, with at most [`MAX_PRUNES`] origins. The signature is
    /// left zero.
    ///
    /// # Errors
    ///
    /// The first violated rule.
    pub fn parse_signed(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let (pubkey, at) = (reader.array()?, reader.at());
        let count = reader.count(32)?;
        Reader::check(count <= MAX_PRUNES, GossipErrorKind::Range, at)?;
        let prunes = reader.take(32 * count)?.as_chunks().0;
        let (destination, wallclock) = (reader.array()?, reader.below(MAX_WALLCLOCK)?);
        reader.end()?;
        Ok(Self { pubkey, prunes, signature: [0; 64], destination, wallclock })
    }

    /// Appends the signed bytes. Today's nodes sign them without a domain prefix, and accept both forms.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_bytes_are_read_as_they_are_written() {
        for count in [0, 1, MAX_PRUNES, MAX_PRUNES + 1] {
            let prunes = vec![[3; 32]; count];
            let data =
                PruneData { pubkey: [1; 32], prunes: &prunes, signature: [0; 64], destination: [2; 32], wallclock: 7 };
            let mut bytes = Vec::new();
            data.signed(false, &mut bytes);
            let is_short = count <= MAX_PRUNES;
            assert_eq!(PruneData::parse_signed(&bytes).ok(), is_short.then_some(data));
            bytes.push(0);
            assert!(PruneData::parse_signed(&bytes).is_err());
            assert!((0..bytes.len() - 1).all(|end| PruneData::parse_signed(&bytes[..end]).is_err()));
        }
        let late = PruneData {
            wallclock: MAX_WALLCLOCK,
            prunes: &[],
            pubkey: [1; 32],
            signature: [0; 64],
            destination: [2; 32],
        };
        let mut bytes = Vec::new();
        late.signed(false, &mut bytes);
        assert!(PruneData::parse_signed(&bytes).is_err());
    }
}
