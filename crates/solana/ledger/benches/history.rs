//! Benchmarks the history: transfers that one thread appends per second while the index is built behind it, and
//! lookups.
//!
//! reads   the bench's name filter; `HEARTH_BENCH_DIR` (default /dev/shm if it exists, else the temporary dir)
//! writes  at most 2 GB there, removed at the end
//! memory  the index of one segment
//! source  a transfer is 130 B here; microblocks of 64, blocks of 40,000: a second's worth of 100,000 is 2.5 blocks
//!
//! cargo bench -p hearth-ledger --bench history

use hearth_ledger::history::{BatchWriter, BlockMeta, Config, History, MetaParts};
use hearth_testkit::bench::{Bench, Unit};
use std::path::Path;
use std::time::Instant;

const LIMIT_SIZE: u64 = 2 << 30;
const MICROBLOCK: u64 = 64;
const BLOCK: u64 = 40_000;
const ACCOUNTS: u64 = 4_096;

fn main() {
    let bench = Bench::from_args();
    let root = std::env::var("HEARTH_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
    let root = if Path::new(&root).is_dir() { root.into() } else { std::env::temp_dir() };
    let dir =
        tempfile::Builder::new().prefix("hearth-bench-history").tempdir_in(root).expect("a directory to write to");
    let mut history = History::open(dir.path(), Config::new(LIMIT_SIZE, [0; 32]), u64::MAX).expect("the log opens");
    let mut writer = BatchWriter::new(history.key());
    let mut slot = 0;
    let cpu = || cpu_ns();
    let (before, start) = (cpu(), Instant::now());
    bench.run("history append and index, transfers", Unit::PerSecond, Some(1e5), || {
        slot += 1;
        append_block(&mut history, &mut writer, slot);
        BLOCK
    });
    while history.indexed_slot() < slot {
        std::thread::yield_now();
    }
    if slot > 0 {
        let each = (cpu() - before) as f64 / (slot * BLOCK) as f64;
        let rate = (slot * BLOCK) as f64 / start.elapsed().as_secs_f64();
        println!(
            "    all threads: {each:.0} ns of CPU a transfer, {rate:.0}/s with everything indexed and most of it sealed"
        );
        println!("    {} B on disk a transfer kept", history.disk_bytes() / kept(&history, slot));
    }
    while slot < 100 {
        slot += 1;
        append_block(&mut history, &mut writer, slot);
    }
    look_up(&bench, &history, slot);
}

fn kept(history: &History, last: u64) -> u64 {
    (last + 1 - history.reader().first_slot().unwrap_or(last)) * BLOCK
}

fn look_up(bench: &Bench, history: &History, last: u64) {
    let reader = history.reader();
    while reader.last_slot() < last {
        std::thread::yield_now();
    }
    // Pruning may have removed part of the first remaining block.
    let first = reader.first_slot().expect("there are blocks") + 1;
    let mut random = fastrand::Rng::with_seed(1);
    let mut some = || (random.u64(first..last), random.u64(..BLOCK));
    bench.run("history by signature, anywhere", Unit::NanosPerItem, Some(1e6), || {
        let (slot, number) = some();
        let found = reader.transaction(&signature(slot, number)).expect("readable").expect("kept");
        assert_eq!(u64::from(found.place.index), number);
        1
    });
    bench.run("history by signature, not there", Unit::NanosPerItem, Some(1e6), || {
        assert_eq!(reader.place(&[7; 64]).expect("readable"), None);
        1
    });
    bench.run("history by address, the last 10", Unit::NanosPerItem, Some(1e6), || {
        let found = reader.of_address(&account(some().1), u64::MAX, (None, None), 10).expect("readable");
        assert_eq!(found.len(), 10);
        1
    });
    bench.run("history by address, 1000 before a place", Unit::NanosPerItem, None, || {
        let before = reader.place(&signature(last, 0)).expect("readable");
        let found = reader.of_address(&[0; 32], u64::MAX, (before, None), 1_000).expect("readable");
        assert_eq!(found.len(), 1_000);
        1
    });
    bench.run("history a block of 40,000", Unit::NanosPerItem, None, || {
        reader.transactions(some().0).expect("readable").expect("kept").len() as u64
    });
}

fn append_block(history: &mut History, writer: &mut BatchWriter, slot: u64) {
    for microblock in 0..BLOCK / MICROBLOCK {
        writer.begin(slot, microblock);
        for number in microblock * MICROBLOCK..(microblock + 1) * MICROBLOCK {
            writer.push(&MetaParts {
                signature: &signature(slot, number),
                // The last is the system program, which every transaction names.
                static_accounts: &[account(number), account(number * 31 + slot), [0; 32]],
                result: Ok(()),
                fee: 5_000,
                compute_units: 150,
                cost_units: 1_481,
                balances: &[(500_000_000_000 - number, 499_999_900_000), (7_000_000 + slot, 7_095_000), (1, 1)],
                pre_token_balances: &[],
                post_token_balances: &[],
                loaded_writable: &[],
                loaded_readonly: &[],
                memo: None,
                details: None,
            });
        }
        while !history.has_room() {
            std::thread::yield_now();
        }
        history.append(writer.finish().expect("a microblock has transactions"));
        history.write_some().expect("there is room");
    }
    let block = BlockMeta {
        slot,
        parent: slot - 1,
        height: slot,
        time: 0,
        blockhash: [1; 32],
        previous_blockhash: [2; 32],
        transaction_count: BLOCK as u32,
        rewards: vec![],
        num_partitions: None,
    };
    history.close(&block).expect("there is room");
}

fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n ^ n >> 29
}

fn account(n: u64) -> [u8; 32] {
    let mut key = [1; 32];
    key[..8].copy_from_slice(&mix(n % ACCOUNTS).to_le_bytes());
    key
}

fn signature(slot: u64, number: u64) -> [u8; 64] {
    let mut signature = [2; 64];
    signature[..8].copy_from_slice(&mix(slot << 32 | number).to_le_bytes());
    signature[32..40].copy_from_slice(&slot.to_le_bytes());
    signature
}

/// CPU time of all threads of this process.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux says what a process has used");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in brackets").split_whitespace().collect();
    // utime and stime, in hundredths of a second.
    (fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")) * 10_000_000
}
