//! Whole blocks with many accounts beside blocks with ten thousand, in alternating rounds.
//!
//! reads   a number of accounts from the command line (1,000,000; the goal is of 10,000,000); `--rounds N`
//! writes  milliseconds of a block and its parts, of the processors for it, nanoseconds of a read, and the medians of
//!         the rounds' ratios beside the goal of the block; a request's time is more than the read's by far
//! memory  both states, some 250 B an account and what 128 blocks replaced
//! source  the report also gives the CPU time that all threads spend on a block: on a machine with other work, only
//!         that can be compared
//!
//! A block is 5,000 plain transfers between accounts drawn from all, as the node makes it: executed on two threads, the
//! root of the state beside those of transactions and receipts, committed in memory.
//!
//! cargo bench -p hearth-evm --bench accounts [-- 10000000 --rounds 40]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use alloy_consensus::TxLegacy;
use alloy_primitives::{Address, B256, Signature, U256, keccak256};
use hearth_evm::block::{Body, Roots};
use hearth_evm::exec::BlockEnv;
use hearth_evm::genesis::Genesis;
use hearth_evm::parallel::execute_parallel;
use hearth_evm::state::{Account, Entry, State};
use hearth_evm::tx::{SharedTx, Tx, TxEnvelope};
use hearth_testkit::bench::Stats;
use hearth_testkit::random::Random;
use rustix::time::{ClockId, clock_gettime};

const CHAIN: u64 = 31337;
const BASE_FEE: u64 = 1_000_000_000;
const TRANSACTIONS: usize = 5_000;
const READS: usize = 20_000;
const FEW: u64 = 10_000;
/// Many accounts over few, at most.
const GOAL: f64 = 2.0;

fn address(number: u64) -> Address {
    Address::from_slice(&keccak256(number.to_le_bytes())[..20])
}

/// A chain with so many accounts.
struct Chain {
    state: State,
    genesis: Genesis,
    count: usize,
    random: Random,
    nonces: HashMap<usize, u64>,
}

/// What one round took: milliseconds of execution, roots, commit and all, and of the processors; nanoseconds of a read.
type Times = [f64; 6];
const PARTS: [&str; 6] =
    ["execution, ms", "roots, ms", "commit, ms", "a whole block, ms", "processors for it, ms", "a balance read, ns"];

/// Milliseconds that all threads of this process have computed.
fn processors() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

impl Chain {
    fn new(count: u64) -> Self {
        let genesis = Genesis::dev(CHAIN, &[], 500_000_000);
        let balance = U256::from(10).pow(U256::from(18));
        let account = Account { balance, ..Default::default() };
        let entries = (0..count).map(|number| Ok(Entry::Account { address: address(number), account }));
        let state = State::load(None, &genesis, 0, &[], entries).expect("a state in memory");
        Self { state, genesis, count: count as usize, random: Random(count), nonces: HashMap::new() }
    }

    fn env(&self) -> BlockEnv {
        let number = self.state.head().number() + 1;
        BlockEnv {
            number,
            timestamp: number,
            beneficiary: Address::repeat_byte(0xbe),
            gas_limit: self.genesis.gas_limit,
            base_fee: BASE_FEE,
            prevrandao: B256::ZERO,
            parent_hash: Some(self.state.head().block_hash()),
            parent_beacon_block_root: Some(B256::ZERO),
            chain_id: CHAIN,
            spec: self.genesis.spec(number, number),
            limits: Default::default(),
            blobs: Default::default(),
            deposit_contract: Default::default(),
        }
    }

    fn transfer(&mut self) -> SharedTx {
        let (from, to) = (self.random.index(self.count), self.random.index(self.count));
        let nonce = self.nonces.entry(from).or_insert(0);
        let transfer = TxLegacy {
            chain_id: Some(CHAIN),
            nonce: *nonce,
            gas_price: u128::from(BASE_FEE) + 7,
            gas_limit: 21_000,
            to: address(to as u64).into(),
            value: U256::from(5),
            ..Default::default()
        };
        *nonce += 1;
        let envelope = TxEnvelope::new_unhashed(transfer.into(), Signature::test_signature());
        Arc::new(Tx::with_sender(envelope, address(from as u64)))
    }

    fn round(&mut self) -> Times {
        let txs: Vec<SharedTx> = (0..TRANSACTIONS).map(|_| self.transfer()).collect();
        let (env, view) = (self.env(), self.state.head());
        let (began, computed) = (Instant::now(), processors());
        let ms = || began.elapsed().as_secs_f64() * 1e3;
        let executed = execute_parallel(&view, &env, &txs, 2);
        let execution = ms();
        let body = Body::new(&txs, executed.verdicts, BASE_FEE);
        let changes = Arc::new(executed.changes);
        assert_eq!(body.txs.len(), TRANSACTIONS, "all are included");
        let (root, roots) = std::thread::scope(|scope| {
            let others = scope.spawn(|| Roots::of(&body));
            (self.state.root_after_shared(&changes), others.join().expect("nobody panicked"))
        });
        let rooted = ms();
        let committed = self.state.commit_shared(env.number, roots.transactions, &changes).expect("it follows");
        drop(changes);
        let (all, computed) = (ms(), processors() - computed);
        assert_eq!(root, committed);
        let view = self.state.head();
        let some: Vec<Address> = (0..READS).map(|_| address(self.random.index(self.count) as u64)).collect();
        let began = Instant::now();
        let sum = some.iter().filter_map(|address| view.account(address)).fold(U256::ZERO, |sum, a| sum + a.balance);
        let read = began.elapsed().as_nanos() as f64 / READS as f64;
        assert!(!sum.is_zero());
        [execution, rooted - execution, all - rooted, all, computed, read]
    }
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (mut many, mut rounds) = (1_000_000, 40);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => rounds = args.next().and_then(|count| count.parse().ok()).expect("--rounds N"),
            _ => many = arg.replace('_', "").parse().expect("a number of accounts"),
        }
    }
    let mut chains = [Chain::new(FEW), Chain::new(many)];
    let mut times: [Vec<Times>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (chain, times) in chains.iter_mut().zip(&mut times) {
            times.push(chain.round());
        }
    }
    println!("blocks of {TRANSACTIONS} transfers, {FEW} accounts beside {many}, medians of {rounds} rounds");
    for (part, name) in PARTS.iter().enumerate() {
        let of = |chain: usize| Stats::of(&mut times[chain].iter().map(|times| times[part]).collect::<Vec<_>>()).median;
        let mut ratios: Vec<f64> = times[0].iter().zip(&times[1]).map(|(few, many)| many[part] / few[part]).collect();
        let ratio = Stats::of(&mut ratios).median;
        let verdict = match part {
            3 => format!("   goal {GOAL}× at most: {}", if ratio <= GOAL { "met" } else { "MISSED" }),
            _ => String::new(),
        };
        println!("  {name:<22} {:>9.2} {:>9.2} {ratio:>7.2}×{verdict}", of(0), of(1));
    }
}
