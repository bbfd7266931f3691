//! Converts the set to a list of items, and a list to a set.
//!
//! The list holds the totals, then assets by id, then outputs by out point, so equal sets produce equal lists. A set
//! built from a list is trusted only once its commitment matches the expected one: until then the list may come from
//! anyone.
//!
//! reads   items
//! memory  the set being built

use std::collections::BTreeMap;

use alloy_primitives::{B256, Bytes};

use super::set::{Set, Totals};
use crate::address::OwnerKey;
use crate::amount::DECIMALS_MAX;
use crate::asset::{Asset, AssetId, at_end, is_code};
use crate::codec::{Reader, Writer};
use crate::output::{MEMO_MAX, OutPoint, Output};

const TOTALS: u8 = 1;
const ASSET: u8 = 2;
const OUTPUT: u8 = 3;

/// One item of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The running totals; the first item, exactly once.
    Totals(Totals),
    /// An issued asset and its id.
    Asset(AssetId, Asset),
    /// An unspent output and its outpoint.
    Output(OutPoint, Output),
}

impl Item {
    /// Encodes the item, numbers little-endian; [`Item::decode`] reads it.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Totals(totals) => {
                writer.fixed(&[TOTALS]);
                for total in [totals.native, totals.received, totals.withdrawn, totals.burnt] {
                    writer.fixed(&total.to_le_bytes());
                }
                writer.fixed(&totals.withdrawals.to_le_bytes()).fixed(&totals.outputs.to_le_bytes());
                writer.fixed(&totals.history.0);
            }
            Self::Asset(id, asset) => {
                writer.fixed(&[ASSET]).fixed(&id.0.0).bytes(asset.code.as_bytes());
                writer.fixed(&[asset.decimals, asset.open.into()]);
                writer.fixed(&asset.issuer.0).fixed(&asset.supply.to_le_bytes());
            }
            Self::Output(at, output) => {
                writer.fixed(&[OUTPUT]).fixed(&at.transaction.0).fixed(&at.index.to_le_bytes());
                writer.fixed(&output.asset.0.0).fixed(&output.amount.to_le_bytes());
                writer.fixed(&output.owner.0).bytes(&output.memo);
            }
        }
        writer.done()
    }

    /// Decodes an item; `None` if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let [kind] = reader.fixed()?;
        let item = match kind {
            TOTALS => {
                let mut total = || reader.fixed().map(u128::from_le_bytes);
                let (native, received, withdrawn, burnt) = (total()?, total()?, total()?, total()?);
                let (withdrawals, outputs) = (reader.u64()?, reader.u64()?);
                let history = B256::new(reader.fixed()?);
                Self::Totals(Totals { native, received, withdrawn, burnt, withdrawals, outputs, history })
            }
            ASSET => {
                let id = AssetId(B256::new(reader.fixed()?));
                let code = std::str::from_utf8(reader.bytes()?).ok().filter(|code| is_code(code))?.to_owned();
                let [decimals, open] = reader.fixed()?;
                let (issuer, supply) = (OwnerKey(reader.fixed()?), reader.u64()?);
                let whole = decimals <= DECIMALS_MAX && open <= 1 && !id.is_native();
                Self::Asset(id, whole.then_some(Asset { code, decimals, open: open == 1, issuer, supply })?)
            }
            OUTPUT => {
                let at = OutPoint { transaction: B256::new(reader.fixed()?), index: reader.u32()? };
                let (asset, amount) = (AssetId(B256::new(reader.fixed()?)), reader.u64()?);
                let (owner, memo) = (OwnerKey(reader.fixed()?), reader.bytes()?);
                let whole = amount > 0 && memo.len() <= MEMO_MAX;
                let memo = Bytes::copy_from_slice(memo);
                Self::Output(at, whole.then_some(Output { asset, amount, owner, memo })?)
            }
            _ => return None,
        };
        at_end(&reader).then_some(item)
    }
}

/// An item that cannot be where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an item of the UTXO ledger that cannot be there")]
pub struct OutOfOrder;

/// A set that is being made of items.
#[derive(Default)]
pub struct SetBuilder {
    set: Set,
    began: bool,
    asset: Option<AssetId>,
    output: Option<OutPoint>,
}

impl SetBuilder {
    /// Adds the next item.
    pub fn add(&mut self, item: Item) -> Result<(), OutOfOrder> {
        match item {
            Item::Totals(totals) if !self.began => {
                self.set.totals = totals;
                self.began = true;
            }
            Item::Asset(id, asset)
                if self.began && self.output.is_none() && self.asset.is_none_or(|before| before < id) =>
            {
                self.set.load_asset(id, asset);
                self.asset = Some(id);
            }
            Item::Output(at, output) if self.began && self.output.is_none_or(|before| before < at) => {
                self.set.load_output(at, output);
                self.output = Some(at);
            }
            _ => return Err(OutOfOrder),
        }
        Ok(())
    }

    /// The commitment to the set so far. A list from another node is to be trusted by this alone.
    pub fn commitment(&self) -> B256 {
        self.set.commitment()
    }

    /// Checks that the set is consistent: the totals match, and every output's asset exists. This holds for any set
    /// with a trusted commitment.
    pub fn check(&self) -> Result<(), &'static str> {
        let totals = &self.set.totals;
        let (mut count, mut native) = (0, 0_u128);
        let mut issued: BTreeMap<AssetId, u128> = BTreeMap::new();
        for (_, output) in self.set.outputs_after(None) {
            count += 1;
            match output.asset.is_native() {
                true => native += u128::from(output.amount),
                false => *issued.entry(output.asset).or_default() += u128::from(output.amount),
            }
        }
        let known = |(id, units): (&AssetId, &u128)| self.set.asset(id).is_some_and(|it| *units <= it.supply.into());
        match () {
            () if !self.began => Err("it has no totals"),
            () if count != totals.outputs => Err("there are not as many outputs as its totals say"),
            () if native != totals.native => Err("its outputs do not hold as many units as its totals say"),
            () if !totals.balanced() => Err("its totals have units that came from nowhere or went nowhere"),
            () if !issued.iter().all(known) => Err("an output holds units of an asset that were never issued"),
            () => Ok(()),
        }
    }

    /// The set; its commitment must be known to be right.
    pub(super) fn into_set(self) -> Set {
        self.set
    }
}

/// The list of a whole set.
pub(super) fn items(totals: Totals, assets: BTreeMap<AssetId, Asset>) -> impl Iterator<Item = Item> {
    let assets = assets.into_iter().map(|(id, asset)| Item::Asset(id, asset));
    std::iter::once(Item::Totals(totals)).chain(assets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::owner;

    fn output(n: u8) -> Item {
        let at = OutPoint { transaction: B256::repeat_byte(n), index: 1 };
        let memo = Bytes::from(vec![n; 9]);
        Item::Output(at, Output { asset: AssetId::NATIVE, amount: n.into(), owner: owner(n), memo })
    }

    fn asset(n: u8) -> Item {
        let code = "GOLD".into();
        let asset = Asset { code, decimals: 2, open: true, issuer: owner(n), supply: n.into() };
        Item::Asset(AssetId(B256::repeat_byte(n)), asset)
    }

    #[test]
    fn items_read_back_and_are_taken_in_order() {
        let totals = Item::Totals(Totals { native: 7, outputs: 2, ..Totals::default() });
        for item in [totals.clone(), asset(3), output(4)] {
            assert_eq!(Item::decode(&item.encode()), Some(item));
        }
        let load = |items: &[&Item]| {
            let mut loading = SetBuilder::default();
            items.iter().try_for_each(|item| loading.add((*item).clone())).map(|()| loading.commitment())
        };
        let (one, two) = (output(3), output(4));
        assert!(load(&[&totals, &asset(3), &asset(4), &one, &two]).is_ok());
        assert_ne!(load(&[&totals, &one]), load(&[&totals, &two]));
        assert_eq!(load(&[&one]), Err(OutOfOrder));
        assert_eq!(load(&[&totals, &totals]), Err(OutOfOrder));
        assert_eq!(load(&[&totals, &two, &one]), Err(OutOfOrder));
        assert_eq!(load(&[&totals, &one, &one]), Err(OutOfOrder));
        assert_eq!(load(&[&totals, &one, &asset(1)]), Err(OutOfOrder));
    }

    #[test]
    fn a_set_that_cannot_be_is_named() {
        let totals = |native, outputs| Totals { native, received: native, outputs, ..Totals::default() };
        let check = |items: &[Item]| {
            let mut loading = SetBuilder::default();
            items.iter().for_each(|item| loading.add(item.clone()).unwrap());
            loading.check()
        };
        let gold = Item::Output(
            OutPoint { transaction: B256::repeat_byte(9), index: 0 },
            Output { asset: AssetId(B256::repeat_byte(3)), amount: 3, owner: owner(1), memo: Bytes::new() },
        );
        assert_eq!(check(&[Item::Totals(totals(7, 1)), output(7)]), Ok(()));
        assert_eq!(check(&[Item::Totals(totals(7, 2)), asset(3), output(7), gold.clone()]), Ok(()));
        let lost = Totals { received: 8, ..totals(7, 1) };
        for (items, why) in [
            (vec![], "no totals"),
            (vec![Item::Totals(totals(7, 2)), output(7)], "as many outputs"),
            (vec![Item::Totals(totals(8, 1)), output(7)], "as many units"),
            (vec![Item::Totals(lost), output(7)], "from nowhere"),
            (vec![Item::Totals(totals(7, 2)), output(7), gold.clone()], "never issued"),
            (vec![Item::Totals(totals(7, 2)), asset(2), output(7), gold], "never issued"),
        ] {
            assert!(check(&items).unwrap_err().contains(why), "{why}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_item_or_none(kind in 0_u8..5, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes: Vec<u8> = std::iter::once(kind).chain(bytes).collect();
            if let Some(item) = Item::decode(&bytes) {
                prop_assert_eq!(item.encode(), bytes);
            }
        }
    }
}
