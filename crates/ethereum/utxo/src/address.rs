//! Owners of outputs, and how a person writes one: bech32m (BIP 350) of the ed25519 public key, after `hearth1`.
//!
//! An address carries its own checksum, so that a mistyped one is refused instead of paid to.

use std::fmt;
use std::str::FromStr;

use bech32::{Bech32m, Hrp};

/// Human-readable part of an address, before the separator `1`.
pub const PREFIX: &str = "hearth";

/// The key that may spend an output: an ed25519 public key, as 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerKey(pub [u8; 32]);

/// Why a text is no address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    /// Not bech32m, or mistyped.
    #[error("not an address: {0}")]
    Text(String),
    /// The address has another prefix.
    #[error("not an address of this ledger: it begins with '{0}1', not with '{PREFIX}1'")]
    Prefix(String),
    /// Another count of bytes.
    #[error("not an address: {0} bytes, not 32")]
    Length(usize),
    /// The bytes are not a valid public key, so no signature could ever match.
    #[error("not an address: its bytes are no ed25519 public key")]
    NoKey,
}

impl fmt::Display for OwnerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = Hrp::parse(PREFIX).expect("letters");
        bech32::encode_to_fmt::<Bech32m, _>(f, prefix, &self.0).map_err(|_| fmt::Error)
    }
}

impl fmt::Debug for OwnerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for OwnerKey {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        // The crate decodes both checksums; only the newer one is an address here.
        let checked = bech32::primitives::decode::CheckedHrpstring::new::<Bech32m>(text)
            .map_err(|error| AddressError::Text(error.to_string()))?;
        if checked.hrp().as_str().to_ascii_lowercase() != PREFIX {
            return Err(AddressError::Prefix(checked.hrp().to_string()));
        }
        let bytes: Vec<u8> = checked.byte_iter().collect();
        let key: [u8; 32] = bytes.try_into().map_err(|bytes: Vec<u8>| AddressError::Length(bytes.len()))?;
        if !hearth_crypto::ed25519::is_point(&key) {
            return Err(AddressError::NoKey);
        }
        Ok(Self(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_crypto::ed25519::SigningKey;

    #[test]
    fn an_address_reads_back_and_a_mistyped_one_does_not() {
        let key = OwnerKey(SigningKey::from_seed(&[7; 32]).public_key());
        let text = key.to_string();
        assert!(text.starts_with("hearth1"), "{text}");
        assert_eq!(text.parse::<OwnerKey>(), Ok(key));
        assert_eq!(text.to_uppercase().parse::<OwnerKey>(), Ok(key));
        for at in 7..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'q' { b'p' } else { b'q' };
            assert!(String::from_utf8(wrong).unwrap().parse::<OwnerKey>().is_err(), "at {at}");
        }
    }

    #[test]
    fn invalid_address_is_named() {
        let encode =
            |prefix: &str, bytes: &[u8]| bech32::encode::<Bech32m>(Hrp::parse(prefix).unwrap(), bytes).unwrap();
        let key = SigningKey::from_seed(&[7; 32]).public_key();
        assert_eq!(encode("bc", &key).parse::<OwnerKey>(), Err(AddressError::Prefix("bc".into())));
        assert_eq!(encode(PREFIX, &key[1..]).parse::<OwnerKey>(), Err(AddressError::Length(31)));
        assert_eq!(encode(PREFIX, &[2; 32]).parse::<OwnerKey>(), Err(AddressError::NoKey));
        let older = bech32::encode::<bech32::Bech32>(Hrp::parse(PREFIX).unwrap(), &key).unwrap();
        assert!(matches!(older.parse::<OwnerKey>(), Err(AddressError::Text(_))));
        assert!(matches!("0x1234".parse::<OwnerKey>(), Err(AddressError::Text(_))));
    }
}
