//! Agave's tower files in the corpus: each version, and each form of the last vote.

use hearth_wire::tower_file::{SavedTower, SavedVote};
use hearth_wire::vote::Lockout;

/// Offset of the data: after version, signature and length.
const DATA_AT: usize = 4 + 64 + 8;
/// Size of the timestamp, which is last.
const TIMESTAMP_SIZE: usize = 16;

/// The file of a tower with votes for these slots. The parser does not verify the signature.
fn file(slots: &[u64], root: Option<u64>) -> Vec<u8> {
    let count = |index: usize| (slots.len() - index) as u32;
    let vote = |(index, slot): (usize, &u64)| Lockout { slot: *slot, confirmation_count: count(index) };
    let votes: Vec<Lockout> = slots.iter().enumerate().map(vote).collect();
    let newest = votes.last().map(|vote| vote.slot);
    let last = newest.map(|slot| SavedVote { slot, bank_hash: [3; 32], block_id: Some([4; 32]) });
    let timestamp = (newest.unwrap_or(0), newest.map_or(0, |_| 1_700_000_000));
    SavedTower { node: [1; 32], votes, root, last, timestamp }.write(|_| [7; 64])
}

/// The file of votes for slots 100 and 101 with another version and last vote: 4 + 8 + 5 + 32 + 9 + 32 bytes.
fn other(version: u32, last: &[u8]) -> Vec<u8> {
    let mut file = file(&[100, 101], Some(90));
    let end = file.len() - TIMESTAMP_SIZE;
    file.splice(end - 90..end, last.iter().copied());
    file[..4].copy_from_slice(&version.to_le_bytes());
    let length = (file.len() - DATA_AT) as u64;
    file[DATA_AT - 8..DATA_AT].copy_from_slice(&length.to_le_bytes());
    file
}

/// The files, by name.
pub fn files() -> Vec<(&'static str, Vec<u8>)> {
    let hash_without_time = [&[3u8; 32][..], &[0]].concat();
    let vote = [&1u64.to_le_bytes()[..], &101u64.to_le_bytes(), &hash_without_time].concat();
    let lockout = |slot: u64, count: u32| [&slot.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let root = [&[1u8][..], &90u64.to_le_bytes()].concat();
    let listed = [&2u64.to_le_bytes()[..], &lockout(100, 2), &lockout(101, 1), &root, &hash_without_time].concat();
    let compact = [&90u64.to_le_bytes()[..], &[2, 10, 2, 1, 1], &hash_without_time].concat();
    let tagged = |tag: u32, last: &[u8]| [&tag.to_le_bytes()[..], last].concat();
    vec![
        ("two-votes", file(&[100, 101], Some(90))),
        ("full", file(&(70_000..=70_030).collect::<Vec<u64>>(), Some(69_990))),
        ("no-vote", file(&[], Some(7))),
        ("no-root", file(&[5], None)),
        ("old", other(0, &vote)),
        ("vote", other(1, &tagged(0, &vote))),
        ("update", other(1, &tagged(1, &listed))),
        ("compact-update", other(1, &tagged(2, &compact))),
    ]
}
