//! State roots of hypothetical blocks.

use alloy_primitives::B256;

use super::{Chain, ChainError};
use crate::state::{Changes, StateView};

impl Chain {
    /// Returns the hash of block zero.
    pub fn zero_hash(&self) -> B256 {
        self.inner.zero.hash
    }

    /// Returns the root of the state that `changes` would make of `view`, a state of this chain. It waits for the block
    /// that is being made, and keeps nothing.
    pub fn root_on(&self, view: &StateView, changes: &Changes) -> Result<B256, ChainError> {
        Ok(self.inner.between_blocks().root_on(view, changes)?)
    }
}
