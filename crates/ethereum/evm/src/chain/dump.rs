//! Dumps both ledgers of a chain as a genesis, and loads such a dump.
//!
//! reads   the newest state, and the side ledger's set after the same block
//! writes  a genesis; a block that sets a genesis' contents
//! memory  the dump, as JSON

use serde_json::Value;

use super::times::Lap;
use super::{Chain, ChainError};
use crate::genesis::{Genesis, SideGenesis, dump};

impl Chain {
    /// Returns a genesis of both ledgers as they are after the newest block, with the rules of `config`.
    pub fn dump(&self, config: Value) -> Result<Value, ChainError> {
        let (head, view, items) = {
            let _between = self.inner.between_blocks();
            let (head, view) = self.head_and_view();
            let touched = self.side().filter(|side| !side.is_untouched());
            let items = touched.map(|side| side.items(head.number(), head.hash)).transpose()?;
            (head, view, items)
        };
        let items = items.map(|items| items.collect::<Result<Vec<_>, _>>()).transpose()?;
        let clock_offset_s = self.inner.dev.lock().clock.offset_s;
        Ok(dump::of(&head, &view, items.as_deref(), clock_offset_s, config))
    }

    /// Sets the accounts of `genesis` in a block without transactions: their balance, nonce and code, and the slots
    /// that it names; other slots stay. The side ledger's set is set only if this chain's is still unused; if it is not
    /// and differs, nothing is set.
    pub fn load(&self, genesis: &Genesis) -> Result<(), ChainError> {
        let mut state = self.inner.writer()?;
        let given = genesis.side.as_ref().filter(|given| !given.is_empty());
        let other = given.filter(|given| given.commitment() != self.inner.side_commitment());
        if other.is_some() && !self.side().is_some_and(|side| side.is_untouched()) {
            return Err(ChainError::SideInUse);
        }
        self.inner.alter(&mut state, genesis.changes(), other.map(SideGenesis::items), Lap::new())
    }
}
