//! Builds a set of outputs from items: those of a genesis, or those received from another node.
//!
//! reads   items ([`Item`]), in their order
//! writes  the whole ledger, which the set replaces on restore
//! memory  the set

use alloy_primitives::{B256, Bytes};
use hearth_evm::block::Block;
use hearth_evm::side::{SideError, SideSet};
use hearth_utxo::ledger::{Item, SetBuilder};

use super::Utxo;
use crate::prism;

/// The set, and the ledger that it may replace.
pub(super) struct UtxoSet {
    utxo: Utxo,
    loading: SetBuilder,
}

impl UtxoSet {
    pub fn empty(utxo: Utxo) -> Self {
        Self { utxo, loading: SetBuilder::default() }
    }
}

impl SideSet for UtxoSet {
    fn add(&mut self, item: &[u8]) -> bool {
        Item::decode(item).is_some_and(|item| self.loading.add(item).is_ok())
    }

    fn commitment(&self) -> B256 {
        self.loading.commitment()
    }

    fn restore(self: Box<Self>, block: &Block) -> Result<(), SideError> {
        let Self { utxo, loading } = *self;
        let incoming = prism::incoming(&block.txs, &block.receipts);
        let header = block.header.parent_beacon_block_root;
        Ok(utxo.ledger().restore(loading, block.number(), block.hash, header, &incoming)?)
    }
}

/// The set of a list of items.
pub(super) fn loading_of(items: &[Bytes]) -> Result<SetBuilder, String> {
    let item = |(at, bytes): (usize, &Bytes)| Item::decode(bytes).ok_or_else(|| format!("item {at} is none"));
    let items = items.iter().enumerate().map(item).collect::<Result<Vec<_>, _>>()?;
    let mut loading = SetBuilder::default();
    for (at, item) in items.into_iter().enumerate() {
        loading.add(item).map_err(|_| format!("item {at} is out of order"))?;
    }
    Ok(loading)
}

/// Returns the commitment to the set of these items, or why the items are invalid.
pub(crate) fn commitment_of(items: &[Bytes]) -> Result<B256, String> {
    let loading = loading_of(items)?;
    loading.check()?;
    Ok(loading.commitment())
}
