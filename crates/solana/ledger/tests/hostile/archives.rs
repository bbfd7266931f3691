//! Archives of snapshots: those that Agave wrote, and the fuzz target on its corpus and on seeded mutations of it.
//!
//! `HEARTH_FUZZ_ROUNDS` sets how many mutants each input gets (default 2,000).

#[path = "../../../../../fuzz/src/archive.rs"]
mod checks;

use std::fs;
use std::path::{Path, PathBuf};

use hearth_ledger::archive::{ArchiveName, read_state};
use hearth_testkit::random::{Random, seed};

/// Whether `tests/snapshots` holds archives. It says so here, so that they cannot get lost unnoticed.
const ARE_RECORDED: bool = true;

/// Bytes at which numbers of the format turn.
const EDGES: [u8; 10] = [0, 1, 2, 7, 8, 31, 0x7f, 0x80, 0xfe, 0xff];
/// Bytes of a tar's header, and where in it the checksum is.
const HEADER: usize = 512;
const CHECKSUM: std::ops::Range<usize> = 148..156;

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files
}

#[test]
fn archives_that_agave_wrote_are_whole() {
    let files = files_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots"));
    let archives: Vec<(&PathBuf, ArchiveName)> =
        files.iter().filter_map(|path| Some((path, ArchiveName::of_path(path).ok()?))).collect();
    assert_eq!(!archives.is_empty(), ARE_RECORDED, "set ARE_RECORDED to what is there");
    for (path, name) in &archives {
        let base = name.base.map(|base| {
            let full = archives.iter().find(|(_, full)| full.base.is_none() && full.slot == base);
            full.unwrap_or_else(|| panic!("{} builds on none that is there", path.display())).0
        });
        let (full, incremental) = base.map_or((*path, None), |full| (full, Some(path.as_path())));
        let state = read_state(full, incremental, &mut ()).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(state.contents.fields.slot, name.slot);
        assert!(state.contents.accounts > 0);
    }
}

/// The inputs of the fuzzer's corpus in the repository, each with its path.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/archive");
    let input = |path: PathBuf| (path.display().to_string(), fs::read(&path).expect("readable"));
    files_in(&folder).into_iter().map(input).collect()
}

#[test]
fn the_corpus_reads() {
    let corpus = corpus();
    assert!(corpus.len() >= 2, "the corpus is committed");
    for (name, bytes) in corpus {
        assert!(checks::fuzz_archive(&bytes), "{name}");
    }
}

/// Computes a header's checksum again and writes it.
fn mend(header: &mut [u8]) {
    header[CHECKSUM].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[CHECKSUM][..7].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.index(4) {
        let at = random.index(bytes.len());
        match random.index(8) {
            0 => bytes[at] ^= 1 << random.index(8),
            1 => bytes[at] = random.word() as u8,
            2 | 3 => bytes[at] = EDGES[random.index(EDGES.len())],
            4 => {
                let from = random.index(bytes.len());
                let len = random.index(80).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
            5 => {
                let word = random.word() >> random.index(64);
                let end = bytes.len().min(at + 8);
                bytes[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            }
            6 if random.chance(100) => bytes.truncate(at.max(1)),
            // A header that is damaged and whose checksum is right.
            _ => {
                let begin = at / HEADER * HEADER;
                let end = bytes.len().min(begin + HEADER);
                if end - begin == HEADER {
                    bytes[begin + random.index(345)] = EDGES[random.index(EDGES.len())];
                    mend(&mut bytes[begin..end]);
                }
            }
        }
    }
}

#[test]
fn mutated_archives() {
    let rounds = std::env::var("HEARTH_FUZZ_ROUNDS").map_or(2_000, |n| n.parse().expect("a number"));
    let seed = seed();
    println!("HEARTH_SEED={seed} cargo test --release --package hearth-ledger --test hostile archives::mutated");
    let mut random = Random(seed);
    let mut read = 0u32;
    for (_, input) in corpus() {
        for _ in 0..rounds {
            let mut mutant = input.clone();
            mutate(&mut mutant, &mut random);
            read += u32::from(checks::fuzz_archive(&mutant));
        }
    }
    println!("{read} of the mutants are archives");
}
