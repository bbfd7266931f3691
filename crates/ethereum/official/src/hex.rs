//! Numbers and bytes of the tests' JSON: hexadecimal, with leading zeros or without.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde_json::Value;

/// The text of a field.
pub fn text<'a>(json: &'a Value, name: &str) -> Result<&'a str, String> {
    json.get(name).and_then(Value::as_str).ok_or_else(|| format!("`{name}` is not text"))
}

/// The bytes of a text that begins with `0x`.
pub fn bytes(text: &str) -> Result<Bytes, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    alloy_primitives::hex::decode(digits).map(Bytes::from).map_err(|error| format!("{text:.20}: {error}"))
}

/// A number, in hexadecimal where it begins with `0x`.
pub fn number(text: &str) -> Result<U256, String> {
    let parsed = match text.strip_prefix("0x") {
        Some("") => Ok(U256::ZERO),
        Some(digits) => U256::from_str_radix(digits, 16),
        None => U256::from_str_radix(text, 10),
    };
    parsed.map_err(|error| format!("{text:.70}: {error}"))
}

/// A number of 64 bits.
pub fn small(text: &str) -> Result<u64, String> {
    u64::try_from(number(text)?).map_err(|_| format!("{text:.70}: more than 64 bits"))
}

/// A field with a number of 64 bits.
pub fn small_of(json: &Value, name: &str) -> Result<u64, String> {
    small(text(json, name)?).map_err(|why| format!("`{name}`: {why}"))
}

/// A word of 32 bytes, which may be written shorter.
pub fn word(text: &str) -> Result<B256, String> {
    Ok(B256::from(number(text)?.to_be_bytes::<32>()))
}

/// An address: 20 bytes in hexadecimal.
pub fn address(text: &str) -> Result<Address, String> {
    let bytes = bytes(text)?;
    if bytes.len() == Address::len_bytes() {
        Ok(Address::from_slice(&bytes))
    } else {
        Err(format!("{text}: no address"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_leading_zeros_or_not() {
        assert_eq!([small("0x0f"), small("0xf"), small("15"), small("0x")], [Ok(15), Ok(15), Ok(15), Ok(0)]);
        assert!(small("0x010000000000000000").is_err());
        assert!(number("0xzz").is_err());
        assert_eq!(bytes("0x00ff").map(|bytes| bytes.to_vec()), Ok(vec![0, 255]));
        assert_eq!(word("0x05"), Ok(B256::with_last_byte(5)));
        assert_eq!(address(&format!("0x{}", "07".repeat(20))), Ok(Address::repeat_byte(7)));
        assert!(address("0x07").is_err());
    }
}
