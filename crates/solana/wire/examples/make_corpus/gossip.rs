//! Gossip messages of the corpus: one of each type, and one value of each kind.

use std::net::SocketAddrV4;

use ed25519_dalek::Signer;
use hearth_wire::Pubkey;
use hearth_wire::consts::VOTE_PROGRAM;
use hearth_wire::gossip::*;
use hearth_wire::message::{AccountMeta, Instruction};

use super::{address, key, noise, signed};

const WALLCLOCK: u64 = 1_700_000_000_000;

/// A value: data with the signature of key 1.
fn value(data: &CrdsData<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    data.write(&mut bytes);
    [&key(1).sign(&bytes).to_bytes()[..], &bytes].concat()
}

fn values(carrier: Carrier, values: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_values_header(carrier, &address(1), values.len() as u64, &mut bytes);
    bytes.extend(values.concat());
    bytes
}

/// A vote for slots 70, 71 and 75, in the form of instruction `tag`.
pub fn vote_data(tag: u32) -> Vec<u8> {
    let mut data = tag.to_le_bytes().to_vec();
    match tag {
        2 | 6 => data.extend([3, 70, 71, 75].iter().flat_map(|number: &u64| number.to_le_bytes())),
        8 | 9 => {
            data.extend(3u64.to_le_bytes());
            for (slot, confirmations) in [(70u64, 3u32), (71, 2), (75, 1)] {
                data.extend(slot.to_le_bytes());
                data.extend(confirmations.to_le_bytes());
            }
            data.push(0);
        }
        _ => {
            data.extend(60u64.to_le_bytes());
            data.extend([3, 10, 3, 1, 2, 4, 1]);
        }
    }
    data.extend([0x5a; 32]);
    data.push(1);
    data.extend(1_700_000_000i64.to_le_bytes());
    data.extend(vec![0xb1; if tag >= 14 { 32 } else { 0 } + if [6, 9, 13, 15].contains(&tag) { 32 } else { 0 }]);
    data
}

/// A transaction with one instruction of the vote program.
pub fn vote_transaction(data: Vec<u8>) -> Vec<u8> {
    let accounts = vec![AccountMeta::writable(address(2), false), AccountMeta::readonly(address(1), true)];
    signed(&[Instruction { program_id: VOTE_PROGRAM, accounts, data }])
}

/// The node of the vector in `docs/cluster-protocol.md`.
pub fn contact(pubkey: Pubkey) -> ContactInfo {
    let version = Version { major: 4, minor: 2, patch: 2, commit: 0xaabb_ccdd, feature_set: 0x0102_0304, client: 3 };
    let socket = |port| SocketAddrV4::new([127, 0, 0, 1].into(), port);
    let node = ContactInfo { wallclock: WALLCLOCK, ..ContactInfo::new(pubkey, 1_700_000_000_000_000, 0x1234, version) };
    node.with(SocketKind::Gossip, socket(8_000))
        .with(SocketKind::Tvu, socket(8_001))
        .with(SocketKind::ServeRepair, socket(8_008))
}

/// One value of each kind.
fn kinds() -> Vec<Vec<u8>> {
    let (from, wallclock) = (address(1), WALLCLOCK);
    let transaction = vote_transaction(vote_data(14));
    let runs = vec![
        SlotRun { first_slot: 100, count: 15, is_compressed: false, bytes: &[0xff, 0x70] },
        SlotRun { first_slot: 200, count: 0, is_compressed: false, bytes: &[] },
        SlotRun { first_slot: 300, count: 16, is_compressed: true, bytes: &[0xfb, 0xff, 0x1f, 0x00] },
    ];
    let mut fork_slots = vec![0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 0x80, 1];
    fork_slots.extend([7; 42]);
    let restart = |kind, rest| CrdsData::Restart(Restart { kind, from, wallclock, rest });
    let piece = DuplicateShred {
        index: 511,
        from,
        wallclock,
        slot: 9,
        unused: 0,
        shred_type: DUPLICATE_SHRED_TYPE,
        chunk_count: 3,
        chunk_index: 2,
        chunk: &[1; 300],
    };
    let snapshots = SnapshotHashes { from, full: (100, [4; 32]), incremental: vec![(101, [5; 32])], wallclock };
    let all = [
        CrdsData::Vote(Vote { index: 11, from, transaction: &transaction, slot: Some(75), wallclock }),
        CrdsData::LowestSlot(LowestSlot { from, lowest: 42, wallclock }),
        CrdsData::EpochSlots(EpochSlots { index: 254, from, runs, wallclock }),
        CrdsData::DuplicateShred(piece),
        CrdsData::SnapshotHashes(snapshots),
        CrdsData::ContactInfo(contact(from)),
        restart(CrdsKind::RestartLastVotedForkSlots, &fork_slots),
        restart(CrdsKind::RestartHeaviestFork, &[8; 50]),
    ];
    all.iter().map(value).collect()
}

/// The messages, by name.
pub fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let kinds = kinds();
    let caller = value(&CrdsData::ContactInfo(contact(address(1))));
    let mut bloom = BloomFilter::new(64 * bloom_blocks_max(3, caller.len()) as u64, vec![1, 2, 3]);
    let new = (0..=255).filter(|n| bloom.add(&[*n; 32])).count();
    assert!(new > 200);
    let mut pull = Vec::new();
    write_pull_request(&bloom, 5, 6, &caller, &mut pull);
    let mut prune = PruneData {
        pubkey: address(1),
        prunes: &[address(2), address(3)],
        signature: [0; 64],
        destination: address(4),
        wallclock: WALLCLOCK,
    };
    let (mut signed, mut prune_bytes, mut ping, mut pong) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    prune.signed(false, &mut signed);
    prune.signature = key(1).sign(&signed).to_bytes();
    write_prune(&prune, &mut prune_bytes);
    let (mut token, mut hash) = ([0; 32], [0; 32]);
    noise(1, &mut token);
    noise(2, &mut hash);
    write_ping(&Ping { from: address(1), token, signature: key(1).sign(&token).to_bytes() }, &mut ping);
    write_pong(&Pong { from: address(1), hash, signature: key(1).sign(&hash).to_bytes() }, &mut pong);
    vec![
        ("pull-request", pull),
        ("pull-response", values(Carrier::PullResponse, &[&kinds[1..3], &kinds[4..6]].concat())),
        ("push", values(Carrier::Push, &[&kinds[..2], &kinds[5..6]].concat())),
        ("push-duplicate", values(Carrier::Push, &kinds[3..4])),
        ("push-restart", values(Carrier::Push, &kinds[6..8])),
        ("push-empty", values(Carrier::Push, &[])),
        ("prune", prune_bytes),
        ("ping", ping),
        ("pong", pong),
    ]
}
