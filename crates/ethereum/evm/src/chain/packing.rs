//! How many candidates a block gets.
//!
//! reads   executed blocks
//! memory  one number
//!
//! A gas limit says what a transaction may use, and wallets name more than it does use. A block is full by the gas that
//! is used, so its candidates may name more gas together than it holds: as much more as those of the block before did.
//! Execution refuses those for which no gas is left, and they wait in the pool for the next block.

use std::sync::atomic::{AtomicU64, Ordering};

/// The ratio of gas named to gas used is counted in parts of this.
const ONE: u64 = 1024;
/// The greatest ratio that candidates are chosen by. It bounds what is chosen in vain where the next block's
/// transactions use more of the gas that they name.
const RATIO_MAX: u64 = 4 * ONE;

/// The ratio of gas named to gas used in the newest block, if that was about full; otherwise one.
pub(super) struct Packing(AtomicU64);

impl Default for Packing {
    fn default() -> Self {
        Self(AtomicU64::new(ONE))
    }
}

impl Packing {
    /// Returns how much gas the candidates of a block with this gas limit may name together.
    pub fn allowance(&self, gas_limit: u64) -> u64 {
        let allowance = u128::from(gas_limit) * u128::from(self.0.load(Ordering::Relaxed)) / u128::from(ONE);
        u64::try_from(allowance).unwrap_or(u64::MAX)
    }

    /// Learns from an executed block how much gas its transactions `named` and how much they `used`. A block whose
    /// transactions named less than half its gas says nothing of full ones.
    pub fn learn(&self, gas_limit: u64, named: u64, used: u64) {
        let ratio = if named < gas_limit / 2 || used == 0 {
            ONE
        } else {
            let ratio = u128::from(named) * u128::from(ONE) / u128::from(used);
            u64::try_from(ratio).unwrap_or(RATIO_MAX).clamp(ONE, RATIO_MAX)
        };
        self.0.store(ratio, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_follow_the_last_full_block() {
        let packing = Packing::default();
        assert_eq!(packing.allowance(30_000), 30_000);
        packing.learn(30_000, 30_000, 15_000);
        assert_eq!(packing.allowance(30_000), 60_000);
        packing.learn(30_000, 60_000, 30_000);
        assert_eq!(packing.allowance(30_000), 60_000, "what fits stays chosen");
        packing.learn(30_000, 30_000, 30_000);
        assert_eq!(packing.allowance(30_000), 30_000);
    }

    #[test]
    fn ratio_is_bounded() {
        let packing = Packing::default();
        packing.learn(30_000, 30_000, 1);
        assert_eq!(packing.allowance(30_000), 120_000);
        assert_eq!(packing.allowance(u64::MAX), u64::MAX);
        packing.learn(30_000, 14_000, 1);
        assert_eq!(packing.allowance(30_000), 30_000, "a block that is not full says nothing");
        packing.learn(0, 0, 0);
        assert_eq!(packing.allowance(30_000), 30_000);
        packing.learn(30_000, 20_000, 20_500);
        assert_eq!(packing.allowance(30_000), 30_000, "never less than the block holds");
    }
}
