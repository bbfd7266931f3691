//! Tile tests: frags in, frags out, time set by hand.

use super::*;
use hearth_ledger::features::{all, feature_account, feature_accounts, supported};
use hearth_ledger::{Genesis, GenesisConfig, LedgerConfig};
use hearth_tile::rig::Rig;
use hearth_wire::transfer::TransferTemplate;
use std::time::Duration;

const SLOT: Duration = Duration::from_millis(400);

fn rig(hashes_per_tick: Option<u64>) -> (Rig<Poh>, Arc<Ledger>) {
    rig_on(hashes_per_tick, None)
}

fn rig_on(hashes_per_tick: Option<u64>, on_demand: Option<OnDemand>) -> (Rig<Poh>, Arc<Ledger>) {
    let inputs = ["bank_poh:0", "bank_poh:1", "pack_poh", "store_poh", "rpc_poh"];
    rig_with(hashes_per_tick, on_demand, &inputs, &["poh_pack", "poh_shred"])
}

fn rig_with(
    hashes_per_tick: Option<u64>,
    on_demand: Option<OnDemand>,
    inputs: &[&str],
    outputs: &[&str],
) -> (Rig<Poh>, Arc<Ledger>) {
    let ledger = hearth_ledger::builders::ledger(1);
    let rig = rig_of(&ledger, (hashes_per_tick, on_demand), Failure::default(), (inputs, outputs));
    (rig, ledger)
}

fn rig_of(
    ledger: &Arc<Ledger>,
    (hashes_per_tick, on_demand): (Option<u64>, Option<OnDemand>),
    failure: Failure<SlotError>,
    (inputs, outputs): (&[&str], &[&str]),
) -> Rig<Poh> {
    let slot_ns = SLOT.as_nanos() as u64;
    let chain = chain::Config { hashes_per_tick, ticks_per_slot: 4, slot_ns, max_microblocks: 100 };
    Rig::new(Config { chain, on_demand, ledger: ledger.clone(), failure }, inputs, outputs)
}

/// A ledger at the end of its first epoch, with a pending feature that this program lacks.
fn ledger_before_the_unsupported() -> Arc<Ledger> {
    let mut extra_accounts = feature_accounts(supported());
    let missing = all().iter().find(|feature| feature.name == "alpenglow").expect("a feature");
    extra_accounts.push((missing.id, feature_account(None)));
    let config = GenesisConfig {
        fund_initial_accounts: 0,
        slots_per_epoch: 32,
        extra_accounts,
        ..GenesisConfig::development([1; 32], [2; 32], 0)
    };
    let ledger = Ledger::new(&Genesis::create(config, |_| {}).expect("a chain"), LedgerConfig::default());
    ledger.begin_slot(31, 0).expect("a slot of the first epoch");
    ledger.end_slot(31, [3; 32]).expect("it has begun");
    ledger
}

#[test]
fn unsupported_feature_ends_the_chain_before_its_slot() {
    let (ledger, failure) = (ledger_before_the_unsupported(), Failure::default());
    let links: (&[&str], &[&str]) = (&["bank_poh:0", "pack_poh", "store_poh", "rpc_poh"], &["poh_pack", "poh_shred"]);
    let mut rig = rig_of(&ledger, (None, None), failure.clone(), links);
    rig.run();
    let why = failure.take().expect("the tile says why").to_string();
    assert!(why.contains("slot 32 cannot begin: the feature alpenglow is active from slot 32 on"), "{why}");
    rig.give_control("store_poh", 0, DISK_FULL, &[]);
    rig.give("store_poh", 0, &[]);
    rig.advance(10 * SLOT);
    rig.run();
    assert!(rig.take("poh_pack").is_empty() && rig.take("poh_shred").is_empty(), "no other tile hears of the slot");
    assert!(ledger.working_bank().is_none() && failure.take().is_none());
}

/// A rig whose node takes turns with other leaders.
fn rig_in_cluster() -> (Rig<Poh>, Arc<Ledger>) {
    let inputs = ["bank_poh:0", "pack_poh", "store_poh", "replay_poh"];
    rig_with(None, None, &inputs, &["poh_pack", "poh_shred", "poh_replay"])
}

fn order(rig: &mut Rig<Poh>, order: LeaderOrder) {
    let mut buffer = [0; LeaderOrder::SIZE];
    let size = order.write(&mut buffer);
    rig.give("replay_poh", 0, &buffer[..size]);
}

fn answers(rig: &mut Rig<Poh>) -> Vec<LeaderAnswer> {
    rig.run();
    rig.take("poh_replay").iter().map(|(_, bytes)| LeaderAnswer::read(bytes)).collect()
}

fn executed(slot: u64, id: u64, txns: u16) -> Vec<u8> {
    let mut transfer = TransferTemplate::new();
    let bytes = transfer.sign_with(|_| [id as u8; 64]).repeat(txns.into());
    let mut buffer = vec![0; ExecutedMicroblock::HEADER + bytes.len()];
    buffer[ExecutedMicroblock::HEADER..].copy_from_slice(&bytes);
    ExecutedMicroblock::write_header(&mut buffer, slot, id, &[id as u8; 32], txns, bytes.len());
    buffer
}

#[test]
fn microblocks_enter_in_the_order_of_their_ids() {
    let (mut rig, ledger) = rig(None);
    rig.run();
    let began = rig.take("poh_pack");
    let slot = LeaderSlot::read(&began[0].1);
    assert_eq!((began.len(), slot.slot, slot.max_microblocks), (1, 1, 100));
    assert!(slot.end_ns > slot.start_ns && slot.end_ns < slot.start_ns + SLOT.as_nanos() as u64);
    assert_eq!(&slot.blockhash, ledger.genesis_hash());
    assert!(ledger.bank(1).is_some(), "banks can execute before pack schedules");

    rig.give("bank_poh:0", 1, &executed(1, 1, 2));
    rig.give("bank_poh:0", 3, &executed(1, 3, 1));
    rig.run();
    assert_eq!(rig.take("poh_shred"), []);
    rig.give("bank_poh:1", 0, &executed(1, 0, 1));
    rig.give("bank_poh:1", 2, &executed(1, 2, 0));
    rig.run();
    let entries = rig.take("poh_shred");
    let signatures: Vec<_> = entries
        .iter()
        .map(|(_, bytes)| {
            let entry = PohEntry::read(bytes);
            assert_eq!((entry.slot, entry.parent_slot, entry.tick, entry.last), (1, 0, 0, false));
            let entry = hearth_wire::entry::Entry::parse(entry.entry).unwrap();
            assert_eq!(entry.num_hashes, 1);
            (entry.transaction_count(), entry.transactions().next().unwrap().first_signature()[0])
        })
        .collect();
    assert_eq!(signatures, [(1, 0), (2, 1), (1, 3)], "2 had nothing committed");
    assert_eq!((rig.count().microblocks, rig.count().transactions), (4, 4));
}

#[test]
fn a_slot_is_followed_by_the_next_in_the_same_turn() {
    let (mut rig, ledger) = rig(None);
    rig.run();
    rig.take("poh_pack");
    rig.give("pack_poh", 0, &DonePacking { slot: 1, microblocks: 0 }.encode());
    rig.run();
    rig.take("poh_shred");
    rig.advance(SLOT);
    rig.turn();
    let ticks: Vec<u8> = rig.take("poh_shred").iter().map(|(_, bytes)| PohEntry::read(bytes).tick).collect();
    assert_eq!(ticks, [1, 2, 3, 4]);
    let controls: Vec<u16> = rig.take_control("poh_pack").iter().map(|(control, _)| *control).collect();
    assert_eq!(controls, [SLOT_ENDED, SLOT_BEGINS]);
    assert!(ledger.bank(2).is_some());
}

#[test]
fn on_a_full_disk_the_slot_ends_and_no_other_begins() {
    let (mut rig, ledger) = rig(None);
    rig.run();
    rig.give_control("store_poh", 0, DISK_FULL, &[]);
    rig.run();
    rig.give("pack_poh", 0, &DonePacking { slot: 1, microblocks: 0 }.encode());
    for _ in 0..10 {
        rig.advance(SLOT);
        rig.run();
    }
    assert_eq!((ledger.recent_blocks(1)[0].slot, ledger.working_bank().is_none(), rig.count().slots), (1, true, 1));
    rig.give("store_poh", 0, &[]);
    rig.run();
    assert!(ledger.bank(2).is_some());
}

#[test]
fn on_demand_a_slot_needs_work_or_a_block_to_make_final() {
    for hashes in [None, Some(1000)] {
        let (mut rig, ledger) = rig_on(hashes, Some(OnDemand::default()));
        let done = |rig: &mut Rig<Poh>, slot: u64, control: u16| {
            rig.advance(SLOT / 100);
            rig.give_control("pack_poh", slot, control, &DonePacking { slot, microblocks: 0 }.encode());
            rig.run();
        };
        rig.run();
        // Startup counts as work: slots continue, each once the previous one is stored, until the first is final.
        for slot in 1..=33 {
            assert!(ledger.bank(slot).is_some(), "slot {slot} is under way");
            done(&mut rig, slot, 0);
            assert_eq!(ledger.recent_blocks(1)[0].slot, slot, "it ends at once");
            rig.advance(SLOT);
            rig.run();
            assert!(ledger.working_bank().is_none(), "slot {slot} is not stored");
            ledger.mark_stored(slot);
            rig.advance(SLOT);
            rig.run();
        }
        assert!(ledger.working_bank().is_none(), "slot 1 is final");
        rig.advance(1000 * SLOT);
        rig.run();
        assert_eq!((rig.count().slots, ledger.working_bank().is_none()), (33, true));
        rig.give_control("pack_poh", 0, WORK_WAITS, &[]);
        rig.run();
        assert!(ledger.bank(34).is_some());
        done(&mut rig, 34, HAD_WORK);
        ledger.mark_stored(34);
        rig.advance(SLOT);
        rig.run();
        assert!(ledger.bank(35).is_some(), "34 is not final");
        done(&mut rig, 35, HAD_WORK | WORK_WAITS);
        assert!(ledger.bank(36).is_some(), "something is left for it: that 35 is not stored holds nothing up");
        assert_eq!(rig.count().forgiven_ns, 0, "standing is no delay");
    }
}

#[test]
fn slot_that_is_called_for_begins() {
    let (mut rig, ledger) = rig_on(None, Some(OnDemand::default()));
    rig.run();
    for slot in 1..=33 {
        rig.advance(SLOT / 100);
        rig.give("pack_poh", 0, &DonePacking { slot, microblocks: 0 }.encode());
        rig.run();
        ledger.mark_stored(slot);
        rig.advance(SLOT);
        rig.run();
    }
    assert!(ledger.working_bank().is_none(), "the chain stands");
    rig.give("rpc_poh", 33, &[]);
    rig.run();
    assert!(ledger.working_bank().is_none(), "slot 33 has been");
    rig.give("rpc_poh", 34, &[]);
    rig.run();
    assert!(ledger.bank(34).is_some());
}

/// A turn may end with the step that ends a slot: the next turn then asks whether the next slot may start.
#[test]
fn waiting_work_gets_a_slot_at_any_length_of_the_last() {
    // From 104 to 164 steps per slot, four apart: one of them is exactly a turn.
    for steps in 25..=40 {
        let (mut rig, ledger) = rig_on(Some(steps * HASHES_PER_STEP), Some(OnDemand::default()));
        rig.run();
        rig.advance(SLOT);
        let done = DonePacking { slot: 1, microblocks: 0 }.encode();
        rig.give_control("pack_poh", 1, HAD_WORK | WORK_WAITS, &done);
        rig.run();
        assert_eq!(ledger.recent_blocks(1)[0].slot, 1);
        assert!(ledger.bank(2).is_some(), "{steps} steps of hashes in each of four ticks");
    }
}

#[test]
fn a_slot_ends_when_pack_is_done_and_all_is_in() {
    for hashes in [None, Some(1000)] {
        let (mut rig, ledger) = rig(hashes);
        rig.run();
        rig.take("poh_pack");
        rig.advance(2 * SLOT);
        rig.run();
        assert!(rig.take("poh_shred").len() == 3, "all ticks but the last");
        rig.give("pack_poh", 0, &DonePacking { slot: 1, microblocks: 1 }.encode());
        rig.run();
        assert_eq!(rig.take("poh_shred"), []);
        rig.give("bank_poh:1", 0, &executed(1, 0, 1));
        rig.run();
        let entries = rig.take("poh_shred");
        let last = PohEntry::read(&entries[1].1);
        assert_eq!((entries.len(), last.tick, last.last), (2, 4, true));
        let blocks = ledger.recent_blocks(1);
        let hash = hearth_wire::entry::Entry::parse(last.entry).unwrap().hash;
        assert_eq!((blocks[0].slot, &blocks[0].blockhash), (1, hash));
        let events = rig.take("poh_pack");
        let events: Vec<_> = events.iter().map(|(_, e)| LeaderSlot::read(e)).map(|e| (e.slot, e.blockhash)).collect();
        assert_eq!(events, [(1, *hash), (2, *hash)], "slot 1 has ended, slot 2 begins on it");
        assert_eq!((rig.count().slots, rig.count().ticks), (1, 4));
    }
}

#[test]
fn the_chain_verifies() {
    let (mut rig, ledger) = rig(Some(500));
    let genesis_hash = *ledger.genesis_hash();
    let mut block = vec![];
    let mut count = 0;
    for _ in 0..40 {
        rig.run();
        for (slot, event) in rig.take("poh_pack") {
            let event = LeaderSlot::read(&event);
            if event.max_microblocks > 0 && slot == 1 {
                rig.give("pack_poh", 0, &DonePacking { slot: 1, microblocks: 0 }.encode());
            }
        }
        for (slot, bytes) in rig.take("poh_shred") {
            if slot == 1 {
                block.extend_from_slice(PohEntry::read(&bytes).entry);
                count += 1;
            }
        }
        rig.advance(SLOT / 16);
    }
    let mut batch = vec![];
    hearth_wire::entry::write_batch_header(count, &mut batch);
    batch.extend_from_slice(&block);
    let entries: Vec<_> = hearth_wire::entry::Entries::parse(&batch).unwrap().map(Result::unwrap).collect();
    let last = check::verify_entries(&genesis_hash, &entries, Some(500), 4, 1).unwrap();
    assert_eq!(ledger.recent_blocks(1)[0].blockhash, last);
}

#[test]
fn cluster_slot_begins_on_command() {
    let (mut rig, ledger) = rig_in_cluster();
    rig.run();
    rig.advance(2 * SLOT);
    assert_eq!(answers(&mut rig), []);
    assert_eq!((rig.take("poh_pack"), rig.take("poh_shred")), (vec![], vec![]));

    let genesis = ledger.recent_blocks(1)[0];
    let parent = Parent { slot: genesis.slot, blockhash: genesis.blockhash, block_id: [9; 32] };
    order(&mut rig, LeaderOrder::Reset(parent));
    order(&mut rig, LeaderOrder::Make(3));
    order(&mut rig, LeaderOrder::Retract(3));
    assert_eq!(answers(&mut rig), [LeaderAnswer::Retracted(3)], "it has not begun");
    assert!(rig.take("poh_pack").is_empty());

    order(&mut rig, LeaderOrder::Make(3));
    rig.run();
    order(&mut rig, LeaderOrder::Retract(3));
    assert_eq!(answers(&mut rig), [], "it has begun");
    assert!(ledger.bank(3).is_some());
    assert_eq!(LeaderSlot::read(&rig.take("poh_pack")[0].1).slot, 3);
    let messages = rig.take_control("poh_shred");
    assert_eq!(messages[0], (CHAINS_TO, vec![9; 32]));
    let skipped = messages[1..].iter().map(|(_, bytes)| PohEntry::read(bytes));
    assert_eq!(skipped.map(|it| (it.slot, it.parent_slot, it.tick)).collect::<Vec<_>>(), [(3, 0, 0); 8]);

    rig.give("pack_poh", 0, &DonePacking { slot: 3, microblocks: 0 }.encode());
    rig.advance(SLOT);
    assert_eq!(answers(&mut rig), [LeaderAnswer::Ended(3)]);
    assert_eq!(ledger.recent_blocks(1)[0].slot, 3);
    let controls: Vec<u16> = rig.take_control("poh_pack").iter().map(|(control, _)| *control).collect();
    assert_eq!(controls, [SLOT_ENDED], "no other slot begins by itself");

    // While the disk has no room the order stays, and can be retracted.
    rig.give_control("store_poh", 0, DISK_FULL, &[]);
    rig.run();
    let parent = Parent { slot: 3, blockhash: ledger.recent_blocks(1)[0].blockhash, block_id: [8; 32] };
    order(&mut rig, LeaderOrder::Reset(parent));
    order(&mut rig, LeaderOrder::Make(4));
    rig.run();
    order(&mut rig, LeaderOrder::Retract(4));
    assert_eq!(answers(&mut rig), [LeaderAnswer::Retracted(4)]);
    assert!(ledger.bank(4).is_none());
}
