//! Drops are recorded.

use std::sync::Arc;

use hearth_ledger::drop_log::DropTable;

use super::*;

/// Returns the recorded reason for the transaction of a payer.
fn reason(fates: &DropTable, payer: u8) -> Option<DropReason> {
    fates.of(&[payer; 64]).map(|fate| fate.dropped.map_or_else(|| fate.duplicate.unwrap(), |dropped| dropped.reason))
}

fn give_tagged(rig: &mut Rig<Pack>, fates: &DropTable, bytes: &[u8]) {
    let tag = fates.tag(Txn::parse(bytes).unwrap().first_signature());
    rig.give("dedup_pack", tag, bytes);
}

#[test]
fn every_drop_is_reported_under_its_signature() {
    let fates = Arc::new(DropTable::new(1000, 3));
    let config = Config { capacity: 2, accounts: 256, drops: DropLog::new(fates.clone()), ..small() };
    let mut rig = rig(config);
    let limit = ComputeBudgetInstruction::SetComputeUnitLimit(1000);
    let pays = |from, price| transfer(from, from + 100, &[SetComputeUnitPrice(price)]);
    let stale = signed_with(&[9; 32], &[system::transfer(&[9; 32], &[99; 32], 1)], &[77; 32]);
    for bytes in [transfer(1, 10, &[]), transfer(2, 3, &[limit, limit]), pays(4, 3_000_000), pays(4, 3_000_000)] {
        give_tagged(&mut rig, &fates, &bytes);
    }
    for bytes in [pays(5, 1_000_000), pays(6, 10), pays(7, 2_000_000)] {
        give_tagged(&mut rig, &fates, &bytes);
    }
    rig.run();
    use DropReason::*;
    let found = [1, 2, 4, 5, 6, 7].map(|payer| reason(&fates, payer));
    let dropped = [PackEvicted, PackBudget, PackDuplicate, PackEvicted, PackPoolFull].map(Some);
    assert_eq!((&found[..5], found[5]), (&dropped[..], None));
    begin(&mut rig, 1);
    rig.run();
    assert_eq!(take(&mut rig, 0)[0].1.len(), 2);
    give_tagged(&mut rig, &fates, &stale);
    rig.advance(Duration::from_nanos(SLOT_NS));
    rig.run();
    begin(&mut rig, 2);
    begin(&mut rig, 3);
    rig.run();
    assert_eq!(reason(&fates, 9), Some(PackExpired));
    let (without, tag) =
        (&[0x80][..], Message::compile(&[8; 32], &[system::transfer(&[8; 32], &[80; 32], 1)], &FIRST_HASH));
    let message = [without, tag.unwrap().bytes(), &[1], &[9; 32], &[1, 0, 0]].concat();
    give_tagged(&mut rig, &fates, &[&[1][..], &[8; 64], &message].concat());
    rig.run();
    assert_eq!(reason(&fates, 8), Some(PackLookups));
}
