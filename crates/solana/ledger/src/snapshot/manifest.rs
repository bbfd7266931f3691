//! manifest: a snapshot's contents besides accounts and statuses.
//!
//! reads   the ledger at a slot's end
//! writes  the ledger at startup
//! memory  about 50 KB, 400 B for each vote account and epoch, and while rewards are distributed 250 B for each stake
//!         that waits for its own
//! source  JSON, so that a person can read it; a new field that older snapshots may lack is optional, and a changed
//!         meaning requires a new [`VERSION`](super::VERSION)

use hearth_wire::Hash;
use hearth_wire::consts::MAX_BLOCKHASH_AGE_BLOCKS;
use serde::{Deserialize, Serialize};

use crate::bank_hash::Hashes;
use crate::block::BlockSummary;
use crate::epochs::KeptEpochs;
use crate::lattice::Lattice;
use crate::performance::Samples;

/// Maximum blockhashes: the newest, and those that are valid with it.
const BLOCKHASHES: u64 = MAX_BLOCKHASH_AGE_BLOCKS + 1;

/// All state that the chain needs to continue, except accounts and statuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The last blocks, the newest last.
    pub blocks: Vec<BlockSummary>,
    /// The blockhashes that transactions may name, each with its price in lamports per signature; the newest last.
    pub blockhashes: Vec<(Hash, u64)>,
    /// The Merkle root of the last block's last FEC set, to which the next block chains.
    pub block_id: Hash,
    /// Lamports burned since genesis.
    pub burned_lamports: u64,
    /// The lattice sum of all accounts, and the banks' hashes.
    pub(crate) hashes: Hashes,
    /// Stakes by epoch, and rewards in distribution.
    pub(crate) epochs: KeptEpochs,
    /// Samples of the chain's speed, one per minute.
    pub(crate) samples: Samples,
    /// The slots of the chain's hard forks, and how many each stands for. `None` in snapshots of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_forks: Option<Vec<(u64, u64)>>,
}

impl Manifest {
    /// The block at whose end the state was captured.
    pub fn last(&self) -> &BlockSummary {
        self.blocks.last().expect("a manifest is checked when it is read")
    }

    /// The hash of that block's bank.
    pub fn bank_hash(&self) -> Hash {
        self.hashes.bank_hash()
    }

    /// The lattice sum of all accounts.
    pub fn lattice(&self) -> Lattice {
        self.hashes.lattice()
    }

    /// Whether a chain can resume from this.
    pub(super) fn is_consistent(&self) -> bool {
        let follows = self.blocks.windows(2).all(|w| w[1].parent == w[0].slot && w[1].height == w[0].height + 1);
        let hashes = &self.blockhashes;
        let fits = |last: &BlockSummary| {
            self.hashes.is_whole()
                && self.hashes.slot == last.slot
                && hashes.last().is_some_and(|(hash, _)| *hash == last.blockhash)
                // Of height 0 there are two: the genesis hash, and that of slot 0.
                && hashes.len() as u64 <= last.height.saturating_add(2).min(BLOCKHASHES)
        };
        follows && self.blocks.last().is_some_and(fits)
    }
}
