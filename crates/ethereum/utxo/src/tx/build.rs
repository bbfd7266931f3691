//! Builds transactions: selects inputs, pays the fee, returns the change, signs.

use hearth_crypto::ed25519::SigningKey;

use super::verify::sign;
use super::wire::{encode, id};
use super::{Action, INPUTS_MAX, OUTPUTS_MAX, Payload, SIZE_MAX, fee_min};
use crate::address::OwnerKey;
use crate::amount::{NATIVE_DECIMALS, format};
use crate::asset::AssetId;
use crate::output::{OutPoint, Output};

/// Why no transaction can be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BuildError {
    /// Too little of the native asset, for the amount and the fee together.
    #[error("{} of the native asset are needed, the fee included, and there are {}",
        format(*needed, NATIVE_DECIMALS), format(*held, NATIVE_DECIMALS))]
    Native {
        /// Units that are needed.
        needed: u128,
        /// Units that may be spent.
        held: u128,
    },
    /// The balance of another asset is too low.
    #[error("{needed} units of asset {asset} are needed, and there are {held}")]
    Asset {
        /// The asset that lacks units.
        asset: AssetId,
        /// Units that are needed.
        needed: u128,
        /// Units that may be spent.
        held: u128,
    },
    /// The amount is spread over too many outputs.
    #[error("the amount is spread over more than {INPUTS_MAX} outputs: first send a part of it to yourself")]
    Scattered,
    /// More than a transaction holds.
    #[error("more outputs than a transaction may have ({OUTPUTS_MAX}), or more bytes ({SIZE_MAX})")]
    Large,
}

/// Input for building a transaction.
pub struct Builder<'a> {
    /// Id of the chain it is for.
    pub chain_id: u64,
    /// The key that spends and receives the change.
    pub key: &'a SigningKey,
    /// Outputs of this key that may be spent.
    pub available: &'a [(OutPoint, Output)],
    /// Outputs to create; empty for [`Builder::issue`].
    pub outputs: Vec<Output>,
    /// The action besides the transfer.
    pub action: Action,
}

impl Builder<'_> {
    /// The signed bytes of the transaction. The largest outputs are spent first, so that inputs are few.
    pub fn build(&self) -> Result<Vec<u8>, BuildError> {
        let mut fee = 0;
        // The fee goes by the size, and the size by the inputs that pay it; it only grows, so this ends.
        loop {
            let payload = self.payload(fee)?;
            let witness = sign(&id(&payload), self.key);
            let raw = encode(&payload, &[witness]);
            if raw.len() > SIZE_MAX {
                return Err(BuildError::Large);
            }
            if fee_min(raw.len()) <= fee {
                return Ok(raw);
            }
            fee = fee_min(raw.len());
        }
    }

    /// Returns the bytes of a transaction that issues a new asset, all of it to `owner`.
    pub fn issue(mut self, owner: OwnerKey) -> Result<Vec<u8>, BuildError> {
        let Action::Issue { amount, .. } = self.action else { return self.build() };
        // The asset is named by the first input, so that one is chosen before all others.
        let first = self.native().first().copied().ok_or(BuildError::Native { needed: 1, held: 0 })?;
        let asset = first.0.asset_issued(self.chain_id);
        self.outputs = vec![Output { asset, amount, owner, memo: Default::default() }];
        self.build()
    }

    /// The outputs of the native asset that may be spent, the largest first.
    fn native(&self) -> Vec<&(OutPoint, Output)> {
        self.of(&AssetId::NATIVE)
    }

    fn of(&self, asset: &AssetId) -> Vec<&(OutPoint, Output)> {
        let mut found: Vec<_> = self.available.iter().filter(|(_, output)| output.asset == *asset).collect();
        found.sort_by_key(|(at, output)| (std::cmp::Reverse(output.amount), *at));
        found
    }

    fn payload(&self, fee: u64) -> Result<Payload, BuildError> {
        let mut wanted: Vec<(AssetId, u128)> = vec![(AssetId::NATIVE, fee.into())];
        if let Action::Prism { amount, .. } = self.action {
            wanted[0].1 += u128::from(amount);
        }
        for output in &self.outputs {
            match wanted.iter_mut().find(|(asset, _)| *asset == output.asset) {
                Some((_, amount)) => *amount += u128::from(output.amount),
                None => wanted.push((output.asset, output.amount.into())),
            }
        }
        let (mut inputs, mut outputs) = (Vec::new(), self.outputs.clone());
        for (asset, needed) in wanted {
            let issued = self.issued(&asset, &inputs);
            let needed = needed.saturating_sub(issued.into());
            let (spent, held) = self.choose(&asset, needed)?;
            inputs.extend(spent);
            let owner = OwnerKey(self.key.public_key());
            // Change that one output cannot hold is two, and so on.
            let mut change = held - needed;
            while change > 0 {
                let amount = u64::try_from(change).unwrap_or(u64::MAX);
                outputs.push(Output { asset, amount, owner, memo: Default::default() });
                change -= u128::from(amount);
            }
        }
        if inputs.len() > INPUTS_MAX {
            return Err(BuildError::Scattered);
        }
        if outputs.len() > OUTPUTS_MAX {
            return Err(BuildError::Large);
        }
        Ok(Payload { chain_id: self.chain_id, inputs, outputs, fee, action: self.action.clone() })
    }

    /// Units of `asset` that the transaction brings into being.
    fn issued(&self, asset: &AssetId, inputs: &[OutPoint]) -> u64 {
        let first = inputs.first();
        match &self.action {
            Action::Issue { amount, .. } if first.map(|at| at.asset_issued(self.chain_id)) == Some(*asset) => *amount,
            Action::IssueMore { asset: more, amount } if more == asset => *amount,
            _ => 0,
        }
    }

    /// Selects outputs that hold at least `needed` units; returns them and their sum.
    fn choose(&self, asset: &AssetId, needed: u128) -> Result<(Vec<OutPoint>, u128), BuildError> {
        let (mut spent, mut held) = (Vec::new(), 0u128);
        for (at, output) in self.of(asset) {
            // Every transaction spends something, be it of the native asset for nothing yet.
            if held >= needed && !(asset.is_native() && spent.is_empty()) {
                break;
            }
            spent.push(*at);
            held += u128::from(output.amount);
        }
        match held >= needed {
            true => Ok((spent, held)),
            false if asset.is_native() => Err(BuildError::Native { needed, held }),
            false => Err(BuildError::Asset { asset: *asset, needed, held }),
        }
    }
}

/// Signs a payload unchanged with all of `keys`: for tests of transactions that the builder would never make.
#[cfg(test)]
pub(crate) fn signed(payload: &Payload, keys: &[&SigningKey]) -> Vec<u8> {
    let mut witnesses: Vec<_> = keys.iter().map(|key| sign(&id(payload), key)).collect();
    witnesses.sort_by_key(|witness| witness.owner);
    encode(payload, &witnesses)
}
