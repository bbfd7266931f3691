//! Rent: the balance that an account must hold to stay, and which changes of it are allowed.
//!
//! reads   an account's balance and data size, before and after
//! writes  nothing
//! memory  none
//! source  `solana-rent` 4.3, `rent_calculator.rs` of `solana-svm` 4.2 with every feature active:
//!         an account that already was below the minimum may stay there while it is not debited

/// Bytes that an account costs beyond its data.
pub const ACCOUNT_OVERHEAD_BYTES: u64 = 128;
/// Lamports that an account must hold for each of its bytes.
pub const LAMPORTS_PER_BYTE: u64 = 6_960;
/// The most data that an account may have.
pub const MAX_DATA_BYTES: usize = 10 * 1024 * 1024;
/// The rent epoch of an account that pays no rent, which today is every account.
pub const RENT_EXEMPT_EPOCH: u64 = u64::MAX;

/// The least balance, in lamports, with which an account of `data_len` bytes may be left.
#[inline]
pub const fn minimum_balance(data_len: usize) -> u64 {
    (ACCOUNT_OVERHEAD_BYTES + data_len as u64).saturating_mul(LAMPORTS_PER_BYTE)
}

const _: () = assert!(minimum_balance(0) == 890_880);
const _: () = assert!(minimum_balance(165) == 2_039_280);

/// Whether an account whose owner does not change and whose data does not grow may go from
/// `before` to `after` lamports: to nothing, to the minimum or more, or, if it exists, anywhere not
/// below where it was.
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
        // Uninitialized → anything but below the minimum.
        assert!(transition_allowed(0, 0, 0));
        assert!(!transition_allowed(0, 1, 0));
        assert!(!transition_allowed(0, minimum - 1, 0));
        assert!(transition_allowed(0, minimum, 0));
        // Exempt → never partly below.
        assert!(!transition_allowed(minimum, minimum - 1, 0));
        assert!(!transition_allowed(minimum, 1, 0));
        assert!(transition_allowed(minimum, 0, 0));
        // Below the minimum → may stay or rise, not sink.
        assert!(transition_allowed(100, 100, 0));
        assert!(transition_allowed(100, 101, 0));
        assert!(!transition_allowed(100, 99, 0));
        assert!(transition_allowed(100, 0, 0));
        // Data raises the bar.
        assert!(!transition_allowed(0, minimum, 1));
        assert!(transition_allowed(0, minimum + LAMPORTS_PER_BYTE, 1));
    }
}
