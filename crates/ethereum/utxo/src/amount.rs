//! Converts amounts between their text form, units, and the EVM's wei.
//!
//! The native asset has 6 decimals here and 18 in the EVM: one unit is 10¹² wei, and 10³ gwei, in which a withdrawal
//! is counted (EIP-4895). Amounts cross between the ledgers exactly; a fraction of a unit cannot cross.

use alloy_primitives::U256;

/// Decimals of the native asset on this ledger.
pub const NATIVE_DECIMALS: u8 = 6;
/// Wei in a unit of the native asset.
pub const WEI_PER_UNIT: u64 = 1_000_000_000_000;
/// Gwei in a unit of the native asset.
pub const GWEI_PER_UNIT: u64 = 1_000;
const _: () = assert!(GWEI_PER_UNIT * 1_000_000_000 == WEI_PER_UNIT);
const _: () = assert!(WEI_PER_UNIT == 10u64.pow(18 - NATIVE_DECIMALS as u32));

/// The most units in one transfer between the ledgers: a withdrawal holds a `u64` of gwei.
pub const CROSSING_MAX: u64 = u64::MAX / GWEI_PER_UNIT;

/// The most decimals of an asset: those of `u64::MAX` units are still some.
pub const DECIMALS_MAX: u8 = 18;

/// Why a text is no amount.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AmountError {
    /// Not digits with at most one point.
    #[error("'{0}' is not an amount: digits, and at most one point")]
    Text(String),
    /// More digits after the point than the asset has.
    #[error("'{text}' has more than {decimals} digits after the point")]
    Decimals {
        /// The text that was given.
        text: String,
        /// How many there may be.
        decimals: u8,
    },
    /// More than a `u64` of units.
    #[error("'{0}' is more than an output can hold")]
    Large(String),
}

/// The units of `text`, a decimal number of whole assets.
pub fn parse(text: &str, decimals: u8) -> Result<u64, AmountError> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || (whole.is_empty() && part.is_empty()) {
        return Err(AmountError::Text(text.into()));
    }
    let part = part.trim_end_matches('0');
    if part.len() > usize::from(decimals) {
        return Err(AmountError::Decimals { text: text.into(), decimals });
    }
    let number: String = [whole, part, &"0".repeat(usize::from(decimals) - part.len())].concat();
    // Leading zeros do not count toward the length.
    let number = number.trim_start_matches('0');
    if number.is_empty() { Ok(0) } else { number.parse().map_err(|_| AmountError::Large(text.into())) }
}

/// An amount of units, as a decimal number of whole assets, without zeros at its end.
pub fn format(units: u128, decimals: u8) -> String {
    let digits = format!("{units:0>width$}", width = usize::from(decimals) + 1);
    let (whole, part) = digits.split_at(digits.len() - usize::from(decimals));
    let part = part.trim_end_matches('0');
    if part.is_empty() { whole.into() } else { format!("{whole}.{part}") }
}

/// Converts units to wei.
pub fn to_wei(units: u128) -> U256 {
    U256::from(units) * U256::from(WEI_PER_UNIT)
}

/// Converts wei to units; `None` if that is not exact, or more than may cross at once.
pub fn from_wei(wei: U256) -> Option<u64> {
    let (units, rest) = wei.div_rem(U256::from(WEI_PER_UNIT));
    let units = u64::try_from(units).ok()?;
    (rest.is_zero() && units <= CROSSING_MAX).then_some(units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_read_as_written() {
        assert_eq!(parse("1", 6), Ok(1_000_000));
        assert_eq!(parse("0.000001", 6), Ok(1));
        assert_eq!(parse(".5", 1), Ok(5));
        assert_eq!(parse("5.", 0), Ok(5));
        assert_eq!(parse("0001.1000", 1), Ok(11));
        assert_eq!(parse("0", 6), Ok(0));
        assert_eq!(parse("18446744073709.551615", 6), Ok(u64::MAX));
        assert_eq!(parse("18446744073709.551616", 6), Err(AmountError::Large("18446744073709.551616".into())));
        assert!(matches!(parse("0.0000001", 6), Err(AmountError::Decimals { .. })));
        for text in ["", ".", "-1", "+1", "1e3", "1,5", "1.2.3", " 1", "0x1"] {
            assert_eq!(parse(text, 6), Err(AmountError::Text(text.into())), "{text:?}");
        }
    }

    #[test]
    fn wei_that_are_no_whole_units_do_not_pass() {
        assert_eq!(from_wei(U256::from(WEI_PER_UNIT)), Some(1));
        assert_eq!(from_wei(U256::from(WEI_PER_UNIT + 1)), None);
        assert_eq!(from_wei(U256::ZERO), Some(0));
        assert_eq!(from_wei(to_wei(CROSSING_MAX.into())), Some(CROSSING_MAX));
        assert_eq!(from_wei(to_wei(u128::from(CROSSING_MAX) + 1)), None);
        assert_eq!(from_wei(U256::MAX), None);
        assert!(CROSSING_MAX.checked_mul(GWEI_PER_UNIT).is_some());
    }

    proptest! {
        #[test]
        fn printed_amount_reads_back(units: u64, decimals in 0u8..=DECIMALS_MAX) {
            prop_assert_eq!(parse(&format(units.into(), decimals), decimals), Ok(units));
        }
    }
}
