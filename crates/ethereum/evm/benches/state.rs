//! The state: a block's commit and root at different numbers of accounts, beside building the tries from nothing, and
//! what an account takes in memory.
//!
//! reads   numbers of accounts from the command line (10,000 and 1,000,000); `HEARTH_BENCH_DIR` (the temporary folder)
//! writes  a log there, removed at the end
//! memory  the states, one after the other
//! source  ratios are of a core's time, which other programs do not disturb much; the yardstick is `alloy_trie`'s hash
//!         builder over all accounts, their hashes and order known beforehand; accounts without storage, and one
//!         contract of 100,000 slots
//!
//! cargo bench -p hearth-evm --bench state [-- 10000 1000000 10000000]

use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_trie::{EMPTY_ROOT_HASH, KECCAK_EMPTY, TrieAccount};
use hearth_evm::genesis::Genesis;
use hearth_evm::state::{Account, AccountChange, Changes, Entry, State};
use hearth_testkit::bench::Stats;
use revm::DatabaseRef;
use revm::state::AccountInfo;

/// Accounts that a block changes.
const BLOCK: u64 = 5_000;
const BLOCKS: u64 = 40;
const SLOTS: u64 = 100_000;

fn main() {
    let numbers = std::env::args().skip(1).filter_map(|text| text.replace('_', "").parse::<u64>().ok());
    let mut counts: Vec<u64> = numbers.collect();
    if counts.is_empty() {
        counts = vec![10_000, 1_000_000];
    }
    let times: Vec<Duration> = counts.iter().map(|count| measure(*count)).collect();
    for (count, time) in counts.iter().zip(&times).skip(1) {
        let ratio = time.as_secs_f64() / times[0].as_secs_f64();
        println!("a core's time for a block at {count} accounts over {}: {ratio:.2}×", counts[0]);
    }
}

fn address(number: u64) -> Address {
    Address::from_slice(&keccak256(number.to_le_bytes())[..20])
}

fn contract() -> Address {
    Address::repeat_byte(0xc0)
}

fn measure(count: u64) -> Duration {
    println!("{count} accounts");
    let before = resident_bytes();
    let start = Instant::now();
    let genesis = Genesis::dev(1, &[], 30_000_000);
    let account = |balance: u64| Account { balance: U256::from(balance), ..Default::default() };
    let entries = (0..count).map(|n| Ok(Entry::Account { address: address(n), account: account(n + 1) }));
    let mut state = State::load(None, &genesis, 0, &[], entries).expect("a state in memory");
    let (took, sizes) = (start.elapsed(), state.sizes());
    let resident = (resident_bytes() - before) / count.max(1);
    let (tries, kept) = (sizes.trie_bytes as u64 / count, sizes.retired_bytes >> 20);
    println!("  {:>9.2} s to load", took.as_secs_f64());
    println!("  {resident:>9} B an account resident, {tries} B of it tries; {kept} MiB kept for older versions");
    let mut number = 0;
    let (time, root) = blocks(&mut state, "accounts", &mut number, |block| accounts_of(block, count));
    rebuild(&state, &time);
    reads(&state, count);
    slots(&mut state, &mut number);
    assert_ne!(root, EMPTY_ROOT_HASH);
    if count <= 1_000_000 {
        on_disk(&state, &genesis);
    }
    time
}

/// Plain transfers between accounts drawn from all.
fn accounts_of(block: u64, count: u64) -> Changes {
    let mut changes = Changes::default();
    for n in 0..BLOCK {
        let drawn =
            u64::from_le_bytes(keccak256([block.to_le_bytes(), n.to_le_bytes()].concat())[..8].try_into().expect("8"));
        let info = AccountInfo { balance: U256::from(block * BLOCK + n), nonce: block, ..Default::default() };
        changes.accounts.insert(address(drawn % count), AccountChange { info: Some(info), ..Default::default() });
    }
    changes
}

/// Commits blocks; prints what each took.
fn blocks(state: &mut State, of: &str, number: &mut u64, changes: impl Fn(u64) -> Changes) -> (Duration, B256) {
    let (mut roots, mut all, mut root) = (Vec::new(), Vec::new(), B256::ZERO);
    let changes: Vec<Changes> = (1..=BLOCKS).map(|block| changes(*number + block)).collect();
    let before = cpu_time();
    for changes in changes {
        *number += 1;
        let start = Instant::now();
        root = state.root_after(&changes);
        roots.push(start.elapsed().as_secs_f64() * 1e3);
        let committed = state.commit(*number, keccak256(number.to_le_bytes()), changes).expect("it follows");
        all.push(start.elapsed().as_secs_f64() * 1e3);
        assert_eq!(root, committed);
    }
    let cpu = (cpu_time() - before) / BLOCKS as u32;
    let (roots, all) = (Stats::of(&mut roots), Stats::of(&mut all));
    let spread = format!("[{:.2} – {:.2}]", all.p5, all.p95);
    println!("  {:>9.2} ms a block of {BLOCK} {of}: root {:.2} ms {spread}", all.median, roots.median);
    println!("  {:>9.2} ms of a core for it", cpu.as_secs_f64() * 1e3);
    (cpu, root)
}

/// The tries from nothing.
fn rebuild(state: &State, ours: &Duration) {
    let mut hashed: Vec<(B256, TrieAccount)> = Vec::new();
    for entry in state.head().dump() {
        if let Entry::Account { address, account } = entry {
            let leaf = TrieAccount::new(account.nonce, account.balance, EMPTY_ROOT_HASH, KECCAK_EMPTY);
            hashed.push((keccak256(address), leaf));
        }
    }
    hashed.sort_unstable_by_key(|(key, _)| *key);
    let start = cpu_time();
    let mut rounds = 0;
    let mut root = B256::ZERO;
    // The clock ticks every 10 ms.
    while rounds == 0 || cpu_time() - start < Duration::from_millis(200) {
        root = alloy_trie::root::state_root(hashed.iter().copied());
        rounds += 1;
    }
    let took = (cpu_time() - start) / rounds;
    assert_eq!(root, state.head().state_root());
    let ratio = took.as_secs_f64() / ours.as_secs_f64();
    println!("  {:>9.2} ms of a core from nothing by alloy_trie: {ratio:.1}× a block's", took.as_secs_f64() * 1e3);
}

fn reads(state: &State, count: u64) {
    let view = state.head();
    let some: Vec<Address> = (0..200_000).map(|n| address(n * 7_919 % count)).collect();
    let old = state.at(state.head().number().saturating_sub(20)).expect("kept");
    for (of, view) in [("newest state", &view), ("state 20 blocks old", &old)] {
        let start = Instant::now();
        let found = some.iter().filter(|address| view.basic_ref(**address).expect("in memory").is_some()).count();
        assert_eq!(found, some.len());
        println!("  {:>9.0} ns to read an account of the {of}", start.elapsed().as_nanos() as f64 / some.len() as f64);
    }
    let start = Instant::now();
    let nodes: usize = some[..1_000].iter().map(|address| view.proof(address, &[]).expect("kept").proof.len()).sum();
    println!("  {:>9.2} µs a proof of {} nodes", start.elapsed().as_secs_f64() * 1e3, nodes / 1_000);
}

/// One contract with much storage, as of a token.
fn slots(state: &mut State, number: &mut u64) {
    let info = AccountInfo { nonce: 1, ..Default::default() };
    let write = |slots: std::ops::Range<u64>, seed: u64| {
        let slot = |n: u64| U256::from_be_bytes(keccak256((n * 31 % SLOTS).to_le_bytes()).0);
        let storage = slots.map(|n| (slot(n + seed), U256::from(n + seed + 1))).collect();
        let change = AccountChange { info: Some(info.clone()), storage, ..Default::default() };
        let mut changes = Changes::default();
        changes.accounts.insert(contract(), change);
        changes
    };
    *number += 1;
    state.commit(*number, keccak256(number.to_le_bytes()), write(0..SLOTS, 0)).expect("it follows");
    blocks(state, "slots of 100,000", number, |block| write(0..BLOCK, block * BLOCK));
}

/// What the disk adds: the same blocks written, and synced; a checkpoint; a start.
fn on_disk(from: &State, genesis: &Genesis) {
    let root = std::env::var("HEARTH_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), Into::into);
    let dir = tempfile::Builder::new().prefix("hearth-bench-state").tempdir_in(root).expect("a folder");
    let count = from.sizes().accounts as u64;
    let dump = from.head().dump().map(Ok);
    let mut state = State::load(Some(dir.path()), genesis, 0, &[], dump).expect("a state");
    let mut number = 0;
    blocks(&mut state, "accounts, written", &mut number, |block| accounts_of(block, count));
    let mut syncs: Vec<f64> = Vec::new();
    for _ in 0..BLOCKS {
        number += 1;
        state.commit(number, keccak256(number.to_le_bytes()), accounts_of(number, count)).expect("it follows");
        let start = Instant::now();
        state.sync().expect("the disk works");
        syncs.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let stats = Stats::of(&mut syncs);
    println!("  {:>9.2} ms to sync a block [{:.2} – {:.2}]", stats.median, stats.p5, stats.p95);
    let start = Instant::now();
    state.checkpoint().expect("the disk works");
    println!("  {:>9.2} s to write a checkpoint", start.elapsed().as_secs_f64());
    drop(state);
    let start = Instant::now();
    let state = State::open(Some(dir.path()), genesis).expect("whole");
    let took = start.elapsed().as_secs_f64();
    println!("  {took:>9.2} s to start from a checkpoint and {} blocks", state.head().number());
}

/// What all threads of this process have computed: on a busy machine that is what can be compared.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux tells");
    let fields = stat.rsplit(") ").next().expect("fields after the name").split_whitespace();
    // User and system time, in ticks of 10 ms.
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// Bytes of this process in memory.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line of it");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
}
