//! Round trips of towers, and refused files.

use hearth_crypto::ed25519::SigningKey;
use hearth_wire::tower_file::TowerFileErrorKind;

use super::super::tests::{bank, voted};
use super::*;

fn key() -> SigningKey {
    SigningKey::from_seed(&[5; 32])
}

fn file(tower: &Tower) -> Vec<u8> {
    let key = key();
    tower.to_agave(&key.public_key(), |data| key.sign(data)).expect("it has voted")
}

#[test]
fn a_tower_comes_back_with_all_that_binds() {
    let node = key().public_key();
    for tower in [voted([5]), voted(1..=60), voted([1, 2, 3, 90]), voted([1, 2, 3, 7]).with_timestamp(7, 1_700_000_000)]
    {
        let back = Tower::from_agave(&file(&tower), &node).expect("its own");
        // Everything but the hash of the root's bank.
        assert_eq!(back, Tower { root_hash: None, ..tower.clone() });
        assert_eq!(Tower::restore(&back.save(&node), &node), Ok(back.clone()), "and is kept in the file of our own");
        assert_eq!(file(&back), file(&tower));
    }
}

#[test]
fn old_versions_are_read() {
    let (key, node) = (key(), key().public_key());
    let tower = voted([1, 2]);
    let current = file(&tower);
    // The last vote: 4 of its kind, 8 of the root, 1 + 2 × 2 of the votes, 32 of the hash, 1 of no time, 32 of the id;
    // 16 of the timestamp follow it.
    let last_at = current.len() - 16 - (4 + 8 + 5 + 32 + 1 + 32);
    let last = [&1u64.to_le_bytes()[..], &2u64.to_le_bytes(), &[2; 32], &[0]].concat();
    let data = [&current[76..last_at], &last, &current[current.len() - 16..]].concat();
    let old = |version: u32, data: &[u8]| {
        let length = data.len() as u64;
        [&version.to_le_bytes()[..], &key.sign(data), &length.to_le_bytes(), data].concat()
    };
    let read = Tower::from_agave(&old(0, &data), &node).expect("an old one");
    let without_id = Some(LastVote { id: bank(2), block_id: [0; 32] });
    assert_eq!(read, Tower { root_hash: None, last: without_id, ..tower });
    // In the newer version the kind of the last vote would be the count 1, that of an update: 2 votes, and no room.
    assert!(matches!(Tower::from_agave(&old(1, &data), &node), Err(AgaveError::File(_))));
}

#[test]
fn tower_of_another_node_is_refused() {
    let (key, node) = (key(), key().public_key());
    let bytes = file(&voted(1..=40));
    let other = SigningKey::from_seed(&[6; 32]).public_key();
    assert_eq!(Tower::from_agave(&bytes, &other), Err(AgaveError::Node { found: node, node: other }));
    // Another identity's tower, which claims to be this one's.
    let forged = voted(1..=40).to_agave(&other, |data| key.sign(data)).expect("it has voted");
    assert_eq!(Tower::from_agave(&forged, &other), Err(AgaveError::Signature(other)));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(Tower::from_agave(&changed, &node).is_err(), "byte {at}");
    }
    for end in 0..bytes.len() {
        let Err(AgaveError::File(why)) = Tower::from_agave(&bytes[..end], &node) else { panic!("{end} bytes") };
        assert_eq!((why.kind, why.offset), (TowerFileErrorKind::Truncated, end));
    }
}

#[test]
fn empty_tower_gives_no_file() {
    let (key, node) = (key(), key().public_key());
    let written = |tower: &Tower| tower.to_agave(&node, |data| key.sign(data));
    assert_eq!(written(&Tower::new(bank(7))), Err(AgaveError::NoVote));
    let mut rooted = voted(1..=3);
    rooted.align(bank(3), &[0, 1, 2]).expect("descends from 0");
    assert_eq!(written(&rooted), Err(AgaveError::NoVote));
    assert_eq!(written(&Tower::default()), Err(AgaveError::NoVote));
}
