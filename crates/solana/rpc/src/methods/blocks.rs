//! Blocks: the range that is available, and their commitment.
//!
//! reads   the block store's index; the ledger's slots
//! source  `rpc.rs` of `solana-rpc` 4.2 for the shapes and codes

use hearth_ledger::Commitment;
use serde_json::{Value, json};

use super::Api;
use crate::jsonrpc::Failure;
use crate::params::Params;

impl Api {
    /// The lowest slot whose block is available: the genesis slot, until the first block after it is pruned.
    pub fn first_available_slot(&self) -> u64 {
        match self.blocks.as_ref().and_then(|blocks| blocks.first_slot()) {
            Some(slot) if slot > self.genesis_slot + 1 => slot,
            Some(_) => self.genesis_slot,
            // A node that booted from a snapshot has no block yet.
            None => (self.newest_snapshot)().map_or(self.genesis_slot, |newest| newest.full),
        }
    }

    pub fn get_first_available_block(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        Ok(json!(self.first_available_slot()))
    }

    pub fn minimum_ledger_slot(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        Ok(json!(self.first_available_slot()))
    }

    pub fn get_highest_snapshot_slot(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        let newest = (self.newest_snapshot)().ok_or_else(Failure::no_snapshot)?;
        Ok(json!({ "full": newest.full, "incremental": newest.incremental }))
    }

    /// The leader broadcasts its own shreds, so this is the newest slot.
    pub fn get_max_retransmit_slot(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        Ok(json!(self.ledger.slot(Commitment::Processed)))
    }

    /// The newest slot with shreds in the block store.
    pub fn get_max_shred_insert_slot(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        let stored = self.blocks.as_ref().and_then(|blocks| blocks.last_slot());
        Ok(json!(stored.unwrap_or_else(|| self.ledger.slot(Commitment::Confirmed))))
    }
}
