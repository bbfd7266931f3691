//! Genesis of chains that carry the UTXO ledger.
//!
//! reads   geth's JSON form with an additional `hearthOutputs`, whose items are those of [`hearth_utxo::ledger`]
//! writes  the ledger's contract, into the alloc of a development chain

use std::path::Path;

use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256, Bytes, U256};
use hearth_evm::genesis::{Genesis, GenesisError};
use hearth_evm::side::{SideError, SideKind, SideLedger, SideStart};
use hearth_utxo::ledger::LedgerError;

use crate::ledger::{Utxo, commitment_of};
use crate::prism;

/// The UTXO ledger as a side ledger.
#[derive(Debug)]
pub(crate) struct Kind;

impl SideKind for Kind {
    fn address(&self) -> Address {
        prism::ADDRESS
    }

    fn contract(&self) -> GenesisAccount {
        prism::account()
    }

    fn commitment_of(&self, items: &[Bytes]) -> Result<B256, String> {
        commitment_of(items)
    }

    fn open(&self, start: &SideStart<'_>) -> Result<Box<dyn SideLedger>, SideError> {
        Ok(Box::new(Utxo::open(start)?))
    }

    fn is_behind(&self, error: &SideError) -> bool {
        matches!(error.downcast_ref::<LedgerError>(), Some(LedgerError::Behind { .. }))
    }

    fn clear(&self, dir: &Path) -> Result<(), SideError> {
        Ok(hearth_utxo::ledger::clear(dir)?)
    }
}

/// A chain for development, as [`Genesis::dev`], with an empty UTXO ledger and its contract.
pub fn dev(chain_id: u64, accounts: &[(Address, U256)], gas_limit: u64) -> Genesis {
    Genesis::dev(chain_id, accounts, gas_limit).with_side(&Kind)
}

/// Parses geth's JSON form and the initial UTXO ledger, which is empty unless given.
///
/// # Errors
/// The chain or the ledger is invalid.
pub fn from_json(text: &str) -> Result<Genesis, GenesisError> {
    Genesis::from_json_with(text, Some(&Kind))
}

#[cfg(test)]
mod tests {
    use hearth_evm::exec::SpecId;
    use hearth_evm::genesis::SideGenesis;
    use hearth_utxo::ledger::{Item, Totals};
    use hearth_utxo::{AssetId, OutPoint, Output, OwnerKey};
    use serde_json::{Value, json};

    use super::*;

    fn items(native: u128) -> Vec<Bytes> {
        let at = OutPoint { transaction: B256::repeat_byte(1), index: 0 };
        let output = Output { asset: AssetId::NATIVE, amount: 7, owner: OwnerKey([1; 32]), memo: Bytes::new() };
        let totals = Totals { native, received: native, outputs: 1, ..Totals::default() };
        [Item::Totals(totals), Item::Output(at, output)].map(|item| Bytes::from(item.encode())).to_vec()
    }

    fn read(side: Value) -> Result<Genesis, GenesisError> {
        let config = hearth_evm::genesis::dump::newest_rules(7);
        from_json(&json!({ "config": config, "alloc": {}, "hearthOutputs": side }).to_string())
    }

    #[test]
    fn written_genesis_is_read_and_errors_named() {
        let genesis = read(json!({ "version": 1, "items": items(7) })).unwrap();
        assert_eq!(genesis.side, Some(SideGenesis::of(&Kind, items(7)).unwrap()));
        assert_eq!(genesis.block_zero(B256::ZERO).parent_beacon_block_root, Some(commitment_of(&items(7)).unwrap()));
        let error = |form: Value| read(form).unwrap_err().to_string();
        assert!(error(json!({ "version": 2 })).contains("version 2"));
        assert!(error(json!({ "version": 1 })).contains("no totals"));
        assert!(error(json!({ "version": 1, "items": ["0x09"] })).contains("item 0 is none"));
        assert!(error(json!({ "version": 1, "items": items(8) })).contains("as many units"));
        let twice = [items(7), items(7)].concat();
        assert!(error(json!({ "version": 1, "items": twice })).contains("item 2 is out of order"));
    }

    #[test]
    fn older_rules_have_neither_outputs_nor_the_contract() {
        for spec in [SpecId::MERGE, SpecId::SHANGHAI, SpecId::CANCUN, SpecId::PRAGUE, SpecId::OSAKA] {
            let genesis = dev(7, &[], 30_000_000).under(spec).unwrap();
            assert_eq!(genesis.alloc.contains_key(&prism::ADDRESS), spec >= SpecId::CANCUN, "{spec:?}");
        }
        let begun = read(json!({ "version": 1, "items": items(7) })).unwrap();
        assert!(begun.under(SpecId::SHANGHAI).unwrap_err().to_string().contains("from Cancun on"));
    }
}
