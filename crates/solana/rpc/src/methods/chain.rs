//! The chain: slots, heights, blockhashes, counts.
//!
//! reads   the ledger
//! source  `rpc.rs` of `solana-rpc` 4.2 for the shapes

use hearth_ledger::Commitment;
use hearth_wire::base58::encode_32;
use hearth_wire::consts::LAMPORTS_PER_SOL;
use serde_json::{Value, json};

use super::{Api, with_context};
use crate::jsonrpc::Failure;
use crate::params::Params;

impl Api {
    pub fn get_slot(&self, params: Params<'_>) -> Result<Value, Failure> {
        let options = params.at_most(1)?.options(0)?;
        Ok(json!(self.slot_for(options.commitment()?, options)?))
    }

    pub fn get_block_height(&self, params: Params<'_>) -> Result<Value, Failure> {
        let (commitment, _) = self.commitment(params)?;
        Ok(json!(self.ledger.block_height(commitment)))
    }

    pub fn get_transaction_count(&self, params: Params<'_>) -> Result<Value, Failure> {
        let (commitment, _) = self.commitment(params)?;
        Ok(json!(self.ledger.transaction_count(commitment)))
    }

    pub fn get_genesis_hash(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        Ok(json!(&*encode_32(self.ledger.genesis_hash())))
    }

    pub fn get_latest_blockhash(&self, params: Params<'_>) -> Result<Value, Failure> {
        let (commitment, _) = self.commitment(params)?;
        let latest = self.ledger.latest_blockhash(commitment);
        self.blockhash_is_reported(&latest.blockhash);
        let value = json!({
            "blockhash": &*encode_32(&latest.blockhash),
            "lastValidBlockHeight": latest.last_valid_block_height,
        });
        Ok(with_context(latest.slot, value))
    }

    pub fn is_blockhash_valid(&self, params: Params<'_>) -> Result<Value, Failure> {
        let blockhash = params.at_most(2)?.pubkey(0, "blockhash")?;
        let options = params.options(1)?;
        let commitment = options.commitment()?;
        let slot = self.slot_for(commitment, options)?;
        Ok(with_context(slot, json!(self.ledger.is_blockhash_valid_at(&blockhash, commitment))))
    }

    /// One SOL, as with all of the cluster's features active.
    pub fn get_stake_minimum_delegation(&self, params: Params<'_>) -> Result<Value, Failure> {
        let (_, slot) = self.commitment(params)?;
        Ok(with_context(slot, json!(LAMPORTS_PER_SOL)))
    }

    /// Parses the commitment, the only parameter of some methods, and returns its slot too.
    pub fn commitment(&self, params: Params<'_>) -> Result<(Commitment, u64), Failure> {
        let options = params.at_most(1)?.options(0)?;
        let commitment = options.commitment()?;
        Ok((commitment, self.slot_for(commitment, options)?))
    }
}
