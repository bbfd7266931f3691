//! One hand-made case for each rule of the parser; random cases are in `tests/wire/sdk_differential.rs`.

use super::*;
use crate::consts::{BPF_LOADER_UPGRADEABLE, SYSTEM_PROGRAM};

/// A hand-made transfer: payer 1…, receiver 2…, system program; 215 bytes.
fn transfer() -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend([9; 64]);
    bytes.extend([1, 0, 1, 3]);
    bytes.extend([1; 32]);
    bytes.extend([2; 32]);
    bytes.extend(SYSTEM_PROGRAM);
    bytes.extend([7; 32]);
    bytes.extend([1, 2, 2, 0, 1, 12, 2, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

const HEADER: usize = 65;
const KEYS: usize = 69;
const INSTRUCTION: usize = KEYS + 128 + 1;

/// The same as version 0, ending with the bytes of its lookups (count first).
fn version_0(lookups: &[u8]) -> Vec<u8> {
    let mut bytes = transfer();
    bytes.insert(HEADER, 0x80);
    bytes.extend(lookups);
    bytes
}

fn refused(bytes: &[u8]) -> (ParseErrorKind, usize) {
    let error = Txn::parse(bytes).expect_err("must be refused");
    (error.kind, usize::from(error.offset))
}

#[test]
fn a_transfer_shows_its_fields() {
    let bytes = transfer();
    assert_eq!(bytes.len(), 215);
    let txn = Txn::parse(&bytes).unwrap();
    assert_eq!((txn.version(), txn.signatures(), txn.message()), (Version::Legacy, &[[9; 64]][..], &bytes[65..]));
    assert_eq!(txn.account_keys(), [[1; 32], [2; 32], SYSTEM_PROGRAM]);
    assert_eq!((txn.fee_payer(), txn.recent_blockhash()), (&[1; 32], &[7; 32]));
    assert_eq!(
        [0, 1, 2].map(|i| (txn.is_signer(i), txn.is_writable(i))),
        [(true, true), (false, true), (false, false)]
    );
    let data = &[2, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0];
    let expected = CompiledInstruction { program_id_index: 2, accounts: &[0, 1], data };
    assert_eq!(txn.instructions().collect::<Vec<_>>(), [expected]);
    assert_eq!((txn.address_table_lookups().len(), txn.has_duplicate_accounts()), (0, false));
}

#[test]
fn lookups_extend_the_accounts() {
    let mut lookups = vec![1];
    lookups.extend([5; 32]);
    lookups.extend([2, 10, 11, 1, 12]);
    let mut bytes = version_0(&lookups);
    bytes[INSTRUCTION + 3] = 5;
    let txn = Txn::parse(&bytes).unwrap();
    assert_eq!((txn.account_count(), txn.loaded_count(), txn.loaded_writable_count()), (6, 3, 2));
    assert_eq!([2, 3, 4, 5, 6].map(|i| txn.is_writable(i)), [false, true, true, false, false]);
    let lookup = txn.address_table_lookups().next().unwrap();
    assert_eq!(
        (lookup.account_key, lookup.writable_indexes, lookup.readonly_indexes),
        (&[5; 32], &[10, 11][..], &[12][..])
    );

    bytes[INSTRUCTION + 3] = 6;
    assert_eq!(refused(&bytes), (ParseErrorKind::AccountIndex, INSTRUCTION + 3));
    bytes[INSTRUCTION + 3] = 1;
    bytes[INSTRUCTION + 1] = 3;
    assert_eq!(refused(&bytes).0, ParseErrorKind::ProgramIndex);
}

#[test]
fn each_rule_has_its_error() {
    use ParseErrorKind::*;
    let changed = |at: usize, to: u8| {
        let mut bytes = transfer();
        bytes[at] = to;
        refused(&bytes)
    };
    assert_eq!(changed(0, 0), (SignatureCount, 0));
    assert_eq!(changed(0, 0x81), (SignatureCount, 0));
    assert_eq!(changed(HEADER, 2), (SignatureCountMismatch, HEADER));
    assert_eq!(changed(HEADER, 0x81), (UnsupportedVersion, HEADER));
    assert_eq!(changed(HEADER + 1, 1), (NoWritableSigner, HEADER + 1));
    assert_eq!(changed(HEADER + 2, 3), (HeaderCounts, HEADER + 2));
    assert_eq!(changed(INSTRUCTION, 0), (ProgramIndex, INSTRUCTION));
    assert_eq!(changed(INSTRUCTION, 3), (ProgramIndex, INSTRUCTION));
    assert_eq!(changed(INSTRUCTION + 2, 3), (AccountIndex, INSTRUCTION + 2));
    assert_eq!(changed(INSTRUCTION - 1, 0), (TrailingBytes, INSTRUCTION));

    let mut long = transfer();
    long.splice(INSTRUCTION - 1..INSTRUCTION, [0x81, 0]);
    assert_eq!(refused(&long), (CompactU16, INSTRUCTION - 1));
    long.resize(1233, 0);
    assert_eq!(refused(&long), (TooLong, 1232));

    let mut empty = vec![1];
    empty.extend([5; 32]);
    empty.extend([0, 0]);
    assert_eq!(refused(&version_0(&empty)), (EmptyLookup, 216 + 1));
    let mut many = vec![1];
    many.extend([5; 32]);
    many.extend([0xfe, 1]);
    many.extend([0; 254]);
    many.push(0);
    assert_eq!(refused(&version_0(&many)), (TooManyAccounts, 216 + 1));
}

#[test]
fn every_prefix_is_truncated_and_a_longer_slice_has_a_first_transaction() {
    for bytes in [transfer(), version_0(&[0])] {
        for len in 0..bytes.len() {
            assert_eq!(refused(&bytes[..len]), (ParseErrorKind::Truncated, len));
        }
        let mut more = bytes.clone();
        more.resize(2000, 0xff);
        assert_eq!(Txn::parse_prefix(&more).unwrap().bytes(), bytes);
        assert_eq!(refused(&more[..bytes.len() + 1]), (ParseErrorKind::TrailingBytes, bytes.len()));
    }
}

#[test]
fn a_called_program_is_demoted_unless_the_loader_is_there() {
    let mut bytes = transfer();
    bytes[HEADER + 2] = 0;
    let txn = Txn::parse(&bytes).unwrap();
    assert!(txn.is_writable(2));
    assert_eq!(txn.write_locks(&[], |_| false).iter().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(txn.write_locks(&[], |key| *key == [2; 32]).iter().collect::<Vec<_>>(), [0]);
    bytes[KEYS + 32..KEYS + 64].copy_from_slice(&BPF_LOADER_UPGRADEABLE);
    let txn = Txn::parse(&bytes).unwrap();
    assert_eq!(txn.write_locks(&[], |_| false).count(), 3);
}

#[test]
fn duplicates_are_parsed_and_reported() {
    let mut bytes = transfer();
    bytes[KEYS + 32..KEYS + 64].copy_from_slice(&[1; 32]);
    assert!(Txn::parse(&bytes).unwrap().has_duplicate_accounts());
}

#[test]
fn limits_count_instructions_and_their_accounts() {
    let with = |instructions: &[u8]| [&transfer()[..INSTRUCTION - 1], instructions].concat();
    let calls = |count: u8| [&[count][..], &[2, 0, 0].repeat(usize::from(count))].concat();
    let accounts = |count: u8, high: u8| [&[1, 2, count | 0x80, high][..], &[0; 256], &[0]].concat();
    let within = |bytes: &[u8]| Txn::parse(bytes).unwrap().within_instruction_limits();
    assert!(within(&transfer()) && within(&with(&calls(64))));
    assert!(!within(&with(&calls(65))));
    let mut most = accounts(0x7f, 1);
    most.pop();
    assert!(within(&with(&most)));
    assert!(!within(&with(&accounts(0, 2))));
}
