//! The ledger's own rules that depend on features.
//!
//! reads   which features are active
//! memory  16 bytes
//! source  `solana-runtime` 4.2.2, `bank.rs`; `rent_calculator.rs` and `account_loader.rs` of `solana-svm` 4.2.2

use agave_feature_set::{
    create_account_allow_prefund, custom_commission_collector, define_ltds_fee_only_semantics,
    increase_tx_account_lock_limit, limit_instruction_accounts, relax_post_exec_min_balance_check,
    set_lamports_per_byte_to_696, set_lamports_per_byte_to_1322, set_lamports_per_byte_to_2575,
    set_lamports_per_byte_to_5080, set_lamports_per_byte_to_6333, set_lamports_per_byte_to_6960,
};
use hearth_wire::Pubkey;

use crate::rent::{ACCOUNT_OVERHEAD_BYTES, LAMPORTS_PER_BYTE};

/// The features that set the rent, and the lamports per byte. Of several that are activated together the last counts.
const RENTS: [(Pubkey, u64); 6] = [
    (set_lamports_per_byte_to_6333::ID.to_bytes(), 6_333),
    (set_lamports_per_byte_to_5080::ID.to_bytes(), 5_080),
    (set_lamports_per_byte_to_2575::ID.to_bytes(), 2_575),
    (set_lamports_per_byte_to_1322::ID.to_bytes(), 1_322),
    (set_lamports_per_byte_to_696::ID.to_bytes(), 696),
    (set_lamports_per_byte_to_6960::ID.to_bytes(), 6_960),
];

/// The rules of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The lamports that an account must hold for each byte.
    pub(crate) lamports_per_byte: u64,
    /// Whether a transaction may lock 128 accounts, and not only 64.
    pub(crate) locks_more_accounts: bool,
    /// Whether an instruction with more than 255 accounts keeps its transaction out of a block.
    pub(crate) limits_instruction_accounts: bool,
    /// Whether an account below the minimum balance may be credited without reaching the minimum.
    pub(crate) relaxes_minimum_balance: bool,
    /// Whether a transaction that loads too much is charged for what it may load.
    pub(crate) counts_failed_loads: bool,
    /// Whether vote accounts name the collector of a block's fees.
    pub(crate) has_custom_collectors: bool,
    /// Whether the system program creates accounts that have lamports already.
    pub(crate) creates_prefunded: bool,
}

impl Rules {
    /// The rules of a chain with these features and the rent with which chains begin.
    pub(super) fn of(is_active: impl Fn(&Pubkey) -> bool) -> Self {
        let has = |id: [u8; 32]| is_active(&id);
        Self {
            lamports_per_byte: LAMPORTS_PER_BYTE,
            locks_more_accounts: has(increase_tx_account_lock_limit::ID.to_bytes()),
            limits_instruction_accounts: has(limit_instruction_accounts::ID.to_bytes()),
            relaxes_minimum_balance: has(relax_post_exec_min_balance_check::ID.to_bytes()),
            counts_failed_loads: has(define_ltds_fee_only_semantics::ID.to_bytes()),
            has_custom_collectors: has(custom_commission_collector::ID.to_bytes()),
            creates_prefunded: has(create_account_allow_prefund::ID.to_bytes()),
        }
    }

    /// Returns the lamports per byte after these features were activated. A feature that is active from the start, or
    /// whose account names the slot in advance, changes nothing.
    pub(super) fn lamports_per_byte_after(&self, activated: &[Pubkey]) -> u64 {
        let newest = RENTS.iter().rev().find(|(feature, _)| activated.contains(feature));
        newest.map_or(self.lamports_per_byte, |(_, lamports)| *lamports)
    }

    /// The minimum balance in lamports of an account with `data_len` bytes of data.
    #[inline]
    pub(crate) const fn minimum_balance(&self, data_len: usize) -> u64 {
        (ACCOUNT_OVERHEAD_BYTES + data_len as u64).saturating_mul(self.lamports_per_byte)
    }

    /// Whether the balance of an account whose owner and size stay may change from `before` to `after` lamports: to
    /// zero, and to the minimum or more. Below that an existing account may be credited where the rule is relaxed;
    /// otherwise one that was below already may be debited.
    #[inline]
    pub(crate) const fn transition_allowed(&self, before: u64, after: u64, data_len: usize) -> bool {
        let minimum = self.minimum_balance(data_len);
        let is_kept = if self.relaxes_minimum_balance { after >= before } else { before < minimum && after <= before };
        after == 0 || after >= minimum || (before != 0 && is_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rent;

    fn active(features: &[Pubkey]) -> Rules {
        Rules::of(|id| features.contains(id))
    }

    #[test]
    fn the_newest_rent_counts() {
        let all = active(&RENTS.map(|(feature, _)| feature));
        assert_eq!(all.lamports_per_byte, 6_960, "the genesis says what it is at the start");
        let after = |rules: Rules, indexes: &[usize]| {
            let activated: Vec<_> = indexes.iter().map(|index| RENTS[*index].0).collect();
            Rules { lamports_per_byte: rules.lamports_per_byte_after(&activated), ..rules }
        };
        let low = after(all, &[3]);
        assert_eq!(low.lamports_per_byte, 1_322);
        assert_eq!(after(low, &[]), low);
        assert_eq!(after(low, &[0]).lamports_per_byte, 6_333, "in whatever order");
        assert_eq!(after(all, &[0, 2, 1]).lamports_per_byte, 2_575, "the lowest of those activated together");
        assert_eq!(after(all, &[4, 5]).lamports_per_byte, 6_960, "but the safeguard");
    }

    #[test]
    fn balances_change_as_the_rule_says() {
        let relaxed = active(&[relax_post_exec_min_balance_check::ID.to_bytes()]);
        let strict = active(&[]);
        let minimum = rent::minimum_balance(0);
        for (before, after) in [(0, 1), (0, minimum), (minimum, minimum - 1), (100, 100), (100, 99), (100, 0)] {
            assert_eq!(relaxed.transition_allowed(before, after, 0), rent::transition_allowed(before, after, 0));
        }
        assert!(relaxed.transition_allowed(100, 101, 0) && !relaxed.transition_allowed(100, 99, 0));
        assert!(!strict.transition_allowed(100, 101, 0) && strict.transition_allowed(100, 99, 0));
        assert!(strict.transition_allowed(100, 100, 0) && strict.transition_allowed(100, minimum, 0));
        assert!(!strict.transition_allowed(0, 1, 0) && !strict.transition_allowed(minimum, minimum - 1, 0));
        let cheap = Rules { lamports_per_byte: 696, ..strict };
        assert_eq!(cheap.minimum_balance(165), 293 * 696);
        assert!(cheap.transition_allowed(0, 128 * 696, 0) && !cheap.transition_allowed(0, 128 * 696 - 1, 0));
    }
}
