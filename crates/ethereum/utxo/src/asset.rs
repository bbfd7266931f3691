//! Assets: the native one, and those issued by users.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{B256, Bytes};

use crate::address::OwnerKey;
use crate::codec::{Reader, Writer};

/// The longest code of an asset, in bytes.
pub const CODE_MAX: usize = 16;

/// An asset's id: all zeros for the native one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct AssetId(pub B256);

impl AssetId {
    /// The asset that fees are paid in and that passes to the EVM.
    pub const NATIVE: Self = Self(B256::ZERO);

    /// Whether it is the native one.
    pub fn is_native(&self) -> bool {
        *self == Self::NATIVE
    }
}

impl fmt::Display for AssetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_native() { f.write_str("native") } else { write!(f, "{:?}", self.0) }
    }
}

impl FromStr for AssetId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "native" => Ok(Self::NATIVE),
            _ => text
                .parse()
                .map(Self)
                .map_err(|_| format!("'{text}' is not an asset: 'native', or 0x and 64 hex digits")),
        }
    }
}

/// The ledger's record of an issued asset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asset {
    /// A short name for people; it need not be the only one of its kind.
    pub code: String,
    /// Digits after the point when an amount is written.
    pub decimals: u8,
    /// Whether its issuer may issue more of it.
    pub open: bool,
    /// The key that issued it.
    pub issuer: OwnerKey,
    /// Units in all outputs.
    pub supply: u64,
}

impl Asset {
    /// The bytes that stand for it in the hash of the set.
    pub(crate) fn element(&self, id: &AssetId) -> Vec<u8> {
        let mut writer = Writer::tagged(b"asset");
        writer.fixed(&id.0.0).bytes(self.code.as_bytes()).fixed(&[self.decimals, self.open.into()]);
        writer.fixed(&self.issuer.0).fixed(&self.supply.to_le_bytes());
        writer.done()
    }
}

/// Whether `code` may be an asset's: 1 to 16 letters, digits, and `-._`.
pub fn is_code(code: &str) -> bool {
    let letters = code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    !code.is_empty() && code.len() <= CODE_MAX && letters
}

/// Encodes an asset for a transaction: the native one as empty bytes.
pub(crate) fn to_wire(id: &AssetId) -> Bytes {
    if id.is_native() { Bytes::new() } else { id.0.0.into() }
}

/// Decodes an asset from a transaction; `None` if the bytes are invalid.
pub(crate) fn from_wire(bytes: &[u8]) -> Option<AssetId> {
    match bytes.len() {
        0 => Some(AssetId::NATIVE),
        32 => Some(AssetId(B256::from_slice(bytes))).filter(|id| !id.is_native()),
        _ => None,
    }
}

/// Whether a reader of a stored element is at its end; stored bytes are our own, so leftover bytes mean corruption.
pub(crate) fn at_end(reader: &Reader<'_>) -> bool {
    reader.rest().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assets_name_reads_back() {
        let id = AssetId(B256::repeat_byte(1));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("native".parse(), Ok(AssetId::NATIVE));
        assert!("gold".parse::<AssetId>().is_err());
    }

    #[test]
    fn codes_are_short_and_plain() {
        assert!(is_code("GOLD") && is_code("a.b-c_9") && is_code(&"x".repeat(CODE_MAX)));
        assert!(!is_code("") && !is_code(&"x".repeat(CODE_MAX + 1)) && !is_code("gold coin") && !is_code("gøld"));
    }

    #[test]
    fn the_native_asset_has_one_form_on_the_wire() {
        assert_eq!(from_wire(&[]), Some(AssetId::NATIVE));
        assert_eq!(from_wire(&[0; 32]), None);
        assert_eq!(from_wire(&[1; 31]), None);
        let id = AssetId(B256::repeat_byte(3));
        assert_eq!(from_wire(&to_wire(&id)), Some(id));
    }
}
