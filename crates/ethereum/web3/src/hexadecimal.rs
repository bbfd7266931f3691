//! Quantities and data as clients write them.
//!
//! reads   the text within a JSON string
//! writes  numbers and bytes
//! memory  the bytes
//! drops   anything that is no quantity or data: the error has geth's words, which tools look for
//! source  `common/hexutil` of go-ethereum 1.16

use alloy_primitives::{U256, hex};

/// Why a text is no quantity or no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// The text is empty.
    #[error("empty hex string")]
    Empty,
    /// The `0x` prefix is missing.
    #[error("hex string without 0x prefix")]
    NoPrefix,
    /// The number of digits is odd.
    #[error("hex string of odd length")]
    OddLength,
    /// A number has no digits.
    #[error("hex string \"0x\"")]
    NoDigits,
    /// A number has leading zeros.
    #[error("hex number with leading zero digits")]
    LeadingZero,
    /// A number exceeds 64 bits.
    #[error("hex number > 64 bits")]
    Over64,
    /// A number exceeds 256 bits.
    #[error("hex number > 256 bits")]
    Over256,
    /// A character is no hexadecimal digit.
    #[error("invalid hex string")]
    Digit,
}

fn digits(text: &str) -> Result<&str, HexError> {
    if text.is_empty() {
        return Err(HexError::Empty);
    }
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).ok_or(HexError::NoPrefix)
}

fn number(text: &str) -> Result<&str, HexError> {
    let digits = digits(text)?;
    match digits.as_bytes() {
        [] => Err(HexError::NoDigits),
        [b'0', _, ..] => Err(HexError::LeadingZero),
        _ => Ok(digits),
    }
}

/// Parses a number of at most 64 bits.
pub fn quantity(text: &str) -> Result<u64, HexError> {
    let digits = number(text)?;
    if digits.len() > 16 {
        return Err(HexError::Over64);
    }
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(HexError::Digit);
    }
    u64::from_str_radix(digits, 16).map_err(|_| HexError::Digit)
}

/// Parses a number of at most 256 bits.
pub fn quantity_256(text: &str) -> Result<U256, HexError> {
    wide(number(text)?)
}

/// As [`quantity_256`], but allows leading zeros: clients write storage keys as words.
pub fn word(text: &str) -> Result<U256, HexError> {
    match digits(text)? {
        "" => Err(HexError::NoDigits),
        digits => wide(digits),
    }
}

fn wide(digits: &str) -> Result<U256, HexError> {
    if digits.len() > 64 {
        return Err(HexError::Over256);
    }
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(HexError::Digit);
    }
    U256::from_str_radix(digits, 16).map_err(|_| HexError::Digit)
}

/// Parses bytes: an even number of digits behind `0x`.
pub fn data(text: &str) -> Result<Vec<u8>, HexError> {
    let digits = digits(text)?;
    if !digits.len().is_multiple_of(2) {
        return Err(HexError::OddLength);
    }
    hex::decode(digits.as_bytes()).map_err(|_| HexError::Digit)
}

/// Parses exactly `N` bytes, of what geth calls `type_name`.
pub fn fixed<const N: usize>(text: &str, type_name: &str) -> Result<[u8; N], String> {
    let digits = digits(text).map_err(|why| why.to_string())?;
    if digits.len() != 2 * N {
        return Err(format!("hex string has length {}, want {} for {type_name}", digits.len(), 2 * N));
    }
    let mut bytes = [0; N];
    hex::decode_to_slice(digits.as_bytes(), &mut bytes).map_err(|_| HexError::Digit.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_geths() {
        let table = [
            ("0x0", Ok(0)),
            ("0x41", Ok(65)),
            ("0XfF", Ok(255)),
            ("0xffffffffffffffff", Ok(u64::MAX)),
            ("", Err(HexError::Empty)),
            ("41", Err(HexError::NoPrefix)),
            ("0x", Err(HexError::NoDigits)),
            ("0x00", Err(HexError::LeadingZero)),
            ("0x01", Err(HexError::LeadingZero)),
            ("0x10000000000000000", Err(HexError::Over64)),
            ("0xg", Err(HexError::Digit)),
            ("0x+1", Err(HexError::Digit)),
        ];
        for (text, expected) in table {
            assert_eq!(quantity(text), expected, "{text}");
        }
        let widest = format!("0x{}", "f".repeat(64));
        assert_eq!(quantity_256(&widest), Ok(U256::MAX));
        assert_eq!(quantity_256(&format!("{widest}0")), Err(HexError::Over256));
        assert_eq!(word("0x0001"), Ok(U256::ONE));
        assert_eq!(word("0x"), Err(HexError::NoDigits));
    }

    #[test]
    fn data_is_geths() {
        assert_eq!(data("0x"), Ok(vec![]));
        assert_eq!(data("0x0aFf"), Ok(vec![10, 255]));
        assert_eq!(data("0x0"), Err(HexError::OddLength));
        assert_eq!(data("0aff"), Err(HexError::NoPrefix));
        assert_eq!(data("0xzz"), Err(HexError::Digit));
        assert_eq!(data("0x0x0x"), Err(HexError::Digit));
        assert_eq!(fixed::<2>("0x0102", "common.Two"), Ok([1, 2]));
        let short = fixed::<2>("0x01", "common.Two").unwrap_err();
        assert_eq!(short, "hex string has length 2, want 4 for common.Two");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,80}") {
            let _ = (quantity(&text), quantity_256(&text), word(&text), data(&text), fixed::<4>(&text, "x"));
        }

        #[test]
        fn numbers_come_back(number: u64) {
            proptest::prop_assert_eq!(quantity(&format!("{number:#x}")), Ok(number));
        }
    }
}
