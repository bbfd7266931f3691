//! Headers written and read back, every rule violated once, and arbitrary bytes.

use super::super::encode::{CodeHeader, CommonHeader, DataHeader, flags_for};
use super::*;
use proptest::prelude::*;

fn common(kind: ShredKind, resigned: bool, index: u32) -> CommonHeader {
    let variant = Variant::of_full_set(kind, resigned);
    CommonHeader { variant, slot: 77, index, version: 9, set_index: 64 }
}

fn data_shred() -> Vec<u8> {
    let mut bytes = vec![0; DATA_SHRED_SIZE];
    let flags = flags_for(5, false, false);
    let header = DataHeader { common: common(ShredKind::Data, false, 70), parent_offset: 1, flags, entry_bytes: 963 };
    header.write(&mut bytes);
    bytes
}

fn code_shred() -> Vec<u8> {
    let mut bytes = vec![0; CODE_SHRED_SIZE];
    let header = CodeHeader { common: common(ShredKind::Code, false, 67), data_count: 32, code_count: 32, position: 3 };
    header.write(&mut bytes);
    bytes
}

/// The error of parsing `bytes` with the bytes at `at` replaced.
fn broken(mut bytes: Vec<u8>, at: usize, by: &[u8]) -> ShredError {
    bytes[at..at + by.len()].copy_from_slice(by);
    Shred::parse(&bytes).unwrap_err()
}

/// The set-rule error for `bytes` with the bytes at `at` replaced.
fn out_of_set(mut bytes: Vec<u8>, at: usize, by: &[u8]) -> ShredError {
    bytes[at..at + by.len()].copy_from_slice(by);
    Shred::parse(&bytes).unwrap().check_set(SHREDS_PER_SLOT_MAX).unwrap_err()
}

fn error(kind: ShredErrorKind, offset: usize) -> ShredError {
    ShredError { kind, offset: offset as u16 }
}

#[test]
fn every_variant_byte_reads_back() {
    let known: Vec<u8> = (0..=255).filter(|&b| Variant::from_byte(b).is_some()).collect();
    assert_eq!(known.len(), 4 * 16);
    for byte in known {
        assert_eq!(Variant::from_byte(byte).unwrap().to_byte(), byte);
    }
}

#[test]
fn each_rule_of_parsing_is_enforced() {
    use ShredErrorKind::*;
    assert_eq!(Shred::parse(&[0; 64]).unwrap_err(), error(Length, 64));
    assert_eq!(Shred::parse(&data_shred()[..1202]).unwrap_err(), error(Length, 1202));
    let long = [code_shred(), vec![0]].concat();
    assert_eq!(Shred::parse(&long).unwrap_err(), error(Length, CODE_SHRED_SIZE));
    // Former variants: legacy, and Merkle without chaining.
    for byte in [0x5a, 0xa5, 0x46, 0x86, 0x00] {
        assert_eq!(broken(data_shred(), VARIANT, &[byte]), error(Variant, VARIANT));
    }
    assert_eq!(broken(data_shred(), PARENT_OFFSET, &[0, 0]), error(ParentOffset, PARENT_OFFSET));
    assert_eq!(broken(data_shred(), PARENT_OFFSET, &[78, 0]), error(ParentOffset, PARENT_OFFSET));
    assert_eq!(broken(data_shred(), FLAGS, &[0x80]), error(Flags, FLAGS));
    assert_eq!(broken(data_shred(), SIZE, &87u16.to_le_bytes()), error(Size, SIZE));
    assert_eq!(broken(data_shred(), SIZE, &1052u16.to_le_bytes()), error(Size, SIZE));
    assert_eq!(broken(data_shred(), INDEX, &63u32.to_le_bytes()), error(Index, INDEX));
    assert_eq!(broken(data_shred(), INDEX, &128u32.to_le_bytes()), error(Index, INDEX));
    assert_eq!(broken(code_shred(), INDEX, &2u32.to_le_bytes()), error(Index, INDEX));
    assert_eq!(broken(code_shred(), DATA_COUNT, &[61, 0]), error(Index, INDEX));
    assert_eq!(broken(code_shred(), DATA_COUNT, &[0, 0]), error(Counts, DATA_COUNT));
    assert_eq!(broken(code_shred(), CODE_COUNT, &[0, 0]), error(Counts, DATA_COUNT));
    assert_eq!(broken(code_shred(), CODE_COUNT, &[225, 0]), error(Counts, DATA_COUNT));
    assert_eq!(broken(code_shred(), POSITION, &[32, 0]), error(Position, POSITION));
}

#[test]
fn each_rule_of_sets_is_enforced() {
    use ShredErrorKind::*;
    for good in [data_shred(), code_shred()] {
        assert_eq!(Shred::parse(&good).unwrap().check_set(SHREDS_PER_SLOT_MAX), Ok(()));
        assert_eq!(Shred::parse(&good).unwrap().check_set(67), Err(error(Index, INDEX)));
    }
    assert_eq!(out_of_set(data_shred(), INDEX, &96u32.to_le_bytes()), error(Index, INDEX));
    assert_eq!(out_of_set(data_shred(), SET_INDEX, &65u32.to_le_bytes()), error(Set, SET_INDEX));
    assert_eq!(out_of_set(data_shred(), FLAGS, &[FLAG_DATA_COMPLETE]), error(EarlyEnd, FLAGS));
    assert_eq!(out_of_set(data_shred(), FLAGS, &[FLAGS_LAST_IN_SLOT]), error(EarlyEnd, FLAGS));
    assert_eq!(out_of_set(code_shred(), DATA_COUNT, &[31, 0]), error(Set, DATA_COUNT));
    assert_eq!(out_of_set(code_shred(), CODE_COUNT, &[33, 0]), error(Set, DATA_COUNT));
    assert_eq!(out_of_set(code_shred(), POSITION, &[4, 0]), error(Position, POSITION));
}

#[test]
fn flags_saturate_and_imply() {
    assert_eq!(flags_for(63, false, false), 63);
    assert_eq!(flags_for(200, true, false), FLAG_DATA_COMPLETE | 63);
    assert_eq!(flags_for(1, false, true), FLAGS_LAST_IN_SLOT | 1);
}

proptest! {
    #[test]
    fn data_reads_back(
        slot in 1u64.., set in 0u32..1000, place in 0u32..32, version: u16, resigned: bool,
        parent in 1u16.., tick: u8, entry_bytes in 0u16..=899, ends: (bool, bool),
    ) {
        let variant = Variant::of_full_set(ShredKind::Data, resigned);
        let common = CommonHeader { variant, slot, index: 32 * set + place, version, set_index: 32 * set };
        let parent_offset = (u64::from(parent)).min(slot) as u16;
        let flags = flags_for(tick, ends.0, ends.1);
        let mut bytes = vec![0xab; DATA_SHRED_SIZE];
        DataHeader { common, parent_offset, flags, entry_bytes }.write(&mut bytes);
        let shred = Shred::parse(&bytes).unwrap();
        prop_assert_eq!((shred.slot(), shred.index(), shred.version()), (slot, common.index, version));
        prop_assert_eq!((shred.set_index(), shred.variant()), (common.set_index, variant));
        prop_assert_eq!(shred.shard_index(), place as usize);
        prop_assert_eq!(shred.parent_slot(), Some(slot - u64::from(parent_offset)));
        prop_assert_eq!(shred.entry_bytes().unwrap().len(), usize::from(entry_bytes));
        prop_assert_eq!((shred.ends_batch(), shred.ends_slot()), (ends.0 || ends.1, ends.1));
        prop_assert_eq!(shred.retransmitter_signature(), resigned.then_some([0xab; 64]));
        prop_assert_eq!((shred.signature(), shred.chained_root()), ([0xab; 64], [0xab; 32]));
        prop_assert_eq!(shred.check_set(u32::MAX).is_ok(), place == 31 || !(ends.0 || ends.1));
    }

    #[test]
    fn parity_reads_back(slot: u64, set in 0u32..1000, position in 0u16..32, version: u16, resigned: bool) {
        let variant = Variant::of_full_set(ShredKind::Code, resigned);
        let index = 32 * set + u32::from(position);
        let common = CommonHeader { variant, slot, index, version, set_index: 32 * set };
        let header = CodeHeader { common, data_count: 32, code_count: 32, position };
        let mut bytes = vec![0xcd; CODE_SHRED_SIZE];
        header.write(&mut bytes);
        let shred = Shred::parse(&bytes).unwrap();
        prop_assert_eq!(shred.fields(), Fields::Code(CodeFields { data_count: 32, code_count: 32, position }));
        prop_assert_eq!((shred.slot(), shred.index(), shred.set_index()), (slot, index, 32 * set));
        prop_assert_eq!(shred.shard_index(), 32 + usize::from(position));
        prop_assert_eq!((shred.parent_slot(), shred.entry_bytes()), (None, None));
        prop_assert_eq!(shred.check_set(u32::MAX), Ok(()));
    }

    #[test]
    fn anything_is_parsed_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..1300),
        kind in 0..3,
        headers: [u8; 32],
    ) {
        // Steers two cases in three past the length and the variant, into the fields.
        if kind > 0 {
            bytes.resize(if kind == 1 { DATA_SHRED_SIZE } else { CODE_SHRED_SIZE }, 7);
            bytes[VARIANT + 1..VARIANT + 25].copy_from_slice(&headers[..24]);
            bytes[VARIANT] = [0x60, 0x70, 0x90, 0xb0][usize::from(headers[30] % 4)] | headers[31] & 15;
        }
        match Shred::parse(&bytes) {
            Ok(shred) => {
                let _ = shred.check_set(SHREDS_PER_SLOT_MAX);
                let covered = shred.leaf_bytes().len() + shred.proof().len() + SIGNATURE.end;
                let signature = shred.retransmitter_signature().map_or(0, |s| s.len());
                prop_assert_eq!(covered + signature, bytes.len());
                prop_assert!(shred.erasure_shard().len() < bytes.len());
                let _ = (shred.entry_bytes(), shred.parent_slot(), shred.shard_index(), shred.chained_root());
            }
            Err(error) => prop_assert!(usize::from(error.offset) <= bytes.len().max(CODE_SHRED_SIZE)),
        }
    }
}
