//! How fast parity is made: 32 data shards of 987 bytes, as a full set of shreds has them.
//!
//! reads   the bench's name filter
//! writes  one line per figure
//! memory  64 shards
//! source  the floor is well under the 65 µs a set that `reed-solomon-erasure` takes; Firedancer: 6.1 µs

use hearth_crypto::reed_solomon::{ReedSolomon, encode_32};
use hearth_testkit::bench::{Bench, Unit};
use reed_solomon_erasure::galois_8::ReedSolomon as Oracle;
use std::hint::black_box;

const LEN: usize = 987;

fn main() {
    let bench = Bench::from_args();
    let data: Vec<Vec<u8>> = (0..32u8).map(|i| (0..LEN).map(|j| (j as u8).wrapping_mul(i)).collect()).collect();
    let data: [&[u8]; 32] = std::array::from_fn(|i| &data[i][..]);
    let mut buffers = vec![vec![0; LEN]; 32];
    let mut parity: Vec<&mut [u8]> = buffers.iter_mut().map(|b| &mut b[..]).collect();
    let parity: &mut [&mut [u8]; 32] = parity.as_mut_slice().try_into().unwrap();
    bench.run("reed_solomon 32+32, 987 B shards, a set", Unit::NanosPerItem, Some(30_000.0), || {
        encode_32(black_box(&data), parity);
        1
    });
    let oracle = Oracle::new(32, 32).unwrap();
    let mut theirs = vec![vec![0; LEN]; 32];
    let ours = || {
        encode_32(black_box(&data), parity);
        (32 * LEN) as u64
    };
    let yardstick = || {
        oracle.encode_sep(black_box(&data), &mut theirs).unwrap();
        (32 * LEN) as u64
    };
    bench.paired("reed_solomon 32+32 over reed-solomon-erasure", Unit::BitsPerSecond, None, ours, yardstick);

    let code = ReedSolomon::new(32, 32).unwrap();
    let present: Vec<(usize, &[u8])> = (32..64).zip(theirs.iter().map(|s| &s[..])).collect();
    let mut found = vec![vec![0; LEN]; 32];
    bench.run("reed_solomon recover 32 of 64, a set", Unit::NanosPerItem, None, || {
        let mut wanted: Vec<(usize, &mut [u8])> = found.iter_mut().map(|b| &mut b[..]).enumerate().collect();
        code.recover(black_box(&present), &mut wanted).unwrap();
        1
    });
}
