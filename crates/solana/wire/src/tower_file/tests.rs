//! The file byte by byte, against the cluster's own crates, and with every length falsified.

use proptest::prelude::*;
use solana_vote_interface::instruction::VoteInstruction;
use solana_vote_interface::state::{
    Lockout as TheirLockout, TowerSync as TheirTowerSync, Vote, VoteState1_14_11, VoteStateUpdate,
};

use super::*;

const NODE: Pubkey = [1; 32];
const SIGNATURE: Signature = [7; 64];

fn votes(slots: &[u64]) -> Vec<Lockout> {
    let count = slots.len();
    let vote = |(index, slot): (usize, &u64)| Lockout { slot: *slot, confirmation_count: (count - index) as u32 };
    slots.iter().enumerate().map(vote).collect()
}

fn tower(slots: &[u64], root: Option<u64>) -> SavedTower {
    let last = slots.last().map(|slot| SavedVote { slot: *slot, bank_hash: [3; 32], block_id: Some([4; 32]) });
    let timestamp = slots.last().map_or((0, 0), |slot| (*slot, 1_700_000_000));
    SavedTower { node: NODE, votes: votes(slots), root, last, timestamp }
}

fn file(tower: &SavedTower) -> Vec<u8> {
    tower.write(|_| SIGNATURE)
}

fn kind(bytes: &[u8]) -> Option<Kind> {
    TowerFile::parse(bytes).err().map(|error| error.kind)
}

/// The votes 100 and 101 above the root 90, assembled by hand.
fn golden() -> Vec<u8> {
    let number = |number: u64| number.to_le_bytes().to_vec();
    // 1,700,000,000 = 0x6553_f100.
    let unix_s = vec![0x00, 0xf1, 0x53, 0x65, 0, 0, 0, 0];
    let parts: [(usize, Vec<u8>); 19] = [
        (32, vec![1; 32]),
        (8, number(8)),
        // 2/3 = 0x3fe5_5555_5555_5555.
        (8, vec![0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xe5, 0x3f]),
        // Node, withdrawer, commission.
        (32 + 32 + 1, vec![0; 65]),
        // Two votes: 100 = 0x64 with confirmation count 2, 101 = 0x65 with 1.
        (8, vec![2, 0, 0, 0, 0, 0, 0, 0]),
        (2 * (8 + 4), vec![0x64, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0x65, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]),
        // The root 90 = 0x5a.
        (1 + 8, vec![1, 0x5a, 0, 0, 0, 0, 0, 0, 0]),
        // No voters; 32 places for prior ones, the last of which was used last, and none.
        (8, number(0)),
        (32 * (32 + 8 + 8), vec![0; 1_536]),
        (8 + 1, vec![31, 0, 0, 0, 0, 0, 0, 0, 1]),
        // No credits, no timestamp.
        (8, number(0)),
        (8 + 8, vec![0; 16]),
        // The fourth kind of last vote: root 90; two votes, 100 - 90 = 10 and 101 - 100 = 1.
        (4 + 8, vec![3, 0, 0, 0, 0x5a, 0, 0, 0, 0, 0, 0, 0]),
        (1 + 2 * (1 + 1), vec![2, 10, 2, 1, 1]),
        (32, vec![3; 32]),
        (1 + 8, [vec![1], unix_s.clone()].concat()),
        (32, vec![4; 32]),
        (8, vec![0x65, 0, 0, 0, 0, 0, 0, 0]),
        (8, unix_s),
    ];
    assert!(parts.iter().all(|(size, bytes)| *size == bytes.len()));
    let data: Vec<u8> = parts.into_iter().flat_map(|(_, bytes)| bytes).collect();
    // 48 of node and threshold; 65 + 32 + 9 + 8 + 1,545 + 8 + 16 = 1,683 of the vote state; 4 + 8 + 5 + 32 + 9 + 32 =
    // 90 of the last vote; 16: 1,837 = 0x072d.
    assert_eq!(data.len(), 48 + 1_683 + 90 + 16);
    let head = [vec![1, 0, 0, 0], SIGNATURE.to_vec(), vec![0x2d, 0x07, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(head.len(), 76);
    [head, data].concat()
}

#[test]
fn file_is_as_put_together_by_hand() {
    let (tower, golden) = (tower(&[100, 101], Some(90)), golden());
    assert_eq!(file(&tower), golden);
    let read = TowerFile::parse(&golden).unwrap();
    assert_eq!((read.signature, read.data, read.tower), (&SIGNATURE, &golden[76..], tower));
}

#[test]
fn file_ends_where_it_says_and_nowhere_else() {
    for tower in [tower(&[100, 101], Some(90)), tower(&[], Some(7)), tower(&[5], None)] {
        let bytes = file(&tower);
        for end in 0..bytes.len() {
            let error = TowerFile::parse(&bytes[..end]).unwrap_err();
            assert_eq!((error.kind, error.offset), (Kind::Truncated, end), "{end} bytes");
        }
        let more = [&bytes[..], &[0]].concat();
        assert_eq!(TowerFile::parse(&more).unwrap_err(), error(Kind::Trailing, bytes.len()));
        // The length counts the extra byte, but the tower does not.
        let mut counted = more;
        counted[68] = counted[68].wrapping_add(1);
        assert_eq!(TowerFile::parse(&counted).unwrap_err(), error(Kind::Trailing, bytes.len()));
    }
}

#[test]
fn lengths_that_lie_are_found() {
    let bytes = golden();
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        TowerFile::parse(&bytes).unwrap_err()
    };
    // Counts: of votes at 76 + 48 + 65, of voters 41 behind that, of credits 1,553 on; that of the last vote's votes.
    let (votes, voters, credits, last) = (189, 189 + 8 + 24 + 9, 230 + 8 + 1_545, 1_783 + 8 + 16 + 12);
    assert_eq!((bytes[votes], bytes[last]), (2, 2));
    for (at, max) in [(votes, 31u64), (voters, 64), (credits, 64)] {
        for many in [max + 1, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(changed(at, &many.to_le_bytes()), error(Kind::Count, at));
        }
    }
    assert_eq!(changed(last, &[32]), error(Kind::Count, last));
    assert_eq!(changed(last, &[0xff, 0xff, 0xff]), error(Kind::Value, last));
    // Within bounds, and of what is not there.
    assert!(changed(votes, &[1]).offset > votes);
    assert!(changed(votes, &[31]).offset > votes);
    assert!(changed(voters, &[64]).offset > voters);
    assert!(changed(credits, &[64]).offset > credits);
    assert!(changed(last, &[1]).offset >= last - 12 && changed(last, &[31]).offset > last);
    for length in [0, 1_836, 1_838, 1 << 40, u64::MAX] {
        let is_more = length > 1_837;
        let (kind, offset) =
            if is_more { (Kind::Truncated, bytes.len()) } else { (Kind::Trailing, 76 + length as usize) };
        assert_eq!(changed(68, &length.to_le_bytes()), error(kind, offset));
    }
}

#[test]
fn values_that_no_tower_has_are_refused() {
    let bytes = golden();
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        TowerFile::parse(&bytes).unwrap_err()
    };
    let (first, second, root, last) = (197, 209, 221, 1_807);
    assert_eq!((bytes[first], bytes[second], bytes[root + 1], bytes[last]), (100, 101, 90, 3));
    assert_eq!(changed(0, 2), error(Kind::Version, 0));
    assert_eq!(changed(second, 100), error(Kind::Votes, second), "no later than the one before");
    assert_eq!(changed(second + 8, 2), error(Kind::Votes, second), "as often confirmed as the one before");
    assert_eq!(changed(second + 8, 0), error(Kind::Votes, second));
    assert_eq!(changed(first + 8, 32), error(Kind::Votes, first));
    assert_eq!(changed(root, 2), error(Kind::Value, root));
    assert_eq!(changed(root + 1, 100), error(Kind::Votes, root), "a vote that is rooted");
    assert_eq!(changed(last, 4), error(Kind::Value, last));
    // The first difference: 90 + 8 + 1 = 99.
    assert_eq!(changed(last + 13, 8), error(Kind::LastVote, last));
    // Eleven bytes of a number.
    let mut endless = bytes.clone();
    endless[last + 13..last + 24].fill(0xff);
    assert_eq!(TowerFile::parse(&endless).unwrap_err(), error(Kind::Value, last + 13));
    // Votes without a last vote: its count is 0, and its votes are missing.
    let mut none = bytes.clone();
    none[last + 12] = 0;
    none.drain(last + 13..last + 17);
    none[68..76].copy_from_slice(&1_833u64.to_le_bytes());
    assert_eq!(kind(&none), Some(Kind::LastVote));
}

fn theirs_of(vote: &Lockout) -> TheirLockout {
    TheirLockout::new_with_confirmation_count(vote.slot, vote.confirmation_count)
}

/// The data of a file as the cluster's crates write its parts, with a last vote that is given as bytes.
fn theirs(tower: &SavedTower, used: bool, last: &[u8]) -> Vec<u8> {
    let mut state = VoteState1_14_11 {
        votes: tower.votes.iter().map(theirs_of).collect(),
        root_slot: tower.root,
        ..VoteState1_14_11::default()
    };
    if used {
        (state.node_pubkey, state.commission) = (NODE.into(), 7);
        state.epoch_credits = (0..64).map(|epoch| (epoch, 2 * epoch + 2, 2 * epoch)).collect();
        state.prior_voters.append(([9; 32].into(), 3, 4));
    }
    let head = bincode::serialize(&(tower.node, THRESHOLD_DEPTH, THRESHOLD)).unwrap();
    let timestamp = bincode::serialize(&tower.timestamp).unwrap();
    [&head[..], &bincode::serialize(&state).unwrap(), last, &timestamp].concat()
}

/// A file around data.
fn around(version: u32, data: &[u8]) -> Vec<u8> {
    let signature = SIGNATURE.to_vec();
    [bincode::serialize(&version).unwrap(), signature, bincode::serialize(&data.to_vec()).unwrap()].concat()
}

proptest! {
    #[test]
    fn towers_are_written_and_read_as_the_cluster_does(
        steps in proptest::collection::vec(1..300u64, 0..=MAX_LOCKOUTS),
        root in proptest::option::of(0..1_000u64),
    ) {
        let mut slot = root.unwrap_or(500);
        let slots: Vec<u64> = steps.iter().map(|step| { slot += step; slot }).collect();
        let tower = tower(&slots, root);
        let lockouts = tower.votes.iter().map(theirs_of);
        let is_vote = !slots.is_empty();
        let sync = TheirTowerSync {
            lockouts: lockouts.clone().collect(),
            root: root.filter(|_| is_vote),
            hash: if is_vote { [3; 32].into() } else { [0; 32].into() },
            timestamp: is_vote.then_some(1_700_000_000),
            block_id: if is_vote { [4; 32].into() } else { [0; 32].into() },
        };
        // After the instruction's number come the same bytes as in the file after another number.
        let instruction = bincode::serialize(&VoteInstruction::TowerSync(sync)).unwrap();
        let last = [&3u32.to_le_bytes()[..], &instruction[4..]].concat();
        let written = file(&tower);
        prop_assert_eq!(&written, &around(1, &theirs(&tower, false, &last)));
        prop_assert!(written.len() <= FILE_MAX);
        prop_assert_eq!(&TowerFile::parse(&written).unwrap().tower, &tower);
        // A used account, and the older forms of a last vote: none has a block id.
        let used = around(1, &theirs(&tower, true, &last));
        prop_assert_eq!(&TowerFile::parse(&used).unwrap().tower, &tower);
        let last = tower.last.map(|last| SavedVote { block_id: None, ..last });
        let without_id = SavedTower { last, ..tower.clone() };
        let vote = Vote { slots: slots.clone(), hash: [3; 32].into(), timestamp: Some(5) };
        let vote = bincode::serialize(&vote).unwrap();
        let update = VoteStateUpdate { lockouts: lockouts.collect(), root, hash: [3; 32].into(), timestamp: None };
        let listed = bincode::serialize(&update).unwrap();
        let compact = bincode::serialize(&VoteInstruction::CompactUpdateVoteState(update)).unwrap();
        for (version, last) in [
            (0, vote.clone()),
            (1, [&0u32.to_le_bytes()[..], &vote].concat()),
            (1, [&1u32.to_le_bytes()[..], &listed].concat()),
            (1, [&2u32.to_le_bytes()[..], &compact[4..]].concat()),
        ] {
            let bytes = around(version, &theirs(&tower, true, &last));
            prop_assert_eq!(&TowerFile::parse(&bytes).unwrap().tower, &without_id);
        }
    }
}
