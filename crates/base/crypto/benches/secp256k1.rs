//! Public key recovery and signing in bursts compared with libsecp256k1, in alternating rounds.
//!
//! reads   the bench's name filter
//! writes  rates, and the ratio ours ÷ libsecp256k1's
//! memory  1024 signatures

use hearth_crypto::secp256k1::{
    Arithmetic, BurstSigner, HighS, RecoverItem, Recoverer, SignItem, Signer, address, address_burst,
};
use hearth_testkit::bench::{Bench, Unit};
use hearth_testkit::random::Random;
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, Secp256k1, SecretKey};
use std::hint::black_box;

fn signed(count: u64) -> Vec<RecoverItem> {
    let curve = Secp256k1::signing_only();
    (0..count)
        .map(|n| {
            let (key, hash) = (Random(n).key(), Random(!n).key());
            let key = SecretKey::from_byte_array(key).expect("a key");
            let (id, bytes) = curve.sign_ecdsa_recoverable(Message::from_digest(hash), &key).serialize_compact();
            let [r, s] = [0, 32].map(|at| std::array::from_fn(|i| bytes[at + i]));
            RecoverItem { hash, r, s, odd: id == RecoveryId::One }
        })
        .collect()
}

fn main() {
    let bench = Bench::from_args();
    let set = signed(1024);
    let curve = Secp256k1::verification_only();
    let stock = |item: &RecoverItem| {
        let mut compact = [0; 64];
        compact[..32].copy_from_slice(&item.r);
        compact[32..].copy_from_slice(&item.s);
        let id = if item.odd { RecoveryId::One } else { RecoveryId::Zero };
        let signature = RecoverableSignature::from_compact(&compact, id).expect("in range");
        curve.recover_ecdsa(Message::from_digest(item.hash), &signature).expect("a key").serialize_uncompressed()
    };
    for (burst, goal) in [(128, 4.0), (32, 4.0), (8, 3.0), (1, 0.9)] {
        let mut recoverer = Recoverer::new(Arithmetic::Detect);
        let mut results = Vec::new();
        let (mut at, mut other) = (0, 0);
        bench.paired(
            &format!("secp256k1 recover, bursts of {burst}"),
            Unit::PerSecond,
            Some(goal),
            || {
                at = (at + burst) % set.len();
                let end = (at + burst).min(set.len());
                recoverer.recover_burst(black_box(&set[at..end]), HighS::Refuse, &mut results);
                assert!(results.iter().all(Result::is_ok));
                (end - at) as u64
            },
            || {
                for _ in 0..8 {
                    other = (other + 1) % set.len();
                    black_box(stock(black_box(&set[other])));
                }
                8
            },
        );
    }
    bursts_signed(&bench);
    let mut results = Vec::new();
    Recoverer::default().recover_burst(&set, HighS::Refuse, &mut results);
    let keys: Vec<_> = results.into_iter().map(|key| key.expect("a key")).collect();
    let mut addresses = Vec::new();
    bench.paired(
        "addresses of 128 keys together ÷ one by one",
        Unit::PerSecond,
        None,
        || {
            address_burst(black_box(&keys[..128]), &mut addresses);
            black_box(addresses.len() as u64)
        },
        || {
            keys[..128].iter().for_each(|key| _ = black_box(address(black_box(key))));
            128
        },
    );
}

/// Measures signing for a load: each signature is by another account.
fn bursts_signed(bench: &Bench) {
    let signers: Vec<Signer> = (0..128).map(|n| Signer::new(&Random(n).key()).expect("a key")).collect();
    let hashes: Vec<[u8; 32]> = (0..128u64).map(|n| Random(!n).key()).collect();
    let items: Vec<SignItem<'_>> =
        signers.iter().zip(&hashes).map(|(signer, hash)| SignItem { signer, hash: *hash }).collect();
    for (burst, goal) in [(128, 3.0), (32, 3.0), (8, 2.0)] {
        let (mut signer, mut signatures, mut other) = (BurstSigner::default(), Vec::new(), 0);
        bench.paired(
            &format!("secp256k1 sign, bursts of {burst}, keys of a load"),
            Unit::PerSecond,
            Some(goal),
            || {
                signer.sign_burst(black_box(&items[..burst]), &mut signatures);
                black_box(signatures.len() as u64)
            },
            || {
                for _ in 0..8 {
                    other = (other + 1) % items.len();
                    black_box(items[other].signer.sign(black_box(&items[other].hash)));
                }
                8
            },
        );
    }
}
