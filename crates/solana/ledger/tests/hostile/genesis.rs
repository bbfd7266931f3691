//! The fuzz target of the genesis on its corpus and on seeded mutations of it.
//!
//! `HEARTH_FUZZ_ROUNDS` sets how many mutants each input gets (default 2,000), `HEARTH_SEED` which.

#[path = "../../../../../fuzz/src/genesis.rs"]
mod checks;

use std::fs;
use std::path::Path;

use hearth_testkit::random::{Random, seed};

/// The committed inputs, by name.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/genesis");
    let mut inputs: Vec<_> = fs::read_dir(folder)
        .expect("the corpus is committed")
        .map(|entry| entry.expect("readable").path())
        .map(|path| (path.display().to_string(), fs::read(&path).expect("readable")))
        .collect();
    inputs.sort();
    inputs
}

#[test]
fn the_corpus_reads() {
    let corpus = corpus();
    assert!(corpus.len() >= 2, "a genesis and an archive");
    for (name, bytes) in corpus {
        assert!(checks::fuzz_genesis(&bytes), "{name}");
    }
}

/// Changes a byte, a number, or the length.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.index(bytes.len());
    match random.index(5) {
        0 => bytes[at] ^= 1 << random.index(8),
        1 => bytes[at] = random.word() as u8,
        2 => {
            let number = [0, 1, 255, 1 << 32, u64::MAX / 2, u64::MAX][random.index(6)];
            let end = (at + 8).min(bytes.len());
            bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
        }
        3 => bytes.truncate(at),
        _ => {
            let count = 1 + random.index(40);
            let more = random.bytes(count);
            bytes.splice(at..at, more).for_each(drop);
        }
    }
}

#[test]
fn mutated() {
    let rounds = std::env::var("HEARTH_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(2_000);
    let seed = seed();
    println!("HEARTH_SEED={seed} cargo test --package hearth-ledger --test hostile genesis::mutated");
    let mut random = Random(seed);
    for (_, bytes) in corpus() {
        for _ in 0..rounds {
            let mut mutant = bytes.clone();
            (0..=random.index(3)).for_each(|_| mutate(&mut mutant, &mut random));
            checks::fuzz_genesis(&mutant);
        }
    }
}
