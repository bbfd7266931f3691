//! Scores of the most frequent computations of a node, using the node's own code.
//!
//! memory  some MB of signatures; at most 96 MiB for the verifier
//! source  the tiles `sign`, `verify`, `poh`, `shred`, and sender recovery in `evm::tx`
//!
//! Results of verification and recovery are checked in every call, signatures once: a machine that computes them
//! wrongly gets no score.

use std::hint::black_box;
use std::time::Duration;

use hearth_crypto::ed25519::{SigningKey, Verifier, VerifierConfig, VerifyError, VerifyItem, verify_strict};
use hearth_crypto::reed_solomon::{FIXED_SHARDS, encode_32};
use hearth_crypto::secp256k1::{Arithmetic, HighS, RecoverItem, Recoverer, Signer, address_burst};
use hearth_crypto::sha256::sha256_chain;
use hearth_wire::TransferTemplate;
use hearth_wire::shred::{ShredKind, Variant};

use super::measure::measure;
use super::{ScoreError, ScoreResult};

/// Merkle roots that are signed per call.
const ROOTS: usize = 32;
/// Signatures per burst, as in the verify tile.
const BURST: usize = 32;
/// Payers that the verifier already knows: it keeps a table for each, as in a node.
const PAYERS: usize = 1024;
/// How often it sees each before measuring: twice before the table is made, and at least once with it.
const MEETINGS: usize = 4;
/// Hashes per call: one tick of the cluster.
const HASHES: u64 = 62_500;
/// Bytes of a shred that enter its parity.
const SHARD_BYTES: usize = Variant::of_full_set(ShredKind::Data, false).erasure_shard().end
    - Variant::of_full_set(ShredKind::Data, false).erasure_shard().start;
/// Senders that are recovered together.
const SENDERS: usize = 128;

const _: () = assert!(SHARD_BYTES == 987 && PAYERS % BURST == 0);

/// Signatures per second of 32-byte roots, one after the other.
pub fn ed25519_sign(limit: Duration, is_stopped: &dyn Fn() -> bool) -> ScoreResult {
    let key = SigningKey::from_seed(&[7; 32]);
    let public = key.public_key();
    let mut number = 0u64;
    let scored = measure(ROOTS as f64, limit, is_stopped, || {
        for _ in 0..ROOTS {
            number += 1;
            black_box(key.sign(black_box(&root(number))));
        }
        Ok(())
    });
    let last = key.sign(&root(number));
    verify_strict(&public, &last, &root(number)).map_err(|_| ScoreError::Wrong("an ed25519 signature"))?;
    scored
}

fn root(number: u64) -> [u8; 32] {
    std::array::from_fn(|at| (number >> (8 * (at % 8))) as u8)
}

/// Verifications per second of transfers' signatures in bursts, with known payers.
pub fn ed25519_verify(limit: Duration, is_stopped: &dyn Fn() -> bool) -> ScoreResult {
    let signed: Vec<_> = (0..PAYERS as u64).map(transfer).collect();
    let items: Vec<VerifyItem<'_>> = signed.iter().map(item).collect();
    let (mut verifier, mut verdicts) = (Verifier::new(VerifierConfig::default()), Vec::new());
    (0..MEETINGS).for_each(|_| items.chunks(BURST).for_each(|burst| verifier.verify_burst(burst, &mut verdicts)));
    let mut bursts = items.chunks(BURST).cycle();
    measure(BURST as f64, limit, is_stopped, || {
        verifier.verify_burst(black_box(bursts.next().unwrap_or_default()), &mut verdicts);
        are_valid(&verdicts).then_some(()).ok_or(ScoreError::Wrong("a valid ed25519 signature was refused"))
    })
}

fn are_valid(verdicts: &[Result<(), VerifyError>]) -> bool {
    verdicts.len() == BURST && verdicts.iter().all(Result::is_ok)
}

/// A signed transfer of a payer.
struct Transfer {
    public_key: [u8; 32],
    signature: [u8; 64],
    message: Vec<u8>,
}

fn transfer(number: u64) -> Transfer {
    let key = SigningKey::from_seed(&root(number + 1));
    let mut template = TransferTemplate::new();
    template.set_from(&key.public_key());
    template.set_to(&root(number));
    template.set_lamports(number + 1);
    let mut message = Vec::new();
    let mut signature = [0; 64];
    template.sign_with(|bytes| {
        message = bytes.to_vec();
        signature = key.sign(bytes);
        signature
    });
    Transfer { public_key: key.public_key(), signature, message }
}

fn item(transfer: &Transfer) -> VerifyItem<'_> {
    VerifyItem { public_key: &transfer.public_key, signature: &transfer.signature, message: &transfer.message }
}

/// Hashes per second of the proof-of-history chain.
pub fn sha256(limit: Duration, is_stopped: &dyn Fn() -> bool) -> ScoreResult {
    let mut state = [0; 32];
    measure(HASHES as f64, limit, is_stopped, || {
        state = sha256_chain(black_box(state), HASHES);
        Ok(())
    })
}

/// Bytes of data per second for which parity is computed, in sets of 32 data and 32 parity shreds.
pub fn reed_solomon(limit: Duration, is_stopped: &dyn Fn() -> bool) -> ScoreResult {
    let (data, mut parity) = (shards(), vec![[0u8; SHARD_BYTES]; FIXED_SHARDS]);
    let data: [&[u8]; FIXED_SHARDS] = std::array::from_fn(|at| &data[at][..]);
    measure((SHARD_BYTES * FIXED_SHARDS) as f64, limit, is_stopped, || {
        let mut places = parity.iter_mut();
        let mut written: [&mut [u8]; FIXED_SHARDS] = std::array::from_fn(|_| &mut places.next().expect("as many")[..]);
        encode_32(black_box(&data), black_box(&mut written));
        Ok(())
    })
}

fn shards() -> Vec<[u8; SHARD_BYTES]> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..FIXED_SHARDS).map(|_| std::array::from_fn(|_| random.u8(..))).collect()
}

/// Senders per second recovered from signatures, including their addresses, in bursts.
pub fn secp256k1_recover(limit: Duration, is_stopped: &dyn Fn() -> bool) -> ScoreResult {
    let (items, expected): (Vec<_>, Vec<_>) = (0..SENDERS as u64).map(sender).unzip();
    let mut recoverer = Recoverer::new(Arithmetic::Detect);
    let (mut results, mut keys, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
    measure(SENDERS as f64, limit, is_stopped, || {
        recoverer.recover_burst(black_box(&items), HighS::Refuse, &mut results);
        keys.clear();
        keys.extend(results.iter().flatten().copied());
        address_burst(&keys, &mut addresses);
        (addresses == expected).then_some(()).ok_or(ScoreError::Wrong("the sender of a secp256k1 signature"))
    })
}

/// A signed item, and the address of its signer.
fn sender(number: u64) -> (RecoverItem, [u8; 20]) {
    let signer = Signer::new(&root(number + 1)).expect("small numbers are below the group's order, and none is zero");
    let hash = root(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let signature = signer.sign(&hash);
    (RecoverItem { hash, r: signature.r, s: signature.s, odd: signature.odd }, signer.address())
}

#[cfg(test)]
mod tests {
    use hearth_crypto::reed_solomon::ReedSolomon;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn each_score_is_there() {
        let short = Duration::from_millis(20);
        for (name, score) in [
            ("sign", ed25519_sign as fn(Duration, &dyn Fn() -> bool) -> ScoreResult),
            ("verify", ed25519_verify),
            ("chain", sha256),
            ("parity", reed_solomon),
            ("recover", secp256k1_recover),
        ] {
            let measured = score(short, &|| false).expect("measured").expect("not stopped");
            assert!(measured.calls > 0 && measured.wall > 0.0 && measured.cpu.expect("counted") > 0.0, "{name}");
            assert!(score(Duration::from_secs(3600), &|| true).expect("no error").is_none(), "{name}");
        }
    }

    #[test]
    fn signatures_are_those_of_the_standard() {
        // RFC 8032, 7.1, test 1.
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
            0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let signature = SigningKey::from_seed(&seed).sign(b"");
        assert!(
            hex(&signature).starts_with("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb88215")
        );
    }

    #[test]
    fn only_signed_messages_verify() {
        let signed: Vec<_> = (0..BURST as u64).map(transfer).collect();
        let mut items: Vec<_> = signed.iter().map(item).collect();
        let (mut verifier, mut verdicts) = (Verifier::new(VerifierConfig::default()), Vec::new());
        for _ in 0..=MEETINGS {
            verifier.verify_burst(&items, &mut verdicts);
            assert!(are_valid(&verdicts));
        }
        assert_eq!(verifier.cached_keys(), BURST, "their tables are made");
        items[5].message = b"another";
        verifier.verify_burst(&items, &mut verdicts);
        assert!(!are_valid(&verdicts));
        verifier.verify_burst(&items[..5], &mut verdicts);
        assert!(!are_valid(&verdicts), "so many were asked for");
    }

    #[test]
    fn the_chain_hashes_what_it_has_hashed() {
        let once = sha256_chain([0; 32], 1);
        assert_eq!(hex(&once), "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925");
        assert_eq!(sha256_chain(once, HASHES - 1), sha256_chain([0; 32], HASHES));
    }

    #[test]
    fn parity_brings_data_back() {
        let (data, mut parity) = (shards(), vec![[0u8; SHARD_BYTES]; FIXED_SHARDS]);
        let sources: [&[u8]; FIXED_SHARDS] = std::array::from_fn(|at| &data[at][..]);
        let mut places = parity.iter_mut();
        let mut written: [&mut [u8]; FIXED_SHARDS] = std::array::from_fn(|_| &mut places.next().expect("32")[..]);
        encode_32(&sources, &mut written);
        let code = ReedSolomon::new(FIXED_SHARDS, FIXED_SHARDS).expect("64 shards");
        let present: Vec<(usize, &[u8])> = parity.iter().enumerate().map(|(at, one)| (32 + at, &one[..])).collect();
        let mut found = [0u8; SHARD_BYTES];
        code.recover(&present, &mut [(9, &mut found[..])]).expect("all of the parity is there");
        assert_eq!(found, data[9]);
    }

    #[test]
    fn the_sender_is_who_signed() {
        // The address of the secret 1 is well known.
        let mut one = [0; 32];
        one[31] = 1;
        let address = Signer::new(&one).expect("a secret").address();
        assert_eq!(hex(&address), "7e5f4552091a69125d5dfcb7b8c2659029395bdf");
        let (item, expected) = sender(3);
        let key = Recoverer::new(Arithmetic::Detect).recover(&item, HighS::Refuse).expect("a key");
        assert_eq!(hearth_crypto::secp256k1::address(&key), expected);
    }
}
