//! Blocks that nobody makes: what their states would have as roots.

use alloy_primitives::B256;

use super::{Chain, ChainError};
use crate::state::{Changes, StateView};

impl Chain {
    /// The hash of block zero.
    pub fn zero_hash(&self) -> B256 {
        self.inner.zero.hash
    }

    /// The root of the state that `changes` would make of `view`, a state of this chain. It waits for the block that is
    /// being made, and nothing of it is kept.
    pub fn root_on(&self, view: &StateView, changes: &Changes) -> Result<B256, ChainError> {
        Ok(self.inner.between_blocks().root_on(view, changes)?)
    }
}
