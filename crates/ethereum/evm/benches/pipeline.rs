//! Compares full blocks that are executed while their parent is sealed and appended with blocks that wait for their
//! parent.
//!
//! reads   the bench's name filter; `--rounds N`
//! writes  nanoseconds per transaction of both, and the median of the rounds' ratios beside its goal
//! memory  some hundred megabytes
//! source  transfers and token-like calls of 2,000 accounts, in full blocks
//!
//! cargo bench -p hearth-evm --bench pipeline

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_consensus::{SignableTransaction, TxLegacy};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex, keccak256};
use hearth_evm::chain::{BlockTime, Chain, ChainConfig};
use hearth_evm::genesis::Genesis;
use hearth_evm::pool::PoolConfig;
use hearth_evm::tx::{SharedTx, Tx};
use hearth_testkit::bench::Stats;

const CHAIN: u64 = 31337;
const SENDERS: usize = 2_000;
const BLOCKS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(120);

/// Moves one unit from the caller's slot to that of the address in the input, as a token does, but without checking the
/// balance. Slots are keccak256(address ‖ 0).
const TOKEN: &[u8] = &hex!("5f602052335f5260405f2060018154039055" "5f355f5260405f2060018154019055" "00");
const CONTRACT: Address = Address::repeat_byte(0xcc);

fn sender(index: usize) -> Address {
    Address::from_slice(&keccak256((index as u64).to_be_bytes())[12..])
}

fn recipient(index: usize) -> Address {
    Address::from_slice(&keccak256(((1u64 << 32) + index as u64).to_be_bytes())[12..])
}

fn tx(from: Address, nonce: u64, to: Address, input: Bytes, gas_limit: u64) -> SharedTx {
    let (to, value) = (TxKind::Call(to), U256::from(u64::from(input.is_empty())));
    let gas_price = 1_000_000_000_000;
    let tx = TxLegacy { chain_id: Some(CHAIN), nonce, gas_price, gas_limit, to, value, input };
    Arc::new(Tx::with_sender(tx.into_signed(Tx::impersonated_signature(&from)).into(), from))
}

struct Kind {
    name: &'static str,
    /// At least; the first block has as many.
    in_a_block: usize,
    gas_limit: u64,
    of: fn(usize, Address, u64) -> SharedTx,
}

fn transfer(index: usize, from: Address, nonce: u64) -> SharedTx {
    tx(from, nonce, recipient(index % SENDERS), Bytes::new(), 21_000)
}

fn token(index: usize, from: Address, nonce: u64) -> SharedTx {
    tx(from, nonce, CONTRACT, recipient(index % SENDERS).into_word().to_vec().into(), 70_000)
}

const KINDS: &[Kind] = &[
    Kind { name: "transfers, 2000 in a block", in_a_block: 2_000, gas_limit: 21_000, of: transfer },
    Kind { name: "transfers, 10000 in a block", in_a_block: 10_000, gas_limit: 21_000, of: transfer },
    Kind { name: "token, 2000 in a block", in_a_block: 2_000, gas_limit: 70_000, of: token },
    Kind { name: "token, 10000 in a block", in_a_block: 10_000, gas_limit: 70_000, of: token },
];

/// Returns nanoseconds per transaction, from the start of the first block until the last one is published, and how many
/// blocks were executed ahead.
fn time(kind: &Kind, txs: &[SharedTx], overlap: bool, threads: usize, folder: bool) -> (f64, u64) {
    let ether = U256::from(10).pow(U256::from(18));
    let accounts: Vec<_> = (0..SENDERS).map(|index| (sender(index), ether * U256::from(1_000_000))).collect();
    let mut genesis = Genesis::dev(CHAIN, &accounts, kind.in_a_block as u64 * kind.gas_limit);
    let contract = genesis.alloc.entry(CONTRACT).or_default();
    contract.code = Some(Bytes::from_static(TOKEN));
    contract.storage = Some(slots().collect());
    let pool = PoolConfig { capacity: txs.len(), max_bytes: 4 << 30, ..PoolConfig::default() };
    let dir = folder.then(|| tempfile::tempdir().expect("a folder"));
    let dir = dir.as_ref().map(|dir| dir.path().to_owned());
    let block_time = BlockTime::Manual;
    let chain = Chain::open(ChainConfig { dir, pool, block_time, overlap, threads, ..ChainConfig::new(genesis) })
        .expect("open");
    let hashes: Vec<B256> = chain.submit_recovered(txs.to_vec()).into_iter().map(|hash| hash.expect("taken")).collect();
    let began = Instant::now();
    chain.set_block_time(BlockTime::Instant).expect("it is");
    assert!(chain.settled(&hashes[hashes.len() - 1..], PATIENCE), "{:?}", chain.failure());
    let nanos = began.elapsed().as_nanos() as f64 / txs.len() as f64;
    chain.stop();
    assert!(hashes.iter().all(|hash| chain.tx(hash).is_some()), "all are in blocks");
    // Calls use less gas than they name, so later blocks hold more of them.
    assert!((1..=BLOCKS as u64).contains(&chain.head().number()));
    (nanos, chain.metrics().ahead)
}

fn slots() -> impl Iterator<Item = (B256, B256)> {
    (0..SENDERS).map(|index| {
        let mut key = [0; 64];
        key[12..32].copy_from_slice(sender(index).as_slice());
        (keccak256(key), B256::from(U256::from(1_000_000)))
    })
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (mut filter, mut rounds) = (None, 7);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => rounds = args.next().and_then(|count| count.parse().ok()).expect("--rounds N"),
            _ => filter = Some(arg),
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for kind in KINDS {
        if filter.as_ref().is_some_and(|filter| !kind.name.contains(filter.as_str())) {
            continue;
        }
        let count = BLOCKS * kind.in_a_block;
        let txs: Vec<_> = (0..count).map(|i| (kind.of)(i, sender(i % SENDERS), (i / SENDERS) as u64)).collect();
        for threads in [1, cores.min(4)] {
            for folder in [false, true] {
                report(kind, &txs, threads, folder, rounds);
            }
        }
    }
}

fn report(kind: &Kind, txs: &[SharedTx], threads: usize, folder: bool, rounds: usize) {
    let (mut apart, mut over, mut ratios, mut ahead) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..rounds {
        apart.push(time(kind, txs, false, threads, folder).0);
        let (nanos, blocks) = time(kind, txs, true, threads, folder);
        over.push(nanos);
        ahead += blocks;
        ratios.push(apart[apart.len() - 1] / nanos);
    }
    let place = if folder { "in a folder" } else { "in memory" };
    println!("{}, executed by {threads} threads, {place}: ns per transaction, {rounds} rounds", kind.name);
    for (what, samples) in [("one after the other", &mut apart), ("executed ahead", &mut over)] {
        let Stats { p5, median, p95 } = Stats::of(samples);
        println!("  {what:<24} {median:>9.0}  [{p5:.0} – {p95:.0}]");
    }
    let ratio = Stats::of(&mut ratios).median;
    let verdict = if ratio >= 1.0 { "met" } else { "MISSED" };
    let ahead = ahead as f64 / rounds as f64;
    println!("  {:<24} {ratio:>9.2}×  floor 1.0× {verdict}; {ahead:.1} of at most {BLOCKS} blocks ahead", "ratio");
}
