//! Tile tests: microblocks in, committed transactions and completions out.

use std::time::Duration;

use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::builders;
use hearth_ledger::drop_log::{DropReason, DropTable};
use hearth_ledger::genesis::funded_account_key;
use hearth_tile::rig::Rig;

use super::*;
use crate::links::MicroblockTxn;

/// When the given transactions entered the node.
const RECEIVED_US: u32 = 1_000;

fn ledger() -> Arc<Ledger> {
    let ledger = builders::ledger(4);
    ledger.begin_slot(1, 0).unwrap();
    ledger
}

fn transfer(ledger: &Ledger, key: &SigningKey, to: &[u8; 32], lamports: u64) -> Vec<u8> {
    builders::transfer(key, to, lamports, ledger.genesis_hash())
}

fn give(rig: &mut Rig<Bank>, slot: u64, id: u64, txns: &[Vec<u8>]) {
    let mut buffer = vec![0; 60_000];
    let txns =
        txns.iter().map(|bytes| MicroblockTxn { reserved_cost: 20_707, origin_us: RECEIVED_US, bytes, locked: None });
    let size = Microblock::write(&mut buffer, slot, id, txns);
    rig.give("pack_bank:0", 0, &buffer[..size]);
}

#[test]
fn landed_go_to_poh_and_drops_are_reported() {
    let (ledger, fates) = (ledger(), Arc::new(DropTable::new(100, 7)));
    let mut rig = Rig::<Bank>::new(
        Config { ledger: ledger.clone(), recording: None, drops: DropLog::new(fates.clone()) },
        &["pack_bank:0"],
        &["bank_poh:0", "bank_pack:0"],
    );
    let (rich, poor) = (funded_account_key(0), SigningKey::from_seed(&[77; 32]));
    let to = funded_account_key(1).public_key();
    let good = transfer(&ledger, &rich, &to, 5);
    let overdrawn = transfer(&ledger, &rich, &to, u64::MAX / 2);
    let penniless = transfer(&ledger, &poor, &to, 1);
    let mut stale = transfer(&ledger, &rich, &to, 6);
    let hash = stale.windows(32).position(|w| w == ledger.genesis_hash()).unwrap();
    stale[hash] ^= 1;
    rig.advance(Duration::from_micros(u64::from(RECEIVED_US) + 3_000));
    give(&mut rig, 1, 0, &[good.clone(), overdrawn.clone(), penniless.clone(), stale.clone(), good.clone()]);
    rig.run();
    let [taken, executed] = rig.latencies() else { panic!("two histograms") };
    assert_eq!((taken.count(), taken.sum_us()), (5, 5 * 3_000));
    assert_eq!((executed.count(), executed.max_us()), (2, 3_000), "those that are in the block");
    let fate = |bytes: &[u8]| fates.of(Txn::parse(bytes).unwrap().first_signature());
    assert_eq!(fate(&penniless).unwrap().dropped.unwrap().reason, DropReason::BankAccount);
    let stale = fate(&stale).unwrap().dropped.unwrap();
    assert_eq!((stale.reason, stale.error), (DropReason::BankBlockhash, Some(TransactionError::BlockhashNotFound)));
    assert_eq!((fate(&good).unwrap().dropped, fate(&good).unwrap().duplicates), (None, 1));
    assert_eq!(fate(&overdrawn), None, "it failed, and is in the block");

    let executed = rig.take("bank_poh:0");
    let executed = ExecutedMicroblock::read(&executed[0].1);
    assert_eq!((executed.slot, executed.id, executed.txn_count), (1, 0, 2));
    assert_eq!(executed.txns, [good, overdrawn].concat());
    assert_ne!(executed.mixin, [0; 32]);
    let done = rig.take("bank_pack:0");
    let done = Completion::read(&done[0].1);
    assert_eq!((done.slot, done.id), (1, 0));
    let costs: Vec<u32> = done.costs().collect();
    assert!(costs[..2].iter().all(|cost| *cost > 0 && *cost < 20_707), "{costs:?}");
    assert_eq!(costs[2..], [0; 3], "not committed");
    let count = rig.count();
    assert_eq!((count.landed, count.failed), (1, 1));
    assert_eq!((count.dropped_account_not_found, count.dropped_blockhash_not_found), (1, 1));
    assert_eq!(count.dropped_already_processed, 1);
}

#[test]
fn an_empty_microblock_still_reaches_poh() {
    let ledger = ledger();
    let mut rig = Rig::<Bank>::new(
        Config { ledger: ledger.clone(), recording: None, drops: DropLog::default() },
        &["pack_bank:0"],
        &["bank_poh:0", "bank_pack:0"],
    );
    let txn = transfer(&ledger, &funded_account_key(0), &funded_account_key(1).public_key(), 5);
    give(&mut rig, 9, 3, &[txn]); // a slot that has not begun
    rig.run();
    let executed = rig.take("bank_poh:0");
    let executed = ExecutedMicroblock::read(&executed[0].1);
    assert_eq!((executed.id, executed.txn_count, executed.mixin), (3, 0, [0; 32]));
    assert_eq!(rig.count().dropped_slot_ended, 1);
    assert_eq!(rig.take("bank_pack:0").len(), 1);
}

#[test]
fn a_table_that_gives_other_accounts_than_were_locked_is_refused() {
    use hearth_ledger::account::Account;
    use hearth_ledger::bank::LoadedAddresses;
    use hearth_wire::consts::ADDRESS_LOOKUP_TABLE_PROGRAM;
    use hearth_wire::message::Message;
    use hearth_wire::program::system;
    let ledger = ledger();
    let table = |address: [u8; 32]| {
        let mut data = [&1u32.to_le_bytes()[..], &[0xff; 8], &[0; 8], &[0, 1]].concat();
        data.resize(56, 0);
        data.extend(address);
        ledger.accounts().store(&[9; 32], Account::with_data(1, ADDRESS_LOOKUP_TABLE_PROGRAM, &data));
    };
    let payer = funded_account_key(0);
    let pays = [system::transfer(&payer.public_key(), &[8; 32], 5)];
    let legacy = Message::compile(&payer.public_key(), &pays, ledger.genesis_hash()).unwrap();
    let message = [&[0x80], legacy.bytes(), &[1], &[9; 32], &[1, 0, 0]].concat();
    let bytes = [&[1][..], &payer.sign(&message), &message].concat();
    table([20; 32]);
    let loaded = LoadedAddresses::resolve(&Txn::parse(&bytes).unwrap(), ledger.accounts(), 1).unwrap();
    let locked = Some(loaded.digest(ledger.accounts()));
    let config = Config { ledger: ledger.clone(), recording: None, drops: DropLog::default() };
    let mut rig = Rig::<Bank>::new(config, &["pack_bank:0"], &["bank_poh:0", "bank_pack:0"]);
    let mut run = |id| {
        let mut buffer = vec![0; 2000];
        let txn = MicroblockTxn { reserved_cost: 20_707, origin_us: 0, bytes: &bytes, locked };
        let size = Microblock::write(&mut buffer, 1, id, std::iter::once(txn));
        rig.give("pack_bank:0", 0, &buffer[..size]);
        rig.run();
        (rig.count().dropped_unsupported, rig.count().dropped_other)
    };
    // This ledger has no engine for anything but plain transfers, so the transaction gets exactly this far.
    assert_eq!(run(0), (1, 0));
    table([21; 32]);
    assert_eq!(run(1), (1, 1), "refused before anything is loaded");
    table([20; 32]);
    assert_eq!(run(2), (2, 1));
}

#[test]
fn store_hears_of_what_landed_in_pieces_and_the_bank_waits_for_room() {
    use hearth_ledger::history::{Config as HistoryConfig, History};
    let dir = std::env::temp_dir().join(format!("hearth-bank-tile-{}", std::process::id()));
    let mut history = History::open(&dir, HistoryConfig::new(8 << 20, [7; 32]), 0).unwrap();
    let ledger = ledger();
    let config = Config {
        ledger: ledger.clone(),
        recording: Some(RecorderConfig { key: history.key(), extended: true }),
        drops: DropLog::default(),
    };
    let outputs = ["bank_poh:0", "bank_pack:0", "bank_store:0"];
    let mut rig = Rig::<Bank>::new(config, &["pack_bank:0"], &outputs);
    rig.tile().recorder.as_mut().unwrap().mtu = 16;
    let to = funded_account_key(1).public_key();
    let txns: Vec<_> = (1..=40).map(|lamports| transfer(&ledger, &funded_account_key(0), &to, lamports)).collect();
    give(&mut rig, 1, 0, &txns[..39]);
    give(&mut rig, 1, 1, &txns[39..]);
    rig.run();
    assert_eq!(rig.take("bank_poh:0").len(), 1, "the second microblock waits for the first one's pieces");
    let mut pieces = vec![];
    while let more = rig.take("bank_store:0")
        && !more.is_empty()
    {
        pieces.extend(more.into_iter().map(|(_, piece)| piece));
        rig.run();
    }
    assert_eq!(rig.take("bank_poh:0").len(), 1);
    let last = pieces.iter().rposition(|piece| piece.len() == 16 && piece.starts_with(&1u64.to_le_bytes())).unwrap();
    for batch in [pieces[..last].concat(), pieces[last..].concat()] {
        history.append(&batch);
    }
    assert_eq!(history.seen(1), 40);
    ledger.end_slot(1, [1; 32]).unwrap();
    let (genesis, block) = (ledger.recent_blocks(2)[1], ledger.recent_blocks(2)[0]);
    history.close(&crate::store::block_meta(&block, &genesis, &Default::default())).unwrap();
    let reader = history.reader();
    hearth_testkit::wait_until("the block is on disk", || reader.last_slot() >= 1);
    for (index, txn) in (0..).zip(&txns) {
        let txn = Txn::parse(txn).unwrap();
        let found = reader.transaction(txn.first_signature()).unwrap().unwrap();
        assert_eq!((found.place.index, found.meta.fee), (index, 5_000));
        let (payer, receiver) = (found.meta.balances[0], found.meta.balances[1]);
        assert_eq!((payer.0 - payer.1, receiver.1 - receiver.0), (5_001 + u64::from(index), 1 + u64::from(index)));
        assert_eq!(found.meta.details.unwrap().logs.len(), 2);
    }
    drop(history);
    std::fs::remove_dir_all(&dir).unwrap();
}
