//! verify: signatures a second through the tile, links included, beside stock ed25519-dalek.
//!
//! reads   transfers of 1,024 signers, each of whom signs again and again
//! writes  one line per figure, and the ratio to dalek's `verify_strict` with the key decoded
//! memory  8,192 transfers; 512 MB of signature tables at most
//!
//! cargo bench -p hearth-pipeline --bench verify

use std::hint::black_box;

use hearth_crypto::ed25519::SigningKey;
use hearth_pipeline::drops::DropLog;
use hearth_pipeline::verify::{Config, Verify};
use hearth_testkit::bench::{Bench, Unit};
use hearth_tile::rig::Rig;
use hearth_wire::transfer::TransferTemplate;
use hearth_wire::txn::Txn;

const SIGNERS: u64 = 1024;
/// More than the tile remembers, so that none is a duplicate when its turn comes again.
const TRANSFERS: usize = 8192;
const HISTORY: usize = 4096;
/// Transfers in one piece of work: half of what a rig's link holds.
const ROUND: usize = 128;
const IN: &str = "quic_verify:0";
const OUT: &str = "verify_dedup:0";

/// Transfers whose signers come in turn.
fn transfers() -> Vec<Vec<u8>> {
    let seed = |n: u64| std::array::from_fn(|i| n.to_le_bytes()[i % 8] ^ i as u8);
    let keys: Vec<SigningKey> = (0..SIGNERS).map(|n| SigningKey::from_seed(&seed(n))).collect();
    let mut template = TransferTemplate::new();
    let signed = |n: usize| {
        // A step that shares no factor with the number of signers: no burst has one signer twice.
        let key = &keys[n * 389 % keys.len()];
        template.set_from(&key.public_key());
        template.set_to(&keys[n % keys.len()].public_key());
        template.set_lamports(n as u64 + 1);
        template.sign_with(|message| key.sign(message)).to_vec()
    };
    (0..TRANSFERS).map(signed).collect()
}

/// Hands the next transfers to the tile and takes them from it again.
fn round(rig: &mut Rig<Verify>, transfers: &[Vec<u8>], next: &mut usize) -> u64 {
    for _ in 0..ROUND {
        rig.give(IN, 0, &transfers[*next]);
        *next = (*next + 1) % transfers.len();
    }
    rig.run();
    let passed = rig.drain(OUT, |tag, payload| {
        black_box((tag, payload));
    });
    assert_eq!(passed, ROUND, "every transfer is good and new");
    ROUND as u64
}

fn dalek(transfer: &[u8]) {
    let txn = Txn::parse(transfer).expect("a transfer");
    let key = ed25519_dalek::VerifyingKey::from_bytes(&txn.signer_keys()[0]).expect("a key");
    let signature = ed25519_dalek::Signature::from_bytes(&txn.signatures()[0]);
    key.verify_strict(black_box(txn.message()), &signature).expect("valid");
}

fn main() {
    let bench = Bench::from_args();
    let transfers = transfers();
    let goals =
        [("verify tile, 1,024 repeat signers", 512 << 20, 8, 3.0), ("verify tile, keys without tables", 0, 0, 1.5)];
    for (name, table_bytes, turns, goal) in goals {
        let mut rig = Rig::<Verify>::new(
            &Config { history: HISTORY, table_bytes, tag_key: 7, drops: DropLog::default() },
            &[IN],
            &[OUT],
        );
        let mut next = 0;
        // Each signer must be seen often enough to be given a table.
        (0..turns * TRANSFERS / ROUND).for_each(|_| {
            round(&mut rig, &transfers, &mut next);
        });
        let mut at = 0;
        let yardstick = || {
            for _ in 0..32 {
                dalek(&transfers[at]);
                at = (at + 1) % transfers.len();
            }
            32
        };
        bench.paired(name, Unit::PerSecond, Some(goal), || round(&mut rig, &transfers, &mut next), yardstick);
    }
}
