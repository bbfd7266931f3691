//! Benchmarks snapshots: the time to write one and to boot from it, and the memory per account. Then the same for a
//! full and an incremental archive in the cluster's format, and how many times as long the archive takes.
//!
//! reads   `HEARTH_ACCOUNTS` (100,000), `HEARTH_BENCH_DIR` (the temporary folder); `HEARTH_BENCH_KEEP`, a folder;
//!         `HEARTH_BENCH_ARCHIVE`, which the bench gives to the process that it starts
//! writes  one snapshot and two archives there, removed at the end; the full archive and `genesis.bin` also into the
//!         folder to keep, for `bank measure-snapshot` of `oracle/bank`
//! memory  the accounts, twice at the end of the load
//! source  wallets, and every fourth a token account of 165 bytes
//!
//! cargo bench -p hearth-ledger --bench snapshot; for the figures of a large chain HEARTH_ACCOUNTS=10000000

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use hearth_ledger::archive::{SlotStatuses, read_state};
use hearth_ledger::archiver::{ChainFacts, Changes, write_archive, write_incremental};
use hearth_ledger::blockstore::{BlockStore, Config, FecSetRecord};
use hearth_ledger::snapshot::{self, Folder, SnapshotConfig};
use hearth_ledger::snapshot_taker::{SnapshotEvent, Taker};
use hearth_ledger::{Account, Genesis, Ledger, LedgerConfig, SlotHistory, builders};

/// Names the archive from which the process starts a ledger, and does nothing else.
const ARCHIVE: &str = "HEARTH_BENCH_ARCHIVE";

/// How many times as long an archive must take, for snapshots to have a format of their own.
const FLOOR: f64 = 2.0;

fn main() {
    if let Some(archive) = std::env::var_os(ARCHIVE) {
        return start_alone(Path::new(&archive));
    }
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
    let state = resident_bytes() - empty;
    println!("{:>8} B an account in memory, tables and data", state / count.max(1));

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
    let (archive, archive_took) = measure_archive(&genesis, &ledger, dir.path(), state);
    keep(&genesis, &archive);
    measure_incremental(&genesis, &ledger, &archive);
    drop((taker, ledger));

    let from_archive = measure_start(&genesis, &archive, state, count);

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
    let both = times(archive_took + from_archive, took + from_snapshot);
    println!(
        "{both:>8.2} times as long for the archive: {:.2} to write it, {:.2} to start from it; floor ≥ {FLOOR} {}",
        times(archive_took, took),
        times(from_archive, from_snapshot),
        if both >= FLOOR { "met" } else { "MISSED: snapshots of our own are not worth a format" }
    );
    assert_eq!(ledger.account(&address(count - 1)), Some(account(count - 1)));
    println!("{:>8} MB resident at the end, {} MB at the start", resident_bytes() / 1_000_000, before / 1_000_000);
}

/// Writes the state as an archive of the cluster's, and verifies it. `state` is its size in memory, bytes. Returns the
/// time to write it, too.
fn measure_archive(genesis: &Genesis, ledger: &Ledger, folder: &Path, state: u64) -> (PathBuf, Duration) {
    // Linux forgets the peak until now. Where that is not allowed the figure is that of the whole run, and larger.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let start = Instant::now();
    let path = write_archive(ledger, &facts(genesis, ledger), folder, |_| {}).expect("room");
    let (took, peak) = (start.elapsed(), peak_bytes());
    let bytes = std::fs::metadata(&path).expect("it is there").len();
    println!("{:>8.2} s to write {} MB as an archive", took.as_secs_f64(), bytes / 1_000_000);
    let times = peak as f64 / state.max(1) as f64;
    println!("{times:>8.2} times the state in memory at most meanwhile, the state included");
    let start = Instant::now();
    let state = read_state(&path, None, &mut ()).expect("a whole archive");
    println!("{:>8.2} s to verify it, {} accounts", start.elapsed().as_secs_f64(), state.contents.accounts);
    (path, took)
}

/// Copies the archive and the genesis into the folder to keep, if one is named.
fn keep(genesis: &Genesis, archive: &Path) {
    let Some(folder) = std::env::var_os("HEARTH_BENCH_KEEP").map(PathBuf::from) else { return };
    std::fs::create_dir_all(&folder).expect("a folder");
    genesis.save_alone(&folder.join("genesis.bin")).expect("room");
    std::fs::copy(archive, folder.join(archive.file_name().expect("a file"))).expect("room");
}

/// Starts from the archive of a state of `count` accounts, which has `state` bytes in memory. Returns the time.
fn measure_start(genesis: &Genesis, archive: &Path, state: u64, count: u64) -> Duration {
    let start = Instant::now();
    let started = Ledger::from_archive(genesis, (archive, None), LedgerConfig::default(), &mut |_, _| {});
    let ledger = started.unwrap_or_else(|why| panic!("{why}")).ledger;
    let took = start.elapsed();
    println!("{:>8.2} s to start from the archive", took.as_secs_f64());
    assert_eq!(ledger.account(&address(count - 1)), Some(account(count - 1)));
    drop(ledger);
    let times = alone(archive) as f64 / state.max(1) as f64;
    println!("{times:>8.2} times the state in memory at most in a process that starts from it");
    took
}

/// Starts from the archive in a process of its own, which has no other state. Returns the most memory that it had.
fn alone(archive: &Path) -> u64 {
    let this = std::env::current_exe().expect("this program");
    let output = Command::new(this).env(ARCHIVE, archive).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of bytes")
}

/// The other side of [`alone`].
fn start_alone(archive: &Path) {
    let genesis = builders::genesis(0);
    let started = Ledger::from_archive(&genesis, (archive, None), LedgerConfig::default(), &mut |_, _| {});
    let started = started.unwrap_or_else(|why| panic!("{why}"));
    println!("{}", peak_bytes());
    drop(started);
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

/// The most memory that was resident, as Linux counts it.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    peak.map(|kilobytes: u64| kilobytes * 1024).expect("a peak")
}
