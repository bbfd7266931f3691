//! The parser against the cluster's own crates: the same verdict, the same fields.

use std::collections::HashSet;

use hearth_testkit::random::{Random, seed};
use hearth_wire::consts::{SYSTEM_PROGRAM, SYSVAR_CLOCK};
use hearth_wire::{Pubkey, Txn, Version};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use solana_message::v0::{LoadedAddresses, LoadedMessage};
use solana_message::{Address, VersionedMessage};
use solana_transaction::versioned::VersionedTransaction;

use crate::support::mutate::{SeedOnPanic, mutate};
use crate::support::{address, sdk_accepts, transaction};

fn reserved() -> HashSet<Address> {
    [SYSTEM_PROGRAM, SYSVAR_CLOCK].map(Address::from).into()
}

fn is_reserved(key: &Pubkey) -> bool {
    [SYSTEM_PROGRAM, SYSVAR_CLOCK].contains(key)
}

/// Compares every accessor with the SDK's fields.
fn assert_same_fields(txn: &Txn<'_>, sdk: &VersionedTransaction) {
    let message = &sdk.message;
    assert_eq!(txn.version() == Version::Legacy, matches!(message, VersionedMessage::Legacy(_)));
    assert_eq!(txn.signatures().len(), sdk.signatures.len());
    assert!(txn.signatures().iter().zip(&sdk.signatures).all(|(ours, theirs)| ours == theirs.as_array()));
    assert_eq!(txn.first_signature(), sdk.signatures[0].as_array());
    assert_eq!(txn.message(), bincode::serialize(message).unwrap());
    let keys: Vec<Pubkey> = message.static_account_keys().iter().map(Address::to_bytes).collect();
    assert_eq!((txn.account_keys(), *txn.fee_payer()), (&keys[..], keys[0]));
    assert_eq!(txn.signer_keys(), &keys[..sdk.signatures.len()]);
    assert_eq!(txn.recent_blockhash(), message.recent_blockhash().as_bytes());
    assert_eq!(txn.instructions().len(), message.instructions().len());
    for (ours, theirs) in txn.instructions().zip(message.instructions()) {
        assert_eq!(ours.program_id_index, theirs.program_id_index);
        assert_eq!((ours.accounts, ours.data), (&theirs.accounts[..], &theirs.data[..]));
    }
    let lookups = message.address_table_lookups().unwrap_or_default();
    assert_eq!(txn.address_table_lookups().len(), lookups.len());
    for (ours, theirs) in txn.address_table_lookups().zip(lookups) {
        assert_eq!(ours.account_key, theirs.account_key.as_array());
        assert_eq!(ours.writable_indexes, theirs.writable_indexes);
        assert_eq!(ours.readonly_indexes, theirs.readonly_indexes);
    }
    let locks = txn.write_locks(&[], is_reserved);
    for index in 0..260 {
        assert_eq!(txn.is_signer(index), message.is_signer(index), "signer {index}");
        assert_eq!(locks.contains(index), message.is_maybe_writable(index, Some(&reserved())), "writable {index}");
    }
    if let VersionedMessage::Legacy(message) = message {
        assert_eq!(txn.has_duplicate_accounts(), message.has_duplicates());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn transactions_show_the_same_fields(sdk in transaction()) {
        let bytes = bincode::serialize(&sdk).unwrap();
        prop_assert_eq!(Txn::parse(&bytes).is_ok(), sdk_accepts(&bytes));
        if let Ok(txn) = Txn::parse(&bytes) {
            assert_same_fields(&txn, &sdk);
            let followed = [&bytes[..], &[1; 7]].concat();
            prop_assert_eq!(Txn::parse_prefix(&followed).unwrap().bytes(), &bytes[..]);
        }
    }

    #[test]
    fn loaded_addresses_are_locked_as_the_sdk_locks_them(
        sdk in transaction(),
        pool in prop::collection::vec(address(), 40),
    ) {
        let bytes = bincode::serialize(&sdk).unwrap();
        let (Ok(txn), VersionedMessage::V0(message)) = (Txn::parse(&bytes), &sdk.message) else {
            return Ok(());
        };
        let loaded = &pool[..txn.loaded_count()];
        let (writable, readonly) = loaded.split_at(txn.loaded_writable_count());
        let sdk_loaded = LoadedAddresses {
            writable: writable.iter().map(|key| Address::from(*key)).collect(),
            readonly: readonly.iter().map(|key| Address::from(*key)).collect(),
        };
        let oracle = LoadedMessage::new_borrowed(message, &sdk_loaded, &HashSet::new());
        let oracle_reserved = reserved();
        let with_reserved = LoadedMessage::new_borrowed(message, &sdk_loaded, &oracle_reserved);
        let (plain, reserved) = (txn.write_locks(loaded, |_| false), txn.write_locks(loaded, is_reserved));
        for index in 0..260 {
            prop_assert_eq!(plain.contains(index), oracle.is_writable(index));
            prop_assert_eq!(reserved.contains(index), with_reserved.is_writable(index));
        }
    }

    #[test]
    fn random_bytes_get_the_same_verdict(bytes in prop::collection::vec(any::<u8>(), 0..1300)) {
        prop_assert_eq!(Txn::parse(&bytes).is_ok(), sdk_accepts(&bytes));
    }
}

/// Offsets of the counts and indices of a parsed transaction.
fn fields(txn: &Txn<'_>) -> Vec<usize> {
    let start = txn.bytes().as_ptr().addr();
    let offset = |part: &[u8]| part.as_ptr().addr() - start;
    let header = offset(txn.message());
    let keys = offset(txn.account_keys().as_flattened());
    let blockhash_end = offset(txn.recent_blockhash()) + 32;
    let mut fields = vec![0, header, header + 1, header + 2, keys - 1, blockhash_end];
    for instruction in txn.instructions() {
        let accounts = offset(instruction.accounts);
        fields.extend([accounts - 2, accounts - 1, accounts, offset(instruction.data) - 1]);
    }
    for lookup in txn.address_table_lookups() {
        fields.extend([offset(lookup.writable_indexes) - 1, offset(lookup.readonly_indexes) - 1]);
    }
    fields
}

#[test]
fn mutations_get_the_same_verdict() {
    const TRANSACTIONS: usize = 400;
    const MUTATIONS: usize = 500;
    let seed = seed();
    let _print = SeedOnPanic { seed, test: "mutations_get_the_same_verdict" };
    let mut random = Random(seed);
    let rng_seed: [u8; 32] = std::array::from_fn(|_| random.word() as u8);
    let algorithm = proptest::test_runner::RngAlgorithm::ChaCha;
    let rng = proptest::test_runner::TestRng::from_seed(algorithm, &rng_seed);
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let mut draw = || {
        let tree = transaction().new_tree(&mut runner).expect("a transaction");
        bincode::serialize(&tree.current()).expect("serialises")
    };
    let mut accepted = 0;
    let mut other = draw();
    for _ in 0..TRANSACTIONS {
        let bytes = draw();
        let fields = Txn::parse(&bytes).map(|txn| fields(&txn)).unwrap_or_default();
        for _ in 0..MUTATIONS {
            let mut mutant = bytes.clone();
            mutate(&mut mutant, &fields, &other, &mut random);
            let (ours, theirs) = (Txn::parse(&mutant), sdk_accepts(&mutant));
            assert_eq!(ours.is_ok(), theirs, "{ours:?} on {mutant:?}");
            accepted += usize::from(theirs);
        }
        other = bytes;
    }
    // Otherwise the mutations do not probe the boundary.
    let share = accepted as f64 / (TRANSACTIONS * MUTATIONS) as f64;
    assert!((0.02..0.9).contains(&share), "{share} of the mutants were accepted");
}
