//! Archives that Agave's own bank wrote start ledgers, which follow the blocks that it made next.
//!
//! `crates/solana/ledger/tests/snapshots/README.md` says how the archives were made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_ledger::archive::ArchiveName;
use hearth_ledger::lattice::Lattice;
use hearth_ledger::{Commitment, Executor, Genesis, GenesisConfig, Ledger, LedgerConfig, Outcome, TransactionError};
use hearth_node::recorded::format::RecordedLedger;
use hearth_node::recorded::{ledger_config, replay_after};
use hearth_wire::txn::Txn;

/// Recorded ledgers, each with the slot of a full archive and that of an incremental one on it.
const CHAINS: [(&str, u64, u64); 2] = [("transfers", 40, 60), ("stakes-rewards", 64, 90)];

fn below(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}

fn recorded(name: &str) -> RecordedLedger {
    RecordedLedger::read(&below("svm/tests/recorded").join(name)).expect("it is committed")
}

/// The archive of a slot, with its name.
fn archive(base: Option<u64>, slot: u64) -> (PathBuf, ArchiveName) {
    let files = std::fs::read_dir(below("ledger/tests/snapshots")).expect("it is committed");
    let paths = files.map(|file| file.expect("readable").path());
    let mut archives = paths.filter_map(|path| Some((path.clone(), ArchiveName::of_path(&path).ok()?)));
    archives.find(|(_, name)| (name.base, name.slot) == (base, slot)).expect("it is committed")
}

/// The archives of a chain: the full one alone, and with the incremental one. Each with the slot and the name's hash.
fn states((full, newer): (u64, u64)) -> [(u64, PathBuf, Option<PathBuf>, [u8; 32]); 2] {
    let (full_path, full_name) = archive(None, full);
    let (path, name) = archive(Some(full), newer);
    [(full, full_path.clone(), None, full_name.hash), (newer, full_path, Some(path), name.hash)]
}

fn start(recorded: &RecordedLedger, full: &Path, incremental: Option<&Path>) -> Arc<Ledger> {
    let (config, mut read) = (ledger_config(&recorded.blocks), 0);
    let mut progress = |_: &ArchiveName, progress: hearth_ledger::archive::Progress| read = progress.packed;
    let started = Ledger::from_archive(&recorded.genesis, (full, incremental), config, &mut progress);
    let started = started.unwrap_or_else(|why| panic!("{why}"));
    assert!(read > 0, "progress is reported");
    assert_ne!(started.block_id, [0; 32]);
    started.ledger
}

#[test]
fn a_ledger_from_an_archive_follows_the_cluster() {
    for (chain, full, newer) in CHAINS {
        let recorded = recorded(chain);
        for (slot, full, incremental, hash) in states((full, newer)) {
            let ledger = start(&recorded, &full, incremental.as_deref());
            let block = recorded.blocks.iter().find(|block| block.slot == slot).expect("a block of the chain");
            assert_eq!(ledger.hash_all(), (slot, block.bank_hash));
            assert_eq!(ledger.capitalization(), block.capitalization);
            assert_eq!(ledger.block_height(Commitment::Processed), block.height);
            let mut sum = Lattice::default();
            ledger.accounts().for_each(|key, account| sum.add(key, account));
            assert_eq!((sum.checksum(), ledger.lattice().checksum()), (hash, hash));
            let done = replay_after(ledger, &recorded).unwrap_or_else(|difference| panic!("{chain}: {difference}"));
            assert!(done.blocks > 0 && done.transactions > 0, "{chain} ends with slot {slot}");
        }
    }
}

#[test]
fn transaction_before_an_archive_lands_only_once() {
    for (chain, full, newer) in CHAINS {
        let recorded = recorded(chain);
        for (slot, full, incremental, _) in states((full, newer)) {
            let ledger = start(&recorded, &full, incremental.as_deref());
            let bank = ledger.begin_slot(slot + 1, slot).unwrap();
            let before = recorded.blocks.iter().filter(|block| block.slot <= slot);
            let mut known = 0;
            for block in before {
                for landed in &block.txs {
                    let txn = Txn::parse(&landed.bytes).unwrap();
                    let result = landed.err.map_or(Ok(()), Err);
                    let status = ledger.signature_status(txn.first_signature()).expect("it has landed");
                    assert_eq!((status.slot, status.result), (block.slot, result));
                    if !ledger.is_blockhash_valid(txn.recent_blockhash()) {
                        continue;
                    }
                    known += 1;
                    let refused = [Outcome::NotCommitted(TransactionError::AlreadyProcessed)];
                    let mut outcomes = vec![];
                    bank.execute(&mut Executor::new(), &[txn], &mut outcomes);
                    assert_eq!(outcomes, refused, "{chain}, slot {}", block.slot);
                    assert_eq!(bank.simulate(&mut Executor::new(), &txn).outcome, refused[0]);
                }
            }
            assert!(known > 0, "{chain} has transactions before slot {slot}");
        }
    }
}

#[test]
fn archives_that_do_not_fit_start_nothing() {
    let recorded = recorded("transfers");
    let [(_, full, ..), (_, _, incremental, _)] = states((40, 60));
    let incremental = incremental.expect("the second has one");
    let refused = |genesis: &Genesis, full: &Path, incremental: Option<&Path>, config: LedgerConfig| {
        let started = Ledger::from_archive(genesis, (full, incremental), config, &mut |_, _| {});
        started.err().expect("it does not fit").to_string()
    };
    let config = || ledger_config(&recorded.blocks);
    let other = GenesisConfig { fund_initial_accounts: 0, ..GenesisConfig::development([1; 32], [2; 32], 1) };
    let other = Genesis::create(other, |_| {}).unwrap();
    let why = refused(&other, &full, None, config());
    assert!(why.contains("it is of another chain"), "{why}");
    let why = refused(&recorded.genesis, &full, None, LedgerConfig { hard_forks: vec![7, 50], ..config() });
    assert!(why.contains("hard forks at no slot, this node is configured with slots 7, 50"), "{why}");
    let (later, _) = archive(Some(64), 90);
    for (full, newer) in [(full.as_path(), later.as_path()), (incremental.as_path(), full.as_path())] {
        refused(&recorded.genesis, full, Some(newer), config());
    }
    refused(&recorded.genesis, &incremental, None, config());
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join(full.file_name().unwrap());
    let bytes = std::fs::read(&full).unwrap();
    for len in [0, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&cut, &bytes[..len]).unwrap();
        refused(&recorded.genesis, &cut, None, config());
    }
}
