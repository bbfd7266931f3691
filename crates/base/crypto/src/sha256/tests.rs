//! SHA-256 against the crate `sha2`, its published vectors, and itself by other paths.

use super::*;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

fn oracle(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn published_vectors() {
    let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    for (message, digest) in [
        (&b""[..], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (two_blocks, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
    ] {
        assert_eq!(sha256(&[message])[..], hex(digest));
    }
}

#[test]
fn every_length_up_to_four_blocks() {
    let bytes: Vec<u8> = (0..=255).collect();
    for len in 0..bytes.len() {
        assert_eq!(sha256(&[&bytes[..len]]), oracle(&bytes[..len]), "length {len}");
    }
}

#[test]
fn chain_is_repeated_hashing() {
    let mut expected = oracle(b"seed");
    let start = expected;
    for n in 0..100 {
        assert_eq!(sha256_chain(start, n), expected, "after {n}");
        assert_eq!(portable::chain(start, n), expected, "portable, after {n}");
        expected = oracle(&expected);
    }
}

#[test]
fn padded_messages_are_hashed_alike() {
    const PADDING: [u8; 128] = padding(66);
    let messages: Vec<[u8; 128]> = (0..37u8)
        .map(|i| {
            let mut padded = PADDING;
            padded[..66].fill(i);
            padded
        })
        .collect();
    let mut digests = vec![[0; 32]; messages.len()];
    digest_each(&messages, &mut digests);
    for (message, digest) in messages.iter().zip(&digests) {
        assert_eq!(*digest, oracle(&message[..66]));
    }
    assert_eq!(padding::<64>(55)[55..], [&[0x80][..], &(55u64 * 8).to_be_bytes()].concat());
}

proptest! {
    #[test]
    fn parts_are_concatenated(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..150), 0..6)) {
        let slices: Vec<&[u8]> = parts.iter().map(|p| &p[..]).collect();
        prop_assert_eq!(sha256(&slices), oracle(&parts.concat()));
    }

    #[test]
    fn mixing_is_hashing_both(state: [u8; 32], mixin: [u8; 32]) {
        prop_assert_eq!(sha256_mix(state, mixin), oracle(&[state, mixin].concat()));
    }

    #[test]
    fn a_state_resumes(head_blocks in 0usize..5, bytes in prop::collection::vec(any::<u8>(), 320..700)) {
        let mut state = Sha256State::new();
        state.absorb(&bytes[..64 * head_blocks]);
        prop_assert_eq!(state.finish(&bytes[64 * head_blocks..]), oracle(&bytes));
    }

    #[test]
    fn many_are_one_after_the_other(count in 0usize..40, blocks in 0usize..4, rest in 0usize..200, seed: u8) {
        let message = |i: usize| -> Vec<u8> {
            (0..64 * blocks + rest).map(|j| (i * 31 + j * 7) as u8 ^ seed).collect()
        };
        let messages: Vec<Vec<u8>> = (0..count).map(message).collect();
        let heads: Vec<&[u8]> = messages.iter().map(|m| &m[..64 * blocks]).collect();
        let rests: Vec<&[u8]> = messages.iter().map(|m| &m[64 * blocks..]).collect();
        let mut states = vec![Sha256State::new(); count];
        absorb_each(&mut states, &heads);
        let mut digests = vec![[0; 32]; count];
        finish_each(&mut states, &rests, &mut digests);
        let expected: Vec<[u8; 32]> = messages.iter().map(|m| oracle(m)).collect();
        prop_assert_eq!(digests, expected);
    }

    #[test]
    fn pairs_agree_with_whatever_is_fastest(count in 1usize..20, blocks in 0usize..4, seed: u8) {
        let heads: Vec<Vec<u8>> = (0..count)
            .map(|i| (0..64 * blocks).map(|j| (i * 31 + j * 7) as u8 ^ seed).collect())
            .collect();
        let heads: Vec<&[u8]> = heads.iter().map(|h| &h[..]).collect();
        let (mut ours, mut theirs) = (vec![Sha256State::new(); count], vec![Sha256State::new(); count]);
        absorb_each(&mut ours, &heads);
        absorb_pairs(&mut theirs, &heads);
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn portable_blocks_agree(words: [u32; 8], block: [u8; 32], more: [u8; 32]) {
        let mut whole = [0u8; 64];
        whole[..32].copy_from_slice(&block);
        whole[32..].copy_from_slice(&more);
        let (mut ours, mut theirs) = (Sha256State { words, blocks: 0 }, words);
        ours.absorb(&whole);
        portable::compress(&mut theirs, &[whole]);
        prop_assert_eq!(ours.words, theirs);
    }
}
