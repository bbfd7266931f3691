//! Blocks of one kind of transaction each: revm in memory, and this crate's executors beside it, in alternating rounds.
//!
//! reads   the bench's name filter; `--rounds N`; `--only COLUMN`, a column's number, for a profiler
//! writes  nanoseconds per transaction, and the medians of the rounds' ratios beside their goals
//! memory  some ten megabytes
//!
//! The yardstick is one revm over a `CacheDB` that holds all accounts, fed with transactions prepared before, each
//! committed as it ends. Ours gets the node's own transactions over the same `CacheDB` and returns what the node needs:
//! verdicts in order and the block's changes. The last column takes the node's state instead and computes the root
//! of the state after the block.

use alloy_consensus::{TxEip1559, TxLegacy};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, hex, keccak256};
use hearth_evm::exec::{BlockEnv, BlockExecution, Verdict, execute};
use hearth_evm::genesis::Genesis;
use hearth_evm::parallel::execute_parallel;
use hearth_evm::state::{Changes, State};
use hearth_evm::tx::{SharedTx, Tx, TxEnvelope, TypedTransaction, to_tx_env};
use hearth_testkit::bench::Stats;
use revm::context::{Context, TxEnv};
use revm::database::{CacheDB, EmptyDB};
use revm::{ExecuteCommitEvm, MainBuilder, MainContext};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const CHAIN: u64 = 31337;
const BASE_FEE: u64 = 1_000_000_000;
const SENDERS: usize = 2_000;
const TRANSACTIONS: usize = 10_000;
const HEAVY: usize = 1_000;

/// A token and no more, assembled by hand. As Solidity:
///
/// ```solidity
/// contract Token {
///     event Transfer(address indexed from, address indexed to, uint256 value);
///     mapping(address => uint256) balances;
///     function transfer(address to, uint256 value) external returns (bool) {
///         require(balances[msg.sender] >= value);
///         unchecked { balances[msg.sender] -= value; balances[to] += value; }
///         emit Transfer(msg.sender, to, value);
///         return true;
///     }
/// }
/// ```
const TOKEN: &[u8] = &hex!(
    "60003560e01c63a9059cbb14601357600080fd" // selector, else revert
    "5b33600052600060205260406000208054602435" // slot of the caller, its balance, the value
    "818111607a57809103909155" // balance < value: revert; the caller's new balance
    "600435806000526040600020805483019055" // slot of the recipient, its new balance
    "90600052337fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60206000a3" // Transfer
    "600160005260206000f3" // true
    "5b600080fd"
);

/// Hashes 64 bytes 300 times, and stores the last hash under the caller.
const GRINDER: &[u8] = &hex!("61012c5b60406000206000526001900380600357600051335500");

/// Hashes 64 bytes 30 times, and counts in slot 0.
const CONTENDED: &[u8] = &hex!("601e5b6040600020600052600190038060025760016000540160005500");

fn sender(index: usize) -> Address {
    Address::from_slice(&keccak256((index as u64).to_be_bytes())[12..])
}

fn recipient(index: usize) -> Address {
    Address::from_slice(&keccak256(((1u64 << 32) + index as u64).to_be_bytes())[12..])
}

fn contract(index: u64) -> Address {
    Address::from_slice(&keccak256(((1u64 << 33) + index).to_be_bytes())[12..])
}

fn token_slot(of: Address) -> U256 {
    let mut key = [0; 64];
    key[12..32].copy_from_slice(of.as_slice());
    keccak256(key).into()
}

fn genesis() -> Genesis {
    let ether = U256::from(10).pow(U256::from(18));
    let accounts: Vec<_> = (0..SENDERS).map(|index| (sender(index), ether * U256::from(10_000))).collect();
    let mut genesis = Genesis::dev(CHAIN, &accounts, 100_000_000_000);
    for (index, code) in [TOKEN, GRINDER, CONTENDED].into_iter().enumerate() {
        let account = genesis.alloc.entry(contract(index as u64)).or_default();
        account.nonce = Some(1);
        account.code = Some(Bytes::from_static(code));
    }
    let balances = (0..SENDERS).map(|index| (B256::from(token_slot(sender(index))), B256::from(ether)));
    genesis.alloc.entry(contract(0)).or_default().storage = Some(balances.collect());
    genesis
}

fn in_memory(genesis: &Genesis) -> CacheDB<EmptyDB> {
    let mut db = CacheDB::default();
    for (address, change) in genesis.changes().accounts {
        db.insert_account_info(address, change.info.expect("an account of the genesis"));
        for (slot, value) in change.storage {
            db.insert_account_storage(address, slot, value).expect("in memory");
        }
    }
    db
}

fn block() -> BlockEnv {
    let genesis = genesis();
    BlockEnv {
        number: 1,
        timestamp: 12,
        beneficiary: Address::repeat_byte(0xbe),
        gas_limit: genesis.gas_limit,
        base_fee: BASE_FEE,
        prevrandao: B256::ZERO,
        parent_hash: Some(B256::ZERO),
        parent_beacon_block_root: Some(B256::ZERO),
        chain_id: CHAIN,
        spec: genesis.spec(1, 12),
        limits: Default::default(),
        blobs: Default::default(),
        deposit_contract: Default::default(),
    }
}

fn tx(sender: Address, nonce: u64, to: Address, value: u64, input: Bytes, gas_limit: u64) -> SharedTx {
    let (to, value) = (TxKind::Call(to), U256::from(value));
    let typed: TypedTransaction = if nonce.is_multiple_of(2) {
        let gas_price = u128::from(BASE_FEE) + 7;
        TxLegacy { chain_id: Some(CHAIN), nonce, gas_price, gas_limit, to, value, input }.into()
    } else {
        TxEip1559 {
            chain_id: CHAIN,
            nonce,
            gas_limit,
            max_fee_per_gas: 2 * u128::from(BASE_FEE),
            max_priority_fee_per_gas: 9,
            to,
            value,
            input,
            ..Default::default()
        }
        .into()
    };
    Arc::new(Tx::with_sender(TxEnvelope::new_unhashed(typed, Signature::test_signature()), sender))
}

/// `count` transactions of the senders in turn.
fn in_turn(count: usize, of: impl Fn(usize, Address, u64) -> SharedTx) -> Vec<SharedTx> {
    (0..count).map(|index| of(index, sender(index % SENDERS), (index / SENDERS) as u64)).collect()
}

fn token_transfer(index: usize, from: Address, nonce: u64) -> SharedTx {
    let mut input = hex!("a9059cbb").to_vec();
    input.extend([0; 12]);
    input.extend(recipient(index % SENDERS));
    input.extend(U256::from(5).to_be_bytes::<32>());
    tx(from, nonce, contract(0), 0, input.into(), 100_000)
}

struct Kind {
    name: &'static str,
    txs: Vec<SharedTx>,
    /// Of two threads beside one.
    goal: f64,
}

fn kinds() -> Vec<Kind> {
    let none = Bytes::new;
    vec![
        Kind {
            name: "transfers",
            txs: in_turn(TRANSACTIONS, |i, from, nonce| tx(from, nonce, recipient(i % SENDERS), 5, none(), 21_000)),
            goal: 1.6,
        },
        Kind {
            name: "transfers, 2000 in a block",
            txs: in_turn(SENDERS, |i, from, nonce| tx(from, nonce, recipient(i), 5, none(), 21_000)),
            goal: 1.6,
        },
        Kind { name: "token", txs: in_turn(TRANSACTIONS, token_transfer), goal: 1.8 },
        Kind {
            name: "token and transfers",
            txs: in_turn(TRANSACTIONS, |i, from, nonce| match (i / 3) % 2 {
                0 => token_transfer(i, from, nonce),
                _ => tx(from, nonce, recipient(i % SENDERS), 5, none(), 21_000),
            }),
            goal: 1.6,
        },
        Kind {
            name: "heavy calls",
            txs: in_turn(HEAVY, |_, from, nonce| tx(from, nonce, contract(1), 0, none(), 200_000)),
            goal: 1.6,
        },
        Kind {
            name: "conflict: one slot",
            txs: in_turn(TRANSACTIONS, |_, from, nonce| tx(from, nonce, contract(2), 0, none(), 100_000)),
            goal: 0.9,
        },
        Kind {
            name: "conflict: one sender's transfers",
            txs: (0..TRANSACTIONS).map(|i| tx(sender(0), i as u64, recipient(0), 5, none(), 21_000)).collect(),
            goal: 0.9,
        },
        Kind {
            name: "conflict: one sender's tokens",
            txs: (0..TRANSACTIONS).map(|i| token_transfer(0, sender(0), i as u64)).collect(),
            goal: 0.9,
        },
    ]
}

/// Nanoseconds per transaction of one run of `work`; what it returns is dropped outside the time.
fn time<T>(count: usize, work: impl FnOnce() -> T) -> f64 {
    let began = Instant::now();
    let result = black_box(work());
    let nanos = began.elapsed().as_nanos() as f64;
    drop(result);
    nanos / count as f64
}

fn by_revm(db: CacheDB<EmptyDB>, env: &BlockEnv, txs: Vec<TxEnv>) -> impl Sized {
    let mut evm = Context::mainnet().with_db(db).with_cfg(env.cfg()).with_block(env.block()).build_mainnet();
    let results: Vec<_> = txs.into_iter().map(|tx| evm.transact_commit(tx).expect("it is valid")).collect();
    (evm.ctx.journaled_state.database, results)
}

fn all_included(executed: &BlockExecution, count: usize) -> bool {
    let included = |verdict: &&Verdict| matches!(verdict, Verdict::Included(outcome) if outcome.status);
    executed.verdicts.iter().filter(included).count() == count
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (mut filter, mut rounds, mut only) = (None, 15, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => rounds = args.next().and_then(|count| count.parse().ok()).expect("--rounds N"),
            "--only" => only = args.next().and_then(|column| column.parse::<usize>().ok()),
            _ => filter = Some(arg),
        }
    }
    let (genesis, env) = (genesis(), block());
    let (db, state) = (in_memory(&genesis), State::open(None, &genesis).expect("in memory"));
    let view = state.head();
    let kinds = kinds();
    // A kind's whole name means this kind alone.
    let whole = kinds.iter().any(|kind| filter.as_deref() == Some(kind.name));
    for Kind { name, txs, goal } in kinds {
        if filter.as_deref().is_some_and(|filter| if whole { name != filter } else { !name.contains(filter) }) {
            continue;
        }
        let count = txs.len();
        assert!(all_included(&execute_parallel(&db, &env, &txs, 2), count), "{name}: all are included");
        let mut times = [const { Vec::new() }; 6];
        for _ in 0..rounds {
            let (fresh, envs) = (db.clone(), txs.iter().map(|tx| to_tx_env(tx)).collect());
            let with_root = |threads| {
                state.set_threads(threads);
                let mut executed = execute_parallel(&view, &env, &txs, threads);
                // Shared, as the node has them.
                let changes = Arc::new(std::mem::take(&mut executed.changes));
                let root = state.root_after_shared(&changes);
                (executed, changes, root)
            };
            let mut fresh = Some((fresh, envs));
            for (column, times) in times.iter_mut().enumerate() {
                if only.is_some_and(|only| only != column) {
                    continue;
                }
                if column >= 4 {
                    // The root of the same changes would be remembered.
                    state.root_after(&Changes::default());
                }
                times.push(match column {
                    0 => {
                        let (fresh, envs) = fresh.take().expect("once a round");
                        time(count, || by_revm(fresh, &env, envs))
                    }
                    1 => time(count, || execute(&db, &env, &txs)),
                    2 => time(count, || execute_parallel(&db, &env, &txs, 1)),
                    3 => time(count, || execute_parallel(&db, &env, &txs, 2)),
                    4 => time(count, || with_root(1)),
                    _ => time(count, || with_root(2)),
                });
            }
        }
        match only {
            None => report(name, count, &times, goal),
            Some(column) => println!("{name}: {:.0} ns per transaction", Stats::of(&mut times[column]).median),
        }
    }
}

fn report(name: &str, count: usize, times: &[Vec<f64>; 6], goal: f64) {
    let median = |samples: &[f64]| Stats::of(&mut samples.to_vec()).median;
    println!("{name} ({count} in a block), ns per transaction, medians of {} rounds", times[0].len());
    let columns = [
        "revm in memory",
        "in order by revm",
        "one thread",
        "two threads",
        "one thread, state and root",
        "two threads, state and root",
    ];
    for (column, samples) in columns.iter().zip(times) {
        let Stats { p5, median, p95 } = Stats::of(&mut samples.clone());
        println!("  {column:<28} {median:>9.0}  [{p5:.0} – {p95:.0}]");
    }
    let ratio = |label: &str, of: usize, to: usize, goal: Option<f64>| {
        let ratios: Vec<f64> = times[of].iter().zip(&times[to]).map(|(of, to)| of / to).collect();
        let ratio = median(&ratios);
        let verdict = goal
            .map_or(String::new(), |goal| format!("   floor {goal}× {}", if ratio >= goal { "met" } else { "MISSED" }));
        println!("  {label:<40} {ratio:>6.2}×{verdict}");
    };
    let transfers = name.starts_with("transfers");
    ratio("one thread beside revm", 0, 2, None);
    ratio("one thread, root included, beside revm", 0, 4, transfers.then_some(0.7));
    ratio("two threads beside one", 2, 3, Some(goal));
    ratio("two threads beside one, roots included", 4, 5, Some(goal));
    ratio("two threads beside revm", 0, 3, None);
}
