//! The ledger of outputs that a chain begins with, where it does not begin empty.
//!
//! reads   `hearthOutputs` of a genesis: `{"version": 1, "items": ["0x…", …]}`, the items of
//!         [`hearth_utxo::ledger`] in their order
//! writes  the same
//! memory  the items, as long as the genesis is held
//! source  our own; in geth's form of a genesis nothing is known of it, and block zero's header commits to it where the
//!         other headers do

use std::sync::Arc;

use alloy_primitives::{B256, Bytes};
use hearth_utxo::ledger::{Item, Loading};
use serde::Deserialize;
use serde_json::{Value, json};

use super::GenesisError;

/// Where it is in a genesis.
pub const KEY: &str = "hearthOutputs";
/// Of this form.
const VERSION: u64 = 1;

/// A set of outputs and what has happened to it, which can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outputs {
    items: Arc<[Item]>,
    commitment: B256,
}

#[derive(Deserialize)]
struct Form {
    version: u64,
    #[serde(default)]
    items: Vec<Bytes>,
}

impl Outputs {
    /// That of a list of items.
    pub fn of(items: Vec<Item>) -> Result<Self, GenesisError> {
        let outputs = Self { items: items.into(), commitment: B256::ZERO };
        let loading = outputs.load()?;
        loading.check().map_err(|why| GenesisError::Outputs(why.into()))?;
        Ok(Self { commitment: loading.commitment(), ..outputs })
    }

    pub(super) fn from_json(form: Value) -> Result<Self, GenesisError> {
        let form: Form = serde_json::from_value(form)?;
        if form.version != VERSION {
            return Err(GenesisError::Outputs(format!("it is of version {}, and {VERSION} is known", form.version)));
        }
        let item = |(at, bytes): (usize, &Bytes)| {
            Item::decode(bytes).ok_or_else(|| GenesisError::Outputs(format!("item {at} is none")))
        };
        Self::of(form.items.iter().enumerate().map(item).collect::<Result<_, _>>()?)
    }

    pub(super) fn to_json(&self) -> Value {
        let items: Vec<Bytes> = self.items.iter().map(|item| item.encode().into()).collect();
        json!({ "version": VERSION, "items": items })
    }

    /// What stands for it.
    pub fn commitment(&self) -> B256 {
        self.commitment
    }

    /// The set.
    pub fn loading(&self) -> Loading {
        self.load().expect("it was loaded before")
    }

    fn load(&self) -> Result<Loading, GenesisError> {
        let mut loading = Loading::default();
        for (at, item) in self.items.iter().enumerate() {
            loading.add(item.clone()).map_err(|_| GenesisError::Outputs(format!("item {at} is out of order")))?;
        }
        Ok(loading)
    }
}

#[cfg(test)]
mod tests {
    use hearth_utxo::ledger::Totals;
    use hearth_utxo::{AssetId, OutPoint, Output, OwnerKey};

    use super::*;

    fn items(native: u128) -> Vec<Item> {
        let at = OutPoint { transaction: B256::repeat_byte(1), index: 0 };
        let output = Output { asset: AssetId::NATIVE, amount: 7, owner: OwnerKey([1; 32]), memo: Bytes::new() };
        let totals = Totals { native, received: native, outputs: 1, ..Totals::default() };
        vec![Item::Totals(totals), Item::Output(at, output)]
    }

    #[test]
    fn what_is_written_is_read_and_what_cannot_be_is_named() {
        let outputs = Outputs::of(items(7)).unwrap();
        assert_eq!(Outputs::from_json(outputs.to_json()).unwrap(), outputs);
        assert_eq!(outputs.loading().commitment(), outputs.commitment());
        let error = |form: Value| Outputs::from_json(form).unwrap_err().to_string();
        assert!(error(json!({ "version": 2 })).contains("version 2"));
        assert!(error(json!({ "version": 1 })).contains("no totals"));
        assert!(error(json!({ "version": 1, "items": ["0x09"] })).contains("item 0 is none"));
        assert!(Outputs::of(items(8)).unwrap_err().to_string().contains("as many units"));
        let twice: Vec<Item> = items(7).into_iter().chain(items(7)).collect();
        assert!(Outputs::of(twice).unwrap_err().to_string().contains("item 2 is out of order"));
    }
}
