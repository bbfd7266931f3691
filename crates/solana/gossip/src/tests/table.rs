//! The table on its own.

use hearth_crypto::sha256::sha256;
use hearth_testkit::random::Random;
use hearth_wire::gossip::{LowestSlot, Version};

use super::*;

/// A value with a zero signature: the table does not verify it.
fn value(data: &CrdsData<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    data.write(&mut bytes);
    bytes
}

fn lowest(from: u8, lowest: u64, wallclock: u64) -> Vec<u8> {
    value(&CrdsData::LowestSlot(LowestSlot { from: [from; 32], lowest, wallclock }))
}

fn contact(from: u8, outset: u64, wallclock: u64) -> Vec<u8> {
    let node = ContactInfo::new([from; 32], outset, 7, Version::default());
    let node = node.with(SocketKind::Gossip, std::net::SocketAddrV4::new([10, 0, 0, from].into(), 8_000));
    value(&CrdsData::ContactInfo(ContactInfo { wallclock, ..node }))
}

fn insert(table: &mut Table, bytes: &[u8], now: u64) -> InsertResult {
    table.insert(&CrdsValue::parse(bytes).unwrap(), sha256(&[bytes]), now, Route::Push)
}

/// Checks that all indexes agree.
fn check(table: &Table) {
    let of_all = table.entries.iter().flatten().count();
    assert_eq!([table.by_label.len(), table.by_kind.len(), table.by_hash.len(), table.len()], [of_all; 4]);
    assert_eq!(table.entries.len(), of_all + table.free.len());
    assert_eq!(table.bytes, table.since(0).map(|entry| entry.bytes.len()).sum::<usize>());
    assert_eq!(table.bytes, table.origins.values().map(|origin| origin.bytes).sum::<usize>());
    assert!(table.origins.values().all(|origin| !origin.places.is_empty()));
    assert_eq!(table.hosts.values().sum::<u32>() as usize, table.kind_since(CrdsKind::ContactInfo, 0).count());
    assert_eq!(table.part((0, u64::MAX)).count(), of_all);
    for entry in table.since(0) {
        assert_eq!(table.get(&entry.label).map(|entry| entry.ordinal), Some(entry.ordinal));
        assert!(table.of_origin(&entry.label.pubkey).any(|other| other.ordinal == entry.ordinal));
    }
}

#[test]
fn later_value_wins_then_the_larger_hash() {
    let mut table = Table::default();
    assert_eq!(insert(&mut table, &lowest(1, 5, 100), 100), InsertResult::New);
    assert_eq!(insert(&mut table, &lowest(1, 6, 99), 100), InsertResult::Stale);
    assert_eq!(insert(&mut table, &lowest(1, 5, 100), 100), InsertResult::Duplicate(1));
    assert_eq!(insert(&mut table, &lowest(1, 5, 100), 100), InsertResult::Duplicate(2));
    let (a, b) = (lowest(2, 1, 100), lowest(2, 2, 100));
    let (less, more) = if sha256(&[&a]) < sha256(&[&b]) { (a, b) } else { (b, a) };
    assert_eq!(insert(&mut table, &less, 100), InsertResult::New);
    assert_eq!(insert(&mut table, &more, 100), InsertResult::New);
    assert_eq!(insert(&mut table, &less, 100), InsertResult::Stale);
    assert_eq!(table.purged().len(), 3);
    check(&table);
}

#[test]
fn contact_info_of_a_later_start_wins() {
    let mut table = Table::default();
    assert_eq!(insert(&mut table, &contact(1, 10, 500), 1), InsertResult::New);
    assert_eq!(insert(&mut table, &contact(1, 11, 400), 1), InsertResult::New);
    assert_eq!(insert(&mut table, &contact(1, 10, 900), 1), InsertResult::Stale);
    assert_eq!(insert(&mut table, &contact(1, 11, 401), 1), InsertResult::New);
    assert_eq!(table.contact(&[1; 32]).map(|contact| (contact.outset, contact.wallclock)), Some((11, 401)));
    assert_eq!(table.nodes_at(&[10, 0, 0, 1].into()), 1);
    check(&table);
}

#[test]
fn fresh_contact_info_keeps_its_nodes_values() {
    let mut table = Table::default();
    insert(&mut table, &lowest(1, 5, 1_000), 1_000);
    insert(&mut table, &contact(1, 1, 5_000), 5_000);
    insert(&mut table, &lowest(2, 5, 1_000), 1_000);
    assert_eq!(table.purge(10_000, |_| 9_000), 1, "node 2 has no contact info");
    assert_eq!(table.purge(14_000, |_| 9_000), 2);
    assert_eq!((table.len(), table.origins().len()), (0, 0));
    insert(&mut table, &contact(1, 1, 20_000), 5_000);
    table.touch(&[1; 32], 9_000);
    assert_eq!(table.purge(14_001, |_| 5_000), 1, "by when it came, where that was earlier than what it says");
    check(&table);
}

#[test]
fn newest_node_with_least_stake_goes_first() {
    let mut table = Table::default();
    for from in 1..=20 {
        insert(&mut table, &contact(from, 1, 1), 1);
        insert(&mut table, &lowest(from, 5, 1), 1);
    }
    // A value that replaces another does not renew its node's arrival.
    insert(&mut table, &contact(1, 1, 2), 2);
    let stake = |pubkey: &Pubkey| if pubkey[0].is_multiple_of(2) { 9 } else { 0 };
    assert_eq!(table.trim(15, usize::MAX, &[19; 32], stake, 3), 10);
    let left: Vec<u8> = table.origins().keys().map(|pubkey| pubkey[0]).collect();
    assert_eq!(left, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 19, 20]);
    let bytes = table.bytes() / 3;
    table.trim(usize::MAX, bytes, &[19; 32], stake, 3);
    let left: Vec<u8> = table.origins().keys().map(|pubkey| pubkey[0]).collect();
    assert_eq!(left, [2, 4, 6, 8, 19]);
    check(&table);
}

#[test]
fn indexes_agree_whatever_happens() {
    let seed = 0x7ab1e;
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut table = Table::default();
    let mut now = 0;
    while now < 20_000u64 {
        now += 1;
        let from = random.below(40) as u8;
        let bytes = match random.below(3) {
            0 => contact(from, random.below(3), now - random.below(now.min(500))),
            _ => lowest(from, random.below(5), now - random.below(now.min(500))),
        };
        insert(&mut table, &bytes, now);
        match random.below(100) {
            0 => _ = table.purge(now, |pubkey| 50 + 10 * u64::from(pubkey[0])),
            1 => _ = table.trim(30, 8_000, &[3; 32], |pubkey| u64::from(pubkey[0]), now),
            2 => check(&table),
            _ => {}
        }
    }
    check(&table);
}
