//! Both ledgers of a chain as a genesis, and back into a chain that goes on.
//!
//! reads   the newest state, and the set of outputs after the same block
//! writes  a genesis; a block that sets what a genesis holds
//! memory  what is dumped, as JSON

use serde_json::Value;

use super::outputs::Load;
use super::times::Lap;
use super::{Chain, ChainError};
use crate::genesis::{Genesis, Outputs, dump};

impl Chain {
    /// A genesis of both ledgers as they are after the newest block, by the rules of `config`.
    pub fn dump(&self, config: Value) -> Result<Value, ChainError> {
        let (head, view, capture) = {
            let _between = self.inner.between_blocks();
            let (head, view) = self.head_and_view();
            let capture = match self.outputs().is_untouched() {
                true => None,
                false => Some(self.outputs().capture(head.number(), head.hash)?),
            };
            (head, view, capture)
        };
        let items = capture.map(|capture| capture.items().collect::<Result<Vec<_>, _>>()).transpose()?;
        let outputs = items.map(|items| Outputs::of(items).expect("the ledger's own set can be"));
        let clock_offset_s = self.inner.dev.lock().clock.offset_s;
        Ok(dump::of(&head, &view, outputs.as_ref(), clock_offset_s, config))
    }

    /// Sets the accounts of `genesis` in a block of its own, without transactions: balance, nonce and code as they are
    /// there, and the slots named there; other slots stay. Its outputs are set where nothing has happened to those of
    /// this chain; where they are other than this chain's, nothing is set.
    pub fn load(&self, genesis: &Genesis) -> Result<(), ChainError> {
        let mut state = self.inner.writer()?;
        let other = genesis.outputs.as_ref().filter(|outputs| outputs.commitment() != self.outputs().commitment());
        if other.is_some() && !self.outputs().is_untouched() {
            return Err(ChainError::OutputsInUse);
        }
        let load = other.map(|outputs| Load { set: outputs.loading(), commitment: outputs.commitment() });
        self.inner.alter(&mut state, genesis.changes(), load, Lap::new())
    }
}
