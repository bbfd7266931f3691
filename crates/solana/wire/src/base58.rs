//! Base58, the text form of addresses, hashes (32 bytes) and signatures (64 bytes).
//!
//! reads   32 or 64 bytes, or their text
//! writes  text on the stack, or the bytes
//! memory  88 characters and a length, `Copy`
//! drops   text that is not the one encoding of exactly 32 or 64 bytes: a [`Base58Error`]
//! source  the crate `five8`, which the cluster's own crates use; compared with `bs58` in the tests

use std::fmt;
use std::ops::Deref;

/// Maximum characters of 32 bytes.
pub const TEXT_32_MAX: usize = 44;
/// Maximum characters of 64 bytes.
pub const TEXT_64_MAX: usize = 88;

/// A base58 text on the stack; reads as a `&str`.
#[derive(Clone, Copy)]
pub struct Text<const MAX: usize> {
    characters: [u8; MAX],
    len: u8,
}

impl<const MAX: usize> Deref for Text<MAX> {
    type Target = str;

    fn deref(&self) -> &str {
        str::from_utf8(&self.characters[..usize::from(self.len)]).expect("base58 is ASCII")
    }
}

impl<const MAX: usize> fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl<const MAX: usize> fmt::Debug for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// Why a text is not base58 of the expected length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Base58Error {
    /// A character that is not in the alphabet: letters and digits without 0, O, I and l.
    #[error("character {0:?} is not base58")]
    Character(char),
    /// The text encodes more or fewer bytes.
    #[error("not the base58 of {0} bytes")]
    Length(usize),
}

impl Base58Error {
    fn from_five8(error: five8::DecodeError, bytes: usize) -> Self {
        match error {
            five8::DecodeError::InvalidChar(byte) => Self::Character(char::from(byte)),
            _ => Self::Length(bytes),
        }
    }
}

/// Encodes an address or a hash.
pub fn encode_32(bytes: &[u8; 32]) -> Text<TEXT_32_MAX> {
    let mut characters = [0; TEXT_32_MAX];
    let len = five8::encode_32(bytes, &mut characters);
    Text { characters, len }
}

/// Encodes a signature, or other 64 bytes.
pub fn encode_64(bytes: &[u8; 64]) -> Text<TEXT_64_MAX> {
    let mut characters = [0; TEXT_64_MAX];
    let len = five8::encode_64(bytes, &mut characters);
    Text { characters, len }
}

/// Decodes an address or a hash.
pub fn decode_32(text: &str) -> Result<[u8; 32], Base58Error> {
    let mut bytes = [0; 32];
    five8::decode_32(text, &mut bytes).map_err(|error| Base58Error::from_five8(error, 32))?;
    Ok(bytes)
}

/// Decodes a signature, or other 64 bytes.
pub fn decode_64(text: &str) -> Result<[u8; 64], Base58Error> {
    let mut bytes = [0; 64];
    five8::decode_64(text, &mut bytes).map_err(|error| Base58Error::from_five8(error, 64))?;
    Ok(bytes)
}

const _: () = assert!(TEXT_32_MAX == five8::BASE58_ENCODED_32_MAX_LEN);
const _: () = assert!(TEXT_64_MAX == five8::BASE58_ENCODED_64_MAX_LEN);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refusals_say_why() {
        assert_eq!(decode_32("O"), Err(Base58Error::Character('O')));
        assert_eq!(decode_32("1"), Err(Base58Error::Length(32)));
        assert_eq!(decode_32(&"z".repeat(44)), Err(Base58Error::Length(32)));
        assert_eq!(decode_32(&"1".repeat(33)), Err(Base58Error::Length(32)));
        assert_eq!(decode_64(&"z".repeat(89)), Err(Base58Error::Length(64)));
        assert!(decode_32("é").is_err() && decode_32("").is_err());
    }

    fn mostly_zero<const N: usize>() -> impl Strategy<Value = [u8; N]> {
        (0..=N, prop::collection::vec(any::<u8>(), N)).prop_map(|(zeros, mut bytes)| {
            bytes[..zeros].fill(0);
            bytes.try_into().unwrap()
        })
    }

    proptest! {
        #[test]
        fn equals_an_independent_encoder(a in mostly_zero::<32>(), b in mostly_zero::<64>()) {
            prop_assert_eq!(&*encode_32(&a), bs58::encode(a).into_string());
            prop_assert_eq!(&*encode_64(&b), bs58::encode(b).into_string());
            prop_assert_eq!(decode_32(&encode_32(&a)), Ok(a));
            prop_assert_eq!(decode_64(&encode_64(&b)), Ok(b));
        }

        #[test]
        fn accepts_what_an_independent_decoder_accepts(text in "[1-9A-HJ-NP-Za-km-z]{30,46}|[1-9A-HJ-NP-Za-km-z]{85,90}|.{0,50}") {
            let bytes = bs58::decode(&text).into_vec().unwrap_or_default();
            prop_assert_eq!(decode_32(&text).ok().map(Vec::from), (bytes.len() == 32).then(|| bytes.clone()));
            prop_assert_eq!(decode_64(&text).ok().map(Vec::from), (bytes.len() == 64).then_some(bytes));
        }
    }
}
