//! The set of unspent outputs, and its 32-byte commitment.
//!
//! memory  about 250 bytes per output, memo included; only the fee bounds their number

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

use alloy_primitives::B256;
use hearth_crypto::keccak::keccak256;

use crate::address::OwnerKey;
use crate::asset::{Asset, AssetId};
use crate::codec::Writer;
use crate::lattice::Lattice;
use crate::output::{OutPoint, Output};

/// Running totals of the native asset, in units, and counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Units in unspent outputs.
    pub native: u128,
    /// Units that ever came from the EVM.
    pub received: u128,
    /// Units that ever went to the EVM.
    pub withdrawn: u128,
    /// Units that were ever burnt as fees.
    pub burnt: u128,
    /// Number of withdrawals so far, which is the index of the next.
    pub withdrawals: u64,
    /// Number of unspent outputs of all assets.
    pub outputs: u64,
    /// Chained hash over all transactions' ids, in order.
    pub history: B256,
}

impl Totals {
    /// Returns whether every received unit is in an output, was burnt, or went back to the EVM.
    pub fn balanced(&self) -> bool {
        self.received == self.native + self.withdrawn + self.burnt
    }
}

/// Changes of a block or of the pool on top of a set that stays unchanged.
#[derive(Default, Debug, Clone)]
pub struct Overlay {
    /// Spent outputs of the set.
    pub spent: HashMap<OutPoint, Output>,
    /// New outputs that are still unspent.
    pub created: HashMap<OutPoint, Output>,
    /// New or changed assets.
    pub assets: HashMap<AssetId, Asset>,
}

/// Sum over one asset: units, and number of outputs.
pub type Balance = (u128, usize);

/// Outputs that one key may spend.
#[derive(Default)]
pub struct OwnerOutputs {
    /// The outpoints of its outputs.
    pub outputs: BTreeSet<OutPoint>,
    /// Units and number of outputs, by asset.
    pub balances: BTreeMap<AssetId, Balance>,
}

impl OwnerOutputs {
    fn add(&mut self, at: OutPoint, output: &Output) {
        self.outputs.insert(at);
        let (units, count) = self.balances.entry(output.asset).or_default();
        (*units, *count) = (*units + u128::from(output.amount), *count + 1);
    }

    fn remove(&mut self, at: &OutPoint, output: &Output) {
        self.outputs.remove(at);
        let (units, count) = self.balances.get_mut(&output.asset).expect("every output is in its owner's balance");
        (*units, *count) = (*units - u128::from(output.amount), *count - 1);
        if *count == 0 {
            self.balances.remove(&output.asset);
        }
    }
}

/// The unspent outputs, their assets, and an index by owner.
#[derive(Default)]
pub struct Set {
    /// Sorted, so that it can be listed piecewise.
    outputs: BTreeMap<OutPoint, Output>,
    by_owner: HashMap<OwnerKey, OwnerOutputs>,
    assets: BTreeMap<AssetId, Asset>,
    pub(super) sum: Lattice,
    pub(super) totals: Totals,
}

impl Set {
    pub fn output(&self, at: &OutPoint) -> Option<&Output> {
        self.outputs.get(at)
    }

    pub fn asset(&self, id: &AssetId) -> Option<&Asset> {
        self.assets.get(id)
    }

    pub fn of_owner(&self, owner: &OwnerKey) -> Option<&OwnerOutputs> {
        self.by_owner.get(owner)
    }

    /// The outputs in the order of their names, those after `after`.
    pub fn outputs_after(&self, after: Option<OutPoint>) -> impl Iterator<Item = (&OutPoint, &Output)> {
        self.outputs.range((after.map_or(Unbounded, Excluded), Unbounded))
    }

    /// Returns the issued assets by their ids.
    pub fn assets(&self) -> &BTreeMap<AssetId, Asset> {
        &self.assets
    }

    /// Inserts a new output without changing the totals.
    pub(super) fn load_output(&mut self, at: OutPoint, output: Output) {
        self.sum.add(&output.element(&at));
        self.by_owner.entry(output.owner).or_default().add(at, &output);
        self.outputs.insert(at, output);
    }

    /// Inserts a new asset without changing the totals.
    pub(super) fn load_asset(&mut self, id: AssetId, asset: Asset) {
        self.sum.add(&asset.element(&id));
        self.assets.insert(id, asset);
    }

    /// Applies a block's changes.
    pub fn absorb(&mut self, overlay: Overlay, sum: Lattice, totals: Totals) {
        for at in overlay.spent.keys() {
            let output = self.outputs.remove(at).expect("a block spends what is there");
            let of_owner = self.by_owner.get_mut(&output.owner).expect("every output is in its owner's list");
            of_owner.remove(at, &output);
            if of_owner.outputs.is_empty() {
                self.by_owner.remove(&output.owner);
            }
        }
        for (at, output) in overlay.created {
            self.by_owner.entry(output.owner).or_default().add(at, &output);
            assert!(self.outputs.insert(at, output).is_none(), "no output is made twice");
        }
        self.assets.extend(overlay.assets);
        self.sum = sum;
        self.totals = totals;
        assert!(self.totals.balanced(), "units of the native asset came from nowhere or went nowhere: {totals:?}");
        assert_eq!(self.totals.outputs, self.outputs.len() as u64, "the count of outputs is theirs");
    }

    pub fn commitment(&self) -> B256 {
        commitment(&self.sum, &self.totals)
    }
}

/// Returns the 32-byte commitment to the set, its assets, and all history.
pub fn commitment(sum: &Lattice, totals: &Totals) -> B256 {
    let mut writer = Writer::tagged(b"hearth utxo set 1");
    writer.fixed(&sum.checksum()).fixed(&totals.history.0);
    for total in [totals.native, totals.received, totals.withdrawn, totals.burnt] {
        writer.fixed(&total.to_le_bytes());
    }
    writer.fixed(&totals.withdrawals.to_le_bytes()).fixed(&totals.outputs.to_le_bytes());
    B256::new(keccak256(&writer.done()))
}

/// The set as it is with an overlay over it.
pub struct OverlaidSet<'a> {
    pub set: &'a Set,
    pub overlay: &'a Overlay,
}

impl crate::rules::Lookup for OverlaidSet<'_> {
    fn output(&self, at: &OutPoint) -> Option<Output> {
        if let Some(output) = self.overlay.created.get(at) {
            return Some(output.clone());
        }
        self.set.output(at).filter(|_| !self.overlay.spent.contains_key(at)).cloned()
    }

    fn asset(&self, id: &AssetId) -> Option<Asset> {
        self.overlay.assets.get(id).or_else(|| self.set.asset(id)).cloned()
    }
}
