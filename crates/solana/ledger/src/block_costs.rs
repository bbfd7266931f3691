//! The costs of a block's transactions, added up against the block's limits, as validators do who execute the block.
//!
//! reads   what each landed transaction took; the accounts that it may write
//! writes  the sums, or the limit that a transaction exceeds
//! memory  about 40 B for each account that is charged
//! source  `cost_tracker.rs` of `solana-cost-model` 4.2.2; `check_block_cost_limits` of `blockstore_processor.rs`

use hashbrown::HashMap;

use crate::bank::AccountHash;
use crate::cost::{BlockLimits, LandedCost};
use crate::error::TransactionError;

/// The sums of a block.
///
/// An account cannot exceed its limit while all transactions together do not, so the caller charges accounts only once
/// [`BlockCosts::counts_accounts`] says so, and then from the block's first transaction on.
#[derive(Debug)]
pub struct BlockCosts {
    limits: BlockLimits,
    units: u64,
    allocated_bytes: u64,
    // Nobody else knows the key of these hashes, so the map need not defend itself against chosen ones.
    accounts: HashMap<AccountHash, u64>,
}

impl Default for BlockCosts {
    fn default() -> Self {
        Self::new(BlockLimits::CLUSTER)
    }
}

impl BlockCosts {
    /// No costs yet, with these limits.
    pub fn new(limits: BlockLimits) -> Self {
        Self { limits, units: 0, allocated_bytes: 0, accounts: HashMap::new() }
    }

    /// Adds the next transaction to the sums of the block.
    ///
    /// # Errors
    /// It exceeds one of them, which remains as it was.
    pub fn add(&mut self, cost: LandedCost) -> Result<(), TransactionError> {
        let units = self.units + u64::from(cost.units);
        if units > self.limits.block_cost {
            return Err(TransactionError::WouldExceedMaxBlockCostLimit);
        }
        let allocated_bytes = self.allocated_bytes + u64::from(cost.allocated_bytes);
        if allocated_bytes > self.limits.data_growth_bytes {
            return Err(TransactionError::WouldExceedAccountDataBlockLimit);
        }
        self.units = units;
        self.allocated_bytes = allocated_bytes;
        Ok(())
    }

    /// Whether an account may exceed its limit by now.
    pub fn counts_accounts(&self) -> bool {
        self.units > self.limits.account_cost
    }

    /// Charges the accounts that a transaction may write.
    ///
    /// # Errors
    /// One of them exceeds its limit.
    pub fn charge(&mut self, cost: LandedCost, accounts: &[AccountHash]) -> Result<(), TransactionError> {
        for account in accounts {
            let units = self.accounts.entry(*account).or_default();
            *units += u64::from(cost.units);
            if *units > self.limits.account_cost {
                return Err(TransactionError::WouldExceedMaxAccountCostLimit);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BlockLimits =
        BlockLimits { block_cost: 100, account_cost: 40, data_growth_bytes: 50, ..BlockLimits::CLUSTER };

    fn cost(units: u32, allocated_bytes: u32) -> LandedCost {
        LandedCost { units, allocated_bytes }
    }

    #[test]
    fn a_block_may_reach_its_limits() {
        let mut costs = BlockCosts::new(LIMITS);
        assert_eq!(costs.add(cost(60, 30)), Ok(()));
        assert_eq!(costs.add(cost(41, 0)), Err(TransactionError::WouldExceedMaxBlockCostLimit));
        assert_eq!(costs.add(cost(40, 21)), Err(TransactionError::WouldExceedAccountDataBlockLimit));
        assert_eq!(costs.add(cost(41, 21)), Err(TransactionError::WouldExceedMaxBlockCostLimit), "the first of both");
        assert_eq!(costs.add(cost(40, 20)), Ok(()), "what was refused is not added");
        assert_eq!(costs.add(cost(1, 0)), Err(TransactionError::WouldExceedMaxBlockCostLimit));
    }

    #[test]
    fn each_account_has_its_own_limit() {
        let mut costs = BlockCosts::new(LIMITS);
        costs.add(cost(40, 0)).unwrap();
        assert!(!costs.counts_accounts(), "no account can have more");
        costs.add(cost(1, 0)).unwrap();
        assert!(costs.counts_accounts());
        assert_eq!(costs.charge(cost(40, 0), &[1, 2]), Ok(()));
        assert_eq!(costs.charge(cost(1, 0), &[3]), Ok(()));
        assert_eq!(costs.charge(cost(1, 0), &[3, 2]), Err(TransactionError::WouldExceedMaxAccountCostLimit));
    }
}
