//! How fast SHA-256 is: the proof-of-history chain, one long message, two messages side by side.
//!
//! reads   the bench's name filter
//! writes  one line per figure
//! memory  a few kilobytes
//! source  the chain's floor is Firedancer's rate on a machine of the same class

use hearth_crypto::sha256::{Sha256State, finish_pair, sha256, sha256_chain};
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

    let (a, b) = (vec![1u8; 1045], vec![2u8; 1045]);
    bench.run("sha256 1045 B (a shred's leaf)", Unit::NanosPerItem, None, || {
        black_box(sha256(&[black_box(&a)]));
        1
    });
    bench.run("sha256 1045 B, two side by side", Unit::NanosPerItem, None, || {
        let start = Sha256State::new();
        black_box(finish_pair([start, start], [black_box(&a), black_box(&b)]));
        2
    });
}
