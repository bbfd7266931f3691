//! Gossip messages: vectors, round trips, and refusals with their reasons and offsets.

use std::net::SocketAddrV4;

use hearth_wire::gossip::GossipErrorKind as Kind;
use hearth_wire::gossip::*;
use proptest::prelude::*;

use crate::make_corpus::gossip::{contact, messages, vote_data, vote_transaction};

const CONTACT: &str = "0b000000111111111111111111111111111111111111111111111111111111111111111180d095ffbc3100401e1824\
                       0a06003412040202ddccbbaa040302010301000000007f000001030000c03e0a000104000700";

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn written(data: &CrdsData<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    data.write(&mut bytes);
    bytes
}

fn refused(bytes: &[u8]) -> Kind {
    CrdsData::parse(bytes).expect_err("is refused").kind
}

#[test]
fn a_contact_info_is_that_of_the_vector() {
    let bytes = hex(CONTACT);
    assert_eq!(bytes.len(), 85);
    let data = CrdsData::ContactInfo(contact([0x11; 32]));
    assert_eq!(written(&data), bytes);
    assert_eq!(CrdsData::parse(&bytes), Ok(data));
    assert_eq!(contact([0; 32]).version.to_string(), "4.2.2");
    assert_eq!(Version { major: 4, minor: 3 | 1 << 14, patch: 7, ..Version::default() }.to_string(), "4.3.0-rc.7");
}

/// A contact info with these bytes as addresses and sockets.
fn with_sockets(sockets: &[u8]) -> Vec<u8> {
    let mut bytes = hex(CONTACT);
    bytes.truncate(85 - 21);
    bytes.extend_from_slice(sockets);
    bytes
}

#[test]
fn addresses_and_sockets_are_held_to_their_rules() {
    let (a, b, v6) = ([0, 0, 0, 0, 10, 0, 0, 1], [0, 0, 0, 0, 10, 0, 0, 2], [1, 0, 0, 0, 10, 0, 0, 1]);
    let of = |parts: &[&[u8]]| with_sockets(&parts.concat());
    assert_eq!(with_sockets(&hex(CONTACT)[64..]), hex(CONTACT), "the cut is before the addresses");
    assert!(CrdsData::parse(&of(&[&[0, 0, 0]])).is_ok(), "no socket at all");
    assert!(CrdsData::parse(&of(&[&[2], &a, &b, &[2, 0, 1, 5, 4, 0, 0, 0]])).is_ok());
    assert_eq!(refused(&of(&[&[2], &a, &a, &[2, 0, 1, 5, 4, 0, 0, 0]])), Kind::Address, "twice");
    assert_eq!(refused(&of(&[&[2], &a, &b, &[1, 0, 1, 5, 0]])), Kind::Address, "unused");
    assert_eq!(refused(&of(&[&[1], &v6, &[1, 0, 0, 5, 0]])), Kind::Address, "IPv6");
    assert_eq!(refused(&of(&[&[1], &a, &[1, 0, 1, 5, 0]])), Kind::Socket, "an address that is not there");
    assert_eq!(refused(&of(&[&[1], &a, &[2, 3, 0, 5, 3, 0, 1, 0]])), Kind::Socket, "a key twice");
    assert_eq!(refused(&of(&[&[1], &a, &[2, 3, 0, 0xff, 0xff, 3, 4, 0, 1, 0]])), Kind::Socket, "beyond 65,535");
    assert_eq!(refused(&of(&[&[1], &a, &[1, 3, 0, 0x85, 0, 0]])), Kind::Varint);
    assert_eq!(refused(&of(&[&[1], &a, &[1, 3, 0, 5, 1, 0, 0]])), Kind::NotEmpty, "an extension");
    let data = of(&[&[1], &a, &[3, 200, 0, 0, 0, 0, 0, 10, 0, 5, 0]]);
    let Ok(CrdsData::ContactInfo(node)) = CrdsData::parse(&data) else { panic!("is a contact info") };
    assert_eq!(node.socket(SocketKind::Gossip), None, "port 0");
    assert_eq!(node.socket(SocketKind::Tvu), Some("10.0.0.1:5".parse().unwrap()), "a key that nobody knows is passed");
    for address in ["0.0.0.0:5", "224.0.0.1:5", "10.0.0.1:0"] {
        assert_eq!(node.with(SocketKind::Rpc, address.parse().unwrap()).socket(SocketKind::Rpc), None, "{address}");
    }
}

#[test]
fn the_node_that_began_later_replaces_the_other() {
    let old = contact([1; 32]);
    let later = ContactInfo { outset: old.outset + 1, wallclock: old.wallclock - 1, ..old };
    let refreshed = ContactInfo { wallclock: old.wallclock + 1, ..old };
    assert_eq!((later.overrides(&refreshed), refreshed.overrides(&later)), (Some(true), Some(false)));
    assert_eq!((refreshed.overrides(&old), old.overrides(&refreshed)), (Some(true), Some(false)));
    assert_eq!(old.overrides(&ContactInfo { shred_version: 1, ..old }), None);
}

#[test]
fn every_form_of_a_vote_is_read() {
    for tag in [2, 6, 8, 9, 12, 13, 14, 15] {
        let data = vote_data(tag);
        let of = |data: Vec<u8>| {
            let vote =
                Vote { index: 31, from: [1; 32], transaction: &vote_transaction(data), slot: None, wallclock: 5 };
            written(&CrdsData::Vote(vote))
        };
        let bytes = of(data.clone());
        let Ok(CrdsData::Vote(vote)) = CrdsData::parse(&bytes) else { panic!("form {tag}") };
        assert_eq!(vote.slot, Some(75), "form {tag}");
        assert_eq!(vote.transaction, vote_transaction(data.clone()));
        assert!(CrdsData::parse(&of([&data[..], &[7]].concat())).is_ok(), "bytes after it do not matter");
        assert!((4..data.len()).all(|len| refused(&of(data[..len].to_vec())) == Kind::Vote), "form {tag} cut");
        assert_eq!(refused(&of([&[3, 0, 0, 0], &data[4..]].concat())), Kind::Vote, "an instruction that is no vote");
    }
    let transaction = vote_transaction(vote_data(14));
    let vote = Vote { index: VOTE_INDEX_END, from: [1; 32], transaction: &transaction, slot: None, wallclock: 5 };
    assert_eq!(refused(&written(&CrdsData::Vote(vote))), Kind::Range);
}

#[test]
fn out_of_range_and_deprecated_values_are_refused() {
    for tag in [0u8, 3, 4, 6, 7, 8] {
        assert_eq!(refused(&[&[tag, 0, 0, 0][..], &[0; 200]].concat()), Kind::Deprecated);
    }
    assert_eq!(refused(&[&[14, 0, 0, 0][..], &[0; 200]].concat()), Kind::Tag);
    let from = [1; 32];
    let lowest = |lowest, wallclock| written(&CrdsData::LowestSlot(LowestSlot { from, lowest, wallclock }));
    assert!(CrdsData::parse(&lowest(MAX_SLOT - 1, MAX_WALLCLOCK - 1)).is_ok());
    assert_eq!(refused(&lowest(MAX_SLOT, 0)), Kind::Range);
    assert_eq!(refused(&lowest(0, MAX_WALLCLOCK)), Kind::Range);
    for at in [4, 4 + 1 + 32, 4 + 1 + 32 + 16, 4 + 1 + 32 + 24] {
        let mut bytes = lowest(5, 5);
        bytes[at] = 1;
        assert_eq!(refused(&bytes), Kind::NotEmpty, "byte {at}");
    }
    let hashes = |slot| SnapshotHashes { from, full: (9, [0; 32]), incremental: vec![(slot, [1; 32])], wallclock: 1 };
    assert!(CrdsData::parse(&written(&CrdsData::SnapshotHashes(hashes(10)))).is_ok());
    assert_eq!(refused(&written(&CrdsData::SnapshotHashes(hashes(9)))), Kind::Range);
    let run = |count, bytes| SlotRun { first_slot: 1, count, is_compressed: false, bytes };
    let slots = |index, run| written(&CrdsData::EpochSlots(EpochSlots { index, from, runs: vec![run], wallclock: 1 }));
    assert!(CrdsData::parse(&slots(254, run(16_383, &[1]))).is_ok());
    assert_eq!(refused(&slots(255, run(1, &[1]))), Kind::Range);
    assert_eq!(refused(&slots(0, run(16_384, &[1]))), Kind::Range);
    let mut bytes = slots(0, run(8, &[1]));
    let bits = bytes.len() - 16;
    bytes[bits] = 7;
    assert_eq!(refused(&bytes), Kind::Bits, "bits that do not fill their byte");
}

#[test]
fn messages_are_held_to_their_rules() {
    let all = messages();
    let named = |name| all.iter().find(|(other, _)| *other == name).map(|(_, bytes)| bytes.clone()).expect("is there");
    for (name, bytes) in &all {
        assert!(bytes.len() <= 1_232, "{name}");
        for len in 0..bytes.len() {
            let error = Protocol::parse(&bytes[..len]).expect_err("cut short");
            assert!(usize::from(error.offset) <= len, "{name} cut to {len}");
        }
        let kind = Protocol::parse(&[&bytes[..], &[0]].concat()).expect_err("one byte more").kind;
        assert!([Kind::TrailingBytes, Kind::TooLong].contains(&kind), "{name}: {kind}");
    }
    let mut prune = named("prune");
    prune[4] ^= 1;
    assert_eq!(Protocol::parse(&prune).unwrap_err().kind, Kind::Sender);
    let pull = named("pull-request");
    assert!(pull.len() > 1_232 - 8, "{} bytes: the filter takes what is left", pull.len());
    let Ok(Protocol::PullRequest { filter, caller }) = Protocol::parse(&pull) else { panic!("is a pull request") };
    assert!((0..=255).all(|n| filter.bloom.contains(&[n; 32])));
    assert_eq!((filter.mask_bits, filter.range().0, filter.bloom.key_count()), (6, 5 << 58, 3));
    let mut coarse = pull.clone();
    let mask_bits = pull.len() - caller.bytes().len() - 4;
    coarse[mask_bits] = 5;
    assert_eq!(Protocol::parse(&coarse).unwrap_err().kind, Kind::Mask);
    assert_eq!(Protocol::parse(&[9, 0, 0, 0]).unwrap_err().kind, Kind::Tag);
}

/// A value of `size` bytes.
fn value_of(size: usize) -> Vec<u8> {
    let piece = |chunk| DuplicateShred {
        index: 0,
        from: [1; 32],
        wallclock: 1,
        slot: 1,
        unused: 0,
        shred_type: DUPLICATE_SHRED_TYPE,
        chunk_count: 3,
        chunk_index: 0,
        chunk,
    };
    let fixed = written(&CrdsData::DuplicateShred(piece(&[]))).len() + 64;
    let data = written(&CrdsData::DuplicateShred(piece(&vec![7; size - fixed])));
    [&[0; 64][..], &data].concat()
}

#[test]
fn overlong_value_is_refused_as_such() {
    let of = |bytes: &[u8]| CrdsValue::parse(bytes).map(|value| value.bytes().len());
    let too_long = |offset| GossipError { kind: Kind::TooLong, offset };
    assert_eq!((of(&value_of(1_188)), of(&value_of(1_189))), (Ok(1_188), Err(too_long(0))));
    let push = |size| {
        let mut bytes = Vec::new();
        write_values_header(Carrier::Push, &[1; 32], 1, &mut bytes);
        bytes.extend(value_of(size));
        bytes
    };
    assert_eq!(push(1_188).len(), 1_232);
    assert!(Protocol::parse(&push(1_188)).is_ok());
    assert_eq!(Protocol::parse(&push(1_189)).unwrap_err(), too_long(1_232), "a datagram of a byte more");
    // An empty filter leaves room for a caller that fits into no other datagram.
    let pull = |size| [&[0; 4 + 8 + 1 + 8 + 8 + 8][..], &[6, 0, 0, 0], &value_of(size)].concat();
    assert_eq!(Protocol::parse(&pull(1_188)).unwrap_err().kind, Kind::Caller);
    assert_eq!((pull(1_189).len(), Protocol::parse(&pull(1_189)).unwrap_err()), (1_230, too_long(41)));
    let noise = vec![0xff; 1_233];
    assert_eq!(Protocol::parse(&noise).unwrap_err(), too_long(1_232));
    assert_eq!(Protocol::parse(&noise[..1_232]).unwrap_err().kind, Kind::Tag);
}

#[test]
fn a_caller_is_a_contact_info() {
    let bloom = BloomFilter::new(64, vec![1]);
    let lowest = written(&CrdsData::LowestSlot(LowestSlot { from: [1; 32], lowest: 1, wallclock: 1 }));
    let mut bytes = Vec::new();
    write_pull_request(&bloom, 0, 6, &[&[0; 64][..], &lowest].concat(), &mut bytes);
    assert_eq!(Protocol::parse(&bytes).unwrap_err().kind, Kind::Caller);
}

fn address() -> impl Strategy<Value = SocketAddrV4> {
    ((1u8..=223, 0u8..3), 1u16..).prop_map(|((a, d), port)| SocketAddrV4::new([a, 0, 0, d].into(), port))
}

fn contact_info() -> impl Strategy<Value = ContactInfo> {
    let version = any::<([u16; 4], u32, u32)>().prop_map(|([major, minor, patch, client], commit, feature_set)| {
        Version { major, minor, patch, commit, feature_set, client }
    });
    let sockets = prop::array::uniform14(prop::option::of(address()));
    (any::<[u8; 32]>(), 0..MAX_WALLCLOCK, any::<u64>(), any::<u16>(), version, sockets).prop_map(
        |(pubkey, wallclock, outset, shred_version, version, sockets)| ContactInfo {
            pubkey,
            wallclock,
            outset,
            shred_version,
            version,
            sockets,
        },
    )
}

fn run() -> impl Strategy<Value = (u64, u64, bool, Vec<u8>)> {
    (0..MAX_SLOT, 0..MAX_SLOTS_PER_RUN, any::<bool>(), prop::collection::vec(any::<u8>(), 0..40))
}

proptest! {
    #[test]
    fn contact_infos_come_back(node in contact_info()) {
        let data = CrdsData::ContactInfo(node);
        let bytes = written(&data);
        prop_assert_eq!(CrdsData::parse(&bytes), Ok(data));
    }

    #[test]
    fn slots_come_back(
        index in 0u8..255,
        runs in prop::collection::vec(run(), 0..20),
        wallclock in 0..MAX_WALLCLOCK,
    ) {
        let runs = runs.iter().map(|(first_slot, count, is_compressed, bytes)| {
            SlotRun { first_slot: *first_slot, count: *count, is_compressed: *is_compressed, bytes }
        });
        let data = CrdsData::EpochSlots(EpochSlots { index, from: [3; 32], runs: runs.collect(), wallclock });
        let bytes = written(&data);
        prop_assert_eq!(CrdsData::parse(&bytes), Ok(data));
    }

    #[test]
    fn other_values_come_back(
        numbers in any::<(u64, u32, u8, [u8; 32])>(),
        index in 0u16..512,
        pieces in 1u8..,
        chunk in prop::collection::vec(any::<u8>(), 0..1_100),
        slots in prop::collection::vec((1..MAX_SLOT, any::<[u8; 32]>()), 0..25),
        wallclock in 0..MAX_WALLCLOCK,
    ) {
        let (slot, unused, shred_type, from) = numbers;
        let piece = DuplicateShred {
            index, from, wallclock, slot, unused, shred_type,
            chunk_count: pieces,
            chunk_index: pieces / 2,
            chunk: &chunk,
        };
        let hashes = SnapshotHashes { from, full: (0, from), incremental: slots, wallclock };
        let lowest = LowestSlot { from, lowest: slot % MAX_SLOT, wallclock };
        for data in [CrdsData::DuplicateShred(piece), CrdsData::SnapshotHashes(hashes), CrdsData::LowestSlot(lowest)] {
            let bytes = written(&data);
            prop_assert_eq!(CrdsData::parse(&bytes), Ok(data));
        }
    }

    #[test]
    fn random_bytes_are_refused_or_read(
        tag in 0u32..7,
        kind in 0u32..15,
        bytes in prop::collection::vec(any::<u8>(), 0..1_300),
    ) {
        let mut datagram = [&tag.to_le_bytes(), &bytes[..]].concat();
        if let Err(error) = Protocol::parse(&datagram) {
            prop_assert!(usize::from(error.offset) <= datagram.len());
        }
        // One value of each kind, and then noise.
        if datagram.len() > 200 {
            datagram[36..44].copy_from_slice(&1u64.to_le_bytes());
            datagram[108..112].copy_from_slice(&kind.to_le_bytes());
            drop(Protocol::parse(&datagram));
        }
    }
}
