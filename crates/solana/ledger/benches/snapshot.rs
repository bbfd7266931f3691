//! Benchmarks snapshots: the time to write one and to boot from it, and the memory per account. Then the same for a
//! full and an incremental archive in the cluster's format, and how many times as long the archive takes.
//!
//! reads   `HEARTH_ACCOUNTS` (100,000), `HEARTH_BENCH_DIR` (the temporary folder)
//! writes  one snapshot and two archives there, removed at the end
//! memory  the accounts, twice at the end of the load
//! source  wallets, and every fourth a token account of 165 bytes
//!
//! cargo bench -p hearth-ledger --bench snapshot; for the figures of a large chain HEARTH_ACCOUNTS=10000000

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use hearth_ledger::archive::{SlotStatuses, read_state};
use hearth_ledger::archiver::{ChainFacts, Changes, write_archive, write_incremental};
use hearth_ledger::blockstore::{BlockStore, Config, FecSetRecord};
use hearth_ledger::snapshot::{self, Folder, SnapshotConfig};
use hearth_ledger::snapshot_taker::{SnapshotEvent, Taker};
use hearth_ledger::{Account, Genesis, Ledger, LedgerConfig, SlotHistory, builders};

fn main() {
    let count: u64 = std::env::var("HEARTH_ACCOUNTS").map_or(100_000, |text| text.parse().expect("a number"));
    let root = std::env::var("HEARTH_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), Into::into);
    let dir = tempfile::Builder::new().prefix("hearth-bench-snapshot").tempdir_in(root).expect("a folder");
    let genesis = builders::genesis(0);
    let (mut store, _) =
        BlockStore::open(&dir.path().join("blocks"), Config::new(8 << 20, *genesis.hash())).expect("blocks");
    let folder = Folder::open(&dir.path().join("snapshots")).expect("a folder");

    let before = resident_bytes();
    let ledger = Ledger::new(&genesis, LedgerConfig::default());
    let empty = resident_bytes();
    for n in 0..count {
        ledger.accounts().store(&address(n), account(n));
    }
    println!("{:>8} B an account in memory, tables and data", (resident_bytes() - empty) / count.max(1));

    let (tell, events) = channel();
    let when = SnapshotConfig { interval_slots: 2, keep: 1 };
    let tell = move |event| tell.send(event).expect("the receiver waits");
    let taker = Taker::start(&ledger, when, None, folder, store.reader(), || {}, tell).expect("a taker");
    let mut longest = Duration::ZERO;
    for slot in 1..=2 {
        ledger.begin_slot(slot, slot - 1).expect("the next slot");
        // Hashing the accounts stored above must not be part of the measurement.
        ledger.hash_all();
        let start = Instant::now();
        ledger.end_slot(slot, [slot as u8; 32]).expect("the slot ends");
        longest = longest.max(start.elapsed());
        append(&mut store, slot);
        ledger.mark_stored(slot);
    }
    let SnapshotEvent::Taken { file, bytes, took } = events.recv().expect("an event") else { panic!("given up") };
    println!("{:>8.2} s to write {} MB beside the chain", took.as_secs_f64(), bytes / 1_000_000);
    println!("{:>8.0} µs held up at most at the end of a slot", longest.as_secs_f64() * 1e6);
    let (archive, archive_took) = measure_archive(&genesis, &ledger, dir.path());
    measure_incremental(&genesis, &ledger, &archive);
    drop((taker, ledger));

    let start = Instant::now();
    let started = Ledger::from_archive(&genesis, (&archive, None), LedgerConfig::default(), &mut |_, _| {});
    let ledger = started.unwrap_or_else(|why| panic!("{why}")).ledger;
    let from_archive = start.elapsed();
    println!("{:>8.2} s to start from the archive", from_archive.as_secs_f64());
    assert_eq!(ledger.account(&address(count - 1)), Some(account(count - 1)));
    drop(ledger);

    let start = Instant::now();
    let loaded = snapshot::load(&file.path, genesis.hash(), &Default::default()).expect("a whole snapshot");
    let (read, found) = (start.elapsed(), loaded.summary.accounts);
    let ledger = Ledger::restore(&genesis, LedgerConfig::default(), loaded);
    let from_snapshot = start.elapsed();
    println!(
        "{:>8.2} s to start from the snapshot ({:.2} s of it reading), {found} accounts",
        from_snapshot.as_secs_f64(),
        read.as_secs_f64()
    );
    let times = |archive: Duration, snapshot: Duration| archive.as_secs_f64() / snapshot.as_secs_f64();
    println!(
        "{:>8.2} times as long for the archive: {:.2} to write it, {:.2} to start from it",
        times(archive_took + from_archive, took + from_snapshot),
        times(archive_took, took),
        times(from_archive, from_snapshot)
    );
    assert_eq!(ledger.account(&address(count - 1)), Some(account(count - 1)));
    println!("{:>8} MB resident at the end, {} MB at the start", resident_bytes() / 1_000_000, before / 1_000_000);
}

/// Writes the state as an archive of the cluster's, and verifies it. Returns the time to write it, too.
fn measure_archive(genesis: &Genesis, ledger: &Ledger, folder: &Path) -> (PathBuf, Duration) {
    let start = Instant::now();
    let path = write_archive(ledger, &facts(genesis, ledger), folder, |_| {}).expect("room");
    let took = start.elapsed();
    let bytes = std::fs::metadata(&path).expect("it is there").len();
    println!("{:>8.2} s to write {} MB as an archive", took.as_secs_f64(), bytes / 1_000_000);
    let start = Instant::now();
    let state = read_state(&path, None, &mut ()).expect("a whole archive");
    println!("{:>8.2} s to verify it, {} accounts", start.elapsed().as_secs_f64(), state.contents.accounts);
    (path, took)
}

/// Writes an incremental archive on a full one: every hundredth account has changed.
fn measure_incremental(genesis: &Genesis, ledger: &Ledger, full: &Path) {
    let last = ledger.recent_blocks(1)[0].slot;
    ledger.begin_slot(last + 1, last).expect("the next slot");
    let mut changed = vec![];
    ledger.accounts().for_each(|key, account| {
        if key[0] < 3 && account.lamports > 1 {
            changed.push((*key, account.clone()));
        }
    });
    for (key, account) in &mut changed {
        account.lamports -= 1;
        ledger.accounts().store(key, account.clone());
    }
    ledger.end_slot(last + 1, [(last as u8).wrapping_add(1); 32]).expect("the slot ends");
    ledger.hash_all();
    let start = Instant::now();
    let changes = Changes::since(full, ledger, &mut |_, _| {}).expect("a whole archive");
    let compared = start.elapsed();
    let start = Instant::now();
    let folder = full.parent().expect("a folder");
    let path = write_incremental(ledger, &facts(genesis, ledger), folder, &changes, |_| {}).expect("room");
    let bytes = std::fs::metadata(&path).expect("it is there").len();
    let (compared, written) = (compared.as_secs_f64(), start.elapsed().as_secs_f64());
    println!("{written:>8.2} s to write the changes of one in a hundred, {} MB", bytes / 1_000_000);
    println!("{compared:>8.2} s to find the changes in a stopped node; a running node tracks them");
    // The start measured next is from the full archive alone, like the start that it is compared with.
    std::fs::remove_file(path).expect("it was written");
}

/// The archive's facts about the chain, whose blocks have no transactions.
fn facts(genesis: &Genesis, ledger: &Ledger) -> ChainFacts {
    let (slot, _) = ledger.hash_all();
    let history = SlotHistory::of(ledger).expect("the chain keeps it");
    let blocks = (0..=slot).filter(|slot| history.has(*slot));
    let statuses = blocks.map(|slot| SlotStatuses { slot, hashes: vec![] }).collect();
    ChainFacts::of(ledger, genesis, statuses, [1; 32])
}

fn address(n: u64) -> [u8; 32] {
    hearth_crypto::sha256::sha256(&[&n.to_le_bytes()])
}

fn account(n: u64) -> Account {
    match n % 4 {
        0 => {
            let data = [&address(n)[..], &address(n + 1), &n.to_le_bytes(), &[0; 93]].concat();
            Account::with_data(2_039_280, [6; 32], &data)
        }
        _ => Account::wallet(n + 1),
    }
}

fn append(store: &mut BlockStore, slot: u64) {
    let set = FecSetRecord {
        slot,
        parent_slot: slot - 1,
        fec_set_index: 0,
        reference_tick: 0,
        last_in_slot: true,
        ends_batch: None,
        merkle_root: [slot as u8; 32],
        chained_root: [0; 32],
        signature: [0; 64],
        data: b"entries",
    };
    store.append_set(&set).expect("room");
}

/// Resident memory of this process in bytes, as Linux counts it.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}
