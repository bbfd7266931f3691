//! What a block says of blobs: what they cost in it, and how many it may hold.
//!
//! memory  a few words
//! source  EIP-4844, 7691, 7892 (forks of these numbers alone), 7918 (a floor under the price), 7594 (blobs of a
//!         transaction)

use alloy_consensus::Header;
use alloy_eips::eip7840::BlobParams;
use revm::context::CfgEnv;
use revm::context_interface::block::BlobExcessGasAndPrice;

/// From so many fractions of excess on nobody can pay: the price is more than e^50 wei a unit. Beyond it the price is not
/// computed, as the sums would not fit into 128 bits.
const FRACTIONS_MAX: u64 = 50;

/// What a block says of blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blobs {
    /// The numbers that hold in the block.
    pub params: BlobParams,
    /// Blob gas that the blocks before used above their target: the price follows from it.
    pub excess_gas: u64,
}

impl Default for Blobs {
    /// Of a block after blocks without blobs, under the newest fork's numbers.
    fn default() -> Self {
        Self { params: BlobParams::osaka(), excess_gas: 0 }
    }
}

impl Blobs {
    /// Those of a block in which `params` hold, after one of this excess, this use of blob gas and this base fee.
    pub fn after(excess_gas: u64, used_gas: u64, base_fee: u64, params: BlobParams) -> Self {
        let before = Self { params, excess_gas };
        let excess_gas = match excess_gas.checked_add(used_gas) {
            Some(_) if before.is_payable() => params.next_block_excess_blob_gas_osaka(excess_gas, used_gas, base_fee),
            // Such an excess only a genesis can set.
            sum => sum.unwrap_or(u64::MAX).saturating_sub(params.target_blob_gas_per_block()),
        };
        Self { params, excess_gas }
    }

    /// Those of the block after the one of this header. Before Cancun a header says nothing of blobs, which is taken as
    /// none.
    pub fn after_header(parent: &Header, params: BlobParams) -> Self {
        let excess_gas = parent.excess_blob_gas.unwrap_or_default();
        let used_gas = parent.blob_gas_used.unwrap_or_default();
        Self::after(excess_gas, used_gas, parent.base_fee_per_gas.unwrap_or_default(), params)
    }

    fn is_payable(&self) -> bool {
        self.excess_gas <= self.fraction().saturating_mul(FRACTIONS_MAX)
    }

    /// The fraction by which the price follows the excess.
    fn fraction(&self) -> u64 {
        u64::try_from(self.params.update_fraction).unwrap_or(u64::MAX).max(1)
    }

    /// Wei per unit of blob gas.
    pub fn fee(&self) -> u128 {
        self.price().blob_gasprice
    }

    pub(super) fn price(&self) -> BlobExcessGasAndPrice {
        if self.is_payable() {
            return BlobExcessGasAndPrice::new(self.excess_gas, self.fraction());
        }
        BlobExcessGasAndPrice { excess_blob_gas: self.excess_gas, blob_gasprice: u128::MAX }
    }

    pub(super) fn set(&self, cfg: &mut CfgEnv) {
        cfg.max_blobs_per_tx = Some(self.params.max_blobs_per_tx);
        cfg.blob_base_fee_update_fraction = Some(self.fraction());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_follows_the_parent() {
        let blob = alloy_eips::eip4844::DATA_GAS_PER_BLOB;
        let header = |excess: u64, used: u64, base_fee: u64| Header {
            excess_blob_gas: Some(excess * blob),
            blob_gas_used: Some(used * blob),
            base_fee_per_gas: Some(base_fee),
            ..Header::default()
        };
        let excess = |parent: &Header, params| Blobs::after_header(parent, params).excess_gas / blob;
        assert_eq!(excess(&Header::default(), BlobParams::cancun()), 0);
        assert_eq!(excess(&header(0, 2, 7), BlobParams::cancun()), 0);
        assert_eq!(excess(&header(10, 6, 7), BlobParams::cancun()), 13);
        assert_eq!(excess(&header(10, 9, 7), BlobParams::prague()), 13);
        // EIP-7918: where execution gas is dear the target is not taken off.
        assert_eq!(excess(&header(10, 9, 7), BlobParams::osaka()), 13);
        assert_eq!(excess(&header(10, 6, 1_000_000_000), BlobParams::prague()), 10);
        assert_eq!(excess(&header(10, 6, 1_000_000_000), BlobParams::osaka()), 12);
    }

    #[test]
    fn absurd_excess_has_a_price_that_nobody_pays() {
        let params = BlobParams::osaka();
        let full = Header { excess_blob_gas: Some(u64::MAX), blob_gas_used: Some(1), ..Header::default() };
        let after = Blobs::after_header(&full, params);
        assert_eq!(after.excess_gas, u64::MAX - params.target_blob_gas_per_block());
        assert_eq!(after.fee(), u128::MAX);
        assert_eq!(Blobs::default().fee(), 1);
        // The last price that is computed: about e^50.
        let last = Blobs { params, excess_gas: after.fraction() * FRACTIONS_MAX };
        assert_eq!(last.fee() / 10u128.pow(15), 5_184_705);
    }
}
