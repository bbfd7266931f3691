//! Blobs (EIP-4844): their price, their number per block, and the sidecars that carry them.
//!
//! reads   the genesis' `blobSchedule`; the blob fields of a header; sidecars as clients send them
//! writes  the price and the limits of a block's blobs; verified sidecars
//! memory  the sidecars that [`Sidecars`] keeps, within its bounds
//! drops   a sidecar that does not match its transaction, with an error in geth's words
//! source  EIP-4844, 7594, 7691, 7840, 7892, 7918; the KZG proofs are checked by c-kzg, which the EVM's precompile of
//!         EIP-4844 uses too, with the trusted setup of Ethereum that it carries
//!
//! A block holds the hashes of blobs, not the blobs: execution needs no sidecar.

mod schedule;
mod sidecars;

use std::sync::Arc;

use alloy_consensus::{Header, Transaction};
use alloy_eips::eip4844::env_settings::EnvKzgSettings;
use alloy_eips::eip4844::kzg_to_versioned_hash;
use alloy_eips::eip7594::{BlobTransactionSidecarVariant, CELLS_PER_EXT_BLOB};
use alloy_primitives::B256;
use revm::primitives::hardfork::SpecId;

pub use alloy_eips::eip4844::DATA_GAS_PER_BLOB as GAS_PER_BLOB;
pub use alloy_eips::eip7840::BlobParams;
pub use schedule::BlobSchedule;
pub use sidecars::{SIDECAR_BLOCKS, SIDECAR_BYTES, Sidecars};

/// Blobs with their commitments and proofs: one proof a blob, or from Osaka on one a cell.
pub type Sidecar = BlobTransactionSidecarVariant;

/// A shared sidecar: it has up to 800 KB.
pub type SharedSidecar = Arc<Sidecar>;

/// The blob parameters of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobEnv {
    /// Blob gas beyond the target that the blocks before it used: the price follows from it.
    pub excess_gas: u64,
    /// Target, bounds and pace of the price.
    pub params: BlobParams,
}

impl Default for BlobEnv {
    /// Osaka's, at the least price.
    fn default() -> Self {
        Self { excess_gas: 0, params: BlobParams::osaka() }
    }
}

impl BlobEnv {
    /// The blobs of a block with these `params` after one with that excess, blob gas used, and base fee.
    pub fn after(params: BlobParams, excess_gas: u64, gas_used: u64, base_fee: u64) -> Self {
        let excess_gas = match excess_gas.checked_add(gas_used) {
            Some(_) => params.next_block_excess_blob_gas_osaka(excess_gas, gas_used, base_fee),
            // Only a genesis can set such an excess.
            None => u64::MAX - params.target_blob_gas_per_block(),
        };
        Self { excess_gas, params }
    }

    /// The blobs of a block with these `params` after that of this header, which says nothing of blobs before Cancun.
    pub fn after_header(params: BlobParams, parent: &Header) -> Self {
        let excess_gas = parent.excess_blob_gas.unwrap_or_default();
        let gas_used = parent.blob_gas_used.unwrap_or_default();
        Self::after(params, excess_gas, gas_used, parent.base_fee_per_gas.unwrap_or_default())
    }

    /// Wei for a unit of blob gas.
    pub fn price(&self) -> u128 {
        self.params.calc_blob_fee(self.excess_gas)
    }
}

/// How many blobs a transaction has.
pub fn count_of(tx: &impl Transaction) -> u64 {
    tx.blob_versioned_hashes().map_or(0, |hashes| hashes.len() as u64)
}

/// Blob gas of a transaction.
pub fn gas_of(tx: &impl Transaction) -> u64 {
    count_of(tx) * GAS_PER_BLOB
}

/// Why a sidecar is invalid, in geth's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SidecarError {
    /// The transaction came without its sidecar.
    #[error("missing sidecar in blob transaction")]
    Missing,
    /// Proofs of cells before Osaka.
    #[error("unexpected sidecar version, want: {want}, got: {got}")]
    Version {
        /// The version that the fork takes: 0 before Osaka.
        want: u8,
        /// The sidecar's version: 1 has proofs of cells (EIP-7594).
        got: u8,
    },
    /// Blobs for fewer or more hashes.
    #[error("invalid number of {have} blobs compared to {want} blob hashes")]
    Blobs {
        /// Blobs in the sidecar.
        have: usize,
        /// Hashes in the transaction.
        want: usize,
    },
    /// Commitments for fewer or more hashes.
    #[error("invalid number of {have} blob commitments compared to {want} blob hashes")]
    Commitments {
        /// Commitments in the sidecar.
        have: usize,
        /// Hashes in the transaction.
        want: usize,
    },
    /// Too few proofs, or too many.
    #[error("invalid number of {have} blob proofs expected {want}")]
    Proofs {
        /// Proofs in the sidecar.
        have: usize,
        /// Proofs that the blobs need.
        want: usize,
    },
    /// A commitment to another blob than the transaction names.
    #[error("blob {index}: computed hash {computed:#x} mismatches transaction one {named:#x}")]
    Hash {
        /// The index of the blob.
        index: usize,
        /// The hash of the commitment.
        computed: B256,
        /// The hash in the transaction.
        named: B256,
    },
    /// A proof that does not hold.
    #[error("KZG verification error: {0}")]
    Kzg(String),
}

/// Verifies a sidecar against its transaction's hashes, for a block of the fork `spec`. From Osaka on, cell proofs
/// replace a sidecar's blob proofs, as in geth: older clients still send those. Takes milliseconds per blob; computing
/// cell proofs takes 0.2 s. A process's first call loads the trusted setup, which takes about two seconds and stays in
/// memory with 96 MiB.
pub fn verify(sidecar: Sidecar, hashes: &[B256], spec: SpecId) -> Result<Sidecar, SidecarError> {
    let by_cell = spec.is_enabled_in(SpecId::OSAKA);
    if sidecar.is_eip7594() && !by_cell {
        return Err(SidecarError::Version { want: 0, got: 1 });
    }
    let want = hashes.len();
    let (blobs, commitments) = (sidecar.blobs().len(), sidecar.commitments().len());
    if blobs != want {
        return Err(SidecarError::Blobs { have: blobs, want });
    }
    if commitments != want {
        return Err(SidecarError::Commitments { have: commitments, want });
    }
    for (index, (commitment, named)) in sidecar.commitments().iter().zip(hashes).enumerate() {
        let computed = kzg_to_versioned_hash(commitment.as_slice());
        if computed != *named {
            return Err(SidecarError::Hash { index, computed, named: *named });
        }
    }
    let (have, want) = match &sidecar {
        Sidecar::Eip4844(sidecar) => (sidecar.proofs.len(), want),
        Sidecar::Eip7594(sidecar) => (sidecar.cell_proofs.len(), want * CELLS_PER_EXT_BLOB),
    };
    if have != want {
        return Err(SidecarError::Proofs { have, want });
    }
    let setup = EnvKzgSettings::Default;
    sidecar.validate(hashes, setup.get()).map_err(|error| SidecarError::Kzg(error.to_string()))?;
    if !by_cell || sidecar.is_eip7594() {
        return Ok(sidecar);
    }
    sidecar.try_convert_into_eip7594_with_settings(setup.get()).map_err(|error| SidecarError::Kzg(error.to_string()))
}

#[cfg(test)]
mod tests;
