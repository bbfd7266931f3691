//! Outputs: amounts of an asset that a key may spend, once.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{B256, Bytes};
use hearth_crypto::keccak::keccak256;

use crate::address::OwnerKey;
use crate::asset::AssetId;
use crate::codec::Writer;

/// The longest memo, in bytes.
pub const MEMO_MAX: usize = 256;

/// Names an output: which transaction made it, and where in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutPoint {
    /// The id of the transaction that made it.
    pub transaction: B256,
    /// Index among the transaction's outputs.
    pub index: u32,
}

impl OutPoint {
    /// The asset that a transaction with this first input issues. An output is spent once, so no two are the same.
    pub fn asset_issued(&self, chain_id: u64) -> AssetId {
        let mut message = b"hearth utxo asset".to_vec();
        message.extend(chain_id.to_be_bytes());
        message.extend(self.transaction);
        message.extend(self.index.to_be_bytes());
        AssetId(B256::new(keccak256(&message)))
    }
}

impl fmt::Display for OutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{}", self.transaction, self.index)
    }
}

impl fmt::Debug for OutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for OutPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(transaction, index)| {
            Some(Self { transaction: transaction.parse().ok()?, index: index.parse().ok()? })
        });
        parts.ok_or_else(|| format!("'{text}' is not an output: 0x and 64 hex digits, a colon, and a number"))
    }
}

/// An amount that a key may spend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// The asset that it holds.
    pub asset: AssetId,
    /// How many units; never 0.
    pub amount: u64,
    /// The key that may spend it.
    pub owner: OwnerKey,
    /// Free text of the sender; at most [`MEMO_MAX`] bytes, and public.
    pub memo: Bytes,
}

impl Output {
    /// The bytes that stand for it in the hash of the set.
    pub(crate) fn element(&self, at: &OutPoint) -> Vec<u8> {
        let mut writer = Writer::tagged(b"output");
        writer.fixed(&at.transaction.0).fixed(&at.index.to_le_bytes());
        writer.fixed(&self.asset.0.0).fixed(&self.amount.to_le_bytes()).fixed(&self.owner.0).bytes(&self.memo);
        writer.done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asset_is_named_by_what_issued_it() {
        let input = OutPoint { transaction: B256::repeat_byte(1), index: 0 };
        let other = OutPoint { index: 1, ..input };
        assert_ne!(input.asset_issued(1), other.asset_issued(1));
        assert_ne!(input.asset_issued(1), input.asset_issued(2));
    }

    #[test]
    fn an_output_s_name_reads_back() {
        let at = OutPoint { transaction: B256::repeat_byte(0xab), index: 7 };
        assert_eq!(at.to_string().parse(), Ok(at));
        for text in ["", "0x00:1", "7", &format!("{:?}", at.transaction)] {
            assert!(text.parse::<OutPoint>().is_err(), "{text}");
        }
    }
}
