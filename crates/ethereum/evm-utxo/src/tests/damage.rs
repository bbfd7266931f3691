//! Every file of a chain's folder with bytes flipped, zeroed and truncated, at every kind of place: a chain that opens
//! is correct, and an error names the file and the byte.

use std::collections::BTreeMap;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use hearth_evm::chain::ChainError;

use super::*;

/// One change to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    /// Zeroes this many bytes.
    Zero(usize),
    /// All bytes from here on are zeros.
    ZeroRest,
    Cut,
}

const DAMAGES: [Damage; 5] = [Damage::Flip, Damage::Zero(4), Damage::Zero(64), Damage::ZeroRest, Damage::Cut];

impl Damage {
    /// Returns the damaged bytes; `None` if they did not change.
    fn apply(self, whole: &[u8], at: usize) -> Option<Vec<u8>> {
        let mut bytes = whole.to_vec();
        match self {
            Self::Flip => *bytes.get_mut(at)? ^= 0x10,
            Self::Zero(count) => bytes.iter_mut().skip(at).take(count).for_each(|byte| *byte = 0),
            Self::ZeroRest => bytes[at..].fill(0),
            Self::Cut => bytes.truncate(at),
        }
        (bytes != whole).then_some(bytes)
    }
}

/// A folder, and the expected contents of its chain.
struct Folder {
    files: BTreeMap<PathBuf, Vec<u8>>,
    genesis: Genesis,
    /// Block hashes by number.
    blocks: Vec<B256>,
    commitment: B256,
    waiting: Vec<B256>,
    /// Up to which block everything was synced.
    synced: u64,
}

const RETAINED: u64 = 16;

fn reopen(genesis: &Genesis, dir: &Path) -> Result<Chain, ChainError> {
    let (dir, block_time) = (Some(dir.to_owned()), BlockTime::Manual);
    let config = ChainConfig { dir, block_time, beneficiary: account(N), ..ChainConfig::new(genesis.clone()) };
    Chain::open(ChainConfig { retain_blocks: RETAINED, ..config })
}

fn files(dir: &Path, below: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir.join(below)).unwrap().map(Result::unwrap) {
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            files(dir, &path, all);
        } else {
            all.insert(path, fs::read(entry.path()).unwrap());
        }
    }
}

impl Folder {
    /// Makes a folder of a chain that was stopped cleanly, or of one that runs and has unsynced blocks.
    fn new(stopped: bool) -> Self {
        let (_, genesis) = dumped();
        let dir = tempfile::tempdir().unwrap();
        let chain = reopen(&genesis, dir.path()).unwrap();
        let mut blocks = vec![chain.head().hash];
        let mut held = None;
        for number in 1..=44 {
            to_outputs(&chain, 1, 2, COIN);
            if number % 3 == 0 {
                send(&chain, pay(&chain, 3, 4, COIN / 64).unwrap());
            }
            blocks.push(chain.mine().unwrap().hash);
            match number {
                20 => chain.checkpoint().unwrap(),
                40 if !stopped => {
                    hearth_testkit::wait_until("old blocks go", || chain.first_block() != 1);
                    chain.sync_blocks().unwrap();
                    held = chain.hold_syncs();
                }
                _ => {}
            }
        }
        let evm = send(&chain, call(CHAIN, nonce(&chain, 4), PRICE, &owner(1), COIN, &signer(4)).raw);
        let later = send(&chain, call(CHAIN, nonce(&chain, 4), PRICE, &owner(1), COIN, &signer(4)).raw);
        let waiting = vec![evm, later, send(&chain, pay(&chain, 2, 4, COIN).unwrap())];
        let commitment = chain.outputs().commitment();
        let mut all = BTreeMap::new();
        let synced = if stopped { 44 } else { 40 };
        if !stopped {
            files(dir.path(), Path::new(""), &mut all);
        }
        drop(held);
        drop(chain);
        if stopped {
            files(dir.path(), Path::new(""), &mut all);
        }
        all.retain(|path, bytes| !path.ends_with("lock") && !bytes.is_empty());
        Self { files: all, genesis, blocks, commitment, waiting, synced }
    }

    /// Opens the folder with one file changed, and checks the result; returns whether it opened.
    fn check(&self, path: &Path, bytes: &[u8], what: &str) -> bool {
        let dir = tempfile::tempdir().unwrap();
        for (other, whole) in &self.files {
            fs::create_dir_all(dir.path().join(other).parent().unwrap()).unwrap();
            fs::write(dir.path().join(other), if other == path { bytes } else { whole }).unwrap();
        }
        let chain = match reopen(&self.genesis, dir.path()) {
            Ok(chain) => chain,
            Err(error) => {
                let error = error.to_string();
                let name = path.file_name().unwrap().to_str().unwrap();
                assert!(error.contains(name) && error.contains("byte "), "{what}: {error}");
                assert_eq!(fs::read(dir.path().join(path)).unwrap(), bytes, "{what}: refused and changed");
                return false;
            }
        };
        let head = chain.head();
        let number = head.number();
        assert!(number >= self.synced, "{what}: block {number} is the newest, {} was on disk", self.synced);
        for number in chain.first_block().max(1)..=number {
            let block = chain.block(number).unwrap_or_else(|| panic!("{what}: block {number} is not there"));
            assert_eq!(block.hash, self.blocks[number as usize], "{what}: block {number}");
            assert_eq!(block.header.hash_slow(), block.hash, "{what}: block {number}");
        }
        assert_eq!(chain.view().state_root(), head.header.state_root, "{what}");
        match number as usize + 1 == self.blocks.len() {
            true => assert_eq!(chain.outputs().commitment(), self.commitment, "{what}"),
            false => {
                let recovery = chain.recovery().unwrap_or_else(|| panic!("{what}: lost blocks and no report"));
                let lost = self.blocks.len() as u64 - 1 - number;
                assert!(recovery.lost_min <= lost && recovery.lost_max >= lost, "{what}: {lost} lost, {recovery}");
            }
        }
        let there = |hash: &B256| chain.pool().get(hash).is_some() || chain.outputs_pool().get(hash).is_some();
        let waits = self.waiting.iter().filter(|hash| there(hash)).count();
        let status = chain.pool().status();
        let all = status.pending + status.queued + chain.outputs_pool().status().0;
        // Transactions of lost blocks wait again.
        assert!(all == waits || number as usize + 1 < self.blocks.len(), "{what}: the pool has what never waited");
        chain.mine().unwrap_or_else(|error| panic!("{what}: it does not go on: {error}"));
        let goes_on = chain.head().hash;
        drop(chain);
        let again = reopen(&self.genesis, dir.path()).unwrap_or_else(|error| panic!("{what}: not again: {error}"));
        assert_eq!((again.head().hash, again.recovery()), (goes_on, None), "{what}");
        true
    }

    /// The places to damage in a file: its head, and the heads and bodies of its first, middle and last records.
    fn places(path: &Path, bytes: &[u8]) -> Vec<usize> {
        let records = records(path, bytes);
        let mut places = vec![0, 3, 9, 20, 50, 58, bytes.len() / 3, bytes.len() - 1];
        let last = records.len().saturating_sub(1);
        for record in [0, last / 2, last.saturating_sub(1), last] {
            let Some(&at) = records.get(record) else { continue };
            // Marks, lengths, numbers, sync marks, checksums and bodies of all kinds of records.
            places.extend([0, 4, 8, 12, 17, 25, 29, 33, 90].map(|more| at + more));
            places.push(at.wrapping_sub(1));
        }
        places.retain(|at| *at < bytes.len());
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// The offsets of the records in a file.
fn records(path: &Path, bytes: &[u8]) -> Vec<usize> {
    let marked = |mark: &[u8]| {
        let found = bytes.windows(mark.len()).enumerate().filter(|(_, some)| *some == mark);
        found.map(|(at, _)| at).collect()
    };
    let word = |at: usize| bytes.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap()) as usize);
    // Each record has a header and as many bytes as its first word says.
    let framed = |begin: usize, head: usize| {
        let mut at = begin;
        let next = || {
            let here = at;
            at += head + word(here).filter(|length| *length > 0)?;
            Some(here)
        };
        std::iter::from_fn(next).collect()
    };
    match (path.extension().and_then(|extension| extension.to_str()), path.to_str().unwrap()) {
        (Some("blocks"), _) => marked(b"HBLK"),
        (Some("log"), path) if path.starts_with("state") => marked(b"\xf1rec"),
        (Some("checkpoint"), _) => framed(0, 8),
        (_, "utxo.log") => framed(20, 12),
        (Some("base"), _) => framed(8 + 8 + 8 + 3 * 32 + 4, 8),
        (_, "pool.log" | "utxo.pool") => framed(0, 12),
        _ => Vec::new(),
    }
}

/// Applies all damages to all files; returns how many opened and how many were refused. Panics with all failures.
fn check_all(folder: &Folder) -> (usize, usize) {
    let mut cases = Vec::new();
    for (path, whole) in &folder.files {
        for at in Folder::places(path, whole) {
            let damaged = DAMAGES.iter().filter_map(|damage| Some((damage, damage.apply(whole, at)?)));
            cases
                .extend(damaged.map(|(damage, bytes)| (path, bytes, format!("{} {damage:?} at {at}", path.display()))));
        }
    }
    let next = AtomicUsize::new(0);
    let check = || {
        let mut results = Vec::new();
        while let Some((path, bytes, what)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let checked = std::panic::catch_unwind(AssertUnwindSafe(|| folder.check(path, bytes, what)));
            results.push(checked.map_err(|_| what.clone()));
        }
        results
    };
    let results: Vec<Result<bool, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(check)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let wrong: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), results.len());
    let opened = results.iter().filter(|result| **result == Ok(true)).count();
    (opened, results.len() - opened)
}

#[test]
fn damage_of_a_stopped_chain_is_named_or_mended() {
    let folder = Folder::new(true);
    for name in ["blocks/base", "blocks/status", "forks", "pool.log", "utxo.pool", "utxo.log", "utxo.0.base"] {
        assert!(folder.files.contains_key(Path::new(name)), "{name} of {:?}", folder.files.keys());
    }
    let (opened, refused) = check_all(&folder);
    assert!(opened > 100 && refused > 300, "{opened} opened, {refused} were refused");
}

#[test]
fn damage_of_a_killed_chain_costs_what_was_never_synced_alone() {
    let folder = Folder::new(false);
    let (opened, refused) = check_all(&folder);
    assert!(opened > 100 && refused > 300, "{opened} opened, {refused} were refused");
}
