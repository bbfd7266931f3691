//! Reed–Solomon against the crate `reed-solomon-erasure`, at every level that this machine has.

use super::*;
use proptest::prelude::*;
use reed_solomon_erasure::galois_8::ReedSolomon as Oracle;

/// Deterministic bytes that look random.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

/// Data shards followed by the parity that the oracle gives them.
fn oracle(data: usize, parity: usize, len: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut shards: Vec<Vec<u8>> = (0..data).map(|i| noise(seed + i as u64 * 77, len)).collect();
    shards.resize(data + parity, vec![0; len]);
    Oracle::new(data, parity).unwrap().encode(&mut shards).unwrap();
    shards
}

fn slices(shards: &[Vec<u8>]) -> Vec<&[u8]> {
    shards.iter().map(|s| &s[..]).collect()
}

#[test]
fn every_level_encodes_as_the_oracle() {
    for len in [1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 923, 987, 1500] {
        let expected = oracle(32, 32, len, len as u64);
        let data: [&[u8]; 32] = slices(&expected[..32]).try_into().unwrap();
        for level in Level::usable(len) {
            let mut parity = vec![vec![0xee; len]; 32];
            let mut out: Vec<&mut [u8]> = parity.iter_mut().map(|s| &mut s[..]).collect();
            encode_32_at(level, &data, out.as_mut_slice().try_into().unwrap());
            assert_eq!(parity, expected[32..], "{level:?}, {len} bytes");
        }
    }
}

#[test]
fn every_level_combines_alike() {
    let shards: Vec<Vec<u8>> = (0..40).map(|i| noise(i, 150)).collect();
    let coefficients = noise(99, 40);
    let mut expected = vec![0; 150];
    combine(Level::Bytes, &slices(&shards), &coefficients, &mut expected);
    for level in Level::usable(150) {
        let mut out = vec![0; 150];
        combine(level, &slices(&shards), &coefficients, &mut out);
        assert_eq!(out, expected, "{level:?}");
    }
}

#[test]
fn refuses_what_is_no_code() {
    for (data, parity) in [(0, 1), (1, 0), (200, 57), (usize::MAX, 1)] {
        assert_eq!(ReedSolomon::new(data, parity).unwrap_err(), ReedSolomonError::Counts { data, parity });
    }
    assert!(ReedSolomon::new(200, 56).is_ok());
}

#[test]
fn refuses_shards_that_do_not_fit() {
    let code = ReedSolomon::new(2, 1).unwrap();
    let (a, b, mut out) = ([1u8; 9], [2u8; 9], [0u8; 9]);
    let few = code.recover(&[(0, &a)], &mut [(1, &mut out)]);
    assert_eq!(few, Err(ReedSolomonError::ShardCount { have: 1, need: 2 }));
    let twice = code.recover(&[(0, &a), (0, &b)], &mut [(1, &mut out)]);
    assert_eq!(twice, Err(ReedSolomonError::Index(0)));
    let outside = code.recover(&[(0, &a), (1, &b)], &mut [(3, &mut out)]);
    assert_eq!(outside, Err(ReedSolomonError::Index(3)));
    let uneven = code.recover(&[(0, &a), (1, &b[1..])], &mut [(2, &mut out)]);
    assert_eq!(uneven, Err(ReedSolomonError::UnequalLengths));
    assert_eq!(code.encode(&[&a, &b[1..]], &mut [&mut out]), Err(ReedSolomonError::UnequalLengths));
    let missing = code.encode(&[&a], &mut [&mut out]);
    assert_eq!(missing, Err(ReedSolomonError::ShardCount { have: 2, need: 3 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_code_encodes_as_the_oracle(data in 1usize..80, parity in 1usize..80, len in 1usize..200, seed: u32) {
        let expected = oracle(data, parity, len, u64::from(seed));
        let mut ours = vec![vec![0; len]; parity];
        let mut out: Vec<&mut [u8]> = ours.iter_mut().map(|s| &mut s[..]).collect();
        ReedSolomon::new(data, parity).unwrap().encode(&slices(&expected[..data]), &mut out).unwrap();
        prop_assert_eq!(&ours[..], &expected[data..]);
    }

    #[test]
    fn any_shards_recover_all(
        (data, parity, order) in (1usize..40, 1usize..40)
            .prop_flat_map(|(d, p)| (Just(d), Just(p), Just((0..d + p).collect::<Vec<_>>()).prop_shuffle())),
        len in 1usize..120,
        seed: u32,
    ) {
        let expected = oracle(data, parity, len, u64::from(seed));
        let present: Vec<(usize, &[u8])> = order[..data].iter().map(|&i| (i, &expected[i][..])).collect();
        let mut found = vec![vec![0; len]; data + parity];
        let mut wanted: Vec<(usize, &mut [u8])> =
            found.iter_mut().map(|s| &mut s[..]).enumerate().collect();
        ReedSolomon::new(data, parity).unwrap().recover(&present, &mut wanted).unwrap();
        prop_assert_eq!(found, expected);
    }
}
