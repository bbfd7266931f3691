//! Whole FEC sets are stored in short and made again byte for byte; the packets of all others stay as they came.

use std::net::SocketAddr;

use hearth_pipeline::capture::{CapturedPacket, PacketSource, UNKNOWN};
use hearth_pipeline::shred::{FecSet, SetHeader, Shredder, ShredderConfig};
use hearth_wire::shred::{DATA_PER_SET, SHREDS_PER_SET};

use super::format::{FormatError, SessionEvent, SessionWriter, ShredSet, StoredEvent, StoredShred};
use super::sets::{read, restore, shorten};
use super::tests::{file, header, of_bytes, packet, records};

/// All shreds of the two sets of a slot: the last set has room for a retransmitter's signature.
fn sets(slot: u64) -> Vec<Vec<Vec<u8>>> {
    let mut shredder = Shredder::new(ShredderConfig { batch_sets: 2, ..ShredderConfig::default() }, [0; 32]);
    let mut entry = vec![];
    hearth_wire::entry::write_entry(1, &[1; 32], 1, &[2; 40_000], &mut entry);
    shredder.begin_slot(slot, slot - 1).unwrap();
    shredder.push(&entry, 1).unwrap();
    shredder.end_batch(true);
    let mut sets = vec![];
    let mut set = FecSet::new();
    while shredder.next_set(&mut set) {
        set.sign(&[6; 64]);
        sets.push(set.shreds().map(<[u8]>::to_vec).collect());
    }
    assert_eq!(sets.len(), 2);
    sets
}

/// Shreds by Turbine, a microsecond apart.
fn turbine(shreds: &[Vec<u8>]) -> Vec<SessionEvent> {
    let times = (1_000..).step_by(1_000);
    times.zip(shreds).map(|(at_ns, shred)| packet(at_ns, PacketSource::Turbine, shred.clone())).collect()
}

/// A shred as a response to repair.
fn repaired(at_ns: u64, shred: &[u8], nonce: u32) -> SessionEvent {
    packet(at_ns, PacketSource::Repair, [shred, &nonce.to_le_bytes()[..]].concat())
}

/// Gives each shred of the last set of a slot another retransmitter.
fn resign(shreds: &mut [Vec<u8>]) {
    for (place, shred) in shreds.iter_mut().enumerate() {
        let end = shred.len();
        shred[end - 64..].fill(place as u8 + 1);
    }
}

fn stored_file(stored: &[StoredEvent]) -> Vec<u8> {
    let mut writer = SessionWriter::new(vec![], &header(), 3).unwrap();
    stored.iter().for_each(|stored| writer.add_stored(stored).unwrap());
    writer.end(40, 0).unwrap()
}

/// Stores events in short, and asserts that a file of that gives them again. Returns how many sets and packets are in
/// short, and the bytes of the file.
fn store(events: &[SessionEvent]) -> (usize, usize, usize) {
    let stored = shorten(events.to_vec());
    let file = stored_file(&stored);
    let again = read(&file).unwrap().events;
    assert!(again == events, "{} events are made again of {}", again.len(), events.len());
    let count = |is: fn(&StoredEvent) -> bool| stored.iter().filter(|stored| is(stored)).count();
    let sets = count(|stored| matches!(stored, StoredEvent::Set(_)));
    (sets, count(|stored| matches!(stored, StoredEvent::Shred(_))), file.len())
}

#[test]
fn whole_sets_are_stored_in_short() {
    let mut sets = sets(9);
    resign(&mut sets[1]);
    // All data and some parity of both sets, in turn; parity comes before data as well.
    let some = |set: &[Vec<u8>]| [&set[..DATA_PER_SET], &set[37..45]].concat();
    let pairs = some(&sets[0]).into_iter().zip(some(&sets[1]));
    let mut shreds: Vec<_> = pairs.flat_map(|(one, other)| [one, other]).collect();
    shreds.reverse();
    let mut events = turbine(&shreds);
    events.insert(7, SessionEvent::Rooted { slot: 3, bank_hash: [8; 32] });
    events.insert(30, packet(2, PacketSource::Gossip, vec![5; 90]));
    let (whole, in_short, bytes) = store(&events);
    assert_eq!(whole, 2);
    assert_eq!(in_short, 2 * 40);
    let long = file(&header(), &events, 0).len();
    assert!(bytes < long / 3, "{bytes} bytes in place of {long}");
    let all = turbine(&sets.concat());
    assert_eq!(store(&all).1, 2 * SHREDS_PER_SET);
}

#[test]
fn set_without_one_data_shred_stays() {
    let sets = sets(9);
    for missing in [0, 17, 31] {
        let mut shreds = sets[0].clone();
        shreds.remove(missing);
        let (whole, in_short, _) = store(&turbine(&shreds));
        assert_eq!(whole, 0, "without {missing}");
        assert_eq!(in_short, 0, "without {missing}");
    }
}

#[test]
fn set_with_one_changed_byte_stays() {
    let sets = sets(9);
    // The signature, an entry byte, the chained root and the proof of a data shred; the parity and proof of another.
    for (place, at) in [(3, 10), (3, 300), (3, 1_060), (3, 1_150), (40, 600), (40, 1_220)] {
        let mut changed = sets.clone();
        changed[0][place][at] ^= 1;
        let (whole, in_short, _) = store(&turbine(&changed.concat()));
        assert_eq!(whole, 1, "byte {at} of shred {place}");
        assert_eq!(in_short, SHREDS_PER_SET, "byte {at} of shred {place}: the other set is whole");
    }
}

#[test]
fn duplicates_are_each_stored_in_short() {
    let sets = sets(9);
    let mut events = turbine(&sets[0]);
    events.extend(turbine(&sets[0][20..40]));
    events.extend((0..9).map(|place| repaired(77, &sets[0][place], place as u32 + 1_000_000)));
    events.push(packet(80, PacketSource::Own, sets[0][5].clone()));
    let (whole, in_short, _) = store(&events);
    assert_eq!(whole, 1);
    assert_eq!(in_short, SHREDS_PER_SET + 20 + 9 + 1);
    // A duplicate that differs keeps its set as it came.
    let mut other = sets[0][5].clone();
    other[200] ^= 1;
    events.push(packet(81, PacketSource::Turbine, other));
    let (whole, in_short, _) = store(&events);
    assert_eq!(whole, 0);
    assert_eq!(in_short, 0);
}

#[test]
fn resigned_set_keeps_each_signature() {
    let mut sets = sets(9);
    resign(&mut sets[1]);
    let mut events = turbine(&sets[1]);
    events.extend((0..DATA_PER_SET).map(|place| repaired(9, &sets[1][place], u32::MAX - place as u32)));
    let (whole, in_short, _) = store(&events);
    assert_eq!(whole, 1);
    assert_eq!(in_short, SHREDS_PER_SET + DATA_PER_SET);
    // The same shreds from another retransmitter.
    resign(&mut sets[1][10..]);
    events.extend(turbine(&sets[1]));
    let (whole, in_short, _) = store(&events);
    assert_eq!(whole, 1);
    assert_eq!(in_short, 2 * SHREDS_PER_SET + DATA_PER_SET);
}

#[test]
fn own_sets_have_no_parity() {
    let sets = sets(9);
    let own = sets[0][..DATA_PER_SET].iter().map(|shred| packet(3, PacketSource::Own, shred.clone()));
    let (whole, in_short, _) = store(&own.collect::<Vec<_>>());
    assert_eq!(whole, 1);
    assert_eq!(in_short, DATA_PER_SET);
}

#[test]
fn times_and_addresses_are_exact() {
    let shred = sets(9).concat().swap_remove(0);
    let times = [0, u64::MAX, 1 << 63, (1 << 63) - 1, 5, 5, 4, 1_000_000_007];
    let mut events = vec![];
    // More addresses than a varint of one byte counts, each more than once.
    for round in 0..3u64 {
        for number in 0..300u16 {
            let v4: SocketAddr = ([10, 0, 0, number as u8], number).into();
            let v6: SocketAddr = ([0x2001, 0xdb8, 0, 0, 0, 0, 0, number], 9).into();
            let from = [v4, v6, UNKNOWN][usize::from(number % 3)];
            let at_ns = times[usize::from(number) % times.len()].wrapping_add(round);
            let source = PacketSource::ALL[usize::from(number) % PacketSource::ALL.len()];
            events.push(SessionEvent::Packet(CapturedPacket { at_ns, source, from, data: shred.clone() }));
        }
    }
    let (whole, in_short, _) = store(&events);
    assert_eq!(whole, 0);
    assert_eq!(in_short, 0);
}

fn small_set() -> ShredSet {
    let header = SetHeader { slot: 9, parent_offset: 1, set_index: 64, ..SetHeader::default() };
    ShredSet { header, chained_root: [1; 32], signature: [2; 64], entry_bytes: vec![9; 100] }
}

fn stored_shred(set: u32, place: u8, rest: Vec<u8>) -> StoredEvent {
    StoredEvent::Shred(StoredShred { at_ns: 1, source: PacketSource::Turbine, from: UNKNOWN, set, place, rest })
}

#[test]
fn set_that_no_leader_makes_is_refused() {
    let whole = small_set();
    let longest = vec![9; whole.header.capacity()];
    assert!(restore(vec![StoredEvent::Set(ShredSet { entry_bytes: longest.clone(), ..small_set() })]).is_ok());
    let too_long = ShredSet { entry_bytes: [&longest[..], &[9]].concat(), ..small_set() };
    let refused = FormatError::Set { slot: 9, set_index: 64 };
    assert_eq!(read(&stored_file(&[StoredEvent::Set(too_long)])), Err(refused));
    // The last set of a slot has less room.
    let resigned = SetHeader { resigned: true, ..whole.header };
    let too_long = ShredSet { header: resigned, entry_bytes: longest, ..small_set() };
    assert_eq!(read(&stored_file(&[StoredEvent::Set(too_long)])), Err(refused));
    let beyond = SetHeader { set_index: u32::MAX, ..whole.header };
    let refused = FormatError::Set { slot: 9, set_index: u32::MAX };
    assert_eq!(read(&stored_file(&[StoredEvent::Set(ShredSet { header: beyond, ..small_set() })])), Err(refused));
}

#[test]
fn shred_without_its_set_is_refused() {
    let shred = stored_shred(0, 63, vec![]);
    let set = StoredEvent::Set(small_set());
    assert_eq!(read(&stored_file(&[set.clone(), shred.clone()])).unwrap().events.len(), 1);
    assert_eq!(read(&stored_file(&[shred, set.clone()])), Err(FormatError::NoSet(0)));
    for number in [1, u32::MAX] {
        assert_eq!(
            read(&stored_file(&[set.clone(), stored_shred(number, 0, vec![])])),
            Err(FormatError::NoSet(number))
        );
    }
}

#[test]
fn lying_length_of_a_short_record_is_refused() {
    let set = StoredEvent::Set(small_set());
    let refused = Err(FormatError::Record(12));
    assert!(read(&stored_file(&[set.clone(), stored_shred(0, 0, vec![7; 68])])).is_ok());
    assert_eq!(read(&stored_file(&[set.clone(), stored_shred(0, 0, vec![7; 69])])), refused);
    let whole = records(&stored_file(&[set]));
    assert!(read(&of_bytes(&whole)).is_ok());
    // The record of the end, of 17 bytes, is behind the set. Its 100 entry bytes follow their length, of one byte.
    let length = whole.len() - 17 - 100 - 1;
    assert_eq!(whole[length], 100);
    for wrong in [0, 99, 101, 118, 0x80, 0xff] {
        let mut changed = whole.clone();
        changed[length] = wrong;
        assert_eq!(read(&of_bytes(&changed)), refused, "{wrong}");
    }
    let flags = length - 64 - 32 - 1;
    let mut changed = whole;
    changed[flags] = 8;
    assert_eq!(read(&of_bytes(&changed)), refused);
}
