//! How fast SHA-256 is: the proof-of-history chain, one message, many messages.
//!
//! reads   the bench's name filter
//! writes  one line per figure
//! memory  a few kilobytes
//! source  the chain's floor is Firedancer's rate on a machine of the same class

use hearth_crypto::sha256::{Sha256State, finish_each, sha256, sha256_chain};
use hearth_testkit::bench::{Bench, Unit};
use sha2::{Digest, Sha256};
use std::hint::black_box;

fn main() {
    let bench = Bench::from_args();
    let mut state = [7u8; 32];
    let mut other = state;
    bench.run("sha256 chain", Unit::PerSecond, Some(23e6), || {
        state = sha256_chain(black_box(state), 20_000);
        20_000
    });
    let ours = || {
        state = sha256_chain(black_box(state), 20_000);
        20_000
    };
    let theirs = || {
        for _ in 0..20_000 {
            other = Sha256::digest(black_box(other)).into();
        }
        20_000
    };
    bench.paired("sha256 chain over sha2", Unit::PerSecond, None, ours, theirs);

    let leaf = vec![1u8; 1045];
    bench.run("sha256 1045 B (a shred's leaf)", Unit::NanosPerItem, None, || {
        black_box(sha256(&[black_box(&leaf)]));
        1
    });
    let leaves: Vec<Vec<u8>> = (0..64).map(|i| vec![i; 1045]).collect();
    let leaves: Vec<&[u8]> = leaves.iter().map(|l| &l[..]).collect();
    let mut digests = [[0; 32]; 64];
    bench.run("sha256 1045 B, 64 together, each", Unit::NanosPerItem, None, || {
        finish_each(&mut [Sha256State::new(); 64], black_box(&leaves), &mut digests);
        64
    });
}
