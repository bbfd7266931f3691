//! What can be said of a transaction without its account: type, sizes, gas, fees.
//!
//! source  the order and the words of geth's pool; EIP-2, 2028, 2681, 2930, 3860, 4844, 7594, 7623, 7702, 7825

use alloy_consensus::Transaction;
use alloy_eips::eip4844::VERSIONED_HASH_VERSION_KZG;
use alloy_primitives::{U256, U512};
use revm::primitives::hardfork::SpecId;

use super::error::PoolError;
use super::rank::Fees;
use crate::blobs::{self, BlobParams};
use crate::limits::TxLimits;
use crate::tx::{SharedTx, Tx};

const TX_GAS: u64 = 21_000;

/// By what transactions are judged now.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The fork of the next block.
    pub spec: SpecId,
    /// The gas of a block.
    pub gas_limit: u64,
    /// The least tip, in wei per gas.
    pub min_tip: u128,
    /// The chain's configured limits of code and gas.
    pub limits: TxLimits,
    /// The bounds on the next block's blobs.
    pub blobs: BlobParams,
}

/// A transaction that is valid by itself, with the values that the pool needs often.
#[derive(Clone, Debug)]
pub struct CheckedTx {
    /// The transaction that was checked.
    pub tx: SharedTx,
    /// The transaction's nonce, copied from its envelope.
    pub nonce: u64,
    /// The transaction's gas limit, copied from its envelope.
    pub gas: u64,
    /// The fees that it offers.
    pub fees: Fees,
    /// Gas × price + blob gas × price + value: what its account must have, in wei.
    pub cost: U512,
}

/// Judges a transaction by itself.
pub fn check(tx: SharedTx, rules: &Rules) -> Result<CheckedTx, PoolError> {
    let (spec, envelope) = (rules.spec, &tx.envelope);
    check_type(&tx, spec)?;
    check_blobs(&tx, &rules.blobs)?;
    let gas = envelope.gas_limit();
    let creates = envelope.is_create();
    let size = envelope.input().len();
    let (limit, cap) = (rules.limits.init_code_size(), rules.limits.tx_gas(spec));
    if spec.is_enabled_in(SpecId::SHANGHAI) && creates && size > limit {
        return Err(PoolError::InitCode { size, limit });
    }
    if gas > cap {
        return Err(PoolError::GasLimitTooHigh { cap, gas });
    }
    if gas > rules.gas_limit {
        return Err(PoolError::GasLimit);
    }
    let (cap, tip) = (envelope.max_fee_per_gas(), envelope.priority_fee_or_price());
    if tip > cap {
        return Err(PoolError::TipAboveFeeCap);
    }
    let nonce = envelope.nonce();
    if nonce == u64::MAX {
        return Err(PoolError::NonceMax);
    }
    let (needed, floor) = least_gas(&tx, spec);
    if gas < needed {
        return Err(PoolError::IntrinsicGas { gas, needed });
    }
    if gas < floor {
        return Err(PoolError::FloorDataGas { gas, needed: floor });
    }
    if tip < rules.min_tip {
        return Err(PoolError::TipTooLow { tip, minimum: rules.min_tip });
    }
    if envelope.authorization_list().is_some_and(<[_]>::is_empty) {
        return Err(PoolError::NoAuthorization);
    }
    let blobs = U256::from(blobs::gas_of(envelope)) * U256::from(envelope.max_fee_per_blob_gas().unwrap_or_default());
    let gas_cost = (U256::from(gas) * U256::from(cap)).to::<U512>();
    let cost = gas_cost + blobs.to::<U512>() + envelope.value().to::<U512>();
    Ok(CheckedTx { nonce, gas, fees: Fees::new(cap, tip), cost, tx })
}

fn check_type(tx: &Tx, spec: SpecId) -> Result<(), PoolError> {
    let kind = tx.envelope.tx_type() as u8;
    // Without Berlin there is no type but the legacy one.
    let forks = [
        (1, SpecId::BERLIN, "Berlin"),
        (2, SpecId::LONDON, "London"),
        (3, SpecId::CANCUN, "Cancun"),
        (4, SpecId::PRAGUE, "Prague"),
    ];
    let missing = forks.into_iter().find(|(of, since, _)| (*of == 1 || *of == kind) && !spec.is_enabled_in(*since));
    match missing {
        Some((_, _, fork)) if kind != 0 => Err(PoolError::Type { kind, fork }),
        _ => Ok(()),
    }
}

fn check_blobs(tx: &Tx, params: &BlobParams) -> Result<(), PoolError> {
    let Some(hashes) = tx.envelope.blob_versioned_hashes() else { return Ok(()) };
    let (cap, minimum) = (tx.envelope.max_fee_per_blob_gas().unwrap_or_default(), params.min_blob_fee);
    if cap < minimum {
        return Err(PoolError::BlobFeeTooLow { cap, minimum });
    }
    // More than a block holds would wait for ever.
    let (have, permitted) = (hashes.len() as u64, params.max_blobs_per_tx.min(params.max_blob_count));
    match have {
        0 => return Err(PoolError::Blobless),
        _ if have > permitted => return Err(PoolError::TooManyBlobs { have, permitted }),
        _ => {}
    }
    match hashes.iter().position(|hash| hash[0] != VERSIONED_HASH_VERSION_KZG) {
        Some(index) => Err(PoolError::BlobHashVersion { index }),
        None => Ok(()),
    }
}

/// The gas that a transaction needs before its first instruction, and the least for its data (0 before Prague).
pub fn least_gas(tx: &Tx, spec: SpecId) -> (u64, u64) {
    let envelope = &tx.envelope;
    let data = envelope.input();
    let zeros = data.iter().filter(|byte| **byte == 0).count() as u64;
    let others = data.len() as u64 - zeros;
    let of_byte = if spec.is_enabled_in(SpecId::ISTANBUL) { 16 } else { 68 };
    let mut gas = TX_GAS + 4 * zeros + of_byte * others;
    if envelope.is_create() && spec.is_enabled_in(SpecId::HOMESTEAD) {
        gas += 32_000;
        if spec.is_enabled_in(SpecId::SHANGHAI) {
            gas += 2 * (data.len() as u64).div_ceil(32);
        }
    }
    if let Some(list) = envelope.access_list() {
        gas += 2_400 * list.len() as u64 + 1_900 * list.storage_keys_count() as u64;
    }
    gas += 25_000 * envelope.authorization_list().map_or(0, <[_]>::len) as u64;
    let floor = if spec.is_enabled_in(SpecId::PRAGUE) { TX_GAS + 10 * (zeros + 4 * others) } else { 0 };
    (gas, floor)
}
