//! statuses: what became of the transactions of the last 300 rooted slots, so that none lands twice.
//!
//! reads   the file `snapshots/status_cache` of an archive
//! writes  the same
//! memory  32 bytes a transaction
//! source  `solana-runtime` 4.2, `serde_snapshot/status_cache.rs`, and what `snapshot_bank_utils.rs` demands of it;
//!         `status_cache.rs` for the keys

use std::collections::{BTreeMap, HashSet};
use std::io::Read;

use hearth_wire::{Hash, Txn};

use super::codec::{Decoder, Encoder};
use super::error::Fault;
use super::errors::{decode_result, encode_result};
use crate::error::TransactionError;
use crate::status_cache::message_hash;

/// Most slots in the file.
pub const SLOTS_MAX: usize = 300;
/// Bytes of the part of a transaction's key that is kept.
pub const KEY_SIZE: usize = 20;

/// A transaction's key and result.
pub type KeyedStatus = ([u8; KEY_SIZE], Result<(), TransactionError>);

/// The transactions of a slot that named the same blockhash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashStatuses {
    /// The blockhash that they named.
    pub blockhash: Hash,
    /// Which 20 bytes of a message's hash or a signature are the key: from this byte on. Agave 4.2 takes the first.
    pub key_index: u64,
    /// The transactions. Each is there twice: by its message's hash, and by its signature.
    pub statuses: Vec<KeyedStatus>,
}

/// The transactions of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotStatuses {
    /// The slot of their block.
    pub slot: u64,
    /// Its transactions, by the blockhash that they named.
    pub hashes: Vec<HashStatuses>,
}

impl SlotStatuses {
    /// The statuses of a block: its transactions, each with its result.
    pub fn of_block<'a>(
        slot: u64,
        transactions: impl IntoIterator<Item = (Txn<'a>, Result<(), TransactionError>)>,
    ) -> Self {
        let mut by_hash = BTreeMap::<Hash, Vec<KeyedStatus>>::new();
        for (txn, result) in transactions {
            let statuses = by_hash.entry(*txn.recent_blockhash()).or_default();
            statuses.push((key(&message_hash(txn.message())), result));
            statuses.push((key(txn.first_signature()), result));
        }
        let of_hash = |(blockhash, statuses)| HashStatuses { blockhash, key_index: 0, statuses };
        Self { slot, hashes: by_hash.into_iter().map(of_hash).collect() }
    }
}

/// The part of a hash or a signature that is kept.
fn key(bytes: &[u8]) -> [u8; KEY_SIZE] {
    *bytes.first_chunk().expect("a hash has 32 bytes, a signature 64")
}

/// The slots' transactions as a file.
pub(super) fn encode(slots: &[SlotStatuses]) -> Vec<u8> {
    let mut to = Encoder::default();
    to.many(slots, |to, slot| {
        to.u64(slot.slot);
        to.flag(true); // A root.
        to.many(&slot.hashes, |to, hash| {
            to.raw(&hash.blockhash);
            to.u64(hash.key_index);
            to.many(&hash.statuses, |to, (key, result)| {
                to.raw(key);
                encode_result(*result, to);
            });
        });
    });
    to.0
}

/// Reads a file of `len` bytes.
pub(super) fn decode(from: impl Read, len: u64) -> Result<Vec<SlotStatuses>, Fault> {
    let mut from = Decoder::new(from, len);
    let slots = from.many(8 + 1 + 8, |from| {
        let slot = from.u64()?;
        if !from.flag()? {
            return Err(Fault::Malformed("statuses of a slot that is not rooted"));
        }
        let hashes = from.many(32 + 8 + 8, |from| {
            let (blockhash, key_index) = (from.array()?, from.u64()?);
            let statuses = from.many(KEY_SIZE as u64 + 4, |from| Ok((from.array()?, decode_result(from)?)))?;
            Ok(HashStatuses { blockhash, key_index, statuses })
        })?;
        Ok(SlotStatuses { slot, hashes })
    })?;
    from.end()?;
    Ok(slots)
}

/// Checks what the cluster demands of the statuses at the end of `slot`.
pub(super) fn check(slots: &[SlotStatuses], slot: u64) -> Result<(), Fault> {
    if slots.len() > SLOTS_MAX {
        return Err(Fault::TooLarge { what: "slots with statuses", most: SLOTS_MAX as u64 });
    }
    let mut seen = HashSet::new();
    match slots.iter().all(|statuses| statuses.slot <= slot && seen.insert(statuses.slot)) {
        true => Ok(()),
        false => Err(Fault::Malformed("statuses of a later slot, or of one slot twice")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builders::transfer;
    use crate::genesis::funded_account_key;

    fn sample() -> Vec<SlotStatuses> {
        let statuses = vec![([1; 20], Ok(())), ([2; 20], Err(TransactionError::DuplicateInstruction(4)))];
        let hash = HashStatuses { blockhash: [9; 32], key_index: 11, statuses };
        let empty = HashStatuses { blockhash: [8; 32], key_index: 0, statuses: vec![] };
        vec![SlotStatuses { slot: 5, hashes: vec![hash, empty] }, SlotStatuses { slot: 7, hashes: vec![] }]
    }

    #[test]
    fn statuses_come_back() {
        let bytes = encode(&sample());
        assert_eq!(decode(&bytes[..], bytes.len() as u64).unwrap(), sample());
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], len as u64).is_err(), "{len}");
            assert!(matches!(decode(&bytes[..len], bytes.len() as u64), Err(Fault::Cut)), "{len}");
        }
    }

    #[test]
    fn a_block_s_transactions_are_kept_by_message_and_signature() {
        let from = funded_account_key(0);
        let bytes = [(1, [7; 32]), (2, [6; 32]), (3, [7; 32])].map(|(n, hash)| transfer(&from, &[9; 32], n, &hash));
        let failed = Err(TransactionError::AccountNotFound);
        let results = [Ok(()), failed, failed];
        let txns = bytes.each_ref().map(|bytes| Txn::parse(bytes).unwrap());
        let slot = SlotStatuses::of_block(8, txns.iter().copied().zip(results));
        let found: Vec<_> =
            slot.hashes.iter().map(|hash| (hash.blockhash, hash.key_index, hash.statuses.len())).collect();
        assert_eq!((slot.slot, found), (8, vec![([6; 32], 0, 2), ([7; 32], 0, 4)]));
        let third = &slot.hashes[1].statuses[2..];
        let hash = blake3::hash(&[&b"solana-tx-message-v1"[..], txns[2].message()].concat());
        assert_eq!(third[0], (*hash.as_bytes().first_chunk().unwrap(), failed));
        assert_eq!(third[1], (*txns[2].first_signature().first_chunk().unwrap(), failed));
    }

    #[test]
    fn a_count_that_lies_takes_no_memory() {
        let bytes = u64::MAX.to_le_bytes();
        assert!(matches!(decode(&bytes[..], 8), Err(Fault::Malformed(_))));
        let bytes = (1u64 << 40).to_le_bytes();
        assert!(matches!(decode(&bytes[..], u64::MAX), Err(Fault::Cut)));
    }

    #[test]
    fn slots_are_checked() {
        assert!(check(&sample(), 7).is_ok());
        assert!(check(&sample(), 6).is_err(), "a later slot");
        let twice = [sample(), sample()].concat();
        assert!(check(&twice, 7).is_err());
        let many: Vec<_> = (0..=SLOTS_MAX as u64).map(|slot| SlotStatuses { slot, hashes: vec![] }).collect();
        assert!(check(&many, 1000).is_err());
        assert!(check(&many[1..], 1000).is_ok());
    }
}
