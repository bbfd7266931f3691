//! A log's record: what one block set.

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY};

use super::super::code::{NO_CODE, bytecode};
use super::super::flat_state::{FlatState, SlimAccount};
use super::super::write_batch::WriteBatch;
use super::bytes::ByteReader;

const GONE: u8 = 0;
const PLAIN: u8 = 1;
const WITH_CODE: u8 = 2;

/// The values that one block set, or that going back to a block restored.
pub(crate) struct Record {
    /// Number of records before this one, in all log files.
    pub(crate) sequence: u64,
    /// Up to which record the log was surely on disk when this was written.
    pub(crate) synced: u64,
    /// The block's number; if it is not above the newest, that block and later ones are taken back first.
    pub(crate) number: u64,
    /// The hash of that block.
    pub(crate) block_hash: B256,
    /// The root of the state after it.
    pub(crate) state_root: B256,
}

impl Record {
    /// Appends the record with its changes. `codes` are the numbers of codes that no earlier record has.
    pub(crate) fn encode(&self, applied: &WriteBatch, flat: &FlatState, codes: &[u32], out: &mut Vec<u8>) {
        for number in [self.sequence, self.synced, self.number] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(self.block_hash.as_slice());
        out.extend_from_slice(self.state_root.as_slice());
        for count in [codes.len(), applied.accounts.len(), applied.slots.len()] {
            out.extend_from_slice(&u32::try_from(count).expect("a block touches fewer than 2^32").to_le_bytes());
        }
        for number in codes {
            let code = flat.codes.get(*number).1.original_bytes();
            out.extend_from_slice(&u32::try_from(code.len()).expect("a code is short").to_le_bytes());
            out.extend_from_slice(&code);
        }
        for (address, after) in &applied.accounts {
            out.extend_from_slice(address.as_slice());
            let Some(slim) = after else {
                out.push(GONE);
                continue;
            };
            out.push(if slim.code() == NO_CODE { PLAIN } else { WITH_CODE });
            out.extend_from_slice(&slim.nonce().to_le_bytes());
            out.extend_from_slice(&slim.balance().to_le_bytes::<32>());
            if slim.code() != NO_CODE {
                out.extend_from_slice(flat.codes.get(slim.code()).0.as_slice());
            }
        }
        for ((address, slot), value) in &applied.slots {
            out.extend_from_slice(address.as_slice());
            out.extend_from_slice(slot);
            out.extend_from_slice(value);
        }
    }

    /// The beginning of a record.
    pub(super) fn head(take: &mut ByteReader<'_>) -> Option<Self> {
        let (sequence, synced, number) = (take.u64()?, take.u64()?, take.u64()?);
        let (block_hash, state_root) = (take.array()?.into(), take.array()?.into());
        Some(Self { sequence, synced, number, block_hash, state_root })
    }

    /// Decodes a record and its changes; adds its codes to the known ones.
    pub(crate) fn decode(bytes: &[u8], flat: &FlatState) -> Option<(Self, WriteBatch)> {
        let mut take = ByteReader(bytes);
        let head = Self::head(&mut take)?;
        let (codes, accounts, slots) = (take.u32()?, take.u32()?, take.u32()?);
        for _ in 0..codes {
            let len = take.u32()? as usize;
            add_code(flat, take.slice(len)?);
        }
        let mut applied = WriteBatch::default();
        for _ in 0..accounts {
            let address = Address::from(take.array()?);
            let kind = take.byte()?;
            let after = match kind {
                GONE => None,
                PLAIN | WITH_CODE => {
                    let (nonce, balance) = (take.u64()?, take.array::<32>()?);
                    let hash = if kind == WITH_CODE { take.array()?.into() } else { KECCAK256_EMPTY };
                    let code = flat.codes.number(&hash)?;
                    Some(SlimAccount::new(alloy_primitives::U256::from_le_bytes(balance), nonce, code))
                }
                _ => return None,
            };
            applied.accounts.push((address, after));
        }
        for _ in 0..slots {
            let key = (Address::from(take.array()?), take.array()?);
            applied.slots.push((key, take.array()?));
        }
        let sorted = applied.accounts.is_sorted_by(|a, b| a.0 < b.0) && applied.slots.is_sorted_by(|a, b| a.0 < b.0);
        (take.0.is_empty() && sorted).then_some((head, applied))
    }
}

/// Adds a code to the known ones; returns its number.
pub(super) fn add_code(flat: &FlatState, code: &[u8]) -> u32 {
    let hash = B256::from(hearth_crypto::keccak::keccak256(code));
    flat.codes.add(hash, bytecode(Bytes::copy_from_slice(code)))
}
