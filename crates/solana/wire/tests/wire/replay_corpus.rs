//! The fuzz targets on a stable compiler: the committed corpus, then seeded mutations of it.
//!
//! `HEARTH_FUZZ_ROUNDS` sets how many mutants each input gets (default 10,000).

use hearth_testkit::random::{Random, seed};
use hearth_wire::entry::Entries;
use hearth_wire::gossip::Protocol;
use hearth_wire::repair::{AncestorHashes, Answer, RepairDatagram};
use hearth_wire::shred::{self, Shred};
use hearth_wire::tower_file::TowerFile;
use hearth_wire::{Txn, entry};

use crate::support::mutate::{SeedOnPanic, mutate};
use crate::{checks, make_corpus};

/// The committed inputs of one target.
fn committed(folder: &str) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(format!("{}/{folder}", make_corpus::FOLDER)).expect("the corpus is committed");
    let mut inputs: Vec<_> = files
        .map(|file| {
            let file = file.expect("readable");
            (file.file_name().into_string().expect("UTF-8"), std::fs::read(file.path()).expect("readable"))
        })
        .collect();
    inputs.sort();
    inputs
}

#[test]
fn the_committed_corpus_is_what_the_command_writes() {
    for (folder, name, bytes) in make_corpus::files() {
        let found = committed(folder).into_iter().find(|(other, _)| *other == name);
        assert_eq!(found.map(|(_, bytes)| bytes), Some(bytes), "{folder}/{name}: run the example make_corpus");
    }
}

#[test]
fn the_corpus_parses() {
    for (name, bytes) in committed("txn") {
        assert_eq!(Txn::parse(&bytes).err(), None, "{name}");
    }
    for (name, bytes) in committed("shred") {
        let shred = Shred::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(shred.check_set(shred::SHREDS_PER_SLOT_MAX), Ok(()), "{name}");
    }
    for (name, bytes) in committed("gossip") {
        assert_eq!(Protocol::parse(&bytes).err(), None, "{name}");
    }
    for (name, bytes) in committed("repair") {
        let is_read = RepairDatagram::parse(&bytes).is_ok()
            || Answer::parse(&bytes).is_some()
            || AncestorHashes::parse(&bytes).is_some();
        assert!(is_read, "{name}");
    }
    for (name, bytes) in committed("tower") {
        assert_eq!(TowerFile::parse(&bytes).err(), None, "{name}");
    }
    let refused: Vec<String> = committed("entry")
        .into_iter()
        .filter(|(_, bytes)| Entries::parse(bytes).and_then(|e| e.collect::<Result<Vec<_>, _>>()).is_err())
        .map(|(name, _)| name)
        .collect();
    assert_eq!(refused, ["block-marker", "one-entry"]);
}

fn mutate_and_check(folder: &'static str, test: &'static str, fields: fn(&[u8]) -> Vec<usize>, check: fn(&[u8])) {
    let rounds = std::env::var("HEARTH_FUZZ_ROUNDS").map_or(10_000, |n| n.parse().expect("a number"));
    let seed = seed();
    let _print = SeedOnPanic { seed, test };
    let mut random = Random(seed);
    let corpus = committed(folder);
    for (_, input) in &corpus {
        check(input);
        let fields = fields(input);
        for _ in 0..rounds {
            let other = &corpus[random.index(corpus.len())].1;
            let mut mutant = input.clone();
            mutate(&mut mutant, &fields, other, &mut random);
            check(&mutant);
        }
    }
}

/// The first bytes of a transaction that starts at `at`: its counts and its instructions.
fn txn_fields(bytes: &[u8], at: usize) -> Vec<usize> {
    let Ok(txn) = Txn::parse_prefix(&bytes[at..]) else { return vec![at] };
    let end = at + txn.bytes().len();
    let header = end - txn.message().len();
    let instructions = header + 4 + 32 * txn.account_keys().len() + 32;
    [at].into_iter().chain(header..header + 6).chain(instructions..end).collect()
}

#[test]
fn mutated_transactions() {
    mutate_and_check("txn", "mutated_transactions", |bytes| txn_fields(bytes, 0), checks::txn);
}

#[test]
fn mutated_entries() {
    let fields = |bytes: &[u8]| {
        let counts = [0, 8 + 40, entry::ENTRY_HEADER_SIZE - 8];
        counts.into_iter().chain(txn_fields(bytes, (8 + entry::ENTRY_HEADER_SIZE).min(bytes.len()))).collect()
    };
    mutate_and_check("entry", "mutated_entries", fields, checks::entry);
}

#[test]
fn mutated_shreds() {
    let fields = |_: &[u8]| (shred::VARIANT..shred::DATA_HEADER_SIZE + 1).collect();
    mutate_and_check("shred", "mutated_shreds", fields, checks::shred);
}

#[test]
fn mutated_messages_of_gossip() {
    // Tags, counts and numbers are everywhere; the rest are keys and signatures, where nothing can go wrong.
    let fields = |bytes: &[u8]| (0..bytes.len()).filter(|at| bytes[*at] < 0x20).collect();
    mutate_and_check("gossip", "mutated_messages_of_gossip", fields, checks::gossip);
}

#[test]
fn mutated_datagrams_of_repair() {
    // Tags, numbers and counts are everywhere except in signed bytes and signatures.
    let fields = |bytes: &[u8]| (0..bytes.len()).filter(|at| bytes[*at] < 0x20).collect();
    mutate_and_check("repair", "mutated_datagrams_of_repair", fields, checks::repair);
}

#[test]
fn mutated_towers() {
    // The fields that are not skipped: up to the root, counts, the last vote.
    let fields = |bytes: &[u8]| {
        let end = bytes.len().saturating_sub(120);
        [0, 68].into_iter().chain(188..240).chain(1_780..1_796).chain(end..bytes.len()).collect()
    };
    mutate_and_check("tower", "mutated_towers", fields, checks::tower);
}
