//! Tile tests: frags in, frags out, time set by hand.

mod drops;
mod lookups;

use std::time::Duration;

use hearth_ledger::cost::BlockLimits;
use hearth_tile::rig::Rig;
use hearth_wire::consts::{COMPUTE_BUDGET_PROGRAM, Hash, MAX_BLOCKHASH_AGE_BLOCKS, Pubkey};
use hearth_wire::message::{Instruction, Message};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction::{self, SetComputeUnitPrice};
use hearth_wire::program::system;

use super::*;
use crate::links::COMPLETION_MTU;

const SLOT_NS: u64 = 400_000_000;
/// The blockhash known at startup, at height 0.
const FIRST_HASH: Hash = [3; 32];

fn rig(config: Config) -> Rig<Pack> {
    let inputs = ["dedup_pack", "bank_pack:0", "bank_pack:1", "poh_pack"];
    Rig::new(config, &inputs, &["pack_bank:0", "pack_bank:1", "pack_poh"])
}

fn small() -> Config {
    Config {
        capacity: 256,
        accounts: 1024,
        fill_wait_ns: 0,
        hold_when_full: false,
        blockhashes: BlockhashQueue::new(FIRST_HASH),
        ..Config::default()
    }
}

fn begin(rig: &mut Rig<Pack>, slot: u64) {
    let start_ns = rig.clock().now();
    let blockhash = blockhash_before(slot);
    let leader = LeaderSlot { slot, start_ns, end_ns: start_ns + SLOT_NS, max_microblocks: 1000, blockhash };
    rig.give("poh_pack", slot, &leader.encode());
}

fn blockhash_before(slot: u64) -> Hash {
    let mut hash = FIRST_HASH;
    hash[..8].copy_from_slice(&slot.to_le_bytes());
    hash
}

/// Makes a transfer; `from` pays the fee and determines the signature.
fn transfer(from: u8, to: u8, requests: &[ComputeBudgetInstruction]) -> Vec<u8> {
    let mut instructions: Vec<Instruction> = requests.iter().map(ComputeBudgetInstruction::instruction).collect();
    instructions.push(system::transfer(&[from; 32], &[to; 32], 1));
    signed(&[from; 32], &instructions)
}

fn signed(payer: &Pubkey, instructions: &[Instruction]) -> Vec<u8> {
    signed_with(payer, instructions, &FIRST_HASH)
}

fn signed_with(payer: &Pubkey, instructions: &[Instruction], blockhash: &Hash) -> Vec<u8> {
    Message::compile(payer, instructions, blockhash).unwrap().sign_with(|key, _| [key[0]; 64])
}

fn give(rig: &mut Rig<Pack>, tag: u64, bytes: &[u8]) {
    rig.give("dedup_pack", tag << 40, bytes);
}

/// Takes a bank's microblocks: ids, and the transactions' bytes.
fn take(rig: &mut Rig<Pack>, bank: usize) -> Vec<(u64, Vec<Vec<u8>>)> {
    let taken = rig.take(&format!("pack_bank:{bank}"));
    let read = |(_, payload): (u64, Vec<u8>)| {
        let microblock = Microblock::read(&payload);
        (microblock.id, microblock.txns().map(|txn| txn.bytes.to_vec()).collect())
    };
    taken.into_iter().map(read).collect()
}

/// Completes a microblock in which each transaction used 1,481 units, the minimum for a transfer.
fn complete(rig: &mut Rig<Pack>, bank: usize, slot: u64, id: u64, txn_count: usize) {
    let mut buffer = [0; COMPLETION_MTU];
    let size = Completion::write(&mut buffer, slot, id, std::iter::repeat_n(1_481, txn_count));
    rig.give(&format!("bank_pack:{bank}"), id, &buffer[..size]);
}

#[test]
fn transactions_become_microblocks_that_do_not_conflict() {
    let mut rig = rig(small());
    let (first, conflicting, other) = (transfer(1, 2, &[]), transfer(1, 3, &[]), transfer(4, 5, &[]));
    for (tag, bytes) in [&first, &conflicting, &other].into_iter().enumerate() {
        give(&mut rig, tag as u64 + 1, bytes);
    }
    rig.run();
    assert_eq!(take(&mut rig, 0), [], "no leader slot yet");
    begin(&mut rig, 7);
    rig.run();
    assert_eq!(take(&mut rig, 0), [(0, vec![first, other])]);
    assert_eq!(take(&mut rig, 1), []);
    complete(&mut rig, 0, 7, 0, 2);
    rig.run();
    let both = [take(&mut rig, 0), take(&mut rig, 1)].concat();
    assert_eq!(both, [(1, vec![conflicting])]);
    rig.advance(Duration::from_millis(1));
    rig.run();
    let count = rig.count();
    assert_eq!((count.received, count.scheduled, count.microblocks, count.pending), (3, 3, 2, 0));
    assert_eq!(count.cost_given_back, 2 * (20_707 - 1_481));
}

#[test]
fn higher_reward_per_cost_goes_first() {
    let mut rig = rig(small());
    let pays = |from, price| transfer(from, from + 100, &[SetComputeUnitPrice(price)]);
    let txns = [pays(1, 10_000), pays(2, 3_000_000), pays(3, 500_000)];
    for (tag, bytes) in txns.iter().enumerate() {
        give(&mut rig, tag as u64 + 1, bytes);
    }
    begin(&mut rig, 1);
    rig.run();
    let [a, b, c] = txns;
    assert_eq!(take(&mut rig, 0), [(0, vec![b, c, a])]);
}

#[test]
fn the_end_of_a_slot_says_how_many_microblocks_there_are() {
    let mut rig = rig(small());
    begin(&mut rig, 7);
    give(&mut rig, 1, &transfer(1, 2, &[]));
    rig.run();
    assert_eq!(take(&mut rig, 0).len(), 1);
    assert!(rig.take("pack_poh").is_empty());
    rig.advance(Duration::from_nanos(SLOT_NS));
    rig.run();
    assert_eq!(rig.take("pack_poh"), [(7, DonePacking { slot: 7, microblocks: 1 }.encode().to_vec())]);
    give(&mut rig, 2, &transfer(3, 4, &[]));
    rig.run();
    assert_eq!(take(&mut rig, 0).len() + take(&mut rig, 1).len(), 0, "no slot, no microblock");
    complete(&mut rig, 0, 7, 0, 1);
    begin(&mut rig, 8);
    rig.run();
    assert_eq!(take(&mut rig, 0).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0], "ids start from zero");
    assert_eq!(rig.count().blocks, 1);
}

#[test]
fn on_demand_a_slot_ends_when_nothing_waits() {
    let shortest = Duration::from_millis(5);
    let mut rig = rig(Config { shortest_slot_ns: Some(shortest.as_nanos() as u64), ..small() });
    let done = |slot, microblocks| DonePacking { slot, microblocks }.encode().to_vec();
    // Poh is notified once that work waits for a slot.
    give(&mut rig, 1, &transfer(1, 2, &[]));
    give(&mut rig, 2, &transfer(1, 3, &[]));
    rig.run();
    assert_eq!(rig.take_control("pack_poh"), [(WORK_WAITS, vec![])]);
    begin(&mut rig, 7);
    rig.advance(2 * shortest);
    rig.run();
    assert!(rig.take("pack_poh").is_empty(), "the second waits for the first");
    complete(&mut rig, 0, 7, 0, 1);
    rig.run();
    assert_eq!(rig.take_control("pack_poh"), [(HAD_WORK, done(7, 2))]);
    // A slot without work ends without asking for another.
    begin(&mut rig, 8);
    rig.run();
    assert!(rig.take("pack_poh").is_empty(), "not before its shortest time");
    rig.advance(shortest);
    rig.run();
    assert_eq!(rig.take_control("pack_poh"), [(0, done(8, 0))]);
    // Work left when a slot's time is up requests the next one, without any new arrival.
    give(&mut rig, 3, &transfer(1, 4, &[]));
    give(&mut rig, 4, &transfer(1, 5, &[]));
    rig.run();
    rig.take("pack_poh");
    begin(&mut rig, 9);
    rig.run();
    assert!(rig.take("pack_poh").is_empty(), "they wait for an account that slot 7 still holds");
    rig.advance(Duration::from_nanos(SLOT_NS));
    rig.run();
    assert_eq!(rig.take_control("pack_poh"), [(HAD_WORK | WORK_WAITS, done(9, 0))]);
}

#[test]
fn a_bank_gets_no_more_than_it_can_have() {
    let mut rig = rig(small());
    begin(&mut rig, 1);
    let per_bank = FLIGHTS_PER_BANK as usize;
    // Two more than both banks can hold, each in a microblock of its own.
    for round in 0..2 * FLIGHTS_PER_BANK as u8 + 2 {
        give(&mut rig, u64::from(round) + 1, &transfer(10 + round, 100 + round, &[]));
        rig.run();
    }
    let (first, second) = (take(&mut rig, 0), take(&mut rig, 1));
    assert_eq!((first.len(), second.len()), (per_bank, per_bank));
    complete(&mut rig, 1, 1, second[0].0, 1);
    rig.run();
    let next = take(&mut rig, 1);
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].1.len(), 2, "what came meanwhile goes together");
}

#[test]
fn full_pool_blocks_producers_if_configured() {
    let mut rig = rig(Config { capacity: 2, hold_when_full: true, ..small() });
    for tag in 1..6 {
        give(&mut rig, tag, &transfer(9, 20 + tag as u8, &[]));
    }
    rig.run();
    assert_eq!(rig.count().received, 2, "the others stay on the link");
    begin(&mut rig, 1);
    for id in 0..5 {
        rig.run();
        let taken = take(&mut rig, 0);
        assert_eq!(taken.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id]);
        complete(&mut rig, 0, 1, id, 1);
    }
    rig.run();
    rig.advance(Duration::from_millis(2));
    rig.run();
    let c = rig.count();
    assert_eq!((c.received, c.scheduled, c.pending, c.dropped_pool_full), (5, 5, 0, 0));
}

#[test]
fn partial_microblock_waits_after_the_last() {
    let mut rig = rig(Config { fill_wait_ns: 1_000, ..small() });
    begin(&mut rig, 1);
    give(&mut rig, 1, &transfer(1, 2, &[]));
    rig.run();
    assert_eq!(take(&mut rig, 0).len(), 1, "the first one does not wait");
    let deadline = rig.clock().now() + 1_000;
    give(&mut rig, 2, &transfer(3, 4, &[]));
    rig.run();
    assert_eq!([take(&mut rig, 0), take(&mut rig, 1)].concat(), []);
    assert_eq!(rig.waits_for().deadline, Some(deadline), "it wakes by itself");
    give(&mut rig, 3, &transfer(5, 6, &[]));
    rig.run();
    rig.advance(Duration::from_nanos(1_000));
    rig.run();
    let waited = [take(&mut rig, 0), take(&mut rig, 1)].concat();
    assert_eq!(waited.iter().map(|(_, txns)| txns.len()).collect::<Vec<_>>(), [2], "what came meanwhile goes along");
    for n in 0..64 {
        give(&mut rig, 4 + n, &transfer(10 + n as u8, 100 + n as u8, &[]));
    }
    rig.run();
    let full = [take(&mut rig, 0), take(&mut rig, 1)].concat();
    assert_eq!(full.iter().map(|(_, txns)| txns.len()).collect::<Vec<_>>(), [64], "a full one does not wait");
}

#[test]
fn drops_are_counted() {
    let mut rig = rig(Config { capacity: 2, ..small() });
    begin(&mut rig, 5);
    let price = SetComputeUnitPrice(1_000_000);
    let twice = signed(&[1; 32], &[price.instruction(), price.instruction()]);
    let nonsense =
        signed(&[2; 32], &[Instruction { program_id: COMPUTE_BUDGET_PROGRAM, accounts: vec![], data: vec![9] }]);
    give(&mut rig, 1, &twice);
    give(&mut rig, 2, &nonsense);
    // Both banks are busy with this account, so the pool fills up.
    give(&mut rig, 3, &transfer(9, 9, &[]));
    rig.run();
    assert_eq!(take(&mut rig, 0).len(), 1);
    for tag in 4..8 {
        give(&mut rig, tag, &transfer(9, tag as u8, &[]));
    }
    give(&mut rig, 4, &transfer(9, 4, &[]));
    give(&mut rig, 8, &transfer(9, 8, &[price]));
    rig.run();
    rig.advance(Duration::from_millis(2));
    rig.run();
    let c = *rig.count();
    assert_eq!((c.received, c.scheduled, c.pending), (9, 1, 2));
    assert_eq!((c.dropped_budget, c.dropped_pool_full, c.dropped_duplicate, c.dropped_evicted), (2, 2, 1, 1));
}

/// Runs slots up to `last`, each at the end of the previous one, and returns the counters.
fn slots(rig: &mut Rig<Pack>, slots: std::ops::RangeInclusive<u64>) -> Counters {
    for slot in slots {
        rig.advance(Duration::from_nanos(SLOT_NS));
        rig.run();
        begin(rig, slot);
        rig.run();
        rig.take("pack_poh");
    }
    rig.advance(Duration::from_millis(2));
    rig.run();
    *rig.count()
}

#[test]
fn old_blockhash_expires() {
    let mut rig = rig(small());
    begin(&mut rig, 1);
    // It holds account 9 to the end, so all others stay in the pool.
    give(&mut rig, 1, &transfer(9, 9, &[]));
    rig.run();
    assert_eq!(take(&mut rig, 0).len(), 1);
    // Slot n builds on the block of height n. Arrival time does not matter: the blockhash counts.
    let of = |to: u8, hash: &Hash| signed_with(&[9; 32], &[system::transfer(&[9; 32], &[to; 32], 1)], hash);
    slots(&mut rig, 2..=100);
    give(&mut rig, 2, &of(10, &FIRST_HASH)); // height 0
    give(&mut rig, 3, &of(11, &FIRST_HASH));
    give(&mut rig, 4, &of(12, &blockhash_before(1))); // height 1
    give(&mut rig, 5, &of(13, &blockhash_before(100)));
    give(&mut rig, 6, &of(14, &blockhash_before(101))); // the block under way has just ended with it
    give(&mut rig, 7, &of(15, &[99; 32])); // no blockhash
    assert_eq!(slots(&mut rig, 101..=101).dropped_expired, 1, "the last alone");
    // Block n has height n + 1: a blockhash of height 0 may be used up to height 151.
    let c = slots(&mut rig, 102..=MAX_BLOCKHASH_AGE_BLOCKS);
    assert_eq!((c.dropped_expired, c.pending), (1, 5));
    let c = slots(&mut rig, 151..=151);
    assert_eq!((c.dropped_expired, c.pending), (3, 3));
    let c = slots(&mut rig, 152..=152);
    assert_eq!((c.dropped_expired, c.pending), (4, 2));
    give(&mut rig, 8, &of(16, &blockhash_before(1)));
    let c = slots(&mut rig, 153..=250);
    assert_eq!((c.dropped_expired, c.pending), (5, 2), "too old when it came");
    assert_eq!(slots(&mut rig, 251..=251).dropped_expired, 6);
    let c = slots(&mut rig, 252..=252);
    assert_eq!((c.dropped_expired, c.pending), (7, 0));
    assert_eq!((c.received, c.scheduled), (8, 1));
}

#[test]
fn a_nonce_lives_as_long_as_a_blockhash_of_its_arrival() {
    let mut rig = rig(small());
    begin(&mut rig, 1);
    give(&mut rig, 1, &transfer(9, 9, &[]));
    rig.run();
    let advance = system::advance_nonce_account(&[8; 32], &[9; 32]);
    give(&mut rig, 2, &signed_with(&[9; 32], &[advance], &[99; 32]));
    let c = slots(&mut rig, 2..=151);
    assert_eq!((c.dropped_expired, c.pending), (0, 1));
    let c = slots(&mut rig, 152..=152);
    assert_eq!((c.dropped_expired, c.pending), (1, 0));
}

#[test]
fn blockhashes_of_before_the_start_are_known() {
    let mut blockhashes = BlockhashQueue::new(FIRST_HASH);
    (1..=1_000).for_each(|height| blockhashes.register(blockhash_before(height), 0));
    let mut rig = rig(Config { blockhashes, ..small() });
    // The first holds the account.
    for (to, height) in [(1, 1_000), (2, 850), (3, 851)] {
        let transfer = system::transfer(&[9; 32], &[to; 32], 1);
        give(&mut rig, to.into(), &signed_with(&[9; 32], &[transfer], &blockhash_before(height)));
    }
    rig.run();
    begin(&mut rig, 1_000);
    rig.run();
    assert_eq!(take(&mut rig, 0).len(), 1);
    let c = slots(&mut rig, 1_001..=1_001);
    assert_eq!((c.dropped_expired, c.pending), (1, 1));
    let c = slots(&mut rig, 1_002..=1_002);
    assert_eq!((c.dropped_expired, c.pending), (2, 0));
}

#[test]
fn nothing_goes_before_the_nodes_own_vote_or_pushes_it_out() {
    let inputs = ["dedup_pack", "bank_pack:0", "poh_pack", "tower_pack"];
    let mut rig = Rig::<Pack>::new(small(), &inputs, &["pack_bank:0", "pack_poh"]);
    let vote = transfer(1, 2, &[]);
    rig.give("tower_pack", 0, &vote);
    rig.run();
    let price = SetComputeUnitPrice(1_000_000_000);
    for payer in 0..300_u16 {
        let mut from = [7; 32];
        from[..2].copy_from_slice(&payer.to_le_bytes());
        let to_another = system::transfer(&from, &[8; 32], 1);
        give(&mut rig, u64::from(payer) + 1, &signed(&from, &[price.instruction(), to_another]));
        rig.run();
    }
    begin(&mut rig, 7);
    rig.run();
    let first = take(&mut rig, 0).remove(0).1.remove(0);
    assert_eq!(first, vote);
    rig.advance(Duration::from_millis(1));
    rig.run();
    let c = *rig.count();
    assert_eq!(c.dropped_pool_full + c.dropped_evicted, 301 - 256);
}

#[test]
fn a_node_without_banks_is_refused() {
    let made = Rig::<Pack>::try_new(small(), &["dedup_pack", "poh_pack"], &["pack_poh"]);
    assert!(made.is_err_and(|error| error.to_string().contains("bank")));
}

/// Milliseconds for which a 400 ms block was full after the second of two transfers, by limit.
fn full_ms(config: Config, max_microblocks: u64) -> [u64; 5] {
    let mut rig = rig(config);
    let start_ns = rig.clock().now();
    let end_ns = start_ns + SLOT_NS;
    let leader = LeaderSlot { slot: 1, start_ns, end_ns, max_microblocks, blockhash: blockhash_before(1) };
    rig.give("poh_pack", 1, &leader.encode());
    let first = transfer(1, 9, &[]);
    give(&mut rig, 1, &first);
    rig.run();
    // It uses what it reserved, so nothing is returned; the second pays to the same account.
    let mut buffer = [0; COMPLETION_MTU];
    let size = Completion::write(&mut buffer, 1, 0, std::iter::once(20_707));
    if !take(&mut rig, 0).is_empty() {
        rig.give("bank_pack:0", 0, &buffer[..size]);
    }
    give(&mut rig, 2, &transfer(3, 9, &[]));
    rig.run();
    // Past the block's end: an ended block does not count as full.
    for _ in 0..500 {
        rig.advance(Duration::from_millis(1));
        rig.run();
    }
    let count = rig.count();
    let block = [count.full_compute_ns, count.full_bytes_ns, count.full_growth_ns, count.full_microblocks_ns];
    let [compute, bytes, growth, microblocks] = block;
    [compute, bytes, growth, microblocks, count.full_account_ns].map(|ns| (ns + 500_000) / 1_000_000)
}

#[test]
fn how_long_a_block_is_full_is_counted_by_what_it_ran_out_of() {
    let with = |limits| Config { limits, ..small() };
    let almost_all = 395..=400;
    assert_eq!(full_ms(small(), 1000), [0; 5]);
    // Room for the reservation of one transfer, or for the bytes of one.
    let [compute, others @ ..] = full_ms(with(BlockLimits { block_cost: 30_000, ..BlockLimits::default() }), 1000);
    assert!(almost_all.contains(&compute) && others == [0; 4], "{compute} {others:?}");
    let [_, bytes, ..] = full_ms(with(BlockLimits { entry_bytes: 300, ..BlockLimits::default() }), 1000);
    assert!(almost_all.contains(&bytes), "{bytes}");
    let [.., microblocks, _] = full_ms(small(), 1);
    assert!(almost_all.contains(&microblocks), "{microblocks}");
    let [compute, .., account] = full_ms(with(BlockLimits { account_cost: 30_000, ..BlockLimits::default() }), 1000);
    assert!(almost_all.contains(&account) && compute == 0, "{account} {compute}");
    // Poh takes nothing for this slot, as at the end of a chain's work: that is not a limit.
    assert_eq!(full_ms(small(), 0), [0; 5]);
}
