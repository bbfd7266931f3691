//! Rent: the minimum balance of an account, and which changes of a balance are allowed, as chains begin. Features may
//! lower the minimum and change the rule later ([`crate::features`]).
//!
//! reads   an account's balance and data size, before and after
//! source  `solana-rent` 4.3, `rent_calculator.rs` of `solana-svm` 4.2 with every feature active from the start: an
//!         account that is already below the minimum may stay there unless it is debited

/// Bytes charged for an account beyond its data.
pub const ACCOUNT_OVERHEAD_BYTES: u64 = 128;
/// Lamports required per byte.
pub const LAMPORTS_PER_BYTE: u64 = 6_960;
/// Maximum data of an account, in bytes.
pub const MAX_DATA_BYTES: usize = 10 * 1024 * 1024;
/// The rent epoch of an account that pays no rent, which today is every account.
pub const RENT_EXEMPT_EPOCH: u64 = u64::MAX;

/// The minimum balance in lamports of an account with `data_len` bytes of data.
#[inline]
pub const fn minimum_balance(data_len: usize) -> u64 {
    (ACCOUNT_OVERHEAD_BYTES + data_len as u64).saturating_mul(LAMPORTS_PER_BYTE)
}

const _: () = assert!(minimum_balance(0) == 890_880);
const _: () = assert!(minimum_balance(165) == 2_039_280);

/// Whether the balance of an account whose owner stays and whose data does not grow may change from `before` to `after`
/// lamports: to zero, to at least the minimum, or, if the account exists, to any value that is not lower than before.
#[inline]
pub const fn transition_allowed(before: u64, after: u64, data_len: usize) -> bool {
    after == 0 || after >= minimum_balance(data_len) || (before != 0 && after >= before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_rent_states() {
        let minimum = minimum_balance(0);
        // Uninitialized → anything but a balance below the minimum.
        assert!(transition_allowed(0, 0, 0));
        assert!(!transition_allowed(0, 1, 0));
        assert!(!transition_allowed(0, minimum - 1, 0));
        assert!(transition_allowed(0, minimum, 0));
        // Exempt → never to a balance below the minimum.
        assert!(!transition_allowed(minimum, minimum - 1, 0));
        assert!(!transition_allowed(minimum, 1, 0));
        assert!(transition_allowed(minimum, 0, 0));
        // Below the minimum → may stay or rise, not fall.
        assert!(transition_allowed(100, 100, 0));
        assert!(transition_allowed(100, 101, 0));
        assert!(!transition_allowed(100, 99, 0));
        assert!(transition_allowed(100, 0, 0));
        // More data raises the minimum.
        assert!(!transition_allowed(0, minimum, 1));
        assert!(transition_allowed(0, minimum + LAMPORTS_PER_BYTE, 1));
    }
}
