//! Validity of a transaction against the outputs that it spends. Pool and block call the same function, so that a block
//! does not reject what the pool accepted for a reason of its own.

use alloy_primitives::{Address, B256};

use crate::address::OwnerKey;
use crate::asset::{Asset, AssetId};
use crate::output::{OutPoint, Output};
use crate::prism;
use crate::tx::{Action, Tx};

/// Why a transaction cannot be in a block now.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It was spent, or never made.
    #[error("output {0} does not exist: it is spent, or was never created")]
    Missing(OutPoint),
    /// The signers are not exactly the required ones.
    #[error("not signed by the owners of the spent outputs: {0}")]
    Owners(&'static str),
    /// More comes out than goes in, or less.
    #[error("asset {asset}: {inputs} units in, {outputs} units out")]
    Unbalanced {
        /// The asset out of balance.
        asset: AssetId,
        /// Units spent, and issued.
        inputs: u128,
        /// Units in outputs, the fee, and the transfer to the EVM.
        outputs: u128,
    },
    /// Too small a fee.
    #[error("transaction underpriced: fee {have}, minimum needed {want}")]
    Fee {
        /// The fee, in units.
        have: u64,
        /// The minimum fee, in units.
        want: u64,
    },
    /// There is no such asset.
    #[error("asset {0} was never issued")]
    NoAsset(AssetId),
    /// No more may be issued.
    #[error("no more of asset {0} may be issued: {1}")]
    Closed(AssetId, &'static str),
    /// A transfer to the contract itself would be lost.
    #[error("the recipient is the prism contract itself, which cannot pay: what it were credited would be lost")]
    Recipient,
    /// The block is full.
    #[error("exceeds the block's room for transactions of this ledger")]
    Room,
    /// The EVM's rules of this block have no withdrawals, or no root for contracts to read.
    #[error("the chain's rules have no UTXO ledger yet: it begins with Cancun")]
    Fork,
    /// It could not be written to the disk, where it would have outlived the program.
    #[error("it could not be kept on the disk")]
    NotKept,
}

/// The effects of a valid transaction beyond its outputs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// The new record of an asset that changes.
    pub asset: Option<(AssetId, Asset)>,
    /// The credit to an EVM account, in units.
    pub withdrawal: Option<(Address, u64)>,
}

/// The source of a transaction's inputs and assets.
pub trait Lookup {
    /// The unspent output of that name.
    fn output(&self, at: &OutPoint) -> Option<Output>;
    /// The asset of that id.
    fn asset(&self, id: &AssetId) -> Option<Asset>;
}

/// Checks `tx` and returns its effects.
pub fn check(tx: &Tx, world: &impl Lookup) -> Result<Effects, Refusal> {
    let payload = &tx.payload;
    let mut spent = Vec::with_capacity(payload.inputs.len());
    for at in &payload.inputs {
        spent.push(world.output(at).ok_or(Refusal::Missing(*at))?);
    }
    let (issue, issuer, effects) = action(tx, world)?;
    owners(tx, &spent, issuer)?;
    if payload.fee < tx.fee_min() {
        return Err(Refusal::Fee { have: payload.fee, want: tx.fee_min() });
    }
    let mut sums = Sums(Vec::with_capacity(2));
    for output in &spent {
        sums.of(output.asset).1 += u128::from(output.amount);
    }
    for output in &payload.outputs {
        sums.of(output.asset).2 += u128::from(output.amount);
    }
    if let Some((asset, amount)) = issue {
        sums.of(asset).1 += u128::from(amount);
    }
    let crossing = effects.withdrawal.map_or(0, |(_, amount)| amount);
    sums.of(AssetId::NATIVE).2 += u128::from(payload.fee) + u128::from(crossing);
    match sums.0.into_iter().find(|(_, inputs, outputs)| inputs != outputs) {
        Some((asset, inputs, outputs)) => Err(Refusal::Unbalanced { asset, inputs, outputs }),
        None => Ok(effects),
    }
}

/// Units in and out by asset. Assets in a transaction are few: a list is searched faster than a table is made. That
/// of 256 outputs of 256 assets costs 32,000 comparisons, about as much as a signature.
struct Sums(Vec<(AssetId, u128, u128)>);

impl Sums {
    fn of(&mut self, asset: AssetId) -> &mut (AssetId, u128, u128) {
        let at = self.0.iter().position(|(other, ..)| *other == asset).unwrap_or_else(|| {
            self.0.push((asset, 0, 0));
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

/// The issued amount, the issuer who must sign, and the transaction's effects.
type Issue = (Option<(AssetId, u64)>, Option<OwnerKey>, Effects);

fn action(tx: &Tx, world: &impl Lookup) -> Result<Issue, Refusal> {
    match &tx.payload.action {
        Action::Transfer => Ok((None, None, Effects::default())),
        Action::Prism { recipient, .. } if *recipient == prism::ADDRESS => Err(Refusal::Recipient),
        Action::Prism { recipient, amount } => {
            Ok((None, None, Effects { withdrawal: Some((*recipient, *amount)), ..Effects::default() }))
        }
        Action::Issue { code, decimals, open, issuer, amount } => {
            let id = tx.new_asset().unwrap_or_default();
            let asset =
                Asset { code: code.clone(), decimals: *decimals, open: *open, issuer: *issuer, supply: *amount };
            Ok((Some((id, *amount)), Some(*issuer), Effects { asset: Some((id, asset)), ..Effects::default() }))
        }
        Action::IssueMore { asset: id, amount } => {
            let mut asset = world.asset(id).ok_or(Refusal::NoAsset(*id))?;
            if !asset.open {
                return Err(Refusal::Closed(*id, "its issuer closed it"));
            }
            asset.supply = asset.supply.checked_add(*amount).ok_or(Refusal::Closed(*id, "too many units"))?;
            let issuer = asset.issuer;
            Ok((Some((*id, *amount)), Some(issuer), Effects { asset: Some((*id, asset)), ..Effects::default() }))
        }
    }
}

/// Checks that the signers are exactly the owners of spent outputs, plus the issuer.
fn owners(tx: &Tx, spent: &[Output], issuer: Option<OwnerKey>) -> Result<(), Refusal> {
    let mut owners: Vec<OwnerKey> = spent.iter().map(|output| output.owner).chain(issuer).collect();
    owners.sort_unstable();
    owners.dedup();
    if owners.iter().any(|owner| !tx.owners.contains(owner)) {
        return Err(Refusal::Owners("a signature is missing"));
    }
    // Both are in rising order without repeats.
    if owners != tx.owners { Err(Refusal::Owners("a signature is of no use")) } else { Ok(()) }
}

/// The name of the output that a call of the prism contract makes: the hash of the chain, the block, and the
/// transaction, and the place of its log in that transaction. The block is in it because a developer's chain may run
/// one transaction twice.
pub fn prism_out_point(chain_id: u64, block: u64, transaction: &B256, log: u32) -> OutPoint {
    let mut message = b"hearth utxo prism".to_vec();
    message.extend(chain_id.to_be_bytes());
    message.extend(block.to_be_bytes());
    message.extend(transaction);
    OutPoint { transaction: B256::new(hearth_crypto::keccak::keccak256(&message)), index: log }
}
