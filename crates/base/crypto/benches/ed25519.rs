//! Ed25519 compared with stock ed25519-dalek, in alternating rounds.
//!
//! reads   the bench's name filter
//! writes  rates, and the ratio ours ÷ dalek's
//! memory  8192 signatures over messages of 150 bytes, the size of a transfer, and 480 MB of tables at most

use ed25519_dalek::Signer;
use hearth_crypto::ed25519::{
    Arithmetic, SignItem, SigningKey, TableAccess, Verifier, VerifierConfig, VerifyItem, sign_burst,
};
use hearth_testkit::bench::{Bench, Unit};
use hearth_testkit::random::Random;
use std::hint::black_box;

struct SignedMessage {
    public_key: [u8; 32],
    signature: [u8; 64],
    message: [u8; 150],
}

/// One signature for each of `keys` keys.
fn signed(keys: u64) -> Vec<SignedMessage> {
    (0..keys)
        .map(|n| {
            let key = SigningKey::from_seed(&Random(n).key());
            let message = std::array::from_fn(|i| (n as u8).wrapping_add(i as u8));
            SignedMessage { public_key: key.public_key(), signature: key.sign(&message), message }
        })
        .collect()
}

fn dalek_verify(s: &SignedMessage) -> u64 {
    let key = ed25519_dalek::VerifyingKey::from_bytes(&s.public_key).expect("a key");
    let signature = ed25519_dalek::Signature::from_bytes(&s.signature);
    key.verify_strict(black_box(&s.message), &signature).expect("valid");
    1
}

/// Compares bursts of `burst` signatures in random order with dalek, one by one over the same set.
fn verify(
    bench: &Bench,
    name: &str,
    goal: f64,
    set: &[SignedMessage],
    burst: usize,
    config: VerifierConfig,
    warm: usize,
) {
    let warmed = || {
        let mut verifier = Verifier::new(config);
        for s in (0..warm).flat_map(|_| set) {
            verifier.verify(&s.public_key, &s.signature, &s.message).expect("valid");
        }
        verifier
    };
    let mut verifier = None;
    let mut results = Vec::new();
    let (mut state, mut other) = (Random(1), Random(1));
    bench.paired(
        name,
        Unit::PerSecond,
        Some(goal),
        || {
            let items: Vec<_> = (0..burst)
                .map(|_| &set[state.index(set.len())])
                .map(|s| VerifyItem { public_key: &s.public_key, signature: &s.signature, message: &s.message })
                .collect();
            verifier.get_or_insert_with(warmed).verify_burst(black_box(&items), &mut results);
            assert!(results.iter().all(Result::is_ok));
            burst as u64
        },
        || (0..8).map(|_| dalek_verify(&set[other.index(set.len())])).sum(),
    );
}

/// One message at a time, and bursts of 32 from 32 keys.
fn sign(bench: &Bench) {
    let message = [7u8; 150];
    let keys: Vec<_> = (0..32).map(|n| SigningKey::from_seed(&Random(n).key())).collect();
    let stock = ed25519_dalek::SigningKey::from_bytes(&Random(1).key());
    let items: Vec<_> = keys.iter().map(|key| SignItem { key, message: &message }).collect();
    let yardstick = || {
        (0..8).for_each(|_| _ = black_box(stock.sign(black_box(&message))));
        8
    };
    let one_by_one = || {
        keys.iter().for_each(|key| _ = black_box(key.sign(black_box(&message))));
        32
    };
    bench.paired("ed25519 sign, single", Unit::PerSecond, Some(2.8), one_by_one, yardstick);
    for (name, goal, access) in [
        ("ed25519 sign, bursts of 32", 2.8, TableAccess::Hidden),
        ("ed25519 sign, bursts of 32, indexed", 4.0, TableAccess::Indexed),
    ] {
        let mut signatures = Vec::new();
        let burst = || {
            sign_burst(black_box(&items), access, &mut signatures);
            black_box(signatures.len() as u64)
        };
        bench.paired(name, Unit::PerSecond, Some(goal), burst, yardstick);
    }
}

fn main() {
    let bench = Bench::from_args();
    sign(&bench);
    let set = signed(8192);
    let default = VerifierConfig::default();
    let portable = VerifierConfig { arithmetic: Arithmetic::Portable, ..default };
    let large = VerifierConfig { cache_bytes: 480 << 20, ..default };
    let none = VerifierConfig { cache_bytes: 0, ..default };
    verify(&bench, "ed25519 verify, 1024 keys, bursts of 32", 4.0, &set[..1024], 32, default, 3);
    verify(&bench, "ed25519 verify, 1024 keys, bursts of 4", 3.5, &set[..1024], 4, default, 3);
    verify(&bench, "ed25519 verify, 1024 keys, single", 1.8, &set[..1024], 1, default, 3);
    verify(&bench, "ed25519 verify, 1024 keys, portable", 2.0, &set[..1024], 32, portable, 3);
    verify(&bench, "ed25519 verify, 8192 keys, all cached", 3.0, &set, 32, large, 3);
    verify(&bench, "ed25519 verify, 8192 keys, 96 MB", 1.5, &set, 32, default, 3);
    verify(&bench, "ed25519 verify, keys never cached", 1.8, &set[..1024], 32, none, 0);
}
