//! Agave's tower file: moves an identity from Agave to this program and back, with its binding votes.
//!
//! reads   a file's bytes
//! writes  a file's bytes
//! memory  one tower
//! drops   a file that is not a tower of this node, signed by it: an error
//! source  [`hearth_wire::tower_file`]
//!
//! Agave's file lacks the hash of the root's bank, and an older vote lacks its block id: so does a tower read from it.
//! The cluster's nodes also send an id of zeros in such a vote.

use hearth_crypto::ed25519::verify_strict;
use hearth_wire::base58::encode_32;
use hearth_wire::tower_file::{SavedTower, SavedVote, TowerFile, TowerFileError};
use hearth_wire::{Pubkey, Signature};

use super::{BankId, LastVote, Lockouts, Tower};

/// Why a tower cannot be read from, or written as, Agave's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgaveError {
    /// The bytes are not such a file.
    #[error("no tower of Agave: {0}")]
    File(#[from] TowerFileError),
    /// The tower belongs to another node.
    #[error("this is the tower of {}, not of {}", encode_32(found), encode_32(node))]
    Node {
        /// The identity that the file names.
        found: Pubkey,
        /// The identity whose tower was expected.
        node: Pubkey,
    },
    /// The signature is invalid.
    #[error("its signature is not that of {}: the file was changed", encode_32(.0))]
    Signature(Pubkey),
    /// There is no vote to store.
    #[error("no vote of this tower binds, and Agave takes no file without a vote")]
    NoVote,
}

impl Tower {
    /// Reads the tower of `node` from Agave's file, in either of its versions. The signature must be the node's.
    ///
    /// # Errors
    ///
    /// The bytes are not such a file, it is another node's, or its signature is invalid.
    pub fn from_agave(bytes: &[u8], node: &Pubkey) -> Result<Self, AgaveError> {
        let TowerFile { signature, data, tower } = TowerFile::parse(bytes)?;
        if tower.node != *node {
            return Err(AgaveError::Node { found: tower.node, node: *node });
        }
        verify_strict(node, signature, data).map_err(|_| AgaveError::Signature(*node))?;
        let SavedTower { votes, root, last, timestamp, .. } = tower;
        let last = last.map(|SavedVote { slot, bank_hash, block_id }| LastVote {
            id: BankId { slot, hash: bank_hash },
            block_id: block_id.unwrap_or_default(),
        });
        let stamp = Some(timestamp).filter(|stamp| *stamp != (0, 0));
        Ok(Self { lockouts: Lockouts { votes, root }, root_hash: None, last, stamp })
    }

    /// The tower as Agave's file of `node`, signed by `sign` with the node's key.
    ///
    /// # Errors
    ///
    /// No vote binds, or the last does not: Agave exits when it reads such a file.
    pub fn to_agave(&self, node: &Pubkey, sign: impl FnOnce(&[u8]) -> Signature) -> Result<Vec<u8>, AgaveError> {
        let newest = self.lockouts.last().map(|vote| vote.slot);
        let last = self.last.filter(|last| newest == Some(last.id.slot)).ok_or(AgaveError::NoVote)?;
        let LastVote { id: BankId { slot, hash }, block_id } = last;
        let saved = SavedTower {
            node: *node,
            votes: self.lockouts.votes.clone(),
            // Agave's towers always have a root.
            root: self.lockouts.root.or(Some(0)).filter(|root| self.lockouts.votes[0].slot > *root),
            last: Some(SavedVote { slot, bank_hash: hash, block_id: Some(block_id) }),
            timestamp: self.stamp.unwrap_or_default(),
        };
        Ok(saved.write(sign))
    }
}

#[cfg(test)]
mod tests;
