//! The fork graph of a linear chain, for the program cache.
//!
//! source  `ForkGraph` of `solana-program-runtime` 4.2

use std::cmp::Ordering;

use solana_program_runtime::loaded_programs::{BlockRelation, ForkGraph};

/// Of two slots the lower is the other's ancestor: slots that were undone are removed from the cache.
pub(crate) struct LinearForkGraph;

impl ForkGraph for LinearForkGraph {
    fn relationship(&self, a: u64, b: u64) -> BlockRelation {
        match a.cmp(&b) {
            Ordering::Less => BlockRelation::Ancestor,
            Ordering::Equal => BlockRelation::Equal,
            Ordering::Greater => BlockRelation::Descendant,
        }
    }
}
