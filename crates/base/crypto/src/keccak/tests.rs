//! Every path against the crate `sha3`.

use super::*;
use proptest::prelude::*;
use sha3::{Digest, Keccak256};

fn oracle(message: &[u8]) -> [u8; 32] {
    Keccak256::digest(message).into()
}

#[test]
fn published_digests() {
    let hex = |digest: [u8; 32]| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(keccak256(b"")), "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
    assert_eq!(hex(keccak256(b"abc")), "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45");
}

/// Each length around a block boundary, in each lane, next to shorter and longer messages.
#[test]
fn every_length_in_every_lane() {
    let bytes: Vec<u8> = (0..1000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    for count in 1..=17 {
        for len in [0, 1, 63, 64, 65, 127, 128, 129, 135, 136, 137, 271, 272, 273, 500, 815, 816, 817] {
            for at in 0..count {
                let messages: Vec<&[u8]> =
                    (0..count).map(|i| if i == at { &bytes[..len] } else { &bytes[i..i + 64 + i * 3 % 100] }).collect();
                let mut digests = vec![[0; 32]; count];
                keccak256_burst(&messages, &mut digests);
                for (message, digest) in messages.iter().zip(&digests) {
                    assert_eq!(*digest, oracle(message), "{count} messages, {} bytes at {at}", message.len());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn bursts_agree_with_sha3(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 0..40)) {
        let messages: Vec<&[u8]> = messages.iter().map(|m| &m[..]).collect();
        let mut digests = vec![[0; 32]; messages.len()];
        keccak256_burst(&messages, &mut digests);
        for (message, digest) in messages.iter().zip(&digests) {
            prop_assert_eq!(*digest, oracle(message));
            prop_assert_eq!(keccak256(message), oracle(message));
        }
    }
}
