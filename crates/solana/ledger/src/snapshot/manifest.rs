//! manifest: what a snapshot holds beside accounts and statuses.
//!
//! reads   the ledger at a slot's end
//! writes  the ledger at a start
//! memory  about 50 KB
//! source  JSON, so that it can be read by eye; a field that is added or changes its meaning is a new
//!         [`VERSION`](super::VERSION)

use hearth_wire::Hash;
use hearth_wire::consts::MAX_BLOCKHASH_AGE_BLOCKS;
use serde::{Deserialize, Serialize};

use crate::bank_hash::Hashes;
use crate::block::BlockSummary;
use crate::epochs::KeptEpochs;
use crate::lattice::Lattice;
use crate::performance::Samples;

/// Blockhashes at most: the newest and those after which it came.
const BLOCKHASHES: u64 = MAX_BLOCKHASH_AGE_BLOCKS + 1;

/// Everything that the chain needs to go on, but accounts and statuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The last blocks, the newest last.
    pub blocks: Vec<BlockSummary>,
    /// The blockhashes that transactions may name, the newest last.
    pub blockhashes: Vec<Hash>,
    /// The Merkle root of the last FEC set of the last block, to which the next block chains.
    pub block_id: Hash,
    /// Lamports burned since genesis.
    pub burned_lamports: u64,
    /// The sum of all accounts and the banks' hashes.
    pub(crate) hashes: Hashes,
    /// Stakes by epoch, and rewards that are under way.
    pub(crate) epochs: KeptEpochs,
    /// What the chain did minute by minute.
    pub(crate) samples: Samples,
}

impl Manifest {
    /// The block whose end this is.
    pub fn last(&self) -> &BlockSummary {
        self.blocks.last().expect("a manifest is checked when it is read")
    }

    /// The hash of the block's bank.
    pub fn bank_hash(&self) -> Hash {
        self.hashes.bank_hash()
    }

    /// The sum of all accounts' hashes.
    pub fn lattice(&self) -> Lattice {
        self.hashes.lattice()
    }

    /// Whether a chain can go on from this.
    pub(super) fn is_consistent(&self) -> bool {
        let follows = self.blocks.windows(2).all(|w| w[1].parent == w[0].slot && w[1].height == w[0].height + 1);
        let hashes = &self.blockhashes;
        let fits = |last: &BlockSummary| {
            self.hashes.is_whole()
                && self.hashes.slot == last.slot
                && hashes.last() == Some(&last.blockhash)
                && hashes.len() as u64 <= (last.height + 1).min(BLOCKHASHES)
        };
        follows && self.blocks.last().is_some_and(fits)
    }
}
