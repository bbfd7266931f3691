//! Keccak-256 of many messages compared with the portable path, in alternating rounds.
//!
//! reads   the bench's name filter
//! writes  rates of messages, and the ratio to one by one
//! memory  under a megabyte

use hearth_crypto::keccak::{keccak256, keccak256_burst};
use hearth_testkit::bench::{Bench, Unit};
use hearth_testkit::random::Random;
use std::hint::black_box;

fn main() {
    let bench = Bench::from_args();
    let mut random = Random(1);
    let equal = |len: usize| (0..128).map(|i| vec![i as u8; len]).collect::<Vec<_>>();
    // Lengths as the nodes of a trie have them: leaves, and branches of up to 17 hashes.
    let nodes: Vec<_> = (0..128).map(|i| vec![i as u8; 33 + random.index(500)]).collect();
    let sets = [
        ("keccak 128 × 64 B (public keys)", equal(64)),
        ("keccak 128 × 32 B (trie keys)", equal(32)),
        ("keccak 128 × 532 B (full branches)", equal(532)),
        ("keccak 128 × 33 to 532 B", nodes),
    ];
    for (name, set) in sets {
        let messages: Vec<&[u8]> = set.iter().map(|message| &message[..]).collect();
        let mut digests = vec![[0; 32]; messages.len()];
        let ours = || {
            keccak256_burst(black_box(&messages), &mut digests);
            black_box(&digests).len() as u64
        };
        let one_by_one = || {
            messages.iter().for_each(|message| _ = black_box(keccak256(black_box(message))));
            messages.len() as u64
        };
        bench.paired(name, Unit::PerSecond, Some(3.0), ours, one_by_one);
    }
}
