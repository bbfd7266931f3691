//! Transactions that load accounts from lookup tables.

use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::account::Account;
use hearth_wire::consts::ADDRESS_LOOKUP_TABLE_PROGRAM;

use super::*;

const TABLE: Pubkey = [200; 32];
const NEVER: u64 = u64::MAX;

fn ledger() -> Arc<Ledger> {
    hearth_ledger::builders::ledger(0)
}

/// Stores a table whose addresses from `start` on count after slot `extended`.
fn store_table(ledger: &Ledger, extended: u64, start: u8, addresses: &[Pubkey]) {
    let mut data = 1u32.to_le_bytes().to_vec();
    data.extend(NEVER.to_le_bytes());
    data.extend(extended.to_le_bytes());
    data.extend([start, 1]);
    data.resize(56, 0);
    data.extend(addresses.as_flattened());
    ledger.accounts().store(&TABLE, Account::with_data(1, ADDRESS_LOOKUP_TABLE_PROGRAM, &data));
}

/// Makes a transfer by `from` that also loads these accounts of the table.
fn with_lookup(from: u8, writable: &[u8], readonly: &[u8]) -> Vec<u8> {
    let instruction = system::transfer(&[from; 32], &[from + 100; 32], 1);
    let legacy = Message::compile(&[from; 32], &[instruction], &FIRST_HASH).unwrap();
    let indexes = [&[writable.len() as u8][..], writable, &[readonly.len() as u8], readonly].concat();
    let message = [&[0x80][..], legacy.bytes(), &[1], &TABLE, &indexes].concat();
    [&[1][..], &[from; 64], &message].concat()
}

fn reading(ledger: &Arc<Ledger>) -> Rig<Pack> {
    rig(Config { ledger: Some(ledger.clone()), ..small() })
}

fn give_all(rig: &mut Rig<Pack>, txns: &[Vec<u8>]) {
    for (tag, bytes) in (1..).zip(txns) {
        give(rig, tag, bytes);
    }
}

/// Runs housekeeping, which updates the gauge of waiting transactions.
fn settle(rig: &mut Rig<Pack>) -> Counters {
    rig.run();
    rig.advance(Duration::from_millis(1));
    rig.run();
    *rig.count()
}

#[test]
fn accounts_of_tables_are_locked() {
    let ledger = ledger();
    store_table(&ledger, 0, 0, &[[11; 32], [12; 32], [13; 32]]);
    let mut rig = reading(&ledger);
    let writes = with_lookup(1, &[0], &[1]);
    let (writes_too, reads, reads_other) =
        (with_lookup(2, &[0], &[]), with_lookup(3, &[], &[0]), with_lookup(4, &[2], &[1]));
    // Named by its own message instead of by a table.
    let pays_to_it = transfer(5, 11, &[]);
    begin(&mut rig, 7);
    give(&mut rig, 9, &writes);
    rig.run();
    let first = rig.take("pack_bank:0");
    let locked: Vec<_> = Microblock::read(&first[0].1).txns().map(|txn| txn.locked).collect();
    let loaded = LoadedAddresses::resolve(&Txn::parse(&writes).unwrap(), ledger.accounts(), 7).unwrap();
    assert_eq!(locked, [Some(loaded.digest(ledger.accounts()))]);
    give_all(&mut rig, &[writes_too.clone(), reads.clone(), pays_to_it.clone(), reads_other.clone()]);
    rig.run();
    assert_eq!(take(&mut rig, 0), [(1, vec![reads_other])], "the others use what the first writes");
    complete(&mut rig, 0, 7, 0, 1);
    complete(&mut rig, 0, 7, 1, 1);
    let mut then = vec![];
    for id in 2..5 {
        rig.run();
        let given = take(&mut rig, 0);
        assert_eq!(given.len(), 1, "all three conflict with each other");
        assert_eq!((given[0].0, given[0].1.len()), (id, 1));
        then.extend(given[0].1.clone());
        complete(&mut rig, 0, 7, id, 1);
    }
    then.sort();
    let mut expected = [writes_too, reads, pays_to_it];
    expected.sort();
    assert_eq!(then, expected);
    assert_eq!(take(&mut rig, 1), []);
}

#[test]
fn an_account_both_named_and_taken_from_a_table_is_there_twice() {
    let ledger = ledger();
    store_table(&ledger, 0, 0, &[[1; 32]]);
    let mut rig = reading(&ledger);
    give(&mut rig, 1, &with_lookup(1, &[], &[0]));
    begin(&mut rig, 7);
    rig.run();
    let count = settle(&mut rig);
    assert_eq!((count.dropped_account_twice, count.scheduled), (1, 0));
}

#[test]
fn table_entry_of_the_next_slot_is_awaited() {
    let ledger = ledger();
    store_table(&ledger, 7, 1, &[[11; 32], [12; 32]]);
    let mut rig = reading(&ledger);
    begin(&mut rig, 7);
    let (known, early) = (with_lookup(1, &[0], &[]), with_lookup(2, &[1], &[]));
    give_all(&mut rig, &[known.clone(), early.clone()]);
    rig.run();
    assert_eq!(take(&mut rig, 0), [(0, vec![known])]);
    let count = settle(&mut rig);
    assert_eq!((count.pending, count.dropped_lookups), (1, 0));
    complete(&mut rig, 0, 7, 0, 1);
    rig.advance(Duration::from_nanos(SLOT_NS));
    rig.run();
    begin(&mut rig, 8);
    rig.run();
    assert_eq!(take(&mut rig, 0), [(0, vec![early])]);
    assert_eq!(settle(&mut rig).pending, 0);
}

#[test]
fn unresolved_lookup_is_dropped_two_slots_later() {
    let ledger = ledger();
    store_table(&ledger, 0, 0, &[[11; 32]]);
    let mut rig = reading(&ledger);
    begin(&mut rig, 7);
    rig.run();
    give(&mut rig, 1, &with_lookup(1, &[3], &[]));
    for slot in [8, 9] {
        assert_eq!((settle(&mut rig).pending, rig.count().dropped_lookups), (1, 0));
        rig.advance(Duration::from_nanos(SLOT_NS));
        rig.run();
        begin(&mut rig, slot);
        rig.run();
    }
    let count = settle(&mut rig);
    assert_eq!((count.received, count.pending, count.dropped_lookups), (1, 0, 1));
}

#[test]
fn without_room_or_ledger_it_is_dropped_at_once() {
    let ledger = ledger();
    let mut full = reading(&ledger);
    for tag in 0..1030 {
        give(&mut full, tag + 1, &with_lookup(1, &[0], &[]));
        full.run();
    }
    let count = settle(&mut full);
    assert_eq!((count.pending, count.dropped_lookups), (1024, 6));
    let mut without = rig(small());
    give(&mut without, 1, &with_lookup(1, &[0], &[]));
    without.run();
    assert_eq!(settle(&mut without).dropped_lookups, 1);
}
